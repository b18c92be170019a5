//! RSS in software: if a port has fewer queues than there are workers, the packets that one worker polls are
//! distributed over others, by flow; or in any case, by the prefix of their destination.

use super::exchange::{Exchange, Former, Outlet};
use super::flowkey::FlowKey;
use super::handover::{HOLD, Handover, MOST_MOVES, MOST_QUICK};
use super::indirection::{Indirection, Poller};
use crate::prelude::*;
use runtime::WorkerId;
use std::collections::VecDeque;
use std::sync::Arc;

/// For how long a worker that does not keep up makes the polling workers wait; after that they drop what it
/// does not take, until it has taken all that waits. This is longer than a time slice of Linux (about 3 ms),
/// so that sharing a core causes no losses while the device's queue has space.
const STALL_NS: u64 = 5_000_000;
/// For how long a worker that polls leaves packets in the device, at most, until those that it has given away
/// have left the other workers: after that it uses the new key of the hash nevertheless.
const KEY_PATIENCE_NS: u64 = 20_000_000;
/// How long after that it waits until they have also left the transmit queues.
const KEY_SETTLE_NS: u64 = 200_000;
/// A worker is nearly finished if at most so many packets are on their way to it or through it.
const FEW: u64 = 64;
/// In place of a neighbor: packets stay with this worker, or their bucket is on its way.
const OWN: u16 = u16::MAX;
const ON_ITS_WAY: u16 = u16::MAX - 1;

/// A worker that gets its share of the flows from this one.
struct Neighbor {
    worker: WorkerId,
    /// Its place in the table.
    place: usize,
    ring: Outlet,
    /// What it was given before a hot swap, as long as not all of that has left it.
    former: Option<Former>,
    /// Packets for which the ring was full.
    waiting: Vec<Packet>,
    /// How many of them waited before the last batch.
    waited: usize,
    /// Since when packets wait; 0: none do.
    since_ns: u64,
    /// It has not kept up for so long that this worker no longer waits for it: others would wait too.
    stalled: bool,
}

impl Neighbor {
    /// How many packets this worker has had for it: those in the ring, before it and behind it.
    fn given(&self) -> u64 {
        self.ring.pushed() + self.waiting.len() as u64
    }
    /// How many of them have not left it.
    fn on_the_way(&self) -> u64 {
        let before = self.former.as_ref().map_or(0, Former::on_the_way);
        before + self.ring.on_the_way() + self.waiting.len() as u64
    }
    /// Whether the first `n` packets have left it, and those of before a hot swap.
    fn have_left(&mut self, n: u64) -> bool {
        if self.former.as_ref().is_some_and(|former| former.on_the_way() == 0) {
            self.former = None;
        }
        self.former.is_none() && self.ring.have_left(n)
    }
    /// Takes the place of another one in a hot swap. Packets of its ring leave after those that were given
    /// before that.
    fn follow(&mut self, old: &mut Self) {
        let former = old.ring.former();
        let before = old.former.take();
        let all = [Some(former), before];
        self.former = all.into_iter().flatten().find(|former| former.on_the_way() > 0);
    }
    /// Passes waiting packets on, as far as the ring has space. Returns whether this worker has to wait for
    /// the other one.
    fn give(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if self.ring.push_many(&mut self.waiting) > 0 {
            cx.wake(self.worker);
        }
        if self.waiting.is_empty() {
            (self.since_ns, self.stalled) = (0, false);
            return false;
        }
        let now = cx.now_ns();
        if self.since_ns == 0 {
            self.since_ns = now;
        }
        self.stalled |= now.saturating_sub(self.since_ns) >= STALL_NS;
        if self.stalled {
            cx.drop_batch(self.waiting.drain(..).collect(), drops::WORKER_RING_FULL);
        }
        !self.stalled
    }
}

/// A change of the hash's key, or of the prefixes: the worker leaves packets in the device until those that
/// it has given away have left the other workers, because every flow may have another worker afterwards.
struct KeyChange {
    since_ns: u64,
    /// Since when they have left; 0: they have not.
    left_ns: u64,
}

