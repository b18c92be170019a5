//! The writer's side: its record of the routes, and how it overwrites the table's entries that a route owns.

use super::compact::{self, MOST_ROUTES};
use super::shared::{
    BLOCKS_END, FIRST_BLOCK, FIRST_GROUP, GROUP_LEN, LpmError, NO_ROUTE, RUNS, Shared, entry, entry_len,
    lines, runs,
};
use super::trees::PLACE_BYTES;
use crate::gather::{self, EXPANDED, GROUP, LINE_LEN, SHORT, SHORT_BITS, SLOTS};
use crate::mem;
use crate::prefix::Prefix;
use accounts::Mapped;
use locks::IgnorePoison;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::{Bound, RangeInclusive};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Groups are made 2 MB at a time.
const GROUPS_PER_STEP: usize = 2048;
/// Entries in one huge page.
const PAGE_LEN: usize = mem::ALIGN / size_of::<AtomicU32>();
/// The bytes of a small page, how many of these the lines are, and how many a huge page is.
const PAGE: usize = 4096;
const LINE_PAGES: usize = SHORT * size_of::<AtomicU32>() / PAGE;
const HUGE: usize = mem::ALIGN / PAGE;
/// From this many routes on, huge pages are used: at this number they cost at most a quarter of a 2 MB page
/// per route, and less with more routes.
const HUGE_FROM: usize = 4096;
/// From this many routes on, a table is large: as many lines, of 64 bytes, are as much as the level-2 cache
/// of a core holds.
const LARGE_FROM: usize = 16_384;

/// Routes of at most this many bits have whole lines.
const WHOLE_LINES: u8 = 32 - 13;
/// This many lines may stay in blocks although they may fit into themselves: a line that changes once soon
/// changes again.
const WAITING: usize = 1024;
/// Retired blocks are looked at when there are this many.
const RETIRED: usize = 256;

/// The writer's record of routes, groups and blocks.
pub(super) struct Control {
    pub(super) routes: BTreeMap<Prefix, u32>,
    /// Number of routes longer than 24 bits in each group that was ever used.
    pub(super) long_routes: Vec<u16>,
    pub(super) free: Vec<u32>,
    /// Groups out of use that a reader may still read, with their stamps, oldest first.
    pub(super) retired: VecDeque<(u64, u32)>,
    /// The most groups.
    pub(super) limit: usize,
    /// The most routes that a tree has, in a table whose routes are in a tree.
    few: Option<usize>,
    blocks: Blocks,
    huge: bool,
    /// The page of lines that was last made a huge page.
    touched: usize,
    reached: Reached,
}

/// The memory that a table uses, for the account of the router that has it: a tree, pages of lines, and
/// groups.
#[derive(Default)]
struct Reached {
    /// A bit for each page of lines, if somebody counts.
    pages: Vec<u64>,
    held: Mapped,
}

impl Reached {
    /// The lines of these pages are used from here on.
    fn lines(&mut self, pages: RangeInclusive<usize>) -> Result<(), LpmError> {
        if !self.held.counts() {
            return Ok(());
        }
        self.pages.resize(LINE_PAGES.div_ceil(64), 0);
        for page in pages {
            let (word, bit) = (&mut self.pages[page / 64], 1 << (page % 64));
            if *word & bit == 0 {
                if !self.held.grow(PAGE) {
                    return Err(LpmError::LimitReached);
                }
                *word |= bit;
            }
        }
        Ok(())
    }
}

