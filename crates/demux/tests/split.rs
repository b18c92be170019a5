//! Batches split by owner, by hand.

mod common;

use common::*;
use demux::{Claim, Counts, Error, Sorted, Table, Tag};
use dpdk::{Batch, Fault, Packet};

const TAGS: [Tag; 5] = [Tag::None, Tag::Vlan(10), Tag::Qinq(100, 10), Tag::Mpls(16), Tag::Vni(5000)];

fn table(claims: &[(Claim, u32)]) -> Table {
    let table = Table::new();
    let all = |change: &mut demux::Change| {
        change.set_tunnel(Some(tunnel()));
        claims.iter().try_for_each(|(claim, owner)| change.claim(*claim, *owner))
    };
    table.change(all).unwrap();
    table
}

/// What becomes of these frames.
fn split(table: &Table, frames: &[Vec<u8>]) -> Vec<(u32, Vec<Vec<u8>>)> {
    let (mut reader, mut sorted) = (table.reader(), Sorted::new());
    reader.split(&mut batch(frames), &mut sorted);
    taken(&mut sorted)
}

#[test]
fn every_tag_is_taken_off() {
    for tag in TAGS {
        let table = table(&[(claim(tag), 7)]);
        let plain = ip(mac(1), 1);
        assert_eq!(split(&table, &[tagged(tag, &plain)]), [(7, vec![plain.clone()])], "{tag}");
        // Nobody has the other tags.
        for other in TAGS.into_iter().filter(|&t| t != tag) {
            let frame = tagged(other, &plain);
            let out = split(&table, std::slice::from_ref(&frame));
            // Without a claim to any label or VNI such frames have no tag.
            if tag == Tag::None && matches!(other, Tag::Mpls(_) | Tag::Vni(_)) {
                assert_eq!(out, [(7, vec![frame])]);
            } else {
                assert!(out.is_empty(), "{tag}: {other}");
            }
        }
    }
}

#[test]
fn all_tags_at_once_in_order_of_first_arrival() {
    let claims: Vec<_> = TAGS.into_iter().zip(10..).map(|(tag, owner)| (claim(tag), owner)).collect();
    let table = table(&claims);
    let order = [3, 1, 3, 0, 4, 2, 1, 4, 4, 0, 3];
    let numbered = |(at, _): (usize, &usize)| ip(mac(1), at as u8);
    let frames: Vec<Vec<u8>> = order
        .iter()
        .enumerate()
        .map(|(at, &tag): (usize, &usize)| tagged(TAGS[tag], &numbered((at, &tag))))
        .collect();
    let out = split(&table, &frames);
    let owners: Vec<u32> = out.iter().map(|o| o.0).collect();
    assert_eq!(owners, [13, 11, 10, 14, 12]);
    for (owner, got) in out {
        let at = order.iter().enumerate().filter(|(_, tag)| 10 + **tag as u32 == owner);
        assert_eq!(got, at.map(numbered).collect::<Vec<_>>(), "{owner}");
    }
}

#[test]
fn a_tag_of_one_owner_is_his_whatever_the_address() {
    let table = table(&[(claim_for(Tag::Vlan(5), 1), 1), (claim_for(Tag::Vlan(5), 2), 1)]);
    let frames = [mac(1), mac(2), mac(3), BROADCAST].map(|dst| ip(dst, 0));
    let out = split(&table, &frames.each_ref().map(|f| tagged(Tag::Vlan(5), f)));
    assert_eq!(out, [(1, frames.to_vec())]);
}

#[test]
fn a_shared_tag_goes_by_address_and_broadcasts_to_each() {
    for tag in TAGS {
        let table = table(&[(claim_for(tag, 1), 1), (claim_for(tag, 2), 2), (claim_for(tag, 3), 1)]);
        let frames = [mac(2), mac(1), BROADCAST, mac(3), [1, 0, 0x5e, 0, 0, 5]].map(|dst| ip(dst, 0));
        let tagged = frames.each_ref().map(|f| tagged(tag, f));
        let [two, one, all, three, multicast] = frames;
        let mut reader = table.reader();
        let mut sorted = Sorted::new();
        reader.split(&mut batch(&tagged), &mut sorted);
        let expected =
            [(2, vec![two, all.clone(), multicast.clone()]), (1, vec![one, all, three, multicast])];
        assert_eq!(taken(&mut sorted), expected, "{tag}");
        assert_eq!(reader.counts(), Counts { copies: 2, ..Counts::default() });
        assert_eq!(split(&table, &[common::tagged(tag, &ip(mac(9), 0))]), []);
        assert_eq!(table.counts(), Counts { copies: 2, nobody_address: 1, ..Counts::default() });
    }
}

