"""A cluster of Valiant nodes in a lab: a namespace for each node, cables from each to each, a host on each external port.

    with Lab() as lab:
        cluster = Cluster(lab, 4)        # namespaces, cables, the cluster file
        cluster.start()                  # `valiant cluster run FILE --node N` in each
        cluster.wait_ready()
        cluster.kill(2)

Node i has the external port `eth0` (10.0.i+1.1/24, host h{i+1} is 10.0.i+1.2) and the interface `l{j}` towards node j.
"""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from lab import ROOT, ControlSocket, Lab, LabError, Namespace, Process, sh, the_binary, wait_for


class Started:
    """A node that `valiant cluster apply` has started: not a child of this process, known by its process file."""

    def __init__(self, socket: pathlib.Path):
        path = socket.with_suffix(".pid")
        self.pid = int(wait_for(f"{path}", lambda: path.exists() and path.read_text().strip(), 5))
        self.log = socket.with_suffix(".log")

    def poll(self) -> int | None:
        # The process that becomes its parent may notice late that it has ended.
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                return None
        return 0

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = 10) -> None:
        try:
            wait_for("its end", lambda: self.poll() is not None, seconds)
        except LabError:
            raise subprocess.TimeoutExpired(str(self.pid), seconds) from None

    @property
    def returncode(self) -> int | None:
        return self.poll()


class Etcd:
    """An etcd of one member in a namespace of its own, which nodes reach over a network beside their links.

        cluster = Cluster(lab, 4, extra=Etcd.SECTION)    # the nodes follow it
        etcd = Etcd(cluster)                             # starts it; commands run in its namespace from now on
        etcd.down(signal.SIGKILL); etcd.up()
    """

    ADDRESS, PORT = "192.168.9.100", 2379
    SECTION = f'[etcd]\nendpoints = ["http://{ADDRESS}:{PORT}"]\nttl = "2s"'

    def __init__(self, cluster: "Cluster"):
        self.lab, self.starts = cluster.lab, 0
        self.process: Process | None = None
        if not shutil.which("etcd"):
            raise LabError("no etcd: scripts/bootstrap installs etcd-server")
        self.space = self.lab.namespace("etcd")
        self.space.ip("link", "add", "bridge0", "type", "bridge")
        self.space.ip("addr", "add", f"{self.ADDRESS}/24", "dev", "bridge0")
        self.space.ip("link", "set", "bridge0", "up")
        for i, node in enumerate(cluster.nodes):
            self.lab.veth(node, "admin0", self.space, f"to{i}")
            self.space.ip("link", "set", f"to{i}", "master", "bridge0")
            node.ip("addr", "add", f"192.168.9.{i + 1}/24", "dev", "admin0")
        cluster.within = self.space
        self.up()

    def up(self, seconds: float = 20) -> None:
        client, peer = f"http://{self.ADDRESS}:{self.PORT}", f"http://{self.ADDRESS}:{self.PORT + 1}"
        self.starts += 1
        self.process = self.space.popen(
            "etcd", "--name=one", "--log-level=error", "--heartbeat-interval=20", "--election-timeout=200",
            f"--data-dir={self.lab.dir / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=one={peer}",
            log=f"etcd-{self.starts}.log")
        try:
            wait_for("etcd", self._healthy, seconds)
        except LabError:
            raise LabError(f"etcd did not start:\n{self.process.log.read_text(errors='replace')}") from None

    def _healthy(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException), self.space.inside():
            connection = http.client.HTTPConnection(self.ADDRESS, self.PORT, timeout=1)
            try:
                connection.request("GET", "/health")
                return b'"true"' in connection.getresponse().read()
            finally:
                connection.close()
        return False

    def down(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)
        self.process.wait(10)
        self.lab.processes.remove(self.process)
        self.process = None


