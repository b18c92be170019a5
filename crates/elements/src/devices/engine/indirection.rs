//! The indirection table of receive-side scaling in software: which worker has the packets of which bucket,
//! where a packet's bucket is its hash modulo the number of buckets, or that of its destination's prefix. It
//! changes while packets flow: whoever
//! changes it writes entries and then a new version; the workers that poll compare the version once for each
//! poll, and hand buckets over one by one (`handover.rs`), without a lock.

use super::division::Division;
use super::flowkey::{BUCKETS, FlowKey};
use super::handover::Moved;
use locks::IgnorePoison;
use runtime::Lanes;
use std::fmt::Write;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tables::toeplitz::Toeplitz;

/// What a worker that polls says; it alone writes.
#[repr(align(128))]
pub(super) struct Poller {
    pub(super) worker: usize,
    /// Packets of each bucket since the start.
    packets: Box<[AtomicU64]>,
    /// Packets for each place since the start.
    given: Box<[AtomicU64]>,
    /// The last version that it has acted on, and buckets that are on their way.
    seen: AtomicU64,
    on_the_way: AtomicU64,
    /// As in [`Moved`].
    buckets: AtomicU64,
    held: AtomicU64,
    unordered: AtomicU64,
    /// How often it has woken workers; when that was last (nanoseconds of the router's clock), and how busy a
    /// worker was, in millionths of the time.
    pub(super) wakes: AtomicU64,
    pub(super) woke_ns: AtomicU64,
    pub(super) woke_at_load: AtomicU64,
}

/// What a worker that packets are given to says; it alone writes.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Seat {
    /// Packets that it has had.
    packets: AtomicU64,
    /// Cycles of the time stamp counter for which it worked on packets.
    busy_cycles: AtomicU64,
    /// When it began with its first packets after it was last woken, in nanoseconds of the router's clock; 0:
    /// it has had none since. Who wakes it writes this too.
    began_ns: AtomicU64,
}

#[inline]
fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl Poller {
    fn new(worker: usize, places: usize) -> Self {
        let none = AtomicU64::default;
        Self {
            worker,
            packets: (0..BUCKETS).map(|_| none()).collect(),
            given: (0..places).map(|_| none()).collect(),
            seen: none(),
            on_the_way: none(),
            buckets: none(),
            held: none(),
            unordered: none(),
            wakes: none(),
            woke_ns: none(),
            woke_at_load: none(),
        }
    }
    /// Counts a packet of a bucket.
    #[inline]
    pub(super) fn count(&self, bucket: usize) {
        add(&self.packets[bucket], 1);
    }
    /// Counts packets for a worker.
    #[inline]
    pub(super) fn give(&self, place: usize, packets: usize) {
        add(&self.given[place], packets as u64);
    }
    /// Says how far it is.
    pub(super) fn say(&self, version: u64, on_the_way: usize, moved: Moved) {
        self.seen.store(version, Ordering::Relaxed);
        self.on_the_way.store(on_the_way as u64, Ordering::Relaxed);
        self.buckets.store(moved.buckets, Ordering::Relaxed);
        self.held.store(moved.held, Ordering::Relaxed);
        self.unordered.store(moved.unordered, Ordering::Relaxed);
    }
    /// What it has said of buckets that moved.
    pub(super) fn moved(&self) -> Moved {
        let get = |v: &AtomicU64| v.load(Ordering::Relaxed);
        Moved { buckets: get(&self.buckets), held: get(&self.held), unordered: get(&self.unordered) }
    }
}

impl Seat {
    #[inline]
    pub(super) fn count(&self, packets: usize) {
        add(&self.packets, packets as u64);
    }
    #[inline]
    pub(super) fn add_busy(&self, cycles: u64) {
        add(&self.busy_cycles, cycles);
    }
    /// Whether it has had packets since it was woken.
    #[inline]
    pub(super) fn has_begun(&self) -> bool {
        self.began_ns.load(Ordering::Relaxed) != 0
    }
    /// It has had packets again since this time.
    pub(super) fn begins(&self, now_ns: u64) {
        self.began_ns.store(now_ns, Ordering::Relaxed);
    }
    pub(super) fn busy_cycles(&self) -> u64 {
        self.busy_cycles.load(Ordering::Relaxed)
    }
}

