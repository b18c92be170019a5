//! The program of the whole router is split into a configuration for each node.
//!
//! The program is an ordinary configuration with the devices of all nodes. What a node runs is the same
//! graph, with
//!
//! - `Idle` in place of each device that another node has;
//! - `ClusterEncap` in place of each `ARPQuerier` whose packets would leave by such a device: they go to the
//!   node that has it, with the next hop in their address, after all work on their headers has been done;
//! - the packets that come from other nodes for a port of this one at that port's `ARPQuerier`;
//! - a fair queue in place of each `Queue` before one of its own devices;
//! - answers to packets from outside whose output node is dead, if the routes are known to be in one table;
//! - the cluster's own elements, the links to other nodes, and a control socket.
//!
//! This happens to the flat graph, where compound elements are expanded and variables are substituted.
//! Devices stand in it under names of their own until the end, as nodes may have devices of the same name.

mod digest;
mod fabrics;
mod graph;
mod text;

use super::file::{Cluster, Link, LinkKind, Node, Route, Topology, Vxlan, broadcast};
use cluster::Mode;
use digest::digest;
use fabrics::{Fabrics, HELLO_PAINT, HELLO_QUEUE};
use graph::Graph;
use lang::{Config, Diagnostic, Diagnostics, Library, LoadOptions, PortRef, Source, split_args, unquote};
use runtime::{Class, Notify, Registry, Role};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;
use text::{ether, seconds, word};

/// The classes that replace a device of another node, an ARPQuerier before such a device, and a queue.
const NO_DEVICE: &str = "Idle";
const ENCAP: &str = "ClusterEncap";
const FAIR_QUEUE: &str = "ClusterQueue";
/// Classes that error messages name.
const RECEIVER: &str = "FromDevice";
const SENDER: &str = "ToDevice";
const QUERIER: &str = "ARPQuerier";
/// The element that measures a hop.
const METER: &str = "MeasureHop(STAMP true)";
/// The smallest capacity of a link's queue, in packets,
const LINK_QUEUE: usize = 1000;
/// and the capacity for each input node: as many short packets as take the time of one long one.
const OF_A_NODE: usize = 32;
/// The headers of a tunnel in front of an internal frame that waits for the device: Ethernet, IP, UDP and
/// VXLAN.
const TUNNEL_BYTES: usize = 50;
/// The rate limit of ICMP unreachable messages, in packets a second (RFC 1812, section 4.3.2.8).
const MAX_ANSWERS: u32 = 1000;

/// A queue of internal frames, which have this many bytes in front of them.
fn queue(cluster: &Cluster, offset: usize) -> String {
    if !cluster.fair {
        return format!("Queue({LINK_QUEUE})");
    }
    let inputs = cluster.ports().map(|(node, ..)| usize::from(node.id) + 1).max().unwrap_or(0);
    let offset = if offset > 0 { format!(", OFFSET {offset}") } else { String::new() };
    format!("{FAIR_QUEUE}(cluster, {}{offset})", LINK_QUEUE.max(OF_A_NODE * inputs))
}

/// A placeholder for the device of a port until each node's own is known. The letters after the number
/// prevent that 1 is found in 10.
fn stand_in(port: usize) -> String {
    format!("CLUSTER_PORT_{port}_DEVICE")
}

/// Whether the cluster gives an element this name.
fn reserved(name: &str) -> bool {
    let link = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    name == "cluster"
        || name == "vlb"
        || name.starts_with("cluster_")
        || name.strip_prefix("link").is_some_and(link)
}

/// A port in the program.
#[derive(Clone, Debug, Default)]
struct Uses {
    sources: Vec<usize>,
    sinks: Vec<usize>,
    /// The ARPQuerier in front of the sinks.
    querier: usize,
    /// The queue before it.
    queues: Vec<usize>,
    /// The output of the routing table for this port.
    output: Option<usize>,
}

/// The program's elements, by the roles of their classes.
struct Roles<'a> {
    config: &'a Config,
    registry: &'a Registry,
}

