//! Queues of physical ports that virtual ports use themselves.
//!
//! Where all of a physical port's packets are for one virtual router, whoever runs it need not pass them on
//! one by one: the router's worker polls the port's queue, and sends by it.

use std::cell::UnsafeCell;
use std::iter::Sum;
use std::ops::Add;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::batch::Batch;
use crate::packet::Packet;

/// What a worker receives by.
pub trait Source: std::fmt::Debug + Send {
    /// Appends up to `max` packets that have arrived, and returns how many.
    fn rx_burst(&mut self, max: usize, batch: &mut Batch) -> usize;
}

/// What a worker sends by.
pub trait Sink: std::fmt::Debug + Send {
    /// Sends packets from the front of the batch and returns how many; those not sent stay, in order.
    fn tx_burst(&mut self, batch: &mut Batch) -> usize;
}

/// There is no queue.
const NONE: u8 = 0;
/// There is a queue, and nobody uses it.
const FREE: u8 = 1;
/// Somebody uses the place.
const BUSY: u8 = 2;

/// The place of a queue that is lent.
///
/// Lender and borrower usually run on one thread, one after the other, so that nobody waits; but a program
/// may have bound the element that uses the queue to another worker. A mutex would take a second atomic
/// exchange for each burst, to see whether it has to wake a thread.
// All in one cache line.
#[repr(align(64))]
pub(crate) struct Lent<Q> {
    state: AtomicU8,
    queue: UnsafeCell<Option<Q>>,
    /// See [`Lent::passed`]; whoever uses the queue writes them.
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
}

// SAFETY: only who has changed the state to BUSY uses the queue, and until it changes the state again; the
// exchange acquires what the store has released. References to the queue do not leave `Busy`.
unsafe impl<Q: Send> Sync for Lent<Q> {}

impl<Q> std::fmt::Debug for Lent<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("any", &self.any()).finish_non_exhaustive()
    }
}

impl<Q> Default for Lent<Q> {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(NONE),
            queue: UnsafeCell::new(None),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }
}

/// The right to use the queue; also a panic gives it back.
struct Busy<'a, Q>(&'a Lent<Q>);

impl<Q> Busy<'_, Q> {
    #[inline]
    fn queue(&mut self) -> &mut Option<Q> {
        // SAFETY: the state is BUSY, and this is the only `Busy` of the place.
        unsafe { &mut *self.0.queue.get() }
    }
}

impl<Q> Drop for Busy<'_, Q> {
    #[inline]
    fn drop(&mut self) {
        let state = if self.queue().is_some() { FREE } else { NONE };
        self.0.state.store(state, Ordering::Release);
    }
}

impl<Q> Lent<Q> {
    /// The right to use the queue; none: there is no queue, and the place without one is not wanted.
    #[inline]
    fn take(&self, also_without: bool) -> Option<Busy<'_, Q>> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            match state {
                NONE if !also_without => return None,
                BUSY => {
                    std::thread::yield_now();
                    state = self.state.load(Ordering::Relaxed);
                }
                _ => match self.state.compare_exchange(state, BUSY, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Some(Busy(self)),
                    Err(now) => state = now,
                },
            }
        }
    }

    /// Puts a queue there; it is returned if there is one.
    pub(crate) fn put(&self, queue: Q) -> Result<(), Q> {
        let Some(mut place) = self.take(true) else { return Err(queue) };
        if place.queue().is_some() {
            return Err(queue);
        }
        *place.queue() = Some(queue);
        Ok(())
    }

    /// Takes the queue away.
    pub(crate) fn take_back(&self) -> Option<Q> {
        self.take(false)?.queue().take()
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.state.load(Ordering::Acquire) != NONE
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Q) -> R) -> Option<R> {
        self.take(false)?.queue().as_mut().map(f)
    }
}

/// Packets and bytes that have passed, and packets that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
}

impl Add for Passed {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            lost: self.lost + other.lost,
        }
    }
}

impl Sum for Passed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

/// Adds to a counter that one thread at a time writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: usize) {
    counter.store(counter.load(Ordering::Relaxed) + n as u64, Ordering::Relaxed);
}

fn bytes(packets: &[Packet]) -> usize {
    packets.iter().map(Packet::len).sum()
}

impl<Q> Lent<Q> {
    /// What has passed the queues that were here, and what they have lost.
    pub(crate) fn passed(&self) -> Passed {
        Passed {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}

/// A queue of a physical port.
#[derive(Debug)]
pub(crate) enum Queue {
    Rx(Box<dyn Source>),
    Tx(Box<dyn Sink>),
}

impl Lent<Queue> {
    /// Appends up to `most` packets that have arrived; false: no queue is lent.
    #[inline]
    pub(crate) fn receive(&self, most: usize, batch: &mut Batch) -> bool {
        let before = batch.len();
        let received = self.with(|queue| match queue {
            Queue::Rx(rx) => rx.rx_burst(most, batch),
            Queue::Tx(_) => 0,
        });
        let Some(packets) = received else { return false };
        if packets > 0 {
            add(&self.packets, packets);
            add(&self.bytes, bytes(&batch[before..]));
        }
        true
    }

    /// Sends from the front of the batch and returns how many; `None`: no queue is lent.
    #[inline]
    pub(crate) fn send(&self, batch: &mut Batch) -> Option<usize> {
        // Without a queue, the lengths are not needed.
        if !self.any() {
            return None;
        }
        let (before, had) = (batch.len(), bytes(batch));
        let packets = self.with(|queue| match queue {
            Queue::Rx(_) => 0,
            Queue::Tx(tx) => tx.tx_burst(batch),
        })?;
        add(&self.packets, packets);
        add(&self.bytes, had - bytes(batch));
        let lost = (before - batch.len()).saturating_sub(packets);
        if lost > 0 {
            add(&self.lost, lost);
        }
        Some(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_queue_is_there_until_it_is_taken_back() {
        let place = Lent::default();
        assert_eq!((place.any(), place.with(|n: &mut u32| *n), place.take_back()), (false, None, None));
        assert_eq!((place.put(7), place.any(), place.with(|n| *n + 1)), (Ok(()), true, Some(8)));
        assert_eq!((place.put(8), place.take_back(), place.any()), (Err(8), Some(7), false));
    }

    #[test]
    fn a_panic_gives_the_place_back() {
        let place = Lent::default();
        place.put(1).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| place.with(|_| panic!("in use")))).is_err());
        assert_eq!(place.take_back(), Some(1));
    }

    #[test]
    fn one_at_a_time_uses_the_queue() {
        let (place, stop) = (Lent::default(), AtomicBool::new(false));
        // Two numbers that are equal whenever nobody uses them.
        place.put((0u64, 0u64)).unwrap();
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            let user = scope.spawn(|| {
                let mut used = 0;
                while !stop.load(Ordering::Relaxed) {
                    let equal = place.with(|(a, b)| {
                        *a += 1;
                        let equal = *a == *b + 1;
                        *b += 1;
                        equal
                    });
                    assert_ne!(equal, Some(false));
                    used += u64::from(equal.is_some());
                }
                used
            });
            for _ in 0..rounds {
                let taken = place.take_back();
                assert!(taken.is_some_and(|(a, b)| a == b) && !place.any(), "{taken:?}");
                place.put(taken.unwrap()).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            let used = user.join().unwrap();
            assert_eq!(place.take_back(), Some((used, used)));
        });
    }
}
