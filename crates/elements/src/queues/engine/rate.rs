//! Token buckets: the engine of all elements that limit a rate.
//!
//! Time and tokens are integers: a bucket that began at `base` has earned `floor((now - base) * rate)`
//! tokens, and `used` is the number of tokens that were taken. Workers share only one atomic number, so a
//! rate applies to the whole router with any number of workers, and no fraction of a token is ever lost to
//! rounding.
//!
//! There are two types of buckets. Click's `TokenBucket` ([`Start::Full`]) is full at first and allows a
//! burst. Click's `GapRate` ([`Start::Grid`]) gives tokens at equal intervals counted from full seconds, and
//! a late consumer can catch up on at most one second. Click refills token buckets every millisecond; this
//! one is continuous.

use crate::prelude::*;
use lang::args::{Bandwidth, FromArg, NameDb};
use locks::IgnorePoison;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
/// Tokens that a bucket of bytes must have before a packet may pass, so that there are tokens for a packet of
/// any length (Click's `tb_bandwidth_thresh`).
const BYTES_FLOOR: i64 = 131_072;
/// The longest common Ethernet frame: the assumed length of a packet that has not been pulled yet.
const LIKELY_BYTES: i64 = 1_514;
/// Rates of this many tokens per second and more are unlimited.
const NO_LIMIT: u64 = 100_000_000_000;

/// The unit of the tokens.
pub trait Unit: Send + 'static {
    /// Whether it is bytes, not packets.
    const BYTES: bool;
}
/// A token is a packet.
pub struct Packets;
/// A token is a byte.
pub struct Bytes;
impl Unit for Packets {
    const BYTES: bool = false;
}
impl Unit for Bytes {
    const BYTES: bool = true;
}

/// The size of the bucket.
#[derive(Clone, Copy, Debug)]
pub(in crate::queues) enum Burst {
    /// As many as are earned in this many milliseconds.
    Millis(u64),
    /// This many.
    Tokens(u64),
    /// As many as are earned in one second, at equal intervals.
    Gap,
}

/// The contents of a bucket when it is first used.
#[derive(Clone, Copy, Debug)]
enum Start {
    Full,
    Tokens(i64),
    Grid,
}

/// The parameters of a bucket for one rate.
#[derive(Debug)]
struct Line {
    rate: u64,
    capacity: i64,
    /// The least number of tokens with which a packet may pass.
    floor: i64,
    start: Start,
    running: OnceLock<Running>,
}

#[derive(Debug)]
struct Running {
    base_ns: u64,
    used: AtomicI64,
}

impl Line {
    fn new<U: Unit>(rate: u64, burst: Burst) -> Self {
        let floor = if U::BYTES && !matches!(burst, Burst::Gap) { BYTES_FLOOR } else { 1 };
        let tokens = match burst {
            Burst::Millis(ms) => u128::from(rate) * u128::from(ms) / 1000,
            Burst::Tokens(n) => u128::from(n),
            Burst::Gap => u128::from(rate),
        };
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        let capacity = if floor > 1 { tokens + floor } else { tokens.max(1) };
        let start = if matches!(burst, Burst::Gap) { Start::Grid } else { Start::Full };
        Self { rate, capacity, floor, start, running: OnceLock::new() }
    }

    fn unlimited(&self) -> bool {
        self.rate >= NO_LIMIT || (self.rate == 0 && !matches!(self.start, Start::Grid))
    }

    fn running(&self, now_ns: u64) -> &Running {
        self.running.get_or_init(|| {
            let (base_ns, used) = match self.start {
                Start::Full => (now_ns, -self.capacity),
                Start::Tokens(n) => (now_ns, -n),
                Start::Grid => {
                    // The first packet passes at once in the first half of an interval, else at the next
                    // mark.
                    let base = now_ns - now_ns % SECOND_NS;
                    let due = self.earned(now_ns - base);
                    let into = u128::from(now_ns - base) * u128::from(self.rate) % u128::from(SECOND_NS);
                    (base, due - i64::from(into <= u128::from(SECOND_NS / 2)))
                }
            };
            Running { base_ns, used: AtomicI64::new(used) }
        })
    }