/// The key of the hash, the hash, and the prefixes if packets go by these.
#[derive(Clone)]
struct Key {
    bytes: Vec<u8>,
    hash: Arc<Toeplitz>,
    division: Option<Arc<Division>>,
}

impl Key {
    fn new(bytes: &[u8], division: Option<Arc<Division>>) -> Self {
        Self { bytes: bytes.to_vec(), hash: Arc::new(Toeplitz::new(bytes)), division }
    }
    fn flow_key(&self) -> FlowKey {
        let hash = Arc::clone(&self.hash);
        match &self.division {
            Some(division) => FlowKey::Prefixes(Arc::clone(division), hash),
            None => FlowKey::Ip(hash),
        }
    }
}

/// Keys that are kept after they have been replaced, so that no worker that polls has to free their memory.
const OLD_KEYS: usize = 3;

/// The table of one element.
pub(in crate::devices) struct Indirection {
    /// The workers among which flows are spread.
    workers: Vec<usize>,
    /// The place in `workers` of the worker that is to have each bucket while no worker is parked.
    entries: Box<[AtomicU16]>,
    /// The places in the order in which workers wake; workers that poll come first, since they are never
    /// parked. And where each place is in this order.
    order: Vec<u16>,
    rank: Vec<u16>,
    /// How many workers are awake: the first ones in this order. They also have the buckets of the others.
    awake: AtomicUsize,
    /// Grows with every change of entries or key.
    version: AtomicU64,
    /// How often the key or the prefixes have changed.
    key_version: AtomicU64,
    /// The present key first; empty where Ethernet addresses are hashed, without a key.
    keys: Mutex<Vec<Key>>,
    pollers: Vec<Arc<Poller>>,
    seats: Vec<Seat>,
}

/// What all workers together say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Readings {
    /// Packets of each bucket.
    pub(super) packets: Vec<u64>,
    /// How many workers are awake.
    pub(super) awake: usize,
    /// The place of the worker of each bucket.
    pub(super) table: Vec<u16>,
    /// Cycles for which each worker was busy.
    pub(super) busy_cycles: Vec<u64>,
    /// Where a part of the packets is counted, how many that were; and those that came to another worker than
    /// the table says.
    pub(super) looked_at: u64,
    pub(super) strays: u64,
    pub(super) moved: Moved,
    /// Whether buckets are on their way, or a worker that polls has not seen the last change.
    pub(super) moving: bool,
}

