"""Tunnels, VLANs, bridges and switches."""

from scapy.all import (
    ICMP,
    IP,
    UDP,
    VXLAN,
    Dot1AD,
    Dot1Q,
    Ether,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6TimeExceeded,
    IPv6,
    Packet,
    Raw,
    fragment,
)

from gateways import asks, plain, tells
from replay import Replay, case


@case
def ipip_tunnel(t: Replay) -> None:
    host, here = "02:00:00:00:01:02", "02:00:00:00:01:01"
    far, near = "02:00:00:00:00:ff", "02:00:00:00:00:01"
    sent = IP(src="10.1.0.5", dst="10.2.0.5", id=1) / UDP(sport=1, dport=2) / b"there"
    large = IP(src="10.1.0.5", dst="10.2.0.5", id=2, flags="DF") / UDP(sport=1, dport=2) / bytes(1470)
    old = IP(src="10.1.0.5", dst="10.2.0.5", id=3, ttl=1) / UDP(sport=1, dport=2) / b"late"
    t.receive("eth1", *(plain(host, here, packet) for packet in (sent, large, old, IP(src="10.1.0.5", dst="10.3.0.5") / UDP())))
    back = IP(src="10.2.0.5", dst="10.1.0.5", id=4) / UDP(sport=2, dport=1) / b"here"
    outer = {"src": "203.0.113.1", "dst": "198.51.100.1"}
    t.receive(
        "eth0", plain(far, near, IP(**outer, id=9, proto=4) / back),
        # From somebody else, with a source that is not there, of another protocol.
        plain(far, near, IP(src="203.0.113.2", dst="198.51.100.1", proto=4) / back),
        plain(far, near, IP(**outer, proto=4) / IP(src="10.1.0.9", dst="10.1.0.5") / UDP()),
        plain(far, near, IP(**outer) / UDP(sport=1, dport=2)))
    t.run()
    t.printed(stderr="IPFragmenter(1480) DF 10.1.0.5 10.2.0.5 len=1498")
    inner = IP(src="10.1.0.5", dst="10.2.0.5", id=1, ttl=63) / UDP(sport=1, dport=2) / b"there"
    t.sent("eth0", plain(near, far, IP(src="198.51.100.1", dst="203.0.113.1", id=0, ttl=64, proto=4) / inner))
    (_, toobig), (_, expired), (_, unpacked) = t.out("eth1.out")
    assert unpacked == bytes(plain(here, host, IP(src="10.2.0.5", dst="10.1.0.5", id=4, ttl=63) / UDP(sport=2, dport=1) / b"here"))
    # The errors say what they are about, from this router, to the host.
    for frame, code, about in ((toobig, (3, 4), large), (expired, (11, 0), old)):
        error = Ether(frame)
        assert (error.src, error.dst, error[IP].src, error[IP].dst) == (here, host, "10.1.0.1", "10.1.0.5"), error.summary()
        assert (error[ICMP].type, error[ICMP].code) == code, error.summary()
        assert bytes(error[ICMP].payload)[:8] == bytes(about)[:8], error.show(dump=True)
        assert bytes(error[ICMP].payload)[20:28] == bytes(about)[20:28], error.show(dump=True)
    assert Ether(toobig)[ICMP].nexthopmtu == 1480


