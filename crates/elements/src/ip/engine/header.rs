//! Code that the section shares: a packet's IP header, the check at the entrance of every router, and test
//! packets.

use crate::prelude::*;
use lang::args::{IpPrefix, split_words};
use std::net::Ipv4Addr;
use wire::Ipv4;
use wire::ipv4::{self, BadIpv4, HEADER_LEN};

/// The fixed part of the marked IP header.
#[inline]
pub(crate) fn header(packet: &Packet) -> Option<Ipv4<&[u8; HEADER_LEN]>> {
    packet.network_header_chunk::<HEADER_LEN>().and_then(|bytes| Ipv4::new(bytes))
}

/// The same, mutable.
#[inline]
pub(crate) fn header_mut(packet: &mut Packet) -> Option<Ipv4<&mut [u8; HEADER_LEN]>> {
    packet.network_header_chunk_mut::<HEADER_LEN>().and_then(|bytes| Ipv4::new_mut(bytes))
}

/// The marked IP header with its options, mutable; `None` if its length is impossible.
#[inline]
pub(crate) fn whole_header_mut(packet: &mut Packet) -> Option<&mut [u8]> {
    let len = header(packet)?.header_len();
    packet.network_header_mut()?.get_mut(..len).filter(|h| h.len() >= HEADER_LEN)
}

/// Strips a packet up to a header that has been marked, and drops it if none has.
#[inline]
pub(crate) fn strip_to(mut packet: Packet, place: Option<isize>, cx: &mut Cx<'_>) -> Option<Packet> {
    let stripped = match place.map(usize::try_from) {
        Some(Ok(n)) => packet.strip(n),
        Some(Err(_)) => true, // it is before the data already
        None => false,
    };
    if stripped {
        return Some(packet);
    }
    cx.drop(packet, drops::NO_IP_HEADER);
    None
}

/// Fills in the checksum of the marked IP header; `false` when its length is impossible.
#[inline]
pub(crate) fn fill_checksum(packet: &mut Packet) -> bool {
    whole_header_mut(packet).is_some_and(ipv4::fill_header)
}

/// Source addresses that are refused, and destinations for which they are accepted (RFC 1812 §4.2.2.11,
/// §5.3.7).
#[derive(Clone, Default)]
pub(crate) struct Sources {
    bad_src: Vec<Ipv4Addr>,
    good_dst: Vec<Ipv4Addr>,
    /// A bit for each refused source, so that one look-up suffices for nearly every good one.
    filter: u64,
}

