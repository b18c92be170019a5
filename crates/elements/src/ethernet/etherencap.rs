//! # EtherEncap
//! Puts an Ethernet header in front of each packet.
//!
//! ## Synopsis
//! `EtherEncap(ETHERTYPE, SRC, DST)`
//!
//! ## Arguments
//! - `ETHERTYPE` (*int*): the type field, for example 0x0800.
//! - `SRC`, `DST` (*Ethernet addresses*): source and destination.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `ethertype`, `src`, `dst` (read/write): the arguments. `etht` is an old name of `ethertype`.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
//! ```
//!
//! ## See also
//! ARPQuerier, EtherRewrite, Strip

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::EtherAddr as EtherArg;
use wire::{EtherAddr, Ethernet, ethernet};

/// The `EtherEncap` element.
pub struct EtherEncap(Ethernet<[u8; ethernet::HEADER_LEN]>);

impl Element for EtherEncap {
    const CLASS: &'static str = "EtherEncap";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DATA.with(Fields::MAC_HEADER);
    const SETS: Fields = Fields::MAC_HEADER;
    const DROPS: &'static [DropCase] = &[drops::NO_ROOM_FOR_A_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/etherencap");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ethertype = args.mp::<u16>("ETHERTYPE")?;
        let src = args.mp::<EtherArg>("SRC")?;
        let dst = args.mp::<EtherArg>("DST")?;
        Ok(Self(Ethernet::build(EtherAddr(dst.0), EtherAddr(src.0), ethertype)))
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("src", |e| e.0.src().to_string());
        h.read("dst", |e| e.0.dst().to_string());
        for name in ["ethertype", "etht"] {
            h.read(name, |e| e.0.ethertype().to_string());
        }
        h.write("src", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.0.set_src(EtherAddr(a.0)))
        });
        h.write("dst", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.0.set_dst(EtherAddr(a.0)))
        });
        for name in ["ethertype", "etht"] {
            h.write(name, |e, v, _| {
                e.0.set_ethertype(lang::args::parse(v.trim())?);
                Ok(())
            });
        }
        h.argument("src", 1, "SRC");
        h.argument("dst", 2, "DST");
        h.argument("ethertype", 0, "ETHERTYPE");
        h.argument("etht", 0, "ETHERTYPE");
        h.listed(&["src", "dst", "ethertype", "etht D"]);
    }
}

impl Step for EtherEncap {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        if !packet.push_in_place(ethernet::HEADER_LEN) {
            return false;
        }
        if let Some(front) = packet.data_mut().first_chunk_mut() {
            *front = *self.0.bytes();
        }
        packet.set_mac_header(0);
        true
    }
}

impl Simple for EtherEncap {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        let Some(mut packet) = packet.push(ethernet::HEADER_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        if let Some(front) = packet.data_mut().first_chunk_mut() {
            *front = *self.0.bytes();
        }
        packet.set_mac_header(0);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn puts_the_header_in_front() {
        let mut b = Bench::new("EtherEncap(0x0800, 1:2:3:4:5:6, 7:8:9:a:b:c)");
        assert_eq!(b.push(0, b"xy")[0].1, [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 8, 0, b'x', b'y']);
        b.write("dst", "ff:ff:ff:ff:ff:ff");
        assert_eq!(b.push(0, b"xy")[0].1[..6], [0xff; 6]);
    }
}
