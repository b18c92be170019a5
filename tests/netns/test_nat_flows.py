"""The gateway of conf/nat-gateway.click with four million flows: connections of real hosts, and hot swaps under them."""

import contextlib
import ftplib
import hashlib
import io
import pathlib
import random
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable

from harness import Plain, Router, case, check, equal, ping
from lab import ROOT, Lab, Namespace, the_binary, wait_for
from test_nat import FTP, INSIDE, OUTSIDE, Connection, echo

FLOWS = 4_000_000
MOST_MEMORY_KB = 4 << 20
# Packets of new flows from hosts inside to a network outside, through the rewriter as any others; behind it they end. A rate above what the
# workers reach makes them take as many as they can.
FILL = """
elementclass New { $NET |
  MeasureSource(RATE 1M, FLOWS 1048576, SRC $NET, DST 198.18.0.0/15, SPORT 1024-65535, RANDOM true, UNIQUE true)
  -> Unqueue -> Strip(14) -> CheckIPHeader -> output
}
"""
NETS = [f"172.{n}.0.0/16" for n in range(16, 21)]


def configuration(fill: bool, changes: dict[str, str] | None = None) -> str:
    """The gateway's, where the network of the many flows is a dead end; with `fill` they are made."""
    text = (ROOT / "conf" / "nat-gateway.click").read_text()
    way = "StaticIPLookup($OUTSIDE_NET 0, "
    check(way in text, "the gateway looks up its way another way")
    text = text.replace(way, way + "198.18.0.0/15 1, ")
    more = "way [1] -> filled :: Counter -> Discard;\n"
    if fill:
        more += FILL + "".join(f"New({net}) -> nat;\n" for net in NETS)
    for name, value in {"$GATEWAY 192.0.2.254": f"$GATEWAY {OUTSIDE}", "$CAPACITY 4000000": "$CAPACITY 6000000", **(changes or {})}.items():
        check(name in text, f"no {name} in the gateway's configuration")
        text = text.replace(name, value)
    return text + more


class Work:
    """A function that is called again and again in a thread, until it is told to stop; its first error is raised by `stop`."""

    def __init__(self, name: str, step: Callable[[], None], end: Callable[[], object] = lambda: None):
        self.name, self.step, self.end, self.steps = name, step, end, 0
        self.error: BaseException | None = None
        self.asked = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            while not self.asked.is_set():
                self.step()
                self.steps += 1
            self.end()
        except BaseException as error:
            self.error = error

    def stop(self) -> int:
        self.asked.set()
        self.thread.join(10)
        check(not self.thread.is_alive(), f"{self.name}: no end")
        if self.error is not None:
            raise AssertionError(f"{self.name}: {self.error!r} after {self.steps} steps") from self.error
        return self.steps


class Transfer:
    """Data on a TCP connection in one direction, and a sum of it on both sides."""

    def __init__(self, name: str, sender: socket.socket, receiver: socket.socket):
        self.sender, self.receiver = sender, receiver
        self.sent, self.got, self.bytes = hashlib.sha256(), hashlib.sha256(), 0
        self.random = random.Random(name)
        self.closed = False
        self.works = (Work(f"{name}, sender", self.send, lambda: sender.shutdown(socket.SHUT_WR)),
                      Work(f"{name}, receiver", self.receive, self.rest))

    def send(self) -> None:
        data = self.random.randbytes(50_000)
        self.sent.update(data)
        self.sender.sendall(data)
        # Not so fast that the other connections have no part of the processors.
        time.sleep(0.02)

    def receive(self) -> None:
        data = self.receiver.recv(1 << 16)
        self.closed = self.closed or not data
        self.got.update(data)
        self.bytes += len(data)

    def rest(self) -> None:
        while not self.closed:
            self.receive()

    def stop(self) -> int:
        for work in self.works:
            work.stop()
        equal(self.got.hexdigest(), self.sent.hexdigest(), f"{self.works[0].name}: what was received of {self.bytes} bytes")
        return self.bytes


def connection(inside: Namespace, outside: Namespace, port: int) -> tuple[socket.socket, socket.socket]:
    """A TCP connection through the gateway: the ends inside and outside."""
    with outside.inside():
        listener = socket.create_server(("", port))
    with inside.inside():
        here = socket.socket()
    here.settimeout(10)
    here.connect((OUTSIDE, port))
    there, _ = listener.accept()
    there.settimeout(10)
    listener.close()
    return here, there


class Questions:
    """Datagrams with a number, each answered before the next one. One that has no answer is sent again."""

    def __init__(self, inside: Namespace, outside: Namespace, port: int):
        with outside.inside():
            self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with inside.inside():
            self.client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.bind(("", port))
        self.server.settimeout(0.2)
        self.client.settimeout(1)
        self.client.connect((OUTSIDE, port))
        self.number = 0
        self.clients: set[tuple[str, int]] = set()
        self.works = (Work("UDP, client", self.ask), Work("UDP, server", self.answer))

    def ask(self) -> None:
        self.number += 1
        word = str(self.number).encode()
        for _ in range(5):
            self.client.send(word)
            with contextlib.suppress(TimeoutError):
                while (got := self.client.recv(100)) != word:
                    check(int(got) < self.number, f"an answer {got!r} to question {self.number}")
                time.sleep(0.01)
                return
        raise AssertionError(f"question {self.number} has no answer")

    def answer(self) -> None:
        with contextlib.suppress(TimeoutError):
            word, client = self.server.recvfrom(100)
            self.clients.add(client)
            self.server.sendto(word, client)

    def stop(self) -> int:
        for work in self.works:
            work.stop()
        return self.number


