//! # SetIP6Hlim
//! Sets the hop limit of IPv6 packets.
//!
//! ## Synopsis
//! `SetIP6Hlim(HLIM)`
//!
//! ## Arguments
//! - `HLIM` (*int*, 0 to 255): the hop limit.
//!
//! ## Ports
//! One input, one output; agnostic. The IPv6 header must have been marked.
//!
//! ## Handlers
//! - `hopLimit` (read/write): the `HLIM` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header -> SetIP6Hlim(7) -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! DecIP6HLIM, MarkIP6Header

use super::engine::header::{header_mut, no_header};
use crate::prelude::*;

/// The `SetIP6Hlim` element.
pub struct SetIP6Hlim {
    hops: u8,
}

impl Element for SetIP6Hlim {
    const CLASS: &'static str = "SetIP6Hlim";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/setip6hlim");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { hops: args.mp("HLIM")? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("hopLimit", |e| e.hops.to_string());
        h.write("hopLimit", |e, v, _| {
            e.hops = lang::args::parse(v.trim()).map_err(|e| format!("HLIM: {e}"))?;
            Ok(())
        });
        h.listed(&["hopLimit ."]);
    }
}

impl Step for SetIP6Hlim {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        header_mut(packet).map(|mut h| h.set_hop_limit(self.hops)).is_some()
    }
}

impl Simple for SetIP6Hlim {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) { Some(packet) } else { no_header(packet, cx) }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::{ip6, marked};
    use crate::testing::Bench;

    #[test]
    fn sets_the_hop_limit() {
        let mut bench = Bench::new("SetIP6Hlim(255)");
        assert_eq!(bench.push_packet(0, marked(&ip6(17, b"")))[0].1[7], 255);
        bench.write("hopLimit", "3");
        assert_eq!(bench.push_packet(0, marked(&ip6(17, b"")))[0].1[7], 3);
        assert_eq!(bench.read("hopLimit"), "3");
        assert!(bench.try_write("hopLimit", "256").is_err());
        assert!(bench.push(0, b"").is_empty());
    }
}
