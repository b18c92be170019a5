//! Datagrams into VXLANDecap: whatever arrives, nothing panics, and what leaves is the frame that lay in the
//! datagram, by the output of its tunnel, with a right checksum if there is one.
//!
//! Input: packets one after the other, each a byte of flags, a byte of length (in steps of 4) and so many
//! bytes. The flags say how much is made here so that it gets past the first checks: IP header, UDP header,
//! UDP checksum, VXLAN header; and how much somebody has stripped or cut before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::testing::Bench;
use runtime::{Options, Packet, Registry};
use std::cell::RefCell;
use std::sync::LazyLock;
use wire::{Ipv4, ipv4};

static REGISTRY: LazyLock<Registry> = LazyLock::new(elements::registry);

/// `a` sees what CheckIPHeader lets through, `b` what is only marked, after its header was stripped.
const CONFIG: &str = "
Idle -> in :: Null -> CheckIPHeader -> a :: VXLANDecap(7 192.0.2.1, 7, 8 192.0.2.3, 16777215);
Idle -> marked :: Null -> MarkIPHeader -> StripIPHeader -> b :: VXLANDecap(7 192.0.2.1, 7, 8 192.0.2.3, 16777215, VLAN true, CHECKSUM false);
e :: Null;
a [0] -> Paint(0) -> e; a [1] -> Paint(1) -> e; a [2] -> Paint(2) -> e; a [3] -> Paint(3) -> e;
b [0] -> Paint(10) -> e; b [1] -> Paint(11) -> e; b [2] -> Paint(12) -> e; b [3] -> Paint(13) -> e;
";
const SOURCES: [[u8; 4]; 4] = [[192, 0, 2, 1], [192, 0, 2, 2], [192, 0, 2, 3], [0, 0, 0, 0]];
const NETWORKS: [u32; 4] = [7, 8, 0xff_ffff, 9];

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::new(Bench::with(
        &REGISTRY, CONFIG, 0, 1, Options { simulated_time: true, ..Options::default() }));
}

/// The Internet checksum of RFC 1071, by the letter.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

fn pseudo(packet: &[u8], udp: &[u8]) -> Vec<u8> {
    let mut header = packet[12..20].to_vec();
    header.extend([0, 17]);
    header.extend((udp.len() as u16).to_be_bytes());
    header
}

/// A packet from the fuzzer's bytes.
fn packet(flags: u8, data: &[u8]) -> Vec<u8> {
    if flags & 1 == 0 {
        return data.to_vec();
    }
    let choice = data.first().copied().unwrap_or(0);
    let mut packet = vec![0; if flags & 2 == 0 { 20 } else { 20 + usize::from(choice >> 5) * 4 }];
    // Options that say nothing.
    packet[20..].fill(1);
    let header = packet.len();
    if flags & 4 != 0 {
        packet.extend([0xc0, 1, 0x12, 0xb5, 0, 0, 0, 0]);
    }
    if flags & 8 != 0 {
        packet.extend([8, 0, 0, 0]);
        packet.extend((NETWORKS[usize::from(choice >> 2 & 3)] << 8).to_be_bytes());
    }
    packet.extend(data.get(1..).unwrap_or_default());
    let len = packet.len() as u16;
    if let Some(mut ip) = Ipv4::new_mut(&mut packet) {
        ip.set_version_ihl(0x45);
        ip.set_header_len(header);
        ip.set_total_len(len);
        ip.set_ttl(64);
        ip.set_protocol(17);
        ip.set_src(SOURCES[usize::from(choice & 3)].into());
        ip.set_dst([192, 0, 2, 9].into());
    }
    ipv4::fill_header(&mut packet[..header]);
    // What is behind the datagram belongs to nobody.
    let surplus = if flags & 64 != 0 { usize::from(choice >> 4) } else { 0 };
    let end = packet.len().saturating_sub(surplus).max(header);
    if flags & 4 != 0 && end >= header + 8 {
        packet[header + 4..header + 6].copy_from_slice(&((end - header) as u16).to_be_bytes());
        if flags & 16 != 0 {
            let right = sum(&[&pseudo(&packet, &packet[header..end]), &packet[header..end]]);
            packet[header + 6..header + 8].copy_from_slice(&right.to_be_bytes());
        }
    }
    if flags & 32 != 0 {
        // Cut short.
        packet.truncate(packet.len() - usize::from(choice & 7).min(packet.len()));
    }
    packet
}

/// What left by an output must be the frame in this packet.
fn check(packet: &[u8], out: &Packet) {
    let ip = Ipv4::new(packet).expect("an IP header");
    let (header, total) = (ip.header_len(), usize::from(ip.total_len()));
    let paint = usize::from(out.paint());
    assert!(ip.protocol() == 17 && !ip.is_fragment() && total <= packet.len());
    let udp = &packet[header..total];
    let udp = &udp[..usize::from(u16::from_be_bytes([udp[4], udp[5]]))];
    assert_eq!(udp[2..4], 4789u16.to_be_bytes());
    if paint < 10 && udp[6..8] != [0, 0] {
        assert_eq!(sum(&[&pseudo(packet, udp), udp]), 0, "checksum");
    }
    assert_eq!(udp[8] & 8, 8, "the flag of the network's number");
    let network = u32::from_be_bytes([0, udp[12], udp[13], udp[14]]);
    let wanted = match (network, ip.src().octets()) {
        (7, [192, 0, 2, 1]) => 0,
        (7, _) => 1,
        (8, [192, 0, 2, 3]) => 2,
        (0xff_ffff, _) => 3,
        other => panic!("no tunnel is {other:?}"),
    };
    assert_eq!(paint % 10, wanted);
    let frame = &udp[16..];
    assert!(frame.len() >= 14 && out.data() == frame, "{frame:02x?} is {:02x?}", out.data());
    let tagged = matches!(frame[12..14], [0x81, 0] | [0x88, 0xa8]) && frame[0] != 0xc2;
    assert!(paint >= 10 || !tagged, "a tagged frame");
}

fuzz_target!(|data: &[u8]| {
    BENCH.with_borrow_mut(|bench| {
        let mut rest = data;
        while let Some(([flags, length], after)) = rest.split_first_chunk::<2>() {
            let (bytes, after) = after.split_at(after.len().min(usize::from(*length) * 4));
            rest = after;
            let bytes = packet(*flags, bytes);
            let Some(packet) = Packet::from_bytes(&bytes) else { continue };
            let element = if flags & 128 == 0 { "in" } else { "marked" };
            bench.router().inject(element, 0, [packet].into_iter().collect());
            let came = bench.take();
            assert!(came.len() <= 1);
            for (_, packet) in came {
                check(&bytes, &packet);
            }
        }
    });
});
