//! The protocol between nodes on links where an attacker forges, repeats and delays frames as fast as
//! possible, and where frames of some lengths are lost.

mod lab;

use cluster::hello::{Counts, Reason};
use cluster::{NodeId, Received};
use lab::{End, Lab, MS};
use proptest::prelude::*;

fn counts(lab: &mut Lab, n: u16, peer: u16) -> Counts {
    *lab.node(n).control.neighbor(NodeId(peer)).unwrap().counts()
}

/// Two nodes with a link that is up, and the frames that were sent over it.
fn pair(seed: u64) -> Lab {
    let mut lab = Lab::mesh(2);
    lab.rng = cluster::Rng::new(seed);
    lab.recorded = Some(Vec::new());
    lab.run(300);
    assert!(lab.all_well());
    lab
}

/// The frames that an attacker without the key makes from a frame that was captured.
fn forge(lab: &mut Lab, seen: &[(End, Vec<u8>)], to: End) -> Vec<u8> {
    let from = lab.wires[&to];
    // The last frame may not have arrived yet.
    let of_this: Vec<&Vec<u8>> =
        seen.iter().rev().filter(|(end, _)| *end == from).map(|(_, f)| f).skip(2).take(20).collect();
    let rng = &mut lab.rng;
    let mut frame =
        of_this.get(rng.below(of_this.len().max(1) as u64) as usize).map_or_else(Vec::new, |f| (*f).clone());
    match rng.below(6) {
        // Random bytes.
        0 => frame = (0..60 + rng.below(200)).map(|_| rng.number() as u8).collect(),
        // With numbers that have not been used yet: of the sequence, or of the session.
        1 if frame.len() > 40 => {
            let next = u64::from_be_bytes(frame[24..32].try_into().unwrap()) + 1 + rng.below(50);
            frame[24..32].copy_from_slice(&next.to_be_bytes());
        }
        2 if frame.len() > 40 => frame[8..16].copy_from_slice(&rng.number().to_be_bytes()),
        // Of the greatest length.
        3 if frame.len() > 40 => {
            let next = u64::from_be_bytes(frame[24..32].try_into().unwrap()) + 1;
            frame[24..32].copy_from_slice(&next.to_be_bytes());
            frame.resize(1500, 7);
            frame[2..4].copy_from_slice(&1500u16.to_be_bytes());
        }
        // Unchanged.
        4 => {}
        _ if frame.is_empty() => {}
        _ => {
            let bit = rng.below(frame.len() as u64 * 8);
            frame[bit as usize / 8] ^= 1 << (bit % 8);
        }
    }
    frame
}

/// A million forged frames a second for 400 ms, at each end. A forged frame costs only a check of its short
/// authentication code, and hellos are still received.
#[test]
fn a_million_forged_frames_a_second_cost_no_tags_and_no_link() {
    let mut lab = pair(7);
    let before = [counts(&mut lab, 0, 1), counts(&mut lab, 1, 0)];
    for ms in 0..400 {
        let seen = lab.recorded.clone().unwrap();
        for (n, peer) in [(0, 1), (1, 0)] {
            // A few hundred different frames, repeated.
            let forged: Vec<Vec<u8>> = (0..20).map(|_| forge(&mut lab, &seen, (n, peer))).collect();
            for i in 0..1000 {
                let (now, frame) = (lab.now, &forged[(ms + i) % 20]);
                let received = lab.node(n).control.receive(now, NodeId(peer), frame);
                assert_eq!(received, Received::Ignored);
            }
        }
        lab.step();
        assert!(lab.up(0, 1) && lab.up(1, 0), "after {ms} ms");
    }
    for ((n, peer), before) in [(0, 1), (1, 0)].into_iter().zip(before) {
        let after = counts(&mut lab, n, peer);
        assert_eq!((after.downs, after.sessions), (0, 1));
        let (forged, opened) = (
            after.foreign + after.malformed - before.foreign - before.malformed,
            after.opened - before.opened,
        );
        assert!(forged > 200_000, "{forged}");
        // The neighbor's own frames: a hello every 10 ms.
        assert!((30..100).contains(&opened) && after.heard - before.heard >= 30, "{opened} tags");
        assert!(matches!(lab.reason(n, peer), Some(Reason::Foreign(_) | Reason::Version(..))));
    }
}

