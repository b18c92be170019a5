"""`valiant vr`: routers written to harm others, in the common process beside two with real hosts, which lose no packet."""

import re
import socket
import subprocess
import time
from typing import Any

from control import ControlSocket, Refused
from harness import Plain, case, check, equal, ping, wait_for
from lab import Lab, the_binary
from streams import Mark, Streams
from test_virtual_routers import Host

RATE = 200  # packets a second through each victim


class Attacked(Host):
    """The routers `blue` and `red` between two Linux hosts, with a counted stream through each, and their attackers."""

    def __init__(self, lab: Lab):
        self.attackers = ""
        super().__init__(lab)
        for to in ("10.2.0.2", "10.4.0.2"):
            wait_for(f"a ping to {to}", lambda to=to: ping(self.left, to), 5)
        self.streams = Streams(lab, {name: (self.left, self.right, f"10.{net}.0.2", RATE) for name, net in (("blue", 2), ("red", 4))})
        self.began: Mark = self.streams.mark()

    def write(self, *routers: tuple[str, int], extra: str = "") -> None:
        super().write(*routers, extra=extra)
        text = self.file.read_text().replace("[port.left]\n", '[port.left]\nsharing = "software-queued"\n')
        self.file.write_text(text + self.attackers)

    def describe(self, name: str, program: str, limits: str = "") -> None:
        """Adds an attacker to the file, with an interface on a VLAN."""
        (self.lab.dir / f"{name}.click").write_text(program)
        self.attackers = f'[router.{name}]\nprogram = "{name}.click"\nlimits = {{ {limits} }}\n'
        self.attackers += f'[[router.{name}.interface]]\nport = "left"\nvlan = 10\n'
        self.write(("blue", 1), ("red", 3))

    def attack(self, name: str, program: str, limits: str = "") -> None:
        """Describes an attacker and starts it."""
        self.describe(name, program, limits)
        self.vr("add", name)

    def state(self, name: str) -> dict[str, Any]:
        """What `valiant vr status` says of a router."""
        return next(router for router in self.status()["routers"] if router["name"] == name)

    def unharmed(self) -> None:
        """The victims have lost nothing so far, and go on."""
        time.sleep(0.5)
        for name, count in self.streams.between(self.began, self.streams.mark()).items():
            check(count.sent > RATE / 4, f"{name}: {count}")
            equal(count.lost, 0, f"packets lost by {name} of {count.sent}")
        check(ping(self.left, "10.2.0.2") and ping(self.left, "10.4.0.2"), "the victims answer")
        for name in ("blue", "red"):
            state = self.state(name)
            check(state["running"] and state["failures"] == 0 and state["stalls"] == 0, state)

    def log(self) -> str:
        """What the host has logged."""
        return (self.lab.dir / "vr.log").read_text(errors="replace")


@case(Plain, seconds=60)
def a_router_that_keeps_packets_keeps_no_more_than_its_limit(lab: Lab) -> None:
    host = Attacked(lab)
    keeps = "InfiniteSource(LENGTH 60) -> Queue({}) -> Idle;"
    host.describe("hog", keeps.format(1_000_000), "buffers = 4096, queue = 64")
    for command in (("add", "hog"), ("check",)):
        told = host.fails(*command)
        check("the limit buffers is 4096, and 1000000 packets may wait in the router's elements" in told, told)
        check("128 at its interfaces" in told, told)
    host.attack("hog", keeps.format(3000), "buffers = 4096, queue = 64")
    time.sleep(1)
    host.unharmed()


@case(Plain, seconds=60)
def a_router_that_panics_starts_again_later_each_time(lab: Lab) -> None:
    host = Attacked(lab)
    host.attack("panicker", "RatedSource(RATE 100) -> Fault(AFTER 3) -> Discard;")
    wait_for("three failures", lambda: host.state("panicker")["failures"] >= 3, 15)
    pauses = [int(ms) for ms in re.findall(r"router 'panicker' has failed; it starts again in (\d+) ms", host.log())]
    equal(pauses[:3], [200, 400, 800], "the pauses")
    host.unharmed()