@case
def gre_tunnel(t: Replay) -> None:
    def lan(packet: Packet) -> Packet:
        return plain("02:00:00:00:01:02", "02:00:00:00:01:01", packet)

    def gre(src: str, dst: str, ident: int, header: bytes, packet: Packet, ttl: int = 250) -> Packet:
        return IP(src=src, dst=dst, id=ident, ttl=ttl, proto=47) / Raw(header + bytes(packet))

    four = IP(src="10.0.0.1", dst="10.0.1.1", id=1) / ICMP(id=1, seq=1) / b"four"
    six = IPv6(src="2001:db8::1", dst="2001:db8:1::1") / UDP(sport=5, dport=6) / b"six"
    back4 = IP(src="10.0.1.1", dst="10.0.0.1", id=2) / ICMP(type=0, id=1, seq=1) / b"four"
    back6 = IPv6(src="2001:db8:1::1", dst="2001:db8::1") / UDP(sport=6, dport=5) / b"six"
    t.receive("eth1", lan(four), lan(six), asks("02:00:00:00:01:02", "10.0.0.1", "10.0.0.2"))
    for number, packet in enumerate((
            gre("192.0.2.2", "192.0.2.1", 1, b"\0\0\x08\0", back4), gre("192.0.2.2", "192.0.2.1", 2, b"\0\0\x86\xdd", back6),
            # With a checksum, which this end does not know; from somebody else; with a broken packet inside.
            gre("192.0.2.2", "192.0.2.1", 3, b"\x80\0\x08\0", back4), gre("192.0.2.3", "192.0.2.1", 4, b"\0\0\x08\0", back4))):
        t.receive("eth0", plain("02:00:00:00:00:02", "02:00:00:00:00:01", packet), at=0.1 + number / 100)
    t.run("-h", "unknown.count")
    out = "02:00:00:00:00:01", "02:00:00:00:00:02"
    t.sent("eth0", plain(*out, gre("192.0.2.1", "192.0.2.2", 0, b"\0\0\x08\0", four)),
           plain(*out, gre("192.0.2.1", "192.0.2.2", 0, b"\0\0\x86\xdd", six)))
    t.sent("eth1", plain("02:00:00:00:01:01", "02:00:00:00:01:02", back4), plain("02:00:00:00:01:01", "02:00:00:00:01:02", back6))
    t.printed("1")


@case
def udp_vpn(t: Replay) -> None:
    me, router = "02:00:00:00:00:07", "02:00:00:00:00:fe"
    nothing = Ether(src="00:00:00:00:00:00", dst="00:00:00:00:00:00")
    one = IP(src="10.8.0.1", dst="10.8.0.2", id=1) / ICMP(id=1, seq=1) / b"ping"
    two = IP(src="10.8.0.1", dst="10.8.0.2", id=2) / ICMP(id=1, seq=2) / b"ping"
    back = IP(src="10.8.0.2", dst="10.8.0.1", id=3) / ICMP(type=0, id=1, seq=1) / b"ping"
    t.receive("KernelTun", nothing / one)
    outer = IP(src="203.0.113.77", dst="198.51.100.7", id=7) / UDP(sport=6000, dport=5555)
    for cookie in (b"\xc0\xff\xee\0", b"\xc0\xff\xed\0"):
        t.receive("eth0", plain(router, me, outer / (cookie + bytes(back))))
    t.receive("KernelTun", nothing / two, at=0.1)
    t.run("-h", "in.count", "-h", "bad.count")
    cookie = b"\xc0\xff\xee\0"
    t.sent(
        "eth0",
        plain(me, router, IP(src="198.51.100.7", dst="203.0.113.9", id=0, ttl=250) / UDP(sport=5555, dport=5555) / (cookie + bytes(one))),
        plain(me, router, IP(src="198.51.100.7", dst="203.0.113.77", id=1, ttl=250) / UDP(sport=5555, dport=6000) / (cookie + bytes(two))))
    t.sent("KernelTun", bytes(back))
    t.printed("in.count:\n1\n\nbad.count:\n1", "peer: 203.0.113.77.6000 > 198.51.100.7.5555: udp 44")


@case
def vxlan_gateway(t: Replay) -> None:
    near, far = "02:00:00:00:ff:01", "02:00:00:00:ff:02"
    red = plain("02:00:00:00:01:01", "02:00:00:00:01:02", IP(src="10.0.0.1", dst="10.0.0.2", id=1) / UDP(sport=1, dport=1) / b"red")
    blue = plain("02:00:00:00:01:01", "02:00:00:00:01:02", IP(src="10.0.0.1", dst="10.0.0.2", id=2) / UDP(sport=1, dport=1) / b"blue")
    arp = asks("02:00:00:00:01:02", "10.0.0.2", "10.0.0.1")

    def outer(src: str, dst: str, ident: int, vni: int, frame: Packet) -> Packet:
        return IP(src=src, dst=dst, id=ident, ttl=250) / UDP(sport=49152, dport=4789, chksum=0) / VXLAN(flags=8, vni=vni) / frame

    t.receive("eth1", red)
    t.receive("eth2", blue)
    for number, vni in enumerate((100, 200, 300)):
        t.receive("eth0", plain(far, near, outer("10.255.0.2", "10.255.0.1", number, vni, arp)))
    t.receive("eth0", plain(far, near, outer("10.255.0.3", "10.255.0.1", 9, 100, arp)))
    t.run("-h", "nobody.count")
    t.sent("eth0", plain(near, far, outer("10.255.0.1", "10.255.0.2", 0, 100, red)),
           plain(near, far, outer("10.255.0.1", "10.255.0.2", 0, 200, blue)))
    t.sent("eth1", arp)
    t.sent("eth2", arp)
    t.printed("1")


