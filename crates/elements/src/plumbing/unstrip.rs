//! # Unstrip
//! Puts bytes back to the front of packets.
//!
//! After a `Strip` of the same length the packet is what it was. Otherwise the new bytes hold anything.
//!
//! ## Synopsis
//! `Unstrip(LENGTH)`
//!
//! ## Arguments
//! - `LENGTH` (*int*, bytes): how many.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Strip(14) -> Unstrip(14) -> Print -> Discard;
//! ```
//!
//! ## See also
//! Strip, Resize

use crate::prelude::*;

/// The `Unstrip` element.
pub struct Unstrip {
    length: usize,
}

impl Element for Unstrip {
    const CLASS: &'static str = "Unstrip";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] =
        &[drops::OUT_OF_MEMORY.when("the packet had no room in front and could not be moved")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/unstrip");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { length: args.mp::<u32>("LENGTH")? as usize })
    }
}

impl Step for Unstrip {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.push_in_place(self.length)
    }
}

impl Simple for Unstrip {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = packet.push(self.length);
        if packet.is_none() {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn brings_stripped_bytes_back() {
        let mut bench = Bench::new("Unstrip(2)");
        let mut packet = dpdk::Packet::from_bytes(b"abcd").unwrap();
        packet.strip(3);
        assert_eq!(bench.push_packet(0, packet), [(0, b"bcd".to_vec())]);
    }

    #[test]
    fn a_packet_that_cannot_grow_is_counted() {
        let mut bench = Bench::new("Unstrip(70000)");
        assert!(bench.push(0, b"abcd").is_empty());
        assert_eq!(bench.drops(), [("out of memory".to_owned(), 1)]);
    }
}
