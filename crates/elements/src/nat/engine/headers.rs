//! What a translator reads and changes in packets: addresses, ports, checksums.
//!
//! Addresses and ports stay in the packets' own order of bytes; so does all arithmetic of checksums (RFC
//! 1071 §2(B)).

use crate::plumbing::engine::text;
use crate::prelude::*;
use std::fmt;
use std::net::Ipv4Addr;
use tables::flows::{Key, Tuple};
use wire::checksum::fold64;
use wire::{icmpv4, protocol, tcp};

const IP: usize = wire::ipv4::HEADER_LEN;
/// The version and the length of an IP header without options.
const PLAIN: u8 = 0x45;
/// What [`Key::kind`] is for TCP, UDP and pings.
pub(crate) const TCP: u8 = 1;
pub(crate) const UDP: u8 = 2;
pub(crate) const PING: u8 = 3;
/// The same where addresses alone are looked at: as for UDP, nothing is known of connections.
pub(crate) const ADDRESSES: u8 = UDP;
/// The least transport header whose packet is translated.
const LEAST_TRANSPORT: usize = 8;
/// How much of a TCP header must be there for its checksum to be changed.
const TO_CHECKSUM: usize = 18;

/// A flow's addresses and ports, as people write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowId {
    pub(crate) src: Ipv4Addr,
    pub(crate) sport: u16,
    pub(crate) dst: Ipv4Addr,
    pub(crate) dport: u16,
}

impl FlowId {
    pub(crate) fn to_tuple(self) -> Tuple {
        let [a, b] = self.sport.to_be_bytes();
        let [c, d] = self.dport.to_be_bytes();
        let address = |address: Ipv4Addr| u32::from_ne_bytes(address.octets());
        Tuple { src: address(self.src), dst: address(self.dst), ports: u32::from_ne_bytes([a, b, c, d]) }
    }
    pub(crate) fn of(tuple: Tuple) -> Self {
        let [a, b, c, d] = tuple.ports.to_ne_bytes();
        let address = |word: u32| Ipv4Addr::from(word.to_ne_bytes());
        Self {
            src: address(tuple.src),
            sport: u16::from_be_bytes([a, b]),
            dst: address(tuple.dst),
            dport: u16::from_be_bytes([c, d]),
        }
    }
}

impl FlowId {
    /// Reads `SADDR SPORT DADDR DPORT`.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let read = |words: &[&str]| {
            let [src, sport, dst, dport] = words else { return None };
            Some(Self {
                src: text::read(src).ok()?,
                sport: sport.parse().ok()?,
                dst: text::read(dst).ok()?,
                dport: dport.parse().ok()?,
            })
        };
        read(&words).ok_or_else(|| "expected 'SADDR SPORT DADDR DPORT'".to_owned())
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {}, {})", self.src, self.sport, self.dst, self.dport)
    }
}

#[inline(always)]
fn word<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    bytes.get(AT..AT + 4).and_then(|w| w.first_chunk()).map_or(0, |w| u32::from_ne_bytes(*w))
}

#[inline(always)]
fn set_word<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u32) {
    if let Some(w) = bytes.get_mut(AT..AT + 4).and_then(|w| w.first_chunk_mut()) {
        *w = value.to_ne_bytes();
    }
}

/// The kind of a transport protocol.
#[inline(always)]
fn kind(number: u8) -> u8 {
    match number {
        protocol::TCP => TCP,
        protocol::UDP => UDP,
        _ => 0,
    }
}

/// By what the flow of a packet is found. The kind is 0 for a packet that no translator changes: another
/// protocol, a fragment that is not the first, one with less than 8 bytes after the IP header.
#[inline(always)]
pub(crate) fn key(packet: &Packet) -> Key {
    if let Some(h) = packet.network_header_chunk::<{ IP + LEAST_TRANSPORT }>()
        && h[0] == PLAIN
    {
        let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x1fff != 0;
        let short = usize::from(u16::from_be_bytes([h[2], h[3]])) < IP + LEAST_TRANSPORT;
        let kind = if fragment || short { 0 } else { kind(h[9]) };
        let tuple = Tuple { src: word::<12, _>(h), dst: word::<16, _>(h), ports: word::<20, _>(h) };
        return Key { tuple, kind };
    }
    with_options(packet).unwrap_or_default()
}

