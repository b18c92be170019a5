"""`valiant vr` with a router in a process of its own, beside one in the common process."""

import json
import os
import pathlib
import signal
import subprocess
from typing import Any

from harness import Plain, case, check, equal, ping, wait_for
from lab import Lab, Process, the_binary
from test_rights import NOBODY, alive, status
from test_virtual_routers import PROGRAM, lost, stream

ROOT = pathlib.Path("/sys/fs/cgroup")


def groups(host: str) -> list[pathlib.Path]:
    """The control groups of hosts of this name."""
    return [path for path in ROOT.rglob(f"valiant-{host}-*") if path.is_dir()]


class Host:
    """`blue` (10.1, 10.2) has its ports alone, `red` (10.3, 10.4) is in the common process; two Linux hosts for each."""

    def __init__(self, lab: Lab, blue: str = "direct", extra: str = "", name: str = "edge"):
        self.lab, self.file, self.name = lab, lab.dir / f"{name}.toml", name
        self.gate = lab.namespace("g")
        self.hosts = {}
        for net in range(1, 5):
            host = self.hosts[net] = lab.namespace(f"h{net}")
            lab.veth(self.gate, f"eth{net}", host, "eth0")
            other = net + 1 if net % 2 else net - 1
            host.ip("addr", "add", f"10.{net}.0.2/24", "dev", "eth0")
            host.ip("route", "add", f"10.{other}.0.0/24", "via", f"10.{net}.0.1")
        self.program = lab.dir / "blue.click"
        for name in ("blue", "red"):
            (lab.dir / f"{name}.click").write_text(PROGRAM.read_text())
        self.write(blue, extra)
        # `ip netns exec` hides the control groups.
        mounts = f"--mount=/proc/{os.getpid()}/ns/mnt"
        self.process: Process = self.gate.popen("nsenter", mounts, "--", the_binary(), "vr", "run", self.file, "--no-huge", log="vr.log")
        wait_for("the host's socket", (lab.dir / "run" / "host.control").exists, 10)
        wait_for("the routers", lambda: all(r["running"] for r in self.routers().values()), 10)

    def write(self, blue: str = "direct", extra: str = "", routers: str = "blue red") -> None:
        """The host file; `extra` is what the entry of blue has besides."""
        text = f'[host]\ncores = [0]\ndirectory = "{self.lab.dir}/run"\n'
        for net in range(1, 5):
            text += f'[port.net{net}]\ndevice = "eth{net}"\n'
        for name, net, scheme in (("blue", 1, blue), ("red", 3, "shared")):
            if name not in routers:
                continue
            text += f'[router.{name}]\nprogram = "{name}.click"\nscheme = "{scheme}"\n'
            text += extra if name == "blue" else ""
            text += f'[router.{name}.variables]\nUPLINK = "10.{net}.0.2"\n'
            for number in range(2):
                at = f"10.{net + number}.0"
                text += f'IP{number} = "{at}.1"\nNET{number} = "{at}.0/24"\nBCAST{number} = "{at}.255"\n'
            for number in range(2):
                text += f'[[router.{name}.interface]]\nport = "net{net + number}"\nwhole = true\n'
        self.file.write_text(text)

    def vr(self, command: str, *args: str) -> str:
        """The output of `valiant vr COMMAND FILE ARGS`."""
        return self.gate.sh(the_binary(), "vr", command, self.file, *args)

    def fails(self, command: str, *args: str) -> str:
        """What a command that must fail says."""
        words = self.gate.command(the_binary(), "vr", command, self.file, *args)
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        check(done.returncode == 1, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stderr

    def routers(self) -> dict[str, Any]:
        """The routers of `valiant vr status --json` by name."""
        return {router["name"]: router for router in json.loads(self.vr("status", "--json"))["routers"]}

    def blue(self) -> bool:
        """Whether blue forwards."""
        return ping(self.hosts[1], "10.2.0.2")

    def red(self) -> bool:
        """Whether red forwards."""
        return ping(self.hosts[3], "10.4.0.2")

    def handler(self, router: str, name: str) -> str:
        """A read handler of a router, by its own socket."""
        return self.gate.sh(the_binary(), "read", "--socket", self.lab.dir / "run" / f"{router}.sock", name).strip()


def confined(process: int, uid: int) -> None:
    """Every thread has given up what it does not need."""
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        at = f"{process}/task/{task.name}"
        equal(status(at, "NoNewPrivs"), ["1"], "NoNewPrivs")
        equal(status(at, "Seccomp"), ["2"], "Seccomp")
        equal(status(at, "Uid"), [str(uid)] * 4, "Uid")
        for mask in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"):
            equal(int(status(at, mask)[0], 16), 0, mask)
    for space in ("mnt", "ipc", "uts"):
        check(os.readlink(f"/proc/{process}/ns/{space}") != os.readlink(f"/proc/self/ns/{space}"), f"namespace {space}")


@case(Plain, seconds=90)
def a_router_in_its_own_process_forwards_and_is_confined(lab: Lab) -> None:
    host = Host(lab, extra="share = 3\n")
    wait_for("blue", host.blue, 5)
    wait_for("red", host.red, 5)
    routers = host.routers()
    process = routers["blue"]["process"]
    check(process not in (host.process.pid, routers["red"]["process"]), routers)
    confined(process, NOBODY)
    check(routers["blue"]["interfaces"][0]["received"] > 0 and routers["blue"]["processor_seconds"] is not None, routers)
    # TCP, both ways at once, and its handlers by its own socket.
    server = host.hosts[2].popen("iperf3", "-s", "-1", log="iperf3.log")
    wait_for("iperf3", lambda: ":5201" in host.hosts[2].sh("ss", "-tln"), 5)
    host.hosts[1].sh("iperf3", "-c", "10.2.0.2", "-t", "2")
    server.wait(timeout=10)
    check("rt" in host.handler("blue", "list").split(), "its elements")
    made = [path / "blue" for path in groups("edge")]
    check(made or "no control group" in (lab.dir / "vr.log").read_text(), "neither control groups nor a warning")
    for group in made:
        check(str(process) in (group / "cgroup.procs").read_text().split(), f"{process} is not in {group}")
    table = host.vr("status")
    check(str(process) in table and "direct" in table, table)
    host.vr("down")
    equal(host.process.wait(timeout=10), 0, "the exit status")
    check(not alive(process), "the process of blue runs on")
    equal(list((lab.dir / "run").iterdir()), [], "what is left of sockets")
    equal(groups("edge"), [], "what is left of control groups")


@case(Plain, seconds=90)
def a_killed_process_starts_again_and_harms_nobody(lab: Lab) -> None:
    host = Host(lab)
    wait_for("blue", host.blue, 5)
    wait_for("red", host.red, 5)
    flow = stream(host.hosts[3], "10.4.0.2")
    former = 0
    for failures in (1, 2):
        process = host.routers()["blue"]["process"]
        check(process != former, "the same process")
        former = process
        os.kill(process, signal.SIGKILL)
        wait_for("blue", host.blue, 10)
        equal(host.routers()["blue"]["failures"], failures, "failures")
    equal(lost(flow), 0, "packets lost by red")
    # One that does not go on is noticed too, and ended.
    os.kill(host.routers()["blue"]["process"], signal.SIGSTOP)
    wait_for("a third failure", lambda: host.routers()["blue"]["failures"] == 3, 20)
    wait_for("blue", host.blue, 10)
    # A host that is killed leaves nothing.
    process = host.routers()["blue"]["process"]
    check(alive(process), "a process")
    host.process.kill()
    host.process.wait(timeout=5)
    wait_for("the end of its process", lambda: not alive(process), 5)
    wait_for("no sockets", lambda: not list((lab.dir / "run").iterdir()), 5)
    wait_for("no control groups", lambda: not groups("edge"), 5)


@case(Plain, seconds=60)
def less_memory_than_a_process_uses_is_refused(lab: Lab) -> None:
    host = Host(lab)
    wait_for("blue", host.blue, 5)
    process = host.routers()["blue"]["process"]
    host.write(extra='limits = { memory = "2 MB" }\n')
    told = host.fails("apply")
    check("router blue: the limit memory is 2.0 MB, and" in told, told)
    check(host.blue(), "blue does not forward any more")
    equal(host.routers()["blue"]["process"], process, "the process")
    # Enough for it, with which it starts anew.
    host.write(extra='limits = { memory = "500 MB" }\n')
    equal(host.vr("apply"), "blue: started anew\n", "apply of another limit")
    wait_for("blue", host.blue, 5)


@case(Plain, seconds=90)
def its_scheme_and_program_change_while_others_forward(lab: Lab) -> None:
    host = Host(lab, blue="shared")
    wait_for("blue", host.blue, 5)
    wait_for("red", host.red, 5)
    flow = stream(host.hosts[3], "10.4.0.2", 1200)
    host.write(blue="direct")
    equal(host.vr("apply"), "blue: started anew\n", "apply of another scheme")
    wait_for("blue", host.blue, 5)
    confined(host.routers()["blue"]["process"], NOBODY)
    # Another program: hot-swapped in its process.
    process = host.routers()["blue"]["process"]
    good = host.program.read_text()
    host.program.write_text(good.replace("rt[3] -> Discard;", "rt[3] -> other :: Counter -> Discard;"))
    equal(host.vr("apply"), "blue: program changed, state kept\n", "apply of another program")
    equal(host.handler("blue", "other.count"), "0", "the new element")
    equal(host.routers()["blue"]["process"], process, "the process")
    for _ in range(2):
        host.vr("remove", "blue")
        check(not host.blue() and not alive(process), "blue after it was removed")
        host.vr("add", "blue")
        wait_for("blue", host.blue, 5)
        process = host.routers()["blue"]["process"]
    host.write(blue="shared")
    equal(host.vr("apply"), "blue: started anew\n", "apply of the former scheme")
    wait_for("blue", host.blue, 5)
    equal(lost(flow), 0, "packets lost by red")
    check(not alive(process), "the process of blue runs on")


@case(Plain, seconds=60)
def a_program_gets_no_more_than_its_user(lab: Lab) -> None:
    host = Host(lab, extra='allow = { read = ["/etc/shadow"], devices = ["tun7"], namespaces = ["."] }\n')
    wait_for("blue", host.blue, 5)
    process = host.routers()["blue"]["process"]
    good = host.program.read_text()
    for line, reason in (
        ("FromDump(/etc/shadow) -> Discard;", "Permission denied"),
        ("Idle -> KernelTun(10.99.0.1/24, DEVNAME tun7) -> Discard;", "Operation not permitted"),
    ):
        # In its process and as a new one.
        host.program.write_text(good + line + "\n")
        told = host.fails("apply")
        check(reason in told, told)
        check(host.blue() and host.routers()["blue"]["process"] == process, "blue after a program that may not")
    host.vr("remove", "blue")
    told = host.fails("add", "blue")
    check("router blue: " in told and "Operation not permitted" in told, told)
    check("blue" not in host.routers(), "a router that could not start")
    host.program.write_text(good)
    host.vr("add", "blue")
    wait_for("blue", host.blue, 5)


@case(Plain, seconds=60)
def a_program_that_its_process_refuses_is_refused_each_time(lab: Lab) -> None:
    host = Host(lab, extra=f'allow = {{ read = ["{lab.dir}/secret.pcap"] }}\n')
    wait_for("blue", host.blue, 5)
    process = host.routers()["blue"]["process"]
    good = host.program.read_text()
    # The host's administrator may read it, and the process may not.
    capture = lab.dir / "secret.pcap"
    capture.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    capture.chmod(0o600)
    host.program.write_text(f'{good}\nFromDump("{capture}") -> Discard;\n')
    for _ in range(2):
        said = host.fails("apply")
        check("secret.pcap" in said, said)
    # What cannot be done in its process is an error and no end of it.
    host.program.write_text(f'{good}\nControlSocket(unix, "{lab.dir}/mine");\n')
    said = host.fails("apply")
    check("blue" in said and "ended" not in said, said)
    # It goes on with the program that it has, also after it was started again.
    equal(host.routers()["blue"]["process"], process, "the process")
    check(host.blue(), "blue forwards")
    os.kill(process, signal.SIGKILL)
    wait_for("blue again", host.blue, 10)
    host.program.write_text(good)
    equal(host.vr("apply"), "nothing has changed\n", "the program of before")
