//! # ICMPIPEncap
//! Puts an ICMP and an IP header in front of packets.
//!
//! ## Synopsis
//! `ICMPIPEncap(SRC, DST, TYPE [, CODE, IDENTIFIER])`
//!
//! ## Arguments
//! - `SRC` (*IP address*): the source.
//! - `DST` (*IP address*): the destination.
//! - `TYPE` (*int*, 0 to 255, or name): the ICMP type, such as `echo` or `unreachable`.
//! - `CODE` (*int*, 0 to 255, or name, default 0): the ICMP code; which names there are depends on the type.
//! - `IDENTIFIER` (*int*, 0 to 65535, keyword, default 0): the identifier, in types that have one.
//!
//! ## Ports
//! One input, one output; agnostic. The ICMP header has 8 bytes, that of a timestamp request or reply 20, in
//! which the times are zero. The IP header is marked, and the destination annotation set to `DST`. The TTL is
//! 255. IP identifications, which are the sequence numbers of echo, timestamp and information messages too,
//! count up by one from 1, leaving 0 out; with several workers each uses every N-th one, if there are N
//! workers.
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
//!   -> ICMPIPEncap(1.0.0.1, 2.0.0.2, unreachable, port)
//!   -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! ICMPPingEncap, ICMPError, UDPIPEncap, IPEncap

use super::icmppingencap::address;
use crate::prelude::*;
use lang::args::{FromArg, Word};
use std::net::Ipv4Addr;
use wire::{Icmpv4, Ipv4, icmpv4, ipv4, protocol};

const TTL: u8 = 255;
/// The length of a header with three times (RFC 792).
const TIMESTAMP_LEN: usize = 20;

/// The `ICMPIPEncap` element.
pub struct ICMPIPEncap {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    kind: u8,
    code: u8,
    identifier: u16,
    id: u16,
    workers: u16,
}

/// A type, by number or name.
pub(super) fn kind(args: &mut Args<'_>) -> Result<i32, ArgError> {
    let number = args.with("TYPE", true, true, |text, names| {
        names.icmp_type(text).map_or_else(|| i32::from_arg(text, names), |kind| Ok(kind.into()))
    })?;
    Ok(number.unwrap_or(-1))
}

/// The code that this text means in a message of the type.
pub(super) fn code(args: &Args<'_>, kind: u8, text: &str) -> Option<u8> {
    args.names().icmp_code(kind, text).or_else(|| lang::args::parse(text).ok())
}

impl Element for ICMPIPEncap {
    const CLASS: &'static str = "ICMPIPEncap";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::IP_HEADERS);
    const SETS: Fields = Fields::DST_IP.with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] =
        &[drops::PACKET_TOO_LONG.when("more than 65535 bytes with the headers"), drops::NO_ROOM_FOR_A_HEADER];
    const MANUAL: &'static str = manual!("transport/icmpipencap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (src, dst) = (args.mp("SRC")?, args.mp("DST")?);
        let kind = kind(args)?;
        let text = args.p::<Word>("CODE")?;
        let identifier = args.k_or("IDENTIFIER", 0)?;
        let kind = u8::try_from(kind).map_err(|_| args.error("invalid TYPE"))?;
        let code = match text {
            None => 0,
            Some(Word(text)) => code(args, kind, &text).ok_or_else(|| args.error("invalid CODE"))?,
        };
        let (id, workers) = (cx.worker().0 as u16 + 1, cx.workers().max(1) as u16);
        Ok(Self { src, dst, kind, code, identifier, id, workers })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("src", |e| e.src.to_string());
        h.write("src", |e, v, _| address(v).map(|a| e.src = a));
        h.read("dst", |e| e.dst.to_string());
        h.write("dst", |e, v, _| address(v).map(|a| e.dst = a));
        h.listed(&["src .", "dst ."]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if self.workers == old.workers {
            self.id = old.id;
        }
    }
}

impl ICMPIPEncap {
    fn header_len(&self) -> usize {
        match self.kind {
            icmpv4::TIMESTAMP | icmpv4::TIMESTAMP_REPLY => TIMESTAMP_LEN,
            _ => icmpv4::HEADER_LEN,
        }
    }

    /// Fills in the headers of a packet whose total length is `len` bytes.
    fn write(&self, bytes: &mut [u8], len: u16) -> Option<()> {
        let (head, message) = bytes.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        let mut ip = Ipv4::build(self.src, self.dst, protocol::ICMP, 0);
        ip.set_total_len(len);
        ip.set_id(self.id);
        ip.set_ttl(TTL);
        ip.fill_checksum();
        *head = *ip.bytes();
        message.get_mut(..self.header_len())?.fill(0);
        let mut icmp = Icmpv4::new_mut(message)?;
        icmp.set_kind(self.kind);
        icmp.set_code(self.code);
        let numbered = [
            icmpv4::ECHO,
            icmpv4::ECHO_REPLY,
            icmpv4::TIMESTAMP,
            icmpv4::TIMESTAMP_REPLY,
            icmpv4::INFO_REQUEST,
            icmpv4::INFO_REPLY,
        ];
        if numbered.contains(&self.kind) {
            icmp.set_id(self.identifier);
            icmp.set_seq(self.id);
        }
        icmpv4::fill(message);
        Some(())
    }
}

