//! How many packets wait in the elements of a configuration while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Packets in each element that lets packets wait, seen whenever a source emits a batch: between two runs of
/// all tasks, queues are often empty.
#[derive(Debug)]
pub(crate) struct Waiting {
    now: Box<[AtomicI64]>,
    sums: Box<[AtomicU64]>,
    times: AtomicU64,
}

impl Waiting {
    /// For so many elements.
    pub(crate) fn new(elements: usize) -> Arc<Self> {
        let now = (0..elements).map(|_| AtomicI64::new(0)).collect();
        let sums = (0..elements).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { now, sums, times: AtomicU64::new(0) })
    }
    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.now.len()
    }
    /// So many packets are in an element.
    pub(crate) fn set(&self, element: usize, packets: usize) {
        self.now[element].store(packets as i64, Relaxed);
    }
    /// Packets have gone from one element to another.
    pub(crate) fn passed(&self, from: usize, to: usize, packets: usize) {
        self.now[from].fetch_sub(packets as i64, Relaxed);
        self.now[to].fetch_add(packets as i64, Relaxed);
    }
    /// A source has emitted a batch.
    pub(crate) fn look(&self) {
        self.times.fetch_add(1, Relaxed);
        for (sum, now) in self.sums.iter().zip(&self.now) {
            sum.fetch_add(now.load(Relaxed).max(0) as u64, Relaxed);
        }
    }
    /// Packets in an element on average.
    pub(crate) fn mean(&self, element: usize) -> usize {
        let times = self.times.load(Relaxed).max(1);
        ((self.sums[element].load(Relaxed) + times / 2) / times) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_the_times_at_which_sources_emit() {
        let waiting = Waiting::new(2);
        waiting.set(1, 10);
        waiting.look();
        waiting.passed(0, 1, 20);
        waiting.look();
        assert_eq!((waiting.mean(0), waiting.mean(1)), (0, 20));
    }
}
