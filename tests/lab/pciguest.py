"""A virtual machine with PCI NICs behind an IOMMU, and hosts outside of it, each in a namespace at the other end of a NIC's cable."""

import base64
import fcntl
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from guest import BUSYBOX, QEMU, archive, kernel
from lab import Lab, LabError, Namespace, Process, the_binary, wait_for

# What the guest's kernel must be able to load; what these depend on comes along.
MODULES = ("vfio-pci", "vfio_iommu_type1", "virtio_net", "vmxnet3", "virtio_pci", "virtio_console", "tun")
MEMORY = 1536
# The kinds of NIC: their devices in QEMU, and which Linux drivers take them before vfio-pci does.
KINDS = {"virtio": "virtio-net-pci", "e1000e": "e1000e", "vmxnet3": "vmxnet3"}
# linux/if_tun.h
TUNSETIFF, TUNSETVNETHDRSZ = 0x400454CA, 0x400454D8
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x4000, 0x0100
# ASCII's record separator: it ends what a command has printed.
END = "\x1e"
INIT = """#!/bin/sh
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /run
ip link set lo up
ulimit -l unlimited
modprobe virtio_pci
modprobe virtio_console
# Its name comes last: /dev/vport0p1 is there before it can be opened.
while [ ! -e /sys/class/virtio-ports/vport0p1/name ]; do usleep 10000; done
exec 0<>/dev/vport0p1 1>&0 2>/dev/console
echo the guest is ready >/dev/console
# Commands come from outside, one a line: a number and the command. What it prints goes back, then the number and its status.
while read -r number command; do
  eval "$command" </dev/null 2>&1
  printf '\\036%s %s\\n' "$number" "$?"
done
"""


@dataclass
class Nic:
    """A NIC of the guest and the host at its other end."""

    kind: str
    host: Namespace
    queues: int = 1
    mtu: int = 1500
    # The NUMA node that it is at.
    node: int = 0
    # Given when the guest is made.
    mac: str = ""
    taps: list[int] = field(default_factory=list)


def libraries(program: pathlib.Path) -> list[pathlib.Path]:
    """The shared libraries of a program, and its loader."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", said)]


def depends(module: pathlib.Path) -> tuple[list[str], list[str]]:
    """The names of the modules that one needs, as it says itself, and of those that are to be loaded after it."""
    data = b"\0" + module.read_bytes()
    needs = re.search(rb"\0depends=([^\0]*)\0", data)
    later = re.findall(rb"\0softdep=post: ([^\0]*)\0", data)
    names = [needs.group(1).decode().split(",") if needs else [], " ".join(text.decode() for text in later).split()]
    first, after = ([name.replace("-", "_") for name in some if name] for some in names)
    return first, after


def files(binary: str, scratch: pathlib.Path) -> dict[str, tuple[int, bytes]]:
    """What the guest's file system has: busybox, valiant with its libraries, kernel modules."""
    _, modules = kernel()
    release = modules.parent.name
    entries: dict[str, tuple[int, bytes]] = {}
    for name in ("bin", "dev", "lib", "lib/modules", f"lib/modules/{release}", "lib64", "proc", "root", "run", "sys", "tmp"):
        entries[name] = (0o40755, b"")
    entries["dev/console"] = (0o20600, b"")
    entries["init"] = (0o100755, INIT.encode())
    entries["bin/busybox"] = (0o100755, pathlib.Path(BUSYBOX).read_bytes())
    applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in applets:
        if applet != "busybox":
            entries[f"bin/{applet}"] = (0o120777, b"/bin/busybox")
    # Symbols take three quarters of it.
    stripped = scratch / "valiant"
    subprocess.run(["strip", "-o", stripped, binary], check=True)
    entries["bin/valiant"] = (0o100755, stripped.read_bytes())
    for library in libraries(stripped):
        place = "lib64" if "ld-linux" in library.name else "lib"
        entries[f"{place}/{library.name}"] = (0o100755, library.read_bytes())
    stripped.unlink()
    # Modules with a list of what each needs, which modprobe reads.
    known = {path.stem.replace("-", "_"): path for path in modules.rglob("*.ko")}

    def needed(name: str) -> list[str]:
        """What comes with a module, each before what it needs itself, which is how busybox reads it. It knows no soft dependencies:
        those of what is needed come first."""
        found: list[str] = []
        for need in depends(known[name])[0]:
            for one in (need, *needed(need)):
                found = [other for other in found if other != one] + [one]
        later = [one for need in found for one in depends(known[need])[1] if one in known and one != name]
        return later + [one for one in found if one not in later]

    wanted = {name.replace("-", "_") for name in MODULES}
    wanted.update(*map(needed, wanted))
    lines = []
    for name in sorted(wanted):
        lines.append(f"{known[name].name}: {' '.join(known[need].name for need in needed(name))}")
        entries[f"lib/modules/{release}/{known[name].name}"] = (0o100644, known[name].read_bytes())
    entries[f"lib/modules/{release}/modules.dep"] = (0o100644, ("\n".join(lines) + "\n").encode())
    return entries


