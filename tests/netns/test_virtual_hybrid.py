"""`valiant vr` with a router in a process of its own to which the common process passes packets, beside one in the common process."""

import mmap
import os
import pathlib
import random
import signal
import subprocess
import threading
from typing import Any

from harness import Plain, case, check, equal, ping, wait_for
from lab import Lab
from test_rights import NOBODY, alive
from test_virtual_direct import Host, confined, groups
from test_virtual_routers import lost, stream


class Memory:
    """The memory that a router's process has of its interfaces, opened as whoever has taken the process over."""

    def __init__(self, process: int):
        self.maps: list[mmap.mmap] = []
        for fd in pathlib.Path(f"/proc/{process}/fd").iterdir():
            try:
                if not os.readlink(fd).startswith("/memfd:valiant-memif"):
                    continue
                handle = os.open(fd, os.O_RDWR)
            except OSError:
                continue
            self.maps.append(mmap.mmap(handle, os.fstat(handle).st_size))
            os.close(handle)

    def write(self, rng: random.Random, places: int) -> None:
        """Random values in the rings: positions most of all, descriptors, and a few in the buffers."""
        for memory in self.maps:
            for _ in range(places):
                kind = rng.random()
                ring = rng.randrange(2) * (128 + 16 * 512)
                if kind < 0.3:
                    at = ring + rng.choice((0, 4, 6, 64))
                elif kind < 0.9:
                    at = ring + 128 + rng.randrange(512) * 16 + rng.randrange(16)
                else:
                    at = rng.randrange(len(memory) - 8)
                memory[at:at + 2] = rng.randrange(1 << 16).to_bytes(2, "little")


def memory_of(process: int) -> Memory:
    """It is mapped once the process is connected."""
    found: list[Memory] = []

    def there() -> bool:
        found[:] = [Memory(process)]
        return bool(found[0].maps)

    wait_for("the memory of the rings", there, 5)
    return found[0]


def memfds(process: int) -> int:
    """How many such memories a process has open."""
    count = 0
    for fd in pathlib.Path(f"/proc/{process}/fd").iterdir():
        try:
            count += os.readlink(fd).startswith("/memfd:valiant-memif")
        except OSError:
            pass
    return count


@case(Plain, seconds=90)
def a_router_in_its_own_process_forwards_by_memif(lab: Lab) -> None:
    host = Host(lab, blue="hybrid")
    wait_for("blue", host.blue, 5)
    wait_for("red", host.red, 5)
    routers = host.routers()
    process = routers["blue"]["process"]
    equal(routers["blue"]["scheme"], "hybrid", "the scheme")
    check(process not in (host.process.pid, routers["red"]["process"]), routers)
    confined(process, NOBODY)
    check(routers["blue"]["interfaces"][0]["received"] > 0 and routers["blue"]["passing_cycles"] > 0, routers)
    route = host.hosts[1].sh("traceroute", "-n", "-q", "1", "-w", "1", "10.2.0.2")
    check("10.1.0.1" in route, route)
    server = host.hosts[2].popen("iperf3", "-s", "-1", log="iperf3.log")
    wait_for("iperf3", lambda: ":5201" in host.hosts[2].sh("ss", "-tln"), 5)
    host.hosts[1].sh("iperf3", "-c", "10.2.0.2", "-t", "2", "--bidir")
    server.wait(timeout=10)
    check("rt" in host.handler("blue", "list").split(), "its elements")
    check("hybrid" in host.vr("status"), "the table")
    host.vr("down")
    equal(host.process.wait(timeout=10), 0, "the exit status")
    check(not alive(process), "the process of blue runs on")
    equal(list((lab.dir / "run").iterdir()), [], "what is left of sockets")
    equal(groups("edge"), [], "what is left of control groups")


@case(Plain, seconds=120)
def whatever_its_process_does_harms_nobody(lab: Lab) -> None:
    host = Host(lab, blue="hybrid")
    wait_for("blue", host.blue, 5)
    wait_for("red", host.red, 5)
    files = memfds(host.process.pid)
    flow = stream(host.hosts[3], "10.4.0.2", 5000)
    # Blue has traffic meanwhile, both ways.
    busy = [stream(host.hosts[1], "10.2.0.2", 5000), stream(host.hosts[2], "10.1.0.2", 5000)]

    def again(failures: int, seconds: float) -> int:
        """The process that comes after a failure."""
        wait_for(f"failure {failures}", lambda: host.routers()["blue"]["failures"] >= failures, seconds)
        wait_for("blue", host.blue, 10)
        process: int = host.routers()["blue"]["process"]
        return process

    def lost_before_it() -> int:
        return sum(interface["lost_queue_full"] for interface in host.routers()["blue"]["interfaces"])

    before = lost_before_it()
    os.kill(host.routers()["blue"]["process"], signal.SIGKILL)
    process = again(1, 5)
    check(lost_before_it() > before, "what came while there was no process is not counted")
    # A process that does not take what it is sent, until it is noticed.
    os.kill(process, signal.SIGSTOP)
    process = again(2, 20)
    # Nonsense in the memory that both have.
    rng = random.Random(14)
    for failures in (3, 4):
        memory = memory_of(process)
        end = threading.Event()

        def corrupt(memory: Memory = memory, end: threading.Event = end) -> None:
            while not end.is_set():
                memory.write(rng, 20)
                end.wait(0.001)

        attacker = threading.Thread(target=corrupt)
        attacker.start()
        try:
            wait_for("the end of the process", lambda process=process: not alive(process), 10)
        finally:
            end.set()
            attacker.join()
        process = again(failures, 5)
    for one in busy:
        one.terminate()
        one.wait(timeout=5)
    equal(lost(flow), 0, "packets lost by red")
    check(host.process.poll() is None, "the host has ended")
    wait_for("no memory of former processes", lambda: memfds(host.process.pid) == files, 5)
    told = (lab.dir / "vr.log").read_text()
    check("panicked" not in told and "signal 9" in told, told)


