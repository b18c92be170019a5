//! # DelayShaper
//! Lets each packet be pulled when it is old enough.
//!
//! ## Synopsis
//! `DelayShaper(DELAY)`
//!
//! ## Arguments
//! - `DELAY` (*time*, default unit seconds): a packet may be pulled no earlier than this long after its
//!   timestamp. A packet without a timestamp gets the present time when DelayShaper pulls it.
//!
//! ## Ports
//! One pull input, one pull output. It holds one packet at a time; what comes after it waits upstream. A
//! packet leaves with the present time as its timestamp. While a packet waits the consumer sleeps, and is
//! woken when the packet is due.
//!
//! ## Handlers
//! - `delay` (read/write): the `DELAY` argument; a change is for packets that are pulled from then on.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> DelayShaper(0.5) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! DelayUnqueue, Shaper, BandwidthShaper

use super::delayunqueue::set_due;
use crate::plumbing::engine::text;
use crate::prelude::*;
use std::time::Duration;

/// The `DelayShaper` element.
pub struct DelayShaper {
    delay_ns: u64,
    held: Option<Packet>,
}

impl Element for DelayShaper {
    const CLASS: &'static str = "DelayShaper";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Gate;
    const READS: Fields = Fields::TIMESTAMP;
    const WRITES: Fields = Fields::TIMESTAMP;
    const ROLE: Role = Role::Delay;
    const DROPS: &'static [DropCase] = &[drops::CONSUMER_MOVED
        .when("the task that pulled has moved to another worker, and the packet was held here")];
    const MANUAL: &'static str = manual!("queues/delayshaper");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { delay_ns: text::nanos(args.mp::<Duration>("DELAY")?), held: None })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("delay", |e| text::interval(e.delay_ns));
        h.write("delay", |e, v, _| {
            e.delay_ns = text::nanos(text::value::<Duration>(v, "delay must be a timestamp")?);
            Ok(())
        });
        h.listed(&["delay ."]);
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.set_nonempty(true);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.held = old.held.take();
        cx.set_nonempty(true);
    }

    fn abandon(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.held.take() {
            cx.drop(packet, drops::CONSUMER_MOVED);
        }
    }
}

impl DelayShaper {
    /// Pulls a packet, with the time at which it is due.
    fn fetch(&mut self, now: u64, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = cx.lend(self, |cx| cx.pull_one(0))?;
        set_due(&mut packet, self.delay_ns, now);
        Some(packet)
    }
}

impl Vector for DelayShaper {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let now = cx.now_ns();
        for _ in 0..max {
            let Some(mut packet) = self.held.take().or_else(|| self.fetch(now, cx)) else {
                let active = cx.upstream_active(0);
                return cx.set_nonempty(active);
            };
            let due = packet.timestamp_ns();
            if due > now {
                self.held = Some(packet);
                cx.timer_at(0, due);
                return cx.set_nonempty(false);
            }
            packet.set_timestamp_ns(now);
            out.push(packet);
        }
        cx.set_nonempty(true);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_consumer_sleeps_until_the_packet_is_due() {
        let config = "e :: Queue -> d :: DelayShaper(0.5) -> u :: RatedUnqueue(1000000000000) -> c :: Counter -> Discard;";
        let mut bench = Bench::simulated(config, 1, 0);
        bench.run();
        let start = bench.router().now_ns();
        bench.push(0, b"a");
        bench.push(0, b"b");
        let mut times = Vec::new();
        let mut turns = 0;
        while times.len() < 2 && turns < 100 {
            turns += 1;
            bench.turns(1);
            while times.len() < bench.read("c.count").parse().unwrap() {
                times.push((bench.router().now_ns() - start) / 1_000_000);
            }
        }
        // Packets without timestamps are pulled, and stamped, one after the other.
        assert_eq!(times, [500, 1000]);
        assert!(turns < 40, "{turns} turns");
    }

    #[test]
    fn what_another_worker_holds_is_counted_when_the_consumer_moves() {
        for path in ["DelayShaper(100)", "DRRSched(1)"] {
            let config = format!("e :: Queue -> x :: {path} -> u :: Unqueue -> Discard;");
            let options =
                runtime::Options { workers: 2, simulated_time: true, ..runtime::Options::default() };
            let mut bench = runtime::testing::Bench::with(&crate::registry(), &config, 1, 0, options);
            (0..5).for_each(|_| drop(bench.push(0, &[0; 2000])));
            bench.turns(3);
            let waiting: u64 = bench.read("length").parse().unwrap();
            assert!(waiting < 5, "{path} holds one on worker 0");
            bench.router().write("u.home_thread", "1").unwrap();
            assert_eq!(bench.router().read("x.drops", "").unwrap(), "1\tconsumer moved\n", "{path}");
        }
    }

    #[test]
    fn packets_leave_with_the_present_time() {
        let mut bench =
            Bench::simulated("InfiniteSource(ACTIVE false) -> q :: Queue -> e :: DelayShaper(10ms);", 0, 1);
        let now = bench.router().now_ns();
        let mut old = dpdk::Packet::from_bytes(b"a").unwrap();
        old.set_timestamp_ns(now - 10_000_000);
        bench.router().inject("q", 0, [old].into_iter().collect());
        let got = bench.pull(0, 1);
        assert_eq!(got[0].1.timestamp_ns(), now);
        bench.router().inject("q", 0, [dpdk::Packet::from_bytes(b"b").unwrap()].into_iter().collect());
        assert!(bench.pull(0, 1).is_empty());
    }
}
