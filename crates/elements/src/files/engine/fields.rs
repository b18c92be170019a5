//! The fields of IP summary dumps: one table for what `ToIPSummaryDump` writes and `FromIPSummaryDump` reads.

use super::draft::Draft;
use super::facts::{Facts, Missing};
use crate::plumbing::engine::text::timestamp;
use lang::args::{Bytes, EtherAddr as EtherArg, NameDb, Timestamp, parse};
use std::fmt::Write;
use wire::{Tcp, ipv4, protocol, tcp};

/// What a field means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::files) enum FieldKind {
    Nothing,
    Timestamp,
    TsSec,
    TsUsec,
    TsUsec1,
    FirstTimestamp,
    Count,
    Link,
    Direction,
    Aggregate,
    WireLen,
    EthSrc,
    EthDst,
    EthType,
    IpSrc,
    IpDst,
    IpTos,
    IpDscp,
    IpEcn,
    IpTtl,
    IpFrag,
    IpFragoff,
    IpId,
    IpSum,
    IpProto,
    IpHl,
    IpLen,
    IpCaptureLen,
    IpOpt,
    Sport,
    Dport,
    TcpSeq,
    TcpAck,
    TcpOff,
    TcpFlags,
    TcpWindow,
    TcpUrp,
    TcpOpt,
    TcpNtopt,
    TcpSack,
    UdpLen,
    IcmpType,
    IcmpCode,
    IcmpTypeName,
    IcmpCodeName,
    IcmpFlowid,
    IcmpSeq,
    IcmpNextmtu,
    Payload,
    PayloadLen,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub(in crate::files) struct Field {
    /// The name in `!data` lines.
    pub(in crate::files) name: &'static str,
    pub(in crate::files) kind: FieldKind,
    /// Fields are put into a packet in this order: what decides the packet's shape comes first.
    pub(in crate::files) order: u8,
    /// The largest number that can be read.
    most: u64,
}

const fn field(name: &'static str, kind: FieldKind, order: u8, most: u64) -> Field {
    Field { name, kind, order, most }
}

const B1: u64 = 0xff;
const B2: u64 = 0xffff;
const B4: u64 = 0xffff_ffff;
const B8: u64 = u64::MAX;

#[rustfmt::skip]
const FIELDS: [Field; 52] = [
    field("none", FieldKind::Nothing, 0, 0),
    field("timestamp", FieldKind::Timestamp, 0, B8),
    field("ntimestamp", FieldKind::Timestamp, 0, B8),
    field("ts_sec", FieldKind::TsSec, 0, B4),
    field("ts_usec", FieldKind::TsUsec, 0, B4),
    field("ts_usec1", FieldKind::TsUsec1, 0, B8),
    field("first_timestamp", FieldKind::FirstTimestamp, 0, B8),
    field("first_ntimestamp", FieldKind::FirstTimestamp, 0, B8),
    field("count", FieldKind::Count, 0, B4),
    field("link", FieldKind::Link, 0, B1),
    field("paint", FieldKind::Link, 0, B1),
    field("direction", FieldKind::Direction, 0, B1),
    field("aggregate", FieldKind::Aggregate, 0, B4),
    field("wire_len", FieldKind::WireLen, 0, B4),
    field("eth_src", FieldKind::EthSrc, 10, 0),
    field("eth_dst", FieldKind::EthDst, 10, 0),
    field("eth_type", FieldKind::EthType, 10, B2),
    field("ip_frag", FieldKind::IpFrag, 20, B2),
    field("ip_fragoff", FieldKind::IpFragoff, 21, B2),
    field("ip_hl", FieldKind::IpHl, 21, B1),
    field("ip_src", FieldKind::IpSrc, 22, 0),
    field("ip_dst", FieldKind::IpDst, 22, 0),
    field("ip_tos", FieldKind::IpTos, 22, B1),
    field("ip_dscp", FieldKind::IpDscp, 22, B1),
    field("ip_ecn", FieldKind::IpEcn, 22, B1),
    field("ip_ttl", FieldKind::IpTtl, 22, B1),
    field("ip_id", FieldKind::IpId, 22, B2),
    field("ip_proto", FieldKind::IpProto, 22, B1),
    field("ip_opt", FieldKind::IpOpt, 22, 0),
    field("ip_len", FieldKind::IpLen, 23, B4),
    field("ip_sum", FieldKind::IpSum, 24, B2),
    field("tcp_off", FieldKind::TcpOff, 29, B1),
    field("sport", FieldKind::Sport, 30, B2),
    field("dport", FieldKind::Dport, 30, B2),
    field("tcp_seq", FieldKind::TcpSeq, 30, B4),
    field("tcp_ack", FieldKind::TcpAck, 30, B4),
    field("tcp_flags", FieldKind::TcpFlags, 30, 0xfff),
    field("tcp_window", FieldKind::TcpWindow, 30, B2),
    field("tcp_urp", FieldKind::TcpUrp, 30, B2),
    field("udp_len", FieldKind::UdpLen, 30, B4),
    field("icmp_type", FieldKind::IcmpType, 30, B1),
    field("icmp_type_name", FieldKind::IcmpTypeName, 30, B1),
    field("icmp_code", FieldKind::IcmpCode, 31, B1),
    field("icmp_code_name", FieldKind::IcmpCodeName, 31, B1),
    field("tcp_sack", FieldKind::TcpSack, 31, 0),
    field("icmp_flowid", FieldKind::IcmpFlowid, 32, B2),
    field("icmp_seq", FieldKind::IcmpSeq, 32, B2),
    field("icmp_nextmtu", FieldKind::IcmpNextmtu, 32, B2),
    field("tcp_ntopt", FieldKind::TcpNtopt, 32, 0),
    field("tcp_opt", FieldKind::TcpOpt, 33, 0),
    field("payload", FieldKind::Payload, 40, 0),
    field("payload_len", FieldKind::PayloadLen, 41, B4),
];

