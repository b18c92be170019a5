//! IPv4 prefixes.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 prefix, host bits zero. Ordered by address, then by length: a prefix comes before all that it
/// contains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    addr: u32,
    len: u8,
}

impl Prefix {
    /// `0.0.0.0/0`, the default route.
    pub const DEFAULT: Self = Self { addr: 0, len: 0 };

    /// The prefix of `len` bits that holds `addr` (in host order), host bits cleared; `None` when `len`
    /// exceeds 32.
    #[inline]
    pub const fn new(addr: u32, len: u8) -> Option<Self> {
        if len > 32 { None } else { Some(Self { addr: addr & mask(len), len }) }
    }

    /// The prefix of one address.
    #[inline]
    pub const fn host(addr: u32) -> Self {
        Self { addr, len: 32 }
    }

    /// First address, in host order.
    #[inline]
    pub const fn first(self) -> u32 {
        self.addr
    }

    /// Last address, in host order.
    #[inline]
    pub const fn last(self) -> u32 {
        self.addr | !mask(self.len)
    }

    /// Length in bits, 0 to 32.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a prefix is never empty: the length is in bits")]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// The network mask, in host order.
    #[inline]
    pub const fn mask(self) -> u32 {
        mask(self.len)
    }

    /// The address is in the prefix.
    #[inline]
    pub const fn contains(self, addr: u32) -> bool {
        addr & mask(self.len) == self.addr
    }
}

#[inline]
const fn mask(len: u8) -> u32 {
    match len {
        0 => 0,
        len => u32::MAX << (32 - len),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.addr), self.len)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not `ADDRESS/LENGTH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an IP prefix")]
pub struct BadPrefix;

impl FromStr for Prefix {
    type Err = BadPrefix;

    /// Parses `ADDRESS/LENGTH`, or an address alone as a `/32`. Host bits are cleared.
    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) if len.bytes().all(|c| c.is_ascii_digit()) => {
                (addr, len.parse().map_err(|_| BadPrefix)?)
            }
            Some(_) => return Err(BadPrefix),
            None => (text, 32),
        };
        let addr: Ipv4Addr = addr.parse().map_err(|_| BadPrefix)?;
        Self::new(addr.to_bits(), len).ok_or(BadPrefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bounds() {
        let p: Prefix = "10.1.2.3/8".parse().unwrap();
        assert_eq!(p.to_string(), "10.0.0.0/8");
        assert_eq!((p.first(), p.last(), p.mask()), (0x0a00_0000, 0x0aff_ffff, 0xff00_0000));
        assert!(p.contains(0x0a01_0203) && !p.contains(0x0b00_0000));
        assert_eq!("1.2.3.4".parse(), Ok(Prefix::host(0x0102_0304)));
        assert_eq!("9.9.9.9/0".parse(), Ok(Prefix::DEFAULT));
        assert_eq!((Prefix::DEFAULT.last(), Prefix::host(7).last()), (u32::MAX, 7));
        for bad in ["", "/", "1.2.3/8", "1.2.3.4/33", "1.2.3.4/+8", "1.2.3.4/", "1.2.3.4/8/8", "1.2.3.4/256"]
        {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
        assert!(p < "10.0.0.0/9".parse().unwrap());
    }
}
