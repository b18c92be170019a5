//! # VXLANEncap
//! Puts Ethernet frames into UDP datagrams for the other end of a tunnel (VXLAN, RFC 7348).
//!
//! ## Synopsis
//! `VXLANEncap(VNI, SRC, DST [, MTU, TTL, TOS, PORT, CHECKSUM, VLAN])`
//!
//! ## Arguments
//! - `VNI` (*int*, 0 to 16777215): the network that the frames belong to.
//! - `SRC` (*IP address*): this end of the tunnel.
//! - `DST` (*IP address*): the other end.
//! - `MTU` (*int*, keyword, default 1500): the longest IP packet that the fabric carries, in bytes. A frame
//!   may be 36 bytes shorter.
//! - `TTL` (*int*, keyword, default 64), `TOS` (*int*, keyword, default 0): of the outer IP header.
//! - `PORT` (*UDP port*, keyword, default 4789): the destination port.
//! - `CHECKSUM` (*bool*, keyword, default false): whether to make a UDP checksum, which reads every byte of
//!   the frame. Without it, the field is 0, as RFC 7348 recommends.
//! - `VLAN` (*bool*, keyword, default false): whether frames keep their VLAN tags; else tags are taken off
//!   (RFC 7348 section 6.1).
//!
//! ## Ports
//! Input: frames with their Ethernet header. Output 0: IP packets with the header marked and the destination
//! annotation set to `DST`, for an ARPQuerier. Output 1, if connected: frames that do not fit. Agnostic.
//!
//! The outer packet must not be fragmented (RFC 7348 section 4.3): it has the "do not fragment" bit, and a
//! frame that is too long for `MTU` is not sent. The source port is between 49152 and 65535 and the same for
//! all packets of a flow: it is a hash of the frame's Ethernet addresses and its IP addresses and ports. Of
//! an internal frame of a cluster (its destination begins with `c2`) only the Ethernet addresses are hashed,
//! without the packet's sequence number.
//!
//! The outer header is not ECN-capable, so the fabric makes no congestion marks (RFC 6040 section 4.3).
//!
//! ## Handlers
//! - `vni`, `src`, `dst` (read): the arguments.
//! - `count` (read): frames that have been sent into the tunnel.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! FromDevice(net_null0) -> VXLANEncap(7, 192.168.0.1, 192.168.0.2, MTU 9000)
//!   -> arpq :: ARPQuerier(192.168.0.1, 2:0:0:0:0:1) -> Queue -> out :: ToDevice(net_null1);
//! FromDevice(net_null1) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
//! c [0] -> ARPResponder(192.168.0.1 2:0:0:0:0:1) -> Queue -> ToDevice(net_null1);
//! c [1] -> [1] arpq;
//! c [2] -> Strip(14) -> CheckIPHeader -> VXLANDecap(7 192.168.0.2) -> Queue -> ToDevice(net_null0);
//! ```
//!
//! ## See also
//! VXLANDecap, ARPQuerier, UDPIPEncap, EtherEncap

use crate::devices::engine::rss::{address_hash, flow_hash};
use crate::prelude::*;
use cluster::MacCode;
use lang::args::UdpPort;
use std::net::Ipv4Addr;
use std::sync::LazyLock;
use tables::toeplitz::{MICROSOFT_KEY, Toeplitz};
use wire::ethernet::{ETHERTYPE_QINQ, ETHERTYPE_VLAN};
use wire::{Ipv4, Udp, Vxlan, ethernet, ipv4, protocol, udp, vlan, vxlan};

/// The headers in front of a frame: IP, UDP and VXLAN.
const OUTER_LEN: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + vxlan::HEADER_LEN;

static FLOWS: LazyLock<Toeplitz> = LazyLock::new(|| Toeplitz::new(&MICROSOFT_KEY));

/// The `VXLANEncap` element.
pub struct VxlanEncap {
    vni: u32,
    /// The outer header except length and checksum.
    ip: Ipv4<[u8; ipv4::HEADER_LEN]>,
    port: u16,
    mtu: usize,
    checksum: bool,
    vlan: bool,
    flows: &'static Toeplitz,
    count: Counter,
}

