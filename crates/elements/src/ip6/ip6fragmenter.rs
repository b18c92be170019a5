//! # IP6Fragmenter
//! Passes IPv6 packets that are not longer than the MTU.
//!
//! Unlike IPv4's, routers of IPv6 never fragment: the source does, when it is told how much fits (RFC 8200
//! section 5). So a packet that is too long is only rejected, usually to an ICMP6Error which tells the
//! source.
//!
//! ## Synopsis
//! `IP6Fragmenter(MTU)`
//!
//! ## Arguments
//! - `MTU` (*int*, bytes): the longest packet that passes.
//!
//! ## Ports
//! One push input, one or two push outputs. Packets that fit leave by output 0. Others go, unchanged, to
//! output 1 if it is connected; otherwise they are dropped. The packet begins with its IPv6 header.
//!
//! ## Handlers
//! - `drops` (read): packets that were too long.
//! - `fragments` (read): 0.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 1500, LIMIT 1, STOP true)
//!   -> UDPIP6Encap(2001:db8::1, 7, 2001:db8::2, 7)
//!   -> fits :: IP6Fragmenter(1500)
//!   -> Discard;
//! fits [1] -> ICMP6Error(2001:db8::ffff, pkttoobig, 0, PMTU 1500) -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! ICMP6Error, IPFragmenter

use crate::prelude::*;

/// The `IP6Fragmenter` element.
pub struct IP6Fragmenter {
    mtu: usize,
}

impl Element for IP6Fragmenter {
    const CLASS: &'static str = "IP6Fragmenter";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::LONGER_THAN_THE_MTU.when("and output 1 is not connected, so that nobody tells the source")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/ip6fragmenter");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { mtu: args.mp::<u32>("MTU")? as usize })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.stats("drops", |stats| stats.rejected_for(drops::LONGER_THAN_THE_MTU).to_string());
        h.read("fragments", |_| "0".to_owned());
    }
}

impl Step for IP6Fragmenter {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.len() <= self.mtu
    }
}

impl Simple for IP6Fragmenter {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.reject(packet, drops::LONGER_THAN_THE_MTU);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn what_does_not_fit_is_rejected() {
        let mut bench = Bench::new("IP6Fragmenter(100)");
        assert_eq!(bench.push(0, &[6; 100]), [(0, vec![6; 100])]);
        assert_eq!(bench.push(0, &[6; 101]), [(1, vec![6; 101])]);
        assert_eq!((bench.read("drops"), bench.read("fragments")), ("1".into(), "0".into()));
        let mut alone = Bench::with_ports("IP6Fragmenter(100)", 1, 1);
        assert!(alone.push(0, &[6; 101]).is_empty());
        assert_eq!(alone.drops(), [("longer than the MTU".to_owned(), 1)]);
    }
}