/// Distributes flows over workers.
pub(in crate::devices) struct Spreader {
    flow_key: FlowKey,
    table: Arc<Indirection>,
    says: Arc<Poller>,
    /// Where packets of each bucket go: an index of `neighbors`, [`OWN`] or [`ON_ITS_WAY`].
    buckets: Vec<u16>,
    /// The same for each place of the table.
    places: Vec<u16>,
    /// This worker's own place, if it gets flows.
    own_place: Option<usize>,
    neighbors: Vec<Neighbor>,
    handover: Handover,
    /// Empty except while packets that have waited are passed on.
    gone: Vec<(u16, Packet)>,
    /// The versions of the table and of the key that were acted on.
    seen: u64,
    key_seen: u64,
    /// Whether buckets wait until others have moved.
    backlog: bool,
    key_change: Option<KeyChange>,
}

impl Spreader {
    /// Distributes the flows that this worker polls over the workers of the table. `burst` is the most
    /// packets that are distributed at a time.
    pub(in crate::devices) fn new(
        worker: usize,
        table: &Arc<Indirection>,
        exchange: &Arc<Exchange>,
        burst: usize,
    ) -> Self {
        let mut neighbors = Vec::new();
        let places: Vec<u16> = (table.workers().iter().enumerate())
            .map(|(place, &to)| {
                if to == worker {
                    return OWN;
                }
                neighbors.push(Neighbor {
                    worker: WorkerId(to),
                    place,
                    ring: exchange.producer(worker, to),
                    former: None,
                    waiting: Vec::new(),
                    waited: 0,
                    since_ns: 0,
                    stalled: false,
                });
                neighbors.len() as u16 - 1
            })
            .collect();
        let mut spreader = Self {
            flow_key: table.flow_key(),
            table: Arc::clone(table),
            says: table.poller(worker),
            buckets: Vec::new(),
            places,
            own_place: table.seat_of(worker),
            neighbors,
            handover: Handover::new(table.buckets(), burst),
            gone: Vec::with_capacity(HOLD + burst),
            seen: 0,
            key_seen: 0,
            backlog: false,
            key_change: None,
        };
        spreader.begin();
        spreader
    }
    /// Takes the table as it is, before the first packet.
    fn begin(&mut self) {
        let table = &self.table;
        (self.seen, self.key_seen) = (table.version(), table.key_version());
        self.flow_key = table.flow_key();
        let goes_to = |bucket| self.places[usize::from(table.place(bucket))];
        self.buckets = (0..table.buckets()).map(goes_to).collect();
        self.says.say(self.seen, 0, self.handover.moved);
    }
    /// Continues where the spreader of the configuration that is being replaced is, and ends that one.
    /// Buckets go where they went: what has changed in the table and has not begun, begins later, and packets
    /// that wait because their bucket is on its way go on waiting. `own` gets packets that are this worker's.
    pub(in crate::devices) fn take_over(
        &mut self,
        old: &mut Self,
        own: &mut VecDeque<Packet>,
        cx: &mut Cx<'_>,
    ) {
        let continues = self.table.continues(&old.table);
        let ours: Vec<Option<u16>> = (old.neighbors.iter())
            .map(|old| self.neighbors.iter().position(|new| new.worker == old.worker).map(|n| n as u16))
            .collect();
        let place =
            |at: u16| if at == OWN { Some(OWN) } else { ours.get(usize::from(at)).copied().flatten() };
        let moves = continues && self.handover.take_over(&mut old.handover, place);
        old.end(own, cx);
        self.table.adopt(&old.table);
        self.handover.moved = self.says.moved();
        self.begin();
        for old in &mut old.neighbors {
            let new = self.neighbors.iter_mut().find(|new| new.worker == old.worker);
            new.into_iter().for_each(|new| new.follow(old));
        }
        if !moves {
            return;
        }
        for (bucket, at) in self.buckets.iter_mut().zip(&old.buckets) {
            *bucket = place(*at).unwrap_or(*bucket);
        }
        self.handover.on_the_way().for_each(|bucket| self.buckets[usize::from(bucket)] = ON_ITS_WAY);
        self.backlog = true;
        if old.key_change.is_some() || self.table.key() != old.table.key() {
            self.flow_key = old.flow_key.clone();
            self.key_change = Some(KeyChange { since_ns: cx.now_ns(), left_ns: 0 });
        }
    }

