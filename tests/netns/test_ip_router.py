"""The IP router of the Click paper's form, every path of it, with 2, 4 and 8 interfaces."""

import random
import re
from collections.abc import Callable
from typing import Any

from scapy.layers.inet import IPOption

from harness import ARP, BROADCAST, ICMP, IP, UDP, Ether, Raw, RouterNet, Wire, case, check, equal, ping, raw, right_checksums

SIZES = (2, 4, 8)


def routers(function: Callable[[RouterNet], None]) -> Callable[[RouterNet], None]:
    return case(RouterNet, *SIZES)(function)


# --- forwarding ----------------------------------------------------------------------------------------------------------


@routers
def every_host_reaches_every_host_and_router_address(net: RouterNet) -> None:
    for i, host in enumerate(net.hosts):
        for j in range(net.n):
            check(ping(host, f"10.0.{j + 1}.2"), f"h{i + 1} to h{j + 1}")
            check(ping(host, f"10.0.{j + 1}.1"), f"h{i + 1} to the router's address on cable {j + 1}")


@routers
def traceroute_names_the_router(net: RouterNet) -> None:
    out = net.hosts[0].sh("traceroute", "-n", "-q", "1", "-w", "1", f"10.0.{net.n}.2")
    equal(re.findall(r"^ *\d+ +(\S+)", out, re.M), ["10.0.1.1", f"10.0.{net.n}.2"], "hops")


@routers
def forwarding_takes_one_hop_and_keeps_the_rest(net: RouterNet) -> None:
    stack, a, b = net.open()
    payload = bytes(range(256)) * 3
    with stack:
        a.send(net.ether() / net.ip(id=4711, ttl=7, tos=0xb8) / UDP(sport=1234, dport=9999) / payload)
        got = b.expect("the packet", lambda f: IP in f and f[IP].id == 4711)
    equal((got[IP].ttl, got[IP].tos, got[IP].src, got[IP].dst), (6, 0xb8, "10.0.1.2", net.b_ip), "header")
    equal((got.src, got.dst), (net.mac(net.n - 1), net.b_mac), "Ethernet addresses")
    equal(raw(got[UDP].payload)[:len(payload)], payload, "payload")
    right_checksums(got)


@routers
def a_short_packet_loses_its_ethernet_padding_or_keeps_zeros(net: RouterNet) -> None:
    stack, a, b = net.open()
    with stack:
        a.send(raw(net.ether() / net.ip(id=4712) / UDP(sport=1, dport=9999) / b"x") + b"\xee" * 17)
        got = b.expect("the packet", lambda f: IP in f and f[IP].id == 4712)
    equal(got[IP].len, 29, "total length")
    check(b"\xee" not in raw(got)[42:], "padding of the incoming frame was sent on")


@routers
def order_within_a_flow_is_kept(net: RouterNet) -> None:
    stack, a, b = net.open()
    with stack:
        for i in range(200):
            a.send(raw(net.ether() / net.ip(id=1000 + i) / UDP(sport=5, dport=9999) / Raw(bytes(50))))
        got = []
        for frame in b.frames(1):
            if UDP in frame and frame[UDP].sport == 5 and frame[IP].src == "10.0.1.2":
                got.append(frame[IP].id)
                if len(got) == 200:
                    break
    equal(got, list(range(1000, 1200)), "identifications in order of arrival")


# --- TTL -------------------------------------------------------------------------------------------------------------------


@routers
def ttl_one_is_answered_with_time_exceeded(net: RouterNet) -> None:
    packet = net.ip(ttl=1, id=5001) / UDP(sport=4321, dport=9999) / b"some payload"
    got = net.icmp(net.ether() / packet, 11, 0)
    quoted = raw(got[ICMP].payload)
    sent = raw(packet)
    equal(quoted[:28], sent[:28], "quoted header and first eight bytes")


@routers
def ttl_two_is_forwarded_with_one(net: RouterNet) -> None:
    stack, a, b = net.open()
    with stack:
        a.send(net.ether() / net.ip(ttl=2, id=5002) / UDP(dport=9999))
        equal(b.expect("the packet", lambda f: IP in f and f[IP].id == 5002)[IP].ttl, 1, "TTL")


