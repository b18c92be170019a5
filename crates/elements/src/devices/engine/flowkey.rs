//! What decides on the bucket of a packet.

use super::division::Division;
use super::rss::{address_hash, flow_hash, ipv4_destination};
use std::sync::Arc;
use tables::toeplitz::Toeplitz;

/// Buckets: as many as network cards have since Intel's XL710. With fewer, several large flows are often in
/// the same one, and cannot be separated.
pub(super) const BUCKETS: usize = 512;

/// The fields that distinguish flows.
#[derive(Clone)]
pub(super) enum FlowKey {
    /// Addresses and ports of IP.
    Ip(Arc<Toeplitz>),
    /// The prefix of the destination if it is IPv4; else as before.
    Prefixes(Arc<Division>, Arc<Toeplitz>),
    /// The Ethernet addresses of frames between the nodes of a cluster; the nodes read nothing after these.
    Internal,
}

impl FlowKey {
    /// The bucket of a frame.
    #[inline]
    pub(super) fn bucket(&self, frame: &[u8]) -> usize {
        let hash = match self {
            Self::Ip(hash) => flow_hash(&**hash, frame),
            Self::Prefixes(division, hash) => match ipv4_destination(frame) {
                Some(address) => return division.part(address) % BUCKETS,
                None => flow_hash(&**hash, frame),
            },
            Self::Internal => frame.first_chunk().map_or(0, |addresses| address_hash(*addresses, true)),
        };
        hash as usize % BUCKETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use tables::toeplitz::MICROSOFT_KEY;

    #[test]
    fn on_internal_links_flows_are_told_apart_by_addresses_alone() {
        let flow_key = FlowKey::Internal;
        let frame = |next_hop: u8, from: u8, number: u8| {
            let addresses = [0xc2, 0x10, 2, 0, 0, next_hop, 0xc6, 0, from << 4, 0, 0, number];
            // The test fails if a byte after the addresses is read.
            Packet::guarded(&addresses, 60).unwrap()
        };
        let bucket = |next_hop, from, number| flow_key.bucket(frame(next_hop, from, number).data());
        assert_eq!(bucket(9, 1, 0), bucket(9, 1, 77), "the number within a stream");
        assert_ne!(bucket(9, 1, 0), bucket(9, 3, 0), "the input node");
        assert_eq!(flow_key.bucket(&[0xc2; 11]), 0);
        let mut shares = [0; 4];
        (0..=255).for_each(|next_hop| shares[bucket(next_hop, 1, 0) % 4] += 1);
        assert!(shares.iter().all(|n| (32..=96).contains(n)), "{shares:?}");
    }

    #[test]
    fn the_destination_decides_with_and_without_tags() {
        let hash = Arc::new(Toeplitz::new(&MICROSOFT_KEY));
        let division = Arc::new(Division::new(&[], BUCKETS));
        let flow_key = FlowKey::Prefixes(division, Arc::clone(&hash));
        let mut packet = [0; 40];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 129, 2, 3]);
        let frame = |tags: &[u8], kind: [u8; 2], packet: &[u8]| [&[2; 12], tags, &kind, packet].concat();
        let wanted = 10 * 2 + 1;
        assert_eq!(flow_key.bucket(&frame(&[], [8, 0], &packet)), wanted);
        assert_eq!(flow_key.bucket(&frame(&[0x81, 0, 0, 5], [8, 0], &packet)), wanted);
        assert_eq!(flow_key.bucket(&frame(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], [8, 0], &packet)), wanted);
        packet[12..16].copy_from_slice(&[1, 2, 3, 4]);
        packet[0] = 0x4f;
        assert_eq!(flow_key.bucket(&frame(&[], [8, 0], &packet)), wanted, "neither source nor options count");
        // What has no IPv4 destination goes by the hash.
        for (kind, packet) in [([8, 6], &packet[..]), ([0x86, 0xdd], &packet), ([8, 0], &packet[..19])] {
            let frame = frame(&[], kind, packet);
            assert_eq!(flow_key.bucket(&frame), FlowKey::Ip(Arc::clone(&hash)).bucket(&frame));
        }
    }
}
