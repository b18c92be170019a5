"""Forwarders side by side: how each is run and counted, the rounds, the data files, the tables.

All of them forward with one core, pinned, between the same virtual devices, one after the other in every round, so that
other work of the machine affects all of them equally. Packets are counted for a second of the forwarding thread's time on the processor,
so that other programs on that core have no influence; on a quiet machine that is a second by the clock. Before each round the
machine is given some time to become quiet, and what others used of it is in the data. A figure is the median of the rounds' ratios
to the device's first case, with the smallest and the largest.
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchlib import about, valiant_binary, write_data
from control import ControlSocket
from lab import ROOT

NULL_IN = "net_null0,size=60"
NULL_OUT = "net_null1,size=60,no-rx=1"
MEMORY_MB = 1024
# With hugepages. Valiant uses 4 KB pages instead if this is more than is free.
HUGE_MB = 320
PEER = "testpmd"
# testpmd's default burst, and what it needs for longer ones: its own cache of 250 buffers is too small for them.
DEFAULT_BURST, CACHE = 32, ["--mbcache=512"]
# The largest share of the processors that others may use on a machine that counts as quiet, and for how many seconds it is measured.
QUIET, LOOK = 0.05, 0.5
# Seconds until a forwarder runs at a steady rate: after its start, and after it was continued.
SETTLE, SETTLE_AGAIN = 0.3, 0.02
# Seconds that a program of ours may take to start; with gigabytes of packets it takes longer.
START = 20
# Another build of it may be named, as DPDK's own build makes it: with static libraries, for this processor.
TESTPMD = os.environ.get("TESTPMD", "dpdk-testpmd")
PEER_COMMAND = f"{TESTPMD} --forward-mode=io --burst=32"


class Failed(Exception):
    """A forwarder gave no figures; the text is its error message."""


class Missing(Exception):
    """A peer cannot run here; the text has the reason."""


class Machine:
    """Where forwarders run: on core `cpu`, for `seconds`, with `directory` for their files, and hugepages for all or none.

    With `keep` each is started once and stopped by a signal while others have their turn, so that turns can be short; forwarders that take
    long to start are always kept."""

    def __init__(self, cpu, seconds, directory, huge=False, keep=False):
        self.cpu, self.seconds, self.directory, self.huge = cpu, seconds, directory, huge
        self.keep, self.kept, self.numbers = keep, {}, itertools.count()
        self.other = next((c for c in sorted(os.sched_getaffinity(0)) if c != cpu), cpu)

    def pages(self):
        """Arguments that keep a program from using hugepages, if it is not to use them."""
        return [] if self.huge else ["--no-huge"]

    def memory(self, megabytes):
        """The arguments that limit the memory of a DPDK program. In hugepages it may take as much as it needs."""
        return [] if self.huge else ["--no-huge", "-m", str(megabytes)]

    @staticmethod
    def prefix(name):
        """The name of a DPDK program's files."""
        return f"bench-{os.getpid()}-{name}"

    def environment(self, name):
        """DPDK's arguments: the main lcore elsewhere, the forwarding one on the core; no PCI."""
        return [*self.memory(MEMORY_MB), "--no-pci", "--lcores", f"0@{self.other},1@{self.cpu}",
                "--file-prefix", self.prefix(name)]

    def number(self):
        """A number that has not been used before."""
        return next(self.numbers)

    def sample(self, count, threads):
        """Packets for a second of the threads' time on the processor, by what `count` returns, and the threads' share of the
        clock's time: medians of windows of a second, or one shorter window."""
        rates, shares = [], []
        for _ in range(max(int(self.seconds), 1)):
            packets, used, began = count(), on_processor(threads), time.monotonic()
            time.sleep(min(self.seconds, 1))
            used, took = on_processor(threads) - used, time.monotonic() - began
            rates.append((count() - packets) / max(used, 1e-3))
            shares.append(used / took)
        return statistics.median(rates), {"on_processor_in_last_round": round(statistics.median(shares), 2)}

    @contextlib.contextmanager
    def turn(self, key, start, keep=False):
        """The forwarder `start()`, for its turn: it is started anew, or goes on if it is one of those that are kept."""
        if not (keep or self.keep):
            with contextlib.closing(start()) as program:
                self.settle(program)
                yield program
            return
        if key not in self.kept:
            self.kept[key] = start()
            self.settle(self.kept[key])
        program = self.kept[key]
        program.process.send_signal(signal.SIGCONT)
        time.sleep(SETTLE_AGAIN if self.keep else SETTLE)
        try:
            yield program
        finally:
            program.process.send_signal(signal.SIGSTOP)

    def settle(self, program):
        """Waits until a program runs at a steady rate, and checks that it has hugepages if all are to have them."""
        time.sleep(SETTLE)
        self.check_pages(program.process)

    def check_pages(self, process):
        """An error unless a process has hugepages if all are to have them."""
        if self.huge and not huge_memory(process.pid):
            raise Failed(f"{' '.join(map(str, process.args))[:80]}...: has no hugepages, as too few are free")

    def close(self):
        """Ends the kept programs, and removes the files that DPDK programs leave behind: also those of hugepages, which
        keep their memory."""
        for program in self.kept.values():
            program.process.send_signal(signal.SIGCONT)
            with contextlib.suppress(Failed):
                program.close()
        self.kept.clear()
        for path in runtime_files().glob(self.prefix("*")):
            shutil.rmtree(path, ignore_errors=True)
        for directory in hugepage_mounts():
            for path in directory.glob(self.prefix("*")):
                path.unlink(missing_ok=True)

    def testpmd(self, source, burst=32):
        """Packets a second of io forwarding."""
        with self.turn(("testpmd", source, burst), lambda: Testpmd(self, source, burst)) as program:
            return program.measure()

    def valiant(self, config, variables, batch_size, flags=(), outputs=("out",), binary=None):
        """Packets a second that come out of `conf/CONFIG` by these elements, and cycles a packet by element."""
        key = ("valiant", binary, config, *variables, batch_size, *flags)
        with self.turn(key, lambda: Valiant(self, config, variables, batch_size, flags, outputs, binary)) as program:
            return program.measure()


