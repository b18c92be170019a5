//! The load of a link: bits over a sliding window.
//!
//! Two windows are kept, the current one and the previous one. The previous one counts for the part that the
//! sliding window still covers, as if its bits had arrived evenly. This costs two numbers and no timer.

/// The length of the window: a power of two, so that no decision divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    shift: u32,
}

impl Window {
    /// The shortest window that is not shorter than `ns` (from 1 us to 8 s).
    #[must_use]
    pub fn at_least(ns: u64) -> Self {
        Self { shift: ns.clamp(1 << 10, 1 << 33).next_power_of_two().trailing_zeros() }
    }
    /// Its length.
    #[must_use]
    pub const fn ns(self) -> u64 {
        1 << self.shift
    }
    /// The number of bits in one window at a rate.
    #[must_use]
    pub fn bits(self, rate_bps: u64) -> u64 {
        u64::try_from((u128::from(rate_bps) << self.shift) / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

/// The load of one link.
#[derive(Clone, Debug, Default)]
pub struct Load {
    start_ns: u64,
    present: u64,
    before: u64,
}

impl Load {
    /// Bits were sent.
    #[inline]
    pub fn add(&mut self, window: Window, now_ns: u64, bits: u64) {
        self.roll(window, now_ns);
        self.present = self.present.saturating_add(bits);
    }
    /// Bits in the window that ends now.
    #[inline]
    #[must_use]
    pub fn bits(&self, window: Window, now_ns: u64) -> u64 {
        let age_ns = now_ns.saturating_sub(self.start_ns);
        let (all, part, end_ns) = if age_ns < window.ns() {
            (self.present, self.before, window.ns())
        } else {
            (0, self.present, window.ns() << 1)
        };
        let left_ns = end_ns.saturating_sub(age_ns);
        all.saturating_add(((u128::from(part) * u128::from(left_ns)) >> window.shift) as u64)
    }
    /// The same as a rate.
    #[must_use]
    pub fn rate_bps(&self, window: Window, now_ns: u64) -> u64 {
        let bits = self.bits(window, now_ns);
        u64::try_from((u128::from(bits) * 1_000_000_000) >> window.shift).unwrap_or(u64::MAX)
    }
    #[inline]
    fn roll(&mut self, window: Window, now_ns: u64) {
        let age_ns = now_ns.saturating_sub(self.start_ns);
        if age_ns >= window.ns() {
            (self.before, self.start_ns) = if age_ns < window.ns() << 1 {
                (self.present, self.start_ns + window.ns())
            } else {
                (0, now_ns)
            };
            self.present = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_rate_and_forgets() {
        let window = Window::at_least(1_000_000);
        assert_eq!(window.ns(), 1 << 20);
        let mut load = Load::default();
        // 1,000 bits each microsecond: 1 Gbps.
        let mut now = 7_000_000_000;
        for _ in 0..10_000 {
            now += 1000;
            load.add(window, now, 1000);
        }
        let rate = load.rate_bps(window, now);
        assert!((990_000_000..=1_010_000_000).contains(&rate), "{rate}");
        assert!(load.bits(window, now).abs_diff(window.bits(1_000_000_000)) <= window.bits(10_000_000));
        // Half a window later half is left, after two nothing.
        let half = load.bits(window, now + window.ns() / 2);
        assert!(half > window.bits(400_000_000) && half < window.bits(900_000_000), "{half}");
        assert_eq!(load.bits(window, now + 2 * window.ns()), 0);
        // Back in time: no underflow, and nothing is forgotten.
        assert!(load.bits(window, 3) >= load.bits(window, now));
    }
}
