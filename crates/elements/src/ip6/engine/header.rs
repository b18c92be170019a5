//! A packet's IPv6 header and its destination annotation, and test packets.

use crate::prelude::*;
use dpdk::offset;
use std::net::Ipv6Addr;
use wire::Ipv6;
use wire::ipv6::HEADER_LEN;

/// The marked IPv6 header.
#[inline]
pub(crate) fn header(packet: &Packet) -> Option<Ipv6<&[u8; HEADER_LEN]>> {
    packet.network_header_chunk::<HEADER_LEN>().and_then(|bytes| Ipv6::new(bytes))
}

/// The same, mutable.
#[inline]
pub(crate) fn header_mut(packet: &mut Packet) -> Option<Ipv6<&mut [u8; HEADER_LEN]>> {
    packet.network_header_chunk_mut::<HEADER_LEN>().and_then(|bytes| Ipv6::new_mut(bytes))
}

/// The destination annotation.
#[inline]
pub(crate) fn dst_ip6(packet: &Packet) -> Ipv6Addr {
    Ipv6Addr::from(packet.load_user::<16>(offset::DST_IP6).unwrap_or_default())
}

/// Sets it.
#[inline]
pub(crate) fn set_dst_ip6(packet: &mut Packet, address: Ipv6Addr) {
    packet.store_user(offset::DST_IP6, address.octets());
}

/// Drops a packet without an IPv6 header.
#[cold]
pub(crate) fn no_header(packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
    cx.drop(packet, drops::NO_IP_HEADER);
    None
}

/// Packets for the section's tests.
#[cfg(test)]
pub(crate) mod sample {
    use dpdk::Packet;
    use std::net::Ipv6Addr;
    use wire::Ipv6;

    pub(crate) fn a(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }
    /// A packet from 2001:db8::1 to 2001:db8::2 with hop limit 64 and this payload.
    pub(crate) fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
        ip6_with(next, payload, |_| ())
    }
    /// The same with changes to the header.
    pub(crate) fn ip6_with(next: u8, payload: &[u8], change: impl FnOnce(&mut Ipv6<[u8; 40]>)) -> Vec<u8> {
        let mut h = Ipv6::build(a("2001:db8::1"), a("2001:db8::2"), next, payload.len() as u16);
        change(&mut h);
        [&h.bytes()[..], payload].concat()
    }
    /// A packet with these bytes whose IPv6 header, at its start, is marked and whose destination is
    /// annotated.
    pub(crate) fn marked(bytes: &[u8]) -> Packet {
        let mut packet = Packet::from_bytes(bytes).unwrap();
        packet.set_network_header(0, 40);
        if let Some(h) = Ipv6::new(bytes) {
            super::set_dst_ip6(&mut packet, h.dst());
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::sample::ip6;
    use crate::testing::Bench;
    use dpdk::Packet;

    /// Every element of the section that takes packets at input 0.
    const ALL: [&str; 22] = [
        "CheckIP6Header()",
        "CheckIP6Header(PROCESS_EH true)",
        "CheckIP6Header(OFFSET 2)",
        "MarkIP6Header(1)",
        "GetIP6Address(24)",
        "SetIP6Address(::1)",
        "StoreIP6Address(dst)",
        "StoreIP6Address(::7, 60)",
        "SetIP6DSCP(9)",
        "SetIP6ECN(ce)",
        "SetIP6Hlim(3)",
        "SetIP6FlowLabel(77)",
        "DecIP6HLIM()",
        "IP6Mirror()",
        "IP6Print(x, CONTENTS true, NBYTES 70, ACTIVE true)",
        "IP6Encap(41, ::1, DST_ANNO)",
        "UDPIP6Encap(::1, 7, ::2, 9)",
        "ICMP6Error(::1, 3, 0)",
        "ICMP6PingResponder()",
        "IP6NDAdvertiser(::/0 2:0:0:0:0:1)",
        "IP6Fragmenter(60)",
        "LookupIP6Route(2000::/3 0)",
    ];

    /// Nearly valid packets that are cut, changed and marked at any position cause no panic in any element,
    /// and none is lost without being counted.
    #[test]
    fn any_packet_is_survived_and_accounted_for() {
        let mut x = 0x1234_5678u32;
        let mut random = move |n: usize| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) as usize % n
        };
        for declaration in ALL {
            let mut bench = Bench::new(declaration);
            for round in 0..600u64 {
                let payload: Vec<u8> =
                    (0..random(90)).map(|_| [0, 1, 43, 44, 58, random(256)][random(6)] as u8).collect();
                let mut bytes = ip6([0, 6, 17, 43, 44, 58, 60][random(7)], &payload);
                for _ in 0..random(3) {
                    let at = random(bytes.len());
                    bytes[at] = random(256) as u8;
                }
                bytes.truncate(bytes.len() - random(2) * random(bytes.len()));
                let mut packet = Packet::from_bytes(&bytes).unwrap();
                if random(8) > 0 {
                    packet.set_mac_header(0);
                    packet.set_network_header(random(2) * random(6), 40);
                }
                packet.strip(random(2) * random(30));
                let before: u64 = bench.drops().iter().map(|d| d.1).sum();
                let out = bench.send(0, packet).len() as u64;
                let after: u64 = bench.drops().iter().map(|d| d.1).sum();
                assert_eq!(out + after, before + 1, "{declaration}: round {round}");
            }
        }
    }
}
