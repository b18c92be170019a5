//! A packet that is built from the fields of a summary.

use dpdk::{Anno, Packet};
use std::net::Ipv4Addr;
use wire::{Ethernet, Icmpv4, Ipv4, Tcp, Udp, ethernet, icmpv4, ipv4, protocol, tcp, udp};

/// Addresses, ports and protocol for packets whose lines do not have them.
#[derive(Clone, Copy, Debug)]
pub(in crate::files) struct Flow {
    pub(in crate::files) src: Ipv4Addr,
    pub(in crate::files) src_port: u16,
    pub(in crate::files) dst: Ipv4Addr,
    pub(in crate::files) dst_port: u16,
}

/// The packet so far.
pub(in crate::files) struct Draft {
    link: Option<Ethernet<[u8; ethernet::HEADER_LEN]>>,
    /// The bytes from the IP header on; empty while there is none.
    bytes: Vec<u8>,
    pub(in crate::files) anno: Anno,
    pub(in crate::files) time_ns: u64,
    /// Whether the link header specifies IP.
    pub(in crate::files) is_ip: bool,
    protocol: u8,
    flow: Option<Flow>,
    /// The minor version of the file's format.
    pub(in crate::files) minor: u32,
    /// The original length of the packet, with its link header; 0 if that is not known.
    pub(in crate::files) want_len: u32,
    pub(in crate::files) icmp_type: Option<u8>,
    ip_len_given: bool,
    tcp_len_given: bool,
    /// How many of the bytes are kept even if the packet is said to be shorter: as in Click, the fields of a
    /// UDP or an ICMP header make room for it, others do not.
    kept: usize,
}

impl Draft {
    pub(in crate::files) fn new(protocol: u8, flow: Option<Flow>, minor: u32) -> Self {
        Self {
            link: None,
            bytes: Vec::new(),
            anno: Anno::DEFAULT,
            time_ns: 0,
            is_ip: true,
            protocol,
            flow,
            minor,
            want_len: 0,
            icmp_type: None,
            ip_len_given: false,
            tcp_len_given: false,
            kept: 0,
        }
    }
    /// The length from the IP header on, if the packet has been said to have one.
    fn want(&self) -> Option<usize> {
        (self.want_len > 0).then(|| (self.want_len as usize).saturating_sub(self.link_len()))
    }

    pub(in crate::files) fn link_len(&self) -> usize {
        if self.link.is_some() { ethernet::HEADER_LEN } else { 0 }
    }
    pub(in crate::files) fn ethernet(&mut self) -> &mut Ethernet<[u8; ethernet::HEADER_LEN]> {
        self.link.get_or_insert_with(|| {
            Ethernet::build(wire::EtherAddr::ZERO, wire::EtherAddr::ZERO, ethernet::ETHERTYPE_IPV4)
        })
    }

    /// The IP header; it is added if there is none.
    pub(in crate::files) fn header(&mut self) -> Option<Ipv4<&mut [u8; ipv4::HEADER_LEN]>> {
        if !self.is_ip {
            return None;
        }
        if self.bytes.is_empty() {
            self.bytes.resize(ipv4::HEADER_LEN, 0);
            let (protocol, flow) = (self.protocol, self.flow);
            let mut h = Ipv4::new_mut(&mut self.bytes)?;
            h.set_version_ihl(0x45);
            h.set_ttl(100);
            h.set_protocol(protocol);
            if let Some(flow) = flow {
                h.set_src(flow.src);
                h.set_dst(flow.dst);
            }
        }
        Ipv4::new_mut(&mut self.bytes)
    }
    fn header_len(&self) -> usize {
        Ipv4::new(&self.bytes).map_or(0, |h| h.header_len())
    }

