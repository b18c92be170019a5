//! # ICMPError
//! Answers packets with ICMP error messages.
//!
//! ## Synopsis
//! `ICMPError(SRC, TYPE, [CODE, BADADDRS, MTU, PMTU, SET_FIX_ANNO, RATE])`
//!
//! ## Arguments
//! - `SRC` (*IP address*): the source of the messages.
//! - `TYPE` (*ICMP type*, number or name): what is reported: `unreachable` (3), `sourcequench` (4),
//!   `redirect` (5), `timeexceeded` (11) or `parameterproblem` (12).
//! - `CODE` (*ICMP code*, 0 to 255 or name, default 0): the details. Names for `unreachable` are `net` (0),
//!   `host` (1), `protocol` (2), `port` (3), `needfrag` (4) and others; for `redirect` `net` (0), `host` (1);
//!   for `timeexceeded` `transit` (0), `reassembly` (1); for `parameterproblem` `erroratptr` (0),
//!   `missingopt` (1), `length` (2).
//! - `BADADDRS` (*list of IP addresses*, default empty): packets from or to these are not answered; usually
//!   the broadcast addresses of the networks around.
//! - `MTU` (*int*, bytes, keyword, default 576): how long a message may be. By default what every host
//!   accepts (RFC 1812 §4.3.2.3).
//! - `PMTU` (*int*, bytes, keyword, default 0): the next hop's MTU, which `unreachable` with `needfrag`
//!   contains (RFC 1191).
//! - `SET_FIX_ANNO` (*bool*, keyword, default true): whether to set the Fix IP Source annotation, so that
//!   FixIPSrc puts in the address of the interface that the message leaves by.
//! - `RATE` (*int*, messages per second, keyword, default 1000): how many messages are sent at most (RFC 1812
//!   §4.3.2.8). 0 is no limit, which is also the default under the name `click`, because Click has none.
//!   After a silence as many may follow each other at once as make 50 ms at that rate, and one at least: 50
//!   by default.
//!
//! ## Ports
//! One input, one output; agnostic. The input takes packets whose IP header is marked. The output emits IP
//! packets with the error, addressed to the source of the bad packet, for the routing table to send; the
//! destination, timestamp and Fix IP Source annotations are set. A message quotes as much of the bad packet
//! as fits.
//!
//! A `redirect` contains the gateway in the bad packet's destination annotation. A `parameterproblem` with
//! `erroratptr` points to the byte in the parameter problem annotation, which IPGWOptions sets. The answer to
//! a packet that came by a source route takes the reversed route, unless that option is the problem (RFC 1812
//! §4.3.2.6).
//!
//! No answer gets (RFC 1812 §4.3.2.7): an ICMP error, a fragment other than the first, a packet to a
//! multicast or broadcast address or frame, one whose source is not a single host; nor is a source-routed
//! packet redirected (§5.2.7.2).
//!
//! ## Handlers
//! - `src` (read/write): the `SRC` argument.
//! - `mtu` (read/write): the `MTU` argument.
//! - `pmtu` (read/write): the `PMTU` argument.
//! - `rate` (read/write): the `RATE` argument.
//!
//! ## Threads
//! Each worker has its own; the limit is one for all workers together, a token bucket that they share. A
//! packet beyond the limit only reads it. Identifications count up over all ICMPErrors of a worker.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 0111a5ce 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader
//!   -> ttl :: DecIPTTL
//!   -> Discard;
//! ttl [1] -> ICMPError(18.26.4.24, timeexceeded) -> Print(answer) -> Discard;
//! ```
//!
//! ## See also
//! DecIPTTL, FixIPSrc, IPGWOptions, IPFragmenter, PaintTee

use crate::ip::engine::header::header;
use crate::plumbing::engine::bucket::{Bucket, Packets};
use crate::plumbing::engine::text::read;
use crate::prelude::*;
use dpdk::PacketType;
use lang::args::{FromArg, Word};
use std::cell::Cell;
use std::net::Ipv4Addr;
use wire::ipv4::{self, HEADER_LEN, MAX_HEADER_LEN, OPT_EOL, OPT_LSRR, OPT_SSRR};
use wire::{Icmpv4, Ipv4, Options, icmpv4, protocol};

