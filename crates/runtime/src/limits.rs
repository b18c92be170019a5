//! The most that one of many routers in a process may have: a buggy or hostile program must not take it from
//! the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The most that a router may have of something; none: no limit of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The router's name, for messages.
    pub router: String,
    /// Packets that its elements may keep waiting, and that wait for it.
    pub buffers: Option<usize>,
    /// Of these, packets that may wait at its interfaces.
    pub at_interfaces: usize,
    /// Routes in all its tables.
    pub routes: Option<u64>,
    /// Lines that it logs in a second.
    pub log_lines: Option<u64>,
    /// Handler calls of clients in a second.
    pub handler_calls: Option<u64>,
}

/// A number of events in a second.
#[derive(Debug)]
pub struct Rate {
    most: u32,
    began: Instant,
    /// The current second, and in the lower half how many there were in it.
    now: AtomicU64,
    refused: AtomicU64,
    /// How many of those the log shows already.
    told: AtomicU64,
}

impl Rate {
    /// At most so many in a second.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self {
            most: u32::try_from(most).unwrap_or(u32::MAX),
            began: Instant::now(),
            now: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            told: AtomicU64::new(0),
        }
    }

    /// Counts one. `None` if it is too many; else how many were refused before, as long as nobody was told.
    pub fn take(&self) -> Option<u64> {
        self.take_at(self.began.elapsed().as_secs())
    }

    fn take_at(&self, second: u64) -> Option<u64> {
        let next = |now: u64| match now >> 32 == second & u64::from(u32::MAX) {
            true => ((now as u32) < self.most).then_some(now + 1),
            false => (self.most > 0).then_some(second << 32 | 1),
        };
        if self.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let refused = self.refused.load(Ordering::Relaxed);
        Some(refused.saturating_sub(self.told.swap(refused, Ordering::Relaxed)))
    }

    /// How many were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A number of entries in all tables of one kind.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    used: AtomicU64,
    refused: AtomicU64,
}

impl Budget {
    /// At most so many.
    #[must_use]
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }
    /// How many there are.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    /// How many changes were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The part of a budget that one table uses; it is given back when this is dropped.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    entries: AtomicU64,
}

impl Held {
    /// Nothing of it so far.
    #[must_use]
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), entries: AtomicU64::new(0) }
    }

    /// The table has so many entries now. One caller at a time.
    ///
    /// # Errors
    /// There are more than the budget has; nothing has changed then.
    pub fn set(&self, entries: usize) -> Result<(), u64> {
        let (before, entries) = (self.entries.load(Ordering::Relaxed), entries as u64);
        let Budget { most, used, refused } = &*self.budget;
        let fits = |used: u64| {
            let sum = used - before + entries;
            (sum <= *most || entries <= before).then_some(sum)
        };
        if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            refused.fetch_add(1, Ordering::Relaxed);
            return Err(*most);
        }
        self.entries.store(entries, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.entries.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// What a router has used of its limits.
#[derive(Debug, Default)]
pub struct Bounds {
    pub(crate) router: String,
    /// Routes in all tables.
    pub routes: Option<Arc<Budget>>,
    /// Lines that it logs.
    pub log_lines: Option<Rate>,
    /// Handler calls of clients.
    pub handler_calls: Option<Rate>,
}

impl Bounds {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            router: limits.router.clone(),
            routes: limits.routes.map(Budget::new),
            log_lines: limits.log_lines.map(Rate::new),
            handler_calls: limits.handler_calls.map(Rate::new),
        }
    }

    /// How often each limit that is set was reached, by its name.
    #[must_use]
    pub fn refused(&self) -> Vec<(&'static str, u64)> {
        let routes = self.routes.as_ref().map(|routes| ("routes", routes.refused()));
        let lines = self.log_lines.as_ref().map(|lines| ("log_lines", lines.refused()));
        let calls = self.handler_calls.as_ref().map(|calls| ("handler_calls", calls.refused()));
        routes.into_iter().chain(lines).chain(calls).collect()
    }

    /// Whether the router may log a line now. Says in the log how many it could not log before.
    pub(crate) fn may_log(&self) -> bool {
        let Some(lines) = &self.log_lines else { return true };
        let before = lines.take();
        if let Some(suppressed @ 1..) = before {
            tracing::warn!(
                target: "vr",
                "router '{}': {suppressed} lines suppressed: its limit log_lines is {} in a second",
                self.router, lines.most
            );
        }
        before.is_some()
    }

    /// Counts a handler call of a client.
    ///
    /// # Errors
    /// There are too many.
    pub fn call(&self) -> Result<(), String> {
        let Some(calls) = &self.handler_calls else { return Ok(()) };
        let most = calls.most;
        calls
            .take()
            .map(drop)
            .ok_or_else(|| format!("too many handler calls: the limit handler_calls is {most} in a second"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_for_each_second_and_says_what_it_refused() {
        let rate = Rate::new(2);
        let taken: Vec<_> = [0, 0, 0, 0, 1, 1, 1, 2].map(|second| rate.take_at(second)).to_vec();
        let expected = [Some(0), Some(0), None, None, Some(2), Some(0), None, Some(1)];
        assert_eq!((taken.as_slice(), rate.refused()), (&expected[..], 3));
        assert_eq!((Rate::new(0).take_at(0), Rate::new(0).take_at(5)), (None, None));
    }

    #[test]
    fn a_budget_is_for_all_tables_and_comes_back() {
        let budget = Budget::new(10);
        let (one, two) = (Held::new(&budget), Held::new(&budget));
        assert_eq!((one.set(6), two.set(4), two.set(5), one.set(7)), (Ok(()), Ok(()), Err(10), Err(10)));
        assert_eq!((budget.used(), budget.refused()), (10, 2));
        assert_eq!((one.set(3), two.set(7)), (Ok(()), Ok(())));
        drop(two);
        assert_eq!((budget.used(), one.set(10)), (3, Ok(())));
    }
}