const IP_CAPTURE_LEN: Field = field("ip_capture_len", FieldKind::IpCaptureLen, 42, B4);

const SYNONYMS: [(&str, &str); 20] = [
    ("utimestamp", "timestamp"),
    ("ts", "timestamp"),
    ("sec", "ts_sec"),
    ("usec", "ts_usec"),
    ("usec1", "ts_usec1"),
    ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"),
    ("pkt_count", "count"),
    ("packet_count", "count"),
    ("agg", "aggregate"),
    ("wire_length", "wire_len"),
    ("length", "ip_len"),
    ("ip_p", "ip_proto"),
    ("tcp_seqno", "tcp_seq"),
    ("tcp_ackno", "tcp_ack"),
    ("tcp_win", "tcp_window"),
    ("payload_length", "payload_len"),
    ("ether_src", "eth_src"),
    ("ether_dst", "eth_dst"),
    ("ether_type", "eth_type"),
];

/// Looks a field up by its name, an older name, with a space for the underscore, or without `ip_`.
pub(in crate::files) fn find(name: &str) -> Option<Field> {
    let name = SYNONYMS.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    if name == IP_CAPTURE_LEN.name {
        return Some(IP_CAPTURE_LEN);
    }
    if let Some(field) = FIELDS.iter().find(|f| f.name == name) {
        return Some(*field);
    }
    if name.contains(' ') {
        return find(&name.replacen(' ', "_", 1));
    }
    if name.contains('_') { None } else { find(&format!("ip_{name}")) }
}

/// The letters of the TCP flags, lowest bit first.
const FLAGS: &str = "FSRPAUECN";

fn number(out: &mut String, n: impl std::fmt::Display) -> bool {
    let _ = write!(out, "{n}");
    true
}

