//! Collects full batches, so that a crypto device gets larger ones.

use crate::prelude::*;
use dpdk::crypto::MAX_JOBS;

/// Smaller batches mean that the load is low: then no packets wait.
const FULL: usize = 32;

/// Waiting packets, in the order of arrival; fewer than a device takes at a time.
///
/// Packets wait while full batches follow each other: until another one would exceed the limit, until a short
/// one comes, or until none came between two runs of the element's task, which is in the run queue as long as
/// packets wait.
#[derive(Default)]
pub(in crate::ipsec) struct Hold {
    waiting: Batch,
    grown: bool,
}

impl Hold {
    /// Whether no packets wait.
    #[inline]
    pub(in crate::ipsec) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a batch. Returns the packets to be processed now, in order; the first batch may be empty, and the
    /// second is empty unless both together are too long.
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

    /// A run of the task: returns packets that have waited long enough.
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

    /// All waiting packets.
    pub(in crate::ipsec) fn take(&mut self) -> Batch {
        self.waiting.take()
    }

    /// Takes over the packets of the element that a hot swap replaces.
    pub(in crate::ipsec) fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.waiting.append(&mut old.waiting);
        if !self.waiting.is_empty() {
            cx.reschedule_here();
        }
    }
}
