//! Which way a packet goes: decided at its input node, from what that node knows by itself.
//!
//! # The three modes
//!
//! With N nodes of external rate R, and t the traffic from this node for one output node:
//!
//! | mode | straight | over each other node | a link carries |
//! |---|---|---|---|
//! | [`Mode::Valiant`] | 2t/N | t/N | 2R/N at most |
//! | [`Mode::Direct`] | t, R/N at most | the rest evenly | R/N for uniform traffic; beyond 2R/N for some: 3R/4 in place of R/2 when four nodes send all to one each |
//! | [`Mode::Adaptive`] | t, the greater of R/N and 2t/N at most | the rest evenly, t/N at most | 2R/N at most |
//!
//! Valiant draws one of all N nodes: this node and the output node are among them and mean straight. Direct is what RouteBricks
//! describes (§3.2): R/N straight, the rest over the *remaining* nodes. That keeps c below 3, but when all traffic is for one node it
//! uses the straight link less than the others, which then exceed 2R/N by (N-1)/(N-2). Adaptive never sends less straight than
//! Valiant, and beyond that up to R/N as long as the straight link (its own traffic and what is in transit) stays below 7/8 of 2R/N: so
//! no intermediate sees more than under Valiant, and no link more than it was planned for.
//!
//! # Flowlets
//!
//! With [`Config::delta_ns`], a packet that follows one of its flow within delta goes the same way, as long as the link bears it: its
//! load over a sliding window leaves room (and, under Direct, R/N is not exceeded). If not, the flowlet moves to a way that does
//! bear it; if there is none, its packets are spread one by one, and it returns to its way when that has room.
//! Where a burst has driven flowlets from the straight way, they come back one after the other, a few windows apart, while less than
//! R/N goes straight; so flows that never pause do not stay on the longer way.

use crate::budget::{Budget, MAX_BYTES, Refill};
use crate::flowlet::{At, Flowlets, Found};
use crate::load::{Load, Window};
use crate::{Error, Failures, MAX_NODES, NodeId, in_range};
use measure::rng::Rng;

/// How packets are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Every packet over a random node: two phases.
    Valiant,
    /// Up to R/N straight, the rest over the remaining nodes.
    Direct,
    /// The greater of R/N and Valiant's share straight, within what the straight link bears.
    #[default]
    Adaptive,
}

/// What a balancer is made of.
///
/// Rates and packet lengths are measured alike, with or without Ethernet's overhead. Where several workers of a node have a balancer
/// each, each is given its part of the node's rate and of the links'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The node that decides.
    pub me: NodeId,
    /// How many nodes the cluster has.
    pub nodes: u16,
    /// R: the rate of the node's external ports together.
    pub rate_bps: u64,
    /// What an internal link bears; none: 2R/N.
    pub link_bps: Option<u64>,
    /// How packets are spread.
    pub mode: Mode,
    /// How much of R/N can be saved up for a burst.
    pub burst_ns: u64,
    /// Over how long the load of a link is measured, rounded up to a power of two; none: 1 ms, or 32 frames of 1,538 bytes at
    /// 2R/N, whichever is longer.
    pub window_ns: Option<u64>,
    /// How long after a packet the next one of its flow still goes the same way; none: no flowlets.
    pub delta_ns: Option<u64>,
    /// For how many flows at a time there is room.
    pub flows: usize,
}

impl Config {
    /// The usual: adaptive, bursts of 1 ms, flowlets with a delta of 100 ms, room for 65,536 flows.
    #[must_use]
    pub const fn new(me: NodeId, nodes: u16, rate_bps: u64) -> Self {
        Self {
            me,
            nodes,
            rate_bps,
            link_bps: None,
            mode: Mode::Adaptive,
            burst_ns: 1_000_000,
            window_ns: None,
            delta_ns: Some(100_000_000),
            flows: 1 << 16,
        }
    }
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

/// Which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    /// It leaves by a port of this node.
    Local,
    /// Over the link to the output node.
    Direct,
    /// Over the link to this intermediate node.
    Via(NodeId),
    /// No living way: the output node or all links towards it are dead, or there is no such node.
    #[default]
    Unreachable,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Tally {
    #[inline]
    fn add(&mut self, bytes: u32) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(u64::from(bytes));
    }
}

