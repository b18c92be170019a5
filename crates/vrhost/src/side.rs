//! One physical port on one thread.

use demux::{Reader, Sorted};
use dpdk::{Batch, PortState, RxQueue, TxQueue};
use runtime::Flushed;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most packets of one poll.
pub(crate) const BURST: usize = 64;
/// How many packets wait for a port that does not take them; further ones are dropped.
const ROOM: usize = 1024;

/// Packets that a port has lost on the way out, for all threads.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Packets that came faster than the port sends them.
    pub(crate) transmit_queue_full: AtomicU64,
}

/// A receive queue into which the port puts the packets of one router.
pub(crate) struct OwnQueue {
    rx: RxQueue,
    /// The router, by its number; none: what is still in it is for anybody.
    pub(crate) router: Option<u32>,
}

impl OwnQueue {
    pub(crate) fn new(rx: RxQueue) -> Self {
        Self { rx, router: None }
    }

    pub(crate) fn may_have_waiting(&self) -> bool {
        self.rx.may_have_waiting()
    }

    /// Packets that the port has lost before this queue since the last call.
    pub(crate) fn newly_lost(&self) -> u64 {
        self.rx.newly_lost()
    }
}

/// One physical port on one thread.
pub(crate) struct Side {
    rx: RxQueue,
    /// Queues for one router each.
    pub(crate) own: Vec<OwnQueue>,
    tx: TxQueue,
    /// Who gets which frames.
    pub(crate) reader: Reader,
    pub(crate) sorted: Sorted,
    /// Packets that were received, before they are sorted.
    pub(crate) received: Batch,
    /// Packets to be sent.
    out: Batch,
    losses: Arc<Losses>,
}

impl Side {
    pub(crate) fn new(
        rx: RxQueue,
        own: Vec<OwnQueue>,
        tx: TxQueue,
        reader: Reader,
        losses: Arc<Losses>,
    ) -> Self {
        let (received, out) = (Batch::with_capacity(BURST), Batch::with_capacity(ROOM));
        Self { rx, own, tx, reader, sorted: Sorted::new(), received, out, losses }
    }

    /// Receives from one of the queues for one router each; returns how many packets came.
    pub(crate) fn receive_own(&mut self, queue: usize, most: usize) -> usize {
        self.own.get_mut(queue).map_or(0, |own| own.rx.rx_burst(most, &mut self.received))
    }

    /// Polls once; returns how many packets came.
    pub(crate) fn receive(&mut self) -> usize {
        self.rx.rx_burst(BURST, &mut self.received)
    }

    /// Appends packets to those to be sent; full bursts are sent at once.
    pub(crate) fn send(&mut self, batch: &mut Batch) {
        self.out.append(batch);
        if self.out.len() >= BURST {
            self.flush();
        }
    }

    /// Sends what there is. Of what the port does not take, some stays.
    pub(crate) fn flush(&mut self) -> Flushed {
        if self.out.is_empty() {
            return Flushed::Nothing;
        }
        let mut flushed = Flushed::Blocked;
        while self.tx.tx_burst(&mut self.out) > 0 {
            flushed = Flushed::Some;
        }
        let room = if self.tx.port().state() == PortState::Gone { 0 } else { ROOM };
        if let Some(over @ 1..) = self.out.len().checked_sub(room) {
            self.out.truncate(room);
            self.losses.transmit_queue_full.fetch_add(over as u64, Ordering::Relaxed);
        }
        if self.out.is_empty() { Flushed::Some } else { flushed }
    }

    /// The descriptors that are readable when packets have come, if all queues have some.
    pub(crate) fn descriptors(&self) -> Option<Vec<RawFd>> {
        let all = std::iter::once(&self.rx).chain(self.own.iter().map(|own| &own.rx));
        let each: Option<Vec<_>> =
            all.map(|rx| if rx.has_sockets() { rx.wake_fds() } else { None }).collect();
        each.map(|each| each.concat())
    }
}
