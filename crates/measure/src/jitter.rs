//! Jitter: how latency differs from a frame to the next.
//!
//! IPDV (RFC 3393, RFC 5481 section 3.1) is the difference of the one-way delays of two frames. The pairs
//! here are a frame and the measured frame that arrived just before it at the same thread of the sink,
//! whatever its flow; it is positive if the later one took longer. RFC 8219 (section 7.3.2) asks for the
//! least, the median and the most of it. From the same differences RFC 3550 (section 6.4.1) makes its
//! interarrival jitter: J += (|D| - J) / 16 with each frame.
//!
//! Differences are kept in histograms of the precision of [`Latency`]: quantiles are exact to a thousandth of
//! their value, and to the nanosecond below 2048 ns. The least and the most are exact.

use crate::latency::Latency;
use crate::{Bad, bad};

/// The jitter at a sink.
#[derive(Clone, Debug, Default)]
pub struct Jitter {
    /// The latency of the frame before.
    last: Option<u64>,
    pairs: u64,
    sum_ns: u64,
    longer: Side,
    shorter: Side,
    smoothed_ns: f64,
}

/// The differences of one sign that are not 0.
#[derive(Clone, Debug, Default)]
struct Side {
    all: Latency,
    max_ns: u64,
}

impl Side {
    fn record(&mut self, difference: u64) {
        self.all.record(difference, 1);
        self.max_ns = self.max_ns.max(difference);
    }

    fn merge(&mut self, other: &Self) {
        self.all.merge(&other.all);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many of each, from the least on.
    fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.all.buckets().map(|(ns, n)| (ns.min(self.max_ns), n))
    }

    fn text(&self) -> String {
        format!("{}/{}", self.max_ns, self.all.text())
    }

    fn read(text: Option<&&str>, buckets: Option<&&str>) -> Option<Self> {
        let mut side = Self { max_ns: text?.parse().ok()?, ..Self::default() };
        side.all.add_text(buckets?).ok()?;
        Some(side)
    }
}

/// What a frame changes of the interarrival jitter: RFC 3550.
const GAIN: f64 = 1.0 / 16.0;

impl Jitter {
    /// `n` frames arrive, one after the other, with this latency.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let mut same = n - 1;
        match self.last.replace(latency_ns) {
            None => {}
            Some(last) => {
                let difference = last.abs_diff(latency_ns);
                self.pairs += 1;
                self.sum_ns = self.sum_ns.saturating_add(difference);
                if latency_ns > last {
                    self.longer.record(difference);
                } else if latency_ns < last {
                    self.shorter.record(difference);
                }
                self.smoothed_ns += (difference as f64 - self.smoothed_ns) * GAIN;
            }
        }
        self.pairs += same;
        // After so many it is less than a nanosecond.
        same = same.min(1000);
        if same > 0 {
            self.smoothed_ns *= (1.0 - GAIN).powi(same as i32);
        }
    }

    /// Pairs of frames.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Pairs of frames with the same latency.
    fn same(&self) -> u64 {
        self.pairs.saturating_sub(self.longer.all.count() + self.shorter.all.count())
    }

    /// The mean of the absolute values of IPDV, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.pairs.max(1) as f64
    }

    /// The largest absolute value of IPDV, in nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.longer.max_ns.max(self.shorter.max_ns)
    }

    /// The absolute value that this share of the pairs (0 to 1) does not exceed, in nanoseconds.
    #[must_use]
    pub fn absolute_ns(&self, share: f64) -> u64 {
        let mut all: Vec<(u64, u64)> = self.longer.buckets().chain(self.shorter.buckets()).collect();
        all.push((0, self.same()));
        all.sort_unstable();
        at_share(all.into_iter(), self.pairs, share).unwrap_or(0)
    }

    /// The IPDV, with its sign, that this share of the pairs (0 to 1) does not exceed, in nanoseconds: the
    /// least of all with 0.
    #[must_use]
    pub fn signed_ns(&self, share: f64) -> i64 {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let mut shorter: Vec<(i64, u64)> = self.shorter.buckets().map(|(ns, n)| (-signed(ns), n)).collect();
        shorter.reverse();
        let longer = self.longer.buckets().map(|(ns, n)| (signed(ns), n));
        let all = shorter.into_iter().chain([(0, self.same())]).chain(longer);
        at_share(all, self.pairs, share).unwrap_or(0)
    }

    /// The interarrival jitter of RFC 3550 after the last frame, in nanoseconds; of several sinks the
    /// largest.
    #[must_use]
    pub fn smoothed_ns(&self) -> f64 {
        self.smoothed_ns
    }

    /// Adds that of another sink.
    pub fn merge(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.longer.merge(&other.longer);
        self.shorter.merge(&other.shorter);
        self.smoothed_ns = self.smoothed_ns.max(other.smoothed_ns);
    }

    /// As text without white space.
    #[must_use]
    pub fn text(&self) -> String {
        let (longer, shorter) = (self.longer.text(), self.shorter.text());
        format!("{}/{}/{}/{longer}/{shorter}", self.pairs, self.sum_ns, self.smoothed_ns)
    }

    /// Adds what [`Jitter::text`] wrote.
    ///
    /// # Errors
    /// The text has another form.
    pub fn add_text(&mut self, text: &str) -> Result<(), Bad> {
        let parts: Vec<&str> = text.split('/').collect();
        let number = |at: usize| parts.get(at).and_then(|part| part.parse::<u64>().ok());
        let smoothed = parts.get(2).and_then(|part| part.parse::<f64>().ok()).filter(|ns| ns.is_finite());
        let side = |at: usize| Side::read(parts.get(at), parts.get(at + 1));
        match (number(0), number(1), smoothed, side(3), side(5), parts.len()) {
            (Some(pairs), Some(sum_ns), Some(smoothed_ns), Some(longer), Some(shorter), 7) => {
                self.merge(&Self { last: None, pairs, sum_ns, longer, shorter, smoothed_ns });
                Ok(())
            }
            _ => bad(format!("'{text}' is no jitter")),
        }
    }
}

