//! The cluster file: which nodes there are, which external ports each owns, what joins them, and the program of the whole
//! router. Everything that is wrong with it is collected, with its place.

use super::etcd::Settings;
use crate::planner::bps;
use ::etcd::{Client, Limits};
use cluster::{MAX_NODES, Mode, NodeId};
use lang::args::{EtherAddr, IpPrefix};
use lang::{Diagnostic, Diagnostics, NameDb, Source, SourceMap, Span};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// Where control sockets are unless the file says otherwise.
const RUN_DIR: &str = "/run/valiant";
/// The most external ports of a node: as many as the MAC code tells apart.
const MAX_PORTS: usize = 256;
/// A next hop has 16 bits on an internal link: the networks of external ports are at least so long.
const MIN_PREFIX: u8 = 16;
/// Longer ones have no addresses of their own for network and broadcast.
const MAX_PREFIX: u8 = 30;
/// What VXLAN puts in front of a frame, which has an Ethernet header of its own: RFC 7348, over IPv4.
const VXLAN_BYTES: u32 = 14 + 8 + 8 + 20;

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    name: Spanned<String>,
    key_file: Option<Spanned<String>>,
    #[serde(default)]
    insecure: bool,
    rate: Spanned<String>,
    link_rate: Option<Spanned<String>>,
    #[serde(default)]
    shape: bool,
    program: Spanned<String>,
    table: Option<Spanned<String>>,
    #[serde(default)]
    define: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    policy: RawPolicy,
    #[serde(default)]
    hello: RawHello,
    etcd: Option<RawEtcd>,
    #[serde(default)]
    topology: RawTopology,
    #[serde(default)]
    node: Vec<RawNode>,
    #[serde(default)]
    route: Vec<RawRoute>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    mode: Option<Spanned<String>>,
    delta: Option<Spanned<String>>,
    flows: Option<Spanned<u32>>,
    #[serde(default)]
    resequence: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawHello {
    every: Option<Spanned<String>>,
    dead: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEtcd {
    endpoints: Spanned<Vec<String>>,
    prefix: Option<Spanned<String>>,
    ttl: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawTopology {
    kind: Option<Spanned<String>>,
    k: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    id: Spanned<u16>,
    #[serde(default)]
    removed: bool,
    host: Option<String>,
    netns: Option<Spanned<String>>,
    socket: Option<Spanned<String>>,
    workers: Option<Spanned<u16>>,
    cpus: Option<Spanned<String>>,
    #[serde(default)]
    port: Vec<RawPort>,
    #[serde(default)]
    link: Vec<RawLink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPort {
    device: Spanned<String>,
    network: Spanned<String>,
    mac: Option<Spanned<String>>,
    mtu: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    to: Spanned<u16>,
    device: Option<Spanned<String>>,
    vxlan: Option<Spanned<RawVxlan>>,
    mtu: Option<Spanned<u32>>,
    rate: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVxlan {
    vni: u32,
    device: Spanned<String>,
    local: Spanned<String>,
    remote: Spanned<String>,
    gateway: Option<Spanned<String>>,
    mac: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRoute {
    prefix: Spanned<String>,
    via: Spanned<String>,
}

/// A cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Its name: part of the names of its sockets.
    pub(crate) name: String,
    /// The key that its nodes share; none if it trusts whoever reaches its links.
    pub(crate) key_file: Option<PathBuf>,
    /// R: the rate of the external ports of a node, together.
    pub(crate) rate_bps: u64,
    /// What a link bears unless it says otherwise; none: 2R/N.
    pub(crate) link_bps: Option<u64>,
    /// Whether links are shaped to their rate.
    pub(crate) shape: bool,
    /// The program of the whole router.
    pub(crate) program: PathBuf,
    /// The program's routing table, if it has several.
    pub(crate) table: Option<String>,
    /// Further variables of the program.
    pub(crate) defines: Vec<(String, String)>,
    /// How packets are spread.
    pub(crate) policy: Policy,
    /// How neighbours watch each other.
    pub(crate) hello: Hello,
    /// Where the file, routes and members are also kept, if anywhere.
    pub(crate) etcd: Option<Settings>,
    /// How nodes are joined.
    pub(crate) topology: Topology,
    /// The nodes, by number; some numbers may be missing.
    pub(crate) nodes: Vec<Node>,
    /// Routes to networks behind the external ports.
    pub(crate) routes: Vec<Route>,
    /// What is odd.
    pub(crate) warnings: Diagnostics,
}

/// How packets are spread: the `[policy]` section.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Policy {
    pub(crate) mode: Mode,
    /// How long a flow may pause and still go the same way.
    pub(crate) delta: Option<Duration>,
    /// For how many flows a node has room.
    pub(crate) flows: Option<u32>,
    /// Whether output nodes restore the order instead.
    pub(crate) resequence: bool,
}

/// How neighbours watch each other: the `[hello]` section.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Hello {
    /// How often they say hello.
    pub(crate) every: Option<Duration>,
    /// After how much silence a link is dead.
    pub(crate) dead: Option<Duration>,
}

/// How nodes are joined: the `[topology]` section.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Topology {
    /// Each with each.
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
    /// It is gone, but its ports keep their numbers.
    pub(crate) removed: bool,
    /// The machine that it runs on; none: whichever the command is given on.
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
}

/// One end of a link to another node.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) to: u16,
    pub(crate) kind: LinkKind,
    /// What it bears, if that differs from the other links.
    pub(crate) rate_bps: Option<u64>,
    /// The longest IP packet, in bytes, that the device takes.
    pub(crate) mtu: u32,
}

