//! Addresses: IPv4, IPv6, prefixes, Ethernet. Names of the database are accepted wherever an address is.

use super::fromarg::{FromArg, PARSE_ERROR};
use super::names::NameDb;
use super::number::parse_unsigned;
use super::values::{EtherAddr, Ip6Prefix, IpPrefix, mask_of};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Up to four numbers separated by dots: the bytes and how many there are.
fn dotted(text: &str) -> Option<([u8; 4], usize)> {
    let mut bytes = [0; 4];
    let mut n = 0;
    for part in text.split('.') {
        let ok = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        *bytes.get_mut(n)? = ok.then(|| part.parse::<u32>().ok())?.and_then(|v| u8::try_from(v).ok())?;
        n += 1;
    }
    Some((bytes, n))
}

fn literal_ip(text: &str) -> Option<Ipv4Addr> {
    dotted(text).filter(|(_, n)| *n == 4).map(|(b, _)| b.into())
}

fn ip(text: &str, names: &NameDb) -> Option<Ipv4Addr> {
    literal_ip(text).or_else(|| names.ip(text))
}

fn some<T>(value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| PARSE_ERROR.to_string())
}

impl FromArg for Ipv4Addr {
    const EXPECTS: &'static str = "an IP address";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        some(ip(text, names))
    }
}

/// A list of IPv4 addresses separated by spaces.
impl FromArg for Vec<Ipv4Addr> {
    const EXPECTS: &'static str = "IP addresses separated by spaces";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        super::split_words(text).iter().map(|w| some(ip(&w.text, names))).collect()
    }
}

impl IpPrefix {
    /// Parses `addr/len`, `addr/mask`, the name of a network and, if `bare`, a plain address. The address may
    /// lack bytes that the mask does not cover (`18.26.4/24`).
    ///
    /// # Errors
    /// `parse error`.
    pub fn parse(text: &str, names: &NameDb, bare: bool) -> Result<IpPrefix, String> {
        let slashed = text.rsplit_once('/').and_then(|(a, m)| Self::with_slash(a, m, names));
        let plain = || ip(text, names).filter(|_| bare).map(|addr| IpPrefix { addr, mask: mask_of(32) });
        some(slashed.or_else(plain).or_else(|| names.ip_prefix(text)))
    }

    fn with_slash(addr: &str, mask: &str, names: &NameDb) -> Option<IpPrefix> {
        let (bytes, n) = match dotted(addr) {
            Some(b) => b,
            None => (names.ip(addr)?.octets(), 4),
        };
        let decimal = !mask.is_empty() && mask.bytes().all(|b| b.is_ascii_digit());
        let len = decimal.then(|| mask.parse::<u32>().ok()).flatten().filter(|l| *l <= 32);
        let mask = match len {
            Some(l) => mask_of(l),
            None => ip(mask, names)?,
        };
        let given = mask_of(8 * n as u32);
        (mask & given == mask).then(|| IpPrefix { addr: bytes.into(), mask })
    }
}

impl FromArg for IpPrefix {
    const EXPECTS: &'static str = "an IP address or network, such as 10.0.0.0/8";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        IpPrefix::parse(text, names, true)
    }
}

/// An [`IpPrefix`] that must have a mask or be the name of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrictIpPrefix(pub IpPrefix);

impl FromArg for StrictIpPrefix {
    const EXPECTS: &'static str = "an IP network, such as 10.0.0.0/8";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        IpPrefix::parse(text, names, false).map(StrictIpPrefix)
    }
}

impl FromArg for Ipv6Addr {
    const EXPECTS: &'static str = "an IPv6 address";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        some(ip6(text, names))
    }
}

fn ip6(text: &str, names: &NameDb) -> Option<Ipv6Addr> {
    if let Ok(a) = text.parse() {
        return Some(a);
    }
    // The last part may be the name of an IPv4 address: `0::name`.
    if let Some((front, last)) = text.rsplit_once(':')
        && front.contains(':')
        && let Some(v4) = names.ip(last)
        && let Ok(a) = format!("{front}:{v4}").parse()
    {
        return Some(a);
    }
    names.ip6(text)
}

impl Ip6Prefix {
    /// Parses `addr/len`, `addr/mask`, the name of a network and, if `bare`, a plain address.
    ///
    /// # Errors
    /// `parse error`.
    pub fn parse(text: &str, names: &NameDb, bare: bool) -> Result<Ip6Prefix, String> {
        if let Some((a, m)) = text.rsplit_once('/')
            && let Some(addr) = ip6(a, names)
        {
            let decimal = !m.is_empty() && m.bytes().all(|b| b.is_ascii_digit());
            if decimal && let Ok(n) = parse_unsigned(m.trim_start_matches('0'), 128).or_else(|_| zero(m)) {
                return Ok(Ip6Prefix { addr, len: n as u8 });
            }
            let mask = some(ip6(m, names))?.to_bits();
            let contiguous = mask.leading_ones() + mask.trailing_zeros() >= 128;
            return some(contiguous.then(|| Ip6Prefix { addr, len: mask.leading_ones() as u8 }));
        }
        let plain = ip6(text, names).filter(|_| bare).map(|addr| Ip6Prefix { addr, len: 128 });
        some(plain.or_else(|| names.ip6_prefix(text)))
    }
}

