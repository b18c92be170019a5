//! Internet Protocol version 6 (RFC 8200), the fixed header.

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv6Addr;

use crate::{checksum, protocol};

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

impl<B: BorrowMut<[u8; HEADER_LEN]>> Ipv6<B> {
    /// Sets [`traffic_class`](Self::traffic_class).
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        self.set_version_class_flow(self.version_class_flow() & 0xf00f_ffff | u32::from(class) << 20);
    }

    /// Sets [`flow_label`](Self::flow_label), of which the lower 20 bits count.
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        self.set_version_class_flow(self.version_class_flow() & 0xfff0_0000 | label & 0xf_ffff);
    }
}

impl Ipv6<[u8; HEADER_LEN]> {
    /// A header with hop limit 64, for a payload of `payload_len` bytes.
    #[inline]
    pub fn build(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload_len: u16) -> Self {
        let mut h = Self::zeroed();
        h.set_version_class_flow(6 << 28);
        h.set_payload_len(payload_len);
        h.set_next_header(next_header);
        h.set_hop_limit(64);
        h.set_src(src);
        h.set_dst(dst);
        h
    }
}

/// What follows the extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Its protocol, see [`crate::protocol`].
    pub protocol: u8,
    /// Where it begins, in bytes from the fixed header.
    pub offset: usize,
    /// Whether it begins there: false in a fragment that is not the first.
    pub begins: bool,
}

/// The most extension headers that are followed.
const MOST_EXTENSIONS: usize = 16;

/// Goes through the extension headers of the packet whose fixed header begins `bytes` (RFC 8200 section 4).
/// `None`: they are cut off, or too many.
#[inline]
pub fn upper(bytes: &[u8]) -> Option<Upper> {
    let mut found = Upper { protocol: Ipv6::new(bytes)?.next_header(), offset: HEADER_LEN, begins: true };
    for _ in 0..MOST_EXTENSIONS {
        let rest = bytes.get(found.offset..)?;
        let len = match found.protocol {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                (usize::from(*rest.get(1)?) + 1) * 8
            }
            protocol::AH => (usize::from(*rest.get(1)?) + 2) * 4,
            protocol::FRAGMENT => {
                let offset = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]) & !7;
                if offset != 0 {
                    return Some(Upper { protocol: rest[0], offset: found.offset + 8, begins: false });
                }
                8
            }
            _ => return Some(found),
        };
        found = Upper { protocol: *rest.first()?, offset: found.offset + len, begins: true };
    }
    None
}

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

    #[test]
    fn parts_of_the_first_word() {
        let mut h = Ipv6::build(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, 17, 9);
        h.set_flow_label(0x1f_1234);
        h.set_traffic_class(0xb9);
        assert_eq!(h.bytes()[..8], [0x6b, 0x9f, 0x12, 0x34, 0, 9, 17, 64]);
        assert_eq!((h.version(), h.traffic_class(), h.flow_label()), (6, 0xb9, 0xf_1234));
    }

    #[test]
    fn extension_headers_are_followed() {
        let packet = |first: u8, rest: &[u8]| {
            let h = Ipv6::build(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, first, rest.len() as u16);
            [&h.bytes()[..], rest].concat()
        };
        let found = |first, rest: &[u8]| upper(&packet(first, rest));
        let at = |protocol, offset, begins| Some(Upper { protocol, offset, begins });
        assert_eq!(found(17, &[]), at(17, 40, true));
        let options = [[43, 1, 0, 0, 0, 0, 0, 0], [0; 8], [51, 0, 0, 0, 0, 0, 0, 0]].concat();
        let authentication = [6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(found(0, &[&options[..], &authentication].concat()), at(6, 76, true));
        assert_eq!(found(44, &[58, 0, 0, 1, 0, 0, 0, 0]), at(58, 48, true));
        assert_eq!(found(44, &[58, 0, 0, 9, 0, 0, 0, 0]), at(58, 48, false));
        assert_eq!(found(59, &[]), at(59, 40, true));
        // Cut off: nothing is said about what cannot be seen.
        for cut in 1..options.len() {
            assert_eq!(found(0, &options[..options.len() - cut]).filter(|u| u.offset < 64), None, "{cut}");
        }
        assert_eq!(found(0, &[0; 8 * 40]), None);
    }
}
