//! One physical port on one thread.

use crate::outgoing::{BURST, Outgoing, Outlet};
use demux::{Reader, Sorted};
use dpdk::{Batch, Port, PortState, Queues, RxQueue, Source, TxQueue, VirtualQueues};
use runtime::Flushed;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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

/// In place of a receive queue, on a thread that has none of the port.
#[derive(Debug)]
struct NoQueue;

impl Source for NoQueue {
    fn rx_burst(&mut self, _: usize, _: &mut Batch) -> usize {
        0
    }
}

/// One physical port on one thread.
pub(crate) struct Side {
    /// The first receive queue, and the transmit queue. None while they are lent to a router that has the
    /// whole port.
    queues: Option<Queues>,
    /// The other receive queues that this thread polls.
    more: Vec<RxQueue>,
    /// For each receive queue: who gets all its frames, by the owner number; none: they are looked at.
    owners: Vec<Option<u32>>,
    /// Whether there is such an owner.
    pub(crate) has_owners: bool,
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
    /// Packets that are sent next.
    out: Batch,
    /// What waits after them.
    outgoing: Outgoing,
    /// Packets of this port that wait for routers, and the most that may: see [`Side::room`].
    pub(crate) waiting: usize,
    most_waiting: usize,
    /// Where its time begins.
    began: Instant,
    losses: Arc<Losses>,
}

impl Side {
    pub(crate) fn new(
        mut rx: Vec<RxQueue>,
        own: Vec<OwnQueue>,
        tx: TxQueue,
        reader: Reader,
        most_waiting: usize,
        losses: Arc<Losses>,
    ) -> Self {
        let (received, out) = (Batch::with_capacity(BURST), Batch::with_capacity(2 * BURST));
        let port = Arc::clone(tx.port());
        let of = |rx: &RxQueue| rx.wake_fds().filter(|_| rx.has_sockets());
        let descriptors = rx.iter().map(of).collect::<Option<Vec<_>>>().map(|all| all.concat());
        let owners = vec![None; rx.len()];
        let more = rx.split_off(rx.len().min(1));
        let first: Box<dyn Source> = match rx.pop() {
            Some(rx) => Box::new(rx),
            None => Box::new(NoQueue),
        };
        let (queues, sorted): (Option<Queues>, _) = (Some((first, Box::new(tx))), Sorted::new());
        Self {
            queues,
            more,
            owners,
            has_owners: false,
            own,
            lent: None,
            port,
            descriptors,
            reader,
            sorted,
            received,
            out,
            outgoing: Outgoing::default(),
            waiting: 0,
            most_waiting,
            began: Instant::now(),
            losses,
        }
    }

    /// How many packets may wait for one router: as many as there are buffers left for such packets (dynamic
    /// thresholds; Choudhury and Hahne, 1998). However many routers get more than they can process, there are
    /// always some left for the others.
    pub(crate) fn room(&self) -> usize {
        self.most_waiting.saturating_sub(self.waiting)
    }

    /// Receives from one of the queues for one router each; returns how many packets came.
    pub(crate) fn receive_own(&mut self, queue: usize, most: usize) -> usize {
        self.own.get_mut(queue).map_or(0, |own| own.rx.rx_burst(most, &mut self.received))
    }

    /// Lends the queues to the router whose interface has these, if nothing waits to be sent.
    #[cold]
    pub(crate) fn lend(&mut self, owner: u32, to: &VirtualQueues) {
        // The router's worker looks at one queue, and what waits is older than what it sends.
        let waits = !self.out.is_empty() || self.outgoing.waiting() > 0;
        if waits || !self.more.is_empty() || self.has_owners {
            return;
        }
        let Some((rx, tx)) = self.queues.take() else { return };
        self.queues = to.lend(rx, tx);
        self.lent = self.queues.is_none().then_some(owner);
    }

    /// Takes them back.
    #[cold]
    pub(crate) fn take_back(&mut self, from: &VirtualQueues) {
        if self.queues.is_none() {
            (self.queues, self.lent) = (from.take_back(), None);
        }
    }

