"""`valiant vr` on interfaces that the kernel divides: a router in a process of its own and one in the common process share both."""

import json
import os
import signal
from typing import Any

from harness import Plain, case, check, equal, ping, wait_for
from lab import Lab, Process, the_binary
from test_rights import alive
from test_virtual_routers import PROGRAM, lost, stream


class Host:
    """`blue` (direct; 10.1, 10.2) and `red` (shared; 10.3, 10.4) between two Linux hosts, told apart by their addresses."""

    def __init__(self, lab: Lab):
        self.lab, self.file = lab, lab.dir / "edge.toml"
        self.gate, self.left, self.right = (lab.namespace(name) for name in "glr")
        lab.veth(self.gate, "eth0", self.left, "eth0")
        lab.veth(self.gate, "eth1", self.right, "eth0")
        for net, host, other in ((1, self.left, 2), (2, self.right, 1), (3, self.left, 4), (4, self.right, 3)):
            host.ip("addr", "add", f"10.{net}.0.2/24", "dev", "eth0")
            host.ip("route", "add", f"10.{other}.0.0/24", "via", f"10.{net}.0.1", "src", f"10.{net}.0.2")
        (lab.dir / "router.click").write_text(PROGRAM.read_text())
        text = f'[host]\ncores = [0]\ndirectory = "{lab.dir}/run"\n'
        text += "".join(f'[port.{port}]\ndevice = "eth{n}"\nsharing = "hardware"\n' for n, port in enumerate(("left", "right")))
        for name, net, scheme in (("blue", 1, "direct"), ("red", 3, "shared")):
            text += f'[router.{name}]\nprogram = "router.click"\nscheme = "{scheme}"\n[router.{name}.variables]\nUPLINK = "10.{net}.0.2"\n'
            for number in range(2):
                at = f"10.{net + number}.0"
                text += f'IP{number} = "{at}.1"\nNET{number} = "{at}.0/24"\nBCAST{number} = "{at}.255"\n'
            text += "".join(f'[[router.{name}.interface]]\nport = "{port}"\n' for port in ("left", "right"))
        self.file.write_text(text)
        self.start()

    def start(self) -> None:
        """Starts the host, and waits until both routers forward."""
        self.process: Process = self.gate.popen(the_binary(), "vr", "run", self.file, "--no-huge", log="vr.log")
        for to in ("10.2.0.2", "10.4.0.2"):
            wait_for(f"a ping to {to}", lambda to=to: ping(self.left, to), 15)

    def vr(self, command: str, *args: str) -> str:
        """The output of `valiant vr COMMAND FILE ARGS`."""
        return self.gate.sh(the_binary(), "vr", command, self.file, *args)

    def blue(self) -> dict[str, Any]:
        """Its status."""
        rows = json.loads(self.vr("status", "--json"))["routers"]
        return next(row for row in rows if row["name"] == "blue")

    def interfaces(self) -> set[str]:
        """All that there are beside the loopback."""
        return {row["ifname"] for row in json.loads(self.gate.ip("-json", "link", "show"))} - {"lo"}


@case(Plain, seconds=90)
def a_process_of_its_own_shares_interfaces_that_the_kernel_divides(lab: Lab) -> None:
    host = Host(lab)
    process = host.blue()["process"]
    check(process not in (None, host.process.pid), process)
    # A pair for each interface of blue, and one on each port for the common process.
    equal(len(host.interfaces()), 2 + 2 * 4, "interfaces")
    route = host.left.sh("traceroute", "-n", "-q", "1", "-w", "1", "10.2.0.2")
    check("10.1.0.1" in route and "10.3.0.1" not in route, route)
    neighbors = {line.split()[0]: line.split()[4] for line in host.left.sh("ip", "neigh").splitlines() if "lladdr" in line}
    check(neighbors["10.1.0.1"] != neighbors["10.3.0.1"], neighbors)
    server = host.right.popen("iperf3", "-s", "-1", log="iperf3.log")
    wait_for("iperf3", lambda: ":5201" in host.right.sh("ss", "-tln"), 5)
    host.left.sh("iperf3", "-c", "10.2.0.2", "-t", "1", "--bidir")
    server.wait(timeout=10)

    flow = stream(host.left, "10.4.0.2", 600)
    os.kill(process, signal.SIGKILL)
    wait_for("blue again", lambda: ping(host.left, "10.2.0.2"), 10)
    host.vr("remove", "blue")
    equal(len(host.interfaces()), 2 + 2 * 2, "interfaces without blue")
    check(not ping(host.left, "10.2.0.2"), "blue answers after it was removed")
    host.vr("add", "blue")
    wait_for("blue", lambda: ping(host.left, "10.2.0.2"), 5)
    equal(lost(flow), 0, "packets lost by red")

    # The killed host's interfaces go with it, and the next one works.
    process = host.blue()["process"]
    os.kill(host.process.pid, signal.SIGKILL)
    wait_for("the process of blue to end", lambda: not alive(process), 5)
    wait_for("the interfaces to go", lambda: host.interfaces() == {"eth0", "eth1"}, 5)
    host.start()
    host.vr("down")
    equal(host.process.wait(timeout=10), 0, "the exit status")
    equal(host.interfaces(), {"eth0", "eth1"}, "interfaces that are left")


@case(Plain, seconds=30)
def what_cannot_be_divided_is_said(lab: Lab) -> None:
    host = lab.namespace("g")
    lab.veth(host, "eth0", lab.namespace("h"), "eth0")
    (lab.dir / "router.click").write_text("FromDevice($DEV0) -> ToDevice($DEV0);")
    file = lab.dir / "edge.toml"

    def run(device: str, interface: str) -> str:
        """What the host says that does not start."""
        file.write_text(f'[host]\ncores = [0]\ndirectory = "{lab.dir}/run"\n[port.left]\ndevice = "{device}"\nsharing = "hardware"\n'
                        '[router.blue]\nprogram = "router.click"\nscheme = "direct"\n'
                        f'[[router.blue.interface]]\nport = "left"\n{interface}\n')
        process = host.popen(the_binary(), "vr", "run", file, "--no-huge", log="vr.log")
        equal(process.wait(timeout=20), 1, "the exit status")
        return process.log.read_text()

    said = run("net_null0", "vlan = 10")
    check("edge.toml:4:" in said and "Linux interfaces" in said, said)
    said = run("eth0", "mpls = 100")
    check("edge.toml:10:" in said and "by VLAN or address alone" in said, said)
    said = run("eth7", "vlan = 10")
    check("eth7" in said, said)
    equal({row["ifname"] for row in json.loads(host.ip("-json", "link", "show"))}, {"lo", "eth0"}, "what is left")
