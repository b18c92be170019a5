//! Next hops by number: read by workers without a lock, handed out and taken back by one writer.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tables::lpm::MAX_HOP;

/// Where a route leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NextHop {
    /// The gateway; `None` when the destination itself is next.
    pub(super) gateway: Option<Ipv4Addr>,
    /// The output.
    pub(super) port: u32,
}

impl NextHop {
    fn pack(self) -> u64 {
        u64::from(self.port) << 32 | u64::from(self.gateway.map_or(0, Ipv4Addr::to_bits))
    }
    #[inline]
    fn unpack(packed: u64) -> Self {
        let gateway = packed as u32;
        Self { gateway: (gateway != 0).then(|| gateway.into()), port: (packed >> 32) as u32 }
    }
}

const CHUNK: usize = 4096;
const CHUNKS: usize = (MAX_HOP as usize + 1) / CHUNK;
/// A number means nothing new until this long after its last route went: no worker has a vector in hand for so long.
const REST: Duration = Duration::from_secs(10);

/// The readers' side.
///
/// A number read from a route table is looked up here after an acquire fence; the writer stores the next hop before a
/// release fence and then the route. So a reader that sees the route sees its next hop.
pub(super) struct Hops(Box<[OnceLock<Box<[AtomicU64]>>]>);

impl Hops {
    pub(super) fn new() -> Self {
        Self((0..CHUNKS).map(|_| OnceLock::new()).collect())
    }
    #[inline]
    fn place(&self, number: u32) -> Option<&AtomicU64> {
        self.0.get(number as usize / CHUNK)?.get()?.get(number as usize % CHUNK)
    }
    /// The next hop with a number from the route table.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<NextHop> {
        self.place(number).map(|p| NextHop::unpack(p.load(Relaxed)))
    }
    fn set(&self, number: u32, packed: u64) {
        if let Some(chunk) = self.0.get(number as usize / CHUNK) {
            let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
            if let Some(place) = chunk.get(number as usize % CHUNK) {
                place.store(packed, Relaxed);
            }
        }
    }
}

/// The writer's side: which number a next hop has, and how many routes use it.
#[derive(Default)]
pub(super) struct Numbers {
    by_value: HashMap<u64, u32>,
    used: Vec<Use>,
    /// Numbers that lost their last route, oldest first, with their generation at that moment.
    resting: VecDeque<(Instant, u32, u32)>,
}

#[derive(Default)]
struct Use {
    packed: u64,
    routes: u32,
    generation: u32,
}

impl Numbers {
    /// The number of a next hop, which must be held by a route ([`Numbers::hold`]) before the next call with another.
    /// `None`: there are too many.
    pub(super) fn number(&mut self, hops: &Hops, hop: NextHop) -> Option<u32> {
        let packed = hop.pack();
        if let Some(&number) = self.by_value.get(&packed) {
            return Some(number);
        }
        let number = match self.rested() {
            Some(number) => number,
            None => u32::try_from(self.used.len()).ok().filter(|n| *n <= MAX_HOP)?,
        };
        let entry = Use { packed, routes: 0, generation: 0 };
        match self.used.get_mut(number as usize) {
            Some(old) => {
                self.by_value.remove(&old.packed);
                *old = Use { generation: old.generation.wrapping_add(1), ..entry };
            }
            None => self.used.push(entry),
        }
        self.by_value.insert(packed, number);
        hops.set(number, packed);
        Some(number)
    }
    /// A number that may mean something new.
    fn rested(&mut self) -> Option<u32> {
        while let Some(&(since, number, generation)) = self.resting.front() {
            let stale =
                self.used.get(number as usize).is_none_or(|u| u.routes > 0 || u.generation != generation);
            if !stale && since.elapsed() < REST {
                return None;
            }
            self.resting.pop_front();
            if !stale {
                return Some(number);
            }
        }
        None
    }
    /// One more route uses a number.
    pub(super) fn hold(&mut self, number: u32) {
        if let Some(u) = self.used.get_mut(number as usize) {
            u.routes += 1;
        }
    }
    /// One route less uses a number.
    pub(super) fn release(&mut self, number: u32) {
        if let Some(u) = self.used.get_mut(number as usize) {
            u.routes = u.routes.saturating_sub(1);
            if u.routes == 0 {
                u.generation = u.generation.wrapping_add(1);
                self.resting.push_back((Instant::now(), number, u.generation));
            }
        }
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
        assert_eq!(hops.get(a + CHUNK as u32), None);
        numbers.release(b);
        assert_ne!(numbers.number(&hops, hop(3)), Some(b));
        assert_eq!(hops.get(b), Some(hop(2)));
        // Once it has rested, it is given out again.
        numbers.resting[0].0 = Instant::now().checked_sub(REST).unwrap();
        assert_eq!(numbers.number(&hops, hop(4)), Some(b));
        assert_eq!(hops.get(b), Some(hop(4)));
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
        numbers.resting[0].0 = Instant::now().checked_sub(REST).unwrap();
        assert_ne!(numbers.number(&hops, hop(2)), Some(a));
        assert_eq!(hops.get(a), Some(hop(1)));
    }
}
