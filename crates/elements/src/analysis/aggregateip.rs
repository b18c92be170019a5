//! # AggregateIP
//! Sets the aggregate annotation to a field of the IP packet.
//!
//! ## Synopsis
//! `AggregateIP(FIELD [, INCREMENTAL, UNSHIFT_IP_ADDR])`
//!
//! ## Arguments
//! - `FIELD` (*field*): a header and one of its fields. `ip` has `vers`, `hl`, `tos`, `dscp`, `ecn`, `len`,
//!   `id`, `off`, `rf`, `df`, `mf`, `fragoff`, `ttl`, `proto`, `sum`, `src`, `dst`; `tcp` has `sport`,
//!   `dport`, `seq`, `ackno`, `hl`, `flags`, `fin`, `syn`, `rst`, `psh`, `ack`, `urg`, `win`, `sum`, `urp`;
//!   `udp` has `sport`, `dport`, `len`, `sum`; `icmp` has `type`, `code`, `sum`; `tcpudp`, which need not be
//!   written, has `sport` and `dport`. In place of a name, or behind it, there may be bytes, `[OFFSET]`,
//!   `[OFFSET:LENGTH]`, `[FIRST-LAST]`, or bits in braces; with bytes the header can also be `transp` (any
//!   transport header), `payload` (what follows a TCP or UDP header) or `ip proto N`. At the end, `/N` takes
//!   the first bits only, and `& MASK` those of a mask whose ones are contiguous. A field has at most 32
//!   bits, which are in one word of its header.
//! - `INCREMENTAL` (*bool*, keyword, default false): appends the field's bits to the annotation instead.
//! - `UNSHIFT_IP_ADDR` (*bool*, keyword, default false): a part of an IP address stays in its place: `ip
//!   src/8` of 1.2.3.4 is 16777216, not 1.
//!
//! ## Ports
//! One agnostic input. Packets leave by output 0, agnostic; packets that lack the field, because they are too
//! short, later fragments or of another protocol, by output 1, push, if it is connected. There must be four
//! bytes where the field's word is. The IP header must have been marked.
//!
//! ## Handlers
//! - `header` (read): the header: `ip`, `transp`, `payload`, or a protocol.
//! - `bit_offset` (read): where the field begins in the header, in bits.
//! - `bit_length` (read): the field's length in bits.
//! - `field` (read): the field.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true) -> AggregateIP(ip dst/16) -> c :: AggregateCounter -> Discard;
//! ```
//!
//! ## See also
//! AggregateLength, AggregatePaint, AggregateIPFlows, AggregateCounter

use super::engine::ipfield::{Header, IpField};
use crate::ip::engine::header::header;
use crate::prelude::*;
use lang::args::Raw;

const NO_FIELD: DropReason = DropReason::new("packet lacks the field");

/// The `AggregateIP` element.
pub struct AggregateIp {
    field: IpField,
    /// Where the word with the field begins in its header.
    word: usize,
    shift: u32,
    mask: u32,
    incremental: bool,
}

impl Element for AggregateIp {
    const CLASS: &'static str = "AggregateIP";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::AGGREGATE);
    const WRITES: Fields = Fields::AGGREGATE;
    const DROPS: &'static [DropCase] = &[NO_FIELD
        .when("it is too short, a later fragment or of another protocol, and output 1 is not connected")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("analysis/aggregateip");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let text = lang::unquote(&args.mp::<Raw>("FIELD")?.0);
        let read = IpField::parse(&text, args.names()).map(|(field, rest)| (field, rest.trim().is_empty()));
        let incremental = args.k_or("INCREMENTAL", false)?;
        let unshifted = args.k_or("UNSHIFT_IP_ADDR", false)?;
        let (field, whole) = read.map_err(|wrong| args.error(wrong))?;
        if !whole {
            return Err(args.error("garbage after field specification"));
        }
        let right = field.bit_offset + field.bit_length - 1;
        if field.bit_offset / 32 != right / 32 {
            return Err(args.error("field specification does not fit within a single word"));
        }
        if field.bit_length == 32 && incremental {
            return Err(args.error("'INCREMENTAL' is incompatible with field length 32"));
        }
        let (mut mask, mut shift) = (u32::MAX >> (32 - field.bit_length), 31 - right % 32);
        if unshifted && field.header == Header::Ip && (96..160).contains(&field.bit_offset) {
            (mask, shift) = (mask << shift, 0);
        }
        Ok(Self { field, word: field.bit_offset as usize / 32 * 4, shift, mask, incremental })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("header", |e| e.field.header.name());
        h.read("bit_offset", |e| e.field.bit_offset.to_string());
        h.read("bit_length", |e| e.field.bit_length.to_string());
        h.read("field", |e| e.field.text());
    }
}

