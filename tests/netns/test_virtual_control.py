"""Control planes of virtual routers: each has a network namespace with a TAP for each interface, and FRR in it."""

import json
import os
import pathlib
import signal
import subprocess
import time
from typing import Any

from frr import Frr, installed
from harness import ICMP, IP, Ether, Plain, Router, Skip, case, check, equal, ping, raw, wait_for
from lab import ROOT, Lab, Namespace, Process, sh, the_binary

INTERFACE = """
interface {device}
 ip ospf hello-interval 1
 ip ospf dead-interval 3
 ip ospf network point-to-point
"""

OSPF = """
router ospf
 ospf router-id {address}
 timers throttle spf 10 50 200
 timers throttle lsa all 50
 timers lsa min-arrival 10
 {more}
"""

BGP = """
router bgp {own}
 bgp router-id {address}
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor {peer} remote-as {other}
 neighbor {peer} timers connect 1
 {more}
"""


def named(lab: Lab, short: str) -> Namespace:
    """A namespace that somebody else makes; the lab removes it by its name."""
    space: Namespace = object.__new__(Namespace)
    space.lab, space.short, space.name = lab, short, f"{lab.name}-{short}"
    return space


class Host:
    """`outside` -eth0- blue == red -eth1- `inside`: blue's namespace was there before, red's is made."""

    def __init__(self, lab: Lab, red: str = "shared"):
        self.lab, self.scheme = lab, red
        self.gate, self.outside, self.inside = (lab.namespace(name) for name in "goi")
        lab.veth(self.gate, "eth0", self.outside, "eth0")
        lab.veth(self.gate, "eth1", self.inside, "eth0")
        self.outside.ip("addr", "add", "10.1.0.2/24", "dev", "eth0")
        self.outside.ip("addr", "add", "172.16.0.1/24", "dev", "lo")
        self.inside.ip("addr", "add", "10.2.0.2/24", "dev", "eth0")
        self.inside.ip("route", "add", "default", "via", "10.2.0.1")
        self.blue, self.red = lab.namespace("b"), named(lab, "r")
        self.blue.sh("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.file, self.program = lab.dir / "edge.toml", lab.dir / "router.click"
        self.program.write_text((ROOT / "conf" / "vr-frr.click").read_text())
        self.write()
        # Not `ip netns exec`, in which a namespace that is made is seen by nobody else.
        inside = f"--net=/run/netns/{self.gate.name}"
        self.process: Process = lab.popen("nsenter", inside, "--", the_binary(), "vr", "run", self.file, "--no-huge", log="vr.log")
        wait_for("the host's socket", (lab.dir / "run" / "host.control").exists, 10)
        wait_for("both routers", lambda: len(json.loads(self.vr("status", "--json"))["routers"]) == 2, 5)
        for router in ("blue", "red"):
            self.in_step(router)

    def in_step(self, router: str) -> None:
        def state() -> bool:
            done = subprocess.run(self.reading(router, "kernel.state"), capture_output=True, text=True, check=False)
            return done.stdout.strip() == "in step"

        wait_for(f"{router} to be in step", state, 10)

    def write(self, *, red: str = "") -> None:
        self.file.write_text(f"""
[host]
cores = [0]
directory = "{self.lab.dir}/run"
[port.left]
device = "eth0"
[port.right]
device = "eth1"
[router.blue]
program = "router.click"
[router.blue.control]
namespace = "{self.blue.name}"
[[router.blue.interface]]
port = "left"
mac = "02:00:00:00:00:0b"
addresses = ["10.1.0.1/24"]
[[router.blue.interface]]
addresses = ["10.12.0.1/30"]
[router.red]
program = "router.click"
scheme = "{self.scheme}"
[router.red.control]
namespace = "{self.red.name}"
[[router.red.interface]]
addresses = ["10.12.0.2/30", "2001:db8::2/64"]
[[router.red.interface]]
port = "right"
addresses = ["10.2.0.1/24", "2001:db8:2::1/64"{red}]
[[link]]
ends = ["blue.DEV1", "red.DEV0"]
""")

    def vr(self, command: str, *args: str) -> str:
        return self.gate.sh(the_binary(), "vr", command, self.file, *args)

    def reading(self, router: str, handler: str) -> list[str]:
        return [str(the_binary()), "read", "--socket", str(self.lab.dir / "run" / f"{router}.sock"), handler]

    def read(self, router: str, handler: str) -> str:
        return self.gate.sh(*self.reading(router, handler)).strip()

    def process_of(self, router: str) -> int:
        routers = json.loads(self.vr("status", "--json"))["routers"]
        number: int = next(one["process"] for one in routers if one["name"] == router)
        return number

    def log(self) -> str:
        return self.process.log.read_text()

    def frr(self) -> dict[str, Frr]:
        """OSPF on all three routers, and BGP between the outermost."""
        if not installed():
            raise Skip("FRR is not installed (apt install frr)")

        def bgp(number: int, more: str) -> str:
            peer = 3 - number
            return BGP.format(own=65000 + number, other=65000 + peer, address=f"10.1.0.{number}", peer=f"10.1.0.{peer}", more=more)

        def ospf(address: str, networks: str, devices: str, more: str = "") -> str:
            text = "".join(INTERFACE.format(device=device) for device in devices.split())
            text += OSPF.format(address=address, more=more)
            return text + "".join(f" network {network} area 0\n" for network in networks.split())

        both = "10.1.0.0/24 10.12.0.0/30"
        return {
            "o": Frr(self.lab, self.outside, bgpd=bgp(2, "network 172.16.0.0/24"), ospfd=ospf("10.1.0.2", "10.1.0.0/24", "eth0")),
            "b": Frr(self.lab, self.blue, ospfd=ospf("10.1.0.1", both, "DEV0 DEV1", "redistribute bgp"), bgpd=bgp(1, "redistribute ospf")),
            "r": Frr(self.lab, self.red, ospfd=ospf("10.12.0.2", "10.12.0.0/30", "DEV0", "redistribute connected")),
        }


def neighbors(frr: Frr) -> dict[str, Any]:
    """The OSPF neighbors that are fully adjacent."""
    known: dict[str, Any] = frr.show("ip ospf neighbor").get("neighbors", {})
    return {router: all_of[0] for router, all_of in known.items() if all_of[0]["converged"] == "Full"}


@case(Plain, seconds=180)
def control_planes_route_with_frr(lab: Lab) -> None:
    host = Host(lab)
    link = json.loads(host.blue.ip("-json", "link", "show", "DEV0"))[0]
    equal((link["address"], link["mtu"], "LOWER_UP" in link["flags"]), ("02:00:00:00:00:0b", 1500, True), "blue's TAP")
    check("2001:db8::2" in host.red.ip("addr", "show", "DEV0"), "red's IPv6 address")
    # Linux answers for the routers.
    wait_for("a ping to blue", lambda: ping(host.outside, "10.1.0.1"), 5)
    wait_for("a ping to red", lambda: ping(host.inside, "10.2.0.1"), 5)
    # Linux answers and forwards IPv6, too.
    host.inside.sh("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=0")
    host.inside.ip("addr", "add", "2001:db8:2::2/64", "dev", "eth0", "nodad")
    wait_for("a ping to red by IPv6", lambda: ping(host.inside, "2001:db8:2::1"), 10)
    frr = host.frr()
    wait_for("OSPF between blue and red", lambda: len(neighbors(frr["b"])) == 2, 30)
    wait_for("the way there", lambda: "172.16.0.0/24" in host.read("red", "rt.table"), 20)
    wait_for("the way back", lambda: host.outside.ip("route", "show", "10.2.0.0/24"), 20)
    equal(host.read("red", "rt.lookup 172.16.0.9"), "1 10.12.0.1", "red's route")
    wait_for("a ping through both", lambda: ping(host.inside, "172.16.0.1"), 5)
    route = host.inside.sh("traceroute", "-n", "-q", "1", "-w", "2", "172.16.0.1")
    check([hop in route for hop in ("10.2.0.1", "10.12.0.1", "172.16.0.1")] == [True] * 3, route)
    # What goes through does not touch Linux.
    before = int(host.read("red", "if1/linux.count")), int(host.read("blue", "if0/linux.count"))
    flow = host.inside.sh("ping", "-q", "-i", "0.002", "-c", "500", "172.16.0.1")
    check(" 0% packet loss" in flow, flow)
    after = int(host.read("red", "if1/linux.count")), int(host.read("blue", "if0/linux.count"))
    check(sum(after) - sum(before) < 50, (before, after))
    # An interface of the namespace that is switched off, and on again.
    host.blue.ip("link", "set", "DEV1", "down")
    wait_for("no way", lambda: "10.2.0.0/24" not in host.read("blue", "rt.table"), 10)
    host.blue.ip("link", "set", "DEV1", "up")
    wait_for("the way again", lambda: ping(host.inside, "172.16.0.1"), 30)
    # A daemon that is killed; the next one removes what is left of its routes, and learns them again.
    frr["b"].restart(signal.SIGKILL)
    wait_for("OSPF again", lambda: len(neighbors(frr["b"])) == 2, 30)
    wait_for("a ping again", lambda: ping(host.inside, "172.16.0.1"), 20)
    for router in ("blue", "red"):
        known = json.loads(host.read(router, "kernel.json"))
        equal((known["drift"], known["lost"], known["state"]), (0, 0, "in step"), router)
    # Another address of red's.
    host.write(red=', "10.7.0.1/24"')
    host.vr("apply")
    wait_for("the new address", lambda: "10.7.0.0/24" in host.read("blue", "rt.table"), 20)
    host.write()
    host.vr("apply")
    wait_for("no such address", lambda: "10.7.0.0/24" not in host.read("blue", "rt.table"), 20)
    host.vr("down")
    equal(host.process.wait(timeout=10), 0, "the exit status")
    check("DEV0" not in host.blue.ip("link"), "blue's TAP is there still")
    check(host.red.name not in sh("ip", "netns", "list"), "red's namespace is there still")


def flood(space: Namespace, frames: list[bytes]) -> Process:
    """Frames from a host, as many as a router sends."""
    conf = space.lab.dir / "flood.click"
    sources = "".join(f"InfiniteSource(DATA \\<{frame.hex()}>) -> q;\n" for frame in frames)
    conf.write_text(f"q :: Queue(1000) -> ToDevice(eth0);\n{sources}")
    return space.popen(the_binary(), "run", "--no-huge", conf, log="flood.log")


def dropped(host: Host, policer: str) -> int:
    words = host.read("blue", f"if0/host/{policer}.drops").split()
    return sum(int(word) for word in words if word.isdigit())


@case(Plain, seconds=90)
def a_flood_for_the_router_itself_costs_no_hello(lab: Lab) -> None:
    host = Host(lab)
    frr = host.frr()
    wait_for("OSPF on both sides", lambda: len(neighbors(frr["b"])) == 2, 30)
    wait_for("the way", lambda: ping(host.inside, "172.16.0.1"), 30)
    ether = Ether(src=host.outside.mac("eth0"), dst="02:00:00:00:00:0b")
    process = flood(host.outside, [
        raw(ether / IP(src="10.1.0.2", dst="10.1.0.1") / ICMP() / bytes(26)),
        raw(ether / IP(src="10.1.0.2", dst="10.2.0.2", ttl=1) / ICMP() / bytes(26)),
    ])
    adjacent = []
    began = time.monotonic()
    while time.monotonic() < began + 8:
        adjacent.append(len(neighbors(frr["b"])) == 2 and len(neighbors(frr["o"])) == 1)
        time.sleep(0.2)
    check(process.poll() is None, process.log.read_text())
    lab.stop(process)
    sent = json.loads(host.vr("status", "--json"))["ports"][0]["received"]
    check(all(adjacent), f"adjacent: {adjacent}")
    # Both were policed, and nothing else.
    check(sent > 30_000, f"{sent} packets in 8 s are no flood")
    policed = [dropped(host, name) for name in ("icmp", "exception")]
    check(min(policed) > sent // 10, (sent, policed))
    equal([dropped(host, name) for name in ("routing", "bgp", "neighbors", "other")], [0] * 4, "other packets dropped")
    equal(host.read("blue", "kernel.drift"), "0", "drift")


@case(Plain, seconds=120)
def a_process_has_a_control_plane_with_frr(lab: Lab) -> None:
    host = Host(lab, red="hybrid")
    wait_for("a ping to red", lambda: ping(host.inside, "10.2.0.1"), 5)
    frr = host.frr()
    wait_for("OSPF between blue and red", lambda: len(neighbors(frr["b"])) == 2, 30)
    wait_for("a ping through both", lambda: ping(host.inside, "172.16.0.1"), 20)
    equal(host.read("red", "rt.lookup 172.16.0.9"), "1 10.12.0.1", "red's route")
    route = host.inside.sh("traceroute", "-n", "-q", "1", "-w", "2", "172.16.0.1")
    check([hop in route for hop in ("10.2.0.1", "10.12.0.1", "172.16.0.1")] == [True] * 3, route)
    # Another program, while the process goes on.
    process = host.process_of("red")
    host.program.write_text(host.program.read_text() + "Idle -> Discard;\n")
    host.vr("apply")
    host.in_step("red")
    equal((host.process_of("red"), len(neighbors(frr["r"]))), (process, 1), "red after the change")
    check(ping(host.inside, "172.16.0.1"), "a ping after the change")
    # Its process is killed: the next one has the same TAPs, and what FRR knows.
    os.kill(process, signal.SIGKILL)
    wait_for("another process", lambda: host.process_of("red") not in (None, process), 10)
    host.in_step("red")
    wait_for("a ping again", lambda: ping(host.inside, "172.16.0.1"), 30)
    # A route that goes, and one that comes.
    host.red.ip("route", "add", "198.51.100.0/24", "via", "10.2.0.2")
    wait_for("the route", lambda: host.read("red", "rt.lookup 198.51.100.1") == "2 10.2.0.2", 5)
    host.red.ip("route", "del", "198.51.100.0/24")
    wait_for("no route", lambda: "198.51.100" not in host.read("red", "rt.table"), 5)
    equal(host.read("red", "kernel.drift"), "0", "drift")
    host.vr("remove", "red")
    check(host.red.name not in sh("ip", "netns", "list"), "red's namespace is there still")


@case(Plain, seconds=60)
def a_process_with_its_own_ports_has_a_control_plane(lab: Lab) -> None:
    gate, left, right = (lab.namespace(name) for name in "glr")
    space = named(lab, "d")
    text = f'[host]\ncores = [0]\ndirectory = "{lab.dir}/run"\n'
    router = f'[router.red]\nprogram = "router.click"\nscheme = "direct"\n[router.red.control]\nnamespace = "{space.name}"\n'
    for number, host in ((0, left), (1, right)):
        lab.veth(gate, f"eth{number}", host, "eth0")
        host.ip("addr", "add", f"10.{number}.0.2/24", "dev", "eth0")
        host.ip("route", "add", "default", "via", f"10.{number}.0.1")
        text += f'[port.p{number}]\ndevice = "eth{number}"\n'
        router += f'[[router.red.interface]]\nport = "p{number}"\nwhole = true\naddresses = ["10.{number}.0.1/24"]\n'
    file = lab.dir / "edge.toml"
    file.write_text(text + router)
    (lab.dir / "router.click").write_text((ROOT / "conf" / "vr-frr.click").read_text())
    inside = f"--net=/run/netns/{gate.name}"
    process = lab.popen("nsenter", inside, "--", the_binary(), "vr", "run", file, "--no-huge", log="vr.log")
    wait_for("a ping", lambda: ping(left, "10.1.0.2"), 20)
    check("10.0.0.1" in left.sh("traceroute", "-n", "-q", "1", "-w", "2", "10.1.0.2"), "Linux does not answer for the router")
    # Whoever has taken over the process cannot enter the namespace.
    status = json.loads(gate.sh(the_binary(), "vr", "status", file, "--json"))["routers"][0]
    lines = pathlib.Path(f"/proc/{status['process']}/status").read_text().splitlines()
    equal([line.split()[1] for line in lines if line.startswith("CapEff")], ["0" * 16], "its capabilities")
    # Addresses change while it runs.
    file.write_text(text + router.replace('"10.1.0.1/24"', '"10.1.0.1/24", "10.9.0.1/24"'))
    gate.sh(the_binary(), "vr", "apply", file)
    wait_for("the new address", lambda: ping(left, "10.9.0.1"), 10)
    gate.sh(the_binary(), "vr", "down", file)
    equal(process.wait(timeout=10), 0, "the exit status")
    check(space.name not in sh("ip", "netns", "list"), "its namespace is there still")


@case(Plain, seconds=60)
def a_namespace_that_vanishes_stops_nobody(lab: Lab) -> None:
    host = Host(lab)
    wait_for("a ping to blue", lambda: ping(host.outside, "10.1.0.1"), 5)
    sh("ip", "netns", "del", host.blue.name)
    wait_for("no route", lambda: host.read("blue", "kernel.state") == "namespace gone", 5)
    equal((host.read("blue", "kernel.count"), host.read("red", "kernel.state")), ("0", "in step"), "what is left")
    check(f"network namespace '{host.blue.name}' is gone; its routes are removed" in host.log(), host.log())
    check(ping(host.inside, "10.2.0.1"), "red does not answer")
    # Its TAPs are made again with it.
    host.vr("remove", "blue")
    host.vr("add", "blue")
    wait_for("a ping to blue", lambda: ping(host.outside, "10.1.0.1"), 5)
    host.vr("remove", "blue")
    check(host.blue.name not in sh("ip", "netns", "list"), "the namespace that was made")
    # What is wrong is told, and nothing is left of it.
    text = host.program.read_text()
    host.program.write_text(text.replace("HOST 0", "HOST 99"))
    done = subprocess.run([the_binary(), "vr", "add", host.file, "blue"], capture_output=True, text=True, check=False)
    check(done.returncode == 1 and "bad OUTPUT 99" in done.stderr, done.stderr)
    check(host.blue.name not in sh("ip", "netns", "list"), "a namespace is left")


@case(Plain, seconds=60)
def an_ordinary_router_has_a_control_plane_too(lab: Lab) -> None:
    gate, left, right, space = (lab.namespace(name) for name in "glrs")
    conf = ROOT / "conf" / "vr-frr.click"
    for number, host in ((0, left), (1, right)):
        lab.veth(gate, f"eth{number}", host, "eth0")
        host.ip("addr", "add", f"10.{number}.0.2/24", "dev", "eth0")
        host.ip("route", "add", "default", "via", f"10.{number}.0.1")
    macs = [f"MAC{n}={gate.mac(f'eth{n}')}" for n in (0, 1)]
    router = Router(lab, gate, pathlib.Path(conf), "DEV0=eth0", "DEV1=eth1", f"NETNS={space.name}", *macs)
    space.sh("sysctl", "-qw", "net.ipv4.ip_forward=1")
    for number in (0, 1):
        space.ip("addr", "add", f"10.{number}.0.1/24", "dev", f"DEV{number}")
    wait_for("a ping", lambda: ping(left, "10.1.0.2"), 5)
    equal(router.read("if0/arp.ipaddr"), "10.0.0.1", "the address that it asks with")
    check("10.0.0.1" in left.sh("traceroute", "-n", "-q", "1", "-w", "2", "10.1.0.2"), "the router's answer")
    big = left.sh("ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1472", "10.1.0.2")
    check(" 0% packet loss" in big, big)
    equal(router.read("kernel.drift"), "0", "drift")
