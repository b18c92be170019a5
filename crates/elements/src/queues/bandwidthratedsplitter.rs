//! # BandwidthRatedSplitter
//! Sends packets up to a given bandwidth to output 0, the rest to output 1.
//!
//! ## Synopsis
//! `BandwidthRatedSplitter(RATE [, BURST_DURATION, BURST_BYTES])`
//!
//! ## Arguments
//! - `RATE` (*bandwidth*, default unit bytes per second): the rate of output 0, such as `100Mbps`. 0 lets
//!   nothing pass.
//! - `BURST_DURATION` (*time*, default 20ms): bytes of this time may pass at once after a pause.
//! - `BURST_BYTES` (*unsigned int*, bytes): the same, as a number of bytes. Not both may be given.
//!
//! The burst is available at the start. Packet lengths are those in memory, without preamble and checksum.
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
//! InfiniteSource(LIMIT 10, STOP true) -> r :: BandwidthRatedSplitter(100kbps) -> Discard;
//! r [1] -> Discard;
//! ```
//!
//! ## See also
//! RatedSplitter, BandwidthMeter, BandwidthShaper

use super::ratedunqueue::RateUnit;
use crate::plumbing::engine::bucket::Bytes;

/// The kind of `BandwidthRatedSplitter`.
pub struct ByBytes;

impl RateUnit for ByBytes {
    const CLASS: &'static str = "BandwidthRatedSplitter";
    const MANUAL: &'static str = manual!("queues/bandwidthratedsplitter");
    type Unit = Bytes;
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_bytes() {
        let mut bench = Bench::simulated("e :: BandwidthRatedSplitter(1000, BURST_BYTES 999);", 1, 2);
        let ports: Vec<usize> = (0..4).flat_map(|_| bench.push(0, &[0; 500])).map(|o| o.0).collect();
        assert_eq!(ports, [0, 0, 1, 1]);
        let mut whole = Bench::simulated("e :: BandwidthRatedSplitter(1000, BURST_BYTES 999);", 1, 2);
        let batch = (0..4).map(|_| dpdk::Packet::from_bytes(&[0; 500]).unwrap()).collect();
        let ports: Vec<usize> = whole.send_batch(0, batch).iter().map(|o| o.0).collect();
        assert_eq!(ports, [0, 0, 1, 1]);
    }
}
