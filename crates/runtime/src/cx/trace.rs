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
const EVENTS: usize = 1 << 14;
/// The bytes of a packet that are kept.
pub(super) const HEAD: usize = 64;

/// What happened to a packet.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Here it was marked: its length and its first bytes.
    Begins(usize, Vec<u8>),
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
    /// Those that enter this element; none: those that tasks of elements without inputs make or receive.
    pub(crate) at: Option<u32>,
    /// Until when it goes on; then all that it has recorded is forgotten.
    pub(crate) until: Instant,
}

/// What a worker has recorded.
pub(crate) struct Trace {
    pub(super) wanted: Wanted,
    bursts: u32,
    pub(crate) events: Vec<Event>,
    /// Events for which there was no room.
    pub(crate) lost: u64,
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
    pub(super) fn note(&mut self, packet: &Packet, slot: u32, burst: usize, what: What) {
        if self.events.len() >= EVENTS {
            self.lost += 1;
            return;
        }
        let (cycles, packet) = (dpdk::cycles(), packet.identity());
        self.events.push(Event { cycles, packet, slot, burst: burst as u32, what });
    }
    /// Whether a packet of this burst is to be marked.
    pub(super) fn chooses(&mut self) -> bool {
        if self.wanted.packets == 0 {
            return false;
        }
        self.bursts += 1;
        let chosen = self.bursts.is_multiple_of(self.wanted.every.max(1));
        self.wanted.packets -= u32::from(chosen);
        chosen
    }
}
