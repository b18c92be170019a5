//! # TimestampDiff
//! Measures how long packets took since RecordTimestamp.
//!
//! FastClick's. MeasureSource and MeasureSink measure more exactly, with a histogram of bounded size.
//!
//! ## Synopsis
//! `TimestampDiff(RECORDER [, OFFSET, N, MAXDELAY, SAMPLE, VERBOSE])`
//!
//! ## Arguments
//! - `RECORDER` (*element*): the RecordTimestamp that has recorded the packets.
//! - `OFFSET` (*int*, bytes, keyword, default 40): where packets have the number that NumberPacket has
//!   written.
//! - `N` (*int*, keyword, at most 134217728, default 16777216): how many delays are kept; later ones are not.
//! - `MAXDELAY` (*int*, milliseconds, keyword, default 1000): longer delays are not kept.
//! - `SAMPLE` (*int*, packets, keyword, default 1): only packets whose number is a multiple of this are
//!   measured; the others pass by output 0.
//! - `VERBOSE` (*bool*, keyword, default true): whether to print a line for each of these.
//!
//! ## Ports
//! One push input, one or two push outputs. Packets whose time was recorded leave by output 0; others, and
//! those that come a second time, go to output 1 if it is connected.
//!
//! ## Handlers
//! Delays are in microseconds, without fractions. Those that take a parameter look at the delays from that
//! index on.
//! - `average`, `avg` (read, parameter): the mean.
//! - `min`, `max` (read, parameter): the least and the greatest.
//! - `stddev` (read, parameter): the standard deviation.
//! - `perc00`, `perc01`, `perc05`, `perc10`, `perc25`, `median`, `perc75`, `perc90`, `perc95`, `perc99`,
//!   `perc100` (read, parameter): percentiles.
//! - `perc` (read, parameter): `perc P` or `perc P INDEX` is the percentile `P`, such as 99.9.
//! - `index` (read): the index of the last delay; -1 if there is none.
//! - `last` (read): the last delay.
//! - `dump` (read): a line `INDEX: DELAY` for each.
//!
//! ## Threads
//! All workers share the delays.
//!
//! ## Example
//! ```click
//! record :: RecordTimestamp(OFFSET 40);
//! InfiniteSource(LENGTH 60, LIMIT 100, STOP true) -> NumberPacket -> record
//!   -> Queue -> Unqueue -> diff :: TimestampDiff(record) -> Discard;
//! ```
//!
//! ## See also
//! RecordTimestamp, NumberPacket, TimestampAccum, MeasureSink

use super::engine::number;
use super::engine::record::{Missing, Record};
use super::engine::slots::{MOST, Slots};
use crate::plumbing::engine::call::first_word;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::ElementName;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const NO_TIME: DropReason = DropReason::new("no time recorded");

/// How many delays are kept without an `N`.
const KEPT: usize = 1 << 24;

/// The delays, in microseconds.
struct Delays {
    next: AtomicUsize,
    most: usize,
    of: Slots,
}

impl Delays {
    fn keep(&self, delay: u64) {
        // The count must not overflow, however many packets come.
        if self.next.load(Ordering::Relaxed) < self.most
            && let Some(place) = self.of.at(self.next.fetch_add(1, Ordering::Relaxed))
        {
            place.store(delay, Ordering::Relaxed);
        }
    }
    fn len(&self) -> usize {
        self.next.load(Ordering::Relaxed).min(self.most)
    }
    fn from(&self, begin: usize) -> impl Iterator<Item = u64> {
        (begin..self.len()).map(|n| self.of.get(n))
    }
    /// The mean; 0 if there is none.
    fn mean(&self, begin: usize) -> f64 {
        let (sum, n) = self.from(begin).fold((0.0, 0), |(sum, n), delay| (sum + delay as f64, n + 1));
        if n == 0 { 0.0 } else { sum / f64::from(n) }
    }
    fn deviation(&self, begin: usize) -> f64 {
        let mean = self.mean(begin);
        let n = self.len().saturating_sub(begin).max(1);
        (self.from(begin).fold(0.0, |sum, delay| sum + (delay as f64 - mean).powi(2)) / n as f64).sqrt()
    }
    /// The delay that so many percent are below.
    fn percentile(&self, percent: f64, begin: usize) -> f64 {
        let mut all: Vec<u64> = self.from(begin).collect();
        let Some(last) = all.len().checked_sub(1) else { return 0.0 };
        let index = ((percent * all.len() as f64 / 100.0) as usize).min(last);
        *all.select_nth_unstable(index).1 as f64
    }
    /// What `f` says about the delays from the index in the parameter on; 0 if there are none.
    fn answer(&self, parameter: &str, f: impl Fn(&Self, usize) -> f64) -> Result<String, String> {
        let begin = if parameter.trim().is_empty() { 0 } else { text::value::<u32>(parameter, "bad index")? };
        Ok(text::general(f(self, begin as usize)))
    }
}

