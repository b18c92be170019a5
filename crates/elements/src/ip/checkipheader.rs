//! # CheckIPHeader
//! Checks the IP header of packets and marks where it is.
//!
//! ## Synopsis
//! `CheckIPHeader([OFFSET, INTERFACES, BADSRC, GOODDST, CHECKSUM, VERBOSE, DETAILS])`
//!
//! `CheckIPHeader2(...)` is the same with `CHECKSUM` false by default.
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes, default 0): where the header begins; by position or keyword.
//! - `INTERFACES` (*list of IP prefixes*, keyword): the router's own addresses with their networks, separated
//!   by spaces. Equivalent to a `BADSRC` of the networks' broadcast addresses, 0.0.0.0 and 255.255.255.255,
//!   and a `GOODDST` of the addresses.
//! - `BADSRC` (*list of IP addresses*, keyword, default empty): sources that no packet may have.
//! - `GOODDST` (*list of IP addresses*, keyword, default empty): packets to these may have a bad source.
//! - `CHECKSUM` (*bool*, keyword, default true): whether to check the header checksum.
//! - `VERBOSE` (*bool*, keyword, default false): whether to print a line for every bad packet; otherwise only
//!   for the first one.
//! - `DETAILS` (*bool*, keyword, default false): whether the `drop_details` handler may be read.
//!
//! ## Ports
//! One input, one or two outputs. A good packet is cut to its IP length (which removes the padding of short
//! Ethernet frames), its IP header is marked, its destination annotation is set to its destination, and it
//! leaves by output 0. A bad packet goes, unchanged, to output 1 (push) if it is connected; otherwise it is
//! dropped.
//!
//! Checked are the version, the header length, the total length, the checksum and the source (RFC 1812
//! §5.2.2, §5.3.7). A fragment that ends beyond byte 65,535 of its datagram has a bad length: no datagram is
//! that long, and a program that adds offset and length in 16 bits would put it at the datagram's beginning.
//!
//! ## Handlers
//! - `drops` (read): bad packets.
//! - `drop_details` (read): a line `COUNT<tab>REASON` for each reason.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 401166cf 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> check :: CheckIPHeader(INTERFACES 10.0.0.254/24, DETAILS true)
//!   -> Discard;
//! check [1] -> Print(bad) -> Discard;
//! ```
//!
//! ## See also
//! MarkIPHeader, StripIPHeader, SetIPChecksum, IPInputCombo, CheckTCPHeader, CheckUDPHeader, CheckICMPHeader

use super::engine::header::{CASES, Sources, admit};
use crate::drops::Details;
use crate::prelude::*;
use std::sync::Arc;

/// The `CheckIPHeader` element; without `CHECKSUM` it is `CheckIPHeader2`.
pub struct CheckIPHeader<const CHECKSUM: bool> {
    offset: usize,
    sources: Sources,
    checksum: bool,
    verbose: bool,
    details: Arc<Details>,
}

impl<const CHECKSUM: bool> Element for CheckIPHeader<CHECKSUM> {
    const CLASS: &'static str = if CHECKSUM { "CheckIPHeader" } else { "CheckIPHeader2" };
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::DST_IP);
    const SETS: Fields = Fields::IP_HEADERS.with(Fields::DST_IP);
    const DROPS: &'static [DropCase] = &CASES;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/checkipheader");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let sources = Sources::from_args(args)?;
        let mut offset = args.k::<u32>("OFFSET")?;
        let verbose = args.k("VERBOSE")?.unwrap_or(false);
        let details = args.k("DETAILS")?.unwrap_or(false);
        let checksum = args.k("CHECKSUM")?.unwrap_or(CHECKSUM);
        // By position there is only the offset, and only as a number.
        match &args.rest_args()[..] {
            [] => {}
            [only] if let Ok(n) = lang::args::parse::<u32>(&only.text) => offset = Some(n),
            _ => return Err(args.error("too many arguments")),
        }
        let details = Details::of(cx, details);
        Ok(Self { offset: offset.unwrap_or(0) as usize, sources, checksum, verbose, details })
    }

    fn handlers(h: &mut Handlers<Self>) {
        Details::handlers(h);
    }
}

impl<const CHECKSUM: bool> CheckIPHeader<CHECKSUM> {
    #[cold]
    fn bad(&mut self, packet: Packet, reason: DropReason, cx: &mut Cx<'_>) {
        if self.verbose || self.details.is_first() {
            cx.log(Level::WARN, &format!("{}: IP header check failed: {reason}", cx.name()));
        }
        cx.reject(packet, reason);
    }
}

impl<const CHECKSUM: bool> Step for CheckIPHeader<CHECKSUM> {
    #[inline(always)]
    fn step(&mut self, packet: &mut Packet) -> bool {
        admit(packet, self.offset, self.checksum, &self.sources).is_ok()
    }
}

