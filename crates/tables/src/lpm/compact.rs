//! The form of a table with few routes: a tree ([`crate::search`]), which is written anew with each change.
//!
//! A new tree is written where no tree is (`trees`), and one word then tells readers where it is. A lookup
//! that began before may still read the old tree, and even what another table has written there since: before
//! the place is given back, the count of changes in [`Shared::state`] goes up, so that such a lookup finds
//! out and begins once more, now inside an epoch, in which no place is given back.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::shared::{NO_ROUTE, Shared};
use super::trees::{Memory, Places};
use crate::gather::LINE_LEN;
use crate::prefix::Prefix;
use crate::search::{CHILDREN, KEYS, LEVELS, MOST_RANGES, RANGES, START, Tree, key};

/// The most routes that have room in a tree: each begins a range, and one begins behind it.
pub(super) const MOST_ROUTES: usize = (MOST_RANGES - 1) / 2;

/// A place that nobody reads inside an epoch. It waits for lookups to end if they hold all.
fn place(places: &mut Places, shared: &Shared) -> usize {
    give_back(places, shared);
    loop {
        if let Some(line) = places.take() {
            return line;
        }
        std::thread::yield_now();
        give_back(places, shared);
    }
}

/// Gives back what nobody reads inside an epoch any more.
fn give_back(places: &mut Places, shared: &Shared) {
    // A lookup outside an epoch that has begun after the last count, and before the tree went out of use, may
    // be reading it: another table may write there next, and announces nothing here.
    places.give_back(shared.epochs.oldest(), || shared.announce());
}

/// Makes readers use a tree of these routes, at most [`MOST_ROUTES`].
pub(super) fn publish(places: &mut Places, shared: &Shared, routes: &BTreeMap<Prefix, u32>) {
    let tree = write(places, shared, routes);
    switch(places, shared, Some(tree));
}

/// Writes a tree, which nobody reads so far.
pub(super) fn write(places: &mut Places, shared: &Shared, routes: &BTreeMap<Prefix, u32>) -> Tree {
    let line = place(places, shared);
    shared.announce();
    write_at(places.memory(), line, &ranges(routes))
}

/// Makes readers use a tree that has been written, or none: the lines, which have all routes.
pub(super) fn switch(places: &mut Places, shared: &Shared, tree: Option<Tree>) {
    if tree.is_none() {
        shared.announce();
    }
    shared.tree.store(tree.map_or(0, Tree::to_word), Release);
    places.set_current(tree.map(|tree| tree.line as usize), || shared.epochs.stamp());
    give_back(places, shared);
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
fn write_at(memory: &Memory, line: usize, ranges: &[(u32, u32)]) -> Tree {
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
