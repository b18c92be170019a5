//! What the system says of processors, caches and network cards.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Processors, caches, memory and network cards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The processor's name.
    pub model: String,
    /// The processors that this process may use, by number.
    pub processors: Vec<usize>,
    /// How many cores these are: hardware threads of one core count once.
    pub cores: usize,
    /// The caches of the first of them.
    pub caches: Vec<Cache>,
    /// NUMA nodes: the processors of each.
    pub nodes: Vec<Vec<usize>>,
    /// How far each node is from each, 10 for itself (ACPI 6.4, section 5.2.17).
    pub distances: Vec<Vec<u32>>,
    /// Bytes of memory that could be used without swapping, within the limits of this process's control
    /// groups.
    pub available: u64,
    /// Network cards on PCI.
    pub cards: Vec<Card>,
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

/// A network card.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Its PCI address.
    pub address: String,
    /// The Linux interface, if a driver of the kernel has it.
    pub interface: Option<String>,
    /// The driver that has it.
    pub driver: Option<String>,
    /// Vendor and device, as PCI numbers them.
    pub kind: String,
    /// The link to the card as it is.
    pub link: Option<Link>,
    /// The best that the card could have.
    pub best: Option<Link>,
    /// The rate of its port in Mb/s, if it has one now.
    pub mbps: Option<u64>,
}

/// A PCI Express link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Transfers a second of each lane, in thousands of millions.
    pub gigatransfers: f64,
    /// Lanes.
    pub lanes: u32,
}

/// Bytes of a PCI Express packet beside its data: header with 64-bit address 16, sequence number 2, checksum
/// 4, framing 2 (PCI Express 3.0, sections 2.2 and 3.5).
const AROUND: f64 = 24.0;
/// Data bytes of one packet to the card, which most systems use.
const MOST_DATA: f64 = 256.0;
/// A descriptor, and what the card writes back of it.
const DESCRIPTOR: f64 = 16.0;
/// Descriptors that a card reads or writes together.
const DESCRIPTORS: f64 = 4.0;

impl Link {
    /// Gb/s in each direction that are left of the transfers by the line code: 8b/10b up to 5 GT/s, 128b/130b
    /// up to 32, 242 of 256 bytes above.
    #[must_use]
    pub fn gbps(self) -> f64 {
        let code = match self.gigatransfers {
            ..=5.0 => 8.0 / 10.0,
            ..=32.0 => 128.0 / 130.0,
            _ => 242.0 / 256.0,
        };
        self.gigatransfers * f64::from(self.lanes) * code
    }

    /// Frames a second, of `bytes` without the FCS, that the card can be given or can give: data in packets
    /// of at most 256 bytes, and a descriptor of 16 bytes for each frame, four of them together.
    #[must_use]
    pub fn frames(self, bytes: u32) -> f64 {
        let bytes = f64::from(bytes);
        let data = bytes + (bytes / MOST_DATA).ceil() * AROUND;
        let descriptor = DESCRIPTOR + AROUND / DESCRIPTORS;
        self.gbps() * 1e9 / 8.0 / (data + descriptor)
    }

