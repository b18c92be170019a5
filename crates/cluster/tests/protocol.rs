//! The cluster's own protocol over a network that loses, delays, reorders, repeats and forges frames, in
//! simulated time.

mod lab;

use cluster::hello::{Reason, Settings};
use cluster::{Key, NodeId, Replica, Rng};
use lab::{End, Lab, MS, QUARTER, key};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use tables::Prefix;

#[test]
fn a_mesh_comes_up_and_a_killed_node_leaves_all_sets_within_100_ms_and_comes_back() {
    let mut lab = Lab::mesh(5);
    lab.run(150);
    assert!(lab.all_well(), "{:?}", lab.reason(0, 1));
    for victim in 0..5u16 {
        lab.run(3000);
        lab.kill(victim);
        lab.run(100);
        for n in (0..5).filter(|n| *n != victim) {
            let f = lab.failures(n);
            assert_eq!(f.dead_nodes().collect::<Vec<_>>(), [NodeId(victim)]);
            assert_eq!(f.dead_links().count(), 0);
        }
        lab.start(victim);
        lab.run(300);
        assert!(lab.all_well(), "{victim}: {:?}", lab.failures(victim));
    }
}

#[test]
fn a_larger_mesh_and_a_k_ary_n_fly_notice_as_fast() {
    let mut lab = Lab::mesh(20);
    lab.run(200);
    assert!(lab.all_well());
    lab.kill(7);
    lab.run(100);
    assert!((0..20).filter(|n| *n != 7).all(|n| lab.failures(n).dead_nodes().eq([NodeId(7)])));
    // Three stages of four nodes, each with links to two of the next stage: no node receives the hellos of
    // all others.
    let links = (0..2u16).flat_map(|s| {
        (0..4u16).flat_map(move |i| [0, 1].map(|d| (4 * s + i, 4 * (s + 1) + (2 * i + d) % 4)))
    });
    let mut lab = Lab::new(12, links, Settings::default());
    lab.run(300);
    assert!(lab.all_well());
    lab.kill(5);
    lab.run(100);
    assert!((0..12).filter(|n| *n != 5).all(|n| lab.failures(n).dead_nodes().eq([NodeId(5)])));
    lab.start(5);
    lab.run(300);
    assert!(lab.all_well());
}

/// A 2-ary 2-fly: four nodes and two stages of four servers.
fn fly() -> Lab {
    let links = (0..12u16).flat_map(|i| {
        let (stage, x) = (i / 4, i % 4);
        [0, 1].map(move |r| (i, (stage + 1) % 3 * 4 + (2 * x + r) % 4))
    });
    let mut lab = Lab::new(12, links, Settings::default());
    lab.delay = 200_000;
    lab.run(300);
    assert!(lab.all_well());
    lab
}

/// No node of a fly has links to all others, so the news of a failure is passed on by nodes. They pass it on
/// without delay.
#[test]
fn a_death_in_a_fly_is_known_everywhere_a_moment_after_the_last_neighbor_notices() {
    let (mut lab, mut longest, mut spread) = (fly(), 0, 0);
    for round in 0..36 {
        let ms = 3000 + lab.rng.below(20);
        lab.run(ms);
        let victim = round % 12;
        let neighbors: Vec<u16> = lab.wires.keys().filter(|(n, _)| *n == victim).map(|(_, p)| *p).collect();
        let mut noticed = 0;
        let took = lab.until_known(victim, 200 * MS, |lab| {
            if neighbors.iter().any(|n| lab.up(*n, victim)) {
                noticed = lab.now;
            }
        });
        let took = took.unwrap();
        let now = lab.now;
        (longest, spread) = (longest.max(took), spread.max(now - noticed));
        lab.start(victim);
        lab.run(300);
        assert!(lab.all_well(), "{victim}: {:?}", lab.failures(victim));
    }
    assert!(longest <= 60 * MS && spread <= 4 * MS, "{longest} ns, of which {spread} on the way");
}

/// Nodes that share processors with many other processes: each runs for a few milliseconds, then waits for up
/// to `longest`.
fn kept_waiting(ends: &mut BTreeMap<u16, u64>, lab: &mut Lab, longest: u64) {
    for n in 0..lab.size {
        let end = ends.entry(n).or_insert(lab.now);
        if *end <= lab.now {
            let until = lab.now + lab.rng.below(longest);
            lab.paused.insert(n, until);
            *end = until + MS + lab.rng.below(3 * MS);
        }
    }
}

