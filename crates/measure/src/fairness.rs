//! How evenly something is shared: max-min fair shares and Jain's index.

/// The max-min fair share of each of several demands on the capacity `room`. A demand below an equal share
/// gets all that it requests, and the others divide the rest. All of these get the same share, to the last
/// digit.
#[must_use]
pub fn max_min(wanted: &[f64], room: f64) -> Vec<f64> {
    let mut order: Vec<f64> = wanted.iter().copied().filter(|want| *want > 0.0).collect();
    order.sort_by(f64::total_cmp);
    let (mut room, mut left) = (room, order.len());
    for want in order {
        if want * left as f64 >= room {
            break;
        }
        (room, left) = (room - want, left - 1);
    }
    let even = if left > 0 { room / left as f64 } else { f64::INFINITY };
    wanted.iter().map(|want| want.min(even)).collect()
}

/// Jain's index (Jain, Chiu and Hawe, 1984): 1 if all values are equal, 1/n if one value has everything. It
/// is 1 if all values are 0.
#[must_use]
pub fn jain(all: &[f64]) -> f64 {
    let (sum, squares) = all.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if squares > 0.0 { sum * sum / (all.len() as f64 * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_max_min_fair() {
        assert_eq!(max_min(&[1.0, 5.0, 9.0, 0.0], 9.0), [1.0, 4.0, 4.0, 0.0]);
        assert_eq!(max_min(&[0.1, 0.9, 0.6], 1.0), [0.1, 0.45, 0.45]);
        assert_eq!(max_min(&[1.0, 2.0], 9.0), [1.0, 2.0]);
        assert_eq!(max_min(&[], 9.0), [0.0; 0]);
    }

    #[test]
    fn the_index_is_between_one_and_its_part() {
        assert!((jain(&[2.0, 2.0, 2.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// All demands that are not met get the same share, and no demand gets more than that.
        #[test]
        fn who_is_cut_short_gets_as_much_as_anybody(
            wanted in prop::collection::vec(0.0f64..10.0, 1..20), room in 0.1f64..50.0
        ) {
            let shares = max_min(&wanted, room);
            let most = shares.iter().copied().fold(0.0, f64::max);
            for (share, want) in shares.iter().zip(&wanted) {
                prop_assert!(share == want || *share == most, "{share} of {want}, {most}");
            }
            let given: f64 = shares.iter().sum();
            let all: f64 = wanted.iter().sum();
            prop_assert!((given - all.min(room)).abs() < 1e-9);
        }
    }
}
