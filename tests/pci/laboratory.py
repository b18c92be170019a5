"""The network of these tests: a router in a virtual machine with a NIC of each kind, and three hosts outside."""

import json
import re
from collections.abc import Callable
from typing import Any

from harness import Net, check, wait_for
from lab import ROOT, LabError, Namespace
from pciguest import KINDS, Nic, PciGuest

PORT = 7777
# Its NICs, and the host at each.
VIRTIO, E1000E, VMXNET3 = range(3)


class Books:
    """Where the packets are that a router has got: sent, dropped for a reason, discarded, waiting."""

    def __init__(self, read: Callable[..., list[str]]):
        self.read = read
        names = read("list")[0].split("\n")[1:]
        names = [name for name in names if name]
        classes = dict(zip(names, read(*(f"{name}.class" for name in names))))

        def of(handler: str, *wanted: str) -> list[str]:
            return [f"{name}.{handler}" for name, known in classes.items() if known in wanted]

        self.came = of("count", "FromDevice", "FromDPDKDevice") + of("queries", "ARPQuerier")
        self.went = of("count", "ToDevice", "Discard") + of("responses", "ARPQuerier")
        self.held = of("length", "Queue", "ARPQuerier") + of("waiting", "ToDevice")

    def numbers(self) -> tuple[list[int], int]:
        *values, drops = self.read(*self.came, *self.went, *self.held, "drops")
        return [int(value) for value in values], sum(int(line.split("\t")[0]) for line in drops.splitlines() if line)

    def missing(self, seconds: float = 15) -> int:
        """Waits until nothing moves; returns how many packets are nowhere."""
        before: list[object] = []

        def at_rest() -> bool:
            before.append(self.numbers())
            return len(before) > 1 and before[-1] == before[-2]

        wait_for("packets to come to rest", at_rest, seconds, 0.3)
        values, drops = self.numbers()
        sums = [sum(values[: len(self.came)]), sum(values[len(self.came):])]
        return sums[0] - sums[1] - drops


