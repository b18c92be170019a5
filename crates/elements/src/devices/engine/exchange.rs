//! The rings over which the workers' replicas of one element exchange packets.

use super::devicetable::DeviceTable;
use super::history::History;
use super::indirection::Indirection;
use super::line::RING;
use super::parkstate::ParkState;
use super::sharing::Shares;
use crate::lookup::Table;
use crate::prelude::*;
use dpdk::Port;
use locks::IgnorePoison;
use runtime::Lanes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use tables::ring::{Consumer, Producer, spsc};

/// An end of a ring that its owner has not taken yet.
enum End {
    In(Outlet),
    Out(Intake),
}

/// How many packets of a ring have left the worker that takes them; written by that worker alone.
#[derive(Default)]
#[repr(align(128))]
struct Left(AtomicU64);

/// The end of a ring into which a worker puts packets for another one.
pub(in crate::devices) struct Outlet {
    ring: Producer<Packet>,
    pushed: u64,
    left: Arc<Left>,
}

impl Outlet {
    /// Moves as many packets as fit from the front of `packets`, and returns how many.
    #[inline]
    pub(in crate::devices) fn push_many(&mut self, packets: &mut Vec<Packet>) -> usize {
        let n = self.ring.push_many(packets);
        self.pushed += n as u64;
        n
    }
    /// How many packets have been put in up to now.
    pub(in crate::devices) fn pushed(&self) -> u64 {
        self.pushed
    }
    /// Whether the first `n` packets have been taken out and have left the other worker.
    pub(in crate::devices) fn have_left(&self, n: u64) -> bool {
        self.left.0.load(Ordering::Acquire) >= n
    }
    /// How many packets have not left the other worker.
    pub(in crate::devices) fn on_the_way(&self) -> u64 {
        self.pushed - self.left.0.load(Ordering::Acquire)
    }
    /// Packets in the ring.
    pub(in crate::devices) fn len(&self) -> usize {
        self.ring.len()
    }
    /// Its packets, for the outlet that takes its place in a hot swap.
    pub(in crate::devices) fn former(&self) -> Former {
        Former { pushed: self.pushed, left: Arc::clone(&self.left) }
    }
}

/// The packets of an outlet whose place another one has taken.
pub(in crate::devices) struct Former {
    pushed: u64,
    left: Arc<Left>,
}

impl Former {
    /// How many of them have not left the other worker.
    pub(in crate::devices) fn on_the_way(&self) -> u64 {
        self.pushed - self.left.0.load(Ordering::Acquire)
    }
}

/// The end from which the other worker takes them.
struct Intake {
    ring: Consumer<Packet>,
    popped: u64,
    /// What it has said in `left`.
    said: u64,
    left: Arc<Left>,
}

/// Both ends of a new ring.
fn ring() -> (Outlet, Intake) {
    let ((producer, consumer), left) = (spsc(RING), Arc::<Left>::default());
    let outlet = Outlet { ring: producer, pushed: 0, left: Arc::clone(&left) };
    (outlet, Intake { ring: consumer, popped: 0, said: 0, left })
}

/// The place where the replicas of one element find the ends of their rings, and the transmit queues that
/// they share, while they are initialized.
#[derive(Default)]
pub(in crate::devices) struct Exchange {
    ends: Mutex<HashMap<(usize, usize), End>>,
    shares: OnceLock<Arc<Shares>>,
    indirection: OnceLock<Arc<Indirection>>,
    device_table: OnceLock<Option<Arc<DeviceTable>>>,
    history: OnceLock<Arc<History>>,
    steering: OnceLock<Arc<Table>>,
    park_state: OnceLock<Arc<ParkState>>,
    port: OnceLock<Weak<Port>>,
}

impl Exchange {
    /// The exchange of the element that is being configured: a new one for each configuration, also in a hot
    /// swap.
    pub(in crate::devices) fn of(cx: &mut ConfigCx<'_>) -> Arc<Self> {
        let known = cx.find(cx.name()).and_then(|me| cx.shared_by::<Self>(me));
        known.unwrap_or_else(|| {
            let new = Arc::new(Self::default());
            cx.publish(Arc::clone(&new));
            new
        })
    }

