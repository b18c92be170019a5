//! The number that NumberPacket writes into a packet: where it is and how it is read.

use crate::prelude::*;
use std::sync::atomic::AtomicU64;

/// The bytes of a number.
pub(in crate::measure) const LEN: usize = 8;

/// How packets are numbered; other elements find it by its type.
pub(in crate::measure) struct Numbers {
    pub(in crate::measure) next: AtomicU64,
    pub(in crate::measure) net_order: bool,
}

impl Numbers {
    pub(in crate::measure) fn new(net_order: bool) -> Self {
        Self { next: AtomicU64::new(0), net_order }
    }
    /// A number as it is written.
    pub(in crate::measure) fn bytes(&self, number: u64) -> [u8; LEN] {
        if self.net_order { number.to_be_bytes() } else { number.to_ne_bytes() }
    }
}

/// The bytes at an offset.
pub(in crate::measure) fn place_mut(bytes: &mut [u8], offset: usize) -> Option<&mut [u8; LEN]> {
    bytes.get_mut(offset..)?.first_chunk_mut()
}

/// The number that a packet has at an offset; `None` if the packet is too short.
pub(in crate::measure) fn read(packet: &Packet, offset: usize, net_order: bool) -> Option<u64> {
    let bytes = *packet.data().get(offset..)?.first_chunk()?;
    Some(if net_order { u64::from_be_bytes(bytes) } else { u64::from_ne_bytes(bytes) })
}
