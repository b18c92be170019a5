//! Tests of the translation, through the two elements that do nothing else.

use super::FRAGMENT_LEN;
use crate::testing::Bench;
use wire::checksum::{combine, pseudo_v4, pseudo_v6, sum};
use wire::{Ipv4, Ipv6, icmpv4, icmpv6, ipv4};

fn four(protocol: u8, payload: &[u8], change: impl FnOnce(&mut Ipv4<[u8; 20]>)) -> Vec<u8> {
    let mut h = Ipv4::build([192, 0, 2, 1].into(), [198, 51, 100, 2].into(), protocol, payload.len());
    h.set_dont_fragment(true);
    change(&mut h);
    h.fill_checksum();
    [&h.bytes()[..], payload].concat()
}
fn six(next: u8, payload: &[u8], change: impl FnOnce(&mut Ipv6<[u8; 40]>)) -> Vec<u8> {
    let a = |text: &str| text.parse().unwrap();
    let mut h = Ipv6::build(a("64:ff9b::c000:201"), a("64:ff9b::c633:6402"), next, payload.len() as u16);
    change(&mut h);
    [&h.bytes()[..], payload].concat()
}
/// Fills in the checksum at `at`.
fn checked(mut t: Vec<u8>, pseudo: u16, at: usize) -> Vec<u8> {
    let check = !combine(pseudo, sum(&t));
    t[at..at + 2].copy_from_slice(&check.to_be_bytes());
    t
}
fn of4(packet: &[u8]) -> (Ipv4<&[u8; 20]>, &[u8]) {
    let (h, t) = Ipv4::split(packet).unwrap();
    assert!(h.verify_checksum() && usize::from(h.total_len()) == packet.len());
    (h, t)
}
fn of6(packet: &[u8]) -> (Ipv6<&[u8; 40]>, &[u8]) {
    let (h, t) = Ipv6::split(packet).unwrap();
    assert_eq!((h.version(), usize::from(h.payload_len())), (6, t.len()));
    (h, t)
}
fn is_right6(packet: &[u8]) -> bool {
    let (h, t) = of6(packet);
    combine(h.pseudo_sum(t.len() as u32), sum(t)) == 0xffff
}
fn is_right4(packet: &[u8]) -> bool {
    let (h, t) = of4(packet);
    let pseudo = if h.protocol() == 1 { 0 } else { h.pseudo_sum(t.len() as u16) };
    combine(pseudo, sum(t)) == 0xffff
}
fn to6() -> Bench {
    Bench::new("ProtocolTranslator46(PREFIX 64:ff9b::/96)")
}
fn to4() -> Bench {
    Bench::new("ProtocolTranslator64(PREFIX 64:ff9b::/96)")
}
fn one(bench: &mut Bench, bytes: &[u8]) -> Vec<u8> {
    let mut out = bench.push(0, bytes);
    assert_eq!(out.len(), 1, "{:?}", bench.drops());
    out.remove(0).1
}
/// The reason why a packet is dropped.
fn dropped(declaration: &str, bytes: &[u8]) -> String {
    let mut bench = Bench::new(declaration);
    assert!(bench.push(0, bytes).is_empty());
    bench.drops()[0].0.clone()
}

/// A transport header and data of each protocol, without checksum, and where that is.
fn transports(data: usize) -> Vec<(u8, Vec<u8>, usize)> {
    let data: Vec<u8> = (0..data).map(|n| n as u8).collect();
    let mut tcp = vec![0x12, 0x34, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x10, 1, 1, 0, 0, 0, 0];
    tcp.extend(&data);
    let mut udp = vec![0x12, 0x34, 0, 53, 0, 0, 0, 0];
    udp.extend(&data);
    let len = udp.len() as u16;
    udp[4..6].copy_from_slice(&len.to_be_bytes());
    vec![(6, tcp, 16), (17, udp, 6)]
}

