//! A router's worker on a thread of a crew, and what routers have used.

use crate::stall::Stall;
use crate::worker::Worker;
use locks::IgnorePoison;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What a router has used, on all threads.
#[derive(Debug, Default)]
pub struct Usage {
    pub(super) threads: Box<[Arc<Used>]>,
    pub(super) stall: Arc<Mutex<Stall>>,
}

/// The same on one thread, which alone writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Used {
    cycles: AtomicU64,
    runs: AtomicU64,
}

impl Used {
    pub(super) fn charge(&self, cycles: u64) {
        let add = |sum: &AtomicU64, n| sum.store(sum.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.cycles, cycles);
        add(&self.runs, 1);
    }
}

impl Usage {
    pub(super) fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self { threads: (0..threads).map(|_| Arc::default()).collect(), stall: Arc::default() })
    }
    /// Cycles of the processor.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.threads.iter().map(|used| used.cycles.load(Ordering::Relaxed)).sum()
    }
    /// Its runs that did not end in time.
    #[must_use]
    pub fn stall(&self) -> Stall {
        self.stall.lock().ignore_poison().clone()
    }
    /// How often it ran.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.threads.iter().map(|used| used.runs.load(Ordering::Relaxed)).sum()
    }
}

/// A router's worker on a thread of a crew.
// What every turn uses comes first.
#[repr(C, align(64))]
pub(super) struct Guest {
    pub(super) used: Arc<Used>,
    pub(super) share: u64,
    /// It is among those that poll.
    pub(super) polls: bool,
    /// It is among those that wait for descriptors of their own.
    pub(super) waits: bool,
    /// The time for which it is in the queue of timers.
    pub(super) timer: Option<u64>,
    /// Whose memory its turns use.
    pub(super) account: accounts::Entry,
    pub(super) worker: Worker,
}
