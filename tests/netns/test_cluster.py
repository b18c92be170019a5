"""Many nodes, one router: what hosts around a cluster see, what the nodes say when something is wired or configured wrong,
and what happens when links, nodes and members come and go."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterable
from typing import Any

from clusterlab import Cluster
from fairness import jain, max_min
from harness import ARP, ICMP, IP, UDP, Ether, LabError, Net, Plain, Wire, case, check, equal, ping, right_checksums, wait_for
from lab import Lab, cpu_seconds
from streams import Streams

SMALL_MTU = 1000


class ClusterNet(Net):
    """Four nodes and four hosts; the last host's cable carries at most 1000 bytes."""

    def build(self) -> None:
        self.cluster = Cluster(self.lab, 4, mtu={3: SMALL_MTU})
        self.hosts = self.cluster.hosts
        self.cluster.start()
        self.cluster.wait_ready()
        for i in range(4):
            for j in range(4):
                wait_for("the first ping", lambda i=i, j=j: i == j or ping(self.hosts[i], self.cluster.address(j)), 5)

    @property
    def alive(self) -> bool:
        return all(self.cluster.alive(i) for i in self.cluster.members)

    def log(self) -> str:
        return self.cluster.logs()

    def ether(self, i: int, **kw: Any) -> Any:
        """From host i to the router."""
        return Ether(**{"src": self.hosts[i].mac("eth0"), "dst": self.cluster.macs[i], **kw})

    def ip(self, i: int, j: int, **kw: Any) -> Any:
        return IP(**{"src": self.cluster.address(i), "dst": self.cluster.address(j), "ttl": 64, "id": 77, **kw})


def all_ping(cluster: Cluster, among: Iterable[int] | None = None, seconds: float = 5) -> None:
    """Until every host of these nodes reaches every other."""
    among = list(among if among is not None else cluster.members)
    for i in among:
        for j in among:
            if i != j:
                wait_for(f"h{i + 1} to reach h{j + 1}", lambda i=i, j=j: ping(cluster.hosts[i], cluster.address(j)), seconds)


# --- one router to the outside ---------------------------------------------------------------------------------------------


@case(ClusterNet)
def every_host_reaches_every_host_and_every_router_address_from_its_side(net: ClusterNet) -> None:
    answers = {}
    for i, host in enumerate(net.hosts):
        for j in range(4):
            for to in {net.cluster.gateway(j), net.cluster.address(j)} - {net.cluster.address(i)}:
                answers[i, to] = host.popen("ping", "-c", 2, "-i", 0.05, "-W", 1, to)
    silent = [f"h{i + 1} to {to}" for (i, to), p in answers.items() if p.wait(10) != 0]
    equal((len(answers), silent), (28, []), "pings, and those without an answer")


@case(ClusterNet)
def traceroute_shows_one_hop(net: ClusterNet) -> None:
    for i, j in ((0, 2), (3, 1)):
        out = net.hosts[i].sh("traceroute", "-n", "-q", 1, "-w", 1, net.cluster.address(j))
        hops = re.findall(r"^ *\d+ +(\S+)", out, re.M)
        equal(hops, [net.cluster.gateway(i), net.cluster.address(j)], f"hops from h{i + 1} to h{j + 1}")


@case(ClusterNet)
def the_packet_arrives_whole_with_ttl_minus_one_from_the_owning_port(net: ClusterNet) -> None:
    for i, j in ((0, 1), (1, 3), (2, 0)):
        with Wire(net.hosts[i]) as a, Wire(net.hosts[j]) as b:
            sent = net.ether(i) / net.ip(i, j, ttl=7, id=5000 + i, tos=0x28) / UDP(sport=7, dport=9999) / bytes(range(200))
            a.send(sent)
            got = b.expect("the packet", lambda f, i=i: IP in f and f[IP].id == 5000 + i and f[IP].proto == 17)
        equal((got.dst, got.src), (net.hosts[j].mac("eth0"), net.cluster.macs[j]), "Ethernet addresses")
        equal((got[IP].ttl, got[IP].tos), (6, 0x28), "TTL and TOS")
        equal(bytes(got[UDP]), bytes(sent[UDP])[:6] + bytes(got[UDP])[6:], "the datagram")
        right_checksums(got)


