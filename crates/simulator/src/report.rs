//! The results of a simulation.

use cluster::balancer::FlowletCounts;
use measure::latency::Latency;

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The buffer of a link was full.
    LinkFull,
    /// The buffer of an output line was full.
    OutputFull,
    /// The queue of a server was full.
    ServerFull,
    /// It was sent to a dead link.
    DeadLink,
    /// It arrived at a dead node.
    DeadNode,
    /// The load balancer had no path without dead links or nodes.
    Unreachable,
}

impl Loss {
    /// All, in order.
    pub const ALL: [Self; 6] = [
        Self::LinkFull,
        Self::OutputFull,
        Self::ServerFull,
        Self::DeadLink,
        Self::DeadNode,
        Self::Unreachable,
    ];
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LinkFull => "link full",
            Self::OutputFull => "output full",
            Self::ServerFull => "server full",
            Self::DeadLink => "dead link",
            Self::DeadNode => "dead node",
            Self::Unreachable => "unreachable",
        }
    }
}

/// The distribution of a quantity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Values from the smallest to the largest, in even steps of rank: up to 201 values.
    pub ranks: Vec<f64>,
}

impl Spread {
    pub(crate) fn of(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        let count = all.len();
        let Some(last) = count.checked_sub(1) else { return Self::default() };
        let steps = last.clamp(1, 200);
        let ranks = (0..=steps).map(|step| all[last * step / steps]).collect();
        Self { count, mean: all.iter().sum::<f64>() / count as f64, ranks }
    }
    /// The least; 0 of none.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.ranks.first().copied().unwrap_or(0.0)
    }
    /// The most; 0 of none.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.ranks.last().copied().unwrap_or(0.0)
    }
    /// The value that this part (0 to 1) of the numbers does not exceed.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let last = self.ranks.len().saturating_sub(1);
        self.ranks.get((part * last as f64).round() as usize).copied().unwrap_or(0.0)
    }
}

/// How the inputs shared an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fair {
    /// The output.
    pub output: u16,
    /// The traffic that was offered to it, and the traffic that it sent, in parts of R.
    pub offered: f64,
    /// See there.
    pub carried: f64,
    /// Inputs that sent to it.
    pub inputs: usize,
    /// Jain's index of what each input got, relative to its max-min fair share: 1 is fair.
    pub jain: f64,
}

impl Fair {
    /// Whether it was offered more than it can carry. The difference must be larger than one packet at either
    /// end of the time that is counted.
    #[must_use]
    pub fn oversubscribed(&self) -> bool {
        self.offered > 1.005
    }
}

/// The results of a simulation. Bytes and rates include Ethernet's overhead.
#[derive(Clone, Debug)]
pub struct Report {
    /// How the servers are joined, in words.
    pub topology: String,
    /// Servers.
    pub servers: usize,
    /// The time that was counted.
    pub counted_ns: u64,
    /// Number of events.
    pub events: u64,
    /// The description of the traffic matrix.
    pub admissible: bool,
    /// Packets that arrived, and their bytes.
    pub offered: (u64, u64),
    /// Of these, the packets that left.
    pub left: (u64, u64),
    /// Of these, the packets that were lost, for each [`Loss`].
    pub lost: Vec<(Loss, u64, u64)>,
    /// The rate of arriving traffic, in bits per second.
    pub offered_bps: f64,
    /// The rate of traffic that left in the same time, whenever it arrived.
    pub carried_bps: f64,
    /// Packets that left by the port's own server, directly, and via an intermediate node.
    pub paths: (u64, u64, u64),
    /// Effective c: the work of all servers, relative to the mean of arriving and leaving traffic.
    pub c: f64,
    /// The work of each server with ports, relative to R.
    pub nodes: Spread,
    /// The work of each server without ports.
    pub inner_nodes: Spread,
    /// The traffic offered to links, relative to the rate that they are planned for (2R/N; 2R/k).
    pub links: Spread,
    /// How much more than the planned rate was offered to the busiest link, as a number of frames of the
    /// largest offered size; below 0: less.
    pub links_above_frames: f64,
    /// The traffic that links sent.
    pub links_sent: Spread,
    /// The load of the busiest link if the link of every packet were drawn at random, relative to the average
    /// load: 1 plus some standard deviations.
    pub links_by_chance: f64,
    /// Mean number of bytes that were waiting when a packet arrived at a link; the largest number for each
    /// link.
    pub link_depth: (f64, Spread),
    /// The same for output lines.
    pub output_depth: (f64, Spread),
    /// From the last bit in to the last bit out.
    pub latency: Latency,
    /// The mean latency of direct paths, in nanoseconds; the mean latency of paths via an intermediate node.
    pub latency_direct_ns: f64,
    /// See there.
    pub latency_via_ns: f64,
    /// For two packets of one input and one output that left one after the other and took different paths:
    /// how much longer one took than the other.
    pub skew: Latency,
    /// Packets whose order was checked, reordered packets as RFC 4737 defines them, and reordered sequences
    /// (RouteBricks, §6.2).
    pub order: (u64, u64, u64),
    /// The counters of flowlets, of all nodes together.
    pub flowlets: FlowletCounts,
    /// Flows that a central scheduler has given a path.
    pub scheduled: u64,
    /// Every output that traffic was sent to.
    pub fair: Vec<Fair>,
}

impl Report {
    /// The part of offered bytes that was lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let lost: u64 = self.lost.iter().map(|l| l.2).sum();
        ratio(lost as f64, self.offered.1 as f64)
    }
    /// By how much the rate at which packets left is below the rate at which they arrived: lost traffic, and
    /// the growth of queues.
    #[must_use]
    pub fn below_offered(&self) -> f64 {
        if self.offered_bps > 0.0 { 1.0 - self.carried_bps / self.offered_bps } else { 0.0 }
    }
    /// Reordered sequences for each packet.
    #[must_use]
    pub fn reordered_sequences(&self) -> f64 {
        ratio(self.order.2 as f64, self.order.0 as f64)
    }
    /// Reordered packets for each packet (RFC 4737).
    #[must_use]
    pub fn reordered_packets(&self) -> f64 {
        ratio(self.order.1 as f64, self.order.0 as f64)
    }
    /// The smallest fairness index among the outputs that were offered more than they can carry.
    #[must_use]
    pub fn oversubscribed_jain(&self) -> Option<f64> {
        self.fair.iter().filter(|f| f.oversubscribed()).map(|f| f.jain).min_by(f64::total_cmp)
    }
    /// The part of the packets between different nodes that took the direct path.
    #[must_use]
    pub fn direct(&self) -> f64 {
        ratio(self.paths.1 as f64, (self.paths.1 + self.paths.2) as f64)
    }
}

pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        let s = Spread::of((0..=1000).rev().map(f64::from).collect());
        assert_eq!((s.least(), s.quantile(0.5), s.most(), s.ranks.len()), (0.0, 500.0, 1000.0, 201));
        assert_eq!(Spread::of(vec![3.0]).most(), 3.0);
        assert_eq!(Spread::of(Vec::new()).quantile(0.5), 0.0);
    }
}
