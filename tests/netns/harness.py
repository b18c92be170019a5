"""What the namespace tests are written with: cases, topologies and wires.

A case is a function marked `@case(TOPOLOGY)`. A topology is built once for the cases that share it, and built anew when
a case has killed its router. A wire sends and receives whole frames on a host's interface.
"""

import contextlib
import logging
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn, Self, TypeVar

from lab import ROOT, Lab, LabError, Namespace, Router, wait_for

# Before scapy looks for what it could warn of.
logging.getLogger("scapy").setLevel(logging.ERROR)
# Cases take these names from here.
from scapy.compat import raw
from scapy.layers.inet import ICMP, IP, TCP, UDP, ICMPerror, IPerror, TCPerror  # noqa: F401
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw  # noqa: F401

BROADCAST = "ff:ff:ff:ff:ff:ff"
# The names of those that are left out unless they are asked for.
LONG: set[str] = set()
# Topology, its arguments, the name of the case, the case, seconds.
CASES: list[tuple[type, tuple[Any, ...], str, Callable[[Any], None], float]] = []
F = TypeVar("F", bound=Callable[[Any], None])


class Skip(Exception):
    """The case cannot run here; the text says why."""


class Late(Exception):
    """A case ran longer than it may."""


def case(topology: type, *variants: object, seconds: float = 20, long: bool = False) -> Callable[[F], F]:
    """Register a test: once, or once per variant of the topology. A long one runs when it is named, or with --all."""

    def register(function: F) -> F:
        for variant in variants or ((),):
            args = variant if isinstance(variant, tuple) else (variant,)
            label = function.__name__ + "".join(f"[{a}]" for a in args)
            CASES.append((topology, args, label, function, seconds))
            if long:
                LONG.add(label)
        return function

    return register


def check(held: object, what: object) -> None:
    if not held:
        raise AssertionError(what)


def equal(got: object, wanted: object, what: object) -> None:
    check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


