//! Tests of reading and printing rules.

mod errors;
mod properties;

use super::{parse, print};
use crate::key::{Field, Key, Layer};
use crate::rule::{Action, Pattern, Range, Rule};
use lang::Source;

/// The only rule of a text without errors and warnings.
fn rule(text: &str) -> Rule {
    let (rules, diags) = parse(&Source::new("rules", text));
    assert!(diags.is_empty(), "{text}: {diags:?}");
    assert_eq!(rules.len(), 1, "{text}");
    let rule = rules[0].rule.clone();
    round_trip(&rule);
    rule
}

/// The pattern of these items.
fn pattern(items: &str) -> Pattern {
    rule(&format!("flow create 0 ingress pattern {items} end actions drop / end")).pattern
}

/// What is printed gives the same rule.
fn round_trip(rule: &Rule) {
    let text = print(rule, 3);
    let (rules, diags) = parse(&Source::new("printed", text.as_str()));
    assert!(diags.is_empty(), "{text}: {diags:?}");
    assert_eq!((&rules[0].rule, rules[0].port), (rule, 3), "{text}");
}

/// A pattern that demands these fields, and layers: those that are there, those that are not.
fn demands(with: &[Layer], without: &[Layer], fields: &[(Field, u64, u64)]) -> Pattern {
    let bits = |layers: &[Layer]| layers.iter().fold(0, |bits, layer| bits | layer.bit());
    let mut pattern = Pattern::default();
    pattern.demand(Field::Layers, bits(with), bits(with) | bits(without));
    fields.iter().for_each(|(field, value, mask)| pattern.demand(*field, *value, *mask));
    pattern
}

const ALL: u64 = u64::MAX;
const IPV4: u64 = 0xffff_ffff;
const UNTAGGED: [Layer; 4] = [Layer::Vlan, Layer::InnerVlan, Layer::Pppoe, Layer::Mpls];

#[test]
fn a_rule_has_all_its_parts() {
    let text = "# a comment\n\n  testpmd> flow create 7 priority 2 ingress group 1 pattern \
                eth / ipv4 dst is 10.0.0.1 / \
                udp dst spec 1000 dst last 2000 / end actions mark id 7 / queue index 3 / end # another\r\n";
    let (rules, diags) = parse(&Source::new("rules", text));
    assert!(diags.is_empty(), "{diags:?}");
    assert_eq!((rules.len(), rules[0].port, rules[0].line), (1, 7, 3));
    let rule = &rules[0].rule;
    assert_eq!((rule.group, rule.priority), (1, 2));
    assert_eq!(rule.actions, [Action::Mark(7), Action::Queue(3)]);
    let mut expected = demands(&[Layer::Ipv4, Layer::Udp], &UNTAGGED, &[(Field::DstLow, 0x0a00_0001, IPV4)]);
    expected.ranges.push(Range { field: Field::DstPort, first: 1000, last: 2000 });
    assert_eq!(rule.pattern, expected);
    round_trip(rule);
}

#[test]
fn lines_end_in_every_way() {
    let line = "flow create 0 pattern end actions end";
    let text = format!("{line}\n{line}\r\n# x\r{line}#\n\n{line}");
    let (rules, diags) = parse(&Source::new("rules", text));
    assert!(diags.is_empty(), "{diags:?}");
    assert_eq!(rules.iter().map(|placed| placed.line).collect::<Vec<_>>(), [1, 2, 4, 6]);
    assert_eq!(rules[0].rule, Rule::default());
}

/// A rule of each usual kind: its text, its priority, and how many ranges it has.
const USUAL: [(&str, u32, usize); 9] = [
    ("flow create 0 ingress pattern eth / vlan / ipv4 dst is 192.168.3.2 / end actions drop / end", 0, 0),
    (
        "flow create 0 priority 1 ingress pattern eth / vlan vid spec 123 vid mask 0xfff / end \
         actions queue index 0 / end",
        1,
        0,
    ),
    (
        "flow create 0 ingress pattern eth src is 02:00:00:00:00:01 dst is 02:00:00:00:00:02 \
         type is 0x0806 / end actions drop / end",
        0,
        0,
    ),
    (
        "flow create 0 ingress pattern eth / ipv4 src spec 192.168.0.0 src mask 255.255.0.0 / end \
         actions rss queues 0 1 2 3 end / end",
        0,
        0,
    ),
    (
        "flow create 0 ingress pattern eth / ipv6 dst is 2001:db8::7 / tcp dst is 443 / end \
         actions mark id 3 / queue index 1 / end",
        0,
        0,
    ),
    (
        "flow create 0 ingress pattern eth / vlan vid is 9 / ipv4 src is 10.0.0.7 dst is 10.0.0.8 / \
         tcp src is 1 dst is 2 / end actions count / queue index 1 / end",
        0,
        0,
    ),
    (
        "flow create 0 ingress pattern eth / ipv4 / \
         udp src spec 1024 src last 2047 src mask 0xffff dst is 53 / end actions count / jump group 1 / end",
        0,
        1,
    ),
    (
        "flow create 0 ingress pattern eth / ipv4 / udp dst is 4789 / vxlan vni is 7 / end \
         actions set_meta data 5 mask 0xff / jump group 9 / end",
        0,
        0,
    ),
    (
        "flow create 1 group 9 pattern eth / vlan / vlan vid is 4 / ipv4 / end \
         actions of_pop_vlan / of_pop_vlan / queue index 1 / end",
        0,
        0,
    ),
];

