//! A worker's part of a rate: how many frames are due, and how many were due and not pulled in time.

use measure::pace::Pace;
use measure::rate::Rate;

/// Shortest and longest frame, and the mean, in bytes.
pub(in crate::measure) type Lengths = (usize, usize, f64);

/// A rate that workers share, and the part of one worker.
pub(in crate::measure) struct Pacing {
    /// The rate of all workers together.
    asked: Rate,
    /// The worker's number, and the number of workers.
    share: (usize, usize),
    /// The rate of this worker.
    rate: Rate,
    lengths: Lengths,
    catchup_ns: u64,
    /// `None` without a limit.
    pace: Option<Pace>,
    missed_before: u64,
}

impl Pacing {
    /// The first frame, of `len` bytes, is due at once. Frames that are not pulled in time are sent later if
    /// they are at most `catchup_ns` late.
    pub(in crate::measure) fn new(
        asked: Rate,
        share: (usize, usize),
        catchup_ns: u64,
        lengths: Lengths,
        len: usize,
    ) -> Self {
        let rate = asked.share(share.0, share.1);
        let mut pacing = Self { asked, share, rate, lengths, catchup_ns, pace: None, missed_before: 0 };
        pacing.pace = pacing.begin(len);
        pacing
    }
    fn begin(&self, len: usize) -> Option<Pace> {
        let per_s = self.rate.per_s()?;
        let longest = self.rate.cost(self.lengths.1).max(1);
        let saved = u128::from(per_s) * u128::from(self.catchup_ns) / 1_000_000_000;
        let burst = u64::try_from(saved).unwrap_or(u64::MAX).saturating_add(longest);
        Some(Pace::new(per_s, burst, self.rate.cost(len)))
    }
    /// Changes the rate; the next frame has `len` bytes.
    pub(in crate::measure) fn set_rate(&mut self, asked: Rate, len: usize) {
        self.missed_before = self.missed();
        self.asked = asked;
        self.rate = asked.share(self.share.0, self.share.1);
        self.pace = self.begin(len);
    }
    /// Starts again; the next frame has `len` bytes.
    pub(in crate::measure) fn restart(&mut self, len: usize) {
        self.missed_before = 0;
        self.pace = self.begin(len);
    }
    /// Adds the missed frames of a previous one.
    pub(in crate::measure) fn inherit(&mut self, old: &Self) {
        self.missed_before = old.missed();
    }
    /// The rate of all workers together.
    pub(in crate::measure) fn asked(&self) -> Rate {
        self.asked
    }
    /// This worker's rate, which determines the unit of a frame's cost.
    #[inline]
    pub(in crate::measure) fn rate(&self) -> Rate {
        self.rate
    }
    /// Frames that were due and were not pulled in time.
    pub(in crate::measure) fn missed(&self) -> u64 {
        let units = self.pace.as_ref().map_or(0, Pace::missed);
        let each = self.rate.cost(self.lengths.2.round() as usize).max(1);
        self.missed_before + units / each
    }
    /// Whether the rate has a limit.
    #[inline]
    pub(in crate::measure) fn is_limited(&self) -> bool {
        self.pace.is_some()
    }
    /// The total cost of the frames that are due until `until_ns`.
    #[inline]
    pub(in crate::measure) fn budget(&mut self, until_ns: u64) -> u64 {
        let Some(pace) = &mut self.pace else { return u64::MAX };
        pace.refill(until_ns);
        pace.due()
    }
    /// The most frames that a budget is enough for.
    #[inline]
    pub(in crate::measure) fn affordable(&self, budget: u64) -> u64 {
        budget.checked_div(self.rate.cost(self.lengths.0)).unwrap_or(u64::MAX)
    }
    /// The time until a frame of this cost is due; `None` if it never will be.
    pub(in crate::measure) fn wait_ns(&self, price: u64) -> Option<u64> {
        self.pace.as_ref()?.wait_for_ns(price)
    }
    /// Subtracts the cost of frames that were made.
    #[inline]
    pub(in crate::measure) fn spend(&mut self, cost: u64) {
        if let Some(pace) = &mut self.pace {
            pace.spend(cost);
        }
    }
}
