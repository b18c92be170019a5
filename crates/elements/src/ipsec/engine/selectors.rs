//! The packets that are accepted from a tunnel (RFC 4301 §4.4.1.1, §5.2): the selectors of an inbound
//! association.

use lang::args::{FromArg, Ip6Prefix, IpPrefix, NameDb};
use std::fmt::{self, Display, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::protocol::{self, DCCP, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING, SCTP, UDPLITE};
use wire::{Ipv4, Ipv6};

/// The names of the selectors.
pub(crate) const NAMES: [&str; 5] = ["from", "to", "proto", "sport", "dport"];
/// How many values each selector may have.
const MOST: usize = 64;
/// How many extension headers of an IPv6 packet are skipped.
const MOST_EXTENSIONS: usize = 8;

/// A network.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Net {
    V4 { net: u32, mask: u32, len: u32 },
    V6 { net: u128, mask: u128, len: u32 },
}

impl Net {
    /// Reads a network, or the name of an address or of a network.
    fn parse(text: &str, names: &NameDb) -> Option<Net> {
        let named = || {
            if let Ok(net) = IpPrefix::from_arg(text, names) {
                // A mask with gaps is no network.
                return Self::literal(&format!("{}/{}", net.addr, net.prefix_len()?));
            }
            let net = Ip6Prefix::from_arg(text, names).ok()?;
            Self::literal(&format!("{}/{}", net.addr, net.len))
        };
        Self::literal(text).or_else(named)
    }
    fn literal(text: &str) -> Option<Net> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len.parse::<u32>().ok()?)),
            None => (text, None),
        };
        match addr.parse().ok()? {
            IpAddr::V4(a) => {
                let len = len.unwrap_or(32);
                let mask = u32::MAX.checked_shl(32u32.checked_sub(len)?).unwrap_or(0);
                Some(Net::V4 { net: a.to_bits() & mask, mask, len })
            }
            IpAddr::V6(a) => {
                let len = len.unwrap_or(128);
                let mask = u128::MAX.checked_shl(128u32.checked_sub(len)?).unwrap_or(0);
                Some(Net::V6 { net: a.to_bits() & mask, mask, len })
            }
        }
    }
    #[inline]
    fn has4(&self, a: Ipv4Addr) -> bool {
        matches!(self, Net::V4 { net, mask, .. } if a.to_bits() & mask == *net)
    }
    #[inline]
    fn has6(&self, a: Ipv6Addr) -> bool {
        matches!(self, Net::V6 { net, mask, .. } if a.to_bits() & mask == *net)
    }
}

impl Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Net::V4 { net, len, .. } => write!(f, "{}/{len}", Ipv4Addr::from_bits(*net)),
            Net::V6 { net, len, .. } => write!(f, "{}/{len}", Ipv6Addr::from_bits(*net)),
        }
    }
}

/// Ports, from the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Ports(u16, u16);

impl Ports {
    fn parse(text: &str) -> Option<Ports> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(Ports(first, last))
    }
}

impl Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ports(first, last) = self;
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

/// The required properties of inner packets. Selectors that are not given accept everything.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selectors {
    from: Vec<Net>,
    to: Vec<Net>,
    protocols: Vec<u8>,
    sports: Vec<Ports>,
    dports: Vec<Ports>,
}

