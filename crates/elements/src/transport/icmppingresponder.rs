//! # ICMPPingResponder
//! Answers pings.
//!
//! ## Synopsis
//! `ICMPPingResponder()`
//!
//! ## Arguments
//! None.
//!
//! ## Ports
//! One input, one or two outputs. ICMP echo requests, whose IP header must be marked, become replies and
//! leave by output 0: the addresses are swapped, the TTL is 255, fragmentation is not forbidden, both
//! checksums are updated. The destination annotation is the asker, the paint is 0, the timestamp is now.
//! Whatever else comes goes to output 1 (push) if it is connected; otherwise it is dropped.
//!
//! A fragment is answered as if it were whole: let IPReassembler put pings together first. Checksums are not
//! checked, and a wrong one stays wrong.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 400166df 0a000001 0a000002 0800f7fd00010001>, LIMIT 1, STOP true)
//!   -> MarkIPHeader
//!   -> ICMPPingResponder
//!   -> Print(reply)
//!   -> Discard;
//! ```
//!
//! ## See also
//! ICMPPingSource, ICMPPingEncap, IPReassembler, ARPResponder

use crate::ip::engine::header::{header, header_mut};
use crate::prelude::*;
use wire::{Icmpv4, Ipv4, checksum, icmpv4, protocol};

const NOT_AN_ECHO_REQUEST: DropReason = DropReason::new("not an echo request");

const TTL: u8 = 255;

/// The `ICMPPingResponder` element.
pub struct ICMPPingResponder;

impl Element for ICMPPingResponder {
    const CLASS: &'static str = "ICMPPingResponder";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::PAINT).with(Fields::TIMESTAMP);
    const DROPS: &'static [DropCase] = &[NOT_AN_ECHO_REQUEST.when("the packet is something else")];
    const MANUAL: &'static str = manual!("transport/icmppingresponder");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

fn is_request(packet: &Packet) -> bool {
    header(packet).is_some_and(|h| h.protocol() == protocol::ICMP)
        && packet.transport_header().and_then(Icmpv4::new).is_some_and(|m| m.kind() == icmpv4::ECHO)
}

/// Swaps the addresses, which leaves the checksum correct, and sets the TTL anew.
fn turn_header(h: &mut Ipv4<&mut [u8; wire::ipv4::HEADER_LEN]>) {
    let (src, dst) = (h.src(), h.dst());
    h.set_src(dst);
    h.set_dst(src);
    h.update_flags_fragment(0);
    let word = |ttl| u16::from_be_bytes([ttl, protocol::ICMP]);
    let check = checksum::update(h.checksum(), word(h.ttl()), word(TTL));
    h.set_ttl(TTL);
    h.set_checksum(check);
}

/// Turns a request into a reply.
fn turn_message(message: &mut [u8]) {
    let Some(mut m) = Icmpv4::new_mut(message) else { return };
    let check = checksum::update(m.checksum(), u16::from_be_bytes([m.kind(), m.code()]), 0);
    m.set_kind(icmpv4::ECHO_REPLY);
    m.set_code(0);
    m.set_checksum(check);
    if check == 0 && checksum::sum(message) == 0 {
        // All fields are zero: an update cannot see that the sum is now the other representation of zero (RFC
        // 1624 §3).
        icmpv4::fill(message);
    }
}

impl Simple for ICMPPingResponder {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if !is_request(&packet) {
            cx.fail(packet, NOT_AN_ECHO_REQUEST);
            return None;
        }
        if let Some(mut h) = header_mut(&mut packet) {
            turn_header(&mut h);
            let asker = h.dst();
            packet.set_dst_ip(asker.octets());
        }
        if let Some(message) = packet.transport_header_mut() {
            turn_message(message);
        }
        let anno = packet.anno_mut();
        anno.set_paint(0);
        anno.timestamp_ns = cx.now_ns();
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;

    fn ping(code: u8, rest: &[u8]) -> Vec<u8> {
        let mut message = vec![8, code, 0, 0];
        message.extend_from_slice(rest);
        wire::icmpv4::fill(&mut message);
        message
    }

    #[test]
    fn turns_requests_round() {
        let mut bench = Bench::new("ICMPPingResponder");
        for code in [0, 9] {
            let bytes = ip_with(&[1, 1, 1, 1], &ping(code, b"\x12\x34\0\x01data"), |h| {
                h.set_protocol(1);
                h.set_dont_fragment(true);
            });
            let mut packet = marked(&bytes);
            packet.set_paint(3);
            let (port, out) = bench.send(0, packet).remove(0);
            let a = out.data();
            assert!(port == 0 && sound(a) && wire::icmpv4::verify(&a[24..]));
            assert_eq!(a[6..10], [0, 0, 255, 1]);
            assert_eq!(a[12..20], [10, 0, 0, 2, 10, 0, 0, 1]);
            assert_eq!((&a[24..26], &a[28..]), (&[0, 0][..], &b"\x12\x34\0\x01data"[..]));
            assert_eq!((out.dst_ip(), out.paint()), ([10, 0, 0, 1], 0));
            assert!(out.timestamp_ns() > 0);
        }
    }

    #[test]
    fn knows_the_two_zeros() {
        let mut bench = Bench::new("ICMPPingResponder");
        let a = &bench.push_packet(0, marked(&ip(1, &ping(0, &[0; 20]))))[0].1;
        assert_eq!(a[20..24], [0, 0, 0xff, 0xff]);
        assert!(wire::icmpv4::verify(&a[20..]));
        // A wrong checksum stays wrong.
        let mut wrong = ping(0, &[0; 20]);
        wrong[3] ^= 1;
        assert!(!wire::icmpv4::verify(&bench.push_packet(0, marked(&ip(1, &wrong)))[0].1[20..]));
    }

    #[test]
    fn passes_the_rest_on() {
        let mut bench = Bench::new("ICMPPingResponder");
        let ping = ping(0, &[1; 4]);
        let mut reply = ping.clone();
        reply[0] = 0;
        for bytes in [ip(17, &ping), ip(1, &reply), ip(1, &ping[..7]), ip(1, b""), b"E".to_vec()] {
            assert_eq!(bench.push_packet(0, marked(&bytes)), [(1, bytes)]);
        }
        assert_eq!(bench.push(0, &ip(1, &ping))[0].0, 1, "unmarked");
        let mut bench = Bench::with_ports("ICMPPingResponder", 1, 1);
        assert!(bench.push_packet(0, marked(&ip(1, &reply))).is_empty());
        assert_eq!(bench.drops(), [("not an echo request".to_owned(), 1)]);
    }
}
