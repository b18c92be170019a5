//! Collects full batches, so that a crypto device gets larger ones.

use crate::prelude::*;
use dpdk::crypto::MAX_JOBS;

/// A smaller batch means that the load is low: nothing waits then.
const FULL: usize = 32;

/// What waits, in the order of arrival; less than a device takes at a time.
///
/// Packets wait while full batches follow each other: until there is no room for another one, a short one
/// comes, or none came between two runs of the element's task, which is in the run queue as long as something
/// waits.
#[derive(Default)]
pub(in crate::ipsec) struct Hold {
    waiting: Batch,
    grown: bool,
}

impl Hold {
    /// Whether nothing waits.
    #[inline]
    pub(in crate::ipsec) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a batch. What is to be processed now, in order; the first may be empty, the second is unless
    /// both together are too long.
    #[inline]
    pub(in crate::ipsec) fn add(&mut self, mut batch: Batch, cx: &mut Cx<'_>) -> [Batch; 2] {
        let (n, all) = (batch.len(), self.waiting.len() + batch.len());
        if all > MAX_JOBS {
            return [self.waiting.take(), batch];
        }
        if self.waiting.is_empty() {
            self.waiting = batch;
        } else {
            self.waiting.append(&mut batch);
            cx.recycle(batch);
        }
        if n < FULL || all + n > MAX_JOBS {
            return [self.waiting.take(), Batch::new()];
        }
        self.grown = true;
        cx.reschedule_here();
        [Batch::new(), Batch::new()]
    }

    /// A run of the task: what has waited long enough.
    #[inline]
    pub(in crate::ipsec) fn due(&mut self, cx: &mut Cx<'_>) -> Option<Batch> {
        if self.waiting.is_empty() {
            return None;
        }
        if std::mem::take(&mut self.grown) {
            cx.reschedule_here();
            return None;
        }
        Some(self.waiting.take())
    }

    /// All that waits.
    pub(in crate::ipsec) fn take(&mut self) -> Batch {
        self.waiting.take()
    }

    /// Goes on with what an element that a hot swap replaces holds.
    pub(in crate::ipsec) fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.waiting.append(&mut old.waiting);
        if !self.waiting.is_empty() {
            cx.reschedule_here();
        }
    }
}
