//! Tests of the table, also with several threads.

use super::entry::TIME_MASK;
use super::*;
#[cfg(not(miri))]
use std::collections::HashMap;

fn key(n: u32) -> Key {
    let tuple = Tuple { src: n, dst: 0x0808_0808, ports: n.wrapping_mul(0x9e37_79b1) };
    Key { tuple, kind: 1 + (n % 3) as u8 }
}
fn new(n: u32) -> New {
    let key = key(n);
    let to = Tuple { src: 99, dst: key.tuple.dst ^ n, ports: key.tuple.ports };
    New { key, to, outputs: [n as u8, 7], owner: 3, mark: n as u8 }
}
fn flows(limit: usize) -> Flows {
    Flows::new(limit).unwrap()
}

/// Flows that belong into the same line of the same part as this key, of which a line has room for a few.
fn crowd(table: &Flows, like: Key) -> impl Iterator<Item = u32> {
    let place = |key: &Key| {
        let hash = table.hash(key);
        (part_of(hash), line_of(hash))
    };
    let wanted = place(&like);
    (1000..).filter(move |n| place(&key(*n)) == wanted)
}

#[test]
fn what_is_noted_of_a_flow_is_seen_in_both_directions_and_stays_when_it_moves() {
    let table = flows(10_000);
    // One that moves when its segment is split for the first time.
    let five = (5..1000).find(|n| table.hash(&key(*n)) & 1 == 1).unwrap();
    assert!(!table.note(&key(five)));
    table.add(&new(five), 1).unwrap();
    let before = table.get(&key(five)).unwrap();
    assert!(table.note(&key(five)) && !before.is_noted());
    // Who has found it before changes nothing any more.
    table.touch(&before, 9, 1, 0);
    assert_eq!(table.get(&key(five)).unwrap().flags(), 0);
    let bytes = table.bytes();
    let mut others = crowd(&table, key(five));
    while table.bytes() == bytes {
        table.add(&new(others.next().unwrap()), 1).unwrap();
    }
    assert!(table.len() > PLACES / 2 && table.get(&key(five)).unwrap().at != before.at);
    for key in [key(five), new(five).reply_key()] {
        let found = table.get(&key).unwrap();
        assert_eq!((found.is_noted(), found.mark(), found.owner()), (true, five as u8, 3));
    }
    assert!(!table.get(&key(crowd(&table, key(five)).next().unwrap())).unwrap().is_noted());
    table.remove(&key(five)).unwrap();
    table.add(&new(five), 1).unwrap();
    assert!(!table.get(&key(five)).unwrap().is_noted());
}

#[test]
fn both_directions_are_found_and_removed() {
    let table = flows(10);
    let added = new(5);
    table.add(&added, 1).unwrap();
    let found = table.get(&added.key).unwrap();
    assert_eq!((found.to, found.output(), found.owner()), (added.to, 5, 3));
    assert!(!found.is_reply());
    let reply = table.get(&added.reply_key()).unwrap();
    assert!(reply.is_reply());
    assert_eq!((reply.to, reply.output()), (added.key.tuple.reversed(), 7));
    assert!(table.get(&Key { kind: 1, ..added.key }).is_none());
    assert_eq!(table.add(&added, 1).unwrap_err(), Refused::Exists);
    assert!(table.remove(&added.reply_key()).unwrap().is_reply());
    assert!(table.get(&added.key).is_none() && table.get(&added.reply_key()).is_none());
    assert!(table.remove(&added.key).is_none());
    assert!(table.is_empty());
}

#[test]
fn two_flows_never_have_the_same_replies() {
    let table = flows(10);
    let first = new(1);
    table.add(&first, 0).unwrap();
    let mut second = new(4);
    second.to = first.to;
    assert_eq!(table.add(&second, 0).unwrap_err(), Refused::ReplyTaken);
    assert_eq!(table.len(), 1);
    // A flow whose packets are another one's replies leaves nothing behind.
    let mut third = new(7);
    third.key = first.reply_key();
    assert_eq!(table.add(&third, 0).unwrap_err(), Refused::Exists);
    assert!(table.get(&third.reply_key()).is_none());
}

