//! # SetCRC32
//! Puts a checksum, a CRC, behind packets.
//!
//! ## Synopsis
//! `SetCRC32()`
//!
//! ## Ports
//! One input, one output; agnostic. Packets become 4 bytes longer: the CRC-32 of the packet's bytes in the
//! machine's byte order, with the polynomial of Ethernet. It is not an Ethernet frame check sequence: bits
//! are taken in another order, and the sum is not inverted, as in Click. CheckCRC32 checks it and takes it
//! off.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true) -> SetCRC32 -> RandomBitErrors(0.01) -> CheckCRC32 -> Discard;
//! ```
//!
//! ## See also
//! CheckCRC32, RandomBitErrors, SetIPChecksum

use super::engine::crc;
use crate::prelude::*;

/// The `SetCRC32` element.
pub struct SetCrc32;

impl Element for SetCrc32 {
    const CLASS: &'static str = "SetCRC32";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("the packet could not grow")];
    const MANUAL: &'static str = manual!("plumbing/setcrc32");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for SetCrc32 {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let sum = crc::crc(packet.data()).to_ne_bytes();
        let Some(mut packet) = packet.put(crc::LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        if let Some(end) = packet.data_mut().last_chunk_mut::<{ crc::LEN }>() {
            *end = sum;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn appends_the_crc() {
        let mut bench = Bench::new("SetCRC32");
        let mut want = b"123456789".to_vec();
        want.extend(0x0376_e6e7u32.to_ne_bytes());
        assert_eq!(bench.push(0, b"123456789"), [(0, want)]);
        assert_eq!(bench.push(0, b""), [(0, vec![0xff; 4])]);
    }

    #[test]
    fn what_was_appended_is_taken_off() {
        let mut set = Bench::new("SetCRC32");
        let mut check = Bench::new("CheckCRC32");
        let lines = check.listen();
        for length in 0..100 {
            let bytes: Vec<u8> = (0..length).collect();
            let summed = set.push(0, &bytes).remove(0).1;
            assert_eq!(check.push(0, &summed), [(0, bytes)]);
            let mut wrong = summed.clone();
            wrong[usize::from(length / 2)] ^= 0x10;
            assert!(check.push(0, &wrong).is_empty());
        }
        assert!(check.push(0, b"abc").is_empty());
        assert_eq!(check.drops(), [("bad CRC".to_owned(), 101)]);
        assert_eq!(lines.lock().unwrap()[0], "CRC32 failed, len 4");
    }
}