#[test]
fn nodes_that_are_kept_waiting_know_of_a_death_in_time_and_do_not_see_any_where_there_is_none() {
    for (longest, known) in [(12 * MS, 100 * MS), (30 * MS, 180 * MS)] {
        let (mut lab, mut ends, mut times) = (fly(), BTreeMap::new(), Vec::new());
        for victim in 0..12 {
            for _ in 0..4 * 2000 {
                lab.pass(QUARTER);
                kept_waiting(&mut ends, &mut lab, longest);
            }
            assert!(lab.all_well(), "{victim}: {:?}", lab.failures(0));
            times.extend(lab.until_known(victim, known, |lab| kept_waiting(&mut ends, lab, longest)));
            let before = lab.downs();
            lab.start(victim);
            for _ in 0..4 * 600 {
                lab.pass(QUARTER);
                kept_waiting(&mut ends, &mut lab, longest);
            }
            assert_eq!(lab.downs(), before, "{victim}");
        }
        assert_eq!(times.len(), 12, "{times:?}");
    }
}

/// A node that does not get a processor for less than 40 ms, however often, does not count as dead.
#[test]
fn a_node_that_is_kept_waiting_for_less_than_40_ms_stays_up() {
    let mut lab = Lab::mesh(4);
    lab.run(300);
    for _ in 0..200 {
        let (n, wait, ms) = (lab.rng.below(4) as u16, lab.rng.below(38 * MS), 40 + lab.rng.below(40));
        lab.paused.insert(n, lab.now + wait);
        lab.run(ms);
    }
    assert_eq!(lab.downs(), 0);
    assert!(lab.all_well());
}

#[test]
fn a_link_that_fails_one_way_is_known_to_all_within_100_ms_and_heals() {
    let mut lab = Lab::mesh(4);
    lab.run(150);
    lab.cut.insert((1, 2));
    lab.run(100);
    for n in 0..4 {
        let f = lab.failures(n);
        assert_eq!(f.dead_links().collect::<Vec<_>>(), [(NodeId(1), NodeId(2)), (NodeId(2), NodeId(1))]);
        assert_eq!(f.alive(), 4);
    }
    lab.run(100);
    assert_eq!(lab.reason(1, 2), Some(Reason::HalfOpen(NodeId(2))));
    assert_eq!(lab.reason(2, 1), Some(Reason::Silent(NodeId(1))));
    lab.cut.clear();
    lab.run(300);
    assert!(lab.all_well());
}

#[test]
fn a_link_that_never_worked_one_way_says_so() {
    let mut lab = Lab::new(2, [(0, 1)], Settings::default());
    lab.cut.insert((0, 1));
    lab.run(300);
    assert_eq!(lab.reason(0, 1), Some(Reason::HalfOpen(NodeId(1))));
    assert_eq!(lab.reason(1, 0), Some(Reason::Silent(NodeId(0))));
    assert!(!lab.up(0, 1) && !lab.up(1, 0));
}

#[test]
fn loss_and_reordering_of_hellos_are_borne() {
    let mut lab = Lab::mesh(4);
    (lab.loss, lab.jitter) = (30, 8 * MS);
    lab.run(300);
    let before = lab.downs();
    lab.run(3000);
    assert_eq!(lab.downs(), before);
    assert!(lab.all_well());
}

#[test]
fn far_nodes_hear_of_a_death_on_a_line() {
    let mut lab = Lab::new(5, (0..4).map(|i| (i, i + 1)), Settings::default());
    lab.run(300);
    assert!(lab.all_well());
    lab.kill(4);
    lab.run(100);
    assert_eq!(lab.failures(0).dead_nodes().collect::<Vec<_>>(), [NodeId(4)]);
    lab.start(4);
    lab.run(300);
    assert!(lab.all_well());
}

