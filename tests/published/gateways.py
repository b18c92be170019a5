"""NAT gateways and load balancers."""

from scapy.all import ARP, ICMP, IP, TCP, UDP, Ether, IPerror, Packet, Raw, UDPerror

from replay import Replay, case

BROADCAST = "ff:ff:ff:ff:ff:ff"


def asks(mac: str, ip: str, target: str) -> Packet:
    """An ARP request."""
    return Ether(src=mac, dst=BROADCAST) / ARP(op=1, hwsrc=mac, psrc=ip, hwdst="00:00:00:00:00:00", pdst=target)


def tells(mac: str, ip: str, to_mac: str, to_ip: str) -> Packet:
    """An ARP reply."""
    return Ether(src=mac, dst=to_mac) / ARP(op=2, hwsrc=mac, psrc=ip, hwdst=to_mac, pdst=to_ip)


def plain(src: str, dst: str, packet: Packet) -> Packet:
    """An IP packet in an Ethernet frame."""
    return Ether(src=src, dst=dst) / packet


@case
def home_nat(t: Replay) -> None:
    ext, inn, router, host = "00:50:ba:85:84:a9", "00:50:ba:85:84:b1", "02:00:00:00:00:01", "02:00:00:00:00:05"
    t.receive("eth0", asks(router, "203.0.113.1", "203.0.113.7"), asks(router, "203.0.113.1", "203.0.113.8"))
    t.receive("eth1", asks(host, "192.168.1.5", "192.168.1.1"))
    # Both next hops are asked for; the packets that wait are sent when the answers come.
    query = IP(src="192.168.1.5", dst="8.8.8.8", id=1) / UDP(sport=5353, dport=53) / b"who is it"
    t.receive("eth1", plain(host, inn, query))
    t.receive("eth0", tells(router, "203.0.113.1", ext, "203.0.113.7"))
    answer = IP(src="8.8.8.8", dst="203.0.113.7", id=2, ttl=50) / UDP(sport=53, dport=1024) / b"it is me"
    t.receive("eth0", plain(router, ext, answer))
    t.receive("eth1", tells(host, "192.168.1.5", inn, "192.168.1.1"))
    t.receive("eth1", plain(host, inn, IP(src="192.168.1.5", dst="9.9.9.9", id=3) / TCP(sport=40000, dport=443, seq=7)))
    t.receive("eth1", plain(host, inn, IP(src="192.168.1.5", dst="9.9.9.9", id=4) / ICMP(id=77, seq=1) / b"ping"))
    t.receive("eth0", plain(router, ext, IP(src="9.9.9.9", dst="203.0.113.7", id=5) / ICMP(type=0, id=0, seq=1) / b"ping"))
    # An error about the query, from a router on the way; one that nobody knows; a packet that belongs to no flow.
    about = IPerror(src="203.0.113.7", dst="8.8.8.8", id=1, ttl=1) / UDPerror(sport=1024, dport=53, len=17, chksum=0x1234)
    t.receive("eth0", plain(router, ext, IP(src="203.0.113.99", dst="203.0.113.7", id=6) / ICMP(type=11) / about))
    t.receive("eth0", plain(router, ext, IP(src="9.9.9.9", dst="203.0.113.7", id=7) / TCP(sport=443, dport=999, flags="A")))
    # The gateway itself answers pings on both sides.
    t.receive("eth1", plain(host, inn, IP(src="192.168.1.5", dst="192.168.1.1", id=8) / ICMP(id=5, seq=2) / b"you?"))
    t.receive("eth0", plain(router, ext, IP(src="9.9.9.9", dst="203.0.113.7", id=9) / ICMP(id=6, seq=3) / b"and you?"))
    t.run()
    # The ports of the pattern are taken in turn, for both protocols together.
    t.sent(
        "eth0",
        tells(ext, "203.0.113.7", router, "203.0.113.1"),
        asks(ext, "203.0.113.7", "203.0.113.1"),
        plain(ext, router, IP(src="203.0.113.7", dst="8.8.8.8", id=1) / UDP(sport=1024, dport=53) / b"who is it"),
        plain(ext, router, IP(src="203.0.113.7", dst="9.9.9.9", id=3) / TCP(sport=1025, dport=443, seq=7)),
        plain(ext, router, IP(src="203.0.113.7", dst="9.9.9.9", id=4) / ICMP(id=0, seq=1) / b"ping"),
        plain(ext, router, IP(src="203.0.113.7", dst="9.9.9.9", id=9, ttl=255) / ICMP(type=0, id=6, seq=3) / b"and you?"),
    )
    # The UDP checksum in the error is the sender's again, by as much as the addresses and ports changed.
    own = IPerror(src="192.168.1.5", dst="8.8.8.8", id=1, ttl=1) / UDPerror(
        sport=5353, dport=53, len=17, chksum=adjusted(0x1234, (0xCB00, 0x7107, 1024), (0xC0A8, 0x0105, 5353)))
    t.sent(
        "eth1",
        tells(inn, "192.168.1.1", host, "192.168.1.5"),
        asks(inn, "192.168.1.1", "192.168.1.5"),
        plain(inn, host, IP(src="8.8.8.8", dst="192.168.1.5", id=2, ttl=50) / UDP(sport=53, dport=5353) / b"it is me"),
        plain(inn, host, IP(src="9.9.9.9", dst="192.168.1.5", id=5) / ICMP(type=0, id=77, seq=1) / b"ping"),
        plain(inn, host, IP(src="203.0.113.99", dst="192.168.1.5", id=6) / ICMP(type=11) / own),
        plain(inn, host, IP(src="192.168.1.1", dst="192.168.1.5", id=8, ttl=255) / ICMP(type=0, id=5, seq=2) / b"you?"),
    )


