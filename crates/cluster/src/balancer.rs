//! Which way a packet goes: decided at its input node, from what that node knows by itself.
//!
//! # The three modes
//!
//! With N nodes of external rate R, and t the traffic from this node for one output node:
//!
//! | mode | direct | over each other node | a link carries |
//! |---|---|---|---|
//! | [`Mode::Valiant`] | 2t/N | t/N | 2R/N at most |
//! | [`Mode::Direct`] | t, R/N at most | the rest evenly | R/N for uniform traffic; beyond 2R/N for some: 3R/4 in place of R/2 when four nodes send all to one each |
//! | [`Mode::Adaptive`] | t, the greater of R/N and 2t/N at most | the rest evenly, t/N at most | 2R/N at most |
//!
//! Valiant takes all N nodes in turn: this node and the output node are among them and mean the direct path.
//! Direct is what RouteBricks describes (§3.2): R/N directly, the rest over the *remaining* nodes. That keeps
//! c below 3, but when all traffic is for one node it uses the direct link less than the others, which then
//! exceed 2R/N by (N-1)/(N-2). Adaptive never sends less directly than Valiant, and beyond that up to R/N as
//! long as the direct link (its own traffic and what is in transit) stays below 7/8 of 2R/N: so no
//! intermediate sees more than under Valiant, and no link more than it was planned for.
//!
//! # No draws
//!
//! Random numbers would spread packets evenly in the long run; the busiest of a million links has twice its
//! share after ten packets. So nothing is drawn. For each output node the others are taken in turn, and each
//! that a packet could go by has an account of bytes: who has had more than the mean is passed over. Of what
//! is spread for one output node a link is given its share and a packet at most, over any time, whatever the
//! lengths of packets. Nodes begin at different places, so that those that send to one output node do not
//! take the same intermediate at a time: what goes on from an intermediate to the output node is even too.
//! What Valiant sends directly is an account as well, of 2/N of the bytes for an output node.
//!
//! # Flowlets
//!
//! With [`Config::delta_ns`], a packet that follows one of its flow within delta goes the same way, as long
//! as the link has capacity: its load over a sliding window leaves room (and, under Direct, R/N is not
//! exceeded). If not, the flowlet moves to a way that does bear it, the next in turn; if none of the next few
//! does, its packets are spread one by one, and it returns to its way when that has room. Where a burst has
//! driven flowlets from the direct path, those for one output node come back one after the other, a few
//! windows apart, while less than R/N goes directly; so flows that never pause do not stay on the longer
//! path. Under Direct, flowlets that go directly stay while R/N is overdrawn by less than can be saved up:
//! else each burst would drive all of them away at once.

use crate::budget::{Budget, MAX_BYTES, Refill};
use crate::flowlet::{At, Flowlets, Found};
use crate::load::{Load, Window};
use crate::turns::{self, Turns};
use crate::{Error, Failures, MAX_NODES, NodeId, in_range};

/// The policy of load balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Every packet over one of all nodes, in turn: two phases.
    Valiant,
    /// Up to R/N directly, the rest over the remaining nodes.
    Direct,
    /// The greater of R/N and Valiant's share directly, within the capacity of the direct link.
    #[default]
    Adaptive,
}

/// What a balancer is made of.
///
/// Rates and packet lengths are measured alike, with or without Ethernet's overhead. Where several workers of
/// a node have a balancer each, each is given its part of the node's rate and of the links'.
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
    /// How much of R/N can be saved up for a burst; none: 1 ms, or 32 frames of 1,538 bytes at R/N, whichever
    /// is longer.
    pub burst_ns: Option<u64>,
    /// Over how long the load of a link is measured, rounded up to a power of two; none: 1 ms, or 8 frames of
    /// 1,538 bytes at that capacity, whichever is longer.
    pub window_ns: Option<u64>,
    /// How long after a packet the next one of its flow still goes the same way; none: no flowlets.
    pub delta_ns: Option<u64>,
    /// For how many flows at a time there is room.
    pub flows: usize,
}