class PciNet(Net):
    """Hosts h0, h1, h2 at a NIC of each kind; the router of conf/ip-router-3.click, which each case may start anew."""

    # QEMU's other NICs take packets from the first queue of a TAP device only.
    QUEUES = {"virtio": 2, "e1000e": 1, "vmxnet3": 1}

    NODES = 1

    def build(self) -> None:
        self.hosts = [self.host(i) for i in range(3)]
        self.nics = [Nic(kind, host, self.QUEUES[kind], node=i % self.NODES) for i, (kind, host) in enumerate(zip(KINDS, self.hosts))]
        self.guest = PciGuest(self.lab, "guest", self.nics, nodes=self.NODES)
        for i, host in enumerate(self.hosts):
            host.ip("addr", "add", f"10.0.{i + 1}.2/24", "dev", "eth0")
            host.ip("route", "add", "default", "via", f"10.0.{i + 1}.1")
            # A host that looks for its router again and again is no part of what is counted.
            host.ip("neigh", "replace", f"10.0.{i + 1}.1", "lladdr", self.nics[i].mac, "dev", "eth0", "nud", "permanent")
        self.guest.wait_ready()
        # Linux has its interfaces first, as on any machine.
        self.guest.sh("for m in virtio_pci virtio_net vmxnet3; do modprobe $m; done")
        self.addresses = self.guest.addresses()
        self.found = self.doctor()
        self.follow(self.found)
        self.guest.put("/router.click", (ROOT / "conf" / "ip-router-3.click").read_text())
        self.started = False
        self.start()

    def host(self, i: int) -> Namespace:
        return self.lab.namespace(f"h{i}")

    # --- the machine ------------------------------------------------------------------------------------------------------

    def doctor(self) -> dict[str, Any]:
        text = self.guest.sh("valiant doctor --json 2>/run/doctor.err", check=False)
        try:
            said: dict[str, Any] = json.loads(text)
        except ValueError:
            raise LabError(f"valiant doctor --json: {text}{self.guest.sh('cat /run/doctor.err')}") from None
        return said

    def follow(self, said: dict[str, Any]) -> None:
        """Does what `valiant doctor` advises, word for word, until it advises nothing more."""
        for _ in range(3):
            advice = [finding["fix"] for finding in said["findings"]]
            advice += [port["fix"] for port in said["ports"] if port["name"] in self.addresses and port["fix"]]
            if not advice:
                return
            for command in advice:
                self.guest.sh(command, seconds=30)
            said = self.doctor()
        raise LabError(f"doctor still advises: {advice}")

    def plug(self, number: int) -> None:
        """Puts a NIC back into its place, where doctor says how it becomes a port."""
        self.guest.plug(number)
        wait_for("the NIC", lambda: len(self.guest.addresses()) == len(self.nics), 20, 0.2)
        self.addresses = self.guest.addresses()
        self.follow(self.doctor())

    # --- the router -------------------------------------------------------------------------------------------------------

    def start(self, *options: str, conf: str = "/router.click", **variables: object) -> None:
        """Starts the router, or starts it again."""
        values: dict[str, object] = {f"DEV{i}": address for i, address in enumerate(self.addresses)}
        values |= {f"MAC{i}": nic.mac for i, nic in enumerate(self.nics)}
        self.run(conf, [*options, *(f"{name}={value}" for name, value in {**values, **variables}.items())])

    def run(self, conf: str, words: list[str]) -> None:
        self.stop()
        self.guest.sh(f"valiant run {conf} -p {PORT} {' '.join(words)} </dev/null >/run/log 2>&1 & echo $! >/run/pid")
        self.started = True
        try:
            wait_for("the router", lambda: "Click::ControlSocket" in self.guest.sh(f"nc 127.0.0.1 {PORT} -w 1 </dev/null", check=False)
                     or not self.alive, 30, 0.1)
        except LabError:
            raise LabError(f"the router does not start:\n{self.log()}") from None
        if not self.alive:
            raise LabError(f"the router has ended:\n{self.log()}")

    def only(self, numbers: list[int]) -> None:
        """Starts a router between two of the NICs; the hosts keep their addresses."""
        self.guest.put("/two.click", (ROOT / "conf" / "ip-router-2.click").read_text())
        values: dict[str, object] = {}
        for i, number in enumerate(numbers):
            values |= {f"DEV{i}": self.addresses[number], f"MAC{i}": self.nics[number].mac, f"IP{i}": f"10.0.{number + 1}.1",
                       f"NET{i}": f"10.0.{number + 1}.0/24", f"BASE{i}": f"10.0.{number + 1}.0", f"BCAST{i}": f"10.0.{number + 1}.255"}
        self.run("/two.click", [f"{name}={value}" for name, value in values.items()])

    def stop(self) -> None:
        if self.started and self.alive:
            self.guest.sh("kill $(cat /run/pid)")
            wait_for("the router's end", lambda: not self.alive, 15, 0.1)
        self.started = False

    @property
    def alive(self) -> bool:
        return not self.started or self.guest.sh("kill -0 $(cat /run/pid) 2>/dev/null && echo yes", check=False).strip() == "yes"

    def log(self) -> str:
        # What QEMU's vmxnet3 reads at address 0 whenever it is started, the IOMMU stops.
        console = [line for line in self.guest.console.splitlines() if "DMAR" not in line]
        return self.guest.sh("cat /run/log", check=False) + "\n".join(console[-20:])

    def read(self, *handlers: str) -> list[str]:
        """Values of read handlers, by the control socket."""
        asked = "".join(f"READ {handler}\\r\\n" for handler in handlers)
        said = self.guest.sh(f"printf '{asked}QUIT\\r\\n' | nc 127.0.0.1 {PORT}", check=False)
        values, rest = [], said.replace("\r\n", "\n").partition("\n")[2]
        for handler in handlers:
            found = re.match(r"200 .*\nDATA (\d+)\n", rest)
            check(found, f"{handler}: {rest[:200]}")
            assert found
            end = found.end() + int(found.group(1))
            values.append(rest[found.end():end])
            rest = rest[end:]
        return values

    def write(self, handler: str, value: str) -> None:
        """Writes a handler, by the control socket."""
        said = self.guest.sh(f"printf 'WRITE {handler} {value}\\r\\nQUIT\\r\\n' | nc 127.0.0.1 {PORT}", check=False)
        check(re.search(r"^2[02]0[ -]Write handler", said, re.M), f"{handler} {value}: {said}")

    def number(self, handler: str) -> int:
        return int(self.read(handler)[0])

    def of_class(self, word: str) -> list[str]:
        """The names of the elements of a class that have no names of their own, in the order of the configuration."""
        names = [name for name in self.read("list")[0].split("\n")[1:] if name.startswith(f"{word}@")]
        return sorted(names, key=lambda name: int(name.partition("@")[2]))

    def inputs(self) -> list[str]:
        """The elements that receive, in the order of the NICs."""
        return self.of_class("FromDevice") or self.of_class("FromDPDKDevice")

    def outputs(self) -> list[str]:
        """The elements that send, in the order of the NICs."""
        return self.of_class("ToDevice")

    def port(self, number: int) -> dict[str, Any]:
        """What the router says of a NIC's port."""
        ports: list[dict[str, Any]] = json.loads(self.read("load.json")[0])["ports"]
        return next(port for port in ports if port["name"].startswith(self.addresses[number]))

    def cpu(self) -> tuple[float, int]:
        """The processor time that the router has used so far, in seconds, and how many times its threads have slept."""
        said = self.guest.sh("p=$(cat /run/pid); cat /proc/$p/stat; cat /proc/$p/task/*/status | grep ^voluntary")
        fields = said.splitlines()[0].rpartition(")")[2].split()
        slept = sum(int(line.split()[1]) for line in said.splitlines()[1:])
        return (int(fields[11]) + int(fields[12])) / 100, slept

    def books(self) -> Books:
        return Books(self.read)

    # --- the hosts --------------------------------------------------------------------------------------------------------

    def ping(self, a: int, b: int, *options: str) -> str:
        """Three pings from a host to another one, or to the router if that is the same."""
        return self.hosts[a].sh("ping", "-c", "3", "-i", "0.2", "-W", "2", *options, f"10.0.{b + 1}.{1 if a == b else 2}", check=False)

    def all_ping(self) -> None:
        for a in range(3):
            for b in range(3):
                said = self.ping(a, b)
                check(" 0% packet loss" in said, f"ping from host {a} to host {b}: {said}")

    def reaches(self, a: int, b: int) -> bool:
        return " 0% packet loss" in self.hosts[a].sh("ping", "-c", "1", "-W", "1", f"10.0.{b + 1}.{1 if a == b else 2}", check=False)


class TwoNodes(PciNet):
    """The same with two NUMA nodes: e1000e is at the second one."""

    NODES = 2
