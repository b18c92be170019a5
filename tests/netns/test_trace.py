"""`valiant trace`: packets that are followed through a running router."""

import json
from typing import Any

from harness import LabError, Plain, Router, Skip, case, check, equal
from lab import Lab, cores, the_binary, wait_for


def start(lab: Lab, program: str, workers: int = 1, *options: str) -> Router:
    if len(cores()) < workers:
        raise Skip(f"{len(cores())} processors, {workers} are needed")
    conf = lab.dir / "trace.click"
    conf.write_text(program + "\n")
    return Router(lab, lab.namespace("w"), conf, "-j", workers, *options)


def trace(router: Router, *options: object) -> Any:
    return json.loads(router.lab.spaces["w"].sh(the_binary(), "trace", "--socket", router.socket, "--json", *options))


def steps(packet: Any) -> list[tuple[str, str]]:
    return [(event["element"], event["what"]) for event in packet["events"]]


@case(Plain)
def traced_packets_are_seen_at_each_element(lab: Lab) -> None:
    router = start(lab, "in :: RatedSource(DATA \"some packet\", RATE 5000) -> c :: Counter -> q :: Queue -> s :: Shaper(1000000)"
                        " -> u :: Unqueue -> t :: Tee -> d :: Discard; t [1] -> Discard;")
    packets = trace(router, "-n", "5")["packets"]
    equal(len(packets), 5, "packets")
    for packet in packets:
        way = [("in", "begins"), ("c", "enters"), ("q", "enters"), ("q", "is pulled"), ("s", "is pulled"), ("t", "enters"),
               ("d", "enters")]
        # The copies that Tee makes are other packets; the one that it was given may leave by any of its outputs.
        equal(steps(packet)[:6], way[:6], "the way")
        check(packet["ended"], packet)
        equal(bytes.fromhex(packet["head"]), b"some packet", "the first bytes")
        times = [event["cycles"] for event in packet["events"]]
        check(times == sorted(times), times)
    # It has ended: nothing is recorded any more, and the packets still pass.
    equal(json.loads(router.read("trace.json"))["packets"], [], "packets after the end")
    before = int(router.read("c.count"))
    check(int(router.read("c.count")) >= before > 0, before)
    router.stop()


@case(Plain)
def traced_packets_are_seen_on_each_worker_and_where_they_are_dropped(lab: Lab) -> None:
    router = start(lab, "in :: RatedSource(DATA \"nothing of the protocol IP at all\", RATE 5000) -> q :: Queue -> u :: Unqueue"
                        " -> check :: CheckIPHeader -> Discard; StaticThreadSched(in 0, u 1);", workers=2)
    for packet in trace(router, "-n", "3")["packets"]:
        equal(steps(packet), [("in", "begins"), ("q", "enters"), ("q", "is pulled"), ("check", "enters"), ("check", "is dropped")],
              "the way")
        equal([event["worker"] for event in packet["events"]], [0, 0, 1, 1, 1], "workers")
        equal((packet["events"][-1]["reason"], packet["ended"]), ("bad IP version", True), "the end")
    # From an element on, of one burst in ten.
    packets = trace(router, "-n", "2", "--at", "check", "--every", "10")["packets"]
    equal([steps(packet)[:2] for packet in packets], [[("check", "begins"), ("check", "enters")]] * 2, "the way from there")
    timeline = lab.dir / "timeline.json"
    trace(router, "-n", "1", "--timeline", timeline)
    pieces = [event for event in json.loads(timeline.read_text())["traceEvents"] if event["ph"] == "X"]
    equal({piece["tid"] for piece in pieces}, {0, 1}, "workers of the timeline")
    check(all(piece["dur"] >= 0 for piece in pieces), pieces)
    router.stop()


@case(Plain)
def packets_of_sources_that_are_pulled_are_traced(lab: Lab) -> None:
    router = start(lab, "in :: MeasureSource(5k) -> u :: Unqueue -> q :: Queue -> ToDevice(net_null0);")
    for packet in trace(router, "-n", "3")["packets"]:
        equal(steps(packet), [("in", "begins"), ("in", "is pulled"), ("q", "enters"), ("q", "is pulled")], "the way")
        check(packet["ended"] and bytes.fromhex(packet["head"])[12:14] == b"\x08\x00", packet)
    router.stop()


