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
    /// The energy of all processors of the device's machine, in joules: with whatever else runs there.
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
    /// Cycles without empty polls, of each worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worker_cycles: Vec<u64>,
    /// How often packets have changed workers; none of a router that does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_workers: Option<u64>,
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
    /// Cycles of the time-stamp counter in this element, without empty polls. The part of the time for which
    /// its workers waited for a processor is taken off.
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

    /// The same on another worker.
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.batches += other.batches;
        self.cycles += other.cycles;
        self.empty_polls += other.empty_polls;
        self.empty_cycles += other.empty_cycles;
        for (reason, n) in other.drops {
            *self.drops.entry(reason).or_default() += n;
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

    /// How unevenly the work was divided over the workers: the most that one of them had over the mean, less 1.
    /// None: there is one worker, or no work.
    #[must_use]
    pub fn imbalance(&self) -> Option<f64> {
        let (all, most) = (self.worker_cycles.iter().sum::<u64>(), *self.worker_cycles.iter().max()?);
        let workers = self.worker_cycles.len();
        (workers > 1 && all > 0).then(|| most as f64 * workers as f64 / all as f64 - 1.0)
    }

    /// How often each of so many packets has changed workers, on average. None: there is one worker, or it is
    /// not counted.
    #[must_use]
    pub fn changed_workers_per_packet(&self, packets: u64) -> Option<f64> {
        self.changed_workers.filter(|_| self.workers > 1).map(|changed| per(changed, packets))
    }

    /// The packets that went through some elements, without those that they have dropped.
    #[must_use]
    pub fn counted(&self, names: &[String]) -> u64 {
        let counted = self.elements.iter().filter(|element| names.contains(&element.name));
        counted
            .map(|element| element.packets - element.drops.values().sum::<u64>().min(element.packets))
            .sum()
    }

    /// The packets that were dropped: element, reason, how many.
    pub fn drops(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.elements.iter().flat_map(|element| {
            element.drops.iter().map(|(reason, n)| (element.name.as_str(), reason.as_str(), *n))
        })
    }
}

/// The counters of a router at one moment: its handler `load.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stats {
    time_ns: u64,
    /// The time-stamp counter.
    cycles: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed_workers: Option<u64>,
    workers: Vec<Worker>,
    elements: Vec<Element>,
}

