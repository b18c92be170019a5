//! # SetTimestamp
//! Sets packets' timestamps.
//!
//! ## Synopsis
//! `SetTimestamp([TIMESTAMP, FIRST])`
//!
//! ## Arguments
//! - `TIMESTAMP` (*time in seconds since 1970*): the timestamp; negative or not given: the time at which a
//!   packet passes.
//! - `FIRST` (*bool*, default false): whether to set the first-timestamp annotation instead.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp(1.5) -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! ## See also
//! SetTimestampDelta, Print

use crate::prelude::*;
use lang::args::Timestamp;

/// The `SetTimestamp` element.
pub struct SetTimestamp {
    fixed_ns: Option<u64>,
    first: bool,
}

impl Element for SetTimestamp {
    const CLASS: &'static str = "SetTimestamp";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::TIMESTAMP.with(Fields::FIRST_TIMESTAMP);
    const MANUAL: &'static str = manual!("plumbing/settimestamp");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let fixed_ns = args.p::<Timestamp>("TIMESTAMP")?.and_then(|t| u64::try_from(t.ns).ok());
        let first = args.k("FIRST")?.unwrap_or(false);
        if args.k("DELTA")?.unwrap_or(false) {
            return Err("SetTimestamp(DELTA) is deprecated, use SetTimestampDelta(TYPE FIRST)".into());
        }
        Ok(Self { fixed_ns, first })
    }
}

impl Simple for SetTimestamp {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let ns = self.fixed_ns.unwrap_or_else(|| cx.now_ns());
        if self.first {
            packet.anno_mut().set_first_timestamp_ns(ns);
        } else {
            packet.set_timestamp_ns(ns);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn sets_either_timestamp() {
        let packet = || Packet::from_bytes(b"x").unwrap();
        let anno = *Bench::new("SetTimestamp(1.5)").send(0, packet())[0].1.anno();
        assert_eq!((anno.timestamp_ns, anno.first_timestamp_ns()), (1_500_000_000, 0));
        let anno = *Bench::new("SetTimestamp(1.5, FIRST true)").send(0, packet())[0].1.anno();
        assert_eq!((anno.timestamp_ns, anno.first_timestamp_ns()), (0, 1_500_000_000));
        let anno = *Bench::simulated("e :: SetTimestamp;", 1, 1).send(0, packet())[0].1.anno();
        assert_eq!(anno.timestamp_ns / 1_000_000_000, 1_000_000_000);
    }

    #[test]
    fn delta_is_another_element() {
        assert!(Bench::error("SetTimestamp(DELTA true)").contains("use SetTimestampDelta"));
    }
}