/// The value that a share of so many does not exceed: the first one of an ascending list of values, each with
/// how many there are, up to which there are enough.
fn at_share<T>(all: impl Iterator<Item = (T, u64)>, of: u64, share: f64) -> Option<T> {
    let wanted = ((share.clamp(0.0, 1.0) * of as f64).ceil() as u64).max(1);
    let (mut so_far, mut last) = (0, None);
    for (value, n) in all.filter(|(_, n)| *n > 0) {
        so_far += n;
        last = Some(value);
        if so_far >= wanted {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::LONGEST_NS;

    #[test]
    fn differences_are_those_of_frames_one_after_the_other() {
        let mut jitter = Jitter::default();
        jitter.record(1000, 1);
        assert_eq!((jitter.pairs(), jitter.mean_ns()), (0, 0.0));
        jitter.record(1000, 2);
        jitter.record(1160, 1);
        jitter.record(1000, 1);
        assert_eq!((jitter.pairs(), jitter.mean_ns(), jitter.max_ns()), (4, 80.0, 160));
        // 0, 0, 160 / 16, and (160 - 10) / 16 more.
        assert!((jitter.smoothed_ns() - (10.0 + 150.0 / 16.0)).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_those_of_a_known_pattern() {
        let mut jitter = Jitter::default();
        assert_eq!((jitter.signed_ns(0.5), jitter.absolute_ns(0.999)), (0, 0));
        // 1000 pairs: 300 times 40 ns longer and as often shorter, once 1 ms shorter, 399 times the same.
        jitter.record(2_000_000, 1);
        for _ in 0..300 {
            jitter.record(2_000_040, 1);
            jitter.record(2_000_000, 1);
        }
        jitter.record(2_000_000, 399);
        jitter.record(1_000_000, 1);
        assert_eq!(jitter.pairs(), 1000);
        // RFC 8219: the least, the median, the most.
        assert_eq!([0.0, 0.5, 1.0].map(|share| jitter.signed_ns(share)), [-1_000_000, 0, 40]);
        assert_eq!([0.301, 0.302, 0.7, 0.701].map(|share| jitter.signed_ns(share)), [-40, 0, 0, 40]);
        assert_eq!([0.399, 0.4, 0.999, 1.0].map(|share| jitter.absolute_ns(share)), [0, 40, 40, 1_000_000]);
        // What is far from 0 is known to a thousandth.
        for n in 1..=1999u64 {
            jitter.record(1_000_000 + (n % 2) * 777_777, 1);
        }
        let median = jitter.absolute_ns(0.5) as f64;
        assert!((median / 777_777.0 - 1.0).abs() < 0.001, "{median}");
        jitter.record(u64::MAX, 1);
        assert_eq!(jitter.max_ns(), u64::MAX - 1_777_777);
        assert!(jitter.signed_ns(1.0) >= LONGEST_NS as i64, "{}", jitter.signed_ns(1.0));
    }

    #[test]
    fn frames_together_count_as_if_they_came_alone() {
        let (mut together, mut alone) = (Jitter::default(), Jitter::default());
        for (latency, n) in [(500, 3), (900, 7), (100, 2), (100, 40), (2000, 1)] {
            together.record(latency, n);
            (0..n).for_each(|_| alone.record(latency, 1));
        }
        assert_eq!(
            (together.pairs(), together.max_ns(), together.sum_ns, together.signed_ns(0.5)),
            (alone.pairs(), alone.max_ns(), alone.sum_ns, alone.signed_ns(0.5))
        );
        assert!((together.smoothed_ns() - alone.smoothed_ns()).abs() < 1e-6);
        together.record(1, u64::MAX / 2);
        assert!(together.smoothed_ns() < 1e-6);
    }

    #[test]
    fn texts_keep_it() {
        let mut jitter = Jitter::default();
        jitter.record(5, 1);
        jitter.record(21, 1);
        let mut sum = Jitter::default();
        sum.add_text(&jitter.text()).unwrap();
        sum.add_text("1/4/0.5/0//4/4:1").unwrap();
        assert_eq!((sum.pairs(), sum.mean_ns(), sum.max_ns(), sum.smoothed_ns()), (2, 10.0, 16, 1.0));
        assert_eq!([0.0, 0.5, 1.0].map(|share| sum.signed_ns(share)), [-4, -4, 16]);
        for text in
            ["", "1/2/3", "1/2/x/0//0/", "1/2/3/0//0//", "-1/2/3/0//0/", "1/2/NaN/0//0/", "1/2/3/0/5/0/"]
        {
            assert!(sum.add_text(text).is_err(), "{text}");
        }
    }
}
