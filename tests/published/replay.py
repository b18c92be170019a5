"""Runs a configuration as it is published, with files of frames in place of its devices.

The text of the configuration is not touched. In front of it stand compound elements with the names of the device classes:
where the configuration receives from eth0, frames come from a file at the times that the test gave them, in simulated time, and
what it sends on eth0 goes to a file. So a test needs neither root nor devices, and its outcome is the same every time. The
arguments of the device elements themselves are checked too: `valiant check` loads the untouched file.

DPDK ports are not replaced: their tests give the port variables net_pcap devices.
"""

import os
import pathlib
import re
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from scapy.all import Ether, Packet, raw

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "conf" / "published"
# Simulated time begins here, in seconds since the epoch.
BEGIN = 1_000_000_000
# A first frame of this type starts the clock of every device, so that all count their times from the same moment.
CLOCK = b"\0" * 12 + b"\xff\xfe"
# Longer than any of the runs takes on a busy machine.
LIMIT_S = 120

FRAMES = """
elementclass ReplayIn { $file | FromDump($file, TIMING true) -> clock :: Classifier(12/fffe, -); clock [0] -> Discard; clock [1] -> output }
elementclass ReplayOut { $file | input -> SetTimestamp -> ToDump($file, SNAPLEN 0) }
"""
# Each class of device, with any further arguments.
RECEIVER = 'elementclass %s { $device, __REST__ $rest | ReplayIn("${device}.in") -> output }\n'
SENDER = 'elementclass %s { $device, __REST__ $rest | input -> ReplayOut("${device}.out") }\n'
# An interface of the kernel: what the host sends, and what it gets. The packets have no Ethernet header.
BOTH = 'elementclass %s { __REST__ $rest | input -> ReplayOut("%s.out"); ReplayIn("%s.in") -> Strip(14) -> output }\n'

CASES: list[Callable[["Replay"], None]] = []


def case(function: Callable[["Replay"], None]) -> Callable[["Replay"], None]:
    """Registers a test of conf/published/NAME.click, where NAME is the function's with hyphens."""
    CASES.append(function)
    return function


def name_of(function: Callable[["Replay"], None]) -> str:
    """The name of the configuration that a test runs."""
    return function.__name__.replace("_", "-")


class Wrong(Exception):
    """What came out is not what must come out."""


def octets(frame: Any) -> bytes:
    """A frame's bytes, with all lengths and checksums filled in."""
    return frame if isinstance(frame, bytes) else raw(frame)


def shown(frame: bytes, ether: bool = True) -> str:
    """A frame in words and in bytes."""
    return f"{Ether(frame).summary() if ether else len(frame)}\n      {frame.hex()}"


def unpadded(frame: bytes, ether: bool = True) -> bytes:
    """A frame without zeros at its end if it is so short that somebody had to fill it up; a tag may have been added after that."""
    return frame.rstrip(b"\0") if ether and len(frame) <= 64 else frame


