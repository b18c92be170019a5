//! The memory of a table: the entries that readers see, and who may write where.
//!
//! An entry is a word. 0 is no route, [`NODE`] says that the rest is where a node is, and any other value is
//! a next hop and one. The first 65,536 entries are those of the root, one for each value of an address's
//! first 16 bits. Behind them are nodes, in one of four forms:
//!
//! - A *line*, 64 bytes, for the next 8 bits of an address: its 256 entries are at most 13 runs of equal
//!   ones. The first 12 bytes are the last places of the first 12 runs (255 where there are fewer), the other
//!   13 words the entries of the runs. So the run of a place is the number of bytes below it.
//! - A *block* ([`BLOCK`]), 1 KB: all 256 entries.
//! - A *far* node ([`FAR`]), for the next 16 bits, of one line: at most 11 runs. The first 10 half-words are
//!   the last places of the first 10 runs (65,535 where there are fewer), the next 11 words the entries.
//! - A far node of two lines ([`TWO`]): at most 21 runs, 20 half-words and 21 words.
//!
//! Where runs end never changes in a node that readers know; the entries of runs, and those of a block, may
//! be overwritten, each by one store.

use std::collections::VecDeque;
use std::hint::select_unpredictable;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use accounts::Mapped;

use crate::epoch::Epochs;
use crate::lpm::LpmError;
use crate::mem::{self, Reading, Zeroed};

use super::runs::{END_WORDS, ENDS, FAR_END_WORDS, FAR_ENDS, FAR_RUNS, LINE, RUNS, far_run, run};

/// Places of a node.
pub(super) const PLACES: usize = 256;
/// Lines of a block.
const BLOCK_LINES: usize = PLACES / LINE;
/// Entries of the root.
pub(super) const ROOT: usize = 1 << 16;

/// An entry that says where a node is.
pub(super) const NODE: u32 = 1 << 31;
/// The node is a block.
pub(super) const BLOCK: u32 = 1 << 30;
/// The node is a far one.
pub(super) const FAR: u32 = 1 << 29;
/// It has two lines.
const TWO: u32 = 1 << 28;
/// The bits that are the number of its first line.
const WHERE: u32 = (1 << 24) - 1;

/// The smallest and the largest number of words: 4 MB and 1 GB. (Fewer with Miri, where the memory comes from
/// the allocator.)
const LEAST: usize = 1 << 20;
const MOST: usize = if cfg!(miri) { LEAST } else { 1 << 28 };

/// Lines that no new route takes, so that there is room to remove some: one that ends a far node with many
/// children needs up to three blocks more than come free.
const RESERVE: usize = 64 * BLOCK_LINES;
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

    /// The entries, to be read.
    #[inline(always)]
    pub(super) fn nodes(&self) -> Nodes<'_> {
        Nodes(self.words.reading())
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
        self.words.slice(first(word), Form::of(word).lines() * LINE)
    }

    /// Fills a far node that no reader knows.
    pub(super) fn fill_far(&self, word: u32, runs: &[Run]) {
        let mut node = [u32::MAX; Form::FarTwo.lines() * LINE];
        let (ends, entries) = node.split_at_mut(far_end_words(word));
        for (n, (run, to)) in runs.iter().zip(entries).enumerate() {
            *to = run.entry as u32;
            if let Some(ends) = ends.get_mut(n / 2) {
                let shift = 16 * (n as u32 % 2);
                *ends = *ends & !(0xffff << shift) | u32::from(run.last) << shift;
            }
        }
        self.node(word).iter().zip(node).for_each(|(to, word)| to.store(word, Relaxed));
    }

    /// Overwrites the entries of a far node where it is; `false`, and nothing has changed, if a run would
    /// have to be two.
    pub(super) fn overwrite_far(&self, word: u32, wanted: &[Run]) -> bool {
        let node = self.node(word);
        let Some(line) = node.first_chunk().filter(|_| word & FAR != 0) else { return false };
        let has_two = word & TWO != 0;
        let mut runs: [Option<u64>; FAR_RUNS] = [None; FAR_RUNS];
        let mut first = 0;
        for Run { last, entry } in wanted {
            for run in far_run(line, has_two, first)..=far_run(line, has_two, *last) {
                if runs.get_mut(run).is_some_and(|run| *run.get_or_insert(*entry) != *entry) {
                    return false;
                }
            }
            first = last.wrapping_add(1);
        }
        for (to, entry) in node.iter().skip(far_end_words(word)).zip(runs) {
            entry.into_iter().for_each(|entry| differ(to, entry as u32));
        }
        true
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
            debug_assert!(run < RUNS, "more runs than a line has");
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
        let words = self.node(word);
        let Ok(line) = <&[AtomicU32; LINE]>::try_from(words) else {
            words.iter().zip(entries).for_each(|(to, entry)| differ(to, *entry as u32));
            return true;
        };
        let mut runs: [Option<u64>; RUNS] = [None; RUNS];
        for (place, entry) in entries.iter().enumerate() {
            if runs.get_mut(run(line, place as u8)).is_some_and(|run| *run.get_or_insert(*entry) != *entry) {
                return false;
            }
        }
        for (to, entry) in line.iter().skip(END_WORDS).zip(runs) {
            entry.into_iter().for_each(|entry| differ(to, entry as u32));
        }
        true
    }
}

