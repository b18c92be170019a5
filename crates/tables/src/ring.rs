//! Bounded lock-free rings between threads.
//!
//! - [`spsc`]: one producer, one consumer. Each side owns its position and remembers the other's; a batch
//!   costs one atomic store, and one load when the remembered position does not suffice.
//! - [`Ring`]: any number of both, through a shared reference. Every slot carries a sequence number (after
//!   Dmitry Vyukov's bounded queue); a batch is claimed by one compare-and-swap, however many items it holds.
//!
//! Both have exactly the requested capacity, keep the order of the items of one producer, and drop the items
//! that are left in them. No operation waits: a full ring refuses an item, and an empty one returns nothing.
//!
//! # Invariants that the `unsafe` here rests on
//!
//! 1. *SPSC.* Positions in `head..tail` hold items and belong to the consumer, all others are empty and
//!    belong to the producer. A side moves its own position (release) only after it has filled or emptied the
//!    slots, and uses a slot only after it saw (acquire) the other's position pass. There is one [`Producer`]
//!    and one [`Consumer`], and both push and pop take `&mut self`.
//! 2. *MPMC.* The slot for position `p` is empty when its sequence is `2p`, full when it is `2p + 1`. Who
//!    moved `tail` over `p` alone may fill it, who moved `head` over `p` alone may empty it, each having seen
//!    (acquire) the matching sequence before and storing (release) the next one after.
//!
//! ```
//! let (mut producer, mut consumer) = tables::ring::spsc(1000);
//! let mut batch = vec![1, 2, 3];
//! assert_eq!(producer.push_many(&mut batch), 3);
//! let mut out = Vec::new();
//! assert_eq!(consumer.pop_many(2, &mut out), 2);
//! assert_eq!((out, consumer.len()), (vec![1, 2], 1));
//! ```

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::{Arc, AtomicUsize, Padded, UnsafeCell, fence};

type Cell<T> = UnsafeCell<MaybeUninit<T>>;

/// Fills an empty slot.
///
/// # Safety
/// The caller alone may use the slot, and it is empty (else its item leaks).
#[inline(always)]
unsafe fn put<T>(cell: &Cell<T>, item: T) {
    cell.with_mut(|p| {
        // SAFETY: the caller has the slot to itself.
        unsafe { (*p).write(item) };
    });
}

/// Empties a full slot.
///
/// # Safety
/// The caller alone may use the slot, it is full, and is taken as empty from now on.
#[inline(always)]
unsafe fn take<T>(cell: &Cell<T>) -> T {
    // SAFETY: the caller has the slot to itself, and it holds an item, which is read once.
    cell.with_mut(|p| unsafe { (*p).assume_init_read() })
}

/// What producer and consumer of an SPSC ring share.
struct Shared<T> {
    cells: Box<[Cell<T>]>,
    /// Next position to pop; written by the consumer.
    head: Padded<AtomicUsize>,
    /// Next position to push; written by the producer.
    tail: Padded<AtomicUsize>,
}

// SAFETY: invariant 1 gives every cell one owner at a time and hands it over by release and acquire, so items
// move between threads but are never shared: `T: Send` is enough.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

/// The pushing side of an SPSC ring.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    /// Index of `tail` in the cells.
    at: usize,
    /// The consumer's position when it was last loaded.
    head: usize,
}

/// The popping side of an SPSC ring.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    at: usize,
    tail: usize,
}

/// A ring of `capacity` items (at least one) between one producer and one consumer.
pub fn spsc<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let cells = (0..capacity.max(1)).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared =
        Arc::new(Shared { cells, head: Padded(AtomicUsize::new(0)), tail: Padded(AtomicUsize::new(0)) });
    (
        Producer { shared: shared.clone(), tail: 0, at: 0, head: 0 },
        Consumer { shared, head: 0, at: 0, tail: 0 },
    )
}

