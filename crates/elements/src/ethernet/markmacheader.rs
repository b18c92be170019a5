//! # MarkMACHeader
//! Notes where each packet's link header is.
//!
//! ## Synopsis
//! `MarkMACHeader([OFFSET, LENGTH])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes, default 0): where the link header begins.
//! - `LENGTH` (*int*, bytes, default 0): its length; the network header is marked behind it. With 0 it is
//!   not.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! None.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> MarkMACHeader(0, 14) -> Discard;
//! ```
//!
//! ## See also
//! MarkIPHeader, EtherEncap

use crate::prelude::*;

/// The `MarkMACHeader` element.
pub struct MarkMacHeader {
    offset: usize,
    length: usize,
}

impl Element for MarkMacHeader {
    const CLASS: &'static str = "MarkMACHeader";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::HEADERS;
    const SETS: Fields = Fields::MAC_HEADER;
    const MANUAL: &'static str = manual!("ethernet/markmacheader");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let offset = args.p_or::<u32>("OFFSET", 0)? as usize;
        let length = args.p_or::<u32>("LENGTH", 0)? as usize;
        Ok(Self { offset, length })
    }
}

impl Simple for MarkMacHeader {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        packet.set_mac_header(self.offset);
        if self.length > 0 {
            packet.set_network_header(self.offset.saturating_add(self.length), 0);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;

    #[test]
    fn marks() {
        let packet = || Packet::from_bytes(&[0; 40]).unwrap();
        let out = Bench::new("MarkMACHeader(4, 14)").send(0, packet());
        let p = &out[0].1;
        assert_eq!((p.mac_header_offset(), p.network_header_offset()), (Some(4), Some(18)));
        let out = Bench::new("MarkMACHeader").send(0, packet());
        let p = &out[0].1;
        assert_eq!((p.mac_header_offset(), p.network_header_offset()), (Some(0), None));
        // A header position beyond the packet, or beyond every buffer, must not cause a failure.
        for far in ["41", "4294967295, 4294967295"] {
            let out = Bench::new(&format!("MarkMACHeader({far})")).send(0, packet());
            assert!(out[0].1.mac_header().is_none_or(<[u8]>::is_empty));
        }
    }
}
