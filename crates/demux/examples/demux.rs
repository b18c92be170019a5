//! Measures what splitting a batch by owner costs, in cycles of the processor's counter for each packet.
//!
//! `demux [--repeats N] [--batch N] [--only "VLAN 8"]` prints a line of JSON for each way to tell frames
//! apart and number of owners: the median over the repeats, in which all ways follow one another, of the time
//! from a received batch to the batches of all owners, visited in turn; and that without what it takes if
//! nobody looks at the frames. The frames of a batch are of random owners, and all of different ones where
//! there are enough. 512 packets are received before the first is split, so that no frame is in the
//! first-level cache.

use demux::{Claim, Encap, Reader, Sorted, Table, Tag, Tunnel};
use dpdk::{Batch, Packet, cycles};
use std::hint::black_box;
use std::time::Instant;

/// Packets that are received before the first is split.
const PACKETS: usize = 512;
/// How often the packets go round in one repeat.
const ROUNDS: usize = 20;

/// A way to tell frames apart.
#[derive(Clone, Copy)]
enum Way {
    /// Batches are handed over unseen.
    Whole,
    /// Handed over; each Ethernet header is read.
    Read,
    /// Split, by these tags.
    Split(fn(u32) -> Tag),
    /// Split by addresses.
    Address,
}

struct Case {
    name: &'static str,
    way: Way,
    owners: u32,
    _table: Table,
    reader: Reader,
    sorted: Sorted,
    /// Which owner each packet is for.
    order: Vec<u32>,
    encaps: Vec<Encap>,
    times: Vec<f64>,
}

fn tunnel() -> Tunnel {
    Tunnel::new([192, 0, 2, 1].into(), [2, 0, 0, 0, 9, 1], [192, 0, 2, 2].into(), [2, 0, 0, 0, 9, 2])
}

fn mac(owner: u32) -> [u8; 6] {
    let [_, _, a, b] = owner.to_be_bytes();
    [2, 0x5e, 0x10, 0, a, b]
}

/// Repeatable numbers.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Owners in an order in which as many in a row as possible are different.
fn order(owners: u32, state: &mut u64) -> Vec<u32> {
    let mut order = Vec::new();
    while order.len() < PACKETS {
        let mut all: Vec<u32> = (0..owners).collect();
        for at in (1..all.len()).rev() {
            all.swap(at, random(state) as usize % (at + 1));
        }
        order.extend(all);
    }
    order.truncate(PACKETS);
    // Among few owners runs shall occur too.
    if owners <= 64 / 4 {
        order.iter_mut().for_each(|owner| *owner = random(state) as u32 % owners);
    }
    order
}

fn case(name: &'static str, way: Way, owners: u32) -> Case {
    let table = Table::new();
    let tag = |owner| if let Way::Split(tag) = way { tag(owner) } else { Tag::None };
    let all = |change: &mut demux::Change| {
        change.set_tunnel(Some(tunnel()));
        (0..owners).try_for_each(|o| change.claim(Claim { tag: tag(o), mac: Some(mac(o)) }, o))
    };
    table.change(all).expect("all claims differ");
    // The headers of a packet that arrives are those that this end would send, the other way round.
    let back =
        Tunnel { local: tunnel().remote, remote: tunnel().local, remote_mac: tunnel().local_mac, ..tunnel() };
    let encap = |o| Encap::new(tag(o), Some(back)).expect("a good tag");
    let reader = table.reader();
    let mut state = 7;
    Case {
        name,
        way,
        owners,
        _table: table,
        reader,
        sorted: Sorted::new(),
        order: order(owners, &mut state),
        encaps: (0..owners).map(encap).collect(),
        times: Vec::new(),
    }
}

