//! # SetIP6Address
//! Sets the destination annotation of packets to one IPv6 address.
//!
//! ## Synopsis
//! `SetIP6Address(IPADDR)`
//!
//! ## Arguments
//! - `IPADDR` (*IPv6 address*): the address.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true) -> SetIP6Address(2001:db8::1) -> Print(PRINTANNO true) -> Discard;
//! ```
//!
//! ## See also
//! GetIP6Address, StoreIP6Address, LookupIP6Route

use super::engine::header::set_dst_ip6;
use crate::prelude::*;
use std::net::Ipv6Addr;

/// The `SetIP6Address` element.
pub struct SetIP6Address {
    address: Ipv6Addr,
}

impl Element for SetIP6Address {
    const CLASS: &'static str = "SetIP6Address";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DST_IP6;
    const SETS: Fields = Fields::DST_IP6;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/setip6address");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { address: args.mp("IPADDR")? })
    }
}

impl Step for SetIP6Address {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        set_dst_ip6(packet, self.address);
        true
    }
}

impl Simple for SetIP6Address {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::{dst_ip6, sample::a};
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn sets_the_annotation() {
        let mut bench = Bench::new("SetIP6Address(2001:db8::7)");
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_paint(9);
        let out = bench.send(0, packet).remove(0).1;
        assert_eq!((dst_ip6(&out), out.paint()), (a("2001:db8::7"), 9));
        assert!(Bench::error("SetIP6Address(1.2.3.4)").contains("IPADDR"));
    }
}
