"""conf/nat64.click: a host that has only IPv6 and one that has only IPv4."""

import json
import re
import socket
import subprocess
import time

from harness import ICMP, IP, TCP, UDP, Ether, Net, Raw, Router, Wire, case, check, equal, ping, right_checksums, wait_for
from lab import ROOT, the_binary

INSIDE, OUTSIDE = "2001:db8:1::2", "192.0.2.9"
SIX = f"64:ff9b::{OUTSIDE}"
OUTSIDE_MTU = 1400


class Translated(Net):
    """An IPv6 host and an IPv4 host around the gateway; the cable outside carries at most 1400 bytes."""

    def build(self) -> None:
        self.r, self.inside, self.outside = (self.lab.namespace(name) for name in ("r", "h1", "h2"))
        self.lab.veth(self.r, "eth0", self.inside, "eth0")
        self.lab.veth(self.r, "eth1", self.outside, "eth0", mtu=OUTSIDE_MTU)
        self.inside.sh("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.eth0.disable_ipv6=0",
                       "net.ipv6.icmp.ratelimit=0", check=False)
        self.inside.ip("addr", "add", f"{INSIDE}/64", "dev", "eth0", "nodad")
        self.inside.ip("-6", "route", "add", "default", "via", "fe80::1", "dev", "eth0")
        self.outside.ip("addr", "add", f"{OUTSIDE}/24", "dev", "eth0")
        self.router = self.start()
        wait_for("the first ping", lambda: ping(self.inside, SIX), 5)

    def start(self) -> Router:
        return Router(self.lab, self.r, ROOT / "conf" / "nat64.click", f"GATEWAY={OUTSIDE}", f"OUTSIDE_MTU={OUTSIDE_MTU}",
                      "NON_GLOBAL=true", "-R", "-j", "2")

    @property
    def alive(self) -> bool:
        return self.router.alive()

    def log(self) -> str:
        return self.router.output()

    def iperf(self, port: int, *options: str) -> dict:
        listener = self.outside.popen("iperf3", "-s", "-1", "-p", str(port))
        wait_for("iperf3 -s", lambda: f":{port}" in self.outside.sh("ss", "-Hltn"), 3)
        out = json.loads(self.inside.sh("iperf3", "-6", "-c", SIX, "-p", str(port), "-J", *options, check=False))
        check("error" not in out, out.get("error"))
        listener.wait(5)
        return out["end"]


@case(Translated)
def pings_there_and_the_gateway_itself(net: Translated) -> None:
    check(ping(net.inside, SIX, "-s", "1000"), "a large ping")
    check(ping(net.inside, "2001:db8:1::1"), "the gateway inside")
    check(ping(net.outside, "192.0.2.1"), "the gateway outside")
    check("ICMP [2001:db8:1::2]:" in net.router.read("nat.sessions"), net.router.read("nat.sessions"))


@case(Translated, seconds=40)
def tcp_and_udp_run_both_ways(net: Translated) -> None:
    end = net.iperf(5401, "-t", "1")
    check(end["sum_received"]["bytes"] > 100_000, end["sum_received"])
    end = net.iperf(5402, "-t", "1", "-R")
    check(end["sum_received"]["bytes"] > 100_000, end["sum_received"])
    for port, more in ((5403, ()), (5404, ("-R",))):
        end = net.iperf(port, "-t", "1", "-u", "-b", "5M", "-l", "1200", *more)
        check(end["sum"]["packets"] > 100 and end["sum"]["lost_percent"] < 20, end["sum"])
    check("TCP [2001:db8:1::2]:" in net.router.read("nat.mappings"), net.router.read("nat.mappings"))


@case(Translated)
def a_host_learns_what_the_ipv4_link_carries(net: Translated) -> None:
    out = net.inside.sh("ping", "-6", "-c", "1", "-W", "1", "-M", "do", "-s", "1420", SIX, check=False)
    # 1400 bytes of IPv4 are 1420 of IPv6.
    check(re.search(r"[Pp]acket too big: mtu=1420|mtu: 1420", out), out)
    check(ping(net.inside, SIX, "-M", "do", "-s", str(1420 - 48)), "what fits")


@case(Translated)
def traceroute_names_the_gateway_and_the_host(net: Translated) -> None:
    out = net.inside.sh("traceroute", "-6", "-n", "-q", "1", "-w", "1", SIX)
    hops = re.findall(r"^ *\d+ +(\S+)", out, re.M)
    equal((hops[0], socket.inet_pton(socket.AF_INET6, hops[-1])),
          ("2001:db8:1::1", socket.inet_pton(socket.AF_INET6, SIX)), "hops")


