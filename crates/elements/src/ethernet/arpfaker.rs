//! # ARPFaker
//! Sends ARP replies that nobody asked for, to one host.
//!
//! The first is sent after a second, and then one every ten seconds: they keep an entry in the host's ARP
//! table.
//!
//! ## Synopsis
//! `ARPFaker(DSTIP, DSTETH, SRCIP, SRCETH)`
//!
//! ## Arguments
//! - `DSTIP` (*IP address*), `DSTETH` (*Ethernet address*): the host that gets the replies.
//! - `SRCIP` (*IP address*), `SRCETH` (*Ethernet address*): what they say: `SRCIP` is at `SRCETH`.
//!
//! ## Ports
//! No input, one push output.
//!
//! ## Threads
//! One instance, on one worker.
//!
//! ## Example
//! ```click
//! ARPFaker(10.0.0.1, 1:1:1:1:1:1, 10.0.0.2, 2:2:2:2:2:2) -> Queue -> Discard;
//! ```
//!
//! ## See also
//! ARPResponder, ARPQuerier, ARPPrint

use crate::prelude::*;
use lang::args::EtherAddr as EtherArg;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::ethernet::ETHERTYPE_ARP;
use wire::{Arp, EtherAddr, Ethernet};

/// The `ARPFaker` element.
pub struct ArpFaker {
    reply: Vec<u8>,
}

impl Element for ArpFaker {
    const CLASS: &'static str = "ARPFaker";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const READS: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("there was no buffer for a reply")];
    const MANUAL: &'static str = manual!("ethernet/arpfaker");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let dst_ip: Ipv4Addr = args.mp("DSTIP")?;
        let dst = EtherAddr(args.mp::<EtherArg>("DSTETH")?.0);
        let src_ip: Ipv4Addr = args.mp("SRCIP")?;
        let src = EtherAddr(args.mp::<EtherArg>("SRCETH")?.0);
        let frame = Ethernet::build(dst, src, ETHERTYPE_ARP);
        let arp = Arp::reply(src, src_ip, dst, dst_ip);
        Ok(Self { reply: [&frame.bytes()[..], &arp.bytes()[..]].concat() })
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.timer_after(0, Duration::from_secs(1));
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        match Packet::from_bytes(&self.reply) {
            Some(packet) => cx.output(0, packet),
            None => cx.count_drops(1, drops::OUT_OF_MEMORY),
        }
        cx.timer_after(0, Duration::from_secs(10));
    }
}

impl Vector for ArpFaker {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn sends_replies() {
        let config = "e :: ARPFaker(10.0.0.1, 1:1:1:1:1:1, 10.0.0.2, 2:2:2:2:2:2);";
        let mut bench = Bench::simulated(config, 0, 1);
        let (end, mut out) = (bench.router().now_ns() + 22_000_000_000, Vec::new());
        for _ in 0..10_000 {
            let now = bench.turns(1);
            if bench.router().now_ns() < end {
                out.extend(now);
            }
        }
        let expected = [
            &[1u8; 6][..],
            &[2; 6],
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
            &[2; 6],
            &[10, 0, 0, 2],
            &[1; 6],
            &[10, 0, 0, 1],
        ];
        assert_eq!(out, vec![(0, expected.concat()); 3]);
    }
}
