//! Networks whose IPv6 addresses contain IPv4 addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A network whose IPv6 addresses contain IPv4 addresses (RFC 6052).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Embedding {
    network: u128,
    len: u8,
}

impl Embedding {
    /// The addresses `::a.b.c.d`.
    pub(crate) const COMPATIBLE: Self = Self { network: 0, len: 96 };
    /// The addresses `::ffff:a.b.c.d`.
    pub(crate) const MAPPED: Self = Self { network: 0xffff << 32, len: 96 };

    /// # Errors
    /// RFC 6052 has no such length, or the bits 64 to 71 are not zero.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (address, len) = text.trim().split_once('/').ok_or("expected a network like 64:ff9b::/96")?;
        let address: Ipv6Addr = lang::args::parse(address)?;
        let len: u8 = lang::args::parse(len)?;
        if !matches!(len, 32 | 40 | 48 | 56 | 64 | 96) {
            return Err("the length must be 32, 40, 48, 56, 64 or 96".to_owned());
        }
        let network = address.to_bits() >> (128 - len) << (128 - len);
        if network >> 56 & 0xff != 0 {
            return Err("the bits 64 to 71 must be zero (RFC 6052 section 2.2)".to_owned());
        }
        Ok(Self { network, len })
    }

    /// The address that contains an IPv4 address.
    #[inline]
    pub(crate) fn embed(&self, a: Ipv4Addr) -> Ipv6Addr {
        let four = u128::from(a.to_bits());
        let bits = match self.len {
            96 => four,
            len => {
                // The IPv4 address follows the network; the bits 64 to 71 are left out.
                let wide = four << (128 - u32::from(len) - 32);
                wide & !(u128::MAX >> 64) | (wide & (u128::MAX >> 64)) >> 8
            }
        };
        Ipv6Addr::from_bits(self.network | bits)
    }

    /// Whether an address is in the network.
    #[inline]
    pub(crate) fn contains(&self, a: Ipv6Addr) -> bool {
        (a.to_bits() ^ self.network) >> (128 - self.len) == 0
    }

    /// The IPv4 address that an address of the network contains.
    #[inline]
    pub(crate) fn extract(&self, a: Ipv6Addr) -> Option<Ipv4Addr> {
        let bits = a.to_bits();
        if !self.contains(a) {
            return None;
        }
        if self.len == 96 {
            return Some(Ipv4Addr::from_bits(bits as u32));
        }
        let wide = bits & !(u128::MAX >> 64) | bits << 8 & (u128::MAX >> 64);
        Some(Ipv4Addr::from_bits((wide >> (128 - u32::from(self.len) - 32)) as u32))
    }
}

impl std::fmt::Display for Embedding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from_bits(self.network), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::Embedding;

    /// RFC 6052 section 2.4.
    #[test]
    fn addresses_in_networks() {
        let four = "192.0.2.33".parse().unwrap();
        for (network, address) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
        ] {
            let embedding = Embedding::parse(network).unwrap();
            let want = address.parse().unwrap();
            assert_eq!((embedding.embed(four), embedding.extract(want)), (want, Some(four)), "{network}");
            assert_eq!(embedding.to_string(), network);
            assert_eq!(embedding.extract("2002::1".parse().unwrap()), None);
        }
        for wrong in ["2001:db8::/33", "64:ff9b::", "2001:db8:0:0:100::/96", "x/96"] {
            assert!(Embedding::parse(wrong).is_err(), "{wrong}");
        }
    }
}
