//! Translating packets between the two versions of IP (RFC 7915): headers, checksums, ICMP messages and the
//! packets in these. [`see4`] and [`see6`] read a packet, the caller decides on the new addresses and ports,
//! and [`to6`] and [`to4`] make the new packets, [`error6`] and [`error4`] the new ICMP error.

use super::header::set_dst_ip6;
use crate::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::checksum::{Delta, pseudo_v4, pseudo_v6};
use wire::{Ipv4, Ipv6, icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp};

pub(crate) const SOURCE_ROUTE: DropReason = DropReason::new("source route");
pub(crate) const NOT_TRANSLATED: DropReason = DropReason::new("not to be translated");
pub(crate) const NO_CHECKSUM: DropReason = DropReason::new("UDP fragment without checksum");
pub(crate) const BAD_ADDRESS: DropReason = DropReason::new("address not to be translated");
const BAD_CHECKSUM: DropReason = DropReason::new("bad ICMP checksum");
/// The checksum of a translated error is computed anew, as the packet in it changes, and must not become
/// right by that.
pub(crate) const WRONG_ERROR: DropCase = BAD_CHECKSUM.when("the checksum over an ICMP error is wrong");

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
    /// What distinguishes the fragments of one packet from those of others, besides their addresses:
    /// identification and protocol. `None` if it is no fragment.
    pub(crate) fn is_piece_of(&self) -> Option<(u32, u8)> {
        self.fragment.filter(|f| f.more || f.offset != 0).map(|f| (f.id, self.protocol))
    }
    /// The part of `bytes` that is the transport header and what follows it.
    fn transport<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.at..self.len.min(bytes.len())).unwrap_or_default()
    }
}

