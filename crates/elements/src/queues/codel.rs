//! # CoDel
//! Drops packets so that none waits long in the queues upstream (controlled delay).
//!
//! A packet that has waited longer than `TARGET` is no reason to drop any: queues are for bursts. Only if all
//! packets of an `INTERVAL` have waited longer, a packet is dropped, and then others at ever shorter times,
//! until one has waited less. A packet behind which none waits is never dropped.
//!
//! ## Synopsis
//! `CoDel([TARGET, INTERVAL, QUEUES])`
//!
//! ## Arguments
//! - `TARGET` (*time*, default 5ms; without a unit, seconds): how long packets may wait.
//! - `INTERVAL` (*time*, default 100ms; without a unit, seconds): about the longest round-trip time of the
//!   connections.
//! - `QUEUES` (keyword; element names separated by spaces): the queues whose lengths count, added up.
//!   Default: the nearest ones upstream.
//!
//! ## Ports
//! One pull input, one pull output. How long a packet has waited is found by its first-timestamp annotation,
//! which SetTimestamp has to set before the queue; packets without it pass.
//!
//! ## Handlers
//! - `target`, `codel_target` (read/write): the `TARGET` argument.
//! - `interval`, `codel_interval` (read/write): the `INTERVAL` argument.
//! - `drops` (read): packets dropped.
//! - `queues` (read): the queues' names, one a line.
//! - `stats` (read): present length and drops, one a line.
//!
//! ## Threads
//! Each worker has its own instance, for its own queues and those that all workers share; drops are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true)
//!   -> SetTimestamp(FIRST true) -> Queue(200) -> CoDel(5ms, 100ms) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! RED, Queue, FrontDropQueue, SetTimestamp
//!
//! ## References
//! K. Nichols, V. Jacobson, A. McGregor and J. Iyengar, "Controlled Delay Active Queue Management", RFC 8289,
//! section 5.

use super::engine::store::Depth;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::Raw;
use runtime::Side;
use std::sync::Arc;
use std::time::Duration;

const LATE: DropReason = DropReason::new("waited too long");

/// After a pause of so many intervals, dropping begins slowly again (RFC 8289 §5.5).
const RECENT_INTERVALS: u64 = 16;

/// What a CoDel queue remembers. Times are in nanoseconds since 1970; 0 is none.
struct Control {
    target_ns: u64,
    interval_ns: u64,
    /// When packets will have waited too long for an interval.
    above_since: u64,
    dropping: bool,
    next_drop: u64,
    /// Drops in this state of dropping; those when it began.
    count: u64,
    last_count: u64,
}

impl Control {
    /// Whether packets have waited too long for an interval; this one has for `waited`, and others wait
    /// behind it or not.
    fn overdue(&mut self, waited: u64, others: bool, now: u64) -> bool {
        if waited < self.target_ns || !others {
            self.above_since = 0;
            return false;
        }
        if self.above_since == 0 {
            self.above_since = now.saturating_add(self.interval_ns);
            return false;
        }
        now >= self.above_since
    }

    /// The time of the next drop after one at `at`: the rate of drops grows with the square root of their
    /// number.
    fn next_after(&self, at: u64) -> u64 {
        at.saturating_add((self.interval_ns as f64 / (self.count.max(1) as f64).sqrt()) as u64)
    }

    /// Whether to drop a packet that has waited for `waited`.
    fn should_drop(&mut self, waited: u64, others: bool, now: u64) -> bool {
        let overdue = self.overdue(waited, others, now);
        if !overdue {
            self.dropping = false;
            return false;
        }
        if !self.dropping {
            self.dropping = true;
            // If dropping has stopped only recently, it goes on at the rate that was right.
            let recently = self.count.saturating_sub(self.last_count);
            let soon = now.saturating_sub(self.next_drop) < RECENT_INTERVALS.saturating_mul(self.interval_ns);
            self.count = if recently > 1 && soon { recently } else { 1 };
            self.last_count = self.count;
            self.next_drop = self.next_after(now);
            return true;
        }
        if now < self.next_drop {
            return false;
        }
        self.count += 1;
        self.next_drop = self.next_after(self.next_drop);
        true
    }

