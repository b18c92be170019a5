"""`valiant gen` and `valiant sink`: what is sent, what is counted, and a router between them."""

import json
import os
import signal
import subprocess
from typing import Any

from scapy.compat import raw
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from harness import IP, ROOT, UDP, Plain, Router, RouterNet, Wire, case, check, equal, pair, right_checksums, wait_for
from lab import Lab, Namespace, Process, the_binary

FORWARD = ROOT / "conf" / "minimal-forward.click"


def traffic(space: Namespace, command: str, *args: object, log: str) -> Process:
    """Start `valiant gen` or `valiant sink` in a namespace; its report goes to a file of the lab."""
    report = open(space.lab.dir / log, "w")
    errors = open(space.lab.dir / (log + ".err"), "w")
    return space.popen(the_binary(), command, *args, stdout=report, stderr=errors)


def report_of(space: Namespace, process: Process, log: str, status: int = 0, seconds: float = 15) -> Any:
    """The JSON report of a process that ends by itself."""
    try:
        got = process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"no end after {seconds} s: {(space.lab.dir / (log + '.err')).read_text()}") from None
    text = (space.lab.dir / log).read_text()
    equal(got, status, f"exit status\n{text}\n{(space.lab.dir / (log + '.err')).read_text()}")
    return json.loads(text)


def generate(space: Namespace, *args: object, log: str = "gen", status: int = 0) -> Any:
    return report_of(space, traffic(space, "gen", *args, "--json", log=log), log, status)


def ready(space: Namespace, log: str) -> None:
    """Wait until a sink that is not quiet has opened its ports."""
    path = space.lab.dir / (log + ".err")
    wait_for("the sink's ports", lambda: "eth0" in path.read_text() or "AF_" in path.read_text(), 10)


def tag(payload: bytes) -> tuple[int, int, int]:
    """(stream, flow, number) of a frame's tag."""
    equal(payload[:4], b"VaM1", "magic")
    who = int.from_bytes(payload[4:8], "big")
    return who >> 20 & 0xf, who & 0xfffff, int.from_bytes(payload[8:12], "big")


@case(Plain)
def what_a_port_that_disappears_does_not_carry_is_no_loss(lab: Lab) -> None:
    space = lab.namespace("x")
    for lost in ("to0", "sink0"):
        lab.veth(space, "to0", space, "to1")
        lab.veth(space, "sink0", space, "sink1")
        generator = traffic(space, "gen", "--to", "to0", "--sink", "sink0", "-r", "1k", "-t", "3s", "--json", log=lost)
        wait_for("traffic", lambda: int(space.sh("cat", "/sys/class/net/to1/statistics/rx_packets")) > 20, 10)
        space.ip("link", "del", lost)
        report = report_of(space, generator, lost, status=3)
        equal((report["failures"], report["passed"]), ([f"port {lost} has disappeared"], False), "failures")
        for kept in ("to0", "sink0"):
            space.ip("link", "del", kept, check=False)