impl Seen<Ipv4Addr> {
    /// Whether it is the first fragment of a datagram without checksum, which IPv6 does not have: there it
    /// would be that of all fragments (RFC 7915 section 4.5).
    pub(crate) fn lacks_checksum(&self, bytes: &[u8]) -> bool {
        let is_fragment = self.kind == Kind::Udp && self.fragment.is_some();
        is_fragment && get(self.transport(bytes), UDP_CHECKSUM) == Some(0)
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

/// Makes an IPv6 packet from an IPv4 packet that is no ICMP error. One that may be fragmented and is longer
/// than `mtu` is cut into fragments. Headers are at the beginning, marked, and destinations annotated.
pub(crate) fn to6(
    mut packet: Packet,
    seen: &Seen<Ipv4Addr>,
    to: &Ends<Ipv6Addr>,
    mtu: usize,
    mut each: impl FnMut(Result<Packet, Refused>),
) {
    if let Err(why) = rewrite_for_6(&mut packet, seen, to) {
        return each(Err((Some(packet), why)));
    }
    let payload = seen.len.saturating_sub(seen.at);
    let header = Header6::of(seen, to, seen.fragment, payload);
    let len = header.bytes().len() + payload;
    if len > mtu && !seen.dont_fragment {
        return fragments(&packet, seen, to, mtu, each);
    }
    // A buffer has no more, nor has a packet without jumbograms (RFC 2675) much more.
    if len > usize::from(u16::MAX) {
        return each(Err((Some(packet), drops::PACKET_TOO_LONG)));
    }
    each(replace_header(packet, (seen.at, seen.len), header.bytes()).map(|mut packet| {
        mark6(&mut packet, to.dst, header.bytes().len());
        packet
    }));
}

/// Rewrites the transport header of an IPv4 packet as it is in IPv6.
fn rewrite_for_6(packet: &mut Packet, seen: &Seen<Ipv4Addr>, to: &Ends<Ipv6Addr>) -> Result<(), DropReason> {
    if seen.lacks_checksum(packet.data()) {
        return Err(NO_CHECKSUM);
    }
    let sums = sums(seen, &seen.ends, to);
    let t = packet.data_mut().get_mut(seen.at..seen.len).unwrap_or_default();
    rewrite(t, seen.kind, sums, (to.sport, to.dport), [icmpv6::ECHO, icmpv6::ECHO_REPLY]);
    if seen.kind == Kind::Udp && get(t, UDP_CHECKSUM) == Some(0) {
        // IPv6 has no UDP without checksum (RFC 7915 section 4.5).
        let len = usize::from(get(t, 4).unwrap_or(0));
        let datagram = t.get_mut(..len).filter(|d| d.len() >= udp::HEADER_LEN);
        let datagram = datagram.ok_or(drops::BAD_PACKET_LENGTH)?;
        udp::fill(pseudo_v6(to.src, to.dst, protocol::UDP, len as u32), datagram);
    }
    Ok(())
}

/// Cuts an IPv4 packet, whose transport header has been rewritten, into fragments of IPv6.
fn fragments(
    packet: &Packet,
    seen: &Seen<Ipv4Addr>,
    to: &Ends<Ipv6Addr>,
    mtu: usize,
    mut each: impl FnMut(Result<Packet, Refused>),
) {
    let payload = seen.transport(packet.data());
    let step = (mtu.saturating_sub(ipv6::HEADER_LEN + FRAGMENT_LEN) & !7).max(8);
    let whole = seen.fragment.unwrap_or(Fragment { id: seen.id.into(), offset: 0, more: false });
    let pieces = payload.len().div_ceil(step);
    for (n, piece) in payload.chunks(step).enumerate() {
        let offset = whole.offset.saturating_add((n * step / 8) as u16);
        let fragment = Fragment { offset, more: whole.more || n + 1 < pieces, ..whole };
        let header = Header6::of(seen, to, Some(fragment), piece.len());
        let made = assemble(packet, &[header.bytes(), piece]).map(|mut made| {
            mark6(&mut made, to.dst, header.bytes().len());
            made
        });
        each(made.ok_or((None, drops::OUT_OF_MEMORY)));
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
/// The error is not translated, or its checksum is wrong.
pub(crate) fn inside4<'a>(
    bytes: &'a [u8],
    seen: &Seen<Ipv4Addr>,
) -> Result<(Seen<Ipv4Addr>, &'a [u8]), DropReason> {
    let t = seen.transport(bytes);
    if !icmpv4::verify(t) {
        return Err(BAD_CHECKSUM);
    }
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
/// The error is not translated, or its checksum is wrong.
pub(crate) fn inside6<'a>(
    bytes: &'a [u8],
    seen: &Seen<Ipv6Addr>,
) -> Result<(Seen<Ipv6Addr>, &'a [u8]), DropReason> {
    let t = seen.transport(bytes);
    if !icmpv6::verify(pseudo_v6(seen.ends.src, seen.ends.dst, protocol::ICMPV6, t.len() as u32), t) {
        return Err(BAD_CHECKSUM);
    }
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

/// The same in the other direction (RFC 7915 section 5.2), for an error about a fragment or another packet.
fn error_in_4(t: &[u8], is_fragment: bool) -> Option<(u8, u8, u32)> {
    let h = wire::Icmpv6::new(t)?;
    let unreachable = |code| (icmpv4::UNREACHABLE, code, 0);
    Some(match (h.kind(), h.code()) {
        (icmpv6::UNREACHABLE, 0 | 2 | 3) => unreachable(icmpv4::UNREACHABLE_HOST),
        (icmpv6::UNREACHABLE, 1) => unreachable(10),
        (icmpv6::UNREACHABLE, 4) => unreachable(icmpv4::UNREACHABLE_PORT),
        (icmpv6::PACKET_TOO_BIG, _) => {
            // No link of IPv6 carries less. IPv4 has no header for fragments.
            let shorter = 20 + if is_fragment { FRAGMENT_LEN as u32 } else { 0 };
            let mtu = (h.rest().max(LEAST_MTU as u32) - shorter).min(u16::MAX.into());
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
    let (kind, code, rest) =
        error_in_4(seen.transport(packet.data()), inside.fragment.is_some()).ok_or(NOT_TRANSLATED)?;
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
mod tests;
