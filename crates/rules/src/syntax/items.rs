//! The items of patterns and their fields.

use super::value::Form;
use crate::key::{Field, Layer};

/// A field of an item.
pub(super) struct Part {
    /// Its name.
    pub name: &'static str,
    /// Where it is in a key; of an IPv6 address, the lower half.
    pub field: Field,
    /// Its lowest bit there.
    pub shift: u32,
    /// How many bits it has.
    pub bits: u32,
    /// How values are written.
    pub form: Form,
    /// The default mask.
    pub default: u64,
    /// Whether it is all that the item has in this field of a key; else it is within such a part.
    pub whole: bool,
}

impl Part {
    /// The largest value.
    pub const fn most(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// This part, which counts only with a mask of its own.
    const fn without_default(self) -> Self {
        Self { default: 0, ..self }
    }
}

/// An item of a pattern.
pub(super) struct Item {
    /// Its name.
    pub name: &'static str,
    /// The layer that a packet must have.
    pub layer: Option<Layer>,
    /// The items that it may follow; none if it may stand anywhere.
    pub after: &'static [&'static str],
    /// Its fields.
    pub parts: &'static [Part],
    /// Fields that testpmd has beside these.
    pub unsupported: &'static [&'static str],
}

/// The most fields of an item.
pub(super) const MOST_PARTS: usize = 6;

const fn part(name: &'static str, field: Field, bits: u32, form: Form) -> Part {
    let default = u64::MAX >> (64 - if bits > 64 { 64 } else { bits });
    Part { name, field, shift: 0, bits, form, default, whole: true }
}

const fn number(name: &'static str, field: Field, bits: u32) -> Part {
    part(name, field, bits, Form::Number)
}

const fn within(name: &'static str, field: Field, shift: u32, bits: u32) -> Part {
    Part { shift, whole: false, ..number(name, field, bits) }
}

const fn layer(name: &'static str, layer: Layer) -> Part {
    Part { shift: layer as u32, ..number(name, Field::Layers, 1).without_default() }
}

const fn item(
    name: &'static str,
    layer: Layer,
    after: &'static [&'static str],
    parts: &'static [Part],
    unsupported: &'static [&'static str],
) -> Item {
    Item { name, layer: Some(layer), after, parts, unsupported }
}

const fn anywhere(name: &'static str, parts: &'static [Part]) -> Item {
    Item { name, layer: None, after: &[], parts, unsupported: &[] }
}

const LINK: &[&str] = &["eth", "vlan"];
const BELOW_IP: &[&str] = &["eth", "vlan", "pppoes", "mpls"];
const IP: &[&str] = &["ipv4", "ipv6"];
const PORTS: [Part; 2] = [number("src", Field::SrcPort, 16), number("dst", Field::DstPort, 16)];
const TCP: &[Part] = &{
    let [src, dst] = PORTS;
    [src, dst, part("flags", Field::TcpFlags, 8, Form::Hex).without_default()]
};
const ICMP: &[Part] = &[number("type", Field::IcmpType, 8), number("code", Field::IcmpCode, 8)];
const SPI: &[Part] = &[part("spi", Field::Session, 32, Form::Hex)];
const TEID: &[Part] = &[number("teid", Field::Session, 32)];
const VNI: &[Part] = &[number("vni", Field::Session, 24)];
const SEID: &[Part] = &[number("seid", Field::PppoeSession, 16)];

/// The Ethernet header, which each pattern begins with.
pub(super) static ETH: Item = Item {
    name: "eth",
    layer: None,
    after: &["nothing"],
    parts: &[
        part("dst", Field::EthDst, 48, Form::Mac),
        part("src", Field::EthSrc, 48, Form::Mac),
        part("type", Field::EthType, 16, Form::Hex).without_default(),
        layer("has_vlan", Layer::Vlan),
    ],
    unsupported: &[],
};

