//! The times that RecordTimestamp records and TimestampDiff takes.

use super::slots::{MOST, Slots};
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks a time that has been taken.
const TAKEN: u64 = 1;

/// The times of packets by their numbers, in nanoseconds since 1970; 0 is none.
pub(in crate::measure) struct Record {
    pub(in crate::measure) times: Slots,
    /// The number of the next packet, if packets have none.
    pub(in crate::measure) next: AtomicU64,
    pub(in crate::measure) net_order: bool,
}

/// Why there is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::measure) enum Missing {
    /// The number is larger than any that is recorded.
    TooLarge,
    /// The packet was not recorded.
    NotRecorded,
    /// The time was taken before.
    Taken,
}

impl Record {
    pub(in crate::measure) fn new(n: usize, dynamic: bool, net_order: bool) -> Self {
        let times = Slots::new(if dynamic { MOST } else { n });
        if !dynamic {
            times.fill();
        }
        Self { times, next: AtomicU64::new(0), net_order }
    }
    /// Takes the time of a packet, which then has none.
    pub(in crate::measure) fn take(&self, number: u64) -> Result<u64, Missing> {
        let index = usize::try_from(number).map_err(|_| Missing::TooLarge)?;
        if self.times.get(index) == 0 {
            // Nothing is there, so no memory is taken for it either.
            return Err(if self.times.holds(index) { Missing::NotRecorded } else { Missing::TooLarge });
        }
        let place = self.times.at(index).ok_or(Missing::TooLarge)?;
        match place.swap(TAKEN, Ordering::Relaxed) {
            TAKEN => Err(Missing::Taken),
            time => Ok(time),
        }
    }
}
