//! The fields of a packet.
//!
//! [`read`] goes from the Ethernet header inwards, one header after the other. It stops at the first one that
//! is not whole or that it does not know; what it has found until then is in the [`Key`], and all other
//! fields are 0. What is inside of a tunnel is not looked at.
//!
//! Packets may be cut off and may be made by an attacker: any bytes give a key, after a bounded number of
//! steps.

use crate::key::{Field, Key, Layer};

/// Types of Ethernet's payload (IEEE 802.3, the numbers are IANA's).
mod kind {
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const IPV6: u16 = 0x86dd;
    /// VLAN tags: 802.1Q, 802.1ad, and the outer tags of older switches.
    pub const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    pub const MPLS: u16 = 0x8847;
    /// MPLS with labels that the upstream router assigned (RFC 5332).
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    pub const PPPOE_DISCOVERY: u16 = 0x8863;
    pub const PPPOE_SESSION: u16 = 0x8864;
}

/// Protocols of IP, and extension headers of IPv6 (IANA's numbers).
mod protocol {
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const ESP: u8 = 50;
    pub const AH: u8 = 51;
    pub const ICMP6: u8 = 58;
    pub const DESTINATION_OPTIONS: u8 = 60;
    pub const L2TP: u8 = 115;
    pub const SCTP: u8 = 132;
}

/// Ports of UDP that tunnels have.
mod port {
    pub const GTPU: u16 = 2152;
    pub const VXLAN: u16 = 4789;
    pub const GENEVE: u16 = 6081;
}

/// So many extension headers of IPv6 are looked through.
const MOST_EXTENSIONS: usize = 8;
/// The bits of IPv4's fragment field that are the offset (RFC 791, section 3.1).
const OFFSET: u16 = 0x1fff;
/// The bit there that says that more fragments follow.
const MORE_FRAGMENTS: u16 = 0x2000;

/// The fields of an Ethernet frame, of which these bytes are at hand. `Mark`, `Meta` and `Tag` are 0.
///
/// GRE without a key has 0 in `Session`.
///
/// Bytes after the end of the packet that IP's header tells do not count. No checksum is verified, and of
/// other lengths (PPPoE, UDP) none is looked at.
#[must_use]
#[inline]
pub fn read(frame: &[u8]) -> Key {
    let mut key = Key::default();
    read_into(&mut key, frame);
    key
}

/// [`read`] into a key that may be anything.
#[inline]
pub fn read_into(key: &mut Key, frame: &[u8]) {
    *key = Key::default();
    if !plain(key, frame) {
        *key = Key::default();
        general(key, frame);
    }
}

/// [`read`], and what earlier rules have set: MARK, META and TAG 0.
#[must_use]
#[inline]
pub fn read_with(frame: &[u8], mark: u32, meta: u32, tag: u32) -> Key {
    let mut key = read(frame);
    key.set(Field::Mark, mark.into());
    key.set(Field::Meta, meta.into());
    key.set(Field::Tag, tag.into());
    key
}

/// The fields of what most packets are: Ethernet, IPv4 without options, TCP or UDP that is no tunnel. It
/// looks at the length once or twice instead of at each header. Returns false if [`general`] has to look.
#[inline]
fn plain(key: &mut Key, frame: &[u8]) -> bool {
    let Some((head, after)) = frame.split_first_chunk::<42>() else { return false };
    let Some((ethernet, rest)) = head.split_first_chunk::<14>() else { return false };
    let Some((ip, transport)) = rest.split_first_chunk::<20>() else { return false };
    let Some(transport) = transport.first_chunk::<8>() else { return false };
    let later = be16::<6, 20>(ip) & OFFSET != 0;
    if be16::<12, 14>(ethernet) != kind::IPV4 || ip[0] != 0x45 || later {
        return false;
    }
    set_ethernet(key, ethernet);
    set_ipv4(key, ip);
    set_ports(key, be32::<0, 8>(transport));
    match (ip[9], be16::<2, 20>(ip)) {
        (protocol::UDP, 28..) if tunnel(be16::<2, 8>(transport)).is_none() => add(key, Layer::Udp),
        // The flags are byte 13 of TCP's header, of which `head` has 8.
        (protocol::TCP, 40..) => match after.get(5).filter(|_| after.len() >= 12) {
            Some(flags) => set_tcp(key, *flags),
            None => return false,
        },
        _ => return false,
    }
    true
}

