//! How workers share transmit queues, and how a queue goes from one worker to another while packets are sent.
//!
//! Each worker has one ring, whose other end is at the queue by which its packets go ([`Line`]). The worker
//! that has the queue, its owner, sends its own packets directly and empties the rings of the others. What
//! changes, and why no packet is lost and none overtakes another of the same worker:
//!
//! - *Another owner* ([`super::owners`]). The new owner says that it is ready; the old one then gives it the
//!   queue together with the rings and what was taken from them. The packets of a third worker stay in the
//!   ring in which they are. Those of the old owner go into its own ring from then on. The new owner has sent
//!   what is in its own ring before it sends anything directly.
//! - *Another queue for a worker*, when it is to own that queue. The worker holds its packets back until the
//!   owner of its old queue has sent all that is in its ring and has given the ring to the owner of the new
//!   queue, and for a moment more (`member.rs`), so that the device has sent them too. A device that takes
//!   longer for what is in a queue may send a few of them in another order.
//! - *A queue that the other side does not serve*. Its owner gives all rings to the owner of another queue.
//!   Nothing of them has been sent before.

use super::line::{Line, RING, Source, Trust};
use super::owners::{Decider, Queue};
use crate::prelude::*;
use dpdk::Port;
use locks::IgnorePoison;
use runtime::{Lane, Lanes};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use tables::ring::{Producer, spsc};

/// How long packets are counted before it is decided which worker has which queue.
const INTERVAL_NS: u64 = 200_000_000;
/// In place of a worker's number: nobody.
pub(super) const NOBODY: usize = usize::MAX;

/// Workers to be woken.
pub(super) type Wake = Vec<usize>;

/// A transmit queue that is shared, as all workers see it.
pub(super) struct Shared {
    pub(super) number: u16,
    /// Whether an element elsewhere uses it too, under a lock.
    pub(super) locked: bool,
    /// The worker that is to have it, the one that has it, and one that is ready to take it over.
    pub(super) owner: AtomicUsize,
    pub(super) holder: AtomicUsize,
    pub(super) ready: AtomicUsize,
    /// The queue on its way to the next owner.
    pub(super) passed: Mutex<Option<Line>>,
    /// Rings of workers that send by it from now on, and workers that send by another one from now on.
    pub(super) joining: Mutex<Vec<Source>>,
    pub(super) leaving: Mutex<Vec<usize>>,
    /// Whether the other side is known to serve it, and to refuse it.
    pub(super) served: AtomicBool,
    pub(super) refused: AtomicBool,
    /// Whether it has ever sent anything: then the driver knows whether the other side serves it.
    pub(super) sent: AtomicBool,
}

/// What all workers see of one of them.
// Two cache lines: the worker writes into its own for each batch.
#[repr(align(128))]
pub(super) struct Seat {
    /// Packets that it has had for the port.
    pub(super) had: AtomicU64,
    /// The index of the queue by which it is to send, and of the one at which its ring is.
    pub(super) home: AtomicUsize,
    pub(super) at: AtomicUsize,
    /// Its end of its ring, and the queue that it has at the start, until it takes them.
    pub(super) start: Mutex<Option<(Producer<Packet>, Option<Line>)>>,
}

#[derive(Default)]
pub(super) struct Plan {
    pub(super) decider: Decider,
    pub(super) ends_ns: u64,
    pub(super) changes: u64,
    pub(super) reason: String,
}

/// The transmit queues that the replicas of an element share.
pub(in crate::devices) struct Shares {
    pub(super) queues: Vec<Shared>,
    pub(super) seats: Vec<Seat>,
    pub(super) may_own: Vec<usize>,
    /// Grows with every change, so that workers look only then.
    pub(super) version: AtomicU64,
    pub(super) plan: Mutex<Plan>,
    /// Whether the other side of the port decides how many queues are served.
    pub(super) by_peer: bool,
    /// Whether nobody was connected at the last look.
    pub(super) alone: AtomicBool,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().ignore_poison()
}

