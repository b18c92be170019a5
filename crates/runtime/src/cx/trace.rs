//! The record of the ways of single packets through the elements of one worker, with times; `follow.rs` makes
//! it.
//!
//! While a worker traces, all runs of its tasks are timed. Of each burst that begins it marks one packet
//! ([`Packet::mark_traced`]), until there are enough, and records where packets with the mark come. The mark
//! stays on the packet, so that workers that get it from others record it too. A worker that does not trace
//! has nothing to do for this beyond what it does for runs that are timed.

use dpdk::Packet;
use std::time::Instant;

/// The most events that a worker records.
const EVENTS: usize = 1 << 13;
/// The bytes of a packet that are kept.
const HEAD: usize = 64;

/// The length of a packet, and its first bytes.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) length: usize,
    bytes: [u8; HEAD],
}

impl Head {
    fn of(packet: &Packet) -> Self {
        let mut bytes = [0; HEAD];
        bytes.iter_mut().zip(packet.data()).for_each(|(to, from)| *to = *from);
        Self { length: packet.len(), bytes }
    }
    /// The first bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.min(HEAD)]
    }
}

/// What happened to a packet.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Here it was marked.
    Begins(Head),
    /// It was pushed to an input.
    Enters(u16),
    /// Another element pulled it.
    PulledBy(u32),
    /// It was dropped.
    Dropped(&'static str),
}

/// Something that happened to a marked packet.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// The time stamp counter.
    pub(crate) cycles: u64,
    /// See [`Packet::identity`].
    pub(crate) packet: usize,
    pub(crate) slot: u32,
    /// Packets that came with it.
    pub(crate) burst: u32,
    pub(crate) what: What,
}

/// Which packets to mark.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// How many.
    pub(crate) packets: u32,
    /// One burst of so many.
    pub(crate) every: u32,
    /// Those that come to this element, or that it makes or receives; none: those that elements without
    /// inputs make or receive.
    pub(crate) at: Option<u32>,
    /// Until when it goes on; then all that it has recorded is forgotten.
    pub(crate) until: Instant,
}

impl Wanted {
    /// Where packets begin that go from a source, if it is one, to an element: at the source, or where they
    /// are wanted.
    pub(super) fn first_of(&self, [source, to]: [Option<u32>; 2]) -> Option<u32> {
        match self.at {
            None => source,
            at => [source, to].into_iter().find(|slot| *slot == at).flatten(),
        }
    }
}

/// What a worker has recorded.
pub(crate) struct Trace {
    pub(super) wanted: Wanted,
    bursts: u32,
    events: Vec<Event>,
    /// Events for which there was no room.
    lost: u64,
}

impl Trace {
    /// Marks no packet; records those that have come from other workers.
    pub(crate) fn new(until: Instant) -> Self {
        let wanted = Wanted { packets: 0, every: 1, at: None, until };
        Self { wanted, bursts: 0, events: Vec::with_capacity(EVENTS), lost: 0 }
    }
    /// Marks these packets.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        self.wanted = wanted;
    }
    /// So many events are copied at once.
    pub(crate) const SOME: usize = 256;
    /// The next events from this one on, and how many there was no room for.
    pub(crate) fn some(&self, at: usize) -> (Vec<Event>, u64) {
        (self.events.iter().skip(at).take(Self::SOME).cloned().collect(), self.lost)
    }
    pub(super) fn note(&mut self, packet: &Packet, slot: u32, burst: usize, what: What) {
        if self.events.len() >= EVENTS {
            self.lost += 1;
            return;
        }
        let (cycles, packet) = (dpdk::cycles(), packet.identity());
        self.events.push(Event { cycles, packet, slot, burst: burst as u32, what });
    }
    /// Marks a packet of a burst that begins at an element, if one is wanted.
    pub(super) fn begin(&mut self, slot: u32, packets: &mut [Packet]) {
        if self.wanted.packets == 0 {
            return;
        }
        self.bursts = self.bursts.wrapping_add(1);
        if !self.bursts.is_multiple_of(self.wanted.every.max(1)) {
            return;
        }
        let burst = packets.len();
        // Bursts begin and end alike, so any of them will do; the last one has waited for all others. One
        // that comes again is followed already.
        if let Some(packet) = packets.iter_mut().rev().find(|packet| !packet.is_traced()) {
            self.wanted.packets -= 1;
            packet.mark_traced();
            let head = Head::of(packet);
            self.note(packet, slot, burst, What::Begins(head));
        }
    }
}
