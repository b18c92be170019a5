//! The table beside the plain one: whatever rules come and go, it finds the same.

use proptest::prelude::*;
use rules::{Action, Fate, Field, Hit, Key, Pattern, Range, Reference, Refused, Rule, Table, Tuning};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Few fields and few values, so that rules overlap.
const FIELDS: [Field; 5] = [Field::DstPort, Field::SrcLow, Field::EthType, Field::Layers, Field::Meta];

fn key() -> impl Strategy<Value = Key> {
    prop::array::uniform5(0u64..12).prop_map(|values| {
        let mut key = Key::default();
        FIELDS.iter().zip(values).for_each(|(field, value)| key.set(*field, value));
        key
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let masks = prop_oneof![Just(0u64), Just(u64::MAX), Just(3), Just(12)];
    let range = prop::option::weighted(0.3, (0u64..12, 0u64..12));
    let actions = prop_oneof![
        (0u16..4).prop_map(|queue| vec![Action::Queue(queue)]),
        (0u32..9).prop_map(|mark| vec![Action::Mark(mark), Action::Drop]),
        (0u32..9).prop_map(|data| vec![Action::SetMeta { data, mask: 7 }, Action::Jump(7)]),
    ];
    let values = prop::array::uniform5((masks, 0u64..12));
    (values, range, 0u32..2, 0u32..4, actions).prop_map(|(values, range, group, priority, actions)| {
        let mut pattern = Pattern::default();
        for (field, (mask, value)) in FIELDS.iter().zip(values) {
            if !(*field == Field::DstPort && range.is_some()) {
                pattern.demand(*field, value, mask);
            }
        }
        let ends = range.map(|(a, b)| Range { field: Field::DstPort, first: a.min(b), last: a.max(b) });
        pattern.ranges.extend(ends);
        Rule { group, priority, pattern, actions }
    })
}

#[derive(Clone, Debug)]
enum Step {
    /// Rules that are added, and how many of the oldest go.
    Change(Vec<Rule>, usize),
    /// Others in the place of the oldest.
    Replace(Vec<Rule>),
    /// Rules come into trees, if they may.
    Settle,
    /// What is found.
    Find(Vec<Key>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (prop::collection::vec(rule(), 0..20), 0usize..20)
            .prop_map(|(rules, gone)| Step::Change(rules, gone)),
        prop::collection::vec(rule(), 0..20).prop_map(Step::Replace),
        Just(Step::Settle),
        prop::collection::vec(key(), 1..70).prop_map(Step::Find),
    ]
}

/// What an action list is expected to look like to who looks it up.
fn same(actions: &[Action], hit: &Hit, view: &rules::View<'_>) -> bool {
    let verdict = hit.verdict();
    match verdict.fate {
        Fate::Listed => view.list(&verdict) == actions,
        Fate::Queue(queue) => actions == [Action::Queue(queue)],
        Fate::Drop => verdict.mark.is_some_and(|mark| actions == [Action::Mark(mark), Action::Drop]),
        Fate::None | Fate::Jump(_) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_same_is_found_as_by_looking_at_each_rule(
        steps in prop::collection::vec(step(), 1..40),
        seed: u64,
        few in 0usize..4,
        bits in prop_oneof![Just(0usize), Just(9), Just(2048)],
        chain in 1usize..4,
    ) {
        let (table, mut plain) = (Table::tuned(seed, Tuning { few, bits, chain }), Reference::default());
        // The numbers of the plain table, by those of this one.
        let mut numbers: HashMap<u64, u64> = HashMap::new();
        let mut there: Vec<u64> = Vec::new();
        let (mut reader, mut late) = (table.reader(), table.reader());
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Change(rules, gone) => {
                    let gone: Vec<u64> = there.drain(..(*gone).min(there.len())).collect();
                    let new = table.change(&gone, rules).unwrap();
                    gone.iter().for_each(|number| assert!(plain.remove(numbers[number])));
                    for (number, rule) in new.iter().zip(rules) {
                        numbers.insert(*number, plain.add(rule.clone()));
                    }
                    there.extend(new);
                    prop_assert_eq!(table.len(), there.len());
                }
                Step::Replace(rules) => {
                    let both = || there.iter().zip(rules);
                    let these: Vec<u64> = both().map(|(number, _)| *number).collect();
                    table.replace(&these, &rules[..these.len()]).unwrap();
                    both().for_each(|(number, rule)| assert!(plain.replace(numbers[number], rule.clone())));
                }
                Step::Settle => drop(table.settle()),
                Step::Find(keys) => {
                    // Another reader looks only now and then.
                    let reader = if at % 5 == 0 { &mut late } else { &mut reader };
                    let view = reader.now();
                    let mut hits = vec![Hit::NOTHING; keys.len()];
                    for group in 0..3 {
                        view.find_many(group, keys, &mut hits);
                        for (key, hit) in keys.iter().zip(&hits) {
                            let right = plain.find(group, key);
                            prop_assert_eq!(hit.number().map(|number| numbers[&number]), right.map(|(n, _)| n));
                            prop_assert!(right.is_none_or(|(_, rule)| same(&rule.actions, hit, &view)));
                        }
                    }
                }
            }
        }
    }
}

fn to_queue(group: u32, priority: u32, port: u64, action: Action) -> Rule {
    let mut rule = Rule { group, priority, actions: vec![action], ..Rule::default() };
    rule.pattern.demand(Field::DstPort, port, u64::MAX);
    rule
}

#[test]
fn a_batch_with_an_error_changes_nothing() {
    let table = Table::new(1);
    let rule = to_queue(0, 0, 53, Action::Queue(1));
    let first = table.change(&[], std::slice::from_ref(&rule)).unwrap()[0];
    let refused = table.change(&[first, 77], std::slice::from_ref(&rule));
    assert_eq!(refused, Err(Refused::NoSuchRule(77)));
    assert_eq!(table.change(&[first, first], &[]), Err(Refused::NoSuchRule(first)));
    let mut wide = rule;
    let range = |field, last| Range { field, first: 1, last };
    wide.pattern = Pattern::default();
    wide.pattern.ranges =
        vec![range(Field::EthType, 65534), range(Field::VlanType, 65534), range(Field::Ttl, 254)];
    assert_eq!(table.change(&[first], &[wide]), Err(Refused::TooManyPrefixes(0)));
    let mut key = Key::default();
    key.set(Field::DstPort, 53);
    let mut reader = table.reader();
    assert_eq!((reader.now().find(0, &key).number(), table.len()), (Some(first), 1));
}

#[test]
fn a_view_stays_as_it_was_and_memory_is_used_again() {
    let table = Table::new(2);
    let mut key = Key::default();
    key.set(Field::DstPort, 5);
    let rule = |queue| to_queue(0, 0, 5, Action::Queue(queue));
    let mut last = table.change(&[], &[rule(0)]).unwrap()[0];
    let (mut old, mut new) = (table.reader(), table.reader());
    let before = old.now();
    for queue in 1..1000u16 {
        last = table.change(&[last], &[rule(queue % 4)]).unwrap()[0];
        assert_eq!(new.now().find(0, &key).verdict().fate, Fate::Queue(queue % 4));
        assert_eq!(before.find(0, &key).verdict().fate, Fate::Queue(0), "after {queue} changes");
    }
    assert_eq!(table.len(), 1);
}

#[test]
fn rules_count_for_themselves_alone() {
    let table = Table::new(4);
    let rule = |port| {
        let mut rule = to_queue(0, 0, port, Action::Count);
        rule.actions.push(Action::Queue(0));
        rule
    };
    let numbers = table.change(&[], &(0..3000).map(rule).collect::<Vec<_>>()).unwrap();
    let silent = table.change(&[], &[to_queue(0, 1, 5, Action::Drop)]).unwrap()[0];
    let count = |port: u64, packets| {
        let mut key = Key::default();
        key.set(Field::DstPort, port);
        let mut reader = table.reader();
        let view = reader.now();
        view.count(&view.find(0, &key).verdict(), packets);
    };
    count(7, 5);
    count(2999, 1);
    count(7, 2);
    let of = |number: u64| table.counted(number);
    assert_eq!([7, 2999, 8].map(|port| of(numbers[port])), [Some(7), Some(1), Some(0)]);
    assert_eq!((of(silent), of(77_777)), (None, None));
    table.change(&[numbers[7]], &[]).unwrap();
    table.change(&[], &[]).unwrap();
    // The counter is used again, from 0 on.
    let next = table.change(&[], &[rule(4000), rule(4001)]).unwrap();
    assert_eq!((of(numbers[7]), of(next[0]), of(next[1])), (None, Some(0), Some(0)));
    count(4000, 3);
    assert_eq!((of(next[0]), of(next[1]), of(numbers[2999])), (Some(3), Some(0), Some(1)));
}

#[test]
fn a_rule_in_the_place_of_another_keeps_its_number_and_its_count() {
    let table = Table::new(4);
    let rule = |priority, counted: bool| {
        let mut rule = to_queue(0, priority, 5, Action::Queue(priority as u16));
        rule.actions.extend(counted.then_some(Action::Count));
        rule
    };
    let all = table.change(&[], &[rule(3, true), rule(4, true), rule(5, false)]).unwrap();
    let mut key = Key::default();
    key.set(Field::DstPort, 5);
    let mut reader = table.reader();
    let mut look = || {
        let view = reader.now();
        let hit = view.find(0, &key);
        view.count(&hit.verdict(), 1);
        (hit.number().unwrap(), hit.verdict().fate)
    };
    assert_eq!(look(), (all[0], Fate::Queue(3)));
    // It is still the first of its priority, and goes on counting.
    table.replace(&[all[0], all[1]], &[rule(4, true), rule(4, true)]).unwrap();
    assert_eq!(look(), (all[0], Fate::Queue(4)));
    assert_eq!([0, 1, 2].map(|n| table.counted(all[n])), [Some(2), Some(0), None]);
    table.replace(&all, &[rule(9, false), rule(8, true), rule(7, true)]).unwrap();
    assert_eq!(look(), (all[2], Fate::Queue(7)));
    assert_eq!([0, 1, 2].map(|n| table.counted(all[n])), [None, Some(0), Some(1)]);
    assert_eq!(
        table.replace(&[all[0], all[0]], &[rule(1, true), rule(1, true)]),
        Err(Refused::NoSuchRule(all[0]))
    );
    assert_eq!(table.replace(&[all[0], 77], &[rule(1, true), rule(1, true)]), Err(Refused::NoSuchRule(77)));
    assert_eq!((look(), table.len()), ((all[2], Fate::Queue(7)), 3));
}

#[test]
fn a_tuple_that_was_empty_is_found_again() {
    let table = Table::new(5);
    let mut key = Key::default();
    key.set(Field::DstPort, 5);
    let mut reader = table.reader();
    for queue in 0..5 {
        let number = table.change(&[], &[to_queue(0, 0, 5, Action::Queue(queue))]).unwrap()[0];
        assert_eq!(reader.now().find(0, &key).verdict().fate, Fate::Queue(queue));
        table.change(&[number], &[]).unwrap();
        assert_eq!(reader.now().find(0, &key).number(), None);
        // What is left is cleared away by later changes.
        (0..3).for_each(|_| drop(table.change(&[], &[]).unwrap()));
    }
}

#[test]
fn a_reader_that_does_not_look_keeps_one_structure() {
    let table = Table::new(6);
    let (mut idle, mut key) = (table.reader(), Key::default());
    key.set(Field::DstPort, 5);
    let list = |data| {
        let mut rule = to_queue(0, 0, 5, Action::SetMeta { data, mask: 1 });
        rule.actions.push(Action::Queue(0));
        rule
    };
    let mut last = table.change(&[], &[list(0)]).unwrap();
    for data in 1..200 {
        last = table.change(&last, &[list(data)]).unwrap();
    }
    let view = idle.now();
    let verdict = view.find(0, &key).verdict();
    assert_eq!(view.list(&verdict).first(), Some(&Action::SetMeta { data: 199, mask: 1 }));
}

/// Each batch exchanges all rules of two groups. Whoever looks sees those of one batch, in both groups.
#[test]
fn no_packet_sees_a_part_of_a_batch() {
    let table = Table::new(3);
    const PORTS: u64 = 50;
    let batch = |queue: u16| -> Vec<Rule> {
        let second = |port| to_queue(1, u32::from(queue), port, Action::Queue(queue));
        let first = |port| to_queue(0, 7, port, Action::Mark(u32::from(queue)));
        (0..PORTS).flat_map(|port| [first(port), second(port)]).collect()
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut numbers = table.change(&[], &batch(0)).unwrap();
        let looks: Vec<_> = (0..2)
            .map(|_| {
                let (mut reader, done) = (table.reader(), &done);
                scope.spawn(move || {
                    let keys: Vec<Key> = (0..PORTS)
                        .map(|port| {
                            let mut key = Key::default();
                            key.set(Field::DstPort, port);
                            key
                        })
                        .collect();
                    let (mut first, mut second) =
                        (vec![Hit::NOTHING; keys.len()], vec![Hit::NOTHING; keys.len()]);
                    let (mut looks, mut seen) = (0u64, std::collections::BTreeSet::new());
                    while !done.load(Relaxed) || looks < 10 {
                        let view = reader.now();
                        view.find_many(0, &keys, &mut first);
                        view.find_many(1, &keys, &mut second);
                        let batch = first[0].verdict().mark.expect("there is always a rule");
                        for (mark, queue) in first.iter().zip(&second) {
                            assert_eq!(mark.verdict().mark, Some(batch));
                            assert_eq!(queue.verdict().fate, Fate::Queue(batch as u16));
                        }
                        looks += 1;
                        seen.insert(batch);
                    }
                    seen.len()
                })
            })
            .collect();
        for number in 1..2000u16 {
            numbers = table.change(&numbers, &batch(number)).unwrap();
        }
        done.store(true, Relaxed);
        for look in looks {
            assert!(look.join().unwrap() >= 1);
        }
    });
    assert_eq!(table.len(), 2 * PORTS as usize);
}