impl Shares {
    /// Whether an element that sends so shares queues.
    pub(super) fn are_in(lanes: &Lanes, port: &Port) -> bool {
        let ring = |lane: &Lane| matches!(lane, Lane::Ring { .. });
        let not_first = |lane: &Lane| matches!(lane, Lane::Queue { queue, .. } if *queue > 0);
        lanes.send.iter().any(ring) || (port.peer_sets_tx_queues() && lanes.send.iter().any(not_first))
    }

    /// The queues as they are when the router starts.
    pub(super) fn new(lanes: &Lanes, by_peer: bool) -> Self {
        let of = |worker: usize| match lanes.send[worker] {
            Lane::Queue { .. } => worker,
            Lane::Ring { to } => to,
        };
        let owners: Vec<usize> = (0..lanes.send.len()).filter(|&worker| of(worker) == worker).collect();
        let index = |worker: usize| owners.iter().position(|&owner| owner == of(worker)).unwrap_or(0);
        let mut starts: Vec<(Option<Producer<Packet>>, Option<Line>)> = Vec::new();
        let mut rings: Vec<Vec<Source>> = owners.iter().map(|_| Vec::new()).collect();
        for worker in 0..lanes.send.len() {
            let (producer, consumer) = spsc(RING);
            starts.push((Some(producer), None));
            if let Some(sources) = rings.get_mut(index(worker)) {
                sources.push(Source::new(worker, consumer));
            }
        }
        let trust = if by_peer { Trust::Unproven { since_ns: 0 } } else { Trust::Served };
        for (&owner, sources) in owners.iter().zip(rings) {
            starts[owner].1 = Some(Line { sources, trust, ..Line::default() });
        }
        let shared = |&owner: &usize| {
            let (number, locked) = match lanes.send[owner] {
                Lane::Queue { queue, locked } => (queue, locked),
                Lane::Ring { .. } => (0, false),
            };
            Shared {
                number,
                locked,
                owner: AtomicUsize::new(owner),
                holder: AtomicUsize::new(owner),
                ready: AtomicUsize::new(NOBODY),
                passed: Mutex::default(),
                joining: Mutex::default(),
                leaving: Mutex::default(),
                served: AtomicBool::new(false),
                refused: AtomicBool::new(false),
                sent: AtomicBool::new(false),
            }
        };
        let seat = |(worker, (ring, line)): (usize, (Option<Producer<Packet>>, Option<Line>))| Seat {
            had: AtomicU64::new(0),
            home: AtomicUsize::new(index(worker)),
            at: AtomicUsize::new(index(worker)),
            start: Mutex::new(ring.map(|ring| (ring, line))),
        };
        Self {
            queues: owners.iter().map(shared).collect(),
            seats: starts.into_iter().enumerate().map(seat).collect(),
            may_own: lanes.may_send.clone(),
            version: AtomicU64::new(0),
            plan: Mutex::default(),
            by_peer,
            alone: AtomicBool::new(by_peer),
        }
    }

    /// Tells all workers to look.
    pub(super) fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Whether a queue may go to another worker.
    pub(super) fn may_move(&self) -> bool {
        self.may_own.len() > self.queues.len() || self.by_peer
    }

