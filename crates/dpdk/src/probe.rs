//! What this machine provides for a router, and the commands that fix what is missing. Starts nothing and
//! changes nothing, except [`Machine::try_crypto`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::crypto::{self, CryptoAbility, CryptoDevice};
use crate::eal::{HugepageSize, dpdk_version, hugepage_sizes_in, numa_nodes};
use crate::ingress::Ingress;
use crate::netdev::{Interface, interfaces};
use crate::open::{VFIO_IOMMU, af_xdp_fits, af_xdp_missing, binding, prefers_sockets, vfio_has_iommu};
use crate::status::PortKind;
use crate::topology::{Topology, text};

pub use crate::topology::Core;

/// All results.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The DPDK that this was built against.
    pub dpdk_version: String,
    /// Where its drivers are; `None` when they are in this binary, or were not found.
    pub driver_directory: Option<PathBuf>,
    /// Its network drivers, by the names that devargs begin with (`net_af_xdp`).
    pub drivers: Vec<String>,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name.
    pub cpu_model: String,
    /// Relevant processor features, and whether the processor has them.
    pub cpu_features: Vec<(&'static str, bool)>,
    /// Logical processors.
    pub cores: Vec<Core>,
    /// NUMA nodes.
    pub nodes: Vec<Node>,
    /// The rights of this process.
    pub rights: Rights,
    /// Why AF_XDP is not available; `None` if it is.
    pub af_xdp_missing: Option<String>,
    /// Whether TUN and TAP devices can be opened.
    pub tun: bool,
    /// Whether the vfio driver is loaded.
    pub vfio: bool,
    /// Groups of devices that the IOMMU keeps apart; 0 without one.
    pub iommu_groups: usize,
    /// Linux interfaces in this network namespace.
    pub interfaces: Vec<InterfacePort>,
    /// Network devices on PCI.
    pub pci: Vec<PciDevice>,
    /// Crypto drivers and devices.
    pub crypto: Vec<Crypto>,
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: usize,
    /// Its memory, in MB; 0 when unknown.
    pub memory_mb: usize,
    /// Its hugepages.
    pub hugepages: Vec<HugepageSize>,
}

/// The rights of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Whether it is root.
    pub root: bool,
    /// `CAP_NET_ADMIN`: change interfaces, load XDP programs.
    pub net_admin: bool,
    /// `CAP_NET_RAW`: packet and XDP sockets.
    pub net_raw: bool,
    /// `CAP_IPC_LOCK`: lock packet buffers in memory.
    pub ipc_lock: bool,
    /// `CAP_BPF` or `CAP_SYS_ADMIN`: load programs into the kernel.
    pub bpf: bool,
    /// `CAP_SYS_NICE`: real-time priority and memory placement.
    pub sys_nice: bool,
    /// `CAP_SYS_ADMIN`: go into network namespaces.
    pub sys_admin: bool,
    /// Bytes that it may lock in memory; `None` is any number.
    pub memlock_bytes: Option<u64>,
}

/// A Linux interface, and the port that it would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfacePort {
    /// The interface.
    pub interface: Interface,
    /// How a port would open it; `None`: not at all.
    pub kind: Option<PortKind>,
    /// The reason for that.
    pub reason: String,
}

/// A network device on PCI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciDevice {
    /// Its address, with the domain.
    pub address: String,
    /// Vendor and device numbers.
    pub id: (u16, u16),
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// Its NUMA node.
    pub node: Option<usize>,
    /// The Linux interfaces that it is.
    pub interfaces: Vec<String>,
    /// Whether DPDK can open it by its address as it is.
    pub ready: bool,
    /// The command that makes that possible; empty if it is.
    pub fix: String,
}

