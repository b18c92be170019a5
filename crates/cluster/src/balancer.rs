//! The path of a packet, chosen at its input node from what that node knows by itself.
//!
//! # The three modes
//!
//! With N nodes of external rate R, and t the traffic from this node for one output node:
//!
//! | mode | direct | via each other node | a link carries |
//! |---|---|---|---|
//! | [`Mode::Valiant`] | 2t/N | t/N | 2R/N at most |
//! | [`Mode::Direct`] | t, R/N at most | the rest evenly | R/N for uniform traffic; more than 2R/N for other matrices: 3R/4 instead of R/2 for a permutation of four nodes |
//! | [`Mode::Adaptive`] | t, the greater of R/N and 2t/N at most | the rest evenly, t/N at most | 2R/N at most |
//!
//! Valiant takes all N nodes in turn: this node and the output node are among them and mean the direct path.
//! Direct is what RouteBricks describes (§3.2): R/N directly, the rest via the *remaining* nodes. That keeps
//! c below 3, but when all traffic is for one node, the direct link carries less than the others, which then
//! exceed 2R/N by (N-1)/(N-2). Adaptive never sends less directly than Valiant, and beyond that up to R/N as
//! long as the direct link (its own traffic and what is in transit) stays below 7/8 of 2R/N: so no
//! intermediate sees more than under Valiant, and no link more than it was planned for.
//!
//! # No random numbers
//!
//! Random choices would balance the load only in the long run: of a million links, the busiest has twice its
//! share after ten packets. So no choice is random. For each output node, the intermediate nodes are used in
//! turn, and each has a deficit counter in bytes: one that has had more than the mean is skipped. So of the
//! traffic for one output node, a link gets at most its share and one packet, over any time and for any
//! lengths of packets. Nodes start the turn at different places, so that nodes that send to the same output
//! node do not use the same intermediate node at the same time: the links from intermediate nodes to the
//! output node are balanced too. The direct path has a counter as well under Valiant, of 2/N of the bytes for
//! an output node.
//!
//! # Flowlets
//!
//! With [`Config::delta_ns`], a packet that follows another one of its flow within delta takes the same path,
//! as long as the link has capacity for it: as measured by its load over a sliding window (and, under Direct,
//! by the limit R/N). If not, the flowlet moves to the next path with capacity; if none of the next few has
//! any, its packets are sent one by one on different paths, and it returns to its own path when that has
//! capacity again. If a burst has moved flowlets away from the direct path, those for one output node return
//! one after the other, a few windows apart, while less than R/N goes directly; so flows that never pause do
//! not stay on the longer path. Under Direct, flowlets on the direct path stay while R/N is exceeded by less
//! than the bucket size: else each burst would move all of them at once.

use crate::budget::{Budget, MAX_BYTES, Refill};
use crate::flowlet::{Flowlets, Lookup, Position};
use crate::load::{Load, Window};
use crate::round_robin::{self, RoundRobin};
use crate::{Error, Failures, MAX_NODES, NodeId, in_range};

/// The policy of load balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Every packet via one of all nodes, in turn: two phases.
    Valiant,
    /// Up to R/N directly, the rest via the remaining nodes.
    Direct,
    /// The greater of R/N and Valiant's share directly, within the capacity of the direct link.
    #[default]
    Adaptive,
}

/// The settings of a balancer.
///
/// Rates and packet lengths are measured in the same way, with or without Ethernet's overhead. If several
/// workers of a node have a balancer each, each gets its part of the node's rate and of the links' capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The node that decides.
    pub me: NodeId,
    /// How many nodes the cluster has.
    pub nodes: u16,
    /// R: the rate of the node's external ports together.
    pub rate_bps: u64,
    /// The capacity of an internal link; none: 2R/N.
    pub link_bps: Option<u64>,
    /// The policy of load balancing.
    pub mode: Mode,
    /// The bucket size of the limit R/N, as a time at that rate; none: 1 ms, or 32 frames of 1,538 bytes at
    /// R/N, whichever is longer.
    pub burst_ns: Option<u64>,
    /// Over how long the load of a link is measured, rounded up to a power of two; none: 1 ms, or 8 frames of
    /// 1,538 bytes at that capacity, whichever is longer.
    pub window_ns: Option<u64>,
    /// The longest gap between two packets of a flowlet; none: no flowlets.
    pub delta_ns: Option<u64>,
    /// How many flows can be remembered at a time.
    pub flows: usize,
}

