//! Names of protocols, ports, ICMP types and TCP flags, and names that the configuration defines.

/// Names that a configuration defines (`AddressInfo`, `PortInfo`, `IPNameInfo`) or that the system knows
/// (`/etc/services`). They win over the built-in names. Every method may answer `None`.
pub trait Names {
    /// An IPv4 address.
    fn ip_address(&self, _name: &str) -> Option<[u8; 4]> {
        None
    }
    /// An IPv4 network: address and mask.
    fn ip_prefix(&self, _name: &str) -> Option<([u8; 4], [u8; 4])> {
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
/// Stands for "whatever the transport protocol is".
pub(crate) const ANY_TRANSPORT: u32 = 257;

pub(crate) const ICMP: u32 = 1;
pub(crate) const TCP: u32 = 6;
pub(crate) const UDP: u32 = 17;
pub(crate) const DCCP: u32 = 33;

/// Protocol names; RFC 790 and the IANA registry, and Click's two collective names.
pub(crate) const PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", ICMP),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", TCP),
    ("udp", UDP),
    ("tcpudp", TCP_OR_UDP),
    ("transp", ANY_TRANSPORT),
];

/// TCP flags, RFC 9293 section 3.1.
pub(crate) const TCP_FLAGS: &[(&str, u32)] =
    &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32)];

/// ICMP message types, RFC 792, RFC 950 and RFC 1256.
pub(crate) const ICMP_TYPES: &[(&str, u32)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

/// Ports that Click knows by itself, in the order of their numbers, and `http`, which most systems know.
pub(crate) const PORTS: &[(&str, u32)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("dns", 53),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("finger", 79),
    ("http", 80),
    ("www", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("irc", 194),
    ("imap3", 220),
    ("https", 443),
    ("rip", 520),
    ("route", 520),
    ("imaps", 993),
    ("pop3s", 995),
];

/// Words of the language itself.
pub(crate) const KEYWORDS: &[&str] = &[
    "src", "dst", "dest", "ip", "ether", "not", "and", "or", "true", "false", "any", "all", "mask", "host",
    "net", "port", "proto", "opt", "win", "type", "vers", "hl", "id", "tos", "dscp", "ect", "ecn", "ce",
    "ttl", "len", "frag", "unfrag",
];

pub(crate) fn find(table: &[(&str, u32)], name: &str) -> Option<u32> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
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
    let tables = [PROTOCOLS, TCP_FLAGS, ICMP_TYPES, PORTS];
    KEYWORDS.iter().copied().chain(tables.into_iter().flatten().map(|&(name, _)| name))
}
