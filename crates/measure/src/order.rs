//! Loss, duplicates and order within a flow, from the sequence numbers in the order of their arrival.
//!
//! Measures of order:
//!
//! * A *reordered packet* (RFC 4737 section 3.3, Type-P-Reordered) arrives after one with a higher number.
//!   Their share of the packets received is the reordered ratio (section 4.1).
//! * A *reordered sequence* (RouteBricks section 6.2) is a stretch of reordered packets of a flow that arrive
//!   one after the other, of maximal length. So a displacement counts once, however many packets were
//!   overtaken. The paper does not state what its percentages relate to; here shares are of the packets
//!   received, and the flows with any such sequence are counted too.
//! * The *extent* of a reordered packet (section 4.2) is how many arrivals of its flow ago the first with a
//!   higher number came: the number of packets that a receiver must buffer to restore order.
//! * A packet is *n-reordered* (section 5) if the n arrivals before it all have higher numbers. The greatest
//!   such n is its *degree*; a TCP that takes three duplicate acknowledgements for a loss retransmits for n = 3.
//!
//! | arrivals | reordered | sequences | extents | degrees |
//! |---|---|---|---|---|
//! | p1 p4 p2 p3 p5 | p2 p3 | 1 | 1 2 | 1 0 |
//! | p1 p2 p3 p5 p4 | p4 | 1 | 1 | 1 |
//! | p1 p3 p2 p5 p4 | p2 p4 | 2 | 1 1 | 1 1 |
//! | p2 p3 p4 p5 p1 | p1 | 1 | 4 | 4 |
//! | p1 p4 p2 p5 p3 | p2 p3 | 2 | 1 3 | 1 1 |
//! | p1 p3 p4 (p2 lost) | | 0 | | |
//!
//! Everything is counted as packets arrive, with bounded memory. A packet that arrives again is a duplicate
//! and not reordered, as RFC 4737 has it. Duplicates are recognized among the 64 numbers below the highest;
//! older ones are counted as reordered packets. Extents and degrees are exact up to [`DEPTH`]; larger ones
//! are counted as larger than that.

use crate::{Bad, bad};

/// The result for a packet, relative to the earlier packets of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its number is higher than all before; this many numbers were skipped.
    Ahead(u64),
    /// Reordered.
    Late {
        /// How far below the next number that was expected.
        distance: u64,
        /// Whether it begins a reordered sequence.
        begins: bool,
        /// How far its number is below the lowest one so far: this many more packets were sent than was
        /// known.
        before_first: u64,
        /// Its extent; [`DEPTH`] + 1 for more than [`DEPTH`].
        extent: usize,
        /// For how many n it is n-reordered; [`DEPTH`] for so many or more.
        degree: usize,
    },
    /// A duplicate.
    Duplicate,
}

/// The value that sequence numbers are counted from, so that numbers below the first that was seen can be
/// represented.
const BASE: u64 = 1 << 32;
const WINDOW: u64 = 64;
/// How many arrivals extents and degrees look back.
pub const DEPTH: usize = 64;

/// The last arrivals of a flow in which a packet was out of order.
#[derive(Clone, Debug)]
struct Recent {
    /// The number of arrival i, duplicates not counted, in place i mod [`DEPTH`].
    numbers: [u32; DEPTH],
    /// The highest number that has left, if one has.
    left: u32,
}

/// Whether a number is above another, both within 2^31.
#[inline]
const fn above(number: u32, other: u32) -> bool {
    (number.wrapping_sub(other) as i32) > 0
}

