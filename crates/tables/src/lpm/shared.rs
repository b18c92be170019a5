//! The table that readers see: its entries, and how those of a prefix are overwritten.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

use crate::epoch::Epochs;
use crate::gather::{GROUP, HOP_MASK};
use crate::mem::Zeroed;
use crate::prefix::Prefix;

/// The result of a lookup that no route matches.
pub const NO_ROUTE: u32 = u32::MAX;
/// Largest next hop that a route can have (25 bits).
pub const MAX_HOP: u32 = HOP_MASK;
/// Most /24s that can hold prefixes longer than 24 bits at one time; in a process with a limited address
/// space (`ulimit -v`) fewer, but at least 65,536.
pub const MAX_GROUPS: usize = groups_of(TABLE);

// An entry: bit 31 (`GROUP`) says that the rest is the number of a group, else bits 25-30 hold the length of
// the prefix that the entry comes from (1 to 32) and bits 0-24 (`HOP_MASK`) its next hop. 0 is no route but
// the default. Groups are numbered from the start of the table, so that the first one's number is
// `FIRST_GROUP`.
pub(super) const LEN_SHIFT: u32 = HOP_MASK.count_ones();

/// Entries of the upper level.
pub(super) const TOP: usize = 1 << 24;
pub(super) const GROUP_LEN: usize = 256;
pub(super) const FIRST_GROUP: usize = TOP / GROUP_LEN;
/// Entries of both levels together: 2 GB. (Fewer with Miri, where `mem` uses the allocator.)
pub(super) const TABLE: usize = if cfg!(miri) { LEAST } else { 1 << 29 };
/// The smallest number of entries, 128 MB.
pub(super) const LEAST: usize = 1 << 25;

/// Groups behind the upper level of a table of so many entries.
pub(super) const fn groups_of(entries: usize) -> usize {
    entries / GROUP_LEN - FIRST_GROUP
}

/// Why a table could not be made or changed. A refused change leaves the table as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// The system has no memory left.
    #[error("out of memory for the route table")]
    OutOfMemory,
    /// The next hop exceeds [`MAX_HOP`].
    #[error("next hop {0} is too large for the route table")]
    HopTooLarge(u32),
    /// Too many /24s would hold prefixes longer than 24 bits: more than [`MAX_GROUPS`], or than a limit of
    /// the address space allows.
    #[error("routes longer than /24 in too many different /24s, at most {0}")]
    TooManyLongPrefixes(usize),
}

/// The part of the table that readers use.
pub(super) struct Shared {
    /// The upper level, then the groups.
    pub(super) table: Zeroed<LEAST, TABLE>,
    /// There was a group at some time: readers must enter the epoch before they look up.
    pub(super) deep: AtomicBool,
    /// Next hop of the default route, or `NO_ROUTE`.
    pub(super) default: AtomicU32,
    pub(super) epochs: Epochs,
}

#[inline(always)]
pub(super) fn entry(len: u8, hop: u32) -> u32 {
    u32::from(len) << LEN_SHIFT | hop
}

#[inline(always)]
pub(super) fn entry_len(entry: u32) -> u8 {
    (entry >> LEN_SHIFT) as u8
}

impl Shared {
    /// Where in `long_routes` a group is counted.
    #[inline(always)]
    pub(super) fn ordinal(group: u32) -> usize {
        (group as usize).saturating_sub(FIRST_GROUP)
    }

    /// Entries of a group that has been made.
    #[inline(always)]
    pub(super) fn group(&self, group: u32) -> &[AtomicU32] {
        self.table.slice(group as usize * GROUP_LEN, GROUP_LEN)
    }

    /// Entries of the upper level.
    #[inline(always)]
    pub(super) fn top(&self, first: usize, last: usize) -> &[AtomicU32] {
        self.table.slice(first, last - first + 1)
    }

    /// Makes an entry of the upper level visible together with all that was stored before.
    pub(super) fn publish(&self, top: usize, entry: u32) {
        for e in self.top(top, top) {
            e.store(entry, Release);
        }
    }

    /// Overwrites, in `entries`, those that `change` claims.
    #[inline(always)]
    pub(super) fn repaint(entries: &[AtomicU32], change: impl Fn(u32) -> Option<u32>) {
        for e in entries {
            if let Some(new) = change(e.load(Relaxed)) {
                e.store(new, Relaxed);
            }
        }
    }

    /// Overwrites those final entries of `prefix` (1 to 32 bits) that `change` claims.
    ///
    /// A prefix longer than 24 bits must have its group already.
    pub(super) fn repaint_prefix(&self, prefix: Prefix, change: impl Fn(u32) -> Option<u32> + Copy) {
        let (first, last) = ((prefix.first() >> 8) as usize, (prefix.last() >> 8) as usize);
        if prefix.len() > 24 {
            let group = self.group(self.table.load(first) & !GROUP);
            let (low, high) = ((prefix.first() & 0xff) as usize, (prefix.last() & 0xff) as usize);
            return Self::repaint(&group[low..=high], change);
        }
        for e in self.top(first, last) {
            let old = e.load(Relaxed);
            if old & GROUP != 0 {
                Self::repaint(self.group(old & !GROUP), change);
            } else if let Some(new) = change(old) {
                e.store(new, Relaxed);
            }
        }
    }
}