class Cluster:
    """Nodes 0..n-1 run; cables and hosts are there for `room` nodes, so that nodes can be added.

    `policy`, `keys` (top-level lines) and `link_mtu` go into the cluster file; `wires` overrides where a cable ends:
    {(i, j): (node, interface)} instead of (j, "l{i}"); external ports send at `port_rate` at most. Cables in `bridged`
    pass a bridge, where one direction can be stopped.
    """

    def __init__(self, lab: Lab, n: int, room: int | None = None, rate: str = "100Mbps", shape: bool = False, mode: str = "adaptive",
                 mtu: Mapping[int, int] | None = None, link_mtu: int = 1500,
                 wires: Mapping[tuple[int, int], tuple[int, str]] | None = None, bridged: Iterable[tuple[int, int]] = (),
                 name: str = "rb", binary: str | None = None, extra: str = "", port_rate: str | None = None):
        self.lab, self.n, self.rate, self.shape, self.mode, self.name = lab, n, rate, shape, mode, name
        self.room, self.mtu, self.link_mtu, self.wires, self.extra = room or n, mtu or {}, link_mtu, wires or {}, extra
        self.bridged, self.port_rate = set(bridged), port_rate
        self.bridges: dict[tuple[int, int], Namespace] = {}
        self.binary = binary or the_binary()
        self.members = list(range(n))
        self.processes: dict[int, Process | Started] = {}
        self.starts = 0
        # The namespace in which commands run; None: that of this process.
        self.within: Namespace | None = None
        self.file, self.key = lab.dir / f"{name}.toml", lab.dir / f"{name}.key"
        self._build()
        self.write_key(self.key)
        self.write()

    # --- parts of the lab -------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        every = range(self.room)
        self.nodes = [self.lab.namespace(f"n{i}") for i in every]
        self.hosts = [self.host(i) for i in every]
        self.macs = [self.nodes[i].mac("eth0") for i in every]
        for i in every:
            for j in range(i + 1, self.room):
                to, dev = self.wires.get((i, j), (j, f"l{i}"))
                if (i, j) in self.bridged:
                    self._bridge(i, j)
                else:
                    self.lab.veth(self.nodes[i], f"l{j}", self.nodes[to], dev, mtu=self.link_mtu)

    def _bridge(self, i: int, j: int) -> None:
        space = self.bridges[i, j] = self.lab.namespace(f"b{i}{j}")
        space.ip("link", "add", "bridge0", "type", "bridge")
        for here, there in ((i, j), (j, i)):
            self.lab.veth(self.nodes[here], f"l{there}", space, f"to{here}", mtu=self.link_mtu)
            space.ip("link", "set", f"to{here}", "master", "bridge0")
        space.ip("link", "set", "bridge0", "up")

    def one_way(self, i: int, j: int, on: bool) -> None:
        """Sets whether the frames from node i to node j over a bridged cable are lost. The other direction is not affected."""
        # The bridge knows none of the internal addresses, so it floods every frame.
        self.bridges[min(i, j), max(i, j)].sh("bridge", "link", "set", "dev", f"to{j}", "flood", "off" if on else "on",
                                              "mcast_flood", "off" if on else "on")

    def host(self, i: int) -> Namespace:
        host = self.lab.namespace(f"h{i + 1}")
        self.lab.veth(self.nodes[i], "eth0", host, "eth0", mtu=self.mtu.get(i, 1500))
        # An address that the kernel chooses at random may look like one of an internal frame.
        self.nodes[i].ip("link", "set", "eth0", "address", f"02:00:00:00:01:{i:02x}")
        host.ip("addr", "add", f"10.0.{i + 1}.2/24", "dev", "eth0")
        host.ip("route", "add", "default", "via", f"10.0.{i + 1}.1")
        host.sh("sysctl", "-qw", "net.ipv4.conf.all.accept_redirects=0", "net.ipv4.conf.eth0.accept_redirects=0",
                "net.ipv4.icmp_ratelimit=0", check=False)
        return host

    @staticmethod
    def address(i: int) -> str:
        """The address of the host behind node i."""
        return f"10.0.{i + 1}.2"

    @staticmethod
    def gateway(i: int) -> str:
        """The address of the router on node i's port."""
        return f"10.0.{i + 1}.1"

    # --- the cluster file ------------------------------------------------------------------------------------------------

    def write_key(self, path: pathlib.Path) -> None:
        self.valiant("cluster", "key", path)

    def program(self) -> pathlib.Path:
        """The router's program: one of conf/, or written for this many ports."""
        n = len(self.members)
        path = ROOT / "conf" / f"ip-router-{n}.click"
        if not path.exists():
            path = self.lab.dir / f"ip-router-{n}.click"
            path.write_text(sh(sys.executable, str(ROOT / "scripts" / "make-ip-router"), str(n)))
        return path

    def text(self, key: pathlib.Path | None = None, rate: str | None = None) -> str:
        lines = [f'name = "{self.name}"', f'key_file = "{(key or self.key).name}"', f'rate = "{rate or self.rate}"',
                 f'program = "{self.program()}"']
        if self.shape:
            lines.append("shape = true")
        lines += [self.extra] if self.extra else []
        lines += ["", "[policy]", f'mode = "{self.mode}"', "", "[topology]", 'kind = "mesh"']
        for i in self.members:
            lines += ["", "[[node]]", f"id = {i}", f'netns = "{self.nodes[i].name}"', f'socket = "{self.socket(i)}"',
                      "[[node.port]]", 'device = "eth0"', f'network = "{self.gateway(i)}/24"', f'mac = "{self.macs[i]}"']
            if i in self.mtu:
                lines.append(f"mtu = {self.mtu[i]}")
            if self.port_rate:
                lines.append(f'rate = "{self.port_rate}"')
            for j in self.members:
                if i != j:
                    lines += ["[[node.link]]", f"to = {j}", f'device = "l{j}"']
        return "\n".join(lines) + "\n"

    def write(self, path: pathlib.Path | None = None, **kw: Any) -> pathlib.Path:
        (path or self.file).write_text(self.text(**kw))
        return path or self.file

    def socket(self, i: int) -> pathlib.Path:
        return self.lab.dir / f"{self.name}-{i}.sock"

    # --- processes ---------------------------------------------------------------------------------------------------------

    def start(self, *nodes: int, file: pathlib.Path | None = None, space: Namespace | None = None,
              pin: Mapping[int, int] | None = None) -> None:
        """Starts nodes (all of the file without arguments), each in its namespace; does not wait for links."""
        for i in nodes or self.members:
            self.starts += 1
            args = ["taskset", "-c", str(pin[i])] if pin else []
            self.processes[i] = (space or self.nodes[i]).popen(
                *args, self.binary, "cluster", "run", file or self.file, "--node", i, log=f"{self.name}-{i}-{self.starts}.log")
        for i in nodes or self.members:
            try:
                wait_for(f"node {i}'s control socket", lambda i=i: self._answers(i), 20)
            except LabError:
                raise LabError(f"node {i} did not start:\n{self.log(i)}") from None

    def _answers(self, i: int) -> bool:
        if self.processes[i].poll() is not None:
            raise LabError("ended")
        # A killed node leaves its socket behind, so the existence of the file does not show that the node runs.
        try:
            ControlSocket(self.socket(i)).close()
        except (OSError, LabError):
            return False
        return True

    def alive(self, i: int) -> bool:
        return i in self.processes and self.processes[i].poll() is None

    def log(self, i: int) -> str:
        return self.processes[i].log.read_text(errors="replace")

    def logs(self) -> str:
        return "\n".join(f"--- node {i}\n" + "\n".join(self.log(i).splitlines()[-12:]) for i in sorted(self.processes))

    def kill(self, i: int, number: int = signal.SIGKILL) -> None:
        process = self.processes.pop(i)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        process.wait(10)
        if process in self.lab.processes:
            self.lab.processes.remove(process)

    def stop(self) -> dict[int, int]:
        codes = {i: self.lab.stop(self.processes[i], grace=10)[0] for i in sorted(self.processes)}
        self.processes = {}
        return codes

    def cut(self, i: int, j: int) -> None:
        self.nodes[i].ip("link", "set", f"l{j}", "down")

    def join(self, i: int, j: int) -> None:
        self.nodes[i].ip("link", "set", f"l{j}", "up")

    # --- the output of commands ---------------------------------------------------------------------------------------------

    def line(self, *args: object) -> list[str]:
        """The command line of a `valiant` command."""
        line = [self.binary, *map(str, args)]
        return self.within.command(*line) if self.within else line

    def valiant(self, *args: object, check: bool = True, timeout: float = 20) -> str:
        return sh(*self.line(*args), check=check, timeout=timeout)

    def command(self, verb: str, *args: object) -> str:
        """The output of `valiant cluster VERB FILE ARGS`. It is no error if some nodes do not answer."""
        done = subprocess.run(self.line("cluster", verb, self.file, *args), capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
        if done.returncode not in (0, 3):
            raise LabError(f"cluster {verb} {' '.join(map(str, args))}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def apply(self) -> str:
        """Writes the file and applies it to the running nodes. The command starts new nodes and stops removed ones."""
        self.write()
        said = self.command("apply")
        for i in self.members:
            if not self.alive(i):
                self.processes[i] = Started(self.socket(i))
        for i in set(self.processes) - set(self.members):
            self.processes.pop(i).wait(10)
        return said

    def refused(self, verb: str, *args: object, file: pathlib.Path | None = None) -> str:
        """The error message of a `valiant cluster` command that fails."""
        done = subprocess.run(self.line("cluster", verb, file or self.file, *args), capture_output=True, text=True, timeout=20, check=False,
                              stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            raise AssertionError(f"cluster {verb} accepted it: {done.stdout}")
        return done.stderr

    def json(self, verb: str, *args: object) -> Any:
        return json.loads(self.command(verb, *args, "--json"))

    def read(self, i: int, handler: str) -> str:
        with contextlib.closing(ControlSocket(self.socket(i))) as control:
            return control.read(handler)

    def write_handler(self, i: int, handler: str, value: object = "") -> str:
        with contextlib.closing(ControlSocket(self.socket(i))) as control:
            return control.write(handler, value)

    def status(self) -> Any:
        """The cluster as its nodes see it."""
        return self.json("status")

    def state(self, i: int) -> Any:
        """The state of the cluster as node i sees it: the `status` handler of its ClusterInfo."""
        return json.loads(self.read(i, "cluster.status"))

    def neighbors(self, i: int) -> set[int]:
        """The nodes to which node i has a link that is up."""
        return {link["peer"] for link in self.state(i)["links"] if link["up"] and link["ready"]}

    def problems(self, i: int) -> dict[int, Any]:
        """The reasons that node i reports for the states of its links, by neighbor."""
        return {link["peer"]: link["words"] for link in self.state(i)["links"]}

    def sees(self, i: int, others: Iterable[int]) -> bool:
        """Whether the links of node i that are up lead to exactly these nodes."""
        with contextlib.suppress(OSError, LabError):
            return self.neighbors(i) == set(others) - {i}
        return False

    def wait_ready(self, among: Iterable[int] | None = None, seconds: float = 15) -> None:
        """Waits until these nodes (by default all that run) have links that are up to each other and to no other node."""
        wanted = sorted(among if among is not None else (i for i in self.members if self.alive(i)))
        for i in wanted:
            try:
                wait_for(f"node {i} to see {wanted}", lambda i=i: self.sees(i, wanted), seconds)
            except LabError as late:
                raise LabError(f"{late}; it says {self.problems(i)}\n{self.logs()}") from None