/// Masks, hash tables and bits come and go around a rule that is always there, in one form or the other.
#[test]
fn no_packet_misses_a_rule_while_others_come_and_go() {
    for tuning in [Tuning { few: 1, bits: 3, chain: 1 }, Tuning { few: 3, bits: 16, chain: 2 }] {
        let table = Table::tuned(9, tuning);
        let own = |queue: u16| {
            let mut rule = Rule { priority: 5, actions: vec![Action::Queue(queue)], ..Rule::default() };
            rule.pattern.demand(Field::SrcLow, 7, 0xffff_ff0f);
            rule.pattern.demand(Field::DstPort, 9, if queue.is_multiple_of(2) { 0xffff } else { 0xff });
            rule
        };
        // They look at the same bits and others, and none matches the packet.
        let other = |n: u64| {
            let mut rule = Rule { priority: (n % 7) as u32, ..Rule::default() };
            rule.pattern.demand(Field::SrcLow, 8, 0xffff_ffff & !((n % 32) << 8) | 15);
            rule.pattern.demand(Field::DstPort, n, 0xffff >> (n % 3));
            rule.pattern.demand(Field::Meta, n, 7 << (n % 5));
            rule.actions = vec![Action::SetMeta { data: n as u32, mask: 1 }, Action::Drop];
            rule
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut number = table.change(&[], &[own(0)]).unwrap();
            let looks: Vec<_> = (0..2)
                .map(|_| {
                    let (mut reader, done) = (table.reader(), &done);
                    scope.spawn(move || {
                        let mut key = Key::default();
                        key.set(Field::SrcLow, 0x17);
                        key.set(Field::DstPort, 9);
                        let (keys, mut hits, mut looks) = ([key; 70], [Hit::NOTHING; 70], 0u64);
                        while !done.load(Relaxed) || looks < 10 {
                            let view = reader.now();
                            view.find_many(0, &keys, &mut hits);
                            let first = hits[0].verdict().fate;
                            assert!(matches!(first, Fate::Queue(_)), "{first:?} after {looks} looks");
                            assert!(hits.iter().all(|hit| *hit == hits[0]));
                            looks += 1;
                        }
                    })
                })
                .collect();
            // Trees are made all the time.
            let settling = scope.spawn(|| {
                let mut settled = 0;
                while !done.load(Relaxed) {
                    settled += u32::from(table.settle());
                }
                settled
            });
            let mut others = Vec::new();
            for turn in 1..3000u16 {
                let new: Vec<Rule> =
                    (0..u64::from(turn % 11)).map(|n| other(u64::from(turn) * 13 + n)).collect();
                let gone = std::mem::take(&mut others);
                others = table.change(&gone, &new).unwrap();
                if turn % 3 == 0 {
                    table.replace(&number, &[own(turn)]).unwrap();
                } else {
                    number = table.change(&number, &[own(turn)]).unwrap();
                }
            }
            done.store(true, Relaxed);
            looks.into_iter().for_each(|look| look.join().unwrap());
            assert_eq!(table.len(), 1 + others.len());
            assert!(settling.join().unwrap() > 0);
        });
    }
}

