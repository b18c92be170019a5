"""Firewalls, responders, loggers, routers, and pipelines on DPDK ports."""

from scapy.all import DNS, DNSQR, ICMP, IP, TCP, UDP, Ether, ICMPv6TimeExceeded, IPv6, Packet, fragment

from gateways import asks, plain, tells
from replay import Replay, case, octets

A, B = "02:00:00:00:00:01", "02:00:00:00:00:02"


@case
def packet_filter(t: Replay) -> None:
    def outside(number: int, packet: Packet, **fields: object) -> Packet:
        return plain(A, B, IP(**{"src": "198.51.100.9", "dst": "192.0.2.25", "id": number, **fields}) / packet)

    good = [
        outside(1, TCP(sport=1, dport=25, flags="S")),
        outside(2, TCP(sport=1, dport=9999, flags="A")),
        outside(3, UDP(sport=1, dport=53), dst="192.0.2.53"),
        outside(4, ICMP(id=1)),
        asks(A, "192.0.2.1", "192.0.2.2"),
    ]
    bad = [
        outside(5, TCP(sport=1, dport=25, flags="S"), src="10.1.1.1"),
        outside(6, TCP(sport=1, dport=80, flags="S")),
        outside(7, UDP(sport=1, dport=53)),
        outside(8, ICMP(type=13)),
    ]
    for frame in (good[0], bad[0], bad[1], good[1], bad[2], good[2], bad[3], good[3], good[4]):
        t.receive("eth0", frame)
    t.receive("eth0", Ether(src=A, dst=B) / IPv6(src="2001:db8::1", dst="2001:db8::2") / UDP())
    inside = [plain(B, A, IP(src="192.0.2.7", dst="198.51.100.9", id=n) / UDP(sport=1, dport=port)) for n, port in ((20, 123), (21, 138))]
    netbios = plain(B, A, IP(src="192.0.2.7", dst="198.51.100.9", id=22) / TCP(sport=1, dport=139, flags="S", seq=5, window=100))
    t.receive("eth1", *inside, netbios)
    t.run("-h", "in/dropped.count", "-h", "out/dropped.count")
    t.sent("eth1", *good)
    t.sent("eth0", *inside)
    t.printed("in/dropped.count:\n4\n\nout/dropped.count:\n1", """
        in: 10.1.1.1.1 > 192.0.2.25.25: S 0:1(1,54,40) win 8192
        in: 198.51.100.9.1 > 192.0.2.25.80: S 0:1(1,54,40) win 8192
        in: 198.51.100.9.1 > 192.0.2.25.53: udp 8
        in: 198.51.100.9 > 192.0.2.25: icmp timestamp
        out: 192.0.2.7.1 > 198.51.100.9.139: S 5:6(1,54,40) win 100""")


@case
def stateful_firewall(t: Replay) -> None:
    inner, outer = "198.51.100.5", "203.0.113.9"
    out = [plain(A, B, IP(src=inner, dst=outer, id=1) / TCP(sport=1000, dport=80, flags="S")),
           plain(A, B, IP(src=inner, dst=outer, id=2) / UDP(sport=1000, dport=53) / b"?")]
    back = [plain(B, A, IP(src=outer, dst=inner, id=3) / TCP(sport=80, dport=1000, flags="SA")),
            plain(B, A, IP(src=outer, dst=inner, id=4) / UDP(sport=53, dport=1000) / b"!")]
    stray = [plain(B, A, IP(src=outer, dst=inner, id=5) / TCP(sport=81, dport=1000, flags="SA")),
             plain(B, A, IP(src=outer, dst=inner, id=6) / TCP(sport=5, dport=22, flags="S"))]
    ssh = [plain(B, A, IP(src=outer, dst="198.51.100.22", id=7) / TCP(sport=5, dport=22, flags="S")),
           plain(A, B, IP(src="198.51.100.22", dst=outer, id=8) / TCP(sport=22, dport=5, flags="SA"))]
    t.receive("eth1", *out)
    t.receive("eth0", back[0], stray[0], back[1], stray[1], ssh[0])
    t.receive("eth1", ssh[1])
    t.run()
    t.sent("eth0", *out, ssh[1])
    t.sent("eth1", *back, ssh[0])
    t.printed("flows: 3")


