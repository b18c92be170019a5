//! # Pad
//! Makes packets longer.
//!
//! ## Synopsis
//! `Pad([LENGTH, ZERO])`
//!
//! ## Arguments
//! - `LENGTH` (*int*, bytes, default 0): the least length of a packet. With 0, a packet grows by its
//!   extra-length annotation, which `Truncate` and capture files set.
//! - `ZERO` (*bool*, default true): whether the new bytes must be zero. Valiant's always are.
//!
//! The extra-length annotation is zero afterwards.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 20, LIMIT 3, STOP true) -> Pad(60) -> Print -> Discard;
//! ```
//!
//! ## See also
//! Truncate, Resize

use crate::prelude::*;

/// The `Pad` element.
pub struct Pad {
    length: usize,
}

impl Element for Pad {
    const CLASS: &'static str = "Pad";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::EXTRA_LENGTH;
    const WRITES: Fields = Fields::DATA.with(Fields::EXTRA_LENGTH);
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("the packet could not grow so much")];
    const MANUAL: &'static str = manual!("plumbing/pad");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let length = args.p::<u32>("LENGTH")?.unwrap_or(0) as usize;
        args.k::<bool>("ZERO")?;
        Ok(Self { length })
    }
}

impl Simple for Pad {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let extra = packet.extra_length();
        let missing = if self.length > 0 { self.length.saturating_sub(packet.len()) } else { extra as usize };
        if missing > 0 {
            let Some(longer) = packet.put(missing) else {
                cx.count_drops(1, drops::OUT_OF_MEMORY);
                return None;
            };
            packet = longer;
        }
        if extra != 0 {
            packet.set_extra_length(0);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn pads_to_a_length() {
        let mut bench = Bench::new("Pad(4)");
        assert_eq!(bench.push(0, b"ab"), [(0, b"ab\0\0".to_vec())]);
        assert_eq!(bench.push(0, b"abcdef"), [(0, b"abcdef".to_vec())]);
    }

    #[test]
    fn pads_by_the_annotation() {
        let mut bench = Bench::new("Pad()");
        let mut packet = Packet::from_bytes(b"ab").unwrap();
        packet.set_extra_length(3);
        let out = bench.send(0, packet);
        assert_eq!((out[0].1.data(), out[0].1.extra_length()), (&b"ab\0\0\0"[..], 0));
    }

    #[test]
    fn too_much_is_a_drop() {
        let mut bench = Bench::new("Pad(4000000000)");
        assert!(bench.push(0, b"ab").is_empty());
        assert_eq!(bench.drops(), [("out of memory".to_owned(), 1)]);
    }
}
