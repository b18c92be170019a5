//! # SetIP6DSCP
//! Sets the differentiated services code point of IPv6 packets.
//!
//! ## Synopsis
//! `SetIP6DSCP(DSCP)`
//!
//! ## Arguments
//! - `DSCP` (*int*, 0 to 63): the code point. The two ECN bits stay as they are.
//!
//! ## Ports
//! One input, one output; agnostic. The IPv6 header must have been marked.
//!
//! ## Handlers
//! - `dscp` (read/write): the `DSCP` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header -> SetIP6DSCP(46) -> Print -> Discard;
//! ```
//!
//! ## See also
//! SetIP6ECN, SetIP6FlowLabel, CheckIP6Header, SetIPDSCP

use super::engine::header::{header_mut, no_header};
use crate::ip::engine::arguments::code_point;
use crate::prelude::*;

/// The `SetIP6DSCP` element.
pub struct SetIP6DSCP {
    dscp: u8,
}

impl Element for SetIP6DSCP {
    const CLASS: &'static str = "SetIP6DSCP";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/setip6dscp");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let dscp = args.mp("DSCP")?;
        Ok(Self { dscp: code_point(dscp).map_err(|e| args.error(e))? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("dscp", |e| e.dscp.to_string());
        h.write("dscp", |e, v, _| {
            e.dscp = code_point(lang::args::parse(v.trim()).map_err(|e| format!("DSCP: {e}"))?)?;
            Ok(())
        });
        h.listed(&["dscp ."]);
    }
}

impl Step for SetIP6DSCP {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let set =
            |mut h: wire::Ipv6<&mut [u8; 40]>| h.set_traffic_class(h.traffic_class() & 3 | self.dscp << 2);
        header_mut(packet).map(set).is_some()
    }
}

impl Simple for SetIP6DSCP {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) { Some(packet) } else { no_header(packet, cx) }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::{ip6_with, marked};
    use crate::testing::Bench;

    #[test]
    fn sets_the_code_point_and_keeps_the_rest() {
        let mut bench = Bench::new("SetIP6DSCP(0x2e)");
        let bytes = ip6_with(17, b"x", |h| {
            h.set_traffic_class(0x06);
            h.set_flow_label(0x12345);
        });
        assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[..4], [0x6b, 0xa1, 0x23, 0x45]);
        bench.write("dscp", "0");
        assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[..4], [0x60, 0x21, 0x23, 0x45]);
        assert_eq!(bench.read("dscp"), "0");
        assert!(bench.try_write("dscp", "64").is_err());
        assert!(bench.push(0, b"").is_empty());
        assert!(Bench::error("SetIP6DSCP(64)").contains("diffserv code point out of range"));
    }
}