const ABOUT_AN_ICMP_ERROR: DropReason = DropReason::new("about an ICMP error");
const NOT_TO_ONE_HOST: DropReason = DropReason::new("not to one host");
const NOT_FROM_ONE_HOST: DropReason = DropReason::new("not from one host");
const NOT_THE_FIRST_FRAGMENT: DropReason = DropReason::new("not the first fragment");
const SOURCE_ROUTED: DropReason = DropReason::new("source routed");
const RATE_LIMIT: DropReason = DropReason::new("rate limit");

const TTL: u8 = 200;
const ICMP_LEN: usize = icmpv4::HEADER_LEN;

thread_local! {
    /// Messages made on this worker; one count for all elements, as in Click.
    static MADE: Cell<u16> = const { Cell::new(0) };
}

/// The `ICMPError` element.
pub struct ICMPError {
    src: Ipv4Addr,
    kind: u8,
    code: u8,
    bad: Vec<Ipv4Addr>,
    mtu: u32,
    pmtu: u32,
    set_fix_anno: bool,
    workers: u16,
    limit: Bucket<Packets>,
}

/// Messages per second, unless the configuration says otherwise.
const RATE: u64 = 1000;
/// The longest idle time whose messages may be sent later, at once.
const BURST_MS: u64 = 50;

impl Element for ICMPError {
    const CLASS: &'static str = "ICMPError";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA
        .with(Fields::IP_HEADERS)
        .with(Fields::PACKET_TYPE)
        .with(Fields::ICMP_PARAM_PTR)
        .with(Fields::DST_IP);
    const DROPS: &'static [DropCase] = &[
        drops::NO_IP_HEADER.when("not marked, or cut off"),
        ABOUT_AN_ICMP_ERROR.when("the packet is an ICMP error itself"),
        NOT_TO_ONE_HOST
            .when("the packet was sent to a broadcast or multicast address, or came as such on the link"),
        NOT_FROM_ONE_HOST.when("its source is not the address of one host"),
        NOT_THE_FIRST_FRAGMENT.when("errors are sent about the first fragment only"),
        SOURCE_ROUTED.when("would be redirected"),
        RATE_LIMIT.when(
            "there were more than `RATE` allows; packets that get no answer anyway do not count for \
             it",
        ),
        drops::OUT_OF_MEMORY.when("there was no buffer for the error"),
    ];
    const MANUAL: &'static str = manual!("transport/icmperror");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let src = args.mp("SRC")?;
        let number = args.with("TYPE", true, true, |text, names| {
            names.icmp_type(text).map_or_else(|| i32::from_arg(text, names), |kind| Ok(kind.into()))
        })?;
        let code: Option<Word> = args.p("CODE")?;
        let kind = match u8::try_from(number.unwrap_or(-1)) {
            Err(_) => return Err(args.error("ICMP type must be between 0 and 255")),
            Ok(kind) if icmpv4::is_error(kind) => kind,
            Ok(kind) => return Err(args.error(format!("ICMP type {kind} is not an error type"))),
        };
        let code = match code {
            None => 0,
            Some(Word(text)) => args
                .names()
                .icmp_code(kind, &text)
                .or_else(|| lang::args::parse(&text).ok())
                .ok_or_else(|| args.error("argument 2 takes ICMP code (integer between 0 and 255)"))?,
        };
        Ok(Self {
            src,
            kind,
            code,
            bad: args.p("BADADDRS")?.unwrap_or_default(),
            mtu: args.k("MTU")?.unwrap_or(576),
            pmtu: args.k("PMTU")?.unwrap_or(0),
            set_fix_anno: args.k("SET_FIX_ANNO")?.unwrap_or(true),
            workers: cx.workers().max(1) as u16,
            limit: {
                let rate = args.k("RATE")?.unwrap_or(if cx.as_click() { 0 } else { RATE });
                Bucket::lasting(rate, BURST_MS, cx)
            },
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        fn set<T: FromArg>(to: &mut T, text: &str) -> Result<(), String> {
            *to = read(text)?;
            Ok(())
        }
        h.read("src", |e| e.src.to_string());
        h.write("src", |e, v, _| set(&mut e.src, v));
        h.read("mtu", |e| e.mtu.to_string());
        h.write("mtu", |e, v, _| set(&mut e.mtu, v));
        h.read("pmtu", |e| e.pmtu.to_string());
        h.write("pmtu", |e, v, _| set(&mut e.pmtu, v));
        h.read("rate", |e| e.limit.rate());
        h.write("rate", |e, v, cx| e.limit.set_rate(v, cx.now_ns()));
        h.argument("src", 0, "SRC");
        h.listed(&["src", "mtu", "pmtu"]);
    }
}