@routers
def ttl_zero_is_not_forwarded(net: RouterNet) -> None:
    net.not_forwarded(lambda n: n.ether() / n.ip(ttl=0) / UDP(dport=9999))


# --- unreachable -------------------------------------------------------------------------------------------------------------


@routers
def no_route_is_answered_with_net_unreachable(net: RouterNet) -> None:
    net.icmp(net.ether() / IP(src="10.0.1.2", dst="192.0.2.1") / UDP(dport=9999), 3, 0)


@routers
def a_port_of_the_router_is_answered_with_port_unreachable(net: RouterNet) -> None:
    net.icmp(net.ether() / IP(src="10.0.1.2", dst="10.0.1.1") / UDP(dport=9999), 3, 3)


@routers
def an_unknown_protocol_to_the_router_is_answered_with_protocol_unreachable(net: RouterNet) -> None:
    net.icmp(net.ether() / IP(src="10.0.1.2", dst="10.0.1.1", proto=99) / b"12345678", 3, 2)


# --- MTU ----------------------------------------------------------------------------------------------------------------------


@routers
def too_big_with_df_is_answered_with_the_mtu_of_the_next_hop(net: RouterNet) -> None:
    got = net.icmp(net.ether() / net.ip(flags="DF", id=5003) / UDP(dport=9999) / bytes(1200), 3, 4)
    equal(got[ICMP].nexthopmtu, net.small_mtu, "next-hop MTU")


@routers
def exactly_the_mtu_with_df_is_forwarded(net: RouterNet) -> None:
    stack, a, b = net.open()
    with stack:
        a.send(net.ether() / net.ip(flags="DF", id=5004) / UDP(dport=9999) / bytes(net.small_mtu - 28))
        equal(b.expect("the packet", lambda f: IP in f and f[IP].id == 5004)[IP].len, net.small_mtu, "length")


def fragments(net: RouterNet, packet: Any, ident: int) -> list[Any]:
    """Send a packet and collect its fragments until they are complete."""
    stack, a, b = net.open()
    got = []
    with stack:
        a.send(net.ether() / packet)
        for frame in b.frames(2):
            if IP in frame and frame[IP].id == ident and frame[IP].src == "10.0.1.2":
                got.append(frame)
                ends = [f[IP].frag * 8 + f[IP].len - f[IP].ihl * 4 for f in got if not f[IP].flags.MF]
                have = sum(f[IP].len - f[IP].ihl * 4 for f in got)
                if ends and have >= max(ends) - min(f[IP].frag for f in got) * 8:
                    break
                if packet.flags.MF and have >= len(raw(packet)) - packet.ihl * 4:
                    break
    check(got, "nothing arrived")
    return got


@routers
def too_big_without_df_is_fragmented(net: RouterNet) -> None:
    payload = random.Random(1).randbytes(1400)
    packet = IP(raw(net.ip(id=5005) / UDP(sport=7, dport=9999) / payload))
    got = fragments(net, packet, 5005)
    check(len(got) == 2, f"{len(got)} fragments")
    whole = bytearray(len(raw(packet)) - 20)
    for f in got:
        check(f[IP].len <= net.small_mtu, f"a fragment of {f[IP].len} bytes")
        right_checksums_ip(f)
        body = raw(f[IP])[f[IP].ihl * 4:f[IP].len]
        whole[f[IP].frag * 8:f[IP].frag * 8 + len(body)] = body
        equal(f[IP].ttl, 63, "TTL of a fragment")
    equal(bytes(whole), raw(packet)[20:], "what the fragments carry")
    equal([bool(f[IP].flags.MF) for f in sorted(got, key=lambda f: f[IP].frag)], [True, False], "more-fragments bits")


