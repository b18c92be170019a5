//! # NumberPacket
//! Writes a number into each packet.
//!
//! FastClick's. CheckNumberPacket and TimestampDiff find the packets again by it.
//!
//! ## Synopsis
//! `NumberPacket([OFFSET, NET_ORDER])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes, default 40): where the number goes, from the packet's beginning.
//! - `NET_ORDER` (*bool*, keyword, default false): whether the most significant byte is the first one; else
//!   the number is in the machine's byte order.
//!
//! ## Ports
//! One input, one output; agnostic. The number has 8 bytes. Numbers count up by one from 0. A packet that is
//! too short becomes so long that the number is its end; what is between is zero, and if its IP header is
//! marked, total length and header checksum are changed with it. Other checksums are not.
//!
//! ## Handlers
//! - `count` (read): the number of the next packet.
//!
//! ## Threads
//! All workers share the count.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 3, STOP true) -> NumberPacket(52) -> Print(MAXLENGTH 60) -> Discard;
//! ```
//!
//! ## See also
//! CheckNumberPacket, RecordTimestamp, TimestampDiff, MeasureSource

use super::engine::number::{self, LEN, Numbers};
use crate::ip::engine::header::header_mut;
use crate::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The `NumberPacket` element.
pub struct NumberPacket {
    offset: usize,
    numbers: Arc<Numbers>,
}

impl Element for NumberPacket {
    const CLASS: &'static str = "NumberPacket";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("the packet could not grow")];
    const MANUAL: &'static str = manual!("measure/numberpacket");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let offset = args.p_or::<i32>("OFFSET", 40)?;
        let net_order = args.k_or("NET_ORDER", false)?;
        let offset = usize::try_from(offset).map_err(|_| args.error("Offset must be >= 0"))?;
        Ok(Self { offset, numbers: cx.shared(|| Numbers::new(net_order)) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read("count", |n: &Numbers, _| Ok(n.next.load(Ordering::Relaxed).to_string()));
    }
}

impl NumberPacket {
    /// Makes a packet long enough for the number.
    fn lengthen(&self, packet: Packet) -> Option<Packet> {
        let len = packet.len();
        let mut packet = packet.put((self.offset + LEN).checked_sub(len)?)?;
        packet.data_mut().get_mut(len..)?.fill(0);
        let start = packet.network_header_offset().unwrap_or(0);
        if let (Ok(total), Some(mut h)) =
            (u16::try_from((packet.len() as isize).saturating_sub(start)), header_mut(&mut packet))
            && h.version() == 4
        {
            h.update_total_len(total);
        }
        Some(packet)
    }

    fn number(&self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let mut next = self.numbers.next.fetch_add(batch.len() as u64, Ordering::Relaxed);
        batch.filter_map_in_place(|packet| {
            let n = next;
            next += 1;
            let long = packet.len() >= self.offset + LEN;
            let Some(mut packet) = (if long { Some(packet) } else { self.lengthen(packet) }) else {
                cx.count_drops(1, drops::OUT_OF_MEMORY);
                return None;
            };
            if let Some(place) = number::place_mut(packet.data_mut(), self.offset) {
                *place = self.numbers.bytes(n);
            }
            Some(packet)
        });
    }
}

impl Vector for NumberPacket {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.number(&mut batch, cx);
        cx.output_batch(0, batch);
    }

    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut batch = cx.spare_batch();
        cx.pull_lending(self, 0, max, &mut batch);
        self.number(&mut batch, cx);
        out.append(&mut batch);
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked, sound};
    use crate::testing::Bench;

    #[test]
    fn counts_up() {
        let mut bench = Bench::new("NumberPacket(2, NET_ORDER true)");
        for n in 0..300u64 {
            let out = bench.push(0, b"0123456789ab").remove(0).1;
            assert_eq!(out, [b"01", &n.to_be_bytes()[..], b"ab"].concat());
        }
        assert_eq!(bench.read("count"), "300");
        let mut bench = Bench::new("NumberPacket(0)");
        bench.push(0, &[9; 8]);
        assert_eq!(bench.push(0, &[9; 8]), [(0, 1u64.to_ne_bytes().to_vec())]);
    }

    #[test]
    fn numbers_what_is_pulled() {
        let mut bench = Bench::with_config("InfiniteSource(LIMIT 3) -> Queue -> e :: NumberPacket(0);", 0, 1);
        bench.run();
        let got: Vec<u8> =
            bench.pull(0, 9).iter().map(|(_, p)| p.data().iter().take(8).fold(0, |a, b| a | b)).collect();
        assert_eq!(got, [0, 1, 2]);
    }

    #[test]
    fn short_packets_grow_with_their_header() {
        let mut bench = Bench::new("NumberPacket");
        let bytes = ip(17, b"payload");
        let out = bench.push_packet(0, marked(&bytes)).remove(0).1;
        assert_eq!((out.len(), &out[2..4]), (48, &[0, 48][..]));
        assert!(sound(&out));
        assert_eq!((&out[20..27], &out[27..]), (&b"payload"[..], &[0; 21][..]));
        let out = bench.push(0, &bytes).remove(0).1;
        assert_eq!((out.len(), &out[2..4]), (48, &[0, 27][..]), "not marked");
        assert!(Bench::error("NumberPacket(-1)").contains("Offset must be >= 0"));
        let mut bench = Bench::new("NumberPacket(2147483640)");
        assert!(bench.push(0, b"x").is_empty());
        assert_eq!(bench.drops(), [("out of memory".to_owned(), 1)]);
    }

    #[test]
    fn workers_share_the_count() {
        let config = "s :: InfiniteSource(LENGTH 60, LIMIT 500) -> e :: NumberPacket -> c :: CheckNumberPacket(40, 2000) -> Discard;";
        let options = runtime::Options { workers: 2, ..runtime::Options::default() };
        let mut bench = Bench::with_options(config, options);
        bench.run();
        let count: u64 = bench.read("count").parse().unwrap();
        assert!(count > 0);
        assert_eq!(bench.read("c.max"), "[0] : 1");
        let seen = bench.read("c.dump").lines().filter(|l| l.ends_with(": 1")).count() as u64;
        assert_eq!(seen, count);
    }
}
