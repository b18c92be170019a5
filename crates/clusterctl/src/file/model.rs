//! The meaning of a cluster file.

use cluster::Mode;
use lang::Diagnostics;
use lang::args::{EtherAddr, IpPrefix};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// The `[etcd]` section of a cluster file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdSettings {
    /// The addresses of etcd's members.
    pub(crate) endpoints: Vec<String>,
    /// The prefix of all keys of this cluster, without a slash at the end.
    pub(crate) prefix: String,
    /// How long a node that died counts as present, in seconds.
    pub(crate) ttl_s: u32,
    /// Certificates, user and password, for an etcd that has them.
    pub(crate) trust: etcd::Trust,
}

impl EtcdSettings {
    /// The rule that a prefix breaks.
    pub(crate) fn bad_prefix(prefix: &str) -> Option<&'static str> {
        let good = prefix.starts_with('/')
            && prefix.len() > 1
            && !prefix.ends_with('/')
            && !prefix.contains("//")
            && prefix.chars().all(|c| c.is_ascii_graphic());
        (!good).then_some("it begins with a slash and does not end with one, as in \"/valiant/rb4\"")
    }
}

/// Bytes that VXLAN puts in front of a frame: RFC 7348, over IPv4.
pub(super) const VXLAN_BYTES: u32 = 14 + 8 + 8 + 20;

/// A cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Its name: part of the names of its sockets.
    pub(crate) name: String,
    /// The key that its nodes share; none if everybody who can send to its links may join.
    pub(crate) key_file: Option<PathBuf>,
    /// R: the rate of the external ports of a node, together.
    pub(crate) rate_bps: u64,
    /// The capacity of a link unless it says otherwise; none: 2R/N.
    pub(crate) link_bps: Option<u64>,
    /// Whether links are shaped to their rate.
    pub(crate) shape: bool,
    /// Whether queues of links and external ports are shared fairly by input node.
    pub(crate) fair: bool,
    /// Whether each hop's latency is measured.
    pub(crate) measure: bool,
    /// The program of the whole router.
    pub(crate) program: PathBuf,
    /// The program's routing table, if it has several.
    pub(crate) table: Option<String>,
    /// Further variables of the program.
    pub(crate) defines: Vec<(String, String)>,
    /// The load balancing of packets.
    pub(crate) policy: Policy,
    /// The hellos between neighbors.
    pub(crate) hello: Hello,
    /// Where etcd is, if the file, routes and members are kept there too.
    pub(crate) etcd: Option<EtcdSettings>,
    /// The topology.
    pub(crate) topology: Topology,
    /// The nodes, by number; some numbers may be missing.
    pub(crate) nodes: Vec<Node>,
    /// Routes to networks behind the external ports.
    pub(crate) routes: Vec<Route>,
    /// Warnings.
    pub(crate) warnings: Diagnostics,
}

/// Load balancing: the `[policy]` section.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Policy {
    pub(crate) mode: Mode,
    /// The longest gap between two packets of a flowlet.
    pub(crate) delta: Option<Duration>,
    /// How many flows a node remembers.
    pub(crate) flows: Option<u32>,
    /// Whether output nodes restore the order instead.
    pub(crate) resequence: bool,
}

/// Hellos: the `[hello]` section.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Hello {
    /// The interval between hellos.
    pub(crate) every: Option<Duration>,
    /// The time without hellos after which a link is dead.
    pub(crate) dead: Option<Duration>,
}

/// The `[topology]` section.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Topology {
    /// A link between any two nodes.
    Mesh,
    /// A k-ary n-fly.
    Fly {
        /// The links of a node in each direction.
        k: u32,
    },
}

/// A server of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: u16,
    /// It is removed, but its ports keep their numbers.
    pub(crate) removed: bool,
    /// The machine that it runs on; none: any machine that the command is run on.
    pub(crate) host: Option<String>,
    /// The network namespace that it runs in.
    pub(crate) netns: Option<String>,
    /// Its control socket.
    pub(crate) socket: PathBuf,
    pub(crate) workers: u16,
    pub(crate) cpus: Option<String>,
    pub(crate) ports: Vec<Port>,
    pub(crate) links: Vec<Link>,
}

/// An external port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    /// Its place among the ports of all nodes: the number in the names of its variables.
    pub(crate) number: usize,
    pub(crate) device: String,
    /// The router's address there.
    pub(crate) ip: Ipv4Addr,
    /// The network there.
    pub(crate) net: IpPrefix,
    pub(crate) mac: Option<EtherAddr>,
    /// The longest IP packet, in bytes; none: as the program has it.
    pub(crate) mtu: Option<u32>,
    /// The rate at which packets may leave; none: the rate of the device.
    pub(crate) rate_bps: Option<u64>,
}

