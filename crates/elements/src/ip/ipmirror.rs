//! # IPMirror
//! Swaps source and destination of IP packets.
//!
//! ## Synopsis
//! `IPMirror([DST_ANNO])`
//!
//! ## Arguments
//! - `DST_ANNO` (*bool*, default true): whether to set the destination annotation to the new destination.
//!
//! ## Ports
//! One input, one output; agnostic. Addresses are swapped, TCP and UDP ports as well, and TCP's sequence and
//! acknowledgement numbers. No checksum changes by that. The IP header must have been marked.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0001000200080000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> IPMirror -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! EtherMirror, ICMPPingResponder

use super::engine::header::header_mut;
use crate::prelude::*;
use wire::{Tcp, Udp, protocol};

/// The `IPMirror` element.
pub struct IPMirror {
    annotate: bool,
}

impl Element for IPMirror {
    const CLASS: &'static str = "IPMirror";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP);
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const MANUAL: &'static str = manual!("ip/ipmirror");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { annotate: args.p("DST_ANNO")?.unwrap_or(true) })
    }
}

impl Simple for IPMirror {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(mut h) = header_mut(&mut packet) else {
            cx.drop(packet, drops::NO_IP_HEADER);
            return None;
        };
        let (src, dst) = (h.src(), h.dst());
        h.set_src(dst);
        h.set_dst(src);
        let (protocol, first) = (h.protocol(), h.is_first_fragment());
        if self.annotate {
            packet.set_dst_ip(src.octets());
        }
        if first
            && matches!(protocol, protocol::TCP | protocol::UDP)
            && let Some(bytes) = packet.transport_header_mut()
        {
            if let Some(mut u) = Udp::new_mut(bytes) {
                let (src, dst) = (u.src_port(), u.dst_port());
                u.set_src_port(dst);
                u.set_dst_port(src);
            }
            if protocol == protocol::TCP
                && let Some(mut t) = Tcp::new_mut(bytes)
            {
                let (seq, ack) = (t.seq(), t.ack());
                t.set_seq(ack);
                t.set_ack(seq);
            }
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;

    const TCP: [u8; 20] = [0, 1, 0, 2, 1, 1, 1, 1, 2, 2, 2, 2, 0x50, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn swaps_everything_twice_is_nothing() {
        let mut bench = Bench::new("IPMirror()");
        let bytes = ip(6, &TCP);
        let out = bench.send(0, marked(&bytes)).remove(0).1;
        let data = out.data();
        assert_eq!(data[12..20], [10, 0, 0, 2, 10, 0, 0, 1]);
        assert_eq!(data[20..32], [0, 2, 0, 1, 2, 2, 2, 2, 1, 1, 1, 1]);
        assert!(sound(data));
        assert_eq!(out.dst_ip(), [10, 0, 0, 1]);
        assert_eq!(bench.push_packet(0, out), [(0, bytes)]);
    }

    #[test]
    fn leaves_the_payload_of_fragments_and_others() {
        let mut bench = Bench::new("IPMirror(false)");
        let fragment = ip_with(&[], &TCP, |h| {
            h.set_protocol(6);
            h.set_fragment_offset(8);
        });
        let out = bench.send(0, marked(&fragment)).remove(0).1;
        assert_eq!(out.data()[20..], TCP);
        assert_eq!(out.dst_ip(), [10, 0, 0, 2]);
        assert_eq!(bench.push_packet(0, marked(&ip(1, &TCP)))[0].1[20..], TCP);
        assert_eq!(bench.push_packet(0, marked(&ip(17, &TCP[..7])))[0].1[20..], TCP[..7]);
        assert!(bench.push(0, b"").is_empty());
    }
}
