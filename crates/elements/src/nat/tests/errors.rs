//! ICMPRewriter, with each class that it looks into.

use super::THROUGH;
use super::rewriting::packet;
use crate::ip::engine::header::sample::{marked, sound};
use crate::testing::Bench;
use crate::transport::engine::datagram::sample;
use wire::{checksum, tcp};

const INSIDE: ([u8; 4], u16) = ([10, 0, 0, 7], 5000);
const OUTSIDE: ([u8; 4], u16) = ([198, 51, 100, 9], 53);
const NAT: [u8; 4] = [192, 0, 2, 1];
const ROUTER: [u8; 4] = [203, 0, 113, 1];

/// An ICMP error about a packet, of which so many bytes are in it.
pub(super) fn error(kind: u8, from: [u8; 4], to: [u8; 4], about: &[u8], bytes: usize) -> Vec<u8> {
    let rest = [&[0; 4], &about[..bytes.min(about.len())]].concat();
    let mut error = sample::icmp(kind, &rest);
    error[12..16].copy_from_slice(&from);
    error[16..20].copy_from_slice(&to);
    wire::ipv4::fill_header(&mut error[..20]);
    error
}
fn ping(kind: u8, from: [u8; 4], to: [u8; 4], id: u16) -> Vec<u8> {
    let [a, b] = id.to_be_bytes();
    let mut bytes = sample::icmp(kind, &[a, b, 0, 1, 9, 9, 9]);
    bytes[12..16].copy_from_slice(&from);
    bytes[16..20].copy_from_slice(&to);
    wire::ipv4::fill_header(&mut bytes[..20]);
    bytes
}

/// A rewriter: its inputs are 0 and 1, its outputs too; input 2 is an ICMPRewriter's, whose outputs follow.
fn bench(rewriter: &str, more: &str) -> Bench {
    Bench::with_config(
        &format!(
            "{THROUGH} nat :: {rewriter}; icmp :: ICMPRewriter(nat{more}); \
             e [0] -> nat; e [1] -> [1] nat; e [2] -> icmp; \
             nat [0] -> BenchOut(0); nat [1] -> BenchOut(1); icmp [0] -> BenchOut(2); icmp [1] -> BenchOut(3);"
        ),
        3,
        0,
    )
}
fn one(bench: &mut Bench, input: usize, bytes: &[u8]) -> (usize, Vec<u8>) {
    bench.push_packet(input, marked(bytes)).remove(0)
}

#[test]
fn an_error_about_a_flow_is_about_what_its_sender_has_sent() {
    let natted = |flags, data: &[u8]| packet(INSIDE, OUTSIDE, flags, data);
    for (rewriter, out) in [
        ("IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop)", natted(None, b"data")),
        ("IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop)", natted(Some(tcp::SYN), b"")),
        ("IPRewriter(pattern 192.0.2.1 1024-65535# 203.0.113.77 80 0 1, drop)", natted(None, b"odd")),
        ("TCPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop)", natted(Some(tcp::SYN), b"data")),
        ("UDPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop)", natted(None, b"data")),
        ("ICMPPingRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop)", ping(8, INSIDE.0, OUTSIDE.0, 77)),
        ("IPAddrRewriter(pattern 192.0.2.1 - 0 1, drop)", natted(None, b"data")),
        ("IPAddrRewriter(pattern 192.0.2.1 - 0 1, drop)", ping(0, INSIDE.0, OUTSIDE.0, 77)),
        ("IPAddrPairRewriter(pattern 192.0.2.1 203.0.113.77 0 1, drop)", natted(Some(tcp::SYN), b"data")),
    ] {
        let mut bench = bench(rewriter, "");
        let (output, translated) = one(&mut bench, 0, &out);
        assert_eq!((output, &translated[12..16]), (0, &NAT[..]), "{rewriter}");
        for kind in [3, 4, 5, 11, 12] {
            for bytes in [28, 30, 38, 40, 100] {
                let about_it = error(kind, ROUTER, NAT, &translated, bytes);
                // Where the destination is translated, what is behind it shows itself as that.
                let from = if translated[16..20] == out[16..20] { ROUTER } else { OUTSIDE.0 };
                let known = error(kind, from, INSIDE.0, &out, bytes);
                let (output, error) = one(&mut bench, 2, &about_it);
                assert_eq!((output, &error), (2, &known), "{rewriter}: type {kind}, {bytes} bytes");
                assert!(sound(&error) && sound(&error[28..]) || bytes < 48);
                assert_eq!(checksum::checksum(&error[20..]), 0);
            }
        }
    }
}