    /// Tokens earned in a time.
    fn earned(&self, ns: u64) -> i64 {
        let rate = self.rate.min(NO_LIMIT);
        let whole = (ns / SECOND_NS).saturating_mul(rate);
        let rest = ns % SECOND_NS;
        let part = match rest.checked_mul(rate) {
            Some(product) => product / SECOND_NS,
            None => (u128::from(rest) * u128::from(rate) / u128::from(SECOND_NS)) as u64,
        };
        i64::try_from(whole.saturating_add(part)).unwrap_or(i64::MAX)
    }

    /// The current number of tokens; negative if packets were larger than expected.
    fn tokens(&self, now_ns: u64) -> i64 {
        let running = self.running(now_ns);
        let earned = self.earned(now_ns.saturating_sub(running.base_ns));
        earned.saturating_sub(running.used.load(Ordering::Relaxed)).min(self.capacity)
    }

    /// Calls `want` with the current number of tokens, and takes as many as it returns.
    fn take(&self, now_ns: u64, want: impl Fn(i64) -> i64) -> i64 {
        let running = self.running(now_ns);
        let earned = self.earned(now_ns.saturating_sub(running.base_ns));
        let mut used = running.used.load(Ordering::Relaxed);
        loop {
            let tokens = earned.saturating_sub(used).min(self.capacity);
            let n = want(tokens);
            if n == 0 {
                return 0;
            }
            let next = earned.saturating_sub(tokens).saturating_add(n);
            match running.used.compare_exchange_weak(used, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return n,
                Err(now) => used = now,
            }
        }
    }

    /// When the bucket allows the next packet, in nanoseconds; `None` if never.
    fn opens_at(&self, now_ns: u64) -> Option<u64> {
        if self.rate == 0 {
            return None;
        }
        let running = self.running(now_ns);
        let goal = i128::from(running.used.load(Ordering::Relaxed)) + i128::from(self.floor);
        let ns = (goal.max(0) as u128 * u128::from(SECOND_NS)).div_ceil(u128::from(self.rate));
        Some(running.base_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX)))
    }
}

/// The part of a bucket that workers share.
#[derive(Debug)]
pub(in crate::queues) struct Shared {
    line: Mutex<Arc<Line>>,
    /// Increases with each change of the rate, so that workers read `line` only then.
    generation: AtomicU64,
}

/// A worker's view of a bucket.
pub(crate) struct Bucket<U> {
    shared: Arc<Shared>,
    line: Arc<Line>,
    generation: u64,
    burst: Burst,
    unit: PhantomData<fn() -> U>,
}

impl<U: Unit> Bucket<U> {
    /// Reads `RATE` and, for a token bucket, the size of the burst.
    pub(in crate::queues) fn from_args(
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
        gap: bool,
    ) -> Result<Self, ArgError> {
        let rate = if U::BYTES { args.mp::<Bandwidth>("RATE")?.0 } else { args.mp::<u64>("RATE")? };
        let burst = if gap {
            Burst::Gap
        } else {
            let duration = args.k::<Duration>("BURST_DURATION")?;
            let size = args.k::<u32>(if U::BYTES { "BURST_BYTES" } else { "BURST_SIZE" })?;
            match (duration, size) {
                (Some(_), Some(_)) => {
                    return Err(ArgError::new("cannot specify both BURST_DURATION and BURST_SIZE"));
                }
                (_, Some(n)) => Burst::Tokens(u64::from(n)),
                (duration, None) => Burst::Millis(duration.map_or(20, |d| d.as_millis() as u64)),
            }
        };
        Ok(Self::new(rate, burst, cx))
    }

    /// A token bucket for an element that is not a shaper: full at first, its size is what `burst_ms` earn at
    /// its rate, and at least one token. A rate of 0 means no limit.
    pub(crate) fn lasting(rate: u64, burst_ms: u64, cx: &mut ConfigCx<'_>) -> Self {
        Self::new(rate, Burst::Millis(burst_ms), cx)
    }

    fn new(rate: u64, burst: Burst, cx: &mut ConfigCx<'_>) -> Self {
        let shared = cx.shared(|| Shared {
            line: Mutex::new(Arc::new(Line::new::<U>(rate, burst))),
            generation: AtomicU64::new(0),
        });
        Self::view(shared, burst)
    }

    fn view(shared: Arc<Shared>, burst: Burst) -> Self {
        let line = Arc::clone(&shared.line.lock().ignore_poison());
        let generation = shared.generation.load(Ordering::Acquire);
        Self { shared, line, generation, burst, unit: PhantomData }
    }

