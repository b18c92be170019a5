"""`valiant gen` and `valiant sink` beside what others count: dpdk-testpmd over the same ports, tcpdump and scapy on the same wire."""

import re
import shutil
import subprocess
from collections import defaultdict
from typing import Any

from scapy.compat import raw
from scapy.utils import PcapReader

from harness import Plain, Router, Skip, case, check, equal, wait_for
from lab import Lab, Namespace, Process, cores
from test_traffic import generate, report_of, tag, traffic


def testpmd(space: Namespace, ports: list[str], mode: str, *commands: str) -> Process:
    """dpdk-testpmd with these devices, which waits for commands; the first ones are given when it is ready."""
    binary = shutil.which("dpdk-testpmd")
    if binary is None:
        raise Skip("no dpdk-testpmd (Debian package dpdk)")
    cpus = cores()
    vdevs = [word for port in ports for word in ("--vdev", port)]
    process = space.popen(binary, "-l", f"{cpus[0]},{cpus[-1]}", "--no-huge", "--no-pci", "-m", "512", "--file-prefix",
                          f"counts{space.short}", *vdevs, "--", "-i", f"--forward-mode={mode}", "--total-num-mbufs=16384",
                          log=f"testpmd-{space.short}", stdin=subprocess.PIPE)
    wait_for("testpmd", lambda: "testpmd>" in process.log.read_text(), 20)
    tell(process, *commands)
    return process


def tell(process: Process, *commands: str) -> None:
    check(process.stdin is not None, "testpmd takes no commands")
    assert process.stdin is not None
    for command in commands:
        process.stdin.write(f"{command}\n".encode())
    process.stdin.flush()


def counted(process: Process) -> list[tuple[int, int, int]]:
    """What testpmd counts when it stops: received, dropped, sent, for each port."""
    tell(process, "stop", "quit")
    process.wait(10)
    text = process.log.read_text()
    ports = re.findall(r"Forward statistics for port \d+ .*?\n.*?RX-packets: (\d+).*?\n.*?TX-packets: (\d+)\s+TX-dropped: (\d+)", text)
    check(ports, text[-2000:])
    return [(int(received), int(dropped), int(sent)) for received, sent, dropped in ports]


@case(Plain, seconds=60)
def what_is_sent_testpmd_receives(lab: Lab) -> None:
    space = lab.namespace("t")
    lab.veth(space, "eth0", space, "in0")
    # Its mode reads and counts; the ring of its socket has room for what comes while it does not run.
    peer = testpmd(space, ["net_af_packet0,iface=in0,framecnt=8192"], "rxonly", "start")
    sent = generate(space, "eth0", "-r", "20k", "-n", "30000", "-s", "60-1000", "-f", "100")["sent"]
    equal(sent["frames"], 30_000, "frames sent")
    equal([received for received, _, _ in counted(peer)], [30_000], "frames that testpmd has received")


@case(Plain, seconds=60)
def what_testpmd_sends_the_sink_receives(lab: Lab) -> None:
    space = lab.namespace("t")
    lab.veth(space, "eth0", space, "in0")
    sink = traffic(space, "sink", "eth0", "--time", "8s", "--json", log="sink")
    said = space.lab.dir / "sink.err"
    wait_for("the sink's port", lambda: "eth0" in said.read_text(), 10)
    # So many bursts of 32 packets, and then what comes back, which is nothing.
    peer = testpmd(space, ["net_af_packet0,iface=in0,framecnt=8192"], "rxonly", "start tx_first 40")
    received = report_of(space, sink, "sink", seconds=20)["received"]
    sent = counted(peer)[0][2]
    equal(sent, 40 * 32, "frames that testpmd has sent")
    # None of them is of `valiant gen`.
    equal((received["foreign"], received["ours"]), (sent, 0), "frames at the sink")


