//! # MarkIPHeader
//! Marks where the IP header of packets is, without checking it.
//!
//! ## Synopsis
//! `MarkIPHeader([OFFSET])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes, default 0): where the header begins.
//!
//! ## Ports
//! One input, one output; agnostic. A packet that ends before the fixed part of the header passes without a
//! mark.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader(0)
//!   -> SetIPChecksum
//!   -> Discard;
//! ```
//!
//! ## See also
//! CheckIPHeader, StripIPHeader

use crate::prelude::*;
use wire::Ipv4;

/// The `MarkIPHeader` element.
pub struct MarkIPHeader {
    offset: usize,
}

impl Element for MarkIPHeader {
    const CLASS: &'static str = "MarkIPHeader";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::IP_HEADERS;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/markipheader");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { offset: args.p::<u32>("OFFSET")?.unwrap_or(0) as usize })
    }
}

impl Step for MarkIPHeader {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let header_len = packet.data().get(self.offset..).and_then(Ipv4::new).map(|h| h.header_len());
        if let Some(len) = header_len {
            packet.set_network_header(self.offset, len);
        }
        true
    }
}

impl Simple for MarkIPHeader {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::ip_with;
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn marks_network_and_transport_header() {
        let mut bench = Bench::new("MarkIPHeader(2)");
        let mut bytes = vec![0, 0];
        bytes.extend(ip_with(&[1, 1, 1, 1], b"abc", |_| ()));
        let out = bench.send(0, Packet::from_bytes(&bytes).unwrap());
        assert_eq!(out[0].1.network_header_offset(), Some(2));
        assert_eq!(out[0].1.transport_header(), Some(&b"abc"[..]));
    }

    #[test]
    fn short_packets_pass_unmarked() {
        let mut bench = Bench::new("MarkIPHeader(2)");
        let out = bench.send(0, Packet::from_bytes(&[0x45; 21]).unwrap());
        assert_eq!(out[0].1.network_header(), None);
    }
}
