//! # Shaper
//! Lets packets be pulled at a given rate at most.
//!
//! ## Synopsis
//! `Shaper(RATE)`
//!
//! ## Arguments
//! - `RATE` (*unsigned int*, packets per second): the rate. 0 lets nothing pass.
//!
//! ## Ports
//! One pull input, one or two pull outputs. Packets pass at even distances. A consumer that comes late may
//! catch up on what it missed, but on no more than one second. While the shaper is closed its consumer
//! sleeps, and is woken when the next packet may pass. Output 1, if it is connected, gives packets just while
//! output 0 may not; its packets do not count. Consumers do not sleep then while there are packets.
//!
//! ## Handlers
//! - `rate` (read/write): the `RATE` argument.
//! - `reset` (write): the shaper begins anew: what a late consumer could catch up on is forgotten.
//!
//! ## Threads
//! Each worker pulls its own packets; the rate is that of all workers together.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> Shaper(100) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! BandwidthShaper, DelayShaper, RatedUnqueue, RatedSplitter

use super::ratedunqueue::RateUnit;
use crate::plumbing::engine::bucket::{Bucket, Packets};
use crate::prelude::*;

/// The kind of `Shaper` itself.
pub struct ByPackets;

impl RateUnit for ByPackets {
    const CLASS: &'static str = "Shaper";
    const MANUAL: &'static str = manual!("queues/shaper");
    type Unit = Packets;
}

/// `Shaper` and `BandwidthShaper`.
pub struct Shaper<K: RateUnit = ByPackets> {
    bucket: Bucket<K::Unit>,
}

impl<K: RateUnit> Element for Shaper<K> {
    const CLASS: &'static str = K::CLASS;
    const LIVE: bool = true;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::Shared;
    const NOTIFY: Notify = Notify::Gate;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const ROLE: Role = Role::RateLimit;
    const MANUAL: &'static str = K::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { bucket: Bucket::from_args(args, cx, true)? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("rate", |e| e.bucket.rate());
        h.write("rate", |e, v, cx| {
            e.bucket.set_rate(v, cx.now_ns())?;
            cx.set_nonempty(true);
            Ok(())
        });
        h.argument("rate", 0, "RATE");
        h.write("reset", |e, _, cx| {
            e.bucket.reset();
            cx.set_nonempty(true);
            Ok(())
        });
        h.listed(&["rate =", "reset"]);
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.set_nonempty(true);
    }

    fn take_state(&mut self, _old: &mut Self, cx: &mut Cx<'_>) {
        // The rate may allow packets now that the one before did not.
        cx.set_nonempty(true);
    }

    fn reconfigured(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.bucket.go_on_from(&mut old.bucket, cx.now_ns());
        cx.set_nonempty(true);
    }
}

impl<K: RateUnit> Vector for Shaper<K> {
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let now = cx.now_ns();
        if port == 1 {
            return self.pull_rest(now, max, out, cx);
        }
        let admitted = self.bucket.admit(now, max);
        // Nobody waits for it, but it is known for how long the rate holds packets back.
        cx.set_full(admitted == 0);
        if admitted == 0 && cx.n_outputs() == 2 {
            // The other output is open.
            let active = cx.upstream_active(0);
            return cx.set_nonempty(active);
        }
        if admitted == 0 {
            if let Some(at) = self.bucket.opens_at(now) {
                cx.timer_at(0, at);
            }
            return cx.set_nonempty(false);
        }
        let before = out.len();
        let pulled = cx.pull_lending(self, 0, admitted, out);
        self.bucket.settle(now, admitted, out.get(before..).unwrap_or_default());
        let active = pulled > 0 || cx.upstream_active(0);
        cx.set_nonempty(active);
    }
}

