//! # ReplayUnqueue
//! Pulls packets into memory, and pushes them again and again.
//!
//! FastClick's. It loads packets until the input is empty, which takes what time it takes, and then replays
//! them as fast as it can.
//!
//! ## Synopsis
//! `ReplayUnqueue([STOP, STOP_TIME, BURST, LIMIT, ACTIVE, TIMING, TIMING_FNT, USE_SIGNAL, VERBOSE, QUICK_CLONE, FREEONTERMINATE])`
//!
//! ## Arguments
//! All by keyword.
//! - `STOP` (*int*, default -1): after so many rounds the router is stopped; negative: never.
//! - `STOP_TIME` (*int*, seconds, default 0): after so long the router is stopped too, at the end of a round
//!   or while it waits for the time of the next packet; 0: never.
//! - `BURST` (*unsigned int*, packets, default 64): the most packets in one task run, but at least a batch.
//! - `LIMIT` (*int*, packets, default -1): how many packets are loaded at most; negative means 16777216. The
//!   input is not asked for more.
//! - `ACTIVE` (*bool*, default true): whether to load and push packets.
//! - `TIMING` (*unsigned int*, default 0): whether to keep the time between packets' timestamps, so many
//!   times as fast: 1 is the original speed; 0 does not wait.
//! - `TIMING_FNT` (*string*): the speed in percent as a function of `x`, the seconds since the first round
//!   began, such as `"10 + min(90,10*x)"`; it has the operators and functions of TinyExpr, `min` and `max`.
//!   When it is less than 1, the router stops. `@1` is the first of FastClick's own, between 1 and `TIMING`
//!   times the original speed, for `STOP_TIME` seconds; `@0` is none.
//! - `USE_SIGNAL` (*bool*, default false): whether to wait while an element upstream says that it may have
//!   more packets, and not to end at the first pull that returns none.
//! - `VERBOSE` (*int* or *bool*, default 0): whether to print a line for each round.
//! - `QUICK_CLONE`, `FREEONTERMINATE` (*int* or *bool*): how FastClick copies packets; accepted, each packet
//!   is a copy of its own here.
//!
//! ## Ports
//! One pull input, one push output. It loads at least one packet. It sleeps while the input is empty before
//! that, and while queues downstream are full.
//!
//! ## Handlers
//! - `active` (read/write): the `ACTIVE` argument.
//! - `stop` (read/write): rounds that are left, as the `STOP` argument.
//! - `timing` (read/write): the `TIMING` argument; with `TIMING_FNT` (read), the speed in percent.
//! - `loaded` (read): whether packets have been loaded.
//! - `reset` (write): forgets the packets and loads again.
//!
//! ## Threads
//! There is one instance: it runs on one worker, the first unless StaticThreadSched says otherwise.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> ReplayUnqueue(STOP 3) -> Discard;
//! ```
//!
//! ## See also
//! Unqueue, Queue, InfiniteSource, FromDump

use crate::plumbing::engine::expression::Expression;
use crate::plumbing::engine::text;
use crate::prelude::*;
use dpdk::KeptPacket;
use lang::args::Raw;

/// How many packets are loaded without a `LIMIT`.
const MOST: usize = 1 << 24;

/// How often the function says what the speed is while nothing is due.
const LOOK_NS: u64 = 10_000_000;

/// FastClick's first function: a wave that becomes faster and smaller.
fn first_own(most: u32, seconds: u64) -> String {
    format!("100 * ((sin(-pi/2 + (x/10)^2.5) * (-x/{seconds} + 1) + 1) * (({most} - 1) / 2) + 1)")
}

/// The `ReplayUnqueue` element.
pub struct ReplayUnqueue {
    active: bool,
    stop: i32,
    burst: usize,
    limit: usize,
    timing: u32,
    function: Option<Expression>,
    /// What it says now.
    percent: u32,
    use_signal: bool,
    verbose: bool,
    /// The packets and their timestamps.
    packets: Vec<(KeptPacket, u64)>,
    loaded: bool,
    /// The next packet.
    next: usize,
    /// When the round began.
    began_ns: u64,
    /// The `STOP_TIME` argument, and when the first round began.
    stop_time_ns: Option<u64>,
    started_ns: u64,
}

/// A number or a bool, as FastClick's examples write them.
fn switch(args: &mut Args<'_>, name: &str) -> Result<bool, ArgError> {
    let on = |text: &str| {
        lang::args::parse::<bool>(text).ok().or_else(|| lang::args::parse::<i64>(text).ok().map(|n| n != 0))
    };
    match args.k::<Raw>(name)? {
        None => Ok(false),
        Some(Raw(text)) => {
            on(&text).ok_or_else(|| args.error(format!("{name}: expected a number or a boolean")))
        }
    }
}

