//! The anti-replay window of sequence numbers.

/// The sequence numbers that have been used: the latest, and a bit for each of the 64 up to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) latest: u64,
    seen: u64,
}

impl Window {
    /// Whether a number was used already or is too old.
    pub(super) fn has(&self, number: u64) -> bool {
        if number > self.latest || self.seen == 0 {
            return false;
        }
        let behind = self.latest - number;
        behind >= 64 || self.seen >> behind & 1 == 1
    }
    /// Marks a number as used; returns whether it was new.
    pub(super) fn take(&mut self, number: u64) -> bool {
        if self.has(number) {
            return false;
        }
        if number > self.latest || self.seen == 0 {
            let ahead = number.saturating_sub(self.latest);
            self.seen = if ahead < 64 { self.seen << ahead } else { 0 } | 1;
            self.latest = number;
        } else {
            self.seen |= 1 << (self.latest - number);
        }
        true
    }
}
