//! One trial: so much traffic for so long, and what came of it.

use crate::cost::{Cost, RouterCost};
use crate::established::{Connected, StepOf};
use crate::existing::Existing;
use crate::jitter::Jitter;
use crate::sides::Crossing;
use measure::connections::Wanted;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What came of a trial. Frames that were not sent in time are lost too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Packets a second that were to be sent.
    pub rate: u64,
    /// For so many seconds.
    pub seconds: f64,
    /// For latency: which part of the result the rate is; none: a trial of the search, or of a given rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// For back-to-back frames: the burst, at this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// For connections: what has become of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connected>,
    /// The connections over which the frames were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<Existing>,
    /// Whether the frames went from the generator to the sink without the device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calibration: bool,
    /// Frames that were to be sent.
    pub intended: u64,
    /// Frames that the generator did not make in time.
    pub missed: u64,
    /// Frames that were sent after the end of the trial. They count as lost, as those that were missed do.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Frames that the port to the device did not take.
    pub refused: u64,
    /// How long the port to the device did not take all that was sent to it, in seconds.
    #[serde(default)]
    pub port_full: f64,
    /// Frames that were sent, and their bytes.
    pub sent: u64,
    /// Bytes of these, without frame check sequences.
    pub bytes: u64,
    /// Different frames that came back.
    pub arrived: u64,
    /// Frames that came back once more.
    pub duplicates: u64,
    /// Frames that came back damaged.
    pub damaged: u64,
    /// Frames that came back later than ones sent after them (RFC 4737).
    pub reordered: u64,
    /// Frames that came out where their destination does not belong.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub misrouted: u64,
    /// What went from which port to which, if the outputs of the device are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Crossing>,
    /// How long threads of the generator and of the device waited for a processor that others used, in
    /// seconds.
    pub waited: f64,
    /// Because of that, it counts for nothing.
    pub disturbed: bool,
    /// Latency in nanoseconds, if any frame had one.
    pub latency_ns: Option<Latency>,
    /// Jitter in nanoseconds, if there was any pair of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<Jitter>,
    /// What was sent and what arrived, over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// What it has cost the device, if that is a process that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Whether the device has made the traffic itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
    /// What a command has printed, in place of all of this.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A burst of back-to-back frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Its length, for each port.
    pub frames: u64,
    /// From its first frame to its last, in seconds, as the generator has sent it.
    pub seconds: f64,
}

/// A burst that takes longer than it should by this part and this time, in seconds, is not at its rate.
const LATE: (f64, f64) = (0.1, 0.001);
/// In a trial of a given time, what is sent after its end counts as missed if it takes more than this part of
/// the time: a device has that much longer to forward the rest.
const LATE_END: f64 = 0.001;

/// Latency in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// Quantiles.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p99_9: f64,
    /// The most.
    pub max: f64,
}

impl Latency {
    /// The packet delay variation of RFC 8219 (section 7.3.1) and RFC 5481.
    pub(crate) fn pdv(&self) -> f64 {
        self.p99_9 - self.min
    }
}

/// Frames over time, in spans one after the other ([`measure::timeline`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// How long a span is, in seconds.
    pub span_s: f64,
    /// Frames that were sent in each.
    pub sent: Vec<u64>,
    /// Of these, what has arrived at any time.
    pub arrived: Vec<u64>,
    /// What came in each, whenever it was sent.
    pub came: Vec<u64>,
    /// The longest latency of the frames that were sent in each, in nanoseconds.
    pub latency_max_ns: Vec<u64>,
}

impl Timeline {
    /// When frames were lost, in words; none: nothing was lost.
    #[must_use]
    pub fn when_lost(&self) -> Option<String> {
        let of = |column: &[u64], at: usize| column.get(at).copied().unwrap_or(0);
        let span = |at: usize| measure::timeline::Span {
            sent: of(&self.sent, at),
            arrived: of(&self.arrived, at),
            came: of(&self.came, at),
            latency_ns: of(&self.latency_max_ns, at),
        };
        let spans: Vec<_> = (0..self.sent.len()).map(span).collect();
        measure::timeline::when_lost((self.span_s * 1e9).round() as u64, &spans)
    }
}

/// Who lost most of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The generator did not make them in time.
    Generator,
    /// The port to the device did not take them.
    Port,
    /// They were sent and did not come back.
    Device,
}