/// A worker's time on a processor, as the kernel counts it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Worker {
    ran_ns: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Element {
    name: String,
    class: String,
    workers: Vec<Counters>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Counters {
    worker: usize,
    packets: u64,
    batches: u64,
    emitted: u64,
    emissions: u64,
    cycles: u64,
    empty_polls: u64,
    empty_cycles: u64,
    drops: BTreeMap<String, u64>,
}

impl Counters {
    /// What has been added since on this worker.
    fn since(&self, before: Option<&Self>) -> ElementCost {
        let none = Self::default();
        let old = before.unwrap_or(&none);
        let more = |of: fn(&Self) -> u64| of(self).saturating_sub(of(old));
        // What nothing is given to is a source: its packets are those that it emits.
        let (packets, batches) = if self.packets > 0 {
            (more(|c| c.packets), more(|c| c.batches))
        } else {
            (more(|c| c.emitted), more(|c| c.emissions))
        };
        let drops = self.drops.iter().map(|(reason, n)| {
            (reason.clone(), n.saturating_sub(old.drops.get(reason).copied().unwrap_or(0)))
        });
        ElementCost {
            packets,
            batches,
            cycles: more(|c| c.cycles),
            empty_polls: more(|c| c.empty_polls),
            empty_cycles: more(|c| c.empty_cycles),
            drops: drops.filter(|(_, n)| *n > 0).collect(),
            ..ElementCost::default()
        }
    }
}

impl Stats {
    /// Reads the handler's text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether there is an element of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.elements.iter().any(|element| element.name == name)
    }

    /// The time from a moment before to this one, in seconds.
    pub(crate) fn seconds_since(&self, before: &Self) -> f64 {
        Duration::from_nanos(self.time_ns.saturating_sub(before.time_ns)).as_secs_f64()
    }

    /// What has been counted since.
    pub(crate) fn since(&self, before: &Self) -> RouterCost {
        let seconds = self.seconds_since(before);
        let cycles = self.cycles.saturating_sub(before.cycles) as f64;
        let tsc_hz = if seconds > 0.0 { cycles / seconds } else { 0.0 };
        // Of each element on each worker.
        let mut elements: Vec<(&Element, Vec<(usize, ElementCost)>)> = Vec::new();
        for now in &self.elements {
            let old = before.elements.iter().find(|old| old.name == now.name && old.class == now.class);
            let since = |counters: &Counters| {
                let of = |old: &&Counters| old.worker == counters.worker;
                (counters.worker, counters.since(old.and_then(|old| old.workers.iter().find(of))))
            };
            elements.push((now, now.workers.iter().map(since).collect()));
        }
        let on_processor = self.on_processor(before, tsc_hz, &elements);
        let mut worker_cycles = vec![0; self.workers.len()];
        let sum = |(element, workers): (&Element, Vec<(usize, ElementCost)>)| {
            let (name, class) = (element.name.clone(), element.class.clone());
            let mut all = ElementCost { name, class, ..ElementCost::default() };
            for (worker, mut one) in workers {
                let part = on_processor.get(worker).copied().unwrap_or(1.0);
                one.cycles = (one.cycles as f64 * part).round() as u64;
                one.empty_cycles = (one.empty_cycles as f64 * part).round() as u64;
                if let Some(cycles) = worker_cycles.get_mut(worker) {
                    *cycles += one.cycles;
                }
                all.add(one);
            }
            all
        };
        let elements = elements.into_iter().map(sum).filter(ElementCost::has_worked).collect();
        let changed = self.changed_workers.zip(before.changed_workers);
        let changed_workers = changed.map(|(now, before)| now.saturating_sub(before));
        RouterCost { workers: self.workers.len() as u64, tsc_hz, elements, worker_cycles, changed_workers }
    }

    /// The part of the time in its elements in which each worker was on a processor: a worker that others
    /// displace in the middle of its work has that time in its cycles too.
    fn on_processor(
        &self,
        before: &Self,
        hz: f64,
        elements: &[(&Element, Vec<(usize, ElementCost)>)],
    ) -> Vec<f64> {
        let part = |(n, worker): (usize, &Worker)| {
            let ran = worker.ran_ns?.saturating_sub(before.workers.get(n)?.ran_ns?);
            let own = elements.iter().flat_map(|(_, workers)| workers).filter(|(worker, _)| *worker == n);
            let inside: u64 = own.map(|(_, one)| one.cycles + one.empty_cycles).sum();
            (ran > 0 && inside > 0).then(|| (ran as f64 / 1e9 * hz / inside as f64).min(1.0))
        };
        self.workers.iter().enumerate().map(|all| part(all).unwrap_or(1.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// On a processor all the time.
    const ALWAYS: [u64; 2] = [1_000_000; 2];

    /// At this second, with this of the element on each of two workers; they were on a processor for so many
    /// microseconds of each second.
    fn stats(seconds: u64, n: [u64; 2], ran_us: [u64; 2]) -> Stats {
        let counters = |worker: usize| {
            let n = n[worker];
            json!({"worker": worker, "packets": 0, "batches": 0, "emitted": 32 * n, "emissions": n, "cycles": 1000 * n,
                   "empty_polls": 10 * n, "empty_cycles": 500 * n, "wasted_packets": 0, "wasted_cycles": 0, "full_cycles": 0,
                   "drops": {"full": n, "old": 7}})
        };
        let time = |worker: usize| json!({"worker": worker, "ran_ns": ran_us[worker] * seconds * 1000, "waited_ns": 12345});
        let text = json!({
            "format": 1, "time_ns": seconds * 1_000_000_000, "cycles": seconds * 2_000_000_000, "changed_workers": n[0], "workers": [time(0), time(1)],
            "elements": [
                {"name": "in", "class": "FromDevice", "role": "source", "to": [], "workers": [counters(0), counters(1)]},
                {"name": "idle", "class": "Idle", "role": "ordinary", "to": [], "workers": []},
            ],
        });
        Stats::read(&text.to_string()).unwrap()
    }

    #[test]
    fn what_was_spent_is_the_difference() {
        let cost = stats(5, [300, 100], ALWAYS).since(&stats(3, [80, 20], ALWAYS));
        assert_eq!((cost.workers, cost.tsc_hz, cost.elements.len()), (2, 2e9, 1));
        let one = &cost.elements[0];
        assert_eq!((one.packets, one.batches, one.cycles), (300 * 32, 300, 300_000));
        assert_eq!((one.empty_polls, one.empty_cycles, one.batch()), (3000, 150_000, 32.0));
        assert_eq!(cost.drops().collect::<Vec<_>>(), [("in", "full", 300)], "only what is new");
        assert_eq!(cost.cycles_per_packet(10_000), 30.0);
        // Of two workers with 2,000,000,000 cycles a second each, for a thousandth of a second.
        assert_eq!(cost.load(0.001), 300_000.0 / 4_000_000.0);
        assert_eq!(cost.cycles_per_packet(0), 0.0);
        assert_eq!((cost.changed_workers, cost.changed_workers_per_packet(440)), (Some(220), Some(0.5)));
        let uncounted =
            [RouterCost { workers: 1, ..cost }, RouterCost { workers: 2, ..RouterCost::default() }];
        assert_eq!(uncounted.map(|cost| cost.changed_workers_per_packet(440)), [None, None]);
    }

    #[test]
    fn what_a_worker_has_waited_for_a_processor_is_not_its_work() {
        // In its elements the first has spent 220,000 cycles and half as many in empty polls, which is 165
        // us; it was on a processor for 2 * 33 us of this. The second was there for longer than in its
        // elements.
        let since = |ran| stats(5, [300, 100], ran).since(&stats(3, [80, 20], ran));
        let cost = since([33, 1000]);
        assert_eq!(cost.worker_cycles, [220_000 * 2 / 5, 80_000]);
        assert_eq!((cost.elements[0].cycles, cost.elements[0].empty_cycles), (168_000, 84_000));
        assert_eq!(cost.elements[0].packets, 300 * 32);
        assert_eq!(since([0, 0]).worker_cycles, [220_000, 80_000], "the kernel does not count it");
    }

    #[test]
    fn work_is_uneven_by_what_the_busiest_worker_has_more() {
        let mut cost = stats(5, [300, 100], ALWAYS).since(&stats(3, [60, 40], ALWAYS));
        // The first has four times as much as the second.
        assert_eq!(cost.worker_cycles, [240_000, 60_000]);
        assert!((cost.imbalance().unwrap() - 0.6).abs() < 1e-9);
        cost.worker_cycles = vec![500, 500];
        assert_eq!(cost.imbalance(), Some(0.0));
        for nothing in [vec![7], vec![0, 0], Vec::new()] {
            cost.worker_cycles = nothing;
            assert_eq!(cost.imbalance(), None);
        }
    }

    #[test]
    fn what_an_element_has_dropped_has_not_gone_through_it() {
        let cost = stats(5, [300, 100], ALWAYS).since(&stats(3, [80, 20], ALWAYS));
        let names = ["in".to_owned(), "other".to_owned()];
        assert_eq!((cost.counted(&names), cost.counted(&names[1..])), (300 * 32 - 300, 0));
    }

    #[test]
    fn counters_that_have_begun_anew_give_nothing_absurd() {
        let cost = stats(5, [50, 50], ALWAYS).since(&stats(5, [300, 100], ALWAYS));
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