fn prefix(number: u64, length: u32) -> Rule {
    let mut rule = Rule { actions: vec![Action::Queue(0)], ..Rule::default() };
    rule.pattern.demand(Field::SrcLow, number, 0xffff_ffff & !(0xffff_ffff >> length));
    rule
}

fn found(view: &rules::View<'_>, address: u64) -> Option<u64> {
    let mut key = Key::default();
    key.set(Field::SrcLow, address);
    view.find(0, &key).number()
}

#[test]
fn a_view_does_not_see_rules_that_move_to_tables_of_more_masks() {
    let table = Table::new(11);
    let long: Vec<Rule> = (0..70).map(|n| prefix(0x0b00_0000 | n << 8, 28)).collect();
    table.change(&[], &long).unwrap();
    let few: Vec<Rule> = (0..64).map(|n| prefix(0x0a00_0010 | n << 8, 31)).collect();
    table.change(&[], &few).unwrap();
    let mut reader = table.reader();
    let view = reader.now();
    table.change(&[], &[prefix(0x0a00_ff10, 31)]).unwrap();
    assert_eq!((found(&view, 0x0a00_0012), found(&view, 0x0a00_0011)), (None, Some(70)));
}

#[test]
fn a_mask_without_bits_shares_a_table() {
    for tuning in [Tuning { few: 0, ..Tuning::default() }, Tuning { bits: 0, ..Tuning::default() }] {
        let table = Table::tuned(12, tuning);
        let all = Rule { priority: 7, actions: vec![Action::Drop], ..Rule::default() };
        let numbers = table.change(&[], &[all, prefix(0x0a00_0000, 8), prefix(0x1400_0000, 6)]).unwrap();
        // What is behind it keeps it from being the default, which is in no table.
        let behind = Rule { priority: 8, ..prefix(0x0a00_0000, 16) };
        table.change(&[], &[behind]).unwrap();
        let mut reader = table.reader();
        let view = reader.now();
        let of = [0xc800_0001, 0x0a01_0203, 0x1701_0203].map(|address| found(&view, address));
        assert_eq!(of, [Some(numbers[0]), Some(numbers[1]), Some(numbers[2])]);
    }
}

