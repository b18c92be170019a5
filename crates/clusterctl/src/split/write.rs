//! The configuration of one node, written from the analyzed program.

use super::analysis::{ClusterProgram, QUERIER};
use super::fabrics::{Fabrics, HELLO_PAINT, HELLO_QUEUE};
use super::graph::Graph;
use super::text::{seconds, stand_in, word};
use crate::file::{Cluster, Link, LinkKind, Node, Route, Topology, Vxlan};
use cluster::Mode;
use lang::{Config, Diagnostic, Diagnostics, PortRef};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// The classes that replace a device of another node, an ARPQuerier before such a device, and a queue.
const NO_DEVICE: &str = "Idle";
const ENCAP: &str = "ClusterEncap";
const FAIR_QUEUE: &str = "ClusterQueue";
/// The element that measures a hop.
const METER: &str = "MeasureHop(STAMP true)";
/// The smallest capacity of a link's queue, in packets.
const LINK_QUEUE: usize = 1000;
/// The capacity of a link's queue for each input node: as many short packets as take the time of one long
/// one.
const PER_INPUT_NODE: usize = 32;
/// The bytes that a tunnel puts in front of an internal frame: the headers of Ethernet, IP, UDP and
/// VXLAN.
const TUNNEL_BYTES: usize = 50;
/// The rate limit of ICMP unreachable messages, in packets a second (RFC 1812, section 4.3.2.8).
const MAX_ANSWERS: u32 = 1000;

/// A queue of internal frames, each behind this many bytes of other headers.
fn queue(cluster: &Cluster, offset: usize) -> String {
    if !cluster.fair {
        return format!("Queue({LINK_QUEUE})");
    }
    let inputs = cluster.ports().map(|(node, ..)| usize::from(node.id) + 1).max().unwrap_or(0);
    let offset = if offset > 0 { format!(", OFFSET {offset}") } else { String::new() };
    format!("{FAIR_QUEUE}(cluster, {}{offset})", LINK_QUEUE.max(PER_INPUT_NODE * inputs))
}

