//! # HostEtherFilter
//! Filters packets by their Ethernet destination, as a NIC with a given address does.
//!
//! Sets each packet's packet type annotation by its Ethernet destination: host, broadcast, multicast or other
//! host.
//!
//! ## Synopsis
//! `HostEtherFilter(ETHER [, DROP_OWN, DROP_OTHER, OFFSET])`
//!
//! ## Arguments
//! - `ETHER` (*Ethernet address*): the host's address.
//! - `DROP_OWN` (*bool*, default false): whether to reject packets that come from the host itself.
//! - `DROP_OTHER` (*bool*, default true): whether to reject packets to other hosts.
//! - `OFFSET` (*int*, bytes, keyword, default 0): where the Ethernet header begins.
//!
//! ## Ports
//! One input, one or two outputs; agnostic. Rejected packets go to output 1 or are dropped.
//!
//! ## Handlers
//! - `ether` (read/write): the address.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> HostEtherFilter(2:2:2:2:2:2) -> Discard;
//! ```
//!
//! ## See also
//! DropBroadcasts, FromDevice

use crate::plumbing::engine::text;
use crate::prelude::*;
use dpdk::PacketType;
use lang::args::EtherAddr as EtherArg;
use wire::{EtherAddr, Ethernet};

const OWN_PACKET: DropReason = DropReason::new("own packet");
const TO_ANOTHER_HOST: DropReason = DropReason::new("to another host");

/// The `HostEtherFilter` element.
pub struct HostEtherFilter {
    own: EtherAddr,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

impl Element for HostEtherFilter {
    const CLASS: &'static str = "HostEtherFilter";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::PACKET_TYPE;
    const SETS: Fields = Fields::PACKET_TYPE;
    const DROPS: &'static [DropCase] = &[
        OWN_PACKET.when("its source is this host's address"),
        TO_ANOTHER_HOST.when("its destination is the address of another host"),
        drops::TOO_SHORT_FOR_ETHERNET,
    ];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/hostetherfilter");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self {
            own: EtherAddr(args.mp::<EtherArg>("ETHER")?.0),
            drop_own: args.p_or("DROP_OWN", false)?,
            drop_other: args.p_or("DROP_OTHER", true)?,
            offset: args.k_or::<u32>("OFFSET", 0)? as usize,
        })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("ether", |e| e.own.to_string());
        h.write("ether", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.own = EtherAddr(a.0))
        });
    }
}

impl Step for HostEtherFilter {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let header = packet.data().get(self.offset..).and_then(Ethernet::new);
        let own = !self.drop_own && header.is_some_and(|h| h.dst() == self.own);
        if own {
            packet.set_packet_type(PacketType::Host);
        }
        own
    }
}

impl Simple for HostEtherFilter {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) { Some(packet) } else { self.sort(packet, cx) }
    }
}

impl HostEtherFilter {
    fn sort(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(header) = packet.data().get(self.offset..).and_then(Ethernet::new) else {
            cx.fail(packet, drops::NO_ETHERNET_HEADER);
            return None;
        };
        let (src, dst) = (header.src(), header.dst());
        if self.drop_own && src == self.own {
            cx.fail(packet, OWN_PACKET);
            return None;
        }
        let kind = if dst == self.own {
            PacketType::Host
        } else if dst.is_broadcast() {
            PacketType::Broadcast
        } else if dst.is_group() {
            PacketType::Multicast
        } else {
            PacketType::OtherHost
        };
        packet.set_packet_type(kind);
        if kind == PacketType::OtherHost && self.drop_other {
            cx.fail(packet, TO_ANOTHER_HOST);
            return None;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::PacketType;
    use runtime::Packet;

    fn frame(dst: [u8; 6], src: u8) -> Packet {
        Packet::from_bytes(&[&dst[..], &[2, 0, 0, 0, 0, src, 8, 0]].concat()).unwrap()
    }

    #[test]
    fn sorts_by_destination() {
        let mut b = Bench::with_ports("HostEtherFilter(2:0:0:0:0:1, DROP_OWN true)", 1, 2);
        for (dst, src, port, kind) in [
            ([2, 0, 0, 0, 0, 1], 9, 0, PacketType::Host),
            ([0xff; 6], 9, 0, PacketType::Broadcast),
            ([1, 0, 0x5e, 0, 0, 1], 9, 0, PacketType::Multicast),
            ([2, 0, 0, 0, 0, 3], 9, 1, PacketType::OtherHost),
            ([0xff; 6], 1, 1, PacketType::Host),
        ] {
            let out = b.send(0, frame(dst, src));
            assert_eq!((out[0].0, out[0].1.packet_type()), (port, kind), "{dst:?}");
        }
        assert_eq!(b.push(0, &[0xff; 13])[0].0, 1);
        assert_eq!(b.read("ether"), "02-00-00-00-00-01");
    }

    #[test]
    fn passes_others_if_asked() {
        let mut b = Bench::with_ports("HostEtherFilter(2:0:0:0:0:1, false, false, OFFSET 0)", 1, 1);
        assert_eq!(b.send(0, frame([2, 0, 0, 0, 0, 3], 1))[0].1.packet_type(), PacketType::OtherHost);
        let mut b = Bench::with_ports("HostEtherFilter(2:0:0:0:0:1, OFFSET 4)", 1, 1);
        assert!(b.push(0, &[0xff; 17]).is_empty());
        assert_eq!(b.push(0, &[0xff; 18]).len(), 1);
    }
}
