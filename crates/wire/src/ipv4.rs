//! Internet Protocol version 4 (RFC 791).

use std::borrow::{Borrow, BorrowMut};
use std::fmt;
use std::net::Ipv4Addr;

use crate::checksum::{self, Delta};
use crate::options::Options;

/// Longest header, options included, in bytes.
pub const MAX_HEADER_LEN: usize = 60;
/// `flags_fragment` bit: reserved, must be zero.
pub const FLAG_RESERVED: u16 = 0x8000;
/// `flags_fragment` bit: do not fragment.
pub const FLAG_DF: u16 = 0x4000;
/// `flags_fragment` bit: more fragments follow.
pub const FLAG_MF: u16 = 0x2000;
/// `flags_fragment` bits that hold the offset, in units of eight bytes.
pub const FRAGMENT_OFFSET_MASK: u16 = 0x1fff;

/// Option: end of option list.
pub const OPT_EOL: u8 = 0;
/// Option: no operation.
pub const OPT_NOP: u8 = 1;
/// Option: record route.
pub const OPT_RR: u8 = 7;
/// Option: internet timestamp.
pub const OPT_TS: u8 = 68;
/// Option: security (RFC 1108).
pub const OPT_SECURITY: u8 = 130;
/// Option: loose source route.
pub const OPT_LSRR: u8 = 131;
/// Option: strict source route.
pub const OPT_SSRR: u8 = 137;
/// Option: router alert (RFC 2113).
pub const OPT_RA: u8 = 148;

/// ECN field: not capable (RFC 3168 §5).
pub const ECN_NOT_ECT: u8 = 0;
/// ECN field: capable, codepoint 1.
pub const ECN_ECT1: u8 = 1;
/// ECN field: capable, codepoint 0.
pub const ECN_ECT0: u8 = 2;
/// ECN field: congestion experienced.
pub const ECN_CE: u8 = 3;

view! {
    /// The fixed 20 bytes of an IPv4 header.
    Ipv4[20] {
        /// Version (high four bits) and header length in words (low four bits).
        u8, version_ihl / set_version_ihl @ 0;
        /// Type of service: DSCP (RFC 2474) and ECN (RFC 3168).
        u8, tos / set_tos @ 1;
        /// Length of header and data, in bytes.
        u16, total_len / set_total_len @ 2;
        /// Identification, common to all fragments of a datagram.
        u16, id / set_id @ 4;
        /// Flags (high three bits) and fragment offset in units of eight bytes.
        u16, flags_fragment / set_flags_fragment @ 6;
        /// Time to live, in hops.
        u8, ttl / set_ttl @ 8;
        /// Protocol of the payload, see [`crate::protocol`].
        u8, protocol / set_protocol @ 9;
        /// Header checksum.
        u16, checksum / set_checksum @ 10;
        /// Source address.
        Ipv4Addr, src / set_src @ 12;
        /// Destination address.
        Ipv4Addr, dst / set_dst @ 16;
    }
}

impl Ipv4<[u8; HEADER_LEN]> {
    /// A header without options: version 4, TTL 64, no fragment, total length for `payload_len` bytes of
    /// payload (masked to 16 bits), checksum filled in.
    pub fn build(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: usize) -> Self {
        let mut h = Self::zeroed();
        h.set_version_ihl(0x45);
        h.set_total_len((HEADER_LEN + payload_len) as u16);
        h.set_ttl(64);
        h.set_protocol(protocol);
        h.set_src(src);
        h.set_dst(dst);
        h.fill_checksum();
        h
    }
}