impl Config {
    /// The usual: adaptive, flowlets with a delta of 100 ms, room for 65,536 flows.
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
    /// How much of R/N can be saved up: what is asked for, or 1 ms, or as long as some long frames take at
    /// R/N.
    #[must_use]
    pub fn burst(&self) -> u64 {
        let share = self.rate_bps / u64::from(self.nodes.max(1));
        self.burst_ns.unwrap_or_else(|| frames_ns(BURST_FRAMES, share).clamp(1_000_000, MAX_BURST_NS))
    }
    /// The capacity of a link: what is asked for, or 2R/N.
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

/// The longest frame that is usual, with Ethernet's overhead.
const FRAME: u64 = 1538;
/// So many of them can be saved up for a burst at least,
const BURST_FRAMES: u64 = 32;
/// and are in the window over which a link's load is measured.
const WINDOW_FRAMES: u64 = 8;
const MAX_BURST_NS: u64 = 10_000_000_000;

/// How long so many long frames take.
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

/// What became of flowlets, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowletCounts {
    /// The first of a flowlet.
    pub started: u64,
    /// Went as the one before.
    pub kept: u64,
    /// Took their flowlet to another way, as its own had no capacity for them.
    pub moved: u64,
    /// Took their flowlet back to the direct path, as there was room again.
    pub returned: u64,
    /// Were spread alone, as no path had capacity for them.
    pub spilled: u64,
}

#[derive(Clone, Debug)]
struct Output {
    budget: Budget,
    alive: bool,
    /// What Valiant would have sent directly and did not go: bytes, times the number of nodes.
    owed: i64,
    /// Where this node is among `vias`; their number if it is not.
    position: u32,
    /// Whose turn it is, among `vias`.
    next: u32,
    /// Where its accounts were last.
    book: u16,
    /// How many of `vias` lead to this node.
    ways: u32,
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
    /// The nodes that a living link goes to: who can be an intermediate.
    vias: Vec<u16>,
    /// What each of them has had.
    turns: Turns,
    /// What is owed to a direct path, or by one, at most: what can be saved up for a burst, and some frames.
    owed_limit: i64,
    flowlets: Option<Flowlets>,
    flowlet_counts: FlowletCounts,
}

/// How many ways are looked at for one that has capacity for a packet, or has had less than the mean.
const LOOKS: usize = 16;

