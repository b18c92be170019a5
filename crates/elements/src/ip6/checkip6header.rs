//! # CheckIP6Header
//! Checks the IPv6 header of packets and marks where it is.
//!
//! ## Synopsis
//! `CheckIP6Header([BADADDRS, OFFSET, PROCESS_EH, VERBOSE, DETAILS])`
//!
//! ## Arguments
//! - `BADADDRS` (*list of IPv6 addresses*, separated by spaces, default empty): sources that no packet may
//!   have. For a router these are at least `::` and its own addresses.
//! - `OFFSET` (*int*, bytes, default 0): where the header begins.
//! - `PROCESS_EH` (*bool*, keyword, default false): whether the transport header is marked behind the
//!   extension headers, rather than right behind the fixed header.
//! - `VERBOSE` (*bool*, keyword, default false): whether to print a line for every bad packet; otherwise only
//!   for the first one.
//! - `DETAILS` (*bool*, keyword, default false): whether the `drop_details` handler may be read.
//!
//! ## Ports
//! One input, one or two outputs. A good packet is cut to its IPv6 length (which removes the padding of short
//! Ethernet frames), its header is marked, and it leaves by output 0. A bad packet goes, unchanged, to output
//! 1 (push) if it is connected; otherwise it is dropped.
//!
//! Checked are the length of the packet, the version, the payload length and the source: besides those of
//! `BADADDRS`, no multicast address is a source (RFC 4291 section 2.7). The destination annotation is not
//! set: see GetIP6Address.
//!
//! ## Handlers
//! - `count` (read): good packets.
//! - `drops` (read): bad packets.
//! - `drop_details` (read): a line `COUNT<tab>REASON` for each reason.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00043b40 20010db8000000000000000000000001 20010db8000000000000000000000002 00000000>,
//!     LIMIT 1, STOP true)
//!   -> check :: CheckIP6Header(::, DETAILS true)
//!   -> IP6Print -> Discard;
//! check [1] -> Print(bad) -> Discard;
//! ```
//!
//! ## See also
//! MarkIP6Header, GetIP6Address, DecIP6HLIM, CheckIPHeader

use crate::drops::Details;
use crate::prelude::*;
use lang::args::FromArg;
use std::net::Ipv6Addr;
use std::sync::Arc;
use wire::Ipv6;
use wire::ipv6::{HEADER_LEN, upper};

const TINY: DropReason = DropReason::new("tiny packet");
const BAD_VERSION: DropReason = DropReason::new("bad IP version");
const BAD_SOURCE: DropReason = DropReason::new("bad source address");

/// The `CheckIP6Header` element.
pub struct CheckIP6Header {
    offset: usize,
    bad: Vec<Ipv6Addr>,
    extensions: bool,
    verbose: bool,
    good: Counter,
    details: Arc<Details>,
}

impl Element for CheckIP6Header {
    const CLASS: &'static str = "CheckIP6Header";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const SETS: Fields = Fields::IP_HEADERS;
    const DROPS: &'static [DropCase] = &[
        TINY.when("shorter than an IPv6 header"),
        BAD_VERSION.when("not 6"),
        drops::BAD_IP_LENGTH.when("the payload is longer than the packet"),
        BAD_SOURCE.when("the source is a multicast address, or one that `BADADDRS` forbids"),
    ];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/checkip6header");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let bad = args.with("BADADDRS", false, true, |text, names| {
            let words = lang::args::split_words(text);
            words.iter().map(|w| Ipv6Addr::from_arg(&w.text, names)).collect::<Result<Vec<_>, _>>()
        })?;
        let offset = args.p::<u32>("OFFSET")?.unwrap_or(0) as usize;
        let details = args.k("DETAILS")?.unwrap_or(false);
        Ok(Self {
            offset,
            bad: bad.unwrap_or_default(),
            extensions: args.k("PROCESS_EH")?.unwrap_or(false),
            verbose: args.k("VERBOSE")?.unwrap_or(false),
            good: Counter::new(),
            details: Details::of(cx, details),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.good);
        Details::handlers(h);
        h.listed(&["count", "drops"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.good.set(old.good.get());
    }
}

impl CheckIP6Header {
    /// Checks a packet. If it is valid: marks its header and cuts it to its IPv6 length.
    ///
    /// # Errors
    /// The first of `DROPS` that applies; the packet is then unchanged.
    #[inline(always)]
    fn admit(&self, packet: &mut Packet) -> Result<(), DropReason> {
        let bytes = packet.data().get(self.offset..).unwrap_or(&[]);
        let h = Ipv6::new(bytes).ok_or(TINY)?;
        if h.version() != 6 {
            return Err(BAD_VERSION);
        }
        let len = HEADER_LEN + usize::from(h.payload_len());
        let whole = bytes.get(..len).ok_or(drops::BAD_IP_LENGTH)?;
        let src = h.src();
        if src.is_multicast() || !self.bad.is_empty() && self.bad.contains(&src) {
            return Err(BAD_SOURCE);
        }
        let header_len =
            if self.extensions { upper(whole).map_or(HEADER_LEN, |u| u.offset.min(len)) } else { HEADER_LEN };
        let excess = bytes.len() - len;
        if excess > 0 {
            packet.take(excess);
        }
        packet.set_network_header(self.offset, header_len);
        Ok(())
    }

    #[cold]
    fn bad(&mut self, packet: Packet, reason: DropReason, cx: &mut Cx<'_>) {
        if self.verbose || self.details.is_first() {
            cx.log(Level::WARN, "IP6 header check failed");
        }
        cx.reject(packet, reason);
    }
}

impl Step for CheckIP6Header {
    #[inline(always)]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let good = self.admit(packet).is_ok();
        self.good.add(u64::from(good));
        good
    }
}

