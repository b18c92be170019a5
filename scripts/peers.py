"""Other people's forwarders: l3fwd and ipsec-secgw from Debian's dpdk-doc package, and the Linux kernel.

The examples are built in target/peers from the package's sources, unchanged, for this processor, with scripts/peers/limits.c
linked in. They take long to load a table, so each is started once and stopped by a signal while others have their turn.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import time
from typing import Any

from benchlib import secgw_lines
from lab import ROOT, LabError
from sidebyside import NULL_OUT, TESTPMD, Failed, Missing, Telemetry, end, pinned, tail

EXAMPLES = pathlib.Path("/usr/share/dpdk/examples")
WRAPPED = ("rte_eth_dev_info_get", "rte_eth_dev_configure", "rte_eth_rx_queue_setup", "rte_lpm_create", "rte_fib_create",
           "rte_lpm6_create", "rte_fib6_create")
# DPDK's drivers for devices that no forwarder uses, and the libraries that the others are made with.
UNUSED = tuple(f"librte_{kind}_" for kind in ("baseband", "compress", "dma", "event", "gpu", "ml", "raw", "regex", "vdpa"))
BELOW = [f"-l{name}" for name in ("ibverbs", "mlx5", "mlx4", "crypto", "z", "pcap", "IPSec_MB", "xdp", "bpf", "atomic", "numa", "fdt",
                                  "bsd", "jansson", "elf", "m", "dl", "pthread")]
# Enough for two million routes in a FIB and its radix tree.
MEMORY_MB = 2560
# rte_lpm searches linearly through the rules of one prefix length: with a million routes, that takes minutes.
LPM_ROUTES = 300_000


def run(*command, **more):
    """Runs a command. Returns its output; raises Missing with the error message."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout
    except FileNotFoundError:
        raise Missing(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as problem:
        raise Missing(f"{' '.join(map(str, command))[:200]}: {problem.stderr[-2000:]}") from None


def examples(cache):
    """The folder with the sources of DPDK's examples: the installed one, else one unpacked from the package."""
    if EXAMPLES.is_dir():
        return EXAMPLES
    unpacked = cache / "dpdk-doc"
    if not (unpacked / "l3fwd").is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        # Only the sources are wanted, so the package is unpacked and not installed.
        run("apt-get", "download", "dpdk-doc", cwd=cache)
        package = max(cache.glob("dpdk-doc_*.deb"), key=lambda p: p.stat().st_mtime)
        run("dpkg-deb", "-x", package, cache / "package")
        shutil.rmtree(unpacked, ignore_errors=True)
        shutil.move(cache / "package" / EXAMPLES.relative_to("/"), unpacked)
        shutil.rmtree(cache / "package")
        package.unlink()
    return unpacked


def static_libraries():
    """The linker's arguments for DPDK's static libraries, as DPDK's own build and ours have them: calls of drivers and the
    thread's number cost less than with shared ones."""
    directory = pathlib.Path(run("pkg-config", "--variable=libdir", "libdpdk").strip())
    archives = [f"-l:{path.name}" for path in sorted(directory.glob("librte_*.a")) if not path.name.startswith(UNUSED)]
    if not archives:
        raise Missing("the static libraries of DPDK are not installed: apt-get install libdpdk-dev")
    return ["-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive", *BELOW]


def build(name):
    """The program of an example, built if it is not there or older than what it is made of."""
    cache = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "peers"
    limits = ROOT / "scripts" / "peers" / "limits.c"
    # libdpdk.pc asks for -march=corei7, which would win over ours.
    flags = re.sub(r"-march=\S+", "", run("pkg-config", "--cflags", "libdpdk")).split() + ["-march=native"]
    libraries = static_libraries()
    version = run("pkg-config", "--modversion", "libdpdk").strip()
    mark = hashlib.sha256(repr((version, flags, libraries, limits.read_text(), pathlib.Path("/proc/cpuinfo").read_text().split(
        "flags", 1)[-1].split("\n", 1)[0])).encode()).hexdigest()[:12]
    program = cache / f"{name}-{mark}"
    if not program.exists():
        source = examples(cache) / name
        files = " ".join(re.findall(r"^SRCS-y [:+]?= (.*)$", (source / "Makefile").read_text(), re.M)).split()
        wraps = "-Wl," + ",".join(f"--wrap={function}" for function in WRAPPED)
        cache.mkdir(parents=True, exist_ok=True)
        print(f"building {name} of DPDK {version}", flush=True)
        part = program.with_suffix(".part")
        run("cc", "-w", "-O3", *flags, "-DALLOW_EXPERIMENTAL_API", "-I../common", *files, limits, wraps, "-o", part,
            *libraries, cwd=source)
        part.rename(program)
    return program


class Paused:
    """A DPDK program that is started at its first turn and stopped by a signal between turns. Packets leave by port 1."""

    def __init__(self, where, name, vdevs, arguments, ready):
        self.where, self.name, self.vdevs, self.arguments, self.ready = where, name, vdevs, arguments, ready
        # Known from `start` on.
        self.process: Any = None
        self.telemetry: Any = None

    def start(self, patience=300):
        program = build(self.name.split("-")[0] if self.name.startswith("l3fwd") else "ipsec-secgw")
        # One lcore: each lcore wants a transmit queue on every port, and these ports have one.
        prefix = self.where.prefix(self.name)
        log = pathlib.Path(self.where.directory) / f"{self.name}.log"
        command = [program, *self.where.memory(MEMORY_MB), "--no-pci", "--lcores", f"0@{self.where.cpu}",
                   "--file-prefix", prefix, *(f"--vdev={v}" for v in self.vdevs), "--", *self.arguments]
        with open(log, "w") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + patience
        while self.ready not in tail(log):
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = tail(log)
                self.close()
                raise Failed(f"{self.name} did not start: {shlex.join(map(str, command))}\n{said}")
            time.sleep(0.1)
        self.telemetry = Telemetry(prefix, self.process)
        return self

    def measure(self):
        """Packets a second while it runs."""
        with self.where.turn(("peer", self.name), self.start, keep=True):
            try:
                rate, notes = self.where.sample(lambda: self.telemetry.sent(1), pinned(self.process.pid, self.where.cpu))
            except (OSError, ValueError, KeyError) as problem:
                log = pathlib.Path(self.where.directory) / f"{self.name}.log"
                raise Failed(f"{self.name} does not answer: {problem}\n{tail(log)}") from None
        if rate == 0:
            raise Failed(f"{self.name} sends nothing")
        return rate, notes

    def close(self):
        """Ends it."""
        end(self.process)


def l3fwd(where, source, lookup, routes, count):
    """l3fwd with `routes`, lines of `random_routes`, all to port 1."""
    if lookup == "lpm" and count > LPM_ROUTES:
        raise Missing(f"l3fwd with LPM takes minutes to load {count} routes")
    # rte_lpm has no routes of length 0: the default route is two halves.
    nets = [net for line in routes for net in
            (["0.0.0.0/1", "128.0.0.0/1"] if line.startswith("0.0.0.0/0") else [line.split()[0]])]
    return l3fwd_with(where, source, lookup, f"{count}", nets, ["2001:200:0:0:0:0:0:0/48"])


def l3fwd6(where, source, lookup, networks):
    """l3fwd with these IPv6 networks, as address and length, all to port 1."""
    def groups(address):
        return ":".join(f"{address >> shift & 0xFFFF:x}" for shift in range(112, -1, -16))
    nets = [f"{groups(address)}/{length}" for address, length in networks]
    return l3fwd_with(where, source, lookup, f"6-{len(nets)}", ["0.0.0.0/1", "128.0.0.0/1"], nets)


def l3fwd_with(where, source, lookup, name, nets, nets6):
    """l3fwd with routes for these networks of IPv4 and IPv6."""
    rules, rules6 = (pathlib.Path(where.directory) / f"l3fwd-{name}-v{version}" for version in (4, 6))
    for path, each in ((rules, nets), (rules6, nets6)):
        path.write_text("".join(f"R{net} 1\n" for net in each))
    # Space in the buffer pool for the packets that net_pcap repeats: the pool grows with the queues.
    return Paused(where, f"l3fwd-{lookup}-{name}", [source, NULL_OUT],
                  ["-p", "3", "--config", "(0,0,0)", "--no-numa", "--parse-ptype", f"--lookup={lookup}", f"--rule_ipv4={rules}",
                   f"--rule_ipv6={rules6}", "--rx-queue-size", "32768", "--tx-queue-size", "32768"], "entering main loop")


def secgw(where, source, algorithm, direction, device):
    """ipsec-secgw with one association for each direction; `direction` is `encrypt` or `decrypt`."""
    config = pathlib.Path(where.directory) / f"secgw-{algorithm}"
    config.write_text(secgw_lines(algorithm))
    # It decrypts what comes from an unprotected port and encrypts what comes from another; both directions must have a port.
    unprotected = {"encrypt": "2", "decrypt": "1"}[direction]
    return Paused(where, f"secgw-{direction}-{algorithm}-{abs(hash(source)) % 10000}", [source, NULL_OUT, f"{device}0"],
                  ["-p", "3", "-u", unprotected, "-P", "-l", "-s", "131072", "--config", "(0,0,0),(1,0,0)", "-f", config],
                  "entering main loop")


class Kernel:
    """The Linux kernel: a veth pair in, a dummy device out (where there are none, another veth pair), between them a namespace
    that forwards on one core.

    The sender is dpdk-testpmd, from net_pcap into an AF_PACKET port on the other end of the pair, on another core. The pair's
    receiving end has a NAPI thread, pinned to the core that forwards, which does the whole of the kernel's receiving, routing
    and sending. The sender may be slower than that thread; as for all, packets are counted for a second of its time on the
    processor."""

    def __init__(self, lab, where, source, routes):
        if os.geteuid() != 0:
            raise Missing("network namespaces need root")
        if where.other == where.cpu:
            raise Missing("the kernel needs a core beside the sender's")
        self.where, self.source = where, source
        self.sender, self.router = lab.namespace(f"s{len(routes)}"), lab.namespace(f"r{len(routes)}")
        # The thread that polls a device is found by its name, of which 15 characters are kept.
        self.device = f"k{os.getpid() % 10000}{'ab'[len(routes) > 1]}"
        lab.veth(self.sender, "eth0", self.router, self.device)
        self.router.ip("link", "set", self.device, "address", "02:00:00:00:00:01")
        self.router.sh("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                       f"net.ipv4.conf.{self.device}.rp_filter=0")
        self.router.ip("addr", "add", "10.9.9.1/24", "dev", self.device)
        try:
            self.router.ip("link", "add", "out0", "type", "dummy")
            self.output = "dummy device"
        except LabError:
            # A veth whose other end has another address: frames that arrive are not for that host and are dropped at once.
            self.sink = lab.namespace(f"o{len(routes)}")
            lab.veth(self.router, "out0", self.sink, "eth0")
            self.output = "veth pair whose other end drops"
        self.router.ip("link", "set", "out0", "up")
        self.router.ip("addr", "add", "10.255.0.254/24", "dev", "out0")
        batch = pathlib.Path(where.directory) / f"kernel-{len(routes)}"
        gateways = sorted({line.split()[1] for line in routes})
        batch.write_text("".join(f"neigh add {g} lladdr 02:00:00:00:00:03 dev out0 nud permanent\n" for g in gateways) + "".join(
            f"route add {net} via {gateway} dev out0\n" for net, gateway, _ in map(str.split, routes)))
        self.router.ip("-batch", batch, timeout=120)
        # GRO makes veth poll its packets, and a thread can do that.
        self.router.sh("ethtool", "-K", self.device, "gro", "on")
        self.router.sh("sh", "-c", f"echo 1 >/sys/class/net/{self.device}/threaded")

    def napi_threads(self):
        """The kernel threads that poll the receiving end."""
        for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                if path.read_text().startswith(f"napi/{self.device}-"[:15]):
                    yield int(path.parent.name)

    def count(self):
        """Packets that the kernel has sent."""
        shown = json.loads(self.router.ip("-json", "-s", "link", "show", "out0"))[0]["stats64"]["tx"]["packets"]
        offered = json.loads(self.sender.ip("-json", "-s", "link", "show", "eth0"))[0]["stats64"]["tx"]
        return shown, offered["packets"] + offered["dropped"]

    def measure(self):
        threads = list(self.napi_threads())
        for pid in threads:
            os.sched_setaffinity(pid, {self.where.cpu})
        if not threads:
            raise Failed("the kernel has no thread that polls the veth device: Linux 5.12 or newer is needed")
        command = [TESTPMD, *self.where.memory(MEMORY_MB), "--no-pci", "--no-telemetry", "--lcores",
                   f"0@{self.where.other},1@{self.where.other}", "--file-prefix", self.where.prefix("sender"),
                   f"--vdev={self.source}", "--vdev=net_af_packet0,iface=eth0,qdisc_bypass=1", "--", "--forward-mode=io",
                   "--burst=32", "--total-num-mbufs=131072", "--stats-period=600"]
        process = subprocess.Popen(self.sender.command(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        try:
            start = self.count()
            deadline = time.monotonic() + 20
            while self.count()[0] < start[0] + 10_000:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Failed("the kernel forwards nothing:\n" + (process.communicate()[0] if process.poll() else "")[-2000:])
                time.sleep(0.05)
            time.sleep(0.3)
            before = self.count()[1]
            rate, notes = self.where.sample(lambda: self.count()[0], threads)
            offered = (self.count()[1] - before) / self.where.seconds
        finally:
            end(process)
        return rate, {**notes, "offered_pps_of_last_round": round(offered), "output": self.output}
