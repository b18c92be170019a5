//! The tag of a virtual interface put on what its owner sends.

use crate::frame::{BOTTOM, LABEL_LEN};
use crate::tag::{Error, Tag};
use crate::tunnel::Tunnel;
use dpdk::{Batch, Packet};
use std::net::Ipv4Addr;
use wire::ethernet::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_QINQ, ETHERTYPE_VLAN, HEADER_LEN,
};
use wire::{Ethernet, Ipv4, Ipv6, Udp, Vxlan, checksum, ipv4, protocol, udp, vlan, vxlan};

/// Bytes of both addresses.
const ADDRESSES: usize = 12;
/// The time to live of labels that are sent.
const LABEL_TTL: u32 = 64;
/// The headers in front of a frame in a tunnel.
const OUTER_LEN: usize = HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN + vxlan::HEADER_LEN;

/// How many packets were freed because no tag could be put on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Shorter than an Ethernet header, or too long for an IPv4 packet around it.
    pub malformed: u64,
    /// Neither IPv4 nor IPv6, which is all that a label can be in front of (ARP, for example).
    pub not_ip: u64,
    /// No headroom, and no buffer to copy the packet to.
    pub no_buffer: u64,
}

impl Unsent {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.malformed + self.not_ip + self.no_buffer
    }
}

/// What is put on the frames of a virtual interface.
#[derive(Clone, Debug)]
pub struct Encap(Kind);

#[derive(Clone, Debug)]
enum Kind {
    None,
    /// Between addresses and EtherType.
    Vlan([u8; 4]),
    Qinq([u8; 8]),
    /// The new EtherType and the label; the old EtherType goes.
    Mpls([u8; 2 + LABEL_LEN]),
    Vxlan(Box<Vni>),
}

/// The headers of a tunnel's network.
#[derive(Clone, Debug)]
struct Vni {
    ethernet: [u8; HEADER_LEN],
    /// Without length and checksum.
    ip: Ipv4<[u8; ipv4::HEADER_LEN]>,
    /// The sum of `ip`, folded.
    sum: u16,
    port: u16,
    vxlan: [u8; vxlan::HEADER_LEN],
    checksum: bool,
}

/// Why no tag was put on.
enum Failed {
    Malformed,
    NotIp,
    NoRoom,
}

impl Encap {
    /// What puts this tag on; the tunnel is that of the port.
    pub fn new(tag: Tag, tunnel: Option<Tunnel>) -> Result<Encap, Error> {
        tag.check()?;
        Ok(Encap(match tag {
            Tag::None => Kind::None,
            Tag::Vlan(id) => Kind::Vlan(vlan_tag(ETHERTYPE_VLAN, id)),
            Tag::Qinq(outer, inner) => {
                let [a, b, c, d] = vlan_tag(ETHERTYPE_QINQ, outer);
                let [e, f, g, h] = vlan_tag(ETHERTYPE_VLAN, inner);
                Kind::Qinq([a, b, c, d, e, f, g, h])
            }
            Tag::Mpls(label) => {
                let [a, b] = ETHERTYPE_MPLS.to_be_bytes();
                let [c, d, e, f] = (label << 12 | BOTTOM | LABEL_TTL).to_be_bytes();
                Kind::Mpls([a, b, c, d, e, f])
            }
            Tag::Vni(vni) => Kind::Vxlan(Box::new(Vni::new(vni, tunnel.ok_or(Error::NoTunnel(tag))?))),
        }))
    }

    /// Bytes by which a frame becomes longer.
    pub fn added_len(&self) -> usize {
        match &self.0 {
            Kind::None => 0,
            Kind::Vlan(_) | Kind::Mpls(_) => 4,
            Kind::Qinq(_) => 8,
            Kind::Vxlan(_) => OUTER_LEN,
        }
    }