impl Simple for CheckIP6Header {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match self.admit(&mut packet) {
            Ok(()) => {
                self.good.add(1);
                Some(packet)
            }
            Err(reason) => {
                self.bad(packet, reason, cx);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::{a, ip6, ip6_with};
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn marks_and_cuts_good_packets() {
        let mut bench = Bench::new("CheckIP6Header(OFFSET 14)");
        let good = ip6(17, b"payload");
        let frame = [&[0; 14], &good[..], &[0; 13]].concat();
        let out = bench.send(0, Packet::from_bytes(&frame).unwrap());
        let (port, packet) = &out[0];
        assert_eq!((*port, packet.len()), (0, 14 + good.len()));
        assert_eq!(packet.network_header(), Some(&good[..]));
        assert_eq!(packet.transport_header(), Some(&b"payload"[..]));
        assert_eq!((bench.read("count"), bench.read("drops")), ("1".into(), "0".into()));
    }

    #[test]
    fn tells_bad_packets_apart() {
        let mut bench = Bench::new("CheckIP6Header(:: 2001:db8::bad, DETAILS true)");
        let lines = bench.listen();
        let good = ip6(17, b"payload");
        let mut version = good.clone();
        version[0] = 0x45;
        let from = |src: &str| ip6_with(17, b"", |h| h.set_src(a(src)));
        let bad = [
            good[..39].to_vec(),
            version,
            good[..46].to_vec(),
            ip6_with(17, b"payload", |h| h.set_payload_len(8)),
            ip6_with(17, b"payload", |h| h.set_payload_len(65535)),
            from("::"),
            from("2001:db8::bad"),
            from("ff02::1"),
        ];
        for bytes in &bad {
            assert_eq!(bench.push(0, bytes), [(1, bytes.clone())]);
        }
        assert_eq!(bench.push(0, &from("2001:db8::bae"))[0].0, 0);
        assert_eq!(bench.read("drops"), "8");
        assert_eq!(
            bench.read("drop_details"),
            "1\ttiny packet\n1\tbad IP version\n3\tbad IP length\n3\tbad source address\n"
        );
        assert!(lines.lock().unwrap().iter().filter(|l| l.contains("IP6 header check failed")).count() == 1);
    }

    #[test]
    fn marks_the_transport_header_behind_extensions() {
        let bytes = ip6(0, &[[17, 0, 1, 4, 0, 0, 0, 0], [9; 8]].concat());
        let at = |declaration| {
            Bench::new(declaration).send(0, Packet::from_bytes(&bytes).unwrap())[0]
                .1
                .transport_header_offset()
        };
        assert_eq!(at("CheckIP6Header()"), Some(40));
        assert_eq!(at("CheckIP6Header(PROCESS_EH true)"), Some(48));
    }

    #[test]
    fn wants_addresses() {
        assert!(Bench::error("CheckIP6Header(10.0.0.1)").contains("BADADDRS"));
        let mut alone = Bench::with_ports("CheckIP6Header()", 1, 1);
        assert!(alone.push(0, b"").is_empty());
        assert_eq!(alone.drops(), [("tiny packet".to_owned(), 1)]);
    }
}
