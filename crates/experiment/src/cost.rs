//! What a trial has cost the device under test.

use bench::Counts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A figure, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Known<T> {
    /// Why not.
    Not {
        /// The reason.
        not_available: String,
    },
    /// The figure.
    Is(T),
}

impl<T> Known<T> {
    /// The figure, if there is one.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Is(figure) => Some(figure),
            Self::Not { .. } => None,
        }
    }

    /// Why there is none.
    #[must_use]
    pub fn why_not(&self) -> Option<&str> {
        match self {
            Self::Is(_) => None,
            Self::Not { not_available } => Some(not_available),
        }
    }
}

impl<T> From<Result<T, String>> for Known<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(figure) => Self::Is(figure),
            Err(not_available) => Self::Not { not_available },
        }
    }
}

/// What a trial has cost the device, from before its traffic until all of it had come back or was lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// That time, in seconds.
    pub seconds: f64,
    /// The processor time that its threads have used, in seconds.
    pub processor_seconds: f64,
    /// The most memory that its largest process has had since it began, in bytes (VmHWM); pages of hugetlbfs
    /// are not in it.
    pub memory_bytes: Option<u64>,
    /// What its router has counted, if it is a program of Valiant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterCost>,
    /// What the processor has counted for its threads.
    pub counted: Known<Counts>,
    /// The energy of all processors of this machine, in joules: with the generator, and whatever else runs.
    pub joules: Known<f64>,
}

impl Cost {
    /// How many processors the device has used on average.
    #[must_use]
    pub fn processors(&self) -> f64 {
        self.processor_seconds / self.seconds.max(1e-9)
    }
}

/// What a router has counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouterCost {
    /// Its workers.
    pub workers: u64,
    /// Cycles of the time-stamp counter in a second.
    pub tsc_hz: f64,
    /// Its elements that have done something.
    pub elements: Vec<ElementCost>,
}

/// What an element has counted, on all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementCost {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets that came in, or that a source emitted.
    pub packets: u64,
    /// In so many batches.
    pub batches: u64,
    /// Cycles of the time-stamp counter in this element, without empty polls.
    pub cycles: u64,
    /// Runs that found nothing to do.
    pub empty_polls: u64,
    /// Cycles of those.
    pub empty_cycles: u64,
    /// Packets that it has dropped, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
}

fn per(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl ElementCost {
    /// Cycles for each of its packets.
    #[must_use]
    pub fn cycles_per_packet(&self) -> f64 {
        per(self.cycles, self.packets)
    }

    /// Packets in a batch, on average.
    #[must_use]
    pub fn batch(&self) -> f64 {
        per(self.packets, self.batches)
    }

    /// What has been added since.
    fn since(&self, before: Option<&Self>) -> Self {
        let none = Self::default();
        let old = before.unwrap_or(&none);
        let drops = self.drops.iter().map(|(reason, n)| {
            (reason.clone(), n.saturating_sub(old.drops.get(reason).copied().unwrap_or(0)))
        });
        Self {
            packets: self.packets.saturating_sub(old.packets),
            batches: self.batches.saturating_sub(old.batches),
            cycles: self.cycles.saturating_sub(old.cycles),
            empty_polls: self.empty_polls.saturating_sub(old.empty_polls),
            empty_cycles: self.empty_cycles.saturating_sub(old.empty_cycles),
            drops: drops.filter(|(_, n)| *n > 0).collect(),
            ..self.clone()
        }
    }

    fn has_worked(&self) -> bool {
        self.packets + self.cycles + self.empty_polls > 0 || !self.drops.is_empty()
    }
}

impl RouterCost {
    /// Cycles of all elements together, without empty polls.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.elements.iter().map(|element| element.cycles).sum()
    }

    /// Cycles for each of so many packets.
    #[must_use]
    pub fn cycles_per_packet(&self, packets: u64) -> f64 {
        per(self.cycles(), packets)
    }

    /// The load without empty polls: the part of the cycles that its workers had while traffic was sent for
    /// so many seconds. RouteBricks (section 5.3) takes the cycles of empty polls, c_e E_r, from all cycles;
    /// here what is left is counted, element by element.
    #[must_use]
    pub fn load(&self, seconds: f64) -> f64 {
        self.cycles() as f64 / (self.tsc_hz * self.workers as f64 * seconds).max(1.0)
    }

    /// Packets in a batch on average, over all elements.
    #[must_use]
    pub fn batch(&self) -> f64 {
        let sum = |of: fn(&ElementCost) -> u64| self.elements.iter().map(of).sum();
        per(sum(|element| element.packets), sum(|element| element.batches))
    }

    /// The packets that were dropped: element, reason, how many.
    pub fn drops(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.elements.iter().flat_map(|element| {
            element.drops.iter().map(|(reason, n)| (element.name.as_str(), reason.as_str(), *n))
        })
    }
}