impl<B: Borrow<[u8; HEADER_LEN]>> Ipv4<B> {
    /// IP version, 4 in a good header.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        self.version_ihl() >> 4
    }

    /// Header length with options as the header states it, in bytes: 0 to 60, at least 20 in a good header.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl() & 15) * 4
    }

    /// Differentiated services codepoint, 6 bits.
    #[inline(always)]
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// Explicit congestion notification, 2 bits.
    #[inline(always)]
    pub fn ecn(&self) -> u8 {
        self.tos() & 3
    }

    /// Do not fragment.
    #[inline(always)]
    pub fn dont_fragment(&self) -> bool {
        self.flags_fragment() & FLAG_DF != 0
    }

    /// More fragments follow this one.
    #[inline(always)]
    pub fn more_fragments(&self) -> bool {
        self.flags_fragment() & FLAG_MF != 0
    }

    /// Place of this fragment's payload in the datagram, in bytes.
    #[inline(always)]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.flags_fragment() & FRAGMENT_OFFSET_MASK) * 8
    }

    /// A piece of a larger datagram: more follow, or some went before.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        self.flags_fragment() & (FLAG_MF | FRAGMENT_OFFSET_MASK) != 0
    }

    /// Holds the start of the datagram, and so its transport header.
    #[inline(always)]
    pub fn is_first_fragment(&self) -> bool {
        self.flags_fragment() & FRAGMENT_OFFSET_MASK == 0
    }

    /// The checksum of these 20 bytes is right. A header with options needs [`verify_header`].
    #[inline(always)]
    pub fn verify_checksum(&self) -> bool {
        checksum::is_all_ones(self.bytes())
    }

    /// Whether this is a fragment that would end behind the 65,535th byte, the last that a datagram can have
    /// (RFC 791 §3.2), with a header as long as this one's at the datagram's beginning.
    #[inline(always)]
    pub fn ends_too_late(&self) -> bool {
        // Shifted by three, the offset is in bytes and the flags are gone.
        self.total_len().checked_add(self.flags_fragment() << 3).is_none()
    }

    /// Sum of the pseudo-header for a transport header and data of `len` bytes.
    #[inline(always)]
    pub fn pseudo_sum(&self, len: u16) -> u16 {
        checksum::pseudo_v4(self.src(), self.dst(), self.protocol(), len)
    }
}

impl<B: BorrowMut<[u8; HEADER_LEN]>> Ipv4<B> {
    /// Sets the header length, in bytes; a multiple of four up to 60, and keeps the version.
    #[inline(always)]
    pub fn set_header_len(&mut self, len: usize) {
        let version = self.version_ihl() & 0xf0;
        self.set_version_ihl(version | (len / 4) as u8 & 15);
    }

    /// Sets the differentiated services codepoint and keeps ECN; not the checksum.
    #[inline(always)]
    pub fn set_dscp(&mut self, dscp: u8) {
        let ecn = self.ecn();
        self.set_tos(dscp << 2 | ecn);
    }

    /// Sets the ECN field and keeps the codepoint; not the checksum.
    #[inline(always)]
    pub fn set_ecn(&mut self, ecn: u8) {
        let tos = self.tos();
        self.set_tos(tos & !3 | ecn & 3);
    }

    /// Sets the fragment offset in bytes (rounded down to eight) and keeps the flags.
    #[inline(always)]
    pub fn set_fragment_offset(&mut self, bytes: usize) {
        let flags = self.flags_fragment() & !FRAGMENT_OFFSET_MASK;
        self.set_flags_fragment(flags | (bytes / 8) as u16 & FRAGMENT_OFFSET_MASK);
    }

    /// Sets or clears "more fragments" and keeps the rest.
    #[inline(always)]
    pub fn set_more_fragments(&mut self, more: bool) {
        let rest = self.flags_fragment() & !FLAG_MF;
        self.set_flags_fragment(rest | if more { FLAG_MF } else { 0 });
    }

    /// Sets or clears "do not fragment" and keeps the rest.
    #[inline(always)]
    pub fn set_dont_fragment(&mut self, df: bool) {
        let rest = self.flags_fragment() & !FLAG_DF;
        self.set_flags_fragment(rest | if df { FLAG_DF } else { 0 });
    }

