//! The time that elements see: nanoseconds since the epoch, from the machine's clock or simulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where simulated time starts, as in Click's driver: 1,000,000,000 seconds after the epoch.
pub const SIMULATION_START_NS: u64 = 1_000_000_000_000_000_000;

/// How many pairs of readings of the wall clock and the monotonic clock a real clock takes at first.
const PAIRS: usize = 16;

/// A clock that all workers of a router share.
#[derive(Clone, Debug)]
pub struct Clock(TimeSource);

#[derive(Clone, Debug)]
enum TimeSource {
    /// Wall-clock time at the start plus monotonic time since: never steps back.
    Real {
        start: Instant,
        epoch_ns: u64,
    },
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn real() -> Self {
        // Both clocks at one moment: of several pairs of readings, the closest. The clocks of processes that
        // compare their times (a generator and a sink) differ only by this distance.
        let pair = || {
            let before = Instant::now();
            let wall = SystemTime::now();
            let apart = before.elapsed();
            (apart, before + apart / 2, wall)
        };
        let (_, start, wall) = (0..PAIRS).map(|_| pair()).min_by_key(|p| p.0).unwrap_or_else(pair);
        let epoch_ns = wall.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Self(TimeSource::Real { start, epoch_ns })
    }
    /// A clock that moves only by [`Clock::advance_to`].
    #[must_use]
    pub fn simulated() -> Self {
        Self(TimeSource::Simulated(Arc::new(AtomicU64::new(SIMULATION_START_NS))))
    }
    /// Whether time is simulated.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, TimeSource::Simulated(_))
    }
    /// Now, in nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            TimeSource::Real { start, epoch_ns } => epoch_ns + start.elapsed().as_nanos() as u64,
            TimeSource::Simulated(t) => t.load(Ordering::Relaxed),
        }
    }
    /// Moves simulated time forward; does nothing to real time, or backwards.
    pub fn advance_to(&self, ns: u64) {
        if let TimeSource::Simulated(t) = &self.0 {
            t.fetch_max(ns, Ordering::Relaxed);
        }
    }
}