    /// Puts the tag on all packets, whose data begins at the Ethernet header. Those on which it cannot be put
    /// are freed; the others keep their order. Returns how many were freed, and why.
    #[inline]
    pub fn put_on(&self, batch: &mut Batch) -> Unsent {
        match &self.0 {
            Kind::None => Unsent::default(),
            Kind::Vlan(tag) => each(batch, 4, |packet| open::<4, 16>(packet, tag)),
            Kind::Qinq(tag) => each(batch, 8, |packet| open::<8, 20>(packet, tag)),
            Kind::Mpls(label) => each(batch, LABEL_LEN, |packet| labeled(packet, label)),
            Kind::Vxlan(vni) => each(batch, OUTER_LEN, |packet| vni.put_on(packet)),
        }
    }
}

fn vlan_tag(ethertype: u16, id: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (ethertype.to_be_bytes(), vlan::tci(0, false, id).to_be_bytes());
    [a, b, c, d]
}

/// Does `f` with each packet; one without `room` bytes of headroom is copied first.
#[inline(always)]
fn each(batch: &mut Batch, room: usize, f: impl Fn(&mut Packet) -> Result<(), Failed>) -> Unsent {
    let mut unsent = Unsent::default();
    batch.filter_map_in_place(|mut packet| {
        let mut result = f(&mut packet);
        if let Err(Failed::NoRoom) = result {
            packet = match with_headroom(packet, room) {
                Some(moved) => moved,
                None => {
                    unsent.no_buffer += 1;
                    return None;
                }
            };
            result = f(&mut packet);
        }
        match result {
            Ok(()) => return Some(packet),
            Err(Failed::Malformed) => unsent.malformed += 1,
            Err(Failed::NotIp) => unsent.not_ip += 1,
            Err(Failed::NoRoom) => unsent.no_buffer += 1,
        }
        None
    });
    unsent
}

/// The packet, moved to a buffer with that headroom.
#[cold]
fn with_headroom(packet: Packet, room: usize) -> Option<Packet> {
    let mut packet = packet.push(room)?;
    packet.strip(room).then_some(packet)
}

/// Puts `N` bytes behind the addresses; `M` is 12 more.
#[inline(always)]
fn open<const N: usize, const M: usize>(packet: &mut Packet, tag: &[u8; N]) -> Result<(), Failed> {
    if packet.len() < HEADER_LEN {
        return Err(Failed::Malformed);
    }
    if !packet.push_in_place(N) {
        return Err(Failed::NoRoom);
    }
    if let Some(front) = packet.data_mut().first_chunk_mut::<M>() {
        front.copy_within(N.., 0);
        front[ADDRESSES..].copy_from_slice(tag);
    }
    Ok(())
}

/// Puts a label in front of the IP header.
#[inline(always)]
fn labeled(packet: &mut Packet, label: &[u8; 2 + LABEL_LEN]) -> Result<(), Failed> {
    let Some(header) = Ethernet::new(packet.data()) else { return Err(Failed::Malformed) };
    let version = packet.data().get(HEADER_LEN).map(|first| first >> 4);
    match (header.ethertype(), version) {
        (ETHERTYPE_IPV4, Some(4)) | (ETHERTYPE_IPV6, Some(6)) => (),
        _ => return Err(Failed::NotIp),
    }
    if !packet.push_in_place(LABEL_LEN) {
        return Err(Failed::NoRoom);
    }
    if let Some(front) = packet.data_mut().first_chunk_mut::<{ HEADER_LEN + LABEL_LEN }>() {
        front.copy_within(LABEL_LEN..LABEL_LEN + ADDRESSES, 0);
        front[ADDRESSES..].copy_from_slice(label);
    }
    Ok(())
}

impl Vni {
    fn new(vni: u32, tunnel: Tunnel) -> Vni {
        let ethernet = Ethernet::build(tunnel.remote_mac.into(), tunnel.local_mac.into(), ETHERTYPE_IPV4);
        let mut ip = Ipv4::build(tunnel.local, tunnel.remote, protocol::UDP, 0);
        ip.set_ttl(tunnel.ttl);
        ip.set_dont_fragment(true);
        ip.set_total_len(0);
        ip.set_checksum(0);
        Vni {
            ethernet: *ethernet.bytes(),
            sum: checksum::sum_array(ip.bytes()),
            ip,
            port: tunnel.port,
            vxlan: *Vxlan::build(vni).bytes(),
            checksum: tunnel.checksum,
        }
    }

