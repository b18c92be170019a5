//! Ports without a device: what is put in at one side is received at the other, and what is sent can be
//! taken.
//!
//! A virtual router has such ports. Whoever runs it demultiplexes a physical port's packets into them
//! ([`VirtualQueues::put`]) and sends what it takes out of them ([`VirtualQueues::take`]). The router opens
//! them by name (`virtual:NAME`) as it opens any other port, and cannot tell the difference.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use locks::IgnorePoison;

use crate::batch::Batch;
use crate::error::Error;
use crate::lent::{Lent, Passed, Queue, Sink, Source, add};
use crate::packet::Packet;
use crate::spec::PortSpec;
use crate::status::PortStats;

/// The virtual ports that exist, by name.
static ALL: Mutex<Option<HashMap<String, Weak<Inner>>>> = Mutex::new(None);

fn all() -> MutexGuard<'static, Option<HashMap<String, Weak<Inner>>>> {
    ALL.lock().ignore_poison()
}

/// Cache lines of a list of packets that are fetched: those of a burst.
const LIST_LINES: usize = 8;

/// The queues of a physical port that are lent to a virtual one.
pub type Queues = (Box<dyn Source>, Box<dyn Sink>);

/// Packets on their way between a router and whoever runs it, in one direction, for one worker.
///
/// Both ends usually run on one thread, one after the other, so that the lock is free. What a burst needs is
/// in the first cache line; or, with a queue that is lent, in that queue's place.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct VirtualQueue {
    packets: Mutex<Batch>,
    /// How many there are, to be read without the lock, and where the next one will be written, to be
    /// fetched beforehand.
    len: AtomicU32,
    room: AtomicU32,
    end: AtomicUsize,
    passed: AtomicU64,
    passed_bytes: AtomicU64,
    /// A physical port's queue, which the router uses itself.
    lent: Lent<Queue>,
    lost: AtomicU64,
    /// The thread that takes packets out; 0: none has done so yet.
    taker: AtomicUsize,
    /// What wakes that thread if it is another one than the one that puts packets in.
    bell: OnceLock<Bell>,
}

