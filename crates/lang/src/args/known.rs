//! Names that Click defines itself. Those of ports, ICMP types and ICMP codes are in `wire`.

use wire::protocol;

/// IP protocols, with the numbers that Click gives to groups of protocols.
pub(crate) const PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", protocol::ICMP as u32),
    ("igmp", protocol::IGMP as u32),
    ("ipip", protocol::IPIP as u32),
    ("tcp", protocol::TCP as u32),
    ("udp", protocol::UDP as u32),
    ("dccp", protocol::DCCP as u32),
    ("icmp6", protocol::ICMPV6 as u32),
    ("sctp", protocol::SCTP as u32),
    ("tcpudp", 256),
    ("transp", 257),
];

/// Annotations: name, offset in the packet's annotation area, size in bytes.
pub(crate) const ANNOTATIONS: &[(&str, u16, u16)] = &[
    ("AGGREGATE", 20, 4),
    ("DST_IP", 0, 4),
    ("DST_IP6", 0, 16),
    ("EXTRA_LENGTH", 28, 4),
    ("EXTRA_PACKETS", 24, 4),
    ("FIRST_TIMESTAMP", 32, 8),
    ("FIX_IP_SRC", 19, 1),
    ("FWD_RATE", 20, 4),
    ("GRID_ROUTE_CB", 27, 1),
    ("ICMP_PARAMPROB", 17, 1),
    ("IPREASSEMBLER", 28, 4),
    ("IPSEC_SA_DATA_REFERENCE", 40, 8),
    ("IPSEC_SPI", 32, 4),
    ("MISC_IP", 20, 4),
    ("PACKET_NUMBER", 32, 4),
    ("PAINT", 16, 1),
    ("PERFCTR", 40, 8),
    ("REV_RATE", 24, 4),
    ("SEQUENCE_NUMBER", 36, 4),
    ("VLAN", 20, 2),
    ("VLAN_TCI", 20, 2),
    ("WIFI_EXTRA", 16, 28),
];

/// Size of the annotation area in bytes.
pub(crate) const ANNOTATION_SIZE: u16 = 48;
