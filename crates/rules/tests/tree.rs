//! Rules in trees, beside the plain table.

use proptest::prelude::*;
use rules::{Action, Field, Hit, Key, Layer, Range, Reference, Rule, Table};
use std::collections::HashMap;

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The first bits of an address of IPv4.
fn prefix(length: u64) -> u64 {
    !(u64::from(u32::MAX) >> length) & u64::from(u32::MAX)
}

/// A rule of an access list: prefixes, ports, ranges of them, protocols; some for IPv6, some for other
/// things.
fn listed(numbers: &mut Numbers) -> Rule {
    let mut rule = Rule { priority: numbers.below(1000) as u32, ..Rule::default() };
    rule.actions = vec![Action::Queue(numbers.below(8) as u16)];
    let pattern = &mut rule.pattern;
    let six = numbers.below(5) == 0;
    pattern.demand(
        Field::Layers,
        if six { Layer::Ipv6 } else { Layer::Ipv4 }.bit(),
        Layer::Ipv6.bit() | Layer::Ipv4.bit(),
    );
    for (high, low) in [(Field::SrcHigh, Field::SrcLow), (Field::DstHigh, Field::DstLow)] {
        // Few networks, so that rules overlap.
        let address =
            (numbers.below(4) << 24 | numbers.below(3) << 16 | numbers.below(0x1_0000)) & 0xff03_ff0f;
        let length = [0, 8, 16, 24, 28, 32, 32][numbers.below(7) as usize];
        match six {
            true if length == 32 => {
                // A host, of which every bit counts.
                pattern.demand(high, numbers.next() << 31 ^ numbers.next(), u64::MAX);
                pattern.demand(low, (numbers.next() << 33 ^ numbers.next()) | numbers.below(2), u64::MAX);
            }
            true => pattern.demand(high, address << 32, prefix(length) << 32),
            false => pattern.demand(low, address, prefix(length)),
        }
    }
    for field in [Field::SrcPort, Field::DstPort] {
        match numbers.below(6) {
            0 | 1 => pattern.demand(field, numbers.below(40), 0xffff),
            2 => {
                let first = numbers.below(40);
                pattern.ranges.push(Range { field, first, last: first + numbers.below(2000) });
            }
            3 if numbers.below(4) == 0 => pattern.demand(field, numbers.below(40), 0x0f0f),
            4 if numbers.below(9) == 0 => {
                // With a range that its mask may not meet.
                pattern.demand(field, 32, 0xfff0);
                pattern.ranges.push(Range { field, first: 20, last: 20 + numbers.below(15) });
            }
            _ => {}
        }
    }
    match numbers.below(8) {
        0 => pattern.demand(Field::Mark, numbers.below(3), u64::from(u32::MAX)),
        1..4 => pattern.demand(Field::Proto, 6 + 11 * numbers.below(2), 0xff),
        _ => {}
    }
    rule
}

/// What a rule matches, more or less.
fn key_for(rule: &Rule, numbers: &mut Numbers) -> Key {
    let mut key = Key::default();
    for (field, value) in [
        (Field::SrcLow, numbers.below(4) << 24 | numbers.below(0x400)),
        (Field::DstLow, numbers.below(4) << 24 | numbers.below(0x400)),
        (Field::SrcHigh, numbers.below(2) << 56),
        (Field::SrcPort, numbers.below(2100)),
        (Field::DstPort, numbers.below(50)),
        (Field::Proto, 6 + 11 * numbers.below(2)),
        (Field::Mark, numbers.below(3)),
    ] {
        key.set(field, value);
    }
    for word in 0..rules::WORDS {
        key.0[word] = key.0[word] & !rule.pattern.mask.0[word] | rule.pattern.value.0[word];
    }
    for range in &rule.pattern.ranges {
        key.set(range.field, range.first + numbers.below(range.last - range.first + 1));
    }
    if numbers.below(3) == 0 {
        key.0[numbers.below(rules::WORDS as u64) as usize] ^= 1 << numbers.below(64);
    }
    key
}

/// A table, and the plain one with the same rules.
struct Both {
    table: Table,
    plain: Reference,
    /// Their numbers there, by those in the table.
    numbers: HashMap<u64, u64>,
    there: Vec<(u64, Rule)>,
}

