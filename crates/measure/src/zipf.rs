//! Elephants and mice: which flow the next frame belongs to, by Zipf's law. The flow of rank k (from 1) has a
//! share of the frames in proportion to 1 / k^s.

use crate::rng::Rng;
use crate::{Bad, bad};

/// The largest exponent; with it the first flow has more than 99.9 % of the frames.
pub const MOST_SKEW: f64 = 10.0;

/// A place of the table: this flow, or with the rest of the probability another one.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// How probable the place's own flow is, of 2^32.
    own: u32,
    other: u32,
}

/// Draws flows. Each draw takes constant time, and 8 bytes of memory for each flow (the alias method: Walker
/// 1977, with the table of Vose 1991).
#[derive(Clone, Debug)]
pub struct Zipf {
    places: Box<[Place]>,
    rng: Rng,
}

/// Reads an exponent: 0 (none is preferred) to [`MOST_SKEW`].
///
/// # Errors
/// It is no such number.
pub fn skew(text: &str) -> Result<f64, Bad> {
    match text.trim().parse::<f64>() {
        Ok(skew) if (0.0..=MOST_SKEW).contains(&skew) => Ok(skew),
        _ => bad(format!("'{text}' is no exponent of Zipf's law: 0 to {MOST_SKEW}, such as 1 or 1.2")),
    }
}

impl Zipf {
    /// Draws among flows of these ranks, which begin at 1, with an exponent. The same seed makes the same
    /// draws.
    #[must_use]
    pub fn new(ranks: impl Iterator<Item = u32>, exponent: f64, seed: u64) -> Self {
        Self::weighted(ranks.map(|rank| f64::from(rank.max(1)).powf(-exponent)).collect(), seed)
    }

    /// Draws by shares, of any sum above 0.
    #[must_use]
    pub fn weighted(mut shares: Vec<f64>, seed: u64) -> Self {
        let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        shares.iter_mut().for_each(|share| *share /= mean);
        let mut places: Vec<Place> =
            (0..shares.len()).map(|n| Place { own: u32::MAX, other: n as u32 }).collect();
        // What a flow has below one place is filled up by one that has more.
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..shares.len()).partition(|n| shares.get(*n).is_some_and(|share| *share < 1.0));
        while let (Some(less), Some(more)) = (small.pop(), large.pop()) {
            let (Some(share), Some(place)) = (shares.get(less).copied(), places.get_mut(less)) else { break };
            *place = Place { own: (share * f64::from(u32::MAX)) as u32, other: more as u32 };
            if let Some(rest) = shares.get_mut(more) {
                *rest -= 1.0 - share;
                if *rest < 1.0 { small.push(more) } else { large.push(more) }
            }
        }
        Self { places: places.into(), rng: Rng::new(seed) }
    }

    /// The place of the next flow among the ranks.
    #[inline]
    pub fn draw(&mut self) -> usize {
        let number = self.rng.number();
        let at = (((number >> 32) * self.places.len() as u64) >> 32) as usize;
        match self.places.get(at) {
            Some(place) if number as u32 > place.own => place.other as usize,
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(flows: u32, exponent: f64, draws: usize) -> Vec<usize> {
        let mut zipf = Zipf::new(1..=flows, exponent, 7);
        let mut counts = vec![0; flows as usize];
        (0..draws).for_each(|_| counts[zipf.draw()] += 1);
        counts
    }

    /// Pearson's chi-squared statistic, as multiples of its standard deviation from its mean. With a fixed
    /// seed the draws are always the same.
    fn deviation(flows: u32, exponent: f64) -> f64 {
        let draws = 200_000 * flows as usize / 10;
        let shares: Vec<f64> = (1..=flows).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let all: f64 = shares.iter().sum();
        let found = counts(flows, exponent, draws);
        let statistic: f64 = (found.iter().zip(&shares))
            .map(|(n, share)| (*n as f64 - draws as f64 * share / all).powi(2) / (draws as f64 * share / all))
            .sum();
        let degrees = f64::from(flows - 1);
        (statistic - degrees) / (2.0 * degrees).sqrt()
    }

    #[test]
    fn shares_are_those_of_zipfs_law() {
        for exponent in [0.0, 0.8, 1.0, 1.5] {
            let off = deviation(100, exponent);
            assert!(off.abs() < 4.0, "exponent {exponent}: {off} standard deviations");
        }
        // The test can tell exponents apart.
        let found = counts(100, 1.0, 100_000);
        let share = |rank: f64| 100_000.0 / rank / (1..=100).map(|k| 1.0 / f64::from(k)).sum::<f64>();
        assert!(
            (found[0] as f64 / share(1.0) - 1.0).abs() < 0.03
                && (found[9] as f64 / share(10.0) - 1.0).abs() < 0.1
        );
        assert!(found[0] > 9 * found[9], "{found:?}");
    }

    #[test]
    fn many_flows_and_few_ones() {
        assert_eq!(counts(1, 1.0, 10), [10]);
        let found = counts(1 << 20, 1.1, 100_000);
        assert!(found[0] > 5000 && found.iter().filter(|n| **n > 0).count() > 5000);
        assert_eq!(Zipf::new(std::iter::empty(), 1.0, 1).draw(), 0);
        // Each second flow, for the second of two workers.
        let mut half = Zipf::new((2..=100).step_by(2), 1.0, 1);
        let first = (0..10_000).filter(|_| half.draw() == 0).count() as f64;
        let expected = 10_000.0 / (1..=50).map(|k| 1.0 / f64::from(k)).sum::<f64>();
        assert!((first / expected - 1.0).abs() < 0.1, "{first} {expected}");
    }

    #[test]
    fn the_same_seed_makes_the_same_draws() {
        let draws = |seed| {
            let mut zipf = Zipf::new(1..=1000, 1.0, seed);
            (0..100).map(|_| zipf.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draws(3), draws(3));
        assert_ne!(draws(3), draws(4));
        assert!(skew("1.2").is_ok() && skew("0").is_ok());
        assert!(skew("-1").is_err() && skew("11").is_err() && skew("NaN").is_err() && skew("").is_err());
    }
}
