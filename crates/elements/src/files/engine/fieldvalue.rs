//! The values that the fields of IP summary dumps have for a packet.

use super::facts::{Facts, Missing, padded};
use super::fields::FieldKind;
use std::net::Ipv4Addr;
use wire::{EtherAddr, Tcp, ipv4, protocol};

/// A value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::files) enum Value<'a> {
    Number(u64),
    /// Nanoseconds since the epoch.
    Time(u64),
    Address(Ipv4Addr),
    Ethernet(EtherAddr),
    /// Options, or the payload.
    Bytes(&'a [u8]),
}

fn number<'a>(n: impl Into<u64>) -> Option<Value<'a>> {
    Some(Value::Number(n.into()))
}

/// Stores what is missing; there is no value.
fn missing<'a>(f: &mut Facts<'_>, what: Missing) -> Option<Value<'a>> {
    f.missing(what);
    None
}

/// The value of a field; `None` if the packet has none.
pub(in crate::files) fn value<'a>(kind: FieldKind, f: &mut Facts<'a>) -> Option<Value<'a>> {
    let anno = f.packet.anno();
    match kind {
        FieldKind::Nothing => None,
        FieldKind::Timestamp | FieldKind::TimestampNs => Some(Value::Time(anno.timestamp_ns)),
        FieldKind::FirstTimestamp | FieldKind::FirstTimestampNs => {
            Some(Value::Time(anno.first_timestamp_ns()))
        }
        FieldKind::TsSec => number(anno.timestamp_ns / 1_000_000_000),
        FieldKind::TsUsec => number(anno.timestamp_ns / 1000 % 1_000_000),
        FieldKind::TsUsec1 => number(anno.timestamp_ns / 1000),
        FieldKind::Count => number(u64::from(anno.extra_packets()) + 1),
        FieldKind::Link | FieldKind::Direction => number(anno.paint()),
        FieldKind::Aggregate => number(anno.aggregate()),
        FieldKind::WireLen => number(f.packet.len() as u64),
        FieldKind::EthSrc | FieldKind::EthDst | FieldKind::EthType => match f.ethernet() {
            None => missing(f, Missing::Ethernet),
            Some(e) => match kind {
                FieldKind::EthSrc => Some(Value::Ethernet(e.src())),
                FieldKind::EthDst => Some(Value::Ethernet(e.dst())),
                _ => number(e.ethertype()),
            },
        },
        FieldKind::IpLen => {
            let len = f.ip.map_or(f.length, |_| f.header().total_len().into());
            number(len as u64 + u64::from(f.extra))
        }
        FieldKind::IpCaptureLen => {
            let allowed = f.ip.map_or(f.length, <[u8]>::len);
            let len = if f.ip.is_some() { allowed.min(f.header().total_len().into()) } else { allowed };
            number(len as u64)
        }
        FieldKind::Payload | FieldKind::PayloadLen | FieldKind::PayloadMd5 | FieldKind::PayloadMd5Hex => {
            payload(kind, f)
        }
        FieldKind::Sport | FieldKind::Dport => {
            let need = if kind == FieldKind::Sport { 2 } else { 4 };
            match f.ported().filter(|t| t.len() >= need) {
                None => missing(f, Missing::Ports(need)),
                Some(t) => {
                    let udp = wire::Udp::wrap(padded(t));
                    number(if kind == FieldKind::Sport { udp.src_port() } else { udp.dst_port() })
                }
            }
        }
        FieldKind::UdpLen => match f.udp.filter(|t| t.len() >= 6) {
            None => missing(f, Missing::Transport(protocol::UDP, 6)),
            Some(t) => number(wire::Udp::wrap(padded(t)).length()),
        },
        FieldKind::IcmpType
        | FieldKind::IcmpCode
        | FieldKind::IcmpTypeName
        | FieldKind::IcmpCodeName
        | FieldKind::IcmpFlowid
        | FieldKind::IcmpSeq
        | FieldKind::IcmpNextmtu => icmp(kind, f),
        FieldKind::TcpSeq
        | FieldKind::TcpAck
        | FieldKind::TcpOff
        | FieldKind::TcpFlags
        | FieldKind::TcpWindow
        | FieldKind::TcpUrp
        | FieldKind::TcpOpt
        | FieldKind::TcpNtopt
        | FieldKind::TcpSack => tcp_field(kind, f),
        _ => ip_field(kind, f),
    }
}

