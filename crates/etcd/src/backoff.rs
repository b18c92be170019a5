//! The waiting time before the next attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Waiting times that double from the first to the longest, each shortened by up to a half at random, so that
/// the nodes of a cluster do not all come back at the same moment.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
    count: u64,
    keys: RandomState,
}

impl Backoff {
    /// From the first waiting time to the longest.
    #[must_use]
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first, count: 0, keys: RandomState::new() }
    }
    /// An attempt succeeded: the next waiting time is the first again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
    /// How long to wait now.
    pub fn wait(&mut self) -> Duration {
        let full = self.next.min(self.most);
        self.next = (full * 2).min(self.most);
        self.count = self.count.wrapping_add(1);
        // A keyed hash of a counter: random enough to spread attempts, and it needs no random number
        // generator.
        let share = self.keys.hash_one(self.count) % 512;
        full - full.mul_f64(share as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_most_and_starts_again() {
        let (first, most) = (Duration::from_millis(100), Duration::from_millis(500));
        let mut backoff = Backoff::new(first, most);
        for full in [100, 200, 400, 500, 500] {
            let (wait, full) = (backoff.wait(), Duration::from_millis(full));
            assert!(wait <= full && wait >= full / 2, "{wait:?} of {full:?}");
        }
        backoff.reset();
        assert!(backoff.wait() <= first);
    }
}
