//! The device's own indirection table (RETA), where the device distributes flows over receive queues and each
//! worker has one of its own: what its workers and the rebalancer tell each other of it. The control thread
//! alone changes it; what workers do meanwhile is in `devicemoves.rs`.
//!
//! A change is announced first, so that workers hold packets of buckets that come to them, then made in the
//! device, then said to be done, so that workers see when their queues have no earlier packets any more.

use super::handover::Moved;
use super::indirection::Readings;
use locks::IgnorePoison;
use runtime::Lanes;
use std::fmt::Write;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tables::toeplitz::Toeplitz;

/// In place of a worker's place: none.
const NONE: u16 = u16::MAX;
/// Packets of an interval that are looked at, about: more bursts are skipped if there were more.
const LOOKED_AT: u64 = 4096;
/// At least one burst of so many is looked at, as a power of two.
const MOST_SKIPPED: u64 = 12;
/// Keys that are kept after they have been replaced, so that no worker has to free their memory.
const OLD_KEYS: usize = 3;

#[inline]
fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// What a worker says; it alone writes.
#[repr(align(128))]
pub(super) struct Says {
    /// Packets that it has looked at; those of each bucket among them.
    looked_at: AtomicU64,
    packets: Box<[AtomicU64]>,
    /// Those whose bucket belongs to another worker, or whose hash is not to be had.
    strays: AtomicU64,
    busy_cycles: AtomicU64,
    /// The last change before which all its packets have left it, and the last with which it is finished.
    pub(super) left: AtomicU64,
    pub(super) finished: AtomicU64,
    /// As in [`Moved`].
    buckets: AtomicU64,
    held: AtomicU64,
    unordered: AtomicU64,
}

impl Says {
    fn new(buckets: usize) -> Self {
        let none = AtomicU64::default;
        Self {
            looked_at: none(),
            packets: (0..buckets).map(|_| none()).collect(),
            strays: none(),
            busy_cycles: none(),
            left: none(),
            finished: none(),
            buckets: none(),
            held: none(),
            unordered: none(),
        }
    }
    #[inline]
    pub(super) fn count(&self, bucket: usize) {
        if let Some(packets) = self.packets.get(bucket) {
            add(packets, 1);
        }
    }
    #[inline]
    pub(super) fn looks_at(&self, packets: usize) {
        add(&self.looked_at, packets as u64);
    }
    #[inline]
    pub(super) fn stray(&self) {
        add(&self.strays, 1);
    }
    #[inline]
    pub(super) fn add_busy(&self, cycles: u64) {
        add(&self.busy_cycles, cycles);
    }
    /// What has become of buckets that came to it.
    pub(super) fn add_moved(&self, moved: Moved) {
        add(&self.buckets, moved.buckets);
        add(&self.held, moved.held);
        add(&self.unordered, moved.unordered);
    }
    pub(super) fn moved(&self) -> Moved {
        let get = |v: &AtomicU64| v.load(Ordering::Relaxed);
        Moved { buckets: get(&self.buckets), held: get(&self.held), unordered: get(&self.unordered) }
    }
}

/// How it stands: how many bursts are skipped, and which change was made last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signal(u64);

impl Signal {
    /// Of so many bursts, as a power of two, one is looked at; `None`: the rebalancer is off.
    fn new(step: u64, skipped: Option<u64>) -> Self {
        Self(step << 8 | skipped.map_or(0, |skipped| skipped + 1))
    }
    /// Whether anything is looked at.
    #[inline]
    pub(super) fn is_on(self) -> bool {
        self.0 & 0xff != 0
    }
    #[inline]
    pub(super) fn skipped(self) -> Option<u64> {
        (self.0 & 0xff).checked_sub(1)
    }
    /// Whether the burst of this number is one that is looked at.
    #[inline]
    pub(super) fn looks_at(self, burst: u64) -> bool {
        self.skipped().is_some_and(|skipped| burst & ((1 << skipped) - 1) == 0)
    }
    fn step(self) -> u64 {
        self.0 >> 8
    }
    /// The number of the last change, and whether the device has made it.
    pub(super) fn change(self) -> (u64, bool) {
        (self.step().div_ceil(2), self.step().is_multiple_of(2))
    }
}

