//! Back-pressure: packets that would be dropped downstream, because queues are full, are left in the device
//! for a while.

use crate::prelude::*;

/// The shortest and the longest time for which packets are left in the device because the last ones found no
/// room further on. In the longest, 10 Gb/s of the smallest packets fill a third of a receive queue.
const PAUSE_NS: std::ops::RangeInclusive<u64> = 1_000..=50_000;

/// Whether the last packets of an element found room further on, and how long it leaves others in the device.
#[derive(Default)]
pub(in crate::devices) struct Pause {
    /// Packets that found no room, and how many the element has emitted, when last looked at.
    overflowed: u64,
    emitted: u64,
    /// How long to leave packets in the device, and until when.
    pause_ns: u64,
    resume_ns: u64,
}

impl Pause {
    /// So many packets have been emitted.
    #[inline]
    pub(in crate::devices) fn emitted(&mut self, packets: usize) {
        self.emitted += packets as u64;
    }

    /// Whether packets are to be left in the device for now, because most of the last ones found no room
    /// further on.
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
        false
    }
}