#[test]
fn a_flow_to_itself_has_one_entry() {
    let table = flows(10);
    let tuple = Tuple { src: 1, dst: 1, ports: 0x0007_0007 };
    let itself = New { key: Key { tuple, kind: 1 }, to: tuple, outputs: [3, 5], ..new(0) };
    // The first packet goes forward, those that come later are replies.
    assert_eq!(table.add(&itself, 0).unwrap().output(), 3);
    assert_eq!(table.get(&itself.key).unwrap().output(), 5);
    assert_eq!(table.add(&itself, 0).unwrap_err(), Refused::Exists);
    assert!(table.remove(&itself.key).is_some() && table.is_empty());
}

#[test]
fn the_limit_holds() {
    let most = if cfg!(miri) { 10 } else { 100 };
    let table = flows(most as usize);
    for n in 0..most {
        table.add(&new(n), 0).unwrap();
    }
    assert_eq!(table.add(&new(most), 0).unwrap_err(), Refused::Full);
    table.set_limit(most as usize + 1);
    table.add(&new(most), 0).unwrap();
    assert_eq!(table.len(), most as usize + 1);
}

#[test]
#[cfg(not(miri))] // Nothing here is unsafe, and there it takes minutes.
fn many_are_kept_while_segments_split() {
    let many = 300_000;
    let table = flows(many as usize);
    for n in 0..many {
        table.add(&new(n), 0).unwrap();
        if n % 3 == 0 {
            assert!(table.remove(&key(n / 3 * 2)).is_some() || n / 3 * 2 >= n, "{n}");
        }
    }
    let left: Vec<u32> = (0..many).filter(|n| table.get(&key(*n)).is_some()).collect();
    assert_eq!(left.len(), table.len());
    for n in left {
        let found = table.get(&key(n)).unwrap();
        assert_eq!((found.to, found.output()), (new(n).to, n as u8));
        assert!(table.get(&new(n).reply_key()).unwrap().is_reply());
    }
    let mut seen = 0;
    table.for_each(|_, _| seen += 1);
    assert_eq!(seen, 2 * table.len());
}

#[test]
#[cfg(not(miri))]
fn segments_are_filled_well() {
    let table = flows(1 << 20);
    for n in 0..1 << 20 {
        table.add(&new(n), 0).unwrap();
    }
    let full = (2 * table.len() * 32) as f64 / table.bytes() as f64;
    assert!(full > 0.4, "{full}");
}

#[test]
#[cfg(not(miri))] // Nothing here is unsafe, and there it takes minutes.
fn looking_over_sees_each_flow_once() {
    let many = 20_000;
    let table = flows(many as usize);
    for n in 0..many {
        table.add(&new(n), n / 100).unwrap();
    }
    let mut seen: HashMap<u32, u32> = HashMap::new();
    let (mut cursor, mut rounds) = (Cursor::default(), 0);
    while !table.look_over(
        &mut cursor,
        100,
        (1000, 0),
        |_| true,
        |both| {
            assert!(both.reply.is_some());
            *seen.entry(both.key.tuple.src).or_default() += 1;
        },
    ) {
        rounds += 1;
        assert!(rounds < 100_000);
    }
    assert_eq!(seen.len(), many as usize);
    assert!(seen.values().all(|times| *times == 1));
    // Half of the parts, the older half of the flows.
    let now = many / 100;
    let removed = |mine: fn(usize) -> bool| {
        let mut removed = 0;
        while !table.look_over(&mut Cursor::default(), usize::MAX, (now, now / 2), mine, |both| {
            removed += u32::from(table.remove(&both.key).is_some());
        }) {}
        removed
    };
    let (even, odd) = (removed(|part| part % 2 == 0), removed(|part| part % 2 == 1));
    assert!(even > 0 && odd > 0);
    assert!((many / 2..=many / 2 + 100).contains(&(even + odd)));
    assert_eq!(table.len() as u32, many - even - odd);
}

