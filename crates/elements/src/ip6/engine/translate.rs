//! Translating packets between the two versions of IP (RFC 7915): headers, checksums, ICMP messages and the
//! packets in these. [`see4`] and [`see6`] read a packet, the caller decides on the new addresses and ports,
//! and [`to6`] and [`to4`] make the new packet, [`error6`] and [`error4`] the new ICMP error.

use super::header::set_dst_ip6;
use crate::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::checksum::{Delta, pseudo_v4, pseudo_v6};
use wire::{Ipv4, Ipv6, icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp};

pub(crate) const SOURCE_ROUTE: DropReason = DropReason::new("source route");
pub(crate) const NOT_TRANSLATED: DropReason = DropReason::new("not to be translated");
pub(crate) const NO_CHECKSUM: DropReason = DropReason::new("UDP fragment without checksum");
pub(crate) const BAD_ADDRESS: DropReason = DropReason::new("address not to be translated");

/// A fragment header (RFC 8200 section 4.5).
const FRAGMENT_LEN: usize = 8;
/// How much of a TCP header must be there for its checksum to be changed.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
/// What every link of IPv6 carries.
pub(crate) const LEAST_MTU: usize = 1280;
/// An IPv4 packet up to this length may be fragmented on its way: its sender cannot be told less than
/// [`LEAST_MTU`] (RFC 7915 section 5.1).
const MAY_BE_FRAGMENTED: usize = 1260;
/// The most extension headers that are followed.
const MOST_EXTENSIONS: usize = 8;
/// MTUs of usual links (RFC 1191 section 7.1), for routers that do not say theirs.
const PLATEAUS: [u16; 11] = [65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68];

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Tcp,
    Udp,
    /// A request for an echo.
    Echo,
    EchoReply,
    /// An ICMP error.
    Error,
    /// Nothing that has ports.
    Other,
}

/// Addresses and ports. A ping has its identifier as both ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends<A> {
    pub(crate) src: A,
    pub(crate) dst: A,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
}

impl<A> Ends<A> {
    /// The same ports with other addresses.
    pub(crate) fn with<B>(&self, src: B, dst: B) -> Ends<B> {
        Ends { src, dst, sport: self.sport, dport: self.dport }
    }
}

/// Where a fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment {
    id: u32,
    /// In units of eight bytes.
    offset: u16,
    more: bool,
}

/// What the headers of a packet say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<A> {
    pub(crate) ends: Ends<A>,
    pub(crate) kind: Kind,
    /// Where the transport header begins.
    pub(crate) at: usize,
    /// The length of the whole packet. Of one in an ICMP error less may be there.
    len: usize,
    protocol: u8,
    class: u8,
    hops: u8,
    id: u16,
    fragment: Option<Fragment>,
    dont_fragment: bool,
}

impl<A> Seen<A> {
    /// Whether it is a fragment that is not the first, which has no ports.
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|f| f.offset != 0)
    }
    /// Whether the packet may be cut into fragments for IPv6.
    pub(crate) fn may_be_fragmented(&self) -> bool {
        !self.dont_fragment
    }
    /// The part of `bytes` that is the transport header and what follows it.
    fn transport<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.at..self.len.min(bytes.len())).unwrap_or_default()
    }
}

/// Whether no host may have sent a packet from this address.
pub(crate) fn is_bad_source(a: Ipv4Addr) -> bool {
    a.is_multicast() || a.octets()[0] >= 240 || a.octets()[0] == 0 || a.is_loopback() || a.is_link_local()
}

/// A protocol number whose meaning in IPv6 is an extension header, or ICMP of the wrong version.
fn changes_its_meaning(number: u8) -> bool {
    matches!(
        number,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::DESTINATION_OPTIONS
            | protocol::NO_NEXT_HEADER
    )
}

/// What a packet of another protocol than ICMP carries.
fn kind_of(number: u8, fragment: Option<Fragment>) -> Kind {
    match number {
        _ if fragment.is_some_and(|f| f.offset != 0) => Kind::Other,
        protocol::TCP => Kind::Tcp,
        protocol::UDP => Kind::Udp,
        _ => Kind::Other,
    }
}

/// Ports of a transport header, or the identifier of a ping.
fn ports(t: &[u8], kind: Kind) -> (u16, u16) {
    let word = |at: usize| t.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |w| u16::from_be_bytes(*w));
    match kind {
        Kind::Tcp | Kind::Udp => (word(0), word(2)),
        Kind::Echo | Kind::EchoReply => (word(4), word(4)),
        Kind::Error | Kind::Other => (0, 0),
    }
}

/// Whether so much of the transport header is there that it can be translated; of a packet in an ICMP error
/// eight bytes are enough.
fn is_whole(t: &[u8], kind: Kind, inside: bool) -> bool {
    match kind {
        Kind::Tcp if !inside => t.len() >= TCP_CHECKSUM + 2,
        Kind::Other => true,
        _ => t.len() >= udp::HEADER_LEN,
    }
}

/// Whether the options have a source route that has not come to its end.
fn is_source_routed(options: &[u8]) -> bool {
    wire::Options::new(options, ipv4::HEADER_LEN).map_while(Result::ok).any(|option| {
        matches!(option.kind, ipv4::OPT_LSRR | ipv4::OPT_SSRR)
            && option.bytes.get(2).is_none_or(|pointer| usize::from(*pointer) <= option.bytes.len())
    })
}

