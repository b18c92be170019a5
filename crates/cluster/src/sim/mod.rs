//! A cluster in simulated time: the same policy code that the elements run, under traffic as it is offered, for thousands of ports.
//!
//! | module | holds |
//! |---|---|
//! | `wheel` | what is to happen, in order |
//! | `traffic` | matrices, flows, lengths |
//! | `fabric` | lines, the queues before them, packets |
//! | `shape` | which line leads where |
//! | `report` | what is said in the end |
//!
//! # What is simulated
//!
//! Every packet, by itself. Each input line brings packets back to back at rate R, with exponential gaps between them that make
//! up the offered load; packets of a flow come in trains. A server takes some time for a packet, and where that is asked for it
//! has a rate and a queue. The input node asks its [`Balancer`]; links and output lines send at their rates and share their
//! buffers among inputs. Nothing responds to loss: the load is what it is.
//!
//! What is not: TCP, interrupts and caches, the length of headers on tunnels.
//!
//! The same configuration and seed give the same run, and the traffic depends on the seed only, not on the policy: two modes are
//! compared on the same packets. Nothing here reads a clock.

mod fabric;
mod report;
mod shape;
mod traffic;
mod wheel;

pub use report::{Fair, Loss, Report, Spread};
pub use traffic::{FlowSizes, Matrix, NAMES, Named};

use crate::balancer::FlowletCounts;
use crate::lanes::Lanes;
use crate::work::Work;
use crate::{Balancer, Choice, Error, Failures, Mode, NodeId, Outgoing, Rng};
use fabric::{Fabric, NONE, Pace, Packet, Slab, Way};
use measure::latency::Latency;
use measure::sizes::Sizes;
use shape::{End, Shape};
use traffic::{Lengths, exponential, unit};
use wheel::Wheel;

/// What cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// The policy refuses it.
    #[error(transparent)]
    Policy(#[from] Error),
    /// A matrix that is none.
    #[error("{0}")]
    Matrix(String),
    /// Something else.
    #[error("{0}")]
    Bad(String),
}

/// Something that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A server with its port and all its links.
    Node(u16),
    /// The link from one to another.
    Link(u16, u16),
}

/// A failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What fails.
    pub part: Part,
    /// When.
    pub at_ns: u64,
    /// When it is back; none: not in this run.
    pub until_ns: Option<u64>,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Config {
    /// External ports, one for each server.
    pub ports: u16,
    /// R, with Ethernet's overhead counted.
    pub rate_bps: u64,
    /// Links of a server to the next stage of a k-ary n-fly ([`crate::topology`]); none: a full mesh.
    pub k: Option<u16>,
    /// How packets are spread.
    pub mode: Mode,
    /// For flowlets; none: without.
    pub delta_ns: Option<u64>,
    /// How much of R/N may be saved up; none: what the policy has.
    pub burst_ns: Option<u64>,
    /// What goes where.
    pub matrix: Matrix,
    /// How much of the matrix is offered.
    pub load: f64,
    /// Frames, without check sequence.
    pub sizes: Sizes,
    /// Flows at a time from each input.
    pub flows: usize,
    /// How many packets flows have.
    pub flow_sizes: FlowSizes,
    /// How many packets of a flow follow one another, on average.
    pub train: f64,
    /// What a link bears; none: 2R/N in a mesh, 2R/k in a fly.
    pub link_bps: Option<u64>,
    /// Room before each line, in bytes.
    pub buffer: u32,
    /// Whether a line serves inputs in turn, or packets as they come.
    pub fair: bool,
    /// What a server can process; none: anything.
    pub server_bps: Option<u64>,
    /// How long a server takes for a packet.
    pub server_ns: u64,
    /// How much longer it may take, at random for each batch of 16.
    pub jitter_ns: u64,
    /// How much longer than another link a link may be.
    pub skew_ns: u64,
    /// How long nothing is counted.
    pub warm_ns: u64,
    /// How long is counted after that.
    pub time_ns: u64,
    /// What all random numbers come from.
    pub seed: u64,
    /// What fails.
    pub failures: Vec<Failure>,
    /// How long it takes until all know of it.
    pub detection_ns: u64,
}

