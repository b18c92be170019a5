//! Gathering packets of a connection into a segment.

use wire::checksum;
use wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use wire::protocol::TCP;
use wire::tcp::{ACK, ECE, FIN, PSH};

use super::{
    HEADERS_MAX, IPV4_HEADER, IPV6_HEADER, PACKETS_MAX, TCP_HEADER, VnetHeader, network, pseudo, put,
};
use crate::packet::Packet;
use crate::sum::sum;

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
