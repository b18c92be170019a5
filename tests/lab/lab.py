#!/usr/bin/python3
"""Networks of namespaces for the demo and the namespace tests.

A `Lab` makes namespaces, veth pairs and processes under a name of its own, so that several labs live side by side, and
takes all of it away again: at the end of the `with` block, on an exception, on SIGINT, SIGTERM and SIGHUP, and (through
a guard process that outlives this one) even when this process is killed outright. Standard library only.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self, TypeVar

from control import ROOT, ControlSocket, LabError

RUN = pathlib.Path("/run")
NEEDED = ("ip", "ethtool", "sysctl")
T = TypeVar("T")


def target_dir() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def valiant_binary(profile: str = "release") -> str | None:
    """The `valiant` to use: $VALIANT, else the one that cargo built, else None."""
    given = os.environ.get("VALIANT")
    if given:
        return os.path.abspath(given) if os.access(given, os.X_OK) else None
    for name in (profile, "release", "quick", "debug"):
        path = target_dir() / name / "valiant"
        if path.exists():
            return str(path)
    return None


def the_binary() -> str:
    """As `valiant_binary`, but raises an error if there is none."""
    found = valiant_binary()
    if not found:
        raise LabError("no valiant binary; build one with: make build")
    return found


def sh(*args: str, check: bool = True, timeout: float = 20, **kw: Any) -> str:
    """Run a short command; return its standard output. An error contains the command and its output."""
    try:
        done = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False, **kw)
    except FileNotFoundError:
        raise LabError(f"{args[0]} is not installed; run scripts/bootstrap") from None
    except subprocess.TimeoutExpired as late:
        if check:
            raise LabError(f"{' '.join(args)}: no end after {timeout} s") from None
        return (late.stdout or b"").decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(args)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return done.stdout


def wait_for(what: str, probe: Callable[..., T], seconds: float, step: float = 0.02) -> T:
    """Call probe() until it returns a true value, which is returned. Raises LabError after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        got = probe()
        if got:
            return got
        if time.monotonic() > end:
            raise LabError(f"{what}: not within {seconds} s")
        time.sleep(step)


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used so far, all its threads, in seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def thread_seconds(pid: int) -> dict[str, float]:
    """The same for each of its threads, by number and name."""
    used = {}
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        head, _, rest = stat.read_text().rpartition(")")
        fields = rest.split()
        used[head.replace("(", "")] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def cores() -> list[int]:
    """The cores this process may use."""
    return sorted(os.sched_getaffinity(0))


def remove(name: str) -> None:
    """Remove everything that a lab of this name may have left behind."""
    for _ in range(3):
        spaces = [n for n in namespaces() if n.startswith(name + "-")]
        pids = {int(p) for n in spaces for p in sh("ip", "netns", "pids", n, check=False).split()} - {os.getpid()}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _ in range(50):
            if not any(pathlib.Path(f"/proc/{p}").exists() for p in pids):
                break
            time.sleep(0.02)
        for space in spaces:
            sh("ip", "netns", "del", space, check=False)
        if not spaces:
            break
    for path in (RUN / name, *(RUN / "dpdk").glob(name + "-*")):
        shutil.rmtree(path, ignore_errors=True)


def namespaces() -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(os.listdir(RUN / "netns"))
    return []