#[cold]
fn with_options(packet: &Packet) -> Option<Key> {
    let bytes = packet.network_header()?;
    let h = bytes.first_chunk::<IP>()?;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]])).min(bytes.len());
    let rest = bytes.get(usize::from(h[0] & 15) * 4..total)?;
    if h[0] & 15 < 5 || rest.len() < LEAST_TRANSPORT || u16::from_be_bytes([h[6], h[7]]) & 0x1fff != 0 {
        return None;
    }
    let ports = u32::from_ne_bytes(*rest.first_chunk()?);
    Some(Key { tuple: Tuple { src: word::<12, _>(h), dst: word::<16, _>(h), ports }, kind: kind(h[9]) })
}

/// By what the flow of a ping is found: the identifier is the source port of a request and the destination
/// port of a reply, and the other port is 0. The kind is 0 for any other packet.
#[inline]
pub(crate) fn ping_key(packet: &Packet) -> Key {
    ping_parts(packet).unwrap_or_default()
}

fn ping_parts(packet: &Packet) -> Option<Key> {
    let bytes = packet.network_header()?;
    let h = bytes.first_chunk::<IP>()?;
    let icmp = bytes.get(usize::from(h[0] & 15) * 4..)?.first_chunk::<LEAST_TRANSPORT>()?;
    let later_fragment = u16::from_be_bytes([h[6], h[7]]) & 0x1fff != 0;
    if h[0] & 15 < 5 || h[9] != protocol::ICMP || later_fragment {
        return None;
    }
    let ports = match icmp[0] {
        icmpv4::ECHO => [icmp[4], icmp[5], 0, 0],
        icmpv4::ECHO_REPLY => [0, 0, icmp[4], icmp[5]],
        _ => return None,
    };
    let tuple = Tuple { src: word::<12, _>(h), dst: word::<16, _>(h), ports: u32::from_ne_bytes(ports) };
    Some(Key { tuple, kind: PING })
}

/// Gives a ping whose flow was found by `key` the addresses and the identifier of `to`.
pub(crate) fn translate_ping(packet: &mut Packet, key: &Key, to: &Tuple) -> Option<()> {
    let from = &key.tuple;
    let bytes = packet.network_header_mut()?;
    let h = bytes.first_chunk_mut::<IP>()?;
    rewrite(h, to, change(from.src, to.src) + change(from.dst, to.dst));
    let (header, total) = (usize::from(h[0] & 15) * 4, usize::from(u16::from_be_bytes([h[2], h[3]])));
    let icmp = bytes.get_mut(header..)?.first_chunk_mut::<LEAST_TRANSPORT>()?;
    // Of both ports one is 0, before and after, so that only the identifier counts.
    [icmp[2], icmp[3]] = adjusted([icmp[2], icmp[3]], change(from.ports, to.ports));
    let [a, b, c, d] = to.ports.to_ne_bytes();
    [icmp[4], icmp[5]] = if icmp[0] == icmpv4::ECHO { [a, b] } else { [c, d] };
    if [icmp[2], icmp[3]] == [0, 0] {
        // The sum of a message that is all zero is +0, the only one that is (RFC 1624 §3).
        let end = total.min(bytes.len());
        let message = bytes.get_mut(header..end)?;
        if message.iter().all(|byte| *byte == 0) {
            message.get_mut(2..4)?.fill(255);
        }
    }
    Some(())
}

/// The protocol of a packet that is no later fragment, and the length of its IP header.
pub(super) fn header_of(packet: &Packet) -> Option<(u8, usize)> {
    let h = packet.network_header_chunk::<IP>()?;
    let header = usize::from(h[0] & 15) * 4;
    let first = u16::from_be_bytes([h[6], h[7]]) & 0x1fff == 0;
    (header >= IP && first).then_some((h[9], header))
}

/// The addresses of a packet of any protocol; the kind is 0 for what is no packet.
#[inline]
pub(crate) fn address_key(packet: &Packet) -> Key {
    match packet.network_header_chunk::<IP>() {
        Some(h) if h[0] & 15 >= 5 => {
            let tuple = Tuple { src: word::<12, _>(h), dst: word::<16, _>(h), ports: 0 };
            Key { tuple, kind: ADDRESSES }
        }
        _ => Key::default(),
    }
}

