//! # IP6Mirror
//! Swaps source and destination of IPv6 packets, and of TCP and UDP in them.
//!
//! ## Synopsis
//! `IP6Mirror()`
//!
//! ## Ports
//! One input, one output; agnostic. The addresses are swapped, and the ports if TCP or UDP follows the fixed
//! header. No checksum changes by that, and no annotation. The IPv6 header must have been marked.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header -> IP6Mirror -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! MarkIP6Header, IPMirror, EtherMirror

use super::engine::header::{header_mut, no_header};
use crate::prelude::*;
use wire::{Udp, protocol};

/// The `IP6Mirror` element.
pub struct IP6Mirror;

impl Element for IP6Mirror {
    const CLASS: &'static str = "IP6Mirror";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const MANUAL: &'static str = manual!("ip6/ip6mirror");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for IP6Mirror {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(mut h) = header_mut(&mut packet) else { return no_header(packet, cx) };
        let (src, dst) = (h.src(), h.dst());
        h.set_src(dst);
        h.set_dst(src);
        if matches!(h.next_header(), protocol::TCP | protocol::UDP)
            && let Some(mut u) = packet.transport_header_mut().and_then(Udp::new_mut)
        {
            let (src, dst) = (u.src_port(), u.dst_port());
            u.set_src_port(dst);
            u.set_dst_port(src);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::{ip6, marked};
    use crate::testing::Bench;

    #[test]
    fn swaps_addresses_and_ports() {
        let mut bench = Bench::new("IP6Mirror()");
        let payload = [0, 1, 0, 2, 0, 8, 7, 7];
        let bytes = ip6(17, &payload);
        let out = bench.push_packet(0, marked(&bytes)).remove(0).1;
        assert_eq!((&out[8..24], &out[24..40]), (&bytes[24..40], &bytes[8..24]));
        assert_eq!(out[40..], [0, 2, 0, 1, 0, 8, 7, 7]);
        assert_eq!(bench.push_packet(0, marked(&out)), [(0, bytes)]);
        assert_eq!(bench.push_packet(0, marked(&ip6(58, &payload)))[0].1[40..], payload);
        assert_eq!(bench.push_packet(0, marked(&ip6(6, &payload[..7])))[0].1[40..], payload[..7]);
        assert!(bench.push(0, b"").is_empty());
    }
}
