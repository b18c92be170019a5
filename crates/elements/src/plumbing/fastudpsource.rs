//! # FastUDPSource
//! Makes UDP packets with Ethernet and IP headers, at a rate or as fast as they are pulled.
//!
//! ## Synopsis
//! `FastUDPSource(RATE, LIMIT, LENGTH, SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT [, CHECKSUM, INTERVAL, ACTIVE])`
//!
//! ## Arguments
//! - `RATE` (*int*, packets per second): the rate; 0 means as fast as they are pulled.
//! - `LIMIT` (*int*): how many packets in all; negative means no limit.
//! - `LENGTH` (*int*, bytes): the packets' length with all headers, at least 60.
//! - `SRCETH`, `DSTETH` (*Ethernet address*): the link addresses.
//! - `SRCIP`, `DSTIP` (*IP address*): the network addresses.
//! - `SPORT`, `DPORT` (*UDP port*): the ports.
//! - `CHECKSUM` (*bool*, default true): whether to fill the UDP checksum in.
//! - `INTERVAL` (*int*, default 0): both ports grow by one after so many packets; 0 means never.
//! - `ACTIVE` (*bool*, default true): whether to make packets.
//!
//! ## Ports
//! No input, one pull output.
//!
//! ## Handlers
//! - `count` (read): packets made.
//! - `rate` (read/write): reads as the average rate of all packets once the limit is reached, 0 before;
//!   writing sets the `RATE` argument.
//! - `limit` (write): the `LIMIT` argument.
//! - `active` (write): the `ACTIVE` argument; writing true also resets.
//! - `reset` (write): starts again from zero.
//!
//! ## Threads
//! One instance, on one worker: rate and limit are those of the whole router.
//!
//! ## Example
//! ```click
//! FastUDPSource(0, 5, 60, 0:0:0:0:0:1, 10.0.0.1, 1234, 0:0:0:0:0:2, 10.0.0.2, 1234)
//!     -> Print(udp, 60) -> Discard;
//! ```
//!
//! ## See also
//! RatedSource, InfiniteSource, UDPIPEncap

use super::engine::quota::Quota;
use super::engine::text;
use super::engine::udpframe::{SHORTEST, UdpFrame};
use crate::prelude::*;
use lang::args::{EtherAddr, UdpPort};
use std::net::Ipv4Addr;

/// The `FastUDPSource` element.
pub struct FastUdpSource {
    quota: Quota,
    interval: u64,
    active: bool,
    ports: (u16, u16),
    /// How often the ports have grown since the last reset.
    steps: u16,
    frame: UdpFrame,
}

impl FastUdpSource {
    fn reset(&mut self) {
        self.quota.reset();
        self.steps = 0;
    }
    fn make(&mut self, now_ns: u64) -> Option<Packet> {
        let ports = (self.ports.0.wrapping_add(self.steps), self.ports.1.wrapping_add(self.steps));
        let packet = self.frame.packet(ports)?;
        self.quota.made(now_ns);
        if self.interval > 0 && self.quota.count().get().is_multiple_of(self.interval) {
            self.steps = self.steps.wrapping_add(1);
        }
        Some(packet)
    }
}

