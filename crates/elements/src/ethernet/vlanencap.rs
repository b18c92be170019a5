//! # VLANEncap
//! Puts an IEEE 802.1Q tag into each packet's Ethernet header.
//!
//! ## Synopsis
//! `VLANEncap([VLAN_TCI, VLAN_PCP, VLAN_ID, NATIVE_VLAN, ETHERTYPE])`
//!
//! ## Arguments
//! - `VLAN_TCI` (*int*, 16 bits, or `ANNO`): the whole tag, identifier and priority. `ANNO` takes it from
//!   each packet's VLAN annotation.
//! - `VLAN_PCP` (*int*, 0 to 7, default 0): the priority code point.
//! - `VLAN_ID` (*int*, 0 to 0xFFF, keyword, default 0): the identifier, instead of `VLAN_TCI`.
//! - `NATIVE_VLAN` (*int*, -1 to 0xFFF, keyword, default 0): packets of this VLAN are left as they are. -1:
//!   none are.
//! - `ETHERTYPE` (*int*, keyword, default 0x8100): what announces the tag, for example 0x88a8 for provider
//!   bridges.
//!
//! ## Ports
//! One input, one output; agnostic. Packets begin with their Ethernet header.
//!
//! ## Handlers
//! - `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan`, `ethertype` (read/write): the arguments.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> VLANEncap(VLAN_ID 100, VLAN_PCP 3) -> Discard;
//! ```
//!
//! ## See also
//! VLANDecap, EtherVLANEncap, SetVLANAnno

use super::engine::vlan::{self, Tag, Tagged};
use crate::plumbing::engine::text;
use crate::prelude::*;
use wire::ethernet::{self, ETHERTYPE_VLAN};

/// The `VLANEncap` element.
pub struct VlanEncap {
    tag: Tag,
    ethertype: u16,
}

impl Tagged for VlanEncap {
    fn tag(&self) -> &Tag {
        &self.tag
    }
    fn tag_mut(&mut self) -> &mut Tag {
        &mut self.tag
    }
}

impl Element for VlanEncap {
    const CLASS: &'static str = "VLANEncap";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::VLAN_TCI);
    const WRITES: Fields = Fields::DATA.with(Fields::HEADERS);
    const DROPS: &'static [DropCase] = &[drops::TOO_SHORT_FOR_ETHERNET, drops::NO_ROOM_FOR_A_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/vlanencap");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { tag: Tag::configure(args, true)?, ethertype: args.k_or("ETHERTYPE", ETHERTYPE_VLAN)? })
    }
    fn handlers(h: &mut Handlers<Self>) {
        vlan::handlers(h, true);
        h.read("ethertype", |e| e.ethertype.to_string());
        h.write("ethertype", |e, v, _| text::value(v, "expected Ethernet type").map(|t| e.ethertype = t));
        h.listed(&["vlan_tci =", "vlan_id =", "vlan_pcp =", "native_vlan =", "ethertype ="]);
    }
}

impl VlanEncap {
    /// Writes the tag behind the addresses of a packet to which room for it has been prepended.
    #[inline]
    fn insert(&self, packet: &mut Packet, tci: u16) {
        if let Some(front) = packet.data_mut().first_chunk_mut::<16>() {
            front.copy_within(4.., 0);
            let [.., a, b, c, d] = front;
            [*a, *b] = self.ethertype.to_be_bytes();
            [*c, *d] = tci.to_be_bytes();
        }
    }

    /// Puts a tag in, or none; `false`, and nothing changed, if there is no room, or no Ethernet header.
    #[inline]
    fn put(&self, packet: &mut Packet, tag: Option<u16>) -> bool {
        if packet.len() < ethernet::HEADER_LEN {
            return false;
        }
        let Some(tci) = tag else {
            packet.mark_link_header(ethernet::HEADER_LEN);
            return true;
        };
        if !packet.push_in_place(wire::vlan::HEADER_LEN) {
            return false;
        }
        self.insert(packet, tci);
        packet.mark_link_header(ethernet::HEADER_LEN + wire::vlan::HEADER_LEN);
        true
    }
}

