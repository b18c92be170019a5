//! # DelayUnqueue
//! Pulls packets and pushes each on when it is old enough.
//!
//! ## Synopsis
//! `DelayUnqueue(DELAY)`
//!
//! ## Arguments
//! - `DELAY` (*time*, default unit seconds): a packet is pushed no earlier than this long after its
//!   timestamp. A packet without a timestamp gets the present time when it is pulled.
//!
//! ## Ports
//! One pull input, one push output. It holds one packet at a time, whose timestamp is set to the time when it
//! is due; what comes after it waits upstream. It sleeps while it waits and while the input is empty.
//!
//! ## Handlers
//! - `delay` (read/write): the `DELAY` argument; a change is for packets that are pulled from then on.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> DelayUnqueue(0.5) -> Discard;
//! ```
//!
//! ## See also
//! DelayShaper, LinkUnqueue, RatedUnqueue, Unqueue

use crate::plumbing::engine::text;
use crate::prelude::*;
use std::time::Duration;

/// The most packets that one run of the task moves, so that other tasks can run.
const RUN: usize = 256;

/// The `DelayUnqueue` element.
pub struct DelayUnqueue {
    delay_ns: u64,
    held: Option<Packet>,
}

/// Sets a packet's timestamp to when it is due, counted from its present one or else from now.
pub(super) fn set_due(packet: &mut Packet, delay_ns: u64, now_ns: u64) {
    let stamp = &mut packet.anno_mut().timestamp_ns;
    // Below one second counts as none, as in Click.
    let since = if *stamp < 1_000_000_000 { now_ns } else { *stamp };
    *stamp = since.saturating_add(delay_ns);
}

impl Element for DelayUnqueue {
    const CLASS: &'static str = "DelayUnqueue";
    const PROCESSING: &'static str = "l/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::TIMESTAMP;
    const WRITES: Fields = Fields::TIMESTAMP;
    const ROLE: Role = Role::Delay;
    const MANUAL: &'static str = manual!("queues/delayunqueue");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { delay_ns: text::nanos(args.mp::<Duration>("DELAY")?), held: None })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.task();
        h.read("delay", |e| text::interval(e.delay_ns));
        h.write("delay", |e, v, _| {
            e.delay_ns = text::nanos(text::value::<Duration>(v, "delay must be a timestamp")?);
            Ok(())
        });
        h.listed(&["delay", "scheduled", "tickets", "home_thread"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        for moved in 0..RUN {
            let now = cx.now_ns();
            // The element is bound to another worker: this replica only sends the packets that a hot swap has
            // left here.
            let packet = match self.held.take() {
                None if cx.runs_here() => self.fetch(now, cx),
                held => held,
            };
            let Some(packet) = packet else {
                if cx.runs_here() && cx.upstream_active(0) {
                    cx.reschedule();
                }
                return moved > 0;
            };
            let due = packet.timestamp_ns();
            if due > now {
                self.held = Some(packet);
                cx.timer_here(0, due);
                return moved > 0;
            }
            cx.output(0, packet);
            cx.flush_lending(self);
        }
        cx.reschedule();
        true
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.reschedule_here();
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.held = old.held.take();
        cx.reschedule_here();
    }

    fn abandon(&mut self, cx: &mut Cx<'_>) {
        if self.held.is_some() {
            cx.reschedule_here();
        }
    }
}

impl DelayUnqueue {
    /// Pulls a packet, with the time at which it is due.
    fn fetch(&mut self, now: u64, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = cx.lend(self, |cx| cx.pull_one(0))?;
        set_due(&mut packet, self.delay_ns, now);
        Some(packet)
    }
}

impl Vector for DelayUnqueue {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn each_packet_waits_for_its_time() {
        let mut bench =
            Bench::simulated("e :: Queue -> d :: DelayUnqueue(0.5) -> c :: Counter -> Discard;", 1, 0);
        let start = bench.router().now_ns();
        for (byte, after_ms) in [(b'a', 0), (b'b', 100), (b'c', 10)] {
            let mut packet = dpdk::Packet::from_bytes(&[byte]).unwrap();
            packet.set_timestamp_ns(start + after_ms * 1_000_000);
            bench.send(0, packet);
        }
        let mut times = Vec::new();
        for _ in 0..50 {
            bench.turns(1);
            while times.len() < bench.read("c.count").parse().unwrap() {
                times.push((bench.router().now_ns() - start) / 1_000_000);
            }
        }
        // The third packet was due before the second, but arrived after it.
        assert_eq!(times, [500, 600, 600]);
    }

    #[test]
    fn a_packet_without_a_timestamp_waits_from_now_on() {
        let mut bench =
            Bench::simulated("e :: Queue -> d :: DelayUnqueue(20ms) -> c :: Counter -> Discard;", 1, 0);
        let start = bench.router().now_ns();
        bench.push(0, b"a");
        for _ in 0..50 {
            bench.turns(1);
            if bench.read("c.count") == "1" {
                break;
            }
        }
        assert_eq!(bench.router().now_ns() - start, 20_000_000);
        assert_eq!(bench.read("d.delay"), "20ms");
        bench.write("d.delay", "1.5");
        assert_eq!(bench.read("d.delay"), "1.500000s");
        assert!(bench.try_write("d.delay", "later").is_err());
    }
}
