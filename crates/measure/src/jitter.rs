//! Jitter: how latency differs from a frame to the next.
//!
//! IPDV (RFC 3393) is the difference of the one-way delays of two frames. The pairs here are a frame and the
//! measured frame that arrived just before it at the same thread of the sink, whatever its flow. From the
//! same differences RFC 3550 (section 6.4.1) makes its interarrival jitter: J += (|D| - J) / 16 with each
//! frame.

use crate::{Bad, bad};

/// The jitter at a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    /// The latency of the frame before.
    last: Option<u64>,
    pairs: u64,
    sum_ns: u64,
    max_ns: u64,
    smoothed_ns: f64,
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
                self.max_ns = self.max_ns.max(difference);
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

    /// The mean of the absolute values of IPDV, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.pairs.max(1) as f64
    }

    /// The largest absolute value of IPDV, in nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
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
        self.max_ns = self.max_ns.max(other.max_ns);
        self.smoothed_ns = self.smoothed_ns.max(other.smoothed_ns);
    }

    /// As text without white space.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}:{}:{}:{}", self.pairs, self.sum_ns, self.max_ns, self.smoothed_ns)
    }

    /// Adds what [`Jitter::text`] wrote.
    ///
    /// # Errors
    /// The text has another form.
    pub fn add_text(&mut self, text: &str) -> Result<(), Bad> {
        let parts: Vec<&str> = text.split(':').collect();
        let number = |at: usize| parts.get(at).and_then(|part| part.parse::<u64>().ok());
        let smoothed = parts.get(3).and_then(|part| part.parse::<f64>().ok()).filter(|ns| ns.is_finite());
        match (number(0), number(1), number(2), smoothed, parts.len()) {
            (Some(pairs), Some(sum_ns), Some(max_ns), Some(smoothed_ns), 4) => {
                self.merge(&Self { last: None, pairs, sum_ns, max_ns, smoothed_ns });
                Ok(())
            }
            _ => bad(format!("'{text}' is no jitter")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn frames_together_count_as_if_they_came_alone() {
        let (mut together, mut alone) = (Jitter::default(), Jitter::default());
        for (latency, n) in [(500, 3), (900, 7), (100, 2), (100, 40), (2000, 1)] {
            together.record(latency, n);
            (0..n).for_each(|_| alone.record(latency, 1));
        }
        assert_eq!(
            (together.pairs(), together.max_ns(), together.sum_ns),
            (alone.pairs(), alone.max_ns(), alone.sum_ns)
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
        sum.add_text("1:4:4:0.5").unwrap();
        assert_eq!((sum.pairs(), sum.mean_ns(), sum.max_ns(), sum.smoothed_ns()), (2, 10.0, 16, 1.0));
        for text in ["", "1:2:3", "1:2:3:x", "1:2:3:4:5", "-1:2:3:4", "1:2:3:NaN"] {
            assert!(sum.add_text(text).is_err(), "{text}");
        }
    }
}
