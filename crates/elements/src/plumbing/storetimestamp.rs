//! # StoreTimestamp
//! Writes timestamps into packets.
//!
//! ## Synopsis
//! `StoreTimestamp(OFFSET)` or `StoreTimestamp(TAIL true)`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes): where the timestamp goes, from the packet's beginning. A packet that is shorter
//!   than `OFFSET` + 8 bytes becomes so long, with zeros in between.
//! - `TAIL` (*bool*, keyword, default false): whether to put it behind the packet instead.
//!
//! ## Ports
//! One input, one output; agnostic. The timestamp is 8 bytes in the machine's byte order: nanoseconds since
//! 1970, as in Click where it keeps times in 64 bits with nanoseconds. Checksums are not updated.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true) -> SetTimestamp -> StoreTimestamp(TAIL true) -> Print -> Discard;
//! ```
//!
//! ## See also
//! SetTimestamp, AdjustTimestamp, StoreData

use crate::prelude::*;

const LEN: usize = 8;

/// The `StoreTimestamp` element.
pub struct StoreTimestamp {
    /// `None`: behind the packet.
    offset: Option<usize>,
}

impl Element for StoreTimestamp {
    const CLASS: &'static str = "StoreTimestamp";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::TIMESTAMP);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY
        .when("the packet could not grow, or the packet would be too long for any buffer")];
    const MANUAL: &'static str = manual!("plumbing/storetimestamp");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let offset = usize::try_from(args.p_or::<i32>("OFFSET", -1)?).ok();
        let tail = args.k_or("TAIL", false)?;
        if offset.is_some() == tail {
            return Err("supply exactly one of 'OFFSET' and 'TAIL'".into());
        }
        Ok(Self { offset })
    }
}

impl Simple for StoreTimestamp {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let (len, time) = (packet.len(), packet.timestamp_ns().to_ne_bytes());
        let offset = self.offset.unwrap_or(len);
        let Some(mut packet) = packet.put((offset + LEN).saturating_sub(len)) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        let bytes = packet.data_mut();
        if let Some(between) = bytes.get_mut(len..offset) {
            between.fill(0);
        }
        if let Some(place) = bytes.get_mut(offset..offset + LEN) {
            place.copy_from_slice(&time);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn stores_in_or_behind_the_packet() {
        let time = 0x0102_0304_0506_0708u64;
        let t = time.to_ne_bytes();
        let stored = |config: &str, bytes: &[u8]| {
            let mut packet = Packet::from_bytes(bytes).unwrap();
            packet.set_timestamp_ns(time);
            Bench::new(config).push_packet(0, packet).remove(0).1
        };
        assert_eq!(stored("StoreTimestamp(1)", b"0123456789"), [b"0", &t[..], b"9"].concat());
        assert_eq!(stored("StoreTimestamp(OFFSET 4)", b"01"), [b"01\0\0", &t[..]].concat());
        assert_eq!(stored("StoreTimestamp(2)", b"0123"), [b"01", &t[..]].concat());
        assert_eq!(stored("StoreTimestamp(TAIL true)", b"0123"), [b"0123", &t[..]].concat());
    }

    #[test]
    fn a_packet_that_no_buffer_holds_is_dropped() {
        let mut bench = Bench::new("StoreTimestamp(2147483647)");
        assert!(bench.push(0, b"x").is_empty());
        assert_eq!(bench.drops(), [("out of memory".to_owned(), 1)]);
    }

    #[test]
    fn one_place_must_be_given() {
        for arguments in ["", "-1", "0, TAIL true", "TAIL false"] {
            assert!(Bench::error(&format!("StoreTimestamp({arguments})")).contains("supply exactly one of"));
        }
    }
}
