"""Large TCP segments: hosts with segmentation offload (TSO) send up to 64 KB at once, which a port cuts and gathers."""

import hashlib
import subprocess
import time
from pathlib import Path

from scapy.layers.inet6 import IPv6

from harness import IP, ROOT, TCP, UDP, Ether, Plain, Raw, Router, Skip, Wire, case, check, equal, pair, ping, wait_for
from lab import Lab, Namespace, cores, the_binary
from test_ports import iperf


def segments(lab: Lab, on: bool = True, queues: int = 1) -> tuple[Namespace, Namespace, Namespace]:
    """As `pair`, with or without all offloads at all four ends, and with IPv6 addresses."""
    middle, left, right = pair(lab, queues=queues, segments=on)
    for i, host in enumerate((left, right)):
        host.sh("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=0", check=False)
        host.ip("addr", "add", f"fd09::{i + 1}/64", "dev", "eth0", "nodad")
    return middle, left, right


def start(lab: Lab, middle: Namespace, method: str, *args: object, sniffer: bool = False) -> Router:
    conf = lab.dir / "segments.click"
    sniffs = "" if method == "AF_XDP" else f", SNIFFER {str(sniffer).lower()}"
    conf.write_text("".join(f"in{i} :: FromDevice(eth{i}, METHOD {method}{sniffs}) -> c{i} :: Counter -> Queue(2000)"
                            f" -> out{i} :: ToDevice(eth{1 - i}, METHOD {method});\n" for i in (0, 1)))
    return Router(lab, middle, conf, *args)


def counter(router: Router, element: str, name: str) -> int:
    """The sum over the queues of one of the port's own counters."""
    lines = [line.split(": ") for line in router.read(f"{element}.xstats").splitlines()]
    return sum(int(value) for key, value in lines if key.rpartition(".")[2] == name)


def no_bad_checksums(*hosts: Namespace) -> None:
    for host in hosts:
        bad = host.sh("nstat", "-az", "TcpInCsumErrors", "UdpInCsumErrors", "IpInHdrErrors", check=False)
        check(all(x.split()[1] == "0" for x in bad.splitlines() if "Errors" in x), f"damaged packets arrived:\n{bad}")


def transfer(lab: Lab, left: Namespace, right: Namespace, address: str, size: int = 20_000_000) -> None:
    """A file goes over TCP from left to right, and is the same there."""
    file, copy = lab.dir / "file", lab.dir / "copy"
    file.write_bytes(hashlib.shake_256(b"segments").digest(1 << 20) * (size >> 20))
    program = lab.dir / "copy.py"
    program.write_text(
        "import socket, sys\n"
        "how, address, path = sys.argv[1:]\n"
        "family = socket.AF_INET6 if ':' in address else socket.AF_INET\n"
        "if how == 'take':\n"
        "    with socket.create_server((address, 5400), family=family) as server, open(path, 'wb') as file:\n"
        "        peer = server.accept()[0]\n"
        "        while data := peer.recv(1 << 20):\n"
        "            file.write(data)\n"
        "else:\n"
        "    with socket.create_connection((address, 5400)) as peer, open(path, 'rb') as file:\n"
        "        peer.sendall(file.read())\n")
    taker = right.popen("python3", program, "take", address, copy)
    wait_for("the server", lambda: ":5400" in right.sh("ss", "-Hltn"), 5)
    left.sh("python3", program, "give", address, file, timeout=25)
    taker.wait(10)

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    equal(digest(copy), digest(file), "what arrived")
    copy.unlink()


@case(Plain, seconds=60)
def large_segments_pass_whole_and_arrive_as_they_were_sent(lab: Lab) -> None:
    middle, left, right = segments(lab)
    router = start(lab, middle, "AF_PACKET")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    for address in ("10.9.0.2", "fd09::2"):
        transfer(lab, left, right, address)
    transfer(lab, right, left, "10.9.0.1")
    for element in ("in0", "in1"):
        check(counter(router, element, "rx_large_segments") > 100, router.read(f"{element}.xstats"))
        check(counter(router, element, "tx_large_segments") > 100, router.read(f"{element}.xstats"))
        # The elements see packets, not segments.
        received, many = (counter(router, element, f"rx_{what}") for what in ("good_packets", "large_segments"))
        check(received > 5 * many, f"{received} packets, {many} segments")
    no_bad_checksums(left, right)
    equal(router.read("drops"), "", "drops")


