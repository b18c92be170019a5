//! # CheckCRC32
//! Checks the checksum, a CRC, at the end of packets.
//!
//! ## Synopsis
//! `CheckCRC32()`
//!
//! ## Ports
//! One input, one output; agnostic. A packet whose last 4 bytes are the CRC that SetCRC32 computes of the
//! bytes before leaves without them. For any other packet a line with its length is printed.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true) -> SetCRC32 -> CheckCRC32 -> Print -> Discard;
//! ```
//!
//! ## See also
//! SetCRC32, RandomBitErrors

use super::engine::crc;
use crate::prelude::*;

const BAD_CRC: DropReason = DropReason::new("bad CRC");

/// The `CheckCRC32` element.
pub struct CheckCrc32;

impl Element for CheckCrc32 {
    const CLASS: &'static str = "CheckCRC32";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] =
        &[BAD_CRC.when("the packet is shorter than 4 bytes, or they are wrong")];
    const MANUAL: &'static str = manual!("plumbing/checkcrc32");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for CheckCrc32 {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let found = packet.data().split_last_chunk::<{ crc::LEN }>();
        if found.is_some_and(|(bytes, sum)| crc::crc(bytes).to_ne_bytes() == *sum) && packet.take(crc::LEN) {
            return Some(packet);
        }
        cx.log(Level::WARN, &format!("CRC32 failed, len {}", packet.len()));
        cx.drop(packet, BAD_CRC);
        None
    }
}