impl Element for FastUdpSource {
    const CLASS: &'static str = "FastUDPSource";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/fastudpsource");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let rate: u32 = args.mp("RATE")?;
        let limit: i32 = args.mp("LIMIT")?;
        let length = usize::from(args.mp::<u16>("LENGTH")?);
        let (src_eth, src_ip): (EtherAddr, Ipv4Addr) = (args.mp("SRCETH")?, args.mp("SRCIP")?);
        let src_port: UdpPort = args.mp("SPORT")?;
        let (dst_eth, dst_ip): (EtherAddr, Ipv4Addr) = (args.mp("DSTETH")?, args.mp("DSTIP")?);
        let dst_port: UdpPort = args.mp("DPORT")?;
        let checksum = args.p("CHECKSUM")?.unwrap_or(true);
        let interval = u64::from(args.p::<u32>("INTERVAL")?.unwrap_or(0));
        let active = args.p("ACTIVE")?.unwrap_or(true);
        if length < SHORTEST {
            cx.warn("packet length < 60, defaulting to 60");
        }
        Ok(Self {
            quota: Quota::new(rate, limit),
            interval,
            active,
            ports: (src_port.0, dst_port.0),
            steps: 0,
            frame: UdpFrame::new((src_eth, dst_eth), (src_ip, dst_ip), length, checksum),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| e.quota.count());
        h.read("rate", |e| e.quota.rate());
        h.write("rate", |e, v, _| e.quota.set_rate(v));
        h.write("limit", |e, v, _| e.quota.set_limit(v));
        h.write("active", |e, v, _| {
            e.active = text::value(v, "active parameter must be boolean")?;
            if e.active {
                e.reset();
            }
            Ok(())
        });
        h.write("reset", |e, _, _| {
            e.reset();
            Ok(())
        });
        h.listed(&["count", "rate", "reset b", "active c", "limit"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.quota.take_over(&old.quota);
    }
}

impl Vector for FastUdpSource {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        if !self.active || self.quota.left() == 0 {
            return;
        }
        let now = cx.now_ns();
        for _ in 0..self.quota.due(max, now) {
            let Some(packet) = self.make(now) else { break };
            out.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wire::Ethernet;

    const ADDRESSES: &str = "0:0:0:0:0:1, 10.0.0.1, 1000, 0:0:0:0:0:2, 10.0.0.2, 2000";

    #[test]
    fn makes_correct_packets() {
        let mut bench = Bench::new(&format!("FastUDPSource(0, 3, 61, {ADDRESSES}, INTERVAL 2)"));
        let packets = bench.pull(0, 9);
        assert_eq!(packets.len(), 3);
        for (n, (_, packet)) in packets.iter().enumerate() {
            assert_eq!((packet.len(), packet.dst_ip()), (61, [10, 0, 0, 2]));
            let eth = Ethernet::new(packet.data()).unwrap();
            assert_eq!((eth.src().0[5], eth.dst().0[5], eth.ethertype()), (1, 2, 0x800));
            let ip = wire::Ipv4Packet::parse(packet.network_header().unwrap()).unwrap();
            assert!(ip.verify_checksum() && ip.header().ttl() == 250 && ip.payload().len() == 27);
            let datagram = wire::UdpDatagram::parse(ip.payload()).unwrap();
            assert!(datagram.header().checksum() != 0 && datagram.verify_checksum(ip.pseudo_sum()));
            let step = u16::from(n == 2);
            assert_eq!(
                (datagram.header().src_port(), datagram.header().dst_port()),
                (1000 + step, 2000 + step)
            );
        }
        assert_eq!(bench.read("count"), "3");
        assert!(bench.read("rate").parse::<u64>().unwrap() >= 3);
        bench.write("limit", "4");
        assert_eq!(bench.pull(0, 9).len(), 1);
        bench.write("reset", "");
        bench.write("active", "false");
        assert!(bench.pull(0, 9).is_empty());
    }

    #[test]
    fn keeps_its_rate() {
        let config =
            format!("e :: FastUDPSource(1000, -1, 60, {ADDRESSES}, false); t :: TimedSource(1) -> Discard;");
        let mut bench = Bench::simulated(&config, 0, 1);
        assert_eq!(bench.pull(0, 100).len(), 1);
        assert!(bench.pull(0, 100).is_empty());
        bench.turns(4);
        assert_eq!(bench.pull(0, 100).len(), 10);
    }

    #[test]
    fn short_packets_are_made_longer() {
        let mut bench = Bench::new(&format!("FastUDPSource(0, 1, 20, {ADDRESSES})"));
        assert_eq!(bench.pull(0, 1)[0].1.len(), 60);
    }
}