/// Reads an IPv4 packet, or the part of one that is `inside` of an ICMP error.
///
/// # Errors
/// It is not translated.
pub(crate) fn see4(bytes: &[u8], inside: bool) -> Result<Seen<Ipv4Addr>, DropReason> {
    let h = Ipv4::new(bytes).ok_or(drops::BAD_IP_LENGTH)?;
    let (at, len) = (h.header_len(), usize::from(h.total_len()));
    let cut = bytes.len() < if inside { at } else { len };
    if h.version() != 4 || at < ipv4::HEADER_LEN || len < at || cut || h.ends_too_late() {
        return Err(drops::BAD_IP_LENGTH);
    }
    if !inside && is_source_routed(bytes.get(ipv4::HEADER_LEN..at).unwrap_or_default()) {
        return Err(SOURCE_ROUTE);
    }
    let fragment = h.is_fragment().then(|| Fragment {
        id: h.id().into(),
        offset: h.flags_fragment() & ipv4::FRAGMENT_OFFSET_MASK,
        more: h.more_fragments(),
    });
    let t = bytes.get(at..len.min(bytes.len())).unwrap_or_default();
    let (kind, number) = match h.protocol() {
        protocol::ICMP => {
            let kind = match t.first() {
                Some(&icmpv4::ECHO) => Kind::Echo,
                Some(&icmpv4::ECHO_REPLY) => Kind::EchoReply,
                Some(of) if icmpv4::is_error(*of) && !inside => Kind::Error,
                _ => return Err(NOT_TRANSLATED),
            };
            // The checksum of ICMPv6 contains the length of the whole message, which no fragment knows.
            if fragment.is_some() {
                return Err(NOT_TRANSLATED);
            }
            (kind, protocol::ICMPV6)
        }
        number if changes_its_meaning(number) || number == protocol::ICMPV6 => return Err(NOT_TRANSLATED),
        number => (kind_of(number, fragment), number),
    };
    if !is_whole(t, kind, inside) {
        return Err(NOT_TRANSLATED);
    }
    let (sport, dport) = ports(t, kind);
    Ok(Seen {
        ends: Ends { src: h.src(), dst: h.dst(), sport, dport },
        kind,
        at,
        len,
        protocol: number,
        class: h.tos(),
        hops: h.ttl(),
        id: h.id(),
        fragment,
        dont_fragment: h.dont_fragment(),
    })
}

/// Reads an IPv6 packet, or the part of one that is `inside` of an ICMP error.
///
/// # Errors
/// It is not translated.
pub(crate) fn see6(bytes: &[u8], inside: bool) -> Result<Seen<Ipv6Addr>, DropReason> {
    let h = Ipv6::new(bytes).ok_or(drops::BAD_IP_LENGTH)?;
    let len = ipv6::HEADER_LEN + usize::from(h.payload_len());
    if h.version() != 6 || !inside && bytes.len() < len {
        return Err(drops::BAD_IP_LENGTH);
    }
    let bytes = bytes.get(..len).unwrap_or(bytes);
    let (mut next, mut at, mut fragment) = (h.next_header(), ipv6::HEADER_LEN, None::<Fragment>);
    for _ in 0..MOST_EXTENSIONS {
        if !changes_its_meaning(next) || fragment.is_some_and(|f| f.more || f.offset != 0) {
            break;
        }
        let e: &[u8; 8] = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(drops::BAD_IP_LENGTH)?;
        match next {
            protocol::ROUTING if e[3] != 0 && !inside => return Err(SOURCE_ROUTE),
            protocol::FRAGMENT if fragment.is_none() => {
                let place = u16::from_be_bytes([e[2], e[3]]);
                let id = u32::from_be_bytes([e[4], e[5], e[6], e[7]]);
                fragment = Some(Fragment { id, offset: place >> 3, more: place & 1 != 0 });
                at += FRAGMENT_LEN;
            }
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                at += (usize::from(e[1]) + 1) * 8;
            }
            _ => return Err(NOT_TRANSLATED),
        }
        next = e[0];
    }
    if at > len || at > bytes.len() {
        return Err(drops::BAD_IP_LENGTH);
    }
    let t = bytes.get(at..).unwrap_or_default();
    let is_piece = fragment.is_some_and(|f| f.more || f.offset != 0);
    let (kind, number) = match next {
        protocol::ICMPV6 => {
            let kind = match t.first() {
                Some(&icmpv6::ECHO) => Kind::Echo,
                Some(&icmpv6::ECHO_REPLY) => Kind::EchoReply,
                Some(1..=4) if !inside => Kind::Error,
                _ => return Err(NOT_TRANSLATED),
            };
            if is_piece {
                return Err(NOT_TRANSLATED);
            }
            (kind, protocol::ICMP)
        }
        number if changes_its_meaning(number) || number == protocol::ICMP => return Err(NOT_TRANSLATED),
        number => (kind_of(number, fragment), number),
    };
    if !is_whole(t, kind, inside) {
        return Err(NOT_TRANSLATED);
    }
    let (sport, dport) = ports(t, kind);
    Ok(Seen {
        ends: Ends { src: h.src(), dst: h.dst(), sport, dport },
        kind,
        at,
        len,
        protocol: number,
        class: h.traffic_class(),
        hops: h.hop_limit(),
        id: 0,
        fragment,
        dont_fragment: fragment.is_none(),
    })
}

fn put(t: &mut [u8], at: usize, word: u16) {
    if let Some(to) = t.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = word.to_be_bytes();
    }
}

fn get(t: &[u8], at: usize) -> Option<u16> {
    t.get(at..).and_then(<[u8]>::first_chunk).map(|word| u16::from_be_bytes(*word))
}

/// Gives a transport header other ports, and adjusts its checksum to these and to other addresses: `sums` are
/// those of the pseudo-headers before and after, as far as the checksum covers them.
fn rewrite(t: &mut [u8], kind: Kind, sums: [u16; 2], to: (u16, u16), echo: [u8; 2]) {
    let (sport, dport) = ports(t, kind);
    let delta = Delta::new().replace(sums[0], sums[1]).replace(sport, to.0);
    match kind {
        Kind::Tcp | Kind::Udp => {
            let delta = delta.replace(dport, to.1);
            put(t, 0, to.0);
            put(t, 2, to.1);
            let at = if kind == Kind::Tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
            if let Some(check) = get(t, at) {
                let check = if kind == Kind::Tcp { delta.apply(check) } else { delta.apply_udp(check) };
                put(t, at, check);
            }
        }
        Kind::Echo | Kind::EchoReply => {
            let of = echo[usize::from(kind == Kind::EchoReply)];
            let [before, code] = get(t, 0).unwrap_or(0).to_be_bytes();
            let kinds = [before, of].map(|of| u16::from_be_bytes([of, code]));
            let delta = delta.replace(kinds[0], kinds[1]);
            put(t, 0, kinds[1]);
            put(t, 4, to.0);
            put(t, 2, delta.apply(get(t, 2).unwrap_or(0)));
        }
        Kind::Error | Kind::Other => {}
    }
}

