"""What the benchmarks share: the binary, the machine's description, random routes and frames."""

import os
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def valiant_binary():
    """VALIANT, else the release binary, else the one built for tests."""
    if os.environ.get("VALIANT"):
        return os.environ["VALIANT"]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for profile in ("release", "quick"):
        path = target / profile / "valiant"
        if path.exists():
            return str(path)
    sys.exit("no valiant binary: run `make build`, or set VALIANT")


def machine():
    """Processor, count, kernel and hugepages in a line."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    huge = sum(int(p.read_text()) for p in pathlib.Path("/sys/kernel/mm/hugepages").glob("*/nr_hugepages"))
    return f"{os.cpu_count()} x {model}, Linux {os.uname().release}, {huge} hugepages"


# How often a prefix length occurs in a backbone table, roughly: more than half are /24.
LENGTHS = {8: 1, 12: 1, 14: 1, 16: 15, 18: 8, 19: 15, 20: 40, 21: 40, 22: 90, 23: 70, 24: 700, 26: 2, 28: 2, 32: 5}


def random_routes(count, rng, outputs):
    """So many different routes, a default route first, with eight gateways behind each output."""
    lines = ["0.0.0.0/0 10.255.0.1 0"]
    seen = {(0, 0)}
    lengths, weights = list(LENGTHS), list(LENGTHS.values())
    while len(lines) < count:
        length = rng.choices(lengths, weights)[0]
        address = rng.getrandbits(32) >> (32 - length) << (32 - length)
        if (address, length) in seen:
            continue
        seen.add((address, length))
        out = rng.randrange(outputs)
        dotted = ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))
        lines.append(f"{dotted}/{length} 10.255.{out}.{rng.randrange(1, 9)} {out}")
    return lines


def checksum(data):
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_frame(destination, size=60):
    """An Ethernet frame of UDP from 10.9.9.9 to `destination` (a 32-bit number), `size` bytes without the CRC."""
    length = size - 14
    header = bytearray(struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0, 64, 17, 0, 0x0A090909, destination))
    header[10:12] = struct.pack(">H", checksum(bytes(header)))
    udp = struct.pack(">HHHH", 1000, 2000, length - 20, 0)
    return (b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + bytes(header) + udp).ljust(size, b"\0")


def write_pcap(path, frames):
    """Writes frames into a pcap file."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