/// The entries as readers see them.
#[derive(Clone, Copy)]
pub(super) struct Nodes<'a>(Reading<'a>);

impl Nodes<'_> {
    /// The root's entry for the first 16 bits of an address.
    #[inline(always)]
    pub(super) fn root(self, at: u16) -> u32 {
        let [entry] = self.0.chunk::<1>(usize::from(at));
        entry.load(Acquire)
    }

    /// The entry of a far node for the next 16 bits.
    #[inline(always)]
    pub(super) fn far(self, node: u32, place: u16) -> u32 {
        let run = far_run(self.0.chunk::<LINE>(first(node)), node & TWO != 0, place);
        let [entry] = self.0.chunk::<1>(first(node) + far_end_words(node) + run);
        entry.load(Acquire)
    }

    /// The entry of a line or a block for the next 8 bits.
    #[inline(always)]
    pub(super) fn step(self, node: u32, place: u8) -> u32 {
        if node & BLOCK != 0 {
            let [entry] = self.0.chunk::<1>(first(node) + usize::from(place));
            return entry.load(Acquire);
        }
        let line = self.0.chunk::<LINE>(first(node));
        line[END_WORDS + run(line, place)].load(Acquire)
    }

    /// The same without a branch, where it would often be mispredicted.
    #[inline(always)]
    pub(super) fn step_either(self, node: u32, place: u8) -> u32 {
        // Of a block, the line with the place.
        let (is_block, place_in_block) = (node & BLOCK != 0, usize::from(place));
        let line = self.0.chunk::<LINE>(first(node) + select_unpredictable(is_block, place_in_block, 0));
        let at = select_unpredictable(is_block, place_in_block, END_WORDS + run(line, place));
        line[at % LINE].load(Acquire)
    }

    /// Begins to load what [`Nodes::step`] will read.
    #[inline(always)]
    pub(super) fn prefetch_step(self, node: u32, place: u8) {
        self.0.prefetch(first(node) + select_unpredictable(node & BLOCK != 0, usize::from(place), 0));
    }

    /// Begins to load what [`Nodes::far`] will read, or [`Nodes::step`]. An entry that is no node may be
    /// asked for in vain, as may be one for [`Nodes::prefetch_step`].
    #[inline(always)]
    pub(super) fn prefetch(self, node: u32, place: impl FnOnce() -> u8) {
        if node & BLOCK != 0 {
            return self.0.prefetch(first(node) + usize::from(place()));
        }
        // Of one line, the same twice.
        self.0.prefetch(first(node));
        self.0.prefetch(first(node) + (node >> TWO.trailing_zeros() & 1) as usize * LINE);
    }
}

/// Stores an entry where another one is.
fn differ(to: &AtomicU32, entry: u32) {
    if to.load(Relaxed) != entry {
        to.store(entry, Release);
    }
}

/// Where a node is.
#[inline(always)]
fn first(node: u32) -> usize {
    (node & WHERE) as usize * LINE
}

/// The words of a far node that hold the ends of runs; the entries follow them.
#[inline(always)]
fn far_end_words(node: u32) -> usize {
    FAR_END_WORDS << u32::from(node & TWO != 0)
}

/// The entries of a node; the higher half of each says which must not be in one run, although they are equal.
pub(super) type Entries = [u64; PLACES];

