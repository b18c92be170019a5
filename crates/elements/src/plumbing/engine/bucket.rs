//! Token buckets: the engine of all elements that limit a rate.
//!
//! Time and tokens are integers: a bucket that began at `base` has earned `floor((now - base) * rate)`
//! tokens, and `used` is the number of tokens that were taken. Workers share only one atomic number, so a
//! rate applies to the whole router with any number of workers, and no fraction of a token is ever lost to
//! rounding.
//!
//! There are two types of buckets. Click's `TokenBucket` ([`Start::Full`]) is full at first and allows a
//! burst. Click's `GapRate` ([`Start::Grid`]) gives tokens at equal intervals counted from full seconds, and
//! a late consumer can catch up on at most one second.
//!
//! Click's `TokenBucket` counts whole milliseconds, and its tokens are 32-bit fractions of the capacity that
//! are cut to integers. In simulated time this one does the same ([`Grain`]), so that packets have Click's
//! times: at ten a second, every 101 ms. In real time it is continuous, which is exact at any rate and
//! releases no burst every millisecond.

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
const MILLISECOND_NS: u64 = 1_000_000;
/// Click's ticks per second.
const TICKS: u64 = 1000;

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
pub(crate) enum Burst {
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
    /// So many parts of tokens.
    Parts(i64),
    Grid,
}

/// The parts in which a bucket counts.
#[derive(Clone, Copy, Debug)]
struct Grain {
    /// Parts of a token.
    scale: i64,
    /// Parts that are earned in each whole millisecond; none: what is earned is counted continuously.
    per_tick: Option<u64>,
}

impl Grain {
    const CONTINUOUS: Self = Self { scale: 1, per_tick: None };

    /// Click's parts, and the capacity in them.
    fn ticking(rate: u64, capacity: i64) -> (Self, i64) {
        // What is earned in a tick has to fit.
        let capacity = capacity.unsigned_abs().max(rate.div_ceil(TICKS)).max(1);
        // Click's numbers have 32 bits. Greater capacities than it knows have to have parts, too.
        let most = if capacity > u64::from(u32::MAX) { i64::MAX as u64 / 4 } else { u64::from(u32::MAX) };
        let scale = (most / capacity).max(1);
        let per_tick = u128::from(rate) * u128::from(scale) / u128::from(TICKS);
        let per_tick = if rate == 0 { 0 } else { u64::try_from(per_tick).unwrap_or(most).max(1) };
        (Self { scale: scale as i64, per_tick: Some(per_tick) }, most as i64)
    }
}

/// The parameters of a bucket for one rate. Amounts are in parts of tokens.
#[derive(Debug)]
struct Line {
    rate: u64,
    capacity: i64,
    /// The least amount with which a packet may pass.
    floor: i64,
    grain: Grain,
    start: Start,
    /// Whether a rate of 0 means that all packets pass.
    zero_is_no_limit: bool,
    running: OnceLock<Running>,
}

#[derive(Debug)]
struct Running {
    base_ns: u64,
    used: AtomicI64,
}

impl Line {
    fn new<U: Unit>(rate: u64, form: Form) -> Self {
        let gap = matches!(form.burst, Burst::Gap);
        let floor = if U::BYTES && !gap { BYTES_FLOOR } else { 1 };
        let tokens = match form.burst {
            Burst::Millis(ms) => u128::from(rate) * u128::from(ms) / 1000,
            Burst::Tokens(n) => u128::from(n),
            Burst::Gap => u128::from(rate),
        };
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        let capacity = if floor > 1 { tokens + floor } else { tokens.max(1) };
        let (grain, capacity) =
            if form.ticks && !gap { Grain::ticking(rate, capacity) } else { (Grain::CONTINUOUS, capacity) };
        let start = match form.burst {
            Burst::Gap => Start::Grid,
            // It never fills.
            _ if rate == 0 => {
                Start::Parts(i64::try_from(form.empty).unwrap_or(0).saturating_mul(grain.scale))
            }
            _ => Start::Full,
        };
        let zero_is_no_limit = form.zero_is_no_limit;
        let floor = grain.scale.saturating_mul(floor);
        Self { rate, capacity, floor, grain, start, zero_is_no_limit, running: OnceLock::new() }
    }

