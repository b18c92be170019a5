//! Whether a frame that arrives is one of Valiant's measured frames, and whether it is damaged.

use crate::tag::Tag;
use wire::{Ethernet, Ipv6, UdpDatagram, Vlan, ethernet, ipv4, ipv6, protocol};

/// The result for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A measured frame, unchanged.
    Ours(Tag),
    /// A measured frame that was changed on its path.
    Damaged,
    /// Not a measured frame.
    Foreign,
}

/// Classifies a frame. With `check`, all checksums are verified; without, only headers are read.
/// Up to two VLAN tags, and IPv4 options, are skipped. A fragment is foreign.
#[must_use]
pub fn classify(frame: &[u8], check: bool) -> Frame {
    let Some((kind, packet)) = network(frame).and_then(|(kind, at)| Some((kind, frame.get(at..)?))) else {
        return Frame::Foreign;
    };
    match kind {
        ethernet::ETHERTYPE_IPV4 => classify_v4(packet, check),
        ethernet::ETHERTYPE_IPV6 => classify_v6(packet, check),
        _ => Frame::Foreign,
    }
}

/// What follows the Ethernet header and up to two VLAN tags, and where.
#[inline]
pub(crate) fn network(frame: &[u8]) -> Option<(u16, usize)> {
    let (eth, mut packet) = Ethernet::split(frame)?;
    let mut kind = eth.ethertype();
    for _ in 0..2 {
        if !matches!(kind, ethernet::ETHERTYPE_VLAN | ethernet::ETHERTYPE_QINQ) {
            break;
        }
        let (tag, rest) = Vlan::split(packet)?;
        (kind, packet) = (tag.ethertype(), rest);
    }
    Some((kind, frame.len() - packet.len()))
}

/// The tag behind a UDP header at `at`, whatever the lengths in the headers say.
fn tag_at(packet: &[u8], at: usize) -> Option<Tag> {
    packet.get(at + wire::udp::HEADER_LEN..).and_then(Tag::read)
}

fn classify_v4(packet: &[u8], check: bool) -> Frame {
    let Some(header) = wire::Ipv4::new(packet) else { return Frame::Foreign };
    if header.protocol() != protocol::UDP || header.is_fragment() {
        return Frame::Foreign;
    }
    let Some(tag) = tag_at(packet, header.header_len()) else { return Frame::Foreign };
    let Ok((header_len, total_len)) = ipv4::check(packet, check) else { return Frame::Damaged };
    let Some(datagram) = packet.get(header_len..total_len) else { return Frame::Damaged };
    judge(tag, datagram, check, |len| header.pseudo_sum(len))
}

fn classify_v6(packet: &[u8], check: bool) -> Frame {
    let Some((header, rest)) = Ipv6::split(packet) else { return Frame::Foreign };
    if header.next_header() != protocol::UDP {
        return Frame::Foreign;
    }
    let Some(tag) = tag_at(packet, ipv6::HEADER_LEN) else { return Frame::Foreign };
    let Some(datagram) = rest.get(..header.payload_len().into()) else { return Frame::Damaged };
    // A datagram over IPv6 without a checksum is not valid (RFC 8200 section 8.1).
    if header.version() != 6 || UdpDatagram::parse(datagram).is_none_or(|d| d.header().checksum() == 0) {
        return Frame::Damaged;
    }
    judge(tag, datagram, check, |len| header.pseudo_sum(len.into()))
}

/// The datagram must be all that the IP packet carries, and its checksum right.
#[inline]
fn judge(tag: Tag, datagram: &[u8], check: bool, pseudo: impl Fn(u16) -> u16) -> Frame {
    match UdpDatagram::parse(datagram) {
        Some(d) if usize::from(d.header().length()) == datagram.len() => {
            let good = !check || d.verify_checksum(pseudo(datagram.len() as u16));
            if good { Frame::Ours(tag) } else { Frame::Damaged }
        }
        _ => Frame::Damaged,
    }
}