/// Writes the value of a field. False if the packet has none.
pub(in crate::files) fn write(kind: FieldKind, f: &mut Facts<'_>, out: &mut String) -> bool {
    let anno = f.packet.anno();
    match kind {
        FieldKind::Nothing => false,
        FieldKind::Timestamp => number(out, timestamp(anno.timestamp_ns as i64)),
        FieldKind::FirstTimestamp => number(out, timestamp(anno.first_timestamp_ns() as i64)),
        FieldKind::TsSec => number(out, anno.timestamp_ns / 1_000_000_000),
        FieldKind::TsUsec => number(out, anno.timestamp_ns / 1000 % 1_000_000),
        FieldKind::TsUsec1 => number(out, anno.timestamp_ns / 1000),
        FieldKind::Count => number(out, u64::from(anno.extra_packets()) + 1),
        FieldKind::Link => number(out, anno.paint()),
        FieldKind::Direction => match anno.paint() {
            0 => number(out, '>'),
            1 => number(out, '<'),
            n => number(out, n),
        },
        FieldKind::Aggregate => number(out, anno.aggregate()),
        FieldKind::WireLen => number(out, f.packet.len()),
        FieldKind::EthSrc | FieldKind::EthDst | FieldKind::EthType => match f.ethernet() {
            None => f.missing(Missing::Ethernet),
            Some(e) => match kind {
                FieldKind::EthSrc => number(out, e.src()),
                FieldKind::EthDst => number(out, e.dst()),
                _ => number(out, format_args!("{:04X}", e.ethertype())),
            },
        },
        FieldKind::IpLen => {
            let len = f.ip.map_or(f.length, |_| f.header().total_len().into());
            number(out, len as u64 + u64::from(f.extra))
        }
        FieldKind::IpCaptureLen => {
            let allowed = f.ip.map_or(f.length, <[u8]>::len);
            number(out, if f.ip.is_some() { allowed.min(f.header().total_len().into()) } else { allowed })
        }
        FieldKind::Payload | FieldKind::PayloadLen => payload(kind, f, out),
        FieldKind::Sport | FieldKind::Dport => {
            let need = if kind == FieldKind::Sport { 2 } else { 4 };
            match f.ported().filter(|t| t.len() >= need) {
                None => f.missing(Missing::Ports(need)),
                Some(t) => {
                    let udp = wire::Udp::wrap(super::facts::padded(t));
                    number(out, if kind == FieldKind::Sport { udp.src_port() } else { udp.dst_port() })
                }
            }
        }
        FieldKind::UdpLen => match f.udp.filter(|t| t.len() >= 6) {
            None => f.missing(Missing::Transport(protocol::UDP, 6)),
            Some(t) => number(out, wire::Udp::wrap(super::facts::padded(t)).length()),
        },
        FieldKind::IcmpType
        | FieldKind::IcmpCode
        | FieldKind::IcmpTypeName
        | FieldKind::IcmpCodeName
        | FieldKind::IcmpFlowid
        | FieldKind::IcmpSeq
        | FieldKind::IcmpNextmtu => icmp(kind, f, out),
        FieldKind::TcpSeq
        | FieldKind::TcpAck
        | FieldKind::TcpOff
        | FieldKind::TcpFlags
        | FieldKind::TcpWindow
        | FieldKind::TcpUrp
        | FieldKind::TcpOpt
        | FieldKind::TcpNtopt
        | FieldKind::TcpSack => tcp_field(kind, f, out),
        _ => ip_field(kind, f, out),
    }
}

fn ip_field(kind: FieldKind, f: &mut Facts<'_>, out: &mut String) -> bool {
    let need = match kind {
        FieldKind::IpSrc => 16,
        FieldKind::IpDst => 20,
        FieldKind::IpHl => 1,
        FieldKind::IpTos | FieldKind::IpDscp | FieldKind::IpEcn => 2,
        FieldKind::IpId => 6,
        FieldKind::IpFrag | FieldKind::IpFragoff => 8,
        FieldKind::IpTtl => 9,
        FieldKind::IpProto => 10,
        FieldKind::IpSum => 12,
        _ => f.header().header_len(),
    };
    let Some(ip) = f.ip.filter(|ip| ip.len() >= need) else { return f.missing(Missing::Ip) };
    let h = f.header();
    match kind {
        FieldKind::IpSrc => number(out, h.src()),
        FieldKind::IpDst => number(out, h.dst()),
        FieldKind::IpHl => number(out, h.header_len()),
        FieldKind::IpTos => number(out, h.tos()),
        FieldKind::IpDscp => number(out, h.dscp()),
        FieldKind::IpEcn => {
            number(out, ["no", "ect1", "ect2", "ce"].get(usize::from(h.ecn())).unwrap_or(&"no"))
        }
        FieldKind::IpId => number(out, h.id()),
        FieldKind::IpFrag => number(
            out,
            match (h.is_fragment(), h.is_first_fragment()) {
                (true, true) => 'F',
                (true, false) => 'f',
                _ if h.dont_fragment() => '!',
                _ => '.',
            },
        ),
        FieldKind::IpFragoff => {
            number(out, h.fragment_offset());
            out.push_str(if h.more_fragments() { "+" } else { "" });
            out.push_str(if h.dont_fragment() { "!" } else { "" });
            true
        }
        FieldKind::IpTtl => number(out, h.ttl()),
        FieldKind::IpSum => number(out, h.checksum()),
        FieldKind::IpProto => match h.protocol() {
            protocol::TCP => number(out, 'T'),
            protocol::UDP => number(out, 'U'),
            protocol::ICMP => number(out, 'I'),
            other => number(out, other),
        },
        FieldKind::IpOpt => number(out, options(ip.get(ipv4::HEADER_LEN..need).unwrap_or(&[]), ip_option)),
        _ => false,
    }
}