#[test]
fn wrong_wiring_is_named() {
    // Node 0's link to 1 leads to node 2's link to 0, and the other way round.
    let mut lab = Lab::mesh(3);
    for (a, b) in [((0, 1), (2, 0)), ((0, 2), (1, 0))] {
        lab.wires.insert(a, b);
        lab.wires.insert(b, a);
    }
    lab.run(300);
    let wrong = Reason::WrongNode { wanted: NodeId(1), heard: NodeId(2), meant: NodeId(0) };
    assert_eq!(lab.reason(0, 1), Some(wrong));
    assert!(wrong.to_string().contains("node 2 is at the other end instead of node 1"), "{wrong}");
    // The right node is at the other end, but with another of its links.
    let other = Reason::WrongLink { heard: NodeId(0), meant: NodeId(1) };
    assert_eq!(lab.reason(2, 0), Some(other));
    assert!(
        other.to_string().ends_with("node 0 is at the other end, but with its link to node 1"),
        "{other}"
    );
    assert!(lab.up(1, 2) && !lab.up(0, 1) && !lab.up(0, 2) && !lab.up(2, 0));
    // A link that is looped back.
    lab.cut.insert((2, 0));
    lab.wires.insert((0, 1), (0, 1));
    lab.run(100);
    assert_eq!(lab.reason(0, 1), Some(Reason::Loop));
}

#[test]
fn a_foreign_node_is_never_heard_and_another_of_the_same_identity_is_named() {
    let mut lab = Lab::mesh(3);
    lab.start_as(2, 2, Key::new(b"another key of another cluster").unwrap());
    lab.run(1000);
    assert_eq!(lab.reason(0, 2), Some(Reason::Foreign(NodeId(2))));
    let counts = *lab.node(0).control.neighbor(NodeId(2)).unwrap().counts();
    assert!(counts.foreign > 90 && counts.heard == 0);
    assert!(lab.up(0, 1) && !lab.up(0, 2) && !lab.up(2, 0));
    assert_eq!(lab.failures(1).dead_nodes().collect::<Vec<_>>(), [NodeId(2)]);
    // In place of node 2 there is another node 1, once at node 0's end of the cable, once at node 1's.
    lab.start_as(2, 1, key());
    lab.run(1000);
    let wrong = Reason::WrongNode { wanted: NodeId(2), heard: NodeId(1), meant: NodeId(0) };
    assert_eq!(lab.reason(0, 2), Some(wrong));
    lab.wires.insert((2, 0), (1, 2));
    lab.run(1000);
    assert_eq!(lab.reason(1, 2), Some(Reason::DuplicateOfThisNode(NodeId(1))));
    assert!(lab.up(0, 1));
}

/// Two nodes with the number 3, one connected to node 0, the other to nodes 1 and 2.
#[test]
fn two_nodes_of_one_identity_on_different_wires_are_named_and_disturb_nobody_else() {
    let mut lab = Lab::mesh(4);
    for n in [1, 2] {
        lab.wires.insert((n, 3), (4, n));
        lab.wires.insert((4, n), (n, 3));
        lab.wires.remove(&(3, n));
    }
    lab.nodes.push(None);
    lab.start_as(4, 3, key());
    lab.start(3);
    lab.run(4000);
    let now = lab.now;
    for n in 0..3 {
        let board = lab.node(n).control.board().clone();
        assert_eq!(board.duplicates(now).collect::<Vec<_>>(), [NodeId(3)], "node {n}");
        assert!((0..3).filter(|p| *p != n).all(|p| lab.up(n, p)));
        let others = lab.failures(n);
        assert!(others.alive() == 4 && others.link_up(NodeId(0), NodeId(1)));
        let downs: u64 = lab.node(n).control.neighbors().map(|l| l.counts().downs).sum();
        assert_eq!(downs, 0);
    }
    // They do not make each other send reports without end.
    lab.recorded = Some(Vec::new());
    lab.run(1000);
    let frames = lab.recorded.take().unwrap().len();
    assert!(frames < 10 * 1000, "{frames} frames a second");
    lab.kill(4);
    lab.run(6000);
    let now = lab.now;
    assert_eq!(lab.node(0).control.board().duplicates(now).count(), 0);
}

