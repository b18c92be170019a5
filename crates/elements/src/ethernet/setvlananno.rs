//! # SetVLANAnno
//! Sets each packet's VLAN annotation.
//!
//! ## Synopsis
//! `SetVLANAnno([VLAN_TCI, VLAN_PCP, VLAN_ID])`
//!
//! ## Arguments
//! - `VLAN_TCI` (*int*, 16 bits): the whole annotation, identifier and priority.
//! - `VLAN_PCP` (*int*, 0 to 7, default 0): the priority code point.
//! - `VLAN_ID` (*int*, 0 to 0xFFF, keyword, default 0): the identifier, instead of `VLAN_TCI`.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `vlan_tci`, `vlan_id`, `vlan_pcp` (read/write): the arguments.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> SetVLANAnno(VLAN_ID 100) -> VLANEncap(ANNO) -> Discard;
//! ```
//!
//! ## See also
//! VLANEncap, EtherVLANEncap, VLANDecap

use super::engine::vlan::{self, Tag, Tagged};
use crate::prelude::*;

/// The `SetVLANAnno` element.
pub struct SetVlanAnno {
    tag: Tag,
}

impl Tagged for SetVlanAnno {
    fn tag(&self) -> &Tag {
        &self.tag
    }
    fn tag_mut(&mut self) -> &mut Tag {
        &mut self.tag
    }
}

impl Element for SetVlanAnno {
    const CLASS: &'static str = "SetVLANAnno";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::VLAN_TCI;
    const SETS: Fields = Fields::VLAN_TCI;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/setvlananno");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { tag: Tag::configure(args, false)? })
    }
    fn handlers(h: &mut Handlers<Self>) {
        vlan::handlers(h, false);
    }
}

impl Step for SetVlanAnno {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.set_vlan_tci(self.tag.tci());
        true
    }
}

impl Simple for SetVlanAnno {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;

    #[test]
    fn annotates() {
        let mut b = Bench::new("SetVLANAnno(VLAN_ID 7, VLAN_PCP 1)");
        let tci = |b: &mut Bench| b.send(0, Packet::from_bytes(b"").unwrap())[0].1.vlan_tci();
        assert_eq!(tci(&mut b), 0x2007);
        b.write("vlan_tci", "0x5003");
        assert_eq!(tci(&mut b), 0x7003);
        b.write("vlan_pcp", "0");
        assert_eq!((tci(&mut b), b.read("vlan_id"), b.read("vlan_pcp")), (0x1003, "3".into(), "0".into()));
        assert!(b.try_write("vlan_id", "4096").is_err());
        assert!(Bench::error("SetVLANAnno(65536)").contains("VLAN_TCI"));
        assert!(Bench::error("SetVLANAnno(1, NATIVE_VLAN 1)").contains("NATIVE_VLAN"));
    }
}