impl Recent {
    /// After `arrived` packets in order, the last with the number before `next`.
    fn in_order(arrived: u64, next: u32) -> Box<Self> {
        let mut this = Self { numbers: [0; DEPTH], left: next.wrapping_sub(DEPTH as u32 + 1) };
        for back in 1..=arrived.min(DEPTH as u64) {
            this.numbers[(arrived - back) as usize % DEPTH] = next.wrapping_sub(back as u32);
        }
        Box::new(this)
    }
    /// Arrival number `arrived`.
    #[inline]
    fn push(&mut self, arrived: u64, number: u32) {
        let place = &mut self.numbers[arrived as usize % DEPTH];
        let leaves = std::mem::replace(place, number);
        if arrived == DEPTH as u64 || arrived > DEPTH as u64 && above(leaves, self.left) {
            self.left = leaves;
        }
    }
    /// Extent and degree of a reordered packet that comes after `arrived` others.
    fn look_back(&self, arrived: u64, number: u32) -> (usize, usize) {
        let kept = arrived.min(DEPTH as u64);
        let higher = |back: u64| above(self.numbers[(arrived - back) as usize % DEPTH], number);
        let degree = (1..=kept).take_while(|&back| higher(back)).count();
        let beyond = arrived > DEPTH as u64 && above(self.left, number);
        let first = if beyond { None } else { (1..=kept).rev().find(|&back| higher(back)) };
        (first.map_or(DEPTH + 1, |back| back as usize), degree)
    }
}

/// Extents and degrees of the reordered packets of many flows (RFC 4737).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordering {
    extents: [u64; DEPTH + 2],
    degrees: [u64; DEPTH + 1],
}

impl Default for Reordering {
    fn default() -> Self {
        Self { extents: [0; DEPTH + 2], degrees: [0; DEPTH + 1] }
    }
}

impl Reordering {
    /// Counts an arrival, if it is a reordered one.
    #[inline]
    pub fn count(&mut self, arrival: Arrival) {
        if let Arrival::Late { extent, degree, .. } = arrival {
            self.extents[extent.min(DEPTH + 1)] += 1;
            self.degrees[degree.min(DEPTH)] += 1;
        }
    }
    /// Reordered packets.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.degrees.iter().sum()
    }
    /// Extents that occurred, and of how many packets; [`DEPTH`] + 1 stands for more than [`DEPTH`].
    pub fn extents(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        occurring(&self.extents)
    }
    /// Degrees that occurred, and of how many packets; [`DEPTH`] stands for so many or more.
    pub fn degrees(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        occurring(&self.degrees)
    }
    /// The mean extent, with those beyond [`DEPTH`] taken as [`DEPTH`] + 1; 0 without reordered packets.
    #[must_use]
    pub fn mean_extent(&self) -> f64 {
        let sum: u64 = self.extents().map(|(extent, packets)| extent as u64 * packets).sum();
        sum as f64 / self.packets().max(1) as f64
    }
    /// How many packets were n-reordered, for an n from 1 to [`DEPTH`].
    #[must_use]
    pub fn n_reordered(&self, n: usize) -> u64 {
        self.degrees.iter().skip(n).sum()
    }
    /// Adds those of another.
    pub fn merge(&mut self, other: &Self) {
        self.extents.iter_mut().zip(&other.extents).for_each(|(ours, theirs)| *ours += theirs);
        self.degrees.iter_mut().zip(&other.degrees).for_each(|(ours, theirs)| *ours += theirs);
    }
    /// `EXTENT:PACKETS` separated by commas, and the same of degrees.
    #[must_use]
    pub fn texts(&self) -> (String, String) {
        (text(self.extents()), text(self.degrees()))
    }
    /// Adds what [`Self::texts`] wrote of extents.
    ///
    /// # Errors
    /// The text has another form.
    pub fn add_extents(&mut self, text: &str) -> Result<(), Bad> {
        add(&mut self.extents, text)
    }
    /// Adds what [`Self::texts`] wrote of degrees.
    ///
    /// # Errors
    /// The text has another form.
    pub fn add_degrees(&mut self, text: &str) -> Result<(), Bad> {
        add(&mut self.degrees, text)
    }
}

fn occurring(counts: &[u64]) -> impl Iterator<Item = (usize, u64)> + '_ {
    counts.iter().copied().enumerate().filter(|(_, packets)| *packets > 0)
}

