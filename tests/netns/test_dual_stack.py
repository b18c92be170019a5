"""conf/dual-stack-router.click: IPv6 beside IPv4, with real hosts."""

import json
import re
from typing import Any

from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6PacketTooBig, ICMPv6TimeExceeded, IPv6

from harness import ROOT, UDP, Ether, Net, Router, Wire, case, check, equal, ping, raw, wait_for
from lab import Namespace

SMALL_MTU = 1400


class DualStack(Net):
    """Two hosts around the router, each with an address of both versions; the second cable carries at most 1400 bytes."""

    def build(self) -> None:
        self.r = self.lab.namespace("r")
        self.hosts = [self.host(i) for i in range(2)]
        self.macs = [self.r.mac(f"eth{i}") for i in range(2)]
        args = [f"{name}{i}={value}" for i in range(2) for name, value in (("DEV", f"eth{i}"), ("MAC", self.macs[i]))]
        self.router = Router(self.lab, self.r, ROOT / "conf" / "dual-stack-router.click", *args, f"MTU1={SMALL_MTU}")
        for to in ("10.0.2.2", "2001:db8:2::2"):
            wait_for("the first ping", lambda to=to: ping(self.hosts[0], to), 5)

    def host(self, i: int) -> Namespace:
        host = self.lab.namespace(f"h{i + 1}")
        self.lab.veth(self.r, f"eth{i}", host, "eth0", mtu=SMALL_MTU if i else 1500)
        host.sh("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.eth0.disable_ipv6=0",
                "net.ipv6.icmp.ratelimit=0", check=False)
        host.ip("addr", "add", f"10.0.{i + 1}.2/24", "dev", "eth0")
        host.ip("route", "add", "default", "via", f"10.0.{i + 1}.1")
        host.ip("addr", "add", f"2001:db8:{i + 1}::2/64", "dev", "eth0", "nodad")
        host.ip("-6", "route", "add", "default", "via", "fe80::1", "dev", "eth0")
        return host

    @property
    def alive(self) -> bool:
        return self.router.alive()

    def log(self) -> str:
        return self.router.output()

    def ether(self, **kw: Any) -> Any:
        return Ether(**{"src": self.hosts[0].mac("eth0"), "dst": self.macs[0], **kw})

    def six(self, **kw: Any) -> Any:
        return IPv6(**{"src": "2001:db8:1::2", "dst": "2001:db8:2::2", "hlim": 64, **kw})


@case(DualStack)
def hosts_reach_each_other_and_the_router_by_both_versions(net: DualStack) -> None:
    for i, host in enumerate(net.hosts):
        for to in (f"10.0.{2 - i}.2", f"2001:db8:{2 - i}::2", "10.0.1.1", "10.0.2.1", "2001:db8:1::1", "2001:db8:2::1"):
            check(ping(host, to), f"h{i + 1} to {to}")


@case(DualStack)
def traceroute_names_the_router_by_its_ipv6_address(net: DualStack) -> None:
    out = net.hosts[0].sh("traceroute", "-6", "-n", "-q", "1", "-w", "1", "2001:db8:2::2")
    # The error comes from the interface by which the packet would have left.
    equal(re.findall(r"^ *\d+ +(\S+)", out, re.M), ["2001:db8:2::1", "2001:db8:2::2"], "hops")


@case(DualStack)
def tcp_runs_over_ipv6(net: DualStack) -> None:
    left, right = net.hosts
    listener = right.popen("iperf3", "-s", "-1", "-p", "5306")
    wait_for("iperf3 -s", lambda: ":5306" in right.sh("ss", "-Hltn"), 3)
    out = json.loads(left.sh("iperf3", "-6", "-c", "2001:db8:2::2", "-p", "5306", "-t", "1", "-J", check=False))
    check("error" not in out, out.get("error"))
    check(out["end"]["sum_received"]["bytes"] > 100_000, out["end"]["sum_received"])
    listener.wait(5)


@case(DualStack)
def a_host_learns_what_the_next_link_carries(net: DualStack) -> None:
    out = net.hosts[0].sh("ping", "-6", "-c", "1", "-W", "1", "-M", "do", "-s", "1420", "2001:db8:2::2", check=False)
    check(re.search(r"[Pp]acket too big: mtu=1400|mtu: 1400", out), out)
    # It fragments at the source from then on.
    check(ping(net.hosts[0], "2001:db8:2::2", "-s", "3000", "-W", "1"), "a large ping")
    with Wire(net.hosts[0]) as a:
        packet = net.six(hlim=7) / UDP(sport=7, dport=9) / bytes(1400)
        a.send(net.ether() / packet)
        packet[IPv6].hlim = 6  # as it would have left
        got = a.expect("the error", lambda f: ICMPv6PacketTooBig in f)
        equal((got[ICMPv6PacketTooBig].mtu, got[IPv6].src, len(raw(got[IPv6]))), (1400, "2001:db8:2::1", 1280), "error")
        equal(raw(got[ICMPv6PacketTooBig].payload), raw(packet)[:1232], "what is quoted")