impl Config {
    /// The usual: a mesh in mode adaptive with flowlets of 100 ms, IMIX frames, 1,024 flows at each input in trains of 2, buffers
    /// of 512 KB, fair queues, servers of 24 us, and time for two million packets.
    #[must_use]
    pub fn new(ports: u16, rate_bps: u64, matrix: Matrix, load: f64) -> Self {
        let sizes = Sizes::Mix(measure::sizes::IMIX.to_vec());
        let mut this = Self {
            ports,
            rate_bps,
            k: None,
            mode: Mode::Adaptive,
            delta_ns: Some(100_000_000),
            burst_ns: None,
            matrix,
            load,
            sizes,
            flows: 1024,
            flow_sizes: FlowSizes::default(),
            train: 2.0,
            link_bps: None,
            buffer: 512 << 10,
            fair: true,
            server_bps: None,
            server_ns: 24_000,
            jitter_ns: 0,
            skew_ns: 0,
            warm_ns: 0,
            time_ns: 0,
            seed: 1,
            failures: Vec::new(),
            detection_ns: 30_000_000,
        };
        this.last(2_000_000.0);
        this
    }
    /// Counts for as long as about so many packets take, warming up for a quarter of that.
    pub fn last(&mut self, packets: f64) {
        let parts: f64 = (0..self.matrix.ports()).map(|s| self.matrix.from(s)).sum();
        let bits = Lengths::new(&self.sizes).moments().0 * 8.0;
        let pps = (self.rate_bps as f64 * parts * self.load / bits).max(1.0);
        self.time_ns = ((packets / pps * 1e9) as u64).clamp(1000, 100_000_000_000);
        self.warm_ns = self.time_ns / 4;
    }
    /// What a link of the mesh bears.
    #[must_use]
    pub fn mesh_link_bps(&self) -> u64 {
        self.link_bps.unwrap_or(2 * self.rate_bps / u64::from(self.ports.max(1)))
    }
    /// What the policy of a node is made of.
    #[must_use]
    pub fn policy(&self, me: NodeId) -> crate::Config {
        crate::Config {
            mode: self.mode,
            // In a fly a pair of nodes is what a link is in the mesh.
            link_bps: if self.k.is_some() { None } else { self.link_bps },
            delta_ns: self.delta_ns,
            burst_ns: self.burst_ns,
            // An input that sends nothing, and carries at most for others, needs no table.
            flows: if self.matrix.width(me.index()) == 0 { 4 } else { (self.flows * 4).clamp(4096, 1 << 16) },
            ..crate::Config::new(me, self.ports, self.rate_bps)
        }
    }
}

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
    /// Where the packets of the present train belong, and how many are still to come.
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
    /// One above the highest number that has left.
    next: u32,
    pair: u32,
    /// Whether the last to leave was reordered.
    late: bool,
}

/// What is counted for the packets of an input for an output.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    offered: u64,
    carried: u64,
    /// How long the last packet took, and over which node.
    last_ns: u32,
    last_via: Option<u16>,
}

#[derive(Debug, Default)]
struct Counts {
    events: u64,
    offered: (u64, u64),
    /// Of the packets that came in while that was counted.
    left: (u64, u64),
    lost: [(u64, u64); Loss::ALL.len()],
    /// Bytes that left while that was counted.
    carried: u64,
    local: u64,
    direct: u64,
    balanced: u64,
    all: Latency,
    straight_ns: (u64, u64),
    over_ns: (u64, u64),
    skew: Latency,
    order: (u64, u64, u64),
    /// Bytes that packets found waiting, and packets: links, outputs.
    found: [(u64, u64); 2],
}

/// A change of what is alive.
#[derive(Clone, Copy, Debug)]
struct Change {
    at_ps: u64,
    part: Part,
    up: bool,
    /// Whether it is now known, or now so.
    known: bool,
}

