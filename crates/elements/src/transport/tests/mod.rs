//! Properties of all elements of the section: no bytes make them panic.

use crate::ip::engine::header::sample::marked;
use crate::testing::Bench;

/// Packets of random bytes, with headers that are nearly correct and are cut anywhere.
#[test]
fn any_bytes_are_survived() {
    let elements = [
        "ICMPError(1.2.3.4, timeexceeded)",
        "ICMPError(1.2.3.4, parameterproblem, MTU 30)",
        "ICMPPingResponder",
        "ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 0, VERBOSE false, MIRROR true)",
        "ICMPPingEncap(1.0.0.1, 2.0.0.2)",
        "UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)",
        "CheckICMPHeader",
        "CheckTCPHeader",
        "CheckUDPHeader",
        "SetTCPChecksum(true)",
        "SetUDPChecksum",
        "ICMPIPEncap(1.0.0.1, 2.0.0.2, timestamp)",
        "ForceTCP(0, true)",
        "ForceUDP",
        "ForceICMP(echo, 0)",
        "StripTCPHeader",
        "UnstripTCPHeader",
    ];
    let mut x = 1u32;
    let mut any = move || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 16) as u8
    };
    for element in elements {
        let mut bench = Bench::new(element);
        for _ in 0..2000 {
            let mut bytes: Vec<u8> = (0..usize::from(any() % 90)).map(|_| any()).collect();
            let options = [131, 137, 7, 1, 0, any()];
            for (at, value) in [
                (0, 0x40 | any() & 15),
                (2, 0),
                (3, any() % 100),
                (9, [1, 6, 17][usize::from(any() % 3)]),
                (20, options[usize::from(any() % 6)]),
                (21, any() % 44),
                (22, any() % 44),
            ] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bench.push_packet(0, marked(&bytes));
        }
    }
}
