//! Axes and their marks.

/// Axes reach this far, and distinguish values that differ by its inverse.
pub const FARTHEST: f64 = 1e100;

/// The value nearest to this that an axis can reach.
#[must_use]
pub fn bounded(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(-FARTHEST, FARTHEST) }
}

/// An axis with marks.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) label: String,
    low: f64,
    high: f64,
    log: bool,
    /// Marks are words: none is left out, unless there is no room for all.
    pub(crate) words: bool,
    pub(crate) marks: Vec<(f64, String)>,
}

/// A number as a mark; one with many digits has an exponent.
fn number(value: f64) -> String {
    let plain = format!("{value}");
    if plain.len() > 8 { format!("{value:e}") } else { plain }
}

impl Axis {
    /// A linear axis from 0, or from `low` if that is below, with marks at round numbers.
    #[must_use]
    pub fn linear(label: &str, low: f64, high: f64) -> Self {
        let (low, high) = (bounded(low).min(0.0), bounded(high));
        let high = if high - low > 1.0 / FARTHEST { high } else { low + (low.abs() / 1e9).max(1.0) };
        let rough = (high - low) / 6.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        // The first mark at or below the lowest value, so that 0 has one.
        let low = (low / step).floor() * step;
        let high = (high / step).ceil() * step;
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let count = ((high - low) / step).round() as usize;
        let marks = (0..=count).map(|i| low + i as f64 * step);
        let text = |at: f64| {
            let plain = format!("{at:.digits$}");
            if plain.len() > 9 { format!("{at:e}") } else { plain }
        };
        let marks = marks.map(|at| (at, text(at))).collect();
        Self { label: label.to_owned(), low, high, log: false, words: false, marks }
    }

    /// A logarithmic axis over whole decades.
    #[must_use]
    pub fn decades(label: &str, low: f64, high: f64) -> Self {
        let low = bounded(low).max(1e-12).log10().floor() as i32;
        let high = (bounded(high).max(1e-12).log10().ceil() as i32).max(low + 1);
        let marks = (low..=high).map(|d| 10_f64.powi(d)).map(|at| (at, number(at))).collect();
        let of = |decade| 10_f64.powi(decade);
        Self { label: label.to_owned(), low: of(low), high: of(high), log: true, words: false, marks }
    }

    /// A logarithmic axis over powers of two.
    #[must_use]
    pub fn powers(label: &str, low: u32, high: u32) -> Self {
        let (low, high) =
            (low.max(1).ilog2(), high.max(2).checked_next_power_of_two().map_or(31, u32::ilog2));
        let high = high.max(low + 1);
        let marks = (low..=high).map(|p| 1_u64 << p).map(|at| (at as f64, at.to_string())).collect();
        let of = |power| (1_u64 << power) as f64;
        Self { label: label.to_owned(), low: of(low), high: of(high), log: true, words: false, marks }
    }

    /// An axis with words at 0, 1, 2 and so on.
    #[must_use]
    pub fn words(label: &str, words: &[String]) -> Self {
        let marks = words.iter().enumerate().map(|(at, word)| (at as f64, word.clone())).collect();
        let high = words.len().max(1) as f64 - 0.5;
        Self { label: label.to_owned(), low: -0.5, high, log: false, words: true, marks }
    }

    /// The position of a value on the axis, from 0 to 1; values beyond an end are placed at that end.
    #[must_use]
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let part = if self.log {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if part.is_finite() { part } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(axis: Axis) -> String {
        axis.marks.into_iter().map(|m| m.1).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn axes_have_round_marks_and_hold_their_values() {
        assert_eq!(marks(Axis::linear("", 0.0, 1.1)), "0.0 0.2 0.4 0.6 0.8 1.0 1.2");
        assert_eq!(marks(Axis::linear("", 0.0, 240.0)), "0 50 100 150 200 250");
        assert_eq!(marks(Axis::linear("", -3.0, 240.0)), "-50 0 50 100 150 200 250");
        assert_eq!(marks(Axis::decades("", 0.02, 30.0)), "0.01 0.1 1 10 100");
        assert_eq!(marks(Axis::powers("", 4, 2048)), "4 8 16 32 64 128 256 512 1024 2048");
        assert_eq!(marks(Axis::words("", &["a".to_owned(), "b".to_owned()])), "a b");
        for axis in [
            Axis::linear("", 0.0, 0.0),
            Axis::decades("", 0.0, 0.0),
            Axis::powers("", 0, 0),
            Axis::powers("", u32::MAX, u32::MAX),
            Axis::words("", &[]),
            Axis::decades("", f64::INFINITY, f64::NEG_INFINITY),
            Axis::linear("", f64::NAN, f64::INFINITY),
        ] {
            for value in [0.0, 1e-30, 7.0, f64::INFINITY, -5.0] {
                assert!((0.0..=1.0).contains(&axis.at(value)), "{value}");
            }
        }
    }

    #[test]
    fn words_stand_at_equal_distances_from_each_other_and_the_ends() {
        let axis = Axis::words("", &["a".to_owned(), "b".to_owned()]);
        assert_eq!((axis.at(0.0), axis.at(1.0)), (0.25, 0.75));
    }
}