fn tcp_field(kind: FieldKind, f: &mut Facts<'_>, out: &mut String) -> bool {
    let options_of = matches!(kind, FieldKind::TcpOpt | FieldKind::TcpNtopt | FieldKind::TcpSack);
    let have = f.tcp.map_or(0, <[u8]>::len);
    let t = Tcp::wrap(super::facts::padded::<20>(f.tcp.unwrap_or(&[])));
    let need = match kind {
        FieldKind::TcpSeq => 8,
        FieldKind::TcpAck => 12,
        FieldKind::TcpOff => 13,
        FieldKind::TcpFlags => 14,
        FieldKind::TcpWindow => 16,
        FieldKind::TcpUrp => 20,
        _ if have < 13 => 13,
        // A header with nothing but the usual timestamps need not be whole to tell that there is nothing
        // else.
        _ if kind != FieldKind::TcpOpt && t.header_len() == 32 && usual_timestamps(f.tcp) => 24,
        _ => t.header_len(),
    };
    let Some(bytes) = f.tcp.filter(|t| t.len() >= need) else {
        return f.missing(Missing::Transport(protocol::TCP, need));
    };
    if options_of {
        let end = t.header_len().min(bytes.len());
        let all = bytes.get(20..end).unwrap_or(&[]);
        let written = match kind {
            FieldKind::TcpOpt => options(all, |o| Some(tcp_option(o))),
            FieldKind::TcpNtopt if usual_timestamps(Some(bytes)) && t.header_len() == 32 => ".".to_owned(),
            FieldKind::TcpNtopt => {
                options(all, |o| Some(if o.first() == Some(&8) { None } else { tcp_option(o) }))
            }
            _ if usual_timestamps(Some(bytes)) && t.header_len() == 32 => ".".to_owned(),
            _ => options(all, |o| Some(if matches!(o.first(), Some(4 | 5)) { tcp_option(o) } else { None })),
        };
        return number(out, written);
    }
    match kind {
        FieldKind::TcpSeq => number(out, t.seq()),
        FieldKind::TcpAck => number(out, t.ack()),
        FieldKind::TcpOff => number(out, t.header_len()),
        FieldKind::TcpWindow => number(out, t.window()),
        FieldKind::TcpUrp => number(out, t.urgent()),
        _ => {
            let flags = u16::from(t.flags()) | u16::from(t.offset_reserved() & 1) << 8;
            match flags {
                0 => out.push('.'),
                n if n == u16::from(tcp::PSH | tcp::ACK) => out.push_str("PA"),
                n => out.extend(FLAGS.chars().enumerate().filter(|(i, _)| n >> i & 1 != 0).map(|(_, c)| c)),
            }
            true
        }
    }
}

/// Two fillers and the timestamps option: what most segments have.
fn usual_timestamps(segment: Option<&[u8]>) -> bool {
    segment.and_then(|s| s.get(20..24)) == Some(&[1, 1, 8, 10])
}

