//! The rules that are measured, and the frames that they match.
//!
//! The rules of a kind differ by a number; all name one value of each field. Frames are UDP or TCP in IPv4
//! or IPv6, of 60 bytes or a little more.

use lang::Source;
use rules::{Action, Field, Rule, syntax};

/// What rules match on: the protocols of the paper's figures 5a to 5c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name on the command line.
    pub name: &'static str,
    /// The pattern of a rule, in testpmd's syntax.
    pattern: &'static str,
    /// The field that the number of a rule is in, and how many bits of it are used.
    field: Field,
    bits: u32,
}

/// The kinds. The first is what traffic is made for.
pub const KINDS: [Kind; 10] = [
    Kind {
        name: "ipv4-tcp",
        pattern: "eth / ipv4 src is 10.0.0.0 dst is 172.16.0.1 / tcp src is 1024 dst is 80",
        field: Field::SrcLow,
        bits: 24,
    },
    Kind { name: "eth", pattern: "eth dst is 02:00:00:00:00:00", field: Field::EthDst, bits: 32 },
    Kind {
        name: "ipv4",
        pattern: "eth / ipv4 src is 10.0.0.0 dst is 172.16.0.1",
        field: Field::SrcLow,
        bits: 24,
    },
    Kind {
        name: "ipv6",
        pattern: "eth / ipv6 src is 2001:db8:: dst is 2001:db8:1::1",
        field: Field::SrcLow,
        bits: 32,
    },
    Kind {
        name: "ipv6-tcp",
        pattern: "eth / ipv6 src is 2001:db8:: dst is 2001:db8:1::1 / tcp src is 1024 dst is 80",
        field: Field::SrcLow,
        bits: 32,
    },
    Kind {
        name: "vlan-ipv4-tcp",
        pattern: "eth / vlan vid is 5 / ipv4 src is 10.0.0.0 dst is 172.16.0.1 / tcp src is 1024 dst is 80",
        field: Field::SrcLow,
        bits: 24,
    },
    Kind {
        name: "vlan-ipv6-tcp",
        pattern: "eth / vlan vid is 5 / ipv6 src is 2001:db8:: dst is 2001:db8:1::1 / tcp src is 1024 dst is 80",
        field: Field::SrcLow,
        bits: 32,
    },
    Kind {
        name: "gre",
        pattern: "eth / ipv4 src is 10.0.0.0 dst is 172.16.0.1 / gre",
        field: Field::SrcLow,
        bits: 24,
    },
    Kind {
        name: "vxlan",
        pattern: "eth / ipv4 src is 10.0.0.0 dst is 172.16.0.1 / udp / vxlan vni is 5",
        field: Field::SrcLow,
        bits: 24,
    },
    Kind {
        name: "geneve",
        pattern: "eth / ipv4 src is 10.0.0.0 dst is 172.16.0.1 / udp / geneve vni is 5",
        field: Field::SrcLow,
        bits: 24,
    },
];

/// Neighbouring numbers are spread over all values, as those of connections are.
fn spread(number: u64, bits: u32) -> u64 {
    number.wrapping_mul(0x9e37_79b1) & ((1 << bits) - 1)
}

/// A rule of testpmd's syntax.
fn read(text: &str) -> Result<Rule, String> {
    let source = Source::new("rule", format!("flow create 0 ingress {text}\n"));
    let (placed, diags) = syntax::parse(&source);
    match <[_; 1]>::try_from(placed) {
        Ok([one]) if diags.is_empty() => Ok(one.rule),
        _ => Err(format!("'{text}' is not understood as one rule")),
    }
}

impl Kind {
    /// The kind of a name.
    ///
    /// # Errors
    /// There is none; the message has those that there are.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = KINDS.into_iter().find(|kind| kind.name == name);
        found.ok_or_else(|| {
            let all: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            format!("'{name}' is no kind of rules: one of {}", all.join(", "))
        })
    }

    /// So many rules from a number on, for a queue, in a table.
    ///
    /// # Errors
    /// The pattern of the kind is wrong, which a test excludes.
    pub fn rules(&self, from: u64, many: usize, table: u32, queue: u16) -> Result<Vec<Rule>, String> {
        let text = format!("group {table} pattern {} / end actions queue index {queue} / end", self.pattern);
        let first = read(&text)?;
        let mask = (1 << self.bits) - 1;
        let one = |number: u64| {
            let mut rule = first.clone();
            rule.pattern.demand(self.field, spread(number, self.bits), mask);
            rule
        };
        Ok((from..from + many as u64).map(one).collect())
    }
}

/// The rule of a table for what no other one matches: the next table decides, or it goes to queue 0.
///
/// # Errors
/// As above.
pub fn default_rule(table: u32, next: Option<u32>) -> Result<Rule, String> {
    let mut rule = read(&format!("group {table} priority 9 pattern eth / end actions queue index 0 / end"))?;
    if let Some(next) = next {
        rule.actions = vec![Action::Jump(next)];
    }
    Ok(rule)
}

/// The frame that the rule with this number of the kind `ipv4-tcp` matches; with `other`, none does.
#[must_use]
pub fn frame(number: u64, other: bool) -> [u8; 64] {
    let mut frame = [0; 64];
    let [_, _, _, _, _, b, c, d] = spread(number, 24).to_be_bytes();
    let net = if other { 11 } else { 10 };
    let head: [u8; 42] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 6, 0, 0, net, b, c, d, 172, 16, 0, 1, // IPv4
        4, 0, 0, 80, 0, 0, 0, 0, // ports, sequence number
    ];
    frame[..head.len()].copy_from_slice(&head);
    let sum: u32 = head[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    // Length of the header, ACK.
    frame[46..48].copy_from_slice(&[0x50, 0x10]);
    frame
}

/// Frames of so many flows, of which this share, from 0 to 1, matches a rule of those from 0 to `rules`.
#[must_use]
pub fn frames(flows: usize, share: f64, rules: usize) -> Vec<[u8; 64]> {
    let (all, rules) = (flows.max(1) as u64, rules.max(1) as u64);
    let matching = (all as f64 * share.clamp(0.0, 1.0)).round() as u64;
    let one = |flow: u64| {
        // Those that match are spread among the others.
        let matches = (flow + 1) * matching / all > flow * matching / all;
        // Neighbours in time are none in the table.
        if matches { frame(flow.wrapping_mul(0x9e37_79b1) % rules, false) } else { frame(flow, true) }
    };
    (0..all).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::headers;

    #[test]
    fn all_kinds_are_understood_and_differ_by_their_numbers() {
        for kind in KINDS {
            let rules = kind.rules(0, 3000, 1, 0).unwrap();
            let mut values: Vec<u64> = rules.iter().map(|rule| rule.pattern.value.get(kind.field)).collect();
            values.sort_unstable();
            values.dedup();
            assert_eq!((values.len(), rules[0].group), (3000, 1), "{}", kind.name);
        }
        assert!(Kind::named("ipv5").unwrap_err().contains("vlan-ipv4-tcp"));
    }

    #[test]
    fn a_rule_matches_its_frame_and_no_other() {
        let rules = KINDS[0].rules(0, 100, 0, 0).unwrap();
        let matching = |frame: &[u8]| {
            let key = headers::read(frame);
            rules.iter().filter(|rule| rule.pattern.matches(&key)).count()
        };
        for number in 0..100 {
            assert_eq!((matching(&frame(number, false)), matching(&frame(number, true))), (1, 0), "{number}");
        }
        let key = headers::read(&frame(3, true));
        assert!(default_rule(0, None).unwrap().pattern.matches(&key));
    }
}
