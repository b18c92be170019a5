//! # FastUDPFlows
//! Makes UDP packets of many flows with Ethernet and IP headers, at a rate or as fast as they are taken.
//!
//! ## Synopsis
//! `FastUDPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, CHECKSUM, ACTIVE, ...])`
//!
//! ## Arguments
//! - `RATE` (*int*, packets per second): the rate; 0 means as fast as they are taken.
//! - `LIMIT` (*int*): how many packets in all; negative means no limit.
//! - `LENGTH` (*int*, bytes): the packets' length with all headers, at least 60.
//! - `SRCETH`, `DSTETH` (*Ethernet address*): the link addresses.
//! - `SRCIP`, `DSTIP` (*IP address*): the network addresses.
//! - `FLOWS` (*int*, 1 to 16,777,216): how many flows there are at a time. Their ports are random.
//! - `FLOWSIZE` (*int*): after so many packets, a flow ends and another one with other ports takes its place.
//! - `CHECKSUM` (*bool*, default true): whether to fill the UDP checksum in.
//! - `ACTIVE` (*bool*, default true): whether to make packets.
//!
//! FastClick's keywords:
//! - `FLOWBURST` (*int*, default 1): so many packets of a flow follow each other.
//! - `SEQUENTIAL` (*bool*, default false): flows take turns, and a new flow's ports are those of the one
//!   before it plus one; otherwise both are random.
//! - `STOP` (*bool*, default false): whether to stop the driver at the limit.
//! - `DUPLICATE`: without effect; each packet has its own buffer.
//!
//! ## Ports
//! No input, one output; agnostic.
//!
//! ## Handlers
//! - `count` (read): packets made.
//! - `rate` (read/write): reads as the average rate of all packets once the limit is reached, 0 before;
//!   writing sets the `RATE` argument.
//! - `limit`, `length`, `stop` (read/write): the arguments; a written length begins new flows.
//! - `srceth`, `dsteth` (write): the link addresses.
//! - `active` (write): the `ACTIVE` argument; writing true also resets.
//! - `reset` (write): starts again from zero.
//!
//! ## Threads
//! One instance, on one worker: rate and limit are those of the whole router.
//!
//! ## Example
//! ```click
//! FastUDPFlows(0, 5, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2, 100, 10, STOP true)
//!     -> Print(udp, 60) -> Discard;
//! ```
//!
//! ## See also
//! FastUDPSource, MeasureSource, RatedSource

use super::engine::quota::Quota;
use super::engine::text;
use super::engine::udpframe::{SHORTEST, UdpFrame};
use crate::prelude::*;
use lang::args::EtherAddr;
use std::net::Ipv4Addr;

const MOST_FLOWS: u32 = 1 << 24;

/// A flow: its ports, and how many packets it has had.
#[derive(Clone, Copy, Default)]
struct Flow {
    ports: (u16, u16),
    sent: u32,
}

/// The `FastUDPFlows` element.
pub struct FastUdpFlows {
    quota: Quota,
    length: usize,
    ethernet: (EtherAddr, EtherAddr),
    addresses: (Ipv4Addr, Ipv4Addr),
    flow_size: u32,
    flow_burst: u32,
    checksum: bool,
    sequential: bool,
    active: bool,
    stop: bool,
    frame: UdpFrame,
    flows: Vec<Flow>,
    /// The present flow, and how many of its packets have followed each other.
    flow: usize,
    following: u32,
}

fn ports(cx: &mut Cx<'_>) -> (u16, u16) {
    let [a, b, c, d, ..] = cx.random().to_ne_bytes();
    (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))
}