/// Reads a list of values with commas between them.
fn list<T>(into: &mut Vec<T>, text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<()> {
    for word in text.split(',') {
        into.push(parse(word)?);
    }
    (into.len() <= MOST).then_some(())
}

fn protocol_number(text: &str) -> Option<u8> {
    match text {
        "icmp" => Some(protocol::ICMP),
        "tcp" => Some(protocol::TCP),
        "udp" => Some(protocol::UDP),
        _ => text.parse().ok(),
    }
}

/// The fields after the IP headers.
#[derive(Clone, Copy, PartialEq, Debug)]
struct UpperLayer {
    /// `None`: unknown, because the packet is a fragment.
    protocol: Option<u8>,
    /// Source and destination; `None`: there are none, or they are in another fragment.
    ports: Option<(u16, u16)>,
}

impl UpperLayer {
    fn of(protocol: u8, bytes: Option<&[u8]>) -> UpperLayer {
        let has = matches!(protocol, protocol::TCP | protocol::UDP | DCCP | SCTP | UDPLITE);
        let first = bytes.and_then(|b| b.first_chunk::<4>()).filter(|_| has);
        let ports = first.map(|[a, b, c, d]| (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        UpperLayer { protocol: Some(protocol), ports }
    }

    /// Skips the extension headers of an IPv6 packet.
    fn of6(mut next: u8, mut rest: &[u8]) -> UpperLayer {
        const UNKNOWN: UpperLayer = UpperLayer { protocol: None, ports: None };
        for _ in 0..MOST_EXTENSIONS {
            let Some((&[following, len, a, b], _)) = rest.split_first_chunk::<4>() else {
                return if matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS) {
                    UNKNOWN
                } else {
                    UpperLayer::of(next, Some(rest))
                };
            };
            let skip = match next {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => 8 + 8 * usize::from(len),
                // Later fragments name the header with which the first one begins, which may be another
                // extension header.
                FRAGMENT if u16::from_be_bytes([a, b]) & !7 != 0 => return UNKNOWN,
                FRAGMENT => 8,
                _ => return UpperLayer::of(next, Some(rest)),
            };
            (next, rest) = (following, rest.get(skip..).unwrap_or(&[]));
        }
        UNKNOWN
    }
}

impl Selectors {
    /// Reads a name of [`NAMES`] and its value.
    ///
    /// # Errors
    /// An error message.
    pub(crate) fn word(&mut self, name: &str, value: &str, names: &NameDb) -> Result<(), String> {
        let net = |text: &str| Net::parse(text, names);
        let read = match name {
            "from" => list(&mut self.from, value, net),
            "to" => list(&mut self.to, value, net),
            "proto" => list(&mut self.protocols, value, protocol_number),
            "sport" => list(&mut self.sports, value, Ports::parse),
            "dport" => list(&mut self.dports, value, Ports::parse),
            _ => None,
        };
        read.ok_or_else(|| format!("bad {name}"))
    }

    /// Whether all packets are accepted.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Selectors::default()
    }

    /// Whether the association accepts a packet, which begins with its IP header. A fragment that does not
    /// have a required field is refused.
    pub(crate) fn admit(&self, packet: &[u8]) -> bool {
        let any = |nets: &[Net], has: &dyn Fn(&Net) -> bool| nets.is_empty() || nets.iter().any(has);
        let upper = match packet.first().map(|b| b >> 4) {
            Some(4) => {
                let Some(h) = Ipv4::new(packet) else { return false };
                let (src, dst) = (h.src(), h.dst());
                if !any(&self.from, &|n| n.has4(src)) || !any(&self.to, &|n| n.has4(dst)) {
                    return false;
                }
                let upper = h.is_first_fragment().then(|| packet.get(h.header_len()..)).flatten();
                UpperLayer::of(h.protocol(), upper)
            }
            Some(6) => {
                let Some(h) = Ipv6::new(packet) else { return false };
                let (src, dst) = (h.src(), h.dst());
                if !any(&self.from, &|n| n.has6(src)) || !any(&self.to, &|n| n.has6(dst)) {
                    return false;
                }
                if self.protocols.is_empty() && self.sports.is_empty() && self.dports.is_empty() {
                    return true;
                }
                UpperLayer::of6(h.next_header(), packet.get(wire::ipv6::HEADER_LEN..).unwrap_or(&[]))
            }
            _ => return false,
        };
        let within = |list: &[Ports], port: Option<u16>| {
            list.is_empty() || port.is_some_and(|p| list.iter().any(|Ports(a, b)| (*a..=*b).contains(&p)))
        };
        (self.protocols.is_empty() || upper.protocol.is_some_and(|p| self.protocols.contains(&p)))
            && within(&self.sports, upper.ports.map(|p| p.0))
            && within(&self.dports, upper.ports.map(|p| p.1))
    }
}

/// The text form of the selectors, each preceded by a comma and a space.
impl Display for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn part(f: &mut fmt::Formatter<'_>, name: &str, values: &[impl Display]) -> fmt::Result {
            for (i, value) in values.iter().enumerate() {
                if i == 0 {
                    write!(f, ", {name} ")?;
                } else {
                    f.write_char(',')?;
                }
                value.fmt(f)?;
            }
            Ok(())
        }
        part(f, "from", &self.from)?;
        part(f, "to", &self.to)?;
        part(f, "proto", &self.protocols)?;
        part(f, "sport", &self.sports)?;
        part(f, "dport", &self.dports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::engine::header::sample::ip_with;

    fn selectors(text: &str) -> Selectors {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut s = Selectors::default();
        for pair in words.chunks(2) {
            s.word(pair[0], pair[1], &NameDb::default()).unwrap();
        }
        s
    }

    fn v4(src: [u8; 4], dst: [u8; 4], protocol: u8, ports: [u16; 2], fragment: u16) -> Vec<u8> {
        let payload: Vec<u8> = ports.iter().flat_map(|p| p.to_be_bytes()).collect();
        ip_with(&[1; 4], &payload, |h| {
            h.set_src(src.into());
            h.set_dst(dst.into());
            h.set_protocol(protocol);
            h.set_flags_fragment(fragment);
        })
    }

    fn v6(src: &str, next: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = [0; 40];
        let mut h = Ipv6::new_mut(&mut bytes[..]).unwrap();
        h.set_version_class_flow(6 << 28);
        h.set_next_header(next);
        h.set_payload_len(rest.len() as u16);
        h.set_src(src.parse().unwrap());
        h.set_dst("2001:db8::9".parse().unwrap());
        [&bytes[..], rest].concat()
    }

    #[test]
    fn networks_end_where_they_end() {
        for len in 0..=32u32 {
            let s = selectors(&format!("from 10.85.170.99/{len}"));
            let base = u32::from_be_bytes([10, 85, 170, 99]);
            for bit in 0..32 {
                let src = (base ^ 1 << bit).to_be_bytes();
                let inside = bit < 32 - len;
                assert_eq!(s.admit(&v4(src, [1; 4], 17, [1, 2], 0)), inside, "/{len} bit {bit}");
            }
            assert!(s.admit(&v4(base.to_be_bytes(), [1; 4], 17, [1, 2], 0)));
            assert!(!s.admit(&v6("::ffff:10.85.170.99", 17, &[0; 8])), "an IPv6 packet is none of these");
        }
        for len in [0, 1, 31, 32, 33, 64, 127, 128u32] {
            let s = selectors(&format!("from 2001:db8:aaaa:5555::1/{len}"));
            let base = "2001:db8:aaaa:5555::1".parse::<Ipv6Addr>().unwrap().to_bits();
            for bit in 0..128 {
                let src = Ipv6Addr::from_bits(base ^ 1 << bit).to_string();
                assert_eq!(s.admit(&v6(&src, 17, &[0; 8])), bit < 128 - len, "/{len} bit {bit}");
            }
            assert!(!s.admit(&v4([32, 1, 13, 184], [1; 4], 17, [1, 2], 0)));
        }
    }

    #[test]
    fn everything_that_is_said_has_to_hold() {
        let s = selectors(
            "from 10.2.0.0/24,10.9.0.1 to 10.1.0.0/24 proto tcp,17 sport 1024-65535 dport 53,80,443",
        );
        let (a, b) = ([10, 2, 0, 7], [10, 1, 0, 7]);
        for (src, dst, protocol, ports, good) in [
            (a, b, 6, [1024, 53], true),
            ([10, 9, 0, 1], b, 17, [65_535, 443], true),
            ([10, 9, 0, 2], b, 17, [65_535, 443], false),
            (a, [10, 1, 1, 7], 6, [1024, 53], false),
            (b, a, 6, [1024, 53], false),
            (a, b, 1, [1024, 53], false),
            (a, b, 6, [1023, 53], false),
            (a, b, 6, [1024, 54], false),
        ] {
            assert_eq!(
                s.admit(&v4(src, dst, protocol, ports, 0)),
                good,
                "{src:?} {dst:?} {protocol} {ports:?}"
            );
        }
        assert!(s.admit(&v4(a, b, 6, [1024, 53], 0x2000)), "the first fragment has the ports");
        assert!(!s.admit(&v4(a, b, 6, [1024, 53], 0x2001)), "another one does not");
        assert!(!s.admit(&v4(a, b, 6, [1024, 53], 0)[..26]), "nor does one that is cut");
        assert!(selectors("from 10.2.0.0/24 proto 6").admit(&v4(a, b, 6, [0, 0], 0x2001)));
        assert!(!selectors("sport 1-65535").admit(&v4(a, b, 1, [5, 5], 0)), "ICMP has no ports");
        for bytes in [&[][..], &[0x45], &[0x55; 40], &[0x60; 39]] {
            assert!(!selectors("to 10.0.0.0/8").admit(bytes));
        }
    }

    #[test]
    fn extension_headers_are_looked_behind() {
        let udp = [0, 7, 0, 9, 0, 8, 0, 0];
        let s = selectors("proto udp dport 9");
        assert!(s.admit(&v6("::1", 17, &udp)));
        for kind in [HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS] {
            let mut rest = vec![17, 1];
            rest.extend([0; 14]);
            rest.extend(udp);
            assert!(s.admit(&v6("::1", kind, &rest)), "{kind}");
            assert!(!s.admit(&v6("::1", kind, &rest[..18])), "{kind}, cut");
            rest[1] = 255;
            assert!(!s.admit(&v6("::1", kind, &rest)), "{kind}, longer than the packet");
        }
        let fragment = |place: u16| [&[17, 0][..], &place.to_be_bytes(), &[0; 4], &udp].concat();
        assert!(s.admit(&v6("::1", FRAGMENT, &fragment(1))), "the first");
        assert!(!s.admit(&v6("::1", FRAGMENT, &fragment(8))));
        assert!(!selectors("proto udp").admit(&v6("::1", FRAGMENT, &fragment(8))), "it may be anything");
        assert!(selectors("from ::/0").admit(&v6("::1", FRAGMENT, &fragment(8))));
        let mut many = Vec::new();
        for i in 0..MOST_EXTENSIONS {
            many.extend([
                if i + 1 == MOST_EXTENSIONS { 17 } else { DESTINATION_OPTIONS },
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ]);
        }
        many.extend(udp);
        assert!(!s.admit(&v6("::1", DESTINATION_OPTIONS, &many)), "too many to look behind");
    }

    #[test]
    fn they_are_shown_as_they_are_read() {
        let text = "from 10.2.0.0/24,2001:db8::/32 to 10.1.0.0/16 proto 6,17 sport 1-9 dport 53";
        let shown = selectors(text).to_string();
        assert_eq!(
            shown,
            ", from 10.2.0.0/24,2001:db8::/32, to 10.1.0.0/16, proto 6,17, sport 1-9, dport 53"
        );
        assert!(selectors(text) == selectors(&shown.replace(", ", " ")));
        assert!(selectors("").is_empty() && !selectors("to ::/0").is_empty());
        for (name, value) in [
            ("from", ""),
            ("from", "10.0.0.0/33"),
            ("from", "::/129"),
            ("from", "10.0.0.0/8,"),
            ("to", "host"),
            ("proto", "256"),
            ("proto", "frobnicate"),
            ("sport", "9-8"),
            ("dport", "65536"),
            ("dport", "-1"),
            ("color", "1"),
            ("from", "10.0.5.0/255.0.255.0"),
        ] {
            assert_eq!(
                Selectors::default().word(name, value, &NameDb::default()),
                Err(format!("bad {name}")),
                "{value}"
            );
        }
        let many = vec!["1"; MOST + 1].join(",");
        assert!(Selectors::default().word("sport", &many, &NameDb::default()).is_err(), "bounded");
    }
}
