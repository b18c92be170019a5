//! # Discard
//! Drops all packets.
//!
//! ## Synopsis
//! `Discard([ACTIVE, BURST])`
//!
//! ## Arguments
//! - `ACTIVE` (*bool*, default true): whether to pull. By keyword; only with a pull input.
//! - `BURST` (*int*, default 1): the most packets to pull in one task run; 0 means as many as there are. By
//!   keyword. A run pulls at least a batch (`valiant run --burst`). It never pulls more than
//!   65,536, so that other tasks run too.
//!
//! ## Ports
//! One input, agnostic; no output. On a pull input a task pulls as fast as it can, and sleeps while there is
//! nothing.
//!
//! ## Handlers
//! - `count` (read): packets discarded.
//! - `reset_counts` (write): sets the count to zero.
//! - `active` (read/write): the `ACTIVE` argument, of an element with a pull input.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task, which an element with a pull
//!   input has.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Queue -> Discard;
//! ```
//!
//! ## See also
//! Idle, TimedSink

use super::engine::text;
use crate::prelude::*;

/// The `Discard` element.
pub struct Discard {
    count: Counter,
    active: bool,
    burst: usize,
}

impl Element for Discard {
    const CLASS: &'static str = "Discard";
    const PORTS: &'static str = "1/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/discard");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let burst = match args.k::<u32>("BURST")?.unwrap_or(1) {
            0 => usize::MAX,
            n => n as usize,
        };
        Ok(Self { count: Counter::new(), active, burst })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.task_only(|ports| ports.input_is_pull(0));
        h.write("reset_counts", |e, _, _| {
            e.count.set(0);
            Ok(())
        });
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "syntax error")?;
            if e.active && cx.input_is_pull(0) {
                cx.reschedule();
            } else {
                cx.unschedule();
            }
            Ok(())
        });
        h.only(&["active"], |ports| ports.input_is_pull(0));
        h.listed(&["count", "reset_counts b", "active c", "scheduled", "tickets", "home_thread"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.input_is_pull(0) && self.active {
            cx.reschedule();
        }
        if !cx.input_is_pull(0) && !self.active {
            return Err("ACTIVE is meaningless in push context".to_owned());
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        let most = self.burst.max(cx.batch_size());
        let mut pulled = 0;
        while pulled < most && cx.may_go_on(pulled) {
            let mut batch = cx.spare_batch();
            let most = cx.batch_size().min(most - pulled);
            let n = cx.pull_lending(self, 0, most, &mut batch);
            cx.recycle(batch);
            if n == 0 {
                break;
            }
            pulled += n;
        }
        self.count.add(pulled as u64);
        if pulled > 0 || cx.upstream_active(0) {
            cx.reschedule();
        }
        pulled > 0
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl Vector for Discard {
    #[inline]
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.count.add(batch.len() as u64);
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_what_it_discards() {
        let mut bench = Bench::new("Discard()");
        assert!(bench.push(0, b"x").is_empty());
        assert_eq!(bench.read("count"), "1");
        bench.write("reset_counts", "");
        assert_eq!(bench.read("count"), "0");
    }

    #[test]
    fn pulls_only_while_active() {
        let config = "InfiniteSource(LIMIT 5) -> Queue -> e :: Discard(ACTIVE false, BURST 0);";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.run();
        assert_eq!(bench.read("count"), "0");
        assert_eq!((bench.read("scheduled"), bench.read("tickets")), ("false".to_owned(), "1024".to_owned()));
        bench.write("tickets", "512");
        assert_eq!(bench.read("tickets"), "512");
        bench.write("active", "yes");
        bench.run();
        assert_eq!(bench.read("count"), "5");
        assert!(bench.try_write("active", "perhaps").is_err());
    }

    #[test]
    fn active_means_nothing_where_packets_are_pushed() {
        let mut bench = Bench::new("Discard()");
        assert!(bench.try_write("active", "true").is_err());
        assert!(Bench::error("Discard(ACTIVE false)").contains("ACTIVE is meaningless in push context"));
    }
}
