//! Queues of physical ports that virtual ports use themselves.
//!
//! Where all of a physical port's packets are for one virtual router, whoever runs it need not pass them on
//! one by one: the router's worker polls the port's queue, and sends by it.

use std::cell::UnsafeCell;
use std::iter::Sum;
use std::ops::Add;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

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
const NONE: usize = 0;

/// A number that no other running thread has; never [`NONE`].
#[inline]
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// The place of a queue that is lent.
///
/// Lender and borrower run on one thread, one after the other: only the thread that has put a queue there can
/// use it, so that a burst needs no atomic exchange.
// All in one cache line.
#[repr(align(64))]
pub(crate) struct Lent<Q> {
    /// The thread whose the queue is; [`NONE`]: there is no queue.
    thread: AtomicUsize,
    /// Whether it is in use now.
    busy: AtomicBool,
    queue: UnsafeCell<Option<Q>>,
    /// See [`Lent::passed`]; whoever uses the queue writes them.
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
}

// SAFETY: `thread` becomes a thread's number, from NONE, by that thread alone (a compare-exchange), and NONE
// again by that thread alone. So between the two it alone uses the queue, and `busy` keeps it from doing so
// twice at a time. What a thread has done before it ended, with whose number another one goes on, has
// happened before what that one does: `busy` is released after each use and acquired before. References to
// the queue do not leave `Busy`.
unsafe impl<Q: Send> Sync for Lent<Q> {}

impl<Q> std::fmt::Debug for Lent<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("any", &self.any()).finish_non_exhaustive()
    }
}

impl<Q> Default for Lent<Q> {
    fn default() -> Self {
        Self {
            thread: AtomicUsize::new(NONE),
            busy: AtomicBool::new(false),
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
        // SAFETY: the place is this thread's, and this is the only `Busy` of it.
        unsafe { &mut *self.0.queue.get() }
    }
}

impl<Q> Drop for Busy<'_, Q> {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

impl<Q> Lent<Q> {
    /// The right to use the queue; none: there is no queue, it is another thread's, or it is in use.
    #[inline]
    fn take(&self) -> Option<Busy<'_, Q>> {
        let own = self.thread.load(Ordering::Acquire) == this_thread();
        if !own || self.busy.load(Ordering::Acquire) {
            return None;
        }
        // No other thread changes it meanwhile.
        self.busy.store(true, Ordering::Relaxed);
        Some(Busy(self))
    }

    /// Puts a queue there, which is this thread's from now on; it is returned if there is one.
    pub(crate) fn put(&self, queue: Q) -> Result<(), Q> {
        let me = this_thread();
        if self.thread.compare_exchange(NONE, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(queue);
        }
        let Some(mut place) = self.take() else {
            // In use without a queue: this does not happen.
            self.thread.store(NONE, Ordering::Release);
            return Err(queue);
        };
        *place.queue() = Some(queue);
        Ok(())
    }

    /// Takes the queue away, if it is this thread's.
    pub(crate) fn take_back(&self) -> Option<Q> {
        let queue = self.take()?.queue().take()?;
        self.thread.store(NONE, Ordering::Release);
        Some(queue)
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.thread.load(Ordering::Relaxed) != NONE
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Q) -> R) -> Option<R> {
        self.take()?.queue().as_mut().map(f)
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
    fn nobody_uses_a_queue_that_is_in_use() {
        let place = Lent::default();
        place.put(1).unwrap();
        let inner = place.with(|n| {
            *n += 1;
            (place.with(|n| *n), place.take_back(), place.put(5))
        });
        assert_eq!((inner, place.take_back()), (Some((None, None, Err(5))), Some(2)));
    }

    #[test]
    fn a_queue_is_one_threads() {
        let place = Lent::default();
        let (asks, asked) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let place = &place;
            let lender = scope.spawn(move || {
                place.put(7).unwrap();
                asked.recv().unwrap();
                place.with(|n| *n += 1);
                place.take_back()
            });
            while !place.any() {
                std::thread::yield_now();
            }
            assert_eq!((place.with(|n| *n), place.take_back(), place.put(1)), (None, None, Err(1)));
            asks.send(()).unwrap();
            assert_eq!(lender.join().unwrap(), Some(8));
        });
        assert_eq!((place.put(1), place.take_back()), (Ok(()), Some(1)));
    }
}