@case
def router_on_a_stick(t: Replay) -> None:
    a, guest, isp = "02:00:00:00:0a:05", "02:00:00:00:1e:05", "02:00:00:00:63:fe"
    macs = {10: "02:00:00:00:00:10", 30: "02:00:00:00:00:30", 99: "02:00:00:00:00:99"}

    def tagged(vlan: int, frame: Packet) -> Packet:
        return Ether(src=frame.src, dst=frame.dst) / Dot1Q(vlan=vlan, type=frame.type) / frame.payload

    def comes(vlan: int, src: str, packet: Packet) -> None:
        t.receive("eth0", tagged(vlan, plain(src, macs[vlan], packet)))

    t.receive("eth0", tagged(10, asks(a, "10.0.10.5", "10.0.10.1")))
    comes(10, a, IP(src="10.0.10.5", dst="9.9.9.9", id=1) / UDP(sport=1, dport=1) / b"out")
    t.receive("eth0", tagged(99, tells(isp, "10.0.99.254", macs[99], "10.0.99.1")))
    comes(30, guest, IP(src="10.0.30.5", dst="10.0.10.5", id=2) / UDP(sport=1, dport=1) / b"spy")
    comes(30, guest, IP(src="10.0.30.5", dst="9.9.9.9", id=3) / UDP(sport=1, dport=1) / b"surf")
    comes(99, isp, IP(src="9.9.9.9", dst="10.0.10.5", id=4) / UDP(sport=1, dport=1) / b"in")
    t.receive("eth0", tagged(10, tells(a, "10.0.10.5", macs[10], "10.0.10.1")))
    comes(10, a, IP(src="10.0.10.5", dst="10.0.10.1", id=5) / ICMP(id=1, seq=1) / b"ping")
    t.receive("eth0", plain(a, macs[10], IP(src="10.0.10.5", dst="9.9.9.9", id=6) / UDP()))
    t.run("-h", "untagged.count", "-h", "denied.count")
    t.sent(
        "eth0",
        tagged(10, tells(macs[10], "10.0.10.1", a, "10.0.10.5")),
        tagged(99, asks(macs[99], "10.0.99.1", "10.0.99.254")),
        tagged(99, plain(macs[99], isp, IP(src="10.0.10.5", dst="9.9.9.9", id=1, ttl=63) / UDP(sport=1, dport=1) / b"out")),
        tagged(99, plain(macs[99], isp, IP(src="10.0.30.5", dst="9.9.9.9", id=3, ttl=63) / UDP(sport=1, dport=1) / b"surf")),
        tagged(10, asks(macs[10], "10.0.10.1", "10.0.10.5")),
        tagged(10, plain(macs[10], a, IP(src="9.9.9.9", dst="10.0.10.5", id=4, ttl=63) / UDP(sport=1, dport=1) / b"in")),
        tagged(10, plain(macs[10], a, IP(src="10.0.10.1", dst="10.0.10.5", id=5, ttl=254) / ICMP(type=0, id=1, seq=1) / b"ping")),
    )
    t.printed("untagged.count:\n1\n\ndenied.count:\n1")


