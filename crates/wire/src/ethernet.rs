//! Ethernet II frames (IEEE 802.3) and addresses.

use crate::view::Field;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// EtherType of an IEEE 802.1Q tag.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of an IEEE 802.1ad service tag.
pub const ETHERTYPE_QINQ: u16 = 0x88a8;
/// EtherType that was in use for outer tags before IEEE 802.1ad.
pub const ETHERTYPE_QINQ_OLD: u16 = 0x9100;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType of MPLS unicast.
pub const ETHERTYPE_MPLS: u16 = 0x8847;
/// Shortest frame without its frame check sequence, in bytes.
pub const MIN_FRAME_LEN: usize = 60;
/// Bytes of a frame on the wire that software does not see: preamble, start delimiter, check sequence and
/// gap.
pub const WIRE_OVERHEAD: usize = 24;

/// A 48-bit Ethernet address.
///
/// Printed in Click's form, `00-15-58-2D-FB-8E`; `{:#}` prints colons, `00:15:58:2D:FB:8E`. Both forms are
/// parsed, with one or two digits of either case per byte.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherAddr(pub [u8; 6]);

impl EtherAddr {
    /// All zero: no host has this address.
    pub const ZERO: Self = Self([0; 6]);
    /// All ones: the broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The group to which packets to an IPv6 multicast address are sent (RFC 2464 section 7).
    #[inline]
    pub const fn multicast_v6(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    /// The address at the start of `bytes`; `None` when they are fewer than six.
    #[inline]
    pub fn from_prefix(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }

    /// The six bytes, in order of transmission.
    #[inline(always)]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The address as the low 48 bits of a number, first byte highest.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address in the low 48 bits of `bits`; higher bits are ignored.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// Every bit is one.
    #[inline(always)]
    pub const fn is_broadcast(self) -> bool {
        self.to_bits() == 0xffff_ffff_ffff
    }

    /// The group bit is set: multicast or broadcast.
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// A multicast address that is not the broadcast address.
    #[inline(always)]
    pub const fn is_multicast(self) -> bool {
        self.is_group() && !self.is_broadcast()
    }
}

field!(EtherAddr, 6, EtherAddr, |a: EtherAddr| a.0);

impl From<[u8; 6]> for EtherAddr {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        if f.alternate() {
            write!(f, "{a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{g:02X}")
        } else {
            write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
        }
    }
}

impl fmt::Debug for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEtherAddr;

impl fmt::Display for BadEtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ethernet address")
    }
}

impl std::error::Error for BadEtherAddr {}

impl FromStr for EtherAddr {
    type Err = BadEtherAddr;

    fn from_str(text: &str) -> Result<Self, BadEtherAddr> {
        let separator = if text.contains(':') { ':' } else { '-' };
        let mut out = [0u8; 6];
        let mut parts = text.split(separator);
        for byte in &mut out {
            let part = parts.next().ok_or(BadEtherAddr)?;
            if part.len() > 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(BadEtherAddr);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| BadEtherAddr)?;
        }
        if parts.next().is_some() { Err(BadEtherAddr) } else { Ok(Self(out)) }
    }
}

view! {
    /// An Ethernet II header.
    Ethernet[14] {
        /// Destination address.
        EtherAddr, dst / set_dst @ 0;
        /// Source address.
        EtherAddr, src / set_src @ 6;
        /// EtherType, or the payload's length when below 0x600.
        u16, ethertype / set_ethertype @ 12;
    }
}

impl Ethernet<[u8; HEADER_LEN]> {
    /// A complete header, ready to be written in front of a packet.
    #[inline]
    pub fn build(dst: EtherAddr, src: EtherAddr, ethertype: u16) -> Self {
        let mut header = Self::zeroed();
        header.set_dst(dst);
        header.set_src(src);
        header.set_ethertype(ethertype);
        header
    }
}

impl<B: std::borrow::BorrowMut<[u8; HEADER_LEN]>> Ethernet<B> {
    /// Exchanges source and destination.
    #[inline(always)]
    pub fn swap_addresses(&mut self) {
        let (src, dst) = (self.src(), self.dst());
        self.set_src(dst);
        self.set_dst(src);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: [u8; 14] =
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x15, 0x58, 0x2d, 0xfb, 0x8e, 0x08, 0x06];

    #[test]
    fn golden() {
        let h = Ethernet::new(&GOLDEN).unwrap();
        assert!(h.dst().is_broadcast());
        assert_eq!(h.src().to_string(), "00-15-58-2D-FB-8E");
        assert_eq!(h.ethertype(), ETHERTYPE_ARP);
        assert_eq!(*Ethernet::build(h.dst(), h.src(), h.ethertype()).bytes(), GOLDEN);
        let mut swapped = h.to_owned();
        swapped.swap_addresses();
        assert!(swapped.src().is_broadcast());
        assert_eq!(swapped.dst(), h.src());
    }

    #[test]
    fn short() {
        assert!(Ethernet::new(&GOLDEN[..13]).is_none());
        assert!(Ethernet::split(&[]).is_none());
        let (_, rest) = Ethernet::split(&GOLDEN).unwrap();
        assert!(rest.is_empty());
    }

    #[test]
    fn address_text() {
        let a: EtherAddr = "0:15:58:2d:FB:8e".parse().unwrap();
        assert_eq!(format!("{a}"), "00-15-58-2D-FB-8E");
        assert_eq!(format!("{a:#}"), "00:15:58:2D:FB:8E");
        assert_eq!(format!("{a}").parse(), Ok(a));
        for bad in
            ["", "0:1:2:3:4", "0:1:2:3:4:5:6", "0:1:2:3:4:+5", "0:1:2:3:4:", "0:1:2:3:4:555", "0-1:2-3:4-5"]
        {
            assert!(bad.parse::<EtherAddr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn address_kinds() {
        assert!(EtherAddr::BROADCAST.is_group() && !EtherAddr::BROADCAST.is_multicast());
        let m = EtherAddr([0x01, 0x00, 0x5e, 0x7f, 1, 2]);
        assert!(m.is_multicast());
        assert_eq!(EtherAddr::from_bits(m.to_bits()), m);
    }
}
