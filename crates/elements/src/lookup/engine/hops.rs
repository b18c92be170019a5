//! Next hops by number: workers read them without a lock; one writer allocates and frees the numbers.

use super::fold::Fold;
use hashbrown::HashTable;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tables::lpm::MAX_HOP;

/// The next hop of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lookup) struct NextHop {
    /// The gateway; `None` if the destination itself is the next hop.
    pub(in crate::lookup) gateway: Option<Ipv4Addr>,
    /// The output.
    pub(in crate::lookup) port: u32,
}

/// The output of a route whose packets are dropped.
pub(in crate::lookup) const DISCARD: u32 = u32::MAX - 1;

impl NextHop {
    /// Whether its output is one of this many, or it drops packets.
    pub(in crate::lookup) fn fits(self, outputs: u32) -> bool {
        self.port < outputs || self.port == DISCARD
    }
    /// The output as listings show it; -1 if there is none.
    pub(super) fn shown(self) -> i32 {
        if self.port == DISCARD { -1 } else { self.port as i32 }
    }
    fn pack(self) -> u64 {
        u64::from(self.port) << 32 | u64::from(self.gateway.map_or(0, Ipv4Addr::to_bits))
    }
    #[inline]
    fn unpack(packed: u64) -> Self {
        let gateway = packed as u32;
        Self { gateway: (gateway != 0).then(|| gateway.into()), port: (packed >> 32) as u32 }
    }
}

/// The numbers in the first chunk. The second has as many, and each further one as many as all before it
/// together, so that a table with few next hops is small.
const FIRST: usize = 1024;
const CHUNKS: usize = ((MAX_HOP as usize + 1) / FIRST).ilog2() as usize + 1;
/// The minimum time between the removal of a number's last route and the reuse of the number: no worker
/// processes a batch for so long.
const REST: Duration = Duration::from_secs(10);

/// The readers' side.
///
/// A number read from a route table is looked up here after an acquire fence; the writer stores the next hop
/// before a release fence and then the route. So a reader that sees the route sees its next hop.
pub(in crate::lookup) struct Hops([OnceLock<Box<[AtomicU64]>>; CHUNKS]);

/// The chunk of a number, and its place there.
#[inline]
fn chunk_of(number: u32) -> (usize, usize) {
    let number = number as usize;
    match number / FIRST {
        0 => (0, number),
        times => (times.ilog2() as usize + 1, number - (FIRST << times.ilog2())),
    }
}

impl Hops {
    pub(in crate::lookup) fn new() -> Self {
        Self([const { OnceLock::new() }; CHUNKS])
    }
    #[inline]
    fn place(&self, number: u32) -> Option<&AtomicU64> {
        let (chunk, place) = chunk_of(number);
        self.0.get(chunk)?.get()?.get(place)
    }
    /// Those with the first numbers, which a loop over many packets finds with fewer loads.
    #[inline]
    pub(in crate::lookup) fn first(&self) -> &[AtomicU64] {
        self.0.first().and_then(OnceLock::get).map_or(&[], |chunk| chunk)
    }
    /// The next hop with a number from the route table; `first` is what [`Hops::first`] returned.
    #[inline]
    pub(in crate::lookup) fn get_after(&self, first: &[AtomicU64], number: u32) -> Option<NextHop> {
        match first.get(number as usize) {
            Some(place) => Some(NextHop::unpack(place.load(Relaxed))),
            None => self.get(number),
        }
    }
    /// The next hop with a number from the route table.
    pub(in crate::lookup) fn get(&self, number: u32) -> Option<NextHop> {
        self.place(number).map(|p| NextHop::unpack(p.load(Relaxed)))
    }
    fn set(&self, number: u32, packed: u64) {
        let (index, place) = chunk_of(number);
        if let Some(chunk) = self.0.get(index) {
            let len = FIRST << index.saturating_sub(1);
            let chunk = chunk.get_or_init(|| (0..len).map(|_| AtomicU64::new(0)).collect());
            if let Some(place) = chunk.get(place) {
                place.store(packed, Relaxed);
            }
        }
    }
}

const NONE: u32 = u32::MAX;

/// The writer's side: which number a next hop has, and how many routes use it.
pub(in crate::lookup) struct Numbers {
    by_value: HashTable<u32>,
    fold: Fold,
    used: Vec<Use>,
    /// The free numbers that cannot be reused yet, each once, in the order in which they lost their last
    /// routes.
    oldest: u32,
    newest: u32,
}