#[test]
fn the_default_owner_gets_the_rest_as_it_is() {
    let shared = [(claim_for(Tag::None, 1), 1), (claim_for(Tag::None, 2), 2), (claim(Tag::Mpls(16)), 3)];
    let table = table(&shared);
    table.set_default(Some(9)).unwrap();
    let plain = ip(mac(8), 0);
    let mut stack = tagged(Tag::Mpls(16), &plain);
    stack[16] &= !1; // not the bottom of the stack
    let mut rest: Vec<Vec<u8>> =
        [Tag::Vlan(1), Tag::Qinq(1, 2), Tag::Mpls(17)].map(|tag| tagged(tag, &plain)).to_vec();
    rest.extend([plain, stack]);
    assert_eq!(split(&table, &rest), [(9, rest.clone())]);
    assert_eq!(table.counts(), Counts::default());
    // He may have claims of his own.
    table.set_default(Some(1)).unwrap();
    let mine = ip(mac(1), 0);
    assert_eq!(split(&table, &[rest[0].clone(), mine.clone()]), [(1, vec![rest[0].clone(), mine])]);
    table.set_default(None).unwrap();
    assert_eq!(split(&table, &rest), []);
    assert_eq!(table.counts(), Counts { nobody_tag: 4, nobody_address: 1, ..Counts::default() });
}

#[test]
fn a_whole_port_is_not_looked_at() {
    let table = Table::new();
    table.set_default(Some(4)).unwrap();
    let frames: Vec<Vec<u8>> = (0..40).map(|n| vec![0x81; n]).collect();
    assert_eq!(split(&table, &frames), [(4, frames)]);
}

#[test]
fn vlan_0_is_no_vlan_and_4095_is_nobodys() {
    let table = table(&[(claim(Tag::None), 1)]);
    let plain = ip(mac(1), 3);
    assert_eq!(split(&table, &[tagged(Tag::Vlan(0), &plain)]), [(1, vec![plain.clone()])]);
    assert_eq!(split(&table, &[tagged(Tag::Vlan(4095), &plain)]), []);
    assert_eq!(table.counts().nobody_tag, 1);
}

#[test]
fn other_ways_to_write_two_tags() {
    let table = table(&[(claim(Tag::Qinq(100, 10)), 1), (claim(Tag::Vlan(100)), 2)]);
    let plain = ip(mac(1), 0);
    let inner = tagged(Tag::Vlan(10), &plain);
    for outer in [[0x81, 0], [0x91, 0], [0x88, 0xa8]] {
        let mut frame = tagged(Tag::Vlan(100), &inner);
        frame[12..14].copy_from_slice(&outer);
        assert_eq!(split(&table, &[frame]), [(1, vec![plain.clone()])]);
    }
    // Another inner VLAN is the content of the outer one if that is an ordinary one.
    let other = tagged(Tag::Vlan(11), &plain);
    assert_eq!(split(&table, &[tagged(Tag::Vlan(100), &other)]), [(2, vec![other])]);
    assert_eq!(split(&table, &[tagged(Tag::Qinq(100, 11), &plain)]), []);
    // Without claims to double tags all of it is content.
    let table = crate::table(&[(claim(Tag::Vlan(100)), 2)]);
    assert_eq!(split(&table, &[tagged(Tag::Vlan(100), &inner)]), [(2, vec![inner])]);
}

#[test]
fn copies_are_bounded_and_everybody_has_a_turn() {
    let claims: Vec<(Claim, u32)> = (0..10).map(|n| (claim_for(Tag::None, n), n.into())).collect();
    let table = table(&claims);
    let (mut reader, mut sorted) = (table.reader(), Sorted::new());
    sorted.set_most_copies(3);
    let mut got = [0; 10];
    for _ in 0..5 {
        reader.split(&mut batch(&[ip(BROADCAST, 0)]), &mut sorted);
        sorted.iter_mut().for_each(|(owner, batch)| got[owner as usize] += batch.len());
    }
    assert_eq!(got, [2; 10]);
    assert_eq!(reader.counts(), Counts { copies: 15, too_many_copies: 30, ..Counts::default() });
}