@routers
def a_fragment_is_fragmented_again(net: RouterNet) -> None:
    packet = IP(raw(net.ip(id=5006, frag=100, flags="MF") / Raw(random.Random(2).randbytes(1400))))
    got = sorted(fragments(net, packet, 5006), key=lambda f: f[IP].frag)
    equal(got[0][IP].frag, 100, "first offset")
    check(all(f[IP].flags.MF for f in got), "a fragment from the middle of a packet must keep its more-fragments bit")
    equal(sum(f[IP].len - 20 for f in got), 1400, "bytes carried")


@routers
def options_that_are_not_copied_appear_in_the_first_fragment_only(net: RouterNet) -> None:
    # Record route (7) is not copied on fragmentation, security (130, RFC 791) is.
    options = [IPOption(b"\x07\x07\x04\x00\x00\x00\x00"), IPOption(b"\x82\x0b" + bytes(9))]
    packet = IP(raw(net.ip(id=5007, options=options) / UDP(dport=9999) / bytes(1400)))
    got = sorted(fragments(net, packet, 5007), key=lambda f: f[IP].frag)
    check(len(got) >= 2, "not fragmented")
    first, later = (raw(f[IP])[20:f[IP].ihl * 4] for f in got[:2])
    check(b"\x07\x07" in first and b"\x82\x0b" in first, f"options of the first fragment: {first.hex()}")
    check(b"\x07\x07" not in later and b"\x82\x0b" in later, f"options of a later fragment: {later.hex()}")


def right_checksums_ip(frame: Any) -> None:
    again = IP(raw(frame[IP])[:frame[IP].ihl * 4])
    again.len, again.frag, again.flags = frame[IP].len, frame[IP].frag, frame[IP].flags
    del again.chksum
    equal(frame[IP].chksum, IP(raw(again)).chksum, "IP checksum")


@routers
def a_large_ping_through_the_small_mtu(net: RouterNet) -> None:
    out = net.hosts[0].sh("ping", "-c", "1", "-W", "2", "-M", "dont", "-s", "3000", f"10.0.{net.n}.2", check=False)
    check("3008 bytes from" in out, out)


# --- redirect -------------------------------------------------------------------------------------------------------------------


@routers
def leaving_by_the_way_in_gives_a_redirect_and_is_forwarded(net: RouterNet) -> None:
    stack, a, _ = net.open()
    mac = "02:00:00:00:aa:50"
    with stack:
        a.answers["10.0.1.50"] = mac
        a.send(net.ether() / IP(src="10.0.1.2", dst="10.0.1.50", id=5010) / UDP(dport=9999))
        redirect = forwarded = None
        for frame in a.frames(3):
            if ICMP in frame and frame[ICMP].type == 5:
                redirect = frame
            elif IP in frame and frame[IP].id == 5010 and frame.dst == mac:
                forwarded = frame
            if redirect and forwarded:
                break
    assert redirect is not None, "no redirect came"
    check(forwarded, "the packet was not forwarded")
    equal((redirect[ICMP].code, redirect[ICMP].gw, redirect[IP].src), (1, "10.0.1.50", "10.0.1.1"), "redirect")
    right_checksums(redirect)


# --- what must be dropped --------------------------------------------------------------------------------------------------------


@routers
def wrong_checksums_are_dropped(net: RouterNet) -> None:
    net.not_forwarded(lambda n: n.ether() / n.ip(chksum=0x1234) / UDP(dport=9999))


@routers
def malformed_headers_are_dropped(net: RouterNet) -> None:
    def header(**changes: Any) -> bytes:
        packet = bytearray(raw(net.ip() / UDP(dport=9999) / bytes(40)))
        for at, value in changes.items():
            packet[int(at[1:])] = value
        packet[10:12] = b"\0\0"
        n = max(4, min(packet[0] & 15, 15)) * 4
        total = sum(int.from_bytes(packet[i:i + 2], "big") for i in range(0, n, 2))
        while total >> 16:
            total = (total & 0xffff) + (total >> 16)
        packet[10:12] = (~total & 0xffff).to_bytes(2, "big")
        return raw(net.ether())[:12] + b"\x08\x00" + bytes(packet)

    net.not_forwarded(
        header(_0=0x65),          # version 6
        header(_0=0x44),          # header length 16
        header(_0=0x40),          # header length 0
        header(_2=0, _3=19),      # total length below the header's
        header(_2=0, _3=200),     # total length beyond the frame
        header(_2=0xff, _3=0xff),
        header(_0=0x4f)[:50],     # header length beyond the frame
    )


