//! # GetIPAddress
//! Copies an IP address from the packet to an annotation.
//!
//! ## Synopsis
//! `GetIPAddress(OFFSET, [ANNO])`, `GetIPAddress(IP src|dst, [ANNO])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes): where the address is in the packet; usually 16, the destination of an IP
//!   packet.
//! - `ANNO` (*annotation of 4 bytes*, default the destination IP address): where to put it; by position or
//!   keyword.
//! - `IP` (`src` or `dst`, keyword): takes the address from the marked IP header. Give this or `OFFSET`.
//!
//! ## Ports
//! One input, one output; agnostic. A packet that does not hold the address passes unchanged.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> GetIPAddress(16)
//!   -> Discard;
//! ```
//!
//! ## See also
//! SetIPAddress, StoreIPAddress, CheckIPHeader

use super::engine::header::header;
use crate::prelude::*;
use dpdk::offset;
use lang::args::{Anno, Word};

/// The `GetIPAddress` element.
pub struct GetIPAddress {
    from: From,
    anno: usize,
}

#[derive(Clone, Copy)]
enum From {
    Offset(usize),
    Src,
    Dst,
}

impl Element for GetIPAddress {
    const CLASS: &'static str = "GetIPAddress";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::USER;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/getipaddress");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let offset = args.p::<i32>("OFFSET")?.and_then(|n| usize::try_from(n).ok());
        let anno = args.p::<Anno<4>>("ANNO")?.map_or(0, |a| a.0.into());
        let from = match (offset, args.k::<Word>("IP")?.as_ref().map(|w| w.0.as_str())) {
            (Some(offset), None) => From::Offset(offset),
            (None, Some("src")) => From::Src,
            (None, Some("dst")) => From::Dst,
            (None, Some(_)) => return Err(args.error("bad IP")),
            _ => return Err(args.error("set one of OFFSET, IP")),
        };
        Ok(Self { from, anno })
    }
}

impl Step for GetIPAddress {
    #[inline(always)]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let address = match self.from {
            From::Offset(at) => packet.data().get(at..).and_then(|b| b.first_chunk()).copied(),
            From::Src => header(packet).map(|h| h.src().octets()),
            From::Dst => header(packet).map(|h| h.dst().octets()),
        };
        if let Some(address) = address {
            packet.store_user(self.anno, address);
        }
        true
    }
    fn run(&mut self, packets: &mut [Packet], _cx: &mut Cx<'_>) -> usize {
        match (self.from, self.anno) {
            // The usual arguments, in a loop of their own.
            (From::Offset(at), offset::DST_IP) => {
                for packet in packets.iter_mut() {
                    if let Some(address) = packet.data().get(at..).and_then(|b| b.first_chunk()).copied() {
                        packet.set_dst_ip(address);
                    }
                }
            }
            _ => {
                for packet in packets.iter_mut() {
                    self.step(packet);
                }
            }
        }
        packets.len()
    }
}

impl Simple for GetIPAddress {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;
    use dpdk::Packet;

    fn annotated(declaration: &str, packet: Packet, at: usize) -> [u8; 4] {
        Bench::new(declaration).send(0, packet)[0].1.load_user(at).unwrap()
    }

    #[test]
    fn copies_an_address() {
        let plain = || Packet::from_bytes(&ip(17, b"")).unwrap();
        assert_eq!(annotated("GetIPAddress(16)", plain(), 0), [10, 0, 0, 2]);
        assert_eq!(annotated("GetIPAddress(OFFSET 12, ANNO 20)", plain(), 20), [10, 0, 0, 1]);
        assert_eq!(annotated("GetIPAddress(IP src)", marked(&ip(17, b"")), 0), [10, 0, 0, 1]);
        assert_eq!(annotated("GetIPAddress(17)", plain(), 0), [0; 4]);
    }

    #[test]
    fn wants_one_place() {
        assert!(Bench::error("GetIPAddress()").contains("set one of OFFSET, IP"));
        assert!(Bench::error("GetIPAddress(16, IP src)").contains("set one of OFFSET, IP"));
        assert!(Bench::error("GetIPAddress(IP both)").contains("bad IP"));
    }
}