impl Roles<'_> {
    fn class(&self, element: usize) -> Option<&Class> {
        self.registry.get(&self.config.elements[element].class)
    }
    fn of(&self, element: usize) -> Role {
        self.class(element).map_or(Role::Ordinary, |class| class.role)
    }
    /// Whether no packets come from it.
    fn is_silent(&self, element: usize) -> bool {
        self.class(element).is_some_and(|class| class.notify == Notify::Silent)
    }
}

/// The program of the whole router, analyzed.
pub(crate) struct Whole {
    config: Config,
    /// By the number of the port.
    ports: Vec<Uses>,
    /// The routing table that the cluster's routes go to, and the class that it must be of so that routes can
    /// be added.
    table: Option<(usize, Option<&'static str>)>,
    /// Elements that no packets come from.
    silent: BTreeSet<usize>,
    digest: String,
}

impl Whole {
    /// Loads the program with the variables that the cluster file defines.
    ///
    /// # Errors
    /// All errors of the program.
    pub(crate) fn load(
        cluster: &Cluster,
        source: &Source,
        library: Option<Library>,
        registry: &Registry,
    ) -> Result<Self, Diagnostics> {
        let options = LoadOptions { defines: variables(cluster), library };
        let config = lang::load(std::slice::from_ref(source), &options, registry)?;
        let roles = Roles { config: &config, registry };
        let graph = Graph::new(&config);
        let mut diags = Diagnostics::new();
        let mut ports: Vec<Uses> = cluster.ports().map(|_| Uses::default()).collect();
        for (index, element) in config.elements.iter().enumerate() {
            if reserved(&element.name) {
                diags.push(
                    Diagnostic::error(
                        element.span,
                        format!("'{}' is a name that `valiant cluster` uses", element.name),
                    )
                    .with_help(
                        "choose another one: 'cluster', 'vlb', 'cluster_...' and 'linkN...' are reserved",
                    ),
                );
            }
            let role = roles.of(index);
            if role == Role::DeviceSource || role == Role::DeviceSink {
                match port_of(cluster, &element.config) {
                    Ok(port) if role == Role::DeviceSource => ports[port].sources.push(index),
                    Ok(port) => ports[port].sinks.push(index),
                    Err(message) => diags.push(
                        Diagnostic::error(element.config_span, format!("{}: {message}", element.class)).with_help(
                            "name devices by the variables $DEV0, $DEV1, ...: the ports of the cluster file, numbered over all nodes",
                        ),
                    ),
                }
            }
        }
        for (node, _, port) in cluster.ports() {
            let uses = &mut ports[port.number];
            let what = || format!("port {} ({} of node {})", port.number, port.device, node.id);
            for (list, class) in [(&uses.sources, RECEIVER), (&uses.sinks, SENDER)] {
                if list.is_empty() {
                    diags.push(
                        Diagnostic::error(
                            None,
                            format!("{}: the program has no {class} for {}", source.name, what()),
                        )
                        .with_help(format!(
                            "{class}($DEV{}); or delete the port from the cluster file",
                            port.number
                        )),
                    );
                }
            }
            let Some(sink) = uses.sinks.first().copied() else { continue };
            let queriers: Vec<usize> = (0..config.elements.len())
                .filter(|e| roles.of(*e) == Role::NextHopResolver)
                .filter(|e| graph.reach(&[*e], |_| false).contains(&sink))
                .collect();
            let place = config.elements[sink].span;
            match queriers[..] {
                [one] => {
                    uses.querier = one;
                    let between = |e: &usize| {
                        roles.of(*e) == Role::Queue
                            && graph.reach(&[*e], |_| false).iter().any(|e| uses.sinks.contains(e))
                    };
                    let behind = graph.reach(&[one], |_| false);
                    uses.queues = behind.into_iter().filter(between).collect();
                    if port.rate_bps.is_some() && uses.queues.is_empty() {
                        diags.push(
                            Diagnostic::error(place, format!("{} has a rate, but no Queue before its ToDevice", what()))
                                .with_help("the rate is shared fairly by a Queue before the device: ... -> Queue -> ToDevice"),
                        );
                    }
                }
                [] => diags.push(
                    Diagnostic::error(place, format!("{} of {} is not behind an {QUERIER}", config.elements[sink].class, what()))
                        .with_help(
                            "in a cluster, IP packets leave by an ARPQuerier: packets from other nodes enter there, with their next hop",
                        ),
                ),
                [first, second, ..] => diags.push(
                    Diagnostic::error(place, format!("{} is behind several {QUERIER}s", what()))
                        .with_note(config.elements[first].span, "one of them")
                        .with_note(config.elements[second].span, "another")
                        .with_help("send everything for a port through one ARPQuerier"),
                ),
            }
        }
        if !diags.has_errors() {
            one_device_each(&config, &graph, &ports, &mut diags);
        }
        let table = find_table(cluster, &roles, &mut diags);
        if let Some((table, _)) = table {
            outputs(&config, &graph, table, &mut ports);
        }
        for Route { prefix, via, port } in &cluster.routes {
            if table.is_none() {
                diags.push(
                    Diagnostic::error(None, format!("{}: no routing table for the route to {prefix}", source.name))
                        .with_help("the program has none, or several; if several, name one in the cluster file: table = \"rt\""),
                );
                break;
            }
            if ports.get(*port).is_some_and(|p| p.output.is_none()) {
                diags.push(
                    Diagnostic::error(
                        None,
                        format!(
                            "{}: no output of the routing table leads to port {port}, where {via} is",
                            source.name
                        ),
                    )
                    .with_help("each port has an output of the table of its own"),
                );
            }
        }
        diags.sort();
        diags.set_sources(config.sources.clone());
        if diags.has_errors() {
            return Err(diags);
        }
        let silent = (0..config.elements.len()).filter(|e| roles.is_silent(*e)).collect();
        let digest = digest(cluster, &config);
        Ok(Self { config, ports, table, silent, digest })
    }

