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

    /// The well-known prefix, 64:ff9b::/96 (RFC 6052 section 2.1).
    const WELL_KNOWN: Self = Self { network: 0x0064_ff9b << 96, len: 96 };

    /// Whether it is the well-known prefix, whose addresses must contain global IPv4 addresses only (RFC 6052
    /// section 3.1).
    pub(crate) fn is_well_known(&self) -> bool {
        *self == Self::WELL_KNOWN
    }

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

/// Whether an IPv4 address is the same host's everywhere: none of RFC 1918, RFC 5735 section 3 and RFC 6598.
pub(crate) fn is_global(a: Ipv4Addr) -> bool {
    let [first, second, third, _] = a.octets();
    let special = match first {
        0 | 10 | 127 | 224.. => true,
        100 => second & 0xc0 == 64,
        169 => second == 254,
        172 => second & 0xf0 == 16,
        192 => matches!((second, third), (0, 0 | 2) | (88, 99) | (168, _)),
        198 => matches!((second, third), (18 | 19, _) | (51, 100)),
        203 => (second, third) == (0, 113),
        _ => false,
    };
    !special
}

impl std::fmt::Display for Embedding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from_bits(self.network), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::{Embedding, is_global};

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
        assert!(Embedding::parse("64:ff9b::/96").unwrap().is_well_known());
        for other in ["64:ff9b:1::/48", "64:ff9b::/64", "2001:db8::/96"] {
            assert!(!Embedding::parse(other).unwrap().is_well_known());
        }
        for wrong in ["2001:db8::/33", "64:ff9b::", "2001:db8:0:0:100::/96", "x/96"] {
            assert!(Embedding::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// The first and the last address of each special block, and their neighbors.
    #[test]
    fn addresses_that_are_not_global() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ] {
            let bits = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().to_bits();
            let (first, last) = (bits(first), bits(last));
            assert!(!is_global(first.into()) && !is_global(last.into()));
            assert!(first == 0 || is_global((first - 1).into()));
            assert!(last == u32::MAX || is_global((last + 1).into()));
        }
    }
}
