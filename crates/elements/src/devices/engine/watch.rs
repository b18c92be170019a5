//! How a worker that polls sees that the workers that are awake have too much to do, and wakes parked ones:
//! by itself, because the control thread looks too rarely.

use super::indirection::{Indirection, Poller};
use super::parkstate::ParkState;
use rebalance::{more, overload};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// In how many windows one after the other a worker must be busy.
const IN_A_ROW: u64 = 2;
/// A window that is longer by so much says nothing: the worker that polls was not run meanwhile.
const NOT_RUN_S: f64 = 2e-3;

/// What a worker that polls knows of the workers that are awake.
pub(super) struct Watch {
    state: Arc<ParkState>,
    says: Arc<Poller>,
    window_cycles: u64,
    not_run_cycles: u64,
    /// In how many windows a worker was busy.
    in_a_row: u64,
    /// When the window began, by the time stamp counter, with the table's version; 0: no worker is parked.
    began: u64,
    version: u64,
    /// For how many cycles each worker had been busy, by its place.
    busy: Box<[u64]>,
    /// The share of the window, for those that are awake.
    shares: Vec<f64>,
}

impl Watch {
    pub(super) fn new(state: &Arc<ParkState>, table: &Indirection, worker: usize) -> Self {
        Self {
            state: Arc::clone(state),
            says: table.poller(worker),
            window_cycles: (window_s(state) * dpdk::cycles_per_second()) as u64,
            not_run_cycles: (NOT_RUN_S * dpdk::cycles_per_second()) as u64,
            in_a_row: 0,
            began: 0,
            version: 0,
            busy: vec![0; table.workers().len()].into(),
            shares: Vec::with_capacity(table.workers().len()),
        }
    }
    /// Looks, if the window is over: parked workers wake if a worker was busy. `cycles` is the time stamp
    /// counter.
    /// Returns whether they do.
    #[inline]
    pub(super) fn look(&mut self, table: &Indirection, cycles: u64) -> bool {
        let awake = table.awake();
        if awake == table.workers().len() {
            self.began = 0;
            return false;
        }
        if self.began != 0 && cycles.saturating_sub(self.began) < self.window_cycles {
            return false;
        }
        self.end_window(table, awake, cycles)
    }
    /// It has woken workers at this time of the router's clock.
    #[cold]
    pub(super) fn woke(&self, now_ns: u64) {
        self.says.woke_ns.store(now_ns, Ordering::Relaxed);
    }
    #[cold]
    fn end_window(&mut self, table: &Indirection, awake: usize, cycles: u64) -> bool {
        let (elapsed, version) = (cycles.saturating_sub(self.began), table.version());
        let runs = elapsed < self.window_cycles.saturating_add(self.not_run_cycles);
        let known = self.began != 0 && self.version == version && runs;
        self.shares.clear();
        for &place in table.first(awake) {
            let busy = table.seat(usize::from(place)).busy_cycles();
            let before = std::mem::replace(&mut self.busy[usize::from(place)], busy);
            self.shares.push((busy.saturating_sub(before) as f64 / elapsed.max(1) as f64).min(1.0));
        }
        (self.began, self.version) = (cycles, version);
        let load = if known { overload(self.state.limits(), &self.shares) } else { None };
        self.in_a_row = if load.is_some() { self.in_a_row + 1 } else { 0 };
        let Some(load) = load.filter(|_| self.in_a_row >= IN_A_ROW) else { return false };
        self.in_a_row = 0;
        let woke = table.set_awake(awake, more(awake, table.workers().len()));
        if woke {
            self.says.woke_at_load.store((load * 1e6) as u64, Ordering::Relaxed);
            let wakes = self.says.wakes.load(Ordering::Relaxed);
            self.says.wakes.store(wakes.wrapping_add(1), Ordering::Release);
        }
        woke
    }
}

/// How long a window is, in seconds.
fn window_s(state: &ParkState) -> f64 {
    (state.limits().wake_after_ns / IN_A_ROW) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use rebalance::Limits;
    use runtime::Lanes;

    #[test]
    fn parked_workers_wake_when_one_is_busy_for_some_time() {
        let lanes = Lanes {
            poll: vec![vec![0], vec![], vec![], vec![]],
            spread: vec![0, 1, 2, 3],
            ..Lanes::default()
        };
        let table = Indirection::new(&lanes, Some(&[1; 40]));
        let state = Arc::new(ParkState::new(true, Limits::default(), false));
        let mut watch = Watch::new(&state, &table, 0);
        let window = watch.window_cycles;
        assert!(!watch.look(&table, window), "all are awake");
        assert!(table.set_awake(4, 1));
        let mut now = window;
        // The worker is busy for this share of each window.
        let mut windows = |share: f64, n: usize| {
            let mut woke = 0;
            for _ in 0..n {
                now += window;
                table.seat(0).add_busy((share * window as f64) as u64);
                woke += usize::from(watch.look(&table, now));
            }
            (woke, table.awake())
        };
        assert_eq!(windows(0.6, 10), (0, 1));
        assert_eq!((windows(0.9, 1), windows(0.6, 1), windows(0.9, 1)), ((0, 1), (0, 1), (0, 1)));
        assert_eq!(windows(0.9, 1), (1, 2));
        assert_eq!(windows(0.95, 2), (0, 2), "whole windows with the new table decide");
        assert_eq!(windows(0.95, 5), (1, 4));
        assert!(table.set_awake(4, 1));
        for n in 1..10 {
            let long = now + n * 40 * window;
            table.seat(0).add_busy(40 * window);
            assert!(!watch.look(&table, long), "it was not run");
        }
        assert_eq!(table.poller(0).wakes.load(Ordering::Relaxed), 2);
    }
}
