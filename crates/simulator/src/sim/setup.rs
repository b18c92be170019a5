//! Setting a simulation up.

use super::{Change, Counts, Input, Pair, Sim, mix};
use crate::config::{Config, Failure, Part};
use crate::error::{SimError, bad};
use crate::fabric::{Fabric, NONE, Pace, Slab};
use crate::scheduler::Scheduler;
use crate::shape::Shape;
use crate::traffic::Lengths;
use crate::wheel::Wheel;
use cluster::lanes::Lanes;
use cluster::work::Work;
use cluster::{Balancer, Error, Failures, NodeId, Rng};

impl Sim {
    /// Sets a simulation up.
    ///
    /// # Errors
    /// A parameter is not valid; the message says what would be.
    pub fn new(config: Config) -> Result<Self, SimError> {
        let n = config.ports;
        Failures::none(n)?;
        let (inputs, outputs) = (config.matrix.inputs(), config.matrix.outputs());
        if inputs != outputs {
            return bad(format!(
                "a matrix of {inputs} rows and {outputs} columns: a port is an input and an output"
            ));
        }
        if inputs != usize::from(n) {
            return bad(format!("a matrix of {inputs} ports for a cluster of {n}"));
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
            scheduler: Scheduler::new(if config.single_path.is_some() { shape.lines() } else { 0 }),
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
                // Lines start at different phases.
                let input = &mut this.inputs[s];
                input.born_ps = (input.rng.unit() * mean_ps * 2.0) as u64;
                this.announce(s);
            }
        }
        Ok(this)
    }
}

/// The failures and their ends, in the order of time.
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
