//! # RatedSource
//! Makes packets at a rate.
//!
//! The rate is kept on average: time that the source could not use is made up for, up to a burst of two
//! packets or, from 200 packets per second on, of ten milliseconds. The source begins with such a burst.
//!
//! ## Synopsis
//! `RatedSource([DATA, RATE, LIMIT, ACTIVE, LENGTH, STOP, END_CALL, BANDWIDTH])`
//!
//! ## Arguments
//! - `DATA` (*string data*): the packet's contents. The default is 69 bytes of text.
//! - `RATE` (*int*, packets per second, default 10): the rate.
//! - `LIMIT` (*int*, default -1): how many packets in all; negative means no limit.
//! - `ACTIVE` (*bool*, default true): whether to make packets.
//! - `LENGTH` (*int*, bytes, default -1): contents are cut or repeated to this length; negative leaves them
//!   alone. By keyword; `DATASIZE` is an old name.
//! - `STOP` (*bool*, default false): whether to stop the driver after the last packet. By keyword.
//! - `END_CALL` (*write handler and value*): called once after the last packet, and again when the limit is
//!   reached again, in place of `STOP`: FastClick's. By keyword.
//! - `BANDWIDTH` (*bandwidth*, bytes per second unless it has a unit): instead of `RATE`, counting the
//!   packets' bytes. By keyword.
//!
//! ## Ports
//! No input, one output; agnostic.
//!
//! ## Handlers
//! - `count` (read): packets made.
//! - `reset` (write): sets `count` to zero and starts again.
//! - `data`, `rate`, `limit`, `active`, `length` (read/write): the arguments. `datasize` is an old name of
//!   `length`.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task, which an element with a push
//!   output has.
//!
//! ## Threads
//! One instance, on one worker: rate and limit are those of the whole router.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 1000, LIMIT 10, STOP true) -> Print -> Discard;
//! ```
//!
//! ## See also
//! InfiniteSource, TimedSource, RatedUnqueue, Shaper

use super::engine::bucket::{Bucket, Packets};
use super::engine::call::HandlerCall;
use super::engine::payload::Payload;
use super::engine::text;
use crate::prelude::*;
use lang::args::{Bandwidth, Bytes, Raw};

/// Click's headroom: link, IP and TCP headers.
const HEADROOM: usize = 60;

/// The `RatedSource` element.
pub struct RatedSource {
    payload: Payload,
    bucket: Bucket<Packets>,
    /// When the tokens were counted last.
    counted_ns: u64,
    limit: Option<u64>,
    active: bool,
    /// Called at the limit.
    end: Option<HandlerCall>,
    /// Whether it has been called; `STOP` stops the driver each time that a packet is asked for.
    called: bool,
    stop: bool,
    count: Counter,
}

/// The most packets that may be sent late.
fn burst(rate: u64) -> u64 {
    if rate < 200 { 2 } else { rate / 100 }
}

impl RatedSource {
    fn left(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| limit.saturating_sub(self.count.get()) as usize)
    }
    /// Appends up to `most` packets that are due to `out`.
    fn make(&mut self, most: usize, out: &mut Batch, cx: &Cx<'_>) {
        let now = cx.now_ns();
        self.counted_ns = now;
        let n = self.bucket.admit(now, most.min(self.left()));
        let before = out.len();
        out.extend((0..n).map_while(|_| self.payload.packet(Some(now))));
        self.count.add((out.len() - before) as u64);
    }
    fn restart(&mut self, cx: &mut Cx<'_>) {
        // As in Click, the time since the last packet counts.
        self.bucket.set(1, self.counted_ns);
        if self.active && !cx.output_is_pull(0) {
            cx.reschedule();
        }
    }
    /// Whether the limit is reached; then a handler may have to be called.
    fn ended(&mut self, cx: &mut Cx<'_>) -> bool {
        let ended = self.left() == 0;
        let again = !std::mem::replace(&mut self.called, ended) || self.stop;
        if let Some(end) = self.end.clone().filter(|_| ended && again) {
            end.fire(self, cx);
        }
        ended
    }
}

