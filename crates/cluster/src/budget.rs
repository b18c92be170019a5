//! The limit of direct traffic to one output node: a token bucket that refills at R/N (RouteBricks, §3.2).
//!
//! A packet may pass while there are any tokens, so the last one can overdraw: in any time `t`, at most
//! `rate * t + depth + one packet` pass, whatever the packets' sizes, and large packets are not at a
//! disadvantage. Flowlets that are on the direct path already may overdraw it by another depth.

/// The longest packet that is counted with its real length; longer ones count as this.
pub const MAX_BYTES: u32 = 1 << 20;

/// Tokens for one output node. Counted in billionths of a bit, so nothing is lost to rounding.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    nano_bits: i64,
    seen_ns: u64,
}

/// The parameters that all budgets of a balancer share.
#[derive(Clone, Copy, Debug)]
pub struct Refill {
    rate_bps: u64,
    burst_ns: u64,
}

impl Refill {
    /// `rate_bps`, of which `burst_ns` can be saved up. Rates and bursts are limited to what the counters can
    /// hold: their product is at most 2^60 billionths of a bit, 1.15 Tbps for a millisecond.
    #[must_use]
    pub fn new(rate_bps: u64, burst_ns: u64) -> Self {
        let rate_bps = rate_bps.min(1 << 50);
        Self { rate_bps, burst_ns: burst_ns.min((1 << 60) / rate_bps.max(1)) }
    }
    /// The rate.
    #[must_use]
    pub const fn rate_bps(&self) -> u64 {
        self.rate_bps
    }
    /// What can be saved up, in bits.
    #[must_use]
    pub const fn depth_bits(&self) -> u64 {
        self.depth() as u64 / 1_000_000_000
    }
    const fn depth(&self) -> i64 {
        (self.rate_bps * self.burst_ns) as i64
    }
}

impl Budget {
    /// Full, at `now_ns`.
    #[must_use]
    pub const fn full(refill: &Refill, now_ns: u64) -> Self {
        Self { nano_bits: refill.depth(), seen_ns: now_ns }
    }
    /// Whether anything is left. A clock that goes back refills nothing.
    #[inline]
    pub fn allows(&mut self, refill: &Refill, now_ns: u64) -> bool {
        self.fill(refill, now_ns);
        self.nano_bits > 0
    }
    /// Whether the debt is less than what can be saved up.
    #[inline]
    pub fn may_overdraw(&mut self, refill: &Refill, now_ns: u64) -> bool {
        self.fill(refill, now_ns);
        self.nano_bits > -refill.depth()
    }
    #[inline]
    fn fill(&mut self, refill: &Refill, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.seen_ns);
        if elapsed_ns > 0 {
            self.seen_ns = now_ns;
            // From the deepest debt to full takes twice the burst and one packet.
            if elapsed_ns >= refill.burst_ns.saturating_mul(2) && self.nano_bits >= -refill.depth() {
                self.nano_bits = refill.depth();
            } else {
                let more =
                    i64::try_from(u128::from(elapsed_ns) * u128::from(refill.rate_bps)).unwrap_or(i64::MAX);
                self.nano_bits = self.nano_bits.saturating_add(more).min(refill.depth());
            }
        }
    }
    /// Takes a packet's tokens, allowed or not; the debt is one depth and one packet at most.
    #[inline]
    pub fn take(&mut self, refill: &Refill, bytes: u32) {
        let cost = i64::from(bytes.min(MAX_BYTES)) * 8_000_000_000;
        self.nano_bits = self.nano_bits.max(-refill.depth()) - cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refills_at_its_rate_and_saves_up_its_depth() {
        let refill = Refill::new(8_000_000, 1_000_000); // a byte a microsecond, 1,000 bytes deep
        assert_eq!(refill.depth_bits(), 8000);
        let mut budget = Budget::full(&refill, 0);
        assert!(budget.allows(&refill, 0));
        budget.take(&refill, 1000);
        assert!(!budget.allows(&refill, 0));
        assert!(budget.allows(&refill, 1));
        budget.take(&refill, 500);
        assert!(!budget.allows(&refill, 499_000));
        assert!(budget.allows(&refill, 501_000));
        // An hour later there is no more than the depth.
        assert!(budget.allows(&refill, 3_600_000_000_000));
        budget.take(&refill, 1001);
        assert!(!budget.allows(&refill, 3_600_000_000_000));
        // Back in time: nothing.
        assert!(!budget.allows(&refill, 5));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let refill = Refill::new(u64::MAX, u64::MAX);
        let mut budget = Budget::full(&refill, 0);
        for now in [0, 1, u64::MAX] {
            budget.take(&refill, u32::MAX);
            let _ = budget.allows(&refill, now);
        }
    }
}