@routers
def bad_sources_are_dropped(net: RouterNet) -> None:
    for source in ("255.255.255.255", "0.0.0.0", "127.0.0.1", "10.0.1.255", f"10.0.{net.n}.255"):
        net.not_forwarded(lambda n, s=source: n.ether() / n.ip(src=s) / UDP(dport=9999))


@routers
def link_broadcasts_are_not_forwarded(net: RouterNet) -> None:
    net.not_forwarded(lambda n: n.ether(dst=BROADCAST) / n.ip() / UDP(dport=9999),
                      lambda n: n.ether(dst="01:00:5e:00:00:05") / n.ip() / UDP(dport=9999))


@routers
def broadcast_and_multicast_destinations_are_not_forwarded(net: RouterNet) -> None:
    net.not_forwarded(*(net.ether() / net.ip(dst=d) / UDP(dport=9999)
                        for d in (f"10.0.{net.n}.255", f"10.0.{net.n}.0", "255.255.255.255", "224.0.0.5", "127.0.0.1",
                                  "240.0.0.1", "0.0.0.0")))


@routers
def frames_for_another_station_are_not_forwarded(net: RouterNet) -> None:
    net.not_forwarded(lambda n: n.ether(dst="02:de:ad:be:ef:01") / n.ip() / UDP(dport=9999))


@routers
def other_protocols_are_not_forwarded(net: RouterNet) -> None:
    net.not_forwarded(lambda n: n.ether(type=0x86dd) / Raw(bytes(60)), lambda n: n.ether(type=0x8847) / Raw(bytes(60)))


# --- what no error may answer (RFC 1812 section 4.3.2.7) ------------------------------------------------------------------------


@routers
def errors_are_not_answered_with_errors(net: RouterNet) -> None:
    inner = IP(src=f"10.0.{net.n}.2", dst="10.0.1.2") / UDP(dport=1)
    net.no_icmp(net.ether() / net.ip(ttl=1) / ICMP(type=3, code=3) / raw(inner),
                net.ether() / net.ip(ttl=1) / ICMP(type=11, code=0) / raw(inner))


@routers
def later_fragments_and_broadcasts_are_not_answered_with_errors(net: RouterNet) -> None:
    net.no_icmp(net.ether() / net.ip(ttl=1, frag=10) / Raw(bytes(64)),
                net.ether(dst=BROADCAST) / net.ip(ttl=1) / UDP(dport=9999))


# --- options -------------------------------------------------------------------------------------------------------------------


@routers
def record_route_gets_the_address_of_the_way_out(net: RouterNet) -> None:
    stack, a, b = net.open()
    option = IPOption(b"\x07\x0b\x04" + bytes(8) + b"\x00")
    with stack:
        a.send(net.ether() / net.ip(id=5020, options=[option]) / UDP(dport=9999))
        got = b.expect("the packet", lambda f: IP in f and f[IP].id == 5020)
    options = raw(got[IP])[20:got[IP].ihl * 4]
    equal(options[:11].hex(), "070b08" + bytes([10, 0, net.n, 1]).hex() + "00000000", "record-route option")
    right_checksums(got)


@routers
def timestamp_gets_address_and_time(net: RouterNet) -> None:
    stack, a, b = net.open()
    option = IPOption(b"\x44\x0c\x05\x01" + bytes(8))
    with stack:
        a.send(net.ether() / net.ip(id=5021, options=[option]) / UDP(dport=9999))
        got = b.expect("the packet", lambda f: IP in f and f[IP].id == 5021)
    options = raw(got[IP])[20:got[IP].ihl * 4]
    equal(options[2], 13, "pointer")
    equal(options[4:8], bytes([10, 0, net.n, 1]), "address")
    check(any(options[8:12]), "no time in the timestamp option")
    right_checksums(got)


