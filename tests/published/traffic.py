"""Shapers, queue management, monitors and generators."""

import struct

from scapy.all import IP, TCP, UDP, Ether, Packet

from gateways import asks, plain
from replay import Replay, Wrong, case, octets

A, B = "02:00:00:00:00:01", "02:00:00:00:00:02"


def numbered(number: int, size: int = 4, **fields: object) -> Packet:
    """A UDP packet with a number in it."""
    header = {"src": "10.0.0.1", "dst": "10.0.0.2", "id": number, **fields}
    return IP(**header) / UDP(sport=1000, dport=2000) / struct.pack(">I", number).ljust(size, b".")


@case
def priority_shaper(t: Replay) -> None:
    voice = [plain(A, B, numbered(n, tos=46 << 2)) for n in range(2)]
    ssh = [plain(A, B, IP(src="10.0.0.1", dst="10.0.0.2", id=n) / TCP(sport=5000, dport=22, seq=n)) for n in range(10, 12)]
    bulk = [plain(A, B, numbered(n)) for n in range(20, 50)]
    # All at once, the least important first.
    t.receive("eth1", *bulk, *ssh, *voice, asks(A, "10.0.0.1", "10.0.0.2"), at=0.1, every=0.0001)
    t.receive("eth0", bulk[0])
    t.run("-h", "cl/bulk.drops")
    frames = t.out("eth0.out")
    # What the shaper has saved up since the start is gone before anything more important comes. The queue of bulk traffic
    # holds five more.
    early = [frame for _, frame in frames].index(octets(voice[0]))
    assert 1 <= early <= 12, f"{early} packets before the first of voice"
    t.sent("eth0", *bulk[:early], *voice, *ssh, *bulk[early:early + 5])
    for (before, _), (after, _) in zip(frames[early:], frames[early + 1:]):
        assert 0.009 <= after - before <= 0.0111, f"a packet {after - before} s after another"
    t.sent("eth1", bulk[0])
    t.printed(str(30 - early - 5), "cl/bulk :: Queue: overflow")


@case
def policer(t: Replay) -> None:
    packets = [numbered(n) for n in range(10)]
    t.receive("eth0", *(plain(A, B, packet) for packet in packets), at=0.1, every=0.00001)
    # Half a second later the buckets have filled again, up to the bursts.
    later = [numbered(n) for n in range(20, 28)]
    t.receive("eth0", *(plain(A, B, packet) for packet in later), at=0.9, every=0.00001)
    t.run("-h", "conforming.count", "-h", "exceeding.count", "-h", "violating.count", seconds=1.5)

    def marked(number: int, dscp: int) -> Packet:
        return plain("02:00:00:00:00:01", "02:00:00:00:00:02", numbered(number, tos=dscp << 2))

    t.sent("eth1", *(marked(n, 10) for n in range(4)), *(marked(n, 12) for n in (4, 5)),
           *(marked(n, 10) for n in range(20, 24)), *(marked(n, 12) for n in (24, 25)))
    t.printed("conforming.count:\n8\n\nexceeding.count:\n4\n\nviolating.count:\n6")


@case
def red_gateway(t: Replay) -> None:
    # Every second packet is ECN-capable. Beyond a queue of six everything is marked or dropped.
    packets = [numbered(n, tos=2 if n % 2 else 0) for n in range(40)]
    t.receive("eth0", *(plain(B, A, packet) for packet in packets), at=0.1, every=0.001)
    t.run("-h", "in.count", "-h", "marked.count", "-h", "dropped.count", "-h", "q.drops", seconds=10)
    counts = dict(part.split(":\n") for part in t.stdout.strip().split("\n\n"))
    t.looked_at.add("stdout")
    frames = [Ether(frame) for _, frame in t.out("eth1.out")]
    assert counts["in.count"] == "40" and counts["q.drops"] == "0", counts
    assert len(frames) == 40 - int(counts["dropped.count"]), counts
    assert sum(frame[IP].tos == 3 for frame in frames) == int(counts["marked.count"]), counts
    # All ECN-capable packets arrive, in order; of the others those of the beginning.
    numbers = [frame[IP].id for frame in frames]
    assert numbers == sorted(numbers) and set(range(1, 40, 2)) <= set(numbers), numbers
    assert numbers[:3] == [0, 1, 2] and int(counts["dropped.count"]) >= 10 and int(counts["marked.count"]) >= 10, (numbers, counts)
    for frame in frames:
        number = frame[IP].id
        want = plain(A, B, numbered(number, tos=frame[IP].tos))
        assert frame[IP].tos in ((0,) if number % 2 == 0 else (2, 3)) and octets(want) == bytes(frame), frame.show(dump=True)