def adjusted(checksum: int, old: tuple[int, ...], new: tuple[int, ...]) -> int:
    """A checksum after words have changed (RFC 1624)."""
    total = (~checksum & 0xFFFF) + sum(~word & 0xFFFF for word in old) + sum(new)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@case
def port_forwarding(t: Replay) -> None:
    router, out = "02:00:00:00:00:fe", "198.51.100.2"

    def outside(packet: Packet) -> None:
        t.receive("wan0", plain(router, "02:00:00:00:00:01", packet))

    def inside(packet: Packet) -> None:
        t.receive("lan0", plain("02:00:00:00:00:99", "02:00:00:00:00:02", packet))

    outside(IP(src="203.0.113.5", dst=out, id=1) / TCP(sport=3333, dport=80, flags="S", seq=1))
    inside(IP(src="10.10.0.80", dst="203.0.113.5", id=2) / TCP(sport=8080, dport=3333, flags="SA", seq=9, ack=2))
    outside(IP(src="203.0.113.6", dst=out, id=3) / TCP(sport=4444, dport=2222, flags="S"))
    inside(IP(src="10.10.0.7", dst="203.0.113.7", id=4) / UDP(sport=5000, dport=123) / b"time")
    outside(IP(src="203.0.113.7", dst=out, id=5) / UDP(sport=123, dport=50000) / b"noon")
    # Nothing for these.
    outside(IP(src="203.0.113.7", dst=out, id=6) / UDP(sport=124, dport=50000) / b"no")
    outside(IP(src="203.0.113.7", dst="198.51.100.3", id=7) / UDP(sport=1, dport=1) / b"not here")
    inside(IP(src="10.99.0.7", dst="203.0.113.7", id=8) / UDP(sport=5000, dport=123) / b"spoofed")
    t.run("-h", "stray.count")
    wan, lan = "02:00:00:00:00:01", "02:00:00:00:00:02"
    t.sent(
        "lan0",
        plain(lan, "02:00:00:00:00:80", IP(src="203.0.113.5", dst="10.10.0.80", id=1) / TCP(sport=3333, dport=8080, flags="S", seq=1)),
        plain(lan, "02:00:00:00:00:22", IP(src="203.0.113.6", dst="10.10.0.22", id=3) / TCP(sport=4444, dport=22, flags="S")),
        plain(lan, "02:00:00:00:00:33", IP(src="203.0.113.7", dst="10.10.0.7", id=5) / UDP(sport=123, dport=5000) / b"noon"),
    )
    t.sent(
        "wan0",
        plain(wan, router, IP(src=out, dst="203.0.113.5", id=2) / TCP(sport=80, dport=3333, flags="SA", seq=9, ack=2)),
        plain(wan, router, IP(src=out, dst="203.0.113.7", id=4) / UDP(sport=50000, dport=123) / b"time"),
    )
    t.printed("1")


