"""`valiant why`: routers whose limit is known."""

import contextlib
import json
import os
import pathlib
import random
import signal
from collections.abc import Callable
from typing import Any

from harness import Plain, Router, Skip, case, check, equal, wait_for
from lab import Lab, Namespace, cores, the_binary


def start(lab: Lab, program: str, *options: object, space: Namespace | None = None, first: bool = True,
          workers: int = 1, spare: bool = True) -> Router:
    """A router on the last processors. `first`: its workers come before all others there, so that only a case that wants it
    has them wait. `spare`: if there are as many workers as processors, the first worker does not, so that all others have one."""
    cpus = cores()
    if len(cpus) < workers:
        raise Skip(f"{len(cpus)} processors, {workers} are needed")
    conf = lab.dir / "why.click"
    conf.write_text(program + "\n")
    places = ",".join(str(cpu) for cpu in cpus[-workers:])
    space = space or lab.spaces.get("w") or lab.namespace("w")
    router = Router(lab, space, conf, "-j", workers, "--cpus", places, *options)
    if first:
        def threads() -> list[str]:
            names = {}
            for task in pathlib.Path(f"/proc/{router.pid}/task").iterdir():
                # Threads that open devices end meanwhile.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    names[task.name] = (task / "comm").read_text()
            return [task for task, name in sorted(names.items(), key=lambda item: item[1]) if name.startswith("worker-")]
        wait_for("the workers", lambda: len(threads()) == workers, 10)
        for thread in threads()[int(spare and workers == len(cpus)):]:
            space.sh("chrt", "--fifo", "--pid", "10", thread)
    return router


def why(router: Router, *options: object) -> Any:
    """What `valiant why` says of a router, once it has come to rest."""
    text = router.lab.spaces["w"].sh(the_binary(), "why", "--socket", router.socket, "--json", *options)
    return json.loads(text)


def expect(lab: Lab, kind: str, at: str | None, program: str, *options: object, workers: int = 1, seconds: float = 1,
           space: Namespace | None = None) -> Any:
    router = start(lab, program, *options, workers=workers, space=space)
    said = why(router, "--seconds", seconds)
    router.stop()
    verdict = said["verdict"]
    equal((verdict["kind"], verdict.get("at")), (kind, at), f"the verdict\n{json.dumps(said, indent=1)}\n")
    check(kind in ("idle", "traffic") or verdict["evidence"] and verdict["advice"], verdict)
    return said


@case(Plain)
def the_limit_is_an_element_that_takes_all_of_a_worker(lab: Lab) -> None:
    said = expect(lab, "core", "worker 0", "FromDevice(net_null0) -> slow :: WorkPackage(CYCLES 2000) -> ToDevice(net_null1);")
    check("slow (WorkPackage)" in said["verdict"]["sentence"], said["verdict"])
    worker = said["workers"][0]
    check(worker["busy"] > 0.9 and worker["empty_polls"] < 0.1, worker)
    slow = next(element for element in said["elements"] if element["name"] == "slow")
    check(slow["cycles_per_packet"] >= 2000, slow)


@case(Plain)
def the_limit_is_a_table_that_fits_into_no_cache(lab: Lab) -> None:
    expect(lab, "memory", "table", "FromDevice(net_null0) -> table :: WorkPackage(S 512, N 20) -> ToDevice(net_null1);")


@case(Plain)
def the_limit_is_bursts_of_one_packet(lab: Lab) -> None:
    expect(lab, "burst", "in", "in :: FromDevice(net_null0, BURST 1) -> ToDevice(net_null1);")


@case(Plain)
def the_limit_is_a_port_that_takes_nothing(lab: Lab) -> None:
    # What is sent to a ring that nobody reads stays there.
    said = expect(lab, "transmit", "net_ring0", "InfiniteSource -> ToDevice(net_ring0);")
    check(any("net_ring0" == port["name"] for port in said["ports"]), said["ports"])
    expect(lab, "transmit", "net_ring0", "InfiniteSource -> Queue -> ToDevice(net_ring0);")


@case(Plain)
def the_limit_is_a_rate_that_the_configuration_sets(lab: Lab) -> None:
    for limit in ("RatedUnqueue(100000)", "Shaper(100000) -> Unqueue"):
        expect(lab, "rate-limit", "limit",
               f"InfiniteSource -> Queue(1000) -> limit :: {limit} -> ToDevice(net_null0);")


