//! Rules as text, in the syntax of testpmd's flow commands with their meaning in DPDK 22.11.
//!
//! ```text
//! # web traffic of one customer
//! flow create 0 ingress group 1 priority 2 pattern eth / ipv4 src spec 10.1.0.0 src prefix 16 /
//!     tcp dst is 80 / end actions mark id 7 / queue index 3 / end
//! ```
//!
//! (on one line). A file has one command a line; `#` begins a comment, and testpmd's prompt may be in front.
//! Numbers are decimal, hexadecimal (`0x1f`) or octal (`017`), as in C.
//!
//! # Fields
//!
//! | words | meaning |
//! |---|---|
//! | `F is V` | the value, and a mask of all bits |
//! | `F spec V` | the value |
//! | `F last V` | a range, from the value of `spec` to this one |
//! | `F mask V` | which bits count |
//! | `F prefix N` | a mask of the N first bits |
//!
//! If a field of an item is given twice, the later words count. Masks belong to the item, as in rte_flow:
//! once one of its fields has a mask (`is`, `mask`, `prefix`), its fields without one do not count. In an
//! item without any mask, the default one counts, of the fields that have a value: `udp dst spec 1000` leaves
//! the source port free, which DPDK compares with 0. The default mask has the addresses of `eth`, `ipv4`,
//! `ipv6` and `arp_eth_ipv4`, the VLAN identifier (not priority and DEI), the label of `mpls`, ports, types
//! and codes of `icmp` and `icmp6`, the protocol of `gre`, and all numbers of sessions, tunnels, marks and
//! tags; not Ethernet types, `has_vlan`, `tos`, `ttl`, `proto` and the like. A value that does not count for
//! one of these reasons gets a warning.
//!
//! The mask applies to both ends of a range: with the first 16 bits of an address, 10.1.2.3 to 10.3.4.5 are
//! 10.1.0.0 to 10.3.255.255. The mask of a range must be a prefix of the field. As in rte_flow, a last value
//! of 0 is none.
//!
//! # Stacks of items
//!
//! `[eth] [vlan [vlan]] [pppoes | pppoed] [mpls]`, then `arp_eth_ipv4`, `ipv4` or `ipv6`, then a transport
//! protocol, then a tunnel. The packet must have each layer that the pattern names, and none between two of
//! them: `eth / ipv4` is IPv4 without tags; `mpls / ipv4` has one label. What comes after the last item is
//! free. `eth has_vlan is 1 / ipv4` has at least one tag. `mark`, `meta` and `tag` may stand anywhere.
//!
//! # Actions
//!
//! In the order in which they are carried out; at most one decides where the packet goes (`queue`, `rss`,
//! `drop`, `jump`, `passthru`). `jump` leads to a higher group, so that no packet goes round. `set_meta` and
//! `set_tag` set all bits if there is no mask. `rss` names its queues; other types, functions and keys of its
//! hash are not supported.

mod actions;
mod fields;
mod items;
mod line;
mod pattern;
mod print;
mod value;

#[cfg(test)]
mod tests;

use crate::rule::Rule;
use lang::{Diagnostic, Diagnostics, Source, SourceMap, Span};
use line::{Line, Messages, Word, lines};

pub use print::print;

/// A rule of a file, and what the file says beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The rule.
    pub rule: Rule,
    /// The port that the command names.
    pub port: u32,
    /// The line, from 1.
    pub line: usize,
    /// Where its actions are.
    pub actions: Span,
}

/// The rules of a file that are right, in its order, and the errors and warnings about all others.
#[must_use]
pub fn parse(source: &Source) -> (Vec<Placed>, Diagnostics) {
    let mut messages = Messages::default();
    let mut rules = Vec::new();
    for (number, start, end) in lines(&source.text) {
        let mut line = Line::new(&source.text, start, end, &mut messages);
        if let Some((rule, port, actions)) = command(&mut line)
            && !line.is_wrong()
        {
            rules.push(Placed { rule, port, line: number, actions });
        }
    }
    (rules, finished(messages, source))
}

/// The messages in the order of the text, with the text that their places refer to.
fn finished(messages: Messages, source: &Source) -> Diagnostics {
    let mut diags = messages.diags;
    if !diags.is_empty() {
        let mut map = SourceMap::new();
        map.add(source);
        diags.sort();
        diags.set_sources(map);
    }
    diags
}

/// One line: a rule, its port, and where its actions begin. Nothing if the line is empty, or so wrong that no
/// rule can be told.
fn command(line: &mut Line<'_, '_>) -> Option<(Rule, u32, Span)> {
    line.skip_prompt();
    line.peek()?;
    let port = create(line)?;
    let mut rule = Rule::default();
    if attributes(line, &mut rule)? {
        rule.pattern = pattern::read(line);
    }
    let actions = line.peek().map_or(Span::new(0, 0, 0), Word::span);
    actions::read(line, &mut rule);
    Some((rule, port, actions))
}

/// `flow create PORT`: the port.
fn create(line: &mut Line<'_, '_>) -> Option<u32> {
    const HELP: &str = "a rule is 'flow create PORT ... pattern ITEMS / end actions ACTIONS / end'";
    let flow = line.next()?;
    if flow.text != "flow" {
        line.error(|| Diagnostic::error(flow.span(), format!("no command '{}' here", flow)).with_help(HELP));
        return None;
    }
    let Some(create) = line.next() else {
        line.missing("'create' after 'flow'", HELP);
        return None;
    };
    if create.text != "create" {
        line.error(|| {
            Diagnostic::error(create.span(), format!("'flow {create}' adds no rule")).with_help(HELP)
        });
        return None;
    }
    line.number("port", u64::from(u32::MAX)).map(|port| port as u32)
}

/// Group, priority and direction, up to `pattern`. Whether there is a pattern; nothing if the line ends.
fn attributes(line: &mut Line<'_, '_>, rule: &mut Rule) -> Option<bool> {
    const WORDS: [&str; 4] = ["group", "priority", "ingress", "pattern"];
    loop {
        let Some(word) = line.peek() else {
            line.missing("'pattern'", "patterns begin with 'pattern' and end with '/ end'");
            return None;
        };
        if word.text != "actions" {
            line.next();
        }
        match word.text {
            "pattern" => return Some(true),
            "actions" => {
                line.error(|| {
                    Diagnostic::error(word.span(), "there is no pattern before the actions")
                        .with_help("'pattern end' matches every packet")
                });
                return Some(false);
            }
            "ingress" => {}
            "group" => rule.group = attribute(line, "group"),
            "priority" => rule.priority = attribute(line, "priority"),
            "egress" | "transfer" => line.error(|| {
                Diagnostic::error(word.span(), format!("'{word}' is not supported"))
                    .with_help("rules are for packets that arrive: 'ingress'")
            }),
            _ => {
                line.error(|| {
                    Diagnostic::error(word.span(), format!("unknown attribute '{word}'"))
                        .with_nearest(word.text, "attribute", WORDS)
                        .with_help("a rule has group N, priority N and ingress; then comes 'pattern'")
                });
                line.skip_to(&["pattern", "actions"]);
            }
        }
    }
}

/// The number of an attribute; 0 if it is wrong, which has been told.
fn attribute(line: &mut Line<'_, '_>, name: &str) -> u32 {
    line.number(name, u64::from(u32::MAX)).unwrap_or_default() as u32
}
