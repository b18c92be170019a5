"""Numbered UDP packets between hosts of a lab: what was sent and what arrived, so that the losses of an event can be counted.

One process sends for all hosts and one receives for all; both write into memory that is shared with this one. A mark is a
moment; between two marks every packet is accounted for:

    streams = Streams(lab, {("h1", "h2"): (space1, space2, "10.0.2.2", 500)}, size=1400, flows=8)
    before = streams.mark()
    ...                                      # the event
    after = streams.mark()
    streams.between(before, after)           # {("h1", "h2"): Count(sent=..., lost=..., gap=...)}
"""

import mmap
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, Self, TypeVar

from lab import Lab, Namespace

PORT = 9000
ROOM = 1 << 18  # packets for each pair
HEAD = struct.Struct("!HHI")  # pair, flow, number
# A pair of hosts, as Streams gets it: sending and receiving namespace, address, packets a second.
Pair = tuple[Namespace, Namespace, str, float]
Name = TypeVar("Name", bound=Hashable)
# A moment: when, and how many packets of each pair were sent by then.
Mark = tuple[float, list[int]]
Totals = tuple[float, dict[Name, tuple[int, int]]]


class Count(NamedTuple):
    """The packets between two marks: how many were sent and lost."""

    sent: int
    lost: int
    # The longest run of lost packets, in seconds.
    gap: float
    seconds: float


class Streams(Generic[Name]):
    """Streams between pairs of hosts, which start when the object is made.

    `pairs`: name -> (sending namespace, receiving namespace, address, packets a second).
    """

    def __init__(self, lab: Lab, pairs: Mapping[Name, Pair], size: int = 200, flows: int = 8, port: int = PORT,
                 sources: Sequence[int] = ()):
        self.lab, self.pairs, self.size, self.port = lab, dict(pairs), size, port
        # The source port of each flow.
        self.sources = sources or range(20000, 20000 + flows)
        self.names = list(self.pairs)
        n = len(self.names)
        self.sent = memoryview(mmap.mmap(-1, max(4096, n * 8))).cast("Q")
        self.late = memoryview(mmap.mmap(-1, max(4096, n * 8))).cast("Q")
        self.arrived = [mmap.mmap(-1, ROOM) for _ in range(n)]
        self.children: list[int] = []
        self._start(self._send)
        self._start(self._receive)

    def _start(self, job: Callable[[int], None]) -> None:
        ready, done = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(s, signal.SIG_DFL)
                os.close(ready)
                # The process that removes the lab waits until its pipe is closed, so a stream must not keep it open.
                self.lab.forget()
                job(done)
            finally:
                os._exit(0)
        os.close(done)
        self.children.append(pid)
        os.read(ready, 1)
        os.close(ready)

    def _send(self, done: int) -> None:
        jobs = []
        sockets: dict[tuple[str, int], socket.socket] = {}
        for i, (space, _, to, rate) in enumerate(self.pairs.values()):
            for source in self.sources:
                key = space.name, source
                if key not in sockets:
                    with space.inside():
                        s = sockets[key] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        s.setblocking(False)
                        s.bind(("0.0.0.0", source))
            jobs.append((i, (to, self.port), rate, [sockets[space.name, source] for source in self.sources]))
        data = bytearray(self.size)
        os.write(done, b"r")
        os.close(done)
        parent, began = os.getppid(), time.monotonic()
        while os.getppid() == parent:
            elapsed = time.monotonic() - began
            for i, target, rate, ways in jobs:
                number = self.sent[i]
                # After a delay the missed packets are not sent in one burst: the schedule is shifted.
                due = min(int(elapsed * rate), number + 64, ROOM)
                while number < due:
                    flow = number % len(ways)
                    HEAD.pack_into(data, 0, i, flow, number)
                    try:
                        ways[flow].sendto(data, target)
                    except OSError:
                        # Counted as sent and lost: a packet that the host could not send did not arrive either.
                        pass
                    number += 1
                self.sent[i] = number
            time.sleep(0.002)

    def _receive(self, done: int) -> None:
        poll = select.epoll()
        by_fd: dict[int, socket.socket] = {}
        seen: set[str] = set()
        for _, space, _, _ in self.pairs.values():
            if space.name in seen:
                continue
            seen.add(space.name)
            with space.inside():
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
                s.setblocking(False)
                s.bind(("0.0.0.0", self.port))
            by_fd[s.fileno()] = s
            poll.register(s, select.EPOLLIN)
        os.write(done, b"r")
        os.close(done)
        parent, buffer, arrived = os.getppid(), bytearray(64), self.arrived
        last: dict[tuple[int, int], int] = {}
        while os.getppid() == parent:
            for fd, _ in poll.poll(0.2):
                s = by_fd[fd]
                try:
                    while s.recv_into(buffer) >= HEAD.size:
                        pair, flow, number = HEAD.unpack_from(buffer)
                        if pair < len(arrived) and number < ROOM and arrived[pair][number] < 255:
                            arrived[pair][number] += 1
                            if number < last.get((pair, flow), 0):
                                self.late[pair] += 1
                            else:
                                last[pair, flow] = number
                except BlockingIOError:
                    pass
            time.sleep(0.001)

    def mark(self) -> Mark:
        return time.monotonic(), [self.sent[i] for i in range(len(self.names))]

    def totals(self) -> Totals[Name]:
        """What has been sent and what has arrived so far, and when: (time, {name: (sent, arrived)})."""
        return time.monotonic(), {name: (self.sent[i], ROOM - self.arrived[i][:].count(0)) for i, name in enumerate(self.names)}

    @staticmethod
    def rates(before: Totals[Name], after: Totals[Name]) -> dict[Name, tuple[float, ...]]:
        """Packets sent and arrived a second between two totals. Where queues are full, packets that arrive are not those that are sent."""
        seconds = after[0] - before[0]
        return {name: tuple((b - a) / seconds for a, b in zip(before[1][name], after[1][name])) for name in after[1]}

    def got(self, name: Name, since: Mark) -> int:
        """How many packets of a pair have arrived of those that were sent after a mark."""
        i = self.names.index(name)
        return (self.sent[i] - since[1][i]) - self.arrived[i][since[1][i]:self.sent[i]].count(0)

    def between(self, before: Mark, after: Mark, settle: float = 0.5) -> dict[Name, Count]:
        """The packets that were sent between two marks, for each pair: how many were sent and lost."""
        wait = after[0] + settle - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        counts = {}
        for i, name in enumerate(self.names):
            first, last, rate = before[1][i], after[1][i], self.pairs[name][3]
            got = self.arrived[i][first:last]
            longest = max((len(run) for run in got.translate(SEEN).split(b"\1")), default=0)
            counts[name] = Count(last - first, got.count(0), longest / rate, after[0] - before[0])
        return counts

    def duplicates(self) -> int:
        """How many packets have arrived more than once."""
        return sum(sum(n - 1 for n in a[:ROOM] if n > 1) for a in self.arrived)

    def overtaken(self) -> int:
        """How many packets have arrived after a later one of their flow."""
        return sum(self.late[i] for i in range(len(self.names)))

    def stop(self) -> None:
        for pid in self.children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        self.children = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


SEEN = bytes([0]) + b"\1" * 255