/// What became of the packets for one output node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputCounts {
    /// Went straight.
    pub direct: Tally,
    /// Went over an intermediate.
    pub balanced: Tally,
}

/// What became of flowlets, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowletCounts {
    /// The first of a flowlet.
    pub started: u64,
    /// Went as the one before.
    pub kept: u64,
    /// Took their flowlet to another way, as its own could not bear them.
    pub moved: u64,
    /// Took their flowlet back to the straight way, as there was room again.
    pub returned: u64,
    /// Were spread alone, as no way could bear them.
    pub spilled: u64,
}

#[derive(Clone, Debug)]
struct Output {
    budget: Budget,
    alive: bool,
    /// Where this node is among `vias`; their number if it is not.
    position: u32,
    /// Nodes that cannot reach this one; almost always none.
    cut: Box<[u16]>,
    counts: OutputCounts,
}

#[derive(Clone, Debug)]
struct Link {
    up: bool,
    load: Load,
    sent: Tally,
    transit: Tally,
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
    /// The nodes that a living link goes to: what intermediates are drawn from.
    vias: Vec<u16>,
    flowlets: Option<Flowlets>,
    flowlet_counts: FlowletCounts,
    /// When the next flowlet may return to the straight way.
    return_ns: u64,
}

/// How many ways are looked at for one that bears a packet.
const LOOKS: usize = 8;

/// After one flowlet has returned to the straight way, how many windows the next waits: the way's load shows by then, and returning
/// costs little order.
const RETURN_WINDOWS: u64 = 4;

impl Balancer {
    /// With everything alive and all budgets full at `now_ns`.
    pub fn new(config: Config, now_ns: u64) -> Result<Self, Error> {
        let n = config.nodes;
        let failures = Failures::none(n)?;
        if config.me.0 >= n {
            return Err(Error::NoSuchNode { node: config.me, nodes: n });
        }
        let rate = in_range("a rate", config.rate_bps, "bits per second", 1000, 1 << 50)?;
        in_range("bursts", config.burst_ns, "nanoseconds", 0, 10_000_000_000)?;
        let link_bps = config.link_bps.unwrap_or(rate.saturating_mul(2) / u64::from(n));
        in_range("a link's rate", link_bps, "bits per second", 1, 1 << 50)?;
        if let Some(delta) = config.delta_ns {
            in_range("delta", delta, "nanoseconds", 1, 60_000_000_000)?;
        }
        in_range("room", config.flows as u64, "flows", 1, 1 << 26)?;
        let frames_ns = 32 * 1538 * 8 * 1_000_000_000 / link_bps;
        let window = Window::at_least(config.window_ns.unwrap_or(frames_ns.max(1_000_000)));
        let output = Output {
            budget: Budget::default(),
            alive: true,
            position: 0,
            cut: Box::default(),
            counts: OutputCounts::default(),
        };
        let link =
            Link { up: false, load: Load::default(), sent: Tally::default(), transit: Tally::default() };
        let mut this = Self {
            refill: Refill::new(rate / u64::from(n), config.burst_ns),
            window,
            link_bits: window.bits(link_bps),
            alive: n,
            outputs: vec![output; n.into()].into(),
            links: vec![link; n.into()].into(),
            vias: Vec::with_capacity(n.into()),
            flowlets: config.delta_ns.map(|delta| Flowlets::new(config.flows, delta)),
            flowlet_counts: FlowletCounts::default(),
            return_ns: now_ns,
            config,
        };
        this.apply(&failures)?;
        this.outputs.iter_mut().for_each(|o| o.budget = Budget::full(&this.refill, now_ns));
        Ok(this)
    }