@case
def syn_guard(t: Replay) -> None:
    def syn(number: int) -> Packet:
        return plain(A, B, IP(src="198.51.100.1", dst="192.0.2.80", id=number) / TCP(sport=number, dport=80, flags="S"))

    data = plain(A, B, IP(src="198.51.100.1", dst="192.0.2.80", id=1) / TCP(sport=1, dport=80, flags="A"))
    arp = asks(A, "192.0.2.254", "192.0.2.80")
    # Eight at once: three pass. Data and ARP pass always. At 50 a second there is one every 20 ms.
    t.receive("eth0", *(syn(n) for n in range(100, 108)), at=0.5, every=0.0001)
    t.receive("eth0", data, arp)
    t.receive("eth0", *(syn(n) for n in range(200, 210)), at=1.5, every=0.025)
    t.run(seconds=3)
    t.sent("eth1", *(syn(n) for n in range(100, 103)), data, arp, *(syn(n) for n in range(200, 210)))
    t.printed("passed 13, refused 5, limit 50")


@case
def fragment_filter(t: Replay) -> None:
    def datagram(number: int, port: int, size: int) -> Packet:
        return IP(src="10.0.0.1", dst="10.0.0.2", id=number) / UDP(sport=1, dport=port) / (bytes(range(250)) * 4)[:size]

    whole, rpc = datagram(7, 2049, 900), datagram(8, 111, 900)
    frames = [plain(A, B, piece) for packet in (rpc, whole) for piece in reversed(fragment(packet, 504))]
    # One that never becomes whole, one that must not be cut.
    frames.append(plain(A, B, fragment(datagram(9, 2049, 900), 504)[0]))
    hard = IP(src="10.0.0.1", dst="10.0.0.2", id=10, flags="DF") / UDP(sport=1, dport=2049) / bytes(500)
    frames.append(plain(A, B, hard))
    t.receive("eth0", *frames)
    t.run()
    t.sent("eth1", *(plain("02:00:00:00:00:01", "02:00:00:00:00:02", piece) for piece in fragment(whole, 376)))
    ((_, error),) = t.out("eth0.out")
    icmp = Ether(error)[ICMP]
    assert (icmp.type, icmp.code, bytes(icmp.payload)[:28]) == (3, 4, bytes(hard)[:28]), Ether(error).show(dump=True)
    t.printed(stderr="IPFragmenter(400) DF 10.0.0.1 10.0.0.2 len=528")


@case
def dns_refuser(t: Replay) -> None:
    mac, client = "02:00:00:00:00:53", "02:00:00:00:00:05"

    def query(sport: int, name: str, **fields: int) -> Packet:
        dns = DNS(**{"id": 7, "rd": 1, **fields}, qd=DNSQR(qname=name))
        return IP(src="10.0.0.5", dst="10.0.0.53", id=sport) / UDP(sport=sport, dport=53) / dns

    t.receive("eth0", asks(client, "10.0.0.5", "10.0.0.53"))
    t.receive("eth0", plain(client, mac, query(1000, "example.org")), plain(client, mac, query(1001, "x.test", id=9)))
    t.receive("eth0", plain(client, mac, query(1002, "x.test", qr=1)))
    t.receive("eth0", plain(client, mac, IP(src="10.0.0.5", dst="10.0.0.54") / UDP(sport=1, dport=53) / DNS()))
    t.run("-h", "queries.count")

    def refusal(sport: int, name: str, ident: int) -> Packet:
        return plain(mac, client, IP(src="10.0.0.53", dst="10.0.0.5", id=sport) / UDP(sport=53, dport=sport)
                     / DNS(id=ident, qr=1, rd=1, rcode=5, qd=DNSQR(qname=name)))

    t.sent("eth0", tells(mac, "10.0.0.53", client, "10.0.0.5"), refusal(1000, "example.org", 7), refusal(1001, "x.test", 9))
    lines = [line for line in (t.path / "queries.log").read_text().splitlines() if not line.startswith("!")]
    assert [line.split(" ")[:2] for line in lines] == [["10.0.0.5", "1000"], ["10.0.0.5", "1001"]], lines
    assert "example" in lines[0] and "test" in lines[1], lines
    t.printed("2")


