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
use wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN};
use wire::protocol::{TCP, UDP};
use wire::tcp::{ACK, CWR, ECE, FIN, PSH};

use crate::packet::Packet;
use crate::sum::sum;

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

/// The places in a TCP packet that may become part of a segment.
#[derive(Clone, Copy, Debug)]
struct Place {
    network: usize,
    v6: bool,
    transport: usize,
    headers: usize,
}

/// `None` for what is left as it is: other protocols, fragments, IP options, flags that say more than that
/// data comes, padding after the packet, no payload.
#[inline]
fn place(frame: &[u8]) -> Option<Place> {
    let (ethertype, at) = network(frame)?;
    let (v6, transport) = match ethertype {
        ETHERTYPE_IPV4 => {
            let header: &[u8; IPV4_HEADER] = frame.get(at..)?.first_chunk()?;
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
            if header[0] != 0x45 || header[9] != TCP || fragment || at + total != frame.len() {
                return None;
            }
            (false, at + IPV4_HEADER)
        }
        ETHERTYPE_IPV6 => {
            let header: &[u8; IPV6_HEADER] = frame.get(at..)?.first_chunk()?;
            let total = IPV6_HEADER + usize::from(u16::from_be_bytes([header[4], header[5]]));
            if header[0] >> 4 != 6 || header[6] != TCP || at + total != frame.len() {
                return None;
            }
            (true, at + IPV6_HEADER)
        }
        _ => return None,
    };
    let header: &[u8; TCP_HEADER] = frame.get(transport..)?.first_chunk()?;
    let headers = transport + usize::from(header[12] >> 4) * 4;
    // Neither SYN nor RST nor URG nor CWR; the reserved bits are zero.
    let good = header[13] & ACK != 0
        && header[13] & !(ACK | PSH | FIN | ECE) == 0
        && header[12] & 0x0f == 0
        && headers >= transport + TCP_HEADER
        && headers < frame.len();
    good.then_some(Place { network: at, v6, transport, headers })
}

impl Place {
    /// Whether the checksums are right: the kernel computes them anew for a segment.
    fn is_valid(&self, frame: &[u8]) -> bool {
        if !self.v6 {
            let header: Option<&[u8; IPV4_HEADER]> = frame[self.network..].first_chunk();
            if !header.is_some_and(checksum::is_all_ones) {
                return false;
            }
        }
        let segment = &frame[self.transport..];
        let pseudo = pseudo(frame, self.network, self.v6, TCP, segment.len());
        checksum::combine(pseudo, sum(segment)) == 0xffff
    }

    fn seq(&self, frame: &[u8]) -> u32 {
        frame[self.transport + 4..].first_chunk().map_or(0, |seq| u32::from_be_bytes(*seq))
    }

    /// Whether the headers of `next`, which follows `previous` in a segment and is the `n`th packet after
    /// `first`, are what cutting would make of those of `first`. Checksums and sequence numbers are checked
    /// elsewhere.
    fn continues(&self, first: &[u8], next: &[u8], n: u16) -> bool {
        let (network, transport) = (self.network, self.transport);
        let same = |range: std::ops::Range<usize>| first[range.clone()] == next[range];
        let ip = if self.v6 {
            // All but the length.
            same(network..network + 4) && same(network + 6..transport)
        } else {
            let id = |frame: &[u8]| u16::from_be_bytes([frame[network + 4], frame[network + 5]]);
            // All but length, identification and checksum.
            same(network..network + 2)
                && id(next) == id(first).wrapping_add(n)
                && same(network + 6..network + 10)
                && same(network + 12..transport)
        };
        ip && same(0..network)
            && same(transport..transport + 4)
            && same(transport + 8..transport + 13)
            && (first[transport + 13] ^ next[transport + 13]) & !(PSH | FIN) == 0
            && same(transport + 14..transport + 16)
            && same(transport + 18..self.headers)
    }
}

/// Packets at the front of a batch that are sent as one segment.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// How many there are.
    pub(crate) packets: usize,
    pub(crate) vnet: VnetHeader,
    headers: [u8; HEADERS_MAX],
    headers_len: usize,
    /// Where the IP header begins.
    network: usize,
}

