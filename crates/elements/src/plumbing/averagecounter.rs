//! # AverageCounter
//! Counts packets and bytes, and measures their average rate from the first packet to the last.
//!
//! ## Synopsis
//! `AverageCounter([IGNORE])`
//!
//! ## Arguments
//! - `IGNORE` (*int*, seconds, default 0): packets in the first seconds after the first packet do not count.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `count` (read): packets counted.
//! - `byte_count` (read): bytes counted.
//! - `rate` (read): packets per second between the first packet, `IGNORE` seconds later, and the last.
//! - `byte_rate` (read): bytes per second, likewise.
//! - `reset` (write): starts again.
//!
//! ## Threads
//! Each worker counts its own packets; handlers report the sum, from the earliest first packet to the latest
//! last one. `IGNORE` is measured from each worker's own first packet.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 1000, LIMIT 100, STOP true) -> c :: AverageCounter -> Discard;
//! ```
//!
//! ## See also
//! Counter

use super::engine::text;
use crate::prelude::*;
use locks::IgnorePoison;
use std::sync::{Arc, Mutex};

/// One worker's measurements. Times are in milliseconds since the epoch, 0 before the first packet.
#[derive(Clone, Default)]
struct Measured {
    packets: Counter,
    bytes: Counter,
    first_ms: Counter,
    last_ms: Counter,
}

/// The measurements of all workers, by worker.
#[derive(Default)]
struct WorkerRates {
    of: Mutex<Vec<Measured>>,
    ignore_ms: u64,
}

impl WorkerRates {
    fn per_second(&self, what: fn(&Measured) -> &Counter) -> f64 {
        let of = self.of.lock().ignore_poison();
        let count: u64 = of.iter().map(|m| what(m).get()).sum();
        let first = of.iter().map(|m| m.first_ms.get()).filter(|ms| *ms > 0).min().unwrap_or(0);
        let last = of.iter().map(|m| m.last_ms.get()).max().unwrap_or(0);
        let duration_ms = last.saturating_sub(first).saturating_sub(self.ignore_ms).max(1);
        count as f64 * 1000.0 / duration_ms as f64
    }
}

/// The `AverageCounter` element.
pub struct AverageCounter {
    measured: Measured,
    ignore_ms: u64,
}

impl Element for AverageCounter {
    const CLASS: &'static str = "AverageCounter";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/averagecounter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ignore_ms = 1000 * u64::from(args.p::<u32>("IGNORE")?.unwrap_or(0));
        let (worker, workers) = (cx.worker().0, cx.workers());
        let all: Arc<WorkerRates> = cx.shared(|| WorkerRates { ignore_ms, ..WorkerRates::default() });
        let measured = Measured::default();
        let mut of = all.of.lock().ignore_poison();
        of.resize_with(workers.max(worker + 1), Measured::default);
        if let Some(mine) = of.get_mut(worker) {
            *mine = measured.clone();
        }
        drop(of);
        Ok(Self { measured, ignore_ms })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.measured.packets);
        h.counter("byte_count", |e| &e.measured.bytes);
        h.shared_read("rate", |all: &WorkerRates, _| Ok(text::general(all.per_second(|m| &m.packets))));
        h.shared_read("byte_rate", |all: &WorkerRates, _| Ok(text::general(all.per_second(|m| &m.bytes))));
        h.write("reset", |e, _, _| {
            for counter in [&e.measured.packets, &e.measured.bytes, &e.measured.first_ms, &e.measured.last_ms]
            {
                counter.set(0);
            }
            Ok(())
        });
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.measured.packets.set(old.measured.packets.get());
        self.measured.bytes.set(old.measured.bytes.get());
        self.measured.first_ms.set(old.measured.first_ms.get());
        self.measured.last_ms.set(old.measured.last_ms.get());
    }
}

impl AverageCounter {
    #[inline]
    fn count(&self, packets: &[Packet], cx: &Cx<'_>) {
        let now_ms = cx.now_ns() / 1_000_000;
        if self.measured.first_ms.get() == 0 {
            self.measured.first_ms.set(now_ms);
        }
        if now_ms.saturating_sub(self.measured.first_ms.get()) >= self.ignore_ms {
            self.measured.packets.add(packets.len() as u64);
            self.measured.bytes.add(packets.iter().map(|p| p.len() as u64).sum());
        }
        self.measured.last_ms.set(now_ms);
    }
}

impl Vector for AverageCounter {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.count(&batch, cx);
        cx.output_batch(0, batch);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        cx.pull(0, max, out);
        if let Some(new) = out.get(before..).filter(|new| !new.is_empty()) {
            self.count(new, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn measures_from_the_first_to_the_last() {
        let mut bench = Bench::simulated("TimedSource(0.1, 12345, LIMIT 11) -> e :: AverageCounter;", 0, 1);
        assert_eq!(bench.run().len(), 11);
        assert_eq!((bench.read("count"), bench.read("byte_count")), ("11".to_owned(), "55".to_owned()));
        assert_eq!((bench.read("rate"), bench.read("byte_rate")), ("11".to_owned(), "55".to_owned()));
        bench.write("reset", "");
        assert_eq!((bench.read("count"), bench.read("rate")), ("0".to_owned(), "0".to_owned()));
    }

    #[test]
    fn ignores_the_beginning() {
        let mut bench =
            Bench::simulated("TimedSource(0.1, 12345, LIMIT 21) -> e :: AverageCounter(1);", 0, 1);
        assert_eq!(bench.run().len(), 21);
        assert_eq!((bench.read("count"), bench.read("rate")), ("11".to_owned(), "11".to_owned()));
    }
}
