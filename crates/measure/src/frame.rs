//! Frames from a template: Ethernet, IP, UDP and a [`tag`], padded with zeros to their length.
//!
//! The common part of all frames is written and its checksum computed once; the common part of a flow's
//! frames, once for each flow. A frame then costs a copy of the template and a dozen adds: both checksums are
//! right whatever its length, flow, number and time.

use crate::flows::{Address, Tuple};
use crate::tag;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::checksum::{combine, fold, sum_array};
use wire::{EtherAddr, Ethernet, Ipv4, Ipv6, Udp, checksum, ethernet, ipv4, ipv6, protocol, udp};

/// The operations of an IP version that making frames needs.
pub trait Family: Address + Sized {
    /// Bytes before the tag.
    const HEADERS: usize;
    /// The shortest frame.
    const SHORTEST: usize;
    /// EtherType.
    const ETHERTYPE: u16;
    /// Writes the IP header that all frames share, with no addresses and no payload.
    fn header(bytes: &mut [u8], hops: u8);
    /// One's complement sum of an address.
    fn sum(self) -> u16;
    /// Sum of the common header that the header checksum covers (0: the version has no header checksum).
    fn header_sum(bytes: &[u8]) -> u16;
    /// Writes a flow and a length into the IP header and returns what follows it.
    fn stamp<'a>(bytes: &'a mut [u8], flow: &Flow<Self>, header_sum: u16) -> Option<&'a mut [u8]>;
}

/// A flow with the sums that its frames need.
#[derive(Clone, Copy, Debug)]
pub struct Flow<A> {
    src: A,
    dst: A,
    sport: u16,
    dport: u16,
    /// Sum of both addresses.
    addresses: u16,
    /// Sum of addresses, ports, and the flow's identity in the tag.
    all: u16,
    identity: u32,
    /// The sequence number of its next frame.
    pub seq: u32,
}

impl<A: Family> Flow<A> {
    /// A flow with these addresses and ports, and this [`tag::identity`].
    #[must_use]
    pub fn new(tuple: &Tuple<A>, identity: u32) -> Self {
        let addresses = combine(tuple.src.sum(), tuple.dst.sum());
        let ports = combine(tuple.sport, tuple.dport);
        let all = combine(combine(addresses, ports), words(identity));
        Self {
            src: tuple.src,
            dst: tuple.dst,
            sport: tuple.sport,
            dport: tuple.dport,
            addresses,
            all,
            identity,
            seq: 0,
        }
    }
    /// Its addresses and ports.
    #[must_use]
    pub fn tuple(&self) -> Tuple<A> {
        Tuple { src: self.src, dst: self.dst, sport: self.sport, dport: self.dport }
    }
    /// Its number among the flows of its stream.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.identity & (tag::MAX_FLOWS - 1)
    }
    /// The destination.
    #[must_use]
    pub fn dst(&self) -> A {
        self.dst
    }
}

/// Sum of a number's 16-bit words.
#[inline(always)]
const fn words(n: u32) -> u16 {
    combine((n >> 16) as u16, n as u16)
}

/// A time, with its sum.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    ns: u64,
    sum: u16,
}

impl Stamp {
    /// The time at which frames are sent, in nanoseconds.
    #[inline]
    #[must_use]
    pub const fn new(ns: u64) -> Self {
        Self { ns, sum: fold((ns >> 32) as u16 as u32 + (ns >> 16) as u16 as u32 + ns as u16 as u32) }
    }
}

/// The common part of all frames of a sender.
#[derive(Clone, Debug)]
pub struct Template<A> {
    bytes: Box<[u8]>,
    header_sum: u16,
    /// Sum of the fields under UDP's checksum that are the same in every frame: protocol and magic.
    udp_sum: u16,
    of: std::marker::PhantomData<A>,
}

impl<A: Family> Template<A> {
    /// A template for frames of up to `longest` bytes.
    #[must_use]
    pub fn new(src: EtherAddr, dst: EtherAddr, hops: u8, longest: usize) -> Self {
        let mut bytes = vec![0; longest.max(A::SHORTEST)].into_boxed_slice();
        let mut header_sum = 0;
        if let Some((front, rest)) = bytes.split_first_chunk_mut::<{ ethernet::HEADER_LEN }>() {
            *front = *Ethernet::build(dst, src, A::ETHERTYPE).bytes();
            A::header(rest, hops);
            header_sum = A::header_sum(rest);
        }
        let magic = [words(u32::from_be_bytes(tag::MAGIC)), u16::from(protocol::UDP)];
        Self { bytes, header_sum, udp_sum: combine(magic[0], magic[1]), of: std::marker::PhantomData }
    }

