"""Routers that give up their rights when their ports are open, and the helper that opens devices for hot swaps."""

import json
import os
import pathlib
import signal
import subprocess

from harness import LabError, Plain, Router, Skip, case, check, equal, pair, ping, wait_for
from lab import Lab, Namespace, the_binary

NOBODY = 65534
NUMBERS = {"net_admin": 12, "net_raw": 13, "bpf": 39}


def status(pid: int | str, name: str) -> list[str]:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.split(":")[1].split()
    raise LabError(f"process {pid} has no {name}")


def mask(*names: str) -> int:
    return sum(1 << NUMBERS[name] for name in names)


def started(lab: Lab, space: Namespace, conf: str | os.PathLike[str], *args: object) -> Router:
    """A router that has given up its rights."""
    router = Router(lab, space, conf, *args)
    # The control socket is there before.
    wait_for("it to give up its rights", lambda: "of its capabilities" in router.output(), 10)
    return router


def only(pid: int, uid: int, *capabilities: str) -> int:
    """Every thread runs as this user and has these capabilities and no others, now and for ever."""
    tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    for task in tasks:
        try:
            lines = (task / "status").read_text().splitlines()
        except OSError:
            # It has ended.
            continue
        fields = {line.split(":")[0]: line.split(":")[1].split() for line in lines if ":" in line}
        for field in ("Uid", "Gid"):
            equal(fields[field], [str(uid)] * 4, f"{field} of a thread")
        equal(fields["NoNewPrivs"], ["1"], "NoNewPrivs")
        for field in ("CapEff", "CapPrm"):
            equal(int(fields[field][0], 16), mask(*capabilities), field)
        equal(int(fields["CapBnd"][0], 16) & ~mask(*capabilities), 0, "CapBnd")
        for field in ("CapInh", "CapAmb"):
            equal(int(fields[field][0], 16), 0, field)
    return len(tasks)


