//! The storage of queues, and their notifications and counters.
//!
//! A queue belongs to one worker unless packets enter it on one worker and leave it on another; then its
//! replicas share a lock-free ring, or a locked deque for the queues that take packets from both ends.

use crate::plumbing::engine::text;
use crate::prelude::*;
use locks::{IgnorePoison, lock_counted};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use tables::ring::Ring;

/// The number of empty pulls after which a queue notifies that it is empty, so that a consumer that is just
/// fast enough does not sleep all the time (Click's `SLEEPINESS_TRIGGER`). Used only with batches of one
/// packet.
pub(crate) const PATIENCE: u8 = 9;

/// The length of a storage element, for handlers and for elements that depend on it (RED). Other elements
/// find it by its type.
pub(crate) struct Depth {
    /// The workers use one store.
    common: bool,
    /// How many packets a store holds; `usize::MAX` if there is no limit.
    capacity: AtomicUsize,
    cells: Box<[Cell]>,
}

/// One worker's counters; only that worker writes them.
#[derive(Default)]
#[repr(align(128))]
struct Cell {
    arrived: AtomicU64,
    left: AtomicU64,
    /// Packets that were pulled, and how many of them another worker had put in.
    pulled: AtomicU64,
    changed: AtomicU64,
    highwater: AtomicU64,
    drops: AtomicU64,
}

fn bump(cell: &AtomicU64, n: usize) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(n as u64), Ordering::Release);
}

