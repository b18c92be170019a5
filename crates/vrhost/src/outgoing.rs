//! What routers send by a port that they share, on one thread, while the port does not take it: a queue for
//! each virtual interface, served by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995), weighted by
//! the routers' shares; and an interface's limit in bits a second.

use dpdk::{Batch, Packet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The most packets of one poll, and of one call to send.
pub(crate) const BURST: usize = 64;
/// The most packets that wait at a port for one thread. An interface may have as many in its queue as there
/// is room left (dynamic thresholds; Choudhury and Hahne, 1998): one alone half of it, and there is always
/// some for another.
pub(crate) const ROOM: usize = 2048;
/// Bytes for an interface with the least weight in each round.
const QUANTUM: u64 = 2048;
/// The time, in nanoseconds, that an interface that has sent less than its rate may have saved up; and at
/// least so many bytes, so that a large segment does not wait longer than it has to.
const SAVED: u64 = 5_000_000;
const LEAST_SAVED: u64 = 1 << 16;
/// The time of a byte is kept in parts of a nanosecond, 2 to the power of this.
const PARTS: u32 = 20;

/// How an interface sends: its weight and its rate, which the control thread can change.
#[derive(Debug)]
pub(crate) struct Outlet {
    weight: AtomicU32,
    /// How long a byte takes at the rate, in parts of a nanosecond; 0: there is none.
    of_a_byte: AtomicU64,
    /// When what has been sent would have ended at the rate, in nanoseconds; for all threads.
    ends: AtomicU64,
}

impl Outlet {
    /// `rate` in bytes a second.
    pub(crate) fn new(weight: u32, rate: Option<u64>) -> Arc<Self> {
        let this = Self { weight: AtomicU32::new(1), of_a_byte: AtomicU64::new(0), ends: AtomicU64::new(0) };
        this.set(weight, rate);
        Arc::new(this)
    }

    /// `rate` in bytes a second.
    pub(crate) fn set(&self, weight: u32, rate: Option<u64>) {
        let of_a_byte = rate.map_or(0, |rate| ((1_000_000_000 << PARTS) / rate.max(1)).max(1));
        self.weight.store(weight.max(1), Ordering::Relaxed);
        self.of_a_byte.store(of_a_byte, Ordering::Relaxed);
    }

    pub(crate) fn has_rate(&self) -> bool {
        self.of_a_byte.load(Ordering::Relaxed) > 0
    }

    /// Whether so many bytes may be sent now, in nanoseconds; they are charged then.
    fn allows(&self, bytes: usize, now: u64) -> bool {
        let of_a_byte = self.of_a_byte.load(Ordering::Relaxed);
        if of_a_byte == 0 {
            return true;
        }
        let time = |bytes: u64| {
            u64::try_from((u128::from(of_a_byte) * u128::from(bytes)) >> PARTS).unwrap_or(u64::MAX)
        };
        let saved = SAVED.max(time(LEAST_SAVED));
        let charge = |ends: u64| {
            let ends = ends.max(now.saturating_sub(saved));
            (ends <= now).then(|| ends.saturating_add(time(bytes as u64)))
        };
        self.ends.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge).is_ok()
    }
}

/// What waits of one interface.
#[derive(Default)]
struct Queue {
    packets: VecDeque<Packet>,
    outlet: Option<Arc<Outlet>>,
    /// Bytes that it may send in this round.
    deficit: u64,
}

/// What waits at a port on one thread.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// By the number of the interface's owner of frames.
    queues: Vec<Queue>,
    /// Those that are not empty, the one whose turn it is first.
    turns: VecDeque<u32>,
    /// Whether the first has got its bytes for this round.
    begun: bool,
    waiting: usize,
}

impl Outgoing {
    /// How many packets wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether packets of this interface have to wait their turn.
    pub(crate) fn must_wait(&self, outlet: &Outlet) -> bool {
        self.waiting > 0 || outlet.has_rate()
    }

