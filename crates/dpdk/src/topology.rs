//! The NUMA nodes of processors, memory and devices, from `/sys`; and the best processors for workers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::eal::{allowed_cpus, cpu_list};
use crate::spec::PortSpec;

/// The distance of a node from itself (ACPI 6.4, section 5.2.17).
const NEAR: u32 = 10;
/// The number of queues of devices that have as many as are requested.
const MANY: u16 = 1024;

/// Processors, NUMA nodes and how far these are from each other.
#[derive(Clone, Debug)]
pub struct Topology {
    root: PathBuf,
    cores: Vec<Core>,
    distances: BTreeMap<(usize, usize), u32>,
}

/// A logical processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub id: usize,
    /// Its NUMA node.
    pub node: Option<usize>,
    /// The socket it is in.
    pub package: usize,
    /// The logical processors on the same core, itself among them.
    pub siblings: Vec<usize>,
    /// Whether the kernel keeps other work off it (`isolcpus`).
    pub isolated: bool,
    /// Whether this process may run on it.
    pub allowed: bool,
}

/// A processor for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The processor's number.
    pub cpu: usize,
    /// Its NUMA node.
    pub node: Option<usize>,
    /// Whether the kernel keeps other work off it.
    pub isolated: bool,
    /// The workers on other hardware threads of the same core.
    pub siblings: Vec<usize>,
    /// The workers on this very processor.
    pub crowded: Vec<usize>,
}

impl Topology {
    /// This machine, as this process may use it.
    #[must_use]
    pub fn here() -> Topology {
        Self::read(Path::new("/sys"), &allowed_cpus())
    }

    /// The machine that a copy of `/sys` describes; all its processors may be used.
    #[must_use]
    pub fn at(root: &Path) -> Topology {
        let online = cpu_list(&text(root.join("devices/system/cpu/online")));
        Self::read(root, &online)
    }

    fn read(root: &Path, allowed: &[usize]) -> Topology {
        let base = root.join("devices/system/cpu");
        let isolated = cpu_list(&text(base.join("isolated")));
        let nodes = nodes(root);
        let members: Vec<(usize, Vec<usize>)> =
            nodes.iter().map(|&(node, ref path)| (node, cpu_list(&text(path.join("cpulist"))))).collect();
        let core = |id: usize| {
            let topology = base.join(format!("cpu{id}/topology"));
            let siblings = cpu_list(&text(topology.join("thread_siblings_list")));
            Core {
                id,
                node: members.iter().find(|(_, cpus)| cpus.contains(&id)).map(|(node, _)| *node),
                package: text(topology.join("physical_package_id")).parse().unwrap_or(0),
                siblings: if siblings.is_empty() { vec![id] } else { siblings },
                isolated: isolated.contains(&id),
                allowed: allowed.contains(&id),
            }
        };
        let mut distances = BTreeMap::new();
        for (from, path) in &nodes {
            let row = text(path.join("distance"));
            for ((to, _), distance) in nodes.iter().zip(row.split_whitespace()) {
                if let Ok(distance) = distance.parse() {
                    distances.insert((*from, *to), distance);
                }
            }
        }
        let cores = cpu_list(&text(base.join("online"))).into_iter().map(core).collect();
        Topology { root: root.to_owned(), cores, distances }
    }

    /// The processors.
    #[must_use]
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The distance of a node's memory from another one's processors: 10 is the node's own, 20 takes twice as
    /// long. `None` if it is not known.
    #[must_use]
    pub fn distance(&self, from: usize, to: usize) -> Option<u32> {
        let known = self.distances.get(&(from, to)).copied();
        known.or((from == to).then_some(NEAR))
    }

    /// The node of a port's device; `None` for devices without one, and if it is not known.
    #[must_use]
    pub fn node_of(&self, spec: &PortSpec) -> Option<usize> {
        let file = match spec {
            PortSpec::Pci { address, .. } => self.root.join("bus/pci/devices").join(address),
            PortSpec::Interface(name) => self.root.join("class/net").join(name).join("device"),
            PortSpec::Vdev(_) | PortSpec::Id(_) | PortSpec::Virtual(_) => return None,
        };
        // -1: it has none.
        text(file.join("numa_node")).parse().ok()
    }

