//! Which flow rules a device takes, and how many: put in until it refuses, and all removed again.

use std::time::{Duration, Instant};

use crate::flow::{FlowAction, FlowRefused, FlowRule, FlowRules, HeaderKind, HeaderMatch};

use super::found::{Bench, Said, Tried};
use super::frames::Frames;

/// How long rules of one kind are put in.
const LONGEST: Duration = Duration::from_secs(10);

/// A header with a value.
fn header(kind: HeaderKind, at: usize, value: &[u8], mask: u8) -> HeaderMatch {
    let mut header = HeaderMatch::any(kind);
    let end = at + value.len();
    header.spec.bytes[at..end].copy_from_slice(value);
    header.mask.bytes[at..end].fill(mask);
    header
}

fn to(headers: Vec<HeaderMatch>, queue: u16) -> FlowRule {
    FlowRule { headers, actions: vec![FlowAction::Queue(queue)], ..FlowRule::default() }
}

/// The rule with this number of a kind, for one of so many queues.
type Make = fn(u32, u16) -> FlowRule;

/// The kinds of rules whose number is counted, by what the papers want of a NIC: a queue for each address
/// (VMDq), for each flow (Flow Director), for each prefix.
const KINDS: [(&str, Make); 3] = [
    ("queue for an Ethernet address", |n, queue| {
        let [a, b, c, d] = n.to_be_bytes();
        to(vec![header(HeaderKind::Ethernet, 0, &[2, 0x4e, a, b, c, d], 255)], queue)
    }),
    ("queue for a flow", |n, queue| {
        let ip = header(
            HeaderKind::Ipv4,
            12,
            &[&(0x0a00_0000 + n).to_be_bytes()[..], &[10, 99, 0, 1]].concat(),
            255,
        );
        let udp = header(HeaderKind::Udp, 0, &[4, 0, 0x0f, 0xa0], 255);
        to(vec![HeaderMatch::any(HeaderKind::Ethernet), ip, udp], queue)
    }),
    ("queue for a prefix", |n, queue| {
        let prefix = (0x0a00_0000 + (n << 8)).to_be_bytes();
        let mut ip = header(HeaderKind::Ipv4, 16, &prefix, 255);
        ip.mask.bytes[19] = 0;
        to(vec![HeaderMatch::any(HeaderKind::Ethernet), ip], queue)
    }),
];

impl Bench {
    pub(super) fn rules(&mut self, frames: &mut Frames, most: usize) {
        let rules = match FlowRules::of(&self.port) {
            Ok(rules) => rules,
            Err(e) => {
                self.notes.push(e.to_string());
                return;
            }
        };
        let last = self.port.rx_queues().saturating_sub(1);
        for (name, make) in KINDS {
            let checked = rules.validate(&make(1, last));
            let accepted = count(&rules, |n| make(n, (n % (u32::from(last) + 1)) as u16), most);
            let seen = match (frames.blind(), accepted.works()) {
                (_, false) => Tried::Not("no rule was taken".to_owned()),
                (Some(blind), true) => blind,
                (None, true) if name == "queue for a flow" && last > 0 => moves(&rules, frames, last),
                (None, true) => Tried::Not("no frame is sent for it".to_owned()),
            };
            self.add("rules", name, said(&checked), accepted, seen);
        }
        self.actions(&rules, last);
        // SAFETY: nothing is called: a number is compared.
        let keeps = self.info.capabilities & dpdk_sys::VALIANT_CAPA_FLOW_KEEP != 0;
        let unseen = Tried::Not("a restart is not tried".to_owned());
        self.add("rules", "kept at a restart", Said::of(keeps), unseen.clone(), unseen);
        if let Err(refused) = rules.clear() {
            self.notes.push(format!("rules that were put in could not be removed: {refused}"));
        }
    }

