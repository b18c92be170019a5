"""FromDevice with STEER: workers get the packets to a part of the routes, while these change."""

import time

from harness import Plain, Router, case, check, equal, pair, ping
from lab import Lab, Namespace

ROUTER = """
rt :: RadixIPLookup(0.0.0.0/0 0);
in :: FromDevice(eth0, PROMISC true, STEER rt, REBALANCE false) -> MarkIPHeader(14) -> GetIPAddress(30)
  -> rt -> Queue(4000) -> ToDevice(eth1);
FromDevice(eth1, PROMISC true) -> Queue(1000) -> ToDevice(eth0);
"""
SOURCE = 'source :: MeasureSource(RATE 5k, FLOWS 256, RANDOM true, DST "10.0.0.0/8 200.0.0.0/8", DURATION 3s) -> ToDevice(eth0);'
SINK = "FromDevice(eth0, PROMISC true) -> sink :: MeasureSink(CHECK false);"


def router(lab: Lab, space: Namespace, name: str, config: str, *options: str) -> Router:
    path = lab.dir / f"{name}.click"
    path.write_text(config)
    return Router(lab, space, str(path), *options, log=f"{name}.log")


@case(Plain)
def packets_stay_in_order_while_workers_get_other_prefixes(lab: Lab) -> None:
    middle, left, right = pair(lab)
    steering = router(lab, middle, "middle", ROUTER, "-j", "2", "-R")
    check(ping(left, "10.9.0.2"), "a ping through the router")
    sink = router(lab, right, "sink", SINK)
    control = steering.control()
    source = router(lab, left, "source", SOURCE)
    # Either half of the addresses has a thousand routes for some time: 10.0.0.0/8 goes from worker to worker.
    many = ["\n".join(f"{{}} {net}.0.{n // 250}.{n % 250}/32" + " 0" for n in range(1000)) for net in (1, 220)]
    changes = 0
    while source.read("source.done").strip() != "true":
        for routes in many:
            control.write("rt.ctrl", routes.replace("{}", "add"))
            control.write("in.divide")
            time.sleep(0.1)
            control.write("rt.ctrl", routes.replace("{}", "remove"))
            changes += 1
        if changes == 6:
            control.write("hotconfig", ROUTER)
    time.sleep(0.5)
    given = {worker: int(packets) for worker, packets, _ in (line.split() for line in steering.read("in.rss_packets").splitlines())}
    check(min(given.values()) > 0 and len(given) == 2, f"both workers had packets: {given}")
    moved = dict(line.split() for line in steering.read("in.rss_moved").splitlines())
    equal(steering.read("drops"), "", "drops")
    numbers = {name: int(sink.read(f"sink.{name}")) for name in ("received", "lost", "duplicates", "reordered")}
    check(numbers["received"] > 1000 and changes > 6, f"{numbers}, {changes} changes")
    equal(numbers["duplicates"], 0, "duplicates")
    # On a machine that is too busy packets may not wait for long enough; these are counted.
    check(numbers["reordered"] == 0 or moved["unordered"] != "0", f"reordered packets: {numbers}, {moved}")