/// The fields of any frame, into a key without any.
fn general(key: &mut Key, frame: &[u8]) {
    let Some((head, rest)) = frame.split_first_chunk::<14>() else { return };
    set_ethernet(key, head);
    let (kind, rest) = vlan(key, be16::<12, 14>(head), rest);
    match kind {
        kind::IPV4 => ipv4(key, rest),
        kind::IPV6 => ipv6(key, rest),
        kind::ARP => arp(key, rest),
        kind::MPLS | kind::MPLS_UPSTREAM => mpls(key, rest),
        kind::PPPOE_DISCOVERY | kind::PPPOE_SESSION => pppoe(key, kind, rest),
        _ => (),
    }
}

/// Up to two VLAN tags (IEEE 802.1Q, section 9). Returns the type after them, and what it is the type of.
fn vlan<'a>(key: &mut Key, mut kind: u16, mut rest: &'a [u8]) -> (u16, &'a [u8]) {
    let outer = (Layer::Vlan, Field::VlanTci, Field::VlanType);
    let inner = (Layer::InnerVlan, Field::InnerVlanTci, Field::InnerVlanType);
    for (layer, tci, its_type) in [outer, inner] {
        if !kind::VLAN.contains(&kind) {
            break;
        }
        let Some((tag, after)) = rest.split_first_chunk::<4>() else { break };
        (kind, rest) = (be16::<2, 4>(tag), after);
        add(key, layer);
        key.set(tci, be16::<0, 4>(tag).into());
        key.set(its_type, kind.into());
    }
    (kind, rest)
}

/// PPPoE (RFC 2516, section 4), and IP in a session: the PPP protocol is in the first two bytes.
fn pppoe(key: &mut Key, kind: u16, bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<6>() else { return };
    // Version 1, type 1; of others nothing is known.
    if head[0] != 0x11 {
        return;
    }
    add(key, Layer::Pppoe);
    key.set(Field::PppoeSession, be16::<2, 6>(head).into());
    match rest.split_first_chunk::<2>() {
        Some(([0x00, 0x21], ip)) if kind == kind::PPPOE_SESSION => ipv4(key, ip),
        Some(([0x00, 0x57], ip)) if kind == kind::PPPOE_SESSION => ipv6(key, ip),
        _ => (),
    }
}

/// The first label of MPLS (RFC 3032, section 2.1). No type says what is after the last label: the first four
/// bits are taken for IP's version, as routers do (RFC 4928, section 2).
fn mpls(key: &mut Key, bytes: &[u8]) {
    let Some((entry, rest)) = bytes.split_first_chunk::<4>() else { return };
    let entry = u32::from_be_bytes(*entry);
    add(key, Layer::Mpls);
    key.set(Field::MplsLabel, u64::from(entry >> 12));
    key.set(Field::MplsClass, u64::from(entry >> 9));
    key.set(Field::MplsBottom, u64::from(entry >> 8));
    key.set(Field::MplsTtl, u64::from(entry));
    match rest.first() {
        Some(first) if entry & 0x100 != 0 && first >> 4 == 4 => ipv4(key, rest),
        Some(first) if entry & 0x100 != 0 && first >> 4 == 6 => ipv6(key, rest),
        _ => (),
    }
}

/// ARP (RFC 826) for addresses of Ethernet (type 1, 6 bytes) and of IPv4 (0x0800, 4 bytes).
fn arp(key: &mut Key, bytes: &[u8]) {
    let Some(arp) = bytes.first_chunk::<28>() else { return };
    if be32::<0, 28>(arp) != 0x0001_0800 || be16::<4, 28>(arp) != 0x0604 {
        return;
    }
    add(key, Layer::Arp);
    key.set(Field::IcmpType, arp[6].into());
    key.set(Field::IcmpCode, arp[7].into());
    key.set(Field::SrcLow, be32::<14, 28>(arp).into());
    key.set(Field::DstLow, be32::<24, 28>(arp).into());
}

/// IPv4 (RFC 791, section 3.1), and what is in it.
fn ipv4(key: &mut Key, bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<20>() else { return };
    let length = usize::from(head[0] & 0xf) * 4;
    if head[0] >> 4 != 4 || length < 20 {
        return;
    }
    let end = bytes.len().min(be16::<2, 20>(head).into());
    // None if the header is not whole, or longer than the packet.
    let Some(body) = bytes.get(length..end) else { return };
    set_ipv4(key, head);
    if be16::<6, 20>(head) & OFFSET == 0 {
        transport(key, Layer::Ipv4, head[9], body);
    }
}

