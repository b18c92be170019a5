//! The memory of all trees of the process ([`super::compact`]), in one piece.
//!
//! Where many tables are small (virtual routers), their trees lie side by side. In memory of its own, each
//! would be on pages that nothing else uses, and whoever looks up in one table after the other would wait for
//! the processor to find these pages more than for the trees; together they also fill huge pages.
//!
//! All places for trees have one size. A table that has a claim to some finds as many: the claims together
//! are never for more places than there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, OnceLock};

use locks::IgnorePoison;

use crate::gather::LINE_LEN;
use crate::mem::Zeroed;
use crate::search::LINES;

/// The smallest and the largest number of entries: 4 MB and 1 GB. (Fewer with Miri, where `mem` uses the
/// allocator.)
const LEAST: usize = 1 << 20;
const MOST: usize = if cfg!(miri) { LEAST } else { 1 << 28 };
/// Entries of a place, and its bytes.
const PLACE: usize = LINES * LINE_LEN;
pub(super) const PLACE_BYTES: usize = PLACE * size_of::<u32>();
/// From so many trees on, which are a little more than a megabyte, huge pages are used.
const HUGE_FROM: usize = 64;

/// The memory in which the trees are.
pub(crate) type Memory = Zeroed<LEAST, MOST>;

struct Trees {
    memory: Memory,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    claimed: usize,
    /// Places that were used and are free again. The first of them is used next, so that trees stay close.
    free: BinaryHeap<Reverse<usize>>,
    /// How many were used at some time.
    made: usize,
    huge: bool,
}

/// None: the system refuses the memory.
fn trees() -> Option<&'static Trees> {
    static ALL: OnceLock<Option<Trees>> = OnceLock::new();
    ALL.get_or_init(|| Some(Trees { memory: Memory::new(0)?, list: Mutex::default() })).as_ref()
}

/// A table's claim to so many places.
pub(super) struct Claim {
    trees: &'static Trees,
    places: usize,
}

impl Claim {
    /// `None` if there are not as many, or no memory for them.
    pub(super) fn new(places: usize) -> Option<Self> {
        let trees = trees()?;
        let mut all = trees.list.lock().ignore_poison();
        let claimed = all.claimed + places;
        let entries = claimed * PLACE;
        // Lines do not reach across the end.
        if entries > trees.memory.mask() + 1 || !trees.memory.grow(entries) {
            return None;
        }
        all.claimed = claimed;
        Some(Self { trees, places })
    }

    pub(super) fn memory(&self) -> &'static Memory {
        &self.trees.memory
    }

    /// Takes a place; returns the number of its first line. Nobody takes more than the claim is for.
    pub(super) fn take(&self) -> usize {
        let mut all = self.trees.list.lock().ignore_poison();
        let place = all.free.pop().map_or(all.made, |Reverse(place)| place);
        all.made = all.made.max(place + 1);
        if all.made >= HUGE_FROM && !std::mem::replace(&mut all.huge, true) {
            self.trees.memory.advise_huge();
        }
        place * LINES
    }

    /// Gives a place back that was taken.
    pub(super) fn give(&self, line: usize) {
        // The list is the process's, whoever's tree it was.
        let _account = accounts::nobody().enter();
        self.trees.list.lock().ignore_poison().free.push(Reverse(line / LINES));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.trees.list.lock().ignore_poison().claimed -= self.places;
    }
}

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

    pub(super) fn memory(&self) -> &'static Memory {
        self.claim.memory()
    }

    /// Takes a place; none: trees are in all of them.
    pub(super) fn take(&self) -> Option<usize> {
        let used = self.retired.len() + usize::from(self.current.is_some());
        (used < PLACES).then(|| self.claim.take())
    }

    /// The tree in this place is the one in use; none: no tree is. The one before has gone out of use with
    /// this stamp.
    pub(super) fn set_current(&mut self, line: Option<usize>, stamp: impl FnOnce() -> u64) {
        if let Some(before) = std::mem::replace(&mut self.current, line) {
            self.retired.push((stamp(), before));
        }
    }

    /// Gives back the places of trees with a stamp below `oldest`; calls `before` first if there are any.
    pub(super) fn give_back(&mut self, oldest: u64, before: impl FnOnce()) {
        if self.retired.iter().any(|(stamp, _)| *stamp < oldest) {
            before();
        }
        for (_, line) in self.retired.extract_if(.., |(stamp, _)| *stamp < oldest) {
            self.claim.give(line);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let retired = self.retired.iter().map(|(_, line)| *line);
        retired.chain(self.current).for_each(|line| self.claim.give(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_different_and_used_again() {
        let claim = Claim::new(3).unwrap();
        let mut lines: Vec<usize> = (0..3).map(|_| claim.take()).collect();
        assert!(
            lines
                .iter()
                .all(|line| line % LINES == 0 && (line + LINES) * LINE_LEN <= claim.memory().mask() + 1)
        );
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 3);
        claim.memory().slice(lines[2] * LINE_LEN, PLACE);
        claim.give(lines[1]);
        // Other tests take places too, but never more than were claimed.
        let again = claim.take();
        assert!(again != lines[0] && again != lines[2]);
        for line in [lines[0], lines[2], again] {
            claim.give(line);
        }
    }

    #[test]
    fn nobody_gets_more_places_than_there_are() {
        assert!(Claim::new(MOST / PLACE + 1).is_none());
    }
}