#[test]
fn another_configuration_is_refused_at_first_and_borne_for_a_while_later() {
    let differ = Settings { digest: 7, ..Settings::default() };
    let mut lab = Lab::mesh(2);
    let now = lab.now;
    lab.node(1).control.link(now, NodeId(0), differ).unwrap();
    lab.run(300);
    assert_eq!(lab.reason(0, 1), Some(Reason::Differs { node: NodeId(1), theirs: 7, ours: 0 }));
    assert!(!lab.up(0, 1));
    lab.node(0).control.link(now, NodeId(1), differ).unwrap();
    lab.run(300);
    assert!(lab.all_well());
    // One node after the other, in a running cluster.
    let third = Settings { digest: 8, ..differ };
    lab.node(0).control.link(now, NodeId(1), third).unwrap();
    lab.run(10_000);
    assert!(lab.up(0, 1) && lab.up(1, 0));
    assert!(matches!(lab.reason(0, 1), Some(Reason::Differs { theirs: 7, ours: 8, .. })));
    lab.node(1).control.link(now, NodeId(0), third).unwrap();
    lab.run(100);
    assert_eq!(lab.reason(0, 1), None);
    lab.node(0).control.link(now, NodeId(1), differ).unwrap();
    lab.run(31_000);
    assert!(!lab.up(0, 1) && !lab.up(1, 0));
}

#[test]
fn a_link_with_a_smaller_mtu_is_not_used() {
    let mut lab = Lab::mesh(2);
    lab.mtu = 1000;
    lab.run(500);
    assert!(
        matches!(lab.reason(0, 1), Some(Reason::Mtu { wanted: 1500, largest, .. }) if largest.is_none_or(|n| n <= 1000))
    );
    assert!(!lab.up(0, 1) && !lab.up(1, 0));
    lab.mtu = 1500;
    lab.run(200);
    assert!(lab.all_well());
    // The MTU shrinks later.
    lab.mtu = 1400;
    lab.run(8000);
    assert!(!lab.up(0, 1) && !lab.up(1, 0));
}

#[test]
fn a_node_that_was_stopped_does_not_hold_the_others_for_dead() {
    let patient = Settings { dead_ns: 10_000 * MS, ..Settings::default() };
    let mut lab = Lab::mesh(2);
    let now = lab.now;
    lab.node(1).control.link(now, NodeId(0), patient).unwrap();
    lab.run(200);
    lab.node(0).runs = false;
    lab.run(2000);
    lab.node(0).runs = true;
    let now = lab.now;
    // The node runs its timers before it reads the frames that have arrived.
    lab.node(0).control.tick(now, NodeId(1));
    assert!(lab.up(0, 1));
    lab.run(500);
    assert_eq!(lab.node(0).control.neighbor(NodeId(1)).unwrap().counts().downs, 0);
}

#[test]
fn a_node_that_starts_again_and_again_harms_nobody() {
    let mut lab = Lab::mesh(3);
    lab.run(150);
    let before = lab.node(0).control.generation();
    for _ in 0..100 {
        lab.kill(2);
        lab.run(60);
        lab.start(2);
        lab.run(140);
    }
    assert!(lab.up(0, 1));
    assert_eq!(lab.node(0).control.neighbor(NodeId(1)).unwrap().counts().downs, 0);
    // 20 seconds, 100 starts: the node is admitted more and more slowly.
    let changes = lab.node(0).control.generation() - before;
    assert!(changes < 1500, "{changes}");
    let sessions = lab.node(0).control.neighbor(NodeId(2)).unwrap().counts();
    assert!(sessions.downs < 20, "{sessions:?}");
    lab.run(8000);
    assert!(lab.all_well());
}

fn table(lab: &mut Lab, n: u16) -> BTreeMap<Prefix, (Ipv4Addr, NodeId, u64)> {
    lab.node(n).replica.table()
}

fn prefix(i: u32) -> Prefix {
    Prefix::new(0x0a00_0000 + (i << 8), 24).unwrap()
}

#[test]
fn a_route_is_soon_on_all_nodes_and_a_node_that_starts_gets_all() {
    let mut lab = Lab::mesh(4);
    lab.run(150);
    lab.node(1).replica.add(prefix(1), Ipv4Addr::new(10, 0, 3, 2)).unwrap();
    lab.run(5);
    for n in 0..4 {
        assert_eq!(lab.node(n).replica.get(prefix(1)), Some(Ipv4Addr::new(10, 0, 3, 2)));
    }
    for i in 0..5000 {
        lab.node(0).replica.add(prefix(i), Ipv4Addr::from_bits(i + 1)).ok();
    }
    lab.kill(3);
    lab.run(1000);
    lab.start(3);
    lab.run(1500);
    let all = table(&mut lab, 0);
    assert_eq!(all.len(), 5000);
    assert!((0..4).all(|n| table(&mut lab, n) == all));
    // Once the nodes agree, only the links' own hellos are left.
    lab.recorded = Some(Vec::new());
    lab.run(100);
    assert!(lab.recorded.as_ref().unwrap().iter().all(|(_, f)| f[1] == 1));
}