impl Step for VlanEncap {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        self.put(packet, self.tag.of(packet))
    }
    fn run(&mut self, packets: &mut [Packet], _cx: &mut Cx<'_>) -> usize {
        let usual = |packet: &mut Packet, tag| self.put(packet, tag);
        let passed = match self.tag.of_all() {
            Some(tag) => packets.iter_mut().position(|packet| !usual(packet, tag)),
            None => packets.iter_mut().position(|packet| !usual(packet, self.tag.of(packet))),
        };
        passed.unwrap_or(packets.len())
    }
}

impl Simple for VlanEncap {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        if packet.len() < ethernet::HEADER_LEN {
            cx.drop(packet, drops::NO_ETHERNET_HEADER);
            return None;
        }
        // There was no headroom.
        let tci = self.tag.of(&packet).unwrap_or(0);
        let Some(mut packet) = packet.push(wire::vlan::HEADER_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        self.insert(&mut packet, tci);
        packet.set_mac_header(0);
        packet.set_network_header(ethernet::HEADER_LEN + wire::vlan::HEADER_LEN, 0);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;

    const PLAIN: [u8; 15] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0, 77];

    #[test]
    fn tags() {
        let mut b = Bench::new("VLANEncap(VLAN_ID 100, VLAN_PCP 3)");
        let out = b.send(0, Packet::from_bytes(&PLAIN).unwrap());
        let p = &out[0].1;
        assert_eq!(p.data()[..12], PLAIN[..12]);
        assert_eq!(p.data()[12..], [0x81, 0, 0x60, 100, 8, 0, 77]);
        assert_eq!((p.mac_header_offset(), p.network_header_offset()), (Some(0), Some(18)));
        assert_eq!((b.read("vlan_tci"), b.read("vlan_id"), b.read("vlan_pcp")), {
            ("24676".into(), "100".into(), "3".into())
        });
        b.write("vlan_id", "5");
        b.write("vlan_pcp", "1");
        b.write("ethertype", "0x88a8");
        assert_eq!(b.push(0, &PLAIN)[0].1[12..16], [0x88, 0xa8, 0x20, 5]);
        b.write("native_vlan", "5");
        assert_eq!(b.push(0, &PLAIN)[0].1, PLAIN);
        b.write("vlan_tci", "0xf001");
        assert_eq!(b.push(0, &PLAIN)[0].1[14..16], [0xf0, 1]);
        assert!(b.try_write("vlan_pcp", "8").is_err());
    }

    #[test]
    fn tags_by_annotation() {
        let mut b = Bench::new("VLANEncap(ANNO)");
        assert_eq!(b.read("vlan_tci"), "ANNO");
        let mut packet = Packet::from_bytes(&PLAIN).unwrap();
        packet.set_vlan_tci(0x2007);
        assert_eq!(b.push_packet(0, packet)[0].1[12..16], [0x81, 0, 0x20, 7]);
        // VLAN 0 is the native one by default.
        assert_eq!(b.push(0, &PLAIN)[0].1, PLAIN);
        let mut b = Bench::new("VLANEncap(ANNO, NATIVE_VLAN -1)");
        assert_eq!(b.push(0, &PLAIN)[0].1[12..16], [0x81, 0, 0, 0]);
    }

    #[test]
    fn short_packets_and_wrong_arguments() {
        let mut b = Bench::new("VLANEncap(1)");
        for cut in 0..14 {
            assert!(b.push(0, &PLAIN[..cut]).is_empty());
        }
        assert_eq!(b.drops(), [("no Ethernet header".to_owned(), 14)]);
        assert!(Bench::error("VLANEncap(VLAN_ID 4096)").contains("out of range, bound 4095"));
        assert!(Bench::error("VLANEncap(1, 8)").contains("out of range, bound 7"));
        assert!(Bench::error("VLANEncap(anno)").contains("VLAN_TCI: invalid number"));
    }
}