impl Depth {
    pub(crate) fn new(workers: usize, common: bool) -> Self {
        let cells = (0..workers).map(|_| Cell::default()).collect();
        Self { common, capacity: AtomicUsize::new(usize::MAX), cells }
    }
    /// Packets in the store that `worker` uses.
    pub(in crate::queues) fn length(&self, worker: usize) -> usize {
        if self.common {
            return self.total();
        }
        self.cells.get(worker).map_or(0, |c| Self::difference(std::slice::from_ref(c)))
    }
    /// How many more packets the store that `worker` uses takes.
    pub(in crate::queues) fn room(&self, worker: usize) -> usize {
        self.capacity.load(Ordering::Relaxed).saturating_sub(self.length(worker))
    }
    /// Packets in all workers' stores.
    pub(crate) fn total(&self) -> usize {
        Self::difference(&self.cells)
    }
    fn difference(cells: &[Cell]) -> usize {
        // Departures are read first: then later departures cannot make the difference negative.
        let left = cells.iter().fold(0u64, |sum, c| sum.wrapping_add(c.left.load(Ordering::Acquire)));
        let arrived = cells.iter().fold(0u64, |sum, c| sum.wrapping_add(c.arrived.load(Ordering::Acquire)));
        arrived.wrapping_sub(left) as usize
    }
    /// Whether it was made for this number of workers, and with one store for all or not.
    pub(crate) fn is_of(&self, workers: usize, common: bool) -> bool {
        self.cells.len() == workers && self.common == common
    }
    pub(crate) fn highwater(&self) -> u64 {
        self.cells.iter().map(|c| c.highwater.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
    pub(crate) fn drops(&self) -> u64 {
        self.cells.iter().map(|c| c.drops.load(Ordering::Relaxed)).sum()
    }
    /// Counts a packet that arrived when the store was full.
    pub(crate) fn dropped(&self, worker: usize) {
        self.cells.get(worker).iter().for_each(|c| bump(&c.drops, 1));
    }
    /// Records the store's current length.
    pub(crate) fn reached(&self, worker: usize, length: usize) {
        if let Some(cell) = self.cells.get(worker)
            && length as u64 > cell.highwater.load(Ordering::Relaxed)
        {
            cell.highwater.store(length as u64, Ordering::Relaxed);
        }
    }
    /// Starts counting from zero.
    pub(crate) fn reset(&self, worker: usize, length: usize) {
        if let Some(cell) = self.cells.get(worker) {
            cell.drops.store(0, Ordering::Relaxed);
            cell.highwater.store(length as u64, Ordering::Relaxed);
        }
    }
    pub(crate) fn arrived(&self, worker: usize, n: usize) {
        self.cells.get(worker).iter().for_each(|c| bump(&c.arrived, n));
    }
    pub(crate) fn left(&self, worker: usize, n: usize) {
        self.cells.get(worker).iter().for_each(|c| bump(&c.left, n));
    }
    /// Counts packets that a worker has pulled from a store for all workers. Returns how many of all that it
    /// has pulled beyond what it has put in itself, and which were not returned before: another worker put
    /// these in. If workers do both, there may have been more.
    pub(crate) fn changed(&self, worker: usize, pulled: usize) -> usize {
        let Some(c) = self.cells.get(worker) else { return 0 };
        bump(&c.pulled, pulled);
        let [arrived, pulled, before] =
            [&c.arrived, &c.pulled, &c.changed].map(|cell| cell.load(Ordering::Relaxed));
        let new = pulled.saturating_sub(arrived).saturating_sub(before) as usize;
        bump(&c.changed, new);
        new
    }
}

/// The capacity if none is given.
const DEFAULT_CAPACITY: u32 = 1000;
/// The largest capacity of a queue between workers: its ring takes 16 bytes for each packet, whether it is
/// full or empty.
const MOST_COMMON: usize = 1 << 24;

/// A lock-free ring that can be replaced by a larger or smaller one.
///
/// A worker that finds it replaced moves the packets in the ring that it knows into the current one, under
/// the lock. So no packets remain in a ring that no worker reads any more, and no two workers move packets at
/// the same time.
pub(in crate::queues) struct Common {
    present: Mutex<Present>,
    /// The generation of the current ring, which can be read without the lock.
    generation: AtomicU64,
    /// The worker that pulled last.
    consumer: AtomicUsize,
}

struct Present {
    ring: Arc<Ring<Packet>>,
    /// The requested capacity; the ring of a queue of capacity zero has one place.
    capacity: usize,
    generation: u64,
}

impl Common {
    fn new(ring: Ring<Packet>, capacity: usize) -> Self {
        let present = Present { ring: Arc::new(ring), capacity, generation: 0 };
        Self {
            present: Mutex::new(present),
            generation: AtomicU64::new(0),
            consumer: AtomicUsize::new(usize::MAX),
        }
    }
    fn ring(capacity: usize) -> Result<Ring<Packet>, String> {
        if capacity > MOST_COMMON {
            return Err(format!("CAPACITY: a queue between workers holds at most {MOST_COMMON} packets"));
        }
        Ring::try_new(capacity).ok_or_else(|| "out of memory".to_owned())
    }
    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().ignore_poison()
    }
    /// Replaces the ring by one of another capacity. The workers see it with their next batch.
    fn resize(&self, capacity: usize) -> Result<(), String> {
        let mut present = self.present();
        if present.capacity != capacity {
            present.ring = Arc::new(Self::ring(capacity)?);
            present.capacity = capacity;
            present.generation += 1;
            self.generation.store(present.generation, Ordering::Release);
            // Pairs with the one in `Common::replaced`.
            fence(Ordering::SeqCst);
        }
        Ok(())
    }
    /// Replaces the ring and returns the new one.
    #[cfg(test)]
    pub(in crate::queues) fn replace(&self, capacity: usize) -> Arc<Ring<Packet>> {
        self.resize(capacity).unwrap();
        Arc::clone(&self.present().ring)
    }
    /// Whether the ring of this generation has been replaced. Checked after packets were put into it, because
    /// the other workers may have read it for the last time.
    #[inline]
    fn replaced(&self, generation: u64) -> bool {
        fence(Ordering::SeqCst);
        self.generation.load(Ordering::Relaxed) != generation
    }
}

#[cfg(test)]
thread_local! {
    /// For tests: what another worker does between this one's check of the generation and its push.
    pub(in crate::queues) static BEFORE_PUSH: std::cell::Cell<Option<fn(&Common)>> = const { std::cell::Cell::new(None) };
}

enum Place {
    Own(VecDeque<Packet>),
    Ring { common: Arc<Common>, ring: Arc<Ring<Packet>>, generation: u64, scratch: Vec<Packet> },
    Locked(Arc<Mutex<VecDeque<Packet>>>),
}

/// The ends of the store at which packets arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::queues) enum Ends {
    One,
    Both,
}

/// A queue's packets, capacity and counters.
pub(in crate::queues) struct Store {
    place: Place,
    capacity: usize,
    depth: Arc<Depth>,
    worker: usize,
    empty_pulls: u8,
}

fn locked(deque: &Mutex<VecDeque<Packet>>) -> MutexGuard<'_, VecDeque<Packet>> {
    lock_counted(deque)
}

