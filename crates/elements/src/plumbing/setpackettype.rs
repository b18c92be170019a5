//! # SetPacketType
//! Sets the packet type annotation: whom the frame was for on its link.
//!
//! ## Synopsis
//! `SetPacketType(TYPE)`
//!
//! ## Arguments
//! - `TYPE` (`HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST`, `OUTGOING` or `LOOPBACK`, in any case): the type.
//!   ICMPError sends no errors about broadcasts and multicasts, and DropBroadcasts drops them.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 2, STOP true) -> SetPacketType(BROADCAST) -> DropBroadcasts -> Discard;
//! ```
//!
//! ## See also
//! DropBroadcasts, HostEtherFilter, ICMPError

use crate::prelude::*;
use dpdk::PacketType;
use lang::args::Word;

/// The `SetPacketType` element.
pub struct SetPacketType(PacketType);

impl Element for SetPacketType {
    const CLASS: &'static str = "SetPacketType";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::PACKET_TYPE;
    const SETS: Fields = Fields::PACKET_TYPE;
    const MANUAL: &'static str = manual!("plumbing/setpackettype");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let Word(text) = args.mp("TYPE")?;
        Ok(Self(match text.to_ascii_uppercase().as_str() {
            "HOST" => PacketType::Host,
            "BROADCAST" => PacketType::Broadcast,
            "MULTICAST" => PacketType::Multicast,
            "OTHERHOST" => PacketType::OtherHost,
            "OUTGOING" => PacketType::Outgoing,
            "LOOPBACK" => PacketType::Loopback,
            _ => return Err(args.error(format!("unrecognized packet type '{text}'"))),
        }))
    }
}

impl Simple for SetPacketType {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        packet.set_packet_type(self.0);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::{Packet, PacketType};

    #[test]
    fn sets_the_type() {
        for (name, want) in [
            ("HOST", PacketType::Host),
            ("broadcast", PacketType::Broadcast),
            ("Multicast", PacketType::Multicast),
            ("OTHERHOST", PacketType::OtherHost),
            ("OUTGOING", PacketType::Outgoing),
            ("LOOPBACK", PacketType::Loopback),
        ] {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.set_packet_type(PacketType::FastRoute);
            let out = Bench::new(&format!("SetPacketType({name})")).send(0, packet);
            assert_eq!(out[0].1.packet_type(), want, "{name}");
        }
        assert!(Bench::error("SetPacketType(nobody)").contains("unrecognized packet type 'nobody'"));
        assert!(Bench::error("SetPacketType()").contains("TYPE"));
    }
}