    /// What is dead from now on; everything else is alive. What the balancer knows of flows and loads stays. R/N follows the number
    /// of living nodes.
    pub fn apply(&mut self, failures: &Failures) -> Result<(), Error> {
        let n = self.config.nodes;
        if failures.nodes() != n {
            return Err(Error::OtherCluster { got: failures.nodes(), nodes: n });
        }
        let me = self.config.me;
        self.alive = failures.alive().max(1);
        self.refill = Refill::new(self.config.rate_bps / u64::from(self.alive), self.config.burst_ns);
        for node in (0..n).map(NodeId) {
            self.links[node.index()].up = node != me && failures.link_up(me, node);
            let output = &mut self.outputs[node.index()];
            output.alive = failures.node_up(node);
            output.cut = Box::default();
        }
        let links = &self.links;
        self.vias.clear();
        self.vias.extend((0..n).filter(|&v| links[usize::from(v)].up));
        self.outputs.iter_mut().for_each(|o| o.position = self.vias.len() as u32);
        for (position, &via) in self.vias.iter().enumerate() {
            self.outputs[usize::from(via)].position = position as u32;
        }
        let mut cut: Vec<(NodeId, NodeId)> =
            failures.dead_links().filter(|l| l.0 != me).map(|(f, t)| (t, f)).collect();
        cut.sort_unstable();
        for of_one in cut.chunk_by(|a, b| a.0 == b.0) {
            self.outputs[of_one[0].0.index()].cut = of_one.iter().map(|l| l.1.0).collect();
        }
        Ok(())
    }

    /// Goes on from what another balancer of the same node knew of flows, budgets and loads, and had counted, as far as it has the
    /// same nodes. The configuration and what is dead are this one's own. The other one is of no use afterwards.
    pub fn take_over(&mut self, old: &mut Self) {
        let same_window = self.window == old.window;
        for (new, old) in self.outputs.iter_mut().zip(&old.outputs) {
            (new.budget, new.counts) = (old.budget.clone(), old.counts);
        }
        for (new, old) in self.links.iter_mut().zip(&old.links) {
            (new.sent, new.transit) = (old.sent, old.transit);
            if same_window {
                new.load = old.load.clone();
            }
        }
        if let (Some(new), Some(old)) = (&mut self.flowlets, &mut old.flowlets) {
            new.take_over(old);
        }
        self.flowlet_counts = old.flowlet_counts;
        self.return_ns = self.return_ns.max(old.return_ns);
    }

    /// Decides for a vector of packets, in order, at one time; `choices` is as long as `packets` (of the longer one, the rest is left
    /// alone).
    pub fn decide(&mut self, now_ns: u64, rng: &mut Rng, packets: &[Outgoing], choices: &mut [Choice]) {
        for (packet, choice) in packets.iter().zip(choices) {
            *choice = self.decide_one(now_ns, rng, packet);
        }
    }

    /// Another node's packets went on over the link to `to`, as this node is their intermediate: the link carries them too.
    #[inline]
    pub fn carry(&mut self, now_ns: u64, to: NodeId, packets: u32, bytes: u64) {
        if let Some(link) = self.links.get_mut(to.index()) {
            link.load.add(self.window, now_ns, bytes.saturating_mul(8));
            link.transit.packets = link.transit.packets.wrapping_add(packets.into());
            link.transit.bytes = link.transit.bytes.wrapping_add(bytes);
        }
    }