impl Gathered {
    /// The packets at the front that make a segment: at least two.
    #[inline]
    pub(crate) fn from_front(packets: &[Packet]) -> Option<Gathered> {
        let [first, second, ..] = packets else { return None };
        let place = place(first.data())?;
        // Cheap to say for packets of different connections.
        if second.len() > first.len() || second.len() <= place.headers {
            return None;
        }
        Gathered::of_connection(place, packets)
    }

    fn of_connection(place: Place, packets: &[Packet]) -> Option<Gathered> {
        const PACKET_MAX: usize = u16::MAX as usize;
        let first = packets.first()?.data();
        if place.headers > HEADERS_MAX || !place.is_valid(first) {
            return None;
        }
        let size = first.len() - place.headers;
        let (mut len, mut n, mut last) = (first.len(), 1, first);
        for packet in packets.iter().skip(1).map(Packet::data) {
            let payload = packet.len().saturating_sub(place.headers);
            let ended = last.len() < first.len() || last[place.transport + 13] & (PSH | FIN) != 0;
            if ended
                || payload == 0
                || payload > size
                || len + payload - place.network > PACKET_MAX
                || n == PACKETS_MAX
                || place.seq(packet) != place.seq(first).wrapping_add((len - place.headers) as u32)
                || self::place(packet).is_none_or(|p| p.headers != place.headers)
                || !place.continues(first, packet, n as u16)
                || !place.is_valid(packet)
            {
                break;
            }
            (len, n, last) = (len + payload, n + 1, packet);
        }
        if n < 2 {
            return None;
        }
        let mut headers = [0; HEADERS_MAX];
        headers[..place.headers].copy_from_slice(&first[..place.headers]);
        headers[place.transport + 13] |= last[place.transport + 13] & (PSH | FIN);
        if place.v6 {
            put(&mut headers, place.network + 4, (len - place.transport) as u16);
        } else {
            put(&mut headers, place.network + 2, (len - place.network) as u16);
            put(&mut headers, place.network + 10, 0);
            let check = !checksum::sum(&headers[place.network..place.transport]);
            put(&mut headers, place.network + 10, check);
        }
        let pseudo = pseudo(&headers, place.network, place.v6, TCP, len - place.transport);
        put(&mut headers, place.transport + 16, pseudo);
        let vnet = VnetHeader {
            flags: VnetHeader::NEEDS_SUM,
            kind: if place.v6 { VnetHeader::TCP_IPV6 } else { VnetHeader::TCP_IPV4 },
            headers_len: place.headers as u16,
            size: size as u16,
            sum_start: place.transport as u16,
            sum_offset: 16,
        };
        Some(Gathered { packets: n, vnet, headers, headers_len: place.headers, network: place.network })
    }

    /// Bytes of the longest IP packet of it.
    pub(crate) fn packet_len(&self) -> usize {
        self.headers_len - self.network + usize::from(self.vnet.size)
    }

    /// The headers of the segment.
    pub(crate) fn headers(&self) -> &[u8] {
        &self.headers[..self.headers_len]
    }