class Wire:
    """A packet socket on one interface of a namespace: frames in, frames out, nothing of the kernel's in between."""

    def __init__(self, space: Namespace, dev: str = "eth0"):
        with space.inside():
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            self.sock.bind((dev, 0))
            # Promiscuous, so that frames for other addresses are seen too.
            index = socket.if_nametoindex(dev)
            self.sock.setsockopt(263, 1, index.to_bytes(4, "little") + (1).to_bytes(2, "little") + bytes(10))
        self.mac = space.mac(dev)
        self.answers: dict[str, str] = {}
        self.drain()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, frame: Any) -> None:
        self.sock.send(frame if isinstance(frame, bytes) else raw(frame))

    def drain(self) -> None:
        self.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.sock.recv(65536)

    def frames(self, seconds: float) -> Iterator[Any]:
        """Frames that arrive within the next `seconds`. ARP requests for self.answers are answered on the way."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.sock], [], [], left)[0]:
                return
            try:
                data, address = self.sock.recvfrom(65536)
            except BlockingIOError:
                continue
            if address[2] == socket.PACKET_OUTGOING:
                continue
            frame = Ether(data)
            if ARP in frame and frame[ARP].op == 1 and frame[ARP].pdst in self.answers:
                mac = self.answers[frame[ARP].pdst]
                self.send(Ether(src=mac, dst=frame.src)
                          / ARP(op=2, hwsrc=mac, psrc=frame[ARP].pdst, hwdst=frame[ARP].hwsrc, pdst=frame[ARP].psrc))
            yield frame

    def expect(self, what: str, wanted: Callable[..., object], seconds: float = 2) -> Any:
        """The first frame that `wanted` holds for."""
        seen = []
        for frame in self.frames(seconds):
            if wanted(frame):
                return frame
            seen.append(frame.summary())
        raise AssertionError(f"{what}: did not arrive within {seconds} s; saw: {'; '.join(seen[:12]) or 'nothing'}")


class Net:
    """What `build` builds in a lab, for a `with` block."""

    lab: Lab

    def build(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.stack = contextlib.ExitStack()
        try:
            self.lab = self.stack.enter_context(Lab())
            self.build()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()


class RouterNet(Net):
    """N hosts around `conf/ip-router-N.click`; the last cable carries at most 1000 bytes."""

    small_mtu = 1000

    def __init__(self, n: int):
        self.n = n

    def build(self) -> None:
        self.r = self.lab.namespace("r")
        self.hosts = [self.host(i) for i in range(self.n)]
        self.router_macs = [self.r.mac(f"eth{i}") for i in range(self.n)]
        self.a_mac, self.b_mac, self.b_ip = self.hosts[0].mac("eth0"), self.hosts[-1].mac("eth0"), f"10.0.{self.n}.2"
        args = []
        for i in range(self.n):
            args += [f"DEV{i}=eth{i}", f"MAC{i}={self.router_macs[i]}"]
        self.router = Router(self.lab, self.r, ROOT / "conf" / f"ip-router-{self.n}.click", *args,
                             f"MTU{self.n - 1}={self.small_mtu}")
        # One exchange fills the ARP tables, so that no case has to.
        for host in self.hosts:
            for i in range(self.n):
                wait_for("the first ping", lambda h=host, i=i: ping(h, f"10.0.{i + 1}.2"), 5)

    def host(self, i: int) -> Namespace:
        host = self.lab.namespace(f"h{i + 1}")
        self.lab.veth(self.r, f"eth{i}", host, "eth0", mtu=self.small_mtu if i == self.n - 1 else 1500)
        host.ip("addr", "add", f"10.0.{i + 1}.2/24", "dev", "eth0")
        host.ip("route", "add", "default", "via", f"10.0.{i + 1}.1")
        # What a case sees on the wire must come from the router alone.
        host.sh("sysctl", "-qw", "net.ipv4.conf.all.accept_redirects=0", "net.ipv4.conf.default.accept_redirects=0",
                "net.ipv4.conf.eth0.accept_redirects=0", "net.ipv4.icmp_ratelimit=0", check=False)
        return host

    @property
    def alive(self) -> bool:
        return self.router.alive()

    def log(self) -> str:
        return self.router.output()

    # --- how cases talk: from the first host (a) to the last (b) ---------------------------------------------------------

    def mac(self, i: int) -> str:
        return self.router_macs[i]

    def open(self) -> tuple[contextlib.ExitStack, Wire, Wire]:
        """The wires of the first and the last host."""
        stack = contextlib.ExitStack()
        a, b = (stack.enter_context(Wire(self.hosts[i])) for i in (0, -1))
        return stack, a, b

    def ether(self, **kw: Any) -> Any:
        return Ether(**{"src": self.a_mac, "dst": self.router_macs[0], **kw})

    def ip(self, **kw: Any) -> Any:
        return IP(**{"src": "10.0.1.2", "dst": self.b_ip, "ttl": 64, "id": 77, **kw})

    def not_forwarded(self, *frames: Any) -> None:
        """Send frames that must not come out on the far side: the marker that is sent after them must, alone."""
        stack, a, b = self.open()
        with stack:
            for frame in frames:
                a.send(frame(self) if callable(frame) else frame)
            a.send(self.ether() / self.ip(id=4242) / UDP(sport=9, dport=9999) / b"marker")
            seen: list[Any] = []
            for frame in b.frames(2):
                if IP in frame and frame[IP].id == 4242 and frame[IP].src == "10.0.1.2":
                    check(not seen, f"was forwarded: {'; '.join(f.summary() for f in seen)}")
                    return
                if frame.src == self.mac(self.n - 1) and ARP not in frame:
                    seen.append(frame)
            raise AssertionError(f"the good packet after it did not arrive; saw {[f.summary() for f in seen]}")

    def icmp(self, frame: Any, kind: int, code: int, sent: bool = True, source: str = "10.0.1.1", seconds: float = 2) -> Any:
        """Send a frame from a and return the ICMP error of that type and code that must come back."""
        stack, a, _ = self.open()
        with stack:
            if sent:
                a.send(frame)
            got = a.expect(f"ICMP {kind}/{code}", lambda f: ICMP in f and f[ICMP].type not in (0, 8) and f[IP].src == source, seconds)
        equal((got[ICMP].type, got[ICMP].code), (kind, code), "type and code")
        equal(got[IP].src, source, "source")
        equal(got[IP].dst, "10.0.1.2", "destination")
        equal(got.dst, self.a_mac, "Ethernet destination")
        right_checksums(got)
        return got

    def no_icmp(self, *frames: Any) -> None:
        """Send frames that no ICMP error may answer."""
        stack, a, _ = self.open()
        with stack:
            for frame in frames:
                a.send(frame)
            a.send(self.ether() / self.ip(dst="10.0.1.1") / ICMP(id=4242) / b"marker")
            for got in a.frames(2):
                if ICMP in got and got[ICMP].type == 0 and got[ICMP].id == 4242:
                    return
                check(not (ICMP in got and got[IP].src.endswith(".1")), f"an answer came: {got.summary()}")
            raise AssertionError("the ping after it was not answered")


class Plain:
    """A lab and nothing in it, for cases that build their own network."""

    def __init__(self) -> None:
        self.alive = True

    def __enter__(self) -> Lab:
        self.lab = Lab()
        self.lab.__enter__()
        return self.lab

    def __exit__(self, *error: object) -> None:
        self.lab.__exit__(*error)


def ping(host: Namespace, to: str, *options: str) -> bool:
    return " 0% packet loss" in host.sh("ping", "-c", "1", "-W", "0.3", *options, to, check=False)


def right_checksums(frame: Any) -> None:
    """The IP and transport checksums of a frame are what they should be."""
    again = frame.copy()
    for layer in (IP, ICMP, TCP, UDP):
        if layer in again:
            del again[layer].chksum
    again = Ether(raw(again))
    for layer in (IP, ICMP, TCP, UDP):
        if layer in frame and not (layer is UDP and frame[UDP].chksum == 0):
            equal(frame[layer].chksum, again[layer].chksum, f"{layer.__name__} checksum of {frame.summary()}")


def pair(lab: Lab, offload: bool = False, mtu: int = 1500, queues: int = 1,
         segments: bool = False) -> tuple[Namespace, Namespace, Namespace]:
    """Two hosts on one subnet with a namespace between them: (middle, left, right). The middle has eth0 and eth1."""
    middle, left, right = lab.namespace("r"), lab.namespace("h1"), lab.namespace("h2")
    for i, host in enumerate((left, right)):
        lab.veth(middle, f"eth{i}", host, "eth0", mtu=mtu, queues=queues, offload=offload, segments=segments)
        host.ip("addr", "add", f"10.9.0.{i + 1}/24", "dev", "eth0")
    return middle, left, right


def alarm(seconds: float) -> None:
    def late(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise Late(f"took longer than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def run(cases: list[tuple[type, tuple[Any, ...], str, Callable[[Any], None], float]], say: Callable[[str], None],
        verbose: bool = False) -> tuple[int, int, int]:
    """Run cases grouped by topology; returns (passed, failed, skipped)."""
    counts, number = {"ok": 0, "not ok": 0, "skip": 0}, 0

    def report(label: str, verdict: str, note: str = "", details: str = "") -> None:
        nonlocal number
        number += 1
        counts[verdict] += 1
        say(f"{'ok' if verdict == 'skip' else verdict} {number} - {label}" + (f" # SKIP {note}" if verdict == "skip" else note))
        if verdict == "not ok" or verbose:
            for line in details.splitlines():
                say(f"  # {line}")

    groups: dict[tuple[type, Any], list[tuple[str, Callable[[Any], None], float]]] = {}
    for topology, args, label, function, seconds in cases:
        # A Plain lab is never shared.
        key = (topology, args) if topology is not Plain else (topology, label)
        groups.setdefault(key, []).append((label, function, seconds))
    for (topology, args), members in groups.items():
        todo = list(members)
        while todo:
            done = 0
            try:
                alarm(60)
                with topology(*(() if topology is Plain else args)) as net:
                    for label, function, seconds in todo:
                        done += 1
                        began = time.monotonic()
                        try:
                            alarm(seconds)
                            function(net)
                            check(getattr(net, "alive", True), "the router ended")
                            signal.alarm(60)
                            report(label, "ok", f" # {time.monotonic() - began:.1f} s")
                        except Skip as why:
                            report(label, "skip", str(why))
                        except Exception as error:
                            signal.alarm(0)
                            text = f"{type(error).__name__}: {error}" if isinstance(error, (AssertionError, LabError, Late)) \
                                else traceback.format_exc()
                            with contextlib.suppress(Exception):
                                text += "\nrouter log:\n" + "\n".join(net.log().splitlines()[-15:])
                            report(label, "not ok", details=text)
                            if not getattr(net, "alive", True):
                                break
            except (LabError, Late) as error:
                signal.alarm(0)
                for label, _, _ in todo[done:]:
                    report(label, "not ok", details=f"no network: {error}")
                break
            finally:
                signal.alarm(0)
            todo = todo[done:]
    return counts["ok"], counts["not ok"], counts["skip"]
