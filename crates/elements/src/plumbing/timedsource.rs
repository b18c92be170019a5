//! # TimedSource
//! Makes a packet at regular intervals.
//!
//! ## Synopsis
//! `TimedSource([INTERVAL, DATA, LIMIT, ACTIVE, STOP, HEADROOM])`
//!
//! ## Arguments
//! - `INTERVAL` (*time in seconds*, default 0.5): the time before the first packet and between packets.
//! - `DATA` (*string data*): the packet's contents. The default is 69 bytes of text.
//! - `LIMIT` (*int*, default -1): how many packets in all; negative means no limit. By keyword.
//! - `ACTIVE` (*bool*, default true): whether to make packets. By keyword.
//! - `STOP` (*bool*, default false): whether to stop the driver one interval after the last packet. By
//!   keyword.
//! - `HEADROOM` (*int*, bytes, default 128): room before the contents. By keyword.
//!
//! ## Ports
//! No input, one push output.
//!
//! ## Handlers
//! - `count` (read): packets made.
//! - `reset` (write): sets `count` to zero and starts again.
//! - `interval`, `data`, `limit`, `active`, `headroom` (read/write): the arguments.
//!
//! ## Threads
//! One instance, on one worker: interval and limit are those of the whole router.
//!
//! ## Example
//! ```click
//! TimedSource(0.1, hello, LIMIT 3, STOP true) -> Print(CONTENTS ASCII) -> Discard;
//! ```
//!
//! ## See also
//! RatedSource, InfiniteSource, TimedSink

use super::engine::payload::Payload;
use super::engine::text;
use crate::prelude::*;
use lang::args::Bytes;
use std::time::Duration;

/// The `TimedSource` element.
pub struct TimedSource {
    payload: Payload,
    interval_ns: u64,
    /// When the timer expires.
    due_ns: u64,
    limit: i64,
    active: bool,
    stop: bool,
    count: Counter,
}

/// Reads an `INTERVAL` argument in nanoseconds.
pub(super) fn interval(args: &mut Args<'_>) -> Result<u64, ArgError> {
    let interval = args.p::<Duration>("INTERVAL")?.unwrap_or(Duration::from_millis(500));
    Ok(text::nanos(interval))
}

/// Reads an interval that is written to a handler, in nanoseconds.
pub(super) fn handler_interval(v: &str) -> Result<u64, String> {
    let interval: Duration = text::value(v, "bad interval")?;
    let ns = text::nanos(interval);
    if ns > 0 { Ok(ns) } else { Err("bad interval".to_owned()) }
}

/// The expiry after `due_ns`. Missed expiries are made up for, but only for a limited time.
pub(super) fn next(due_ns: u64, interval_ns: u64, now_ns: u64) -> u64 {
    const SHORTEST_NS: u64 = 1000;
    const MAKE_UP_NS: u64 = 10_000_000;
    due_ns.saturating_add(interval_ns.max(SHORTEST_NS)).max(now_ns.saturating_sub(MAKE_UP_NS))
}

impl TimedSource {
    fn set_timer(&mut self, due_ns: u64, cx: &mut Cx<'_>) {
        self.due_ns = due_ns;
        cx.timer_at(0, due_ns);
    }
    fn wake(&mut self, cx: &mut Cx<'_>) {
        if self.active && cx.timer_expiry(0).is_none() {
            self.set_timer(cx.now_ns(), cx);
        }
    }
}

impl Element for TimedSource {
    const CLASS: &'static str = "TimedSource";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/timedsource");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let interval_ns = interval(args)?;
        let data = args.p::<Bytes>("DATA")?.map(|b| b.0);
        let limit = args.k("LIMIT")?.unwrap_or(-1);
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let stop = args.k("STOP")?.unwrap_or(false);
        let headroom = args.k::<u16>("HEADROOM")?.map_or(dpdk::DEFAULT_HEADROOM, usize::from);
        let payload = Payload::new(data, -1, headroom)?;
        Ok(Self { payload, interval_ns, due_ns: 0, limit, active, stop, count: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.write("reset", |e, _, cx| {
            e.count.set(0);
            e.wake(cx);
            Ok(())
        });
        h.read("interval", |e| text::interval(e.interval_ns));
        h.write("interval", |e, v, _| handler_interval(v).map(|ns| e.interval_ns = ns));
        h.read("data", |e| e.payload.data());
        h.write("data", |e, v, _| {
            e.payload.set_data(v.as_bytes())?;
            Ok(())
        });
        h.read("limit", |e| e.limit.to_string());
        h.write("limit", |e, v, _| text::value(v, "syntax error").map(|n| e.limit = n));
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "bad active")?;
            e.wake(cx);
            Ok(())
        });
        h.read("headroom", |e| e.payload.headroom().to_string());
        h.write("headroom", |e, v, _| {
            text::value::<u16>(v, "bad headroom").map(|n| e.payload.set_headroom(n.into()))
        });
        h.listed(&["data %.", "limit .", "interval .", "active .c", "count", "headroom .", "reset b"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.active {
            self.set_timer(cx.now_ns().saturating_add(self.interval_ns), cx);
        }
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        let now = cx.now_ns();
        if !self.active {
            return;
        }
        if u64::try_from(self.limit).is_ok_and(|limit| self.count.get() >= limit) {
            if self.stop {
                cx.request_stop();
            }
            return;
        }
        if let Some(packet) = self.payload.packet(Some(now)) {
            self.count.add(1);
            cx.output(0, packet);
        }
        self.due_ns = next(self.due_ns, self.interval_ns, now);
        cx.timer_again(0, self.due_ns);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl Vector for TimedSource {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn one_packet_an_interval() {
        let mut bench = Bench::simulated("e :: TimedSource(0.25, ab, LIMIT 3);", 0, 1);
        let mut times = Vec::new();
        for _ in 0..50 {
            bench.turn();
            times.extend(bench.take().into_iter().map(|(_, p)| p.timestamp_ns() - 1_000_000_000_000_000_000));
        }
        assert_eq!(times, [250_000_000, 500_000_000, 750_000_000]);
        assert_eq!((bench.read("count"), bench.read("interval")), ("3".to_owned(), "250ms".to_owned()));
        bench.write("reset", "");
        assert_eq!(bench.run(), vec![(0, b"ab".to_vec()); 3]);
        bench.write("interval", "1.5");
        assert_eq!(bench.read("interval"), "1.500000s");
        assert!(bench.try_write("interval", "0").is_err());
    }

    #[test]
    fn nothing_while_inactive() {
        let mut bench = Bench::simulated("e :: TimedSource(0.25, ab, ACTIVE false, LIMIT 2);", 0, 1);
        assert!(bench.run().is_empty());
        bench.write("active", "true");
        assert_eq!(bench.run().len(), 2);
        assert!(bench.try_write("active", "x").is_err());
        assert!(bench.try_write("headroom", "x").is_err());
    }
}
