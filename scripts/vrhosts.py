"""What the experiments with virtual routers share: status and priority of a host, and windows in which workers had their processors."""

import json
import os
import pathlib
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from sidebyside import on_processor, pinned

# Of the time, for a worker that has its processor for itself.
WHOLE = 0.96


def status(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """What `valiant vr status --json` prints for the host with this directory, without the processor time of that command."""
    with socket.socket(socket.AF_UNIX) as client, client.makefile("rw") as lines:
        client.connect(str(pathlib.Path(directory) / "host.control"))
        lines.write('"status"\n')
        lines.flush()
        answer: dict[str, Any] = json.loads(lines.read())
        return answer


def port_sent(directory: str | os.PathLike[str], name: str) -> int:
    """Packets that a port of the host has sent."""
    return next(int(port["sent"]) for port in status(directory)["ports"] if port["name"] == name)


def come_first(pid: int, cpu: int) -> None:
    """The worker of a process on this core gets the highest priority: a time slice of another thread is longer than a port's ring."""
    for thread in pinned(pid, cpu):
        os.setpriority(os.PRIO_PROCESS, thread, -20)


def window(count: Callable[[], int], workers: Sequence[Sequence[int]], seconds: float) -> tuple[float, list[float]]:
    """Packets a second by what `count` returns, and for how much of the time the threads of each worker were on their processor."""
    before, began = count(), time.monotonic()
    used = [on_processor(threads) for threads in workers]
    time.sleep(seconds)
    after, took = count(), time.monotonic() - began
    return (after - before) / took, [(on_processor(threads) - was) / took for threads, was in zip(workers, used)]


def whole_window(count: Callable[[], int], workers: Sequence[Sequence[int]], seconds: float) -> tuple[float, list[float]]:
    """The same, again if a worker did not have its processor, up to six times: of all tries the one in which the least busy had most."""
    windows: list[tuple[float, list[float]]] = []
    while len(windows) < 6 and (not windows or max(min(shares) for _, shares in windows) < WHOLE):
        windows.append(window(count, workers, seconds))
    return max(windows, key=lambda one: min(one[1]))


def spread(values: Sequence[float], form: str = "{:.2f}") -> str:
    """The median, with the least and the most."""
    least, most = form.format(min(values)), form.format(max(values))
    return form.format(statistics.median(values)) + (f" ({least} to {most})" if len(values) > 1 else "")