    fn unlimited(&self) -> bool {
        self.rate >= NO_LIMIT || (self.rate == 0 && self.zero_is_no_limit)
    }

    fn running(&self, now_ns: u64) -> &Running {
        self.running.get_or_init(|| {
            let (base_ns, used) = match self.start {
                Start::Full => (now_ns, -self.capacity),
                Start::Parts(n) => (now_ns, -n),
                Start::Grid => {
                    // The first packet passes at once in the first half of an interval, else at the next
                    // mark.
                    let base = now_ns - now_ns % SECOND_NS;
                    let due = self.earned(base, now_ns);
                    let into = u128::from(now_ns - base) * u128::from(self.rate) % u128::from(SECOND_NS);
                    (base, due - i64::from(into <= u128::from(SECOND_NS / 2)))
                }
            };
            Running { base_ns, used: AtomicI64::new(used) }
        })
    }

    /// The state in which, of tokens at equal intervals, just one is there.
    fn due(&self, now_ns: u64) -> Running {
        let base_ns = now_ns - now_ns % SECOND_NS;
        Running { base_ns, used: AtomicI64::new(self.earned(base_ns, now_ns) - 1) }
    }

    /// What is earned between two moments.
    fn earned(&self, base_ns: u64, now_ns: u64) -> i64 {
        if let Some(per_tick) = self.grain.per_tick {
            let ticks = (now_ns / MILLISECOND_NS).saturating_sub(base_ns / MILLISECOND_NS);
            return i64::try_from(ticks.saturating_mul(per_tick)).unwrap_or(i64::MAX);
        }
        let ns = now_ns.saturating_sub(base_ns);
        let rate = self.rate.min(NO_LIMIT);
        let whole = (ns / SECOND_NS).saturating_mul(rate);
        let rest = ns % SECOND_NS;
        let part = match rest.checked_mul(rate) {
            Some(product) => product / SECOND_NS,
            None => (u128::from(rest) * u128::from(rate) / u128::from(SECOND_NS)) as u64,
        };
        i64::try_from(whole.saturating_add(part)).unwrap_or(i64::MAX)
    }

    /// What is there; negative if packets were larger than expected.
    fn parts(&self, now_ns: u64) -> i64 {
        let running = self.running(now_ns);
        let earned = self.earned(running.base_ns, now_ns);
        earned.saturating_sub(running.used.load(Ordering::Relaxed)).min(self.capacity)
    }

    /// Makes the amount that was there at `at_ns` so great.
    fn set_parts(&self, parts: i64, at_ns: u64) {
        let running = self.running(at_ns);
        let earned = self.earned(running.base_ns, at_ns);
        running.used.store(earned.saturating_sub(parts.min(self.capacity)), Ordering::Relaxed);
    }

    /// Calls `want` with what is there, and takes as much as it returns.
    fn take(&self, now_ns: u64, want: impl Fn(i64) -> i64) -> i64 {
        let running = self.running(now_ns);
        let earned = self.earned(running.base_ns, now_ns);
        let mut used = running.used.load(Ordering::Relaxed);
        loop {
            let parts = earned.saturating_sub(used).min(self.capacity);
            let n = want(parts);
            if n == 0 {
                return 0;
            }
            let next = earned.saturating_sub(parts).saturating_add(n);
            match running.used.compare_exchange_weak(used, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return n,
                Err(now) => used = now,
            }
        }
    }

    /// Takes up to `max` whole tokens; returns how many.
    fn take_tokens(&self, now_ns: u64, max: usize) -> usize {
        let scale = self.grain.scale;
        if scale == 1 {
            return self.take(now_ns, |parts| parts.clamp(0, max as i64)) as usize;
        }
        let taken = self.take(now_ns, |parts| (parts / scale).clamp(0, max as i64) * scale);
        usize::try_from(taken / scale).unwrap_or(0)
    }

