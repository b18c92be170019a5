//! # RandomSwitch
//! Sends each packet to an output chosen at random, all with the same probability.
//!
//! ## Synopsis
//! `RandomSwitch()`
//!
//! ## Ports
//! One push input, one or more push outputs.
//!
//! ## Threads
//! Each worker has its own random numbers; `RandomSeed` makes them repeatable.
//!
//! ## Example
//! ```click
//! RandomSeed(7);
//! sw :: RandomSwitch;
//! InfiniteSource(LIMIT 100, STOP true) -> sw -> a :: Counter -> Discard;
//! sw [1] -> b :: Counter -> Discard;
//! ```
//!
//! ## See also
//! RoundRobinSwitch, HashSwitch, RandomSample, RandomSeed

use crate::prelude::*;

/// The `RandomSwitch` element.
pub struct RandomSwitch;

impl Element for RandomSwitch {
    const CLASS: &'static str = "RandomSwitch";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/randomswitch");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl RandomSwitch {
    /// The output for a packet.
    #[inline]
    fn choose(cx: &mut Cx<'_>) -> usize {
        // The high half of a 64-bit product is uniform over the outputs to within one in 2^64 per output.
        ((u128::from(cx.random()) * cx.n_outputs() as u128) >> 64) as usize
    }
}

impl Vector for RandomSwitch {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            let output = Self::choose(cx);
            cx.output(output, packet);
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn outputs_are_equally_likely() {
        let mut bench = Bench::with_ports("RandomSwitch()", 1, 4);
        let mut counts = [0u32; 4];
        for _ in 0..4000 {
            counts[bench.push(0, b"x")[0].0] += 1;
        }
        assert!(counts.iter().all(|n| (800..1200).contains(n)), "{counts:?}");
    }
}