@case(Translated)
def fragments_of_ipv4_arrive_whole(net: Translated) -> None:
    """A datagram that is longer than the link outside comes in fragments, and leaves in fragments of IPv6."""
    with net.inside.inside():
        here = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        here.bind(("::", 6000))
        here.settimeout(3)
    with net.outside.inside():
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        there.bind(("", 7000))
        there.settimeout(3)
    here.sendto(b"hello", (SIX, 7000))
    data, address = there.recvfrom(100)
    equal((data, address), (b"hello", ("192.0.2.1", 6000)), "what the outside sees")
    # Without Don't Fragment: IP_MTU_DISCOVER, IP_PMTUDISC_DONT.
    there.setsockopt(socket.IPPROTO_IP, 10, 0)
    large = bytes(n & 255 for n in range(4000))
    there.sendto(large, address)
    equal(here.recv(5000), large, "the datagram")
    # The host inside sends fragments too.
    here.sendto(large, (SIX, 7000))
    equal(there.recv(5000), large, "the datagram from inside")
    here.close()
    there.close()


@case(Translated)
def nobody_gets_in_without_a_mapping(net: Translated) -> None:
    with Wire(net.outside) as out, Wire(net.inside) as seen:
        ether = Ether(dst="02:00:00:00:01:02", src=out.mac)
        for port in (1, 1024, 5000, 65535):
            out.send(ether / IP(src=OUTSIDE, dst="192.0.2.1") / UDP(sport=9, dport=port) / Raw(b"in"))
            out.send(ether / IP(src=OUTSIDE, dst="192.0.2.1") / TCP(sport=9, dport=port, flags="S"))
        out.send(ether / IP(src=OUTSIDE, dst="192.0.2.1") / ICMP(type=0, id=77))
        check(not any(UDP in frame or TCP in frame for frame in seen.frames(0.5)), "a packet of no session got in")
    check("\tno mapping" in net.router.read("drops"), net.router.read("drops"))


@case(Translated)
def packets_on_the_wire_have_right_checksums(net: Translated) -> None:
    with Wire(net.outside) as out:
        with net.inside.inside():
            here = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            here.bind(("::", 6001))
        here.sendto(b"odd", (SIX, 7001))
        frame = out.expect("the datagram", lambda f: IP in f and UDP in f and f[UDP].dport == 7001)
        right_checksums(frame)
        equal((frame[IP].src, frame[UDP].sport, frame[IP].ttl, bytes(frame[UDP].payload)[:3]),
              ("192.0.2.1", 6001, 63, b"odd"), "the datagram")
        here.close()


@case(Translated, seconds=60)
def hot_swaps_break_no_connection(net: Translated) -> None:
    server = net.outside.popen("/usr/bin/python3", "-c", """
import socket
s = socket.create_server(("", 7100))
c, _ = s.accept()
for line in c.makefile("rb"):
    c.sendall(line.upper())
""")
    wait_for("the server", lambda: ":7100" in net.outside.sh("ss", "-Hltn"), 5)
    with net.inside.inside():
        there = socket.create_connection((SIX, 7100), timeout=5)
    file = there.makefile("rwb")
    text = net.router.read("config").replace("$GATEWAY 192.0.2.254", f"$GATEWAY {OUTSIDE}")
    text = text.replace("$OUTSIDE_MTU 1500", f"$OUTSIDE_MTU {OUTSIDE_MTU}")
    for n in range(4):
        file.write(b"word %d\n" % n)
        file.flush()
        equal(file.readline(), b"WORD %d\n" % n, "the answer")
        more = "" if n % 2 else "UDP_TIMEOUT 2m, "
        done = subprocess.run([the_binary(), "write", "--socket", net.router.socket, "hotconfig", "-"], text=True,
                              input=text.replace("MTU $INSIDE_MTU);", f"{more}MTU $INSIDE_MTU);", 1),
                              capture_output=True, timeout=20, check=False)
        equal(done.returncode, 0, done.stderr)
        time.sleep(0.2)
    file.write(b"last\n")
    file.flush()
    equal(file.readline(), b"LAST\n", "the answer after all")
    file.close()
    there.close()
    net.lab.stop(server)
