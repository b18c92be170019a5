//! # SetIPAddress
//! Sets the destination annotation of packets to one address.
//!
//! ## Synopsis
//! `SetIPAddress(IPADDR, [ANNO])`
//!
//! ## Arguments
//! - `IPADDR` (*IP address*): the address.
//! - `ANNO` (*annotation of 4 bytes*, keyword, default the destination IP address): the annotation to set.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `addr` (read/write): the `IPADDR` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true) -> SetIPAddress(10.0.0.254) -> Discard;
//! ```
//!
//! ## See also
//! GetIPAddress, StoreIPAddress, StaticIPLookup

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::Anno;
use std::net::Ipv4Addr;

/// The `SetIPAddress` element.
pub struct SetIPAddress {
    address: Ipv4Addr,
    anno: usize,
}

impl Element for SetIPAddress {
    const CLASS: &'static str = "SetIPAddress";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::USER;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/setipaddress");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address = args.mp("IPADDR")?;
        let anno = args.k::<Anno<4>>("ANNO")?.map_or(0, |a| a.0.into());
        Ok(Self { address, anno })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("addr", |e| e.address.to_string());
        h.write("addr", |e, v, _| {
            e.address = text::value(v, "expected IP address")?;
            Ok(())
        });
        h.argument("addr", 0, "IPADDR");
    }
}

impl Step for SetIPAddress {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.store_user(self.anno, self.address.octets());
        true
    }
}

impl Simple for SetIPAddress {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn sets_the_annotation() {
        let mut bench = Bench::new("SetIPAddress(1.2.3.4, ANNO 4)");
        let set = |b: &mut Bench| b.send(0, Packet::from_bytes(b"x").unwrap())[0].1.load_user::<4>(4);
        assert_eq!(set(&mut bench), Some([1, 2, 3, 4]));
        bench.write("addr", "5.6.7.8");
        assert_eq!(set(&mut bench), Some([5, 6, 7, 8]));
        assert_eq!(bench.read("addr"), "5.6.7.8");
        assert!(bench.try_write("addr", "5.6.7").is_err());
    }
}