/// What wakes whoever takes packets.
#[derive(Clone)]
struct Bell(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

/// A number that no other running thread has, and never 0.
#[inline]
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

impl VirtualQueue {
    fn new(room: usize) -> Arc<Self> {
        Arc::new(Self {
            packets: Mutex::default(),
            len: AtomicU32::new(0),
            room: AtomicU32::new(room.try_into().unwrap_or(u32::MAX)),
            end: AtomicUsize::new(0),
            passed: AtomicU64::new(0),
            passed_bytes: AtomicU64::new(0),
            lent: Lent::default(),
            lost: AtomicU64::new(0),
            taker: AtomicUsize::new(0),
            bell: OnceLock::new(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Notes how many packets there are.
    #[inline]
    fn note(&self, packets: &Batch) {
        // No more than there is room for.
        self.len.store(packets.len() as u32, Ordering::Relaxed);
        self.end.store(packets.as_ptr_range().end.addr(), Ordering::Relaxed);
    }

    /// Takes packets from the front of `batch`, as many as there is room for; returns how many.
    pub(crate) fn put(&self, batch: &mut Batch) -> usize {
        self.put_within(usize::MAX, batch)
    }

    /// The same; at most so many packets wait afterwards.
    pub(crate) fn put_within(&self, most: usize, batch: &mut Batch) -> usize {
        let mut packets = self.packets.lock().ignore_poison();
        let room = (self.room.load(Ordering::Relaxed) as usize).min(most);
        let taken = batch.len().min(room.saturating_sub(packets.len()));
        let bytes: usize = batch.iter().take(taken).map(Packet::len).sum();
        if taken == batch.len() {
            packets.append(batch);
        } else {
            packets.packets_mut().extend(batch.drain(..taken));
        }
        self.note(&packets);
        // Whoever has the lock.
        add(&self.passed, taken);
        add(&self.passed_bytes, bytes);
        drop(packets);
        let taker = self.taker.load(Ordering::Relaxed);
        if taken > 0 && taker != this_thread() && taker != 0 {
            self.ring();
        }
        taken
    }

    /// The router receives: from the queue that is lent, or what was put in.
    #[inline]
    pub(crate) fn receive(&self, most: usize, batch: &mut Batch) {
        if !self.lent.receive(most, batch) {
            self.take(most, batch);
        }
    }

    /// The router sends: by the queue that is lent, or to whoever takes the packets. Returns how many.
    #[inline]
    pub(crate) fn send(&self, batch: &mut Batch) -> usize {
        self.lent.send(batch).unwrap_or_else(|| self.put(batch))
    }

    /// Whether it is certain that the router finds nothing here.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        !self.lent.any() && self.len() == 0
    }

    /// What has passed, and what was lost.
    fn passed(&self) -> Passed {
        let own = Passed {
            packets: self.passed.load(Ordering::Relaxed),
            bytes: self.passed_bytes.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        };
        own + self.lent.passed()
    }

    #[cold]
    fn ring(&self) {
        if let Some(Bell(ring)) = self.bell.get() {
            ring();
        }
    }

    /// Notes that this thread takes packets from here on. What was put in before is seen by it, and whoever
    /// puts some in afterwards sees that it is this thread: both take the lock in between.
    #[cold]
    fn note_taker(&self, me: usize) {
        self.taker.store(me, Ordering::Relaxed);
        drop(self.packets.lock().ignore_poison());
    }

    /// Appends up to `most` packets to `batch`; returns how many.
    pub(crate) fn take(&self, most: usize, batch: &mut Batch) -> usize {
        let me = this_thread();
        if self.taker.load(Ordering::Relaxed) != me {
            self.note_taker(me);
        }
        if self.len() == 0 {
            return 0;
        }
        let mut packets = self.packets.lock().ignore_poison();
        let taken = packets.len().min(most);
        if taken == packets.len() {
            batch.append(&mut packets);
        } else {
            batch.packets_mut().extend(packets.drain(..taken));
        }
        self.note(&packets);
        taken
    }
}

/// What both sides of a virtual port have.
#[derive(Debug)]
pub(crate) struct Inner {
    name: String,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    /// One for each worker, to the router and from it.
    pub(crate) rx: Vec<Arc<VirtualQueue>>,
    pub(crate) tx: Vec<Arc<VirtualQueue>>,
}

impl Inner {
    pub(crate) fn stats(&self) -> PortStats {
        let sum = |queues: &[Arc<VirtualQueue>]| queues.iter().map(|q| q.passed()).sum::<Passed>();
        let (rx, tx) = (sum(&self.rx), sum(&self.tx));
        PortStats {
            rx_packets: rx.packets,
            rx_bytes: rx.bytes,
            rx_missed: rx.lost,
            tx_packets: tx.packets,
            tx_bytes: tx.bytes,
            tx_errors: tx.lost,
            ..PortStats::default()
        }
    }
}

/// The outer side of a virtual port. Its name can be opened as long as it exists; a router that has opened it
/// keeps its own side.
#[derive(Debug)]
pub struct VirtualPort(Arc<Inner>);

impl VirtualPort {
    /// Makes a port with a receive and a transmit queue for each of `workers`, in each of which up to `room`
    /// packets wait.
    ///
    /// # Errors
    /// There is one of this name.
    pub fn new(name: &str, mac: [u8; 6], mtu: u32, workers: usize, room: usize) -> Result<Self, Error> {
        let queues = || (0..workers).map(|_| VirtualQueue::new(room)).collect();
        let inner = Arc::new(Inner { name: name.to_owned(), mac, mtu, rx: queues(), tx: queues() });
        let mut guard = all();
        let all = guard.get_or_insert_default();
        if all.get(name).is_some_and(|known| known.strong_count() > 0) {
            let spec = PortSpec::Virtual(name.to_owned()).to_string();
            return Err(Error::port(&spec, "making it", "there is one of this name"));
        }
        all.insert(name.to_owned(), Arc::downgrade(&inner));
        Ok(Self(inner))
    }

    /// Has up to `room` packets wait in each queue from here on; those that wait already stay.
    pub fn set_room(&self, room: usize) {
        let room = room.try_into().unwrap_or(u32::MAX);
        self.0.rx.iter().chain(&self.0.tx).for_each(|queue| queue.room.store(room, Ordering::Relaxed));
    }

    /// Has `ring` called when packets are put in by another thread than the one that takes them: the program
    /// has bound an element to a worker that does not run on the thread of the queue.
    pub fn set_bell(&self, ring: Arc<dyn Fn() + Send + Sync>) {
        for queue in self.0.rx.iter().chain(&self.0.tx) {
            // Set once, by whoever has made the port.
            drop(queue.bell.set(Bell(Arc::clone(&ring))));
        }
    }

    /// Its name, without `virtual:`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The outer side of a worker's queues, if there is such a worker.
    #[must_use]
    pub fn queues(&self, worker: usize) -> Option<VirtualQueues> {
        let (to, from) = (self.0.rx.get(worker)?, self.0.tx.get(worker)?);
        Some(VirtualQueues { to: Arc::clone(to), from: Arc::clone(from) })
    }

    /// How many packets wait for the router's worker.
    #[must_use]
    pub fn waiting(&self, worker: usize) -> usize {
        self.0.rx.get(worker).map_or(0, |queue| queue.len())
    }

    /// What the router has received and sent.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        self.0.stats()
    }
}

/// One worker's queues of a virtual port, for whoever runs the worker.
#[derive(Clone, Debug)]
pub struct VirtualQueues {
    /// To the router.
    to: Arc<VirtualQueue>,
    /// From the router.
    from: Arc<VirtualQueue>,
}

impl VirtualQueues {
    /// Gives packets from the front of `batch` to the router's worker; those for which its queue has no room
    /// stay. Returns how many were given.
    pub fn put(&self, batch: &mut Batch) -> usize {
        self.to.put(batch)
    }

    /// The same; at most so many packets wait for it afterwards.
    pub fn put_within(&self, most: usize, batch: &mut Batch) -> usize {
        self.to.put_within(most, batch)
    }

    /// Drops packets for which the router's worker has no room, and counts them.
    pub fn lose(&self, batch: &mut Batch) {
        self.count_lost(batch.len() as u64);
        batch.clear();
    }

    /// Counts packets for the router's worker that were lost before they were given to it.
    pub fn count_lost(&self, packets: u64) {
        if packets > 0 {
            self.to.lost.fetch_add(packets, Ordering::Relaxed);
        }
    }

    /// Counts packets that the router's worker has sent and that went nowhere.
    pub fn count_unsent(&self, packets: usize) {
        if packets > 0 {
            self.from.lost.fetch_add(packets as u64, Ordering::Relaxed);
        }
    }

    /// Appends to `batch` up to `most` packets that the router's worker has sent; returns how many.
    pub fn take(&self, most: usize, batch: &mut Batch) -> usize {
        self.from.take(most, batch)
    }

    /// How many packets wait for the router's worker.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.to.len()
    }

    /// Asks the processor to fetch what the next burst uses: to the router, and from it.
    #[inline]
    pub fn prefetch(&self) {
        crate::prefetch(&*self.to, 2);
        crate::prefetch(&*self.from, 2);
    }

    /// The same for the list of the packets that wait for the router's worker.
    pub fn prefetch_list(&self) {
        if let Ok(packets) = self.to.packets.try_lock() {
            crate::prefetch(&**packets, LIST_LINES);
        }
    }

    /// The same for the first packets of it: their headers, here and on the wire.
    pub fn prefetch_packets(&self, most: usize) {
        if let Ok(packets) = self.to.packets.try_lock() {
            packets.iter().take(most).for_each(Packet::prefetch_all);
        }
    }

    /// The same for the next burst to the router alone.
    #[inline]
    pub fn prefetch_to(&self) {
        crate::prefetch(&*self.to, 1);
    }

    /// The same for the place behind the packets that wait for the router's worker.
    #[inline]
    pub fn prefetch_end(&self) {
        crate::prefetch::prefetch_address(self.to.end.load(Ordering::Relaxed));
    }

    /// Lends the queues of a physical port to the router's worker, which receives and sends by them itself;
    /// what it has received and sent is counted here all the same. Whoever lends them does not use them until
    /// it has taken them back, and wakes the worker when packets may have come. They are returned if it has
    /// some, or if packets wait for it or from it, which are older.
    pub fn lend(&self, rx: Box<dyn Source>, tx: Box<dyn Sink>) -> Option<Queues> {
        if self.to.len() + self.from.len() > 0 {
            return Some((rx, tx));
        }
        match (self.to.lent.put(Queue::Rx(rx)), self.from.lent.put(Queue::Tx(tx))) {
            (Ok(()), Ok(())) => None,
            (rx, tx) => {
                let back = |put: Result<(), Queue>, queue: &VirtualQueue| {
                    put.err().or_else(|| queue.lent.take_back())
                };
                queues([back(rx, &self.to), back(tx, &self.from)])
            }
        }
    }

    /// Takes the queues back that were lent to the router's worker.
    pub fn take_back(&self) -> Option<Queues> {
        queues([self.to.lent.take_back(), self.from.lent.take_back()])
    }
}

/// Both queues, if there are both.
fn queues(of: [Option<Queue>; 2]) -> Option<Queues> {
    match of {
        [Some(Queue::Rx(rx)), Some(Queue::Tx(tx))] => Some((rx, tx)),
        _ => None,
    }
}

impl VirtualPort {
    /// From here on there is no port of this name; another one can be made. A router that has opened it keeps
    /// its side.
    pub fn withdraw(&self) {
        let mut all = all();
        if let Some(all) = all.as_mut()
            && all.get(self.name()).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&self.0)))
        {
            all.remove(self.name());
        }
    }
}