    /// Decides which worker is to have which queue, if it is time to.
    pub(super) fn decide(&self, now: u64) {
        if !self.may_move() {
            return;
        }
        let Ok(mut plan) = self.plan.try_lock() else { return };
        if now < plan.ends_ns {
            return;
        }
        let late = now.saturating_sub(plan.ends_ns) > INTERVAL_NS;
        plan.ends_ns = now + INTERVAL_NS;
        let counted: Vec<u64> = self.seats.iter().map(|seat| seat.had.load(Ordering::Relaxed)).collect();
        if late {
            // Nobody has sent anything for a while, or the router has just started.
            plan.decider = Decider::beginning_at(&counted);
            return;
        }
        let of = |queue: &Shared| {
            let owner = Some(queue.owner.load(Ordering::Relaxed)).filter(|&worker| worker != NOBODY);
            // Whether the other side serves a queue is left to the worker that has it: another one would have
            // to hold its packets back until that is known. Nobody has one that another peer did not serve.
            let known = !self.by_peer || owner.is_none() || queue.served.load(Ordering::Relaxed);
            Queue { owner, usable: known && !queue.refused.load(Ordering::Relaxed) }
        };
        let queues: Vec<Queue> = self.queues.iter().map(of).collect();
        let homes: Vec<usize> = self.seats.iter().map(|seat| seat.home.load(Ordering::Relaxed)).collect();
        let Some(change) = plan.decider.decide(&counted, &queues, &homes, &self.may_own) else { return };
        self.seats[change.worker].home.store(change.queue, Ordering::Relaxed);
        self.queues[change.queue].owner.store(change.worker, Ordering::Relaxed);
        plan.changes += 1;
        plan.reason =
            format!("queue {} to worker {}: {}", self.number(change.queue), change.worker, change.reason);
        self.changed();
    }

    fn number(&self, index: usize) -> u16 {
        self.queues[index].number
    }

    /// Somebody is connected. Another peer, or the same one again, may serve other queues.
    pub(super) fn peer_is_there(&self) {
        if self.alone.swap(false, Ordering::Relaxed) {
            self.queues.iter().for_each(|queue| queue.refused.store(false, Ordering::Relaxed));
        }
    }

    /// A line for each queue: its owner, and the workers that give it packets; then the changes.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for (index, queue) in self.queues.iter().enumerate() {
            let holder = queue.holder.load(Ordering::Relaxed);
            let at = |(worker, seat): (usize, &Seat)| {
                (worker != holder && seat.at.load(Ordering::Relaxed) == index).then_some(worker)
            };
            let others: Vec<usize> = self.seats.iter().enumerate().filter_map(at).collect();
            let _ = write!(text, "queue {}: ", queue.number);
            text += &match holder {
                NOBODY if queue.refused.load(Ordering::Relaxed) => "not served by the other side".to_owned(),
                NOBODY => "unused".to_owned(),
                worker if others.is_empty() => format!("worker {worker}"),
                worker => format!("worker {worker}, also for worker {}", runtime::placement::listed(&others)),
            };
            text += "\n";
        }
        let plan = locked(&self.plan);
        let _ = writeln!(text, "changes: {}", plan.changes);
        if !plan.reason.is_empty() {
            let _ = writeln!(text, "last change: {}", plan.reason);
        }
        text
    }
}

impl Shares {
    /// Moves the packets that are on their way from worker to worker to `out`: nobody will take them any
    /// more.
    pub(super) fn empty(&self, out: &mut Batch) {
        for queue in &self.queues {
            locked(&queue.passed).iter_mut().for_each(|line| line.empty(out));
            locked(&queue.joining).iter_mut().for_each(|source| source.empty(out));
        }
    }

    /// Gives a worker's ring to another queue, unless that one has been given up.
    pub(super) fn move_ring(&self, source: Source, to: usize, wake: &mut Wake) -> Result<(), Source> {
        let worker = source.from;
        let queue = &self.queues[to];
        {
            let mut joining = locked(&queue.joining);
            let nobodys = |of: &AtomicUsize| of.load(Ordering::Relaxed) == NOBODY;
            if nobodys(&queue.owner) && nobodys(&queue.holder) {
                return Err(source);
            }
            joining.push(source);
            self.seats[worker].at.store(to, Ordering::Release);
        }
        self.changed();
        let holder = queue.holder.load(Ordering::Acquire);
        wake.extend([worker, holder].into_iter().filter(|&worker| worker != NOBODY));
        Ok(())
    }
}
