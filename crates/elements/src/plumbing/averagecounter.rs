//! # AverageCounter
//! Counts packets and bytes, and measures their average rate from the first packet to the last.
//!
//! ## Synopsis
//! `AverageCounter([IGNORE, LINK_FCS, MAX, THRESHOLD])`
//!
//! `AverageCounterMP(...)` and `AverageCounterIMP(...)`, FastClick's, are the same.
//!
//! ## Arguments
//! - `IGNORE` (*number*, seconds, default 0): packets in the first seconds after the first packet do not
//!   count.
//! - `LINK_FCS` (*bool*, default true): whether packets have 4 more bytes on the wire than here, the frame
//!   check sequence, for `link_count` and `link_rate`.
//! - `MAX` (*int*, seconds, keyword, default 0): packets so long after the first one, or later, do not count;
//!   0 is no limit.
//! - `THRESHOLD` (*int*, packets per second, keyword, default 0): when a second has passed and the rate is
//!   higher than this, a line is printed and it starts again, once; 0 never.
//!
//! All but `IGNORE` are FastClick's.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `count` (read): packets counted.
//! - `byte_count`, `bit_count` (read): bytes and bits counted.
//! - `link_count` (read): bits on an Ethernet wire: with preamble, start delimiter and gap, 20 bytes for each
//!   packet, and the frame check sequence.
//! - `rate` (read): packets per second between the first packet, `IGNORE` seconds later, and the last.
//! - `byte_rate`, `bit_rate`, `link_rate` (read): bytes, bits, and bits on the wire per second, likewise.
//! - `time` (read): this time, in seconds.
//! - `reset`, `reset_now` (write): starts again.
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
    /// Bytes that a packet has on the wire and not here.
    framing: u64,
}

/// Bytes on an Ethernet wire around each frame: preamble, start delimiter and gap (IEEE 802.3 §4.2.3.2,
/// §4.4.2).
const GAPS: u64 = 20;
/// The bytes of the frame check sequence.
const FCS: u64 = 4;

impl WorkerRates {
    /// Packets and bytes.
    fn counted(&self) -> (u64, u64) {
        let of = self.of.lock().ignore_poison();
        let sum = |what: fn(&Measured) -> &Counter| of.iter().map(|m| what(m).get()).sum();
        (sum(|m| &m.packets), sum(|m| &m.bytes))
    }
    fn link_bits(&self) -> u64 {
        let (packets, bytes) = self.counted();
        bytes.saturating_add(packets.saturating_mul(self.framing)).saturating_mul(8)
    }
    fn duration_ms(&self) -> u64 {
        let of = self.of.lock().ignore_poison();
        let first = of.iter().map(|m| m.first_ms.get()).filter(|ms| *ms > 0).min().unwrap_or(0);
        let last = of.iter().map(|m| m.last_ms.get()).max().unwrap_or(0);
        last.saturating_sub(first).saturating_sub(self.ignore_ms).max(1)
    }
    fn per_second(&self, count: u64) -> String {
        text::general(count as f64 * 1000.0 / self.duration_ms() as f64)
    }
}

/// The `AverageCounter` element.
pub struct AverageCounter {
    measured: Measured,
    ignore_ms: u64,
    max_ms: u64,
    /// Packets per second from which on it starts again; 0 once it has.
    threshold: u64,
}