impl Drop for VirtualPort {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The virtual port of this name.
pub(crate) fn find(name: &str) -> Option<Arc<Inner>> {
    all().as_ref()?.get(name)?.upgrade()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(n: usize) -> Batch {
        let mut batch = Batch::new();
        (0..n).for_each(|i| batch.push(Packet::from_bytes(&[i as u8; 60]).unwrap()));
        batch
    }

    #[test]
    fn packets_pass_in_order_up_to_the_room() {
        let port = VirtualPort::new("pass/DEV0", [2; 6], 1500, 2, 3).unwrap();
        let (first, second) = (port.queues(0).unwrap(), port.queues(1).unwrap());
        let mut batch = packets(5);
        assert_eq!((second.put(&mut batch), batch.len(), port.waiting(1), port.waiting(0)), (3, 2, 3, 0));
        assert_eq!(batch[0].data()[0], 3);
        let inner = find("pass/DEV0").unwrap();
        let mut out = Batch::new();
        assert_eq!((inner.rx[1].take(2, &mut out), inner.rx[1].take(2, &mut out)), (2, 1));
        assert_eq!(out.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(inner.rx[1].take(2, &mut out), 0);
        assert_eq!((port.stats().rx_packets, port.stats().rx_bytes), (3, 180));
        assert!(port.queues(2).is_none(), "there is no such worker");
        first.lose(&mut batch);
        assert_eq!((batch.len(), port.stats().rx_missed), (0, 2));
        second.count_unsent(4);
        assert_eq!(port.stats().tx_errors, 4);
        let mut batch = packets(5);
        port.set_room(4);
        assert_eq!(second.put(&mut batch), 4);
        port.set_room(2);
        assert_eq!((second.put(&mut batch), second.waiting()), (0, 4));
    }

    #[test]
    fn whoever_takes_on_another_thread_is_woken() {
        let port = VirtualPort::new("rung/DEV0", [2; 6], 1500, 1, 9).unwrap();
        let rung = Arc::new(AtomicU64::new(0));
        let by_bell = Arc::clone(&rung);
        port.set_bell(Arc::new(move || {
            by_bell.fetch_add(1, Ordering::Relaxed);
        }));
        let (outer, inner) = (port.queues(0).unwrap(), find("rung/DEV0").unwrap());
        let mut out = Batch::new();
        // Nobody has taken any, then this thread has, then another one.
        outer.put(&mut packets(1));
        inner.rx[0].take(9, &mut out);
        outer.put(&mut packets(1));
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        std::thread::scope(|scope| {
            let inner = &inner;
            scope.spawn(move || assert_eq!(inner.rx[0].take(9, &mut Batch::new()), 1)).join().unwrap();
        });
        outer.put(&mut packets(1));
        assert_eq!(rung.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_name_is_taken_as_long_as_its_port_exists() {
        let port = VirtualPort::new("once/DEV0", [2; 6], 1500, 1, 3).unwrap();
        assert!(VirtualPort::new("once/DEV0", [2; 6], 1500, 1, 3).is_err());
        let shared = Arc::new(port);
        shared.withdraw();
        assert!(find("once/DEV0").is_none());
        let next = VirtualPort::new("once/DEV0", [2; 6], 1500, 1, 3).unwrap();
        drop(shared);
        assert!(find("once/DEV0").is_some(), "the old one has taken the new one's name away");
        drop(next);
    }
}