class Namespace:
    """One network namespace of a lab: a host or a router."""

    def __init__(self, lab: "Lab", short: str):
        self.lab, self.short, self.name = lab, short, f"{lab.name}-{short}"
        sh("ip", "netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        # Duplicate address detection and router solicitations are noise on a wire that tests look at.
        for key in ("all", "default"):
            self.sh("sysctl", "-qw", f"net.ipv6.conf.{key}.disable_ipv6=1", check=False)

    def ip(self, *args: str, **kw: Any) -> str:
        return sh("ip", "-n", self.name, *args, **kw)

    def command(self, *args: object) -> list[str]:
        return ["ip", "netns", "exec", self.name, *map(str, args)]

    def sh(self, *args: object, **kw: Any) -> str:
        return sh(*self.command(*args), **kw)

    def popen(self, *args: object, **kw: Any) -> "Process":
        return self.lab.popen(*self.command(*args), **kw)

    def mac(self, dev: str) -> str:
        return str(json.loads(self.ip("-json", "link", "show", dev))[0]["address"])

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Run the block with this thread in the namespace (for packet sockets)."""
        with open("/proc/thread-self/ns/net") as home, open(RUN / "netns" / self.name) as there:
            setns(there.fileno())
            try:
                yield
            finally:
                setns(home.fileno())


def setns(fd: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, 0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "setns")


class Process(subprocess.Popen[Any]):
    """A process of a lab, and the file with its output."""

    log = pathlib.Path(os.devnull)


class Lab:
    """A set of namespaces and processes that are removed together."""

    def __init__(self, prefix: str = "vl"):
        if os.geteuid() != 0:
            raise LabError("network namespaces need root; run this with sudo")
        missing = [tool for tool in NEEDED if not shutil.which(tool)]
        if missing:
            raise LabError(f"missing: {', '.join(missing)}; run scripts/bootstrap")
        self.name = f"{prefix}{os.getpid():x}{os.urandom(2).hex()}"
        self.dir = RUN / self.name
        self.spaces: dict[str, Namespace] = {}
        # Processes of any type that can be terminated and waited for.
        self.processes: list[Any] = []
        self.keep = False

    def __enter__(self) -> Self:
        self._old = {s: signal.signal(s, self._signal) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        self._guard()
        self.dir.mkdir(mode=0o755)
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not interrupt the cleanup.
        for s in self._old:
            signal.signal(s, signal.SIG_IGN)
        if self.keep:
            os.write(self._pipe, b"k")
        else:
            self.stop(*self.processes)
            remove(self.name)
        os.close(self._pipe)
        if not self.keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._guard_pid, 0)
        for s, handler in self._old.items():
            signal.signal(s, handler)

    def _signal(self, number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def _guard(self) -> None:
        """A child process that waits until this process ends, also by a crash, and then removes the lab."""
        read, self._pipe = os.pipe()
        self._guard_pid = os.fork()
        if self._guard_pid:
            os.close(read)
            return
        try:
            os.close(self._pipe)
            os.setsid()
            for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(s, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            os.closerange(3, read)
            os.closerange(read + 1, 256)
            if os.read(read, 1) != b"k":
                remove(self.name)
        finally:
            os._exit(0)

    def forget(self) -> None:
        """For a forked child: the lab belongs to the parent, and the child does not remove it."""
        os.close(self._pipe)

    def namespace(self, short: str) -> Namespace:
        space = self.spaces[short] = Namespace(self, short)
        return space

    def veth(self, a: Namespace, dev_a: str, b: Namespace, dev_b: str, mtu: int = 1500, queues: int = 1,
             offload: bool = False, segments: bool = False) -> None:
        """A cable between two namespaces. Without `offload` every frame on it is complete: no partial checksums, no
        super-frames, so a port receives what a real cable would carry. With `segments` the hosts send large segments."""
        ends = ("numrxqueues", str(queues), "numtxqueues", str(queues))
        sh("ip", "link", "add", dev_a, "netns", a.name, "mtu", str(mtu), *ends, "type", "veth",
           "peer", "name", dev_b, "netns", b.name, "mtu", str(mtu), *ends)
        for space, dev in ((a, dev_a), (b, dev_b)):
            self.offload(space, dev, offload, segments)
            space.ip("link", "set", dev, "up")

    @staticmethod
    def offload(space: Namespace, dev: str, checksums: bool, segments: bool = False) -> None:
        """Transmit checksums and segmentation offloads are set as requested; large segments have partial checksums."""
        settings = {"tx": checksums or segments, "tso": segments, "gso": segments, "gro": False, "tx-udp-segmentation": segments}
        words = [word for name, on in settings.items() for word in (name, "on" if on else "off")]
        space.sh("ethtool", "-K", dev, *words, check=False)

    def popen(self, *args: object, log: str | None = None, **kw: Any) -> Process:
        """Start a process that ends with the lab. Its output goes to `log` under the lab's directory, or nowhere."""
        if log:
            kw["stdout"] = open(self.dir / log, "w")
            kw["stderr"] = subprocess.STDOUT
        kw.setdefault("stdout", subprocess.DEVNULL)
        kw.setdefault("stderr", subprocess.STDOUT)
        kw.setdefault("stdin", subprocess.DEVNULL)
        process = Process([str(a) for a in args], start_new_session=True, **kw)
        if log:
            process.log = self.dir / log
        self.processes.append(process)
        return process

    def stop(self, *processes: Any, grace: float = 3) -> list[int]:
        """Stop processes with SIGTERM, later with SIGKILL. Returns their exit codes."""
        for p in processes:
            if p.poll() is None:
                p.terminate()
        end = time.monotonic() + grace
        for p in processes:
            try:
                p.wait(max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(p.pid, signal.SIGKILL)
                p.wait()
            if p in self.processes:
                self.processes.remove(p)
        return [p.returncode for p in processes]


class Router:
    """`valiant run` in a namespace, with a control socket."""

    def __init__(self, lab: Lab, space: Namespace, conf: str | os.PathLike[str], *args: object, log: str = "valiant.log",
                 cpu: int | None = None, binary: str | None = None, seconds: float = 20, env: dict[str, str] | None = None):
        binary = binary or the_binary()
        self.lab, self.socket = lab, lab.dir / f"{space.short}-{log}.sock"
        pin = ["taskset", "-c", str(cpu)] if cpu is not None else []
        self.process = space.popen(*pin, binary, "run", conf, "-u", self.socket, *args, log=log, env=env)
        try:
            wait_for("the router's control socket", self._ready, seconds)
        except LabError:
            raise LabError(f"valiant run did not start:\n{self.output()}") from None
        # `ip netns exec` and `taskset` replace themselves by the router, so this is its process id.
        self.pid = self.process.pid

    def _ready(self) -> bool:
        if self.process.poll() is not None:
            raise LabError("ended")
        if not self.socket.exists():
            return False
        try:
            ControlSocket(self.socket).close()
        except OSError:
            return False
        return True

    def output(self) -> str:
        return self.process.log.read_text(errors="replace")

    def alive(self) -> bool:
        return self.process.poll() is None

    def control(self) -> ControlSocket:
        return ControlSocket(self.socket)

    def read(self, handler: str) -> str:
        with contextlib.closing(self.control()) as control:
            return control.read(handler)

    def stop(self) -> int:
        code = self.lab.stop(self.process)[0]
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()
        return code


def main(args: list[str]) -> int:
    """tests/lab/lab.py list | remove NAME | remove --all"""
    found = sorted({n.rpartition("-")[0] for n in namespaces() if n.startswith("vl") and "-" in n})
    if args == ["list"]:
        print("\n".join(found))
    elif args == ["remove", "--all"]:
        for name in found:
            remove(name)
    elif len(args) == 2 and args[0] == "remove" and args[1].startswith("vl"):
        remove(args[1])
    else:
        print(main.__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
