//! # CycleCountAccum
//! Adds up the cycles since SetCycleCount has noted the cycle counter in packets.
//!
//! Packets without a count are not counted; the first of them is reported.
//!
//! ## Synopsis
//! `CycleCountAccum()`
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `count` (read): packets with a count.
//! - `cycles` (read): the sum of their cycles.
//! - `cycles_pp` (read): the average, as FastClick has it; 0 without packets.
//! - `zero_count` (read): packets without a count.
//! - `reset_counts` (write): starts again.
//!
//! ## Threads
//! Each worker counts its own packets; handlers show the sums. The processors' counters must agree, as they
//! do on today's machines.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1000, STOP true) -> SetCycleCount -> Counter -> c :: CycleCountAccum -> Discard;
//! DriverManager(wait, print c.cycles_pp);
//! ```
//!
//! ## See also
//! SetCycleCount, RoundTripCycleCount

use crate::prelude::*;
use dpdk::offset;
use locks::IgnorePoison;
use std::sync::Mutex;

/// One worker's counts.
#[derive(Clone, Default)]
struct Counts {
    count: Counter,
    cycles: Counter,
}

/// The counts of all workers.
#[derive(Default)]
struct AllCounts(Mutex<Vec<Counts>>);

/// The `CycleCountAccum` element.
pub struct CycleCountAccum {
    counts: Counts,
    zeros: Counter,
}

impl Element for CycleCountAccum {
    const CLASS: &'static str = "CycleCountAccum";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::user(offset::PERFCTR, 8);
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("analysis/cyclecountaccum");

    fn configure(_args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (worker, counts) = (cx.worker().0, Counts::default());
        let all = cx.shared(AllCounts::default);
        let mut of = all.0.lock().ignore_poison();
        if of.len() <= worker {
            of.resize_with(worker + 1, Counts::default);
        }
        of[worker] = counts.clone();
        drop(of);
        Ok(Self { counts, zeros: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.counts.count);
        h.counter("cycles", |e| &e.counts.cycles);
        h.counter("zero_count", |e| &e.zeros);
        h.shared_read::<AllCounts>("cycles_pp", |all, _| {
            let of = all.0.lock().ignore_poison();
            let sum = |what: fn(&Counts) -> &Counter| of.iter().map(|c| what(c).get()).sum::<u64>();
            let (count, cycles) = (sum(|c| &c.count), sum(|c| &c.cycles));
            Ok(cycles.checked_div(count).unwrap_or(0).to_string())
        });
        h.write("reset_counts", |e, _, _| {
            [&e.counts.count, &e.counts.cycles, &e.zeros].into_iter().for_each(|counter| counter.set(0));
            Ok(())
        });
        h.listed(&["count", "cycles", "zero_count", "reset_counts b"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.counts.count.set(old.counts.count.get());
        self.counts.cycles.set(old.counts.cycles.get());
        self.zeros.set(old.zeros.get());
    }
}

impl CycleCountAccum {
    fn add(&self, packets: &[Packet], cx: &Cx<'_>) {
        let (now, mut count, mut cycles) = (dpdk::cycles(), 0, 0u64);
        for packet in packets {
            let begin = packet.load_user(offset::PERFCTR).map_or(0, u64::from_ne_bytes);
            if begin != 0 {
                count += 1;
                cycles = cycles.wrapping_add(now.wrapping_sub(begin));
            }
        }
        let zeros = packets.len() as u64 - count;
        if zeros > 0 {
            if self.zeros.get() == 0 {
                let text =
                    format!("{} :: {}: packet with zero cycle counter annotation!", cx.name(), cx.class());
                cx.log(Level::WARN, &text);
            }
            self.zeros.add(zeros);
        }
        self.counts.count.add(count);
        self.counts.cycles.add(cycles);
    }
}

impl Vector for CycleCountAccum {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.add(&batch, cx);
        cx.output_batch(0, batch);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        cx.pull_lending(self, 0, max, out);
        self.add(out.get(before..).unwrap_or_default(), cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn adds_up() {
        let mut bench = Bench::new("CycleCountAccum()");
        let lines = bench.listen();
        let number = |bench: &mut Bench, name: &str| bench.read(name).parse::<u64>().unwrap();
        for ago in [1000u64, 3000] {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.store_user(offset::PERFCTR, (dpdk::cycles() - ago).to_ne_bytes());
            assert_eq!(bench.send(0, packet).len(), 1);
        }
        let cycles = number(&mut bench, "cycles");
        assert!(cycles >= 4000);
        assert_eq!((number(&mut bench, "count"), number(&mut bench, "cycles_pp")), (2, cycles / 2));
        bench.push(0, b"x");
        bench.push(0, b"x");
        assert_eq!((bench.read("zero_count"), bench.read("count")), ("2".into(), "2".into()));
        let said = "e :: CycleCountAccum: packet with zero cycle counter annotation!";
        assert_eq!(*lines.lock().ignore_poison(), [said]);
        bench.write("reset_counts", "");
        assert_eq!((bench.read("cycles"), bench.read("cycles_pp")), ("0".into(), "0".into()));
    }
}