/// The source route of the packet: type, pointer and addresses of the first such option that is valid.
struct SourceRoute<'a> {
    offset: usize,
    option: &'a [u8],
    /// The part of the route that the packet has taken: three bytes and the addresses passed.
    traveled: usize,
}

fn source_route(options: &[u8]) -> Option<SourceRoute<'_>> {
    Options::new(options, HEADER_LEN).map_while(Result::ok).find_map(|o| {
        let traveled = usize::from(*o.bytes.get(2)?).checked_sub(1)?;
        let sound = matches!(o.kind, OPT_LSRR | OPT_SSRR)
            && traveled >= 3
            && traveled % 4 == 3
            && traveled <= o.bytes.len();
        sound.then_some(SourceRoute { offset: o.offset, option: o.bytes, traveled })
    })
}

/// Options of a header, and their length, a multiple of four.
type OptionBytes = ([u8; MAX_HEADER_LEN - HEADER_LEN], usize);
const NO_OPTIONS: OptionBytes = ([OPT_EOL; MAX_HEADER_LEN - HEADER_LEN], 0);

/// The options that lead back along the route.
fn reversed(route: &SourceRoute<'_>) -> Option<OptionBytes> {
    let (mut bytes, _) = NO_OPTIONS;
    let (head, rest) = bytes.split_first_chunk_mut::<3>()?;
    *head = [*route.option.first()?, route.traveled as u8, 4];
    let passed = route.option.get(3..route.traveled)?;
    for (to, from) in rest.chunks_exact_mut(4).zip(passed.chunks_exact(4).rev()) {
        to.copy_from_slice(from);
    }
    Some((bytes, route.traveled + 1)) // one byte of padding
}

impl ICMPError {
    #[inline]
    fn is_host(&self, address: Ipv4Addr) -> bool {
        !address.is_broadcast() && !address.is_multicast() && !self.bad.contains(&address)
    }
    /// RFC 1812 §5.3.7, §4.2.2.11, §4.2.3.1.
    #[inline]
    fn is_valid_source(&self, address: Ipv4Addr) -> bool {
        self.is_host(address) && !matches!(address.octets()[0], 0 | 127 | 240..)
    }

