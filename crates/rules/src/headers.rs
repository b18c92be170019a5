//! The fields of a frame: what its headers say, as far as they are there.
//!
//! A header counts only if it is whole. Nothing is read beyond the frame, and the work for a frame is
//! bounded: two VLAN tags, one MPLS label, eight IPv6 extension headers, one tunnel header.

use crate::key::{Field, Key, Layer};

/// Ethernet types.
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE: [u16; 2] = [DISCOVERY, 0x8864];
const DISCOVERY: u16 = 0x8863;
/// Those of VLAN tags (IEEE 802.1Q, 802.1ad, and what was used before 802.1ad).
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Protocols of IP.
const HOP_BY_HOP: u8 = 0;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const GRE: u8 = 47;
const ESP: u8 = 50;
const AH: u8 = 51;
const ICMP6: u8 = 58;
const DESTINATION: u8 = 60;
const L2TP: u8 = 115;
const SCTP: u8 = 132;

/// The most extension headers of IPv6 that are passed.
const MOST_EXTENSIONS: usize = 8;

/// What is left of a frame.
type Rest<'a> = &'a [u8];

/// The fields of an Ethernet frame. What it does not have is 0.
#[must_use]
#[inline]
pub fn read(frame: &[u8]) -> Key {
    let mut key = Key::default();
    // Too short: nothing is known of it.
    let _ = ethernet(frame, &mut key);
    key
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn has(key: &mut Key, layer: Layer) {
    key.set(Field::Layers, key.get(Field::Layers) | layer.bit());
}

fn ethernet(frame: Rest<'_>, key: &mut Key) -> Option<()> {
    let (header, rest) = frame.split_first_chunk::<14>()?;
    // Six bytes of each address are the upper ones of eight.
    let address = |at: usize| Some(u64::from_be_bytes(*header.get(at..)?.first_chunk()?) >> 16);
    let ether_type = u16_at(header, 12)?;
    key.0[0] = address(0)? | u64::from(ether_type) << 48;
    key.set(Field::EthSrc, address(6)?);
    let (mut ether_type, mut rest) = (ether_type, rest);
    let tags = [
        (Layer::Vlan, Field::VlanTci, Field::VlanType),
        (Layer::InnerVlan, Field::InnerVlanTci, Field::InnerVlanType),
    ];
    for (layer, tci, inner_type) in tags {
        if !TAGS.contains(&ether_type) {
            break;
        }
        let (tag, after) = rest.split_first_chunk::<4>()?;
        has(key, layer);
        key.set(tci, u16_at(tag, 0)?.into());
        (ether_type, rest) = (u16_at(tag, 2)?, after);
        key.set(inner_type, ether_type.into());
    }
    above(ether_type, rest, key)
}

/// What an Ethernet type says that follows.
fn above(ether_type: u16, rest: Rest<'_>, key: &mut Key) -> Option<()> {
    match ether_type {
        IPV4 => ipv4(rest, key),
        IPV6 => ipv6(rest, key),
        ARP => arp(rest, key),
        of if MPLS.contains(&of) => mpls(rest, key),
        of if PPPOE.contains(&of) => pppoe(of, rest, key),
        _ => None,
    }
}

/// PPPoE (RFC 2516, section 4): version and type, code, session, length; in a session the protocol of PPP.
fn pppoe(ether_type: u16, rest: Rest<'_>, key: &mut Key) -> Option<()> {
    let (header, rest) = rest.split_first_chunk::<6>()?;
    has(key, Layer::Pppoe);
    key.set(Field::PppoeSession, u16_at(header, 2)?.into());
    if ether_type == DISCOVERY {
        return None;
    }
    match u16_at(rest, 0)? {
        0x0021 => ipv4(rest.get(2..)?, key),
        0x0057 => ipv6(rest.get(2..)?, key),
        0x0281 => mpls(rest.get(2..)?, key),
        _ => None,
    }
}

/// MPLS (RFC 3032, section 2.1). What follows the bottom of the stack is known by its first four bits.
fn mpls(rest: Rest<'_>, key: &mut Key) -> Option<()> {
    let (entry, rest) = rest.split_first_chunk::<4>()?;
    let entry = u32::from_be_bytes(*entry);
    has(key, Layer::Mpls);
    key.set(Field::MplsLabel, (entry >> 12).into());
    key.set(Field::MplsClass, (entry >> 9).into());
    key.set(Field::MplsBottom, (entry >> 8).into());
    key.set(Field::MplsTtl, entry.into());
    if entry & 0x100 == 0 {
        return None;
    }
    match rest.first()? >> 4 {
        4 => ipv4(rest, key),
        6 => ipv6(rest, key),
        _ => None,
    }
}

/// ARP (RFC 826) for IPv4 over Ethernet.
fn arp(rest: Rest<'_>, key: &mut Key) -> Option<()> {
    let message = rest.first_chunk::<28>()?;
    if message.first_chunk::<6>()? != &[0, 1, 8, 0, 6, 4] {
        return None;
    }
    has(key, Layer::Arp);
    let operation = u16_at(message, 6)?;
    key.set(Field::IcmpType, (operation >> 8).into());
    key.set(Field::IcmpCode, operation.into());
    key.set(Field::SrcLow, u32_at(message, 14)?.into());
    key.set(Field::DstLow, u32_at(message, 24)?.into());
    Some(())
}

/// IPv4 (RFC 791, section 3.1). The checksum is not looked at.
fn ipv4(rest: Rest<'_>, key: &mut Key) -> Option<()> {
    let header = rest.first_chunk::<20>()?;
    let (first, total) = (*header.first()?, usize::from(u16_at(header, 2)?));
    let length = usize::from(first & 15) * 4;
    if first >> 4 != 4 || length < 20 || total < length || rest.len() < length {
        return None;
    }
    has(key, Layer::Ipv4);
    key.set(Field::SrcLow, u32_at(header, 12)?.into());
    key.set(Field::DstLow, u32_at(header, 16)?.into());
    key.set(Field::Tos, (*header.get(1)?).into());
    key.set(Field::Ttl, (*header.get(8)?).into());
    let (fragment, protocol) = (u16_at(header, 6)?, *header.get(9)?);
    key.set(Field::Fragment, fragment.into());
    key.set(Field::Proto, protocol.into());
    if fragment & 0x1fff != 0 {
        return None;
    }
    // What follows the packet is padding.
    transport(protocol, rest.get(length..total.min(rest.len()))?, key)
}

/// IPv6 (RFC 8200, section 3) and its extension headers (section 4).
fn ipv6(rest: Rest<'_>, key: &mut Key) -> Option<()> {
    let (header, all) = rest.split_first_chunk::<40>()?;
    let first = u32_at(header, 0)?;
    if first >> 28 != 6 {
        return None;
    }
    has(key, Layer::Ipv6);
    let part = |at: usize| Some(u64::from_be_bytes(*header.get(at..)?.first_chunk()?));
    for (at, field) in [(8, Field::SrcHigh), (16, Field::SrcLow), (24, Field::DstHigh), (32, Field::DstLow)] {
        key.set(field, part(at)?);
    }
    key.set(Field::Tos, (first >> 20).into());
    key.set(Field::FlowLabel, first.into());
    key.set(Field::Ttl, (*header.get(7)?).into());
    // A length of 0 is a jumbogram's (RFC 2675): all that is there belongs to it.
    let length = match usize::from(u16_at(header, 4)?) {
        0 => all.len(),
        length => length.min(all.len()),
    };
    let (mut next, mut rest) = (*header.get(6)?, all.get(..length)?);
    key.set(Field::Proto, next.into());
    for _ in 0..MOST_EXTENSIONS {
        let extension = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(*rest.get(1)?) + 1) * 8,
            FRAGMENT => 8,
            _ => return transport(next, rest, key),
        };
        let later = if next == FRAGMENT {
            let field = u16_at(rest, 2)?;
            // Offset, and whether there are more, where IPv4 has them.
            rest.get(..8)?;
            key.set(Field::Fragment, (field >> 3 | (field & 1) << 13).into());
            field >> 3 != 0
        } else {
            false
        };
        (next, rest) = (*rest.first()?, rest.get(extension..)?);
        key.set(Field::Proto, next.into());
        if later {
            return None;
        }
    }
    None
}

