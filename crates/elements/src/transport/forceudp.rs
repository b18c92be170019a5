//! # ForceUDP
//! Makes packets look like UDP packets.
//!
//! For tests with random packets: what other elements check first becomes right.
//!
//! ## Synopsis
//! `ForceUDP([DPORT])`
//!
//! ## Arguments
//! - `DPORT` (*UDP port*, number or name, default -1): the destination port; -1 gives each packet a random
//!   one below 1024.
//!
//! ## Ports
//! One input, one output; agnostic. The input takes packets whose IP header is marked; the protocol is not
//! changed. The UDP length becomes that of the IP payload, and the checksum is set. For a packet whose IP
//! payload is shorter than 8 bytes a line is printed.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> ForceIP -> ForceUDP(53) -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! ForceIP, ForceTCP, ForceICMP, SetUDPChecksum

use super::engine::force;
use crate::prelude::*;
use lang::args::UdpPort;
use wire::{Udp, udp};

/// The `ForceUDP` element.
pub struct ForceUDP {
    dport: Option<u16>,
}

impl Element for ForceUDP {
    const CLASS: &'static str = "ForceUDP";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &force::CASES;
    const MANUAL: &'static str = manual!("transport/forceudp");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        if args.list().first().is_some_and(|first| first.text == "-1") {
            args.ignore_rest();
            return Ok(Self { dport: None });
        }
        Ok(Self { dport: args.p::<UdpPort>("DPORT")?.map(|port| port.0) })
    }
}

impl Simple for ForceUDP {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        force::change(packet, udp::HEADER_LEN, cx, |datagram, pseudo, cx| {
            let len = datagram.len() as u16;
            let Some(mut h) = Udp::new_mut(datagram) else { return };
            h.set_length(len);
            h.set_dst_port(self.dport.unwrap_or_else(|| (cx.random() >> 54) as u16));
            udp::fill(pseudo, datagram);
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;
    use crate::transport::engine::datagram::Datagram;

    #[test]
    fn sets_length_port_and_checksum() {
        for config in ["ForceUDP(domain)", "ForceUDP", "ForceUDP(-1)"] {
            let mut bench = Bench::new(config);
            let mut ports = Vec::new();
            for _ in 0..20 {
                let mut bytes = ip(17, &[0xee; 13]);
                bytes.extend([9; 5]);
                let out = bench.send(0, marked(&bytes)).remove(0).1;
                let d = Datagram::of(&out).unwrap();
                assert_eq!(d.rest[4..6], [0, 13], "padding does not count");
                assert!(d.rest[6..8] != [0xee, 0xee] && wire::udp::verify(d.pseudo_sum(13), &d.rest[..13]));
                ports.push(u16::from_be_bytes([d.rest[2], d.rest[3]]));
            }
            if config.contains("domain") {
                assert_eq!(ports, [53; 20]);
            } else {
                assert!(
                    ports.iter().all(|p| *p < 1024) && ports[1..].iter().any(|p| *p != ports[0]),
                    "{ports:?}"
                );
            }
        }
        assert!(Bench::error("ForceUDP(65536)").contains("DPORT"));
        assert!(Bench::error("ForceUDP(1, 2)").contains("too many arguments"));
    }
}
