//! How many packets a source may make: its rate, its limit, and what it has made.

use super::text;
use crate::prelude::*;
use measure::pace::Pace;

/// The packets of a source.
pub(in crate::plumbing) struct Quota {
    pace: Option<Pace>,
    limit: Option<u64>,
    count: Counter,
    first_ns: u64,
    /// When the limit was reached; 0 if it has not been.
    last_ns: u64,
}

fn pace(rate: u32) -> Option<Pace> {
    (rate > 0).then(|| Pace::new(rate.into(), (u64::from(rate) / 100).max(2), 1))
}

impl Quota {
    /// At this rate, 0 for as fast as can be; so many in all, a negative number for no limit.
    pub(in crate::plumbing) fn new(rate: u32, limit: i32) -> Self {
        let limit = u64::try_from(limit).ok();
        Self { pace: pace(rate), limit, count: Counter::new(), first_ns: 0, last_ns: 0 }
    }
    /// How many are left.
    pub(in crate::plumbing) fn left(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.count.get()))
    }
    /// How many packets may be made now, at most `max`.
    pub(in crate::plumbing) fn due(&mut self, max: usize, now_ns: u64) -> usize {
        let most = max.min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        self.pace.as_mut().map_or(most, |pace| pace.take(most, now_ns))
    }
    /// In how many nanoseconds the rate allows the next one; none if there is no rate.
    pub(in crate::plumbing) fn wait_ns(&self) -> Option<u64> {
        self.pace.as_ref().and_then(Pace::wait_ns)
    }
    /// Counts a packet that has been made.
    #[inline]
    pub(in crate::plumbing) fn made(&mut self, now_ns: u64) {
        if self.count.get() == 0 {
            self.first_ns = now_ns;
        }
        self.count.add(1);
        if self.left() == 0 {
            self.last_ns = now_ns;
        }
    }
    pub(in crate::plumbing) fn count(&self) -> &Counter {
        &self.count
    }
    /// The average rate once the limit has been reached, 0 before.
    pub(in crate::plumbing) fn rate(&self) -> String {
        let duration_ms = (self.last_ns.saturating_sub(self.first_ns) / 1_000_000).max(1);
        let rate = if self.last_ns == 0 { 0 } else { self.count.get() * 1000 / duration_ms };
        rate.to_string()
    }
    pub(in crate::plumbing) fn set_rate(&mut self, value: &str) -> Result<(), String> {
        self.pace = pace(text::value(value, "rate parameter must be integer >= 0")?);
        Ok(())
    }
    pub(in crate::plumbing) fn limit(&self) -> String {
        self.limit.map_or_else(|| "-1".to_owned(), |limit| limit.to_string())
    }
    pub(in crate::plumbing) fn set_limit(&mut self, value: &str) -> Result<(), String> {
        self.limit = u64::try_from(text::value::<i32>(value, "limit parameter must be integer >= 0")?).ok();
        if self.left() > 0 {
            self.last_ns = 0;
        }
        Ok(())
    }
    /// Starts again from zero.
    pub(in crate::plumbing) fn reset(&mut self) {
        self.count.set(0);
        (self.first_ns, self.last_ns) = (0, 0);
    }
    /// Goes on where another one was.
    pub(in crate::plumbing) fn take_over(&mut self, old: &Self) {
        self.count.set(old.count.get());
        (self.first_ns, self.last_ns) = (old.first_ns, old.last_ns);
    }
}
