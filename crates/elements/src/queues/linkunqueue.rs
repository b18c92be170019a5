//! # LinkUnqueue
//! Pulls packets and pushes them on as if they had crossed a serial link.
//!
//! ## Synopsis
//! `LinkUnqueue(LATENCY, BANDWIDTH)`
//!
//! ## Arguments
//! - `LATENCY` (*time*, default unit seconds): how long a bit takes from one end of the link to the other.
//! - `BANDWIDTH` (*bandwidth*, default unit bytes per second, at least 100): how fast packets are put on the
//!   link, in steps of 100 bytes per second.
//!
//! A packet is pushed `LATENCY` plus its length (with the extra length annotation) divided by `BANDWIDTH`
//! after it is pulled. It is pulled only when the one before has been put on the link whole, so a queue
//! upstream fills as it would before a real link. A packet that waited for that is put on the link right
//! behind the other. Its timestamp becomes the time when it was due.
//!
//! ## Ports
//! One pull input, one push output. It sleeps while nothing is due and while the input is empty.
//!
//! ## Handlers
//! - `latency` (read/write): the `LATENCY` argument. Writing it empties the link.
//! - `bandwidth` (read/write): the `BANDWIDTH` argument in bytes per second. Writing it empties the link.
//! - `size` (read): packets on the link.
//! - `reset` (write): empties the link.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! There is one instance: it runs on one worker, the first unless StaticThreadSched says otherwise.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> LinkUnqueue(10ms, 1Mbps) -> Discard;
//! ```
//!
//! ## See also
//! DelayUnqueue, BandwidthRatedUnqueue, Queue

use super::engine::store::Depth;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::Bandwidth;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const LINK_RESET: DropReason = DropReason::new("link reset");

/// The `LinkUnqueue` element.
pub struct LinkUnqueue {
    latency_ns: u64,
    /// In units of 100 bytes per second.
    bandwidth: u64,
    packets: VecDeque<Packet>,
    /// Whether a packet may have waited while the last one was sent over the link: then it follows without a
    /// gap, however late it is pulled.
    back_to_back: bool,
    depth: Arc<Depth>,
    worker: usize,
}

fn hundreds(bandwidth: Bandwidth) -> Result<u64, String> {
    if bandwidth.0 < 100 {
        return Err("bandwidth too small, minimum 100Bps".into());
    }
    Ok(bandwidth.0 / 100)
}

fn due(packet: &Packet) -> u64 {
    packet.timestamp_ns()
}

impl LinkUnqueue {
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.depth.left(self.worker, self.packets.len());
        self.packets.drain(..).for_each(|p| cx.drop(p, LINK_RESET));
        self.back_to_back = false;
        cx.cancel_timer(0);
        cx.reschedule();
    }
}