/// All items but `eth`, in the order of a packet's headers. Of two with the same layer, printed is the first.
pub(super) static ITEMS: &[Item] = &[
    anywhere("mark", &[number("id", Field::Mark, 32)]),
    anywhere("meta", &[part("data", Field::Meta, 32, Form::Hex)]),
    anywhere("tag", &[part("data", Field::Tag, 32, Form::Hex)]),
    item(
        "vlan",
        Layer::Vlan,
        LINK,
        &[
            Part { default: 0xfff, ..part("tci", Field::VlanTci, 16, Form::Hex) },
            within("vid", Field::VlanTci, 0, 12),
            within("dei", Field::VlanTci, 12, 1),
            within("pcp", Field::VlanTci, 13, 3),
            part("inner_type", Field::VlanType, 16, Form::Hex).without_default(),
            layer("has_more_vlan", Layer::InnerVlan),
        ],
        &[],
    ),
    item("pppoes", Layer::Pppoe, LINK, SEID, &[]),
    item("pppoed", Layer::Pppoe, LINK, SEID, &[]),
    item(
        "mpls",
        Layer::Mpls,
        &["eth", "vlan", "pppoes"],
        &[
            number("label", Field::MplsLabel, 20),
            number("tc", Field::MplsClass, 3).without_default(),
            number("s", Field::MplsBottom, 1).without_default(),
            number("ttl", Field::MplsTtl, 8).without_default(),
        ],
        &[],
    ),
    item(
        "arp_eth_ipv4",
        Layer::Arp,
        LINK,
        &[part("spa", Field::SrcLow, 32, Form::Ipv4), part("tpa", Field::DstLow, 32, Form::Ipv4)],
        &["sha", "tha"],
    ),
    item(
        "ipv4",
        Layer::Ipv4,
        BELOW_IP,
        &[
            part("src", Field::SrcLow, 32, Form::Ipv4),
            part("dst", Field::DstLow, 32, Form::Ipv4),
            part("tos", Field::Tos, 8, Form::Hex).without_default(),
            number("ttl", Field::Ttl, 8).without_default(),
            number("proto", Field::Proto, 8).without_default(),
            part("fragment_offset", Field::Fragment, 16, Form::Hex).without_default(),
        ],
        &["version_ihl", "length", "packet_id"],
    ),
    item(
        "ipv6",
        Layer::Ipv6,
        BELOW_IP,
        &[
            part("src", Field::SrcLow, 128, Form::Ipv6),
            part("dst", Field::DstLow, 128, Form::Ipv6),
            part("tc", Field::Tos, 8, Form::Hex).without_default(),
            part("flow", Field::FlowLabel, 20, Form::Hex).without_default(),
            number("proto", Field::Proto, 8).without_default(),
            number("hop", Field::Ttl, 8).without_default(),
        ],
        &["length", "has_frag_ext"],
    ),
    item("tcp", Layer::Tcp, IP, TCP, &[]),
    item("udp", Layer::Udp, IP, &PORTS, &[]),
    item("sctp", Layer::Sctp, IP, &PORTS, &["tag", "cksum"]),
    item("icmp", Layer::Icmp, &["ipv4"], ICMP, &["ident", "seq"]),
    item("icmp6", Layer::Icmp6, &["ipv6"], ICMP, &[]),
    item("esp", Layer::Esp, IP, SPI, &[]),
    item("ah", Layer::Ah, IP, SPI, &[]),
    item(
        "gre",
        Layer::Gre,
        IP,
        &[part("protocol", Field::SessionType, 16, Form::Hex)],
        &["c_rsvd0_ver", "c_bit", "s_bit", "k_bit"],
    ),
    item("gre_key", Layer::Gre, &["gre"], &[number("value", Field::Session, 32)], &[]),
    item("l2tpv3oip", Layer::L2tpv3, IP, &[number("session_id", Field::Session, 32)], &[]),
    item("vxlan", Layer::Vxlan, &["udp"], VNI, &["last_rsvd"]),
    item("geneve", Layer::Geneve, &["udp"], VNI, &["protocol", "optlen"]),
    item("gtpu", Layer::Gtpu, &["udp"], TEID, &["flags", "msg_type"]),
    item("gtp", Layer::Gtpu, &["udp"], TEID, &["flags", "msg_type"]),
];

/// Items that testpmd has beside these.
pub(super) const UNSUPPORTED: &[&str] = &[
    "any",
    "conntrack",
    "e_tag",
    "ecpri",
    "flex",
    "fuzzy",
    "geneve-opt",
    "gre_option",
    "gtp_psc",
    "gtpc",
    "higig2",
    "icmp6_nd_na",
    "icmp6_nd_ns",
    "icmp6_nd_opt",
    "igmp",
    "integrity",
    "invert",
    "ipv6_ext",
    "ipv6_frag_ext",
    "l2tpv2",
    "meter_color",
    "nsh",
    "nvgre",
    "pfcp",
    "port_id",
    "port_representor",
    "ppp",
    "pppoe_proto_id",
    "raw",
    "represented_port",
    "vxlan-gpe",
];

/// The item of this name.
pub(super) fn find(name: &str) -> Option<&'static Item> {
    if name == ETH.name { Some(&ETH) } else { ITEMS.iter().find(|item| item.name == name) }
}

impl Item {
    /// Whether headers of another packet follow it.
    pub fn is_tunnel(&self) -> bool {
        let tunnels =
            [Layer::Esp, Layer::Ah, Layer::Gre, Layer::L2tpv3, Layer::Vxlan, Layer::Geneve, Layer::Gtpu];
        self.layer.is_some_and(|layer| tunnels.contains(&layer))
    }

    /// Whether it may stand anywhere.
    pub fn is_anywhere(&self) -> bool {
        self.after.is_empty()
    }
}

/// The field of the inner VLAN tag for that of the outer one; other fields are what they are.
pub(super) const fn inner(field: Field) -> Field {
    match field {
        Field::VlanTci => Field::InnerVlanTci,
        Field::VlanType => Field::InnerVlanType,
        other => other,
    }
}

/// The field of the first 64 bits of an IPv6 address.
pub(super) const fn upper(field: Field) -> Field {
    match field {
        Field::DstLow => Field::DstHigh,
        _ => Field::SrcHigh,
    }
}