    /// The input was empty.
    fn empty(&mut self) {
        self.above_since = 0;
        self.dropping = false;
    }
}

/// The `CoDel` element.
pub struct CoDel {
    control: Control,
    queues: Vec<(String, Arc<Depth>)>,
    drops: Counter,
}

impl CoDel {
    fn length(&self, cx: &Cx<'_>) -> usize {
        self.queues.iter().map(|(_, d)| d.length(cx.worker().0)).sum()
    }
}

impl Element for CoDel {
    const CLASS: &'static str = "CoDel";
    const LIVE: bool = true;
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::FIRST_TIMESTAMP;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[LATE.when("packets of an interval have waited longer than the target, and it is time for a drop")];
    const MANUAL: &'static str = manual!("queues/codel");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let target = args.p_or("TARGET", Duration::from_millis(5))?;
        let interval = args.p_or("INTERVAL", Duration::from_millis(100))?;
        let names = args.k::<Raw>("QUEUES")?;
        let mut queues = Vec::new();
        for name in names.iter().flat_map(|n| n.0.split_whitespace()) {
            let id = cx.find(name).ok_or_else(|| ArgError::new(format!("no element named '{name}'")))?;
            let depth = cx.shared_by::<Depth>(id);
            let depth = depth.ok_or_else(|| ArgError::new(format!("'{name}' is not a Storage element")))?;
            queues.push((cx.name_of(id).to_owned(), depth));
        }
        if queues.is_empty() {
            let found = cx.nearest(Side::Upstream, 0, |id| cx.shared_by::<Depth>(id).is_some());
            let named = |id| Some((cx.name_of(id).to_owned(), cx.shared_by(id)?));
            queues = found.into_iter().filter_map(named).collect();
        }
        if queues.is_empty() {
            return Err(ArgError::new("no nearby Queues"));
        }
        let control = Control {
            target_ns: text::nanos(target),
            interval_ns: text::nanos(interval),
            above_since: 0,
            dropping: false,
            next_drop: 0,
            count: 0,
            last_count: 0,
        };
        Ok(Self { control, queues, drops: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["target", "codel_target"] {
            h.read(name, |e| text::interval(e.control.target_ns));
            h.write(name, |e, v, _| {
                e.control.target_ns = text::nanos(text::value(v, "TARGET: expected a time")?);
                Ok(())
            });
        }
        for name in ["interval", "codel_interval"] {
            h.read(name, |e| text::interval(e.control.interval_ns));
            h.write(name, |e, v, _| {
                e.control.interval_ns = text::nanos(text::value(v, "INTERVAL: expected a time")?);
                Ok(())
            });
        }
        h.counter("drops", |e| &e.drops);
        h.read("queues", |e| e.queues.iter().fold(String::new(), |s, (name, _)| s + name + "\n"));
        h.read_with("stats", Combine::First, |e, _, cx| {
            Ok(format!("{} current queue\n{} drops\n", e.length(cx), e.drops.get()))
        });
        h.listed(&["drops", "codel_interval", "codel_target", "stats", "queues"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        let (target_ns, interval_ns) = (self.control.target_ns, self.control.interval_ns);
        let Control { above_since, dropping, next_drop, count, last_count, .. } = old.control;
        self.control =
            Control { target_ns, interval_ns, above_since, dropping, next_drop, count, last_count };
        self.drops.set(old.drops.get());
    }
}

impl Vector for CoDel {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        let mut pulled = 0;
        while out.len() == before && cx.may_go_on(pulled) {
            let mut batch = cx.spare_batch();
            let mut behind = cx.pull_lending(self, 0, max, &mut batch);
            pulled += behind;
            if behind == 0 {
                self.control.empty();
                return cx.recycle(batch);
            }
            let (length, now) = (self.length(cx), cx.now_ns());
            for packet in batch.drain(..) {
                behind -= 1;
                let since = packet.anno().first_timestamp_ns();
                if since == 0 {
                    self.control.dropping = false;
                    out.push(packet);
                } else if self.control.should_drop(now.saturating_sub(since), length + behind > 0, now) {
                    self.drops.add(1);
                    cx.drop(packet, LATE);
                } else {
                    out.push(packet);
                }
            }
            cx.recycle(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use dpdk::Packet;

    const MS: u64 = 1_000_000;

    fn control() -> Control {
        Control {
            target_ns: 5 * MS,
            interval_ns: 100 * MS,
            above_since: 0,
            dropping: false,
            next_drop: 0,
            count: 0,
            last_count: 0,
        }
    }

    /// When packets are dropped, in milliseconds, of one a millisecond that has waited so long.
    fn drops(control: &mut Control, from: u64, to: u64, waited: u64) -> Vec<u64> {
        (from..to).filter(|ms| control.should_drop(waited * MS, true, ms * MS)).collect()
    }

    #[test]
    fn drops_come_at_ever_shorter_times() {
        // 100 ms after the first late packet, and then after 100 ms / sqrt(n) each.
        let mut c = control();
        assert_eq!(drops(&mut c, 1000, 1500, 6), [1100, 1200, 1271, 1329, 1379, 1424, 1464]);
        // One packet that is in time ends it.
        assert!(drops(&mut c, 1500, 1501, 4).is_empty());
        // Soon after, it goes on at the rate of the drops since the beginning: six.
        assert_eq!(drops(&mut c, 1501, 1700, 6), [1601, 1642, 1680]);
        c.empty();
        // Long after, from the beginning.
        assert_eq!(drops(&mut c, 9000, 9300, 6), [9100, 9200, 9271]);
    }

    #[test]
    fn short_waits_and_single_packets_are_no_reason() {
        assert!(drops(&mut control(), 1000, 3000, 4).is_empty());
        let mut c = control();
        assert!((1000..3000).all(|ms| !c.should_drop(900 * MS, false, ms * MS)));
        // Bursts that are gone within an interval.
        let mut c = control();
        for burst in 0..20 {
            assert!(drops(&mut c, 1000 + 100 * burst, 1090 + 100 * burst, 50).is_empty());
            assert!(drops(&mut c, 1090 + 100 * burst, 1091 + 100 * burst, 1).is_empty());
        }
    }

    fn late(ms: u64, now: u64) -> Packet {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.anno_mut().set_first_timestamp_ns(now - ms * MS);
        packet
    }

    #[test]
    fn late_packets_of_a_queue_are_dropped_and_counted() {
        let config = "InfiniteSource(ACTIVE false) -> q :: Queue -> e :: CoDel(5ms, 0s);";
        let mut bench = Bench::simulated(config, 0, 1);
        let now = bench.router().now_ns();
        let packets = (0..10).map(|_| late(50, now));
        bench.router().inject("q", 0, packets.collect());
        // An interval of nothing is over with the second packet; the last one has none behind it.
        assert_eq!(bench.pull(0, 10).len(), 2);
        assert_eq!(bench.read("drops"), "8");
        assert_eq!(bench.drops(), [("waited too long".to_owned(), 8)]);
        assert_eq!(
            (bench.read("queues"), bench.read("stats")),
            ("q\n".into(), "0 current queue\n8 drops\n".into())
        );
        let unmarked = (0..10).map(|_| Packet::from_bytes(b"x").unwrap());
        bench.router().inject("q", 0, unmarked.collect());
        assert_eq!(bench.pull(0, 10).len(), 10);
    }

    #[test]
    fn arguments_and_handlers() {
        let mut bench = Bench::with_config("Idle -> q :: Queue -> e :: CoDel;", 0, 1);
        assert_eq!((bench.read("target"), bench.read("codel_interval")), ("5ms".into(), "100ms".into()));
        bench.write("codel_target", "20ms");
        bench.write("interval", "1");
        assert_eq!((bench.read("codel_target"), bench.read("interval")), ("20ms".into(), "1.000000s".into()));
        assert!(bench.try_write("target", "x").is_err());
        assert!(Bench::error("CoDel()").contains("no nearby Queues"));
        assert!(Bench::error("CoDel(QUEUES x)").contains("no element named 'x'"));
        assert!(Bench::error("CoDel(QUEUES e)").contains("'e' is not a Storage element"));
    }
}
