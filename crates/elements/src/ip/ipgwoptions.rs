//! # IPGWOptions
//! Does a gateway's part of the IP options Record Route and Timestamp.
//!
//! ## Synopsis
//! `IPGWOptions(MYADDR, [OTHERADDRS])`
//!
//! ## Arguments
//! - `MYADDR` (*IP address*): the address to record, that of the interface that the packet leaves by.
//! - `OTHERADDRS` (*list of IP addresses*, default empty): the router's other addresses; they matter for
//!   timestamps with pre-specified addresses.
//!
//! ## Ports
//! One input, one or two outputs. Packets without options pass at once. Options other than the two are left
//! alone. A packet with a malformed option, or with no room for another overflow count, goes to output 1
//! (push) if it is connected, with the ICMP parameter pointer annotation on the bad byte; otherwise it is
//! dropped. The IP header must have been marked.
//!
//! ## Handlers
//! - `drops` (read): packets with bad options.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<46000020 00000000 40110000 0a000001 0a000002 01010100 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader
//!   -> options :: IPGWOptions(10.0.0.254, 10.1.0.254)
//!   -> Discard;
//! options [1] -> Discard;
//! ```
//!
//! ## See also
//! ICMPError, IPOutputCombo

use super::engine::header::{fill_checksum, header, whole_header_mut};
use super::engine::options;
use crate::prelude::*;
use std::net::Ipv4Addr;

const BAD_IP_OPTIONS: DropReason = DropReason::new("bad IP options");

/// The `IPGWOptions` element.
pub struct IPGWOptions {
    my_address: Ipv4Addr,
    mine: Vec<Ipv4Addr>,
}

impl Element for IPGWOptions {
    const CLASS: &'static str = "IPGWOptions";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA.with(Fields::ICMP_PARAM_PTR);
    const DROPS: &'static [DropCase] = &[
        BAD_IP_OPTIONS.when("an option is malformed, or has no room for another overflow count"),
        drops::NO_WHOLE_IP_HEADER,
    ];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/ipgwoptions");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let my_address = args.mp("MYADDR")?;
        let mut mine: Vec<Ipv4Addr> = args.p("OTHERADDRS")?.unwrap_or_default();
        mine.push(my_address);
        Ok(Self { my_address, mine })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.stats("drops", |stats| stats.rejected_for(BAD_IP_OPTIONS).to_string());
    }
}

/// Fills in the options of the marked header. A bad option is annotated, and `false` returned.
///
/// `None`: there is no header, or it is shorter than its length field says.
pub(super) fn fill(
    packet: &mut Packet,
    my_address: Ipv4Addr,
    mine: &[Ipv4Addr],
    now_ns: u64,
) -> Option<bool> {
    match options::fill(whole_header_mut(packet)?, my_address, mine, options::ms_of_day(now_ns)) {
        Ok(changed) => {
            if changed {
                fill_checksum(packet);
            }
            Some(true)
        }
        Err(place) => {
            packet.anno_mut().set_icmp_param_ptr(place);
            Some(false)
        }
    }
}

impl Step for IPGWOptions {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        header(packet).is_some_and(|h| h.version_ihl() & 15 <= 5)
    }
}

impl Simple for IPGWOptions {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) { Some(packet) } else { self.options(packet, cx) }
    }
}

impl IPGWOptions {
    #[cold]
    fn options(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match fill(&mut packet, self.my_address, &self.mine, cx.now_ns()) {
            Some(true) => return Some(packet),
            Some(false) => {
                cx.reject(packet, BAD_IP_OPTIONS);
            }
            None => cx.drop(packet, drops::NO_IP_HEADER),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;

    #[test]
    fn records_its_address() {
        let mut bench = Bench::new("IPGWOptions(1.2.3.4, 5.6.7.8)");
        let out = bench.push_packet(0, marked(&ip_with(&[7, 7, 4, 0, 0, 0, 0, 0], b"x", |_| ())));
        assert_eq!((out[0].0, &out[0].1[20..28]), (0, &[7, 7, 8, 1, 2, 3, 4, 0][..]));
        assert!(sound(&out[0].1));
        let out =
            bench.push_packet(0, marked(&ip_with(&[68, 12, 5, 3, 5, 6, 7, 8, 0, 0, 0, 0], b"x", |_| ())));
        assert_eq!(out[0].1[22], 13);
        assert!(sound(&out[0].1));
    }

    #[test]
    fn points_at_bad_options() {
        let mut bench = Bench::new("IPGWOptions(1.2.3.4)");
        let out = bench.send(0, marked(&ip_with(&[1, 7, 2, 0], b"", |_| ())));
        assert_eq!((out[0].0, out[0].1.anno().icmp_param_ptr()), (1, 23));
        assert_eq!(bench.read("drops"), "1");
    }

    #[test]
    fn passes_plain_packets_and_drops_stumps() {
        let mut bench = Bench::new("IPGWOptions(1.2.3.4)");
        let bytes = ip(17, b"x");
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, bytes.clone())]);
        let mut long = bytes;
        long[0] = 0x4f;
        assert!(bench.push_packet(0, marked(&long)).is_empty());
        assert!(bench.push(0, b"").is_empty());
        assert_eq!(bench.drops(), [("no IP header".to_owned(), 2)]);
    }
}
