"""Clusters that are no mesh of cables: a k-ary n-fly of twelve processes, and a mesh of tunnels through one fabric."""

import contextlib
import pathlib
import re
from collections.abc import Iterable
from typing import Any

from clusterlab import Cluster
from harness import IP, UDP, Ether, Plain, Wire, case, check, equal, ping, wait_for
from lab import ROOT, Lab


class Fly(Cluster):
    """Four nodes with a host each, and two stages of four servers in between: k = 2, so stage S sets digit S of the output's number.

    Node x of a stage, or of the four, sends to columns 2x and 2x + 1 (mod 4) of the next one.
    """

    OUTER, K, STAGES = 4, 2, 2

    def __init__(self, lab: Lab, **kw: Any):
        nodes = self.OUTER * (self.STAGES + 1)
        self.joined: dict[int, set[int]] = {i: set() for i in range(nodes)}
        for i in range(nodes):
            stage, x = divmod(i, self.OUTER)
            for r in range(self.K):
                to = (stage + 1) % (self.STAGES + 1) * self.OUTER + (self.K * x + r) % self.OUTER
                self.joined[i].add(to)
                self.joined[to].add(i)
        super().__init__(lab, nodes, name="fly", **kw)

    def _build(self) -> None:
        self.nodes = [self.lab.namespace(f"n{i}") for i in range(self.n)]
        self.hosts = [self.host(i) for i in range(self.OUTER)]
        self.macs = [self.nodes[i].mac("eth0") for i in range(self.OUTER)]
        for i, others in self.joined.items():
            for j in others:
                if i < j:
                    self.lab.veth(self.nodes[i], f"l{j}", self.nodes[j], f"l{i}")

    def program(self) -> pathlib.Path:
        return ROOT / "conf" / "ip-router-4.click"

    def text(self, key: pathlib.Path | None = None, rate: str | None = None) -> str:
        lines = [f'name = "{self.name}"', f'key_file = "{self.key.name}"', f'rate = "{rate or self.rate}"',
                 f'program = "{self.program()}"', "[policy]", f'mode = "{self.mode}"', "[topology]", 'kind = "fly"', f"k = {self.K}"]
        for i in self.members:
            lines += ["[[node]]", f"id = {i}", f'netns = "{self.nodes[i].name}"', f'socket = "{self.socket(i)}"']
            if i < self.OUTER:
                lines += ["[[node.port]]", 'device = "eth0"', f'network = "{self.gateway(i)}/24"', f'mac = "{self.macs[i]}"']
            for j in sorted(self.joined[i]):
                lines += ["[[node.link]]", f"to = {j}", f'device = "l{j}"']
        return "\n".join(lines) + "\n"

    def wait_joined(self, without: Iterable[int] = (), seconds: float = 20) -> None:
        """Until all nodes but these have all their links up."""
        for i in set(self.members) - set(without):
            wait_for(f"the links of node {i}", lambda i=i: self.sees(i, self.joined[i] - set(without)), seconds)

    def carried(self, i: int) -> int:
        """Packets that node i has carried for others."""
        found = re.search(r"^transit (\d+)", self.read(i, "cluster.work"), re.M)
        assert found, f"node {i} does not count its transit"
        return int(found[1])


def all_ping(cluster: Cluster, count: int = 1, seconds: float = 5) -> None:
    for i, host in enumerate(cluster.hosts):
        for j in range(len(cluster.hosts)):
            if i != j:
                wait_for(f"h{i + 1} to reach h{j + 1}", lambda h=host, j=j: ping(h, cluster.address(j)), seconds)
                # For the last reply ping waits two round-trip times, or the interval.
                out = host.sh("ping", "-q", "-c", count, "-i", 0.05, "-W", 1, cluster.address(j), check=False)
                check(f" {count} received" in out, out)