/// A crypto driver, or a device that DPDK has found. What it can do shows when it is opened:
/// [`Machine::try_crypto`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crypto {
    /// What `DEVICE` of IPsecSAD takes; for drivers of hardware, the name of their library (`crypto_mlx5`).
    pub name: String,
    /// Whether its driver is installed.
    pub installed: bool,
    /// Whether it is a driver of hardware that is not here, or that DPDK has not been given.
    pub idle: bool,
    /// The result of opening it; `None` if that was not tried.
    pub tried: Option<Result<CryptoAbility, String>>,
    /// The command that installs it; empty when it is.
    pub fix: String,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Valiant cannot run.
    Fatal,
    /// A feature is not available.
    Missing,
    /// It works, but slower than possible.
    Slow,
}

/// Something missing, and the command that fixes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is missing and what that costs.
    pub what: String,
    /// The command.
    pub fix: String,
}

impl Machine {
    /// Examines this machine, as this process sees it.
    pub fn probe() -> Machine {
        let linked: Vec<String> = dpdk_sys::LINKED_DRIVERS.split_whitespace().map(str::to_owned).collect();
        let driver_directory = if linked.is_empty() { driver_directory() } else { None };
        let all = driver_directory.as_deref().map_or(linked, drivers_in);
        let drivers: Vec<_> = all.iter().filter(|name| name.starts_with("net_")).cloned().collect();
        let rights = Rights::probe();
        let af_xdp_missing = af_xdp_problem(&drivers, rights);
        let interfaces =
            interfaces().into_iter().map(|interface| port_of(interface, &af_xdp_missing, rights)).collect();
        let mut machine = Machine {
            dpdk_version: dpdk_version(),
            driver_directory,
            drivers,
            kernel: text("/proc/sys/kernel/osrelease"),
            cpu_model: cpu_model(),
            cpu_features: cpu_features(),
            cores: Topology::here().cores().to_vec(),
            nodes: nodes(),
            rights,
            af_xdp_missing,
            tun: Path::new("/dev/net/tun").exists(),
            vfio: Path::new("/sys/bus/pci/drivers/vfio-pci").exists(),
            iommu_groups: count("/sys/kernel/iommu_groups"),
            interfaces,
            pci: pci_devices(Path::new("/sys")),
            crypto: crypto_in(&all),
            findings: Vec::new(),
        };
        machine.findings = machine.judge();
        machine
    }

    /// Opens every crypto device that can be had, one after the other, and closes it again: what it can do is
    /// known only then. DPDK's environment must run.
    pub fn try_crypto(&mut self) {
        for device in crypto::devices() {
            self.crypto.retain(|known| known.name != device.name);
            self.crypto.push(Crypto {
                name: device.name,
                installed: true,
                idle: false,
                tried: None,
                fix: String::new(),
            });
        }
        for known in self.crypto.iter_mut().filter(|known| known.installed && !known.idle) {
            known.tried = Some(CryptoDevice::try_out(&known.name).map_err(|error| error.to_string()));
        }
    }

