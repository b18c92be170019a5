//! # ForceIP
//! Makes packets look like IP packets.
//!
//! For tests with random packets: what other elements check first becomes right.
//!
//! ## Synopsis
//! `ForceIP()`
//!
//! ## Ports
//! One input, one output; agnostic. Packets begin with what becomes their IP header. Version, total length
//! and checksum are set. A header length below 20 bytes or beyond the packet becomes the packet's length, of
//! which the header has room for the lowest four bits of the number of words, as in Click. Fragment offset
//! and flags become 0, except in the second of every eight packets. The header is marked.
//!
//! ## Threads
//! Each worker has its own instance, and counts its own packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 40, LIMIT 1, STOP true) -> ForceIP -> CheckIPHeader2 -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! ForceTCP, ForceUDP, ForceICMP, SetIPChecksum

use super::engine::header::TINY;
use crate::prelude::*;
use wire::Ipv4;
use wire::ipv4::HEADER_LEN;

/// The `ForceIP` element.
pub struct ForceIP {
    count: u8,
}

impl Element for ForceIP {
    const CLASS: &'static str = "ForceIP";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const SETS: Fields = Fields::IP_HEADERS;
    const DROPS: &'static [DropCase] = &[TINY.when("shorter than 20 bytes")];
    const MANUAL: &'static str = manual!("ip/forceip");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { count: 0 })
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count = old.count;
    }
}

impl ForceIP {
    /// Returns the length of the header.
    fn force(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let len = bytes.len();
        let mut h = Ipv4::new_mut(bytes)?;
        if !(HEADER_LEN..=len).contains(&h.header_len()) {
            h.set_header_len(len / 4 % 16 * 4);
        }
        let header_len = h.header_len();
        h.set_version_ihl(0x40 | (header_len / 4) as u8);
        h.set_total_len(len as u16);
        let second = self.count & 7 == 1;
        self.count = self.count.wrapping_add(1);
        if !second {
            h.set_flags_fragment(0);
        }
        h.set_checksum(0);
        // A header that is too short to hold its checksum is summed up all the same.
        let sum = wire::checksum::checksum(bytes.get(..header_len)?);
        Ipv4::new_mut(bytes)?.set_checksum(sum);
        Some(header_len)
    }
}

impl Simple for ForceIP {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(header_len) = self.force(packet.data_mut()) else {
            cx.drop(packet, TINY);
            return None;
        };
        packet.set_network_header(0, header_len);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, sound};
    use crate::testing::Bench;

    #[test]
    fn makes_headers_sound() {
        let mut bench = Bench::new("ForceIP");
        let mut bytes = vec![0xff; 40];
        let out = bench.push(0, &bytes).remove(0).1;
        // 60 bytes of header do not fit; 10 words do.
        assert_eq!(out[..12], [0x4a, 0xff, 0, 40, 0xff, 0xff, 0, 0, 0xff, 0xff, out[10], out[11]]);
        assert!(sound(&out));
        bytes[0] = 0x65;
        let out = bench.push(0, &bytes).remove(0).1;
        assert_eq!((out[0], &out[6..8]), (0x45, &[0xff, 0xff][..]), "the second stays a fragment");
        let sum = wire::checksum::checksum(&out[..20]);
        assert_eq!(sum, 0);
        for n in 2..20 {
            let out = bench.push(0, &bytes).remove(0).1;
            assert_eq!(out[6] == 0xff, n % 8 == 1, "{n}");
        }
    }

    #[test]
    fn leaves_good_packets_and_survives_all_lengths() {
        let mut bench = Bench::new("ForceIP");
        let good = ip(17, b"payload");
        assert_eq!(bench.push(0, &good), [(0, good)]);
        for length in 20..200 {
            let out = bench.push(0, &vec![0; length]).remove(0).1;
            assert_eq!(usize::from(out[0] & 15), length / 4 % 16, "{length}");
            let header = &out[..usize::from(out[0] & 15) * 4];
            assert!(header.len() < 20 || wire::checksum::checksum(header) == 0, "{length}");
        }
        assert!(bench.push(0, &[0; 19]).is_empty());
        assert_eq!(bench.drops(), [("tiny packet".to_owned(), 1)]);
    }
}