@case(Plain)
def the_limit_is_a_queue_that_is_too_short(lab: Lab) -> None:
    pieces = "".join(f"t [{n}] -> q; " for n in range(8))
    said = expect(lab, "queue", "q", f"TimedSource(0.01) -> t :: Tee(8); q :: Queue(4) -> ToDevice(net_null0); {pieces}")
    queue = next(element for element in said["elements"] if element["name"] == "q")
    check(queue["drops"]["queue full"] > 0, queue)


@case(Plain)
def the_limit_is_packets_that_the_configuration_drops(lab: Lab) -> None:
    said = expect(lab, "drops", "check", "RatedSource(RATE 10000) -> check :: CheckIPHeader -> ToDevice(net_null0);")
    check("bad IP version" in said["verdict"]["sentence"], said["verdict"])


@case(Plain)
def the_limit_is_nothing_but_the_traffic(lab: Lab) -> None:
    said = expect(lab, "traffic", None, "RatedSource(RATE 50000) -> Queue -> ToDevice(net_null0);")
    check(abs(said["pps"] - 50_000) < 10_000, said["pps"])


@case(Plain)
def a_worker_that_polls_although_it_has_no_task_is_not_busy(lab: Lab) -> None:
    said = expect(lab, "traffic", None, "RatedSource(RATE 20000) -> ToDevice(net_null0);", "--when-idle", "poll")
    worker = said["workers"][0]
    check(worker["busy"] < 0.5 < worker["empty_polls"], worker)


@case(Plain)
def the_limit_is_nothing_where_nothing_comes(lab: Lab) -> None:
    expect(lab, "idle", None, "FromDevice(net_ring0) -> Queue -> ToDevice(net_null0);")
    # What has happened before does not count.
    router = start(lab, "InfiniteSource(LIMIT 100000) -> Queue(10) -> RatedUnqueue(1000000) -> ToDevice(net_null0);")
    wait_for("the packets to pass", lambda: router.read("ToDevice@4.count").strip() != "0" and
             why(router, "--seconds", "0.2")["verdict"]["kind"] == "idle", 10)
    router.stop()


@case(Plain)
def the_limit_is_a_worker_that_hangs(lab: Lab) -> None:
    space = lab.namespace("w")
    pipe = lab.dir / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    router = start(lab, f"FromDevice(net_null0) -> bad :: ToDump({pipe}, SNAPLEN 0) -> Discard;", "--watchdog", "1",
                   space=space)
    wait_for("word of the worker", lambda: router.read("stuck") != "", 15)
    said = why(router, "--seconds", "0.5")
    equal((said["verdict"]["kind"], said["verdict"]["at"]), ("stuck", "bad"), "the verdict")
    router.process.send_signal(signal.SIGKILL)
    os.close(end)


@case(Plain)
def the_limit_is_who_reads_a_pipe_slowly(lab: Lab) -> None:
    space = lab.namespace("w")
    pipe = lab.dir / "pipe"
    os.mkfifo(pipe)
    # It takes a piece ten times a second; the worker sleeps meanwhile, with an empty processor beside it.
    reader = lab.popen("sh", "-c", f"while head -c 65536; do sleep 0.1; done <{pipe} >/dev/null")
    router = start(lab, f"FromDevice(net_null0) -> slow :: ToDump({pipe}, SNAPLEN 0) -> Discard;", space=space)
    said = why(router, "--seconds", "2")
    lab.stop(reader)
    router.process.send_signal(signal.SIGKILL)
    equal((said["verdict"]["kind"], said["verdict"]["at"]), ("blocked", "slow"), json.dumps(said, indent=1))


@case(Plain)
def the_limit_is_somebody_who_takes_nothing(lab: Lab) -> None:
    expect(lab, "stopped", "q", "RatedSource(RATE 10000) -> q :: Queue(100) -> Unqueue(ACTIVE false) -> Discard;")
    expect(lab, "stopped", "in", "in :: FromDevice(net_null0, ACTIVE false) -> Queue -> ToDevice(net_null1);")


@case(Plain)
def the_limit_is_a_rate_that_is_exceeded_by_a_little(lab: Lab) -> None:
    for chain in ("Queue(1000) -> limit :: RatedUnqueue(50000)", "RED(50, 200, 0.1) -> Queue(500) -> limit :: Shaper(50000) -> Unqueue",
                  "FrontDropQueue(100) -> limit :: RatedUnqueue(50000)"):
        expect(lab, "rate-limit", "limit", f"RatedSource(RATE 55000) -> {chain} -> Discard;")
    # A rate that has room, with a worker that has none.
    expect(lab, "core", "worker 0", "InfiniteSource -> Queue(1000) -> RatedUnqueue(10000000) -> WorkPackage(CYCLES 10000) -> Discard;")