impl Element for RatedSource {
    const CLASS: &'static str = "RatedSource";
    const LIVE: bool = true;
    const PORTS: &'static str = "0/1";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/ratedsource");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let data = args.p::<Bytes>("DATA")?.map(|b| b.0);
        let mut rate = u64::from(args.p::<u32>("RATE")?.unwrap_or(10));
        let limit: i32 = args.p("LIMIT")?.unwrap_or(-1);
        let active = args.p("ACTIVE")?.unwrap_or(true);
        let length: Option<i32> = args.k("LENGTH")?;
        let length = args.k("DATASIZE")?.or(length).unwrap_or(-1);
        let stop = args.k("STOP")?.unwrap_or(false);
        let end = args.k::<Raw>("END_CALL")?.and_then(|raw| HandlerCall::parse(&raw.0));
        if stop && end.is_some() {
            return Err("END_CALL and STOP are mutually exclusive".into());
        }
        let end = if stop { HandlerCall::parse("stop") } else { end };
        let payload = Payload::new(data, length.into(), HEADROOM)?;
        let mut most = burst(rate);
        if let Some(Bandwidth(bandwidth)) = args.k("BANDWIDTH")?.filter(|b: &Bandwidth| b.0 > 0) {
            rate = bandwidth / (payload.len() as u64).max(1);
            most = burst(rate).max(2 * u64::try_from(length).unwrap_or(0));
        }
        let limit = u64::try_from(limit).ok();
        let bucket = Bucket::source(rate, most, cx);
        Ok(Self {
            payload,
            bucket,
            counted_ns: 0,
            limit,
            active,
            end,
            called: false,
            stop,
            count: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.task_only(|ports| !ports.output_is_pull(0));
        h.write("reset", |e, _, cx| {
            e.count.set(0);
            e.called = false;
            e.restart(cx);
            Ok(())
        });
        h.read("data", |e| e.payload.data());
        h.write("data", |e, v, _| {
            e.payload.set_data(v.as_bytes())?;
            Ok(())
        });
        h.read("rate", |e| e.bucket.rate());
        h.write("rate", |e, v, cx| {
            let rate = u64::from(text::value::<u32>(v, "syntax error")?);
            e.bucket.assign(rate, burst(rate), cx.now_ns());
            // The timer was set for the old rate.
            if e.active && !cx.output_is_pull(0) {
                cx.reschedule();
            }
            Ok(())
        });
        h.read("limit", |e| e.limit.map_or_else(|| "-1".to_owned(), |l| l.to_string()));
        h.write("limit", |e, v, cx| {
            e.limit = u64::try_from(text::value::<i32>(v, "syntax error")?).ok();
            if e.active && !cx.output_is_pull(0) {
                cx.reschedule();
            }
            Ok(())
        });
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "syntax error")?;
            if e.active && !cx.scheduled() {
                e.restart(cx);
            }
            Ok(())
        });
        for name in ["length", "datasize"] {
            h.read(name, |e| e.payload.length().to_string());
            h.write(name, |e, v, _| {
                e.payload.set_length(text::value::<i32>(v, "syntax error")?.into())?;
                Ok(())
            });
        }
        h.listed(&[
            "data %.",
            "rate",
            "limit .",
            "active c",
            "count",
            "reset b",
            "length",
            "datasize D",
            "scheduled",
            "tickets",
            "home_thread",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.counted_ns = cx.now_ns();
        if let Some(end) = &self.end {
            end.check(cx)?;
        }
        if !cx.output_is_pull(0) {
            cx.reschedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active || self.ended(cx) {
            return false;
        }
        let mut batch = cx.spare_batch();
        self.make(cx.batch_size(), &mut batch, cx);
        if batch.is_empty() {
            cx.recycle(batch);
            if let Some(at) = self.bucket.opens_at(cx.now_ns()) {
                cx.timer_at(0, at);
            }
            return false;
        }
        cx.output_batch(0, batch);
        cx.reschedule();
        true
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.reschedule();
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.counted_ns = old.counted_ns;
        self.called = old.called;
        self.bucket.take_over(&mut old.bucket, cx.now_ns());
    }
}

impl Vector for RatedSource {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        if self.active && !self.ended(cx) {
            self.make(max, out, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn keeps_its_rate() {
        let mut bench = Bench::simulated("RatedSource(DATA a, RATE 100) -> e :: SetTimestampDelta;", 0, 1);
        let mut times = Vec::new();
        while times.len() < 11 {
            bench.turn();
            times.extend(bench.take().into_iter().map(|(_, p)| p.timestamp_ns()));
        }
        let times: Vec<u64> = times.iter().map(|ns| ns / 1_000_000).collect();
        assert_eq!(times[..6], [0, 0, 11, 21, 31, 41], "the milliseconds of Click's bucket of two packets");
    }

    #[test]
    fn keeps_its_limit_and_starts_again() {
        let mut bench = Bench::simulated("e :: RatedSource(DATA ab, RATE 1000, LIMIT 3, LENGTH 3);", 0, 1);
        assert_eq!(bench.run(), vec![(0, b"aba".to_vec()); 3]);
        assert_eq!((bench.read("count"), bench.read("limit")), ("3".to_owned(), "3".to_owned()));
        bench.write("reset", "");
        bench.write("rate", "2000");
        assert_eq!(bench.run().len(), 3);
        assert_eq!(bench.read("rate"), "2000");
        bench.write("limit", "-1");
        assert_eq!(bench.read("limit"), "-1");
        assert!(bench.try_write("rate", "-1").is_err());
    }

    #[test]
    fn bandwidth_counts_bytes() {
        let mut bench = Bench::new("RatedSource(LENGTH 100, BANDWIDTH 1kBps)");
        assert_eq!(bench.read("rate"), "10");
        let mut bench = Bench::new("RatedSource(LENGTH 125, BANDWIDTH 1Mbps)");
        assert_eq!(bench.read("rate"), "1000");
    }

    #[test]
    fn stops_the_driver() {
        let mut bench = Bench::simulated("e :: RatedSource(RATE 1000, LIMIT 2, STOP true) -> Discard;", 0, 0);
        bench.run();
        assert_eq!(bench.read("count"), "2");
        assert_eq!(bench.router().hub().stop_requests(), 0, "the driver has taken the request");
    }
}
