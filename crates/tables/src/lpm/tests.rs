//! Routes and lookups against a list that is searched from end to end, alone and while the table changes.

use super::*;
use crate::gather::EXPANDED;
use proptest::prelude::*;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Release;

fn p(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn a(text: &str) -> u32 {
    text.parse::<std::net::Ipv4Addr>().unwrap().to_bits()
}

/// The reference: a list that is searched from end to end.
#[derive(Default)]
struct Naive(Vec<(Prefix, u32)>);

impl Naive {
    fn insert(&mut self, prefix: Prefix, hop: u32) -> Option<u32> {
        let old = self.remove(prefix);
        self.0.push((prefix, hop));
        old
    }

    fn remove(&mut self, prefix: Prefix) -> Option<u32> {
        let at = self.0.iter().position(|r| r.0 == prefix)?;
        Some(self.0.swap_remove(at).1)
    }

    fn route(&self, addr: u32) -> Option<(Prefix, u32)> {
        self.0.iter().filter(|r| r.0.contains(addr)).max_by_key(|r| r.0.len()).copied()
    }
}

/// A table that never has a tree.
fn lines() -> Lpm {
    Lpm::with_few(0).unwrap()
}

/// For tests of both forms of a table: never a tree, a tree while there are few routes, mostly a tree.
const FORMS: [usize; 3] = [0, 12, FEW];

#[test]
fn nesting_of_every_length() {
    for few in FORMS {
        nesting(&Lpm::with_few(few).unwrap());
    }
}

fn nesting(t: &Lpm) {
    let r = t.reader();
    let addr = a("10.20.30.40");
    assert_eq!(r.lookup(addr), NO_ROUTE);
    let lens: Vec<u8> = if cfg!(miri) { (21..=32).collect() } else { (0..=32).collect() };
    for &len in &lens {
        t.insert(Prefix::new(addr, len).unwrap(), 100 + u32::from(len)).unwrap();
        assert_eq!(r.lookup(addr), 100 + u32::from(len));
    }
    assert_eq!(r.lookup(addr ^ 1), 131);
    for &len in lens.iter().rev() {
        assert_eq!(r.lookup(addr), 100 + u32::from(len));
        assert_eq!(t.remove(Prefix::new(addr, len).unwrap()), Some(100 + u32::from(len)));
    }
    assert_eq!(r.lookup(addr), NO_ROUTE);
    assert_eq!((t.len(), t.groups()), (0, 0));
}

#[test]
fn limits_and_answers() {
    let t = lines();
    assert_eq!(t.insert(p("10.0.0.0/24"), MAX_HOP), Ok(None));
    assert_eq!(t.insert(p("10.0.0.0/24"), 0), Ok(Some(MAX_HOP)));
    assert_eq!(t.insert(p("10.0.0.0/24"), MAX_HOP + 1), Err(LpmError::HopTooLarge(MAX_HOP + 1)));
    assert_eq!(
        t.load([(p("1.0.0.0/24"), 1), (p("2.0.0.0/24"), NO_ROUTE)]),
        Err(LpmError::HopTooLarge(NO_ROUTE))
    );
    assert_eq!((t.len(), t.get(p("10.0.0.0/24")), t.get(p("10.0.0.0/25"))), (1, Some(0), None));
    assert_eq!(t.reader().lookup(a("10.0.0.255")), 0);
    assert_eq!(t.remove(p("10.0.0.0/23")), None);
    assert!(!t.is_empty());
}

#[test]
fn default_route_touches_no_table() {
    let t = lines();
    t.insert(Prefix::DEFAULT, 7).unwrap();
    t.insert(p("10.0.0.1/32"), 8).unwrap();
    let r = t.reader();
    let mut hops = [0; 3];
    r.lookup_many(&[0, a("10.0.0.1"), a("10.0.0.2")], &mut hops);
    assert_eq!(hops, [7, 8, 7]);
    assert_eq!(t.route(5), Some((Prefix::DEFAULT, 7)));
    t.remove(Prefix::DEFAULT);
    assert_eq!(r.lookup(a("10.0.0.2")), NO_ROUTE);
}

#[test]
fn vectors_of_every_length() {
    for few in [0, FEW] {
        vectors(&Lpm::with_few(few).unwrap());
    }
}

fn vectors(t: &Lpm) {
    let routes = if cfg!(miri) { 70 } else { 200 };
    t.load((0..routes).map(|i| (Prefix::new(i << 8, 24).unwrap(), i))).unwrap();
    t.load(
        (0..routes).step_by(if cfg!(miri) { 60 } else { 3 }).map(|i| (Prefix::host(i << 8 | 1), 1000 + i)),
    )
    .unwrap();
    let kernels = Kernel::usable().into_iter().flat_map(|kernel| [(kernel, false), (kernel, true)]);
    for (kernel, large) in kernels {
        let r = t.reader_with(kernel);
        t.shared.large.store(large, Relaxed);
        let addrs: Vec<u32> = (0..routes).map(|i| i << 8 | (i & 1)).collect();
        for n in if cfg!(miri) { vec![1, 65] } else { (0..200).collect() } {
            let mut hops = vec![12345; n + 1];
            r.lookup_many(&addrs[..n], &mut hops);
            for (i, &hop) in hops[..n].iter().enumerate() {
                let want = if i & 1 == 1 && i % 3 == 0 && !cfg!(miri) { 1000 + i } else { i };
                assert_eq!(hop, want as u32);
            }
            assert_eq!(hops[n], 12345);
        }
        let mut short = [0; 2];
        r.lookup_many(&addrs, &mut short);
        assert_eq!(short, [0, 1]);
    }
}

/// Lookups in large tables begin with prefetches: a table becomes large by its routes, and small when it is
/// flushed.
#[test]
#[cfg(not(miri))]
fn a_table_of_many_routes_is_large() {
    let t = lines();
    let large = || t.shared.large.load(Relaxed);
    t.load((0..16_383).map(|i| (Prefix::new(i << 13, 24).unwrap(), i))).unwrap();
    assert!(!large());
    t.insert(p("10.0.0.0/26"), 5).unwrap();
    assert!(large());
    let addrs = [0, 1 << 13 | 9, 100 << 13, a("10.0.0.63"), a("10.0.0.64"), 1 << 12, a("200.1.2.3")];
    for kernel in Kernel::usable() {
        let mut hops = [0; 7];
        t.reader_with(kernel).lookup_many(&addrs, &mut hops);
        assert_eq!(hops, [0, 1, 100, 5, NO_ROUTE, NO_ROUTE, NO_ROUTE], "{}", kernel.name());
    }
    t.clear();
    assert!(!large());
    t.load((0..16_384).map(|i| (Prefix::new(i << 13, 24).unwrap(), i))).unwrap();
    assert!(large());
}

/// Next hops of 25 bits, the highest bits of a group, and the default route, with every kernel.
#[test]
fn widest_values() {
    for few in FORMS {
        widest(&Lpm::with_few(few).unwrap());
    }
}

fn widest(t: &Lpm) {
    t.load((0..64u32).map(|i| (Prefix::new(i << 26, 24).unwrap(), MAX_HOP - i))).unwrap();
    t.insert(Prefix::host(u32::MAX), MAX_HOP).unwrap();
    let addrs: Vec<u32> = (0..64).map(|i| i << 26).chain([u32::MAX, u32::MAX - 1, 1 << 25]).collect();
    let want: Vec<u32> = (0..64).map(|i| MAX_HOP - i).chain([MAX_HOP, 5, 5]).collect();
    t.insert(Prefix::DEFAULT, 5).unwrap();
    for kernel in Kernel::usable() {
        let mut hops = vec![0; addrs.len()];
        t.reader_with(kernel).lookup_many(&addrs, &mut hops);
        assert_eq!(hops, want, "{}", kernel.name());
    }
    assert_eq!(Kernel::usable()[0], Kernel::SCALAR);
}

#[test]
fn beyond_the_limit_nothing_changes() {
    let t = lines();
    t.control().limit = 3;
    t.load([(p("0.0.0.0/0"), 9), (p("1.0.0.0/16"), 1), (p("1.0.0.1/32"), 2), (p("1.0.1.1/32"), 3)]).unwrap();
    let before = t.routes();
    let long = |i: u32| (Prefix::host(2 << 24 | i << 8), i);
    assert_eq!(t.load((0..2).map(long)), Err(LpmError::TooManyLongPrefixes(3)));
    assert_eq!((t.routes(), t.groups()), (before.clone(), 2));
    t.insert(p("3.0.0.0/25"), 4).unwrap();
    assert_eq!(t.insert(p("4.0.0.0/25"), 5), Err(LpmError::TooManyLongPrefixes(3)));
    assert_eq!((t.get(p("4.0.0.0/25")), t.len(), t.groups()), (None, before.len() + 1, 3));
    // A route that needs no new group can still be inserted, and a group that becomes free is used again.
    t.insert(p("3.0.0.128/25"), 6).unwrap();
    t.insert(p("4.0.0.0/24"), 7).unwrap();
    t.remove(p("1.0.1.1/32"));
    t.insert(p("4.0.0.0/25"), 5).unwrap();
    let mut hops = [0; 6];
    let addrs = ["1.0.0.1", "1.0.1.1", "3.0.0.200", "4.0.0.1", "4.0.0.200", "2.0.0.0"].map(a);
    t.reader().lookup_many(&addrs, &mut hops);
    assert_eq!(hops, [2, 1, 6, 5, 7, 9]);
}

/// The exact limit: one route too many is detected before any is written.
#[test]
#[cfg(not(miri))]
fn too_many_groups_are_refused_at_once() {
    let t = lines();
    t.insert(p("1.0.0.1/32"), 2).unwrap();
    let all = (0..MAX_GROUPS as u32).map(|i| (Prefix::host(1 << 31 | i << 8), 1));
    let error = t.load(all).unwrap_err();
    assert_eq!(error, LpmError::TooManyLongPrefixes(MAX_GROUPS));
    assert_eq!(error.to_string(), "routes longer than /24 in too many different /24s, at most 2031616");
    assert_eq!((t.len(), t.groups(), t.reader().lookup(a("128.0.0.0"))), (1, 1, NO_ROUTE));
}

#[test]
fn load_takes_the_later_and_keeps_order() {
    let t = lines();
    t.load([(p("10.0.0.0/18"), 3), (p("10.0.0.0/20"), 2), (p("10.0.0.0/18"), 1), (p("9.0.0.0/18"), 9)])
        .unwrap();
    assert_eq!(t.routes(), [(p("9.0.0.0/18"), 9), (p("10.0.0.0/18"), 1), (p("10.0.0.0/20"), 2)]);
    t.load([(p("10.0.0.0/18"), 5)]).unwrap();
    assert_eq!(t.reader().lookup(a("10.0.16.0")), 5);
    assert_eq!(t.reader().lookup(a("10.0.0.0")), 2);
}

#[test]
fn groups_come_back() {
    let t = lines();
    let r = t.reader();
    for round in 0..if cfg!(miri) { 4 } else { 5000u32 } {
        let host = Prefix::host(round << 8 | 5);
        t.insert(host, round).unwrap();
        assert_eq!((r.lookup(host.first()), r.lookup(host.first() + 1)), (round, NO_ROUTE));
        t.remove(host);
        assert_eq!(r.lookup(host.first()), NO_ROUTE);
    }
    let control = t.control();
    assert!(control.long_routes.len() <= 2, "{}", control.long_routes.len());
}

#[test]
fn lines_return_from_blocks() {
    let t = lines();
    let r = t.reader();
    t.control().set_blocks(4, 0);
    let lines = if cfg!(miri) { 6 } else { 3000u32 };
    for i in 0..lines {
        t.insert(Prefix::new(i << 13 | 5 << 8, 24).unwrap(), i).unwrap();
    }
    assert!(t.control().blocks() <= 1);
    assert_eq!(t.groups(), 0);
    for i in 0..lines {
        let at = |slot: u32| r.lookup(i << 13 | slot << 8);
        assert_eq!([at(4), at(5), at(6)], [NO_ROUTE, i, NO_ROUTE]);
    }
}

#[test]
fn a_line_with_many_runs_stays_in_its_block() {
    let t = lines();
    t.load((0..32).map(|i| (Prefix::new(7 << 13 | i << 8, 24).unwrap(), i))).unwrap();
    let r = t.reader();
    t.control().set_blocks(64, 0);
    let block = |t: &Lpm| (t.shared.header(7), t.control().blocks());
    let before = block(&t);
    assert_eq!((before.0 & EXPANDED, before.1), (EXPANDED, 1));
    t.insert(p("10.0.0.0/24"), 1).unwrap();
    t.insert(p("11.0.0.0/24"), 1).unwrap();
    assert_eq!(block(&t), before);
    assert_eq!((0..32).map(|i| r.lookup(7 << 13 | i << 8)).collect::<Vec<_>>(), (0..32).collect::<Vec<_>>());
    // Half of the routes fit into the line again.
    for i in 10..32 {
        t.remove(Prefix::new(7 << 13 | i << 8, 24).unwrap());
    }
    t.insert(p("12.0.0.0/24"), 1).unwrap();
    t.insert(p("13.0.0.0/24"), 1).unwrap();
    assert_eq!(t.shared.header(7) & EXPANDED, 0);
    assert_eq!([9, 10, 31].map(|i| r.lookup(7 << 13 | i << 8)), [9, NO_ROUTE, NO_ROUTE]);
}

/// A route can be removed where it is even if its neighbors have the same next hop.
#[test]
fn equal_neighbors_are_removed_alone() {
    let t = lines();
    t.load((0..8).map(|i| (Prefix::new(i << 9, 23).unwrap(), 6))).unwrap();
    let (r, header) = (t.reader(), t.shared.header(0));
    t.remove(p("0.0.4.0/23"));
    assert_eq!((t.shared.header(0), t.control().blocks()), (header, 0));
    assert_eq!([3, 4, 5, 6].map(|i| r.lookup(i << 8)), [6, NO_ROUTE, NO_ROUTE, 6]);
}

#[test]
fn many_routes_are_sorted_as_few_are() {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut routes: Vec<u64> = (0..if cfg!(miri) { 100 } else { 50_000u64 })
        .map(|i| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Many are for the same prefixes.
            (x >> 33 & 0xff_ff00_000f) << 25 | i
        })
        .collect();
    let mut wanted = routes.clone();
    wanted.sort_by_key(|p| p >> 25);
    sort(&mut routes);
    assert!(routes == wanted);
    sort(&mut routes);
    assert!(routes == wanted);
    // In reverse, once with equal ones and once without.
    routes.reverse();
    let mut reversed = routes.clone();
    reversed.sort_by_key(|p| p >> 25);
    sort(&mut routes);
    assert!(routes == reversed);
    routes.dedup_by_key(|p| *p >> 25);
    let distinct = routes.clone();
    routes.reverse();
    sort(&mut routes);
    assert!(routes == distinct);
}