/// The sums of the pseudo-headers of IPv4 and IPv6 that the checksum of a packet covers: the rest of them is
/// the same. That of ICMP in IPv4 covers none.
fn sums<A>(seen: &Seen<A>, four: &Ends<Ipv4Addr>, six: &Ends<Ipv6Addr>) -> [u16; 2] {
    match seen.kind {
        Kind::Echo | Kind::EchoReply | Kind::Error => {
            [0, pseudo_v6(six.src, six.dst, protocol::ICMPV6, (seen.len - seen.at) as u32)]
        }
        _ => [pseudo_v4(four.src, four.dst, 0, 0), pseudo_v6(six.src, six.dst, 0, 0)],
    }
}

/// A header of IPv6, with a fragment header if the packet is a fragment.
struct Header6([u8; ipv6::HEADER_LEN + FRAGMENT_LEN], usize);

impl Header6 {
    fn of(seen: &Seen<Ipv4Addr>, to: &Ends<Ipv6Addr>, fragment: Option<Fragment>, payload: usize) -> Self {
        let extra = if fragment.is_some() { FRAGMENT_LEN } else { 0 };
        let next = if fragment.is_some() { protocol::FRAGMENT } else { seen.protocol };
        let mut h = Ipv6::build(to.src, to.dst, next, (payload + extra) as u16);
        h.set_traffic_class(seen.class);
        h.set_hop_limit(seen.hops);
        let mut bytes = [0; ipv6::HEADER_LEN + FRAGMENT_LEN];
        let [a, b, c, d] = fragment.map_or(0, |f| f.id).to_be_bytes();
        let [e, f] = fragment.map_or(0, |f| f.offset << 3 | u16::from(f.more)).to_be_bytes();
        let parts = h.bytes().iter().copied().chain([seen.protocol, 0, e, f, a, b, c, d]);
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        Self(bytes, ipv6::HEADER_LEN + extra)
    }
    fn bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

/// A header of IPv4.
fn header4(seen: &Seen<Ipv6Addr>, to: &Ends<Ipv4Addr>, id: u16, payload: usize) -> [u8; ipv4::HEADER_LEN] {
    let mut h = Ipv4::build(to.src, to.dst, seen.protocol, payload);
    h.set_tos(seen.class);
    h.set_ttl(seen.hops);
    match seen.fragment {
        Some(f) => {
            h.set_id(f.id as u16);
            h.set_flags_fragment(
                f.offset & ipv4::FRAGMENT_OFFSET_MASK | if f.more { ipv4::FLAG_MF } else { 0 },
            );
        }
        None if ipv4::HEADER_LEN + payload > MAY_BE_FRAGMENTED => h.set_flags_fragment(ipv4::FLAG_DF),
        None => h.set_id(id),
    }
    h.fill_checksum();
    *h.bytes()
}

/// Marks the header of IPv6 and annotates its destination.
fn mark6(packet: &mut Packet, dst: Ipv6Addr, len: usize) {
    packet.set_network_header(0, len);
    set_dst_ip6(packet, dst);
}

/// A packet that is not translated, if it is still there, and why.
pub(crate) type Refused = (Option<Packet>, DropReason);

/// Drops it.
#[cold]
pub(crate) fn refuse((packet, why): Refused, cx: &mut Cx<'_>) {
    match packet {
        Some(packet) => cx.drop(packet, why),
        None => cx.count_drops(1, why),
    }
}

/// Replaces the header of a packet, which ends at `at`, by another one, and cuts off what is behind `len`.
fn replace_header(mut packet: Packet, (at, len): (usize, usize), header: &[u8]) -> Result<Packet, Refused> {
    let behind = packet.len().saturating_sub(len);
    packet.take(behind);
    packet.strip(at);
    let Some(mut packet) = packet.push(header.len()) else { return Err((None, drops::OUT_OF_MEMORY)) };
    if let Some(to) = packet.data_mut().get_mut(..header.len()) {
        to.copy_from_slice(header);
    }
    packet.clear_headers();
    Ok(packet)
}

/// Makes an IPv6 packet from an IPv4 packet that is no ICMP error. Its header is at the beginning, marked,
/// and its destination annotated.
///
/// # Errors
/// It is not translated.
pub(crate) fn to6(mut packet: Packet, seen: &Seen<Ipv4Addr>, to: &Ends<Ipv6Addr>) -> Result<Packet, Refused> {
    let sums = sums(seen, &seen.ends, to);
    let t = packet.data_mut().get_mut(seen.at..seen.len).unwrap_or_default();
    rewrite(t, seen.kind, sums, (to.sport, to.dport), [icmpv6::ECHO, icmpv6::ECHO_REPLY]);
    if seen.kind == Kind::Udp && get(t, UDP_CHECKSUM) == Some(0) {
        // IPv6 has no UDP without checksum (RFC 7915 section 4.5).
        if seen.fragment.is_some() {
            return Err((Some(packet), NO_CHECKSUM));
        }
        let len = usize::from(get(t, 4).unwrap_or(0));
        let Some(datagram) = t.get_mut(..len).filter(|d| d.len() >= udp::HEADER_LEN) else {
            return Err((Some(packet), drops::BAD_PACKET_LENGTH));
        };
        udp::fill(pseudo_v6(to.src, to.dst, protocol::UDP, len as u32), datagram);
    }
    let header = Header6::of(seen, to, seen.fragment, seen.len - seen.at);
    let mut packet = replace_header(packet, (seen.at, seen.len), header.bytes())?;
    mark6(&mut packet, to.dst, header.bytes().len());
    Ok(packet)
}

/// Cuts an IPv6 packet that [`to6`] has made, and that is longer than `mtu`, into fragments.
pub(crate) fn fragments(
    packet: &Packet,
    seen: &Seen<Ipv4Addr>,
    to: &Ends<Ipv6Addr>,
    mtu: usize,
    mut each: impl FnMut(Option<Packet>),
) {
    let before = ipv6::HEADER_LEN + if seen.fragment.is_some() { FRAGMENT_LEN } else { 0 };
    let payload = packet.data().get(before..).unwrap_or_default();
    let step = (mtu.saturating_sub(ipv6::HEADER_LEN + FRAGMENT_LEN) & !7).max(8);
    let whole = seen.fragment.unwrap_or(Fragment { id: seen.id.into(), offset: 0, more: false });
    let pieces = payload.len().div_ceil(step);
    for (n, piece) in payload.chunks(step).enumerate() {
        let offset = whole.offset.saturating_add((n * step / 8) as u16);
        let fragment = Fragment { offset, more: whole.more || n + 1 < pieces, ..whole };
        let header = Header6::of(seen, to, Some(fragment), piece.len());
        each(assemble(packet, &[header.bytes(), piece]).map(|mut made| {
            mark6(&mut made, to.dst, header.bytes().len());
            made
        }));
    }
}

/// Makes an IPv4 packet from an IPv6 packet that is no ICMP error; `id` is a new identification. Its header
/// is at the beginning, marked, and its destination annotated.
///
/// # Errors
/// It is not translated.
pub(crate) fn to4(
    mut packet: Packet,
    seen: &Seen<Ipv6Addr>,
    to: &Ends<Ipv4Addr>,
    id: u16,
) -> Result<Packet, Refused> {
    let payload = seen.len - seen.at;
    if ipv4::HEADER_LEN + payload > usize::from(u16::MAX) {
        return Err((Some(packet), drops::PACKET_TOO_LONG));
    }
    let [four, six] = sums(seen, to, &seen.ends);
    let t = packet.data_mut().get_mut(seen.at..seen.len).unwrap_or_default();
    rewrite(t, seen.kind, [six, four], (to.sport, to.dport), [icmpv4::ECHO, icmpv4::ECHO_REPLY]);
    let header = header4(seen, to, id, payload);
    let mut packet = replace_header(packet, (seen.at, seen.len), &header)?;
    packet.mark_ip_header(0, header.len(), to.dst.octets());
    Ok(packet)
}

/// A packet of these parts with the annotations of another one.
fn assemble(of: &Packet, parts: &[&[u8]]) -> Option<Packet> {
    let len = parts.iter().map(|part| part.len()).sum();
    let mut q = Packet::alloc(dpdk::DEFAULT_HEADROOM, len)?;
    let bytes = parts.iter().copied().flatten();
    q.data_mut().iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    *q.anno_mut() = *of.anno();
    q.clear_headers();
    Some(q)
}

/// The packet that an ICMP error quotes. Extensions (RFC 4884) behind it do not belong to it: `unit` is what
/// their place is counted in, and `count` how many of these there are.
fn quoted(t: &[u8], count: u8, unit: usize) -> &[u8] {
    let quoted = t.get(icmpv4::HEADER_LEN..).unwrap_or_default();
    match usize::from(count) * unit {
        0 => quoted,
        len => quoted.get(..len).unwrap_or(quoted),
    }
}

/// The packet that an ICMPv4 error is about.
///
/// # Errors
/// The error is not translated.
pub(crate) fn inside4<'a>(
    bytes: &'a [u8],
    seen: &Seen<Ipv4Addr>,
) -> Result<(Seen<Ipv4Addr>, &'a [u8]), DropReason> {
    let t = seen.transport(bytes);
    let words = match t.first() {
        Some(&(icmpv4::UNREACHABLE | icmpv4::TIME_EXCEEDED | icmpv4::PARAMETER_PROBLEM)) => t[5],
        _ => 0,
    };
    let quoted = quoted(t, words, 4);
    see4(quoted, true).map(|seen| (seen, quoted))
}

