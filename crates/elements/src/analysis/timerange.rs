//! # TimeRange
//! Notes the earliest and the latest timestamp of the packets that pass.
//!
//! ## Synopsis
//! `TimeRange([SIMPLE])`
//!
//! ## Arguments
//! - `SIMPLE` (*bool*, keyword, default false): whether timestamps are in order, so that the first packet has
//!   the earliest and the last packet the latest.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `first` (read): the earliest timestamp, in seconds since the epoch; 0 before there is one.
//! - `last` (read): the latest timestamp.
//! - `range` (read): both, with a space between them.
//! - `interval` (read): the time between them, in seconds.
//! - `reset` (write): starts again.
//!
//! ## Threads
//! Each worker notes the times of its own packets; handlers show the earliest and the latest of all.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true) -> t :: TimeRange -> Discard;
//! DriverManager(wait, print t.range);
//! ```
//!
//! ## See also
//! SetTimestamp, TimeSortedSched

use crate::plumbing::engine::text;
use crate::prelude::*;
use locks::IgnorePoison;
use std::sync::Mutex;

/// One worker's times, in nanoseconds since the epoch; 0 for none.
#[derive(Clone, Default)]
struct Times {
    first: Counter,
    last: Counter,
}

/// The times of all workers.
#[derive(Default)]
struct AllTimes(Mutex<Vec<Times>>);

impl AllTimes {
    fn range(&self) -> (i64, i64) {
        let of = self.0.lock().ignore_poison();
        let first = of.iter().map(|t| t.first.get()).filter(|ns| *ns > 0).min().unwrap_or(0);
        let last = of.iter().map(|t| t.last.get()).max().unwrap_or(0);
        (first.cast_signed(), last.cast_signed())
    }
}

/// The `TimeRange` element.
pub struct TimeRange {
    times: Times,
    simple: bool,
}

impl Element for TimeRange {
    const CLASS: &'static str = "TimeRange";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::TIMESTAMP;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("analysis/timerange");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (worker, times) = (cx.worker().0, Times::default());
        let all = cx.shared(AllTimes::default);
        let mut of = all.0.lock().ignore_poison();
        if of.len() <= worker {
            of.resize_with(worker + 1, Times::default);
        }
        of[worker] = times.clone();
        drop(of);
        Ok(Self { times, simple: args.k_or("SIMPLE", false)? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<AllTimes>("first", |all, _| Ok(text::timestamp(all.range().0)));
        h.shared_read::<AllTimes>("last", |all, _| Ok(text::timestamp(all.range().1)));
        h.shared_read::<AllTimes>("range", |all, _| {
            let (first, last) = all.range();
            Ok(format!("{} {}", text::timestamp(first), text::timestamp(last)))
        });
        h.shared_read::<AllTimes>("interval", |all, _| {
            let (first, last) = all.range();
            Ok(text::timestamp(last.wrapping_sub(first)))
        });
        h.write("reset", |e, _, _| {
            e.times.first.set(0);
            e.times.last.set(0);
            Ok(())
        });
        h.listed(&["first", "last", "range", "interval", "reset b"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.times.first.set(old.times.first.get());
        self.times.last.set(old.times.last.get());
    }
}

impl TimeRange {
    #[inline]
    fn note(&self, packets: &[Packet]) {
        let (mut first, mut last) = (self.times.first.get(), self.times.last.get());
        for ns in packets.iter().map(Packet::timestamp_ns) {
            if first == 0 {
                (first, last) = (ns, ns);
            } else if self.simple || last < ns {
                last = ns;
            } else if ns < first {
                first = ns;
            }
        }
        self.times.first.set(first);
        self.times.last.set(last);
    }
}

impl Vector for TimeRange {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.note(&batch);
        cx.output_batch(0, batch);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        cx.pull_lending(self, 0, max, out);
        self.note(out.get(before..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn send(bench: &mut Bench, times_ns: &[u64]) {
        for ns in times_ns {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.set_timestamp_ns(*ns);
            assert_eq!(bench.send(0, packet).len(), 1);
        }
    }

    #[test]
    fn notes_the_range() {
        let mut bench = Bench::new("TimeRange()");
        assert_eq!(
            (bench.read("range"), bench.read("interval")),
            ("0.000000 0.000000".into(), "0.000000".into())
        );
        send(&mut bench, &[5_000_000_000, 3_500_000_000, 7_000_000_001, 6_000_000_000]);
        assert_eq!(bench.read("range"), "3.500000 7.000000001");
        assert_eq!((bench.read("first"), bench.read("last")), ("3.500000".into(), "7.000000001".into()));
        assert_eq!(bench.read("interval"), "3.500000001");
        bench.write("reset", "");
        send(&mut bench, &[2_000_000_000]);
        assert_eq!(bench.read("range"), "2.000000 2.000000");
    }

    #[test]
    fn simple_takes_the_first_and_the_last_packet() {
        let mut bench = Bench::new("TimeRange(SIMPLE true)");
        send(&mut bench, &[5_000_000_000, 9_000_000_000, 6_000_000_000]);
        assert_eq!(bench.read("range"), "5.000000 6.000000");
    }
}