    fn judge(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut find = |severity, what: String, fix: &str| {
            findings.push(Finding { severity, what, fix: fix.to_owned() });
        };
        if self.drivers.is_empty() {
            find(
                Severity::Fatal,
                "DPDK's drivers were not found: no port can be opened".to_owned(),
                "apt-get install dpdk",
            );
        }
        for &(feature, there) in &self.cpu_features {
            if !there && BASELINE.contains(&feature) {
                find(
                    Severity::Fatal,
                    format!("the processor has no {feature}: Valiant needs x86-64-v2"),
                    "use another machine",
                );
            }
        }
        let Rights { net_admin, net_raw, bpf, ipc_lock, .. } = self.rights;
        if !(net_admin && net_raw) {
            find(
                Severity::Missing,
                "no CAP_NET_ADMIN or no CAP_NET_RAW: Linux interfaces cannot be ports".to_owned(),
                "run it with sudo, or: setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_bpf,cap_sys_admin+ep $(command -v valiant)",
            );
        } else if let Some(reason) = &self.af_xdp_missing {
            let fix = if self.drivers.iter().all(|driver| driver != "net_af_xdp") {
                "apt-get install librte-net-af-xdp23"
            } else if !bpf {
                "setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_bpf,cap_sys_admin+ep $(command -v valiant)"
            } else {
                "boot a kernel with CONFIG_XDP_SOCKETS=y"
            };
            find(
                Severity::Slow,
                format!("no AF_XDP, so Linux interfaces go through AF_PACKET: {reason}"),
                fix,
            );
        }
        if !ipc_lock && self.rights.memlock_bytes.is_some_and(|bytes| bytes < 64 << 20) {
            find(
                Severity::Missing,
                "too little memory may be locked for AF_XDP (and for hugepages behind VFIO)".to_owned(),
                "ulimit -l unlimited",
            );
        }
        if !self.tun {
            let what = "no /dev/net/tun: TUN and TAP devices cannot be used";
            find(Severity::Missing, what.to_owned(), "modprobe tun");
        }
        let pages = |f: fn(&HugepageSize) -> usize| -> usize {
            self.nodes
                .iter()
                .flat_map(|node| &node.hugepages)
                .map(|size| (f(size) * (size.page_bytes >> 10)) >> 10)
                .sum()
        };
        let (total, free) = (pages(|size| size.total), pages(|size| size.free));
        if free < 128 {
            let have_mb = if total == 0 {
                "no hugepages".to_owned()
            } else {
                format!("{free} of {total} MB of hugepages free")
            };
            let have = self.nodes.iter().flat_map(|node| &node.hugepages);
            let two_mb: usize = have.filter(|size| size.page_bytes == 2 << 20).map(|size| size.total).sum();
            find(
                Severity::Slow,
                format!("{have_mb}: packet buffers are in 4 KB pages, which costs TLB misses"),
                &format!("sysctl -w vm.nr_hugepages={}", two_mb + 256),
            );
        }
        if total > 0 && !has_hugetlbfs(&fs::read_to_string("/proc/mounts").unwrap_or_default()) {
            find(
                Severity::Slow,
                format!(
                    "{total} MB of hugepages are reserved and not mounted: Valiant uses them, but DPDK's own programs \
                     (testpmd, l3fwd) do not find them"
                ),
                "mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages",
            );
        }
        let wanting: Vec<&PciDevice> = self.pci.iter().filter(|device| !device.ready).collect();
        if !wanting.is_empty() {
            let addresses: Vec<&str> = wanting.iter().map(|device| device.address.as_str()).collect();
            if !self.vfio {
                find(
                    Severity::Slow,
                    format!(
                        "vfio is not loaded: {} can be ports only as Linux interfaces",
                        addresses.join(", ")
                    ),
                    "modprobe vfio-pci",
                );
            }
            if self.iommu_groups == 0 {
                let loaded = Path::new("/sys/module/vfio").exists();
                let (what, fix) = unsafe_mode(loaded, NOIOMMU, Path::new(NOIOMMU).exists());
                find(Severity::Slow, what, &fix);
            }
        }
        if self.vfio && !vfio_has_iommu() {
            find(
                Severity::Missing,
                "vfio has no driver for the IOMMU: no PCI device can be opened".to_owned(),
                VFIO_IOMMU,
            );
        }
        let missing: Vec<&Crypto> = self.crypto.iter().filter(|driver| !driver.installed).collect();
        if let Some(first) = missing.first() {
            let names: Vec<&str> = missing.iter().map(|driver| driver.name.as_str()).collect();
            let (severity, what) = if missing.len() == crypto::SOFTWARE.len() {
                (Severity::Missing, "IPsec has no crypto device".to_owned())
            } else {
                (Severity::Slow, "IPsec has fewer crypto devices to choose from".to_owned())
            };
            find(severity, format!("no {}: {what}", names.join(", no ")), &first.fix);
        }
        findings.sort_by_key(|finding| finding.severity);
        findings
    }
}

impl Rights {
    /// The rights of this process.
    pub fn probe() -> Rights {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
        let has = |bit: u32| effective >> bit & 1 == 1;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel fills the place; `geteuid` cannot fail.
        let (limited, root) =
            unsafe { (libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) == 0, libc::geteuid() == 0) };
        // The numbers are those of linux/capability.h.
        Rights {
            root,
            net_admin: has(12),
            net_raw: has(13),
            ipc_lock: has(14),
            bpf: has(39) || has(21),
            sys_nice: has(23),
            sys_admin: has(21),
            memlock_bytes: (limited && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur),
        }
    }
}

