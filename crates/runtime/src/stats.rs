//! Counters that one worker writes and any thread reads, without atomic read-modify-write.

use crate::facts::{DropCase, DropReason};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer (the worker that owns the element) and any number of readers.
///
/// Adding is a relaxed load and a relaxed store: as cheap as a plain integer. Cloning gives another view of
/// the same counter; only the owner may write.
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
    /// Asks the processor to fetch it.
    #[inline]
    pub fn prefetch(&self) {
        dpdk::prefetch(&*self.0, 1);
    }
    /// Replaces the value.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.0.store(n, Ordering::Relaxed);
    }
}

/// How many drop reasons one class may have.
pub const MAX_REASONS: usize = 24;

/// Counters beside those of an element's own reasons: the reasons of the runtime, and one for undeclared
/// reasons.
const OTHERS: usize = DropReason::GENERAL.len() + 1;

/// The runtime's counters for one element on one worker.
#[derive(Debug)]
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
    /// Since when it has been full, by the time stamp counter; 0: it is not.
    full_since: AtomicU64,
    full_cycles: AtomicU64,
    changed_workers: AtomicU64,
    /// The class's drop reasons; the counters have the same indexes.
    cases: &'static [DropCase],
    drops: [AtomicU64; MAX_REASONS],
    /// Packets that left by output 1 instead.
    rejected: [AtomicU64; MAX_REASONS],
    others: [AtomicU64; OTHERS],
}

/// Only counted if an element has a bug.
const UNDECLARED: DropReason = DropReason::new("undeclared reason");

/// The index of a reason.
fn index_of(mut reasons: impl Iterator<Item = DropReason>, reason: DropReason) -> Option<usize> {
    let text = reason.text();
    reasons.position(|r| std::ptr::eq(r.text(), text) || r.text() == text)
}