impl Sources {
    /// An address's bit in the filter.
    #[inline]
    fn bit(address: Ipv4Addr) -> u64 {
        1 << (u32::from(address).wrapping_mul(0x9e37_79b1) >> 26)
    }
    /// Must be called when all refused sources are known.
    fn fill_filter(&mut self) {
        self.filter = self.bad_src.iter().fold(0, |bits, a| bits | Self::bit(*a));
    }
    /// Adds a router's own interfaces: their broadcast addresses as refused sources, their addresses as
    /// accepted destinations.
    fn add_interfaces(&mut self, interfaces: &[IpPrefix]) {
        for net in interfaces {
            self.bad_src.push(net.addr | !net.mask);
            self.good_dst.push(net.addr);
        }
        self.add_broadcasts();
    }
    /// Reads the keywords `INTERFACES`, `BADSRC` and `GOODDST`.
    pub(crate) fn from_args(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let interfaces = args.with("INTERFACES", false, false, |text, names| {
            split_words(text)
                .iter()
                .map(|w| IpPrefix::parse(&w.text, names, true))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let mut sources = Self::default();
        if let Some(interfaces) = interfaces {
            sources.add_interfaces(&interfaces);
        }
        if let Some(bad) = args.k::<Vec<Ipv4Addr>>("BADSRC")? {
            sources.bad_src.extend(bad);
        }
        if let Some(good) = args.k::<Vec<Ipv4Addr>>("GOODDST")? {
            sources.good_dst.extend(good);
        }
        sources.fill_filter();
        Ok(sources)
    }
    /// Adds the two addresses that are never valid sources.
    fn add_broadcasts(&mut self) {
        self.bad_src.extend([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]);
    }
    /// Adds the list of Click's older syntax, in which the broadcasts are listed too.
    pub(crate) fn add_old_list(&mut self, list: Vec<Ipv4Addr>) {
        self.bad_src.extend(list);
        self.add_broadcasts();
        self.fill_filter();
    }
    #[inline]
    fn refuse(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        self.filter != 0 && self.filter & Self::bit(src) != 0 && self.lists(src, dst)
    }
    #[cold]
    fn lists(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        self.bad_src.contains(&src) && !self.good_dst.contains(&dst)
    }
}

pub(crate) const TINY: DropReason = DropReason::new("tiny packet");
const BAD_VERSION: DropReason = DropReason::new("bad IP version");
const BAD_HEADER_LENGTH: DropReason = DropReason::new("bad IP header length");
const BAD_CHECKSUM: DropReason = DropReason::new("bad IP checksum");
const BAD_SOURCE: DropReason = DropReason::new("bad source address");

/// Why a packet fails [`admit`], in Click's words and order.
pub(crate) const CASES: [DropCase; 6] = [
    TINY.when("shorter than an IP header"),
    BAD_VERSION.when("not 4"),
    BAD_HEADER_LENGTH.when("less than 20 bytes"),
    drops::BAD_IP_LENGTH
        .when("less than the header's, or more than the packet's; also of a fragment, with its offset"),
    BAD_CHECKSUM.when("the header's checksum is wrong"),
    BAD_SOURCE.when("the source is one that the arguments forbid"),
];

/// Checks the IP header at `offset` in the packet. If it is valid: marks it, cuts the packet to the IP length
/// and sets the destination annotation.
///
/// # Errors
/// The first of [`CASES`] that applies; the packet is then unchanged.
#[inline(always)]
pub(crate) fn admit(
    packet: &mut Packet,
    offset: usize,
    checksum: bool,
    sources: &Sources,
) -> Result<(), DropReason> {
    let bytes = packet.data().get(offset..).unwrap_or(&[]);
    let (header_len, total_len) = ipv4::check(bytes, checksum).map_err(|bad| match bad {
        BadIpv4::Miniscule => TINY,
        BadIpv4::Version => BAD_VERSION,
        // Click looks only at the lower bound here; a header longer than the packet has a bad IP length.
        BadIpv4::HeaderLen if Ipv4::new(bytes).is_some_and(|h| h.header_len() >= HEADER_LEN) => {
            drops::BAD_IP_LENGTH
        }
        BadIpv4::HeaderLen => BAD_HEADER_LENGTH,
        BadIpv4::TotalLen => drops::BAD_IP_LENGTH,
        BadIpv4::Checksum => BAD_CHECKSUM,
    })?;
    let excess = bytes.len() - total_len;
    let Some(h) = Ipv4::new(bytes) else { return Err(TINY) };
    let dst = h.dst();
    if sources.refuse(h.src(), dst) {
        return Err(BAD_SOURCE);
    }
    if excess > 0 {
        packet.take(excess);
    }
    packet.mark_ip_header(offset, header_len, dst.octets());
    Ok(())
}

/// Packets for the section's tests.
#[cfg(test)]
pub(crate) mod sample {
    use dpdk::Packet;
    use std::net::Ipv4Addr;
    use wire::Ipv4;

    /// A packet from 10.0.0.1 to 10.0.0.2 with TTL 64 and this payload.
    pub(crate) fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let h = Ipv4::build(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), protocol, payload.len());
        let mut bytes = h.bytes().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }
    /// The same with options, whose length is a multiple of four, and with changes to the fixed header that
    /// are made before the checksum is computed.
    pub(crate) fn ip_with(
        options: &[u8],
        payload: &[u8],
        change: impl FnOnce(&mut Ipv4<&mut [u8; 20]>),
    ) -> Vec<u8> {
        let mut bytes = ip(17, &[]);
        bytes.extend_from_slice(options);
        bytes.extend_from_slice(payload);
        let len = bytes.len();
        let mut h = Ipv4::new_mut(&mut bytes).unwrap();
        h.set_header_len(20 + options.len());
        h.set_total_len(len as u16);
        change(&mut h);
        wire::ipv4::fill_header(&mut bytes[..20 + options.len()]);
        bytes
    }
    /// A packet with these bytes whose IP header, at its start, is marked and whose destination is annotated.
    pub(crate) fn marked(bytes: &[u8]) -> Packet {
        let mut packet = Packet::from_bytes(bytes).unwrap();
        let len = usize::from(bytes.first().map_or(5, |b| b & 15)) * 4;
        packet.set_network_header(0, len);
        if let Some(h) = Ipv4::new(bytes) {
            packet.set_dst_ip(h.dst().octets());
        }
        packet
    }
    /// The header checksum is right.
    pub(crate) fn sound(bytes: &[u8]) -> bool {
        wire::ipv4::check(bytes, true).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::sample::ip_with;
    use crate::testing::Bench;
    use dpdk::Packet;

    /// Every element of the section that accepts packets.
    const ALL: [&str; 26] = [
        "CheckIPHeader()",
        "CheckIPHeader2(3, INTERFACES 10.0.0.1/8)",
        "MarkIPHeader(1)",
        "StripIPHeader()",
        "UnstripIPHeader()",
        "StripToNetworkHeader()",
        "DecIPTTL()",
        "GetIPAddress(IP src)",
        "GetIPAddress(30)",
        "SetIPAddress(1.2.3.4)",
        "StoreIPAddress(1.2.3.4, dst)",
        "StoreIPAddress(30)",
        "IPGWOptions(10.0.0.1)",
        "FixIPSrc(1.2.3.4)",
        "IPFragmenter(40, false)",
        "IPReassembler(HIMEM 2000)",
        "IPMirror()",
        "IPEncap(4, 1.1.1.1, DST_ANNO)",
        "SetIPChecksum()",
        "SetIPDSCP(3)",
        "SetIPECN(ce)",
        "ForceIP()",
        "MarkIPCE(true)",
        "IPPrint(CONTENTS hex, ETHER true, ACTIVE true, OUTFILE /dev/null)",
        "IPInputCombo(1)",
        "IPOutputCombo(0, 10.0.0.1, 50)",
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
            let mut waiting = 0;
            for _ in 0..1500 {
                let options: Vec<u8> =
                    (0..4 * random(6)).map(|_| [7, 68, 1, 8, 5, 0, 0x94][random(7)]).collect();
                let payload: Vec<u8> = (0..random(90)).map(|_| random(256) as u8).collect();
                let kinds = [1, 6, 17, 99];
                let mut bytes = ip_with(&options, &payload, |h| {
                    h.set_protocol(kinds[random(4)]);
                    h.set_flags_fragment([0, 0, 0x4000, 0x2000, 1, 0x3fff][random(6)]);
                    h.set_ttl(random(3) as u8);
                });
                for _ in 0..random(3) {
                    let at = random(bytes.len());
                    bytes[at] = random(256) as u8;
                }
                bytes.truncate(bytes.len() - random(2) * random(bytes.len()));
                let mut packet = Packet::from_bytes(&bytes).unwrap();
                if random(8) > 0 {
                    packet.set_mac_header(0);
                    packet.set_network_header(random(2) * random(6), 4 * random(16));
                }
                packet.set_fix_ip_src(random(2) == 0);
                packet.strip(random(2) * random(30));
                let before: u64 = bench.drops().iter().map(|d| d.1).sum();
                let out = bench.send(0, packet).len() as u64;
                let after: u64 = bench.drops().iter().map(|d| d.1).sum();
                if out + after == before {
                    waiting += 1;
                }
            }
            let keeps = declaration.starts_with("IPReassembler");
            assert!(keeps || waiting == 0, "{declaration}: {waiting} packets are gone");
        }
    }
}
