//! IPv4 longest prefix match.
//!
//! Two levels, as in Gupta, Lin and McKeown, "Routing lookups in hardware at memory access speeds" (INFOCOM 1998): one
//! entry for each of the 2^24 values of an address's upper 24 bits, and a group of 256 entries for each /24 that holds
//! a longer prefix. A lookup is one load, or two. What is added here:
//!
//! - **Vectors.** [`LpmReader::lookup_many`] starts all first loads before it needs one of them, then all second loads,
//!   with AVX-512 or AVX2 where the processor has them ([`Kernel`]).
//! - **Change while reading.** Entries are atomics and every entry names the length of the prefix it comes from, so a
//!   route is inserted or removed by overwriting just the entries that it owns. A lookup that runs meanwhile returns
//!   what was right before or after, nothing else. A group is used for another /24 only after a grace period
//!   (`epoch`); only lookups that reach a group pay for that, one fence per vector.
//! - **Little memory.** Both levels lie in one piece, 2 GB of addresses. The default route is kept beside the table rather than in 2^24 entries, and pages that no route
//!   touches are never made, nor are groups that are not needed. Huge pages are asked for when there are many routes.
//!
//! Routes themselves live in an ordered map behind a lock, which only writers and the control side take.
//!
//! ```
//! use tables::{Lpm, NO_ROUTE};
//! let table = Lpm::new()?;
//! table.insert("10.0.0.0/16".parse()?, 1)?;
//! table.insert("10.0.1.0/24".parse()?, 2)?;
//! let reader = table.reader(); // one per thread
//! let mut hops = [0; 3];
//! reader.lookup_many(&[0x0a000001, 0x0a000101, 0x0b000001], &mut hops);
//! assert_eq!(hops, [1, 2, NO_ROUTE]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, fence};
use std::sync::{Arc, Mutex};

use crate::epoch::{EpochReader, Epochs};
use crate::gather::{self, BLOCK, GROUP, HOP_MASK, Kernel};
use crate::mem::{self, Zeroed};
use crate::prefix::Prefix;

/// What a lookup gives when no route matches.
pub const NO_ROUTE: u32 = u32::MAX;
/// Largest next hop that a route can have (25 bits).
pub const MAX_HOP: u32 = HOP_MASK;
/// Most /24s that can hold prefixes longer than 24 bits at one time.
pub const MAX_GROUPS: usize = TABLE / GROUP_LEN - TOP / GROUP_LEN;

// An entry: bit 31 (`GROUP`) says that the rest is the number of a group, else bits 25-30 hold the length of the prefix
// that the entry comes from (1 to 32) and bits 0-24 (`HOP_MASK`) its next hop. 0 is no route but the default. Groups are
// numbered from the start of the table, so that the first one's number is `FIRST_GROUP`.
const LEN_SHIFT: u32 = HOP_MASK.count_ones();

/// Entries of the upper level.
const TOP: usize = 1 << 24;
const GROUP_LEN: usize = 256;
const FIRST_GROUP: usize = TOP / GROUP_LEN;
/// Entries of both levels together: 2 GB of them. (Miri gets fewer: it does without the tricks of `mem`.)
const TABLE: usize = if cfg!(miri) { 1 << 25 } else { 1 << 29 };
/// Groups are made 2 MB at a time.
const GROUPS_PER_STEP: usize = 2048;
/// Entries of the upper level in one huge page.
const PAGE_LEN: usize = mem::ALIGN / size_of::<AtomicU32>();
/// From this many routes on, huge pages pay: a quarter of a 2 MB page per route at worst before, less after.
const HUGE_FROM: usize = 4096;

/// Why a table could not be made or changed. A refused change leaves the table as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// The system has no memory left.
    #[error("out of memory for the route table")]
    OutOfMemory,
    /// The next hop exceeds [`MAX_HOP`].
    #[error("next hop {0} is too large for the route table")]
    HopTooLarge(u32),
    /// More than [`MAX_GROUPS`] /24s would hold longer prefixes.
    #[error("routes longer than /24 in too many different /24s, at most {MAX_GROUPS}")]
    TooManyLongPrefixes,
}

/// What readers see.
struct Shared {
    /// The upper level, then the groups.
    table: Zeroed<TABLE>,
    /// There was ever a group: readers do well to announce themselves before they look.
    deep: AtomicBool,
    /// Next hop of the default route, or `NO_ROUTE`.
    default: AtomicU32,
    epochs: Epochs,
}

/// What the writer keeps.
struct Control {
    routes: BTreeMap<Prefix, u32>,
    /// Number of routes longer than 24 bits in each group that was ever used.
    long_routes: Vec<u16>,
    free: Vec<u32>,
    /// Groups out of use that a reader may still look at, with their stamps, oldest first.
    retired: VecDeque<(u64, u32)>,
    /// Groups that there may be.
    limit: usize,
    huge: bool,
    /// The page of the upper table that was last made sure to be a huge one.
    touched: usize,
}

