//! A node's state as text and JSON, for handlers.

use super::counts::{FLOWLETS, Tally, combine};
use super::identity::mode_name;
use super::state::{ClusterState, LinkReport};
use cluster::{Config, Failures, NodeId, Topology};
use serde_json::{Value, json};
use std::fmt::Write;

fn tally(t: Tally) -> Value {
    json!({"packets": t.packets, "bytes": t.bytes})
}

const WORK: [&str; 3] = ["input", "transit", "output"];

impl ClusterState {
    /// A line for each node: its number, then packets and bytes that went there directly, via an intermediate
    /// node, and in transit.
    #[must_use]
    pub fn matrix(&self) -> String {
        let mut text = String::new();
        for (i, n) in self.totals().nodes.iter().enumerate() {
            let [d, b, t] = [n.direct, n.via, n.transit];
            let _ = writeln!(
                text,
                "{i} {} {} {} {} {} {}",
                d.packets, d.bytes, b.packets, b.bytes, t.packets, t.bytes
            );
        }
        text
    }
    /// The same as JSON.
    #[must_use]
    pub fn matrix_json(&self) -> Value {
        let totals = self.totals();
        let row = totals.nodes.iter().enumerate().map(|(i, n)| {
            json!({"to": i, "direct": tally(n.direct), "via_intermediate": tally(n.via), "transit": tally(n.transit),
                "over": tally(n.over), "left": tally(n.left)})
        });
        json!({"node": self.me().0, "to": row.collect::<Vec<_>>(), "delivered": tally(totals.delivered)})
    }
    /// A line for each node: its number, then the packets and bytes that entered there and left by an
    /// external port of this node.
    #[must_use]
    pub fn left(&self) -> String {
        let totals = self.totals();
        let of = totals.nodes.iter().enumerate().filter(|(_, n)| n.left.packets > 0);
        of.fold(String::new(), |text, (i, n)| text + &format!("{i} {} {}\n", n.left.packets, n.left.bytes))
    }
    /// The work of the node, on four lines.
    #[must_use]
    pub fn work(&self) -> String {
        let totals = self.totals();
        let mut text = String::new();
        for (name, t) in WORK.iter().zip(totals.work(self.me())) {
            let _ = writeln!(text, "{name} {} {}", t.packets, t.bytes);
        }
        let _ = writeln!(text, "c {:.3}", totals.effective_c(self.me()));
        text
    }
    /// The flowlet counters.
    #[must_use]
    pub fn flowlets(&self) -> String {
        let totals = self.totals();
        FLOWLETS
            .iter()
            .zip(totals.flowlets)
            .fold(String::new(), |text, (name, n)| text + &format!("{name} {n}\n"))
    }
    /// The dead nodes and links, one on each line.
    #[must_use]
    pub fn dead(&self) -> String {
        let (forced, all) = self.outages().forced_and_all();
        let mut text = String::new();
        let by = |forced: bool| if forced { " forced" } else { "" };
        for node in all.dead_nodes() {
            let _ = writeln!(text, "node {node}{}", by(!forced.node_up(node)));
        }
        for link in all.dead_links() {
            let forced = forced.dead_links().any(|l| l == link);
            let _ = writeln!(text, "link {} {}{}", link.0, link.1, by(forced));
        }
        text
    }
    /// Every node and whether it is alive.
    #[must_use]
    pub fn members(&self) -> String {
        let failures = self.outages().failures();
        (0..self.nodes()).map(NodeId).fold(String::new(), |text, node| {
            let what = match failures.node_up(node) {
                _ if node == self.me() => "this",
                true => "up",
                false => "down",
            };
            text + &format!("{node} {what}\n")
        })
    }
    /// Every link of this node: the neighbor, whether both directions are up, packets and bytes that were
    /// sent over it, and the reason that its element reports.
    #[must_use]
    pub fn neighbors(&self) -> String {
        self.link_rows().iter().fold(String::new(), |mut text, row| {
            let up = |up| if up { "up" } else { "down" };
            let (to, from) = (up(row.to), up(row.from));
            let _ = write!(text, "{} {to} {from} {} {}", row.peer, row.sent.packets, row.sent.bytes);
            if let Some(report) = &row.report {
                let _ = write!(text, " {}", report.words);
            }
            text.push('\n');
            text
        })
    }
    fn link_rows(&self) -> Vec<LinkRow> {
        let (failures, totals, me) = (self.outages().failures(), self.totals(), self.me());
        let mut reports = self.reports();
        let peers = self.topology().neighbors(me).into_iter();
        let row = |peer: NodeId| {
            let mut sent = Tally::default();
            if let Some(n) = totals.nodes.get(peer.index()) {
                [n.direct, n.over, n.transit]
                    .into_iter()
                    .for_each(|t| combine(&mut sent, t, u64::wrapping_add));
            }
            let (to, from) = (failures.link_up(me, peer), failures.link_up(peer, me));
            LinkRow { peer, to, from, sent, report: reports.remove(&peer) }
        };
        peers.map(row).collect()
    }
    /// Everything, as JSON.
    #[must_use]
    pub fn status(&self) -> Value {
        let (identity, totals, failures) = (self.identity(), self.totals(), self.outages().failures());
        let policy = &identity.policy;
        let mut work = json!({"c": totals.effective_c(self.me())});
        for (name, t) in WORK.iter().zip(totals.work(self.me())) {
            work[*name] = tally(t);
        }
        let mut flowlets = json!({});
        for (name, n) in FLOWLETS.iter().zip(totals.flowlets) {
            flowlets[*name] = n.into();
        }
        let links = self.link_rows().into_iter().map(|row| {
            let report = row.report.unwrap_or_default();
            json!({"peer": row.peer.0, "up": row.to, "up_from": row.from, "sent": tally(row.sent), "ready": report.up,
                "words": report.words})
        });
        let (forced, _) = self.outages().forced_and_all();
        json!({
            "name": identity.name,
            "node": self.me().0,
            "nodes": self.nodes(),
            "digest": identity.digest.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            "keyed": identity.key.is_some(),
            "mode": mode_name(policy.mode),
            "rate_bps": policy.rate_bps,
            "link_bps": link_bps(policy, self.topology()),
            "topology": self.topology().to_string(),
            "delta_ns": policy.delta_ns.unwrap_or(0),
            "resequence": identity.resequence,
            "generation": self.outages().generation(),
            "dead": {"nodes": dead_nodes(&failures), "links": dead_links(&failures)},
            "forced": {"nodes": dead_nodes(&forced), "links": dead_links(&forced)},
            "links": links.collect::<Vec<_>>(),
            "matrix": self.matrix_json(),
            "work": work,
            "flowlets": flowlets,
        })
    }
}

struct LinkRow {
    peer: NodeId,
    to: bool,
    from: bool,
    sent: Tally,
    report: Option<LinkReport>,
}

fn dead_nodes(failures: &Failures) -> Vec<u16> {
    failures.dead_nodes().map(|n| n.0).collect()
}

fn dead_links(failures: &Failures) -> Vec<[u16; 2]> {
    failures.dead_links().map(|(from, to)| [from.0, to.0]).collect()
}

/// The capacity of a link: as configured, or 2R/N, in a fly 2R/k.
fn link_bps(policy: &Config, topology: &Topology) -> u64 {
    let parts = if topology.is_mesh() { policy.nodes } else { topology.fan_out() };
    policy.link_bps.unwrap_or(policy.rate_bps.saturating_mul(2) / u64::from(parts.max(1)))
}