fn icmp(kind: FieldKind, f: &mut Facts<'_>, out: &mut String) -> bool {
    let have = f.icmp.map_or(0, <[u8]>::len);
    let i = wire::Icmpv4::wrap(super::facts::padded(f.icmp.unwrap_or(&[])));
    let need = match kind {
        FieldKind::IcmpType | FieldKind::IcmpTypeName => 1,
        FieldKind::IcmpCode | FieldKind::IcmpCodeName => 2,
        FieldKind::IcmpFlowid | FieldKind::IcmpSeq if have >= 1 && !matches!(i.kind(), 0 | 8 | 13..=16) => {
            return false;
        }
        FieldKind::IcmpFlowid => 6,
        FieldKind::IcmpNextmtu if have >= 2 && (i.kind(), i.code()) != (3, 4) => return false,
        _ => 8,
    };
    if have < need {
        return f.missing(Missing::Transport(protocol::ICMP, need));
    }
    match kind {
        FieldKind::IcmpType => number(out, i.kind()),
        FieldKind::IcmpCode => number(out, i.code()),
        FieldKind::IcmpTypeName => match NameDb::icmp_type_name(i.kind()) {
            Some(name) => number(out, name),
            None => number(out, i.kind()),
        },
        FieldKind::IcmpCodeName => match NameDb::icmp_code_name(i.kind(), i.code()) {
            Some(name) => number(out, name),
            None => number(out, i.code()),
        },
        FieldKind::IcmpFlowid => number(out, i.id()),
        FieldKind::IcmpSeq => number(out, i.seq()),
        _ => number(out, i.next_hop_mtu()),
    }
}

fn payload(kind: FieldKind, f: &Facts<'_>, out: &mut String) -> bool {
    let (at, len) = f.payload();
    if kind == FieldKind::PayloadLen {
        // Lengths wrap as Click's do when headers claim more than the packet has.
        return number(out, (len as u32).wrapping_add(f.extra));
    }
    let data = f.packet.data();
    let data = data.get(..f.length.min(data.len())).unwrap_or(data);
    let Some(bytes) = data.get(at..) else { return len == 0 && number(out, "\"\"") };
    let bytes = bytes.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(bytes);
    number(out, lang::quote_bytes(bytes))
}

/// Writes options with `one`, which says `None` for a bad option and an empty value for one that is left out.
fn options(mut bytes: &[u8], one: impl Fn(&[u8]) -> Option<Option<String>>) -> String {
    let mut all: Vec<String> = Vec::new();
    loop {
        bytes = match bytes {
            [] | [0, ..] => break,
            [1, rest @ ..] => rest,
            [_, len, ..] => {
                let len = usize::from(*len);
                let Some((option, rest)) = bytes.split_at_checked(len).filter(|_| len >= 2) else {
                    return "?".to_owned();
                };
                match one(option) {
                    None => return "?".to_owned(),
                    Some(text) => all.extend(text),
                }
                rest
            }
            [_] => return "?".to_owned(),
        };
    }
    if all.is_empty() { ".".to_owned() } else { all.join(";") }
}

/// An option that has no words of its own: its number and its bytes.
fn plain_option(option: &[u8]) -> String {
    let mut s = option.first().map_or(String::new(), ToString::to_string);
    for (i, byte) in option.get(2..).unwrap_or(&[]).iter().enumerate() {
        let _ = write!(s, "{}{byte}", if i == 0 { '=' } else { ':' });
    }
    s
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().copied().map_or(0, u32::from_be_bytes)
}

fn tcp_option(o: &[u8]) -> Option<String> {
    Some(match o {
        [2, 4, a, b] => format!("mss{}", u16::from_be_bytes([*a, *b])),
        [3, 3, n] => format!("wscale{n}"),
        [4, 2] => "sackok".to_owned(),
        [5, len, blocks @ ..] if len % 8 == 2 && !blocks.is_empty() => {
            let blocks = blocks.chunks_exact(8);
            let block = |b: &[u8]| format!("sack{}-{}", be32(b), be32(b.get(4..).unwrap_or(&[])));
            blocks.map(block).collect::<Vec<_>>().join(";")
        }
        [8, 10, ts @ ..] => format!("ts{}:{}", be32(ts), be32(ts.get(4..).unwrap_or(&[]))),
        [2..=5 | 8, ..] => "?".to_owned(),
        _ => plain_option(o),
    })
}