class Replay:
    """A configuration, what its devices receive, and what came of it."""

    def __init__(self, name: str, binary: str) -> None:
        self.file = PUBLISHED / f"{name}.click"
        self.binary = binary
        self.directory = tempfile.TemporaryDirectory(prefix="valiant-published-")
        self.path = pathlib.Path(self.directory.name)
        os.symlink(binary, self.path / "click")
        self.inputs: dict[str, list[tuple[float, bytes]]] = {}
        self.now_s = 0.0
        self.looked_at: set[str] = set()
        self.stdout = self.stderr = ""

    def receive(self, device: str, *frames: Packet | bytes, at: float | None = None, every: float = 0.001) -> None:
        """Frames arrive at a device, from `at` on, `every` so many seconds; without `at`, after all that came before."""
        if at is not None:
            self.now_s = at
        for frame in frames:
            if at is None:
                self.now_s += every
            self.inputs.setdefault(device, []).append((self.now_s, octets(frame)))
            if at is not None:
                self.now_s += every

    def write(self, name: str, text: str | bytes) -> None:
        """A file that the configuration finds in its directory."""
        (self.path / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    def pcap(self, name: str, frames: Sequence[tuple[float, bytes]]) -> None:
        """A file of frames with their times."""
        with open(self.path / name, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for at_s, frame in frames:
                ns = BEGIN * 10**9 + round(at_s * 1e9)
                file.write(struct.pack("<IIII", ns // 10**9, ns % 10**9 // 1000, len(frame), len(frame)) + frame)

    def valiant(self, command: str, *arguments: str) -> str:
        """What a command of `valiant` says about the file as it is."""
        words = [self.binary, command, str(self.file), *arguments]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT_S, cwd=self.path)
        if done.returncode:
            raise Wrong(f"valiant {command}: {done.stdout}{done.stderr}")
        return done.stdout

    def run(self, *arguments: str, seconds: float | None = 1.0, receivers: Sequence[str] = (), senders: Sequence[str] = ()) -> None:
        """Runs for so many seconds of simulated time; None: the configuration stops by itself."""
        text = FRAMES
        for name in ("FromDevice", *receivers):
            text += RECEIVER % name
        for name in ("ToDevice", *senders):
            text += SENDER % name
        source = self.file.read_text()
        flat = self.valiant("flatten", *(word for word in arguments if "=" in word and not word.startswith("-")))
        for name in ("KernelTun", "KernelTap", "FromHost", "ToHost"):
            if f"{name}(" in flat:
                text += BOTH % (name, name, name)
                self.inputs.setdefault(name, [])
        for name in ("FromDevice", *receivers):
            for device in re.findall(rf"\b{name}\(([^,)]+)", flat):
                self.inputs.setdefault(device, [])
        for device, frames in self.inputs.items():
            self.pcap(f"{device}.in", [(0.0, CLOCK), *frames])
        if seconds is not None:
            text += f"Script(TYPE ACTIVE, wait {seconds}s, stop);\n"
        self.write("replay.click", text + source)
        self.execute("--simtime", "replay.click", *arguments)

    def run_ports(self, until: str, *arguments: str, threads: int = 1) -> None:
        """Runs with DPDK ports, in real time, until a condition of Click's scripts holds; and a little longer, for what is too much."""
        text = f"Script(TYPE ACTIVE, label again, wait 5ms, goto again $(not {until}), wait 50ms, stop);\n"
        self.write("replay.click", text + self.file.read_text())
        self.execute("--no-huge", "-j", str(threads), "replay.click", *arguments)

    def execute(self, *arguments: str) -> None:
        """Runs `click` in the test's directory."""
        done = subprocess.run(
            ["./click", *arguments], check=False, capture_output=True, timeout=LIMIT_S, cwd=self.path, stdin=subprocess.DEVNULL,
            env={**os.environ, "NO_COLOR": "1"})
        self.stdout, self.stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.returncode:
            raise Wrong(f"exit status {done.returncode}\n{self.stdout}{self.stderr}")

    def out(self, name: str) -> list[tuple[float, bytes]]:
        """The frames of a file with their times since the start; none if there is no such file."""
        self.looked_at.add(name)
        path = self.path / name
        data = path.read_bytes() if path.exists() else b""
        at, frames = 24, []
        unit_s = 1e-9 if data[:4] == struct.pack("<I", 0xA1B23C4D) else 1e-6
        while at + 16 <= len(data):
            seconds, fraction, length = struct.unpack_from("<III", data, at)
            frames.append((seconds - BEGIN + fraction * unit_s, data[at + 16:at + 16 + length]))
            at += 16 + length
        return frames

    def sent(self, device: str, *expected: Packet | bytes, at: Sequence[float] | None = None) -> None:
        """A device has sent exactly these frames in this order, and at these times."""
        frames = self.out(f"{device}.out")
        ether = not device.startswith("Kernel")
        want = [unpadded(octets(frame), ether) for frame in expected]
        have = [unpadded(frame, ether) for _, frame in frames]
        for number, (wanted, got) in enumerate(zip(want, have)):
            if wanted != got:
                raise Wrong(f"{device}, frame {number}:\n  expected {shown(wanted, ether)}\n  got      {shown(got, ether)}\n{self.stderr}")
        if len(want) != len(have):
            rest = (have if len(have) > len(want) else want)[min(len(have), len(want)):]
            lines = "\n  ".join(shown(frame, ether) for frame in rest[:3])
            raise Wrong(f"{device}: {len(have)} frames, expected {len(want)}; the first that differ:\n  {lines}\n{self.stderr}")
        if at is not None:
            times = [round(when, 6) for when, _ in frames]
            if times != [round(when, 6) for when in at]:
                raise Wrong(f"{device}: times {times}, expected {list(at)}")

    def printed(self, stdout: str | None = None, stderr: str | None = None) -> None:
        """What was printed, line by line; leading newlines and indentation of the test do not count."""
        for stream, got, expected in (("stdout", self.stdout, stdout), ("stderr", self.stderr, stderr)):
            if expected is None:
                continue
            self.looked_at.add(stream)
            want = [line.strip() for line in expected.strip().splitlines()]
            have = [line.strip() for line in got.strip().splitlines()]
            if want != have:
                raise Wrong(f"{stream}:\n  expected {want}\n  got      {have}")

    def finish(self) -> None:
        """Nothing came out that the test has not looked at."""
        for path in sorted(self.path.glob("*.out")):
            if path.name not in self.looked_at and self.out(path.name):
                raise Wrong(f"{path.name}: {len(self.out(path.name))} frames that nobody expects, as {self.out(path.name)[0][1].hex()}")
        for stream, got in (("stdout", self.stdout), ("stderr", self.stderr)):
            if stream not in self.looked_at and got.strip():
                raise Wrong(f"{stream}: {got}")
        self.directory.cleanup()
