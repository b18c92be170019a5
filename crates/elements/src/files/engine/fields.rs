//! The fields of IP summary dumps: one table for what `ToIPSummaryDump` writes and `FromIPSummaryDump` reads.
//! `fieldwriter.rs` writes their values, `fieldreader.rs` reads them.

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
    pub(super) most: u64,
}

const fn field(name: &'static str, kind: FieldKind, order: u8, most: u64) -> Field {
    Field { name, kind, order, most }
}

const B1: u64 = 0xff;
pub(super) const B2: u64 = 0xffff;
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
pub(super) const FLAGS: &str = "FSRPAUECN";
