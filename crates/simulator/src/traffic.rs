//! The offered traffic: flows of heavy-tailed sizes, frames of all lengths. Which output they go to is in
//! [`measure::matrix`].

use measure::rng::Rng;
use measure::sizes::Sizes;

/// Exponentially distributed.
#[inline]
pub(crate) fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln() * mean
}

/// How many packets a flow has: bounded Pareto.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSizes {
    /// The exponent of the tail; a smaller exponent means a heavier tail.
    pub alpha: f64,
    /// The fewest packets.
    pub least: u32,
    /// The most.
    pub most: u32,
}

impl Default for FlowSizes {
    /// Alpha 1.2, 2 to 100,000 packets: 11 on average, but half of all packets belong to flows of hundreds of
    /// packets or more.
    fn default() -> Self {
        Self { alpha: 1.2, least: 2, most: 100_000 }
    }
}

impl FlowSizes {
    pub(crate) fn draw(&self, rng: &mut Rng) -> u32 {
        let (least, most) = (f64::from(self.least), f64::from(self.most));
        let tail = 1.0 - (least / most).powf(self.alpha);
        let size = least / (1.0 - rng.unit() * tail).powf(1.0 / self.alpha);
        (size as u32).clamp(self.least, self.most)
    }
    /// The mean of the continuous distribution.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let (a, l, h) = (self.alpha, f64::from(self.least), f64::from(self.most));
        if self.least == self.most {
            return l;
        }
        l.powf(a) / (1.0 - (l / h).powf(a)) * a / (a - 1.0) * (l.powf(1.0 - a) - h.powf(1.0 - a))
    }
}

/// Draws the length of each packet on the wire in bytes, independently of the others.
#[derive(Clone, Debug)]
pub(crate) struct Lengths(Vec<u16>);

impl Lengths {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let round = match sizes {
            Sizes::Fixed(_) => 1,
            // Sizes of a range are equally likely: a large sample of them is taken instead.
            Sizes::Range(a, b) => (b - a + 1) * 4,
            Sizes::Mix(mix) => mix.iter().map(|m| m.1 as usize).sum(),
        };
        let mut source = sizes.source(1);
        let mut lengths: Vec<u16> =
            (0..round.max(1)).map(|_| (source.size() + measure::rate::OVERHEAD) as u16).collect();
        if let Sizes::Range(a, b) = sizes {
            lengths = (*a..=*b).map(|size| (size + measure::rate::OVERHEAD) as u16).collect();
        }
        Self(lengths)
    }
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u16 {
        self.0[rng.below(self.0.len() as u64) as usize]
    }
    /// The longest.
    pub(crate) fn longest(&self) -> f64 {
        self.0.iter().copied().max().map_or(1.0, f64::from)
    }
    /// The mean, and the mean of the squares divided by it: packets of this one length would give a random
    /// sum of bytes with the same variance.
    pub(crate) fn moments(&self) -> (f64, f64) {
        let n = self.0.len() as f64;
        let mean = self.0.iter().map(|b| f64::from(*b)).sum::<f64>() / n;
        let square = self.0.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>() / n;
        (mean, square / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_heavy_tailed() {
        let (sizes, mut rng) = (FlowSizes::default(), Rng::new(5));
        let mut all: Vec<u32> = (0..200_000).map(|_| sizes.draw(&mut rng)).collect();
        all.sort_unstable();
        let total: u64 = all.iter().map(|n| u64::from(*n)).sum();
        let mean = total as f64 / all.len() as f64;
        // Rounded down, half a packet below the continuous mean.
        assert!((mean - sizes.mean()).abs() < 2.0, "{mean} {}", sizes.mean());
        let top: u64 = all[all.len() * 99 / 100..].iter().map(|n| u64::from(*n)).sum();
        assert!(
            top * 5 > total * 2 && all[all.len() / 2] <= 4,
            "{top} of {total}, median {}",
            all[all.len() / 2]
        );
    }

    #[test]
    fn lengths_have_the_mean_of_their_mix() {
        let (mean, noisy) = Lengths::new(&Sizes::parse("imix").unwrap()).moments();
        assert!((mean - 382.0).abs() < 1.0 && noisy > mean, "{mean} {noisy}");
        let mut rng = Rng::new(0);
        let range = Lengths::new(&Sizes::Range(60, 63));
        assert!((0..100).all(|_| (84..=87).contains(&range.draw(&mut rng))));
    }
}