@case
def fake_hosts(t: Replay) -> None:
    mac = "02:00:00:00:66:66"
    probe = IP(src="192.0.2.1", dst="10.66.9.9", id=2) / UDP(sport=1000, dport=161) / b"public"
    t.receive("eth0", asks(A, "192.0.2.1", "10.66.1.2"), asks(A, "192.0.2.1", "10.67.1.2"))
    t.receive("eth0", plain(A, mac, IP(src="192.0.2.1", dst="10.66.1.2", id=1) / ICMP(id=4, seq=5) / b"anybody there"))
    t.receive("eth0", plain(A, mac, probe), plain(A, mac, IP(src="192.0.2.1", dst="10.66.1.2", id=3) / TCP(dport=22)))
    t.run("-h", "udp.count", "-h", "tcp.count")
    reply, pong, error = (frame for _, frame in t.out("eth0.out"))
    assert reply.rstrip(b"\0") == octets(tells(mac, "10.66.1.2", A, "192.0.2.1")).rstrip(b"\0"), reply.hex()
    want = plain(mac, A, IP(src="10.66.1.2", dst="192.0.2.1", id=1, ttl=255) / ICMP(type=0, id=4, seq=5) / b"anybody there")
    assert pong == octets(want), pong.hex()
    packet = Ether(error)
    assert (packet[IP].src, packet[IP].dst, packet[ICMP].type, packet[ICMP].code) == ("10.66.0.1", "192.0.2.1", 3, 3), packet.summary()
    assert bytes(packet[ICMP].payload) == bytes(probe), packet.show(dump=True)
    t.printed("udp.count:\n1\n\ntcp.count:\n1", """
        arp: arp who-has 10.66.1.2 tell 192.0.2.1
        arp: arp who-has 10.67.1.2 tell 192.0.2.1""")


@case
def packet_logger(t: Replay) -> None:
    long = plain(A, B, IP(src="10.0.0.1", dst="10.0.0.2", id=1) / TCP(sport=4000, dport=80, flags="PA") / (b"GET /" + bytes(200)))
    other = plain(A, B, IP(src="10.0.0.1", dst="10.0.0.2", id=2) / TCP(sport=4000, dport=443, flags="S"))
    arp = asks(A, "10.0.0.1", "10.0.0.2")
    t.receive("eth0", long, other, arp)
    t.run("-h", "unicast.count")
    frames = t.out("all.out")
    assert [frame for _, frame in frames] == [octets(long)[:64], octets(other), octets(arp)], frames
    assert [round(when, 6) for when, _ in frames] == [0.001, 0.002, 0.003], frames
    lines = [line for line in (t.path / "web.log").read_text().splitlines() if not line.startswith("!")]
    assert lines == ["10.0.0.1 10.0.0.2 4000 205 PA"], lines
    t.printed("2", "broadcast:   42 | ffffffff ffff0200 00000001 0806")


@case
def pcap_player(t: Replay) -> None:
    packets = [(0.0, IP(src="10.0.0.1", dst="10.0.0.2", id=1) / TCP(sport=1, dport=2, flags="S")),
               (0.25, IP(src="10.0.0.3", dst="10.0.0.2", id=2) / UDP(sport=1, dport=2) / b"data"),
               (1.0, IP(src="10.0.0.3", dst="10.0.0.2", id=3) / ICMP(id=1))]
    t.pcap("trace.pcap", [(at, octets(plain(B, A, packet))) for at, packet in packets] + [(1.1, octets(asks(B, "10.0.0.1", "10.0.0.2")))])
    t.run("-h", "sent.count", seconds=None)
    want = []
    for _, packet in packets:
        new = packet.copy()
        new[IP].src, new[IP].dst = "198.18.0.1", "198.19.0.1"
        want.append(plain(A, B, new))
    t.sent("eth0", *want, *want)
    times = [when for when, _ in t.out("eth0.out")]
    gaps = [round(after - before, 3) for before, after in zip(times, times[1:])]
    assert gaps[:2] == gaps[3:] == [0.25, 0.75], gaps
    t.printed("6", """
        Loading replay with 1 inputs.
        replay : Successfully loaded 3 packets. Input 0 dried out.""")