@case
def one_to_one_nat(t: Replay) -> None:
    def inside(packet: Packet) -> None:
        t.receive("eth1", plain("02:00:00:00:00:b1", "02:00:00:00:00:a1", packet))

    def outside(packet: Packet) -> None:
        t.receive("eth0", plain("02:00:00:00:00:b0", "02:00:00:00:00:a0", packet))

    inside(IP(src="192.168.0.5", dst="9.9.9.9", id=1) / ICMP(id=1, seq=1) / b"one")
    inside(IP(src="192.168.0.6", dst="9.9.9.9", id=2, proto=47) / Raw(b"\0\0\x08\0any protocol"))
    inside(IP(src="192.168.0.5", dst="8.8.8.8", id=3) / UDP(sport=9, dport=9) / b"same address")
    # Anybody outside reaches the host by its address.
    outside(IP(src="1.2.3.4", dst="198.51.100.10", id=4) / TCP(sport=1, dport=22, flags="S"))
    outside(IP(src="1.2.3.4", dst="198.51.100.12", id=5) / TCP(sport=1, dport=22, flags="S"))
    inside(IP(src="192.168.0.7", dst="9.9.9.9", id=6, ttl=1) / UDP(sport=1, dport=1))
    inside(IP(src="192.168.0.255", dst="9.9.9.9", id=7) / UDP(sport=1, dport=1))
    t.run("-h", "nat.size")
    assert t.stderr.strip().endswith("IP header check failed: bad source address"), t.stderr
    t.looked_at.add("stderr")

    def leaves(packet: Packet) -> Packet:
        return plain("02:00:00:00:00:a0", "02:00:00:00:00:b0", packet)

    t.sent(
        "eth0",
        leaves(IP(src="198.51.100.10", dst="9.9.9.9", id=1, ttl=63) / ICMP(id=1, seq=1) / b"one"),
        leaves(IP(src="198.51.100.11", dst="9.9.9.9", id=2, ttl=63, proto=47) / Raw(b"\0\0\x08\0any protocol")),
        leaves(IP(src="198.51.100.10", dst="8.8.8.8", id=3, ttl=63) / UDP(sport=9, dport=9) / b"same address"),
    )
    back = IP(src="1.2.3.4", dst="192.168.0.5", id=4, ttl=63) / TCP(sport=1, dport=22, flags="S")
    t.sent("eth1", plain("02:00:00:00:00:a1", "02:00:00:00:00:b1", back))
    t.printed("3")


@case
def nat_address_pool(t: Replay) -> None:
    customers = ["100.64.0.1", "100.64.0.2", "100.64.0.3", "100.64.0.4", "100.64.0.5", "100.64.0.6"]
    for dport in (53, 54):
        for customer in customers:
            packet = IP(src=customer, dst="8.8.8.8") / UDP(sport=7000, dport=dport) / customer.encode()
            t.receive("eth2", plain("02:00:00:00:02:02", "02:00:00:00:02:01", packet))
    t.receive("eth2", plain("02:00:00:00:02:02", "02:00:00:00:02:01", IP(src="10.0.0.1", dst="8.8.8.8") / UDP(sport=7000, dport=5)))
    t.run("-h", "cgn.size")
    sent = [frame for _, frame in t.out("eth3.out")]
    assert len(sent) == 12, f"{len(sent)} frames"
    address_of: dict[bytes, set[str]] = {}
    flows = set()
    for frame in sent:
        packet = Ether(frame)
        address_of.setdefault(bytes(packet[UDP].payload), set()).add(packet[IP].src)
        flows.add((packet[IP].src, packet[UDP].sport, packet[UDP].dport))
        # All but the new address and port is as it was.
        again = Ether(src="02:00:00:00:03:01", dst="02:00:00:00:03:02") / IP(src=packet[IP].src, dst="8.8.8.8") / UDP(
            sport=packet[UDP].sport, dport=packet[UDP].dport) / bytes(packet[UDP].payload)
        assert bytes(again) == frame, f"{frame.hex()}\n{bytes(again).hex()}"
    assert set(address_of) == {customer.encode() for customer in customers}, address_of
    assert all(len(addresses) == 1 for addresses in address_of.values()), f"a customer has two addresses: {address_of}"
    used = set().union(*address_of.values())
    assert len(used) > 1 and used <= {f"203.0.113.{n}" for n in (1, 2, 3, 4)}, used
    assert len(flows) == 12, "two flows look the same from outside"
    t.printed("12")


