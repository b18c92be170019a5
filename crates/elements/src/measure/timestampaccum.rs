//! # TimestampAccum
//! Adds up how old packets' timestamps are.
//!
//! ## Synopsis
//! `TimestampAccum()`
//!
//! ## Ports
//! One input, one output; agnostic. The time from each packet's timestamp until it passes counts. A packet
//! without a timestamp has that of 1970: SetTimestamp must set it before.
//!
//! ## Handlers
//! - `count` (read): packets that have passed.
//! - `time` (read): the sum, in seconds.
//! - `average_time` (read): `time` / `count`; `nan` if there was no packet.
//! - `min`, `max` (read): the shortest and the longest time, in seconds; 0 if there was no packet.
//!   FastClick's.
//! - `reset_counts` (write): starts again.
//!
//! ## Threads
//! Each worker has its own sums; handlers show those of all workers together.
//!
//! ## Example
//! ```click
//! TimedSource(0.1, LIMIT 3, STOP true) -> SetTimestamp -> Queue -> DelayUnqueue(0.05)
//!   -> TimestampAccum -> Discard;
//! ```
//!
//! ## See also
//! SetTimestamp, SetTimestampDelta, TimestampDiff, MeasureSink

use crate::plumbing::engine::text;
use crate::prelude::*;
use locks::IgnorePoison;
use std::sync::{Arc, Mutex};

/// One worker's sums, in nanoseconds. Times may be negative, as two's complement.
#[derive(Clone, Default)]
struct Sums {
    count: Counter,
    time: Counter,
    min: Counter,
    max: Counter,
}

impl Sums {
    fn add(&self, ns: i64) {
        let first = self.count.get() == 0;
        if first || ns < self.min.get().cast_signed() {
            self.min.set(ns.cast_unsigned());
        }
        if first || ns > self.max.get().cast_signed() {
            self.max.set(ns.cast_unsigned());
        }
        self.time.set(self.time.get().wrapping_add(ns.cast_unsigned()));
        self.count.add(1);
    }
    fn take(&self, old: &Self) {
        for (new, old) in
            [(&self.count, &old.count), (&self.time, &old.time), (&self.min, &old.min), (&self.max, &old.max)]
        {
            new.set(old.get());
        }
    }
}

/// The sums of all workers, by worker.
#[derive(Default)]
struct AllSums(Mutex<Vec<Sums>>);

impl AllSums {
    /// Those of workers that have seen packets.
    fn used(&self) -> Vec<Sums> {
        self.0.lock().ignore_poison().iter().filter(|s| s.count.get() > 0).cloned().collect()
    }
    fn seconds(ns: i64) -> f64 {
        ns as f64 / 1e9
    }
    fn total(&self) -> (u64, f64) {
        let used = self.used();
        let time = used.iter().fold(0.0, |sum, s| sum + Self::seconds(s.time.get().cast_signed()));
        (used.iter().map(|s| s.count.get()).sum(), time)
    }
}

/// The `TimestampAccum` element.
pub struct TimestampAccum {
    sums: Sums,
}

impl Element for TimestampAccum {
    const CLASS: &'static str = "TimestampAccum";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::TIMESTAMP;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("measure/timestampaccum");

    fn configure(_args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (worker, workers) = (cx.worker().0, cx.workers());
        let all: Arc<AllSums> = cx.shared(AllSums::default);
        let sums = Sums::default();
        let mut of = all.0.lock().ignore_poison();
        of.resize_with(workers.max(worker + 1), Sums::default);
        if let Some(mine) = of.get_mut(worker) {
            *mine = sums.clone();
        }
        drop(of);
        Ok(Self { sums })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.sums.count);
        h.shared_read("time", |all: &AllSums, _| Ok(text::general(all.total().1)));
        h.shared_read("average_time", |all: &AllSums, _| {
            let (count, time) = all.total();
            Ok(if count == 0 { "nan".to_owned() } else { text::general(time / count as f64) })
        });
        h.shared_read("min", |all: &AllSums, _| {
            let least = all.used().iter().map(|s| s.min.get().cast_signed()).min();
            Ok(text::general(AllSums::seconds(least.unwrap_or(0))))
        });
        h.shared_read("max", |all: &AllSums, _| {
            let most = all.used().iter().map(|s| s.max.get().cast_signed()).max();
            Ok(text::general(AllSums::seconds(most.unwrap_or(0))))
        });
        h.write("reset_counts", |e, _, _| {
            e.sums.take(&Sums::default());
            Ok(())
        });
        h.listed(&["count", "time", "average_time", "reset_counts b"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.sums.take(&old.sums);
    }
}

impl Simple for TimestampAccum {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        self.sums.add(cx.now_ns().wrapping_sub(packet.timestamp_ns()).cast_signed());
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn adds_up_ages() {
        let mut bench = Bench::simulated("e :: TimestampAccum;", 1, 1);
        assert_eq!(
            ["count", "time", "average_time", "min", "max"].map(|h| bench.read(h)),
            ["0", "0", "nan", "0", "0"]
        );
        let now = bench.router().now_ns();
        for age_ms in [10, 30, 20] {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.set_timestamp_ns(now - age_ms * 1_000_000);
            assert_eq!(bench.send(0, packet).len(), 1);
        }
        let mut all = |h: &str| bench.read(h).parse::<f64>().unwrap();
        for (handler, want) in
            [("count", 3.0), ("time", 0.06), ("average_time", 0.02), ("min", 0.01), ("max", 0.03)]
        {
            let got = all(handler);
            assert!((got - want).abs() < 1e-5, "{handler} {got}");
        }
        bench.write("reset_counts", "");
        assert_eq!(["count", "time", "min", "max"].map(|h| bench.read(h)), ["0", "0", "0", "0"]);
    }

    #[test]
    fn timestamps_of_the_future_count_against() {
        let mut bench = Bench::simulated("e :: TimestampAccum;", 1, 1);
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_timestamp_ns(bench.router().now_ns() + 2_000_000_000);
        bench.send(0, packet);
        for handler in ["time", "min", "max", "average_time"] {
            let got: f64 = bench.read(handler).parse().unwrap();
            assert!((got + 2.0).abs() < 1e-3, "{handler} {got}");
        }
    }
}
