//! # DecIP6HLIM
//! Decrements the hop limit of IPv6 packets and drops those that have none left.
//!
//! ## Synopsis
//! `DecIP6HLIM()`
//!
//! ## Ports
//! One input, one or two outputs. Packets whose hop limit is 1 or less go, unchanged, to output 1 (push) if
//! it is connected, usually to an ICMP6Error; otherwise they are dropped. The IPv6 header must have been
//! marked, by CheckIP6Header or MarkIP6Header.
//!
//! ## Handlers
//! - `drops` (read): packets whose hop limit was exceeded.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 3, STOP true)
//!   -> CheckIP6Header
//!   -> dec :: DecIP6HLIM
//!   -> IP6Print
//!   -> Discard;
//! dec [1] -> Discard;
//! ```
//!
//! ## See also
//! ICMP6Error, CheckIP6Header, SetIP6Hlim, DecIPTTL

use super::engine::header::{header, header_mut, no_header};
use crate::prelude::*;

const TIME_EXCEEDED: DropReason = DropReason::new("time exceeded");

/// The `DecIP6HLIM` element.
pub struct DecIP6HLIM;

impl Element for DecIP6HLIM {
    const CLASS: &'static str = "DecIP6HLIM";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] =
        &[TIME_EXCEEDED.when("the hop limit is 0 or 1"), drops::NO_WHOLE_IP_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/decip6hlim");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.stats("drops", |stats| stats.rejected_for(TIME_EXCEEDED).to_string());
    }
}

impl Step for DecIP6HLIM {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        header_mut(packet).is_some_and(|mut h| match h.hop_limit() {
            0 | 1 => false,
            hops => {
                h.set_hop_limit(hops - 1);
                true
            }
        })
    }
}

impl Simple for DecIP6HLIM {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        if header(&packet).is_none() {
            return no_header(packet, cx);
        }
        cx.reject(packet, TIME_EXCEEDED);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::{ip6, ip6_with, marked};
    use crate::testing::Bench;

    #[test]
    fn takes_one_hop() {
        let mut bench = Bench::new("DecIP6HLIM()");
        let bytes = ip6(17, b"x");
        let mut want = bytes.clone();
        want[7] = 63;
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, want)]);
        let two = ip6_with(17, b"", |h| h.set_hop_limit(2));
        assert_eq!(bench.push_packet(0, marked(&two))[0].1[7], 1);
        assert_eq!(bench.read("drops"), "0");
    }

    #[test]
    fn the_last_hop_goes_to_output_1_unchanged() {
        let mut bench = Bench::new("DecIP6HLIM()");
        for hops in [0, 1] {
            let bytes = ip6_with(17, b"x", |h| h.set_hop_limit(hops));
            assert_eq!(bench.push_packet(0, marked(&bytes)), [(1, bytes)]);
        }
        assert_eq!(bench.read("drops"), "2");
        let mut alone = Bench::with_ports("DecIP6HLIM()", 1, 1);
        assert!(alone.push_packet(0, marked(&ip6_with(17, b"", |h| h.set_hop_limit(1)))).is_empty());
        assert!(alone.push(0, b"x").is_empty());
        assert!(alone.push_packet(0, marked(&ip6(17, b"")[..39])).is_empty());
        assert_eq!(alone.drops(), [("time exceeded".to_owned(), 1), ("no IP header".to_owned(), 2)]);
    }
}