fn ip_field<'a>(kind: FieldKind, f: &mut Facts<'a>) -> Option<Value<'a>> {
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
    let Some(ip) = f.ip.filter(|ip| ip.len() >= need) else { return missing(f, Missing::Ip) };
    let h = f.header();
    match kind {
        FieldKind::IpSrc => Some(Value::Address(h.src())),
        FieldKind::IpDst => Some(Value::Address(h.dst())),
        FieldKind::IpHl => number(h.header_len() as u64),
        FieldKind::IpTos => number(h.tos()),
        FieldKind::IpDscp => number(h.dscp()),
        FieldKind::IpEcn => number(h.ecn()),
        FieldKind::IpId => number(h.id()),
        FieldKind::IpFrag => number(match (h.is_fragment(), h.is_first_fragment()) {
            (true, true) => b'F',
            (true, false) => b'f',
            _ if h.dont_fragment() => b'!',
            _ => b'.',
        }),
        FieldKind::IpFragoff => number(h.flags_fragment()),
        FieldKind::IpTtl => number(h.ttl()),
        FieldKind::IpSum => number(h.checksum()),
        FieldKind::IpProto => number(h.protocol()),
        FieldKind::IpOpt => Some(Value::Bytes(ip.get(ipv4::HEADER_LEN..need).unwrap_or(&[]))),
        _ => None,
    }
}

fn tcp_field<'a>(kind: FieldKind, f: &mut Facts<'a>) -> Option<Value<'a>> {
    let have = f.tcp.map_or(0, <[u8]>::len);
    let t = Tcp::wrap(padded::<20>(f.tcp.unwrap_or(&[])));
    // A header whose only options are the usual timestamps need not be complete to show that there are no
    // others.
    let usual = kind != FieldKind::TcpOpt && t.header_len() == 32 && usual_timestamps(f.tcp);
    let need = match kind {
        FieldKind::TcpSeq => 8,
        FieldKind::TcpAck => 12,
        FieldKind::TcpOff => 13,
        FieldKind::TcpFlags => 14,
        FieldKind::TcpWindow => 16,
        FieldKind::TcpUrp => 20,
        _ if have < 13 => 13,
        _ if usual => 24,
        _ => t.header_len(),
    };
    let Some(bytes) = f.tcp.filter(|t| t.len() >= need) else {
        return missing(f, Missing::Transport(protocol::TCP, need));
    };
    match kind {
        FieldKind::TcpSeq => number(t.seq()),
        FieldKind::TcpAck => number(t.ack()),
        FieldKind::TcpOff => number(t.header_len() as u64),
        FieldKind::TcpWindow => number(t.window()),
        FieldKind::TcpUrp => number(t.urgent()),
        FieldKind::TcpFlags => number(u16::from(t.flags()) | u16::from(t.offset_reserved() & 1) << 8),
        _ if usual => Some(Value::Bytes(&[])),
        _ => Some(Value::Bytes(bytes.get(20..t.header_len().min(bytes.len())).unwrap_or(&[]))),
    }
}

/// Two padding bytes and the timestamps option: most segments have these.
fn usual_timestamps(segment: Option<&[u8]>) -> bool {
    segment.and_then(|s| s.get(20..24)) == Some(&[1, 1, 8, 10])
}

fn icmp<'a>(kind: FieldKind, f: &mut Facts<'_>) -> Option<Value<'a>> {
    let have = f.icmp.map_or(0, <[u8]>::len);
    let i = wire::Icmpv4::wrap(padded(f.icmp.unwrap_or(&[])));
    let need = match kind {
        FieldKind::IcmpType | FieldKind::IcmpTypeName => 1,
        FieldKind::IcmpCode | FieldKind::IcmpCodeName => 2,
        FieldKind::IcmpFlowid | FieldKind::IcmpSeq if have >= 1 && !matches!(i.kind(), 0 | 8 | 13..=16) => {
            return None;
        }
        FieldKind::IcmpFlowid => 6,
        FieldKind::IcmpNextmtu if have >= 2 && (i.kind(), i.code()) != (3, 4) => return None,
        _ => 8,
    };
    if have < need {
        return missing(f, Missing::Transport(protocol::ICMP, need));
    }
    match kind {
        FieldKind::IcmpType | FieldKind::IcmpTypeName => number(i.kind()),
        FieldKind::IcmpCode | FieldKind::IcmpCodeName => number(i.code()),
        FieldKind::IcmpFlowid => number(i.id()),
        FieldKind::IcmpSeq => number(i.seq()),
        _ => number(i.next_hop_mtu()),
    }
}

fn payload<'a>(kind: FieldKind, f: &Facts<'a>) -> Option<Value<'a>> {
    let (at, len) = f.payload();
    if kind == FieldKind::PayloadLen {
        // Lengths wrap as in Click if headers specify more than the packet has.
        return number((len as u32).wrapping_add(f.extra));
    }
    let data = f.packet.data();
    let data = data.get(..f.length.min(data.len())).unwrap_or(data);
    match data.get(at..) {
        Some(bytes) => Some(Value::Bytes(bytes.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(bytes))),
        None if len == 0 => Some(Value::Bytes(&[])),
        None => None,
    }
}