    /// Makes the message about a packet.
    ///
    /// # Errors
    /// The reason why there is none.
    fn answer(&mut self, about: &Packet, cx: &Cx<'_>) -> Result<Packet, DropReason> {
        let (Some(h), Some(bytes)) = (header(about), about.network_header()) else {
            return Err(drops::NO_IP_HEADER);
        };
        let options = bytes.get(HEADER_LEN..h.header_len()).ok_or(drops::NO_IP_HEADER)?;
        if h.protocol() == protocol::ICMP {
            let message = bytes.get(h.header_len()..).unwrap_or(&[]);
            if message.len() < 4 || message.first().is_none_or(|kind| icmpv4::is_error(*kind)) {
                return Err(ABOUT_AN_ICMP_ERROR);
            }
        }
        if !self.is_host(h.dst())
            || matches!(about.packet_type(), PacketType::Broadcast | PacketType::Multicast)
        {
            return Err(NOT_TO_ONE_HOST);
        }
        if !self.is_valid_source(h.src()) {
            return Err(NOT_FROM_ONE_HOST);
        }
        if !h.is_first_fragment() {
            return Err(NOT_THE_FIRST_FRAGMENT);
        }
        let pointer = about.anno().icmp_param_ptr();
        let at_pointer =
            self.kind == icmpv4::PARAMETER_PROBLEM && self.code == icmpv4::PARAMETER_PROBLEM_POINTER;
        let mut route = source_route(options);
        if let Some(r) = &route {
            if self.kind == icmpv4::REDIRECT {
                return Err(SOURCE_ROUTED);
            }
            if at_pointer && (r.offset..r.offset + r.option.len()).contains(&usize::from(pointer)) {
                route = None;
            }
        }
        let now_ns = cx.now_ns();
        if self.limit.admit(now_ns, 1) == 0 {
            return Err(RATE_LIMIT);
        }
        let (options, options_len) = route.as_ref().and_then(reversed).unwrap_or(NO_OPTIONS);
        let header_len = HEADER_LEN + options_len;
        let room = (self.mtu.min(u16::MAX.into()) as usize).saturating_sub(header_len + ICMP_LEN);
        let quoted = bytes.get(..room).unwrap_or(bytes);

        let mut icmp = Icmpv4::zeroed();
        icmp.set_kind(self.kind);
        icmp.set_code(self.code);
        if at_pointer {
            icmp.set_pointer(pointer);
        } else if self.kind == icmpv4::REDIRECT {
            icmp.set_gateway(about.dst_ip().into());
        } else if self.kind == icmpv4::UNREACHABLE && self.code == icmpv4::UNREACHABLE_NEED_FRAG {
            icmp.set_next_hop_mtu(self.pmtu as u16);
        }
        let mut ip = Ipv4::build(self.src, h.src(), protocol::ICMP, options_len + ICMP_LEN + quoted.len());
        ip.set_header_len(header_len);
        ip.set_ttl(TTL);
        ip.set_id(MADE.get().wrapping_mul(self.workers).wrapping_add(cx.worker().0 as u16 + 1));

        let len = header_len + ICMP_LEN + quoted.len();
        let mut q = Packet::alloc(dpdk::DEFAULT_HEADROOM, len).ok_or(drops::OUT_OF_MEMORY)?;
        write(q.data_mut(), &ip, options.get(..options_len).unwrap_or(&[]), &icmp, quoted)
            .ok_or(drops::OUT_OF_MEMORY)?;
        MADE.set(MADE.get().wrapping_add(1));
        q.set_network_header(0, header_len);
        let anno = q.anno_mut();
        anno.set_dst_ip(h.src().octets());
        anno.set_fix_ip_src(self.set_fix_anno);
        anno.timestamp_ns = now_ns;
        Ok(q)
    }
}

/// Assembles the parts of a message and computes the checksums.
fn write(
    to: &mut [u8],
    ip: &Ipv4<[u8; HEADER_LEN]>,
    options: &[u8],
    icmp: &Icmpv4<[u8; ICMP_LEN]>,
    quoted: &[u8],
) -> Option<()> {
    let (head, message) = to.split_at_mut_checked(HEADER_LEN + options.len())?;
    let (fixed, rest) = head.split_first_chunk_mut()?;
    *fixed = *ip.bytes();
    rest.copy_from_slice(options);
    let (fixed, rest) = message.split_first_chunk_mut()?;
    *fixed = *icmp.bytes();
    rest.get_mut(..quoted.len())?.copy_from_slice(quoted);
    ipv4::fill_header(head);
    icmpv4::fill(message);
    Some(())
}

