//! Cutting a segment into the packets that it stands for.

use wire::checksum;
use wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use wire::protocol::{TCP, UDP};
use wire::tcp::{CWR, FIN, PSH};

use super::{
    HEADERS_MAX, IPV4_HEADER, IPV6_HEADER, PACKETS_MAX, TAG, TCP_HEADER, Tag, UDP_HEADER, VnetHeader,
    network, not_zero, pseudo, put, put_tag, word,
};
use crate::sum::sum;

/// A header before the payload that differs from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Ipv4 {
        at: usize,
        len: usize,
    },
    Ipv6 {
        at: usize,
    },
    /// The UDP header of a tunnel.
    Tunnel {
        at: usize,
    },
}

/// The most headers that differ: IP, the UDP header of a tunnel, IP in it.
const LAYERS_MAX: usize = 4;

/// How a segment is cut.
#[derive(Debug)]
pub(crate) struct Cut {
    headers: [u8; HEADERS_MAX],
    headers_len: usize,
    layers: [Option<Layer>; LAYERS_MAX],
    /// Where the header of TCP or UDP begins, and the network header that its pseudo-header is taken from.
    transport: usize,
    inner: (usize, bool),
    protocol: u8,
    /// Bytes of payload in all, and in each packet but the last.
    payload: usize,
    size: usize,
}

impl Cut {
    /// How to cut the segment of `len` bytes that begins with `start`, which includes its headers. `None`: it
    /// cannot be cut.
    pub(crate) fn plan(vnet: VnetHeader, start: &[u8], len: usize, tag: Option<Tag>) -> Option<Cut> {
        let protocol = match vnet.kind & !VnetHeader::ECN {
            VnetHeader::TCP_IPV4 | VnetHeader::TCP_IPV6 => TCP,
            VnetHeader::UDP => UDP,
            _ => return None,
        };
        let known = (vnet.flags & VnetHeader::NEEDS_SUM != 0).then_some(usize::from(vnet.sum_start));
        let (layers, inner, transport) = layers(start, protocol, known)?;
        let headers_len = transport
            + match protocol {
                TCP => {
                    let header: &[u8; TCP_HEADER] = start.get(transport..)?.first_chunk()?;
                    Some(usize::from(header[12] >> 4) * 4).filter(|&len| len >= TCP_HEADER)?
                }
                _ => UDP_HEADER,
            };
        let (payload, size) = (len.checked_sub(headers_len)?, usize::from(vnet.size));
        let shift = if tag.is_some() { TAG } else { 0 };
        if size == 0 || payload.div_ceil(size) > PACKETS_MAX || headers_len + shift > HEADERS_MAX {
            return None;
        }
        let mut headers = [0; HEADERS_MAX];
        headers[shift..shift + headers_len].copy_from_slice(start.get(..headers_len)?);
        if let Some(tag) = tag {
            put_tag(&mut headers, tag);
        }
        let layers = layers.map(|layer| {
            Some(match layer? {
                Layer::Ipv4 { at, len } => Layer::Ipv4 { at: at + shift, len },
                Layer::Ipv6 { at } => Layer::Ipv6 { at: at + shift },
                Layer::Tunnel { at } => Layer::Tunnel { at: at + shift },
            })
        });
        Some(Cut {
            headers,
            headers_len: headers_len + shift,
            layers,
            transport: transport + shift,
            inner: (inner.0 + shift, inner.1),
            protocol,
            payload,
            size,
        })
    }

    /// Bytes of headers in each packet.
    pub(crate) fn headers_len(&self) -> usize {
        self.headers_len
    }

    /// Bytes in the longest packet.
    pub(crate) fn longest(&self) -> usize {
        self.headers_len + self.size.min(self.payload)
    }

    /// How many packets there are.
    pub(crate) fn packets(&self) -> usize {
        self.payload.div_ceil(self.size).max(1)
    }

    /// The part of the payload that packet `i` carries.
    pub(crate) fn part(&self, i: usize) -> std::ops::Range<usize> {
        (i * self.size).min(self.payload)..((i + 1) * self.size).min(self.payload)
    }

