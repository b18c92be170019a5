//! Ports without a device whose other side is another process, by memif.
//!
//! A router opens such a port by name (`virtual:NAME`), as any other. Whoever runs it attaches memory that a
//! process has ([`MemifPort::attach`]), and takes it away again. While there is none, what is sent is dropped
//! and counted. The process is not trusted: see [`memif`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use locks::IgnorePoison;
use memif::{Broken, Receiver, Region, Sender};

use crate::batch::Batch;
use crate::error::Error;
use crate::spec::PortSpec;
use crate::status::PortStats;
use crate::virtualport;

/// The memif ports that exist, by name.
static ALL: Mutex<Option<HashMap<String, Weak<Shared>>>> = Mutex::new(None);

fn all() -> MutexGuard<'static, Option<HashMap<String, Weak<Shared>>>> {
    ALL.lock().ignore_poison()
}

#[derive(Debug, Default)]
struct Counts {
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
}

impl Counts {
    /// Once for each burst.
    fn add(&self, packets: usize, bytes: usize, lost: u64) {
        self.packets.fetch_add(packets as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if lost > 0 {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

/// What all queues of a port have. Each ring has a lock, which is free but for the moment of attaching, where
/// each is used by one worker; where there are fewer rings than workers, those that share one wait for each
/// other's burst.
#[derive(Debug)]
pub(crate) struct Shared {
    mac: [u8; 6],
    mtu: u32,
    workers: usize,
    to: Box<[Mutex<Option<Sender>>]>,
    from: Box<[Mutex<Option<Receiver>>]>,
    sent: Counts,
    received: Counts,
    broken: Mutex<Option<Broken>>,
}

impl Shared {
    #[cold]
    fn breaks<T>(&self, ring: &mut Option<T>, broken: Broken) {
        *ring = None;
        self.broken.lock().ignore_poison().get_or_insert(broken);
    }

    fn detach(&self) {
        self.to.iter().for_each(|ring| *ring.lock().ignore_poison() = None);
        self.from.iter().for_each(|ring| *ring.lock().ignore_poison() = None);
    }

    /// What each worker sends to and receives from.
    pub(crate) fn queues(self: &Arc<Self>) -> impl Iterator<Item = Arc<MemifQueue>> {
        (0..self.workers).map(|worker| Arc::new(MemifQueue { shared: Arc::clone(self), worker }))
    }

    fn stats(&self) -> PortStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PortStats {
            rx_packets: get(&self.received.packets),
            rx_bytes: get(&self.received.bytes),
            rx_errors: get(&self.received.lost),
            tx_packets: get(&self.sent.packets),
            tx_bytes: get(&self.sent.bytes),
            tx_errors: get(&self.sent.lost),
            ..PortStats::default()
        }
    }
}

/// A queue of such a port, for one worker.
#[derive(Debug)]
pub(crate) struct MemifQueue {
    shared: Arc<Shared>,
    worker: usize,
}

impl MemifQueue {
    /// Copies packets from the front of `batch` to the process, as many as there is room for; returns how
    /// many. Those that nobody can get are dropped.
    pub(crate) fn put(&self, batch: &mut Batch) -> usize {
        let Some(ring) = self.shared.to.get(self.worker % self.shared.to.len()) else { return 0 };
        let mut ring = ring.lock().ignore_poison();
        let room = match ring.as_mut().map(Sender::room) {
            Some(Ok(room)) => room,
            Some(Err(broken)) => {
                self.shared.breaks(&mut ring, broken);
                usize::MAX
            }
            None => usize::MAX,
        };
        let done = room.min(batch.len());
        if done == 0 {
            return 0;
        }
        let (mut packets, mut bytes) = (0, 0);
        if let Some(sender) = ring.as_mut() {
            for packet in batch.iter().take(done) {
                if sender.put(packet.data()) {
                    (packets, bytes) = (packets + 1, bytes + packet.len());
                }
            }
            sender.publish();
        }
        drop(ring);
        batch.free_sent(done);
        self.shared.sent.add(packets, bytes, (done - packets) as u64);
        done
    }

    /// Appends up to `most` packets that the process has sent; returns how many.
    pub(crate) fn take(&self, most: usize, batch: &mut Batch) -> usize {
        let mut taken = 0;
        let mine = self.shared.from.iter().skip(self.worker).step_by(self.shared.workers.max(1));
        for ring in mine {
            if taken < most {
                taken += self.take_from(ring, most - taken, batch);
            }
        }
        taken
    }

    fn take_from(&self, ring: &Mutex<Option<Receiver>>, most: usize, batch: &mut Batch) -> usize {
        let mut ring = ring.lock().ignore_poison();
        let Some(receiver) = ring.as_mut() else { return 0 };
        let before = batch.len();
        let waiting = match receiver.waiting() {
            Ok(0) => return 0,
            Ok(waiting) => waiting.min(most),
            Err(broken) => {
                self.shared.breaks(&mut ring, broken);
                return 0;
            }
        };
        // Without buffers, the packets stay where they are.
        let places = batch.push_empty(waiting);
        let (mut taken, mut bytes, mut lost) = (0, 0, 0);
        let mut failed = None;
        while taken < places {
            receiver.prefetch();
            match receiver.next_length() {
                Ok(Some(length)) => {
                    let packet = &mut batch[before + taken];
                    if packet.put_in_place(length) {
                        receiver.take(packet.data_mut());
                        (taken, bytes) = (taken + 1, bytes + length);
                    } else {
                        receiver.skip();
                        lost += 1;
                    }
                }
                Ok(None) => break,
                Err(broken) => {
                    failed = Some(broken);
                    break;
                }
            }
        }
        receiver.release();
        lost += receiver.skipped();
        if let Some(broken) = failed {
            self.shared.breaks(&mut ring, broken);
        }
        drop(ring);
        batch.truncate(before + taken);
        self.shared.received.add(taken, bytes, lost);
        taken
    }
}

/// The outer side of a memif port. Its name can be opened as long as it exists.
#[derive(Debug)]
pub struct MemifPort {
    name: String,
    shared: Arc<Shared>,
}

impl MemifPort {
    /// Makes a port with a receive and a transmit queue for each of `workers`, for memory with `rings` rings
    /// in each direction.
    ///
    /// # Errors
    /// There is one of this name.
    pub fn new(name: &str, mac: [u8; 6], mtu: u32, workers: usize, rings: usize) -> Result<Self, Error> {
        let rings = rings.max(1);
        let shared = Arc::new(Shared {
            mac,
            mtu,
            workers,
            to: (0..rings).map(|_| Mutex::default()).collect(),
            from: (0..rings).map(|_| Mutex::default()).collect(),
            sent: Counts::default(),
            received: Counts::default(),
            broken: Mutex::default(),
        });
        let mut guard = all();
        let all = guard.get_or_insert_default();
        if all.get(name).is_some_and(|known| known.strong_count() > 0) || virtualport::find(name).is_some() {
            let spec = PortSpec::Virtual(name.to_owned()).to_string();
            return Err(Error::port(&spec, "making it", "there is one of this name"));
        }
        all.retain(|_, known| known.strong_count() > 0);
        all.insert(name.to_owned(), Arc::downgrade(&shared));
        Ok(Self { name: name.to_owned(), shared })
    }

    /// Its name, without `virtual:`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From here on, packets pass by this memory, which nobody has used yet.
    pub fn attach(&self, region: &Arc<Region>) {
        *self.shared.broken.lock().ignore_poison() = None;
        for (number, (to, from)) in self.shared.to.iter().zip(&self.shared.from).enumerate() {
            *to.lock().ignore_poison() = Sender::new(region, number);
            *from.lock().ignore_poison() = Receiver::new(region, number);
        }
    }

    /// No packets pass any more, and the memory is given up.
    pub fn detach(&self) {
        self.shared.detach();
    }

    /// What the process has written that it may not; no packets pass by that ring any more.
    #[must_use]
    pub fn broken(&self) -> Option<Broken> {
        *self.shared.broken.lock().ignore_poison()
    }

    /// What was received from the process and sent to it.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        self.shared.stats()
    }
}

impl Drop for MemifPort {
    fn drop(&mut self) {
        self.shared.detach();
        let mut all = all();
        if let Some(all) = all.as_mut()
            && all
                .get(&self.name)
                .is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&self.shared)))
        {
            all.remove(&self.name);
        }
    }
}