impl Limit {
    /// Who lost most in these trials together, if anything was lost.
    #[must_use]
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial>) -> Option<Self> {
        let (missed, refused, device) = trials.fold((0, 0, 0), |(missed, refused, device), trial| {
            let lost = trial.sent.saturating_sub(trial.arrived);
            // A port that is full holds the generator up.
            let missed_here = trial.missed + trial.late;
            let (late, held) = if trial.port_was_full() { (0, missed_here) } else { (missed_here, 0) };
            (missed + late, refused + trial.refused + held, device + lost)
        });
        let by = [(missed, Self::Generator), (refused, Self::Port), (device, Self::Device)];
        by.into_iter()
            .filter(|(lost, _)| *lost > 0)
            .max_by_key(|(lost, limit)| (*lost, *limit))
            .map(|(_, l)| l)
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Port => "port",
            Self::Device => "device",
        }
    }
}

impl Trial {
    /// What was lost of what was to be sent.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let lost = (self.intended.saturating_sub(self.arrived) + self.late).min(self.intended);
        lost as f64 / self.intended.max(1) as f64
    }

    /// Who lost most, if any was lost.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        if self.counted {
            return Some(Limit::Device);
        }
        Limit::of(std::iter::once(self))
    }

    /// How long the device's workers have waited for a processor, as a part of their time.
    #[must_use]
    pub fn part_waited(&self) -> f64 {
        let workers =
            self.cost.as_ref().and_then(|cost| cost.router.as_ref()).map_or(1, |router| router.workers);
        self.waited / (self.seconds * workers as f64).max(1e-9)
    }

    /// Whether the port held the generator up for most of the time.
    fn port_was_full(&self) -> bool {
        self.port_full > 0.0 && self.port_full >= 0.5 * self.seconds
    }

    /// Whether the search is to be told of it.
    #[must_use]
    pub fn counts(&self) -> bool {
        !self.disturbed
            && self.share.is_none()
            && self.burst.is_none()
            && self.connections.is_none()
            && !self.calibration
    }

    /// Whether all connections were set up, at this rate if it is searched for, and all answer.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.connections
            .is_none_or(|all| all.kept() >= all.asked && (all.step != StepOf::Rate || self.at_rate()))
    }

    /// Whether the generator has sent a burst, or the first frames of connections, as fast as it should.
    #[must_use]
    pub fn at_rate(&self) -> bool {
        let soon = |seconds: f64| seconds <= self.seconds * (1.0 + LATE.0) + LATE.1;
        let burst = self.burst.is_none_or(|burst| soon(burst.seconds));
        self.missed == 0 && burst && self.connections.is_none_or(|all| soon(all.seconds))
    }

    /// Whether nothing is wrong with the trial but that its last frames were sent after its end.
    #[must_use]
    pub fn ended_late(&self) -> bool {
        self.late > 0 && self.missed == 0
    }

    /// The same as the search wants it.
    #[must_use]
    pub fn for_search(&self) -> measure::search::Trial {
        measure::search::Trial { load: self.rate, seconds: self.seconds, loss: self.loss() }
    }

    /// From the generator's report.
    pub(crate) fn read(traffic: Traffic, report: &Value) -> Option<Self> {
        let Traffic { rate, seconds, burst, calibration, connections, .. } = traffic;
        let connections = match connections {
            None => None,
            Some(wanted) => Some(Connected::read(wanted, report)?),
        };
        // Connections that were set up more slowly: so many were not sent in time.
        let slow =
            connections.map_or(0, |all| (all.asked as f64 * (1.0 - seconds / all.seconds)).max(0.0) as u64);
        let sent = |name: &str| report.get("sent")?.get(name)?.as_f64();
        let took = sent("seconds")?;
        // Threads begin one after the other.
        let longest = sent("longest_s").unwrap_or(took);

        let number = |group: &str, name: &str| report.get(group)?.get(name)?.as_u64();
        let (made, missed) = (number("sent", "made")?, number("sent", "missed")?);
        let timed = burst.is_none() && connections.is_none() && longest > seconds * (1.0 + LATE_END);
        let late = if timed { (made as f64 * (1.0 - seconds / longest)) as u64 } else { 0 };
        let misrouted = number("matrix", "misrouted").filter(|_| !calibration).unwrap_or(0);
        let existing = Existing::read(report).filter(|_| connections.is_none());
        let latency = |name: &str| report.get("latency_ns")?.get(name)?.as_f64();
        Some(Self {
            rate,
            seconds,
            share: None,
            burst: burst.map(|frames| Burst { frames, seconds: took }),
            connections,
            existing,
            calibration,
            // All frames of a burst are sent, though some may be late.
            intended: if burst.is_some() { made } else { made + missed },
            late,
            missed: missed.max(if slow as f64 > LATE.0 * made as f64 { slow } else { 0 })
                + connections.map_or(0, |all| all.answers_missed),
            refused: number("sent", "dropped")?,
            port_full: report.get("sent")?.get("port_full_s")?.as_f64()?,
            sent: number("sent", "frames")?,
            bytes: number("sent", "bytes")?,
            arrived: match connections {
                None => number("received", "received")? + number("received", "untracked")?,
                Some(all) => all.kept(),
            }
            .saturating_sub(misrouted + existing.map_or(0, |all| all.changed)),
            duplicates: number("received", "duplicates")?,
            damaged: number("received", "damaged")?,
            reordered: number("received", "reordered")?,
            // Ports that are joined to each other have no destinations.
            misrouted,
            matrix: report
                .get("matrix")
                .filter(|_| !calibration)
                .and_then(|matrix| Crossing::deserialize(matrix).ok()),
            waited: report.get("sent")?.get("kept_waiting_s")?.as_f64()?,
            disturbed: false,
            latency_ns: latency("min").and_then(|min| {
                Some(Latency {
                    min,
                    mean: latency("mean")?,
                    p50: latency("p50")?,
                    p90: latency("p90")?,
                    p99: latency("p99")?,
                    p99_9: latency("p99_9")?,
                    max: latency("max")?,
                })
            }),
            jitter_ns: report.get("jitter_ns").and_then(|jitter| Jitter::deserialize(jitter).ok()),
            timeline: report.get("timeline").and_then(|line| Timeline::deserialize(line).ok()),
            cost: None,
            counted: false,
            figures: BTreeMap::new(),
        })
    }

    /// Of a device that makes its traffic itself: what has gone through these elements in so many seconds,
    /// with frames of so many bytes. What was dropped was lost.
    pub(crate) fn count(router: &RouterCost, elements: &[String], seconds: f64, bytes: u64) -> Self {
        let arrived = router.counted(elements);
        let all = arrived + router.drops().map(|(_, _, n)| n).sum::<u64>();
        Self {
            seconds,
            intended: all,
            sent: all,
            bytes: all * bytes,
            arrived,
            counted: true,
            ..Self::default()
        }
    }
}

