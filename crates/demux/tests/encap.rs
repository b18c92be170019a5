//! Tags put on, and what comes back when they are taken off.

mod common;

use common::*;
use demux::{Encap, Error, Sorted, Table, Tag, Tunnel, Unsent};
use dpdk::{Batch, Packet};
use proptest::prelude::*;
use wire::{Ethernet, Ipv4Packet, UdpDatagram};

const TAGS: [Tag; 5] = [Tag::None, Tag::Vlan(10), Tag::Qinq(100, 10), Tag::Mpls(16), Tag::Vni(5000)];

/// The tunnel as the other end sees it.
fn other_end() -> Tunnel {
    Tunnel::new(REMOTE.into(), THERE, LOCAL.into(), HERE)
}

fn put_on(encap: &Encap, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, Unsent) {
    let mut batch = batch(frames);
    let unsent = encap.put_on(&mut batch);
    (batch.iter().map(|p| p.data().to_vec()).collect(), unsent)
}

fn one(tag: Tag, frame: &[u8]) -> Vec<u8> {
    let encap = Encap::new(tag, Some(other_end())).unwrap();
    let (mut out, unsent) = put_on(&encap, &[frame.to_vec()]);
    assert_eq!((out.len(), unsent), (1, Unsent::default()));
    assert_eq!(out[0].len(), frame.len() + encap.added_len());
    out.remove(0)
}

#[test]
fn headers_are_those_of_the_standards() {
    let plain = ip(mac(1), 7);
    let (addresses, rest) = plain.split_at(12);
    let with = |bytes: &[u8], rest: &[u8]| [addresses, bytes, rest].concat();
    assert_eq!(one(Tag::None, &plain), plain);
    assert_eq!(one(Tag::Vlan(0x123), &plain), with(&[0x81, 0, 1, 0x23], rest));
    let double = [0x88, 0xa8, 0xf, 0xfe, 0x81, 0, 0, 1];
    assert_eq!(one(Tag::Qinq(4094, 1), &plain), with(&double, rest));
    // RFC 3032, section 2.1: label, traffic class, bottom of stack, TTL.
    assert_eq!(one(Tag::Mpls(0xabcde), &plain), with(&[0x88, 0x47, 0xab, 0xcd, 0xe1, 64], &rest[2..]));
    let six = frame(mac(1), 0x86dd, &[0x60; 50]);
    assert_eq!(one(Tag::Mpls(16), &six)[12..18], [0x88, 0x47, 0, 1, 1, 64]);
}

