//! # RED
//! Drops packets early, by the average length of the queues nearby (random early detection).
//!
//! ## Synopsis
//! `RED(MIN_THRESH, MAX_THRESH, MAX_P [, QUEUES, STABILITY, GENTLE])`
//!
//! ## Arguments
//! - `MIN_THRESH` (*unsigned int*, packets): up to this average length nothing is dropped.
//! - `MAX_THRESH` (*unsigned int*, packets, at most 65535): at this average length packets are dropped with
//!   probability `MAX_P`; between the two the probability grows linearly from 0.
//! - `MAX_P` (*real*, 0 to 1): see above.
//! - `QUEUES` (keyword; element names separated by spaces): the queues whose lengths count, added up.
//!   Default: in a push path the nearest ones downstream of output 0, in a pull path the nearest ones
//!   upstream.
//! - `STABILITY` (*unsigned int*, keyword, 0 to 16, default 4): each packet's view of the length has weight
//!   2^-`STABILITY` in the average. 0 means that the present length is taken.
//! - `GENTLE` (*bool*, keyword, default true): above `MAX_THRESH` the probability grows linearly from `MAX_P`
//!   to 1 at twice `MAX_THRESH`. If false, everything above `MAX_THRESH` is dropped.
//!
//! ## Ports
//! One input and output 0, push or pull. Packets to be dropped go to output 1, push, if there is one.
//!
//! ## Handlers
//! - `min_thresh`, `max_thresh`, `max_p` (read/write): the arguments.
//! - `drops` (read): packets dropped or sent to output 1.
//! - `avg_queue_size` (read): the average length.
//! - `queues` (read): the queues' names, one a line.
//! - `stats` (read): present length, average length and drops, one a line.
//!
//! ## Threads
//! Each worker uses the lengths of its own queues, and of those that all workers share.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> RED(5, 50, 0.02) -> Queue(200) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! Queue, FrontDropQueue
//!
//! ## References
//! S. Floyd and V. Jacobson, "Random early detection gateways for congestion avoidance", 1993; S. Floyd,
//! "Optimum functions for computing the drop probability", 1997.

use super::engine::store::Depth;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{Raw, Real2};
use runtime::Side;
use std::sync::Arc;

const EARLY_DROP: DropReason = DropReason::new("early drop");

/// Bits of fraction of the average.
const SCALE: u32 = 10;
/// One as a probability.
const ONE: u64 = 1 << 16;
/// While the queues are empty, each period of this length counts as one more sample of the length.
const IDLE_NS: u64 = 20_000_000;

/// The parameters, and values computed from them.
#[derive(Clone, Copy)]
struct Params {
    min: u64,
    max: u64,
    max_p: u64,
    gentle: bool,
}

impl Params {
    fn check(self) -> Result<Self, String> {
        if self.max > 0xffff {
            return Err(format!("MAX_THRESH must be <= {}", 0xffff));
        }
        if self.min > self.max {
            return Err("MIN_THRESH must be <= MAX_THRESH".into());
        }
        if self.max_p > ONE {
            return Err("MAX_P must be between 0 and 1".into());
        }
        Ok(self)
    }
    /// The average above which all packets are dropped.
    fn kill(self) -> u64 {
        if self.gentle && self.max_p != ONE { self.max * 2 } else { self.max }
    }
    /// The probability at a scaled average, in units of 2^-16, with Click's roundings.
    fn probability(self, average: u64, scaled: u64) -> i64 {
        let line = |slope: u64, offset: u64| ((slope * scaled) >> SCALE) as i64 - offset as i64;
        if average > self.max {
            line((ONE - self.max_p).checked_div(self.max).unwrap_or(0), ONE.wrapping_sub(2 * self.max_p))
        } else if let Some(slope) = self.max_p.checked_div(self.max - self.min) {
            line(slope, self.max_p * self.min / (self.max - self.min))
        } else {
            line(0, 1)
        }
    }
}

/// The `RED` element.
pub struct Red {
    params: Params,
    stability: u32,
    /// The queues whose lengths are used in a push path and in a pull path, if none are given.
    nearby: [Vec<(String, Arc<Depth>)>; 2],
    queues: Vec<(String, Arc<Depth>)>,
    /// Scaled.
    average: u64,
    /// Packets since the last drop, less one; -1 while there is nothing to drop.
    count: i64,
    random: i64,
    last_period: u64,
    drops: Counter,
}

impl Red {
    fn length(&self, cx: &Cx<'_>) -> u64 {
        self.queues.iter().map(|(_, d)| d.length(cx.worker().0) as u64).sum()
    }
    fn step(&mut self, length: u64) {
        let view = (length << SCALE) + (1u64 << self.stability >> 1);
        self.average =
            self.average.wrapping_add((view.wrapping_sub(self.average) as i64 >> self.stability) as u64);
    }

