//! Writes the fields of a packet into an IP summary dump.

use super::facts::{Facts, Missing, padded};
use super::fields::{FLAGS, FieldKind};
use crate::plumbing::engine::text::timestamp;
use lang::args::NameDb;
use md5::{Digest, Md5};
use std::fmt::Write;
use wire::{Tcp, ipv4, protocol, tcp};

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
        FieldKind::Payload | FieldKind::PayloadLen | FieldKind::PayloadMd5 | FieldKind::PayloadMd5Hex => {
            payload(kind, f, out)
        }
        FieldKind::Sport | FieldKind::Dport => {
            let need = if kind == FieldKind::Sport { 2 } else { 4 };
            match f.ported().filter(|t| t.len() >= need) {
                None => f.missing(Missing::Ports(need)),
                Some(t) => {
                    let udp = wire::Udp::wrap(padded(t));
                    number(out, if kind == FieldKind::Sport { udp.src_port() } else { udp.dst_port() })
                }
            }
        }
        FieldKind::UdpLen => match f.udp.filter(|t| t.len() >= 6) {
            None => f.missing(Missing::Transport(protocol::UDP, 6)),
            Some(t) => number(out, wire::Udp::wrap(padded(t)).length()),
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
    let t = Tcp::wrap(padded::<20>(f.tcp.unwrap_or(&[])));
    let need = match kind {
        FieldKind::TcpSeq => 8,
        FieldKind::TcpAck => 12,
        FieldKind::TcpOff => 13,
        FieldKind::TcpFlags => 14,
        FieldKind::TcpWindow => 16,
        FieldKind::TcpUrp => 20,
        _ if have < 13 => 13,
        // A header whose only options are the usual timestamps need not be complete to show that there are no
        // others.
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

/// Two padding bytes and the timestamps option: most segments have these.
fn usual_timestamps(segment: Option<&[u8]>) -> bool {
    segment.and_then(|s| s.get(20..24)) == Some(&[1, 1, 8, 10])
}

fn icmp(kind: FieldKind, f: &mut Facts<'_>, out: &mut String) -> bool {
    let have = f.icmp.map_or(0, <[u8]>::len);
    let i = wire::Icmpv4::wrap(padded(f.icmp.unwrap_or(&[])));
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
        // Lengths wrap as in Click if headers specify more than the packet has.
        return number(out, (len as u32).wrapping_add(f.extra));
    }
    let data = f.packet.data();
    let data = data.get(..f.length.min(data.len())).unwrap_or(data);
    let bytes = match data.get(at..) {
        Some(bytes) => bytes.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(bytes),
        None if len == 0 => &[],
        None => return false,
    };
    match kind {
        FieldKind::PayloadMd5 => number(out, digest_text(Md5::digest(bytes).into())),
        FieldKind::PayloadMd5Hex => {
            number(out, format_args!("{:032x}", u128::from_be_bytes(Md5::digest(bytes).into())))
        }
        _ => number(out, lang::quote_bytes(bytes)),
    }
}

/// Writes options with `one`, which returns `None` for an invalid option and an empty value for one that is
/// left out.
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

/// An option without a text form of its own: its number and its bytes.
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

/// A digest as Click writes it: six bits a character, the lowest first.
fn digest_text(digest: [u8; 16]) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let bits = u128::from_le_bytes(digest);
    let letter = |at: u32| LETTERS.get((bits >> at) as usize & 63).map_or('@', |letter| char::from(*letter));
    (0..128).step_by(6).map(letter).collect()
}