@case
def codel_uplink(t: Replay) -> None:
    # 80 kbit/s are a hundred packets of 100 bytes a second; for three seconds twice as many come.
    frames = [octets(plain(A, B, numbered(n, 58))) for n in range(600)]
    assert len(frames[0]) == 100
    t.receive("eth0", *frames, at=0.1, every=0.005)
    t.run("-h", "codel.drops", "-h", "q.drops", "-h", "q.length", seconds=12)
    counts = dict(part.split(":\n") for part in t.stdout.strip().split("\n\n"))
    t.looked_at.add("stdout")
    out = t.out("eth1.out")
    assert counts["q.drops"] == counts["q.length"] == "0", counts
    assert len(out) + int(counts["codel.drops"]) == 600 and int(counts["codel.drops"]) > 20, counts
    # What arrives is a part of what was sent, unchanged and in order.
    rest = iter(frames)
    for _, frame in out:
        if frame not in rest:
            raise Wrong(f"not sent, or out of order: {frame.hex()}")
    # 200 packets a second in, 100 out: a plain queue would make the last packets wait for three seconds.
    assert max(when for when, _ in out) < 5.5, out[-1][0]
    for when, _ in out:
        within = sum(when <= other < when + 1 for other, _ in out)
        assert within <= 112, f"{within} packets in the second after {when}"


@case
def fair_queue(t: Replay) -> None:
    greedy = [plain(A, B, numbered(n, 800, src="10.0.0.4")) for n in range(20)]
    modest = [plain(A, B, numbered(n, 100, src="10.0.0.5")) for n in range(30, 36)]
    t.receive("eth0", *greedy, *modest, at=0.1, every=0.0001)
    t.run(seconds=4)
    frames = [frame for _, frame in t.out("eth1.out")]
    # While both have packets, the modest host's six small packets are gone within the first rounds of 1000 bytes.
    sources = ["modest" if frame in [octets(m) for m in modest] else "greedy" for frame in frames]
    assert sorted(frames) == sorted(octets(frame) for frame in greedy + modest), f"{len(frames)} frames"
    assert sources.count("modest") == 6 and "modest" not in sources[9:], sources
    for kind in (greedy, modest):
        order = [octets(frame) for frame in kind]
        assert [frame for frame in frames if frame in order] == order, "out of order"


@case
def flow_meter(t: Replay) -> None:
    web = [IP(src="10.0.0.1", dst="10.0.0.2", id=n) / TCP(sport=4000, dport=80, flags=flags) / data
           for n, (flags, data) in enumerate((("S", b""), ("A", b""), ("PA", b"GET /")))]
    back = IP(src="10.0.0.2", dst="10.0.0.1", id=9) / TCP(sport=80, dport=4000, flags="SA")
    dns = IP(src="10.0.0.3", dst="10.0.0.2", id=20) / UDP(sport=5353, dport=53) / b"query"
    for packet in (web[0], back, web[1], dns, web[2], dns):
        t.receive("mon0", plain(A, B, packet))
    t.receive("mon0", asks(A, "10.0.0.1", "10.0.0.2"))
    t.run("-h", "report.run", "-h", "other.count")
    lines = [line for line in (t.path / "flows.dump").read_text().splitlines() if not line.startswith("!")]
    assert lines == [
        "1000000000.001000 1 10.0.0.1 4000 10.0.0.2 80 T 40",
        "1000000000.002000 1 10.0.0.2 80 10.0.0.1 4000 T 40",
        "1000000000.003000 1 10.0.0.1 4000 10.0.0.2 80 T 40",
        "1000000000.004000 2 10.0.0.3 5353 10.0.0.2 53 U 33",
        "1000000000.005000 1 10.0.0.1 4000 10.0.0.2 80 T 45",
        "1000000000.006000 2 10.0.0.3 5353 10.0.0.2 53 U 33"], lines
    t.printed("report.run:\n6 packets, 231 bytes, 2 flows\n\nother.count:\n1")


