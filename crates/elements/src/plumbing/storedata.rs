//! # StoreData
//! Overwrites bytes of packets.
//!
//! ## Synopsis
//! `StoreData(OFFSET, DATA, [MASK, GROW])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes): where the data goes, from the packet's beginning.
//! - `DATA` (*string*): what is written; `\<0800 45>` are bytes in hexadecimal.
//! - `MASK` (*string*, default none): only bits that are 1 in it change. It must not be longer than `DATA`;
//!   if it is shorter, all bits of the remaining bytes change.
//! - `GROW` (*bool*, keyword, default false): whether a packet becomes longer if the data does not fit into
//!   it. Otherwise the part of the data that does not fit is not written.
//!
//! `MASK` and `GROW` are those of FastClick.
//!
//! ## Ports
//! One input, one output; agnostic. A packet that ends at or before `OFFSET` passes unchanged, also with
//! `GROW`. Checksums are not updated.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA 0123456789, LIMIT 1, STOP true)
//!     -> StoreData(2, ab) -> StoreData(4, \<ff>, MASK \<0f>) -> Print(stored) -> Discard;
//! ```
//!
//! ## See also
//! StoreEtherAddress, StoreIPAddress, SetIPChecksum, Print

use crate::prelude::*;
use lang::args::Bytes;

/// The `StoreData` element.
pub struct StoreData {
    offset: usize,
    /// The bytes to write; bits outside the mask are 0.
    data: Vec<u8>,
    /// For each byte, the packet's bits that are kept; empty if there is no mask.
    kept: Vec<u8>,
    grow: bool,
}

impl Element for StoreData {
    const CLASS: &'static str = "StoreData";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("a packet could not grow")];
    const MANUAL: &'static str = manual!("plumbing/storedata");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let offset: u32 = args.mp("OFFSET")?;
        let mut data = args.mp::<Bytes>("DATA")?.0;
        let mask = args.p::<Bytes>("MASK")?.map_or_else(Vec::new, |m| m.0);
        let grow = args.k_or("GROW", false)?;
        if mask.len() > data.len() {
            return Err("MASK must be no longer than DATA".into());
        }
        for (byte, mask) in data.iter_mut().zip(&mask) {
            *byte &= mask;
        }
        Ok(Self { offset: offset as usize, data, kept: mask.iter().map(|m| !m).collect(), grow })
    }
}

impl Simple for StoreData {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(room) = packet.len().checked_sub(self.offset).filter(|room| *room > 0) else {
            return Some(packet);
        };
        if self.grow && room < self.data.len() {
            match packet.put(self.data.len() - room) {
                Some(longer) => packet = longer,
                None => {
                    cx.count_drops(1, drops::OUT_OF_MEMORY);
                    return None;
                }
            }
        }
        let place = packet.data_mut().get_mut(self.offset..).unwrap_or(&mut []);
        if self.kept.is_empty() {
            let n = place.len().min(self.data.len());
            place[..n].copy_from_slice(&self.data[..n]);
        } else {
            let kept = self.kept.iter().chain(std::iter::repeat(&0));
            for ((byte, new), kept) in place.iter_mut().zip(&self.data).zip(kept) {
                *byte = *byte & kept | new;
            }
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    fn stored(config: &str, bytes: &[u8]) -> Vec<u8> {
        Bench::new(config).push(0, bytes).remove(0).1
    }

    #[test]
    fn writes_what_has_room() {
        assert_eq!(stored("StoreData(1, abc)", b"01234"), b"0abc4");
        assert_eq!(stored("StoreData(3, abc)", b"01234"), b"012ab");
        assert_eq!(stored("StoreData(5, abc)", b"01234"), b"01234");
        assert_eq!(stored("StoreData(4294967295, abc)", b"01234"), b"01234");
        assert_eq!(stored("StoreData(0, \\<00 ff>)", b"01"), [0, 255]);
        assert_eq!(stored("StoreData(0, \"\")", b"01"), b"01");
    }

    #[test]
    fn changes_only_bits_in_the_mask() {
        assert_eq!(
            stored("StoreData(1, \\<ff 00 77>, \\<0f f0>)", &[0x55; 5]),
            [0x55, 0x5f, 0x05, 0x77, 0x55]
        );
        assert_eq!(stored("StoreData(1, \\<ff ff>, MASK \\<80 01>)", &[0; 2]), [0, 0x80]);
        assert!(Bench::error("StoreData(1, a, bc)").contains("MASK must be no longer than DATA"));
    }

    #[test]
    fn grows_when_told() {
        assert_eq!(stored("StoreData(3, abc, GROW true)", b"01234"), b"012abc");
        assert_eq!(stored("StoreData(4, \\<ff 11>, \\<0f>, GROW true)", b"01230"), b"0123\x3f\x11");
        assert_eq!(stored("StoreData(5, abc, GROW true)", b"01234"), b"01234");
        let mut bench = Bench::new("StoreData(0, \\<01>, GROW true)");
        assert_eq!(bench.push(0, b""), [(0, vec![])]);
    }

    #[test]
    fn wants_an_offset_and_data() {
        assert!(Bench::error("StoreData(4)").contains("DATA"));
        assert!(Bench::error("StoreData(-1, a)").contains("OFFSET"));
    }
}
