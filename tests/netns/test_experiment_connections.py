"""`valiant bench run` with `search = "connections"` (RFC 9693): the kernel's own NAT, and devices that keep no connections."""

import contextlib
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

from harness import Plain, Skip, case, check, equal
from lab import Lab, Namespace, Router, the_binary
from test_experiment import laboratory, lines, outcome, outcome_text, trials

LIMIT = pathlib.Path("/proc/sys/net/netfilter/nf_conntrack_max")
BOTH_WAYS = "FromDevice(in0) -> ToDevice(in1);\nFromDevice(in1) -> ToDevice(in0);\n"
# All connections have the same port behind it, so it could not know whose an answer is.
ONE_PORT = ("FromDevice(in0) -> StoreData(34, \\<04d2>) -> Strip(14) -> CheckIPHeader -> SetUDPChecksum -> Unstrip(14) -> ToDevice(in1);\n"
            "FromDevice(in1) -> ToDevice(in0);\n")


def translator(lab: Lab) -> tuple[Namespace, Namespace]:
    """A namespace for generator and sink, and one whose kernel translates what goes from in0 to in1."""
    missing = [tool for tool in ("nft", "conntrack") if not shutil.which(tool)]
    if missing:
        raise Skip(f"{' and '.join(missing)} not installed (apt install nftables conntrack)")
    ends, device = lab.namespace("x"), lab.namespace("d")
    for number in range(2):
        lab.veth(ends, f"eth{number}", device, f"in{number}")
        device.ip("addr", "add", f"198.{18 + number}.0.254/24", "dev", f"in{number}")
        mac = ends.mac(f"eth{number}")
        device.ip("neigh", "replace", f"198.{18 + number}.0.1", "lladdr", mac, "nud", "permanent", "dev", f"in{number}")
    device.sh("sysctl", "-qw", "net.ipv4.ip_forward=1")
    rules = lab.dir / "rules"
    rules.write_text('table ip nat {\n chain post {\n  type nat hook postrouting priority 100\n  oifname "in1" masquerade\n }\n}\n')
    device.sh("nft", "-f", rules)
    return ends, device


@contextlib.contextmanager
def table_of(device: Namespace, size: int) -> Iterator[None]:
    """So many connections fit into the kernel's table of a namespace: the limit is that of all of them."""
    before = LIMIT.read_text()
    try:
        LIMIT.write_text(str(size))
    except OSError as e:
        raise Skip(f"the kernel's limit of connections cannot be set: {e}") from None
    try:
        if device.sh("cat", LIMIT).strip() != str(size):
            raise Skip("namespaces have a limit of connections of their own")
        yield
    finally:
        LIMIT.write_text(before)


def experiment(lab: Lab, keys: str, device: str = "", traffic: str = "") -> pathlib.Path:
    path = lab.dir / "e.toml"
    path.write_text(f'{device}[traffic]\nto = "eth0"\nsink = "eth1"\n{traffic}[measure]\nsearch = "connections"\n{keys}')
    return path


@case(Plain, seconds=120, long=True)
def connections_through_the_kernels_nat_are_as_many_as_its_table_has(lab: Lab) -> None:
    ends, device = translator(lab)
    table, flows = 3000, 1000
    keys = (f'empty = "ip netns exec {device.name} conntrack -F"\nleast = 1000\nmost = "20k"\nwidth = "40%"\nwait = "200ms"\n'
            'capacity = 8000\ncapacity-rate = "50%"\ntear-downs = 2\n')
    path = experiment(lab, keys, traffic=f'dst-mac = "{device.mac("in0")}"\nflows = {flows}\n')
    with table_of(device, table):
        row = outcome(ends, path)["results"][0]
    kept = row["connections"]
    equal((kept["number"], kept["capacity"]["median"], kept["capacity"]["may_be_more"]), (flows, table, False), f"capacity\n{row}")
    check(row["pps"]["median"] >= 1000, row)
    check(kept["tear_down"]["rate"] > 0 and len(kept["tear_down"]["emptied_s"]) == 2, kept)
    shown = [t["connections"] for t in trials(path) if not t["disturbed"]]
    equal({c["step"] for c in shown}, {"rate", "capacity", "tear-down"}, "steps")
    for one in shown:
        check(one["answered"] <= one["established"] <= one["asked"] and one["wrong"] == 0, one)
    check(all(c["asked"] == flows for c in shown if c["step"] != "capacity"), shown)
    # Nothing is measured again, and the table is in the text.
    before = lines(path)
    text = outcome_text(ends, path)
    equal(lines(path), before, "trials")
    check("connections through the device (RFC 9693)" in text and "3000" in text, text)


@case(Plain, seconds=60)
def a_device_that_forgets_connections_has_no_rate(lab: Lab) -> None:
    space = laboratory(lab)
    (lab.dir / "d.click").write_text(ONE_PORT)
    path = experiment(lab, "least = 1000\nmost = 1000\n", '[device]\nprogram = "d.click"\n', "flows = 200\n")
    row = outcome(space, path, status=3)["results"][0]
    equal(row["pps"]["median"], None, "a rate")
    reason = row["failed"][0]
    check("does not keep connections: of 200 that were set up" in reason and "addresses or ports of others" in reason, reason)
    last = trials(path)[-1]["connections"]
    equal((last["established"], last["answered"] + last["wrong"] <= 200, last["wrong"] > 100), (200, True, True), last)


