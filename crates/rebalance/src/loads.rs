//! What each worker has.

/// The packets of each of `workers` workers: `packets` and `table` have the packets and the worker of each
/// bucket.
pub(crate) fn of_workers(packets: &[u64], table: &[u16], workers: usize) -> Vec<u64> {
    let mut loads = vec![0u64; workers];
    for (packets, worker) in packets.iter().zip(table) {
        if let Some(load) = loads.get_mut(usize::from(*worker)) {
            *load = load.saturating_add(*packets);
        }
    }
    loads
}

/// How much more the worker with most packets has than the mean, as a share of the mean; 0 without packets.
#[must_use]
pub fn imbalance(loads: &[u64]) -> f64 {
    let (most, sum) =
        (loads.iter().max().copied().unwrap_or(0), loads.iter().map(|n| *n as f64).sum::<f64>());
    if sum == 0.0 { 0.0 } else { most as f64 * loads.len() as f64 / sum - 1.0 }
}

/// The worker with most packets, the first of equal ones.
pub(crate) fn busiest(loads: &[u64]) -> usize {
    (0..loads.len()).max_by_key(|&worker| (loads[worker], std::cmp::Reverse(worker))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_imbalance_is_what_the_busiest_has_above_the_mean() {
        let loads = of_workers(&[5, 10, 20, 1], &[0, 1, 1, 9], 2);
        assert_eq!((loads.as_slice(), busiest(&loads)), (&[5, 30][..], 1));
        assert!((imbalance(&loads) - (30.0 / 17.5 - 1.0)).abs() < 1e-12);
        assert_eq!((imbalance(&[]), imbalance(&[0, 0]), imbalance(&[3, 3])), (0.0, 0.0, 0.0));
        assert_eq!(busiest(&[4, 4]), 0);
    }
}
