"""TCP and small packets from host to host through three forwarders in turn: Valiant, dpdk-testpmd and the Linux kernel.

All three use the same cables, the same hosts and the same offload settings, and take turns, so that what disturbs
the machine disturbs all of them. Testpmd uses AF_XDP on the router's ends of the cables, Valiant what it chooses by itself.
"""

import json
import os
import pathlib
import shutil
import statistics
import time

import lab as lab_module
from lab import ROOT, LabError, cpu_seconds, sh, wait_for

# busy_budget=0: the driver's preferred busy polling needs a tuned NIC queue and makes veth ports slower and uneven.
AF_XDP = "net_af_xdp{i},iface={dev},busy_budget=0"
FLAT = ("10.9.0.1", "10.9.0.2")
LOADER = ROOT / "tests" / "lab" / "udpload.py"
# The loads at which the processor time of a packet is measured: packets a second, and how many the host sends at a time.
LOADS = ((50_000, 1), (200_000, 8))
TRIES = 4
NAMES = {"valiant": "Valiant (IP router)", "testpmd": "dpdk-testpmd (io)", "kernel": "Linux kernel (IP)"}


class Placement:
    """The cores of the forwarder and of the hosts. Hosts never run on the forwarder's core; with four cores, each has its own."""

    def __init__(self):
        cores = lab_module.cores()
        self.forwarder = cores[-1]
        self.client = cores[0]
        self.server = cores[1] if len(cores) > 2 else cores[0]
        self.shared = len(cores) == 1

    def __str__(self):
        hosts = f"core {self.client}" if self.client == self.server else f"cores {self.client} and {self.server}"
        note = " (one core for everything: expect little)" if self.shared else ""
        return f"hosts on {hosts}, forwarder on core {self.forwarder}{note}"


