//! Which flow rules a device carries out, and rules as a device takes them.
//!
//! What a device does must not differ from what all rules together say. So a rule goes to the device only if
//! no rule that goes before it, for some packet, is left to software.

use dpdk::flow::{FlowAction, FlowRule, FlowRules, HeaderBytes, HeaderKind, HeaderMatch};
use rules::{Action, Field, Layer, Pattern, Rule};
use std::collections::BTreeMap;

/// Where a rule is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the device, by this handle.
    Device(u64),
    /// In software, and why.
    Software(String),
}

/// What takes rules.
pub(super) trait Takes {
    /// The handle of a rule that it has taken, or why it does not take it.
    fn take(&self, rule: &FlowRule) -> Result<u64, String>;
}

impl Takes for FlowRules {
    fn take(&self, rule: &FlowRule) -> Result<u64, String> {
        self.validate(rule).and_then(|()| self.create(rule)).map_err(|refused| refused.to_string())
    }
}

/// Gives a device the rules that it can carry out without changing what all of them together mean.
pub(super) fn place(rules: &[(u64, Rule)], device: &impl Takes) -> BTreeMap<u64, Place> {
    let mut order: Vec<&(u64, Rule)> = rules.iter().collect();
    // The sort keeps the order in which rules of equal priority came.
    order.sort_by_key(|(_, rule)| (rule.group, rule.priority));
    let mut places: BTreeMap<u64, Place> = BTreeMap::new();
    for (at, (number, rule)) in order.iter().enumerate() {
        let before = order.iter().take(at).filter(|(_, first)| first.group == rule.group);
        let overlapping = before.filter(|(_, first)| overlap(&first.pattern, &rule.pattern));
        let conflict = overlapping.into_iter().find_map(|(first, other)| match places.get(first) {
            Some(Place::Software(_)) => Some(format!("rule {first}, which goes before it, is in software")),
            _ if other.priority == rule.priority => Some(format!(
                "rule {first} has the same priority, and a device does not say which goes first"
            )),
            _ => None,
        });
        let place = match unfit(rule).or(conflict) {
            Some(why) => Place::Software(why),
            None => device.take(&converted(rule)).map_or_else(Place::Software, Place::Device),
        };
        places.insert(*number, place);
    }
    places
}

/// Why a rule is never given to a device.
fn unfit(rule: &Rule) -> Option<String> {
    if rule.group != 0 {
        return Some("groups after the first are in software".to_owned());
    }
    rule.actions.iter().find_map(|action| match action {
        Action::Queue(_) | Action::Rss(_) | Action::Drop | Action::Count => None,
        _ => Some("what it sets is read by software".to_owned()),
    })
}

/// Whether some packet may match both. Where it is not clear, it may.
fn overlap(a: &Pattern, b: &Pattern) -> bool {
    let bits = a.mask.0.iter().zip(b.mask.0).zip(a.value.0.iter().zip(b.value.0));
    bits.into_iter().all(|((mask, other), (value, its))| mask & other & (value ^ its) == 0)
        && !apart(a, b)
        && !apart(b, a)
}

/// Whether a range of one pattern has no value that the other one allows.
fn apart(a: &Pattern, b: &Pattern) -> bool {
    a.ranges.iter().any(|range| {
        let other = b.ranges.iter().find(|other| other.field == range.field);
        let (first, last) = match other {
            Some(other) => (other.first, other.last),
            None if b.mask.get(range.field) == range.field.most() => {
                let value = b.value.get(range.field);
                (value, value)
            }
            None => return false,
        };
        range.last < first || last < range.first
    })
}

/// Where fields are in a header: the number of their first bit, and how many bits they have.
type Places = &'static [(Field, usize, u32)];

const PORTS: Places = &[(Field::SrcPort, 0, 16), (Field::DstPort, 16, 16)];
const VNI: Places = &[(Field::Session, 32, 24)];
const FIRST_WORD: Places = &[(Field::Session, 0, 32)];
const SECOND_WORD: Places = &[(Field::Session, 32, 32)];
const VLAN: Places = &[(Field::VlanTci, 0, 16), (Field::VlanType, 16, 16)];
const INNER_VLAN: Places = &[(Field::InnerVlanTci, 0, 16), (Field::InnerVlanType, 16, 16)];
const ETHERNET: Places = &[(Field::EthDst, 0, 48), (Field::EthSrc, 48, 48), (Field::EthType, 96, 16)];