    /// Which actions are taken for all packets.
    fn actions(&mut self, rules: &FlowRules, last: u16) {
        let all: [(&str, Vec<FlowAction>); 9] = [
            ("action rss", vec![FlowAction::Rss((0..=last).collect())]),
            ("action drop", vec![FlowAction::Drop]),
            ("action count", vec![FlowAction::Count, FlowAction::Queue(0)]),
            ("action mark", vec![FlowAction::Mark(7), FlowAction::Queue(0)]),
            ("action jump", vec![FlowAction::Jump(1)]),
            ("action set_meta", vec![FlowAction::SetMeta { data: 1, mask: u32::MAX }, FlowAction::Queue(0)]),
            ("action of_pop_vlan", vec![FlowAction::VlanPop, FlowAction::Queue(0)]),
            ("action of_push_vlan", vec![FlowAction::VlanPush(0x8100), FlowAction::Queue(0)]),
            ("action meter", vec![FlowAction::Meter(1), FlowAction::Queue(0)]),
        ];
        for (name, actions) in all {
            let headers = vec![HeaderMatch::any(HeaderKind::Ethernet), HeaderMatch::any(HeaderKind::Ipv4)];
            let rule = FlowRule { headers, actions, ..FlowRule::default() };
            let checked = rules.validate(&rule);
            let accepted = match rules.create(&rule) {
                Ok(number) => match rules.destroy(number) {
                    Ok(()) => Tried::Yes(String::new()),
                    Err(refused) => Tried::Yes(format!("but not removed: {refused}")),
                },
                Err(refused) => Tried::No(refused.to_string()),
            };
            self.add(
                "rules",
                name,
                said(&checked),
                accepted,
                Tried::Not("no frame is sent for it".to_owned()),
            );
        }
    }
}

/// What the driver says when it is asked whether it would take a rule.
fn said(checked: &Result<(), FlowRefused>) -> Said {
    match checked {
        Ok(()) => Said::Yes("validated".to_owned()),
        Err(_) => Said::No,
    }
}

/// Puts rules in until one is refused, and removes them.
fn count(rules: &FlowRules, make: impl Fn(u32) -> FlowRule, most: usize) -> Tried {
    let (mut taken, begin) = (0, Instant::now());
    let end = loop {
        if taken == most {
            break format!("{taken} taken, no more tried");
        }
        if begin.elapsed() > LONGEST {
            break format!("{taken} taken in {} s, no more tried", LONGEST.as_secs());
        }
        match rules.create(&make(taken as u32 + 1)) {
            Ok(_) => taken += 1,
            Err(refused) if taken == 0 => return Tried::No(refused.to_string()),
            Err(refused) => break format!("{taken} taken, then: {refused}"),
        }
    };
    match rules.clear() {
        Ok(()) => Tried::Yes(end),
        Err(refused) => Tried::Yes(format!("{end}; not all could be removed: {refused}")),
    }
}

/// Whether a flow goes where its rule says, and elsewhere without it.
fn moves(rules: &FlowRules, frames: &mut Frames, last: u16) -> Tried {
    let frame = frames.udp(9, 4000, None);
    let mut queue = || frames.round(std::slice::from_ref(&frame)).first().map(|frame| frame.queue);
    let before = queue();
    let other = if before == Some(last) { 0 } else { last };
    // What `Frames::udp` makes of this number.
    let ip = header(HeaderKind::Ipv4, 12, &[10, 99, 0, 9, 10, 99, 0, 1], 255);
    let udp = header(HeaderKind::Udp, 0, &[4, 9, 0x0f, 0xa0], 255);
    let rule = to(vec![HeaderMatch::any(HeaderKind::Ethernet), ip, udp], other);
    match rules.create(&rule) {
        Err(refused) => Tried::No(refused.to_string()),
        Ok(number) => {
            let after = queue();
            let removed = rules.destroy(number);
            match (after == Some(other), removed) {
                (true, Ok(())) => {
                    Tried::Yes(format!("a flow went from queue {} to {other}", before.unwrap_or(0)))
                }
                (true, Err(refused)) => Tried::No(format!("the rule could not be removed: {refused}")),
                (false, _) => Tried::No("the flow did not go where its rule says".to_owned()),
            }
        }
    }
}