impl Config {
    /// The defaults: adaptive, flowlets with a delta of 100 ms, 65,536 flows.
    #[must_use]
    pub const fn new(me: NodeId, nodes: u16, rate_bps: u64) -> Self {
        Self {
            me,
            nodes,
            rate_bps,
            link_bps: None,
            mode: Mode::Adaptive,
            burst_ns: None,
            window_ns: None,
            delta_ns: Some(100_000_000),
            flows: 1 << 16,
        }
    }
    /// The bucket size of the limit R/N: as set, or 1 ms, or the time of 32 long frames at R/N.
    #[must_use]
    pub fn burst(&self) -> u64 {
        let share = self.rate_bps / u64::from(self.nodes.max(1));
        self.burst_ns.unwrap_or_else(|| frames_ns(BURST_FRAMES, share).clamp(1_000_000, MAX_BURST_NS))
    }
    /// The capacity of a link: as set, or 2R/N.
    #[must_use]
    pub fn link(&self) -> u64 {
        self.link_bps.unwrap_or(self.rate_bps.saturating_mul(2) / u64::from(self.nodes.max(1)))
    }
    /// Over how long the load of a link is measured.
    #[must_use]
    pub fn window(&self) -> Window {
        let least = || frames_ns(WINDOW_FRAMES, self.link()).max(1_000_000);
        Window::at_least(self.window_ns.unwrap_or_else(least))
    }
}

/// The longest ordinary frame, with Ethernet's overhead.
const FRAME: u64 = 1538;
/// The bucket size is at least this many of them,
const BURST_FRAMES: u64 = 32;
/// and so is the window over which a link's load is measured.
const WINDOW_FRAMES: u64 = 8;
const MAX_BURST_NS: u64 = 10_000_000_000;

/// The time that this many long frames take.
const fn frames_ns(frames: u64, rate_bps: u64) -> u64 {
    frames * FRAME * 8 * 1_000_000_000 / if rate_bps == 0 { 1 } else { rate_bps }
}

/// A packet that wants to leave the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The hash of its flow, for instance the NIC's.
    pub flow: u32,
    /// Its length.
    pub bytes: u32,
    /// The node that it leaves by.
    pub output: NodeId,
}

/// The path of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    /// It leaves by a port of this node.
    Local,
    /// Over the link to the output node.
    Direct,
    /// Over the link to this intermediate node.
    Via(NodeId),
    /// No usable path: the output node or all links towards it are dead, or the node does not exist.
    #[default]
    Unreachable,
}

/// The counters of flowlets, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowletCounts {
    /// Packets that started a flowlet.
    pub started: u64,
    /// Packets that took the path of the one before.
    pub kept: u64,
    /// Packets that moved their flowlet to another path, as its own had no capacity for them.
    pub moved: u64,
    /// Packets that moved their flowlet back to the direct path, as that had capacity again.
    pub returned: u64,
    /// Packets that were sent by themselves, as no path had capacity for them.
    pub spilled: u64,
}

#[derive(Clone, Debug)]
struct Output {
    budget: Budget,
    alive: bool,
    /// The bytes that Valiant would have sent directly and this node did not, times the number of nodes.
    owed: i64,
    /// The index of this node in `vias`, or the length of `vias` if it is not in there.
    position: u32,
    /// The next intermediate node in turn, an index into `vias`.
    next: u32,
    /// The set of counters of this output node, when it was last used.
    counters: u16,
    /// How many of `vias` have a path to this node.
    paths: u32,
    /// Nodes that cannot reach this one; almost always none.
    cut: Box<[u16]>,
    /// When the next flowlet may return to the direct path.
    return_ns: u64,
}

#[derive(Clone, Debug)]
struct Link {
    up: bool,
    load: Load,
}

