//! Errors and warnings: their words, their help and their place.

use crate::rule::Pattern;
use crate::syntax::parse;
use lang::{Severity, Source};

/// Line, column, severity, message and the helps of all messages.
fn messages(text: &str) -> Vec<String> {
    let (_, diags) = parse(&Source::new("rules", text));
    let told = diags.iter().map(|diag| {
        let place = diag.span.map(|span| diags.sources().locate(span)).unwrap();
        let kind = if diag.severity == Severity::Error { "" } else { "warning: " };
        let helps: Vec<String> = diag.help.iter().map(|help| format!(" ({help})")).collect();
        format!("{}:{}: {kind}{}{}", place.line, place.column, diag.message, helps.concat())
    });
    told.collect()
}

/// A message whose column counts from this one.
fn moved(message: &str, head: usize) -> String {
    let (column, rest) = message.strip_prefix("1:").and_then(|rest| rest.split_once(':')).unwrap();
    format!("{}:{rest}", column.parse::<usize>().unwrap() - head)
}

/// The messages about a pattern; columns count from its first item.
fn pattern_messages(items: &str) -> Vec<String> {
    let head = "flow create 0 pattern ";
    let told = messages(&format!("{head}{items} end actions drop / end"));
    told.iter().map(|message| moved(message, head.len())).collect()
}

/// The messages about actions of a rule in group 5; columns count from the first action.
fn action_messages(actions: &str) -> Vec<String> {
    let head = "flow create 0 group 5 pattern eth / end actions ";
    let told = messages(&format!("{head}{actions}"));
    told.iter().map(|message| moved(message, head.len())).collect()
}

#[test]
fn values_without_a_mask_beside_masks_get_a_warning() {
    let unused = |items: &str| pattern_messages(items);
    assert_eq!(
        unused("ipv4 src is 10.0.0.1 dst spec 10.0.0.2 /"),
        ["22: warning: dst does not count: other fields of ipv4 have masks \
             ('dst is VALUE', or a mask of its own, makes it count)"]
    );
    assert_eq!(
        unused("eth type spec 0x800 /"),
        ["5: warning: type does not count: the default mask of eth leaves it out \
             ('type is VALUE', or a mask of its own, makes it count)"]
    );
    assert_eq!(unused("vlan pcp spec 3 /").len(), 1);
    assert_eq!(unused("vlan vid spec 3 tci mask 0xfff /").len(), 0);
    let (rules, _) =
        parse(&Source::new("x", "flow create 0 pattern eth type spec 5 / end actions drop / end"));
    assert_eq!(rules[0].rule.pattern, Pattern::default());
}

#[test]
fn errors_of_commands_have_their_place() {
    let rule = "a rule is 'flow create PORT ... pattern ITEMS / end actions ACTIONS / end'";
    let begin = "a rule has group N, priority N and ingress; then comes 'pattern'";
    for (text, expected) in [
        ("start", format!("1:1: no command 'start' here ({rule})")),
        ("flow", format!("1:5: 'create' after 'flow' is missing ({rule})")),
        ("\n flow validate 0 pattern end", format!("2:7: 'flow validate' adds no rule ({rule})")),
        (
            "flow create x",
            "1:13: port: 'x' is not a number (port takes a number from 0 to 4294967295)".to_owned(),
        ),
        (
            "flow create 0",
            "1:14: 'pattern' is missing (patterns begin with 'pattern' and end with '/ end')".to_owned(),
        ),
        (
            "flow create 0 egress pattern end actions end",
            "1:15: 'egress' is not supported (rules are for packets that arrive: 'ingress')".to_owned(),
        ),
        (
            "flow create 0 prioriti 2 pattern end actions end",
            format!("1:15: unknown attribute 'prioriti' (attribute 'priority' has a similar name) ({begin})"),
        ),
        (
            "flow create 0 group 4294967296 pattern end actions end",
            "1:21: group = 4294967296 is out of range (group takes a number from 0 to 4294967295)".to_owned(),
        ),
        (
            "flow create 0 actions end",
            "1:15: there is no pattern before the actions ('pattern end' matches every packet)".to_owned(),
        ),
        (
            "flow create 0 pattern eth / actions end",
            "1:29: '/ end' after the pattern is missing (a pattern ends with '/ end', then come the actions)"
                .to_owned(),
        ),
        (
            "flow create 0 pattern eth / end",
            "1:32: 'actions' is missing (after the pattern comes 'actions ACTION / ... / end')".to_owned(),
        ),
        (
            "flow create 0 pattern eth / end actions drop /  # x",
            "1:47: '/ end' after the actions is missing (a rule ends with '/ end')".to_owned(),
        ),
        (
            "flow create 0 pattern end actions end x",
            "1:39: 'x' after the end of the rule (one rule a line)".to_owned(),
        ),
    ] {
        assert_eq!(messages(text), [expected], "{text}");
    }
}