impl<K: RateUnit> Shaper<K> {
    /// Pulls for output 1, which is open while the other one is not.
    fn pull_rest(&mut self, now: u64, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let admitted = self.bucket.admit(now, 1);
        self.bucket.settle(now, admitted, &[]);
        let pulled = if admitted == 0 { cx.pull(0, max, out) } else { 0 };
        let active = pulled > 0 || cx.upstream_active(0);
        cx.set_nonempty(active);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_pass_at_even_distances_and_the_consumer_sleeps_between() {
        let config = "InfiniteSource(DATA a, LIMIT 9) -> Queue -> e :: Shaper(4) -> u :: RatedUnqueue(1000000000000) -> c :: Counter -> Discard;";
        let mut bench = Bench::simulated(config, 0, 0);
        let start = bench.router().now_ns();
        let (mut n, mut turns) = (0, 0);
        while n < 9 && turns < 1000 {
            bench.turns(1);
            turns += 1;
            let now: u64 = bench.read("c.count").parse().unwrap();
            if now > n {
                assert_eq!(now, n + 1);
                assert_eq!(bench.router().now_ns() - start, n * 250_000_000);
                n = now;
            }
        }
        assert_eq!(n, 9);
        assert!(turns < 100, "{turns} turns: the consumer does not sleep");
    }

    #[test]
    fn nothing_passes_at_rate_zero_until_it_changes() {
        let mut bench = Bench::simulated(
            "InfiniteSource(DATA a, LIMIT 3) -> Queue -> e :: Shaper(0) -> u :: Unqueue;  u -> Discard;",
            0,
            0,
        );
        bench.run();
        assert_eq!(bench.read("u.count"), "0");
        bench.write("rate", "1000");
        bench.run();
        assert_eq!(bench.read("u.count"), "3");
        assert_eq!(bench.read("rate"), "1000");
    }

    #[test]
    fn the_second_output_has_what_the_first_may_not_give() {
        for class in ["Shaper(4)", "BandwidthShaper(240)"] {
            let config =
                format!("InfiniteSource(LENGTH 60, LIMIT 9, BURST 9) -> q :: Queue -> e :: {class};");
            let mut bench = Bench::simulated(&config, 0, 2);
            bench.turns(1);
            assert_eq!(bench.read("q.length"), "9");
            let mut pulled = |port| bench.pull(port, 9).len();
            assert_eq!([pulled(1), pulled(0), pulled(0), pulled(1)], [0, 1, 0, 8], "{class}");
        }
    }

    #[test]
    fn gates_in_a_row() {
        let config = "e :: Queue -> Shaper(10) -> DelayShaper(30ms) -> Shaper(1000) -> u :: RatedUnqueue(1000000000000) -> c :: Counter -> Discard;";
        let mut bench = Bench::simulated(config, 1, 0);
        bench.run();
        for _ in 0..3 {
            let start = bench.router().now_ns();
            let before: u64 = bench.read("c.count").parse().unwrap();
            bench.push(0, b"a");
            let mut turns = 0;
            while bench.read("c.count") == before.to_string() {
                turns += 1;
                assert!(turns < 100, "the wake-up was missed");
                bench.turns(1);
            }
            assert!((bench.router().now_ns() - start) <= 131_000_000);
        }
    }

    #[test]
    fn longer_batches_lose_nothing() {
        for path in [
            "Shaper(1000000)",
            "DelayShaper(1ms)",
            "DRRSched(1500)",
            "TimeSortedSched",
            "RoundRobinSched",
            "StrideSched(3)",
            "PrioSched",
        ] {
            let config = format!(
                "InfiniteSource(DATA a, LIMIT 1000) -> Queue -> e :: {path} -> u :: Unqueue -> Discard;"
            );
            let options =
                runtime::Options { batch_size: 32, simulated_time: true, ..runtime::Options::default() };
            let mut bench = runtime::testing::Bench::with(&crate::registry(), &config, 0, 0, options);
            let mut runs = 0;
            while bench.read("u.count") != "1000" && runs < 100 {
                bench.run();
                runs += 1;
            }
            assert_eq!(bench.read("u.count"), "1000", "{path}");
        }
    }

    #[test]
    fn a_packet_that_comes_while_everyone_sleeps_wakes_the_consumer() {
        let mut bench = Bench::simulated("e :: Queue -> Shaper(1000) -> u :: Unqueue; u -> Discard;", 1, 0);
        bench.run();
        bench.push(0, b"a");
        bench.run();
        assert_eq!(bench.read("u.count"), "1");
        bench.push(0, b"b");
        bench.push(0, b"c");
        bench.run();
        assert_eq!(bench.read("u.count"), "3");
    }
}