impl ClusterProgram {
    /// The configuration of a node, as text.
    ///
    /// # Errors
    /// Packets would leave by another node's device without passing an ARPQuerier.
    pub(crate) fn node(&self, cluster: &Cluster, node: &Node) -> Result<String, Diagnostics> {
        let mut config = self.config.clone();
        let mut added = String::new();
        self.replace_other_devices(cluster, node, &mut config, &mut added)?;
        if cluster.fair {
            self.replace_queues(node, &mut config);
        }
        self.insert_at_devices(cluster, node, &mut config, &mut added);
        if let Some((table, changeable)) = self.table {
            let table = &mut config.elements[table];
            if let Some(class) = changeable {
                class.clone_into(&mut table.class);
            }
            self.add_routes(cluster, table);
        }
        name_devices(cluster, node, &mut config);
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

    /// Replaces the devices of other nodes, and the ARPQueriers in front of them.
    fn replace_other_devices(
        &self,
        cluster: &Cluster,
        node: &Node,
        config: &mut Config,
        added: &mut String,
    ) -> Result<(), Diagnostics> {
        let mut encaps = BTreeSet::new();
        let mut idle_sources = BTreeSet::new();
        for (owner, index, port) in cluster.ports().filter(|(owner, ..)| owner.id != node.id) {
            let uses = &self.ports[port.number];
            for element in uses.sources.iter().chain(&uses.sinks) {
                config.elements[*element].class = NO_DEVICE.to_owned();
                config.elements[*element].config.clear();
            }
            idle_sources.extend(uses.sources.iter().copied());
            let querier = &mut config.elements[uses.querier];
            querier.class = ENCAP.to_owned();
            querier.config = format!("cluster, NODE {}, PORT {index}, NET {}", owner.id, port.net);
            let _ = writeln!(added, "{} -> [0]vlb;", querier.name);
            encaps.insert(uses.querier);
        }
        let removed: Vec<PortRef> =
            config.connections.iter().filter(|c| encaps.contains(&c.from.element)).map(|c| c.to).collect();
        config.connections.retain(|c| !encaps.contains(&c.from.element));
        self.check_paths_to_other_nodes(cluster, node, config, &idle_sources)?;
        // Inputs that only these connections led to get no packets now, but must be connected.
        let mut unconnected: Vec<PortRef> =
            removed.into_iter().filter(|to| config.connections.iter().all(|c| c.to != *to)).collect();
        unconnected.sort_unstable();
        unconnected.dedup();
        for (i, to) in unconnected.iter().enumerate() {
            let _ = writeln!(
                added,
                "cluster_idle{i} :: Idle -> [{}]{};",
                to.port, config.elements[to.element].name
            );
        }
        Ok(())
    }

    /// Replaces the queues before the node's own devices by fair queues.
    fn replace_queues(&self, node: &Node, config: &mut Config) {
        for (index, port) in node.ports.iter().enumerate() {
            for queue in &self.ports[port.number].queues {
                let queue = &mut config.elements[*queue];
                let capacity = queue.config.trim();
                let capacity = if capacity.is_empty() { String::new() } else { format!(", {capacity}") };
                queue.config = format!("cluster{capacity}, PORT {index}");
                queue.class = FAIR_QUEUE.to_owned();
            }
        }
    }

    /// Inserts elements before and after devices: a port with a rate gets a shaper. If the cluster file
    /// requests it, other elements measure the latency of frames of `valiant gen` from their source to this
    /// node, and from their last hop until they leave.
    fn insert_at_devices(&self, cluster: &Cluster, node: &Node, config: &mut Config, added: &mut String) {
        for port in &node.ports {
            let uses = &self.ports[port.number];
            let (mut ins, mut outs) = (0, 0);
            config.connections.retain(|c| {
                let (side, before) = if uses.sources.contains(&c.from.element) {
                    ("in", &mut ins)
                } else if uses.sinks.contains(&c.to.element) {
                    ("out", &mut outs)
                } else {
                    return true;
                };
                // Most ports are used by one element only.
                let more = if *before > 0 { format!("_{before}") } else { String::new() };
                *before += 1;
                let mut between = String::new();
                if let ("out", Some(rate)) = (side, port.rate_bps) {
                    let _ = write!(
                        between,
                        "cluster_shaper{}{more} :: BandwidthShaper({rate}bps) -> ",
                        port.number
                    );
                }
                if cluster.measure {
                    let _ = write!(between, "cluster_hop_{side}{}{more} :: {METER} -> ", port.number);
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

    /// Writes the elements of the section `cluster`, the links and the control socket.
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

    /// Writes the elements of a link to a neighbor.
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

    /// Adds the routes of the cluster file. They come first, so that they have priority over the program's
    /// own for the same network.
    fn add_routes(&self, cluster: &Cluster, table: &mut lang::ElementDecl) {
        let mut routes = String::new();
        for Route { prefix, via, port } in &cluster.routes {
            if let Some(output) = self.ports[*port].output {
                let _ = write!(routes, "{prefix} {via} {output}, ");
            }
        }
        table.config.insert_str(0, &routes);
    }

    /// Checks that packets reach another node's device only through the cluster.
    fn check_paths_to_other_nodes(
        &self,
        cluster: &Cluster,
        node: &Node,
        config: &Config,
        idle_sources: &BTreeSet<usize>,
    ) -> Result<(), Diagnostics> {
        let graph = Graph::new(config);
        // An element whose input connections have all been removed emits no packets, and so is not a source.
        let before = Graph::new(&self.config);
        let mut diags = Diagnostics::new();
        let starts: Vec<usize> = (0..config.elements.len())
            .filter(|e| !idle_sources.contains(e) && !self.silent.contains(e) && before.is_source(*e))
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

/// Writes the names of devices in place of their placeholders. The device of another node is named after that
/// node, as its name has a meaning only there.
fn name_devices(cluster: &Cluster, node: &Node, config: &mut Config) {
    for (owner, _, port) in cluster.ports() {
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
}

#[cfg(test)]
mod tests;
