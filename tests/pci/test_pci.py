"""An IP router between NICs of three kinds that DPDK drives, in a virtual machine; hosts outside."""

import functools
import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from harness import case, check, equal, wait_for
from lab import ROOT
from laboratory import E1000E, PORT, VIRTIO, VMXNET3, PciNet, TwoNodes
from pciguest import KINDS
from streams import Streams

# What `make test` runs.
SHORT = {"doctor_says_how_nics_become_ports", "every_kind_of_nic_passes_ping_traceroute_and_iperf",
         "a_link_that_goes_down_and_comes_back_virtio", "a_nic_that_is_unplugged_while_packets_flow_e1000e"}
DRIVERS = {VIRTIO: "net_virtio", E1000E: "net_e1000_em", VMXNET3: "net_vmxnet3"}


def iperf(net: PciNet, a: int, b: int, seconds: float = 1, *options: str) -> dict[str, Any]:
    """One TCP connection from a host to another one; what iperf3 reports at its end."""
    server = net.hosts[b].popen("iperf3", "-s", "-1", "-p", "5300")
    wait_for("iperf3 -s", lambda: ":5300" in net.hosts[b].sh("ss", "-Hltn"), 3)
    said = net.hosts[a].sh("iperf3", "-c", f"10.0.{b + 1}.2", "-p", "5300", "-t", seconds, "-J", "--connect-timeout", "5000", *options,
                           check=False, timeout=seconds + 40)
    net.lab.stop(server)
    check(said, f"iperf3 from host {a} to host {b} does not end")
    result: dict[str, Any] = json.loads(said)
    check("error" not in result, f"iperf3 from host {a} to host {b}: {result.get('error')}")
    return result


@case(PciNet, seconds=60)
def doctor_says_how_nics_become_ports(net: PciNet) -> None:
    """The network is built by what doctor has said, until it has found nothing that is missing."""
    before = {port["name"]: port for port in net.found["ports"]}
    after = net.doctor()
    ports = {port["name"]: port for port in after["ports"]}
    for address in net.addresses:
        equal((before[address]["kind"], ports[address]["kind"], ports[address]["driver"]), ("none", "DPDK", "vfio-pci"), address)
    equal(after["findings"], [], "what doctor still finds")


@case(PciNet, seconds=60)
def doctor_notices_that_vfio_cannot_use_the_iommu(net: PciNet) -> None:
    net.stop()
    try:
        net.guest.sh("rmmod vfio_iommu_type1")
        missing = "vfio has no driver for the IOMMU"
        said = net.doctor()
        equal([finding["fix"] for finding in said["findings"] if finding["what"].startswith(missing)], ["modprobe vfio_iommu_type1"],
              f"advice among {said['findings']}")
        text = net.guest.sh(f"valiant run -e 'FromDevice({net.addresses[E1000E]}) -> Discard' 2>&1", check=False)
        check(f"{missing}; try: modprobe vfio_iommu_type1" in text, text)
        net.follow(said)
    finally:
        net.guest.sh("modprobe vfio_iommu_type1")
        net.start()
    net.all_ping()


@case(PciNet, seconds=60)
def every_kind_of_nic_passes_ping_traceroute_and_iperf(net: PciNet) -> None:
    net.all_ping()
    for a in range(3):
        b = (a + 1) % 3
        route = net.hosts[a].sh("traceroute", "-n", "-q", "1", "-w", "2", f"10.0.{b + 1}.2")
        check(f" 10.0.{a + 1}.1 " in route and f" 10.0.{b + 1}.2 " in route, route)
        received = iperf(net, a, b)["end"]["sum_received"]["bytes"]
        check(received > 100_000, f"{received} bytes by TCP from host {a} to host {b}")
    for number, driver in DRIVERS.items():
        check(f"{net.addresses[number]}: DPDK driver {driver}" in net.log(), net.log())
    equal(net.books().missing(), 0, "packets that are nowhere")


def each_kind(seconds: float) -> Callable[[Callable[[PciNet, int], None]], None]:
    """Registers a test once for each kind of NIC; all take place in the same virtual machine."""

    def register(function: Callable[[PciNet, int], None]) -> None:
        for number, kind in enumerate(KINDS):
            def one(net: PciNet, number: int = number) -> None:
                function(net, number)

            one.__name__ = f"{function.__name__}_{kind}"
            case(PciNet, seconds=seconds)(one)

    return register