class Files:
    """A control connection of FTP in active mode, and one file after the other, there and back."""

    def __init__(self, inside: Namespace):
        self.inside = inside
        with inside.inside():
            self.ftp = ftplib.FTP()
            self.ftp.set_pasv(False)
            self.ftp.connect(OUTSIDE, 21, timeout=10)
            self.ftp.login()
        self.number = 0
        self.work = Work("FTP", self.file, self.ftp.quit)

    def file(self) -> None:
        content = random.Random(self.number).randbytes(200_000)
        got = io.BytesIO()
        # The listening sockets of data connections belong into the namespace too.
        with self.inside.inside():
            self.ftp.storbinary(f"STOR {self.number}", io.BytesIO(content))
            self.ftp.retrbinary(f"RETR {self.number}", got.write)
        equal(got.getvalue() == content, True, f"file {self.number} of {len(content)} bytes, {len(got.getvalue())} came back")
        self.number += 1
        time.sleep(0.05)

    def stop(self) -> int:
        return self.work.stop()


@case(Plain, seconds=60)
def four_million_flows_and_hot_swaps_break_nothing(lab: Lab) -> None:
    middle, inside, outside = lab.namespace("r"), lab.namespace("h1"), lab.namespace("h2")
    for i, (host, address) in enumerate(((inside, INSIDE), (outside, OUTSIDE))):
        lab.veth(middle, f"eth{i}", host, "eth0")
        host.ip("addr", "add", f"{address}/24", "dev", "eth0")
    inside.ip("route", "add", "default", "via", "10.0.1.1")
    path = lab.dir / "gateway.click"
    path.write_text(configuration(fill=True))
    router = Router(lab, middle, path, "-R", "-j", "2")
    least = [0]

    def size() -> int:
        return int(router.read("nat.size"))

    def look() -> None:
        least[0] = min(least[0], size())
        time.sleep(0.1)

    def swap(text: str) -> None:
        done = subprocess.run([the_binary(), "write", "--socket", router.socket, "hotconfig", "-"], text=True, input=text,
                              capture_output=True, timeout=20, check=False)
        equal(done.returncode, 0, done.stderr)

    wait_for(f"{FLOWS} flows", lambda: size() >= FLOWS, 25, 0.1)
    swap(configuration(fill=False))
    least[0] = size()
    wait_for("a ping through the gateway", lambda: ping(inside, OUTSIDE), 5)
    echo(outside, "outside", 7000)
    outside.popen("/usr/bin/python3", "-c", FTP, log="ftp.log")
    wait_for("the FTP server", lambda: ":21 " in outside.sh("ss", "-Hltn"), 5)
    connections = [Connection(inside, OUTSIDE, 7000) for _ in range(50)]
    up, down = connection(inside, outside, 7001), connection(inside, outside, 7002)
    questions, files, looks = Questions(inside, outside, 7003), Files(inside), Work("nat.size", look)
    transfers = Transfer("TCP to the outside", *up), Transfer("TCP to the inside", *reversed(down))
    pings = inside.popen("ping", "-i", "0.05", "-W", "2", OUTSIDE, log="ping.log")
    same: dict[str, str] = {}
    for changes in (same, {"MAPPING_CAPACITY $CAPACITY": "MAPPING_CAPACITY $CAPACITY, UDP_TIMEOUT 10m"},
                    {"$CAPACITY 4000000": "$CAPACITY 5000000"}, {"$CAPACITY 4000000": "$CAPACITY 8000000"}, same):
        time.sleep(0.5)
        swap(configuration(fill=False, changes=changes))
        for number, one in enumerate(connections):
            equal(one.ask(str(number)), ["outside", "192.0.2.1", str(number)], f"connection {number} after a hot swap")
    time.sleep(0.5)
    for name, stop in (("questions", questions.stop), ("files", files.stop), ("sizes", looks.stop)):
        check(stop() > 5, f"hardly any {name}")
    for transfer in transfers:
        check(transfer.stop() > 1_000_000, f"{transfer.bytes} bytes")
    equal(len(questions.clients), 1, "addresses and ports that the UDP server has seen")
    # As Ctrl-C does: ping says how many it has lost.
    pings.send_signal(2)
    pings.wait(5)
    text = pings.log.read_text()
    sums = re.search(r"(\d+) packets transmitted, (\d+) received", text)
    check(sums, text)
    sent, received = map(int, sums.groups()) if sums else (0, 0)
    check(sent > 50 and received >= sent - 1, f"{sent} pings, {received} answers")
    check(least[0] >= FLOWS, f"only {least[0]} flows")
    equal(router.read("nat.mapping_failures").strip(), "0", "flows that could not be made")
    status = pathlib.Path(f"/proc/{router.pid}/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]
    check(peak < MOST_MEMORY_KB, f"{peak} kB of memory")