impl Both {
    fn new() -> Self {
        Self { table: Table::new(3), plain: Reference::default(), numbers: HashMap::new(), there: Vec::new() }
    }

    fn change(&mut self, gone: usize, new: Vec<Rule>) {
        let gone: Vec<u64> =
            self.there.drain(..gone.min(self.there.len())).map(|(number, _)| number).collect();
        let numbers = self.table.change(&gone, &new).unwrap();
        gone.iter().for_each(|number| assert!(self.plain.remove(self.numbers[number])));
        for (number, rule) in numbers.into_iter().zip(new) {
            self.numbers.insert(number, self.plain.add(rule.clone()));
            self.there.push((number, rule));
        }
    }

    fn check(&self, random: &mut Numbers, many: usize) {
        let mut keys = Vec::new();
        for _ in 0..many {
            let at = random.below(self.there.len().max(1) as u64) as usize;
            let rule = self.there.get(at).map_or_else(Rule::default, |(_, rule)| rule.clone());
            keys.push(key_for(&rule, random));
        }
        let mut hits = vec![Hit::NOTHING; keys.len()];
        let mut reader = self.table.reader();
        reader.now().find_many(0, &keys, &mut hits);
        let mut found = 0;
        for (key, hit) in keys.iter().zip(&hits) {
            let right = self.plain.find(0, key).map(|(number, _)| number);
            assert_eq!(hit.number().map(|number| self.numbers[&number]), right, "{key:x?}");
            found += usize::from(right.is_some());
        }
        assert!(self.there.is_empty() || found * 4 > many, "only {found} of {many} keys have a rule");
    }
}

#[test]
fn lists_of_any_size_find_the_same_in_trees_and_beside_them() {
    for many in [1, 2, 9, 40, 300, 2000, 6000] {
        let mut random = Numbers(many);
        let mut both = Both::new();
        both.change(0, (0..many).map(|_| listed(&mut random)).collect());
        both.check(&mut random, 300);
        let settled = both.table.settle();
        both.check(&mut random, 1500);
        assert!((0..4).any(|_| both.table.sweep()));
        both.check(&mut random, 1500);
        // Of large lists a part may have too many rules that match the same packets.
        let tables = if many > 1000 { usize::MAX } else { 0 };
        assert!(settled == (many > 8) && both.table.tuples() <= tables, "{many}: {}", both.table.tuples());
        // Some of the trees go, others come beside them, and all come into trees again.
        both.change(many as usize / 3, (0..many / 4).map(|_| listed(&mut random)).collect());
        both.check(&mut random, 1500);
        both.table.settle();
        both.check(&mut random, 1500);
        both.change(usize::MAX, Vec::new());
        assert!((0..4).any(|_| both.table.sweep()));
        both.check(&mut random, 40);
        assert_eq!((both.table.len(), both.table.tuples()), (0, 0));
    }
}

#[test]
fn flows_with_one_mask_stay_in_their_hash_table() {
    let mut both = Both::new();
    let mut random = Numbers(2);
    let flow = |n: u64| {
        let mut rule = Rule { priority: 500, actions: vec![Action::Queue(0)], ..Rule::default() };
        for (field, value) in
            [(Field::SrcLow, ((n % 97) << 24) | n), (Field::DstLow, n / 3), (Field::DstPort, n % 50)]
        {
            rule.pattern.demand(field, value, field.most());
        }
        rule
    };
    both.change(0, (0..3000).map(flow).collect());
    // Some of them have a part in the table and others beside it: their ranges make up prefixes.
    let mut more: Vec<Rule> = (0..200).map(|_| listed(&mut random)).collect();
    for rule in more.iter_mut().step_by(3) {
        rule.pattern.ranges.push(Range { field: Field::Ttl, first: 3, last: 9 });
    }
    both.change(0, more);
    assert_eq!(both.table.tuples(), 1);
    both.table.settle();
    assert_eq!(both.table.tuples(), 1);
    both.check(&mut random, 2000);
    both.change(1500, (3000..4000).map(flow).collect());
    both.check(&mut random, 2000);
    both.table.settle();
    both.check(&mut random, 2000);
    both.change(usize::MAX, Vec::new());
    assert!((0..4).any(|_| both.table.sweep()));
    assert_eq!((both.table.len(), both.table.tuples()), (0, 0));
}

