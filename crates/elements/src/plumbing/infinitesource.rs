//! # InfiniteSource
//! Makes packets as fast as they are accepted downstream.
//!
//! ## Synopsis
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE, LENGTH, STOP, END_CALL, TIMESTAMP, HEADROOM])`
//!
//! ## Arguments
//! - `DATA` (*string data*): the packet's contents. The default is 69 bytes of text.
//! - `LIMIT` (*int*, default -1): how many packets in all; negative means no limit.
//! - `BURST` (*int*, default 1): the most packets in one task run, but at least a batch
//!   (`valiant run --burst`). A run never makes more than 65,536, so that other tasks run too.
//! - `ACTIVE` (*bool*, default true): whether to make packets.
//! - `LENGTH` (*int*, bytes, default -1): contents are cut or repeated to this length; negative leaves them
//!   alone. By keyword; `DATASIZE` is an old name.
//! - `STOP` (*bool*, default false): whether to stop the driver after the last packet. By keyword.
//! - `END_CALL` (*handler, value*): instead, a write handler to call then. By keyword.
//! - `TIMESTAMP` (*bool*, default true): whether packets carry the time at which they were made. By keyword.
//! - `HEADROOM` (*int*, bytes, default 128): room before the contents. By keyword.
//!
//! ## Ports
//! No input, one output; agnostic. It sleeps while the queues downstream are full.
//!
//! ## Handlers
//! - `count` (read): packets made.
//! - `reset` (write): sets `count` to zero and starts again.
//! - `data`, `limit`, `burst`, `active`, `length` (read/write): the arguments. `burstsize` and `datasize` are
//!   old names.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task, which an element with a push
//!   output has.
//!
//! ## Threads
//! One instance, on one worker: the limit is that of the whole router.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<00 01 02>, LIMIT 5, STOP true) -> Print -> Discard;
//! ```
//!
//! ## See also
//! RatedSource, TimedSource, FastUDPSource

use super::engine::call::HandlerCall;
use super::engine::payload::Payload;
use super::engine::text;
use crate::prelude::*;
use lang::args::{Bytes, Raw};

/// The `InfiniteSource` element.
pub struct InfiniteSource {
    payload: Payload,
    limit: i64,
    burst: usize,
    active: bool,
    timestamp: bool,
    end: Option<HandlerCall>,
    count: Counter,
}

impl InfiniteSource {
    fn left(&self) -> usize {
        u64::try_from(self.limit).map_or(usize::MAX, |limit| limit.saturating_sub(self.count.get()) as usize)
    }
    /// Appends up to `most` packets to `out`; returns how many. The packets of a batch have the same
    /// timestamp.
    fn make(&self, most: usize, out: &mut Batch, cx: &Cx<'_>) -> usize {
        let (before, now) = (out.len(), self.timestamp.then(|| cx.now_ns()));
        out.extend((0..most).map_while(|_| self.payload.packet(now)));
        out.len() - before
    }
    /// Called after a change: there may be work again.
    fn wake(&self, cx: &mut Cx<'_>) {
        if self.active && self.left() > 0 {
            if cx.output_is_pull(0) {
                cx.set_nonempty(true);
            } else {
                cx.reschedule();
            }
        }
    }
    fn end(&mut self, cx: &mut Cx<'_>) {
        if let Some(end) = self.end.clone().filter(|_| self.limit >= 0) {
            end.fire(self, cx);
        }
    }
}