def streams(net: PciNet, *pairs: tuple[int, int], rate: float = 200) -> Streams[tuple[int, int]]:
    """Numbered packets between hosts."""
    return Streams(net.lab, {(a, b): (net.hosts[a], net.hosts[b], f"10.0.{b + 1}.2", rate) for a, b in pairs})


def goes_on(flow: Streams[tuple[int, int]], what: str) -> None:
    """Fifty packets of each pair arrive from now on."""
    mark = flow.mark()
    for name in flow.names:
        wait_for(f"packets from host {name[0]} to host {name[1]} {what}", lambda name=name: flow.got(name, mark) >= 50, 20)


@case(PciNet, seconds=90)
def a_restarted_router_works_however_it_ended(net: PciNet) -> None:
    net.start()
    check(net.reaches(0, 2), "host 2 after a restart")
    net.guest.sh("kill -9 $(cat /run/pid)")
    wait_for("its end", lambda: not net.alive, 15, 0.1)
    net.start()
    net.all_ping()
    equal(net.books().missing(), 0, "packets that are nowhere")


@each_kind(seconds=90)
def a_link_that_goes_down_and_comes_back(net: PciNet, number: int) -> None:
    a, b = (other for other in range(3) if other != number)
    net.all_ping()
    with streams(net, (a, number), (number, a), (a, b)) as flow:
        goes_on(flow, "before")
        try:
            net.guest.monitor("set_link", name=f"nic{number}", up=False)
            wait_for("the port to see that the link is down", lambda: not net.port(number)["link_up"], 10, 0.2)
            before = flow.mark()
            wait_for("packets while the link is down", lambda: flow.got((a, b), before) >= 100, 20)
            equal(flow.got((number, a), before), 0, "packets that came by a link that is down")
        finally:
            net.guest.monitor("set_link", name=f"nic{number}", up=True)
        wait_for("the port to see that the link is up", lambda: net.port(number)["link_up"], 10, 0.2)
        goes_on(flow, "afterwards")
        equal(flow.between(before, flow.mark())[(a, b)].lost, 0, "packets between other hosts that were lost")
    equal(net.books().missing(), 0, "packets that are nowhere")


@each_kind(seconds=150)
def a_nic_that_is_unplugged_while_packets_flow(net: PciNet, number: int) -> None:
    a, b = (other for other in range(3) if other != number)
    net.all_ping()
    with streams(net, (a, number), (number, a), (a, b)) as flow:
        goes_on(flow, "before")
        before = flow.mark()
        net.guest.monitor("device_del", id=f"nic{number}")
        wait_for("the NIC to be gone", lambda: net.guest.monitor.saw("DEVICE_DELETED", f"nic{number}"), 40, 0.2)
        since = flow.mark()
        wait_for("packets between the others", lambda: flow.got((a, b), since) >= 100, 20)
        equal(flow.between(before, flow.mark())[(a, b)].lost, 0, "packets between other hosts that were lost")
    check(net.alive, "the router has ended")
    check(f"port {net.addresses[number]} has disappeared" in net.log(), net.log())
    books = net.books()
    equal(books.missing(), 0, "packets that are nowhere")
    gone = [line.split("\t") for line in net.read("drops")[0].splitlines() if line.endswith("port gone")]
    equal([element for _, element, _ in gone], [net.outputs()[number]], "who drops packets because a port has gone")
    check(int(gone[0][0]) >= 50, f"packets for a port that has gone: {gone}")
    # Another one in its place.
    net.plug(number)
    net.start()
    net.all_ping()


