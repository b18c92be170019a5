//! Whether two sets of measurements differ by more than noise: the Mann-Whitney test (Mann and Whitney, 1947)
//! and the interval of Hodges and Lehmann (1963) that belongs to it. Nothing is assumed of how values are
//! distributed but that both sets are spread alike, so a few odd values do not matter.

/// With more values in both sets together, the distribution of ranks is taken as normal.
const EXACT: usize = 40;

/// How two sets differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// By which factor the values of the second set are larger: the median of all quotients.
    pub factor: f64,
    /// Between these it is, with 95 % confidence; none: there are too few values to say so.
    pub interval: Option<(f64, f64)>,
    /// How likely a difference like this or a larger one is by chance (two-sided Mann-Whitney test).
    pub p: f64,
}

/// Part of cases in which the interval may be wrong.
const WRONG: f64 = 0.05;

/// How `b` differs from `a`; none: one of them has no values, or has some that are not positive.
#[must_use]
pub fn difference(a: &[f64], b: &[f64]) -> Option<Difference> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|value| !value.is_finite() || *value <= 0.0) {
        return None;
    }
    let mut quotients: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| b / a)).collect();
    quotients.sort_by(f64::total_cmp);
    let pairs = quotients.len();
    let middle = |at: usize| quotients.get(at).copied().unwrap_or(f64::NAN);
    let factor = f64::midpoint(middle((pairs - 1) / 2), middle(pairs / 2));
    // In how many pairs the second is larger; half for equal ones.
    let larger = quotients
        .iter()
        .map(|q| {
            if *q > 1.0 {
                1.0
            } else if *q < 1.0 {
                0.0
            } else {
                0.5
            }
        })
        .sum::<f64>();
    let below = Below::new(a.len(), b.len());
    let extreme = larger.min(pairs as f64 - larger);
    let p = (2.0 * below.up_to(extreme)).min(1.0);
    // As many quotients at each end as chance puts there in half of the wrong cases.
    let cut = (0..=pairs / 2).take_while(|cut| 2.0 * below.up_to(*cut as f64) <= WRONG).count();
    let interval = (cut > 0).then(|| (middle(cut - 1), middle(pairs - cut)));
    Some(Difference { factor, interval, p })
}

/// The probability that the number of pairs is at most so many, where both sets are alike.
enum Below {
    /// The probability of each number.
    Exact(Vec<f64>),
    Normal {
        mean: f64,
        deviation: f64,
    },
}

impl Below {
    fn new(n: usize, m: usize) -> Self {
        if n + m > EXACT {
            let (n, m) = (n as f64, m as f64);
            return Self::Normal { mean: n * m / 2.0, deviation: (n * m * (n + m + 1.0) / 12.0).sqrt() };
        }
        // How many orders of i values of one set and j of the other have so many pairs: the largest of all is
        // of the one, with all j of the other below it, or of the other.
        let mut counts: Vec<Vec<Vec<f64>>> = vec![vec![vec![1.0]; m + 1]; n + 1];
        for i in 1..=n {
            for j in 1..=m {
                let mut sum = vec![0.0; i * j + 1];
                for (pairs, count) in counts[i - 1][j].iter().enumerate() {
                    sum[pairs + j] += count;
                }
                for (pairs, count) in counts[i][j - 1].iter().enumerate() {
                    sum[pairs] += count;
                }
                counts[i][j] = sum;
            }
        }
        let of = std::mem::take(&mut counts[n][m]);
        let all: f64 = of.iter().sum();
        Self::Exact(of.into_iter().map(|count| count / all).collect())
    }

    fn up_to(&self, pairs: f64) -> f64 {
        match self {
            Self::Exact(of) => of.iter().take(pairs.floor() as usize + 1).sum(),
            // With a correction for whole numbers.
            Self::Normal { mean, deviation } => below_normal((pairs + 0.5 - mean) / deviation),
        }
    }
}

/// The part of a normal distribution below a value (Abramowitz and Stegun, 26.2.17; error below 1e-7).
fn below_normal(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let above = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum;
    if z > 0.0 { 1.0 - above } else { above }
}

/// The median of those values that are numbers; of an even number of them, the mean of the two in the middle.
/// None: there are none.
#[must_use]
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn tables_of_the_test_are_met() {
        // All orders of three and three values: 20; no pair is larger in one of them.
        let apart = difference(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert!((apart.p - 0.1).abs() < 1e-12, "{apart:?}");
        assert_eq!(apart.interval, None, "no three values have 95 % confidence");
        // The critical values for 5 % (two-sided): 2 of 5 and 5, 5 of 6 and 6, 23 of 10 and 10.
        for (n, critical) in [(5, 2), (6, 5), (10, 23)] {
            let below = Below::new(n, n);
            assert!(2.0 * below.up_to(f64::from(critical)) <= 0.05, "{n}");
            assert!(2.0 * below.up_to(f64::from(critical + 1)) > 0.05, "{n}");
        }
        assert!(
            (below_normal(1.959_964) - 0.975).abs() < 1e-6 && (below_normal(-1.959_964) - 0.025).abs() < 1e-6
        );
        let (exact, Below::Normal { mean, deviation }) = (Below::new(20, 20), Below::new(21, 21)) else {
            panic!()
        };
        let normal = Below::Normal {
            mean: mean * 400.0 / 441.0,
            deviation: deviation * (400.0 * 41.0 / (441.0 * 43.0f64)).sqrt(),
        };
        assert!((exact.up_to(130.0) - normal.up_to(130.0)).abs() < 0.001);
    }

    #[test]
    fn equal_sets_do_not_differ() {
        let same = difference(&[5.0, 6.0, 7.0, 8.0], &[5.0, 6.0, 7.0, 8.0]).unwrap();
        assert!(same.p > 0.9 && (same.factor - 1.0).abs() < 0.05, "{same:?}");
        assert_eq!(difference(&[], &[1.0]), None);
        assert_eq!(difference(&[0.0], &[1.0]), None);
        assert_eq!(difference(&[1.0], &[f64::NAN]), None);
    }

    #[test]
    fn the_interval_has_the_factor_in_95_of_100_cases() {
        let mut rng = Rng::new(7);
        let mut noisy =
            |by: f64| -> Vec<f64> { (0..8).map(|_| by * (100.0 + rng.below(2000) as f64 / 100.0)).collect() };
        let (mut within, mut found) = (0, 0);
        for _ in 0..1000 {
            let of = difference(&noisy(1.0), &noisy(1.1)).unwrap();
            let (low, high) = of.interval.unwrap();
            within += i32::from((low..=high).contains(&1.1));
            found += i32::from(of.p < 0.05);
            assert_eq!(of.p <= 0.05, !(low..=high).contains(&1.0), "both say the same: {of:?}");
        }
        assert!((930..=985).contains(&within), "{within}");
        assert!(found > 700, "{found}");
    }

    #[test]
    fn a_median_is_of_what_is_known() {
        assert_eq!(median([3.0, 1.0, f64::NAN, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([1.0, 2.0].into_iter()), Some(1.5));
        assert_eq!(median([f64::INFINITY].into_iter()), None);
    }
}