/// An attacker who sees each frame sends a thousand like it, with another body, before it arrives.
#[test]
fn forged_bodies_behind_a_true_header_cost_a_bounded_number_of_tags() {
    let mut lab = pair(8);
    let before = counts(&mut lab, 0, 1);
    for _ in 0..400 {
        let due: Vec<(End, Vec<u8>)> = lab.flying.iter().map(|(_, to, frame)| (*to, frame.clone())).collect();
        for ((n, peer), mut frame) in due {
            // Behind the bytes that the short authentication code covers, if the frame is that long.
            let at = frame.len() - 17;
            let true_byte = frame[at];
            for i in 0..1000 {
                frame[at] = true_byte ^ (1 + i % 255) as u8;
                let now = lab.now;
                lab.node(n).control.receive(now, NodeId(peer), &frame);
            }
        }
        lab.step();
        assert!(lab.up(0, 1) && lab.up(1, 0));
    }
    let after = counts(&mut lab, 0, 1);
    let (opened, foreign) = (after.opened - before.opened, after.foreign - before.foreign);
    assert!(foreign > 20_000, "{foreign}");
    assert!(after.downs == 0 && opened < 4000 && after.ignored > 1000, "{after:?}");
}

/// A link is cut and restored while every frame that was ever sent over it, in all sessions of both nodes, is
/// repeated, ten in each millisecond at each end.
fn replay(lab: &mut Lab, old: &[(End, Vec<u8>)], ms: u64, mut each: impl FnMut(&mut Lab)) {
    for _ in 0..ms {
        for _ in 0..20 {
            let (from, frame) = &old[lab.rng.below(old.len() as u64) as usize];
            if let Some(to) = lab.wires.get(from).copied() {
                lab.deliver(to, frame);
            }
        }
        lab.step();
        each(lab);
    }
}

#[test]
fn replayed_hellos_neither_hold_a_dead_link_up_nor_take_a_live_one_down() {
    let mut lab = pair(9);
    // Earlier sessions of both nodes, and of the link.
    for n in [0, 1, 0, 1, 1, 0] {
        lab.kill(n);
        lab.run(100);
        lab.start(n);
        lab.run(400);
        lab.cut.extend([(0, 1), (1, 0)]);
        lab.run(150);
        lab.cut.clear();
        lab.run(300);
    }
    let mut old = lab.recorded.take().unwrap();
    for round in 0..8 {
        // Long enough between the restarts that the node is not admitted more and more slowly.
        lab.run(8000);
        assert!(lab.all_well(), "{round}");
        let downs = lab.downs();
        replay(&mut lab, &old, 300, |lab| assert!(lab.up(0, 1) && lab.up(1, 0), "{round}"));
        assert_eq!(lab.downs(), downs);
        // What is sent now is recorded too, and never arrives.
        lab.recorded = Some(Vec::new());
        let cuts: &[End] = [&[(0, 1), (1, 0)][..], &[(1, 0)], &[(0, 1)]][round % 3];
        lab.cut.extend(cuts);
        let began = lab.now;
        replay(&mut lab, &old, 400, |lab| {
            let dead = !lab.up(0, 1) && !lab.up(1, 0);
            assert!(
                dead || lab.now - began <= 100 * MS,
                "{round}: {:?} {:?}",
                lab.reason(0, 1),
                lab.reason(1, 0)
            );
        });
        lab.cut.clear();
        let began = lab.now;
        let mut up = None;
        replay(&mut lab, &old, 2000, |lab| {
            if up.is_none() && lab.up(0, 1) && lab.up(1, 0) {
                up = Some(lab.now - began);
            }
        });
        assert!(up.is_some() && lab.up(0, 1) && lab.up(1, 0), "{round}: {:?}", lab.reason(0, 1));
        old.extend(lab.recorded.take().unwrap());
    }
}

/// A node starts again and so knows none of the earlier sessions, while the frames of all of them are
/// repeated.
#[test]
fn a_node_that_starts_among_replayed_hellos_is_heard() {
    let mut lab = pair(10);
    for n in [0, 1, 0, 1] {
        lab.kill(n);
        lab.run(100);
        lab.start(n);
        lab.run(300);
    }
    let old = lab.recorded.take().unwrap();
    for n in [0, 1, 0, 1] {
        lab.run(8000);
        lab.kill(n);
        replay(&mut lab, &old, 100, |_| {});
        assert!(!lab.up(1 - n, n));
        lab.start(n);
        replay(&mut lab, &old, 1500, |_| {});
        assert!(lab.up(0, 1) && lab.up(1, 0), "{:?} {:?}", lab.reason(0, 1), lab.reason(1, 0));
    }
}

/// Frames that were sent and never arrived have valid numbers. An attacker who recorded a minute of them
/// sends them one by one when their node is dead.
#[test]
fn what_was_held_back_does_not_stand_for_a_node_that_is_dead() {
    let mut lab = pair(11);
    lab.recorded = Some(Vec::new());
    // Interruptions so short that the link stays up, repeated: the frames that node 1 sends in them are
    // recorded.
    for _ in 0..300 {
        lab.cut.insert((1, 0));
        lab.run(20);
        lab.cut.clear();
        lab.run(40);
        let flat = lab.recorded.as_mut().unwrap();
        flat.retain(|(from, _)| *from == (1, 0));
    }
    assert!(lab.up(0, 1) && lab.downs() == 0);
    // And a longer one, in which the link goes down.
    lab.cut.insert((1, 0));
    lab.run(3000);
    lab.kill(1);
    let held: Vec<Vec<u8>> = lab.recorded.take().unwrap().into_iter().map(|(_, f)| f).collect();
    lab.run(1000);
    for frame in held {
        lab.deliver((0, 1), &frame);
        lab.run(5);
        assert!(!lab.up(0, 1) && !lab.node(0).control.neighbor(NodeId(1)).unwrap().is_ready());
    }
    lab.cut.clear();
    lab.start(1);
    lab.run(300);
    assert!(lab.all_well(), "{:?}", lab.reason(0, 1));
}

