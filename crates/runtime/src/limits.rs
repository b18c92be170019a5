//! The most that one of many routers in a process may have: a buggy or hostile program must not take it from
//! the others.

use crate::allow::Allow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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
    /// Entries of all its tables of neighbors.
    pub neighbors: Option<u64>,
    /// Entries of all its tables that packets fill otherwise: datagrams that are reassembled.
    pub flows: Option<u64>,
    /// Lines that it logs in a second.
    pub log_lines: Option<u64>,
    /// Handler calls of clients in a second.
    pub handler_calls: Option<u64>,
    /// Bytes of memory, of many routers in a process.
    pub memory: Option<u64>,
    /// What its program may name outside itself; none: everything.
    pub allow: Option<Arc<Allow>>,
}

/// A number of events in a second.
#[derive(Debug)]
pub struct Rate {
    /// [`u32::MAX`]: any number.
    most: AtomicU32,
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
            most: AtomicU32::new(u32::try_from(most).unwrap_or(u32::MAX)),
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
        let most = self.most.load(Ordering::Relaxed);
        if most == u32::MAX {
            return Some(0);
        }
        let next = |now: u64| match now >> 32 == second & u64::from(u32::MAX) {
            true => ((now as u32) < most).then_some(now + 1),
            false => (most > 0).then_some(second << 32 | 1),
        };
        if self.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let refused = self.refused.load(Ordering::Relaxed);
        Some(refused.saturating_sub(self.told.swap(refused, Ordering::Relaxed)))
    }

    /// At most so many from here on; none: any number.
    fn set(&self, most: Option<u64>) {
        let most = most.map_or(u32::MAX, |most| u32::try_from(most).unwrap_or(u32::MAX));
        self.most.store(most, Ordering::Relaxed);
    }
    fn most(&self) -> Option<u64> {
        Some(self.most.load(Ordering::Relaxed)).filter(|most| *most != u32::MAX).map(u64::from)
    }

    /// How many were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Default for Rate {
    /// Any number.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

/// A number of entries in all tables of one kind.
#[derive(Debug)]
pub struct Budget {
    /// [`u64::MAX`]: any number.
    most: AtomicU64,
    used: AtomicU64,
    refused: AtomicU64,
    /// Messages about that to the owner.
    messages: Rate,
}

/// A table may not have one entry more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// The most that all tables of the kind may have.
    pub most: u64,
    /// Whether the owner is to be told: not more often than once in a second.
    pub tell: bool,
}