#[test]
fn both_ways_change_addresses_and_keep_checksums_right() {
    for n in [0, 1, 7, 100, 1201] {
        for (protocol, t, at) in transports(n) {
            let pseudo = pseudo_v4([192, 0, 2, 1].into(), [198, 51, 100, 2].into(), protocol, t.len() as u16);
            let t = checked(t, pseudo, at);
            let bytes = four(protocol, &t, |h| {
                h.set_tos(0xb9);
                h.set_ttl(17);
            });
            let made = one(&mut to6(), &bytes);
            let (h, t6) = of6(&made);
            assert_eq!(h.src().to_string(), "64:ff9b::c000:201");
            assert_eq!(h.dst().to_string(), "64:ff9b::c633:6402");
            assert_eq!((h.traffic_class(), h.hop_limit(), h.next_header()), (0xb9, 17, protocol));
            assert_eq!(t6.len(), t.len());
            assert!(is_right6(&made), "{protocol} {n}");
            let back = one(&mut to4(), &made);
            assert!(is_right4(&back));
            assert_eq!(back[20..], bytes[20..]);
            let (a, b) = (of4(&back).0, of4(&bytes).0);
            assert_eq!((a.src(), a.dst(), a.tos(), a.ttl()), (b.src(), b.dst(), b.tos(), b.ttl()));
            // Packets that IPv6 may not be told to shorten may be fragmented.
            assert_eq!(a.dont_fragment(), back.len() > 1260);
        }
    }
}

#[test]
fn pings() {
    for (n, kind4, kind6) in [(0, 8, 128), (9, 0, 129), (32, 8, 128)] {
        let mut message = vec![kind4, 0, 0, 0, 0x77, 1, 0, 5];
        message.extend(vec![0xab; n]);
        let bytes = four(1, &checked(message, 0, 2), |_| ());
        let made = one(&mut to6(), &bytes);
        assert_eq!((of6(&made).0.next_header(), of6(&made).1[0]), (58, kind6));
        assert!(is_right6(&made));
        let back = one(&mut to4(), &made);
        assert!(is_right4(&back));
        assert_eq!(back[20..], bytes[20..]);
    }
}

#[test]
fn udp_without_checksum_gets_one() {
    let (_, t, _) = transports(5).remove(1);
    let made = one(&mut to6(), &four(17, &t, |_| ()));
    assert!(is_right6(&made) && of6(&made).1[6..8] != [0, 0]);
    // Padding of the link is no part of the datagram.
    let padded = [four(17, &t, |_| ()), vec![9; 20]].concat();
    assert_eq!(one(&mut to6(), &padded), made);
    let fragment = four(17, &t, |h| h.set_flags_fragment(ipv4::FLAG_MF));
    assert_eq!(dropped("ProtocolTranslator46", &fragment), "UDP fragment without checksum");
    let mut wrong = t.clone();
    wrong[5] = 200;
    assert_eq!(dropped("ProtocolTranslator46", &four(17, &wrong, |_| ())), "bad packet length");
}

#[test]
fn fragments_have_a_fragment_header() {
    let later = four(17, &[7; 16], |h| {
        h.set_flags_fragment(ipv4::FLAG_MF | 185);
        h.set_id(0xbeef);
    });
    let made = one(&mut to6(), &later);
    let (h, rest) = of6(&made);
    assert_eq!(h.next_header(), 44);
    assert_eq!(rest[..FRAGMENT_LEN], [17, 0, 0x05, 0xc9, 0, 0, 0xbe, 0xef]);
    let back = one(&mut to4(), &made);
    let (h, rest) = of4(&back);
    assert_eq!((h.id(), h.flags_fragment(), rest), (0xbeef, ipv4::FLAG_MF | 185, &[7; 16][..]));
}