/// The memory of the table's pages.
#[cfg(not(miri))]
fn kilobytes(table: &Lpm) -> usize {
    use std::os::unix::fs::FileExt;
    let first = table.shared.table.as_ptr() as usize / 4096;
    let mut pages = vec![0; (table.shared.table.mask() + 1) * 4 / 4096 * 8];
    std::fs::File::open("/proc/self/pagemap").unwrap().read_exact_at(&mut pages, first as u64 * 8).unwrap();
    let (pages, _) = pages.as_chunks::<8>();
    pages.iter().filter(|page| u64::from_le_bytes(**page) >> 63 == 1).count() * 4
}

#[test]
#[cfg(not(miri))]
fn a_small_table_is_small() {
    let texts = "0.0.0.0/0 0.0.0.0/1 128.0.0.0/1 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 10.1.0.0/16 10.1.2.0/24 10.1.2.3/32 \
                 203.0.113.0/24";
    let routes: Vec<_> = texts.split(' ').filter(|t| !t.is_empty()).map(p).zip(1..).collect();
    for (at_once, few) in [(true, 0), (false, 0), (true, FEW), (false, FEW)] {
        let t = Lpm::with_few(few).unwrap();
        if at_once {
            t.load(routes.clone()).unwrap();
        } else {
            for &(prefix, hop) in &routes {
                t.insert(prefix, hop).unwrap();
            }
        }
        let used = kilobytes(&t);
        // A tree is beside those of other tables.
        let wanted = if few == 0 { 16..=64 } else { 0..=0 };
        assert!(wanted.contains(&used), "{used} KB");
    }
}