    /// Warnings about the program.
    pub(crate) fn warnings(&self) -> &Diagnostics {
        &self.config.warnings
    }

    /// A digest of the settings that all nodes must have in common.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// The configuration of a node, as text.
    ///
    /// # Errors
    /// Packets would leave by another node's device without passing an ARPQuerier.
    pub(crate) fn node(&self, cluster: &Cluster, node: &Node) -> Result<String, Diagnostics> {
        let mut config = self.config.clone();
        let mut cut = BTreeSet::new();
        let mut quiet = BTreeSet::new();
        let mut added = String::new();
        for (owner, index, port) in cluster.ports().filter(|(owner, ..)| owner.id != node.id) {
            let uses = &self.ports[port.number];
            for element in uses.sources.iter().chain(&uses.sinks) {
                config.elements[*element].class = NO_DEVICE.to_owned();
                config.elements[*element].config.clear();
            }
            quiet.extend(uses.sources.iter().copied());
            let querier = &mut config.elements[uses.querier];
            querier.class = ENCAP.to_owned();
            querier.config = format!("cluster, NODE {}, PORT {index}, NET {}", owner.id, port.net);
            let _ = writeln!(added, "{} -> [0]vlb;", querier.name);
            cut.insert(uses.querier);
        }
        let gone: Vec<PortRef> =
            config.connections.iter().filter(|c| cut.contains(&c.from.element)).map(|c| c.to).collect();
        config.connections.retain(|c| !cut.contains(&c.from.element));
        self.nothing_slips_past(cluster, node, &config, &quiet)?;
        // Elements that only these connections fed are idle now, but their inputs must be connected.
        let mut fed: Vec<PortRef> =
            gone.into_iter().filter(|to| config.connections.iter().all(|c| c.to != *to)).collect();
        fed.sort_unstable();
        fed.dedup();
        for (i, to) in fed.iter().enumerate() {
            let _ = writeln!(
                added,
                "cluster_idle{i} :: Idle -> [{}]{};",
                to.port, config.elements[to.element].name
            );
        }
        for (index, port) in node.ports.iter().enumerate().filter(|_| cluster.fair) {
            for queue in &self.ports[port.number].queues {
                let queue = &mut config.elements[*queue];
                let capacity = queue.config.trim();
                let capacity = if capacity.is_empty() { String::new() } else { format!(", {capacity}") };
                queue.config = format!("cluster{capacity}, PORT {index}");
                queue.class = FAIR_QUEUE.to_owned();
            }
        }
        self.at_devices(cluster, node, &mut config, &mut added);
        if let Some((table, changeable)) = self.table {
            let table = &mut config.elements[table];
            if let Some(class) = changeable {
                class.clone_into(&mut table.class);
            }
            self.add_routes(cluster, table);
        }
        for (owner, _, port) in cluster.ports() {
            // The names of devices have a meaning only on the node that has them.
            let name = if owner.id == node.id {
                port.device.clone()
            } else {
                format!("node{}:{}", owner.id, port.device)
            };
            let stand_in = stand_in(port.number);
            for element in config.elements.iter_mut().filter(|e| e.config.contains(&stand_in)) {
                element.config = element.config.replace(&stand_in, &word(&name));
            }
        }
        let mut text = format!(
            "// Node {} of the cluster {}: written by `valiant cluster`, from the cluster file and its program.\n\n{}",
            node.id,
            cluster.name,
            config.unparse()
        );
        text += "\n// The cluster.\n";
        self.cluster_elements(cluster, node, &mut text);
        text += &added;
        Ok(text)
    }