struct Use {
    packed: u64,
    routes: u32,
    /// When it lost its last route; `None`: it is in use, or free for reuse.
    since: Option<Instant>,
    /// The numbers before and after it in that list.
    older: u32,
    newer: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            by_value: HashTable::new(),
            fold: Fold::default(),
            used: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl Numbers {
    /// The number of a next hop, which a route must hold ([`Numbers::hold`]) before the next call with
    /// another next hop. `None`: there are too many.
    pub(in crate::lookup) fn number(&mut self, hops: &Hops, hop: NextHop) -> Option<u32> {
        let packed = hop.pack();
        let hash = self.fold.hash(packed);
        let used = &self.used;
        let value = |n: u32| used.get(n as usize).map(|u: &Use| u.packed);
        if let Some(&number) = self.by_value.find(hash, |&n| value(n) == Some(packed)) {
            return Some(number);
        }
        let number = match self.rested() {
            Some(number) => number,
            None => u32::try_from(self.used.len()).ok().filter(|n| *n <= MAX_HOP)?,
        };
        let entry = Use { packed, routes: 0, since: None, older: NONE, newer: NONE };
        match self.used.get_mut(number as usize) {
            Some(old) => {
                let hash = self.fold.hash(old.packed);
                if let Ok(there) = self.by_value.find_entry(hash, |&n| n == number) {
                    there.remove();
                }
                *old = entry;
            }
            None => self.used.push(entry),
        }
        let (fold, used) = (&self.fold, &self.used);
        let hash_of = |&n: &u32| used.get(n as usize).map_or(0, |u| fold.hash(u.packed));
        self.by_value.insert_unique(hash, number, hash_of);
        hops.set(number, packed);
        Some(number)
    }
    /// A number that may be reused.
    fn rested(&mut self) -> Option<u32> {
        let number = self.oldest;
        if self.used.get(number as usize)?.since?.elapsed() < REST {
            return None;
        }
        self.wake(number);
        Some(number)
    }
    /// Removes a number from the list of those that cannot be reused yet.
    fn wake(&mut self, number: u32) {
        let Some(u) = self.used.get_mut(number as usize).filter(|u| u.since.is_some()) else { return };
        u.since = None;
        let (older, newer) = (u.older, u.newer);
        match self.used.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.used.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }
    /// One more route uses a number.
    pub(in crate::lookup) fn hold(&mut self, number: u32) {
        self.wake(number);
        if let Some(u) = self.used.get_mut(number as usize) {
            u.routes += 1;
        }
    }
    /// One route fewer uses a number.
    pub(in crate::lookup) fn release(&mut self, number: u32) {
        let newest = self.newest;
        let Some(u) = self.used.get_mut(number as usize) else { return };
        u.routes = u.routes.saturating_sub(1);
        if u.routes > 0 || u.since.is_some() {
            return;
        }
        (u.since, u.older, u.newer) = (Some(Instant::now()), newest, NONE);
        match self.used.get_mut(newest as usize) {
            Some(newest) => newest.newer = number,
            None => self.oldest = number,
        }
        self.newest = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shared_and_not_reused_at_once() {
        let (hops, mut numbers) = (Hops::new(), Numbers::default());
        let hop = |port| NextHop { gateway: Some(Ipv4Addr::new(1, 2, 3, port as u8)), port };
        let mut number = |h| {
            let n = numbers.number(&hops, h).unwrap();
            numbers.hold(n);
            n
        };
        let (a, b) = (number(hop(1)), number(hop(2)));
        assert_eq!((number(hop(1)), a == b), (a, false));
        assert_eq!((hops.get(a), hops.get(b)), (Some(hop(1)), Some(hop(2))));
        assert_eq!(hops.get(a + FIRST as u32), None);
        numbers.release(b);
        assert_ne!(numbers.number(&hops, hop(3)), Some(b));
        assert_eq!(hops.get(b), Some(hop(2)));
        // After that time, the number is reused.
        numbers.used[b as usize].since = Instant::now().checked_sub(REST);
        assert_eq!(numbers.number(&hops, hop(4)), Some(b));
        assert_eq!(hops.get(b), Some(hop(4)));
    }

    #[test]
    fn every_number_has_a_place() {
        let first = FIRST as u32;
        assert_eq!([0, first - 1].map(chunk_of), [(0, 0), (0, FIRST - 1)]);
        assert_eq!([first, 2 * first - 1].map(chunk_of), [(1, 0), (1, FIRST - 1)]);
        assert_eq!([2 * first, 4 * first - 1].map(chunk_of), [(2, 0), (2, 2 * FIRST - 1)]);
        assert_eq!(chunk_of(MAX_HOP), (CHUNKS - 1, (FIRST << (CHUNKS - 2)) - 1));
        let hops = Hops::new();
        let numbers: Vec<u32> = (0..6).flat_map(|times| [first << times, (first << times) - 1]).collect();
        numbers.iter().for_each(|&number| hops.set(number, NextHop { gateway: None, port: number }.pack()));
        for number in numbers {
            let hop = Some(NextHop { gateway: None, port: number });
            assert_eq!((hops.get(number), hops.get_after(hops.first(), number)), (hop, hop));
        }
        assert_eq!(hops.get(u32::MAX), None);
    }

    #[test]
    fn a_number_that_came_back_does_not_rest() {
        let (hops, mut numbers) = (Hops::new(), Numbers::default());
        let hop = |port| NextHop { gateway: None, port };
        let a = numbers.number(&hops, hop(1)).unwrap();
        numbers.hold(a);
        numbers.release(a);
        assert_eq!(numbers.number(&hops, hop(1)), Some(a));
        numbers.hold(a);
        assert_eq!((numbers.oldest, numbers.newest), (NONE, NONE));
        assert_ne!(numbers.number(&hops, hop(2)), Some(a));
        assert_eq!(hops.get(a), Some(hop(1)));
    }

    /// The length of the list of numbers that cannot be reused yet, and whether it is the same from both
    /// ends.
    fn resting(numbers: &Numbers) -> usize {
        let walk = |mut at: u32, next: fn(&Use) -> u32| {
            let mut seen = Vec::new();
            while let Some(u) = numbers.used.get(at as usize) {
                assert!(u.routes == 0 && u.since.is_some() && seen.len() < numbers.used.len());
                seen.push(at);
                at = next(u);
            }
            seen
        };
        let (up, mut down) = (walk(numbers.oldest, |u| u.newer), walk(numbers.newest, |u| u.older));
        down.reverse();
        assert_eq!(up, down);
        up.len()
    }

    #[test]
    fn routes_that_come_and_go_leave_nothing_behind() {
        let (hops, mut numbers) = (Hops::new(), Numbers::default());
        let hop = |port| NextHop { gateway: None, port };
        for round in 0..10_000u32 {
            let n = numbers.number(&hops, hop(round % 3)).unwrap();
            numbers.hold(n);
            if round % 5 == 0 {
                numbers.hold(n);
                numbers.release(n);
            }
            numbers.release(n);
            assert!(resting(&numbers) <= 3);
        }
        assert_eq!((numbers.used.len(), numbers.by_value.len(), resting(&numbers)), (3, 3, 3));
    }

    #[test]
    fn of_the_numbers_that_rest_the_one_that_has_rested_longest_is_next() {
        let (hops, mut numbers) = (Hops::new(), Numbers::default());
        let hop = |port| NextHop { gateway: None, port };
        let all: Vec<u32> = (0..8).map(|port| numbers.number(&hops, hop(port)).unwrap()).collect();
        for &n in &all {
            numbers.hold(n);
        }
        for i in [3, 1, 4, 6, 5] {
            numbers.release(all[i]);
        }
        numbers.hold(all[4]); // from the middle
        numbers.hold(all[3]); // from the front
        numbers.hold(all[5]); // from the back
        numbers.release(all[3]);
        assert_eq!(resting(&numbers), 3);
        let long_ago = Instant::now().checked_sub(REST);
        numbers.used.iter_mut().filter(|u| u.since.is_some()).for_each(|u| u.since = long_ago);
        for (port, i) in [(20, 1), (21, 6), (22, 3)] {
            assert_eq!(numbers.number(&hops, hop(port)), Some(all[i]));
            numbers.hold(all[i]);
        }
        assert_eq!((numbers.number(&hops, hop(23)), resting(&numbers)), (Some(8), 0));
    }
}