impl Element for VxlanEncap {
    const CLASS: &'static str = "VXLANEncap";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] = &[
        drops::LONGER_THAN_THE_MTU.when("the packet would be, with the headers"),
        drops::TOO_SHORT_FOR_ETHERNET,
        drops::NO_ROOM_FOR_A_HEADER,
    ];
    const MANUAL: &'static str = manual!("ethernet/vxlanencap");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let vni: u32 = args.mp("VNI")?;
        let src: Ipv4Addr = args.mp("SRC")?;
        let dst: Ipv4Addr = args.mp("DST")?;
        let mtu: u16 = args.k_or("MTU", 1500)?;
        let ttl: u8 = args.k_or("TTL", 64)?;
        let tos: u8 = args.k_or("TOS", 0)?;
        let UdpPort(port) = args.k_or("PORT", UdpPort(vxlan::PORT))?;
        let checksum = args.k_or("CHECKSUM", false)?;
        let vlan = args.k_or("VLAN", false)?;
        if vni > vxlan::MAX_VNI {
            return Err(args.error(format!("VNI: out of range, bound {}", vxlan::MAX_VNI)));
        }
        if usize::from(mtu) < OUTER_LEN + ethernet::MIN_FRAME_LEN {
            let least = OUTER_LEN + ethernet::MIN_FRAME_LEN;
            return Err(args.error(format!("MTU: out of range, bound {least}")));
        }
        if ttl == 0 {
            return Err(args.error("TTL: out of range, bound 1"));
        }
        let mut ip = Ipv4::build(src, dst, protocol::UDP, 0);
        ip.set_ttl(ttl);
        ip.set_tos(tos);
        ip.set_dont_fragment(true);
        Ok(Self { vni, ip, port, mtu: mtu.into(), checksum, vlan, flows: &FLOWS, count: Counter::default() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("vni", |e| e.vni.to_string());
        h.read("src", |e| e.ip.src().to_string());
        h.read("dst", |e| e.ip.dst().to_string());
        h.counter("count", |e| &e.count);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

/// Removes VLAN tags from a frame; `None` if the frame ends within one.
#[inline]
fn untag(packet: &mut Packet) -> Option<()> {
    // A frame has a few stacked tags at most; further ones are treated as the frame's contents.
    for _ in 0..4 {
        let ethertype = packet.data().get(12..)?.first_chunk().map(|b| u16::from_be_bytes(*b))?;
        if !matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ) {
            break;
        }
        let front = packet.data_mut().first_chunk_mut::<{ ethernet::HEADER_LEN + vlan::HEADER_LEN }>()?;
        front.copy_within(..12, vlan::HEADER_LEN);
        packet.strip(vlan::HEADER_LEN);
    }
    Some(())
}

impl VxlanEncap {
    /// Prepares the frame and returns the source port of its flow; `None` if it is not a frame.
    #[inline]
    fn source_port(&self, packet: &mut Packet) -> Option<u16> {
        if packet.len() < ethernet::HEADER_LEN {
            return None;
        }
        let addresses: [u8; 12] = *packet.data().first_chunk()?;
        let internal = MacCode::is_internal(*addresses.first_chunk()?);
        let mut hash = address_hash(addresses, internal);
        if !internal {
            hash ^= flow_hash(self.flows, packet.data());
            if !self.vlan {
                untag(packet)?;
            }
        }
        Some(vxlan::src_port(hash))
    }

    /// Fills in the headers of a packet whose total length is `len` bytes.
    #[inline]
    fn write(&self, bytes: &mut [u8], len: u16, src_port: u16) -> Option<()> {
        let (head, datagram) = bytes.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        let mut ip = self.ip;
        ip.set_total_len(len);
        ip.fill_checksum();
        *head = *ip.bytes();
        let udp_len = len.checked_sub(ipv4::HEADER_LEN as u16)?;
        let (mut h, rest) = Udp::split_mut(datagram)?;
        h.set_src_port(src_port);
        h.set_dst_port(self.port);
        h.set_length(udp_len);
        h.set_checksum(0);
        *rest.first_chunk_mut()? = *Vxlan::build(self.vni).bytes();
        if self.checksum {
            udp::fill(ip.pseudo_sum(udp_len), datagram);
        }
        Some(())
    }
}

impl Simple for VxlanEncap {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(src_port) = self.source_port(&mut packet) else {
            cx.drop(packet, drops::NO_ETHERNET_HEADER);
            return None;
        };
        let len = packet.len() + OUTER_LEN;
        if len > self.mtu {
            cx.fail(packet, drops::LONGER_THAN_THE_MTU);
            return None;
        }
        let Some(mut packet) = packet.push(OUTER_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        self.write(packet.data_mut(), len as u16, src_port);
        packet.set_dst_ip(self.ip.dst().octets());
        packet.set_network_header(0, ipv4::HEADER_LEN);
        self.count.add(1);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::sound;
    use crate::testing::Bench;
    use dpdk::Packet;
    use wire::UdpDatagram;

    /// A frame that carries UDP from a port of its own.
    fn frame(sport: u16) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        let mut ip = wire::Ipv4::build([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 12);
        ip.fill_checksum();
        f.extend_from_slice(ip.bytes());
        f.extend_from_slice(&sport.to_be_bytes());
        f.extend_from_slice(&[0, 9, 0, 12, 0, 0, b'd', b'a', b't', b'a']);
        f
    }

    fn port(packet: &[u8]) -> u16 {
        u16::from_be_bytes([packet[20], packet[21]])
    }

    #[test]
    fn puts_headers_in_front() {
        let mut bench = Bench::with_ports("VXLANEncap(0x123456, 192.0.2.1, 192.0.2.2, TTL 9)", 1, 1);
        let out = bench.send(0, Packet::from_bytes(&frame(7)).unwrap()).remove(0).1;
        let b = out.data();
        // 46 bytes of frame and 36 of headers; do not fragment; no UDP checksum.
        assert_eq!(b[..10], [0x45, 0, 0, 82, 0, 0, 0x40, 0, 9, 17]);
        assert_eq!(b[12..20], [192, 0, 2, 1, 192, 0, 2, 2]);
        assert_eq!(b[22..36], [0x12, 0xb5, 0, 62, 0, 0, 8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(b[36..], frame(7));
        assert!(sound(b) && port(b) >= 49152);
        assert_eq!((out.dst_ip(), out.network_header_offset()), ([192, 0, 2, 2], Some(0)));
        assert_eq!((bench.read("count"), bench.read("vni")), ("1".into(), "1193046".into()));
        assert_eq!((bench.read("src"), bench.read("dst")), ("192.0.2.1".into(), "192.0.2.2".into()));
    }

    #[test]
    fn a_checksum_is_made_where_one_is_asked_for() {
        let mut bench =
            Bench::with_ports("VXLANEncap(7, 192.0.2.1, 192.0.2.2, CHECKSUM true, PORT 8472)", 1, 1);
        for odd in 0..2 {
            let mut f = frame(1);
            f.extend(vec![0xee; odd]);
            let out = bench.push(0, &f).remove(0).1;
            let ip = wire::Ipv4Packet::parse(&out).unwrap();
            let udp = UdpDatagram::parse(ip.payload()).unwrap();
            assert_eq!(udp.header().dst_port(), 8472);
            assert!(udp.header().checksum() != 0 && udp.verify_checksum(ip.pseudo_sum()));
        }
    }

    #[test]
    fn the_source_port_is_the_flows() {
        let mut bench = Bench::with_ports("VXLANEncap(7, 192.0.2.1, 192.0.2.2)", 1, 1);
        let mut ports: Vec<u16> = (0..200).map(|flow| port(&bench.push(0, &frame(flow))[0].1)).collect();
        assert_eq!(port(&bench.push(0, &frame(0))[0].1), ports[0]);
        ports.sort_unstable();
        ports.dedup();
        assert!(ports.len() > 190 && ports[0] >= 49152, "{} ports", ports.len());
        // Other payload, same flow.
        let mut other = frame(3);
        *other.last_mut().unwrap() = 0;
        assert_eq!(port(&bench.push(0, &other)[0].1), port(&bench.push(0, &frame(3))[0].1));
    }

    #[test]
    fn of_internal_frames_only_the_addresses_are_read() {
        let mut bench = Bench::with_ports("VXLANEncap(7, 192.0.2.1, 192.0.2.2)", 1, 1);
        // Output node 2, port 1, next hop 5; from node 0x123, the packet's number in its stream.
        let internal = |hop: u8, node: u8, number: u8, rest: &[u8]| {
            let head = [0xc2, 0, 2, 1, 0, hop, 0xc6, 0x12, node << 4 | number, number, number, number, 8, 0];
            [&head[..], rest].concat()
        };
        let first = port(&bench.push(0, &internal(5, 3, 0, &frame(1)))[0].1);
        for number in 0..16 {
            for rest in [&[][..], &[0x81, 0, 0, 7], &frame(u16::from(number))] {
                let out = bench.push(0, &internal(5, 3, number, rest)).remove(0).1;
                assert_eq!(port(&out), first);
                assert_eq!(out[36..], internal(5, 3, number, rest));
            }
        }
        let others = [internal(6, 3, 0, &[]), internal(5, 4, 0, &[])];
        assert!(others.iter().all(|f| port(&bench.push(0, f)[0].1) != first));
    }

    /// The test fails if a byte after the addresses is read: there is none. Encapsulation, then
    /// decapsulation.
    #[test]
    fn internal_frames_are_not_read_behind_their_addresses() {
        let mut bench = Bench::with_ports("VXLANEncap(7, 10.0.0.1, 192.0.2.2, MTU 9000)", 1, 1);
        let head = [0xc2, 0, 2, 1, 0, 5, 0xc6, 0x12, 0x30, 0, 0, 1];
        let out = bench.send(0, Packet::guarded(&head, 1500).unwrap()).remove(0).1;
        let front = out.data()[..48].to_vec();
        assert_eq!((out.len(), &front[36..]), (1536, &head[..]));
        let mut back = Bench::with_ports("VXLANDecap(7 10.0.0.1)", 1, 1);
        let mut packet = Packet::guarded(&front, 1536).unwrap();
        packet.set_network_header(0, 20);
        let out = back.send(0, packet).remove(0).1;
        assert_eq!((out.len(), &out.data()[..12]), (1500, &head[..]));
    }

    #[test]
    fn tags_stay_only_if_they_shall() {
        let tagged = |tags: &[u8]| [&[2; 12], tags, &[8, 0, 0x45, 0]].concat();
        let (one, two) = ([0x81, 0, 0, 7], [0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]);
        let mut bench = Bench::with_ports("VXLANEncap(7, 192.0.2.1, 192.0.2.2)", 1, 1);
        for tags in [&one[..], &two[..]] {
            assert_eq!(bench.push(0, &tagged(tags))[0].1[36..], tagged(&[]));
        }
        let mut keeps = Bench::with_ports("VXLANEncap(7, 192.0.2.1, 192.0.2.2, VLAN true)", 1, 1);
        assert_eq!(keeps.push(0, &tagged(&two))[0].1[36..], tagged(&two));
        assert!(bench.push(0, &tagged(&two)[..15]).is_empty());
        assert_eq!(bench.drops(), [("no Ethernet header".to_owned(), 1)]);
    }

    #[test]
    fn what_does_not_fit_or_is_no_frame_stays() {
        let mut bench = Bench::with_ports("VXLANEncap(7, 192.0.2.1, 192.0.2.2)", 1, 1);
        let long = |n: usize| [&frame(1)[..], &vec![0; n]].concat();
        let fits = 1500 - 36 - frame(1).len();
        assert_eq!(bench.push(0, &long(fits))[0].1.len(), 1500);
        assert!(bench.push(0, &long(fits + 1)).is_empty());
        assert!(bench.push(0, &frame(1)[..13]).is_empty() && bench.push(0, &[]).is_empty());
        let drops = [("longer than the MTU".to_owned(), 1), ("no Ethernet header".to_owned(), 2)];
        assert_eq!(bench.drops(), drops);
        let mut second = Bench::with_ports("VXLANEncap(7, 192.0.2.1, 192.0.2.2, MTU 1000)", 1, 2);
        let out = second.push(0, &long(fits)).remove(0);
        assert_eq!((out.0, out.1), (1, long(fits)));
    }

    #[test]
    fn wrong_arguments() {
        for (arguments, says) in [
            ("16777216, 1.0.0.1, 1.0.0.2", "VNI: out of range, bound 16777215"),
            ("7, 1.0.0.1, 1.0.0.2, MTU 95", "MTU: out of range, bound 96"),
            ("7, 1.0.0.1, 1.0.0.2, TTL 0", "TTL: out of range"),
            ("7, 1.0.0.1", "DST"),
        ] {
            let error = Bench::error(&format!("VXLANEncap({arguments})"));
            assert!(error.contains(says), "{error}");
        }
    }
}
