//! # Block
//! Separates packets by their forward-rate annotation.
//!
//! ## Synopsis
//! `Block(THRESH)`
//!
//! ## Arguments
//! - `THRESH` (*int*): packets whose forward-rate annotation (4 bytes at offset 20, which rate monitors set)
//!   is larger are blocked. 0 blocks none.
//!
//! ## Ports
//! One push input, two push outputs: packets that pass leave by output 0, blocked ones by output 1.
//!
//! ## Handlers
//! - `thresh` (read/write): the `THRESH` argument.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! b :: Block(100);
//! InfiniteSource(LIMIT 3, STOP true) -> b -> Discard;
//! b [1] -> Print(blocked) -> Discard;
//! ```
//!
//! ## See also
//! Meter

use super::engine::text;
use crate::prelude::*;
use dpdk::offset;

/// The `Block` element.
pub struct Block {
    threshold: i32,
}

impl Element for Block {
    const CLASS: &'static str = "Block";
    const PORTS: &'static str = "1/2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::FWD_RATE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/block");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { threshold: args.mp("THRESH")? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("thresh", |e| e.threshold.to_string());
        h.write("thresh", |e, v, _| text::value(v, "not an integer").map(|n| e.threshold = n));
    }
}

impl Block {
    /// The output for a packet.
    #[inline]
    fn choose(&self, packet: &Packet) -> usize {
        let rate = packet.anno().u32(offset::FWD_RATE).unwrap_or(0).cast_signed();
        usize::from(self.threshold != 0 && rate > self.threshold)
    }
}

impl Vector for Block {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            let output = self.choose(&packet);
            cx.output(output, packet);
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::{Packet, offset};

    #[test]
    fn blocks_packets_above_the_rate() {
        let mut bench = Bench::new("Block(10)");
        let mut output = |rate: i32| {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.anno_mut().set_u32(offset::FWD_RATE, rate.cast_unsigned());
            bench.send(0, packet)[0].0
        };
        assert_eq!([output(10), output(11), output(-5)], [0, 1, 0]);
        let mut bench = Bench::new("Block(0)");
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.anno_mut().set_u32(offset::FWD_RATE, 1000);
        assert_eq!(bench.send(0, packet)[0].0, 0);
        bench.write("thresh", "7");
        assert_eq!(bench.read("thresh"), "7");
        assert!(bench.try_write("thresh", "x").is_err());
    }
}