/// The counters of a router at one moment: its handler `stats.json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Stats {
    time_ns: u64,
    tsc: u64,
    workers: u64,
    elements: Vec<Counters>,
}

#[derive(Clone, Debug, Deserialize)]
struct Counters {
    name: String,
    class: String,
    packets: u64,
    batches: u64,
    emitted: u64,
    emissions: u64,
    cycles: u64,
    empty_polls: u64,
    empty_cycles: u64,
    drops: BTreeMap<String, u64>,
}

impl From<&Counters> for ElementCost {
    fn from(all: &Counters) -> Self {
        // What nothing is given to is a source: its packets are those that it emits.
        let (packets, batches) =
            if all.packets > 0 { (all.packets, all.batches) } else { (all.emitted, all.emissions) };
        Self {
            name: all.name.clone(),
            class: all.class.clone(),
            packets,
            batches,
            cycles: all.cycles,
            empty_polls: all.empty_polls,
            empty_cycles: all.empty_cycles,
            drops: all.drops.clone(),
        }
    }
}

impl Stats {
    /// Reads the handler's text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// What has been counted since.
    pub(crate) fn since(&self, before: &Self) -> RouterCost {
        let seconds = Duration::from_nanos(self.time_ns.saturating_sub(before.time_ns)).as_secs_f64();
        let cycles = self.tsc.saturating_sub(before.tsc) as f64;
        let old: Vec<ElementCost> = before.elements.iter().map(ElementCost::from).collect();
        let elements = self.elements.iter().map(|now| {
            let now = ElementCost::from(now);
            now.since(old.iter().find(|old| old.name == now.name && old.class == now.class))
        });
        RouterCost {
            workers: self.workers,
            tsc_hz: if seconds > 0.0 { cycles / seconds } else { 0.0 },
            elements: elements.filter(ElementCost::has_worked).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(seconds: u64, element: &str) -> Stats {
        let (time, tsc) = (seconds * 1_000_000_000, seconds * 2_000_000_000);
        Stats::read(&format!(
            "{{\"time_ns\":{time},\"tsc\":{tsc},\"workers\":2,\"generation\":0,\"stuck\":[],\"elements\":[{element},\
             {{\"name\":\"idle\",\"class\":\"Idle\",\"packets\":0,\"batches\":0,\"emitted\":0,\"emissions\":0,\
             \"cycles\":0,\"empty_polls\":0,\"empty_cycles\":0,\"drops\":{{}}}}]}}"
        ))
        .unwrap()
    }

    fn element(n: u64) -> String {
        format!(
            "{{\"name\":\"in\",\"class\":\"FromDevice\",\"packets\":0,\"batches\":0,\"emitted\":{},\"emissions\":{n},\"cycles\":{},\
             \"empty_polls\":{},\"empty_cycles\":{},\"wasted_packets\":0,\"wasted_cycles\":0,\"drops\":{{\"full\":{n},\"old\":7}}}}",
            32 * n,
            1000 * n,
            10 * n,
            500 * n
        )
    }

    #[test]
    fn what_was_spent_is_the_difference() {
        let cost = stats(5, &element(400)).since(&stats(3, &element(100)));
        assert_eq!((cost.workers, cost.tsc_hz, cost.elements.len()), (2, 2e9, 1));
        let one = &cost.elements[0];
        assert_eq!((one.packets, one.batches, one.cycles), (300 * 32, 300, 300_000));
        assert_eq!((one.empty_polls, one.empty_cycles, one.batch()), (3000, 150_000, 32.0));
        assert_eq!(cost.drops().collect::<Vec<_>>(), [("in", "full", 300)], "only what is new");
        assert_eq!(cost.cycles_per_packet(10_000), 30.0);
        // Of two workers with 2,000,000,000 cycles a second each, for a thousandth of a second.
        assert_eq!(cost.load(0.001), 300_000.0 / 4_000_000.0);
        assert_eq!(cost.cycles_per_packet(0), 0.0);
    }

    #[test]
    fn counters_that_have_begun_anew_give_nothing_absurd() {
        let cost = stats(5, &element(100)).since(&stats(5, &element(400)));
        assert_eq!((cost.cycles(), cost.tsc_hz, cost.load(1.0)), (0, 0.0, 0.0));
        assert!(Stats::read("<html>").is_none() && Stats::read("{}").is_none());
    }

    #[test]
    fn a_figure_or_the_reason_is_kept() {
        let both = [Known::Is(2.5), Known::Not { not_available: "no counter".to_owned() }];
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(text, "[2.5,{\"not_available\":\"no counter\"}]");
        assert_eq!(serde_json::from_str::<[Known<f64>; 2]>(&text).unwrap(), both);
        assert_eq!((both[0].get(), both[1].why_not()), (Some(&2.5), Some("no counter")));
    }
}
