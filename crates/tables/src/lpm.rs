//! IPv4 longest prefix match.
//!
//! Two levels: one entry for each /24, and a group of 256 entries for each /24 that holds a longer prefix, as
//! in Gupta, Lin and McKeown, "Routing lookups in hardware at memory access speeds" (INFOCOM 1998). Here the
//! upper level is compressed so that it still costs one cache miss: the 32 entries of a /19 are a *line* of
//! 64 bytes, which holds a bit for each of them that differs from the one before, and the first entry of each
//! run of equal ones (bitmaps as in Degermark et al., "Small forwarding tables for fast routing lookups",
//! SIGCOMM 1997). A line with more than 15 runs has its 32 entries in a *block* elsewhere. What is added
//! here:
//!
//! - **Batches.** [`LpmReader::lookup_many`] starts all first loads before it needs one of them, then all
//!   second loads, with AVX-512 or AVX2 where the processor has them ([`Kernel`]). In tables of many routes
//!   these loads begin with prefetches.
//! - **Change while reading.** Entries are atomics and every entry names the length of the prefix it comes
//!   from, so a route is inserted or removed by overwriting just the entries that it owns. Where these are
//!   not whole runs, the line's entries first move into a block, with one store to the line's header; they
//!   may return when no reader knows what was in the line before (`epoch`). A lookup that runs meanwhile
//!   returns what was right before or after, nothing else. Groups and blocks are used again only after a
//!   grace period; only lookups in tables that have some pay for that, one fence per batch. A count of the
//!   changes of the default route and of short prefixes (below), which are read at other moments than the
//!   lines, tells a lookup when it has to read again: a batch eight times, then each address by itself eight
//!   times, so that it never waits.
//! - **Few routes.** Up to 1,024 routes are in a tree of sorted addresses instead (`compact`,
//!   `search`), 20 KB at most, and the trees of all tables are side by side (`trees`), so that those of many
//!   small routers stay in the processor's cache.
//! - **Little memory.** The lines are 32 MB. Prefixes of at most 12 bits are in a table of their own, 16 KB,
//!   where the lines have no route, and the default route is beside the tables: pages that no route uses are
//!   never allocated, and a route of more bits uses at most one. Everything lies in one piece, 2 GB of
//!   addresses, or less if the address space of the process is limited. Huge pages are requested when there
//!   are many routes.
//!
//! The routes themselves are in an ordered map under a lock, which only writers and the control thread take.
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

mod compact;
mod control;
mod shared;
#[cfg(test)]
mod tests;
mod trees;

use locks::IgnorePoison;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, fence};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::epoch::{EpochReader, Epochs};
use crate::gather::{self, BLOCK, GROUP, HOP_MASK, Kernel};
use crate::mem::{self, Zeroed};
use crate::prefix::Prefix;
use crate::search::Tree;
use control::Control;
use shared::{DEEP, Shared, TOP, groups_of};
use trees::{Memory, Places};

pub use shared::{LpmError, MAX_GROUPS, MAX_HOP, NO_ROUTE};

/// A route table that many threads look up while one changes it.
///
/// Every method may be called from any thread; those that change the table, or walk its routes, take a lock.
pub struct Lpm {
    shared: Arc<Shared>,
    control: Mutex<Control>,
    /// The most routes that are in a tree.
    few: usize,
}

/// One thread's view of an [`Lpm`]: lookups take no lock and never wait. It keeps the table alive.
pub struct LpmReader {
    shared: Arc<Shared>,
    epoch: EpochReader,
    kernel: Kernel,
    /// The slot of the epoch belongs to one thread at a time: not `Sync`.
    _one_thread: PhantomData<Cell<()>>,
}

/// What a reader found in the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// Routes.
    Read,
    /// Routes, whose default or short prefixes changed each time that they were read: an entry may belong to
    /// another moment than the route behind it.
    Changing,
    /// Nothing: the routes are in a tree.
    Gone,
}

impl Lpm {
    /// An empty table. It reserves 2 GB of address space; in a process with a limit (`ulimit -v`), an eighth
    /// of the limit, or 128 MB if that is more. It uses almost no memory.
    ///
    /// # Errors
    /// [`LpmError::OutOfMemory`] when the system refuses the reservation.
    pub fn new() -> Result<Self, LpmError> {
        Self::with_few(FEW)
    }

