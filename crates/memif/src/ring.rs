//! Sending and receiving frames.

use crate::layout::{BUFFER, Direction, NEXT};
use crate::region::{Place, Region};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// How many slots ahead the memory is asked for.
const AHEAD: u16 = 4;
/// The peer learns of free buffers when they are such a part of the ring, and it is sent packets when so many
/// slots are free. Else a ring that is full would be filled packet by packet, and both sides would spend
/// their time on small batches.
const FREED: u16 = 4;
const ROOM: u16 = 8;

/// What a peer has written that no peer may. The ring is of no use from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A position that its ring does not have now.
    Position,
    /// A frame that is longer than its buffer.
    Length,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Position => "a position that the ring does not have",
            Self::Length => "a frame that is longer than its buffer",
        })
    }
}

/// The sending end of a ring to the peer.
#[derive(Debug)]
pub struct Sender {
    place: Place,
    /// Where the next frame goes.
    head: u16,
    /// What the peer had not taken when it was asked last begins here.
    tail: u16,
}

impl Sender {
    /// The sending end of a ring, by its number. `None`: there is no such ring. Only one may be in use.
    #[must_use]
    pub fn new(region: &Arc<Region>, ring: usize) -> Option<Self> {
        Some(Self { place: Place::new(region, Direction::Out, ring)?, head: 0, tail: 0 })
    }

    /// For how many frames there is room; none, if it is for a few only.
    ///
    /// # Errors
    /// The peer has taken what was not there.
    #[inline]
    pub fn room(&mut self) -> Result<usize, Broken> {
        let tail = self.place.tail().load(Acquire);
        let waiting = self.head.wrapping_sub(tail);
        if waiting > self.head.wrapping_sub(self.tail) {
            return Err(Broken::Position);
        }
        self.tail = tail;
        let room = self.place.slots() - waiting;
        Ok(if room < self.place.slots() / ROOM { 0 } else { usize::from(room) })
    }

    /// Puts a frame in; the peer sees it after [`Sender::publish`]. False: there is no room, or it is longer
    /// than a buffer.
    #[inline]
    pub fn put(&mut self, frame: &[u8]) -> bool {
        if self.head.wrapping_sub(self.tail) >= self.place.slots() || !self.place.write(self.head, frame) {
            return false;
        }
        self.place.describe_sent(self.head, frame.len() as u32);
        self.head = self.head.wrapping_add(1);
        true
    }

    /// Has the peer see what was put in.
    #[inline]
    pub fn publish(&mut self) {
        self.place.publish(self.head);
    }
}

/// The receiving end of a ring from the peer.
#[derive(Debug)]
pub struct Receiver {
    place: Place,
    /// The next frame.
    next: u16,
    /// What had come when the peer was asked last ends here.
    end: u16,
    /// Up to here the peer knows that buffers are free again.
    freed: u16,
    /// The next slot is a part of a frame that is not received.
    within: bool,
    chained: u64,
}

impl Receiver {
    /// The receiving end of a ring, by its number, once the peer is connected. `None`: there is no such ring.
    /// Only one may be in use.
    #[must_use]
    pub fn new(region: &Arc<Region>, ring: usize) -> Option<Self> {
        let place = Place::new(region, Direction::In, ring)?;
        // DPDK's driver sets all positions to zero when it connects.
        place.head().store(place.slots(), Release);
        Some(Self { place, next: 0, end: 0, freed: 0, within: false, chained: 0 })
    }

    /// How many slots have been filled.
    ///
    /// # Errors
    /// The peer has filled what it did not have.
    #[inline]
    pub fn waiting(&mut self) -> Result<usize, Broken> {
        let end = self.place.tail().load(Acquire);
        let filled = end.wrapping_sub(self.next);
        // What was freed only now is not the peer's yet.
        let most = self.place.slots() - self.next.wrapping_sub(self.freed);
        if filled > most || filled < self.end.wrapping_sub(self.next) {
            return Err(Broken::Position);
        }
        self.end = end;
        (0..filled.min(AHEAD)).for_each(|ahead| self.place.prefetch(self.next.wrapping_add(ahead)));
        Ok(usize::from(filled))
    }