@case(ClusterNet)
def icmp_errors_come_from_the_port_that_the_packet_came_in_by(net: ClusterNet) -> None:
    with Wire(net.hosts[1]) as a:
        a.send(net.ether(1) / net.ip(1, 3, ttl=1) / UDP(dport=9999) / b"expires")
        got = a.expect("time exceeded", lambda f: ICMP in f and f[ICMP].type == 11)
        equal((got[IP].src, got.src, got[IP].dst), (net.cluster.gateway(1), net.cluster.macs[1], net.cluster.address(1)), "addresses")
        right_checksums(got)
        a.send(net.ether(1) / IP(src=net.cluster.address(1), dst="192.0.2.1") / UDP(dport=9999) / b"nowhere")
        got = a.expect("net unreachable", lambda f: ICMP in f and f[ICMP].type == 3 and f[ICMP].code == 0)
        equal(got[IP].src, net.cluster.gateway(1), "source")
        # The small MTU is on another node.
        a.send(net.ether(1) / net.ip(1, 3, flags="DF") / UDP(dport=9999) / bytes(1200))
        got = a.expect("fragmentation needed", lambda f: ICMP in f and f[ICMP].type == 3 and f[ICMP].code == 4)
        equal((got[IP].src, got[ICMP].nexthopmtu), (net.cluster.gateway(1), SMALL_MTU), "source and MTU")


@case(ClusterNet)
def fragments_are_made_for_a_port_of_another_node(net: ClusterNet) -> None:
    out = net.hosts[0].sh("ping", "-c", 1, "-W", 1, "-M", "dont", "-s", 3000, net.cluster.address(3), check=False)
    check("3008 bytes from" in out, out)


@case(ClusterNet)
def arp_is_spoken_by_the_owning_port_alone(net: ClusterNet) -> None:
    with Wire(net.hosts[2]) as a:
        def ask(address: str) -> None:
            a.send(Ether(src=a.mac, dst="ff:ff:ff:ff:ff:ff")
                   / ARP(op=1, hwsrc=a.mac, psrc=net.cluster.address(2), pdst=address))
        # Another node's address is not answered here, the port's own is.
        ask(net.cluster.gateway(0))
        ask(net.cluster.gateway(2))
        got = a.expect("an ARP reply", lambda f: ARP in f and f[ARP].op == 2)
        equal((got[ARP].psrc, got[ARP].hwsrc, got.src), (net.cluster.gateway(2), net.cluster.macs[2], net.cluster.macs[2]), "the reply")
    # A packet from the other end of the cluster for an address that nobody has makes the owning port ask.
    with Wire(net.hosts[2]) as b, Wire(net.hosts[0]) as a:
        a.send(net.ether(0) / IP(src=net.cluster.address(0), dst="10.0.3.77") / UDP(dport=9999) / b"who is it")
        got = b.expect("an ARP query", lambda f: ARP in f and f[ARP].op == 1 and f[ARP].pdst == "10.0.3.77")
        equal((got[ARP].psrc, got[ARP].hwsrc), (net.cluster.gateway(2), net.cluster.macs[2]), "who asks")


@case(ClusterNet)
def internal_addresses_from_a_host_go_nowhere(net: ClusterNet) -> None:
    """MAC codes of both phases and of control frames, for every node and port, and as the source."""
    inner = bytes(IP(src=net.cluster.address(0), dst=net.cluster.address(1), id=666) / UDP(dport=9999) / b"forged")
    with Wire(net.hosts[0]) as a, Wire(net.hosts[1]) as b, Wire(net.hosts[2]) as c:
        own = bytes.fromhex(a.mac.replace(":", ""))
        for phase_and_node in range(0x10000):
            # All phases, the nodes that there are and a few that there are not.
            node = phase_and_node & 0xfff
            if node > 5:
                continue
            for port in (0, 1):
                code = b"\xc2" + phase_and_node.to_bytes(2, "big") + bytes([port, 0, 2])
                a.send(code + own + b"\x08\x00" + inner)
        a.send(b"\xc2\x00\x01\x00\x00\x02" + b"\xc6\x00\x00\x00\x00\x00" + b"\x08\x00" + inner)
        for j, wire in ((1, b), (2, c)):
            a.send(net.ether(0) / net.ip(0, j, id=4242) / UDP(sport=9, dport=9999) / b"marker")
            seen = []
            for frame in wire.frames(2):
                if IP in frame and frame[IP].id == 4242 and frame[IP].src == net.cluster.address(0):
                    break
                if IP in frame and frame[IP].id == 666:
                    seen.append(frame.summary())
            else:
                raise AssertionError("the good packet after it did not arrive")
            equal(seen, [], f"what came out at h{j + 1}")
    equal([net.cluster.neighbors(i) for i in range(4)], [{0, 1, 2, 3} - {i} for i in range(4)], "links afterwards")


