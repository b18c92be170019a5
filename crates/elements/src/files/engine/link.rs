//! Link types of trace files: their names, and the offset of the IP packet after their headers.

use dpdk::Packet;
use wire::Ipv4;

/// A link type as pcap files number it (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link(pub(crate) u32);

impl Link {
    pub(crate) const ETHER: Self = Self(1);
    pub(crate) const RAW: Self = Self(101);

    /// The link type of a file. BSD's numbers for raw IP are replaced by the common one.
    pub(crate) fn from_file(number: u32) -> Self {
        match number & 0x03ff_ffff {
            12 | 14 => Self::RAW,
            n => Self(n),
        }
    }

    /// Reads Click's name, or `#` and the number.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some((_, n)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Some(Self(*n));
        }
        name.strip_prefix('#')?.parse().ok().filter(|n| *n < 0x7fff_ffff).map(Self)
    }

    /// Click's name.
    pub(crate) fn name(self) -> String {
        let known = NAMES.iter().find(|(_, n)| *n == self.0);
        known.map_or_else(|| format!("#{}", self.0), |(name, _)| (*name).to_owned())
    }

    /// Whether the offset of IP packets after this header can be determined.
    pub(crate) fn can_force_ip(self) -> bool {
        matches!(
            self.0,
            0 | 1 | 9 | 10 | 50 | 100 | 101 | 104 | 105 | 113 | 119 | 123 | 127 | 228 | 229 | 276
        )
    }
}

/// Of several names for a number, the first one is written.
const NAMES: [(&str, u32); 18] = [
    ("NULL", 0),
    ("IP", 101),
    ("ETHER", 1),
    ("FDDI", 10),
    ("ATM", 100),
    ("RFC1483", 100),
    ("ATM_RFC1483", 100),
    ("802_11", 105),
    ("802.11", 105),
    ("802_11_RADIO", 127),
    ("802.11_RADIO", 127),
    ("SLL", 113),
    ("AIRONET", 120),
    ("HDLC", 104),
    ("PPP_HDLC", 50),
    ("PPP", 9),
    ("SUNATM", 123),
    ("PRISM", 119),
];

const IP: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// If the two bytes at `at` are an IP EtherType: the offset of the packet, two bytes later.
fn ethertype(data: &[u8], at: usize) -> Option<usize> {
    let field: &[u8; 2] = data.get(at..)?.first_chunk()?;
    IP.contains(field).then_some(at + 2)
}

fn ether(data: &[u8], at: usize) -> Option<usize> {
    let field = data.get(at + 12..at + 14)?;
    ethertype(data, at + if field == [0x81, 0x00] { 16 } else { 12 })
}

fn fddi(data: &[u8], at: usize) -> Option<usize> {
    // Frame control: asynchronous LLC frames only.
    (data.get(at)? & 0xf0 == 0x50).then_some(())?;
    llc(data, at + 13)
}

/// After an LLC header (RFC 1483, RFC 2684).
fn llc(data: &[u8], at: usize) -> Option<usize> {
    let header = data.get(at..)?;
    match header {
        [0xaa, 0xaa, 3, 0, 0, 0, a, b, ..] if IP.contains(&[*a, *b]) => Some(at + 8),
        [6, 6, _, _, ..] => Some(at + 4),
        // Ethernet types in SNAP, and Cisco's bridging.
        [0xaa, 0xaa, _, 0, 0, 0 | 0xf8, _, _, ..] => ethertype(data, at + 6).or_else(|| {
            let tagged = header.get(6..8) == Some(&[0x81, 0]);
            if tagged { ethertype(data, at + 10) } else { None }
        }),
        [0xaa, 0xaa, _, 0, 0x80, 0xc2, 0, 1 | 7, ..] => ether(data, at + 8),
        [0xaa, 0xaa, _, 0, 0x80, 0xc2, 0, 4 | 10, ..] => fddi(data, at + 9),
        _ => None,
    }
}

fn wifi(data: &[u8], at: usize) -> Option<usize> {
    let header = data.get(at..at + 24)?;
    (header.first()? & 0x0c == 0x08).then_some(())?;
    llc(data, at + if header.get(1)? & 3 == 3 { 30 } else { 24 })
}

fn ppp(data: &[u8]) -> Option<usize> {
    let at = if data.starts_with(&[0xff, 3]) { 2 } else { 0 };
    match data.get(at..)? {
        [0x21 | 0x57, _, ..] => Some(at + 1),
        [0, 0x21 | 0x57, ..] => Some(at + 2),
        _ => None,
    }
}

