//! Names of protocols and TCP flags, and names that the configuration defines. Those of ports and ICMP types
//! are in `wire`.

use wire::names::{ICMP_TYPES, PORTS};
use wire::protocol;

/// Names that a configuration defines (`AddressInfo`, `PortInfo`, `IPNameInfo`) or that the system knows
/// (`/etc/services`). They have priority over the built-in names. Every method may return `None`.
pub trait Names {
    /// An IPv4 address.
    fn ip_address(&self, _name: &str) -> Option<[u8; 4]> {
        None
    }
    /// An IPv4 network: address and mask.
    fn ip_prefix(&self, _name: &str) -> Option<([u8; 4], [u8; 4])> {
        None
    }
    /// An IPv6 address.
    fn ip6_address(&self, _name: &str) -> Option<[u8; 16]> {
        None
    }
    /// An Ethernet address.
    fn ether_address(&self, _name: &str) -> Option<[u8; 6]> {
        None
    }
    /// A TCP port.
    fn tcp_port(&self, _name: &str) -> Option<u16> {
        None
    }
    /// A UDP port.
    fn udp_port(&self, _name: &str) -> Option<u16> {
        None
    }
    /// An IP protocol.
    fn ip_proto(&self, _name: &str) -> Option<u8> {
        None
    }
    /// An ICMP type.
    fn icmp_type(&self, _name: &str) -> Option<u8> {
        None
    }
}

/// No names but the built-in ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {}

/// Stands for "TCP or UDP" among protocol numbers.
pub(crate) const TCP_OR_UDP: u32 = 256;
/// Stands for any transport protocol.
pub(crate) const ANY_TRANSPORT: u32 = 257;

pub(crate) const ICMP: u32 = protocol::ICMP as u32;
pub(crate) const TCP: u32 = protocol::TCP as u32;
pub(crate) const UDP: u32 = protocol::UDP as u32;
pub(crate) const DCCP: u32 = protocol::DCCP as u32;

/// Protocol names; RFC 790 and the IANA registry, and Click's two collective names.
pub(crate) const PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", ICMP),
    ("igmp", protocol::IGMP as u32),
    ("ipip", protocol::IPIP as u32),
    ("tcp", TCP),
    ("udp", UDP),
    ("tcpudp", TCP_OR_UDP),
    ("transp", ANY_TRANSPORT),
];

/// TCP flags, RFC 9293 section 3.1.
pub(crate) const TCP_FLAGS: &[(&str, u32)] =
    &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32)];

/// Words of the language itself.
pub(crate) const KEYWORDS: &[&str] = &[
    "src", "dst", "dest", "ip", "ether", "not", "and", "or", "true", "false", "any", "all", "mask", "host",
    "net", "port", "proto", "opt", "win", "type", "vers", "hl", "id", "tos", "dscp", "ect", "ecn", "ce",
    "ttl", "len", "frag", "unfrag", "ip6", "icmp6", "plen", "hlim", "class", "flow",
];

pub(crate) fn find<T: Copy + Into<u32>>(table: &[(&str, T)], name: &str) -> Option<u32> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value.into())
}

/// The name among `candidates` that a misspelt word comes closest to.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if !(2..=24).contains(&length) {
        return None;
    }
    let allowed = if length <= 3 { 1 } else { 2 };
    let word: Vec<char> = word.to_ascii_lowercase().chars().collect();
    let distances = candidates.into_iter().map(|name| (distance(&word, name), name));
    distances
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Edit distance in which swapping two neighbors counts once.
fn distance(word: &[char], name: &str) -> usize {
    let name: Vec<char> = name.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=name.len()).collect();
    for (i, &a) in word.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in name.iter().enumerate() {
            let mut best = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == name[j - 1] && word[i - 1] == b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[name.len()]
}

/// All names that may stand in a pattern.
pub(crate) fn all_words() -> impl Iterator<Item = &'static str> {
    let own = [PROTOCOLS, TCP_FLAGS].into_iter().flatten().map(|&(name, _)| name);
    let types = ICMP_TYPES.iter().map(|&(name, _)| name);
    KEYWORDS.iter().copied().chain(own).chain(types).chain(PORTS.iter().map(|&(name, _)| name))
}