/// The headers behind Ethernet and its tags, in their order.
const HEADERS: [(Layer, HeaderKind, Places); 17] = [
    (
        Layer::Mpls,
        HeaderKind::Mpls,
        &[
            (Field::MplsLabel, 0, 20),
            (Field::MplsClass, 20, 3),
            (Field::MplsBottom, 23, 1),
            (Field::MplsTtl, 24, 8),
        ],
    ),
    (Layer::Arp, HeaderKind::Arp, &[(Field::SrcLow, 112, 32), (Field::DstLow, 192, 32)]),
    (
        Layer::Ipv4,
        HeaderKind::Ipv4,
        &[
            (Field::Tos, 8, 8),
            (Field::Fragment, 48, 16),
            (Field::Ttl, 64, 8),
            (Field::Proto, 72, 8),
            (Field::SrcLow, 96, 32),
            (Field::DstLow, 128, 32),
        ],
    ),
    (
        Layer::Ipv6,
        HeaderKind::Ipv6,
        &[
            (Field::Tos, 4, 8),
            (Field::FlowLabel, 12, 20),
            (Field::Proto, 48, 8),
            (Field::Ttl, 56, 8),
            (Field::SrcHigh, 64, 64),
            (Field::SrcLow, 128, 64),
            (Field::DstHigh, 192, 64),
            (Field::DstLow, 256, 64),
        ],
    ),
    (
        Layer::Tcp,
        HeaderKind::Tcp,
        &[(Field::SrcPort, 0, 16), (Field::DstPort, 16, 16), (Field::TcpFlags, 104, 8)],
    ),
    (Layer::Udp, HeaderKind::Udp, PORTS),
    (Layer::Sctp, HeaderKind::Sctp, PORTS),
    (Layer::Icmp, HeaderKind::Icmp, &[(Field::IcmpType, 0, 8), (Field::IcmpCode, 8, 8)]),
    (Layer::Icmp6, HeaderKind::Icmpv6, &[(Field::IcmpType, 0, 8), (Field::IcmpCode, 8, 8)]),
    (Layer::Esp, HeaderKind::Esp, FIRST_WORD),
    (Layer::Ah, HeaderKind::Ah, SECOND_WORD),
    (Layer::Gre, HeaderKind::Gre, &[(Field::SessionType, 16, 16)]),
    // The key, where a pattern has one.
    (Layer::Gre, HeaderKind::GreKey, FIRST_WORD),
    (Layer::L2tpv3, HeaderKind::L2tpv3, FIRST_WORD),
    (Layer::Vxlan, HeaderKind::Vxlan, VNI),
    (Layer::Geneve, HeaderKind::Geneve, VNI),
    (Layer::Gtpu, HeaderKind::Gtpu, SECOND_WORD),
];

/// A rule as a device takes it.
#[must_use]
pub fn converted(rule: &Rule) -> FlowRule {
    let pattern = &rule.pattern;
    let with = pattern.value.get(Field::Layers);
    let without = pattern.mask.get(Field::Layers) & !with;
    let has = |layer: Layer| with & layer.bit() != 0;
    let above = with >> (Layer::InnerVlan as u8 + 1) != 0;
    // With headers above it, a tag that may be followed by another one is none of the headers that are named.
    let at_least_one = above && without & Layer::InnerVlan.bit() == 0;
    let tags = match (has(Layer::Vlan), has(Layer::InnerVlan)) {
        (true, true) => 2,
        (true, false) if !at_least_one => 1,
        _ => 0,
    };
    // Whether a tag follows, where no header says the same.
    let tag_after = |layer: Layer, number: usize, header: &mut HeaderMatch| {
        let (there, not_there) = (has(layer) && tags < number, without & layer.bit() != 0 && !above);
        header.mask.tag_follows = there || not_there;
        header.spec.tag_follows = there;
    };
    let mut headers = vec![header(pattern, HeaderKind::Ethernet, ETHERNET)];
    headers.iter_mut().for_each(|header| tag_after(Layer::Vlan, 1, header));
    if tags > 0 {
        let mut tag = header(pattern, HeaderKind::Vlan, VLAN);
        tag_after(Layer::InnerVlan, 2, &mut tag);
        headers.push(tag);
    }
    if tags > 1 {
        headers.push(header(pattern, HeaderKind::Vlan, INNER_VLAN));
    }
    if has(Layer::Pppoe) {
        let kind = [Field::EthType, Field::VlanType, Field::InnerVlanType][tags];
        let discovery = pattern.value.get(kind) == 0x8863;
        let kind = if discovery { HeaderKind::PppoeDiscovery } else { HeaderKind::PppoeSession };
        headers.push(header(pattern, kind, &[(Field::PppoeSession, 16, 16)]));
    }
    for (layer, kind, places) in HEADERS {
        if !has(layer) || kind == HeaderKind::GreKey && pattern.mask.get(Field::Session) == 0 {
            continue;
        }
        headers.push(header(pattern, kind, places));
    }
    FlowRule {
        group: rule.group,
        priority: rule.priority,
        headers,
        actions: rule.actions.iter().map(action).collect(),
    }
}

