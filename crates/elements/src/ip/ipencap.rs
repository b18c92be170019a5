//! # IPEncap
//! Puts an IP header in front of packets.
//!
//! ## Synopsis
//! `IPEncap(PROTO, SRC, DST, [TOS, TTL, DSCP, ECT, CE, DF])`
//!
//! ## Arguments
//! - `PROTO` (*IP protocol*, number or name): what the packets are; `ipip` (4) for IP in IP.
//! - `SRC` (*IP address*): the source.
//! - `DST` (*IP address*, or `DST_ANNO`): the destination; with `DST_ANNO` each packet's destination
//!   annotation.
//! - `TOS` (*int*, 0 to 255, keyword, default 0): the type of service byte. Excludes `DSCP`, `ECT` and `CE`.
//! - `TTL` (*int*, 0 to 255, keyword, default 250): the time to live.
//! - `DSCP` (*int*, 0 to 63, keyword, default 0): the differentiated services code point.
//! - `ECT` (*bool* or `2`, keyword, default false): whether to set the ECN field to ECN-capable, codepoint 1;
//!   with `2` codepoint 0, whose value is 2.
//! - `CE` (*bool*, keyword, default false): whether to set the ECN field to Congestion Experienced.
//! - `DF` (*bool*, keyword, default false): whether to set the Don't Fragment bit.
//!
//! ## Ports
//! One input, one output; agnostic. The header is marked, and the destination annotation set to `DST`.
//! Identifications count up by one from packet to packet; with N workers, each uses every N-th one.
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
//!   -> IPEncap(ipip, 18.26.4.24, 140.247.60.147, TTL 64)
//!   -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! UDPIPEncap, ICMPPingEncap, StripIPHeader, SetIPChecksum

use crate::ip::engine::arguments::{BAD_DESTINATION, destination};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{IpProto, Raw, Word};
use std::net::Ipv4Addr;
use wire::Ipv4;
use wire::ipv4::{ECN_CE, ECN_ECT0, ECN_ECT1, HEADER_LEN};

/// The `IPEncap` element.
pub struct IPEncap {
    header: Ipv4<[u8; HEADER_LEN]>,
    /// The destination, unless it is the annotation.
    dst: Option<Ipv4Addr>,
    id: u16,
    workers: u16,
}

fn ect(text: &str) -> Option<u8> {
    match lang::args::parse::<bool>(text) {
        Ok(false) => Some(0),
        Ok(true) => Some(ECN_ECT1),
        Err(_) => (text == "2").then_some(ECN_ECT0),
    }
}

fn tos(args: &mut Args<'_>) -> Result<u8, ArgError> {
    let tos: Option<i32> = args.k("TOS")?.filter(|t| *t != -1);
    let dscp: Option<i32> = args.k("DSCP")?.filter(|d| *d != -1);
    let ect = match args.k::<Word>("ECT")? {
        Some(text) => ect(&text.0).ok_or_else(|| args.error(format!("bad ECT value '{}'", text.0)))?,
        None => 0,
    };
    let ce = args.k("CE")?.unwrap_or(false);
    let wrong = match (tos, dscp) {
        (Some(_), Some(_)) => "cannot set both TOS and DSCP",
        (Some(_), None) if ect != 0 || ce => "cannot set both TOS and ECN bits",
        (Some(tos), None) if !(0..256).contains(&tos) => "TOS too large; max 255",
        (None, Some(dscp)) if !(0..64).contains(&dscp) => "DSCP too large; max 63",
        _ if ect != 0 && ce => "can set at most one ECN option",
        _ => "",
    };
    if !wrong.is_empty() {
        return Err(args.error(wrong));
    }
    let ecn = if ce { ECN_CE } else { ect };
    Ok(tos.unwrap_or(dscp.unwrap_or(0) << 2) as u8 | ecn)
}

