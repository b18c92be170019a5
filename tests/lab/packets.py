"""Frames, files of frames, and routes to send them along."""

import os
import pathlib
import random
import struct
from collections.abc import Iterable, Iterator

# How often a prefix length occurs in a backbone table, roughly: more than half are /24.
LENGTHS = {8: 1, 12: 1, 14: 1, 16: 15, 18: 8, 19: 15, 20: 40, 21: 40, 22: 90, 23: 70, 24: 700, 26: 2, 28: 2, 32: 5}

# The same of the networks that have routes of their own inside the allocations of a backbone's IPv6 table, which have /29 to /32.
LENGTHS6 = {33: 1, 34: 2, 36: 5, 38: 1, 40: 11, 42: 2, 44: 14, 45: 1, 46: 5, 47: 2, 48: 56}
ALLOCATIONS6 = {29: 20, 32: 80}


def random_routes(count: int, rng: random.Random, outputs: int) -> list[str]:
    """This many different routes, a default route first, with eight gateways behind each output."""
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


def random_networks6(count: int, rng: random.Random) -> list[tuple[int, int]]:
    """This many different IPv6 networks, as address and length: a fifth are allocations, the others are inside these."""
    def some(weights: dict[int, int]) -> int:
        return rng.choices(list(weights), list(weights.values()))[0]

    def below(base: int, length: int, wanted: int) -> tuple[int, int]:
        return base | rng.getrandbits(wanted - length) << (128 - wanted), wanted

    # Those of the five registries: 2001::/16, 2400::/12, 2600::/12, 2a00::/12, 2800::/12.
    registries = [(0x2001 << 112, 16), *((top << 112, 12) for top in (0x2400, 0x2600, 0x2A00, 0x2800))]
    allocations: dict[tuple[int, int], None] = {}
    while len(allocations) < max(count // 5, 1):
        allocations[below(*rng.choice(registries), some(ALLOCATIONS6))] = None
    chosen = list(allocations)
    networks = dict(allocations)
    while len(networks) < count:
        networks[below(*rng.choice(chosen), some(LENGTHS6))] = None
    return list(networks)


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_frame(destination: int, size: int = 60) -> bytes:
    """An Ethernet frame of UDP from 10.9.9.9 to `destination` (a 32-bit number), `size` bytes without the CRC."""
    length = size - 14
    header = bytearray(struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0, 64, 17, 0, 0x0A090909, destination))
    header[10:12] = struct.pack(">H", checksum(bytes(header)))
    udp = struct.pack(">HHHH", 1000, 2000, length - 20, 0)
    return (b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + bytes(header) + udp).ljust(size, b"\0")


def udp6_frame(destination: int, size: int = 62) -> bytes:
    """An Ethernet frame of UDP over IPv6 to `destination` (a 128-bit number), `size` bytes without the CRC."""
    source = 0x20010DB8 << 96 | 9
    length = size - 54
    addresses = source.to_bytes(16, "big") + destination.to_bytes(16, "big")
    payload = bytes(length - 8)
    udp = struct.pack(">HHH", 1000, 2000, length)
    total = addresses + struct.pack(">II", length, 17) + udp + b"\0\0" + payload
    udp += struct.pack(">H", checksum(total + bytes(len(total) % 2)) or 0xFFFF)
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x86\xdd" + struct.pack(">IHBB", 6 << 28, length, 17, 64) + addresses + udp + payload


def numbered_udp_frame(destination: int, number: int = 0, ttl: int = 64) -> bytes:
    """A 60-byte Ethernet frame of UDP from 10.9.9.9 to `destination` (a 32-bit number), with a number as payload."""
    addresses = struct.pack(">II", 0x0A090909, destination)
    header = struct.pack(">BBHHHBBH", 0x45, 0, 46, 0, 0, ttl, 17, 0) + addresses
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    payload = struct.pack(">HHHHI", 1000, 2000, 26, 0, number)
    return (b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + header + payload).ljust(60, b"\0")


def write_pcap(path: str | os.PathLike[str], frames: Iterable[bytes]) -> None:
    """Writes frames into a pcap file."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def frames_of(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The frames of a pcap file."""
    data = pathlib.Path(path).read_bytes()
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length
