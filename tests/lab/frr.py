"""FRR's daemons in a network namespace, with files of their own; and a BGP speaker that announces what it is told."""

import contextlib
import ipaddress
import json
import pathlib
import pwd
import shutil
import socket
import struct
from typing import Any, Self

from lab import Lab, Namespace, Process, sh, wait_for

DAEMONS = pathlib.Path("/usr/lib/frr")
# The order in which they start.
ORDER = ("zebra", "ospfd", "bgpd")


def installed() -> bool:
    return (DAEMONS / "zebra").exists()


class Frr:
    """zebra, and those daemons for which there is a configuration."""

    def __init__(self, lab: Lab, space: Namespace, **configurations: str):
        self.space, self.directory = space, lab.dir / f"frr-{space.short}"
        self.configurations = {"zebra": "", **configurations}
        self.directory.mkdir(mode=0o755)
        for name, text in self.configurations.items():
            (self.directory / f"{name}.conf").write_text(text)
        user = pwd.getpwnam("frr")
        for path in (self.directory, *self.directory.iterdir()):
            shutil.chown(path, user.pw_uid, user.pw_gid)
        self.daemons: dict[str, Process] = {}
        self.start()

    def daemon(self, name: str) -> Process:
        d = self.directory
        options = ["-z", d / "zserv", "-i", d / f"{name}.pid", "-f", d / f"{name}.conf", "--vty_socket", d, "-P", "0", "--log", "stdout"]
        return self.space.popen(DAEMONS / name, *options, log=f"{self.space.short}-{name}.log")

    def start(self) -> None:
        for name in ORDER:
            if name in self.configurations:
                self.daemons[name] = self.daemon(name)
                if name == "zebra":
                    wait_for("zebra's socket", (self.directory / "zserv").exists, 10)
                # vtysh says that a daemon does not run as long as that is missing.
                wait_for(f"the terminal of {name}", (self.directory / f"{name}.vty").exists, 30)

    def restart(self, number: int) -> None:
        """Ends all daemons with a signal, and starts them again as watchfrr does."""
        for daemon in reversed(self.daemons.values()):
            daemon.send_signal(number)
            daemon.wait(30)
        for left in (self.directory / "zserv", *self.directory.glob("*.vty")):
            with contextlib.suppress(FileNotFoundError):
                left.unlink()
        self.start()

    def alive(self) -> bool:
        return all(daemon.poll() is None for daemon in self.daemons.values())

    def show(self, command: str) -> Any:
        """What `show COMMAND json` says."""
        return json.loads(sh("vtysh", "--vty_socket", str(self.directory), "-c", f"show {command} json") or "{}")


class Speaker:
    """A BGP speaker of AS 65002 at 10.0.0.2 that announces and withdraws what it is told, and takes in nothing (RFC 4271)."""

    def __init__(self, space: Namespace, address: str = "10.0.0.2"):
        self.address = address
        with space.inside():
            self.listening = socket.create_server((address, 179))
        self.listening.settimeout(30)

    def __enter__(self) -> Self:
        self.accept()
        return self

    def accept(self) -> None:
        """Waits for bgpd's connection."""
        self.connection = self.listening.accept()[0]
        # Version 4, AS 65002, hold time 0 (no keepalives), no options.
        self.message(1, struct.pack("!BHH4sB", 4, 65002, 0, socket.inet_aton(self.address), 0))
        self.message(4, b"")

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self.listening.close()

    def message(self, kind: int, body: bytes) -> None:
        self.connection.sendall(b"\xff" * 16 + struct.pack("!HB", 19 + len(body), kind) + body)

    @staticmethod
    def chunks(networks: list[str]) -> list[bytes]:
        coded = [b"\x18" + ipaddress.ip_address(n.split("/")[0]).packed[:3] for n in networks]
        return [b"".join(coded[i:i + 900]) for i in range(0, len(coded), 900)]

    def announce(self, networks: list[str]) -> None:
        # ORIGIN IGP; AS_PATH of one sequence with AS 65002; NEXT_HOP.
        attributes = b"\x40\x01\x01\x00" + b"\x40\x02\x04\x02\x01" + struct.pack("!H", 65002) + b"\x40\x03\x04"
        attributes += socket.inet_aton(self.address)
        for chunk in self.chunks(networks):
            self.message(2, struct.pack("!HH", 0, len(attributes)) + attributes + chunk)

    def withdraw(self, networks: list[str]) -> None:
        for chunk in self.chunks(networks):
            self.message(2, struct.pack("!H", len(chunk)) + chunk + b"\x00\x00")
