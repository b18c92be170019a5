//! Click's rate estimate: a moving average over milliseconds with a weight of 1/16, in fixed point.

/// The recent rate in events per second, with `SCALE` bits of fraction in the average per millisecond.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rate<const SCALE: u32> {
    average: i64,
    total: u64,
    epoch_ms: u64,
}

const WEIGHT_SHIFT: u32 = 4;
/// After this many milliseconds without packets the average is zero.
const FORGOTTEN_MS: u64 = 100;

impl<const SCALE: u32> Rate<SCALE> {
    /// Counts `n` events.
    #[inline]
    pub(crate) fn add(&mut self, n: u64, now_ns: u64) {
        let now_ms = now_ns / 1_000_000;
        if now_ms != self.epoch_ms {
            self.turn(now_ms);
        }
        self.total += n;
    }
    fn turn(&mut self, now_ms: u64) {
        self.sample(self.total);
        let silent = now_ms.saturating_sub(self.epoch_ms).saturating_sub(1);
        if silent >= FORGOTTEN_MS {
            self.average = 0;
        } else {
            (0..silent).for_each(|_| self.sample(0));
        }
        (self.total, self.epoch_ms) = (0, now_ms);
    }
    fn sample(&mut self, n: u64) {
        let scaled = i64::try_from(n << SCALE).unwrap_or(i64::MAX >> 1);
        self.average += (scaled - self.average + (1 << (WEIGHT_SHIFT - 1))) >> WEIGHT_SHIFT;
    }
    /// The rate per second, in fixed point with `SCALE` bits of fraction.
    pub(crate) fn per_second(&mut self, now_ns: u64) -> u64 {
        self.add(0, now_ns);
        u64::try_from(self.average).unwrap_or(0).saturating_mul(1000)
    }
    /// Takes over the estimate of another replica's predecessor.
    pub(crate) fn take(&mut self, old: &mut Self) {
        *self = std::mem::take(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_settles_at_its_rate() {
        let mut rate = Rate::<10>::default();
        for ms in 1..1000u64 {
            rate.add(5, ms * 1_000_000);
        }
        let per_second = rate.per_second(1_000_000_000) as f64 / 1024.0;
        assert!((4950.0..=5050.0).contains(&per_second), "{per_second}");
        assert_eq!(rate.per_second(2_000_000_000), 0);
    }
}
