//! What is common to all elements that record: whether they do now, and how many packets wait in the elements
//! of the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Whether packets are recorded, and the packets in each element that lets packets wait. These are counted
/// whenever a source emits a batch: between two runs of all tasks, queues are often empty.
#[derive(Debug)]
pub(crate) struct Recording {
    on: AtomicBool,
    now: Box<[AtomicI64]>,
    sums: Box<[AtomicU64]>,
    times: AtomicU64,
}

impl Recording {
    /// For so many elements.
    pub(crate) fn new(elements: usize) -> Arc<Self> {
        let now = (0..elements).map(|_| AtomicI64::new(0)).collect();
        let sums = (0..elements).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { on: AtomicBool::new(false), now, sums, times: AtomicU64::new(0) })
    }
    /// Begins or ends.
    pub(crate) fn set_on(&self, on: bool) {
        self.on.store(on, Relaxed);
    }
    /// Whether packets are recorded now.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }
    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.now.len()
    }
    /// So many packets wait in an element.
    pub(crate) fn set_waiting(&self, element: usize, packets: usize) {
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
    /// Packets that wait in an element, on average.
    pub(crate) fn waiting(&self, element: usize) -> usize {
        let times = self.times.load(Relaxed).max(1);
        ((self.sums[element].load(Relaxed) + times / 2) / times) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_the_times_at_which_sources_emit() {
        let recording = Recording::new(2);
        recording.set_waiting(1, 10);
        recording.look();
        recording.passed(0, 1, 20);
        recording.look();
        assert_eq!((recording.waiting(0), recording.waiting(1)), (0, 20));
    }
}