/// The policy of one node (of one worker of it, where several share the work).
#[derive(Clone, Debug)]
pub struct Balancer {
    config: Config,
    refill: Refill,
    window: Window,
    link_bits: u64,
    alive: u16,
    outputs: Box<[Output]>,
    links: Box<[Link]>,
    /// The nodes with a usable link from here: the possible intermediate nodes.
    vias: Vec<u16>,
    /// The bytes that have been sent via each of them.
    round_robin: RoundRobin,
    /// The bound of `Output::owed` in both directions: the bucket size, and some frames.
    owed_limit: i64,
    flowlets: Option<Flowlets>,
    flowlet_counts: FlowletCounts,
}

/// How many intermediate nodes are examined for one that has capacity for a packet or has had less than the
/// mean.
const LOOKS: usize = 16;

/// How many windows lie between two flowlets that return to the direct path: the load is then measured with
/// the first one, and few packets are reordered.
const RETURN_WINDOWS: u64 = 4;

impl Balancer {
    /// All nodes and links are alive, and all budgets are full at `now_ns`.
    pub fn new(config: Config, now_ns: u64) -> Result<Self, Error> {
        let n = config.nodes;
        let failures = Failures::none(n)?;
        if config.me.0 >= n {
            return Err(Error::NoSuchNode { node: config.me, nodes: n });
        }
        let rate = in_range("a rate", config.rate_bps, "bits per second", 1000, 1 << 50)?;
        let burst_ns = in_range("bursts", config.burst(), "nanoseconds", 0, MAX_BURST_NS)?;
        let link_bps = in_range("a link's rate", config.link(), "bits per second", 1, 1 << 50)?;
        if let Some(delta) = config.delta_ns {
            in_range("delta", delta, "nanoseconds", 1, 60_000_000_000)?;
        }
        in_range("room", config.flows as u64, "flows", 1, 1 << 26)?;
        let window = config.window();
        let output = Output {
            budget: Budget::default(),
            alive: true,
            owed: 0,
            position: 0,
            next: 0,
            counters: 0,
            paths: 0,
            cut: Box::default(),
            return_ns: now_ns,
        };
        let link = Link { up: false, load: Load::default() };
        let mut this = Self {
            refill: Refill::new(rate / u64::from(n), burst_ns),
            window,
            link_bits: window.bits(link_bps),
            alive: n,
            outputs: vec![output; n.into()].into(),
            links: vec![link; n.into()].into(),
            vias: Vec::with_capacity(n.into()),
            round_robin: RoundRobin::default(),
            owed_limit: 0,
            flowlets: config.delta_ns.map(|delta| Flowlets::new(config.flows, delta)),
            flowlet_counts: FlowletCounts::default(),
            config,
        };
        this.apply(&failures)?;
        this.outputs.iter_mut().for_each(|o| o.budget = Budget::full(&this.refill, now_ns));
        Ok(this)
    }

    /// Sets which nodes and links are dead; all others are alive. Flows and loads are kept. R/N depends on
    /// the number of living nodes.
    pub fn apply(&mut self, failures: &Failures) -> Result<(), Error> {
        let n = self.config.nodes;
        if failures.nodes() != n {
            return Err(Error::OtherCluster { got: failures.nodes(), nodes: n });
        }
        let me = self.config.me;
        self.alive = failures.alive().max(1);
        self.refill = Refill::new(self.config.rate_bps / u64::from(self.alive), self.config.burst());
        for node in (0..n).map(NodeId) {
            self.links[node.index()].up = node != me && failures.link_up(me, node);
            let output = &mut self.outputs[node.index()];
            output.alive = failures.node_up(node);
            output.cut = Box::default();
        }
        let links = &self.links;
        self.vias.clear();
        self.vias.extend((0..n).filter(|&v| links[usize::from(v)].up));
        let count = self.vias.len();
        self.round_robin.reset(n.into(), count);
        self.owed_limit = (self.refill.depth_bits() / 8 + 4 * FRAME) as i64 * (count as i64 + 1);
        self.outputs.iter_mut().for_each(|o| (o.position, o.paths) = (count as u32, count as u32));
        for (position, &via) in self.vias.iter().enumerate() {
            let output = &mut self.outputs[usize::from(via)];
            (output.position, output.paths) = (position as u32, count as u32 - 1);
        }
        for (node, output) in self.outputs.iter_mut().enumerate() {
            output.next = start(me, node, count);
        }
        let mut cut: Vec<(NodeId, NodeId)> =
            failures.dead_links().filter(|l| l.0 != me).map(|(f, t)| (t, f)).collect();
        cut.sort_unstable();
        for of_one in cut.chunk_by(|a, b| a.0 == b.0) {
            let to = of_one[0].0;
            let lost = of_one.iter().filter(|l| l.1 != to && self.links[l.1.index()].up).count() as u32;
            let output = &mut self.outputs[to.index()];
            output.cut = of_one.iter().map(|l| l.1.0).collect();
            output.paths -= lost.min(output.paths);
        }
        Ok(())
    }