@case(Plain, seconds=40)
def tcp_without_offload_is_gathered_too(lab: Lab) -> None:
    middle, left, right = segments(lab, on=False)
    router = start(lab, middle, "AF_PACKET")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    transfer(lab, left, right, "10.9.0.2")
    equal(counter(router, "in0", "rx_large_segments"), 0, "segments from a host that sends none")
    check(counter(router, "in1", "tx_large_segments") > 100, router.read("in1.xstats"))
    no_bad_checksums(left, right)


@case(Plain, seconds=40)
def two_workers_share_the_flows_of_packet_sockets(lab: Lab) -> None:
    middle, left, right = segments(lab, queues=2)
    router = start(lab, middle, "AF_PACKET", "-j", "2")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    check("2 queues" in router.output(), router.output())
    check(iperf(left, right, "10.9.0.2", 2, "-P", "16", "--bidir") > 0.01, "TCP does not get through")
    of_queues = [line for line in router.read("in0.xstats").splitlines() if "rx_good_packets" in line]
    check(len(of_queues) == 2 and all(not line.endswith(": 0") for line in of_queues), str(of_queues))
    transfer(lab, left, right, "10.9.0.2")
    no_bad_checksums(left, right)


@case(Plain, seconds=40)
def vlan_tags_that_the_kernel_takes_out_are_put_back(lab: Lab) -> None:
    middle, left, right = segments(lab)
    router = start(lab, middle, "AF_PACKET")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    with Wire(left) as a, Wire(right) as b:
        header = bytes.fromhex((b.mac + a.mac).replace(":", ""))
        for number, tags in enumerate((b"\x81\x00\x20\x05", b"\x88\xa8\x00\x07\x81\x00\x00\x05")):
            inner = bytes(IP(src="10.9.0.1", dst="10.9.0.2", id=700 + number) / UDP(sport=5, dport=9999) / Raw(bytes(64)))
            a.send(header + tags + b"\x08\x00" + inner)
            arrived = (bytes(frame) for frame in b.frames(2))
            # The raw socket of the test has the outer tag taken out too: what is left shows that it was there.
            check(any(frame.endswith(inner) for frame in arrived), f"frame {number} did not arrive")
    check(router.alive(), router.output())


@case(Plain, seconds=40)
def the_kernel_gets_no_packets_unless_the_router_is_a_sniffer(lab: Lab) -> None:
    middle, left, _ = segments(lab)
    middle.ip("addr", "add", "10.9.0.9/24", "dev", "eth0")
    check(ping(left, "10.9.0.9"), "the kernel answers")
    router = start(lab, middle, "AF_PACKET", sniffer=False)
    if "the kernel processes the packets too" in router.output():
        raise Skip("a kernel without TCX")
    wait_for("a ping through the router", lambda: ping(left, "10.9.0.2"), 3)
    check(not ping(left, "10.9.0.9"), "the kernel answers beside the router")
    router.stop()
    check(ping(left, "10.9.0.9"), "the kernel answers again")
    router = start(lab, middle, "AF_PACKET", sniffer=True)
    wait_for("a ping through the router", lambda: ping(left, "10.9.0.2"), 3)
    check("the kernel processes the packets too" in router.output(), router.output())
    check(ping(left, "10.9.0.9"), "the kernel answers beside a sniffer")
    router.process.kill()
    router.process.wait(5)
    check(ping(left, "10.9.0.9"), "the kernel answers after a crash")


@case(Plain, seconds=40)
def tcp_survives_hot_swaps_by_a_router_without_rights(lab: Lab) -> None:
    middle, left, right = segments(lab)
    router = start(lab, middle, "AF_PACKET", "-R", "-j", "2", "--user", "nobody")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    listener = right.popen("iperf3", "-s", "-1", "-p", "5302")
    wait_for("iperf3 -s", lambda: ":5302" in right.sh("ss", "-Hltn"), 3)
    load = left.popen("iperf3", "-c", "10.9.0.2", "-p", "5302", "-t", "4")
    text = (lab.dir / "segments.click").read_text()
    for i in range(4):
        time.sleep(0.5)
        done = subprocess.run([the_binary(), "write", "--socket", router.socket, "hotconfig", "-"], text=True,
                              input=text.replace("Queue(2000)", f"Queue({2001 + i})"), capture_output=True, timeout=20, check=False)
        equal(done.returncode, 0, done.stderr)
    load.wait(15)
    lab.stop(listener)
    equal(load.returncode, 0, "TCP broke off")
    no_bad_checksums(left, right)


