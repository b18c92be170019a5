//! Byte-fair deficit round-robin over the links of a node: each gets the same number of bytes, without random
//! numbers and without a division.
//!
//! For an output node, each link has a counter, and all of them together have a level. A packet of `b` bytes
//! raises the level by `b`. It adds `b` times the number of usable links to the counter of its own link, and
//! `b` to the counter of each link that is not usable. So on average the counters rise as fast as the level,
//! exactly and for ever, and there is always a usable link whose counter is not above the level. If only such
//! links are used, none of them gets more than its share and one packet. A link that was not usable, because
//! it does not lead to the output node or has no capacity, earns no deficit.
//!
//! Common counters for all output nodes would balance the links of this node as well, but not the traffic
//! from an intermediate node to one output node: if packets for two output nodes alternate, one of these
//! could use the links of even numbers for ever, and the other one those of odd numbers.
//!
//! There are sets of counters for a few output nodes at a time, as only few output nodes at a time are sent
//! more than fits into the direct path. A set that was not used for a while is assigned to another output
//! node that needs one. Without a set of counters, links are used in turn.

/// How many sets of counters there are.
const SETS: usize = 16;
/// A set that was not used for this long can be assigned to another output node.
const IDLE_NS: u64 = 10_000_000;
/// Longer packets are counted as this long, so that counters do not overflow.
const MAX_BYTES: u32 = 0xffff;

/// The set of counters of one output node, except the counters themselves.
#[derive(Clone, Debug)]
struct Set {
    owner: u32,
    level: u32,
    used_ns: u64,
}

const NOBODY: u32 = u32::MAX;

/// A set of counters; valid until the next call of [`RoundRobin::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterSet(u16);

impl CounterSet {
    /// Its number, for the next call.
    pub(crate) const fn place(self) -> u16 {
        self.0
    }
}

/// The counters of the links that packets are distributed over.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundRobin {
    links: usize,
    sets: Vec<Set>,
    /// The links of the first set, those of the second, ...
    counters: Vec<u32>,
    next: u16,
}

impl RoundRobin {
    /// Starts again, for this many output nodes and links.
    pub(crate) fn reset(&mut self, outputs: usize, links: usize) {
        self.links = links;
        self.sets.clear();
        self.sets.resize(outputs.min(SETS), Set { owner: NOBODY, level: 0, used_ns: 0 });
        self.counters.clear();
        self.counters.resize(self.sets.len() * links, 0);
        self.next = 0;
    }
    /// The counters of an output node, which had the set `last`; `None` if other nodes use all sets.
    #[inline]
    pub(crate) fn set(&mut self, last: u16, output: u32, now_ns: u64) -> Option<CounterSet> {
        if let Some(set) = self.sets.get_mut(usize::from(last))
            && set.owner == output
        {
            set.used_ns = now_ns;
            return Some(CounterSet(last));
        }
        self.assign(output, now_ns)
    }
    #[cold]
    fn assign(&mut self, output: u32, now_ns: u64) -> Option<CounterSet> {
        let at = self.next;
        self.next = if usize::from(at) + 1 < self.sets.len() { at + 1 } else { 0 };
        let set = self.sets.get_mut(usize::from(at))?;
        if set.owner != NOBODY && now_ns.saturating_sub(set.used_ns) < IDLE_NS {
            return None;
        }
        *set = Set { owner: output, level: 0, used_ns: now_ns };
        let start = usize::from(at) * self.links;
        self.counters.get_mut(start..start + self.links).unwrap_or_default().fill(0);
        Some(CounterSet(at))
    }
    /// How far the counter of a link is above the level, in bytes times links. A link that is not above it
    /// may be used.
    #[inline]
    pub(crate) fn above(&self, set: Option<CounterSet>, link: u32) -> i32 {
        let Some(CounterSet(at)) = set else { return 0 };
        let counter = self.counters.get(usize::from(at) * self.links + link as usize);
        // Both numbers wrap around; they are never far apart.
        match (counter, self.sets.get(usize::from(at))) {
            (Some(counter), Some(set)) => counter.wrapping_sub(set.level) as i32,
            _ => 0,
        }
    }
    /// Raises the level, for a packet.
    #[inline]
    pub(crate) fn raise(&mut self, set: Option<CounterSet>, bytes: u32) {
        if let Some(set) = set.and_then(|at| self.sets.get_mut(usize::from(at.0))) {
            set.level = set.level.wrapping_add(bytes.min(MAX_BYTES));
        }
    }
    /// Adds a packet to the counter of a link, so many times; ignores links that do not exist.
    #[inline]
    pub(crate) fn charge(&mut self, set: Option<CounterSet>, link: u32, bytes: u32, times: u32) {
        let Some(CounterSet(at)) = set.filter(|_| (link as usize) < self.links) else { return };
        if let Some(counter) = self.counters.get_mut(usize::from(at) * self.links + link as usize) {
            *counter = counter.wrapping_add(bytes.min(MAX_BYTES).wrapping_mul(times));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_level_rise_alike_and_wrap() {
        let mut robin = RoundRobin::default();
        robin.reset(5, 3);
        let at = robin.set(0, 4, 0);
        // Link 2 is not usable; the others are used in turn.
        for round in 0..100_000 {
            for link in [0, 1, 1, 0, 0, 1] {
                robin.charge(at, link, 50_000, 2);
                robin.charge(at, 2, 50_000, 1);
                robin.raise(at, 50_000);
            }
            assert_eq!([0, 1, 2].map(|l| robin.above(at, l)), [0, 0, 0], "{round}");
        }
        robin.charge(at, 0, 700, 1);
        assert_eq!((robin.above(at, 0), robin.above(at, 1)), (700, 0));
        // The link does not exist: no other link is charged.
        robin.charge(at, 3, 1, 1);
        let other = robin.set(0, 3, 0);
        assert!(other != at && robin.above(other, 0) == 0);
        assert_eq!(robin.above(None, 0), 0);
    }

    #[test]
    fn sets_are_assigned_to_outputs_that_need_one() {
        let mut robin = RoundRobin::default();
        robin.reset(1000, 9);
        let first = robin.set(7, 500, 0).unwrap();
        robin.charge(Some(first), 2, 100, 9);
        let others: Vec<_> = (0..20).filter_map(|output| robin.set(0, output, 5)).collect();
        assert_eq!(others.len(), SETS - 1);
        assert_eq!((robin.set(first.0, 500, 6), robin.above(Some(first), 2)), (Some(first), 900));
        // All are in use; later none is.
        assert_eq!(robin.set(0, 600, 7), None);
        let at = (0..20).find_map(|_| robin.set(0, 600, IDLE_NS + 6)).unwrap();
        assert_eq!((robin.set(at.0, 600, IDLE_NS + 6), robin.above(Some(at), 2)), (Some(at), 0));
    }
}
