//! # RatedUnqueue
//! Pulls packets at a given rate and pushes them on.
//!
//! ## Synopsis
//! `RatedUnqueue(RATE [, BURST_DURATION, BURST_SIZE])`
//!
//! ## Arguments
//! - `RATE` (*unsigned int*, packets per second): the rate. 0 lets nothing pass.
//! - `BURST_DURATION` (*time*, default 20ms): packets of this time may pass at once after a pause.
//! - `BURST_SIZE` (*unsigned int*, packets): the same, as a number of packets. Not both may be given.
//!
//! The burst is at least one packet. It is available at the start.
//!
//! ## Ports
//! One pull input, one push output. It sleeps while the input is empty and while the rate does not let it
//! pull.
//!
//! ## Handlers
//! - `rate` (read/write): the `RATE` argument.
//! - `active` (read/write): whether to pull; true at the start.
//! - `calls` (read): how often the task ran, ran without a packet, pushed packets, and pulled without getting
//!   one.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! Each worker pulls its own packets; the rate is that of all workers together.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> RatedUnqueue(100) -> Discard;
//! ```
//!
//! ## See also
//! BandwidthRatedUnqueue, Unqueue, Shaper, RatedSplitter

use crate::plumbing::engine::bucket::{Bucket, Packets, Unit};
use crate::plumbing::engine::text;
use crate::prelude::*;

/// The unit that a rate counts.
pub trait RateUnit: Send + 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual.
    const MANUAL: &'static str;
    /// The unit of the rate.
    type Unit: Unit;
}

/// The kind of `RatedUnqueue` itself.
pub struct ByPackets;

impl RateUnit for ByPackets {
    const CLASS: &'static str = "RatedUnqueue";
    const MANUAL: &'static str = manual!("queues/ratedunqueue");
    type Unit = Packets;
}

/// `RatedUnqueue` and `BandwidthRatedUnqueue`.
pub struct RatedUnqueue<K: RateUnit = ByPackets> {
    bucket: Bucket<K::Unit>,
    active: bool,
    runs: u64,
    empty_runs: u64,
    pushes: u64,
    failed_pulls: u64,
}

impl<K: RateUnit> Element for RatedUnqueue<K> {
    const CLASS: &'static str = K::CLASS;
    const LIVE: bool = true;
    const PROCESSING: &'static str = "l/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const ROLE: Role = Role::RateLimit;
    const MANUAL: &'static str = K::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let bucket = Bucket::from_args(args, cx, false)?;
        Ok(Self { bucket, active: true, runs: 0, empty_runs: 0, pushes: 0, failed_pulls: 0 })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.task();
        h.read("rate", |e| e.bucket.rate());
        h.write("rate", |e, v, cx| {
            e.bucket.set_rate(v, cx.now_ns())?;
            // As in Click, the next packet leaves when it was to leave.
            if cx.timer_expiry(0).is_none() {
                cx.reschedule();
            }
            Ok(())
        });
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "syntax error")?;
            cx.reschedule();
            Ok(())
        });
        h.list("calls", |e| {
            let Self { runs, empty_runs, pushes, failed_pulls, .. } = e;
            format!("{runs} calls to run_task()\n{empty_runs} empty runs\n{pushes} pushes\n{failed_pulls} failed pulls\n")
        });
        h.argument("rate", 0, "RATE");
        h.listed(&["calls", "rate =", "active c", "scheduled", "tickets", "home_thread"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        self.runs += 1;
        if !self.active {
            return false;
        }
        let now = cx.now_ns();
        let admitted = self.bucket.admit(now, cx.batch_size());
        // Nobody waits for it, but it is known for how long the rate holds packets back.
        cx.set_full(admitted == 0);
        if admitted == 0 {
            self.empty_runs += 1;
            if let Some(at) = self.bucket.opens_at(now) {
                cx.timer_at(0, at);
            }
            return false;
        }
        let mut batch = cx.spare_batch();
        let pulled = cx.pull_lending(self, 0, admitted, &mut batch);
        self.bucket.settle(now, admitted, &batch);
        cx.output_batch(0, batch);
        self.pushes += pulled as u64;
        if pulled == 0 {
            self.failed_pulls += 1;
            if !cx.upstream_active(0) {
                return false;
            }
            self.empty_runs += 1;
        }
        cx.reschedule();
        pulled > 0
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.reschedule();
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.bucket.take_over(&mut old.bucket, cx.now_ns());
        self.active = old.active;
        (self.runs, self.empty_runs) = (old.runs, old.empty_runs);
        (self.pushes, self.failed_pulls) = (old.pushes, old.failed_pulls);
        cx.reschedule();
    }
}

impl<K: RateUnit> Vector for RatedUnqueue<K> {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    fn seconds(bench: &mut Bench, from: u64) -> f64 {
        (bench.router().now_ns() - from) as f64 / 1e9
    }

    #[test]
    fn holds_its_rate_in_simulated_time() {
        let mut bench =
            Bench::simulated("InfiniteSource(DATA a, LIMIT 21) -> Queue -> e :: RatedUnqueue(10);", 0, 1);
        let start = bench.router().now_ns();
        let mut times = Vec::new();
        while times.len() < 21 {
            for _ in bench.turns(1) {
                times.push(seconds(&mut bench, start));
            }
        }
        for (i, t) in times.iter().enumerate() {
            // As in Click: what a bucket of one packet earns in the millisecond in which it fills is lost.
            assert!((t - i as f64 * 0.101).abs() < 1e-6, "packet {i} at {t}");
        }
    }

    #[test]
    fn sleeps_when_there_is_nothing_to_do() {
        let mut bench =
            Bench::simulated("InfiniteSource(DATA a, LIMIT 3) -> Queue -> e :: RatedUnqueue(1000);", 0, 1);
        assert_eq!(bench.run().len(), 3);
        let calls = bench.read("calls");
        bench.run();
        assert_eq!(bench.read("calls"), calls);
    }

    #[test]
    fn burst_arguments() {
        let count = |arguments: &str| {
            let config =
                format!("InfiniteSource(DATA a, LIMIT 100) -> Queue -> e :: RatedUnqueue({arguments});");
            let mut bench = Bench::simulated(&config, 0, 1);
            let start = bench.router().now_ns();
            let mut n = 0;
            while seconds(&mut bench, start) == 0.0 {
                n += bench.turns(1).len();
            }
            n
        };
        assert_eq!(count("100"), 2);
        assert_eq!(count("100, BURST_DURATION 100ms"), 10);
        assert_eq!(count("100, BURST_SIZE 7"), 7);
        let error = Bench::error("RatedUnqueue(1, BURST_SIZE 2, BURST_DURATION 1s)");
        assert!(error.contains("cannot specify both BURST_DURATION and BURST_SIZE"), "{error}");
    }

    #[test]
    fn rate_and_activity_change_while_it_runs() {
        let mut bench =
            Bench::simulated("InfiniteSource(DATA a, LIMIT 100) -> Queue -> e :: RatedUnqueue(1);", 0, 1);
        bench.turns(4);
        bench.write("rate", "0");
        assert_eq!((bench.read("rate"), bench.run().len()), ("0".into(), 0));
        bench.write("rate", "1000000");
        bench.write("active", "false");
        assert_eq!(bench.run().len(), 0);
        bench.write("active", "true");
        assert_eq!(bench.run().len(), 99);
        assert!(bench.try_write("rate", "quick").is_err());
    }
}