/// IPv6 (RFC 8200, section 3), and what is in it. A length of 0 is that of a jumbogram (RFC 2675, section 3),
/// or is filled in by hardware later.
fn ipv6(key: &mut Key, bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<40>() else { return };
    if head[0] >> 4 != 6 {
        return;
    }
    let first = be32::<0, 40>(head);
    add(key, Layer::Ipv6);
    key.set(Field::Tos, u64::from(first >> 20));
    key.set(Field::FlowLabel, first.into());
    key.set(Field::Ttl, head[7].into());
    key.set(Field::SrcHigh, be64::<8, 40>(head));
    key.set(Field::SrcLow, be64::<16, 40>(head));
    key.set(Field::DstHigh, be64::<24, 40>(head));
    key.set(Field::DstLow, be64::<32, 40>(head));
    let body = match usize::from(be16::<4, 40>(head)) {
        0 => rest,
        length => rest.get(..length).unwrap_or(rest),
    };
    let (next, body) = extensions(key, head[6], body);
    key.set(Field::Proto, next.into());
    transport(key, Layer::Ipv6, next, body);
}

/// Looks through IPv6's extension headers (RFC 8200, section 4). Returns the next header after them, and its
/// bytes: none in a later fragment. If an extension header is not whole, is the second fragment header, or is
/// one too many, the next header is its own number.
fn extensions<'a>(key: &mut Key, mut next: u8, mut rest: &'a [u8]) -> (u8, &'a [u8]) {
    let mut fragment = false;
    for _ in 0..MOST_EXTENSIONS {
        let Some(head) = rest.first_chunk::<8>() else { break };
        let length = match next {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                8 + 8 * usize::from(head[1])
            }
            protocol::FRAGMENT if !fragment => 8,
            _ => break,
        };
        let Some(after) = rest.get(length..) else { break };
        if next == protocol::FRAGMENT {
            fragment = true;
            if set_fragment(key, be16::<2, 8>(head)) {
                return (head[0], &[]);
            }
        }
        (next, rest) = (head[0], after);
    }
    (next, rest)
}

/// Sets the fragment field from that of IPv6's fragment header (RFC 8200, section 4.5), which has the offset
/// first and the flag last. Returns whether it is a later fragment.
fn set_fragment(key: &mut Key, field: u16) -> bool {
    let more = if field & 1 != 0 { MORE_FRAGMENTS } else { 0 };
    let offset = field >> 3;
    key.set(Field::Fragment, u64::from(more | offset));
    offset != 0
}

/// What is in IP: `ip` tells which version it is. A protocol that is not known has no layer.
fn transport(key: &mut Key, ip: Layer, protocol: u8, bytes: &[u8]) {
    match (ip, protocol) {
        (_, protocol::TCP) => tcp(key, bytes),
        (_, protocol::UDP) => udp(key, bytes),
        (_, protocol::SCTP) => sctp(key, bytes),
        (Layer::Ipv4, protocol::ICMP) => icmp(key, Layer::Icmp, bytes),
        (Layer::Ipv6, protocol::ICMP6) => icmp(key, Layer::Icmp6, bytes),
        (_, protocol::GRE) => gre(key, bytes),
        (_, protocol::ESP) => esp(key, bytes),
        (_, protocol::AH) => ah(key, bytes),
        (_, protocol::L2TP) => l2tp(key, bytes),
        _ => (),
    }
}

/// TCP (RFC 9293, section 3.1), without its options.
fn tcp(key: &mut Key, bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<20>() else { return };
    set_ports(key, be32::<0, 20>(head));
    set_tcp(key, head[13]);
}

/// UDP (RFC 768), and the header of a tunnel in it.
fn udp(key: &mut Key, bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else { return };
    add(key, Layer::Udp);
    set_ports(key, be32::<0, 8>(head));
    let Some(layer) = tunnel(be16::<2, 8>(head)) else { return };
    let Some(head) = rest.first_chunk::<8>() else { return };
    add(key, layer);
    // The second word: a TEID (3GPP TS 29.281, section 5.1), or a VNI and a reserved byte.
    let word = be32::<4, 8>(head);
    let session = if layer == Layer::Gtpu { word } else { word >> 8 };
    key.set(Field::Session, session.into());
}

