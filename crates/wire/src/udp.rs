//! User Datagram Protocol (RFC 768).

use crate::checksum;

view! {
    /// A UDP header.
    Udp[8] {
        /// Source port.
        u16, src_port / set_src_port @ 0;
        /// Destination port.
        u16, dst_port / set_dst_port @ 2;
        /// Length of header and data, in bytes.
        u16, length / set_length @ 4;
        /// Checksum over pseudo-header, header and data; 0 if the sender computed none.
        u16, checksum / set_checksum @ 6;
    }
}

/// A datagram whose length was checked.
#[derive(Clone, Copy, Debug)]
pub struct UdpDatagram<'a> {
    header: Udp<&'a [u8; HEADER_LEN]>,
    bytes: &'a [u8],
}

impl<'a> UdpDatagram<'a> {
    /// The datagram at the start of an IP payload, as long as its length field says; `None` if that is below
    /// 8 or above the length of `bytes`.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = Udp::new(bytes)?;
        let bytes = bytes.get(..usize::from(header.length()))?;
        (bytes.len() >= HEADER_LEN).then_some(Self { header, bytes })
    }

    /// The header.
    #[inline(always)]
    pub fn header(&self) -> Udp<&'a [u8; HEADER_LEN]> {
        self.header
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or(&[])
    }

    /// Whether the checksum is correct or absent; `pseudo` is the sum of the pseudo-header, for the UDP
    /// length.
    #[inline]
    pub fn verify_checksum(&self, pseudo: u16) -> bool {
        verify(pseudo, self.bytes)
    }
}

/// Whether the checksum of `datagram` (header and data, nothing else) is correct or absent; `pseudo` is the
/// sum of the pseudo-header.
#[inline]
pub fn verify(pseudo: u16, datagram: &[u8]) -> bool {
    match Udp::new(datagram) {
        Some(h) if h.checksum() == 0 => true,
        Some(_) => checksum::combine(pseudo, checksum::sum(datagram)) == 0xffff,
        None => false,
    }
}

/// Writes the checksum of `datagram` (header and data, nothing else): a computed 0 is written as `0xffff`.
/// Returns `false` if the slice is too short for a header.
#[inline]
pub fn fill(pseudo: u16, datagram: &mut [u8]) -> bool {
    let Some(mut h) = Udp::new_mut(datagram) else { return false };
    h.set_checksum(0);
    let check = !checksum::combine(pseudo, checksum::sum(datagram));
    if let Some(mut h) = Udp::new_mut(datagram) {
        h.set_checksum(if check == 0 { 0xffff } else { check });
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{Delta, pseudo_v4};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    #[test]
    fn golden() {
        // 10.0.0.1:1234 -> 10.0.0.2:53, "hi!", checksum computed by hand.
        let mut d = vec![0x04, 0xd2, 0x00, 0x35, 0x00, 0x0b, 0, 0, b'h', b'i', b'!'];
        let pseudo = pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 11);
        assert_eq!(pseudo, 0x0a00 + 1 + 0x0a00 + 2 + 17 + 11);
        assert!(verify(pseudo, &d)); // no checksum
        assert!(fill(pseudo, &mut d));
        let total: u32 = 0x141f + 0x04d2 + 0x0035 + 0x000b + 0x6869 + 0x2100;
        let h = Udp::new(&d).unwrap();
        assert_eq!(h.checksum(), !(total as u16));
        assert_eq!((h.src_port(), h.dst_port(), h.length()), (1234, 53, 11));
        assert!(verify(pseudo, &d));
        d[9] ^= 1;
        assert!(!verify(pseudo, &d));
    }

    #[test]
    fn lengths() {
        let mut d = vec![0, 1, 0, 2, 0, 10, 0, 0, 5, 6, 7];
        assert_eq!(UdpDatagram::parse(&d).unwrap().payload(), [5, 6]);
        for bad in [0, 7, 12, 255] {
            d[5] = bad;
            assert!(UdpDatagram::parse(&d).is_none());
        }
        assert!(UdpDatagram::parse(&d[..7]).is_none());
        assert!(!fill(0, &mut [0; 7]) && !verify(0, &[0; 7]));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn filled_verifies_and_delta_keeps_it(
            mut d in prop::collection::vec(any::<u8>(), 8..100), s: [u8; 4], t: [u8; 4], new: [u8; 4]
        ) {
            let len = d.len() as u16;
            let pseudo = pseudo_v4(s.into(), t.into(), 17, len);
            prop_assert!(fill(pseudo, &mut d));
            prop_assert!(verify(pseudo, &d));
            let mut h = Udp::new_mut(&mut d).unwrap();
            prop_assert_ne!(h.checksum(), 0);
            let delta = Delta::new().replace_u32(u32::from_be_bytes(s), u32::from_be_bytes(new));
            let check = delta.apply_udp(h.checksum());
            h.set_checksum(check);
            prop_assert_ne!(check, 0);
            prop_assert!(verify(pseudo_v4(Ipv4Addr::from(new), t.into(), 17, len), &d));
        }

        #[test]
        fn arbitrary_bytes_never_panic(d in prop::collection::vec(any::<u8>(), 0..40), pseudo: u16) {
            if let Some(u) = UdpDatagram::parse(&d) {
                let _ = (u.verify_checksum(pseudo), u.payload(), u.header().length());
            }
            let _ = verify(pseudo, &d);
        }
    }
}