    /// The bytes to begin a frame of `len` bytes with; shorter if the template is.
    #[inline]
    #[must_use]
    pub fn bytes(&self, len: usize) -> &[u8] {
        self.bytes.get(..len).unwrap_or(&self.bytes)
    }

    /// Makes a copy of [`Template::bytes`] the next frame of a flow. `false`, and no frame, if it is too
    /// short to be one.
    #[inline]
    pub fn stamp(&self, frame: &mut [u8], flow: &mut Flow<A>, time: Stamp) -> bool {
        let Some((_, packet)) = frame.split_first_chunk_mut::<{ ethernet::HEADER_LEN }>() else {
            return false;
        };
        let Some(datagram) = A::stamp(packet, flow, self.header_sum) else { return false };
        let len = datagram.len() as u16;
        let Some((mut header, payload)) = Udp::split_mut(datagram) else { return false };
        let Some(place) = payload.first_chunk_mut::<{ tag::LEN }>() else { return false };
        // The length is in the pseudo-header and in the header.
        let sum = u32::from(self.udp_sum)
            + u32::from(flow.all)
            + 2 * u32::from(len)
            + (flow.seq >> 16)
            + (flow.seq & 0xffff)
            + u32::from(time.sum);
        let check = !fold(sum);
        header.set_src_port(flow.sport);
        header.set_dst_port(flow.dport);
        header.set_length(len);
        header.set_checksum(if check == 0 { 0xffff } else { check });
        *place = tag::bytes(flow.identity, flow.seq, time.ns);
        flow.seq = flow.seq.wrapping_add(1);
        true
    }
}

impl Family for Ipv4Addr {
    const HEADERS: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
    const SHORTEST: usize = Self::HEADERS + tag::LEN;
    const ETHERTYPE: u16 = ethernet::ETHERTYPE_IPV4;
    fn header(bytes: &mut [u8], hops: u8) {
        if let Some(place) = bytes.first_chunk_mut() {
            let mut header = Ipv4::build(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, protocol::UDP, 0);
            header.set_ttl(hops);
            header.set_dont_fragment(true);
            header.set_total_len(0);
            header.set_checksum(0);
            *place = *header.bytes();
        }
    }
    fn sum(self) -> u16 {
        words(self.to_bits())
    }
    fn header_sum(bytes: &[u8]) -> u16 {
        bytes.first_chunk::<{ ipv4::HEADER_LEN }>().map_or(0, sum_array)
    }
    #[inline]
    fn stamp<'a>(bytes: &'a mut [u8], flow: &Flow<Self>, header_sum: u16) -> Option<&'a mut [u8]> {
        let len = bytes.len() as u16;
        let (mut header, rest) = Ipv4::split_mut(bytes)?;
        header.set_total_len(len);
        header.set_src(flow.src);
        header.set_dst(flow.dst);
        header.set_checksum(!fold(u32::from(header_sum) + u32::from(flow.addresses) + u32::from(len)));
        Some(rest)
    }
}

