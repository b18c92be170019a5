//! Numbers at indices, which all workers read and write without a lock: memory is taken a piece at a time,
//! when an index in it is used first, up to a limit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many numbers a piece holds: half a megabyte.
const PIECE: usize = 1 << 16;
/// The most numbers: a gigabyte.
pub(in crate::measure) const MOST: usize = 1 << 27;

/// The numbers; each is 0 at first.
pub(in crate::measure) struct Slots {
    pieces: Box<[OnceLock<Box<[AtomicU64]>>]>,
    limit: usize,
}

impl Slots {
    /// Room for `limit` numbers, at most [`MOST`].
    pub(in crate::measure) fn new(limit: usize) -> Self {
        let limit = limit.min(MOST);
        Self { pieces: (0..limit.div_ceil(PIECE)).map(|_| OnceLock::new()).collect(), limit }
    }
    /// Whether the index is below the limit.
    pub(in crate::measure) fn holds(&self, index: usize) -> bool {
        index < self.limit
    }
    /// The number at an index; `None` beyond the limit.
    pub(in crate::measure) fn at(&self, index: usize) -> Option<&AtomicU64> {
        if index >= self.limit {
            return None;
        }
        let piece = self.pieces.get(index / PIECE)?;
        piece.get_or_init(|| (0..PIECE).map(|_| AtomicU64::new(0)).collect()).get(index % PIECE)
    }
    /// The number at an index; 0 if the index has not been used.
    pub(in crate::measure) fn get(&self, index: usize) -> u64 {
        let number = self.pieces.get(index / PIECE).and_then(|p| p.get()).and_then(|p| p.get(index % PIECE));
        number.map_or(0, |n| n.load(Ordering::Relaxed))
    }
    /// Takes the memory of all numbers now, so that no packet waits for it.
    pub(in crate::measure) fn fill(&self) {
        for index in (0..self.limit).step_by(PIECE) {
            self.at(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_up_to_the_limit() {
        let slots = Slots::new(PIECE + 3);
        assert!(slots.at(PIECE + 3).is_none());
        assert_eq!((slots.get(PIECE + 2), slots.get(usize::MAX)), (0, 0));
        slots.at(PIECE + 2).unwrap().store(7, Ordering::Relaxed);
        assert_eq!((slots.get(PIECE + 2), slots.get(PIECE + 1), slots.get(0)), (7, 0, 0));
        assert!(slots.pieces[0].get().is_none(), "memory that nobody uses");
        slots.fill();
        assert!(slots.pieces[0].get().is_some());
        assert!(Slots::new(usize::MAX).at(MOST).is_none());
        assert!(Slots::new(0).at(0).is_none());
    }
}
