//! # TimedUnqueue
//! Pulls packets at fixed times and pushes them on.
//!
//! ## Synopsis
//! `TimedUnqueue(INTERVAL [, BURST])`
//!
//! ## Arguments
//! - `INTERVAL` (*time*, default unit seconds): the time between two pulls.
//! - `BURST` (*unsigned int*, at least 1, default 1): at most so many packets are pulled at a time.
//!
//! When packets have been pulled, none is for `INTERVAL`. A packet that comes later than that goes on at
//! once, and `INTERVAL` begins anew. A pull that is late by less than `INTERVAL` delays none of those after
//! it.
//!
//! ## Ports
//! One pull input, one push output. It sleeps while `INTERVAL` lasts, and while the input is empty.
//!
//! ## Handlers
//! - `interval` (read/write): the `INTERVAL` argument. A shorter one applies at once, a longer one from the
//!   next pull on.
//! - `burst` (read/write): the `BURST` argument.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! There is one instance: it runs on one worker, the first unless StaticThreadSched says otherwise.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> TimedUnqueue(10ms, 5) -> Discard;
//! ```
//!
//! ## See also
//! Burster, RatedUnqueue, Unqueue

use crate::plumbing::engine::text;
use crate::prelude::*;
use std::time::Duration;

/// What differs between the two classes.
pub trait Timed: Send + 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual.
    const MANUAL: &'static str;
    /// Packets at a time, unless the configuration says it.
    const BURST: usize;
}

/// The kind of `TimedUnqueue` itself.
pub struct One;

impl Timed for One {
    const CLASS: &'static str = "TimedUnqueue";
    const MANUAL: &'static str = manual!("queues/timedunqueue");
    const BURST: usize = 1;
}

/// `TimedUnqueue` and `Burster`.
pub struct TimedUnqueue<K: Timed = One> {
    interval: Duration,
    burst: usize,
    /// Until then nothing is pulled; for how many packets there is still time now.
    next_ns: u64,
    left: usize,
    kind: std::marker::PhantomData<K>,
}

fn checked(burst: usize) -> Result<usize, String> {
    if burst == 0 { Err("burst size 0".into()) } else { Ok(burst) }
}

impl<K: Timed> TimedUnqueue<K> {
    fn interval_ns(&self) -> u64 {
        text::nanos(self.interval)
    }
}

impl<K: Timed> Element for TimedUnqueue<K> {
    const CLASS: &'static str = K::CLASS;
    const PROCESSING: &'static str = "l/h";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const ROLE: Role = Role::RateLimit;
    const MANUAL: &'static str = K::MANUAL;

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let interval = args.mp::<Duration>("INTERVAL")?;
        let burst = checked(args.p("BURST")?.unwrap_or(K::BURST)).map_err(ArgError::new)?;
        Ok(Self { interval, burst, next_ns: 0, left: 0, kind: std::marker::PhantomData })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.task();
        h.read("interval", |e| text::interval(e.interval_ns()));
        h.read("burst", |e| e.burst.to_string());
        h.write("interval", |e, v, cx| {
            e.interval = text::value(v, "interval must be a timestamp")?;
            e.next_ns = e.next_ns.min(cx.now_ns().saturating_add(e.interval_ns()));
            cx.reschedule();
            Ok(())
        });
        h.write("burst", |e, v, _| {
            e.burst = checked(text::value(v, "burst must be an integer")?)?;
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now_ns();
        if self.left == 0 && now < self.next_ns {
            cx.set_full(true);
            cx.timer_at(0, self.next_ns);
            return false;
        }
        cx.set_full(false);
        let begins = self.left == 0;
        if begins {
            self.left = self.burst;
        }
        let mut pulled = 0;
        while self.left > 0 && cx.may_go_on(pulled) {
            let mut batch = cx.spare_batch();
            let most = cx.batch_size().min(self.left);
            let some = cx.pull_lending(self, 0, most, &mut batch);
            cx.output_batch(0, batch);
            pulled += some;
            self.left = if some > 0 { self.left - some } else { 0 };
        }
        if begins && pulled > 0 {
            let interval = self.interval_ns();
            let late = now.saturating_sub(self.next_ns);
            let from = if self.next_ns > 0 && late < interval { self.next_ns } else { now };
            self.next_ns = from.saturating_add(interval);
        }
        if self.left > 0 {
            // The rest of a long burst, after others have had their turn.
            cx.reschedule();
        } else if pulled > 0 || now < self.next_ns {
            cx.timer_at(0, self.next_ns);
        } else if cx.upstream_active(0) {
            cx.reschedule();
        }
        pulled > 0
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.reschedule();
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.next_ns = old.next_ns.min(cx.now_ns().saturating_add(self.interval_ns()));
        cx.reschedule();
    }
}

impl<K: Timed> Vector for TimedUnqueue<K> {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// How many packets have left by the end of each millisecond in which some did.
    fn departures(config: &str, packets: usize) -> Vec<(u64, usize)> {
        let mut bench = Bench::simulated(config, 1, 0);
        bench.run();
        let start = bench.router().now_ns();
        (0..packets).for_each(|_| drop(bench.push(0, &[0; 60])));
        let mut seen: Vec<(u64, usize)> = Vec::new();
        for _ in 0..600 {
            bench.turns(1);
            let count = bench.read("c.count").parse().unwrap();
            let at = (bench.router().now_ns() - start) / 1_000_000;
            match seen.last_mut() {
                Some(last) if last.1 == count => (),
                Some(last) if last.0 == at => last.1 = count,
                _ if count > 0 => seen.push((at, count)),
                _ => (),
            }
        }
        seen
    }

    #[test]
    fn so_many_packets_leave_in_each_interval() {
        let config = "e :: Queue -> TimedUnqueue(10ms, 3) -> c :: Counter -> Discard;";
        assert_eq!(departures(config, 7), [(0, 3), (10, 6), (20, 7)]);
        let config = "e :: Queue -> Burster(0.005) -> c :: Counter -> Discard;";
        assert_eq!(departures(config, 17), [(0, 8), (5, 16), (10, 17)]);
        // More than are processed together.
        let config = "e :: Queue -> TimedUnqueue(1, 300) -> c :: Counter -> Discard;";
        assert_eq!(departures(config, 200), [(0, 200)]);
    }

    #[test]
    fn a_shorter_interval_applies_at_once() {
        let config = "e :: Queue -> t :: TimedUnqueue(3600, 1) -> c :: Counter -> Discard;";
        let mut bench = Bench::simulated(config, 1, 0);
        bench.run();
        (0..3).for_each(|_| drop(bench.push(0, &[0; 60])));
        // Simulated time goes on to the next timer when there is nothing else to do.
        let start = bench.router().now_ns();
        while bench.read("c.count") == "0" {
            bench.turns(1);
        }
        bench.router().write("t.interval", "10ms").unwrap();
        bench.turns(20);
        assert_eq!(bench.read("c.count"), "3");
        assert!(bench.router().now_ns() - start < 1_000_000_000);
    }
}
