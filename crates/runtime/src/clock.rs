//! The time that elements see: nanoseconds since the epoch, from the machine's clock or simulated.

use locks::IgnorePoison;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where simulated time starts, as in Click's driver: 1,000,000,000 seconds after the epoch.
pub const SIMULATION_START_NS: u64 = 1_000_000_000_000_000_000;

/// How many timers an element may set in `initialize` before they are due after those of the next element
/// that have the same delay.
pub(crate) const STAMPS: u64 = 4;

/// How many pairs of readings of the wall clock and the monotonic clock a real clock takes at first.
const PAIRS: usize = 16;

/// A clock that all workers of a router share.
#[derive(Clone, Debug)]
pub struct Clock(TimeSource);

#[derive(Clone, Debug)]
enum TimeSource {
    /// Wall-clock time at the start plus monotonic time since: never steps back. Somebody may change how fast
    /// it passes.
    Real {
        start: Instant,
        epoch_ns: u64,
        warp: Arc<Warp>,
    },
    Simulated(Arc<Moment>),
}

/// How fast the router's time passes, and whether it waits.
#[derive(Debug, Default)]
struct Warp {
    /// Whether anything has been changed. Until then, no worker takes the lock.
    on: AtomicBool,
    course: RwLock<Course>,
}

/// The router's time from a moment on.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// That moment by the machine's clock, and by the router's.
    from_ns: u64,
    to_ns: u64,
    speed: f64,
    skips: bool,
}

impl Default for Course {
    fn default() -> Self {
        Self { from_ns: 0, to_ns: 0, speed: 1.0, skips: false }
    }
}

impl Course {
    /// The router's time at a time of the machine.
    fn at(&self, machine_ns: u64) -> u64 {
        let since = machine_ns.saturating_sub(self.from_ns) as f64 * self.speed;
        self.to_ns.saturating_add(since as u64).min(i64::MAX as u64)
    }
}

impl Warp {
    fn course(&self) -> Option<Course> {
        self.on.load(Ordering::Acquire).then(|| *self.course.read().ignore_poison())
    }
    /// Changes the course from now on; time goes on where it is, or from where `change` has put it.
    fn change(&self, machine_ns: u64, change: impl FnOnce(&mut Course)) {
        let mut course = self.course.write().ignore_poison();
        let now = course.at(machine_ns);
        (course.from_ns, course.to_ns) = (machine_ns, now);
        change(&mut course);
        self.on.store(true, Ordering::Release);
    }
}