    /// When the bucket allows the next packet, in nanoseconds; `None` if never.
    fn opens_at(&self, now_ns: u64) -> Option<u64> {
        if self.rate == 0 {
            return None;
        }
        if let Some(per_tick) = self.grain.per_tick {
            let missing = self.floor.saturating_sub(self.parts(now_ns));
            let ticks = u64::try_from(missing).unwrap_or(0).div_ceil(per_tick.max(1));
            return Some(now_ns.saturating_add(ticks.saturating_mul(MILLISECOND_NS)));
        }
        let running = self.running(now_ns);
        let goal = i128::from(running.used.load(Ordering::Relaxed)) + i128::from(self.floor);
        let ns = (goal.max(0) as u128 * u128::from(SECOND_NS)).div_ceil(u128::from(self.rate));
        Some(running.base_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX)))
    }
}

/// What all rates of a bucket have in common.
#[derive(Clone, Copy, Debug)]
struct Form {
    burst: Burst,
    /// Whether it counts in Click's ticks.
    ticks: bool,
    zero_is_no_limit: bool,
    /// How many tokens a bucket has that never fills, because its rate is 0.
    empty: u64,
}

/// The part of a bucket that workers share.
#[derive(Debug)]
pub(crate) struct Shared {
    line: Mutex<Arc<Line>>,
    /// Increases with each change of the rate, so that workers read `line` only then.
    generation: AtomicU64,
}

/// A worker's view of a bucket.
pub(crate) struct Bucket<U> {
    shared: Arc<Shared>,
    line: Arc<Line>,
    generation: u64,
    form: Form,
    unit: PhantomData<fn() -> U>,
}

impl<U: Unit> Bucket<U> {
    /// Reads `RATE` and, for a token bucket, the size of the burst.
    pub(crate) fn from_args(args: &mut Args<'_>, cx: &mut ConfigCx<'_>, gap: bool) -> Result<Self, ArgError> {
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
        let form = Form { burst, ticks: cx.simulated_time(), zero_is_no_limit: false, empty: 0 };
        Ok(Self::new(rate, form, cx))
    }

    /// A token bucket for an element that is not a shaper: full at first, its size is what `burst_ms` earn at
    /// its rate, and at least one token. A rate of 0 means no limit.
    pub(crate) fn lasting(rate: u64, burst_ms: u64, cx: &mut ConfigCx<'_>) -> Self {
        let burst = Burst::Millis(burst_ms);
        Self::new(rate, Form { burst, ticks: false, zero_is_no_limit: true, empty: 0 }, cx)
    }

    /// The token bucket of a source: full at first; at a rate of 0 it has one token.
    pub(crate) fn source(rate: u64, burst: u64, cx: &mut ConfigCx<'_>) -> Self {
        let (burst, ticks) = (Burst::Tokens(burst), cx.simulated_time());
        Self::new(rate, Form { burst, ticks, zero_is_no_limit: false, empty: 1 }, cx)
    }

    fn new(rate: u64, form: Form, cx: &mut ConfigCx<'_>) -> Self {
        let shared = cx.shared(|| Shared {
            line: Mutex::new(Arc::new(Line::new::<U>(rate, form))),
            generation: AtomicU64::new(0),
        });
        Self::view(shared, form)
    }

    fn view(shared: Arc<Shared>, form: Form) -> Self {
        let line = Arc::clone(&shared.line.lock().ignore_poison());
        let generation = shared.generation.load(Ordering::Acquire);
        Self { shared, line, generation, form, unit: PhantomData }
    }

    #[inline]
    fn refresh(&mut self) {
        if self.shared.generation.load(Ordering::Acquire) != self.generation {
            *self = Self::view(Arc::clone(&self.shared), self.form);
        }
    }

    /// How many packets may pass now, at most `max`. If a token is a packet, the tokens are taken; return
    /// unused ones with [`Bucket::settle`].
    pub(crate) fn admit(&mut self, now_ns: u64, max: usize) -> usize {
        self.refresh();
        if self.line.unlimited() {
            return max;
        }
        if self.line.rate == 0 && matches!(self.form.burst, Burst::Gap) {
            return 0;
        }
        if U::BYTES {
            let spare = self.line.parts(now_ns) - self.line.floor;
            return if spare < 0 {
                0
            } else {
                let likely = LIKELY_BYTES.saturating_mul(self.line.grain.scale);
                usize::try_from(spare / likely + 1).unwrap_or(max).min(max)
            };
        }
        self.line.take_tokens(now_ns, max)
    }

