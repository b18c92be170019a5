//! Partial checksums.
//!
//! A Linux interface whose peer is on the same machine (veth, a TAP) hands over packets whose TCP or UDP
//! checksum the sender left to "the hardware": the field holds the sum of the pseudo-header only. A router
//! that sends such a packet out by another port has to complete it, and neither AF_XDP nor AF_PACKET reports
//! which packets those are, so they are recognized by that sum itself. A complete checksum that happens to
//! equal it stays the same when it is completed again.

use wire::checksum;
use wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN};
use wire::protocol::{TCP, UDP};

use crate::packet::Packet;

/// Completes the checksums of the TCP and UDP packets that hold only the pseudo-header's sum; returns how
/// many it did.
///
/// Packets begin with an Ethernet header, with up to two VLAN tags. IPv4 fragments and packets that are cut
/// short are left alone.
pub fn complete_partial_checksums(packets: &mut [Packet]) -> usize {
    packets.iter_mut().filter_map(|packet| complete(packet.data_mut())).count()
}

fn complete(frame: &mut [u8]) -> Option<()> {
    let mut ethertype = u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]);
    let mut network = 14;
    for _ in 0..2 {
        if matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ) {
            ethertype = u16::from_be_bytes([*frame.get(network + 2)?, *frame.get(network + 3)?]);
            network += 4;
        }
    }
    let datagram = frame.get_mut(network..)?;
    let (protocol, pseudo, segment) = match ethertype {
        ETHERTYPE_IPV4 => ipv4(datagram)?,
        ETHERTYPE_IPV6 => ipv6(datagram)?,
        _ => return None,
    };
    let at = if protocol == TCP { 16 } else { 6 };
    let stored = segment.get(at..at + 2)?;
    if stored != pseudo.to_be_bytes() {
        return None;
    }
    // In the sum, this field stands for the pseudo-header.
    let mut check = !checksum::sum(segment);
    if protocol == UDP && check == 0 {
        // RFC 768: zero means none.
        check = 0xffff;
    }
    segment[at..at + 2].copy_from_slice(&check.to_be_bytes());
    Some(())
}

/// Protocol, sum of the pseudo-header, and the segment.
#[inline]
fn ipv4(datagram: &mut [u8]) -> Option<(u8, u16, &mut [u8])> {
    let header: &[u8; 20] = datagram.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let protocol = header[9];
    if header[0] >> 4 != 4 || header_len < 20 || fragment || !matches!(protocol, TCP | UDP) {
        return None;
    }
    let len = total.checked_sub(header_len)?;
    let pseudo = pseudo_sum(&header[12..20], protocol, len);
    Some((protocol, pseudo, datagram.get_mut(header_len..total)?))
}

#[inline]
fn ipv6(datagram: &mut [u8]) -> Option<(u8, u16, &mut [u8])> {
    let header: &[u8; 40] = datagram.first_chunk()?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let protocol = header[6];
    if header[0] >> 4 != 6 || !matches!(protocol, TCP | UDP) {
        return None;
    }
    let pseudo = pseudo_sum(&header[8..40], protocol, len);
    Some((protocol, pseudo, datagram.get_mut(40..40 + len)?))
}

#[inline]
fn pseudo_sum(addresses: &[u8], protocol: u8, len: usize) -> u16 {
    let words = addresses.as_chunks::<2>().0;
    let sum: u32 = words.iter().map(|&word| u32::from(u16::from_be_bytes(word))).sum();
    checksum::fold(sum + u32::from(protocol) + len as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame with an IPv4 or IPv6 packet whose checksum field is `check`, and the offset of that
    /// field.
    fn frame(v6: bool, protocol: u8, payload: &[u8], vlan: bool) -> (Vec<u8>, usize) {
        let mut frame = vec![2; 12];
        if vlan {
            frame.extend([0x81, 0, 0, 5]);
        }
        let transport = if protocol == TCP { 20 } else { 8 };
        let len = transport + payload.len();
        let pseudo;
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, len as u8, protocol, 64]);
            let addresses: Vec<u8> = (0..32).map(|i| 0x20 + i).collect();
            pseudo = pseudo_sum(&addresses, protocol, len);
            frame.extend(addresses);
        } else {
            frame.extend([0x08, 0x00, 0x45, 0, 0, 20 + len as u8, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend([10, 0, 0, 1, 192, 168, 255, 254]);
            pseudo = pseudo_sum(&[10, 0, 0, 1, 192, 168, 255, 254], protocol, len);
        }
        let at = frame.len() + if protocol == TCP { 16 } else { 6 };
        frame.extend(vec![0x11; transport]);
        frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        frame.extend(payload);
        (frame, at)
    }

    fn valid(frame: &[u8], v6: bool, vlan: bool, protocol: u8) -> bool {
        let network = 14 + if vlan { 4 } else { 0 };
        let (addresses, segment) = if v6 {
            (network + 8..network + 40, network + 40)
        } else {
            (network + 12..network + 20, network + 20)
        };
        let pseudo = pseudo_sum(&frame[addresses], protocol, frame.len() - segment);
        checksum::fold(u32::from(pseudo) + u32::from(checksum::sum(&frame[segment..]))) == 0xffff
    }

    #[test]
    fn partial_ones_are_completed_once() {
        for v6 in [false, true] {
            for vlan in [false, true] {
                for (protocol, payload) in [(TCP, &b"odd"[..]), (UDP, b"even"), (UDP, b"")] {
                    let (bytes, _) = frame(v6, protocol, payload, vlan);
                    let mut packets = [Packet::from_bytes(&bytes).unwrap()];
                    assert_eq!(complete_partial_checksums(&mut packets), 1);
                    assert!(valid(packets[0].data(), v6, vlan, protocol));
                    let done = packets[0].data().to_vec();
                    complete_partial_checksums(&mut packets);
                    assert_eq!(packets[0].data(), done);
                }
            }
        }
    }

    #[test]
    fn others_are_left_alone() {
        let (good, at) = frame(false, TCP, b"payload", false);
        let change = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let mut cut = good.clone();
        cut.pop();
        for bytes in [
            change(at, 0xee),
            change(20, 0x20),
            change(21, 1),
            change(23, 1),
            change(14, 0x44),
            change(17, 0),
            cut,
        ] {
            let mut packets = [Packet::from_bytes(&bytes).unwrap()];
            assert_eq!(complete_partial_checksums(&mut packets), 0);
            assert_eq!(packets[0].data(), bytes);
        }
        for len in 0..good.len() {
            complete_partial_checksums(&mut [Packet::from_bytes(&good[..len]).unwrap()]);
        }
    }

    #[test]
    fn a_complete_checksum_that_looks_partial_stays() {
        // Payload chosen so that the complete checksum equals the pseudo-header's sum.
        let (bytes, at) = frame(false, UDP, &[0, 0], false);
        let mut packets = [Packet::from_bytes(&bytes).unwrap()];
        complete_partial_checksums(&mut packets);
        let pseudo = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let full = u16::from_be_bytes([packets[0].data()[at], packets[0].data()[at + 1]]);
        let payload = checksum::fold(u32::from(full) + u32::from(!pseudo));
        let mut bytes = bytes;
        bytes[at + 2..].copy_from_slice(&payload.to_be_bytes());
        assert!(valid(&bytes, false, false, UDP));
        let mut packets = [Packet::from_bytes(&bytes).unwrap()];
        assert_eq!(complete_partial_checksums(&mut packets), 1);
        assert_eq!(packets[0].data(), bytes);
    }
}
