//! # CheckLength
//! Sorts out packets that are too long.
//!
//! ## Synopsis
//! `CheckLength(LENGTH [, EXTRA_LENGTH])`
//!
//! ## Arguments
//! - `LENGTH` (*int*, bytes): the length that a packet may have.
//! - `EXTRA_LENGTH` (*bool*, keyword, default false): whether the extra-length annotation counts, so that a
//!   packet that was cut has the length that it had before.
//!
//! ## Ports
//! One agnostic input. Packets of at most `LENGTH` bytes leave by output 0, agnostic; longer ones by output
//! 1, push, if it is connected.
//!
//! ## Handlers
//! - `length` (read/write): the `LENGTH` argument.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! check :: CheckLength(20);
//! InfiniteSource(LENGTH 30, LIMIT 1, STOP true) -> check -> Discard;
//! check [1] -> Print(long) -> Discard;
//! ```
//!
//! ## See also
//! Truncate, Pad, Resize, IPFragmenter

use super::engine::text;
use crate::prelude::*;

/// The `CheckLength` element.
pub struct CheckLength {
    length: u32,
    extra: bool,
}

impl Element for CheckLength {
    const CLASS: &'static str = "CheckLength";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::EXTRA_LENGTH;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::PACKET_TOO_LONG.when("longer than `LENGTH`, and output 1 is not connected")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/checklength");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { length: args.mp("LENGTH")?, extra: args.k_or("EXTRA_LENGTH", false)? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("length", |e| e.length.to_string());
        h.write("length", |e, v, _| text::value(v, "expected integer").map(|n| e.length = n));
    }
}

impl Step for CheckLength {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let extra = if self.extra { u64::from(packet.extra_length()) } else { 0 };
        packet.len() as u64 + extra <= u64::from(self.length)
    }
}

impl Simple for CheckLength {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.fail(packet, drops::PACKET_TOO_LONG);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn longer_packets_take_the_second_output() {
        let mut bench = Bench::new("CheckLength(3)");
        for (length, output) in [(0, 0), (3, 0), (4, 1), (2000, 1)] {
            assert_eq!(bench.push(0, &vec![0; length])[0].0, output, "{length}");
        }
        bench.write("length", "4");
        assert_eq!((bench.read("length"), bench.push(0, b"1234")[0].0), ("4".to_owned(), 0));
        assert!(bench.try_write("length", "-1").is_err());
    }

    #[test]
    fn drops_without_a_second_output() {
        let mut bench = Bench::with_ports("CheckLength(3)", 1, 1);
        assert!(bench.push(0, b"1234").is_empty());
        assert_eq!(bench.drops(), [("packet too long".to_owned(), 1)]);
    }

    #[test]
    fn the_extra_length_counts_when_told() {
        let long = || {
            let mut packet = Packet::from_bytes(b"1").unwrap();
            packet.set_extra_length(u32::MAX);
            packet
        };
        assert_eq!(Bench::new("CheckLength(3)").push_packet(0, long())[0].0, 0);
        assert_eq!(Bench::new("CheckLength(3, EXTRA_LENGTH true)").push_packet(0, long())[0].0, 1);
        assert!(Bench::error("CheckLength()").contains("LENGTH"));
    }
}