impl Simple for ICMPIPEncap {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let headers = ipv4::HEADER_LEN + self.header_len();
        let Ok(len) = u16::try_from(packet.len() + headers) else {
            cx.drop(packet, drops::PACKET_TOO_LONG);
            return None;
        };
        let Some(mut packet) = packet.push(headers) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        self.write(packet.data_mut(), len);
        self.id = self.id.wrapping_add(self.workers);
        if self.id == 0 {
            self.id = self.workers;
        }
        packet.set_dst_ip(self.dst.octets());
        packet.set_network_header(0, ipv4::HEADER_LEN);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::sound;
    use crate::testing::Bench;
    use dpdk::Packet;

    fn encap(bench: &mut Bench, data: &[u8]) -> Packet {
        bench.send(0, Packet::from_bytes(data).unwrap()).remove(0).1
    }

    #[test]
    fn numbers_messages_that_have_numbers() {
        let mut bench = Bench::new("ICMPIPEncap(1.0.0.1, 2.0.0.2, echo, IDENTIFIER 0x1234)");
        for id in 1..3 {
            let out = encap(&mut bench, b"odd");
            let b = out.data();
            assert_eq!(b[..10], [0x45, 0, 0, 31, 0, id, 0, 0, 255, 1]);
            assert_eq!(b[12..22], [1, 0, 0, 1, 2, 0, 0, 2, 8, 0]);
            assert_eq!(b[24..], [0x12, 0x34, 0, id, b'o', b'd', b'd']);
            assert!(sound(b) && wire::icmpv4::verify(&b[20..]));
            assert_eq!((out.dst_ip(), out.network_header_offset()), ([2, 0, 0, 2], Some(0)));
        }
    }

    #[test]
    fn others_have_none() {
        let mut bench = Bench::new("ICMPIPEncap(1.0.0.1, 2.0.0.2, unreachable, port, IDENTIFIER 9)");
        let out = encap(&mut bench, b"data");
        assert_eq!(out.data()[20..22], [3, 3]);
        assert_eq!(&out.data()[24..], b"\0\0\0\0data");
        assert!(wire::icmpv4::verify(&out.data()[20..]));
    }

    #[test]
    fn a_timestamp_has_a_long_header() {
        let mut bench = Bench::new("ICMPIPEncap(1.0.0.1, 2.0.0.2, 13, 0, IDENTIFIER 1)");
        let out = encap(&mut bench, b"x");
        let mut want = vec![0, 1, 0, 1];
        want.extend([0; 12]);
        want.push(b'x');
        assert_eq!(out.data()[24..], want);
        assert_eq!(out.len(), 41);
        assert!(sound(out.data()) && wire::icmpv4::verify(&out.data()[20..]));
        assert!(bench.push(0, &[0; 65_500]).is_empty());
        assert_eq!(bench.drops(), [("packet too long".to_owned(), 1)]);
    }

    #[test]
    fn identifications_leave_zero_out() {
        let mut bench = Bench::new("ICMPIPEncap(1.0.0.1, 2.0.0.2, echo)");
        let ids: Vec<u16> = (0..65_537)
            .map(|_| encap(&mut bench, b"").data()[4..6].try_into().map(u16::from_be_bytes).unwrap())
            .collect();
        assert_eq!((ids[65_534], ids[65_535]), (65_535, 1));
        assert!(!ids.contains(&0));
    }

    #[test]
    fn handlers_and_errors() {
        let mut bench = Bench::new("ICMPIPEncap(1.0.0.1, 2.0.0.2, 8)");
        for (handler, value) in [("src", "3.0.0.3"), ("dst", "4.0.0.4")] {
            bench.write(handler, value);
            assert_eq!(bench.read(handler), value);
            assert!(bench.try_write(handler, "x").is_err());
        }
        assert_eq!(encap(&mut bench, b"").data()[12..20], [3, 0, 0, 3, 4, 0, 0, 4]);
        assert!(Bench::error("ICMPIPEncap(1.0.0.1, 2.0.0.2, 256)").contains("invalid TYPE"));
        assert!(Bench::error("ICMPIPEncap(1.0.0.1, 2.0.0.2, echo, port)").contains("invalid CODE"));
        assert!(Bench::error("ICMPIPEncap(1.0.0.1, 2.0.0.2)").contains("TYPE"));
    }
}
