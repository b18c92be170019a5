//! ICMP errors about packets of translated flows: what they are about, and how they are translated (RFC 5508
//! §4.2).

use super::headers::{adjusted, adjusted_udp, change};
use crate::prelude::*;
use tables::flows::Tuple;
use wire::{icmpv4, ipv4, protocol};

/// The part of a transport header that an error has at least.
const TRANSPORT: usize = 8;

/// What an ICMP error is about.
pub(crate) struct About {
    /// The protocol of the packet in it.
    pub(crate) protocol: u8,
    /// What a reply to that packet has: addresses and ports, the identifier of a ping as destination port.
    pub(crate) reply: Tuple,
    /// Where the ICMP header, the IP header in it and the transport header in that begin.
    icmp: usize,
    inner: usize,
    transport: usize,
    ports: Ports,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ports {
    None,
    Both,
    /// The identifier of a ping.
    Identifier,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

impl About {
    /// `None` for what is no error with an IP header in it.
    pub(crate) fn of(packet: &Packet) -> Option<Self> {
        let bytes = packet.network_header()?;
        let h = bytes.first_chunk::<{ ipv4::HEADER_LEN }>()?;
        let icmp = usize::from(h[0] & 15) * 4;
        let later_fragment = u16::from_be_bytes([h[6], h[7]]) & 0x1fff != 0;
        if icmp < ipv4::HEADER_LEN || h[9] != protocol::ICMP || later_fragment {
            return None;
        }
        let error = icmpv4::is_error(*bytes.get(icmp)?);
        let inner = icmp + icmpv4::HEADER_LEN;
        let about = bytes.get(inner..)?;
        let i = about.first_chunk::<{ ipv4::HEADER_LEN }>()?;
        let transport = inner + usize::from(i[0] & 15) * 4;
        if !error || i[0] >> 4 != 4 || transport < inner + ipv4::HEADER_LEN {
            return None;
        }
        let number = i[9];
        let rest = bytes.get(transport..).unwrap_or_default();
        let first_fragment = u16::from_be_bytes([i[6], i[7]]) & 0x1fff == 0;
        let (ports, reply_ports) = match rest.first_chunk::<TRANSPORT>() {
            Some(t) if first_fragment && matches!(number, protocol::TCP | protocol::UDP) => {
                (Ports::Both, [t[2], t[3], t[0], t[1]])
            }
            Some(t) if first_fragment && number == protocol::ICMP && t[0] == icmpv4::ECHO => {
                (Ports::Identifier, [0, 0, t[4], t[5]])
            }
            _ => (Ports::None, [0; 4]),
        };
        let reply = Tuple {
            src: word(bytes, inner + 16)?,
            dst: word(bytes, inner + 12)?,
            ports: u32::from_ne_bytes(reply_ports),
        };
        Some(Self { protocol: number, reply, icmp, inner, transport, ports })
    }

    /// Translates the error so that it is about the packet as its sender knows it: to that, replies have
    /// `to`. With `source`, an error that a host or router on the translated side has sent gets the address
    /// that the flow has there (RFC 5508 REQ-5). Returns the new destination, if there is one.
    pub(crate) fn translate(&self, packet: &mut Packet, to: Tuple, source: bool) -> Option<[u8; 4]> {
        let bytes = packet.network_header_mut()?;
        let outer_src = if source && to.src != self.reply.src { to.src } else { word(bytes, 12)? };
        let redirected = word(bytes, 16)? == self.reply.dst;
        let outer_dst = if redirected { to.dst } else { word(bytes, 16)? };
        set_addresses(bytes.first_chunk_mut()?, outer_src, outer_dst);
        // What has changed in the ICMP message, in the order of bytes of this machine.
        let mut all = self.change_inner(bytes, to)?;
        all += self.change_transport(bytes, to).unwrap_or(0);
        let check = bytes.get_mut(self.icmp + 2..)?.first_chunk_mut::<2>()?;
        *check = adjusted(*check, all);
        redirected.then_some(outer_dst.to_ne_bytes())
    }

    /// Changes the addresses of the packet in the error.
    fn change_inner(&self, bytes: &mut [u8], to: Tuple) -> Option<u64> {
        let inner = bytes.get_mut(self.inner..)?.first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        let old = [inner[10], inner[11]];
        // The packet is from where replies go to.
        set_addresses(inner, to.dst, to.src);
        let addresses = change(self.reply.dst, to.dst) + change(self.reply.src, to.src);
        Some(addresses + halves(old, [inner[10], inner[11]]))
    }

    /// Changes its ports or its identifier, and its checksum, if that is there.
    fn change_transport(&self, bytes: &mut [u8], to: Tuple) -> Option<u64> {
        let t = bytes.get_mut(self.transport..)?;
        let [e, f, c, d] = to.ports.to_ne_bytes();
        match self.ports {
            Ports::None => None,
            Ports::Identifier => {
                let t = t.first_chunk_mut::<TRANSPORT>()?;
                let (id, check) = ([t[4], t[5]], [t[2], t[3]]);
                let changed = halves(id, [c, d]);
                [t[4], t[5]] = [c, d];
                [t[2], t[3]] = adjusted(check, changed);
                Some(changed + halves(check, [t[2], t[3]]))
            }
            Ports::Both => {
                let ports = t.first_chunk_mut::<4>()?;
                let old = u32::from_ne_bytes(*ports);
                *ports = [c, d, e, f];
                let changed = change(old, u32::from_ne_bytes(*ports));
                let addresses = change(self.reply.dst, to.dst) + change(self.reply.src, to.src);
                let udp = self.protocol == protocol::UDP;
                let at = if udp { 6 } else { 16 };
                let Some(check) = t.get_mut(at..).and_then(|t| t.first_chunk_mut::<2>()) else {
                    return Some(changed);
                };
                let before = *check;
                *check = if udp {
                    adjusted_udp(before, addresses + changed)
                } else {
                    adjusted(before, addresses + changed)
                };
                Some(changed + halves(before, *check))
            }
        }
    }
}

/// What changes in a checksum when one half-word takes the place of another.
fn halves(from: [u8; 2], to: [u8; 2]) -> u64 {
    let [a, b] = from;
    let [c, d] = to;
    change(u32::from_ne_bytes([a, b, 0, 0]), u32::from_ne_bytes([c, d, 0, 0]))
}

/// Gives an IP header other addresses.
fn set_addresses(h: &mut [u8; ipv4::HEADER_LEN], src: u32, dst: u32) {
    let sum = word(h, 12).map_or(0, |old| change(old, src)) + word(h, 16).map_or(0, |old| change(old, dst));
    [h[12], h[13], h[14], h[15]] = src.to_ne_bytes();
    [h[16], h[17], h[18], h[19]] = dst.to_ne_bytes();
    [h[10], h[11]] = adjusted([h[10], h[11]], sum);
}