@routers
def a_full_timestamp_option_counts_the_overflow(net: RouterNet) -> None:
    stack, a, b = net.open()
    option = IPOption(b"\x44\x08\x09\x00" + bytes(4))
    with stack:
        a.send(net.ether() / net.ip(id=5022, options=[option]) / UDP(dport=9999))
        got = b.expect("the packet", lambda f: IP in f and f[IP].id == 5022)
    equal(raw(got[IP])[23], 0x10, "overflow counter and flag")


@routers
def a_broken_option_is_answered_with_parameter_problem(net: RouterNet) -> None:
    # The option says it is longer than the header has room for.
    option = Raw(b"\x07\x27\x04\x00")
    got = net.icmp(net.ether() / net.ip(options=[option]) / UDP(dport=9999), 12, 0)
    check(got[ICMP].ptr in (20, 21), f"pointer {got[ICMP].ptr}")


@routers
def a_source_route_through_the_router_is_not_followed(net: RouterNet) -> None:
    # Loose source route, addressed to the router, next stop the last host: RFC 1812 lets a router refuse it.
    last = bytes([10, 0, net.n, 2])
    net.not_forwarded(lambda n: n.ether() / IP(src="10.0.1.2", dst="10.0.1.1",
                                               options=[IPOption(b"\x83\x07\x04" + last + b"\x00")]) / UDP(dport=9999))


# --- the router's own addresses ---------------------------------------------------------------------------------------------------


@routers
def echo_replies_carry_what_was_sent(net: RouterNet) -> None:
    for ttl in (64, 1):
        with Wire(net.hosts[0]) as a:
            a.send(net.ether() / net.ip(dst="10.0.1.1", ttl=ttl) / ICMP(id=7, seq=ttl) / b"payload of the ping")
            got = a.expect(f"the answer to TTL {ttl}", lambda f, t=ttl: ICMP in f and f[ICMP].type == 0 and f[ICMP].seq == t)
        equal((got[IP].src, got[IP].dst), ("10.0.1.1", "10.0.1.2"), "addresses")
        check(b"payload of the ping" in raw(got), "payload")
        right_checksums(got)


@routers
def no_address_but_its_own_is_answered(net: RouterNet) -> None:
    net.no_icmp(net.ether() / net.ip(dst="10.0.1.255") / ICMP(id=1),
                net.ether(dst=BROADCAST) / net.ip(dst="255.255.255.255") / ICMP(id=2))


# --- ARP -----------------------------------------------------------------------------------------------------------------------


@routers
def arp_requests_for_the_router_are_answered(net: RouterNet) -> None:
    stack, a, _ = net.open()
    with stack:
        a.send(Ether(src=a.mac, dst=BROADCAST) / ARP(op=1, hwsrc=a.mac, psrc="10.0.1.2", pdst="10.0.1.1"))
        got = a.expect("the reply", lambda f: ARP in f and f[ARP].op == 2)
    equal((got[ARP].hwsrc, got[ARP].psrc, got[ARP].hwdst, got[ARP].pdst), (net.mac(0), "10.0.1.1", a.mac, "10.0.1.2"),
          "reply")
    equal(got.dst, a.mac, "sent to")


@routers
def arp_requests_for_others_are_not_answered(net: RouterNet) -> None:
    stack, a, _ = net.open()
    with stack:
        for wanted in ("10.0.1.77", f"10.0.{net.n}.1", "10.0.1.2"):
            a.send(Ether(src=a.mac, dst=BROADCAST) / ARP(op=1, hwsrc=a.mac, psrc="10.0.1.2", pdst=wanted))
        a.send(Ether(src=a.mac, dst=BROADCAST) / ARP(op=1, hwsrc=a.mac, psrc="10.0.1.2", pdst="10.0.1.1"))
        got = a.expect("a reply", lambda f: ARP in f and f[ARP].op == 2)
    equal(got[ARP].psrc, "10.0.1.1", "the first address answered for")


