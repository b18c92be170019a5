//! Weighted round-robin: which of several outputs is next, so that each has its part of all frames at any
//! time.
//!
//! After any number of frames in which each output's part is a whole number, each output has had exactly that
//! many. In between, frames of an output are spread among those of the others, not sent one after the other.

use crate::{Bad, bad};

/// Parts are kept to nine decimals.
const UNIT: f64 = 1e9;

/// An output: its part, and how much of that is due.
#[derive(Clone, Copy, Debug)]
struct Place {
    part: i64,
    due: i64,
}

/// Chooses outputs one after the other.
#[derive(Clone, Debug)]
pub struct Interleave {
    places: Box<[Place]>,
    all: i64,
}

impl Interleave {
    /// Outputs with these parts, of any sum. Outputs of equal parts are chosen in turn.
    ///
    /// # Errors
    /// A part is below 0 or no number, or all are 0.
    pub fn new(parts: &[f64]) -> Result<Self, Bad> {
        let most = parts.iter().copied().fold(0.0, f64::max);
        if parts.iter().any(|part| !(0.0..=1e9).contains(part)) || most <= 0.0 {
            return bad("parts are numbers from 0 on, and one of them is above 0");
        }
        // Equal parts are equal, however they are rounded: a third is none in decimals.
        let equal = parts.iter().all(|part| *part == 0.0 || *part == most);
        let unit = if equal { 1.0 / most } else { UNIT / most.max(1.0) };
        let place = |part: &f64| Place { part: (part * unit).round() as i64, due: 0 };
        let places: Box<[Place]> = parts.iter().map(place).collect();
        let all = places.iter().map(|place| place.part).sum();
        Ok(Self { places, all })
    }

    /// The next output: that to which most is due.
    #[inline]
    pub fn draw(&mut self) -> usize {
        let (mut best, mut most) = (0, i64::MIN);
        for (at, place) in self.places.iter_mut().enumerate() {
            place.due += place.part;
            if place.due > most && place.part > 0 {
                (best, most) = (at, place.due);
            }
        }
        if let Some(place) = self.places.get_mut(best) {
            place.due -= self.all;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(parts: &[f64], frames: usize) -> Vec<usize> {
        let mut interleave = Interleave::new(parts).unwrap();
        let mut counts = vec![0; parts.len()];
        (0..frames).for_each(|_| counts[interleave.draw()] += 1);
        counts
    }

    #[test]
    fn each_output_has_exactly_its_part() {
        assert_eq!(counts(&[0.9, 0.1], 1000), [900, 100]);
        assert_eq!(counts(&[0.5, 0.0, 0.25], 300), [200, 0, 100]);
        assert_eq!(counts(&[1.0 / 3.0; 3], 3_000_000), [1_000_000; 3]);
        assert_eq!(counts(&[0.0, 0.125], 7), [0, 7]);
        assert_eq!(counts(&[0.3, 0.3, 0.4], 1_000_000), [300_000, 300_000, 400_000]);
        for bad in [&[][..], &[0.0], &[-0.5, 1.0], &[f64::NAN], &[f64::INFINITY]] {
            assert!(Interleave::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn frames_of_an_output_are_spread() {
        let mut interleave = Interleave::new(&[0.5, 0.25, 0.25]).unwrap();
        let order: Vec<usize> = (0..8).map(|_| interleave.draw()).collect();
        assert_eq!(order, [0, 1, 2, 0, 0, 1, 2, 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// At no time has an output had a whole round more or less than its part.
        #[test]
        fn no_output_is_ever_far_from_its_part(parts in prop::collection::vec(0u32..100, 1..9), frames in 0usize..2000) {
            prop_assume!(parts.iter().any(|part| *part > 0));
            let all: u32 = parts.iter().sum();
            let parts: Vec<f64> = parts.iter().map(|part| f64::from(*part) / f64::from(all)).collect();
            for (n, part) in counts(&parts, frames).iter().zip(&parts) {
                let off = *n as f64 - frames as f64 * part;
                prop_assert!(off.abs() < parts.len() as f64, "{off}");
                prop_assert!(*part > 0.0 || *n == 0);
            }
        }
    }
}