    /// Writes the headers of packet `i`, whose payload is in its place.
    pub(crate) fn finish(&self, i: usize, frame: &mut [u8]) {
        let total = self.headers_len + self.part(i).len();
        if frame.len() != total {
            return;
        }
        frame[..self.headers_len].copy_from_slice(&self.headers[..self.headers_len]);
        for layer in self.layers.into_iter().flatten() {
            match layer {
                Layer::Ipv4 { at, len } => {
                    put(frame, at + 2, (total - at) as u16);
                    let id = u16::from_be_bytes([frame[at + 4], frame[at + 5]]).wrapping_add(i as u16);
                    put(frame, at + 4, id);
                    put(frame, at + 10, 0);
                    let check = !checksum::sum(&frame[at..at + len]);
                    put(frame, at + 10, check);
                }
                Layer::Ipv6 { at } => put(frame, at + 4, (total - at - IPV6_HEADER) as u16),
                Layer::Tunnel { at } => put(frame, at + 4, (total - at) as u16),
            }
        }
        let (at, segment) = (self.transport, total - self.transport);
        let field = if self.protocol == TCP {
            let last = i + 1 == self.packets();
            let seq = [frame[at + 4], frame[at + 5], frame[at + 6], frame[at + 7]];
            let seq = u32::from_be_bytes(seq).wrapping_add(self.part(i).start as u32);
            frame[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
            frame[at + 13] &= !(if last { 0 } else { FIN | PSH } | if i == 0 { 0 } else { CWR });
            at + 16
        } else {
            put(frame, at + 4, segment as u16);
            at + 6
        };
        put(frame, field, 0);
        let all = checksum::combine(
            pseudo(frame, self.inner.0, self.inner.1, self.protocol, segment),
            sum(&frame[at..]),
        );
        put(frame, field, not_zero(!all));
        self.finish_tunnels(frame);
    }

    /// Completes the checksums of tunnels that have one: they include everything inside.
    fn finish_tunnels(&self, frame: &mut [u8]) {
        let mut outer = None;
        for layer in self.layers.into_iter().flatten() {
            match layer {
                Layer::Ipv4 { at, .. } => outer = Some((at, false)),
                Layer::Ipv6 { at } => outer = Some((at, true)),
                Layer::Tunnel { at } => {
                    let Some((network, v6)) = outer else { continue };
                    if frame[at + 6..at + 8] != [0, 0] {
                        put(frame, at + 6, 0);
                        let all = checksum::combine(
                            pseudo(frame, network, v6, UDP, frame.len() - at),
                            sum(&frame[at..]),
                        );
                        put(frame, at + 6, not_zero(!all));
                    }
                }
            }
        }
    }
}

type Layers = ([Option<Layer>; LAYERS_MAX], (usize, bool), usize);

/// The headers of a segment up to that of `protocol`, which begins at `known` if that is known: those that
/// differ from packet to packet, the last IP header and whether it is of IPv6, and where the transport header
/// begins.
fn layers(start: &[u8], protocol: u8, known: Option<usize>) -> Option<Layers> {
    let mut found = [None; LAYERS_MAX];
    let mut n = 0;
    let mut add = |layer| {
        *found.get_mut(n)? = Some(layer);
        n += 1;
        Some(())
    };
    let (mut ethertype, mut at) = network(start)?;
    loop {
        let v6 = ethertype == ETHERTYPE_IPV6;
        let network = at;
        let mut next;
        if v6 {
            let header: &[u8; IPV6_HEADER] = start.get(at..)?.first_chunk()?;
            if header[0] >> 4 != 6 {
                return None;
            }
            add(Layer::Ipv6 { at })?;
            next = header[6];
            at += IPV6_HEADER;
            // Hop-by-hop options, routing and destination options may precede the transport header.
            while matches!(next, 0 | 43 | 60) {
                let option: &[u8; 8] = start.get(at..)?.first_chunk()?;
                next = option[0];
                at += 8 + usize::from(option[1]) * 8;
            }
        } else if ethertype == ETHERTYPE_IPV4 {
            let header: &[u8; IPV4_HEADER] = start.get(at..)?.first_chunk()?;
            let len = usize::from(header[0] & 0x0f) * 4;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
            if header[0] >> 4 != 4 || len < IPV4_HEADER || fragment {
                return None;
            }
            start.get(at..at + len)?;
            add(Layer::Ipv4 { at, len })?;
            next = header[9];
            at += len;
        } else {
            return None;
        }
        if next == protocol && known.is_none_or(|known| known == at) {
            return Some((found, (network, v6), at));
        }
        // What is not the segment's own transport header is a tunnel.
        if known.is_none_or(|known| known <= at) {
            return None;
        }
        (ethertype, at) = match next {
            4 => (ETHERTYPE_IPV4, at),
            41 => (ETHERTYPE_IPV6, at),
            47 => inside_gre(start, at)?,
            UDP => {
                add(Layer::Tunnel { at })?;
                inside_udp(start, at)?
            }
            _ => return None,
        };
    }
}

const GENEVE_PORT: u16 = 6081;
const ETHERTYPE_BRIDGED: u16 = 0x6558;

fn inside_ethernet(start: &[u8], at: usize) -> Option<(u16, usize)> {
    let (ethertype, network) = network(start.get(at..)?)?;
    Some((ethertype, at + network))
}

/// What is in a UDP tunnel: Geneve (RFC 8926), or VXLAN (RFC 7348), which has a header of eight bytes.
fn inside_udp(start: &[u8], at: usize) -> Option<(u16, usize)> {
    if word(start, at + 2)? != GENEVE_PORT {
        return inside_ethernet(start, at + UDP_HEADER + 8);
    }
    let options = usize::from(start.get(at + UDP_HEADER)? & 0x3f) * 4;
    let (ethertype, inside) = (word(start, at + UDP_HEADER + 2)?, at + UDP_HEADER + 8 + options);
    if ethertype == ETHERTYPE_BRIDGED { inside_ethernet(start, inside) } else { Some((ethertype, inside)) }
}

/// What is in a GRE tunnel (RFC 2784, RFC 2890) without checksum and sequence number, which would differ.
fn inside_gre(start: &[u8], at: usize) -> Option<(u16, usize)> {
    const KEY: u16 = 0x2000;
    let flags = word(start, at)?;
    if flags & !KEY != 0 {
        return None;
    }
    let inside = at + 4 + if flags & KEY != 0 { 4 } else { 0 };
    let ethertype = word(start, at + 2)?;
    if ethertype == ETHERTYPE_BRIDGED { inside_ethernet(start, inside) } else { Some((ethertype, inside)) }
}