@routers
def packets_wait_for_arp_and_are_then_sent(net: RouterNet) -> None:
    stack, a, b = net.open()
    target, mac = f"10.0.{net.n}.60", "02:00:00:00:bb:60"
    with stack:
        a.send(net.ether() / net.ip(dst=target, id=5030) / UDP(dport=9999))
        query = b.expect("the router's question", lambda f: ARP in f and f[ARP].op == 1 and f[ARP].pdst == target)
        equal((query.dst, query[ARP].hwsrc, query[ARP].psrc), (BROADCAST, net.mac(net.n - 1), f"10.0.{net.n}.1"), "question")
        b.send(Ether(src=mac, dst=query.src) / ARP(op=2, hwsrc=mac, psrc=target, hwdst=query[ARP].hwsrc,
                                                   pdst=query[ARP].psrc))
        got = b.expect("the packet that waited", lambda f: IP in f and f[IP].id == 5030)
        equal(got.dst, mac, "sent to")
        # A station that moves says so; what follows goes to its new address.
        new = "02:00:00:00:bb:61"
        b.send(Ether(src=new, dst=query.src) / ARP(op=2, hwsrc=new, psrc=target, hwdst=query[ARP].hwsrc,
                                                   pdst=query[ARP].psrc))
        b.send(net.ether(src=b.mac, dst=net.mac(net.n - 1)) / IP(src=net.b_ip, dst=f"10.0.{net.n}.1") / ICMP(id=3))
        b.expect("the answer after the reply", lambda f: ICMP in f and f[ICMP].type == 0)
        a.send(net.ether() / net.ip(dst=target, id=5031) / UDP(dport=9999))
        equal(b.expect("the next packet", lambda f: IP in f and f[IP].id == 5031).dst, new, "sent to")


@routers
def nonsense_in_arp_is_ignored(net: RouterNet) -> None:
    stack, a, _ = net.open()
    with stack:
        good = raw(Ether(src=a.mac, dst=BROADCAST) / ARP(op=1, hwsrc=a.mac, psrc="10.0.1.2", pdst="10.0.1.1"))
        for cut in range(14, len(good)):
            a.send(good[:cut])
        for at in range(14, 22):
            for value in (0, 0xff):
                a.send(good[:at] + bytes([value]) + good[at + 1:])
    check(ping(net.hosts[0], "10.0.1.1"), "the router answers afterwards")


# --- bad input -----------------------------------------------------------------------------------------------------------------


@routers
def frames_cut_at_every_length_do_no_harm(net: RouterNet) -> None:
    stack, a, _ = net.open()
    whole = raw(net.ether() / net.ip(ttl=1, options=[IPOption(b"\x07\x0b\x04" + bytes(8) + b"\x00")]) / UDP(dport=9) / bytes(64))
    with stack:
        for cut in range(14, len(whole)):
            a.send(whole[:cut])
    check(ping(net.hosts[0], net.b_ip), "the router forwards afterwards")


@routers
def random_frames_do_no_harm(net: RouterNet) -> None:
    rng = random.Random(net.n)
    stack, a, _ = net.open()
    good = raw(net.ether() / net.ip(options=[IPOption(b"\x44\x0c\x05\x01" + bytes(8))]) / UDP(dport=9) / bytes(200))
    with stack:
        for _ in range(3000):
            frame = bytearray(good if rng.random() < 0.7 else raw(net.ether()) + rng.randbytes(rng.randrange(0, 1400)))
            if len(frame) > 14:
                for _ in range(rng.randrange(0, 5)):
                    frame[rng.randrange(14, min(60, len(frame)))] = rng.randrange(256)
            a.send(bytes(frame))
    check(ping(net.hosts[0], net.b_ip) or ping(net.hosts[0], net.b_ip), "the router forwards afterwards")


@routers
def frames_of_the_largest_size_do_no_harm(net: RouterNet) -> None:
    stack, a, _ = net.open()
    with stack:
        for size in (1472, 1400, 1000):
            a.send(net.ether() / net.ip(dst="10.0.1.1") / ICMP(id=size) / bytes(size))
    check(ping(net.hosts[0], net.b_ip), "the router forwards afterwards")