/// The tunnel that has this port of UDP.
#[inline]
fn tunnel(port: u16) -> Option<Layer> {
    match port {
        port::GTPU => Some(Layer::Gtpu),
        port::VXLAN => Some(Layer::Vxlan),
        port::GENEVE => Some(Layer::Geneve),
        _ => None,
    }
}

/// SCTP's common header (RFC 9260, section 3.1).
fn sctp(key: &mut Key, bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<12>() else { return };
    add(key, Layer::Sctp);
    set_ports(key, be32::<0, 12>(head));
}

/// ICMP (RFC 792) or ICMPv6 (RFC 4443, section 2.1).
fn icmp(key: &mut Key, layer: Layer, bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<4>() else { return };
    add(key, layer);
    key.set(Field::IcmpType, head[0].into());
    key.set(Field::IcmpCode, head[1].into());
}

/// GRE (RFC 2784, section 2.1). The key (RFC 2890, section 2.1) is after the word of the checksum, which is
/// there too if RFC 1701's routing is.
fn gre(key: &mut Key, bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return };
    let flags = be16::<0, 4>(head);
    let rest = if flags & 0xc000 != 0 { rest.get(4..).unwrap_or_default() } else { rest };
    let its_key = rest.first_chunk::<4>().filter(|_| flags & 0x2000 != 0);
    add(key, Layer::Gre);
    key.set(Field::SessionType, be16::<2, 4>(head).into());
    key.set(Field::Session, its_key.map_or(0, |bytes| u32::from_be_bytes(*bytes)).into());
}

/// ESP (RFC 4303, section 2): the SPI and the sequence number.
fn esp(key: &mut Key, bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<8>() else { return };
    add(key, Layer::Esp);
    key.set(Field::Session, be32::<0, 8>(head).into());
}

/// The authentication header without the value that authenticates (RFC 4302, section 2).
fn ah(key: &mut Key, bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<12>() else { return };
    add(key, Layer::Ah);
    key.set(Field::Session, be32::<4, 12>(head).into());
}

/// L2TPv3 over IP (RFC 3931, section 4.1.1): the session is 0 in control messages.
fn l2tp(key: &mut Key, bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<4>() else { return };
    add(key, Layer::L2tpv3);
    key.set(Field::Session, be32::<0, 4>(head).into());
}

#[inline]
fn set_ethernet(key: &mut Key, head: &[u8; 14]) {
    key.set(Field::EthDst, be64::<0, 14>(head) >> 16);
    key.set(Field::EthSrc, be64::<6, 14>(head) >> 16);
    key.set(Field::EthType, be16::<12, 14>(head).into());
}

#[inline]
fn set_ipv4(key: &mut Key, head: &[u8; 20]) {
    add(key, Layer::Ipv4);
    key.set(Field::Tos, head[1].into());
    key.set(Field::Fragment, be16::<6, 20>(head).into());
    key.set(Field::Ttl, head[8].into());
    key.set(Field::Proto, head[9].into());
    key.set(Field::SrcLow, be32::<12, 20>(head).into());
    key.set(Field::DstLow, be32::<16, 20>(head).into());
}

/// Both ports: the first word of TCP, UDP and SCTP.
#[inline]
fn set_ports(key: &mut Key, word: u32) {
    key.set(Field::SrcPort, u64::from(word >> 16));
    key.set(Field::DstPort, word.into());
}

#[inline]
fn set_tcp(key: &mut Key, flags: u8) {
    add(key, Layer::Tcp);
    key.set(Field::TcpFlags, flags.into());
}

/// Says that the packet has this layer.
#[inline]
fn add(key: &mut Key, layer: Layer) {
    key.set(Field::Layers, key.get(Field::Layers) | layer.bit());
}

/// 16 bits at a place of a header that has `N` bytes; that they are in it, the compiler checks.
#[inline]
fn be16<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u16 {
    const { assert!(AT + 2 <= N) };
    u16::from_be_bytes([bytes[AT], bytes[AT + 1]])
}

/// 32 bits likewise.
#[inline]
fn be32<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    const { assert!(AT + 4 <= N) };
    u32::from_be_bytes([bytes[AT], bytes[AT + 1], bytes[AT + 2], bytes[AT + 3]])
}

/// 64 bits likewise.
#[inline]
fn be64<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u64 {
    const { assert!(AT + 8 <= N) };
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    u64::from(word(AT)) << 32 | u64::from(word(AT + 4))
}

#[cfg(test)]
mod tests;
