//! The forwarder: it takes bursts for a time, and what it sees is kept.

use measure::latency::Latency;
use measure::ranks::median;
use std::time::{Duration, Instant};

/// Packets of a burst.
pub const BURST: usize = 64;
/// Queues that are told apart; what goes to a later one counts for the last.
pub const QUEUES: usize = 4;

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How many came to each queue.
    pub queues: [u64; QUEUES],
    /// How many no rule decided about.
    pub missed: u64,
}

impl Seen {
    /// All packets.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.queues.iter().sum::<u64>() + self.missed
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        self.queues.iter_mut().zip(other.queues).for_each(|(sum, more)| *sum += more);
        self.missed += other.missed;
    }
}

/// Traffic, with what finds the rules of its packets.
pub trait Forward: Send {
    /// Takes a burst.
    fn burst(&mut self) -> Seen;
}

/// What a forwarder has seen in a time.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// The packets of each bucket of time that has ended, and how long a bucket is, in seconds.
    pub series: Vec<u64>,
    /// See there.
    pub bucket_s: f64,
    /// The longest time from one burst with packets to the next, in nanoseconds, of each bucket.
    pub gaps_ns: Vec<u64>,
    /// How long packets were with the classifier: each as long as its burst.
    pub latency: Latency,
    /// Where all packets went.
    pub seen: Seen,
}

impl Meter {
    /// The rate over all buckets, in packets a second: what stood still for a part of the time counts.
    #[must_use]
    pub fn mean_pps(&self) -> f64 {
        let seconds = self.series.len() as f64 * self.bucket_s;
        if seconds > 0.0 { self.series.iter().sum::<u64>() as f64 / seconds } else { 0.0 }
    }
    /// The median of the buckets' rates, in packets a second: few disturbed ones do not change it.
    #[must_use]
    pub fn pps(&self) -> f64 {
        median(self.series.iter().map(|packets| *packets as f64 / self.bucket_s)).unwrap_or(0.0)
    }
}

/// Forwards for a time, in buckets of a length, until it is told to stop. Between bursts it does what
/// `between` says, which is told how much of the time is over.
pub fn forward(
    traffic: &mut dyn Forward,
    time: Duration,
    bucket: Duration,
    stop: &dyn Fn() -> bool,
    between: &mut dyn FnMut(Duration),
) -> Meter {
    let ns_per_cycle = 1e9 / dpdk::cycles_per_second();
    let mut meter = Meter { bucket_s: bucket.as_secs_f64(), ..Meter::default() };
    let begin = Instant::now();
    let (mut packets, mut gap, mut end) = (0, 0, bucket);
    let mut last = dpdk::cycles();
    loop {
        let start = dpdk::cycles();
        let seen = traffic.burst();
        let now = dpdk::cycles();
        let came = seen.packets();
        if came > 0 {
            let ns = |cycles: u64| (cycles as f64 * ns_per_cycle) as u64;
            meter.latency.record(ns(now.saturating_sub(start)), came);
            gap = gap.max(ns(now.saturating_sub(last)));
            last = now;
            packets += came;
            meter.seen.add(&seen);
        }
        let elapsed = begin.elapsed();
        while elapsed >= end {
            meter.series.push(packets);
            meter.gaps_ns.push(gap);
            (packets, gap, end) = (0, 0, end + bucket);
        }
        if elapsed >= time || stop() {
            return meter;
        }
        between(elapsed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many packets a burst, each of which takes a millisecond.
    struct Slow(u64);
    impl Forward for Slow {
        fn burst(&mut self) -> Seen {
            std::thread::sleep(Duration::from_millis(1));
            Seen { queues: [self.0, 0, 0, 0], missed: 0 }
        }
    }

    #[test]
    fn what_stops_the_forwarder_is_a_gap_and_an_empty_bucket() {
        let mut stopped = false;
        let mut between = |elapsed: Duration| {
            if elapsed > Duration::from_millis(50) && !stopped {
                stopped = true;
                std::thread::sleep(Duration::from_millis(60));
            }
        };
        let (time, bucket) = (Duration::from_millis(200), Duration::from_millis(20));
        let meter = forward(&mut Slow(3), time, bucket, &|| false, &mut between);
        assert!(meter.series.len() >= 9 && meter.series.contains(&0), "{:?}", meter.series);
        assert!(meter.gaps_ns.iter().any(|gap| *gap >= 60_000_000), "{:?}", meter.gaps_ns);
        assert!(meter.pps() > 0.0 && meter.latency.quantile_ns(0.5) >= 1_000_000);
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let hour = Duration::from_secs(3600);
        let meter = forward(&mut Slow(0), hour, hour, &|| true, &mut |_| {});
        assert_eq!((meter.seen, meter.pps()), (Seen::default(), 0.0));
    }
}