#[test]
fn a_copy_without_a_buffer_is_counted() {
    let claims: Vec<(Claim, u32)> = (0..4).map(|n| (claim_for(Tag::Vlan(1), n), n.into())).collect();
    let table = table(&claims);
    let (mut reader, mut sorted) = (table.reader(), Sorted::new());
    let mut frames = batch(&[tagged(Tag::Vlan(1), &ip(BROADCAST, 0))]);
    Fault::Heap.order(2, 10);
    reader.split(&mut frames, &mut sorted);
    Fault::Heap.clear();
    assert_eq!(taken(&mut sorted).len(), 2);
    let counts = reader.counts();
    assert_eq!(counts, Counts { copies: 1, no_buffer: 2, ..Counts::default() });
    assert_eq!(counts.lost(), 2);
    // Those who got nothing are the first to get the next one.
    reader.split(&mut batch(&[tagged(Tag::Vlan(1), &ip(BROADCAST, 0))]), &mut sorted);
    let owners: Vec<u32> = taken(&mut sorted).iter().map(|o| o.0).collect();
    assert_eq!(owners, [2, 3, 0, 1]);
}

#[test]
fn what_is_left_in_the_batches_is_freed_and_the_memory_kept() {
    let table = table(&[(claim(Tag::Vlan(1)), 1), (claim(Tag::Vlan(2)), 2)]);
    let (mut reader, mut sorted) = (table.reader(), Sorted::new());
    let frames = [1, 2].map(|id| tagged(Tag::Vlan(id), &ip(mac(1), 0)));
    let mut received = batch(&frames);
    reader.split(&mut received, &mut sorted);
    assert!(received.is_empty() && received.capacity() >= 2);
    assert_eq!((sorted.len(), sorted.is_empty()), (2, false));
    assert_eq!(dpdk::count_freed(|| reader.split(&mut Batch::new(), &mut sorted)), 2);
    assert!(sorted.is_empty());
    reader.split(&mut batch(&frames[..1]), &mut sorted);
    assert_eq!(dpdk::count_freed(|| sorted.clear()), 1);
}

#[test]
fn claims_that_are_refused() {
    let table = Table::new();
    for tag in [
        Tag::Vlan(0),
        Tag::Vlan(4095),
        Tag::Qinq(0, 1),
        Tag::Qinq(1, 4095),
        Tag::Mpls(15),
        Tag::Mpls(1 << 20),
        Tag::Vni(1 << 24),
    ] {
        assert_eq!(table.claim(claim(tag), 1), Err(Error::NoSuchTag(tag)));
        assert!(demux::Encap::new(tag, Some(tunnel())).is_err());
    }
    for mac in [BROADCAST, [0; 6], [1, 0, 0, 0, 0, 0]] {
        let claim = Claim { tag: Tag::None, mac: Some(mac) };
        assert_eq!(table.claim(claim, 1), Err(Error::NoHostAddress(mac.into())));
    }
    let mine = claim(Tag::Vlan(1));
    table.claim(mine, 1).unwrap();
    table.claim(mine, 1).unwrap();
    assert_eq!(table.claim(mine, 2), Err(Error::Taken { claim: mine, owner: 1 }));
    assert_eq!(table.claim(claim_for(Tag::Vlan(1), 2), 2), Err(Error::NeedsAddress(Tag::Vlan(1))));
    assert_eq!(table.claims(), [(mine, 1)]);
    assert_eq!(table.release(&mine), Ok(Some(1)));
    assert_eq!(table.release(&mine), Ok(None));
    table.claim(claim_for(Tag::Vlan(1), 1), 1).unwrap();
    table.claim(claim_for(Tag::Vlan(1), 2), 2).unwrap();
    table.set_default(Some(1)).unwrap();
    assert_eq!(table.release_owner(1), Ok(1));
    assert_eq!(table.claims(), [(claim_for(Tag::Vlan(1), 2), 2)]);
    assert_eq!(table.change(|c| Ok(c.default_owner())), Ok(None));
    let taken = Error::Taken { claim: mine, owner: 1 };
    assert_eq!(taken.to_string(), "VLAN 1: owner 1 has it");
}

