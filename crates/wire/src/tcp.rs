//! Transmission Control Protocol (RFC 9293).

use std::borrow::{Borrow, BorrowMut};

use crate::checksum;
use crate::options::Options;

/// Flag: no more data from the sender.
pub const FIN: u8 = 0x01;
/// Flag: synchronize sequence numbers.
pub const SYN: u8 = 0x02;
/// Flag: reset the connection.
pub const RST: u8 = 0x04;
/// Flag: push.
pub const PSH: u8 = 0x08;
/// Flag: the acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// Flag: the urgent pointer counts.
pub const URG: u8 = 0x20;
/// Flag: ECN echo (RFC 3168).
pub const ECE: u8 = 0x40;
/// Flag: congestion window reduced (RFC 3168).
pub const CWR: u8 = 0x80;

/// Option: end of option list.
pub const OPT_EOL: u8 = 0;
/// Option: no operation.
pub const OPT_NOP: u8 = 1;
/// Option: maximum segment size.
pub const OPT_MSS: u8 = 2;
/// Option: window scale (RFC 7323).
pub const OPT_WINDOW_SCALE: u8 = 3;
/// Option: selective acknowledgement permitted (RFC 2018).
pub const OPT_SACK_PERMITTED: u8 = 4;
/// Option: selective acknowledgement.
pub const OPT_SACK: u8 = 5;
/// Option: timestamps (RFC 7323).
pub const OPT_TIMESTAMPS: u8 = 8;

view! {
    /// The fixed 20 bytes of a TCP header.
    Tcp[20] {
        /// Source port.
        u16, src_port / set_src_port @ 0;
        /// Destination port.
        u16, dst_port / set_dst_port @ 2;
        /// Sequence number.
        u32, seq / set_seq @ 4;
        /// Acknowledgement number.
        u32, ack / set_ack @ 8;
        /// Header length in words (high four bits) and reserved bits.
        u8, offset_reserved / set_offset_reserved @ 12;
        /// Flags, [`FIN`] to [`CWR`].
        u8, flags / set_flags @ 13;
        /// Window, in bytes before scaling.
        u16, window / set_window @ 14;
        /// Checksum over pseudo-header, header and data.
        u16, checksum / set_checksum @ 16;
        /// Urgent pointer.
        u16, urgent / set_urgent @ 18;
    }
}

impl<B: Borrow<[u8; HEADER_LEN]>> Tcp<B> {
    /// Header length with options as the header states it, in bytes: 0 to 60, at least 20 in a good header.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        usize::from(self.offset_reserved() >> 4) * 4
    }

    /// All of `flags` are set.
    #[inline(always)]
    pub fn has(&self, flags: u8) -> bool {
        self.flags() & flags == flags
    }
}

impl<B: BorrowMut<[u8; HEADER_LEN]>> Tcp<B> {
    /// Sets the header length, in bytes; a multiple of four up to 60.
    #[inline(always)]
    pub fn set_header_len(&mut self, len: usize) {
        let reserved = self.offset_reserved() & 15;
        self.set_offset_reserved(((len / 4) as u8) << 4 | reserved);
    }
}

/// A segment whose header length was checked.
#[derive(Clone, Copy, Debug)]
pub struct TcpSegment<'a> {
    header: Tcp<&'a [u8; HEADER_LEN]>,
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> TcpSegment<'a> {
    /// The segment that `bytes`, an IP payload, are; `None` when the header length is below 20 or beyond
    /// them.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = Tcp::split(bytes)?;
        let options_len = header.header_len().checked_sub(HEADER_LEN)?;
        let (options, payload) = rest.split_at_checked(options_len)?;
        Some(Self { header, options, payload })
    }

    /// The fixed header.
    #[inline(always)]
    pub fn header(&self) -> Tcp<&'a [u8; HEADER_LEN]> {
        self.header
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options::new(self.options, HEADER_LEN)
    }

    /// The data.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The checksum of `segment` (header and data, exactly) is right; `pseudo` is the pseudo-header's sum.
#[inline]
pub fn verify(pseudo: u16, segment: &[u8]) -> bool {
    segment.len() >= HEADER_LEN && checksum::combine(pseudo, checksum::sum(segment)) == 0xffff
}

/// Fills in the checksum of `segment` (header and data, exactly); `false` when the slice is too short for a
/// header.
#[inline]
pub fn fill(pseudo: u16, segment: &mut [u8]) -> bool {
    let Some(mut h) = Tcp::new_mut(segment) else { return false };
    h.set_checksum(0);
    let check = !checksum::combine(pseudo, checksum::sum(segment));
    if let Some(mut h) = Tcp::new_mut(segment) {
        h.set_checksum(check);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::pseudo_v4;
    use proptest::prelude::*;

    /// A SYN with options: MSS 1460, SACK permitted, timestamps, NOP, window scale 7.
    const SYN_BYTES: [u8; 40] = [
        0xc0, 0x00, 0x00, 0x50, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0, 0, 2, 4,
        5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
    ];

    #[test]
    fn golden() {
        let s = TcpSegment::parse(&SYN_BYTES).unwrap();
        let h = s.header();
        assert_eq!((h.src_port(), h.dst_port(), h.seq(), h.ack()), (49152, 80, 0x0102_0304, 0));
        assert_eq!((h.header_len(), h.flags(), h.window(), h.urgent()), (40, SYN, 64240, 0));
        assert!(h.has(SYN) && !h.has(SYN | ACK));
        let kinds: Vec<_> = s.options().map(|o| o.unwrap().kind).collect();
        assert_eq!(kinds, [OPT_MSS, OPT_SACK_PERMITTED, OPT_TIMESTAMPS, OPT_NOP, OPT_WINDOW_SCALE]);
        assert_eq!(s.options().next().unwrap().unwrap().data(), 1460u16.to_be_bytes());
        assert!(s.payload().is_empty());

        let mut made = Tcp::zeroed();
        made.set_src_port(49152);
        made.set_dst_port(80);
        made.set_seq(0x0102_0304);
        made.set_header_len(40);
        made.set_flags(SYN);
        made.set_window(64240);
        assert_eq!(made.bytes()[..], SYN_BYTES[..20]);
    }

    #[test]
    fn lengths() {
        assert!(TcpSegment::parse(&SYN_BYTES[..39]).is_none());
        assert!(TcpSegment::parse(&[0; 20]).is_none());
        assert!(TcpSegment::parse(&[]).is_none());
        assert!(!fill(0, &mut [0; 19]) && !verify(0, &[0; 19]));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn filled_verifies(mut seg in prop::collection::vec(any::<u8>(), 20..100), s: [u8; 4], d: [u8; 4], bit in 0usize..160) {
            let pseudo = pseudo_v4(s.into(), d.into(), 6, seg.len() as u16);
            prop_assert!(fill(pseudo, &mut seg));
            prop_assert!(verify(pseudo, &seg));
            seg[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!verify(pseudo, &seg));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(s) = TcpSegment::parse(&bytes) {
                prop_assert!(s.options().count() <= 40);
                prop_assert!(s.payload().len() + s.header().header_len() == bytes.len());
            }
        }
    }
}
