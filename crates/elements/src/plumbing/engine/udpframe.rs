//! Frames with Ethernet, IPv4 and UDP headers that differ in their ports.

use crate::prelude::*;
use lang::args::EtherAddr;
use std::net::Ipv4Addr;
use wire::{Ethernet, Ipv4, Udp, checksum, ethernet, ipv4, protocol, udp};

/// The least length.
pub(in crate::plumbing) const SHORTEST: usize = ethernet::MIN_FRAME_LEN;
const TTL: u8 = 250;
const IP: usize = ethernet::HEADER_LEN;
const UDP: usize = IP + ipv4::HEADER_LEN;

/// A frame without ports; its data are zeros.
pub(in crate::plumbing) struct UdpFrame {
    bytes: Vec<u8>,
    to: Ipv4Addr,
    /// The sum that the UDP checksum is the complement of, without ports; none without a checksum.
    sum: Option<u16>,
}

impl UdpFrame {
    /// From and to these addresses, so long with all headers.
    pub(in crate::plumbing) fn new(
        (src_eth, dst_eth): (EtherAddr, EtherAddr),
        (src, dst): (Ipv4Addr, Ipv4Addr),
        length: usize,
        with_checksum: bool,
    ) -> Self {
        let mut bytes = vec![0; length.max(SHORTEST)];
        let length = bytes.len() - UDP;
        let mut ip = Ipv4::build(src, dst, protocol::UDP, length);
        ip.set_ttl(TTL);
        ip.fill_checksum();
        if let Some(front) = bytes.get_mut(IP..UDP) {
            front.copy_from_slice(ip.bytes());
        }
        let mut sum = None;
        if let Some(datagram) = bytes.get_mut(UDP..)
            && let Some(mut header) = Udp::new_mut(datagram)
        {
            header.set_length(length as u16);
            if with_checksum {
                udp::fill(checksum::pseudo_v4(src, dst, protocol::UDP, length as u16), datagram);
                sum = Udp::new(datagram).map(|header| !header.checksum());
            }
        }
        let mut frame = Self { bytes, to: dst, sum };
        frame.set_ethernet(src_eth, dst_eth);
        frame
    }
    /// Changes the link addresses.
    pub(in crate::plumbing) fn set_ethernet(&mut self, src: EtherAddr, dst: EtherAddr) {
        let (src, dst) = (wire::EtherAddr(src.0), wire::EtherAddr(dst.0));
        if let Some(front) = self.bytes.get_mut(..IP) {
            front.copy_from_slice(Ethernet::build(dst, src, ethernet::ETHERTYPE_IPV4).bytes());
        }
    }
    /// A packet with these ports; none if there is no buffer.
    #[inline]
    pub(in crate::plumbing) fn packet(&self, (src, dst): (u16, u16)) -> Option<Packet> {
        let mut packet = Packet::from_bytes(&self.bytes)?;
        if let Some(mut header) = packet.data_mut().get_mut(UDP..).and_then(Udp::new_mut) {
            header.set_src_port(src);
            header.set_dst_port(dst);
            if let Some(sum) = self.sum {
                let sum = u32::from(sum) + u32::from(src) + u32::from(dst);
                let sum = (sum & 0xffff) + (sum >> 16);
                let check = !(((sum & 0xffff) + (sum >> 16)) as u16);
                // No checksum is 0 (RFC 768).
                header.set_checksum(if check == 0 { u16::MAX } else { check });
            }
        }
        packet.set_network_header(IP, ipv4::HEADER_LEN);
        packet.set_dst_ip(self.to.octets());
        Some(packet)
    }
}
