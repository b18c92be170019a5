//! A measured number.

use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The median of several samples, with the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The median; of an even number of samples the mean of the two in the middle.
    pub median: f64,
    /// The smallest sample.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Figure {
    /// Of these samples; `None`: there is none.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let (least, most) = (*samples.first()?, *samples.last()?);
        let middle = samples.len() / 2;
        let median = match samples.len() % 2 {
            0 => f64::midpoint(samples[middle - 1], samples[middle]),
            _ => samples[middle],
        };
        Some(Self { median, least, most })
    }

    /// The same number in another unit. The order of least and most stays if the function rises.
    #[must_use]
    pub fn map(self, convert: impl Fn(f64) -> f64) -> Self {
        let (a, b) = (convert(self.least), convert(self.most));
        Self { median: convert(self.median), least: a.min(b), most: a.max(b) }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"median": self.median, "least": self.least, "most": self.most})
    }
}

/// Calls something that does `count` of what is measured at a time, again and again for as long as a sample
/// takes; nanoseconds for one, of each sample.
pub(crate) fn nanoseconds_each(
    samples: usize,
    sample: Duration,
    count: usize,
    mut work: impl FnMut(),
) -> Option<Figure> {
    // Once beforehand: pages, caches, the processor's clock.
    work();
    let one = |work: &mut dyn FnMut()| {
        let (began, mut times) = (Instant::now(), 0u32);
        loop {
            work();
            times += 1;
            let took = began.elapsed();
            if took >= sample {
                return took.as_nanos() as f64 / (f64::from(times) * count as f64);
            }
        }
    };
    Figure::of((0..samples).map(|_| one(&mut work)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Figure::of(vec![]), None);
        assert_eq!(Figure::of(vec![3.0, 1.0, 9.0]), Some(Figure { median: 3.0, least: 1.0, most: 9.0 }));
        let four = Figure::of(vec![4.0, 1.0, 2.0, 9.0]).unwrap();
        assert_eq!(four, Figure { median: 3.0, least: 1.0, most: 9.0 });
        assert_eq!(four.map(|n| 36.0 / n), Figure { median: 12.0, least: 4.0, most: 36.0 });
    }

    #[test]
    fn the_time_of_one_is_that_of_all_by_their_number() {
        let wait = Duration::from_millis(4);
        let mut calls = 0;
        let figure = nanoseconds_each(3, Duration::from_millis(8), 4, || {
            calls += 1;
            std::thread::sleep(wait);
        });
        // A sleep is never shorter.
        assert!(figure.is_some_and(|figure| figure.least >= 1e6), "{figure:?}");
        assert!((4..=7).contains(&calls), "{calls}");
    }
}
