//! The headers of a packet, as far as they are present.

use dpdk::Packet;
use wire::{Ethernet, Ipv4, Tcp, ethernet, ipv4, protocol};

/// The first `N` bytes, with zeros for missing ones.
pub(in crate::files) fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    all
}

/// The part of the packet that a field needs and that is missing.
#[derive(Clone, Copy)]
pub(in crate::files) enum Missing {
    Ethernet,
    Ip,
    /// A number of bytes of this protocol's header.
    Transport(u8, usize),
    /// A number of bytes of a header with ports.
    Ports(usize),
}

/// The headers of a packet whose IP header has been marked.
pub(in crate::files) struct Facts<'a> {
    pub(in crate::files) packet: &'a Packet,
    /// The bytes from the IP header to the end of the IP packet, if the header is valid.
    pub(in crate::files) ip: Option<&'a [u8]>,
    transport: Option<&'a [u8]>,
    pub(in crate::files) tcp: Option<&'a [u8]>,
    pub(in crate::files) udp: Option<&'a [u8]>,
    pub(in crate::files) icmp: Option<&'a [u8]>,
    /// Length of the packet without bytes after the IP packet.
    pub(in crate::files) length: usize,
    /// Number of bytes to add to lengths.
    pub(in crate::files) extra: u32,
    missing_extra: u32,
    /// What is wrong with the packet.
    pub(in crate::files) bad: Option<String>,
}

impl<'a> Facts<'a> {
    /// Reads the headers of a packet. `careful`: a packet that is shorter than its IP header says is an
    /// error. `extra`: whether the extra length annotation counts.
    pub(in crate::files) fn of(packet: &'a Packet, careful: bool, extra: bool) -> Self {
        let mut annotated = packet.extra_length();
        let mut f = Self {
            packet,
            ip: packet.network_header(),
            transport: packet.transport_header(),
            tcp: None,
            udp: None,
            icmp: None,
            length: packet.len(),
            extra: 0,
            missing_extra: annotated,
            bad: None,
        };
        if let Some(network) = f.ip {
            let h = f.header();
            let len = usize::from(h.total_len());
            let wrong = match () {
                () if network.len() < 4 => Some("truncated IP header".to_owned()),
                () if h.version() != 4 => Some(format!("IP version {}", h.version())),
                () if h.header_len() < ipv4::HEADER_LEN => {
                    Some(format!("IP header length {}", h.header_len() / 4))
                }
                () if len < h.header_len() => Some(format!("IP length {len}")),
                () => None,
            };
            if let Some(wrong) = wrong {
                f.spoil(wrong);
                f.ip = None;
            } else if network.len() > len {
                let tail = network.len() - len;
                annotated = annotated.saturating_add(tail as u32);
                f.ip = network.get(..len);
                f.length = f.length.saturating_sub(tail);
                f.transport = f.transport.map(|t| t.get(..t.len().saturating_sub(tail)).unwrap_or(&[]));
            } else if careful && network.len() + (annotated as usize) < len {
                f.spoil(format!("truncated IP missing {}", len - network.len() - annotated as usize));
            }
        }
        f.sort();
        if f.ip.is_some() && annotated > 0 {
            // Lengths are taken from the IP header, which has all lengths except those that exceed 16 bits.
            let full = f.ip.map_or(0, <[u8]>::len).saturating_add(annotated as usize);
            let at_most = f.header().total_len() == u16::MAX;
            annotated = if at_most { u32::try_from(full.saturating_sub(0xffff)).unwrap_or(0) } else { 0 };
        }
        f.extra = if extra { annotated } else { 0 };
        f
    }

    /// The protocol of the transport header.
    fn sort(&mut self) {
        let (Some(ip), Some(transport)) = (self.ip, self.transport) else { return };
        let h = self.header();
        if ip.len() <= h.header_len() || !h.is_first_fragment() {
            return;
        }
        match h.protocol() {
            protocol::TCP => {
                let words = Tcp::wrap(padded(transport)).header_len() / 4;
                if transport.len() > 12 && words < 5 {
                    self.spoil(format!("TCP header length {words}"));
                } else {
                    self.tcp = Some(transport);
                }
            }
            protocol::UDP => self.udp = Some(transport),
            protocol::ICMP => self.icmp = Some(transport),
            _ => {}
        }
    }