/// The answer of the handler for a percentile.
fn percentile<const P: u32>(delays: &Delays, parameter: &str) -> Result<String, String> {
    delays.answer(parameter, |d, begin| d.percentile(f64::from(P), begin))
}

/// The `TimestampDiff` element.
pub struct TimestampDiff {
    record: Arc<Record>,
    offset: usize,
    max_ms: u64,
    sample: u64,
    verbose: bool,
    delays: Arc<Delays>,
}

impl Element for TimestampDiff {
    const CLASS: &'static str = "TimestampDiff";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[NO_TIME.when("the packet has no number, was not recorded, or comes a second time")];
    const MANUAL: &'static str = manual!("measure/timestampdiff");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ElementName(recorder) = args.mp("RECORDER")?;
        let offset = args.k_or::<u32>("OFFSET", 40)? as usize;
        let most = args.k_or::<u32>("N", 0)? as usize;
        let max_ms = u64::from(args.k_or::<u32>("MAXDELAY", 1000)?);
        let sample = u64::from(args.k_or::<u32>("SAMPLE", 1)?);
        let verbose = args.k_or("VERBOSE", true)?;
        if sample == 0 {
            return Err(args.error("SAMPLE must be positive"));
        }
        let wrong = "RECORDER must be a valid RecordTimestamp element";
        let record = cx.shared_of::<Record>(&recorder, "").map_err(|_| args.error(wrong))?;
        if most > MOST {
            return Err(args.error(format!("N must be at most {MOST}")));
        }
        let most = if most == 0 { KEPT } else { most };
        let delays = cx.shared(|| Delays { next: AtomicUsize::new(0), most, of: Slots::new(most) });
        Ok(Self { record, offset, max_ms, sample, verbose, delays })
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["average", "avg"] {
            h.shared_read_with(name, |d: &Delays, v| d.answer(v, Delays::mean));
        }
        for name in ["min", "perc00"] {
            h.shared_read_with(name, |d: &Delays, v| {
                d.answer(v, |d, begin| d.from(begin).min().unwrap_or(0) as f64)
            });
        }
        for name in ["max", "perc100"] {
            h.shared_read_with(name, |d: &Delays, v| {
                d.answer(v, |d, begin| d.from(begin).max().unwrap_or(0) as f64)
            });
        }
        h.shared_read_with("stddev", |d: &Delays, v| d.answer(v, Delays::deviation));
        h.shared_read_with("perc01", percentile::<1>);
        h.shared_read_with("perc05", percentile::<5>);
        h.shared_read_with("perc10", percentile::<10>);
        h.shared_read_with("perc25", percentile::<25>);
        h.shared_read_with("median", percentile::<50>);
        h.shared_read_with("perc75", percentile::<75>);
        h.shared_read_with("perc90", percentile::<90>);
        h.shared_read_with("perc95", percentile::<95>);
        h.shared_read_with("perc99", percentile::<99>);
        h.shared_read_with("perc", |d: &Delays, v| {
            let (percent, begin) = first_word(v);
            let percent: f64 = text::value(percent, "expected a percentile")?;
            d.answer(begin, |d, begin| d.percentile(percent.clamp(0.0, 100.0), begin))
        });
        h.shared_read("index", |d: &Delays, _| Ok((d.len().cast_signed() - 1).to_string()));
        h.shared_read("last", |d: &Delays, _| {
            Ok(d.len().checked_sub(1).map_or(0, |last| d.of.get(last)).to_string())
        });
        h.shared_read("dump", |d: &Delays, _| {
            Ok(d.from(0).enumerate().map(|(n, delay)| format!("{n}: {delay}\n")).collect())
        });
        h.listed(&[
            "average", "avg", "min", "max", "stddev", "perc00", "perc01", "perc05", "perc10", "perc25",
            "median", "perc75", "perc90", "perc95", "perc99", "perc100", "perc", "index", "last", "dump",
        ]);
    }
}