#[test]
fn a_reader_inside_holds_groups_back() {
    let t = lines();
    let r = t.reader();
    t.insert(p("1.1.1.1/32"), 1).unwrap();
    let inside = r.epoch.enter(&r.shared.epochs);
    t.remove(p("1.1.1.1/32"));
    t.insert(p("2.2.2.2/32"), 2).unwrap();
    assert_eq!(t.control().long_routes.len(), 2);
    drop(inside);
    t.insert(p("3.3.3.3/32"), 3).unwrap();
    assert_eq!(t.control().long_routes.len(), 2);
    assert_eq!((r.lookup(a("2.2.2.2")), r.lookup(a("3.3.3.3"))), (2, 3));
}

/// A lookup takes the default route, an entry of a line and a short prefix at three moments. Here the table
/// changes before the moment `at`.
fn lookup_while(table: &Lpm, addr: u32, at: usize, change: impl FnOnce(&Lpm)) -> u32 {
    let mut change = Some(change);
    let mut hop = NO_ROUTE;
    table.reader().in_lines(|shared, default| {
        let mut moment = |now| {
            if now == at
                && let Some(change) = change.take()
            {
                change(table);
            }
        };
        moment(0);
        let mut e = shared.top((addr >> 8) as usize);
        moment(1);
        if e & GROUP != 0 {
            e = shared.table.load_masked(gather::in_group(e, addr));
        }
        moment(2);
        if e == 0 {
            e = shared.table.load(gather::in_short(addr));
        }
        hop = gather::hop(e, default);
    });
    hop
}

