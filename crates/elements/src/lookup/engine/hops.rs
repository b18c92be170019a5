//! Next hops by number: workers read them without a lock; one writer allocates and frees the numbers.

use super::fold::Fold;
use hashbrown::HashTable;
use std::collections::HashMap;
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
/// Outputs from this one on are groups of next hops, of which an address takes one.
pub(in crate::lookup) const GROUPS: u32 = 1 << 31;

impl NextHop {
    /// The number of the group, if it is one.
    pub(super) fn group(self) -> Option<u32> {
        (GROUPS..DISCARD).contains(&self.port).then(|| self.port - GROUPS)
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
pub(in crate::lookup) struct Hops {
    hops: Chunks,
    /// The members of groups, [`BUCKETS`] for each, one of which an address takes.
    buckets: Chunks,
}

/// Places that come into being when the first in their chunk is set.
struct Chunks([OnceLock<Box<[AtomicU64]>>; CHUNKS]);

/// How many places the members of a group share by their weights.
const BUCKETS: u32 = 128;
/// The most groups: 128 MB of places.
const MAX_GROUPS: u32 = 1 << 17;

/// The chunk of a number, and its place there.
#[inline]
fn chunk_of(number: u32) -> (usize, usize) {
    let number = number as usize;
    match number / FIRST {
        0 => (0, number),
        times => (times.ilog2() as usize + 1, number - (FIRST << times.ilog2())),
    }
}

impl Chunks {
    fn new() -> Self {
        Self([const { OnceLock::new() }; CHUNKS])
    }
    #[inline]
    fn place(&self, number: u32) -> Option<&AtomicU64> {
        let (chunk, place) = chunk_of(number);
        self.0.get(chunk)?.get()?.get(place)
    }
    #[inline]
    fn get(&self, number: u32) -> Option<NextHop> {
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

impl Hops {
    pub(in crate::lookup) fn new() -> Self {
        Self { hops: Chunks::new(), buckets: Chunks::new() }
    }
    /// Those with the first numbers, which a loop over many packets finds with fewer loads.
    #[inline]
    pub(in crate::lookup) fn first(&self) -> &[AtomicU64] {
        self.hops.0.first().and_then(OnceLock::get).map_or(&[], |chunk| chunk)
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
        self.hops.get(number)
    }
    fn set(&self, number: u32, packed: u64) {
        self.hops.set(number, packed);
    }
    /// The member of a group that an address takes, always the same one.
    pub(in crate::lookup) fn member(&self, port: u32, address: u32) -> Option<NextHop> {
        let group = NextHop { gateway: None, port }.group()?;
        // Fibonacci hashing: the upper bits of the product depend on all of the address.
        let bucket = address.wrapping_mul(0x9e37_79b1) >> (32 - BUCKETS.ilog2());
        self.buckets.get(group * BUCKETS + bucket)
    }
}

const NONE: u32 = u32::MAX;

/// The writer's side: which number a next hop has, and how many routes use it.
pub(in crate::lookup) struct Numbers {
    by_value: HashTable<u32>,
    fold: Fold,
    used: Vec<Use>,
    groups: Groups,
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
            groups: Groups::default(),
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
                self.groups.release(NextHop::unpack(old.packed));
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
    /// The next hop that stands for several, with weights; `None` if there are too many groups. There is at
    /// least one.
    pub(in crate::lookup) fn group(&mut self, hops: &Hops, members: &[(NextHop, u16)]) -> Option<NextHop> {
        let mut content: Vec<(u64, u32)> =
            members.iter().map(|(hop, weight)| (hop.pack(), u32::from(*weight).max(1))).collect();
        content.sort_unstable();
        // One that is named twice counts twice.
        content.dedup_by(|later, first| {
            let same = later.0 == first.0;
            first.1 += if same { later.1 } else { 0 };
            same
        });
        match content[..] {
            [] => None,
            [(only, _)] => Some(NextHop::unpack(only)),
            _ => {
                self.groups.number(hops, content.into()).map(|n| NextHop { gateway: None, port: GROUPS + n })
            }
        }
    }
    /// The members of a group with their weights; empty if it is none.
    pub(in crate::lookup) fn members(&self, hop: NextHop) -> Vec<(NextHop, u16)> {
        let content = hop.group().and_then(|n| self.groups.contents.get(n as usize)?.as_ref());
        let weight = |w: u32| u16::try_from(w).unwrap_or(u16::MAX);
        content.into_iter().flatten().map(|(packed, w)| (NextHop::unpack(*packed), weight(*w))).collect()
    }
    /// Whether the output, or those of all members, are among this many, or it drops packets.
    pub(in crate::lookup) fn fits(&self, hop: NextHop, outputs: u32) -> bool {
        match hop.group() {
            Some(_) => self.members(hop).iter().all(|(member, _)| member.port < outputs),
            None => hop.port < outputs || hop.port == DISCARD,
        }
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

/// Next hops, packed, with their weights.
type Content = Box<[(u64, u32)]>;

/// The writer's side of groups. A group has one number among all next hops, and is free when that is used for
/// another next hop.
#[derive(Default)]
struct Groups {
    by_content: HashMap<Content, u32>,
    contents: Vec<Option<Content>>,
    free: Vec<u32>,
}

impl Groups {
    fn number(&mut self, hops: &Hops, content: Content) -> Option<u32> {
        if let Some(number) = self.by_content.get(&content) {
            return Some(*number);
        }
        let number = self.free.pop().or_else(|| {
            let next = u32::try_from(self.contents.len()).ok().filter(|n| *n < MAX_GROUPS)?;
            self.contents.push(None);
            Some(next)
        })?;
        for (bucket, packed) in (0..).zip(shares(&content)) {
            hops.buckets.set(number * BUCKETS + bucket, packed);
        }
        self.by_content.insert(content.clone(), number);
        if let Some(place) = self.contents.get_mut(number as usize) {
            *place = Some(content);
        }
        Some(number)
    }
    fn release(&mut self, hop: NextHop) {
        let Some(number) = hop.group() else { return };
        if let Some(content) = self.contents.get_mut(number as usize).and_then(Option::take) {
            self.by_content.remove(&content);
            self.free.push(number);
        }
    }
}

/// Which member each bucket has: as many buckets for each as its weight says, to the nearest one. If a member
/// comes or goes, few buckets of the others change: every bucket prefers the members in an order of its own.
fn shares(content: &[(u64, u32)]) -> [u64; BUCKETS as usize] {
    let sum: u64 = content.iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>().max(1);
    let mut quotas: Vec<(u64, u64)> = content
        .iter()
        .map(|(_, weight)| {
            let share = u64::from(*weight) * u64::from(BUCKETS);
            (share / sum, share % sum)
        })
        .collect();
    // The largest remainders get what is left.
    let left = u64::from(BUCKETS) - quotas.iter().map(|q| q.0).sum::<u64>();
    let mut order: Vec<usize> = (0..quotas.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(quotas.get(*i).map(|q| q.1)));
    for i in order.into_iter().take(left as usize) {
        if let Some(quota) = quotas.get_mut(i) {
            quota.0 += 1;
        }
    }
    let mut preferences: Vec<(u64, u32, usize)> = Vec::with_capacity(BUCKETS as usize * content.len());
    for bucket in 0..BUCKETS {
        let score = |packed: u64| mix(packed ^ u64::from(bucket).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        preferences.extend(content.iter().enumerate().map(|(i, (packed, _))| (score(*packed), bucket, i)));
    }
    preferences.sort_unstable();
    let mut buckets = [None; BUCKETS as usize];
    for (_, bucket, i) in preferences {
        if let (Some(place @ None), Some(quota), Some((packed, _))) =
            (buckets.get_mut(bucket as usize), quotas.get_mut(i), content.get(i))
            && quota.0 > 0
        {
            quota.0 -= 1;
            *place = Some(*packed);
        }
    }
    let first = content.first().map_or(0, |c| c.0);
    buckets.map(|b| b.unwrap_or(first))
}

/// A number that depends on all bits of another one (SplitMix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
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

    fn member(last: u8) -> NextHop {
        NextHop { gateway: Some(Ipv4Addr::new(10, 0, 0, last)), port: 1 }
    }

    /// How many of many addresses take each member.
    fn spread(hops: &Hops, group: NextHop) -> std::collections::BTreeMap<u8, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for address in 0..128_000u32 {
            let hop = hops.member(group.port, address.wrapping_mul(77)).unwrap();
            *counts.entry(hop.gateway.unwrap().octets()[3]).or_default() += 1;
        }
        counts
    }

    #[test]
    fn addresses_are_spread_by_weight() {
        let (hops, mut numbers) = (Hops::new(), Numbers::default());
        let group = numbers.group(&hops, &[(member(1), 1), (member(2), 3)]).unwrap();
        let counts = spread(&hops, group);
        assert!((31_000..33_000).contains(&counts[&1]) && counts.len() == 2, "{counts:?}");
        // The order does not matter; the same one twice counts twice; one alone is no group.
        assert_eq!(numbers.group(&hops, &[(member(2), 3), (member(1), 1)]), Some(group));
        let twice = numbers.group(&hops, &[(member(2), 1), (member(1), 1), (member(2), 2)]);
        assert_eq!(twice, Some(group));
        assert_eq!(numbers.group(&hops, &[(member(1), 9), (member(1), 1)]), Some(member(1)));
        assert_eq!(numbers.group(&hops, &[]), None);
        assert_eq!(numbers.members(group), [(member(1), 1), (member(2), 3)]);
        assert_eq!((numbers.fits(group, 2), numbers.fits(group, 1)), (true, false));
    }

    #[test]
    fn few_addresses_change_when_a_member_goes() {
        let (hops, mut numbers) = (Hops::new(), Numbers::default());
        let all: Vec<_> = (1..=4).map(|i| (member(i), 1)).collect();
        let (four, three) = (numbers.group(&hops, &all).unwrap(), numbers.group(&hops, &all[..3]).unwrap());
        let of = |group: NextHop, address: u32| hops.member(group.port, address);
        let addresses = (0..100_000u32).map(|a| a.wrapping_mul(77));
        let moved = addresses.filter(|a| of(four, *a) != of(three, *a)).count();
        // A quarter must.
        assert!((24_000..40_000).contains(&moved), "{moved}");
        assert!(spread(&hops, three).values().all(|n| (41_000..45_000).contains(n)));
    }

    #[test]
    fn a_group_is_free_when_its_number_is() {
        let (hops, mut numbers) = (Hops::new(), Numbers::default());
        for round in 1..100u8 {
            let group = numbers.group(&hops, &[(member(round), 1), (member(round + 1), 1)]).unwrap();
            let number = numbers.number(&hops, group).unwrap();
            numbers.hold(number);
            numbers.release(number);
            numbers.used.iter_mut().for_each(|u| u.since = Instant::now().checked_sub(REST));
        }
        assert!(numbers.groups.contents.len() <= 2, "{}", numbers.groups.contents.len());
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
