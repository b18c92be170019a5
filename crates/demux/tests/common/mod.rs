//! Frames for the tests, and what should become of them, worked out in the plainest way.

#![allow(dead_code, reason = "each test file uses a part of this")]

use demux::{Claim, Sorted, Tag, Tunnel};
use dpdk::{Batch, Packet};
use std::collections::{BTreeMap, BTreeSet};

pub const LOCAL: [u8; 4] = [192, 0, 2, 1];
pub const REMOTE: [u8; 4] = [192, 0, 2, 2];
pub const HERE: [u8; 6] = [2, 0, 0, 0, 9, 1];
pub const THERE: [u8; 6] = [2, 0, 0, 0, 9, 2];
pub const BROADCAST: [u8; 6] = [0xff; 6];

pub fn tunnel() -> Tunnel {
    Tunnel::new(LOCAL.into(), HERE, REMOTE.into(), THERE)
}

/// The address of a virtual interface.
pub fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

pub fn claim(tag: Tag) -> Claim {
    Claim { tag, mac: None }
}

pub fn claim_for(tag: Tag, n: u8) -> Claim {
    Claim { tag, mac: Some(mac(n)) }
}

/// A frame without a tag: addresses, EtherType, payload.
pub fn frame(dst: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &[2, 0, 0, 0, 1, 1], &ethertype.to_be_bytes(), payload].concat()
}

/// A packet that is enough of an IPv4 packet for a label.
pub fn ip(dst: [u8; 6], number: u8) -> Vec<u8> {
    let mut payload = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    payload.resize(46, number);
    frame(dst, 0x0800, &payload)
}

/// A frame with what tells it: a naive encapsulation.
pub fn tagged(tag: Tag, frame: &[u8]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    let put = |bytes: &[u8], rest: &[u8]| [addresses, bytes, rest].concat();
    let [.., a, b, c] = match tag {
        Tag::Mpls(n) | Tag::Vni(n) => n.to_be_bytes(),
        _ => [0; 4],
    };
    match tag {
        Tag::None => frame.to_vec(),
        Tag::Vlan(id) => put(&[0x81, 0, (id >> 8) as u8 | 0x60, id as u8], rest),
        Tag::Qinq(outer, inner) => put(
            &[0x88, 0xa8, (outer >> 8) as u8, outer as u8, 0x81, 0, (inner >> 8) as u8, inner as u8],
            rest,
        ),
        Tag::Mpls(_) => {
            let [.., label_a, label_b, label_c] = [0, a, b, c];
            let label = (u32::from_be_bytes([0, label_a, label_b, label_c]) << 12 | 0x100 | 9).to_be_bytes();
            put(&[&[0x88, 0x47][..], &label].concat(), &rest[2..])
        }
        Tag::Vni(_) => {
            let udp_len = (16 + frame.len()) as u16;
            let header = wire::Ipv4::build(REMOTE.into(), LOCAL.into(), 17, udp_len.into());
            let udp = [&[0xc1, 2, 0x12, 0xb5][..], &udp_len.to_be_bytes(), &[0, 0]].concat();
            let vxlan = [8, 0, 0, 0, a, b, c, 0];
            let inside = [header.bytes(), &udp[..], &vxlan, frame].concat();
            [&HERE[..], &THERE, &[8, 0], &inside].concat()
        }
    }
}

pub fn batch<'a>(frames: impl IntoIterator<Item = &'a Vec<u8>>) -> Batch {
    frames.into_iter().map(|f| Packet::from_bytes(f).expect("there is memory")).collect()
}

/// What was split, as data: owners in their order, with their frames.
pub fn taken(sorted: &mut Sorted) -> Vec<(u32, Vec<Vec<u8>>)> {
    sorted
        .iter_mut()
        .map(|(owner, batch)| (owner, batch.drain(..).map(|p| p.data().to_vec()).collect()))
        .collect()
}

/// Why a frame reached nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    Tag,
    Address,
    Malformed,
}

/// What should become of frames.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub claims: BTreeMap<Claim, u32>,
    pub default: Option<u32>,
    pub tunnel: bool,
}

/// What a frame carries: its tag and what is left without it.
enum Seen {
    Tagged(Tag, Vec<u8>),
    /// With a tag that cannot be claimed.
    Other,
    Malformed,
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]))
}

impl Model {
    fn any(&self, f: impl Fn(Tag) -> bool) -> bool {
        self.claims.keys().any(|c| f(c.tag))
    }

    fn has(&self, tag: Tag) -> bool {
        self.any(|t| t == tag)
    }

    fn without(frame: &[u8], bytes: usize) -> Vec<u8> {
        [&frame[..12], &frame[12 + bytes..]].concat()
    }

