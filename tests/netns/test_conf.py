"""The small configurations in conf/ do what their first comment says."""

import itertools
import json
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Any

from harness import (
    ARP,
    ICMP,
    IP,
    ROOT,
    TCP,
    UDP,
    Ether,
    Plain,
    Raw,
    Router,
    RouterNet,
    Wire,
    case,
    check,
    equal,
    pair,
    ping,
    wait_for,
)
from lab import Lab, Namespace

CONF = ROOT / "conf"


@case(Plain)
def minimal_forward_joins_two_hosts(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    router = Router(lab, middle, CONF / "minimal-forward.click")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    check(int(router.read("c01.count")) > 0, "the counter stands at 0")


@case(Plain)
def the_router_written_with_a_compound_element_routes(lab: Lab) -> None:
    net = RouterNet(3)
    net.lab = lab
    r = lab.namespace("r")
    hosts = []
    net.r = r
    for i in range(3):
        hosts.append(RouterNet.host(net, i))
    args = [f"{k}{i}={v}" for i in range(3) for k, v in (("DEV", f"eth{i}"), ("MAC", r.mac(f"eth{i}")))]
    Router(lab, r, CONF / "ip-router.click", *args, "MTU2=1000")
    wait_for("a ping", lambda: ping(hosts[0], "10.0.3.2"), 3)
    out = hosts[0].sh("traceroute", "-n", "-q", "1", "-w", "1", "10.0.3.2")
    equal(re.findall(r"^ *\d+ +(\S+)", out, re.M), ["10.0.1.1", "10.0.3.2"], "hops")
    out = hosts[0].sh("ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1400", "10.0.3.2", check=False)
    check("mtu" in out, out)
    check(ping(hosts[0], "10.0.2.1"), "the router's own address")


@case(Plain, seconds=40)
def the_programs_of_the_virtual_routers_route(lab: Lab) -> None:
    """conf/vr-*.click, each alone: blue between its line and its department; red, and green with the guests behind it."""
    middle = lab.namespace("r")

    def host(name: str, address: str, gateway: str) -> Namespace:
        space = lab.namespace(name)
        lab.veth(middle, name, space, "eth0")
        space.ip("addr", "add", address, "dev", "eth0")
        space.ip("route", "add", "default", "via", gateway)
        return space

    line0, blue_host = host("line10", "203.0.113.1/30", "203.0.113.2"), host("dept10", "192.168.10.9/24", "192.168.10.1")
    line1, red_host = host("line20", "203.0.113.6/30", "203.0.113.5"), host("dept20", "192.168.20.9/24", "192.168.20.1")
    guest = host("guest", "192.168.30.9/24", "192.168.30.1")
    lab.veth(middle, "to-green", middle, "to-red")

    def start(name: str, *interfaces: tuple[str, str, str]) -> Router:
        words = [f"{k}={v}" for dev, mac, device in interfaces for k, v in ((dev, device), (mac, middle.mac(device)))]
        return Router(lab, middle, CONF / f"vr-{name}.click", *words, log=f"{name}.log")

    start("blue", ("DEV0", "MAC0", "line10"), ("DEV1", "MAC1", "dept10"))
    red = start("red", ("DEV0", "MAC0", "line20"), ("DEV1", "MAC1", "dept20"), ("GUESTS", "GUESTS_MAC", "to-green"))
    start("green", ("DEV0", "MAC0", "guest"), ("DEV1", "MAC1", "to-red"))

    def hops(space: Namespace, to: str) -> list[str]:
        return re.findall(r"^ *\d+ +(\S+)", space.sh("traceroute", "-n", "-q", "1", "-w", "1", to), re.M)

    wait_for("a ping through blue", lambda: ping(blue_host, "203.0.113.1") and ping(line0, "192.168.10.9"), 5)
    equal(hops(blue_host, "203.0.113.1"), ["192.168.10.1", "203.0.113.1"], "hops through blue")
    wait_for("a ping through red", lambda: ping(red_host, "203.0.113.6"), 5)
    wait_for("a ping of a guest", lambda: ping(guest, "203.0.113.6") and ping(line1, "192.168.30.9"), 5)
    equal(hops(guest, "203.0.113.6"), ["192.168.30.1", "10.20.30.1", "203.0.113.6"], "hops of a guest")
    for address in ("192.168.30.1", "10.20.30.2", "10.20.30.1"):
        check(ping(guest, address), f"{address} does not answer")
    check(not ping(guest, "192.168.20.9"), "a guest reaches the department")
    check(int(red.read("refused.count")) > 0, "refused is not counted")


@case(Plain)
def arp_responder_is_a_host_that_is_not_there(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    router = Router(lab, middle, CONF / "arp-responder.click", "IP=10.9.0.77")
    wait_for("a ping", lambda: ping(left, "10.9.0.77"), 3)
    check(not ping(left, "10.9.0.78"), "an address that nobody has is answered")
    check("10.9.0.77" in router.output(), f"the answer was not printed:\n{router.output()}")


@case(Plain)
def firewall_lets_out_and_keeps_out(lab: Lab) -> None:
    middle, inside, outside = pair(lab)
    router = Router(lab, middle, CONF / "firewall.click", "INSIDE=eth0", "OUTSIDE=eth1")
    wait_for("a ping from the inside", lambda: ping(inside, "10.9.0.2"), 3)
    listener = outside.popen("iperf3", "-s", "-1", "-p", "5300")
    wait_for("iperf3 -s", lambda: ":5300" in outside.sh("ss", "-Hltn"), 3)
    out = inside.sh("iperf3", "-c", "10.9.0.2", "-p", "5300", "-t", "1", "-J", check=False)
    lab.stop(listener)
    check("error" not in json.loads(out), "TCP from the inside does not get out")
    with Wire(inside) as a, Wire(outside) as b:
        ether = Ether(src=b.mac, dst=a.mac)
        # What follows a packet has another number each time: that of the packet before may still be on its way.
        followers = itertools.count(4242)

        def comes_in(packet: Any) -> bool:
            follower = next(followers)
            a.drain()
            b.send(ether / packet)
            b.send(ether / IP(src="10.9.0.2", dst="10.9.0.1", id=follower) / ICMP(type=0, id=1))
            for f in a.frames(2):
                if IP in f and f[IP].id == follower:
                    return False
                if IP in f and f[IP].id == 7000:
                    return True
            raise AssertionError("the echo reply after it did not arrive")

        ip = IP(src="10.9.0.2", dst="10.9.0.1", id=7000)
        check(not comes_in(ip / TCP(dport=80, flags="S")), "a connection from the outside comes in")
        check(comes_in(ip / TCP(sport=80, dport=4000, flags="SA")), "an answer does not come in")
        check(comes_in(ip / TCP(dport=22, flags="S")), "ssh does not come in")
        check(not comes_in(ip / UDP(sport=1, dport=2)), "UDP from anywhere comes in")
        check(comes_in(ip / UDP(sport=53, dport=2000)), "a DNS answer does not come in")
        check(not comes_in(IP(src="127.0.0.1", dst="10.9.0.1", id=7000) / TCP(sport=80, flags="A")), "a false source comes in")
    check(int(router.read("refused.count")) >= 3, "refused is not counted")


@case(Plain, seconds=40)
def firewall_sees_through_fragments(lab: Lab) -> None:
    """RFC 1858, RFC 3128: what may not come in whole does not come in in pieces, whatever their sizes, order and overlaps."""
    middle, inside, outside = pair(lab)
    router = Router(lab, middle, CONF / "firewall.click", "INSIDE=eth0", "OUTSIDE=eth1")
    wait_for("a ping from the inside", lambda: ping(inside, "10.9.0.2"), 3)
    # The host behind the firewall puts together what reaches it: a listener says whether a SYN got through.
    inside.sh("sysctl", "-q", "-w", "net.ipv4.tcp_syncookies=0", check=False)
    listener = inside.popen("python3", "-c", "import socket, time\ns = socket.create_server(('10.9.0.1', 8080))\ntime.sleep(60)")
    wait_for("the listener", lambda: ":8080" in inside.sh("ss", "-Hltn"), 3)
    with Wire(inside) as a, Wire(outside) as b:
        ether = Ether(src=b.mac, dst=a.mac)
        number = 20_000

        def pieces(segment: Any, cuts: Sequence[tuple[int, int]], proto: int = 6) -> list[Any]:
            """A segment's bytes between the cuts (first byte, end), each as a fragment."""
            nonlocal number
            number += 1
            data = bytes(segment)
            return [IP(src="10.9.0.2", dst="10.9.0.1", id=number, proto=proto, frag=at // 8, flags="MF" if end < len(data) else 0)
                    / Raw(data[at:end]) for at, end in cuts]

        def tcp(flags: str, dport: int = 8080, sport: int = 4000, data: bytes = b"y" * 16) -> Any:
            whole = IP(bytes(IP(src="10.9.0.2", dst="10.9.0.1") / TCP(sport=sport, dport=dport, flags=flags, seq=7) / data))
            return bytes(whole[TCP])

        def sent(packets: Iterable[Any]) -> tuple[bool, bool]:
            """Sends fragments; whether any byte of them came in, and whether the host answered one."""
            a.drain()
            b.drain()
            for p in packets:
                b.send(ether / p)
            b.send(ether / IP(src="10.9.0.2", dst="10.9.0.1", id=4242) / ICMP(type=8, id=1))
            came = False
            for f in a.frames(3):
                if IP in f and f[IP].id == 4242 and f[IP].src == "10.9.0.2":
                    break
                came |= IP in f and f[IP].src == "10.9.0.2" and f[IP].id == number
            else:
                raise AssertionError("the ping after them did not arrive")
            # The host has answered what came before the ping when it answers that.
            answered = False
            for f in b.frames(3):
                if IP in f and ICMP in f and f[ICMP].type == 0:
                    return came, answered
                answered |= TCP in f
            raise AssertionError("no answer to the ping")

        syn, ack = tcp("S"), tcp("A")
        equal(sent([IP(src="10.9.0.2", dst="10.9.0.1", proto=6, id=number) / Raw(syn)]), (False, False), "a SYN in one piece")
        end = len(syn)
        # Tiny fragments: the flags are in the second one, or later.
        attacks = {f"cut at {at}": [(0, at), (at, end)] for at in (8, 16, 24, 32)}
        attacks["eight bytes each"] = [(at, min(at + 8, end)) for at in range(0, end, 8)]
        attacks["backwards"] = attacks["eight bytes each"][::-1]
        attacks["without the first"] = [(8, end)]
        for what, cuts in attacks.items():
            for again in (cuts, cuts[::-1]):
                equal(sent(pieces(syn, again)), (False, False), f"a SYN {what}")
        # Overlapping: an innocent header first, the SYN over it, with the first bytes in another fragment or in none (RFC 3128).
        for innocent in (ack, tcp("A", dport=22), tcp("S", dport=22), tcp("R")):
            for over in ([(8, end)], [(0, 8), (8, end)], [(8, 24), (24, end)], [(0, end)], [(0, 16), (16, end)]):
                for head in ([(0, 24)], [(0, 16)], [(0, 24), (24, 32)]):
                    good = pieces(innocent, head)
                    number -= 1
                    evil = pieces(syn, over)
                    for p in good:
                        p.flags = "MF"
                    for order in (good + evil, evil + good):
                        number += 1
                        for p in order:
                            p.id = number
                        equal(sent(order)[1], False, f"an answer to a SYN over {innocent[13]:#x}, {head}, {over}")
        # Behind the 65,535th byte: nothing wraps round to the beginning.
        number += 1
        late = IP(src="10.9.0.2", dst="10.9.0.1", id=number, proto=6, frag=8191) / Raw(b"z" * 16 + syn)
        equal(sent(pieces(ack, [(0, 24)]) + [late]), (False, False), "a fragment behind the end")
        # What tells nothing is not let in either.
        for short in (b"", syn[:4], syn[:13], ack[:12]):
            equal(sent([IP(src="10.9.0.2", dst="10.9.0.1", id=number, proto=6) / Raw(short)])[0], False, f"{len(short)} bytes of TCP")
        for flags in ("", "F", "FPU", "S"):
            equal(sent([IP(src="10.9.0.2", dst="10.9.0.1", id=number, proto=6) / Raw(tcp(flags))])[0], False, f"flags {flags}")

        # What may come in comes in in pieces, too: an answer of DNS that is longer than the link's MTU.
        number += 1
        answer = IP(bytes(IP(src="10.9.0.2", dst="10.9.0.1", id=number) / UDP(sport=53, dport=2000) / (b"d" * 4000)))
        a.drain()
        whole = pieces(bytes(answer[UDP]), [(at, min(at + 1000, 4008)) for at in range(0, 4008, 1000)], proto=17)
        for p in whole[::-1]:
            b.send(ether / p)
        parts = []
        for f in a.frames(3):
            if IP in f and f[IP].id == number and f[IP].proto == 17:
                check(len(f) <= 1514 and f.src == b.mac and f.dst == a.mac, f"a frame of {len(f)} bytes from {f.src} to {f.dst}")
                parts.append((f[IP].frag * 8, bytes(f[IP].payload)[:f[IP].len - 20]))
                if not f[IP].flags.MF:
                    break
        equal(b"".join(data for _, data in sorted(parts)), bytes(answer[UDP]), "a long answer")
        check(sent(pieces(ack, [(0, 24), (24, end)]))[0], "an answer of TCP in two pieces does not come in")
    lab.stop(listener)
    check(int(router.read("refused.count")) > 10, "refused is not counted")


@case(Plain)
def rate_limit_limits_one_direction(lab: Lab) -> None:
    middle, left, right = pair(lab)
    Router(lab, middle, CONF / "rate-limit.click", "RATE=20Mbps")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    # The first second is left out: like Click's, the shaper may send in it what was not used of that second before.
    rates = []
    for options in ((), ("-R",)):
        listener = right.popen("iperf3", "-s", "-1", "-p", "5300")
        wait_for("iperf3 -s", lambda: ":5300" in right.sh("ss", "-Hltn"), 3)
        out = json.loads(left.sh("iperf3", "-c", "10.9.0.2", "-p", "5300", "-O", "1", "-t", "2", "-J", *options, check=False))
        lab.stop(listener)
        check("error" not in out, out.get("error"))
        rates.append(out["end"]["sum_received"]["bits_per_second"] / 1e6)
    check(14 < rates[0] < 22, f"limited direction: {rates[0]:.1f} Mbit/s")
    check(rates[1] > 100, f"other direction: {rates[1]:.1f} Mbit/s")


@case(Plain)
def sniff_prints_and_keeps_what_it_sees(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    file = lab.dir / "capture.pcap"
    router = Router(lab, middle, CONF / "sniff.click", "DEV=eth0", f"FILE={file}")
    with Wire(left) as a:
        for i in range(20):
            a.send(Ether(src=a.mac, dst="02:00:00:00:00:01")
                   / IP(src="10.9.0.1", dst="10.9.0.9", id=100 + i) / UDP(sport=7, dport=9) / Raw(b"x" * 100))
        a.send(Ether(src=a.mac, dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.9.0.1", pdst="10.9.0.9", hwsrc=a.mac))
        time.sleep(0.5)
    router.stop()
    check("10.9.0.9" in router.output(), f"nothing printed:\n{router.output()}")
    out = subprocess.run(["tcpdump", "-nr", file], capture_output=True, text=True, timeout=10, check=False).stdout
    equal(len([x for x in out.splitlines() if "10.9.0.1.7 > 10.9.0.9.9" in x]), 20, "packets in the file")


PROXY = """
// Proxy ARP on the left; on the right a querier that forgets quickly.
FromDevice(eth0) -> in :: Classifier(12/0806 20/0001, 12/0800, -);
left :: Queue -> ToDevice(eth0);
in[0] -> ARPResponder(10.9.0.0/24 {left}) -> left;
in[1] -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> [0]query :: ARPQuerier(10.9.0.100, {right}, TIMEOUT 3, POLL_TIMEOUT 1);
in[2] -> Discard;
query -> Queue -> ToDevice(eth1);
FromDevice(eth1) -> back :: Classifier(12/0806 20/0002, -);
back[0] -> [1]query;
back[1] -> Discard;
"""


def proxy(lab: Lab) -> tuple[Namespace, Namespace, Namespace]:
    middle, left, right = pair(lab)
    conf = lab.dir / "proxy.click"
    conf.write_text(PROXY.format(left=middle.mac("eth0"), right=middle.mac("eth1")))
    Router(lab, middle, conf)
    with Wire(left) as a:
        question = Ether(src=a.mac, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=a.mac, psrc="10.9.0.1", pdst="10.9.0.250")

        def answered() -> object:
            a.send(question)
            return [f for f in a.frames(0.1) if ARP in f and f[ARP].op == 2]

        wait_for("the first ARP reply", answered, 5)
    return middle, left, right


@case(Plain)
def proxy_arp_answers_for_a_whole_network(lab: Lab) -> None:
    middle, left, _ = proxy(lab)
    with Wire(left) as a:
        for wanted in ("10.9.0.9", "10.9.0.200"):
            a.send(Ether(src=a.mac, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=a.mac, psrc="10.9.0.1", pdst=wanted))
            got = a.expect(f"a reply for {wanted}", lambda f, w=wanted: ARP in f and f[ARP].op == 2 and f[ARP].psrc == w)
            equal(got[ARP].hwsrc, middle.mac("eth0"), "address in the reply")
        a.send(Ether(src=a.mac, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=a.mac, psrc="10.9.0.1", pdst="10.9.1.1"))
        check(not [f for f in a.frames(0.3) if ARP in f and f[ARP].op == 2], "answered for another network")


@case(Plain)
def an_arp_entry_in_use_is_asked_for_again(lab: Lab) -> None:
    middle, left, right = proxy(lab)
    with Wire(left) as a, Wire(right) as b:
        b.answers["10.9.0.60"] = "02:00:00:00:bb:60"
        questions, delivered = 0, 0
        for i in range(30):
            a.send(Ether(src=a.mac, dst=middle.mac("eth0"))
                   / IP(src="10.9.0.1", dst="10.9.0.60", id=8000 + i) / UDP(dport=9999))
            for f in b.frames(0.1):
                questions += ARP in f and f[ARP].op == 1 and f[ARP].pdst == "10.9.0.60"
                delivered += IP in f and f[IP].dst == "10.9.0.60"
    check(delivered >= 29, f"{delivered} of 30 packets were delivered")
    check(2 <= questions <= 6, f"asked {questions} times in three seconds")