fn text(counts: impl Iterator<Item = (usize, u64)>) -> String {
    counts.map(|(n, packets)| format!("{n}:{packets}")).collect::<Vec<_>>().join(",")
}

fn add(counts: &mut [u64], text: &str) -> Result<(), Bad> {
    for word in text.split(',').filter(|w| !w.is_empty()) {
        let parsed =
            word.split_once(':').and_then(|(n, p)| n.parse::<usize>().ok().zip(p.parse::<u64>().ok()));
        match parsed.and_then(|(n, packets)| counts.get_mut(n).zip(Some(packets))) {
            Some((count, packets)) => *count += packets,
            None => return bad(format!("'{word}' is no count of reordered packets")),
        }
    }
    Ok(())
}

/// One flow.
#[derive(Clone, Debug, Default)]
pub struct FlowOrder {
    /// The lowest number seen, counted without wrapping.
    first: u64,
    /// One above the highest seen; 0 before the first packet.
    next: u64,
    /// Which of the 64 numbers below `next` have been seen; the highest in bit 0.
    window: u64,
    /// Packets, without duplicates.
    pub received: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Reordered packets.
    pub reordered: u64,
    /// Reordered sequences.
    pub sequences: u64,
    /// The largest distance of a reordered packet from the next expected number.
    pub max_distance: u64,
    late: bool,
    /// Allocated when the first packet arrives out of order.
    recent: Option<Box<Recent>>,
    /// The run that the numbers belong to.
    pub run: u8,
}