    #[inline]
    fn put_on(&self, packet: &mut Packet) -> Result<(), Failed> {
        let len = packet.len() + OUTER_LEN - HEADER_LEN;
        let Ok(ip_len) = u16::try_from(len) else { return Err(Failed::Malformed) };
        if packet.len() < HEADER_LEN {
            return Err(Failed::Malformed);
        }
        let src_port = vxlan::src_port(flow_hash(packet.data()));
        if !packet.push_in_place(OUTER_LEN) {
            return Err(Failed::NoRoom);
        }
        self.write(packet.data_mut(), ip_len, src_port).ok_or(Failed::Malformed)
    }

    /// Fills in the headers.
    #[inline]
    fn write(&self, bytes: &mut [u8], ip_len: u16, src_port: u16) -> Option<()> {
        let (ethernet, packet) = bytes.split_first_chunk_mut::<HEADER_LEN>()?;
        *ethernet = self.ethernet;
        let (header, datagram) = packet.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        let mut ip = self.ip;
        ip.set_total_len(ip_len);
        ip.set_checksum(!checksum::combine(self.sum, ip_len));
        *header = *ip.bytes();
        let udp_len = ip_len.checked_sub(ipv4::HEADER_LEN as u16)?;
        let (mut h, rest) = Udp::split_mut(datagram)?;
        h.set_src_port(src_port);
        h.set_dst_port(self.port);
        h.set_length(udp_len);
        h.set_checksum(0);
        *rest.first_chunk_mut()? = self.vxlan;
        if self.checksum {
            udp::fill(ip.pseudo_sum(udp_len), datagram);
        }
        Some(())
    }
}

/// A hash of the flow that a frame belongs to: of its IP addresses, protocol and ports, else of its Ethernet
/// addresses. The packets of a flow have one hash, so that the networks between the ends of a tunnel keep
/// their order and yet spread flows.
fn flow_hash(frame: &[u8]) -> u32 {
    let mix = |hash: u64, word: u64| {
        let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 32
    };
    let address = |a: Ipv4Addr| u64::from(a.to_bits());
    let ports = |bytes: Option<&[u8]>| {
        let ports = bytes.and_then(|b| b.first_chunk::<4>()).copied();
        u64::from(u32::from_ne_bytes(ports.unwrap_or_default()))
    };
    let has_ports = |p: u8| matches!(p, protocol::TCP | protocol::UDP);
    let Some((ethernet, packet)) = Ethernet::split(frame) else { return 0 };
    if ethernet.ethertype() == ETHERTYPE_IPV4
        && let Some(ip) = Ipv4::new(packet)
    {
        let hash = mix(mix(0, address(ip.src()) << 32 | address(ip.dst())), ip.protocol().into());
        // All fragments of a packet go the same way; only the first one has ports.
        if has_ports(ip.protocol()) && !ip.is_fragment() {
            return (mix(hash, ports(packet.get(ip.header_len()..))) >> 16) as u32;
        }
        return (hash >> 16) as u32;
    }
    if ethernet.ethertype() == ETHERTYPE_IPV6
        && let Some((ip, rest)) = Ipv6::split(packet)
    {
        let halves = |a: u128| mix(mix(1, (a >> 64) as u64), a as u64);
        let hash = mix(mix(halves(ip.src().to_bits()), halves(ip.dst().to_bits())), ip.next_header().into());
        let hash = if has_ports(ip.next_header()) { mix(hash, ports(Some(rest))) } else { hash };
        return (hash >> 16) as u32;
    }
    (mix(mix(2, ethernet.dst().to_bits()), ethernet.src().to_bits()) >> 16) as u32
}