/// A packet without Don't Fragment is cut so that every link of IPv6 carries the pieces.
#[test]
fn long_packets_are_cut() {
    let (protocol, t, at) = transports(3000).remove(1);
    let pseudo = pseudo_v4([192, 0, 2, 1].into(), [198, 51, 100, 2].into(), protocol, t.len() as u16);
    let t = checked(t, pseudo, at);
    let mut bench = to6();
    let free = |h: &mut Ipv4<[u8; 20]>| {
        h.set_dont_fragment(false);
        h.set_id(9);
    };
    let out = bench.push(0, &four(protocol, &t, free));
    let mut whole = Vec::new();
    for (n, (_, piece)) in out.iter().enumerate() {
        let (h, rest) = of6(piece);
        assert!(piece.len() <= 1280 && h.next_header() == 44);
        assert_eq!(rest[4..8], [0, 0, 0, 9]);
        let place = u16::from_be_bytes([rest[2], rest[3]]);
        assert_eq!(usize::from(place & !7), whole.len());
        assert_eq!(place & 1 != 0, n + 1 < out.len());
        whole.extend_from_slice(&rest[8..]);
    }
    assert_eq!((out.len(), whole.len()), (3, t.len()));
    assert!(is_right6(&six(protocol, &whole, |_| ())));
    // The longest packet of IPv4 does not fit one of IPv6, with its longer header.
    for len in [65_496 - 8, 65_515 - 8] {
        let t = transports(len).remove(1).1;
        let out = to6().push(0, &four(protocol, &t, free));
        let sent: usize = out.iter().map(|(_, piece)| of6(piece).1.len() - 8).sum();
        assert_eq!((sent, out.last().map(|(_, piece)| of6(piece).1[3] & 1)), (t.len(), Some(0)));
        let whole: Vec<u8> = out.iter().flat_map(|(_, piece)| of6(piece).1[8..].to_vec()).collect();
        assert_eq!((&whole[..4], &whole[8..]), (&t[..4], &t[8..]));
        let mut longest = four(protocol, &t, |_| ());
        assert_eq!(dropped("ProtocolTranslator46", &longest), "packet too long");
        longest.truncate(65_535 - 20);
        longest[2..4].copy_from_slice(&65_515u16.to_be_bytes());
        longest[24..26].copy_from_slice(&65_495u16.to_be_bytes());
        assert_eq!(one(&mut Bench::new("ProtocolTranslator46"), &longest).len(), 65_535);
    }
    // With Don't Fragment it stays whole.
    assert_eq!(one(&mut to6(), &four(protocol, &t, |_| ())).len(), 40 + t.len());
}