@case(Plain)
def packets_of_timers_are_traced(lab: Lab) -> None:
    router = start(lab, "in :: TimedSource(0.02) -> c :: Counter -> Discard;")
    equal([steps(packet)[:2] for packet in trace(router, "-n", "2")["packets"]], [[("in", "begins"), ("c", "enters")]] * 2, "the way")
    router.stop()


@case(Plain)
def packets_are_traced_from_elements_that_pull_or_receive(lab: Lab) -> None:
    router = start(lab, "in :: RatedSource(RATE 5000) -> q :: Queue -> s :: Shaper(1000000) -> d :: Discard;")
    for at, way in (("d", [("d", "begins"), ("s", "is pulled")]),
                    ("s", [("s", "begins"), ("q", "is pulled"), ("s", "is pulled")]),
                    ("in", [("in", "begins"), ("q", "enters"), ("q", "is pulled"), ("s", "is pulled")])):
        packets = trace(router, "-n", "2", "--at", at)["packets"]
        equal([steps(packet) for packet in packets], [way] * 2, f"the way from {at}")
    router.stop()


@case(Plain)
def a_packet_that_comes_again_is_one_packet(lab: Lab) -> None:
    router = start(lab, "in :: RatedSource(RATE 1000) -> x :: Counter -> p :: PaintSwitch -> Paint(1) -> x; p [1] -> d :: Discard;")
    for packet in trace(router, "-n", "3", "--at", "x")["packets"]:
        way = [element for element, _ in steps(packet)]
        equal(way, ["x", "x", "p", "Paint@4", "x", "p", "d"], "the way")
    router.stop()


@case(Plain)
def packets_are_traced_to_where_a_port_does_not_take_them(lab: Lab) -> None:
    # Nobody takes anything from the ring.
    router = start(lab, "in :: RatedSource(LENGTH 60, RATE 100000) -> out :: ToDevice(net_ring0);")
    wait_for("drops", lambda: int(router.read("out.drops")) > 0, 5)
    for packet in trace(router, "-n", "3")["packets"]:
        equal(steps(packet), [("in", "begins"), ("out", "enters"), ("out", "is dropped")], "the way")
    router.stop()


@case(Plain)
def a_trace_ends_without_whoever_began_it(lab: Lab) -> None:
    router = start(lab, "in :: RatedSource(RATE 1000) -> Discard; FromDevice(net_ring0) -> idle :: Counter -> Discard;")

    def tracing() -> bool:
        return bool(json.loads(router.read("trace.json"))["tracing"])

    router.control().write("trace", "5 at idle for 0.3")
    check(tracing(), "it has begun")
    wait_for("the end of the trace", lambda: not tracing(), 5)
    router.stop()


@case(Plain)
def a_trace_of_a_router_that_is_replaced_says_so(lab: Lab) -> None:
    program = "in :: RatedSource(RATE 10) -> Discard;"
    router = start(lab, program, 1, "-R")
    client = lab.spaces["w"].popen(the_binary(), "trace", "--socket", router.socket, "-n", "1000", log="trace.log")
    wait_for("a traced packet", lambda: json.loads(router.read("trace.json"))["packets"], 5)
    router.control().write("hotconfig", program)
    equal(client.wait(5), 1, "the exit status")
    check("its configuration was replaced" in client.log.read_text(), client.log.read_text())
    router.stop()


@case(Plain)
def a_trace_without_packets_says_so(lab: Lab) -> None:
    router = start(lab, "FromDevice(net_ring0) -> q :: Queue -> ToDevice(net_null0);")
    for options, said in ((("--seconds", "0.3"), "no packet came in within 0.3 s"),
                          (("--at", "q", "--seconds", "0.3"), "no packet came to q"),
                          (("--at", "nowhere"), "no element named 'nowhere'"),
                          (("-n", "0"), "1..=1000")):
        try:
            trace(router, *options)
            raise AssertionError(f"{options} are accepted")
        except LabError as e:
            check(said in str(e), f"{options}: {e}")
    router.stop()