    /// The length of the next frame of those that [`Receiver::waiting`] has counted; `None`: there is none.
    /// Frames that are empty, or in several buffers, are skipped and counted.
    ///
    /// # Errors
    /// The length is wrong.
    #[inline]
    pub fn next_length(&mut self) -> Result<Option<usize>, Broken> {
        while self.next != self.end {
            let length = self.place.length(self.next) as usize;
            if length > BUFFER {
                return Err(Broken::Length);
            }
            let more = self.place.flags(self.next) & NEXT != 0;
            if length > 0 && !more && !self.within {
                return Ok(Some(length));
            }
            self.within = more;
            self.chained += u64::from(!more);
            self.pass();
        }
        Ok(None)
    }

    /// Copies the first bytes of the next frame, as many as `to` has, and goes to the one after it.
    #[inline]
    pub fn take(&mut self, to: &mut [u8]) {
        if self.next != self.end {
            self.place.read(self.next, to);
            self.pass();
        }
    }

    /// Asks for the memory of frames that come soon.
    #[inline]
    pub fn prefetch(&self) {
        // What the peer has not written yet is better left to it.
        if self.end.wrapping_sub(self.next) > AHEAD {
            self.place.prefetch(self.next.wrapping_add(AHEAD));
        }
    }

    /// Leaves the next frame out.
    #[inline]
    pub fn skip(&mut self) {
        if self.next != self.end {
            self.pass();
        }
    }

    #[inline]
    fn pass(&mut self) {
        self.place.set_length(self.next, BUFFER as u32);
        self.next = self.next.wrapping_add(1);
    }

    /// Has the peer know which buffers are free again, if they are many or nothing waits.
    #[inline]
    pub fn release(&mut self) {
        let free = self.next.wrapping_sub(self.freed);
        if free > 0 && (self.next == self.end || free >= self.place.slots() / FREED) {
            self.freed = self.next;
            self.place.head().store(self.next.wrapping_add(self.place.slots()), Release);
        }
    }

