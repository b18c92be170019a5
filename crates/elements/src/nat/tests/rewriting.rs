//! IPRewriter and its kin, with the elements that choose patterns for them.

use crate::ip::engine::header::sample::{ip_with, marked, sound};
use crate::testing::Bench;
use crate::transport::engine::datagram::{Datagram, sample};
use dpdk::Packet;
use wire::tcp;

/// A packet with these addresses and ports, UDP or TCP with flags and data; its checksums are right.
pub(super) fn packet(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: Option<u8>, data: &[u8]) -> Vec<u8> {
    let mut bytes = if flags.is_some() { sample::tcp(&[], data) } else { sample::udp(&[], data) };
    bytes[12..16].copy_from_slice(&from.0);
    bytes[16..20].copy_from_slice(&to.0);
    bytes[20..22].copy_from_slice(&from.1.to_be_bytes());
    bytes[22..24].copy_from_slice(&to.1.to_be_bytes());
    let (header, rest) = bytes.split_at_mut(20);
    wire::ipv4::fill_header(header);
    let sum = wire::checksum::pseudo_v4(from.0.into(), to.0.into(), header[9], rest.len() as u16);
    match flags {
        Some(flags) => {
            rest[13] = flags;
            tcp::fill(sum, rest);
        }
        None => drop(wire::udp::fill(sum, rest)),
    }
    bytes
}
pub(super) fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    packet(from, to, None, b"data")
}
/// The addresses and ports of a packet whose checksums must be right.
pub(super) fn ends(packet: &Packet) -> (([u8; 4], u16), ([u8; 4], u16)) {
    let bytes = packet.data();
    assert!(sound(bytes));
    let d = Datagram::of(packet).unwrap();
    let sum = d.pseudo_sum(d.rest.len() as u16);
    if bytes[9] == 6 {
        assert!(tcp::verify(sum, d.rest));
    } else {
        assert!(wire::udp::verify(sum, d.rest) && d.rest[6..8] != [0, 0]);
    }
    let address = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap();
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    ((address(12), port(20)), (address(16), port(22)))
}
type Ends = (([u8; 4], u16), ([u8; 4], u16));
/// The output of a packet, and what it has there.
fn sent(bench: &mut Bench, input: usize, bytes: &[u8]) -> Option<(usize, Ends)> {
    let out = bench.send(input, marked(bytes));
    out.first().map(|(output, packet)| {
        assert_eq!(packet.dst_ip(), ends(packet).1.0);
        (*output, ends(packet))
    })
}

/// A bench in simulated time, which passes in steps of a tenth of a second.
pub(super) fn simulated(declaration: &str, inputs: usize, outputs: usize) -> Bench {
    Bench::simulated(&format!("e :: {declaration}; TimedSource(0.1) -> Discard;"), inputs, outputs)
}
pub(super) fn wait(bench: &mut Bench, seconds: u64) {
    let until = bench.router().now_ns() + seconds * 1_000_000_000;
    let mut turns = 0;
    while bench.router().now_ns() < until {
        bench.turn();
        turns += 1;
        assert!(turns < 1_000_000);
    }
}

const INSIDE: ([u8; 4], u16) = ([10, 0, 0, 7], 5000);
const OUTSIDE: ([u8; 4], u16) = ([198, 51, 100, 9], 53);
const NAT: [u8; 4] = [192, 0, 2, 1];

fn nat(pattern: &str, more: &str) -> Bench {
    Bench::with_ports(&format!("IPRewriter(pattern {pattern} 0 1, drop{more})"), 2, 2)
}

/// Both directions of a batch go on together where the outputs lead to the same input; where they do not,
/// each has a batch.
#[test]
fn packets_of_a_batch_stay_in_order_where_outputs_join() {
    for (outputs, order) in [
        ("nat [0] -> out :: BenchOut(0); nat [1] -> out;", [true, false, true, false]),
        ("nat [0] -> BenchOut(0); nat [1] -> BenchOut(1);", [true, true, false, false]),
    ] {
        let config =
            format!("Idle -> e :: Null -> nat :: IPRewriter(pattern 192.0.2.1 - - - 0 1); {outputs}");
        let options = runtime::Options { batch_size: 32, ..runtime::Options::default() };
        let mut bench = Bench::with_options(&config, options);
        let forward = udp(INSIDE, OUTSIDE);
        let reply = udp(OUTSIDE, (NAT, INSIDE.1));
        let batch = [&forward, &reply, &forward, &reply].map(|bytes| marked(bytes)).into();
        let out = bench.send_batch(0, batch);
        assert_eq!(out.iter().map(|(_, packet)| ends(packet).1 == OUTSIDE).collect::<Vec<_>>(), order);
    }
}

