"""Runs a configuration by two drivers, compares all that comes out, and makes a configuration with a difference smaller."""

import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from generate import Configuration, without

# Longer than any of the configurations takes on a busy machine.
LIMIT_S = 60

# What does not count, with the reason. README.md says more.
NOISE: list[tuple[str, str]] = [
    # Which signal or error ends a driver that crashes is shown by its exit status.
    (r"^(Segmentation fault|Aborted)", ""),
    # Addresses of objects in memory, in messages that Click writes for its authors.
    (r"0x[0-9a-f]{6,}", "0xADDRESS"),
]


@dataclass(frozen=True)
class Driver:
    """A program that takes Click's command line, and what it is given besides."""

    program: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a driver did: each stream and file, by its name."""

    streams: dict[str, bytes]


def run(driver: Driver, configuration: Configuration) -> Outcome:
    """Runs a configuration in a new directory."""
    with tempfile.TemporaryDirectory(prefix="valiant-differential-") as name:
        directory = pathlib.Path(name)
        for file, text in configuration.files.items():
            (directory / file).write_text(text)
        (directory / "config").write_text(configuration.text())
        link = directory / "click"
        os.symlink(pathlib.Path(driver.program).resolve(), link)
        read = [word for handler in configuration.handlers() for word in ("-h", handler)]
        command = ["./click", "--simtime", *driver.arguments, "config", *read]
        try:
            done = subprocess.run(command, cwd=directory, capture_output=True, check=False, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "NO_COLOR": "1"})
            streams = {"stdout": done.stdout, "stderr": done.stderr, "exit status": str(done.returncode).encode()}
        except subprocess.TimeoutExpired:
            streams = {"exit status": b"none: it did not end"}
        for path in sorted(directory.glob("*.out")):
            streams[path.name] = path.read_bytes()
        return Outcome(streams)


def plain(name: str, content: bytes, in_order: bool = True) -> bytes:
    """A stream without its noise. Files are compared as they are."""
    if name not in ("stdout", "stderr"):
        return content
    if name == "stderr" and not in_order:
        content = b"".join(sorted(content.splitlines(keepends=True)))
    text = content.decode("utf-8", "surrogateescape")
    for pattern, instead in NOISE:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text.encode("utf-8", "surrogateescape")


def difference(one: Outcome, other: Outcome, in_order: bool = True) -> str:
    """Where two outcomes differ first, in words; nothing if they do not. Unless `in_order`, lines on standard error may change places."""
    for name in sorted({*one.streams, *other.streams}):
        left, right = one.streams.get(name), other.streams.get(name)
        if left is None or right is None:
            return f"{name}: only one of them has it"
        left, right = plain(name, left, in_order), plain(name, right, in_order)
        if left != right:
            at = next((at for at, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))
            if name.endswith(".out") and not left.startswith(b"!"):
                return f"{name}: byte {at}: {left[at:at + 16].hex()} and {right[at:at + 16].hex()} ({len(left)} and {len(right)} bytes)"
            line = left[:at].count(b"\n")
            lines = [(text.splitlines() or [b""])[line:line + 1] for text in (left, right)]
            return f"{name}: line {line + 1}:\n    {shown(lines[0])}\n    {shown(lines[1])}"
    return ""


def shown(lines: Sequence[bytes]) -> str:
    """A line, or that there is none."""
    return lines[0].decode(errors="replace") if lines else "(end)"


def kind(text: str) -> str:
    """What sort of difference it is: the stream. A smaller configuration must differ in the same."""
    return "file" if ".out" in text.split(":")[0] else text.split(":")[0]


def shrink(configuration: Configuration, differs: Callable[[Configuration], str], tries: int = 400) -> Configuration:
    """The smallest configuration that still differs in the same stream, as far as leaving out single parts goes."""
    wanted = kind(differs(configuration))
    found = True
    while found and tries > 0:
        found = False
        for smaller in without(configuration):
            tries -= 1
            if tries <= 0:
                break
            text = differs(smaller)
            if text and kind(text) == wanted:
                configuration, found = smaller, True
                break
    return configuration


def compare(one: Driver, other: Driver, in_order: bool = True) -> Callable[[Configuration], str]:
    """A function that says how two drivers differ about a configuration."""
    return lambda configuration: difference(run(one, configuration), run(other, configuration), in_order)