/// 0 if the text is only zeros.
fn zero(text: &str) -> Result<u64, String> {
    if text.bytes().all(|b| b == b'0') { Ok(0) } else { Err(PARSE_ERROR.into()) }
}

impl FromArg for Ip6Prefix {
    const EXPECTS: &'static str = "an IPv6 address or network";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        Ip6Prefix::parse(text, names, true)
    }
}

impl FromArg for EtherAddr {
    const EXPECTS: &'static str = "an Ethernet address, such as 00:50:BA:85:84:A9";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        some(EtherAddr::literal(text).or_else(|| names.ether(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse;

    #[test]
    fn ipv4() {
        assert_eq!(parse::<Ipv4Addr>("18.26.4.9"), Ok(Ipv4Addr::new(18, 26, 4, 9)));
        for bad in ["18.26.4", "18.26.4.256", "18.26.4.9.1", "", "a", "1.2.3.4 ", "1..2.3", "+1.2.3.4"] {
            assert!(parse::<Ipv4Addr>(bad).is_err(), "{bad}");
        }
        assert_eq!(parse::<Vec<Ipv4Addr>>("1.1.1.1 2.2.2.2").map(|v| v.len()), Ok(2));
    }

    #[test]
    fn prefixes() {
        let p = |s: &str| parse::<IpPrefix>(s).map(|p| p.to_string());
        assert_eq!(p("18.26.4.9/24"), Ok("18.26.4.9/24".into()));
        assert_eq!(p("18.26.4/24"), Ok("18.26.4.0/24".into()));
        assert_eq!(p("18.26.4.0/255.255.255.0"), Ok("18.26.4.0/24".into()));
        assert_eq!(p("1.2.3.4/255.0.255.0"), Ok("1.2.3.4/255.0.255.0".into()));
        assert_eq!(p("1.2.3.4"), Ok("1.2.3.4/32".into()));
        assert_eq!(p("0/0"), Ok("0.0.0.0/0".into()));
        for bad in ["18.26/24", "1.2.3.4/33", "1.2.3.4/", "/8", "1.2.3/x"] {
            assert!(p(bad).is_err(), "{bad}");
        }
        assert!(parse::<StrictIpPrefix>("1.2.3.4").is_err());
        let net = parse::<IpPrefix>("10.0.0.0/8").unwrap();
        assert!(net.contains(Ipv4Addr::new(10, 9, 8, 7)) && !net.contains(Ipv4Addr::new(11, 0, 0, 0)));
        assert_eq!(IpPrefix::new(Ipv4Addr::LOCALHOST, 33), None);
    }

    #[test]
    fn ipv6() {
        assert_eq!(parse::<Ipv6Addr>("1080::8:800:200C:417A").unwrap().to_string(), "1080::8:800:200c:417a");
        assert!(parse::<Ipv6Addr>("::13.1.68.3").is_ok());
        let p = |s: &str| parse::<Ip6Prefix>(s).map(|p| p.to_string());
        assert_eq!(p("::1/32"), Ok("::1/32".into()));
        assert_eq!(p("::/0"), Ok("::/0".into()));
        assert_eq!(p("::1/ffff::"), Ok("::1/16".into()));
        assert_eq!(p("::1"), Ok("::1/128".into()));
        assert!(p("::/::1").is_err());
        assert!(p("::/129").is_err());
        let mut names = NameDb::new();
        names.addresses_mut("v4").ip = Some(Ipv4Addr::new(1, 2, 3, 4));
        assert_eq!(Ipv6Addr::from_arg("0::v4", &names).unwrap(), "::1.2.3.4".parse::<Ipv6Addr>().unwrap());
    }

    #[test]
    fn ethernet() {
        assert_eq!(parse::<EtherAddr>("0-a0-c9-9C-fd-9c").unwrap().to_string(), "00-A0-C9-9C-FD-9C");
        assert_eq!(parse::<EtherAddr>("00:50:ba:85:84:a9").unwrap().0, [0, 0x50, 0xba, 0x85, 0x84, 0xa9]);
        for bad in ["0:1:2:3:4", "0:1:2:3:4:5:6", "0:1-2:3:4:5", "0:1:2:3:4:", "0:1:2:3:4:100", ""] {
            assert!(parse::<EtherAddr>(bad).is_err(), "{bad}");
        }
    }
}
