"""Routers that are joined by memif: shared memory, whose queues the peer opens when it connects."""

import signal

from harness import Plain, case, check, wait_for
from lab import Lab, Router

SOCKET = "valiant-test-memif"


def port(role: str) -> str:
    return f'"net_memif0,role={role},id=0,socket={SOCKET},socket-abstract=yes"'


def peer(queues: int) -> str:
    """A peer that counts what comes and sends too."""
    return (f"from :: FromDPDKDevice({port('client')}, N_QUEUES {queues}) -> c :: Counter -> Discard;\n"
            f"RatedSource(LENGTH 60, RATE 5000) -> ToDPDKDevice({port('client')}, N_QUEUES 1);\n")


@case(Plain, seconds=90)
def a_peer_with_fewer_queues_may_follow_another(lab: Lab) -> None:
    space = lab.namespace("m")

    def run(name: str, text: str, threads: int) -> Router:
        path = lab.dir / f"{name}.click"
        path.write_text(text)
        return Router(lab, space, path, "--no-huge", "--memory", "64", "-j", threads, log=f"{name}.log")

    server = run("server", f"out :: ToDPDKDevice({port('server')}, N_QUEUES 2);\n"
                           "s0 :: RatedSource(LENGTH 60, RATE 5000) -> out; s1 :: RatedSource(LENGTH 60, RATE 5000) -> out;\n"
                           f"FromDPDKDevice({port('server')}, N_QUEUES 1) -> back :: Counter -> Discard;\n"
                           "StaticThreadSched(s0 0, s1 1);\n", 2)
    for turn, queues in enumerate([2, 1, 2, 1]):
        client = run(f"client{turn}", peer(queues), queues)

        def arrives(many: int) -> bool:
            return int(client.read("c.count")) > many  # noqa: B023

        wait_for(f"packets at peer {turn}", lambda: arrives(2000), 20)
        if queues == 1:
            # Perhaps it is tried again, as the client connects more than once.
            wait_for("a queue less", lambda: "not served by the other side" in server.read("out.owners"), 20)
        client.process.send_signal(signal.SIGKILL)
        client.process.wait()
        check(server.alive(), server.output())
    sent, dropped = int(server.read("out.count")), int(server.read("out.dropped"))
    made, waiting = int(server.read("s0.count")) + int(server.read("s1.count")), int(server.read("out.waiting"))
    check(made >= sent + dropped and made - sent - dropped <= waiting + 256, f"{made} {sent} {dropped} {waiting}")
