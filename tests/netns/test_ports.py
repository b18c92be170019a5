"""Ports and the process: kinds of port, what the kernel leaves undone, ports that go away, idleness, neighbors."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from control import ControlSocket
from harness import (
    ICMP,
    IP,
    ROOT,
    UDP,
    Ether,
    LabError,
    Plain,
    Raw,
    Router,
    RouterNet,
    Skip,
    Wire,
    case,
    check,
    equal,
    pair,
    ping,
    wait_for,
)
from lab import Lab, Namespace, cpu_seconds, the_binary

FORWARD = ROOT / "conf" / "minimal-forward.click"
LOADER = ROOT / "tests" / "lab" / "udpload.py"


def iperf(client: Namespace, server: Namespace, to: str, seconds: float = 1, *options: str) -> float:
    """Gbit/s received over one TCP connection."""
    listener = server.popen("iperf3", "-s", "-1", "-p", "5300")
    wait_for("iperf3 -s", lambda: ":5300" in server.sh("ss", "-Hltn"), 3)
    out = client.sh("iperf3", "-c", to, "-p", "5300", "-t", seconds, "-J", "--connect-timeout", "2000", *options,
                    check=False, timeout=seconds + 15)
    server.lab.stop(listener)
    result = json.loads(out)
    check("error" not in result, f"iperf3: {result.get('error')}")
    return result["end"]["sum_received"]["bits_per_second"] / 1e9


def forward(lab: Lab, middle: Namespace, *args: object, **kw: Any) -> Router:
    return Router(lab, middle, FORWARD, "DEV0=eth0", "DEV1=eth1", *args, **kw)


def forwarding(lab: Lab, method: str) -> Path:
    """A configuration that forwards between two interfaces, opened by one method."""
    conf = lab.dir / "method.click"
    conf.write_text(re.sub(r"Device\(\$DEV(\d)\)", rf"Device(eth\1, METHOD {method})", FORWARD.read_text()))
    return conf


# --- kinds of port ---------------------------------------------------------------------------------------------------------


@case(Plain)
def an_af_xdp_port_says_so(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    router = Router(lab, middle, forwarding(lab, "AF_XDP"))
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    check("af_xdp" in router.output().lower().replace("-", "_"), f"no word of AF_XDP in:\n{router.output()}")


@case(Plain)
def who_only_listens_leaves_the_host_its_packets(lab: Lab) -> None:
    middle, _, right = pair(lab)
    middle.ip("addr", "add", "10.9.0.3/24", "dev", "eth1")
    click = lab.dir / "click"
    click.symlink_to(the_binary())
    listeners: dict[str, list[object]] = {
        "click": [click, "-e", "FromDevice(eth1) -> c :: Counter -> Discard;"],
        "click-pcap": [click, "-e", "FromDevice(eth1, METHOD PCAP) -> c :: Counter -> Discard;"],
        "sniffer": [the_binary(), "run", "-e", "FromDevice(eth1, SNIFFER true) -> c :: Counter -> Discard;"],
    }
    for name, command in listeners.items():
        socket = lab.dir / f"{name}.sock"
        process = middle.popen(*command, "-u", socket, log=f"{name}.log")
        wait_for(f"the control socket of {name}", socket.exists, 20)
        for _ in range(3):
            check(ping(right, "10.9.0.3"), f"{name}: the host does not answer any more")
        with contextlib.closing(ControlSocket(socket)) as control:
            check(int(control.read("c.count")) >= 3, f"{name}: did not see the packets")
        equal(lab.stop(process), [0], f"exit status of {name}")


@case(Plain)
def without_the_right_to_load_xdp_the_port_is_af_packet_and_says_why(lab: Lab) -> None:
    middle, left, right = pair(lab)
    if not shutil.which("setpriv"):
        raise Skip("setpriv is not installed")
    wrapper = lab.dir / "valiant-without-bpf"
    wrapper.write_text(f"#!/bin/sh\nexec setpriv --bounding-set -sys_admin,-bpf,-perfmon {the_binary()} \"$@\"\n")
    wrapper.chmod(0o755)
    router = forward(lab, middle, binary=str(wrapper))
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    lines = [x for x in router.output().splitlines() if "af_packet" in x.lower().replace("-", "_")]
    check(lines, f"no word of AF_PACKET in:\n{router.output()}")
    check(iperf(left, right, "10.9.0.2") > 0.01, "TCP does not get through")


@case(Plain)
def devargs_name_a_port(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    Router(lab, middle, FORWARD, 'DEV0="net_af_packet0,iface=eth0"', 'DEV1="net_af_packet1,iface=eth1"')
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)


@case(Plain)
def a_tap_port_is_an_interface_of_the_host(lab: Lab) -> None:
    space = lab.namespace("r")
    conf = lab.dir / "tap.click"
    conf.write_text("tap :: KernelTap(10.7.0.1/24, DEVNAME vtap0);\n"
                    "tap -> kind :: Classifier(12/0806 20/0001, 12/0800, -);\n"
                    "out :: Queue -> tap;\n"
                    "kind[0] -> ARPResponder(10.7.0.2 02:00:00:00:00:09) -> out;\n"
                    "kind[1] -> CheckIPHeader(14) -> IPClassifier(icmp type echo) -> ICMPPingResponder -> EtherMirror -> out;\n"
                    "kind[2] -> Discard;\n")
    router = Router(lab, space, conf)
    wait_for("the interface", lambda: "vtap0" in space.ip("-br", "link"), 3)
    wait_for("a ping through the tap", lambda: ping(space, "10.7.0.2"), 5)
    router.stop()
    wait_for("the interface to go", lambda: "vtap0" not in space.ip("-br", "link"), 3)


@case(Plain)
def two_queues_of_one_interface_carry_traffic(lab: Lab) -> None:
    middle, left, right = pair(lab, queues=2)
    forward(lab, middle)
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    # Flows are spread over the queues by their ports: all of them must come through.
    with Wire(left) as a, Wire(right) as b:
        for port in range(64):
            frame = b.mac, a.mac
            a.send(bytes.fromhex((frame[0] + frame[1]).replace(":", "")) + b"\x08\x00"
                   + bytes(IP(src="10.9.0.1", dst="10.9.0.2", id=600 + port) / UDP(sport=2000 + port, dport=9999)))
        seen = {f[IP].id for f in b.frames(0.5) if IP in f and 600 <= f[IP].id < 664 and f[IP].src == "10.9.0.1"}
    equal(len(seen), 64, "flows that came through")


@case(Plain)
def one_queue_feeds_two_workers_and_each_flow_keeps_its_order(lab: Lab) -> None:
    middle, left, right = pair(lab)
    conf = lab.dir / "spread.click"
    # AF_PACKET would have a queue for each worker.
    conf.write_text("in :: FromDevice(eth0, METHOD AF_XDP) -> out :: ToDevice(eth1, METHOD AF_XDP);\n"
                    "back :: FromDevice(eth1, METHOD AF_XDP) -> ToDevice(eth0, METHOD AF_XDP);\n")
    router = Router(lab, middle, conf, "-j", "2")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    lanes = router.read("in.lanes")
    check("polls queue 0, spreads flows over worker 0 and 1" in lanes, lanes)
    check("gives packets to worker 0" in router.read("out.lanes"), router.read("out.lanes"))
    with Wire(left) as a, Wire(right) as b:
        ether = bytes.fromhex((b.mac + a.mac).replace(":", "")) + b"\x08\x00"
        for number in range(8):
            for port in range(64):
                a.send(ether + bytes(IP(src="10.9.0.1", dst="10.9.0.2", id=number + 1)
                                     / UDP(sport=2000 + port, dport=9999)))
        seen: dict[int, list[int]] = {}
        for frame in b.frames(1):
            if IP in frame and UDP in frame and frame[UDP].dport == 9999:
                seen.setdefault(frame[UDP].sport, []).append(frame[IP].id)
    equal(seen, {2000 + port: list(range(1, 9)) for port in range(64)}, "what came of each flow, in order")
    equal(router.read("drops"), "", "drops")


# --- what veth leaves undone -------------------------------------------------------------------------------------------------


def tcp_with_partial_checksums(lab: Lab, method: str) -> None:
    middle, left, right = pair(lab, offload=True)
    conf = lab.dir / "method.click"
    conf.write_text("".join(f"FromDevice(eth{i}, METHOD {method}) -> Queue -> ToDevice(eth{1 - i}, METHOD {method});\n"
                            for i in (0, 1)))
    Router(lab, middle, conf)
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    check(iperf(left, right, "10.9.0.2") > 0.01, "TCP does not get through")
    bad = right.sh("nstat", "-az", "TcpInCsumErrors", "UdpInCsumErrors", check=False)
    check(all(x.split()[1] == "0" for x in bad.splitlines() if "CsumErrors" in x), f"wrong checksums arrived:\n{bad}")


@case(Plain)
def partial_checksums_are_completed_on_af_xdp(lab: Lab) -> None:
    tcp_with_partial_checksums(lab, "AF_XDP")


@case(Plain)
def partial_checksums_are_completed_on_af_packet(lab: Lab) -> None:
    tcp_with_partial_checksums(lab, "AF_PACKET")


@case(RouterNet, 3)
def tcp_through_the_router_with_checksum_offload(net: RouterNet) -> None:
    a, b = net.hosts[0], net.hosts[1]
    for host in (a, b):
        net.lab.offload(host, "eth0", True)
    try:
        rate = iperf(a, b, "10.0.2.2")
    finally:
        for host in (a, b):
            net.lab.offload(host, "eth0", False)
    check(rate > 0.01, f"only {rate:.3f} Gbit/s")


# --- load --------------------------------------------------------------------------------------------------------------------


@case(RouterNet, 3)
def tcp_in_both_directions_at_once(net: RouterNet) -> None:
    a, b = net.hosts[0], net.hosts[1]
    check(iperf(a, b, "10.0.2.2", 2, "--bidir") > 0.01, "TCP does not get through")


@case(RouterNet, 3)
def many_connections_at_once(net: RouterNet) -> None:
    a, b = net.hosts[0], net.hosts[1]
    check(iperf(a, b, "10.0.2.2", 2, "-P", "16") > 0.01, "TCP does not get through")


@case(RouterNet, 3)
def overload_with_small_packets_leaves_the_router_answering(net: RouterNet) -> None:
    a, b = net.hosts[0], net.hosts[1]
    listener = b.popen("iperf3", "-s", "-1", "-p", "5301")
    wait_for("iperf3 -s", lambda: ":5301" in b.sh("ss", "-Hltn"), 3)
    a.sh("iperf3", "-c", "10.0.2.2", "-p", "5301", "-u", "-b", "0", "-l", "64", "-t", "2", check=False)
    net.lab.stop(listener)
    wait_for("a ping afterwards", lambda: ping(a, "10.0.2.2"), 3)


# --- idleness -----------------------------------------------------------------------------------------------------------------


@case(RouterNet, 3)
def a_quiet_router_uses_less_than_a_twentieth_of_a_core(net: RouterNet) -> None:
    time.sleep(0.5)
    before, began = cpu_seconds(net.router.pid), time.monotonic()
    time.sleep(3)
    used = (cpu_seconds(net.router.pid) - before) / (time.monotonic() - began)
    check(used < 0.05, f"used {used:.1%} of a core")


@case(RouterNet, 3)
def a_sleeping_router_wakes_quickly(net: RouterNet) -> None:
    worst = 0.0
    for _ in range(5):
        time.sleep(0.3)
        out = net.hosts[0].sh("ping", "-c", "1", "-W", "1", "10.0.2.2")
        worst = max(worst, float(out.split("time=")[1].split()[0]))
    # What is stated is far below this; a loaded machine gets room.
    check(worst < 50, f"an answer took {worst:.1f} ms")


def naps(pid: int) -> int:
    """How often the threads of a process have gone to sleep."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    lines = [x for t in tasks for x in (t / "status").read_text().splitlines() if x.startswith("voluntary_ctxt")]
    return sum(int(x.split()[1]) for x in lines)


