//! # StoreIP6Address
//! Stores an IPv6 address in packets.
//!
//! ## Synopsis
//! `StoreIP6Address(OFFSET)`, `StoreIP6Address(ADDR, OFFSET)`
//!
//! ## Arguments
//! - `ADDR` (*IPv6 address*): the address; without it, each packet's destination annotation.
//! - `OFFSET` (*int*, bytes, or `src` or `dst`): where to store it, from the marked IPv6 header on.
//!
//! ## Ports
//! One input, one output; agnostic. No checksum is changed. A packet that has no room for the address there
//! passes unchanged. The IPv6 header must have been marked.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header -> StoreIP6Address(2001:db8::9, dst) -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! GetIP6Address, SetIP6Address, StoreIPAddress

use super::engine::header::{dst_ip6, header, no_header};
use crate::prelude::*;
use lang::args::Word;
use std::net::Ipv6Addr;

/// The `StoreIP6Address` element.
pub struct StoreIP6Address {
    /// The address, unless it is the annotation.
    address: Option<Ipv6Addr>,
    offset: usize,
}

impl Element for StoreIP6Address {
    const CLASS: &'static str = "StoreIP6Address";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER).with(Fields::DST_IP6);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/storeip6address");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address = if args.len() > 1 { Some(args.mp("ADDR")?) } else { None };
        let Word(place) = args.mp("OFFSET")?;
        let offset = match &*place.to_ascii_lowercase() {
            "src" => 8,
            "dst" => 24,
            number => {
                lang::args::parse::<u32>(number).map_err(|e| args.error(format!("OFFSET: {e}")))? as usize
            }
        };
        Ok(Self { address, offset })
    }
}

impl Step for StoreIP6Address {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        if header(packet).is_none() {
            return false;
        }
        let address = self.address.unwrap_or_else(|| dst_ip6(packet));
        let place = packet.network_header_mut().and_then(|b| b.get_mut(self.offset..)?.first_chunk_mut());
        if let Some(place) = place {
            *place = address.octets();
        }
        true
    }
}

impl Simple for StoreIP6Address {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) { Some(packet) } else { no_header(packet, cx) }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::{
        sample::{a, ip6, marked},
        set_dst_ip6,
    };
    use crate::testing::Bench;

    #[test]
    fn stores_where_it_is_told_to() {
        let bytes = ip6(17, &[0; 20]);
        let stored = |declaration: &str, at: usize| {
            let mut packet = marked(&bytes);
            set_dst_ip6(&mut packet, a("::5"));
            let out = Bench::new(declaration).push_packet(0, packet).remove(0).1;
            let mut want = bytes.clone();
            want[at..at + 16].copy_from_slice(&out[at..at + 16]);
            assert_eq!(out, want);
            out[at + 15]
        };
        assert_eq!(stored("StoreIP6Address(src)", 8), 5);
        assert_eq!(stored("StoreIP6Address(::9, dst)", 24), 9);
        assert_eq!(stored("StoreIP6Address(::8, 44)", 44), 8);
        // No room: unchanged.
        assert_eq!(Bench::new("StoreIP6Address(45)").push_packet(0, marked(&bytes)), [(0, bytes.clone())]);
        assert!(Bench::new("StoreIP6Address(src)").push(0, &bytes).is_empty());
        assert!(Bench::error("StoreIP6Address(-1)").contains("OFFSET"));
    }
}
