//! # EtherVLANEncap
//! Puts an Ethernet header with an IEEE 802.1Q tag in front of each packet.
//!
//! ## Synopsis
//! `EtherVLANEncap(ETHERTYPE, SRC, DST [, VLAN_TCI, VLAN_PCP, VLAN_ID, NATIVE_VLAN])`
//!
//! ## Arguments
//! - `ETHERTYPE` (*int*): the type of the packet within, for example 0x0800.
//! - `SRC`, `DST` (*Ethernet addresses*): source and destination.
//! - `VLAN_TCI` (*int*, 16 bits, or `ANNO`): the whole tag, identifier and priority. `ANNO` takes it from
//!   each packet's VLAN annotation.
//! - `VLAN_PCP` (*int*, 0 to 7, default 0): the priority code point.
//! - `VLAN_ID` (*int*, 0 to 0xFFF, keyword, default 0): the identifier, instead of `VLAN_TCI`.
//! - `NATIVE_VLAN` (*int*, -1 to 0xFFF, keyword, default 0): packets of this VLAN get a header without a tag.
//!   -1: none do.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `src`, `dst`, `ethertype`, `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan` (read/write): the arguments.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 1) -> Discard;
//! ```
//!
//! ## See also
//! VLANEncap, StripEtherVLANHeader, SetVLANAnno, EtherEncap

use super::engine::vlan::{self, Tag, Tagged};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::EtherAddr as EtherArg;
use wire::ethernet::{self, ETHERTYPE_VLAN};
use wire::{EtherAddr, Ethernet, Vlan};

/// The `EtherVLANEncap` element.
pub struct EtherVlanEncap {
    src: EtherAddr,
    dst: EtherAddr,
    ethertype: u16,
    tag: Tag,
}

impl Tagged for EtherVlanEncap {
    fn tag(&self) -> &Tag {
        &self.tag
    }
    fn tag_mut(&mut self) -> &mut Tag {
        &mut self.tag
    }
}

impl Element for EtherVlanEncap {
    const CLASS: &'static str = "EtherVLANEncap";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::VLAN_TCI;
    const WRITES: Fields = Fields::DATA.with(Fields::HEADERS);
    const SETS: Fields = Fields::HEADERS;
    const DROPS: &'static [DropCase] = &[drops::NO_ROOM_FOR_A_HEADER];
    const MANUAL: &'static str = manual!("ethernet/ethervlanencap");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self {
            ethertype: args.mp("ETHERTYPE")?,
            src: EtherAddr(args.mp::<EtherArg>("SRC")?.0),
            dst: EtherAddr(args.mp::<EtherArg>("DST")?.0),
            tag: Tag::configure(args, true)?,
        })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("src", |e| e.src.to_string());
        h.read("dst", |e| e.dst.to_string());
        h.read("ethertype", |e| e.ethertype.to_string());
        h.write("src", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.src = EtherAddr(a.0))
        });
        h.write("dst", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.dst = EtherAddr(a.0))
        });
        h.write("ethertype", |e, v, _| text::value(v, "expected Ethernet type").map(|t| e.ethertype = t));
        vlan::handlers(h, true);
        h.argument("src", 1, "SRC");
        h.argument("dst", 2, "DST");
        h.argument("ethertype", 0, "ETHERTYPE");
    }
}

impl Simple for EtherVlanEncap {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let tci = self.tag.of(&packet);
        let len = ethernet::HEADER_LEN + if tci.is_some() { wire::vlan::HEADER_LEN } else { 0 };
        let Some(mut packet) = packet.push(len) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        if let Some((mut header, rest)) = Ethernet::split_mut(packet.data_mut()) {
            header.set_src(self.src);
            header.set_dst(self.dst);
            header.set_ethertype(if tci.is_some() { ETHERTYPE_VLAN } else { self.ethertype });
            if let (Some(tci), Some(mut tag)) = (tci, Vlan::new_mut(rest)) {
                tag.set_tci(tci);
                tag.set_ethertype(self.ethertype);
            }
        }
        packet.set_mac_header(0);
        packet.set_network_header(len, 0);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;

    #[test]
    fn puts_header_and_tag_in_front() {
        let mut b = Bench::new("EtherVLANEncap(0x0800, 1:2:3:4:5:6, 7:8:9:a:b:c, 0x2064)");
        let out = b.send(0, Packet::from_bytes(b"xy").unwrap());
        let p = &out[0].1;
        assert_eq!(p.data()[..12], [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6]);
        assert_eq!(p.data()[12..], [0x81, 0, 0x20, 100, 8, 0, b'x', b'y']);
        assert_eq!((p.mac_header_offset(), p.network_header_offset()), (Some(0), Some(18)));
        b.write("native_vlan", "100");
        b.write("ethertype", "0x86dd");
        b.write("src", "0:0:0:0:0:1");
        b.write("dst", "0:0:0:0:0:2");
        assert_eq!(b.push(0, b"xy")[0].1, [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0x86, 0xdd, b'x', b'y']);
        assert_eq!((b.read("vlan_tci"), b.read("native_vlan")), ("8292".into(), "100".into()));
    }

    #[test]
    fn takes_the_tag_from_the_annotation() {
        let mut b = Bench::new("EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO, NATIVE_VLAN 9)");
        for (tci, len) in [(9, 14), (0x6009, 14), (8, 18), (0, 18)] {
            let mut packet = Packet::from_bytes(b"").unwrap();
            packet.set_vlan_tci(tci);
            assert_eq!(b.push_packet(0, packet)[0].1.len(), len, "{tci}");
        }
    }

    #[test]
    fn wrong_arguments() {
        assert!(Bench::error("EtherVLANEncap(0x0800, 1:1:1:1:1:1)").contains("DST"));
        let error = Bench::error("EtherVLANEncap(1, 1:1:1:1:1:1, 2:2:2:2:2:2, VLAN_ID -1)");
        assert!(error.contains("VLAN_ID: out of range, bound 0"), "{error}");
    }
}
