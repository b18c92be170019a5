"""`valiant vr` with the sharing `hardware`: the kernel puts the frames of each virtual router into a receive queue of its own."""

import json
import signal
import socket
import struct
import subprocess
import time
from typing import Any, Self

from harness import Plain, case, check, equal, wait_for
from lab import Lab, Namespace, Process, the_binary

ECHO = """
FromDevice($DEV0) -> in :: Counter -> work :: WorkPackage(CYCLES 0) -> EtherMirror -> Queue(1000) -> ToDevice($DEV0);
"""


class Host:
    """A host with a virtual router for each of these VLANs on one veth; a program sends back what comes."""

    def __init__(self, lab: Lab, vlans: dict[str, int], port: str = "", cycles: dict[str, int] | None = None, cores: str = "0"):
        self.gate, self.left = (lab.namespace(name) for name in "gl")
        lab.veth(self.gate, "eth0", self.left, "eth0")
        self.lab, self.file, self.port, self.cores = lab, lab.dir / "edge.toml", port, cores
        self.cycles = cycles or {}
        self.write(vlans)
        self.start(len(vlans))

    def start(self, routers: int) -> None:
        self.process: Process = self.gate.popen(the_binary(), "vr", "run", self.file, "--no-huge", log="vr.log")
        wait_for("the routers", lambda: self.running() == routers, 15)

    def running(self) -> int:
        """How many routers run."""
        if not (self.lab.dir / "run" / "host.control").exists():
            return -1
        try:
            return sum(router["running"] for router in self.status()["routers"])
        except Exception:  # The socket of a host that was killed.
            return -1

    def write(self, vlans: dict[str, int], ids: str = "vlan = {}") -> None:
        text = f'[host]\ncores = [{self.cores}]\ndirectory = "{self.lab.dir}/run"\n'
        text += f'[port.wan]\ndevice = "eth0"\nsharing = "hardware"\n{self.port}\n'
        for name, vlan in vlans.items():
            (self.lab.dir / f"{name}.click").write_text(ECHO.replace("CYCLES 0", f"CYCLES {self.cycles.get(name, 0)}"))
            text += f'[router.{name}]\nprogram = "{name}.click"\n[[router.{name}.interface]]\nport = "wan"\n{ids.format(vlan)}\n'
        self.file.write_text(text)

    def vr(self, command: str, *args: str) -> str:
        """The output of `valiant vr COMMAND FILE ARGS`."""
        return self.gate.sh(the_binary(), "vr", command, self.file, *args)

    def status(self) -> dict[str, Any]:
        """`valiant vr status --json`."""
        status: dict[str, Any] = json.loads(self.vr("status", "--json"))
        return status

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """The one interface of each router."""
        return {router["name"]: router["interfaces"][0] for router in self.status()["routers"]}

    def frame(self, vlan: int, mac: str = "02:00:00:00:00:99") -> bytes:
        """A tagged frame that says for whom it is; VLAN 0: without a tag."""
        tag = b"" if vlan == 0 else struct.pack("!HH", 0x8100, vlan)
        ethernet = bytes.fromhex((mac + ":02:00:00:00:00:01").replace(":", "")) + tag + b"\x88\xb5"
        return ethernet + (b"vlan %d." % vlan).ljust(50)

    def echoes(self, vlan: int, count: int = 20, seconds: float = 3, mac: str = "02:00:00:00:00:99") -> int:
        """How many of so many frames come back with their tag."""
        with Tagged(self.left) as wire:
            for _ in range(count):
                wire.socket.send(self.frame(vlan, mac))
            return wire.count(vlan, count, seconds)


