"""`valiant vr`: interfaces by VXLAN network identifier: virtual links between two hosts, and to the Linux kernel's own vxlan devices."""

import json
from typing import Any

from scapy.layers.vxlan import VXLAN

from harness import IP, Plain, Skip, Wire, case, check, equal, ping, wait_for
from lab import Lab, Namespace, the_binary

WIRE = "FromDevice($DEV0) -> Queue(1000) -> ToDevice($DEV1); FromDevice($DEV1) -> Queue(1000) -> ToDevice($DEV0);"
# Frames of its own, 100 a second, and those of others that reach it.
TALKS = """RatedSource(LENGTH 60, RATE 100) -> EtherEncap(0x88b5, $MAC0, ff:ff:ff:ff:ff:ff) -> Queue(100) -> ToDevice($DEV0);
FromDevice($DEV0) -> kind :: Classifier(12/88b5, -); kind[0] -> own :: Counter -> Discard; kind[1] -> other :: Counter -> Discard;"""


class End:
    """A host of virtual routers at one end of a tunnel: `blue` joins eth0 with network 100, `red` is in network 101."""

    def __init__(self, lab: Lab, gate: Namespace, number: int, remote_mac: str):
        self.lab, self.gate, self.dir = lab, gate, lab.dir / f"end{number}"
        self.dir.mkdir()
        (self.dir / "blue.click").write_text(WIRE)
        (self.dir / "red.click").write_text(TALKS)
        self.file = self.dir / "end.toml"
        text = f'[host]\ncores = [0]\ndirectory = "{self.dir}/run"\n[port.lan]\ndevice = "eth0"\n[port.wan]\ndevice = "eth1"\n'
        text += f'[port.wan.tunnel]\nlocal = "192.0.2.{number}"\nremote = "192.0.2.{3 - number}"\nremote_mac = "{remote_mac}"\n'
        text += '[router.blue]\nprogram = "blue.click"\n[[router.blue.interface]]\nport = "lan"\nwhole = true\n'
        text += '[[router.blue.interface]]\nport = "wan"\nvni = 100\n'
        text += '[router.red]\nprogram = "red.click"\n[[router.red.interface]]\nport = "wan"\nvni = 101\n'
        self.file.write_text(text)
        gate.popen(the_binary(), "vr", "run", self.file, "--no-huge", log=f"end{number}.log")
        wait_for("the host's socket", (self.dir / "run" / "host.control").exists, 10)

    def status(self) -> dict[str, Any]:
        """`valiant vr status --json`."""
        status: dict[str, Any] = json.loads(self.gate.sh(the_binary(), "vr", "status", self.file, "--json"))
        return status

    def count(self, element: str) -> int:
        """A counter of `red`."""
        socket = self.dir / "run" / "red.sock"
        return int(self.gate.sh(the_binary(), "read", "--socket", socket, f"{element}.count"))


def answered(host: Namespace, to: str, size: int) -> int:
    """How many of twenty pings of a size are answered that must not be fragmented."""
    out = host.sh("sh", "-c", f"ping -c 20 -i 0.01 -W 1 -M do -s {size} {to} || true")
    return int(next(line for line in out.splitlines() if "transmitted" in line).split(", ")[1].split()[0])


@case(Plain, seconds=60)
def a_virtual_link_joins_routers_on_two_hosts(lab: Lab) -> None:
    gates, hosts = [lab.namespace("g1"), lab.namespace("g2")], [lab.namespace("h1"), lab.namespace("h2")]
    lab.veth(gates[0], "eth1", gates[1], "eth1")
    for number, (gate, host) in enumerate(zip(gates, hosts), 1):
        lab.veth(gate, "eth0", host, "eth0")
        host.ip("addr", "add", f"10.9.0.{number}/24", "dev", "eth0")
    macs = [gate.mac("eth1") for gate in gates]
    # What an end sends is seen where it arrives.
    with Wire(gates[0], "eth1") as first, Wire(gates[1], "eth1") as second:
        ends = [End(lab, gate, number, macs[2 - number]) for number, gate in enumerate(gates, 1)]
        wait_for("a ping through the tunnel", lambda: ping(hosts[0], "10.9.0.2"), 5)
        # 1450 bytes of IP packet make 1500 with Ethernet, VXLAN, UDP and IP headers.
        equal(answered(hosts[0], "10.9.0.2", 1422), 20, "answers through the tunnel")
        wait_for("frames of the other network", lambda: all(end.count("own") > 20 for end in ends), 5)
        frames = [*first.frames(0.2), *second.frames(0.2)]
    equal([end.count("other") for end in ends], [0, 0], "frames of another network")
    inside = [f for f in frames if IP in f and VXLAN in f]
    equal({f[VXLAN].vni for f in inside}, {100, 101}, "the networks")
    equal({(f[IP].src, f[IP].dst) for f in inside}, {("192.0.2.1", "192.0.2.2"), ("192.0.2.2", "192.0.2.1")}, "the ends")
    for end in ends:
        wan = next(port for port in end.status()["ports"] if port["name"] == "wan")
        equal(wan["malformed"], 0, str(wan))
    # A tunnel's ends cannot change while the host runs.
    ends[0].file.write_text(ends[0].file.read_text().replace('remote = "192.0.2.2"', 'remote = "192.0.2.9"'))
    said = gates[0].sh("sh", "-c", f"{the_binary()} vr apply {ends[0].file} 2>&1 || true")
    check("their tunnels" in said, said)


@case(Plain, seconds=60)
def a_virtual_link_leads_to_the_kernels_vxlan(lab: Lab) -> None:
    gate, host, end = lab.namespace("g"), lab.namespace("h"), lab.namespace("e")
    lab.veth(gate, "eth0", host, "eth0")
    lab.veth(gate, "eth1", end, "eth0")
    host.ip("addr", "add", "10.9.0.1/24", "dev", "eth0")
    end.ip("addr", "add", "192.0.2.2/24", "dev", "eth0")
    # The host answers no ARP for its end of the tunnel.
    end.ip("neigh", "add", "192.0.2.1", "lladdr", gate.mac("eth1"), "dev", "eth0")
    try:
        ends = ("local", "192.0.2.2", "remote", "192.0.2.1")
        end.ip("link", "add", "vx0", "type", "vxlan", "id", "100", *ends, "dstport", "4789", "dev", "eth0")
    except Exception as error:
        raise Skip(f"no vxlan devices here: {error}") from None
    end.ip("addr", "add", "10.9.0.2/24", "dev", "vx0")
    end.ip("link", "set", "vx0", "up")
    End(lab, gate, 1, end.mac("eth0"))
    wait_for("a ping through the tunnel", lambda: ping(host, "10.9.0.2"), 5)
    equal(answered(host, "10.9.0.2", 1422), 20, "answers through the tunnel")
    check(ping(end, "10.9.0.1", "-I", "vx0"), "a ping from there")