/// A moment of simulated time.
#[derive(Debug)]
struct Moment {
    ns: AtomicU64,
    /// Click's simulated clock moves by a microsecond whenever it is read, so that of two timers with the
    /// same delay the one that was set first is due first. Here this is a number of its own, which decides
    /// between timers that are due at the same time and is not seen in times.
    stamp: AtomicU64,
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn real() -> Self {
        // Both clocks at one moment: of several pairs of readings, the closest. The clocks of processes that
        // compare their times (a generator and a sink) differ only by this distance.
        let pair = || {
            let before = Instant::now();
            let wall = SystemTime::now();
            let apart = before.elapsed();
            (apart, before + apart / 2, wall)
        };
        let (_, start, wall) = (0..PAIRS).map(|_| pair()).min_by_key(|p| p.0).unwrap_or_else(pair);
        let epoch_ns = wall.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Self(TimeSource::Real { start, epoch_ns, warp: Arc::default() })
    }
    /// A clock that moves only by [`Clock::advance_to`].
    #[must_use]
    pub fn simulated() -> Self {
        Self::simulated_from(SIMULATION_START_NS)
    }
    /// Simulated time that starts at a moment of the caller's, in nanoseconds since the epoch.
    #[must_use]
    pub fn simulated_from(ns: u64) -> Self {
        Self(TimeSource::Simulated(Arc::new(Moment { ns: AtomicU64::new(ns), stamp: AtomicU64::new(0) })))
    }
    /// Whether time is simulated.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, TimeSource::Simulated(_))
    }
    /// Now, in nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            TimeSource::Real { start, epoch_ns, warp } => {
                let machine = epoch_ns + start.elapsed().as_nanos() as u64;
                warp.course().map_or(machine, |course| course.at(machine))
            }
            TimeSource::Simulated(t) => t.ns.load(Ordering::Relaxed),
        }
    }

    /// The machine's time and how the router's differs from it; nothing if time is simulated.
    fn warp(&self) -> Option<(u64, &Warp)> {
        match &self.0 {
            TimeSource::Real { start, epoch_ns, warp } => {
                Some((epoch_ns + start.elapsed().as_nanos() as u64, warp))
            }
            TimeSource::Simulated(_) => None,
        }
    }
    /// Whether the router's time is not that of the machine, because somebody has changed its speed.
    #[inline]
    fn is_warped(&self) -> bool {
        matches!(&self.0, TimeSource::Real { warp, .. } if warp.on.load(Ordering::Relaxed))
    }
    /// Has time pass so many times as fast from now on, and wait again. Does nothing to simulated time.
    pub(crate) fn set_speed(&self, speed: f64) {
        if let Some((machine, warp)) = self.warp()
            && (self.is_warped() || (speed - 1.0).abs() > f64::EPSILON)
        {
            warp.change(machine, |course| (course.speed, course.skips) = (speed, false));
        }
    }
    /// Has time skip to the next timer from now on, when there is nothing else to do.
    pub(crate) fn set_skipping(&self) {
        if let Some((machine, warp)) = self.warp() {
            warp.change(machine, |course| course.skips = true);
        }
    }
    /// How many times as fast as the machine's the router's time passes.
    pub(crate) fn speed(&self) -> f64 {
        self.warp().and_then(|(_, warp)| warp.course()).map_or(1.0, |course| course.speed)
    }
    /// Whether time skips to the next timer.
    pub(crate) fn skips(&self) -> bool {
        self.warp().and_then(|(_, warp)| warp.course()).is_some_and(|course| course.skips)
    }
    /// How long the machine is to wait for a time of the router. If time skips and whoever asks is idle, it
    /// is that time now.
    pub(crate) fn wait_for(&self, ns: u64, idle: bool) -> Duration {
        let left = ns.saturating_sub(self.now_ns());
        let Some((machine, warp)) = self.warp().filter(|_| self.is_warped()) else {
            return Duration::from_nanos(left);
        };
        if idle && self.skips() {
            if left > 0 {
                warp.change(machine, |course| course.to_ns = course.to_ns.max(ns));
            }
            return Duration::ZERO;
        }
        // Rounded up: whoever wakes too early waits again.
        Duration::from_nanos((left as f64 / self.speed()).ceil() as u64)
    }
    /// Moves simulated time forward; does nothing to real time, or backwards.
    pub fn advance_to(&self, ns: u64) {
        self.advance(ns, 0);
    }
    /// The same, to a timer with a stamp.
    pub(crate) fn advance(&self, ns: u64, stamp: u64) {
        let TimeSource::Simulated(t) = &self.0 else { return };
        if t.ns.fetch_max(ns, Ordering::Relaxed) < ns {
            t.stamp.store(stamp, Ordering::Relaxed);
        } else {
            t.stamp.fetch_max(stamp, Ordering::Relaxed);
        }
    }
    /// What decides between timers that are due at the same simulated time; 0 in real time.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        match &self.0 {
            TimeSource::Real { .. } => 0,
            TimeSource::Simulated(t) => t.stamp.fetch_add(1, Ordering::Relaxed),
        }
    }
    /// Has the next stamp be this one.
    pub(crate) fn set_stamp(&self, stamp: u64) {
        if let TimeSource::Simulated(t) = &self.0 {
            t.stamp.store(stamp, Ordering::Relaxed);
        }
    }
}

/// How long a [`ClockReader`] counts cycles before it reads the clock again.
const READ_AGAIN_NS: u64 = 1_000_000;
/// The shortest and the longest time between two readings of the clock from which it works out how long a
/// cycle takes.
const MEASURED_NS: std::ops::Range<u64> = 100_000..1_000_000_000;
/// The longest cycle that is believed, in nanoseconds.
const LONGEST_CYCLE_NS: u64 = 16;
/// Bits of a cycle's length after the point.
const FRACTION_BITS: u32 = 32;

/// Reads a clock often, for one worker: for a millisecond after each reading of the clock itself, it counts
/// the processor's cycles, which costs a third as much. It differs from the clock by some tens of
/// nanoseconds, and never steps back.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockReader {
    /// When the clock was last read, in cycles and in nanoseconds.
    at_cycles: u64,
    at_ns: u64,
    /// For how many cycles after that they are counted; 0: how long one takes is not known yet.
    valid_cycles: u64,
    /// How long a cycle takes, in nanoseconds with `FRACTION_BITS` bits after the point.
    cycle_ns: u64,
    latest_ns: u64,
}

impl ClockReader {
    /// Now, in nanoseconds since the epoch.
    #[inline]
    pub(crate) fn now_ns(&mut self, clock: &Clock) -> u64 {
        if clock.is_simulated() || clock.is_warped() {
            return clock.now_ns();
        }
        let cycles = dpdk::cycles();
        let since = cycles.wrapping_sub(self.at_cycles);
        let now = if since < self.valid_cycles {
            self.at_ns + ((since * self.cycle_ns) >> FRACTION_BITS)
        } else {
            let now = clock.now_ns();
            self.read(cycles, now);
            now
        };
        self.latest_ns = self.latest_ns.max(now);
        self.latest_ns
    }

