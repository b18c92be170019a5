//! Internet Protocol version 6 (RFC 8200), the fixed header.

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv6Addr;

use crate::checksum;

view! {
    /// The fixed IPv6 header.
    Ipv6[40] {
        /// Version (4 bits), traffic class (8), flow label (20).
        u32, version_class_flow / set_version_class_flow @ 0;
        /// Length of what follows this header, in bytes.
        u16, payload_len / set_payload_len @ 4;
        /// What follows this header, see [`crate::protocol`].
        u8, next_header / set_next_header @ 6;
        /// Hop limit.
        u8, hop_limit / set_hop_limit @ 7;
        /// Source address.
        Ipv6Addr, src / set_src @ 8;
        /// Destination address.
        Ipv6Addr, dst / set_dst @ 24;
    }
}

impl<B: Borrow<[u8; HEADER_LEN]>> Ipv6<B> {
    /// IP version, 6 in a good header.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        self.bytes()[0] >> 4
    }

    /// Traffic class: DSCP and ECN.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow() >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline(always)]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow() & 0xf_ffff
    }

    /// Sum of the pseudo-header for an upper-layer packet of `len` bytes.
    #[inline]
    pub fn pseudo_sum(&self, len: u32) -> u16 {
        checksum::pseudo_v6(self.src(), self.dst(), self.next_header(), len)
    }
}

impl<B: BorrowMut<[u8; HEADER_LEN]>> Ipv6<B> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let mut bytes = [0u8; 40];
        bytes[..8].copy_from_slice(&[0x6b, 0x8a, 0xbc, 0xde, 0x00, 0x10, 58, 2]);
        bytes[23] = 1;
        bytes[24] = 0xff;
        let h = Ipv6::new_mut(&mut bytes).unwrap();
        assert_eq!((h.version(), h.traffic_class(), h.flow_label()), (6, 0xb8, 0xa_bcde));
        assert_eq!((h.payload_len(), h.next_header()), (16, 58));
        assert_eq!(h.src(), Ipv6Addr::LOCALHOST);
        assert_eq!(h.dst().octets()[0], 0xff);
        assert_eq!(h.hop_limit(), 2);
        assert_eq!(h.pseudo_sum(16), checksum::fold(0xff00 + 1 + 58 + 16));
        assert!(Ipv6::new(&bytes[..39]).is_none());
    }
}
