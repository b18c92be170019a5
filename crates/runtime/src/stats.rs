//! Counters that one worker writes and any thread reads, without atomic read-modify-write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A counter with one writer (the worker that owns the element) and any number of readers.
///
/// Adding is a relaxed load and a relaxed store: as cheap as a plain integer. Cloning gives another view of the
/// same counter; only the owner may write.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Aligned>);

#[derive(Debug, Default)]
// Two cache lines: the processor fetches them together, and the next counter is often another worker's.
#[repr(align(128))]
struct Aligned(AtomicU64);

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        let v = &self.0.0;
        v.store(v.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
    /// The present value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }
    /// Replaces the value.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.0.store(n, Ordering::Relaxed);
    }
}

/// How many different drop reasons one element may use.
pub const MAX_REASONS: usize = 24;

#[derive(Debug, Default)]
struct Reason {
    name: OnceLock<&'static str>,
    packets: AtomicU64,
}

/// What the runtime counts for one element on one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SlotStats {
    calls: AtomicU64,
    packets: AtomicU64,
    emitted: AtomicU64,
    emissions: AtomicU64,
    cycles: AtomicU64,
    idle_polls: AtomicU64,
    idle_cycles: AtomicU64,
    wasted_packets: AtomicU64,
    wasted_cycles: AtomicU64,
    reasons: [Reason; MAX_REASONS],
}

#[inline]
fn bump(v: &AtomicU64, n: u64) {
    v.store(v.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl SlotStats {
    #[inline]
    pub(crate) fn count_in(&self, packets: usize) {
        bump(&self.calls, 1);
        bump(&self.packets, packets as u64);
    }
    #[inline]
    pub(crate) fn count_out(&self, packets: usize) {
        bump(&self.emitted, packets as u64);
    }
    /// Counts a vector that the element has begun to emit.
    #[inline]
    pub(crate) fn count_emission(&self) {
        bump(&self.emissions, 1);
    }
    /// Counts packets that passed as a part of a vector, the rest of which is counted by itself.
    pub(crate) fn count_passed(&self, packets: usize) {
        bump(&self.packets, packets as u64);
        bump(&self.emitted, packets as u64);
    }
    #[inline]
    pub(crate) fn add_cycles(&self, cycles: u64) {
        bump(&self.cycles, cycles);
    }
    #[inline]
    pub(crate) fn add_idle(&self, cycles: u64) {
        bump(&self.idle_polls, 1);
        bump(&self.idle_cycles, cycles);
    }
    /// Counts packets that found no room here, and the cycles spent on them before.
    pub(crate) fn add_waste(&self, packets: u64, cycles: u64) {
        bump(&self.wasted_packets, packets);
        bump(&self.wasted_cycles, cycles);
    }
    /// Counts `n` packets dropped for `reason`.
    pub(crate) fn count_drop(&self, reason: &'static str, n: u64) {
        if n == 0 {
            return;
        }
        for slot in &self.reasons {
            let name = slot.name.get_or_init(|| reason);
            if std::ptr::eq(*name, reason) || *name == reason {
                bump(&slot.packets, n);
                return;
            }
        }
        // More reasons than places: count under the last one rather than lose the packet from the books.
        bump(&self.reasons[MAX_REASONS - 1].packets, n);
    }

    /// A consistent enough copy: each figure is exact, their sum may be one vector apart.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot {
        let get = |v: &AtomicU64| v.load(Ordering::Relaxed);
        StatsSnapshot {
            calls: get(&self.calls),
            packets: get(&self.packets),
            emitted: get(&self.emitted),
            emissions: get(&self.emissions),
            cycles: get(&self.cycles),
            idle_polls: get(&self.idle_polls),
            idle_cycles: get(&self.idle_cycles),
            wasted_packets: get(&self.wasted_packets),
            wasted_cycles: get(&self.wasted_cycles),
            drops: self
                .reasons
                .iter()
                .filter_map(|r| Some((*r.name.get()?, get(&r.packets))))
                .filter(|(_, n)| *n > 0)
                .collect(),
        }
    }
}

/// What [`SlotStats::snapshot`] returns; the sum over workers is made with [`StatsSnapshot::merge`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Vectors that the element was given (push) or got (pull).
    pub calls: u64,
    /// Packets in those vectors.
    pub packets: u64,
    /// Packets that the element emitted (push) or gave (pull).
    pub emitted: u64,
    /// Vectors in which it emitted them.
    pub emissions: u64,
    /// Time-stamp counter cycles spent in the element itself, without empty polls.
    pub cycles: u64,
    /// Task runs that found nothing to do.
    pub idle_polls: u64,
    /// Cycles spent in those.
    pub idle_cycles: u64,
    /// Packets that found no room here and were dropped.
    pub wasted_packets: u64,
    /// Cycles that the worker spent on them, from when they were received or taken from the queue before: their share
    /// of the runs in which they came.
    pub wasted_cycles: u64,
    /// Packets dropped, by reason.
    pub drops: Vec<(&'static str, u64)>,
}

impl StatsSnapshot {
    /// Adds another worker's figures.
    pub fn merge(&mut self, other: &StatsSnapshot) {
        self.calls += other.calls;
        self.packets += other.packets;
        self.emitted += other.emitted;
        self.emissions += other.emissions;
        self.cycles += other.cycles;
        self.idle_polls += other.idle_polls;
        self.idle_cycles += other.idle_cycles;
        self.wasted_packets += other.wasted_packets;
        self.wasted_cycles += other.wasted_cycles;
        for (reason, n) in &other.drops {
            match self.drops.iter_mut().find(|(r, _)| r == reason) {
                Some((_, sum)) => *sum += n,
                None => self.drops.push((reason, *n)),
            }
        }
    }
    /// Packets in a vector on average: of those that came in, or for a source of those that it emitted.
    #[must_use]
    pub fn vector(&self) -> f64 {
        let (packets, vectors) =
            if self.packets > 0 { (self.packets, self.calls) } else { (self.emitted, self.emissions) };
        if vectors == 0 { 0.0 } else { packets as f64 / vectors as f64 }
    }
    /// Packets handled: those that came in, or for a source those that it emitted.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.packets.max(self.emitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_reason_and_merged() {
        let (a, b) = (SlotStats::default(), SlotStats::default());
        a.count_drop("ttl expired", 2);
        a.count_drop("no route", 1);
        b.count_drop("no route", 5);
        let mut sum = a.snapshot();
        sum.merge(&b.snapshot());
        assert_eq!(sum.drops, [("ttl expired", 2), ("no route", 6)]);
    }

    #[test]
    fn nothing_dropped_takes_no_place() {
        let s = SlotStats::default();
        s.count_drop("never", 0);
        s.count_drop("once", 1);
        assert_eq!(s.reasons[0].name.get(), Some(&"once"));
    }

    #[test]
    fn a_reason_too_many_is_still_counted() {
        let s = SlotStats::default();
        let names: Vec<&'static str> =
            (0..MAX_REASONS + 3).map(|i| &*Box::leak(format!("r{i}").into_boxed_str())).collect();
        names.iter().for_each(|n| s.count_drop(n, 1));
        assert_eq!(s.snapshot().drops.iter().map(|d| d.1).sum::<u64>(), MAX_REASONS as u64 + 3);
    }
}
