//! Groups to which packets come by default, whose rules are looked up together: beside the plain table.

use proptest::prelude::*;
use rules::{Action, Fate, Field, Hit, Key, Reference, Rule, Table, Tuning, View};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

const GROUPS: u32 = 7;
const FIELDS: [Field; 3] = [Field::DstPort, Field::SrcLow, Field::Meta];

fn key() -> impl Strategy<Value = Key> {
    prop::array::uniform3(0u64..6).prop_map(|values| {
        let mut key = Key::default();
        FIELDS.iter().zip(values).for_each(|(field, value)| key.set(*field, value));
        key
    })
}

fn actions(group: u32) -> impl Strategy<Value = Vec<Action>> {
    prop_oneof![
        4 => (0u16..9).prop_map(|queue| vec![Action::Queue(queue)]),
        2 => (group + 1..GROUPS + 2).prop_map(|to| vec![Action::Jump(to)]),
        1 => (0u32..9, group + 1..GROUPS + 2).prop_map(|(mark, to)| vec![Action::Mark(mark), Action::Jump(to)]),
        1 => (0u32..9).prop_map(|data| vec![Action::SetMeta { data, mask: 7 }, Action::Drop]),
        // A jump back is none.
        1 => (0..=group).prop_map(|to| vec![Action::Jump(to)]),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let masks = prop_oneof![2 => Just(0u64), 2 => Just(u64::MAX), 1 => Just(3)];
    let values = prop::array::uniform3((masks, 0u64..6));
    (values, 0u32..4, 0..GROUPS).prop_flat_map(|(values, priority, group)| {
        actions(group).prop_map(move |actions| {
            let mut rule = Rule { group, priority, actions, ..Rule::default() };
            FIELDS
                .iter()
                .zip(values)
                .for_each(|(field, (mask, value))| rule.pattern.demand(*field, value, mask));
            rule
        })
    })
}

/// What makes chains: a rule for every packet, mostly a jump to the next group, mostly after all others.
fn default() -> impl Strategy<Value = Rule> {
    let priority = prop_oneof![5 => Just(9u32), 1 => Just(3), 1 => Just(10)];
    let to = prop_oneof![6 => Just(1u32), 2 => Just(2), 1 => Just(0)];
    let more = prop_oneof![
        8 => Just(None),
        1 => Just(Some(Action::Count)),
        1 => Just(Some(Action::SetMeta { data: 1, mask: 1 }))
    ];
    (0..GROUPS, priority, to, more).prop_map(|(group, priority, to, more)| {
        let last = if to == 0 { Action::Queue(77) } else { Action::Jump(group + to) };
        Rule { group, priority, actions: more.into_iter().chain([last]).collect(), ..Rule::default() }
    })
}

#[derive(Clone, Debug)]
enum Step {
    /// Rules that are added, and from where on how many go.
    Change(Vec<Rule>, usize, usize),
    /// Others in the place of those from somewhere on.
    Replace(Vec<Rule>, usize),
    /// Rules come into trees, if they may.
    Settle,
    Find(Vec<Key>),
}

fn step() -> impl Strategy<Value = Step> {
    let rules = || prop::collection::vec(prop_oneof![rule(), default()], 0..12);
    prop_oneof![
        2 => (rules(), any::<usize>(), 0usize..8).prop_map(|(new, at, gone)| Step::Change(new, at, gone)),
        1 => (rules(), any::<usize>()).prop_map(|(new, at)| Step::Replace(new, at)),
        1 => Just(Step::Settle),
        2 => prop::collection::vec(key(), 1..70).prop_map(Step::Find),
    ]
}

/// The rule that decides in the end about a packet that comes to a group, and those that it has met before,
/// but for jumps that do nothing else.
fn by_plain(plain: &Reference, mut group: u32, key: &Key) -> Vec<u64> {
    let mut met = Vec::new();
    while let Some((number, rule)) = plain.find(group, key) {
        match rule.actions[..] {
            [Action::Jump(to)] if to > group => group = to,
            [.., Action::Jump(to)] if to > group => {
                met.push(number);
                group = to;
            }
            _ => {
                met.push(number);
                break;
            }
        }
    }
    met
}

/// The same by the table.
fn by_table(view: &View<'_>, mut group: u32, key: &Key, mut hit: Hit) -> Vec<u64> {
    let mut met = Vec::new();
    while let Some(number) = hit.number() {
        assert!(hit.group() >= group);
        let verdict = hit.verdict();
        let to = match verdict.fate {
            Fate::Jump(to) => Some(to),
            Fate::Listed => view.list(&verdict).iter().find_map(|action| match action {
                Action::Jump(to) => Some(*to),
                _ => None,
            }),
            _ => None,
        };
        let pure = matches!(verdict.fate, Fate::Jump(_)) && verdict.mark.or(verdict.counter).is_none();
        let Some(to) = to.filter(|to| *to > hit.group()) else {
            met.push(number);
            break;
        };
        if !pure {
            met.push(number);
        }
        group = to;
        hit = view.find(group, key);
    }
    met
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn chains_lead_to_the_rules_to_which_their_groups_lead(
        steps in prop::collection::vec(step(), 1..50),
        seed: u64,
        few in prop_oneof![Just(0usize), Just(3), Just(64)],
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
                Step::Change(rules, from, gone) => {
                    let from = from % (there.len() + 1);
                    let gone: Vec<u64> = there.drain(from..there.len().min(from + gone)).collect();
                    let new = table.change(&gone, rules).unwrap();
                    gone.iter().for_each(|number| assert!(plain.remove(numbers[number])));
                    for (number, rule) in new.iter().zip(rules) {
                        numbers.insert(*number, plain.add(rule.clone()));
                    }
                    there.extend(new);
                }
                Step::Replace(rules, from) => {
                    let these: Vec<u64> =
                        there.iter().skip(from % (there.len() + 1)).take(rules.len()).copied().collect();
                    table.replace(&these, &rules[..these.len()]).unwrap();
                    these.iter().zip(rules).for_each(|(number, rule)| assert!(plain.replace(numbers[number], rule.clone())));
                }
                Step::Settle => drop(table.settle()),
                Step::Find(keys) => {
                    let reader = if at % 5 == 0 { &mut late } else { &mut reader };
                    let view = reader.now();
                    let mut hits = vec![Hit::NOTHING; keys.len()];
                    for group in 0..GROUPS + 3 {
                        view.find_many(group, keys, &mut hits);
                        for (key, hit) in keys.iter().zip(&hits) {
                            let met = by_table(&view, group, key, *hit);
                            let met: Vec<u64> = met.iter().map(|number| numbers[number]).collect();
                            prop_assert_eq!(met, by_plain(&plain, group, key), "group {}, {:?}", group, key);
                        }
                    }
                }
            }
        }
        let all = std::mem::take(&mut there);
        table.change(&all, &[]).unwrap();
        (0..3).for_each(|_| drop(table.change(&[], &[]).unwrap()));
        prop_assert_eq!((table.len(), table.tuples()), (0, 0));
    }
}