#[test]
fn usual_rules_are_read() {
    for (text, priority, ranges) in USUAL {
        let rule = rule(text);
        assert_eq!((rule.priority, rule.pattern.ranges.len()), (priority, ranges), "{text}");
        assert!(!rule.actions.is_empty());
    }
}

#[test]
fn many_rules_are_read_and_keep_their_lines() {
    let text = USUAL.map(|(text, ..)| format!("{text}\n")).concat().repeat(1000);
    let (rules, diags) = parse(&Source::new("rules", text));
    assert!(!diags.has_errors());
    assert_eq!(rules.len(), 1000 * USUAL.len());
    for (at, placed) in rules.iter().enumerate() {
        assert_eq!((placed.line, &placed.rule), (at + 1, &rules[at % USUAL.len()].rule));
    }
}

#[test]
fn stacks_demand_their_layers_and_none_between() {
    use Layer::{Arp, InnerVlan, Ipv4, Ipv6, Mpls, Pppoe, Tcp, Udp, Vlan, Vxlan};
    let type_is = |field| [(field, 0x8864, ALL)];
    for (items, expected) in [
        ("eth /", Pattern::default()),
        ("void / mark id is 5 /", demands(&[], &[], &[(Field::Mark, 5, ALL)])),
        ("eth / vlan /", demands(&[Vlan], &[], &[])),
        ("eth has_vlan is 1 /", demands(&[Vlan], &[], &[])),
        ("eth has_vlan is 0 /", demands(&[], &[Vlan], &[])),
        ("vlan has_more_vlan is 0 /", demands(&[Vlan], &[InnerVlan], &[])),
        ("vlan has_more_vlan is 1 / ipv4 /", demands(&[Vlan, InnerVlan, Ipv4], &[Pppoe, Mpls], &[])),
        ("eth has_vlan is 1 / ipv4 /", demands(&[Vlan, Ipv4], &[Pppoe, Mpls], &[])),
        ("eth / vlan / vlan /", demands(&[Vlan, InnerVlan], &[], &[])),
        ("ipv4 /", demands(&[Ipv4], &UNTAGGED, &[])),
        ("vlan / ipv6 /", demands(&[Vlan, Ipv6], &[InnerVlan, Pppoe, Mpls], &[])),
        ("eth / arp_eth_ipv4 /", demands(&[Arp], &UNTAGGED, &[])),
        ("mpls /", demands(&[Mpls], &[Vlan, InnerVlan, Pppoe], &[])),
        (
            "vlan / mpls / ipv4 /",
            demands(&[Vlan, Mpls, Ipv4], &[InnerVlan, Pppoe], &[(Field::MplsBottom, 1, 1)]),
        ),
        ("pppoes /", demands(&[Pppoe], &[Vlan, InnerVlan], &type_is(Field::EthType))),
        (
            "vlan / pppoes / ipv6 /",
            demands(&[Vlan, Pppoe, Ipv6], &[InnerVlan, Mpls], &type_is(Field::VlanType)),
        ),
        ("vlan / vlan / pppoes /", demands(&[Vlan, InnerVlan, Pppoe], &[], &type_is(Field::InnerVlanType))),
        ("pppoed /", demands(&[Pppoe], &[Vlan, InnerVlan], &[(Field::EthType, 0x8863, ALL)])),
        ("ipv4 / tcp /", demands(&[Ipv4, Tcp], &UNTAGGED, &[])),
        (
            "eth / ipv4 / udp / vxlan vni is 42 /",
            demands(&[Ipv4, Udp, Vxlan], &UNTAGGED, &[(Field::Session, 42, 0xff_ffff)]),
        ),
    ] {
        assert_eq!(pattern(items), expected, "{items}");
    }
}

/// Demands these fields, and says nothing about layers.
fn fields(fields: &[(Field, u64, u64)]) -> Pattern {
    demands(&[], &[], fields)
}

/// The pattern of these items, without their layers.
fn without_layers(items: &str) -> Pattern {
    let mut pattern = pattern(items);
    for key in [&mut pattern.mask, &mut pattern.value] {
        key.set(Field::Layers, 0);
    }
    pattern
}