impl<const CHECKSUM: bool> Simple for CheckIPHeader<CHECKSUM> {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match admit(&mut packet, self.offset, self.checksum, &self.sources) {
            Ok(()) => Some(packet),
            Err(reason) => {
                self.bad(packet, reason, cx);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with};
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn marks_cuts_and_annotates_good_packets() {
        let mut bench = Bench::new("CheckIPHeader(14)");
        let good = ip(17, b"payload");
        let mut frame = vec![0; 14];
        frame.extend_from_slice(&good);
        let length = frame.len();
        frame.extend_from_slice(&[0; 19]);
        let out = bench.send(0, Packet::from_bytes(&frame).unwrap());
        let (port, packet) = &out[0];
        assert_eq!((*port, packet.len()), (0, length));
        assert_eq!(packet.network_header(), Some(&good[..]));
        assert_eq!(packet.transport_header(), Some(&b"payload"[..]));
        assert_eq!(packet.dst_ip(), [10, 0, 0, 2]);
    }

    #[test]
    fn tells_bad_packets_apart() {
        let mut bench = Bench::new("CheckIPHeader(DETAILS true, BADSRC 9.9.9.9)");
        let good = ip(17, b"payload");
        let with = |at: usize, value: u8| {
            let mut b = good.clone();
            b[at] = value;
            b
        };
        let bad = [
            good[..19].to_vec(),
            with(0, 0x65),
            with(0, 0x44),
            with(0, 0x4f),
            with(3, 28),
            with(3, 19),
            with(8, 63),
            ip_with(&[], b"", |h| h.set_src([9, 9, 9, 9].into())),
        ];
        for bytes in &bad {
            assert_eq!(bench.push(0, bytes), [(1, bytes.clone())]);
        }
        assert_eq!(bench.read("drops"), "8");
        assert_eq!(
            bench.read("drop_details"),
            "1\ttiny packet\n1\tbad IP version\n1\tbad IP header length\n3\tbad IP length\n1\tbad IP checksum\n1\tbad source address\n"
        );
    }

    #[test]
    fn refuses_fragments_behind_the_end_of_any_datagram() {
        for element in ["CheckIPHeader()", "CheckIPHeader2()", "IPInputCombo(1)"] {
            let combo = element.starts_with("IPInputCombo");
            let mut bench = Bench::new(element);
            for (offset, payload, more) in
                [(64_984, 1132, false), (65_528, 1, false), (65_528, 8, true), (65_512, 4, false)]
            {
                let bytes = ip_with(&[], &vec![7; payload], |h| {
                    h.set_fragment_offset(offset);
                    h.set_more_fragments(more);
                });
                let frame = if combo { [&[0; 14], &bytes[..]].concat() } else { bytes };
                assert!(bench.push(0, &frame).iter().all(|o| o.0 == 1), "{element} {offset} {payload}");
            }
            // The last that fits.
            let bytes = ip_with(&[], &[7; 3], |h| h.set_fragment_offset(65_512));
            let frame = if combo { [&[0; 14], &bytes[..]].concat() } else { bytes };
            assert_eq!(bench.push(0, &frame)[0].0, 0, "{element}");
            assert_eq!(bench.read("drops"), "4");
        }
    }

    #[test]
    fn drops_without_a_second_output() {
        let mut bench = Bench::with_ports("CheckIPHeader()", 1, 1);
        assert!(bench.push(0, b"").is_empty());
        assert_eq!(bench.drops(), [("tiny packet".to_owned(), 1)]);
        assert!(bench.try_read("drop_details").is_err());
    }

    #[test]
    fn interfaces_make_bad_sources_and_good_destinations() {
        let mut bench = Bench::new("CheckIPHeader(INTERFACES 10.0.0.2/24 10.1.0.1/16)");
        let from = |src: [u8; 4], dst: [u8; 4]| {
            ip_with(&[], b"", |h| {
                h.set_src(src.into());
                h.set_dst(dst.into());
            })
        };
        for src in [[10, 0, 0, 255], [10, 1, 255, 255], [0; 4], [255; 4]] {
            assert_eq!(bench.push(0, &from(src, [1, 1, 1, 1]))[0].0, 1, "{src:?}");
            assert_eq!(bench.push(0, &from(src, [10, 0, 0, 2]))[0].0, 0, "{src:?}");
        }
        assert_eq!(bench.push(0, &from([10, 0, 0, 2], [1, 1, 1, 1]))[0].0, 0);
    }

    #[test]
    fn checksum_is_optional() {
        let mut bytes = ip(17, b"");
        bytes[10] ^= 1;
        assert_eq!(Bench::new("CheckIPHeader()").push(0, &bytes)[0].0, 1);
        assert_eq!(Bench::new("CheckIPHeader(CHECKSUM false)").push(0, &bytes)[0].0, 0);
        assert_eq!(Bench::new("CheckIPHeader2()").push(0, &bytes)[0].0, 0);
        assert_eq!(Bench::new("CheckIPHeader2(CHECKSUM true)").push(0, &bytes)[0].0, 1);
    }

    #[test]
    fn the_older_syntax_is_refused() {
        let mut bench = Bench::new("CheckIPHeader(2)");
        let mut bytes = vec![0, 0];
        bytes.extend(ip(17, b""));
        assert_eq!(bench.push(0, &bytes)[0].0, 0);
        for wrong in ["10.0.0.1 10.0.0.9, 2", "10.0.0.1", "zonk", "1.1.1.1, 2, 3"] {
            assert!(
                Bench::error(&format!("CheckIPHeader({wrong})")).contains("too many arguments"),
                "{wrong}"
            );
        }
    }
}