#[test]
fn packets_and_replies_are_rewritten() {
    for flags in [None, Some(tcp::SYN)] {
        let mut bench = nat("192.0.2.1 1024-1030# - -", "");
        let out = packet(INSIDE, OUTSIDE, flags, b"odd");
        assert_eq!(sent(&mut bench, 0, &out), Some((0, ((NAT, 1024), OUTSIDE))));
        let back = packet(OUTSIDE, (NAT, 1024), flags, b"");
        assert_eq!(sent(&mut bench, 1, &back), Some((1, (OUTSIDE, INSIDE))));
        assert_eq!(sent(&mut bench, 0, &out), Some((0, ((NAT, 1024), OUTSIDE))));
        // Of another protocol, or to another port.
        let other = packet(OUTSIDE, (NAT, 1025), flags, b"");
        assert_eq!(sent(&mut bench, 1, &other), None);
        assert_eq!(bench.read("size"), "1");
        let (kind, other) = if flags.is_some() { ("tcp", "udp") } else { ("udp", "tcp") };
        let table = bench.read(&format!("{kind}_table"));
        let mut lines: Vec<&str> = table.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "(10.0.0.7, 5000, 198.51.100.9, 53) => (192.0.2.1, 1024, 198.51.100.9, 53) [*0 1] i0 exp300",
                "(198.51.100.9, 53, 192.0.2.1, 1024) => (198.51.100.9, 53, 10.0.0.7, 5000) [0 *1] i0 exp300",
            ]
        );
        assert_eq!(bench.read(&format!("{other}_table")), "");
        assert_eq!(
            bench.read(&format!("{kind}_lookup 10.0.0.7 5000 198.51.100.9 53")),
            "192.0.2.1 1024 198.51.100.9 53"
        );
        assert_eq!(bench.read(&format!("{kind}_lookup 10.0.0.7 1 198.51.100.9 53")), "");
        assert_eq!(bench.read("patterns"), "192.0.2.1 1024-1030 - - [1]\n<drop>\n");
        bench.write("clear", "");
        assert_eq!((bench.read("size"), bench.read("nmappings")), ("0".into(), "0".into()));
    }
}

#[test]
fn ports_are_never_shared_and_run_out() {
    let mut bench = nat("192.0.2.1 5000-5002 - -", "");
    let mut ports: Vec<u16> = (0..3)
        .map(|host| sent(&mut bench, 0, &udp(([10, 0, 0, host], 5000), OUTSIDE)).unwrap().1.0.1)
        .collect();
    assert_eq!(ports[0], 5000);
    ports.sort_unstable();
    assert_eq!(ports, [5000, 5001, 5002]);
    assert_eq!(sent(&mut bench, 0, &udp(([10, 0, 0, 9], 5000), OUTSIDE)), None);
    assert_eq!(bench.drops(), [("no free address or port".to_owned(), 1)]);
    assert_eq!(bench.read("mapping_failures"), "1");
    // Replies of another host are told apart.
    let elsewhere = ([198, 51, 100, 10], 53);
    assert!(sent(&mut bench, 0, &udp(([10, 0, 0, 9], 5000), elsewhere)).is_some());
}

#[test]
fn what_a_pattern_without_a_range_has_given_away_goes_to_the_newest() {
    let mut bench = nat("192.0.2.1 - - -", "");
    for host in [1, 2] {
        let inside = ([10, 0, 0, host], 5000);
        assert_eq!(sent(&mut bench, 0, &udp(inside, OUTSIDE)), Some((0, ((NAT, 5000), OUTSIDE))));
        assert_eq!(sent(&mut bench, 1, &udp(OUTSIDE, (NAT, 5000))), Some((1, (OUTSIDE, inside))));
    }
    assert_eq!((bench.read("size"), bench.read("nmappings")), ("1".into(), "1".into()));
}