@case
def transparent_proxy(t: Replay) -> None:
    client, server = "02:00:00:00:00:05", "02:00:00:00:00:06"
    arp = asks(client, "10.0.0.5", "10.0.0.1")
    other = plain(client, server, IP(src="10.0.0.5", dst="9.9.9.9", id=1) / TCP(sport=1000, dport=443))
    back = plain(server, client, IP(src="9.9.9.9", dst="10.0.0.5", id=2) / TCP(sport=443, dport=1000))
    t.receive("eth0", arp, other)
    t.receive("eth1", back)
    t.receive("eth0", plain(client, server, IP(src="10.0.0.5", dst="9.9.9.9", id=3) / TCP(sport=1001, dport=80, flags="S")))
    reply = IP(src="10.0.0.128", dst="10.0.0.5", id=4) / TCP(sport=3128, dport=1001, flags="SA", seq=5, ack=1)
    own = IP(src="10.0.0.128", dst="9.9.9.9", id=5) / TCP(sport=6000, dport=80, flags="S")
    t.receive("eth2", plain("02:00:00:00:09:02", "02:00:00:00:09:01", reply), plain("02:00:00:00:09:02", "02:00:00:00:09:01", own))
    t.run()
    t.sent("eth1", arp, other, plain("02:00:00:00:09:03", "02:00:00:00:09:04", own))
    to_proxy = IP(src="10.0.0.5", dst="10.0.0.128", id=3) / TCP(sport=1001, dport=3128, flags="S")
    t.sent("eth2", plain("02:00:00:00:09:01", "02:00:00:00:09:02", to_proxy))
    to_client = IP(src="9.9.9.9", dst="10.0.0.5", id=4) / TCP(sport=80, dport=1001, flags="SA", seq=5, ack=1)
    t.sent("eth0", back, plain("02:00:00:00:09:05", "02:00:00:00:09:06", to_client))


@case
def round_robin_balancer(t: Replay) -> None:
    vip, self_mac, gateway = "00:00:5e:00:53:01", "00:00:5e:00:53:02", "00:00:5e:00:53:ff"
    macs = {n: f"02:00:00:00:01:{n}" for n in (11, 12, 13)}
    t.receive("eth0", asks(gateway, "192.0.2.254", "192.0.2.80"))
    for n in (11, 12, 13, 11):
        packet = IP(src="198.51.100.1", dst="192.0.2.80", id=n) / TCP(sport=1000 + len(t.inputs["eth0"]), dport=80, flags="S")
        t.receive("eth0", plain(gateway, vip, packet))
        t.receive("eth1", tells(macs[n], f"10.1.0.{n}", self_mac, "10.1.0.1"))
    # A packet of the second connection stays with its server, another port is not served.
    t.receive("eth0", plain(gateway, vip, IP(src="198.51.100.1", dst="192.0.2.80", id=99) / TCP(sport=1002, dport=80, flags="A")))
    t.receive("eth0", plain(gateway, vip, IP(src="198.51.100.1", dst="192.0.2.80", id=98) / TCP(sport=1002, dport=81, flags="S")))
    t.receive("eth1", plain(macs[12], self_mac, IP(src="10.1.0.12", dst="10.1.0.1", id=7) / TCP(sport=80, dport=20000, flags="SA")))
    t.run("-h", "accepted.count")

    def served(n: int, ident: int, sport: int, flags: str) -> Packet:
        return plain(self_mac, macs[n], IP(src="10.1.0.1", dst=f"10.1.0.{n}", id=ident) / TCP(sport=sport, dport=80, flags=flags))

    t.sent(
        "eth1",
        asks(self_mac, "10.1.0.1", "10.1.0.11"), served(11, 11, 20000, "S"),
        asks(self_mac, "10.1.0.1", "10.1.0.12"), served(12, 12, 20000, "S"),
        asks(self_mac, "10.1.0.1", "10.1.0.13"), served(13, 13, 20000, "S"),
        served(11, 11, 20001, "S"), served(12, 99, 20000, "A"),
    )
    reply = IP(src="192.0.2.80", dst="198.51.100.1", id=7) / TCP(sport=80, dport=1002, flags="SA")
    t.sent("eth0", tells(vip, "192.0.2.80", gateway, "192.0.2.254"), plain(vip, gateway, reply))
    t.printed("5")


