//! IPAddrRewriter and IPAddrPairRewriter; SourceIPHashMapper; the handlers that all rewriters have.

use super::THROUGH;
use super::rewriting::{ends, packet, udp};
use crate::ip::engine::header::sample::{ip_with, marked, sound};
use crate::testing::Bench;
use wire::tcp;

const OUTSIDE: ([u8; 4], u16) = ([198, 51, 100, 9], 53);

fn inside(host: u8) -> ([u8; 4], u16) {
    ([10, 0, 0, host], 5000)
}
fn outside(host: u8) -> ([u8; 4], u16) {
    ([192, 0, 2, host], 5000)
}
fn sent(bench: &mut Bench, input: usize, bytes: &[u8]) -> Option<(usize, [u8; 4], [u8; 4])> {
    let out = bench.send(input, marked(bytes));
    out.first().map(|(output, packet)| {
        let (from, to) = ends(packet);
        (*output, from.0, to.0)
    })
}

#[test]
fn a_host_has_an_address_of_its_own() {
    let mut bench = Bench::with_ports("IPAddrRewriter(pattern 192.0.2.0/30# - 0 1, drop)", 2, 2);
    for flags in [None, Some(tcp::SYN)] {
        for host in 1..=2 {
            let out = packet(inside(host), OUTSIDE, flags, b"data");
            assert_eq!(sent(&mut bench, 0, &out), Some((0, outside(host).0, OUTSIDE.0)));
            // Anybody reaches it there.
            let back = packet(([9, 9, 9, 9], 1), outside(host), flags, b"");
            assert_eq!(sent(&mut bench, 1, &back), Some((1, [9, 9, 9, 9], inside(host).0)));
        }
    }
    // A network of four has two hosts.
    assert_eq!(sent(&mut bench, 0, &udp(inside(3), OUTSIDE)), None);
    assert_eq!(sent(&mut bench, 1, &udp(OUTSIDE, outside(3))), None);
    assert_eq!(bench.drops(), [("no mapping".to_owned(), 1), ("no free address or port".to_owned(), 1)]);
    let table = bench.read("table");
    assert_eq!(table, bench.read("mappings"));
    let mut lines: Vec<&str> = table.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "0.0.0.0 => 0.0.0.0 [0 *1] i0 exp7200",
            "0.0.0.0 => 0.0.0.0 [0 *1] i0 exp7200",
            "10.0.0.1 => 192.0.2.1 [*0 1] i0 exp7200",
            "10.0.0.2 => 192.0.2.2 [*0 1] i0 exp7200",
        ]
    );
    assert_eq!(bench.read("patterns"), "192.0.2.1-192.0.2.2 - [2]\n<drop>\n");
}

#[test]
fn a_mapping_to_an_address_has_its_annotation() {
    let mut bench = Bench::with_ports("IPAddrRewriter(pattern 192.0.2.1 - 0 1, drop)", 2, 2);
    let (_, out) = bench.send(0, marked(&udp(inside(1), OUTSIDE))).remove(0);
    assert_eq!(out.dst_ip(), OUTSIDE.0);
    let (_, back) = bench.send(1, marked(&udp(OUTSIDE, outside(1)))).remove(0);
    assert_eq!(back.dst_ip(), inside(1).0);
}

#[test]
fn any_protocol_and_later_fragments_are_rewritten() {
    let mut bench = Bench::with_ports("IPAddrRewriter(pattern 192.0.2.1 - 0 1, drop)", 2, 2);
    let fragment = ip_with(&[1; 4], &[7; 12], |h| {
        h.set_protocol(6);
        h.set_fragment_offset(8);
    });
    let other = ip_with(&[], &[7; 12], |h| h.set_protocol(47));
    let short = ip_with(&[], &[7; 3], |h| h.set_protocol(17));
    for bytes in [fragment, other, short] {
        let (output, out) = bench.push_packet(0, marked(&bytes)).remove(0);
        assert!(output == 0 && sound(&out));
        assert_eq!((&out[12..16], &out[16..]), (&[192, 0, 2, 1][..], &bytes[16..]));
    }
    assert_eq!(bench.read("size"), "1");
}