impl Element for ReplayUnqueue {
    const CLASS: &'static str = "ReplayUnqueue";
    const PROCESSING: &'static str = "l/h";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::TIMESTAMP;
    const MANUAL: &'static str = manual!("queues/replayunqueue");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let stop = args.k_or("STOP", -1)?;
        let stop_time = u64::try_from(args.k_or::<i32>("STOP_TIME", 0)?).ok().filter(|s| *s > 0);
        let burst = args.k_or::<u32>("BURST", 64)? as usize;
        let limit = usize::try_from(args.k_or::<i32>("LIMIT", -1)?).unwrap_or(MOST);
        if limit == 0 {
            return Err(args.error("LIMIT 0 leaves nothing to replay"));
        }
        let active = args.k_or("ACTIVE", true)?;
        let timing = args.k_or("TIMING", 0)?;
        let function = match args.k::<String>("TIMING_FNT")?.unwrap_or_default().as_str() {
            "" | "@0" => None,
            "@1" => Some(Expression::parse(&first_own(timing, stop_time.unwrap_or(0)))),
            text => Some(Expression::parse(text)),
        };
        let function = function.transpose().map_err(|e| args.error(format!("TIMING_FNT: {e}")))?;
        let percent = function.as_ref().map_or(100, |f| f.percent_at(0.0));
        let use_signal = switch(args, "USE_SIGNAL")?;
        let verbose = switch(args, "VERBOSE")?;
        switch(args, "QUICK_CLONE")?;
        switch(args, "FREEONTERMINATE")?;
        Ok(Self {
            active,
            stop,
            burst,
            limit,
            timing,
            function,
            percent,
            use_signal,
            verbose,
            packets: Vec::new(),
            loaded: false,
            next: 0,
            began_ns: 0,
            stop_time_ns: stop_time.map(|seconds| seconds * 1_000_000_000),
            started_ns: 0,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "type mismatch")?;
            e.resume(cx.now_ns());
            cx.reschedule();
            Ok(())
        });
        h.read("loaded", |e| e.loaded.to_string());
        h.read("stop", |e| e.stop.to_string());
        h.write("stop", |e, v, cx| {
            e.stop = text::value(v, "syntax error")?;
            cx.reschedule();
            Ok(())
        });
        h.read("timing", |e| if e.function.is_some() { e.percent } else { e.timing }.to_string());
        h.write("timing", |e, v, cx| {
            e.timing = text::value(v, "syntax error")?;
            e.resume(cx.now_ns());
            cx.reschedule();
            Ok(())
        });
        h.write("reset", |e, _, cx| {
            e.packets = Vec::new();
            (e.loaded, e.next) = (false, 0);
            cx.reschedule();
            Ok(())
        });
        h.listed(&["active b", "reset b", "loaded", "stop", "timing"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        if !self.loaded && !self.load(cx) {
            return !self.packets.is_empty();
        }
        if self.stop == 0 {
            self.end(cx);
            return false;
        }
        self.replay(cx)
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.reschedule();
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.packets = std::mem::take(&mut old.packets);
        (self.loaded, self.next) = (old.loaded, old.next);
        (self.began_ns, self.started_ns) = (old.began_ns, old.started_ns);
    }
}

impl ReplayUnqueue {
    fn end(&mut self, cx: &mut Cx<'_>) {
        self.active = false;
        cx.request_stop();
    }

    /// The timestamp of a packet, as far as it is after the round's first.
    fn since_first(&self, n: usize) -> u64 {
        let time = |n: usize| self.packets.get(n).map_or(0, |(_, ns)| *ns);
        time(n).saturating_sub(time(0))
    }

    /// Whether it has replayed for as long as it is to.
    fn is_over(&self, now: u64) -> bool {
        self.stop_time_ns.is_some_and(|most| now.saturating_sub(self.started_ns) >= most)
    }

