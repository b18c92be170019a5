//! What the system says of processors, caches, memory and NICs.

use crate::link::Link;
use dpdk::Topology;
use dpdk::probe::{PciDevice, pci_devices};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Processors, caches, memory and NICs.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The processor's name.
    pub model: String,
    /// Processors and NUMA nodes.
    pub topology: Topology,
    /// The caches of the first processor that this process may use.
    pub caches: Vec<Cache>,
    /// Bytes of memory that could be used without swapping, within the limits of this process's control
    /// groups.
    pub available: u64,
    /// NICs on PCI.
    pub nics: Vec<Nic>,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u32,
    /// "Data", "Instruction" or "Unified".
    pub kind: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The processors that share it.
    pub shared_by: Vec<usize>,
}

/// A NIC.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    /// The PCI device.
    pub device: PciDevice,
    /// The link to it as it is.
    pub link: Option<Link>,
    /// The best that it could have.
    pub best: Option<Link>,
    /// The rate of its port in Mb/s, if it has one now.
    pub mbps: Option<u64>,
    /// Its firmware, if the kernel's driver has it and knows that.
    pub firmware: Option<String>,
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// Such as "1024K".
fn size(text: &str) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_shl(shift)
}

fn caches(cpu: &Path) -> Vec<Cache> {
    let one = |name: &str| {
        let at = cpu.join("cache").join(name);
        Some(Cache {
            level: number(&at.join("level"))?,
            kind: text(&at.join("type"))?,
            bytes: size(&text(&at.join("size"))?)?,
            shared_by: dpdk::cpu_list(&text(&at.join("shared_cpu_list"))?),
        })
    };
    let entries = fs::read_dir(cpu.join("cache")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut caches: Vec<_> =
        names.filter(|name| name.starts_with("index")).filter_map(|name| one(&name)).collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

fn nics(sys: &Path) -> Vec<Nic> {
    let nic = |device: PciDevice| {
        let at = sys.join("bus/pci/devices").join(&device.address);
        // An interface that is down says -1.
        let mbps = device.interfaces.iter().find_map(|name| {
            number::<i64>(&sys.join("class/net").join(name).join("speed"))?
                .try_into()
                .ok()
                .filter(|&mbps| mbps > 0)
        });
        Nic { link: Link::read(&at, "current"), best: Link::read(&at, "max"), mbps, firmware: None, device }
    };
    pci_devices(sys).into_iter().map(nic).collect()
}

/// What the memory control groups of this process leave of so many bytes, as far as they can be seen: version
/// 2, and version 1.
fn within_limits(sys: &Path, proc: &Path, bytes: u64) -> u64 {
    let groups = text(&proc.join("self/cgroup")).unwrap_or_default();
    let mut left = bytes;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, limit, used) = match controllers {
            "" => ("fs/cgroup", "memory.max", "memory.current"),
            list if list.split(',').any(|one| one == "memory") => {
                ("fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // The group, and those that it is in; in a container what is mounted may be the group itself.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let group = sys.join(mount).join(group);
            // "max" is no number.
            if let (Some(limit), Some(used)) = (number::<u64>(&group.join(limit)), number(&group.join(used)))
            {
                left = left.min(limit.saturating_sub(used));
            }
        }
    }
    left
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        let mut machine = Self::read(Path::new("/sys"), Path::new("/proc"), Topology::here());
        for nic in &mut machine.nics {
            nic.firmware = nic.device.interfaces.iter().find_map(|name| dpdk::firmware(name));
        }
        machine
    }

    /// The same with copies of `/sys` and `/proc`, for tests.
    pub(crate) fn read(sys: &Path, proc: &Path, topology: Topology) -> Self {
        let value = |file: &str, name: &str| {
            let all = text(&proc.join(file))?;
            let line = all.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let available = value("meminfo", "MemAvailable").and_then(|kb| kb.split(' ').next()?.parse().ok());
        let available = available.map_or(0, |kb: u64| kb << 10);
        let first = topology.cores().iter().find(|core| core.allowed).map(|core| core.id);
        Self {
            model: value("cpuinfo", "model name").unwrap_or_else(|| "not known".to_owned()),
            caches: first
                .map(|id| caches(&sys.join(format!("devices/system/cpu/cpu{id}"))))
                .unwrap_or_default(),
            available: within_limits(sys, proc, available),
            nics: nics(sys),
            topology,
        }
    }

    /// The processors that this process may use, by number.
    #[must_use]
    pub fn processors(&self) -> Vec<usize> {
        self.topology.cores().iter().filter(|core| core.allowed).map(|core| core.id).collect()
    }

    /// How many cores these are: hardware threads of one core count once.
    pub(crate) fn cores(&self) -> usize {
        let allowed = self.processors();
        let is_first = |id: &usize| {
            let core = self.topology.cores().iter().find(|core| core.id == *id);
            core.is_none_or(|core| core.siblings.iter().find(|other| allowed.contains(other)) == Some(id))
        };
        allowed.iter().filter(|id| is_first(id)).count()
    }

    /// The NUMA nodes, and the processors of each that this process may use.
    pub(crate) fn nodes(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut nodes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for core in self.topology.cores().iter().filter(|core| core.allowed) {
            nodes.entry(core.node.unwrap_or_default()).or_default().push(core.id);
        }
        nodes
    }

    /// How far a node is from each of them, 10 for itself (ACPI 6.4, section 5.2.17).
    pub(crate) fn distances(&self, from: usize) -> Vec<Option<u32>> {
        self.nodes().into_keys().map(|to| self.topology.distance(from, to)).collect()
    }

    /// The last cache of the first processor.
    pub(crate) fn last_cache(&self) -> Option<&Cache> {
        self.caches.iter().max_by_key(|cache| cache.level)
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let caches = self.caches.iter().map(|cache| {
            json!({"level": cache.level, "kind": cache.kind, "bytes": cache.bytes, "shared_by": cache.shared_by})
        });
        let nics = self.nics.iter().map(|nic| {
            json!({
                "address": nic.device.address, "vendor": nic.device.id.0, "device": nic.device.id.1,
                "interfaces": nic.device.interfaces, "driver": nic.device.driver, "firmware": nic.firmware, "mbps": nic.mbps,
                "link": nic.link.map(Link::json), "best_link": nic.best.map(Link::json),
                "most_frames_per_second": nic.link.map(|link| json!({"60": link.frames(60), "1514": link.frames(1514)})),
            })
        });
        let nodes = self.nodes().into_iter().map(|(node, processors)| {
            json!({"node": node, "processors": processors, "distances": self.distances(node)})
        });
        json!({
            "model": self.model, "processors": self.processors(), "cores": self.cores(),
            "caches": caches.collect::<Vec<_>>(), "nodes": nodes.collect::<Vec<_>>(),
            "available_bytes": self.available, "nics": nics.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn file(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// Two NUMA nodes with two cores of two threads each, with caches and two NICs.
    pub(crate) fn server(name: &str) -> Machine {
        let machine = crate::simulated::Machine::new(name, "");
        let sys = &machine.root;
        for (index, level, kind, size, shared) in [
            (0, 1, "Data", "48K", "0,4"),
            (1, 1, "Instruction", "32K", "0,4"),
            (2, 2, "Unified", "2M", "0,4"),
            (3, 3, "Unified", "36864K", "0-1,4-5"),
            (4, 4, "Unified", "many", "0"),
        ] {
            let at = format!("devices/system/cpu/cpu0/cache/index{index}");
            let level = level.to_string();
            for (name, text) in
                [("level", level.as_str()), ("type", kind), ("size", size), ("shared_cpu_list", shared)]
            {
                file(sys, &format!("{at}/{name}"), text);
            }
        }
        let nic = "bus/pci/devices/0000:81:00.0";
        for (name, text) in [
            ("class", "0x020000"),
            ("vendor", "0x8086"),
            ("device", "0x1592"),
            ("current_link_speed", "8.0 GT/s PCIe"),
            ("current_link_width", "8"),
            ("max_link_speed", "16.0 GT/s PCIe"),
            ("max_link_width", "16"),
            ("net/eth1/operstate", "up"),
        ] {
            file(sys, &format!("{nic}/{name}"), text);
        }
        symlink("../../../../bus/pci/drivers/ice", sys.join(nic).join("driver")).unwrap();
        file(sys, "class/net/eth1/speed", "100000");
        let down = "bus/pci/devices/0000:01:00.0";
        for (name, text) in
            [("class", "0x020000"), ("current_link_speed", "Unknown"), ("net/eth0/operstate", "down")]
        {
            file(sys, &format!("{down}/{name}"), text);
        }
        file(sys, "class/net/eth0/speed", "-1");
        let proc = sys.join("proc");
        file(&proc, "meminfo", "MemTotal:       4096 kB\nMemAvailable:   1024 kB");
        file(&proc, "cpuinfo", "processor\t: 0\nmodel name\t: A Processor 9000");
        Machine::read(sys, &proc, Topology::at(sys))
    }

    #[test]
    fn a_server_with_two_nodes_and_nics_is_read() {
        let machine = server("bench");
        let said = (machine.model.as_str(), machine.processors().len(), machine.cores(), machine.available);
        assert_eq!(said, ("A Processor 9000", 8, 4, 1 << 20));
        let caches: Vec<_> = machine.caches.iter().map(|c| (c.level, c.kind.as_str(), c.bytes)).collect();
        let wanted = [
            (1, "Data", 48 << 10),
            (1, "Instruction", 32 << 10),
            (2, "Unified", 2 << 20),
            (3, "Unified", 36 << 20),
        ];
        assert_eq!(caches, wanted);
        assert_eq!(machine.last_cache().map(|cache| &cache.shared_by[..]), Some(&[0, 1, 4, 5][..]));
        assert_eq!(machine.nodes(), BTreeMap::from([(0, vec![0, 1, 4, 5]), (1, vec![2, 3, 6, 7])]));
        assert_eq!(machine.distances(1), [Some(32), Some(10)]);
        let [down, nic] = &machine.nics[..] else { panic!("{:?}", machine.nics) };
        assert_eq!(
            (&down.device.interfaces[..], down.link, down.best, down.mbps),
            (&["eth0".to_owned()][..], None, None, None)
        );
        assert_eq!((nic.device.driver.as_deref(), nic.device.id), (Some("ice"), (0x8086, 0x1592)));
        assert_eq!(nic.link, Some(Link { gigatransfers: 8.0, lanes: 8 }));
        assert_eq!((nic.best.map(|link| link.lanes), nic.mbps), (Some(16), Some(100_000)));
        let json = machine.json();
        assert_eq!(
            (&json["nodes"][1]["distances"][0], &json["nics"][1]["link"]["lanes"]),
            (&json!(32), &json!(8))
        );
    }

    #[test]
    fn nothing_is_there() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::read(root.path(), root.path(), Topology::at(root.path()));
        assert_eq!((machine.model.as_str(), machine.cores(), machine.caches.len()), ("not known", 0, 0));
        assert!(machine.nics.is_empty() && machine.nodes().is_empty() && machine.last_cache().is_none());
    }

    #[test]
    fn control_groups_limit_memory() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(within_limits(&root.join("sys"), &root.join("proc"), 1000), 1000);
        file(root, "proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/box/a\n0::/edge/b");
        file(root, "sys/fs/cgroup/edge/b/memory.max", "max");
        file(root, "sys/fs/cgroup/edge/b/memory.current", "1");
        assert_eq!(within_limits(&root.join("sys"), &root.join("proc"), 1000), 1000);
        file(root, "sys/fs/cgroup/edge/memory.max", "900");
        file(root, "sys/fs/cgroup/edge/memory.current", "100");
        assert_eq!(within_limits(&root.join("sys"), &root.join("proc"), 1000), 800);
        file(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "300");
        file(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "301");
        assert_eq!(within_limits(&root.join("sys"), &root.join("proc"), 1000), 0);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            ["1", "32K", "3M", "1G"].map(size),
            [Some(1), Some(32 << 10), Some(3 << 20), Some(1 << 30)]
        );
        assert_eq!(["", "K", "1T", "-1K"].map(size), [None; 4]);
    }
}