#[test]
fn every_byte_may_count_and_both_ports_may_have_ranges() {
    let table = Table::new(13);
    let mut odd = Rule { actions: vec![Action::Queue(1)], ..Rule::default() };
    odd.pattern.mask = Key([u64::MAX; rules::WORDS]);
    for field in [Field::SrcPort, Field::DstPort] {
        odd.pattern.mask.set(field, 0x5555);
    }
    let mut ranges = Rule { actions: vec![Action::Queue(2)], ..Rule::default() };
    let range = |field, first, last| Range { field, first, last };
    ranges.pattern.ranges =
        vec![range(Field::SrcPort, 5, 9), range(Field::DstPort, 5, 7), range(Field::DstPort, 6, 9)];
    let mut twice = Rule { actions: vec![Action::Queue(3)], ..Rule::default() };
    twice.pattern.ranges = vec![range(Field::Ttl, 5, 7), range(Field::Ttl, 7, 9)];
    let numbers = table.change(&[], &[odd, ranges, twice]).unwrap();
    let mut reader = table.reader();
    let view = reader.now();
    let find = |source, destination, ttl| {
        let mut key = Key::default();
        key.set(Field::SrcPort, source);
        key.set(Field::DstPort, destination);
        key.set(Field::Ttl, ttl);
        view.find(0, &key).number()
    };
    assert_eq!(
        (find(0xaaaa, 0xaaaa, 0), find(5, 6, 0), find(5, 5, 0)),
        (Some(numbers[0]), Some(numbers[1]), None)
    );
    assert_eq!((find(5, 5, 7), find(5, 5, 9)), (Some(numbers[2]), None));
}

