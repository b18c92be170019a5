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
        // The field holds the sum of the pseudo-header.
        let check = not_zero(!checksum::sum(&frame[start..]));
        frame[field..field + 2].copy_from_slice(&check.to_be_bytes());
        true
    }
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
        let sum = checksum::combine(
            pseudo(frame, self.inner.0, self.inner.1, self.protocol, segment),
            checksum::sum(&frame[at..]),
        );
        put(frame, field, not_zero(!sum));
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
                        let sum = checksum::combine(
                            pseudo(frame, network, v6, UDP, frame.len() - at),
                            checksum::sum(&frame[at..]),
                        );
                        put(frame, at + 6, not_zero(!sum));
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
        checksum::combine(pseudo, checksum::sum(segment)) == 0xffff
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
        Some(Gathered { packets: n, vnet, headers, headers_len: place.headers })
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
