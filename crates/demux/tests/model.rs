//! Random claims, changes and frames, beside a model that has no table.

mod common;

use common::*;
use demux::{Claim, Counts, Sorted, Table, Tag};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Few tags, so that they are shared, nested and missing often.
fn tag() -> impl Strategy<Value = Tag> {
    prop_oneof![
        2 => Just(Tag::None),
        4 => (1..6u16).prop_map(Tag::Vlan),
        2 => (1..4u16, 1..4u16).prop_map(|(a, b)| Tag::Qinq(a, b)),
        2 => (16..19u32).prop_map(Tag::Mpls),
        2 => (0..3u32).prop_map(Tag::Vni),
    ]
}

fn any_claim() -> impl Strategy<Value = Claim> {
    (tag(), prop::option::weighted(0.8, 1..5u8)).prop_map(|(tag, n)| Claim { tag, mac: n.map(mac) })
}

fn address() -> impl Strategy<Value = [u8; 6]> {
    prop_oneof![4 => (1..6u8).prop_map(mac), 1 => Just(BROADCAST), 1 => Just([1, 0, 0x5e, 0, 0, 1])]
}

/// A frame with up to two tags, at times cut off or with bytes changed.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let ethertype =
        prop_oneof![3 => Just(0x0800u16), 1 => Just(0x86dd), 1 => Just(0x0806), 1 => Just(0x8847)];
    let damage =
        (prop::option::weighted(0.1, 0..70usize), prop::collection::vec((0..64usize, any::<u8>()), 0..2));
    let first = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..50),
        3 => Just(ip(mac(0), 7)[14..].to_vec()),
    ];
    (address(), ethertype, first, tag(), prop::option::weighted(0.2, tag()), damage).prop_map(
        |(dst, ethertype, payload, inner, outer, (cut, changed))| {
            let mut bytes = tagged(inner, &frame(dst, ethertype, &payload));
            if let Some(outer) = outer {
                bytes = tagged(outer, &bytes);
            }
            bytes.truncate(cut.unwrap_or(usize::MAX));
            if cut.is_some() {
                for (at, value) in changed {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = value;
                    }
                }
            }
            bytes
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Claim(Claim, u32),
    Release(usize),
    ReleaseOwner(u32),
    Default(Option<u32>),
    Tunnel(bool),
    Frames(Vec<Vec<u8>>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any_claim(), 0..5u32).prop_map(|(claim, owner)| Step::Claim(claim, owner)),
        2 => any::<usize>().prop_map(Step::Release),
        1 => (0..5u32).prop_map(Step::ReleaseOwner),
        1 => prop::option::of(0..5u32).prop_map(Step::Default),
        1 => any::<bool>().prop_map(Step::Tunnel),
        5 => prop::collection::vec(any_frame(), 0..20).prop_map(Step::Frames),
    ]
}

/// Whether the claims of a list can be told apart.
fn sound(claims: &BTreeMap<Claim, u32>) -> bool {
    claims.iter().all(|(a, x)| claims.iter().all(|(b, y)| a.tag != b.tag || x == y || a.mac.is_some()))
}

/// Splits the frames and compares.
fn check(model: &Model, table: &Table, reader: &mut demux::Reader, sorted: &mut Sorted, frames: &[Vec<u8>]) {
    let before = table.counts();
    reader.split(&mut batch(frames), sorted);
    let mut expected: Vec<(u32, Vec<Vec<u8>>)> = Vec::new();
    let mut counts = before;
    for frame in frames {
        match model.deliver(frame) {
            Err(Lost::Tag) => counts.nobody_tag += 1,
            Err(Lost::Address) => counts.nobody_address += 1,
            Err(Lost::Malformed) => counts.malformed += 1,
            Ok(to) => {
                counts.copies += to.len() as u64 - 1;
                for (owner, bytes) in to {
                    match expected.iter_mut().find(|e| e.0 == owner) {
                        Some(e) => e.1.push(bytes),
                        None => expected.push((owner, vec![bytes])),
                    }
                }
            }
        }
    }
    let mut got = taken(sorted);
    // The order of owners that get their first frame with the same broadcast is not said.
    let broadcast = frames.iter().any(|f| f.first().is_some_and(|b| b & 1 == 1))
        || frames.iter().any(|f| f.get(50).is_some_and(|b| b & 1 == 1));
    if broadcast {
        got.sort();
        expected.sort();
    }
    assert_eq!(got, expected);
    assert_eq!(table.counts(), counts);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_table_does_what_its_claims_say(steps in prop::collection::vec(step(), 1..40)) {
        let (table, mut model) = (Table::new(), Model::default());
        let (mut reader, mut sorted) = (table.reader(), Sorted::new());
        for step in steps {
            match step {
                Step::Claim(claim, owner) => {
                    let mut after = model.claims.clone();
                    let taken = *after.entry(claim).or_insert(owner) != owner;
                    let good = !taken && sound(&after);
                    prop_assert_eq!(table.claim(claim, owner).is_ok(), good);
                    if good {
                        model.claims = after;
                    }
                }
                Step::Release(nth) => {
                    let some = model.claims.keys().nth(nth % model.claims.len().max(1)).copied();
                    if let Some(claim) = some {
                        prop_assert_eq!(table.release(&claim).unwrap(), model.claims.remove(&claim));
                    }
                }
                Step::ReleaseOwner(owner) => {
                    table.release_owner(owner).unwrap();
                    model.claims.retain(|_, o| *o != owner);
                    model.default = model.default.filter(|&o| o != owner);
                }
                Step::Default(owner) => {
                    table.set_default(owner).unwrap();
                    model.default = owner;
                }
                Step::Tunnel(there) => {
                    table.set_tunnel(there.then(tunnel)).unwrap();
                    model.tunnel = there;
                }
                Step::Frames(frames) => check(&model, &table, &mut reader, &mut sorted, &frames),
            }
        }
    }

    /// Anything at all, as one might receive it: nothing panics, and every packet is somewhere or counted.
    #[test]
    fn arbitrary_bytes(
        claims in prop::collection::vec((any_claim(), 0..5u32), 0..20),
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..30),
        types in prop::collection::vec(0..8usize, 30),
        default in prop::option::of(0..9u32),
    ) {
        let table = Table::new();
        table.set_default(default).unwrap();
        table.set_tunnel(Some(tunnel())).unwrap();
        let mut model = Model { default, tunnel: true, ..Model::default() };
        for (claim, owner) in claims {
            if table.claim(claim, owner).is_ok() {
                model.claims.insert(claim, owner);
            }
        }
        const TYPES: [u16; 6] = [0x8100, 0x88a8, 0x9100, 0x8847, 0x0800, 0x86dd];
        let frames: Vec<Vec<u8>> = frames.into_iter().zip(types).map(|(mut frame, t)| {
            if let (Some(place), Some(t)) = (frame.get_mut(12..14), TYPES.get(t)) {
                place.copy_from_slice(&t.to_be_bytes());
            }
            frame
        }).collect();
        let (mut reader, mut sorted) = (table.reader(), Sorted::new());
        check(&model, &table, &mut reader, &mut sorted, &frames);
        let delivered = frames.iter().filter_map(|f| model.deliver(f).ok()).count() as u64;
        let Counts { nobody_tag, nobody_address, malformed, .. } = table.counts();
        prop_assert_eq!(delivered + nobody_tag + nobody_address + malformed, frames.len() as u64);
    }
}