/// The same while the link is up: it goes down when the node dies.
#[test]
fn what_was_held_back_does_not_keep_a_link_up() {
    let mut lab = pair(12);
    let mut held = Vec::new();
    // Of three hellos, two are held back and one arrives.
    for ms in 0..20_000 {
        lab.step();
        let (keep, go): (Vec<_>, Vec<_>) = std::mem::take(&mut lab.flying)
            .into_iter()
            .partition(|(_, to, f)| *to == (0, 1) && f[31] % 3 != 0);
        lab.flying = go;
        held.extend(keep.into_iter().map(|(_, _, frame)| frame));
        assert!(lab.up(0, 1), "{ms}");
    }
    lab.kill(1);
    lab.run(10);
    let began = lab.now;
    // The latest first and last, so that some have greater numbers than all that were received.
    for frame in held.iter().rev().chain(&held) {
        lab.deliver((0, 1), frame);
        lab.step();
        assert!(!lab.up(0, 1) || lab.now - began < 600 * MS);
    }
}

/// The milliseconds until a condition is met.
fn until(lab: &mut Lab, limit: u64, mut good: impl FnMut(&mut Lab) -> bool) -> Option<u64> {
    (0..limit).find(|_| {
        lab.step();
        good(lab)
    })
}

#[test]
fn a_lowered_mtu_is_noticed_in_well_under_a_second_and_its_measure_is_named() {
    for (mtu, delay) in [(1499, MS), (1400, MS), (1280, 10 * MS), (576, MS), (300, 40 * MS)] {
        let mut lab = pair(mtu as u64);
        lab.delay = delay;
        lab.run(3000);
        lab.mtu = mtu;
        let noticed = until(&mut lab, 2000, |lab| !lab.up(0, 1) && !lab.up(1, 0));
        assert!(noticed.is_some_and(|ms| ms <= 550), "{mtu}: {noticed:?}");
        // No length is better than a wrong one.
        let right = |r: Option<Reason>| matches!(r, Some(Reason::Mtu { wanted: 1500, largest: Some(n), .. }) if usize::from(n) == mtu);
        let found = until(&mut lab, 20_000, |lab| {
            let reason = lab.reason(0, 1);
            assert!(
                right(reason) || matches!(reason, Some(Reason::Mtu { largest: None, .. })),
                "{mtu}: {reason:?}"
            );
            right(reason) && right(lab.reason(1, 0))
        });
        assert!(found.is_some_and(|ms| ms < 15_000), "{mtu}: {found:?} {:?}", lab.reason(0, 1));
        let words = lab.reason(0, 1).unwrap().to_string();
        assert_eq!(
            words,
            format!(
                "frames of 1500 bytes do not arrive at node 1, only up to {mtu}: the link's MTU is too small"
            )
        );
        // The link stays down,
        lab.run(3000);
        assert!(right(lab.reason(0, 1)) && right(lab.reason(1, 0)));
        // the length is found again when it changes, and the link comes up.
        lab.mtu = mtu - 20;
        let changed = until(
            &mut lab,
            20_000,
            |lab| matches!(lab.reason(0, 1), Some(Reason::Mtu { largest: Some(n), .. }) if usize::from(n) == mtu - 20),
        );
        assert!(changed.is_some(), "{:?}", lab.reason(0, 1));
        lab.mtu = mtu.midpoint(1500);
        let changed = until(
            &mut lab,
            20_000,
            |lab| matches!(lab.reason(0, 1), Some(Reason::Mtu { largest: Some(n), .. }) if usize::from(n) == lab.mtu),
        );
        assert!(changed.is_some(), "{:?}", lab.reason(0, 1));
        lab.mtu = 1500;
        let back = until(&mut lab, 2000, |lab| lab.all_well());
        assert!(back.is_some_and(|ms| ms < 1000), "{mtu}: {back:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// A link that loses frames of all lengths is not mistaken for one with a small MTU.
    #[test]
    fn loss_is_no_mtu(seed: u64) {
        let mut lab = pair(seed);
        lab.loss = 60;
        for _ in 0..10_000 {
            lab.step();
            let reason = lab.reason(0, 1);
            prop_assert!(!matches!(reason, Some(Reason::Mtu { .. })), "{:?}", reason);
        }
    }
}
