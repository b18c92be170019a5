//! A worker's part in sharing transmit queues: see `sharing.rs` for what it does when.

use super::line::{Line, Trust};
use super::sharing::{NOBODY, Shared, Shares, Wake, locked};
use crate::prelude::*;
use dpdk::{Port, TxQueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tables::ring::Producer;

/// How often a worker looks whether it is time to decide who has which queue, and at the other side.
const LOOK_NS: u64 = 20_000_000;
/// How long a worker that changes to another queue waits after its last packet by the old one, so that the
/// device sends them in order; it waits less if half of its room is taken meanwhile.
const QUIET_NS: u64 = 1_000_000;
/// How long a queue takes nothing, while the other side is there and takes packets from another queue, until
/// it counts as not served.
const PATIENCE_NS: u64 = 100_000_000;
/// The same while no other queue is known to be served.
const LONG_PATIENCE_NS: u64 = 1_000_000_000;

/// A worker's part in sharing queues.
pub(super) struct Member {
    pub(super) shares: Arc<Shares>,
    worker: usize,
    ring: Producer<Packet>,
    /// The index of the queue by which it sends, and whether it has that queue.
    home: usize,
    pub(super) owns: bool,
    /// Whether packets of others, or its own from before it had the queue, may come with the queue.
    pub(super) serves: bool,
    /// The version that it has seen, and whether something that it waits for has not happened yet.
    seen: u64,
    pub(super) unsettled: bool,
    /// It has said that it leaves its queue.
    leaves: bool,
    quiet_until_ns: u64,
    next_look_ns: u64,
    /// No queue is served by the other side.
    pub(super) refused: bool,
}

impl Member {
    /// Takes the worker's place; also the queue that it has at the start.
    pub(super) fn new(shares: &Arc<Shares>, worker: usize) -> Option<(Self, Line)> {
        let seat = shares.seats.get(worker)?;
        let (ring, line) = locked(&seat.start).take()?;
        let this = Self {
            shares: Arc::clone(shares),
            worker,
            ring,
            home: seat.at.load(Ordering::Relaxed),
            owns: line.is_some(),
            serves: line.as_ref().is_some_and(|line| line.serves_others(worker)),
            seen: 0,
            unsettled: false,
            leaves: false,
            quiet_until_ns: 0,
            next_look_ns: 0,
            refused: false,
        };
        Some((this, line.unwrap_or_default()))
    }

    /// The queue that the worker has, and whether it is locked.
    pub(super) fn queue(&self) -> (u16, bool) {
        let queue = &self.shares.queues[self.home];
        (queue.number, queue.locked)
    }

    /// Counts packets that the worker has for the port.
    #[inline]
    pub(super) fn count(&self, packets: usize) {
        let had = &self.shares.seats[self.worker].had;
        had.store(had.load(Ordering::Relaxed).wrapping_add(packets as u64), Ordering::Relaxed);
    }

    /// Whether the task must run also without packets.
    pub(super) fn must_look(&self) -> bool {
        self.unsettled || (self.owns && (self.serves || self.shares.may_move()))
    }

    /// Whether there is nothing to look after.
    #[inline]
    pub(super) fn is_settled(&self, now: u64) -> bool {
        !self.unsettled && now < self.next_look_ns && self.shares.version.load(Ordering::Acquire) == self.seen
    }

    /// Gives packets from the front of `batch` to the owner of the queue; returns how many, and whom to wake.
    pub(super) fn give(&mut self, batch: &mut Batch, now: u64, hurry: bool) -> (usize, Option<usize>) {
        if self.leaves || (now < self.quiet_until_ns && !hurry) {
            return (0, None);
        }
        let given = self.ring.push_many(batch.packets_mut());
        // The queue may have gone to another worker meanwhile: look after the packets are in the ring.
        let at = self.shares.seats[self.worker].at.load(Ordering::Acquire);
        let holder = self.shares.queues[at].holder.load(Ordering::Acquire);
        (given, (given > 0 && holder != NOBODY).then_some(holder))
    }

    /// Does the worker's part of what has changed.
    #[cold]
    pub(super) fn settle(&mut self, line: &mut Line, waiting: &mut Batch, port: &Port, now: u64) -> Wake {
        let mut wake = Vec::new();
        if now >= self.next_look_ns {
            self.next_look_ns = now + LOOK_NS;
            if self.shares.by_peer {
                self.look_at_peer(line, port.link().up);
            }
            self.shares.decide(now);
        }
        self.seen = self.shares.version.load(Ordering::Acquire);
        self.unsettled = false;
        if self.owns {
            self.settle_owner(line, waiting, &mut wake);
        } else {
            self.settle_other(line, waiting, now, &mut wake);
        }
        self.serves = self.owns && line.serves_others(self.worker);
        wake
    }

    fn look_at_peer(&self, line: &mut Line, up: bool) {
        let shares = &*self.shares;
        if !up {
            self.doubt(line);
        } else {
            shares.peer_is_there();
        }
        if self.owns && up && line.trust == Trust::Served {
            match line.tx.as_ref().and_then(TxQueue::is_served) {
                Some(true) => shares.queues[self.home].served.store(true, Ordering::Relaxed),
                Some(false) => line.trust = Trust::Refused,
                None => {}
            }
        }
    }

    /// Nobody is connected: the next peer may serve other queues. What is sent by one that it does not serve
    /// goes to wherever the queue was before.
    #[cold]
    pub(super) fn doubt(&self, line: &mut Line) {
        let shares = &*self.shares;
        shares.alone.store(true, Ordering::Relaxed);
        let served = shares.queues.iter().filter(|queue| queue.served.swap(false, Ordering::Relaxed));
        if served.count() > 0 {
            // Their owners look too.
            shares.changed();
        }
        if self.owns {
            line.trust = Trust::Unproven { since_ns: 0 };
        }
    }

    fn settle_owner(&mut self, line: &mut Line, waiting: &mut Batch, wake: &mut Wake) {
        let (shares, me) = (Arc::clone(&self.shares), self.worker);
        let queue = &shares.queues[self.home];
        line.sources.append(&mut locked(&queue.joining));
        if shares.by_peer && line.trust == Trust::Served && !queue.served.load(Ordering::Relaxed) {
            line.trust = Trust::Unproven { since_ns: 0 };
        }
        if line.trust == Trust::Refused {
            return self.leave_refused(line, waiting, wake);
        }
        let mut stranded = Vec::new();
        let mut leaving = locked(&queue.leaving);
        leaving.retain(|&worker| {
            let to = shares.seats[worker].home.load(Ordering::Relaxed);
            let Some(at) = line.sources.iter().position(|source| source.from == worker) else { return false };
            if to == self.home {
                return false;
            }
            // What a hot swap has put together is of anybody.
            let chosen = !line.chosen.is_empty() && line.chosen_from.is_none_or(|from| from == worker);
            if chosen || !line.sources[at].is_empty() {
                return true;
            }
            if let Err(source) = shares.move_ring(line.sources.remove(at), to, wake) {
                line.sources.push(source);
                stranded.push(worker);
            }
            false
        });
        self.unsettled = !leaving.is_empty();
        drop(leaving);
        if !stranded.is_empty() {
            self.keep(&stranded, wake);
        }
        let owner = queue.owner.load(Ordering::Acquire);
        if owner != me && owner != NOBODY && queue.ready.load(Ordering::Acquire) == owner {
            *locked(&queue.passed) = Some(std::mem::take(line));
            queue.ready.store(NOBODY, Ordering::Relaxed);
            queue.holder.store(owner, Ordering::Release);
            self.owns = false;
            self.refused = false;
            // Its own packets, which wait, go into its ring.
            self.unsettled = true;
            shares.changed();
            wake.push(owner);
        }
    }

    /// The queue by which these workers were to send has been given up meanwhile: they stay.
    #[cold]
    fn keep(&mut self, workers: &[usize], wake: &mut Wake) {
        let shares = &*self.shares;
        let _plan = locked(&shares.plan);
        for &worker in workers {
            let home = &shares.seats[worker].home;
            if shares.queues[home.load(Ordering::Relaxed)].owner.load(Ordering::Relaxed) == NOBODY {
                home.store(self.home, Ordering::Relaxed);
            } else {
                // Somebody is to have that queue again.
                locked(&shares.queues[self.home].leaving).push(worker);
                self.unsettled = true;
            }
            wake.push(worker);
        }
        shares.changed();
    }

    fn settle_other(&mut self, line: &mut Line, waiting: &mut Batch, now: u64, wake: &mut Wake) {
        let (shares, me) = (Arc::clone(&self.shares), self.worker);
        let seat = &shares.seats[me];
        let at = seat.at.load(Ordering::Acquire);
        if at != self.home {
            self.home = at;
            self.leaves = false;
            self.quiet_until_ns = now + QUIET_NS;
        }
        let queue = &shares.queues[at];
        let holder = queue.holder.load(Ordering::Acquire);
        if holder == me && self.take_over(line, waiting, at) {
            return;
        }
        if seat.home.load(Ordering::Relaxed) != at {
            self.unsettled = true;
            if holder != NOBODY {
                self.leaves = true;
                let mut leaving = locked(&queue.leaving);
                if !leaving.contains(&me) {
                    leaving.push(me);
                    shares.changed();
                    wake.push(holder);
                }
            }
            return;
        }
        self.leaves = false;
        let wanted = queue.owner.load(Ordering::Acquire) == me;
        if wanted && now < self.quiet_until_ns {
            self.unsettled = true;
        } else if wanted && !(holder == NOBODY && self.take_over(line, waiting, at)) {
            self.unsettled = true;
            if holder != NOBODY && queue.ready.swap(me, Ordering::AcqRel) != me {
                shares.changed();
                wake.push(holder);
            }
        }
    }

    /// Takes the queue with this index, if it is there to be taken.
    fn take_over(&mut self, line: &mut Line, waiting: &mut Batch, index: usize) -> bool {
        let shares = Arc::clone(&self.shares);
        let queue = &shares.queues[index];
        let Some(passed) = locked(&queue.passed).take() else { return false };
        // What a hot swap has left here is older than what waits.
        let mut own = std::mem::replace(line, passed).chosen;
        own.append(waiting);
        std::mem::swap(waiting, &mut own);
        line.trust = match shares.by_peer && !queue.served.load(Ordering::Relaxed) {
            true => Trust::Unproven { since_ns: 0 },
            false => Trust::Served,
        };
        {
            let mut joining = locked(&queue.joining);
            line.sources.append(&mut joining);
            queue.ready.store(NOBODY, Ordering::Relaxed);
            queue.holder.store(self.worker, Ordering::Release);
        }
        self.owns = true;
        shares.changed();
        true
    }

    /// The other side does not serve the worker's queue: gives all rings to another one.
    fn leave_refused(&mut self, line: &mut Line, waiting: &mut Batch, wake: &mut Wake) {
        let shares = Arc::clone(&self.shares);
        let queue = &shares.queues[self.home];
        queue.served.store(false, Ordering::Relaxed);
        // One after the other: two owners must not give their rings to each other.
        let mut plan = locked(&shares.plan);
        let usable = |&other: &usize| {
            let there = &shares.queues[other];
            let somebodys = |of: &AtomicUsize| of.load(Ordering::Relaxed) != NOBODY;
            other != self.home
                && !there.refused.load(Ordering::Relaxed)
                && (somebodys(&there.holder) || somebodys(&there.owner))
        };
        let served = |&other: &usize| shares.queues[other].served.load(Ordering::Relaxed);
        let others: Vec<usize> = (0..shares.queues.len()).filter(usable).collect();
        let Some(to) = others.iter().copied().find(served).or(others.first().copied()) else {
            line.trust = Trust::Unproven { since_ns: 0 };
            self.refused = true;
            return;
        };
        line.choose_none(self.worker, waiting);
        queue.refused.store(true, Ordering::Relaxed);
        {
            // No ring comes here any more from now on.
            let mut joining = locked(&queue.joining);
            queue.owner.store(NOBODY, Ordering::Relaxed);
            queue.ready.store(NOBODY, Ordering::Relaxed);
            queue.holder.store(NOBODY, Ordering::Release);
            line.sources.append(&mut joining);
        }
        for source in std::mem::take(&mut line.sources) {
            // Some may be on their way to a queue of their own.
            let home = &shares.seats[source.from].home;
            let to = Some(home.load(Ordering::Relaxed)).filter(usable).unwrap_or(to);
            home.store(to, Ordering::Relaxed);
            if let Err(source) = shares.move_ring(source, to, wake) {
                // Queues are given up one after the other, and that one has a worker.
                line.sources.push(source);
            }
        }
        locked(&queue.leaving).clear();
        self.home = to;
        self.owns = false;
        self.refused = false;
        self.unsettled = true;
        *locked(&queue.passed) = Some(std::mem::take(line));
        shares.changed();
        plan.changes += 1;
        plan.reason = format!("queue {}: the other side does not serve it", queue.number);
    }

    /// Whether something may be sent by a queue of which it is not known whether the other side serves it, to
    /// see whether it comes there.
    #[cold]
    pub(super) fn may_try(&mut self, line: &mut Line) -> bool {
        let queue = &self.shares.queues[self.home];
        let served = line.tx.as_ref().and_then(TxQueue::is_served);
        if served.is_some() {
            self.shares.peer_is_there();
        }
        match served {
            Some(true) => {
                line.trust = Trust::Served;
                queue.served.store(true, Ordering::Relaxed);
                self.refused = false;
            }
            // That is so also before it has sent anything at all.
            Some(false) if queue.sent.load(Ordering::Relaxed) => {
                line.trust = Trust::Refused;
                self.unsettled = true;
            }
            _ => {}
        }
        line.trust != Trust::Refused
    }

    /// A queue of which it is not known whether the other side serves it has taken `sent` packets, at most
    /// one. Returns whether that one was lost.
    #[cold]
    pub(super) fn prove(&mut self, line: &mut Line, sent: usize, port: &Port, now: u64) -> bool {
        let Trust::Unproven { since_ns } = line.trust else { return false };
        let queue = &self.shares.queues[self.home];
        if sent > 0 {
            queue.sent.store(true, Ordering::Relaxed);
            let lost = line.tx.as_ref().and_then(TxQueue::is_served) == Some(false);
            line.trust = if lost { Trust::Refused } else { Trust::Served };
            queue.served.store(!lost, Ordering::Relaxed);
            self.refused = lost;
            self.unsettled |= lost;
            return lost;
        }
        let served = |queue: &Shared| queue.served.load(Ordering::Relaxed);
        let patience = if self.shares.queues.iter().any(served) { PATIENCE_NS } else { LONG_PATIENCE_NS };
        if since_ns == 0 {
            line.trust = Trust::Unproven { since_ns: now };
        } else if queue.number > 0 && now.saturating_sub(since_ns) > patience {
            // Whoever is connected serves the first queue, though perhaps not yet: that one is waited for.
            let up = port.link().up;
            line.trust = if up { Trust::Refused } else { Trust::Unproven { since_ns: 0 } };
            self.unsettled |= up;
        }
        false
    }

    /// How the worker sends.
    pub(super) fn describe(&self, line: &Line) -> String {
        if !self.owns {
            let at = self.shares.seats[self.worker].at.load(Ordering::Relaxed);
            return match self.shares.queues[at].holder.load(Ordering::Relaxed) {
                NOBODY => "holds its packets".to_owned(),
                holder => format!("gives packets to worker {holder}"),
            };
        }
        let (queue, locked) = self.queue();
        let lock = if locked { ", which it locks" } else { "" };
        let others: Vec<usize> = line.sources.iter().map(|s| s.from).filter(|&w| w != self.worker).collect();
        let turn = match others.is_empty() {
            true => String::new(),
            false => format!(", in turn with worker {}", runtime::placement::listed(&others)),
        };
        format!("sends by queue {queue}{lock}{turn}")
    }
}
