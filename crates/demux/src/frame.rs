//! The owner of one frame, and its tag taken off.
//!
//! Nothing that a frame contains is relied on: every access is checked, and a frame that ends in the middle
//! of its tag is malformed.

use crate::claims::{AS_IT_IS, MALFORMED, NOBODY_TAG, SEVERAL, Snapshot, mpls_key, qinq_key, vni_key};
use crate::tunnel::Tunnel;
use dpdk::Packet;
use wire::ethernet::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_QINQ, ETHERTYPE_QINQ_OLD, ETHERTYPE_VLAN,
    HEADER_LEN,
};
use wire::{EtherAddr, Ethernet, Ipv4, UdpDatagram, Vxlan, ipv4, protocol, udp, vlan, vxlan};

/// Bytes of both addresses.
const ADDRESSES: usize = 12;
/// Bytes of an MPLS label stack entry.
pub(crate) const LABEL_LEN: usize = 4;
/// In a label stack entry: it is the last one.
pub(crate) const BOTTOM: u32 = 1 << 8;

#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Takes the `N` bytes behind the addresses out.
#[inline(always)]
fn close<const N: usize>(packet: &mut Packet) {
    let Some(&[a, b, c, d, e, f, g, h, i, j, k, l]) = packet.data().first_chunk::<ADDRESSES>() else {
        return;
    };
    // As numbers they stay in registers.
    let (first, rest) = (u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u32::from_ne_bytes([i, j, k, l]));
    packet.strip(N);
    if let Some((front, behind)) = packet.data_mut().split_first_chunk_mut()
        && let Some(behind) = behind.first_chunk_mut()
    {
        *front = first.to_ne_bytes();
        *behind = rest.to_ne_bytes();
    }
}

/// What is found for a frame: the place of its owner, which may be [`AS_IT_IS`]; a shared tag of which each
/// owner gets a copy ([`SEVERAL`]); or why it reaches nobody. If an owner has claimed it, its tag is off.
#[inline(always)]
pub(crate) fn owner(claims: &Snapshot, packet: &mut Packet) -> u32 {
    const TAGGED: usize = HEADER_LEN + vlan::HEADER_LEN;
    let Some(front) = packet.data().first_chunk::<TAGGED>() else { return short(claims, packet) };
    let [.., a, b, c, d, e, f] = *front;
    let tag = u32::from_be_bytes([a, b, c, d]);
    // VLANs are what most ports are shared by.
    if tag >> 16 == u32::from(ETHERTYPE_VLAN) {
        if claims.has_qinq && u16::from_be_bytes([e, f]) == ETHERTYPE_VLAN {
            return stacked(claims, packet);
        }
        let found = claims.vlan(tag as u16);
        if found >= AS_IT_IS {
            return shared_vlan(claims, packet, found);
        }
        close::<4>(packet);
        return found;
    }
    match (tag >> 16) as u16 {
        ETHERTYPE_QINQ | ETHERTYPE_QINQ_OLD => stacked(claims, packet),
        ETHERTYPE_MPLS if claims.has_mpls => labeled(claims, packet),
        ETHERTYPE_IPV4 if let Some(tunnel) = &claims.tunnel => tunneled(claims, tunnel, packet),
        _ => untagged(claims, packet),
    }
}

/// The owner of a frame that is shorter than one with a VLAN tag.
#[cold]
#[inline(never)]
fn short(claims: &Snapshot, packet: &Packet) -> u32 {
    match Ethernet::new(packet.data()).map(|header| header.ethertype()) {
        None | Some(ETHERTYPE_VLAN | ETHERTYPE_QINQ | ETHERTYPE_QINQ_OLD) => MALFORMED,
        Some(ETHERTYPE_MPLS) if claims.has_mpls => MALFORMED,
        Some(_) => untagged(claims, packet),
    }
}

/// The owner of a frame without a tag.
#[inline(always)]
fn untagged(claims: &Snapshot, packet: &Packet) -> u32 {
    let found = claims.vlan(0);
    if is_shared(found) { by_address(claims, packet.data(), found) } else { found }
}

/// Whether what was found for a tag is that it is shared.
#[inline(always)]
fn is_shared(found: u32) -> bool {
    (SEVERAL..NOBODY_TAG).contains(&found)
}

/// The owner of a frame whose tag is shared, or all of them.
#[inline]
fn by_address(claims: &Snapshot, frame: &[u8], found: u32) -> u32 {
    let Some(front) = frame.first_chunk() else { return MALFORMED };
    let dst = EtherAddr::from_bits(u64::from_be_bytes(*front) >> 16);
    if dst.is_group() { found } else { claims.by_address(found - SEVERAL, dst.to_bits()) }
}

/// The owner by what was found for the tag.
#[inline(always)]
fn resolve(claims: &Snapshot, frame: &[u8], found: u32) -> u32 {
    if is_shared(found) { by_address(claims, frame, found) } else { found }
}

/// Whether the frame has an owner that claimed it, or several.
#[inline(always)]
fn is_claimed(owner: u32) -> bool {
    owner < AS_IT_IS || (SEVERAL..MALFORMED).contains(&owner)
}

/// The owner of a frame with a VLAN tag, which does not belong to one owner alone.
#[inline(never)]
fn shared_vlan(claims: &Snapshot, packet: &mut Packet, found: u32) -> u32 {
    let owner = resolve(claims, packet.data(), found);
    if is_claimed(owner) {
        close::<4>(packet);
    }
    owner
}