#[test]
fn routes_of_different_moments_are_not_mixed() {
    let addr = a("10.1.2.3");
    let table = |routes: &[(&str, u32)]| {
        let table = lines();
        table.load(routes.iter().map(|&(prefix, hop)| (p(prefix), hop))).unwrap();
        table
    };
    for at in 0..if cfg!(miri) { 1 } else { 3 } {
        let t = table(&[("0.0.0.0/0", 9), ("10.0.0.0/8", 1)]);
        let hop = lookup_while(&t, addr, at, Lpm::clear);
        assert!([1, NO_ROUTE].contains(&hop), "flushed before moment {at}: {hop}");

        for long in ["10.0.0.0/12", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32"].map(p) {
            let t = table(&[("0.0.0.0/0", 9)]);
            t.insert(long, 1).unwrap();
            let hop = lookup_while(&t, addr, at, |t| {
                t.insert(Prefix::DEFAULT, 8).unwrap();
                t.remove(long);
            });
            assert!([1, 8].contains(&hop), "{long} removed before moment {at}: {hop}");

            if long.len() > 12 {
                let t = table(&[("10.0.0.0/8", 1)]);
                let hop = lookup_while(&t, addr, at, |t| {
                    t.insert(long, 2).unwrap();
                    t.insert(p("10.0.0.0/8"), 3).unwrap();
                });
                assert!([1, 2].contains(&hop), "{long} inserted before moment {at}: {hop}");
            }
        }
    }
}

