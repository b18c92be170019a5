//! What the elements of one node of a cluster share: who the node is, what is dead, what has been counted.

use super::fabric::Fabric;
use super::identity::{Identity, MAX_PORTS, mode_name};
use super::outages::Outages;
use crate::prelude::*;
use cluster::work::Work;
use cluster::{Config, Error, Failures, NodeId, Topology};
use lang::args::ElementName;
use locks::IgnorePoison;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// What is known of the link to a neighbour, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Whether packets may be given to it.
    pub up: bool,
    /// In words: why it is down, whom it hears instead.
    pub words: String,
}

/// The state of one node, shared by its cluster elements on all workers.
#[derive(Debug)]
pub struct ClusterState {
    identity: Identity,
    outages: Outages,
    links: Mutex<BTreeMap<NodeId, LinkReport>>,
    /// The protocol between neighbours, if there is an element that speaks it.
    fabric: OnceLock<Arc<Fabric>>,
    counts: Mutex<Vec<Arc<WorkerCounts>>>,
    /// What was counted before, by another configuration or up to a reset; the sum wraps around.
    before: Mutex<Totals>,
    /// The packets that have been numbered, for each node and port.
    numbered: Box<[AtomicU64]>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().ignore_poison()
}

impl ClusterState {
    /// With everything alive and nothing counted.
    ///
    /// # Errors
    /// The policy has too few or too many nodes, or not this one, or the topology is one of other nodes.
    pub fn new(identity: Identity) -> Result<Self, Error> {
        let (me, nodes) = (identity.policy.me, identity.policy.nodes);
        let none = Failures::none(nodes)?;
        if identity.topology.nodes() != nodes {
            return Err(Error::OtherCluster { got: identity.topology.nodes(), nodes });
        }
        if me.0 >= nodes {
            return Err(Error::NoSuchNode { node: me, nodes });
        }
        let streams = if identity.resequence { usize::from(nodes) * MAX_PORTS } else { 0 };
        Ok(Self {
            outages: Outages::new(none),
            links: Mutex::default(),
            fabric: OnceLock::new(),
            counts: Mutex::default(),
            before: Mutex::new(Totals::none(nodes)),
            numbered: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            identity,
        })
    }

    // ---- who ----

