//! Routes and lookups against a list that is searched from end to end, alone and while the table changes.

use super::*;
use crate::NO_ROUTE;
use proptest::prelude::*;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

fn p(text: &str) -> Prefix6 {
    text.parse().unwrap()
}

fn a(text: &str) -> u128 {
    text.parse::<std::net::Ipv6Addr>().unwrap().to_bits()
}

/// The reference: a list that is searched from end to end.
#[derive(Default)]
struct Naive(Vec<(Prefix6, u32)>);

impl Naive {
    fn insert(&mut self, prefix: Prefix6, hop: u32) -> Option<u32> {
        let old = self.remove(prefix);
        self.0.push((prefix, hop));
        old
    }
    fn remove(&mut self, prefix: Prefix6) -> Option<u32> {
        let at = self.0.iter().position(|r| r.0 == prefix)?;
        Some(self.0.swap_remove(at).1)
    }
    fn route(&self, addr: u128) -> Option<(Prefix6, u32)> {
        self.0.iter().filter(|r| r.0.contains(addr)).max_by_key(|r| r.0.len()).copied()
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes: each route writes nodes of 256 entries")]
fn nesting_of_every_length() {
    let t = Lpm6::new().unwrap();
    let r = t.reader();
    let addr = a("2001:db8:1234:5678:9abc:def0:1234:5678");
    assert_eq!(r.lookup(addr), NO_ROUTE);
    let lens: Vec<u8> = (0..=128).collect();
    for &len in &lens {
        let prefix = Prefix6::new(addr, len).unwrap();
        t.insert(prefix, 1000 + u32::from(len)).unwrap();
        assert_eq!(r.lookup(addr), 1000 + u32::from(len));
        assert_eq!(t.route(addr), Some((prefix, 1000 + u32::from(len))));
    }
    assert_eq!(r.lookup(addr ^ 1), 1127);
    let all: Vec<Prefix6> = t.routes().iter().map(|r| r.0).collect();
    assert!(all.len() == lens.len() && all.is_sorted());
    for &len in lens.iter().rev() {
        assert_eq!(r.lookup(addr), 1000 + u32::from(len));
        assert_eq!(t.remove(Prefix6::new(addr, len).unwrap()), Some(1000 + u32::from(len)));
    }
    assert_eq!(r.lookup(addr), NO_ROUTE);
    assert_eq!((t.len(), t.working_set()), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes: each route writes nodes of 256 entries")]
fn limits_and_answers() {
    let t = Lpm6::new().unwrap();
    assert_eq!(t.insert(p("2001:db8::/48"), MAX_HOP), Ok(None));
    assert_eq!(t.reader().lookup(a("2001:db8::1")), MAX_HOP);
    assert_eq!(t.insert(p("2001:db8::/48"), 0), Ok(Some(MAX_HOP)));
    assert_eq!(t.reader().lookup(a("2001:db8::1")), 0);
    assert_eq!(t.insert(p("2001:db8::/48"), MAX_HOP + 1), Err(LpmError::HopTooLarge(MAX_HOP + 1)));
    let routes = [(p("2001:db8::/48"), 7), (p("1::/64"), 1), (p("2::/12"), MAX_HOP + 1)];
    assert_eq!(t.load(routes), Err(LpmError::HopTooLarge(MAX_HOP + 1)));
    assert_eq!(t.routes(), [(p("2001:db8::/48"), 0)]);
    assert_eq!((t.reader().lookup(a("1::1")), t.reader().lookup(a("2001:db8::1"))), (NO_ROUTE, 0));
    assert_eq!(t.remove(p("2001:db8::/47")), None);
    t.load([(p("::/0"), 1), (p("::/0"), 2), (p("1::/128"), 3)]).unwrap();
    assert_eq!((t.reader().lookup(a("9::1")), t.reader().lookup(a("1::"))), (2, 3));
    t.clear();
    assert_eq!((t.len(), t.reader().lookup(a("1::")), t.working_set()), (0, NO_ROUTE, 0));
    t.insert(p("1::/64"), 5).unwrap();
    assert_eq!(t.reader().lookup(a("1::1")), 5);
}

#[test]
fn vectors_of_every_length() {
    let t = Lpm6::new().unwrap();
    let routes: Vec<(Prefix6, u32)> = (0..if cfg!(miri) { 3 } else { 100u32 })
        .map(|i| (Prefix6::new(u128::from(i) << 96 | 1 << 125, 24 + (i % 90) as u8).unwrap(), i))
        .collect();
    t.load(routes.iter().copied()).unwrap();
    let addrs: Vec<u128> = (0..300u128).map(|i| (i * 7 % 130) << 96 | 1 << 125).collect();
    let r = t.reader();
    let best = |a: &u128| routes.iter().filter(|(p, _)| p.contains(*a)).max_by_key(|(p, _)| p.len());
    let want: Vec<u32> = addrs.iter().map(|a| best(a).map_or(NO_ROUTE, |r| r.1)).collect();
    for n in if cfg!(miri) { vec![1, 65] } else { vec![0, 1, 2, 63, 64, 65, 127, 128, 129, 300] } {
        let mut hops = vec![77; 300];
        r.lookup_many(&addrs[..n], &mut hops);
        assert_eq!(hops[..n], want[..n]);
        assert!(hops[n..].iter().all(|h| *h == 77));
    }
}

/// A node with many different entries is a block, which becomes a line again.
#[test]
#[cfg_attr(miri, ignore = "takes minutes: each route writes nodes of 256 entries")]
fn nodes_grow_and_shrink() {
    let t = Lpm6::new().unwrap();
    let r = t.reader();
    let route = |i: u32| Prefix6::new(a("2001:db8::") | u128::from(i) << 88, 40).unwrap();
    let most = 256;
    let check = |n: u32| {
        for i in 0..most {
            let want = if i < n { i } else { NO_ROUTE };
            assert_eq!(r.lookup(route(i).first() | 5), want, "{i} of {n}");
        }
    };
    let mut sizes = Vec::new();
    for n in 0..=most {
        check(n);
        sizes.push(t.working_set());
        if n < most {
            t.insert(route(n), n).unwrap();
        }
    }
    // A far node above it.
    assert_eq!((sizes[0], sizes[12], sizes[13], sizes[most as usize]), (0, 2 * 64, 64 + 1024, 64 + 1024));
    for n in (0..most).rev() {
        t.remove(route(n)).unwrap();
        check(n);
    }
    assert_eq!(t.working_set(), 0);
}

/// A node with few routes in its children is one with these, for 16 bits; also while what is around it, above
/// it and below it changes.
#[test]
fn far_nodes_come_and_go() {
    let most = if cfg!(miri) { 3 } else { 40 };
    let t = Lpm6::new().unwrap();
    let r = t.reader();
    let mut naive = Naive::default();
    let base = a("2001:db8::");
    let around =
        [p("::/0"), p("2001:db8::/20"), p("2001:db8::/36"), p("2001:db8:8000::/33"), p("2001:db8:6230::/44")];
    let route = |n: u128| {
        let place = (n * 0x6233) & 0xffff;
        // Some go further, and some are not of whole bytes.
        let len = [48, 47, 48, 64, 42, 48, 56, 41][n as usize % 8];
        Prefix6::new(base | place << 80 | n << 64, len).unwrap()
    };
    let mut sizes = Vec::new();
    let step = |naive: &mut Naive, prefix: Prefix6, hop: Option<u32>| {
        match hop {
            Some(hop) => assert_eq!(t.insert(prefix, hop), Ok(naive.insert(prefix, hop))),
            None => assert_eq!(t.remove(prefix), naive.remove(prefix)),
        }
        let mut addrs = Vec::new();
        for (p, _) in &naive.0 {
            addrs.extend([p.first(), p.last(), p.first().wrapping_sub(1), p.last().wrapping_add(1)]);
        }
        addrs.extend([prefix.first(), prefix.last()]);
        let mut hops = vec![0; addrs.len()];
        r.lookup_many(&addrs, &mut hops);
        for (addr, hop) in addrs.iter().zip(hops) {
            assert_eq!(hop, naive.route(*addr).map_or(NO_ROUTE, |w| w.1), "{addr:x} after {prefix}");
        }
        t.working_set()
    };
    for n in 0..most {
        sizes.push(step(&mut naive, route(n), Some(n as u32 % 3)));
        let prefix = around[n as usize % around.len()];
        step(&mut naive, prefix, (n % 3 > 0).then_some(n as u32 % 4));
        step(&mut naive, route(n / 2), Some(n as u32 % 2));
    }
    // One route: the root's node and that at 32 bits, each with its child.
    assert_eq!(sizes[0], 2 * 64);
    for n in (0..most).map(|n| (n * 7 + 3) % most) {
        step(&mut naive, route(n), None);
        let prefix = around[n as usize % around.len()];
        step(&mut naive, prefix, (n % 2 > 0).then_some(n as u32 % 3));
    }
    for prefix in around {
        step(&mut naive, prefix, None);
    }
    assert_eq!((naive.0.len(), t.len(), t.working_set()), (0, 0, 0));
}

/// A far node has one line or two, as its routes need.
#[test]
fn far_nodes_grow_and_shrink() {
    let most = if cfg!(miri) { 6 } else { 10 };
    let t = Lpm6::new().unwrap();
    let r = t.reader();
    // Each has routes to neither side.
    let route = |n: u32| Prefix6::new(a("2001:db8::") | u128::from(2 * n + 1) << 80, 48).unwrap();
    let check = |n: u32| {
        for i in 0..most {
            let want = if i < n { i } else { NO_ROUTE };
            assert_eq!(r.lookup(route(i).last()), want, "{i} of {n}");
            assert_eq!(r.lookup(route(i).last() + 1), NO_ROUTE, "behind {i} of {n}");
        }
        t.working_set()
    };
    let mut sizes = vec![check(0)];
    for n in 0..most {
        t.insert(route(n), n).unwrap();
        sizes.push(check(n + 1));
    }
    // Two runs for each, and one: at most 11 are in one line. That of the root's node is another one.
    let want = (0..=most).map(|n| if n == 0 { 0 } else { 64 * if n <= 5 { 2 } else { 3 } });
    assert_eq!(sizes, want.collect::<Vec<_>>());
    for n in (0..most).rev() {
        t.remove(route(n)).unwrap();
        sizes[n as usize] = check(n);
    }
    let want = (0..=most).map(|n| if n == 0 { 0 } else { 64 * if n <= 3 { 2 } else { 3 } });
    assert_eq!(sizes[..most as usize], want.take(most as usize).collect::<Vec<_>>());
}

/// Children whose runs join those around them, and do no more when these change: at once, in many places.
#[test]
#[cfg_attr(miri, ignore = "takes minutes: each route writes nodes of 256 entries")]
fn far_nodes_that_end_at_once_have_room() {
    let t = Lpm6::new().unwrap();
    let r = t.reader();
    let around = |n: u128| Prefix6::new(a("2001:d00::") | n << 96, 36).unwrap();
    let within = |n: u128, child: u128, place: u128| {
        Prefix6::new(around(n).first() | child << 88 | (2 * place) << 80, 48).unwrap()
    };
    let (places, children) = (250u128, 10);
    let all = (0..places).flat_map(|n| (0..children).flat_map(move |c| (0..128).map(move |p| (n, c, p))));
    let routes: Vec<(Prefix6, u32)> = all.map(|(n, c, p)| (within(n, c, p), 1)).collect();
    t.load((0..places).map(|n| (around(n), 1))).unwrap();
    t.load(routes).unwrap();
    for hop in [2, 1, 3] {
        t.load((0..places).map(|n| (around(n), hop))).unwrap();
        for n in [0, 7, places - 1] {
            assert_eq!(r.lookup(around(n).last()), hop);
            assert_eq!(r.lookup(within(n, 9, 127).first()), 1);
            assert_eq!(r.lookup(within(n, 9, 127).last() + 1), hop, "{n}");
        }
    }
    for n in 0..places {
        t.remove(around(n)).unwrap();
        assert_eq!((r.lookup(within(n, 3, 5).last() + 1), r.lookup(within(n, 3, 5).last())), (NO_ROUTE, 1));
    }
}

/// Room is made for what nodes need, if the table has none for the most that so many nodes could need.
#[test]
#[cfg_attr(miri, ignore = "takes minutes: a million nodes, and there is no such table")]
fn many_routes_at_once_have_room() {
    let t = Lpm6::new().unwrap();
    // Three nodes for each alone, and those above.
    let route = |n: u32| {
        let top = u128::from(n.wrapping_mul(0x9e37_79b1)) << 80 | 0x2a << 120;
        Prefix6::new(top | u128::from(n) << 64, 64).unwrap()
    };
    let count = 400_000;
    t.load((0..count).map(|n| (route(n), n % 1000))).unwrap();
    assert_eq!(t.len(), count as usize);
    let r = t.reader();
    let check = |more: u32| {
        for n in (0..count).step_by(997) {
            assert_eq!(r.lookup(route(n).last()), n % 1000 + more);
        }
    };
    check(0);
    // What is there needs no more.
    t.load((0..count).map(|n| (route(n), n % 1000 + 7))).unwrap();
    check(7);
}

/// Routes that are like the one around them are told apart from it when that one changes.
#[test]
#[cfg_attr(miri, ignore = "takes minutes: each route writes nodes of 256 entries")]
fn routes_with_the_hop_of_the_one_around_them_keep_it() {
    let most = 40;
    for (around, base, len, step) in
        [("::/0", a("2001::"), 24, 104), ("2001:d00::/24", a("2001:db8::"), 48, 80)]
    {
        let t = Lpm6::new().unwrap();
        let r = t.reader();
        let around = p(around);
        let route = |n: u32| Prefix6::new(base | u128::from(2 * n + 1) << step, len).unwrap();
        let behind = |n: u32| route(n).last() + 1;
        t.insert(around, 1).unwrap();
        // One with another hop makes the node.
        t.insert(route(0), 5).unwrap();
        for n in 1..most {
            t.insert(route(n), 1).unwrap();
            for hop in [Some(2), None, Some(1)] {
                match hop {
                    Some(hop) => drop(t.insert(around, hop).unwrap()),
                    None => drop(t.remove(around)),
                }
                for i in 0..=n {
                    let own = if i == 0 { 5 } else { 1 };
                    let want = (own, hop.unwrap_or(NO_ROUTE));
                    assert_eq!((r.lookup(route(i).last()), r.lookup(behind(i))), want, "{i} of {n}, {hop:?}");
                }
            }
        }
    }
}

/// What comes and goes takes no more memory than it needs at one time.
#[test]
fn memory_is_used_again() {
    let t = Lpm6::new().unwrap();
    let _reader = t.reader();
    let (rounds, routes) = if cfg!(miri) { (2, 2) } else { (3000, 20) };
    let mut made = 0;
    for round in 0..rounds {
        for i in 0..routes {
            t.insert(Prefix6::new(i << 120 | round << 64, 64 + (round % 60) as u8).unwrap(), 1).unwrap();
        }
        t.routes().iter().for_each(|(prefix, _)| assert_eq!(t.remove(*prefix), Some(1)));
        if round == rounds / 2 {
            made = t.control().space.made();
        }
    }
    assert_eq!((t.working_set(), t.control().space.made()), (0, made));
}

#[test]
fn a_reader_inside_holds_nodes_back() {
    let t = Lpm6::new().unwrap();
    t.insert(p("2001:db8::/64"), 1).unwrap();
    let r = t.reader();
    let entered = r.epoch.enter(&t.shared.epochs);
    let old = t.shared.nodes().root(0x2001);
    let read = || {
        let mut entry = old;
        for place in [0x0db8, 0, 0] {
            assert_ne!(entry & FAR, 0);
            entry = t.shared.nodes().far(entry, place);
        }
        entry
    };
    assert_eq!(read(), 2);
    t.remove(p("2001:db8::/64")).unwrap();
    for i in 0..if cfg!(miri) { 3 } else { 200u128 } {
        t.insert(Prefix6::new(i << 100, 64).unwrap(), 9).unwrap();
    }
    // The nodes that it knows are as they were.
    assert_eq!((read(), r.shared.nodes().root(0x2001)), (2, 0));
    drop(entered);
}

fn prefix() -> impl Strategy<Value = Prefix6> {
    // Few addresses, so that prefixes nest.
    (addr(), prop_oneof![0..=20u8, 16..=72u8, 0..=128u8]).prop_map(|(a, len)| Prefix6::new(a, len).unwrap())
}

fn addr() -> impl Strategy<Value = u128> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0x80), Just(0xff), any::<u8>()];
    prop::collection::vec(byte, 4..=4).prop_map(|b| {
        let mut bytes = [0u8; 16];
        // A few bytes vary: the first, and those behind 2001:db8.
        (bytes[0], bytes[1], bytes[2], bytes[3]) = (0x20 | b[0] & 1, 1, 0x0d, 0xb8);
        (bytes[5], bytes[6], bytes[15]) = (b[1], b[2] & 0x81, b[3]);
        u128::from_be_bytes(bytes)
    })
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Prefix6, u32),
    Remove(Prefix6),
    RemoveAt(prop::sample::Index),
    Load(Vec<(Prefix6, u32)>),
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (prefix(), 0..6u32).prop_map(|(p, h)| Op::Insert(p, h)),
        1 => prefix().prop_map(Op::Remove),
        5 => any::<prop::sample::Index>().prop_map(Op::RemoveAt),
        1 => prop::collection::vec((prefix(), 0..6u32), 0..40).prop_map(Op::Load),
        1 => Just(Op::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes: each route writes nodes of 256 entries")]
    fn same_as_naive(
        ops in prop::collection::vec(op(), 1..60),
        addrs in prop::collection::vec(addr(), 40),
    ) {
        let t = Lpm6::new().unwrap();
        let r = t.reader();
        let mut naive = Naive::default();
        for op in ops {
            match op {
                Op::Insert(p, h) => prop_assert_eq!(t.insert(p, h), Ok(naive.insert(p, h))),
                Op::Remove(p) => prop_assert_eq!(t.remove(p), naive.remove(p)),
                Op::RemoveAt(at) => {
                    if !naive.0.is_empty() {
                        let p = naive.0[at.index(naive.0.len())].0;
                        prop_assert_eq!(t.remove(p), naive.remove(p));
                    }
                }
                Op::Load(routes) => {
                    t.load(routes.iter().copied()).unwrap();
                    for (p, h) in routes {
                        naive.insert(p, h);
                    }
                }
                Op::Clear => {
                    t.clear();
                    naive.0.clear();
                }
            }
            prop_assert_eq!(t.len(), naive.0.len());
            // Also the first and the last address of routes, and those beside them.
            let mut all = addrs.clone();
            for (p, _) in &naive.0 {
                all.extend([p.first(), p.last(), p.first().wrapping_sub(1), p.last().wrapping_add(1)]);
            }
            let mut hops = vec![0; all.len()];
            r.lookup_many(&all, &mut hops);
            for (addr, hop) in all.iter().zip(hops) {
                let want = naive.route(*addr);
                prop_assert_eq!(hop, want.map_or(NO_ROUTE, |w| w.1), "{:x}", addr);
                prop_assert_eq!(t.route(*addr), want);
            }
        }
        naive.0.sort();
        prop_assert_eq!(t.routes(), naive.0);
    }
}

/// Readers beside a writer that goes through a list of states again and again: an answer is that of one of
/// the states that were there during the lookup.
#[test]
#[cfg_attr(miri, ignore = "takes minutes: each route writes nodes of 256 entries")]
fn every_answer_was_right_at_some_moment() {
    let (kept, rounds) = (200, 4000);
    let mut x = 12345u64;
    let mut random = move |n: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    };
    let mut changes = Vec::new();
    for _ in 0..kept {
        let base = a("2001:db8::") | u128::from(random(4)) << 80 | u128::from(random(3)) << 70;
        let lens = [0, 3, 16, 20, 32, 40, 46, 47, 48, 52, 58, 64, 128];
        let len = lens[random(13) as usize];
        changes.push((Prefix6::new(base, len).unwrap(), (random(3) > 0).then(|| random(4) as u32)));
    }
    let addrs: Vec<u128> = (0..12).map(|i| a("2001:db8::") | (i & 3) << 80 | (i >> 2) << 70).collect();
    // The right answers after each change.
    let (mut naive, mut right) = (Naive::default(), Vec::new());
    let apply = |naive: &mut Naive, (prefix, hop): (Prefix6, Option<u32>)| match hop {
        Some(hop) => drop(naive.insert(prefix, hop)),
        None => drop(naive.remove(prefix)),
    };
    // Once around, so that the first state of a round is the last one's.
    changes.iter().for_each(|change| apply(&mut naive, *change));
    let start = naive.0.clone();
    for change in &changes {
        right.push(addrs.iter().map(|a| naive.route(*a).map_or(NO_ROUTE, |r| r.1)).collect::<Vec<_>>());
        apply(&mut naive, *change);
    }
    let t = Lpm6::new().unwrap();
    t.load(start).unwrap();
    // How many changes have begun, and how many are done.
    let (begun, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let reader = t.reader();
            let (addrs, right, begun, done, stop) = (&addrs, &right, &begun, &done, &stop);
            scope.spawn(move || {
                let mut hops = vec![0; addrs.len()];
                while !stop.load(Acquire) {
                    let from = done.load(Acquire);
                    reader.lookup_many(addrs, &mut hops);
                    let to = begun.load(Acquire);
                    if to - from >= right.len() {
                        continue;
                    }
                    for (i, hop) in hops.iter().enumerate() {
                        assert!(
                            (from..=to).any(|state| right[state % right.len()][i] == *hop),
                            "{:x}: {hop} between {from} and {to}",
                            addrs[i]
                        );
                    }
                }
            });
        }
        for round in 0..rounds {
            let (prefix, hop) = changes[round % changes.len()];
            begun.store(round + 1, Release);
            match hop {
                Some(hop) => drop(t.insert(prefix, hop).unwrap()),
                None => drop(t.remove(prefix)),
            }
            done.store(round + 1, Release);
        }
        stop.store(true, Release);
    });
}
