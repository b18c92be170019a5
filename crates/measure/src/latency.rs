//! Latency in a histogram of constant relative precision: three digits from a nanosecond to 100 seconds.

use crate::{Bad, bad};
use hdrhistogram::Histogram;
use std::fmt::Write;

/// Latencies above this are counted as this value.
pub const LONGEST_NS: u64 = 100_000_000_000;
const DIGITS: u8 = 3;

/// Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency(Option<Histogram<u64>>);

impl Default for Latency {
    fn default() -> Self {
        // These bounds are valid; otherwise nothing would be recorded.
        Self(Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok())
    }
}

impl Latency {
    /// Counts `n` packets with this latency; less than a nanosecond counts as one.
    #[inline]
    pub fn record(&mut self, ns: u64, n: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record_n(ns.clamp(1, LONGEST_NS), n);
        }
    }
    /// Removes all latencies.
    pub fn clear(&mut self) {
        if let Some(histogram) = &mut self.0 {
            histogram.reset();
        }
    }
    /// Adds the latencies of another.
    pub fn merge(&mut self, other: &Self) {
        if let (Some(ours), Some(theirs)) = (&mut self.0, &other.0) {
            // The bounds are the same.
            let _ = ours.add(theirs);
        }
    }
    /// How many packets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }
    /// The least, in nanoseconds; 0 without packets.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::min)
    }
    /// The most.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::max)
    }
    /// The mean.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.0.as_ref().map_or(0.0, Histogram::mean)
    }
    /// The standard deviation.
    #[must_use]
    pub fn stdev_ns(&self) -> f64 {
        self.0.as_ref().map_or(0.0, Histogram::stdev)
    }
    /// The latency that this share of the packets (0 to 1) does not exceed.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.0.as_ref().map_or(0, |h| h.value_at_quantile(share).min(h.max()))
    }
    /// Buckets that are not empty: the largest latency in each, and its packets.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().flat_map(Histogram::iter_recorded).map(|b| (b.value_iterated_to(), b.count_at_value()))
    }
    /// The buckets as text, `NS:PACKETS` separated by commas.
    #[must_use]
    pub fn text(&self) -> String {
        self.buckets().fold(String::new(), |mut text, (ns, n)| {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}{ns}:{n}");
            text
        })
    }
    /// Adds what [`Latency::text`] wrote.
    ///
    /// # Errors
    /// The text has another form.
    pub fn add_text(&mut self, text: &str) -> Result<(), Bad> {
        for bucket in text.split(',').filter(|b| !b.is_empty()) {
            let number = |n: &str| n.parse::<u64>().ok();
            match bucket.split_once(':').and_then(|(ns, n)| number(ns).zip(number(n))) {
                Some((ns, n)) => self.record(ns, n),
                None => return bad(format!("'{bucket}' is no bucket of a histogram")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles() {
        let mut latency = Latency::default();
        for ns in 1..=1000 {
            latency.record(ns * 1000, 2);
        }
        assert_eq!((latency.count(), latency.min_ns()), (2000, 1000));
        for (share, ns) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let got = latency.quantile_ns(share) as f64;
            assert!((got / ns - 1.0).abs() < 0.002, "{share} {got}");
        }
        assert!((latency.mean_ns() / 500_500.0 - 1.0).abs() < 0.002);
        latency.record(u64::MAX, 1);
        latency.record(0, 1);
        assert!(latency.max_ns() >= LONGEST_NS && latency.min_ns() == 1);
        latency.clear();
        assert_eq!((latency.count(), latency.quantile_ns(0.5)), (0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn text_loses_nothing(values in prop::collection::vec((1u64..LONGEST_NS, 1u64..100), 0..50)) {
            let mut latency = Latency::default();
            values.iter().for_each(|(ns, n)| latency.record(*ns, *n));
            let mut copy = Latency::default();
            copy.add_text(&latency.text()).unwrap();
            prop_assert_eq!(copy.buckets().collect::<Vec<_>>(), latency.buckets().collect::<Vec<_>>());
            copy.merge(&latency);
            prop_assert_eq!(copy.count(), 2 * latency.count());
        }
    }

    #[test]
    fn other_texts_are_refused() {
        assert!(Latency::default().add_text("5").is_err() && Latency::default().add_text("5:x").is_err());
    }
}
