"""LinuxRoutes: what a namespace's kernel knows is in the router's tables."""

import contextlib
import json
import os
import pathlib
import signal
import time
from collections.abc import Iterator

from harness import LabError, Plain, Router, case, check, equal, wait_for
from lab import Lab, Namespace, sh

# The kernel's routes go to these outputs of the table.
OUTPUTS = {"eth0": 1, "eth1": 2}

CONF = """
rt :: RadixIPLookup(192.0.2.0/24 0);
kernel :: LinuxRoutes(rt, eth0 1 arp, eth1 2, HOST 0 {arguments});
arp :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01);
Idle -> rt; rt [0] -> Discard; rt [1] -> Discard; rt [2] -> Discard;
Idle -> arp -> Discard; Idle -> [1] arp;
"""


def space_with_interfaces(lab: Lab, name: str) -> Namespace:
    """A namespace with 10.0.0.1/24 on eth0 and 10.0.1.1/24 on eth1."""
    space = lab.namespace(name)
    interfaces(space)
    return space


def interfaces(space: Namespace) -> None:
    for i in (0, 1):
        space.ip("link", "add", f"eth{i}", "type", "veth", "peer", "name", f"far{i}")
        for dev in (f"eth{i}", f"far{i}"):
            space.ip("link", "set", dev, "up")
        space.ip("addr", "add", f"10.0.{i}.1/24", "dev", f"eth{i}")


class Follows:
    """A router that follows a namespace."""

    def __init__(self, lab: Lab, space: Namespace, arguments: str = "", own: bool = False, options: tuple[str, ...] = ("-R",)):
        self.space = space
        conf = lab.dir / f"{space.short}.click"
        if not own:
            arguments += f", NETNS {space.name}"
        conf.write_text(CONF.format(arguments=arguments))
        self.router = Router(lab, space if own else lab.namespace(f"{space.short}r"), conf, *options)
        wait_for("to be in step", lambda: self.read("state") == "in step", 10)

    def read(self, handler: str) -> str:
        return self.router.read(f"kernel.{handler}")

    def number(self, handler: str) -> int:
        return int(self.read(handler))

    def table(self) -> dict[str, str]:
        """Network -> gateway (or `-`) and output; of several next hops, all."""
        table: dict[str, str] = {}
        for line in self.router.read("rt.table").splitlines():
            row = line.split()
            hop = " ".join(row[1:])
            table[row[0]] = f"{table[row[0]]}, {hop}" if row[0] in table else hop
        return table

    def soon(self, what: str, network: str, want: str | None, seconds: float = 2) -> None:
        try:
            wait_for(what, lambda: self.table().get(network) == want, seconds, 0.005)
        except LabError as late:
            raise AssertionError(f"{late}: {network} is {self.table().get(network)}, wanted {want}\n{self.read('json')}"
                                 f"{self.router.output()}") from None

    def agrees(self) -> int:
        """The table is the kernel's; returns how many routes it has."""
        want = wanted(self.space)
        got = {network: hop for network, hop in self.table().items() if network != "192.0.2.0/24"}
        if got != want:
            missing = sorted(want.items() - got.items())[:3]
            wrong = sorted(got.items() - want.items())[:3]
            raise AssertionError(f"{len(got)} routes, the kernel has {len(want)}; missing {missing}, wrong {wrong}")
        return len(got)

    def agrees_soon(self, seconds: float) -> int:
        end = time.monotonic() + seconds
        while True:
            try:
                return self.agrees()
            except AssertionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)


def network(text: str) -> str:
    if text == "default":
        return "0.0.0.0/0"
    return text if "/" in text else text + "/32"


def wanted(space: Namespace) -> dict[str, str]:
    """What the table must have, from what `ip route` shows; only for routes with one next hop."""
    want = {}
    for table in ("main", "local"):
        for route in json.loads(space.ip("-json", "-4", "route", "show", "table", table) or "[]"):
            name = network(route["dst"])
            if name.startswith("127."):
                continue
            kind = route.get("type", "unicast")
            if kind in ("local", "broadcast"):
                want[name] = "- 0"
            elif kind == "blackhole":
                want.setdefault(name, "- -1")
            elif route.get("dev") in OUTPUTS:
                want.setdefault(name, f"{route.get('gateway', '-')} {OUTPUTS[route['dev']]}")
    return want