impl<T> Shared<T> {
    fn len(&self) -> usize {
        // The head first: read the other way round, it could have passed an old tail.
        let head = self.head.0.load(Acquire);
        self.tail.0.load(Acquire).wrapping_sub(head).min(self.cells.len())
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (head, tail) = (self.head.0.load(Acquire), self.tail.0.load(Acquire));
        for i in 0..tail.wrapping_sub(head) {
            let cell = &self.cells[head.wrapping_add(i) % self.cells.len()];
            // SAFETY: invariant 1: positions in head..tail are full; `&mut self` says that both sides are
            // gone.
            drop(unsafe { take(cell) });
        }
    }
}

impl<T> Producer<T> {
    /// Room for `wanted` more items, or as much as there is.
    #[inline(always)]
    fn room(&mut self, wanted: usize) -> usize {
        let capacity = self.shared.cells.len();
        let mut room = capacity - self.tail.wrapping_sub(self.head);
        if room < wanted {
            self.head = self.shared.head.0.load(Acquire);
            room = capacity - self.tail.wrapping_sub(self.head);
        }
        room.min(wanted)
    }

    #[inline(always)]
    fn fill(&mut self, item: T) {
        // SAFETY: invariant 1: `room` saw this position empty, and it is the producer's until `tail` is
        // stored.
        unsafe { put(&self.shared.cells[self.at], item) };
        self.at = if self.at + 1 == self.shared.cells.len() { 0 } else { self.at + 1 };
        self.tail = self.tail.wrapping_add(1);
    }

    /// Appends an item, or gives it back when the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.room(1) == 0 {
            return Err(item);
        }
        self.fill(item);
        self.shared.tail.0.store(self.tail, Release);
        Ok(())
    }

    /// Moves as many items as fit from the front of `items`, and returns how many. The rest stays.
    #[inline]
    pub fn push_many(&mut self, items: &mut Vec<T>) -> usize {
        let n = self.room(items.len());
        if n > 0 {
            for item in items.drain(..n) {
                self.fill(item);
            }
            self.shared.tail.0.store(self.tail, Release);
        }
        n
    }

    /// Number of items in the ring; the consumer may have taken some meanwhile.
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// The ring holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most items that the ring holds.
    pub fn capacity(&self) -> usize {
        self.shared.cells.len()
    }
}

impl<T> Consumer<T> {
    /// `wanted` items, or as many as there are.
    #[inline(always)]
    fn ready(&mut self, wanted: usize) -> usize {
        let mut ready = self.tail.wrapping_sub(self.head);
        if ready < wanted {
            self.tail = self.shared.tail.0.load(Acquire);
            ready = self.tail.wrapping_sub(self.head);
        }
        ready.min(wanted)
    }

    #[inline(always)]
    fn empty(&mut self) -> T {
        // SAFETY: invariant 1: `ready` saw this position full, and it is the consumer's until `head` is
        // stored.
        let item = unsafe { take(&self.shared.cells[self.at]) };
        self.at = if self.at + 1 == self.shared.cells.len() { 0 } else { self.at + 1 };
        self.head = self.head.wrapping_add(1);
        item
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.ready(1) == 0 {
            return None;
        }
        let item = self.empty();
        self.shared.head.0.store(self.head, Release);
        Some(item)
    }

    /// Whether the producer is gone: what is in the ring now is all that will ever come out.
    pub fn is_closed(&self) -> bool {
        let closed = Arc::strong_count(&self.shared) == 1;
        // Whoever dropped the producer pushed before; the count's load is relaxed.
        fence(Acquire);
        closed
    }

    /// Appends up to `n` of the oldest items to `out`, and returns how many.
    #[inline]
    pub fn pop_many(&mut self, n: usize, out: &mut Vec<T>) -> usize {
        let n = self.ready(n);
        if n > 0 {
            out.reserve(n); // before a slot is touched: nothing below can panic
            for _ in 0..n {
                let item = self.empty();
                out.push(item);
            }
            self.shared.head.0.store(self.head, Release);
        }
        n
    }