fn to_queue(group: u32, port: u64, queue: u16) -> Rule {
    let mut rule = Rule { group, actions: vec![Action::Queue(queue)], ..Rule::default() };
    rule.pattern.demand(Field::DstPort, port, u64::MAX);
    rule
}

fn jump(group: u32, priority: u32, to: u32) -> Rule {
    Rule { group, priority, actions: vec![Action::Jump(to)], ..Rule::default() }
}

fn port(port: u64) -> Key {
    let mut key = Key::default();
    key.set(Field::DstPort, port);
    key
}

/// The groups of the rules that are found one after the other, from group 0 on.
fn path(view: &View<'_>, key: &Key) -> Vec<u32> {
    let (mut groups, mut group) = (Vec::new(), 0);
    loop {
        let hit = view.find(group, key);
        if hit.number().is_none() {
            return groups;
        }
        groups.push(hit.group());
        match hit.verdict().fate {
            Fate::Jump(to) => {
                assert!(to > hit.group() && hit.group() >= group, "{groups:?}");
                group = to;
            }
            _ => return groups,
        }
    }
}

#[test]
fn a_chain_costs_one_look_up_in_whatever_order_it_comes() {
    const LAST: u32 = 15;
    const RULES: u64 = 300;
    let rules_of = |group: u32| -> Vec<Rule> {
        let own = (0..RULES).map(|n| to_queue(group, u64::from(group) * RULES + n, group as u16));
        own.chain((group < LAST).then(|| jump(group, 9, group + 1))).collect()
    };
    let groups: Vec<u32> = (0..=LAST).collect();
    let orders = [
        groups.clone(),
        groups.iter().rev().copied().collect(),
        groups.iter().map(|group| group * 7 % (LAST + 1)).collect(),
    ];
    for order in orders {
        for together in [true, false] {
            let table = Table::new(1);
            if together {
                table
                    .change(&[], &order.iter().flat_map(|group| rules_of(*group)).collect::<Vec<_>>())
                    .unwrap();
            } else {
                order.iter().for_each(|group| drop(table.change(&[], &rules_of(*group)).unwrap()));
            }
            (0..3).for_each(|_| drop(table.change(&[], &[]).unwrap()));
            assert_eq!(table.tuples(), 1, "{order:?}");
            let mut reader = table.reader();
            let view = reader.now();
            for n in 0..RULES * u64::from(LAST + 1) {
                assert_eq!(path(&view, &port(n)), [(n / RULES) as u32]);
            }
            assert!(path(&view, &port(60_000)).is_empty());
        }
    }
}