@case(Plain, seconds=60)
def a_router_that_spins_is_charged_and_named(lab: Lab) -> None:
    host = Attacked(lab)
    # More work than there is time: the others have their shares.
    host.attack("spinner", "InfiniteSource -> WorkPackage(CYCLES 300000) -> Discard;")
    time.sleep(2)
    host.unharmed()
    host.vr("remove", "spinner")
    host.attack("spinner", "RatedSource(RATE 1, LIMIT 1) -> f :: Fault(SPIN 1600) -> Discard;")
    wait_for("the stall", lambda: host.state("spinner")["stalls"] == 1, 10)
    state = host.state("spinner")
    equal((state["stalled_in"], state["longest_stall_ms"] >= 1000), ("'f :: Fault'", True), "what status shows")
    check("in 'f :: Fault': give it scheme = \"direct\"" in host.vr("status"), host.vr("status"))
    check("router 'spinner' holds worker 0 for 1000 ms" in host.log(), host.log())
    # The packets of the others have waited.
    host.unharmed()


@case(Plain, seconds=60)
def a_router_that_fills_tables_and_calls_handlers_is_refused_more(lab: Lab) -> None:
    host = Attacked(lab)
    program = "Idle -> a :: RadixIPLookup(0.0.0.0/0 0) -> Discard; Idle -> b :: RadixIPLookup(0.0.0.0/0 0) -> Discard;"
    host.describe("filler", program.replace("(0.", "(1.0.0.0/8 0, 0."), "routes = 3")
    told = host.fails("add", "filler")
    check("too many routes: the limit routes is 3" in told, told)
    host.attack("filler", program, "routes = 1000, handler_calls = 100")

    def fill(table: str, routes: int, net: int) -> str:
        lines = "\n".join(f"add {net}.{i >> 8}.{i & 255}.0/24 0" for i in range(routes))
        words = (the_binary(), "write", "--socket", lab.dir / "run" / "filler.sock", f"{table}.ctrl", lines)
        done = subprocess.run(host.gate.command(*words), capture_output=True, text=True, timeout=20, check=False)
        return done.stderr

    equal(fill("a", 900, 1), "", "900 routes")
    told = fill("b", 200, 2)
    check("too many routes: the limit routes is 1000" in told, told)
    equal(fill("b", 98, 2), "", "what there is room for")
    for _ in range(20):
        check("too many routes" in fill("b", 1000, 3), "more routes")
    equal(host.state("filler")["refused"]["routes"], 21, "refusals")

    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(lab.dir / "run" / "filler.sock"))
        answers = b""
        control.sendall(b"READ a.table\r\n" * 5000 + b"QUIT\r\n")
        while more := control.recv(1 << 16):
            answers += more
    check(answers.count(b"530 too many handler calls: the limit handler_calls is 100 in a second") > 3000, answers[-300:])
    check(host.state("filler")["refused"]["handler_calls"] > 3000, host.state("filler"))
    host.unharmed()


