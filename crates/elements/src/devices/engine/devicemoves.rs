//! What a worker does where the device distributes flows by a table that the rebalancer changes: it counts
//! the packets of the buckets, of a part of its bursts, and keeps flows in order when buckets move.
//!
//! A packet of a bucket that has come from another worker waits here until the packets that were in the other
//! worker's queue have left it: until that queue has been empty once after the change, and so have the queues
//! behind that worker. How many wait, and for how long, is bounded; what could not wait is counted.

use super::devicetable::{DeviceTable, Signal};
use super::handover::Moved;
use super::rss::known_flow_hash;
use crate::prelude::*;
use runtime::WorkerId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tables::toeplitz::Toeplitz;

/// Packets that may wait at a worker. If more come, all go.
pub(super) const HOLD: usize = 512;
/// For how long packets wait at most, as where flows are spread in software (`handover.rs`).
const PATIENCE_NS: u64 = 100_000_000;
/// How long after the packets have left a worker's queues the new one begins, and after how many runs of its
/// task: until they have also left the transmit queue (`handover.rs`).
const SETTLE_NS: u64 = 200_000;
const SETTLE_RUNS: u8 = 4;
/// For how long after the change packets may still get into the old queue: those that the device was working
/// on. A guess, which is long for a NIC.
const IN_DEVICE_NS: u64 = 100_000;
/// A queue that is never empty has no earlier packets after so many: no driver's ring is longer.
const LONGEST_RING: u64 = 32_768;

/// The part of a worker.
pub(super) struct Follower {
    table: Arc<DeviceTable>,
    place: usize,
    seen: Signal,
    bursts: u64,
    hash: Option<Arc<Toeplitz>>,
    key_version: u64,
    /// When the last run of the task began, by the time stamp counter; 0: it has found no packets.
    busy_since: u64,
    /// The last change that it knows, and whether it is finished with it.
    change: u64,
    moving: bool,
    since_ns: u64,
    /// Since when the device has made it; 0: it has not.
    done_ns: u64,
    /// Packets that have been polled since, whether those before the change have been, since when they have
    /// left the queues behind this element, for how many runs, and whether they have left the worker.
    polled: u64,
    emptied: bool,
    left_ns: u64,
    runs: u8,
    left: bool,
    /// The places that buckets have come from, and whether packets wait for these.
    sources: Box<[bool]>,
    waits: bool,
    held: VecDeque<Packet>,
}

/// What is known of a packet.
enum Known {
    Bucket(usize),
    /// Its bucket is not by a flow's hash.
    NoFlow,
    /// The device says no hash, and the driver no key.
    Nothing,
}