def sleeps_until_packets_come(lab: Lab, method: str) -> None:
    middle, left, _ = pair(lab)
    router = Router(lab, middle, forwarding(lab, method), "-j", "2")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    time.sleep(0.5)
    before = naps(router.pid)
    time.sleep(2)
    # A worker that looked for packets every half millisecond would have slept 4000 times.
    slept = naps(router.pid) - before
    check(slept < 1000, f"{slept} naps in 2 s")
    # A device that is down must not keep a worker awake: its socket may be in error all the time.
    middle.ip("link", "set", "eth1", "down")
    time.sleep(0.5)
    spent, began = cpu_seconds(router.pid), time.monotonic()
    time.sleep(1)
    used = (cpu_seconds(router.pid) - spent) / (time.monotonic() - began)
    check(used < 0.5, f"used {used:.1%} of a core with a device down")
    middle.ip("link", "set", "eth1", "up")
    wait_for("a ping afterwards", lambda: ping(left, "10.9.0.2"), 5)


@case(Plain)
def an_idle_worker_sleeps_until_packets_come_on_af_xdp(lab: Lab) -> None:
    sleeps_until_packets_come(lab, "AF_XDP")


@case(Plain)
def an_idle_worker_sleeps_until_packets_come_on_af_packet(lab: Lab) -> None:
    sleeps_until_packets_come(lab, "AF_PACKET")


