//! The hash by which network cards spread flows over queues, in software.

use tables::toeplitz::{MICROSOFT_KEY, SYMMETRIC_KEY, Toeplitz};

/// Entries of the redirection table: as many as the classic one has (Microsoft, "Receive Side Scaling").
const ENTRIES: usize = 128;

/// How flows are given to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rss {
    /// By the card's key, in software by Microsoft's.
    Auto,
    /// By a key that gives both directions of a flow the same hash.
    Symmetric,
    /// Never in software.
    None,
}

impl Rss {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        match word.to_ascii_uppercase().as_str() {
            "" | "AUTO" => Some(Self::Auto),
            "SYMMETRIC" => Some(Self::Symmetric),
            "NONE" => Some(Self::None),
            _ => None,
        }
    }
    /// The key that the card is to use; `None` is its own.
    pub(super) fn key(self) -> Option<Vec<u8>> {
        (self == Self::Symmetric).then(|| SYMMETRIC_KEY.to_vec())
    }
    pub(super) fn hash(self) -> Toeplitz {
        Toeplitz::new(if self == Self::Symmetric { &SYMMETRIC_KEY } else { &MICROSOFT_KEY })
    }
}

/// Which of `n` workers a hash belongs to, as a card does it that has dealt its table's entries out in turn.
#[inline]
pub(super) fn share_of(hash: u32, n: usize) -> usize {
    hash as usize % ENTRIES.max(n.next_power_of_two()) % n
}

#[inline]
fn two(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// The hash of an Ethernet frame's addresses and ports (TCP, UDP, SCTP); of its addresses alone if it is a fragment or of
/// another protocol; 0 if it is neither IPv4 nor IPv6. Up to two VLAN tags are passed over.
pub(crate) fn flow_hash(hash: &Toeplitz, frame: &[u8]) -> u32 {
    let mut at = 12;
    let mut kind = two(frame, at);
    for _ in 0..2 {
        if matches!(kind, Some(0x8100 | 0x88a8 | 0x9100)) {
            at += 4;
            kind = two(frame, at);
        }
    }
    let packet = frame.get(at + 2..).unwrap_or_default();
    match kind {
        Some(0x0800) => ipv4(hash, packet),
        Some(0x86dd) => ipv6(hash, packet),
        _ => None,
    }
    .unwrap_or(0)
}

/// The ports of a protocol whose header begins with them.
fn ports(protocol: u8, packet: &[u8], at: usize) -> Option<(u16, u16)> {
    if !matches!(protocol, 6 | 17 | 132) {
        return None;
    }
    Some((two(packet, at)?, two(packet, at + 2)?))
}

fn ipv4(hash: &Toeplitz, packet: &[u8]) -> Option<u32> {
    let header = packet.first_chunk::<20>()?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (src, dst) = (word(12), word(16));
    // More fragments, or not the first: only one of them has ports, and all must go the same way.
    let whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
    let length = usize::from(header[0] & 15) * 4;
    Some(match ports(header[9], packet, length).filter(|_| whole) {
        Some((from, to)) => hash.ipv4_ports(src, dst, from, to),
        None => hash.ipv4(src, dst),
    })
}

fn ipv6(hash: &Toeplitz, packet: &[u8]) -> Option<u32> {
    let header = packet.first_chunk::<40>()?;
    let mut addresses = [0u8; 32];
    addresses.copy_from_slice(&header[8..40]);
    let (src, dst) = addresses.split_at(16);
    let (src, dst) = (src.try_into().ok()?, dst.try_into().ok()?);
    let (mut next, mut at) = (header[6], 40);
    // Hop-by-hop options, routing, destination options; a fragment header ends the search.
    for _ in 0..4 {
        if !matches!(next, 0 | 43 | 60) {
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

    /// A frame whose addresses and ports are those of Microsoft's first vector for IPv4.
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
        // The first fragment, a later one, one that must not be fragmented.
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
    fn every_worker_has_its_share_of_the_table() {
        let mut counts = [0; 3];
        (0..ENTRIES as u32).for_each(|h| counts[share_of(h | 0xabcd_0000 & !127, 3)] += 1);
        assert_eq!(counts, [43, 43, 42]);
    }

    #[test]
    fn words() {
        assert_eq!(Rss::from_word("symmetric"), Some(Rss::Symmetric));
        assert_eq!((Rss::from_word(""), Rss::from_word("x")), (Some(Rss::Auto), None));
    }
}
