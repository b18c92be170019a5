//! The fields of IP summary dumps: one table for what `ToIPSummaryDump` writes and `FromIPSummaryDump` reads.
//! `fieldvalue.rs` finds their values in packets, `fieldtext.rs` and `binary.rs` write them, `fieldreader.rs`
//! and `binary.rs` read them.

/// How many bytes a field takes in a binary record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::files) enum Width {
    /// Always this many.
    Bytes(usize),
    /// As many as the byte before them says.
    Counted,
    /// The field is written as text only.
    TextOnly,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub(in crate::files) struct Field {
    /// The name in `!data` lines.
    pub(in crate::files) name: &'static str,
    pub(in crate::files) kind: FieldKind,
    /// Fields are written into a packet in this order: those that determine the headers come first.
    pub(in crate::files) order: u8,
    /// The largest number that is accepted.
    pub(super) most: u64,
    /// Its size in a binary record.
    pub(in crate::files) width: Width,
}

const B1: u64 = 0xff;
pub(super) const B2: u64 = 0xffff;
const B4: u64 = 0xffff_ffff;
const B8: u64 = u64::MAX;

const W0: Width = Width::Bytes(0);
const W1: Width = Width::Bytes(1);
const W2: Width = Width::Bytes(2);
const W4: Width = Width::Bytes(4);
const W6: Width = Width::Bytes(6);
const W8: Width = Width::Bytes(8);
const W16: Width = Width::Bytes(16);
const WN: Width = Width::Counted;
const NO: Width = Width::TextOnly;

/// Defines the table of fields, and the enumeration of their meanings.
macro_rules! fields {
    ($($kind:ident $order:literal $most:tt $width:ident $($name:literal)+;)+) => {
        /// The meaning of a field.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(in crate::files) enum FieldKind { $($kind),+ }

        const FIELDS: &[Field] = &[$($(
            Field { name: $name, kind: FieldKind::$kind, order: $order, most: $most, width: $width },
        )+)+];
    };
}

fields! {
    // what it means, order, the largest number, size in binary records, names
    Nothing            0    0      W0   "none";
    Timestamp          0    B8     W8   "timestamp";
    TimestampNs        0    B8     W8   "ntimestamp";
    TsSec              0    B4     W4   "ts_sec";
    TsUsec             0    B4     W4   "ts_usec";
    TsUsec1            0    B8     W8   "ts_usec1";
    FirstTimestamp     0    B8     W8   "first_timestamp";
    FirstTimestampNs   0    B8     W8   "first_ntimestamp";
    Count              0    B4     W4   "count";
    Link               0    B1     W1   "link" "paint";
    Direction          0    B1     W1   "direction";
    Aggregate          0    B4     W4   "aggregate";
    WireLen            0    B4     W4   "wire_len";
    EthSrc            10    0      W6   "eth_src";
    EthDst            10    0      W6   "eth_dst";
    EthType           10    B2     W2   "eth_type";
    IpFrag            20    B2     W1   "ip_frag";
    IpFragoff         21    B2     W2   "ip_fragoff";
    IpHl              21    B1     W1   "ip_hl";
    IpSrc             22    0      W4   "ip_src";
    IpDst             22    0      W4   "ip_dst";
    IpTos             22    B1     W1   "ip_tos";
    IpDscp            22    B1     W1   "ip_dscp";
    IpEcn             22    B1     W1   "ip_ecn";
    IpTtl             22    B1     W1   "ip_ttl";
    IpId              22    B2     W2   "ip_id";
    IpProto           22    B1     W1   "ip_proto";
    IpOpt             22    0      WN   "ip_opt";
    IpLen             23    B4     W4   "ip_len";
    IpSum             24    B2     W2   "ip_sum";
    TcpOff            29    B1     W1   "tcp_off";
    Sport             30    B2     W2   "sport";
    Dport             30    B2     W2   "dport";
    TcpSeq            30    B4     W4   "tcp_seq";
    TcpAck            30    B4     W4   "tcp_ack";
    TcpFlags          30    0xfff  W1   "tcp_flags";
    TcpWindow         30    B2     W2   "tcp_window";
    TcpUrp            30    B2     W2   "tcp_urp";
    UdpLen            30    B4     W4   "udp_len";
    IcmpType          30    B1     W1   "icmp_type";
    IcmpTypeName      30    B1     W1   "icmp_type_name";
    IcmpCode          31    B1     W1   "icmp_code";
    IcmpCodeName      31    B1     W1   "icmp_code_name";
    TcpSack           31    0      WN   "tcp_sack";
    IcmpFlowid        32    B2     W2   "icmp_flowid";
    IcmpSeq           32    B2     W2   "icmp_seq";
    IcmpNextmtu       32    B2     W2   "icmp_nextmtu";
    TcpNtopt          32    0      WN   "tcp_ntopt";
    TcpOpt            33    0      WN   "tcp_opt";
    Payload           40    0      NO   "payload";
    PayloadLen        41    B4     W4   "payload_len";
    PayloadMd5        41    0      W16  "payload_md5";
    PayloadMd5Hex     41    0      W16  "payload_md5_hex";
    IpCaptureLen      42    B4     W4   "ip_capture_len";
}

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
    if let Some(field) = FIELDS.iter().find(|f| f.name == name) {
        return Some(*field);
    }
    if name.contains(' ') {
        return find(&name.replacen(' ', "_", 1));
    }
    if name.contains('_') { None } else { find(&format!("ip_{name}")) }
}

/// The fields that a list of words specifies.
pub(in crate::files) fn words(text: &str) -> Vec<String> {
    lang::split_words(text).iter().map(|w| lang::unquote(&w.text)).collect()
}

/// The letters of the TCP flags, lowest bit first.
pub(super) const FLAGS: &str = "FSRPAUECN";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_for_one_field() {
        let all = FIELDS.iter().map(|f| f.name).chain(SYNONYMS.iter().map(|(old, _)| *old));
        assert_eq!(all.clone().collect::<std::collections::BTreeSet<_>>().len(), all.clone().count());
        for (old, new) in SYNONYMS {
            assert_eq!(find(old).map(|f| f.name), Some(new));
        }
        assert_eq!(find("ip capture_len").map(|f| f.kind), Some(FieldKind::IpCaptureLen));
        assert!(find("capture").is_none());
    }
}
