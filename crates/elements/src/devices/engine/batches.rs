//! Histograms of the batch sizes of a port, for each worker.

use crate::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Batches of 1, 2, 3 to 4, 5 to 8 ... packets; the last class has no upper limit.
const CLASSES: usize = 10;

/// The numbers of batches of all workers of one element, by size.
pub(in crate::devices) struct Batches(Vec<Arc<Sizes>>);

/// The same of one worker, which alone counts.
// Two cache lines: the processor fetches them together, and the next ones are another worker's.
#[derive(Default)]
#[repr(align(128))]
pub(in crate::devices) struct Sizes([AtomicU64; CLASSES]);

impl Batches {
    /// The counts of the element that is being configured; they are kept over a hot swap.
    pub(in crate::devices) fn of(cx: &mut ConfigCx<'_>) -> Arc<Self> {
        let workers = cx.workers();
        cx.shared(|| Self((0..workers).map(|_| Default::default()).collect()))
    }

    /// Those of a worker.
    pub(in crate::devices) fn of_worker(&self, worker: usize) -> Arc<Sizes> {
        self.0.get(worker).cloned().unwrap_or_default()
    }

    /// A line for each class that is not empty: the sizes, a tab, the number of batches.
    pub(in crate::devices) fn table(&self) -> String {
        let mut text = String::new();
        for class in 0..CLASSES {
            let n: u64 = self.0.iter().map(|sizes| sizes.0[class].load(Ordering::Relaxed)).sum();
            if n > 0 {
                text += &format!("{}\t{n}\n", label(class));
            }
        }
        text
    }
}

impl Sizes {
    /// Counts a batch of `n` packets, which must be at least one.
    #[inline]
    pub(in crate::devices) fn count(&self, n: usize) {
        let count = &self.0[class_of(n)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

#[inline]
fn class_of(n: usize) -> usize {
    (n.max(1).next_power_of_two().trailing_zeros() as usize).min(CLASSES - 1)
}

fn label(class: usize) -> String {
    let (last, first) = (1usize << class, (1usize << class) / 2 + 1);
    match class {
        0 | 1 => last.to_string(),
        _ if class == CLASSES - 1 => format!("{first}-"),
        _ => format!("{first}-{last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_sorted_by_size() {
        let batches = Batches(vec![Default::default(), Default::default()]);
        for (worker, n) in [(0, 1), (0, 2), (1, 3), (0, 4), (1, 5), (0, 32), (1, 33), (0, 257), (1, 5000)] {
            batches.of_worker(worker).count(n);
        }
        assert_eq!(batches.table(), "1\t1\n2\t1\n3-4\t2\n5-8\t1\n17-32\t1\n33-64\t1\n257-\t2\n");
    }
}