/// A writer that never rests does not keep lookups from ending.
#[test]
fn endless_changes_do_not_hold_a_lookup_up() {
    let t = lines();
    let mut reads = 0;
    t.reader().in_lines(|_, _| {
        reads += 1;
        t.insert(Prefix::DEFAULT, reads).unwrap();
    });
    assert_eq!(reads as usize, 1 + TRIES);
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Prefix, u32),
    Remove(Prefix),
    Load(Vec<(Prefix, u32)>),
    Clear,
}

/// Prefixes that often overlap: few distinct bits, on both levels.
fn prefix() -> impl Strategy<Value = Prefix> {
    // The shortest ones fill half of the table, so they are rare.
    let lens = prop_oneof![30 => if cfg!(miri) { 22..33u8 } else { 10..33 }, 1 => if cfg!(miri) { 22..24u8 } else { 0..10 }];
    (addr(), lens).prop_map(|(addr, len)| Prefix::new(addr, len).unwrap())
}

fn addr() -> impl Strategy<Value = u32> {
    (0u32..4, 0u32..4, 0u32..5, any::<u32>()).prop_map(|(hi, mid, low, any)| match low {
        0 => hi << 30 | mid << 8 | any & 0xff,
        1 => hi << 30 | mid << 7 | any & 1,
        // Different /24s of one or two lines.
        2 | 3 => (hi & 1) << 13 | any & 0x1f01,
        _ => hi << 30 | (any & 3) << 22 | mid << 14 | any & 0x81,
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (prefix(), 0..1000u32).prop_map(|(p, h)| Op::Insert(p, h)),
        6 => prefix().prop_map(Op::Remove),
        1 => prop::collection::vec((prefix(), 0..1000u32), 0..if cfg!(miri) { 4 } else { 20 }).prop_map(Op::Load),
        1 => Just(Op::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 128 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn same_as_naive(
        blocks in 0..12usize, waiting in 0..4usize, few in prop_oneof![Just(0), 1..20usize, Just(FEW)],
        ops in prop::collection::vec(op(), 1..if cfg!(miri) { 6 } else { 80 }),
        addrs in prop::collection::vec(addr(), if cfg!(miri) { 4 } else { 40 })
    ) {
        let table = Lpm::with_few(few).unwrap();
        table.control().set_blocks(blocks, waiting);
        let kernels = || Kernel::usable().into_iter().map(|k| table.reader_with(k)).collect::<Vec<_>>();
        // A table that nobody reads is loaded in another way.
        let mut readers = if blocks % 2 == 0 { kernels() } else { Vec::new() };
        let mut naive = Naive::default();
        let mut used = Vec::new();
        for op in ops {
            match op {
                Op::Insert(p, h) => {
                    used.push(p);
                    prop_assert_eq!(table.insert(p, h).unwrap(), naive.insert(p, h));
                }
                Op::Remove(p) => {
                    // Mostly a prefix that is in the table.
                    let p = if p.len() % 4 != 0 { *used.get(p.first() as usize % (used.len() + 1)).unwrap_or(&p) } else { p };
                    prop_assert_eq!(table.remove(p), naive.remove(p));
                }
                Op::Load(routes) => {
                    table.load(routes.iter().copied()).unwrap();
                    for (p, h) in routes {
                        used.push(p);
                        naive.insert(p, h);
                    }
                }
                Op::Clear => {
                    table.clear();
                    naive.0.clear();
                }
            }
            if readers.is_empty() {
                readers = kernels();
            }
            table.shared.large.store(naive.0.len() % 2 == 1, Relaxed);
            let ends = used.iter().flat_map(|p| [p.first(), p.last(), p.first().wrapping_sub(1), p.last().wrapping_add(1)]);
            let probe: Vec<u32> = addrs.iter().copied().chain(ends).collect();
            let routes: Vec<_> = probe.iter().map(|a| naive.route(*a)).collect();
            let want: Vec<_> = routes.iter().map(|r| r.map_or(NO_ROUTE, |r| r.1)).collect();
            for reader in &readers {
                let mut hops = vec![0; probe.len()];
                reader.lookup_many(&probe, &mut hops);
                prop_assert_eq!(&hops, &want, "{:?}", reader.kernel);
            }
            for ((&addr, &hop), &route) in probe.iter().zip(&want).zip(&routes) {
                prop_assert_eq!(readers[0].lookup(addr), hop);
                prop_assert_eq!(table.route(addr), route);
            }
            let mut all = naive.0.clone();
            all.sort();
            prop_assert_eq!(table.routes(), all);
            if table.control().is_compact() {
                prop_assert_eq!((table.groups(), table.len() <= few), (0, true));
                continue;
            }
            let tops: std::collections::BTreeSet<u32> =
                naive.0.iter().filter(|r| r.0.len() > 24).map(|r| r.0.first() >> 8).collect();
            prop_assert_eq!(table.groups(), tops.len());
            // Every block is that of a line.
            let all: std::collections::BTreeSet<u32> = used.iter().map(|p| p.first() >> 13).collect();
            let in_blocks = all.iter().filter(|l| table.shared.header(**l as usize) & EXPANDED != 0).count();
            prop_assert_eq!(table.control().blocks(), in_blocks);
            if blocks % 3 == 0 {
                readers.clear();
            }
        }
    }
}

/// Readers look up while a writer inserts, removes, loads and recycles groups. A next hop names its prefix,
/// so an answer can be checked alone: it must contain the address, and be at least as long as the routes that
/// stay.
#[test]
fn readers_are_never_wrong() {
    FORMS.into_iter().for_each(readers_beside_a_writer);
}

fn readers_beside_a_writer(few: usize) {
    let mut x = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut prefixes = Vec::new();
    let stay = if cfg!(miri) { 0 } else { 6 };
    for i in 0..1u32 << stay {
        prefixes.push(Prefix::new(i << 26, stay).unwrap()); // these stay
    }
    let tops = if cfg!(miri) { 3 } else { 24 };
    for _ in 0..if cfg!(miri) { 16 } else { 600 } {
        let r = random();
        let base = (r as u32 % tops) << 8 | ((r >> 32) as u32 % 4) << 26;
        prefixes.push(Prefix::new(base | (r >> 40) as u32 & 0xff, 20 + (r >> 50) as u8 % 13).unwrap());
    }
    prefixes.sort();
    prefixes.dedup();
    let table = Lpm::with_few(few).unwrap();
    table
        .load(prefixes.iter().enumerate().filter(|(_, p)| p.len() == stay).map(|(i, &p)| (p, i as u32)))
        .unwrap();
    // Blocks come and go quickly.
    table.control().set_blocks(64, 2);
    let changing: Vec<(Prefix, u32)> =
        prefixes.iter().enumerate().filter(|(_, p)| p.len() != stay).map(|(i, &p)| (p, i as u32)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let kernels = [Kernel::SCALAR, Kernel::widest()];
        for (seed, kernel) in (0..2u32).zip(kernels) {
            let (reader, prefixes, stop) = (table.reader_with(kernel), &prefixes, &stop);
            scope.spawn(move || {
                let mut n = seed;
                let mut addrs = [0u32; 48];
                let mut hops = [0u32; 48];
                while !stop.load(Relaxed) {
                    for addr in &mut addrs {
                        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        *addr = ((n >> 20) & 255) | (((n >> 8) % tops) << 8) | ((n >> 30) << 26);
                    }
                    reader.lookup_many(&addrs, &mut hops);
                    for (&addr, &hop) in addrs.iter().zip(&hops) {
                        assert!(prefixes[hop as usize].contains(addr), "{addr:x} {}", prefixes[hop as usize]);
                    }
                    let hop = reader.lookup(addrs[0]);
                    assert!(prefixes[hop as usize].contains(addrs[0]));
                }
            });
        }
        // A tree is written anew for each change.
        for round in 0..if cfg!(miri) { 6 } else { [200_000, 40_000][usize::from(few > 0)] } {
            let (prefix, hop) = changing[random() as usize % changing.len()];
            if random() % 2 == 0 {
                table.insert(prefix, hop).unwrap();
            } else {
                table.remove(prefix);
            }
            table.shared.large.store(round % 64 < 32, Relaxed);
            if round % 10_000 == 9_999u32 {
                table.load(changing.iter().copied()).unwrap();
            }
        }
        stop.store(true, Relaxed);
    });
}

/// A lookup that begins between the writing of a tree and its use, and is slow, must not take what another
/// table writes where the old tree was.
#[test]
fn a_table_reads_nothing_of_another() {
    let (table, other) = (Lpm::with_few(FEW).unwrap(), Lpm::with_few(FEW).unwrap());
    table.insert(p("1.0.0.0/8"), 1).unwrap();
    let (reader, shared) = (table.reader(), &*table.shared);
    let mut places = shared.places.lock().unwrap();
    let places = places.as_mut().unwrap();
    let next = compact::write(places, shared, &[(p("1.0.0.0/8"), 2)].into());
    let mut hops = Vec::new();
    let in_tree = reader.in_tree(|trees, tree| {
        if hops.is_empty() {
            compact::switch(places, shared, Some(next));
            // Tests beside this one take places too: one of these is the first that is free.
            for hop in 10..14 {
                other.insert(p("0.0.0.0/0"), hop).unwrap();
            }
        }
        hops.push([0]);
        tree.look_up(Kernel::SCALAR, trees, &[a("1.2.3.4")], hops.last_mut().unwrap());
    });
    assert!(in_tree);
    assert_eq!((hops.len(), hops[hops.len() - 1]), (2, [2]), "{hops:?}");
}

/// Every answer is that of the table at some moment during the lookup: all states of the table are computed
/// before the test, with the list that is searched from end to end.
#[test]
fn every_answer_was_right_at_some_moment() {
    FORMS.into_iter().for_each(|few| answers_beside_a_writer(few, 1));
}

/// The same with batches during which there are many changes: they end although they are never right as a
/// whole.
#[test]
#[cfg(not(miri))]
fn long_batches_are_right_too() {
    FORMS.into_iter().for_each(|few| answers_beside_a_writer(few, 32));
}

fn answers_beside_a_writer(few: usize, repeat: usize) {
    let (changes, probes) = if cfg!(miri) { (8, 4) } else { (2000, 64) };
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: u32| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u32 % below
    };
    // Few addresses and prefixes of every length around them, so that nearly every change is seen.
    let addrs: Vec<u32> =
        (0..probes).map(|_| random(2) << 30 | random(3) << 10 | random(3) << 8 | random(256)).collect();
    let mut naive = Naive::default();
    let mut ops = Vec::new();
    let mut tables = Vec::new();
    let answers = |naive: &Naive| addrs.iter().map(|a| naive.route(*a).map_or(NO_ROUTE, |r| r.1)).collect();
    tables.push(answers(&naive));
    for hop in 0..changes {
        let len = match hop % 4 {
            _ if cfg!(miri) => 23 + random(10),
            0 => [0, 0, 8, 11, 12][random(5) as usize],
            2 => 12 + random(21),
            _ => 24 + random(9),
        };
        let prefix = Prefix::new(addrs[random(probes) as usize], len as u8).unwrap();
        let op = match random(100) {
            0 => Op::Clear,
            1..60 => Op::Insert(prefix, hop),
            _ => Op::Remove(prefix),
        };
        match op {
            Op::Insert(prefix, hop) => drop(naive.insert(prefix, hop)),
            Op::Remove(prefix) => drop(naive.remove(prefix)),
            _ => naive.0.clear(),
        }
        ops.push(op);
        let now: Vec<u32> = answers(&naive);
        tables.push(now);
    }
    let table = Lpm::with_few(few).unwrap();
    table.control().set_blocks(8, 1);
    // The numbers of changes that have begun and that have finished.
    let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for kernel in Kernel::usable() {
            let reader = table.reader_with(kernel);
            let (tables, addrs, begun, done) = (&tables, &addrs, &begun, &done);
            scope.spawn(move || {
                let batch = addrs.repeat(repeat);
                let mut hops = vec![0; batch.len()];
                loop {
                    let earliest = done.load(Acquire);
                    reader.lookup_many(&batch, &mut hops);
                    fence(Acquire); // whoever saw something of a change sees that it had begun
                    let latest = begun.load(Relaxed);
                    for (n, hop) in hops.iter().enumerate() {
                        let i = n % addrs.len();
                        let right = tables[earliest..=latest].iter().any(|t: &Vec<u32>| t[i] == *hop);
                        assert!(right, "{} {:x} {hop} {earliest}..={latest}", kernel.name(), addrs[i]);
                    }
                    if earliest + 1 == tables.len() {
                        return;
                    }
                }
            });
        }
        for (i, op) in ops.into_iter().enumerate() {
            begun.store(i + 1, Relaxed);
            fence(Release);
            match op {
                Op::Insert(prefix, hop) => drop(table.insert(prefix, hop).unwrap()),
                Op::Remove(prefix) => drop(table.remove(prefix)),
                _ => table.clear(),
            }
            table.shared.large.store(i % 8 < 4, Relaxed);
            done.store(i + 1, Release);
        }
    });
}

