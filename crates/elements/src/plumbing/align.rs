//! # Align
//! Moves packets so that their data begins at a given alignment.
//!
//! Valiant reads headers at any alignment; the element is there for configurations made by `click-align`.
//!
//! ## Synopsis
//! `Align(MODULUS, OFFSET)`
//!
//! ## Arguments
//! - `MODULUS` (*int*, bytes): 2, 4 or 8.
//! - `OFFSET` (*int*, bytes): less than `MODULUS`. The address of the first byte will be `OFFSET` modulo
//!   `MODULUS`.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Strip(14) -> Align(4, 0) -> Discard;
//! ```
//!
//! ## See also
//! AlignmentInfo

use crate::prelude::*;

/// The `Align` element.
pub struct Align {
    mask: usize,
    offset: usize,
}

impl Element for Align {
    const CLASS: &'static str = "Align";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("the packet could not be moved")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/align");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (modulus, offset) = (args.mp::<u32>("MODULUS")?, args.mp::<u32>("OFFSET")?);
        if ![2, 4, 8].contains(&modulus) {
            return Err("MODULUS must be 2, 4, or 8".into());
        }
        if offset >= modulus {
            return Err("OFFSET must be smaller than MODULUS".into());
        }
        Ok(Self { mask: modulus as usize - 1, offset: offset as usize })
    }
}

impl Align {
    /// By how many bytes a packet's data must move backwards.
    #[inline]
    fn delta(&self, packet: &Packet) -> isize {
        (self.offset.wrapping_sub(packet.data_address()) & self.mask) as isize
    }
}

impl Step for Align {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let delta = self.delta(packet);
        delta == 0 || packet.shift_in_place(delta)
    }
}

impl Simple for Align {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        let delta = self.delta(&packet);
        let packet = packet.shift_data(delta);
        if packet.is_none() {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn aligns_without_changing_the_data() {
        for (modulus, offset) in [(2, 1), (4, 0), (4, 3), (8, 5)] {
            let mut bench = Bench::new(&format!("Align({modulus}, {offset})"));
            for strip in 0..8 {
                let mut packet = Packet::from_bytes(b"0123456789").unwrap();
                packet.strip(strip);
                let out = bench.send(0, packet);
                assert_eq!(out[0].1.data(), &b"0123456789"[strip..]);
                assert_eq!(out[0].1.data_address() % modulus, offset);
            }
        }
    }

    #[test]
    fn arguments_are_checked() {
        assert!(Bench::error("Align(3, 0)").contains("MODULUS must be 2, 4, or 8"));
        assert!(Bench::error("Align(4, 4)").contains("OFFSET must be smaller than MODULUS"));
    }
}