    /// Frames that were skipped, since the last call.
    #[inline]
    pub fn skipped(&mut self) -> u64 {
        std::mem::take(&mut self.chained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use proptest::prelude::*;

    /// The other side, as the protocol has it: what DPDK's driver does as a server.
    struct Peer {
        to: Place,
        from: Place,
        taken: u16,
        filled: u16,
    }

    impl Peer {
        fn new(region: &Arc<Region>, ring: usize) -> Self {
            let place = |direction| Place::new(region, direction, ring).unwrap();
            Self { to: place(Direction::Out), from: place(Direction::In), taken: 0, filled: 0 }
        }

        fn receive(&mut self) -> Option<Vec<u8>> {
            if self.taken == self.to.head().load(Acquire) {
                return None;
            }
            let mut frame = vec![0; self.to.length(self.taken) as usize];
            self.to.read(self.taken, &mut frame);
            self.taken = self.taken.wrapping_add(1);
            self.to.tail().store(self.taken, Release);
            Some(frame)
        }

        fn send(&mut self, frame: &[u8]) -> bool {
            if self.filled == self.from.head().load(Acquire) {
                return false;
            }
            self.from.write(self.filled, frame);
            self.from.describe(self.filled, frame.len() as u32);
            self.filled = self.filled.wrapping_add(1);
            // `write` may have stored past the caches.
            crate::lines::fence();
            self.from.tail().store(self.filled, Release);
            true
        }
    }

    fn receive(receiver: &mut Receiver) -> Result<Vec<Vec<u8>>, Broken> {
        let mut all = Vec::new();
        receiver.waiting()?;
        while let Some(length) = receiver.next_length()? {
            let mut frame = vec![0; length];
            receiver.take(&mut frame);
            all.push(frame);
        }
        receiver.release();
        Ok(all)
    }

    #[test]
    fn frames_pass_both_ways_in_order() {
        let region = Region::on_heap(Layout::new(2, 4));
        let mut sender = Sender::new(&region, 1).unwrap();
        let mut receiver = Receiver::new(&region, 1).unwrap();
        let mut peer = Peer::new(&region, 1);
        // The ring of 16 slots goes round many times.
        let rounds = if cfg!(miri) { 12 } else { 10_000 };
        let frame = |n: usize| vec![n as u8; n % 70 + 1];
        for round in 0..rounds {
            assert_eq!(sender.room(), Ok(16));
            assert!((0..16).all(|n| sender.put(&frame(round * 16 + n))));
            assert!(!sender.put(&frame(0)), "it is full");
            assert_eq!(peer.receive(), None, "before it was published");
            sender.publish();
            for n in 0..16 {
                assert_eq!(peer.receive(), Some(frame(round * 16 + n)));
            }
            assert_eq!(receive(&mut receiver), Ok(vec![]));
            assert!((0..16).all(|n| peer.send(&frame(round * 16 + n))));
            assert!(!peer.send(&frame(0)), "it is full");
            let got = receive(&mut receiver).unwrap();
            assert!(got.iter().enumerate().all(|(n, got)| *got == frame(round * 16 + n)) && got.len() == 16);
        }
    }

    #[test]
    fn two_threads_lose_nothing() {
        let count = if cfg!(miri) { 100 } else { 20_000u32 };
        let region = Region::on_heap(Layout::new(1, 4));
        let (mut sender, mut receiver) =
            (Sender::new(&region, 0).unwrap(), Receiver::new(&region, 0).unwrap());
        let mut peer = Peer::new(&region, 0);
        let echo = std::thread::spawn(move || {
            let mut done = 0;
            while done < count {
                let Some(frame) = peer.receive() else {
                    std::thread::yield_now();
                    continue;
                };
                while !peer.send(&frame) {
                    std::thread::yield_now();
                }
                done += 1;
            }
        });
        let (mut sent, mut back) = (0u32, 0u32);
        while back < count {
            let room = sender.room().unwrap();
            for _ in 0..room.min((count - sent) as usize) {
                assert!(sender.put(&sent.to_le_bytes()));
                sent += 1;
            }
            sender.publish();
            for frame in receive(&mut receiver).unwrap() {
                assert_eq!(frame, back.to_le_bytes());
                back += 1;
            }
            std::thread::yield_now();
        }
        echo.join().unwrap();
    }

    #[test]
    fn a_wrong_position_is_noticed() {
        let region = Region::on_heap(Layout::new(1, 4));
        let mut sender = Sender::new(&region, 0).unwrap();
        let mut peer = Peer::new(&region, 0);
        sender.room().unwrap();
        (0..3).for_each(|_| assert!(sender.put(b"abc")));
        sender.publish();
        for tail in [4, 16, 0xffff] {
            peer.to.tail().store(tail, Release);
            assert_eq!(sender.room(), Err(Broken::Position), "{tail}");
        }
        peer.to.tail().store(2, Release);
        assert_eq!(sender.room(), Ok(15));
        peer.to.tail().store(1, Release);
        assert_eq!(sender.room(), Err(Broken::Position), "it goes back");

        let mut receiver = Receiver::new(&region, 0).unwrap();
        for tail in [17, 0xffff] {
            peer.from.tail().store(tail, Release);
            assert_eq!(receiver.waiting(), Err(Broken::Position), "{tail}");
        }
        peer.from.tail().store(0, Release);
        (0..16).for_each(|_| assert!(peer.send(b"abc")));
        assert_eq!(receiver.waiting(), Ok(16));
        peer.from.tail().store(15, Release);
        assert_eq!(receiver.waiting(), Err(Broken::Position), "it goes back");
        peer.from.tail().store(16, Release);
        // What is received, but not free yet.
        receiver.skip();
        peer.from.tail().store(17, Release);
        assert_eq!(receiver.waiting(), Err(Broken::Position));
        peer.from.tail().store(16, Release);
        assert_eq!(receiver.waiting(), Ok(15));
        let freed = |receiver: &mut Receiver| {
            receiver.release();
            peer.from.head().load(Acquire) - 16
        };
        assert_eq!(freed(&mut receiver), 0, "a few");
        (0..3).for_each(|_| receiver.skip());
        assert_eq!(freed(&mut receiver), 4);
        peer.from.tail().store(20, Release);
        assert_eq!(receiver.waiting(), Ok(16));
        (0..16).for_each(|_| receiver.skip());
        assert_eq!(freed(&mut receiver), 20);
    }

    #[test]
    fn wrong_lengths_and_chains_are_not_received() {
        let region = Region::on_heap(Layout::new(1, 4));
        let (mut receiver, mut peer) = (Receiver::new(&region, 0).unwrap(), Peer::new(&region, 0));
        let chained = |peer: &Peer, slot| region.corrupt(peer.descriptor(slot), NEXT);
        for (slot, frame) in [&b"one"[..], b"two", b"three", b"", b"four"].into_iter().enumerate() {
            assert!(peer.send(frame));
            if (1..2).contains(&slot) {
                chained(&peer, slot as u16);
            }
        }
        assert_eq!(receive(&mut receiver), Ok(vec![b"one".to_vec(), b"four".to_vec()]));
        assert_eq!((receiver.skipped(), receiver.skipped()), (2, 0));
        peer.send(b"five");
        peer.from.describe(5, BUFFER as u32 + 1);
        assert_eq!(receive(&mut receiver), Err(Broken::Length));
        assert!(Sender::new(&region, 1).is_none() && Receiver::new(&region, 1).is_none());
    }

    impl Peer {
        fn descriptor(&self, slot: u16) -> usize {
            use crate::layout::{DESCRIPTOR, DESCRIPTORS};
            Layout::new(1, 4).ring(Direction::In, 0) + DESCRIPTORS + DESCRIPTOR * usize::from(slot)
        }
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Send(usize),
        Receive,
        PeerReceives,
        PeerSends(usize),
        /// In the rings, where it matters most.
        Corrupt(usize, u16),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        let rings = Layout::new(1, 4).buffers(Direction::Out, 0);
        let positions =
            prop_oneof![Just(HEAD_TAIL[0]), Just(HEAD_TAIL[1]), Just(HEAD_TAIL[2]), Just(HEAD_TAIL[3])];
        prop_oneof![
            (1..200usize).prop_map(Deed::Send),
            Just(Deed::Receive),
            Just(Deed::PeerReceives),
            (0..BUFFER).prop_map(Deed::PeerSends),
            (0..rings, any::<u16>()).prop_map(|(at, with)| Deed::Corrupt(at, with)),
            (positions, 0..40u16).prop_map(|(at, with)| Deed::Corrupt(at, with)),
        ]
    }

    /// Where the positions of both rings are.
    const HEAD_TAIL: [usize; 4] = [6, 64, 128 + 16 * 16 + 6, 128 + 16 * 16 + 64];

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default()
        })]

        /// Whatever a peer writes and when: this side stays within its bounds (Miri sees every access), takes
        /// no more than a ring holds at once, and either goes on or says that the peer is broken.
        #[test]
        fn nothing_a_peer_writes_does_harm(deeds in proptest::collection::vec(deed(), 1..60)) {
            let region = Region::on_heap(Layout::new(1, 4));
            let (mut sender, mut receiver) =
                (Sender::new(&region, 0).unwrap(), Receiver::new(&region, 0).unwrap());
            let mut peer = Peer::new(&region, 0);
            for deed in deeds {
                match deed {
                    Deed::Send(length) => match sender.room() {
                        Ok(room) => {
                            prop_assert!(room <= 16);
                            // The last slots count as no room, and yet take a frame.
                            let put = sender.put(&vec![7; length]);
                            prop_assert!(put || room == 0);
                            sender.publish();
                        }
                        Err(broken) => {
                            prop_assert_eq!(broken, Broken::Position);
                            return Ok(());
                        }
                    },
                    Deed::Receive => match receive(&mut receiver) {
                        Ok(frames) => {
                            prop_assert!(frames.len() <= 16);
                            prop_assert!(frames.iter().all(|frame| (1..=BUFFER).contains(&frame.len())));
                        }
                        Err(_) => return Ok(()),
                    },
                    Deed::PeerReceives => {
                        if peer.to.length(peer.taken) as usize <= BUFFER {
                            peer.receive();
                        }
                    }
                    Deed::PeerSends(length) => drop(peer.send(&vec![3; length])),
                    Deed::Corrupt(at, with) => region.corrupt(at, with),
                }
            }
        }
    }
}
