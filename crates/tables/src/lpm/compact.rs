//! The form of a table with few routes: a tree ([`crate::search`]), which is written anew with each change.
//!
//! There are some places for trees, in the table's memory before the blocks. A new tree is written where no
//! tree is, and one word then tells readers where it is. A lookup that began before may still read the tree
//! that was there: before a place is written again, the count of changes in [`Shared::state`] goes up, so
//! that such a lookup finds out and begins once more, now inside an epoch, in which no place is used again.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::shared::{NO_ROUTE, PLACES, Shared, TREES};
use crate::gather::LINE_LEN;
use crate::prefix::Prefix;
use crate::search::{CHILDREN, KEYS, LEVELS, LINES, MOST_RANGES, RANGES, START, Tree, key};

/// The most routes that have room in a tree: each begins a range, and one begins behind it.
pub(super) const MOST_ROUTES: usize = (MOST_RANGES - 1) / 2;

/// The writer's record of the places.
pub(super) struct Places {
    /// When the tree that was there went out of use, if there was one.
    retired: [Option<u64>; PLACES],
    current: Option<usize>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { retired: [None; PLACES], current: None }
    }

    /// A place that nobody reads inside an epoch. It waits for lookups to end if they hold all.
    fn free(&self, shared: &Shared) -> usize {
        loop {
            let oldest = shared.epochs.oldest();
            let mut others = (0..PLACES).filter(|place| self.current != Some(*place));
            if let Some(place) = others.find(|place| self.retired[*place].is_none_or(|stamp| stamp < oldest))
            {
                return place;
            }
            std::thread::yield_now();
        }
    }

    /// Makes readers use a tree of these routes, at most [`MOST_ROUTES`].
    pub(super) fn publish(&mut self, shared: &Shared, routes: &BTreeMap<Prefix, u32>) {
        let place = self.free(shared);
        shared.announce();
        let tree = write(shared, TREES / LINE_LEN + place * LINES, &ranges(routes));
        shared.tree.store(tree.to_word(), Release);
        self.retire(shared);
        self.current = Some(place);
    }

    /// Makes readers use the lines, which have all routes.
    pub(super) fn withdraw(&mut self, shared: &Shared) {
        shared.announce();
        shared.tree.store(0, Release);
        self.retire(shared);
    }

    fn retire(&mut self, shared: &Shared) {
        if let Some(place) = self.current.take() {
            self.retired[place] = Some(shared.epochs.stamp());
        }
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
fn write(shared: &Shared, line: usize, ranges: &[(u32, u32)]) -> Tree {
    let leaves = ranges.len().div_ceil(RANGES);
    let levels = (0..LEVELS).find(|levels| leaves <= CHILDREN.pow(*levels as u32)).unwrap_or(LEVELS);
    let entries = |at: usize| shared.table.slice((line + at) * LINE_LEN, LINE_LEN);
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