#[test]
fn what_was_seen_is_removed_unless_it_is_gone_or_has_changed() {
    let table = flows(10);
    for n in 1..=3 {
        table.add(&new(n), 0).unwrap();
    }
    let mut seen = Vec::new();
    table.look_over(
        &mut Cursor::default(),
        usize::MAX,
        (9, 9),
        |_| true,
        |both| {
            seen.push(*both);
        },
    );
    seen.sort_unstable_by_key(|both| both.key.tuple.src);
    let [one, two, three] = seen[..] else { panic!("{seen:?}") };
    // Another flow has come to the place of one, with the same key.
    table.remove(&one.key).unwrap();
    table.add(&New { to: Tuple { src: 7, ..new(1).to }, ..new(1) }, 0).unwrap();
    assert!(!table.remove_seen(&one, |_| true));
    // Packets of another one have come, or a reply.
    table.touch(&two.reply.unwrap(), 5, 0, 0);
    assert!(!table.remove_seen(&two, |both| both.idle(9) >= 9));
    assert_eq!(table.len(), 3);
    assert!(table.remove_seen(&three, |both| both.idle(9) >= 9));
    assert!(!table.remove_seen(&three, |_| true));
    assert!(table.get(&three.key).is_none() && table.get(&new(3).reply_key()).is_none());
    assert!(table.get(&two.key).is_some() && table.get(&one.key).is_some());
    assert_eq!(table.len(), 2);
}

#[test]
fn time_and_flags() {
    let table = flows(10);
    let found = table.add(&new(1), TIME_MASK).unwrap();
    assert_eq!(found.idle(3), 4);
    // A thread whose clock is behind.
    assert_eq!(found.idle(TIME_MASK - 1), 0);
    table.touch(&found, 3, 0, 5);
    assert_eq!(table.get(&new(1).key).unwrap().idle(3), 4);
    table.touch(&found, 3, 2, 5);
    let found = table.get(&new(1).key).unwrap();
    assert_eq!((found.idle(3), found.flags()), (0, 2));
}

/// Threads add the same flows at once, and remove them by either key: no half of one stays, and none is
/// counted twice.
#[test]
fn flows_are_added_and_removed_whole() {
    let many = if cfg!(miri) { 15 } else { 20_000 };
    let table = flows(100_000);
    let both_ways = |remove: bool| {
        std::thread::scope(|scope| {
            for thread in 0..3u32 {
                let table = &table;
                scope.spawn(move || {
                    for n in 0..many {
                        let new = new(n);
                        if !remove {
                            // As a translator does whose patterns give away each reply to the newest
                            // flow.
                            while let Err(Refused::ReplyTaken) = table.add(&new, 0) {
                                table.remove(&new.reply_key());
                            }
                        } else if thread == 1 {
                            table.remove(&new.reply_key());
                        } else {
                            table.remove(&new.key);
                        }
                    }
                });
            }
        });
    };
    both_ways(false);
    assert_eq!(table.len(), many as usize);
    for n in 0..many {
        assert!(table.get(&new(n).key).is_some() && table.get(&new(n).reply_key()).is_some(), "{n}");
    }
    both_ways(true);
    assert_eq!(table.len(), 0);
    table.for_each(|key, _| panic!("{key:?} is left"));
}

/// Threads add, remove and find the same keys: whatever is found belongs to its key.
#[test]
#[cfg(not(miri))] // Nothing here is unsafe, and there it takes minutes.
fn what_is_found_belongs_to_its_key() {
    let (keys, times) = (2_000, 200_000);
    let table = flows(100_000);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let table = &table;
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..times {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let n = (random >> 8) % keys;
                    match random >> 28 {
                        0..4 => drop(table.add(&new(n), 0)),
                        4..7 => drop(table.remove(&key(n))),
                        _ => {
                            if let Some(found) = table.get(&key(n)) {
                                assert_eq!((found.to, found.output()), (new(n).to, n as u8));
                            }
                            if let Some(found) = table.get(&new(n).reply_key()) {
                                assert_eq!(found.to, key(n).tuple.reversed());
                            }
                        }
                    }
                }
            });
        }
    });
    for n in 0..keys {
        table.remove(&key(n));
    }
    assert_eq!(table.len(), 0);
}