    /// Begins with what has changed in the table, and ends what has begun; `own` gets packets that waited and
    /// that are this worker's now. To be called before other packets are distributed, in each run of the
    /// task.
    #[inline]
    pub(in crate::devices) fn look(&mut self, own: &mut VecDeque<Packet>, cx: &Cx<'_>) {
        if self.table.version() != self.seen || self.changes() {
            self.change(own, cx);
        }
    }
    /// Whether something is changing.
    fn changes(&self) -> bool {
        self.backlog || self.key_change.is_some() || !self.handover.is_idle()
    }
    #[cold]
    fn change(&mut self, own: &mut VecDeque<Packet>, cx: &Cx<'_>) {
        let now = cx.now_ns();
        let version = self.table.version();
        let empty = cx.downstream_empty(0);
        self.end_moves(own, empty, now);
        if self.seen != version || self.backlog {
            self.seen = version;
            if self.table.key_version() != self.key_seen && self.key_change.is_none() {
                self.key_change = Some(KeyChange { since_ns: now, left_ns: 0 });
            }
            self.begin_moves(now);
        }
        self.change_key(empty, now);
        let waits = self.handover.moves() + usize::from(self.key_change.is_some() || self.backlog);
        self.says.say(self.seen, waits, self.handover.moved);
    }
    fn end_moves(&mut self, own: &mut VecDeque<Packet>, empty: bool, now: u64) {
        let Self { handover, neighbors, buckets, gone, says, own_place, .. } = self;
        handover.advance(
            now,
            |moving| match neighbors.get_mut(usize::from(moving.from)) {
                Some(neighbor) => neighbor.have_left(moving.mark),
                // This worker has worked on them in earlier runs of the task.
                None => empty,
            },
            |moving| buckets[usize::from(moving.bucket)] = moving.to,
            |to, packet| gone.push((to, packet)),
        );
        for (to, packet) in gone.drain(..) {
            match neighbors.get_mut(usize::from(to)) {
                Some(neighbor) => {
                    says.give(neighbor.place, 1);
                    neighbor.waiting.push(packet);
                }
                None => {
                    own_place.iter().for_each(|place| says.give(*place, 1));
                    own.push_back(packet);
                }
            }
        }
    }
    fn begin_moves(&mut self, now: u64) {
        self.backlog = false;
        for bucket in 0..self.buckets.len() {
            let wanted = self.places[usize::from(self.table.place(bucket))];
            let goes_to = self.buckets[bucket];
            if goes_to == ON_ITS_WAY {
                self.backlog |= self.handover.goes_to(bucket as u16) != Some(wanted);
            } else if goes_to != wanted {
                let from = self.neighbors.get(usize::from(goes_to));
                let mark = from.map_or(0, Neighbor::given);
                let quick = from.is_none_or(|neighbor| neighbor.on_the_way() <= FEW);
                let most = if quick { MOST_QUICK } else { MOST_MOVES };
                if self.handover.begin(bucket as u16, (goes_to, wanted), mark, most, now) {
                    self.buckets[bucket] = ON_ITS_WAY;
                } else {
                    self.backlog = true;
                }
            }
        }
    }
    fn change_key(&mut self, empty: bool, now: u64) {
        let Some(change) = &mut self.key_change else { return };
        let gone = |n: &mut Neighbor| n.have_left(n.given());
        if change.left_ns == 0 && empty && self.handover.is_idle() && self.neighbors.iter_mut().all(gone) {
            change.left_ns = now.max(1);
        }
        let settled = change.left_ns > 0 && now.saturating_sub(change.left_ns) >= KEY_SETTLE_NS;
        if !settled && now.saturating_sub(change.since_ns) < KEY_PATIENCE_NS {
            return;
        }
        if !settled {
            let on_the_way = self.neighbors.iter().map(Neighbor::on_the_way).sum::<u64>();
            self.handover.moved.unordered += on_the_way + self.handover.len() as u64;
        }
        self.key_change = None;
        self.key_seen = self.table.key_version();
        self.flow_key = self.table.flow_key();
    }