/// The table of one port.
pub(in crate::devices) struct DeviceTable {
    /// The workers that poll, and the first queue of each.
    workers: Vec<usize>,
    queues: Vec<u16>,
    /// The place in `workers` of each queue's worker.
    places: Vec<u16>,
    /// The queue of each bucket, as the device has it.
    reta: Mutex<Vec<u16>>,
    /// The place of the worker that has each bucket, and of the one that had it before the last change if
    /// that was another one.
    entries: Box<[AtomicU16]>,
    came_from: Box<[AtomicU16]>,
    signal: AtomicU64,
    /// The hash with the present key first; empty if the driver does not show the key.
    keys: Mutex<Vec<Arc<Toeplitz>>>,
    key_version: AtomicU64,
    says: Vec<Says>,
}

impl DeviceTable {
    /// The table of a device with so many buckets.
    pub(super) fn new(lanes: &Lanes, buckets: usize) -> Self {
        let workers: Vec<usize> = lanes.pollers().collect();
        let queues_of = |worker: &usize| lanes.poll.get(*worker).map_or(&[][..], Vec::as_slice);
        let last = workers.iter().flat_map(queues_of).max().map_or(0, |queue| usize::from(*queue) + 1);
        let mut places = vec![NONE; last];
        for (place, worker) in (0..).zip(&workers) {
            queues_of(worker).iter().for_each(|queue| places[usize::from(*queue)] = place);
        }
        Self {
            queues: workers.iter().filter_map(|worker| queues_of(worker).first().copied()).collect(),
            places,
            reta: Mutex::default(),
            entries: (0..buckets).map(|_| AtomicU16::new(NONE)).collect(),
            came_from: (0..buckets).map(|_| AtomicU16::new(NONE)).collect(),
            signal: AtomicU64::new(0),
            keys: Mutex::default(),
            key_version: AtomicU64::new(0),
            says: workers.iter().map(|_| Says::new(buckets)).collect(),
            workers,
        }
    }
    pub(super) fn workers(&self) -> &[usize] {
        &self.workers
    }
    pub(super) fn buckets(&self) -> usize {
        self.entries.len()
    }
    /// The place of a worker that polls.
    pub(super) fn place_of(&self, worker: usize) -> Option<usize> {
        self.workers.iter().position(|one| *one == worker)
    }
    /// What the worker of a place says.
    #[inline]
    pub(super) fn says(&self, place: usize) -> &Says {
        &self.says[place]
    }
    #[inline]
    pub(super) fn signal(&self) -> Signal {
        Signal(self.signal.load(Ordering::Acquire))
    }
    /// Whether the worker of a place has a bucket.
    #[inline]
    pub(super) fn has(&self, place: usize, bucket: usize) -> bool {
        self.entries.get(bucket).is_some_and(|entry| usize::from(entry.load(Ordering::Relaxed)) == place)
    }
    /// The place that a bucket has come from by the last change.
    #[inline]
    pub(super) fn came_from(&self, bucket: usize) -> Option<usize> {
        let from = self.came_from.get(bucket)?.load(Ordering::Relaxed);
        (from != NONE).then_some(usize::from(from))
    }
    /// The hash with the device's key; none if its driver does not show the key.
    pub(super) fn hash(&self) -> Option<Arc<Toeplitz>> {
        self.keys.lock().ignore_poison().first().cloned()
    }
    pub(super) fn key_version(&self) -> u64 {
        self.key_version.load(Ordering::Acquire)
    }

    // What follows is for the control thread.

