//! # UnstripIPHeader
//! Puts back an IP header that was stripped.
//!
//! ## Synopsis
//! `UnstripIPHeader()`
//!
//! ## Ports
//! One input, one output; agnostic. The packet begins with its marked IP header afterwards; what was between
//! the header and the data comes back with it. Packets that begin with or before their IP header pass
//! unchanged.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> StripIPHeader -> UnstripIPHeader -> Discard;
//! ```
//!
//! ## See also
//! StripIPHeader, MarkIPHeader, CheckIPHeader, Unstrip

use crate::prelude::*;

/// The `UnstripIPHeader` element.
pub struct UnstripIPHeader;

impl Element for UnstripIPHeader {
    const CLASS: &'static str = "UnstripIPHeader";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NETWORK_HEADER;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        drops::NO_IP_HEADER.when("none is marked"),
        drops::OUT_OF_MEMORY.when("the packet has moved to a buffer that does not hold the header"),
    ];
    const MANUAL: &'static str = manual!("ip/unstripipheader");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for UnstripIPHeader {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(offset) = packet.network_header_offset() else {
            cx.drop(packet, drops::NO_IP_HEADER);
            return None;
        };
        // The header lies in the buffer, so there is room for it.
        if offset < 0 && !packet.push_in_place(offset.unsigned_abs()) {
            cx.drop(packet, drops::OUT_OF_MEMORY);
            return None;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;

    #[test]
    fn puts_the_header_back() {
        let mut bench = Bench::new("UnstripIPHeader()");
        let bytes = ip(17, b"payload");
        let mut packet = marked(&bytes);
        assert!(packet.strip(23));
        assert_eq!(bench.push_packet(0, packet), [(0, bytes.clone())]);
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, bytes)]);
        assert!(bench.push(0, b"x").is_empty());
        assert_eq!(bench.drops(), [("no IP header".to_owned(), 1)]);
    }
}