    fn see(&self, f: &[u8]) -> Seen {
        let Some(ethertype) = be16(f, 12) else { return Seen::Malformed };
        match ethertype {
            0x8100 | 0x88a8 | 0x9100 => {
                let (Some(outer), Some(next)) = (be16(f, 14), be16(f, 16)) else { return Seen::Malformed };
                let double = ethertype != 0x8100 || self.any(|t| matches!(t, Tag::Qinq(..)));
                if double && next == 0x8100 {
                    let (Some(inner), Some(_)) = (be16(f, 18), be16(f, 20)) else { return Seen::Malformed };
                    let tag = Tag::Qinq(outer & 0xfff, inner & 0xfff);
                    if ethertype != 0x8100 || self.has(tag) {
                        return Seen::Tagged(tag, Model::without(f, 8));
                    }
                }
                match outer & 0xfff {
                    _ if ethertype != 0x8100 => Seen::Other,
                    0 => Seen::Tagged(Tag::None, Model::without(f, 4)),
                    id => Seen::Tagged(Tag::Vlan(id), Model::without(f, 4)),
                }
            }
            0x8847 if self.any(|t| matches!(t, Tag::Mpls(_))) => {
                let Some(&[a, b, c, _]) = f.get(14..18) else { return Seen::Malformed };
                if c & 1 == 0 {
                    return Seen::Other;
                }
                let tag = Tag::Mpls(u32::from_be_bytes([0, a, b, c]) >> 4);
                let version = f.get(18).map(|b| b >> 4);
                let ethertype: [u8; 2] = match version {
                    Some(4) => [8, 0],
                    Some(6) => [0x86, 0xdd],
                    // Only the owner of a label finds out.
                    _ if self.has(tag) => return Seen::Tagged(tag, Vec::new()),
                    _ => return Seen::Tagged(tag, f.to_vec()),
                };
                Seen::Tagged(tag, [&f[..12], &ethertype, &f[18..]].concat())
            }
            0x0800 if self.tunnel && self.any(|t| matches!(t, Tag::Vni(_))) => {
                let is_tunnels = f.len() >= 42
                    && f[0] & 1 == 0
                    && f[26..30] == REMOTE
                    && f[30..34] == LOCAL
                    && f[23] == 17
                    && f[20] & 0x3f == 0
                    && f[21] == 0
                    && f.get(14 + 4 * usize::from(f[14] & 15)..)
                        .is_some_and(|udp| udp.len() >= 8 && udp[2..4] == [0x12, 0xb5]);
                if !is_tunnels {
                    return Seen::Tagged(Tag::None, f.to_vec());
                }
                let Ok(ip) = wire::Ipv4Packet::parse(&f[14..]) else { return Seen::Malformed };
                let Some(udp) = wire::UdpDatagram::parse(ip.payload()) else { return Seen::Malformed };
                let sum_good = udp.header().checksum() == 0
                    || udp.verify_checksum(ip.header().pseudo_sum(udp.header().length()));
                match udp.payload() {
                    [flags, _, _, _, a, b, c, _, inner @ ..]
                        if flags & 8 != 0
                            && inner.len() >= 14
                            && sum_good
                            && wire::ipv4::verify_header(ip.header_bytes()) =>
                    {
                        Seen::Tagged(Tag::Vni(u32::from_be_bytes([0, *a, *b, *c])), inner.to_vec())
                    }
                    _ => Seen::Malformed,
                }
            }
            _ => Seen::Tagged(Tag::None, f.to_vec()),
        }
    }

    /// Who gets the frame, and as what.
    pub fn deliver(&self, f: &[u8]) -> Result<Vec<(u32, Vec<u8>)>, Lost> {
        if let (true, Some(owner)) = (self.claims.is_empty(), self.default) {
            return Ok(vec![(owner, f.to_vec())]);
        }
        let as_it_is = |lost| self.default.map(|owner| vec![(owner, f.to_vec())]).ok_or(lost);
        let (tag, rest) = match self.see(f) {
            Seen::Tagged(tag, rest) => (tag, rest),
            Seen::Other => return as_it_is(Lost::Tag),
            Seen::Malformed => return Err(Lost::Malformed),
        };
        let same: Vec<(&Claim, u32)> =
            self.claims.iter().filter(|(c, _)| c.tag == tag).map(|(c, &o)| (c, o)).collect();
        let owners: BTreeSet<u32> = same.iter().map(|(_, o)| *o).collect();
        let dst = if let Tag::Vni(_) = tag { &rest[..6] } else { &f[..6] };
        let to: Vec<u32> = match owners.len() {
            0 => return as_it_is(Lost::Tag),
            1 => owners.into_iter().collect(),
            _ if dst[0] & 1 == 1 => owners.into_iter().collect(),
            _ => match same.iter().find(|(c, _)| c.mac.is_some_and(|m| m == dst)) {
                Some((_, owner)) => vec![*owner],
                None => return as_it_is(Lost::Address),
            },
        };
        if rest.is_empty() {
            return Err(Lost::Malformed);
        }
        Ok(to.into_iter().map(|owner| (owner, rest.clone())).collect())
    }
}