@case(Plain)
def generated_frames_are_what_was_asked_for(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    with Wire(left) as wire:
        report = generate(middle, "--to", "eth0", "-r", "2k", "-n", "300", "-s", "60-200", "-f", "8", "--dst", "10.9.1.0/30",
                          "--sport", "1000-1001", "--dport", "53", "--src-mac", "02:00:00:00:00:77", "--dst-mac", wire.mac,
                          "--ttl", "9")
        frames = [f for f in wire.frames(0.5) if f.src == "02:00:00:00:00:77"]
    equal((report["sent"]["frames"], len(frames)), (300, 300), "frames sent and seen")
    equal(sum(len(raw(f)) for f in frames), report["sent"]["bytes"], "bytes")
    sizes = {len(raw(f)) for f in frames}
    check(min(sizes) >= 60 and max(sizes) <= 200 and len(sizes) > 60, f"sizes {sorted(sizes)}")
    for number, frame in enumerate(frames):
        right_checksums(frame)
        equal((frame.dst, frame[IP].src, frame[IP].ttl, frame[UDP].dport), (wire.mac, "198.18.0.1", 9, 53), "headers")
        flow = number % 8
        equal((frame[IP].dst, frame[UDP].sport), (f"10.9.1.{flow % 4}", 1000 + flow // 4), f"flow {flow}")
        equal(tag(bytes(frame[UDP].payload)), (0, flow, number // 8), "tag")


@case(Plain)
def generated_ipv6_frames_are_right(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    with Wire(left) as wire:
        report = generate(middle, "eth0", "-6", "-r", "2k", "-n", "100", "-s", "80-1400", "--dst", "2001:db8::/64", "--random")
        frames = [f for f in wire.frames(0.5) if IPv6 in f and UDP in f and f[IPv6].src == "2001:2::1"]
    equal((report["sent"]["frames"], len(frames)), (100, 100), "frames sent and seen")
    for frame in frames:
        again = frame.copy()
        del again[UDP].chksum
        equal(Ether(raw(again))[UDP].chksum, frame[UDP].chksum, "UDP checksum")
        check(frame[IPv6].dst.startswith("2001:db8:"), f"destination {frame[IPv6].dst}")
        equal(frame[IPv6].plen, len(raw(frame)) - 54, "length")


@case(Plain)
def rate_times_time_is_what_is_sent_or_missed(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    before = kernel_received(left)
    report = generate(middle, "eth0", "-r", "20k", "-t", "0.5")["sent"]
    # However slow the machine: each frame that was due was sent or is counted as missed.
    due = report["frames"] + report["missed"]
    check(abs(due - 10_000) <= 2, f"{report['frames']} sent, {report['missed']} missed")
    check(kernel_received(left) - before >= report["frames"], "the other side has seen fewer frames than were sent")
    bits = generate(middle, "eth0", "-r", "8Mbps-l1", "-t", "0.5", "-s", "imix")["sent"]
    wire_bits = (bits["bytes"] + 24 * (bits["frames"] + bits["missed"])) * 8
    check(bits["missed"] > 0 or abs(wire_bits - 4_000_000) <= 2 * 1538 * 8, f"{wire_bits} bits in half a second")


def kernel_received(space: Namespace) -> int:
    return json.loads(space.ip("-s", "-json", "link", "show", "eth0"))[0]["stats64"]["rx"]["packets"]


@case(Plain)
def a_capture_is_replayed_as_it_is(lab: Lab) -> None:
    from scapy.utils import wrpcap

    middle, left, _ = pair(lab)
    trace = lab.dir / "trace.pcap"
    wrpcap(str(trace), [Ether(src="02:00:00:00:00:78", dst="02:00:00:00:00:79", type=0x9000) / bytes([n] * (60 + n))
                        for n in range(5)])
    with Wire(left) as wire:
        once = generate(middle, "eth0", "--pcap", trace, "-r", "500")
        again = generate(middle, "eth0", "--pcap", trace, "-r", "500", "-n", "12")
        frames = [f for f in wire.frames(0.5) if f.src == "02:00:00:00:00:78"]
    equal((once["sent"]["frames"], again["sent"]["frames"]), (5, 12), "frames sent")
    equal([len(f) for f in frames], [74 + n % 5 for n in [*range(5), *range(12)]], "lengths")


@case(RouterNet, 2)
def an_ip_router_between_gen_and_sink_loses_and_reorders_nothing(net: RouterNet) -> None:
    a, b = net.hosts
    log = "sink"
    sink = traffic(b, "sink", "eth0", "--idle", "2s", "--expect-count", "5000", "--max-loss", "0", "--max-reordered", "0",
                   "--json", "--per-flow", log=log)
    ready(b, log)
    sent = generate(a, "eth0", "-r", "5k", "-n", "5000", "-f", "25", "-s", "60-900", "--src", "10.0.1.2", "--dst", "10.0.2.2",
                    "--dst-mac", net.mac(0))["sent"]
    equal(sent["frames"], 5000, "frames sent")
    report = report_of(b, sink, log)
    check(report["passed"], report["failures"])
    got = report["received"]
    equal((got["ours"], got["flows"], got["damaged"], got["sequences"]), (5000, 25, 0, 0), "frames, flows, damaged, sequences")
    equal({f["received"] for f in report["flows"]}, {200}, "frames of each flow")
    equal(report["latency_ns"]["frames"], 5000, "frames with a latency")
    equal(got["early"], 0, "frames from the future")


@case(Plain)
def gen_and_sink_in_one_process_measure_what_is_between(lab: Lab) -> None:
    middle, left, right = pair(lab)
    tester = lab.namespace("t")
    # Both ends of the router's cables in one namespace, under names of their own.
    for space, name in ((left, "east"), (right, "west")):
        space.ip("link", "set", "eth0", "netns", tester.name, "name", name)
        tester.ip("link", "set", name, "up")
    conf = lab.dir / "lossy.click"
    conf.write_text("FromDevice(eth0) -> r :: RoundRobinSwitch; r[0] -> out :: Queue(4096) -> ToDevice(eth1);\n"
                    "r[1] -> out; r[2] -> out; r[3] -> Discard; FromDevice(eth1) -> Discard;\n")
    router = Router(lab, middle, FORWARD, "DEV0=eth0", "DEV1=eth1")
    ports = ("--to", "east", "--sink", "west", "-r", "4k", "-n", "2000", "-f", "5")
    good = generate(tester, *ports, "--max-loss", "0", "--max-reordered", "0")
    equal((good["loss"]["frames"], good["loss"]["of"], good["order"]["reordered"]), (0, 2000, 0), "loss and order")
    two = generate(tester, *ports, "-j", "2", "--max-loss", "0", "--max-reordered", "0")
    equal((two["loss"]["frames"], two["received"]["flows"]), (0, 5), "loss and flows with two workers")
    lab.stop(router.process)
    Router(lab, middle, conf, log="lossy.log")
    lossy = generate(tester, *ports, "--max-loss", "1%", status=3)
    equal((lossy["loss"]["frames"], lossy["passed"]), (500, False), "loss through a router that drops every fourth frame")
    equal(lossy["received"]["sequences"], 0, "reordered sequences")


@case(Plain)
def signals_end_both_with_a_report(lab: Lab) -> None:
    middle, left, _ = pair(lab)
    sink = traffic(left, "sink", "eth0", "--json", log="sink")
    ready(left, "sink")
    gen = traffic(middle, "gen", "eth0", "-r", "1k", "--json", log="gen")
    wait_for("frames", lambda: kernel_sent(middle) > 100, 10)
    for process, name, space in ((gen, "gen", middle), (sink, "sink", left)):
        os.kill(process.pid, signal.SIGINT)
        report = report_of(space, process, name)
        check(report["interrupted"], f"{name} does not say that it was interrupted")
    sent = json.loads((lab.dir / "gen").read_text())["sent"]["frames"]
    equal(report["received"]["received"], sent, "frames that arrived")


def kernel_sent(space: Namespace) -> int:
    stats = json.loads(space.ip("-s", "-json", "link", "show", "eth0"))[0]["stats64"]
    return stats["tx"]["packets"]


@case(Plain)
def wrong_options_are_refused_with_what_is_right(lab: Lab) -> None:
    space = lab.namespace("x")
    for args, words in (
        (["gen", "net_null0", "-r", "5x"], "is not a rate"),
        (["gen", "net_null0", "-s", "40"], "60 to 9216"),
        (["gen", "net_null0", "-6", "-s", "60"], "at least 80"),
        (["gen", "net_null0", "--dst", "::1"], "--dst: an IPv6 address without --ipv6"),
        (["gen", "net_null0", "--dst", "@/nowhere"], "/nowhere: No such file"),
        (["gen", "net_null0", "-f", "70000"], "--flows: only 64512 different flows"),
        (["gen", "net_null0", "--pcap", "/nowhere"], "--pcap: /nowhere"),
        (["gen", "net_null0", "--pcap", "x", "-s", "60"], "cannot be used with"),
        (["gen", "net_null0", "--max-loss", "0"], "give a port to receive from with --sink PORT"),
        (["gen"], "required"),
        (["sink", "net_null0", "--max-loss", "lots"], "is not a loss"),
        (["sink", "net_null0", "--idle", "0"], "is not a time"),
    ):
        done = subprocess.run(space.command(the_binary(), *args), capture_output=True, text=True, timeout=20, check=False)
        equal(done.returncode, 2, f"exit status of {' '.join(args)}\n{done.stderr}")
        check(words in done.stderr, f"{' '.join(args)}: no '{words}' in\n{done.stderr}")
    done = subprocess.run(space.command(the_binary(), "gen", "nodev0"), capture_output=True, text=True, timeout=20, check=False)
    equal(done.returncode, 1, "exit status for a port that is not there")
    check("nodev0" in done.stderr, done.stderr)
