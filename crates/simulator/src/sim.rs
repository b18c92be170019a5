//! A running simulation, event by event.

mod setup;
mod single;
mod summary;
#[cfg(test)]
mod tests;

use crate::config::{Config, Part};
use crate::fabric::{Fabric, NONE, Pace, Packet, Path, Slab};
use crate::report::Loss;
use crate::scheduler::Scheduler;
use crate::shape::{End, Shape};
use crate::traffic::{Lengths, exponential};
use crate::wheel::Wheel;
use cluster::balancer::FlowletCounts;
use cluster::lanes::Lanes;
use cluster::work::Work;
use cluster::{Balancer, Choice, Failures, NodeId, Outgoing, Rng};
use measure::latency::Latency;

/// An input line.
#[derive(Debug)]
struct Input {
    rng: Rng,
    /// Of the next packet.
    bytes: u16,
    born_ps: u64,
    ready_ps: u64,
    late_ps: u32,
    batch: u8,
    gap_ps: f64,
    /// The flow of the present train, and how many packets of the train are still to come.
    place: u32,
    pair: u32,
    output: u16,
    train: u32,
}

/// A flow, from its first packet until its last one has left or was lost.
#[derive(Debug)]
struct Flow {
    hash: u32,
    left: u32,
    seq: u32,
    under_way: u32,
    /// One above the highest sequence number that has left.
    next: u32,
    pair: u32,
    /// Whether the last packet that left was reordered.
    late: bool,
    /// With a central scheduler: the node that all its packets go to first.
    via: Option<u16>,
}

/// The counters for the packets of one input to one output.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    offered: u64,
    carried: u64,
    /// How long the last packet took, and via which node.
    last_ns: u32,
    last_via: Option<u16>,
}

#[derive(Debug, Default)]
struct Counts {
    events: u64,
    offered: (u64, u64),
    /// Counters of the packets that arrived during the time that is counted.
    left: (u64, u64),
    lost: [(u64, u64); Loss::ALL.len()],
    /// Bytes that left during the time that is counted.
    carried: u64,
    local: u64,
    direct: u64,
    via: u64,
    all: Latency,
    direct_ns: (u64, u64),
    via_ns: (u64, u64),
    skew: Latency,
    order: (u64, u64, u64),
    /// Sum of the bytes that were waiting when packets arrived at a queue, and number of these packets: for
    /// links, for outputs.
    found: [(u64, u64); 2],
}

/// A failure, or the end of one.
#[derive(Clone, Copy, Debug)]
struct Change {
    at_ps: u64,
    part: Part,
    up: bool,
    /// Whether the nodes now learn of the change, or the change itself happens now.
    known: bool,
}

const KIND: u32 = 30;
const GENERATE: u32 = 0;
const ARRIVE: u32 = 1 << KIND;
const WAKE: u32 = 2 << KIND;
const DONE: u32 = 3 << KIND;
/// Packets of a batch (RouteBricks, §4.2: kn = 16).
const BATCH: u8 = 16;

/// A running simulation.
pub struct Sim {
    config: Config,
    shape: Shape,
    wheel: Wheel,
    fabric: Fabric,
    inputs: Vec<Input>,
    lengths: Lengths,
    balancers: Vec<Balancer>,
    /// In a fly.
    lanes: Vec<Lanes>,
    rngs: Vec<Rng>,
    scheduler: Scheduler,
    flows: Slab<Flow>,
    /// Places for flows, the same number for each pair of input and output.
    places: Vec<u32>,
    width: usize,
    pair_start: Vec<u32>,
    pairs: Vec<Pair>,
    work: Vec<Work>,
    /// When each server is free; empty if servers have no limited rate.
    busy_ps: Vec<u64>,
    server: Option<Pace>,
    rate: Pace,
    dead_nodes: Vec<bool>,
    failures: Failures,
    changes: Vec<Change>,
    next_change: usize,
    now_ps: u64,
    warm_ps: u64,
    end_ps: u64,
    before: Option<FlowletCounts>,
    counts: Counts,
}

fn mix(n: u64) -> u64 {
    Rng::new(n).number()
}