    /// The elements before and after devices: a port with a rate gets a shaper, and, if that is requested,
    /// elements measure the latency of frames of `valiant gen` from outside to here, and from their last hop
    /// to leaving.
    fn at_devices(&self, cluster: &Cluster, node: &Node, config: &mut Config, added: &mut String) {
        for port in &node.ports {
            let uses = &self.ports[port.number];
            let (mut ins, mut outs) = (0, 0);
            config.connections.retain(|c| {
                let (way, before) = if uses.sources.contains(&c.from.element) {
                    ("in", &mut ins)
                } else if uses.sinks.contains(&c.to.element) {
                    ("out", &mut outs)
                } else {
                    return true;
                };
                // Usually a port is used once.
                let more = if *before > 0 { format!("_{before}") } else { String::new() };
                *before += 1;
                let mut between = String::new();
                if let ("out", Some(rate)) = (way, port.rate_bps) {
                    let _ = write!(
                        between,
                        "cluster_shaper{}{more} :: BandwidthShaper({rate}bps) -> ",
                        port.number
                    );
                }
                if cluster.measure {
                    let _ = write!(between, "cluster_hop_{way}{}{more} :: {METER} -> ", port.number);
                }
                if between.is_empty() {
                    return true;
                }
                let [from, to] = [c.from, c.to].map(|end| &self.config.elements[end.element].name);
                let _ = writeln!(added, "{from}[{}] -> {between}[{}]{to};", c.from.port, c.to.port);
                false
            });
        }
    }

