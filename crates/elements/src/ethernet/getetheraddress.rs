//! # GetEtherAddress
//! Copies an Ethernet address from the packet to an annotation.
//!
//! ## Synopsis
//! `GetEtherAddress(ANNO, OFFSET)`
//!
//! ## Arguments
//! - `ANNO` (*annotation of 6 bytes*): where to put it.
//! - `OFFSET` (*int*, bytes, or `src` or `dst`): where the address is in the packet; `src` is 6 and `dst` is 0.
//!
//! ## Ports
//! One agnostic input. Packets leave by output 0, agnostic; those that do not hold the address by output 1,
//! push, if it is connected.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)
//!   -> GetEtherAddress(24, src) -> StoreEtherAddress(ANNO 24, OFFSET dst) -> Print -> Discard;
//! ```
//!
//! ## See also
//! SetEtherAddress, StoreEtherAddress, EtherEncap

use super::storeetheraddress::place;
use crate::prelude::*;
use lang::args::Anno;

const NO_ADDRESS: DropReason = DropReason::new("no address at the offset");

/// The `GetEtherAddress` element.
pub struct GetEtherAddress {
    anno: usize,
    offset: usize,
}

impl Element for GetEtherAddress {
    const CLASS: &'static str = "GetEtherAddress";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::USER;
    const DROPS: &'static [DropCase] =
        &[NO_ADDRESS.when("the packet ends before the address would, and output 1 is not connected")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/getetheraddress");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let anno = args.mp::<Anno<6>>("ANNO")?.0.into();
        Ok(Self { anno, offset: place(args)? })
    }
}

impl Step for GetEtherAddress {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let address = packet.data().get(self.offset..).and_then(<[u8]>::first_chunk::<6>).copied();
        address.is_some_and(|address| packet.store_user(self.anno, address))
    }
}

impl Simple for GetEtherAddress {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.fail(packet, NO_ADDRESS);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn copies_the_address() {
        let bytes: Vec<u8> = (0..14).collect();
        for (offset, address) in
            [("src", [6, 7, 8, 9, 10, 11]), ("dst", [0, 1, 2, 3, 4, 5]), ("8", [8, 9, 10, 11, 12, 13])]
        {
            let mut bench = Bench::with_ports(&format!("GetEtherAddress(24, {offset})"), 1, 2);
            let out = bench.send(0, Packet::from_bytes(&bytes).unwrap());
            assert_eq!((out[0].0, out[0].1.load_user(24)), (0, Some(address)));
            assert_eq!(bench.push(0, &bytes[..5])[0].0, 1);
        }
        assert!(Bench::error("GetEtherAddress(24, there)").contains("bad OFFSET"));
        assert!(Bench::error("GetEtherAddress(43, src)").contains("ANNO"));
    }
}
