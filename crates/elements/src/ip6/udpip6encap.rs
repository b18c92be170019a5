//! # UDPIP6Encap
//! Puts a UDP and an IPv6 header in front of packets.
//!
//! ## Synopsis
//! `UDPIP6Encap(SRC, SPORT, DST, DPORT)`
//!
//! ## Arguments
//! - `SRC` (*IPv6 address*): the source address.
//! - `SPORT` (*UDP port*, number or name): the source port.
//! - `DST` (*IPv6 address*, or `DST_ANNO`): the destination address; with `DST_ANNO` each packet's
//!   destination annotation.
//! - `DPORT` (*UDP port*, number or name): the destination port.
//!
//! ## Ports
//! One input, one output; agnostic. The IPv6 header is marked, and the destination annotation set to `DST`.
//! The hop limit is 255. The UDP checksum, which IPv6 requires (RFC 8200 section 8.1), is computed.
//!
//! ## Handlers
//! - `src` (read/write): the `SRC` argument.
//! - `sport` (read/write): the `SPORT` argument.
//! - `dst` (read/write): the `DST` argument; `::` is read for `DST_ANNO`.
//! - `dport` (read/write): the `DPORT` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true)
//!   -> UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, 1234)
//!   -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! IP6Encap, UDPIPEncap

use super::engine::header::{dst_ip6, set_dst_ip6};
use crate::ip::engine::arguments::{BAD_DST, destination};
use crate::plumbing::engine::text::read;
use crate::prelude::*;
use lang::args::{Raw, UdpPort};
use std::net::Ipv6Addr;
use wire::{Ipv6, Udp, ipv6, protocol, udp};

const HOP_LIMIT: u8 = 255;
const HEADERS_LEN: usize = ipv6::HEADER_LEN + udp::HEADER_LEN;

/// The `UDPIP6Encap` element.
pub struct UDPIP6Encap {
    src: Ipv6Addr,
    sport: u16,
    /// The destination, unless it is the annotation.
    dst: Option<Ipv6Addr>,
    dport: u16,
}

impl Element for UDPIP6Encap {
    const CLASS: &'static str = "UDPIP6Encap";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::DST_IP6);
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP6).with(Fields::IP_HEADERS);
    const SETS: Fields = Fields::IP_HEADERS;
    const DROPS: &'static [DropCase] = &[
        drops::PACKET_TOO_LONG.when("more than 65535 bytes with the UDP header"),
        drops::NO_ROOM_FOR_A_HEADER,
    ];
    const MANUAL: &'static str = manual!("ip6/udpip6encap");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let src = args.mp("SRC")?;
        let UdpPort(sport) = args.mp("SPORT")?;
        let Raw(dst) = args.mp("DST")?;
        let UdpPort(dport) = args.mp("DPORT")?;
        let dst = destination(&dst, args.names(), BAD_DST).map_err(|e| args.error(e))?;
        Ok(Self { src, sport, dst, dport })
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
        h.read("dst", |e| e.dst.unwrap_or(Ipv6Addr::UNSPECIFIED).to_string());
        h.write("dst", |e, v, _| {
            e.dst = destination(v.trim(), &runtime::handler_names(), BAD_DST)?;
            Ok(())
        });
        h.read("dport", |e| e.dport.to_string());
        h.write("dport", |e, v, _| {
            e.dport = port(v).map_err(|e| format!("DPORT: {e}"))?;
            Ok(())
        });
    }
}

impl UDPIP6Encap {
    /// Fills in the headers of a packet whose UDP length is `len` bytes.
    #[inline]
    fn write(&self, bytes: &mut [u8], len: u16, dst: Ipv6Addr) -> Option<()> {
        let (head, datagram) = bytes.split_first_chunk_mut::<{ ipv6::HEADER_LEN }>()?;
        let mut ip = Ipv6::build(self.src, dst, protocol::UDP, len);
        ip.set_hop_limit(HOP_LIMIT);
        *head = *ip.bytes();
        let mut h = Udp::new_mut(datagram)?;
        h.set_src_port(self.sport);
        h.set_dst_port(self.dport);
        h.set_length(len);
        h.set_checksum(0);
        udp::fill(ip.pseudo_sum(len.into()), datagram);
        Some(())
    }
}

impl Simple for UDPIP6Encap {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Ok(len) = u16::try_from(packet.len() + udp::HEADER_LEN) else {
            cx.drop(packet, drops::PACKET_TOO_LONG);
            return None;
        };
        let Some(mut packet) = packet.push(HEADERS_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        let dst = self.dst.unwrap_or_else(|| dst_ip6(&packet));
        self.write(packet.data_mut(), len, dst);
        set_dst_ip6(&mut packet, dst);
        packet.set_network_header(0, ipv6::HEADER_LEN);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::{dst_ip6, sample::a, set_dst_ip6};
    use crate::testing::Bench;
    use dpdk::Packet;
    use wire::{Ipv6, udp};

    #[test]
    fn puts_headers_in_front() {
        let mut bench = Bench::new("UDPIP6Encap(2001:db8::1, 4660, DST_ANNO, dns)");
        let mut packet = Packet::from_bytes(b"odd").unwrap();
        set_dst_ip6(&mut packet, a("2001:db8::2"));
        let out = bench.send(0, packet).remove(0).1;
        let (h, datagram) = Ipv6::split(out.data()).unwrap();
        assert_eq!((h.next_header(), h.payload_len(), h.hop_limit()), (17, 11, 255));
        assert_eq!((h.src(), h.dst(), dst_ip6(&out)), (a("2001:db8::1"), a("2001:db8::2"), a("2001:db8::2")));
        assert_eq!(datagram[..6], [0x12, 0x34, 0, 53, 0, 11]);
        assert!(datagram[6..8] != [0, 0] && udp::verify(h.pseudo_sum(11), datagram));
        assert_eq!(out.transport_header(), Some(datagram));
    }

    #[test]
    fn handlers_change_what_is_sent() {
        let mut bench = Bench::new("UDPIP6Encap(::1, 1, ::2, 2)");
        for (handler, value) in [("src", "::9"), ("sport", "7"), ("dst", "::8"), ("dport", "53")] {
            bench.write(handler, value);
            assert_eq!(bench.read(handler), value);
        }
        let out = bench.push(0, b"").remove(0).1;
        assert_eq!((out[23], out[39], &out[40..44]), (9, 8, &[0, 7, 0, 53][..]));
        bench.write("dst", "DST_ANNO");
        assert_eq!(bench.read("dst"), "::");
        assert!(Bench::error("UDPIP6Encap(::1, 1, x, 2)").contains("bad DST"));
    }
}