    /// Adds the queues' length to the average and decides about a packet.
    fn should_drop(&mut self, length: u64, cx: &mut Cx<'_>) -> bool {
        if self.stability == 0 {
            self.average = length << SCALE;
        } else if length > 0 {
            self.step(length);
            self.last_period = 0;
        } else {
            let period = cx.now_ns() / IDLE_NS;
            let n = if self.last_period > 0 { period.saturating_sub(self.last_period) } else { 1 };
            if n >= 100 {
                self.average = 0;
            } else {
                (0..n).for_each(|_| self.step(0));
            }
            self.last_period = period;
        }
        let average = (self.average + (1 << (SCALE - 1))) >> SCALE;
        if average <= self.params.min {
            self.count = -1;
            return false;
        }
        if average > self.params.kill() {
            self.count = -1;
            return true;
        }
        let p = self.params.probability(average, self.average);
        self.count += 1;
        let drop = self.count > 0 && p > 0 && self.count > self.random / p;
        if drop {
            self.count = 0;
        }
        if self.count == 0 {
            self.random = (cx.random() >> 48) as i64;
        }
        drop
    }

    fn mark(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.drops.add(1);
        cx.fail(packet, EARLY_DROP);
    }

    fn change(&mut self, f: impl FnOnce(&mut Params)) -> Result<(), String> {
        let mut params = self.params;
        f(&mut params);
        self.params = params.check()?;
        Ok(())
    }
}