@case(RouterNet, 3)
def a_router_sleeps_between_packets_that_come_singly(net: RouterNet) -> None:
    a, pps = net.hosts[0], 10_000
    net.hosts[1].popen(LOADER, "sink")
    wait_for("a ping", lambda: ping(a, "10.0.2.2"), 3)
    inlet = next(name for name in net.router.read("list").split() if name.startswith("FromDevice"))
    used: list[float] = []
    # What others take of the processors is counted too, and comes and goes.
    while len(used) < 3 and min(used, default=1) >= 0.6:
        sender = a.popen(LOADER, "send", "10.0.2.2", pps, 1, 3)
        time.sleep(0.5)
        received, before, began = int(net.router.read(f"{inlet}.count")), cpu_seconds(net.router.pid), time.monotonic()
        time.sleep(2)
        used.append((cpu_seconds(net.router.pid) - before) / (time.monotonic() - began))
        received = int(net.router.read(f"{inlet}.count")) - received
        sender.wait(20)
        check(received > pps / 2, f"{received} packets came in 2 s")
    # Polling for 50 us after each packet would be half a core more than the packets cost, which is a third to a half.
    check(min(used) < 0.6, f"used {used} of a core")


@case(Plain)
def what_the_kernel_loses_while_the_router_stands_still_is_a_drop(lab: Lab) -> None:
    middle, left, right = pair(lab)
    router = Router(lab, middle, forwarding(lab, "AF_XDP"))
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    inlet = next(name for name in router.read("list").split() if name.startswith("FromDevice"))
    frame = bytes(Ether(dst="2:0:0:0:0:9", src=left.mac("eth0"), type=0x88b5)) + bytes(46)

    def counted() -> tuple[int, int]:
        """Frames that the router has seen or counted as lost."""
        drops = [line.split("\t") for line in router.read(f"{inlet}.drops").splitlines()]
        lost = sum(int(n) for n, reason in drops if reason == "receive: ring full")
        return int(router.read("c01.count")) + lost, lost

    with Wire(left) as wire:
        before, _ = counted()
        # The ring has room for 2048 frames. Half a second is long enough for a worker to be thought dead.
        os.kill(router.pid, signal.SIGSTOP)
        for _ in range(6000):
            wire.send(frame)
        time.sleep(0.5)
        os.kill(router.pid, signal.SIGCONT)
        wait_for("all frames to be counted", lambda: counted()[0] >= before + 6000, 5)
        lost = counted()[1]
        check(lost >= 2000, f"{lost} lost of 6000")
        equal(int(router.read(f"{inlet}.kernel_drops")), lost, "kernel_drops")
    wait_for("a ping afterwards", lambda: ping(left, "10.9.0.2"), 3)