/// Routes that lie apart need most ranges: the largest tree, and one route more.
#[test]
#[cfg(not(miri))]
fn a_tree_has_room_for_its_routes() {
    let most = compact::MOST_ROUTES as u32;
    let table = Lpm::with_few(most as usize).unwrap();
    let route = |i: u32| (Prefix::new((i + 1) << 16, 24).unwrap(), i);
    table.load((0..most - 1).map(route)).unwrap();
    let check = |routes: u32| {
        let addrs: Vec<u32> = (0..=u32::MAX >> 8).step_by(64).map(|i| i << 8 | 5).chain([u32::MAX]).collect();
        for kernel in Kernel::usable() {
            let mut hops = vec![0; addrs.len()];
            table.reader_with(kernel).lookup_many(&addrs, &mut hops);
            for (addr, hop) in addrs.iter().zip(hops) {
                let route = (addr >> 16).wrapping_sub(1);
                let wanted = if addr & 0xff00 == 0 && route < routes { route } else { NO_ROUTE };
                assert_eq!(hop, wanted, "{addr:x} with {}", kernel.name());
            }
        }
    };
    check(most - 1);
    let (prefix, hop) = route(most - 1);
    table.insert(prefix, hop).unwrap();
    assert!(table.control().is_compact());
    check(most);
    table.insert(route(most).0, most).unwrap();
    assert!(!table.control().is_compact());
    check(most + 1);
    table.clear();
    assert!(table.control().is_compact());
    check(0);
}

