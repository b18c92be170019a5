"""IP6RAdvertiser: a host gets its address and its default route from Valiant, and nothing else."""

import itertools
import re
import time

from scapy.layers.inet6 import ICMPv6ND_RA, ICMPv6ND_RS, ICMPv6NDOptPrefixInfo, IPv6

from harness import Ether, Net, Router, Wire, case, check, equal, ping, wait_for

MAC = "02:00:00:00:01:01"
CONFIG = f"""
FromDevice(eth0) -> in :: Classifier(12/86dd 20/3aff 54/85, 12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
out :: Queue(1000) -> ToDevice(eth0);
in [0] -> ra :: IP6RAdvertiser(fe80::1, {MAC}, 2001:db8:1::/64, MTU 1400, RDNSS 2001:db8:1::1, INTERVAL 30s) -> out;
in [1] -> IP6NDAdvertiser(fe80::1 2001:db8:1::1 {MAC}) -> out;
neighbors :: IP6NDSolicitor(fe80::1, {MAC}) -> out;
in [2] -> [1] neighbors;
in [3] -> Strip(14) -> CheckIP6Header -> pings :: Classifier(6/3a 40/80, -);
pings [0] -> ICMP6PingResponder -> GetIP6Address(24) -> [0] neighbors;
pings [1], in [4] -> Discard;
"""


class Link(Net):
    """A host and a router on one link. The host's kernel configures it."""

    def build(self) -> None:
        self.r, self.host = self.lab.namespace("r"), self.lab.namespace("h1")
        self.lab.veth(self.r, "eth0", self.host, "eth0")
        conf = self.lab.dir / "advertise.click"
        conf.write_text(CONFIG)
        self.router = Router(self.lab, self.r, conf)

    def switch_on(self) -> None:
        """From now on the host has IPv6: it asks for routers."""
        self.host.sh("sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=1", "net.ipv6.conf.eth0.autoconf=1",
                     "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.eth0.disable_ipv6=0",
                     check=False)

    @property
    def alive(self) -> bool:
        return self.router.alive()

    def log(self) -> str:
        return self.router.output()


@case(Link)
def a_host_configures_itself(net: Link) -> None:
    net.switch_on()
    address = r"inet6 (2001:db8:1::?[0-9a-f:]+)/64 scope global"
    wait_for("an address", lambda: re.search(address, net.host.ip("-6", "addr", "show", "dev", "eth0")), 10)
    route = net.host.ip("-6", "route", "show", "default")
    check("via fe80::1 dev eth0" in route and "proto ra" in route, route)
    equal(net.host.sh("sysctl", "-n", "net.ipv6.conf.eth0.mtu").strip(), "1400", "the link's MTU")
    check(ping(net.host, "2001:db8:1::1", "-W", "2"), "the router")
    check(ping(net.host, "2001:db8:99::1", "-W", "2"), "by the default route")


@case(Link, seconds=30)
def solicitations_are_answered_and_no_flood_of_them(net: Link) -> None:
    with Wire(net.host) as wire:
        ask = (Ether(dst="33:33:00:00:00:02", src=wire.mac) / IPv6(src="fe80::9", dst="ff02::2", hlim=255) / ICMPv6ND_RS())
        time.sleep(4)
        wire.drain()
        before = int(net.router.read("ra.count"))
        for _ in range(200):
            wire.send(ask)
        got = wire.expect("the answer", lambda f: ICMPv6ND_RA in f, 2)
        equal((got.src, got[IPv6].src, got[IPv6].dst, got[IPv6].hlim), (MAC, "fe80::1", "ff02::1", 255), "headers")
        equal((got[ICMPv6NDOptPrefixInfo].prefix, got[ICMPv6NDOptPrefixInfo].prefixlen), ("2001:db8:1::", 64), "the prefix")
        times = [time.monotonic()]
        for _ in range(200):
            wire.send(ask)
        times += [time.monotonic() for f in wire.frames(5) if ICMPv6ND_RA in f]
        check(2 <= len(times) <= 3, times)
        # Three seconds lie between two of them; some of that may have passed before the first was seen.
        check(all(later - earlier > 2 for earlier, later in itertools.pairwise(times)), times)
        sent = int(net.router.read("ra.count")) - before
        check(sent <= 3, f"{sent} advertisements")
        check(int(net.router.read("ra.solicitations")) >= 400, net.router.read("ra.solicitations"))
        wrong = ask.copy()
        wrong[ICMPv6ND_RS].code = 1
        wire.send(wrong)
        wait_for("the drop", lambda: "not a router solicitation" in net.router.read("drops"), 2)