class Comparison:
    """`client` reaches `server` by their routed addresses (Valiant, kernel) or on one flat network (testpmd)."""

    def __init__(self, lab, router, ports, client, server, routed_server, gateways, start_valiant):
        self.lab, self.router, self.ports = lab, router, ports
        self.client, self.server = client, server
        self.routed_server, self.gateways, self.start_valiant = routed_server, gateways, start_valiant
        self.place = Placement()

    def prepare(self):
        for host, address in zip((self.client, self.server), FLAT):
            host.ip("addr", "add", address + "/24", "dev", "eth0", check=False)

    # Each start_* returns the address to send to, the forwarder's process or None, and a function that undoes the start.

    def start_testpmd(self):
        if not shutil.which("dpdk-testpmd"):
            raise LabError("dpdk-testpmd is not installed; run scripts/bootstrap")
        main = self.place.client
        vdevs = [x for i, dev in enumerate(self.ports) for x in ("--vdev", AF_XDP.format(i=i, dev=dev))]
        process = self.router.popen(
            "dpdk-testpmd", "--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--log-level=3",
            "--file-prefix", f"{self.lab.name}-testpmd", "--lcores", f"0@{main},1@{self.place.forwarder}", *vdevs,
            "--", "--forward-mode=io", "--auto-start", "--nb-cores=1", "--no-mlockall", "--total-num-mbufs=16384",
            "--stats-period=600", log="testpmd.log")
        return FLAT[1], process, lambda: self.lab.stop(process)

    def start_kernel(self):
        for dev, gateway in zip(self.ports, self.gateways):
            self.router.ip("addr", "add", gateway, "dev", dev)
        self.router.sh("sysctl", "-qw", "net.ipv4.ip_forward=1")

        def undo():
            self.router.sh("sysctl", "-qw", "net.ipv4.ip_forward=0")
            for dev, gateway in zip(self.ports, self.gateways):
                self.router.ip("addr", "del", gateway, "dev", dev)

        return self.routed_server, None, undo

    def start_router(self):
        router = self.start_valiant(cpu=self.place.forwarder)
        wait_for("the router's ports", lambda: " queue" in router.output(), 5)
        self.ports_of_valiant = "AF_PACKET" if ": AF_PACKET, " in router.output() else "AF_XDP"
        return self.routed_server, router.process, router.stop

    def measure(self, start, seconds):
        address, process, undo = start()
        # A server of its own: one whose last client was cut off would remain busy with it.
        server = self.server.popen("taskset", "-c", self.place.server, "iperf3", "-s", "-1", "-p", "5300")
        try:
            wait_for("iperf3 -s", lambda: "5300" in self.server.sh("ss", "-Hltn"), 3)
            wait_for(f"{address} through {start.__name__}", lambda: self._ping(address), 15)
            before, cpu = busy(), cpu_seconds(process.pid) if process else 0.0
            began = time.monotonic()
            out = self.client.sh("taskset", "-c", self.place.client, "iperf3", "-c", address, "-p", "5300", "-t", seconds,
                                 "-i", "0", "-J", "--connect-timeout", "3000", check=False, timeout=seconds + 20)
            took, after = time.monotonic() - began, busy()
            result = json.loads(out)
            if "error" in result:
                raise LabError(f"iperf3: {result['error']}")
            sent, received = result["end"]["sum_sent"], result["end"]["sum_received"]
            return {
                **({"ports": self.ports_of_valiant} if start == self.start_router else {}),
                "gbps": received["bits_per_second"] / 1e9,
                "retransmits": sent.get("retransmits", 0),
                "hosts_busy": share(before, after, self.place.client),
                "forwarder_cpu": (cpu_seconds(process.pid) - cpu) / took if process else None,
            }
        finally:
            self.lab.stop(server)
            undo()

    def processor_time(self, start, load, seconds):
        """The processor time of everything that a packet meets from host to host, at a given load of 64-byte packets."""
        address, _, undo = start()
        pps, group = load
        try:
            wait_for(f"{address} through {start.__name__}", lambda: self._ping(address), 15)
            for _ in range(TRIES):
                sender = self.client.popen("taskset", "-c", self.place.client, LOADER, "send", address, pps, group, seconds + 1)
                time.sleep(0.5)
                before, began = (self._counts(), self._spent()), time.monotonic()
                time.sleep(seconds)
                after, took = (self._counts(), self._spent()), time.monotonic() - began
                sender.wait(seconds + 20)
                sent, packets = (b - a for a, b in zip(before[0], after[0]))
                # A machine that was stopped meanwhile has not even sent.
                if sent > 0.9 * pps * took and packets > 0:
                    break
            else:
                raise LabError(f"{start.__name__}: {sent:,} packets sent and {packets:,} arrived in {took:.1f} s")
            return {"pps": packets / took, "ns": (after[1] - before[1]) / packets * 1e9}
        finally:
            undo()

    def _counts(self):
        """Packets that the client has sent and the server has received."""
        return [int(host.sh("cat", f"/sys/class/net/eth0/statistics/{what}_packets"))
                for host, what in ((self.client, "tx"), (self.server, "rx"))]

    def _spent(self):
        """Seconds that the machine's processors have worked, without what processes outside the lab have used. Where the
        kernel handles packets is not always known (softirqs run in anybody's time), so hosts and forwarder are not separated."""
        tick = os.sysconf("SC_CLK_TCK")
        fields = [int(x) for x in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        worked = (sum(fields) - fields[3] - fields[4] - fields[7]) / tick
        ours = {int(p) for space in self.lab.spaces.values() for p in sh("ip", "netns", "pids", space.name).split()}
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                text = path.read_text()
            except OSError:
                continue
            if int(path.parent.name) not in ours and "(ksoftirqd" not in text:
                # With what children that have ended had used.
                worked -= sum(map(int, text.rpartition(")")[2].split()[11:15])) / tick
        return worked

    def run_loads(self, rounds, seconds, say, with_valiant=True):
        """Rounds of all forwarders at each load; returns load -> name -> list of measurements."""
        sink = self.server.popen("taskset", "-c", self.place.server, LOADER, "sink")
        starts = self._starts(with_valiant)
        names = list(starts)
        results: dict[tuple[int, int], dict[str, list[dict[str, float]]]] = {load: {n: [] for n in names} for load in LOADS}
        for i in range(rounds):
            for load in LOADS:
                for name in names[i % len(names):] + names[: i % len(names)]:
                    got = self.processor_time(starts[name], load, seconds)
                    results[load][name].append(got)
                    say(f"round {i + 1}  {name:8}  {got['pps']:8,.0f} packets/s   {got['ns']:7,.0f} ns of processor time each")
        self.lab.stop(sink)
        return results

    def _ping(self, address):
        return " 0% packet loss" in self.client.sh("ping", "-c", "1", "-W", "0.2", address, check=False)

    def _starts(self, with_valiant, partial_checksums=False):
        starts = {"testpmd": self.start_testpmd, "kernel": self.start_kernel}
        if partial_checksums:
            # It does not complete them, so that no TCP gets through.
            del starts["testpmd"]
        return {"valiant": self.start_router, **starts} if with_valiant else starts

    def run(self, rounds, seconds, say, with_valiant=True, segments=False):
        """Rounds of all forwarders; returns name -> list of measurements."""
        self.prepare()
        starts = self._starts(with_valiant, segments)
        results: dict[str, list[dict[str, float]]] = {name: [] for name in starts}
        names = list(starts)
        for i in range(rounds):
            # Another order in each round, so that no forwarder is always the first.
            for name in names[i % len(names):] + names[: i % len(names)]:
                got = self.measure(starts[name], seconds)
                results[name].append(got)
                say(f"round {i + 1}  {name:8}  {got['gbps']:6.2f} Gbit/s   {got['retransmits']:5} retransmits")
        return results


def busy():
    """core -> (busy, all) jiffies."""
    table = {}
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        if line.startswith("cpu") and line[3].isdigit():
            name, *fields = line.split()
            spent = [int(f) for f in fields[:8]]
            table[int(name[3:])] = (sum(spent) - spent[3] - spent[4], sum(spent))
    return table


def share(before, after, core):
    done, spent = (after[core][i] - before[core][i] for i in (0, 1))
    return done / spent if spent else 0.0


def summary(results, place, segments=False):
    """The three lines, the ratio and what limits it, as text; and the ratio, or None without Valiant."""
    lines, median = [], {}
    for name, runs in results.items():
        rates = [r["gbps"] for r in runs]
        median[name] = statistics.median(rates)
        ports = {"kernel": "no port: passes buffers", "testpmd": "AF_XDP"}.get(name, runs[0].get("ports", "AF_XDP"))
        lines.append(f"{NAMES[name]:22} {median[name]:6.2f} Gbit/s   ({min(rates):.2f} to {max(rates):.2f}, {ports})")
    ratio = None
    if "valiant" in median:
        # The measurements of one round are made in the same conditions; the figure is the median of the rounds' ratios.
        if "testpmd" in median:
            pairs = [v["gbps"] / t["gbps"] for v, t in zip(results["valiant"], results["testpmd"])]
            ratio = statistics.median(pairs)
            lines.append(f"{'Valiant / testpmd':22} {ratio:6.2f}          (rounds: {', '.join(f'{p:.2f}' for p in pairs)}; "
                         "target 0.95)")
        # A connection that stood still for all of its round has no rate to compare with.
        of_kernel = [v["gbps"] / k["gbps"] for v, k in zip(results["valiant"], results["kernel"]) if k["gbps"] > 0]
        if of_kernel:
            lines.append(f"{'Valiant / kernel':22} {statistics.median(of_kernel):6.2f}          "
                         f"(rounds: {', '.join(f'{p:.2f}' for p in of_kernel)})")
    runs = results["valiant" if "valiant" in results else "testpmd" if "testpmd" in results else "kernel"]
    hosts = statistics.median(r["hosts_busy"] for r in runs)
    forwarder = statistics.median(r["forwarder_cpu"] or 0 for r in runs)
    lines.append(limit(hosts, forwarder))
    offload = "on for all, as veth has it by default" if segments else "off for all"
    lines.append(f"{place}; iperf3 TCP, one connection, MTU 1500, every checksum and segmentation offload {offload}.")
    return lines, ratio


def summary_of_loads(results):
    """What `run_loads` has found, as lines of text."""
    lines = []
    for (pps, group), measured in results.items():
        lines.append(f"{pps:,} packets of 64 bytes a second, {group} at a time: processor time of a packet")
        for name, runs in measured.items():
            times, rates = ([r[key] for r in runs] for key in ("ns", "pps"))
            short = "" if statistics.median(rates) > 0.98 * pps else f", only {statistics.median(rates):,.0f} packets/s arrived"
            lines.append(f"  {NAMES[name]:22} {statistics.median(times):7,.0f} ns   ({min(times):,.0f} to {max(times):,.0f}{short})")
        if "valiant" in measured:
            pairs = [v["ns"] / t["ns"] for v, t in zip(measured["valiant"], measured["testpmd"])]
            lines.append(f"  {'Valiant / testpmd':22} {statistics.median(pairs):7.2f}      "
                         f"(rounds: {', '.join(f'{p:.2f}' for p in pairs)})")
    lines.append("All processors together, user, system and softirq, the hosts' part included, which is the same for all three.")
    return lines


def limit(hosts, forwarder):
    text = (f"What limits it: the hosts' core was {hosts:.0%} busy, the forwarder used {forwarder:.0%} of its core. ")
    if hosts > 0.9:
        text += "The hosts are the limit: sending, checksumming and receiving every 1500-byte frame in software."
    else:
        text += ("The forwarder is the limit: a socket on veth copies each frame twice and sends by system call, and the "
                 "receiving host's TCP runs inside that call.")
    return text + " The kernel forwards without copying: it hands the same buffer on."


def versions():
    """A description of what was compared, for the data file."""
    testpmd = sh("dpkg-query", "-W", "-f", "${Version}", "dpdk", check=False) or "unknown"
    return f"DPDK {testpmd}, {sh('iperf3', '--version').split()[1]}, Linux {sh('uname', '-r').strip()}"