impl Indirection {
    /// The table for flows that are spread as in `lanes`: workers have its entries in turn.
    pub(super) fn new(lanes: &Lanes, key: Option<&[u8]>) -> Self {
        let entry = |bucket: usize| AtomicU16::new((bucket % lanes.spread.len().max(1)) as u16);
        let polls = |place: &u16| lanes.pollers().any(|worker| worker == lanes.spread[usize::from(*place)]);
        let mut order: Vec<u16> = (0..lanes.spread.len() as u16).collect();
        order.sort_by_key(|place| !polls(place));
        let mut rank = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(place, n)| rank[usize::from(*place)] = n);
        Self {
            workers: lanes.spread.clone(),
            awake: AtomicUsize::new(order.len()),
            order,
            rank,
            entries: (0..BUCKETS).map(entry).collect(),
            version: AtomicU64::new(0),
            key_version: AtomicU64::new(0),
            keys: Mutex::new(key.into_iter().map(|key| Key::new(key, None)).collect()),
            pollers: lanes
                .pollers()
                .map(|worker| Arc::new(Poller::new(worker, lanes.spread.len())))
                .collect(),
            seats: lanes.spread.iter().map(|_| Seat::default()).collect(),
        }
    }
    pub(super) fn workers(&self) -> &[usize] {
        &self.workers
    }
    pub(super) fn buckets(&self) -> usize {
        self.entries.len()
    }
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    pub(super) fn key_version(&self) -> u64 {
        self.key_version.load(Ordering::Acquire)
    }
    /// The place of the worker that is to have a bucket now.
    pub(super) fn place(&self, bucket: usize) -> u16 {
        let (place, awake) = (self.entries[bucket].load(Ordering::Relaxed), self.awake());
        if usize::from(self.rank[usize::from(place)]) < awake {
            return place;
        }
        // Those that are awake have the buckets of a parked worker in turn.
        self.order[bucket / self.order.len() % awake]
    }
    /// How many workers are awake.
    #[inline]
    pub(super) fn awake(&self) -> usize {
        self.awake.load(Ordering::Relaxed)
    }
    /// When a worker that polls has last woken others, and when the last of those that were woken had its
    /// first packets, in nanoseconds of the router's clock.
    pub(super) fn last_wake(&self) -> (u64, u64) {
        let woke = self.pollers.iter().map(|poller| poller.woke_ns.load(Ordering::Relaxed)).max();
        let began = self.seats.iter().map(|seat| seat.began_ns.load(Ordering::Relaxed)).max();
        (woke.unwrap_or(0), began.unwrap_or(0))
    }
    /// The places of the first `awake` workers in the order in which they wake.
    pub(super) fn first(&self, awake: usize) -> &[u16] {
        &self.order[..awake.min(self.order.len())]
    }
    /// The numbers of the workers from `from` on in this order, up to `to`.
    pub(super) fn between(&self, from: usize, to: usize) -> Vec<usize> {
        let places = self.order[..to.min(self.order.len())].iter().skip(from);
        places.map(|place| self.workers[usize::from(*place)]).collect()
    }
    /// How many workers must be awake.
    pub(super) fn least_awake(&self) -> usize {
        let polls = |worker: &&usize| self.pollers.iter().any(|poller| poller.worker == **worker);
        self.workers.iter().filter(polls).count().max(1)
    }
    /// Parks or wakes workers, so that `to` are awake; not if there are no longer `from`, because somebody
    /// else did so. Workers that poll call this too, when they have too much to do.
    pub(super) fn set_awake(&self, from: usize, to: usize) -> bool {
        let changes = self.awake.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if changes {
            let woken = self.order[..to.min(self.order.len())].iter().skip(from);
            woken.for_each(|place| self.seats[usize::from(*place)].begins(0));
            self.changed();
        }
        changes
    }
    /// All workers that poll.
    pub(super) fn pollers(&self) -> &[Arc<Poller>] {
        &self.pollers
    }
    /// What a worker says as one that polls.
    pub(super) fn poller(&self, worker: usize) -> Arc<Poller> {
        let known = self.pollers.iter().find(|poller| poller.worker == worker).cloned();
        known.unwrap_or_else(|| Arc::new(Poller::new(worker, self.workers.len())))
    }
    /// The place of a worker that gets flows.
    pub(super) fn seat_of(&self, worker: usize) -> Option<usize> {
        self.workers.iter().position(|one| *one == worker)
    }
    #[inline]
    pub(super) fn seat(&self, place: usize) -> &Seat {
        &self.seats[place]
    }
    /// What decides on buckets now.
    pub(super) fn flow_key(&self) -> FlowKey {
        self.keys.lock().ignore_poison().first().map_or(FlowKey::Internal, Key::flow_key)
    }
    /// The prefixes, if packets go by these.
    pub(super) fn division(&self) -> Option<Arc<Division>> {
        self.keys.lock().ignore_poison().first()?.division.clone()
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
    /// Gives buckets to other workers: pairs of a bucket and the place of a worker.
    pub(super) fn set(&self, changes: &[(usize, u16)]) {
        for &(bucket, place) in changes {
            self.entries[bucket].store(place, Ordering::Relaxed);
        }
        self.changed();
    }
    /// Changes the key.
    ///
    /// # Errors
    /// There is none, or it is too short.
    pub(super) fn set_key(&self, bytes: &[u8]) -> Result<(), String> {
        let mut keys = self.keys.lock().ignore_poison();
        if keys.is_empty() {
            return Err(
                "flows of an internal link are told apart by their Ethernet addresses, without a key".into(),
            );
        }
        if keys.first().is_some_and(|key| key.bytes == bytes) {
            return Ok(());
        }
        let division = keys.first().and_then(|key| key.division.clone());
        self.replace_key(&mut keys, Key::new(bytes, division));
        Ok(())
    }
    fn replace_key(&self, keys: &mut Vec<Key>, new: Key) {
        keys.insert(0, new);
        self.key_version.fetch_add(1, Ordering::Release);
        self.changed();
        keys.truncate(1 + OLD_KEYS);
    }
    /// Has packets go by the prefixes of their destinations from now on, and workers have their shares of
    /// these. Without effect where Ethernet addresses are hashed.
    pub(super) fn divide(&self, division: Division) {
        let mut keys = self.keys.lock().ignore_poison();
        let Some(key) = keys.first() else { return };
        for (entry, place) in self.entries.iter().zip(division.places(self.workers.len())) {
            entry.store(place, Ordering::Relaxed);
        }
        let key = Key { division: Some(Arc::new(division)), ..key.clone() };
        self.replace_key(&mut keys, key);
    }
    /// The present key; none where Ethernet addresses are hashed.
    pub(super) fn key(&self) -> Option<Vec<u8>> {
        self.keys.lock().ignore_poison().first().map(|key| key.bytes.clone())
    }

    /// Whether it can continue the table of a configuration that is being replaced: it is for the same
    /// workers, and packets go by the same prefixes or by none.
    pub(super) fn continues(&self, old: &Self) -> bool {
        self.workers == old.workers && self.division() == old.division()
    }
    /// Continues such a table. All workers stand still.
    pub(super) fn adopt<'a>(&'a self, old: &'a Self) {
        if !self.continues(old) {
            return;
        }
        for (new, old) in self.entries.iter().zip(&old.entries) {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.awake.store(old.awake().clamp(self.least_awake(), self.order.len().max(1)), Ordering::Relaxed);
        for (new, old) in self.pollers.iter().flat_map(|new| {
            let same = old.pollers.iter().find(|old| old.worker == new.worker);
            same.map(|old| (new, old))
        }) {
            let all = |one: &'a Poller| one.packets.iter().chain(&one.given);
            for (new, old) in all(new).zip(all(old)) {
                new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            let version = new.seen.load(Ordering::Relaxed);
            new.say(version, 0, old.moved());
        }
        for (new, old) in self.seats.iter().zip(&old.seats) {
            new.packets.store(old.packets.load(Ordering::Relaxed), Ordering::Relaxed);
            new.busy_cycles.store(old.busy_cycles.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// What all workers say now.
    pub(super) fn readings(&self) -> Readings {
        let version = self.version();
        let mut readings = Readings {
            packets: vec![0; self.buckets()],
            awake: self.awake(),
            table: (0..self.buckets()).map(|bucket| self.place(bucket)).collect(),
            busy_cycles: self.seats.iter().map(Seat::busy_cycles).collect(),
            ..Readings::default()
        };
        for poller in &self.pollers {
            for (sum, packets) in readings.packets.iter_mut().zip(&poller.packets) {
                *sum += packets.load(Ordering::Relaxed);
            }
            let moved = poller.moved();
            readings.moved.buckets += moved.buckets;
            readings.moved.held += moved.held;
            readings.moved.unordered += moved.unordered;
            readings.moving |= poller.seen.load(Ordering::Relaxed) != version
                || poller.on_the_way.load(Ordering::Relaxed) > 0;
        }
        readings
    }

    /// A line for each worker: its number, the packets that it was given, and those that it has taken.
    pub(super) fn packets_text(&self) -> String {
        let mut text = String::new();
        for (place, (worker, seat)) in self.workers.iter().zip(&self.seats).enumerate() {
            let given = self.pollers.iter().map(|poller| poller.given[place].load(Ordering::Relaxed));
            let taken = seat.packets.load(Ordering::Relaxed);
            let _ = writeln!(text, "{worker}\t{}\t{taken}", given.sum::<u64>());
        }
        text
    }
    /// A line for each bucket that has had packets: the bucket, its worker, the packets, separated by tabs.
    pub(super) fn buckets_text(&self) -> String {
        let readings = self.readings();
        let mut text = String::new();
        for (bucket, (packets, place)) in readings.packets.iter().zip(&readings.table).enumerate() {
            if *packets > 0 {
                let _ = writeln!(text, "{bucket}\t{}\t{packets}", self.workers[usize::from(*place)]);
            }
        }
        text
    }
    /// The table in the form of `ethtool -x`: workers of eight buckets on a line, after the first of these.
    pub(super) fn table_text(&self) -> String {
        let workers: Vec<usize> =
            (0..self.buckets()).map(|bucket| self.workers[usize::from(self.place(bucket))]).collect();
        super::reta::print(&workers)
    }
    /// Changes the table as a text says: see `reta.rs`.
    ///
    /// # Errors
    /// The text is not understood, or names a bucket or a worker that does not exist.
    pub(super) fn write_table(&self, text: &str) -> Result<(), String> {
        let changes = super::reta::parse(text, self.buckets(), "worker", &self.workers)?;
        let places = changes.into_iter().map(|(bucket, place)| (bucket, place as u16));
        self.awake.store(self.workers.len(), Ordering::Relaxed);
        self.set(&places.collect::<Vec<_>>());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(spread: &[usize]) -> Lanes {
        let mut poll = vec![Vec::new(); 8];
        poll[0] = vec![0];
        Lanes { poll, spread: spread.to_vec(), ..Lanes::default() }
    }

    #[test]
    fn workers_have_buckets_in_turn_until_somebody_changes_that() {
        let table = Indirection::new(&lanes(&[0, 2, 5]), Some(&[1; 40]));
        let mut counts = [0; 3];
        (0..table.buckets()).for_each(|bucket| counts[usize::from(table.place(bucket))] += 1);
        assert_eq!(counts, [171, 171, 170]);
        assert!(
            table
                .table_text()
                .starts_with("    0:      0     2     5     0     2     5     0     2\n    8: ")
        );
        table.write_table("(0,5),(511,0)").unwrap();
        assert_eq!((table.place(0), table.place(511), table.version()), (2, 0, 1));
        table.poller(0).count(511);
        table.poller(0).count(511);
        assert_eq!(table.buckets_text(), "511\t0\t2\n");
        table.poller(0).give(1, 9);
        table.seat(table.seat_of(2).unwrap()).count(7);
        assert_eq!(table.packets_text(), "0\t0\t0\n2\t9\t7\n5\t0\t0\n");
    }

    #[test]
    fn a_change_is_over_when_every_worker_that_polls_has_seen_it() {
        let table = Indirection::new(&lanes(&[0, 1]), None);
        assert!(!table.readings().moving);
        table.set(&[(3, 0)]);
        assert!(table.readings().moving);
        let moved = Moved { buckets: 1, held: 2, unordered: 0 };
        table.poller(0).say(1, 1, moved);
        assert!(table.readings().moving);
        table.poller(0).say(1, 0, moved);
        assert_eq!((table.readings().moving, table.readings().moved), (false, moved));
    }

    #[test]
    fn a_key_is_changed_where_there_is_one() {
        let table = Indirection::new(&lanes(&[0, 1]), Some(&[1; 40]));
        table.set_key(&[1; 40]).unwrap();
        assert_eq!(table.key_version(), 0, "it is the same");
        for n in 2..9 {
            table.set_key(&[n; 40]).unwrap();
        }
        assert_eq!((table.key_version(), table.key()), (7, Some(vec![8; 40])));
        let internal = Indirection::new(&lanes(&[0, 1]), None);
        assert!(internal.set_key(&[2; 40]).unwrap_err().contains("without a key"));
        assert!(matches!(internal.flow_key(), FlowKey::Internal));
    }

    #[test]
    fn a_hot_swap_keeps_the_table_unless_the_workers_differ() {
        let old = Indirection::new(&lanes(&[0, 1]), None);
        old.write_table("(5,0)").unwrap();
        old.poller(0).count(5);
        let new = Indirection::new(&lanes(&[0, 1]), None);
        new.adopt(&old);
        assert_eq!((new.place(5), new.readings().packets[5], new.readings().moving), (0, 1, false));
        let other = Indirection::new(&lanes(&[0, 1, 2]), None);
        other.adopt(&old);
        assert_eq!(other.place(5), 2);
    }
}