    fn end<E>(
        &self,
        pair: (usize, usize),
        mine: impl Fn(End) -> Option<E>,
        split: impl Fn((Outlet, Intake)) -> (E, End),
    ) -> E {
        let mut waiting = self.ends.lock().ignore_poison();
        if let Some(end) = waiting.remove(&pair).and_then(mine) {
            return end;
        }
        let (end, other) = split(ring());
        waiting.insert(pair, other);
        end
    }
    /// The transmit queues that the replicas share.
    pub(super) fn shares(&self, lanes: &Lanes, port: &Port) -> Arc<Shares> {
        let new = || Arc::new(Shares::new(lanes, port.peer_sets_tx_queues()));
        Arc::clone(self.shares.get_or_init(new))
    }
    /// The indirection table by which the replicas spread flows, made by the first that needs it.
    pub(super) fn indirection(&self, make: impl FnOnce() -> Indirection) -> Arc<Indirection> {
        Arc::clone(self.indirection.get_or_init(|| Arc::new(make())))
    }
    /// The indirection table, if flows are spread in software.
    pub(super) fn known_indirection(&self) -> Option<&Arc<Indirection>> {
        self.indirection.get()
    }
    /// The device's own table where the device spreads flows, made by the first that needs it if it can be
    /// used.
    pub(super) fn device_table(
        &self,
        make: impl FnOnce() -> Option<DeviceTable>,
    ) -> Option<Arc<DeviceTable>> {
        self.device_table.get_or_init(|| make().map(Arc::new)).clone()
    }
    /// The same, if it is known.
    pub(super) fn known_device_table(&self) -> Option<&Arc<DeviceTable>> {
        self.device_table.get()?.as_ref()
    }
    /// What the rebalancer of the table has decided, made by the first replica.
    pub(super) fn history(&self, make: impl FnOnce() -> Arc<History>) -> Arc<History> {
        Arc::clone(self.history.get_or_init(make))
    }
    /// The same, if there is one.
    pub(super) fn known_history(&self) -> Option<&Arc<History>> {
        self.history.get()
    }
    /// Remembers the table by whose routes packets are steered.
    pub(super) fn steer_by(&self, table: &Arc<Table>) {
        self.steering.get_or_init(|| Arc::clone(table));
    }
    /// The same, if they are.
    pub(super) fn steering_table(&self) -> Option<&Arc<Table>> {
        self.steering.get()
    }
    /// Which workers are parked and why, made by the first replica.
    pub(super) fn park_state(&self, make: impl FnOnce() -> Arc<ParkState>) -> Arc<ParkState> {
        Arc::clone(self.park_state.get_or_init(make))
    }
    /// The same, if there is one.
    pub(super) fn known_park_state(&self) -> Option<&Arc<ParkState>> {
        self.park_state.get()
    }
    /// Remembers the port, for handlers.
    pub(super) fn at_port(&self, port: &Arc<Port>) {
        self.port.get_or_init(|| Arc::downgrade(port));
    }
    /// The port, once it is open.
    pub(super) fn port(&self) -> Option<Arc<Port>> {
        self.port.get()?.upgrade()
    }
    /// The end into which `from` puts packets for `to`.
    pub(in crate::devices) fn producer(&self, from: usize, to: usize) -> Outlet {
        let mine = |end| if let End::In(p) = end { Some(p) } else { None };
        self.end((from, to), mine, |(p, c)| (p, End::Out(c)))
    }
    /// The end from which `to` takes them.
    fn consumer(&self, from: usize, to: usize) -> Intake {
        let mine = |end| if let End::Out(c) = end { Some(c) } else { None };
        self.end((from, to), mine, |(p, c)| (c, End::In(p)))
    }
}

/// Packets from one worker: over a ring, and after a hot swap first over the rings of previous
/// configurations.
pub(in crate::devices) struct Inlet {
    from: usize,
    rings: VecDeque<Intake>,
    /// Those that are no longer used, until the other worker knows that their packets have left.
    done: Vec<Intake>,
}

impl Inlet {
    pub(in crate::devices) fn new(exchange: &Exchange, from: usize, to: usize) -> Self {
        Self { from, rings: VecDeque::from([exchange.consumer(from, to)]), done: Vec::new() }
    }
    /// Appends up to `n` of the oldest packets.
    #[inline]
    pub(in crate::devices) fn pop_many(&mut self, n: usize, out: &mut Vec<Packet>) -> usize {
        loop {
            let next = self.rings.get(1).map(|intake| intake.ring.len());
            let Some(Intake { ring: first, popped, .. }) = self.rings.front_mut() else { return 0 };
            let got = first.pop_many(n, out);
            *popped += got as u64;
            // The other worker uses a ring only after it has stopped using the previous one: if the next ring
            // had packets before, this one stays empty.
            match next {
                Some(ready) if got == 0 && n > 0 && (ready > 0 || first.is_closed() && first.is_empty()) => {
                    self.done.extend(self.rings.pop_front().filter(|ring| ring.said != ring.popped));
                }
                _ => return got,
            }
        }
    }
    /// Tells the other worker that all packets that were taken up to now have left this one.
    #[inline]
    pub(in crate::devices) fn say_left(&mut self) {
        for intake in self.rings.iter_mut().chain(&mut self.done) {
            if intake.said != intake.popped {
                intake.said = intake.popped;
                intake.left.0.store(intake.popped, Ordering::Release);
            }
        }
        self.done.clear();
    }
    /// The rings are empty and stay empty: the other worker no longer has its ends.
    fn is_done(&self) -> bool {
        self.done.is_empty()
            && self.rings.iter().all(|intake| intake.ring.is_closed() && intake.ring.is_empty())
    }
}

/// Removes inlets whose rings are no longer used.
pub(in crate::devices) fn forget_done<T>(
    inlets: &mut Vec<T>,
    inlet: impl Fn(&T) -> &Inlet,
    idle: impl Fn(&T) -> bool,
) {
    inlets.retain(|i| !(inlet(i).is_done() && idle(i)));
}

