//! # StripToNetworkHeader
//! Removes everything before the network header.
//!
//! ## Synopsis
//! `StripToNetworkHeader()`
//!
//! ## Ports
//! One input, one output; agnostic. The network header must have been marked, by CheckIPHeader or
//! MarkIPHeader for instance. A packet that begins with or after its network header passes unchanged.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true) -> MarkIPHeader(14) -> StripToNetworkHeader -> Discard;
//! ```
//!
//! ## See also
//! StripIPHeader, MarkIPHeader, Strip

use super::engine::header::strip_to;
use crate::prelude::*;

/// The `StripToNetworkHeader` element.
pub struct StripToNetworkHeader;

impl Element for StripToNetworkHeader {
    const CLASS: &'static str = "StripToNetworkHeader";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NETWORK_HEADER;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] =
        &[drops::NO_IP_HEADER.when("not marked, or beyond the end of the packet")];
    const MANUAL: &'static str = manual!("ip/striptonetworkheader");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for StripToNetworkHeader {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let place = packet.network_header_offset();
        strip_to(packet, place, cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn strips_the_link_header() {
        let mut bench = Bench::new("StripToNetworkHeader()");
        let mut packet = Packet::from_bytes(b"linkIP").unwrap();
        packet.set_network_header(4, 2);
        assert_eq!(bench.push_packet(0, packet), [(0, b"IP".to_vec())]);
        assert!(bench.push(0, b"x").is_empty());
        assert_eq!(bench.drops(), [("no IP header".to_owned(), 1)]);
    }
}