    fn json(self) -> Value {
        json!({"gigatransfers": self.gigatransfers, "lanes": self.lanes, "gbps": self.gbps()})
    }
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// The entries of a directory, in order.
fn entries(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The last part of what a link points to.
fn target(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned())
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
    let one = |name: &String| {
        let at = cpu.join("cache").join(name);
        Some(Cache {
            level: number(&at.join("level"))?,
            kind: text(&at.join("type"))?,
            bytes: size(&text(&at.join("size"))?)?,
            shared_by: dpdk::cpu_list(&text(&at.join("shared_cpu_list"))?),
        })
    };
    let names = entries(&cpu.join("cache"));
    let mut caches: Vec<_> = names.iter().filter(|name| name.starts_with("index")).filter_map(one).collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

/// As in "16.0 GT/s PCIe", and in "Unknown" where there is none.
fn link(device: &Path, which: &str) -> Option<Link> {
    let speed = text(&device.join(format!("{which}_link_speed")))?;
    let gigatransfers = speed.split(' ').next()?.parse().ok()?;
    let lanes = number(&device.join(format!("{which}_link_width")))?;
    (lanes > 0).then_some(Link { gigatransfers, lanes })
}

fn card(pci: &Path, address: &str) -> Option<Card> {
    let device = pci.join(address);
    // The class of network controllers.
    if !text(&device.join("class"))?.starts_with("0x02") {
        return None;
    }
    let interface = entries(&device.join("net")).into_iter().next();
    let speed = interface.as_ref().and_then(|name| number(&device.join("net").join(name).join("speed")));
    let of = |name: &str| text(&device.join(name)).unwrap_or_default().trim_start_matches("0x").to_owned();
    Some(Card {
        address: address.to_owned(),
        driver: target(&device.join("driver")),
        kind: format!("{}:{}", of("vendor"), of("device")),
        link: link(&device, "current"),
        best: link(&device, "max"),
        // An interface that is down says -1.
        mbps: speed.filter(|&mbps: &i64| mbps > 0).and_then(|mbps| mbps.try_into().ok()),
        interface,
    })
}

/// What the memory control groups of this process leave of so many bytes, as far as they can be seen: version
/// 2, and version 1.
fn within_limits(root: &Path, bytes: u64) -> u64 {
    let groups = text(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mut left = bytes;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, limit, used) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
            list if list.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // The group, and those that it is in; in a container what is mounted may be the group itself.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let group = root.join(mount).join(group);
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
        let allowed = text(Path::new("/proc/self/status")).unwrap_or_default();
        let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Self::read(Path::new("/"), &dpdk::cpu_list(allowed.unwrap_or_default()))
    }

    /// The same with `/proc` and `/sys` in another directory, for tests.
    pub(crate) fn read(root: &Path, allowed: &[usize]) -> Self {
        let system = root.join("sys/devices/system");
        let cpu = |number: usize| system.join(format!("cpu/cpu{number}"));
        let first = |number: usize| {
            let siblings = text(&cpu(number).join("topology/thread_siblings_list"))?;
            dpdk::cpu_list(&siblings).into_iter().find(|cpu| allowed.contains(cpu))
        };
        let mut cores: Vec<_> = allowed.iter().map(|&cpu| first(cpu).unwrap_or(cpu)).collect();
        cores.sort_unstable();
        cores.dedup();
        let nodes: Vec<_> = entries(&system.join("node"))
            .into_iter()
            .filter(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<usize>().is_ok()))
            .map(|name| system.join("node").join(name))
            .collect();
        let distances = |node: &std::path::PathBuf| {
            let line = text(&node.join("distance")).unwrap_or_default();
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let processors = |node: &std::path::PathBuf| {
            let all = dpdk::cpu_list(&text(&node.join("cpulist")).unwrap_or_default());
            all.into_iter().filter(|cpu| allowed.contains(cpu)).collect()
        };
        let value = |file: &str, name: &str| {
            let all = text(&root.join("proc").join(file)).unwrap_or_default();
            let line = all.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let available = value("meminfo", "MemAvailable").and_then(|kb| kb.split(' ').next()?.parse().ok());
        let pci = root.join("sys/bus/pci/devices");
        Self {
            model: value("cpuinfo", "model name").unwrap_or_else(|| "not known".to_owned()),
            processors: allowed.to_vec(),
            cores: cores.len(),
            caches: allowed.first().map(|&number| caches(&cpu(number))).unwrap_or_default(),
            nodes: nodes.iter().map(processors).collect(),
            distances: nodes.iter().map(distances).collect(),
            available: within_limits(root, available.map_or(0, |kb: u64| kb << 10)),
            cards: entries(&pci).iter().filter_map(|address| card(&pci, address)).collect(),
        }
    }

    /// The bytes of all caches of the highest level of one processor.
    pub(crate) fn last_cache(&self) -> u64 {
        self.caches.iter().max_by_key(|cache| cache.level).map_or(0, |cache| cache.bytes)
    }

    pub(crate) fn json(&self) -> Value {
        let caches = self.caches.iter().map(|cache| {
            json!({"level": cache.level, "kind": cache.kind, "bytes": cache.bytes, "shared_by": cache.shared_by})
        });
        let cards = self.cards.iter().map(|card| {
            json!({
                "address": card.address, "interface": card.interface, "driver": card.driver, "kind": card.kind,
                "link": card.link.map(Link::json), "best_link": card.best.map(Link::json), "mbps": card.mbps,
                "most_frames_per_second": card.link.map(|link| json!({"60": link.frames(60), "1514": link.frames(1514)})),
            })
        });
        json!({
            "model": self.model, "processors": self.processors, "cores": self.cores,
            "caches": caches.collect::<Vec<_>>(), "nodes": self.nodes, "distances": self.distances,
            "available_bytes": self.available, "cards": cards.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn file(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    #[test]
    fn a_server_with_two_nodes_and_a_card_is_read() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for cpu in 0..8 {
            file(
                root,
                &format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"),
                &format!("{},{}", cpu % 4, cpu % 4 + 4),
            );
        }
        for (index, level, kind, size, shared) in [
            (0, 1, "Data", "48K", "1,5"),
            (1, 1, "Instruction", "32K", "1,5"),
            (2, 2, "Unified", "2M", "1,5"),
            (3, 3, "Unified", "36864K", "0-1,4-5"),
            (4, 4, "Unified", "many", "0"),
        ] {
            let at = format!("sys/devices/system/cpu/cpu1/cache/index{index}");
            for (name, text) in [
                ("level", level.to_string().as_str()),
                ("type", kind),
                ("size", size),
                ("shared_cpu_list", shared),
            ] {
                file(root, &format!("{at}/{name}"), text);
            }
        }
        file(root, "sys/devices/system/node/node0/cpulist", "0-1,4-5");
        file(root, "sys/devices/system/node/node0/distance", "10 21");
        file(root, "sys/devices/system/node/node1/cpulist", "2-3,6-7");
        file(root, "sys/devices/system/node/node1/distance", "21 10");
        file(root, "sys/devices/system/node/possible", "0-1");
        file(root, "proc/meminfo", "MemTotal:       4096 kB\nMemAvailable:   1024 kB");
        file(root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: A Processor 9000");
        let card = "sys/bus/pci/devices/0000:3b:00.0";
        for (name, text) in [
            ("class", "0x020000"),
            ("vendor", "0x8086"),
            ("device", "0x1592"),
            ("current_link_speed", "8.0 GT/s PCIe"),
            ("current_link_width", "8"),
            ("max_link_speed", "16.0 GT/s PCIe"),
            ("max_link_width", "16"),
            ("net/ens1f0/speed", "100000"),
        ] {
            file(root, &format!("{card}/{name}"), text);
        }
        symlink("../../../../bus/pci/drivers/ice", root.join(card).join("driver")).unwrap();
        file(root, "sys/bus/pci/devices/0000:00:02.0/class", "0x030000");
        let down = "sys/bus/pci/devices/0000:5e:00.0";
        file(root, &format!("{down}/class"), "0x020000");
        file(root, &format!("{down}/net/ens2/speed"), "-1");
        file(root, &format!("{down}/current_link_speed"), "Unknown");

        let machine = Machine::read(root, &[1, 2, 5, 6]);
        assert_eq!(
            (machine.model.as_str(), machine.cores, machine.available),
            ("A Processor 9000", 2, 1 << 20)
        );
        let caches: Vec<_> = machine.caches.iter().map(|c| (c.level, c.kind.as_str(), c.bytes)).collect();
        let wanted = [
            (1, "Data", 48 << 10),
            (1, "Instruction", 32 << 10),
            (2, "Unified", 2 << 20),
            (3, "Unified", 36 << 20),
        ];
        assert_eq!(caches, wanted);
        assert_eq!((machine.last_cache(), machine.caches[3].shared_by.clone()), (36 << 20, vec![0, 1, 4, 5]));
        assert_eq!(machine.nodes, [[1, 5], [2, 6]]);
        assert_eq!(machine.distances, [[10, 21], [21, 10]]);
        let [card, down] = &machine.cards[..] else { panic!("{:?}", machine.cards) };
        let down = (down.interface.as_deref(), down.link, down.best, down.mbps, down.driver.as_ref());
        assert_eq!(down, (Some("ens2"), None, None, None, None));
        assert_eq!((card.address.as_str(), card.kind.as_str()), ("0000:3b:00.0", "8086:1592"));
        assert_eq!((card.interface.as_deref(), card.driver.as_deref()), (Some("ens1f0"), Some("ice")));
        assert_eq!(card.link, Some(Link { gigatransfers: 8.0, lanes: 8 }));
        assert_eq!((card.best.map(|link| link.lanes), card.mbps), (Some(16), Some(100_000)));
    }

    #[test]
    fn nothing_is_there() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::read(root.path(), &[0]);
        assert_eq!((machine.model.as_str(), machine.cores, machine.caches.len()), ("not known", 1, 0));
        assert!(machine.cards.is_empty() && machine.nodes.is_empty() && machine.last_cache() == 0);
    }

    #[test]
    fn control_groups_limit_memory() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(within_limits(root, 1000), 1000);
        file(root, "proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/box/a\n0::/edge/b");
        file(root, "sys/fs/cgroup/edge/b/memory.max", "max");
        file(root, "sys/fs/cgroup/edge/b/memory.current", "1");
        assert_eq!(within_limits(root, 1000), 1000);
        file(root, "sys/fs/cgroup/edge/memory.max", "900");
        file(root, "sys/fs/cgroup/edge/memory.current", "100");
        assert_eq!(within_limits(root, 1000), 800);
        file(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "300");
        file(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "301");
        assert_eq!(within_limits(root, 1000), 0);
    }

    #[test]
    fn links_have_the_rates_of_the_standard() {
        let link = |gigatransfers, lanes| Link { gigatransfers, lanes };
        for (link, gbps) in
            [(link(2.5, 8), 16.0), (link(8.0, 8), 63.0), (link(16.0, 16), 252.1), (link(64.0, 4), 242.0)]
        {
            assert!((link.gbps() - gbps).abs() < 0.1, "{link:?}: {}", link.gbps());
        }
        // RouteBricks' server gave a card on such a link 12.3 Gb/s (section 4.1): large frames have more.
        let large = link(2.5, 8).frames(1514) * 1514.0 * 8.0 / 1e9;
        assert!((12.3..16.0).contains(&large), "{large}");
        assert!(link(2.5, 8).frames(60) * 8.0 * 60.0 / 1e9 < large);
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