    /// Takes the tokens of packets that have passed, or, if negative, gives them back.
    fn charge(&self, now_ns: u64, tokens: i64) {
        let parts = tokens.saturating_mul(self.line.grain.scale);
        self.line.take(now_ns, |_| parts);
    }

    /// Counts the packets that passed after [`Bucket::admit`] returned `admitted`.
    pub(crate) fn settle(&mut self, now_ns: u64, admitted: usize, packets: &[Packet]) {
        if self.line.unlimited() {
            return;
        }
        if U::BYTES {
            let bytes: usize = packets.iter().map(|p| p.len()).sum();
            self.charge(now_ns, bytes as i64);
        } else if admitted > packets.len() {
            self.charge(now_ns, packets.len() as i64 - admitted as i64);
        }
    }

    /// How many packets from the front of a batch may pass now; their tokens are taken.
    pub(crate) fn pass(&mut self, now_ns: u64, packets: &[Packet]) -> usize {
        if !U::BYTES {
            return self.admit(now_ns, packets.len());
        }
        self.refresh();
        if self.line.unlimited() {
            return packets.len();
        }
        let mut spare = self.line.parts(now_ns) - self.line.floor;
        let scale = self.line.grain.scale;
        let fits = |p: &&Packet| {
            let fits = spare >= 0;
            spare = spare.saturating_sub((p.len() as i64).saturating_mul(scale));
            fits
        };
        let n = packets.iter().take_while(fits).count();
        let bytes: usize = packets.iter().take(n).map(|p| p.len()).sum();
        self.charge(now_ns, bytes as i64);
        n
    }

    /// When the next packet may pass, if ever. In the past if it may pass now.
    pub(crate) fn opens_at(&mut self, now_ns: u64) -> Option<u64> {
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
        self.exchange(rate, self.form, now_ns, |old, parts, new| {
            // As full as it was.
            parts * i128::from(new.capacity) / i128::from(old.capacity)
        });
        Ok(())
    }

    /// Changes the rate and the size of the bucket; it keeps its tokens. For [`Bucket::source`].
    pub(crate) fn assign(&mut self, rate: u64, burst: u64, now_ns: u64) {
        let form = Form { burst: Burst::Tokens(burst), ..self.form };
        self.exchange(rate, form, now_ns, |old, parts, new| {
            parts * i128::from(new.grain.scale) / i128::from(old.grain.scale)
        });
    }

    /// Begins anew, as when the bucket was first used.
    pub(crate) fn reset(&mut self) {
        let mut line = self.shared.line.lock().ignore_poison();
        *line = Arc::new(Line::new::<U>(line.rate, self.form));
        self.shared.generation.fetch_add(1, Ordering::Release);
    }

    /// Gives the bucket so many tokens, as of `at_ns`.
    pub(crate) fn set(&mut self, tokens: u32, at_ns: u64) {
        self.refresh();
        self.line.set_parts(i64::from(tokens).saturating_mul(self.line.grain.scale), at_ns);
    }

    /// Has no more tokens than the bucket before it, whose place it takes.
    pub(crate) fn take_over(&mut self, old: &mut Self, now_ns: u64) {
        self.refresh();
        old.refresh();
        let gap = matches!(self.form.burst, Burst::Gap) || matches!(old.form.burst, Burst::Gap);
        if gap || self.line.unlimited() || old.line.unlimited() {
            return;
        }
        let (scale, parts) = (i128::from(self.line.grain.scale), i128::from(old.line.parts(now_ns)));
        let parts = parts * scale / i128::from(old.line.grain.scale.max(1));
        let parts = i64::try_from(parts).unwrap_or(i64::MAX).min(self.line.parts(now_ns));
        self.line.set_parts(parts, now_ns);
    }