#[test]
fn other_inputs() {
    let mut bench = Bench::with_ports("IPRewriter(pass 1, keep 0 1, nochange)", 3, 2);
    assert_eq!(sent(&mut bench, 0, &udp(INSIDE, OUTSIDE)), Some((1, (INSIDE, OUTSIDE))));
    assert_eq!(bench.read("size"), "0");
    assert_eq!(sent(&mut bench, 1, &udp(INSIDE, OUTSIDE)), Some((0, (INSIDE, OUTSIDE))));
    assert_eq!(sent(&mut bench, 0, &udp(OUTSIDE, INSIDE)), Some((1, (OUTSIDE, INSIDE))));
    assert_eq!(sent(&mut bench, 2, &udp(INSIDE, INSIDE)), Some((0, (INSIDE, INSIDE))));
}

#[test]
fn what_is_no_first_fragment_of_tcp_or_udp() {
    let mut bench = Bench::with_ports("IPRewriter(pass 1, keep 0 0)", 2, 2);
    let fragment = ip_with(&[], &udp(INSIDE, OUTSIDE)[20..], |h| {
        h.set_protocol(17);
        h.set_fragment_offset(8);
    });
    let icmp = sample::icmp(8, &[0; 8]);
    let short = ip_with(&[], &[0; 7], |h| h.set_protocol(17));
    for bytes in [fragment, icmp, short] {
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(1, bytes.clone())]);
        assert!(bench.push_packet(1, marked(&bytes)).is_empty());
    }
    assert_eq!(bench.drops(), [("not to be translated".to_owned(), 3)]);
    assert!(bench.push(0, b"x").len() <= 1);
}

