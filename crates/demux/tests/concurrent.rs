//! A table that is changed while several readers split batches.

mod common;

use common::*;
use demux::{Claim, Sorted, Table, Tag};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

const FIXED: u32 = 8;

/// The frames of a tag that is not changed all arrive, in order, and those of the others arrive at an owner
/// that had the tag at some time; one batch sees a change of two claims as a whole.
#[test]
fn changes_while_batches_are_split() {
    let table = Table::new();
    let all = |change: &mut demux::Change| {
        (0..FIXED).try_for_each(|n| change.claim(claim(Tag::Vlan(n as u16 + 1)), n))?;
        change.claim(claim(Tag::Vlan(100)), 100)?;
        change.claim(claim(Tag::Vlan(101)), 100)
    };
    table.change(all).unwrap();
    let stop = AtomicBool::new(false);
    let rounds = if cfg!(miri) { 20 } else { 5000 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut reader, mut sorted) = (table.reader(), Sorted::new());
                let mut moves = 0;
                let mut last = 0;
                let mut done = 0;
                while !stop.load(Relaxed) || done < 10 {
                    done += 1;
                    let frames: Vec<Vec<u8>> = (0..32u16)
                        .map(|n| {
                            let tag = match n % 4 {
                                0 => 100,
                                1 => 101,
                                2 => 102,
                                _ => n / 4 + 1,
                            };
                            tagged(Tag::Vlan(tag), &ip(mac(1), n as u8))
                        })
                        .collect();
                    reader.split(&mut batch(&frames), &mut sorted);
                    let mut moving = Vec::new();
                    let mut fixed = 0;
                    for (owner, frames) in taken(&mut sorted) {
                        let numbers: Vec<u8> = frames.iter().map(|f| f[f.len() - 1]).collect();
                        assert!(numbers.is_sorted(), "{numbers:?}");
                        if owner < FIXED {
                            assert_eq!(numbers, [owner as u8 * 4 + 3]);
                            fixed += 1;
                        } else if owner < 1000 {
                            // Both tags have one owner at any time.
                            assert_eq!(numbers.len(), 16);
                            moving.push(owner);
                        }
                    }
                    assert_eq!((fixed, moving.len()), (FIXED, 1), "{moving:?}");
                    moves += u32::from(moving[0] != last);
                    last = moving[0];
                }
                assert!(moves > 0);
            });
        }
        for round in 0..rounds {
            let owner = 100 + round % 900;
            let both = |change: &mut demux::Change| {
                for tag in [100, 101].map(Tag::Vlan) {
                    change.release(&claim(tag));
                    change.claim(claim(tag), owner)?;
                }
                // One that comes and goes.
                match round % 2 {
                    0 => change.claim(claim(Tag::Vlan(102)), 1000 + round),
                    _ => {
                        change.release(&claim(Tag::Vlan(102)));
                        Ok(())
                    }
                }
            };
            table.change(both).unwrap();
            if round % 64 == 0 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Relaxed);
    });
    // The readers are gone, their counts are not.
    assert!(table.is_settled());
    assert!(table.counts().nobody_tag > 0 || rounds < 100);
}

/// Printed, not asserted: what a change costs.
#[test]
fn a_change_among_many_claims() {
    let table = Table::new();
    let many = if cfg!(miri) { 50 } else { 1000 };
    let claim = |n: u32| match n % 4 {
        0 => Claim { tag: Tag::None, mac: Some([2, 0, 0, 1, (n >> 8) as u8, n as u8]) },
        1 => claim(Tag::Vlan(n as u16)),
        2 => claim(Tag::Qinq(1, n as u16)),
        _ => claim(Tag::Mpls(n + 16)),
    };
    table.change(|change| (0..many).try_for_each(|n| change.claim(claim(n), n))).unwrap();
    let start = Instant::now();
    for n in 0..100 {
        table.release(&claim(n % many)).unwrap();
        table.claim(claim(n % many), n % many).unwrap();
    }
    println!("a change among {many} claims: {:?}", start.elapsed() / 200);
    assert_eq!(table.claims().len(), many as usize);
}