/// Puts the rings of a configuration that is being replaced before those of its successor: workers continue
/// to use the old rings until they are replaced too.
pub(in crate::devices) fn inherit<T>(new: &mut Vec<T>, old: Vec<T>, inlet: impl Fn(&mut T) -> &mut Inlet) {
    for mut old in old {
        let before = inlet(&mut old);
        match new.iter_mut().map(&inlet).find(|i| i.from == before.from) {
            Some(after) => {
                before.rings.append(&mut after.rings);
                std::mem::swap(&mut before.rings, &mut after.rings);
                after.done.append(&mut before.done);
            }
            None => new.push(old),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_meet_whoever_comes_first() {
        let exchange = Exchange::default();
        let mut p = exchange.producer(0, 1);
        let mut back = exchange.consumer(1, 0);
        let mut c = exchange.consumer(0, 1);
        let mut q = exchange.producer(1, 0);
        assert!(p.ring.push(Packet::from_bytes(b"a").unwrap()).is_ok());
        assert!(q.ring.push(Packet::from_bytes(b"b").unwrap()).is_ok());
        assert_eq!(c.ring.pop().unwrap().data(), b"a");
        assert_eq!(back.ring.pop().unwrap().data(), b"b");
    }

    fn bytes(inlet: &mut Inlet) -> String {
        let mut out = Vec::new();
        while inlet.pop_many(1, &mut out) > 0 {}
        out.iter().map(|p| char::from(p.data()[0])).collect()
    }

    #[test]
    fn a_worker_says_when_packets_have_left_it() {
        let exchange = Exchange::default();
        let (mut p, mut inlet) = (exchange.producer(0, 1), Inlet::new(&exchange, 0, 1));
        let mut packets: Vec<Packet> = (0..5).map(|n| Packet::from_bytes(&[n]).unwrap()).collect();
        assert_eq!(p.push_many(&mut packets), 5);
        let mut out = Vec::new();
        assert_eq!(inlet.pop_many(3, &mut out), 3);
        assert!(p.have_left(0) && !p.have_left(1), "taken, and still being worked on");
        inlet.say_left();
        assert!(p.have_left(3) && !p.have_left(4));
        assert_eq!((p.on_the_way(), p.len()), (2, 2));
    }

    #[test]
    fn what_was_sent_before_a_hot_swap_is_known_to_have_left() {
        let (old, new) = (Exchange::default(), Exchange::default());
        let (mut before, mut after) = (old.producer(0, 1), new.producer(0, 1));
        let mut inlets = vec![Inlet::new(&new, 0, 1)];
        inherit(&mut inlets, vec![Inlet::new(&old, 0, 1)], |i| i);
        let packets = |n: u8| (0..n).map(|n| Packet::from_bytes(&[n]).unwrap()).collect();
        before.push_many(&mut packets(3));
        let former = before.former();
        after.push_many(&mut packets(1));
        let mut out = Vec::new();
        inlets[0].pop_many(2, &mut out);
        inlets[0].say_left();
        assert_eq!(former.on_the_way(), 1);
        // The last one is taken, and the ring is no longer used before it has left.
        while inlets[0].pop_many(1, &mut out) > 0 {}
        assert_eq!((out.len(), inlets[0].rings.len(), former.on_the_way()), (4, 1, 1));
        drop((before, after, old));
        assert!(!inlets[0].is_done());
        inlets[0].say_left();
        assert_eq!(former.on_the_way(), 0);
        assert!(inlets[0].is_done());
    }

    #[test]
    fn what_was_sent_before_a_hot_swap_comes_first() {
        let (old, new) = (Exchange::default(), Exchange::default());
        let mut before = old.producer(0, 1);
        let mut after = new.producer(0, 1);
        let mut inlets = vec![Inlet::new(&new, 0, 1)];
        inherit(&mut inlets, vec![Inlet::new(&old, 0, 1), Inlet::new(&old, 2, 1)], |i| i);
        assert_eq!(inlets.len(), 2, "worker 2 has no successor yet");
        let send = |p: &mut Outlet, text: &str| {
            let mut packets = text.bytes().map(|b| Packet::from_bytes(&[b]).unwrap()).collect();
            assert_eq!(p.push_many(&mut packets), text.len());
        };
        send(&mut before, "ab");
        assert_eq!(bytes(&mut inlets[0]), "ab");
        assert_eq!(inlets[0].rings.len(), 2, "the other worker has not changed over");
        send(&mut before, "c");
        send(&mut after, "d");
        assert_eq!(bytes(&mut inlets[0]), "cd");
        assert_eq!(inlets[0].rings.len(), 1);
        forget_done(&mut inlets, |i| i, |_| true);
        assert_eq!(inlets.len(), 2);
        drop((old, after));
        inlets.iter_mut().for_each(Inlet::say_left);
        forget_done(&mut inlets, |i| i, |_| true);
        assert!(inlets.is_empty());
    }
}