impl Simple for ICMPError {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match self.answer(&packet, cx) {
            Ok(answer) => Some(answer),
            Err(reason) => {
                cx.drop(packet, reason);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;
    use dpdk::PacketType;

    fn good(answer: &[u8]) -> bool {
        let header_len = usize::from(answer[0] & 15) * 4;
        sound(answer) && wire::icmpv4::verify(&answer[header_len..])
    }

    #[test]
    fn quotes_the_packet() {
        let mut bench = Bench::new("ICMPError(18.26.4.24, timeexceeded)");
        let bytes = ip(17, b"12345678data");
        let mut packet = marked(&bytes);
        packet.set_paint(7);
        let out = bench.send(0, packet).remove(0).1;
        let a = out.data();
        assert!(good(a));
        assert_eq!(a[..10], [0x45, 0, 0, 60, 0, 1, 0, 0, 200, 1]);
        assert_eq!(a[12..22], [18, 26, 4, 24, 10, 0, 0, 1, 11, 0]);
        assert_eq!(a[24..28], [0; 4]);
        assert_eq!(a[28..], bytes);
        let anno = out.anno();
        assert_eq!((anno.dst_ip(), anno.fix_ip_src(), anno.paint()), ([10, 0, 0, 1], true, 0));
        assert!(anno.timestamp_ns > 0);
        assert_eq!((out.network_header_offset(), out.network_header_len()), (Some(0), Some(20)));
        // Identifications continue, and the link header is not quoted.
        let mut frame = b"frame".to_vec();
        frame.extend(&bytes);
        let mut packet = dpdk::Packet::from_bytes(&frame).unwrap();
        packet.set_network_header(5, 20);
        let a = &bench.push_packet(0, packet)[0].1;
        assert_eq!((&a[4..6], &a[28..]), (&[0, 2][..], &bytes[..]));
        assert!(bench.drops().is_empty());
    }

    #[test]
    fn keeps_to_the_size() {
        let long = ip(17, &[b'x'; 1400]);
        let mut bench = Bench::new("ICMPError(18.26.4.24, unreachable, needfrag, MTU 576, PMTU 1400)");
        let a = &bench.push_packet(0, marked(&long))[0].1;
        assert_eq!((a.len(), &a[20..22], &a[24..28]), (576, &[3, 4][..], &[0, 0, 0x05, 0x78][..]));
        assert!(good(a));
        assert_eq!(a[28..], long[..548]);
        bench.write("mtu", "1500");
        assert_eq!(bench.push_packet(0, marked(&long))[0].1.len(), 1448);
        bench.write("mtu", "5");
        let a = &bench.push_packet(0, marked(&long))[0].1;
        assert!(a.len() == 28 && good(a));
        bench.write("mtu", "4000000000");
        assert_eq!(bench.push_packet(0, marked(&ip(17, &[0; 20_000])))[0].1.len(), 20_048);
    }

    /// RFC 1812 §4.3.2.8.
    #[test]
    fn limits_its_answers() {
        let asks = marked(&ip(17, b"12345678"));
        let ask = |bench: &mut Bench, n: usize| {
            (0..n).filter(|_| !bench.send(0, asks.duplicate().unwrap()).is_empty()).count()
        };
        let error = marked(&ip(1, &[3, 1, 0, 0, 0, 0, 0, 0]));
        let mut bench = Bench::simulated("e :: ICMPError(18.26.4.24, unreachable, host);", 1, 1);
        // A packet that gets no answer in any case uses no part of the limit.
        for _ in 0..100 {
            assert!(bench.send(0, error.duplicate().unwrap()).is_empty());
        }
        assert_eq!((ask(&mut bench, 2000), bench.read("rate")), (50, "1000".to_owned()));
        assert_eq!(bench.drops(), [("about an ICMP error".to_owned(), 100), ("rate limit".to_owned(), 1950)]);
        // The limit applies to the packets of a batch as to single packets.
        for (rate, burst) in [(1, 1), (20, 1), (40, 2), (100, 5), (100_000, 5000)] {
            let mut bench =
                Bench::simulated(&format!("e :: ICMPError(18.26.4.24, timeexceeded, RATE {rate});"), 1, 1);
            let batch = (0..6000).map(|_| asks.duplicate().unwrap()).collect();
            assert_eq!(bench.send_batch(0, batch).len(), burst, "{rate}");
        }
        let mut bench = Bench::simulated("e :: ICMPError(18.26.4.24, redirect, host, RATE 0);", 1, 1);
        assert_eq!(ask(&mut bench, 2000), 2000);
        bench.write("rate", "200");
        assert_eq!((ask(&mut bench, 2000), bench.read("rate")), (10, "200".to_owned()));
        assert!(bench.try_write("rate", "many").is_err());
        assert!(Bench::error("ICMPError(18.26.4.24, redirect, RATE -1)").contains("RATE"));
    }

    #[test]
    fn click_has_no_limit() {
        let options =
            || runtime::Options { click: true, simulated_time: true, ..runtime::Options::default() };
        for (arguments, answers) in [("", 3000), (", RATE 1000", 50)] {
            let config = format!(
                "InfiniteSource(DATA \\<4500001c 00000000 011166cf 0a000001 0a000002 0000000000000000>, LIMIT 3000, BURST 3000)
                   -> MarkIPHeader -> ICMPError(18.26.4.24, timeexceeded{arguments}) -> c :: Counter -> Discard;"
            );
            let mut bench = Bench::with_options(&config, options());
            bench.turns(1);
            assert_eq!(bench.read("c.count"), answers.to_string());
        }
    }

    #[test]
    fn time_lets_answers_through_again() {
        let mut bench = Bench::simulated(
            "e :: ICMPError(18.26.4.24, timeexceeded, RATE 100) -> c :: Counter -> Discard;
             RatedSource(DATA \\<4500001c 00000000 011166cf 0a000001 0a000002 0000000000000000>, RATE 1000, LIMIT 3000)
               -> MarkIPHeader -> e;",
            0,
            0,
        );
        for _ in 0..40_000 {
            bench.turn();
        }
        let answers: u64 = bench.read("c.count").parse().unwrap();
        assert!((290..=310).contains(&answers), "{answers} in three seconds");
    }

    #[test]
    fn says_nothing_about_what_must_not_be_answered() {
        let mut bench = Bench::new("ICMPError(18.26.4.24, unreachable, host, 10.0.0.255 10.0.1.255)");
        let from = |src: [u8; 4]| marked(&ip_with(&[], b"12345678", |h| h.set_src(src.into())));
        let to = |dst: [u8; 4]| marked(&ip_with(&[], b"12345678", |h| h.set_dst(dst.into())));
        for src in [[0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4], [10, 0, 0, 255]] {
            assert!(bench.push_packet(0, from(src)).is_empty(), "{src:?}");
        }
        for dst in [[224, 0, 0, 5], [239, 1, 1, 1], [255; 4], [10, 0, 1, 255]] {
            assert!(bench.push_packet(0, to(dst)).is_empty(), "{dst:?}");
        }
        for kind in [PacketType::Broadcast, PacketType::Multicast] {
            let mut packet = marked(&ip(17, b"12345678"));
            packet.set_packet_type(kind);
            assert!(bench.push_packet(0, packet).is_empty());
        }
        for kind in [3, 4, 5, 11, 12] {
            assert!(bench.push_packet(0, marked(&ip(1, &[kind, 0, 0, 0, 0, 0, 0, 0]))).is_empty(), "{kind}");
        }
        assert!(bench.push_packet(0, marked(&ip(1, &[8, 0, 0]))).is_empty());
        let later = ip_with(&[], b"12345678", |h| h.set_fragment_offset(8));
        assert!(bench.push_packet(0, marked(&later)).is_empty());
        assert!(bench.push(0, &ip(17, b"12345678")).is_empty(), "unmarked");
        for bytes in [&b"E"[..], &ip_with(&[1; 8], b"", |_| ())[..24], &[&[0x44][..], &[0; 30]].concat()] {
            assert!(bench.push_packet(0, marked(bytes)).is_empty());
        }
        let mut drops = bench.drops();
        drops.sort();
        let drops: Vec<_> = drops.iter().map(|(r, n)| (r.as_str(), *n)).collect();
        assert_eq!(
            drops,
            [
                ("about an ICMP error", 6),
                ("no IP header", 4),
                ("not from one host", 6),
                ("not the first fragment", 1),
                ("not to one host", 6),
            ]
        );
        // And answers the other packets.
        let first = ip_with(&[], b"12345678", |h| h.set_more_fragments(true));
        for bytes in [first, ip(1, &[8, 0, 0, 0]), ip(17, b"")] {
            assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[20..22], [3, 1]);
        }
        assert_eq!(bench.push_packet(0, from([239 - 16, 0, 0, 1])).len(), 1);
    }