#[test]
fn an_error_from_the_inside_is_about_the_reply_and_shows_no_inside_address() {
    for (more, source) in [("", NAT), (", SOURCE false", INSIDE.0)] {
        let mut bench = bench("IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop)", more);
        one(&mut bench, 0, &packet(INSIDE, OUTSIDE, None, b"data"));
        let reply = packet(OUTSIDE, (NAT, 1024), None, b"answer");
        let (output, inside) = one(&mut bench, 1, &reply);
        assert_eq!(output, 1);
        let refused = error(3, INSIDE.0, OUTSIDE.0, &inside, 28);
        assert_eq!(one(&mut bench, 2, &refused), (2, error(3, source, OUTSIDE.0, &reply, 28)));
    }
}

#[test]
fn what_is_about_no_flow_leaves_by_the_second_output_or_is_dropped() {
    let unknown = packet((NAT, 2000), OUTSIDE, None, b"data");
    let mut fragment = packet((NAT, 1024), OUTSIDE, None, b"data");
    fragment[7] = 1;
    wire::ipv4::fill_header(&mut fragment[..20]);
    let mut echo_reply = ping(0, NAT, OUTSIDE.0, 5);
    echo_reply[20 + 4] = 4;
    let rewriter = "IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop)";
    let cases = [
        error(11, ROUTER, NAT, &unknown, 28),
        error(11, ROUTER, NAT, &fragment, 28),
        error(11, ROUTER, NAT, &echo_reply, 28),
        error(11, ROUTER, NAT, &unknown, 19),
        ping(8, ROUTER, NAT, 5),
    ];
    let mut with = bench(rewriter, "");
    one(&mut with, 0, &packet(INSIDE, OUTSIDE, None, b"data"));
    for case in &cases {
        assert_eq!(one(&mut with, 2, case), (3, case.clone()));
    }
    assert!(with.push_packet(2, marked(&unknown)).is_empty());
    let mut without =
        Bench::with_config("n :: IPRewriter(keep 0 0); Idle -> n -> Discard; e :: ICMPRewriter(n)", 1, 1);
    for case in &cases {
        assert!(without.push_packet(0, marked(case)).is_empty());
    }
    assert!(without.push_packet(0, marked(&unknown)).is_empty());
    assert_eq!(
        without.drops(),
        [
            ("not ICMP".to_owned(), 1),
            ("no ICMP error".to_owned(), 2),
            ("about no translated flow".to_owned(), 3)
        ]
    );
}

#[test]
fn maps_may_have_outputs_and_replies_an_annotation() {
    let config = "a :: IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop, REPLY_ANNO PAINT); \
                  b :: ICMPPingRewriter(pattern 192.0.2.1 7 - - 1 0, drop); \
                  icmp :: ICMPRewriter(b:1 a:3, REPLY_ANNO PAINT); \
                  e [0] -> Paint(5) -> a; e [1] -> b; e [2] -> icmp; Idle -> [1] a; Idle -> [1] b; \
                  a [0], a [1], b [0], b [1] -> BenchOut(0); icmp [0], icmp [2], icmp [3] -> Discard; \
                  icmp [1] -> BenchOut(1); icmp [4] -> BenchOut(4);";
    let mut bench = Bench::with_config(&format!("{THROUGH} {config}"), 3, 0);
    let (_, udp) = one(&mut bench, 0, &packet(INSIDE, OUTSIDE, None, b"data"));
    let (_, echo) = one(&mut bench, 1, &ping(8, INSIDE.0, OUTSIDE.0, 3));
    let (output, packet) = bench.send(2, marked(&error(11, ROUTER, NAT, &udp, 28))).remove(0);
    assert_eq!((output, packet.paint(), packet.dst_ip()), (4, 5, INSIDE.0));
    assert_eq!(one(&mut bench, 2, &error(11, ROUTER, NAT, &echo, 28)).0, 1);
}

#[test]
fn what_is_wrong_is_said() {
    let rest = "n :: IPRewriter(keep 0 1); Idle -> n; n [0], n [1] -> Discard; d :: Discard; Idle -> d;";
    for (arguments, wrong) in [
        ("zonk", "zonk not an IP rewriter"),
        ("n d", "d not an IP rewriter"),
        ("n:x", "n:x not an IP rewriter"),
        ("n:0", "n:0 port offset requires more than 1 output"),
    ] {
        let error = Bench::error(&format!("ICMPRewriter({arguments}); {rest}"));
        assert!(error.contains(wrong), "{arguments}: {error}");
    }
}