@case
def learning_bridge(t: Replay) -> None:
    a, b, c = (f"02:00:00:00:00:0{n}" for n in (1, 2, 3))
    who = asks(a, "10.0.0.1", "10.0.0.2")
    answer = tells(b, "10.0.0.2", a, "10.0.0.1")
    frames = [plain(*pair, IP(src="10.0.0.1", dst="10.0.0.2", id=n) / UDP()) for n, pair in enumerate(
        ((a, b), (b, a), (c, a), (a, c), (a, "02:00:00:00:00:09")))]
    bpdu = Ether(src=a, dst="01:80:c2:00:00:00", type=0x27) / b"BBB\x03"
    t.receive("eth0", who)
    t.receive("eth1", answer)
    t.receive("eth0", frames[0])
    t.receive("eth1", frames[1])
    t.receive("eth2", frames[2])
    t.receive("eth0", frames[3], frames[4], bpdu)
    # A host has moved.
    moved = plain(b, c, IP(src="10.0.0.2", dst="10.0.0.3", id=9) / UDP())
    late = plain(c, b, IP(src="10.0.0.3", dst="10.0.0.2", id=10) / UDP())
    t.receive("eth0", moved)
    t.receive("eth2", late)
    t.run("-h", "bridge.table")
    t.sent("eth0", answer, frames[1], frames[2], late)
    t.sent("eth1", who, frames[0], frames[4])
    t.sent("eth2", who, frames[3], frames[4], moved)
    t.printed("02-00-00-00-00-01 0\n02-00-00-00-00-02 0\n02-00-00-00-00-03 2")


@case
def sixinfour_router(t: Replay) -> None:
    me, host, mac = "2001:db8:1::1", "2001:db8:1::5", "02:00:00:00:00:61"
    host_mac = "02:00:00:00:00:05"

    def lan(packet: Packet, dst: str = mac) -> Packet:
        return Ether(src=host_mac, dst=dst) / packet

    group = "33:33:ff:00:00:01"
    solicitation = ICMPv6ND_NS(tgt=me) / ICMPv6NDOptSrcLLAddr(lladdr=host_mac)
    t.receive("eth1", lan(IPv6(src=host, dst="ff02::1:ff00:1", hlim=255) / solicitation, group))
    t.receive("eth1", lan(IPv6(src=host, dst="2001:db8:2::9") / UDP(sport=1, dport=1) / b"out"))
    back = IPv6(src="2001:db8:2::9", dst=host, hlim=50) / UDP(sport=1, dport=1) / b"back"
    tunnel = {"src": "192.0.2.62", "dst": "192.0.2.61", "proto": 41}
    t.receive("eth0", Ether(src="02:00:00:00:00:42", dst="02:00:00:00:00:41") / IP(**tunnel, id=1) / back)
    t.receive("eth1", lan(IPv6(src=host, dst=me, hlim=255) / ICMPv6ND_NA(tgt=host, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=host_mac)))
    t.receive("eth1", lan(IPv6(src=host, dst=me) / ICMPv6EchoRequest(id=3, seq=4, data=b"you")))
    t.receive("eth1", lan(IPv6(src=host, dst="2001:db8:2::9", hlim=1) / UDP(sport=1, dport=1) / b"short"))
    t.run()
    t.sent("eth0", Ether(src="02:00:00:00:00:41", dst="02:00:00:00:00:42") / IP(src="192.0.2.61", dst="192.0.2.62", id=0, ttl=64, proto=41)
           / IPv6(src=host, dst="2001:db8:2::9", hlim=63) / UDP(sport=1, dport=1) / b"out")
    frames = [Ether(frame) for _, frame in t.out("eth1.out")]
    assert [bytes(frame)[:14].hex() for frame in frames] == [
        "02000000000502000000006186dd", "3333ff00000502000000006186dd", *["02000000000502000000006186dd"] * 3], t.out("eth1.out")
    advert, solicit, data, echo, error = frames
    assert advert[ICMPv6ND_NA].tgt == me and advert[ICMPv6NDOptDstLLAddr].lladdr == mac and advert[IPv6].dst == host
    assert solicit[ICMPv6ND_NS].tgt == host and solicit[ICMPv6NDOptSrcLLAddr].lladdr == mac and solicit[IPv6].hlim == 255
    want = IPv6(src="2001:db8:2::9", dst=host, hlim=49) / UDP(sport=1, dport=1) / b"back"
    assert bytes(data) == bytes(Ether(src=mac, dst=host_mac) / want)
    reply = echo[ICMPv6EchoReply]
    assert (reply.id, reply.seq, reply.data, echo[IPv6].src, echo[IPv6].dst) == (3, 4, b"you", me, host)
    assert error[ICMPv6TimeExceeded].code == 0 and error[IPv6].src == me and error[IPv6].dst == host
    assert bytes(error[ICMPv6TimeExceeded].payload)[8:40] == bytes(IPv6(src=host, dst="2001:db8:2::9"))[8:40]
    # Checksums are right: scapy computes the same.
    for frame in frames:
        again = frame.copy()
        again[IPv6].payload.cksum = None
        if not again.haslayer(UDP):
            assert bytes(again) == bytes(frame), frame.show(dump=True)