#[test]
fn a_released_owner_gets_nothing_more() {
    let table = table(&[(claim(Tag::Vlan(1)), 1)]);
    let (mut reader, mut idle, mut sorted) = (table.reader(), table.reader(), Sorted::new());
    assert!(table.is_settled());
    table.release_owner(1).unwrap();
    assert!(!table.is_settled());
    idle.refresh();
    reader.split(&mut batch(&[tagged(Tag::Vlan(1), &ip(mac(1), 0))]), &mut sorted);
    assert!(sorted.is_empty() && table.is_settled());
    drop(reader);
    let _another = table.reader();
    assert_eq!(table.counts().nobody_tag, 1);
}

#[test]
fn frames_that_are_cut_off() {
    let claims: Vec<_> = TAGS.into_iter().zip(0..).map(|(tag, owner)| (claim(tag), owner)).collect();
    let table = table(&claims);
    let model = Model { claims: claims.iter().copied().collect(), default: None, tunnel: true };
    let (mut reader, mut sorted) = (table.reader(), Sorted::new());
    for (tag, owner) in TAGS.into_iter().zip(0..) {
        let whole = tagged(tag, &ip(mac(1), 0));
        for len in 0..=whole.len() {
            let packet = Packet::from_bytes(&whole[..len]).unwrap();
            let before = reader.counts();
            reader.split(&mut [packet].into_iter().collect(), &mut sorted);
            let got = taken(&mut sorted);
            match model.deliver(&whole[..len]) {
                Ok(to) => assert_eq!(got, [(to[0].0, vec![to[0].1.clone()])], "{tag} {len}"),
                Err(lost) => {
                    assert_eq!((got, lost), (vec![], Lost::Malformed), "{tag} {len}");
                    assert_eq!(reader.counts().malformed, before.malformed + 1);
                }
            }
            if len == whole.len() {
                assert_eq!(model.deliver(&whole).unwrap()[0].0, owner);
            }
        }
    }
}

type Damage<'a> = &'a dyn Fn(&mut [u8]);

/// What is not between the tunnel's ends has no tag; what is, but is damaged, is dropped.
#[test]
fn what_a_tunnel_takes() {
    let table = table(&[(claim(Tag::Vni(5000)), 1), (claim(Tag::None), 2)]);
    let good = tagged(Tag::Vni(5000), &ip(mac(1), 0));
    // The change, made good by a right checksum of the IPv4 header.
    let changed = |change: Damage<'_>| {
        let mut frame = good.clone();
        change(&mut frame);
        wire::ipv4::fill_header(&mut frame[14..34]);
        frame
    };
    assert_eq!(split(&table, &[changed(&|_| ())])[0].0, 1);
    let others: [Damage<'_>; 6] =
        [&|f| f[29] ^= 1, &|f| f[33] ^= 1, &|f| f[37] ^= 1, &|f| f[23] = 6, &|f| f[20] |= 0x20, &|f| {
            f[0] |= 1
        }];
    for (nth, change) in others.iter().enumerate() {
        let frame = changed(change);
        assert_eq!(split(&table, std::slice::from_ref(&frame)), [(2, vec![frame])], "{nth}");
    }
    assert_eq!(table.counts(), Counts::default());
    let mut bad = vec![changed(&|f| f[42] = 0), changed(&|f| f[40] = 1), changed(&|f| f[38] = 0xff)];
    bad.push(good.clone());
    bad[3][24] ^= 1; // the checksum
    bad.push(tagged(Tag::Vni(5000), &[2; 13]));
    for (nth, frame) in (1..).zip(bad) {
        assert_eq!(split(&table, &[frame]), [], "{nth}");
        assert_eq!(table.counts().malformed, nth);
    }
    assert_eq!(split(&table, &[tagged(Tag::Vni(5000), &[2; 14])]), [(1, vec![vec![2; 14]])]);
    assert_eq!(split(&table, &[tagged(Tag::Vni(5001), &[2; 14])]), []);
    assert_eq!(table.counts().nobody_tag, 1);
}
