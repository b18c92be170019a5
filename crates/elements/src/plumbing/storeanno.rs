//! # StoreAnno
//! Writes an annotation into packets.
//!
//! FastClick's.
//!
//! ## Synopsis
//! `StoreAnno(OFFSET [, ANNO, GROW])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes): where the byte goes, from the packet's beginning.
//! - `ANNO` (*annotation*, one byte, default `PAINT`): which byte of the annotations, by name or by offset.
//! - `GROW` (*bool*, keyword, default false): accepted; as in FastClick it changes nothing, because one byte
//!   always fits into a packet that has a byte at `OFFSET`.
//!
//! ## Ports
//! One input, one output; agnostic. A packet that ends at or before `OFFSET` passes unchanged. Checksums are
//! not updated.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true) -> Paint(7) -> StoreAnno(0) -> Print -> Discard;
//! ```
//!
//! ## See also
//! StoreData, Paint, SetAnnoByte

use crate::prelude::*;
use dpdk::offset;
use lang::args::Anno;

/// The `StoreAnno` element.
pub struct StoreAnno {
    offset: usize,
    anno: usize,
}

impl Element for StoreAnno {
    const CLASS: &'static str = "StoreAnno";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::USER);
    const WRITES: Fields = Fields::DATA;
    const MANUAL: &'static str = manual!("plumbing/storeanno");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let offset: u32 = args.mp("OFFSET")?;
        let anno = args.p::<Anno<1>>("ANNO")?.map_or(offset::PAINT, |a| usize::from(a.0));
        args.k::<bool>("GROW")?;
        Ok(Self { offset: offset as usize, anno })
    }
}

impl Simple for StoreAnno {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        let value = packet.load_user::<1>(self.anno);
        if let (Some([value]), Some(byte)) = (value, packet.data_mut().get_mut(self.offset)) {
            *byte = value;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn writes_the_byte() {
        let painted = || {
            let mut packet = Packet::from_bytes(b"012").unwrap();
            packet.set_paint(b'p');
            packet.store_user(40, [b'q']);
            packet
        };
        for (config, want) in [
            ("StoreAnno(0)", b"p12"),
            ("StoreAnno(2)", b"01p"),
            ("StoreAnno(1, 40)", b"0q2"),
            ("StoreAnno(3, GROW true)", b"012"),
            ("StoreAnno(4294967295)", b"012"),
        ] {
            assert_eq!(Bench::new(config).push_packet(0, painted()), [(0, want.to_vec())], "{config}");
        }
        assert!(Bench::error("StoreAnno(0, 48)").contains("ANNO"));
    }
}