/// The blocks, for lines with more runs than have room in them, and for lines that change.
struct Blocks {
    free: Vec<u32>,
    /// Blocks out of use that a reader may still read, with their stamps, oldest first.
    retired: VecDeque<(u64, u32)>,
    next: usize,
    end: usize,
    /// Groups that were made blocks because there were no others left.
    groups: usize,
    /// Lines in blocks that may fit into themselves, oldest first, each with its stamp; once no reader is
    /// that old, none knows what was in the line before.
    waiting: VecDeque<(u64, usize)>,
    /// Their stamps. Elements of `waiting` with another stamp are out of date.
    since: HashMap<usize, u64>,
    /// The most that wait.
    keep: usize,
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
            few: None,
            blocks: Blocks {
                free: Vec::new(),
                retired: VecDeque::new(),
                next: FIRST_BLOCK,
                end: BLOCKS_END,
                groups: 0,
                waiting: VecDeque::new(),
                since: HashMap::new(),
                keep: WAITING,
            },
            huge: false,
            touched: usize::MAX,
            reached: Reached::default(),
        }
    }

    /// Counts the memory of a tree.
    pub(super) fn count_tree(&mut self) -> Result<(), LpmError> {
        if self.reached.held.grow(PLACE_BYTES) { Ok(()) } else { Err(LpmError::LimitReached) }
    }

    /// Begins with a tree, which the table keeps as long as it has at most `few` routes.
    pub(super) fn begin(&mut self, shared: &Shared, few: usize) {
        self.few = (few > 0 && shared.trees.is_some()).then_some(few.min(MOST_ROUTES));
        self.publish(shared);
    }

    /// Whether the routes are in a tree.
    pub(super) fn is_compact(&self) -> bool {
        self.few.is_some()
    }

    /// Writes the tree anew, if the routes are in one.
    pub(super) fn publish(&mut self, shared: &Shared) {
        if self.is_compact()
            && let Some(places) = &mut *shared.places.lock().ignore_poison()
        {
            compact::publish(places, shared, &self.routes);
        }
    }

    /// Moves the routes from the tree into the lines if there will be too many for a tree.
    pub(super) fn make_room(&mut self, shared: &Shared, routes: usize) -> Result<(), LpmError> {
        if self.few.is_none_or(|few| routes <= few) {
            return Ok(());
        }
        let all = std::mem::take(&mut self.routes);
        let mut done = Ok(());
        for (&prefix, &hop) in &all {
            done = self.paint(shared, prefix, hop);
            if done.is_err() {
                break;
            }
            self.count_long(shared, prefix);
            self.routes.insert(prefix, hop);
        }
        match done {
            Ok(()) => {
                self.few = None;
                if let Some(places) = &mut *shared.places.lock().ignore_poison() {
                    compact::switch(places, shared, None);
                }
            }
            Err(_) => {
                self.erase(shared);
                self.routes = all;
            }
        }
        done
    }

    /// Takes all routes out of the map and of the lines.
    pub(super) fn erase(&mut self, shared: &Shared) {
        let mut done = None;
        for (&prefix, _) in std::mem::take(&mut self.routes).iter() {
            if prefix.len() == 0 {
                shared.set_default(NO_ROUTE);
                // A lookup that still has the default route must not take it where another one is gone.
                shared.announce();
                continue;
            }
            if done.is_some_and(|last| prefix.last() <= last) {
                continue; // inside a prefix that is gone already, or in its /24
            }
            done = Some(prefix.last() | 0xff);
            self.wipe(shared, prefix);
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
        let least = if prefix.len() > SHORT_BITS as u8 { SHORT_BITS as u8 } else { 0 };
        match self.covering(prefix) {
            Some((route, hop)) if route.len() > least => entry(route.len(), hop),
            _ => 0,
        }
    }

    /// Groups in use for routes.
    pub(super) fn groups(&self) -> usize {
        self.long_routes.len() - self.free.len() - self.retired.len() - self.blocks.groups
    }

    /// Fewer blocks, and fewer lines that wait, for tests.
    #[cfg(test)]
    pub(super) fn set_blocks(&mut self, blocks: usize, keep: usize) {
        self.blocks.end = (FIRST_BLOCK + blocks).min(BLOCKS_END);
        self.blocks.keep = keep;
    }

    /// How many blocks are in use.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> usize {
        let made = self.blocks.next - FIRST_BLOCK + self.blocks.groups * (GROUP_LEN / SLOTS);
        made - self.blocks.free.len() - self.blocks.retired.len()
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

    /// A group that nobody uses.
    fn take_group(&mut self, shared: &Shared) -> Result<u32, LpmError> {
        if self.free.is_empty() {
            self.recycle(shared);
        }
        if let Some(group) = self.free.pop() {
            return Ok(group);
        }
        let next = self.long_routes.len();
        if next >= self.limit {
            return Err(LpmError::TooManyLongPrefixes(self.limit));
        }
        if next.is_multiple_of(GROUPS_PER_STEP) && !self.reached.held.grow(GROUPS_PER_STEP * GROUP_LEN * 4) {
            return Err(LpmError::LimitReached);
        }
        if next.is_multiple_of(GROUPS_PER_STEP)
            && !shared.table.grow((FIRST_GROUP + next + GROUPS_PER_STEP) * GROUP_LEN)
        {
            return Err(LpmError::OutOfMemory);
        }
        shared.deepen();
        self.long_routes.push(0);
        Ok((FIRST_GROUP + next) as u32)
    }

    /// A group with this entry everywhere.
    fn make_group(&mut self, shared: &Shared, before: u32) -> Result<u32, LpmError> {
        let group = self.take_group(shared)?;
        for e in shared.group(group) {
            e.store(before, Relaxed);
        }
        Ok(group)
    }

    /// A block that nobody uses.
    fn take_block(&mut self, shared: &Shared) -> Result<u32, LpmError> {
        let blocks = &mut self.blocks;
        if blocks.free.is_empty() && (blocks.retired.len() >= RETIRED || blocks.next == blocks.end) {
            let oldest = shared.epochs.oldest();
            while let Some(&(stamp, block)) = blocks.retired.front()
                && stamp < oldest
            {
                blocks.retired.pop_front();
                blocks.free.push(block);
            }
        }
        if let Some(block) = blocks.free.pop() {
            return Ok(block);
        }
        shared.deepen();
        if blocks.next < blocks.end {
            blocks.next += 1;
            return Ok(blocks.next as u32 - 1);
        }
        // Groups lie behind the blocks and are made of the same entries.
        let group = self.take_group(shared).map_err(|e| match e {
            LpmError::LimitReached => e,
            _ => LpmError::OutOfMemory,
        })?;
        let first = group * (GROUP_LEN / SLOTS) as u32;
        self.blocks.groups += 1;
        self.blocks.free.extend(first + 1..first + (GROUP_LEN / SLOTS) as u32);
        Ok(first)
    }

    /// A block with these entries.
    fn make_block(&mut self, shared: &Shared, slots: &[u32; SLOTS]) -> Result<u32, LpmError> {
        let block = self.take_block(shared)?;
        for (e, slot) in shared.block(block).iter().zip(slots) {
            e.store(*slot, Relaxed);
        }
        Ok(block)
    }

    /// Sees to it that the entries of these slots can be overwritten without touching others: unless they are
    /// whole runs, the line's entries go into a block.
    fn set_apart(&mut self, shared: &Shared, line: usize, low: usize, high: usize) -> Result<(), LpmError> {
        if !shared.is_apart(line, low, high) {
            let block = self.make_block(shared, &shared.slots(line))?;
            shared.publish(line, block << 1 | EXPANDED);
            self.wait(shared, line);
        }
        Ok(())
    }

    /// Notes a line in a block, of which no reader that begins from now on knows what was in the line before.
    fn wait(&mut self, shared: &Shared, line: usize) {
        let stamp = shared.epochs.stamp();
        self.blocks.waiting.push_back((stamp, line));
        self.blocks.since.insert(line, stamp);
    }

    /// Brings lines back that wait, if they are many.
    pub(super) fn tidy(&mut self, shared: &Shared) {
        if self.blocks.waiting.len() <= self.blocks.keep {
            return;
        }
        let oldest = shared.epochs.oldest();
        while let Some(&(stamp, line)) = self.blocks.waiting.front()
            && stamp < oldest
            && self.blocks.waiting.len() > self.blocks.keep / 2
        {
            self.blocks.waiting.pop_front();
            if self.blocks.since.get(&line) == Some(&stamp) {
                self.blocks.since.remove(&line);
                self.bring_back(shared, line);
            }
        }
    }

    /// Moves a line's entries from their block into the line, if they have room there. No reader knows what
    /// was in the line before.
    fn bring_back(&mut self, shared: &Shared, line: usize) {
        let slots = shared.slots(line);
        let (header, count) = runs(&slots);
        if count > RUNS {
            return;
        }
        let block = shared.header(line) >> 1;
        fill_line(shared, line, &slots, header);
        shared.publish(line, header);
        self.blocks.retired.push_back((shared.epochs.stamp(), block));
    }

    /// A line has lost entries: if it is in a block and fits into itself now, it waits for that.
    fn shrunk(&mut self, shared: &Shared, line: usize) {
        if shared.header(line) & EXPANDED != 0
            && !self.blocks.since.contains_key(&line)
            && runs(&shared.slots(line)).1 <= RUNS
        {
            self.wait(shared, line);
        }
    }

    /// The group of the /24 number `top`, made of its present entry if there was none.
    fn group_at(&mut self, shared: &Shared, top: usize) -> Result<u32, LpmError> {
        let before = shared.top(top);
        if before & GROUP != 0 {
            return Ok(before & !GROUP);
        }
        let (line, slot) = (top / SLOTS, top % SLOTS);
        self.set_apart(shared, line, slot, slot)?;
        let group = self.make_group(shared, before)?;
        for e in shared.entries(line, slot, slot) {
            e.store(GROUP | group, Release);
        }
        Ok(group)
    }

    /// Puts the route into the table; the map has it already, or will have it.
    pub(super) fn paint(&mut self, shared: &Shared, prefix: Prefix, hop: u32) -> Result<(), LpmError> {
        if prefix.len() == 0 {
            shared.set_default(hop);
            return Ok(());
        }
        self.reach(prefix)?;
        if prefix.len() > SHORT_BITS as u8 {
            self.touch(shared, prefix);
        }
        if prefix.len() > 24 {
            self.group_at(shared, (prefix.first() >> 8) as usize)?;
        } else if prefix.len() > SHORT_BITS as u8 {
            for (line, low, high) in lines(prefix) {
                self.set_apart(shared, line, low, high)?;
            }
        }
        let new = entry(prefix.len(), hop);
        shared.repaint_prefix(prefix, |old| (entry_len(old) <= prefix.len()).then_some(new));
        self.tidy(shared);
        Ok(())
    }

    /// Takes a route out of the table; the map no longer has it.
    pub(super) fn unpaint(&mut self, shared: &Shared, prefix: Prefix) {
        if prefix.len() == 0 {
            shared.set_default(NO_ROUTE);
            return;
        }
        let instead = self.covering_entry(prefix);
        // The entries of a prefix are whole runs, so they are changed where they are.
        shared.repaint_prefix(prefix, |old| (entry_len(old) == prefix.len()).then_some(instead));
        let top = (prefix.first() >> 8) as usize;
        if prefix.len() > 24 {
            let group = shared.top(top) & !GROUP;
            let count = &mut self.long_routes[Shared::ordinal(group)];
            *count -= 1;
            if *count == 0 {
                // Every entry of the group now comes from the same prefix of at most 24 bits, or from none.
                let all = shared.group(group)[0].load(Relaxed);
                for e in shared.entries(top / SLOTS, top % SLOTS, top % SLOTS) {
                    e.store(all, Release);
                }
                self.retired.push_back((shared.epochs.stamp(), group));
            }
        }
        if prefix.len() > SHORT_BITS as u8 {
            for (line, ..) in lines(prefix) {
                self.shrunk(shared, line);
            }
        }
        self.tidy(shared);
    }

    /// Takes everything out of the table that lies in `prefix`, of at least one bit.
    fn wipe(&mut self, shared: &Shared, prefix: Prefix) {
        if prefix.len() <= SHORT_BITS as u8 {
            shared.announce();
            Shared::repaint(shared.short(prefix), |old| (old != 0).then_some(0));
        }
        for (line, low, high) in lines(prefix) {
            for e in shared.entries(line, low, high) {
                let old = e.load(Relaxed);
                if old != 0 {
                    e.store(0, Release);
                }
                if old & GROUP != 0 {
                    self.long_routes[Shared::ordinal(old & !GROUP)] = 0;
                    self.retired.push_back((shared.epochs.stamp(), old & !GROUP));
                }
            }
            self.shrunk(shared, line);
        }
        self.tidy(shared);
    }

    pub(super) fn count_long(&mut self, shared: &Shared, prefix: Prefix) {
        if prefix.len() > 24 {
            let group = shared.top((prefix.first() >> 8) as usize) & !GROUP;
            self.long_routes[Shared::ordinal(group)] += 1;
        }
    }

    /// Puts routes, in order, into a table that has none, and that nobody reads.
    pub(super) fn build(
        &mut self,
        shared: &Shared,
        routes: impl Iterator<Item = (Prefix, u32)>,
    ) -> Result<(), LpmError> {
        // The line that is being filled: routes in order come line by line, shorter ones first. So runs begin
        // where a route does, and behind its end.
        let (mut current, mut slots, mut header) = (None, [0; SLOTS], 0u64);
        for (prefix, hop) in routes {
            let new = entry(prefix.len(), hop);
            if prefix.len() <= SHORT_BITS as u8 {
                self.paint(shared, prefix, hop)?;
                continue;
            }
            self.reach(prefix)?;
            self.touch(shared, prefix);
            let [first, last] = [prefix.first(), prefix.last()].map(|addr| (addr >> 8) as usize);
            let line = first / SLOTS;
            if current != Some(line) {
                if let Some(line) = current.take() {
                    self.write_line(shared, line, &slots, header as u32 & !EXPANDED)?;
                }
                if prefix.len() <= WHOLE_LINES {
                    for line in line..=last / SLOTS {
                        self.write_line(shared, line, &[new; SLOTS], 0)?;
                    }
                    continue;
                }
                // Nothing, or a route that has all of the line.
                (current, slots, header) = (Some(line), [shared.top(first); SLOTS], 0);
            }
            let (low, high) = (first % SLOTS, last % SLOTS);
            header |= 1 << low | 1 << (high + 1);
            if prefix.len() <= 24 {
                slots[low..=high].fill(new);
                continue;
            }
            let slot = &mut slots[low];
            if *slot & GROUP == 0 {
                *slot = GROUP | self.make_group(shared, *slot)?;
            }
            let group = *slot & !GROUP;
            let (low, high) = ((prefix.first() & 0xff) as usize, (prefix.last() & 0xff) as usize);
            Shared::repaint(&shared.group(group)[low..=high], |_| Some(new));
            self.long_routes[Shared::ordinal(group)] += 1;
        }
        current.map_or(Ok(()), |line| self.write_line(shared, line, &slots, header as u32 & !EXPANDED))
    }

    /// Writes a line that nobody reads.
    fn write_line(
        &mut self,
        shared: &Shared,
        line: usize,
        slots: &[u32; SLOTS],
        header: u32,
    ) -> Result<(), LpmError> {
        let before = shared.header(line);
        if before & EXPANDED != 0 {
            for (e, slot) in shared.block(before >> 1).iter().zip(slots) {
                e.store(*slot, Relaxed);
            }
        } else if (header.count_ones() as usize) < RUNS {
            fill_line(shared, line, slots, header);
            shared.publish(line, header);
        } else {
            let block = self.make_block(shared, slots)?;
            shared.publish(line, block << 1 | EXPANDED);
        }
        Ok(())
    }

    /// Counts the memory of the lines of a prefix.
    fn reach(&mut self, prefix: Prefix) -> Result<(), LpmError> {
        if prefix.len() <= SHORT_BITS as u8 {
            return Ok(());
        }
        let [first, last] = [prefix.first(), prefix.last()].map(|addr| gather::line(addr) * 4 / PAGE);
        // A huge page is used as a whole.
        let (first, last) =
            if self.huge { (first / HUGE * HUGE, last / HUGE * HUGE + HUGE - 1) } else { (first, last) };
        self.reached.lines(first..=last.min(LINE_PAGES - 1))
    }

    /// Makes the pages with the prefix's lines huge pages, if huge pages are used and these pages were never
    /// used.
    fn touch(&mut self, shared: &Shared, prefix: Prefix) {
        if !self.huge {
            return;
        }
        let [first, last] = [prefix.first(), prefix.last()].map(gather::line);
        for page in first / PAGE_LEN..=last / PAGE_LEN {
            if page != self.touched {
                self.touched = page;
                shared.table.touch(page * PAGE_LEN);
            }
        }
    }

    /// The table is about to have so many routes.
    pub(super) fn expect(&mut self, shared: &Shared, routes: usize) {
        // Not with every insertion: readers load this cache line for every batch.
        if routes >= LARGE_FROM && !shared.large.load(Relaxed) {
            shared.large.store(true, Relaxed);
        }
        if !self.huge && routes >= HUGE_FROM {
            self.huge = true;
            shared.table.advise_huge();
        }
    }
}

/// Writes the entries of a line's runs, which no reader finds yet.
fn fill_line(shared: &Shared, line: usize, slots: &[u32; SLOTS], header: u32) {
    // The first run begins at slot 0 (the header's bit 0 has another meaning).
    let mut starts = header | 1;
    for e in shared.table.slice(line * LINE_LEN + 1, RUNS) {
        if starts == 0 {
            return;
        }
        e.store(slots[starts.trailing_zeros() as usize], Relaxed);
        starts &= starts - 1;
    }
}