@case(DualStack)
def no_route_is_answered(net: DualStack) -> None:
    out = net.hosts[0].sh("ping", "-6", "-c", "1", "-W", "1", "2001:db8:99::1", check=False)
    check(re.search(r"No route|unreachable", out), out)


@case(DualStack)
def the_hop_limit_goes_down_and_ends(net: DualStack) -> None:
    with Wire(net.hosts[0]) as a, Wire(net.hosts[1]) as b:
        a.send(net.ether() / net.six(hlim=7, tc=0xb8, fl=0x12345) / UDP(sport=4711, dport=9999) / b"payload")
        got = b.expect("the packet", lambda f: UDP in f and IPv6 in f and f[UDP].sport == 4711)
        equal((got[IPv6].hlim, got[IPv6].tc, got[IPv6].fl, got.src), (6, 0xb8, 0x12345, net.macs[1]), "header")
        packet = net.six(hlim=1) / UDP(sport=4712, dport=9999) / b"payload"
        a.send(net.ether() / packet)
        got = a.expect("the error", lambda f: ICMPv6TimeExceeded in f)
        equal((got[ICMPv6TimeExceeded].code, got[IPv6].dst), (0, "2001:db8:1::2"), "error")
        equal(raw(got[ICMPv6TimeExceeded].payload), raw(packet), "what is quoted")


@case(DualStack)
def what_belongs_to_a_link_stays_there(net: DualStack) -> None:
    with Wire(net.hosts[0]) as a, Wire(net.hosts[1]) as b:
        for src, dst in (("fe80::5", "2001:db8:2::2"), ("2001:db8:1::2", "fe80::5"), ("2001:db8:1::2", "ff0e::1"),
                         ("ff02::1", "2001:db8:2::2"), ("::", "2001:db8:2::2"), ("2001:db8:1::2", "::1")):
            a.send(net.ether() / net.six(src=src, dst=dst) / UDP(sport=4713, dport=9999))
        a.send(net.ether() / net.six() / UDP(sport=4714, dport=9999))
        for frame in b.frames(3):
            if UDP in frame and IPv6 in frame:
                check(frame[UDP].sport != 4713, f"was forwarded: {frame.summary()}")
                if frame[UDP].sport == 4714:
                    return
        raise AssertionError("the good packet after them did not arrive")


@case(DualStack)
def errors_are_not_answered_with_errors(net: DualStack) -> None:
    with Wire(net.hosts[0]) as a:
        a.send(net.ether() / net.six(hlim=1) / ICMPv6TimeExceeded() / raw(net.six(src="2001:db8:2::2", dst="2001:db8:1::2")))
        a.send(net.ether() / net.six(dst="2001:db8:1::1") / ICMPv6EchoRequest(id=77))
        for frame in a.frames(3):
            check(ICMPv6TimeExceeded not in frame or frame[IPv6].src == "2001:db8:1::2", f"an error came: {frame.summary()}")
            if ICMPv6EchoReply in frame and frame[ICMPv6EchoReply].id == 77:
                return
        raise AssertionError("the ping after it was not answered")


@case(DualStack)
def a_solicitation_for_the_router_is_answered(net: DualStack) -> None:
    with Wire(net.hosts[0]) as a:
        for target in ("fe80::1", "2001:db8:1::1"):
            ask = IPv6(src="2001:db8:1::2", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt=target)
            a.send(net.ether(dst="33:33:ff:00:00:01") / ask)
            got = a.expect(f"the answer for {target}", lambda f, t=target: ICMPv6ND_NA in f and f[ICMPv6ND_NA].tgt == t)
            equal((got.src, got[IPv6].hlim, got[ICMPv6ND_NA].R, got[ICMPv6ND_NA].S), (net.macs[0], 255, 1, 1), "answer")


@case(DualStack)
def a_scan_of_a_network_leaves_known_neighbors_alone(net: DualStack) -> None:
    with Wire(net.hosts[0]) as a:
        frame = bytearray(raw(net.ether() / net.six(dst="2001:db8:2::1:0") / UDP(sport=4715, dport=9999)))
        for i in range(5000):
            frame[52:54] = i.to_bytes(2, "big")
            a.send(bytes(frame))
    check(ping(net.hosts[0], "2001:db8:2::2", "-W", "1"), "the neighbor that was known")
    check(int(net.router.read("if1/nd.count")) <= 2048 + 8, "entries of neighbors")
