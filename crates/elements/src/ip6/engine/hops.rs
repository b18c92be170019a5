//! The next hops of IPv6 routes by number. Workers read a list that is replaced as a whole, which happens
//! only when a next hop is new: many routes have few.

use locks::IgnorePoison;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv6Addr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The next hop of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::ip6) struct NextHop {
    /// The gateway; `::` if the destination itself is the next hop.
    pub(in crate::ip6) gateway: Ipv6Addr,
    /// The output.
    pub(in crate::ip6) port: u32,
}

/// The most next hops of a table.
const MOST: usize = 1 << 20;
/// A number is used for another next hop only after this time, when no lookup of before goes on.
const REST: Duration = Duration::from_secs(10);

/// The next hops by number, as workers see them.
#[derive(Default)]
pub(super) struct Hops {
    list: Mutex<Arc<[NextHop]>>,
    /// How often the list was replaced.
    version: AtomicU64,
}

/// A worker's copy of the list.
#[derive(Default)]
pub(in crate::ip6) struct View {
    list: Arc<[NextHop]>,
    version: u64,
}

impl Hops {
    /// Makes a worker's copy have all numbers that it can have read from the table before.
    #[inline]
    pub(super) fn refresh(&self, view: &mut View) {
        if self.version.load(Acquire) != view.version {
            self.reload(view);
        }
    }

    #[cold]
    fn reload(&self, view: &mut View) {
        // In this order: a list that is newer than its number is only loaded once more.
        view.version = self.version.load(Acquire);
        view.list = Arc::clone(&self.list.lock().ignore_poison());
    }

    fn replace(&self, list: Arc<[NextHop]>) {
        *self.list.lock().ignore_poison() = list;
        self.version.fetch_add(1, Release);
    }
}

impl View {
    /// The next hop with a number; `None` for [`tables::NO_ROUTE`].
    #[inline(always)]
    pub(in crate::ip6) fn get(&self, number: u32) -> Option<NextHop> {
        self.list.get(number as usize).copied()
    }
}

/// The writer's side: which numbers there are, and how many routes have each.
#[derive(Default)]
pub(super) struct Numbers {
    all: Vec<Use>,
    by_hop: HashMap<NextHop, u32>,
    /// Numbers that routes no longer have, and since when, oldest first; with those that routes have again.
    resting: VecDeque<(Instant, u32)>,
    /// Workers have not seen all of them.
    new: bool,
}

struct Use {
    hop: NextHop,
    routes: u32,
    /// Since when there are no routes.
    since: Option<Instant>,
}

impl Numbers {
    /// The number of a next hop for one more route; `None` if there are too many.
    pub(super) fn hold(&mut self, hop: NextHop) -> Option<u32> {
        let number = match self.by_hop.get(&hop) {
            Some(number) => *number,
            None => {
                let number = self.unused()?;
                match self.all.get_mut(number as usize) {
                    Some(of) => drop(self.by_hop.remove(&std::mem::replace(&mut of.hop, hop))),
                    None => self.all.push(Use { hop, routes: 0, since: None }),
                }
                self.by_hop.insert(hop, number);
                self.new = true;
                number
            }
        };
        let of = self.all.get_mut(number as usize)?;
        of.since = None;
        of.routes += 1;
        Some(number)
    }

    fn unused(&mut self) -> Option<u32> {
        while let Some((since, number)) = self.resting.front().copied() {
            let rests = self.rests(since, number);
            if rests && since.elapsed() < REST {
                break;
            }
            self.resting.pop_front();
            if rests {
                return Some(number);
            }
        }
        u32::try_from(self.all.len()).ok().filter(|n| (*n as usize) < MOST)
    }

    fn rests(&self, since: Instant, number: u32) -> bool {
        self.all.get(number as usize).is_some_and(|of| of.since == Some(since))
    }

    /// One route fewer has a number.
    pub(super) fn release(&mut self, number: u32) {
        let Some(of) = self.all.get_mut(number as usize) else { return };
        of.routes = of.routes.saturating_sub(1);
        if of.routes > 0 || of.since.is_some() {
            return;
        }
        let now = Instant::now();
        of.since = Some(now);
        if self.resting.len() > 2 * self.all.len() {
            let mut resting = std::mem::take(&mut self.resting);
            resting.retain(|(since, number)| self.rests(*since, *number));
            self.resting = resting;
        }
        self.resting.push_back((now, number));
    }

    /// The next hop with a number.
    pub(super) fn get(&self, number: u32) -> Option<NextHop> {
        self.all.get(number as usize).map(|of| of.hop)
    }

    /// Lets workers see new next hops; before the routes that have them.
    pub(super) fn publish(&mut self, hops: &Hops) {
        if std::mem::take(&mut self.new) {
            hops.replace(self.all.iter().map(|of| of.hop).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(port: u32) -> NextHop {
        NextHop { gateway: Ipv6Addr::from_bits(port.into()), port }
    }

    /// As if the time had passed for all.
    fn rested(numbers: &mut Numbers) {
        let long_ago = Instant::now().checked_sub(REST).unwrap();
        numbers.resting.iter_mut().for_each(|r| r.0 = long_ago);
        numbers.all.iter_mut().filter(|of| of.since.is_some()).for_each(|of| of.since = Some(long_ago));
    }

    #[test]
    fn numbers_are_shared_and_not_reused_at_once() {
        let (hops, mut numbers, mut view) = (Hops::default(), Numbers::default(), View::default());
        let (a, b) = (numbers.hold(hop(1)).unwrap(), numbers.hold(hop(2)).unwrap());
        assert_eq!((numbers.hold(hop(1)), a == b), (Some(a), false));
        numbers.publish(&hops);
        numbers.publish(&hops);
        assert_eq!(hops.version.load(Acquire), 1);
        assert_eq!(view.get(a), None);
        hops.refresh(&mut view);
        assert_eq!((view.get(a), view.get(b), view.get(u32::MAX)), (Some(hop(1)), Some(hop(2)), None));
        numbers.release(b);
        let c = numbers.hold(hop(3)).unwrap();
        assert!(c != b && numbers.all.len() == 3);
        // After that time, the number is used again.
        rested(&mut numbers);
        assert_eq!(numbers.hold(hop(4)), Some(b));
        numbers.publish(&hops);
        hops.refresh(&mut view);
        assert_eq!((view.get(b), numbers.by_hop.len()), (Some(hop(4)), 3));
    }

    #[test]
    fn a_number_that_came_back_does_not_rest() {
        let mut numbers = Numbers::default();
        for _ in 0..1000 {
            let a = numbers.hold(hop(1)).unwrap();
            numbers.release(a);
            assert!(numbers.resting.len() <= 3);
        }
        let a = numbers.hold(hop(1)).unwrap();
        rested(&mut numbers);
        assert_ne!(numbers.hold(hop(2)), Some(a));
        assert_eq!(numbers.get(a), Some(hop(1)));
    }
}