# --- the process ---------------------------------------------------------------------------------------------------------------


class LosingNet(RouterNet):
    """A network of its own for the case that breaks it."""


@case(LosingNet, 3)
def a_port_that_disappears_leaves_the_others_working(net: RouterNet) -> None:
    net.hosts[2].ip("link", "del", "eth0")
    time.sleep(0.3)
    a = net.hosts[0]
    with Wire(a) as wire:
        for _ in range(100):
            wire.send(net.ether() / IP(src="10.0.1.2", dst="10.0.3.2") / UDP(dport=9999) / Raw(bytes(64)))
    for _ in range(3):
        time.sleep(0.2)
        check(net.router.alive(), f"the router ended:\n{net.log()[-2000:]}")
    wait_for("h1 to h2 without the third port", lambda: ping(a, "10.0.2.2"), 3)
    check("eth2" in net.log(), f"no word of the lost port in:\n{net.log()}")
    used = cpu_seconds(net.router.pid)
    time.sleep(1)
    used = cpu_seconds(net.router.pid) - used
    check(used < 0.2, f"a lost port costs {used:.0%} of a core")


@case(Plain, seconds=40)
def several_routers_run_side_by_side(lab: Lab) -> None:
    nets = []
    for k in range(4):
        middle, left, right = (lab.namespace(f"{x}{k}") for x in "rab")
        for i, host in enumerate((left, right)):
            lab.veth(middle, f"eth{i}", host, "eth0")
            host.ip("addr", "add", f"10.9.0.{i + 1}/24", "dev", "eth0")
        nets.append((forward(lab, middle), left))
    for _, left in nets:
        wait_for("a ping", lambda h=left: ping(h, "10.9.0.2"), 3)
    check(all(router.alive() for router, _ in nets), "a router ended")