#[test]
fn rules_that_look_at_more_than_others_stay_beside_them() {
    let mut both = Both::new();
    let mut random = Numbers(4);
    let mut odd = Rule { priority: 0, actions: vec![Action::Queue(7)], ..Rule::default() };
    odd.pattern.mask = Key([u64::MAX; rules::WORDS]);
    odd.pattern.value = Key([0x0123_4567_89ab_cdef; rules::WORDS]);
    both.change(0, vec![odd]);
    both.change(0, (0..500).map(|_| listed(&mut random)).collect());
    assert!(both.table.settle());
    both.check(&mut random, 1000);
    assert!((0..4).any(|_| both.table.sweep()));
    both.check(&mut random, 1000);
    assert!(!both.table.settle(), "the odd one has no place in trees, and that is known");
    both.change(1, Vec::new());
    both.check(&mut random, 1000);
}

#[test]
fn trees_of_which_little_is_left_go() {
    let mut both = Both::new();
    let mut random = Numbers(5);
    both.change(0, (0..1000).map(|_| listed(&mut random)).collect());
    for gone in [0, 900, 95] {
        both.change(gone, Vec::new());
        let sweep = || assert!((0..4).any(|_| both.table.sweep()));
        sweep();
        assert!(both.table.settle(), "when {gone} are gone");
        sweep();
        assert!(!both.table.settle(), "when {gone} are gone");
        both.check(&mut random, 1000);
    }
}

#[test]
fn rules_that_no_bits_tell_apart_are_found_too() {
    let mut both = Both::new();
    let mut random = Numbers(1);
    let any = |n: u32| {
        let mut rule = Rule { priority: n, actions: vec![Action::Queue(0)], ..Rule::default() };
        // Each has another mask, and all match the same packets.
        rule.pattern.demand(Field::SrcLow, 0, u64::from(n % 1024 * 2 + 1));
        rule.pattern.demand(Field::DstLow, 0, u64::from(n / 1024 + 1));
        rule
    };
    both.change(0, (0..1500).map(any).collect());
    both.table.settle();
    both.check(&mut random, 300);
    both.change(1490, Vec::new());
    both.check(&mut random, 300);
}

#[test]
fn a_rule_that_ends_in_a_tree_lets_the_next_one_through_at_its_version() {
    let table = Table::new(5);
    let mut random = Numbers(7);
    let rules: Vec<Rule> = (0..100).map(|_| listed(&mut random)).collect();
    table.change(&[], &rules).unwrap();
    let mut first = Rule { priority: 0, actions: vec![Action::Queue(1)], ..Rule::default() };
    first.pattern.demand(Field::SrcLow, 0x7700_0000, 0xffff_ffff);
    let second = Rule { priority: 1, actions: vec![Action::Queue(2)], ..first.clone() };
    let numbers = table.change(&[], &[first, second]).unwrap();
    table.settle();
    let (mut key, mut old, mut new) = (Key::default(), table.reader(), table.reader());
    key.set(Field::SrcLow, 0x7700_0000);
    let before = old.now();
    table.change(&numbers[..1], &[]).unwrap();
    assert_eq!(new.now().find(0, &key).number(), Some(numbers[1]));
    assert_eq!(before.find(0, &key).number(), Some(numbers[0]), "an earlier view has the earlier rule");
    table.settle();
    assert_eq!(before.find(0, &key).number(), Some(numbers[0]));
    assert_eq!((new.now().find(0, &key).number(), table.len()), (Some(numbers[1]), 101));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_comes_and_goes(seed: u64, steps in prop::collection::vec((0usize..4, 0usize..300, 0usize..300), 1..8)) {
        let mut random = Numbers(seed);
        let mut both = Both::new();
        for (what, new, gone) in steps {
            match what {
                0 => drop((both.table.settle(), both.table.sweep())),
                _ => both.change(gone, (0..new).map(|_| listed(&mut random)).collect()),
            }
            both.check(&mut random, 100);
        }
    }
}
