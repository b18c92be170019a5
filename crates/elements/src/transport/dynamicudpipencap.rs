//! # DynamicUDPIPEncap
//! Puts a UDP and an IP header in front of packets, whose ports change from time to time.
//!
//! ## Synopsis
//! `DynamicUDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM, INTERVAL])`
//!
//! ## Arguments
//! - `SRC` (*IP address*): the source address.
//! - `SPORT` (*UDP port*, number or name): the first source port.
//! - `DST` (*IP address*): the destination address.
//! - `DPORT` (*UDP port*, number or name): the first destination port.
//! - `CHECKSUM` (*bool*, default true): whether to compute the UDP checksum.
//! - `INTERVAL` (*int*, default 0): after so many packets both ports become greater by one; 0: never.
//!
//! ## Ports
//! One input, one output; agnostic. The IP header is marked, and the destination annotation set to `DST`. The
//! TTL is 250. Identifications count up by one from packet to packet, from 0; with N workers, each uses every
//! N-th one.
//!
//! ## Threads
//! Each worker has its own instance; the packets of all workers count for `INTERVAL`.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 4, STOP true)
//!   -> DynamicUDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234, true, 2)
//!   -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! UDPIPEncap, IPEncap, Strip

use super::udpipencap::{CASES, UDPIPEncap};
use crate::prelude::*;
use lang::args::UdpPort;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many packets all workers have encapsulated.
#[derive(Default)]
struct Count(AtomicU32);

/// The `DynamicUDPIPEncap` element.
pub struct DynamicUDPIPEncap {
    encap: UDPIPEncap,
    ports: (u16, u16),
    /// After how many packets the ports change.
    interval: Option<NonZeroU32>,
    count: Arc<Count>,
}

impl Element for DynamicUDPIPEncap {
    const CLASS: &'static str = "DynamicUDPIPEncap";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::IP_HEADERS);
    const SETS: Fields = Fields::DST_IP.with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] = &CASES;
    const MANUAL: &'static str = manual!("transport/dynamicudpipencap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let src = args.mp("SRC")?;
        let UdpPort(sport) = args.mp("SPORT")?;
        let dst: Ipv4Addr = args.mp("DST")?;
        let UdpPort(dport) = args.mp("DPORT")?;
        let checksum = args.p_or("CHECKSUM", true)?;
        let interval = NonZeroU32::new(args.p_or("INTERVAL", 0)?);
        let encap = UDPIPEncap::new((src, sport), (Some(dst), dport), checksum, cx);
        Ok(Self { encap, ports: (sport, dport), interval, count: cx.shared(Count::default) })
    }
}

impl Simple for DynamicUDPIPEncap {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(interval) = self.interval {
            let n = self.count.0.fetch_add(1, Ordering::Relaxed) / interval;
            let (sport, dport) = self.ports;
            self.encap.set_ports(sport.wrapping_add(n as u16), dport.wrapping_add(n as u16));
        }
        self.encap.packet(packet, cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// The ports of a packet, and whether it has a checksum.
    fn ports(bench: &mut Bench) -> (u16, u16, bool) {
        let out = bench.push(0, b"data").remove(0).1;
        let number = |at: usize| u16::from_be_bytes([out[at], out[at + 1]]);
        assert_eq!((out.len(), out[8], out[9]), (32, 250, 17));
        (number(20), number(22), number(26) != 0)
    }

    #[test]
    fn ports_change_after_each_interval() {
        let mut bench = Bench::new("DynamicUDPIPEncap(1.0.0.1, 10, 2.0.0.2, 65535, true, 2)");
        for expected in [(10, 65535), (10, 65535), (11, 0), (11, 0), (12, 1)] {
            assert_eq!(ports(&mut bench), (expected.0, expected.1, true));
        }
        let mut bench = Bench::new("DynamicUDPIPEncap(1.0.0.1, 10, 2.0.0.2, 20, false)");
        assert_eq!([ports(&mut bench), ports(&mut bench)], [(10, 20, false); 2]);
        assert!(bench.push(0, &[0; 65_508]).is_empty());
        assert_eq!(bench.drops(), [("packet too long".to_owned(), 1)]);
    }
}
