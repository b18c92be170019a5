//! One physical port on one thread.

use demux::{Reader, Sorted};
use dpdk::{Batch, Port, PortState, Queues, RxQueue, TxQueue, VirtualPort};
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
    /// None while they are lent to a router that has the whole port.
    queues: Option<Queues>,
    /// To whom they are lent: the owner number.
    pub(crate) lent: Option<u32>,
    port: Arc<Port>,
    /// See [`Side::descriptors`]; the same whoever has the queues.
    descriptors: Option<Vec<RawFd>>,
    /// Queues for one router each.
    pub(crate) own: Vec<OwnQueue>,
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
        let port = Arc::clone(rx.port());
        let descriptors = if rx.has_sockets() { rx.wake_fds() } else { None };
        let (queues, sorted): (Option<Queues>, _) = (Some((Box::new(rx), Box::new(tx))), Sorted::new());
        Self { queues, own, lent: None, port, descriptors, reader, sorted, received, out, losses }
    }

    /// Receives from one of the queues for one router each; returns how many packets came.
    pub(crate) fn receive_own(&mut self, queue: usize, most: usize) -> usize {
        self.own.get_mut(queue).map_or(0, |own| own.rx.rx_burst(most, &mut self.received))
    }

    /// Lends the queues to a worker of the router whose interface `port` is, if nothing waits to be sent.
    #[cold]
    pub(crate) fn lend(&mut self, owner: u32, port: &VirtualPort, worker: usize) {
        if !self.out.is_empty() {
            return;
        }
        let Some((rx, tx)) = self.queues.take() else { return };
        self.queues = port.lend(worker, rx, tx);
        self.lent = self.queues.is_none().then_some(owner);
    }

    /// Takes them back.
    #[cold]
    pub(crate) fn take_back(&mut self, port: &VirtualPort, worker: usize) {
        if self.queues.is_none() {
            (self.queues, self.lent) = (port.take_back(worker), None);
        }
    }

    /// Polls once; returns how many packets came.
    pub(crate) fn receive(&mut self) -> usize {
        self.queues.as_mut().map_or(0, |(rx, _)| rx.rx_burst(BURST, &mut self.received))
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
        if let Some((_, tx)) = &mut self.queues {
            while tx.tx_burst(&mut self.out) > 0 {
                flushed = Flushed::Some;
            }
        }
        let room = if self.port.state() == PortState::Gone { 0 } else { ROOM };
        if let Some(over @ 1..) = self.out.len().checked_sub(room) {
            self.out.truncate(room);
            self.losses.transmit_queue_full.fetch_add(over as u64, Ordering::Relaxed);
        }
        if self.out.is_empty() { Flushed::Some } else { flushed }
    }

    /// The descriptors that are readable when packets have come, if all queues have some.
    pub(crate) fn descriptors(&self) -> Option<Vec<RawFd>> {
        let mut all = self.descriptors.clone()?;
        for own in &self.own {
            all.extend(own.rx.wake_fds().filter(|_| own.rx.has_sockets())?);
        }
        Some(all)
    }
}