/// The packet that an ICMPv6 error is about.
///
/// # Errors
/// The error is not translated.
pub(crate) fn inside6<'a>(
    bytes: &'a [u8],
    seen: &Seen<Ipv6Addr>,
) -> Result<(Seen<Ipv6Addr>, &'a [u8]), DropReason> {
    let t = seen.transport(bytes);
    let words = match t.first() {
        Some(&(icmpv6::UNREACHABLE | icmpv6::TIME_EXCEEDED)) => t[4],
        _ => 0,
    };
    let quoted = quoted(t, words, 8);
    see6(quoted, true).map(|seen| (seen, quoted))
}

/// The type, the code and the second word of the ICMPv6 error for an ICMPv4 error about a packet of `len`
/// bytes (RFC 7915 section 4.2).
fn error_in_6(t: &[u8], len: usize) -> Option<(u8, u8, u32)> {
    let h = wire::Icmpv4::new(t)?;
    Some(match (h.kind(), h.code()) {
        (icmpv4::UNREACHABLE, 2) => (icmpv6::PARAMETER_PROBLEM, 1, 6),
        (icmpv4::UNREACHABLE, icmpv4::UNREACHABLE_NEED_FRAG) => {
            let said = usize::from(h.next_hop_mtu());
            let plateau = PLATEAUS.iter().map(|mtu| usize::from(*mtu)).find(|mtu| *mtu < len).unwrap_or(68);
            let mtu = if said == 0 { plateau } else { said };
            (icmpv6::PACKET_TOO_BIG, 0, (mtu + 20).max(LEAST_MTU) as u32)
        }
        (icmpv4::UNREACHABLE, 0 | 1 | 5..=8 | 11 | 12) => (icmpv6::UNREACHABLE, 0, 0),
        (icmpv4::UNREACHABLE, 3) => (icmpv6::UNREACHABLE, 4, 0),
        (icmpv4::UNREACHABLE, 9 | 10 | 13 | 15) => (icmpv6::UNREACHABLE, 1, 0),
        (icmpv4::TIME_EXCEEDED, code @ (0 | 1)) => (icmpv6::TIME_EXCEEDED, code, 0),
        (icmpv4::PARAMETER_PROBLEM, 0 | 2) => {
            let pointer = match h.pointer() {
                0 => 0,
                1 => 1,
                2 | 3 => 4,
                8 => 7,
                9 => 6,
                12..=15 => 8,
                16..=19 => 24,
                _ => return None,
            };
            (icmpv6::PARAMETER_PROBLEM, 0, pointer)
        }
        _ => return None,
    })
}