class Testpmd:
    """dpdk-testpmd, forwarding."""

    def __init__(self, where, source, burst=32):
        self.where = where
        self.log = pathlib.Path(where.directory) / f"testpmd-{where.number()}.log"
        prefix = self.log.stem
        command = [TESTPMD, *where.environment(prefix), f"--vdev={source}", f"--vdev={NULL_OUT}", "--",
                   "--forward-mode=io", f"--burst={burst}", *CACHE[:burst > DEFAULT_BURST], "--total-num-mbufs=131072",
                   "--stats-period=600"]
        with open(self.log, "w") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT)
        try:
            self.telemetry = Telemetry(where.prefix(prefix), self.process)
            deadline = time.monotonic() + 30
            while self.telemetry.sent(1) == 0:
                if time.monotonic() > deadline:
                    raise OSError("nothing is forwarded")
                time.sleep(0.05)
        except (OSError, ValueError, KeyError) as problem:
            self.close()
            raise self.failed(problem) from None

    def failed(self, problem):
        return Failed(f"dpdk-testpmd: {problem}\n{tail(self.log)}")

    def measure(self):
        try:
            return self.where.sample(lambda: self.telemetry.sent(1), pinned(self.process.pid, self.where.cpu))
        except (OSError, ValueError, KeyError) as problem:
            raise self.failed(problem) from None

    def close(self):
        end(self.process)


class Valiant:
    """A configuration of ours, running."""

    def __init__(self, where, config, variables, batch_size, flags, outputs, binary=None):
        self.where, self.config, self.outputs = where, config, outputs
        control = f"{where.directory}/control-{where.number()}"
        memory = HUGE_MB if where.huge else MEMORY_MB
        command = [binary or valiant_binary(), "run", "-w", *where.pages(), "--memory", str(memory), "--cpus", str(where.cpu),
                   "--burst", str(batch_size), *flags, "-u", control, str(ROOT / "conf" / config), *variables]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True)
        self.lost = None
        try:
            self.client = ControlSocket(control, patience=START, timeout=20)
        except OSError as problem:
            raise Failed(f"{config}: valiant does not answer: {problem}\n{end(self.process)}") from None

    def measure(self):
        try:
            client = self.client
            # At the start something may be dropped, as while ARP entries are made.
            if self.lost is None:
                self.lost = client.read("drops")
            rate, notes = self.where.sample(lambda: sum(client.number(f"{out}.count") for out in self.outputs),
                                            pinned(self.process.pid, self.where.cpu))
            drops = client.read("drops")
            cycles = client.read("cycles").splitlines()
        except OSError as problem:
            raise Failed(f"{self.config}: valiant does not answer: {problem}") from None
        if drops != self.lost:
            raise Failed(f"{self.config} drops packets:\n{drops}")
        return rate, {**notes, "cycles_of_last_round": cycles}

    def close(self):
        error = end(self.process)
        if self.process.returncode not in (0, -15):
            raise Failed(f"{self.config}: valiant ended with {self.process.returncode}\n{error}")