impl Element for LinkUnqueue {
    const CLASS: &'static str = "LinkUnqueue";
    const PROCESSING: &'static str = "l/h";
    const SHARING: Sharing = Sharing::Single;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::TIMESTAMP.with(Fields::EXTRA_LENGTH);
    const WRITES: Fields = Fields::TIMESTAMP;
    const DROPS: &'static [DropCase] = &[LINK_RESET.when("the handler `reset` emptied the link")];
    const ROLE: Role = Role::Delay;
    const MANUAL: &'static str = manual!("queues/linkunqueue");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let latency_ns = text::nanos(args.mp::<Duration>("LATENCY")?);
        let bandwidth = hundreds(args.mp("BANDWIDTH")?).map_err(ArgError::new)?;
        let depth = Arc::new(Depth::new(cx.workers(), true));
        cx.publish(Arc::clone(&depth));
        Ok(Self {
            latency_ns,
            bandwidth,
            packets: VecDeque::new(),
            back_to_back: false,
            depth,
            worker: cx.worker().0,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.task();
        h.shared_read::<Depth>("size", |d, _| Ok(d.total().to_string()));
        h.read("latency", |e| text::interval(e.latency_ns));
        h.read("bandwidth", |e| (e.bandwidth * 100).to_string());
        h.write("reset", |e, _, cx| {
            e.reset(cx);
            Ok(())
        });
        h.write("latency", |e, v, cx| {
            e.latency_ns = text::nanos(text::value::<Duration>(v, "latency must be a timestamp")?);
            e.reset(cx);
            Ok(())
        });
        h.write("bandwidth", |e, v, cx| {
            e.bandwidth = hundreds(text::value(v, "invalid bandwidth")?)?;
            e.reset(cx);
            Ok(())
        });
        h.listed(&["latency .", "bandwidth .", "size", "reset b", "scheduled", "tickets", "home_thread"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now_ns();
        let far_end = now.saturating_add(self.latency_ns);
        let (mut pulled, mut pushed) = (0, 0);
        // The link accepts a packet once the last one has been sent completely.
        while self.packets.back().is_none_or(|last| due(last) <= far_end) && cx.may_go_on(pulled) {
            let Some(mut packet) = cx.lend(self, |cx| cx.pull_one(0)) else { break };
            let bytes = packet.len() as u64 + u64::from(packet.extra_length());
            let start = if self.back_to_back { self.packets.back().map_or(far_end, due) } else { far_end };
            // Whole microseconds, as in Click.
            packet.set_timestamp_ns(start.saturating_add(bytes * 10_000 / self.bandwidth * 1000));
            self.packets.push_back(packet);
            self.depth.arrived(self.worker, 1);
            self.back_to_back = true;
            pulled += 1;
        }
        // A packet that arrives when none waits sends a notification: this runs then, and the link may be
        // free by that time.
        let busy = self.packets.back().is_some_and(|last| due(last) > far_end);
        self.back_to_back = busy && cx.upstream_active(0);
        while cx.may_go_on(pushed)
            && let Some(packet) = self.packets.pop_front_if(|p| due(p) <= now)
        {
            self.depth.left(self.worker, 1);
            cx.output(0, packet);
            cx.flush_lending(self);
            pushed += 1;
        }
        if let (Some(first), Some(last)) = (self.packets.front(), self.packets.back()) {
            let mut wake = due(first);
            if cx.upstream_active(0) {
                wake = wake.min(due(last).saturating_sub(self.latency_ns));
            }
            if wake <= now {
                cx.reschedule();
            } else {
                cx.timer_at(0, wake);
            }
        } else if cx.upstream_active(0) {
            cx.reschedule();
        }
        pulled + pushed > 0
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.reschedule();
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.packets = std::mem::take(&mut old.packets);
        self.back_to_back = old.back_to_back;
        self.depth.arrived(self.worker, self.packets.len());
        cx.reschedule();
    }
}

impl Vector for LinkUnqueue {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_take_latency_and_transmission_time() {
        // 1000 bytes at 100 kB/s: 10 ms each.
        let config = "e :: Queue -> l :: LinkUnqueue(25ms, 100kBps) -> c :: Counter -> Discard;";
        let mut bench = Bench::simulated(config, 1, 0);
        bench.run();
        let start = bench.router().now_ns();
        (0..4).for_each(|_| drop(bench.push(0, &[0; 1000])));
        let mut times = Vec::new();
        let mut most = 0;
        for _ in 0..200 {
            bench.turns(1);
            most = most.max(bench.read("l.size").parse::<usize>().unwrap());
            while times.len() < bench.read("c.count").parse().unwrap() {
                times.push((bench.router().now_ns() - start) as f64 / 1e6);
            }
        }
        assert_eq!(times, [35.0, 45.0, 55.0, 65.0]);
        assert_eq!(most, 4);
        assert_eq!((bench.read("l.latency"), bench.read("l.bandwidth")), ("25ms".into(), "100000".into()));
    }

    /// When each packet leaves, in milliseconds of simulated time, with batches of so many.
    fn departures(config: &str, batch_size: usize, packets: usize) -> Vec<f64> {
        let options = runtime::Options { batch_size, simulated_time: true, ..runtime::Options::default() };
        let mut bench = runtime::testing::Bench::with(&crate::registry(), config, 0, 0, options);
        let start = bench.router().now_ns();
        let mut times = Vec::new();
        for _ in 0..400 {
            bench.turns(1);
            while times.len() < bench.read("c.count").parse().unwrap() {
                times.push((bench.router().now_ns() - start) as f64 / 1e6);
            }
        }
        assert_eq!(times.len(), packets);
        times
    }

    #[test]
    fn a_packet_that_finds_the_link_free_takes_latency_and_transmission_time() {
        // 1000 bytes at 100 kB/s: 10 ms each. One arrives every 20 or 100 ms; the link is free then, and
        // packets may still be on it.
        for (latency, every, batch_size) in
            [(25, 20, 64), (25, 20, 1), (25, 100, 64), (25, 100, 1), (0, 20, 64), (200, 20, 64)]
        {
            let config = format!(
                "t :: TimedSource({every}ms, DATA x, LIMIT 4) -> Pad(1000) -> e :: Queue -> l :: LinkUnqueue({latency}ms, 100kBps)
                 -> c :: Counter -> Discard;"
            );
            let want: Vec<f64> = (1..=4).map(|n| f64::from(n * every + latency + 10)).collect();
            assert_eq!(departures(&config, batch_size, 4), want, "{latency} {every} {batch_size}");
        }
    }

    #[test]
    fn packets_that_waited_for_the_link_follow_each_other_without_a_gap() {
        // One arrives every 4 ms and takes 10 ms to send.
        let config =
            "TimedSource(4ms, DATA x, LIMIT 5) -> Pad(1000) -> e :: Queue -> l :: LinkUnqueue(25ms, 100kBps)
                      -> c :: Counter -> Discard;";
        for batch_size in [1, 64] {
            assert_eq!(departures(config, batch_size, 5), [39.0, 49.0, 59.0, 69.0, 79.0]);
        }
    }

    #[test]
    fn what_does_not_fit_on_the_link_waits_upstream() {
        let mut bench = Bench::simulated("e :: Queue -> l :: LinkUnqueue(0, 100kBps) -> Discard;", 1, 0);
        bench.run();
        (0..4).for_each(|_| drop(bench.push(0, &[0; 1000])));
        bench.turns(1);
        assert_eq!((bench.read("l.size"), bench.read("length")), ("1".into(), "3".into()));
        bench.write("l.reset", "");
        assert_eq!(bench.read("l.size"), "0");
    }

    #[test]
    fn refuses_what_is_too_slow() {
        assert!(Bench::error("LinkUnqueue(1, 50)").contains("bandwidth too small, minimum 100Bps"));
    }
}
