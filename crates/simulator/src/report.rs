//! What is said in the end.

use cluster::balancer::FlowletCounts;
use measure::latency::Latency;

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No room before a link.
    LinkFull,
    /// No room before an output line.
    OutputFull,
    /// A server was too far behind.
    ServerFull,
    /// Given to a dead link.
    DeadLink,
    /// Came to a dead node.
    DeadNode,
    /// The policy knew no living way.
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

/// Many numbers of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// From the least to the most, in even steps of rank: up to 201 of them.
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
    /// What this part (0 to 1) of them does not exceed.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let last = self.ranks.len().saturating_sub(1);
        self.ranks.get((part * last as f64).round() as usize).copied().unwrap_or(0.0)
    }
}

/// How an output was shared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fair {
    /// The output.
    pub output: u16,
    /// What it was offered, and what left by it, in parts of R.
    pub offered: f64,
    /// See there.
    pub carried: f64,
    /// Inputs that sent to it.
    pub inputs: usize,
    /// Jain's index of what each input got, relative to its max-min fair share: 1 is fair.
    pub jain: f64,
}

impl Fair {
    /// Whether it was offered more than it can carry: by more than what a packet at either end of the time
    /// makes.
    #[must_use]
    pub fn oversubscribed(&self) -> bool {
        self.offered > 1.005
    }
}

/// What a simulation showed. Bytes and rates are with Ethernet's overhead.
#[derive(Clone, Debug)]
pub struct Report {
    /// How the servers are joined, in words.
    pub topology: String,
    /// Servers.
    pub servers: usize,
    /// How long was counted.
    pub counted_ns: u64,
    /// Events, all in all.
    pub events: u64,
    /// What the matrix says of itself.
    pub admissible: bool,
    /// Packets that came in, and their bytes.
    pub offered: (u64, u64),
    /// Of these, what left.
    pub left: (u64, u64),
    /// Of these, what was lost, for each [`Loss`].
    pub lost: Vec<(Loss, u64, u64)>,
    /// What came in, in bits per second.
    pub offered_bps: f64,
    /// What went out in the same time, whenever it came in.
    pub carried_bps: f64,
    /// Packets that left by the port's own server, directly, and over an intermediate.
    pub ways: (u64, u64, u64),
    /// Effective c: what all servers did, relative to what came in and went out.
    pub c: f64,
    /// What servers with ports did, relative to R.
    pub nodes: Spread,
    /// What servers without ports did.
    pub inner_nodes: Spread,
    /// What links were given, relative to what they are planned for (2R/N; 2R/k).
    pub links: Spread,
    /// How much more the busiest of them was given than it is planned for, in the longest frames that were
    /// offered; below 0: less.
    pub links_above_frames: f64,
    /// What links sent.
    pub links_sent: Spread,
    /// How much of it the busiest link would be given if each were planned for just what it is given on
    /// average and the link of every packet were drawn by itself: 1 and some standard deviations.
    pub links_by_chance: f64,
    /// Bytes that were waiting when a packet came to a link, mean; the most before each link.
    pub link_depth: (f64, Spread),
    /// The same before output lines.
    pub output_depth: (f64, Spread),
    /// From the last bit in to the last bit out.
    pub latency: Latency,
    /// The mean over direct paths, in nanoseconds; of those over an intermediate.
    pub latency_direct_ns: f64,
    /// See there.
    pub latency_over_ns: f64,
    /// Between packets of one input for one output that left one after the other and had gone different ways:
    /// how much longer one took than the other.
    pub skew: Latency,
    /// Packets whose order was looked at, those reordered as RFC 4737 has it, and reordered sequences
    /// (RouteBricks, §6.2).
    pub order: (u64, u64, u64),
    /// What became of flowlets, in all nodes.
    pub flowlets: FlowletCounts,
    /// Every output that was wanted.
    pub fair: Vec<Fair>,
}

impl Report {
    /// The part of offered bytes that was lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let lost: u64 = self.lost.iter().map(|l| l.2).sum();
        ratio(lost as f64, self.offered.1 as f64)
    }
    /// How far the rate at which packets left is below the rate at which they came: what was lost, and what
    /// queues grew by.
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
    /// The least index of the outputs that were offered more than they can carry.
    #[must_use]
    pub fn oversubscribed_jain(&self) -> Option<f64> {
        self.fair.iter().filter(|f| f.oversubscribed()).map(|f| f.jain).min_by(f64::total_cmp)
    }
    /// The part that went directly, of what crossed the cluster.
    #[must_use]
    pub fn direct(&self) -> f64 {
        ratio(self.ways.1 as f64, (self.ways.1 + self.ways.2) as f64)
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