    /// Number of items in the ring; the producer may have added some meanwhile.
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// The ring holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most items that the ring holds.
    pub fn capacity(&self) -> usize {
        self.shared.cells.len()
    }
}

/// One place of an MPMC ring.
struct Slot<T> {
    sequence: AtomicUsize,
    cell: Cell<T>,
}

/// A ring for any number of producers and consumers.
pub struct Ring<T> {
    slots: Box<[Slot<T>]>,
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
}

// SAFETY: invariant 2 gives every slot's cell one owner at a time and hands it over by release and acquire,
// so items move between threads but are never shared: `T: Send` is enough.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Send> Ring<T> {
    /// An empty ring of `capacity` items (at least one).
    pub fn new(capacity: usize) -> Self {
        Self::of(Vec::with_capacity(capacity.max(1)), capacity)
    }

    /// The same; `None` if there is not so much memory.
    pub fn try_new(capacity: usize) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(capacity.max(1)).ok()?;
        Some(Self::of(slots, capacity))
    }

    fn of(mut slots: Vec<Slot<T>>, capacity: usize) -> Self {
        slots.extend((0..capacity.max(1)).map(|p| Slot {
            sequence: AtomicUsize::new(2 * p),
            cell: UnsafeCell::new(MaybeUninit::uninit()),
        }));
        let slots = slots.into_boxed_slice();
        Self { slots, head: Padded(AtomicUsize::new(0)), tail: Padded(AtomicUsize::new(0)) }
    }

    /// Claims up to `wanted` consecutive positions at `end` whose slots have sequence `2p + full`; returns
    /// the first position and their number. They belong to the caller.
    #[inline(always)]
    fn claim(&self, end: &AtomicUsize, full: usize, wanted: usize) -> (usize, usize) {
        let mut first = end.load(Relaxed);
        loop {
            let mut at = first % self.slots.len();
            let mut n = 0;
            while n < wanted {
                let sequence = self.slots[at].sequence.load(Acquire);
                if sequence != first.wrapping_add(n).wrapping_mul(2).wrapping_add(full) {
                    break;
                }
                n += 1;
                at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
            }
            if n == 0 {
                // Not ours to take. If `end` moved meanwhile, someone else got it, and there may be more
                // behind.
                let now = end.load(Relaxed);
                if now == first || wanted == 0 {
                    return (first, 0);
                }
                first = now;
                continue;
            }
            // While `end` stands at `first` nobody else may change these slots, so what was seen above still
            // holds.
            match end.compare_exchange_weak(first, first.wrapping_add(n), Relaxed, Relaxed) {
                Ok(_) => return (first, n),
                Err(now) => first = now,
            }
        }
    }

    /// Appends an item, or gives it back when the ring is full.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), T> {
        let (first, n) = self.claim(&self.tail.0, 0, 1);
        if n == 0 {
            return Err(item);
        }
        let slot = &self.slots[first % self.slots.len()];
        // SAFETY: invariant 2: this position was claimed while its sequence number marked it as empty.
        unsafe { put(&slot.cell, item) };
        slot.sequence.store(first.wrapping_mul(2).wrapping_add(1), Release);
        Ok(())
    }

    /// Moves as many items as fit from the front of `items`, in one piece, and returns how many. The rest
    /// stays.
    #[inline]
    pub fn push_many(&self, items: &mut Vec<T>) -> usize {
        let (first, n) = self.claim(&self.tail.0, 0, items.len());
        let mut at = first % self.slots.len();
        for (i, item) in items.drain(..n).enumerate() {
            let slot = &self.slots[at];
            // SAFETY: invariant 2: this position was claimed while its sequence number marked it as empty.
            unsafe { put(&slot.cell, item) };
            slot.sequence.store(first.wrapping_add(i).wrapping_mul(2).wrapping_add(1), Release);
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        n
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let (first, n) = self.claim(&self.head.0, 1, 1);
        if n == 0 {
            return None;
        }
        let slot = &self.slots[first % self.slots.len()];
        // SAFETY: invariant 2: this position was claimed while its sequence number marked it as full.
        let item = unsafe { take(&slot.cell) };
        slot.sequence.store(first.wrapping_add(self.slots.len()).wrapping_mul(2), Release);
        Some(item)
    }

    /// Appends up to `n` of the oldest items to `out`, and returns how many.
    #[inline]
    pub fn pop_many(&self, n: usize, out: &mut Vec<T>) -> usize {
        out.reserve(n.min(self.slots.len())); // before a slot is claimed: nothing below can panic
        let (first, n) = self.claim(&self.head.0, 1, n);
        let mut at = first % self.slots.len();
        for i in 0..n {
            let slot = &self.slots[at];
            // SAFETY: invariant 2: this position was claimed while its sequence number marked it as full.
            out.push(unsafe { take(&slot.cell) });
            let next = first.wrapping_add(i).wrapping_add(self.slots.len());
            slot.sequence.store(next.wrapping_mul(2), Release);
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        n
    }

    /// Number of items in the ring, those on their way in or out included.
    pub fn len(&self) -> usize {
        // The head first: read the other way round, it could have passed an old tail.
        let head = self.head.0.load(Acquire);
        self.tail.0.load(Acquire).wrapping_sub(head).min(self.slots.len())
    }

    /// The ring holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most items that the ring holds.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (head, tail) = (self.head.0.load(Acquire), self.tail.0.load(Acquire));
        for i in 0..tail.wrapping_sub(head) {
            let slot = &self.slots[head.wrapping_add(i) % self.slots.len()];
            // SAFETY: `&mut self` says that no call is under way, so positions in head..tail are full
            // (invariant 2).
            drop(unsafe { take(&slot.cell) });
        }
    }
}