@case(Plain, seconds=90)
def a_word_moves_a_router_and_a_filter_keeps_packets_from_it(lab: Lab) -> None:
    host = Host(lab, blue="shared")
    wait_for("blue", host.blue, 5)
    wait_for("red", host.red, 5)
    flow = stream(host.hosts[3], "10.4.0.2", 2000)
    for scheme in ("hybrid", "direct", "hybrid"):
        host.write(blue=scheme)
        equal(host.vr("apply"), "blue: started anew\n", f"apply of {scheme}")
        wait_for(f"blue with the scheme {scheme}", host.blue, 10)
        equal(host.routers()["blue"]["scheme"], scheme, "the scheme")
    process = host.routers()["blue"]["process"]
    # A filter alone changes nothing in the process.
    host.write(blue="hybrid", extra='filter = ["deny icmp", "allow all"]\n')
    equal(host.vr("apply"), "blue: program changed, state kept\n", "apply of a filter")
    equal(host.routers()["blue"]["process"], process, "the process")
    check(not host.blue(), "a ping through the filter")
    server = host.hosts[2].popen("iperf3", "-s", "-1", log="iperf3.log")
    wait_for("iperf3", lambda: ":5201" in host.hosts[2].sh("ss", "-tln"), 5)
    host.hosts[1].sh("iperf3", "-c", "10.2.0.2", "-t", "1")
    server.wait(timeout=10)
    host.write(blue="hybrid", extra='filter = ["allow nonsense"]\n')
    told = host.fails("apply")
    check("edge.toml:" in told and "nonsense" in told, told)
    host.write(blue="hybrid")
    host.vr("apply")
    wait_for("blue without the filter", host.blue, 5)
    # Another program, a removal, an addition.
    good = host.program.read_text()
    host.program.write_text(good.replace("rt[3] -> Discard;", "rt[3] -> other :: Counter -> Discard;"))
    equal(host.vr("apply"), "blue: program changed, state kept\n", "apply of another program")
    equal(host.handler("blue", "other.count"), "0", "the new element")
    host.vr("remove", "blue")
    check(not host.blue() and not alive(process), "blue after it was removed")
    host.vr("add", "blue")
    wait_for("blue", host.blue, 5)
    host.write(blue="shared")
    host.vr("apply")
    wait_for("blue", host.blue, 5)
    equal(lost(flow), 0, "packets lost by red")
    left = {path.name for path in (lab.dir / "run").iterdir()}
    equal(left, {"host.control", "blue.sock", "red.sock"}, "sockets")


@case(Plain, seconds=60)
def a_tag_and_a_link_lead_to_it(lab: Lab) -> None:
    """A router with the scheme hybrid between two with the scheme shared, by links."""
    gate, left, right = lab.namespace("g"), lab.namespace("l"), lab.namespace("r")
    for name, other, net in (("eth1", left, 1), ("eth2", right, 2)):
        lab.veth(gate, name, other, "eth0")
        other.ip("addr", "add", f"10.0.0.{net}/24", "dev", "eth0")
    wire = "FromDevice($DEV0) -> ToDevice($DEV1); FromDevice($DEV1) -> ToDevice($DEV0);\n"
    (lab.dir / "wire.click").write_text(wire)
    text = f'[host]\ncores = [0, 1]\ndirectory = "{lab.dir}/run"\n[port.one]\ndevice = "eth1"\n[port.two]\ndevice = "eth2"\n'
    for name, scheme, port in (("a", "shared", "one"), ("b", "hybrid", None), ("c", "shared", "two")):
        text += f'[router.{name}]\nprogram = "wire.click"\nscheme = "{scheme}"\n'
        text += "cores = [0]\n" if scheme == "hybrid" else ""
        text += f'[[router.{name}.interface]]\n' + (f'port = "{port}"\nwhole = true\n' if port else "")
        text += f"[[router.{name}.interface]]\n"
    text += '[[link]]\nends = ["a.DEV1", "b.DEV0"]\n[[link]]\nends = ["b.DEV1", "c.DEV1"]\n'
    file = lab.dir / "links.toml"
    file.write_text(text)
    from lab import the_binary
    process: Any = gate.popen(the_binary(), "vr", "run", file, "--no-huge", log="vr.log")
    wait_for("a ping", lambda: ping(left, "10.0.0.2"), 15)
    flow = stream(left, "10.0.0.2", 200)
    equal(lost(flow), 0, "packets lost")
    process.terminate()
    process.wait(timeout=10)
    check(subprocess.call(["pgrep", "-P", str(process.pid)], stdout=subprocess.DEVNULL) == 1, "processes that are left")