#[test]
fn what_is_entered_at_a_node_that_has_just_started_is_later_than_what_was_there() {
    let mut lab = Lab::mesh(3);
    lab.run(150);
    for i in 0..20 {
        lab.node(0).replica.set(prefix(7), Ipv4Addr::new(1, 1, 1, i)).unwrap();
    }
    lab.run(50);
    lab.kill(2);
    lab.run(100);
    lab.start(2);
    lab.node(2).replica.set(prefix(7), Ipv4Addr::new(2, 2, 2, 2)).unwrap();
    lab.run(1000);
    for n in 0..3 {
        assert_eq!(lab.node(n).replica.get(prefix(7)), Some(Ipv4Addr::new(2, 2, 2, 2)), "{n}");
    }
}

/// Two nodes have no connection while one of them removes so many routes that it no longer remembers the
/// first ones.
#[test]
fn a_route_that_was_removed_long_ago_does_not_come_back_with_a_node_that_was_apart() {
    let mut lab = Lab::mesh(2);
    for n in 0..2 {
        // Space for 16 routes, and 1028 removed ones.
        let mut replica = Replica::new(NodeId(n), 16).unwrap();
        replica.link(NodeId(1 - n));
        lab.node(n).replica = replica;
    }
    lab.run(150);
    let via = Ipv4Addr::new(10, 0, 3, 2);
    (0..3).for_each(|i| lab.node(0).replica.add(prefix(i), via).unwrap());
    lab.run(100);
    lab.cut.extend([(0, 1), (1, 0)]);
    lab.run(100);
    lab.node(0).replica.remove(prefix(1)).unwrap();
    for i in 100..20_000 {
        lab.node(0).replica.add(prefix(i), via).unwrap();
        lab.node(0).replica.remove(prefix(i)).unwrap();
    }
    // Routes that the other node adds meanwhile are new, although their versions are old.
    lab.node(1).replica.add(prefix(7), via).unwrap();
    lab.node(1).replica.remove(prefix(2)).unwrap();
    lab.cut.clear();
    lab.run(1000);
    for n in 0..2 {
        let there: Vec<Prefix> = lab.node(n).replica.table().into_keys().collect();
        assert_eq!(there, [prefix(0), prefix(7)], "node {n}");
    }
}