#[test]
fn a_chain_that_breaks_is_mended() {
    for few in [0, 64] {
        let table = Table::tuned(1, Tuning { few, ..Tuning::default() });
        let rules: Vec<Rule> = (0..5u32).map(|group| to_queue(group, group.into(), group as u16)).collect();
        table.change(&[], &rules).unwrap();
        let links: Vec<Rule> = (0..4).map(|group| jump(group, 9, group + 1)).collect();
        let links = table.change(&[], &links).unwrap();
        let mut reader = table.reader();
        let mut look = |n: u64| path(&reader.now(), &port(n));
        assert_eq!((look(4), look(2), look(9)), (vec![4], vec![2], vec![]));
        // Another target, and back.
        table.replace(&links[1..2], &[jump(1, 9, 3)]).unwrap();
        assert_eq!((look(2), look(4), look(1)), (vec![], vec![4], vec![1]));
        table.replace(&links[1..2], &[jump(1, 9, 2)]).unwrap();
        assert_eq!((look(2), look(4), look(9)), (vec![2], vec![4], vec![]));
        // A rule behind the jump matches nothing; the jump is one of many rules then.
        let behind = table.change(&[], &[Rule { priority: 10, ..to_queue(1, 9, 7) }]).unwrap();
        assert_eq!((look(9), look(1), look(2)), (vec![1], vec![1], vec![1, 2]));
        table.change(&behind, &[]).unwrap();
        assert_eq!((look(2), look(4), look(9)), (vec![2], vec![4], vec![]));
        // Another jump to the middle: from there on it is the same chain.
        let other =
            table.change(&[], &[Rule { actions: vec![Action::Jump(2)], ..to_queue(0, 9, 7) }]).unwrap();
        assert_eq!(look(9), [0]);
        table.change(&other, &[to_queue(3, 9, 7)]).unwrap();
        assert_eq!(look(9), [3]);
        // No jump: the packets of later groups are not found.
        table.change(&links[2..3], &[]).unwrap();
        assert_eq!((look(2), look(3), look(4), look(9)), (vec![2], vec![], vec![], vec![]));
    }
}