/// Rules that differ in their ranges alone: a look-up compares a packet with few of them.
#[test]
fn ranges_of_one_value_are_found_and_removed() {
    let table = Table::new(14);
    let of = |n: u64| {
        let mut rule = Rule {
            actions: vec![Action::SetMeta { data: n as u32, mask: 1 }, Action::Drop],
            ..Rule::default()
        };
        rule.pattern.demand(Field::Proto, 17, 0xff);
        rule.pattern.ranges = vec![Range { field: Field::DstPort, first: n * 11, last: n * 11 + 7 }];
        rule
    };
    let numbers = table.change(&[], &(0..3000).map(of).collect::<Vec<_>>()).unwrap();
    let check = |there: bool| {
        let mut reader = table.reader();
        let view = reader.now();
        for port in (0..33_000u64).step_by(7) {
            let mut key = Key::default();
            key.set(Field::Proto, 17);
            key.set(Field::DstPort, port);
            let right = (there && port % 11 < 8).then(|| numbers[port as usize / 11]);
            let hit = view.find(0, &key);
            assert_eq!(hit.number(), right, "{port}");
            let data = Action::SetMeta { data: port as u32 / 11, mask: 1 };
            assert!(right.is_none() || view.list(&hit.verdict()).first() == Some(&data), "{port}");
        }
    };
    check(true);
    assert!(table.tuples() > 2, "as prefixes they are in several tables: {}", table.tuples());
    table.change(&numbers, &[]).unwrap();
    (0..4).for_each(|_| drop(table.change(&[], &[]).unwrap()));
    check(false);
    assert_eq!((table.len(), table.tuples()), (0, 0));
}
