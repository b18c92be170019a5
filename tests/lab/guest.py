"""A virtual machine with Debian's cloud kernel and busybox, which finds its interfaces by vhost-user."""

import gzip
import os
import pathlib
import shutil
import subprocess
import tempfile

from lab import ROOT, Lab, LabError, Process, wait_for

QEMU, BUSYBOX = "qemu-system-x86_64", "/bin/busybox"
META = "linux-image-cloud-amd64"
# What the kernel has as modules, in the order in which they are loaded.
MODULES = (
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
)
INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
for module in {modules}; do /bin/busybox insmod /modules/$module.ko; done
/bin/busybox ip link set lo up
{script}
echo the guest is ready
while true; do /bin/busybox sleep 1000; done
"""
MEMORY = 192


class NoGuest(Exception):
    """There can be no virtual machine here."""


def kernel() -> tuple[pathlib.Path, pathlib.Path]:
    """Debian's cloud kernel and its modules, not installed: unpacked below target/."""
    if not shutil.which(QEMU) or not os.access(BUSYBOX, os.X_OK):
        raise NoGuest("QEMU or busybox is not installed (apt install qemu-system-x86 busybox-static)")
    place = ROOT / "target" / "guest"
    if not any(place.glob("boot/vmlinuz-*")):
        place.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as name:
            try:
                depends = subprocess.run(["apt-cache", "depends", META], capture_output=True, text=True, check=True).stdout
                package = next(line.split()[1] for line in depends.splitlines() if line.strip().startswith("Depends: linux-image-"))
                subprocess.run(["apt-get", "-q", "download", package], cwd=name, capture_output=True, check=True, timeout=120)
            except (OSError, subprocess.SubprocessError, StopIteration):
                raise NoGuest(f"{META} cannot be downloaded") from None
            archive = next(pathlib.Path(name).glob("*.deb"))
            subprocess.run(["dpkg-deb", "-x", archive, f"{name}/root"], check=True)
            # Whole or not at all, also if it is interrupted.
            shutil.rmtree(place, ignore_errors=True)
            (pathlib.Path(name) / "root").rename(place)
    return next(place.glob("boot/vmlinuz-*")), next(place.glob("lib/modules/*/kernel"))


def archive(entries: dict[str, tuple[int, bytes]]) -> bytes:
    """An archive of the form newc (cpio(5)): path, mode, content."""
    out = bytearray()
    for number, (path, (mode, data)) in enumerate([*entries.items(), ("TRAILER!!!", (0, b""))], 1):
        name = path.encode() + b"\0"
        # inode, mode, user, group, links, time, length, device, the device that it is, length of the name, checksum
        console = (5, 1) if path == "dev/console" else (0, 0)
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *console, len(name), 0)
        for part in (b"070701" + b"".join(b"%08X" % field for field in fields) + name, data):
            out += part + bytes(-(len(out) + len(part)) % 4)
    return bytes(out)


class Guest:
    """The virtual machine; `interfaces` are the sockets of its eth0, eth1, ... and their Ethernet addresses."""

    def __init__(self, lab: Lab, name: str, interfaces: list[tuple[pathlib.Path, str]], script: str):
        self.lab, self.name, self.interfaces = lab, name, interfaces
        self.kernel, modules = kernel()
        names = " ".join(module.rsplit("/", 1)[1] for module in MODULES)
        entries = dict.fromkeys(("bin", "dev", "modules", "proc", "sys"), (0o40755, b""))
        entries["dev/console"] = (0o20600, b"")
        entries["bin/busybox"] = (0o100755, pathlib.Path(BUSYBOX).read_bytes())
        entries["init"] = (0o100755, INIT.format(modules=names, script=script).encode())
        for module in MODULES:
            entries[f"modules/{module.rsplit('/', 1)[1]}.ko"] = (0o100644, (modules / f"{module}.ko").read_bytes())
        self.root = lab.dir / f"{name}.cpio.gz"
        self.root.write_bytes(gzip.compress(archive(entries), 1))
        self.process = self.start()

    def start(self) -> Process:
        """Boots it: by software, since KVM is not to be had, or does not work, in many virtual machines; VALIANT_GUEST=kvm has it used."""
        words: list[object] = [QEMU, "-m", MEMORY, "-nographic", "-no-reboot", "-nic", "none", "-kernel", self.kernel, "-initrd", self.root]
        words += ["-object", f"memory-backend-memfd,id=memory,size={MEMORY}M,share=on", "-machine", "memory-backend=memory"]
        kvm = os.environ.get("VALIANT_GUEST") == "kvm"
        words += ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg", "-cpu", "max"]
        words += ["-append", "console=ttyS0 quiet panic=-1"]
        for number, (socket, mac) in enumerate(self.interfaces):
            words += ["-chardev", f"socket,id=socket{number},path={socket}", "-netdev", f"vhost-user,id=net{number},chardev=socket{number}"]
            # Without KVM, QEMU 7.2 fails when a device with interrupt vectors is set up for vhost-user.
            words += ["-device", f"virtio-net-pci,netdev=net{number},mac={mac},romfile=" + ("" if kvm else ",vectors=0")]
        return self.lab.popen(*words, log=f"{self.name}.log")

    def wait_ready(self) -> None:
        def said() -> str:
            return self.process.log.read_text(errors="replace")

        try:
            wait_for("the guest", lambda: "the guest is ready" in said() or self.process.poll() is not None, 60)
        except LabError:
            raise LabError(f"the guest is not ready within 60 s:\n{said()[-8000:]}") from None
        if self.process.poll() is not None:
            raise LabError(f"the guest has ended with {self.process.returncode}:\n{said()[-8000:]}")
