//! Rates of nodes between two answers.

use super::snapshot::{Snapshot, number};
use cluster::work::Work;
use serde_json::Value;

/// The counters of packets and flowlets, with their descriptions.
pub(super) const FLOWLETS: [(&str, &str); 5] = [
    ("started", "started a flowlet"),
    ("kept", "kept its path"),
    ("moved", "moved its flowlet"),
    ("returned", "moved it back to the direct path"),
    ("spilled", "spilled"),
];

pub(super) fn flowlets_json(rates: [f64; FLOWLETS.len()]) -> Value {
    FLOWLETS.iter().zip(rates).map(|((what, _), rate)| (*what, rate)).collect()
}

/// The activity of a node between two answers.
pub(super) struct Interval<'a> {
    pub(super) before: &'a Snapshot,
    pub(super) now: &'a Snapshot,
    pub(super) seconds: f64,
}

impl<'a> Interval<'a> {
    pub(super) fn new((before, now): &'a (Snapshot, Snapshot)) -> Self {
        Self { before, now, seconds: (now.at - before.at).as_secs_f64().max(1e-6) }
    }
    /// How much a counter has grown; a node that has been started again counts from zero.
    pub(super) fn grown(&self, counter: impl Fn(&Value) -> &Value) -> u64 {
        let [before, now] = [self.before, self.now].map(|snapshot| number(counter(&snapshot.status)));
        if now >= before { now - before } else { now }
    }
    /// How much a counter grows in a second.
    pub(super) fn rate(&self, counter: impl Fn(&Value) -> &Value) -> f64 {
        self.grown(counter) as f64 / self.seconds
    }
    /// Packets per second, by flowlet counter.
    pub(super) fn flowlets(&self) -> [f64; FLOWLETS.len()] {
        FLOWLETS.map(|(what, _)| self.rate(|status| &status["flowlets"][what]))
    }
    /// Packets or bytes per second that the node received from outside, sent outside, or forwarded for other
    /// nodes.
    pub(super) fn handled(&self, what: &str, unit: &str) -> f64 {
        self.rate(|status| &status["work"][what][unit])
    }
    pub(super) fn drops(&self) -> f64 {
        let (before, now) = (self.before.dropped(), self.now.dropped());
        now.saturating_sub(before) as f64 / self.seconds
    }
    /// Bytes over the interval.
    pub(super) fn work(&self) -> Work {
        let bytes = |what: &str| self.grown(|status| &status["work"][what]["bytes"]);
        Work { input: bytes("input"), transit: bytes("transit"), output: bytes("output") }
    }
    /// Its work, relative to R.
    pub(super) fn load(&self) -> f64 {
        let line = number(&self.now.status["rate_bps"]) as f64;
        8.0 * self.work().total() as f64 / self.seconds / line.max(1.0)
    }
    pub(super) fn links(&self) -> impl Iterator<Item = LinkState<'_>> {
        self.now.status["links"].as_array().into_iter().flatten().map(|link| LinkState {
            peer: number(&link["peer"]),
            up: link["up"].as_bool().unwrap_or(false) && link["up_from"].as_bool().unwrap_or(false),
            words: link["words"].as_str().unwrap_or_default(),
        })
    }
}

/// A link, as one of its ends sees it.
pub(super) struct LinkState<'a> {
    pub(super) peer: u64,
    pub(super) up: bool,
    pub(super) words: &'a str,
}

/// A number of few digits.
pub(super) fn short(n: f64) -> String {
    measure::rate::short(n).trim_end().to_owned()
}

/// The activity of all nodes together.
#[derive(Default)]
pub(super) struct Total {
    /// Packets a second: in, out, in transit.
    pub(super) rates: [f64; 3],
    pub(super) work: Work,
    pub(super) flowlets: [f64; FLOWLETS.len()],
    pub(super) drops_pps: f64,
    pub(super) dropped: u64,
}

impl Total {
    pub(super) fn add(&mut self, interval: &Interval<'_>) {
        for (sum, what) in self.rates.iter_mut().zip(["input", "output", "transit"]) {
            *sum += interval.handled(what, "packets");
        }
        self.work = [self.work, interval.work()].into_iter().sum();
        self.flowlets.iter_mut().zip(interval.flowlets()).for_each(|(sum, rate)| *sum += rate);
        self.drops_pps += interval.drops();
        self.dropped += interval.now.dropped();
    }
}

/// The c of cR; none for a node that only forwards for others.
pub(super) fn c_of(work: Work) -> Option<f64> {
    Some(work.effective_c()).filter(|c| *c > 0.0)
}

pub(super) fn c_text(work: Work) -> String {
    c_of(work).map_or_else(|| "-".to_owned(), |c| format!("{c:.2}"))
}