    /// What the configuration says.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
    /// This node.
    #[must_use]
    pub fn me(&self) -> NodeId {
        self.identity.policy.me
    }
    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> u16 {
        self.identity.policy.nodes
    }
    /// How the nodes are joined.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.identity.topology
    }
    /// The policy of one of `workers` workers, which share the rates. In a fly it is about the nodes with
    /// external ports: a pair of them is what a link is in a mesh, and has its part of what the links of a
    /// node bear. A node without external ports has nothing to decide.
    #[must_use]
    pub fn share(&self, workers: usize) -> Config {
        let workers = workers.max(1) as u64;
        let (policy, topology) = (&self.identity.policy, self.topology());
        let mut link_bps = policy.link_bps;
        if !topology.is_mesh() {
            let pairs =
                |rate: u64| rate.saturating_mul(topology.fan_out().into()) / u64::from(topology.externals());
            link_bps = link_bps.map(pairs);
        }
        let share = Config {
            nodes: topology.externals(),
            rate_bps: policy.rate_bps / workers,
            link_bps: link_bps.map(|rate| rate / workers),
            ..policy.clone()
        };
        if topology.is_external(policy.me) { share } else { Config { me: NodeId(0), flows: 1, ..share } }
    }

    /// What is dead.
    #[inline]
    #[must_use]
    pub fn outages(&self) -> &Outages {
        &self.outages
    }
    /// The protocol between neighbours.
    ///
    /// # Errors
    /// What it cannot be made of.
    pub(in crate::cluster) fn fabric(&self) -> Result<Arc<Fabric>, String> {
        if let Some(fabric) = self.fabric.get() {
            return Ok(Arc::clone(fabric));
        }
        let new = Arc::new(Fabric::new(&self.identity)?);
        Ok(Arc::clone(self.fabric.get_or_init(|| new)))
    }

    // ---- links, for people ----

    /// Says how the link to a neighbour is. What packets may use is decided by [`Outages::observe`]
    /// alone.
    pub fn report_link(&self, peer: NodeId, report: LinkReport) {
        lock(&self.links).insert(peer, report);
    }
    /// The links that have been reported.
    #[must_use]
    pub fn links(&self) -> Vec<(NodeId, LinkReport)> {
        lock(&self.links).iter().map(|(peer, report)| (*peer, report.clone())).collect()
    }

    // ---- counting ----

    /// The counters of one worker, which alone writes them.
    #[must_use]
    pub fn counts(&self, worker: usize) -> Arc<WorkerCounts> {
        let mut all = lock(&self.counts);
        while all.len() <= worker {
            all.push(Arc::new(WorkerCounts::new(self.nodes())));
        }
        Arc::clone(&all[worker])
    }
    /// The sum over all workers.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = lock(&self.before).clone();
        lock(&self.counts).iter().for_each(|counts| totals.add(&counts.read()));
        totals
    }
    /// Counts from zero again.
    pub fn reset(&self) {
        let mut counted = Totals::none(self.nodes());
        lock(&self.counts).iter().for_each(|counts| counted.add(&counts.read()));
        let mut before = Totals::none(self.nodes());
        before.subtract(&counted);
        *lock(&self.before) = before;
    }
    /// Numbers `n` packets for an external port; returns how many were numbered before them. None are if
    /// packets are not numbered.
    #[inline]
    pub fn number(&self, node: NodeId, port: u8, n: u64) -> Option<u64> {
        let stream = self.numbered.get(node.index() * MAX_PORTS + usize::from(port))?;
        Some(stream.fetch_add(n, Ordering::Relaxed))
    }

    /// Goes on from the state of the configuration before: what is dead, what has been counted and numbered.
    pub fn take_over(&self, old: &Self) {
        if std::ptr::eq(self, old) {
            return;
        }
        self.outages.take_over(&old.outages);
        for (peer, report) in old.links().into_iter().filter(|(peer, _)| peer.0 < self.nodes()) {
            lock(&self.links).entry(peer).or_insert(report);
        }
        lock(&self.before).add(&old.totals());
        for (new, old) in self.numbered.iter().zip(&old.numbered) {
            new.fetch_max(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The state of the ClusterInfo that the first argument names.
pub(in crate::cluster) fn state_of(
    args: &mut Args<'_>,
    cx: &ConfigCx<'_>,
) -> Result<Arc<ClusterState>, ArgError> {
    let name = args.mp::<ElementName>("CLUSTER")?;
    cx.shared_of::<ClusterState>(&name.0, "a ClusterInfo").map_err(|e| args.remember(e))
}

/// Packets and bytes that one worker counts and anybody reads.
#[derive(Debug, Default)]
pub struct TallyCounter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

#[inline]
fn bump(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl TallyCounter {
    /// Counts; only by the worker that it belongs to.
    #[inline]
    pub fn add(&self, packets: u64, bytes: u64) {
        bump(&self.packets, packets);
        bump(&self.bytes, bytes);
    }
    fn read(&self) -> Tally {
        Tally { packets: self.packets.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// What one worker has counted about one node: a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct NodeCounts {
    /// Packets from here that went directly to it; for this node those that left where they came in.
    pub direct: TallyCounter,
    /// Packets from here for it that went over an intermediate.
    pub balanced: TallyCounter,
    /// Packets from others for it, of which this node was the intermediate.
    pub transit: TallyCounter,
    /// Packets from here for others that went over it first: as their intermediate in a mesh; in a fly, as
    /// the first server on the way of all that leave this node.
    pub over: TallyCounter,
}

/// What one worker has counted.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounts {
    nodes: Box<[NodeCounts]>,
    /// Packets from other nodes that leave here.
    pub delivered: TallyCounter,
    /// For each node packets that came in by it and have left by an external port of this one.
    left: Box<[TallyCounter]>,
    flowlets: [AtomicU64; FLOWLETS.len()],
}

/// What is counted about flowlets, in packets, as [`cluster::balancer::FlowletCounts`] has it.
pub const FLOWLETS: [&str; 5] = ["started", "kept", "moved", "returned", "spilled"];

impl WorkerCounts {
    fn new(nodes: u16) -> Self {
        Self {
            nodes: (0..nodes).map(|_| NodeCounts::default()).collect(),
            delivered: TallyCounter::default(),
            left: (0..nodes).map(|_| TallyCounter::default()).collect(),
            flowlets: Default::default(),
        }
    }
    /// The counter of packets that came in by a node and have left here.
    #[inline]
    #[must_use]
    pub fn left(&self, node: NodeId) -> Option<&TallyCounter> {
        self.left.get(node.index())
    }
    /// The counters about a node.
    #[inline]
    #[must_use]
    pub fn node(&self, node: NodeId) -> Option<&NodeCounts> {
        self.nodes.get(node.index())
    }
    /// Counts what has become of flowlets.
    #[inline]
    pub fn add_flowlets(&self, more: [u64; FLOWLETS.len()]) {
        self.flowlets.iter().zip(more).for_each(|(counter, n)| bump(counter, n));
    }
    fn read(&self) -> Totals {
        let nodes = self.nodes.iter().map(|n| {
            let [direct, balanced, transit, over] =
                [&n.direct, &n.balanced, &n.transit, &n.over].map(TallyCounter::read);
            NodeTotals { direct, balanced, transit, over, left: Tally::default() }
        });
        let nodes = nodes.zip(&self.left).map(|(n, left)| NodeTotals { left: left.read(), ..n });
        Totals {
            nodes: nodes.collect(),
            delivered: self.delivered.read(),
            flowlets: self.flowlets.each_ref().map(|n| n.load(Ordering::Relaxed)),
        }
    }
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// [`NodeCounts`], read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTotals {
    /// As there.
    pub direct: Tally,
    /// As there.
    pub balanced: Tally,
    /// As there.
    pub transit: Tally,
    /// As there.
    pub over: Tally,
    /// Packets that came in by it and have left by an external port of this node.
    pub left: Tally,
}

/// [`WorkerCounts`], read and added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// For each node.
    pub nodes: Vec<NodeTotals>,
    /// Packets from other nodes that left here.
    pub delivered: Tally,
    /// [`FLOWLETS`].
    pub flowlets: [u64; FLOWLETS.len()],
}

impl NodeTotals {
    fn each(&mut self, other: &Self, f: impl Fn(u64, u64) -> u64) {
        let mine = [&mut self.direct, &mut self.balanced, &mut self.transit, &mut self.over, &mut self.left];
        let theirs = [other.direct, other.balanced, other.transit, other.over, other.left];
        for (mine, theirs) in mine.into_iter().zip(theirs) {
            combine(mine, theirs, &f);
        }
    }
}

fn combine(mine: &mut Tally, theirs: Tally, f: impl Fn(u64, u64) -> u64) {
    (mine.packets, mine.bytes) = (f(mine.packets, theirs.packets), f(mine.bytes, theirs.bytes));
}

impl Totals {
    fn none(nodes: u16) -> Self {
        Self {
            nodes: vec![NodeTotals::default(); nodes.into()],
            delivered: Tally::default(),
            flowlets: [0; 5],
        }
    }
    fn each(&mut self, other: &Self, f: fn(u64, u64) -> u64) {
        for (mine, theirs) in self.nodes.iter_mut().zip(&other.nodes) {
            mine.each(theirs, f);
        }
        combine(&mut self.delivered, other.delivered, f);
        for (mine, theirs) in self.flowlets.iter_mut().zip(other.flowlets) {
            *mine = f(*mine, theirs);
        }
    }
    fn add(&mut self, other: &Self) {
        self.each(other, u64::wrapping_add);
    }
    fn subtract(&mut self, other: &Self) {
        self.each(other, u64::wrapping_sub);
    }
    fn sum(&self, of: impl Fn(&NodeTotals) -> Tally) -> Tally {
        let mut sum = Tally::default();
        self.nodes.iter().for_each(|n| combine(&mut sum, of(n), u64::wrapping_add));
        sum
    }
    /// What came in here from outside, was carried on for others, left here: packets and bytes.
    #[must_use]
    pub fn work(&self, me: NodeId) -> [Tally; 3] {
        let mut input = self.sum(|n| n.direct);
        combine(&mut input, self.sum(|n| n.balanced), u64::wrapping_add);
        let mut output = self.delivered;
        if let Some(own) = self.nodes.get(me.index()) {
            combine(&mut output, own.direct, u64::wrapping_add);
        }
        [input, self.sum(|n| n.transit), output]
    }
    /// The c of cR, of bytes; see [`Work::effective_c`].
    #[must_use]
    pub fn effective_c(&self, me: NodeId) -> f64 {
        let [input, transit, output] = self.work(me).map(|t| t.bytes);
        Work { input, transit, output }.effective_c()
    }
}

// ---- what handlers say ----

fn tally(t: Tally) -> Value {
    json!({"packets": t.packets, "bytes": t.bytes})
}

const WORK: [&str; 3] = ["input", "transit", "output"];

impl ClusterState {
    /// For each node a line: its number, then packets and bytes that went directly, over an intermediate, in
    /// transit.
    #[must_use]
    pub fn matrix(&self) -> String {
        let mut text = String::new();
        for (i, n) in self.totals().nodes.iter().enumerate() {
            let [d, b, t] = [n.direct, n.balanced, n.transit];
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
            json!({"to": i, "direct": tally(n.direct), "balanced": tally(n.balanced), "transit": tally(n.transit),
                "over": tally(n.over), "left": tally(n.left)})
        });
        json!({"node": self.me().0, "to": row.collect::<Vec<_>>(), "delivered": tally(totals.delivered)})
    }
    /// For each node that packets came in by which have left by an external port of this one: its number,
    /// packets and bytes.
    #[must_use]
    pub fn left(&self) -> String {
        let totals = self.totals();
        let of = totals.nodes.iter().enumerate().filter(|(_, n)| n.left.packets > 0);
        of.fold(String::new(), |text, (i, n)| text + &format!("{i} {} {}\n", n.left.packets, n.left.bytes))
    }
    /// What the node works, on four lines.
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
    /// What became of flowlets.
    #[must_use]
    pub fn flowlets(&self) -> String {
        let totals = self.totals();
        FLOWLETS
            .iter()
            .zip(totals.flowlets)
            .fold(String::new(), |text, (name, n)| text + &format!("{name} {n}\n"))
    }
    /// What is dead, a line for each.
    #[must_use]
    pub fn dead(&self) -> String {
        let (forced, all) = self.outages.forced_and_all();
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
        let failures = self.outages.failures();
        (0..self.nodes()).map(NodeId).fold(String::new(), |text, node| {
            let what = match failures.node_up(node) {
                _ if node == self.me() => "this",
                true => "up",
                false => "down",
            };
            text + &format!("{node} {what}\n")
        })
    }
    /// Every link of this node: the neighbour, up or down both ways, what was sent over it, and what its
    /// element says.
    #[must_use]
    pub fn neighbours(&self) -> String {
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
        let (failures, totals, me) = (self.outages.failures(), self.totals(), self.me());
        let mut reports = lock(&self.links).clone();
        let peers = self.topology().neighbours(me).into_iter();
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
        let (identity, totals, failures) = (&self.identity, self.totals(), self.outages.failures());
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
        let (forced, _) = self.outages.forced_and_all();
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
            "generation": self.outages.generation(),
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

/// The capacity of a link: what the configuration says, or 2R/N, in a fly 2R/k.
fn link_bps(policy: &Config, topology: &Topology) -> u64 {
    let parts = if topology.is_mesh() { policy.nodes } else { topology.fan_out() };
    policy.link_bps.unwrap_or(policy.rate_bps.saturating_mul(2) / u64::from(parts.max(1)))
}