    fn say(&self, signal: Signal) {
        self.signal.store(signal.0, Ordering::Release);
    }
    /// Whether bursts are looked at.
    pub(super) fn switch(&self, on: bool) {
        let now = self.signal();
        if now.is_on() != on {
            self.say(Signal::new(now.step(), on.then_some(0)));
        }
    }
    /// In an interval so many packets were looked at: more or fewer bursts are skipped from now on.
    pub(super) fn adapt(&self, looked_at: u64) {
        let now = self.signal();
        let Some(skipped) = now.skipped() else { return };
        let next = match looked_at {
            many if many > 2 * LOOKED_AT => (skipped + 1).min(MOST_SKIPPED),
            few if few < LOOKED_AT / 2 => skipped.saturating_sub(1),
            _ => skipped,
        };
        if next != skipped {
            self.say(Signal::new(now.step(), Some(next)));
        }
    }
    /// Learns the key.
    pub(super) fn set_key(&self, key: Option<&[u8]>) {
        let mut keys = self.keys.lock().ignore_poison();
        match key {
            Some(key) => keys.insert(0, Arc::new(Toeplitz::new(key))),
            None => keys.clear(),
        }
        self.key_version.fetch_add(1, Ordering::Release);
        keys.truncate(1 + OLD_KEYS);
    }
    /// Learns the table: the queue of each bucket.
    ///
    /// # Errors
    /// It has another length, or names a queue that no worker polls.
    pub(super) fn learn(&self, reta: Vec<u16>) -> Result<(), String> {
        if reta.len() != self.buckets() {
            return Err(format!("the device's table had {} entries, and has {}", self.buckets(), reta.len()));
        }
        let place = |queue: &u16| self.places.get(usize::from(*queue)).copied().filter(|p| *p != NONE);
        if let Some(queue) = reta.iter().find(|queue| place(queue).is_none()) {
            return Err(format!(
                "the device's table has queue {queue}, which no worker polls for this element"
            ));
        }
        for (entry, queue) in self.entries.iter().zip(&reta) {
            entry.store(place(queue).unwrap_or(NONE), Ordering::Relaxed);
        }
        *self.reta.lock().ignore_poison() = reta;
        Ok(())
    }
    /// Announces that buckets go to other workers: pairs of a bucket and a place. Returns the table that the
    /// device is to get.
    pub(super) fn announce(&self, changes: &[(usize, u16)]) -> Vec<u16> {
        self.came_from.iter().for_each(|from| from.store(NONE, Ordering::Relaxed));
        let mut reta = self.reta.lock().ignore_poison().clone();
        for &(bucket, to) in changes {
            let (Some(entry), Some(from)) = (self.entries.get(bucket), self.came_from.get(bucket)) else {
                continue;
            };
            let before = entry.swap(to, Ordering::Relaxed);
            from.store(if before == to { NONE } else { before }, Ordering::Relaxed);
            if let (Some(queue), Some(new)) = (reta.get_mut(bucket), self.queues.get(usize::from(to))) {
                *queue = *new;
            }
        }
        self.next_step();
        reta
    }
    /// The device has this table now.
    pub(super) fn done(&self, reta: Vec<u16>) {
        *self.reta.lock().ignore_poison() = reta;
        self.next_step();
    }
    /// The device has refused it.
    pub(super) fn withdraw(&self) {
        for (entry, from) in self.entries.iter().zip(&self.came_from) {
            let before = from.swap(NONE, Ordering::Relaxed);
            if before != NONE {
                entry.store(before, Ordering::Relaxed);
            }
        }
        self.next_step();
    }
    fn next_step(&self) {
        let now = self.signal();
        self.say(Signal::new(now.step() + 1, now.skipped()));
    }