    /// The bytes from the transport header on; if the packet's protocol is `of`, they are extended to that
    /// protocol's header.
    fn transport(&mut self, of: &[u8]) -> Option<&mut [u8]> {
        let h = self.header()?;
        let proto = h.protocol();
        if !h.is_first_fragment() || !(of.is_empty() || of.contains(&proto)) {
            return None;
        }
        let len = match proto {
            protocol::TCP => tcp::HEADER_LEN,
            protocol::UDP | protocol::UDPLITE => udp::HEADER_LEN,
            protocol::ICMP => icmpv4::HEADER_LEN,
            33 => 12,
            _ => 0,
        };
        let at = self.header_len();
        if self.bytes.len() < at + len {
            self.kept = self.kept.max(self.want().map_or(at + len, |want| want.min(at + len)));
            let fresh = self.bytes.len() == at;
            self.bytes.resize(at + len, 0);
            let flow = self.flow;
            let transport = self.bytes.get_mut(at..)?;
            if let Some(mut t) = Tcp::new_mut(transport).filter(|_| proto == protocol::TCP) {
                t.set_header_len(tcp::HEADER_LEN);
            }
            if let Some((flow, mut u)) =
                flow.filter(|_| fresh && proto != protocol::ICMP).zip(Udp::new_mut(transport))
            {
                u.set_src_port(flow.src_port);
                u.set_dst_port(flow.dst_port);
            }
        }
        self.bytes.get_mut(at..)
    }
    pub(in crate::files) fn ports(&mut self) -> Option<Udp<&mut [u8; udp::HEADER_LEN]>> {
        Udp::new_mut(self.transport(&[protocol::TCP, protocol::UDP, protocol::UDPLITE, 33])?)
    }
    pub(in crate::files) fn tcp(&mut self) -> Option<Tcp<&mut [u8; tcp::HEADER_LEN]>> {
        Tcp::new_mut(self.transport(&[protocol::TCP])?)
    }
    pub(in crate::files) fn udp(&mut self) -> Option<Udp<&mut [u8; udp::HEADER_LEN]>> {
        self.keep(&[protocol::UDP, protocol::UDPLITE], udp::HEADER_LEN)?;
        Udp::new_mut(self.transport(&[protocol::UDP, protocol::UDPLITE])?)
    }
    /// Keeps so many bytes from the transport header on, if the protocol is one of these.
    fn keep(&mut self, of: &[u8], len: usize) -> Option<()> {
        self.transport(of)?;
        self.kept = self.kept.max(self.header_len() + len);
        Some(())
    }
    pub(in crate::files) fn icmp(&mut self) -> Option<Icmpv4<&mut [u8; icmpv4::HEADER_LEN]>> {
        self.keep(&[protocol::ICMP], icmpv4::HEADER_LEN)?;
        Icmpv4::new_mut(self.transport(&[protocol::ICMP])?)
    }

    /// Sets the type of an ICMP message, which has at least the bytes of its type's header: 20 for
    /// timestamps, 8 for others.
    pub(in crate::files) fn set_icmp_kind(&mut self, kind: u8) -> Option<()> {
        const TIMESTAMPS: [u8; 2] = [13, 14];
        self.icmp()?.set_kind(kind);
        self.icmp_type = Some(kind);
        let all = self.header_len() + if TIMESTAMPS.contains(&kind) { 20 } else { icmpv4::HEADER_LEN };
        if self.bytes.len() < all {
            self.bytes.resize(all, 0);
        }
        self.kept = self.kept.max(all);
        Some(())
    }

    /// Inserts space for options at `at`, filled with zeros (end of options).
    fn widen(&mut self, at: usize, by: usize) {
        let at = at.min(self.bytes.len());
        if self.kept >= at {
            self.kept += by;
        }
        self.bytes.splice(at..at, std::iter::repeat_n(0, by));
    }

    /// Makes the IP header longer; never shorter.
    pub(in crate::files) fn set_ip_header_len(&mut self, len: usize) {
        self.ip_len_given = true;
        let len = len.next_multiple_of(4).min(ipv4::MAX_HEADER_LEN);
        if self.header().is_none() {
            return;
        }
        let old = self.header_len();
        if len > old {
            self.widen(old, len - old);
            if let Some(mut h) = self.header() {
                h.set_header_len(len);
            }
        }
    }
    /// Makes the TCP header longer; never shorter.
    pub(in crate::files) fn set_tcp_header_len(&mut self, len: usize) {
        self.tcp_len_given = true;
        let len = len.next_multiple_of(4).min(60);
        let Some(old) = self.tcp().map(|t| t.header_len()) else { return };
        if len > old {
            let at = self.header_len() + old;
            self.widen(at, len - old);
            if let Some(mut t) = self.tcp() {
                t.set_header_len(len);
            }
        }
    }
    pub(in crate::files) fn ip_options(&mut self, options: &[u8]) {
        self.set_ip_header_len(ipv4::HEADER_LEN + options.len());
        self.copy(ipv4::HEADER_LEN, options);
    }
    pub(in crate::files) fn tcp_options(&mut self, options: &[u8]) {
        self.set_tcp_header_len(tcp::HEADER_LEN + options.len());
        if self.tcp().is_some() {
            let at = self.header_len() + tcp::HEADER_LEN;
            self.copy(at, options);
        }
    }
    fn copy(&mut self, at: usize, from: &[u8]) {
        self.bytes.iter_mut().skip(at).zip(from).for_each(|(to, from)| *to = *from);
    }

