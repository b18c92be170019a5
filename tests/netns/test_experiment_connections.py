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
