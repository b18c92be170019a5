//! Reads the fields of a packet from an IP summary dump.

use super::binary;
use super::draft::Draft;
use super::fields::{B2, FLAGS, Field, FieldKind};
use super::ipoptions;
use lang::args::{Bytes, EtherAddr as EtherArg, NameDb, Timestamp, parse};
use wire::{ipv4, protocol};

/// Whether packets can be made with values of a field.
pub(in crate::files) fn reads(kind: FieldKind) -> bool {
    !matches!(kind, FieldKind::Nothing | FieldKind::PayloadMd5 | FieldKind::PayloadMd5Hex)
}

/// Writes a value into a packet. Returns false if it cannot be read.
pub(in crate::files) fn read(field: &Field, text: &str, d: &mut Draft) -> bool {
    value(field, text, d).is_some()
}

/// Writes the value that a field has in a binary record into a packet. Returns false if it does not fit.
pub(in crate::files) fn read_binary(field: &Field, bytes: &[u8], d: &mut Draft) -> bool {
    from_bytes(field.kind, bytes, d).is_some()
}

fn from_bytes(kind: FieldKind, bytes: &[u8], d: &mut Draft) -> Option<()> {
    let n = binary::number(kind, bytes);
    match kind {
        FieldKind::Timestamp | FieldKind::TimestampNs => d.time_ns = n,
        FieldKind::FirstTimestamp | FieldKind::FirstTimestampNs => d.anno.set_first_timestamp_ns(n),
        FieldKind::IpSrc => d.header()?.set_src((n as u32).into()),
        FieldKind::IpDst => d.header()?.set_dst((n as u32).into()),
        FieldKind::EthSrc => d.ethernet().set_src(wire::EtherAddr(*bytes.first_chunk()?)),
        FieldKind::EthDst => d.ethernet().set_dst(wire::EtherAddr(*bytes.first_chunk()?)),
        FieldKind::IpOpt => d.ip_options(&fitting(bytes.to_vec())?),
        FieldKind::TcpOpt | FieldKind::TcpNtopt | FieldKind::TcpSack => {
            d.tcp_options(&fitting(bytes.to_vec())?);
        }
        // A letter, as in text; zero if the packet had none.
        FieldKind::IpFrag => {
            let letter = char::from(n as u8);
            let flags = if n == 0 { Some(0) } else { numeric(kind, letter.encode_utf8(&mut [0; 4]), d) };
            return inject(kind, flags?, d);
        }
        FieldKind::Nothing | FieldKind::PayloadMd5 | FieldKind::PayloadMd5Hex => return None,
        _ => return inject(kind, n, d),
    }
    Some(())
}

fn value(field: &Field, text: &str, d: &mut Draft) -> Option<()> {
    let kind = field.kind;
    match kind {
        FieldKind::Timestamp | FieldKind::TimestampNs => d.time_ns = time(text)?,
        FieldKind::FirstTimestamp | FieldKind::FirstTimestampNs => {
            d.anno.set_first_timestamp_ns(time(text)?);
        }
        FieldKind::IpSrc => d.header()?.set_src(text.parse().ok()?),
        FieldKind::IpDst => d.header()?.set_dst(text.parse().ok()?),
        FieldKind::EthSrc => d.ethernet().set_src(wire::EtherAddr(parse::<EtherArg>(text).ok()?.0)),
        FieldKind::EthDst => d.ethernet().set_dst(wire::EtherAddr(parse::<EtherArg>(text).ok()?.0)),
        FieldKind::EthType => {
            let n = u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()?;
            return inject(kind, n.into(), d);
        }
        FieldKind::Payload => {
            let bytes = parse::<Bytes>(text).ok()?.0;
            d.payload(&bytes);
        }
        FieldKind::IpOpt => {
            let bytes = fitting(ipoptions::read(text)?)?;
            d.ip_options(&bytes);
        }
        FieldKind::TcpOpt | FieldKind::TcpNtopt | FieldKind::TcpSack => {
            let bytes = tcp_options(text)?;
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

/// Nanoseconds since the epoch.
fn time(text: &str) -> Option<u64> {
    u64::try_from(parse::<Timestamp>(text).ok()?.ns).ok()
}

/// Names of numbers.
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
        // Any offset except zero.
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
                    // Letters that older dumps use.
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
        FieldKind::EthType => {
            d.ethernet().set_ethertype(n16);
            d.is_ip &= matches!(n16, 0x0800 | 0x86dd);
        }
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
            d.set_icmp_kind(n8)?;
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

fn tcp_options(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if text != "." {
        for word in text.split([';', ',']) {
            match word {
                "nop" => bytes.push(1),
                "eol" => bytes.push(0),
                word => tcp_option(word, &mut bytes)?,
            }
        }
    }
    fitting(bytes)
}

/// The options, if they fit. Padding at the front is removed first.
fn fitting(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while bytes.len() > MOST_OPTIONS && bytes.first() == Some(&1) {
        bytes.remove(0);
    }
    (bytes.len() <= MOST_OPTIONS).then_some(bytes)
}

/// A number without a sign, which may be hexadecimal (`0x`) or octal (`0`), as in Click.
fn integer<T: TryFrom<u32>>(text: &str) -> Option<T> {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    let number = if digits { parse::<u32>(text).ok()? } else { return None };
    T::try_from(number).ok()
}

fn plain_option(word: &str, to: &mut Vec<u8>) -> Option<()> {
    let (number, data) = word.split_once('=').unwrap_or((word, ""));
    let at = to.len();
    to.extend([integer(number)?, 2]);
    if !data.is_empty() {
        for byte in data.split(':') {
            to.push(integer(byte)?);
        }
    }
    let len = u8::try_from(to.len() - at).ok()?;
    *to.get_mut(at + 1)? = len;
    Some(())
}

fn tcp_option(word: &str, to: &mut Vec<u8>) -> Option<()> {
    if let Some(n) = word.strip_prefix("mss") {
        to.extend([2, 4]);
        to.extend(integer::<u16>(n)?.to_be_bytes());
    } else if let Some(n) = word.strip_prefix("wscale") {
        to.extend([3, 3, integer(n)?]);
    } else if word == "sackok" {
        to.extend([4, 2]);
    } else if let Some((a, b)) = word.strip_prefix("sack").and_then(|s| s.split_once(['-', ':'])) {
        to.extend([5, 10]);
        to.extend(integer::<u32>(a)?.to_be_bytes());
        to.extend(integer::<u32>(b)?.to_be_bytes());
    } else if let Some((a, b)) = word.strip_prefix("ts").and_then(|s| s.split_once(':')) {
        if to.is_empty() {
            to.extend([1, 1]);
        }
        to.extend([8, 10]);
        to.extend(integer::<u32>(a)?.to_be_bytes());
        to.extend(integer::<u32>(b)?.to_be_bytes());
    } else {
        return plain_option(word, to);
    }
    Some(())
}