/// The traffic of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    /// Packets a second, for each port.
    pub(crate) rate: u64,
    /// For so long.
    pub(crate) seconds: f64,
    /// Exactly so many frames for each port.
    pub(crate) burst: Option<u64>,
    /// One frame for each of so many connections, and answers to them at this rate.
    pub(crate) connections: Option<Wanted>,
    pub(crate) answer: u64,
    /// Not to the device: over the ports that are joined to each other.
    pub(crate) calibration: bool,
}

/// Why there is no trial.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Whoever runs the experiment wants it to end.
    Stopped,
    /// The device has ended, or the generator cannot run.
    Because(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{ElementCost, Known};

    #[test]
    fn what_goes_through_counts_and_what_is_dropped_is_lost() {
        let element = |name: &str, packets, dropped| ElementCost {
            name: name.to_owned(),
            packets,
            drops: if dropped > 0 { [("full".to_owned(), dropped)].into() } else { Default::default() },
            ..ElementCost::default()
        };
        let elements =
            vec![element("in", 90, 0), element("q", 90, 10), element("out", 50, 5), element("out1", 30, 0)];
        let router = RouterCost { elements, ..RouterCost::default() };
        let trial = Trial::count(&router, &["out".to_owned(), "out1".to_owned()], 0.5, 60);
        assert_eq!((trial.arrived, trial.sent, trial.intended, trial.bytes), (75, 90, 90, 5400));
        assert_eq!((trial.seconds, trial.limit()), (0.5, Some(Limit::Device)));
        let cost = Cost {
            seconds: 0.5,
            processor_seconds: 1.0,
            memory_bytes: None,
            router: Some(RouterCost { workers: 2, ..router }),
            counted: Known::Not { not_available: String::new() },
            joules: Known::Not { not_available: String::new() },
        };
        assert_eq!(Trial { waited: 0.25, cost: Some(cost), ..trial }.part_waited(), 0.25);
        let trial = Trial::count(&RouterCost::default(), &[], 0.5, 60);
        assert_eq!((trial.loss(), trial.limit()), (0.0, Some(Limit::Device)));
    }

    #[test]
    fn the_limit_is_whoever_lost_most() {
        let of = |missed, refused, sent, arrived| {
            let trial = Trial {
                intended: missed + refused + sent,
                missed,
                refused,
                sent,
                arrived,
                ..Trial::default()
            };
            (trial.limit().map(Limit::word), trial.loss())
        };
        assert_eq!(of(0, 0, 10, 10), (None, 0.0));
        assert_eq!(of(3, 0, 5, 4), (Some("generator"), 0.5));
        assert_eq!(of(0, 2, 8, 7), (Some("port"), 0.3));
        assert_eq!(of(1, 1, 8, 4), (Some("device"), 0.6));
        assert_eq!(of(0, 0, 0, 0), (None, 0.0));
        // The generator is not to blame if the port takes nothing more.
        let held = Trial { intended: 9, missed: 4, sent: 5, arrived: 5, seconds: 1.0, ..Trial::default() };
        let limit = |port_full| Trial { port_full, ..held.clone() }.limit();
        assert_eq!((limit(0.1), limit(0.9)), (Some(Limit::Generator), Some(Limit::Port)));
    }

    #[test]
    fn frames_of_forgotten_connections_are_lost_for_that_reason() {
        let mut report = serde_json::json!({
            "sent": {"made": 1000, "missed": 0, "dropped": 0, "frames": 1000, "bytes": 60_000, "seconds": 1.0,
                "port_full_s": 0.0, "kept_waiting_s": 0.0},
            "received": {"received": 990, "untracked": 0, "duplicates": 0, "damaged": 0, "reordered": 0},
            "connections": {"asked": 50, "established": 50, "answered": 47, "wrong": 1, "answers_missed": 0,
                "existing": {"changed": 30, "checked": true}},
        });
        let traffic = Traffic { rate: 1000, seconds: 1.0, ..Traffic::default() };
        let trial = Trial::read(traffic, &report).unwrap();
        assert_eq!((trial.arrived, trial.loss(), trial.limit()), (960, 0.04, Some(Limit::Device)));
        assert!(trial.counts(), "the search is told of it");
        let words = trial.existing.unwrap().words().unwrap();
        assert_eq!(
            words,
            "the device had forgotten 3 of 50 connections; 30 frames arrived with the addresses or ports of other connections"
        );
        report["connections"]["existing"] = serde_json::json!({"changed": 0, "checked": false});
        let trial = Trial::read(traffic, &report).unwrap();
        assert_eq!((trial.arrived, trial.existing.unwrap().words()), (990, None));
    }

    #[test]
    fn what_is_sent_after_the_end_was_not_sent_in_time() {
        let report = |took: f64, missed: u64| {
            serde_json::json!({
                "sent": {"made": 1000, "missed": missed, "dropped": 0, "frames": 1000, "bytes": 60_000, "seconds": took + 0.5, "longest_s": took,
                    "port_full_s": 0.0, "kept_waiting_s": 0.0},
                "received": {"received": 1000, "untracked": 0, "duplicates": 0, "damaged": 0, "reordered": 0},
            })
        };
        let of = |took, missed| {
            let traffic = Traffic { rate: 1000, seconds: 1.0, ..Traffic::default() };
            let trial = Trial::read(traffic, &report(took, missed)).unwrap();
            (trial.late, trial.missed, trial.intended, trial.limit(), trial.ended_late())
        };
        assert_eq!(of(0.999, 0), (0, 0, 1000, None, false));
        assert_eq!(of(1.0009, 0), (0, 0, 1000, None, false));
        // The device had 10 ms more to forward them.
        assert_eq!(of(1.01, 0), (9, 0, 1000, Some(Limit::Generator), true));
        assert_eq!(of(1.01, 50), (9, 50, 1050, Some(Limit::Generator), false));
    }
}
