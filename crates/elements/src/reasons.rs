//! How many packets a checking element has found bad, by reason (`drop_details`), and whether the first one was reported.

use crate::prelude::*;
use runtime::Counter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the replicas of one element share: counters for each worker, as many as there are workers however often the
/// configuration is replaced.
pub(crate) struct Reasons<const N: usize> {
    wanted: bool,
    reported: AtomicBool,
    workers: Vec<[Counter; N]>,
}

impl<const N: usize> Reasons<N> {
    /// The counts of the element that is being configured, and those that this replica adds to; `wanted`: the handler tells them.
    pub(crate) fn of(cx: &mut ConfigCx<'_>, wanted: bool) -> (Arc<Self>, [Counter; N]) {
        let (worker, workers) = (cx.worker().0, cx.workers());
        let none = || std::array::from_fn(|_| Counter::new());
        let make = || (0..workers).map(|_| none()).collect();
        let all = cx.shared(|| Self { wanted, reported: AtomicBool::new(false), workers: make() });
        let own = all.workers.get(worker).cloned().unwrap_or_else(none);
        (all, own)
    }

    /// True once: for the first bad packet.
    pub(crate) fn is_first(&self) -> bool {
        !self.reported.load(Ordering::Relaxed) && !self.reported.swap(true, Ordering::Relaxed)
    }

    /// A line for each reason: how many packets, a tab, the reason.
    pub(crate) fn table(&self, names: &[&str]) -> Result<String, String> {
        if !self.wanted {
            return Err("no details without DETAILS true".into());
        }
        let count = |i: usize| self.workers.iter().filter_map(|w| w.get(i)).map(Counter::get).sum::<u64>();
        Ok(names.iter().enumerate().map(|(i, reason)| format!("{}\t{reason}\n", count(i))).collect())
    }
}

#[cfg(test)]
mod tests {
    use runtime::testing::Bench;

    #[test]
    fn counts_and_what_keeps_them_stay_as_they_are_when_the_configuration_is_replaced() {
        let config = "s :: InfiniteSource(DATA a, LIMIT 3) -> c :: CheckIPHeader(DETAILS true) -> u :: CheckUDPHeader -> Discard;";
        for workers in [1, 2] {
            let options = runtime::Options { hotswap: true, workers, ..runtime::Options::default() };
            let mut bench = Bench::with(&crate::registry(), config, 0, 0, options);
            let all = bench.router().shared::<super::Reasons<{ crate::ip::header::N_REASONS }>>("c").unwrap();
            for _ in 0..10 {
                bench.run();
                bench.router().write("hotconfig", config).unwrap();
            }
            assert_eq!(all.workers.len(), workers);
            let total: u64 = bench
                .read("c.drop_details")
                .lines()
                .map(|l| l.split('\t').next().unwrap().parse::<u64>().unwrap())
                .sum();
            assert_eq!(total.to_string(), bench.read("c.drops"));
        }
    }
}