@case(PciNet, seconds=90)
def an_idle_router_sleeps_until_a_nic_wakes_it(net: PciNet) -> None:
    """Naps are 2000 a second; a worker whose NICs have interrupts sleeps for a tenth of a second."""
    def idle(devices: list[int]) -> tuple[float, float]:
        net.only(devices)
        check(net.reaches(devices[0], devices[1]) or net.reaches(devices[0], devices[1]), "the other host")
        time.sleep(1)
        (before, slept), began = net.cpu(), time.monotonic()
        time.sleep(3)
        (after, woken), seconds = net.cpu(), time.monotonic() - began
        check(net.reaches(devices[0], devices[1]), "the other host, when the router sleeps")
        return (after - before) / seconds, (woken - slept) / seconds

    try:
        told, naps = idle([VIRTIO, VMXNET3]), idle([VIRTIO, E1000E])
    finally:
        net.start()
    print(f"# idle: {told[0]:.1%} of a processor and {told[1]:.0f} sleeps a second with interrupts, "
          f"{naps[0]:.1%} and {naps[1]:.0f} without", flush=True)
    check(told[1] < 200 < naps[1], f"sleeps a second: {told[1]:.0f} with interrupts, {naps[1]:.0f} without")


@case(PciNet, seconds=120)
def queues_of_a_nic_are_placed_on_workers(net: PciNet) -> None:
    net.start("-j", "2")
    try:
        for number in range(3):
            equal(net.read(f"{net.inputs()[number]}.lanes")[0], "worker 0: polls queue 0\nworker 1: polls queue 1\n",
                  f"what polls {net.addresses[number]}")
        net.all_ping()
        # Eight flows each, and never so fast that a ring is empty: QEMU, which computes virtio's hash itself, then waits for ever for
        # buffers in the ring of another queue.
        with streams(net, (VIRTIO, VMXNET3), (E1000E, VIRTIO), (VMXNET3, E1000E)) as flow:
            goes_on(flow, "")
            before = flow.mark()
            goes_on(flow, "")
            lost = {name: count.lost for name, count in flow.between(before, flow.mark()).items()}
        equal(set(lost.values()), {0}, f"packets that were lost: {lost}")
        counted = dict(line.split(": ") for line in net.read(f"{net.inputs()[VIRTIO]}.xstats")[0].splitlines())
        queues = [int(counted[f"rx_q{queue}_good_packets"]) for queue in range(2)]
        check(min(queues) > 0, f"packets of each queue: {queues}")
        equal(net.books().missing(), 0, "packets that are nowhere")
    finally:
        net.start()


@each_kind(seconds=150)
def nic_probe_tells_what_was_tried(net: PciNet, number: int) -> None:
    net.stop()
    try:
        said = json.loads(net.guest.sh(f"valiant nic probe {net.addresses[number]} --rules 64 --json 2>/run/probe.err", seconds=120))
    finally:
        net.start()
    equal((said["driver"], said["mac"]), (DRIVERS[number], net.nics[number].mac.replace(":", "-")), "driver and address")
    for ability in said["abilities"]:
        accepted, seen = ability["accepted"]["works"], ability["seen"]["works"]
        check(not seen or accepted, f"seen to work and not accepted: {ability}")
        check(seen is None or said["frames"] != "none", f"seen without frames: {ability}")
    check(said["settings"] and said["score"]["wishes"], f"settings and wishes: {said}")
    net.all_ping()
    equal(net.books().missing(), 0, "packets that are nowhere")


@case(PciNet, seconds=120)
def the_indirection_table_of_virtio_is_changed_while_packets_flow(net: PciNet) -> None:
    net.start("-j", "2")

    def counts() -> list[int]:
        counted = dict(line.split(": ") for line in net.read(f"{name}.xstats")[0].splitlines())
        return [int(counted[f"rx_q{queue}_good_packets"]) for queue in range(2)]

    try:
        net.all_ping()
        name = net.inputs()[VIRTIO]
        with streams(net, (VIRTIO, VMXNET3)) as flow:
            goes_on(flow, "by both queues")
            mark = flow.mark()
            net.write(f"{name}.rss_table", "equal 1")
            goes_on(flow, "by one queue")
            before = counts()
            goes_on(flow, "by one queue, later")
            after = counts()
            equal(after[1], before[1], "packets of the queue that has no entry of the table")
            check(after[0] - before[0] >= 50, f"packets of the other queue: {before}, {after}")
            net.write(f"{name}.rss_table", "default")
            goes_on(flow, "by both queues again")
            check(counts()[1] > after[1], f"packets of both queues again: {after}, {counts()}")
            equal(flow.between(mark, flow.mark())[(VIRTIO, VMXNET3)].lost, 0, "packets that were lost")
        equal(net.books().missing(), 0, "packets that are nowhere")
    finally:
        net.start()


