//! The memory of a table: the entries that readers see, and who may write where.
//!
//! An entry is a word. 0 is no route, [`NODE`] says that the rest is where a node is, and any other value is
//! a next hop and one. The first 65,536 entries are those of the root, one for each value of an address's
//! first 16 bits. Behind them are nodes, each for the next 8 bits of an address, in one of two forms:
//!
//! - A *line*, 64 bytes: its 256 entries are at most 13 runs of equal ones. The first 12 bytes are the last
//!   places of the first 12 runs (255 where there are fewer), the other 13 words the entries of the runs. So
//!   the run of a place is the number of bytes below it.
//! - A *block* ([`BLOCK`]), 1 KB: all 256 entries.
//!
//! Which bytes end runs never changes in a line that readers know; the entries of its runs, and those of a
//! block, may be overwritten, each by one store.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use accounts::Mapped;

use crate::epoch::Epochs;
use crate::gather;
use crate::lpm::LpmError;
use crate::mem::{self, Zeroed};

/// Places of a node.
pub(super) const PLACES: usize = 256;
/// Words of a line.
pub(super) const LINE: usize = 16;
/// The words of a line that hold the ends of runs, and the ends that there are.
const END_WORDS: usize = 3;
const ENDS: usize = END_WORDS * 4;
/// The most runs of a line.
pub(super) const RUNS: usize = ENDS + 1;
/// Lines of a block.
const BLOCK_LINES: usize = PLACES / LINE;
/// Entries of the root.
pub(super) const ROOT: usize = 1 << 16;

/// An entry that says where a node is.
pub(super) const NODE: u32 = 1 << 31;
/// The node is a block.
pub(super) const BLOCK: u32 = 1 << 30;
/// The bits that are the number of its first line.
const WHERE: u32 = (1 << 24) - 1;

/// The smallest and the largest number of words: 4 MB and 1 GB. (Fewer with Miri, where the memory comes from
/// the allocator.)
const LEAST: usize = 1 << 20;
const MOST: usize = if cfg!(miri) { LEAST } else { 1 << 28 };

/// Lines that no new route takes, so that there is always room to remove one.
const RESERVE: usize = 4 * BLOCK_LINES;
/// From so many lines on, 4 MB, the memory is in huge pages: a lookup reads a few lines that may be anywhere.
const HUGE_FROM: usize = 2 * mem::ALIGN / (LINE * size_of::<u32>());
/// Memory out of use is looked at when there are so many pieces.
const RETIRED: usize = 256;

/// The entries, and the readers that may look at them.
pub(super) struct Shared {
    words: Zeroed<LEAST, MOST>,
    pub(super) epochs: Epochs,
}

impl Shared {
    pub(super) fn new() -> Result<Self, LpmError> {
        Ok(Self { words: Zeroed::new(ROOT).ok_or(LpmError::OutOfMemory)?, epochs: Epochs::new() })
    }

    /// The root's entry for the first 16 bits of an address.
    #[inline(always)]
    pub(super) fn root(&self, at: u16) -> u32 {
        let [entry] = self.words.chunk_masked::<1>(usize::from(at));
        entry.load(Acquire)
    }

    /// The entry of a node for the next 8 bits.
    #[inline(always)]
    pub(super) fn step(&self, node: u32, place: u8) -> u32 {
        let first = (node & WHERE) as usize * LINE;
        if node & BLOCK != 0 {
            let [entry] = self.words.chunk_masked::<1>(first + usize::from(place));
            return entry.load(Acquire);
        }
        let line = self.words.chunk_masked::<LINE>(first);
        line[END_WORDS + run(line, place)].load(Acquire)
    }

    /// Begins to load what [`Shared::step`] will read.
    #[inline(always)]
    pub(super) fn prefetch(&self, node: u32, place: u8) {
        let first = (node & WHERE) as usize * LINE;
        self.words.prefetch(first + if node & BLOCK != 0 { usize::from(place) } else { 0 });
    }

    /// Begins to load the root's entry.
    #[inline(always)]
    pub(super) fn prefetch_root(&self, at: u16) {
        self.words.prefetch(usize::from(at));
    }

    /// Overwrites an entry of the root.
    pub(super) fn set_root(&self, at: u16, entry: u32) {
        for word in self.words.slice(usize::from(at), 1) {
            if word.load(Relaxed) != entry {
                word.store(entry, Release);
            }
        }
    }

    fn node(&self, word: u32) -> &[AtomicU32] {
        let len = if word & BLOCK != 0 { PLACES } else { LINE };
        self.words.slice((word & WHERE) as usize * LINE, len)
    }

    /// Fills a node that no reader knows.
    pub(super) fn fill(&self, word: u32, entries: &Entries) {
        if word & BLOCK != 0 {
            self.node(word).iter().zip(entries).for_each(|(to, entry)| to.store(*entry as u32, Relaxed));
            return;
        }
        let mut line = [u32::MAX; LINE];
        let (mut ends, mut run) = ([255u8; ENDS], 0);
        for (place, entry) in entries.iter().enumerate() {
            if entries.get(place + 1) == Some(entry) {
                continue;
            }
            if let Some(end) = ends.get_mut(run) {
                *end = place as u8;
            }
            if let Some(to) = line.get_mut(END_WORDS + run) {
                *to = *entry as u32;
            }
            run += 1;
        }
        for (to, four) in line.iter_mut().zip(ends.as_chunks::<4>().0) {
            *to = u32::from_ne_bytes(*four);
        }
        self.node(word).iter().zip(line).for_each(|(to, word)| to.store(word, Relaxed));
    }

