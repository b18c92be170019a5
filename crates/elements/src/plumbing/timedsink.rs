//! # TimedSink
//! Pulls a packet at regular intervals and throws it away.
//!
//! ## Synopsis
//! `TimedSink([INTERVAL])`
//!
//! ## Arguments
//! - `INTERVAL` (*time in seconds*, default 0.5): the time before the first pull and between pulls.
//!
//! ## Ports
//! One pull input, no output.
//!
//! ## Handlers
//! - `interval` (read/write): the `INTERVAL` argument.
//!
//! ## Threads
//! One instance, on one worker: one packet in an interval for the whole router.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> Print -> TimedSink(0.1);
//! ```
//!
//! ## See also
//! TimedSource, Discard

use super::engine::text;
use super::timedsource::{handler_interval, interval, next};
use crate::prelude::*;

/// The `TimedSink` element.
pub struct TimedSink {
    interval_ns: u64,
    /// When the timer expires.
    due_ns: u64,
}

impl Element for TimedSink {
    const CLASS: &'static str = "TimedSink";
    const PORTS: &'static str = "1/0";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const ROLE: Role = Role::Delay;
    const MANUAL: &'static str = manual!("plumbing/timedsink");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { interval_ns: interval(args)?, due_ns: 0 })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("interval", |e| text::interval(e.interval_ns));
        h.write("interval", |e, v, _| handler_interval(v).map(|ns| e.interval_ns = ns));
        h.listed(&["interval ."]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.due_ns = cx.now_ns().saturating_add(self.interval_ns);
        cx.timer_at(0, self.due_ns);
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        drop(cx.lend(self, |cx| cx.pull_one(0)));
        self.due_ns = next(self.due_ns, self.interval_ns, cx.now_ns());
        cx.timer_again(0, self.due_ns);
    }
}

impl Vector for TimedSink {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn one_packet_an_interval() {
        let config = "InfiniteSource(LIMIT 5) -> Queue -> c :: Counter -> e :: TimedSink(1);";
        let mut bench = Bench::simulated(config, 0, 0);
        bench.turns(40);
        assert_eq!(bench.read("c.count"), "5");
        assert!(bench.router().now_ns() >= 1_000_000_005_000_000_000);
        assert_eq!(bench.read("interval"), "1.000000s");
        bench.write("interval", "20ms");
        assert_eq!(bench.read("interval"), "20ms");
        assert!(bench.try_write("interval", "x").is_err());
    }
}
