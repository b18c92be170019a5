//! Fragments (RFC 6146 section 3.4): those but the first have no ports, and go where the first one went. If
//! they arrive before it, they wait.

use locks::IgnorePoison;
use runtime::Packet;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Mutex;

/// How long a packet's fragments are known after the first of them to arrive (RFC 6146 section 4,
/// FRAGMENT_MIN).
const LIFETIME_NS: u64 = 2_000_000_000;
/// How many packets in fragments are known, and how many fragments wait.
const MOST: usize = 1024;
pub(crate) const MOST_WAITING: usize = 256;

/// What the fragments of a packet have in common: addresses, identification and protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Datagram<A> {
    pub(crate) src: A,
    pub(crate) dst: A,
    pub(crate) of: (u32, u8),
}

/// Addresses of the other side.
type To<B> = (B, B);

/// What becomes of a fragment that is not the first.
pub(crate) enum Later<B> {
    /// It gets these addresses.
    Goes(Packet, To<B>),
    Waits,
    /// Too many wait.
    Full(Packet),
}

struct Known<B> {
    /// Where the first fragment went, once it has come.
    to: Option<To<B>>,
    /// The number of what ends it.
    end: u64,
    waiting: u32,
}

struct Inner<A, B> {
    known: HashMap<Datagram<A>, Known<B>>,
    /// From the oldest on, when they end, each with a number. What has got another number since goes on.
    ends: VecDeque<(Datagram<A>, u64, u64)>,
    next: u64,
    waiting: Vec<(Datagram<A>, Packet)>,
}

impl<A: Copy + Eq + Hash, B: Copy> Inner<A, B> {
    /// What is known of a packet from now on, or for longer.
    fn renew(&mut self, of: Datagram<A>, now_ns: u64, dropped: &mut Vec<Packet>) -> &mut Known<B> {
        if self.ends.len() >= MOST {
            self.forget_oldest(dropped);
        }
        let end = self.next;
        self.next = end.wrapping_add(1);
        self.ends.push_back((of, now_ns.saturating_add(LIFETIME_NS), end));
        let known = self.known.entry(of).or_insert(Known { to: None, end, waiting: 0 });
        known.end = end;
        known
    }

    fn forget_oldest(&mut self, dropped: &mut Vec<Packet>) {
        let Some((of, _, end)) = self.ends.pop_front() else { return };
        if self.known.get(&of).is_some_and(|known| known.end == end)
            && self.known.remove(&of).is_some_and(|known| known.waiting != 0)
        {
            self.take(of, dropped);
        }
    }

    fn forget(&mut self, now_ns: u64, dropped: &mut Vec<Packet>) {
        while self.ends.front().is_some_and(|(_, when, _)| *when <= now_ns) {
            self.forget_oldest(dropped);
        }
    }

    /// Moves the waiting fragments of a packet, in their order.
    fn take(&mut self, of: Datagram<A>, to: &mut Vec<Packet>) {
        let mut at = 0;
        while let Some((its, _)) = self.waiting.get(at) {
            if *its == of {
                to.push(self.waiting.remove(at).1);
            } else {
                at += 1;
            }
        }
    }
}

/// The fragments of one side.
pub(crate) struct Pieces<A, B>(Mutex<Inner<A, B>>);

