//! # VLANDecap
//! Takes the IEEE 802.1Q tag out of each packet's Ethernet header.
//!
//! ## Synopsis
//! `VLANDecap([ANNO, ETHERTYPE])`
//!
//! ## Arguments
//! - `ANNO` (*bool*, default true): whether to set the VLAN annotation to the tag, or to 0 if there was none.
//! - `ETHERTYPE` (*int*, keyword, default 0x8100): what announces the tag.
//!
//! ## Ports
//! One input, one output; agnostic. Packets begin with their Ethernet header; those without a tag pass
//! unchanged.
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
//!   -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 100) -> VLANDecap -> Discard;
//! ```
//!
//! ## See also
//! VLANEncap, StripEtherVLANHeader

use super::stripethervlanheader::tci;
use crate::prelude::*;
use wire::ethernet::{self, ETHERTYPE_VLAN};

/// The `VLANDecap` element.
pub struct VlanDecap {
    anno: bool,
    ethertype: u16,
}

impl Element for VlanDecap {
    const CLASS: &'static str = "VLANDecap";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::HEADERS).with(Fields::VLAN_TCI);
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/vlandecap");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { anno: args.p_or("ANNO", true)?, ethertype: args.k_or("ETHERTYPE", ETHERTYPE_VLAN)? })
    }
}

impl Step for VlanDecap {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let tci = tci(packet.data(), self.ethertype);
        if tci.is_some() {
            if let Some(front) = packet.data_mut().first_chunk_mut::<16>() {
                front.copy_within(..12, 4);
            }
            packet.strip(wire::vlan::HEADER_LEN);
        }
        packet.mark_link_header(ethernet::HEADER_LEN);
        if self.anno {
            packet.set_vlan_tci(tci.unwrap_or(0));
        }
        true
    }
}

impl Simple for VlanDecap {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;

    const TAGGED: [u8; 19] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0x20, 7, 8, 0, 77];
    const PLAIN: [u8; 15] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0, 77];

    #[test]
    fn takes_the_tag_out() {
        let mut b = Bench::new("VLANDecap");
        let out = b.send(0, Packet::from_bytes(&TAGGED).unwrap());
        let p = &out[0].1;
        assert_eq!(p.data(), PLAIN);
        assert_eq!(p.vlan_tci(), 0x2007);
        assert_eq!((p.mac_header_offset(), p.network_header_offset()), (Some(0), Some(14)));
    }

    #[test]
    fn leaves_others_alone() {
        let mut b = Bench::new("VLANDecap");
        let mut packet = Packet::from_bytes(&PLAIN).unwrap();
        packet.set_vlan_tci(9);
        let out = b.send(0, packet);
        assert_eq!((out[0].1.data(), out[0].1.vlan_tci()), (&PLAIN[..], 0));
        // An incomplete tag is not a tag.
        for cut in 0..18 {
            assert_eq!(b.push(0, &TAGGED[..cut])[0].1, TAGGED[..cut]);
        }
        let mut b = Bench::new("VLANDecap(false, ETHERTYPE 0x88a8)");
        assert_eq!(b.push(0, &TAGGED)[0].1, TAGGED);
    }
}