impl Follower {
    /// Follows the table for a worker that polls.
    pub(super) fn new(table: &Arc<DeviceTable>, worker: usize) -> Option<Self> {
        Some(Self {
            place: table.place_of(worker)?,
            seen: Signal::default(),
            bursts: 0,
            hash: None,
            key_version: 0,
            busy_since: 0,
            change: 0,
            moving: false,
            since_ns: 0,
            done_ns: 0,
            polled: 0,
            emptied: false,
            left_ns: 0,
            runs: 0,
            left: false,
            sources: table.workers().iter().map(|_| false).collect(),
            waits: false,
            held: VecDeque::new(),
            table: Arc::clone(table),
        })
    }
    /// Whether there is anything to do.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.moving || self.table.signal().is_on()
    }
    /// Whether buckets are on their way.
    #[inline]
    pub(super) fn is_moving(&self) -> bool {
        self.moving
    }
    /// Whether packets wait here, or for this worker.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.moving
    }
    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
    /// A run of the task begins; the last one is over.
    #[inline]
    pub(super) fn begins(&mut self, cycles: u64) {
        if self.busy_since != 0 {
            self.table.says(self.place).add_busy(cycles.saturating_sub(self.busy_since));
        }
    }
    /// The run that began then has found packets, or not.
    #[inline]
    pub(super) fn ran(&mut self, began: u64, moved: bool) {
        // The time for which it is off does not count.
        self.busy_since = if moved && self.seen.is_on() { began } else { 0 };
    }

    /// A burst has been polled, which may be empty. `short`: the queues were empty then. Removes packets that
    /// have to wait, and gives them the time of their arrival if they are to have a `stamp`.
    // The signal is read after the burst: a packet that has come by a change finds the change announced.
    #[inline]
    pub(super) fn polled(&mut self, batch: &mut Batch, short: bool, stamp: bool, cx: &Cx<'_>) {
        let signal = self.table.signal();
        if signal == self.seen && !self.moving {
            return self.sample(batch);
        }
        let before = self.held.len();
        let now = cx.now_ns();
        for place in self.follow(signal, batch, short, now) {
            cx.wake(WorkerId(self.table.workers()[place]));
        }
        if stamp {
            self.held.iter_mut().skip(before).for_each(|packet| packet.set_timestamp_ns(now));
        }
    }
    fn known(&self, packet: &Packet) -> Known {
        match (packet.rss_hash(), &self.hash) {
            (Some(hash), _) => Known::Bucket(hash as usize % self.table.buckets().max(1)),
            (None, None) => Known::Nothing,
            (None, Some(hash)) => known_flow_hash(&**hash, packet.data())
                .map_or(Known::NoFlow, |hash| Known::Bucket(hash as usize % self.table.buckets().max(1))),
        }
    }
    /// Counts the packets of this burst, or skips it.
    #[inline]
    fn sample(&mut self, batch: &Batch) {
        self.bursts = self.bursts.wrapping_add(1);
        if self.seen.looks_at(self.bursts) {
            self.look_at(batch);
        }
    }
    /// Counts packets. While buckets move, those of a bucket that has just gone are no strays.
    fn look_at(&mut self, batch: &Batch) {
        if batch.is_empty() {
            return;
        }
        self.learn_key();
        let says = self.table.says(self.place);
        says.looks_at(batch.len());
        for packet in batch.iter() {
            match self.known(packet) {
                Known::Bucket(bucket)
                    if self.table.has(self.place, bucket)
                        || self.moving && self.table.came_from(bucket) == Some(self.place) =>
                {
                    says.count(bucket);
                }
                Known::Bucket(_) | Known::Nothing => says.stray(),
                Known::NoFlow => {}
            }
        }
    }
    #[inline]
    fn learn_key(&mut self) {
        let version = self.table.key_version();
        if version != self.key_version {
            self.key_version = version;
            self.hash = self.table.hash();
        }
    }

    /// The same for a burst while buckets move. Returns the places of workers that are to be woken, because
    /// packets wait for them.
    #[cold]
    fn follow(&mut self, signal: Signal, batch: &mut Batch, short: bool, now: u64) -> Vec<usize> {
        let mut wake = Vec::new();
        let (change, done) = signal.change();
        self.seen = signal;
        if change != self.change {
            self.end_early();
            self.begin(change, now);
            wake = (0..self.sources.len()).filter(|place| self.sources[*place]).collect();
        }
        self.sample(batch);
        if !self.moving {
            return wake;
        }
        if self.done_ns == 0 {
            // This burst may have begun before the device made the change.
            self.done_ns = if done { now.max(1) } else { 0 };
        } else if now.saturating_sub(self.done_ns) >= IN_DEVICE_NS {
            self.polled += batch.len() as u64;
            self.emptied |= short || self.polled >= LONGEST_RING;
        }
        if self.waits {
            self.learn_key();
            let mut held = std::mem::take(&mut self.held);
            batch.filter_map_in_place(|packet| match self.known(&packet) {
                Known::Bucket(b) if self.table.has(self.place, b) && self.table.came_from(b).is_some() => {
                    held.push_back(packet);
                    None
                }
                _ => Some(packet),
            });
            self.held = held;
        }
        wake
    }
    /// A change begins.
    fn begin(&mut self, change: u64, now: u64) {
        self.change = change;
        (self.since_ns, self.done_ns, self.left_ns, self.polled) = (now, 0, 0, 0);
        (self.emptied, self.runs, self.left, self.moving) = (false, 0, true, true);
        self.sources.fill(false);
        let mut buckets = 0;
        for bucket in 0..self.table.buckets() {
            let Some(from) = self.table.came_from(bucket) else { continue };
            if from == self.place {
                self.left = false;
            } else if self.table.has(self.place, bucket)
                && let Some(source) = self.sources.get_mut(from)
            {
                *source = true;
                buckets += 1;
            }
        }
        // Packets of the change before go as soon as they can.
        self.waits = buckets > 0 || !self.held.is_empty();
        self.table.says(self.place).add_moved(Moved { buckets, ..Moved::default() });
        self.finish();
    }
    fn finish(&mut self) {
        if self.left && !self.waits {
            self.moving = false;
            self.table.says(self.place).finished.store(self.change, Ordering::Release);
        }
    }

    /// Sees, at the beginning of a run, how far the change is. `empty`: all packets of earlier runs have left
    /// the queues behind this element. Packets that need not wait any longer go to `arrived`.
    #[cold]
    pub(super) fn look(&mut self, empty: bool, now: u64, arrived: &mut VecDeque<Packet>) {
        let waited = now.saturating_sub(self.since_ns);
        if self.left_ns != 0 {
            self.runs = self.runs.saturating_add(1);
        } else if self.emptied && empty {
            self.left_ns = now.max(1);
        }
        let settled = self.runs >= SETTLE_RUNS && now.saturating_sub(self.left_ns) >= SETTLE_NS;
        if !self.left && settled {
            self.left = true;
            self.table.says(self.place).left.store(self.change, Ordering::Release);
        }
        if waited >= PATIENCE_NS {
            // Who waits for this worker has the same patience.
            self.left = true;
        }
        if self.waits {
            let (table, change) = (&self.table, self.change);
            let left = |(place, _): (usize, &bool)| table.says(place).left.load(Ordering::Acquire) >= change;
            let ordered = self.sources.iter().enumerate().filter(|(_, one)| **one).all(left);
            if ordered || waited >= PATIENCE_NS || self.held.len() > HOLD {
                self.let_go(ordered, arrived);
            }
        }
        self.finish();
    }
    /// Packets no longer wait.
    fn let_go(&mut self, ordered: bool, arrived: &mut VecDeque<Packet>) {
        let held = self.held.len() as u64;
        // Also if none has waited, the next one may overtake others.
        let unordered = if ordered { 0 } else { held.max(1) };
        self.table.says(self.place).add_moved(Moved { buckets: 0, held, unordered });
        self.waits = false;
        arrived.append(&mut self.held);
    }
    /// Another change begins before this one is over.
    fn end_early(&mut self) {
        if self.waits {
            let held = self.held.len() as u64;
            self.table.says(self.place).add_moved(Moved { buckets: 0, held: 0, unordered: held.max(1) });
        }
    }
    /// Continues for a worker of the configuration that is being replaced: packets that wait there go.
    pub(super) fn take_over(&mut self, old: &mut Self, arrived: &mut VecDeque<Packet>) {
        old.end(arrived);
        self.table.says(self.place).add_moved(old.table.says(old.place).moved());
    }
    /// Lets packets go that wait.
    pub(super) fn end(&mut self, arrived: &mut VecDeque<Packet>) {
        if self.waits {
            self.let_go(false, arrived);
        }
        arrived.append(&mut self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::Lanes;

    const MS: u64 = 1_000_000;

    /// A table of four buckets, which two workers have in turn; bucket 0 has been announced to go to worker 1.
    fn announced() -> (Arc<DeviceTable>, Follower, Follower, Vec<u16>) {
        let lanes = Lanes { poll: vec![vec![0], vec![1]], ..Lanes::default() };
        let table = Arc::new(DeviceTable::new(&lanes, 4));
        table.learn(vec![0, 1, 0, 1]).unwrap();
        table.switch(true);
        let [old, new] = [0, 1].map(|worker| Follower::new(&table, worker).unwrap());
        let reta = table.announce(&[(0, 1)]);
        (table, old, new, reta)
    }
    fn burst(hashes: &[u32]) -> Batch {
        let mut batch = Batch::with_capacity(8);
        for hash in hashes {
            let mut packet = Packet::from_bytes(b"a packet").unwrap();
            packet.set_rss_hash(*hash);
            batch.push(packet);
        }
        batch
    }
    /// The hashes of what a worker may work on of a burst.
    fn polled(follower: &mut Follower, hashes: &[u32], short: bool, now: u64) -> Vec<u32> {
        let mut batch = burst(hashes);
        follower.follow(follower.table.signal(), &mut batch, short, now);
        batch.iter().filter_map(Packet::rss_hash).collect()
    }
    fn arrived(follower: &mut Follower, empty: bool, now: u64) -> Vec<u32> {
        let mut arrived = VecDeque::new();
        follower.look(empty, now, &mut arrived);
        arrived.iter().filter_map(Packet::rss_hash).collect()
    }
    fn moved(table: &DeviceTable) -> (u64, u64, u64) {
        let moved = table.readings().moved;
        (moved.buckets, moved.held, moved.unordered)
    }

    #[test]
    fn packets_wait_until_those_before_them_have_left_the_old_worker() {
        let (table, mut old, mut new, reta) = announced();
        // Bucket 0 waits, also where it has a larger hash; bucket 1 has always been here.
        assert_eq!(polled(&mut new, &[0, 1, 4, 3], true, MS), [1, 3]);
        assert_eq!(polled(&mut old, &[0, 2], true, MS), [0, 2]);
        assert_eq!(old.follow(table.signal(), &mut burst(&[]), true, MS), [0usize; 0]);
        table.done(reta);
        // This poll may have begun before; the next one is too early; and then the queue is not empty.
        assert_eq!(polled(&mut old, &[0], true, MS), [0]);
        assert_eq!(polled(&mut old, &[0], true, MS + IN_DEVICE_NS - 1), [0]);
        assert_eq!(polled(&mut old, &[0], false, 2 * MS), [0]);
        assert!(arrived(&mut old, true, 2 * MS).is_empty() && old.is_moving());
        polled(&mut old, &[0], true, 2 * MS);
        assert!(arrived(&mut old, false, 2 * MS).is_empty() && old.is_moving(), "it has not left the queues");
        assert!(arrived(&mut new, true, 3 * MS).is_empty());
        (0..=SETTLE_RUNS).for_each(|_| assert!(arrived(&mut old, true, 3 * MS).is_empty()));
        assert!(old.is_moving(), "it may be in the transmit queue");
        assert_eq!(polled(&mut new, &[8], true, 3 * MS), [0u32; 0]);
        assert!(arrived(&mut new, true, 3 * MS).is_empty() && new.is_moving());
        arrived(&mut old, false, 3 * MS + SETTLE_NS);
        assert!(!old.is_moving());
        assert_eq!(arrived(&mut new, true, 4 * MS), [0, 4, 8]);
        assert!(!new.is_moving() && !table.readings().moving);
        assert_eq!((moved(&table), polled(&mut new, &[0], true, 5 * MS)), ((1, 3, 0), vec![0]));
        // All have been counted, and where they were is where they should have been.
        let readings = table.readings();
        assert_eq!((readings.packets, readings.strays), (vec![9, 1, 1, 1], 0));
    }

    #[test]
    fn what_has_waited_too_long_goes_and_is_counted() {
        let (table, mut old, mut new, reta) = announced();
        polled(&mut new, &[0, 4], true, MS);
        polled(&mut old, &[], true, MS);
        table.done(reta);
        assert!(arrived(&mut new, true, MS + PATIENCE_NS - 1).is_empty());
        assert_eq!(arrived(&mut new, true, MS + PATIENCE_NS), [0, 4]);
        arrived(&mut old, false, MS + PATIENCE_NS);
        assert!(!old.is_moving(), "nobody waits for it any more");
        assert_eq!(moved(&table), (1, 2, 2));
    }

    #[test]
    fn what_waits_is_bounded_and_goes_before_its_time() {
        let (table, _, mut new, _) = announced();
        polled(&mut new, &[0; HOLD], false, MS);
        assert!(arrived(&mut new, true, MS).is_empty());
        polled(&mut new, &[0], false, MS);
        assert_eq!((arrived(&mut new, true, MS).len(), moved(&table)), (HOLD + 1, (1, 513, 513)));
    }

    #[test]
    fn a_full_queue_has_no_earlier_packets_after_a_whole_ring() {
        let (table, mut old, _, reta) = announced();
        table.done(reta);
        polled(&mut old, &[], false, MS);
        old.polled = LONGEST_RING - 1;
        polled(&mut old, &[0], false, 2 * MS);
        (0..=SETTLE_RUNS).for_each(|run| drop(arrived(&mut old, true, (2 + u64::from(run)) * MS)));
        assert!(!old.is_moving());
    }

    #[test]
    fn another_change_and_a_hot_swap_lose_nothing() {
        let (table, _, mut new, reta) = announced();
        polled(&mut new, &[0], true, MS);
        table.done(reta);
        let reta = table.announce(&[(2, 1)]);
        table.done(reta);
        assert_eq!(polled(&mut new, &[0, 2], true, 2 * MS), [0], "bucket 2 waits now");
        let (other, _, mut successor, _) = announced();
        let mut gone = VecDeque::new();
        successor.take_over(&mut new, &mut gone);
        assert_eq!((gone.len(), new.owes(), new.len()), (2, true, 0));
        assert_eq!(moved(&other), (2, 2, 3));
    }

    #[test]
    fn packets_of_other_workers_buckets_are_strays() {
        let (table, _, mut new, reta) = announced();
        table.done(reta);
        let mut batch = burst(&[0, 1, 2, 5]);
        batch.push(Packet::from_bytes(b"no hash").unwrap());
        new.look_at(&batch);
        let readings = table.readings();
        assert_eq!((readings.packets, readings.strays, readings.looked_at), (vec![1, 2, 0, 0], 2, 5));
        // With the key, the router computes the hash: here of what is no flow.
        table.set_key(Some(&[1; 40]));
        new.look_at(&batch);
        assert_eq!(table.readings().strays, 3);
    }
}