@case(ClusterNet)
def a_route_entered_once_is_on_every_node_and_goes_everywhere(net: ClusterNet) -> None:
    host = net.hosts[2]
    host.ip("addr", "add", "10.9.0.1/32", "dev", "lo")
    try:
        net.cluster.command("route", "add", "10.9.0.0/16", net.cluster.address(2))
        for i in range(4):
            wait_for(f"10.9.0.1 from h{i + 1}", lambda i=i: i == 2 or ping(net.hosts[i], "10.9.0.1"), 5)
        check("10.9.0.0/16" in net.cluster.command("route", "list"), "the list does not have it")
        said = net.cluster.refused("route", "add", "10.9.0.0/16", net.cluster.address(1))
        check("'set' replaces it" in said, said)
        net.cluster.command("route", "set", "10.9.0.0/16", net.cluster.address(1))
        vias = [route["via"] for route in net.cluster.json("route", "list")]
        equal(vias, [net.cluster.address(1)], "next hops after 'set'")
        net.cluster.command("route", "set", "10.9.0.0/16", net.cluster.address(2))
        check(ping(net.hosts[0], "10.9.0.1"), "10.9.0.1 does not answer after 'set' and back")
        net.cluster.command("route", "remove", "10.9.0.0/16")
        for i in range(4):
            wait_for(f"node {i} to forget it", lambda i=i: "10.9.0.0/16" not in net.cluster.read(i, "rt.table"), 5)
        check(not ping(net.hosts[0], "10.9.0.1"), "10.9.0.1 still answers")
    finally:
        host.ip("addr", "del", "10.9.0.1/32", "dev", "lo")


@case(ClusterNet)
def wrong_routes_are_refused_with_a_reason(net: ClusterNet) -> None:
    for args, word in ((("add", "10.9.0.0/33", "10.0.1.2"), "10.9.0.0/33"), (("add", "10.9.0.0/16", "192.0.2.1"), "192.0.2.1"),
                       (("remove", "10.77.0.0/16"), "10.77.0.0/16")):
        said = net.cluster.refused("route", *args)
        check(word in said, f"route {args}: {said}")