    /// What a packet adds to the segment.
    pub(crate) fn payload<'a>(&self, packet: &'a Packet) -> &'a [u8] {
        packet.data().get(self.headers_len..).unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Packets of a connection, each but the last with `size` bytes of payload.
    #[cfg(not(miri))]
    pub(crate) fn packets(payload: usize, size: usize) -> Vec<Packet> {
        host(&Wants { payload, ..Wants::default() }).cut(size)
    }

    /// A TCP or UDP segment as a host hands it over.
    #[derive(Clone)]
    struct Host {
        frame: Vec<u8>,
        network: usize,
        transport: usize,
        headers: usize,
        v6: bool,
        protocol: u8,
    }

    struct Wants<'a> {
        v6: bool,
        protocol: u8,
        vlans: usize,
        ip_options: usize,
        options: &'a [u8],
        flags: u8,
        payload: usize,
    }

    impl Default for Wants<'_> {
        fn default() -> Self {
            let options = &[1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 3, 4];
            Wants { v6: false, protocol: TCP, vlans: 0, ip_options: 0, options, flags: ACK, payload: 5000 }
        }
    }

    fn host(wants: &Wants<'_>) -> Host {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
        for vlan in 0..wants.vlans {
            frame.extend([0x81, 0, 0, vlan as u8]);
        }
        let network = frame.len() + 2;
        let header = if wants.protocol == TCP { 20 + wants.options.len() } else { 8 };
        let len = header + wants.payload;
        if wants.v6 {
            frame.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([wants.protocol, 64]);
            frame.extend((0..32).map(|i| 0x20 + i));
        } else {
            let words = 5 + wants.ip_options;
            frame.extend([0x08, 0x00, 0x40 | words as u8, 0]);
            frame.extend(((words * 4 + len) as u16).to_be_bytes());
            frame.extend([0xff, 0xfe, 0x40, 0, 64, wants.protocol, 0, 0, 10, 0, 0, 1, 192, 168, 255, 254]);
            frame.extend([1].repeat(wants.ip_options * 4));
            let check = checksum::checksum(&frame[network..]);
            put(&mut frame, network + 10, check);
        }
        let transport = frame.len();
        frame.extend([0x12, 0x34, 0x00, 0x50]);
        if wants.protocol == TCP {
            frame.extend(0xffff_f000_u32.to_be_bytes());
            frame.extend([9, 8, 7, 6, (header as u8 / 4) << 4, wants.flags, 0x20, 0, 0, 0, 0, 0]);
            frame.extend(wants.options);
        } else {
            frame.extend((len as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        let headers = frame.len();
        frame.extend((0..wants.payload).map(|i| (i * 7 + i / 251) as u8));
        let sum = pseudo(&frame, network, wants.v6, wants.protocol, len);
        put(&mut frame, transport + if wants.protocol == TCP { 16 } else { 6 }, sum);
        Host { frame, network, transport, headers, v6: wants.v6, protocol: wants.protocol }
    }

    impl Host {
        fn vnet(&self, size: usize) -> VnetHeader {
            VnetHeader {
                flags: VnetHeader::NEEDS_SUM,
                kind: match (self.protocol, self.v6) {
                    (TCP, false) => VnetHeader::TCP_IPV4,
                    (TCP, true) => VnetHeader::TCP_IPV6,
                    _ => VnetHeader::UDP,
                },
                headers_len: self.headers as u16,
                size: size as u16,
                sum_start: self.transport as u16,
                sum_offset: if self.protocol == TCP { 16 } else { 6 },
            }
        }

        fn cut(&self, size: usize) -> Vec<Packet> {
            let cut = Cut::plan(self.vnet(size), &self.frame, self.frame.len(), None).unwrap();
            pieces(&cut, &self.frame[self.headers..])
        }

        /// Whether both checksums of a packet like this one are right.
        fn is_valid(&self, frame: &[u8]) -> bool {
            let header = checksum::sum(&frame[self.network..self.transport]);
            let segment = &frame[self.transport..];
            let pseudo = pseudo(frame, self.network, self.v6, self.protocol, segment.len());
            (self.v6 || header == 0xffff) && checksum::combine(pseudo, checksum::sum(segment)) == 0xffff
        }
    }

    fn pieces(cut: &Cut, payload: &[u8]) -> Vec<Packet> {
        (0..cut.packets())
            .map(|i| {
                let part = &payload[cut.part(i)];
                let mut packet = Packet::from_bytes(&vec![0xee; cut.headers_len() + part.len()]).unwrap();
                packet.data_mut()[cut.headers_len()..].copy_from_slice(part);
                assert!(packet.len() <= cut.longest());
                cut.finish(i, packet.data_mut());
                packet
            })
            .collect()
    }

    /// The segment that the kernel gets.
    fn sent(gathered: &Gathered, packets: &[Packet]) -> Vec<u8> {
        let parts = packets[..gathered.packets].iter().map(|packet| gathered.payload(packet));
        gathered.headers().iter().copied().chain(parts.flatten().copied()).collect()
    }

    fn bytes(packets: &[Packet]) -> Vec<Vec<u8>> {
        packets.iter().map(|packet| packet.data().to_vec()).collect()
    }

    #[test]
    fn what_is_cut_and_gathered_is_as_it_was() {
        for (v6, vlans) in [(false, 0), (true, 0), (false, 1), (true, 2)] {
            let sizes = [(1001, 333), (5000, 1448), (4344, 1448), (1449, 1448), (600, 1)];
            for (payload, size) in sizes.into_iter().take(if cfg!(miri) { 1 } else { sizes.len() }) {
                for flags in [ACK, ACK | PSH, ACK | PSH | FIN, ACK | ECE] {
                    let host = host(&Wants { v6, vlans, payload, flags, ..Wants::default() });
                    let packets = host.cut(size);
                    assert_eq!(packets.len(), payload.div_ceil(size));
                    assert!(packets.iter().all(|packet| host.is_valid(packet.data())));
                    let gathered = Gathered::from_front(&packets).unwrap();
                    assert_eq!((gathered.packets, gathered.vnet), (packets.len(), host.vnet(size)));
                    assert_eq!(sent(&gathered, &packets), host.frame);
                }
            }
        }
    }

    #[test]
    fn flags_are_those_of_their_packets() {
        let flags = ACK | PSH | FIN | CWR;
        let packets = host(&Wants { flags, ..Wants::default() }).cut(1448);
        let flags: Vec<u8> = packets.iter().map(|packet| packet.data()[14 + 20 + 13]).collect();
        assert_eq!(flags, [ACK | CWR, ACK, ACK, ACK | PSH | FIN]);
        assert!(Gathered::from_front(&packets).is_none(), "the first says more than that data comes");
        assert_eq!(Gathered::from_front(&packets[1..]).unwrap().packets, 3);
    }

    #[test]
    fn sequence_numbers_and_identifications_count_and_wrap() {
        let packets = host(&Wants::default()).cut(1448);
        let at = |packet: &Packet, at: usize| u32::from_be_bytes(*packet.data()[at..].first_chunk().unwrap());
        let seqs: Vec<u32> = packets.iter().map(|packet| at(packet, 14 + 20 + 4)).collect();
        assert_eq!(seqs, [0xffff_f000, 0xffff_f5a8, 0xffff_fb50, 0xf8]);
        let ids: Vec<u32> = packets.iter().map(|packet| at(packet, 14 + 4) >> 16).collect();
        assert_eq!(ids, [0xfffe, 0xffff, 0, 1]);
    }

    #[test]
    fn ip_options_are_cut_and_not_gathered() {
        let host = host(&Wants { ip_options: 2, ..Wants::default() });
        let packets = host.cut(1448);
        assert!(packets.len() == 4 && packets.iter().all(|packet| host.is_valid(packet.data())));
        assert!(Gathered::from_front(&packets).is_none());
    }

    #[test]
    fn datagrams_are_cut() {
        for v6 in [false, true] {
            let host = host(&Wants { v6, protocol: UDP, payload: 2500, ..Wants::default() });
            let packets = host.cut(1000);
            let lengths: Vec<u16> =
                packets.iter().map(|packet| word(packet.data(), host.transport + 4).unwrap()).collect();
            assert_eq!(lengths, [1008, 1008, 508]);
            assert!(packets.iter().all(|packet| host.is_valid(packet.data())));
            assert!(Gathered::from_front(&packets).is_none());
        }
    }

    #[test]
    fn a_tag_that_the_kernel_took_out_is_put_back() {
        let tagged = host(&Wants { vlans: 1, ..Wants::default() });
        let plain = host(&Wants::default());
        let cut = Cut::plan(plain.vnet(1448), &plain.frame, plain.frame.len(), Some((0x8100, 0))).unwrap();
        assert_eq!(bytes(&pieces(&cut, &plain.frame[plain.headers..])), bytes(&tagged.cut(1448)));
        let mut frame = [&[0; TAG], &plain.frame[..]].concat();
        put_tag(&mut frame, (0x8100, 0));
        assert_eq!(frame, tagged.frame);
    }

    /// A segment in VXLAN, with or without a checksum of the outer UDP header.
    #[test]
    fn segments_in_tunnels_are_cut() {
        let inner = host(&Wants::default());
        for check in [0, 1] {
            let tunnel = Wants { protocol: UDP, payload: 8 + inner.frame.len(), ..Wants::default() };
            let mut outer = host(&tunnel);
            outer.frame.truncate(outer.headers);
            outer.frame.extend([8, 0, 0, 0, 0, 0, 7, 0]);
            let begin = outer.frame.len();
            outer.frame.extend(&inner.frame);
            put(&mut outer.frame, outer.transport + 6, check);
            let start = begin + inner.transport;
            let vnet = VnetHeader { sum_start: start as u16, ..inner.vnet(1448) };
            let cut = Cut::plan(vnet, &outer.frame, outer.frame.len(), None).unwrap();
            let packets = pieces(&cut, &inner.frame[inner.headers..]);
            let insides: Vec<Vec<u8>> =
                packets.iter().map(|packet| packet.data()[begin..].to_vec()).collect();
            assert_eq!(insides, bytes(&inner.cut(1448)));
            for packet in &packets {
                let frame = packet.data();
                assert_eq!(word(frame, outer.network + 2), Some((frame.len() - outer.network) as u16));
                assert_eq!(word(frame, outer.transport + 4), Some((frame.len() - outer.transport) as u16));
                assert_eq!(word(frame, outer.transport + 6) == Some(0), check == 0);
                assert!(check == 0 || outer.is_valid(frame));
            }
        }
    }

    #[test]
    fn what_would_not_come_back_is_not_gathered() {
        let host = host(&Wants::default());
        let gathered = |change: &dyn Fn(usize, &mut [u8])| {
            let mut packets = host.cut(1000);
            for (i, packet) in packets.iter_mut().enumerate() {
                change(i, packet.data_mut());
                // The checksums are right again.
                let frame = packet.data_mut();
                put(frame, 14 + 10, 0);
                let check = checksum::checksum(&frame[14..34]);
                put(frame, 14 + 10, check);
                put(frame, 34 + 16, 0);
                let len = frame.len() - 34;
                let sum = checksum::combine(pseudo(frame, 14, false, TCP, len), checksum::sum(&frame[34..]));
                put(frame, 34 + 16, !sum);
            }
            Gathered::from_front(&packets).map_or(1, |gathered| gathered.packets)
        };
        assert_eq!(gathered(&|_, _| {}), 5);
        // Places of a frame whose change in the third packet ends the segment: Ethernet, type of service,
        // identification, fragments, time to live, addresses, ports, sequence, acknowledgement, flags,
        // window, options.
        let places = [19, 41, 5, 11, 15, 20, 22, 29, 33, 35, 37, 45, 49, 54, 60];
        for at in places.into_iter().take(if cfg!(miri) { 2 } else { places.len() }) {
            let changed = |i: usize, frame: &mut [u8]| {
                if i == 2 {
                    frame[at] ^= 0x10
                }
            };
            assert_eq!(gathered(&changed), 2, "{at}");
        }
        // PSH ends a segment.
        assert_eq!(
            gathered(&|i, frame| if i == 1 {
                frame[47] |= PSH
            }),
            2
        );
    }

    #[test]
    fn damaged_packets_stay_as_they_are() {
        let host = host(&Wants::default());
        for at in [14 + 8, 14 + 10, 34 + 16, 1000] {
            for i in 0..5 {
                let mut packets = host.cut(1000);
                packets[i].data_mut()[at] ^= 1;
                let gathered = Gathered::from_front(&packets).map_or(1, |gathered| gathered.packets);
                assert_eq!(gathered, i.max(1), "byte {at} of packet {i}");
            }
        }
        // Padding after the packet.
        let mut packets = host.cut(1000);
        assert!(packets[0].put_in_place(1));
        assert!(Gathered::from_front(&packets).is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn a_segment_is_not_longer_than_ip_allows() {
        let host = host(&Wants { payload: 60000, ..Wants::default() });
        let mut packets = host.cut(1448);
        let more = packets.len();
        let mut next = self::host(&Wants { payload: 60000, ..Wants::default() });
        let seq = 0xffff_f000_u32.wrapping_add(60000 / 1448 * 1448);
        next.frame[38..42].copy_from_slice(&seq.to_be_bytes());
        put(&mut next.frame, 14 + 4, 0xfffe_u16.wrapping_add(more as u16 - 1));
        packets.truncate(more - 1);
        packets.extend(next.cut(1448));
        let gathered = Gathered::from_front(&packets).unwrap();
        assert_eq!(gathered.packets, (65535 - 52) / 1448);
        assert!(sent(&gathered, &packets).len() <= 14 + 65535);
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let host = host(&Wants { payload: if cfg!(miri) { 600 } else { 60000 }, ..Wants::default() });
        let plan = |vnet, len| Cut::plan(vnet, &host.frame[..len], host.frame.len(), None).is_some();
        let good = host.vnet(1448);
        assert!(plan(good, host.headers));
        for len in 0..host.headers {
            assert!(!plan(good, len));
        }
        assert!(!plan(host.vnet(0), 200));
        assert!(cfg!(miri) || (!plan(host.vnet(59), 200) && plan(host.vnet(60), 200)));
        assert!(!plan(VnetHeader { kind: 3, ..good }, 200), "UDP fragments");
        assert!(!plan(VnetHeader { sum_start: 35, ..good }, 200));
        assert!(!plan(VnetHeader { kind: VnetHeader::UDP, ..good }, 200));
        assert!(Cut::plan(good, &host.frame, host.headers - 1, None).is_none());
        // Any first bytes and any header: nothing panics.
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize
        };
        for _ in 0..if cfg!(miri) { 30 } else { 20_000 } {
            let mut frame = host.frame[..200].to_vec();
            for _ in 0..random() % 4 {
                frame[12 + random() % 60] = random() as u8;
            }
            let mut vnet = good;
            vnet.kind = [1, 4, 5][random() % 3];
            vnet.size = 1 + random() as u16 % 300;
            if random() % 2 == 0 {
                (vnet.sum_start, vnet.flags) = (random() as u16 % 200, random() as u8);
            }
            let shown = random() % 200;
            if let Some(cut) = Cut::plan(vnet, &frame[..shown], 200, Some((0x8100, 1))) {
                let payload = vec![0; 200];
                pieces(&cut, &payload);
            }
            vnet.complete(&mut frame);
            let packets = [Packet::from_bytes(&frame).unwrap(), Packet::from_bytes(&frame).unwrap()];
            Gathered::from_front(&packets);
        }
    }

    #[test]
    fn the_checksum_of_sctp_is_another() {
        // RFC 3309: CRC32c, whose value of these digits is known.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut frame = [7; 100];
        let vnet = VnetHeader {
            flags: VnetHeader::NEEDS_SUM,
            sum_start: 34,
            sum_offset: 8,
            ..VnetHeader::default()
        };
        frame[42..46].fill(0);
        let expected = crc32c(&frame[34..]).to_le_bytes();
        assert!(vnet.complete(&mut frame));
        assert_eq!(frame[42..46], expected);
        assert!(!vnet.complete(&mut frame[..45]));
    }

    #[test]
    fn partial_checksums_are_completed() {
        let host = host(&Wants { payload: 101, ..Wants::default() });
        let mut frame = host.frame.clone();
        assert!(host.vnet(1448).complete(&mut frame) && host.is_valid(&frame));
        let mut frame = host.frame.clone();
        assert!(!VnetHeader::default().complete(&mut frame));
        assert!(!VnetHeader { sum_offset: u16::MAX, ..host.vnet(1) }.complete(&mut frame));
        assert_eq!(frame, host.frame);
        let vnet = host.vnet(77);
        assert_eq!(VnetHeader::read(&vnet.bytes()), vnet);
    }
}