impl Budget {
    /// At most so many.
    #[must_use]
    pub fn new(most: u64) -> Arc<Self> {
        let (used, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { most: AtomicU64::new(most), used, refused, messages: Rate::new(1) })
    }
    /// At most so many from here on; none: any number. What there is stays.
    fn set(&self, most: Option<u64>) {
        self.most.store(most.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
    fn most(&self) -> Option<u64> {
        Some(self.most.load(Ordering::Relaxed)).filter(|most| *most != u64::MAX)
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
        let Budget { most, used, refused, .. } = &*self.budget;
        let most = most.load(Ordering::Relaxed);
        let fits = |used: u64| {
            let sum = used - before + entries;
            (sum <= most || entries <= before).then_some(sum)
        };
        if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            refused.fetch_add(1, Ordering::Relaxed);
            return Err(most);
        }
        self.entries.store(entries, Ordering::Relaxed);
        Ok(())
    }

    /// The table is to have one entry more. Callers may be several.
    ///
    /// # Errors
    /// The budget has no room for it; nothing has changed then.
    pub fn take(&self) -> Result<(), Over> {
        let Budget { most, used, refused, messages } = &*self.budget;
        let most = most.load(Ordering::Relaxed);
        let fits = |used: u64| (used < most).then_some(used + 1);
        if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            refused.fetch_add(1, Ordering::Relaxed);
            return Err(Over { most, tell: messages.take().is_some() });
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    /// So many entries that it has taken are gone.
    pub fn give(&self, entries: usize) {
        let fewer = |had: u64| Some(had.saturating_sub(entries as u64));
        // It always succeeds.
        let had = self.entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).unwrap_or_default();
        self.budget.used.fetch_sub(had.min(entries as u64), Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.entries.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// What a router has used of its limits.
#[derive(Debug)]
pub struct Bounds {
    pub(crate) router: String,
    /// Routes in all tables.
    pub routes: Arc<Budget>,
    /// Entries of all tables of neighbors.
    pub neighbors: Arc<Budget>,
    /// Entries of all other tables that packets fill.
    pub flows: Arc<Budget>,
    /// Lines that it logs.
    pub log_lines: Rate,
    /// Handler calls of clients.
    pub handler_calls: Rate,
}

impl Default for Bounds {
    fn default() -> Self {
        let any = || Budget::new(u64::MAX);
        let (routes, neighbors, flows) = (any(), any(), any());
        let (log_lines, handler_calls) = (Rate::default(), Rate::default());
        Self { router: String::new(), routes, neighbors, flows, log_lines, handler_calls }
    }
}

impl Bounds {
    pub(crate) fn new(limits: &Limits) -> Self {
        let this = Self { router: limits.router.clone(), ..Self::default() };
        this.set(limits);
        this
    }

    /// Other limits for the same router. What it has stays, and counts.
    pub(crate) fn set(&self, limits: &Limits) {
        self.routes.set(limits.routes);
        self.neighbors.set(limits.neighbors);
        self.flows.set(limits.flows);
        self.log_lines.set(limits.log_lines);
        self.handler_calls.set(limits.handler_calls);
    }

    /// How often each limit that is set was reached, by its name.
    #[must_use]
    pub fn refused(&self) -> Vec<(&'static str, u64)> {
        let budgets = [("routes", &self.routes), ("neighbors", &self.neighbors), ("flows", &self.flows)];
        let budgets = budgets.map(|(name, budget)| budget.most().map(|_| (name, budget.refused())));
        let rates = [("log_lines", &self.log_lines), ("handler_calls", &self.handler_calls)];
        let rates = rates.map(|(name, rate)| rate.most().map(|_| (name, rate.refused())));
        budgets.into_iter().chain(rates).flatten().collect()
    }

    /// What the router has of what its tables are limited in, by the names of the limits.
    #[must_use]
    pub fn used(&self) -> [(&'static str, u64); 3] {
        [("routes", &self.routes), ("neighbors", &self.neighbors), ("flows", &self.flows)]
            .map(|(name, budget)| (name, budget.used.load(Ordering::Relaxed)))
    }

    /// Whether the router may log a line now. Says in the log how many it could not log before.
    pub(crate) fn may_log(&self) -> bool {
        let before = self.log_lines.take();
        if let Some(suppressed @ 1..) = before {
            tracing::warn!(
                target: "vr",
                "router '{}': {suppressed} lines suppressed: its limit log_lines is {} in a second",
                self.router, self.log_lines.most.load(Ordering::Relaxed)
            );
        }
        before.is_some()
    }

    /// Counts a handler call of a client.
    ///
    /// # Errors
    /// There are too many.
    pub fn call(&self) -> Result<(), String> {
        self.handler_calls.take().map(drop).ok_or_else(|| {
            let most = self.handler_calls.most.load(Ordering::Relaxed);
            format!("too many handler calls: the limit handler_calls is {most} in a second")
        })
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

    #[test]
    fn entries_are_taken_one_by_one() {
        let budget = Budget::new(2);
        let (one, two) = (Held::new(&budget), Held::new(&budget));
        assert_eq!((one.take(), two.take()), (Ok(()), Ok(())));
        let over = |tell| Err(Over { most: 2, tell });
        // Of several messages in a second there is one.
        assert_eq!((one.take(), two.take()), (over(true), over(false)));
        one.give(5);
        assert_eq!((budget.used(), budget.refused(), two.take()), (1, 2, Ok(())));
        drop(two);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn limits_change_while_what_there_is_stays() {
        let bounds = Bounds::new(&Limits { routes: Some(1), ..Limits::default() });
        let table = Held::new(&bounds.routes);
        assert_eq!((table.set(1), table.set(2), bounds.refused()), (Ok(()), Err(1), vec![("routes", 1)]));
        bounds.set(&Limits { handler_calls: Some(0), ..Limits::default() });
        assert_eq!((table.set(9), bounds.refused()), (Ok(()), vec![("handler_calls", 0)]));
        assert!(bounds.call().is_err() && bounds.may_log());
        bounds.set(&Limits { routes: Some(5), ..Limits::default() });
        // It may become smaller, but not larger.
        assert_eq!((table.set(10), table.set(8), table.set(9)), (Err(5), Ok(()), Err(5)));
    }
}