#[test]
fn fields_of_link_headers_have_their_place() {
    use Field::{EthDst, EthSrc, EthType, InnerVlanTci, VlanTci, VlanType};
    use Field::{MplsBottom, MplsClass, MplsLabel, MplsTtl};
    for (items, expected) in [
        ("eth dst is 2:0:0:0:0:1 /", &[(EthDst, 0x0200_0000_0001, ALL)][..]),
        (
            "eth src is 0200:0000:00ff type is 0x0806 /",
            &[(EthSrc, 0x0200_0000_00ff, ALL), (EthType, 0x806, ALL)],
        ),
        (
            "eth dst spec 01:00:5e:00:00:00 dst mask ff:ff:ff:00:00:00 /",
            &[(EthDst, 0x0100_5e00_0000, 0xffff_ff00_0000)],
        ),
        ("vlan vid is 5 pcp is 3 inner_type is 2048 /", &[(VlanTci, 0x6005, 0xefff), (VlanType, 0x800, ALL)]),
        ("vlan / vlan tci spec 6 dei is 1 tci mask 0x1fff /", &[(InnerVlanTci, 0x1006, 0x1fff)]),
        ("vlan vid spec 7 /", &[(VlanTci, 7, 0xfff)]),
        (
            "mpls label is 16 tc is 1 s is 1 ttl is 2 /",
            &[(MplsLabel, 16, ALL), (MplsClass, 1, ALL), (MplsBottom, 1, ALL), (MplsTtl, 2, ALL)],
        ),
    ] {
        assert_eq!(without_layers(items), fields(expected), "{items}");
    }
}

#[test]
fn fields_of_network_headers_have_their_place() {
    use Field::{DstHigh, DstLow, FlowLabel, Fragment, Proto, SrcHigh, SrcLow, Tos, Ttl};
    for (items, expected) in [
        (
            "arp_eth_ipv4 spa is 10.0.0.1 tpa is 0x0a000002 /",
            &[(SrcLow, 0x0a00_0001, IPV4), (DstLow, 0x0a00_0002, IPV4)][..],
        ),
        ("ipv4 src spec 10.1.2.3 src prefix 16 /", &[(SrcLow, 0x0a01_0000, 0xffff_0000)]),
        ("ipv4 src spec 10.1.2.3 src prefix 0 /", &[]),
        (
            "ipv4 src spec 10.1.2.3 dst spec 10.0.0.1 /",
            &[(SrcLow, 0x0a01_0203, IPV4), (DstLow, 0x0a00_0001, IPV4)],
        ),
        ("ipv4 src is 10.1.2.3 src is 10.1.2.4 /", &[(SrcLow, 0x0a01_0204, IPV4)]),
        (
            "ipv4 tos is 3 ttl is 017 proto is 6 fragment_offset is 0x2000 /",
            &[(Tos, 3, ALL), (Ttl, 15, ALL), (Proto, 6, ALL), (Fragment, 0x2000, ALL)],
        ),
        ("ipv6 dst spec 2001:db8::1 dst prefix 32 /", &[(DstHigh, 0x2001_0db8 << 32, ALL << 32)]),
        ("ipv6 dst spec 1::1 dst prefix 128 /", &[(DstHigh, 1 << 48, ALL), (DstLow, 1, ALL)]),
        (
            "ipv6 src is ::1 tc is 1 flow is 0xfffff proto is 17 hop is 4 /",
            &[
                (SrcLow, 1, ALL),
                (SrcHigh, 0, ALL),
                (Tos, 1, ALL),
                (FlowLabel, 0xf_ffff, ALL),
                (Proto, 17, ALL),
                (Ttl, 4, ALL),
            ],
        ),
    ] {
        assert_eq!(without_layers(items), fields(expected), "{items}");
    }
}

