//! # Discard
//! Throws packets away.
//!
//! ## Synopsis
//! `Discard([ACTIVE, BURST])`
//!
//! ## Arguments
//! - `ACTIVE` (*bool*, default true): whether to pull when the input is pull.
//! - `BURST` (*int*, default 1): how many packets to pull in one task run.
//!
//! ## Ports
//! One input, agnostic; no output. On a pull input a task pulls as fast as it can.
//!
//! ## Handlers
//! - `count` (read): packets discarded.
//! - `reset_counts` (write): sets the count to zero.
//! - `active` (read/write): the `ACTIVE` argument.
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
    const MANUAL: &'static str = manual!("plumbing/discard");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let burst = args.k::<u32>("BURST")?.unwrap_or(1).max(1) as usize;
        Ok(Self { count: Counter::new(), active, burst })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.write("reset_counts", |e, _, _| {
            e.count.set(0);
            Ok(())
        });
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = v.trim().parse().map_err(|_| "syntax error".to_owned())?;
            if e.active && cx.input_is_pull(0) {
                cx.reschedule();
            }
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.active && cx.input_is_pull(0) {
            cx.reschedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        let mut batch = cx.spare_batch();
        let n = cx.pull(0, self.burst.max(if cx.exact() { 1 } else { cx.vector() }), &mut batch);
        self.count.add(n as u64);
        cx.recycle(batch);
        if n > 0 || cx.upstream_active(0) {
            cx.reschedule();
        }
        n > 0
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl Vector for Discard {
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
    }
}