def toeplitz(key: bytes, data: bytes) -> int:
    """The hash of RSS: of each bit that is one, the 32 bits of the key from there on."""
    bits = int.from_bytes(key, "big")
    ones = (n for n in range(len(data) * 8) if data[n // 8] >> (7 - n % 8) & 1)
    return functools.reduce(lambda found, n: found ^ bits >> (len(key) * 8 - 32 - n) & 0xffffffff, ones, 0)


@case(PciNet, seconds=200)
def the_indirection_table_of_virtio_changes_by_itself_when_flows_are_skewed(net: PciNet) -> None:
    # So much work for each packet, some milliseconds, that a worker is busy at a low rate: where a ring is empty, QEMU itself loses
    # packets and their order.
    text = (ROOT / "conf" / "ip-router-3.click").read_text().replace(
        "FromDevice($DEV0) -> ", "FromDevice($DEV0, REBALANCE false) -> WorkPackage(CYCLES 10000000) -> WorkPackage(CYCLES 10000000) -> ")
    net.guest.put("/skewed.click", text)
    net.start("-j", "2", conf="/skewed.click")
    name = net.inputs()[VIRTIO]

    def table() -> list[int]:
        return [int(word) for line in net.read(f"{name}.rss_table")[0].splitlines() for word in line.partition(":")[2].split()]

    def said(number: int) -> str:
        return net.read(f"{net.inputs()[number]}.rebalance_status")[0].rpartition("state\t")[2].strip()

    def imbalance(flow: Streams[tuple[int, int]]) -> float:
        """How much more than the mean the busier queue has, of the packets of some seconds."""
        def counts() -> list[int]:
            counted = dict(line.split(": ") for line in net.read(f"{name}.xstats")[0].splitlines())
            return [int(counted[f"rx_q{queue}_good_packets"]) for queue in range(2)]

        before, mark = counts(), flow.mark()
        wait_for("packets", lambda: flow.got(flow.names[0], mark) >= 200, 40)
        got = [after - before for before, after in zip(before, counts())]
        return max(got) * 2 / sum(got) - 1

    try:
        net.all_ping()
        key = bytes.fromhex(net.read(f"{name}.rss_key")[0].strip().replace(":", ""))
        before = table()
        # Nine flows of the first queue and one of the second one, each in a bucket of its own.
        wanted, chosen = [9, 1], dict[int, int]()
        for port in range(20000, 21000):
            data = socket.inet_aton("10.0.1.2") + socket.inet_aton("10.0.3.2") + struct.pack("!HH", port, 9000)
            bucket = toeplitz(key, data) % len(before)
            if bucket not in chosen and wanted[before[bucket]]:
                wanted[before[bucket]] -= 1
                chosen[bucket] = port
        pairs = {(VIRTIO, VMXNET3): (net.hosts[VIRTIO], net.hosts[VMXNET3], "10.0.3.2", 60)}
        with Streams(net.lab, pairs, sources=list(chosen.values())) as flow:
            goes_on(flow, "")
            mark = flow.mark()
            skewed = imbalance(flow)
            equal((net.read(f"{name}.rebalance_log")[0], table()), ("", before), "moves while it is off")
            net.write(f"{name}.rebalance", "true")
            wait_for("moves", lambda: net.read(f"{name}.rebalance_log")[0], 30, 0.2)
            # A worker whose processor is taken away polls fewer packets, and buckets move once more.
            balanced = next((found for found in (imbalance(flow) for _ in range(6)) if found < 0.3), None)
            stats = net.guest.sh(f"valiant stats -s {PORT}")
            net.write(f"{name}.rebalance", "false")
            log, status, moved = net.read(f"{name}.rebalance_log", f"{name}.rebalance_status", f"{name}.rss_moved")
            after = table()
            lost = flow.between(mark, flow.mark(), settle=3)[(VIRTIO, VMXNET3)].lost
            overtaken, unordered = flow.overtaken(), int(moved.partition("unordered\t")[2])
            equal(lost, 0, f"packets that were lost, with {moved}{log}{status}")
            # Packets wait for a tenth of a second for those before them; what could not wait any longer is counted.
            check(overtaken == 0 or unordered > 0, f"{overtaken} packets were overtaken, with {moved}{log}{status}")
        check(skewed > 0.5, f"imbalance before: {skewed}")
        check(balanced is not None, f"the imbalance does not fall: {log}{status}")
        assert balanced is not None
        moves = log.splitlines()
        print(f"# imbalance of the queues {skewed:.0%}, after {len(moves)} moves {balanced:.0%}; {moved.split()}, {overtaken} overtaken")
        print(f"# {moves[0]}", flush=True)
        changed = [bucket for bucket, (old, new) in enumerate(zip(before, after)) if old != new]
        check(changed and set(changed) <= set(chosen), f"buckets that have moved: {changed} of {sorted(chosen)}")
        print(*(f"# {line.strip()}\n" for line in stats.splitlines() if "of the device" in line), sep="", end="")
        print("\n".join(f"# {DRIVERS[number]}: {said(number)}" for number in (VMXNET3, E1000E)), flush=True)
        check("table\tof the device\n" in status, status)
        equal(net.books().missing(), 0, "packets that are nowhere")
    finally:
        net.start()


@case(PciNet, seconds=120)
def jumbo_frames_pass(net: PciNet) -> None:
    text = (ROOT / "conf" / "ip-router-3.click").read_text()
    for i, host in enumerate(net.hosts):
        text = text.replace(f"FromDevice($DEV{i})", f"FromDPDKDevice($DEV{i}, MTU 9000)")
        host.ip("link", "set", "eth0", "mtu", "9000")
    net.guest.put("/jumbo.click", text)
    try:
        net.start(conf="/jumbo.click", **{f"MTU{i}": 9000 for i in range(3)})
        for i in range(3):
            check("\nmtu 9000\n" in net.read(f"{net.inputs()[i]}.port")[0], f"the MTU of {net.addresses[i]}")
        for a in range(3):
            b = (a + 1) % 3
            for size in (1472, 3000, 8972):
                said = net.ping(a, b, "-M", "do", "-s", str(size))
                check(" 0% packet loss" in said, f"{size} bytes from host {a} to host {b}: {said}")
        iperf(net, 0, 1)
        iperf(net, 1, 2)
        equal(net.books().missing(), 0, "packets that are nowhere")
    finally:
        for host in net.hosts:
            host.ip("link", "set", "eth0", "mtu", "1500")
        net.start()


@case(PciNet, seconds=90)
def the_counters_of_nics_agree_with_the_routers(net: PciNet) -> None:
    net.start()
    net.all_ping()
    # Not as fast as possible: QEMU's e1000e does not count packets that the host did not take.
    with streams(net, (0, 1), (1, 2), (2, 0)) as flow:
        goes_on(flow, "")
    equal(net.books().missing(), 0, "packets that are nowhere")
    for number, name in enumerate(net.inputs()):
        count, sent, xstats = net.read(f"{name}.count", f"{net.outputs()[number]}.count", f"{name}.xstats")
        port = net.port(number)
        counted = dict(line.split(": ") for line in xstats.splitlines())
        equal((port["rx_packets"], port["tx_packets"]), (int(count), int(sent)), f"packets of {net.addresses[number]}: its counters")
        equal(int(counted["rx_good_packets"]), int(count), f"packets of {net.addresses[number]}: its extended counters")
    said = net.guest.sh(f"valiant stats -s {PORT}; valiant drops -s {PORT}")
    check(net.inputs()[0] in said, said)


@case(TwoNodes, seconds=90)
def nics_at_two_numa_nodes(net: TwoNodes) -> None:
    said = net.doctor()
    nodes = {port["name"]: port["node"] for port in said["ports"] if port["name"] in net.addresses}
    # The bus of the others has no node in QEMU.
    equal([nodes[address] for address in net.addresses], [None, 1, None], "the nodes of the NICs")
    check(len(said["nodes"]) == 2 and all(node["hugepages"] for node in said["nodes"]), str(said["nodes"]))
    net.start("-j", "2")
    net.all_ping()
    equal(net.books().missing(), 0, "packets that are nowhere")
