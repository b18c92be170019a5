//! The writer's side: its record of the routes, and how it overwrites the table's entries that a route owns.

use super::shared::{FIRST_GROUP, GROUP_LEN, LpmError, NO_ROUTE, Shared, entry, entry_len};
use crate::gather::GROUP;
use crate::mem;
use crate::prefix::Prefix;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Groups are made 2 MB at a time.
const GROUPS_PER_STEP: usize = 2048;
/// Entries of the upper level in one huge page.
const PAGE_LEN: usize = mem::ALIGN / size_of::<AtomicU32>();
/// From this many routes on, huge pages are used: at this number they cost at most a quarter of a 2 MB page
/// per route, and less with more routes.
const HUGE_FROM: usize = 4096;

/// The writer's record of routes and groups.
pub(super) struct Control {
    pub(super) routes: BTreeMap<Prefix, u32>,
    /// Number of routes longer than 24 bits in each group that was ever used.
    pub(super) long_routes: Vec<u16>,
    pub(super) free: Vec<u32>,
    /// Groups out of use that a reader may still read, with their stamps, oldest first.
    pub(super) retired: VecDeque<(u64, u32)>,
    /// The most groups.
    pub(super) limit: usize,
    huge: bool,
    /// The page of the upper level that was last made a huge page.
    touched: usize,
}

impl Control {
    /// For a table with space for this many groups.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            routes: BTreeMap::new(),
            long_routes: Vec::new(),
            free: Vec::new(),
            retired: VecDeque::new(),
            limit,
            huge: false,
            touched: usize::MAX,
        }
    }

    /// The longest route that contains `prefix` and is shorter.
    pub(super) fn covering(&self, prefix: Prefix) -> Option<(Prefix, u32)> {
        let mut end = Bound::Excluded(prefix);
        loop {
            let (&route, &hop) = self.routes.range((Bound::Unbounded, end)).next_back()?;
            if route.contains(prefix.first()) {
                return Some((route, hop));
            }
            // A route that contains `prefix` and comes before this one contains both, so it is no longer than
            // what the two have in common. That falls with every step.
            let common = (route.first() ^ prefix.first()).leading_zeros() as u8;
            end = Bound::Included(Prefix::new(prefix.first(), common)?);
        }
    }

    /// The entry that replaces that of `prefix` when the prefix is removed.
    fn covering_entry(&self, prefix: Prefix) -> u32 {
        match self.covering(prefix) {
            Some((route, hop)) if route.len() > 0 => entry(route.len(), hop),
            _ => 0,
        }
    }

    /// Groups that could be used now.
    pub(super) fn groups_left(&mut self, shared: &Shared) -> usize {
        self.recycle(shared);
        self.free.len() + self.limit.saturating_sub(self.long_routes.len())
    }

    /// Frees the groups that no reader can see any more.
    fn recycle(&mut self, shared: &Shared) {
        if self.retired.is_empty() {
            return;
        }
        let oldest = shared.epochs.oldest();
        while let Some(&(stamp, group)) = self.retired.front()
            && stamp < oldest
        {
            self.retired.pop_front();
            self.free.push(group);
        }
    }

    /// A group for the /24 number `top`, made of its present entry, and in use from now on.
    fn attach_group(&mut self, shared: &Shared, top: usize) -> Result<u32, LpmError> {
        if self.free.is_empty() {
            self.recycle(shared);
        }
        let group = match self.free.pop() {
            Some(group) => group,
            None => {
                let next = self.long_routes.len();
                if next >= self.limit {
                    return Err(LpmError::TooManyLongPrefixes(self.limit));
                }
                if next.is_multiple_of(GROUPS_PER_STEP)
                    && !shared.table.grow((FIRST_GROUP + next + GROUPS_PER_STEP) * GROUP_LEN)
                {
                    return Err(LpmError::OutOfMemory);
                }
                shared.deep.store(true, Relaxed);
                self.long_routes.push(0);
                (FIRST_GROUP + next) as u32
            }
        };
        let before = shared.table.load(top);
        for e in shared.group(group) {
            e.store(before, Relaxed);
        }
        shared.publish(top, GROUP | group);
        Ok(group)
    }

    /// Puts the route into the table; the map has it already, or will have it.
    pub(super) fn paint(&mut self, shared: &Shared, prefix: Prefix, hop: u32) -> Result<(), LpmError> {
        if prefix.len() == 0 {
            shared.default.store(hop, Relaxed);
            return Ok(());
        }
        self.touch(shared, prefix);
        if prefix.len() > 24 {
            let top = (prefix.first() >> 8) as usize;
            if shared.table.load(top) & GROUP == 0 {
                self.attach_group(shared, top)?;
            }
        }
        let new = entry(prefix.len(), hop);
        shared.repaint_prefix(prefix, |old| (entry_len(old) <= prefix.len()).then_some(new));
        Ok(())
    }

    /// Takes a route out of the table; the map no longer has it.
    pub(super) fn unpaint(&mut self, shared: &Shared, prefix: Prefix) {
        if prefix.len() == 0 {
            shared.default.store(NO_ROUTE, Relaxed);
            return;
        }
        let instead = self.covering_entry(prefix);
        shared.repaint_prefix(prefix, |old| (entry_len(old) == prefix.len()).then_some(instead));
        if prefix.len() > 24 {
            let top = (prefix.first() >> 8) as usize;
            let group = shared.table.load(top) & !GROUP;
            let count = &mut self.long_routes[Shared::ordinal(group)];
            *count -= 1;
            if *count == 0 {
                // Every entry of the group now comes from the same prefix of at most 24 bits, or from none.
                shared.publish(top, shared.group(group)[0].load(Relaxed));
                self.retired.push_back((shared.epochs.stamp(), group));
            }
        }
    }

    pub(super) fn count_long(&mut self, shared: &Shared, prefix: Prefix) {
        if prefix.len() > 24 {
            let group = shared.table.load((prefix.first() >> 8) as usize) & !GROUP;
            self.long_routes[Shared::ordinal(group)] += 1;
        }
    }

    /// Makes the pages with the prefix's entries huge pages, if huge pages are used and these pages were
    /// never used.
    fn touch(&mut self, shared: &Shared, prefix: Prefix) {
        if !self.huge {
            return;
        }
        let (first, last) = ((prefix.first() >> 8) as usize, (prefix.last() >> 8) as usize);
        for page in first / PAGE_LEN..=last / PAGE_LEN {
            if page != self.touched {
                self.touched = page;
                shared.table.touch(page * PAGE_LEN);
            }
        }
    }

    pub(super) fn want_huge(&mut self, shared: &Shared, routes: usize) {
        if !self.huge && routes >= HUGE_FROM {
            self.huge = true;
            shared.table.advise_huge();
        }
    }
}
