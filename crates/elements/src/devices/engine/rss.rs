//! In software, the hash by which network cards distribute flows over queues.

use tables::toeplitz::{MICROSOFT_KEY, SYMMETRIC_KEY, Toeplitz};
use wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_QINQ_OLD, ETHERTYPE_VLAN};
use wire::protocol::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING, SCTP, TCP, UDP};

/// How flows are distributed over workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::devices) enum Rss {
    /// With the card's key; in software with Microsoft's.
    Auto,
    /// With a key that gives both directions of a flow the same hash.
    Symmetric,
    /// Never in software.
    None,
}

impl Rss {
    pub(in crate::devices) fn from_word(word: &str) -> Option<Self> {
        match word.to_ascii_uppercase().as_str() {
            "" | "AUTO" => Some(Self::Auto),
            "SYMMETRIC" => Some(Self::Symmetric),
            "NONE" => Some(Self::None),
            _ => None,
        }
    }
    /// The key that the card is to use; `None` means its own.
    pub(in crate::devices) fn key(self) -> Option<Vec<u8>> {
        (self == Self::Symmetric).then(|| SYMMETRIC_KEY.to_vec())
    }
    /// The key with which flows are spread in software.
    pub(in crate::devices) fn software_key(self) -> [u8; 40] {
        if self == Self::Symmetric { SYMMETRIC_KEY } else { MICROSOFT_KEY }
    }
}

#[inline]
fn two(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// A hash function of a flow's addresses and ports, all in host byte order.
pub(crate) trait FlowHash {
    fn ipv4(&self, src: u32, dst: u32) -> u32;
    fn ipv4_ports(&self, src: u32, dst: u32, from: u16, to: u16) -> u32;
    fn ipv6(&self, src: [u8; 16], dst: [u8; 16]) -> u32;
    fn ipv6_ports(&self, src: [u8; 16], dst: [u8; 16], from: u16, to: u16) -> u32;
}

impl FlowHash for Toeplitz {
    #[inline]
    fn ipv4(&self, src: u32, dst: u32) -> u32 {
        self.ipv4(src, dst)
    }
    #[inline]
    fn ipv4_ports(&self, src: u32, dst: u32, from: u16, to: u16) -> u32 {
        self.ipv4_ports(src, dst, from, to)
    }
    #[inline]
    fn ipv6(&self, src: [u8; 16], dst: [u8; 16]) -> u32 {
        self.ipv6(src, dst)
    }
    #[inline]
    fn ipv6_ports(&self, src: [u8; 16], dst: [u8; 16], from: u16, to: u16) -> u32 {
        self.ipv6_ports(src, dst, from, to)
    }
}

/// A hash that need not agree with any card: a multiplication of 64 by 64 bits, of whose product both halves
/// are used. It takes a tenth of the time of Toeplitz, and no table.
pub(crate) struct Product;

impl Product {
    #[inline]
    fn of(a: u64, b: u64) -> u32 {
        // Fractions of the golden ratio and of the square root of 3: bits without a pattern, because inputs
        // may have many zeros.
        let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xbb67_ae85_84ca_a73b);
        let both = (product >> 64) as u64 ^ product as u64;
        (both >> 32) as u32 ^ both as u32
    }
    #[inline]
    fn halves(address: [u8; 16]) -> (u64, u64) {
        let number = u128::from_be_bytes(address);
        ((number >> 64) as u64, number as u64)
    }
}

impl FlowHash for Product {
    #[inline]
    fn ipv4(&self, src: u32, dst: u32) -> u32 {
        Self::of(u64::from(src) << 32 | u64::from(dst), 0)
    }
    #[inline]
    fn ipv4_ports(&self, src: u32, dst: u32, from: u16, to: u16) -> u32 {
        Self::of(u64::from(src) << 32 | u64::from(dst), 1 << 32 | u64::from(from) << 16 | u64::from(to))
    }
    #[inline]
    fn ipv6(&self, src: [u8; 16], dst: [u8; 16]) -> u32 {
        self.ipv6_ports(src, dst, 0, 0)
    }
    #[inline]
    fn ipv6_ports(&self, src: [u8; 16], dst: [u8; 16], from: u16, to: u16) -> u32 {
        let ((src_high, src_low), (dst_high, dst_low)) = (Self::halves(src), Self::halves(dst));
        let (src, dst) = (Self::of(src_high, src_low), Self::of(dst_low, dst_high));
        self.ipv4_ports(src, dst, from, to)
    }
}