#[test]
fn errors_of_patterns_have_their_place() {
    let slash = "a '/' between spaces stands after each item and each action, then 'end'";
    let value = "after a field comes is, spec, last, mask or prefix, then a value";
    for (items, expected) in [
        ("eth / upd /", "7: unknown item 'upd' (item 'udp' has a similar name)".to_owned()),
        ("any /", "1: item 'any' is not supported".to_owned()),
        ("eth/ipv4 /", "1: unknown item 'eth/ipv4' (a '/' stands between spaces)".to_owned()),
        ("eth / / ipv4 /", "7: no item before '/' (an empty item is 'void')".to_owned()),
        ("eth / ipv4", format!("12: '/' is missing before 'end' ({slash})")),
        ("udp /", "1: udp cannot follow eth (udp must follow ipv4 or ipv6)".to_owned()),
        ("ipv4 / vxlan /", "8: vxlan cannot follow ipv4 (vxlan must follow udp)".to_owned()),
        ("ipv4 / icmp6 /", "8: icmp6 cannot follow ipv4 (icmp6 must follow ipv6)".to_owned()),
        ("ipv4 / eth /", "8: eth cannot follow ipv4 (eth comes first)".to_owned()),
        ("mpls / mpls /", "8: mpls cannot follow mpls (mpls must follow eth or vlan or pppoes)".to_owned()),
        ("vlan / vlan / vlan /", "15: more than two VLAN tags are not supported".to_owned()),
        (
            "ipv4 / udp / vxlan / eth /",
            "22: eth after vxlan: inner headers are not matched (end the pattern after vxlan)".to_owned(),
        ),
        (
            "ipv4 / ipv6 /",
            "8: ipv6 after ipv4: inner headers are not matched (end the pattern after ipv4)".to_owned(),
        ),
        ("mark id is 1 / mark id is 1 /", "16: mark is there twice".to_owned()),
        ("tag data is 1 index is 2 /", "15: tag 2 cannot be matched (only tag 0 can be matched)".to_owned()),
        ("arp_eth_ipv4 sha is 02:00:00:00:00:01 /", "14: sha of arp_eth_ipv4 is not supported".to_owned()),
        (
            "eth dts is 5 /",
            "5: eth has no field 'dts' (field 'dst' has a similar name) (eth has dst, src, type, has_vlan)"
                .to_owned(),
        ),
        ("ipv4 dst 10.0.0.1 /", format!("10: unknown operator '10.0.0.1' after dst ({value})")),
        ("ipv4 dst /", format!("10: what dst is is missing ({value})")),
        (
            "ipv4 dst is /",
            "13: the value of dst is missing (dst takes an IPv4 address such as 10.0.0.1)".to_owned(),
        ),
        (
            "ipv4 dst is 10.0.0.300 /",
            "13: dst: '10.0.0.300' is not an IPv4 address (dst takes an IPv4 address such as 10.0.0.1)"
                .to_owned(),
        ),
        (
            "ipv4 dst is 10.0.0.0/8 /",
            "13: dst: '10.0.0.0/8' is not an IPv4 address (a prefix is 'dst spec 10.0.0.0 dst prefix 8')"
                .to_owned(),
        ),
        (
            "ipv4 dst prefix 33 /",
            "17: prefix = 33 is out of range (prefix takes a number from 0 to 32)".to_owned(),
        ),
        (
            "vlan vid is 4096 /",
            "13: vid = 4096 is out of range (vid takes a number from 0 to 4095)".to_owned(),
        ),
        (
            "ipv4 dst mask 255.0.0.0 /",
            "1: ipv4 has a mask or a last value, but no spec ('is' or 'spec' give the value to compare with)"
                .to_owned(),
        ),
        ("ipv4 / udp src is 5 src last 4 /", "21: src: the last value is before the first one".to_owned()),
        (
            "vlan vid spec 5 vid last 9 /",
            "17: vid: a range needs a mask of all bits, or of the first ones \
             (vid is within tci: give all bits of tci)"
                .to_owned(),
        ),
        (
            "ipv6 src spec 1::1 src last 2::2 /",
            "20: src: a range of IPv6 addresses is within a /64, or of whole ones".to_owned(),
        ),
        (
            "eth has_vlan is 0 / vlan /",
            "21: a VLAN tag is excluded, and there ('has_vlan is 0' and 'has_more_vlan is 0' exclude a tag)"
                .to_owned(),
        ),
        (
            "eth type is 0x8863 / pppoes /",
            "22: the item before has another type (leave out the type: pppoes is 0x8864, pppoed is 0x8863)"
                .to_owned(),
        ),
        (
            "eth has_vlan is 1 / pppoes /",
            "21: the number of VLAN tags before is not known (write 'vlan' for 'has_vlan is 1')".to_owned(),
        ),
        (
            "mpls s is 0 / ipv4 /",
            "15: s is 0, but no other label follows the first one (only the label with s = 1 is before ipv4)"
                .to_owned(),
        ),
    ] {
        let told = pattern_messages(items);
        if items.starts_with("ipv4 dst prefix") {
            assert_eq!(told[0], expected, "{items}");
        } else {
            assert_eq!(told, [expected], "{items}");
        }
    }
}

