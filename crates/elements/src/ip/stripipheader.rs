//! # StripIPHeader
//! Removes the IP header and all that precedes it.
//!
//! ## Synopsis
//! `StripIPHeader()`
//!
//! ## Ports
//! One input, one output; agnostic. The IP header must have been marked, by CheckIPHeader or MarkIPHeader.
//! The mark stays, and UnstripIPHeader puts the header back.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> StripIPHeader -> Print -> Discard;
//! ```
//!
//! ## See also
//! CheckIPHeader, MarkIPHeader, UnstripIPHeader, StripToNetworkHeader, Strip

use super::engine::header::strip_to;
use crate::prelude::*;

/// The `StripIPHeader` element.
pub struct StripIPHeader;

impl Element for StripIPHeader {
    const CLASS: &'static str = "StripIPHeader";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::TRANSPORT_HEADER;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_IP_HEADER.when("not marked, or longer than the packet")];
    const MANUAL: &'static str = manual!("ip/stripipheader");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for StripIPHeader {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let place = packet.transport_header_offset();
        strip_to(packet, place, cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked};
    use crate::testing::Bench;

    #[test]
    fn leaves_the_payload() {
        let mut bench = Bench::new("StripIPHeader()");
        let bytes = ip_with(&[1; 8], b"payload", |_| ());
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, b"payload".to_vec())]);
        let out = bench.send(0, marked(&bytes));
        assert_eq!(out[0].1.network_header(), Some(&bytes[..]));
    }

    #[test]
    fn drops_packets_without_a_whole_header() {
        let mut bench = Bench::new("StripIPHeader()");
        assert!(bench.push(0, &ip(17, b"")).is_empty());
        let mut bytes = ip(17, b"");
        bytes[0] = 0x4f;
        assert!(bench.push_packet(0, marked(&bytes)).is_empty());
        assert_eq!(bench.drops(), [("no IP header".to_owned(), 2)]);
    }
}