fn af_xdp_problem(drivers: &[String], rights: Rights) -> Option<String> {
    if drivers.iter().all(|driver| driver != "net_af_xdp") {
        return Some("DPDK's AF_XDP driver is not installed".to_owned());
    }
    if !rights.bpf {
        return Some("no right to load its program into the kernel (CAP_BPF)".to_owned());
    }
    af_xdp_missing()
}

/// How vfio's mode without an IOMMU is switched on once it is loaded; not there in kernels without that mode.
const NOIOMMU: &str = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";

/// What is said of a machine without an IOMMU, and what to do.
fn unsafe_mode(loaded: bool, switch: &str, there: bool) -> (String, String) {
    const BOOT: &str = "boot with intel_iommu=on iommu=pt, and switch the IOMMU on in the firmware";
    const ONLY_UNSAFE: &str = "no IOMMU: DPDK takes PCI devices only in vfio's unsafe mode";
    match (loaded, there) {
        (true, false) => (
            "no IOMMU, and a kernel without vfio's unsafe mode: DPDK takes no PCI device".to_owned(),
            BOOT.to_owned(),
        ),
        (true, true) => (ONLY_UNSAFE.to_owned(), format!("echo 1 > {switch} # or {BOOT}")),
        (false, _) => {
            (ONLY_UNSAFE.to_owned(), format!("modprobe vfio enable_unsafe_noiommu_mode=1 # or {BOOT}"))
        }
    }
}

/// Whether hugepages are mounted, by the text of `/proc/mounts`.
fn has_hugetlbfs(mounts: &str) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(2) == Some("hugetlbfs"))
}

fn port_of(interface: Interface, af_xdp_missing: &Option<String>, rights: Rights) -> InterfacePort {
    let (kind, reason) = if !(rights.net_admin && rights.net_raw) {
        (None, "no CAP_NET_ADMIN or no CAP_NET_RAW".to_owned())
    } else if let Some(missing) = af_xdp_missing {
        (Some(PortKind::AfPacket), missing.clone())
    } else if let Err(reason) = af_xdp_fits(&interface, interface.mtu) {
        (Some(PortKind::AfPacket), reason)
    } else if let Some(why) = prefers_sockets(&interface).filter(|_| Ingress::is_available()) {
        (Some(PortKind::AfPacket), why.to_owned())
    } else {
        (Some(PortKind::AfXdp), String::new())
    };
    InterfacePort { interface, kind, reason }
}

fn count(directory: &str) -> usize {
    fs::read_dir(directory).map_or(0, |entries| entries.count())
}

fn names_in(directory: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Where EAL looks for drivers: `dpdk/pmds-ABI` in a library directory.
fn driver_directory() -> Option<PathBuf> {
    let libraries = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/local/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/local/lib64",
        "/usr/lib",
    ];
    let directories = libraries.iter().flat_map(|library| {
        let base = Path::new(library).join("dpdk");
        names_in(&base).into_iter().filter(|name| name.starts_with("pmds-")).map(move |name| base.join(name))
    });
    directories.max()
}

/// The drivers of ports and crypto devices, as `net_null`.
fn drivers_in(directory: &Path) -> Vec<String> {
    let mut drivers: Vec<String> = (names_in(directory).iter())
        .filter_map(|name| Some(name.strip_prefix("librte_")?.split_once(".so")?.0.to_owned()))
        .filter(|name| name.starts_with("net_") || name.starts_with("crypto_"))
        .collect();
    drivers.dedup();
    drivers
}

