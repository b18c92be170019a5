"""`[router.NAME.tcp]`: the owner of a virtual router reaches it over TCP with a token, from another host."""

import os
import signal
import socket
import subprocess
import time

from control import Closed, ControlSocket, Refused
from harness import Plain, case, check, equal, wait_for
from lab import Lab, Namespace, the_binary
from test_virtual_direct import Host

ROUTERS = ("blue", "red")


class Session(ControlSocket):
    """A session over TCP that stays open."""

    def __init__(self, space: Namespace, address: str, token: str):
        host, port = address.split(":")
        with space.inside():
            self.socket = socket.create_connection((host, int(port)), timeout=5)
        self.file = self.socket.makefile("rb")
        check(self.file.readline().startswith(b"Click::ControlSocket/"), "the greeting")
        self.socket.sendall(f"TOKEN {token}\r\n".encode())
        self._reply("TOKEN")

    def ended(self) -> bool:
        """Whether the router has ended it."""
        try:
            self.read("version")
        except (Closed, OSError):
            return True
        return False


class Owned(Host):
    """`blue` with a scheme, and `red` in the common process; their owners are at another host, with a token for each."""

    def __init__(self, lab: Lab, scheme: str):
        self.scheme, self.ports, self.table = scheme, {"blue": "0.0.0.0:7001", "red": "0.0.0.0:7002"}, ""
        for router in ROUTERS:
            self.token(lab, router, f"the-token-of-{router}")
        super().__init__(lab, blue=scheme)
        self.owner = lab.namespace("o")
        lab.veth(self.gate, "mgmt", self.owner, "eth0")
        self.gate.ip("addr", "add", "10.9.0.1/24", "dev", "mgmt")
        self.owner.ip("addr", "add", "10.9.0.2/24", "dev", "eth0")
        for router in ROUTERS:
            wait_for(router, lambda router=router: "rt" in self.ask(router, "list"), 10)

    @staticmethod
    def token(lab: Lab, router: str, word: str, mode: int = 0o600) -> None:
        """Writes a router's token."""
        path = lab.dir / f"{router}.token"
        path.write_text(word + "\n")
        path.chmod(mode)

    def write(self, blue: str = "direct", extra: str = "", routers: str = "blue red") -> None:
        """The host file, with the addresses of the owners."""
        super().write(blue, extra, routers)
        text = self.file.read_text()
        for router, listen in self.ports.items():
            text += f'[router.{router}.tcp]\nlisten = "{listen}"\ntoken_file = "{router}.token"\n'
        self.file.write_text(text + self.table)

    def at(self, router: str) -> str:
        """Where the owner reaches a router."""
        return "10.9.0.1:" + self.ports[router].rsplit(":", 1)[1]

    def client(self, router: str, *words: str, at: str = "", token: str = "", verb: str = "read") -> subprocess.CompletedProcess[str]:
        """`valiant read` or `write` at the owner's host, with the token file of `token` or of the router."""
        file = self.lab.dir / f"{token or router}.token"
        given = [] if token == "none" else ["--token-file", str(file)]
        command = self.owner.command(the_binary(), verb, "--socket", at or self.at(router), *given, *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    def ask(self, router: str, *words: str, verb: str = "read") -> str:
        """What a router answers, or what it says instead."""
        done = self.client(router, *words, verb=verb)
        return done.stdout + done.stderr

    def refused(self, *words: str, at: str, token: str) -> str:
        """What a client is told that must get no answer."""
        done = self.client("blue", *words, at=at, token=token)
        check(done.returncode == 1 and done.stdout == "", f"{words} with {token}: {done.stdout}{done.stderr}")
        return done.stderr

    def apply(self) -> str:
        """`valiant vr apply`."""
        self.write(self.scheme)
        return self.vr("apply")

    def listening(self) -> str:
        """The TCP sockets of the host that listen."""
        return self.gate.sh("ss", "-Htln")


def processes(host: Owned) -> list[int]:
    """In which processes the routers run."""
    return [host.routers()[router]["process"] for router in ROUTERS]


def own_router_alone(lab: Lab, host: Owned) -> None:
    """The right token reads and writes its own router; another one, or none, nothing."""
    check("10.1.0.0/24" in host.ask("blue", "rt.table") and "10.3.0.0/24" not in host.ask("blue", "rt.table"), "the table of blue")
    check("10.3.0.0/24" in host.ask("red", "rt.table"), "the table of red")
    equal(host.ask("blue", "rt.add", "10.99.0.0/24 0", verb="write"), "", "a write")
    check("10.99.0.0/24" in host.ask("blue", "rt.table") and "10.99.0.0/24" not in host.ask("red", "rt.table"), "whose route it is")
    for router, other in (ROUTERS, ROUTERS[::-1]):
        said = host.refused("rt.table", at=host.at(router), token=other)
        check("wrong TOKEN" in said, said)
        said = host.refused("rt.table", at=host.at(router), token="none")
        check("send TOKEN first" in said and "--token-file" in said, said)
    done = host.client("blue", "rt.add", "10.98.0.0/24 0", token="red", verb="write")
    check(done.returncode == 1 and "10.98.0.0" not in host.ask("blue", "rt.table"), "a write with another token")
    equal(host.routers()["blue"]["tcp"], "0.0.0.0:7001", "the address in `status`")
    equal(lab.dir.joinpath("vr.log").read_text().count("the-token"), 0, "tokens in the log")


def reached_while_it_runs(lab: Lab, scheme: str) -> None:
    """Who reaches `blue`, and how that changes while it runs."""
    host = Owned(lab, scheme)
    own_router_alone(lab, host)
    before = processes(host)
    sessions = {router: Session(host.owner, host.at(router), f"the-token-of-{router}") for router in ROUTERS}
    local = {router: ControlSocket(lab.dir / "run" / f"{router}.sock") for router in ROUTERS}
    equal(host.apply(), "nothing has changed\n", "an apply without a change")
    check(not any(session.ended() for session in sessions.values()), "sessions go on")

    # Another token: the sessions of the old one end, others go on, and so do the routers.
    lab.dir.joinpath("old.token").write_text("the-token-of-blue")
    host.token(lab, "blue", "another-token")
    equal(host.apply(), "blue: access over TCP changed\n", "what apply says")
    check(sessions["blue"].ended() and not sessions["red"].ended(), "whose sessions end")
    check("wrong TOKEN" in host.refused("list", at=host.at("blue"), token="old"), "the old token")
    check("10.99.0.0/24" in host.ask("blue", "rt.table"), "the new token, and the state of before")
    local["blue"].read("version")
    equal(processes(host), before, "the processes")

    # Each has the address of the other from now on.
    host.ports = {"blue": "0.0.0.0:7002", "red": "0.0.0.0:7001"}
    equal(host.apply(), "blue: access over TCP changed\nred: access over TCP changed\n", "what apply says")
    check("10.99.0.0/24" in host.ask("blue", "rt.table") and "10.3.0.0/24" in host.ask("red", "rt.table"), "who is where")
    check(sessions["red"].ended(), "a session at an address that is no more")

    # An address that is taken: all is as before.
    with host.gate.inside():
        taken = socket.create_server(("0.0.0.0", 7003))
    host.ports["blue"] = "0.0.0.0:7003"
    host.write(host.scheme)
    said = host.fails("apply")
    check("cannot listen at 0.0.0.0:7003: Address already in use" in said and "nothing has changed" in said, said)
    host.ports["blue"] = "0.0.0.0:7002"
    check("10.99.0.0/24" in host.ask("blue", "rt.table"), "the address of before")
    taken.close()

    # A token that others can read changes nothing either.
    host.token(lab, "blue", "third-token", mode=0o644)
    said = host.fails("apply")
    check("others than its owner can read" in said and "chmod 600" in said and "edge.toml:" in said, said)
    check("wrong TOKEN" in host.refused("list", at=host.at("blue"), token="blue"), "a token that was not taken over")
    host.token(lab, "blue", "another-token")

    # Without the entry nobody listens, and who was connected is so no more.
    session = Session(host.owner, host.at("blue"), "another-token")
    address = host.at("blue")
    del host.ports["blue"]
    host.apply()
    check(session.ended() and ":7002" not in host.listening() and ":7001" in host.listening(), host.listening())
    check("refused" in host.refused("list", at=address, token="blue"), "an address where nobody listens")
    equal(processes(host), before, "the processes")
    local["blue"].read("version")
    host.vr("down")
    equal(host.process.wait(timeout=10), 0, "the exit status")
    check(":700" not in host.listening(), host.listening())


@case(Plain, seconds=90)
def the_owner_of_a_shared_router_reaches_it_over_tcp(lab: Lab) -> None:
    reached_while_it_runs(lab, "shared")


@case(Plain, seconds=90)
def the_owner_of_a_direct_router_reaches_it_over_tcp(lab: Lab) -> None:
    reached_while_it_runs(lab, "direct")


@case(Plain, seconds=90)
def the_owner_of_a_hybrid_router_reaches_it_over_tcp(lab: Lab) -> None:
    reached_while_it_runs(lab, "hybrid")


@case(Plain, seconds=90)
def access_over_tcp_is_there_again_after_a_failure(lab: Lab) -> None:
    host = Owned(lab, "direct")
    os.kill(host.routers()["blue"]["process"], signal.SIGKILL)
    # Its owner gives it a program with a bug.
    host.client("red", "hotconfig", "InfiniteSource(LIMIT 1) -> Fault(AFTER 1) -> Discard;", verb="write")
    for router, table in (("blue", "10.1.0.0/24"), ("red", "10.3.0.0/24")):
        wait_for("the failure", lambda router=router: host.routers()[router]["failures"] == 1, 10)
        wait_for(router, lambda router=router, table=table: table in host.ask(router, "rt.table"), 10)


@case(Plain, seconds=60)
def clients_over_tcp_have_the_routers_limits(lab: Lab) -> None:
    host = Owned(lab, "shared")
    host.table = "[router.blue.limits]\nhandler_calls = 5\n"
    check("blue: share or limits changed" in host.apply(), "a limit")
    session = Session(host.owner, host.at("blue"), "the-token-of-blue")
    refusals = 0
    for _ in range(20):
        try:
            session.read("version")
        except Refused as refused:
            check("530" in str(refused), refused)
            refusals += 1
    check(refusals >= 10, f"{refusals} of 20 calls were refused")


@case(Plain, seconds=60)
def strangers_do_not_use_up_the_memory_of_a_router(lab: Lab) -> None:
    host = Owned(lab, "shared")
    used = host.routers()["blue"]["memory_bytes"]
    host.table = f'[router.blue.limits]\nmemory = "{used // 1000 + 1000} kB"\n'
    check("blue: share or limits changed" in host.apply(), "a limit")
    at, port = host.at("blue").split(":")
    with host.owner.inside():
        strangers = [socket.create_connection((at, int(port)), timeout=5) for _ in range(120)]
    for stranger in strangers:
        stranger.sendall(b"TOKEN " + b"x" * 8000)
    # Until the router has read that.
    time.sleep(1)
    session = Session(host.owner, host.at("blue"), "the-token-of-blue")
    state = host.routers()["blue"]
    check(state["failures"] == 0 and state["memory_bytes"] < used + 500_000, (used, state))
    for stranger in strangers:
        stranger.close()
    time.sleep(0.5)
    left = host.routers()["blue"]["memory_bytes"]
    check(abs(left - used) < 100_000, (used, left))
    session.read("version")


@case(Plain, seconds=30)
def check_says_what_is_wrong_with_a_token_file(lab: Lab) -> None:
    (lab.dir / "p.click").write_text("FromDevice($DEV0) -> Discard;")
    file = lab.dir / "edge.toml"
    file.write_text('[port.p]\ndevice = "net_null0"\n[router.blue]\nprogram = "p.click"\n[[router.blue.interface]]\nport = "p"\n'
                    '[router.blue.tcp]\nlisten = "127.0.0.1:7001"\ntoken_file = "blue.token"\n')
    gate = lab.namespace("g")

    def said() -> subprocess.CompletedProcess[str]:
        command = gate.command(the_binary(), "vr", "check", file)
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    done = said()
    check(done.returncode == 1 and "edge.toml:9" in done.stderr and "blue.token: No such file" in done.stderr, done.stderr)
    Owned.token(lab, "blue", "word", mode=0o640)
    done = said()
    check(done.returncode == 1 and "others than its owner can read" in done.stderr and "chmod 600" in done.stderr, done.stderr)
    Owned.token(lab, "blue", "two words")
    check("a token is one word" in said().stderr, said().stderr)
    Owned.token(lab, "blue", "word")
    equal((said().returncode, said().stderr), (0, ""), "a good file")