/// What a link is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LinkKind {
    /// A device whose other end is at the peer's.
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
    /// The other end.
    pub(crate) remote: Ipv4Addr,
    /// Who knows the way there, if it is in another network.
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The device's address; none: one that is made from `local`.
    mac: Option<EtherAddr>,
}

impl Vxlan {
    /// What answers ARP for this end, and is the source of what leaves it: locally administered, different for each address.
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

/// MTU of devices that do not say.
const DEFAULT_MTU: u32 = 1500;

impl Cluster {
    /// Reads a cluster file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn load(path: &Path) -> Result<Self, Diagnostics> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|e| {
            let mut diags = Diagnostics::new();
            diags.push(
                Diagnostic::error(None, format!("{name}: {}", crate::load::reason(&e)))
                    .with_help("conf/rb4.toml is an example of a cluster file"),
            );
            diags
        })?;
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let dir = absolute.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        Self::parse(&name, &String::from_utf8_lossy(&bytes), &dir)
    }

    /// What a text describes; the paths in it start at `dir`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn parse(name: &str, text: &str, dir: &Path) -> Result<Self, Diagnostics> {
        let mut map = SourceMap::new();
        map.add(&Source::new(name, text));
        let mut reader = Reader { diags: Diagnostics::new(), dir, names: NameDb::new() };
        let cluster = match toml::from_str::<RawFile>(text) {
            Ok(raw) => Some(reader.cluster(raw)),
            Err(e) => {
                let span = e.span().map(|s| Span::new(0, s.start, s.end));
                reader.diags.push(Diagnostic::error(span, e.message().trim()));
                None
            }
        };
        let mut diags = reader.diags;
        diags.sort();
        diags.set_sources(map);
        match cluster {
            Some(cluster) if !diags.has_errors() => Ok(Self { warnings: diags, ..cluster }),
            _ => Err(diags),
        }
    }

    /// N as the nodes count it: one more than the highest number. Numbers that nobody has are nodes that are down.
    pub(crate) fn size(&self) -> u16 {
        self.nodes.last().map_or(0, |n| n.id.saturating_add(1))
    }
    /// The nodes that run, or ought to.
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
    /// Who is joined with whom. In a fly the nodes up to the last one with an external port are the outer ones.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
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
    /// What a link bears.
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
fn ends(net: &IpPrefix) -> (u32, u32) {
    let base = net.network().to_bits();
    (base, base | !net.mask.to_bits())
}

/// The address for all hosts of a network.
pub(crate) fn broadcast(net: &IpPrefix) -> Ipv4Addr {
    Ipv4Addr::from_bits(ends(net).1)
}

/// The network of an address with a mask.
fn network(prefix: &IpPrefix) -> IpPrefix {
    IpPrefix { addr: prefix.network(), mask: prefix.mask }
}

fn at<T>(spanned: &Spanned<T>) -> Span {
    let span = spanned.span();
    Span::new(0, span.start, span.end)
}

/// Turns what is written into what is meant.
struct Reader<'a> {
    diags: Diagnostics,
    dir: &'a Path,
    names: NameDb,
}