/// The drivers in software, and those of hardware that are installed.
fn crypto_in(drivers: &[String]) -> Vec<Crypto> {
    let installed: Vec<&str> = drivers.iter().filter_map(|name| name.strip_prefix("crypto_")).collect();
    let software = crypto::SOFTWARE.iter().map(|name| {
        let library = if name.starts_with("crypto_aesni") { "ipsec_mb" } else { "openssl" };
        let installed = installed.contains(&library);
        let fix =
            if installed { String::new() } else { format!("apt-get install {}", crypto::package(name)) };
        Crypto { name: (*name).to_owned(), installed, idle: false, tried: None, fix }
    });
    // Those that encrypt nothing, and the two libraries above, which have several drivers.
    let others = ["ipsec_mb", "openssl", "null", "scheduler"];
    let hardware = installed.iter().filter(|library| !others.contains(library));
    let hardware = hardware.map(|library| Crypto {
        name: format!("crypto_{library}"),
        installed: true,
        idle: true,
        tried: None,
        fix: String::new(),
    });
    software.chain(hardware).collect()
}

fn cpu_model() -> String {
    let info = text("/proc/cpuinfo");
    let model = info.lines().find(|line| line.starts_with("model name"));
    model.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, model)| model.trim().to_owned())
}

/// What x86-64-v2 adds.
const BASELINE: [&str; 4] = ["ssse3", "sse4.1", "sse4.2", "popcnt"];

fn cpu_features() -> Vec<(&'static str, bool)> {
    macro_rules! features {
        ($($name:tt),*) => { vec![$(($name, std::arch::is_x86_feature_detected!($name))),*] };
    }
    let mut features = features!(
        "ssse3",
        "sse4.1",
        "sse4.2",
        "popcnt",
        "avx2",
        "bmi2",
        "avx512f",
        "avx512bw",
        "aes",
        "vaes",
        "pclmulqdq",
        "vpclmulqdq",
        "sha",
        "rdrand"
    );
    let info = text("/proc/cpuinfo");
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    for name in ["constant_tsc", "nonstop_tsc", "pdpe1gb"] {
        features.push((name, flags.split_whitespace().any(|flag| flag == name)));
    }
    features
}

fn nodes() -> Vec<Node> {
    let nodes = numa_nodes();
    if nodes.is_empty() {
        let hugepages = hugepage_sizes_in(Path::new("/sys/kernel/mm/hugepages"));
        return vec![Node { id: 0, memory_mb: 0, hugepages }];
    }
    (nodes.into_iter())
        .map(|id| {
            let base = PathBuf::from(format!("/sys/devices/system/node/node{id}"));
            let info = text(base.join("meminfo"));
            let total = info.lines().find(|line| line.contains("MemTotal:"));
            let kilobytes: usize =
                total.and_then(|line| line.split_whitespace().rev().nth(1)?.parse().ok()).unwrap_or(0);
            Node { id, memory_mb: kilobytes >> 10, hugepages: hugepage_sizes_in(&base.join("hugepages")) }
        })
        .collect()
}

/// The network devices on PCI of the machine that a copy of `/sys` describes.
#[must_use]
pub fn pci_devices(sys: &Path) -> Vec<PciDevice> {
    let base = &sys.join("bus/pci/devices");
    (names_in(base).into_iter())
        .filter(|address| text(base.join(address).join("class")).starts_with("0x02"))
        .map(|address| {
            let device = base.join(&address);
            let number = |file: &str| {
                u16::from_str_radix(text(device.join(file)).trim_start_matches("0x"), 16).unwrap_or(0)
            };
            let driver = link_name(&device.join("driver")).ok();
            // These drivers share the device with DPDK; the others give it up.
            let shared = ["mlx4_core", "mlx5_core", "mana"];
            let given = ["vfio-pci", "uio_pci_generic", "igb_uio"];
            let ready = driver.as_deref().is_some_and(|name| shared.contains(&name) || given.contains(&name));
            let mut interfaces = names_in(device.join("net"));
            for child in names_in(&device).iter().filter(|name| name.starts_with("virtio")) {
                interfaces.extend(names_in(device.join(child).join("net")));
            }
            let fix = if ready { String::new() } else { binding(&address, driver.is_some()) };
            PciDevice {
                id: (number("vendor"), number("device")),
                node: text(device.join("numa_node")).parse().ok(),
                address,
                driver,
                interfaces,
                ready,
                fix,
            }
        })
        .collect()
}