def huge_memory(pid):
    """The memory of a process that is in hugepages, in KB."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(r"^(?:Shared|Private)_Hugetlb: +([0-9]+) kB", rollup, re.M))


def hugepage_mounts():
    """Where hugepages are mounted."""
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    return [pathlib.Path(path) for _, path, kind, *_ in mounts if kind == "hugetlbfs"]


def runtime_files():
    """Where DPDK programs keep their sockets."""
    base = "/var/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
    return pathlib.Path(base) / "dpdk"


class Telemetry:
    """DPDK's telemetry socket of a process, to read the counters of its ports. Waits for it while the process lives."""

    def __init__(self, prefix, process, patience=20):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        deadline = time.monotonic() + patience
        while True:
            try:
                self.socket.connect(str(runtime_files() / prefix / "dpdk_telemetry.v2"))
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise OSError(f"no telemetry socket of {prefix}") from None
                time.sleep(0.05)
        self.socket.recv(1 << 16)

    def sent(self, port):
        """How many packets a port has sent."""
        self.socket.send(f"/ethdev/stats,{port}".encode())
        return json.loads(self.socket.recv(1 << 16))["/ethdev/stats"]["opackets"]


def pinned(pid, cpu):
    """The threads of a process that may run on this core alone."""
    threads = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if f"\nCpus_allowed_list:\t{cpu}\n" in (task / "status").read_text():
            threads.append(int(task.name))
    if not threads:
        raise Failed(f"no thread of process {pid} is pinned to core {cpu}")
    return threads


def on_processor(threads):
    """How long these threads have run, in seconds."""
    return sum(int(pathlib.Path(f"/proc/{thread}/schedstat").read_text().split()[0]) for thread in threads) / 1e9


def kept_waiting(threads):
    """How long these threads could have run and had no processor, in seconds."""
    return sum(int(pathlib.Path(f"/proc/{thread}/schedstat").read_text().split()[1]) for thread in threads) / 1e9