/// The inner side of a port without a device.
#[derive(Debug)]
pub(crate) enum Deviceless {
    Virtual(Arc<virtualport::Inner>),
    Memif(Arc<Shared>),
}

impl Deviceless {
    /// The port of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        if let Some(inner) = virtualport::find(name) {
            return Some(Self::Virtual(inner));
        }
        all().as_ref()?.get(name)?.upgrade().map(Self::Memif)
    }

    /// What it is, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Virtual(_) => "virtual interface",
            Self::Memif(_) => "memif to another process",
        }
    }

    pub(crate) fn mac(&self) -> [u8; 6] {
        match self {
            Self::Virtual(inner) => inner.mac,
            Self::Memif(shared) => shared.mac,
        }
    }

    pub(crate) fn mtu(&self) -> u32 {
        match self {
            Self::Virtual(inner) => inner.mtu,
            Self::Memif(shared) => shared.mtu,
        }
    }

    pub(crate) fn stats(&self) -> PortStats {
        match self {
            Self::Virtual(inner) => inner.stats(),
            Self::Memif(shared) => shared.stats(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use memif::Layout;

    fn packets(n: usize) -> Batch {
        let mut batch = Batch::new();
        (0..n).for_each(|i| batch.push(Packet::from_bytes(&[i as u8; 60]).unwrap()));
        batch
    }

    fn queues(name: &str) -> Vec<Arc<MemifQueue>> {
        let Some(Deviceless::Memif(shared)) = Deviceless::find(name) else { panic!("no port {name}") };
        shared.queues().collect()
    }

    #[test]
    fn without_a_process_packets_are_dropped_and_counted() {
        let port = MemifPort::new("none/DEV0", [2; 6], 1500, 1, 1).unwrap();
        assert!(MemifPort::new("none/DEV0", [2; 6], 1500, 1, 1).is_err());
        let queue = queues("none/DEV0").remove(0);
        let mut batch = packets(5);
        assert_eq!((queue.put(&mut batch), batch.len(), queue.take(64, &mut batch)), (5, 0, 0));
        assert_eq!((port.stats().tx_errors, port.stats().tx_packets), (5, 0));
        drop(port);
        assert!(Deviceless::find("none/DEV0").is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn rings_are_shared_among_workers() {
        let slots = 1 << 4;
        let port = MemifPort::new("some/DEV0", [2; 6], 1500, 3, 2).unwrap();
        let region = Region::new(Layout::new(2, 4)).unwrap();
        port.attach(&region);
        let queues = queues("some/DEV0");
        // Workers 0 and 2 have one ring, worker 1 the other one.
        let mut batch = packets(10);
        assert_eq!((queues[0].put(&mut batch), batch.len()), (10, 0));
        let mut batch = packets(10);
        assert_eq!((queues[2].put(&mut batch), batch.len(), batch[0].data()[0]), (slots - 10, 4, 6));
        assert_eq!((queues[2].put(&mut batch), batch.len()), (0, 4));
        assert_eq!((queues[1].put(&mut batch), batch.len()), (4, 0));
        assert_eq!((port.stats().tx_packets, port.stats().tx_bytes, port.stats().tx_errors), (20, 1200, 0));
        // Frames that are too long are lost, and hold nobody up.
        batch.push(Packet::alloc(128, memif::BUFFER + 1).unwrap());
        assert_eq!((queues[1].put(&mut batch), batch.len(), port.stats().tx_errors), (1, 0, 1));
        assert_eq!(queues.iter().map(|queue| queue.take(64, &mut batch)).sum::<usize>(), 0);
        port.detach();
        let mut batch = packets(1);
        assert_eq!((queues[2].put(&mut batch), batch.len()), (1, 0));
        assert_eq!(port.broken(), None);
    }
}