@case(Plain)
def the_limit_is_the_worker_behind_a_queue(lab: Lab) -> None:
    said = expect(lab, "imbalance", "worker 1", "s :: RatedSource(RATE 300000) -> q :: Queue(500) -> u :: Unqueue"
                  " -> WorkPackage(CYCLES 20000) -> Discard; StaticThreadSched(s 0, u 1);", workers=2)
    check(said["workers"][1]["load"] > 0.9, said["workers"])


@case(Plain)
def the_limit_is_nothing_where_few_packets_are_for_others(lab: Lab) -> None:
    said = expect(lab, "traffic", None, "RatedSource(RATE 20) -> CheckIPHeader -> Discard;")
    equal([other["kind"] for other in said["others"]], ["drops"], "what was noticed")


@case(Plain)
def the_limit_is_one_worker_of_two_with_all_the_work(lab: Lab) -> None:
    said = expect(lab, "imbalance", "worker 0",
                  "s :: InfiniteSource -> WorkPackage(CYCLES 1000) -> ToDevice(net_null0); StaticThreadSched(s 0);", workers=2)
    check(said["workers"][1]["busy"] < 0.3, said["workers"])


@case(Plain)
def the_limit_is_two_workers_with_one_lock(lab: Lab) -> None:
    space = lab.namespace("w")
    lab.veth(space, "eth0", space, "peer0")
    ends = "".join(f"s{n} :: InfiniteSource(LENGTH 60) -> t{n} :: ToDevice(eth0, QUEUE 0, METHOD AF_PACKET); " for n in (0, 1))
    router = start(lab, ends + "StaticThreadSched(s0 0, t0 0, s1 1, t1 1);", workers=2, space=space)
    said = why(router, "--seconds", "1")
    router.stop()
    equal(said["verdict"]["kind"], "lock", json.dumps(said, indent=1))
    check(sum(worker["lock_waits"] for worker in said["workers"]) > 0, said["workers"])


@case(Plain)
def the_limit_is_a_processor_that_others_use(lab: Lab) -> None:
    space = lab.namespace("w")
    router = start(lab, "FromDevice(net_null0) -> ToDevice(net_null1);", space=space, first=False)
    others = [lab.popen("taskset", "-c", str(cores()[-1]), "sh", "-c", "while :; do :; done") for _ in range(2)]
    said = why(router, "--seconds", "1")
    lab.stop(*others)
    router.stop()
    equal((said["verdict"]["kind"], said["verdict"]["at"]), ("processor", "worker 0"), json.dumps(said, indent=1))
    check(said["workers"][0]["waited_for_cpu"] > 0.2, said["workers"])


@case(Plain)
def the_limit_is_more_packets_in_a_queue_than_there_are_buffers(lab: Lab) -> None:
    said = expect(lab, "buffers", None, "FromDevice(net_null0) -> q :: Queue(1000000) -> DelayUnqueue(10) -> ToDevice(net_null1);",
                  "--memory", "64")
    check(any("q (Queue) holds" in line for line in said["verdict"]["evidence"]), said["verdict"])


@case(Plain, seconds=30)
def the_limit_is_a_receive_ring_that_is_too_short_for_bursts(lab: Lab) -> None:
    space = lab.namespace("w")
    lab.veth(space, "eth0", space, "in0")
    # It stands still for 20 ms from time to time; meanwhile 400 packets come.
    program = ("FromDevice(in0, METHOD AF_PACKET, NDESC 64) -> s :: RoundRobinSwitch; s [0] -> Fault(SPIN 20) -> d :: Discard;"
               + "".join(f"s [{n}] -> d; " for n in range(1, 4000)))
    router = start(lab, program, space=space)
    generator = space.popen(the_binary(), "gen", "eth0", "-q", "-r", "20kpps", "-t", "10")
    wait_for("packets", lambda: int(router.read("FromDevice@1.count")) > 4000, 10)
    said = why(router, "--seconds", "2")
    lab.stop(generator)
    router.stop()
    equal((said["verdict"]["kind"], said["verdict"]["at"]), ("receive-ring", "in0"), json.dumps(said, indent=1))
    check(said["lost_at_receive_rings"] > 0, said)