impl Family for Ipv6Addr {
    const HEADERS: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + udp::HEADER_LEN;
    const SHORTEST: usize = Self::HEADERS + tag::LEN;
    const ETHERTYPE: u16 = ethernet::ETHERTYPE_IPV6;
    fn header(bytes: &mut [u8], hops: u8) {
        if let Some(mut header) = Ipv6::new_mut(bytes) {
            header.set_version_class_flow(6 << 28);
            header.set_next_header(protocol::UDP);
            header.set_hop_limit(hops);
        }
    }
    fn sum(self) -> u16 {
        checksum::sum(&self.octets())
    }
    fn header_sum(_: &[u8]) -> u16 {
        0
    }
    #[inline]
    fn stamp<'a>(bytes: &'a mut [u8], flow: &Flow<Self>, _: u16) -> Option<&'a mut [u8]> {
        let (mut header, rest) = Ipv6::split_mut(bytes)?;
        header.set_payload_len(rest.len() as u16);
        header.set_src(flow.src);
        header.set_dst(flow.dst);
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::Tag;
    use proptest::prelude::*;
    use wire::{Ipv4Packet, UdpDatagram};

    const SRC: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const DST: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 2]);

    fn make<A: Family>(tuple: &Tuple<A>, identity: u32, seq: u32, ns: u64, len: usize) -> Vec<u8> {
        let template = Template::<A>::new(SRC, DST, 17, len.max(500));
        let mut flow = Flow::new(tuple, identity);
        flow.seq = seq;
        let mut frame = template.bytes(len).to_vec();
        assert!(template.stamp(&mut frame, &mut flow, Stamp::new(ns)));
        assert_eq!(flow.seq, seq.wrapping_add(1));
        frame
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ipv4_frames_are_right(src: u32, dst: u32, sport: u16, dport: u16, identity: u32, seq: u32, ns: u64, len in 60usize..2000) {
            let tuple = Tuple { src: Ipv4Addr::from_bits(src), dst: Ipv4Addr::from_bits(dst), sport, dport };
            let frame = make(&tuple, identity, seq, ns, len);
            let (eth, packet) = Ethernet::split(&frame).unwrap();
            prop_assert_eq!((eth.src(), eth.dst(), eth.ethertype()), (SRC, DST, 0x800));
            let ip = Ipv4Packet::parse(packet).unwrap();
            prop_assert!(ip.verify_checksum() && ip.header().ttl() == 17 && ip.header().dont_fragment());
            prop_assert_eq!((ip.header().src(), ip.header().dst(), usize::from(ip.header().total_len())), (tuple.src, tuple.dst, len - 14));
            let datagram = UdpDatagram::parse(ip.payload()).unwrap();
            prop_assert!(datagram.header().checksum() != 0 && datagram.verify_checksum(ip.pseudo_sum()));
            prop_assert_eq!((datagram.header().src_port(), datagram.header().dst_port()), (sport, dport));
            prop_assert_eq!(datagram.payload().len(), len - 42);
            let tag = Tag::read(datagram.payload()).unwrap();
            prop_assert_eq!((tag::identity(tag.run, tag.stream, tag.flow), tag.seq, tag.age_ns(ns)), (identity, seq, Some(0)));
        }

        #[test]
        fn ipv6_frames_are_right(src: u128, dst: u128, sport: u16, dport: u16, identity: u32, seq: u32, ns: u64, len in 80usize..2000) {
            let tuple = Tuple { src: Ipv6Addr::from_bits(src), dst: Ipv6Addr::from_bits(dst), sport, dport };
            let frame = make(&tuple, identity, seq, ns, len);
            let (eth, packet) = Ethernet::split(&frame).unwrap();
            prop_assert_eq!(eth.ethertype(), 0x86dd);
            let (ip, rest) = Ipv6::split(packet).unwrap();
            prop_assert_eq!((ip.version(), ip.hop_limit(), ip.src(), ip.dst()), (6, 17, tuple.src, tuple.dst));
            prop_assert_eq!(usize::from(ip.payload_len()), len - 54);
            let datagram = UdpDatagram::parse(rest).unwrap();
            prop_assert!(datagram.header().checksum() != 0 && datagram.verify_checksum(ip.pseudo_sum(rest.len() as u32)));
            prop_assert_eq!((datagram.header().src_port(), datagram.header().dst_port()), (sport, dport));
            prop_assert!(Tag::read(datagram.payload()).is_some_and(|tag| tag.seq == seq));
        }
    }

    #[test]
    fn frames_that_are_too_short_are_refused() {
        let tuple = Tuple { src: Ipv4Addr::LOCALHOST, dst: Ipv4Addr::LOCALHOST, sport: 1, dport: 2 };
        let template = Template::<Ipv4Addr>::new(SRC, DST, 64, 60);
        let mut flow = Flow::new(&tuple, 0);
        for len in 0..60 {
            assert!(!template.stamp(&mut template.bytes(len).to_vec(), &mut flow, Stamp::new(0)));
        }
        assert_eq!((flow.seq, template.bytes(99).len()), (0, 60));
        assert_eq!((<Ipv4Addr as Family>::SHORTEST, <Ipv6Addr as Family>::SHORTEST), (60, 80));
    }
}
