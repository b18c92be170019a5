//! Frames that reached no owner, by reason.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many frames, since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Dropped: nobody has the tag.
    pub nobody_tag: u64,
    /// Dropped: several have the tag, and none the destination address.
    pub nobody_address: u64,
    /// Dropped: cut off in the Ethernet header or in the tag, an MPLS label with neither IPv4 nor IPv6 behind
    /// it, or a damaged VXLAN datagram.
    pub malformed: u64,
    /// Copies of broadcast and multicast frames that were not made for want of a buffer.
    pub no_buffer: u64,
    /// Copies that were not made because the batch had brought too many
    /// ([`Sorted::set_most_copies`](crate::Sorted::set_most_copies)).
    pub too_many_copies: u64,
    /// Copies of broadcast and multicast frames that were made.
    pub copies: u64,
}

impl Counts {
    fn each(&mut self) -> [&mut u64; 6] {
        let Counts { nobody_tag, nobody_address, malformed, no_buffer, too_many_copies, copies } = self;
        [nobody_tag, nobody_address, malformed, no_buffer, too_many_copies, copies]
    }

    /// Adds `other` to each.
    pub(crate) fn add(&mut self, mut other: Counts) {
        for (to, n) in self.each().into_iter().zip(other.each()) {
            *to += *n;
        }
    }

    /// Frames and copies that reached nobody.
    pub fn lost(&self) -> u64 {
        self.nobody_tag + self.nobody_address + self.malformed + self.no_buffer + self.too_many_copies
    }
}

/// The same, written by one reader and read by anybody.
#[derive(Debug, Default)]
#[repr(align(64))] // no reader writes to another's line
pub(crate) struct Counters([AtomicU64; 6]);

impl Counters {
    /// Adds what a batch has brought. One thread at a time.
    pub(crate) fn add(&self, mut n: Counts) {
        for (counter, n) in self.0.iter().zip(n.each()) {
            if *n != 0 {
                counter.store(counter.load(Relaxed).wrapping_add(*n), Relaxed);
            }
        }
    }

    pub(crate) fn get(&self) -> Counts {
        let mut counts = Counts::default();
        for (to, counter) in counts.each().into_iter().zip(&self.0) {
            *to = counter.load(Relaxed);
        }
        counts
    }
}