    /// The same with a tree for at most so many routes.
    fn with_few(few: usize) -> Result<Self, LpmError> {
        let places = if few > 0 { Places::new() } else { None };
        let shared = Shared {
            table: Zeroed::new(TOP).ok_or(LpmError::OutOfMemory)?,
            trees: places.as_ref().map(Places::memory),
            tree: AtomicU32::new(0),
            state: AtomicU32::new(0),
            default: AtomicU32::new(NO_ROUTE),
            large: AtomicBool::new(false),
            epochs: Epochs::new(),
            places: Mutex::new(places),
        };
        let mut control = Control::new(groups_of(shared.table.mask() + 1));
        if shared.trees.is_some() {
            control.count_tree()?;
        }
        control.begin(&shared, few);
        Ok(Self { shared: Arc::new(shared), control: Mutex::new(control), few })
    }

    fn control(&self) -> std::sync::MutexGuard<'_, Control> {
        self.control.lock().ignore_poison()
    }

    /// A view for one more thread, with the widest instructions that there are.
    pub fn reader(&self) -> LpmReader {
        self.reader_with(Kernel::widest())
    }

    /// A view for one more thread that uses these instructions.
    pub fn reader_with(&self, kernel: Kernel) -> LpmReader {
        // No table is built while somebody begins to read it.
        let _control = self.control();
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
        control.make_room(&self.shared, control.routes.len() + 1)?;
        if control.is_compact() {
            let old = control.routes.insert(prefix, hop);
            if old != Some(hop) {
                control.publish(&self.shared);
            }
            return Ok(old);
        }
        control.expect(&self.shared, control.routes.len() + 1);
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
        match control.is_compact() {
            true => control.publish(&self.shared),
            false => control.unpaint(&self.shared, prefix),
        }
        Some(hop)
    }

    /// Adds many routes at once, all or none; of two for the same prefix the later one counts. Routes already
    /// in the table stay. Much faster than one at a time: the table is written in order of address.
    ///
    /// # Errors
    /// Any [`LpmError`]; the table is then as it was, except that after [`LpmError::OutOfMemory`] and
    /// [`LpmError::LimitReached`] some of the routes may be in it.
    pub fn load(&self, routes: impl IntoIterator<Item = (Prefix, u32)>) -> Result<(), LpmError> {
        // Address (32 bits), length (6) and next hop (25) in one word: quick to sort.
        let mut packed = Vec::new();
        for (prefix, hop) in routes {
            if hop > MAX_HOP {
                return Err(LpmError::HopTooLarge(hop));
            }
            packed.push(u64::from(prefix.first()) << 31 | u64::from(prefix.len()) << 25 | u64::from(hop));
        }
        sort(&mut packed);
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
        control.make_room(shared, control.routes.len() + packed.len())?;
        if control.is_compact() {
            control.routes.extend(last_of_equals);
            control.publish(shared);
            return Ok(());
        }
        control.expect(shared, control.routes.len() + packed.len());
        // A table without routes has no groups, and reading it would map its pages as small ones.
        let has_group =
            |control: &Control, top: usize| !control.routes.is_empty() && shared.top(top) & GROUP != 0;
        let mut needed = 0;
        let mut previous = None;
        for (prefix, _) in last_of_equals.clone().filter(|(p, _)| p.len() > 24) {
            let top = (prefix.first() >> 8) as usize;
            if previous.replace(top) != Some(top) && !has_group(control, top) {
                needed += 1;
            }
        }
        if needed > control.groups_left(shared) {
            return Err(LpmError::TooManyLongPrefixes(control.limit));
        }

        if control.routes.is_empty() && !shared.epochs.has_readers() {
            // Sorted input makes the map in one pass, beside the table if there is much to do.
            let account = accounts::inherit();
            let map = || {
                let _account = account.enter();
                last_of_equals.clone().collect()
            };
            control.routes = thread::scope(|scope| {
                let beside =
                    || thread::Builder::new().name("valiant-routes".to_owned()).spawn_scoped(scope, map);
                let mapping = (packed.len() >= MANY).then(beside).and_then(Result::ok);
                control.build(shared, last_of_equals.clone())?;
                Ok(mapping.and_then(|mapping| mapping.join().ok()).unwrap_or_else(map))
            })?;
            drop(last_of_equals);
            if packed.len() >= MANY {
                drop(packed);
                mem::give_back();
            }
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
        if control.is_compact() {
            control.routes.clear();
            return control.publish(shared);
        }
        control.erase(shared);
        control.begin(shared, self.few);
        shared.large.store(false, Relaxed);
    }

    /// The next hop of exactly this route.
    pub fn get(&self, prefix: Prefix) -> Option<u32> {
        self.control().routes.get(&prefix).copied()
    }

    /// The route that a packet to `addr` (in host order) takes, with its next hop. For control: takes the
    /// lock.
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

    /// About how many bytes lookups of all kinds of addresses reach: in a table of many routes a cache line
    /// for each, at most all of the first level, and the groups; in a tree a few bytes for each route.
    pub fn working_set(&self) -> usize {
        const LINE: usize = 64;
        let (control, few) = (self.control(), self.few);
        let routes = control.routes.len();
        let first = if routes <= few { routes * 8 } else { (routes * LINE).min(TOP * 4) };
        first + control.groups() * shared::GROUP_LEN * 4
    }

    /// Number of /24s that hold prefixes longer than 24 bits; each takes 1 KB.
    pub fn groups(&self) -> usize {
        self.control().groups()
    }
}