    /// Gives a packet to a worker, whatever its flow is. A packet for this worker, or for one that none leads
    /// to, is returned.
    pub(super) fn give_to(&mut self, worker: usize, packet: Packet) -> Option<Packet> {
        match self.neighbors.iter_mut().find(|neighbor| neighbor.worker.0 == worker) {
            Some(neighbor) => {
                self.says.give(neighbor.place, 1);
                neighbor.waiting.push(packet);
            }
            None => {
                self.own_place.iter().for_each(|place| self.says.give(*place, 1));
                return Some(packet);
            }
        }
        None
    }
    /// Keeps this worker's own packets in the batch and passes the others on. Packets of a flow stay in
    /// order.
    pub(in crate::devices) fn spread(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let mut own = cx.spare_batch();
        for neighbor in &mut self.neighbors {
            neighbor.waited = neighbor.waiting.len();
        }
        for packet in batch.drain(..) {
            let bucket = self.flow_key.bucket(packet.data());
            self.says.count(bucket);
            match self.buckets[bucket] {
                OWN => own.push(packet),
                ON_ITS_WAY => self.handover.hold(bucket as u16, packet),
                n => self.neighbors[usize::from(n)].waiting.push(packet),
            }
        }
        std::mem::swap(batch, &mut own);
        cx.recycle(own);
        self.own_place.iter().for_each(|place| self.says.give(*place, batch.len()));
        for neighbor in &self.neighbors {
            self.says.give(neighbor.place, neighbor.waiting.len() - neighbor.waited);
        }
        self.give(cx);
    }
    /// Passes waiting packets on, as far as the rings have space. Returns whether this worker has to wait for
    /// another one, or has no place for more packets.
    pub(in crate::devices) fn give(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut held_up = self.key_change.is_some();
        for (n, neighbor) in self.neighbors.iter_mut().enumerate() {
            held_up |= neighbor.give(cx);
            if neighbor.stalled {
                self.handover.cut(n as u16, neighbor.given());
            }
        }
        held_up || self.handover.is_full()
    }
    /// Whether packets for other workers wait here, or something is changing.
    pub(in crate::devices) fn owes(&self) -> bool {
        self.changes() || self.neighbors.iter().any(|n| !n.waiting.is_empty())
    }
    /// Packets in the rings to other workers, and those that wait here.
    pub(in crate::devices) fn handed(&self) -> usize {
        let of_neighbors: usize = self.neighbors.iter().map(|n| n.ring.len() + n.waiting.len()).sum();
        of_neighbors + self.handover.len()
    }
    /// Passes all packets on, because another element takes over: packets for which a ring is full are
    /// dropped. `own` gets those that are this worker's.
    pub(in crate::devices) fn end(&mut self, own: &mut VecDeque<Packet>, cx: &mut Cx<'_>) {
        let neighbors = &mut self.neighbors;
        self.handover.end(|to, packet| match neighbors.get_mut(usize::from(to)) {
            Some(neighbor) => neighbor.waiting.push(packet),
            None => own.push_back(packet),
        });
        for neighbor in &mut self.neighbors {
            neighbor.ring.push_many(&mut neighbor.waiting);
            let rest: Batch = neighbor.waiting.drain(..).collect();
            if !rest.is_empty() {
                cx.drop_batch(rest, drops::WORKER_RING_FULL);
            }
        }
        self.says.say(self.seen, 0, self.handover.moved);
    }
}