#[test]
fn errors_have_a_translated_packet_inside() {
    let about = |kind: u8, code: u8, rest: u32, inside: Vec<u8>| {
        let mut m = vec![kind, code, 0, 0];
        m.extend(rest.to_be_bytes());
        m.extend(inside);
        m
    };
    let (_, t, at) = transports(20).remove(1);
    let turned = |h: &mut Ipv4<[u8; 20]>| {
        let (src, dst) = (h.src(), h.dst());
        h.set_src(dst);
        h.set_dst(src);
    };
    let pseudo = pseudo_v4([198, 51, 100, 2].into(), [192, 0, 2, 1].into(), 17, t.len() as u16);
    let inside = four(17, &checked(t, pseudo, at), turned);
    for (kind, code, rest, want) in [
        (3, 0, 0, Some((1, 0, 0))),
        (3, 1, 0, Some((1, 0, 0))),
        (3, 2, 0, Some((4, 1, 6))),
        (3, 3, 0, Some((1, 4, 0))),
        (3, 4, 1400, Some((2, 0, 1420))),
        (3, 4, 600, Some((2, 0, 1280))),
        (3, 4, 0, Some((2, 0, 1280))),
        (3, 10, 0, Some((1, 1, 0))),
        (3, 13, 0, Some((1, 1, 0))),
        (3, 14, 0, None),
        (4, 0, 0, None),
        (5, 1, 0, None),
        (11, 0, 0, Some((3, 0, 0))),
        (11, 1, 0, Some((3, 1, 0))),
        (12, 0, 8 << 24, Some((4, 0, 7))),
        (12, 0, 16 << 24, Some((4, 0, 24))),
        (12, 0, 5 << 24, None),
        (12, 1, 0, None),
    ] {
        let mut message = about(kind, code, rest, inside.clone());
        icmpv4::fill(&mut message);
        let bytes = four(1, &message, |_| ());
        let out = to6().push(0, &bytes);
        assert_eq!(out.len(), usize::from(want.is_some()), "{kind} {code}");
        let Some((kind6, code6, rest6)) = want else { continue };
        let (h, m) = of6(&out[0].1);
        assert!(icmpv6::verify(h.pseudo_sum(m.len() as u32), m));
        let rest = u32::from_be_bytes([m[4], m[5], m[6], m[7]]);
        assert_eq!((m[0], m[1], rest), (kind6, code6, rest6), "{kind} {code}");
        // The packet inside is one, from where the error goes to.
        assert!(is_right6(&m[8..]));
        assert_eq!((of6(&m[8..]).0.src(), of6(&m[8..]).0.dst()), (h.dst(), h.src()));
    }
    // One that was damaged on its way does not become right.
    let mut message = about(3, 1, 0, inside.clone());
    icmpv4::fill(&mut message);
    message[30] ^= 1;
    assert_eq!(dropped("ProtocolTranslator46", &four(1, &message, |_| ())), "bad ICMP checksum");
    // An error is cut to what every link carries; what is inside keeps its length.
    let long = four(17, &[1; 1400], turned);
    let mut message = about(11, 0, 0, long);
    icmpv4::fill(&mut message);
    let made = one(&mut to6(), &four(1, &message, |_| ()));
    assert_eq!((made.len(), &made[40 + 8 + 4..][..2]), (1280, &1400u16.to_be_bytes()[..]));
    // Only the packet inside is translated, not extensions behind it (RFC 4884).
    let mut padded = inside.clone();
    padded.resize(128, 0);
    padded.extend([0x20, 0, 0, 0, 0, 8, 1, 1, 0, 0, 0, 0]);
    let mut message = about(11, 0, 32 << 16, padded);
    icmpv4::fill(&mut message);
    let made = one(&mut to6(), &four(1, &message, |_| ()));
    assert_eq!(made.len(), 40 + 8 + 40 + 28);

    let turned = |h: &mut Ipv6<[u8; 40]>| {
        let (src, dst) = (h.src(), h.dst());
        h.set_src(dst);
        h.set_dst(src);
    };
    let mut ping = vec![128, 0, 0, 0, 1, 2, 3, 4];
    let pseudo =
        |n: usize, src: &str, dst: &str| pseudo_v6(src.parse().unwrap(), dst.parse().unwrap(), 58, n as u32);
    icmpv6::fill(pseudo(8, "64:ff9b::c633:6402", "64:ff9b::c000:201"), &mut ping);
    let inside = six(58, &ping, turned);
    for (kind, code, rest, want) in [
        (1, 0, 0, Some((3, 1, 0))),
        (1, 1, 0, Some((3, 10, 0))),
        (1, 4, 0, Some((3, 3, 0))),
        (1, 7, 0, None),
        (2, 0, 1400, Some((3, 4, 1380))),
        (2, 0, u32::MAX, Some((3, 4, 65535))),
        (3, 0, 0, Some((11, 0, 0))),
        (4, 0, 7, Some((12, 0, 8 << 24))),
        (4, 0, 40, None),
        (4, 1, 0, Some((3, 2, 0))),
        (4, 2, 0, None),
        (127, 0, 0, None),
        (135, 0, 0, None),
    ] {
        let mut message = about(kind, code, rest, inside.clone());
        icmpv6::fill(pseudo(message.len(), "64:ff9b::c000:201", "64:ff9b::c633:6402"), &mut message);
        let out = to4().push(0, &six(58, &message, |_| ()));
        assert_eq!(out.len(), usize::from(want.is_some()), "{kind} {code}");
        let Some((kind4, code4, rest4)) = want else { continue };
        let (h, m) = of4(&out[0].1);
        assert!(icmpv4::verify(m));
        let rest = u32::from_be_bytes([m[4], m[5], m[6], m[7]]);
        assert_eq!((m[0], m[1], rest), (kind4, code4, rest4), "{kind} {code}");
        assert!(is_right4(&m[8..]) && m[28] == 8);
        assert_eq!((of4(&m[8..]).0.src(), of4(&m[8..]).0.dst()), (h.dst(), h.src()));
    }
    let mut message = about(1, 0, 0, inside);
    icmpv6::fill(pseudo(message.len(), "64:ff9b::c000:201", "64:ff9b::c633:6402"), &mut message);
    message[30] ^= 1;
    let translator = "ProtocolTranslator64(PREFIX 64:ff9b::/96)";
    assert_eq!(dropped(translator, &six(58, &message, |_| ())), "bad ICMP checksum");
    // A fragment header is 8 bytes that an IPv4 packet has not.
    let fragment = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &[0; 16]].concat();
    for (rest, want) in [(1400, 1372), (1280, 1252), (0, 1252)] {
        let mut message = about(2, 0, rest, six(44, &fragment, turned));
        icmpv6::fill(pseudo(message.len(), "64:ff9b::c000:201", "64:ff9b::c633:6402"), &mut message);
        let made = one(&mut to4(), &six(58, &message, |_| ()));
        assert_eq!(u32::from_be_bytes(of4(&made).1[4..8].try_into().unwrap()), want);
    }
}