impl<T> std::fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

impl<T> std::fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

impl<T: Send> std::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::Arc as StdArc;

    #[test]
    fn spsc_wraps_fills_and_empties() {
        for capacity in if cfg!(miri) { vec![1, 3] } else { vec![1, 2, 3, 7, 64] } {
            let (mut p, mut c) = spsc(capacity);
            assert_eq!((p.capacity(), c.capacity()), (capacity, capacity));
            let (mut sent, mut got) = (0, 0);
            for round in 0..40 {
                let mut items: Vec<usize> = (sent..sent + round % (capacity + 2)).collect();
                let n = p.push_many(&mut items);
                assert_eq!(items, (sent + n..sent + round % (capacity + 2)).collect::<Vec<_>>());
                sent += n;
                if p.push(sent).is_ok() {
                    sent += 1;
                } else {
                    assert_eq!(p.len(), capacity);
                }
                let mut out = Vec::new();
                c.pop_many(round % 3, &mut out);
                out.extend(c.pop());
                assert_eq!(out, (got..got + out.len()).collect::<Vec<_>>());
                got += out.len();
                assert_eq!(c.len(), sent - got);
            }
        }
    }

    #[test]
    fn what_is_left_is_dropped_once() {
        let item = StdArc::new(());
        let (mut p, mut c) = spsc(4);
        let ring = Ring::new(4);
        for _ in 0..3 {
            p.push(item.clone()).unwrap();
            ring.push(item.clone()).unwrap();
        }
        drop((c.pop(), ring.pop()));
        p.push(item.clone()).unwrap();
        p.push(item.clone()).unwrap();
        assert!(p.push(item.clone()).is_err());
        assert_eq!(StdArc::strong_count(&item), 1 + 4 + 2);
        drop(p);
        drop(c);
        drop(ring);
        assert_eq!(StdArc::strong_count(&item), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn ring_is_a_bounded_queue(
            capacity in 1usize..9,
            ops in prop::collection::vec((0u8..4, 0usize..12), 0..if cfg!(miri) { 16 } else { 60 }),
        ) {
            let ring = Ring::new(capacity);
            let mut model = VecDeque::new();
            let mut next = 0u32;
            for (op, n) in ops {
                match op {
                    0 => {
                        let mut items: Vec<u32> = (next..next + n as u32).collect();
                        let room = capacity - model.len();
                        prop_assert_eq!(ring.push_many(&mut items), n.min(room));
                        prop_assert_eq!(items.len(), n - n.min(room));
                        model.extend(next..next + n.min(room) as u32);
                        next += n as u32;
                    }
                    1 => {
                        prop_assert_eq!(ring.push(next).is_ok(), model.len() < capacity);
                        if model.len() < capacity {
                            model.push_back(next);
                        }
                        next += 1;
                    }
                    2 => {
                        let mut out = Vec::new();
                        let got = ring.pop_many(n, &mut out);
                        prop_assert_eq!(got, out.len());
                        let want: Vec<u32> = model.drain(..n.min(model.len())).collect();
                        prop_assert_eq!(out, want);
                    }
                    _ => prop_assert_eq!(ring.pop(), model.pop_front()),
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn spsc_across_threads_keeps_order() {
        let total = if cfg!(miri) { 60 } else { 300_000u64 };
        let (mut p, mut c) = spsc(37);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 0;
                let mut batch = Vec::new();
                while next < total || !batch.is_empty() {
                    while batch.len() < 16 && next < total {
                        batch.push(Box::new(next));
                        next += 1;
                    }
                    if p.push_many(&mut batch) == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let mut out = Vec::new();
            let mut want = 0;
            while want < total {
                if c.pop_many(11, &mut out) == 0 {
                    std::thread::yield_now();
                }
                for item in out.drain(..) {
                    assert_eq!(*item, want);
                    want += 1;
                }
            }
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends where memory does")]
    fn a_ring_without_memory_is_none() {
        assert!(
            Ring::<u64>::try_new(usize::MAX).is_none() && Ring::<u64>::try_new(usize::MAX / 64).is_none()
        );
        let ring = Ring::try_new(2).unwrap();
        assert!(ring.push(1).is_ok() && ring.push(2).is_ok());
        assert_eq!(
            (ring.push(3), ring.capacity(), Ring::<u8>::try_new(0).unwrap().capacity()),
            (Err(3), 2, 1)
        );
    }

    #[test]
    fn mpmc_loses_and_doubles_nothing() {
        let each = if cfg!(miri) { 25 } else { 100_000u64 };
        let ring = Ring::new(13);
        let done = std::sync::atomic::AtomicU64::new(0);
        let sums = std::thread::scope(|scope| {
            for t in 0..2u64 {
                let ring = &ring;
                scope.spawn(move || {
                    let mut batch = Vec::new();
                    let mut next = 0;
                    while next < each || !batch.is_empty() {
                        while batch.len() < 5 && next < each {
                            batch.push(Box::new(t << 32 | next));
                            next += 1;
                        }
                        if ring.push_many(&mut batch) == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let consumers: Vec<_> = (0..2)
                .map(|_| {
                    let (ring, done) = (&ring, &done);
                    scope.spawn(move || {
                        let mut last = [None; 2];
                        let mut sum = 0;
                        let mut out = Vec::new();
                        while done.load(Relaxed) < 2 * each {
                            if ring.pop_many(4, &mut out) == 0 {
                                std::thread::yield_now();
                            }
                            for item in out.drain(..) {
                                let (t, i) = ((*item >> 32) as usize, *item & 0xffff_ffff);
                                // The items that one consumer gets from one producer are in order.
                                assert!(last[t].replace(i).is_none_or(|before| before < i));
                                sum += i;
                                done.fetch_add(1, Relaxed);
                            }
                        }
                        sum
                    })
                })
                .collect();
            consumers.into_iter().map(|c| c.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sums, each * (each - 1));
        assert!(ring.is_empty());
    }
}
