"""VXLANEncap and VXLANDecap: tunnels to the Linux kernel's own vxlan devices, and what scapy says to the packets between."""

from typing import Any

from scapy.layers.vxlan import VXLAN

from harness import ARP, ICMP, IP, UDP, Ether, Plain, Raw, Router, Skip, Wire, case, check, equal, ping, right_checksums, wait_for
from lab import Lab, Namespace

# One port to the fabric for two tunnels; a host behind each.
CONFIG = """
FromDevice(eth2) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
out :: Queue -> ToDevice(eth2);
c [0] -> ARPResponder(192.0.2.1 MAC) -> out;
arpq :: ARPQuerier(192.0.2.1, MAC) -> out;
c [1] -> [1] arpq;
c [2] -> Strip(14) -> CheckIPHeader -> IPClassifier(dst host 192.0.2.1)
  -> d :: VXLANDecap(7 192.0.2.2, 7 192.0.2.3);
FromDevice(eth0, PROMISC true) -> e0 :: VXLANEncap(7, 192.0.2.1, 192.0.2.2) -> arpq;
FromDevice(eth1, PROMISC true) -> e1 :: VXLANEncap(7, 192.0.2.1, 192.0.2.3, CHECKSUM true) -> arpq;
d [0] -> Queue -> ToDevice(eth0);
d [1] -> Queue -> ToDevice(eth1);
"""


def fabric(lab: Lab) -> tuple[Namespace, Namespace, list[Namespace], list[Namespace]]:
    """A gateway with two hosts, and two Linux tunnel ends, all on one bridge: (gateway, hosts, ends)."""
    gate, switch = lab.namespace("g"), lab.namespace("s")
    switch.ip("link", "add", "br0", "type", "bridge")
    switch.ip("link", "set", "br0", "up")
    lab.veth(gate, "eth2", switch, "port0")
    hosts, ends = [], []
    for i in range(2):
        host, end = lab.namespace(f"h{i}"), lab.namespace(f"e{i}")
        lab.veth(gate, f"eth{i}", host, "eth0")
        host.ip("addr", "add", "10.9.0.1/24", "dev", "eth0")
        lab.veth(end, "eth0", switch, f"port{i + 1}")
        end.ip("addr", "add", f"192.0.2.{i + 2}/24", "dev", "eth0")
        try:
            end.ip("link", "add", "vx0", "type", "vxlan", "id", "7", "local", f"192.0.2.{i + 2}", "remote", "192.0.2.1",
                   "dstport", "4789", "dev", "eth0")
        except Exception as error:
            raise Skip(f"no vxlan devices here: {error}") from None
        end.ip("addr", "add", "10.9.0.2/24", "dev", "vx0")
        end.ip("link", "set", "vx0", "up")
        hosts.append(host)
        ends.append(end)
    for i in range(3):
        switch.ip("link", "set", f"port{i}", "master", "br0")
    return gate, switch, hosts, ends


@case(Plain)
def the_kernels_vxlan_is_the_peer(lab: Lab) -> None:
    gate, switch, hosts, ends = fabric(lab)
    conf = lab.dir / "vxlan.click"
    conf.write_text(CONFIG.replace("MAC", gate.mac("eth2")))
    with Wire(switch, "port0") as wire:
        router = Router(lab, gate, conf)
        for host, end in zip(hosts, ends):
            # Same addresses in both tunnels: each host sees its own end only.
            wait_for("a ping through the tunnel", lambda h=host: ping(h, "10.9.0.2"), 5)
            neighbor = host.sh("ip", "neigh", "show", "10.9.0.2")
            check(end.mac("vx0") in neighbor, f"{neighbor} is not {end.mac('vx0')}")
            check(ping(end, "10.9.0.1", "-I", "vx0"), "a ping from there")
            # 1450 bytes of IP packet make 1500 with Ethernet, VXLAN, UDP and IP headers.
            out = host.sh("ping", "-c", "20", "-i", "0.01", "-M", "do", "-s", "1422", "10.9.0.2")
            check(" 0% packet loss" in out, out)
            check(not ping(host, "10.9.0.2", "-M", "do", "-s", "1423"), "a frame that is too long came through")
        frames = list(wire.frames(0.2))
    for i in range(2):
        equal(router.read(f"e{i}.drops").strip(), "1\tlonger than the MTU", f"drops of e{i}")
    tunnelled = [f for f in frames if IP in f and f[IP].src == "192.0.2.1"]
    equal(len(tunnelled), sum(int(router.read(f"e{i}.count")) for i in range(2)), "packets from the gateway")
    check(all(VXLAN in f and f[VXLAN].vni == 7 for f in tunnelled), "what leaves the gateway")
    check(int(router.read("d.count")) > 40, router.read("d.drops"))