def helper_of(pid: int) -> int | None:
    """The helper's process, or None."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cmdline").read_bytes().startswith(b"valiant-devices\0") and status(path.name, "PPid") == [str(pid)]:
                return int(path.name)
        except (OSError, LabError):
            continue
    return None


def the_helper_of(pid: int) -> int:
    helper = helper_of(pid)
    if helper is None:
        raise AssertionError("there is no helper")
    return helper


def alive(pid: int) -> bool:
    try:
        return status(pid, "State")[0] not in "ZX"
    except (OSError, LabError):
        return False


def forward(lab: Lab, method: str) -> pathlib.Path:
    conf = lab.dir / "forward.click"
    conf.write_text("".join(f"FromDevice(eth{i}, METHOD {method}) -> c{i} :: Counter\n"
                            f"  -> Queue -> ToDevice(eth{1 - i}, METHOD {method});\n" for i in (0, 1)))
    return conf


def hotswap(router: Router, text: str) -> str:
    """Replace the configuration; returns what the router says against it."""
    done = subprocess.run([the_binary(), "write", "--socket", router.socket, "hotconfig", "-"], input=text, text=True,
                          capture_output=True, timeout=20, check=False)
    return "" if done.returncode == 0 else done.stderr or "failed"


TAP = ("tap :: KernelTap(10.7.0.1/24, DEVNAME vtap0);\n"
       "tap -> kind :: Classifier(12/0806 20/0001, 12/0800, -);\n"
       "out :: Queue -> tap;\n"
       "kind[0] -> ARPResponder(10.7.0.2 02:00:00:00:00:09) -> out;\n"
       "kind[1] -> CheckIPHeader(14) -> IPClassifier(icmp type echo) -> ICMPPingResponder -> EtherMirror -> out;\n"
       "kind[2] -> Discard;\n")


@case(Plain, seconds=40)
def a_router_that_has_given_up_its_rights_forwards_by_af_xdp(lab: Lab) -> None:
    gives_up_and_forwards(lab, "AF_XDP", "net_admin", "bpf")


@case(Plain, seconds=40)
def a_router_that_has_given_up_its_rights_forwards_by_af_packet(lab: Lab) -> None:
    gives_up_and_forwards(lab, "AF_PACKET")


def gives_up_and_forwards(lab: Lab, method: str, *kept: str) -> None:
    middle, left, _ = pair(lab)
    router = started(lab, middle, forward(lab, method), "-j", "2", "--user", "nobody")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    check("runs as nobody" in router.output(), router.output())
    check(only(router.pid, NOBODY, *kept) >= 4, "too few threads to be all")
    equal(status(router.pid, "Groups"), [str(NOBODY)], "groups")
    check(helper_of(router.pid) is None, "there is a helper where nothing can be swapped")
    found = json.loads(subprocess.run([the_binary(), "doctor", "--json"], capture_output=True, text=True, check=False).stdout)
    mine = [r for r in found["routers"] if r["process"] == router.pid]
    equal([(r["user"], sorted(r["capabilities"]), r["no_new_privileges"]) for r in mine], [("nobody", sorted(kept), True)],
          "what doctor says")
    equal(router.stop(), 0, "how it ended")
    # What it did to the interfaces it has undone without the rights that it had.
    link = middle.ip("-d", "link", "show", "eth0")
    check("xdp" not in link and "PROMISC" not in link, link)


@case(Plain)
def without_the_option_a_router_keeps_its_rights(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    router = Router(lab, middle, forward(lab, "AF_PACKET"), "-R")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    equal((status(router.pid, "Uid")[0], status(router.pid, "NoNewPrivs")), ("0", ["0"]), "user and no-new-privileges")
    check(helper_of(router.pid) is None, "there is a helper")


@case(Plain)
def a_promiscuous_interface_is_set_back_by_a_router_that_has_given_up_its_rights(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    conf = lab.dir / "promisc.click"
    conf.write_text("FromDevice(eth0, PROMISC true, METHOD AF_PACKET) -> Queue -> ToDevice(eth1, METHOD AF_PACKET);\n")
    router = started(lab, middle, conf, "--user", "nobody")
    check("promiscuity 1" in middle.ip("-d", "link", "show", "eth0"), "it is not promiscuous")
    # The kernel sets it back when the socket is closed, which takes no right.
    only(router.pid, NOBODY)
    equal(router.stop(), 0, "how it ended")
    check("promiscuity 0" in middle.ip("-d", "link", "show", "eth0"), "it is still promiscuous")


@case(Plain, seconds=40)
def hot_swaps_open_taps_by_the_helper_which_ends_with_the_router(lab: Lab) -> None:
    swaps_taps(lab, "SIGINT")


@case(Plain, seconds=40)
def hot_swaps_open_taps_by_the_helper_which_ends_with_a_killed_router(lab: Lab) -> None:
    swaps_taps(lab, "SIGKILL")


def swaps_taps(lab: Lab, end: str) -> None:
    middle, left, _ = pair(lab)
    base = forward(lab, "AF_PACKET").read_text()
    router = started(lab, middle, lab.dir / "forward.click", "-R", "--user", "nobody")
    only(router.pid, NOBODY)
    helper = the_helper_of(router.pid)
    only(helper, 0, "net_admin")
    equal(hotswap(router, base + TAP), "", "a hot swap that adds a TAP")
    wait_for("a ping through the tap", lambda: ping(middle, "10.7.0.2"), 5)
    wait_for("a ping between the interfaces", lambda: ping(left, "10.9.0.2"), 5)
    # What the helper does not do, and what DPDK's driver cannot: nothing changes.
    before, links = router.read("config"), middle.ip("-o", "link")
    said = hotswap(router, base + TAP.replace("vtap0", "eth0"))
    check("eth0" in said, said)
    middle.ip("link", "add", "spare0", "type", "veth", "peer", "name", "spare1")
    for extra, wanted in (
            ("FromDevice(spare0) -> Discard;\n", ("CAP_NET_ADMIN and CAP_NET_RAW", "--keep-capability net_admin,net_raw")),
            ("FromDevice(\"net_af_packet7,iface=spare0\") -> Discard;\n", ("CAP_NET_RAW", "--keep-capability net_raw")),
            ("FromDevice(spare0, METHOD AF_XDP) -> Discard;\n", ("CAP_BPF", "--keep-capability net_admin,net_raw,bpf")),
            ("two :: KernelTap(10.8.0.1/24, DEVNAME vtap1) -> Discard; FromDevice(spare0) -> Discard;\n", ("CAP_NET_RAW",))):
        said = hotswap(router, base + TAP + extra)
        check(all(w in said for w in wanted), f"{extra}: {said}")
    middle.ip("link", "del", "spare0")
    equal((router.read("config"), middle.ip("-o", "link")), (before, links), "what was there before")
    check(ping(middle, "10.7.0.2") and ping(left, "10.9.0.2"), "the running configuration does not go on")
    # Another one, after those that failed; and the first one goes.
    equal(hotswap(router, base + TAP.replace("vtap0", "vtap9").replace("10.7", "10.6")), "", "another hot swap")
    wait_for("a ping through the other tap", lambda: ping(middle, "10.6.0.2"), 5)
    check("vtap0" not in middle.ip("-o", "link"), "the first one is still there")
    router.process.send_signal(getattr(signal, end))
    router.process.wait(10)
    if end == "SIGINT":
        equal(router.process.returncode, 0, "how it ended")
    wait_for("the helper to end", lambda: not alive(helper), 5)
    check("vtap9" not in middle.ip("-o", "link"), "the tap is still there")


@case(Plain, seconds=40)
def hot_swaps_join_a_tap_that_was_there_before_by_the_helper(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    base = forward(lab, "AF_PACKET").read_text()
    router = started(lab, middle, lab.dir / "forward.click", "-R", "--user", "nobody")
    helper = the_helper_of(router.pid)
    middle.ip("tuntap", "add", "dev", "vtap0", "mode", "tap")
    middle.ip("link", "add", "spare0", "type", "veth", "peer", "name", "spare1")
    tap = TAP.replace("vtap0", "vtap0, ETHER 02:00:00:00:00:55, MTU 1400")

    def shown() -> tuple[str, int, bool, list[str]]:
        link, = json.loads(middle.ip("-j", "addr", "show", "vtap0"))
        addresses = [a["local"] for a in link["addr_info"] if a["family"] == "inet"]
        return link["address"], link["mtu"], "UP" in link["flags"], addresses

    before = shown()
    # A hot swap that fails when the device is open already.
    said = hotswap(router, base + tap + "FromDevice(spare0) -> Discard;\n")
    check("CAP_NET_RAW" in said, said)
    equal(shown(), before, "the device after a hot swap that fails")
    for _ in range(2):
        equal(hotswap(router, base + tap), "", "a hot swap that joins the device")
        equal(shown(), ("02:00:00:00:00:55", 1400, True, ["10.7.0.1"]), "the device")
        wait_for("a ping through the tap", lambda: ping(middle, "10.7.0.2"), 5)
        equal(hotswap(router, base), "", "a hot swap that leaves it")
    check(alive(helper) and ping(left, "10.9.0.2"), "the helper or the router has ended")
    equal(router.stop(), 0, "how it ended")
    check("vtap0" in middle.ip("-o", "link"), "the device is gone")


@case(Plain)
def without_its_helper_a_router_goes_on_and_says_what_is_missing(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    base = forward(lab, "AF_PACKET").read_text()
    router = started(lab, middle, lab.dir / "forward.click", "-R", "--user", "nobody")
    os.kill(the_helper_of(router.pid), signal.SIGKILL)
    said = hotswap(router, base + TAP)
    check("helper" in said and "has ended" in said, said)
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)


@case(Plain)
def a_capability_that_is_kept_lets_a_hot_swap_add_an_interface(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    first = lab.dir / "first.click"
    first.write_text("FromDevice(eth0, METHOD AF_PACKET) -> Discard;\n")
    router = started(lab, middle, first, "-R", "--user", "nobody", "--keep-capability", "CAP_NET_RAW,net_admin")
    only(router.pid, NOBODY, "net_raw", "net_admin")
    text = ("FromDevice(eth0, METHOD AF_PACKET) -> Queue -> ToDevice(eth1);\n"
            "FromDevice(eth1) -> Queue -> ToDevice(eth0);\n")
    said = hotswap(router, text)
    check("it is open with" in said, said)
    text = "FromDevice(eth0, METHOD AF_PACKET) -> c0 :: Counter -> Discard; FromDevice(eth1) -> c1 :: Counter -> Discard;\n"
    equal(hotswap(router, text), "", "the hot swap")
    check("AF_PACKET" in router.read("config"), "which configuration runs")
    left.ip("neigh", "replace", "10.9.0.2", "lladdr", "02:00:00:00:00:77", "dev", "eth0")
    ping(left, "10.9.0.2")
    wait_for("packets", lambda: int(router.read("c0.count")) > 0, 3)


@case(Plain)
def wrong_users_and_capabilities_are_said_before_anything_is_opened(lab: Lab) -> None:
    for words, wanted in ((("--user", "nobody-there"), "there is no user 'nobody-there'"),
                          (("--keep-capability", "net_rwa"), "there is no capability 'net_rwa'")):
        done = subprocess.run([the_binary(), "run", "-e", "FromDevice(net_null0) -> Discard", *words], capture_output=True,
                              text=True, timeout=10, check=False)
        check(done.returncode == 1 and wanted in done.stderr and "net_null0" not in done.stderr, done.stderr)


@case(Plain)
def under_the_service_manager_capabilities_are_given_up_by_themselves(lab: Lab) -> None:
    space = lab.namespace("r")
    log, number = lab.dir / "service.log", lab.dir / "service.pid"
    conf = lab.dir / "service.click"
    conf.write_text("FromDevice(net_null0) -> Discard;\n")
    # A child of process 1, as services are.
    script = (f"(sleep 0.2; echo $PPID >/dev/null; exec env INVOCATION_ID=1 {the_binary()} run {conf} >{log} 2>&1) & "
              f"echo $! >{number}")
    space.sh("sh", "-c", script)
    pid = int(number.read_text())
    try:
        wait_for("the router", lambda: "capabilities" in log.read_text() or not alive(pid), 10)
        if status(pid, "PPid") != ["1"]:
            raise Skip("orphans do not become children of process 1 here")
        check("keeps none of its capabilities" in log.read_text(), log.read_text())
        only(pid, 0)
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
