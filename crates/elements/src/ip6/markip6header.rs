//! # MarkIP6Header
//! Marks where the IPv6 header of packets is, without checking it.
//!
//! ## Synopsis
//! `MarkIP6Header([OFFSET])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes, default 0): where the header begins.
//!
//! ## Ports
//! One input, one output; agnostic. The transport header is marked 40 bytes behind it. A packet that ends
//! before that passes without a mark.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header(0) -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! CheckIP6Header, MarkIPHeader

use crate::prelude::*;
use wire::ipv6::HEADER_LEN;

/// The `MarkIP6Header` element.
pub struct MarkIP6Header {
    offset: usize,
}

impl Element for MarkIP6Header {
    const CLASS: &'static str = "MarkIP6Header";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::IP_HEADERS;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/markip6header");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { offset: args.p::<u32>("OFFSET")?.unwrap_or(0) as usize })
    }
}

impl Step for MarkIP6Header {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        if packet.len().checked_sub(self.offset).is_some_and(|len| len >= HEADER_LEN) {
            packet.set_network_header(self.offset, HEADER_LEN);
        }
        true
    }
}

impl Simple for MarkIP6Header {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::ip6;
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn marks_network_and_transport_header() {
        let mut bench = Bench::new("MarkIP6Header(2)");
        let bytes = [&[0, 0], &ip6(17, b"abc")[..]].concat();
        let out = bench.send(0, Packet::from_bytes(&bytes).unwrap()).remove(0).1;
        assert_eq!(out.network_header_offset(), Some(2));
        assert_eq!(out.transport_header(), Some(&b"abc"[..]));
        let short = bench.send(0, Packet::from_bytes(&bytes[..41]).unwrap()).remove(0).1;
        assert_eq!(short.network_header(), None);
    }
}