    #[test]
    fn tells_gateway_and_pointer() {
        let mut bench = Bench::new("ICMPError(18.26.4.24, 5, host)");
        let mut packet = marked(&ip(17, b"12345678"));
        packet.set_dst_ip([10, 0, 0, 254]);
        let a = &bench.push_packet(0, packet)[0].1;
        assert_eq!((&a[20..22], &a[24..28]), (&[5, 1][..], &[10, 0, 0, 254][..]));
        assert!(good(a));

        let mut bench = Bench::new("ICMPError(18.26.4.24, parameterproblem, SET_FIX_ANNO false)");
        let mut packet = marked(&ip(17, b"12345678"));
        packet.anno_mut().set_icmp_param_ptr(21);
        let out = bench.send(0, packet).remove(0).1;
        assert_eq!(out.data()[24..28], [21, 0, 0, 0]);
        assert!(good(out.data()) && !out.fix_ip_src());

        let mut bench = Bench::new("ICMPError(18.26.4.24, parameterproblem, missingopt)");
        let mut packet = marked(&ip(17, b"12345678"));
        packet.anno_mut().set_icmp_param_ptr(21);
        assert_eq!(bench.push_packet(0, packet)[0].1[24..28], [0; 4]);
    }

    #[test]
    fn goes_back_along_a_source_route() {
        // The packet has passed two of three hops.
        let options = [1, 131, 15, 12, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3];
        let packet = || marked(&ip_with(&options, b"12345678", |_| ()));
        let back = [131, 11, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0];
        let mut bench = Bench::new("ICMPError(18.26.4.24, timeexceeded)");
        let a = &bench.push_packet(0, packet())[0].1;
        assert_eq!((a[0], &a[20..32], a[32]), (0x48, &back[..], 11));
        assert_eq!(a[3] as usize, a.len());
        assert!(good(a));
        // It has passed no hop; and an option with a wrong pointer is ignored.
        for (pointer, header) in [(4, 0x46), (16, 0x49), (5, 0x45), (0, 0x45), (20, 0x45), (255, 0x45)] {
            let mut options = options;
            options[3] = pointer;
            let a = &bench.push_packet(0, marked(&ip_with(&options, b"12345678", |_| ())))[0].1;
            assert_eq!(a[0], header, "{pointer}");
            assert!(good(a));
        }
        let mut bench = Bench::new("ICMPError(18.26.4.24, redirect, host)");
        assert!(bench.push_packet(0, packet()).is_empty());
        assert_eq!(bench.drops(), [("source routed".to_owned(), 1)]);
        let mut bench = Bench::new("ICMPError(18.26.4.24, parameterproblem, erroratptr)");
        for (pointer, header) in [(20, 0x48), (21, 0x45), (35, 0x45), (36, 0x48)] {
            let mut packet = packet();
            packet.anno_mut().set_icmp_param_ptr(pointer);
            assert_eq!(bench.push_packet(0, packet)[0].1[0], header, "{pointer}");
        }
    }

    #[test]
    fn arguments_and_handlers() {
        let mut bench = Bench::new("ICMPError(18.26.4.24, 3, 250, MTU 600)");
        assert_eq!(
            (bench.read("src"), bench.read("mtu"), bench.read("pmtu")),
            ("18.26.4.24".into(), "600".into(), "0".into())
        );
        bench.write("src", "1.2.3.4");
        bench.write("pmtu", "1280");
        assert_eq!((bench.read("src"), bench.read("pmtu")), ("1.2.3.4".into(), "1280".into()));
        assert!(bench.try_write("src", "x").is_err() && bench.try_write("mtu", "-1").is_err());
        for (config, message) in [
            ("", "SRC"),
            ("1.2.3.4", "TYPE"),
            ("1.2.3.4, 8", "ICMP type 8 is not an error type"),
            ("1.2.3.4, 256", "ICMP type must be between 0 and 255"),
            ("1.2.3.4, 3, 256", "ICMP code (integer between 0 and 255)"),
            ("1.2.3.4, 3, transit", "ICMP code (integer between 0 and 255)"),
        ] {
            let error = Bench::error(&format!("ICMPError({config})"));
            assert!(error.contains(message), "{error}");
        }
    }
}
