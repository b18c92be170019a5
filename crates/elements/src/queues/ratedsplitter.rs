//! # RatedSplitter
//! Sends packets up to a given rate to output 0, the rest to output 1.
//!
//! ## Synopsis
//! `RatedSplitter(RATE [, BURST_DURATION, BURST_SIZE])`
//!
//! ## Arguments
//! - `RATE` (*unsigned int*, packets per second): the rate of output 0. 0 lets nothing pass.
//! - `BURST_DURATION` (*time*, default 20ms): packets of this time may pass at once after a pause.
//! - `BURST_SIZE` (*unsigned int*, packets): the same, as a number of packets. Not both may be given.
//!
//! The burst is at least one packet. It is available at the start.
//!
//! ## Ports
//! One push input; output 0 for packets within the rate, output 1, if there is one, for the others.
//!
//! ## Handlers
//! - `rate` (read/write): the `RATE` argument.
//!
//! ## Threads
//! Each worker splits its own packets; the rate is that of all workers together.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> r :: RatedSplitter(2) -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! ## See also
//! BandwidthRatedSplitter, Meter, Shaper, RatedUnqueue

use super::ratedunqueue::RateUnit;
use crate::plumbing::engine::bucket::{Bucket, Packets};
use crate::prelude::*;

const RATE_EXCEEDED: DropReason = DropReason::new("rate exceeded");

/// The kind of `RatedSplitter` itself.
pub struct ByPackets;

impl RateUnit for ByPackets {
    const CLASS: &'static str = "RatedSplitter";
    const MANUAL: &'static str = manual!("queues/ratedsplitter");
    type Unit = Packets;
}

/// `RatedSplitter` and `BandwidthRatedSplitter`.
pub struct RatedSplitter<K: RateUnit = ByPackets> {
    bucket: Bucket<K::Unit>,
}

impl<K: RateUnit> Element for RatedSplitter<K> {
    const CLASS: &'static str = K::CLASS;
    const LIVE: bool = true;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[RATE_EXCEEDED.when("there is no output 1")];
    const MANUAL: &'static str = K::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { bucket: Bucket::from_args(args, cx, false)? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("rate", |e| e.bucket.rate());
        h.write("rate", |e, v, cx| e.bucket.set_rate(v, cx.now_ns()));
        h.argument("rate", 0, "RATE");
        h.listed(&["rate ="]);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.bucket.take_over(&mut old.bucket, cx.now_ns());
    }
}

impl<K: RateUnit> Vector for RatedSplitter<K> {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let within = self.bucket.pass(cx.now_ns(), &batch);
        if within < batch.len() {
            let rest = batch.split_off(within);
            cx.output_batch(0, batch);
            if cx.n_outputs() > 1 {
                cx.output_batch(1, rest);
            } else {
                cx.drop_batch(rest, RATE_EXCEEDED);
            }
        } else {
            cx.output_batch(0, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_excess_goes_to_output_1() {
        let mut bench = Bench::simulated("e :: RatedSplitter(10, BURST_SIZE 2);", 1, 2);
        let ports: Vec<usize> = (0..4).flat_map(|_| bench.push(0, b"a")).map(|o| o.0).collect();
        assert_eq!(ports, [0, 0, 1, 1]);
        let mut whole = Bench::simulated("e :: RatedSplitter(10, BURST_SIZE 2);", 1, 2);
        let batch = (0..4).map(|_| dpdk::Packet::from_bytes(b"a").unwrap()).collect();
        let ports: Vec<usize> = whole.send_batch(0, batch).iter().map(|o| o.0).collect();
        assert_eq!(ports, [0, 0, 1, 1]);
    }

    #[test]
    fn the_excess_is_dropped_without_output_1() {
        let mut bench = Bench::simulated("e :: RatedSplitter(10);", 1, 1);
        assert_eq!(bench.push(0, b"a").len(), 1);
        assert!(bench.push(0, b"a").is_empty());
        bench.write("rate", "0");
        assert!(bench.push(0, b"a").is_empty());
        assert_eq!(bench.drops(), [("rate exceeded".to_owned(), 2)]);
        bench.write("rate", "1000000000000");
        assert_eq!(bench.push(0, b"a").len(), 1);
    }
}
