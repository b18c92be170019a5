"""LinuxRoutes behind FRR: routes that a BGP neighbor announces are in the router's table."""

import json
import signal
import time

from frr import Frr, Speaker, installed
from harness import Plain, Skip, case, check, equal, wait_for
from lab import Lab
from test_linuxroutes import Follows, interfaces

ROUTES = 100_000

BGP = """
router bgp 65001
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 neighbor 10.0.0.2 remote-as 65002
 neighbor 10.0.0.2 timers connect 1
"""


def learned(f: Follows) -> int:
    return f.number("count")


def quiet(f: Follows) -> None:
    """The kernel has told nothing for as long as a comparison takes to come."""
    last, since = -1, time.monotonic()
    while time.monotonic() < since + 3:
        told = json.loads(f.read("json"))["notifications"]
        if told != last:
            last, since = told, time.monotonic()
        time.sleep(0.1)


@case(Plain, seconds=240)
def linuxroutes_follow_frr_with_bgp(lab: Lab) -> None:
    if not installed():
        raise Skip("FRR is not installed (apt install frr)")
    space, peer = lab.namespace("k"), lab.namespace("p")
    interfaces(space)
    space.ip("link", "del", "eth0")
    lab.veth(space, "eth0", peer, "eth0")
    space.ip("addr", "add", "10.0.0.1/24", "dev", "eth0")
    peer.ip("addr", "add", "10.0.0.2/24", "dev", "eth0")
    frr = Frr(lab, space, bgpd=BGP)
    f = Follows(lab, space, ", RECONCILE 2")
    before = f.agrees_soon(2)
    networks = [f"{20 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24" for i in range(ROUTES)]
    with Speaker(peer) as speaker:
        speaker.announce(networks)
        wait_for("all routes", lambda: learned(f) == before + ROUTES, 60)
        equal(f.agrees_soon(2), before + ROUTES, "routes")
        speaker.withdraw(networks[:1])
        f.soon("no route", networks[0], None, 5)
        speaker.announce(networks[:1])
        f.soon("a route", networks[0], "10.0.0.2 1", 5)
        # Both are killed, and started again as watchfrr does it. The next zebra removes what the kernel still has.
        frr.restart(signal.SIGKILL)
        speaker.accept()
        speaker.announce(networks)
        wait_for("the routes to go", lambda: learned(f) < before + ROUTES, 60)
        wait_for("all routes", lambda: learned(f) == before + ROUTES, 60)
        equal(f.agrees_soon(2), before + ROUTES, "routes")
        # A zebra that is stopped removes its routes itself.
        frr.restart(signal.SIGTERM)
        wait_for("no routes", lambda: learned(f) == before, 60)
        speaker.accept()
        speaker.announce(networks)
        wait_for("all routes", lambda: learned(f) == before + ROUTES, 60)
        equal(f.agrees_soon(2), before + ROUTES, "routes")
    # The neighbor is gone, and so are its routes.
    wait_for("no routes", lambda: learned(f) == before, 60)
    quiet(f)
    f.agrees_soon(2)
    wait_for("to be in step", lambda: f.read("state") == "in step", 5)
    f.agrees()
    # No comparison has found a difference while routes by the hundred thousand came and went.
    equal((f.number("drift"), f.read("state")), (0, "in step"), "drift and state")
    check(json.loads(f.read("json"))["reconciliations"] > 2, f.read("json"))
    check(frr.alive(), "a daemon of FRR has ended")
