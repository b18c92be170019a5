//! # BandwidthMeter
//! Sends packets to one of several outputs by the bandwidth of the traffic.
//!
//! ## Synopsis
//! `BandwidthMeter(RATE1, RATE2, ..., RATEn)`
//!
//! ## Arguments
//! - `RATE` (*bandwidth*, default unit bytes per second), one or more, each larger than the one before.
//!
//! The rate is an exponentially weighted moving average over milliseconds, each with weight 1/16.
//!
//! ## Ports
//! One push input, n + 1 push outputs. A packet goes to output 0 while the rate is below `RATE1`, to output 1
//! while it is at least `RATE1` but below `RATE2`, and so on; to output n while it is at least `RATEn`.
//!
//! ## Handlers
//! - `rate` (read): the present rate, bytes per second.
//! - `meters` (read): the arguments, as rounded, bytes per second.
//!
//! ## Threads
//! The rate is that of all workers together.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> m :: BandwidthMeter(20kBps) -> Discard;
//! m [1] -> Discard;
//! ```
//!
//! ## See also
//! Meter, BandwidthRatedSplitter, BandwidthShaper

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::Bandwidth;
use locks::IgnorePoison;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Bits of fraction of the average.
const SCALE: u32 = 10;
/// Epochs per second: Click's jiffies.
const EPOCHS: u64 = 1000;
const EPOCH_NS: u64 = 1_000_000_000 / EPOCHS;
/// The weight of one epoch is 2^-STABILITY.
const STABILITY: u32 = 4;

/// A moving average of events per epoch. The first worker to see a new epoch closes the old one; within an
/// epoch workers only count.
struct Average {
    epoch: AtomicU64,
    count: AtomicU64,
    /// Events per epoch, with [`SCALE`] bits of fraction.
    average: AtomicU64,
    closing: Mutex<()>,
}

fn step(average: u64, count: u64) -> u64 {
    let sample = (count << SCALE) + (1 << (STABILITY - 1));
    average.wrapping_add(((sample.wrapping_sub(average)) as i64 >> STABILITY) as u64)
}

impl Average {
    fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            count: AtomicU64::new(0),
            average: AtomicU64::new(0),
            closing: Mutex::new(()),
        }
    }

    /// Counts events; returns the average up to the present epoch.
    fn update(&self, now_ns: u64, events: u64) -> u64 {
        let now = now_ns / EPOCH_NS;
        if self.epoch.load(Ordering::Acquire) < now {
            let _closing = self.closing.lock().ignore_poison();
            let before = self.epoch.load(Ordering::Relaxed);
            if before < now {
                let mut average =
                    step(self.average.load(Ordering::Relaxed), self.count.swap(0, Ordering::Relaxed));
                let idle = now - before - 1;
                if idle >= 100 {
                    average = 0;
                } else {
                    (0..idle).for_each(|_| average = step(average, 0));
                }
                self.average.store(average, Ordering::Relaxed);
                self.epoch.store(now, Ordering::Release);
            }
        }
        self.count.fetch_add(events, Ordering::Relaxed);
        self.average.load(Ordering::Relaxed)
    }
}

/// Reads all arguments as bandwidths. Click does so for `Meter` too, whose rates are packets: there, only
/// users of the name `click` are told of missing units.
fn bandwidths(args: &mut Args<'_>, cx: &mut ConfigCx<'_>, bytes: bool) -> Result<Vec<u64>, ArgError> {
    let mut rates: Vec<u64> = Vec::new();
    for (i, text) in args.rest().into_iter().enumerate() {
        let rate = text::value::<Bandwidth>(&text, "syntax error");
        let rate = rate.map_err(|e| ArgError::new(format!("argument {} {e}", i + 1)))?.0;
        if rates.last().is_some_and(|before| rate <= *before) {
            return Err(ArgError::new(format!("rate {} must be > rate {i}", i + 1)));
        }
        if text.ends_with(|c: char| c.is_ascii_digit() || c == '.') && (bytes || cx.as_click()) {
            cx.warn(format!("no units for bandwidth argument {}, assuming Bps", i + 1));
        }
        rates.push(rate);
    }
    Ok(rates)
}

