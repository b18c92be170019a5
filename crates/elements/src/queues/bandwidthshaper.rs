//! # BandwidthShaper
//! Lets packets be pulled at a given bandwidth at most.
//!
//! ## Synopsis
//! `BandwidthShaper(RATE)`
//!
//! ## Arguments
//! - `RATE` (*bandwidth*, default unit bytes per second): the rate, such as `100Mbps` or `10kB/s`. 0 lets
//!   nothing pass.
//!
//! ## Ports
//! One pull input, one or two pull outputs. After a packet the shaper is closed for the time that the packet
//! takes at the rate. A consumer that comes late may catch up on what it missed, but on no more than one
//! second. While the shaper is closed its consumer sleeps, and is woken when the next packet may pass. Output
//! 1, if it is connected, gives packets just while output 0 may not; its packets do not count. Consumers do
//! not sleep then while there are packets.
//!
//! ## Handlers
//! - `rate` (read/write): the `RATE` argument.
//! - `reset` (write): the shaper begins anew: what a late consumer could catch up on is forgotten.
//!
//! ## Threads
//! Each worker pulls its own packets; the rate is that of all workers together.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> BandwidthShaper(100kbps) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! Shaper, BandwidthRatedUnqueue, BandwidthRatedSplitter

use super::ratedunqueue::RateUnit;
use crate::plumbing::engine::bucket::Bytes;

/// The kind of `BandwidthShaper`.
pub struct ByBytes;

impl RateUnit for ByBytes {
    const CLASS: &'static str = "BandwidthShaper";
    const MANUAL: &'static str = manual!("queues/bandwidthshaper");
    type Unit = Bytes;
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn closes_for_the_time_of_each_packet() {
        let config = "InfiniteSource(LENGTH 500, LIMIT 5) -> Queue -> e :: BandwidthShaper(1000) -> u :: Unqueue; u -> Discard;";
        let mut bench = Bench::simulated(config, 0, 0);
        let start = bench.router().now_ns();
        let mut n = 0;
        for _ in 0..1000 {
            bench.turns(1);
            let now: u64 = bench.read("u.count").parse().unwrap();
            if now > n {
                assert_eq!(now, n + 1);
                assert_eq!(bench.router().now_ns() - start, n * 500_000_000);
                n = now;
            }
        }
        assert_eq!(n, 5);
        assert_eq!(bench.read("rate"), "8kbps");
    }
}