    /// What all workers say now.
    pub(super) fn readings(&self) -> Readings {
        let get = |v: &AtomicU64| v.load(Ordering::Relaxed);
        let (change, _) = self.signal().change();
        let mut readings = Readings {
            packets: vec![0; self.buckets()],
            awake: self.workers.len(),
            table: self.entries.iter().map(|entry| entry.load(Ordering::Relaxed)).collect(),
            busy_cycles: self.says.iter().map(|says| get(&says.busy_cycles)).collect(),
            ..Readings::default()
        };
        for says in &self.says {
            readings.packets.iter_mut().zip(&says.packets).for_each(|(sum, packets)| *sum += get(packets));
            readings.looked_at += get(&says.looked_at);
            readings.strays += get(&says.strays);
            let moved = says.moved();
            readings.moved.buckets += moved.buckets;
            readings.moved.held += moved.held;
            readings.moved.unordered += moved.unordered;
            readings.moving |= says.finished.load(Ordering::Acquire) < change;
        }
        readings
    }
    /// A line for each bucket of which packets have been looked at: the bucket, its worker, the packets,
    /// separated by tabs.
    pub(super) fn buckets_text(&self) -> String {
        let readings = self.readings();
        let mut text = String::new();
        for (bucket, (packets, place)) in readings.packets.iter().zip(&readings.table).enumerate() {
            if let Some(worker) = self.workers.get(usize::from(*place)).filter(|_| *packets > 0) {
                let _ = writeln!(text, "{bucket}\t{worker}\t{packets}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> DeviceTable {
        let lanes = Lanes { poll: vec![vec![0, 2], vec![], vec![1]], ..Lanes::default() };
        let table = DeviceTable::new(&lanes, 4);
        table.learn(vec![0, 1, 2, 1]).unwrap();
        table
    }

    #[test]
    fn buckets_belong_to_the_workers_of_their_queues() {
        let table = table();
        assert_eq!((table.workers(), table.readings().table), (&[0, 2][..], vec![0, 1, 0, 1]));
        assert!(table.has(0, 2) && !table.has(1, 2) && !table.has(0, 99));
        assert!(table.learn(vec![0; 3]).unwrap_err().contains("had 4 entries, and has 3"));
        assert!(table.learn(vec![0, 1, 3, 1]).unwrap_err().contains("has queue 3"));
        table.says(1).count(3);
        table.says(1).count(99);
        assert_eq!(table.buckets_text(), "3\t2\t1\n");
    }

    #[test]
    fn a_change_is_announced_made_and_done() {
        let table = table();
        assert_eq!(table.signal().change(), (0, true));
        let reta = table.announce(&[(2, 1), (3, 0)]);
        assert_eq!(reta, [0, 1, 1, 0], "the queue of a worker that has several is its first");
        assert_eq!((table.came_from(2), table.came_from(3), table.came_from(0)), (Some(0), Some(1), None));
        assert_eq!(table.signal().change(), (1, false));
        assert!(table.readings().moving);
        table.done(reta);
        assert_eq!(table.signal().change(), (1, true));
        (0..2).for_each(|place| table.says(place).finished.store(1, Ordering::Relaxed));
        assert!(!table.readings().moving);
        // Refused: as it was.
        assert_eq!(table.announce(&[(0, 1)]), [1, 1, 1, 0]);
        table.withdraw();
        assert_eq!((table.signal().change(), table.readings().table), ((2, true), vec![0, 1, 1, 0]));
        assert_eq!((table.came_from(0), table.announce(&[])), (None, vec![0, 1, 1, 0]));
    }

    #[test]
    fn the_more_packets_the_fewer_bursts_are_looked_at() {
        let table = table();
        assert!(!table.signal().is_on() && !table.signal().looks_at(0));
        table.adapt(1 << 20);
        assert!(!table.signal().is_on());
        table.switch(true);
        assert!((0..9).all(|burst| table.signal().looks_at(burst)));
        (0..2).for_each(|_| table.adapt(3 * LOOKED_AT));
        assert_eq!((0..9).filter(|burst| table.signal().looks_at(*burst)).count(), 3);
        (0..100).for_each(|_| table.adapt(3 * LOOKED_AT));
        assert_eq!(table.signal().skipped(), Some(MOST_SKIPPED));
        (0..100).for_each(|_| table.adapt(0));
        assert_eq!(table.signal().skipped(), Some(0));
        table.announce(&[]);
        assert_eq!((table.signal().skipped(), table.signal().change()), (Some(0), (1, false)));
        table.switch(false);
        assert_eq!((table.signal().is_on(), table.signal().change()), (false, (1, false)));
    }
}
