//! # Meter
//! Sends packets to one of several outputs by the rate of the traffic.
//!
//! ## Synopsis
//! `Meter(RATE1, RATE2, ..., RATEn)`
//!
//! ## Arguments
//! - `RATE` (*unsigned int*, packets per second), one or more, each larger than the one before.
//!
//! The rate is an exponentially weighted moving average over milliseconds, each with weight 1/16.
//!
//! ## Ports
//! One push input, n + 1 push outputs. A packet goes to output 0 while the rate is below `RATE1`, to output 1
//! while it is at least `RATE1` but below `RATE2`, and so on; to output n while it is at least `RATEn`.
//!
//! ## Handlers
//! - `rate` (read): the present rate, packets per second.
//! - `meters` (read): the arguments, as rounded, packets per second.
//!
//! ## Threads
//! The rate is that of all workers together.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> m :: Meter(20000) -> Discard;
//! m [1] -> Discard;
//! ```
//!
//! ## See also
//! BandwidthMeter, RatedSplitter, Shaper

use super::bandwidthmeter::RateUnit;

/// The kind of `Meter`.
pub struct ByPackets;

impl RateUnit for ByPackets {
    const CLASS: &'static str = "Meter";
    const MANUAL: &'static str = manual!("queues/meter");
    const BYTES: bool = false;
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn outputs_go_by_the_rate() {
        let config = "InfiniteSource(DATA a, LIMIT 1000) -> Queue -> RatedUnqueue(1000, BURST_SIZE 1) -> e :: Meter(500, 900);
            e[0] -> a :: Counter -> Discard; e[1] -> b :: Counter -> Discard; e[2] -> c :: Counter -> Discard;";
        let mut bench = Bench::simulated(config, 0, 0);
        bench.turns(6000);
        let count = |bench: &mut Bench, c: &str| bench.read(c).parse::<u64>().unwrap();
        let (a, b, c) =
            (count(&mut bench, "a.count"), count(&mut bench, "b.count"), count(&mut bench, "c.count"));
        assert_eq!(a + b + c, 1000);
        assert!(a > 5 && b > 5 && c > 500, "{a} {b} {c}");
        assert_eq!(bench.read("meters"), "500\n899.414");
    }
}
