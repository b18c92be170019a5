//! # RoundTripCycleCount
//! Counts the cycles that everything after it takes, or everything before it on a pull path.
//!
//! A batch that is pushed is handed on at once, and the cycles until all elements further on are done with it
//! are added up; on a pull path, those until packets have come.
//!
//! ## Synopsis
//! `RoundTripCycleCount()`
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `packets` (read): packets.
//! - `cycles` (read): the sum of cycles.
//! - `reset_counts` (write): starts again.
//!
//! ## Threads
//! Each worker counts its own packets; handlers show the sums.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1000, STOP true) -> c :: RoundTripCycleCount -> Counter -> Discard;
//! DriverManager(wait, print "$(div $(c.cycles) $(c.packets)) cycles");
//! ```
//!
//! ## See also
//! SetCycleCount, CycleCountAccum

use crate::prelude::*;

/// The `RoundTripCycleCount` element.
#[derive(Default)]
pub struct RoundTripCycleCount {
    packets: Counter,
    cycles: Counter,
}

impl Element for RoundTripCycleCount {
    const CLASS: &'static str = "RoundTripCycleCount";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("analysis/roundtripcyclecount");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self::default())
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("packets", |e| &e.packets);
        h.counter("cycles", |e| &e.cycles);
        h.write("reset_counts", |e, _, _| {
            e.packets.set(0);
            e.cycles.set(0);
            Ok(())
        });
        h.listed(&["packets", "cycles", "reset_counts b"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.packets.set(old.packets.get());
        self.cycles.set(old.cycles.get());
    }
}

impl RoundTripCycleCount {
    fn add(&self, packets: usize, begin: u64) {
        self.packets.add(packets as u64);
        self.cycles.add(dpdk::cycles().wrapping_sub(begin));
    }
}

impl Vector for RoundTripCycleCount {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let (begin, packets) = (dpdk::cycles(), batch.len());
        cx.output_batch(0, batch);
        cx.flush_lending(self);
        self.add(packets, begin);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let begin = dpdk::cycles();
        let packets = cx.pull_lending(self, 0, max, out);
        if packets > 0 {
            self.add(packets, begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_what_others_take() {
        let cycles = |bench: &mut Bench| bench.read("cycles").parse::<u64>().unwrap();
        let config = "e :: RoundTripCycleCount -> w :: WorkPackage(CYCLES 50000) -> Discard;";
        let mut bench = Bench::with_config(config, 1, 0);
        bench.push(0, b"x");
        bench.push(0, b"y");
        assert_eq!(bench.read("packets"), "2");
        assert!(cycles(&mut bench) >= 100_000);
        let config =
            "InfiniteSource(LIMIT 3) -> Queue -> WorkPackage(CYCLES 50000) -> e :: RoundTripCycleCount;";
        let mut bench = Bench::with_config(config, 0, 1);
        bench.run();
        assert_eq!(bench.pull(0, 5).len(), 3);
        assert_eq!((bench.read("packets"), cycles(&mut bench) >= 150_000), ("3".into(), true));
        bench.write("reset_counts", "");
        assert_eq!(bench.read("cycles"), "0");
    }
}