/// Up to so many routes are in a tree. Each change writes the tree anew, so there is an end to what that may
/// cost.
const FEW: usize = 1024;

/// How often a lookup is repeated because short prefixes or the default route change all the time.
const TRIES: usize = 8;

/// What is allocated while so many routes are loaded is worth giving back, and their map a thread.
const MANY: usize = 1 << 16;

/// Sorts routes in one word by address and length (bits 25 to 62); of two for the same prefix the later one
/// stays behind the earlier. Many are sorted by 11 bits at a time, which is several times as fast as
/// comparing.
fn sort(packed: &mut Vec<u64>) {
    const DIGITS: [u32; 4] = [25, 36, 47, 58];
    const VALUES: usize = 1 << 11;
    let sorted = packed.is_sorted_by_key(|p| p >> 25) || packed.is_sorted_by(|p, next| p >> 25 > next >> 25);
    if packed.len() < 4 * VALUES || sorted {
        // This takes one pass through what is sorted in either direction.
        return packed.sort_by_key(|p| p >> 25);
    }
    let mut counts = [[0usize; VALUES]; DIGITS.len()];
    for p in &*packed {
        for (count, shift) in counts.iter_mut().zip(DIGITS) {
            count[(p >> shift) as usize % VALUES] += 1;
        }
    }
    let mut other = vec![0; packed.len()];
    for (places, shift) in counts.iter_mut().zip(DIGITS) {
        let mut next = 0;
        for place in places.iter_mut() {
            next += std::mem::replace(place, next);
        }
        for p in &*packed {
            let place = &mut places[(p >> shift) as usize % VALUES];
            other[*place] = *p;
            *place += 1;
        }
        std::mem::swap(packed, &mut other);
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
        let (mut in_lines, mut in_tree) = (NO_ROUTE, [NO_ROUTE]);
        loop {
            if self.in_tree(|trees, tree| tree.look_up(Kernel::SCALAR, trees, &[addr], &mut in_tree)) {
                return in_tree[0];
            }
            let read = |shared: &Shared, default| {
                let header = shared.table.load(gather::line(addr));
                // The header of a line that has returned from a block comes after its entries, too.
                fence(Acquire);
                let mut e = shared.table.load_masked(gather::place(header, addr));
                if e & GROUP != 0 {
                    fence(Acquire);
                    e = shared.table.load_masked(gather::in_group(e, addr));
                }
                if e == 0 {
                    fence(Acquire);
                    e = shared.table.load(gather::in_short(addr));
                }
                in_lines = gather::hop(e, default);
            };
            match self.in_lines(read) {
                Lines::Gone => {}
                Lines::Read | Lines::Changing => return in_lines,
            }
        }
    }

    /// Whether a lookup waits for memory long enough for [`LpmReader::prefetch`] to pay.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.shared.large.load(Relaxed)
    }

    /// What all lookups use, for whoever wants it in the processor's cache beforehand.
    #[inline]
    pub fn root(&self) -> &(impl Sized + use<>) {
        &*self.shared
    }

    /// Begins to load the part of a table of few routes that most lookups read. It waits for
    /// [`LpmReader::root`].
    #[inline]
    pub fn prefetch_top(&self) {
        if let Some(trees) = self.shared.trees
            && let Some(tree) = Tree::from_word(self.shared.tree.load(Relaxed))
        {
            tree.prefetch_top(trees);
        }
    }

    /// Begins to load what a lookup of `addr` (in host order) will read first.
    #[inline]
    pub fn prefetch(&self, addr: u32) {
        self.shared.table.prefetch(gather::line(addr));
    }

    /// The next hop for each of `addrs` (in host order), or [`NO_ROUTE`]; as many as the shorter slice holds.
    #[inline]
    pub fn lookup_many(&self, addrs: &[u32], hops: &mut [u32]) {
        let n = addrs.len().min(hops.len());
        let (addrs, hops) = (&addrs[..n], &mut hops[..n]);
        // Again if the routes have moved from one to the other.
        while !self.in_tree(|trees, tree| tree.look_up(self.kernel, trees, addrs, hops)) {
            let lines = self.in_lines(|shared, default| {
                let large = shared.large.load(Relaxed);
                for (addrs, hops) in addrs.chunks(BLOCK).zip(hops.chunks_mut(BLOCK)) {
                    self.kernel.look_up(&shared.table, addrs, hops, default, large);
                }
            });
            match lines {
                Lines::Gone => {}
                Lines::Read => return,
                Lines::Changing => return self.one_by_one(addrs, hops),
            }
        }
    }

    /// Between two changes there is time for one address where there is none for many.
    #[cold]
    fn one_by_one(&self, addrs: &[u32], hops: &mut [u32]) {
        for (&addr, hop) in addrs.iter().zip(hops) {
            *hop = self.lookup(addr);
        }
    }

    /// Reads the tree, if the routes are in one; once more inside an epoch if it has changed meanwhile, for
    /// then its place may have been written again. Returns whether the routes are in a tree.
    #[inline(always)]
    fn in_tree(&self, mut read: impl FnMut(&Memory, Tree)) -> bool {
        let shared = &*self.shared;
        let Some(trees) = shared.trees else { return false };
        let before = shared.state.load(Acquire);
        let Some(tree) = Tree::from_word(shared.tree.load(Acquire)) else { return false };
        read(trees, tree);
        // Whoever saw an entry that was stored after a new count sees that.
        fence(Acquire);
        if shared.state.load(Relaxed) == before {
            return true;
        }
        let _entered = self.epoch.enter(&shared.epochs);
        let tree = Tree::from_word(shared.tree.load(Acquire));
        tree.inspect(|tree| read(trees, *tree)).is_some()
    }

    /// Reads the lines, if they have the routes; once more if the table's first group or block was made
    /// meanwhile, for it may already be out of use again, or if a short prefix or the default route has
    /// changed: a line's entry that was loaded before and the route that was loaded after it may never have
    /// been right together.
    #[inline(always)]
    fn in_lines(&self, mut read: impl FnMut(&Shared, u32)) -> Lines {
        let shared = &*self.shared;
        let before = shared.state.load(Acquire);
        if before & DEEP == 0 {
            if shared.tree.load(Relaxed) != 0 {
                return Lines::Gone;
            }
            read(shared, shared.default.load(Relaxed));
            // Whoever saw an entry that was stored after that sees it.
            fence(Acquire);
            if shared.state.load(Relaxed) == before {
                return Lines::Read;
            }
        }
        let _entered = self.epoch.enter(&shared.epochs);
        for _ in 0..TRIES {
            let before = shared.state.load(Acquire);
            if shared.tree.load(Relaxed) != 0 {
                return Lines::Gone;
            }
            read(shared, shared.default.load(Relaxed));
            fence(Acquire);
            if shared.state.load(Relaxed) == before {
                return Lines::Read;
            }
        }
        Lines::Changing
    }
}
