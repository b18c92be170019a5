//! Parks workers of an element that spreads flows in software, on the control thread: it reads for how long
//! workers were busy, asks the policy (crate `rebalance`), and says how many of the table's workers have
//! buckets. When the load rises quickly, workers that poll wake others themselves (`watch.rs`).

use super::exchange::Exchange;
use super::indirection::Indirection;
use super::parkstate::{ParkState, Spent, are};
use crate::prelude::*;
use rebalance::Parking;
use runtime::{Control, ControlTask};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often it looks.
const INTERVAL_NS: u64 = 50_000_000;

/// How often while it is off, or while no packets come and no worker can be parked.
const QUIET_NS: u64 = 200_000_000;

/// What was read at the end of an interval.
struct Reading {
    at_ns: u64,
    cycles: u64,
    busy: Vec<u64>,
    awake: usize,
    wakes: u64,
}

/// The part on the control thread.
pub(super) struct Parker {
    element: String,
    exchange: Arc<Exchange>,
    state: Arc<ParkState>,
    policy: Parking,
    before: Option<Reading>,
    /// No worker was busy in the last interval.
    quiet: bool,
    next_ns: u64,
}

impl Parker {
    /// Parks workers of the element that is being configured.
    pub(super) fn new(element: &str, exchange: &Arc<Exchange>, state: &Arc<ParkState>) -> Self {
        Self {
            element: element.to_owned(),
            exchange: Arc::clone(exchange),
            state: Arc::clone(state),
            policy: Parking::default(),
            before: None,
            quiet: false,
            next_ns: 0,
        }
    }

    /// Ends an interval. Returns what is to be logged.
    fn look(&mut self, table: &Indirection, now_ns: u64, cycles: u64) -> Vec<String> {
        let readings = table.readings();
        let wakes = table.pollers().iter().map(|poller| poller.wakes.load(Ordering::Acquire)).sum();
        let reading =
            Reading { at_ns: now_ns, cycles, busy: readings.busy_cycles, awake: readings.awake, wakes };
        let (awake, all) = (reading.awake, table.workers().len());
        let before = self.before.replace(reading);
        let (Some(before), Some(now)) = (before, &self.before) else { return Vec::new() };
        let ns = now_ns.saturating_sub(before.at_ns);
        let elapsed = now.cycles.saturating_sub(before.cycles).max(1) as f64;
        let busy: Vec<f64> = (now.busy.iter().zip(&before.busy))
            .map(|(now, before)| (now.saturating_sub(*before) as f64 / elapsed).min(1.0))
            .collect();
        self.quiet = busy.iter().all(|share| *share == 0.0);
        self.state.spent(&spent(table, before.awake, &busy, ns));
        let mut said = Vec::new();
        if now.wakes != before.wakes {
            let (times, line) = (now.wakes.wrapping_sub(before.wakes), woke(table, &before, awake));
            self.state.woke(times, at(now_ns, &line));
            said.push(line);
        }
        if awake != before.awake || readings.moving {
            self.policy.forget();
            return said;
        }
        if !self.state.is_on() {
            if awake < all && table.set_awake(awake, all) {
                self.before.iter_mut().for_each(|reading| reading.awake = all);
                let line = format!("{} awake: parking is off", are(&table.between(awake, all)));
                self.state.woke(1, at(now_ns, &line));
                said.push(line);
            }
            return said;
        }
        let busy: Vec<f64> = table.first(awake).iter().map(|place| busy[usize::from(*place)]).collect();
        let limits = *self.state.limits();
        let change = self.policy.decide(&limits, &busy, ns, (table.least_awake(), all));
        let change = change.filter(|change| table.set_awake(awake, change.awake));
        let Some(change) = change else { return said };
        // The next interval begins with these.
        self.before.iter_mut().for_each(|reading| reading.awake = change.awake);
        let load = change.load * 100.0;
        let line = if change.awake < awake {
            let (ms, workers) = (limits.after_ns / 1_000_000, are(&table.between(change.awake, awake)));
            let line =
                format!("{workers} parked: for {ms} ms the load was at most {load:.0} % of a worker's time");
            self.state.parked(at(now_ns, &line));
            line
        } else {
            let (ms, workers) = (ns / 1_000_000, are(&table.between(awake, change.awake)));
            let line = format!("{workers} awake: a worker was busy for {load:.0} % of {ms} ms");
            self.state.woke(1, at(now_ns, &line));
            line
        };
        said.push(line);
        said
    }
}

/// How workers have spent an interval.
fn spent(table: &Indirection, awake: usize, busy: &[f64], ns: u64) -> Vec<Spent> {
    let places = table.first(awake);
    let of = |(place, busy): (usize, &f64)| {
        let awake = places.iter().any(|first| usize::from(*first) == place);
        let (awake_ns, parked_ns) = if awake { (ns, 0) } else { (0, ns) };
        Spent { awake_ns, parked_ns, busy_ns: (busy * ns as f64) as u64 }
    };
    busy.iter().enumerate().map(of).collect()
}