@case(Plain)
def what_leaves_is_right_and_what_is_wrong_stays_out(lab: Lab) -> None:
    gate, peer, inside = lab.namespace("g"), lab.namespace("p"), lab.namespace("i")
    lab.veth(gate, "eth0", inside, "eth0")
    lab.veth(gate, "eth1", inside, "eth1")
    lab.veth(gate, "eth2", peer, "eth0")
    conf = lab.dir / "vxlan.click"
    conf.write_text(CONFIG.replace("MAC", gate.mac("eth2")))
    router = Router(lab, gate, conf)
    with Wire(peer) as wire, Wire(inside, "eth0") as host, Wire(inside, "eth1") as other:
        wire.answers.update({"192.0.2.2": wire.mac, "192.0.2.3": wire.mac})
        ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        ports = set()
        for flow in range(8):
            inner = ether / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=flow + 1, dport=9) / Raw(b"there")
            for source, to in ((host, "192.0.2.2"), (other, "192.0.2.3")):
                source.send(inner)
                got = wire.expect("a tunnelled frame", lambda f, to=to: VXLAN in f and f[IP].dst == to)
                right_checksums(got)
                equal((got[IP].src, str(got[IP].flags), got[UDP].dport), ("192.0.2.1", "DF", 4789), "outer headers")
                equal(got[UDP].chksum != 0, to.endswith("3"), "a UDP checksum")
                equal((int(got[VXLAN].flags), got[VXLAN].vni), (8, 7), "VXLAN header")
                equal(bytes(got[VXLAN].payload), bytes(inner), "the frame")
                ports.add(got[UDP].sport)
        check(len(ports) == 8 and min(ports) >= 49152, f"source ports {ports}")
        outer = Ether(src=wire.mac, dst=gate.mac("eth2"))

        def back(src: str = "192.0.2.2", vni: int = 7, flags: int = 8, inner: Any = None, **udp: Any) -> Any:
            inner = ether / ARP() if inner is None else inner
            return outer / IP(src=src, dst="192.0.2.1") / UDP(dport=4789, **udp) / VXLAN(flags=flags, vni=vni) / inner

        for bad in (back(src="192.0.2.9"), back(vni=8), back(flags=0), back(inner=Raw(bytes(13))), back(chksum=1), back(len=9999),
                    outer / IP(src="192.0.2.2", dst="192.0.2.1") / UDP(dport=4790) / Raw(bytes(60))):
            wire.send(bad)
        for src, sink, marker in (("192.0.2.2", host, b"first"), ("192.0.2.3", other, b"second")):
            wire.send(back(src=src, inner=ether / ICMP() / Raw(marker)))
            seen = []
            for frame in sink.frames(2):
                seen.append(bytes(frame))
                if marker in seen[-1]:
                    break
            equal(seen, [bytes(ether / ICMP() / Raw(marker))], "what came out of the tunnel")
        drops = router.read("d.drops")
        for reason in ("unknown tunnel end", "unknown VNI", "no VXLAN header", "no Ethernet header", "bad UDP checksum",
                       "bad UDP length", "no VXLAN packet"):
            check(f"1\t{reason}\n" in drops, f"{reason}:\n{drops}")