fn ip_option(o: &[u8]) -> Option<Option<String>> {
    let name = match o {
        [ipv4::OPT_RR, ..] => "rr",
        [ipv4::OPT_LSRR, ..] => "lsrr",
        [ipv4::OPT_SSRR, ..] => "ssrr",
        [ipv4::OPT_TS, ..] => return timestamps(o).map(Some),
        _ => return Some(Some(plain_option(o))),
    };
    let pointer = usize::from(*o.get(2)?).checked_sub(4)?;
    let (records, mut s, mut at) = (o.get(3..)?, format!("{name}{{"), 0);
    let mut separator = "";
    for hop in records.chunks_exact(4) {
        if at == pointer {
            if name == "rr" {
                break;
            }
            separator = "^";
        }
        let [a, b, c, d] = be32(hop).to_be_bytes();
        let _ = write!(s, "{separator}{a}.{b}.{c}.{d}");
        separator = ",";
        at += 4;
    }
    if at == pointer && at == records.len() && name != "rr" {
        s.push('^');
    }
    s.push('}');
    if name == "rr" && at == pointer && at + 4 <= records.len() {
        let _ = write!(s, "+{}", (records.len() - at) / 4);
    }
    Some(Some(s))
}

fn timestamps(o: &[u8]) -> Option<String> {
    let (pointer, flags, records) = (usize::from(*o.get(2)?).checked_sub(5)?, *o.get(3)?, o.get(4..)?);
    let flag = flags & 15;
    let size = if (1..=3).contains(&flag) { 8 } else { 4 };
    let mut s = match flag {
        0 => "ts{".to_owned(),
        1 => "ts.ip{".to_owned(),
        3 => "ts.preip{".to_owned(),
        n => format!("ts.{n}{{"),
    };
    let (mut at, mut separator) = (0, "");
    for record in records.chunks_exact(size) {
        if at == pointer {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        s.push_str(separator);
        let mut value = record;
        if size == 8 {
            let [a, b, c, d] = be32(record).to_be_bytes();
            let _ = write!(s, "{a}.{b}.{c}.{d}");
            value = record.get(4..).unwrap_or(&[]);
        }
        if flag != 3 || at < pointer {
            let v = be32(value);
            let nonstandard = if v >> 31 != 0 { "!" } else { "" };
            let _ = write!(s, "{}{nonstandard}{}", if size == 8 { "=" } else { "" }, v & 0x7fff_ffff);
        }
        separator = ",";
        at += size;
    }
    s.push_str(if at == pointer && at == records.len() { "^}" } else { "}" });
    if at == pointer && at + size <= records.len() {
        let _ = write!(s, "+{}", (records.len() - at) / size);
    }
    if flags >> 4 != 0 {
        let _ = write!(s, "++{}", flags >> 4);
    }
    Some(s)
}

/// Puts a value into a packet. False if it cannot be read.
pub(in crate::files) fn read(field: &Field, text: &str, d: &mut Draft) -> bool {
    value(field, text, d).is_some()
}

fn value(field: &Field, text: &str, d: &mut Draft) -> Option<()> {
    let kind = field.kind;
    match kind {
        FieldKind::Timestamp | FieldKind::FirstTimestamp => {
            let ns = u64::try_from(parse::<Timestamp>(text).ok()?.ns).ok()?;
            if kind == FieldKind::Timestamp { d.time_ns = ns } else { d.anno.set_first_timestamp_ns(ns) }
        }
        FieldKind::IpSrc => d.header()?.set_src(text.parse().ok()?),
        FieldKind::IpDst => d.header()?.set_dst(text.parse().ok()?),
        FieldKind::EthSrc => d.ethernet().set_src(wire::EtherAddr(parse::<EtherArg>(text).ok()?.0)),
        FieldKind::EthDst => d.ethernet().set_dst(wire::EtherAddr(parse::<EtherArg>(text).ok()?.0)),
        FieldKind::EthType => {
            let n = u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()?;
            d.ethernet().set_ethertype(n);
            d.is_ip &= matches!(n, 0x0800 | 0x86dd);
        }
        FieldKind::Payload => {
            let bytes = parse::<Bytes>(text).ok()?.0;
            d.payload(&bytes);
        }
        FieldKind::IpOpt => {
            let bytes = read_options(text, ip_option_bytes)?;
            d.ip_options(&bytes);
        }
        FieldKind::TcpOpt | FieldKind::TcpNtopt | FieldKind::TcpSack => {
            let bytes = read_options(text, tcp_option_bytes)?;
            d.tcp_options(&bytes);
        }
        FieldKind::Nothing => return None,
        _ => {
            let n =
                numeric(kind, text, d).or_else(|| parse::<u64>(text).ok().filter(|n| *n <= field.most))?;
            return inject(kind, n, d);
        }
    }
    Some(())
}

/// Words that stand for numbers.
fn numeric(kind: FieldKind, text: &str, d: &Draft) -> Option<u64> {
    let names = NameDb::default();
    match (kind, text) {
        (FieldKind::Link | FieldKind::Direction, ">" | "L") => Some(0),
        (FieldKind::Link | FieldKind::Direction, "<" | "R" | "X") => Some(1),
        (FieldKind::IpProto, "T") => Some(protocol::TCP.into()),
        (FieldKind::IpProto, "U") => Some(protocol::UDP.into()),
        (FieldKind::IpProto, "I") => Some(protocol::ICMP.into()),
        (FieldKind::IpEcn, "no") => Some(0),
        (FieldKind::IpEcn, "ect1" | "ECT(1)") => Some(1),
        (FieldKind::IpEcn, "ect2" | "ECT(0)") => Some(2),
        (FieldKind::IpEcn, "ce" | "CE") => Some(3),
        (FieldKind::IpFrag | FieldKind::IpFragoff, ".") => Some(0),
        (FieldKind::IpFrag | FieldKind::IpFragoff, "!") => Some(ipv4::FLAG_DF.into()),
        (FieldKind::IpFrag | FieldKind::IpFragoff, "F") => Some(ipv4::FLAG_MF.into()),
        // Any offset but zero.
        (FieldKind::IpFrag | FieldKind::IpFragoff, "f") => Some(100),
        (FieldKind::IpFrag | FieldKind::IpFragoff, _) => {
            let digits = text.trim_end_matches(['+', '!']);
            let bytes = digits.parse::<u64>().ok().filter(|n| *n <= B2)?;
            let marks = text.get(digits.len()..)?;
            let units = if d.minor > 0 { bytes >> 3 } else { bytes };
            let mf = if marks.contains('+') { ipv4::FLAG_MF } else { 0 };
            let df = if marks.contains('!') { ipv4::FLAG_DF } else { 0 };
            Some(units | u64::from(mf | df))
        }
        (FieldKind::TcpFlags, ".") => Some(0),
        (FieldKind::TcpFlags, _) if text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            text.chars().try_fold(0, |flags, c| {
                let c = match c {
                    // Letters of older dumps.
                    'W' | 'Y' => 'C',
                    'X' => 'E',
                    c => c,
                };
                FLAGS.find(c).map(|bit| flags | 1 << bit)
            })
        }
        (FieldKind::IcmpType | FieldKind::IcmpTypeName, _) => names.icmp_type(text).map(u64::from),
        (FieldKind::IcmpCode | FieldKind::IcmpCodeName, _) => {
            d.icmp_type.and_then(|t| names.icmp_code(t, text)).map(u64::from)
        }
        _ => None,
    }
}

