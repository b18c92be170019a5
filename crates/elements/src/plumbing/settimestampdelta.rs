//! # SetTimestampDelta
//! Turns packets' timestamps into differences.
//!
//! ## Synopsis
//! `SetTimestampDelta([TYPE])`
//!
//! ## Arguments
//! - `TYPE` (`RANGE`, `NOW` or `FIRST`, default `RANGE`), by keyword: the time since the first packet's
//!   timestamp, the time from the packet's timestamp until now, or the time since the packet's
//!   first-timestamp annotation.
//!
//! Packets without a timestamp are left alone.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `first` (read): the first packet's timestamp, for `RANGE`.
//! - `reset` (write): forgets it.
//!
//! ## Threads
//! All workers share the first timestamp.
//!
//! ## Example
//! ```click
//! TimedSource(0.1, LIMIT 3, STOP true) -> SetTimestampDelta -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! ## See also
//! SetTimestamp, Print

use super::engine::text;
use crate::prelude::*;
use lang::args::Word;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy)]
enum BaseTime {
    Range,
    Now,
    First,
}

/// The first timestamp, in nanoseconds since the epoch; 0 before there is one.
struct FirstTimestamp(AtomicU64);

/// The `SetTimestampDelta` element.
pub struct SetTimestampDelta {
    kind: BaseTime,
    first: Arc<FirstTimestamp>,
}

impl Element for SetTimestampDelta {
    const CLASS: &'static str = "SetTimestampDelta";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::TIMESTAMP.with(Fields::FIRST_TIMESTAMP);
    const WRITES: Fields = Fields::TIMESTAMP;
    const MANUAL: &'static str = manual!("plumbing/settimestampdelta");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let kind = match args.k::<Word>("TYPE")?.as_ref().map_or("RANGE", |w| &w.0) {
            "RANGE" => BaseTime::Range,
            "NOW" => BaseTime::Now,
            "FIRST" => BaseTime::First,
            _ => return Err("bad TYPE".into()),
        };
        Ok(Self { kind, first: cx.shared(|| FirstTimestamp(AtomicU64::new(0))) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read("first", |f: &FirstTimestamp, _| {
            Ok(text::timestamp(f.0.load(Ordering::Relaxed) as i64) + "\n")
        });
        h.shared_write("reset", |f: &FirstTimestamp, _| {
            f.0.store(0, Ordering::Relaxed);
            Ok(())
        });
        h.listed(&["first", "reset b"]);
    }
}

impl SetTimestampDelta {
    /// The first timestamp, which may be `ns`.
    fn first(&self, ns: u64) -> u64 {
        match self.first.0.load(Ordering::Relaxed) {
            // Only the first packet of all needs the atomic exchange.
            0 => {
                self.first.0.compare_exchange(0, ns, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(ns)
            }
            first => first,
        }
    }
}

impl Simple for SetTimestampDelta {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let ns = packet.timestamp_ns();
        if ns != 0 {
            // A negative difference is kept in two's complement.
            packet.anno_mut().timestamp_ns = match self.kind {
                BaseTime::Range => ns.wrapping_sub(self.first(ns)),
                BaseTime::Now => cx.now_ns().wrapping_sub(ns),
                BaseTime::First => ns.wrapping_sub(packet.anno().first_timestamp_ns()),
            };
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn delta(bench: &mut Bench, ns: u64, first: u64) -> u64 {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_timestamp_ns(ns);
        packet.anno_mut().set_first_timestamp_ns(first);
        bench.send(0, packet)[0].1.timestamp_ns()
    }

    #[test]
    fn since_the_first_packet() {
        let mut bench = Bench::new("SetTimestampDelta()");
        assert_eq!(delta(&mut bench, 0, 0), 0);
        assert_eq!(delta(&mut bench, 5_000_000_000, 0), 0);
        assert_eq!(delta(&mut bench, 7_000_000_000, 0), 2_000_000_000);
        assert_eq!(bench.read("first"), "5.000000\n");
        bench.write("reset", "");
        assert_eq!(delta(&mut bench, 9_000_000_000, 0), 0);
    }

    #[test]
    fn since_the_annotation() {
        assert_eq!(delta(&mut Bench::new("SetTimestampDelta(TYPE FIRST)"), 9, 4), 5);
        let now = delta(&mut Bench::simulated("e :: SetTimestampDelta(TYPE NOW);", 1, 1), 1_000_000_000, 0);
        assert!(now >= 999_999_999_000_000_000);
        assert!(Bench::error("SetTimestampDelta(TYPE X)").contains("bad TYPE"));
    }
}