@case(Plain, seconds=60)
def connections_are_set_up_and_answered_by_hand(lab: Lab) -> None:
    space = laboratory(lab)
    (lab.dir / "d.click").write_text(BOTH_WAYS)
    router = Router(lab, space, lab.dir / "d.click")

    def made(*options: object) -> Any:
        words = ("gen", "--to", "eth0", "--sink", "eth1", "-r", "5k", "--connections", "500", "--json", "--quiet", "--wait", "1s", *options)
        return json.loads(space.sh(the_binary(), *words, timeout=40))["connections"]
    variants: list[list[str]] = [[], ["--random", "--sport", "1-50", "--dport", "1-10"], ["--ipv6", "--answer", "2k"], ["-s", "imix"]]
    for options in variants:
        found = made(*options)
        equal((found["established"], found["answers_sent"], found["answered"], found["wrong"]), (500, 500, 500, 0), options)
    # What only goes there does not come back.
    router.stop()
    (lab.dir / "d.click").write_text(BOTH_WAYS.splitlines()[0] + "FromDevice(in1) -> Discard;\n")
    Router(lab, space, lab.dir / "d.click")
    found = made()
    equal((found["established"], found["answered"]), (500, 0), found)
    words = ("gen", "--to", "eth0", "--sink", "eth1", "-r", "5k", "--connections", "500", "--quiet", "--max-loss", "0")
    process = space.popen(the_binary(), *words, log="gen")
    equal(process.wait(30), 3, process.log.read_text())
    check("0 answers arrived" in process.log.read_text(), process.log.read_text())


# As many packets may pass a limit at once as there are connections, so that these are set up however they come.
BURST = 200


def nat(lab: Lab, name: str, *, capacity: int = 100_000, rate: int = 0) -> pathlib.Path:
    """A router that translates what goes from in0 to in1, and forgets the oldest connection for a new one beyond its capacity."""
    limit = f"-> RatedSplitter({rate}, BURST_SIZE {BURST}) " if rate else ""
    path = lab.dir / name
    path.write_text(
        f"rw :: IPRewriter(pattern 198.19.0.254 10000-60000# - - 0 1, drop, MAPPING_CAPACITY {capacity}, UDP_GUARANTEE 0);\n"
        "FromDevice(in0) -> Strip(14) -> CheckIPHeader -> [0] rw;\nFromDevice(in1) -> Strip(14) -> CheckIPHeader -> [1] rw;\n"
        f"rw[0] {limit}-> EtherEncap(0x0800, 2:0:0:0:0:a, 2:0:0:0:0:b) -> Queue(4096) -> ToDevice(in1);\n"
        "rw[1] -> EtherEncap(0x0800, 2:0:0:0:0:c, 2:0:0:0:0:d) -> Queue(4096) -> ToDevice(in0);\n")
    return path


def sent_over(space: Namespace, flows: int, *options: object) -> Any:
    """What `valiant gen` says of frames over so many connections that it has set up before."""
    words = ("gen", "--to", "eth0", "--sink", "eth1", "--connections", flows, "--set-up", "2k", "--json", "--quiet", "--wait", "1s",
             *(() if "-r" in options else ("-r", "500", "-t", "1")), *options)
    return json.loads(space.sh(the_binary(), *words, timeout=60))