fn inject(kind: FieldKind, n: u64, d: &mut Draft) -> Option<()> {
    let (n8, n16, n32) = (n as u8, n as u16, n as u32);
    match kind {
        FieldKind::TsSec => d.time_ns = d.time_ns % 1_000_000_000 + n.saturating_mul(1_000_000_000),
        FieldKind::TsUsec => d.time_ns = d.time_ns / 1_000_000_000 * 1_000_000_000 + n % 1_000_000 * 1000,
        FieldKind::TsUsec1 => d.time_ns = n.saturating_mul(1000),
        FieldKind::Count => d.anno.set_extra_packets(n32.saturating_sub(1)),
        FieldKind::Link | FieldKind::Direction => d.anno.set_paint(n8),
        FieldKind::Aggregate => d.anno.set_aggregate(n32),
        FieldKind::WireLen => d.want_len = n32,
        FieldKind::IpTos => d.header()?.set_tos(n8),
        FieldKind::IpDscp => d.header()?.set_dscp(n8),
        FieldKind::IpEcn => d.header()?.set_ecn(n8),
        FieldKind::IpTtl => d.header()?.set_ttl(n8),
        FieldKind::IpFrag | FieldKind::IpFragoff => d.header()?.set_flags_fragment(n16),
        FieldKind::IpId => d.header()?.set_id(n16),
        FieldKind::IpSum => {
            d.header()?.set_checksum(n16);
        }
        FieldKind::IpProto => d.header()?.set_protocol(n8),
        FieldKind::IpHl => d.set_ip_header_len(n as usize),
        FieldKind::IpLen => {
            d.header()?;
            d.want_len = n32.saturating_add(d.link_len() as u32);
        }
        FieldKind::IpCaptureLen => {}
        FieldKind::Sport => d.ports()?.set_src_port(n16),
        FieldKind::Dport => d.ports()?.set_dst_port(n16),
        FieldKind::TcpSeq => d.tcp()?.set_seq(n32),
        FieldKind::TcpAck => d.tcp()?.set_ack(n32),
        FieldKind::TcpOff => d.set_tcp_header_len(n as usize),
        FieldKind::TcpFlags => {
            let mut t = d.tcp()?;
            t.set_flags(n8);
            let high = t.offset_reserved() & 0xf0 | (n >> 8) as u8 & 0x0f;
            t.set_offset_reserved(high);
        }
        FieldKind::TcpWindow => d.tcp()?.set_window(n16),
        FieldKind::TcpUrp => d.tcp()?.set_urgent(n16),
        FieldKind::UdpLen => d.udp()?.set_length(n16),
        FieldKind::IcmpType | FieldKind::IcmpTypeName => {
            d.icmp()?.set_kind(n8);
            d.icmp_type = Some(n8);
        }
        FieldKind::IcmpCode | FieldKind::IcmpCodeName => d.icmp()?.set_code(n8),
        FieldKind::IcmpFlowid => d.icmp()?.set_id(n16),
        FieldKind::IcmpSeq => d.icmp()?.set_seq(n16),
        FieldKind::IcmpNextmtu => d.icmp()?.set_next_hop_mtu(n16),
        FieldKind::PayloadLen => d.payload_len(n32),
        _ => return None,
    }
    Some(())
}