    /// Takes over flows, budgets, loads and counters from another balancer of the same node, as far as it has
    /// the same nodes. Settings and dead nodes stay. The other balancer must not be used afterwards.
    pub fn take_over(&mut self, old: &mut Self) {
        let same_window = self.window == old.window;
        for (new, old) in self.outputs.iter_mut().zip(&old.outputs) {
            (new.budget, new.owed) = (old.budget.clone(), old.owed);
            new.return_ns = new.return_ns.max(old.return_ns);
        }
        for (new, old) in self.links.iter_mut().zip(&old.links) {
            if same_window {
                new.load = old.load.clone();
            }
        }
        if let (Some(new), Some(old)) = (&mut self.flowlets, &mut old.flowlets) {
            new.take_over(old);
        }
        self.flowlet_counts = old.flowlet_counts;
    }

    /// Decides for a batch of packets, in order, at one time; `choices` is as long as `packets` (of the
    /// longer one, the rest is left alone).
    pub fn decide(&mut self, now_ns: u64, packets: &[Outgoing], choices: &mut [Choice]) {
        if let Some(flowlets) = &self.flowlets {
            flowlets.fetch(packets.iter().map(|packet| (packet.flow, packet.output)));
        }
        for (packet, choice) in packets.iter().zip(choices) {
            *choice = self.decide_one(now_ns, packet);
        }
    }

    /// Transit packets were sent over the link to `to`: they are part of its load.
    #[inline]
    pub fn carry(&mut self, now_ns: u64, to: NodeId, bytes: u64) {
        if let Some(link) = self.links.get_mut(to.index()) {
            link.load.add(self.window, now_ns, bytes.saturating_mul(8));
        }
    }

    #[inline]
    fn decide_one(&mut self, now_ns: u64, packet: &Outgoing) -> Choice {
        let to = packet.output;
        if to == self.config.me {
            return Choice::Local;
        }
        let Some(output) = self.outputs.get(to.index()) else { return Choice::Unreachable };
        if !output.alive {
            return Choice::Unreachable;
        }
        let bytes = packet.bytes.min(MAX_BYTES);
        let path = match self.flowlets.as_ref().map(|f| f.find(now_ns, packet.flow, to)) {
            None => self.spread(now_ns, to, bytes),
            Some(found) => self.follow(now_ns, packet.flow, to, bytes, found),
        };
        let Some(via) = path else { return Choice::Unreachable };
        let link = &mut self.links[via.index()];
        link.load.add(self.window, now_ns, u64::from(bytes) * 8);
        let output = &mut self.outputs[to.index()];
        let nodes = self.vias.len() as i64 + 1;
        let owed = output.owed + 2 * i64::from(bytes);
        if via == to {
            output.owed = (owed - i64::from(bytes) * nodes).max(-self.owed_limit);
            output.budget.take(&self.refill, bytes);
            Choice::Direct
        } else {
            output.owed = owed.min(self.owed_limit);
            Choice::Via(via)
        }
    }