/// After one flowlet has returned to the direct path, how many windows the next waits: the way's load shows
/// by then, and returning costs little order.
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
            book: 0,
            ways: 0,
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
            turns: Turns::default(),
            owed_limit: 0,
            flowlets: config.delta_ns.map(|delta| Flowlets::new(config.flows, delta)),
            flowlet_counts: FlowletCounts::default(),
            config,
        };
        this.apply(&failures)?;
        this.outputs.iter_mut().for_each(|o| o.budget = Budget::full(&this.refill, now_ns));
        Ok(this)
    }

    /// What is dead from now on; everything else is alive. What the balancer knows of flows and loads stays.
    /// R/N follows the number of living nodes.
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
        self.turns.reset(n.into(), count);
        self.owed_limit = (self.refill.depth_bits() / 8 + 4 * FRAME) as i64 * (count as i64 + 1);
        self.outputs.iter_mut().for_each(|o| (o.position, o.ways) = (count as u32, count as u32));
        for (position, &via) in self.vias.iter().enumerate() {
            let output = &mut self.outputs[usize::from(via)];
            (output.position, output.ways) = (position as u32, count as u32 - 1);
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
            output.ways -= lost.min(output.ways);
        }
        Ok(())
    }

    /// Goes on from what another balancer of the same node knew of flows, budgets and loads, and had counted
    /// of flowlets, as far as it has the same nodes. The configuration and what is dead are this one's own.
    /// The other one is of no use afterwards.
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

    /// Another node's packets went on over the link to `to`, as this node is their intermediate: the link
    /// carries them too.
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
        let way = match self.flowlets.as_ref().map(|f| f.find(now_ns, packet.flow, to)) {
            None => self.spread(now_ns, to, bytes),
            Some(found) => self.follow(now_ns, packet.flow, to, bytes, found),
        };
        let Some(via) = way else { return Choice::Unreachable };
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

    /// The way of a packet whose flow is looked at.
    fn follow(&mut self, now_ns: u64, flow: u32, to: NodeId, bytes: u32, found: Found) -> Option<NodeId> {
        let (at, old): (At, _) = match found {
            Found::Alive(at, via) => (at, Some(via)),
            Found::New(at) => (at, None),
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
            && self.bears(now_ns, via, bytes)
        {
            self.flowlet_counts.kept += 1;
            self.flowlets.as_mut()?.touch(at, now_ns);
            return Some(via);
        }
        let straight = self.goes_straight(now_ns, to);
        let bearing = if straight && self.bears(now_ns, to, bytes) {
            Some(to)
        } else {
            self.intermediate(now_ns, to, bytes, true)
        };
        let way = match bearing {
            Some(via) => via,
            None if straight => to,
            None => self.intermediate(now_ns, to, bytes, false).or(self.direct_link(to))?,
        };
        let flowlets = self.flowlets.as_mut()?;
        let counts = &mut self.flowlet_counts;
        match (bearing, old) {
            (None, Some(_)) => {
                flowlets.touch(at, now_ns);
                counts.spilled += 1;
            }
            (_, old) => {
                flowlets.set(at, now_ns, flow, to, way);
                *(if old.is_some() { &mut counts.moved } else { &mut counts.started }) += 1;
            }
        }
        Some(way)
    }

    /// A way for one packet, whatever its flow.
    #[inline]
    fn spread(&mut self, now_ns: u64, to: NodeId, bytes: u32) -> Option<NodeId> {
        if self.goes_straight(now_ns, to) {
            return Some(to);
        }
        self.intermediate(now_ns, to, bytes, false).or(self.direct_link(to))
    }

    /// Whether the link to the output node is to be taken.
    #[inline]
    fn goes_straight(&mut self, now_ns: u64, to: NodeId) -> bool {
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

    /// Whether a flowlet that goes another way may return to the direct one.
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

    /// Whether a link has room for a packet of a flowlet. A 32nd stays free: a link that flowlets fill to the
    /// brim has none for what comes over this node from others, which cannot go another way.
    #[inline]
    fn bears(&self, now_ns: u64, via: NodeId, bytes: u32) -> bool {
        let load = self.links[via.index()].load.bits(self.window, now_ns);
        load.saturating_add(u64::from(bytes) * 8) <= self.link_bits - self.link_bits / 32
    }

    /// Whether an eighth of a link is free. What is in transit comes unevenly: a link that is filled to the
    /// brim between its peaks carries more than it should on the whole.
    #[inline]
    fn has_headroom(&self, now_ns: u64, to: NodeId) -> bool {
        self.links[to.index()].load.bits(self.window, now_ns) <= self.link_bits - self.link_bits / 8
    }

    /// Whether a packet for `to` that is given to `via` can arrive.
    #[inline]
    fn leads(&self, via: NodeId, to: NodeId) -> bool {
        self.links.get(via.index()).is_some_and(|l| l.up) && !self.outputs[to.index()].cut.contains(&via.0)
    }

    /// The node whose turn it is to be the intermediate of a packet: the next that has had no more than the
    /// mean, and whose link has capacity for the packet if that is asked for; of those that are looked at the
    /// one that has had least, if there is no such. The packet is put on its account.
    fn intermediate(&mut self, now_ns: u64, to: NodeId, bytes: u32, bearing: bool) -> Option<NodeId> {
        let count = self.vias.len() as u32;
        let book = self.turns.book(self.outputs[to.index()].book, to.0.into(), now_ns);
        let output = &self.outputs[to.index()];
        // Who has no room is not owed its turn.
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
            if bearing && !self.bears(now_ns, NodeId(via), bytes) {
                full[fulls] = place;
                fulls += 1;
            } else {
                let above = self.turns.above(book, place);
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
        self.turns.raise(book, bytes);
        self.turns.charge(book, output.position, bytes, 1);
        full[..fulls].iter().for_each(|&place| self.turns.charge(book, place, bytes, 1));
        output.cut.iter().filter(|&&cut| cut != to.0).for_each(|&cut| {
            self.turns.charge(book, self.outputs[usize::from(cut)].position, bytes, 1);
        });
        let ways = output.ways.saturating_sub(fulls as u32);
        self.turns.charge(book, place, bytes, ways);
        let output = &mut self.outputs[to.index()];
        output.next = if place + 1 == count { 0 } else { place + 1 };
        output.book = book.map_or(output.book, turns::At::place);
        Some(NodeId(self.vias[place as usize]))
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

/// Where a node begins to take others in turn, for an output node: different for nodes that send to one
/// output node, and for output nodes that one node sends to.
fn start(me: NodeId, to: usize, count: usize) -> u32 {
    // The fractional parts of multiples of the golden ratio are far from each other.
    let part = (to as u32).wrapping_mul(0x9e37_79b1);
    let at = usize::from(me.0) + ((u64::from(part) * count as u64) >> 32) as usize;
    (at % count.max(1)) as u32
}

const _: () = assert!(MAX_NODES < u16::MAX, "the flow table has a mark for free places");