    /// When a packet is due after the beginning of its round; `None` if nothing waits.
    fn due_after(&self, n: usize) -> Option<u64> {
        let (faster, by) = match self.function {
            Some(_) => (100, self.percent),
            None => (1, self.timing),
        };
        let after = u128::from(self.since_first(n)) * faster;
        after.checked_div(by.into()).map(|ns| u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The next packet is due now.
    fn resume(&mut self, now: u64) {
        let passed = self.due_after(self.next).unwrap_or(0);
        self.began_ns = now.saturating_sub(passed);
    }

    /// Has the speed be what the function says now. Returns false if it says that this is the end.
    fn adjust_speed(&mut self, now: u64) -> bool {
        let Some(function) = &self.function else { return true };
        let percent = function.percent_at(now.saturating_sub(self.started_ns) as f64 / 1e9);
        if percent != self.percent && percent > 0 {
            // What is due now stays due now.
            let passed = u128::from(now.saturating_sub(self.began_ns)) * u128::from(self.percent);
            let passed = u64::try_from(passed / u128::from(percent)).unwrap_or(u64::MAX);
            self.began_ns = now.saturating_sub(passed);
            self.percent = percent;
        }
        percent > 0
    }

    /// Loads packets. Returns whether these are all.
    fn load(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.packets.is_empty() && self.next == 0 {
            cx.log(Level::INFO, &format!("Loading {} with {} inputs.", cx.name(), cx.n_inputs()));
            // The line is printed once.
            self.next = 1;
        }
        let mut pulled = 0;
        while self.packets.len() < self.limit && cx.may_go_on(pulled) {
            let mut batch = cx.spare_batch();
            let most = cx.batch_size().min(self.limit - self.packets.len());
            let n = cx.pull_lending(self, 0, most, &mut batch);
            pulled += n;
            self.packets.extend(batch.drain(..).map(|packet| (packet.keep(), packet.timestamp_ns())));
            cx.recycle(batch);
            if n == 0 {
                let more = cx.upstream_active(0);
                if self.packets.is_empty() || self.use_signal && more {
                    if more {
                        cx.reschedule();
                    }
                    return false;
                }
                return self.begin(cx);
            }
        }
        if self.packets.len() >= self.limit {
            return self.begin(cx);
        }
        cx.reschedule();
        false
    }

    fn begin(&mut self, cx: &mut Cx<'_>) -> bool {
        let n = self.packets.len();
        let text = format!("{} : Successfully loaded {n} packets. Input 0 dried out.", cx.name());
        cx.log(Level::INFO, &text);
        (self.loaded, self.next, self.began_ns) = (true, 0, cx.now_ns());
        self.started_ns = self.began_ns;
        true
    }

    /// Pushes packets. Returns whether there were any.
    fn replay(&mut self, cx: &mut Cx<'_>) -> bool {
        if !cx.downstream_room(0) {
            return false;
        }
        let now = cx.now_ns();
        if !self.adjust_speed(now) {
            self.stop = 0;
            self.end(cx);
            return false;
        }
        let wanted = self.burst.max(cx.batch_size());
        let (mut moved, mut waits) = (0, None);
        let mut batch = cx.spare_batch();
        while moved < wanted && cx.may_go_on(moved) {
            let Some((kept, _)) = self.packets.get(self.next) else { break };
            if let Some(after) = self.due_after(self.next) {
                let due = self.began_ns.saturating_add(after);
                if due > now {
                    waits = Some(due);
                    break;
                }
            }
            // Without memory it goes on when packets have been sent.
            let Some(packet) = kept.packet() else { break };
            batch.push(packet);
            moved += 1;
            self.next += 1;
            if batch.len() >= cx.batch_size() {
                let full = std::mem::replace(&mut batch, cx.spare_batch());
                cx.output_batch(0, full);
                cx.flush_lending(self);
            }
        }
        cx.output_batch(0, batch);
        if self.next >= self.packets.len() {
            self.next = 0;
            self.began_ns = cx.now_ns();
            self.stop = match self.stop {
                _ if self.is_over(self.began_ns) => 0,
                rounds if rounds > 0 => rounds - 1,
                rounds => rounds,
            };
            if self.stop == 0 {
                self.end(cx);
                return moved > 0;
            }
            if self.verbose {
                cx.log(Level::INFO, "Replay loop");
            }
        }
        if moved == 0 && self.is_over(now) {
            self.stop = 0;
            self.end(cx);
            return false;
        }
        let over = self.stop_time_ns.map_or(u64::MAX, |most| self.started_ns.saturating_add(most));
        match waits {
            Some(due) => {
                let soon = self.function.as_ref().map_or(u64::MAX, |_| now.saturating_add(LOOK_NS));
                cx.timer_at(0, due.min(over).min(soon));
            }
            // A round without packets would never end.
            None if self.packets.is_empty() => {}
            None => cx.reschedule_with_room(0),
        }
        moved > 0
    }
}

impl Vector for ReplayUnqueue {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn replays_what_it_has_loaded() {
        let config = "InfiniteSource(DATA abc, LIMIT 3) -> n :: NumberPacket(0) -> Queue -> e :: ReplayUnqueue(STOP 2, USE_SIGNAL true);";
        let mut bench = Bench::with_config(config, 0, 1);
        let out: Vec<u8> = bench.run().iter().map(|(_, bytes)| bytes.iter().fold(0, |a, b| a | b)).collect();
        assert_eq!(out, [0, 1, 2, 0, 1, 2]);
        assert_eq!(
            (bench.read("loaded"), bench.read("stop"), bench.read("active")),
            ("true".into(), "0".into(), "false".into())
        );
    }

    #[test]
    fn it_stops_in_time() {
        // Two packets, ten seconds apart.
        let file = "!data ts_sec ip_src\\n1 1.1.1.1\\n11 1.1.1.1\\n";
        for (arguments, packets, after) in [
            // Between two packets, and at the end of a round.
            ("STOP_TIME 25, TIMING 1", 5, 25),
            ("STOP_TIME 20, TIMING 1", 4, 20),
            ("STOP_TIME 100, STOP 1, TIMING 1", 2, 10),
            ("STOP 1, TIMING_FNT 200", 2, 5),
            // At the original speed for five seconds, then ten times as fast.
            ("STOP 1, TIMING_FNT \"100 + 900 * min(1, floor(x / 5))\"", 2, 5),
            ("TIMING_FNT \"100 * floor((29 - x) / 10)\"", 5, 19),
        ] {
            let config = format!(
                "FromIPSummaryDump(DATA \"{file}\") -> Queue -> e :: ReplayUnqueue({arguments}, ACTIVE false) -> c :: Counter -> Discard;"
            );
            let mut bench = Bench::simulated(&config, 0, 0);
            bench.turns(50);
            bench.write("active", "true");
            let began = bench.router().now_ns();
            bench.turns(5000);
            let took = (bench.router().now_ns() - began) / 1_000_000_000;
            let state = (bench.read("active"), bench.read("c.count"), took);
            assert_eq!(state, ("false".to_owned(), packets.to_string(), after), "{arguments}");
        }
    }

    #[test]
    fn limits_and_handlers() {
        let config = "InfiniteSource(DATA abc, LIMIT 20) -> q :: Queue -> e :: ReplayUnqueue(LIMIT 5, ACTIVE false) -> c :: Counter -> Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        let count = |bench: &mut Bench| bench.read("c.count").parse::<u64>().unwrap();
        bench.run();
        assert_eq!((bench.read("loaded"), count(&mut bench)), ("false".into(), 0));
        bench.write("active", "true");
        bench.run();
        bench.write("active", "false");
        let before = count(&mut bench);
        assert!(before > 100, "round after round");
        assert_eq!((bench.read("loaded"), bench.read("q.length")), ("true".into(), "15".into()));
        bench.write("reset", "");
        assert_eq!(bench.read("loaded"), "false");
        bench.write("stop", "3");
        bench.write("active", "true");
        bench.run();
        assert_eq!((bench.read("q.length"), count(&mut bench) - before), ("10".into(), 15));
        assert!(bench.try_write("active", "x").is_err());
    }

    #[test]
    fn keeps_the_time_between_packets() {
        let config = "TimedSource(0.1, abc, LIMIT 3) -> SetTimestamp -> q :: Queue -> e :: ReplayUnqueue(ACTIVE false, TIMING 2) -> t :: SetTimestamp -> c :: Counter -> Discard;";
        let mut bench = Bench::simulated(config, 0, 0);
        bench.turns(2000);
        assert_eq!(bench.read("q.length"), "3");
        let start = bench.router().now_ns();
        bench.write("active", "true");
        let mut at = Vec::new();
        for _ in 0..600 {
            bench.turn();
            let count: usize = bench.read("c.count").parse().unwrap();
            let ms = (bench.router().now_ns() - start) / 1_000_000;
            at.resize(count.max(at.len()), ms);
        }
        // 0.1 s between packets becomes 0.05 s; a new round begins with the last packet.
        assert_eq!(at[..7], [0, 50, 100, 100, 150, 200, 200]);
    }

    #[test]
    fn waits_for_room_and_for_the_first_packet() {
        let config =
            "e :: Queue -> r :: ReplayUnqueue -> q :: Queue(70) -> u :: Unqueue(ACTIVE false) -> Discard;";
        let mut bench = Bench::with_config(config, 1, 0);
        bench.run();
        assert_eq!(bench.read("r.loaded"), "false");
        bench.push(0, b"abc");
        bench.run();
        assert_eq!((bench.read("r.loaded"), bench.read("q.length")), ("true".into(), "70".into()));
        assert!(Bench::error("ReplayUnqueue(VERBOSE x)").contains("VERBOSE"));
        assert!(Bench::error("ReplayUnqueue(TIMING_FNT @2)").contains("TIMING_FNT: syntax error at '@2'"));
    }
}