    /// The offset of the payload from the IP header's first byte.
    fn payload_at(&mut self) -> usize {
        let proto = self.header().map(|h| h.protocol());
        let first = Ipv4::new(&self.bytes).is_some_and(|h| h.is_first_fragment());
        self.transport(&[]);
        let at = self.header_len();
        match proto.filter(|_| first) {
            Some(protocol::TCP) => at + self.tcp().map_or(20, |t| t.header_len().max(20)),
            Some(protocol::UDP | protocol::UDPLITE) => at + udp::HEADER_LEN,
            _ => at,
        }
    }

    pub(in crate::files) fn payload(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.payload_len(bytes.len() as u32);
        let at = self.payload_at();
        self.kept = self.kept.max(at + bytes.len());
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        self.copy(at, bytes);
    }

    /// Sets the length of the payload. If the length of the packet is known too, the rest is options.
    pub(in crate::files) fn payload_len(&mut self, len: u32) {
        let at = self.payload_at();
        if self.want_len == 0 || !self.is_ip {
            self.want_len = len.saturating_add((at + self.link_len()) as u32);
            return;
        }
        let mut rest = (self.want_len as usize).saturating_sub(self.link_len() + at + len as usize) & !3;
        if !self.tcp_len_given && self.tcp().is_some_and(|t| t.header_len() == tcp::HEADER_LEN) {
            let more = rest.min(40);
            self.set_tcp_header_len(tcp::HEADER_LEN + more);
            rest -= more;
        }
        if !self.ip_len_given && self.header_len() == ipv4::HEADER_LEN {
            self.set_ip_header_len(ipv4::HEADER_LEN + rest.min(40));
        }
    }

    /// The packet. `full`: with as many bytes as its length field says, and correct checksums.
    pub(in crate::files) fn finish(mut self, full: bool) -> Option<Packet> {
        let link_len = self.link_len();
        if self.flow.is_some() {
            self.header();
        }
        if !self.bytes.is_empty() {
            self.transport(&[]);
            let want = (self.want_len as usize).saturating_sub(link_len);
            let shortest = self.header_len();
            if want > 0 && want < self.bytes.len() {
                self.bytes.truncate(want.max(shortest).max(self.kept));
            }
            let have = self.bytes.len();
            let ip_len = if want == 0 { have } else { want.max(shortest) }.min(0xffff);
            let header_len = self.header_len();
            let mut h = self.header()?;
            h.set_total_len(ip_len as u16);
            let (proto, first, fragment) = (h.protocol(), h.is_first_fragment(), h.is_fragment());
            if proto == protocol::UDP
                && first
                && let Some(mut u) = self.bytes.get_mut(header_len..).and_then(Udp::new_mut)
                && u.length() == 0
            {
                u.set_length((ip_len - header_len) as u16);
            }
            if full {
                self.bytes.resize(ip_len.max(have), 0);
                let (header, transport) = self.bytes.split_at_mut_checked(header_len)?;
                ipv4::fill_header(header);
                let h = Ipv4::new(header)?;
                let pseudo = h.pseudo_sum(transport.len() as u16);
                // Too short for a checksum.
                let _ = !fragment
                    && match proto {
                        protocol::TCP => tcp::fill(pseudo, transport),
                        protocol::UDP => udp::fill(pseudo, transport),
                        protocol::ICMP => icmpv4::fill(transport),
                        _ => false,
                    };
            }
        }
        let mut packet = Packet::alloc(dpdk::DEFAULT_HEADROOM, link_len + self.bytes.len())?;
        let link = self.link.map(|l| *l.bytes());
        let all = link.iter().flatten().chain(&self.bytes);
        packet.data_mut().iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        *packet.anno_mut() = self.anno;
        packet.set_timestamp_ns(self.time_ns);
        if link.is_some() {
            packet.set_mac_header(0);
        }
        if let Some(h) = Ipv4::new(&self.bytes) {
            packet.set_network_header(link_len, h.header_len());
            packet.set_dst_ip(h.dst().octets());
        }
        let extra = (self.want_len as usize).saturating_sub(packet.len());
        if extra > 0 {
            packet.set_extra_length(extra as u32);
        }
        Some(packet)
    }
}