    #[inline]
    fn refresh(&mut self) {
        if self.shared.generation.load(Ordering::Acquire) != self.generation {
            *self = Self::view(Arc::clone(&self.shared), self.burst);
        }
    }

    /// How many packets may pass now, at most `max`. If a token is a packet, the tokens are taken; return
    /// unused ones with [`Bucket::settle`].
    pub(crate) fn admit(&mut self, now_ns: u64, max: usize) -> usize {
        self.refresh();
        if self.line.unlimited() {
            return max;
        }
        if self.line.rate == 0 {
            return 0;
        }
        if U::BYTES {
            let spare = self.line.tokens(now_ns) - self.line.floor;
            return if spare < 0 {
                0
            } else {
                usize::try_from(spare / LIKELY_BYTES + 1).unwrap_or(max).min(max)
            };
        }
        self.line.take(now_ns, |tokens| tokens.clamp(0, max as i64)) as usize
    }

    /// Counts the packets that passed after [`Bucket::admit`] returned `admitted`.
    pub(in crate::queues) fn settle(&mut self, now_ns: u64, admitted: usize, packets: &[Packet]) {
        if self.line.unlimited() {
            return;
        }
        if U::BYTES {
            let bytes: usize = packets.iter().map(|p| p.len()).sum();
            self.line.take(now_ns, |_| bytes as i64);
        } else if admitted > packets.len() {
            self.line.take(now_ns, |_| packets.len() as i64 - admitted as i64);
        }
    }

    /// How many packets from the front of a batch may pass now; their tokens are taken.
    pub(in crate::queues) fn pass(&mut self, now_ns: u64, packets: &[Packet]) -> usize {
        if !U::BYTES {
            return self.admit(now_ns, packets.len());
        }
        self.refresh();
        if self.line.unlimited() {
            return packets.len();
        }
        let mut spare = self.line.tokens(now_ns) - self.line.floor;
        let fits = |p: &&Packet| {
            let fits = spare >= 0;
            spare -= p.len() as i64;
            fits
        };
        let n = packets.iter().take_while(fits).count();
        let bytes: usize = packets.iter().take(n).map(|p| p.len()).sum();
        self.line.take(now_ns, |_| bytes as i64);
        n
    }

    /// When the next packet may pass, if ever. In the past if it may pass now.
    pub(in crate::queues) fn opens_at(&mut self, now_ns: u64) -> Option<u64> {
        self.refresh();
        if self.line.unlimited() { Some(now_ns) } else { self.line.opens_at(now_ns) }
    }

    /// The rate as a handler shows it.
    pub(crate) fn rate(&self) -> String {
        let rate = self.shared.line.lock().ignore_poison().rate;
        if U::BYTES { Bandwidth(rate).unparse() } else { rate.to_string() }
    }