#[inline]
fn bump(v: &AtomicU64, n: u64) {
    v.store(v.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl SlotStats {
    /// All counters at zero, for an element whose class drops packets in these cases.
    pub(crate) fn new(cases: &'static [DropCase]) -> Self {
        let none = AtomicU64::default;
        Self {
            calls: none(),
            packets: none(),
            emitted: none(),
            emissions: none(),
            cycles: none(),
            idle_polls: none(),
            idle_cycles: none(),
            wasted_packets: none(),
            wasted_cycles: none(),
            full_since: none(),
            full_cycles: none(),
            changed_workers: none(),
            cases,
            drops: Default::default(),
            rejected: Default::default(),
            others: Default::default(),
        }
    }
    #[inline]
    pub(crate) fn count_in(&self, packets: usize) {
        bump(&self.calls, 1);
        bump(&self.packets, packets as u64);
    }
    #[inline]
    pub(crate) fn count_out(&self, packets: usize) {
        bump(&self.emitted, packets as u64);
    }
    /// Counts a batch that the element has begun to emit.
    #[inline]
    pub(crate) fn count_emission(&self) {
        bump(&self.emissions, 1);
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
    /// Counts packets that were dropped because the element was full, and the cycles spent on them before.
    pub(crate) fn add_waste(&self, packets: u64, cycles: u64) {
        bump(&self.wasted_packets, packets);
        bump(&self.wasted_cycles, cycles);
    }
    /// Counts packets that another worker has handed to the element on this one.
    #[inline]
    pub(crate) fn count_changed_workers(&self, packets: u64) {
        bump(&self.changed_workers, packets);
    }
    /// The element is full from now on, or has room again.
    #[cold]
    pub(crate) fn set_full(&self, full: bool) {
        let now = dpdk::cycles();
        if full {
            self.full_since.store(now, Ordering::Relaxed);
        } else {
            let since = self.full_since.swap(0, Ordering::Relaxed);
            bump(&self.full_cycles, if since == 0 { 0 } else { now.saturating_sub(since) });
        }
    }
    /// How long it has been full in all.
    fn full_for(&self) -> u64 {
        let before = self.full_cycles.load(Ordering::Relaxed);
        let since = self.full_since.load(Ordering::Relaxed);
        before + if since == 0 { 0 } else { dpdk::cycles().saturating_sub(since) }
    }
    /// The reasons of the class.
    fn reasons(&self) -> impl Iterator<Item = DropReason> {
        self.cases.iter().map(|case| case.reason)
    }
    /// The counter of packets that are dropped for a reason.
    fn drops_of(&self, reason: DropReason) -> &AtomicU64 {
        if let Some(counter) = index_of(self.reasons(), reason).and_then(|i| self.drops.get(i)) {
            return counter;
        }
        let general = index_of(DropReason::GENERAL.into_iter(), reason);
        debug_assert!(general.is_some(), "dropped for '{reason}', which the class does not declare");
        &self.others[general.unwrap_or(OTHERS - 1)]
    }
    /// Counts `n` packets dropped for `reason`.
    pub(crate) fn count_drop(&self, reason: DropReason, n: u64) {
        if n > 0 {
            bump(self.drops_of(reason), n);
        }
    }
    /// Counts a packet that left by output 1 where it would have been dropped for `reason`.
    pub(crate) fn count_rejected(&self, reason: DropReason) {
        let counter = index_of(self.reasons(), reason).and_then(|i| self.rejected.get(i));
        debug_assert!(counter.is_some(), "rejected for '{reason}', which the class does not declare");
        bump(counter.unwrap_or(&self.others[OTHERS - 1]), 1);
    }

    /// A copy in which each figure is exact, but which may differ by one batch between figures.
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
            full_cycles: self.full_for(),
            changed_workers: get(&self.changed_workers),
            drops: (self.reasons().zip(&self.drops))
                .chain(DropReason::GENERAL.into_iter().chain([UNDECLARED]).zip(&self.others))
                .map(|(reason, n)| (reason.text(), get(n)))
                .filter(|(_, n)| *n > 0)
                .collect(),
            rejected: (self.reasons().zip(&self.drops).zip(&self.rejected))
                .map(|((reason, dropped), rejected)| (reason.text(), get(dropped) + get(rejected)))
                .collect(),
        }
    }
}

/// What [`SlotStats::snapshot`] returns; the sum over workers is made with [`StatsSnapshot::merge`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Batches that the element was given (push) or got (pull).
    pub calls: u64,
    /// Packets in those batches.
    pub packets: u64,
    /// Packets that the element emitted (push) or gave (pull).
    pub emitted: u64,
    /// Batches in which it emitted them.
    pub emissions: u64,
    /// Time-stamp counter cycles spent in the element itself, without empty polls.
    pub cycles: u64,
    /// Task runs that found nothing to do.
    pub idle_polls: u64,
    /// Cycles spent in those.
    pub idle_cycles: u64,
    /// Packets that were dropped because the element was full.
    pub wasted_packets: u64,
    /// Cycles that the worker spent on them, from when they were received or taken from the queue before:
    /// their share of the runs in which they came.
    pub wasted_cycles: u64,
    /// For how many cycles it had no room for more ([`crate::Cx::set_full`]).
    pub full_cycles: u64,
    /// Packets that came to the element from another worker ([`crate::Cx::count_changed_workers`]).
    pub changed_workers: u64,
    /// Packets dropped, by reason.
    pub drops: Vec<(&'static str, u64)>,
    /// For each reason of the class, in its order: packets that were dropped, or left by output 1 instead and
    /// were counted ([`crate::Cx::reject`]).
    pub rejected: Vec<(&'static str, u64)>,
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
        self.full_cycles += other.full_cycles;
        self.changed_workers += other.changed_workers;
        for (mine, theirs) in [(&mut self.drops, &other.drops), (&mut self.rejected, &other.rejected)] {
            for (reason, n) in theirs {
                match mine.iter_mut().find(|(r, _)| r == reason) {
                    Some((_, sum)) => *sum += n,
                    None => mine.push((reason, *n)),
                }
            }
        }
    }
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let drops: Map<String, Value> =
            self.drops.iter().map(|(reason, n)| ((*reason).into(), (*n).into())).collect();
        json!({
            "packets": self.packets, "batches": self.calls, "emitted": self.emitted, "emissions": self.emissions,
            "cycles": self.cycles, "empty_polls": self.idle_polls, "empty_cycles": self.idle_cycles,
            "wasted_packets": self.wasted_packets, "wasted_cycles": self.wasted_cycles,
            "full_cycles": self.full_cycles, "changed_workers": self.changed_workers, "drops": drops,
        })
    }
    /// Packets that were rejected for a reason of the class.
    #[must_use]
    pub fn rejected_for(&self, reason: DropReason) -> u64 {
        self.rejected.iter().filter(|(text, _)| *text == reason.text()).map(|(_, n)| n).sum()
    }
    /// Packets in a batch on average: of those that came in, or for a source of those that it emitted.
    #[must_use]
    pub fn batch_size(&self) -> f64 {
        let (packets, batches) =
            if self.packets > 0 { (self.packets, self.calls) } else { (self.emitted, self.emissions) };
        if batches == 0 { 0.0 } else { packets as f64 / batches as f64 }
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

    const TTL: DropReason = DropReason::new("ttl expired");
    const ROUTE: DropReason = DropReason::new("no route");
    static CASES: [DropCase; 2] = [ROUTE.when("nowhere to go"), TTL.when("too many hops")];

    #[test]
    fn drops_are_counted_by_reason_and_merged() {
        let (a, b) = (SlotStats::new(&CASES), SlotStats::new(&CASES));
        a.count_drop(TTL, 2);
        a.count_drop(DropReason::LOOP, 1);
        a.count_drop(ROUTE, 1);
        a.count_rejected(ROUTE);
        b.count_drop(ROUTE, 5);
        b.count_drop(TTL, 0);
        let mut sum = a.snapshot();
        sum.merge(&b.snapshot());
        assert_eq!(sum.drops, [("no route", 6), ("ttl expired", 2), ("forwarding loop", 1)]);
        assert_eq!(sum.rejected, [("no route", 7), ("ttl expired", 2)]);
    }

    #[test]
    fn the_time_in_which_it_was_full_is_added_up() {
        let s = SlotStats::new(&CASES);
        assert_eq!(s.snapshot().full_cycles, 0);
        s.set_full(true);
        let so_far = s.snapshot().full_cycles;
        s.set_full(false);
        let first = s.snapshot().full_cycles;
        assert!(first >= so_far && first > 0);
        assert_eq!(s.snapshot().full_cycles, first);
        s.set_full(true);
        assert!(s.snapshot().full_cycles > first);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "does not declare"))]
    fn what_nobody_declared_is_a_defect_and_still_counted() {
        let s = SlotStats::new(&CASES[..1]);
        s.count_drop(TTL, 3);
        assert_eq!(s.snapshot().drops, [("undeclared reason", 3)]);
    }
}