@case(Plain, seconds=60)
def what_goes_through_testpmd_is_counted_alike_at_both_ends(lab: Lab) -> None:
    space = lab.namespace("t")
    for number in range(2):
        lab.veth(space, f"eth{number}", space, f"in{number}")
    devices = [f"net_af_packet{number},iface=in{number},framecnt=8192" for number in range(2)]
    peer = testpmd(space, devices, "io", "start")
    report = generate(space, "--to", "eth0", "--sink", "eth1", "-r", "20k", "-n", "30000", "-s", "60-1000", "-f", "100")
    (received, _, back), (_, dropped, sent) = counted(peer)
    check((back, dropped) == (0, 0), f"testpmd sent {back} back and dropped {dropped}")
    equal((report["sent"]["frames"], report["received"]["received"]), (received, sent), "frames sent and received")
    equal(report["loss"]["frames"], received - sent, "loss")


def analysed(path: Any) -> dict[str, int]:
    """Loss, duplicates and order of the frames of a capture by RFC 4737: reordered is what comes after a higher number."""
    flows: dict[tuple[int, int], list[int]] = defaultdict(list)
    with PcapReader(str(path)) as capture:
        for frame in capture:
            stream, flow, number = tag(raw(frame)[42:])
            flows[(stream, flow)].append(number)
    sums = dict.fromkeys(("received", "duplicates", "reordered", "sequences", "distinct"), 0)
    for numbers in flows.values():
        seen: set[int] = set()
        highest, in_sequence = -1, False
        for number in numbers:
            sums["received"] += 1
            if number in seen:
                sums["duplicates"] += 1
                continue
            seen.add(number)
            late = number < highest
            sums["reordered"] += late
            sums["sequences"] += late and not in_sequence
            highest, in_sequence = max(highest, number), late
        sums["distinct"] += len(seen)
    return sums


@case(Plain, seconds=60)
def loss_duplicates_and_order_are_those_of_a_capture(lab: Lab) -> None:
    space = lab.namespace("t")
    for number in range(2):
        lab.veth(space, f"eth{number}", space, f"in{number}")
    conf = lab.dir / "unkind.click"
    # Of 97 packets one is lost, one comes twice, and some wait until others have passed.
    conf.write_text("FromDevice(in0) -> s :: RoundRobinSwitch; out :: Queue(4096) -> ToDevice(in1); s [0] -> Discard;\n"
                    "s [1] -> t :: Tee -> out; t [1] -> out; late :: Queue -> DelayUnqueue(0.003) -> out;\n"
                    "s [2] -> late; s [5] -> late; s [8] -> late;\n"
                    + "".join(f"s [{n}] -> out;\n" for n in range(3, 97) if n not in (5, 8)))
    router = Router(lab, space, conf)
    pcap = lab.dir / "eth1.pcap"
    # From the kernel the capture gets what the sink gets.
    dump = space.popen("tcpdump", "-i", "eth1", "-Q", "in", "-s", "64", "-B", "65536", "-U", "-w", pcap, log="tcpdump")
    wait_for("tcpdump", lambda: "listening" in dump.log.read_text(), 10)
    report = generate(space, "--to", "eth0", "--sink", "eth1", "-r", "10k", "-n", "20000", "-f", "3")
    # What tcpdump has not yet read when it is stopped is not in the file: a header of 24 bytes, then 16 + 60 bytes a frame.
    size = 24 + report["received"]["frames"] * (16 + 60)
    wait_for("tcpdump to write what has come", lambda: pcap.stat().st_size >= size, 10)
    lab.stop(dump)
    router.stop()
    check(" 0 packets dropped by kernel" in " " + dump.log.read_text().replace("\n", " "), dump.log.read_text())
    wanted = analysed(pcap)
    check(min(wanted.values()) > 0, wanted)
    got = {"received": report["received"]["ours"], "duplicates": report["received"]["duplicates"],
           "reordered": report["order"]["reordered"], "sequences": report["order"]["sequences"],
           "distinct": report["sent"]["frames"] - report["loss"]["frames"]}
    equal(got, wanted, f"counts of the sink and of the capture\n{report}")