/// A route table that many threads look up while one changes it.
///
/// Every method may be called from any thread; those that change the table, or walk its routes, take a lock.
pub struct Lpm {
    shared: Arc<Shared>,
    control: Mutex<Control>,
}

/// One thread's view of an [`Lpm`]: lookups take no lock and wait for nobody. It keeps the table alive.
pub struct LpmReader {
    shared: Arc<Shared>,
    epoch: EpochReader,
    kernel: Kernel,
    /// The slot of the epoch belongs to one thread at a time: not `Sync`.
    _one_thread: PhantomData<Cell<()>>,
}

#[inline(always)]
fn entry(len: u8, hop: u32) -> u32 {
    u32::from(len) << LEN_SHIFT | hop
}

#[inline(always)]
fn entry_len(entry: u32) -> u8 {
    (entry >> LEN_SHIFT) as u8
}

impl Shared {
    /// Where in `long_routes` a group is counted.
    #[inline(always)]
    fn ordinal(group: u32) -> usize {
        (group as usize).saturating_sub(FIRST_GROUP)
    }

    /// Entries of a group that has been made.
    #[inline(always)]
    fn group(&self, group: u32) -> &[AtomicU32] {
        self.table.slice(group as usize * GROUP_LEN, GROUP_LEN)
    }

    /// Entries of the upper level.
    #[inline(always)]
    fn top(&self, first: usize, last: usize) -> &[AtomicU32] {
        self.table.slice(first, last - first + 1)
    }

    /// Makes an entry of the upper level visible together with all that was stored before.
    fn publish(&self, top: usize, entry: u32) {
        for e in self.top(top, top) {
            e.store(entry, Release);
        }
    }

    /// Overwrites, in `entries`, those that `change` claims.
    #[inline(always)]
    fn repaint(entries: &[AtomicU32], change: impl Fn(u32) -> Option<u32>) {
        for e in entries {
            if let Some(new) = change(e.load(Relaxed)) {
                e.store(new, Relaxed);
            }
        }
    }