impl Sim {
    /// The part of the simulation that is done, from 0 to 1.
    #[must_use]
    pub fn progress(&self) -> f64 {
        (self.now_ps as f64 / self.end_ps as f64).min(1.0)
    }
    /// The simulated time.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ps / 1000
    }
    /// Packets inside the cluster, and waiting events.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.fabric.packets.len(), self.wheel.len())
    }
    /// The parameters.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Simulates up to this number of events. Returns whether there are more.
    pub fn run(&mut self, events: u64) -> bool {
        for _ in 0..events {
            let Some(event) = self.wheel.pop() else { return false };
            while self.changes.get(self.next_change).is_some_and(|c| c.at_ps <= event.time_ps) {
                self.change(self.changes[self.next_change]);
                self.next_change += 1;
            }
            let now = event.time_ps;
            self.now_ps = now;
            self.counts.events += 1;
            if self.before.is_none() && now >= self.warm_ps {
                self.before = Some(self.flowlets());
            }
            let index = event.what & ((1 << KIND) - 1);
            match event.what >> KIND << KIND {
                GENERATE => self.generate(index as usize, now),
                ARRIVE => self.arrive(index, now),
                WAKE => self.wake(index, now),
                _ => self.handle(index, now),
            }
        }
        true
    }

    fn counting(&self, time_ps: u64) -> bool {
        (self.warm_ps..self.end_ps).contains(&time_ps)
    }

    /// Draws the next packet of an input, unless the simulated time is over.
    fn announce(&mut self, s: usize) {
        let input = &mut self.inputs[s];
        input.bytes = self.lengths.draw(&mut input.rng);
        let gap = if input.gap_ps > 0.0 { exponential(input.gap_ps, &mut input.rng) as u64 } else { 0 };
        input.born_ps += gap + self.rate.ps(input.bytes.into());
        if input.born_ps >= self.end_ps {
            return;
        }
        if input.batch == 0 {
            // This does not use the input's random numbers, so that the traffic is the same with and without
            // jitter.
            input.batch = BATCH;
            input.late_ps = self.rngs[s].below(self.config.jitter_ns * 1000 + 1) as u32;
        }
        input.batch -= 1;
        let ready = input.born_ps + self.config.server_ns * 1000 + u64::from(input.late_ps);
        input.ready_ps = input.ready_ps.max(ready);
        self.wheel.push(input.ready_ps, GENERATE | s as u32);
    }

    fn generate(&mut self, s: usize, now: u64) {
        let input = &mut self.inputs[s];
        let (born, bytes) = (input.born_ps, input.bytes);
        if input.train == 0 {
            let at = self.config.matrix.draw(s, &mut input.rng);
            input.pair = self.pair_start[s] + at as u32;
            input.output = self.config.matrix.output(s, at);
            let place = input.rng.below(self.width as u64) as u32;
            input.place = input.pair * self.width as u32 + place;
            // Geometric distribution: at least one, with the configured mean.
            let more = exponential(1.0 / -(1.0 - 1.0 / self.config.train).ln().min(-1e-9), &mut input.rng);
            input.train = 1 + if self.config.train > 1.0 { more as u32 } else { 0 };
        }
        input.train -= 1;
        let (place, pair, output) = (input.place as usize, input.pair, input.output);
        let mut flow = self.places[place];
        if flow == NONE {
            let left = self.config.flow_sizes.draw(&mut input.rng);
            let hash = input.rng.number() as u32;
            flow = self.flows.add(Flow {
                hash,
                left,
                seq: 0,
                under_way: 0,
                next: 0,
                pair,
                late: false,
                via: None,
            });
            self.places[place] = flow;
        }
        let of = &mut self.flows[flow];
        let seq = of.seq;
        of.seq = of.seq.wrapping_add(1);
        of.left -= 1;
        of.under_way += 1;
        if of.left == 0 {
            self.places[place] = NONE;
            input.train = 0;
        }
        self.announce(s);
        let packet = self.fabric.packets.add(Packet::new(born, flow, seq, s as u16, output, bytes));
        if self.dead_nodes[s] {
            // Nothing arrives at a dead port: these packets count neither as offered nor as lost.
            self.forget(packet);
            return;
        }
        if self.counting(born) {
            let bytes = u64::from(bytes);
            self.counts.offered.0 += 1;
            self.counts.offered.1 += bytes;
            self.pairs[pair as usize].offered += bytes;
        }
        self.arrive(packet, now);
    }

    /// A packet has arrived at a server, which may be busy.
    fn arrive(&mut self, packet: u32, now: u64) {
        let p = self.fabric.packets[packet];
        if self.dead_nodes[usize::from(p.at)] {
            return self.lose(packet, Loss::DeadNode);
        }
        if let Some(server) = self.server {
            let busy = &mut self.busy_ps[usize::from(p.at)];
            let waits = busy.saturating_sub(now);
            if waits > server.ps(self.config.buffer.into()) {
                return self.lose(packet, Loss::ServerFull);
            }
            *busy = now + waits + server.ps(p.bytes.into());
            let done = *busy;
            return self.wheel.push(done, DONE | packet);
        }
        self.handle(packet, now);
    }

    /// A server handles a packet.
    fn handle(&mut self, packet: u32, now: u64) {
        let counting = self.counting(now);
        let p = self.fabric.packets[packet];
        let bytes = u64::from(p.bytes);
        let node = usize::from(p.at);
        if p.path == Path::Undecided {
            if counting {
                self.work[node].input += bytes;
            }
            if !self.decide(packet, now) {
                return;
            }
        }
        match self.shape.next(&mut self.fabric.packets[packet]) {
            End::Output(line) => {
                if counting {
                    self.work[node].output += bytes;
                }
                self.give(line, packet, now, counting);
            }
            End::Link(line) => {
                if p.path != Path::Undecided {
                    if counting {
                        self.work[node].transit += bytes;
                    }
                    if let Some(balancer) = self.balancers.get_mut(node) {
                        balancer.carry(now / 1000, NodeId(p.dst), bytes);
                    }
                }
                self.give(line, packet, now, counting);
            }
            End::Nowhere => self.lose(packet, Loss::Unreachable),
        }
    }

    /// The input node chooses the path. `false`: there is none.
    fn decide(&mut self, packet: u32, now: u64) -> bool {
        let Packet { src, dst, flow, bytes, .. } = self.fabric.packets[packet];
        let hash = self.flows[flow].hash;
        let node = usize::from(src);
        let wanted = [Outgoing { flow: hash, bytes: bytes.into(), output: NodeId(dst) }];
        let mut choice = [Choice::Direct];
        if let Some(only) = self.single_path(src, dst, flow, self.counting(now)) {
            choice = [only];
        } else {
            self.balancers[node].decide(now / 1000, &wanted, &mut choice);
        }
        let p = &mut self.fabric.packets[packet];
        if let Some(lanes) = self.lanes.get_mut(node) {
            let via = if let Choice::Via(via) = choice[0] { Some(via) } else { None };
            let lane = lanes.choose(now / 1000, hash, NodeId(dst), via, bytes.into());
            (p.first, p.hash) = (lane.first, lane.carried.flow);
        }
        (p.path, p.via) = match choice[0] {
            Choice::Local => (Path::Local, dst),
            Choice::Direct => (Path::Direct, dst),
            Choice::Via(via) => (Path::Via, via.0),
            Choice::Unreachable => {
                self.lose(packet, Loss::Unreachable);
                return false;
            }
        };
        true
    }

    /// Puts a packet into the queue of a line.
    fn give(&mut self, line: u32, packet: u32, now: u64, counting: bool) {
        let bytes = self.fabric.packets[packet].bytes;
        let at = &mut self.fabric.lines[line as usize];
        let outward = usize::from(self.shape.is_output(line));
        if counting {
            at.given += u64::from(bytes);
            at.given_packets += 1;
            let found = &mut self.counts.found[outward];
            *found = (found.0 + u64::from(at.queued), found.1 + 1);
        }
        if at.dead {
            return self.lose(packet, Loss::DeadLink);
        }
        if !at.woken && at.free_ps <= now {
            return self.send(line, packet, now);
        }
        if !self.fabric.wait(line, packet) {
            return self.lose(packet, if outward == 1 { Loss::OutputFull } else { Loss::LinkFull });
        }
        let at = &mut self.fabric.lines[line as usize];
        if counting {
            at.peak = at.peak.max(at.queued);
        }
        if !at.woken {
            at.woken = true;
            self.wheel.push(at.free_ps, WAKE | line);
        }
    }

    /// A line is free.
    fn wake(&mut self, line: u32, now: u64) {
        let Some(packet) = self.fabric.next(line) else {
            self.fabric.lines[line as usize].woken = false;
            return;
        };
        let more = self.fabric.lines[line as usize].queued > 0;
        self.fabric.lines[line as usize].woken = more;
        self.send(line, packet, now);
        if more {
            self.wheel.push(self.fabric.lines[line as usize].free_ps, WAKE | line);
        }
    }

    /// A line begins to send a packet.
    fn send(&mut self, line: u32, packet: u32, now: u64) {
        let bytes = u64::from(self.fabric.packets[packet].bytes);
        let counting = self.counting(now);
        let end = now + self.shape.pace(line).ps(bytes);
        let at = &mut self.fabric.lines[line as usize];
        at.free_ps = end;
        if counting {
            at.sent += bytes;
        }
        if self.shape.is_output(line) {
            return self.leave(packet, end);
        }
        if at.batch == 0 {
            at.batch = BATCH;
            // Each line has its own random numbers, so that its server does not depend on other lines.
            let drawn = mix(self.config.seed ^ u64::from(line) << 20 ^ mix(end));
            let span = self.config.jitter_ns * 1000 + 1;
            at.late_ps = ((u128::from(drawn) * u128::from(span)) >> 64) as u32;
        }
        at.batch -= 1;
        let longer = if self.config.skew_ns == 0 {
            0
        } else {
            let drawn = mix(self.config.seed ^ 0x736b_6577 ^ u64::from(line) << 8);
            ((u128::from(drawn) * u128::from(self.config.skew_ns * 1000 + 1)) >> 64) as u64
        };
        let ready = end + longer + self.config.server_ns * 1000 + u64::from(at.late_ps);
        at.ready_ps = at.ready_ps.max(ready);
        self.wheel.push(at.ready_ps, ARRIVE | packet);
    }

    /// A packet leaves the cluster.
    fn leave(&mut self, packet: u32, end: u64) {
        let p = self.fabric.packets[packet];
        let flow = &mut self.flows[p.flow];
        let pair = &mut self.pairs[flow.pair as usize];
        let bytes = u64::from(p.bytes);
        let ns = (end - p.born_ps) / 1000;
        let reordered = p.seq < flow.next;
        let begins = reordered && !flow.late;
        flow.late = reordered;
        flow.next = flow.next.max(p.seq.saturating_add(1));
        let counts = &mut self.counts;
        if (self.warm_ps..self.end_ps).contains(&end) {
            pair.carried += bytes;
            counts.carried += bytes;
        }
        if p.born_ps >= self.warm_ps {
            counts.left.0 += 1;
            counts.left.1 += bytes;
            counts.all.record(ns, 1);
            let (order, kind) = (&mut counts.order, p.path);
            *order = (order.0 + 1, order.1 + u64::from(reordered), order.2 + u64::from(begins));
            match kind {
                Path::Direct => {
                    counts.direct += 1;
                    counts.direct_ns = (counts.direct_ns.0 + ns, counts.direct_ns.1 + 1);
                }
                Path::Via => {
                    counts.via += 1;
                    counts.via_ns = (counts.via_ns.0 + ns, counts.via_ns.1 + 1);
                }
                _ => counts.local += 1,
            }
            if pair.last_via.is_some_and(|via| via != p.via) {
                counts.skew.record(ns.abs_diff(pair.last_ns.into()), 1);
            }
        }
        (pair.last_ns, pair.last_via) = (u32::try_from(ns).unwrap_or(u32::MAX), Some(p.via));
        self.forget(packet);
    }

    fn lose(&mut self, packet: u32, why: Loss) {
        let p = self.fabric.packets[packet];
        if p.born_ps >= self.warm_ps {
            let lost = &mut self.counts.lost[why as usize];
            *lost = (lost.0 + 1, lost.1 + u64::from(p.bytes));
        }
        self.forget(packet);
    }

    fn forget(&mut self, packet: u32) {
        let Packet { flow: number, src, dst, .. } = self.fabric.packets[packet];
        self.fabric.packets.remove(packet);
        let flow = &mut self.flows[number];
        flow.under_way -= 1;
        if flow.under_way == 0 && flow.left == 0 {
            self.release(src, dst, number);
            self.flows.remove(number);
        }
    }

    /// A failure or the end of one happens, or the nodes learn of it.
    fn change(&mut self, change: Change) {
        let Change { part, up, known, .. } = change;
        match (part, known) {
            (Part::Node(node), false) => self.dead_nodes[usize::from(node)] = !up,
            (Part::Link(from, to), false) => {
                let line = self.shape.line(from, to);
                self.fabric.lines[line as usize].dead = !up;
            }
            // The failures were checked before the start, so neither call returns an error.
            (Part::Node(node), true) => drop(self.failures.set_node(NodeId(node), up)),
            (Part::Link(from, to), true) => drop(self.failures.set_link(NodeId(from), NodeId(to), up)),
        }
        // Both are of the same cluster, so neither call returns an error.
        if known && let Ok(between) = self.shape.apply(&self.failures) {
            for balancer in &mut self.balancers {
                let _ = balancer.apply(&between);
            }
        }
    }

    fn flowlets(&self) -> FlowletCounts {
        self.balancers.iter().fold(FlowletCounts::default(), |mut sum, balancer| {
            let one = balancer.flowlet_counts();
            sum.started += one.started;
            sum.kept += one.kept;
            sum.moved += one.moved;
            sum.returned += one.returned;
            sum.spilled += one.spilled;
            sum
        })
    }
}