/// Moves the first `n` packets of a batch to the end of a deque: all of them at once, if it is all.
fn append(deque: &mut VecDeque<Packet>, batch: &mut Batch, n: usize) {
    if n < batch.len() {
        return deque.extend(batch.drain(..n));
    }
    // A deque takes over the memory of a `Vec` and gives it back: only the packets are copied.
    let packets = batch.packets_mut();
    let mut all = VecDeque::from(std::mem::take(packets));
    deque.append(&mut all);
    *packets = all.into();
}

/// Moves the first `n` packets of a deque to the end of a batch, as [`append`] does.
fn take(deque: &mut VecDeque<Packet>, batch: &mut Batch, n: usize) {
    if n < deque.len() {
        return batch.extend(deque.drain(..n));
    }
    let packets = batch.packets_mut();
    let mut all = VecDeque::from(std::mem::take(packets));
    all.append(deque);
    *packets = all.into();
}

impl Store {
    /// Reads `CAPACITY` and makes the store; `common` requests one that all workers use.
    pub(in crate::queues) fn from_args(
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
        ends: Ends,
        common: bool,
    ) -> Result<Self, ArgError> {
        let mut capacity = args.p::<u32>("CAPACITY")?.unwrap_or(DEFAULT_CAPACITY) as usize;
        let (workers, common) = (cx.workers(), cx.workers() > 1 && (common || cx.crosses_workers()));
        let mut depth = cx.shared(|| Depth::new(workers, common));
        if depth.common != common {
            // The configuration that this one replaces used its workers differently.
            depth = Arc::new(Depth::new(workers, common));
            cx.publish(Arc::clone(&depth));
        }
        if common {
            cx.holds_together(capacity);
        } else {
            cx.holds(capacity);
        }
        let place = match ends {
            _ if !common => Place::Own(VecDeque::new()),
            Ends::Both => Place::Locked(cx.shared(|| Mutex::new(VecDeque::new()))),
            Ends::One => {
                let common = cx.try_shared(|| {
                    Common::ring(capacity).map(|ring| Common::new(ring, capacity)).map_err(ArgError::new)
                })?;
                let present = common.present();
                let (generation, ring) = (present.generation, Arc::clone(&present.ring));
                // A handler may have changed it before a hot swap.
                capacity = present.capacity;
                drop(present);
                Place::Ring { common, ring, generation, scratch: Vec::new() }
            }
        };
        depth.capacity.store(capacity, Ordering::Relaxed);
        Ok(Self { place, capacity, depth, worker: cx.worker().0, empty_pulls: 0 })
    }

    pub(in crate::queues) fn len(&self) -> usize {
        match &self.place {
            Place::Own(deque) => deque.len(),
            Place::Ring { ring, .. } => ring.len(),
            Place::Locked(deque) => locked(deque).len(),
        }
    }
    pub(in crate::queues) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes the new ring if another worker has replaced it, and moves there the packets that this worker put
    /// into the old one.
    fn refresh(&mut self, cx: &mut Cx<'_>) {
        if let Place::Ring { common, ring, generation, .. } = &mut self.place
            && common.generation.load(Ordering::Acquire) != *generation
        {
            let common = Arc::clone(common);
            let present = common.present();
            let old = std::mem::replace(ring, Arc::clone(&present.ring));
            (*generation, self.capacity) = (present.generation, present.capacity);
            self.depth.capacity.store(present.capacity, Ordering::Relaxed);
            if !Arc::ptr_eq(&old, &present.ring) {
                self.refill(std::iter::from_fn(|| old.pop()), cx);
            }
        }
    }

    /// Puts packets that are counted already into a new store; those that do not fit are dropped.
    fn refill(&mut self, packets: impl Iterator<Item = Packet>, cx: &mut Cx<'_>) {
        for packet in packets {
            let full = match &mut self.place {
                Place::Ring { ring, .. } if self.capacity > 0 => ring.push(packet).err(),
                Place::Own(deque) if deque.len() < self.capacity => {
                    deque.push_back(packet);
                    None
                }
                Place::Locked(deque) if locked(deque).len() < self.capacity => {
                    locked(deque).push_back(packet);
                    None
                }
                _ => Some(packet),
            };
            if let Some(packet) = full {
                self.depth.left(self.worker, 1);
                self.count_drop();
                cx.drop(packet, drops::QUEUE_FULL);
            }
        }
    }