    /// Fills in the checksum of these 20 bytes. A header with options needs [`fill_header`].
    #[inline(always)]
    pub fn fill_checksum(&mut self) {
        let check = !checksum::sum_without_check(self.bytes());
        self.set_checksum(check);
    }

    /// Takes one hop off the TTL and updates the checksum (RFC 1624 equation 3).
    ///
    /// `false`, with nothing changed, when the TTL is 1 or 0: such a packet is not forwarded (RFC 1812
    /// §5.3.1).
    #[inline(always)]
    pub fn decrement_ttl(&mut self) -> bool {
        // The TTL, the protocol and the checksum are one word.
        let Some(bytes) = self.bytes_mut()[8..].first_chunk_mut() else { return false };
        let word = u32::from_be_bytes(*bytes);
        if word < 2 << 24 {
            return false;
        }
        // The TTL is the high byte of its word of the sum, so the sum loses 0x0100 and its complement gains
        // that, in one's complement, in which 0xffff is 0.
        let check = (word & 0xffff) + 0x0100;
        let check = (check + u32::from(check >= 0xffff)) & 0xffff;
        *bytes = (((word & 0xffff_0000) - (1 << 24)) | check).to_be_bytes();
        true
    }

    /// Sets the type of service and updates the checksum.
    #[inline(always)]
    pub fn update_tos(&mut self, tos: u8) {
        let (old, check) = (self.tos(), self.checksum());
        self.set_tos(tos);
        self.set_checksum(checksum::update(check, u16::from(old), u16::from(tos)));
    }

    /// Sets the codepoint, keeps ECN, and updates the checksum.
    #[inline(always)]
    pub fn update_dscp(&mut self, dscp: u8) {
        let ecn = self.ecn();
        self.update_tos(dscp << 2 | ecn);
    }

    /// Sets the ECN field, keeps the codepoint, and updates the checksum.
    #[inline(always)]
    pub fn update_ecn(&mut self, ecn: u8) {
        let tos = self.tos();
        self.update_tos(tos & !3 | ecn & 3);
    }

    /// Sets the total length and updates the checksum.
    #[inline(always)]
    pub fn update_total_len(&mut self, len: u16) {
        let (old, check) = (self.total_len(), self.checksum());
        self.set_total_len(len);
        self.set_checksum(checksum::update(check, old, len));
    }

    /// Sets flags and fragment offset and updates the checksum.
    #[inline(always)]
    pub fn update_flags_fragment(&mut self, value: u16) {
        let (old, check) = (self.flags_fragment(), self.checksum());
        self.set_flags_fragment(value);
        self.set_checksum(checksum::update(check, old, value));
    }

    /// Sets the source, updates the checksum, and returns the change for the transport checksum.
    #[inline(always)]
    pub fn update_src(&mut self, src: Ipv4Addr) -> Delta {
        let delta = Delta::new().replace_u32(self.src().to_bits(), src.to_bits());
        self.set_src(src);
        self.set_checksum(delta.apply(self.checksum()));
        delta
    }

    /// Sets the destination, updates the checksum, and returns the change for the transport checksum.
    #[inline(always)]
    pub fn update_dst(&mut self, dst: Ipv4Addr) -> Delta {
        let delta = Delta::new().replace_u32(self.dst().to_bits(), dst.to_bits());
        self.set_dst(dst);
        self.set_checksum(delta.apply(self.checksum()));
        delta
    }
}

/// The checksum of a header with its options is right; `header` is exactly the header.
#[inline]
pub fn verify_header(header: &[u8]) -> bool {
    checksum::sum(header) == 0xffff
}

/// Fills in the checksum of a header with its options; `header` is exactly the header. `false` below 20
/// bytes.
#[inline]
pub fn fill_header(header: &mut [u8]) -> bool {
    let Some((fixed, options)) = header.split_first_chunk_mut() else { return false };
    let sum = checksum::sum_without_check(fixed);
    let sum = if options.is_empty() { sum } else { checksum::combine(sum, checksum::sum(options)) };
    Ipv4::wrap(fixed).set_checksum(!sum);
    true
}