/// The number of runs of equal entries.
pub(super) fn runs(entries: &Entries) -> usize {
    1 + entries.windows(2).filter(|pair| pair.first() != pair.last()).count()
}

/// A run of a far node: its last place, and the entry, marked as in [`Entries`].
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) last: u16,
    pub(super) entry: u64,
}

/// The forms of nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Line,
    Far,
    FarTwo,
    Block,
}

impl Form {
    /// That of a node.
    pub(super) fn of(word: u32) -> Self {
        match word & (FAR | TWO | BLOCK) {
            FAR => Form::Far,
            BLOCK => Form::Block,
            0 => Form::Line,
            _ => Form::FarTwo,
        }
    }
    /// Of a far node with so many runs.
    pub(super) fn of_far(runs: usize) -> Self {
        if runs > FAR_ENDS + 1 { Form::FarTwo } else { Form::Far }
    }
    fn bits(self) -> u32 {
        match self {
            Form::Line => 0,
            Form::Far => FAR,
            Form::FarTwo => FAR | TWO,
            Form::Block => BLOCK,
        }
    }
    pub(super) const fn lines(self) -> usize {
        match self {
            Form::Line | Form::Far => 1,
            Form::FarTwo => 2,
            Form::Block => BLOCK_LINES,
        }
    }
    /// Where its pieces lie among those that are free: with others of the same length.
    const fn kind(self) -> usize {
        match self {
            Form::Line | Form::Far => 0,
            Form::FarTwo => 1,
            Form::Block => 2,
        }
    }
}

/// The writer's record of the memory.
pub(super) struct Space {
    /// The first line that was never used, and the first that cannot be written.
    next: usize,
    end: usize,
    /// The first lines of pieces that are free, by their length.
    free: [Vec<u32>; 3],
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
            free: [const { Vec::new() }; 3],
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
    pub(super) fn take(&mut self, shared: &Shared, form: Form) -> Option<u32> {
        if self.retired.len() >= RETIRED {
            self.reclaim(shared);
        }
        let line = loop {
            let free = self.free[form.kind()].pop();
            if free.is_some() {
                break free;
            }
            if let Some((first, lines)) = self.larger(form) {
                let others = (first..first + lines as u32).step_by(form.lines()).skip(1);
                self.free[form.kind()].extend(others.rev());
                break Some(first);
            }
            if self.retired.is_empty() {
                break None;
            }
            // Lookups end soon.
            self.reclaim(shared);
            std::thread::yield_now();
        }?;
        self.used += form.lines();
        Some(NODE | form.bits() | line)
    }

    /// A piece that is to be divided into some of a form, with its lines: one that is free, or new memory.
    fn larger(&mut self, form: Form) -> Option<(u32, usize)> {
        let forms = match form {
            Form::Line | Form::Far => &[Form::FarTwo, Form::Block][..],
            Form::FarTwo => &[Form::Block],
            Form::Block => &[],
        };
        let free = forms.iter().find_map(|form| Some((self.free[form.kind()].pop()?, form.lines())));
        if free.is_some() || self.next + BLOCK_LINES > self.end {
            return free;
        }
        let first = self.next as u32;
        self.next += BLOCK_LINES;
        // What the account does not allow is found out by whoever asks it.
        let _ = self.held.grow(PLACES * size_of::<u32>());
        Some((first, BLOCK_LINES))
    }

    /// Whether a far node can be had, of any length.
    pub(super) fn has_far(&self) -> bool {
        let is_free = |form: Form| !self.free[form.kind()].is_empty();
        is_free(Form::FarTwo) || is_free(Form::Block) || self.next + BLOCK_LINES <= self.end
    }

    /// Whether a line can be had that nobody needs to remove routes.
    pub(super) fn has_spare(&self) -> bool {
        !self.free[Form::Line.kind()].is_empty() || self.next + RESERVE <= self.end
    }

    /// The entry of a node has been replaced, or will be before [`Space::unlinked`].
    pub(super) fn leave(&mut self, word: u32) {
        self.used -= Form::of(word).lines();
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
            self.free[Form::of(word).kind()].push(word & WHERE);
        }
    }

    /// Lines that were taken from the memory at some time.
    #[cfg(test)]
    pub(super) fn made(&self) -> usize {
        self.next - ROOT / LINE
    }
}