@case(Plain, seconds=30)
def the_limit_is_a_flow_that_is_too_much_for_its_worker(lab: Lab) -> None:
    space = lab.namespace("w")
    lab.veth(space, "eth0", space, "in0", queues=2)
    router = start(lab, "FromDevice(in0, METHOD AF_PACKET) -> WorkPackage(CYCLES 500000) -> Discard;", workers=2, space=space,
                   spare=False)
    generator = space.popen(the_binary(), "gen", "eth0", "-q", "-r", "20kpps", "-f", "1", "-t", "10")
    wait_for("packets", lambda: int(router.read("FromDevice@1.count")) > 100, 10)
    said = why(router, "--seconds", "2")
    lab.stop(generator)
    router.stop()
    equal(said["verdict"]["kind"], "imbalance", json.dumps(said, indent=1))
    check(any("received" in line for line in said["verdict"]["evidence"]), said["verdict"])


@case(Plain)
def the_limit_is_a_cable_that_is_not_there(lab: Lab) -> None:
    space = lab.namespace("w")
    lab.veth(space, "eth0", space, "in0")
    router = start(lab, "FromDevice(in0) -> Queue -> ToDevice(net_null0);", space=space)
    space.ip("link", "set", "eth0", "down")
    wait_for("the port to be down", lambda: why(router, "--seconds", "0.2")["verdict"]["kind"] == "port", 10)
    router.stop()


def randomised(rng: random.Random) -> tuple[str, str, str]:
    """A kind of limit, the element, worker or port (or nothing), and a program that has it."""
    cycles = rng.randrange(500, 5000)
    rate = rng.randrange(1_000, 50_000)
    fill = "".join(rng.choice(["Null -> ", "Counter -> ", "Paint(1) -> ", "SetTimestamp -> "]) for _ in range(rng.randrange(4)))
    source = rng.choice(["FromDevice(net_null0)", "InfiniteSource"])
    sink = rng.choice(["ToDevice(net_null1)", "Queue -> ToDevice(net_null1)", "Discard"])
    makers: list[Callable[[], tuple[str, str, str]]] = [
        lambda: ("core", "worker 0", f"{source} -> {fill} x :: WorkPackage(CYCLES {cycles}) -> {sink};"),
        lambda: ("memory", "x", f"{source} -> {fill} x :: WorkPackage(S 256, N {rng.randrange(10, 60)}) -> {sink};"),
        lambda: ("burst", "x", f"x :: FromDevice(net_null0, BURST {rng.randrange(1, 5)}) -> {fill} {sink};"),
        lambda: ("transmit", "net_ring0", f"{source} -> {fill} {rng.choice(['', 'Queue -> '])} ToDevice(net_ring0);"),
        lambda: ("rate-limit", "x", f"{source} -> {fill} Queue({rng.randrange(50, 2000)}) -> x :: "
                 f"{rng.choice(['RatedUnqueue', 'BandwidthRatedUnqueue'])}({rate * 10}) -> {fill} Discard;"),
        lambda: ("drops", "x", f"RatedSource(RATE {rate}) -> {fill} x :: {rng.choice(['CheckIPHeader', 'CheckIPHeader2'])} -> {sink};"),
        lambda: ("traffic", "", f"RatedSource(RATE {rate}) -> {fill} {sink};"),
        lambda: ("queue", "x", f"TimedSource({rng.choice(['0.01', '0.02', '0.05'])}) -> t :: Tee(6); "
                 f"x :: Queue(3) -> {fill} Unqueue -> Discard; " + " ".join(f"t [{n}] -> x;" for n in range(6))),
        lambda: ("idle", "", f"FromDevice(net_ring0) -> {fill} {sink};"),
    ]
    return rng.choice(makers)()


@case(Plain, seconds=180, long=True)
def the_limit_of_random_routers_is_found_in_nine_of_ten(lab: Lab) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    wrong = []
    for number in range(40):
        kind, at, program = randomised(rng)
        router = start(lab, program)
        said = why(router, "--seconds", "0.5")
        router.stop()
        verdict = said["verdict"]
        if (verdict["kind"], verdict.get("at") or "") != (kind, at):
            wrong.append(f"{number}: {kind} {at}: {program}\n   {verdict}\n   {said['workers']}")
    check(len(wrong) <= 4, f"seed {seed}: {len(wrong)} wrong\n" + "\n".join(wrong))
