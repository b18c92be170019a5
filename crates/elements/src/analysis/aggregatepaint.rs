//! # AggregatePaint
//! Sets the aggregate annotation to the packet's color.
//!
//! ## Synopsis
//! `AggregatePaint([BITS, INCREMENTAL])`
//!
//! ## Arguments
//! - `BITS` (*int*, 1 to 8, default 8): how many of the color's lowest bits.
//! - `INCREMENTAL` (*bool*, keyword, default false): appends these bits to the annotation instead.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Paint(2) -> AggregatePaint -> AggregateCounter -> Discard;
//! ```
//!
//! ## See also
//! Paint, AggregateIP, AggregateLength, AggregateCounter

use crate::prelude::*;

/// The `AggregatePaint` element.
pub struct AggregatePaint {
    bits: u32,
    incremental: bool,
}

impl Element for AggregatePaint {
    const CLASS: &'static str = "AggregatePaint";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::PAINT.with(Fields::AGGREGATE);
    const WRITES: Fields = Fields::AGGREGATE;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("analysis/aggregatepaint");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let bits = args.p_or("BITS", 8i32)?;
        let incremental = args.k_or("INCREMENTAL", false)?;
        match u32::try_from(bits) {
            Ok(bits @ 1..=8) => Ok(Self { bits, incremental }),
            _ => Err(args.error("bad number of bits")),
        }
    }
}

impl Step for AggregatePaint {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let color = u32::from(packet.paint()) & ((1 << self.bits) - 1);
        let before = if self.incremental { packet.aggregate() << self.bits } else { 0 };
        packet.set_aggregate(before | color);
        true
    }
}

impl Simple for AggregatePaint {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn takes_the_color() {
        for (arguments, aggregate) in [("", 0xa7), ("3", 7), ("BITS 4, INCREMENTAL true", 0x17)] {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.set_paint(0xa7);
            packet.set_aggregate(1);
            let out = Bench::new(&format!("AggregatePaint({arguments})")).send(0, packet);
            assert_eq!(out[0].1.aggregate(), aggregate, "{arguments}");
        }
        assert!(Bench::error("AggregatePaint(9)").contains("bad number of bits"));
        assert!(Bench::error("AggregatePaint(0)").contains("bad number of bits"));
    }
}
