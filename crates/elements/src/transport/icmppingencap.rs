//! # ICMPPingEncap
//! Makes packets the data of pings.
//!
//! ## Synopsis
//! `ICMPPingEncap(SRC, DST, [IDENTIFIER])`
//!
//! ## Arguments
//! - `SRC` (*IP address*): the source.
//! - `DST` (*IP address*): the destination.
//! - `IDENTIFIER` (*int*, 0 to 65535, keyword, default 0): the pings' identifier.
//!
//! ## Ports
//! One input, one output; agnostic. An IP and an ICMP echo request header are put in front of each packet.
//! The IP header is marked, and the destination annotation set to `DST`. The TTL is 255. Sequence numbers,
//! which are the IP identifications too, count up by one from 1, leaving 0 out; with several workers each
//! uses every N-th one, if there are N workers.
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
//! InfiniteSource(LIMIT 2, STOP true)
//!   -> ICMPPingEncap(1.0.0.1, 2.0.0.2, IDENTIFIER 3)
//!   -> ICMPPingResponder
//!   -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! ICMPPingSource, ICMPPingResponder, IPEncap, UDPIPEncap

use crate::plumbing::engine::text;
use crate::prelude::*;
use std::net::Ipv4Addr;
use wire::{Icmpv4, Ipv4, icmpv4, ipv4, protocol};

const TTL: u8 = 255;
/// Both headers of a ping.
pub(crate) const HEADERS_LEN: usize = ipv4::HEADER_LEN + icmpv4::HEADER_LEN;

/// The `ICMPPingEncap` element.
pub struct ICMPPingEncap {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    identifier: u16,
    seq: u16,
    workers: u16,
}

/// The fields of a ping's headers.
pub(crate) struct Ping {
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    pub(crate) ttl: u8,
    pub(crate) identifier: u16,
    /// Sequence number and IP identification.
    pub(crate) seq: u16,
}

impl Ping {
    /// Writes the headers over the first bytes of a packet and marks and annotates it. `false` if it is too
    /// short or too long for them.
    #[inline]
    pub(crate) fn write(&self, packet: &mut Packet) -> bool {
        let written = self.fill(packet.data_mut());
        packet.set_dst_ip(self.dst.octets());
        packet.set_network_header(0, ipv4::HEADER_LEN);
        written.is_some()
    }
    fn fill(&self, bytes: &mut [u8]) -> Option<()> {
        let len = u16::try_from(bytes.len()).ok()?;
        let (head, message) = bytes.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        let mut ip = Ipv4::build(self.src, self.dst, protocol::ICMP, 0);
        ip.set_total_len(len);
        ip.set_id(self.seq);
        ip.set_ttl(self.ttl);
        ip.fill_checksum();
        *head = *ip.bytes();
        let mut icmp = Icmpv4::new_mut(message)?;
        icmp.set_kind(icmpv4::ECHO);
        icmp.set_code(0);
        icmp.set_id(self.identifier);
        icmp.set_seq(self.seq);
        icmpv4::fill(message);
        Some(())
    }
}

/// Handlers for an address: read it, write it.
pub(super) fn address(text: &str) -> Result<Ipv4Addr, String> {
    text::value(text, "syntax error")
}

impl Element for ICMPPingEncap {
    const CLASS: &'static str = "ICMPPingEncap";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] =
        &[drops::PACKET_TOO_LONG.when("more than 65535 bytes with the headers"), drops::NO_ROOM_FOR_A_HEADER];
    const MANUAL: &'static str = manual!("transport/icmppingencap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (src, dst) = (args.mp("SRC")?, args.mp("DST")?);
        let identifier = args.k("IDENTIFIER")?.unwrap_or(0);
        let (seq, workers) = (cx.worker().0 as u16 + 1, cx.workers().max(1) as u16);
        Ok(Self { src, dst, identifier, seq, workers })
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
            self.seq = old.seq;
        }
    }
}

impl Simple for ICMPPingEncap {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if packet.len() + HEADERS_LEN > usize::from(u16::MAX) {
            cx.drop(packet, drops::PACKET_TOO_LONG);
            return None;
        }
        let Some(mut packet) = packet.push(HEADERS_LEN) else {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            return None;
        };
        let ping =
            Ping { src: self.src, dst: self.dst, ttl: TTL, identifier: self.identifier, seq: self.seq };
        ping.write(&mut packet);
        // The numbers of the other workers, and zero, are skipped.
        self.seq = self.seq.wrapping_add(self.workers);
        if self.seq == 0 {
            self.seq = self.workers;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::sound;
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn makes_pings() {
        let mut bench = Bench::new("ICMPPingEncap(1.0.0.1, 2.0.0.2, IDENTIFIER 3)");
        for (n, data) in [&b"data"[..], b"odd", b""].into_iter().enumerate() {
            let out = bench.send(0, Packet::from_bytes(data).unwrap()).remove(0).1;
            let (b, seq) = (out.data(), n as u8 + 1);
            assert_eq!(b[..10], [0x45, 0, 0, 28 + data.len() as u8, 0, seq, 0, 0, 255, 1]);
            assert_eq!(b[12..22], [1, 0, 0, 1, 2, 0, 0, 2, 8, 0]);
            assert_eq!((&b[24..28], &b[28..]), (&[0, 3, 0, seq][..], data));
            assert!(sound(b) && wire::icmpv4::verify(&b[20..]));
            assert_eq!((out.dst_ip(), out.transport_header_offset()), ([2, 0, 0, 2], Some(20)));
        }
        assert!(bench.push(0, &[0; 65_508]).is_empty());
        assert_eq!(bench.drops(), [("packet too long".to_owned(), 1)]);
    }

    #[test]
    fn leaves_zero_out() {
        let mut bench = Bench::new("ICMPPingEncap(1.0.0.1, 2.0.0.2)");
        let mut last = Vec::new();
        for _ in 0..0x1_0000 {
            last = bench.push(0, b"")[0].1[4..6].to_vec();
        }
        assert_eq!(last, [0, 1]);
    }

    #[test]
    fn handlers_and_errors() {
        let mut bench = Bench::new("ICMPPingEncap(1.0.0.1, 2.0.0.2)");
        bench.write("src", "3.0.0.3");
        bench.write("dst", " 4.0.0.4 ");
        assert_eq!((bench.read("src"), bench.read("dst")), ("3.0.0.3".to_owned(), "4.0.0.4".to_owned()));
        assert_eq!(bench.push(0, b"")[0].1[12..20], [3, 0, 0, 3, 4, 0, 0, 4]);
        assert!(bench.try_write("src", "x").unwrap_err().to_string().contains("syntax error"));
        assert!(Bench::error("ICMPPingEncap(1.0.0.1)").contains("DST"));
        assert!(Bench::error("ICMPPingEncap(1.0.0.1, 2.0.0.2, IDENTIFIER 65536)").contains("IDENTIFIER"));
    }
}
