//! Addresses and networks as values, without the names that arguments may use for them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An IPv4 address with a mask. As an argument: `addr/len`, `addr/mask`, or a plain address (mask of all
/// ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpPrefix {
    /// The address; bits outside the mask are kept.
    pub addr: Ipv4Addr,
    /// The mask; need not be contiguous.
    pub mask: Ipv4Addr,
}

/// The mask of a prefix length (0 to 32).
pub(super) fn mask_of(len: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - len).unwrap_or(0))
}

impl IpPrefix {
    /// An address and the length of its network part; `None` if that is above 32.
    pub fn new(addr: Ipv4Addr, len: u8) -> Option<IpPrefix> {
        (len <= 32).then(|| IpPrefix { addr, mask: mask_of(u32::from(len)) })
    }

    /// Length of the network part; `None` for a mask with gaps.
    pub fn prefix_len(&self) -> Option<u8> {
        let m = self.mask.to_bits();
        (m.leading_ones() + m.trailing_zeros() >= 32).then(|| m.leading_ones() as u8)
    }

    /// The address of the network.
    pub fn network(&self) -> Ipv4Addr {
        self.addr & self.mask
    }

    /// Whether an address lies in the network.
    pub fn contains(&self, addr: Ipv4Addr) -> bool {
        addr & self.mask == self.network()
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix_len() {
            Some(len) => write!(f, "{}/{len}", self.addr),
            None => write!(f, "{}/{}", self.addr, self.mask),
        }
    }
}

/// An IPv6 address with a prefix length. As an argument: `addr/len`, `addr/mask`, or a plain address (128).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ip6Prefix {
    /// The address; bits outside the prefix are kept.
    pub addr: Ipv6Addr,
    /// Length of the network part, 0 to 128.
    pub len: u8,
}

impl fmt::Display for Ip6Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// An Ethernet address: six hexadecimal bytes separated by `:` or `-`. Printed as Click does, `00-0A-...`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherAddr(pub [u8; 6]);

impl EtherAddr {
    /// The address without looking at names.
    pub fn literal(text: &str) -> Option<EtherAddr> {
        let sep = text.chars().find(|c| matches!(c, ':' | '-'))?;
        let mut bytes = [0; 6];
        let mut n = 0;
        for part in text.split(sep) {
            if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            *bytes.get_mut(n)? = u8::from_str_radix(part, 16).ok()?;
            n += 1;
        }
        (n == 6).then_some(EtherAddr(bytes))
    }
}

impl fmt::Display for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
    }
}