@case
def ddos_monitor(t: Replay) -> None:
    # Ten packets a second pass; a thousand a second do not.
    calm = [plain(A, B, numbered(n, dst="10.0.0.80")) for n in range(5)]
    attack = [plain(A, B, numbered(n, dst="10.0.0.80", src=f"192.0.2.{n % 200}")) for n in range(100, 500)]
    other = [plain(A, B, numbered(n, dst="10.0.0.81")) for n in range(600, 603)]
    t.receive("eth0", *calm, at=0.1, every=0.1)
    t.receive("eth0", *attack, at=1.0, every=0.001)
    t.receive("eth0", *other)
    t.run("-h", "total.count", "-h", "cut.count", seconds=2)
    assert t.stderr.strip().endswith("warning: no units for bandwidth argument 1, assuming Bps"), t.stderr
    t.looked_at.add("stderr")
    counts = dict(part.split(":\n") for part in t.stdout.strip().split("\n\n"))
    t.looked_at.add("stdout")
    frames = [frame for _, frame in t.out("eth1.out")]
    assert counts["total.count"] == "408", counts
    assert len(frames) == 408 - int(counts["cut.count"]), (len(frames), counts)
    assert frames[:5] == [octets(frame) for frame in calm] and frames[-3:] == [octets(frame) for frame in other]
    # The rate is an average: it takes some milliseconds until the attack is over the limit.
    assert 360 <= int(counts["cut.count"]) < 400, counts


@case
def udp_generator(t: Replay) -> None:
    t.run("-h", "sent.count", seconds=None)
    frames = t.out("eth0.out")
    want = []
    for number in range(20):
        payload = struct.pack("<Q", number) + b"generated by click"[8:]
        want.append(plain(A, B, IP(src="10.0.0.1", dst="10.0.0.2", id=number, ttl=250) / UDP(sport=7777, dport=9) / payload))
    t.sent("eth0", *want)
    # A burst of ten at once, since the bucket is full at the start; the others a millisecond apart.
    times = [when for when, _ in frames]
    assert 0.009 <= times[-1] - times[0] <= 0.02, times
    t.printed("20")


@case
def imix_generator(t: Replay) -> None:
    t.run(seconds=None)
    frames = [frame for _, frame in t.out("eth0.out")]
    sizes = {18: 1000, 528: 1001, 1458: 1002}
    count = dict.fromkeys(sizes, 0)
    for frame in frames:
        packet = Ether(frame)
        size = len(frame) - 42
        want = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02") / IP(
            src="198.18.0.1", dst="198.19.0.1", id=count[size], ttl=250) / UDP(sport=sizes[size], dport=9) / bytes(packet[UDP].payload)
        assert octets(want) == frame, packet.show(dump=True)
        count[size] += 1
    assert list(count.values()) in ([14, 8, 2], [13, 8, 2], [14, 7, 2], [14, 8, 1]), count


@case
def network_emulator(t: Replay) -> None:
    # 100 kbit/s are 12,500 bytes a second: a frame of 125 bytes takes 10 ms, and arrives 50 ms later.
    frames = [octets(plain(A, B, numbered(n, 83))) for n in range(10)]
    assert len(frames[0]) == 125
    t.receive("eth0", frames[0], at=0.1)
    t.receive("eth0", *frames[1:], at=0.3, every=0.0001)
    t.receive("eth1", frames[0], at=0.5)
    t.run("-h", "there/q.drops")
    out = t.out("eth1.out")
    t.sent("eth1", *frames[:7])
    assert abs(out[0][0] - 0.160) < 0.0015, out[0]
    for number, (when, _) in enumerate(out[1:]):
        assert abs(when - (0.360 + 0.010 * number)) < 0.003, (number, when)
    t.sent("eth0", frames[0])
    t.printed("3", "there/q :: Queue: overflow")
