"""Frames that a hostile host sends, and the process that sends them: attackers.py KIND DEV MAC RATE SECONDS."""

import itertools
import os
import pathlib
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator

sys.dont_write_bytecode = True
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))

from packets import checksum

IPV4, ARP, TCP, UDP, ICMP = 0x0800, 0x0806, 6, 17, 1
MORE, DONT = 0x2000, 0x4000


def mac_bytes(text: str) -> bytes:
    return bytes(int(part, 16) for part in text.split(":"))


def address(text: str) -> bytes:
    return socket.inet_aton(text)


def ether(dst: bytes, src: bytes, kind: int, payload: bytes) -> bytes:
    return (dst + src + struct.pack(">H", kind) + payload).ljust(60, b"\0")


def ip(src: str, dst: str, proto: int, payload: bytes, ttl: int = 64, number: int = 0, flags: int = 0, offset: int = 0,
       options: bytes = b"", length: int | None = None) -> bytes:
    """A packet whose header checksum is right, whatever else is not."""
    words = 5 + len(options) // 4
    total = 4 * words + len(payload) if length is None else length
    header = struct.pack(">BBHHHBBH", 0x40 | words, 0, total & 0xffff, number & 0xffff, flags | offset // 8, ttl, proto, 0)
    header += address(src) + address(dst) + options
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + payload


def udp(sport: int, dport: int, size: int) -> bytes:
    return struct.pack(">HHHH", sport, dport, 8 + size, 0) + bytes(size)


def echo(size: int) -> bytes:
    body = struct.pack(">BBHHH", 8, 0, 0, 1, 1) + bytes(size)
    return body[:2] + struct.pack(">H", checksum(body)) + body[4:]


def arp(op: int, sha: bytes, spa: str, tha: bytes, tpa: str) -> bytes:
    return struct.pack(">HHBBH", 1, 0x0800, 6, 4, op) + sha + address(spa) + tha + address(tpa)


class Frames:
    """What one attacker sends. The victims' own addresses (.2) are never claimed: ARP has no defense against that."""

    def __init__(self, router: bytes, me: bytes, side: int, rng: random.Random):
        self.router, self.me, self.rng = router, me, rng
        self.here, self.there = f"10.0.{side}", f"10.0.{3 - side}"

    def mac(self) -> bytes:
        return bytes([2, 6, *self.rng.randbytes(4)])

    def to_router(self, payload: bytes) -> bytes:
        return ether(self.router, self.me, IPV4, payload)

    def host(self, net: str) -> str:
        return f"{net}.{self.rng.randrange(3, 255)}"

    def arp_flood(self) -> Iterator[bytes]:
        """Requests from everybody, answers that nobody asked for, and what only looks like ARP."""
        rng, everybody = self.rng, b"\xff" * 6
        for _ in range(600):
            sha, spa = self.mac(), self.host(self.here)
            yield ether(everybody, sha, ARP, arp(1, sha, spa, bytes(6), f"{self.here}.1"))
            yield ether(self.router, sha, ARP, arp(2, sha, spa, self.router, f"{self.here}.1"))
            yield ether(everybody, sha, ARP, arp(1, sha, spa, bytes(6), spa))
            yield ether(self.router, sha, ARP, arp(2, sha, f"{rng.randrange(1, 224)}.1.2.3", self.router, f"{self.here}.1"))
            yield ether(self.router, sha, ARP, arp(rng.randrange(65536), rng.randbytes(6), spa, bytes(6), spa))
            yield ether(self.router, sha, ARP, rng.randbytes(rng.randrange(0, 46)))

    def dead_neighbors(self) -> Iterator[bytes]:
        """Packets to hosts that are not there: many, and many to the same one."""
        for i in range(2000):
            dst = f"{self.there}.250" if i % 2 else self.host(self.there)
            yield self.to_router(ip(f"{self.here}.2", dst, UDP, udp(1, 9, self.rng.randrange(200)), number=i))

    def fragments(self) -> Iterator[bytes]:
        """To the router itself and through it: never whole, tiny, overlapping, contradicting, beyond the end, to be cut."""
        rng = self.rng
        for i in range(500):
            for dst in (f"{self.here}.1", f"{self.there}.2"):
                def piece(offset: int, size: int, flags: int, number: int = i, proto: int = UDP, dst: str = dst) -> bytes:
                    return self.to_router(ip(f"{self.here}.2", dst, proto, rng.randbytes(size), number=number, flags=flags, offset=offset))
                shape = i % 10
                if shape == 0:
                    yield piece(0, 64, MORE)
                elif shape == 1:
                    yield piece(8 * rng.randrange(8192), 8, MORE)
                elif shape == 2:
                    yield from (piece(0, 64, MORE), piece(32, 64, 0))
                elif shape == 3:
                    yield from (piece(0, 64, MORE), piece(64, 64, 0), piece(128, 64, 0))
                elif shape == 4:
                    yield from (piece(64984, 1152, 0), piece(65528, 1200, 0), piece(65512, 24, MORE))
                elif shape == 5:
                    yield from (piece(0, 8, MORE, proto=TCP), piece(8, 16, 0, proto=TCP))
                elif shape == 6:
                    yield from (piece(0, 1400, MORE), piece(1400, 1400, 0))
                elif shape == 7:
                    yield from (piece(0, 64, MORE), piece(0, 64, MORE), piece(64, 8, 0))
                elif shape == 8:
                    yield piece(0, rng.randrange(1, 8), MORE)
                else:
                    yield from (piece(8 * n, 8, MORE if n < 31 else 0) for n in range(32))
            yield self.to_router(ip(f"{self.here}.2", f"{self.there}.2", UDP, udp(1, 9, 1450), number=i))

    def icmp_provoking(self) -> Iterator[bytes]:
        """Whatever asks for an ICMP error or an answer."""
        rng, me = self.rng, f"{self.here}.2"
        for _ in range(300):
            there, router = f"{self.there}.2", f"{self.here}.1"
            yield self.to_router(ip(me, there, UDP, udp(1, 9, 20), ttl=1))
            yield self.to_router(ip(me, "203.0.113.7", UDP, udp(1, 9, 20)))
            yield self.to_router(ip(me, router, UDP, udp(1, 9, 20)))
            yield self.to_router(ip(me, router, rng.randrange(140, 250), bytes(20)))
            yield self.to_router(ip(me, there, UDP, udp(1, 9, 1400), flags=DONT))
            yield self.to_router(ip(me, there, UDP, udp(1, 9, 8), options=bytes([7, 3, 9, 1])))
            yield self.to_router(ip(me, there, UDP, udp(1, 9, 8), options=rng.randbytes(4 * rng.randrange(1, 11))))
            yield self.to_router(ip(me, f"{self.here}.77", UDP, udp(1, 9, 8)))
            yield self.to_router(ip(me, router, ICMP, echo(2 * rng.randrange(700))))
            yield self.to_router(ip(f"{self.there}.{rng.randrange(1, 255)}", "203.0.113.7", ICMP, echo(8), ttl=1))
            yield self.to_router(ip(self.host("198.51.100"), there, TCP, rng.randbytes(20), ttl=1))
            yield self.to_router(ip(me, there, UDP, udp(1, 9, 8), length=rng.randrange(0, 65536)))
            yield self.to_router(rng.randbytes(rng.randrange(0, 60)))

    def hoard(self) -> Iterator[bytes]:
        """What the router holds back, as many as it has room for."""
        for i in range(200):
            yield self.to_router(ip(f"{self.here}.2", f"10.0.3.{i}", UDP, udp(1, 9, i)))

    def usual(self) -> Iterator[bytes]:
        """Traffic like everybody's."""
        for i in range(200):
            yield self.to_router(ip(f"{self.here}.2", f"{self.there}.2", UDP, udp(1000 + i, 9, 18)))


KINDS = ("arp_flood", "dead_neighbors", "fragments", "icmp_provoking", "hoard", "usual")


def main(kind: str, dev: str, router: str, rate: str, seconds: str) -> None:
    """Sends frames of a kind at a rate."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.bind((dev, 0))
    me = mac_bytes((pathlib.Path("/sys/class/net") / dev / "address").read_text().strip())
    side = int(os.environ.get("SIDE", "1"))
    frames = list(Frames(mac_bytes(router), me, side, random.Random(f"{kind}{side}")).__getattribute__(kind)())
    began, sent = time.monotonic(), 0
    for frame in itertools.cycle(frames):
        try:
            sock.send(frame[:1514])
        except OSError:
            # The device's queue is full.
            time.sleep(0.001)
        sent += 1
        if sent % 64 == 0:
            now = time.monotonic() - began
            if now >= float(seconds):
                break
            if sent > now * float(rate):
                time.sleep(sent / float(rate) - now)
    print(sent)


if __name__ == "__main__":
    main(*sys.argv[1:])
