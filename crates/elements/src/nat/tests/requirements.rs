//! What IPRewriter's manual says of the requirements of RFC 4787, RFC 5382 and RFC 5508, where a few packets
//! show it.

use super::errors::error;
use super::rewriting::{ends, packet, simulated, udp, wait};
use crate::ip::engine::header::sample::{ip_with, marked};
use crate::testing::Bench;
use wire::tcp;

const NAT: [u8; 4] = [192, 0, 2, 1];

fn inside(host: u8, port: u16) -> ([u8; 4], u16) {
    ([10, 0, 0, host], port)
}
fn outside(host: u8, port: u16) -> ([u8; 4], u16) {
    ([198, 51, 100, host], port)
}
fn gateway() -> Bench {
    Bench::with_ports("IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop)", 2, 2)
}
/// The source that a packet from the inside gets.
fn mapped(bench: &mut Bench, bytes: &[u8]) -> ([u8; 4], u16) {
    ends(&bench.send(0, marked(bytes)).remove(0).1).0
}
fn passes(bench: &mut Bench, bytes: &[u8]) -> bool {
    !bench.send(1, marked(bytes)).is_empty()
}

#[test]
fn a_host_keeps_its_port_and_its_parity_where_it_is_free() {
    let mut bench = gateway();
    for host in 1..9 {
        assert_eq!(mapped(&mut bench, &udp(inside(1, 5001), outside(host, 53))), (NAT, 5001));
    }
    // It is shared with another host toward other addresses, and toward other ports.
    assert_eq!(mapped(&mut bench, &udp(inside(2, 5001), outside(9, 53))), (NAT, 5001));
    assert_eq!(mapped(&mut bench, &udp(inside(2, 5001), outside(1, 54))), (NAT, 5001));
    assert_ne!(mapped(&mut bench, &udp(inside(2, 5001), outside(1, 53))), (NAT, 5001));
}

#[test]
fn only_who_was_talked_to_answers() {
    let mut bench = gateway();
    assert_eq!(mapped(&mut bench, &udp(inside(1, 5001), outside(1, 53))), (NAT, 5001));
    assert!(passes(&mut bench, &udp(outside(1, 53), (NAT, 5001))));
    assert!(!passes(&mut bench, &udp(outside(1, 54), (NAT, 5001))));
    assert!(!passes(&mut bench, &udp(outside(2, 53), (NAT, 5001))));
    // Nor does another host inside reach it there.
    let hairpin = udp(inside(2, 7000), (NAT, 5001));
    assert_eq!(ends(&bench.send(0, marked(&hairpin)).remove(0).1).1, (NAT, 5001));
}

#[test]
fn nobody_answers_an_unexpected_syn_and_simultaneous_opens_pass() {
    let mut bench = gateway();
    let syn = packet(outside(1, 80), (NAT, 5001), Some(tcp::SYN), b"");
    assert!(!passes(&mut bench, &syn));
    assert_eq!(bench.drops(), [("no mapping".to_owned(), 1)]);
    mapped(&mut bench, &packet(inside(1, 5001), outside(1, 80), Some(tcp::SYN), b""));
    assert!(passes(&mut bench, &syn));
}

#[test]
fn later_fragments_need_a_reassembler() {
    let mut bench = gateway();
    let later = ip_with(&[], &[0; 16], |h| {
        h.set_protocol(17);
        h.set_fragment_offset(8);
    });
    assert!(bench.send(0, marked(&later)).is_empty());
}

#[test]
fn packets_of_either_side_keep_a_mapping_and_errors_do_not() {
    let config = "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop, UDP_TIMEOUT 10); \
                  icmp :: ICMPRewriter(e) -> BenchOut(9); Idle -> icmp";
    let mut bench = simulated(config, 2, 2);
    let (out, reply) = (udp(inside(1, 5001), outside(1, 53)), udp(outside(1, 53), (NAT, 5001)));
    mapped(&mut bench, &out);
    for _ in 0..4 {
        wait(&mut bench, 7);
        assert!(passes(&mut bench, &reply));
    }
    let sent = udp((NAT, 5001), outside(1, 53));
    for seconds in [6, 1, 1] {
        wait(&mut bench, seconds);
        let about = error(3, [203, 0, 113, 1], NAT, &sent, 28);
        let batch = std::iter::once(marked(&about)).collect();
        bench.router().inject("icmp", 0, batch);
        assert_eq!(bench.take().len(), 1);
        assert_eq!(bench.read("size"), "1");
    }
    wait(&mut bench, 7);
    assert_eq!(bench.read("size"), "0");
}