/// The most bytes of options that a header can have.
const MOST_OPTIONS: usize = 40;

fn read_options(text: &str, one: impl Fn(&str, &mut Vec<u8>) -> Option<()>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if text != "." {
        for word in text.split([';', ',']) {
            match word {
                "nop" => bytes.push(1),
                "eol" => bytes.push(0),
                word => one(word, &mut bytes)?,
            }
        }
    }
    // Fillers in front are the first to go.
    while bytes.len() > MOST_OPTIONS && bytes.first() == Some(&1) {
        bytes.remove(0);
    }
    (bytes.len() <= MOST_OPTIONS).then_some(bytes)
}

fn ip_option_bytes(word: &str, to: &mut Vec<u8>) -> Option<()> {
    let (number, data) = word.split_once('=').unwrap_or((word, ""));
    let at = to.len();
    to.extend([number.parse().ok()?, 2]);
    if !data.is_empty() {
        for byte in data.split(':') {
            to.push(byte.parse().ok()?);
        }
    }
    let len = u8::try_from(to.len() - at).ok()?;
    *to.get_mut(at + 1)? = len;
    Some(())
}

fn tcp_option_bytes(word: &str, to: &mut Vec<u8>) -> Option<()> {
    if let Some(n) = word.strip_prefix("mss") {
        to.extend([2, 4]);
        to.extend(n.parse::<u16>().ok()?.to_be_bytes());
    } else if let Some(n) = word.strip_prefix("wscale") {
        to.extend([3, 3, n.parse().ok()?]);
    } else if word == "sackok" {
        to.extend([4, 2]);
    } else if let Some((a, b)) = word.strip_prefix("sack").and_then(|s| s.split_once(['-', ':'])) {
        to.extend([5, 10]);
        to.extend(a.parse::<u32>().ok()?.to_be_bytes());
        to.extend(b.parse::<u32>().ok()?.to_be_bytes());
    } else if let Some((a, b)) = word.strip_prefix("ts").and_then(|s| s.split_once(':')) {
        if to.is_empty() {
            to.extend([1, 1]);
        }
        to.extend([8, 10]);
        to.extend(a.parse::<u32>().ok()?.to_be_bytes());
        to.extend(b.parse::<u32>().ok()?.to_be_bytes());
    } else {
        return ip_option_bytes(word, to);
    }
    Some(())
}
