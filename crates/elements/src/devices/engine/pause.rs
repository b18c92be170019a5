//! Back-pressure: packets that would be dropped downstream, because queues are full, are left in the device
//! for a while. Also the least time from one poll to the next, if one is set.

use crate::prelude::*;

/// The shortest and the longest time for which packets are left in the device because the queues downstream
/// were full. In the longest, 10 Gb/s of the smallest packets fill a third of a receive queue.
const PAUSE_NS: std::ops::RangeInclusive<u64> = 1_000..=50_000;

/// Whether full queues downstream dropped the last packets of an element, and for how long it leaves others
/// in the device.
#[derive(Default)]
pub(in crate::devices) struct Pause {
    /// Packets that full queues have dropped, and packets that the element has emitted, at the last check.
    overflowed: u64,
    emitted: u64,
    /// For how long to leave packets in the device, and until when.
    pause_ns: u64,
    resume_ns: u64,
    /// The least time from one poll to the next; 0: none.
    pub(in crate::devices) interval_ns: u64,
    /// When the next poll may be.
    due_ns: u64,
}

impl Pause {
    /// Counts packets that have been emitted.
    #[inline]
    pub(in crate::devices) fn emitted(&mut self, packets: usize) {
        self.emitted += packets as u64;
    }

    /// Whether to leave packets in the device for now, because full queues downstream dropped most of the
    /// last ones.
    pub(in crate::devices) fn pauses(&mut self, cx: &mut Cx<'_>) -> bool {
        let (lost, emitted) = (cx.overflowed() - self.overflowed, self.emitted);
        if lost > 0 || emitted > 0 {
            (self.overflowed, self.emitted) = (cx.overflowed(), 0);
            if lost * 2 > emitted {
                self.pause_ns = (self.pause_ns * 2).clamp(*PAUSE_NS.start(), *PAUSE_NS.end());
                self.resume_ns = cx.now_ns() + self.pause_ns;
            } else {
                self.pause_ns /= 2;
            }
        }
        if self.resume_ns > 0 {
            if cx.now_ns() < self.resume_ns {
                return true;
            }
            self.resume_ns = 0;
        }
        if self.interval_ns > 0 {
            let now = cx.now_ns();
            // A clock that was set back must not stop the polls.
            if now < self.due_ns && self.due_ns - now <= self.interval_ns {
                return true;
            }
            self.due_ns = now.saturating_add(self.interval_ns);
        }
        false
    }
}