/// The header after that of IP, in a packet that is no later fragment.
fn transport(protocol: u8, rest: Rest<'_>, key: &mut Key) -> Option<()> {
    match protocol {
        TCP => {
            let header = rest.first_chunk::<20>()?;
            has(key, Layer::Tcp);
            ports(header, key);
            key.set(Field::TcpFlags, (*header.get(13)?).into());
            Some(())
        }
        UDP => {
            let (header, rest) = rest.split_first_chunk::<8>()?;
            has(key, Layer::Udp);
            ports(header, key);
            tunnel(u16_at(header, 2)?, rest, key)
        }
        SCTP => {
            let header = rest.first_chunk::<12>()?;
            has(key, Layer::Sctp);
            ports(header, key);
            Some(())
        }
        // Each belongs to its version of IP (RFC 792, RFC 4443).
        ICMP if key.get(Field::Layers) & Layer::Ipv4.bit() != 0 => icmp(Layer::Icmp, rest, key),
        ICMP6 if key.get(Field::Layers) & Layer::Ipv6.bit() != 0 => icmp(Layer::Icmp6, rest, key),
        ESP => {
            rest.first_chunk::<8>()?;
            session(Layer::Esp, u32_at(rest, 0)?, key)
        }
        AH => {
            // The length counts words of four bytes, less two (RFC 4302, section 2.2).
            let length = (usize::from(*rest.get(1)?) + 2) * 4;
            if length < 12 || rest.len() < length {
                return None;
            }
            session(Layer::Ah, u32_at(rest, 4)?, key)
        }
        GRE => gre(rest, key),
        L2TP => session(Layer::L2tpv3, u32_at(rest, 0)?, key),
        _ => None,
    }
}

