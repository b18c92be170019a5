//! # BandwidthRatedUnqueue
//! Pulls packets at a given bandwidth and pushes them on.
//!
//! ## Synopsis
//! `BandwidthRatedUnqueue(RATE [, BURST_DURATION, BURST_BYTES])`
//!
//! ## Arguments
//! - `RATE` (*bandwidth*, default unit bytes per second): the rate, such as `100Mbps` or `10kB/s`. 0 lets
//!   nothing pass.
//! - `BURST_DURATION` (*time*, default 20ms): bytes of this time may pass at once after a pause.
//! - `BURST_BYTES` (*unsigned int*, bytes): the same, as a number of bytes. Not both may be given.
//!
//! The burst is available at the start. Packet lengths are those in memory, without preamble and checksum.
//!
//! ## Ports
//! One pull input, one push output. It sleeps while the input is empty and while the rate does not let it
//! pull.
//!
//! ## Handlers
//! - `rate` (read/write): the `RATE` argument.
//! - `active` (read/write): whether to pull; true at the start.
//! - `calls` (read): how often the task ran, ran without a packet, pushed packets, and pulled without getting
//!   one.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! Each worker pulls its own packets; the rate is that of all workers together.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> BandwidthRatedUnqueue(100kbps) -> Discard;
//! ```
//!
//! ## See also
//! RatedUnqueue, BandwidthShaper, BandwidthRatedSplitter

use super::ratedunqueue::RateUnit;
use crate::plumbing::engine::bucket::Bytes;

/// The kind of `BandwidthRatedUnqueue`.
pub struct ByBytes;

impl RateUnit for ByBytes {
    const CLASS: &'static str = "BandwidthRatedUnqueue";
    const MANUAL: &'static str = manual!("queues/bandwidthratedunqueue");
    type Unit = Bytes;
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn holds_its_rate_in_simulated_time() {
        let config = "InfiniteSource(LENGTH 100, LIMIT 60) -> Queue -> e :: BandwidthRatedUnqueue(8kbps, BURST_BYTES 1000);";
        let mut bench = Bench::simulated(config, 0, 1);
        let start = bench.router().now_ns();
        let mut n = 0;
        while n < 60 {
            n += bench.turns(1).len();
        }
        // 11 packets at once (the burst, and one that needs only a single token), then ten a second.
        let seconds = (bench.router().now_ns() - start) as f64 / 1e9;
        assert!((4.85..=4.95).contains(&seconds), "{seconds}");
        assert_eq!(bench.read("rate"), "8kbps");
    }
}