/// Why bytes are not an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadIpv4 {
    /// Fewer than 20 bytes.
    Miniscule,
    /// The version is not 4.
    Version,
    /// The header length is below 20 bytes, or there are not as many bytes.
    HeaderLen,
    /// The total length is below the header length, or there are not as many bytes, or the packet is a
    /// fragment that would end behind the 65,535th byte of its datagram.
    TotalLen,
    /// The header checksum is wrong.
    Checksum,
}

impl fmt::Display for BadIpv4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Miniscule => "too short for an IP header",
            Self::Version => "bad IP version",
            Self::HeaderLen => "bad IP header length",
            Self::TotalLen => "bad IP length",
            Self::Checksum => "bad IP checksum",
        })
    }
}

impl std::error::Error for BadIpv4 {}

/// Checks the header at the start of `bytes` (RFC 1812 §5.2.2) and returns its length and the total length,
/// in bytes.
///
/// The checksum is checked last and only if `with_checksum`.
///
/// # Errors
/// The first check that fails, in the order of [`BadIpv4`].
#[inline(always)]
pub fn check(bytes: &[u8], with_checksum: bool) -> Result<(usize, usize), BadIpv4> {
    if let Some(h) = Ipv4::new(bytes)
        && h.version_ihl() == 0x45
    {
        // Nearly every packet has no options and no error.
        let total_len = usize::from(h.total_len());
        let fits = HEADER_LEN <= total_len && total_len <= bytes.len();
        if fits && !h.ends_too_late() && (!with_checksum || h.verify_checksum()) {
            return Ok((HEADER_LEN, total_len));
        }
    }
    check_in_order(bytes, with_checksum)
}

/// [`check`], one thing after the other.
#[cold]
fn check_in_order(bytes: &[u8], with_checksum: bool) -> Result<(usize, usize), BadIpv4> {
    let Some(h) = Ipv4::new(bytes) else { return Err(BadIpv4::Miniscule) };
    let (header_len, total_len) = (h.header_len(), usize::from(h.total_len()));
    if h.version() != 4 {
        return Err(BadIpv4::Version);
    }
    if header_len < HEADER_LEN || header_len > bytes.len() {
        return Err(BadIpv4::HeaderLen);
    }
    if total_len < header_len || total_len > bytes.len() || h.ends_too_late() {
        return Err(BadIpv4::TotalLen);
    }
    if with_checksum && !verify_header(bytes.get(..header_len).unwrap_or(&[])) {
        return Err(BadIpv4::Checksum);
    }
    Ok((header_len, total_len))
}

