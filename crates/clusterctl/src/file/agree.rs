//! Consistency of a cluster file: networks, devices, both ends of links, the topology.

use super::model::{Cluster, LinkKind, Node, Topology, VXLAN_BYTES, Vxlan, ends};
use super::reader::Reader;
use cluster::NodeId;
use lang::{Diagnostic, Span};
use std::collections::BTreeMap;

/// The places of the parts in the text, in the order of the nodes.
#[derive(Default)]
pub(super) struct Places {
    pub(super) nodes: Vec<Span>,
    /// Device and network of each port.
    pub(super) ports: Vec<Vec<(Span, Span)>>,
    /// Peer and device of each link.
    pub(super) links: Vec<Vec<(Span, Span)>>,
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

impl Reader<'_> {
    /// No network of a port overlaps another's.
    pub(super) fn ports_agree(&mut self, cluster: &Cluster, places: &Places) {
        let place = |id: u16, port: usize| places.port(cluster, id, port).map(|(_, net)| net);
        let mut all: Vec<_> =
            cluster.ports().map(|(node, i, port)| (ends(&port.net), node.id, i, port)).collect();
        all.sort_by_key(|(ends, id, i, _)| (*ends, *id, *i));
        // In the order of their first addresses, a network overlaps the one before it or none (they are
        // nested or apart).
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
                    .with_help(
                        "give each external port its own network: the output port follows from the address",
                    ),
                );
            }
            if widest.is_none_or(|w| all[w].0.1 < last) {
                widest = Some(i);
            }
        }
    }

    /// No device is used twice.
    pub(super) fn devices_agree(&mut self, cluster: &Cluster, places: &Places) {
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
                            .with_help("tunnels of a device differ in vni or remote and share local and mac"),
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
                    // If nodes do not specify their machine, each may have an eth0.
                    if *owner == node.id || node.netns.is_some() || node.host.is_some() {
                        self.diags.push(
                            Diagnostic::error(span, format!("{device} is used twice: {before}, and {what}"))
                                .with_note(*first, "first used here")
                                .with_help("give each port and each link its own device"),
                        );
                    }
                } else {
                    used.insert(key, (node.id, what, span));
                }
            }
        }
    }

    /// Links have two ends, and are those of the topology.
    pub(super) fn links_agree(&mut self, cluster: &Cluster, places: &Places) {
        let mtu = cluster.mtu();
        for node in cluster.present() {
            for (i, link) in node.links.iter().enumerate() {
                let Some((to, device)) = places.link(cluster, node.id, link.to) else { continue };
                if node.links[..i].iter().any(|l| l.to == link.to) {
                    self.wrong(
                        to,
                        format!("node {} has two links to node {}", node.id, link.to),
                        "bundle them outside of the cluster (LACP), or keep one",
                    );
                    continue;
                }
                let Some(peer) = cluster.node(link.to) else {
                    let known: Vec<String> = cluster.nodes.iter().map(|n| n.id.to_string()).collect();
                    self.wrong(
                        to,
                        format!("a link to node {}, which is not in the file", link.to),
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
                            "a link is listed at both ends: add [[node.link]] with to = {} to node {}",
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
                                "both need the same vni, and the local of one must be the remote of the other",
                            );
                        }
                    }
                    _ => self.wrong(
                        device,
                        format!(
                            "the link between nodes {} and {} is a tunnel at one end only",
                            node.id, peer.id
                        ),
                        "use a device or a tunnel at both ends",
                    ),
                }
                let overhead = if matches!(link.kind, LinkKind::Vxlan(_)) { VXLAN_BYTES } else { 0 };
                if link.mtu < mtu + overhead {
                    self.wrong(
                        device,
                        format!(
                            "the link to node {} carries frames of at most {} bytes; a packet of an external port needs {}",
                            link.to,
                            link.mtu + 14,
                            mtu + overhead + 14
                        ),
                        format!("set the MTU of the devices at both ends to {} or more (mtu = ...), or lower the ports' mtu", mtu + overhead),
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

    /// A fly has exactly its own links.
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
                    let list: Vec<String> = fly.neighbors(me).iter().map(ToString::to_string).collect();
                    self.diags.push(
                        Diagnostic::error(
                            places.link(cluster, node.id, link.to).map(|p| p.0),
                            format!("a link between nodes {me} and {to} that no packet would use"),
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
}