    /// The path of a packet that belongs to a flowlet.
    fn follow(&mut self, now_ns: u64, flow: u32, to: NodeId, bytes: u32, found: Lookup) -> Option<NodeId> {
        let (at, old): (Position, _) = match found {
            Lookup::Alive(at, via) => (at, Some(via)),
            Lookup::New(at) => (at, None),
        };
        if old.is_some_and(|via| via != to) && self.returns(now_ns, to) {
            self.outputs[to.index()].return_ns = now_ns.saturating_add(RETURN_WINDOWS * self.window.ns());
            self.flowlet_counts.returned += 1;
            self.flowlets.as_mut()?.set(at, now_ns, flow, to, to);
            return Some(to);
        }
        if let Some(via) = old
            && self.leads(via, to)
            && (via != to || self.config.mode != Mode::Direct || self.may_overdraw(now_ns, to))
            && self.has_capacity(now_ns, via, bytes)
        {
            self.flowlet_counts.kept += 1;
            self.flowlets.as_mut()?.touch(at, now_ns);
            return Some(via);
        }
        let direct = self.goes_direct(now_ns, to);
        let suitable = if direct && self.has_capacity(now_ns, to, bytes) {
            Some(to)
        } else {
            self.intermediate(now_ns, to, bytes, true)
        };
        let path = match suitable {
            Some(via) => via,
            None if direct => to,
            None => self.intermediate(now_ns, to, bytes, false).or(self.direct_link(to))?,
        };
        let flowlets = self.flowlets.as_mut()?;
        let counts = &mut self.flowlet_counts;
        match (suitable, old) {
            (None, Some(_)) => {
                flowlets.touch(at, now_ns);
                counts.spilled += 1;
            }
            (_, old) => {
                flowlets.set(at, now_ns, flow, to, path);
                *(if old.is_some() { &mut counts.moved } else { &mut counts.started }) += 1;
            }
        }
        Some(path)
    }

    /// The path of one packet, without flowlets.
    #[inline]
    fn spread(&mut self, now_ns: u64, to: NodeId, bytes: u32) -> Option<NodeId> {
        if self.goes_direct(now_ns, to) {
            return Some(to);
        }
        self.intermediate(now_ns, to, bytes, false).or(self.direct_link(to))
    }

    /// Whether the direct path is to be used.
    #[inline]
    fn goes_direct(&mut self, now_ns: u64, to: NodeId) -> bool {
        let due = self.outputs[to.index()].owed > 0;
        self.links[to.index()].up
            && match self.config.mode {
                Mode::Direct => self.has_budget(now_ns, to),
                Mode::Valiant => due,
                Mode::Adaptive => due || self.has_budget(now_ns, to) && self.has_headroom(now_ns, to),
            }
    }

    /// The output node, if there is a link to it.
    #[inline]
    fn direct_link(&self, to: NodeId) -> Option<NodeId> {
        self.links[to.index()].up.then_some(to)
    }

    /// Whether a flowlet on another path may return to the direct one.
    #[inline]
    fn returns(&mut self, now_ns: u64, to: NodeId) -> bool {
        now_ns >= self.outputs[to.index()].return_ns
            && self.config.mode != Mode::Valiant
            && self.leads(to, to)
            && self.has_budget(now_ns, to)
            && self.has_headroom(now_ns, to)
    }

    #[inline]
    fn may_overdraw(&mut self, now_ns: u64, to: NodeId) -> bool {
        self.outputs[to.index()].budget.may_overdraw(&self.refill, now_ns)
    }

    #[inline]
    fn has_budget(&mut self, now_ns: u64, to: NodeId) -> bool {
        self.outputs[to.index()].budget.allows(&self.refill, now_ns)
    }

    /// Whether a link has capacity for a packet of a flowlet. A 32nd stays free for transit packets, which
    /// have no other path.
    #[inline]
    fn has_capacity(&self, now_ns: u64, via: NodeId, bytes: u32) -> bool {
        let load = self.links[via.index()].load.bits(self.window, now_ns);
        load.saturating_add(u64::from(bytes) * 8) <= self.link_bits - self.link_bits / 32
    }

    /// Whether an eighth of a link is free. Transit traffic is uneven: a link that is filled up between its
    /// peaks carries more than its share on average.
    #[inline]
    fn has_headroom(&self, now_ns: u64, to: NodeId) -> bool {
        self.links[to.index()].load.bits(self.window, now_ns) <= self.link_bits - self.link_bits / 8
    }