impl Element for AverageCounter {
    const CLASS: &'static str = "AverageCounter";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/averagecounter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ignore = args.p_or::<f64>("IGNORE", 0.0)?;
        if ignore < 0.0 {
            return Err(args.error("IGNORE must not be negative"));
        }
        let ignore_ms = (ignore * 1000.0) as u64;
        let fcs = if args.p_or("LINK_FCS", true)? { FCS } else { 0 };
        let max_ms = match args.k_or::<u32>("MAX", 0)? {
            0 => u64::MAX,
            seconds => 1000 * u64::from(seconds),
        };
        let threshold = args.k_or::<u32>("THRESHOLD", 0)?.into();
        let (worker, workers) = (cx.worker().0, cx.workers());
        let all: Arc<WorkerRates> =
            cx.shared(|| WorkerRates { ignore_ms, framing: GAPS + fcs, ..WorkerRates::default() });
        let measured = Measured::default();
        let mut of = all.of.lock().ignore_poison();
        of.resize_with(workers.max(worker + 1), Measured::default);
        if let Some(mine) = of.get_mut(worker) {
            *mine = measured.clone();
        }
        drop(of);
        Ok(Self { measured, ignore_ms, max_ms, threshold })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.measured.packets);
        h.counter("byte_count", |e| &e.measured.bytes);
        h.shared_read("bit_count", |all: &WorkerRates, _| Ok(all.counted().1.saturating_mul(8).to_string()));
        h.shared_read("link_count", |all: &WorkerRates, _| Ok(all.link_bits().to_string()));
        h.shared_read("rate", |all: &WorkerRates, _| Ok(all.per_second(all.counted().0)));
        h.shared_read("byte_rate", |all: &WorkerRates, _| Ok(all.per_second(all.counted().1)));
        h.shared_read("bit_rate", |all: &WorkerRates, _| {
            Ok(all.per_second(all.counted().1.saturating_mul(8)))
        });
        h.shared_read("link_rate", |all: &WorkerRates, _| Ok(all.per_second(all.link_bits())));
        h.shared_read("time", |all: &WorkerRates, _| Ok(text::general(all.duration_ms() as f64 / 1000.0)));
        for name in ["reset", "reset_now"] {
            h.write(name, |e, _, _| {
                e.measured.reset();
                Ok(())
            });
        }
        h.listed(&["count", "byte_count", "rate", "byte_rate", "reset b"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.measured.packets.set(old.measured.packets.get());
        self.measured.bytes.set(old.measured.bytes.get());
        self.measured.first_ms.set(old.measured.first_ms.get());
        self.measured.last_ms.set(old.measured.last_ms.get());
    }
}

impl Measured {
    fn reset(&self) {
        for counter in [&self.packets, &self.bytes, &self.first_ms, &self.last_ms] {
            counter.set(0);
        }
    }
}

impl AverageCounter {
    #[inline]
    fn count(&mut self, packets: &[Packet], cx: &Cx<'_>) {
        let now_ms = cx.now_ns() / 1_000_000;
        if self.measured.first_ms.get() == 0 {
            self.measured.first_ms.set(now_ms);
        }
        let since_first = now_ms.saturating_sub(self.measured.first_ms.get());
        if since_first >= self.max_ms {
            return;
        }
        if since_first >= self.ignore_ms {
            self.measured.packets.add(packets.len() as u64);
            self.measured.bytes.add(packets.iter().map(|p| p.len() as u64).sum());
        }
        self.measured.last_ms.set(now_ms);
        if self.threshold > 0 && since_first > 1000 {
            self.start_above_threshold(since_first, cx);
        }
    }

    /// Starts again if the rate is above the threshold.
    #[cold]
    fn start_above_threshold(&mut self, since_first: u64, cx: &Cx<'_>) {
        let rate = self.measured.packets.get().saturating_mul(1000) / since_first;
        if rate > self.threshold {
            let text = format!("{} :: {} : starting compute (rate {rate} pps)", cx.name(), cx.class());
            cx.log(Level::INFO, &text);
            self.threshold = 0;
            self.measured.reset();
        }
    }
}

impl Vector for AverageCounter {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.count(&batch, cx);
        cx.output_batch(0, batch);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        cx.lend(self, |cx| cx.pull(0, max, out));
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

    #[test]
    fn bits_and_bits_on_the_wire() {
        let bench = |arguments: &str| {
            let config = format!("TimedSource(0.1, 12345, LIMIT 11) -> e :: AverageCounter({arguments});");
            let mut bench = Bench::simulated(&config, 0, 1);
            bench.run();
            ["bit_count", "link_count", "bit_rate", "link_rate", "time"].map(|h| bench.read(h))
        };
        // 11 packets of 5, 29 and 25 bytes.
        assert_eq!(bench(""), ["440", "2552", "440", "2552", "1"]);
        assert_eq!(bench("0, false"), ["440", "2200", "440", "2200", "1"]);
        assert_eq!(bench("0.5, LINK_FCS false")[4], "0.5");
        assert!(Bench::error("AverageCounter(-1)").contains("IGNORE must not be negative"));
    }

    #[test]
    fn counts_up_to_a_time_and_from_a_rate_on() {
        let mut bench =
            Bench::simulated("TimedSource(0.1, 1, LIMIT 40) -> e :: AverageCounterMP(MAX 2);", 0, 1);
        assert_eq!(bench.run().len(), 40);
        assert_eq!((bench.read("count"), bench.read("time")), ("20".into(), "1.9".into()));
        let config = "TimedSource(0.1, 1, LIMIT 40) -> e :: AverageCounterIMP(THRESHOLD 5);";
        let mut bench = Bench::simulated(config, 0, 1);
        assert_eq!(bench.run().len(), 40);
        // The twelfth packet is the first one after more than a second.
        assert_eq!((bench.read("count"), bench.read("time")), ("28".into(), "2.7".into()));
    }
}