    /// Overwrites those final entries of `prefix` (1 to 32 bits) that `change` claims.
    ///
    /// A prefix longer than 24 bits must have its group already.
    fn repaint_prefix(&self, prefix: Prefix, change: impl Fn(u32) -> Option<u32> + Copy) {
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

impl Control {
    /// The longest route that contains `prefix` and is shorter.
    fn covering(&self, prefix: Prefix) -> Option<(Prefix, u32)> {
        let mut end = Bound::Excluded(prefix);
        loop {
            let (&route, &hop) = self.routes.range((Bound::Unbounded, end)).next_back()?;
            if route.contains(prefix.first()) {
                return Some((route, hop));
            }
            // A route that contains `prefix` and comes before this one contains both, so it is no longer than what
            // the two have in common. That falls with every step.
            let common = (route.first() ^ prefix.first()).leading_zeros() as u8;
            end = Bound::Included(Prefix::new(prefix.first(), common)?);
        }
    }

    /// The entry that takes over when `prefix` goes.
    fn covering_entry(&self, prefix: Prefix) -> u32 {
        match self.covering(prefix) {
            Some((route, hop)) if route.len() > 0 => entry(route.len(), hop),
            _ => 0,
        }
    }

    /// Groups that could be handed out now.
    fn groups_left(&mut self, shared: &Shared) -> usize {
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
                    return Err(LpmError::TooManyLongPrefixes);
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
    fn paint(&mut self, shared: &Shared, prefix: Prefix, hop: u32) -> Result<(), LpmError> {
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
    fn unpaint(&mut self, shared: &Shared, prefix: Prefix) {
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

    fn count_long(&mut self, shared: &Shared, prefix: Prefix) {
        if prefix.len() > 24 {
            let group = shared.table.load((prefix.first() >> 8) as usize) & !GROUP;
            self.long_routes[Shared::ordinal(group)] += 1;
        }
    }

    /// Makes the pages that hold the prefix's entries huge ones, if that is wanted and they were never used.
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

    fn want_huge(&mut self, shared: &Shared, routes: usize) {
        if !self.huge && routes >= HUGE_FROM {
            self.huge = true;
            shared.table.advise_huge();
        }
    }
}

impl Lpm {
    /// An empty table. 2 GB of addresses are reserved, next to no memory is used.
    ///
    /// # Errors
    /// [`LpmError::OutOfMemory`] when the system refuses the reservation.
    pub fn new() -> Result<Self, LpmError> {
        let shared = Shared {
            table: Zeroed::new(TOP).ok_or(LpmError::OutOfMemory)?,
            deep: AtomicBool::new(false),
            default: AtomicU32::new(NO_ROUTE),
            epochs: Epochs::new(),
        };
        let control = Control {
            routes: BTreeMap::new(),
            long_routes: Vec::new(),
            free: Vec::new(),
            retired: VecDeque::new(),
            limit: MAX_GROUPS,
            huge: false,
            touched: usize::MAX,
        };
        Ok(Self { shared: Arc::new(shared), control: Mutex::new(control) })
    }

    fn control(&self) -> std::sync::MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A view for one more thread, with the widest instructions that there are.
    pub fn reader(&self) -> LpmReader {
        self.reader_with(Kernel::widest())
    }

    /// A view for one more thread that uses these instructions.
    pub fn reader_with(&self, kernel: Kernel) -> LpmReader {
        let epoch = self.shared.epochs.register();
        LpmReader { shared: self.shared.clone(), epoch, kernel, _one_thread: PhantomData }
    }

    /// Adds a route or replaces its next hop, in place. Returns the next hop it had.
    ///
    /// # Errors
    /// Any [`LpmError`]; the table is then as it was.
    pub fn insert(&self, prefix: Prefix, hop: u32) -> Result<Option<u32>, LpmError> {
        if hop > MAX_HOP {
            return Err(LpmError::HopTooLarge(hop));
        }
        let control = &mut *self.control();
        control.want_huge(&self.shared, control.routes.len() + 1);
        control.paint(&self.shared, prefix, hop)?;
        let old = control.routes.insert(prefix, hop);
        if old.is_none() {
            control.count_long(&self.shared, prefix);
        }
        Ok(old)
    }

    /// Removes a route, in place. Returns the next hop it had, `None` when there is no such route.
    pub fn remove(&self, prefix: Prefix) -> Option<u32> {
        let control = &mut *self.control();
        let hop = control.routes.remove(&prefix)?;
        control.unpaint(&self.shared, prefix);
        Some(hop)
    }

    /// Adds many routes at once, all or none; of two for the same prefix the later one counts. Routes already in the
    /// table stay. Much quicker than one at a time: the table is written in order of address.
    ///
    /// # Errors
    /// Any [`LpmError`]; the table is then as it was, except that after [`LpmError::OutOfMemory`] some of the routes
    /// may be in it.
    pub fn load(&self, routes: impl IntoIterator<Item = (Prefix, u32)>) -> Result<(), LpmError> {
        // Address (32 bits), length (6) and next hop (25) in one word: quick to sort.
        let mut packed = Vec::new();
        for (prefix, hop) in routes {
            if hop > MAX_HOP {
                return Err(LpmError::HopTooLarge(hop));
            }
            packed.push(u64::from(prefix.first()) << 31 | u64::from(prefix.len()) << 25 | u64::from(hop));
        }
        packed.sort_by_key(|p| p >> 25); // stable: the later of two equal prefixes stays behind the earlier
        let unpack = |p: u64| {
            let prefix = Prefix::new((p >> 31) as u32, (p >> 25 & 63) as u8).unwrap_or(Prefix::DEFAULT);
            (prefix, p as u32 & HOP_MASK)
        };
        let last_of_equals = packed
            .iter()
            .zip(packed.iter().skip(1).map(Some).chain([None]))
            .filter(|(p, next)| next.is_none_or(|next| *p >> 25 != next >> 25))
            .map(|(&p, _)| unpack(p));

        let control = &mut *self.control();
        let shared = &*self.shared;
        control.want_huge(shared, control.routes.len() + packed.len());
        // A table without routes has no groups, and reading it would map its pages as small ones.
        let has_group =
            |control: &Control, top: usize| !control.routes.is_empty() && shared.table.load(top) & GROUP != 0;
        let mut needed = 0;
        let mut previous = None;
        for (prefix, _) in last_of_equals.clone().filter(|(p, _)| p.len() > 24) {
            let top = (prefix.first() >> 8) as usize;
            if previous.replace(top) != Some(top) && !has_group(control, top) {
                needed += 1;
            }
        }
        if needed > control.groups_left(shared) {
            return Err(LpmError::TooManyLongPrefixes);
        }

        if control.routes.is_empty() {
            // Sorted input makes the map in one pass.
            for (prefix, hop) in last_of_equals.clone() {
                control.paint(shared, prefix, hop)?;
                control.count_long(shared, prefix);
            }
            control.routes = last_of_equals.collect();
        } else {
            for (prefix, hop) in last_of_equals {
                control.paint(shared, prefix, hop)?;
                if control.routes.insert(prefix, hop).is_none() {
                    control.count_long(shared, prefix);
                }
            }
        }
        Ok(())
    }

    /// Removes every route.
    pub fn clear(&self) {
        let control = &mut *self.control();
        let shared = &*self.shared;
        let mut done = None;
        for (&prefix, _) in std::mem::take(&mut control.routes).iter() {
            if prefix.len() == 0 {
                shared.default.store(NO_ROUTE, Relaxed);
                continue;
            }
            if done.is_some_and(|last| prefix.last() <= last) {
                continue; // inside a prefix that is gone already, or in its /24
            }
            done = Some(prefix.last() | 0xff);
            for e in shared.top((prefix.first() >> 8) as usize, (prefix.last() >> 8) as usize) {
                let old = e.load(Relaxed);
                e.store(0, Release);
                if old & GROUP != 0 {
                    let group = old & !GROUP;
                    control.long_routes[Shared::ordinal(group)] = 0;
                    control.retired.push_back((shared.epochs.stamp(), group));
                }
            }
        }
    }

    /// The next hop of exactly this route.
    pub fn get(&self, prefix: Prefix) -> Option<u32> {
        self.control().routes.get(&prefix).copied()
    }

    /// The route that a packet to `addr` (in host order) takes, with its next hop. For control: takes the lock.
    pub fn route(&self, addr: u32) -> Option<(Prefix, u32)> {
        let control = self.control();
        let host = Prefix::host(addr);
        match control.routes.get(&host) {
            Some(&hop) => Some((host, hop)),
            None => control.covering(host),
        }
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.control().routes.len()
    }

    /// There are no routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every route, by address and then by length.
    pub fn routes(&self) -> Vec<(Prefix, u32)> {
        self.control().routes.iter().map(|(&p, &h)| (p, h)).collect()
    }

    /// Number of /24s that hold prefixes longer than 24 bits; each takes 1 KB.
    pub fn groups(&self) -> usize {
        let control = self.control();
        control.long_routes.len() - control.free.len() - control.retired.len()
    }
}

impl std::fmt::Debug for Lpm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lpm").field("routes", &self.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for LpmReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LpmReader").finish_non_exhaustive()
    }
}

impl LpmReader {
    /// The next hop for `addr` (in host order), or [`NO_ROUTE`].
    #[inline]
    pub fn lookup(&self, addr: u32) -> u32 {
        let shared = &*self.shared;
        let top = (addr >> 8) as usize;
        let mut e = shared.table.load(top);
        if e & GROUP != 0 {
            let _entered = self.epoch.enter(&shared.epochs);
            e = shared.table.load(top);
            if e & GROUP != 0 {
                fence(Acquire);
                e = shared.table.load(gather::in_group::<TABLE>(e, addr));
            }
        }
        gather::hop(e, shared.default.load(Relaxed))
    }

    /// The next hop for each of `addrs` (in host order), or [`NO_ROUTE`]; as many as the shorter slice holds.
    #[inline]
    pub fn lookup_many(&self, addrs: &[u32], hops: &mut [u32]) {
        let shared = &*self.shared;
        let default = shared.default.load(Relaxed);
        let mut entered = shared.deep.load(Relaxed).then(|| self.epoch.enter(&shared.epochs));
        let n = addrs.len().min(hops.len());
        for (addrs, hops) in addrs[..n].chunks(BLOCK).zip(hops[..n].chunks_mut(BLOCK)) {
            if self.kernel.first(&shared.table, addrs, hops) {
                if entered.is_none() {
                    // The first group of all appeared just now, and may be gone again.
                    entered = Some(self.epoch.enter(&shared.epochs));
                    self.kernel.first(&shared.table, addrs, hops);
                }
                fence(Acquire);
            }
            self.kernel.second(&shared.table, addrs, hops, default);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicUsize;

    fn p(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn a(text: &str) -> u32 {
        text.parse::<std::net::Ipv4Addr>().unwrap().to_bits()
    }

    /// The table to compare with: a list, searched from end to end.
    #[derive(Default)]
    struct Naive(Vec<(Prefix, u32)>);

    impl Naive {
        fn insert(&mut self, prefix: Prefix, hop: u32) -> Option<u32> {
            let old = self.remove(prefix);
            self.0.push((prefix, hop));
            old
        }

        fn remove(&mut self, prefix: Prefix) -> Option<u32> {
            let at = self.0.iter().position(|r| r.0 == prefix)?;
            Some(self.0.swap_remove(at).1)
        }

        fn route(&self, addr: u32) -> Option<(Prefix, u32)> {
            self.0.iter().filter(|r| r.0.contains(addr)).max_by_key(|r| r.0.len()).copied()
        }
    }

    #[test]
    fn nesting_of_every_length() {
        let t = Lpm::new().unwrap();
        let r = t.reader();
        let addr = a("10.20.30.40");
        assert_eq!(r.lookup(addr), NO_ROUTE);
        let lens: Vec<u8> = if cfg!(miri) { (21..=32).collect() } else { (0..=32).collect() };
        for &len in &lens {
            t.insert(Prefix::new(addr, len).unwrap(), 100 + u32::from(len)).unwrap();
            assert_eq!(r.lookup(addr), 100 + u32::from(len));
        }
        assert_eq!(r.lookup(addr ^ 1), 131);
        for &len in lens.iter().rev() {
            assert_eq!(r.lookup(addr), 100 + u32::from(len));
            assert_eq!(t.remove(Prefix::new(addr, len).unwrap()), Some(100 + u32::from(len)));
        }
        assert_eq!(r.lookup(addr), NO_ROUTE);
        assert_eq!((t.len(), t.groups()), (0, 0));
    }

    #[test]
    fn limits_and_answers() {
        let t = Lpm::new().unwrap();
        assert_eq!(t.insert(p("10.0.0.0/24"), MAX_HOP), Ok(None));
        assert_eq!(t.insert(p("10.0.0.0/24"), 0), Ok(Some(MAX_HOP)));
        assert_eq!(t.insert(p("10.0.0.0/24"), MAX_HOP + 1), Err(LpmError::HopTooLarge(MAX_HOP + 1)));
        assert_eq!(
            t.load([(p("1.0.0.0/24"), 1), (p("2.0.0.0/24"), NO_ROUTE)]),
            Err(LpmError::HopTooLarge(NO_ROUTE))
        );
        assert_eq!((t.len(), t.get(p("10.0.0.0/24")), t.get(p("10.0.0.0/25"))), (1, Some(0), None));
        assert_eq!(t.reader().lookup(a("10.0.0.255")), 0);
        assert_eq!(t.remove(p("10.0.0.0/23")), None);
        assert!(!t.is_empty());
    }

    #[test]
    fn default_route_touches_no_table() {
        let t = Lpm::new().unwrap();
        t.insert(Prefix::DEFAULT, 7).unwrap();
        t.insert(p("10.0.0.1/32"), 8).unwrap();
        let r = t.reader();
        let mut hops = [0; 3];
        r.lookup_many(&[0, a("10.0.0.1"), a("10.0.0.2")], &mut hops);
        assert_eq!(hops, [7, 8, 7]);
        assert_eq!(t.route(5), Some((Prefix::DEFAULT, 7)));
        t.remove(Prefix::DEFAULT);
        assert_eq!(r.lookup(a("10.0.0.2")), NO_ROUTE);
    }

    #[test]
    fn vectors_of_every_length() {
        let t = Lpm::new().unwrap();
        t.load((0..200).map(|i| (Prefix::new(i << 8, 24).unwrap(), i))).unwrap();
        t.load(
            (0..200).step_by(if cfg!(miri) { 60 } else { 3 }).map(|i| (Prefix::host(i << 8 | 1), 1000 + i)),
        )
        .unwrap();
        for r in Kernel::usable().into_iter().map(|k| t.reader_with(k)) {
            let addrs: Vec<u32> = (0..200).map(|i| i << 8 | (i & 1)).collect();
            for n in if cfg!(miri) { vec![1, 65] } else { (0..200).collect() } {
                let mut hops = vec![12345; n + 1];
                r.lookup_many(&addrs[..n], &mut hops);
                for (i, &hop) in hops[..n].iter().enumerate() {
                    let want = if i & 1 == 1 && i % 3 == 0 && !cfg!(miri) { 1000 + i } else { i };
                    assert_eq!(hop, want as u32);
                }
                assert_eq!(hops[n], 12345);
            }
            let mut short = [0; 2];
            r.lookup_many(&addrs, &mut short);
            assert_eq!(short, [0, 1]);
        }
    }

    /// 25 bits of next hop, the highest bits of a group, and the default route, with every kernel.
    #[test]
    fn widest_values() {
        let t = Lpm::new().unwrap();
        t.load((0..64u32).map(|i| (Prefix::new(i << 26, 24).unwrap(), MAX_HOP - i))).unwrap();
        t.insert(Prefix::host(u32::MAX), MAX_HOP).unwrap();
        let addrs: Vec<u32> = (0..64).map(|i| i << 26).chain([u32::MAX, u32::MAX - 1, 1 << 25]).collect();
        let want: Vec<u32> = (0..64).map(|i| MAX_HOP - i).chain([MAX_HOP, 5, 5]).collect();
        t.insert(Prefix::DEFAULT, 5).unwrap();
        for kernel in Kernel::usable() {
            let mut hops = vec![0; addrs.len()];
            t.reader_with(kernel).lookup_many(&addrs, &mut hops);
            assert_eq!(hops, want, "{}", kernel.name());
        }
        assert_eq!(Kernel::usable()[0], Kernel::SCALAR);
    }

    #[test]
    fn beyond_the_limit_nothing_changes() {
        let t = Lpm::new().unwrap();
        t.control().limit = 3;
        t.load([(p("0.0.0.0/0"), 9), (p("1.0.0.0/8"), 1), (p("1.0.0.1/32"), 2), (p("1.0.1.1/32"), 3)])
            .unwrap();
        let before = t.routes();
        let long = |i: u32| (Prefix::host(2 << 24 | i << 8), i);
        assert_eq!(t.load((0..2).map(long)), Err(LpmError::TooManyLongPrefixes));
        assert_eq!((t.routes(), t.groups()), (before.clone(), 2));
        t.insert(p("3.0.0.0/25"), 4).unwrap();
        assert_eq!(t.insert(p("4.0.0.0/25"), 5), Err(LpmError::TooManyLongPrefixes));
        assert_eq!((t.get(p("4.0.0.0/25")), t.len(), t.groups()), (None, before.len() + 1, 3));
        // What needs no new group still goes in, and a group that becomes free can be had again.
        t.insert(p("3.0.0.128/25"), 6).unwrap();
        t.insert(p("4.0.0.0/24"), 7).unwrap();
        t.remove(p("1.0.1.1/32"));
        t.insert(p("4.0.0.0/25"), 5).unwrap();
        let mut hops = [0; 6];
        let addrs = ["1.0.0.1", "1.0.1.1", "3.0.0.200", "4.0.0.1", "4.0.0.200", "2.0.0.0"].map(a);
        t.reader().lookup_many(&addrs, &mut hops);
        assert_eq!(hops, [2, 1, 6, 5, 7, 9]);
    }

    /// The true limit: one route too many is seen before any is written.
    #[test]
    #[cfg(not(miri))]
    fn too_many_groups_are_refused_at_once() {
        let t = Lpm::new().unwrap();
        t.insert(p("1.0.0.1/32"), 2).unwrap();
        let all = (0..MAX_GROUPS as u32).map(|i| (Prefix::host(1 << 31 | i << 8), 1));
        let error = t.load(all).unwrap_err();
        assert_eq!(error, LpmError::TooManyLongPrefixes);
        assert_eq!(error.to_string(), "routes longer than /24 in too many different /24s, at most 2031616");
        assert_eq!((t.len(), t.groups(), t.reader().lookup(a("128.0.0.0"))), (1, 1, NO_ROUTE));
    }

    #[test]
    fn load_takes_the_later_and_keeps_order() {
        let t = Lpm::new().unwrap();
        t.load([(p("10.0.0.0/18"), 3), (p("10.0.0.0/20"), 2), (p("10.0.0.0/18"), 1), (p("9.0.0.0/18"), 9)])
            .unwrap();
        assert_eq!(t.routes(), [(p("9.0.0.0/18"), 9), (p("10.0.0.0/18"), 1), (p("10.0.0.0/20"), 2)]);
        t.load([(p("10.0.0.0/18"), 5)]).unwrap();
        assert_eq!(t.reader().lookup(a("10.0.16.0")), 5);
        assert_eq!(t.reader().lookup(a("10.0.0.0")), 2);
    }

    #[test]
    fn groups_come_back() {
        let t = Lpm::new().unwrap();
        let r = t.reader();
        for round in 0..if cfg!(miri) { 4 } else { 5000u32 } {
            let host = Prefix::host(round << 8 | 5);
            t.insert(host, round).unwrap();
            assert_eq!((r.lookup(host.first()), r.lookup(host.first() + 1)), (round, NO_ROUTE));
            t.remove(host);
            assert_eq!(r.lookup(host.first()), NO_ROUTE);
        }
        let control = t.control();
        assert!(control.long_routes.len() <= 2, "{}", control.long_routes.len());
    }

    #[test]
    fn a_reader_inside_holds_groups_back() {
        let t = Lpm::new().unwrap();
        let r = t.reader();
        t.insert(p("1.1.1.1/32"), 1).unwrap();
        let inside = r.epoch.enter(&r.shared.epochs);
        t.remove(p("1.1.1.1/32"));
        t.insert(p("2.2.2.2/32"), 2).unwrap();
        assert_eq!(t.control().long_routes.len(), 2);
        drop(inside);
        t.insert(p("3.3.3.3/32"), 3).unwrap();
        assert_eq!(t.control().long_routes.len(), 2);
        assert_eq!((r.lookup(a("2.2.2.2")), r.lookup(a("3.3.3.3"))), (2, 3));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(Prefix, u32),
        Remove(Prefix),
        Load(Vec<(Prefix, u32)>),
        Clear,
    }

    /// Prefixes that meet often: few distinct bits, all over the two levels.
    fn prefix() -> impl Strategy<Value = Prefix> {
        // The shortest ones fill half the table: seldom.
        let lens = prop_oneof![30 => if cfg!(miri) { 22..33u8 } else { 10..33 }, 1 => if cfg!(miri) { 22..24u8 } else { 0..10 }];
        (addr(), lens).prop_map(|(addr, len)| Prefix::new(addr, len).unwrap())
    }

    fn addr() -> impl Strategy<Value = u32> {
        (0u32..4, 0u32..4, 0u32..3, any::<u32>()).prop_map(|(hi, mid, low, any)| match low {
            0 => hi << 30 | mid << 8 | any & 0xff,
            1 => hi << 30 | mid << 7 | any & 1,
            _ => hi << 30 | (any & 3) << 22 | mid << 14 | any & 0x81,
        })
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            8 => (prefix(), 0..1000u32).prop_map(|(p, h)| Op::Insert(p, h)),
            6 => prefix().prop_map(Op::Remove),
            1 => prop::collection::vec((prefix(), 0..1000u32), 0..if cfg!(miri) { 4 } else { 20 }).prop_map(Op::Load),
            1 => Just(Op::Clear),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 128 }, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn same_as_naive(
            ops in prop::collection::vec(op(), 1..if cfg!(miri) { 6 } else { 80 }),
            addrs in prop::collection::vec(addr(), if cfg!(miri) { 4 } else { 40 })
        ) {
            let table = Lpm::new().unwrap();
            let readers: Vec<_> = Kernel::usable().into_iter().map(|k| table.reader_with(k)).collect();
            let mut naive = Naive::default();
            let mut used = Vec::new();
            for op in ops {
                match op {
                    Op::Insert(p, h) => {
                        used.push(p);
                        prop_assert_eq!(table.insert(p, h).unwrap(), naive.insert(p, h));
                    }
                    Op::Remove(p) => {
                        // Mostly one that is there.
                        let p = if p.len() % 4 != 0 { *used.get(p.first() as usize % (used.len() + 1)).unwrap_or(&p) } else { p };
                        prop_assert_eq!(table.remove(p), naive.remove(p));
                    }
                    Op::Load(routes) => {
                        table.load(routes.iter().copied()).unwrap();
                        for (p, h) in routes {
                            used.push(p);
                            naive.insert(p, h);
                        }
                    }
                    Op::Clear => {
                        table.clear();
                        naive.0.clear();
                    }
                }
                let ends = used.iter().flat_map(|p| [p.first(), p.last(), p.first().wrapping_sub(1), p.last().wrapping_add(1)]);
                let probe: Vec<u32> = addrs.iter().copied().chain(ends).collect();
                let routes: Vec<_> = probe.iter().map(|a| naive.route(*a)).collect();
                let want: Vec<_> = routes.iter().map(|r| r.map_or(NO_ROUTE, |r| r.1)).collect();
                for reader in &readers {
                    let mut hops = vec![0; probe.len()];
                    reader.lookup_many(&probe, &mut hops);
                    prop_assert_eq!(&hops, &want, "{:?}", reader.kernel);
                }
                for ((&addr, &hop), &route) in probe.iter().zip(&want).zip(&routes) {
                    prop_assert_eq!(readers[0].lookup(addr), hop);
                    prop_assert_eq!(table.route(addr), route);
                }
                let mut all = naive.0.clone();
                all.sort();
                prop_assert_eq!(table.routes(), all);
                let tops: std::collections::BTreeSet<u32> =
                    naive.0.iter().filter(|r| r.0.len() > 24).map(|r| r.0.first() >> 8).collect();
                prop_assert_eq!(table.groups(), tops.len());
            }
        }
    }

    /// Readers look up while a writer inserts, removes, loads and recycles groups. A next hop names its prefix, so an
    /// answer can be judged alone: it must contain the address, and be at least as long as the routes that stay.
    #[test]
    fn readers_are_never_wrong() {
        let mut x = 0x2545_f491_4f6c_dd1du64;
        let mut random = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        let mut prefixes = Vec::new();
        let stay = if cfg!(miri) { 0 } else { 6 };
        for i in 0..1u32 << stay {
            prefixes.push(Prefix::new(i << 26, stay).unwrap()); // these stay
        }
        let tops = if cfg!(miri) { 3 } else { 24 };
        for _ in 0..if cfg!(miri) { 16 } else { 600 } {
            let r = random();
            let base = (r as u32 % tops) << 8 | ((r >> 32) as u32 % 4) << 26;
            prefixes.push(Prefix::new(base | (r >> 40) as u32 & 0xff, 20 + (r >> 50) as u8 % 13).unwrap());
        }
        prefixes.sort();
        prefixes.dedup();
        let table = Lpm::new().unwrap();
        table
            .load(prefixes.iter().enumerate().filter(|(_, p)| p.len() == stay).map(|(i, &p)| (p, i as u32)))
            .unwrap();
        let changing: Vec<(Prefix, u32)> = prefixes
            .iter()
            .enumerate()
            .filter(|(_, p)| p.len() != stay)
            .map(|(i, &p)| (p, i as u32))
            .collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let kernels = [Kernel::SCALAR, Kernel::widest()];
            for (seed, kernel) in (0..2u32).zip(kernels) {
                let (reader, prefixes, stop) = (table.reader_with(kernel), &prefixes, &stop);
                scope.spawn(move || {
                    let mut n = seed;
                    let mut addrs = [0u32; 48];
                    let mut hops = [0u32; 48];
                    while !stop.load(Relaxed) {
                        for addr in &mut addrs {
                            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                            *addr = ((n >> 20) & 255) | (((n >> 8) % tops) << 8) | ((n >> 30) << 26);
                        }
                        reader.lookup_many(&addrs, &mut hops);
                        for (&addr, &hop) in addrs.iter().zip(&hops) {
                            assert!(
                                prefixes[hop as usize].contains(addr),
                                "{addr:x} {}",
                                prefixes[hop as usize]
                            );
                        }
                        let hop = reader.lookup(addrs[0]);
                        assert!(prefixes[hop as usize].contains(addrs[0]));
                    }
                });
            }
            for round in 0..if cfg!(miri) { 12 } else { 200_000u32 } {
                let (prefix, hop) = changing[random() as usize % changing.len()];
                if random() % 2 == 0 {
                    table.insert(prefix, hop).unwrap();
                } else {
                    table.remove(prefix);
                }
                if round % 10_000 == 9_999 {
                    table.load(changing.iter().copied()).unwrap();
                }
            }
            stop.store(true, Relaxed);
        });
    }

    /// Every answer is that of a table as it was at some moment of the lookup: all tables there will be are made
    /// beforehand, by the list that is searched from end to end.
    #[test]
    fn every_answer_was_right_at_some_moment() {
        let (changes, probes) = if cfg!(miri) { (8, 4) } else { (2000, 64) };
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move |below: u32| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as u32 % below
        };
        // Few addresses and prefixes of every length around them, so that nearly every change is seen.
        let addrs: Vec<u32> =
            (0..probes).map(|_| random(2) << 30 | random(3) << 10 | random(3) << 8 | random(256)).collect();
        let mut naive = Naive::default();
        let mut ops = Vec::new();
        let mut tables = Vec::new();
        let answers =
            |naive: &Naive| addrs.iter().map(|a| naive.route(*a).map_or(NO_ROUTE, |r| r.1)).collect();
        tables.push(answers(&naive));
        for hop in 0..changes {
            let len = if cfg!(miri) {
                23 + random(10)
            } else {
                [12 + random(21), 24 + random(9)][hop as usize % 2]
            };
            let prefix = Prefix::new(addrs[random(probes) as usize], len as u8).unwrap();
            let insert = random(5) < 3;
            if insert {
                naive.insert(prefix, hop)
            } else {
                naive.remove(prefix)
            };
            ops.push((prefix, insert.then_some(hop)));
            let now: Vec<u32> = answers(&naive);
            tables.push(now);
        }
        let table = Lpm::new().unwrap();
        // Changes that have begun and that are done.
        let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for kernel in Kernel::usable() {
                let reader = table.reader_with(kernel);
                let (tables, addrs, begun, done) = (&tables, &addrs, &begun, &done);
                scope.spawn(move || {
                    let mut hops = vec![0; addrs.len()];
                    loop {
                        let earliest = done.load(Acquire);
                        reader.lookup_many(addrs, &mut hops);
                        fence(Acquire); // whoever saw something of a change sees that it had begun
                        let latest = begun.load(Relaxed);
                        for (i, hop) in hops.iter().enumerate() {
                            let right = tables[earliest..=latest].iter().any(|t: &Vec<u32>| t[i] == *hop);
                            assert!(right, "{} {:x} {hop} {earliest}..={latest}", kernel.name(), addrs[i]);
                        }
                        if earliest + 1 == tables.len() {
                            return;
                        }
                    }
                });
            }
            for (i, (prefix, hop)) in ops.into_iter().enumerate() {
                begun.store(i + 1, Relaxed);
                fence(Release);
                match hop {
                    Some(hop) => drop(table.insert(prefix, hop).unwrap()),
                    None => drop(table.remove(prefix)),
                }
                done.store(i + 1, Release);
            }
        });
    }
}
