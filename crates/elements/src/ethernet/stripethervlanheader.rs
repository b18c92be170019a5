//! # StripEtherVLANHeader
//! Removes each packet's Ethernet header with its IEEE 802.1Q tag.
//!
//! The VLAN annotation is set to the tag.
//!
//! ## Synopsis
//! `StripEtherVLANHeader([NATIVE_VLAN])`
//!
//! ## Arguments
//! - `NATIVE_VLAN` (*int*, up to 0xFFF, default 0): the annotation of packets without a tag, whose header of
//!   14 bytes is removed. If negative, such packets are rejected.
//!
//! ## Ports
//! One input, one or two outputs; agnostic. Rejected packets go to output 1 or are dropped.
//!
//! ## Handlers
//! None.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 100) -> StripEtherVLANHeader -> Discard;
//! ```
//!
//! ## See also
//! EtherVLANEncap, VLANDecap, SetVLANAnno, Strip

use crate::prelude::*;
use wire::ethernet::{self, ETHERTYPE_VLAN};
use wire::{Ethernet, Vlan, vlan};

const NO_VLAN_TAG: DropReason = DropReason::new("no VLAN tag");

/// The tag of a frame that announces it by `ethertype`; `None` if it has none or is cut off in it.
#[inline]
pub(super) fn tci(frame: &[u8], ethertype: u16) -> Option<u16> {
    let (header, rest) = Ethernet::split(frame)?;
    (header.ethertype() == ethertype).then_some(())?;
    Vlan::new(rest).map(|tag| tag.tci())
}

/// The `StripEtherVLANHeader` element.
pub struct StripEtherVlanHeader {
    native: Option<u16>,
}

impl Element for StripEtherVlanHeader {
    const CLASS: &'static str = "StripEtherVLANHeader";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::VLAN_TCI);
    const DROPS: &'static [DropCase] = &[
        NO_VLAN_TAG.when("the frame is untagged, and `NATIVE_VLAN` does not say which VLAN it belongs to"),
        drops::TOO_SHORT_FOR_ETHERNET,
    ];
    const MANUAL: &'static str = manual!("ethernet/stripethervlanheader");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let native = args.p_or::<i32>("NATIVE_VLAN", 0)?;
        if native > 0xfff {
            return Err(args.error("bad NATIVE_VLAN"));
        }
        Ok(Self { native: u16::try_from(native).ok() })
    }
}

impl Simple for StripEtherVlanHeader {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let tag = tci(packet.data(), ETHERTYPE_VLAN);
        let Some(tci) = tag.or(self.native) else {
            cx.fail(packet, NO_VLAN_TAG);
            return None;
        };
        if !packet.strip(ethernet::HEADER_LEN + if tag.is_some() { vlan::HEADER_LEN } else { 0 }) {
            cx.fail(packet, drops::NO_ETHERNET_HEADER);
            return None;
        }
        packet.set_vlan_tci(tci);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;

    const TAGGED: [u8; 19] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0x20, 7, 8, 0, 77];

    #[test]
    fn strips_tagged_and_native() {
        let mut b = Bench::with_ports("StripEtherVLANHeader(5)", 1, 1);
        let out = b.send(0, Packet::from_bytes(&TAGGED).unwrap());
        assert_eq!((out[0].1.data(), out[0].1.vlan_tci()), (&[77][..], 0x2007));
        let out = b.send(0, Packet::from_bytes(&[0; 16]).unwrap());
        assert_eq!((out[0].1.data(), out[0].1.vlan_tci()), (&[0, 0][..], 5));
        assert!(b.push(0, &[0; 13]).is_empty());
        assert_eq!(b.drops(), [("no Ethernet header".to_owned(), 1)]);
    }

    #[test]
    fn rejects_without_a_native_vlan() {
        let mut b = Bench::with_ports("StripEtherVLANHeader(-1)", 1, 2);
        assert_eq!(b.push(0, &TAGGED), [(0, vec![77])]);
        for cut in 0..18 {
            assert_eq!(b.push(0, &TAGGED[..cut]), [(1, TAGGED[..cut].to_vec())]);
        }
        assert!(Bench::error("StripEtherVLANHeader(4096)").contains("bad NATIVE_VLAN"));
    }
}