#[test]
fn what_an_address_rewriter_cannot_do_makes_no_mapping() {
    for declaration in [
        "IPAddrRewriter(pattern 192.0.2.1 10-20 - - 0 0)",
        "IPAddrRewriter(pattern - 203.0.113.4 0 0)",
        "IPAddrPairRewriter(pattern - - 203.0.113.4 80 0 0)",
    ] {
        let mut bench = Bench::with_ports(declaration, 1, 1);
        assert_eq!(sent(&mut bench, 0, &udp(inside(1), OUTSIDE)), None, "{declaration}");
        assert_eq!(bench.read("size"), "0");
    }
}

#[test]
fn hosts_share_an_address_toward_different_hosts() {
    let pattern = "pattern 192.0.2.1-192.0.2.2# 203.0.113.4 0 1";
    let mut bench = Bench::with_ports(&format!("IPAddrPairRewriter({pattern}, drop)"), 2, 2);
    let server = ([203, 0, 113, 4], 53);
    let out = sent(&mut bench, 0, &udp(inside(1), OUTSIDE));
    assert_eq!(out, Some((0, [192, 0, 2, 1], server.0)));
    let back = sent(&mut bench, 1, &udp(server, outside(1)));
    assert_eq!(back, Some((1, OUTSIDE.0, inside(1).0)));
    // Nobody else's packets are replies.
    assert_eq!(sent(&mut bench, 1, &udp(OUTSIDE, outside(1))), None);
    let mut lines: Vec<String> = bench.read("table").lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "(10.0.0.1, 198.51.100.9) => (192.0.2.1, 203.0.113.4) [*0 1] i0 exp7200",
            "(203.0.113.4, 192.0.2.1) => (198.51.100.9, 10.0.0.1) [0 *1] i0 exp7200",
        ]
    );
    let mut bench = Bench::with_ports("IPAddrPairRewriter(pattern 192.0.2.1-192.0.2.2# - 0 1, drop)", 2, 2);
    for (host, other, address) in [(1, 1, 1), (2, 2, 2), (3, 1, 2), (3, 2, 1)] {
        let out = sent(&mut bench, 0, &udp(inside(host), ([198, 51, 100, other], 53)));
        assert_eq!(out, Some((0, [192, 0, 2, address], [198, 51, 100, other])), "{host} to {other}");
    }
}

#[test]
fn a_source_has_its_server() {
    let config = "m :: SourceIPHashMapper(50 0xbad, - - 10.0.0.1 80 0 1 1, - - 10.0.0.2 80 0 1 2); \
                  e :: IPRewriter(m, drop);";
    let mut bench = Bench::with_config(config, 2, 2);
    let mut server = |client: u8, port: u16| {
        sent(&mut bench, 0, &udp(([198, 51, 100, client], port), ([192, 0, 2, 1], 80))).unwrap().2
    };
    let all: Vec<[u8; 4]> = (0..=255).map(|client| server(client, 1)).collect();
    assert!((0..=255).all(|client| server(client, 2) == all[usize::from(client)]));
    let first = all.iter().filter(|server| **server == [10, 0, 0, 1]).count();
    assert!((40..216).contains(&first), "{first}");
}

