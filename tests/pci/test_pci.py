"""An IP router between NICs of three kinds that DPDK drives, in a virtual machine; hosts outside."""

import json
from typing import Any

from harness import case, check, equal, wait_for
from laboratory import E1000E, VIRTIO, VMXNET3, PciNet

# What `make test` runs.
SHORT = {"doctor_says_how_nics_become_ports", "every_kind_of_nic_passes_ping_traceroute_and_iperf"}
DRIVERS = {VIRTIO: "net_virtio", E1000E: "net_e1000_em", VMXNET3: "net_vmxnet3"}


def iperf(net: PciNet, a: int, b: int, seconds: float = 1, *options: str) -> dict[str, Any]:
    """One TCP connection from a host to another one; what iperf3 reports at its end."""
    server = net.hosts[b].popen("iperf3", "-s", "-1", "-p", "5300")
    wait_for("iperf3 -s", lambda: ":5300" in net.hosts[b].sh("ss", "-Hltn"), 3)
    said = net.hosts[a].sh("iperf3", "-c", f"10.0.{b + 1}.2", "-p", "5300", "-t", seconds, "-J", "--connect-timeout", "5000", *options,
                           check=False, timeout=seconds + 20)
    net.lab.stop(server)
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
