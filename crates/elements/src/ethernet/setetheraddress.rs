//! # SetEtherAddress
//! Sets an annotation of packets to an Ethernet address.
//!
//! ## Synopsis
//! `SetEtherAddress(ADDR, ANNO)`
//!
//! ## Arguments
//! - `ADDR` (*Ethernet address*): the address.
//! - `ANNO` (*annotation of 6 bytes*): where to put it.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `addr` (read/write): the address.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> SetEtherAddress(1:2:3:4:5:6, 24)
//!   -> StoreEtherAddress(ANNO 24, OFFSET 0) -> Print -> Discard;
//! ```
//!
//! ## See also
//! GetEtherAddress, StoreEtherAddress

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{Anno, EtherAddr as EtherArg};
use wire::EtherAddr;

/// The `SetEtherAddress` element.
pub struct SetEtherAddress {
    address: EtherAddr,
    anno: usize,
}

impl Element for SetEtherAddress {
    const CLASS: &'static str = "SetEtherAddress";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::USER;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/setetheraddress");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address = EtherAddr(args.mp::<EtherArg>("ADDR")?.0);
        Ok(Self { address, anno: args.mp::<Anno<6>>("ANNO")?.0.into() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("addr", |e| e.address.to_string());
        h.write("addr", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.address = EtherAddr(a.0))
        });
    }
}

impl Step for SetEtherAddress {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.store_user(self.anno, self.address.octets());
        true
    }
}

impl Simple for SetEtherAddress {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn annotates() {
        let mut bench = Bench::new("SetEtherAddress(1:2:3:4:5:6, 24)");
        let address = |b: &mut Bench| b.send(0, Packet::from_bytes(b"").unwrap())[0].1.load_user(24);
        assert_eq!(address(&mut bench), Some([1, 2, 3, 4, 5, 6]));
        bench.write("addr", "6:5:4:3:2:1");
        assert_eq!(
            (address(&mut bench), bench.read("addr")),
            (Some([6, 5, 4, 3, 2, 1]), "06-05-04-03-02-01".into())
        );
        assert!(bench.try_write("addr", "x").is_err());
    }
}
