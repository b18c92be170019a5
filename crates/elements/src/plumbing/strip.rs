//! # Strip
//! Removes bytes from the front of packets.
//!
//! ## Synopsis
//! `Strip(LENGTH)`
//!
//! ## Arguments
//! - `LENGTH` (*int*, bytes): how many. A shorter packet is left without bytes.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Strip(14) -> Print -> Discard;
//! ```
//!
//! ## See also
//! Unstrip, Truncate, Resize

use crate::prelude::*;

/// The `Strip` element.
pub struct Strip {
    length: usize,
}

impl Element for Strip {
    const CLASS: &'static str = "Strip";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DATA;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/strip");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { length: args.mp::<u32>("LENGTH")? as usize })
    }
}

impl Step for Strip {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.strip(self.length.min(packet.len()))
    }
}

impl Simple for Strip {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn removes_bytes_from_the_front() {
        let mut bench = Bench::new("Strip(2)");
        assert_eq!(bench.push(0, b"abcd"), [(0, b"cd".to_vec())]);
        assert_eq!(bench.push(0, b"a"), [(0, Vec::new())]);
        assert!(Bench::error("Strip()").contains("LENGTH"));
    }
}
