//! Tunnels between nodes that share a device.

use super::text::{ether, word};
use crate::file::{Link, LinkKind, Vxlan};
use std::fmt::Write;

/// The paint of hellos in a fabric.
pub(super) const HELLO_PAINT: u8 = 255;
/// The capacity of a link's queue of control frames.
pub(super) const HELLO_QUEUE: usize = 64;

/// The devices of tunnels, each with the tunnels that share it.
pub(super) struct Fabrics<'a>(Vec<Vec<&'a Vxlan>>);

impl<'a> Fabrics<'a> {
    /// Those of a node's links.
    pub(super) fn of(links: &[&'a Link]) -> Self {
        let mut all: Vec<Vec<&Vxlan>> = Vec::new();
        for link in links {
            let LinkKind::Vxlan(tunnel) = &link.kind else { continue };
            match all.iter_mut().find(|tunnels| tunnels.iter().any(|t| t.device == tunnel.device)) {
                Some(tunnels) => tunnels.push(tunnel),
                None => all.push(vec![tunnel]),
            }
        }
        Self(all)
    }
    /// The name of a tunnel's fabric, and the output of its frames there.
    pub(super) fn place(&self, tunnel: &Vxlan) -> Option<(String, usize)> {
        self.0.iter().enumerate().find_map(|(i, tunnels)| {
            let output = tunnels.iter().position(|t| *t == tunnel)?;
            Some((format!("cluster_fabric{i}"), output))
        })
    }
    /// A node is a host on its fabric: it answers ARP for its address, sends ARP requests for the others',
    /// and accepts only its tunnels.
    pub(super) fn write(&self, queue: &str, text: &mut String) {
        for (i, tunnels) in self.0.iter().enumerate() {
            let Some(first) = tunnels.first() else { continue };
            let (name, device) = (format!("cluster_fabric{i}"), word(&first.device));
            let (ip, mac) = (first.local.addr, ether(first.mac()));
            // As on a device of its own, hellos bypass the queue of packets; so does ARP.
            let hellos = HELLO_QUEUE * tunnels.len();
            let ends: Vec<String> = tunnels.iter().map(|t| format!("{} {}", t.vni, t.remote)).collect();
            let _ = writeln!(
                text,
                "{name}_in :: FromDevice({device}, PROMISC true) -> HostEtherFilter({mac})\n  \
                 -> {name} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
                 {name}_queue :: {queue} -> [1]{name}_first :: PrioSched -> {name}_out :: ToDevice({device});\n\
                 {name}_hellos :: Queue({hellos}) -> [0]{name}_first;\n\
                 {name}[0] -> ARPResponder({ip} {mac}) -> {name}_hellos;\n\
                 {name}_arp :: ARPQuerier({ip}, {mac}) -> {name}_kind :: CheckPaint({HELLO_PAINT}) -> {name}_hellos;\n\
                 {name}_arp[1] -> {name}_hellos;\n\
                 {name}_kind[1] -> {name}_queue;\n\
                 {name}[1] -> [1]{name}_arp;\n\
                 {name}[2] -> Strip(14) -> CheckIPHeader -> IPClassifier(dst host {ip})\n  \
                 -> {name}_tunnels :: VXLANDecap({});\n\
                 {name}[3] -> Discard;",
                ends.join(", ")
            );
        }
    }
}
