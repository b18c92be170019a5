"""What a router says of itself: to its service manager, when workers hang, when it crashes, and what killed ones leave behind."""

import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess

from harness import LabError, Plain, Router, case, check, equal, wait_for
from lab import Lab, the_binary

KEY = "000102030405060708090a0b0c0d0e0f10111213"


def tgkill(process: int, thread: int, number: int) -> None:
    """Send a signal to one thread of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(234, process, thread, number) != 0:
        raise OSError(ctypes.get_errno(), "tgkill")


def thread_of(pid: int, name: str) -> int:
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int(task.name)
    raise LabError(f"process {pid} has no thread {name}")


@case(Plain)
def a_worker_that_hangs_is_named_with_the_element_it_is_in(lab: Lab) -> None:
    space = lab.namespace("r")
    pipe = lab.dir / "pipe"
    os.mkfifo(pipe)
    # Somebody has the other end and reads nothing: a full pipe keeps whoever writes into it.
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    conf = lab.dir / "hang.click"
    conf.write_text("FromDevice(net_null0) -> before :: Counter\n"
                    f"  -> bad :: ToDump({pipe}, SNAPLEN 0) -> Discard;\n")
    router = Router(lab, space, conf, "--watchdog", "1")
    wait_for("word of the worker", lambda: "worker 0 is stuck" in router.output(), 15)
    line = next(x for x in router.output().splitlines() if "is stuck" in x)
    check("'bad :: ToDump'" in line, line)
    check("'bad :: ToDump'" in router.read("stuck"), router.read("stuck"))
    check("is stuck in 'bad :: ToDump'" in router.read("cycles"), "valiant stats does not say so")
    # The worker continues when somebody reads, and that is reported too.
    def drained() -> bool:
        with contextlib.suppress(BlockingIOError):
            while os.read(end, 65536):
                pass
        return "worker 0 continues" in router.output()
    wait_for("the worker to go on", drained, 10)
    router.process.send_signal(signal.SIGKILL)
    os.close(end)


@case(Plain)
def a_crash_leaves_a_report_where_nobody_reads_standard_error(lab: Lab) -> None:
    state = lab.dir / "state"
    end, errors = os.pipe()
    process = subprocess.Popen([the_binary(), "run", "-e", "Idle -> Discard; DriverManager(wait 1h)"], stderr=errors,
                               env={**os.environ, "STATE_DIRECTORY": str(state)})
    try:
        handled = 1 << (signal.SIGSEGV - 1)
        status = pathlib.Path(f"/proc/{process.pid}/status")

        def running() -> int:
            caught = next(int(x.split()[1], 16) for x in status.read_text().splitlines() if x.startswith("SigCgt"))
            return caught & handled and caught & 1 << (signal.SIGTERM - 1)

        wait_for("the router to run", running, 15)
        os.set_blocking(errors, False)
        for block in (b"x" * 4096, b"x"):
            with contextlib.suppress(BlockingIOError):
                while os.write(errors, block):
                    pass
        # Blocking or not is a matter of the pipe, not of the process.
        os.set_blocking(errors, True)
        process.send_signal(signal.SIGSEGV)
        process.wait(30)
    finally:
        process.kill()
        os.close(end)
        os.close(errors)
    equal(-process.returncode, signal.SIGSEGV, "how it ended")
    reports = list(state.iterdir()) if state.exists() else []
    equal(len(reports), 1, "reports")
    check("Backtrace:" in reports[0].read_text(), reports[0].read_text())


@case(Plain)
def a_crash_leaves_a_report_without_keys_that_only_its_owner_can_read(lab: Lab) -> None:
    space = lab.namespace("r")
    state = lab.dir / "state"
    conf = lab.dir / "crash.click"
    conf.write_text("sad :: IPsecSAD(CAPACITY 16);\n"
                    f"Script(wait 1h, write sad.add in 4097 10.0.0.1 10.0.0.2 aes-gcm {KEY});\n"
                    "FromDevice(net_null0) -> c :: Counter -> last :: Discard;\n")
    for target in ("process", "worker-0", "valiant-watchdo"):
        with contextlib.ExitStack() as undo:
            os.environ["STATE_DIRECTORY"] = str(state)
            undo.callback(os.environ.pop, "STATE_DIRECTORY")
            router = Router(lab, space, conf, log=f"{target}.log")
        with contextlib.closing(router.control()) as control:
            control.write("sad.add", f"in 4098 10.0.0.1 10.0.0.2 aes-gcm {KEY}")
        if target == "process":
            os.kill(router.pid, signal.SIGSEGV)
        else:
            tgkill(router.pid, thread_of(router.pid, target), signal.SIGBUS)
        router.process.wait(10)
        sent = signal.SIGSEGV if target == "process" else signal.SIGBUS
        # Only the main thread and the workers have a stack for handlers on which the frames are sure to be found.
        found = target != "valiant-watchdo"
        check(-router.process.returncode in ({sent} if found else {sent, signal.SIGSEGV}), router.process.returncode)
        said = router.output()
        report = next(iter(state.iterdir()))
        check(f"crash report: {report}" in said, said)
        check(target != "worker-0" or "worker 0 in element" in said, said)
        equal(report.stat().st_mode & 0o7777, 0o600, "who can read it")
        check(report.stat().st_size < 256 << 10, "it is too large")
        text = report.read_text()
        for wanted in ("worker 0, thread", "write sad.add (", "/valiant+0x", "c :: Counter", "sad :: IPsecSAD(CAPACITY 16)",
                       "write sad.add in 4097 10.0.0.1 10.0.0.2 aes-gcm (left out)"):
            check(wanted in text, f"no `{wanted}` in\n{text}")
        check(KEY not in text and KEY[:32] not in text, "the key is in it")
        check(target != "worker-0" or "<- here" in text, text)
        check(re.search(r"^instruction 0x[0-9a-f]+ [/[].*[+]0x", text, re.M), text)
        check(not found or "#1 " in text, text)
        report.unlink()


@case(Plain)
def under_the_name_click_nothing_is_written_but_what_click_writes(lab: Lab) -> None:
    state, click = lab.dir / "state", lab.dir / "click"
    click.symlink_to(the_binary())
    log = lab.dir / "click.log"
    with open(log, "w") as out:
        process = subprocess.Popen([click, "-e", "Idle -> Discard"], stderr=out, stdout=out,
                                   env={**os.environ, "STATE_DIRECTORY": str(state)})
        try:
            wait_for("it to run", lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text().strip() == "click"
                     and len(list(pathlib.Path(f"/proc/{process.pid}/task").iterdir())) > 1, 5)
            process.send_signal(signal.SIGABRT)
            process.wait(5)
        finally:
            process.kill()
    equal(log.read_text(), "", "what it says")
    check(not state.exists(), "it has left a report")


@case(Plain)
def the_service_manager_is_told_when_a_router_is_ready_and_when_it_stops(lab: Lab) -> None:
    space, path = lab.namespace("r"), lab.dir / "notify"
    conf = lab.dir / "service.click"
    conf.write_text("FromDevice(net_null0) -> Discard;\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        # The router connects as the user that it becomes.
        path.chmod(0o666)
        lab.dir.chmod(0o755)
        manager.settimeout(15)
        router = Router(lab, space, conf, "--user", "nobody", env={**os.environ, "NOTIFY_SOCKET": str(path)})
        equal(manager.recv(4096), b"READY=1", "the first thing that it says")
        check("runs as nobody" in router.output(), "it is ready before it has given up its rights")
        equal(router.stop(), 0, "how it ended")
        equal(manager.recv(4096), b"STOPPING=1", "the last thing that it says")
        manager.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            check(False, f"it says more: {manager.recv(4096)!r}")


@case(Plain)
def folders_of_killed_routers_go_when_the_next_one_starts(lab: Lab) -> None:
    space = lab.namespace("r")
    base = pathlib.Path("/var/run/dpdk")
    conf = lab.dir / "null.click"
    conf.write_text("FromDevice(net_null0) -> Discard;\n")
    # No process has such a number (PID_MAX_LIMIT); the other one is this process'.
    dead, living = base / f"valiant-{10_000_000 + os.getpid()}", base / f"valiant-{os.getpid()}"
    for folder in (dead, living):
        folder.mkdir(mode=0o700, parents=True)
    try:
        # Killed while it starts, at whatever point.
        for delay in (0.02, 0.05, 0.1):
            process = subprocess.Popen([the_binary(), "run", conf], stderr=subprocess.DEVNULL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(delay)
            process.kill()
            process.wait()
            killed = base / f"valiant-{process.pid}"
            router = Router(lab, space, conf, log=f"{delay}.log")
            check(not dead.exists() and not killed.exists(), "the dead one's folder is still there")
            check(not (base / f"valiant-{router.pid}").exists(), "its own folder is still there")
            check(living.exists(), "a living process' folder is gone")
            router.process.kill()
    finally:
        for folder in (dead, living):
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()
