//! Queues of physical ports that virtual ports use themselves.
//!
//! Where all of a physical port's packets are for one virtual router, whoever runs it need not pass them on
//! one by one: the router's worker polls the port's queue, and sends by it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, Ordering};

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
/// Lender and borrower usually run on one thread, one after the other, so that nobody waits. A mutex would
/// take a second atomic exchange for each burst, to see whether it has to wake a thread.
pub(crate) struct Lent<Q> {
    state: AtomicU8,
    queue: UnsafeCell<Option<Q>>,
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
        Self { state: AtomicU8::new(NONE), queue: UnsafeCell::new(None) }
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

    /// Puts a queue there, or none; returns the one that was there.
    pub(crate) fn set(&self, queue: Option<Q>) -> Option<Q> {
        let mut place = self.take(true)?;
        std::mem::replace(place.queue(), queue)
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
    pub(crate) packets: usize,
    pub(crate) bytes: usize,
    pub(crate) lost: usize,
}

fn bytes(packets: &[Packet]) -> usize {
    packets.iter().map(Packet::len).sum()
}

impl Lent<Box<dyn Source>> {
    /// Appends up to `most` packets that have arrived; `None`: no queue is lent.
    #[inline]
    pub(crate) fn receive(&self, most: usize, batch: &mut Batch) -> Option<Passed> {
        let before = batch.len();
        let packets = self.with(|queue| queue.rx_burst(most, batch))?;
        Some(Passed { packets, bytes: bytes(&batch[before..]), lost: 0 })
    }
}

impl Lent<Box<dyn Sink>> {
    /// Sends from the front of the batch; `None`: no queue is lent.
    #[inline]
    pub(crate) fn send(&self, batch: &mut Batch) -> Option<Passed> {
        // Without a queue, the lengths are not needed.
        if !self.any() {
            return None;
        }
        let (before, had) = (batch.len(), bytes(batch));
        let packets = self.with(|queue| queue.tx_burst(batch))?;
        let lost = (before - batch.len()).saturating_sub(packets);
        Some(Passed { packets, bytes: had - bytes(batch), lost })
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
        assert_eq!((place.any(), place.with(|n: &mut u32| *n), place.set(None)), (false, None, None));
        assert_eq!((place.set(Some(7)), place.any(), place.with(|n| *n + 1)), (None, true, Some(8)));
        assert_eq!((place.set(Some(8)), place.set(None), place.any()), (Some(7), Some(8), false));
    }

    #[test]
    fn a_panic_gives_the_place_back() {
        let place = Lent::default();
        place.set(Some(1));
        assert!(catch_unwind(AssertUnwindSafe(|| place.with(|_| panic!("in use")))).is_err());
        assert_eq!(place.set(None), Some(1));
    }

    #[test]
    fn one_at_a_time_uses_the_queue() {
        let (place, stop) = (Lent::default(), AtomicBool::new(false));
        // Two numbers that are equal whenever nobody uses them.
        place.set(Some((0u64, 0u64)));
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
                let taken = place.set(None);
                assert!(taken.is_some_and(|(a, b)| a == b) && !place.any(), "{taken:?}");
                place.set(taken);
            }
            stop.store(true, Ordering::Relaxed);
            let used = user.join().unwrap();
            assert_eq!(place.set(None), Some((used, used)));
        });
    }
}