@case
def direct_return_balancer(t: Replay) -> None:
    packets = [IP(src=f"198.51.100.{n}", dst="192.0.2.1", id=n) / TCP(sport=n, dport=80) for n in range(7)]
    for packet in packets:
        t.receive("eth0", plain("02:00:00:00:00:01", "02:00:00:00:00:aa", packet))
    t.receive("eth0", plain("02:00:00:00:00:01", "02:00:00:00:00:aa", IP(src="198.51.100.9", dst="192.0.2.2") / TCP()))
    t.run()
    t.sent("eth0", *(plain("02:00:00:00:00:aa", f"02:00:00:00:01:0{n % 3}", packet) for n, packet in enumerate(packets)))
    t.printed("servers: 3 2 2")


@case
def twice_nat(t: Replay) -> None:
    def left(packet: Packet) -> None:
        t.receive("eth0", plain("02:00:00:00:00:04", "02:00:00:00:00:03", packet))

    left(IP(src="10.0.0.9", dst="172.16.1.25", id=1) / TCP(sport=2000, dport=25, flags="S"))
    left(IP(src="10.0.0.9", dst="172.16.1.53", id=2) / UDP(sport=2000, dport=53) / b"mx?")
    left(IP(src="10.0.0.9", dst="172.16.1.54", id=3) / TCP(sport=2000, dport=5432, flags="S"))
    refused = IP(src="10.0.0.9", dst="172.16.1.99", id=4) / UDP(sport=2000, dport=53)
    left(refused)
    reply = IP(src="10.0.0.53", dst="172.16.2.1", id=5) / UDP(sport=53, dport=1024) / b"mail"
    t.receive("eth1", plain("02:00:00:00:00:02", "02:00:00:00:00:01", reply))
    t.run()
    t.sent("eth1", *(plain("02:00:00:00:00:01", "02:00:00:00:00:02", packet) for packet in (
        IP(src="172.16.2.1", dst="10.0.0.25", id=1) / TCP(sport=1024, dport=25, flags="S"),
        IP(src="172.16.2.1", dst="10.0.0.53", id=2) / UDP(sport=1024, dport=53) / b"mx?",
        IP(src="172.16.2.1", dst="10.0.0.54", id=3) / TCP(sport=1024, dport=5432, flags="S"))))
    back = IP(src="172.16.1.53", dst="10.0.0.9", id=5) / UDP(sport=53, dport=2000) / b"mail"
    t.sent("eth0", plain("02:00:00:00:00:03", "02:00:00:00:00:04", back))
    text = bytes(refused)[:20].hex()
    t.printed(stderr="refused:   28 | " + " ".join(text[at:at + 8] for at in range(0, 40, 8)))