/// The owner of a frame with two VLAN tags, or the first of these.
#[inline(never)]
fn stacked(claims: &Snapshot, packet: &mut Packet) -> u32 {
    const OUTER: usize = HEADER_LEN + vlan::HEADER_LEN;
    const TAGGED: usize = OUTER + vlan::HEADER_LEN;
    let frame = packet.data();
    let Some(outer) = frame.first_chunk::<OUTER>() else { return MALFORMED };
    if word(outer, 16) == ETHERTYPE_VLAN {
        let Some(front) = frame.first_chunk::<TAGGED>() else { return MALFORMED };
        let key = qinq_key(vlan::id(word(front, 14)), vlan::id(word(front, 18)));
        let found = claims.other(key);
        if !is_unclaimed(found) {
            let owner = resolve(claims, frame, found);
            if is_claimed(owner) {
                close::<8>(packet);
            }
            return owner;
        }
        if word(outer, ADDRESSES) != ETHERTYPE_VLAN {
            return found;
        }
    } else if word(outer, ADDRESSES) != ETHERTYPE_VLAN {
        return claims.other(0);
    }
    // The VLAN is claimed as it is, or is not: what it holds is the owner's.
    let found = claims.vlan(word(outer, 14));
    shared_vlan(claims, packet, found)
}

/// Whether nobody has claimed the tag.
#[inline]
fn is_unclaimed(found: u32) -> bool {
    found == NOBODY_TAG || (AS_IT_IS..SEVERAL).contains(&found)
}

/// The owner of a frame with an MPLS label.
#[inline(never)]
fn labeled(claims: &Snapshot, packet: &mut Packet) -> u32 {
    const TAGGED: usize = HEADER_LEN + LABEL_LEN;
    let frame = packet.data();
    let Some(&[.., a, b, c, d]) = frame.first_chunk::<TAGGED>() else { return MALFORMED };
    let entry = u32::from_be_bytes([a, b, c, d]);
    // A key that no tag has.
    let key = if entry & BOTTOM != 0 { mpls_key(entry >> 12) } else { 0 };
    let owner = resolve(claims, frame, claims.other(key));
    if is_claimed(owner) {
        let ethertype = match frame.get(TAGGED).map(|first| first >> 4) {
            Some(4) => ETHERTYPE_IPV4,
            Some(6) => ETHERTYPE_IPV6,
            _ => return MALFORMED,
        };
        if let Some([.., c, d]) = packet.data_mut().first_chunk_mut::<TAGGED>() {
            [*c, *d] = ethertype.to_be_bytes();
        }
        close::<4>(packet);
    }
    owner
}

/// What a datagram between the ends of a tunnel holds.
enum Tunneled {
    /// A frame of this network, from this byte on and this long.
    Frame(u32, usize, usize),
    /// Nothing that is valid.
    Malformed,
}

/// The owner of an IPv4 packet on a port that has a tunnel.
#[inline(never)]
fn tunneled(claims: &Snapshot, tunnel: &Tunnel, packet: &mut Packet) -> u32 {
    let (vni, at, len) = match arrived(tunnel, packet.data()) {
        None => return untagged(claims, packet),
        Some(Tunneled::Malformed) => return MALFORMED,
        Some(Tunneled::Frame(vni, at, len)) => (vni, at, len),
    };
    let inner = packet.data().get(at..).unwrap_or(&[]);
    let owner = resolve(claims, inner, claims.other(vni_key(vni)));
    if is_claimed(owner) {
        packet.narrow(at, len);
    }
    owner
}

/// What the tunnel brought; `None`: the packet is not the tunnel's.
fn arrived(tunnel: &Tunnel, frame: &[u8]) -> Option<Tunneled> {
    let (ethernet, packet) = Ethernet::split(frame)?;
    let ip = Ipv4::new(packet)?;
    let ends = (ip.src(), ip.dst()) == (tunnel.remote, tunnel.local);
    if !ends || ip.protocol() != protocol::UDP || ip.is_fragment() || ethernet.dst().is_group() {
        return None;
    }
    let datagram = packet.get(ip.header_len()..)?;
    if wire::Udp::new(datagram)?.dst_port() != tunnel.port {
        return None;
    }
    // It is for the tunnel; what is wrong from here on is malformed.
    Some(inner(packet).unwrap_or(Tunneled::Malformed))
}

/// The frame in a VXLAN packet; `None` if there is none.
fn inner(packet: &[u8]) -> Option<Tunneled> {
    let (header_len, total_len) = ipv4::check(packet, true).ok()?;
    let ip = Ipv4::new(packet)?;
    let datagram = UdpDatagram::parse(packet.get(header_len..total_len)?)?;
    let header = datagram.header();
    if header.checksum() != 0 && !datagram.verify_checksum(ip.pseudo_sum(header.length())) {
        return None;
    }
    let (vxlan, frame) = Vxlan::split(datagram.payload())?;
    if frame.len() < HEADER_LEN {
        return None;
    }
    let at = HEADER_LEN + header_len + udp::HEADER_LEN + vxlan::HEADER_LEN;
    Some(Tunneled::Frame(vxlan.vni()?, at, frame.len()))
}