/// What cannot move from the tree into the lines stays in the tree.
#[test]
fn a_tree_that_cannot_move_stays() {
    let table = Lpm::with_few(3).unwrap();
    table.control().limit = 2;
    table.load((1..4).map(|i| (Prefix::host(i << 24), i))).unwrap();
    assert_eq!(table.insert(p("9.0.0.0/24"), 5), Err(LpmError::TooManyLongPrefixes(2)));
    assert_eq!(table.load([(p("9.0.0.0/24"), 5)]), Err(LpmError::TooManyLongPrefixes(2)));
    let reader = table.reader();
    assert_eq!([1, 2, 3, 9].map(|i| reader.lookup(i << 24)), [1, 2, 3, NO_ROUTE]);
    assert_eq!((table.len(), table.get(p("9.0.0.0/24"))), (3, None));
    table.remove(p("2.0.0.0/32"));
    table.insert(p("9.0.0.0/24"), 5).unwrap();
    table.remove(p("3.0.0.0/32"));
    table.load((10..12).map(|i| (Prefix::new(i << 24, 16).unwrap(), i))).unwrap();
    assert!(!table.control().is_compact());
    assert_eq!([1, 2, 9, 10, 11].map(|i| reader.lookup(i << 24)), [1, NO_ROUTE, 5, 10, 11]);
}

/// Places of trees are used again, but not one that a lookup may be reading.
#[test]
fn a_reader_inside_keeps_its_tree() {
    let table = Lpm::with_few(FEW).unwrap();
    let reader = table.reader();
    table.insert(p("1.0.0.0/8"), 1).unwrap();
    let word = |t: &Lpm| t.shared.tree.load(Relaxed);
    let before = word(&table);
    let inside = reader.epoch.enter(&reader.shared.epochs);
    // One more change would wait for the reader.
    for hop in 2..1 + trees::PLACES as u32 {
        table.insert(p("1.0.0.0/8"), hop).unwrap();
        assert_ne!(word(&table), before);
    }
    drop(inside);
    table.insert(p("1.0.0.0/8"), 9).unwrap();
    assert_eq!(reader.lookup(a("1.2.3.4")), 9);
    let mut words: Vec<u32> = (10..30)
        .map(|hop| {
            table.insert(p("1.0.0.0/8"), hop).unwrap();
            word(&table)
        })
        .collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), 2);
}