/// One end of a link to another node.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) to: u16,
    pub(crate) kind: LinkKind,
    /// Its capacity, if that differs from the other links.
    pub(crate) rate_bps: Option<u64>,
    /// The longest IP packet, in bytes, that the device takes.
    pub(crate) mtu: u32,
}

/// The kind of a link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LinkKind {
    /// A device that is connected to one of the peer.
    Device(String),
    /// A tunnel through a network that others use too.
    Vxlan(Vxlan),
}

/// A tunnel end. Several tunnels may use one device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vxlan {
    pub(crate) vni: u32,
    pub(crate) device: String,
    /// This end's address and its network.
    pub(crate) local: IpPrefix,
    /// The address of the other end.
    pub(crate) remote: Ipv4Addr,
    /// The next-hop router to the other end, if that is in another network.
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The device's address; none: one that is made from `local`.
    pub(super) mac: Option<EtherAddr>,
}

impl Vxlan {
    /// The Ethernet address with which this end answers ARP and sends frames: locally administered, different
    /// for each IP address.
    pub(crate) fn mac(&self) -> EtherAddr {
        let [a, b, c, d] = self.local.addr.octets();
        self.mac.unwrap_or(EtherAddr([0x02, b'V', a, b, c, d]))
    }
}

/// A route to a network behind an external port.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub(crate) prefix: IpPrefix,
    pub(crate) via: Ipv4Addr,
    /// The port, among those of all nodes, in whose network the next hop is.
    pub(crate) port: usize,
}

/// The default MTU of devices.
pub(super) const DEFAULT_MTU: u32 = 1500;

impl Cluster {
    /// N from the nodes' point of view: one more than the highest number. Numbers without a node count as
    /// nodes that are down.
    pub(crate) fn size(&self) -> u16 {
        self.nodes.last().map_or(0, |n| n.id.saturating_add(1))
    }
    /// The nodes that run or should run.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| !n.removed)
    }
    /// A node by its number.
    pub(crate) fn node(&self, id: u16) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }
    /// All ports with their nodes, and their places there.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (&Node, usize, &Port)> {
        self.nodes.iter().flat_map(|n| n.ports.iter().enumerate().map(move |(i, p)| (n, i, p)))
    }
    /// The longest IP packet of any external port, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.ports().map(|(_, _, p)| p.mtu.unwrap_or(DEFAULT_MTU)).max().unwrap_or(DEFAULT_MTU)
    }
    /// Which nodes have links. In a fly, the nodes up to the last one with an external port are the outer
    /// ones.
    ///
    /// # Errors
    /// The error, and what to do.
    pub(crate) fn joined(&self) -> Result<cluster::Topology, (String, String)> {
        let size = self.size();
        let Topology::Fly { k } = self.topology else {
            return cluster::Topology::mesh(size).map_err(|e| (e.to_string(), "add nodes".to_owned()));
        };
        let outer = self.nodes.iter().rfind(|n| !n.ports.is_empty()).map_or(0, |n| n.id + 1);
        let k = u16::try_from(k).unwrap_or(u16::MAX);
        let fly = cluster::Topology::fly(outer, k).map_err(|e| {
            (
                format!("no fly with k = {k} for {outer} nodes with external ports: {e}"),
                "choose another k".to_owned(),
            )
        })?;
        if fly.nodes() == size {
            return Ok(fly);
        }
        let first = fly.externals();
        Err((
            format!("a {fly} has {} nodes, not {size}", fly.nodes()),
            format!(
                "nodes 0 to {} have the external ports, nodes {first} to {} have none; stage S is the {first} nodes from {first} * S",
                first - 1,
                fly.nodes() - 1
            ),
        ))
    }
    /// The capacity of a link.
    pub(crate) fn link_rate(&self, link: &Link) -> u64 {
        let parts = match self.topology {
            Topology::Mesh => u64::from(self.size()),
            Topology::Fly { k } => k.into(),
        };
        let planned = || 2 * self.rate_bps / parts.max(1);
        link.rate_bps.or(self.link_bps).unwrap_or_else(planned).max(1)
    }
}

/// The first and the last address of a network.
pub(super) fn ends(net: &IpPrefix) -> (u32, u32) {
    let base = net.network().to_bits();
    (base, base | !net.mask.to_bits())
}

/// The address for all hosts of a network.
pub(crate) fn broadcast(net: &IpPrefix) -> Ipv4Addr {
    Ipv4Addr::from_bits(ends(net).1)
}

/// The network of an address with a mask.
pub(super) fn network(prefix: &IpPrefix) -> IpPrefix {
    IpPrefix { addr: prefix.network(), mask: prefix.mask }
}
