//! Which routers have a receive queue of their own on a port, where there are fewer queues than routers:
//! those for which most packets come. The others share the first queue.

use std::cmp::Ordering;
use std::collections::HashMap;

/// How much more than the router whose queue it gets a router must have received.
const MORE: f64 = 1.5;
/// Below so many packets in a period it does not matter who has a queue.
const FEW: f64 = 100.0;

/// The queues of a port.
#[derive(Debug)]
pub(crate) struct Allotment {
    /// The router of each queue, by its number.
    queues: Vec<Option<u32>>,
    /// For each router: packets so far, and packets in a period, averaged over some.
    loads: HashMap<u32, (u64, f64)>,
}

impl Allotment {
    pub(crate) fn new(queues: usize) -> Self {
        Self { queues: vec![None; queues], loads: HashMap::new() }
    }

    /// The router of each queue.
    pub(crate) fn queues(&self) -> &[Option<u32>] {
        &self.queues
    }

    /// The queue of a router.
    pub(crate) fn of(&self, router: u32) -> Option<usize> {
        self.queues.iter().position(|has| *has == Some(router))
    }

    /// Takes its queue from a router; returns which it was.
    pub(crate) fn take_from(&mut self, router: u32) -> Option<usize> {
        let queue = self.of(router)?;
        self.queues[queue] = None;
        Some(queue)
    }

    /// Distributes the queues again, given the packets that have come for each router so far; `period`: since
    /// the last call with it one has passed. A router without a queue gets that of another one only if far
    /// more comes for it, since packets on their way then may overtake others.
    pub(crate) fn distribute(&mut self, packets: &[(u32, u64)], period: bool) {
        let there = |router: &u32| packets.iter().any(|(known, _)| known == router);
        self.loads.retain(|router, _| there(router));
        for queue in &mut self.queues {
            *queue = queue.filter(|router| there(router));
        }
        for &(router, now) in packets {
            let (before, load) = self.loads.entry(router).or_insert((now, 0.0));
            if period {
                *load = (*load + now.saturating_sub(*before) as f64) / 2.0;
                *before = now;
            }
        }
        let load = |router: u32| self.loads.get(&router).map_or(0.0, |(_, load)| *load);
        let by_load = |a: &u32, b: &u32| load(*a).total_cmp(&load(*b)).then(b.cmp(a));
        let mut without: Vec<u32> = (packets.iter())
            .map(|(router, _)| *router)
            .filter(|router| !self.queues.contains(&Some(*router)))
            .collect();
        without.sort_by(by_load);
        while let Some(router) = without.pop() {
            let free = self.queues.iter().position(Option::is_none);
            let least = |a: &(usize, u32), b: &(usize, u32)| -> Ordering { by_load(&a.1, &b.1) };
            let quietest = || {
                let all = self.queues.iter().enumerate().filter_map(|(at, has)| Some((at, (*has)?)));
                let (at, has) = all.min_by(least)?;
                (period && load(router) > FEW && load(router) > MORE * load(has)).then_some(at)
            };
            let Some(at) = free.or_else(quietest) else { break };
            self.queues[at] = Some(router);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_have_a_queue_each() {
        let mut queues = Allotment::new(2);
        queues.distribute(&[(0, 0)], false);
        queues.distribute(&[(0, 0), (1, 0), (2, 0)], false);
        assert_eq!(queues.queues(), [Some(0), Some(1)]);
        queues.distribute(&[(0, 10_000), (1, 1000), (2, 1200)], true);
        assert_eq!(queues.queues(), [Some(0), Some(1)], "not much more");
        queues.distribute(&[(0, 20_000), (1, 2000), (2, 9000)], true);
        assert_eq!((queues.queues(), queues.of(2)), (&[Some(0), Some(2)][..], Some(1)));
        // One that goes leaves its queue to another.
        queues.distribute(&[(1, 2000), (2, 9000)], false);
        assert_eq!(queues.queues(), [Some(1), Some(2)]);
    }

    #[test]
    fn silence_changes_nothing() {
        let mut queues = Allotment::new(1);
        for _ in 0..3 {
            queues.distribute(&[(3, 0), (4, 50)], true);
            assert_eq!(queues.queues(), [Some(3)]);
        }
        assert!(Allotment::new(0).of(1).is_none());
    }
}