impl<A: Copy + Eq + Hash, B: Copy> Pieces<A, B> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner {
            known: HashMap::with_capacity(2 * MOST),
            ends: VecDeque::with_capacity(MOST),
            next: 0,
            waiting: Vec::with_capacity(MOST_WAITING),
        }))
    }

    /// Notes where the first fragment went. Those that have waited for it are appended to `released`, and
    /// those of other packets that have waited in vain to `dropped`.
    pub(crate) fn first(
        &self,
        of: Datagram<A>,
        to: To<B>,
        now_ns: u64,
        (released, dropped): (&mut Vec<Packet>, &mut Vec<Packet>),
    ) {
        let mut inner = self.0.lock().ignore_poison();
        inner.forget(now_ns, dropped);
        let known = inner.renew(of, now_ns, dropped);
        known.to = Some(to);
        if std::mem::take(&mut known.waiting) != 0 {
            inner.take(of, released);
        }
    }

    /// What becomes of a later fragment. Those that have waited in vain are appended to `dropped`.
    pub(crate) fn later(
        &self,
        of: Datagram<A>,
        packet: Packet,
        now_ns: u64,
        dropped: &mut Vec<Packet>,
    ) -> Later<B> {
        let mut inner = self.0.lock().ignore_poison();
        inner.forget(now_ns, dropped);
        let is_full = inner.waiting.len() >= MOST_WAITING;
        let known = match inner.known.get_mut(&of) {
            Some(Known { to: Some(to), .. }) => return Later::Goes(packet, *to),
            _ if is_full => return Later::Full(packet),
            Some(known) => known,
            None => inner.renew(of, now_ns, dropped),
        };
        known.waiting += 1;
        inner.waiting.push((of, packet));
        Later::Waits
    }

    /// Forgets what is old. Fragments that have waited in vain are appended to `dropped`.
    pub(crate) fn forget(&self, now_ns: u64, dropped: &mut Vec<Packet>) {
        self.0.lock().ignore_poison().forget(now_ns, dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(n: u32) -> Datagram<u8> {
        Datagram { src: 1, dst: 2, of: (n, 17) }
    }
    fn piece(n: u8) -> Packet {
        Packet::from_bytes(&[n]).unwrap()
    }
    fn bytes(packets: &mut Vec<Packet>) -> Vec<u8> {
        packets.drain(..).map(|p| p.data()[0]).collect()
    }

    #[test]
    fn fragments_wait_for_the_first_one_but_not_for_ever() {
        let pieces: Pieces<u8, u8> = Pieces::new();
        let (mut released, mut dropped) = (Vec::new(), Vec::new());
        for (n, piece_) in [(7, 1), (8, 2), (7, 3), (9, 4)] {
            assert!(matches!(pieces.later(of(n), piece(piece_), 0, &mut dropped), Later::Waits));
        }
        pieces.first(of(7), (5, 6), LIFETIME_NS - 1, (&mut released, &mut dropped));
        assert_eq!((bytes(&mut released), dropped.len()), (vec![1, 3], 0));
        // It is known for as long again.
        let later = pieces.later(of(7), piece(9), 2 * LIFETIME_NS - 2, &mut dropped);
        assert!(matches!(later, Later::Goes(_, (5, 6))));
        assert_eq!(bytes(&mut dropped), [2, 4]);
        assert!(matches!(pieces.later(of(7), piece(9), 2 * LIFETIME_NS - 1, &mut dropped), Later::Waits));
        pieces.forget(4 * LIFETIME_NS, &mut dropped);
        assert_eq!(bytes(&mut dropped), [9]);
    }

    #[test]
    fn no_more_are_kept_than_there_may_be() {
        let pieces: Pieces<u8, u8> = Pieces::new();
        let (mut released, mut dropped) = (Vec::new(), Vec::new());
        for n in 0..5000 {
            pieces.first(of(n), (0, 0), 0, (&mut released, &mut dropped));
            pieces.first(of(0), (1, 1), 0, (&mut released, &mut dropped));
        }
        let full = (5000..6000)
            .filter(|n| matches!(pieces.later(of(*n), piece(0), 0, &mut dropped), Later::Full(_)));
        assert_eq!(full.count(), 1000 - MOST_WAITING);
        let inner = pieces.0.lock().unwrap();
        assert!(inner.known.len() <= MOST && inner.ends.len() <= MOST && inner.waiting.len() == MOST_WAITING);
        drop(inner);
        // What has a first fragment goes on.
        assert!(matches!(pieces.later(of(0), piece(0), 1, &mut dropped), Later::Goes(_, (1, 1))));
        pieces.forget(LIFETIME_NS, &mut dropped);
        assert_eq!(
            (dropped.len(), released.len(), pieces.0.lock().unwrap().known.len()),
            (MOST_WAITING, 0, 0)
        );
    }
}