/// The same in the other direction (RFC 7915 section 5.2).
fn error_in_4(t: &[u8]) -> Option<(u8, u8, u32)> {
    let h = wire::Icmpv6::new(t)?;
    let unreachable = |code| (icmpv4::UNREACHABLE, code, 0);
    Some(match (h.kind(), h.code()) {
        (icmpv6::UNREACHABLE, 0 | 2 | 3) => unreachable(icmpv4::UNREACHABLE_HOST),
        (icmpv6::UNREACHABLE, 1) => unreachable(10),
        (icmpv6::UNREACHABLE, 4) => unreachable(icmpv4::UNREACHABLE_PORT),
        (icmpv6::PACKET_TOO_BIG, _) => {
            // No link of IPv6 carries less.
            let mtu = (h.rest().max(LEAST_MTU as u32) - 20).min(u16::MAX.into());
            (icmpv4::UNREACHABLE, icmpv4::UNREACHABLE_NEED_FRAG, mtu)
        }
        (icmpv6::TIME_EXCEEDED, code @ (0 | 1)) => (icmpv4::TIME_EXCEEDED, code, 0),
        (icmpv6::PARAMETER_PROBLEM, 1) => unreachable(icmpv4::UNREACHABLE_PROTOCOL),
        (icmpv6::PARAMETER_PROBLEM, 0) => {
            let pointer = match h.rest() {
                0 => 0,
                1 => 1,
                4 | 5 => 2,
                6 => 9,
                7 => 8,
                8..=23 => 12,
                24..=39 => 16,
                _ => return None,
            };
            (icmpv4::PARAMETER_PROBLEM, 0, pointer << 24)
        }
        _ => return None,
    })
}

fn message(kind: u8, code: u8, rest: u32) -> [u8; 8] {
    let [a, b, c, d] = rest.to_be_bytes();
    [kind, code, 0, 0, a, b, c, d]
}

/// Makes an ICMPv6 error from an ICMPv4 error about the packet `inside`, which gets the addresses and ports
/// `about`.
///
/// # Errors
/// It is not translated.
pub(crate) fn error6(
    packet: &Packet,
    seen: &Seen<Ipv4Addr>,
    to: &Ends<Ipv6Addr>,
    (inside, quoted): (&Seen<Ipv4Addr>, &[u8]),
    about: &Ends<Ipv6Addr>,
) -> Result<Packet, DropReason> {
    let (kind, code, rest) = error_in_6(seen.transport(packet.data()), inside.len).ok_or(NOT_TRANSLATED)?;
    let head = Header6::of(inside, about, inside.fragment, inside.len - inside.at);
    let before = ipv6::HEADER_LEN + icmpv6::HEADER_LEN + head.bytes().len();
    let t = inside.transport(quoted);
    let t = t.get(..LEAST_MTU - before).unwrap_or(t);
    let len = icmpv6::HEADER_LEN + head.bytes().len() + t.len();
    let outer = Header6::of(seen, to, None, len);
    let mut q = assemble(packet, &[outer.bytes(), &message(kind, code, rest), head.bytes(), t])
        .ok_or(drops::OUT_OF_MEMORY)?;
    let sums = sums(inside, &inside.ends, about);
    let ports = (about.sport, about.dport);
    let echo = [icmpv6::ECHO, icmpv6::ECHO_REPLY];
    rewrite(q.data_mut().get_mut(before..).unwrap_or_default(), inside.kind, sums, ports, echo);
    let pseudo = pseudo_v6(to.src, to.dst, protocol::ICMPV6, len as u32);
    icmpv6::fill(pseudo, q.data_mut().get_mut(ipv6::HEADER_LEN..).unwrap_or_default());
    mark6(&mut q, to.dst, ipv6::HEADER_LEN);
    Ok(q)
}

/// Makes an ICMPv4 error from an ICMPv6 error about the packet `inside`, which gets the addresses and ports
/// `about`; `id` is a new identification.
///
/// # Errors
/// It is not translated.
pub(crate) fn error4(
    packet: &Packet,
    (seen, id): (&Seen<Ipv6Addr>, u16),
    to: &Ends<Ipv4Addr>,
    (inside, quoted): (&Seen<Ipv6Addr>, &[u8]),
    about: &Ends<Ipv4Addr>,
) -> Result<Packet, DropReason> {
    let (kind, code, rest) = error_in_4(seen.transport(packet.data())).ok_or(NOT_TRANSLATED)?;
    let head = header4(inside, about, 0, inside.len - inside.at);
    let before = ipv4::HEADER_LEN + icmpv4::HEADER_LEN + head.len();
    let t = inside.transport(quoted);
    let len = icmpv4::HEADER_LEN + head.len() + t.len();
    let outer = header4(seen, to, id, len);
    let mut q =
        assemble(packet, &[&outer, &message(kind, code, rest), &head, t]).ok_or(drops::OUT_OF_MEMORY)?;
    let [four, six] = sums(inside, about, &inside.ends);
    let ports = (about.sport, about.dport);
    let echo = [icmpv4::ECHO, icmpv4::ECHO_REPLY];
    rewrite(q.data_mut().get_mut(before..).unwrap_or_default(), inside.kind, [six, four], ports, echo);
    icmpv4::fill(q.data_mut().get_mut(ipv4::HEADER_LEN..).unwrap_or_default());
    q.mark_ip_header(0, ipv4::HEADER_LEN, to.dst.octets());
    Ok(q)
}

/// Gives an IPv6 packet other addresses and ports, and adjusts its checksum; in an ICMPv6 error, the packet
/// `about` gets others too.
pub(crate) fn renew6(
    bytes: &mut [u8],
    seen: &Seen<Ipv6Addr>,
    to: &Ends<Ipv6Addr>,
    about: Option<(&Seen<Ipv6Addr>, &Ends<Ipv6Addr>)>,
) {
    if let (Some((inside, to)), Some(quoted)) = (about, bytes.get_mut(seen.at + icmpv6::HEADER_LEN..)) {
        renew6(quoted, inside, to, None);
    }
    let sums = [&seen.ends, to].map(|ends| pseudo_v6(ends.src, ends.dst, 0, 0));
    let end = seen.len.min(bytes.len());
    let t = bytes.get_mut(seen.at..end).unwrap_or_default();
    rewrite(t, seen.kind, sums, (to.sport, to.dport), [icmpv6::ECHO, icmpv6::ECHO_REPLY]);
    if seen.kind == Kind::Error {
        icmpv6::fill(pseudo_v6(to.src, to.dst, protocol::ICMPV6, t.len() as u32), t);
    }
    if let Some(mut h) = Ipv6::new_mut(bytes) {
        h.set_src(to.src);
        h.set_dst(to.dst);
    }
}

