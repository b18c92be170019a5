//! # IP6Encap
//! Puts an IPv6 header in front of packets.
//!
//! ## Synopsis
//! `IP6Encap(PROTO, SRC, DST, [HLIM, CLASS])`
//!
//! ## Arguments
//! - `PROTO` (*IP protocol*, number or name): what the packets are, the header's next header; 41 for IPv6 in
//!   IPv6.
//! - `SRC` (*IPv6 address*): the source.
//! - `DST` (*IPv6 address*, or `DST_ANNO`): the destination; with `DST_ANNO` each packet's destination
//!   annotation.
//! - `HLIM` (*int*, 0 to 255, keyword, default 250): the hop limit.
//! - `CLASS` (*int*, 0 to 255, keyword, default 0): the traffic class.
//!
//! ## Ports
//! One input, one output; agnostic. The header is marked, and the destination annotation set to `DST`.
//!
//! ## Handlers
//! - `src` (read/write): the `SRC` argument.
//! - `dst` (read/write): the `DST` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true)
//!   -> IP6Encap(41, 2001:db8:10:1::2, 2001:db8:20:1::2, HLIM 20)
//!   -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! UDPIP6Encap, IPEncap

use super::engine::header::{dst_ip6, set_dst_ip6};
use crate::ip::engine::arguments::{BAD_DESTINATION, destination};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{IpProto, Raw};
use std::net::Ipv6Addr;
use wire::Ipv6;
use wire::ipv6::HEADER_LEN;

/// The `IP6Encap` element.
pub struct IP6Encap {
    header: Ipv6<[u8; HEADER_LEN]>,
    /// The destination, unless it is the annotation.
    dst: Option<Ipv6Addr>,
}

impl Element for IP6Encap {
    const CLASS: &'static str = "IP6Encap";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DST_IP6;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP6).with(Fields::IP_HEADERS);
    const SETS: Fields = Fields::IP_HEADERS;
    const DROPS: &'static [DropCase] =
        &[drops::PACKET_TOO_LONG.when("more than 65535 bytes"), drops::NO_ROOM_FOR_A_HEADER];
    const MANUAL: &'static str = manual!("ip6/ip6encap");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let IpProto(protocol) = args.mp("PROTO")?;
        let src = args.mp("SRC")?;
        let Raw(dst) = args.mp("DST")?;
        let dst = destination(&dst, args.names(), BAD_DESTINATION).map_err(|e| args.error(e))?;
        let mut header = Ipv6::build(src, dst.unwrap_or(Ipv6Addr::UNSPECIFIED), protocol, 0);
        header.set_hop_limit(args.k("HLIM")?.unwrap_or(250));
        header.set_traffic_class(args.k("CLASS")?.unwrap_or(0));
        Ok(Self { header, dst })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("src", |e| e.header.src().to_string());
        h.write("src", |e, v, _| {
            e.header.set_src(text::value(v, "SRC: parse error")?);
            Ok(())
        });
        h.read("dst", |e| e.dst.map_or_else(|| "DST_ANNO".to_owned(), |d| d.to_string()));
        h.write("dst", |e, v, _| {
            e.dst = destination(v.trim(), &runtime::handler_names(), BAD_DESTINATION)?;
            Ok(())
        });
        h.listed(&["src .", "dst ."]);
    }
}

impl Simple for IP6Encap {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Ok(len) = u16::try_from(packet.len()) else {
            cx.drop(packet, drops::PACKET_TOO_LONG);
            return None;
        };
        let Some(mut packet) = packet.push(HEADER_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        let dst = self.dst.unwrap_or_else(|| dst_ip6(&packet));
        let mut h = self.header;
        h.set_payload_len(len);
        h.set_dst(dst);
        if let Some(place) = packet.data_mut().first_chunk_mut() {
            *place = *h.bytes();
        }
        set_dst_ip6(&mut packet, dst);
        packet.set_network_header(0, HEADER_LEN);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::{dst_ip6, sample::a, set_dst_ip6};
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn puts_a_header_in_front() {
        let mut bench = Bench::new("IP6Encap(udp, 2001:db8::1, 2001:db8::2, HLIM 20, CLASS 0xb8)");
        let out = bench.send(0, Packet::from_bytes(b"data").unwrap()).remove(0).1;
        let data = out.data();
        assert_eq!(data[..8], [0x6b, 0x80, 0, 0, 0, 4, 17, 20]);
        assert_eq!(data[8..24], a("2001:db8::1").octets());
        assert_eq!(data[24..40], a("2001:db8::2").octets());
        assert_eq!(&data[40..], b"data");
        assert_eq!((dst_ip6(&out), out.network_header_len()), (a("2001:db8::2"), Some(40)));
        bench.write("src", "::7");
        bench.write("dst", "DST_ANNO");
        assert_eq!((bench.read("src"), bench.read("dst")), ("::7".into(), "DST_ANNO".into()));
    }

    #[test]
    fn takes_the_destination_from_the_annotation() {
        let mut bench = Bench::new("IP6Encap(41, ::1, DST_ANNO)");
        let mut packet = Packet::from_bytes(b"").unwrap();
        set_dst_ip6(&mut packet, a("::9"));
        assert_eq!(
            bench.push_packet(0, packet)[0].1[7..],
            [&[250][..], &a("::1").octets(), &a("::9").octets()].concat()
        );
        assert!(bench.push_packet(0, Packet::alloc(0, 65536 - 128).unwrap()).len() == 1);
        assert!(Bench::error("IP6Encap(4, ::1, here)").contains("'DST_ANNO'"));
        assert!(Bench::error("IP6Encap(4, ::1, ::2, HLIM 256)").contains("HLIM"));
    }
}
