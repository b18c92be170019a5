//! The table that readers see: its entries, and how those of a prefix are overwritten.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, fence};

use super::trees::{Memory, Places};
use crate::epoch::Epochs;
use crate::gather::{self, EXPANDED, GROUP, HOP_MASK, LINE_LEN, SHORT, SHORT_BITS, SLOTS};
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
// the prefix that the entry comes from (1 to 32) and bits 0-24 (`HOP_MASK`) its next hop. 0 is no route, or
// one of at most `SHORT_BITS` bits. Groups and blocks are numbered from the start of the table.
pub(super) const LEN_SHIFT: u32 = HOP_MASK.count_ones();

/// Where the groups begin: behind the lines, the entries of short prefixes, and the blocks.
pub(super) const TOP: usize = 1 << 24;
pub(super) const GROUP_LEN: usize = 256;
pub(super) const FIRST_GROUP: usize = TOP / GROUP_LEN;
pub(super) const FIRST_BLOCK: usize = (SHORT + (1 << SHORT_BITS)).div_ceil(SLOTS);
pub(super) const BLOCKS_END: usize = TOP / SLOTS;
/// Runs that have room in a line.
pub(super) const RUNS: usize = LINE_LEN - 1;
/// Entries of both levels together: 2 GB. (Fewer with Miri, where `mem` uses the allocator.)
pub(super) const TABLE: usize = if cfg!(miri) { LEAST } else { 1 << 29 };
/// The smallest number of entries, 128 MB.
pub(super) const LEAST: usize = 1 << 25;

/// Groups in a table of so many entries.
pub(super) const fn groups_of(entries: usize) -> usize {
    entries / GROUP_LEN - FIRST_GROUP
}

/// The bit of [`Shared::state`] that says that there was a group or a block at some time: readers must enter
/// the epoch before they look up.
pub(super) const DEEP: u32 = 1;