fn ports(header: &[u8], key: &mut Key) {
    let all = u32_at(header, 0).unwrap_or_default();
    key.set(Field::SrcPort, (all >> 16).into());
    key.set(Field::DstPort, all.into());
}

fn icmp(layer: Layer, rest: Rest<'_>, key: &mut Key) -> Option<()> {
    let [kind, code, ..] = *rest.first_chunk::<4>()?;
    has(key, layer);
    key.set(Field::IcmpType, kind.into());
    key.set(Field::IcmpCode, code.into());
    Some(())
}

fn session(layer: Layer, number: u32, key: &mut Key) -> Option<()> {
    has(key, layer);
    key.set(Field::Session, number.into());
    Some(())
}

/// GRE (RFC 2784, RFC 2890): its key is there if the flag K is set, after the checksum if C is.
fn gre(rest: Rest<'_>, key: &mut Key) -> Option<()> {
    const CHECKSUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    rest.first_chunk::<4>()?;
    let flags = u16_at(rest, 0)?;
    let at = if flags & CHECKSUM != 0 { 8 } else { 4 };
    let number = if flags & KEY == 0 { None } else { Some(u32_at(rest, at)?) };
    has(key, Layer::Gre);
    key.set(Field::SessionType, u16_at(rest, 2)?.into());
    number.into_iter().for_each(|number| key.set(Field::Session, number.into()));
    Some(())
}

/// A tunnel over UDP, by the destination port.
fn tunnel(port: u16, rest: Rest<'_>, key: &mut Key) -> Option<()> {
    rest.first_chunk::<8>()?;
    match port {
        // RFC 7348, section 5; RFC 8926, section 3.4: 24 bits after four bytes.
        4789 => session(Layer::Vxlan, u32_at(rest, 4)? >> 8, key),
        6081 => session(Layer::Geneve, u32_at(rest, 4)? >> 8, key),
        // 3GPP TS 29.281, section 5.1.
        2152 => session(Layer::Gtpu, u32_at(rest, 4)?, key),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