    /// Appends packets to the queue of an interface. Those for which there is no room are dropped; returns
    /// how many.
    pub(crate) fn put(&mut self, owner: u32, outlet: &Arc<Outlet>, batch: &mut Batch) -> usize {
        let at = owner as usize;
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, Queue::default);
        }
        let queue = &mut self.queues[at];
        if queue.packets.is_empty() {
            if batch.is_empty() || self.waiting >= ROOM {
                let lost = batch.len();
                batch.clear();
                return lost;
            }
            queue.outlet = Some(Arc::clone(outlet));
            self.turns.push_back(owner);
        }
        let mut lost = 0;
        for packet in batch.drain(..) {
            if queue.packets.len() < ROOM - self.waiting {
                queue.packets.push_back(packet);
                self.waiting += 1;
            } else {
                lost += 1;
            }
        }
        lost
    }

    /// Moves packets whose turn it is to `out`, until that has a full burst.
    pub(crate) fn take(&mut self, out: &mut Batch, now: u64) {
        // Interfaces in a row that could send nothing, though they had the bytes for it.
        let mut barred = 0;
        while out.len() < BURST && barred < self.turns.len() {
            let Some(&owner) = self.turns.front() else { return };
            let queue = &mut self.queues[owner as usize];
            let Some(outlet) = &queue.outlet else { return };
            if !self.begun {
                queue.deficit += QUANTUM * u64::from(outlet.weight.load(Ordering::Relaxed));
                self.begun = true;
            }
            let mut bars = false;
            while let Some(packet) = queue.packets.front()
                && packet.len() as u64 <= queue.deficit
                && out.len() < BURST
            {
                if !outlet.allows(packet.len(), now) {
                    bars = true;
                    break;
                }
                queue.deficit -= packet.len() as u64;
                self.waiting -= 1;
                barred = 0;
                queue.packets.pop_front().into_iter().for_each(|packet| out.push(packet));
            }
            if queue.packets.is_empty() {
                queue.deficit = 0;
                self.turns.pop_front();
                self.begun = false;
            } else if out.len() < BURST || bars {
                if bars {
                    // It saves up time by its rate, and no bytes beside that.
                    queue.deficit = 0;
                    barred += 1;
                }
                self.turns.rotate_left(1);
                self.begun = false;
            }
        }
    }

    /// Drops what waits of an interface.
    pub(crate) fn forget(&mut self, owner: u32) {
        let Some(queue) = self.queues.get_mut(owner as usize) else { return };
        self.waiting -= queue.packets.len();
        *queue = Queue::default();
        if self.turns.front() == Some(&owner) {
            self.begun = false;
        }
        self.turns.retain(|other| *other != owner);
    }

    /// Drops all; returns how many packets.
    pub(crate) fn clear(&mut self) -> usize {
        let dropped = self.waiting;
        *self = Self::default();
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(len: usize, count: usize) -> Batch {
        let mut batch = Batch::with_capacity(count);
        (0..count).for_each(|_| batch.push(Packet::from_bytes(&vec![0; len]).unwrap()));
        batch
    }

    /// How many bytes of each length are sent in so many bursts, while all queues are kept full.
    fn sent(queues: &[(usize, &Arc<Outlet>)], bursts: usize) -> Vec<u64> {
        let (mut outgoing, mut out) = (Outgoing::default(), Batch::with_capacity(BURST));
        let mut bytes = vec![0; queues.len()];
        for _ in 0..bursts {
            for (owner, (len, outlet)) in queues.iter().enumerate() {
                outgoing.put(owner as u32, outlet, &mut packets(*len, BURST));
            }
            outgoing.take(&mut out, 0);
            assert_eq!(out.len(), BURST);
            for packet in out.drain(..) {
                let from = queues.iter().position(|(len, _)| *len == packet.len()).unwrap();
                bytes[from] += packet.len() as u64;
            }
        }
        bytes
    }

    #[test]
    fn bytes_are_divided_by_weight_whatever_the_length_of_packets() {
        let (one, three) = (Outlet::new(1, None), Outlet::new(3, None));
        let bytes = sent(&[(60, &one), (1500, &one), (700, &three)], 2000);
        let all: u64 = bytes.iter().sum();
        for (bytes, due) in bytes.iter().zip([0.2, 0.2, 0.6]) {
            assert!((*bytes as f64 / all as f64 - due).abs() < 0.02, "{bytes:?} of {all}");
        }
    }

    #[test]
    fn one_that_sends_too_much_leaves_room_for_others() {
        let outlet = Outlet::new(1, None);
        let mut outgoing = Outgoing::default();
        let lost = outgoing.put(0, &outlet, &mut packets(60, 3000));
        assert_eq!((lost, outgoing.waiting()), (3000 - ROOM / 2, ROOM / 2));
        assert_eq!(outgoing.put(1, &outlet, &mut packets(60, 64)), 0);
        outgoing.forget(0);
        assert_eq!(outgoing.waiting(), 64);
        let mut out = Batch::with_capacity(BURST);
        outgoing.take(&mut out, 0);
        assert_eq!((out.len(), outgoing.waiting()), (64, 0));
        // Thousands of interfaces share the room, and those that find none keep nothing.
        let lost: usize = (0..5000).map(|n| outgoing.put(n, &outlet, &mut packets(60, 1))).sum();
        assert_eq!((lost, outgoing.waiting(), outgoing.turns.len()), (5000 - ROOM, ROOM, ROOM));
        assert_eq!(outgoing.clear(), ROOM);
        assert_eq!(outgoing.waiting(), 0);
    }

    #[test]
    fn a_rate_is_kept_and_holds_up_nobody_else() {
        let (slow, free) = (Outlet::new(1, Some(100_000)), Outlet::new(1, None));
        let (mut outgoing, mut out) = (Outgoing::default(), Batch::with_capacity(BURST));
        let (mut of_slow, mut of_free) = (0, 0);
        let start = 10_000_000_000;
        for now in (0..4_000_000_000).step_by(500_000) {
            outgoing.put(0, &slow, &mut packets(1000, 4));
            outgoing.put(1, &free, &mut packets(60, 4));
            outgoing.take(&mut out, start + now);
            of_slow += out.iter().filter(|packet| packet.len() == 1000).count();
            of_free += out.iter().filter(|packet| packet.len() == 60).count();
            out.clear();
        }
        // What was saved up, and four seconds.
        let due = (LEAST_SAVED as usize + 400_000) / 1000;
        assert!(of_slow.abs_diff(due) <= 2, "{of_slow} of {due}");
        assert_eq!(of_free, 4 * 8000);
        // Without the rate, all may go.
        slow.set(1, None);
        outgoing.take(&mut out, start);
        assert_eq!(out.len(), BURST);
    }

    #[test]
    fn rates_of_all_sizes_are_kept() {
        for rate in [1, 1000, 12_500_000, 12_500_000_000, u64::MAX] {
            let outlet = Outlet::new(1, Some(rate));
            let (start, most) = (1 << 60, 100_000);
            let sent = (0..most).take_while(|_| outlet.allows(1500, start)).count() as u128;
            let saved = u128::from(LEAST_SAVED).max(u128::from(rate) * u128::from(SAVED) / 1_000_000_000);
            let due = (saved / 1500 + 1).min(most);
            assert!(sent.abs_diff(due) <= due / 100 + 1, "{rate}: {sent} of {due}");
        }
    }

    /// Whatever is put, taken and forgotten, every packet is sent, lost, forgotten, or waits, and it is known
    /// where.
    #[test]
    fn no_packet_is_lost_sight_of() {
        let outlets = [Outlet::new(1, None), Outlet::new(7, None), Outlet::new(2, Some(1000))];
        let (mut outgoing, mut out) = (Outgoing::default(), Batch::with_capacity(BURST));
        let (mut put, mut lost, mut sent, mut forgotten) = (0, 0, 0, 0);
        let mut random = 7u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for step in 0..20_000u64 {
            let owner = next(40) as u32;
            match next(if step % 4000 < 2000 { 3 } else { 8 }) {
                0 => {
                    forgotten += outgoing.queues.get(owner as usize).map_or(0, |queue| queue.packets.len());
                    outgoing.forget(owner);
                }
                1 | 2 => {
                    outgoing.take(&mut out, step * 1000);
                    sent += out.len();
                    out.clear();
                }
                _ => {
                    let count = next(90) as usize;
                    let mut batch = packets(60 + next(1400) as usize, count);
                    put += count;
                    lost += outgoing.put(owner, &outlets[owner as usize % 3], &mut batch);
                    assert!(batch.is_empty());
                }
            }
            let queues = outgoing.queues.iter().map(|queue| queue.packets.len());
            assert_eq!(queues.clone().sum::<usize>(), outgoing.waiting());
            assert_eq!(queues.filter(|len| *len > 0).count(), outgoing.turns.len());
            assert!(outgoing.waiting() <= ROOM);
            assert_eq!(put, lost + sent + forgotten + outgoing.waiting());
        }
        assert!(lost > 0 && sent > 0 && forgotten > 0, "{lost} {sent} {forgotten}");
    }
}