impl Reader<'_> {
    fn wrong(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.diags.push(Diagnostic::error(span, message).with_help(help));
    }

    fn rate(&mut self, text: &Spanned<String>) -> u64 {
        bps(text.get_ref()).unwrap_or_else(|e| {
            self.wrong(at(text), format!("'{}' is not a rate", text.get_ref()), e);
            1
        })
    }

    fn time(&mut self, text: &Spanned<String>) -> Option<Duration> {
        let time = lang::args::parse::<Duration>(text.get_ref()).ok().filter(|t| !t.is_zero());
        if time.is_none() {
            self.wrong(
                at(text),
                format!("'{}' is not a time", text.get_ref()),
                "a time has a unit, as in \"100ms\" or \"0.1s\"",
            );
        }
        time
    }

    fn prefix(&mut self, text: &Spanned<String>, example: &str) -> Option<IpPrefix> {
        let prefix = IpPrefix::parse(text.get_ref(), &self.names, false).ok();
        let good = prefix.filter(|p| p.prefix_len().is_some());
        if good.is_none() {
            self.wrong(
                at(text),
                format!("'{}' is not an address with a prefix length", text.get_ref()),
                format!("write it as in \"{example}\""),
            );
        }
        good
    }

    fn address(&mut self, text: &Spanned<String>) -> Option<Ipv4Addr> {
        let address = text.get_ref().parse().ok();
        if address.is_none() {
            self.wrong(
                at(text),
                format!("'{}' is not an IP address", text.get_ref()),
                "write it as in \"10.0.3.2\"",
            );
        }
        address
    }

    fn mtu(&mut self, mtu: &Spanned<u32>) -> u32 {
        if !(68..=65535).contains(mtu.get_ref()) {
            self.wrong(
                at(mtu),
                format!("an MTU of {} bytes", mtu.get_ref()),
                "an IPv4 link takes packets of 68 to 65535 bytes (RFC 791)",
            );
        }
        (*mtu.get_ref()).min(65535)
    }

    fn device(&mut self, name: &Spanned<String>) -> String {
        let text = name.get_ref();
        if text.is_empty() || text.contains(['\n', '"', '\\', '$']) {
            self.wrong(
                at(name),
                format!("'{text}' is not a device"),
                "name a Linux interface, a PCI address or DPDK devargs",
            );
        }
        text.clone()
    }

    fn etcd(&mut self, name: &str, raw: &RawEtcd) -> Settings {
        let settings = Settings {
            endpoints: raw.endpoints.get_ref().clone(),
            prefix: raw.prefix.as_ref().map_or_else(|| format!("/valiant/{name}"), |p| p.get_ref().clone()),
            ttl_s: raw
                .ttl
                .as_ref()
                .and_then(|ttl| self.time(ttl))
                .map_or(5, |t| t.as_secs().clamp(2, 3600) as u32),
        };
        if let Err(e) = Client::new(&settings.endpoints, Limits::default()) {
            self.diags.push(Diagnostic::error(at(&raw.endpoints), e.to_string()));
        }
        if let (Some(text), Some(help)) = (&raw.prefix, Settings::bad_prefix(&settings.prefix)) {
            self.wrong(at(text), format!("'{}' is no prefix for keys", settings.prefix), help);
        }
        settings
    }

    fn cluster(&mut self, raw: RawFile) -> Cluster {
        let name = raw.name.get_ref().clone();
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(good) {
            self.wrong(
                at(&raw.name),
                format!("'{name}' is no name for a cluster"),
                "up to 32 letters, digits, '-' and '_': sockets are named after it",
            );
        }
        if raw.key_file.is_none() && !raw.insecure {
            self.wrong(
                at(&raw.name),
                "the cluster has no key: whoever reaches one of its links could join it",
                "make one with `valiant cluster key FILE` and name it by key_file = \"FILE\"; or say insecure = true",
            );
        }
        let rate_bps = self.rate(&raw.rate);
        let link_bps = raw.link_rate.as_ref().map(|r| self.rate(r));
        let policy = self.policy(&raw.policy);
        let hello = self.hello(&raw.hello);
        let topology = self.topology(&raw.topology);
        let etcd = raw.etcd.as_ref().map(|etcd| self.etcd(&name, etcd));
        for (variable, value) in &raw.define {
            let ours = ["DEV", "IP", "NET", "BASE", "BCAST", "MAC", "MTU"];
            let numbered = |p: &&&str| {
                variable
                    .strip_prefix(**p)
                    .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            };
            if let Some(prefix) = ours.iter().find(numbered) {
                self.wrong(
                    at(value),
                    format!("the variable {variable} is what the cluster file says of a port"),
                    format!("set it in a [[node.port]], or choose a name that is not {prefix} and a number"),
                );
            }
        }
        let (nodes, places) = self.nodes(&name, &raw.node);
        let cluster = Cluster {
            key_file: raw.key_file.as_ref().map(|f| self.dir.join(f.get_ref())),
            rate_bps,
            etcd,
            link_bps,
            shape: raw.shape,
            program: self.dir.join(raw.program.get_ref()),
            table: raw.table.as_ref().map(|t| t.get_ref().clone()),
            defines: raw.define.into_iter().map(|(name, value)| (name, value.into_inner())).collect(),
            policy,
            hello,
            topology,
            nodes,
            routes: Vec::new(),
            warnings: Diagnostics::new(),
            name,
        };
        if cluster.present().count() < 2 {
            self.wrong(
                at(&raw.name),
                format!("a cluster of {} nodes", cluster.present().count()),
                "it has two or more [[node]]; `valiant run` runs a router on one server",
            );
        }
        if cluster.policy.resequence && cluster.topology != Topology::Mesh {
            self.wrong(
                at(&raw.name),
                "resequence = true in a fly: its packets carry their intermediate node where their number would be",
                "leave it out: packets of a flow that follow each other within `delta` stay in order",
            );
        }
        self.ports_agree(&cluster, &places);
        // Where two nodes have one number, it is not clear what belongs to which.
        if cluster.nodes.windows(2).all(|pair| pair[0].id != pair[1].id) {
            self.devices_agree(&cluster, &places);
            self.links_agree(&cluster, &places);
        }
        let routes = raw.route.iter().filter_map(|route| self.route(&cluster, route)).collect::<Vec<_>>();
        for (i, route) in routes.iter().enumerate() {
            if routes[..i].iter().any(|other| other.prefix == route.prefix) {
                let again = raw.route.iter().rfind(|r| {
                    IpPrefix::parse(r.prefix.get_ref(), &self.names, false)
                        .is_ok_and(|p| network(&p) == route.prefix)
                });
                if let Some(again) = again {
                    self.wrong(
                        at(&again.prefix),
                        format!("a second route to {}", route.prefix),
                        "keep one of them",
                    );
                }
            }
        }
        Cluster { routes, ..cluster }
    }

    fn policy(&mut self, raw: &RawPolicy) -> Policy {
        let mode = match raw.mode.as_ref().map(|m| (m, m.get_ref().as_str())) {
            None | Some((_, "adaptive")) => Mode::Adaptive,
            Some((_, "direct")) => Mode::Direct,
            Some((_, "valiant")) => Mode::Valiant,
            Some((mode, other)) => {
                self.wrong(
                    at(mode),
                    format!("'{other}' is not a way to spread packets"),
                    "it is \"adaptive\", \"direct\" (as RouteBricks has it) or \"valiant\" (all packets in two phases)",
                );
                Mode::Adaptive
            }
        };
        let delta = raw.delta.as_ref().and_then(|d| self.time(d));
        if let Some(flows) = raw.flows.as_ref().filter(|f| *f.get_ref() == 0) {
            self.wrong(at(flows), "room for no flow", "leave `flows` out for 65536");
        }
        Policy { mode, delta, flows: raw.flows.as_ref().map(|f| *f.get_ref()), resequence: raw.resequence }
    }

    fn hello(&mut self, raw: &RawHello) -> Hello {
        let every = raw.every.as_ref().and_then(|t| self.time(t));
        let dead = raw.dead.as_ref().and_then(|t| self.time(t));
        if let (Some(every), Some(dead), Some(place)) = (every, dead, &raw.dead)
            && dead < every.saturating_mul(2)
        {
            self.wrong(
                at(place),
                "a link would be dead before a second hello is due",
                "dead = at least twice `every`; three times is usual",
            );
        }
        Hello { every, dead }
    }

    fn topology(&mut self, raw: &RawTopology) -> Topology {
        match raw.kind.as_ref().map(|k| (k, k.get_ref().as_str())) {
            None | Some((_, "mesh")) => {
                if let Some(k) = &raw.k {
                    self.wrong(at(k), "a mesh has no k", "leave it out, or say kind = \"fly\"");
                }
                Topology::Mesh
            }
            Some((kind, "fly")) => {
                let k = raw.k.as_ref().map_or(0, |k| *k.get_ref());
                if k < 2 {
                    let place = raw.k.as_ref().map_or_else(|| at(kind), at);
                    self.wrong(
                        place,
                        "a k-ary n-fly needs k, the links of a node, 2 or more",
                        "for instance k = 2",
                    );
                }
                Topology::Fly { k }
            }
            Some((kind, other)) => {
                self.wrong(at(kind), format!("'{other}' is not a topology"), "it is \"mesh\" or \"fly\"");
                Topology::Mesh
            }
        }
    }

    /// The nodes by number, with their places in the text.
    fn nodes(&mut self, name: &str, raw: &[RawNode]) -> (Vec<Node>, Places) {
        let mut order: Vec<&RawNode> = raw.iter().collect();
        order.sort_by_key(|n| *n.id.get_ref());
        for pair in order.windows(2).filter(|p| p[0].id.get_ref() == p[1].id.get_ref()) {
            self.diags.push(
                Diagnostic::error(at(&pair[1].id), format!("a second node {}", pair[1].id.get_ref()))
                    .with_note(at(&pair[0].id), "the first one is here")
                    .with_help("each node has a number of its own, from 0"),
            );
        }
        let mut nodes = Vec::new();
        let mut places = Places::default();
        let mut number = 0;
        for node in order {
            let id = *node.id.get_ref();
            if id >= MAX_NODES {
                self.wrong(
                    at(&node.id),
                    format!("node {id}: a cluster has at most {MAX_NODES} nodes"),
                    "number the nodes from 0; a number may be missing, but N counts it",
                );
            }
            if let Some(extra) = node.port.get(MAX_PORTS) {
                self.wrong(
                    at(&extra.device),
                    format!("node {id} has more than {MAX_PORTS} external ports"),
                    "give some of them to another node",
                );
            }
            if let Some(workers) = node.workers.as_ref().filter(|w| *w.get_ref() == 0) {
                self.wrong(at(workers), "no worker", "leave `workers` out for one");
            }
            if let Some(cpus) = &node.cpus
                && cpus.get_ref() != "auto"
                && let Err(e) = crate::driver::cpu_list(cpus.get_ref())
            {
                self.wrong(at(cpus), e.replace("--cpus: ", ""), "or say \"auto\"");
            }
            let socket = node.socket.as_ref().map_or_else(
                || Path::new(RUN_DIR).join(format!("{name}-{id}.sock")),
                |s| self.dir.join(s.get_ref()),
            );
            // sun_path has 108 bytes with its end (unix(7)).
            if socket.as_os_str().len() > 107 {
                let place = node.socket.as_ref().map_or_else(|| at(&node.id), at);
                self.wrong(
                    place,
                    "the path of the control socket is longer than 107 bytes",
                    "choose a shorter `socket`",
                );
            }
            let mut ports = Vec::new();
            for port in &node.port {
                if let Some(port) = self.port(port, number) {
                    ports.push(port);
                }
                number += 1;
            }
            let links = node.link.iter().filter_map(|link| self.link(id, link)).collect();
            nodes.push(Node {
                id,
                removed: node.removed,
                host: node.host.clone(),
                netns: node.netns.as_ref().map(|n| n.get_ref().clone()),
                socket,
                workers: node.workers.as_ref().map_or(1, |w| *w.get_ref()),
                cpus: node.cpus.as_ref().map(|c| c.get_ref().clone()),
                ports,
                links,
            });
            places.nodes.push(at(&node.id));
            places.ports.push(node.port.iter().map(|p| (at(&p.device), at(&p.network))).collect());
            let vxlan = |l: &RawLink| l.vxlan.as_ref().map(at);
            places.links.push(
                node.link
                    .iter()
                    .map(|l| {
                        (
                            at(&l.to),
                            l.device.as_ref().map(at).or_else(|| vxlan(l)).unwrap_or_else(|| at(&l.to)),
                        )
                    })
                    .collect(),
            );
        }
        (nodes, places)
    }

    fn port(&mut self, raw: &RawPort, number: usize) -> Option<Port> {
        let device = self.device(&raw.device);
        let mtu = raw.mtu.as_ref().map(|m| self.mtu(m));
        let mac = raw.mac.as_ref().and_then(|mac| self.mac(mac));
        let given = self.prefix(&raw.network, "10.0.1.1/24")?;
        let length = given.prefix_len()?;
        let place = at(&raw.network);
        if length < MIN_PREFIX {
            self.wrong(
                place,
                format!("the network of an external port is /{MIN_PREFIX} or longer, not /{length}"),
                "between nodes a packet has 16 bits for its next hop; use several ports, or a router behind this one",
            );
        } else if length > MAX_PREFIX {
            self.wrong(
                place,
                format!("a network of /{length} has no room for hosts beside the router"),
                format!("use /{MAX_PREFIX} or shorter"),
            );
        } else if given.addr == given.network() || given.addr == broadcast(&given) {
            self.wrong(
                place,
                format!("{} is the network's own or its broadcast address", given.addr),
                "write the router's address there, as in \"10.0.1.1/24\"",
            );
        }
        Some(Port { number, device, ip: given.addr, net: network(&given), mac, mtu })
    }

    fn mac(&mut self, text: &Spanned<String>) -> Option<EtherAddr> {
        let mac = EtherAddr::literal(text.get_ref());
        match mac {
            None => self.wrong(
                at(text),
                format!("'{}' is not an Ethernet address", text.get_ref()),
                "write it as in \"02:00:00:00:00:01\"",
            ),
            Some(mac) if mac.0[0] & 1 == 1 => {
                self.wrong(at(text), "a port's address cannot be a group's", "make the first byte even");
            }
            Some(_) => {}
        }
        mac
    }

    fn link(&mut self, from: u16, raw: &RawLink) -> Option<Link> {
        let to = *raw.to.get_ref();
        if to == from {
            self.wrong(
                at(&raw.to),
                format!("node {from} has a link to itself"),
                "name the node at its other end",
            );
            return None;
        }
        let kind = match (&raw.device, &raw.vxlan) {
            (Some(device), None) => LinkKind::Device(self.device(device)),
            (None, Some(tunnel)) => {
                let raw = tunnel.get_ref();
                if raw.vni >= 1 << 24 {
                    self.wrong(at(tunnel), format!("VNI {}", raw.vni), "a VNI has 24 bits: up to 16777215");
                }
                let device = self.device(&raw.device);
                let local = self.prefix(&raw.local, "192.168.0.1/24");
                let remote = self.address(&raw.remote);
                let gateway = raw.gateway.as_ref().and_then(|g| Some((self.address(g)?, at(g))));
                let mac = raw.mac.as_ref().and_then(|mac| self.mac(mac));
                let (local, remote) = (local?, remote?);
                if let Some((gateway, place)) = gateway.filter(|(g, _)| !local.contains(*g)) {
                    self.wrong(
                        place,
                        format!("the gateway {gateway} is not in the network of {}", local.addr),
                        format!("name a router in {}", network(&local)),
                    );
                } else if gateway.is_none() && !local.contains(remote) {
                    self.wrong(
                        at(&raw.remote),
                        format!("{remote} is not in the network of {}", local.addr),
                        "say by which router it is reached: gateway = \"...\"",
                    );
                }
                let gateway = gateway.map(|(g, _)| g);
                LinkKind::Vxlan(Vxlan { vni: raw.vni, device, local, remote, gateway, mac })
            }
            _ => {
                self.wrong(
                    at(&raw.to),
                    format!("the link to node {to} is not one thing"),
                    "say either device = \"...\" or vxlan = { ... }",
                );
                return None;
            }
        };
        let mtu = raw.mtu.as_ref().map(|m| self.mtu(m)).unwrap_or(match kind {
            LinkKind::Device(_) => DEFAULT_MTU,
            LinkKind::Vxlan(_) => DEFAULT_MTU + VXLAN_BYTES,
        });
        let rate_bps = raw.rate.as_ref().map(|r| self.rate(r));
        Some(Link { to, kind, rate_bps, mtu })
    }

    /// No network of a port overlaps another's.
    fn ports_agree(&mut self, cluster: &Cluster, places: &Places) {
        let place = |id: u16, port: usize| places.port(cluster, id, port).map(|(_, net)| net);
        let mut all: Vec<_> =
            cluster.ports().map(|(node, i, port)| (ends(&port.net), node.id, i, port)).collect();
        all.sort_by_key(|(ends, id, i, _)| (*ends, *id, *i));
        // In the order of their first addresses, a network overlaps the one before it or none (they are nested or apart).
        let mut widest: Option<usize> = None;
        for i in 0..all.len() {
            let ((first, last), id, port_index, port) = all[i];
            if let Some(w) = widest.filter(|w| all[*w].0.1 >= first) {
                let (_, other_id, other_index, other) = all[w];
                self.diags.push(
                    Diagnostic::error(
                        place(id, port_index),
                        format!(
                            "the network {} of node {id}'s {} overlaps {} of node {other_id}'s {}",
                            port.net, port.device, other.net, other.device
                        ),
                    )
                    .with_note(place(other_id, other_index), "the other one is here")
                    .with_help("each external port has a network of its own: the output port follows from the address"),
                );
            }
            if widest.is_none_or(|w| all[w].0.1 < last) {
                widest = Some(i);
            }
        }
    }

    /// No device serves twice.
    fn devices_agree(&mut self, cluster: &Cluster, places: &Places) {
        let mut used: BTreeMap<_, (u16, String, Span)> = BTreeMap::new();
        for (index, node) in cluster.nodes.iter().enumerate().filter(|(_, n)| !n.removed) {
            let ports = node.ports.iter().zip(&places.ports[index]).map(|(p, (span, _))| {
                (p.device.as_str(), *span, format!("an external port of node {}", node.id))
            });
            let links = node.links.iter().filter_map(|l| {
                let span = places.link(cluster, node.id, l.to)?.1;
                let LinkKind::Device(device) = &l.kind else { return None };
                Some((device.as_str(), span, format!("node {}'s link to node {}", node.id, l.to)))
            });
            // Tunnels may share a device with each other.
            let mut fabrics: Vec<(&Vxlan, Span)> = Vec::new();
            for link in &node.links {
                let LinkKind::Vxlan(tunnel) = &link.kind else { continue };
                let Some((_, span)) = places.link(cluster, node.id, link.to) else { continue };
                for (other, first) in fabrics.iter().filter(|(t, _)| t.device == tunnel.device) {
                    let what = if (other.vni, other.remote) == (tunnel.vni, tunnel.remote) {
                        "two tunnels with the same VNI and the same other end"
                    } else if other.local != tunnel.local || other.mac() != tunnel.mac() {
                        "two addresses of this node"
                    } else {
                        continue;
                    };
                    self.diags.push(
                        Diagnostic::error(span, format!("{what} on the device {}", tunnel.device))
                            .with_note(*first, "the other one is here")
                            .with_help("tunnels of a device differ in vni or remote, and have local and mac in common"),
                    );
                    break;
                }
                fabrics.push((tunnel, span));
            }
            let shared = fabrics.iter().enumerate().filter_map(|(i, (tunnel, span))| {
                let first = fabrics[..i].iter().all(|(t, _)| t.device != tunnel.device);
                let what = || format!("the tunnels of node {}", node.id);
                first.then(|| (tunnel.device.as_str(), *span, what()))
            });
            let links = links.chain(shared.collect::<Vec<_>>());
            for (device, span, what) in ports.chain(links) {
                let key = (node.host.as_deref(), node.netns.as_deref(), device);
                if let Some((owner, before, first)) = used.get(&key) {
                    // Where nodes do not say on which machine they run, each may have an eth0.
                    if *owner == node.id || node.netns.is_some() || node.host.is_some() {
                        self.diags.push(
                            Diagnostic::error(span, format!("{device} is used twice: {before}, and {what}"))
                                .with_note(*first, "first used here")
                                .with_help("each port and each link has a device of its own"),
                        );
                    }
                } else {
                    used.insert(key, (node.id, what, span));
                }
            }
        }
    }

    /// Links have two ends, and join what the topology wants joined.
    fn links_agree(&mut self, cluster: &Cluster, places: &Places) {
        let mtu = cluster.mtu();
        for node in cluster.present() {
            for (i, link) in node.links.iter().enumerate() {
                let Some((to, device)) = places.link(cluster, node.id, link.to) else { continue };
                if node.links[..i].iter().any(|l| l.to == link.to) {
                    self.wrong(
                        to,
                        format!("node {} has two links to node {}", node.id, link.to),
                        "join them outside of the cluster (LACP), or keep one",
                    );
                    continue;
                }
                let Some(peer) = cluster.node(link.to) else {
                    let known: Vec<String> = cluster.nodes.iter().map(|n| n.id.to_string()).collect();
                    self.wrong(
                        to,
                        format!("a link to node {}, which the file does not have", link.to),
                        format!("the nodes are {}", known.join(", ")),
                    );
                    continue;
                };
                if peer.removed {
                    continue;
                }
                let Some(back) = peer.links.iter().find(|l| l.to == node.id) else {
                    self.wrong(
                        to,
                        format!(
                            "node {} has a link to node {}, but not the other way round",
                            node.id, peer.id
                        ),
                        format!(
                            "a link is named at both ends: add [[node.link]] with to = {} to node {}",
                            node.id, peer.id
                        ),
                    );
                    continue;
                };
                match (&link.kind, &back.kind) {
                    (LinkKind::Device(_), LinkKind::Device(_)) => {}
                    (LinkKind::Vxlan(here), LinkKind::Vxlan(there)) => {
                        if here.vni != there.vni
                            || here.local.addr != there.remote
                            || here.remote != there.local.addr
                        {
                            self.wrong(
                                device,
                                format!(
                                    "the ends of the tunnel between nodes {} and {} differ",
                                    node.id, peer.id
                                ),
                                "both have the same vni, and one's local is the other's remote",
                            );
                        }
                    }
                    _ => self.wrong(
                        device,
                        format!(
                            "the link between nodes {} and {} is a tunnel at one end only",
                            node.id, peer.id
                        ),
                        "make both ends alike",
                    ),
                }
                let overhead = if matches!(link.kind, LinkKind::Vxlan(_)) { VXLAN_BYTES } else { 0 };
                if link.mtu < mtu + overhead {
                    self.wrong(
                        device,
                        format!(
                            "the link to node {} takes frames of {} bytes; a packet of an external port needs {}",
                            link.to,
                            link.mtu + 14,
                            mtu + overhead + 14
                        ),
                        format!("set the device's MTU to {} or more, here and there (mtu = ...), or lower the ports' mtu", mtu + overhead),
                    );
                }
            }
        }
        if let Topology::Fly { k } = cluster.topology {
            if k >= 2 {
                self.fly_agrees(cluster, places);
            }
            return;
        }
        let present: Vec<&Node> = cluster.present().collect();
        for (i, a) in present.iter().enumerate() {
            let linked = |x: &Node, y: u16| x.links.iter().any(|l| l.to == y);
            for b in present[i + 1..].iter().filter(|b| !linked(a, b.id) && !linked(b, a.id)) {
                let place = places.node(cluster, b.id);
                self.diags.push(
                    Diagnostic::error(place, format!("no link between node {} and node {}", a.id, b.id)).with_help(
                        "in a mesh each node has a link to each other: add a [[node.link]] to both, or say topology.kind = \"fly\"",
                    ),
                );
            }
        }
    }

    /// A fly has the links that it has, and no others.
    fn fly_agrees(&mut self, cluster: &Cluster, places: &Places) {
        let fly = match cluster.joined() {
            Ok(fly) => fly,
            Err((message, help)) => {
                let last = cluster.nodes.last().and_then(|n| places.node(cluster, n.id));
                self.diags.push(Diagnostic::error(last, message).with_help(help));
                return;
            }
        };
        for node in cluster.present() {
            let me = NodeId(node.id);
            let next: Vec<NodeId> = fly.next(me).collect();
            for to in next.iter().filter(|to| cluster.node(to.0).is_some_and(|n| !n.removed)) {
                if node.links.iter().all(|l| l.to != to.0) {
                    let list: Vec<String> = next.iter().map(ToString::to_string).collect();
                    self.diags.push(
                        Diagnostic::error(
                            places.node(cluster, node.id),
                            format!("no link from node {me} to node {to}"),
                        )
                        .with_help(format!(
                            "in this {fly}, node {me} sends to nodes {}: add a [[node.link]] to both ends",
                            list.join(", ")
                        )),
                    );
                }
            }
            for link in &node.links {
                let to = NodeId(link.to);
                let known = cluster.node(link.to).is_some();
                if known && !fly.joins(me, to) && !fly.joins(to, me) {
                    let list: Vec<String> = fly.neighbours(me).iter().map(ToString::to_string).collect();
                    self.diags.push(
                        Diagnostic::error(
                            places.link(cluster, node.id, link.to).map(|p| p.0),
                            format!("a link between nodes {me} and {to}, which no packet would take"),
                        )
                        .with_help(format!(
                            "in this {fly}, node {me} has links to nodes {}",
                            list.join(", ")
                        )),
                    );
                }
            }
        }
    }

    fn route(&mut self, cluster: &Cluster, raw: &RawRoute) -> Option<Route> {
        let given = self.prefix(&raw.prefix, "10.9.0.0/16");
        let via = self.address(&raw.via)?;
        let prefix = network(&given?);
        if given != Some(prefix) {
            self.wrong(
                at(&raw.prefix),
                format!("a route to {} within its network", given?.addr),
                format!("write {prefix}"),
            );
        }
        let Some((node, _, port)) = cluster.ports().find(|(_, _, p)| p.net.contains(via)) else {
            self.wrong(
                at(&raw.via),
                format!("{via} is in the network of no external port"),
                "a route goes by a neighbour of the router; the networks are those of the [[node.port]]s",
            );
            return None;
        };
        if via == port.ip || via == port.net.addr || via == broadcast(&port.net) {
            self.wrong(
                at(&raw.via),
                format!("{via} is not a neighbour of node {}", node.id),
                format!("name another router's address in {}", port.net),
            );
        }
        Some(Route { prefix, via, port: port.number })
    }
}

/// Where things are in the text, in the order of the nodes.
#[derive(Default)]
struct Places {
    nodes: Vec<Span>,
    /// Device and network of each port.
    ports: Vec<Vec<(Span, Span)>>,
    /// Peer and device of each link.
    links: Vec<Vec<(Span, Span)>>,
}

impl Places {
    fn index(cluster: &Cluster, id: u16) -> Option<usize> {
        cluster.nodes.iter().position(|n| n.id == id)
    }
    fn node(&self, cluster: &Cluster, id: u16) -> Option<Span> {
        self.nodes.get(Self::index(cluster, id)?).copied()
    }
    fn port(&self, cluster: &Cluster, id: u16, port: usize) -> Option<(Span, Span)> {
        self.ports.get(Self::index(cluster, id)?)?.get(port).copied()
    }
    fn link(&self, cluster: &Cluster, id: u16, to: u16) -> Option<(Span, Span)> {
        let index = Self::index(cluster, id)?;
        let link = cluster.nodes[index].links.iter().position(|l| l.to == to)?;
        self.links.get(index)?.get(link).copied()
    }
}