/// The unit that a meter counts.
pub trait RateUnit: Send + 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual.
    const MANUAL: &'static str;
    /// Bytes, not packets.
    const BYTES: bool;
}

/// The unit of `BandwidthMeter` itself.
pub struct ByBytes;

impl RateUnit for ByBytes {
    const CLASS: &'static str = "BandwidthMeter";
    const MANUAL: &'static str = manual!("queues/bandwidthmeter");
    const BYTES: bool = true;
}

/// `BandwidthMeter` and `Meter`.
pub struct BandwidthMeter<K: RateUnit = ByBytes> {
    /// In the units of the average.
    meters: Box<[u64]>,
    average: Arc<Average>,
    kind: PhantomData<fn() -> K>,
}

impl<K: RateUnit> Element for BandwidthMeter<K> {
    const CLASS: &'static str = K::CLASS;
    const PORTS: &'static str = "1/2-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = K::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let rates = bandwidths(args, cx, K::BYTES)?;
        if rates.is_empty() {
            return Err(ArgError::new(format!("too few arguments to {}(bandwidth, ...)", K::CLASS)));
        }
        if rates.len() + 1 != cx.n_outputs() {
            let n = cx.n_outputs().saturating_sub(1);
            return Err(ArgError::new(format!(
                "need {n} arguments, one less than the number of output ports"
            )));
        }
        // Traffic is never above a rate that does not fit the type.
        let scaled =
            |r: &u64| ((u128::from(*r) << SCALE) / u128::from(EPOCHS)).try_into().unwrap_or(u64::MAX);
        let meters = rates.iter().map(scaled).collect();
        Ok(Self { meters, average: cx.shared(Average::new), kind: PhantomData })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read_with("rate", Combine::First, |e, _, cx| {
            Ok(text::real2(e.average.update(cx.now_ns(), 0).saturating_mul(EPOCHS), SCALE))
        });
        h.read("meters", |e| {
            e.meters
                .iter()
                .map(|m| text::real2(m.saturating_mul(EPOCHS), SCALE))
                .collect::<Vec<_>>()
                .join("\n")
        });
    }
}

impl<K: RateUnit> Vector for BandwidthMeter<K> {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let events = if K::BYTES { batch.iter().map(|p| p.len()).sum() } else { batch.len() };
        let average = self.average.update(cx.now_ns(), events as u64);
        cx.output_batch(self.meters.partition_point(|m| average >= *m), batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn the_average_follows_the_rate_and_decays() {
        let a = Average::new();
        let mut last = 0;
        for ms in 1..=200u64 {
            last = a.update(ms * EPOCH_NS, 10);
        }
        // Ten events a millisecond: ten thousand a second.
        assert!((9_990..=10_010).contains(&((last * EPOCHS) >> SCALE)), "{last}");
        assert!(a.update(216 * EPOCH_NS, 0) < last / 2);
        assert_eq!(a.update(400 * EPOCH_NS, 0), 0);
    }

    #[test]
    fn rates_beyond_all_traffic_are_never_reached() {
        let mut bench = Bench::with_ports("BandwidthMeter(1000, 18446744073709551615)", 1, 3);
        assert!(bench.read("meters").starts_with("1000\n"), "{}", bench.read("meters"));
        for _ in 0..10 {
            assert!(bench.push(0, &[0; 1500]).iter().all(|(out, _)| *out < 2));
        }
    }

    #[test]
    fn argument_errors() {
        let error = |declaration: &str| Bench::error(declaration);
        assert!(error("BandwidthMeter").contains("too few arguments to BandwidthMeter"));
        assert!(error("BandwidthMeter(2, 1)").contains("rate 2 must be > rate 1"));
        assert!(error("BandwidthMeter(1, 2, 3, 4)").contains("one less than the number of output ports"));
        assert!(error("BandwidthMeter(fast)").contains("argument 1 syntax error"));
    }
}
