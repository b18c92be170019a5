//! IPv6 prefixes.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::prefix::BadPrefix;

/// An IPv6 prefix, host bits zero. Ordered by address, then by length: a prefix comes before all that it
/// contains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix6 {
    addr: u128,
    len: u8,
}

impl Prefix6 {
    /// `::/0`, the default route.
    pub const DEFAULT: Self = Self { addr: 0, len: 0 };

    /// The prefix of `len` bits that holds `addr` (in host order), host bits cleared; `None` when `len`
    /// exceeds 128.
    #[inline]
    pub const fn new(addr: u128, len: u8) -> Option<Self> {
        if len > 128 { None } else { Some(Self { addr: addr & mask(len), len }) }
    }

    /// The prefix of one address.
    #[inline]
    pub const fn host(addr: u128) -> Self {
        Self { addr, len: 128 }
    }

    /// First address, in host order.
    #[inline]
    pub const fn first(self) -> u128 {
        self.addr
    }

    /// Last address, in host order.
    #[inline]
    pub const fn last(self) -> u128 {
        self.addr | !mask(self.len)
    }

    /// Length in bits, 0 to 128.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a prefix is never empty: the length is in bits")]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// The address is in the prefix.
    #[inline]
    pub const fn contains(self, addr: u128) -> bool {
        addr & mask(self.len) == self.addr
    }
}

#[inline]
const fn mask(len: u8) -> u128 {
    match len {
        0 => 0,
        len => u128::MAX << (128 - len),
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from_bits(self.addr), self.len)
    }
}

impl fmt::Debug for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix6 {
    type Err = BadPrefix;

    /// Parses `ADDRESS/LENGTH`, or an address alone as a `/128`. Host bits are cleared.
    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) if len.bytes().all(|c| c.is_ascii_digit()) => {
                (addr, len.parse().map_err(|_| BadPrefix)?)
            }
            Some(_) => return Err(BadPrefix),
            None => (text, 128),
        };
        let addr: Ipv6Addr = addr.parse().map_err(|_| BadPrefix)?;
        Self::new(addr.to_bits(), len).ok_or(BadPrefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bounds() {
        let p: Prefix6 = "2001:db8:1234::5/32".parse().unwrap();
        assert_eq!(p.to_string(), "2001:db8::/32");
        assert_eq!(p.last(), 0x2001_0db8_ffff_ffff_ffff_ffff_ffff_ffff);
        assert!(p.contains(0x2001_0db8 << 96 | 7) && !p.contains(0x2001_0db9 << 96));
        assert_eq!("::1".parse(), Ok(Prefix6::host(1)));
        assert_eq!("ff::/0".parse(), Ok(Prefix6::DEFAULT));
        assert_eq!((Prefix6::DEFAULT.last(), Prefix6::host(7).last()), (u128::MAX, 7));
        for bad in ["", "/", "2001/8", "::/129", "::/+8", "::/", "::/8/8", "1.2.3.4/8", "::g/8"] {
            assert!(bad.parse::<Prefix6>().is_err(), "{bad}");
        }
        assert!(p < "2001:db8::/33".parse().unwrap());
    }
}