/// Whether a TCP packet, whose headers `seen` describes, has one of these flags.
pub(crate) fn tcp_flags<A>(packet: &Packet, seen: &Seen<A>) -> u8 {
    const FLAGS: usize = 13;
    const _: () = assert!(FLAGS < tcp::HEADER_LEN);
    if seen.kind == Kind::Tcp { packet.data().get(seen.at + FLAGS).copied().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::FRAGMENT_LEN;
    use crate::testing::Bench;
    use wire::checksum::{combine, pseudo_v4, pseudo_v6, sum};
    use wire::{Ipv4, Ipv6, icmpv4, icmpv6, ipv4};

    fn four(protocol: u8, payload: &[u8], change: impl FnOnce(&mut Ipv4<[u8; 20]>)) -> Vec<u8> {
        let mut h = Ipv4::build([192, 0, 2, 1].into(), [198, 51, 100, 2].into(), protocol, payload.len());
        h.set_dont_fragment(true);
        change(&mut h);
        h.fill_checksum();
        [&h.bytes()[..], payload].concat()
    }
    fn six(next: u8, payload: &[u8], change: impl FnOnce(&mut Ipv6<[u8; 40]>)) -> Vec<u8> {
        let a = |text: &str| text.parse().unwrap();
        let mut h = Ipv6::build(a("64:ff9b::c000:201"), a("64:ff9b::c633:6402"), next, payload.len() as u16);
        change(&mut h);
        [&h.bytes()[..], payload].concat()
    }
    /// Fills in the checksum at `at`.
    fn checked(mut t: Vec<u8>, pseudo: u16, at: usize) -> Vec<u8> {
        let check = !combine(pseudo, sum(&t));
        t[at..at + 2].copy_from_slice(&check.to_be_bytes());
        t
    }
    fn of4(packet: &[u8]) -> (Ipv4<&[u8; 20]>, &[u8]) {
        let (h, t) = Ipv4::split(packet).unwrap();
        assert!(h.verify_checksum() && usize::from(h.total_len()) == packet.len());
        (h, t)
    }
    fn of6(packet: &[u8]) -> (Ipv6<&[u8; 40]>, &[u8]) {
        let (h, t) = Ipv6::split(packet).unwrap();
        assert_eq!((h.version(), usize::from(h.payload_len())), (6, t.len()));
        (h, t)
    }
    fn is_right6(packet: &[u8]) -> bool {
        let (h, t) = of6(packet);
        combine(h.pseudo_sum(t.len() as u32), sum(t)) == 0xffff
    }
    fn is_right4(packet: &[u8]) -> bool {
        let (h, t) = of4(packet);
        let pseudo = if h.protocol() == 1 { 0 } else { h.pseudo_sum(t.len() as u16) };
        combine(pseudo, sum(t)) == 0xffff
    }
    fn to6() -> Bench {
        Bench::new("ProtocolTranslator46(PREFIX 64:ff9b::/96)")
    }
    fn to4() -> Bench {
        Bench::new("ProtocolTranslator64(PREFIX 64:ff9b::/96)")
    }
    fn one(bench: &mut Bench, bytes: &[u8]) -> Vec<u8> {
        let mut out = bench.push(0, bytes);
        assert_eq!(out.len(), 1, "{:?}", bench.drops());
        out.remove(0).1
    }
    /// The reason why a packet is dropped.
    fn dropped(declaration: &str, bytes: &[u8]) -> String {
        let mut bench = Bench::new(declaration);
        assert!(bench.push(0, bytes).is_empty());
        bench.drops()[0].0.clone()
    }

    /// A transport header and data of each protocol, without checksum, and where that is.
    fn transports(data: usize) -> Vec<(u8, Vec<u8>, usize)> {
        let data: Vec<u8> = (0..data).map(|n| n as u8).collect();
        let mut tcp = vec![0x12, 0x34, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x10, 1, 1, 0, 0, 0, 0];
        tcp.extend(&data);
        let mut udp = vec![0x12, 0x34, 0, 53, 0, 0, 0, 0];
        udp.extend(&data);
        let len = udp.len() as u16;
        udp[4..6].copy_from_slice(&len.to_be_bytes());
        vec![(6, tcp, 16), (17, udp, 6)]
    }

    #[test]
    fn both_ways_change_addresses_and_keep_checksums_right() {
        for n in [0, 1, 7, 100, 1201] {
            for (protocol, t, at) in transports(n) {
                let pseudo =
                    pseudo_v4([192, 0, 2, 1].into(), [198, 51, 100, 2].into(), protocol, t.len() as u16);
                let t = checked(t, pseudo, at);
                let bytes = four(protocol, &t, |h| {
                    h.set_tos(0xb9);
                    h.set_ttl(17);
                });
                let made = one(&mut to6(), &bytes);
                let (h, t6) = of6(&made);
                assert_eq!(h.src().to_string(), "64:ff9b::c000:201");
                assert_eq!(h.dst().to_string(), "64:ff9b::c633:6402");
                assert_eq!((h.traffic_class(), h.hop_limit(), h.next_header()), (0xb9, 17, protocol));
                assert_eq!(t6.len(), t.len());
                assert!(is_right6(&made), "{protocol} {n}");
                let back = one(&mut to4(), &made);
                assert!(is_right4(&back));
                assert_eq!(back[20..], bytes[20..]);
                let (a, b) = (of4(&back).0, of4(&bytes).0);
                assert_eq!((a.src(), a.dst(), a.tos(), a.ttl()), (b.src(), b.dst(), b.tos(), b.ttl()));
                // Packets that IPv6 may not be told to shorten may be fragmented.
                assert_eq!(a.dont_fragment(), back.len() > 1260);
            }
        }
    }

    #[test]
    fn pings() {
        for (n, kind4, kind6) in [(0, 8, 128), (9, 0, 129), (32, 8, 128)] {
            let mut message = vec![kind4, 0, 0, 0, 0x77, 1, 0, 5];
            message.extend(vec![0xab; n]);
            let bytes = four(1, &checked(message, 0, 2), |_| ());
            let made = one(&mut to6(), &bytes);
            assert_eq!((of6(&made).0.next_header(), of6(&made).1[0]), (58, kind6));
            assert!(is_right6(&made));
            let back = one(&mut to4(), &made);
            assert!(is_right4(&back));
            assert_eq!(back[20..], bytes[20..]);
        }
    }

    #[test]
    fn udp_without_checksum_gets_one() {
        let (_, t, _) = transports(5).remove(1);
        let made = one(&mut to6(), &four(17, &t, |_| ()));
        assert!(is_right6(&made) && of6(&made).1[6..8] != [0, 0]);
        // Padding of the link is no part of the datagram.
        let padded = [four(17, &t, |_| ()), vec![9; 20]].concat();
        assert_eq!(one(&mut to6(), &padded), made);
        let fragment = four(17, &t, |h| h.set_flags_fragment(ipv4::FLAG_MF));
        assert_eq!(dropped("ProtocolTranslator46", &fragment), "UDP fragment without checksum");
        let mut wrong = t.clone();
        wrong[5] = 200;
        assert_eq!(dropped("ProtocolTranslator46", &four(17, &wrong, |_| ())), "bad packet length");
    }

    #[test]
    fn fragments_have_a_fragment_header() {
        let later = four(17, &[7; 16], |h| {
            h.set_flags_fragment(ipv4::FLAG_MF | 185);
            h.set_id(0xbeef);
        });
        let made = one(&mut to6(), &later);
        let (h, rest) = of6(&made);
        assert_eq!(h.next_header(), 44);
        assert_eq!(rest[..FRAGMENT_LEN], [17, 0, 0x05, 0xc9, 0, 0, 0xbe, 0xef]);
        let back = one(&mut to4(), &made);
        let (h, rest) = of4(&back);
        assert_eq!((h.id(), h.flags_fragment(), rest), (0xbeef, ipv4::FLAG_MF | 185, &[7; 16][..]));
    }

    /// A packet without Don't Fragment is cut so that every link of IPv6 carries the pieces.
    #[test]
    fn long_packets_are_cut() {
        let (protocol, t, at) = transports(3000).remove(1);
        let pseudo = pseudo_v4([192, 0, 2, 1].into(), [198, 51, 100, 2].into(), protocol, t.len() as u16);
        let t = checked(t, pseudo, at);
        let mut bench = to6();
        let free = |h: &mut Ipv4<[u8; 20]>| {
            h.set_dont_fragment(false);
            h.set_id(9);
        };
        let out = bench.push(0, &four(protocol, &t, free));
        let mut whole = Vec::new();
        for (n, (_, piece)) in out.iter().enumerate() {
            let (h, rest) = of6(piece);
            assert!(piece.len() <= 1280 && h.next_header() == 44);
            assert_eq!(rest[4..8], [0, 0, 0, 9]);
            let place = u16::from_be_bytes([rest[2], rest[3]]);
            assert_eq!(usize::from(place & !7), whole.len());
            assert_eq!(place & 1 != 0, n + 1 < out.len());
            whole.extend_from_slice(&rest[8..]);
        }
        assert_eq!((out.len(), whole.len()), (3, t.len()));
        assert!(is_right6(&six(protocol, &whole, |_| ())));
        // With Don't Fragment it stays whole.
        assert_eq!(one(&mut to6(), &four(protocol, &t, |_| ())).len(), 40 + t.len());
    }

    #[test]
    fn errors_have_a_translated_packet_inside() {
        let about = |kind: u8, code: u8, rest: u32, inside: Vec<u8>| {
            let mut m = vec![kind, code, 0, 0];
            m.extend(rest.to_be_bytes());
            m.extend(inside);
            m
        };
        let (_, t, at) = transports(20).remove(1);
        let turned = |h: &mut Ipv4<[u8; 20]>| {
            let (src, dst) = (h.src(), h.dst());
            h.set_src(dst);
            h.set_dst(src);
        };
        let pseudo = pseudo_v4([198, 51, 100, 2].into(), [192, 0, 2, 1].into(), 17, t.len() as u16);
        let inside = four(17, &checked(t, pseudo, at), turned);
        for (kind, code, rest, want) in [
            (3, 0, 0, Some((1, 0, 0))),
            (3, 1, 0, Some((1, 0, 0))),
            (3, 2, 0, Some((4, 1, 6))),
            (3, 3, 0, Some((1, 4, 0))),
            (3, 4, 1400, Some((2, 0, 1420))),
            (3, 4, 600, Some((2, 0, 1280))),
            (3, 4, 0, Some((2, 0, 1280))),
            (3, 10, 0, Some((1, 1, 0))),
            (3, 13, 0, Some((1, 1, 0))),
            (3, 14, 0, None),
            (4, 0, 0, None),
            (5, 1, 0, None),
            (11, 0, 0, Some((3, 0, 0))),
            (11, 1, 0, Some((3, 1, 0))),
            (12, 0, 8 << 24, Some((4, 0, 7))),
            (12, 0, 16 << 24, Some((4, 0, 24))),
            (12, 0, 5 << 24, None),
            (12, 1, 0, None),
        ] {
            let mut message = about(kind, code, rest, inside.clone());
            icmpv4::fill(&mut message);
            let bytes = four(1, &message, |_| ());
            let out = to6().push(0, &bytes);
            assert_eq!(out.len(), usize::from(want.is_some()), "{kind} {code}");
            let Some((kind6, code6, rest6)) = want else { continue };
            let (h, m) = of6(&out[0].1);
            assert!(icmpv6::verify(h.pseudo_sum(m.len() as u32), m));
            let rest = u32::from_be_bytes([m[4], m[5], m[6], m[7]]);
            assert_eq!((m[0], m[1], rest), (kind6, code6, rest6), "{kind} {code}");
            // The packet inside is one, from where the error goes to.
            assert!(is_right6(&m[8..]));
            assert_eq!((of6(&m[8..]).0.src(), of6(&m[8..]).0.dst()), (h.dst(), h.src()));
        }
        // An error is cut to what every link carries; what is inside keeps its length.
        let long = four(17, &[1; 1400], turned);
        let mut message = about(11, 0, 0, long);
        icmpv4::fill(&mut message);
        let made = one(&mut to6(), &four(1, &message, |_| ()));
        assert_eq!((made.len(), &made[40 + 8 + 4..][..2]), (1280, &1400u16.to_be_bytes()[..]));
        // Only the packet inside is translated, not extensions behind it (RFC 4884).
        let mut padded = inside.clone();
        padded.resize(128, 0);
        padded.extend([0x20, 0, 0, 0, 0, 8, 1, 1, 0, 0, 0, 0]);
        let mut message = about(11, 0, 32 << 16, padded);
        icmpv4::fill(&mut message);
        let made = one(&mut to6(), &four(1, &message, |_| ()));
        assert_eq!(made.len(), 40 + 8 + 40 + 28);

        let turned = |h: &mut Ipv6<[u8; 40]>| {
            let (src, dst) = (h.src(), h.dst());
            h.set_src(dst);
            h.set_dst(src);
        };
        let mut ping = vec![128, 0, 0, 0, 1, 2, 3, 4];
        let pseudo = |n: usize, src: &str, dst: &str| {
            pseudo_v6(src.parse().unwrap(), dst.parse().unwrap(), 58, n as u32)
        };
        icmpv6::fill(pseudo(8, "64:ff9b::c633:6402", "64:ff9b::c000:201"), &mut ping);
        let inside = six(58, &ping, turned);
        for (kind, code, rest, want) in [
            (1, 0, 0, Some((3, 1, 0))),
            (1, 1, 0, Some((3, 10, 0))),
            (1, 4, 0, Some((3, 3, 0))),
            (1, 7, 0, None),
            (2, 0, 1400, Some((3, 4, 1380))),
            (2, 0, u32::MAX, Some((3, 4, 65535))),
            (3, 0, 0, Some((11, 0, 0))),
            (4, 0, 7, Some((12, 0, 8 << 24))),
            (4, 0, 40, None),
            (4, 1, 0, Some((3, 2, 0))),
            (4, 2, 0, None),
            (127, 0, 0, None),
            (135, 0, 0, None),
        ] {
            let mut message = about(kind, code, rest, inside.clone());
            icmpv6::fill(pseudo(message.len(), "64:ff9b::c000:201", "64:ff9b::c633:6402"), &mut message);
            let out = to4().push(0, &six(58, &message, |_| ()));
            assert_eq!(out.len(), usize::from(want.is_some()), "{kind} {code}");
            let Some((kind4, code4, rest4)) = want else { continue };
            let (h, m) = of4(&out[0].1);
            assert!(icmpv4::verify(m));
            let rest = u32::from_be_bytes([m[4], m[5], m[6], m[7]]);
            assert_eq!((m[0], m[1], rest), (kind4, code4, rest4), "{kind} {code}");
            assert!(is_right4(&m[8..]) && m[28] == 8);
            assert_eq!((of4(&m[8..]).0.src(), of4(&m[8..]).0.dst()), (h.dst(), h.src()));
        }
    }

    #[test]
    fn extension_headers_are_left_out_or_refused() {
        let (_, t, at) = transports(4).remove(0);
        let a = |text: &str| text.parse().unwrap();
        let pseudo = pseudo_v6(a("64:ff9b::c000:201"), a("64:ff9b::c633:6402"), 6, t.len() as u32);
        let t = checked(t, pseudo, at);
        let options = |next: u8, left: u8, t: &[u8]| [&[next, 0, 0, left, 1, 2, 0, 0][..], t].concat();
        for first in [0, 43, 60] {
            let made = one(&mut to4(), &six(first, &options(6, 0, &t), |_| ()));
            assert!(is_right4(&made) && of4(&made).0.protocol() == 6);
        }
        let class = "ProtocolTranslator64";
        let mapped = |next: u8, t: &[u8]| {
            six(next, t, |h| {
                h.set_src("::ffff:1.2.3.4".parse().unwrap());
                h.set_dst("::5.6.7.8".parse().unwrap());
            })
        };
        assert_eq!(dropped(class, &mapped(43, &options(6, 1, &t))), "source route");
        assert_eq!(dropped(class, &mapped(0, &options(0, 0, &[0; 80]))), "not to be translated");
        assert_eq!(dropped(class, &mapped(0, &[6, 9, 0, 0, 0, 0, 0, 0])), "bad IP length");
        assert_eq!(dropped(class, &mapped(6, &t[..17])), "not to be translated");
        assert_eq!(dropped(class, &six(6, &t, |_| ())), "address not to be translated");
        assert_eq!(of4(&one(&mut Bench::new(class), &mapped(6, &t))).0.dst().to_string(), "5.6.7.8");
        // IPv4 numbers that would be extension headers, a source route, and a source that is no host.
        for number in [0, 43, 44, 58, 59, 60] {
            assert_eq!(dropped("ProtocolTranslator46", &four(number, &t, |_| ())), "not to be translated");
        }
        let mut routed = four(6, &[&[131, 7, 4, 9, 9, 9, 9, 0][..], &t].concat(), |h| h.set_header_len(28));
        assert_eq!(dropped("ProtocolTranslator46", &routed), "source route");
        routed[22] = 8;
        assert!(!to6().push(0, &routed).is_empty());
        let bad = four(6, &t, |h| h.set_src([224, 0, 0, 1].into()));
        assert_eq!(dropped("ProtocolTranslator46", &bad), "address not to be translated");
    }

    /// Whatever comes in, it is sent or counted, and what is sent is a packet.
    #[test]
    fn any_packet_is_survived() {
        let mut x = 0x2468_ace1u32;
        let mut random = move |n: usize| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) as usize % n
        };
        let (mut to6, mut to4) = (to6(), to4());
        for _ in 0..20_000 {
            let payload: Vec<u8> = (0..random(120))
                .map(|_| [0, 1, 3, 4, 8, 11, 44, 58, 0x45, 0x60, random(256)][random(11)] as u8)
                .collect();
            let number = [0, 1, 6, 17, 43, 44, 58, 60][random(8)];
            let is6 = random(2) == 0;
            let mut bytes = if is6 { six(number, &payload, |_| ()) } else { four(number, &payload, |_| ()) };
            for _ in 0..random(3) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            bytes.truncate(bytes.len() - random(2) * random(bytes.len()));
            let bench = if is6 { &mut to4 } else { &mut to6 };
            let before: u64 = bench.drops().iter().map(|d| d.1).sum();
            let out = bench.push(0, &bytes);
            let after: u64 = bench.drops().iter().map(|d| d.1).sum();
            assert!(after - before + out.len() as u64 >= 1);
            for (_, made) in &out {
                if is6 {
                    let _ = of4(made);
                } else {
                    let _ = of6(made);
                }
            }
        }
    }
}