    /// Overwrites the entries of a node where it is; `false`, and nothing has changed, if a run of a line
    /// would have to be two.
    pub(super) fn overwrite(&self, word: u32, entries: &Entries) -> bool {
        let entries = entries.map(|entry| entry as u32);
        let differ = |to: &AtomicU32, entry: u32| {
            if to.load(Relaxed) != entry {
                to.store(entry, Release);
            }
        };
        let words = self.node(word);
        let Ok(line) = <&[AtomicU32; LINE]>::try_from(words) else {
            words.iter().zip(entries).for_each(|(to, entry)| differ(to, entry));
            return true;
        };
        let mut runs: [Option<u32>; RUNS] = [None; RUNS];
        for (place, entry) in entries.iter().enumerate() {
            if runs.get_mut(run(line, place as u8)).is_some_and(|run| *run.get_or_insert(*entry) != *entry) {
                return false;
            }
        }
        for (to, entry) in line.iter().skip(END_WORDS).zip(runs) {
            entry.into_iter().for_each(|entry| differ(to, entry));
        }
        true
    }
}

/// The run of a line in which a place is: at most [`ENDS`].
#[inline(always)]
fn run(line: &[AtomicU32; LINE], place: u8) -> usize {
    let [a, b, c, ..] = line;
    gather::below([a, b, c].map(|word| word.load(Relaxed)), place).min(ENDS)
}

/// The entries of a node; the higher half of each says which must not be in one run, although they are equal.
pub(super) type Entries = [u64; PLACES];

/// The number of runs of equal entries.
pub(super) fn runs(entries: &Entries) -> usize {
    1 + entries.windows(2).filter(|pair| pair.first() != pair.last()).count()
}

/// The writer's record of the memory.
pub(super) struct Space {
    /// The first line that was never used, and the first that cannot be written.
    next: usize,
    end: usize,
    free: Vec<u32>,
    free_blocks: Vec<u32>,
    /// Nodes that readers can still find, until [`Space::unlinked`].
    leaving: Vec<u32>,
    /// Nodes out of use that a reader may still read, with their stamps, oldest first.
    retired: VecDeque<(u64, u32)>,
    used: usize,
    /// Huge pages are asked for.
    huge: bool,
    held: Mapped,
}

impl Space {
    pub(super) fn new() -> Self {
        Self {
            next: ROOT / LINE,
            end: ROOT / LINE,
            free: Vec::new(),
            free_blocks: Vec::new(),
            leaving: Vec::new(),
            retired: VecDeque::new(),
            used: 0,
            huge: false,
            held: Mapped::new(),
        }
    }

    /// Bytes of nodes that are in use.
    pub(super) fn used(&self) -> usize {
        self.used * LINE * size_of::<u32>()
    }

    /// Makes sure that there is room for so many lines beside what is needed to remove routes.
    pub(super) fn ensure(&mut self, shared: &Shared, lines: usize) -> Result<(), LpmError> {
        let end = self.next + lines + RESERVE;
        if end <= self.end {
            return Ok(());
        }
        if end * LINE > shared.words.mask() + 1 || end > WHERE as usize {
            return Err(LpmError::OutOfMemory);
        }
        const STEP: usize = mem::ALIGN / size_of::<u32>() / LINE;
        let end = end.next_multiple_of(STEP).min((shared.words.mask() + 1) / LINE);
        if !shared.words.grow(end * LINE) {
            return Err(LpmError::OutOfMemory);
        }
        self.end = end;
        if !self.huge && end >= HUGE_FROM {
            self.huge = true;
            shared.words.advise_huge();
        }
        Ok(())
    }

    /// A new node; `None` if [`Space::ensure`] was not asked for room.
    pub(super) fn take(&mut self, shared: &Shared, block: bool) -> Option<u32> {
        if self.retired.len() >= RETIRED {
            self.reclaim(shared);
        }
        let line = loop {
            let free = if block { self.free_blocks.pop() } else { self.free.pop() };
            if free.is_some() {
                break free;
            }
            if self.next + BLOCK_LINES <= self.end {
                let first = self.next as u32;
                self.next += BLOCK_LINES;
                // What the account does not allow is found out by whoever asks it.
                let _ = self.held.grow(PLACES * size_of::<u32>());
                if !block {
                    self.free.extend((first + 1..first + BLOCK_LINES as u32).rev());
                }
                break Some(first);
            }
            if self.retired.is_empty() {
                break None;
            }
            // Lookups end soon.
            self.reclaim(shared);
            std::thread::yield_now();
        }?;
        self.used += if block { BLOCK_LINES } else { 1 };
        Some(NODE | if block { BLOCK } else { 0 } | line)
    }

    /// The entry of a node has been replaced, or will be before [`Space::unlinked`].
    pub(super) fn leave(&mut self, word: u32) {
        self.used -= if word & BLOCK != 0 { BLOCK_LINES } else { 1 };
        self.leaving.push(word);
    }

    /// No entry leads to the nodes that have left.
    pub(super) fn unlinked(&mut self, shared: &Shared) {
        if !self.leaving.is_empty() {
            let stamp = shared.epochs.stamp();
            self.retired.extend(self.leaving.drain(..).map(|word| (stamp, word)));
        }
    }

    fn reclaim(&mut self, shared: &Shared) {
        let oldest = shared.epochs.oldest();
        while let Some((_, word)) = self.retired.pop_front_if(|(stamp, _)| *stamp < oldest) {
            let list = if word & BLOCK != 0 { &mut self.free_blocks } else { &mut self.free };
            list.push(word & WHERE);
        }
    }

    /// Lines that were taken from the memory at some time.
    #[cfg(test)]
    pub(super) fn made(&self) -> usize {
        self.next - ROOT / LINE
    }
}
