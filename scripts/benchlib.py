"""What the benchmarks share: finding the binary, the header of data files, and ESP packets."""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from lab import ROOT
from packets import checksum


def valiant_binary() -> str:
    """VALIANT, else the release binary, else the one built for tests."""
    if os.environ.get("VALIANT"):
        return os.environ["VALIANT"]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for profile in ("release", "quick"):
        path = target / profile / "valiant"
        if path.exists():
            return str(path)
    sys.exit("no valiant binary: run `make build`, or set VALIANT")


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """For argparse: a positive number of this kind."""

    def convert(text: str) -> float:
        number = kind(text)
        if not 0 < number < float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is not a positive number")
        return number

    convert.__name__ = kind.__name__
    return convert


def machine() -> str:
    """The machine in a line: processor, number of cores, kernel and hugepages."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    huge = sum(int(p.read_text()) for p in pathlib.Path("/sys/kernel/mm/hugepages").glob("*/nr_hugepages"))
    return f"{os.cpu_count()} x {model}, Linux {os.uname().release.split('-')[0]}, {huge} hugepages"


def comes_first(pid: int) -> None:
    """Where Linux divides the time by sessions first (autogroup), a nice value says nothing to other sessions: gives it to the session."""
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{pid}/autogroup").write_text(str(os.nice(0)))


def processors_apart(workers: dict[str, int]) -> dict[str, list[str]]:
    """Options of `valiant run` for programs that run side by side, with so many workers each: a core for each worker, and one is left for
    the rest. Where there are fewer cores, none: the programs share the processors."""
    cores: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text() if siblings.exists() else str(cpu), cpu)
    free = list(cores.values())[1:]
    if sum(workers.values()) > len(free):
        return {name: [] for name in workers}
    return {name: ["--cpus", ",".join(str(free.pop(0)) for _ in range(number))] for name, number in workers.items()}


def now() -> datetime.datetime:
    """The present time (UTC), for `about`."""
    return datetime.datetime.now(datetime.UTC)


def command_line() -> str:
    """The command line of this benchmark."""
    return " ".join([f"scripts/{pathlib.Path(sys.argv[0]).name}", *sys.argv[1:]])


def about(began: datetime.datetime, **more: Any) -> dict[str, Any]:
    """The header of every data file: when the run began (UTC), its command, its machine."""
    return {"date": began.isoformat(timespec="seconds"), "command": command_line(), "machine": machine(), **more}


def write_data(path: str | os.PathLike[str], data: object) -> None:
    """Writes a data file."""
    pathlib.Path(path).write_text(json.dumps(data, indent=1) + "\n")


def draw(chart: dict[str, Any]) -> str:
    """Curves as SVG: title, axes and curves as `valiant chart` takes them (bin/valiant/src/chart.rs)."""
    return subprocess.run([valiant_binary(), "chart"], input=json.dumps(chart), capture_output=True, text=True, check=True).stdout


def internal_frame(node: int, frame: bytes) -> bytes:
    """A frame on its way through a cluster: from node 0, for `node`, in its first phase; port 0, next hop 9."""
    return struct.pack(">BBBBH", 0xC2, 0x10 | node >> 8, node & 0xFF, 0, 9) + b"\xc6\0\0\0\0\0" + frame[12:]


# Security associations of the benchmarks: an SPI, a tunnel, and keys that are no secret.
SPI, TUNNEL = 500, ("172.16.1.5", "172.16.2.5")
CIPHER_KEY, SALT, AUTH_KEY = bytes(range(16)), b"\xca\xfe\xba\xbe", bytes(range(20))


def esp_sealer(algorithm: str) -> Callable[[int, bytes], bytes]:
    """Function from (sequence number, IP packet) to an ESP packet of the benchmarks' association (RFC 4303, tunnel mode).

    `gcm` is RFC 4106 with AES-128, `cbc` RFC 3602 with AES-128 and HMAC-SHA1-96."""
    from cryptography.hazmat.primitives import hashes, hmac
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    aead, block = AESGCM(CIPHER_KEY), {"gcm": 4, "cbc": 16}[algorithm]

    def seal(number: int, packet: bytes) -> bytes:
        head = struct.pack(">II", SPI, number)
        pad = -(len(packet) + 2) % block
        plain = packet + bytes(range(1, pad + 1)) + bytes([pad, 4])
        if algorithm == "gcm":
            vector = struct.pack(">Q", number)
            return head + vector + aead.encrypt(SALT + vector, plain, head)
        vector = struct.pack(">QQ", number, number)
        cipher = Cipher(algorithms.AES(CIPHER_KEY), modes.CBC(vector)).encryptor()
        body = head + vector + cipher.update(plain) + cipher.finalize()
        mac = hmac.HMAC(AUTH_KEY, hashes.SHA1())
        mac.update(body)
        return body + mac.finalize()[:12]

    return seal


def esp_frame(seal: Callable[[int, bytes], bytes], number: int, frame: bytes) -> bytes:
    """An Ethernet frame of IP in the tunnel, from a plain one."""
    (length,) = struct.unpack_from(">H", frame, 16)
    inner = seal(number, frame[14:14 + length])
    ends = b"".join(bytes(map(int, end.split("."))) for end in TUNNEL)
    header = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 0, 0, 64, 50, 0) + ends)
    header[10:12] = struct.pack(">H", checksum(bytes(header)))
    return frame[:14] + bytes(header) + inner


def sad_line(algorithm: str, direction: str) -> str:
    """The association as a line for IPsecSAD."""
    keys = (CIPHER_KEY + SALT).hex() if algorithm == "gcm" else f"{CIPHER_KEY.hex()} {AUTH_KEY.hex()}"
    name = "aes-gcm" if algorithm == "gcm" else "aes-cbc-hmac-sha1"
    return f"{direction} {SPI} {' '.join(TUNNEL)} {name} {keys}" + (" window 0" if direction == "in" else "") + "\n"


def secgw_lines(algorithm: str) -> str:
    """The association for ipsec-secgw, which wants one for each direction."""
    def colons(key: bytes) -> str:
        return ":".join(f"{byte:02x}" for byte in key)
    keys = (f"aead_algo aes-128-gcm aead_key {colons(CIPHER_KEY + SALT)}" if algorithm == "gcm" else
            f"cipher_algo aes-128-cbc cipher_key {colons(CIPHER_KEY)} auth_algo sha1-hmac auth_key {colons(AUTH_KEY)}")
    lines = []
    for direction in ("in", "out"):
        lines += [f"sp ipv4 {direction} esp protect {SPI} pri 1 dst 0.0.0.0/0 sport 0:65535 dport 0:65535",
                  f"sa {direction} {SPI} {keys} mode ipv4-tunnel src {TUNNEL[0]} dst {TUNNEL[1]}"]
    lines += ["rt ipv4 dst 0.0.0.0/1 port 1", "rt ipv4 dst 128.0.0.0/1 port 1", "neigh port 1 02:00:00:00:00:03"]
    return "\n".join(lines) + "\n"
