//! # IPOutputCombo
//! Does in one element what an IP router does to packets that go out.
//!
//! ## Synopsis
//! `IPOutputCombo(COLOR, IPADDR, MTU)`
//!
//! ## Arguments
//! - `COLOR` (*int*, 0 to 255): the paint of packets that came in by the interface that they leave by.
//! - `IPADDR` (*IP address*): the address of that interface.
//! - `MTU` (*int*, bytes): the longest packet that it takes.
//!
//! ## Ports
//! One push input, five push outputs. Equal to
//! ```text
//! DropBroadcasts
//!   -> cp :: CheckPaint(COLOR)      [1]: a copy of each packet with this paint, for an ICMP redirect
//!   -> gio :: IPGWOptions(IPADDR)   [2]: bad options
//!   -> FixIPSrc(IPADDR)
//!   -> dt :: DecIPTTL               [3]: time exceeded
//!   -> fr :: IPFragmenter(MTU)      [4]: too long; not fragmented here
//!   -> [0]
//! ```
//! The IP header must have been marked.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> SetIPChecksum -> MarkIPHeader
//!   -> out :: IPOutputCombo(1, 10.0.0.254, 1500)
//!   -> Discard;
//! out [1] -> Discard;
//! out [2] -> Discard;
//! out [3] -> Discard;
//! out [4] -> IPFragmenter(1500) -> Discard;
//! ```
//!
//! ## See also
//! IPInputCombo, DropBroadcasts, CheckPaint, IPGWOptions, FixIPSrc, DecIPTTL, IPFragmenter

use super::engine::header::{header, header_mut};
use super::fixipsrc::fix;
use super::ipgwoptions::fill;
use crate::prelude::*;
use dpdk::PacketType;
use std::net::Ipv4Addr;

/// The `IPOutputCombo` element.
pub struct IPOutputCombo {
    color: u8,
    address: Ipv4Addr,
    mtu: usize,
}

impl Element for IPOutputCombo {
    const CLASS: &'static str = "IPOutputCombo";
    const PORTS: &'static str = "1/5";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA
        .with(Fields::NETWORK_HEADER)
        .with(Fields::PACKET_TYPE)
        .with(Fields::PAINT)
        .with(Fields::FIX_IP_SRC);
    const WRITES: Fields = Fields::DATA.with(Fields::FIX_IP_SRC).with(Fields::ICMP_PARAM_PTR);
    const DROPS: &'static [DropCase] = &[
        drops::LINK_BROADCAST.when("the packet came as a link-level broadcast or multicast"),
        drops::NO_WHOLE_IP_HEADER,
        drops::OUT_OF_MEMORY.when("the copy for output 1 could not be made"),
    ];
    const MANUAL: &'static str = manual!("ip/ipoutputcombo");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (color, address) = (args.mp("COLOR")?, args.mp("IPADDR")?);
        Ok(Self { color, address, mtu: args.mp::<u32>("MTU")? as usize })
    }
}

impl IPOutputCombo {
    /// The output, or the reason why there is none.
    fn one(&self, packet: &mut Packet, cx: &mut Cx<'_>) -> Result<usize, DropReason> {
        if matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast) {
            return Err(drops::LINK_BROADCAST);
        }
        if packet.paint() == self.color {
            match packet.duplicate() {
                Some(copy) => cx.output(1, copy),
                None => cx.count_drops(1, drops::OUT_OF_MEMORY),
            }
        }
        let options = header(packet).ok_or(drops::NO_IP_HEADER)?.version_ihl() & 15 > 5;
        if options && !fill(packet, self.address, &[self.address], cx.now_ns()).ok_or(drops::NO_IP_HEADER)? {
            return Ok(2);
        }
        fix(packet, self.address);
        if !header_mut(packet).ok_or(drops::NO_IP_HEADER)?.decrement_ttl() {
            return Ok(3);
        }
        Ok(if packet.len() > self.mtu { 4 } else { 0 })
    }
}

impl Vector for IPOutputCombo {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for mut packet in batch.drain(..) {
            match self.one(&mut packet, cx) {
                Ok(port) => cx.output(port, packet),
                Err(reason) => cx.drop(packet, reason),
            }
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;
    use dpdk::{Packet, PacketType};

    fn ports(bench: &mut Bench, packet: Packet) -> Vec<usize> {
        bench.push_packet(0, packet).iter().map(|o| o.0).collect()
    }

    #[test]
    fn does_each_step() {
        let mut bench = Bench::new("IPOutputCombo(7, 1.2.3.4, 60)");
        let plain = ip(17, b"x");
        let out = bench.push_packet(0, marked(&plain));
        assert_eq!((out[0].0, out[0].1[8]), (0, 63));
        assert!(sound(&out[0].1));
        let mut painted = marked(&plain);
        painted.set_paint(7);
        let out = bench.push_packet(0, painted);
        assert_eq!((out[0].0, &out[0].1, out[1].0), (1, &plain, 0));
        assert_eq!(ports(&mut bench, marked(&ip_with(&[7, 2, 0, 0], b"", |_| ()))), [2]);
        assert_eq!(ports(&mut bench, marked(&ip_with(&[], b"", |h| h.set_ttl(1)))), [3]);
        assert_eq!(ports(&mut bench, marked(&ip(17, &[0; 41]))), [4]);
        assert_eq!(ports(&mut bench, marked(&ip(17, &[0; 40]))), [0]);
        let mut broadcast = marked(&plain);
        broadcast.set_packet_type(PacketType::Multicast);
        assert!(ports(&mut bench, broadcast).is_empty());
        assert!(ports(&mut bench, Packet::from_bytes(b"x").unwrap()).is_empty());
        let mut dropped = bench.drops();
        dropped.sort();
        assert_eq!(dropped, [("link broadcast".to_owned(), 1), ("no IP header".to_owned(), 1)]);
    }

    #[test]
    fn fixes_the_source() {
        let mut bench = Bench::new("IPOutputCombo(7, 1.2.3.4, 60)");
        let mut packet = marked(&ip(1, b"x"));
        packet.set_fix_ip_src(true);
        let out = bench.push_packet(0, packet);
        assert_eq!(out[0].1[12..16], [1, 2, 3, 4]);
        assert!(sound(&out[0].1));
    }
}