    /// Polls once what is looked at; returns how many packets came.
    #[inline]
    pub(crate) fn receive(&mut self) -> usize {
        if !self.has_owners && self.more.is_empty() {
            return self.queues.as_mut().map_or(0, |(rx, _)| rx.rx_burst(BURST, &mut self.received));
        }
        let mut received = 0;
        for queue in 0..self.owners.len() {
            if self.owners[queue].is_none() {
                received += self.receive_from(queue);
            }
        }
        received
    }

    /// Polls one of the receive queues.
    pub(crate) fn receive_from(&mut self, queue: usize) -> usize {
        match (queue.checked_sub(1), &mut self.queues) {
            (None, Some((rx, _))) => rx.rx_burst(BURST, &mut self.received),
            (None, None) => 0,
            (Some(at), _) => self.more.get_mut(at).map_or(0, |rx| rx.rx_burst(BURST, &mut self.received)),
        }
    }

    /// How many receive queues this thread polls.
    pub(crate) fn receive_queues(&self) -> usize {
        self.owners.len()
    }

    /// Who gets all frames of a receive queue.
    pub(crate) fn owner(&self, queue: usize) -> Option<u32> {
        *self.owners.get(queue)?
    }

    /// All frames of a receive queue are somebody's from now on, or are looked at.
    #[cold]
    pub(crate) fn set_owner(&mut self, queue: usize, owner: Option<u32>) {
        if let Some(place) = self.owners.get_mut(queue) {
            *place = owner;
        }
        self.has_owners = self.owners.iter().any(Option::is_some);
    }

    /// Sends packets of an interface, in full bursts; the rest stays for [`Side::flush`]. What the port does
    /// not take waits in the interface's queue. Returns how many packets it had no room for.
    #[inline]
    pub(crate) fn send(&mut self, owner: u32, outlet: &Arc<Outlet>, batch: &mut Batch) -> usize {
        if self.out.len() < BURST && !self.outgoing.must_wait(outlet) {
            self.out.append(batch);
            if self.out.len() >= BURST {
                self.transmit();
            }
            return 0;
        }
        self.send_in_turn(owner, outlet, batch)
    }

    #[cold]
    fn send_in_turn(&mut self, owner: u32, outlet: &Arc<Outlet>, batch: &mut Batch) -> usize {
        let lost = self.outgoing.put(owner, outlet, batch);
        // There may be room again before the round ends.
        if self.outgoing.waiting() >= BURST {
            self.advance();
        }
        if lost > 0 {
            self.losses.transmit_queue_full.fetch_add(lost as u64, Ordering::Relaxed);
        }
        lost
    }

    /// Gives the port what is next; whether it has taken some.
    fn transmit(&mut self) -> bool {
        let mut any = false;
        if let Some((_, tx)) = &mut self.queues {
            while tx.tx_burst(&mut self.out) > 0 {
                any = true;
            }
        }
        any
    }

    /// Gives the port what is next and what waits after that; whether it has taken some.
    fn advance(&mut self) -> bool {
        let mut any = self.transmit();
        if self.outgoing.waiting() == 0 {
            return any;
        }
        let now = self.began.elapsed().as_nanos() as u64;
        while self.out.len() < BURST {
            let before = self.out.len();
            self.outgoing.take(&mut self.out, now);
            if self.out.len() == before {
                break;
            }
            any |= self.transmit();
        }
        any
    }

    /// Sends what there is. Of what the port does not take, some stays.
    pub(crate) fn flush(&mut self) -> Flushed {
        if self.out.is_empty() && self.outgoing.waiting() == 0 {
            return Flushed::Nothing;
        }
        let any = self.advance();
        if self.port.state() == PortState::Gone {
            let lost = self.out.len() + self.outgoing.clear();
            self.out.clear();
            self.losses.transmit_queue_full.fetch_add(lost as u64, Ordering::Relaxed);
        }
        let left = !self.out.is_empty() || self.outgoing.waiting() > 0;
        if left && !any { Flushed::Blocked } else { Flushed::Some }
    }

    /// Drops what waits of an interface that goes.
    pub(crate) fn forget(&mut self, owner: u32) {
        self.outgoing.forget(owner);
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
