"""Workers that are parked at low load and wake: packets stay in order, and none is lost on the way."""

from harness import Plain, Router, case, check, equal, wait_for
from lab import Lab

# How often a worker is parked and woken.
TIMES = 10


@case(Plain, seconds=90)
def parked_workers_wake_and_no_packet_is_lost_or_reordered(lab: Lab) -> None:
    left, gate, right = (lab.namespace(name) for name in ("left", "gate", "right"))
    lab.veth(left, "eth0", gate, "in0")
    lab.veth(gate, "out0", right, "eth0")
    texts = {
        "gate": "in :: FromDevice(in0, METHOD AF_XDP, PROMISC true, REBALANCE false, PARK true, PARK_AFTER 100ms)\n"
                "  -> WorkPackage(CYCLES 150000) -> Queue(1000) -> ToDevice(out0);\n",
        "right": "FromDevice(eth0, PROMISC true) -> sink :: MeasureSink(FLOWS 100000, CHECK false);\n",
        "left": "source :: MeasureSource(500pps, FLOWS 200, SRC 10.0.0.0/8, DST 192.168.0.0/16, SPORT 1024-65535, RANDOM true,\n"
                "  UNIQUE true, ACTIVE false) -> Unqueue -> ToDevice(eth0);\n",
    }
    routers = {}
    for space, name in ((right, "right"), (gate, "gate"), (left, "left")):
        (lab.dir / f"{name}.click").write_text(texts[name])
        routers[name] = Router(lab, space, lab.dir / f"{name}.click", "--no-huge", "-j", 2 if name == "gate" else 1)
    router, sink, source = (routers[name].control() for name in ("gate", "right", "left"))
    source.write("source.active", "true")
    for _ in range(TIMES):
        # A packet takes some 60 us: one worker can do 16,000 a second.
        source.write("source.rate", "500pps")
        wait_for("a parked worker", lambda: router.read("in.parked").strip() == "1", 30)
        source.write("source.rate", "18000pps")
        wait_for("a worker that wakes", lambda: router.read("in.parked").strip() == "", 30)
    source.write("source.active", "false")

    def arrived() -> bool:
        """Whether all packets have arrived, but for those that the router has counted as dropped."""
        lost = sum(int(line.rsplit("\t", 1)[-1]) for line in router.read("drops").splitlines() if line)
        return source.number("source.count") == sink.number("sink.received") + lost

    wait_for("all packets", arrived, 10)
    moved = dict(line.split("\t") for line in router.read("in.rss_moved").splitlines())
    check(int(moved["buckets"]) >= 2 * TIMES * 200, f"buckets have moved: {moved}")
    if moved["unordered"] == "0":
        equal(sink.number("sink.reordered"), 0, "reordered packets")
    wait_for("the log", lambda: router.read("in.park_log").count("worker 1 is awake") >= TIMES, 10)
    log = router.read("in.park_log").splitlines()
    check(sum("worker 1 is parked: for 100 ms the load was at most" in line for line in log) >= TIMES, log)