impl Simple for TimestampDiff {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now_ns();
        let number = number::read(&packet, self.offset, self.record.net_order);
        if number.is_some_and(|number| !number.is_multiple_of(self.sample)) {
            return Some(packet);
        }
        let recorded = match number.map_or(Err(Missing::NotRecorded), |n| self.record.take(n)) {
            Ok(recorded) => recorded,
            Err(missing) => {
                match missing {
                    Missing::TooLarge => cx.log(Level::WARN, &format!("{}: Out of index !", cx.name())),
                    Missing::Taken => {
                        cx.log(Level::WARN, &format!("{}: Timestamp read multiple times !", cx.name()));
                    }
                    Missing::NotRecorded => {}
                }
                cx.fail(packet, NO_TIME);
                return None;
            }
        };
        let delay_us = now.saturating_sub(recorded) / 1000;
        let delay_ms = delay_us / 1000;
        if delay_ms <= self.max_ms {
            self.delays.keep(delay_us);
        } else if self.verbose {
            let (n, most) = (number.unwrap_or(0), self.max_ms);
            cx.log(Level::WARN, &format!("Packet {n} experienced delay {delay_ms} ms > {most} ms"));
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn delays(of: &[u64]) -> Delays {
        let delays = Delays { next: AtomicUsize::new(0), most: 10, of: Slots::new(10) };
        of.iter().for_each(|d| delays.keep(*d));
        delays
    }

    #[test]
    fn statistics() {
        let d = delays(&[5, 1, 4, 2, 3]);
        assert_eq!((d.mean(0), d.mean(3), d.mean(9)), (3.0, 2.5, 0.0));
        assert!((d.deviation(0) - 2f64.sqrt()).abs() < 1e-9);
        assert_eq!(
            [0.0, 1.0, 20.0, 50.0, 99.0, 100.0].map(|p| d.percentile(p, 0)),
            [1.0, 1.0, 2.0, 3.0, 5.0, 5.0]
        );
        assert_eq!((d.percentile(50.0, 3), d.percentile(50.0, 5)), (3.0, 0.0));
        let full = delays(&[7; 20]);
        assert_eq!((full.len(), full.next.load(Ordering::Relaxed), full.mean(0)), (10, 10, 7.0));
    }

    #[test]
    fn measures_the_time_between() {
        let config = "e :: NumberPacket(0) -> r :: RecordTimestamp(OFFSET 0, N 100) -> Queue -> DelayUnqueue(20ms)
            -> d :: TimestampDiff(r, OFFSET 0, MAXDELAY 100); d -> out :: Counter -> Discard; d [1] -> late :: Counter -> Discard;";
        let mut bench = Bench::simulated(config, 1, 0);
        for _ in 0..5 {
            bench.push(0, &[0; 60]);
            bench.run();
        }
        assert_eq!(
            (bench.read("out.count"), bench.read("late.count"), bench.read("d.index")),
            ("5".into(), "0".into(), "4".into())
        );
        for handler in [
            "min",
            "avg",
            "average",
            "median",
            "perc99",
            "perc100",
            "perc 99.9",
            "perc 10 2",
            "last",
            "max 1",
        ] {
            let us: f64 = bench.read(&format!("d.{handler}")).parse().unwrap();
            assert!((20_000.0..20_100.0).contains(&us), "{handler}: {us}");
        }
        assert_eq!((bench.read("d.max 9"), bench.read("d.dump").lines().count()), ("0".into(), 5));
        assert!(bench.try_read("d.perc x").is_err() && bench.try_read("d.min x").is_err());
    }

    #[test]
    fn a_packet_has_one_time() {
        let mut bench = Bench::with_config(
            "r :: RecordTimestamp(OFFSET 0, N 2); Idle -> r -> Discard; e :: TimestampDiff(r, OFFSET 0);",
            1,
            2,
        );
        let lines = bench.listen();
        let packet = |n: u64| dpdk::Packet::from_bytes(&n.to_ne_bytes()).unwrap();
        bench.router().inject("r", 0, [packet(1)].into_iter().collect());
        for (n, output) in [(0, 1), (1, 0), (1, 1), (2, 1)] {
            assert_eq!(bench.push_packet(0, packet(n))[0].0, output, "{n}");
        }
        assert_eq!(bench.push(0, b"short")[0].0, 1);
        assert_eq!(*lines.lock().unwrap(), ["e: Timestamp read multiple times !", "e: Out of index !"]);
        assert_eq!(bench.read("index"), "0");
    }

    #[test]
    fn some_packets_are_measured() {
        let config = "e :: NumberPacket(0) -> r :: RecordTimestamp(OFFSET 0, N 100)
            -> d :: TimestampDiff(r, OFFSET 0, SAMPLE 3); d -> out :: Counter -> Discard; d [1] -> Discard;";
        let mut bench = Bench::simulated(config, 1, 0);
        for _ in 0..7 {
            bench.push(0, &[0; 60]);
        }
        // Those with the numbers 0, 3 and 6.
        assert_eq!((bench.read("d.index"), bench.read("out.count")), ("2".into(), "7".into()));
        assert!(Bench::error("TimestampDiff(e, SAMPLE 0)").contains("SAMPLE must be positive"));
    }

    #[test]
    fn long_delays_are_reported() {
        let config = "e :: NumberPacket(0) -> r :: RecordTimestamp(OFFSET 0) -> Queue -> DelayUnqueue(2) -> d :: TimestampDiff(r, OFFSET 0) -> Discard;";
        let mut bench = Bench::simulated(config, 1, 0);
        let lines = bench.listen();
        bench.push(0, &[0; 60]);
        bench.turns(1000);
        assert_eq!(*lines.lock().unwrap(), ["Packet 0 experienced delay 2000 ms > 1000 ms"]);
        assert_eq!(bench.read("d.index"), "-1");
    }

    #[test]
    fn arguments_are_checked() {
        let error = Bench::error("TimestampDiff(e)");
        assert!(error.contains("RECORDER must be a valid RecordTimestamp element"), "{error}");
        assert!(Bench::error("TimestampDiff(nobody)").contains("does not name an element"));
        assert!(Bench::error("TimestampDiff()").contains("RECORDER"));
    }
}
