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


class Refused(Exception):
    """The router said no; the text is its answer."""


class Client:
    """One connection to a ControlSocket on a Unix socket."""

    def __init__(self, path: str | os.PathLike[str], patience: float = 20.0):
        deadline = time.monotonic() + patience
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(str(path))
                break
            except OSError:
                self.socket.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self.socket.settimeout(patience)
        self.file = self.socket.makefile("rb")
        self.banner = self.file.readline().decode().strip()

    def _reply(self) -> list[str]:
        lines = []
        while True:
            line = self.file.readline().decode().rstrip("\r\n")
            if not line:
                raise ConnectionError("the router closed the connection")
            lines.append(line[4:])
            if line[3:4] != "-":
                if not line.startswith("2"):
                    raise Refused("\n".join(lines))
                return lines

    def read_many(self, handlers: Sequence[str]) -> list[str]:
        """The values of read handlers, all asked for before the first answer."""
        self.socket.sendall("".join(f"READ {handler}\r\n" for handler in handlers).encode())
        values = []
        for _ in handlers:
            self._reply()
            length = int(self.file.readline().split()[1])
            values.append(self.file.read(length).decode())
        return values

    def read(self, handler: str) -> str:
        """The value of a read handler."""
        return self.read_many([handler])[0]

    def number(self, handler: str) -> int:
        """The value of a read handler that is a whole number."""
        return int(self.read(handler))

    def write(self, handler: str, value: str) -> None:
        """Writes a handler; raises Refused with the router's words if it refuses."""
        data = value.encode()
        self.socket.sendall(f"WRITEDATA {handler} {len(data)}\r\n".encode() + data)
        self._reply()

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

    def client(self) -> Client:
        """A new connection."""
        try:
            return Client(self.path)
        except OSError as error:
            raise AssertionError(f"{error}; the router said: {self.output()}") from error

    def output(self) -> str:
        """What it has printed."""
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