/// Everything that can happen to frames of a cluster whose frames an attacker has recorded.
fn tamper(rng: &mut Rng, frames: &[(End, Vec<u8>)]) -> (End, Vec<u8>) {
    let (from, mut frame) = frames[rng.below(frames.len() as u64) as usize].clone();
    match rng.below(5) {
        0 => {}
        1 => {
            let bit = rng.below(frame.len() as u64 * 8);
            frame[bit as usize / 8] ^= 1 << (bit % 8);
        }
        2 => frame.truncate(rng.below(frame.len() as u64) as usize),
        3 => {
            let (_, other) = &frames[rng.below(frames.len() as u64) as usize];
            let at = rng.below(frame.len().min(other.len()) as u64) as usize;
            frame.truncate(at);
            frame.extend(&other[at..]);
        }
        _ => frame = (0..rng.below(200)).map(|_| rng.number() as u8).collect(),
    }
    (from, frame)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Frames of earlier sessions and of this one, cut, changed, mixed and forged, sent many times over any
    /// link: links that are up stay up, dead nodes stay dead, and routes do not change.
    #[test]
    fn forged_and_repeated_frames_change_nothing(seed: u64) {
        let mut lab = Lab::mesh(3);
        lab.rng = Rng::new(seed);
        lab.recorded = Some(Vec::new());
        lab.run(150);
        for i in 0..50 {
            lab.node(0).replica.set(prefix(i), Ipv4Addr::new(9, 9, 9, 9)).unwrap();
        }
        lab.run(50);
        for i in 0..50 {
            lab.node(0).replica.set(prefix(i), Ipv4Addr::new(8, 8, 8, 8)).unwrap();
        }
        // Another session of node 1, and the end of node 2.
        lab.kill(1);
        lab.run(100);
        lab.start(1);
        lab.run(300);
        lab.kill(2);
        lab.run(100);
        let frames = lab.recorded.take().unwrap();
        let routes = table(&mut lab, 0);
        prop_assert_eq!(routes.len(), 50);
        let mut rng = Rng::new(seed ^ 1);
        for _ in 0..400 {
            for _ in 0..10 {
                let (from, frame) = tamper(&mut rng, &frames);
                // At the end that it was sent to, or at any other.
                let ends: Vec<End> = lab.wires.keys().copied().collect();
                let to = if rng.below(2) == 0 { lab.wires[&from] } else { ends[rng.below(6) as usize] };
                lab.deliver(to, &frame);
            }
            lab.step();
            for n in [0, 1] {
                let f = lab.failures(n);
                prop_assert_eq!(f.dead_nodes().collect::<Vec<_>>(), [NodeId(2)]);
                prop_assert_eq!(f.dead_links().count(), 0);
                prop_assert_eq!(&table(&mut lab, n), &routes);
            }
        }
        for (n, peer) in [(0, 1), (1, 0)] {
            prop_assert!(lab.up(n, peer));
            prop_assert_eq!(lab.node(n).control.neighbor(NodeId(peer)).unwrap().counts().downs, u64::from(n == 0));
        }
        // And the dead node is admitted again.
        lab.start(2);
        lab.run(400);
        prop_assert!(lab.all_well());
    }

    /// Changes at any node, over links that lose and reorder frames and are cut and restored, by nodes that
    /// die and start again: in the end all nodes have the same routes, and each route is the last one that
    /// was entered by one of those nodes that did not know of each other's change.
    #[test]
    fn routes_agree_in_the_end(seed: u64, line: bool) {
        let links = if line { vec![(0, 1), (1, 2), (2, 3)] } else { vec![(0, 1), (1, 2), (2, 3), (0, 3), (0, 2), (1, 3)] };
        let mut lab = Lab::new(4, links.clone(), Settings::default());
        lab.rng = Rng::new(seed);
        (lab.loss, lab.jitter) = (100, 20 * MS);
        lab.run(300);
        let mut entered = BTreeMap::<Prefix, BTreeSet<Option<Ipv4Addr>>>::new();
        for round in 0..60u32 {
            for _ in 0..20 {
                let n = lab.rng.below(4) as u16;
                let p = prefix(lab.rng.below(40) as u32);
                let via = Ipv4Addr::from_bits(round * 1000 + lab.rng.below(1000) as u32 + 1);
                let Some(node) = lab.nodes[usize::from(n)].as_mut() else { continue };
                let done = if via.to_bits().is_multiple_of(3) {
                    node.replica.remove(p).is_ok().then_some(None)
                } else {
                    node.replica.set(p, via).is_ok().then_some(Some(via))
                };
                done.into_iter().for_each(|via| { entered.entry(p).or_default().insert(via); });
            }
            match lab.rng.below(6) {
                0 => {
                    let (a, b) = links[lab.rng.below(links.len() as u64) as usize];
                    lab.cut.extend([(a, b), (b, a)]);
                }
                1 => lab.cut.clear(),
                2 => {
                    let n = lab.rng.below(4) as u16;
                    lab.kill(n);
                    lab.run(60);
                    lab.start(n);
                }
                _ => {}
            }
            let ms = lab.rng.below(100);
            lab.run(ms);
        }
        lab.cut.clear();
        // The copies of the other nodes replace those of the dead ones; frames are still lost.
        lab.run(9000);
        let all = table(&mut lab, 0);
        for n in 1..4 {
            prop_assert_eq!(&table(&mut lab, n), &all, "node {}", n);
        }
        for (p, (via, _, _)) in &all {
            prop_assert!(entered[p].contains(&Some(*via)), "{} by {} was never entered", p, via);
        }
        // A route that is added now reaches all.
        lab.loss = 0;
        lab.node(2).replica.set(prefix(3), Ipv4Addr::new(77, 7, 7, 7)).unwrap();
        lab.run(200);
        for n in 0..4 {
            prop_assert_eq!(lab.node(n).replica.get(prefix(3)), Some(Ipv4Addr::new(77, 7, 7, 7)));
        }
    }
}