@case
def branch_router(t: Replay) -> None:
    office, uplink = ("02:00:00:00:20:02", "02:00:00:00:20:01"), ("02:00:00:00:99:02", "02:00:00:00:99:01")
    four = IP(src="10.20.0.5", dst="9.9.9.9", id=1) / UDP(sport=1, dport=2) / b"four"
    six = IPv6(src="2001:db8:20::5", dst="2001:db8::9") / UDP(sport=1, dport=2) / b"six"
    t.receive("eth1", asks(office[0], "10.20.0.5", "10.20.0.1"), plain(*office, four), Ether(src=office[0], dst=office[1]) / six)
    back4 = IP(src="9.9.9.9", dst="10.20.0.5", id=2, ttl=9) / UDP(sport=2, dport=1) / b"back"
    back6 = IPv6(src="2001:db8::9", dst="2001:db8:20::5", hlim=9) / UDP(sport=2, dport=1) / b"back"
    t.receive("eth0", plain(*uplink, back4), Ether(src=uplink[0], dst=uplink[1]) / back6)
    t.receive("eth1", plain(*office, IP(src="10.20.0.5", dst="192.0.2.20", id=3) / ICMP(id=1, seq=1) / b"ping"))
    # Lifetimes that end here, and a frame for somebody else.
    t.receive("eth1", plain(*office, IP(src="10.20.0.5", dst="9.9.9.9", id=4, ttl=1) / UDP(sport=1, dport=2) / b"old"))
    t.receive("eth1", Ether(src=office[0], dst=office[1]) / IPv6(src="2001:db8:20::5", dst="2001:db8::9", hlim=1) / UDP(sport=1, dport=2))
    t.receive("eth1", plain(office[0], A, four))
    t.run("-h", "report.run")
    four.ttl, six.hlim, back4.ttl, back6.hlim = 63, 63, 8, 8
    t.sent("eth0", plain(uplink[1], uplink[0], four), Ether(src=uplink[1], dst=uplink[0]) / six)
    out = [frame for _, frame in t.out("eth1.out")]
    first = [tells(office[1], "10.20.0.1", office[0], "10.20.0.5"), plain(office[1], office[0], back4),
             Ether(src=office[1], dst=office[0]) / back6,
             plain(office[1], office[0], IP(src="192.0.2.20", dst="10.20.0.5", id=3, ttl=254) / ICMP(type=0, id=1, seq=1) / b"ping")]
    assert [frame.rstrip(b"\0") for frame in out[:4]] == [octets(frame).rstrip(b"\0") for frame in first], [f.hex() for f in out]
    late, late6 = Ether(out[4]), Ether(out[5])
    assert (late[ICMP].type, late[IP].src, late[IP].dst) == (11, "192.0.2.20", "10.20.0.5"), late.summary()
    assert late6[ICMPv6TimeExceeded].code == 0 and late6[IPv6].src == "2001:db8:ffff::20", late6.summary()
    assert len(out) == 6
    t.printed("office 7 in 6 out, uplink 2 in 2 out, 9 together")


@case
def traffic_accounting(t: Replay) -> None:
    def frames(count: int, port: int, size: int) -> list[Packet]:
        return [plain(A, B, IP(src="10.0.0.1", dst="10.0.0.2", id=n) / TCP(sport=9, dport=port) / bytes(size - 54)) for n in range(count)]

    web, mail = frames(4, 443, 500), frames(1, 25, 100)
    dns = [plain(A, B, IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=9, dport=53) / bytes(58))]
    t.receive("eth0", *web, *dns, at=0.2)
    t.receive("eth0", *mail, at=1.2)
    t.receive("eth0", *web, at=2.2)
    t.receive("eth0", *mail, *mail, at=3.5)
    t.run("-h", "blocked.count", seconds=4.5)
    t.sent("eth1", *web, *dns, *mail, *web)
    t.printed("""
        1 s: web 2000 udp 100 rest 0 used 2100
        2 s: web 2000 udp 100 rest 100 used 2200
        3 s: web 4000 udp 100 rest 100 used 4200
        quota used up
        2""")


@case
def proxy_arp(t: Replay) -> None:
    left, right = "02:00:00:00:00:10", "02:00:00:00:00:11"
    a, b = "02:00:00:00:00:aa", "02:00:00:00:00:bb"
    t.receive("eth0", asks(a, "10.7.0.1", "10.7.0.200"), asks(a, "10.7.0.1", "10.7.0.2"))
    ping = IP(src="10.7.0.1", dst="10.7.0.200", id=1) / ICMP(id=1, seq=1)
    pong = IP(src="10.7.0.200", dst="10.7.0.1", id=2) / ICMP(type=0, id=1, seq=1)
    t.receive("eth0", plain(a, left, ping), plain(a, b, ping))
    t.receive("eth1", tells(b, "10.7.0.200", right, "10.7.0.254"), plain(b, right, pong))
    t.receive("eth0", tells(a, "10.7.0.1", left, "10.7.0.126"))
    t.run()
    t.sent("eth0", tells(left, "10.7.0.200", a, "10.7.0.1"), asks(left, "10.7.0.126", "10.7.0.1"), plain(left, a, pong))
    t.sent("eth1", asks(right, "10.7.0.254", "10.7.0.200"), plain(right, b, ping))