/// Why a table could not be made or changed. A refused change leaves the table as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// The system has no memory left.
    #[error("out of memory for the route table")]
    OutOfMemory,
    /// The router may not have as much memory as the table needs.
    #[error("no memory for the route table: the limit memory is reached")]
    LimitReached,
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
    /// Lines, entries of short prefixes, blocks, groups.
    pub(super) table: Zeroed<LEAST, TABLE>,
    /// The memory of trees; none: the routes are never in a tree.
    pub(super) trees: Option<&'static Memory>,
    /// The tree that has all routes (its word), or 0 while the lines have them.
    pub(super) tree: AtomicU32,
    /// `DEEP`, and above it a count of the changes of routes that are not in the lines, and of trees.
    pub(super) state: AtomicU32,
    /// Next hop of the default route, or `NO_ROUTE`.
    pub(super) default: AtomicU32,
    /// Most lines that lookups need are not in the processor's own cache: a hint for readers.
    pub(super) large: AtomicBool,
    pub(super) epochs: Epochs,
    /// The writer's record of the trees. Readers keep it, and with it the trees, and do not look at it.
    pub(super) places: Mutex<Option<Places>>,
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
    /// There is a group or a block.
    pub(super) fn deepen(&self) {
        self.state.fetch_or(DEEP, Relaxed);
    }

    /// Announces a change of a short prefix or of the default route. A lookup takes these together with an
    /// entry of a line that it has loaded at another moment; one that sees something of what follows sees the
    /// new count, and one that sees the new count sees all that came before.
    pub(super) fn announce(&self) {
        self.state.fetch_add(DEEP << 1, Release);
        fence(Release);
    }

    /// Sets the next hop of the default route.
    pub(super) fn set_default(&self, hop: u32) {
        self.announce();
        self.default.store(hop, Release);
    }

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

    /// Entries for prefixes of at most `SHORT_BITS` bits, each for the addresses with these upper bits.
    #[inline(always)]
    pub(super) fn short(&self, prefix: Prefix) -> &[AtomicU32] {
        let [first, last] = [prefix.first(), prefix.last()].map(|addr| (addr >> (32 - SHORT_BITS)) as usize);
        self.table.slice(SHORT + first, last - first + 1)
    }

    /// The header of a line.
    #[inline(always)]
    pub(super) fn header(&self, line: usize) -> u32 {
        self.table.load(line * LINE_LEN)
    }

    /// Makes a line's new header visible together with all that was stored before.
    pub(super) fn publish(&self, line: usize, header: u32) {
        for h in self.table.slice(line * LINE_LEN, 1) {
            h.store(header, Release);
        }
    }

    /// Where the entry of a slot is.
    #[inline(always)]
    fn place(&self, line: usize, slot: usize) -> usize {
        gather::place(self.header(line), (line << 13 | slot << 8) as u32)
    }

    /// The entry of a /24.
    pub(super) fn top(&self, top: usize) -> u32 {
        self.table.load_masked(self.place(top / SLOTS, top % SLOTS))
    }

    /// The entries of some slots of a line: one for each, or one for each run.
    #[inline(always)]
    pub(super) fn entries(&self, line: usize, low: usize, high: usize) -> &[AtomicU32] {
        let first = self.place(line, low);
        self.table.slice(first, self.place(line, high) - first + 1)
    }

    /// The entry of each slot of a line.
    pub(super) fn slots(&self, line: usize) -> [u32; SLOTS] {
        std::array::from_fn(|slot| self.table.load_masked(self.place(line, slot)))
    }

    /// The entries of a block.
    #[inline(always)]
    pub(super) fn block(&self, block: u32) -> &[AtomicU32] {
        self.table.slice(block as usize * SLOTS, SLOTS)
    }

    /// Whether the prefixes with these slots begin and end where runs do, so that their entries can be
    /// overwritten where they are.
    pub(super) fn is_apart(&self, line: usize, low: usize, high: usize) -> bool {
        let header = self.header(line);
        let begins = |slot: usize| slot == 0 || slot == SLOTS || header >> slot & 1 == 1;
        header & EXPANDED != 0 || begins(low) && begins(high + 1)
    }

    /// Overwrites, in `entries`, those that `change` claims. Whoever sees that there is no entry any more
    /// sees the short prefixes as they were then.
    #[inline(always)]
    pub(super) fn repaint(entries: &[AtomicU32], change: impl Fn(u32) -> Option<u32>) {
        for e in entries {
            if let Some(new) = change(e.load(Relaxed)) {
                e.store(new, Release);
            }
        }
    }

    /// Overwrites those final entries of `prefix` (1 to 32 bits) that `change` claims.
    ///
    /// A prefix longer than 24 bits must have its group already, and one of fewer must be apart.
    pub(super) fn repaint_prefix(&self, prefix: Prefix, change: impl Fn(u32) -> Option<u32> + Copy) {
        if prefix.len() <= SHORT_BITS as u8 {
            self.announce();
            return Self::repaint(self.short(prefix), change);
        }
        if prefix.len() > 24 {
            let group = self.group(self.top((prefix.first() >> 8) as usize) & !GROUP);
            let (low, high) = ((prefix.first() & 0xff) as usize, (prefix.last() & 0xff) as usize);
            return Self::repaint(&group[low..=high], change);
        }
        for (line, low, high) in lines(prefix) {
            for e in self.entries(line, low, high) {
                let old = e.load(Relaxed);
                if old & GROUP != 0 {
                    Self::repaint(self.group(old & !GROUP), change);
                } else if let Some(new) = change(old) {
                    e.store(new, Release);
                }
            }
        }
    }
}

/// The lines of a prefix, with its first and its last slot in each.
#[inline(always)]
pub(super) fn lines(prefix: Prefix) -> impl Iterator<Item = (usize, usize, usize)> {
    let [first, last] = [prefix.first(), prefix.last()].map(|addr| (addr >> 8) as usize);
    (first / SLOTS..=last / SLOTS).map(move |line| {
        let begin = line * SLOTS;
        (line, first.max(begin) - begin, last.min(begin + SLOTS - 1) - begin)
    })
}

/// Whether a new run begins at a slot: entries of one prefix, or none, are a run. Equal entries of two
/// prefixes are two, so that either can be removed where it is.
#[inline(always)]
fn begins(slot: usize, before: u32, here: u32) -> bool {
    before != here || here != 0 && slot.trailing_zeros() + u32::from(entry_len(here)) >= 24
}

/// The runs of a line: the header, and how many there are.
pub(super) fn runs(slots: &[u32; SLOTS]) -> (u32, usize) {
    let mut header = 0;
    for (slot, pair) in slots.windows(2).enumerate() {
        if let [before, here] = *pair {
            header |= u32::from(begins(slot + 1, before, here)) << (slot + 1);
        }
    }
    (header, 1 + header.count_ones() as usize)
}
