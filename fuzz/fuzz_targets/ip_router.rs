//! Packets through a full IP router (conf/ip-router-2.click without its devices, with reassembly and
//! printing): any bytes are forwarded, answered or dropped, and what leaves is a well-formed frame that fits
//! its link.
//!
//! Input: packets one after the other, each a byte of flags, a byte of length (in steps of 8) and so many
//! bytes. The flags choose the interface, and how much of the frame is made here so that it gets past the
//! first checks: an Ethernet header, a plausible IP header, the IP header's checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::testing::Bench;
use runtime::{Options, Packet, Registry};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;
use wire::{Ethernet, Ipv4, ethernet, ipv4};

static REGISTRY: LazyLock<Registry> = LazyLock::new(elements::registry);

/// How many inputs one router sees.
const USES: usize = 500;
const MTU: usize = 576;
const CONFIG: &str = "
define($IP0 10.0.1.1, $MAC0 02:00:00:00:00:01, $IP1 10.0.2.1, $MAC1 02:00:00:00:00:02, $MTU 576);
rt :: LookupIPRoute($IP0/32 0, $IP1/32 0, 10.0.1.255/32 3, 10.0.2.255/32 3, 255.255.255.255/32 3, 0.0.0.0/8 3,
    127.0.0.0/8 3, 224.0.0.0/3 3, 10.0.1.0/24 1, 10.0.2.0/24 2, 192.0.2.0/24 10.0.2.2 2, 0.0.0.0/0 4);
ip :: Strip(14) -> CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 10.0.1.255 10.0.2.255)
  -> IPPrint(in, TTL true, TOS true, LENGTH true, ID true) -> GetIPAddress(16) -> [0]rt;
e :: Null;
c0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
q0 :: Queue(100) -> Unqueue -> e;
Idle -> c0;
c0[0] -> ARPResponder($IP0 $MAC0) -> q0;
arpq0 :: ARPQuerier($IP0, $MAC0) -> q0;
c0[1] -> [1]arpq0;
c0[2] -> Paint(1) -> ip;
c0[3] -> Print(other) -> Discard;
c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
q1 :: Queue(100) -> Unqueue -> e;
Idle -> c1;
c1[0] -> ARPResponder($IP1 $MAC1) -> q1;
arpq1 :: ARPQuerier($IP1, $MAC1) -> q1;
c1[1] -> [1]arpq1;
c1[2] -> Paint(2) -> ip;
c1[3] -> Discard;
rt[0] -> IPReassembler -> local :: IPClassifier(icmp type echo, icmp, udp or tcp, -);
local[0] -> ICMPPingResponder -> Paint(0) -> [0]rt;
local[1] -> CheckICMPHeader -> Discard;
local[2] -> t :: Tee -> ICMPError($IP0, unreachable, port) -> [0]rt;
t[1] -> u :: IPClassifier(udp, tcp);
u[0] -> CheckUDPHeader -> Discard;
u[1] -> CheckTCPHeader -> Discard;
local[3] -> ICMPError($IP0, unreachable, protocol) -> [0]rt;
rt[3] -> Discard;
rt[4] -> ICMPError($IP0, unreachable, net) -> [0]rt;
rt[1] -> DropBroadcasts -> cp0 :: PaintTee(1) -> gio0 :: IPGWOptions($IP0) -> FixIPSrc($IP0)
  -> dt0 :: DecIPTTL -> fr0 :: IPFragmenter($MTU) -> [0]arpq0;
cp0[1] -> ICMPError($IP0, redirect, host) -> [0]rt;
gio0[1] -> ICMPError($IP0, parameterproblem) -> [0]rt;
dt0[1] -> ICMPError($IP0, timeexceeded) -> [0]rt;
fr0[1] -> ICMPError($IP0, unreachable, needfrag, PMTU $MTU) -> [0]rt;
rt[2] -> DropBroadcasts -> cp1 :: PaintTee(2) -> gio1 :: IPGWOptions($IP1) -> FixIPSrc($IP1)
  -> dt1 :: DecIPTTL -> fr1 :: IPFragmenter($MTU) -> [0]arpq1;
cp1[1] -> ICMPError($IP1, redirect, host) -> [0]rt;
gio1[1] -> ICMPError($IP1, parameterproblem) -> [0]rt;
dt1[1] -> ICMPError($IP1, timeexceeded) -> [0]rt;
fr1[1] -> ICMPError($IP1, unreachable, needfrag, PMTU $MTU) -> [0]rt;
";

const HOSTS: [[u8; 4]; 8] = [
    [10, 0, 1, 2],
    [10, 0, 2, 2],
    [10, 0, 1, 1],
    [10, 0, 2, 1],
    [192, 0, 2, 9],
    [198, 51, 100, 1],
    [10, 0, 1, 255],
    [10, 0, 2, 77],
];

/// Source, destination, number and protocol of a datagram.
type Datagram = ([u8; 8], [u8; 2], u8);

struct Lab {
    bench: Bench,
    /// The lowest offset of each datagram's fragments that went in.
    offsets: HashMap<Datagram, usize>,
    uses: usize,
}

impl Lab {
    fn new() -> Self {
        let options = Options { simulated_time: true, ..Options::default() };
        let bench = Bench::with(&REGISTRY, CONFIG, 0, 1, options);
        Self { bench, offsets: HashMap::new(), uses: 0 }
    }
}

thread_local! {
    static LAB: RefCell<Option<Lab>> = const { RefCell::new(None) };
}