/// Makes each packet one that has just arrived, and deals them out.
fn receive(packets: &mut Batch, case: &Case, batches: &mut [Batch], size: usize) {
    let mut one = Batch::with_capacity(1);
    for (at, packet) in packets.drain(..).enumerate() {
        let mut packet = packet;
        let owner = case.order[at % case.order.len()];
        // 60 bytes where they are after the usual headroom and what tells them.
        let encap = &case.encaps[owner as usize];
        let strip = (dpdk::DEFAULT_HEADROOM + encap.added_len()) as isize - packet.headroom() as isize;
        if strip >= 0 {
            packet.strip(strip as usize);
        } else {
            packet.push_in_place(strip.unsigned_abs());
        }
        packet.take(packet.len().saturating_sub(60));
        packet.put_in_place(60 - packet.len());
        let dst = mac(owner);
        let data = packet.data_mut();
        data[..6].copy_from_slice(&dst);
        data[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        data[12..15].copy_from_slice(&[8, 0, 0x45]);
        data[15..].fill(0);
        one.push(packet);
        encap.put_on(&mut one);
        batches[at / size].extend(one.pop());
    }
}

/// Cycles a packet, once round.
fn round(packets: &mut Batch, case: &mut Case, batches: &mut [Batch], size: usize) -> u64 {
    receive(packets, case, batches, size);
    let mut total = 0;
    for batch in batches.iter_mut() {
        let start = cycles();
        match case.way {
            Way::Whole => {
                black_box(&mut *batch);
            }
            Way::Read => {
                let sum: u64 = batch.iter().map(|p| p.data().get(12).copied().map_or(0, u64::from)).sum();
                black_box(sum);
            }
            Way::Split(_) | Way::Address => {
                case.reader.split(batch, &mut case.sorted);
                for (owner, batch) in case.sorted.iter_mut() {
                    black_box((owner, batch));
                }
            }
        }
        total += cycles() - start;
        // They are sent.
        packets.append(batch);
        case.sorted.iter_mut().for_each(|(_, batch)| packets.append(batch));
    }
    assert!(!packets.is_empty(), "packets were lost");
    assert_eq!(case.reader.counts(), demux::Counts::default(), "every packet has an owner");
    total
}

/// Cycles a packet for putting a tag on.
fn putting_on(tag: Tag) -> f64 {
    let encap = Encap::new(tag, Some(tunnel())).expect("a good tag");
    let mut frame = [2; 60];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    let mut batch: Batch = (0..64).map(|_| Packet::from_bytes(&frame).expect("memory")).collect();
    let mut times: Vec<f64> = (0..1001)
        .map(|_| {
            let start = cycles();
            let unsent = encap.put_on(&mut batch);
            let time = (cycles() - start) as f64 / 64.0;
            assert_eq!(unsent.sum(), 0);
            for packet in &mut batch {
                packet.strip(encap.added_len());
                packet.data_mut()[..15].copy_from_slice(&frame[..15]);
            }
            time
        })
        .collect();
    median(&mut times)
}

/// Microseconds for a change among this many claims.
fn change(claims: u32) -> f64 {
    let table = Table::new();
    let claim = |n| Claim { tag: Tag::Qinq(1, n as u16 + 1), mac: Some(mac(n)) };
    let all = |change: &mut demux::Change| (0..claims).try_for_each(|n| change.claim(claim(n), n));
    table.change(all).expect("all claims differ");
    let mut times: Vec<f64> = (0..100)
        .map(|n| {
            let start = Instant::now();
            table.release(&claim(n % claims)).expect("nothing is taken");
            table.claim(claim(n % claims), n % claims).expect("it is free");
            start.elapsed().as_secs_f64() * 1e6 / 2.0
        })
        .collect();
    median(&mut times)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let value = arguments.iter().skip_while(|a| *a != name).nth(1);
        value.map_or(default, |v| v.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
    };
    let (repeats, size) = (number("--repeats", 101), number("--batch", 64).clamp(1, PACKETS));
    let mut cases = vec![case("none", Way::Whole, 1), case("read", Way::Read, 1)];
    for owners in [1, 8, 64, 1024] {
        cases.push(case("VLAN", Way::Split(|o| Tag::Vlan(o as u16 + 1)), owners));
    }
    for owners in [8, 1024] {
        cases.push(case("address", Way::Address, owners));
        cases.push(case("QinQ", Way::Split(|o| Tag::Qinq(7, o as u16 + 1)), owners));
        cases.push(case("MPLS", Way::Split(|o| Tag::Mpls(o + 16)), owners));
        cases.push(case("VXLAN", Way::Split(|o| Tag::Vni(o + 5000)), owners));
    }
    if let Some(only) = arguments.iter().skip_while(|a| *a != "--only").nth(1) {
        cases.retain(|case| case.name == "none" || format!("{} {}", case.name, case.owners) == *only);
    }
    let packets_n = number("--packets", PACKETS);
    let mut packets: Batch = (0..packets_n).map(|_| Packet::from_bytes(&[0; 60]).expect("memory")).collect();
    let mut batches: Vec<Batch> = (0..packets_n.div_ceil(size)).map(|_| Batch::with_capacity(size)).collect();
    for repeat in 0..=repeats {
        for case in &mut cases {
            let total: u64 = (0..ROUNDS).map(|_| round(&mut packets, case, &mut batches, size)).sum();
            // The first one warms everything up.
            if repeat != 0 {
                case.times.push(total as f64 / (ROUNDS * packets_n) as f64);
            }
        }
    }
    let handing_over = median(&mut cases[0].times);
    for case in &mut cases {
        let (name, owners) = (case.name, case.owners);
        let cycles = median(&mut case.times);
        println!(
            r#"{{"way": "{name}", "owners": {owners}, "batch": {size}, "cycles": {cycles:.1}, "least": {:.1}, "more": {:.1}}}"#,
            case.times[0],
            cycles - handing_over
        );
    }
    for tag in [Tag::Vlan(5), Tag::Qinq(5, 6), Tag::Mpls(16), Tag::Vni(5000)] {
        println!(r#"{{"put_on": "{tag}", "cycles": {:.1}}}"#, putting_on(tag));
    }
    for claims in [1, 1000, 4000] {
        println!(r#"{{"change": "among claims", "claims": {claims}, "us": {:.1}}}"#, change(claims));
    }
}