    /// Appends as many packets from the front of `batch` as fit; the rest stays there.
    pub(in crate::queues) fn append(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        self.refresh(cx);
        let mut replaced = false;
        let n = match &mut self.place {
            Place::Own(deque) => {
                let n = batch.len().min(self.capacity.saturating_sub(deque.len()));
                append(deque, batch, n);
                n
            }
            Place::Locked(deque) => {
                let mut deque = locked(deque);
                let n = batch.len().min(self.capacity.saturating_sub(deque.len()));
                append(&mut deque, batch, n);
                n
            }
            Place::Ring { common, ring, scratch, generation } if self.capacity > 0 => {
                scratch.extend(batch.drain(..));
                #[cfg(test)]
                BEFORE_PUSH.with(|act| act.take().into_iter().for_each(|act| act(common)));
                let n = ring.push_many(scratch);
                replaced = common.replaced(*generation);
                scratch.drain(..).for_each(|p| batch.push(p));
                let consumer = common.consumer.load(Ordering::Relaxed);
                if n > 0 && consumer != self.worker {
                    cx.wake_sleeper(runtime::WorkerId(consumer));
                }
                n
            }
            Place::Ring { .. } => 0,
        };
        self.depth.arrived(self.worker, n);
        if replaced {
            self.refresh(cx);
        }
    }

    /// Takes up to `max` packets from the front.
    pub(in crate::queues) fn take(&mut self, max: usize, out: &mut Batch, cx: &mut Cx<'_>) -> usize {
        self.refresh(cx);
        let n = match &mut self.place {
            Place::Own(deque) => {
                let n = max.min(deque.len());
                take(deque, out, n);
                n
            }
            Place::Locked(deque) => {
                let mut deque = locked(deque);
                let n = max.min(deque.len());
                take(&mut deque, out, n);
                n
            }
            Place::Ring { common, ring, scratch, .. } => {
                if common.consumer.load(Ordering::Relaxed) != self.worker {
                    common.consumer.store(self.worker, Ordering::Relaxed);
                }
                let n = ring.pop_many(max, scratch);
                scratch.drain(..).for_each(|p| out.push(p));
                n
            }
        };
        self.depth.left(self.worker, n);
        if n > 0 && !matches!(self.place, Place::Own(_)) {
            cx.count_changed_workers(self.depth.changed(self.worker, n));
        }
        n
    }

    /// Accepts packets one by one as `place` puts them into the deque; packets that it returns do not fit and
    /// are rejected. For queues of both [`Ends`], which have a deque.
    pub(in crate::queues) fn place_each(
        &mut self,
        mut batch: Batch,
        cx: &mut Cx<'_>,
        place: impl Fn(&mut VecDeque<Packet>, Packet) -> Option<Packet>,
    ) {
        for packet in batch.drain(..) {
            let rejected = match &mut self.place {
                Place::Own(deque) => place(deque, packet),
                Place::Locked(deque) => place(&mut locked(deque), packet),
                Place::Ring { .. } => Some(packet),
            };
            self.depth.arrived(self.worker, 1);
            if let Some(packet) = rejected {
                self.depth.left(self.worker, 1);
                self.overflow(cx);
                cx.fail(packet, drops::QUEUE_FULL);
            }
        }
        self.pushed(cx);
        cx.recycle(batch);
    }

    /// Counts a packet that did not fit; the first one is reported.
    pub(in crate::queues) fn overflow(&self, cx: &mut Cx<'_>) {
        if cx.n_outputs() < 2 {
            cx.count_overflow(1);
        }
        if self.depth.drops() == 0 && self.capacity > 0 {
            cx.log(Level::WARN, &format!("{} :: {}: overflow", cx.name(), cx.class()));
        }
        self.count_drop();
    }
    fn count_drop(&self) {
        self.depth.dropped(self.worker);
    }

    /// Notifies neighbors after packets have come in.
    pub(in crate::queues) fn pushed(&mut self, cx: &mut Cx<'_>) {
        let length = self.len();
        self.depth.reached(self.worker, length);
        if length > 0 {
            cx.set_nonempty(true);
        }
        cx.set_full(length >= self.capacity && self.capacity > 0);
    }
    /// Notifies neighbors after a pull that returned `got` packets.
    pub(in crate::queues) fn pulled(&mut self, got: usize, patience: u8, cx: &mut Cx<'_>) {
        let length = self.len();
        if length > 0 || (got > 0 && patience > 0 && cx.exact()) {
            self.empty_pulls = 0;
        } else if self.empty_pulls >= patience || !cx.exact() {
            cx.set_nonempty(false);
        } else {
            self.empty_pulls += 1;
        }
        cx.set_full(length >= self.capacity && self.capacity > 0);
    }