def processor_time():
    """The time for which the processors have worked or were not available (steal), and their whole time, in ticks."""
    ticks = [int(n) for n in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    # user, nice, system, idle, iowait, irq, softirq, steal
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def wait_for_quiet(patience):
    """Waits until others use little of the machine, at most `patience` seconds; returns their share at the end."""
    deadline, printed = time.monotonic() + patience, False
    while True:
        worked, total = processor_time()
        time.sleep(LOOK)
        now_worked, now_total = processor_time()
        share = (now_worked - worked) / max(now_total - total, 1)
        if share <= QUIET or time.monotonic() >= deadline:
            return round(share, 3)
        if not printed:
            print(f"others use {share:.0%} of the machine: waiting at most {patience} s for it to become quiet",
                  file=sys.stderr, flush=True)
            printed = True


def tsc_mhz():
    """The rate of the time-stamp counter as the kernel knows it, which is half of its BogoMIPS; None on other processors."""
    match = re.search(r"^bogomips\s*:\s*([0-9.]+)", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return float(match[1]) / 2 if match and os.uname().machine == "x86_64" else None


def tail(path):
    """The last part of a text file."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4000))
        return file.read().decode(errors="replace")
    return ""


def end(process):
    """Ends a process; returns the rest of its error output."""
    process.terminate()
    try:
        return process.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]


def run_rounds(cases, count, patience=0):
    """Runs `cases`, {(device, name): function that returns packets a second and notes}, one after the other, `count` times. Each
    round begins when others use little of the machine, or after `patience` seconds.

    Returns for each round the load average and the share of the machine that others used (None without patience),
    {case: [packets a second]}, {case: notes of its last run} and {case: why it was given up}. A case that fails is given up; the
    first of a device must not."""
    loads, notes, absent = [], {}, {}
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in cases}
    for number in range(count):
        others = wait_for_quiet(patience) if patience else None
        loads.append((round(os.getloadavg()[0], 2), others))
        # In alternating order, so that no case always follows the same other one.
        for key in [k for k in (cases if number % 2 == 0 else reversed(cases)) if k not in absent]:
            try:
                pps, notes[key] = cases[key]()
                rates[key].append(round(pps))
            except (Failed, Missing) as problem:
                if key[1] == PEER:
                    raise
                absent[key] = str(problem)
                del rates[key]
                print(f"{'-'.join(key)}: given up: {problem}", file=sys.stderr, flush=True)
        print(f"round {number + 1}, load average {loads[-1][0]}: " + ", ".join(
            f"{device} {name} {rates[device, name][-1] / 1e6:.1f} Mpps" for device, name in cases if name == PEER), flush=True)
    return loads, rates, notes, absent


def ratios(rates, peers):
    """Median, least and most of the rounds' ratios."""
    each = [rate / peer for rate, peer in zip(rates, peers)]
    return {"ratio_median": round(statistics.median(each), 3), "ratio_min": round(min(each), 3),
            "ratio_max": round(max(each), 3)}


def nanoseconds(more, less):
    """The additional cost of a packet in the slower case, for each round."""
    each = [1e9 / m - 1e9 / s for m, s in zip(more, less)]
    return {"ns_median": round(statistics.median(each), 2), "ns_min": round(min(each), 2), "ns_max": round(max(each), 2)}


def results(device, rounds, facts, against=lambda name: []):
    """The data of a device from `run_rounds`: its description, every single rate, and the results. `against` names
    the cases that a case is also compared with."""
    loads, rates, notes, absent = rounds
    peers = rates[device, PEER]
    data = {**facts, "load_averages": [load for load, _ in loads], "peer": PEER_COMMAND, "peer_pps": peers, "cases": {}}
    for (where, name), each in rates.items():
        if where == device and name != PEER:
            data["cases"][name] = {"pps": each, **ratios(each, peers), **notes[where, name]}
    if all(others is not None for _, others in loads):
        data["others_share"] = [others for _, others in loads]
    differences: dict[str, dict[str, Any]] = {}
    for name in data["cases"]:
        kind, _, batch_size = name.rpartition("-")
        stamp, least = data["cases"].get(f"stamp-{batch_size}"), data["cases"].get(f"min-{batch_size}")
        if not kind.startswith("ip") or not stamp:
            continue
        ip = data["cases"][name]
        differences[f"routing{kind[2:]}-{batch_size}"] = {"of": f"{name} less stamp-{batch_size}", **nanoseconds(ip["pps"], stamp["pps"])}
        if least:
            # The rate of routing without the stamping: an estimate, because costs need not simply add up.
            alone = [1 / (1 / i - 1 / s + 1 / m) for i, s, m in zip(ip["pps"], stamp["pps"], least["pps"])]
            differences[f"{kind}-without-stamp-{batch_size}"] = {"estimate": True, "pps": [round(a) for a in alone],
                                                        **ratios(alone, peers)}
    if differences:
        data["derived"] = differences
    pairs = {f"{name} / {other}": ratios(data["cases"][name]["pps"], data["cases"][other]["pps"])
             for name in data["cases"] for other in against(name) if other in data["cases"]}
    if pairs:
        data["against"] = pairs
    gone = {name: reason for (where, name), reason in absent.items() if where == device}
    if gone:
        data["absent"] = gone
    return data


def facts(began, cpu, seconds, **more):
    """The header of every data file."""
    return about(began, frame_bytes_without_crc=60, cpu=cpu, seconds_each=seconds, tsc_mhz=tsc_mhz(), **more)


def save(directory, name, data):
    """Writes a data file."""
    path = pathlib.Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    write_data(path / f"{name}.json", data)


def label(name):
    """The name of a case in tables: the number at its end is the largest batch."""
    return re.sub(r"-(\d+)$", r", \1", name).replace("-", " ")


def markdown(devices):
    """The tables of the documentation, from {device: data}."""
    lines = ["| device | case | Mpps (median) | cycles a packet | ratio to testpmd | least | most |", "|---|---|---|---|---|---|---|"]

    def rate(pps, mhz):
        median = statistics.median(pps)
        return f"{median / 1e6:.1f} | {f'{mhz * 1e6 / median:.0f}' if mhz else ''}"

    for device, data in devices.items():
        mhz = data.get("tsc_mhz")
        lines.append(f"| `net_{device}` | testpmd, 32 | {rate(data['peer_pps'], mhz)} | 1 | | |")
        derived = {n: d for n, d in data.get("derived", {}).items() if "pps" in d}
        for name, case in [*data["cases"].items(), *derived.items()]:
            estimate = " (estimate)" if case.get("estimate") else ""
            lines.append(f"| `net_{device}` | {label(name)}{estimate} | {rate(case['pps'], mhz)} | "
                         f"{case['ratio_median']:.2f} | {case['ratio_min']:.2f} | {case['ratio_max']:.2f} |")
    costs = [(device, name, d) for device, data in devices.items() for name, d in data.get("derived", {}).items()
             if "ns_median" in d]
    if costs:
        lines += ["", "| device | cost | ns a packet (median) | least | most | is |", "|---|---|---|---|---|---|"]
        lines += [f"| `net_{device}` | {label(name)} | {d['ns_median']:.1f} | {d['ns_min']:.1f} | {d['ns_max']:.1f} | "
                  f"{' less '.join(map(label, d['of'].split(' less ')))} |" for device, name, d in costs]
    pairs = [(device, *pair.split(" / "), d) for device, data in devices.items() for pair, d in data.get("against", {}).items()]
    if pairs:
        lines += ["", "| device | case | against | ratio (median) | least | most |", "|---|---|---|---|---|---|"]
        lines += [f"| `net_{device}` | {label(name)} | {label(other)} | {d['ratio_median']:.2f} | {d['ratio_min']:.2f} | "
                  f"{d['ratio_max']:.2f} |" for device, name, other, d in pairs]
    for device, data in devices.items():
        loads, others = data["load_averages"], data.get("others_share")
        used = f"others used {statistics.median(others):.1%} of the processors (at most {max(others):.0%}), " if others else ""
        lines += ["", f"`net_{device}`: {data['date'][:16].replace('T', ' ')} UTC, {data['machine']}, {used}load average "
                  f"{min(loads):.1f} to {max(loads):.1f}, {len(loads)} rounds of {data['seconds_each']} s, `{data['command']}`."]
    return "\n".join(lines)


def read_tables(paths):
    """{device: data} of data files called SUITE-DEVICE.json."""
    try:
        return {pathlib.Path(p).stem.rpartition("-")[2]: json.loads(pathlib.Path(p).read_text()) for p in paths}
    except (OSError, ValueError) as problem:
        sys.exit(f"cannot read the data: {problem}")


def add_small_pages(parser):
    """The option of a benchmark for `pages`."""
    parser.add_argument("--small-pages", action="store_true", help="4 KB pages for all programs, not hugepages")


def pages(small, megabytes):
    """Memory for programs while they run: hugepages, or 4 KB pages, of which there are always enough."""
    return ended_by_terminate() if small else hugepages(megabytes, "choose fewer cases, or 4 KB pages (--small-pages)")


@contextlib.contextmanager
def ended_by_terminate():
    """SIGTERM, and SIGHUP unless it is ignored (nohup), end this program as an error does, so that what it has changed is restored."""
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda got, _: sys.exit(f"ended by {signal.Signals(got).name}")) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def hugepages(megabytes, otherwise="choose fewer cases"):
    """Reserves this much memory in hugepages of 2 MB while programs run, unless enough is free, and mounts them if they are not:
    otherwise DPDK's own programs do not find them. Afterwards everything is restored, also after a failure. The message about too
    little memory says what to do `otherwise`."""
    reserve = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    free = reserve.with_name("free_hugepages")
    if not reserve.exists():
        sys.exit("this kernel has no hugepages of 2 MB")
    before, wanted = int(reserve.read_text()), -(-megabytes // 2)
    with contextlib.ExitStack() as stack:
        stack.enter_context(ended_by_terminate())
        missing = wanted - int(free.read_text())
        if missing > 0:
            command = f"sysctl -w vm.nr_hugepages={before + missing}"
            print(f"reserving hugepages: {command} (again {before} afterwards)", file=sys.stderr, flush=True)
            stack.callback(lambda: subprocess.run(["sysctl", "-qw", f"vm.nr_hugepages={before}"], check=False))
            for _ in range(5):
                subprocess.run(["sysctl", "-qw", f"vm.nr_hugepages={before + missing}"], capture_output=True, check=False)
                if int(free.read_text()) >= wanted:
                    break
                # The free memory is too fragmented.
                with contextlib.suppress(OSError):
                    pathlib.Path("/proc/sys/vm/compact_memory").write_text("1")
            if int(free.read_text()) < wanted:
                sys.exit(f"{megabytes} MB in hugepages are needed, and {2 * int(free.read_text())} MB are free: {command}, as root, on a "
                         f"machine with enough free memory; or {otherwise}")
        if not hugepage_mounts():
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="hugepages-"))
            done = subprocess.run(["mount", "-t", "hugetlbfs", "none", directory], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"hugepages are not mounted: mount -t hugetlbfs none /dev/hugepages ({done.stderr.strip()})")
            stack.callback(lambda: subprocess.run(["umount", directory], check=True))
        yield
