//! The processor's time-stamp counter.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The least time over which the counter's speed is measured.
const LEAST: Duration = Duration::from_millis(20);

/// The time-stamp counter, in cycles of its constant rate. Not serializing: good for costs of some tens of
/// cycles and more.
#[inline]
#[must_use]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and Linux leaves it enabled in user space.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// How fast [`cycles`] counts, in cycles a second, against the system's clock since the first call, which
/// takes 20 ms.
#[must_use]
pub fn cycles_per_second() -> f64 {
    static FIRST: LazyLock<(Instant, u64)> = LazyLock::new(|| (Instant::now(), cycles()));
    let (began, at) = *FIRST;
    std::thread::sleep(LEAST.saturating_sub(began.elapsed()));
    cycles().wrapping_sub(at) as f64 / began.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no time-stamp counter")]
    fn processors_count_some_billions_a_second() {
        let rate = cycles_per_second();
        assert!((1e8..1e10).contains(&rate), "{rate}");
    }
}