#[test]
fn patterns_are_read_one_by_one_and_changed() {
    let config = "m :: RoundRobinIPMapper(- - 10.0.0.1 80 0 1); \
                  e :: IPRewriter(pattern 192.0.2.1 1024-1030# - - 0 1, drop);";
    let mut bench = Bench::with_config(config, 2, 2);
    assert!(sent(&mut bench, 0, &udp(inside(1), OUTSIDE)).is_some());
    assert_eq!(
        (bench.read("pattern0"), bench.read("pattern1")),
        ("192.0.2.1 1024-1030 - - [1]\n".to_owned(), "<drop>\n".to_owned())
    );
    assert!(bench.try_read("pattern2").is_err() && bench.try_read("patternx").is_err());
    bench.write("pattern1", "keep 1 0");
    assert_eq!((bench.read("pattern1"), bench.read("size")), ("<keep>\n".to_owned(), "1".to_owned()));
    assert!(sent(&mut bench, 1, &udp(inside(2), OUTSIDE)).is_some());
    // The flows of an input that changes end.
    bench.write("pattern0", "m");
    assert_eq!(
        (bench.read("patterns"), bench.read("size")),
        ("<mapper>\n<keep> [1]\n".to_owned(), "1".to_owned())
    );
    let out = sent(&mut bench, 0, &udp(inside(1), OUTSIDE));
    assert_eq!(out, Some((0, inside(1).0, [10, 0, 0, 1])));
    let error = bench.try_write("pattern0", "keep 0 9").unwrap_err().to_string();
    assert!(error.contains("input spec 0: output port out of range"), "{error}");
    assert!(bench.read("handlers").contains("pattern1\trw\n"), "{}", bench.read("handlers"));
}

#[test]
fn a_smaller_capacity_ends_flows() {
    let mut bench = Bench::with_ports("UDPRewriter(keep 0 1, UDP_TIMEOUT 60)", 1, 2);
    for host in 0..9 {
        assert!(sent(&mut bench, 0, &udp(inside(host), OUTSIDE)).is_some());
    }
    assert_eq!(bench.read("table"), bench.read("mappings"));
    bench.write("capacity", "4");
    assert_eq!((bench.read("size"), bench.read("nmappings")), ("4".to_owned(), "4".to_owned()));
}

#[test]
fn rewriters_may_share_a_capacity() {
    let config = "a :: IPRewriter(keep 0 0, MAPPING_CAPACITY b); b :: IPRewriter(keep 0 0, MAPPING_CAPACITY 5, UDP_GUARANTEE 0); \
                  e [0] -> a -> BenchOut(0); e [1] -> b -> BenchOut(1); e [2] -> Discard;";
    let mut bench = Bench::with_config(&format!("{THROUGH} {config}"), 3, 0);
    for host in 0..3 {
        assert!(sent(&mut bench, 1, &udp(inside(host), OUTSIDE)).is_some());
    }
    // Flows of the first are guaranteed, so that those of the second make room, as long as there are some.
    for host in 0..5 {
        assert!(sent(&mut bench, 0, &udp(inside(host), OUTSIDE)).is_some());
    }
    let read = |bench: &mut Bench, name: &str| {
        bench.read(&format!("a.{name}")) + " " + &bench.read(&format!("b.{name}"))
    };
    assert_eq!(
        (read(&mut bench, "size"), read(&mut bench, "capacity")),
        ("5 5".to_owned(), "5 5".to_owned())
    );
    assert_eq!(read(&mut bench, "nmappings"), "5 0");
    assert_eq!(sent(&mut bench, 0, &udp(inside(7), OUTSIDE)), None);
    assert_eq!(sent(&mut bench, 1, &udp(inside(7), OUTSIDE)), None);
    bench.write("b.capacity", "6");
    assert_eq!(read(&mut bench, "capacity"), "6 6");
    let error = Bench::error("IPRewriter(keep 0 0, MAPPING_CAPACITY d); d :: Discard; Idle -> d");
    assert!(error.contains("bad MAPPING_CAPACITY"), "{error}");
}

#[test]
fn replies_get_the_annotation_of_the_first_packet() {
    let config = "nat :: IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop, REPLY_ANNO PAINT); \
                  e [0] -> Paint(7) -> nat; e [1] -> Paint(1) -> [1] nat; e [2] -> Discard; \
                  nat [0] -> BenchOut(0); nat [1] -> BenchOut(1);";
    let mut bench = Bench::with_config(&format!("{THROUGH} {config}"), 3, 0);
    let (_, out) = bench.send(0, marked(&udp(inside(1), OUTSIDE))).remove(0);
    let (_, back) = bench.send(1, marked(&udp(OUTSIDE, ([192, 0, 2, 1], 1024)))).remove(0);
    assert_eq!((out.paint(), back.paint()), (7, 7));
}
