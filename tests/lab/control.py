"""A client of the ControlSocket protocol, and a router process to talk to."""

import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Self

ROOT = pathlib.Path(__file__).resolve().parents[2]


class LabError(Exception):
    """Something the lab needs is missing or did not happen; the text says what to do."""


class Refused(LabError):
    """The router refused a request; the text has the handler and the answer."""


class Closed(LabError, ConnectionError):
    """The router closed the connection, or the other end is not a control socket."""


class ControlSocket:
    """One connection to a ControlSocket on a Unix socket: a client of Click's control protocol."""

    def __init__(self, path: str | os.PathLike[str], patience: float = 0, timeout: float = 5):
        """Connects, waiting up to `patience` seconds for the router to listen. `timeout` is how long an answer may take."""
        deadline = time.monotonic() + patience
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(str(path))
                break
            except OSError:
                self.socket.close()
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.02)
        self.socket.settimeout(timeout)
        self.file = self.socket.makefile("rb")
        greeting = self.file.readline()
        if not greeting.startswith(b"Click::ControlSocket/"):
            raise Closed(f"not a control socket: {greeting!r}")

    def _reply(self, handler: str) -> str:
        """The text of an answer; raises Refused if it is an error."""
        lines = []
        while True:
            line = self.file.readline().decode(errors="replace").rstrip("\r\n")
            if len(line) < 4 or not line[:3].isdigit():
                raise Closed(f"control socket closed or out of step: {line!r}")
            lines.append(line[4:])
            if line[3] != "-":
                text = "\n".join(lines)
                if not line.startswith("2"):
                    raise Refused(f"{handler}: {line[:3]} {text}")
                return text

    def read_many(self, handlers: Sequence[str]) -> list[str]:
        """The values of read handlers. All requests are sent before the first answer is read."""
        self.socket.sendall("".join(f"READ {request}\r\n" for request in handlers).encode())
        values = []
        for request in handlers:
            self._reply(request)
            length = int(self.file.readline().split()[1])
            values.append(self.file.read(length).decode(errors="replace"))
        return values

    def read(self, handler: str, parameters: str | None = None) -> str:
        """The value of a read handler."""
        return self.read_many([handler if parameters is None else f"{handler} {parameters}"])[0]

    def number(self, handler: str) -> int:
        """The value of a read handler that is a whole number."""
        return int(self.read(handler))

    def write(self, handler: str, value: object = "") -> str:
        """Writes a handler, and returns the answer; raises Refused if the router refuses."""
        data = str(value).encode()
        self.socket.sendall(f"WRITEDATA {handler} {len(data)}\r\n".encode() + data)
        return self._reply(handler)

    def close(self) -> None:
        """Ends the connection."""
        self.file.close()
        self.socket.close()


def binary() -> str:
    """The router to test: VALIANT, else the newest that was built here."""
    if os.environ.get("VALIANT"):
        return os.environ["VALIANT"]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "valiant" for profile in ("quick", "release")]
    built = sorted((p for p in built if p.exists()), key=lambda p: p.stat().st_mtime)
    if not built:
        sys.exit("no valiant binary: set VALIANT or run scripts/build --quick")
    return str(built[-1])


class Router:
    """A `valiant run` of a configuration that has a ControlSocket; use it with `with`."""

    def __init__(self, directory: str | os.PathLike[str], config: str, *options: str):
        self.path = pathlib.Path(directory) / "control"
        self.log = open(pathlib.Path(directory) / "log", "w+")
        self.process = subprocess.Popen(
            [binary(), "run", "-R", "-w", *options, "-e", config.replace("SOCKET", str(self.path))],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def client(self) -> ControlSocket:
        """A new connection."""
        try:
            return ControlSocket(self.path, patience=20, timeout=20)
        except OSError as error:
            raise AssertionError(f"{error}; the router said: {self.output()}") from error

    def output(self) -> str:
        """The router's output so far."""
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the router did not end within 10 s") from None
        finally:
            self.log.close()