    #[inline]
    fn decide_one(&mut self, now_ns: u64, rng: &mut Rng, packet: &Outgoing) -> Choice {
        let to = packet.output;
        if to == self.config.me {
            return Choice::Local;
        }
        let Some(output) = self.outputs.get(to.index()) else { return Choice::Unreachable };
        if !output.alive {
            return Choice::Unreachable;
        }
        let bytes = packet.bytes.min(MAX_BYTES);
        let way = match self.flowlets.as_ref().map(|f| f.find(now_ns, packet.flow, to)) {
            None => self.draw(now_ns, rng, to),
            Some(found) => self.follow(now_ns, rng, packet.flow, to, bytes, found),
        };
        let Some(via) = way else { return Choice::Unreachable };
        let link = &mut self.links[via.index()];
        link.load.add(self.window, now_ns, u64::from(bytes) * 8);
        link.sent.add(packet.bytes);
        let output = &mut self.outputs[to.index()];
        if via == to {
            output.budget.take(&self.refill, bytes);
            output.counts.direct.add(packet.bytes);
            Choice::Direct
        } else {
            output.counts.balanced.add(packet.bytes);
            Choice::Via(via)
        }
    }

    /// The way of a packet whose flow is looked at.
    fn follow(
        &mut self,
        now_ns: u64,
        rng: &mut Rng,
        flow: u32,
        to: NodeId,
        bytes: u32,
        found: Found,
    ) -> Option<NodeId> {
        let (at, old): (At, _) = match found {
            Found::Alive(at, via) => (at, Some(via)),
            Found::New(at) => (at, None),
        };
        if let Some(via) = old
            && via != to
            && now_ns >= self.return_ns
            && self.config.mode != Mode::Valiant
            && self.leads(to, to)
            && self.has_budget(now_ns, to)
            && self.has_headroom(now_ns, to)
        {
            self.return_ns = now_ns.saturating_add(RETURN_WINDOWS * self.window.ns());
            self.flowlet_counts.returned += 1;
            self.flowlets.as_mut()?.set(at, now_ns, flow, to, to);
            return Some(to);
        }
        if let Some(via) = old
            && self.leads(via, to)
            && (via != to || self.config.mode != Mode::Direct || self.has_budget(now_ns, to))
            && self.bears(now_ns, via, bytes)
        {
            self.flowlet_counts.kept += 1;
            self.flowlets.as_mut()?.touch(at, now_ns);
            return Some(via);
        }
        let drawn = self.draw(now_ns, rng, to)?;
        let bearing = if self.bears(now_ns, drawn, bytes) {
            Some(drawn)
        } else {
            let start = rng.below(self.vias.len() as u64) as usize;
            (0..self.vias.len().min(LOOKS))
                .map(|i| NodeId(self.vias[(start + i) % self.vias.len()]))
                .find(|&via| via != to && self.leads(via, to) && self.bears(now_ns, via, bytes))
        };
        let flowlets = self.flowlets.as_mut()?;
        match (bearing, old) {
            (Some(via), _) => flowlets.set(at, now_ns, flow, to, via),
            (None, None) => flowlets.set(at, now_ns, flow, to, drawn),
            (None, Some(_)) => flowlets.touch(at, now_ns),
        }
        let counts = &mut self.flowlet_counts;
        match (bearing, old) {
            (_, None) => counts.started += 1,
            (Some(_), Some(_)) => counts.moved += 1,
            (None, Some(_)) => counts.spilled += 1,
        }
        Some(bearing.unwrap_or(drawn))
    }

    /// A way for one packet, whatever its flow.
    #[inline]
    fn draw(&mut self, now_ns: u64, rng: &mut Rng, to: NodeId) -> Option<NodeId> {
        if !self.links[to.index()].up {
            return self.intermediate(rng, to);
        }
        let straight = match self.config.mode {
            Mode::Direct => self.has_budget(now_ns, to),
            Mode::Valiant => self.drawn_straight(rng),
            Mode::Adaptive => {
                self.drawn_straight(rng) || self.has_budget(now_ns, to) && self.has_headroom(now_ns, to)
            }
        };
        if straight { Some(to) } else { self.intermediate(rng, to).or(Some(to)) }
    }

    /// Whether one of all nodes, drawn at random, is this one or the output node.
    #[inline]
    fn drawn_straight(&self, rng: &mut Rng) -> bool {
        rng.below(self.vias.len() as u64 + 1) < 2
    }