    /// [`Bucket::take_over`] by a bucket of the same element, of which only the arguments have changed: one
    /// at equal intervals goes on with them, and at another rate begins with a packet that is due, as in
    /// Click.
    pub(crate) fn go_on_from(&mut self, old: &mut Self, now_ns: u64) {
        self.refresh();
        old.refresh();
        if !matches!((self.form.burst, old.form.burst), (Burst::Gap, Burst::Gap)) {
            return self.take_over(old, now_ns);
        }
        let Some(before) = old.line.running.get() else { return };
        self.line.running.get_or_init(|| match self.line.rate == old.line.rate {
            true => {
                Running { base_ns: before.base_ns, used: AtomicI64::new(before.used.load(Ordering::Relaxed)) }
            }
            false => self.line.due(now_ns),
        });
    }

    fn exchange(&mut self, rate: u64, form: Form, now_ns: u64, fill: impl Fn(&Line, i128, &Line) -> i128) {
        self.form = form;
        let mut line = self.shared.line.lock().ignore_poison();
        if line.rate != rate {
            let mut new = Line::new::<U>(rate, form);
            if matches!(form.burst, Burst::Gap) {
                if line.running.get().is_some() && rate > 0 {
                    new.running.get_or_init(|| new.due(now_ns));
                }
            } else if !line.unlimited() {
                let parts = fill(&line, i128::from(line.parts(now_ns)), &new);
                new.start = Start::Parts(i64::try_from(parts).unwrap_or(new.capacity).min(new.capacity));
                // From now on, not from the next packet on.
                new.running(now_ns);
            }
            *line = Arc::new(new);
            self.shared.generation.fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: u64 = 1_000_000_000 * SECOND_NS;
    const MS: u64 = 1_000_000;

    fn of_form<U: Unit>(rate: u64, form: Form) -> Bucket<U> {
        let line = Mutex::new(Arc::new(Line::new::<U>(rate, form)));
        Bucket::view(Arc::new(Shared { line, generation: AtomicU64::new(0) }), form)
    }
    fn bucket<U: Unit>(rate: u64, burst: Burst) -> Bucket<U> {
        of_form(rate, Form { burst, ticks: false, zero_is_no_limit: false, empty: 0 })
    }
    /// One that counts as Click does.
    fn ticking<U: Unit>(rate: u64, burst: Burst) -> Bucket<U> {
        of_form(rate, Form { burst, ticks: true, zero_is_no_limit: false, empty: 0 })
    }
    /// In which milliseconds packets pass that are always there.
    fn times(mut bucket: Bucket<Packets>, packets: usize) -> Vec<u64> {
        let (mut now, mut times) = (T0, Vec::new());
        while times.len() < packets {
            match bucket.admit(now, 1) {
                0 => now = bucket.opens_at(now).unwrap(),
                _ => times.push((now - T0) / MS),
            }
        }
        times
    }

    #[test]
    fn in_simulated_time_it_counts_as_click_does() {
        // Capacity 1: 42,949,672 parts a millisecond of 4,294,967,295; the 101st fills it, and what is over
        // is lost.
        assert_eq!(times(ticking(10, Burst::Millis(20)), 4), [0, 101, 202, 303]);
        // Capacity 2: 21,474,836 parts of 2,147,483,647 for a packet. What the 101st gives is left over.
        assert_eq!(times(ticking(10, Burst::Tokens(2)), 5), [0, 0, 101, 201, 301]);
        // What is earned in a millisecond has to fit.
        assert_eq!(times(ticking(2000, Burst::Tokens(1)), 5), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn high_rates_are_right_in_simulated_time() {
        for rate in [10_000_000, 148_809_523, 3_000_000_000, 20_000_000_000] {
            let mut b = ticking::<Packets>(rate, Burst::Tokens(rate / 100));
            assert!(b.admit(T0, usize::MAX >> 1) as u64 >= rate / 100);
            let mut passed = 0;
            (1..=1000).for_each(|ms| passed += b.admit(T0 + ms * MS, usize::MAX >> 1) as u64);
            assert!(passed.abs_diff(rate) <= rate / 100_000, "{passed} at {rate}");
        }
    }

    #[test]
    fn a_source_keeps_its_tokens_when_its_rate_changes() {
        let form = Form { burst: Burst::Tokens(2), ticks: true, zero_is_no_limit: false, empty: 1 };
        let mut b = of_form::<Packets>(10, form);
        assert_eq!(b.admit(T0, 1), 1);
        b.assign(1000, 10, T0);
        assert_eq!((b.admit(T0, 9), b.rate()), (1, "1000".to_owned()));
        b.set(1, T0 + 3 * MS);
        assert_eq!(b.admit(T0 + 5 * MS, 9), 3, "one, and what two milliseconds give");
        // At rate 0 there is one, and no more.
        let mut none = of_form::<Packets>(0, form);
        assert_eq!((none.admit(T0, 9), none.admit(T0 + SECOND_NS, 9), none.opens_at(T0)), (1, 0, None));
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

    /// As Click's GapRate.
    #[test]
    fn another_rate_lets_a_packet_pass_at_once_and_the_same_one_none() {
        let mut b = bucket::<Packets>(1, Burst::Gap);
        assert_eq!(b.admit(T0, 9), 1);
        let passes = |b: &mut Bucket<Packets>, rate: &str, ms: u64| {
            b.set_rate(rate, T0 + ms * MS).unwrap();
            b.admit(T0 + ms * MS, 9)
        };
        assert_eq!((passes(&mut b, "1", 100), passes(&mut b, "2", 200), passes(&mut b, "2", 300)), (0, 1, 0));
        let after = |old: &mut Bucket<Packets>, rate: u64| {
            let mut new = bucket::<Packets>(rate, Burst::Gap);
            new.go_on_from(old, T0 + 300 * MS);
            (new.admit(T0 + 300 * MS, 9), new.admit(T0 + 500 * MS, 9))
        };
        assert_eq!((after(&mut b, 2), after(&mut b, 4)), ((0, 1), (1, 1)));
        // One that nobody has pulled from begins as any other.
        assert_eq!(passes(&mut bucket::<Packets>(1, Burst::Gap), "4", 130), 0);
    }

    #[test]
    fn reset_forgets_what_was_missed() {
        let mut b = bucket::<Packets>(4, Burst::Gap);
        assert_eq!(b.admit(T0, 9), 1);
        b.reset();
        assert_eq!(b.admit(T0 + 60_000 * MS, 9), 1);
        assert_eq!(b.admit(T0 + 60_000 * MS, 9), 0);
    }

    #[test]
    fn at_rate_zero_nothing_passes_unless_it_means_no_limit() {
        let form = Form { burst: Burst::Millis(20), ticks: false, zero_is_no_limit: true, empty: 0 };
        assert_eq!(of_form::<Packets>(0, form).admit(T0, 77), 77);
        for mut none in
            [bucket::<Packets>(0, Burst::Gap), bucket(0, Burst::Millis(20)), ticking(0, Burst::Millis(20))]
        {
            assert_eq!((none.admit(T0, 77), none.opens_at(T0)), (0, None));
            assert_eq!(none.admit(T0 + 100 * SECOND_NS, 77), 0);
        }
    }

    #[test]
    fn a_new_rate_keeps_the_level_and_reaches_other_workers() {
        let mut a = bucket::<Packets>(10, Burst::Millis(1000));
        let mut b = Bucket::<Packets>::view(Arc::clone(&a.shared), a.form);
        assert_eq!(a.admit(T0, 5), 5);
        a.set_rate("100", T0).unwrap();
        assert_eq!(b.admit(T0, 1000), 50);
        assert!(a.set_rate("fast", T0).is_err());
        assert_eq!(a.rate(), "100");
    }

    #[test]
    fn a_new_rate_counts_from_when_it_is_set() {
        let mut b = ticking::<Packets>(1, Burst::Tokens(1));
        assert_eq!(b.admit(T0, 1), 1);
        b.set_rate("100", T0).unwrap();
        assert_eq!(b.admit(T0 + 20 * MS, 1), 1);
    }

    #[test]
    fn workers_share_one_rate() {
        let a = bucket::<Packets>(1000, Burst::Tokens(1));
        let passed: usize = std::thread::scope(|s| {
            let work = |mut b: Bucket<Packets>| {
                s.spawn(move || (0..=1000u64).map(|ms| b.admit(T0 + ms * MS, 1)).sum::<usize>())
            };
            let threads: Vec<_> = (0..4).map(|_| work(Bucket::view(Arc::clone(&a.shared), a.form))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert!(passed <= 1001, "{passed}");
    }
}
