//! A token bucket: how many packets a rate allows by now.

/// Events at a rate, with a bound on how many may be saved up.
pub(crate) struct Pace {
    rate: u64,
    burst: u64,
    /// Billionths of an event.
    tokens: u128,
    last_ns: u64,
}

const ONE: u128 = 1_000_000_000;

impl Pace {
    /// `rate` events per second, at most `burst` saved up, `saved` of them now.
    pub(crate) fn new(rate: u64, burst: u64, saved: u64) -> Self {
        Self { rate, burst: burst.max(1), tokens: u128::from(saved) * ONE, last_ns: 0 }
    }
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }
    /// Changes the rate from now on.
    pub(crate) fn set_rate(&mut self, rate: u64, burst: u64, now_ns: u64) {
        self.refill(now_ns);
        (self.rate, self.burst) = (rate, burst.max(1));
        self.tokens = self.tokens.min(u128::from(self.burst) * ONE);
    }
    /// Forgets what was saved up, but for `saved` events.
    pub(crate) fn restart(&mut self, saved: u64, now_ns: u64) {
        self.tokens = u128::from(saved) * ONE;
        self.last_ns = now_ns;
    }
    fn refill(&mut self, now_ns: u64) {
        if self.last_ns != 0 {
            let passed = u128::from(now_ns.saturating_sub(self.last_ns));
            self.tokens = (self.tokens + passed * u128::from(self.rate)).min(u128::from(self.burst) * ONE);
        }
        self.last_ns = self.last_ns.max(now_ns);
    }
    /// Takes up to `most` events that are due at `now_ns`; returns how many.
    pub(crate) fn take(&mut self, most: usize, now_ns: u64) -> usize {
        self.refill(now_ns);
        let n = usize::try_from(self.tokens / ONE).unwrap_or(usize::MAX).min(most);
        self.tokens -= n as u128 * ONE;
        n
    }
    /// Nanoseconds from the last look until one event is due; `None` if that never comes.
    pub(crate) fn wait_ns(&self) -> Option<u64> {
        let missing = ONE.saturating_sub(self.tokens);
        (self.rate > 0).then(|| u64::try_from(missing.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_rate_and_the_bound() {
        let mut pace = Pace::new(10, 2, 1);
        assert_eq!(pace.take(9, 1_000_000_000), 1);
        assert_eq!(pace.wait_ns(), Some(100_000_000));
        assert_eq!(pace.take(9, 1_100_000_000), 1);
        assert_eq!(pace.take(9, 1_150_000_000), 0);
        assert_eq!(pace.wait_ns(), Some(50_000_000));
        assert_eq!(pace.take(9, 9_000_000_000), 2);
        pace.set_rate(0, 2, 9_000_000_000);
        assert_eq!(pace.wait_ns(), None);
    }
}