const KIND: u32 = 30;
const GENERATE: u32 = 0;
const ARRIVE: u32 = 1 << KIND;
const WAKE: u32 = 2 << KIND;
const DONE: u32 = 3 << KIND;
/// Packets of a batch (RouteBricks, §4.2: kn = 16).
const BATCH: u8 = 16;

/// A simulation under way.
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
    flows: Slab<Flow>,
    /// Places for flows, so many for each pair.
    places: Vec<u32>,
    width: usize,
    pair_start: Vec<u32>,
    pairs: Vec<Pair>,
    work: Vec<Work>,
    /// When each server is free; empty if that does not matter.
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

fn bad<T>(message: String) -> Result<T, SimError> {
    Err(SimError::Bad(message))
}

fn mix(n: u64) -> u64 {
    Rng::new(n).number()
}

impl Sim {
    /// Sets a simulation up.
    ///
    /// # Errors
    /// Something cannot be; the message says what would.
    pub fn new(config: Config) -> Result<Self, SimError> {
        let n = config.ports;
        Failures::none(n)?;
        if config.matrix.ports() != usize::from(n) {
            return bad(format!("a matrix of {} ports for a cluster of {n}", config.matrix.ports()));
        }
        if !(1_000_000..=400_000_000_000_000).contains(&config.rate_bps) {
            return bad(format!("ports of {} bit/s: 1 Mbit/s to 400 Tbit/s", config.rate_bps));
        }
        for input in 0..usize::from(n) {
            let sent = config.load * config.matrix.from(input);
            if !(0.0..=1.0 + 1e-9).contains(&sent) {
                return bad(format!("input {input} would send {sent:.3} of R: a line carries 1 at most"));
            }
        }
        if config.load.is_nan() || config.load <= 0.0 || config.train.is_nan() || config.train < 1.0 {
            return bad("a load above 0 and trains of 1 packet or more are needed".to_owned());
        }
        if config.time_ns == 0 || config.time_ns.saturating_add(config.warm_ns) > 3_600_000_000_000 {
            return bad("a time from 1 ns to an hour is possible".to_owned());
        }
        if config.buffer < 16_384 {
            return bad(format!("a buffer of {} bytes: 16384 are needed for long frames", config.buffer));
        }
        let sizes = &config.flow_sizes;
        if sizes.least == 0 || sizes.least > sizes.most || sizes.alpha <= 0.0 || sizes.alpha == 1.0 {
            return bad(
                "flows have 1 packet or more, with a tail's exponent above 0 that is not 1".to_owned()
            );
        }
        for time in [config.jitter_ns, config.skew_ns, config.server_ns] {
            if time > 1_000_000_000 || config.jitter_ns > 4_000_000 {
                return bad("delays are up to 1 s, random ones of a server up to 4 ms".to_owned());
            }
        }
        let shape = Shape::new(&config)?;
        let fabric = Fabric::new(shape.lines(), config.fair, config.buffer);
        let lengths = Lengths::new(&config.sizes);
        let rate = Pace::new(config.rate_bps);
        let mut pair_start = vec![0];
        let mut most = 1;
        for input in 0..usize::from(n) {
            most = most.max(config.matrix.width(input));
            pair_start.push(pair_start[input] + config.matrix.width(input) as u32);
        }
        let pairs = *pair_start.last().unwrap_or(&0) as usize;
        if pairs == 0 {
            return bad("the matrix is empty: nothing would be sent".to_owned());
        }
        let balancers =
            (0..n).map(|me| Balancer::new(config.policy(NodeId(me)), 0)).collect::<Result<_, _>>()?;
        let mean_ps = rate.ps(1000) as f64 * lengths.moments().0 / 1000.0;
        let input = |s: usize| Input {
            rng: Rng::new(mix(config.seed ^ mix(s as u64 + 1))),
            bytes: 0,
            born_ps: 0,
            ready_ps: 0,
            late_ps: 0,
            batch: 0,
            gap_ps: (mean_ps * (1.0 / (config.load * config.matrix.from(s)) - 1.0)).max(0.0),
            place: 0,
            pair: 0,
            output: 0,
            train: 0,
        };
        let width = config.flows.div_ceil(most).max(1);
        let nodes = shape.nodes();
        let warm_ps = config.warm_ns * 1000;
        let mut this = Self {
            inputs: (0..n.into()).map(input).collect(),
            rngs: (0..n).map(|s| Rng::new(mix(config.seed ^ mix(u64::from(s) + (1 << 32))))).collect(),
            wheel: Wheel::new(),
            fabric,
            lengths,
            lanes: (0..n)
                .filter_map(|me| {
                    let config = config.policy(NodeId(me));
                    Lanes::new(&shape.topology, NodeId(me), config.flows, config.delta_ns)
                })
                .collect(),
            balancers,
            flows: Slab::new(),
            places: vec![NONE; pairs * width],
            width,
            pair_start,
            pairs: vec![Pair::default(); pairs],
            work: vec![Work::default(); nodes],
            busy_ps: if config.server_bps.is_some() { vec![0; nodes] } else { Vec::new() },
            server: config.server_bps.map(Pace::new),
            rate,
            dead_nodes: vec![false; nodes],
            failures: Failures::none(shape.topology.nodes())?,
            changes: changes(&config, &shape)?,
            next_change: 0,
            now_ps: 0,
            warm_ps,
            end_ps: warm_ps + config.time_ns * 1000,
            before: None,
            counts: Counts::default(),
            shape,
            config,
        };
        for s in 0..usize::from(n) {
            if this.config.matrix.width(s) > 0 {
                // Lines are out of step with each other from the start.
                let input = &mut this.inputs[s];
                input.born_ps = (unit(&mut input.rng) * mean_ps * 2.0) as u64;
                this.announce(s);
            }
        }
        Ok(this)
    }