/// What a pattern says of a header.
fn header(pattern: &Pattern, kind: HeaderKind, places: Places) -> HeaderMatch {
    let mut header = HeaderMatch::any(kind);
    for &(field, at, bits) in places {
        let range = pattern.ranges.iter().find(|range| range.field == field);
        let Some(range) = range else {
            put(&mut header.spec, at, bits, pattern.value.get(field));
            put(&mut header.mask, at, bits, pattern.mask.get(field));
            continue;
        };
        put(&mut header.spec, at, bits, range.first);
        put(&mut header.mask, at, bits, field.most());
    }
    // In a header with a range, the last value of all other fields is the only one.
    if places.iter().any(|(field, ..)| pattern.ranges.iter().any(|range| range.field == *field)) {
        let mut last = header.spec;
        for &(field, at, bits) in places {
            let range = pattern.ranges.iter().find(|range| range.field == field);
            range.into_iter().for_each(|range| put(&mut last, at, bits, range.last));
        }
        header.last = Some(last);
    }
    header
}

/// Writes the lowest bits of a value, from a bit of the header on.
fn put(header: &mut HeaderBytes, at: usize, bits: u32, value: u64) {
    for bit in 0..bits {
        let (to, on) = (at + bit as usize, value >> (bits - 1 - bit) & 1 == 1);
        if let Some(byte) = header.bytes.get_mut(to / 8) {
            let place = 0x80 >> (to % 8);
            *byte = if on { *byte | place } else { *byte & !place };
        }
    }
}