    /// The cluster's own elements of a node.
    fn cluster_elements(&self, cluster: &Cluster, node: &Node, text: &mut String) {
        let mut info = vec![
            format!("NODE {}", node.id),
            format!("NODES {}", cluster.size()),
            format!("RATE {}bps", cluster.rate_bps),
        ];
        if let (Topology::Fly { .. }, Ok(fly)) = (cluster.topology, cluster.joined()) {
            info.push(format!("TOPOLOGY fly {} {}", fly.fan_out(), fly.externals()));
        }
        let mode = match cluster.policy.mode {
            Mode::Adaptive => "adaptive",
            Mode::Direct => "direct",
            Mode::Valiant => "valiant",
        };
        info.push(format!("MODE {mode}"));
        // If output nodes restore the order, flowlets need not keep it.
        let none = cluster.policy.resequence.then_some(Duration::ZERO);
        info.extend(cluster.policy.delta.or(none).map(|d| format!("DELTA {}", seconds(d))));
        info.extend(cluster.policy.flows.map(|n| format!("FLOWS {n}")));
        info.extend(cluster.link_bps.map(|r| format!("LINK_RATE {r}bps")));
        if cluster.policy.resequence {
            info.push("RESEQUENCE true".to_owned());
        }
        info.extend(
            cluster.key_file.as_ref().map(|f| format!("KEY_FILE {}", word(&f.display().to_string()))),
        );
        info.push(format!("NAME {}", cluster.name));
        info.push(format!("DIGEST {}", self.digest));
        let _ = writeln!(text, "cluster :: ClusterInfo({});", info.join(", "));
        let _ = writeln!(text, "vlb :: ClusterSwitch(cluster);");
        let nets: String = node.ports.iter().map(|p| format!(", {}", p.net)).collect();
        if node.ports.is_empty() {
            let _ = writeln!(text, "vlb[{}] -> cluster_none :: Discard;", node.id);
        } else {
            let order =
                if cluster.policy.resequence { "cluster_order :: Resequencer(cluster) -> " } else { "" };
            let _ = writeln!(text, "vlb[{}] -> {order}cluster_out :: ClusterDecap(cluster{nets});", node.id);
        }
        for (i, port) in node.ports.iter().enumerate() {
            let querier = &self.config.elements[self.ports[port.number].querier].name;
            let _ = writeln!(text, "cluster_out[{i}] -> [0]{querier};");
        }
        if cluster.ports().all(|(owner, ..)| owner.id == node.id) {
            let _ = writeln!(text, "cluster_here :: Idle -> [0]vlb;");
        }
        let links: Vec<&Link> =
            node.links.iter().filter(|l| cluster.node(l.to).is_some_and(|peer| !peer.removed)).collect();
        let fabrics = Fabrics::of(&links);
        fabrics.write(&queue(cluster, TUNNEL_BYTES), text);
        for link in &links {
            self.link(cluster, link, &fabrics, text);
        }
        if links.is_empty() {
            let _ = writeln!(text, "cluster_alone :: Idle -> [1]vlb;");
        }
        for id in (0..cluster.size()).filter(|id| *id != node.id && links.iter().all(|l| l.to != *id)) {
            let _ = writeln!(text, "vlb[{id}] -> cluster_unlinked{id} :: Discard;");
        }
        if let (Some((table, _)), Some(port)) = (self.table, node.ports.first()) {
            let table = &self.config.elements[table].name;
            let _ = writeln!(text, "cluster_unreachable :: ICMPError({}, unreachable, net);", port.ip);
            let _ = writeln!(
                text,
                "vlb[{}] -> Strip(14) -> cluster_answered :: RatedSplitter({MAX_ANSWERS}) -> cluster_unreachable -> [0]{table};",
                cluster.size()
            );
        }
        if let Some((table, _)) = self.table {
            let table = &self.config.elements[table].name;
            let _ = writeln!(text, "cluster_routes :: ClusterRoutes(cluster, TABLE {table});");
        }
        let socket = word(&node.socket.display().to_string());
        let _ = writeln!(text, "cluster_control :: ControlSocket(UNIX, {socket});");
    }

