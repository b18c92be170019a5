//! Large segments: cutting them into packets, and gathering packets into them.
//!
//! A host on the same machine hands over TCP segments of up to 64 KB with the size of the packets that they
//! stand for (TSO), and takes such segments. A packet socket describes them with a *vnet header*, the
//! `virtio_net_hdr` of the virtio specification. In between, every element sees ordinary packets: a segment
//! is cut as it is received, as a NIC would cut it (checksums complete), and consecutive packets of a
//! connection are gathered again as they are sent, like GRO in the kernel. What would not come back as
//! it was, were it cut again, is not gathered.
//!
//! The bytes come from any host, and so do the values of the header: nothing here relies on them.

use wire::checksum;
use wire::ethernet::{ETHERTYPE_QINQ, ETHERTYPE_VLAN};

use crate::sum::sum;
pub(crate) use cut::Cut;
pub(crate) use gather::Gathered;

mod cut;
mod gather;
#[cfg(test)]
pub(crate) mod tests;

/// The most packets that a segment is cut into: 65,535 bytes in packets of 64.
pub(crate) const PACKETS_MAX: usize = 1000;
/// The most bytes of headers before the payload of a segment.
pub(crate) const HEADERS_MAX: usize = 256;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Places of both Ethernet addresses.
const ADDRESSES: usize = 12;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// Where SCTP's header has its checksum; those of TCP and UDP have it elsewhere.
const SCTP_CHECK: u16 = 8;

/// What is known of a frame beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    pub(crate) flags: u8,
    pub(crate) kind: u8,
    pub(crate) headers_len: u16,
    /// Bytes of payload in each packet but the last.
    pub(crate) size: u16,
    /// Where the sum of a partial checksum begins, and its field after that.
    pub(crate) sum_start: u16,
    pub(crate) sum_offset: u16,
}

impl VnetHeader {
    pub(crate) const LEN: usize = 10;
    /// The checksum is partial.
    pub(crate) const NEEDS_SUM: u8 = 1;
    pub(crate) const NONE: u8 = 0;
    pub(crate) const TCP_IPV4: u8 = 1;
    pub(crate) const TCP_IPV6: u8 = 4;
    pub(crate) const UDP: u8 = 5;
    /// With a kind: TCP with a CWR flag.
    pub(crate) const ECN: u8 = 0x80;

    pub(crate) fn read(bytes: &[u8; VnetHeader::LEN]) -> VnetHeader {
        let &[flags, kind, a, b, c, d, e, f, g, h] = bytes;
        VnetHeader {
            flags,
            kind,
            headers_len: u16::from_ne_bytes([a, b]),
            size: u16::from_ne_bytes([c, d]),
            sum_start: u16::from_ne_bytes([e, f]),
            sum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    pub(crate) fn bytes(&self) -> [u8; VnetHeader::LEN] {
        let mut bytes = [self.flags, self.kind, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [self.headers_len, self.size, self.sum_start, self.sum_offset];
        for (to, word) in bytes[2..].as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        bytes
    }

    /// Whether it is a frame as it is on a wire, not a segment.
    pub(crate) fn is_one_packet(&self) -> bool {
        self.kind & !VnetHeader::ECN == VnetHeader::NONE
    }

    /// Completes the frame's checksum if it is partial; returns whether it was.
    pub(crate) fn complete(&self, frame: &mut [u8]) -> bool {
        if self.flags & VnetHeader::NEEDS_SUM == 0 {
            return false;
        }
        let start = usize::from(self.sum_start);
        let field = start + usize::from(self.sum_offset);
        if field + 2 > frame.len() {
            return false;
        }
        if self.sum_offset == SCTP_CHECK {
            let Some(place) = frame.get_mut(field..field + 4) else { return false };
            place.fill(0);
            let check = crc32c(&frame[start..]);
            frame[field..field + 4].copy_from_slice(&check.to_le_bytes());
            return true;
        }
        // The field holds the sum of the pseudo-header.
        let check = not_zero(!sum(&frame[start..]));
        frame[field..field + 2].copy_from_slice(&check.to_be_bytes());
        true
    }
}

/// CRC32c, the checksum of SCTP (RFC 9260, appendix A). Bit by bit: SCTP that arrives without is rare.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32, _| crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// RFC 768: zero means none; TCP takes both representations of zero.
fn not_zero(check: u16) -> u16 {
    if check == 0 { 0xffff } else { check }
}

/// A VLAN tag that the kernel has taken out of a frame: its protocol and its content.
pub(crate) type Tag = (u16, u16);

/// Puts a VLAN tag into a frame that has [`TAG`] bytes at its front that are not yet part of it.
pub(crate) fn put_tag(frame: &mut [u8], (protocol, content): Tag) {
    if frame.len() >= ADDRESSES + TAG {
        frame.copy_within(TAG..ADDRESSES + TAG, 0);
        frame[ADDRESSES..ADDRESSES + 2].copy_from_slice(&protocol.to_be_bytes());
        frame[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&content.to_be_bytes());
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The type of what follows the Ethernet header and up to two VLAN tags, and where.
#[inline]
fn network(frame: &[u8]) -> Option<(u16, usize)> {
    let (mut ethertype, mut at) = (word(frame, ADDRESSES)?, ADDRESSES + 2);
    for _ in 0..2 {
        if matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ) {
            (ethertype, at) = (word(frame, at + 2)?, at + TAG);
        }
    }
    Some((ethertype, at))
}

/// The sum of the pseudo-header of the IP header at `at`.
#[inline]
fn pseudo(frame: &[u8], at: usize, v6: bool, protocol: u8, len: usize) -> u16 {
    let addresses = if v6 { &frame[at + 8..at + 40] } else { &frame[at + 12..at + 20] };
    let words = addresses.as_chunks::<2>().0;
    let sum: u32 = words.iter().map(|&word| u32::from(u16::from_be_bytes(word))).sum();
    checksum::fold(sum + u32::from(protocol) + len as u32)
}
