//! The counters of a node's workers, and their sums.

use cluster::NodeId;
use cluster::work::Work;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets and bytes, counted by one worker; any thread can read them.
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
    /// Counts; may be called only by the worker that the counter belongs to.
    #[inline]
    pub fn add(&self, packets: u64, bytes: u64) {
        bump(&self.packets, packets);
        bump(&self.bytes, bytes);
    }
    pub(super) fn read(&self) -> Tally {
        Tally { packets: self.packets.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Counters of one worker about one other node; they fill a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct NodeCounts {
    /// Packets of this node that went to that node directly; in the entry of this node itself, packets that
    /// left where they entered.
    pub direct: TallyCounter,
    /// Packets of this node that went to that node via an intermediate node.
    pub via: TallyCounter,
    /// Packets of other nodes for that node, for which this node was the intermediate node.
    pub transit: TallyCounter,
    /// Packets of this node for other nodes whose first hop was that node: as their intermediate node in a
    /// mesh; in a fly, as the first server on the path of all packets from this node.
    pub over: TallyCounter,
}

/// Counters of one worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounts {
    nodes: Box<[NodeCounts]>,
    /// Packets from other nodes that leave the cluster here.
    pub delivered: TallyCounter,
    /// For each node, the packets that entered the cluster there and left by an external port of this node.
    left: Box<[TallyCounter]>,
    flowlets: [AtomicU64; FLOWLETS.len()],
}

/// The names of the flowlet counters, in packets, in the order of [`cluster::balancer::FlowletCounts`].
pub const FLOWLETS: [&str; 5] = ["started", "kept", "moved", "returned", "spilled"];

impl WorkerCounts {
    pub(super) fn new(nodes: u16) -> Self {
        Self {
            nodes: (0..nodes).map(|_| NodeCounts::default()).collect(),
            delivered: TallyCounter::default(),
            left: (0..nodes).map(|_| TallyCounter::default()).collect(),
            flowlets: Default::default(),
        }
    }
    /// The counter of packets that entered at a node and left here.
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
    /// Adds to the flowlet counters.
    #[inline]
    pub fn add_flowlets(&self, more: [u64; FLOWLETS.len()]) {
        self.flowlets.iter().zip(more).for_each(|(counter, n)| bump(counter, n));
    }
    pub(super) fn read(&self) -> Totals {
        let nodes = self.nodes.iter().map(|n| {
            let [direct, via, transit, over] =
                [&n.direct, &n.via, &n.transit, &n.over].map(TallyCounter::read);
            NodeTotals { direct, via, transit, over, left: Tally::default() }
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

/// The values of [`NodeCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTotals {
    /// See [`NodeCounts`].
    pub direct: Tally,
    /// See [`NodeCounts`].
    pub via: Tally,
    /// See [`NodeCounts`].
    pub transit: Tally,
    /// See [`NodeCounts`].
    pub over: Tally,
    /// Packets that entered at that node and left by an external port of this node.
    pub left: Tally,
}

/// The sums of several workers' [`WorkerCounts`].
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
        let mine = [&mut self.direct, &mut self.via, &mut self.transit, &mut self.over, &mut self.left];
        let theirs = [other.direct, other.via, other.transit, other.over, other.left];
        for (mine, theirs) in mine.into_iter().zip(theirs) {
            combine(mine, theirs, &f);
        }
    }
}

/// Adds or subtracts other packets and bytes.
pub(super) fn combine(mine: &mut Tally, theirs: Tally, f: impl Fn(u64, u64) -> u64) {
    (mine.packets, mine.bytes) = (f(mine.packets, theirs.packets), f(mine.bytes, theirs.bytes));
}

impl Totals {
    pub(super) fn none(nodes: u16) -> Self {
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
    pub(super) fn add(&mut self, other: &Self) {
        self.each(other, u64::wrapping_add);
    }
    pub(super) fn subtract(&mut self, other: &Self) {
        self.each(other, u64::wrapping_sub);
    }
    fn sum(&self, of: impl Fn(&NodeTotals) -> Tally) -> Tally {
        let mut sum = Tally::default();
        self.nodes.iter().for_each(|n| combine(&mut sum, of(n), u64::wrapping_add));
        sum
    }
    /// Packets and bytes that came in here from outside, that were forwarded for other nodes, and that left
    /// here.
    #[must_use]
    pub fn work(&self, me: NodeId) -> [Tally; 3] {
        let mut input = self.sum(|n| n.direct);
        combine(&mut input, self.sum(|n| n.via), u64::wrapping_add);
        let mut output = self.delivered;
        if let Some(own) = self.nodes.get(me.index()) {
            combine(&mut output, own.direct, u64::wrapping_add);
        }
        [input, self.sum(|n| n.transit), output]
    }
    /// The c of RouteBricks' cR, computed from bytes; see [`Work::effective_c`].
    #[must_use]
    pub fn effective_c(&self, me: NodeId) -> f64 {
        let [input, transit, output] = self.work(me).map(|t| t.bytes);
        Work { input, transit, output }.effective_c()
    }
}