    /// A link to a neighbor.
    fn link(&self, cluster: &Cluster, link: &Link, fabrics: &Fabrics<'_>, text: &mut String) {
        let (name, queue) = (format!("link{}", link.to), queue(cluster, 0));
        let shaper = if cluster.shape {
            format!("{name}_shaper :: BandwidthShaper({}bps) -> ", cluster.link_rate(link))
        } else {
            String::new()
        };
        // Hellos bypass the queue of packets, because a full link is not a dead one.
        let (from, to, hellos) = match &link.kind {
            // Internal frames do not have the address of a device.
            LinkKind::Device(device) => {
                let device = word(device);
                (
                    format!("{name}_in :: FromDevice({device}, PROMISC true)"),
                    format!(
                        "{name}_queue :: {queue} -> {shaper}[1]{name}_first :: PrioSched -> {name}_out :: ToDevice({device})"
                    ),
                    format!("{name}_hellos :: Queue({HELLO_QUEUE}) -> [0]{name}_first"),
                )
            }
            LinkKind::Vxlan(tunnel) => {
                let Some((fabric, output)) = fabrics.place(tunnel) else { return };
                // The device has a queue for all its tunnels.
                let queue = if shaper.is_empty() {
                    shaper
                } else {
                    format!("{name}_queue :: {queue} -> {shaper}{name}_unqueue :: Unqueue -> ")
                };
                let hop = tunnel.gateway.map_or_else(String::new, |g| format!(" -> SetIPAddress({g})"));
                let Vxlan { vni, local, remote, .. } = tunnel;
                (
                    format!("{fabric}_tunnels[{output}]"),
                    format!(
                        "{queue}{name}_tunnel :: VXLANEncap({vni}, {}, {remote}, MTU {}){hop} -> [0]{fabric}_arp",
                        local.addr, link.mtu
                    ),
                    format!("Paint({HELLO_PAINT}) -> {name}_tunnel"),
                )
            }
        };
        let meter = if cluster.measure { format!("{name}_hop :: {METER} -> ") } else { String::new() };
        let mut args =
            vec!["cluster".to_owned(), format!("PEER {}", link.to), format!("MTU {}", cluster.mtu())];
        args.extend(cluster.hello.every.map(|t| format!("HELLO {}", seconds(t))));
        args.extend(cluster.hello.dead.map(|t| format!("DEAD {}", seconds(t))));
        let _ = writeln!(
            text,
            "{name} :: ClusterLink({});\n{from} -> {meter}[0]{name}[0] -> [1]vlb;\nvlb[{}] -> [1]{name};\n\
             {name}[1] -> {to};\n{name}[2] -> {hellos};",
            args.join(", "),
            link.to
        );
    }

    /// Routes of the cluster file come first, and so count before the program's own for the same network.
    fn add_routes(&self, cluster: &Cluster, table: &mut lang::ElementDecl) {
        let mut routes = String::new();
        for Route { prefix, via, port } in &cluster.routes {
            if let Some(output) = self.ports[*port].output {
                let _ = write!(routes, "{prefix} {via} {output}, ");
            }
        }
        table.config.insert_str(0, &routes);
    }