@case
def span_port(t: Replay) -> None:
    a, b, backup = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:bb"
    first = plain(a, b, IP(src="10.0.0.1", dst="10.0.0.2", id=1) / UDP(sport=1, dport=2) / bytes(200))
    second = plain(b, a, IP(src="10.0.0.2", dst="10.0.0.1", id=2) / UDP(sport=2, dport=1) / b"short")
    secret = plain(backup, a, IP(src="10.0.0.3", dst="10.0.0.1", id=3) / UDP(sport=3, dport=1) / b"backup")
    t.receive("eth0", first)
    t.receive("eth1", second, secret)
    t.run("-h", "seen.count", "-h", "skipped.count", "-h", "seen.byte_count")
    t.sent("eth0", second, secret)
    t.sent("eth1", first)
    t.sent("eth2", bytes(first)[:96], second)
    t.printed(f"seen.count:\n2\n\nskipped.count:\n1\n\nseen.byte_count:\n{96 + len(second)}")


@case
def provider_bridge(t: Replay) -> None:
    a, b = "02:00:00:00:00:01", "02:00:00:00:00:02"
    packet = IP(src="10.0.0.1", dst="10.0.0.2", id=1) / UDP(sport=1, dport=2) / b"customer"
    tagged = Ether(src=a, dst=b) / Dot1Q(vlan=5) / packet
    t.receive("eth1", tagged)
    t.receive("eth2", plain(a, b, packet))
    t.receive("eth0", Ether(src=b, dst=a) / Dot1AD(vlan=102, prio=3) / packet,
              Ether(src=b, dst=a) / Dot1AD(vlan=101) / Dot1Q(vlan=5) / packet,
              Ether(src=b, dst=a) / Dot1AD(vlan=103) / packet)
    t.run()
    t.sent("eth0", Ether(src=a, dst=b) / Dot1AD(vlan=101) / Dot1Q(vlan=5) / packet, Ether(src=a, dst=b) / Dot1AD(vlan=102) / packet)
    t.sent("eth1", Ether(src=b, dst=a) / Dot1Q(vlan=5) / packet)
    t.sent("eth2", plain(b, a, packet))
    t.printed(stderr=f"unknown: {18 + len(packet):4} | 02000000 00010200 00000002 88a80067 0800")


@case
def ethernet_over_ip(t: Replay) -> None:
    near, far = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
    large = IP(src="10.0.0.1", dst="10.0.0.2", id=1) / UDP(sport=1, dport=2) / (bytes(range(250)) * 5)
    frame = plain("02:00:00:00:01:01", "02:00:00:00:01:02", large)
    small = asks("02:00:00:00:01:01", "10.0.0.1", "10.0.0.2")
    t.receive("eth1", frame, small)
    # The same way back, the last fragment first.
    pieces = fragment(IP(src="192.0.2.20", dst="192.0.2.10", id=77, proto=97) / Raw(b"\x30\0" + bytes(frame)), 552)
    t.receive("eth0", *(plain(far, near, piece) for piece in reversed(pieces)))
    t.receive("eth0", plain(far, near, IP(src="192.0.2.20", dst="192.0.2.10", id=78, proto=97) / Raw(b"\x20\0" + bytes(small))))
    t.run()
    whole = IP(src="192.0.2.10", dst="192.0.2.20", id=0, ttl=250, proto=97) / Raw(b"\x30\0" + bytes(frame))
    t.sent("eth0", *(plain(near, far, piece) for piece in fragment(whole, 552)),
           plain(near, far, IP(src="192.0.2.10", dst="192.0.2.20", id=1, ttl=250, proto=97) / Raw(b"\x30\0" + bytes(small))))
    t.sent("eth1", frame)