def tap(space: Namespace, dev: str, queues: int, mtu: int) -> list[int]:
    """A TAP device in a namespace, by a descriptor for each queue; it vanishes when they are closed."""
    flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (IFF_MULTI_QUEUE if queues > 1 else 0)
    descriptors = []
    with space.inside():
        for _ in range(queues):
            descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", dev.encode(), flags))
            fcntl.ioctl(descriptor, TUNSETVNETHDRSZ, struct.pack("i", 12))
            descriptors.append(descriptor)
    space.ip("link", "set", dev, "mtu", str(mtu), "up")
    return descriptors


class Monitor:
    """QEMU's monitor: commands in JSON (QMP)."""

    def __init__(self, path: pathlib.Path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")
        self.events: list[dict[str, Any]] = []
        json.loads(self.file.readline())
        self("qmp_capabilities")

    def __call__(self, command: str, **arguments: object) -> Any:
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            said = self._next()
            if "error" in said:
                raise LabError(f"QEMU refuses {command}: {said['error']['desc']}")
            if "return" in said:
                return said["return"]

    def _next(self) -> dict[str, Any]:
        line = self.file.readline()
        if not line:
            raise LabError("QEMU has ended")
        said: dict[str, Any] = json.loads(line)
        if "event" in said:
            self.events.append(said)
        return said

    def saw(self, event: str, device: str) -> bool:
        """Whether an event about a device has come."""
        self("query-status")
        return any(e["event"] == event and e["data"].get("device") == device for e in self.events)


class PciGuest:
    """The virtual machine with these NICs. Its hosts get eth0, and keep what they are given when it is booted again."""

    def __init__(self, lab: Lab, name: str, nics: list[Nic], processors: int = 2, nodes: int = 1, iommu: bool = True):
        self.lab, self.name, self.nics = lab, name, nics
        self.processors, self.nodes, self.iommu = processors, nodes, iommu
        self.kernel, _ = kernel()
        self.number = 0
        self.space = lab.namespace(name)
        self.root = lab.dir / f"{name}.cpio"
        self.root.write_bytes(archive(files(the_binary(), lab.dir)))
        for number, nic in enumerate(nics):
            nic.mac = nic.mac or f"52:54:00:00:01:{number:02x}"
            nic.taps = tap(nic.host, "eth0", nic.queues, nic.mtu)
            lab.offload(nic.host, "eth0", False)
        self.process = self.start()

    def nic_words(self, number: int, nic: Nic) -> list[object]:
        taps = ("fd=" if nic.queues == 1 else "fds=") + ":".join(map(str, nic.taps))
        words: list[object] = ["-netdev", f"tap,id=net{number},vhost=off,{taps}"]
        bus = f"node{nic.node}" if nic.node else "pcie.0"
        words += ["-device", f"pcie-root-port,id=port{number},bus={bus},chassis={number + 1},slot={number + 1}"]
        device = ",".join(f"{name}={value}" for name, value in self.device(number).items())
        return [*words, "-device", device]

    def device(self, number: int) -> dict[str, object]:
        """The properties of a NIC, as QEMU has them."""
        nic = self.nics[number]
        found: dict[str, object] = {"driver": KINDS[nic.kind], "id": f"nic{number}", "netdev": f"net{number}", "bus": f"port{number}",
                                    "mac": nic.mac, "romfile": ""}
        if nic.kind == "virtio":
            found["disable-legacy"] = "on"
            if self.iommu:
                found["iommu_platform"] = "on"
            if nic.queues > 1:
                found |= {"mq": "on", "rss": "on", "vectors": 2 * nic.queues + 2}
        return found

    def plug(self, number: int) -> None:
        """Plugs a NIC in again that has been unplugged."""
        on = {"on": True}
        self.monitor("device_add", **{name: on.get(str(value), value) for name, value in self.device(number).items()})

    def start(self) -> Process:
        words: list[object] = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        words += ["-m", MEMORY, "-smp", self.processors]
        kvm = os.environ.get("VALIANT_GUEST") == "kvm"
        words += ["-machine", "q35,kernel-irqchip=split", "-cpu", "max"]
        words += ["-accel", "kvm" if kvm else "tcg,thread=multi"]
        if self.iommu:
            words += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
        for node in range(self.nodes if self.nodes > 1 else 0):
            share = MEMORY // self.nodes
            cpus = f"{node * self.processors // self.nodes}-{(node + 1) * self.processors // self.nodes - 1}"
            words += ["-object", f"memory-backend-ram,id=memory{node},size={share}M"]
            words += ["-numa", f"node,nodeid={node},cpus={cpus},memdev=memory{node}"]
            if node:
                words += ["-device", f"pxb-pcie,id=node{node},bus=pcie.0,numa_node={node},bus_nr={64 * node}"]
        words += ["-kernel", self.kernel, "-initrd", self.root]
        words += ["-append", "console=ttyS0 quiet panic=-1 intel_iommu=on iommu=pt"]
        words += ["-chardev", f"file,id=console,path={self.lab.dir}/{self.name}.console", "-serial", "chardev:console"]
        self.shell = self.lab.dir / f"{self.name}.shell"
        words += ["-chardev", f"socket,id=shell,server=on,wait=off,path={self.shell}"]
        words += ["-device", "virtio-serial-pci,bus=pcie.0,disable-legacy=on", "-device", "virtserialport,chardev=shell,name=shell"]
        monitor = self.lab.dir / f"{self.name}.monitor"
        words += ["-chardev", f"socket,id=monitor,server=on,wait=off,path={monitor}", "-mon", "chardev=monitor,mode=control"]
        for number, nic in enumerate(self.nics):
            words += self.nic_words(number, nic)
        # In a namespace of the lab it also ends with the lab when these tests are killed.
        process = self.space.popen(*words, log=f"{self.name}.log", pass_fds=[tap for nic in self.nics for tap in nic.taps])
        wait_for("QEMU", lambda: self.shell.exists() and monitor.exists() or process.poll() is not None, 10)
        try:
            self.line = socket.socket(socket.AF_UNIX)
            self.line.connect(str(self.shell))
            self.heard = ""
            self.monitor = Monitor(monitor)
        except (OSError, ValueError):
            raise LabError(f"QEMU does not start: {process.log.read_text()}") from None
        return process

    @property
    def console(self) -> str:
        return (self.lab.dir / f"{self.name}.console").read_text(errors="replace")

    def wait_ready(self, seconds: float = 60) -> None:
        try:
            wait_for("the guest", lambda: "the guest is ready" in self.console or self.process.poll() is not None, seconds)
        except LabError:
            raise LabError(f"the guest is not ready within {seconds} s:\n{self.console[-8000:]}") from None
        if self.process.poll() is not None:
            raise LabError(f"the guest has ended with {self.process.returncode}:\n{self.process.log.read_text()}{self.console[-8000:]}")

    def sh(self, command: str, seconds: float = 20, check: bool = True) -> str:
        """Run a command in the guest, on one line; return what it prints."""
        self.number += 1
        self.line.sendall(f"{self.number} {command}\n".encode())
        end = time.monotonic() + seconds
        while not (found := re.search(rf"{END}{self.number} (\d+)\n", self.heard)):
            self.line.settimeout(max(0.01, end - time.monotonic()))
            try:
                more = self.line.recv(65536)
            except TimeoutError:
                raise LabError(f"in the guest, {command}: no end after {seconds} s; so far: {self.heard[-8000:]}") from None
            if not more:
                raise LabError(f"in the guest, {command}: the guest has ended:\n{self.console[-8000:]}")
            self.heard += more.decode(errors="replace")
        said, self.heard = self.heard[:found.start()], self.heard[found.end():]
        # What earlier commands that ran out of time have said.
        said = said.rpartition(END)[2]
        if check and found.group(1) != "0":
            raise LabError(f"in the guest, {command}: {found.group(1)}: {said}")
        return said

    def put(self, path: str, text: str) -> None:
        """Write a file in the guest."""
        self.sh(f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {path}")

    def addresses(self) -> list[str]:
        """Where its NICs are on PCI, in their order; of those that are unplugged there is none."""
        found: dict[str, str] = {}

        def look(devices: list[dict[str, Any]]) -> None:
            for device in devices:
                found[device["qdev_id"]] = f"0000:{device['bus']:02x}:{device['slot']:02x}.{device['function']}"
                look(device.get("pci_bridge", {}).get("devices", []))

        for bus in self.monitor("query-pci"):
            look(bus["devices"])
        present = self.sh("ls /sys/bus/pci/devices").split()
        named = (found.get(f"nic{number}") for number in range(len(self.nics)))
        return [address for address in named if address in present]