#[test]
fn fields_of_other_headers_have_their_place() {
    use Field::{DstPort, IcmpCode, IcmpType, Mark, Meta, Session, SessionType, SrcPort, Tag, TcpFlags};
    for (items, expected) in [
        ("ipv4 / tcp flags spec 0x12 flags mask 0x17 /", &[(TcpFlags, 0x12, 0x17)][..]),
        ("ipv4 / sctp src is 1 dst is 2 /", &[(SrcPort, 1, ALL), (DstPort, 2, ALL)]),
        ("ipv4 / icmp type is 8 code is 0 /", &[(IcmpType, 8, ALL), (IcmpCode, 0, ALL)]),
        ("ipv6 / icmp6 type spec 135 /", &[(IcmpType, 135, ALL)]),
        ("ipv4 / esp spi is 9 /", &[(Session, 9, ALL)]),
        ("ipv4 / ah spi is 9 /", &[(Session, 9, ALL)]),
        (
            "ipv4 / gre protocol is 0x800 / gre_key value is 4 /",
            &[(SessionType, 0x800, ALL), (Session, 4, ALL)],
        ),
        ("ipv6 / l2tpv3oip session_id is 17 /", &[(Session, 17, ALL)]),
        ("ipv4 / udp / geneve vni is 17 /", &[(Session, 17, 0xff_ffff)]),
        ("ipv4 / udp / gtp teid is 17 /", &[(Session, 17, ALL)]),
        ("ipv4 / udp / gtpu teid is 17 /", &[(Session, 17, ALL)]),
        (
            "mark id is 1 / meta data spec 0x30 data mask 0xf0 / tag index is 0 data is 4 /",
            &[(Mark, 1, ALL), (Meta, 0x30, 0xf0), (Tag, 4, ALL)],
        ),
    ] {
        assert_eq!(without_layers(items), fields(expected), "{items}");
    }
}

#[test]
fn ranges_take_in_the_rest_of_a_prefix() {
    let ranges = |items: &str| pattern(items).ranges;
    let range = |field, first, last| vec![Range { field, first, last }];
    assert_eq!(
        ranges("ipv4 src spec 10.1.2.3 src last 10.3.4.5 src mask 255.255.0.0 /"),
        range(Field::SrcLow, 0x0a01_0000, 0x0a03_ffff)
    );
    assert_eq!(
        ranges("ipv4 src is 10.1.2.3 src last 10.1.2.4 /"),
        range(Field::SrcLow, 0x0a01_0203, 0x0a01_0204)
    );
    assert_eq!(ranges("ipv6 dst spec 1::5 dst last 1::9 /"), range(Field::DstLow, 5, 9));
    assert_eq!(
        ranges("ipv6 dst spec 1:: dst last 3::9 dst prefix 64 /"),
        range(Field::DstHigh, 1 << 48, 3 << 48)
    );
    assert_eq!(ranges("vlan tci is 5 tci last 9 /"), range(Field::VlanTci, 5, 9));
    // No range: the last value is 0, that of spec, or the largest one after 0.
    assert_eq!(ranges("ipv4 / udp dst is 5 dst last 0 /"), []);
    assert_eq!(ranges("ipv4 / udp dst is 5 dst last 5 /"), []);
    assert_eq!(pattern("ipv4 / udp dst is 0 dst last 65535 /"), pattern("ipv4 / udp /"));
}

#[test]
fn all_actions_are_read() {
    let of = |actions: &str| rule(&format!("flow create 0 pattern end actions {actions} end")).actions;
    assert_eq!(of("rss queues 0 1 7 end /"), [Action::Rss(vec![0, 1, 7])]);
    assert_eq!(of("rss func default level 0 types end queues 2 end /"), [Action::Rss(vec![2])]);
    assert_eq!(
        of("void / count / count identifier 4 / drop /"),
        [Action::Count, Action::Count, Action::Drop]
    );
    assert_eq!(
        of("set_meta data 0x10 / set_tag index 2 data 5 mask 0xf / jump group 1 /"),
        [
            Action::SetMeta { data: 16, mask: u32::MAX },
            Action::SetTag { data: 5, mask: 15, index: 2 },
            Action::Jump(1)
        ]
    );
    assert_eq!(
        of("of_pop_vlan / of_push_vlan ethertype 0x8100 / of_set_vlan_vid vlan_vid 4095 / \
            of_set_vlan_pcp vlan_pcp 7 / meter mtr_id 9 / passthru /"),
        [
            Action::VlanPop,
            Action::VlanPush(0x8100),
            Action::VlanSetId(4095),
            Action::VlanSetPriority(7),
            Action::Meter(9),
            Action::PassThrough
        ]
    );
}

#[test]
fn keys_are_matched_as_the_text_says() {
    let mut key = Key::default();
    let layers = [Layer::Ipv4, Layer::Udp].map(Layer::bit);
    key.set(Field::Layers, layers[0] | layers[1]);
    key.set(Field::DstLow, 0x0a01_0203);
    key.set(Field::DstPort, 53);
    for (items, expected) in [
        ("eth /", true),
        ("ipv4 /", true),
        ("ipv6 /", false),
        ("vlan / ipv4 /", false),
        ("ipv4 dst spec 10.1.0.0 dst prefix 16 / udp dst is 53 /", true),
        ("ipv4 dst spec 10.2.0.0 dst prefix 16 / udp dst is 53 /", false),
        ("ipv4 / udp dst spec 50 dst last 53 /", true),
        ("ipv4 / udp dst spec 50 dst last 52 /", false),
        ("ipv4 / tcp /", false),
    ] {
        assert_eq!(pattern(items).matches(&key), expected, "{items}");
    }
}
