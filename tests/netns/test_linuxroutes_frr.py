"""LinuxRoutes behind FRR: routes that a BGP neighbor announces are in the router's table."""

import contextlib
import ipaddress
import json
import pathlib
import pwd
import shutil
import signal
import socket
import struct
import time
from typing import Self

from harness import Plain, Skip, case, check, equal, wait_for
from lab import Lab, Namespace, Process
from test_linuxroutes import Follows, interfaces

DAEMONS = pathlib.Path("/usr/lib/frr")
ROUTES = 100_000

BGP = """
router bgp 65001
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 neighbor 10.0.0.2 remote-as 65002
 neighbor 10.0.0.2 timers connect 1
"""


class Frr:
    """FRR's zebra and bgpd in a namespace, with files of their own."""

    def __init__(self, lab: Lab, space: Namespace):
        if not (DAEMONS / "zebra").exists():
            raise Skip("FRR is not installed (apt install frr)")
        self.space, self.directory = space, lab.dir / "frr"
        self.directory.mkdir(mode=0o755)
        (self.directory / "zebra.conf").write_text("")
        (self.directory / "bgpd.conf").write_text(BGP)
        user = pwd.getpwnam("frr")
        for path in (self.directory, *self.directory.iterdir()):
            shutil.chown(path, user.pw_uid, user.pw_gid)
        self.start()

    def daemon(self, name: str) -> Process:
        d = self.directory
        options = ["-z", d / "zserv", "-i", d / f"{name}.pid", "-f", d / f"{name}.conf", "--vty_socket", d, "-P", "0", "--log", "stdout"]
        return self.space.popen(DAEMONS / name, *options, log=f"{name}.log")


    def start(self) -> None:
        self.zebra = self.daemon("zebra")
        wait_for("zebra's socket", (self.directory / "zserv").exists, 10)
        self.bgpd = self.daemon("bgpd")

    def restart(self, number: int) -> None:
        for daemon in (self.bgpd, self.zebra):
            daemon.send_signal(number)
            daemon.wait(30)
        with contextlib.suppress(FileNotFoundError):
            (self.directory / "zserv").unlink()
        self.start()


class Speaker:
    """A BGP speaker that announces and withdraws what it is told, and takes in nothing (RFC 4271)."""

    def __init__(self, space: Namespace):
        with space.inside():
            self.listening = socket.create_server(("10.0.0.2", 179))
        self.listening.settimeout(30)

    def __enter__(self) -> Self:
        self.accept()
        return self

    def accept(self) -> None:
        """Waits for bgpd's connection."""
        self.connection = self.listening.accept()[0]
        # Version 4, AS 65002, hold time 0 (no keepalives), no options.
        self.message(1, struct.pack("!BHH4sB", 4, 65002, 0, socket.inet_aton("10.0.0.2"), 0))
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

    def announce(self, networks: list[str], gateway: str = "10.0.0.2") -> None:
        # ORIGIN IGP; AS_PATH of one sequence with AS 65002; NEXT_HOP.
        attributes = b"\x40\x01\x01\x00" + b"\x40\x02\x04\x02\x01" + struct.pack("!H", 65002) + b"\x40\x03\x04" + socket.inet_aton(gateway)
        for chunk in self.chunks(networks):
            self.message(2, struct.pack("!HH", 0, len(attributes)) + attributes + chunk)

    def withdraw(self, networks: list[str]) -> None:
        for chunk in self.chunks(networks):
            self.message(2, struct.pack("!H", len(chunk)) + chunk + b"\x00\x00")


def learned(f: Follows) -> int:
    return f.number("count")


def quiet(f: Follows) -> None:
    """The kernel has told nothing for as long as a comparison takes to come."""
    last, since = -1, time.monotonic()
    while time.monotonic() < since + 3:
        told = json.loads(f.read("json"))["notifications"]
        if told != last:
            last, since = told, time.monotonic()
        time.sleep(0.1)


@case(Plain, seconds=240)
def linuxroutes_follow_frr_with_bgp(lab: Lab) -> None:
    space, peer = lab.namespace("k"), lab.namespace("p")
    interfaces(space)
    space.ip("link", "del", "eth0")
    lab.veth(space, "eth0", peer, "eth0")
    space.ip("addr", "add", "10.0.0.1/24", "dev", "eth0")
    peer.ip("addr", "add", "10.0.0.2/24", "dev", "eth0")
    frr = Frr(lab, space)
    f = Follows(lab, space, ", RECONCILE 2")
    before = f.agrees_soon(2)
    networks = [f"{20 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24" for i in range(ROUTES)]
    with Speaker(peer) as speaker:
        speaker.announce(networks)
        wait_for("all routes", lambda: learned(f) == before + ROUTES, 60)
        equal(f.agrees_soon(2), before + ROUTES, "routes")
        speaker.withdraw(networks[:1])
        f.soon("no route", networks[0], None, 5)
        speaker.announce(networks[:1])
        f.soon("a route", networks[0], "10.0.0.2 1", 5)
        # Both are killed, and started again as watchfrr does it. The next zebra removes what the kernel still has.
        frr.restart(signal.SIGKILL)
        speaker.accept()
        speaker.announce(networks)
        wait_for("the routes to go", lambda: learned(f) < before + ROUTES, 60)
        wait_for("all routes", lambda: learned(f) == before + ROUTES, 60)
        equal(f.agrees_soon(2), before + ROUTES, "routes")
        # A zebra that is stopped removes its routes itself.
        frr.restart(signal.SIGTERM)
        wait_for("no routes", lambda: learned(f) == before, 60)
        speaker.accept()
        speaker.announce(networks)
        wait_for("all routes", lambda: learned(f) == before + ROUTES, 60)
        equal(f.agrees_soon(2), before + ROUTES, "routes")
    # The neighbor is gone, and so are its routes.
    wait_for("no routes", lambda: learned(f) == before, 60)
    quiet(f)
    f.agrees_soon(2)
    wait_for("to be in step", lambda: f.read("state") == "in step", 5)
    # Not checked yet: that no comparison found a difference while routes by the hundred thousand came and went.
    f.agrees()
    check(frr.bgpd.poll() is None, "bgpd has ended")
