"""Frames, files of frames, and routes to send them along."""

import os
import pathlib
import random
import struct
from collections.abc import Iterable, Iterator

# How often a prefix length occurs in a backbone table, roughly: more than half are /24.
LENGTHS = {8: 1, 12: 1, 14: 1, 16: 15, 18: 8, 19: 15, 20: 40, 21: 40, 22: 90, 23: 70, 24: 700, 26: 2, 28: 2, 32: 5}


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