@case
def host_behind_nat(t: Replay) -> None:
    me, router = "02:00:00:00:00:33", "02:00:00:00:00:01"
    nothing = Ether(src="00:00:00:00:00:00", dst="00:00:00:00:00:00")
    t.receive("KernelTun", nothing / IP(src="10.99.0.1", dst="9.9.9.9", id=1) / UDP(sport=3000, dport=53) / b"name?")
    t.receive("eth0", tells(router, "198.51.100.1", me, "198.51.100.33"))
    t.receive("KernelTun", nothing / IP(src="10.99.0.1", dst="9.9.9.9", id=2) / ICMP(id=9, seq=1) / b"ping")
    t.receive("eth0", plain(router, me, IP(src="9.9.9.9", dst="198.51.100.33", id=3) / UDP(sport=53, dport=1024) / b"name"))
    t.receive("eth0", plain(router, me, IP(src="9.9.9.9", dst="198.51.100.33", id=4) / ICMP(type=0, id=0, seq=1) / b"ping"))
    t.receive("eth0", plain(router, me, IP(src="9.9.9.9", dst="198.51.100.33", id=5) / UDP(sport=54, dport=1024) / b"attack"))
    t.receive("eth0", asks(router, "198.51.100.1", "198.51.100.33"))
    t.run()
    t.sent(
        "eth0",
        asks(me, "198.51.100.33", "198.51.100.1"),
        plain(me, router, IP(src="198.51.100.33", dst="9.9.9.9", id=1) / UDP(sport=1024, dport=53) / b"name?"),
        plain(me, router, IP(src="198.51.100.33", dst="9.9.9.9", id=2) / ICMP(id=0, seq=1) / b"ping"),
        tells(me, "198.51.100.33", router, "198.51.100.1"),
    )
    t.sent("KernelTun", bytes(IP(src="9.9.9.9", dst="10.99.0.1", id=3) / UDP(sport=53, dport=3000) / b"name"),
           bytes(IP(src="9.9.9.9", dst="10.99.0.1", id=4) / ICMP(type=0, id=9, seq=1) / b"ping"))
    t.printed(stderr="""
        kernel: 10.99.0.1.3000 > 9.9.9.9.53: udp 13
        kernel: 10.99.0.1 > 9.9.9.9: icmp echo (9, 1)
        back: 9.9.9.9.53 > 10.99.0.1.3000: udp 12
        back: 9.9.9.9 > 10.99.0.1: icmp echo-reply (9, 1)""")


@case
def ftp_gateway(t: Replay) -> None:
    def client(packet: Packet) -> None:
        t.receive("eth1", plain("02:00:00:00:00:13", "02:00:00:00:00:12", packet))

    def server(packet: Packet) -> None:
        t.receive("eth0", plain("02:00:00:00:00:11", "02:00:00:00:00:10", packet))

    client(IP(src="10.0.0.2", dst="198.51.100.9", id=1) / TCP(sport=6587, dport=21, flags="S", seq=999))
    client(IP(src="10.0.0.2", dst="198.51.100.9", id=2) / TCP(sport=6587, dport=21, flags="PA", seq=1000, ack=50)
           / b"PORT 10,0,0,2,3,9\r\n")
    server(IP(src="198.51.100.9", dst="192.0.2.100", id=3) / TCP(sport=21, dport=1024, flags="PA", seq=50, ack=1022) / b"200 ok\r\n")
    server(IP(src="198.51.100.9", dst="192.0.2.100", id=4) / TCP(sport=20, dport=1025, flags="S", seq=7))
    t.run()
    t.sent("eth0", *(plain("02:00:00:00:00:10", "02:00:00:00:00:11", packet) for packet in (
        IP(src="192.0.2.100", dst="198.51.100.9", id=1) / TCP(sport=1024, dport=21, flags="S", seq=999),
        IP(src="192.0.2.100", dst="198.51.100.9", id=2) / TCP(sport=1024, dport=21, flags="PA", seq=1000, ack=50)
        / b"PORT 192,0,2,100,4,1\r\n")))
    # The server has acknowledged three bytes more than the client has sent.
    t.sent("eth1", *(plain("02:00:00:00:00:12", "02:00:00:00:00:13", packet) for packet in (
        IP(src="198.51.100.9", dst="10.0.0.2", id=3) / TCP(sport=21, dport=6587, flags="PA", seq=50, ack=1019) / b"200 ok\r\n",
        IP(src="198.51.100.9", dst="10.0.0.2", id=4) / TCP(sport=20, dport=777, flags="S", seq=7))))
