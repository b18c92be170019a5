//! Code that the section shares: the parts of an IP packet that its transport layer needs.

use crate::ip::engine::header::header;
use crate::prelude::*;
use std::net::Ipv4Addr;
use wire::ipv4::{HEADER_LEN, OPT_LSRR, OPT_SSRR};
use wire::{Ipv4, Options, checksum};

/// A packet with a marked and complete IP header.
pub(crate) struct Datagram<'a> {
    pub(crate) ip: Ipv4<&'a [u8; HEADER_LEN]>,
    options: &'a [u8],
    /// The bytes after the header, up to the end of the packet.
    pub(crate) rest: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// `None` when no header is marked, or when its length is below 20 bytes or beyond the packet.
    #[inline]
    pub(crate) fn of(packet: &'a Packet) -> Option<Self> {
        let ip = header(packet)?;
        let (head, rest) = packet.network_header()?.split_at_checked(ip.header_len())?;
        Some(Self { ip, options: head.get(HEADER_LEN..)?, rest })
    }
    /// The length of the payload according to the IP header; `None` if that is negative.
    #[inline]
    pub(crate) fn payload_len(&self) -> Option<u16> {
        self.ip.total_len().checked_sub(self.ip.header_len() as u16)
    }
    /// The payload, as long as the IP header says; `None` if the packet is shorter.
    #[inline]
    pub(crate) fn payload(&self) -> Option<&'a [u8]> {
        self.rest.get(..self.payload_len()?.into())
    }
    /// The destination that the sender used for the checksum: the last address of a source route (RFC 1122
    /// §4.1.3.5, §4.2.3.8).
    fn final_dst(&self) -> Ipv4Addr {
        Options::new(self.options, HEADER_LEN)
            .map_while(Result::ok)
            .filter(|o| matches!(o.kind, OPT_LSRR | OPT_SSRR) && o.bytes.len() >= 7)
            .find_map(|o| o.bytes.last_chunk::<4>().map(|a| Ipv4Addr::from(*a)))
            .unwrap_or_else(|| self.ip.dst())
    }
    /// The sum of the pseudo-header for `len` bytes of transport header and data.
    #[inline]
    pub(crate) fn pseudo_sum(&self, len: u16) -> u16 {
        if self.options.is_empty() {
            return self.ip.pseudo_sum(len);
        }
        checksum::pseudo_v4(self.ip.src(), self.final_dst(), self.ip.protocol(), len)
    }
}

/// The transport header and the bytes after it, mutable: `len` bytes from the end of the IP header on.
#[inline]
pub(crate) fn payload_mut(packet: &mut Packet, len: usize) -> Option<&mut [u8]> {
    let start = header(packet)?.header_len();
    packet.network_header_mut()?.get_mut(start..)?.get_mut(..len)
}

/// Packets for the section's tests.
#[cfg(test)]
pub(crate) mod sample {
    use crate::ip::engine::header::sample::{ip, ip_with};
    use wire::{Tcp, Udp, checksum};

    /// The final destination is 9.9.9.9.
    pub(crate) const ROUTE: [u8; 8] = [131, 7, 4, 9, 9, 9, 9, 0];

    fn pseudo(to: [u8; 4], protocol: u8, len: usize) -> u16 {
        checksum::pseudo_v4([10, 0, 0, 1].into(), to.into(), protocol, len as u16)
    }
    fn wrap(protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        if options.is_empty() {
            ip(protocol, payload)
        } else {
            ip_with(options, payload, |h| h.set_protocol(protocol))
        }
    }
    fn dst(options: &[u8]) -> [u8; 4] {
        if options == ROUTE { [9; 4] } else { [10, 0, 0, 2] }
    }
    /// A good UDP packet.
    pub(crate) fn udp(options: &[u8], data: &[u8]) -> Vec<u8> {
        let mut h = Udp::zeroed();
        h.set_src_port(1000);
        h.set_dst_port(2000);
        h.set_length((8 + data.len()) as u16);
        let mut payload = h.bytes().to_vec();
        payload.extend_from_slice(data);
        wire::udp::fill(pseudo(dst(options), 17, payload.len()), &mut payload);
        wrap(17, options, &payload)
    }
    /// A good TCP packet.
    pub(crate) fn tcp(options: &[u8], data: &[u8]) -> Vec<u8> {
        let mut h = Tcp::zeroed();
        h.set_src_port(1000);
        h.set_dst_port(2000);
        h.set_header_len(20);
        let mut payload = h.bytes().to_vec();
        payload.extend_from_slice(data);
        wire::tcp::fill(pseudo(dst(options), 6, payload.len()), &mut payload);
        wrap(6, options, &payload)
    }
    /// A good ICMP packet.
    pub(crate) fn icmp(kind: u8, rest: &[u8]) -> Vec<u8> {
        let mut payload = vec![kind, 0, 0, 0];
        payload.extend_from_slice(rest);
        wire::icmpv4::fill(&mut payload);
        ip(1, &payload)
    }
}