fn action(action: &Action) -> FlowAction {
    match action {
        Action::Queue(queue) => FlowAction::Queue(*queue),
        Action::Rss(queues) => FlowAction::Rss(queues.clone()),
        Action::Drop => FlowAction::Drop,
        Action::Count => FlowAction::Count,
        Action::Mark(mark) => FlowAction::Mark(*mark),
        Action::SetMeta { data, mask } => FlowAction::SetMeta { data: *data, mask: *mask },
        Action::SetTag { data, mask, index } => {
            FlowAction::SetTag { data: *data, mask: *mask, index: *index }
        }
        Action::Jump(group) => FlowAction::Jump(*group),
        Action::VlanPop => FlowAction::VlanPop,
        Action::VlanPush(kind) => FlowAction::VlanPush(*kind),
        Action::VlanSetId(id) => FlowAction::VlanSetId(*id),
        Action::VlanSetPriority(priority) => FlowAction::VlanSetPriority(*priority),
        Action::Meter(meter) => FlowAction::Meter(*meter),
        Action::PassThrough => FlowAction::PassThrough,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn rules(lines: &[&str]) -> Vec<(u64, Rule)> {
        let text: String = lines.iter().map(|line| format!("flow create 0 {line}\n")).collect();
        let (placed, diags) = rules::syntax::parse(&lang::Source::new("rules", text.as_str()));
        assert!(diags.is_empty(), "{text}");
        placed.into_iter().enumerate().map(|(number, one)| (number as u64, one.rule)).collect()
    }

    fn one(line: &str) -> FlowRule {
        converted(&rules(&[line])[0].1)
    }

    /// A device that takes so many rules, and none for TCP.
    struct Small {
        most: usize,
        taken: RefCell<Vec<FlowRule>>,
    }

    impl Takes for Small {
        fn take(&self, rule: &FlowRule) -> Result<u64, String> {
            let mut taken = self.taken.borrow_mut();
            if rule.headers.iter().any(|header| header.kind == HeaderKind::Tcp) {
                return Err("no TCP".to_owned());
            }
            if taken.len() == self.most {
                return Err("table full".to_owned());
            }
            taken.push(rule.clone());
            Ok(taken.len() as u64 - 1)
        }
    }

    fn placed(lines: &[&str], most: usize) -> Vec<String> {
        let places = place(&rules(lines), &Small { most, taken: RefCell::default() });
        let word = |place: &Place| match place {
            Place::Device(handle) => format!("device {handle}"),
            Place::Software(why) => why.clone(),
        };
        places.values().map(word).collect()
    }

    #[test]
    fn headers_are_as_in_a_packet() {
        let rule = one(
            "priority 2 pattern eth / vlan vid is 5 / ipv4 dst is 10.0.0.9 / udp dst spec 100 dst last 200 / end actions count / queue index 3 / end",
        );
        let kinds: Vec<_> = rule.headers.iter().map(|header| header.kind).collect();
        assert_eq!(kinds, [HeaderKind::Ethernet, HeaderKind::Vlan, HeaderKind::Ipv4, HeaderKind::Udp]);
        assert_eq!((rule.priority, rule.actions), (2, vec![FlowAction::Count, FlowAction::Queue(3)]));
        assert_eq!(
            (&rule.headers[1].spec.bytes[..4], &rule.headers[1].mask.bytes[..4]),
            (&[0, 5, 0, 0][..], &[0x0f, 0xff, 0, 0][..])
        );
        assert_eq!(rule.headers[2].spec.bytes[16..20], [10, 0, 0, 9]);
        assert_eq!(rule.headers[2].mask.bytes[..20], [[0; 16].as_slice(), &[255; 4]].concat());
        let udp = &rule.headers[3];
        assert_eq!(
            (&udp.spec.bytes[..4], &udp.last.unwrap().bytes[..4]),
            (&[0, 0, 0, 100][..], &[0, 0, 0, 200][..])
        );
        assert_eq!(udp.mask.bytes[..4], [0, 0, 255, 255]);
        let rule = one("pattern eth has_vlan is 1 / ipv6 src is 2001:db8::7 flow is 0x12345 / vxlan_missing / end actions drop / end".replace(" / vxlan_missing", "").as_str());
        assert!(rule.headers[0].spec.tag_follows && rule.headers[0].mask.tag_follows);
        assert_eq!(rule.headers[1].spec.bytes[..4], [0, 1, 0x23, 0x45]);
        assert_eq!(
            rule.headers[1].spec.bytes[8..24],
            [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]
        );
        let rule = one("pattern eth / ipv4 / udp / vxlan vni is 0x123456 / end actions drop / end");
        assert_eq!(rule.headers[3].spec.bytes[4..7], [0x12, 0x34, 0x56]);
    }

    const TCP: &str = "pattern eth / ipv4 dst is 10.0.0.1 / tcp / end actions drop / end";
    const UDP: &str = "pattern eth / ipv4 dst is 10.0.0.2 / udp / end actions queue index 1 / end";

    #[test]
    fn what_a_device_refuses_is_in_software_and_what_goes_after_it_too() {
        assert_eq!(placed(&[TCP, UDP], 9), ["no TCP", "device 0"], "no packet matches both");
        let all = "priority 1 pattern eth / ipv4 / end actions drop / end";
        let after = ["no TCP", "device 0", "rule 0, which goes before it, is in software"];
        assert_eq!(placed(&[TCP, UDP, all], 9), after);
        assert_eq!(placed(&[UDP, all], 9), ["device 0", "device 1"]);
        let low = "pattern eth / ipv4 / tcp dst spec 1 dst last 99 / end actions drop / end";
        let exact = "pattern eth / ipv4 / tcp dst is 100 / end actions drop / end";
        let high = low.replace("spec 1 dst last 99", "spec 99 dst last 200");
        let both = placed(&[low, exact, &high], 9);
        assert_eq!(
            (both[0].as_str(), both[1].as_str()),
            ("no TCP", "no TCP"),
            "they have no packet in common"
        );
        assert!(both[2].contains("rule 0, which goes before it"), "{both:?}");
        // A device that refuses after some rules.
        let more = UDP.replace("10.0.0.2", "10.0.0.3");
        assert_eq!(
            placed(&[UDP, &more, all], 1),
            ["device 0", "table full", "rule 1, which goes before it, is in software"]
        );
    }

    #[test]
    fn what_a_device_does_not_decide_is_in_software() {
        let same = UDP.replace("index 1", "index 0");
        assert!(placed(&[UDP, &same], 9)[1].contains("the same priority"));
        let jump = "pattern eth / ipv4 / end actions jump group 1 / end";
        let later = "group 1 pattern eth / end actions drop / end";
        assert_eq!(
            placed(&[jump, later], 9),
            ["what it sets is read by software", "groups after the first are in software"]
        );
    }
}
