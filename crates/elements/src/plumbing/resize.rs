//! # Resize
//! Adds bytes to both ends of packets, or removes them.
//!
//! ## Synopsis
//! `Resize([HEAD, TAIL])`
//!
//! ## Arguments
//! - `HEAD` (*int*, bytes, default 0): how many bytes to add in front; negative removes them.
//! - `TAIL` (*int*, bytes, default 0): how many bytes to add at the end; negative removes them.
//!
//! What added bytes hold is not defined. Never more bytes are removed than the packet has.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `head`, `tail` (read/write): the arguments.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Resize(-14, 4) -> Discard;
//! ```
//!
//! ## See also
//! Strip, Unstrip, Truncate, Pad

use super::engine::text;
use crate::prelude::*;

/// The `Resize` element.
pub struct Resize {
    head: i32,
    tail: i32,
}

impl Element for Resize {
    const CLASS: &'static str = "Resize";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("the packet could not grow so much")];
    const MANUAL: &'static str = manual!("plumbing/resize");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { head: args.p("HEAD")?.unwrap_or(0), tail: args.p("TAIL")?.unwrap_or(0) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("head", |e| e.head.to_string());
        h.write("head", |e, v, _| text::value(v, "expected integer").map(|n| e.head = n));
        h.read("tail", |e| e.tail.to_string());
        h.write("tail", |e, v, _| text::value(v, "expected integer").map(|n| e.tail = n));
        h.argument("head", 0, "HEAD");
        h.argument("tail", 1, "TAIL");
    }
}

fn resized(mut packet: Packet, head: i32, tail: i32) -> Option<Packet> {
    let (by_head, by_tail) = (head.unsigned_abs() as usize, tail.unsigned_abs() as usize);
    if head > 0 {
        packet = packet.push(by_head)?;
    } else {
        packet.strip(by_head.min(packet.len()));
    }
    if tail > 0 {
        packet = packet.put(by_tail)?;
    } else {
        packet.take(by_tail.min(packet.len()));
    }
    Some(packet)
}

impl Simple for Resize {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = resized(packet, self.head, self.tail);
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
    fn resizes_both_ends() {
        let mut bench = Bench::new("Resize(-1, -2)");
        assert_eq!(bench.push(0, b"abcdef"), [(0, b"bcd".to_vec())]);
        assert_eq!(bench.push(0, b"ab"), [(0, Vec::new())]);
        bench.write("head", "2");
        bench.write("tail", "1");
        let out = bench.push(0, b"xy");
        assert_eq!((out[0].1.len(), &out[0].1[2..4]), (5, &b"xy"[..]));
        bench.write("tail", "99999");
        assert!(bench.push(0, b"xy").is_empty());
        assert_eq!(bench.drops(), [("out of memory".to_owned(), 1)]);
    }
}
