//! # DecIPTTL
//! Decrements the time to live of IP packets and drops those that have none left.
//!
//! ## Synopsis
//! `DecIPTTL([ACTIVE, MULTICAST])`
//!
//! ## Arguments
//! - `ACTIVE` (*bool*, keyword, default true): if false, packets pass unchanged.
//! - `MULTICAST` (*bool*, keyword, default true): if false, packets to multicast addresses pass unchanged.
//!
//! ## Ports
//! One input, one or two outputs. Packets whose time to live is 1 or less go, unchanged, to output 1 (push)
//! if it is connected; otherwise they are dropped. The header checksum is updated incrementally (RFC 1624).
//! The IP header must have been marked, by CheckIPHeader or MarkIPHeader.
//!
//! ## Handlers
//! - `drops` (read): packets whose time to live was exceeded.
//! - `active` (read/write): the `ACTIVE` argument.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 3, STOP true)
//!   -> SetIPChecksum -> MarkIPHeader
//!   -> dec :: DecIPTTL
//!   -> IPPrint(TTL true)
//!   -> Discard;
//! dec [1] -> Discard;
//! ```
//!
//! ## See also
//! CheckIPHeader, MarkIPHeader, ICMPError, IPOutputCombo

use super::engine::header::header_mut;
use crate::plumbing::engine::text;
use crate::prelude::*;

const TIME_EXCEEDED: DropReason = DropReason::new("time exceeded");

/// The `DecIPTTL` element.
pub struct DecIPTTL {
    active: bool,
    multicast: bool,
}

impl Element for DecIPTTL {
    const CLASS: &'static str = "DecIPTTL";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        TIME_EXCEEDED.when("the TTL is 0 or 1, or the packet is a multicast and `MULTICAST` is false"),
        drops::NO_WHOLE_IP_HEADER,
    ];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/decipttl");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let multicast = args.k("MULTICAST")?.unwrap_or(true);
        Ok(Self { active, multicast })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.stats("drops", |stats| stats.rejected_for(TIME_EXCEEDED).to_string());
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, _| {
            e.active = text::value(v, "expected boolean")?;
            Ok(())
        });
        h.listed(&["drops", "active c"]);
    }
}

impl Step for DecIPTTL {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        if !(self.active && self.multicast) {
            return false;
        }
        header_mut(packet).is_some_and(|mut h| h.decrement_ttl())
    }
}

impl Simple for DecIPTTL {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) { Some(packet) } else { self.unusual(packet, cx) }
    }
}

impl DecIPTTL {
    #[cold]
    fn unusual(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.active {
            return Some(packet);
        }
        let Some(mut h) = header_mut(&mut packet) else {
            cx.drop(packet, drops::NO_IP_HEADER);
            return None;
        };
        if (!self.multicast && h.dst().is_multicast()) || h.decrement_ttl() {
            return Some(packet);
        }
        cx.reject(packet, TIME_EXCEEDED);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;

    #[test]
    fn takes_one_hop_and_keeps_the_checksum_right() {
        let mut bench = Bench::new("DecIPTTL()");
        let out = bench.push_packet(0, marked(&ip(17, b"x")));
        assert_eq!((out[0].0, out[0].1[8]), (0, 63));
        assert!(sound(&out[0].1));
    }

    #[test]
    fn the_last_hop_goes_to_output_1_unchanged() {
        let mut bench = Bench::new("DecIPTTL()");
        for ttl in [0, 1] {
            let bytes = ip_with(&[], b"x", |h| h.set_ttl(ttl));
            assert_eq!(bench.push_packet(0, marked(&bytes)), [(1, bytes)]);
        }
        assert_eq!(bench.read("drops"), "2");
        let mut alone = Bench::with_ports("DecIPTTL()", 1, 1);
        assert!(alone.push_packet(0, marked(&ip_with(&[], b"", |h| h.set_ttl(1)))).is_empty());
        assert_eq!(alone.drops(), [("time exceeded".to_owned(), 1)]);
    }

    #[test]
    fn leaves_packets_alone_when_told_to() {
        let mut bench = Bench::new("DecIPTTL(MULTICAST false)");
        let group = ip_with(&[], b"", |h| h.set_dst([224, 0, 0, 5].into()));
        assert_eq!(bench.push_packet(0, marked(&group)), [(0, group)]);
        bench.write("active", "no");
        let bytes = ip(17, b"x");
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, bytes)]);
    }

    #[test]
    fn drops_what_is_not_ip() {
        let mut bench = Bench::new("DecIPTTL()");
        assert!(bench.push(0, b"x").is_empty());
        assert!(bench.push_packet(0, marked(&ip(17, b"")[..19])).is_empty());
        assert_eq!(bench.drops(), [("no IP header".to_owned(), 2)]);
    }
}
