//! # RecordTimestamp
//! Records when each packet passes.
//!
//! FastClick's. TimestampDiff finds the time by the number that NumberPacket has written into the packet.
//!
//! ## Synopsis
//! `RecordTimestamp([COUNTER, N, OFFSET, DYNAMIC, NET_ORDER])`
//!
//! ## Arguments
//! - `COUNTER` (*element*, keyword): a NumberPacket, whose `NET_ORDER` holds here too.
//! - `N` (*int*, keyword, at most 134217728, default 65536): how many times are recorded.
//! - `OFFSET` (*int*, bytes, keyword, default -1): where packets have their number. Negative: packets are
//!   numbered as they come.
//! - `DYNAMIC` (*bool*, keyword, default false): whether to record more than `N` times, up to 134217728,
//!   taking memory when it is needed, for which a packet waits.
//! - `NET_ORDER` (*bool*, keyword, default false): whether the most significant byte of a number is the first
//!   one; else it is in the machine's byte order.
//!
//! ## Ports
//! One push input, one push output. All packets pass. One whose number is too large, or that is too short to
//! have one, is not recorded, and a line is printed.
//!
//! ## Threads
//! All workers share the record.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 100, STOP true) -> NumberPacket -> record :: RecordTimestamp(OFFSET 40)
//!   -> Queue -> Unqueue -> diff :: TimestampDiff(record) -> Discard;
//! ```
//!
//! ## See also
//! TimestampDiff, NumberPacket, TimestampAccum, MeasureSource

use super::engine::number::{self, Numbers};
use super::engine::record::Record;
use super::engine::slots::MOST;
use crate::prelude::*;
use lang::args::ElementName;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The `RecordTimestamp` element.
pub struct RecordTimestamp {
    /// `None`: packets are numbered as they come.
    offset: Option<usize>,
    record: Arc<Record>,
}

impl Element for RecordTimestamp {
    const CLASS: &'static str = "RecordTimestamp";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("measure/recordtimestamp");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let counter = args.k::<ElementName>("COUNTER")?;
        let n = args.k_or::<u32>("N", 0)? as usize;
        let offset = usize::try_from(args.k_or::<i32>("OFFSET", -1)?).ok();
        let dynamic = args.k_or("DYNAMIC", false)?;
        let mut net_order = args.k_or("NET_ORDER", false)?;
        if let Some(ElementName(counter)) = counter {
            let wrong = "COUNTER must be a valid NumberPacket element";
            let numbers = cx.shared_of::<Numbers>(&counter, "").map_err(|_| args.error(wrong))?;
            net_order = numbers.net_order;
        }
        if n > MOST {
            return Err(args.error(format!("N must be at most {MOST}")));
        }
        let n = if n == 0 { 1 << 16 } else { n };
        Ok(Self { offset, record: cx.shared(|| Record::new(n, dynamic, net_order)) })
    }
}

impl Simple for RecordTimestamp {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let number = match self.offset {
            Some(offset) => number::read(&packet, offset, self.record.net_order),
            None => Some(self.record.next.fetch_add(1, Ordering::Relaxed)),
        };
        let place = number.and_then(|n| usize::try_from(n).ok()).and_then(|n| self.record.times.at(n));
        if let Some(place) = place {
            place.store(cx.now_ns(), Ordering::Relaxed);
        } else {
            let text = match number {
                Some(n) => {
                    format!("{}: no room for the time of packet {n}, N or DYNAMIC makes some", cx.name())
                }
                None => format!("{}: a packet has no number", cx.name()),
            };
            cx.log(Level::WARN, &text);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_pass_also_without_a_number() {
        let mut bench = Bench::new("RecordTimestamp(OFFSET 0, N 1)");
        let lines = bench.listen();
        for bytes in [&[0; 8][..], &[0xff; 8], b"short"] {
            assert_eq!(bench.push(0, bytes), [(0, bytes.to_vec())]);
        }
        let lines = lines.lock().unwrap().clone();
        assert_eq!(
            lines,
            [
                "e: no room for the time of packet 18446744073709551615, N or DYNAMIC makes some",
                "e: a packet has no number"
            ]
        );
    }

    #[test]
    fn arguments_are_checked() {
        assert!(Bench::error("RecordTimestamp(N 134217729)").contains("N must be at most"));
        let error = Bench::error("RecordTimestamp(COUNTER e)");
        assert!(error.contains("COUNTER must be a valid NumberPacket element"), "{error}");
        assert!(Bench::error("RecordTimestamp(COUNTER nobody)").contains("does not name an element"));
    }
}
