"""`valiant vr`: two virtual routers in one process share two interfaces; each has hosts on both."""

import contextlib
import json
import pathlib
import subprocess
from typing import Any

from control import ControlSocket
from harness import Plain, Skip, case, check, equal, ping, wait_for
from lab import Lab, Namespace, Process, cores, the_binary
from packets import write_pcap

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "conf" / "vr-blue.click"


class Host:
    """A running host with the virtual routers `blue` (10.1, 10.2) and `red` (10.3, 10.4) between two Linux hosts."""

    def __init__(self, lab: Lab):
        self.gate, self.left, self.right = (lab.namespace(name) for name in "glr")
        lab.veth(self.gate, "eth0", self.left, "eth0")
        lab.veth(self.gate, "eth1", self.right, "eth0")
        for net, host, other in ((1, self.left, 2), (2, self.right, 1), (3, self.left, 4), (4, self.right, 3)):
            host.ip("addr", "add", f"10.{net}.0.2/24", "dev", "eth0")
            host.ip("route", "add", f"10.{other}.0.0/24", "via", f"10.{net}.0.1", "src", f"10.{net}.0.2")
        self.lab, self.file = lab, lab.dir / "edge.toml"
        self.program = lab.dir / "router.click"
        self.program.write_text(PROGRAM.read_text())
        self.write(("blue", 1), ("red", 3))
        self.process: Process = self.gate.popen(the_binary(), "vr", "run", self.file, "--no-huge", log="vr.log")
        wait_for("the host's socket", (lab.dir / "run" / "host.control").exists, 10)
        wait_for("the routers", lambda: len(self.status()["routers"]) == 2, 5)

    def write(self, *routers: tuple[str, int], extra: str = "") -> None:
        """The host file, with each router and the first of its two networks."""
        text = f'[host]\ncores = [0]\ndirectory = "{self.lab.dir}/run"\n'
        text += '[port.left]\ndevice = "eth0"\n[port.right]\ndevice = "eth1"\n'
        for name, net in routers:
            text += f'[router.{name}]\nprogram = "router.click"\n[router.{name}.variables]\nUPLINK = "10.{net}.0.2"\n'
            for number in range(2):
                at = f"10.{net + number}.0"
                text += f'IP{number} = "{at}.1"\nNET{number} = "{at}.0/24"\nBCAST{number} = "{at}.255"\n'
            for port in ("left", "right"):
                text += f'[[router.{name}.interface]]\nport = "{port}"\n'
        self.file.write_text(text + extra)

    def vr(self, command: str, *args: str) -> str:
        """The output of `valiant vr COMMAND FILE ARGS`."""
        return self.gate.sh(the_binary(), "vr", command, self.file, *args)

    def fails(self, command: str, *args: str) -> str:
        """What a command that must fail says."""
        words = self.gate.command(the_binary(), "vr", command, self.file, *args)
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
        check(done.returncode == 1, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stderr

    def status(self) -> dict[str, Any]:
        """`valiant vr status --json`."""
        status: dict[str, Any] = json.loads(self.vr("status", "--json"))
        return status

    def handler(self, router: str, name: str) -> str:
        """A read handler of a router, by its own socket."""
        return self.gate.sh(the_binary(), "read", "--socket", self.lab.dir / "run" / f"{router}.sock", name).strip()


def stream(host: Namespace, to: str, count: int = 400) -> Process:
    """A ping that sends a packet each 5 ms."""
    return host.popen("ping", "-q", "-i", "0.005", "-c", str(count), "-W", "1", to, stdout=subprocess.PIPE, text=True)


def lost(process: Process) -> int:
    """How many answers a stream has missed."""
    out, _ = process.communicate(timeout=20)
    words = next(line for line in out.splitlines() if "transmitted" in line).split()
    return int(words[0]) - int(words[3])


@case(Plain, seconds=60)
def two_share_two_interfaces_and_come_and_go_alone(lab: Lab) -> None:
    host = Host(lab)
    for to in ("10.2.0.2", "10.4.0.2"):
        wait_for(f"a ping to {to}", lambda to=to: ping(host.left, to), 5)
    route = host.left.sh("traceroute", "-n", "-q", "1", "-w", "1", "10.4.0.2")
    check("10.3.0.1" in route and "10.1.0.1" not in route, route)
    # Each answers for its own address alone, although both see the broadcasts.
    neighbors = {line.split()[0]: line.split()[4] for line in host.left.sh("ip", "neigh").splitlines() if "lladdr" in line}
    check(neighbors["10.1.0.1"] != neighbors["10.3.0.1"], neighbors)
    for router in host.status()["routers"]:
        check(router["running"] and router["interfaces"][0]["received"] > 0, router)

    flow = stream(host.left, "10.2.0.2")
    for _ in range(5):
        host.vr("remove", "red")
        check(not ping(host.left, "10.4.0.2"), "red answers after it was removed")
        host.vr("add", "red")
        wait_for("red", lambda: ping(host.left, "10.4.0.2"), 3)
    equal(lost(flow), 0, "packets lost by blue while red went and came")
    check("no virtual router 'green' runs here" in host.fails("remove", "green"), "removing what is not there")
    check("has no router 'green'" in host.fails("add", "green"), "adding what is not in the file")


@case(Plain, seconds=60)
def apply_does_the_difference_or_nothing(lab: Lab) -> None:
    host = Host(lab)
    wait_for("blue", lambda: ping(host.left, "10.2.0.2"), 5)
    wait_for("red", lambda: ping(host.left, "10.4.0.2"), 5)
    check("nothing has changed" in host.vr("apply"), "an apply without a change")
    # A wrong program: nothing is done, although the rest of the file has a change.
    good = host.program.read_text()
    host.program.write_text(good.replace("ICMPPingResponder", "ICMPPingResponde"))
    host.write(("blue", 1))
    check("ICMPPingResponde" in host.fails("apply"), "a wrong program")
    equal([r["name"] for r in host.status()["routers"]], ["blue", "red"], "the routers after a wrong program")
    # A changed program: hot-swapped under traffic, with its state.
    host.program.write_text(good.replace("rt[3] -> Discard;", "rt[3] -> other :: Counter -> Discard;"))
    host.write(("blue", 1), ("red", 3))
    flow = stream(host.left, "10.2.0.2")
    told = host.vr("apply")
    check("blue: program changed" in told and "red: program changed" in told, told)
    equal(lost(flow), 0, "packets lost by a hot swap")
    equal(host.handler("blue", "other.count"), "0", "the new element")
    host.write(("blue", 1))
    equal(host.vr("apply"), "red: removed\n", "what apply says")
    check(ping(host.left, "10.2.0.2") and not ping(host.left, "10.4.0.2"), "blue alone")
    host.write(("blue", 1), extra='[router.blue]\nprogram = "x"\n')
    check("edge.toml:" in host.fails("apply"), "a wrong file")
    host.write(("blue", 1))
    host.vr("down")
    equal(host.process.wait(timeout=10), 0, "the exit status")
    equal(list((lab.dir / "run").iterdir()), [], "what is left")
    check("no host runs" in host.fails("status"), "a host that has ended")


@case(Plain, seconds=60)
def an_apply_that_fails_leaves_everything_as_it_was(lab: Lab) -> None:
    host = Host(lab)
    wait_for("blue", lambda: ping(host.left, "10.2.0.2"), 5)
    wait_for("red", lambda: ping(host.left, "10.4.0.2"), 5)
    # Green passes the check and cannot start; red goes, and blue gets another share.
    (lab.dir / "green.click").write_text('Idle -> Discard; ControlSocket(unix, "/nothing/here");')
    good = host.program.read_text()
    green = '[router.green]\nprogram = "green.click"\nallow = { sockets = ["unix:/nothing/here"] }\n'
    host.write(("blue", 1), extra=green + '[[router.green.interface]]\nport = "left"\n')
    host.file.write_text(host.file.read_text().replace("[router.blue]\n", "[router.blue]\nshare = 7\n"))
    host.program.write_text(good.replace("rt[3] -> Discard;", "rt[3] -> other :: Counter -> Discard;"))
    said = host.fails("apply")
    check("router green: " in said and "/nothing/here" in said and "nothing has changed" in said, said)
    equal([(r["name"], r["share"], r["running"]) for r in host.status()["routers"]], [("blue", 1, True), ("red", 1, True)], "the routers")
    wait_for("blue as before", lambda: ping(host.left, "10.2.0.2"), 3)
    wait_for("red as before", lambda: ping(host.left, "10.4.0.2"), 3)
    check("other.count" not in host.handler("blue", "list"), "the program of before")

    # A changed limit, and an owner who is one no more.
    host.program.write_text(good)
    host.write(("blue", 1), ("red", 3))
    before = host.file.read_text()
    host.file.write_text(before.replace("[router.blue]\n", '[router.blue]\nowner = "daemon"\nlimits = { queue = 64 }\n'))
    client = ControlSocket(lab.dir / "run" / "blue.sock")
    check("blue: " in host.vr("apply"), "a changed limit")
    try:
        client.read("version")
        check(False, "a session goes on with another owner")
    except OSError:
        pass
    socket = lab.dir / "run" / "blue.sock"
    equal(socket.owner(), "daemon", "the owner of the socket")
    host.file.write_text(before)
    host.vr("apply")
    equal((socket.owner(), socket.group()), ("root", "root"), "the owner of the socket")


@case(Plain, seconds=60)
def receive_queues_are_for_routers_alone(lab: Lab) -> None:
    """A port with three receive queues: two for a router each, of whatever scheme; the third by VLAN."""
    gate, file = lab.namespace("g"), lab.dir / "edge.toml"
    inputs = ""
    for mark in (1, 2, 3):
        frame = bytes.fromhex("020000000001 020000000063 8100 000a 0800") + bytes([mark]) * 42
        write_pcap(lab.dir / f"{mark}.pcap", [frame] * 64)
        inputs += f",rx_pcap={lab.dir}/{mark}.pcap"
    text = f'[host]\ncores = [0]\ndirectory = "{lab.dir}/run"\n[port.in]\ndevice = "net_pcap0,infinite_rx=1{inputs},tx_pcap=/dev/null"\n'
    routers = (("one", "shared", "vlan = 10"), ("two", "shared", "queue = 1"), ("three", "hybrid", "queue = 2"))
    for mark, (name, scheme, tag) in enumerate(routers, 1):
        program = f"FromDevice($DEV0) -> kind :: Classifier(40/{mark:02x}, -); kind[0] -> right :: Counter -> Discard;" \
            " kind[1] -> wrong :: Counter -> Discard; Idle -> ToDevice($DEV0);"
        (lab.dir / f"{name}.click").write_text(program)
        text += f'[router.{name}]\nprogram = "{name}.click"\nscheme = "{scheme}"\n[[router.{name}.interface]]\nport = "in"\n{tag}\n'
    file.write_text(text)
    check("queue 2" in gate.sh(the_binary(), "vr", "check", file), "what check shows")
    gate.popen(the_binary(), "vr", "run", file, "--no-huge", log="vr.log")

    def count(name: str, counter: str) -> int:
        return ControlSocket(lab.dir / "run" / f"{name}.sock", patience=10).number(f"{counter}.count")

    for name in ("one", "two", "three"):
        wait_for(f"frames at {name}", lambda name=name: count(name, "right") > 5000, 15)
    equal([count(name, "wrong") for name in ("one", "two", "three")], [0, 0, 0], "frames of other queues")
    # While its router is not there, a queue's frames are nobody's.
    gate.sh(the_binary(), "vr", "remove", file, "two")

    def nobody() -> int:
        return int(json.loads(gate.sh(the_binary(), "vr", "status", "--json", file))["ports"][0]["nobody_has_the_tag"])

    before = nobody()
    wait_for("frames of nobody", lambda: nobody() > before + 1000, 10)
    equal(count("one", "wrong"), 0, "frames of a router that is not there")
    gate.sh(the_binary(), "vr", "add", file, "two")
    wait_for("frames at two", lambda: count("two", "right") > 1000, 10)
    equal(count("two", "wrong"), 0, "frames of other queues")
    file.write_text(text.replace("queue = 1", "queue = 7"))
    words = gate.command(the_binary(), "vr", "apply", file)
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    check(done.returncode == 1 and "there is no receive queue 7: the port was opened with 3" in done.stderr, done.stderr)
    check("nothing has changed" in done.stderr, done.stderr)
    gate.sh(the_binary(), "vr", "down", file)


@case(Plain, seconds=90)
def elements_may_be_bound_to_any_worker(lab: Lab) -> None:
    if len(cores()) < 2:
        raise Skip("it needs two processors")
    gate, host = lab.namespace("g"), lab.namespace("h")
    lab.veth(gate, "eth0", host, "eth0")
    program, file = lab.dir / "mirror.click", lab.dir / "host.toml"

    def write(receiver: int, sender: int, whole: str) -> None:
        program.write_text(f"StaticThreadSched(from {receiver}, to {sender});\n"
                           "from :: FromDevice($DEV0) -> EtherMirror -> ThreadSafeQueue(2000) -> to :: ToDevice($DEV0);\n")
        file.write_text(f'[host]\ncores = {cores()[:2]}\ndirectory = "{lab.dir}/run"\n[port.p]\ndevice = "eth0"\n'
                        f'[router.m]\nprogram = "mirror.click"\n[[router.m.interface]]\nport = "p"\n{whole}\n')

    for whole in ("whole = true", 'mac = "02:00:00:00:00:02"'):
        write(0, 0, whole)
        process = gate.popen(the_binary(), "vr", "run", file, "--no-huge", log="pinned.log")
        wait_for("the router's socket", (lab.dir / "run" / "m.sock").exists, 10)
        for receiver, sender in ((0, 0), (1, 1), (0, 1), (1, 0)):
            write(receiver, sender, whole)
            gate.sh(the_binary(), "vr", "apply", file)
            # Many in both threads' queues, and single ones, which nothing else has the threads look for.
            for rate, count in (("2k", 600), ("20", 6)):
                sent = host.sh(the_binary(), "gen", "--to", "eth0", "--sink", "eth0", "-r", rate, "-n", count, "-f", "6",
                               "--json", "-q")
                report = json.loads(sent)
                equal((report["sent"]["frames"], report["loss"]["frames"]), (count, 0), f"{whole}, workers {receiver}, {sender}")
        lab.stop(process)


@case(Plain, seconds=40)
def what_waits_for_a_rate_leaves_when_the_rate_goes(lab: Lab) -> None:
    gate, host = lab.namespace("g"), lab.namespace("h")
    lab.veth(gate, "eth0", host, "eth0")
    program, file = lab.dir / "source.click", lab.dir / "host.toml"
    program.write_text("src :: RatedSource(LENGTH 18, RATE 2000, LIMIT 300, ACTIVE false) -> UDPIPEncap(10.0.0.1, 7, 10.0.0.2, 9)\n"
                       "-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue(500) -> ToDevice($DEV0);\n"
                       "FromDevice($DEV0) -> Discard;\n")
    text = f'[host]\ncores = [{cores()[0]}]\ndirectory = "{lab.dir}/run"\n[port.p]\ndevice = "eth0"\n'
    text += '[router.r]\nprogram = "source.click"\n[[router.r.interface]]\nport = "p"\nwhole = true\n'
    # Some ten packets a second.
    file.write_text(text + 'rate = "8kbps"\n')
    gate.popen(the_binary(), "vr", "run", file, "--no-huge", log="rate.log")
    control = lab.dir / "run" / "r.sock"
    wait_for("the router's socket", control.exists, 10)
    with contextlib.closing(ControlSocket(control)) as client:
        client.write("src.active", "true")
        wait_for("all packets", lambda: client.number("src.count") == 300, 5)

    def sent() -> int:
        return int(json.loads(gate.sh(the_binary(), "vr", "status", file, "--json"))["ports"][0]["sent"])

    check(sent() < 200, "the rate has no effect")
    file.write_text(text)
    gate.sh(the_binary(), "vr", "apply", file)
    wait_for("what has waited", lambda: sent() >= 300, 5)