impl Element for InfiniteSource {
    const CLASS: &'static str = "InfiniteSource";
    const LIVE: bool = true;
    const PORTS: &'static str = "0/1";
    const SHARING: Sharing = Sharing::Single;
    const NOTIFY: Notify = Notify::Empty;
    const READS: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/infinitesource");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let data = args.p::<Bytes>("DATA")?.map(|b| b.0);
        let limit = args.p("LIMIT")?.unwrap_or(-1);
        let burst: i32 = args.p("BURST")?.unwrap_or(1);
        let active = args.p("ACTIVE")?.unwrap_or(true);
        let timestamp = args.k("TIMESTAMP")?.unwrap_or(true);
        let length: Option<i32> = args.k("LENGTH")?;
        let length = args.k("DATASIZE")?.or(length).unwrap_or(-1);
        let stop = args.k("STOP")?.unwrap_or(false);
        let end = args.k::<Raw>("END_CALL")?.and_then(|raw| HandlerCall::parse(&raw.0));
        let headroom = args.k::<u16>("HEADROOM")?.map_or(dpdk::DEFAULT_HEADROOM, usize::from);
        let burst = usize::try_from(burst).ok().filter(|b| *b > 0).ok_or("burst size must be >= 1")?;
        if stop && end.is_some() {
            return Err("END_CALL and STOP are mutually exclusive".into());
        }
        let end = if stop { HandlerCall::parse("stop") } else { end };
        let payload = Payload::new(data, length.into(), headroom)?;
        Ok(Self { payload, limit, burst, active, timestamp, end, count: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.task_only(|ports| !ports.output_is_pull(0));
        h.write("reset", |e, _, cx| {
            e.count.set(0);
            e.wake(cx);
            Ok(())
        });
        h.read("data", |e| e.payload.data());
        h.write("data", |e, v, cx| {
            e.payload.set_data(v.as_bytes())?;
            e.wake(cx);
            Ok(())
        });
        h.read("limit", |e| e.limit.to_string());
        h.write("limit", |e, v, cx| {
            e.limit = text::value(v, "limit parameter must be integer")?;
            e.wake(cx);
            Ok(())
        });
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "active parameter must be boolean")?;
            e.wake(cx);
            Ok(())
        });
        for name in ["burst", "burstsize"] {
            h.read(name, |e| e.burst.to_string());
            h.write(name, |e, v, cx| {
                let wrong = "burstsize parameter must be integer >= 1";
                let burst: u32 = text::value(v, wrong)?;
                e.burst = if burst > 0 { burst as usize } else { return Err(wrong.to_owned()) };
                e.wake(cx);
                Ok(())
            });
        }
        for name in ["length", "datasize"] {
            h.read(name, |e| e.payload.length().to_string());
            h.write(name, |e, v, cx| {
                e.payload.set_length(text::value::<i32>(v, "length must be integer")?.into())?;
                e.wake(cx);
                Ok(())
            });
        }
        h.listed(&[
            "data %.",
            "limit .",
            "burst .",
            "active c",
            "count",
            "reset b",
            "length .",
            "burstsize .D",
            "datasize .D",
            "scheduled",
            "tickets",
            "home_thread",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(end) = &self.end {
            end.check(cx)?;
        }
        if cx.output_is_pull(0) {
            cx.set_nonempty(true);
        } else {
            cx.reschedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active || !cx.downstream_room(0) {
            return false;
        }
        let left = self.left();
        if left == 0 {
            self.end(cx);
            return false;
        }
        let wanted = self.burst.max(cx.batch_size()).min(left);
        let mut made = 0;
        while made < wanted && cx.may_go_on(made) {
            let mut batch = cx.spare_batch();
            let n = self.make(cx.batch_size().min(wanted - made), &mut batch, cx);
            made += n;
            cx.output_batch(0, batch);
            if n == 0 {
                break;
            }
            cx.flush_lending(self);
        }
        // As in Click, a handler that the packets cause to be called sees the count before them.
        self.count.add(made as u64);
        cx.reschedule_with_room(0);
        made > 0
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }

    fn reconfigured(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        // As in Click, the count begins anew, and one that has ended waits for a handler that wakes it.
        if !old.active || old.left() == 0 {
            if cx.output_is_pull(0) {
                cx.set_nonempty(false);
            } else {
                cx.unschedule();
            }
        }
    }
}

impl Vector for InfiniteSource {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let left = if self.active { self.left() } else { 0 };
        if left == 0 {
            if self.active {
                self.end(cx);
            }
            return cx.set_nonempty(false);
        }
        let made = self.make(max.min(left), out, cx);
        self.count.add(made as u64);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn makes_packets_up_to_its_limit() {
        let mut bench = Bench::new("InfiniteSource(DATA \\<01 02>, LIMIT 3, BURST 2, LENGTH 3)");
        let packets = bench.run();
        assert_eq!(packets, vec![(0, vec![1, 2, 1]); 3]);
        assert_eq!(bench.read("count"), "3");
        assert_eq!(bench.read("length"), "3");
        bench.write("limit", "5");
        assert_eq!(bench.run().len(), 2);
        bench.write("data", "xyz");
        bench.write("length", "-1");
        bench.write("reset", "");
        assert_eq!(bench.run(), vec![(0, b"xyz".to_vec()); 5]);
    }

    #[test]
    fn goes_on_on_another_worker() {
        let config = "e :: InfiniteSource(DATA a, LIMIT 3) -> sw :: Switch -> a :: Counter -> Discard;
            sw [1] -> b :: Counter -> Discard; p :: Queue -> ps :: PullSwitch -> u :: Unqueue -> Discard; Idle -> p; Idle -> [1] ps;
            t :: TimedUnqueue(1000) -> Discard; Idle -> Queue -> t;";
        let options = runtime::Options { workers: 2, simulated_time: true, ..runtime::Options::default() };
        let mut bench = runtime::testing::Bench::with(&crate::registry(), config, 0, 0, options);
        bench.run();
        for (handler, value) in [
            ("sw.switch", "1"),
            ("ps.switch", "1"),
            ("e.limit", "5"),
            ("e.data", "xyz"),
            ("t.burst", "7"),
            ("u.active", "false"),
        ] {
            bench.write(handler, value);
        }
        bench.run();
        let state = "a.count b.count e.count e.limit e.data e.scheduled sw.switch ps.switch t.burst u.active";
        let look = |bench: &mut runtime::testing::Bench| -> Vec<String> {
            state.split(' ').map(|h| bench.read(h)).collect()
        };
        let before = look(&mut bench);
        assert_eq!(before.join(" "), "3 2 5 5 xyz false 1 1 7 false");
        for (element, worker) in [("e", "1"), ("u", "1"), ("t", "1"), ("e", "0"), ("u", "0")] {
            bench.write(&format!("{element}.home_thread"), worker);
            bench.run();
            assert_eq!(bench.read(&format!("{element}.home_thread")), worker);
            assert_eq!(look(&mut bench), before, "{element} on {worker}");
        }
        bench.write("e.home_thread", "1");
        bench.write("reset", "");
        bench.run();
        assert_eq!((bench.read("b.count"), bench.read("count")), ("7".to_owned(), "5".to_owned()));
    }

    #[test]
    fn a_written_configuration_begins_anew_and_does_not_wake_it() {
        let mut bench = Bench::new("InfiniteSource(DATA a, LIMIT 3)");
        assert_eq!(bench.run().len(), 3);
        bench.write("config", "DATA b, LIMIT 2");
        assert_eq!((bench.run().len(), bench.read("count"), bench.read("data")), (0, "0".into(), "b".into()));
        bench.write("reset", "");
        assert_eq!(bench.run().len(), 2);
    }

    #[test]
    fn default_contents() {
        let mut bench = Bench::new("InfiniteSource(LIMIT 1)");
        assert_eq!(bench.run()[0].1.len(), 69);
        assert_eq!((bench.read("length"), bench.read("limit")), ("-1".to_owned(), "1".to_owned()));
    }

    #[test]
    fn is_pulled_from() {
        let mut bench = Bench::with_config(
            "p :: StaticPullSwitch(0); e :: InfiniteSource(DATA a, LIMIT 3) -> p; p -> d :: Discard;",
            0,
            0,
        );
        bench.run();
        assert_eq!(bench.read("d.count"), "3");
        let config =
            "e :: InfiniteSource(DATA a, LIMIT 3, END_CALL c.reset) -> c :: Counter -> d :: Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.run();
        assert_eq!((bench.read("d.count"), bench.read("c.count")), ("3".to_owned(), "0".to_owned()));
    }

    #[test]
    fn stops_the_driver_at_its_limit() {
        for limit in [0, 2] {
            let config = format!("e :: InfiniteSource(LIMIT {limit}, STOP true) -> Discard;");
            let mut bench = Bench::with_config(&config, 0, 0);
            assert_eq!(bench.router().hub().stop_requests(), 0);
            for _ in 0..=limit {
                bench.turns(1);
            }
            assert_eq!(bench.router().hub().stop_requests(), 1);
        }
    }

    #[test]
    fn arguments_are_checked() {
        assert!(Bench::error("InfiniteSource(BURST 0)").contains("burst size must be >= 1"));
        assert!(Bench::error("InfiniteSource(STOP true, END_CALL e.reset)").contains("mutually exclusive"));
        assert!(Bench::error("InfiniteSource(END_CALL nobody.reset)").contains("no element named 'nobody'"));
    }
}