#[test]
fn a_tunnels_headers_are_sound() {
    for (checksum, extra) in [(false, 0), (true, 0), (true, 1)] {
        let tunnel = Tunnel { checksum, port: 8472, ttl: 9, ..other_end() };
        let encap = Encap::new(Tag::Vni(0x123456), Some(tunnel)).unwrap();
        let mut inner = ip(mac(1), 7);
        inner.resize(inner.len() + extra, 0xee);
        let (out, _) = put_on(&encap, std::slice::from_ref(&inner));
        let (ethernet, packet) = Ethernet::split(&out[0]).unwrap();
        assert_eq!((ethernet.dst().octets(), ethernet.src().octets()), (HERE, THERE));
        assert_eq!(ethernet.ethertype(), 0x0800);
        let ip = Ipv4Packet::parse(packet).unwrap();
        assert!(ip.verify_checksum());
        assert_eq!((ip.header().src().octets(), ip.header().dst().octets()), (REMOTE, LOCAL));
        assert_eq!((ip.header().ttl(), ip.header().dont_fragment()), (9, true));
        assert_eq!(usize::from(ip.header().total_len()), packet.len());
        let udp = UdpDatagram::parse(ip.payload()).unwrap();
        assert_eq!((udp.header().dst_port(), udp.header().src_port() >= 49152), (8472, true));
        assert_eq!(udp.header().checksum() != 0, checksum);
        assert!(udp.verify_checksum(ip.pseudo_sum()));
        assert_eq!(udp.payload()[..8], [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(udp.payload()[8..], inner);
    }
    assert_eq!(Encap::new(Tag::Vni(5), None).unwrap_err(), Error::NoTunnel(Tag::Vni(5)));
}

#[test]
fn the_source_port_is_the_flows() {
    let port = |frame: &[u8]| {
        let out = one(Tag::Vni(1), frame);
        u16::from_be_bytes([out[34], out[35]])
    };
    let udp = |version: u8, sport: u16, fragment: u8| {
        let head = match version {
            4 => ip(mac(1), 0)[14..34].to_vec(),
            _ => [&[0x60, 0, 0, 0, 0, 8, 17, 64][..], &[3; 32]].concat(),
        };
        let mut payload = [&head[..], &sport.to_be_bytes(), &[0, 53, 0, 8, 0, 0]].concat();
        if version == 4 {
            (payload[9], payload[6]) = (17, fragment);
        }
        frame(mac(1), if version == 4 { 0x0800 } else { 0x86dd }, &payload)
    };
    for version in [4, 6] {
        let mut ports: Vec<u16> = (0..200).map(|sport| port(&udp(version, sport, 0))).collect();
        assert_eq!(ports[5], port(&udp(version, 5, 0)));
        ports.sort_unstable();
        ports.dedup();
        assert!(ports.len() > 190, "IPv{version}: {} ports", ports.len());
    }
    // Ports are not read in a fragment, and what is no IP goes by its addresses.
    assert_eq!(port(&udp(4, 1, 0x20)), port(&udp(4, 2, 0x20)));
    assert_eq!(port(&frame(mac(1), 0x0806, &[1; 28])), port(&frame(mac(1), 0x0806, &[2; 28])));
    let mut ports: Vec<u16> = (0..50).map(|n| port(&frame(mac(n), 0x0806, &[1; 28]))).collect();
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() > 45, "{} ports", ports.len());
}

#[test]
fn a_packet_without_headroom_is_moved() {
    for tag in TAGS {
        let plain = ip(mac(1), 7);
        let mut packet = Packet::alloc(0, plain.len()).unwrap();
        packet.data_mut().copy_from_slice(&plain);
        packet.set_paint(3);
        assert_eq!(packet.headroom(), 0);
        let mut batch: Batch = [packet].into_iter().collect();
        let encap = Encap::new(tag, Some(other_end())).unwrap();
        assert_eq!(encap.put_on(&mut batch), Unsent::default());
        assert_eq!((batch[0].data(), batch[0].paint()), (&one(tag, &plain)[..], 3), "{tag}");
    }
}

#[test]
fn what_cannot_have_the_tag_is_freed_and_counted() {
    let good = ip(mac(1), 1);
    let arp = frame(mac(1), 0x0806, &[1; 28]);
    let wrong = frame(mac(1), 0x0800, &[0x60; 20]);
    let frames = [good.clone(), vec![2; 13], arp.clone(), vec![], wrong.clone(), good.clone()];
    for tag in TAGS.into_iter().skip(1) {
        let encap = Encap::new(tag, Some(other_end())).unwrap();
        let (out, unsent) = put_on(&encap, &frames);
        let label = matches!(tag, Tag::Mpls(_));
        let not_ip = if label { 2 } else { 0 };
        assert_eq!(unsent, Unsent { malformed: 2, not_ip, no_buffer: 0 }, "{tag}");
        assert_eq!((unsent.sum(), out.len() as u64), (2 + not_ip, 4 - not_ip));
        assert_eq!((&out[0], out.last()), (&one(tag, &good), Some(&one(tag, &good))));
    }
    // The largest that an IPv4 packet can hold, and one more.
    let encap = Encap::new(Tag::Vni(1), Some(other_end())).unwrap();
    let (out, unsent) = put_on(&encap, &[vec![2; 65535 - 36], vec![2; 65535 - 35]]);
    // The first would fit the packet, but there is no buffer for it with the outer Ethernet header.
    assert!(out.is_empty());
    assert_eq!((unsent.malformed, unsent.no_buffer), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// What this end puts on, the other takes off.
    #[test]
    fn there_and_back(
        nth in 0..TAGS.len(),
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20),
        ip_frames in prop::collection::vec(any::<u8>(), 0..20),
        checksum: bool,
    ) {
        let tag = TAGS[nth];
        let encap = Encap::new(tag, Some(Tunnel { checksum, ..other_end() })).unwrap();
        let table = Table::new();
        table.set_tunnel(Some(tunnel())).unwrap();
        table.claim(claim(tag), 1).unwrap();
        let frames: Vec<Vec<u8>> =
            frames.into_iter().chain(ip_frames.into_iter().map(|n| ip(mac(n), n))).collect();
        let mut batch = batch(&frames);
        let unsent = encap.put_on(&mut batch);
        prop_assert_eq!(batch.len() as u64 + unsent.sum(), frames.len() as u64);
        let sent = |f: &&Vec<u8>| match tag {
            Tag::Mpls(_) => f.len() > 14 && [[8, 0, 4], [0x86, 0xdd, 6]].contains(&[f[12], f[13], f[14] >> 4]),
            Tag::None => true,
            _ => f.len() >= 14,
        };
        let expected: Vec<Vec<u8>> = frames.iter().filter(sent).cloned().collect();
        prop_assert_eq!(batch.len(), expected.len());
        if tag != Tag::None {
            let (mut reader, mut sorted) = (table.reader(), Sorted::new());
            reader.split(&mut batch, &mut sorted);
            let got = taken(&mut sorted).into_iter().flat_map(|(_, frames)| frames).collect::<Vec<_>>();
            prop_assert_eq!(got, expected);
        }
    }
}
