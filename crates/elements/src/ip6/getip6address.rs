//! # GetIP6Address
//! Copies an IPv6 address from the packet to the destination annotation.
//!
//! ## Synopsis
//! `GetIP6Address(OFFSET)`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes): where the address is in the packet; usually 24, the destination of an IPv6
//!   packet.
//!
//! ## Ports
//! One input, one output; agnostic. A packet that does not hold the address passes unchanged.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> GetIP6Address(24) -> Print(PRINTANNO true) -> Discard;
//! ```
//!
//! ## See also
//! LookupIP6Route, IP6NDSolicitor, SetIP6Address, StoreIP6Address, GetIPAddress

use crate::prelude::*;
use dpdk::offset;

/// The `GetIP6Address` element.
pub struct GetIP6Address {
    offset: usize,
}

impl Element for GetIP6Address {
    const CLASS: &'static str = "GetIP6Address";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DST_IP6;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/getip6address");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { offset: args.mp::<u32>("OFFSET")? as usize })
    }
}

impl Step for GetIP6Address {
    #[inline(always)]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let address: Option<[u8; 16]> =
            packet.data().get(self.offset..).and_then(|b| b.first_chunk()).copied();
        if let Some(address) = address {
            packet.store_user(offset::DST_IP6, address);
        }
        true
    }
}

impl Simple for GetIP6Address {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::{
        dst_ip6,
        sample::{a, ip6},
    };
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn copies_an_address() {
        let annotated = |declaration| {
            let packet = Packet::from_bytes(&ip6(17, b"")).unwrap();
            dst_ip6(&Bench::new(declaration).send(0, packet)[0].1)
        };
        assert_eq!(annotated("GetIP6Address(24)"), a("2001:db8::2"));
        assert_eq!(annotated("GetIP6Address(OFFSET 8)"), a("2001:db8::1"));
        assert_eq!(annotated("GetIP6Address(25)"), a("::"));
        assert!(Bench::error("GetIP6Address()").contains("OFFSET"));
    }
}
