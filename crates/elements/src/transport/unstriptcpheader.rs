//! # UnstripTCPHeader
//! Puts back a TCP header that was stripped.
//!
//! ## Synopsis
//! `UnstripTCPHeader()`
//!
//! ## Ports
//! One input, one output; agnostic. The packet begins with its TCP header afterwards, which follows the
//! marked IP header; what was between the header and the data comes back with it. Packets that begin with or
//! before their TCP header pass unchanged.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500002c 00000000 400666ca 0a000001 0a000002 03e807d0 00000000 00000000 50000000 00000000 64617461>,
//!     LIMIT 1, STOP true)
//!   -> MarkIPHeader -> StripTCPHeader -> UnstripTCPHeader -> Print -> Discard;
//! ```
//!
//! ## See also
//! StripTCPHeader, UnstripIPHeader, Unstrip

use super::striptcpheader::NO_TCP_HEADER;
use crate::prelude::*;

/// The `UnstripTCPHeader` element.
pub struct UnstripTCPHeader;

impl Element for UnstripTCPHeader {
    const CLASS: &'static str = "UnstripTCPHeader";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::TRANSPORT_HEADER;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        NO_TCP_HEADER.when("no IP header is marked"),
        drops::OUT_OF_MEMORY.when("the packet has moved to a buffer that does not hold the header"),
    ];
    const MANUAL: &'static str = manual!("transport/unstriptcpheader");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for UnstripTCPHeader {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(offset) = packet.transport_header_offset() else {
            cx.drop(packet, NO_TCP_HEADER);
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