/// The offset of the IP packet in a frame.
fn ip_offset(link: Link, data: &[u8]) -> Option<usize> {
    match link.0 {
        101 | 228 | 229 => Some(0),
        1 => ether(data, 0),
        10 => fddi(data, 0),
        123 => llc(data, 4),
        100 => llc(data, 0),
        113 => ethertype(data, 14),
        276 => ethertype(data, 0).map(|_| 20),
        104 => ethertype(data, 2),
        50 => match data {
            [0xff, _, 0, 0x21 | 0x57, ..] => Some(4),
            [0x0f | 0x8f, ..] => ethertype(data, 2),
            _ => None,
        },
        9 => ppp(data),
        105 => wifi(data, 0),
        119 => wifi(data, 144),
        127 => {
            let len = u16::from_le_bytes([*data.get(2)?, *data.get(3)?]);
            if len >= 8 { wifi(data, len.into()) } else { None }
        }
        0 => match data {
            // The address family, in the byte order of the host that captured: the numbers of IP and IPv6 on
            // several systems.
            [2 | 24 | 28 | 30, 0, _, _, ..] | [0, 0, 0, 2 | 24 | 28 | 30, ..] => Some(4),
            _ => None,
        },
        _ => None,
    }
}

/// Marks the IP header of a frame. False if there is none, or if it is truncated.
pub(crate) fn force_ip(packet: &mut Packet, link: Link) -> bool {
    let Some(at) = ip_offset(link, packet.data()) else { return false };
    let Some(ip) = packet.data().get(at..) else { return false };
    match ip.first().map(|b| b >> 4) {
        Some(4) => {
            let Some(header) = Ipv4::new(ip) else { return false };
            let (len, dst) = (header.header_len(), header.dst().octets());
            if len < wire::ipv4::HEADER_LEN || len > ip.len() {
                return false;
            }
            packet.set_network_header(at, len);
            packet.set_dst_ip(dst);
            true
        }
        Some(6) if ip.len() >= wire::ipv6::HEADER_LEN => {
            packet.set_network_header(at, wire::ipv6::HEADER_LEN);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Link::parse("802.11").map(Link::name), Some("802_11".into()));
        assert_eq!(Link::parse("#147").map(Link::name), Some("#147".into()));
        assert_eq!(Link::parse("ethernet"), None);
        assert_eq!(Link::from_file(12), Link::RAW);
        assert_eq!(Link::from_file(0x1000_0001), Link::ETHER);
    }

    #[test]
    fn every_link_type_finds_its_packet_and_no_cut_one_panics() {
        let ip = [&[0x45u8, 0, 0, 20, 0, 0, 0, 0, 64, 99, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2][..]].concat();
        let llc = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        let mac = [&[0; 12][..], &[8, 0]].concat();
        let tagged = [&[0; 12][..], &[0x81, 0, 0, 7, 8, 0]].concat();
        let mut wifi = vec![0; 24];
        wifi[0] = 8;
        for (link, before) in [
            (101, vec![]),
            (1, mac.clone()),
            (1, tagged),
            (10, [&[0x50][..], &[0; 12], &llc].concat()),
            (123, [&[0; 4][..], &llc].concat()),
            (100, vec![6, 6, 3, 0xcc]),
            (100, [&[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7][..], &mac].concat()),
            (113, [&[0; 14][..], &[8, 0]].concat()),
            (104, vec![0x0f, 0, 8, 0]),
            (50, vec![0xff, 3, 0, 0x21]),
            (50, vec![0x8f, 0, 8, 0]),
            (9, vec![0x21]),
            (9, vec![0xff, 3, 0, 0x21]),
            (105, [&wifi[..], &llc].concat()),
            (119, [&[0; 144][..], &wifi, &llc].concat()),
            (127, [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wifi, &llc].concat()),
            (0, vec![2, 0, 0, 0]),
            (0, vec![0, 0, 0, 2]),
        ] {
            let frame = [&before[..], &ip].concat();
            let mut packet = Packet::from_bytes(&frame).unwrap();
            assert!(Link(link).can_force_ip());
            assert!(force_ip(&mut packet, Link(link)), "{link}");
            assert_eq!(packet.network_header_offset(), Some(before.len() as isize), "{link}");
            assert_eq!(packet.dst_ip(), [2, 2, 2, 2]);
            for cut in 0..frame.len() {
                assert!(!force_ip(&mut Packet::from_bytes(&frame[..cut]).unwrap(), Link(link)));
            }
        }
        assert!(!force_ip(&mut Packet::from_bytes(&ip).unwrap(), Link(147)));
    }
}
