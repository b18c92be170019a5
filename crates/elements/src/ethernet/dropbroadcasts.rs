//! # DropBroadcasts
//! Drops packets that arrived as link-level broadcasts or multicasts.
//!
//! ## Synopsis
//! `DropBroadcasts()`
//!
//! ## Ports
//! One input, one or two outputs; agnostic. Packets whose type annotation is broadcast or multicast go to
//! output 1 or are dropped, as RFC 1812 section 5.3.4 requires of a router. Device elements set the
//! annotation.
//!
//! ## Handlers
//! - `drops` (read): packets dropped.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> DropBroadcasts -> Discard;
//! ```
//!
//! ## See also
//! FromDevice, HostEtherFilter

use crate::prelude::*;
use dpdk::PacketType;

/// The `DropBroadcasts` element.
pub struct DropBroadcasts;

impl Element for DropBroadcasts {
    const CLASS: &'static str = "DropBroadcasts";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::PACKET_TYPE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::LINK_BROADCAST.when("the packet came as a link-level broadcast or multicast")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/dropbroadcasts");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.stats("drops", |stats| stats.rejected_for(drops::LINK_BROADCAST).to_string());
    }
}

impl Step for DropBroadcasts {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        !matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast)
    }
}

impl Simple for DropBroadcasts {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.reject(packet, drops::LINK_BROADCAST);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::PacketType;
    use runtime::Packet;

    #[test]
    fn drops_by_packet_type() {
        let mut b = Bench::with_ports("DropBroadcasts()", 1, 1);
        for (kind, passes) in [
            (PacketType::Host, 1),
            (PacketType::OtherHost, 1),
            (PacketType::Broadcast, 0),
            (PacketType::Multicast, 0),
        ] {
            let mut p = Packet::from_bytes(b"x").unwrap();
            p.set_packet_type(kind);
            assert_eq!(b.push_packet(0, p).len(), passes);
        }
        assert_eq!(b.read("drops"), "2");
    }
}
