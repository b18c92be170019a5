//! # ICMP6PingResponder
//! Turns ICMPv6 echo requests into replies (RFC 4443 section 4.2).
//!
//! ## Synopsis
//! `ICMP6PingResponder()`
//!
//! ## Ports
//! One input, one or two outputs; agnostic. Echo requests that have no extension headers become replies: the
//! addresses are swapped, the hop limit is 64, and the destination annotation is the new destination.
//! Anything else, also a request to a multicast address, goes to output 1 or is dropped. The IPv6 header must
//! have been marked.
//!
//! Click has no such class.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00083a40 20010db8000000000000000000000001 20010db8000000000000000000000002 8000000000010001>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header -> ICMP6PingResponder -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! ICMP6Error, MarkIP6Header, ICMPPingResponder

use super::engine::header::{header, header_mut, set_dst_ip6};
use crate::prelude::*;
use wire::ipv6::HEADER_LEN;
use wire::{Icmpv6, checksum, icmpv6, protocol};

const NOT_AN_ECHO_REQUEST: DropReason = DropReason::new("not an echo request");
const HOP_LIMIT: u8 = 64;

/// The `ICMP6PingResponder` element.
pub struct ICMP6PingResponder;

impl Element for ICMP6PingResponder {
    const CLASS: &'static str = "ICMP6PingResponder";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP6);
    const DROPS: &'static [DropCase] =
        &[NOT_AN_ECHO_REQUEST.when("the packet is something else, or to a multicast address")];
    const MANUAL: &'static str = manual!("ip6/icmp6pingresponder");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

fn is_request(packet: &Packet) -> bool {
    let message = packet.network_header().and_then(|b| Icmpv6::new(b.get(HEADER_LEN..)?));
    header(packet).is_some_and(|h| h.next_header() == protocol::ICMPV6 && !h.dst().is_multicast())
        && message.is_some_and(|m| m.kind() == icmpv6::ECHO)
}

impl Simple for ICMP6PingResponder {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if !is_request(&packet) {
            cx.fail(packet, NOT_AN_ECHO_REQUEST);
            return None;
        }
        if let Some(mut h) = header_mut(&mut packet) {
            // The sum of the pseudo-header stays the same.
            let (src, dst) = (h.src(), h.dst());
            h.set_src(dst);
            h.set_dst(src);
            h.set_hop_limit(HOP_LIMIT);
            set_dst_ip6(&mut packet, src);
        }
        if let Some(mut m) =
            packet.network_header_mut().and_then(|b| Icmpv6::new_mut(b.get_mut(HEADER_LEN..)?))
        {
            let word = |kind| u16::from_be_bytes([kind, m.code()]);
            let check = checksum::update(m.checksum(), word(icmpv6::ECHO), word(icmpv6::ECHO_REPLY));
            m.set_kind(icmpv6::ECHO_REPLY);
            m.set_checksum(check);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::{
        dst_ip6,
        sample::{a, ip6, ip6_with, marked},
    };
    use crate::testing::Bench;
    use wire::{Ipv6, icmpv6};

    fn ping(kind: u8, dst: &str) -> Vec<u8> {
        let mut bytes = ip6_with(58, &[kind, 0, 0, 0, 0x12, 0x34, 0, 1, b'x'], |h| {
            h.set_dst(a(dst));
            h.set_hop_limit(1);
        });
        let sum = Ipv6::new(&bytes).unwrap().pseudo_sum(9);
        icmpv6::fill(sum, &mut bytes[40..]);
        bytes
    }

    #[test]
    fn turns_requests_round() {
        let mut bench = Bench::new("ICMP6PingResponder");
        let (port, out) = bench.send(0, marked(&ping(128, "2001:db8::2"))).remove(0);
        let (h, message) = Ipv6::split(out.data()).unwrap();
        assert_eq!((port, h.src(), h.dst(), h.hop_limit()), (0, a("2001:db8::2"), a("2001:db8::1"), 64));
        assert!(icmpv6::verify(h.pseudo_sum(9), message));
        assert_eq!((message[0], &message[4..]), (129, &[0x12, 0x34, 0, 1, b'x'][..]));
        assert_eq!(dst_ip6(&out), a("2001:db8::1"));
    }

    #[test]
    fn passes_the_rest_on() {
        let mut bench = Bench::new("ICMP6PingResponder");
        for bytes in
            [ping(129, "::2"), ping(128, "ff02::1"), ip6(17, &[128; 9]), ip6(58, &[128; 7]), b"6".to_vec()]
        {
            assert_eq!(bench.push_packet(0, marked(&bytes)), [(1, bytes)]);
        }
        assert_eq!(bench.push(0, &ping(128, "::2"))[0].0, 1, "unmarked");
    }
}
