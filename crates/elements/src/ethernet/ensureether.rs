//! # EnsureEther
//! Gives IP packets an Ethernet header if they have none.
//!
//! A packet has one if the 14 bytes before its marked IP header have the type of IPv4 or IPv6, also where
//! they have been stripped; it then begins with these. Any other packet with a marked IP header gets the
//! header of the arguments in place of what is before that. Packets without a marked IP header pass
//! unchanged.
//!
//! ## Synopsis
//! `EnsureEther([ETHERTYPE, SRC, DST])`
//!
//! ## Arguments
//! - `ETHERTYPE` (*int*, 16 bits, default 0x0800): the type.
//! - `SRC` (*Ethernet address*, default 1:1:1:1:1:1): the source.
//! - `DST` (*Ethernet address*, default 2:2:2:2:2:2): the destination.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> IPEncap(udp, 10.0.0.1, 10.0.0.2) -> EnsureEther -> Print -> Discard;
//! ```
//!
//! ## See also
//! EtherEncap, MarkIPHeader, Strip

use crate::prelude::*;
use lang::args::EtherAddr as EtherArg;
use wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, HEADER_LEN};
use wire::{EtherAddr, Ethernet};

/// The `EnsureEther` element.
pub struct EnsureEther {
    header: [u8; HEADER_LEN],
}

impl Element for EnsureEther {
    const CLASS: &'static str = "EnsureEther";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_ROOM_FOR_A_HEADER];
    const MANUAL: &'static str = manual!("ethernet/ensureether");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ethertype = args.p_or("ETHERTYPE", u32::from(ETHERTYPE_IPV4))?;
        let src = args.p::<EtherArg>("SRC")?.map_or([1; 6], |a| a.0);
        let dst = args.p::<EtherArg>("DST")?.map_or([2; 6], |a| a.0);
        let Ok(ethertype) = u16::try_from(ethertype) else {
            return Err(args.error("argument 1 (Ethernet encapsulation type) must be <= 0xFFFF"));
        };
        Ok(Self { header: *Ethernet::build(EtherAddr(dst), EtherAddr(src), ethertype).bytes() })
    }
}

/// Whether a packet begins with an Ethernet header of an IP packet.
fn has_header(packet: &Packet) -> bool {
    Ethernet::new(packet.data()).is_some_and(|h| matches!(h.ethertype(), ETHERTYPE_IPV4 | ETHERTYPE_IPV6))
}

impl Simple for EnsureEther {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(before) = packet.network_header_offset().and_then(|at| usize::try_from(at).ok()) else {
            return Some(packet);
        };
        if before == HEADER_LEN && has_header(&packet) {
            return Some(packet);
        }
        if before == 0 && packet.headroom() >= HEADER_LEN && packet.push_in_place(HEADER_LEN) {
            if has_header(&packet) {
                return Some(packet);
            }
            packet.strip(HEADER_LEN);
        }
        packet.strip(before);
        let Some(mut packet) = packet.push(HEADER_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        if let Some(front) = packet.data_mut().first_chunk_mut() {
            *front = self.header;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;
    use dpdk::Packet;

    const OWN: [u8; 14] = [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 8, 0];

    fn framed(ethertype: [u8; 2]) -> (Packet, Vec<u8>) {
        let bytes = [&[7; 12], &ethertype[..], &ip(17, b"data")].concat();
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        packet.set_network_header(14, 20);
        (packet, bytes)
    }

    #[test]
    fn adds_a_header_where_there_is_none() {
        let mut bench = Bench::new("EnsureEther()");
        let expected = [&OWN[..], &ip(17, b"data")].concat();
        assert_eq!(bench.push_packet(0, marked(&ip(17, b"data")))[0].1, expected);
        // What is no Ethernet header is replaced.
        assert_eq!(bench.push_packet(0, framed([9, 9]).0)[0].1, expected);
        assert_eq!(bench.push(0, b"not IP")[0].1, b"not IP");
    }

    #[test]
    fn keeps_the_header_that_is_there() {
        let mut bench = Bench::new("EnsureEther(0x86dd, 3:3:3:3:3:3, 4:4:4:4:4:4)");
        for ethertype in [[8, 0], [0x86, 0xdd]] {
            let (packet, bytes) = framed(ethertype);
            assert_eq!(bench.push_packet(0, packet)[0].1, bytes);
            let (mut packet, bytes) = framed(ethertype);
            assert!(packet.strip(14));
            assert_eq!(bench.push_packet(0, packet)[0].1, bytes, "stripped");
        }
        assert!(Bench::error("EnsureEther(0x10000)").contains("must be <= 0xFFFF"));
    }
}