    #[inline]
    fn has_budget(&mut self, now_ns: u64, to: NodeId) -> bool {
        self.outputs[to.index()].budget.allows(&self.refill, now_ns)
    }

    /// Whether a link has room for a packet of a flowlet. A 32nd stays free: a link that flowlets fill to the brim has none for what
    /// comes over this node from others, which cannot go another way.
    #[inline]
    fn bears(&self, now_ns: u64, via: NodeId, bytes: u32) -> bool {
        let load = self.links[via.index()].load.bits(self.window, now_ns);
        load.saturating_add(u64::from(bytes) * 8) <= self.link_bits - self.link_bits / 32
    }

    /// Whether an eighth of a link is free. What is drawn comes unevenly: a link that is filled to the brim between its peaks carries
    /// more than it should on the whole.
    #[inline]
    fn has_headroom(&self, now_ns: u64, to: NodeId) -> bool {
        self.links[to.index()].load.bits(self.window, now_ns) <= self.link_bits - self.link_bits / 8
    }

    /// Whether a packet for `to` that is given to `via` can arrive.
    #[inline]
    fn leads(&self, via: NodeId, to: NodeId) -> bool {
        self.links.get(via.index()).is_some_and(|l| l.up) && !self.outputs[to.index()].cut.contains(&via.0)
    }

    /// One of the nodes that can be an intermediate, all with the same likelihood.
    #[inline]
    fn intermediate(&self, rng: &mut Rng, to: NodeId) -> Option<NodeId> {
        let output = &self.outputs[to.index()];
        let count = self.vias.len() as u64;
        let others = count - u64::from(u64::from(output.position) < count);
        if others == 0 {
            return None;
        }
        let mut drawn = || {
            let i = rng.below(others);
            NodeId(self.vias[(i + u64::from(i >= u64::from(output.position))) as usize])
        };
        if output.cut.is_empty() {
            return Some(drawn());
        }
        // A few draws keep the likelihoods even; with almost all cut, the first living one after the last draw is good enough.
        let mut last = drawn();
        for _ in 0..LOOKS {
            if self.leads(last, to) {
                return Some(last);
            }
            last = drawn();
        }
        let start = self.vias.partition_point(|&v| v < last.0);
        let (before, after) = self.vias.split_at(start);
        after.iter().chain(before).map(|&v| NodeId(v)).find(|&v| v != to && self.leads(v, to))
    }

    /// What it was made of.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// R/N, with the nodes that are alive now.
    #[must_use]
    pub const fn direct_share_bps(&self) -> u64 {
        self.refill.rate_bps()
    }
    /// How many bits above R/N can go straight in a burst, but for a packet.
    #[must_use]
    pub const fn direct_depth_bits(&self) -> u64 {
        self.refill.depth_bits()
    }
    /// Over how long the load of links is measured.
    #[must_use]
    pub const fn window_ns(&self) -> u64 {
        self.window.ns()
    }
    /// The nodes alive.
    #[must_use]
    pub const fn alive(&self) -> u16 {
        self.alive
    }
    /// The load of the link to a node, in the window that ends now: own packets and those in transit.
    #[must_use]
    pub fn load_bps(&self, now_ns: u64, to: NodeId) -> u64 {
        self.links.get(to.index()).map_or(0, |l| l.load.rate_bps(self.window, now_ns))
    }
    /// What went over the link to a node: packets of this node, and packets in transit.
    #[must_use]
    pub fn link_counts(&self, to: NodeId) -> (Tally, Tally) {
        self.links.get(to.index()).map_or_else(Default::default, |l| (l.sent, l.transit))
    }
    /// What became of the packets for an output node.
    #[must_use]
    pub fn output_counts(&self, to: NodeId) -> OutputCounts {
        self.outputs.get(to.index()).map_or_else(Default::default, |o| o.counts)
    }
    /// What became of flowlets.
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

const _: () = assert!(MAX_NODES < u16::MAX, "the flow table has a mark for free places");