/// What workers that poll have done since a reading.
fn woke(table: &Indirection, before: &Reading, awake: usize) -> String {
    let load = table.pollers().iter().map(|poller| poller.woke_at_load.load(Ordering::Relaxed)).max();
    let load = load.unwrap_or(0) as f64 / 1e4;
    format!(
        "{} awake: a worker was busy for {load:.0} % of the last moment",
        are(&table.between(before.awake, awake))
    )
}

fn at(now_ns: u64, line: &str) -> String {
    format!("{}.{:03} {line}", now_ns / 1_000_000_000, now_ns / 1_000_000 % 1000)
}

impl ControlTask for Parker {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        let exchange = Arc::clone(&self.exchange);
        // Only where flows are spread in software is there a table.
        let table = exchange.known_indirection()?;
        let now = router.now_ns();
        if now >= self.next_ns {
            for text in self.look(table, now, dpdk::cycles()) {
                router.hub().log(Level::DEBUG, &self.element, &text);
            }
            let rests = !self.state.is_on() || (self.quiet && table.awake() == table.least_awake());
            self.next_ns = now + if rests { QUIET_NS } else { INTERVAL_NS };
        }
        Some(self.next_ns)
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rebalance::Limits;
    use runtime::Lanes;

    const CYCLES: u64 = 1_000_000;

    struct Bench {
        table: Indirection,
        state: Arc<ParkState>,
        parker: Parker,
        intervals: u64,
    }

    impl Bench {
        fn new() -> Self {
            let lanes = Lanes { poll: vec![vec![], vec![0]], spread: vec![0, 1], ..Lanes::default() };
            let state = Arc::new(ParkState::new(true, Limits::default(), false));
            let parker = Parker::new("in", &Arc::default(), &state);
            Self { table: Indirection::new(&lanes, Some(&[1; 40])), state, parker, intervals: 0 }
        }
        /// Intervals in which each place is busy for this share of the time.
        fn run(&mut self, busy: [f64; 2], intervals: u64) -> Vec<String> {
            let mut said = Vec::new();
            for _ in 0..intervals {
                self.intervals += 1;
                for (place, share) in busy.iter().enumerate() {
                    self.table.seat(place).add_busy((share * CYCLES as f64) as u64);
                }
                let n = self.intervals;
                said.extend(self.parker.look(&self.table, n * INTERVAL_NS, n * CYCLES));
                let poller = self.table.poller(1);
                poller.say(self.table.version(), 0, poller.moved());
            }
            said
        }
        /// Buckets of each place.
        fn buckets(&self) -> [usize; 2] {
            let mut counts = [0; 2];
            (0..self.table.buckets()).for_each(|b| counts[usize::from(self.table.place(b))] += 1);
            counts
        }
    }

    #[test]
    fn a_worker_is_parked_at_low_load_and_wakes() {
        let mut bench = Bench::new();
        assert_eq!(bench.buckets(), [256, 256]);
        let said = bench.run([0.1, 0.15], 12);
        assert_eq!(said, ["worker 0 is parked: for 500 ms the load was at most 25 % of a worker's time"]);
        assert_eq!(bench.buckets(), [0, 512], "worker 1 polls");
        assert_eq!(bench.run([0.0, 0.3], 100), [""; 0]);
        let said = bench.run([0.0, 0.9], 1);
        assert_eq!(said, ["worker 0 is awake: a worker was busy for 90 % of 50 ms"]);
        assert_eq!(bench.buckets(), [256, 256]);
        let log = bench.state.log();
        assert!(log.starts_with("0.550 worker 0 is parked") && log.lines().count() == 2, "{log}");
    }

    #[test]
    fn all_workers_wake_when_it_is_switched_off() {
        let mut bench = Bench::new();
        bench.run([0.1, 0.1], 12);
        bench.state.switch(false).unwrap();
        assert_eq!(bench.run([0.0, 0.1], 3), ["worker 0 is awake: parking is off"]);
        assert_eq!((bench.buckets(), bench.table.awake()), ([256, 256], 2));
        assert_eq!(bench.run([0.0, 0.1], 30), [""; 0]);
    }

    #[test]
    fn what_a_worker_that_polls_has_woken_is_logged() {
        let mut bench = Bench::new();
        bench.run([0.1, 0.1], 12);
        assert!(bench.table.set_awake(1, 2));
        let poller = bench.table.poller(1);
        poller.woke_at_load.store(970_000, Ordering::Relaxed);
        poller.wakes.store(1, Ordering::Relaxed);
        let said = bench.run([0.5, 0.6], 1);
        assert_eq!(said, ["worker 0 is awake: a worker was busy for 97 % of the last moment"]);
    }
}