impl FastUdpFlows {
    fn begin_flows(&mut self, cx: &mut Cx<'_>) {
        for flow in &mut self.flows {
            *flow = Flow { ports: ports(cx), sent: 0 };
        }
        (self.flow, self.following) = (0, 0);
    }
    /// The ports of the next packet.
    fn next(&mut self, cx: &mut Cx<'_>) -> (u16, u16) {
        if self.following >= self.flow_burst {
            self.flow = match self.sequential {
                true => self.flow + 1,
                false => (cx.random() >> 16) as usize,
            } % self.flows.len().max(1);
            self.following = 0;
        }
        self.following += 1;
        let sequential = self.sequential;
        let Some(flow) = self.flows.get_mut(self.flow) else { return (0, 0) };
        if flow.sent >= self.flow_size {
            flow.ports = match sequential {
                true => (flow.ports.0.wrapping_add(1), flow.ports.1.wrapping_add(1)),
                false => ports(cx),
            };
            flow.sent = 0;
        }
        flow.sent += 1;
        flow.ports
    }
    /// Appends up to `max` packets that are due.
    fn make(&mut self, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        if !self.active || self.quota.left() == 0 {
            return;
        }
        let now = cx.now_ns();
        for _ in 0..self.quota.due(max, now) {
            let ports = self.next(cx);
            let Some(packet) = self.frame.packet(ports) else {
                cx.count_drops(1, drops::OUT_OF_MEMORY);
                break;
            };
            out.push(packet);
            self.quota.made(now);
        }
        if self.stop && self.quota.left() == 0 {
            cx.hub().request_stop();
        }
    }
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.quota.reset();
        self.wake(cx);
    }
    fn wake(&self, cx: &mut Cx<'_>) {
        if self.active && self.quota.left() > 0 && !cx.output_is_pull(0) {
            cx.reschedule();
        }
    }
    fn set_length(&mut self, length: u32, cx: &mut Cx<'_>) -> Result<(), String> {
        let length = usize::from(u16::try_from(length).map_err(|_| "length parameter must be below 65536")?);
        if length == self.length {
            return Ok(());
        }
        self.length = length.max(SHORTEST);
        self.frame = UdpFrame::new(self.ethernet, self.addresses, self.length, self.checksum);
        self.begin_flows(cx);
        Ok(())
    }
}

impl Element for FastUdpFlows {
    const CLASS: &'static str = "FastUDPFlows";
    const PORTS: &'static str = "0/1";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("there is no buffer for a packet")];
    const MANUAL: &'static str = manual!("plumbing/fastudpflows");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let rate: u32 = args.mp("RATE")?;
        let limit: i32 = args.mp("LIMIT")?;
        let length = usize::from(args.mp::<u16>("LENGTH")?);
        let (src_eth, src): (EtherAddr, Ipv4Addr) = (args.mp("SRCETH")?, args.mp("SRCIP")?);
        let (dst_eth, dst): (EtherAddr, Ipv4Addr) = (args.mp("DSTETH")?, args.mp("DSTIP")?);
        let flows: u32 = args.mp("FLOWS")?;
        let flow_size: u32 = args.mp("FLOWSIZE")?;
        let checksum = args.p("CHECKSUM")?.unwrap_or(true);
        let active = args.p("ACTIVE")?.unwrap_or(true);
        let flow_burst = args.k_or("FLOWBURST", 1_u32)?;
        let sequential = args.k_or("SEQUENTIAL", false)?;
        let stop = args.k_or("STOP", false)?;
        args.k_or("DUPLICATE", false)?;
        if !(1..=MOST_FLOWS).contains(&flows) {
            return Err(args.error(format!("FLOWS must be between 1 and {MOST_FLOWS}")));
        }
        if length < SHORTEST {
            cx.warn("packet length < 60, defaulting to 60");
        }
        let (ethernet, addresses) = ((src_eth, dst_eth), (src, dst));
        Ok(Self {
            quota: Quota::new(rate, limit),
            length: length.max(SHORTEST),
            ethernet,
            addresses,
            flow_size: flow_size.max(1),
            flow_burst: flow_burst.max(1),
            checksum,
            sequential,
            active,
            stop,
            frame: UdpFrame::new(ethernet, addresses, length, checksum),
            flows: vec![Flow::default(); flows as usize],
            flow: 0,
            following: 0,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| e.quota.count());
        h.read("rate", |e| e.quota.rate());
        h.write("rate", |e, v, cx| {
            e.quota.set_rate(v)?;
            e.wake(cx);
            Ok(())
        });
        h.write("reset", |e, _, cx| {
            e.reset(cx);
            Ok(())
        });
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "active parameter must be boolean")?;
            if e.active {
                e.reset(cx);
            }
            Ok(())
        });
        h.read("limit", |e| e.quota.limit());
        h.write("limit", |e, v, cx| {
            e.quota.set_limit(v)?;
            e.wake(cx);
            Ok(())
        });
        h.read("length", |e| e.length.to_string());
        h.write("length", |e, v, cx| e.set_length(text::value(v, "length parameter must be integer")?, cx));
        h.read("stop", |e| e.stop.to_string());
        h.write("stop", |e, v, _| text::value(v, "syntax error").map(|stop| e.stop = stop));
        h.write("srceth", |e, v, _| {
            e.ethernet.0 = text::value(v, "Invalid argument")?;
            e.frame.set_ethernet(e.ethernet.0, e.ethernet.1);
            Ok(())
        });
        h.write("dsteth", |e, v, _| {
            e.ethernet.1 = text::value(v, "Invalid argument")?;
            e.frame.set_ethernet(e.ethernet.0, e.ethernet.1);
            Ok(())
        });
        h.listed(&["count", "rate", "reset b", "active c", "limit", "srceth", "dsteth", "length", "stop"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.begin_flows(cx);
        self.wake(cx);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut batch = cx.spare_batch();
        self.make(cx.batch_size(), &mut batch, cx);
        if batch.is_empty() {
            cx.recycle(batch);
            match self.quota.wait_ns() {
                Some(wait) if self.active && self.quota.left() > 0 => cx.timer_at(0, cx.now_ns() + wait),
                // There may be a buffer next time.
                _ => self.wake(cx),
            }
            return false;
        }
        cx.output_batch(0, batch);
        self.wake(cx);
        true
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.reschedule();
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.quota.take_over(&old.quota);
        if self.flows.len() == old.flows.len() {
            (self.flow, self.following) = (old.flow, old.following);
            self.flows = std::mem::take(&mut old.flows);
        }
    }
}

