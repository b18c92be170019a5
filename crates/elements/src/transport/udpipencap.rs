//! # UDPIPEncap
//! Puts a UDP and an IP header in front of packets.
//!
//! ## Synopsis
//! `UDPIPEncap(SRC, SPORT, DST, DPORT, [CHECKSUM])`
//!
//! ## Arguments
//! - `SRC` (*IP address*): the source address.
//! - `SPORT` (*UDP port*, number or name): the source port.
//! - `DST` (*IP address*, or `DST_ANNO`): the destination address; with `DST_ANNO` each packet's destination
//!   annotation.
//! - `DPORT` (*UDP port*, number or name): the destination port.
//! - `CHECKSUM` (*bool*, default true): whether to compute the UDP checksum.
//!
//! ## Ports
//! One input, one output; agnostic. The IP header is marked, and the destination annotation set to `DST`. The
//! TTL is 250. Identifications count up by one from packet to packet, from 0; with N workers, each uses every
//! N-th one.
//!
//! ## Handlers
//! - `src` (read/write): the `SRC` argument.
//! - `sport` (read/write): the `SPORT` argument.
//! - `dst` (read/write): the `DST` argument; 0.0.0.0 is read for `DST_ANNO`.
//! - `dport` (read/write): the `DPORT` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true)
//!   -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234)
//!   -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! Strip, IPEncap, SetUDPChecksum, ICMPPingEncap

use crate::ip::engine::arguments::{BAD_DST, destination};
use crate::plumbing::engine::text::read;
use crate::prelude::*;
use lang::args::{Raw, UdpPort};
use std::net::Ipv4Addr;
use wire::{Ipv4, Udp, ipv4, protocol, udp};

const TTL: u8 = 250;
const HEADERS_LEN: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;

/// The `UDPIPEncap` element.
pub struct UDPIPEncap {
    src: Ipv4Addr,
    sport: u16,
    /// The destination, unless it is the annotation.
    dst: Option<Ipv4Addr>,
    dport: u16,
    checksum: bool,
    id: u16,
    workers: u16,
}

/// Why packets are dropped.
pub(super) const CASES: [DropCase; 2] =
    [drops::PACKET_TOO_LONG.when("more than 65535 bytes with the headers"), drops::NO_ROOM_FOR_A_HEADER];

impl Element for UDPIPEncap {
    const CLASS: &'static str = "UDPIPEncap";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DST_IP;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::IP_HEADERS);
    const SETS: Fields = Fields::DST_IP.with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] = &CASES;
    const MANUAL: &'static str = manual!("transport/udpipencap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let src = args.mp("SRC")?;
        let UdpPort(sport) = args.mp("SPORT")?;
        let Raw(dst) = args.mp("DST")?;
        let UdpPort(dport) = args.mp("DPORT")?;
        let checksum = args.p("CHECKSUM")?.unwrap_or(true);
        let dst = destination(&dst, args.names(), BAD_DST).map_err(|e| args.error(e))?;
        Ok(Self::new((src, sport), (dst, dport), checksum, cx))
    }

    fn handlers(h: &mut Handlers<Self>) {
        fn port(text: &str) -> Result<u16, String> {
            read::<UdpPort>(text).map(|p| p.0)
        }
        h.read("src", |e| e.src.to_string());
        h.write("src", |e, v, _| {
            e.src = read(v).map_err(|e| format!("SRC: {e}"))?;
            Ok(())
        });
        h.read("sport", |e| e.sport.to_string());
        h.write("sport", |e, v, _| {
            e.sport = port(v).map_err(|e| format!("SPORT: {e}"))?;
            Ok(())
        });
        h.read("dst", |e| e.dst.unwrap_or(Ipv4Addr::UNSPECIFIED).to_string());
        h.write("dst", |e, v, _| {
            e.dst = destination(v.trim(), &runtime::handler_names(), BAD_DST)?;
            Ok(())
        });
        h.read("dport", |e| e.dport.to_string());
        h.write("dport", |e, v, _| {
            e.dport = port(v).map_err(|e| format!("DPORT: {e}"))?;
            Ok(())
        });
        h.argument("src", 0, "SRC");
        h.argument("sport", 1, "SPORT");
        h.argument("dst", 2, "DST");
        h.argument("dport", 3, "DPORT");
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if self.workers == old.workers {
            self.id = old.id;
        }
    }
}