def batch(lab: Lab, space: Namespace, lines: list[str], wait: bool = True) -> None:
    path = lab.dir / f"{space.short}.batch"
    path.write_text("".join(line + "\n" for line in lines))
    if wait:
        sh("ip", "-n", space.name, "-batch", str(path), timeout=60)
    else:
        space.popen("ip", "-batch", path, log="batch.log")


def many(number: int, gateway: str = "10.0.0.2", word: str = "add") -> list[str]:
    return [f"route {word} 20.{i >> 8}.{i & 255}.0/24 via {gateway}" for i in range(number)]


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@case(Plain, seconds=60)
def linuxroutes_follow_what_ip_route_does(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    space.ip("route", "add", "10.50.0.0/16", "via", "10.0.0.9")
    f = Follows(lab, space)
    # What was there before, and the addresses of the host.
    f.soon("a route of before", "10.50.0.0/16", "10.0.0.9 1")
    equal((f.table()["10.0.0.1/32"], f.table()["10.0.1.0/24"]), ("- 0", "- 2"), "an address and a network")
    space.ip("route", "add", "10.9.0.0/16", "via", "10.0.0.2")
    f.soon("an added route", "10.9.0.0/16", "10.0.0.2 1")
    space.ip("route", "replace", "10.9.0.0/16", "via", "10.0.1.2")
    f.soon("a replaced route", "10.9.0.0/16", "10.0.1.2 2")
    # A route with a greater metric waits until the other one is gone.
    space.ip("route", "add", "10.9.0.0/16", "via", "10.0.0.3", "metric", "50")
    space.ip("route", "add", "blackhole", "10.8.0.0/16")
    f.soon("a blackhole", "10.8.0.0/16", "- -1")
    equal(f.table()["10.9.0.0/16"], "10.0.1.2 2", "the better route")
    space.ip("route", "del", "10.9.0.0/16", "via", "10.0.1.2")
    f.soon("the other route", "10.9.0.0/16", "10.0.0.3 1")
    space.ip("route", "del", "10.9.0.0/16")
    f.soon("no route", "10.9.0.0/16", None)
    equal(f.router.read("rt.lookup 10.8.1.1"), "-1", "what a blackhole does")
    # The user's route stays, and is not replaced.
    space.ip("route", "add", "192.0.2.0/24", "via", "10.0.0.2")
    # Another interface's and another table's are left out.
    space.ip("link", "add", "eth7", "type", "veth", "peer", "name", "far7")
    space.ip("link", "set", "eth7", "up")
    space.ip("route", "add", "10.7.0.0/16", "dev", "eth7")
    space.ip("route", "add", "10.6.0.0/16", "via", "10.0.0.2", "table", "100", check=False)
    space.ip("route", "add", "10.5.0.0/16", "via", "10.0.0.2")
    f.soon("the last route", "10.5.0.0/16", "10.0.0.2 1")
    equal((f.table()["192.0.2.0/24"], "10.7.0.0/16" in f.table(), "10.6.0.0/16" in f.table()), ("- 0", False, False), "others")
    equal(f.number("left_out"), 1, "routes that are left out")
    check("10.7.0.0/16\t- eth7 -\tinterface not in the arguments\n" in f.read("routes"), f.read("routes"))
    check("10.5.0.0/16\t10.0.0.2 eth0 1\n" in f.read("routes"), f.read("routes"))
    equal(f.number("drift"), 0, "drift")


@case(Plain, seconds=60)
def linuxroutes_follow_interfaces_and_addresses(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    f = Follows(lab, space)
    space.ip("route", "add", "10.9.0.0/16", "via", "10.0.0.2")
    space.ip("route", "add", "10.9.0.0/16", "via", "10.0.1.2", "metric", "50")
    space.ip("route", "add", "10.8.0.0/16", "via", "10.0.0.2")
    f.soon("a route", "10.8.0.0/16", "10.0.0.2 1")
    check("eth0 up carrier" in f.read("links"), f.read("links"))
    check("eth0 10.0.0.1/24\n" in f.read("addresses"), f.read("addresses"))
    # The kernel does not tell which routes go.
    space.ip("link", "set", "eth0", "down")
    f.soon("the other interface", "10.9.0.0/16", "10.0.1.2 2")
    f.soon("no route", "10.8.0.0/16", None)
    check("eth0 down" in f.read("links"), f.read("links"))
    f.agrees_soon(2)
    # Neither does it when it removes routes along with an address.
    space.ip("link", "set", "eth0", "up")
    space.ip("addr", "add", "10.3.0.1/24", "dev", "eth0")
    space.ip("route", "add", "10.4.0.0/16", "via", "10.3.0.2", "src", "10.3.0.1")
    f.soon("a route", "10.4.0.0/16", "10.3.0.2 1")
    space.ip("addr", "del", "10.3.0.1/24", "dev", "eth0")
    f.soon("no route", "10.4.0.0/16", None)
    # An interface that gets another name is another one.
    space.ip("link", "set", "eth1", "down")
    space.ip("link", "set", "eth1", "name", "other")
    space.ip("link", "set", "other", "up")
    f.soon("no route", "10.0.1.0/24", None)
    f.agrees_soon(2)
    # What it knows without asking is in the table before it reads all anew.
    wait_for("everything to be read anew", lambda: f.number("resyncs") > 0, 2)
    equal(f.number("drift"), 0, "drift")


@case(Plain, seconds=60)
def linuxroutes_follow_several_next_hops(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    f = Follows(lab, space)
    space.ip("route", "add", "10.9.0.0/16", "nexthop", "via", "10.0.0.2", "weight", "3", "nexthop", "via", "10.0.1.2")
    wait_for("a route", lambda: "10.9.0.0/16" in f.table(), 2)
    check("10.9.0.0/16\t10.0.0.2 eth0 1 weight 3, 10.0.1.2 eth1 2\n" in f.read("routes"), f.read("routes"))
    both = "10.0.0.2 1, 10.0.1.2 2"
    equal(f.table()["10.9.0.0/16"], both, "two next hops")
    # Addresses are spread by weight.
    with contextlib.closing(f.router.control()) as control:
        taken = control.read_many([f"rt.lookup 10.9.{i >> 8}.{i & 255}" for i in range(2000)])
    check(1400 < taken.count("1 10.0.0.2") < 1600 and 400 < taken.count("2 10.0.1.2") < 600, taken[:20])
    # Next-hop objects, if the kernel has them.
    space.ip("nexthop", "add", "id", "1", "via", "10.0.0.2", "dev", "eth0")
    space.ip("nexthop", "add", "id", "2", "via", "10.0.1.2", "dev", "eth1")
    space.ip("nexthop", "add", "id", "9", "group", "1/2")
    space.ip("nexthop", "add", "id", "5", "blackhole")
    space.ip("route", "add", "10.8.0.0/16", "nhid", "9")
    space.ip("route", "add", "10.7.0.0/16", "nhid", "5")
    f.soon("a blackhole", "10.7.0.0/16", "- -1")
    equal(f.table()["10.8.0.0/16"], both, "a group")
    batch(lab, space, [f"route add 30.0.{i}.0/24 nhid 9" for i in range(200)])
    wait_for("all", lambda: "30.0.199.0/24" in f.table(), 5)

    def all_are(hop: str) -> bool:
        table = f.table()
        return all(table[f"30.0.{i}.0/24"] == hop for i in range(200))

    check(all_are(both), f.table())
    # An object that changes changes its routes; one that is gone leaves the others.
    space.ip("nexthop", "replace", "id", "2", "via", "10.0.0.3", "dev", "eth0")
    wait_for("the other gateway", lambda: all_are("10.0.0.2 1, 10.0.0.3 1"), 2)
    space.ip("nexthop", "del", "id", "1")
    wait_for("one gateway", lambda: all_are("10.0.0.3 1"), 2)
    space.ip("nexthop", "del", "id", "9")
    f.soon("no route", "30.0.7.0/24", None)
    equal(f.number("drift"), 0, "drift")


PACKETS = """
rt :: RadixIPLookup(192.0.2.0/24 0);
kernel :: LinuxRoutes(rt, eth0 1, eth1 2, HOST 0, NETNS {space});
several :: InfiniteSource(LIMIT 4000, ACTIVE false) -> SetRandIPAddress(10.9.0.0/16) -> rt;
none :: InfiniteSource(LIMIT 1000, ACTIVE false) -> SetRandIPAddress(10.8.0.0/16) -> rt;
mixed :: InfiniteSource(LIMIT 3000, ACTIVE false) -> SetRandIPAddress(10.8.0.0/15) -> rt;
rt [0] -> host :: Counter -> Discard;
rt [1] -> first :: Counter -> Discard;
rt [2] -> second :: Counter -> Discard;
"""


@case(Plain, seconds=60)
def linuxroutes_lead_packets(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    space.ip("route", "add", "10.9.0.0/16", "nexthop", "via", "10.0.0.2", "weight", "3", "nexthop", "via", "10.0.1.2")
    space.ip("route", "add", "blackhole", "10.8.0.0/16")
    conf = lab.dir / "packets.click"
    conf.write_text(PACKETS.format(space=space.name))
    router = Router(lab, lab.namespace("r"), conf)
    wait_for("both routes", lambda: router.read("kernel.count") != "0" and "10.8.0.0/16" in router.read("rt.table"), 10)

    def run(source: str, packets: int) -> tuple[int, int, int]:
        """Packets to the first gateway, to the second, and into the blackhole."""
        def now() -> tuple[int, int, int]:
            drops = [line.split() for line in router.read("rt.drops").splitlines()]
            lost = sum(int(word) for words in drops if "blackhole" in words for word in words if word.isdigit())
            return int(router.read("first.count")), int(router.read("second.count")), lost

        before = now()
        with contextlib.closing(router.control()) as control:
            control.write(f"{source}.active", "true")
        wait_for("all packets", lambda: sum(now()) - sum(before) == packets, 10)
        after = now()
        return after[0] - before[0], after[1] - before[1], after[2] - before[2]

    first, second, lost = run("several", 4000)
    check(2700 < first < 3300 and lost == 0, (first, second, lost))
    equal(run("none", 1000), (0, 0, 1000), "packets into a blackhole")
    first, second, lost = run("mixed", 3000)
    check(1300 < lost < 1700 and first > 2 * second > 500, (first, second, lost))
    equal(router.read("host.count"), "0", "packets for the host")


@case(Plain, seconds=120)
def linuxroutes_follow_ten_thousand(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    f = Follows(lab, space, ", RECONCILE 1")
    batch(lab, space, many(10_000))
    check(f.agrees_soon(10) > 10_000, "all routes")
    batch(lab, space, many(10_000, "10.0.1.2", "replace"))
    f.agrees_soon(10)
    # Two comparisons, with routes that come and go meanwhile.
    before = json.loads(f.read("json"))["reconciliations"]
    batch(lab, space, [f"route {word} 40.0.{i}.0/24 via 10.0.0.2" for word in ("add", "del") for i in range(250)] * 20)
    wait_for("two comparisons", lambda: json.loads(f.read("json"))["reconciliations"] >= before + 2, 20)
    batch(lab, space, many(10_000, "10.0.1.2", "del"))
    check(f.agrees_soon(10) < 100, "no routes")
    equal((f.number("drift"), f.number("lost")), (0, 0), "drift and losses")


@case(Plain, seconds=120)
def linuxroutes_recover_what_the_kernel_could_not_tell(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    f = Follows(lab, space, ", BUFFER 16384, RECONCILE 1")
    with stopped(f.router.pid):
        batch(lab, space, many(10_000))
    wait_for("a loss", lambda: f.number("lost") > 0, 10)
    f.agrees_soon(2)
    with stopped(f.router.pid):
        batch(lab, space, many(10_000, word="del"))
    f.agrees_soon(2)
    before = json.loads(f.read("json"))["reconciliations"]
    wait_for("a comparison", lambda: json.loads(f.read("json"))["reconciliations"] > before + 1, 20)
    equal((f.number("drift"), f.read("state")), (0, "in step"), "drift and state")


@case(Plain, seconds=60)
def linuxroutes_repair_a_table_that_somebody_emptied(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    f = Follows(lab, space, ", RECONCILE 0.5")
    batch(lab, space, many(100))
    f.agrees_soon(2)
    with contextlib.closing(f.router.control()) as control:
        control.write("rt.flush")
    f.agrees_soon(3)
    check(f.number("drift") > 100, f.read("json"))
    check("were not as the kernel has them" in f.router.output(), f.router.output())


@case(Plain, seconds=60)
def linuxroutes_notice_a_namespace_that_vanishes(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    space.ip("route", "add", "10.9.0.0/16", "via", "10.0.0.2")
    f = Follows(lab, space)
    f.soon("a route", "10.9.0.0/16", "10.0.0.2 1")
    sh("ip", "netns", "del", space.name)
    f.soon("no route", "10.9.0.0/16", None)
    equal((f.read("state"), f.table()), ("namespace gone", {"192.0.2.0/24": "- 0"}), "what is left")
    # It is followed when it is there again.
    sh("ip", "netns", "add", space.name)
    interfaces(space)
    space.ip("route", "add", "10.9.0.0/16", "via", "10.0.0.3")
    f.soon("the new route", "10.9.0.0/16", "10.0.0.3 1")
    f.agrees_soon(2)
    equal(f.read("state"), "in step", "state")
    # One of the same name that took its place.
    sh("ip", "netns", "del", space.name)
    sh("ip", "netns", "add", space.name)
    f.soon("no route", "10.9.0.0/16", None)
    wait_for("to be in step", lambda: f.read("state") == "in step", 2)


@case(Plain, seconds=60)
def linuxroutes_of_the_routers_own_namespace_and_neighbors(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    space.ip("neigh", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:09", "dev", "eth0", "nud", "permanent")
    f = Follows(lab, space, own=True)
    wait_for("a neighbor", lambda: "10.0.0.2 1 02-00-00-00-00-09" in f.router.read("arp.table"), 2)
    check("eth0 10.0.0.2 02-00-00-00-00-09 permanent\n" in f.read("neighbors"), f.read("neighbors"))
    space.ip("neigh", "replace", "10.0.0.2", "lladdr", "02:00:00:00:00:0a", "dev", "eth0", "nud", "permanent")
    wait_for("another address", lambda: "10.0.0.2 1 02-00-00-00-00-0A" in f.router.read("arp.table"), 2)
    # Of another interface, or without an address: not entered.
    space.ip("neigh", "add", "10.0.1.2", "lladdr", "02:00:00:00:00:0b", "dev", "eth1", "nud", "permanent")
    space.ip("neigh", "del", "10.0.0.2", "dev", "eth0")
    wait_for("no address", lambda: f.router.read("arp.table").startswith("10.0.0.2 0 "), 2)
    check("10.0.0.2" not in f.read("neighbors"), f.read("neighbors"))
    check("10.0.1.2" not in f.router.read("arp.table"), f.router.read("arp.table"))
    f.agrees_soon(2)


@case(Plain, seconds=60)
def linuxroutes_stay_while_the_configuration_changes(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    batch(lab, space, many(1000))
    f = Follows(lab, space)
    f.agrees_soon(2)
    text = pathlib.Path(lab.dir / "k.click").read_text()
    with contextlib.closing(f.router.control()) as control:
        notified = json.loads(f.read("json"))["notifications"]
        # The table is another one, with the same routes; the follower is the same.
        control.write("hotconfig", text.replace("192.0.2.0/24 0", "192.0.2.0/24 1"))
        equal(f.table()["20.3.1.0/24"], "10.0.0.2 1", "a route right after")
        space.ip("route", "add", "10.9.0.0/16", "via", "10.0.0.2")
        f.soon("a new route", "10.9.0.0/16", "10.0.0.2 1")
        check(json.loads(f.read("json"))["notifications"] > notified, "its counters continue")
        # Other outputs.
        control.write("hotconfig", text.replace("eth0 1 arp, eth1 2", "eth0 2 arp"))
        equal(f.table()["20.3.1.0/24"], "10.0.0.2 2", "a route right after")
        f.soon("no network", "10.0.1.0/24", None)
        # One that fails changes nothing.
        try:
            control.write("hotconfig", text.replace(f"NETNS {space.name}", "NETNS nothing-of-this-name"))
        except LabError as refused:
            check("there is no network namespace 'nothing-of-this-name'" in str(refused) + f.router.output(), refused)
        else:
            raise AssertionError("a namespace that is not there was accepted")
        equal(f.table()["20.3.1.0/24"], "10.0.0.2 2", "a route after a failure")
        # Without the element the routes are gone.
        control.write("hotconfig", "\n".join(line for line in text.splitlines() if "LinuxRoutes" not in line))
        equal(f.table(), {"192.0.2.0/24": "- 0"}, "what is left")


@case(Plain, seconds=60)
def linuxroutes_go_on_without_rights(lab: Lab) -> None:
    space = space_with_interfaces(lab, "k")
    f = Follows(lab, space, options=("--user", "nobody"))
    wait_for("it to give up its rights", lambda: "of its capabilities" in f.router.output(), 10)
    space.ip("route", "add", "10.9.0.0/16", "via", "10.0.0.2")
    f.soon("a route", "10.9.0.0/16", "10.0.0.2 1")
    # It cannot enter another namespace, and says why.
    sh("ip", "netns", "del", space.name)
    f.soon("no route", "10.9.0.0/16", None)
    sh("ip", "netns", "add", space.name)
    wait_for("a reason", lambda: "CAP_SYS_ADMIN" in f.router.output(), 5)
    equal(f.read("state"), "failing", "state")
