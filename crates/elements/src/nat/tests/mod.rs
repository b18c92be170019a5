//! Tests of the section's classes together; here those of any bytes.

mod addresses;
mod errors;
mod ftp;
mod nat64;
mod requirements;
mod rewriting;

use crate::ip::engine::header::sample::marked;
use crate::testing::Bench;

/// The beginning of a configuration with several elements, to which packets go through `e`: input N of the
/// bench is its output N.
const THROUGH: &str = "e :: IPRewriter(pass 0, pass 1, pass 2);";

/// Packets of random bytes, with headers that are nearly correct and are cut anywhere. What comes out has the
/// length that it had, and each packet either comes out or is counted.
#[test]
fn any_bytes_are_survived() {
    let elements = [
        "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, MAPPING_CAPACITY 50)",
        "TCPRewriter(pattern 192.0.2.1 - - 80 0 0, MAPPING_CAPACITY 50)",
        "UDPRewriter(pattern 10.0.0.0/8 - - - 0 0, MAPPING_CAPACITY 50)",
        "ICMPPingRewriter(pattern 192.0.2.1 1-9 - 7 0 0, MAPPING_CAPACITY 50)",
        "IPAddrRewriter(pattern 192.0.2.1-192.0.2.9 - 0 0, MAPPING_CAPACITY 50)",
        "IPAddrPairRewriter(pattern 192.0.2.1 - 0 0, MAPPING_CAPACITY 50, REPLY_ANNO PAINT)",
        "ICMPRewriter(n m); n :: IPRewriter(keep 0 0); m :: IPAddrRewriter(keep 0 0); Idle -> n -> m -> Discard",
        "FTPPortMapper(n, n, 0); n :: IPRewriter(keep 0 0); Idle -> n -> Discard",
        "IPRewriter(m); m :: SourceIPHashMapper(9 1, - - 10.0.0.1 80 0 0 1, - - 10.0.0.2 - 0 0 2)",
        "IPRewriter(m); m :: MaglevIPMapper(10.0.0.1 80, 10.0.0.2, ROUTPUT 0)",
        "HealthCheck(m, 10.0.0.254, METHOD tcp); m :: MaglevIPMapper(10.0.0.1 80)",
        "HealthCheck(m, 10.0.0.254); m :: MaglevIPMapper(10.0.0.1)",
    ];
    let mut x = 1u32;
    let mut any = move || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 16) as u8
    };
    for element in elements {
        let mut bench = Bench::with_config(&format!("e :: {element};"), 1, 1);
        let (mut sent, mut came) = (0, 0);
        for _ in 0..2000 {
            let mut bytes: Vec<u8> = (0..usize::from(any() % 90)).map(|_| any()).collect();
            for (at, value) in [
                (0, 0x40 | [5, 5, any() & 15][usize::from(any() % 3)]),
                (2, 0),
                (3, any() % 100),
                (6, if any() % 4 == 0 { any() } else { 0 }),
                (7, 0),
                (9, [1, 6, 17][usize::from(any() % 3)]),
                (20, [0, 8, any()][usize::from(any() % 3)]),
            ] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            sent += 1;
            for (_, out) in bench.push_packet(0, marked(&bytes)) {
                came += 1;
                assert_eq!(out.len(), bytes.len(), "{element}");
            }
        }
        let dropped: u64 = bench.drops().iter().map(|(_, n)| n).sum();
        assert_eq!(came + dropped, sent, "{element}: each packet comes out or is counted");
    }
}
