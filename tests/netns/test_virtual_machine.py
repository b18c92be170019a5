"""`valiant vr` with a router that is a virtual machine: packets pass to it by vhost-user."""

import json
import signal

from guest import Guest, NoGuest, kernel
from harness import Plain, Skip, case, check, equal, wait_for
from lab import Lab
from test_virtual_direct import Host
from test_virtual_routers import lost, stream

MACHINE = 'scheme = "hybrid"\nmachine = true\n'
# What the guest does: Linux forwards.
FORWARD = """for net in 0 1; do
  /bin/busybox ip addr add 10.$((net + 1)).0.1/24 dev eth$net
  /bin/busybox ip link set eth$net up
done
echo 1 > /proc/sys/net/ipv4/ip_forward
"""


class MachineHost(Host):
    """Blue is a virtual machine, red a router of the common process."""

    def write(self, blue: str = "machine", extra: str = "", routers: str = "blue red") -> None:
        super().write("hybrid" if blue == "machine" else blue, extra, routers)
        text = self.file.read_text()
        if blue == "machine" and "[router.blue]" in text:
            begin, end = text.index("[router.blue]\n"), text.index("[[router.blue.interface]]")
            text = f"{text[:begin]}[router.blue]\n{MACHINE}{extra}{text[end:]}"
        self.file.write_text(text)

    def guest(self) -> Guest:
        checked = json.loads(self.vr("check", "--json"))["routers"]
        interfaces = next(router["interfaces"] for router in checked if router["name"] == "blue")
        sockets = [(self.lab.dir / "run" / f"blue.{i['name']}.vhost", i["mac"]) for i in interfaces]
        for socket, _ in sockets:
            wait_for("the socket", socket.exists, 5)
        return Guest(self.lab, "guest", sockets, FORWARD)


@case(Plain, seconds=180)
def a_virtual_machine_is_a_router_and_harms_nobody(lab: Lab) -> None:
    try:
        kernel()
    except NoGuest as reason:
        raise Skip(str(reason)) from None
    host = MachineHost(lab, blue="machine")
    wait_for("red", host.red, 5)
    # Before there is a machine, its packets go nowhere.
    check(not host.blue(), "who forwards?")
    guest = host.guest()
    guest.wait_ready()
    wait_for("blue", host.blue, 10)
    route = host.hosts[1].sh("traceroute", "-n", "-q", "1", "-w", "2", "10.2.0.2")
    check("10.1.0.1" in route, route)
    server = host.hosts[2].popen("iperf3", "-s", "-1", log="iperf3.log")
    wait_for("iperf3", lambda: ":5201" in host.hosts[2].sh("ss", "-tln"), 5)
    host.hosts[1].sh("iperf3", "-c", "10.2.0.2", "-t", "1")
    server.wait(timeout=10)
    status = host.routers()["blue"]
    equal((status["scheme"], status["machine"], status["running"]), ("hybrid", True, True), "its status")

    # A guest that reads nothing, while packets come for it; one that ends; one that comes again.
    flow = stream(host.hosts[3], "10.4.0.2", 3000)
    guest.process.send_signal(signal.SIGSTOP)
    flood = host.hosts[1].sh("ping", "-q", "-f", "-c", "5000", "-w", "4", "10.2.0.2", check=False)
    check("5000 received" not in flood, flood)
    guest.process.send_signal(signal.SIGCONT)
    wait_for("blue again", host.blue, 10)
    guest.process.kill()
    guest.process.wait(timeout=10)
    check(not host.blue(), "who forwards?")
    guest.process = guest.start()
    guest.wait_ready()
    wait_for("the next machine", host.blue, 10)
    # A filter, while it goes on.
    host.write(extra='filter = ["deny icmp", "allow all"]\n')
    host.vr("apply")
    wait_for("the filter", lambda: not host.blue(), 5)
    host.write()
    host.vr("apply")
    wait_for("no filter", host.blue, 5)
    equal(lost(flow), 0, "packets lost by red")

    # A process in place of the machine, and the machine again.
    host.write(blue="hybrid")
    host.vr("apply")
    wait_for("its process", host.blue, 10)
    check(host.routers()["blue"]["process"] != host.process.pid, "it has no process")
    guest.process.kill()
    host.vr("remove", "blue")
    host.write()
    host.vr("add", "blue")
    guest = host.guest()
    guest.wait_ready()
    wait_for("a machine again", host.blue, 10)
    host.vr("down")
    equal(host.process.wait(timeout=10), 0, "the exit status")
    equal(list((lab.dir / "run").iterdir()), [], "what is left of sockets")