impl UDPIPEncap {
    /// An element with this source and destination.
    pub(super) fn new(
        (src, sport): (Ipv4Addr, u16),
        (dst, dport): (Option<Ipv4Addr>, u16),
        checksum: bool,
        cx: &ConfigCx<'_>,
    ) -> Self {
        let (id, workers) = (cx.worker().0 as u16, cx.workers().max(1) as u16);
        Self { src, sport, dst, dport, checksum, id, workers }
    }
    /// Changes the ports.
    pub(super) fn set_ports(&mut self, sport: u16, dport: u16) {
        (self.sport, self.dport) = (sport, dport);
    }
    /// Fills in the headers of a packet whose total length is `len` bytes.
    #[inline]
    fn write(&self, bytes: &mut [u8], len: u16, dst: Ipv4Addr) -> Option<()> {
        let (head, datagram) = bytes.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        let mut ip = Ipv4::build(self.src, dst, protocol::UDP, 0);
        ip.set_total_len(len);
        ip.set_id(self.id);
        ip.set_ttl(TTL);
        ip.fill_checksum();
        *head = *ip.bytes();
        let udp_len = len.checked_sub(ipv4::HEADER_LEN as u16)?;
        let mut h = Udp::new_mut(datagram)?;
        h.set_src_port(self.sport);
        h.set_dst_port(self.dport);
        h.set_length(udp_len);
        h.set_checksum(0);
        if self.checksum {
            udp::fill(ip.pseudo_sum(udp_len), datagram);
        }
        Some(())
    }
}

impl Simple for UDPIPEncap {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Ok(len) = u16::try_from(packet.len() + HEADERS_LEN) else {
            cx.drop(packet, drops::PACKET_TOO_LONG);
            return None;
        };
        let Some(mut packet) = packet.push(HEADERS_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        let dst = self.dst.unwrap_or_else(|| packet.dst_ip().into());
        self.write(packet.data_mut(), len, dst);
        self.id = self.id.wrapping_add(self.workers);
        packet.set_dst_ip(dst.octets());
        packet.set_network_header(0, ipv4::HEADER_LEN);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::sound;
    use crate::testing::Bench;
    use crate::transport::engine::datagram::Datagram;
    use dpdk::Packet;

    /// The UDP checksum is present and correct.
    fn summed(packet: &Packet) -> bool {
        let d = Datagram::of(packet).unwrap();
        d.rest[6..8] != [0, 0] && wire::udp::verify(d.pseudo_sum(d.rest.len() as u16), d.rest)
    }

    #[test]
    fn puts_headers_in_front() {
        let mut bench = Bench::new("UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, domain)");
        for (id, data) in [&b"data"[..], b"odd", b""].into_iter().enumerate() {
            let out = bench.send(0, Packet::from_bytes(data).unwrap()).remove(0).1;
            let b = out.data();
            let len = 28 + data.len() as u8;
            assert_eq!(b[..10], [0x45, 0, 0, len, 0, id as u8, 0, 0, 250, 17]);
            assert_eq!(b[12..26], [1, 0, 0, 1, 2, 0, 0, 2, 0x04, 0xd2, 0, 53, 0, len - 20]);
            assert_eq!(&b[28..], data);
            assert!(sound(b) && summed(&out));
            assert_eq!((out.dst_ip(), out.network_header_offset()), ([2, 0, 0, 2], Some(0)));
            assert_eq!(out.transport_header_offset(), Some(20));
        }
        assert!(bench.send(0, Packet::from_bytes(&[0; 65_508]).unwrap()).is_empty());
        assert_eq!(bench.drops(), [("packet too long".to_owned(), 1)]);
    }

    #[test]
    fn takes_the_destination_from_the_annotation() {
        let mut bench = Bench::new("UDPIPEncap(1.0.0.1, 1, DST_ANNO, 2, false)");
        let mut packet = Packet::from_bytes(b"").unwrap();
        packet.set_dst_ip([9, 9, 9, 9]);
        let out = bench.send(0, packet).remove(0).1;
        assert_eq!(out.data()[16..], [9, 9, 9, 9, 0, 1, 0, 2, 0, 8, 0, 0]);
        assert_eq!(out.dst_ip(), [9, 9, 9, 9]);
        assert!(sound(out.data()));
        assert_eq!(bench.read("dst"), "0.0.0.0");
    }

    #[test]
    fn handlers_and_errors() {
        let mut bench = Bench::new("UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)");
        for (handler, value) in [("src", "3.0.0.3"), ("sport", "3"), ("dst", "4.0.0.4"), ("dport", "4")] {
            bench.write(handler, value);
            assert_eq!(bench.read(handler), value);
            assert!(bench.try_write(handler, "x y").is_err());
        }
        let out = bench.send(0, Packet::from_bytes(b"").unwrap()).remove(0).1;
        assert_eq!(out.data()[12..24], [3, 0, 0, 3, 4, 0, 0, 4, 0, 3, 0, 4]);
        assert!(summed(&out));
        assert!(Bench::error("UDPIPEncap(1.0.0.1, 1, zonk, 2)").contains("bad DST"));
        assert!(Bench::error("UDPIPEncap(1.0.0.1, 65536, 1.1.1.1, 2)").contains("SPORT"));
        assert!(Bench::error("UDPIPEncap(1.0.0.1, 1, 1.1.1.1)").contains("DPORT"));
    }
}