@case(Plain)
def a_device_that_is_not_there_is_an_error_that_names_it(lab: Lab) -> None:
    space = lab.namespace("r")
    done = subprocess.run(space.command(the_binary(), "run", FORWARD, "DEV0=nosuch0", "DEV1=nosuch1"),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False)
    check(done.returncode not in (0, 101) and done.returncode > 0, f"exit status {done.returncode}")
    check("nosuch0" in done.stderr + done.stdout, f"the message does not name the device:\n{done.stderr}")
    check("panicked" not in done.stderr, done.stderr)


@case(Plain)
def sighup_sigterm_and_sigint_end_it_and_leave_nothing(lab: Lab) -> None:
    before = set(os.listdir("/run/dpdk")) if os.path.isdir("/run/dpdk") else set()
    middle, left, _ = pair(lab)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        router = forward(lab, middle)
        wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
        router.process.send_signal(number)
        code = router.process.wait(5)
        check(code == 0, f"exit status {code} after signal {number}")
        check("xdp" not in middle.ip("link", "show", "eth0").replace("mtu", ""), "the XDP program is still there")
        router.stop()
    after = set(os.listdir("/run/dpdk")) if os.path.isdir("/run/dpdk") else set()
    check(after <= before, f"left in /run/dpdk: {after - before}")


@case(RouterNet, 2)
def handlers_are_read_while_packets_flow(net: RouterNet) -> None:
    a, b = net.hosts
    control = net.router.control()
    listener = b.popen("iperf3", "-s", "-1", "-p", "5302")
    wait_for("iperf3 -s", lambda: ":5302" in b.sh("ss", "-Hltn"), 3)
    load = a.popen("iperf3", "-c", "10.0.2.2", "-p", "5302", "-t", "2")
    reads, end = 0, time.monotonic() + 1.5
    while time.monotonic() < end:
        control.read("list")
        reads += 1
    load.wait(10)
    net.lab.stop(listener)
    control.close()
    check(load.returncode == 0, "TCP broke off")
    check(reads > 100, f"only {reads} handler reads in 1.5 s")


@case(RouterNet, 2)
def an_unknown_handler_is_refused(net: RouterNet) -> None:
    try:
        net.router.read("nosuch.handler")
    except LabError as refused:
        check(": 51" in str(refused), str(refused))
        return
    raise AssertionError("the read succeeded")


@case(RouterNet, 2)
def drops_have_reasons(net: RouterNet) -> None:
    with Wire(net.hosts[0]) as a:
        for _ in range(10):
            a.send(net.ether() / net.ip(chksum=0x1234) / ICMP())
        time.sleep(0.2)
    lines = [x for x in net.router.read("drops").splitlines() if "checksum" in x.lower()]
    check(lines and int(lines[0].split()[0]) >= 10, f"no drops for a bad checksum in:\n{net.router.read('drops')}")


@case(Plain)
def a_poll_interval_is_the_least_time_between_polls(lab: Lab) -> None:
    space = lab.namespace("p")
    conf = lab.dir / "seldom.click"
    conf.write_text("in :: FromDevice(net_null0, POLL_INTERVAL 5ms, BURST 32) -> Discard;\n")
    began = time.monotonic()
    router = Router(lab, space, conf)
    wait_for("packets", lambda: int(router.read("in.count")) >= 320, 10)
    count = int(router.read("in.count"))
    most = 32 * ((time.monotonic() - began) / 0.005 + 1)
    check(count <= most, f"{count} packets, in bursts of 32 every 5 ms at most {most:.0f}")
    router.stop()
    conf.write_text("FromDevice(net_null0, POLL_INTERVAL often) -> Discard;\n")
    try:
        Router(lab, space, conf, log="often.log").stop()
        raise AssertionError("an interval that is none is accepted")
    except LabError as e:
        check("bad POLL_INTERVAL 'often'" in str(e), e)