def port(number: int, receives: list[str], sends: str) -> str:
    """A DPDK device that receives from files, a queue for each, and sends to another one."""
    words = [f"net_pcap{number}", *(f"rx_pcap={name}" for name in receives), f"tx_pcap={sends}"]
    return '"' + ",".join(words) + '"'


@case
def fastclick_forwarder(t: Replay) -> None:
    queues = [[octets(plain(B, A, IP(src="10.0.0.1", dst="10.0.0.2", id=n) / UDP(sport=n, dport=9) / bytes(20)))
               for n in range(first, first + 50)] for first in (0, 100)]
    for number, frames in enumerate(queues):
        t.pcap(f"q{number}.pcap", [(0.0, frame) for frame in frames])
    t.pcap("none.pcap", [])
    t.run_ports("$(ge $(cnt.count) 100)", f"ifA={port(0, ['q0.pcap', 'q1.pcap'], 'a.out')}",
                f"ifB={port(1, ['none.pcap'], 'b.out')}", "-h", "cnt.count", "-h", "tdB.count", threads=2)
    sent = [frame for _, frame in t.out("b.out")]
    want = [[octets(Ether(src=A, dst=B) / Ether(frame).payload) for frame in frames] for frames in queues]
    assert sorted(sent) == sorted(want[0] + want[1]), f"{len(sent)} frames"
    # Each queue in order, however the two mix.
    for frames in want:
        assert [frame for frame in sent if frame in frames] == frames, "out of order"
    t.printed("cnt.count:\n100\n\ntdB.count:\n100")


@case
def fastclick_router(t: Replay) -> None:
    mac = "00:00:00:01:02:03"
    packets = [IP(src="192.0.2.9", dst=f"10.{n % 3 + 1}.0.{n}", id=n) / UDP(sport=1, dport=9) / b"x" for n in range(30)]
    t.pcap("in.pcap", [(0.0, octets(plain(B, mac, packet))) for packet in packets])
    t.pcap("none.pcap", [])
    t.run_ports(
        "$(ge $(add $(o0/n.count) $(o1/n.count) $(noroute.count)) 30)", f"in={port(0, ['in.pcap'], 'none.out')}",
        f"out0={port(1, ['none.pcap'], 'zero.out')}", f"out1={port(2, ['none.pcap'], 'one.out')}",
        "-h", "o0/n.count", "-h", "o1/n.count", "-h", "noroute.count")
    for packet in packets:
        packet.ttl = 63
    for part, name in enumerate(("zero", "one")):
        src, dst = (f"02:00:00:00:0{part + 1}:0{end}" for end in (1, 2))
        t.sent(name, *(plain(src, dst, packet) for packet in packets[part::3]))
    assert t.stderr.strip().endswith("warning: PAUSE none has no effect: the device's pause frames stay as they are set"), t.stderr
    t.looked_at.add("stderr")
    t.printed("o0/n.count:\n10\n\no1/n.count:\n10\n\nnoroute.count:\n10")


@case
def fastclick_nat(t: Replay) -> None:
    lan = [IP(src="10.0.0.1", dst="9.9.9.9", id=n) / UDP(sport=1000 + n, dport=53) / b"?" for n in range(3)]
    lan.append(IP(src="10.0.0.1", dst="9.9.9.9", id=9) / TCP(sport=1000, dport=25, flags="S"))
    stray = IP(src="9.9.9.9", dst="203.0.113.1", id=20) / UDP(sport=53, dport=60000)
    t.pcap("lan.pcap", [(0.0, octets(plain(A, B, packet))) for packet in lan])
    t.pcap("wan.pcap", [(0.0, octets(plain(A, B, stray)))])
    t.run_ports("$(ge $(ctr.add count) 5)", f"lan={port(0, ['lan.pcap'], 'lan.out')}", f"wan={port(1, ['wan.pcap'], 'wan.out')}",
                "-h", "nat.size", "-h", "a.count", "-h", "b.count")
    t.sent("wan", *(plain("02:00:00:00:00:aa", "02:00:00:00:00:bb", IP(src="203.0.113.1", dst="9.9.9.9", id=n)
                          / UDP(sport=1024 + n, dport=53) / b"?") for n in range(3)))
    t.sent("lan")
    t.printed("nat.size:\n3\n\na.count:\n4\n\nb.count:\n1")