#[test]
fn a_chain_that_is_too_long_is_followed_too() {
    let table = Table::new(1);
    let links: Vec<Rule> = (0..1000).map(|group| jump(group, 9, group + 1)).collect();
    table.change(&[], &links).unwrap();
    table.change(&[], &[to_queue(1000, 5, 7), to_queue(70, 6, 7)]).unwrap();
    let mut reader = table.reader();
    let view = reader.now();
    let (long, short) = (path(&view, &port(5)), path(&view, &port(6)));
    assert_eq!((long.last(), short.last()), (Some(&1000), Some(&70)));
    assert!(long.len() < 40 && short.len() < 5, "{long:?}");
}

/// What other packets find while links come and go: each version is one of the states, wholly.
#[test]
fn no_packet_sees_half_of_a_change_of_chains() {
    for (few, many) in [(0, 30u64), (64, 3), (8, 200)] {
        let table = Table::tuned(3, Tuning { few, ..Tuning::default() });
        const LAST: u32 = 5;
        // In each state all rules have the same queue, so that a packet that sees two states shows it.
        let batch = |state: u16| -> Vec<Rule> {
            let mut rules = Vec::new();
            for group in 0..=LAST {
                rules.extend((0..many).map(|n| to_queue(group, u64::from(group) * many + n, state)));
                let next = if state.is_multiple_of(3) {
                    group + 1
                } else {
                    group + 1 + u32::from(group.is_multiple_of(2))
                };
                if state % 7 != 6 || group != 2 {
                    rules.push(jump(group, 9, next.min(LAST + 1)));
                }
                if state % 5 == 4 {
                    rules.push(Rule { priority: 11, ..to_queue(group, 1, state) });
                }
            }
            rules.push(Rule { group: LAST + 1, actions: vec![Action::Queue(state)], ..Rule::default() });
            rules
        };
        // Whether a state has a rule for each port.
        let mut expected: HashMap<(u16, u64), bool> = HashMap::new();
        for state in 0..105 {
            let mut plain = Reference::default();
            for rule in batch(state) {
                plain.add(rule);
            }
            let of = |n: u64| ((state, n), !by_plain(&plain, 0, &port(n)).is_empty());
            expected.extend((0..many * 7).step_by(7).map(of));
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut numbers = table.change(&[], &batch(0)).unwrap();
            let looks: Vec<_> = (0..2)
                .map(|_| {
                    let (mut reader, done, expected) = (table.reader(), &done, &expected);
                    scope.spawn(move || {
                        let ports: Vec<u64> = (0..many * 7).step_by(7).collect();
                        let mut looks = 0;
                        while !done.load(Relaxed) || looks < 10 {
                            let view = reader.now();
                            let mut state = None;
                            let found: Vec<(u64, Option<u16>)> =
                                ports.iter().map(|n| (*n, decided(&view, &port(*n)))).collect();
                            for (n, queue) in &found {
                                state = state.or(*queue);
                                assert!(queue.is_none() || *queue == state, "port {n}: {queue:?}, {state:?}");
                            }
                            if let Some(state) = state {
                                for (n, queue) in found {
                                    assert_eq!(
                                        queue.is_some(),
                                        expected[&(state % 105, n)],
                                        "{n} in {state}"
                                    );
                                }
                            }
                            looks += 1;
                        }
                    })
                })
                .collect();
            for state in 1..300u16 {
                let new = batch(state);
                if state % 4 == 0 && new.len() == numbers.len() {
                    table.replace(&numbers, &new).unwrap();
                } else {
                    numbers = table.change(&numbers, &new).unwrap();
                }
            }
            done.store(true, Relaxed);
            looks.into_iter().for_each(|look| look.join().unwrap());
        });
    }
}

/// The queue that decides in the end.
fn decided(view: &View<'_>, key: &Key) -> Option<u16> {
    let mut group = 0;
    loop {
        match view.find(group, key).verdict().fate {
            Fate::Queue(queue) => return Some(queue),
            Fate::Jump(to) => group = to,
            _ => return None,
        }
    }
}