impl FlowOrder {
    /// A flow of which nothing has arrived.
    #[must_use]
    pub fn of_run(run: u8) -> Self {
        Self { run, ..Self::default() }
    }
    /// Whether no packet has arrived.
    #[inline]
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.next == 0
    }
    /// Packets that must have been sent: from the lowest number to the highest.
    #[inline]
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.next - self.first
    }
    /// Packets between the lowest and the highest that have not arrived.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent().saturating_sub(self.received)
    }
    /// The lowest and the highest number seen, counted without wrapping from 2^32 up; `None` before the first
    /// packet.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        (!self.is_new()).then(|| (self.first, self.next - 1))
    }

    /// The packet with number `seq` arrives.
    #[inline]
    pub fn arrive(&mut self, seq: u32) -> Arrival {
        if self.is_new() {
            self.first = BASE + u64::from(seq);
            self.next = self.first;
        }
        // A number is taken to be within 2^31 of the one expected.
        let ahead = i64::from(seq.wrapping_sub(self.next as u32) as i32);
        if ahead >= 0 {
            let skipped = ahead as u64;
            if skipped > 0 || self.recent.is_some() {
                self.remember(seq);
            }
            self.window = if skipped < WINDOW - 1 { self.window << (skipped + 1) | 1 } else { 1 };
            self.next += skipped + 1;
            self.received += 1;
            self.late = false;
            return Arrival::Ahead(skipped);
        }
        let distance = ahead.unsigned_abs();
        let behind = distance - 1;
        if behind < WINDOW {
            let bit = 1 << behind;
            if self.window & bit != 0 {
                self.duplicates += 1;
                return Arrival::Duplicate;
            }
            self.window |= bit;
        }
        let number = self.next.saturating_sub(distance);
        let before_first = self.first.saturating_sub(number);
        self.first -= before_first;
        let (extent, degree) = self.remember(seq);
        self.received += 1;
        self.reordered += 1;
        self.max_distance = self.max_distance.max(distance);
        let begins = !self.late;
        self.late = true;
        self.sequences += u64::from(begins);
        Arrival::Late { distance, begins, before_first, extent, degree }
    }

    /// Keeps the number of the packet that arrives; returns its extent and degree, if it is a reordered one.
    fn remember(&mut self, seq: u32) -> (usize, usize) {
        let (arrived, next) = (self.received, self.next as u32);
        let recent = self.recent.get_or_insert_with(|| Recent::in_order(arrived, next));
        let found = if above(next, seq) { recent.look_back(arrived, seq) } else { (0, 0) };
        recent.push(arrived, seq);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn run(numbers: impl IntoIterator<Item = u32>) -> FlowOrder {
        let mut order = FlowOrder::default();
        for number in numbers {
            order.arrive(number);
        }
        order
    }

    #[test]
    fn the_papers_example() {
        let order = run([1, 4, 2, 3, 5]);
        assert_eq!((order.sequences, order.reordered, order.max_distance, order.lost()), (1, 2, 3, 0));
        // Two reordered sequences, apart in time.
        assert_eq!(run([1, 3, 2, 5, 4, 6]).sequences, 2);
        assert_eq!(run(0..100).reordered, 0);
    }

    #[test]
    fn loss_and_duplicates() {
        let order = run([0, 1, 3, 3, 7]);
        assert_eq!((order.lost(), order.duplicates, order.received), (4, 1, 4));
        // What was sent before the first packet that was seen shows when one of them arrives.
        let mut order = run([5]);
        let late = Arrival::Late { distance: 4, begins: true, before_first: 3, extent: 1, degree: 1 };
        assert_eq!(order.arrive(2), late);
        assert_eq!((order.sent(), order.lost()), (4, 2));
    }

    #[test]
    fn numbers_wrap() {
        let order = run([u32::MAX - 1, u32::MAX, 0, 2, 1]);
        assert_eq!((order.lost(), order.reordered, order.received), (0, 1, 5));
        let order = run([0, u32::MAX]);
        assert_eq!((order.sent(), order.reordered), (2, 1));
    }

    /// Reordered sequences, and the extents and degrees of reordered packets in their order.
    fn lates(numbers: &[u32]) -> (u64, Vec<usize>, Vec<usize>) {
        let mut order = FlowOrder::default();
        let (extents, degrees) = numbers
            .iter()
            .filter_map(|n| match order.arrive(*n) {
                Arrival::Late { extent, degree, .. } => Some((extent, degree)),
                _ => None,
            })
            .unzip();
        (order.sequences, extents, degrees)
    }

    #[test]
    fn the_examples_of_the_manual() {
        assert_eq!(lates(&[1, 4, 2, 3, 5]), (1, vec![1, 2], vec![1, 0]));
        assert_eq!(lates(&[1, 2, 3, 5, 4]), (1, vec![1], vec![1]));
        assert_eq!(lates(&[1, 3, 2, 5, 4]), (2, vec![1, 1], vec![1, 1]));
        assert_eq!(lates(&[2, 3, 4, 5, 1]), (1, vec![4], vec![4]));
        assert_eq!(lates(&[1, 4, 2, 5, 3]), (2, vec![1, 3], vec![1, 1]));
        assert_eq!(lates(&[1, 3, 4]), (0, vec![], vec![]));
    }

    #[test]
    fn far_back_is_said_to_be_far_back() {
        let after = |n: u32| lates(&(1..=n).chain([0]).collect::<Vec<_>>());
        assert_eq!(after(64), (1, vec![64], vec![64]));
        assert_eq!(after(65), (1, vec![65], vec![64]));
        assert_eq!(after(1000), (1, vec![DEPTH + 1], vec![DEPTH]));
        // The packet that overtook has left the window, and all numbers that are still in it are lower.
        let (_, extents, degrees) = lates(&[vec![200], (0..100).collect()].concat());
        assert_eq!((extents[63], extents[64], extents[99]), (64, DEPTH + 1, DEPTH + 1));
        assert!(degrees[1..].iter().all(|d| *d == 0));
    }

    #[test]
    fn many_flows_together() {
        let mut sum = Reordering::default();
        for numbers in [[1, 4, 2, 3, 5], [2, 3, 4, 5, 1]] {
            let mut order = FlowOrder::default();
            numbers.into_iter().for_each(|n| sum.count(order.arrive(n)));
        }
        assert_eq!(sum.extents().collect::<Vec<_>>(), [(1, 1), (2, 1), (4, 1)]);
        assert_eq!([0, 1, 2, 4, 5].map(|n| sum.n_reordered(n)), [3, 2, 1, 1, 0]);
        assert!((sum.mean_extent() - 7.0 / 3.0).abs() < 1e-9);
        let mut copy = Reordering::default();
        let (extents, degrees) = sum.texts();
        copy.add_extents(&extents).unwrap();
        copy.add_degrees(&degrees).unwrap();
        assert_eq!(copy, sum);
        copy.merge(&sum);
        assert_eq!(copy.packets(), 6);
        assert!(copy.add_extents("70:1").is_err() && copy.add_degrees("1").is_err());
    }

    /// The same, computed from all earlier arrivals.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Naive {
        reordered: u64,
        sequences: u64,
        duplicates: u64,
        lost: u64,
    }

    /// Extents and degrees by their definitions.
    fn naive_lates(numbers: &[u32]) -> (Vec<usize>, Vec<usize>) {
        let mut once = Vec::new();
        let (mut extents, mut degrees) = (Vec::new(), Vec::new());
        for number in numbers {
            if once.contains(number) {
                continue;
            }
            if let Some(first) = once.iter().position(|m| m > number) {
                extents.push((once.len() - first).min(DEPTH + 1));
                degrees.push(once.iter().rev().take_while(|m| *m > number).count().min(DEPTH));
            }
            once.push(*number);
        }
        (extents, degrees)
    }

    fn naive(numbers: &[u32]) -> Naive {
        let mut n = Naive::default();
        let mut seen = HashSet::new();
        let mut previous_late = false;
        for (i, number) in numbers.iter().enumerate() {
            if !seen.insert(*number) {
                n.duplicates += 1;
                continue;
            }
            let late = numbers[..i].iter().any(|m| m > number);
            n.reordered += u64::from(late);
            n.sequences += u64::from(late && !previous_late);
            previous_late = late;
        }
        if let (Some(a), Some(b)) = (numbers.iter().min(), numbers.iter().max()) {
            n.lost = u64::from(b - a) + 1 - seen.len() as u64;
        }
        n
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Random numbers near each other, in any order, with repetitions and gaps.
        #[test]
        fn is_naive(base in 0u32..1000, numbers in prop::collection::vec(0u32..60, 1..120)) {
            let numbers: Vec<u32> = numbers.into_iter().map(|n| base + n).collect();
            let order = run(numbers.iter().copied());
            let got = Naive { reordered: order.reordered, sequences: order.sequences, duplicates: order.duplicates, lost: order.lost() };
            prop_assert_eq!(got, naive(&numbers));
            let (_, extents, degrees) = lates(&numbers);
            prop_assert_eq!((extents, degrees), naive_lates(&numbers));
        }

        /// A long flow with swaps and losses, as a network makes them.
        #[test]
        fn is_naive_over_long_flows(
            swaps in prop::collection::vec((0usize..900, 1usize..100), 0..60),
            losses in prop::collection::vec(0usize..900, 0..60),
        ) {
            let mut numbers: Vec<u32> = (0..1000).collect();
            for (at, by) in swaps {
                let moved = numbers.remove(at);
                numbers.insert(at + by, moved);
            }
            for at in losses {
                numbers.remove(at.min(numbers.len() - 1));
            }
            let order = run(numbers.iter().copied());
            let reference = naive(&numbers);
            prop_assert_eq!((order.reordered, order.sequences, order.lost()), (reference.reordered, reference.sequences, reference.lost));
            let (_, extents, degrees) = lates(&numbers);
            prop_assert_eq!((extents, degrees), naive_lates(&numbers));
        }
    }
}