#[test]
fn options_and_checksums_are_kept() {
    let mut bench = nat("192.0.2.1 9-9 203.0.113.4 80", "");
    for bytes in [sample::udp(&[1; 8], b"abc"), sample::tcp(&[1; 8], b"abc")] {
        let out = bench.send(0, marked(&bytes)).remove(0).1;
        let (header, rest) = out.data().split_at(28);
        assert!(sound(out.data()));
        assert_eq!(header[12..28], [192, 0, 2, 1, 203, 0, 113, 4, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(rest[..4], [0, 9, 0, 80]);
        let sum =
            wire::checksum::pseudo_v4(NAT.into(), [203, 0, 113, 4].into(), header[9], rest.len() as u16);
        assert!(if header[9] == 6 { tcp::verify(sum, rest) } else { wire::udp::verify(sum, rest) });
    }
    // A UDP packet without a checksum gets none.
    let mut bytes = udp(INSIDE, OUTSIDE);
    bytes[26..28].fill(0);
    let out = bench.send(0, marked(&bytes)).remove(0).1;
    assert_eq!(out.data()[26..28], [0, 0]);
}

#[test]
fn a_udp_checksum_is_never_adjusted_to_none() {
    let mut bench = nat("192.0.2.1 1024-65535? - -", ", UDP_GUARANTEE 0");
    // Among all ports are some with which the sum becomes 0.
    let mut seen = 0;
    for port in 1..=65_535 {
        let out = bench.send(0, marked(&udp(([10, 0, 0, 1], port), OUTSIDE)));
        let Some((_, packet)) = out.first() else { continue };
        let _ = ends(packet);
        seen += u32::from(packet.data()[26..28] == [255, 255]);
        bench.write("clear", "");
        if port == 4000 {
            break;
        }
    }
    assert!(seen < 10);
}

#[test]
fn flows_end_after_their_time() {
    let mut bench = simulated(
        "IPRewriter(pattern 192.0.2.1 1024-9999# - - 0 1, drop, UDP_TIMEOUT 10, \
         UDP_STREAMING_TIMEOUT 20, TCP_DONE_TIMEOUT 15, TCP_NODATA_TIMEOUT 30, TCP_TIMEOUT 60)",
        2,
        2,
    );
    let flow = |n: u8| (([10, 0, 0, n], 1), OUTSIDE);
    let reply = |port: u16| (OUTSIDE, (NAT, port));
    let send = |bench: &mut Bench, input, (from, to), flags, data: &[u8]| {
        assert!(sent(bench, input, &packet(from, to, flags, data)).is_some());
    };
    // One packet; three, one of them a reply.
    send(&mut bench, 0, flow(1), None, b"");
    send(&mut bench, 0, flow(2), None, b"");
    send(&mut bench, 0, flow(2), None, b"");
    send(&mut bench, 1, reply(1025), None, b"");
    // Reset; ended by both sides; ended by one; data in both directions.
    send(&mut bench, 0, flow(3), Some(tcp::RST), b"");
    send(&mut bench, 0, flow(4), Some(tcp::FIN), b"");
    send(&mut bench, 1, reply(1027), Some(tcp::FIN), b"");
    send(&mut bench, 0, flow(5), Some(tcp::FIN), b"");
    send(&mut bench, 0, flow(6), Some(tcp::ACK), b"data");
    send(&mut bench, 1, reply(1029), Some(tcp::ACK), b"data");
    let mut sizes = Vec::new();
    for _ in 0..14 {
        wait(&mut bench, 5);
        sizes.push(bench.read("size"));
    }
    let sizes: Vec<u32> = sizes.iter().map(|size| size.parse().unwrap()).collect();
    // After 5, 10, ... seconds; a round takes up to 2.5.
    assert_eq!(sizes[0], 6);
    assert_eq!((sizes[2], sizes[3], sizes[4]), (5, 3, 2));
    assert_eq!((sizes[5], sizes[6], sizes[10], sizes[12]), (2, 1, 1, 0));
    assert_eq!(bench.read("nmappings"), "0");
}

#[test]
fn a_full_table_makes_room_for_new_flows() {
    let mut bench = simulated("IPRewriter(keep 0 1, MAPPING_CAPACITY 4, UDP_GUARANTEE 3)", 1, 2);
    let flow = |n: u8| udp(([10, 0, 0, n], 1), OUTSIDE);
    for n in 0..4 {
        assert!(sent(&mut bench, 0, &flow(n)).is_some());
        wait(&mut bench, 1);
    }
    wait(&mut bench, 1);
    // After five seconds the first two are not guaranteed any more; one of them has had a packet again.
    assert!(sent(&mut bench, 0, &flow(0)).is_some());
    assert!(sent(&mut bench, 0, &flow(9)).is_some());
    assert!(!bench.read("udp_table").contains("(10.0.0.1, 1,"));
    assert!(sent(&mut bench, 0, &flow(10)).is_none());
    assert_eq!(bench.drops(), [("table of flows full".to_owned(), 1)]);
    bench.write("capacity", "5");
    wait(&mut bench, 1);
    assert!(sent(&mut bench, 0, &flow(10)).is_some());
    assert_eq!((bench.read("capacity"), bench.read("size")), ("5".into(), "5".into()));
    assert!(bench.try_write("capacity", "0").is_err());
}

#[test]
fn the_other_classes() {
    let mut tcp = Bench::with_ports("TCPRewriter(keep 0 1, TIMEOUT 60)", 1, 2);
    assert!(sent(&mut tcp, 0, &udp(INSIDE, OUTSIDE)).is_none());
    assert!(sent(&mut tcp, 0, &packet(INSIDE, OUTSIDE, Some(tcp::SYN), b"")).is_some());
    assert_eq!(tcp.read("table").lines().count(), 2);
    let mut udp_too = Bench::with_ports("UDPRewriter(keep 0 1, TIMEOUT 60, GUARANTEE 2)", 1, 2);
    assert!(sent(&mut udp_too, 0, &udp(INSIDE, OUTSIDE)).is_some());
    assert!(sent(&mut udp_too, 0, &packet(INSIDE, OUTSIDE, Some(tcp::SYN), b"")).is_some());
    assert_eq!(udp_too.read("table").lines().count(), 2);
    assert_eq!(udp_too.read("lookup 10.0.0.7 5000 198.51.100.9 53"), "10.0.0.7 5000 198.51.100.9 53");
}

#[test]
fn packets_of_a_new_flow_in_one_batch_are_of_one_flow() {
    let mut bench = nat("192.0.2.1 1024-1025 - -", ", MAPPING_CAPACITY 2");
    let batch = |host: u8| (0..32).map(|_| marked(&udp(([10, 0, 0, host], 7), OUTSIDE))).collect();
    for host in 1..=2 {
        assert_eq!(bench.send_batch(0, batch(host)).len(), 32);
    }
    assert_eq!((bench.read("size"), bench.read("mapping_failures")), ("2".into(), "0".into()));
    // And of a mapper that chooses once for each flow.
    let config = "m :: MaglevIPMapper(10.0.0.1 80, 10.0.0.2 80); e :: IPRewriter(m, drop);";
    let mut bench = Bench::with_config(config, 2, 2);
    assert_eq!(bench.send_batch(0, batch(3)).len(), 32);
    let chosen: u32 =
        bench.read("m.servers").lines().map(|l| l.split(' ').nth(4).unwrap().parse::<u32>().unwrap()).sum();
    assert_eq!(chosen, 1);
}

#[test]
fn a_batch_of_known_and_new_flows_is_as_one_packet_after_the_other() {
    let known = |host: u8| udp(([10, 0, 0, host], 7), OUTSIDE);
    let make = || {
        let mut bench = nat("192.0.2.1 1024-9999# - -", "");
        for host in 0..20 {
            sent(&mut bench, 0, &known(host)).unwrap();
        }
        bench
    };
    // Of known flows, new ones, both twice, and what is not translated.
    let mut packets: Vec<Vec<u8>> = (0u16..50).map(|n| known((n * 7 % 37) as u8)).collect();
    (3..40).step_by(9).for_each(|at| packets[at][9] = 99);
    let (mut one, mut all) = (make(), make());
    let batch = all.send_batch(0, packets.iter().map(|bytes| marked(bytes)).collect());
    let batch: Vec<(usize, Ends)> = batch.iter().map(|(output, packet)| (*output, ends(packet))).collect();
    let single: Vec<(usize, Ends)> = packets.iter().filter_map(|bytes| sent(&mut one, 0, bytes)).collect();
    assert_eq!(batch, single);
    assert_eq!((batch.len(), all.read("size")), (packets.len() - 5, one.read("size")));
}

#[test]
fn a_short_tcp_header_gets_its_ports() {
    for len in [8, 12, 17, 18] {
        let mut bench = nat("192.0.2.1 1024-9999# - -", "");
        let bytes =
            ip_with(&[], &packet(INSIDE, OUTSIDE, Some(tcp::SYN), b"")[20..20 + len], |h| h.set_protocol(6));
        let out = bench.send(0, marked(&bytes)).remove(0).1;
        assert_eq!(out.data()[20..24], [4, 0, 0, 53], "{len}");
    }
}

#[test]
fn a_connection_after_a_reset_is_a_connection() {
    let mut bench = simulated("IPRewriter(keep 0 1, TCP_TIMEOUT 1000, TCP_DONE_TIMEOUT 100)", 1, 2);
    let both = |bench: &mut Bench, flags, data: &[u8]| {
        assert!(sent(bench, 0, &packet(INSIDE, OUTSIDE, Some(flags), data)).is_some());
        assert!(sent(bench, 0, &packet(OUTSIDE, INSIDE, Some(flags), data)).is_some());
    };
    both(&mut bench, tcp::ACK, b"data");
    assert!(bench.read("tcp_table").contains("exp1000"));
    sent(&mut bench, 0, &packet(INSIDE, OUTSIDE, Some(tcp::RST), b""));
    assert!(bench.read("tcp_table").contains("exp100\n"));
    both(&mut bench, tcp::SYN, b"");
    assert!(bench.read("tcp_table").contains("exp1000"), "{}", bench.read("tcp_table"));
}

#[test]
fn packets_keep_flows_alive_however_short_their_time_is() {
    let declaration =
        "IPRewriter(pattern 192.0.2.1 1024-9999# - - 0 1, drop, UDP_TIMEOUT 1, UDP_GUARANTEE 0)";
    let mut bench = simulated(declaration, 2, 2);
    let first = sent(&mut bench, 0, &udp(INSIDE, OUTSIDE));
    for _ in 0..50 {
        bench.turns(2);
        assert_eq!(sent(&mut bench, 0, &udp(INSIDE, OUTSIDE)), first);
    }
    wait(&mut bench, 3);
    assert_ne!(sent(&mut bench, 0, &udp(INSIDE, OUTSIDE)), first);
}

#[test]
fn pings_are_told_apart_by_their_identifiers() {
    let ping = |kind: u8, from: ([u8; 4], u16), to: ([u8; 4], u16)| {
        let [a, b] = (if kind == 8 { from.1 } else { to.1 }).to_be_bytes();
        let mut bytes = sample::icmp(kind, &[a, b, 0, 1, 9, 9, 9]);
        bytes[12..16].copy_from_slice(&from.0);
        bytes[16..20].copy_from_slice(&to.0);
        wire::ipv4::fill_header(&mut bytes[..20]);
        bytes
    };
    let declaration = "ICMPPingRewriter(pattern 192.0.2.1 100-65535# - - 0 1, drop)";
    let mut bench = Bench::with_ports(declaration, 2, 2);
    let there = ([198, 51, 100, 9], 0);
    for host in 0..2u16 {
        let here = ([10, 0, 0, host as u8], 7);
        let (output, packet) = bench.send(0, marked(&ping(8, here, there))).remove(0);
        assert_eq!((output, packet.data()), (0, &ping(8, (NAT, 100 + host), there)[..]));
        let back = ping(0, there, (NAT, 100 + host));
        let (output, packet) = bench.send(1, marked(&back)).remove(0);
        assert_eq!((output, packet.data()), (1, &ping(0, there, here)[..]));
        assert_eq!(packet.dst_ip(), here.0);
    }
    // Neither an unknown reply, nor a timestamp request, nor UDP.
    let others = [ping(0, there, (NAT, 102)), ping(13, (NAT, 1), there), udp(INSIDE, OUTSIDE)];
    for (input, bytes) in [1, 0, 0].into_iter().zip(others) {
        assert!(bench.send(input, marked(&bytes)).is_empty());
    }
    assert_eq!(bench.read("lookup 10.0.0.1 7 198.51.100.9 0"), "192.0.2.1 101 198.51.100.9 0");
}

#[test]
fn patterns_with_names_and_mappers() {
    let mut bench = Bench::with_config(
        "IPRewriterPatterns(a 192.0.2.1 1024-65535# - -);
         m :: RoundRobinIPMapper(a 0 1, - - 10.0.0.1 80 1 0);
         e :: IPRewriter(m, pattern a 0 1);",
        2,
        2,
    );
    let mut one = |input: usize, port: u16| {
        let (output, packet) = bench.send(input, marked(&udp(([10, 9, 9, 9], port), OUTSIDE))).remove(0);
        (output, ends(&packet))
    };
    assert_eq!(one(0, 1), (0, ((NAT, 1024), OUTSIDE)));
    assert_eq!(one(0, 2), (1, (([10, 9, 9, 9], 2), ([10, 0, 0, 1], 80))));
    assert_eq!(one(1, 3), (0, ((NAT, 1025), OUTSIDE)));
    assert_eq!(one(0, 4), (0, ((NAT, 1026), OUTSIDE)));
}

#[test]
fn errors_name_the_input() {
    for (spec, wrong) in [
        ("pattern 1.0.0.1 - - - 0", "input spec 0: bad forward port"),
        ("pattern 1.0.0.1 x - - 0 0", "input spec 0: bad source port"),
        ("pattern zonk 0 0", "input spec 0: no such pattern 'zonk'"),
        ("keep 0 2", "input spec 0: output port out of range"),
        ("keep 0", "input spec 0: bad forward port"),
        ("pass 5", "input spec 0: output port out of range"),
        ("pass x", "input spec 0: syntax error, expected 'nochange [OUTPUT]'"),
        ("drop 1", "input spec 0: syntax error, expected 'drop'"),
        ("zonk", "input spec 0: unknown specification"),
        ("drop, drop", "need 1 arguments, one per input port"),
        ("drop, MAPPING_CAPACITY 0", "expected a number of flows, 1 to 16777216"),
    ] {
        let error = Bench::error(&format!("IPRewriter({spec})"));
        assert!(error.contains(wrong), "{spec}: {error}");
    }
    let error = Bench::error("IPRewriterPatterns(a 1.0.0.1 - - -, a - - - -, b - x - -)");
    assert!(error.contains("pattern 'a' defined twice"), "{error}");
    assert!(error.contains("pattern 'b': bad source port"), "{error}");
    assert!(Bench::error("RoundRobinIPMapper()").contains("no patterns"));
    let error = Bench::error("IPRewriter(m); m :: RoundRobinIPMapper(- - - - 0 1)");
    assert!(error.contains("input spec 0: output port out of range"), "{error}");
}