/// A packet whose lengths were checked, cut at its total length: link-layer padding is left out.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Packet<'a> {
    header: Ipv4<&'a [u8; HEADER_LEN]>,
    header_bytes: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4Packet<'a> {
    /// The packet at the start of `bytes`. The checksum is not verified.
    ///
    /// # Errors
    /// Every [`BadIpv4`] but `Checksum`.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadIpv4> {
        let (header_len, total_len) = check(bytes, false)?;
        let header = Ipv4::new(bytes).ok_or(BadIpv4::Miniscule)?;
        let packet = bytes.get(..total_len).ok_or(BadIpv4::TotalLen)?;
        let (header_bytes, payload) = packet.split_at_checked(header_len).ok_or(BadIpv4::HeaderLen)?;
        Ok(Self { header, header_bytes, payload })
    }

    /// The fixed header.
    #[inline(always)]
    pub fn header(&self) -> Ipv4<&'a [u8; HEADER_LEN]> {
        self.header
    }

    /// The header with its options.
    #[inline(always)]
    pub fn header_bytes(&self) -> &'a [u8] {
        self.header_bytes
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options::new(self.header_bytes.get(HEADER_LEN..).unwrap_or(&[]), HEADER_LEN)
    }

    /// What follows the header.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The header checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        verify_header(self.header_bytes)
    }

    /// Sum of the pseudo-header over the whole payload.
    #[inline]
    pub fn pseudo_sum(&self) -> u16 {
        self.header.pseudo_sum(self.payload.len() as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A UDP packet from 192.168.0.1 to 192.168.0.199; the header checksum is the well-known textbook one.
    const GOLDEN: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];

    fn config() -> ProptestConfig {
        ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 512 },
            failure_persistence: None,
            ..ProptestConfig::default()
        }
    }

    #[test]
    fn golden() {
        let h = Ipv4::new(&GOLDEN).unwrap();
        assert_eq!((h.version(), h.header_len(), h.tos(), h.total_len()), (4, 20, 0, 0x73));
        assert_eq!((h.id(), h.dont_fragment(), h.more_fragments(), h.fragment_offset()), (0, true, false, 0));
        assert_eq!((h.ttl(), h.protocol(), h.checksum()), (64, 17, 0xb861));
        assert_eq!((h.src(), h.dst()), ([192, 168, 0, 1].into(), [192, 168, 0, 199].into()));
        assert!(h.verify_checksum() && verify_header(&GOLDEN) && !h.is_fragment() && h.is_first_fragment());

        let mut made = Ipv4::build(h.src(), h.dst(), 17, 0x73 - 20);
        made.set_dont_fragment(true);
        made.fill_checksum();
        assert_eq!(*made.bytes(), GOLDEN);
    }

    #[test]
    fn bit_fields_keep_their_neighbors() {
        let mut h = Ipv4::zeroed();
        h.set_tos(0xff);
        h.set_dscp(46);
        assert_eq!(h.tos(), 0xbb);
        h.set_ecn(ECN_ECT0);
        assert_eq!((h.dscp(), h.ecn()), (46, 2));
        h.set_dont_fragment(true);
        h.set_fragment_offset(1480);
        h.set_more_fragments(true);
        assert_eq!(h.flags_fragment(), FLAG_DF | FLAG_MF | 185);
        assert!(h.is_fragment() && !h.is_first_fragment());
        h.set_more_fragments(false);
        h.set_dont_fragment(false);
        assert_eq!((h.fragment_offset(), h.flags_fragment()), (1480, 185));
        h.set_version_ihl(0x45);
        h.set_header_len(60);
        assert_eq!((h.version(), h.header_len()), (4, 60));
    }

    #[test]
    fn checks_in_order() {
        let mut p = [0u8; 0x73];
        p[..20].copy_from_slice(&GOLDEN);
        assert_eq!(check(&p, true), Ok((20, 0x73)));
        assert_eq!(check(&p[..19], true), Err(BadIpv4::Miniscule));
        assert_eq!(check(&p[..0x72], true), Err(BadIpv4::TotalLen));
        for (at, value, why) in [
            (0, 0x55, BadIpv4::Version),
            (0, 0x44, BadIpv4::HeaderLen),
            (3, 19, BadIpv4::TotalLen),
            (3, 0x74, BadIpv4::TotalLen),
            (8, 63, BadIpv4::Checksum),
        ] {
            let mut bad = p;
            bad[at] = value;
            assert_eq!(check(&bad, true), Err(why));
        }
        assert_eq!(check(&[0x4f; 59], true), Err(BadIpv4::HeaderLen));
    }

    /// The last byte of a datagram is its 65,535th: a fragment that would lie behind it is none (RFC 791
    /// §3.2).
    #[test]
    fn a_fragment_ends_within_a_datagram() {
        for (flags, header_words, payload) in
            [(0, 5, 24), (FLAG_MF, 5, 1132), (FLAG_DF, 5, 1), (0, 15, 8), (FLAG_RESERVED | FLAG_MF, 6, 16)]
        {
            let total = header_words * 4 + payload;
            for offset in (0..=FRAGMENT_OFFSET_MASK).rev().step_by(7).chain([FRAGMENT_OFFSET_MASK]) {
                let mut p = vec![0; total];
                p[..20].copy_from_slice(Ipv4::build([1; 4].into(), [2; 4].into(), 17, total - 20).bytes());
                let mut h = Ipv4::new_mut(&mut p).unwrap();
                h.set_header_len(header_words * 4);
                h.set_flags_fragment(flags | offset);
                assert!(fill_header(&mut p[..header_words * 4]));
                let expected = if usize::from(offset) * 8 + total <= 65_535 {
                    Ok((header_words * 4, total))
                } else {
                    Err(BadIpv4::TotalLen)
                };
                assert_eq!(check(&p, true), expected, "{flags:x} {offset} {total}");
            }
        }
    }

    #[test]
    fn options_and_padding() {
        let mut p = vec![0x47, 0, 0, 30, 0, 0, 0, 0, 9, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
        p.extend([OPT_RR, 7, 4, 0, 0, 0, 0, OPT_EOL]);
        p.extend([0xaa, 0xbb]);
        p.extend([0; 30]); // Ethernet padding
        assert!(fill_header(&mut p[..28]));
        let packet = Ipv4Packet::parse(&p).unwrap();
        assert!(packet.verify_checksum() && check(&p, true).is_ok());
        assert_eq!(packet.payload(), [0xaa, 0xbb]);
        let opts: Vec<_> = packet.options().map(|o| o.unwrap()).collect();
        assert_eq!(opts.len(), 1);
        assert_eq!((opts[0].kind, opts[0].offset, opts[0].bytes.len()), (OPT_RR, 20, 7));
        assert!(!fill_header(&mut [0; 19]));
    }

    #[test]
    fn ttl_reaches_one_and_stops() {
        let mut h = Ipv4::build([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), 6, 0);
        for ttl in (1..64).rev() {
            assert!(h.decrement_ttl());
            assert_eq!(h.ttl(), ttl);
            assert!(h.verify_checksum());
            assert_ne!(h.checksum(), 0xffff);
        }
        let before = h;
        assert!(!h.decrement_ttl());
        assert_eq!(h, before);
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn updates_are_recomputation(raw: [u8; 20], tos: u8, len: u16, ff: u16, a: u32, b: u32) {
            let mut h = Ipv4::wrap(raw);
            h.set_version_ihl(0x45);
            h.fill_checksum();
            h.update_tos(tos);
            h.update_dscp(tos);
            h.update_ecn(3);
            h.update_total_len(len);
            h.update_flags_fragment(ff);
            h.update_src(Ipv4Addr::from_bits(a));
            h.update_dst(Ipv4Addr::from_bits(b));
            h.decrement_ttl();
            let updated = h.checksum();
            h.fill_checksum();
            prop_assert_eq!(updated, h.checksum());
        }

        #[test]
        fn filling_in_is_the_checksum_with_a_zero_there(words in 5usize..16, bytes: [u8; 60], zeros: bool) {
            let mut header = if zeros { vec![0; words * 4] } else { bytes[..words * 4].to_vec() };
            header[10] = bytes[10];
            let mut blank = header.clone();
            blank[10..12].fill(0);
            let wanted = checksum::checksum(&blank);
            prop_assert!(fill_header(&mut header));
            prop_assert_eq!(Ipv4::new(&header).unwrap().checksum(), wanted);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), first in 0x40u8..0x50) {
            let mut bytes = bytes;
            for round in 0..2 {
                let _ = check(&bytes, true);
                if let Ok(p) = Ipv4Packet::parse(&bytes) {
                    prop_assert!(p.header_bytes().len() + p.payload().len() <= bytes.len());
                    prop_assert!(p.options().count() <= 40);
                    let _ = (p.verify_checksum(), p.pseudo_sum(), p.header().fragment_offset());
                }
                if let (0, [b0, _, l0, l1, ..]) = (round, &mut bytes[..]) {
                    (*b0, *l0, *l1) = (first, 0, *l1 % 80);
                }
            }
        }
    }
}