    /// The most receive and transmit queues that a port can have, where that is known before it is opened.
    #[must_use]
    pub fn queues_of(&self, spec: &PortSpec) -> Option<(u16, u16)> {
        match spec {
            PortSpec::Interface(name) => {
                let queues = self.root.join("class/net").join(name).join("queues");
                let n = std::fs::read_dir(queues).ok()?.flatten();
                let rx = n.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count();
                // AF_XDP has a transmit queue with each receive queue.
                Some((rx as u16, rx as u16))
            }
            PortSpec::Vdev(devargs) => virtual_queues(devargs),
            PortSpec::Pci { .. } | PortSpec::Id(_) | PortSpec::Virtual(_) => None,
        }
    }

    /// Processors for `workers` workers whose ports are at these nodes, the best first: isolated ones if
    /// there are any, a core for each before hardware threads share one, near the ports, and processor 0 last
    /// because the kernel works there. With too few processors, several workers get the same.
    #[must_use]
    pub fn seats(&self, workers: usize, ports: &[usize]) -> Vec<Seat> {
        let mut usable: Vec<&Core> = self.cores.iter().filter(|core| core.allowed).collect();
        let isolated = usable.iter().any(|core| core.isolated);
        let far = |core: &Core| -> u32 {
            let distance =
                |port: &usize| core.node.and_then(|node| self.distance(*port, node)).unwrap_or(NEAR);
            ports.iter().map(distance).sum()
        };
        // The position among the usable threads of the same core.
        let rank = |core: &Core| {
            let usable = |id: &usize| self.cores.iter().any(|c| c.id == *id && c.allowed);
            core.siblings.iter().filter(|id| usable(id)).position(|id| *id == core.id).unwrap_or(0)
        };
        usable.sort_by_key(|core| (isolated && !core.isolated, rank(core), far(core), core.id == 0, core.id));
        let chosen: Vec<usize> = usable.iter().map(|core| core.id).cycle().take(workers).collect();
        self.seated(&chosen)
    }

    /// The seats of workers of which the first runs on the first of these processors, and so on.
    #[must_use]
    pub fn seated(&self, cpus: &[usize]) -> Vec<Seat> {
        let core_of = |cpu: usize| self.cores.iter().find(|core| core.id == cpu);
        (cpus.iter().enumerate())
            .map(|(worker, &cpu)| {
                let core = core_of(cpu);
                let others = || cpus.iter().enumerate().filter(move |(other, _)| *other != worker);
                let same_core = |other: usize| core.is_some_and(|core| core.siblings.contains(&other));
                Seat {
                    cpu,
                    node: core.and_then(|core| core.node),
                    isolated: core.is_some_and(|core| core.isolated),
                    siblings: others()
                        .filter(|(_, c)| **c != cpu && same_core(**c))
                        .map(|(w, _)| w)
                        .collect(),
                    crowded: others().filter(|(_, c)| **c == cpu).map(|(w, _)| w).collect(),
                }
            })
            .collect()
    }
}

fn nodes(root: &Path) -> Vec<(usize, PathBuf)> {
    let mut nodes: Vec<(usize, PathBuf)> = (std::fs::read_dir(root.join("devices/system/node")).into_iter())
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?, entry.path()))
        })
        .collect();
    nodes.sort_unstable();
    nodes
}