fn inject(bench: &mut Bench, element: &str, port: usize, frame: &[u8]) {
    if let Some(packet) = Packet::from_bytes(frame) {
        bench.router().inject(element, port, [packet].into_iter().collect());
    }
}

/// A frame from the fuzzer's bytes; `flags` say what is made here.
fn frame(flags: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    if flags & 2 != 0 {
        frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 9, 0, 8, 0]);
    }
    frame.extend(data);
    if flags & 64 != 0 {
        // Large enough to be cut.
        frame.resize(frame.len() + 1400, flags);
    }
    if flags & 4 != 0 && frame.len() >= 34 {
        let len = (frame.len() - 14) as u16;
        let (src, dst) = (HOSTS[usize::from(data[0] & 7)], HOSTS[usize::from(data[0] >> 3 & 7)]);
        if let Some(mut ip) = Ipv4::new_mut(&mut frame[14..]) {
            let options = if flags & 16 != 0 { usize::from(data[1] & 15) * 4 } else { 0 };
            ip.set_version_ihl(0x45);
            ip.set_header_len(20 + options.min(40));
            ip.set_total_len(len);
            ip.set_src(src.into());
            ip.set_dst(dst.into());
            if flags & 32 == 0 {
                ip.update_flags_fragment(0);
            }
        }
    }
    if flags & 8 != 0 && frame.len() >= 34 {
        let header = usize::from(frame[14] & 15) * 4;
        let end = frame.len().min(14 + header.max(20));
        ipv4::fill_header(&mut frame[14..end]);
    }
    frame
}

/// The datagram that a packet is of, and its offset in it in bytes.
fn fragment(packet: &[u8]) -> Option<(Datagram, usize)> {
    let ip = Ipv4::new(packet)?;
    let addresses = packet.get(12..20)?.try_into().ok()?;
    Some(((addresses, packet.get(4..6)?.try_into().ok()?, ip.protocol()), ip.fragment_offset()))
}

/// What leaves must be fit to be sent; a fragment must lie in its datagram, and not before all that went in
/// of it.
fn check_sent(frame: &[u8], offsets: &HashMap<Datagram, usize>) {
    let Some((eth, rest)) = Ethernet::split(frame) else { panic!("a frame of {} bytes", frame.len()) };
    match eth.ethertype() {
        ethernet::ETHERTYPE_IPV4 => {
            let (_, total) = match ipv4::check(rest, true) {
                Ok(lengths) => lengths,
                Err(e) => panic!("{e:?}: {rest:02x?}"),
            };
            assert!(total <= MTU, "{total} bytes of IP");
            assert!(rest[8] > 0, "TTL 0: {rest:02x?}");
            let Some((datagram, offset)) = fragment(rest) else { panic!("no header: {rest:02x?}") };
            assert!(offset + total <= 65535, "{total} bytes at {offset}");
            // The router's own packets have numbers of their own.
            if !matches!(datagram.0, [10, 0, 1 | 2, 1, ..])
                && let Some(lowest) = offsets.get(&datagram)
            {
                assert!(offset >= *lowest, "a fragment at {offset}, but none went in below {lowest}");
            }
        }
        ethernet::ETHERTYPE_ARP => assert!(rest.len() >= 28, "{rest:02x?}"),
        other => panic!("ethertype {other:04x}"),
    }
}

/// What a neighbor answers to an ARP request, and the interface that it comes in by.
fn answer(frame: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let (eth, rest) = Ethernet::split(frame)?;
    let arp = wire::Arp::new(rest)?;
    if eth.ethertype() != ethernet::ETHERTYPE_ARP
        || rest[7] != 1
        || arp.bytes()[24..28] == arp.bytes()[14..18]
    {
        return None;
    }
    let mut reply = vec![0; 60];
    reply[..6].copy_from_slice(&rest[8..14]);
    reply[6..12].copy_from_slice(&[2, 0, 0, 0, 9, rest[27]]);
    reply[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    reply[22..28].copy_from_slice(&[2, 0, 0, 0, 9, rest[27]]);
    reply[28..32].copy_from_slice(&rest[24..28]);
    reply[32..42].copy_from_slice(&rest[8..18]);
    Some((if rest[16] == 1 { "c0" } else { "c1" }, reply))
}

fuzz_target!(|data: &[u8]| {
    LAB.with_borrow_mut(|lab| {
        let lab = lab.get_or_insert_with(Lab::new);
        let (bench, offsets) = (&mut lab.bench, &mut lab.offsets);
        let mut rest = data;
        while let Some(([flags, length], after)) = rest.split_first_chunk::<2>() {
            let (bytes, after) = after.split_at(after.len().min(usize::from(*length) * 8));
            rest = after;
            if bytes.len() >= 2 {
                let frame = frame(*flags, bytes);
                if let Some((datagram, offset)) = frame.get(14..).and_then(fragment) {
                    offsets
                        .entry(datagram)
                        .and_modify(|lowest| *lowest = offset.min(*lowest))
                        .or_insert(offset);
                }
                inject(bench, if flags & 1 == 0 { "c0" } else { "c1" }, 0, &frame);
            }
            for _ in 0..4 {
                bench.turn();
                for (_, packet) in bench.take() {
                    check_sent(packet.data(), offsets);
                    if let Some((interface, reply)) = answer(packet.data()) {
                        inject(bench, interface, 0, &reply);
                    }
                }
            }
        }
        lab.uses += 1;
    });
    // Making the router takes longer than a hundred inputs, but neighbors, fragments and time pile up in it.
    LAB.with_borrow_mut(|lab| lab.take_if(|lab| lab.uses >= USES));
});