    /// How far it is, from 0 to 1.
    #[must_use]
    pub fn progress(&self) -> f64 {
        (self.now_ps as f64 / self.end_ps as f64).min(1.0)
    }
    /// The simulated time.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ps / 1000
    }
    /// Packets that are on their way, and events that wait.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.fabric.packets.len(), self.wheel.len())
    }
    /// What was configured.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Simulates up to so many events. Returns whether there are more.
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

    /// The next packet of an input is drawn, unless the time is over.
    fn announce(&mut self, s: usize) {
        let input = &mut self.inputs[s];
        input.bytes = self.lengths.draw(&mut input.rng);
        let gap = if input.gap_ps > 0.0 { exponential(input.gap_ps, &mut input.rng) as u64 } else { 0 };
        input.born_ps += gap + self.rate.ps(input.bytes.into());
        if input.born_ps >= self.end_ps {
            return;
        }
        if input.batch == 0 {
            // Not from the input's own numbers: the traffic is the same with and without jitter.
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
            // Geometric: one, and more with the likelihood that gives the mean.
            let more = exponential(1.0 / -(1.0 - 1.0 / self.config.train).ln().min(-1e-9), &mut input.rng);
            input.train = 1 + if self.config.train > 1.0 { more as u32 } else { 0 };
        }
        input.train -= 1;
        let (place, pair, output) = (input.place as usize, input.pair, input.output);
        let mut flow = self.places[place];
        if flow == NONE {
            let left = self.config.flow_sizes.draw(&mut input.rng);
            let hash = input.rng.number() as u32;
            flow = self.flows.add(Flow { hash, left, seq: 0, under_way: 0, next: 0, pair, late: false });
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
            // Nothing comes in at a dead port: it is neither offered nor lost.
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

    /// A packet is at a server that may be busy.
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
        if p.way == Way::Undecided {
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
                if p.way != Way::Undecided {
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

    /// The input node says which way. `false`: there is none.
    fn decide(&mut self, packet: u32, now: u64) -> bool {
        let Packet { src, dst, flow, bytes, .. } = self.fabric.packets[packet];
        let hash = self.flows[flow].hash;
        let node = usize::from(src);
        let wanted = [Outgoing { flow: hash, bytes: bytes.into(), output: NodeId(dst) }];
        let mut choice = [Choice::default()];
        self.balancers[node].decide(now / 1000, &wanted, &mut choice);
        let p = &mut self.fabric.packets[packet];
        if let Some(lanes) = self.lanes.get_mut(node) {
            let via = if let Choice::Via(via) = choice[0] { Some(via) } else { None };
            let lane = lanes.choose(now / 1000, hash, NodeId(dst), via, bytes.into());
            (p.first, p.hash) = (lane.first, lane.carried.flow);
        }
        (p.way, p.via) = match choice[0] {
            Choice::Local => (Way::Local, dst),
            Choice::Direct => (Way::Direct, dst),
            Choice::Via(via) => (Way::Balanced, via.0),
            Choice::Unreachable => {
                self.lose(packet, Loss::Unreachable);
                return false;
            }
        };
        true
    }

    /// Gives a packet to a line.
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
            // A number of its own: what a line's server does depends on no other line.
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
            let (order, kind) = (&mut counts.order, p.way);
            *order = (order.0 + 1, order.1 + u64::from(reordered), order.2 + u64::from(begins));
            match kind {
                Way::Direct => {
                    counts.direct += 1;
                    counts.straight_ns = (counts.straight_ns.0 + ns, counts.straight_ns.1 + 1);
                }
                Way::Balanced => {
                    counts.balanced += 1;
                    counts.over_ns = (counts.over_ns.0 + ns, counts.over_ns.1 + 1);
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
        let number = self.fabric.packets[packet].flow;
        self.fabric.packets.remove(packet);
        let flow = &mut self.flows[number];
        flow.under_way -= 1;
        if flow.under_way == 0 && flow.left == 0 {
            self.flows.remove(number);
        }
    }

    /// Something dies, comes back, or that becomes known.
    fn change(&mut self, change: Change) {
        let Change { part, up, known, .. } = change;
        match (part, known) {
            (Part::Node(node), false) => self.dead_nodes[usize::from(node)] = !up,
            (Part::Link(from, to), false) => {
                let line = self.shape.line(from, to);
                self.fabric.lines[line as usize].dead = !up;
            }
            // What fails was looked at before the start, so neither call refuses.
            (Part::Node(node), true) => drop(self.failures.set_node(NodeId(node), up)),
            (Part::Link(from, to), true) => drop(self.failures.set_link(NodeId(from), NodeId(to), up)),
        }
        // Both are of the same cluster, and so neither is refused.
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

/// What changes when, in order.
fn changes(config: &Config, shape: &Shape) -> Result<Vec<Change>, SimError> {
    let nodes = shape.topology.nodes();
    let mut changes = Vec::new();
    for failure in &config.failures {
        let Failure { part, at_ns, until_ns } = *failure;
        let (a, b) = match part {
            Part::Node(node) => (node, node),
            Part::Link(from, to) => (from, to),
        };
        if let Some(node) = [a, b].into_iter().find(|n| *n >= nodes) {
            return Err(Error::NoSuchNode { node: NodeId(node), nodes }.into());
        }
        if matches!(part, Part::Link(..)) && !shape.topology.joins(NodeId(a), NodeId(b)) {
            return bad(format!("there is no link from node {a} to node {b}"));
        }
        if until_ns.is_some_and(|until| until <= at_ns) {
            return bad("what fails comes back later than it fails".to_owned());
        }
        for (at_ns, up) in std::iter::once((at_ns, false)).chain(until_ns.map(|t| (t, true))) {
            let mut add = |at_ns: u64, known| {
                changes.push(Change { at_ps: at_ns.saturating_mul(1000), part, up, known });
            };
            add(at_ns, false);
            add(at_ns.saturating_add(config.detection_ns), true);
        }
    }
    changes.sort_by_key(|c| c.at_ps);
    Ok(changes)
}

#[cfg(test)]
mod tests;
