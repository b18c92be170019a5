"""`valiant vr`: routers are added, changed and removed a thousand times while others on the same port carry all that the machine can."""

import json
import os
import pathlib
import socket
import time
from typing import Any

from control import ControlSocket
from harness import Plain, case, check, equal, wait_for
from lab import Lab, the_binary

CYCLES = 250  # of four changes each
WARM = 25  # after which memory and descriptors may grow no more
# For each of the others, the packets that go round between a process beside the host and the router, as fast as these are. None is lost
# because the machine is slow: fewer are on their way than any queue has room for.
CIRCLING = 200
OTHERS = {"first": 10, "second": 20}  # and their VLANs
MOST_GROWTH = 8 << 20  # bytes
# It has a table of each kind that a limit is for.
GUEST = """FromDevice($DEV0) -> Strip(14) -> CheckIPHeader -> whole :: IPReassembler -> rt :: RadixIPLookup(10.0.0.0/8 0, 10.1.0.0/16 1)
    -> arp :: ARPQuerier(10.0.0.1, $MAC0) -> q :: Queue(64) -> ToDevice($DEV0);
Idle -> [1] arp; rt [1] -> Discard;
RatedSource(RATE 1000) -> {name} :: Counter -> Discard;
"""


class Churn:
    """A host with two routers whose packets go round, and a third one that comes and goes."""

    def __init__(self, lab: Lab):
        self.lab, self.gate = lab, lab.namespace("g")
        self.file, self.guest = lab.dir / "edge.toml", lab.dir / "guest.click"
        self.memif = lab.dir / "memif.sock"
        (lab.dir / "other.click").write_text("FromDevice($DEV0) -> EtherMirror -> Counter -> Queue(1024) -> ToDevice($DEV0);")
        self.describe()
        self.process = self.gate.popen(the_binary(), "vr", "run", self.file, "--no-huge", log="vr.log")
        wait_for("the host's socket", (lab.dir / "run" / "host.control").exists, 10)
        wait_for("the routers", lambda: len(self.ask("status")["routers"]) == 2, 5)

        (lab.dir / "circle.click").write_text(self.circle())
        control = lab.dir / "circle.sock"
        core = str(max(os.sched_getaffinity(0)))
        self.gate.popen(the_binary(), "run", "--no-huge", "--cpus", core, "-u", control, lab.dir / "circle.click", log="circle.log")
        self.client = ControlSocket(control, patience=20, timeout=20)
        # A memif loses what is sent before the other end has answered.
        wait_for("the memif", lambda: self.sent_and_back(1), 10)

    def circle(self) -> str:
        """The program of the process beside the host."""
        device = f'"net_memif1,role=client,socket={self.memif},rsize=10"'
        classes = ", ".join(f"12/8100{vlan:04x}" for vlan in OTHERS.values())
        text = f"FromDPDKDevice({device}) -> from :: Classifier({classes}, -); q :: Queue(1024) -> ToDPDKDevice({device});\n"
        for number, vlan in enumerate(OTHERS.values()):
            text += f"s{number} :: InfiniteSource(LENGTH 46, BURST 1, LIMIT 0) -> EtherEncap(0x88b5, 2:0:0:0:0:1, 2:0:0:0:0:2)\n"
            text += f"    -> VLANEncap(VLAN_ID {vlan}) -> q;\n"
            text += f"from [{number}] -> round{number} :: Counter -> back{number} :: Switch(1); back{number} [0] -> q;\n"
            text += f"back{number} [1] -> done{number} :: Counter -> Discard;\n"
        return text + f"from [{len(OTHERS)}] -> strange :: Counter -> Discard;\n"

    def send(self, packets: int) -> None:
        """Sends so many packets to each of the others."""
        for number in range(len(OTHERS)):
            self.client.write(f"s{number}.reset", "")
            self.client.write(f"s{number}.limit", str(packets))
            self.client.write(f"s{number}.active", "true")

    def sent_and_back(self, packets: int) -> bool:
        """Whether some have come back from each."""
        self.send(packets)
        return all(self.client.number(f"done{number}.count") > 0 for number in range(len(OTHERS)))

    def rounds(self) -> list[int]:
        """How many packets have come back from each."""
        return [self.client.number(f"round{number}.count") for number in range(len(OTHERS))]

    def describe(self, guest: int | None = None, routes: int = 100, queue: int = 64) -> None:
        """The host file; with the third router on a VLAN if that is given."""
        text = f'[host]\ncores = [{min(os.sched_getaffinity(0))}]\ndirectory = "{self.lab.dir}/run"\n'
        text += f'[port.wan]\ndevice = "net_memif0,role=server,socket={self.memif},rsize=10"\n'
        for name, vlan in OTHERS.items():
            # The first one's limits change too.
            limits = f"\nlimits = {{ routes = {routes}, queue = {512 + routes} }}" if name == "first" else ""
            text += f'[router.{name}]\nprogram = "other.click"{limits}\n[[router.{name}.interface]]\nport = "wan"\nvlan = {vlan}\n'
        if guest is not None:
            others = ", ".join(f"{limit} = {routes}" for limit in ("routes", "neighbors", "flows", "log_lines", "handler_calls"))
            text += f'[router.guest]\nprogram = "guest.click"\nlimits = {{ queue = {queue}, {others} }}\n'
            text += f'[[router.guest.interface]]\nport = "wan"\nvlan = {guest}\n'
        self.file.write_text(text)

    def program(self, name: str) -> None:
        """The third router's program, with another name for one of its elements."""
        self.guest.write_text(GUEST.replace("{name}", name))

    def ask(self, request: Any) -> dict[str, Any]:
        """What the host answers, without the start of a command."""
        with socket.socket(socket.AF_UNIX) as client, client.makefile("rw") as lines:
            client.connect(str(self.lab.dir / "run" / "host.control"))
            lines.write(json.dumps(request) + "\n")
            lines.flush()
            answer: dict[str, Any] = json.loads(lines.read())
        check(answer["ok"], f"{request}: {answer}")
        return answer

    def change(self, cycle: int) -> None:
        """Four changes: the third router comes, gets other limits and another program, and goes."""
        vlan = 100 + cycle
        self.program("a")
        self.describe(vlan)
        equal(self.ask({"add": "guest"})["added"], ["guest"], "what is added")
        self.describe(vlan, routes=200, queue=32)
        done = self.ask("apply")
        equal((done["limited"], done["swapped"], done["restarted"]), (["first", "guest"], [], []), "after other limits")
        self.program("b")
        self.describe(vlan)
        done = self.ask("apply")
        equal((done["limited"], done["swapped"], done["restarted"]), (["first", "guest"], ["guest"], []), "after another program")
        equal(self.ask({"remove": "guest"})["removed"], ["guest"], "what is removed")

    def holds(self) -> tuple[int, int, int]:
        """What the host's process has: bytes of memory, descriptors, threads."""
        directory = pathlib.Path(f"/proc/{self.process.pid}")
        pages = int((directory / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE"), len(os.listdir(directory / "fd")), len(os.listdir(directory / "task"))


@case(Plain, seconds=150)
def a_thousand_changes_cost_the_others_no_packet(lab: Lab) -> None:
    host = Churn(lab)
    # The first packets are back or lost.
    time.sleep(0.5)
    before = host.rounds()
    for number in range(len(OTHERS)):
        host.client.write(f"back{number}.switch", "0")
        host.client.write(f"done{number}.reset_counts", "")
    host.send(CIRCLING)
    wait_for("packets that go round", lambda: all(now > old + 10 * CIRCLING for now, old in zip(host.rounds(), before, strict=True)), 10)
    for cycle in range(WARM):
        host.change(cycle)
    memory, descriptors, threads = host.holds()
    began = host.rounds()
    for cycle in range(WARM, CYCLES):
        host.change(cycle)
    ended = host.rounds()
    moved = all(now > old + 10 * CIRCLING for now, old in zip(ended, began, strict=True))
    check(moved, f"{began} packets have become {ended}, with {host.ask('status')}; {host.client.read('drops')}")
    grown = host.holds()
    check(grown[0] - memory < MOST_GROWTH, f"{memory} bytes of memory have become {grown[0]}")
    wait_for("its threads to end", lambda: all(now <= old for now, old in zip(host.holds()[1:], (descriptors, threads), strict=True)), 5)

    for number in range(len(OTHERS)):
        host.client.write(f"back{number}.switch", "1")
    counts = lambda: [host.client.number(f"done{number}.count") for number in range(len(OTHERS))]  # noqa: E731
    last, now = [-1], counts()
    while now != last:
        time.sleep(0.3)
        last, now = now, counts()
    equal(now, [CIRCLING] * len(OTHERS), "packets that are left")
    equal(host.client.number("strange.count"), 0, "frames of others")
    status = host.ask("status")
    for router in status["routers"]:
        check(router["running"] and router["failures"] == 0, router)
        equal((router["interfaces"][0]["lost_queue_full"], router["interfaces"][0]["not_sent"]), (0, 0), f"losses of {router['name']}")
    port = status["ports"][0]
    equal((port["missed"], port["nobody_has_the_tag"], port["lost_transmit_queue_full"]), (0, 0, 0), "losses at the port")
