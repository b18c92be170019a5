//! # Unqueue
//! Pulls packets as fast as it can and pushes them on.
//!
//! ## Synopsis
//! `Unqueue([BURST, ACTIVE, LIMIT])`
//!
//! ## Arguments
//! - `BURST` (*int*, packets, default 1): the most packets in one task run, but at least a batch
//!   (`valiant run --burst`). Negative means as many as there are; 0 means none. A run never moves more than
//!   65,536, so that other tasks run too.
//! - `ACTIVE` (*bool*, keyword, default true): whether to pull.
//! - `LIMIT` (*int*, packets, keyword, default -1): stops after this many packets; negative means no limit.
//!
//! ## Ports
//! One pull input, one push output. It sleeps while the input is empty.
//!
//! ## Handlers
//! - `count` (read): packets moved.
//! - `active`, `limit`, `burst` (read/write): the arguments.
//! - `reset`, `reset_counts` (write): set `count` to zero; `LIMIT` counts from there on.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> Queue -> Unqueue(BURST 4) -> Discard;
//! ```
//!
//! ## See also
//! Queue, RatedUnqueue, BandwidthRatedUnqueue, DelayUnqueue

use crate::plumbing::engine::text;
use crate::prelude::*;

/// The `Unqueue` element.
pub struct Unqueue {
    burst: usize,
    active: bool,
    limit: i32,
    count: Counter,
}

fn effective(burst: i32) -> usize {
    usize::try_from(burst).unwrap_or(i32::MAX as usize)
}

fn reset(e: &mut Unqueue, _value: &str, cx: &mut Cx<'_>) -> Result<(), String> {
    e.count.set(0);
    cx.reschedule();
    Ok(())
}

impl Element for Unqueue {
    const CLASS: &'static str = "Unqueue";
    const PROCESSING: &'static str = "l/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("queues/unqueue");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let burst = args.p::<i32>("BURST")?.unwrap_or(1);
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let limit = args.k::<i32>("LIMIT")?.unwrap_or(-1);
        if burst == 0 {
            cx.warn("BURST size 0, no packets will be pulled");
        }
        Ok(Self { burst: effective(burst), active, limit, count: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.read("active", |e| e.active.to_string());
        h.read("burst", |e| e.burst.to_string());
        h.read("limit", |e| e.limit.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "syntax error")?;
            cx.reschedule();
            Ok(())
        });
        h.write("limit", |e, v, cx| {
            e.limit = text::value(v, "syntax error")?;
            cx.reschedule();
            Ok(())
        });
        h.write("burst", |e, v, cx| {
            e.burst = effective(text::value(v, "syntax error")?);
            cx.reschedule();
            Ok(())
        });
        h.task();
        h.write("reset", reset);
        h.write("reset_counts", reset);
        h.listed(&[
            "active c",
            "count",
            "burst",
            "limit",
            "reset b",
            "reset_counts Ub",
            "scheduled",
            "tickets",
            "home_thread",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let left = u64::try_from(self.limit).map_or(u64::MAX, |l| l.saturating_sub(self.count.get()));
        if !self.active || left == 0 || self.burst == 0 {
            return false;
        }
        let wanted = self.burst.max(cx.batch_size()).min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut moved = 0;
        while moved < wanted && self.active && cx.may_go_on(moved) {
            let mut batch = cx.spare_batch();
            let most = cx.batch_size().min(wanted - moved);
            let n = cx.lend(self, |cx| cx.pull(0, most, &mut batch));
            self.count.add(n as u64);
            cx.output_batch(0, batch);
            if n == 0 {
                break;
            }
            moved += n;
            cx.flush_lending(self);
        }
        if moved > 0 || cx.upstream_active(0) {
            cx.reschedule();
        }
        moved > 0
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl Vector for Unqueue {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn moves_everything_then_sleeps() {
        let mut bench =
            Bench::with_config("InfiniteSource(DATA a, LIMIT 7) -> Queue -> e :: Unqueue(BURST 3);", 0, 1);
        assert_eq!(bench.run().len(), 7);
        assert_eq!(bench.read("count"), "7");
    }

    #[test]
    fn respects_its_limit() {
        let mut bench =
            Bench::with_config("InfiniteSource(DATA a, LIMIT 7) -> Queue -> e :: Unqueue(LIMIT 2);", 0, 1);
        assert_eq!(bench.run().len(), 2);
    }

    #[test]
    fn pushes_into_a_full_queue_as_click_does() {
        let config = "InfiniteSource(DATA a, LIMIT 7) -> Queue -> e :: Unqueue -> q :: Queue(2) -> Unqueue(ACTIVE false) -> Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.run();
        assert_eq!((bench.read("count"), bench.read("q.drops")), ("7".into(), "5".into()));
    }

    #[test]
    fn handlers_start_it_again() {
        let mut bench = Bench::with_config(
            "InfiniteSource(DATA a, LIMIT 9) -> Queue -> e :: Unqueue(LIMIT 2, ACTIVE false);",
            0,
            1,
        );
        assert_eq!(bench.run().len(), 0);
        bench.write("active", "true");
        assert_eq!(bench.run().len(), 2);
        bench.write("reset", "");
        assert_eq!(bench.run().len(), 2);
        bench.write("limit", "-1");
        bench.write("burst", "-1");
        assert_eq!(bench.run().len(), 5);
        assert!(bench.try_write("burst", "x").is_err());
    }
}