@case(Plain, seconds=90)
def frames_are_sent_over_connections_that_are_there_already(lab: Lab) -> None:
    space = laboratory(lab)
    router = Router(lab, space, nat(lab, "d.click"))
    for direction, ports in (("forward", 1), ("reverse", 1), ("both", 2)):
        report = sent_over(space, 100, "--direction", direction, "--random")
        kept = report["connections"]
        equal((kept["established"], kept["existing"], report["loss"]["frames"]), (100, {"changed": 0, "checked": False}, 0), direction)
        equal((report["sent"]["ports"], report["received"]["flows"]), (ports, 100 * ports), direction)
        check(report["received"]["received"] > 100 * ports, report["received"])
    router.stop()
    # Of 100 connections the 60 that were set up last are there: of each round of 100 frames back 40 are lost.
    router = Router(lab, space, nat(lab, "d.click", capacity=60))
    report = sent_over(space, 100, "--direction", "reverse")
    kept, sent = report["connections"], report["sent"]["frames"]
    equal((kept["established"], kept["answers_sent"], kept["answered"]), (100, 100, 60), kept)
    check(kept["existing"]["checked"], kept)
    check(sent // 100 * 40 <= report["loss"]["frames"] <= -(-sent // 100) * 40, report["loss"])
    # Frames of the Initiator set them up anew, with other ports: each comes as that of another connection.
    router.stop()
    router = Router(lab, space, nat(lab, "d.click", capacity=60))
    report = sent_over(space, 100)
    check(report["connections"]["existing"]["changed"] >= 40 and report["loss"]["frames"] >= 40, report["connections"])
    words = ("gen", "--to", "eth0", "--sink", "eth1", "-r", "500", "-t", "1", "--connections", "100", "--set-up", "2k", "--quiet")
    process = space.popen(the_binary(), *words, "--max-loss", "0", log="gen")
    equal(process.wait(30), 3, process.log.read_text())
    check("frames arrived with the addresses or ports of others" in process.log.read_text(), process.log.read_text())
    router.stop()


OVER = 'set-up = "2k"\nwait = "500ms"\n'


def over(lab: Lab, keys: str, device: str = "", traffic: str = "") -> pathlib.Path:
    path = lab.dir / "o.toml"
    path.write_text(f'{device}[traffic]\nto = "eth0"\nsink = "eth1"\n{traffic}[measure]\n{OVER}{keys}')
    return path


@case(Plain, seconds=120, long=True)
def throughput_over_connections_is_that_of_the_device(lab: Lab) -> None:
    space = laboratory(lab)
    nat(lab, "d.click", rate=3000)
    # Phase 1 stays below the limit of 3000 a second, in the only direction that has one.
    path = over(lab, 'least = 300\nmost = 12000\nwidth = "20%"\nfirst = 0.3\nlast = 0.6\nsum = 0.6\n',
                '[device]\nprogram = "d.click"\n', f"flows = {BURST}\n")
    report = outcome(space, path)
    row = report["results"][0]
    equal(row["set_up"], {"connections": BURST, "rate": 2000}, row)
    # What comes within 0.6 s, and the burst.
    check(0 < row["pps"]["median"] <= (3000 * 0.6 + BURST) / 0.6 * 1.02, row["pps"])
    # What is beyond the limit is lost, though no connection is forgotten.
    last = row["rounds"][0]
    equal((last["existing"]["established"], last["upper_existing"]["changed"]), (BURST, 0), last)
    check(last["upper_existing"]["answered"] in (None, BURST), last)
    text = outcome_text(space, path)
    for words in ("over 200 connections that were there already", "IPDV 50 %", ", median "):
        check(words in text, f"{words}\n{text}")
    Router(lab, space, lab.dir / "d.click")
    report = sent_over(space, BURST, "-r", "12k", "-t", "2")
    most = 3000 * report["sent"]["seconds"] + BURST + 100
    check(report["received"]["received"] <= most, report)
    if report["sent"]["frames"] > most:
        kept = report["connections"]
        equal((kept["existing"], kept["answered"]), ({"changed": 0, "checked": True}, BURST), kept)


@case(Plain, seconds=120, long=True)
def a_device_that_forgets_connections_loses_their_frames(lab: Lab) -> None:
    space = laboratory(lab)
    nat(lab, "d.click", capacity=150)
    device, traffic = '[device]\nprogram = "d.click"\n', 'flows = 200\ndirection = "reverse"\n'
    row = outcome(space, over(lab, "last = 1\n", device, f"{traffic}rate = 600\n"))["results"][0]
    existing = row["rounds"][0]["existing"]
    equal((existing["asked"], existing["established"], existing["answered"]), (200, 200, 150), existing)
    check(0.24 <= row["rounds"][0]["loss"], row["rounds"][0])
    shutil.rmtree(lab.dir / "o.results")
    row = outcome(space, over(lab, "least = 400\nmost = 400\nlast = 0.5\nsum = 0.5\n", device, traffic), status=3)["results"][0]
    check("the device had forgotten 50 of 200 connections" in row["failed"][0], row["failed"])


@case(Plain, seconds=120, long=True)
def both_directions_go_through_the_kernels_nat(lab: Lab) -> None:
    ends, device = translator(lab)
    keys = f'empty = "ip netns exec {device.name} conntrack -F"\nlast = 1\n'
    mac = f'dst-mac = "{device.mac("in0")}"\n'
    row = outcome(ends, over(lab, keys, traffic=f'{mac}flows = 300\nrate = 500\ndirection = "both"\n'))["results"][0]
    one = row["rounds"][0]
    equal((one["existing"]["established"], one["existing"]["changed"]), (300, 0), one)
    check(one["existing"]["answered"] in (None, 300), one)
    check(0 < row["pps"]["median"] <= 1010, row["pps"])
    # Connections that expire are not there when it is their turn: 100 frames a second over 300 that last a second.
    device.sh("sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=1")
    shutil.rmtree(lab.dir / "o.results")
    keys = keys.replace("last = 1", "last = 3")
    row = outcome(ends, over(lab, keys, traffic=f'{mac}flows = 300\nrate = 100\ndirection = "reverse"\n'))["results"][0]
    one = row["rounds"][0]
    check(one["loss"] > 0.3 and one["existing"]["answered"] < 300, one)
    check("had forgotten" in outcome_text(ends, lab.dir / "o.toml"), one)
