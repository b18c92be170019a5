//! A token bucket: how much a rate allows by now.

/// Units (packets, bits) at a rate, with a bound on how many may be saved up.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: u64,
    burst: u64,
    /// Billionths of a unit.
    tokens: u128,
    /// Billionths of a unit that the bound took away.
    missed: u128,
    last_ns: u64,
}

const ONE: u128 = 1_000_000_000;

impl Pace {
    /// `rate` units per second, at most `burst` saved up, `saved` of them now.
    #[must_use]
    pub fn new(rate: u64, burst: u64, saved: u64) -> Self {
        Self { rate, burst: burst.max(1), tokens: u128::from(saved) * ONE, missed: 0, last_ns: 0 }
    }
    /// Units per second.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }
    /// Changes the rate from now on.
    pub fn set_rate(&mut self, rate: u64, burst: u64, now_ns: u64) {
        self.refill(now_ns);
        (self.rate, self.burst) = (rate, burst.max(1));
        self.tokens = self.tokens.min(u128::from(self.burst) * ONE);
    }
    /// Sets the number of units that are saved up to `saved`.
    pub fn restart(&mut self, saved: u64, now_ns: u64) {
        self.tokens = u128::from(saved) * ONE;
        self.missed = 0;
        self.last_ns = now_ns;
    }
    /// Adds the units that have become due until now. The first call only sets the clock.
    pub fn refill(&mut self, now_ns: u64) {
        if self.last_ns != 0 {
            let passed = u128::from(now_ns.saturating_sub(self.last_ns));
            let tokens = self.tokens + passed * u128::from(self.rate);
            self.tokens = tokens.min(u128::from(self.burst) * ONE);
            self.missed += tokens - self.tokens;
        }
        self.last_ns = self.last_ns.max(now_ns);
    }
    /// Takes up to `most` units that are due at `now_ns`; returns how many.
    pub fn take(&mut self, most: usize, now_ns: u64) -> usize {
        self.refill(now_ns);
        let n = usize::try_from(self.tokens / ONE).unwrap_or(usize::MAX).min(most);
        self.tokens -= n as u128 * ONE;
        n
    }
    /// Whole units that are due, as of the last [`Pace::refill`].
    #[must_use]
    pub fn due(&self) -> u64 {
        u64::try_from(self.tokens / ONE).unwrap_or(u64::MAX)
    }
    /// Takes `n` units; at least that many must be due ([`Pace::due`]).
    pub fn spend(&mut self, n: u64) {
        self.tokens = self.tokens.saturating_sub(u128::from(n) * ONE);
    }
    /// Nanoseconds from the last refill until one unit is due; `None` if that never comes.
    #[must_use]
    pub fn wait_ns(&self) -> Option<u64> {
        self.wait_for_ns(1)
    }
    /// Nanoseconds from the last refill until `n` units are due; `None` if that never comes.
    #[must_use]
    pub fn wait_for_ns(&self, n: u64) -> Option<u64> {
        let missing = (u128::from(n) * ONE).saturating_sub(self.tokens);
        (self.rate > 0).then(|| u64::try_from(missing.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX))
    }
    /// Units that were not taken in time and were lost because of the bound.
    #[must_use]
    pub fn missed(&self) -> u64 {
        u64::try_from(self.missed / ONE).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_rate_and_the_bound() {
        let mut pace = Pace::new(10, 2, 1);
        assert_eq!(pace.take(9, 1_000_000_000), 1);
        assert_eq!(pace.wait_ns(), Some(100_000_000));
        assert_eq!(pace.take(9, 1_100_000_000), 1);
        assert_eq!(pace.take(9, 1_150_000_000), 0);
        assert_eq!(pace.wait_ns(), Some(50_000_000));
        assert_eq!(pace.take(9, 9_000_000_000), 2);
        assert_eq!(pace.missed(), 77);
        pace.set_rate(0, 2, 9_000_000_000);
        assert_eq!(pace.wait_ns(), None);
    }

    #[test]
    fn units_of_different_worth() {
        let mut pace = Pace::new(8_000, 8_000, 0);
        pace.refill(1);
        assert_eq!((pace.due(), pace.wait_for_ns(672)), (0, Some(84_000_000)));
        pace.refill(84_000_001);
        assert_eq!(pace.due(), 672);
        pace.spend(672);
        assert_eq!(pace.wait_for_ns(8), Some(1_000_000));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whenever units are taken, none is lost or gained as long as the bound is not reached.
        #[test]
        fn exact_over_any_looks(rate in 1u64..50_000_000, steps in prop::collection::vec(1u64..1_000_000, 1..200)) {
            let mut pace = Pace::new(rate, u64::MAX >> 1, 0);
            let (mut now, mut taken) = (1, pace.take(usize::MAX, 1) as u128);
            for step in steps {
                now += step;
                taken += pace.take(usize::MAX, now) as u128;
            }
            prop_assert_eq!(taken, u128::from(now - 1) * u128::from(rate) / 1_000_000_000);
            prop_assert_eq!(pace.missed(), 0);
        }
    }
}