impl Vector for FastUdpFlows {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        self.make(max, out, cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use std::collections::HashSet;

    const ADDRESSES: &str = "0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2";

    /// The ports of packets, whose checksums are right.
    fn ports(packets: &[(usize, Vec<u8>)]) -> Vec<(u16, u16)> {
        let ports = |packet: &Vec<u8>| {
            let ip = wire::Ipv4Packet::parse(&packet[14..]).unwrap();
            let datagram = wire::UdpDatagram::parse(ip.payload()).unwrap();
            assert!(ip.verify_checksum() && datagram.verify_checksum(ip.pseudo_sum()));
            assert!(datagram.header().checksum() != 0);
            (datagram.header().src_port(), datagram.header().dst_port())
        };
        packets.iter().map(|(_, packet)| ports(packet)).collect()
    }

    #[test]
    fn flows_take_turns_and_end() {
        let mut bench = Bench::with_config(
            &format!("e :: FastUDPFlows(0, 24, 70, {ADDRESSES}, 3, 4, SEQUENTIAL true, FLOWBURST 2);"),
            0,
            1,
        );
        let packets = bench.run();
        assert_eq!((packets.len(), packets[0].1.len()), (24, 70));
        let all = ports(&packets);
        // Two of each flow, then the next; after four of each, the ports grow.
        for turn in all.chunks(6).take(2) {
            assert!(turn.chunks(2).all(|pair| pair[0] == pair[1]), "{turn:?}");
        }
        assert_eq!(all[..6], all[6..12]);
        let grown: Vec<_> = all[..6].iter().map(|(s, d)| (s.wrapping_add(1), d.wrapping_add(1))).collect();
        assert_eq!(all[12..18], grown);
        assert!(bench.run().is_empty());
        assert_eq!((bench.read("count"), bench.read("limit")), ("24".into(), "24".into()));
        bench.write("length", "100");
        bench.write("dsteth", "0:0:0:0:0:9");
        bench.write("limit", "1");
        bench.write("reset", "");
        let again = bench.run();
        assert_eq!((again.len(), again[0].1.len(), again[0].1[5]), (1, 100, 9));
        assert!(bench.try_write("length", "70000").is_err() && bench.try_write("dsteth", "x").is_err());
    }

    #[test]
    fn there_are_so_many_flows_and_a_rate() {
        let flows = format!("FastUDPFlows(1000, -1, 60, {ADDRESSES}, 8, 1000000)");
        let mut bench = Bench::simulated(&format!("e :: {flows}; TimedSource(0.1) -> Discard;"), 0, 1);
        let mut packets = Vec::new();
        let mut turns = 0;
        while packets.len() < 200 && turns < 5000 {
            bench.turn();
            packets.extend(bench.take().into_iter().map(|(port, packet)| (port, packet.data().to_vec())));
            turns += 1;
        }
        assert!(turns > 50, "as fast as it can");
        assert_eq!(ports(&packets).into_iter().collect::<HashSet<_>>().len(), 8);
        assert!(
            Bench::error(&format!("FastUDPFlows(0, 1, 60, {ADDRESSES}, 0, 1)")).contains("FLOWS must be")
        );
        let short = Bench::new(&format!("FastUDPFlows(0, 1, 20, {ADDRESSES}, 1, 1, false)")).run();
        assert_eq!(short[0].1.len(), 60);
    }
}
