//! Events in the order of time: a wheel of short slots, and a heap for events too far in the future for the
//! wheel.
//!
//! Events at one time come in the order in which they were added while they are on the wheel, so that a run
//! repeats itself. Memory grows with the number of waiting events, not with the simulated time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A slot is 2^15 ps, 33 ns; the wheel spans a millisecond.
const SHIFT: u32 = 15;
const SLOTS: u64 = 1 << 15;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time_ps: u64,
    pub(crate) what: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    event: Event,
    next: u32,
}

/// The events.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Box<[u32]>,
    waiting: Vec<Waiting>,
    free: u32,
    far: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// How many events were put into the heap so far: this number orders events of the same time.
    far_count: u64,
    /// How many are on the wheel, without the present slot.
    near: usize,
    slot: u64,
    /// The events of the present slot, in order, and how many of them are done.
    present: Vec<Event>,
    at: usize,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            heads: vec![NONE; SLOTS as usize].into(),
            waiting: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            far_count: 0,
            near: 0,
            slot: 0,
            present: Vec::new(),
            at: 0,
        }
    }
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.near + self.far.len() + self.present.len() - self.at
    }
    /// Adds an event. A time in the past counts as now.
    #[inline]
    pub(crate) fn push(&mut self, time_ps: u64, what: u32) {
        let event = Event { time_ps, what };
        let slot = time_ps >> SHIFT;
        if slot <= self.slot {
            let place = self.present[self.at..].partition_point(|e| e.time_ps <= time_ps);
            self.present.insert(self.at + place, event);
        } else if slot - self.slot < SLOTS {
            self.hang(slot, event);
        } else {
            self.far.push(Reverse((time_ps, self.far_count, what)));
            self.far_count += 1;
        }
    }
    /// The next one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        while self.at == self.present.len() {
            self.turn()?;
        }
        self.at += 1;
        Some(self.present[self.at - 1])
    }
    #[inline]
    fn hang(&mut self, slot: u64, event: Event) {
        let head = &mut self.heads[(slot % SLOTS) as usize];
        let waiting = Waiting { event, next: *head };
        if self.free == NONE {
            *head = self.waiting.len() as u32;
            self.waiting.push(waiting);
        } else {
            *head = self.free;
            self.free = self.waiting[*head as usize].next;
            self.waiting[*head as usize] = waiting;
        }
        self.near += 1;
    }
    /// Advances to the next slot, or past slots without events. `None`: no event waits.
    fn turn(&mut self) -> Option<()> {
        self.present.clear();
        self.at = 0;
        self.slot = if self.near > 0 { self.slot + 1 } else { self.far.peek()?.0.0 >> SHIFT };
        while let Some(Reverse((time_ps, _, what))) = self.far.peek().copied() {
            let slot = time_ps >> SHIFT;
            if slot - self.slot >= SLOTS {
                break;
            }
            self.far.pop();
            self.hang(slot, Event { time_ps, what });
        }
        let mut next = std::mem::replace(&mut self.heads[(self.slot % SLOTS) as usize], NONE);
        while next != NONE {
            let one = self.waiting[next as usize];
            self.present.push(one.event);
            self.waiting[next as usize].next = self.free;
            self.free = next;
            next = one.next;
        }
        self.near -= self.present.len();
        // The last one added is the first of its slot's list.
        self.present.reverse();
        self.present.sort_by_key(|e| e.time_ps);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::rng::Rng;

    #[test]
    fn in_the_order_of_a_heap() {
        let (mut wheel, mut heap, mut rng) = (Wheel::new(), BinaryHeap::new(), Rng::new(3));
        let mut now = 0;
        for what in 0..200_000_u32 {
            // Times from the same slot to beyond the wheel; on average as many events are added as are taken.
            let bits = 5 + rng.below(30);
            let ahead = rng.below(1 << bits);
            wheel.push(now + ahead, what);
            heap.push(Reverse(now + ahead));
            if rng.below(100) < 98 {
                let event = wheel.pop().unwrap();
                assert_eq!(Some(Reverse(event.time_ps)), heap.pop());
                now = event.time_ps;
            }
        }
        assert_eq!(wheel.len(), heap.len());
        while let Some(event) = wheel.pop() {
            assert_eq!(Some(Reverse(event.time_ps)), heap.pop());
        }
        assert!(heap.is_empty() && wheel.len() == 0);
        // Places are used again: memory did not grow beyond the largest number of events that waited at one
        // time.
        assert!(wheel.waiting.len() < 5000, "{}", wheel.waiting.len());
    }

    #[test]
    fn first_in_first_out_at_one_time() {
        let mut wheel = Wheel::new();
        (0..10).for_each(|what| wheel.push(1 << 20, what));
        assert!((0..10).all(|what| wheel.pop() == Some(Event { time_ps: 1 << 20, what })));
        // A time in the past.
        wheel.push(5, 77);
        assert_eq!(wheel.pop().map(|e| e.what), Some(77));
        assert_eq!(wheel.pop(), None);
        wheel.push(1 << 60, 1);
        assert_eq!(wheel.pop().map(|e| e.what), Some(1));
    }
}