class Tagged:
    """A packet socket that sees tags, which the kernel takes out of frames."""

    def __init__(self, space: Namespace):
        with space.inside():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            self.socket.setsockopt(263, 8, 1)  # PACKET_AUXDATA
            self.socket.bind(("eth0", 0x0003))
            index = socket.if_nametoindex("eth0")
            self.socket.setsockopt(263, 1, index.to_bytes(4, "little") + (1).to_bytes(2, "little") + bytes(10))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def count(self, vlan: int, most: int, seconds: float) -> int:
        """How many frames for a VLAN come with its tag, up to so many."""
        found, end = 0, time.monotonic() + seconds
        while found < most and (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                data, extra, _, address = self.socket.recvmsg(2048, 256)
            except TimeoutError:
                break
            tags = [struct.unpack("=IIIHHHH", text[:20])[5] for level, _, text in extra if level == 263]
            if address[2] != socket.PACKET_OUTGOING and b"vlan %d." % vlan in data and tags == [vlan]:
                found += 1
        return found


@case(Plain, seconds=60)
def each_router_has_a_queue_of_its_own(lab: Lab) -> None:
    host = Host(lab, {"red": 10, "blue": 20})
    for vlan in (10, 20, 30):
        equal(host.echoes(vlan, seconds=0.5 if vlan == 30 else 3), 0 if vlan == 30 else 20, f"answers with VLAN {vlan}")
    for name, interface in host.interfaces().items():
        check(interface["own_queue"], name)
        equal((interface["received"], interface["lost_queue_full"]), (20, 0), name)
    port = host.status()["ports"][0]
    equal((port["nobody_has_the_tag"], port["missed"]), (20, 0), "the port")
    # A router that comes later, and one that goes.
    host.write({"red": 10, "blue": 20, "green": 30})
    host.vr("add", "green")
    equal(host.echoes(30), 20, "answers of green")
    check(host.interfaces()["green"]["own_queue"], "green has no queue")
    host.vr("remove", "red")
    equal((host.echoes(10, seconds=0.5), host.echoes(20)), (0, 20), "answers after red was removed")


@case(Plain, seconds=60)
def a_flood_costs_its_router_alone(lab: Lab) -> None:
    # About 0.3 ms for each packet of red.
    host = Host(lab, {"red": 10, "blue": 20}, cycles={"red": 1_000_000})
    flood, frames = 6000, 300
    with Tagged(host.left) as wire, Tagged(host.left) as other:
        for number in range(flood):
            wire.socket.send(host.frame(10))
            if number % (flood // frames) == 0:
                other.socket.send(host.frame(20))
        equal(other.count(20, frames, 20), frames, "answers of blue while red is flooded")

    def done() -> bool:
        red = host.interfaces()["red"]
        return bool(red["received"] + red["lost_queue_full"] == flood)

    wait_for("all frames of red to be received or counted as lost", done, 30)
    of = host.interfaces()
    check(of["red"]["lost_queue_full"] > 0, of)
    equal((of["blue"]["received"], of["blue"]["lost_queue_full"]), (frames, 0), "blue")


@case(Plain, seconds=60)
def the_busiest_have_the_queues(lab: Lab) -> None:
    vlans = {"red": 10, "blue": 20, "green": 30}
    host = Host(lab, vlans, port="queues = 1")
    equal([host.echoes(vlan) for vlan in vlans.values()], [20, 20, 20], "answers")
    for busy in ("green", "red"):

        def has_it(busy: str = busy) -> bool:
            host.echoes(vlans[busy], 1000, 0.2)
            return [name for name, interface in host.interfaces().items() if interface["own_queue"]] == [busy]

        wait_for(f"the queue to be {busy}'s", has_it, 20)
        equal([host.echoes(vlan) for vlan in vlans.values()], [20, 20, 20], "answers")
    equal(sum(interface["lost_queue_full"] for interface in host.interfaces().values()), 0, "packets lost")


@case(Plain, seconds=60)
def addresses_tell_routers_without_a_tag(lab: Lab) -> None:
    host = Host(lab, {"red": 1, "blue": 2}, cores="0, 1")
    host.vr("remove", "red")
    host.vr("remove", "blue")
    host.write({"red": 1, "blue": 2}, ids='mac = "02:00:00:00:01:0{}"')
    for name in ("red", "blue"):
        host.vr("add", name)
    for last, name in ((1, "red"), (2, "blue")):
        equal(host.echoes(0, mac=f"02:00:00:00:01:0{last}"), 20, f"answers of {name}")
        equal(host.interfaces()[name]["received"], 20, name)
    # A broadcast reaches both, by the queue that all share.
    equal(host.echoes(0, 1, mac="ff:ff:ff:ff:ff:ff", seconds=0.5) >= 1, True, "an answer to a broadcast")
    equal([interface["received"] for interface in host.interfaces().values()], [21, 21], "with a broadcast")


@case(Plain, seconds=60)
def nothing_is_left_of_a_host_that_was_killed(lab: Lab) -> None:
    host = Host(lab, {"red": 10})
    for _ in range(2):
        equal(host.echoes(10), 20, "answers")
        host.process.send_signal(signal.SIGKILL)
        host.process.wait(timeout=5)
        equal(host.echoes(10, seconds=0.3), 0, "answers of nobody")
        host.start(1)
    # An interface that was switched off and on gives the queues the same numbers again.
    for state in ("down", "up"):
        host.gate.ip("link", "set", "eth0", state)
    wait_for("answers after the interface was off", lambda: host.echoes(10, 20, 1) == 20, 10)


@case(Plain, seconds=30)
def a_port_without_such_queues_says_so(lab: Lab) -> None:
    file = lab.dir / "edge.toml"
    (lab.dir / "red.click").write_text(ECHO)
    text = f'[host]\ncores = [0]\ndirectory = "{lab.dir}/run"\n[port.wan]\ndevice = "net_null0"\nsharing = "hardware"\n'
    file.write_text(text + '[router.red]\nprogram = "red.click"\n[[router.red.interface]]\nport = "wan"\nvlan = 10\n')
    space = lab.namespace("g")
    done = subprocess.run(
        space.command(the_binary(), "vr", "run", file, "--no-huge"), capture_output=True, text=True, timeout=20, check=False
    )
    check(done.returncode == 1 and "runs on Linux interfaces so far" in done.stderr, done.stderr)
