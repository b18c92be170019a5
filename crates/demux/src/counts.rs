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
    /// Copies of broadcast and multicast frames that were not made: no buffer, or too many in one batch.
    pub no_copy: u64,
    /// Copies of broadcast and multicast frames that were made.
    pub copies: u64,
}

impl Counts {
    /// Adds `other` to each.
    pub(crate) fn add(&mut self, other: &Counts) {
        self.nobody_tag += other.nobody_tag;
        self.nobody_address += other.nobody_address;
        self.malformed += other.malformed;
        self.no_copy += other.no_copy;
        self.copies += other.copies;
    }
}

/// The same, written by one reader and read by anybody.
#[derive(Debug, Default)]
#[repr(align(64))] // no reader writes to another's line
pub(crate) struct Counters([AtomicU64; 5]);

impl Counters {
    /// Adds what a batch has brought. One thread at a time.
    pub(crate) fn add(&self, n: &Counts) {
        for (counter, n) in
            self.0.iter().zip([n.nobody_tag, n.nobody_address, n.malformed, n.no_copy, n.copies])
        {
            if n != 0 {
                counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
            }
        }
    }

    pub(crate) fn get(&self) -> Counts {
        let [nobody_tag, nobody_address, malformed, no_copy, copies] =
            self.0.each_ref().map(|c| c.load(Relaxed));
        Counts { nobody_tag, nobody_address, malformed, no_copy, copies }
    }
}