@case(ClusterNet)
def who_may_not_control_a_node_is_told_so(net: ClusterNet) -> None:
    # Root without the right to pass over modes, and sockets that nobody may use.
    sockets = [net.cluster.socket(i) for i in range(4)]
    weak = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", net.cluster.binary, "cluster"]
    try:
        for socket in sockets:
            socket.chmod(0)
        for verb in (["down"], ["status"], ["route", "list"]):
            line = [*weak, verb[0], str(net.cluster.file), *verb[1:]]
            done = subprocess.run(line, capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
            check(done.returncode in (1, 3), f"{verb}: exit status {done.returncode}")
            said = done.stdout + done.stderr
            check("permission denied" in said and "was not running" not in said, f"{verb}: {said}")
    finally:
        for socket in sockets:
            socket.chmod(0o700)
    equal([net.cluster.alive(i) for i in range(4)], [True] * 4, "nodes that run afterwards")


@case(ClusterNet)
def idle_nodes_sleep(net: ClusterNet) -> None:
    cpu = [cpu_seconds(net.cluster.processes[i].pid) for i in range(4)]
    net.hosts[0].sh("sleep", "1.5")
    used = [cpu_seconds(net.cluster.processes[i].pid) - before for i, before in enumerate(cpu)]
    check(sum(used) < 1.5, f"four idle nodes used {used} s of processor time in 1.5 s")


@case(ClusterNet)
def the_matrix_says_what_went_where(net: ClusterNet) -> None:
    def sent() -> int:
        to = net.cluster.state(0)["matrix"]["to"][1]
        return int(to["direct"]["packets"] + to["via_intermediate"]["packets"])

    before = sent()
    with Wire(net.hosts[0]) as a, Wire(net.hosts[1]) as b:
        for number in range(50):
            a.send(net.ether(0) / net.ip(0, 1, id=6000 + number) / UDP(sport=7, dport=9999) / b"counted")
        seen = {f[IP].id for f in b.frames(0.5) if IP in f and f[IP].src == net.cluster.address(0) and UDP in f}
    equal((len(seen), sent() - before), (50, 50), "packets that arrived, and that node 0 counted for node 1")
    cell = next(row for row in net.cluster.json("matrix")["from"] if row["node"] == 0)["to"][1]
    check("via_intermediate_pps" in cell, cell)
    text = net.cluster.command("status")
    check(text.count("3/3") == 4, text)


@case(Plain, seconds=60)
def input_nodes_share_an_oversubscribed_output(lab: Lab) -> None:
    rate, parts, hot, size = 8e6, (0.25, 0.6, 1.0), 3, 1400
    cluster = Cluster(lab, 4, rate="8Mbps", shape=True, port_rate="8Mbps")
    cluster.start()
    cluster.wait_ready()
    all_ping(cluster)
    pps = rate / 8 / (size + 42)
    pairs = {a: (cluster.hosts[a], cluster.hosts[hot], cluster.address(hot), part * pps) for a, part in enumerate(parts)}
    with Streams(lab, pairs, size, flows=32) as streams:
        time.sleep(3)
        before = streams.totals()
        time.sleep(3)
        matrix = cluster.json("matrix")
        rates = streams.rates(before, streams.totals())
    sent_, got = ([rates[a][i] for a in pairs] for i in (0, 1))
    shares = max_min(sent_, sum(got))
    check(sum(got) < 0.9 * sum(sent_), f"no overload: {rates}")
    index = jain([g / s for g, s in zip(got, shares)])
    # In a queue for all that is 0.87.
    check(index > 0.98, f"Jain's index {index:.4f}: {got} arrived where {shares} were due")
    output = next(o for o in matrix["outputs"] if o["node"] == hot)
    check(output["jain"] is not None and output["jain"] > 0.97, output)
    text = cluster.read(hot, "out3.inputs")
    check([line.split()[0] for line in text.splitlines()][:3] == ["0", "1", "2"], text)


# --- things happen to it ---------------------------------------------------------------------------------------------------


@case(ClusterNet, seconds=30)
def a_cut_link_is_gone_round_and_comes_back(net: ClusterNet) -> None:
    cluster = net.cluster
    cluster.cut(0, 1)
    try:
        for i, others in ((0, {2, 3}), (1, {2, 3}), (2, {0, 1, 3})):
            wait_for(f"node {i} to see the cut", lambda i=i, o=others: cluster.neighbors(i) == o, 5)
        all_ping(cluster)
        with Wire(net.hosts[0]) as a, Wire(net.hosts[1]) as b:
            a.send(net.ether(0) / net.ip(0, 1, ttl=9, id=7000) / UDP(dport=9999) / b"round")
            got = b.expect("the packet", lambda f: IP in f and f[IP].id == 7000 and UDP in f)
        equal(got[IP].ttl, 8, "TTL over another node")
    finally:
        cluster.join(0, 1)
    cluster.wait_ready()
    all_ping(cluster)


@case(ClusterNet, seconds=40)
def a_killed_node_leaves_the_others_going_and_returns(net: ClusterNet) -> None:
    cluster = net.cluster
    net.hosts[2].ip("addr", "add", "10.9.0.1/32", "dev", "lo")
    cluster.kill(3)
    try:
        cluster.wait_ready([0, 1, 2])
        all_ping(cluster, [0, 1, 2])
        with Wire(net.hosts[1]) as a:
            # Who sends there is told at once, by the node that the packet came in by.
            a.send(net.ether(1) / net.ip(1, 3) / UDP(dport=9999) / b"nobody there")
            got = a.expect("net unreachable", lambda f: ICMP in f and f[ICMP].type == 3 and f[ICMP].code == 0)
            equal((got[IP].src, got[IP].dst), (cluster.gateway(1), cluster.address(1)), "addresses")
            equal(bytes(got[ICMP].payload)[16:20], IP(dst=cluster.address(3)).build()[16:20], "the destination quoted")
            right_checksums(got)
        out = net.hosts[0].sh("ping", "-c", 1, "-W", 1, cluster.address(3), check=False)
        check("Destination Net Unreachable" in out, out)
        # A route that was entered while it was away is there when it is back.
        cluster.command("route", "add", "10.9.0.0/16", cluster.address(2))
    finally:
        cluster.start(3)
    cluster.wait_ready()
    all_ping(cluster)
    wait_for("10.9.0.1 from h4", lambda: ping(net.hosts[3], "10.9.0.1"), 5)
    cluster.command("route", "remove", "10.9.0.0/16")


@case(Plain, seconds=30)
def each_hop_tells_its_latency(lab: Lab) -> None:
    cluster = Cluster(lab, 3, mode="valiant", extra="measure = true")
    cluster.start()
    cluster.wait_ready()
    all_ping(cluster)
    space, count = cluster.hosts[0], 300
    space.sh(cluster.binary, "gen", "eth0", "-q", "-n", count, "-r", "1k", "-f", 16, "--src", cluster.address(0), "--dst",
             cluster.address(2), "--dst-mac", cluster.macs[0])

    def passed(i: int, hop: str) -> int:
        least, mean, *_, most, frames = map(int, cluster.read(i, f"{hop}.latency").split())
        check(not frames or 0 < least <= mean <= most < 10**10, f"{hop} of node {i}: {least}, {mean}, {most} ns")
        return frames

    wait_for("all frames to leave", lambda: passed(2, "cluster_hop_out2") == count, 5)
    equal(passed(0, "cluster_hop_in0"), count, "frames that came in")
    direct, over = passed(2, "link0_hop"), passed(2, "link1_hop")
    equal((direct + over, passed(1, "link0_hop")), (count, over), "frames on the direct link and via node 1")
    # In two phases, some go each way.
    check(direct and over, f"{direct} direct, {over} via node 1")
    equal(passed(1, "cluster_hop_out1"), 0, "frames that leave at node 1")


@case(Plain, seconds=40)
def a_node_is_added_and_taken_away_while_packets_flow(lab: Lab) -> None:
    cluster = Cluster(lab, 2, room=3)
    cluster.start()
    cluster.wait_ready()
    all_ping(cluster)
    flow = cluster.hosts[0].popen("ping", "-i", 0.01, "-c", 10000, cluster.address(1), log="flow.txt")
    cluster.members.append(2)
    cluster.apply()
    cluster.wait_ready()
    all_ping(cluster)
    cluster.members.remove(2)
    cluster.apply()
    cluster.wait_ready([0, 1])
    all_ping(cluster)
    flow.send_signal(signal.SIGINT)
    flow.wait(5)
    said = flow.log.read_text()
    counts = re.search(r"(\d+) packets transmitted, (\d+) received", said)
    assert counts, said
    sent_, got = map(int, counts.groups())
    check(sent_ > 20 and sent_ - got <= sent_ // 10, f"{sent_ - got} of {sent_} pings lost while the cluster changed")


@case(Plain, seconds=30)
def a_node_that_restarts_in_a_loop_does_not_disturb_the_others(lab: Lab) -> None:
    cluster = Cluster(lab, 3)
    cluster.start()
    cluster.wait_ready()
    for _ in range(5):
        cluster.kill(2)
        cluster.start(2)
        check(ping(cluster.hosts[0], cluster.address(1), "-c", "3", "-i", "0.2", "-W", "1"), "h1 does not reach h2")
    cluster.wait_ready()
    all_ping(cluster)
    codes = cluster.stop()
    equal(codes, {0: 0, 1: 0, 2: 0}, "exit statuses of nodes that were asked to end")


# --- wrong wiring, wrong keys, wrong files -----------------------------------------------------------------------------------


def named(cluster: Cluster, i: int, peer: int, pattern: str) -> None:
    """Until node i says something like this of its link to `peer`."""
    try:
        wait_for("the problem", lambda: re.search(pattern, cluster.problems(i)[peer], re.I), 5)
    except LabError:
        raise AssertionError(f"node {i} says of its links {cluster.problems(i)}, not {pattern!r} of {peer}") from None


@case(Plain)
def a_node_without_the_key_does_not_join(lab: Lab) -> None:
    cluster = Cluster(lab, 3)
    other = lab.dir / "other.key"
    cluster.write_key(other)
    cluster.start(0, 1)
    cluster.start(2, file=cluster.write(lab.dir / "other.toml", key=other))
    cluster.wait_ready([0, 1])
    named(cluster, 0, 2, "key")
    all_ping(cluster, [0, 1])
    equal([cluster.neighbors(i) for i in range(3)], [{1}, {0}, set()], "neighbors")
    check(not ping(cluster.hosts[2], cluster.address(0)), "a host of the foreign node gets through")


@case(Plain)
def a_node_with_another_configuration_is_named(lab: Lab) -> None:
    cluster = Cluster(lab, 3)
    cluster.start(0, 1)
    cluster.start(2, file=cluster.write(lab.dir / "other.toml", rate="123Mbps"))
    cluster.wait_ready([0, 1])
    named(cluster, 0, 2, "configuration")


@case(Plain)
def two_nodes_with_one_identity_are_named(lab: Lab) -> None:
    cluster = Cluster(lab, 3)
    cluster.start(0, 1)
    # Where node 2 should be, node 1 runs a second time.
    twin, (one, two) = lab.dir / "twin.toml", (f'"{cluster.nodes[i].name}"' for i in (1, 2))
    text = cluster.text().replace(one, '"elsewhere"').replace(two, one).replace('"elsewhere"', two)
    twin.write_text(text.replace(str(cluster.socket(1)), str(lab.dir / "twin.sock")))
    lab.veth(cluster.nodes[2], "l2", lab.namespace("spare"), "eth0")
    process = cluster.nodes[2].popen(cluster.binary, "cluster", "run", twin, "--node", 1, log="twin.log")
    cluster.wait_ready([0, 1])
    named(cluster, 0, 2, "node 1")
    all_ping(cluster, [0, 1])
    check(process.poll() is None, f"the twin ended: {process.log.read_text()}")


@case(Plain)
def a_link_to_the_wrong_node_is_named(lab: Lab) -> None:
    # The cables from node 0 to 1 and 2 are exchanged.
    cluster = Cluster(lab, 3, wires={(0, 1): (2, "l0"), (0, 2): (1, "l0")})
    cluster.start()
    cluster.wait_ready([1, 2])
    named(cluster, 0, 1, "node 2")
    named(cluster, 0, 2, "node 1")
    equal([cluster.neighbors(i) for i in range(3)], [set(), {2}, {1}], "neighbors")


@case(Plain, seconds=30)
def a_link_that_works_in_one_direction_is_named_and_gone_round(lab: Lab) -> None:
    cluster = Cluster(lab, 3, bridged=[(0, 1)])
    cluster.start()
    cluster.wait_ready()
    all_ping(cluster)
    cluster.one_way(0, 1, True)
    wait_for("node 0 to leave the link alone", lambda: cluster.neighbors(0) == {2}, 5)
    named(cluster, 0, 1, "but receives none from this node")
    named(cluster, 1, 0, "no hello from node 0")
    wait_for("node 2 to know", lambda: [0, 1] in cluster.state(2)["dead"]["links"], 5)
    all_ping(cluster)
    cluster.one_way(0, 1, False)
    cluster.wait_ready()
    all_ping(cluster)


@case(Plain)
def a_link_with_too_small_an_mtu_is_named(lab: Lab) -> None:
    cluster = Cluster(lab, 2, link_mtu=1400)
    cluster.start()
    named(cluster, 0, 1, "mtu|bytes")


@case(Plain, seconds=30)
def a_lowered_mtu_takes_the_link_out_of_use_and_is_named(lab: Lab) -> None:
    cluster = Cluster(lab, 3)
    cluster.start()
    cluster.wait_ready()
    for i, j in ((0, 1), (1, 0)):
        cluster.nodes[i].ip("link", "set", f"l{j}", "mtu", "1400")
    wait_for("the link to be left alone", lambda: cluster.neighbors(0) == {2} and cluster.neighbors(1) == {2}, 5)
    # Linux leaves room for a VLAN tag where AF_XDP sends.
    named(cluster, 0, 1, "only up to 140[0-4]:")
    all_ping(cluster)
    for i, j in ((0, 1), (1, 0)):
        cluster.nodes[i].ip("link", "set", f"l{j}", "mtu", "1500")
    cluster.wait_ready()


@case(Plain, seconds=30)
def a_device_of_one_cluster_is_not_anothers(lab: Lab) -> None:
    cluster = Cluster(lab, 2)
    cluster.start()
    cluster.wait_ready()
    other = lab.dir / "red.toml"
    text = cluster.text().replace('name = "rb"', 'name = "red"')
    other.write_text(text.replace("rb-0.sock", "red-0.sock").replace("rb-1.sock", "red-1.sock"))
    owner = f"node 0 of rb, process {cluster.processes[0].pid}"
    for verb in ("up", "run"):
        said = cluster.refused(verb, *(("--node", 0) if verb == "run" else ()), file=other)
        check(owner in said and "eth0" in said and "panicked" not in said, f"{verb}: {said}")
    # The file itself is good.
    done = subprocess.run(cluster.line("cluster", "check", other), capture_output=True, text=True, timeout=20, check=False)
    check(done.returncode == 0 and f"node 0: its device eth0 is in use by {owner}" in done.stderr, done.stderr)
    check(owner not in cluster.command("check"), "a cluster's own devices are its own")
    # Who looks on is let in, and told.
    sniffer = cluster.nodes[0].popen(cluster.binary, "run", "-e", "FromDevice(eth0, METHOD AF_PACKET) -> Discard", log="sniffer.log")
    wait_for("the note", lambda: f"{owner}, has it too" in sniffer.log.read_text(errors="replace"), 10)
    lab.stop(sniffer)
    equal([cluster.neighbors(i) for i in range(2)], [{1}, {0}], "neighbors")
    # A node that was killed holds nothing.
    for i in range(2):
        cluster.kill(i)
    done = subprocess.run(cluster.line("cluster", "up", other), capture_output=True, text=True, timeout=30, check=False)
    check(done.returncode == 0, done.stderr)
    subprocess.run(cluster.line("cluster", "down", other), capture_output=True, timeout=30, check=True)


@case(Plain)
def wrong_cluster_files_are_refused_with_what_is_wrong(lab: Lab) -> None:
    cluster = Cluster(lab, 2)
    good = cluster.text()
    check("rb" in cluster.command("check"), "check says nothing of a good file")
    for change, words in (
        (("id = 1", "id = 0"), "0"),
        (("id = 1", "id = 7"), "7"),
        (("to = 1", "to = 9"), "9"),
        (('rate = "100Mbps"', 'rate = "fast"'), "fast"),
        (("10.0.2.1/24", "10.0.2.1/8"), "/8"),
        (("10.0.2.1/24", "10.0.1.9/24"), "10.0.1"),
        (('kind = "mesh"', 'kind = "torus"'), "torus"),
        (('name = "rb"', 'name = "rb"\ncolor = "blue"'), "color"),
        (("ip-router-2.click", "ip-router-none.click"), "ip-router-none.click"),
        (("rb.key", "none.key"), "none.key"),
        (('device = "l1"', 'device = "eth0"'), "eth0"),
    ):
        check(change[0] in good, change)
        path = lab.dir / "wrong.toml"
        path.write_text(good.replace(*change))
        said = cluster.refused("check", file=path)
        check(words in said and "panicked" not in said, f"{change}: {said}")
        # Programs find the same in what they read.
        for verb in ("check", "up", "apply"):
            done = subprocess.run([cluster.binary, "cluster", verb, str(path), "--json"], capture_output=True, text=True,
                                  timeout=20, check=False, stdin=subprocess.DEVNULL)
            answer = json.loads(done.stdout)
            check(done.returncode == 1 and answer["ok"] is False and words in done.stdout, f"{verb}: {change}: {done.stdout}")
