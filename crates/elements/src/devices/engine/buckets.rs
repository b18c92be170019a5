//! What the rebalancer asks of a table whose buckets it moves.

use super::indirection::{Indirection, Readings};

/// A table whose buckets the rebalancer moves.
pub(super) trait Buckets {
    /// The workers, by their places.
    fn workers(&self) -> &[usize];
    fn readings(&self) -> Readings;
    /// Grows when each bucket has other flows than before.
    fn key_version(&self) -> u64;
    /// Gives buckets to other workers: pairs of a bucket and a place.
    ///
    /// # Errors
    /// It cannot be done, and why.
    fn give(&self, changes: &[(usize, u16)]) -> Result<(), String>;
    /// In an interval workers have looked at so many packets.
    fn looked_at(&self, _packets: u64) {}
}

impl Buckets for Indirection {
    fn workers(&self) -> &[usize] {
        self.workers()
    }
    fn readings(&self) -> Readings {
        self.readings()
    }
    fn key_version(&self) -> u64 {
        self.key_version()
    }
    fn give(&self, changes: &[(usize, u16)]) -> Result<(), String> {
        self.set(changes);
        Ok(())
    }
}