    /// Packets may reach another node's device only through the cluster.
    fn nothing_slips_past(
        &self,
        cluster: &Cluster,
        node: &Node,
        config: &Config,
        quiet: &BTreeSet<usize>,
    ) -> Result<(), Diagnostics> {
        let graph = Graph::new(config);
        // Elements that were fed only by connections that have been cut produce no packets.
        let before = Graph::new(&self.config);
        let mut diags = Diagnostics::new();
        let starts: Vec<usize> = (0..config.elements.len())
            .filter(|e| !quiet.contains(e) && !self.silent.contains(e) && before.is_source(*e))
            .collect();
        for start in starts {
            let reached = graph.reach(&[start], |_| false);
            for (owner, _, port) in cluster.ports().filter(|(owner, ..)| owner.id != node.id) {
                for sink in self.ports[port.number].sinks.iter().filter(|s| reached.contains(s)) {
                    let (from, to) = (&self.config.elements[start], &self.config.elements[*sink]);
                    diags.push(
                        Diagnostic::error(
                            to.span,
                            format!(
                                "on node {}, packets of '{}' would leave by {} of node {} past its {QUERIER}",
                                node.id, from.name, port.device, owner.id
                            ),
                        )
                        .with_note(from.span, "they are from here")
                        .with_help(
                            "only packets that go through the port's ARPQuerier can reach another node",
                        ),
                    );
                }
            }
        }
        diags.sort();
        diags.set_sources(config.sources.clone());
        if diags.has_errors() { Err(diags) } else { Ok(()) }
    }
}

/// The variables of the program: the file's own, and seven for each port, numbered over all nodes.
fn variables(cluster: &Cluster) -> Vec<(String, String)> {
    let mut defines = cluster.defines.clone();
    for (_, _, port) in cluster.ports() {
        let n = port.number;
        let mut define = |name: &str, value: String| defines.push((format!("{name}{n}"), value));
        define("DEV", stand_in(n));
        define("IP", port.ip.to_string());
        define("NET", port.net.to_string());
        define("BASE", port.net.addr.to_string());
        define("BCAST", broadcast(&port.net).to_string());
        if let Some(mac) = port.mac {
            define("MAC", ether(mac));
        }
        if let Some(mtu) = port.mtu {
            define("MTU", mtu.to_string());
        }
    }
    defines
}

/// The port whose device an element's arguments name.
fn port_of(cluster: &Cluster, config: &str) -> Result<usize, String> {
    let args = split_args(config);
    let named = args.iter().find_map(|a| a.text.strip_prefix("DEVNAME ").map(str::trim));
    let device = unquote(named.or_else(|| args.first().map(|a| a.text.as_str())).unwrap_or_default());
    if let Some((_, _, port)) = cluster.ports().find(|(_, _, p)| stand_in(p.number) == device) {
        return Ok(port.number);
    }
    let mut like = cluster.ports().filter(|(_, _, p)| p.device == device);
    match (like.next(), like.next()) {
        (Some((_, _, port)), None) => Ok(port.number),
        (Some(_), Some(_)) => Err(format!("several nodes have a device '{device}'")),
        (None, _) => Err(format!("'{device}' is not a port of the cluster file")),
    }
}

/// An ARPQuerier sends to only one device.
fn one_device_each(config: &Config, graph: &Graph, ports: &[Uses], diags: &mut Diagnostics) {
    for (number, port) in ports.iter().enumerate() {
        let reached = graph.reach(&[port.querier], |_| false);
        let others = |(n, p): &(usize, &Uses)| *n != number && p.sinks.iter().any(|s| reached.contains(s));
        if let Some((other, uses)) = ports.iter().enumerate().find(others) {
            let querier = &config.elements[port.querier];
            diags.push(
                Diagnostic::error(
                    querier.span,
                    format!(
                        "packets from '{}' can reach the devices of port {number} and of port {other}",
                        querier.name
                    ),
                )
                .with_note(config.elements[uses.sinks[0]].span, "one of them")
                .with_help("give each port an ARPQuerier of its own"),
            );
        }
    }
}

/// The routing table: the one that the file names, or the only one.
fn find_table(
    cluster: &Cluster,
    roles: &Roles<'_>,
    diags: &mut Diagnostics,
) -> Option<(usize, Option<&'static str>)> {
    let config = roles.config;
    let as_table = |i: usize| match roles.of(i) {
        Role::RouteTable { changeable } => Some((i, changeable)),
        _ => None,
    };
    let mut tables = (0..config.elements.len()).filter_map(as_table);
    let Some(name) = &cluster.table else {
        return tables.next().filter(|_| tables.next().is_none());
    };
    let found = config.find(name).and_then(as_table);
    if found.is_none() {
        let names: Vec<&str> = tables.map(|(t, _)| config.elements[t].name.as_str()).collect();
        diags.push(
            Diagnostic::error(None, format!("table = \"{name}\": the program has no such routing table"))
                .with_nearest(name, "the table", &names)
                .with_help(format!(
                    "its tables: {}",
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                )),
        );
    }
    found
}

/// Determines which output of the table is used for which port: the ports that packets reach from there,
/// without passing the table again.
fn outputs(config: &Config, graph: &Graph, table: usize, ports: &mut [Uses]) {
    for output in 0..config.outputs_used(table) {
        let first: Vec<usize> = config
            .connections
            .iter()
            .filter(|c| c.from == PortRef { element: table, port: output })
            .map(|c| c.to.element)
            .collect();
        let reached = graph.reach(&first, |e| e == table);
        let mut there = ports.iter_mut().filter(|p| reached.contains(&p.querier));
        if let (Some(port), None) = (there.next(), there.next())
            && port.output.is_none()
        {
            port.output = Some(output);
        }
    }
}
