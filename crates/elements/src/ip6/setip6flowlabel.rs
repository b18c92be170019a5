//! # SetIP6FlowLabel
//! Sets the flow label of IPv6 packets.
//!
//! ## Synopsis
//! `SetIP6FlowLabel(FLOW)`
//!
//! ## Arguments
//! - `FLOW` (*int*, 0 to 1048575): the flow label.
//!
//! ## Ports
//! One input, one output; agnostic. The IPv6 header must have been marked.
//!
//! ## Handlers
//! - `flowlabel` (read/write): the `FLOW` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header -> SetIP6FlowLabel(77) -> Print -> Discard;
//! ```
//!
//! ## See also
//! SetIP6DSCP, MarkIP6Header

use super::engine::header::{header_mut, no_header};
use crate::prelude::*;

/// The `SetIP6FlowLabel` element.
pub struct SetIP6FlowLabel {
    label: u32,
}

fn in_range(label: u32) -> Result<u32, String> {
    if label < 1 << 20 { Ok(label) } else { Err("flow label out of range".to_owned()) }
}

impl Element for SetIP6FlowLabel {
    const CLASS: &'static str = "SetIP6FlowLabel";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/setip6flowlabel");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let label = args.mp("FLOW")?;
        Ok(Self { label: in_range(label).map_err(|e| args.error(e))? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("flowlabel", |e| e.label.to_string());
        h.write("flowlabel", |e, v, _| {
            e.label = in_range(lang::args::parse(v.trim()).map_err(|e| format!("FLOW: {e}"))?)?;
            Ok(())
        });
        h.listed(&["flowlabel ."]);
    }
}

impl Step for SetIP6FlowLabel {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        header_mut(packet).map(|mut h| h.set_flow_label(self.label)).is_some()
    }
}

impl Simple for SetIP6FlowLabel {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) { Some(packet) } else { no_header(packet, cx) }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::{ip6_with, marked};
    use crate::testing::Bench;

    #[test]
    fn sets_twenty_bits() {
        let mut bench = Bench::new("SetIP6FlowLabel(0x12345)");
        let bytes = ip6_with(17, b"", |h| h.set_traffic_class(0xff));
        assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[..4], [0x6f, 0xf1, 0x23, 0x45]);
        bench.write("flowlabel", "1048575");
        assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[..4], [0x6f, 0xff, 0xff, 0xff]);
        assert!(bench.try_write("flowlabel", "1048576").is_err());
        assert_eq!(bench.read("flowlabel"), "1048575");
        assert!(Bench::error("SetIP6FlowLabel(1048576)").contains("flow label out of range"));
        assert!(bench.push(0, b"").is_empty());
    }
}