/// The type of an Ethernet frame and what follows it, after up to two VLAN tags.
#[inline]
fn network(frame: &[u8]) -> (Option<u16>, &[u8]) {
    let mut at = 12;
    let mut kind = two(frame, at);
    for _ in 0..2 {
        if !matches!(kind, Some(ETHERTYPE_VLAN | ETHERTYPE_QINQ | ETHERTYPE_QINQ_OLD)) {
            break;
        }
        at += 4;
        kind = two(frame, at);
    }
    (kind, frame.get(at + 2..).unwrap_or_default())
}

/// The destination of an Ethernet frame with an IPv4 packet, after up to two VLAN tags.
#[inline]
pub(super) fn ipv4_destination(frame: &[u8]) -> Option<u32> {
    let (kind, packet) = network(frame);
    let header = packet.first_chunk::<20>().filter(|_| kind == Some(ETHERTYPE_IPV4))?;
    Some(u32::from_be_bytes([header[16], header[17], header[18], header[19]]))
}

/// The hash of an Ethernet frame's addresses and ports (TCP, UDP, SCTP); of its addresses only if it is a
/// fragment or has another protocol; 0 if it is neither IPv4 nor IPv6. Up to two VLAN tags are skipped.
#[inline]
pub(crate) fn flow_hash(hash: &impl FlowHash, frame: &[u8]) -> u32 {
    known_flow_hash(hash, frame).unwrap_or(0)
}

/// The same, or nothing if it is neither IPv4 nor IPv6.
#[inline]
pub(super) fn known_flow_hash(hash: &impl FlowHash, frame: &[u8]) -> Option<u32> {
    let (kind, packet) = network(frame);
    match kind {
        Some(ETHERTYPE_IPV4) => ipv4(hash, packet),
        Some(ETHERTYPE_IPV6) => ipv6(hash, packet),
        _ => None,
    }
}

/// A hash of a frame's Ethernet addresses. Of an internal frame's source address only the node is used: what
/// follows differs from packet to packet of a flow.
#[inline]
pub(crate) fn address_hash(mut addresses: [u8; 12], internal: bool) -> u32 {
    if internal {
        let [.., node, a, b, c] = &mut addresses;
        (*node, *a, *b, *c) = (*node & 0xf0, 0, 0, 0);
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l] = addresses;
    let (dst, src) = (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes([i, j, k, l]));
    // Multiplications as in SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    let z = (dst ^ u64::from(src).rotate_left(29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 32) as u32
}

/// The ports, for a protocol whose header begins with them.
fn ports(protocol: u8, packet: &[u8], at: usize) -> Option<(u16, u16)> {
    if !matches!(protocol, TCP | UDP | SCTP) {
        return None;
    }
    Some((two(packet, at)?, two(packet, at + 2)?))
}

#[inline]
fn ipv4(hash: &impl FlowHash, packet: &[u8]) -> Option<u32> {
    // Nearly all packets are of this form: ports after a header without options, and no fragments.
    if let Some(front) = packet.first_chunk::<24>()
        && front[0] == 0x45
        && u16::from_be_bytes([front[6], front[7]]) & 0x3fff == 0
        && matches!(front[9], TCP | UDP | SCTP)
    {
        let word = |at: usize| u32::from_be_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
        let ports = word(20);
        return Some(hash.ipv4_ports(word(12), word(16), (ports >> 16) as u16, ports as u16));
    }
    let header = packet.first_chunk::<20>()?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (src, dst) = (word(12), word(16));
    // A fragment: only the first one has ports, and all must have the same hash.
    let whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
    let length = usize::from(header[0] & 15) * 4;
    Some(match ports(header[9], packet, length).filter(|_| whole) {
        Some((from, to)) => hash.ipv4_ports(src, dst, from, to),
        None => hash.ipv4(src, dst),
    })
}

