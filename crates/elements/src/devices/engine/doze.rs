//! Sleep until the device raises an interrupt, for devices that have no file descriptor that is readable
//! while packets wait.
//!
//! Asking the device and being told take longer than receiving a packet. So it is asked only when no packet
//! has come for a while, and a worker that is told looks again.

use dpdk::RxQueue;
use std::os::fd::RawFd;

/// For how long no packet has come before the device is asked, and how often what it has told is looked at.
const AFTER_NS: u64 = 2_000_000;

/// How the interrupts of the queues of a worker are used, if the device has them.
#[derive(Default)]
pub(super) struct Doze {
    /// Since when no packet has come; 0: one has just come.
    idle_ns: u64,
    /// Whether they are on.
    armed: bool,
    /// When what they have told was last looked at.
    heard_ns: u64,
    /// There are none.
    impossible: bool,
    /// Descriptors that are readable when they have been raised.
    interrupts: Vec<RawFd>,
}

impl Doze {
    /// For a device that may have interrupts, or has none.
    pub(super) fn new(possible: bool) -> Self {
        Self { impossible: !possible, ..Self::default() }
    }

    /// What is readable when packets have come.
    pub(super) fn interrupts(&self) -> &[RawFd] {
        &self.interrupts
    }

    /// No packet has come: whether the device has been asked to say when one does, and has not said so since.
    pub(super) fn lie_down(&mut self, queues: &mut [(u16, Option<RxQueue>)], now: u64) -> bool {
        if self.impossible {
            return false;
        }
        if self.idle_ns == 0 {
            self.idle_ns = now;
        }
        if now.saturating_sub(self.idle_ns) < AFTER_NS {
            return false;
        }
        if self.armed && now.saturating_sub(self.heard_ns) < AFTER_NS {
            return true;
        }
        self.heard_ns = now;
        // Some devices switch an interrupt off when they have raised it.
        let mut told = false;
        for (_, rx) in &*queues {
            told |= rx.as_ref().is_some_and(RxQueue::hear);
        }
        if self.armed && !told {
            return true;
        }
        self.interrupts.clear();
        for (_, rx) in queues {
            let fds = rx.as_mut().and_then(|rx| if rx.arm(true) { rx.wake_fds() } else { None });
            let Some(fds) = fds else {
                self.impossible = true;
                return false;
            };
            self.interrupts.extend(fds);
        }
        self.armed = true;
        // What came before is not announced: the next poll looks.
        false
    }

    /// Packets come: the device need not say so.
    #[inline]
    pub(super) fn wake(&mut self, queues: &mut [(u16, Option<RxQueue>)]) {
        if self.idle_ns != 0 {
            self.disarm(queues);
        }
    }

    #[cold]
    fn disarm(&mut self, queues: &mut [(u16, Option<RxQueue>)]) {
        if std::mem::take(&mut self.armed) {
            for rx in queues.iter_mut().filter_map(|(_, rx)| rx.as_mut()) {
                rx.arm(false);
                rx.hear();
            }
        }
        self.idle_ns = 0;
    }
}
