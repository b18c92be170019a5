//! The form of a table with few routes: a tree ([`crate::search`]), which is written anew with each change.
//!
//! A new tree is written where no tree is (`trees`), and one word then tells readers where it is. A lookup that
//! began before may still read the old tree, and even what another table has written there since: before the
//! place is given back, the count of changes in [`Shared::state`] goes up, so that such a lookup finds out and
//! begins once more, now inside an epoch, in which no place is given back.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::shared::{NO_ROUTE, Shared};
use super::trees::{Claim, Memory};
use crate::gather::LINE_LEN;
use crate::prefix::Prefix;
use crate::search::{CHILDREN, KEYS, LEVELS, MOST_RANGES, RANGES, START, Tree, key};

/// The most routes that have room in a tree: each begins a range, and one begins behind it.
pub(super) const MOST_ROUTES: usize = (MOST_RANGES - 1) / 2;

/// The most trees of a table at a time. Two are enough unless a thread is interrupted while it looks up.
pub(super) const PLACES: usize = 4;

/// The places of a table's trees. They are given back when nobody reads the table any more.
pub(super) struct Places {
    claim: Claim,
    /// The first lines of trees out of use that a reader may still read, with their stamps.
    retired: Vec<(u64, usize)>,
    current: Option<usize>,
}

impl Places {
    /// `None` if there is no memory for trees.
    pub(super) fn new() -> Option<Self> {
        Some(Self { claim: Claim::new(PLACES)?, retired: Vec::new(), current: None })
    }

    /// The memory in which the trees are.
    pub(super) fn memory(&self) -> &'static Memory {
        self.claim.memory()
    }

    /// A place that nobody reads inside an epoch. It waits for lookups to end if they hold all.
    fn take(&mut self, shared: &Shared) -> usize {
        self.give_back(shared);
        while self.retired.len() + usize::from(self.current.is_some()) >= PLACES {
            std::thread::yield_now();
            self.give_back(shared);
        }
        self.claim.take()
    }

    /// Gives back what nobody reads inside an epoch any more.
    fn give_back(&mut self, shared: &Shared) {
        let oldest = shared.epochs.oldest();
        if self.retired.iter().any(|(stamp, _)| *stamp < oldest) {
            // A lookup outside an epoch that has begun after the last count, and before the tree went out of
            // use, may be reading it: another table may write there next, and announces nothing here.
            shared.announce();
        }
        self.retired.retain(|(stamp, line)| {
            let read = *stamp >= oldest;
            if !read {
                self.claim.give(*line);
            }
            read
        });
    }

    /// Makes readers use a tree of these routes, at most [`MOST_ROUTES`].
    pub(super) fn publish(&mut self, shared: &Shared, routes: &BTreeMap<Prefix, u32>) {
        let tree = self.write(shared, routes);
        self.switch(shared, tree);
    }

    /// Writes a tree, which nobody reads so far.
    pub(super) fn write(&mut self, shared: &Shared, routes: &BTreeMap<Prefix, u32>) -> Tree {
        let line = self.take(shared);
        shared.announce();
        write(self.memory(), line, &ranges(routes))
    }

    /// Makes readers use a tree that has been written.
    pub(super) fn switch(&mut self, shared: &Shared, tree: Tree) {
        shared.tree.store(tree.to_word(), Release);
        self.retire(shared);
        self.current = Some(tree.line as usize);
    }

    /// Makes readers use the lines, which have all routes.
    pub(super) fn withdraw(&mut self, shared: &Shared) {
        shared.announce();
        shared.tree.store(0, Release);
        self.retire(shared);
    }

    fn retire(&mut self, shared: &Shared) {
        if let Some(line) = self.current.take() {
            self.retired.push((shared.epochs.stamp(), line));
            self.give_back(shared);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let retired = self.retired.iter().map(|(_, line)| *line);
        retired.chain(self.current).for_each(|line| self.claim.give(line));
    }
}

/// The ranges of addresses with one next hop, in order: the last address and the next hop of each.
fn ranges(routes: &BTreeMap<Prefix, u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::with_capacity(2 * routes.len() + 1);
    // The first address that has no range yet, unless all have.
    let mut next = Some(0);
    let mut until = |last: u32, hop: u32, next: &mut Option<u32>| {
        if next.is_some_and(|first| first <= last) {
            match ranges.last_mut() {
                Some(before) if before.1 == hop => before.0 = last,
                _ => ranges.push((last, hop)),
            }
            *next = last.checked_add(1);
        }
    };
    // The routes around, the longest last: their last addresses and next hops.
    let mut around = vec![(u32::MAX, NO_ROUTE)];
    for (prefix, hop) in routes {
        while let Some((last, outer)) = around.pop_if(|(last, _)| *last < prefix.first()) {
            until(last, outer, &mut next);
        }
        if let (Some((_, outer)), Some(before)) = (around.last(), prefix.first().checked_sub(1)) {
            until(before, *outer, &mut next);
        }
        around.push((prefix.last(), *hop));
    }
    while let Some((last, outer)) = around.pop() {
        until(last, outer, &mut next);
    }
    ranges
}

/// Writes the tree of these ranges from a line on.
fn write(memory: &Memory, line: usize, ranges: &[(u32, u32)]) -> Tree {
    let leaves = ranges.len().div_ceil(RANGES);
    let levels = (0..LEVELS).find(|levels| leaves <= CHILDREN.pow(*levels as u32)).unwrap_or(LEVELS);
    let entries = |at: usize| memory.slice((line + at) * LINE_LEN, LINE_LEN);
    let last = |ranges: &[(u32, u32)]| ranges.last().map_or(u32::MAX, |range| range.0);
    for (i, leaf) in ranges.chunks(RANGES).enumerate() {
        let (lasts, hops) = entries(START[levels] + i).split_at(RANGES);
        for (at, (entry, hop)) in lasts.iter().zip(hops).enumerate() {
            let range = leaf.get(at).unwrap_or(&(u32::MAX, NO_ROUTE));
            entry.store(key(range.0), Relaxed);
            hop.store(range.1, Relaxed);
        }
    }
    // The last address of each child of the level.
    let mut lasts: Vec<u32> = ranges.chunks(RANGES).map(last).collect();
    for level in (0..levels).rev() {
        for (i, children) in lasts.chunks(CHILDREN).enumerate() {
            for (at, entry) in entries(START[level] + i).iter().enumerate().take(KEYS) {
                entry.store(key(*children.get(at).unwrap_or(&u32::MAX)), Relaxed);
            }
        }
        lasts = lasts.chunks(CHILDREN).filter_map(|children| children.last().copied()).collect();
    }
    Tree { line: line as u32, levels: levels as u32 }
}
