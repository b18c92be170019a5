//! # EnsureDPDKBuffer
//! Passes packets on: they are in DPDK's buffers already.
//!
//! FastClick's, where packets of other sources are copied into such buffers. It is only accepted.
//!
//! ## Synopsis
//! `EnsureDPDKBuffer([FORCE, EXTRA_HEADROOM])`
//!
//! ## Arguments
//! - `FORCE` (*bool*, keyword), `EXTRA_HEADROOM` (*int*, bytes, keyword): accepted, without effect.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> EnsureDPDKBuffer -> Discard;
//! ```
//!
//! ## See also
//! DPDKInfo, ToDPDKDevice, Null

use crate::prelude::*;

/// The `EnsureDPDKBuffer` element.
pub struct EnsureDpdkBuffer;

impl Element for EnsureDpdkBuffer {
    const CLASS: &'static str = "EnsureDPDKBuffer";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("devices/ensuredpdkbuffer");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        args.k::<bool>("FORCE")?;
        args.k::<u32>("EXTRA_HEADROOM")?;
        Ok(Self)
    }
}

impl Step for EnsureDpdkBuffer {
    fn step(&mut self, _packet: &mut Packet) -> bool {
        true
    }
    fn run(&mut self, packets: &mut [Packet], _cx: &mut Cx<'_>) -> usize {
        packets.len()
    }
}

impl Simple for EnsureDpdkBuffer {
    fn packet(&mut self, packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_pass() {
        let mut bench = Bench::new("EnsureDPDKBuffer(FORCE true, EXTRA_HEADROOM 32)");
        assert_eq!(bench.push(0, b"abc"), [(0, b"abc".to_vec())]);
        assert!(Bench::error("EnsureDPDKBuffer(FORCE x)").contains("FORCE"));
    }
}