#[test]
fn errors_of_actions_have_their_place() {
    for (actions, expected) in [
        ("quue index 1 / end", "1: unknown action 'quue' (action 'queue' has a similar name)"),
        ("queue / end", "7: index of queue is missing (queue index N)"),
        (
            "queue indx 1 / end",
            "7: queue takes no 'indx' (word 'index' has a similar name) (queue takes index)",
        ),
        ("drop now / end", "6: drop takes no 'now' (after drop comes '/')"),
        (
            "queue index 65536 / end",
            "13: index = 65536 is out of range (index takes a number from 0 to 65535)",
        ),
        (
            "queue index 1 / mark id 2 / drop / end",
            "29: drop: queue has decided where the packet goes \
             (a rule has one of queue, rss, drop, jump, passthru)",
        ),
        ("jump group 5 / end", "1: jump from group 5 to group 5 (a jump goes to a higher group: 6 or more)"),
        ("jump group 2 / end", "1: jump from group 5 to group 2 (a jump goes to a higher group: 6 or more)"),
        ("rss / end", "1: rss has no queues (rss queues 0 1 end)"),
        ("rss queues 1 / end", "14: 'end' after queues is missing (a list ends with 'end', then comes '/')"),
        (
            "rss types ipv4 end queues 1 end / end",
            "5: types of rss is not supported (the hash is of the packet's flow)",
        ),
        (
            "rss func toeplitz queues 1 end / end",
            "10: rss: func toeplitz is not supported (leave it out, or func default)",
        ),
        (
            "rss queues 1 end key ab / end",
            "18: key of rss is not supported (the key of the hash cannot be chosen)",
        ),
        ("/ end", "1: no action before '/' (an empty action is 'void')"),
        (
            "drop end",
            "6: '/' is missing before 'end' \
             (a '/' between spaces stands after each item and each action, then 'end')",
        ),
    ] {
        assert_eq!(action_messages(actions), [expected], "{actions}");
    }
}

#[test]
fn all_mistakes_of_a_file_are_told_and_good_rules_are_kept() {
    let text = "flow create 0 pattern eth dts is 5 / udp / ipv9 / end actions qeue index 1 / drop 1 / end\n\
                flow create 0 pattern end actions drop / end\n\
                flow create 0 pattern ipv4 src is x dst is y / end actions end\n";
    let (rules, _) = parse(&Source::new("rules", text));
    assert_eq!(rules.iter().map(|placed| placed.line).collect::<Vec<_>>(), [2]);
    let places: Vec<String> =
        messages(text).iter().map(|told| told.splitn(3, ':').take(2).collect::<Vec<_>>().join(":")).collect();
    assert_eq!(places, ["1:27", "1:38", "1:44", "1:63", "1:83", "3:35", "3:44"]);
}

#[test]
fn a_file_of_mistakes_has_a_short_report() {
    let text = "flow create 0 pattern eth dts is 5 / end actions drop / end\n".repeat(10_000);
    let (rules, diags) = parse(&Source::new("rules", text));
    assert_eq!((rules.len(), diags.len()), (0, 200));
}

#[test]
fn a_long_line_takes_no_longer_than_many_short_ones() {
    for words in ["/ ", "mark id is 1 / ", "ipv4 src is 10.0.0.1 src last 10.0.0.2 / ", "eth x ", "    "] {
        let items = words.repeat(100_000);
        let (rules, diags) = parse(&Source::new("rules", format!("flow create 0 pattern {items}")));
        assert!(rules.is_empty() && diags.has_errors(), "{words}");
    }
}