    fn spoil(&mut self, why: String) {
        self.bad.get_or_insert(why);
    }

    /// The IP header, with zeros for missing bytes.
    pub(in crate::files) fn header(&self) -> Ipv4<[u8; ipv4::HEADER_LEN]> {
        Ipv4::wrap(padded(self.ip.unwrap_or(&[])))
    }

    /// The transport header, if it begins with ports.
    pub(in crate::files) fn ported(&self) -> Option<&'a [u8]> {
        const DCCP: u8 = 33;
        let h = self.header();
        let has = matches!(h.protocol(), protocol::TCP | protocol::UDP | protocol::UDPLITE | DCCP);
        let room = self.ip.is_some_and(|ip| ip.len() > h.header_len());
        self.transport.filter(|_| has && room && h.is_first_fragment())
    }

    /// The Ethernet header, if it directly precedes the network header or is the whole packet.
    pub(in crate::files) fn ethernet(&self) -> Option<Ethernet<&'a [u8; ethernet::HEADER_LEN]>> {
        let p = self.packet;
        let mac = match (p.mac_header_offset(), p.network_header_offset()) {
            (Some(at), _) => at,
            (None, Some(network)) if network <= 0 => return None,
            _ => 0,
        };
        let network = p.network_header_offset().unwrap_or(p.len() as isize);
        if mac + ethernet::HEADER_LEN as isize != network {
            return None;
        }
        p.mac_header().or(Some(p.data())).and_then(Ethernet::new)
    }

    /// The offset of the payload in the packet, and its length according to the headers.
    pub(in crate::files) fn payload(&self) -> (usize, i64) {
        if self.ip.is_none() {
            return (0, self.length as i64);
        }
        let h = self.header();
        let network = self.packet.network_header_offset().unwrap_or(0) as i64;
        let mut at =
            self.packet.transport_header_offset().map_or(network + h.header_len() as i64, |o| o as i64);
        if h.is_first_fragment() {
            at += match h.protocol() {
                protocol::TCP => self
                    .transport
                    .filter(|t| t.len() >= 13)
                    .map_or(20, |t| Tcp::wrap(padded(t)).header_len().max(20) as i64),
                protocol::UDP | protocol::UDPLITE => 8,
                _ => 0,
            };
        }
        (usize::try_from(at).unwrap_or(0), i64::from(h.total_len()) - (at - network))
    }

    /// Stores why a field has no value. Returns false.
    pub(in crate::files) fn missing(&mut self, what: Missing) -> bool {
        const SCTP_LIKE: [u8; 2] = [protocol::TCP, protocol::UDP];
        let (proto, need) = match what {
            Missing::Ethernet => {
                self.spoil("Ethernet header".to_owned());
                return false;
            }
            _ if self.ip.is_none() => {
                self.spoil("no IP header".to_owned());
                return false;
            }
            Missing::Ip => {
                self.spoil("truncated IP header capture".to_owned());
                return false;
            }
            Missing::Transport(proto, need) => (Some(proto), need),
            Missing::Ports(need) => (None, need),
        };
        let h = self.header();
        let other = proto.map_or(!SCTP_LIKE.contains(&h.protocol()), |p| p != h.protocol());
        if self.ip.is_some_and(|ip| ip.len() > 9) && other {
            // Another protocol is not an error.
            return false;
        }
        let name = match proto {
            Some(protocol::TCP) => "TCP",
            Some(protocol::UDP) => "UDP",
            Some(_) => "ICMP",
            None => "TCP/UDP",
        };
        let there = self.transport.map_or(0, <[u8]>::len) + self.missing_extra as usize;
        self.spoil(if !h.is_first_fragment() {
            format!("fragmented {name} header")
        } else if there >= need {
            format!("truncated {name} header capture")
        } else {
            format!("truncated {name} header")
        });
        false
    }
}
