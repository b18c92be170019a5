//! Properties of all rules and all texts.

use super::round_trip;
use crate::rule::{Action, Pattern, Rule};
use crate::syntax::items::{ETH, ITEMS, Item, MOST_PARTS, Part};
use crate::syntax::parse;
use crate::syntax::value::Form;
use lang::Source;
use proptest::prelude::*;

#[test]
fn the_tables_fit_together() {
    for item in ITEMS.iter().chain([&ETH]) {
        assert!(item.parts.len() <= MOST_PARTS, "{}", item.name);
        for part in item.parts {
            assert!(part.bits <= part.field.place().2 || part.form == Form::Ipv6, "{}", part.name);
        }
    }
}

/// A field of an item with random words.
fn words(part: &'static Part) -> impl Strategy<Value = String> {
    let write = |form: Form, value: u128| {
        let mut out = String::new();
        form.write(value, &mut out);
        out
    };
    let most = part.most();
    let value =
        || prop_oneof![any::<u128>().prop_map(move |n| n & most), (0..4u128).prop_map(move |n| n & most)];
    let (name, form, bits) = (part.name, part.form, part.bits);
    (0..6u8, value(), value(), value(), 0..=bits).prop_map(move |(kind, a, b, mask, prefix)| {
        let (first, last) = (write(form, a.min(b)), write(form, a.max(b)));
        match kind {
            0 | 1 => format!(" {name} is {first}"),
            2 => format!(" {name} spec {first} {name} mask {}", write(form, mask)),
            3 => format!(" {name} spec {first} {name} prefix {prefix}"),
            4 => format!(" {name} is {first} {name} last {last}"),
            _ => format!(" {name} spec {first} {name} last {last} {name} prefix {prefix}"),
        }
    })
}

/// An item with some of its fields.
fn item(item: &'static Item) -> impl Strategy<Value = String> {
    let fields: Vec<_> = item.parts.iter().map(|part| proptest::option::weighted(0.3, words(part))).collect();
    fields
        .prop_map(|fields| fields.into_iter().flatten().collect::<String>())
        .prop_map(move |fields| format!("{}{fields} / ", item.name))
}

/// Items in an order that exists, as often as not; some of the texts have errors.
fn stack() -> impl Strategy<Value = String> {
    let all: Vec<&'static Item> = ITEMS.iter().chain([&ETH]).collect();
    let next = move |last: &str, choice: usize| -> Option<&'static Item> {
        let good: Vec<_> = all.iter().filter(|item| item.after.contains(&last)).collect();
        (!good.is_empty()).then(|| *good[choice % good.len()])
    };
    let meta = proptest::option::weighted(0.2, (0..3usize).prop_flat_map(|index| item(&ITEMS[index])));
    let choices = proptest::collection::vec(any::<usize>(), 0..6);
    let chain = choices.prop_flat_map(move |choices| {
        let mut items = vec![&ETH];
        for choice in choices {
            let Some(found) = next(items[items.len() - 1].name, choice) else { break };
            items.push(found);
        }
        items.into_iter().map(item).collect::<Vec<_>>().prop_map(|items| items.concat())
    });
    (meta, chain).prop_map(|(meta, chain)| meta.unwrap_or_default() + &chain)
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let any_action = prop_oneof![
        Just(Action::Count),
        any::<u32>().prop_map(Action::Mark),
        (any::<u32>(), any::<u32>()).prop_map(|(data, mask)| Action::SetMeta { data, mask }),
        (any::<u32>(), any::<u32>(), any::<u8>()).prop_map(|(data, mask, index)| Action::SetTag {
            data,
            mask,
            index
        }),
        Just(Action::VlanPop),
        any::<u16>().prop_map(Action::VlanPush),
        (0..4096u16).prop_map(Action::VlanSetId),
        (0..8u8).prop_map(Action::VlanSetPriority),
        any::<u32>().prop_map(Action::Meter),
    ];
    let fate = prop_oneof![
        any::<u16>().prop_map(Action::Queue),
        proptest::collection::vec(any::<u16>(), 1..5).prop_map(Action::Rss),
        Just(Action::Drop),
        (1000..=u32::MAX).prop_map(Action::Jump),
        Just(Action::PassThrough),
    ];
    (proptest::collection::vec(any_action, 0..4), proptest::option::of(fate))
        .prop_map(|(actions, fate)| actions.into_iter().chain(fate).collect())
}

proptest! {
    #[test]
    fn printed_rules_are_the_same(
        stack in stack(), group in 0..1000u32, priority in any::<u32>(), actions in actions(),
    ) {
        let text = format!("flow create 0 pattern {stack} end actions end");
        let (rules, diags) = parse(&Source::new("rules", text));
        if let Some(placed) = rules.into_iter().next() {
            round_trip(&Rule { group, priority, actions, ..placed.rule });
        } else {
            prop_assert!(diags.has_errors());
        }
    }

    #[test]
    fn ranges_and_masks_do_not_overlap(stack in stack()) {
        let text = format!("flow create 0 pattern {stack} end actions end");
        for placed in parse(&Source::new("rules", text)).0 {
            let Pattern { mask, value, ranges } = &placed.rule.pattern;
            prop_assert_eq!(value.masked(mask), *value);
            for range in ranges {
                prop_assert!(range.first < range.last && mask.get(range.field) == 0);
                prop_assert_eq!(ranges.iter().filter(|other| other.field == range.field).count(), 1);
            }
        }
    }

    #[test]
    fn any_text_is_read(text in any::<String>()) {
        let _ = parse(&Source::new("rules", text));
    }

    #[test]
    fn any_words_are_read(words in proptest::collection::vec(prop_oneof![
        Just("flow"), Just("create"), Just("0"), Just("pattern"), Just("actions"), Just("end"), Just("/"),
        Just("\n"), Just("#"), Just("eth"), Just("ipv4"), Just("udp"), Just("vxlan"), Just("dst"), Just("is"),
        Just("last"), Just("spec"), Just("mask"), Just("prefix"), Just("rss"), Just("queues"), Just("vlan"),
        Just("pppoes"), Just("type"), Just("tag"), Just("index"), Just("99999999999999999999"), Just("é"),
        Just("1::"), Just("10.0.0.1"), Just("testpmd>"), Just("jump"), Just("group"), Just("count"),
    ], 0..40), begun in any::<bool>()) {
        let head = if begun { "flow create 0 pattern " } else { "" };
        let (rules, diags) = parse(&Source::new("rules", format!("{head}{}", words.join(" "))));
        prop_assert!(diags.iter().all(|diag| diag.span.is_some()));
        rules.iter().for_each(|placed| round_trip(&placed.rule));
    }
}