@case(Plain, "valiant", seconds=90)
@case(Plain, "adaptive", seconds=90, long=True)
def a_fly_of_twelve_processes_is_one_router(lab: Lab, mode: str = "adaptive") -> None:
    cluster = Fly(lab, mode=mode)
    cluster.start()
    cluster.wait_joined()
    before = [cluster.carried(i) for i in cluster.members]
    all_ping(cluster, count=20)
    # 12 pairs, 20 packets there and 20 back, over two servers in between at least.
    carried = [cluster.carried(i) - before[i] for i in cluster.members]
    check(sum(carried[4:8]) >= 480 and sum(carried[8:]) >= 480, f"carried in between: {carried}")
    # Each stage sees each packet once on each part of its way.
    first, second, over = sum(carried[4:8]), sum(carried[8:]), sum(carried[:4])
    check(first == second, f"{first} in the first stage, {second} in the second")
    check((over > 0) == (mode == "valiant"), f"{over} packets over other nodes, {mode}")
    # Twelve rows, four columns: nothing is for a server in between.
    table = cluster.command("matrix").splitlines()
    equal((table[1].split(), [line.split()[0] for line in table[2:14]]),
          ([*"0123", "transit"], [str(i) for i in range(12)]), "the matrix")
    out = cluster.hosts[0].sh("traceroute", "-n", "-q", 1, "-w", 1, cluster.address(3))
    equal(re.findall(r"^ *\d+ +(\S+)", out, re.M), [cluster.gateway(0), cluster.address(3)], "hops")
    with Wire(cluster.hosts[1]) as a, Wire(cluster.hosts[2]) as b:
        a.send(Ether(src=a.mac, dst=cluster.macs[1]) / IP(src=cluster.address(1), dst=cluster.address(2), ttl=9, id=77)
               / UDP(dport=9) / bytes(300))
        got = b.expect("the packet", lambda f: IP in f and f[IP].id == 77)
        equal((got[IP].ttl, got.src), (8, cluster.macs[2]), "TTL and source")
    # A server in each stage dies: there is a way around it for all.
    for dead in (5, 10):
        cluster.kill(dead)
        for i in range(4):
            wait_for(f"node {i} to know that {dead} is dead",
                     lambda i=i, dead=dead: f"node {dead}\n" in cluster.read(i, "cluster.failures"), 5)
        all_ping(cluster, count=5)
        cluster.start(dead)
        cluster.wait_joined()
        for i in range(4):
            wait_for(f"node {i} to know that {dead} lives", lambda i=i: cluster.read(i, "cluster.failures") == "", 5)
    all_ping(cluster)


class Tunnels(Cluster):
    """Nodes in a mesh of tunnels: each has one device in a fabric that all share, a bridge here."""

    def _build(self) -> None:
        self.nodes = [self.lab.namespace(f"n{i}") for i in range(self.n)]
        self.hosts = [self.host(i) for i in range(self.n)]
        self.macs = [self.nodes[i].mac("eth0") for i in range(self.n)]
        self.fabric = self.lab.namespace("f")
        self.fabric.ip("link", "add", "br0", "type", "bridge")
        self.fabric.ip("link", "set", "br0", "mtu", "1550", "up")
        for i, node in enumerate(self.nodes):
            self.lab.veth(node, "fab0", self.fabric, f"port{i}", mtu=1550)
            self.fabric.ip("link", "set", f"port{i}", "master", "br0")

    def text(self, key: pathlib.Path | None = None, rate: str | None = None) -> str:
        text = super().text(key, rate)
        for i in self.members:
            head, sep, own = text.partition(f"id = {i}\n")
            own, end, rest = own.partition("[[node]]")

            def tunnel(m: re.Match[str], i: int = i) -> str:
                return (f'to = {m[1]}\nvxlan = {{ vni = 7, device = "fab0", local = "192.168.0.{i + 1}/24", '
                        f'remote = "192.168.0.{int(m[1]) + 1}" }}')

            own = re.sub(r'^to = (\d+)\ndevice = "l\d+"', tunnel, own, flags=re.M)
            text = head + sep + own + end + rest
        return text


@case(Plain, seconds=60)
def a_mesh_of_tunnels_is_one_router(lab: Lab) -> None:
    cluster = Tunnels(lab, 3, name="vx")
    cluster.start()
    cluster.wait_ready()
    with Wire(cluster.fabric, "port0") as wire:
        all_ping(cluster, count=10)
        kinds = {f[UDP].dport if UDP in f else f.summary() for f in wire.frames(0.5) if IP in f}
        equal(kinds, {4789}, "what node 0 sends into the fabric")
        # Packets of 1500 bytes make 1550 in the fabric.
        wire.drain()
        out = cluster.hosts[0].sh("ping", "-c", 2, "-i", 0.01, "-M", "do", "-s", 1472, cluster.address(2), check=False)
        check(" 0% packet loss" in out, out)
        wire.expect("a frame of 1564 bytes", lambda f: UDP in f and f[UDP].dport == 4789 and len(f) == 1564, 5)
    cluster.kill(1)
    wait_for("node 0 to know that node 1 is dead", lambda: "node 1\n" in cluster.read(0, "cluster.failures"), 5)
    check(ping(cluster.hosts[0], cluster.address(2)), "the other two go on")
    cluster.start(1)
    cluster.wait_ready()
    all_ping(cluster)
    with contextlib.suppress(KeyError):
        check(all(code == 0 for code in cluster.stop().values()), "how the nodes ended")