fn ipv6(hash: &impl FlowHash, packet: &[u8]) -> Option<u32> {
    let header = packet.first_chunk::<40>()?;
    let mut addresses = [0u8; 32];
    addresses.copy_from_slice(&header[8..40]);
    let (src, dst) = addresses.split_at(16);
    let (src, dst) = (src.try_into().ok()?, dst.try_into().ok()?);
    let (mut next, mut at) = (header[6], 40);
    // Hop-by-hop options, routing, destination options; the search ends at a fragment header.
    for _ in 0..4 {
        if !matches!(next, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            break;
        }
        let Some(&[after, length]) = packet.get(at..).and_then(|p| p.first_chunk()) else { break };
        (next, at) = (after, at + 8 + usize::from(length) * 8);
    }
    Some(match ports(next, packet, at) {
        Some((from, to)) => hash.ipv6_ports(src, dst, from, to),
        None => hash.ipv6(src, dst),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(frame: &[u8]) -> u32 {
        flow_hash(&Toeplitz::new(&MICROSOFT_KEY), frame)
    }

    /// A frame with the addresses and ports of Microsoft's first test vector for IPv4.
    fn v4(tags: &[u8], options: usize, protocol: u8, fragment: u16) -> Vec<u8> {
        let mut frame = [&[2; 12], tags, &[8, 0, 0x45 + options as u8, 0, 0, 40, 0, 0]].concat();
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 66, 9, 149, 187, 161, 142, 100, 80]);
        frame.extend(vec![1; options * 4]);
        frame.extend([2794u16.to_be_bytes(), 1766u16.to_be_bytes()].concat());
        frame
    }

    #[test]
    fn known_flows_have_the_known_hash() {
        for tags in [&[][..], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]] {
            for (options, protocol) in [(0, 6), (0, 17), (10, 132)] {
                assert_eq!(hash(&v4(tags, options, protocol, 0)), 0x51cc_c178);
            }
            assert_eq!(hash(&v4(tags, 0, 1, 0)), 0x323e_8fc2);
        }
        // The first fragment, a later one, and a packet that must not be fragmented.
        assert_eq!(hash(&v4(&[], 0, 17, 0x2000)), 0x323e_8fc2);
        assert_eq!(hash(&v4(&[], 0, 17, 185)), 0x323e_8fc2);
        assert_eq!(hash(&v4(&[], 0, 17, 0x4000)), 0x51cc_c178);
    }

    #[test]
    fn ipv6_ports_are_found_behind_options_and_not_in_fragments() {
        let src = "3ffe:2501:200:1fff::7".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let dst = "3ffe:2501:200:3::1".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let ports = [2794u16.to_be_bytes(), 1766u16.to_be_bytes()].concat();
        let frame = |next: u8, extension: &[u8]| {
            let fixed = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, next, 64], &src, &dst].concat();
            [&fixed[..], extension, &ports].concat()
        };
        assert_eq!(hash(&frame(6, &[])), 0x4020_7d3d);
        assert_eq!(hash(&frame(0, &[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0])), 0x4020_7d3d);
        assert_eq!(hash(&frame(44, &[17, 0, 0, 1, 0, 0, 0, 1])), 0x2cc1_8cd5);
        assert_eq!(hash(&frame(58, &[])), 0x2cc1_8cd5);
    }

    #[test]
    fn what_is_cut_or_no_ip_has_a_hash_too() {
        let whole = v4(&[0x81, 0, 0, 7], 3, 17, 0);
        for length in 0..whole.len() {
            let h = hash(&whole[..length]);
            assert!([0, 0x323e_8fc2].contains(&h), "{length}");
        }
        assert_eq!(hash(&[0xff; 60]), 0);
        assert_eq!(hash(&[]), 0);
    }

    #[test]
    fn a_product_tells_flows_apart_and_is_the_same_within_one() {
        let hash = |frame: &[u8]| flow_hash(&Product, frame);
        let base = v4(&[], 0, 17, 0);
        assert_eq!(hash(&base), hash(&v4(&[0x81, 0, 0, 7], 5, 17, 0)), "tags and options are not the flow's");
        assert_eq!(hash(&v4(&[], 0, 17, 0x2000)), hash(&v4(&[], 0, 17, 185)), "fragments stay together");
        assert_ne!(hash(&base), hash(&v4(&[], 0, 17, 185)));
        // Flows that differ only a little: first their addresses, then their ports, count up.
        for at in [28, 32, 34, 36] {
            let mut seen = std::collections::BTreeSet::new();
            let mut top = [0; 16];
            for n in 0..4096u16 {
                let mut frame = base.clone();
                frame[at..at + 2].copy_from_slice(&n.to_be_bytes());
                let hash = hash(&frame);
                seen.insert(hash);
                top[hash as usize >> 28] += 1;
            }
            assert!(seen.len() >= 4094, "{at}: {}", seen.len());
            assert!(top.iter().all(|n| (176..=336).contains(n)), "{at}: {top:?}");
        }
        let v6 = |n: u8| {
            [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64], &[1; 31], &[n, 1, 2, 3, 4]].concat()
        };
        let seen: std::collections::BTreeSet<u32> = (0..=255).map(|n| hash(&v6(n))).collect();
        assert_eq!(seen.len(), 256);
    }

    #[test]
    fn words() {
        assert_eq!(Rss::from_word("symmetric"), Some(Rss::Symmetric));
        assert_eq!((Rss::from_word(""), Rss::from_word("x")), (Some(Rss::Auto), None));
    }
}