#[test]
fn extension_headers_are_left_out_or_refused() {
    let (_, t, at) = transports(4).remove(0);
    let a = |text: &str| text.parse().unwrap();
    let pseudo = pseudo_v6(a("64:ff9b::c000:201"), a("64:ff9b::c633:6402"), 6, t.len() as u32);
    let t = checked(t, pseudo, at);
    let options = |next: u8, left: u8, t: &[u8]| [&[next, 0, 0, left, 1, 2, 0, 0][..], t].concat();
    for first in [0, 43, 60] {
        let made = one(&mut to4(), &six(first, &options(6, 0, &t), |_| ()));
        assert!(is_right4(&made) && of4(&made).0.protocol() == 6);
    }
    let class = "ProtocolTranslator64";
    let mapped = |next: u8, t: &[u8]| {
        six(next, t, |h| {
            h.set_src("::ffff:1.2.3.4".parse().unwrap());
            h.set_dst("::5.6.7.8".parse().unwrap());
        })
    };
    assert_eq!(dropped(class, &mapped(43, &options(6, 1, &t))), "source route");
    assert_eq!(dropped(class, &mapped(0, &options(0, 0, &[0; 80]))), "not to be translated");
    assert_eq!(dropped(class, &mapped(0, &[6, 9, 0, 0, 0, 0, 0, 0])), "bad IP length");
    assert_eq!(dropped(class, &mapped(6, &t[..17])), "not to be translated");
    assert_eq!(dropped(class, &six(6, &t, |_| ())), "address not to be translated");
    assert_eq!(of4(&one(&mut Bench::new(class), &mapped(6, &t))).0.dst().to_string(), "5.6.7.8");
    // IPv4 numbers that would be extension headers, a source route, and a source that is no host.
    for number in [0, 43, 44, 58, 59, 60] {
        assert_eq!(dropped("ProtocolTranslator46", &four(number, &t, |_| ())), "not to be translated");
    }
    let mut routed = four(6, &[&[131, 7, 4, 9, 9, 9, 9, 0][..], &t].concat(), |h| h.set_header_len(28));
    assert_eq!(dropped("ProtocolTranslator46", &routed), "source route");
    routed[22] = 8;
    assert!(!to6().push(0, &routed).is_empty());
    let bad = four(6, &t, |h| h.set_src([224, 0, 0, 1].into()));
    assert_eq!(dropped("ProtocolTranslator46", &bad), "address not to be translated");
}

/// Whatever comes in, it is sent or counted, and what is sent is a packet.
#[test]
fn any_packet_is_survived() {
    let mut x = 0x2468_ace1u32;
    let mut random = move |n: usize| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as usize % n
    };
    let (mut to6, mut to4) = (to6(), to4());
    for _ in 0..20_000 {
        let payload: Vec<u8> = (0..random(120))
            .map(|_| [0, 1, 3, 4, 8, 11, 44, 58, 0x45, 0x60, random(256)][random(11)] as u8)
            .collect();
        let number = [0, 1, 6, 17, 43, 44, 58, 60][random(8)];
        let is6 = random(2) == 0;
        let mut bytes = if is6 { six(number, &payload, |_| ()) } else { four(number, &payload, |_| ()) };
        for _ in 0..random(3) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        bytes.truncate(bytes.len() - random(2) * random(bytes.len()));
        let bench = if is6 { &mut to4 } else { &mut to6 };
        let before: u64 = bench.drops().iter().map(|d| d.1).sum();
        let out = bench.push(0, &bytes);
        let after: u64 = bench.drops().iter().map(|d| d.1).sum();
        assert!(after - before + out.len() as u64 >= 1);
        for (_, made) in &out {
            if is6 {
                let _ = of4(made);
            } else {
                let _ = of6(made);
            }
        }
    }
}
