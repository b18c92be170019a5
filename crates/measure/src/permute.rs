//! All numbers below a bound in a pseudorandom order, each once: a Feistel network over the next power of
//! four, whose numbers that are too large are put through it again (Black and Rogaway, CT-RSA 2002).

use crate::rng::Rng;

/// Rounds of the network.
const ROUNDS: u64 = 6;

/// An order of the numbers below a bound.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u128,
    /// Bits of each half of a number.
    half: u32,
    seed: u64,
}

impl Permutation {
    /// The numbers below `n`; the same seed gives the same order.
    #[must_use]
    pub fn new(n: u128, seed: u64) -> Self {
        let bits = u128::BITS - n.saturating_sub(1).leading_zeros();
        Self { n, half: bits.div_ceil(2).max(1), seed }
    }

    /// The number at a place; places are counted modulo the bound.
    #[must_use]
    pub fn at(&self, place: u128) -> u128 {
        if self.n <= 1 {
            return 0;
        }
        let mut number = place % self.n;
        // Each number is on a cycle with one that is small enough: its own place.
        loop {
            number = self.mixed(number);
            if number < self.n {
                return number;
            }
        }
    }

    fn mixed(&self, number: u128) -> u128 {
        let mask = u64::MAX >> (64 - self.half);
        let (mut left, mut right) = ((number >> self.half) as u64 & mask, number as u64 & mask);
        for round in 0..ROUNDS {
            let key = Rng::new(self.seed ^ round << 56).number();
            (left, right) = (right, left ^ (Rng::new(right ^ key).number() & mask));
        }
        u128::from(left) << self.half | u128::from(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_number_comes_once() {
        for n in [1, 2, 3, 4, 5, 16, 17, 1000, 65_537] {
            let order = Permutation::new(n, 7);
            let all: HashSet<u128> = (0..n).map(|place| order.at(place)).collect();
            assert_eq!(all.len() as u128, n);
            assert!(all.iter().all(|number| *number < n));
        }
        assert_eq!(Permutation::new(0, 1).at(5), 0);
    }

    #[test]
    fn the_order_looks_random_and_is_that_of_its_seed() {
        let n = 10_000u128;
        let (order, other) = (Permutation::new(n, 1), Permutation::new(n, 2));
        let rising = (1..n).filter(|place| order.at(*place) > order.at(place - 1)).count();
        assert!((4800..5200).contains(&rising), "{rising} of {n} are larger than the one before");
        let same = (0..n).filter(|place| order.at(*place) == other.at(*place)).count();
        assert!(same < 10, "{same} are at the same place");
        assert!((0..n).all(|place| order.at(place) == Permutation::new(n, 1).at(place)));
    }

    #[test]
    fn bounds_may_be_as_large_as_numbers_can_be() {
        let order = Permutation::new(u128::MAX, 3);
        let some: HashSet<u128> = (0..1000).map(|place| order.at(place)).collect();
        assert_eq!(some.len(), 1000);
        assert!(order.at(u128::MAX) < u128::MAX);
    }
}