/// The limits of queues that the drivers of DPDK 22.11's virtual devices report.
fn virtual_queues(devargs: &str) -> Option<(u16, u16)> {
    let mut parts = devargs.split(',');
    let driver = parts.next()?;
    let arguments: Vec<(&str, &str)> = parts.filter_map(|argument| argument.split_once('=')).collect();
    let count = |keys: &[&str]| arguments.iter().filter(|(key, _)| keys.contains(key)).count() as u16;
    let value = |key: &str| arguments.iter().find(|(k, _)| *k == key).and_then(|(_, v)| v.parse().ok());
    let is = |name: &str| driver.starts_with(name);
    if is("net_null") {
        Some((MANY, MANY))
    } else if is("net_pcap") {
        let (rx, tx) = (
            count(&["rx_pcap", "rx_iface", "rx_iface_in", "iface"]),
            count(&["tx_pcap", "tx_iface", "iface"]),
        );
        // Without one of them the driver makes one that does nothing.
        Some((rx.max(1), tx.max(1)))
    } else if is("net_ring") || is("net_tap") {
        Some((16, 16))
    } else if is("net_af_packet") {
        value("qpairs").or(Some(1)).map(|n: u16| (n, n))
    } else if is("net_vhost") || is("virtio_user") || is("net_virtio_user") {
        value("queues").or(Some(1)).map(|n: u16| (n, n))
    } else {
        None
    }
}

/// The contents of a file of `/sys` or `/proc`; empty if it cannot be read.
pub(crate) fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
#[path = "../tests/machine/mod.rs"]
mod machine;

#[cfg(test)]
mod tests {
    use super::machine::Machine;
    use super::*;

    fn cpus(seats: &[Seat]) -> Vec<usize> {
        seats.iter().map(|seat| seat.cpu).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes files")]
    fn workers_sit_near_their_ports_each_on_a_core() {
        let files = Machine::new("topology-near", "");
        let machine = Topology::at(&files.root);
        assert_eq!(machine.distance(0, 1), Some(32));
        assert_eq!(cpus(&machine.seats(2, &[1])), [2, 3]);
        assert_eq!(
            cpus(&machine.seats(3, &[1])),
            [2, 3, 1],
            "a core of the other node rather than half a core"
        );
        assert_eq!(cpus(&machine.seats(4, &[0])), [1, 0, 2, 3], "processor 0 is the kernel's too");
        let six = machine.seats(6, &[0]);
        assert_eq!(cpus(&six), [1, 0, 2, 3, 4, 5]);
        assert_eq!((six[0].siblings.clone(), six[5].siblings.clone()), (vec![5], vec![0]));
        let ten = machine.seats(10, &[]);
        assert_eq!(ten[0].crowded, [8]);
        assert!(ten[4].crowded.is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes files")]
    fn isolated_processors_come_first() {
        let files = Machine::new("topology-isolated", "1,5");
        let machine = Topology::at(&files.root);
        let seats = machine.seats(3, &[1]);
        assert_eq!(cpus(&seats), [1, 5, 2]);
        assert!(seats[0].isolated && seats[1].isolated && !seats[2].isolated);
        assert_eq!(seats[0].siblings, [1]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes files")]
    fn devices_have_nodes_and_queues() {
        let files = Machine::new("topology-devices", "");
        let machine = Topology::at(&files.root);
        let spec = |text: &str| PortSpec::parse(text).unwrap();
        assert_eq!(machine.node_of(&spec("0000:81:00.0")), Some(1));
        assert_eq!(machine.node_of(&spec("0000:01:00.0")), None);
        assert_eq!(machine.queues_of(&spec("eth0")), Some((1, 1)));
        assert_eq!(machine.queues_of(&spec("eth1")), Some((2, 2)));
        assert_eq!(machine.queues_of(&spec("eth7")), None);
        assert_eq!(machine.queues_of(&spec("net_pcap0,rx_pcap=a,rx_pcap=b,infinite_rx=1")), Some((2, 1)));
        assert_eq!(machine.queues_of(&spec("net_af_packet0,iface=x,qpairs=4")), Some((4, 4)));
        assert_eq!(machine.queues_of(&spec("net_null0")), Some((1024, 1024)));
        assert_eq!(machine.queues_of(&spec("net_memif0")), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads /sys")]
    fn this_machine_has_seats() {
        let here = Topology::here();
        let seats = here.seats(1, &[]);
        assert!(here.cores().iter().any(|core| core.id == seats[0].cpu && core.allowed));
    }

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list(""), Vec::<usize>::new());
        assert_eq!(cpu_list("x,3-"), Vec::<usize>::new());
    }
}