@case(Plain, seconds=90)
def a_router_that_takes_more_memory_than_its_limit_is_refused_or_stopped(lab: Lab) -> None:
    host = Attacked(lab)

    def memory() -> int:
        return int(host.state("eater")["memory_bytes"] or 0)

    def resident() -> int:
        return int(host.status()["memory_bytes"])

    # More than it may have from the start.
    routes = ", ".join(f"{i >> 8}.{i & 255}.7.0/24 0" for i in range(256, 50000))
    host.describe("eater", f"Idle -> RadixIPLookup({routes}) -> Discard;", 'memory = "4 MB"')
    told = host.fails("add", "eater")
    check("the limit memory is" in told and "RadixIPLookup" in told, told)

    # Routes by a handler: those for which there is room.
    host.attack("eater", "Idle -> a :: RadixIPLookup(0.0.0.0/0 0) -> Discard;", 'memory = "8 MB"')

    owner = ControlSocket(lab.dir / "run" / "eater.sock", patience=5, timeout=20)

    def fill(net: int) -> str:
        lines = "\n".join(f"add {net}.{i >> 8}.{i & 255}.0/24 0" for i in range(20000))
        try:
            owner.write("a.ctrl", lines)
        except Refused as told:
            return str(told)
        return ""

    at_first = memory()
    equal(fill(1), "", "20,000 routes")
    with_routes = memory()
    check(with_routes > at_first + 20000 * 30, (at_first, with_routes))
    answers = [fill(net) for net in range(2, 12)]
    check("limit memory is" in answers[-1], answers)
    state = host.state("eater")
    check(state["running"] and state["failures"] == 0 and memory() <= 8_000_000, state)
    # Calls leave nothing that counts.
    before = memory()
    for _ in range(5000):
        owner.read("a.lookup", "1.0.1.5")
    check(abs(memory() - before) < 50_000, (before, memory()))
    # Nor does what was refused.
    before = memory()
    for _ in range(5):
        check("limit memory is" in fill(12), "more routes")
    check(memory() < before + 500_000, (before, memory()))
    check(owner.read("a.lookup", "1.0.1.5").startswith("0"), "the routes that it has")
    owner.close()
    host.vr("remove", "eater")

    # A script that makes a string longer and longer, in one go. What it took is used again by whoever comes next.
    script = 'Script(set x "0123456789abcdef", label again, set x "$x$x", goto again);'
    for cycle in range(3):
        host.attack("eater", script, 'memory = "16 MB"')
        wait_for("two failures", lambda: host.state("eater")["failures"] >= 2, 15)
        state = host.state("eater")
        check(state["running"] or "the limit memory is 16.0 MB" in state["failure"], state)
        host.vr("remove", "eater")
        if cycle == 0:
            before = resident()
    check(resident() < before + 10_000_000, (before, resident()))
    check("the limit memory is 16.0 MB" in host.log(), host.log())
    host.unharmed()


@case(Plain, seconds=60)
def a_router_that_floods_the_log_logs_little(lab: Lab) -> None:
    host = Attacked(lab)
    host.attack("flooder", "InfiniteSource -> Print(flood) -> Discard;", "log_lines = 10")
    began = time.monotonic()
    wait_for("refusals", lambda: host.state("flooder")["refused"]["log_lines"] > 100, 10)
    wait_for("how many were suppressed", lambda: "its limit log_lines is 10 in a second" in host.log(), 5)
    lines = host.log().count("flood:")
    check(0 < lines <= 10 * (time.monotonic() - began + 3), f"{lines} lines")
    check("limit log_lines: " in host.vr("status"), host.vr("status"))
    host.unharmed()


@case(Plain, seconds=60)
def a_router_that_fills_tables_by_packets_has_no_more_entries_than_its_limits(lab: Lab) -> None:
    host = Attacked(lab)
    program = """
        RatedSource(RATE 2000) -> IPEncap(udp, 10.0.0.1, 10.0.0.2) -> SetRandIPAddress(10.0.0.0/8)
            -> arp :: ARPQuerier(10.0.0.1, $MAC0) -> Discard; Idle -> [1] arp;
        RatedSource(LENGTH 900, RATE 2000) -> IPEncap(udp, 10.0.0.1, 10.0.0.2) -> IPFragmenter(576) -> first :: Classifier(6/0000%1fff, -)
            -> CheckIPHeader -> whole :: IPReassembler(HIMEM 100000000) -> Discard; first [1] -> Discard;
    """
    limits = "neighbors = {}, flows = {}, buffers = 8192"
    host.describe("filler", program, limits.format(50, 20))
    host.vr("add", "filler")

    def entries() -> tuple[int, int]:
        dump = host.handler("filler", "whole.dump").splitlines()
        return int(host.handler("filler", "arp.count")), len(dump) - 1 - next(i for i, line in enumerate(dump) if line.startswith("cached"))

    wait_for("full tables", lambda: min(host.state("filler")["refused"][limit] for limit in ("neighbors", "flows")) > 100, 10)
    equal(entries(), (50, 20), "neighbors and datagrams")
    for message in ("too many neighbors: the limit neighbors is 50", "too many datagrams: the limit flows is 20"):
        check(0 < host.log().count(message) <= 20, f"{message}: {host.log().count(message)} times")
    # Other limits, while it runs.
    host.describe("filler", program, limits.format(80, 30))
    equal(host.vr("apply"), "filler: share or limits changed\n", "what apply says")
    wait_for("more entries", lambda: entries() == (80, 30), 10)
    check(host.state("filler")["refused"]["flows"] > 100, "it was started anew")
    host.unharmed()
