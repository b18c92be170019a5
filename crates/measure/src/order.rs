//! Loss, duplicates and order within a flow, from the sequence numbers in the order of their arrival.
//!
//! Two measures of order:
//!
//! * A *reordered packet* (RFC 4737 section 3.3) arrives after one with a higher number.
//! * A *reordered sequence* (RouteBricks section 6.2) is a stretch of reordered packets of a flow that arrive one after the
//!   other: `p1 p4 p2 p3 p5` has two reordered packets in one reordered sequence.
//!
//! A packet that arrives again is a duplicate and not reordered, as RFC 4737 has it. Duplicates are known among the 64
//! numbers below the highest; further back they pass for reordered packets.

/// What a packet is to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Higher than all before; so many numbers were skipped.
    Ahead(u64),
    /// Reordered.
    Late {
        /// How far below the next number that was expected.
        distance: u64,
        /// Whether it begins a reordered sequence.
        begins: bool,
        /// How many numbers below the lowest one so far it is: so many more were sent than was known.
        before_first: u64,
    },
    /// It has been here before.
    Duplicate,
}

/// Where sequence numbers begin to be counted, so that there is room below the first that was seen.
const BASE: u64 = 1 << 32;
const WINDOW: u64 = 64;

/// One flow.
#[derive(Clone, Debug, Default)]
pub struct FlowOrder {
    /// The lowest number seen, counted without wrapping.
    first: u64,
    /// One above the highest seen; 0 before the first packet.
    next: u64,
    /// Which of the 64 numbers below `next` have been seen; the highest in bit 0.
    window: u64,
    /// Packets that are no duplicates.
    pub received: u64,
    /// Packets that have been here before.
    pub duplicates: u64,
    /// Reordered packets.
    pub reordered: u64,
    /// Reordered sequences.
    pub sequences: u64,
    /// The farthest that a reordered packet was behind.
    pub max_distance: u64,
    late: bool,
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
    /// The lowest and the highest number seen, counted without wrapping from 2^32 up; `None` before the first packet.
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
        self.received += 1;
        self.reordered += 1;
        self.max_distance = self.max_distance.max(distance);
        let begins = !self.late;
        self.late = true;
        self.sequences += u64::from(begins);
        Arrival::Late { distance, begins, before_first }
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
        // Two stretches, apart in time.
        assert_eq!(run([1, 3, 2, 5, 4, 6]).sequences, 2);
        assert_eq!(run(0..100).reordered, 0);
    }

    #[test]
    fn loss_and_duplicates() {
        let order = run([0, 1, 3, 3, 7]);
        assert_eq!((order.lost(), order.duplicates, order.received), (4, 1, 4));
        // What was sent before the first packet that was seen shows when one of them arrives.
        let mut order = run([5]);
        assert_eq!(order.arrive(2), Arrival::Late { distance: 4, begins: true, before_first: 3 });
        assert_eq!((order.sent(), order.lost()), (4, 2));
    }

    #[test]
    fn numbers_wrap() {
        let order = run([u32::MAX - 1, u32::MAX, 0, 2, 1]);
        assert_eq!((order.lost(), order.reordered, order.received), (0, 1, 5));
        let order = run([0, u32::MAX]);
        assert_eq!((order.sent(), order.reordered), (2, 1));
    }

    /// The same by looking at everything that arrived before.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Naive {
        reordered: u64,
        sequences: u64,
        duplicates: u64,
        lost: u64,
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

        /// Any numbers near each other, in any order, repeated and missing as they fall.
        #[test]
        fn is_naive(base in 0u32..1000, numbers in prop::collection::vec(0u32..60, 1..120)) {
            let numbers: Vec<u32> = numbers.into_iter().map(|n| base + n).collect();
            let order = run(numbers.iter().copied());
            let got = Naive { reordered: order.reordered, sequences: order.sequences, duplicates: order.duplicates, lost: order.lost() };
            prop_assert_eq!(got, naive(&numbers));
        }

        /// A long flow with swaps and losses, as a network makes them.
        #[test]
        fn is_naive_over_long_flows(swaps in prop::collection::vec((0usize..900, 1usize..40), 0..60), losses in prop::collection::vec(0usize..900, 0..60)) {
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
        }
    }
}
