//! # AdjustTimestamp
//! Shifts packets' timestamps.
//!
//! ## Synopsis
//! `AdjustTimestamp(TIME [, FIRST, ALL])`
//!
//! ## Arguments
//! - `TIME` (*time*, default unit seconds, default 0): what is added; it may be negative. Timestamps before
//!   1970 are negative. A timestamp of 0 is none.
//! - `FIRST` (*bool*, keyword, default false): whether to change the first-timestamp annotation instead.
//! - `ALL` (*bool*, keyword, default false): whether to change packets without a timestamp too, as if theirs
//!   were 1970.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `time` (read/write): the `TIME` argument, in seconds.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true)
//!   -> SetTimestamp(10) -> AdjustTimestamp(-1.5) -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! ## See also
//! SetTimestamp, SetTimestampDelta, StoreTimestamp

use super::engine::text;
use crate::prelude::*;
use lang::args::Timestamp;

/// The `AdjustTimestamp` element.
pub struct AdjustTimestamp {
    by_ns: i64,
    first: bool,
    all: bool,
}

impl Element for AdjustTimestamp {
    const CLASS: &'static str = "AdjustTimestamp";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::TIMESTAMP.with(Fields::FIRST_TIMESTAMP);
    const WRITES: Fields = Fields::TIMESTAMP.with(Fields::FIRST_TIMESTAMP);
    const MANUAL: &'static str = manual!("plumbing/adjusttimestamp");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let by_ns = args.p::<Timestamp>("TIME")?.map_or(0, |t| t.ns);
        Ok(Self { by_ns, first: args.k_or("FIRST", false)?, all: args.k_or("ALL", false)? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("time", |e| text::timestamp(e.by_ns));
        h.write("time", |e, v, _| {
            text::value::<Timestamp>(v, "expected time in seconds").map(|t| e.by_ns = t.ns)
        });
    }
}

impl Simple for AdjustTimestamp {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        let ns = if self.first { packet.anno().first_timestamp_ns() } else { packet.timestamp_ns() };
        if ns != 0 || self.all {
            // Timestamps are signed in Click.
            let ns = ns.wrapping_add_signed(self.by_ns);
            if self.first {
                packet.anno_mut().set_first_timestamp_ns(ns);
            } else {
                packet.set_timestamp_ns(ns);
            }
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    fn shifted(bench: &mut Bench, ns: u64, first: u64) -> (u64, u64) {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_timestamp_ns(ns);
        packet.anno_mut().set_first_timestamp_ns(first);
        let out = bench.send(0, packet).remove(0).1;
        (out.timestamp_ns(), out.anno().first_timestamp_ns())
    }

    #[test]
    fn adds_and_subtracts() {
        let mut bench = Bench::new("AdjustTimestamp(-1.5)");
        assert_eq!(shifted(&mut bench, 2_000_000_000, 7), (500_000_000, 7));
        assert_eq!(shifted(&mut bench, 1_000_000_000, 7), ((-500_000_000i64) as u64, 7));
        assert_eq!(shifted(&mut bench, 1_500_000_000, 7), (0, 7));
        assert_eq!(shifted(&mut bench, 0, 7), (0, 7));
        assert_eq!(bench.read("time"), "-1.500000");
        bench.write("time", "20ms");
        assert_eq!(bench.read("time"), "0.020000");
        assert_eq!(shifted(&mut bench, 1, 7), (20_000_001, 7));
        assert!(bench.try_write("time", "x").is_err());
    }

    #[test]
    fn the_first_and_all() {
        assert_eq!(shifted(&mut Bench::new("AdjustTimestamp(1, FIRST true)"), 5, 7), (5, 1_000_000_007));
        assert_eq!(shifted(&mut Bench::new("AdjustTimestamp(1)"), 0, 0), (0, 0));
        assert_eq!(shifted(&mut Bench::new("AdjustTimestamp(1, ALL true)"), 0, 0), (1_000_000_000, 0));
        assert_eq!(shifted(&mut Bench::new("AdjustTimestamp"), 5, 7), (5, 7));
    }
}