/// Gives a packet other addresses, also a later fragment. `None` if it has no transport header to change.
pub(crate) fn translate_addresses(packet: &mut Packet, to: &Tuple) -> Option<()> {
    let transport = header_of(packet);
    let bytes = packet.network_header_mut()?;
    let h = bytes.first_chunk_mut::<IP>()?;
    let addresses = change(word::<12, _>(h), to.src) + change(word::<16, _>(h), to.dst);
    rewrite(h, to, addresses);
    let (number, header) = transport?;
    let rest = bytes.get_mut(header..)?;
    match number {
        protocol::TCP => {
            let h = rest.first_chunk_mut::<TO_CHECKSUM>()?;
            [h[16], h[17]] = adjusted([h[16], h[17]], addresses);
        }
        protocol::UDP => {
            let h = rest.first_chunk_mut::<LEAST_TRANSPORT>()?;
            [h[6], h[7]] = adjusted_udp([h[6], h[7]], addresses);
        }
        _ => {}
    }
    Some(())
}

/// What must be added to the complement of a checksum when one word takes the place of another (RFC 1624
/// equation 3).
#[inline(always)]
pub(super) fn change(from: u32, to: u32) -> u64 {
    u64::from(!from) + u64::from(to)
}

#[inline(always)]
pub(super) fn adjusted(check: [u8; 2], sum: u64) -> [u8; 2] {
    let old = u16::from_ne_bytes(check);
    (!fold64(u64::from(!old) + sum)).to_ne_bytes()
}

/// The same for UDP, where 0 is no checksum (RFC 768): it stays 0, and one that becomes 0 is written as -0.
#[inline(always)]
pub(super) fn adjusted_udp(check: [u8; 2], sum: u64) -> [u8; 2] {
    match adjusted(check, sum) {
        _ if check == [0, 0] => check,
        [0, 0] => [255, 255],
        adjusted => adjusted,
    }
}

/// What a packet says of its TCP connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct Segment {
    /// Its flags, or 0 if it is not TCP.
    pub(crate) flags: u8,
    /// Whether it has data.
    pub(crate) data: bool,
}

/// Gives a packet whose flow was found by `key` the addresses and ports `to`.
#[inline(always)]
pub(crate) fn translate(packet: &mut Packet, key: &Key, to: &Tuple) -> Segment {
    let from = &key.tuple;
    let addresses = change(from.src, to.src) + change(from.dst, to.dst);
    let all = addresses + change(from.ports, to.ports);
    if let Some(h) = packet.network_header_chunk_mut::<{ IP + tcp::HEADER_LEN }>()
        && h[0] == PLAIN
        && h[9] == protocol::TCP
    {
        rewrite(h, to, addresses);
        set_word::<20, _>(h, to.ports);
        [h[36], h[37]] = adjusted([h[36], h[37]], all);
        let headers = IP + usize::from(h[32] >> 4) * 4;
        return Segment { flags: h[33], data: usize::from(u16::from_be_bytes([h[2], h[3]])) > headers };
    }
    if let Some(h) = packet.network_header_chunk_mut::<{ IP + LEAST_TRANSPORT }>()
        && h[0] == PLAIN
        && h[9] == protocol::UDP
    {
        rewrite(h, to, addresses);
        set_word::<20, _>(h, to.ports);
        [h[26], h[27]] = adjusted_udp([h[26], h[27]], all);
        return Segment::default();
    }
    unusual(packet, to, addresses, all).unwrap_or_default()
}

#[inline(always)]
fn rewrite<const N: usize>(h: &mut [u8; N], to: &Tuple, addresses: u64) {
    const { assert!(N >= IP) };
    set_word::<12, _>(h, to.src);
    set_word::<16, _>(h, to.dst);
    [h[10], h[11]] = adjusted([h[10], h[11]], addresses);
}

/// The same with options, or of a short TCP header.
#[cold]
fn unusual(packet: &mut Packet, to: &Tuple, addresses: u64, all: u64) -> Option<Segment> {
    let bytes = packet.network_header_mut()?;
    let h = bytes.first_chunk_mut::<IP>()?;
    rewrite(h, to, addresses);
    let (header, udp) = (usize::from(h[0] & 15) * 4, h[9] == protocol::UDP);
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    let rest = bytes.get_mut(header..)?;
    if udp {
        let h = rest.first_chunk_mut::<LEAST_TRANSPORT>()?;
        set_word::<0, _>(h, to.ports);
        [h[6], h[7]] = adjusted_udp([h[6], h[7]], all);
        return None;
    }
    set_word::<0, _>(rest.first_chunk_mut::<LEAST_TRANSPORT>()?, to.ports);
    let h = rest.first_chunk_mut::<TO_CHECKSUM>()?;
    [h[16], h[17]] = adjusted([h[16], h[17]], all);
    Some(Segment { flags: h[13], data: total > header + usize::from(h[12] >> 4) * 4 })
}