    /// Changes the capacity; `newest` determines which packets stay if there are too many.
    fn resize(&mut self, capacity: usize, newest: bool, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Place::Ring { common, .. } = &self.place {
            common.resize(capacity)?;
        }
        self.refresh(cx);
        let mut surplus = Vec::new();
        let mut shorten = |deque: &mut VecDeque<Packet>| {
            while deque.len() > capacity {
                surplus.extend(if newest { deque.pop_front() } else { deque.pop_back() });
            }
        };
        match &mut self.place {
            Place::Own(deque) => shorten(deque),
            Place::Locked(deque) => shorten(&mut locked(deque)),
            Place::Ring { .. } => {}
        }
        if !matches!(self.place, Place::Ring { .. }) {
            self.capacity = capacity;
            self.depth.capacity.store(capacity, Ordering::Relaxed);
        }
        for packet in surplus {
            self.depth.left(self.worker, 1);
            cx.drop(packet, drops::QUEUE_SHORTENED);
        }
        self.pushed(cx);
        Ok(())
    }

    /// Takes over the packets of the queue that this one replaces.
    pub(in crate::queues) fn take_state(&mut self, old: &mut Store, newest: bool, cx: &mut Cx<'_>) {
        let same = match (&self.place, &old.place) {
            (Place::Ring { common: a, .. }, Place::Ring { common: b, .. }) => Arc::ptr_eq(a, b),
            (Place::Locked(a), Place::Locked(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        if !Arc::ptr_eq(&self.depth, &old.depth)
            && let (Some(new), Some(before)) =
                (self.depth.cells.get(self.worker), old.depth.cells.get(old.worker))
        {
            new.drops.store(before.drops.load(Ordering::Relaxed), Ordering::Relaxed);
            new.highwater.store(before.highwater.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if !same {
            let mut packets = Batch::new();
            let n = old.take(usize::MAX, &mut packets, cx);
            self.depth.arrived(self.worker, n);
            let surplus = if newest { n.saturating_sub(self.capacity) } else { 0 };
            for packet in packets.drain(..surplus) {
                self.depth.left(self.worker, 1);
                cx.drop(packet, drops::QUEUE_FULL);
            }
            self.refill(packets.drain(..).collect::<Vec<_>>().into_iter(), cx);
        }
        self.pushed(cx);
    }
}

/// An element around a [`Store`].
pub(in crate::queues) trait Queueing: Element {
    /// Which packets to keep if there are too many: the newest rather than the oldest.
    const NEWEST: bool = false;
    fn store(&mut self) -> &mut Store;
}

/// The handlers that all queues have.
pub(in crate::queues) fn handlers<T: Queueing>(h: &mut Handlers<T>) {
    h.shared_read::<Depth>("length", |d, _| Ok(d.total().to_string()));
    h.shared_read::<Depth>("highwater_length", |d, _| Ok(d.highwater().to_string()));
    h.shared_read::<Depth>("drops", |d, _| Ok(d.drops().to_string()));
    h.read_with("capacity", Combine::First, |e, _, _| Ok(e.store().capacity().to_string()));
    h.write("capacity", |e, v, cx| {
        let capacity = text::value::<u32>(v, "CAPACITY: invalid number")?;
        e.store().resize(capacity as usize, T::NEWEST, cx)
    });
    h.argument("capacity", 0, "CAPACITY");
    h.write("config", |e, v, cx| {
        let names = runtime::handler_names();
        let mut args = Args::new(v, None, &names);
        let capacity = args.p::<u32>("CAPACITY").and_then(|capacity| args.finish().map(|()| capacity));
        let capacity = capacity.map_err(|e| e.message)?.unwrap_or(DEFAULT_CAPACITY);
        e.store().resize(capacity as usize, T::NEWEST, cx)
    });
    h.write("reset_counts", |e, _, _| {
        let store = e.store();
        store.depth.reset(store.worker, store.len());
        Ok(())
    });
    h.write("reset", |e, _, cx| {
        let mut packets = cx.spare_batch();
        e.store().take(usize::MAX, &mut packets, cx);
        packets.drain(..).for_each(|p| cx.fail(p, drops::QUEUE_RESET));
        cx.recycle(packets);
        e.store().pulled(0, 0, cx);
        Ok(())
    });
    h.listed(&["length", "highwater_length", "capacity .", "drops", "reset_counts b", "reset b"]);
}