@case(Plain, seconds=40)
def frames_that_no_host_sends_do_no_harm(lab: Lab) -> None:
    middle, left, right = segments(lab)
    router = start(lab, middle, "AF_PACKET")
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    with Wire(left) as a, Wire(right) as b:
        ether = Ether(dst=b.mac, src=a.mac)
        tcp = TCP(sport=5, dport=6, seq=1, flags="A")
        for frame in (ether / IP(src="10.9.0.1", dst="10.9.0.2", len=20) / tcp / Raw(bytes(1400)),
                      ether / IP(src="10.9.0.1", dst="10.9.0.2", ihl=15) / tcp,
                      ether / IP(src="10.9.0.1", dst="10.9.0.2") / TCP(sport=5, dport=6, dataofs=15, flags="A"),
                      ether / IPv6(src="fd09::1", dst="fd09::2", plen=65535) / tcp,
                      ether / Raw(b"\x00"), bytes(ether)):
            for _ in range(3):
                a.send(frame)
        a.send(ether / IP(src="10.9.0.1", dst="10.9.0.2", id=4711) / UDP(sport=5, dport=9999) / Raw(b"marker"))
        b.expect("the packet after them", lambda f: IP in f and f[IP].id == 4711, 3)
    check(router.alive(), router.output())
    transfer(lab, left, right, "10.9.0.2", 4_000_000)


@case(Plain, seconds=20)
def packets_that_the_interface_refuses_are_dropped_with_a_reason(lab: Lab) -> None:
    middle, _, _ = segments(lab)
    conf = lab.dir / "refused.click"
    conf.write_text("InfiniteSource(LENGTH 2000, LIMIT 5, STOP false) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)\n"
                    " -> out :: ToDevice(eth0, METHOD AF_PACKET);\n")
    router = Router(lab, middle, conf)
    wait_for("the drops", lambda: "refused by the interface" in router.read("drops"), 5)
    line = next(x for x in router.read("drops").splitlines() if "refused by the interface" in x)
    check("out" in line and "5" in line.split(), line)
    equal(router.read("out.count"), "0", "packets sent")


@case(Plain, seconds=40)
def packet_sockets_are_chosen_on_veths_and_filled_by_other_processors(lab: Lab) -> None:
    middle, left, right = segments(lab)
    conf = ROOT / "conf" / "minimal-forward.click"
    router = Router(lab, middle, conf, "DEV0=eth0", "DEV1=eth1")
    if "AF_XDP" in router.output() and "because" not in router.output():
        raise Skip("a kernel without TCX")
    why = "because the kernel would copy the frames of a veth twice for AF_XDP"
    check(f"eth0: AF_PACKET, 1 queue, {why}" in router.output(), router.output())
    check("the kernel processes the packets too" not in router.output(), router.output())
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    transfer(lab, left, right, "10.9.0.2")
    router.stop()
    for i, host in enumerate((left, right)):
        for space, dev in ((middle, f"eth{i}"), (host, "eth0")):
            lab.offload(space, dev, False)

    def filled_by() -> list[str]:
        """The processors that fill the rings, as the kernel shows them."""
        return [middle.sh("cat", f"/sys/class/net/eth{i}/queues/rx-0/rps_cpus").replace(",", "").lstrip("0").strip() for i in (0, 1)]

    *others, last = cores()
    router = Router(lab, middle, conf, "DEV0=eth0", "DEV1=eth1", cpu=last)
    check("eth0: AF_PACKET, 1 queue" in router.output(), router.output())
    expected = f"{sum(1 << cpu for cpu in others):x}" if others else ""
    if others:
        check(f"under load filled by CPU {','.join(map(str, others))}, {why}" in router.output(), router.output())
    wait_for("a ping", lambda: ping(left, "10.9.0.2"), 3)
    equal(filled_by(), ["", ""], "processors that fill the rings while little comes")
    server = right.popen("iperf3", "-s", "-1")
    wait_for("iperf3 -s", lambda: "5201" in right.sh("ss", "-Hltn"), 3)
    client = left.popen("iperf3", "-c", "10.9.0.2", "-t", "10")
    wait_for("the other processors", lambda: filled_by()[0] == expected, 8)
    lab.stop(client, server)
    transfer(lab, left, right, "10.9.0.2")
    router.stop()
    equal(filled_by(), ["", ""], "the same afterwards")
    router = Router(lab, middle, conf, "DEV0=eth0", "DEV1=eth1")
    check("filled by" not in router.output(), router.output())
    equal(filled_by(), ["", ""], "the same of a router that may run anywhere")