impl Element for IPEncap {
    const CLASS: &'static str = "IPEncap";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DST_IP;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::IP_HEADERS);
    const SETS: Fields = Fields::DST_IP.with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] =
        &[drops::PACKET_TOO_LONG.when("more than 65535 bytes with the header"), drops::NO_ROOM_FOR_A_HEADER];
    const MANUAL: &'static str = manual!("ip/ipencap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let IpProto(protocol) = args.mp("PROTO")?;
        let src = args.mp("SRC")?;
        let Raw(dst) = args.mp("DST")?;
        let dst = destination(&dst, args.names(), BAD_DESTINATION).map_err(|e| args.error(e))?;
        let tos = tos(args)?;
        let ttl = args.k("TTL")?.unwrap_or(250);
        let df = args.k("DF")?.unwrap_or(false);
        let mut header = Ipv4::build(src, dst.unwrap_or(Ipv4Addr::UNSPECIFIED), protocol, 0);
        header.set_tos(tos);
        header.set_ttl(ttl);
        header.set_dont_fragment(df);
        Ok(Self { header, dst, id: cx.worker().0 as u16, workers: cx.workers().max(1) as u16 })
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
        h.argument("src", 1, "SRC");
        h.argument("dst", 2, "DST");
        h.listed(&["src .", "dst ."]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if self.workers == old.workers {
            self.id = old.id;
        }
    }
}

impl Simple for IPEncap {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Ok(len) = u16::try_from(packet.len() + HEADER_LEN) else {
            cx.drop(packet, drops::PACKET_TOO_LONG);
            return None;
        };
        let Some(mut packet) = packet.push(HEADER_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        let dst = self.dst.unwrap_or_else(|| packet.dst_ip().into());
        let mut h = self.header;
        h.set_total_len(len);
        h.set_id(self.id);
        h.set_dst(dst);
        h.fill_checksum();
        self.id = self.id.wrapping_add(self.workers);
        if let Some(place) = packet.data_mut().first_chunk_mut() {
            *place = *h.bytes();
        }
        packet.set_dst_ip(dst.octets());
        packet.set_network_header(0, HEADER_LEN);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::sound;
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn puts_a_header_in_front() {
        let mut bench = Bench::new("IPEncap(udp, 1.2.3.4, 5.6.7.8, DSCP 63, ECT 2, DF true)");
        let out = bench.send(0, Packet::from_bytes(b"data").unwrap()).remove(0).1;
        let data = out.data();
        assert_eq!(data[..10], [0x45, 0xfe, 0, 24, 0, 0, 0x40, 0, 250, 17]);
        assert_eq!(data[12..], [1, 2, 3, 4, 5, 6, 7, 8, b'd', b'a', b't', b'a']);
        assert!(sound(data));
        assert_eq!(
            (out.dst_ip(), out.network_header_offset(), out.network_header_len()),
            ([5, 6, 7, 8], Some(0), Some(20))
        );
        assert_eq!(bench.push(0, b"")[0].1[4..6], [0, 1]);
    }

    #[test]
    fn takes_the_destination_from_the_annotation() {
        let mut bench = Bench::new("IPEncap(4, 1.2.3.4, DST_ANNO)");
        let mut packet = Packet::from_bytes(b"").unwrap();
        packet.set_dst_ip([9, 9, 9, 9]);
        let out = bench.push_packet(0, packet);
        assert_eq!(out[0].1[16..], [9, 9, 9, 9]);
        assert!(sound(&out[0].1));
        assert_eq!(bench.read("dst"), "DST_ANNO");
        bench.write("dst", "7.7.7.7");
        assert_eq!(bench.push(0, b"")[0].1[16..], [7, 7, 7, 7]);
    }

    #[test]
    fn refuses_what_does_not_fit_together() {
        for (more, message) in [
            ("TOS 1, DSCP 1", "cannot set both TOS and DSCP"),
            ("TOS 1, CE true", "cannot set both TOS and ECN bits"),
            ("TOS 256", "TOS too large; max 255"),
            ("DSCP 64", "DSCP too large; max 63"),
            ("ECT 3", "bad ECT value '3'"),
            ("ECT 1, CE 1", "can set at most one ECN option"),
        ] {
            assert!(
                Bench::error(&format!("IPEncap(4, 1.1.1.1, 2.2.2.2, {more})")).contains(message),
                "{more}"
            );
        }
        assert!(Bench::error("IPEncap(4, 1.1.1.1, here)").contains("'DST_ANNO'"));
    }

    #[test]
    fn drops_what_becomes_too_long() {
        let mut bench = Bench::new("IPEncap(4, 1.1.1.1, 2.2.2.2)");
        let packet = Packet::alloc(0, 65516).unwrap();
        assert!(bench.push_packet(0, packet).is_empty());
        assert_eq!(bench.drops(), [("packet too long".to_owned(), 1)]);
    }
}
