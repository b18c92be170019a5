"""RB4 in one process: the graphs of four nodes in one configuration, joined by links, and what flows through them.

The nodes are full ones (ClusterInfo, ClusterSwitch, ClusterEncap, ClusterDecap), each with a state of its own; what is missing
are the devices between them. So one processor can run them, and what a link is like is known."""

import math
import os
import random
import struct

from packets import checksum

NODES = 4


def network(port: int) -> str:
    """The network behind an external port."""
    return f"10.0.{port}.0/24"


def node(number: int, arguments: str) -> str:
    """A node's own elements: `cluster<i>` and `vlb<i>`."""
    return f"cluster{number} :: ClusterInfo(NODE {number}, NODES {NODES}, {arguments});\nvlb{number} :: ClusterSwitch(cluster{number});\n"


def pairs() -> list[tuple[int, int]]:
    """All (from, to)."""
    return [(i, j) for i in range(NODES) for j in range(NODES) if i != j]


class Trace:
    """Flows as hosts send them: of very different lengths, in bursts of one window, one for each round trip.

    Lengths are Pareto with shape 1.1 (3 to 3000 packets), windows 2 to 32 packets, access lines 1/200 to 1/20 of `rate`, round
    trips lognormal about 50 ms; two thirds of the flows carry full frames, the rest small ones. `packets` is a list of (time in
    seconds, flow, bytes), in order of time, about `bps` over `seconds`."""

    WARM = 2.0

    def __init__(self, rng: random.Random, seconds: float, bps: float, rate: float):
        self.seconds, self.rate = seconds, rate
        # Time, flow, bytes.
        self.packets: list[tuple[float, int, int]] = []
        left, flow = seconds * bps / 8, 0
        while left > 0:
            left -= self._flow(rng, flow)
            flow += 1
        self.flows = flow
        self.packets.sort()

    def _flow(self, rng: random.Random, flow: int) -> int:
        count = min(3000, 1 + math.ceil(rng.paretovariate(1.1)))
        size = 1514 if rng.random() < 2 / 3 else rng.randrange(60, 600)
        window, gap = rng.choice((2, 4, 8, 16, 32)), size * 8 / (rng.uniform(0.005, 0.05) * self.rate)
        pause = max(gap, rng.lognormvariate(math.log(0.05), 0.7) - window * gap)
        at, made = rng.uniform(-self.WARM, self.seconds), 0
        for number in range(1, count + 1):
            if at >= self.seconds:
                break
            if at >= 0:
                self.packets.append((at, flow, size))
                made += size
            at += gap if number % window else pause
        return made

    def bps(self) -> float:
        """The average rate of the trace, in bits per second."""
        return sum(size for _, _, size in self.packets) * 8 / self.seconds

    def gaps(self) -> list[float]:
        """The time between a packet and the one before it of its flow, sorted."""
        last: dict[int, float] = {}
        found = []
        for at, flow, _ in self.packets:
            if flow in last:
                found.append(at - last[flow])
            last[flow] = at
        return sorted(found)

    def write(self, path: str | os.PathLike[str], source: int, destination: int) -> None:
        """A capture file of UDP frames between two networks, with the tags of `valiant gen`: flow, number, no time yet."""
        numbers: dict[int, int] = {}
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for at, flow, size in self.packets:
                number = numbers[flow] = numbers.get(flow, -1) + 1
                frame = tagged_frame(source, destination, flow, number, size)
                stamp = 1_000_000_000_000_000 + round(at * 1e6)
                file.write(struct.pack("<IIII", *divmod(stamp, 1_000_000), size, size) + frame)


def tagged_frame(source: int, destination: int, flow: int, number: int, size: int) -> bytes:
    """Frame `number` of a flow, between hosts of the networks behind two ports."""
    addresses = struct.pack(">BBBBBBBB", 10, 0, source, 2 + flow % 250, 10, 0, destination, 2 + flow // 250 % 250)
    header = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, size - 14, 0, 0, 64, 17, 0) + addresses)
    header[10:12] = struct.pack(">H", checksum(bytes(header)))
    udp = struct.pack(">HHHH", 1024 + flow % 60000, 9, size - 34, 0)
    tag = b"VaM1" + struct.pack(">II", flow & 0xFFFFF, number) + bytes(6)
    return (b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + bytes(header) + udp + tag).ljust(size, b"\0")