    /// The clock was read.
    #[cold]
    fn read(&mut self, cycles: u64, now_ns: u64) {
        let (since, elapsed) = (cycles.wrapping_sub(self.at_cycles), now_ns.saturating_sub(self.at_ns));
        if MEASURED_NS.contains(&elapsed) && since > 0 && since < u64::MAX >> 1 {
            let cycle_ns = (u128::from(elapsed) << FRACTION_BITS) / u128::from(since);
            let longest = u128::from(LONGEST_CYCLE_NS << FRACTION_BITS);
            self.cycle_ns = if cycle_ns < longest { cycle_ns as u64 } else { 0 };
        } else if elapsed >= MEASURED_NS.end {
            // The machine may have slept meanwhile.
            self.cycle_ns = 0;
        } else if self.cycle_ns == 0 && self.at_ns != 0 {
            // Too early to work it out.
            return;
        }
        self.valid_cycles = match self.cycle_ns {
            0 => 0,
            // No more cycles than would take the time at 16 GHz, whatever the counter does.
            cycle_ns => ((READ_AGAIN_NS << FRACTION_BITS) / cycle_ns).min(READ_AGAIN_NS << 4),
        };
        (self.at_cycles, self.at_ns) = (cycles, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_to_the_clock_and_never_steps_back() {
        let (clock, mut reader) = (Clock::real(), ClockReader::default());
        let (mut last, mut counted) = (0, 0u64);
        let end = clock.now_ns() + 20_000_000;
        while last < end {
            let before = clock.now_ns();
            let now = reader.now_ns(&clock);
            assert!(now >= last);
            // A worker that does not run for a while reads both at different times.
            counted += u64::from(now + 10_000 > before && now < clock.now_ns() + 10_000);
            last = now;
        }
        assert!(counted > 0 && reader.valid_cycles > 0, "{counted} {reader:?}");
    }

    #[test]
    fn cycles_are_counted_between_two_readings_of_the_clock() {
        let mut reader = ClockReader::default();
        reader.read(1000, 5_000_000_000);
        assert_eq!(reader.valid_cycles, 0);
        reader.read(2000, 5_000_000_400);
        assert_eq!((reader.at_cycles, reader.valid_cycles), (1000, 0), "too early");
        reader.read(501_000, 5_000_200_000);
        assert_eq!((reader.valid_cycles, reader.cycle_ns), (2_500_000, (4 << FRACTION_BITS) / 10));
        // Within a millisecond of the last reading nothing is worked out anew.
        reader.read(502_000, 5_000_200_400);
        assert_eq!((reader.valid_cycles, reader.at_cycles), (2_500_000, 502_000));
        // The machine has slept, or the counter has stood still.
        for (cycles, now) in [(600_000, 90_000_000_000), (600_001, 90_000_200_000)] {
            reader.read(cycles, now);
            assert_eq!((reader.valid_cycles, reader.cycle_ns), (0, 0));
        }
    }

    #[test]
    fn time_goes_on_where_it_is_when_its_speed_changes() {
        let (clock, mut reader) = (Clock::real(), ClockReader::default());
        clock.set_speed(1.0);
        assert!(!clock.is_warped());
        let (real, before) = (Instant::now(), reader.now_ns(&clock));
        clock.set_speed(1000.0);
        assert_eq!(clock.speed(), 1000.0);
        while real.elapsed() < Duration::from_millis(2) {}
        let fast = reader.now_ns(&clock) - before;
        let passed = real.elapsed().as_nanos() as u64;
        assert!(fast > 1_000_000_000 && fast < passed * 1001, "{fast} {passed}");
        // Slow: a second takes the machine some days.
        clock.set_speed(1e-6);
        let at = reader.now_ns(&clock);
        assert!(at >= before + fast);
        let left = clock.wait_for(at + 1_000_000_000, true);
        assert!(left > Duration::from_secs(900_000) && left <= Duration::from_secs(1_000_000), "{left:?}");
        assert!(clock.wait_for(at, true) <= Duration::from_secs(1));
    }

    #[test]
    fn time_that_skips_does_not_wait() {
        let clock = Clock::real();
        clock.set_skipping();
        let at = clock.now_ns() + 1_000_000_000_000;
        assert!(clock.wait_for(at, false) > Duration::from_secs(900), "somebody is busy");
        assert_eq!(clock.wait_for(at, true), Duration::ZERO);
        assert!(clock.skips() && clock.now_ns() >= at && clock.now_ns() < at + 900_000_000_000);
        // It never goes back.
        assert_eq!(
            (clock.wait_for(at - 500_000_000_000, true), clock.now_ns() >= at),
            (Duration::ZERO, true)
        );
        clock.set_speed(1.0);
        assert!(!clock.skips() && clock.now_ns() >= at);
    }

    #[test]
    fn simulated_time_is_read_as_it_is() {
        let (clock, mut reader) = (Clock::simulated(), ClockReader::default());
        clock.advance_to(SIMULATION_START_NS + 7);
        assert_eq!(reader.now_ns(&clock), SIMULATION_START_NS + 7);
    }
}