impl AggregateIp {
    /// Where the field's header begins in the packet's data.
    #[inline]
    fn place(&self, packet: &Packet) -> Option<isize> {
        if self.field.header == Header::Ip {
            return packet.network_header_offset();
        }
        let ip = header(packet).filter(|ip| ip.fragment_offset() == 0)?;
        let at = packet.transport_header_offset()?;
        match (self.field.header, ip.protocol()) {
            (Header::Transport, _) | (Header::TcpUdp, 6 | 17) => Some(at),
            (Header::Protocol(wanted), protocol) => (wanted == protocol).then_some(at),
            (Header::Payload, 6) => {
                let tcp = packet.transport_header().and_then(wire::Tcp::new)?;
                Some(at + tcp.header_len() as isize)
            }
            (Header::Payload, 17) => Some(at + 8),
            _ => None,
        }
    }
}

impl Step for AggregateIp {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let word = self.place(packet).and_then(|at| usize::try_from(at + self.word as isize).ok());
        let Some(word) = word.and_then(|at| packet.data().get(at..)?.first_chunk().copied()) else {
            return false;
        };
        let value = (u32::from_be_bytes(word) >> self.shift) & self.mask;
        let before = if self.incremental { packet.aggregate() << self.field.bit_length } else { 0 };
        packet.set_aggregate(before.wrapping_add(value));
        true
    }
}

impl Simple for AggregateIp {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.fail(packet, NO_FIELD);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked};
    use crate::testing::Bench;

    /// The aggregate of a packet; `None` if it lacks the field.
    fn aggregate(arguments: &str, bytes: &[u8], before: u32) -> Option<u32> {
        let mut bench = Bench::with_ports(&format!("AggregateIP({arguments})"), 1, 2);
        let mut packet = marked(bytes);
        packet.set_aggregate(before);
        let out = bench.send(0, packet);
        (out[0].0 == 0).then(|| out[0].1.aggregate())
    }

    #[test]
    fn takes_fields_of_headers() {
        let udp = ip(17, &[0x12, 0x34, 0, 53, 0, 12, 0, 0, 0xaa, 0xbb, 0xcc, 0xdd]);
        for (field, value) in [
            ("ip src", 0x0a00_0001),
            ("ip dst/8", 10),
            ("ip dst & 0xff", 2),
            ("ip proto", 17),
            ("ip ttl", 64),
            ("sport", 0x1234),
            ("udp dport", 53),
            ("transp[4:2]", 12),
            ("payload[1]", 0xbb),
            ("ip dst/8, UNSHIFT_IP_ADDR true", 0x0a00_0000),
            ("udp dport, UNSHIFT_IP_ADDR true", 53),
        ] {
            assert_eq!(aggregate(field, &udp, 7), Some(value), "{field}");
        }
        assert_eq!(aggregate("ip proto, INCREMENTAL true", &udp, 3), Some(3 * 256 + 17));
        let mut tcp = vec![0; 24];
        (tcp[12], tcp[13]) = (0x60, 0x12);
        tcp.extend([9, 8, 7, 6]);
        let tcp = ip(6, &tcp);
        assert_eq!(aggregate("tcp syn", &tcp, 0), Some(1));
        assert_eq!(aggregate("tcp fin", &tcp, 0), Some(0));
        assert_eq!(aggregate("data[0:4]", &tcp, 0), Some(0x0908_0706));
    }

    #[test]
    fn packets_without_the_field_leave_by_the_second_output() {
        let udp = ip(17, &[0, 1, 0, 2, 0, 8, 0, 0]);
        assert_eq!(aggregate("tcp sport", &udp, 0), None);
        assert_eq!(aggregate("icmp type", &udp, 0), None);
        // The word of the field must be there as a whole.
        assert_eq!(aggregate("payload[0]", &udp, 0), None);
        let later = ip_with(&[], &[0; 8], |h| h.set_flags_fragment(1));
        assert_eq!((aggregate("sport", &later, 0), aggregate("ip fragoff", &later, 0)), (None, Some(1)));
        let mut bench = Bench::with_ports("AggregateIP(ip src)", 1, 1);
        assert!(bench.push(0, &udp).is_empty());
        assert_eq!(bench.drops(), [("packet lacks the field".to_owned(), 1)]);
    }

    #[test]
    fn shows_its_field_and_refuses_others() {
        let mut bench = Bench::new("AggregateIP(ip src & 0xff000000)");
        assert_eq!((bench.read("header"), bench.read("field")), ("ip".to_owned(), "ip src/8".to_owned()));
        assert_eq!((bench.read("bit_offset"), bench.read("bit_length")), ("96".to_owned(), "8".to_owned()));
        assert!(Bench::error("AggregateIP(ip[3:2])").contains("does not fit within a single word"));
        assert!(Bench::error("AggregateIP(ip src/)").contains("garbage after field specification"));
        assert!(
            Bench::error("AggregateIP(ip src, INCREMENTAL true)")
                .contains("incompatible with field length 32")
        );
        assert!(Bench::error("AggregateIP(nothing)").contains("expected 'HEADER"));
    }
}
