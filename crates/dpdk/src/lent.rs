//! Queues of physical ports that virtual ports use themselves.
//!
//! Where all of a physical port's packets are for one virtual router, whoever runs it need not pass them on
//! one by one: the router's worker polls the port's queue, and sends by it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

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

/// The place of a queue that is lent.
///
/// Lender and borrower usually run on one thread, one after the other, so that the lock is free.
#[derive(Debug)]
pub(crate) struct Lent<Q> {
    queue: Mutex<Option<Q>>,
    /// Whether there is one, to be read without the lock.
    any: AtomicBool,
}

impl<Q> Default for Lent<Q> {
    fn default() -> Self {
        Self { queue: Mutex::new(None), any: AtomicBool::new(false) }
    }
}

impl<Q> Lent<Q> {
    /// Puts a queue there, or none; returns the one that was there.
    pub(crate) fn set(&self, queue: Option<Q>) -> Option<Q> {
        let mut place = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(queue.is_some(), Ordering::Release);
        std::mem::replace(&mut place, queue)
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Q) -> R) -> Option<R> {
        if !self.any() {
            return None;
        }
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(f)
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
        if !self.any() {
            return None;
        }
        let (before, had) = (batch.len(), bytes(batch));
        let packets = self.with(|queue| queue.tx_burst(batch))?;
        let lost = (before - batch.len()).saturating_sub(packets);
        Some(Passed { packets, bytes: had - bytes(batch), lost })
    }
}