    /// Changes the rate; the bucket stays as full as it was. Each worker may call it with the same text.
    pub(crate) fn set_rate(&mut self, text: &str, now_ns: u64) -> Result<(), String> {
        let names = NameDb::default();
        let fail = |e: String| format!("RATE: {e}");
        let rate = if U::BYTES {
            Bandwidth::from_arg(text.trim(), &names).map_err(fail)?.0
        } else {
            u64::from_arg(text.trim(), &names).map_err(fail)?
        };
        let mut line = self.shared.line.lock().ignore_poison();
        if line.rate != rate {
            let mut new = Line::new::<U>(rate, self.burst);
            if !matches!(self.burst, Burst::Gap) && !line.unlimited() {
                let filled =
                    i128::from(line.tokens(now_ns)) * i128::from(new.capacity) / i128::from(line.capacity);
                new.start = Start::Tokens(i64::try_from(filled).unwrap_or(new.capacity));
            }
            *line = Arc::new(new);
            self.shared.generation.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: u64 = 1_000_000_000 * SECOND_NS;
    const MS: u64 = 1_000_000;

    fn bucket<U: Unit>(rate: u64, burst: Burst) -> Bucket<U> {
        let shared =
            Shared { line: Mutex::new(Arc::new(Line::new::<U>(rate, burst))), generation: AtomicU64::new(0) };
        Bucket::view(Arc::new(shared), burst)
    }

    #[test]
    fn begins_full_and_refills_to_the_burst() {
        let mut b = bucket::<Packets>(100, Burst::Tokens(5));
        assert_eq!(b.admit(T0, 100), 5);
        assert_eq!(b.admit(T0, 100), 0);
        assert_eq!(b.opens_at(T0), Some(T0 + 10 * MS));
        assert_eq!(b.admit(T0 + 10 * MS - 1, 100), 0);
        assert_eq!(b.admit(T0 + 10 * MS, 100), 1);
        assert_eq!(b.admit(T0 + 10_000 * MS, 100), 5, "no more than the burst");
    }

    #[test]
    fn loses_no_fraction() {
        let mut b = bucket::<Packets>(3, Burst::Tokens(1));
        let mut passed = 0;
        for ms in 0..=10_000 {
            passed += b.admit(T0 + ms * MS, 1);
        }
        assert_eq!(passed, 31);
    }

    #[test]
    fn default_burst_is_twenty_milliseconds_and_one_packet_at_least() {
        assert_eq!(bucket::<Packets>(10, Burst::Millis(20)).admit(T0, 100), 1);
        assert_eq!(bucket::<Packets>(1000, Burst::Millis(20)).admit(T0, 100), 20);
    }

    #[test]
    fn unused_tokens_come_back() {
        let mut b = bucket::<Packets>(10, Burst::Tokens(4));
        assert_eq!(b.admit(T0, 4), 4);
        b.settle(T0, 4, &[Packet::from_bytes(b"a").unwrap()]);
        assert_eq!(b.admit(T0, 9), 3);
    }

    #[test]
    fn bytes_are_charged_after_the_fact() {
        let mut b = bucket::<Bytes>(1000, Burst::Tokens(1000));
        let packet = [Packet::from_bytes(&[0; 600]).unwrap()];
        for _ in 0..2 {
            assert_eq!(b.admit(T0, 1), 1);
            b.settle(T0, 1, &packet);
        }
        assert_eq!(b.admit(T0, 1), 0);
        assert_eq!(b.opens_at(T0), Some(T0 + 200 * MS));
        assert_eq!(b.admit(T0 + 200 * MS, 1), 1);
    }

    #[test]
    fn gaps_are_even_and_late_consumers_catch_up_on_a_second() {
        let mut b = bucket::<Packets>(4, Burst::Gap);
        assert_eq!(b.admit(T0, 9), 1);
        assert_eq!(b.opens_at(T0), Some(T0 + 250 * MS));
        assert_eq!(b.admit(T0 + 249 * MS, 9), 0);
        assert_eq!(b.admit(T0 + 250 * MS, 9), 1);
        assert_eq!(b.admit(T0 + 60_000 * MS, 9), 4);
        // In the second half of an interval the first packet waits for the next mark.
        let mut b = bucket::<Packets>(4, Burst::Gap);
        assert_eq!(b.admit(T0 + 130 * MS, 9), 0);
        assert_eq!(b.opens_at(T0 + 130 * MS), Some(T0 + 250 * MS));
    }

    #[test]
    fn zero_is_no_limit_for_buckets_and_no_packet_for_gaps() {
        assert_eq!(bucket::<Packets>(0, Burst::Millis(20)).admit(T0, 77), 77);
        let mut none = bucket::<Packets>(0, Burst::Gap);
        assert_eq!((none.admit(T0, 77), none.opens_at(T0)), (0, None));
    }

    #[test]
    fn a_new_rate_keeps_the_level_and_reaches_other_workers() {
        let mut a = bucket::<Packets>(10, Burst::Millis(1000));
        let mut b = Bucket::<Packets>::view(Arc::clone(&a.shared), a.burst);
        assert_eq!(a.admit(T0, 5), 5);
        a.set_rate("100", T0).unwrap();
        assert_eq!(b.admit(T0, 1000), 50);
        assert!(a.set_rate("fast", T0).is_err());
        assert_eq!(a.rate(), "100");
    }

    #[test]
    fn workers_share_one_rate() {
        let a = bucket::<Packets>(1000, Burst::Tokens(1));
        let passed: usize = std::thread::scope(|s| {
            let work = |mut b: Bucket<Packets>| {
                s.spawn(move || (0..=1000u64).map(|ms| b.admit(T0 + ms * MS, 1)).sum::<usize>())
            };
            let threads: Vec<_> =
                (0..4).map(|_| work(Bucket::view(Arc::clone(&a.shared), a.burst))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert!(passed <= 1001, "{passed}");
    }
}