    /// Whether a packet for `to` that is sent to `via` can arrive.
    #[inline]
    fn leads(&self, via: NodeId, to: NodeId) -> bool {
        self.links.get(via.index()).is_some_and(|l| l.up) && !self.outputs[to.index()].cut.contains(&via.0)
    }

    /// The intermediate node of a packet, by deficit round-robin: the next node that has had no more than the
    /// mean, and whose link has capacity for the packet if `with_capacity` is set; if there is none among the
    /// next few, the one that has had least. Its counter is updated.
    fn intermediate(&mut self, now_ns: u64, to: NodeId, bytes: u32, with_capacity: bool) -> Option<NodeId> {
        let count = self.vias.len() as u32;
        let set = self.round_robin.set(self.outputs[to.index()].counters, to.0.into(), now_ns);
        let output = &self.outputs[to.index()];
        // Links without capacity earn no deficit.
        let (mut full, mut fulls) = ([0; LOOKS], 0);
        let mut best: Option<(i32, u32)> = None;
        let (mut at, mut looks) = (output.next, 0);
        for _ in 0..count {
            let via = self.vias[at as usize];
            let place = at;
            at = if at + 1 == count { 0 } else { at + 1 };
            if place == output.position || !output.cut.is_empty() && output.cut.contains(&via) {
                continue;
            }
            if with_capacity && !self.has_capacity(now_ns, NodeId(via), bytes) {
                full[fulls] = place;
                fulls += 1;
            } else {
                let above = self.round_robin.above(set, place);
                if best.is_none_or(|(least, _)| above < least) {
                    best = Some((above, place));
                }
                if above <= 0 {
                    break;
                }
            }
            looks += 1;
            if looks == LOOKS {
                break;
            }
        }
        let (_, place) = best?;
        self.round_robin.raise(set, bytes);
        self.round_robin.charge(set, output.position, bytes, 1);
        full[..fulls].iter().for_each(|&place| self.round_robin.charge(set, place, bytes, 1));
        output.cut.iter().filter(|&&cut| cut != to.0).for_each(|&cut| {
            self.round_robin.charge(set, self.outputs[usize::from(cut)].position, bytes, 1);
        });
        let paths = output.paths.saturating_sub(fulls as u32);
        self.round_robin.charge(set, place, bytes, paths);
        let output = &mut self.outputs[to.index()];
        output.next = if place + 1 == count { 0 } else { place + 1 };
        output.counters = set.map_or(output.counters, round_robin::CounterSet::place);
        Some(NodeId(self.vias[place as usize]))
    }

    /// Its settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// R/N, with the nodes that are alive now.
    #[must_use]
    pub const fn direct_share_bps(&self) -> u64 {
        self.refill.rate_bps()
    }
    /// The window over which the load of links is measured.
    #[must_use]
    pub const fn window_ns(&self) -> u64 {
        self.window.ns()
    }
    /// The nodes alive.
    #[must_use]
    pub const fn alive(&self) -> u16 {
        self.alive
    }
    /// The load of the link to a node, in the window that ends now: own packets and transit packets.
    #[must_use]
    pub fn load_bps(&self, now_ns: u64, to: NodeId) -> u64 {
        self.links.get(to.index()).map_or(0, |l| l.load.rate_bps(self.window, now_ns))
    }
    /// The counters of flowlets.
    #[must_use]
    pub const fn flowlet_counts(&self) -> FlowletCounts {
        self.flowlet_counts
    }
    /// The flow table, if flowlets are kept.
    #[must_use]
    pub const fn flowlets(&self) -> Option<&Flowlets> {
        self.flowlets.as_ref()
    }
}

/// The node with which a node begins to use others in turn, for an output node: different for nodes that send
/// to one output node, and for output nodes that one node sends to.
fn start(me: NodeId, to: usize, count: usize) -> u32 {
    // The fractional parts of multiples of the golden ratio are far from each other.
    let part = (to as u32).wrapping_mul(0x9e37_79b1);
    let at = usize::from(me.0) + ((u64::from(part) * count as u64) >> 32) as usize;
    (at % count.max(1)) as u32
}

const _: () = assert!(MAX_NODES < u16::MAX, "the flow table has a mark for free places");