impl Element for Red {
    const CLASS: &'static str = "RED";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[EARLY_DROP.when("the queues are filling, and the packet was chosen at random")];
    const MANUAL: &'static str = manual!("queues/red");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let min = args.mp::<u32>("MIN_THRESH")?;
        let max = args.mp::<u32>("MAX_THRESH")?;
        let max_p = args.mp::<Real2<16>>("MAX_P")?.0;
        let names = args.k::<Raw>("QUEUES")?;
        let stability = args.k::<u32>("STABILITY")?.unwrap_or(4);
        let gentle = args.k("GENTLE")?.unwrap_or(true);
        let params = Params { min: u64::from(min), max: u64::from(max), max_p: u64::from(max_p), gentle };
        let params = params.check().map_err(ArgError::new)?;
        if stability > 16 {
            return Err(ArgError::new("STABILITY must be between 0 and 16"));
        }
        let mut queues = Vec::new();
        for name in names.iter().flat_map(|n| n.0.split_whitespace()) {
            let id = cx.find(name).ok_or_else(|| ArgError::new(format!("no element named '{name}'")))?;
            let depth = cx.shared_by::<Depth>(id);
            let depth = depth.ok_or_else(|| ArgError::new(format!("'{name}' is not a Storage element")))?;
            queues.push((cx.name_of(id).to_owned(), depth));
        }
        let nearby = [Side::Downstream, Side::Upstream].map(|side| {
            let found = cx.nearest(side, 0, |id| cx.shared_by::<Depth>(id).is_some());
            found.into_iter().filter_map(|id| Some((cx.name_of(id).to_owned(), cx.shared_by(id)?))).collect()
        });
        Ok(Self {
            params,
            stability,
            nearby,
            queues,
            average: 0,
            count: -1,
            random: 0,
            last_period: 0,
            drops: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("drops", |e| &e.drops);
        h.read("min_thresh", |e| e.params.min.to_string());
        h.read("max_thresh", |e| e.params.max.to_string());
        h.read("max_p", |e| text::real2(e.params.max_p, 16));
        h.read("avg_queue_size", |e| text::real2(e.average, SCALE));
        h.read("queues", |e| e.queues.iter().fold(String::new(), |s, (name, _)| s + name + "\n"));
        h.read_with("stats", Combine::First, |e, _, cx| {
            let (length, average) = (e.length(cx), text::real2(e.average, SCALE));
            Ok(format!("{length} current queue\n{average} avg queue\n{} drops\n", e.drops.get()))
        });
        h.write("min_thresh", |e, v, _| {
            let n = text::value::<u32>(v, "MIN_THRESH: invalid number")?;
            e.change(|p| p.min = u64::from(n))
        });
        h.write("max_thresh", |e, v, _| {
            let n = text::value::<u32>(v, "MAX_THRESH: invalid number")?;
            e.change(|p| p.max = u64::from(n))
        });
        h.write("max_p", |e, v, _| {
            let n = text::value::<Real2<16>>(v, "MAX_P: invalid real number")?;
            e.change(|p| p.max_p = u64::from(n.0))
        });
        h.argument("min_thresh", 0, "MIN_THRESH");
        h.argument("max_thresh", 1, "MAX_THRESH");
        h.argument("max_p", 2, "MAX_P");
        h.listed(&["drops", "min_thresh =", "max_thresh =", "max_p =", "avg_queue_size", "stats", "queues"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.queues.is_empty() {
            let [down, up] = std::mem::take(&mut self.nearby);
            self.queues = if cx.output_is_pull(0) { up } else { down };
        }
        if self.queues.is_empty() { Err("no nearby Queues".into()) } else { Ok(()) }
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.average = old.average;
        self.drops.set(old.drops.get());
    }
}

impl Vector for Red {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let mut length = self.length(cx);
        for packet in batch.drain(..) {
            if self.should_drop(length, cx) {
                self.mark(packet, cx);
            } else {
                // The packets before it in the batch are not in the queue yet.
                length += 1;
                cx.output(0, packet);
            }
        }
        cx.recycle(batch);
    }

    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        let mut pulled = 0;
        while out.len() == before && cx.may_go_on(pulled) {
            let mut batch = cx.spare_batch();
            let mut behind = cx.pull_lending(self, 0, max, &mut batch) as u64;
            pulled += behind as usize;
            let empty = behind == 0;
            let length = self.length(cx);
            for packet in batch.drain(..) {
                behind -= 1;
                // When this packet left the queue, those behind it in the batch were still there.
                if self.should_drop(length + behind, cx) {
                    self.mark(packet, cx);
                } else {
                    out.push(packet);
                }
            }
            cx.recycle(batch);
            if empty {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn probabilities_meet_at_the_thresholds() {
        let p = Params { min: 10, max: 20, max_p: ONE / 10, gentle: true };
        let at = |average: u64| p.probability(average, average << SCALE) as f64 / ONE as f64;
        assert!(at(10).abs() < 0.001);
        assert!((at(15) - 0.05).abs() < 0.001);
        assert!((at(20) - 0.1).abs() < 0.001);
        assert!((at(30) - 0.55).abs() < 0.001);
        assert!((at(40) - 1.0).abs() < 0.001);
        assert_eq!((p.kill(), Params { gentle: false, ..p }.kill()), (40, 20));
    }

    #[test]
    fn drops_by_the_length_downstream() {
        let mut bench = Bench::with_config(
            "e :: RED(5, 10, 0.5, STABILITY 0) -> q :: Queue(1000) -> Unqueue(ACTIVE false) -> Discard;",
            1,
            0,
        );
        for _ in 0..6 {
            bench.push(0, b"a");
        }
        assert_eq!(bench.read("drops"), "0");
        for _ in 0..500 {
            bench.push(0, b"a");
        }
        // Everything is dropped at twice MAX_THRESH.
        assert!(bench.read("q.length").parse::<u64>().unwrap() <= 21);
        assert_eq!(bench.read("queues"), "q\n");
        let drops: u64 = bench.read("drops").parse().unwrap();
        assert_eq!(bench.drops(), [("early drop".to_owned(), drops)]);
        assert!(bench.read("stats").contains("current queue"));
    }

    #[test]
    fn goes_by_the_queue_upstream_in_a_pull_path() {
        let mut bench = Bench::with_config(
            "InfiniteSource(ACTIVE false) -> q :: Queue -> e :: RED(0, 1, 1, STABILITY 0, GENTLE false); e[1] -> d :: Counter -> Discard;",
            0,
            1,
        );
        for _ in 0..4 {
            bench.router().inject("q", 0, [dpdk::Packet::from_bytes(b"a").unwrap()].into_iter().collect());
        }
        // Three and two packets behind it: too many. One behind: dropped at random. None: never dropped.
        let got = bench.pull(0, 1).len();
        assert!(got == 1);
        assert!(bench.read("d.count").parse::<u64>().unwrap() >= 2);
        assert_eq!(bench.read("queues"), "q\n");
    }

    #[test]
    fn the_average_is_slow() {
        let mut bench =
            Bench::with_config("e :: RED(50, 100, 0.5) -> Queue -> Unqueue(ACTIVE false) -> Discard;", 1, 0);
        for _ in 0..17 {
            bench.push(0, b"a");
        }
        let average: f64 = bench.read("avg_queue_size").parse().unwrap();
        assert!((4.0..9.0).contains(&average), "{average}");
    }

    #[test]
    fn queues_are_found_or_named() {
        let error = |config: &str| Bench::error(config);
        assert!(error("RED(1, 2, 0.5)").contains("no nearby Queues"));
        assert!(error("RED(1, 2, 0.5, QUEUES x)").contains("no element named 'x'"));
        assert!(error("RED(1, 2, 0.5, QUEUES e)").contains("'e' is not a Storage element"));
        assert!(error("RED(3, 2, 0.5)").contains("MIN_THRESH must be <= MAX_THRESH"));
        assert!(error("RED(1, 65536, 0.5)").contains("MAX_THRESH must be <= 65535"));
        assert!(error("RED(1, 2, 1.5)").contains("MAX_P must be between 0 and 1"));
        assert!(error("RED(1, 2, 1, STABILITY 17)").contains("STABILITY must be between 0 and 16"));
        let mut bench = Bench::with_config(
            "e :: RED(1, 2, 0.5, QUEUES a b) -> a :: Queue -> Unqueue -> b :: Queue -> Unqueue -> Discard;",
            1,
            0,
        );
        assert_eq!(bench.read("queues"), "a\nb\n");
        bench.write("max_thresh", "9");
        assert_eq!((bench.read("max_thresh"), bench.read("max_p")), ("9".into(), "0.5".into()));
        assert!(bench.try_write("min_thresh", "10").is_err());
    }
}