fn link_name(path: &Path) -> io::Result<String> {
    Ok(fs::read_link(path)?.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "makes a directory")]
    fn crypto_drivers_that_are_missing_have_their_package() {
        let directory = std::env::temp_dir().join(format!("valiant-probe-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for name in [
            "librte_crypto_openssl.so.23",
            "librte_crypto_mlx5.so",
            "librte_crypto_mlx5.so.23",
            "librte_net_null.so",
        ] {
            fs::write(directory.join(name), "").unwrap();
        }
        let found = crypto_in(&drivers_in(&directory));
        fs::remove_dir_all(&directory).unwrap();
        let known: Vec<_> =
            found.iter().map(|c| (c.name.as_str(), c.installed, c.idle, c.fix.as_str())).collect();
        let package = "apt-get install librte-crypto-ipsec-mb23";
        assert_eq!(
            known,
            [
                ("crypto_aesni_gcm", false, false, package),
                ("crypto_aesni_mb", false, false, package),
                ("crypto_openssl", true, false, ""),
                ("crypto_mlx5", true, true, ""),
            ]
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc and /sys, and asks the kernel")]
    fn this_machine_has_a_processor_and_a_loopback() {
        let machine = Machine::probe();
        assert!(machine.cores.iter().any(|core| core.allowed && core.siblings.contains(&core.id)));
        assert!(machine.interfaces.iter().any(|port| port.interface.loopback));
        assert!(
            machine.cpu_features.iter().filter(|(name, _)| BASELINE.contains(name)).all(|&(_, there)| there)
        );
        assert!(machine.drivers.contains(&"net_null".to_owned()), "{:?}", machine.driver_directory);
        let crypto = |name: &str| machine.crypto.iter().find(|driver| driver.name == name);
        let software = crypto::SOFTWARE.map(|name| crypto(name).is_some_and(|driver| !driver.idle));
        assert_eq!(software, [true; 3], "{:?}", machine.crypto);
        assert!(machine.crypto.iter().all(|driver| driver.installed == driver.fix.is_empty()));
        assert!(machine.findings.is_sorted_by_key(|finding| finding.severity));
        assert!(machine.findings.iter().all(|finding| !finding.fix.is_empty()));
    }

    #[test]
    fn a_machine_without_iommu_is_told_what_its_kernel_can_do() {
        let (_, before) = unsafe_mode(false, NOIOMMU, false);
        assert!(before.starts_with("modprobe vfio enable_unsafe_noiommu_mode=1 # or boot"), "{before}");
        let (_, loaded) = unsafe_mode(true, NOIOMMU, true);
        assert!(loaded.starts_with(&format!("echo 1 > {NOIOMMU} # or boot")), "{loaded}");
        let (what, boot) = unsafe_mode(true, NOIOMMU, false);
        assert!(what.ends_with("takes no PCI device") && boot.starts_with("boot"), "{what}: {boot}");
    }

    #[test]
    fn a_device_is_bound_by_what_the_kernel_has() {
        let device = "/sys/bus/pci/devices/0000:03:00.0";
        let first = format!("modprobe vfio-pci && echo vfio-pci > {device}/driver_override");
        let last = "echo 0000:03:00.0 > /sys/bus/pci/drivers_probe";
        assert_eq!(binding("0000:03:00.0", false), format!("{first} && {last}"));
        let unbind = format!("echo 0000:03:00.0 > {device}/driver/unbind");
        assert_eq!(binding("0000:03:00.0", true), format!("{first} && {unbind} && {last}"));
    }

    #[test]
    fn mounted_hugepages_are_seen() {
        let other = "proc /proc proc rw 0 0\ntmpfs /mnt/hugetlbfs tmpfs rw 0 0\n";
        assert!(!has_hugetlbfs(other));
        assert!(has_hugetlbfs(&format!(
            "{other}none /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n"
        )));
    }
}
