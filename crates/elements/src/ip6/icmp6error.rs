//! # ICMP6Error
//! Answers IPv6 packets with ICMPv6 error messages (RFC 4443).
//!
//! ## Synopsis
//! `ICMP6Error(SRC, TYPE, CODE, [MTU, PMTU, RATE])`
//!
//! ## Arguments
//! - `SRC` (*IPv6 address*): the source of the messages.
//! - `TYPE` (*int*, or name): what is reported: `unreachable` (1), `pkttoobig` (2), `timeexceeded` (3),
//!   `paramprob` (4) or `redirect` (137).
//! - `CODE` (*int*, 0 to 255): the details. For `unreachable`, 0 is no route, 1 prohibited, 3 the address, 4
//!   the port; for `timeexceeded`, 0 is the hop limit.
//! - `MTU` (*int*, bytes, keyword, default 1280): how long a message may be; by default, what every link of
//!   IPv6 carries (RFC 4443 section 2.4). Under the name `click` 616, as in Click.
//! - `PMTU` (*int*, bytes, keyword, default 1500): the next hop's MTU, which `pkttoobig` contains.
//! - `RATE` (*int*, messages per second, keyword, default 1000): how many messages are sent at most (RFC 4443
//!   section 2.4, f). 0 is no limit, which is also the default under the name `click`, because Click has
//!   none. After a silence as many may follow each other at once as make 50 ms at that rate, and one at
//!   least.
//!
//! ## Ports
//! One input, one output; agnostic. The input takes packets whose IPv6 header is marked. The output emits
//! IPv6 packets with the error, addressed to the source of the bad packet, for the routing table to send; the
//! destination and timestamp annotations are set, and so is the Fix IP Source annotation. A message quotes as
//! much of the bad packet as fits.
//!
//! A `redirect` contains the address in the bad packet's destination annotation as the better next hop (RFC
//! 4861 section 4.5); `SRC` must then be a link-local address of the router for hosts to believe it. A
//! `paramprob` points to the byte in the parameter problem annotation.
//!
//! No answer gets (RFC 4443 section 2.4, e): an ICMPv6 error or a redirect; a packet whose source is not a
//! single node; and, unless the message is `pkttoobig`, or `paramprob` with code 2, a packet to a multicast
//! address, or one that came as multicast or broadcast on the link. A fragment in which the type of an ICMPv6
//! message cannot be seen gets none either.
//!
//! ## Handlers
//! - `src` (read/write): the `SRC` argument.
//! - `pmtu` (read/write): the `PMTU` argument.
//! - `rate` (read/write): the `RATE` argument.
//!
//! ## Threads
//! Each worker has its own; the limit is one for all workers together, a token bucket that they share. A
//! packet beyond the limit only reads it.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b01 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header
//!   -> hops :: DecIP6HLIM
//!   -> Discard;
//! hops [1] -> ICMP6Error(2001:db8::ffff, timeexceeded, 0) -> IP6Print(answer) -> Discard;
//! ```
//!
//! ## See also
//! DecIP6HLIM, IP6Fragmenter, LookupIP6Route, ICMPError

use super::engine::header::{dst_ip6, header, set_dst_ip6};
use crate::plumbing::engine::bucket::{Bucket, Packets};
use crate::plumbing::engine::text::read;
use crate::prelude::*;
use dpdk::PacketType;
use lang::args::{FromArg, Word};
use std::net::Ipv6Addr;
use wire::icmpv6::{self, PACKET_TOO_BIG, PARAMETER_PROBLEM, REDIRECT, TIME_EXCEEDED, UNREACHABLE};
use wire::{Icmpv6, Ipv6, ipv6, protocol};

const ABOUT_AN_ICMP_ERROR: DropReason = DropReason::new("about an ICMP error");
const NOT_TO_ONE_HOST: DropReason = DropReason::new("not to one host");
const NOT_FROM_ONE_HOST: DropReason = DropReason::new("not from one host");
const RATE_LIMIT: DropReason = DropReason::new("rate limit");

const HOP_LIMIT: u8 = 255;
const ICMP_LEN: usize = icmpv6::HEADER_LEN;
/// The addresses of a redirect, and the head of the option with the packet.
const ADDRESSES_LEN: usize = 32;
const OPTION_LEN: usize = 8;
/// Messages per second, unless the configuration says otherwise.
const RATE: u64 = 1000;
/// The longest idle time whose messages may be sent later, at once.
const BURST_MS: u64 = 50;

/// The `ICMP6Error` element.
pub struct ICMP6Error {
    src: Ipv6Addr,
    kind: u8,
    code: u8,
    mtu: u32,
    pmtu: u32,
    limit: Bucket<Packets>,
}

impl Element for ICMP6Error {
    const CLASS: &'static str = "ICMP6Error";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA
        .with(Fields::IP_HEADERS)
        .with(Fields::PACKET_TYPE)
        .with(Fields::ICMP_PARAM_PTR)
        .with(Fields::DST_IP6);
    const DROPS: &'static [DropCase] = &[
        drops::NO_IP_HEADER.when("not marked, or cut off"),
        ABOUT_AN_ICMP_ERROR.when("the packet is an ICMPv6 error or a redirect itself, or may be one"),
        NOT_TO_ONE_HOST.when("the packet was sent to a multicast address, or came as such on the link"),
        NOT_FROM_ONE_HOST.when("its source is not the address of one node"),
        RATE_LIMIT.when(
            "there were more than `RATE` allows; packets that get no answer anyway do not count for \
             it",
        ),
        drops::OUT_OF_MEMORY.when("there was no buffer for the error"),
    ];
    const MANUAL: &'static str = manual!("ip6/icmp6error");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let src: Ipv6Addr = args.mp("SRC")?;
        let Word(kind) = args.mp("TYPE")?;
        let code = args.mp("CODE")?;
        let kind = match &*kind {
            "unreachable" => UNREACHABLE,
            "pkttoobig" => PACKET_TOO_BIG,
            "timeexceeded" => TIME_EXCEEDED,
            "paramprob" => PARAMETER_PROBLEM,
            "redirect" => REDIRECT,
            text => {
                let number: i32 = lang::args::parse(text).map_err(|e| args.error(format!("TYPE: {e}")))?;
                u8::try_from(number).ok().filter(|kind| matches!(*kind, 1..=4 | REDIRECT)).ok_or_else(
                    || args.error(format!("ICMP6 type {number} is not an error or redirect type")),
                )?
            }
        };
        if src.is_unspecified() || src.is_multicast() {
            return Err(args.error("SRC must be the address of one node"));
        }
        let (rate, mtu) = if cx.as_click() { (0, 616) } else { (RATE, 1280) };
        Ok(Self {
            src,
            kind,
            code,
            mtu: args.k("MTU")?.unwrap_or(mtu),
            pmtu: args.k("PMTU")?.unwrap_or(1500),
            limit: Bucket::lasting(args.k("RATE")?.unwrap_or(rate), BURST_MS, cx),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        fn set<T: FromArg>(to: &mut T, text: &str) -> Result<(), String> {
            *to = read(text)?;
            Ok(())
        }
        h.read("src", |e| e.src.to_string());
        h.write("src", |e, v, _| {
            let mut src = e.src;
            set(&mut src, v)?;
            if src.is_unspecified() || src.is_multicast() {
                return Err("SRC must be the address of one node".to_owned());
            }
            e.src = src;
            Ok(())
        });
        h.read("pmtu", |e| e.pmtu.to_string());
        h.write("pmtu", |e, v, _| set(&mut e.pmtu, v));
        h.read("rate", |e| e.limit.rate());
        h.write("rate", |e, v, cx| e.limit.set_rate(v, cx.now_ns()));
    }
}

/// Whether the packet reports on another one, or nobody can tell.
fn may_be_an_error(bytes: &[u8]) -> bool {
    match ipv6::upper(bytes) {
        Some(upper) if upper.protocol == protocol::ICMPV6 => {
            let kind = bytes.get(upper.offset).filter(|_| upper.begins);
            kind.is_none_or(|kind| icmpv6::is_error(*kind) || *kind == REDIRECT)
        }
        Some(_) => false,
        None => true,
    }
}

impl ICMP6Error {
    /// Makes the message about a packet.
    ///
    /// # Errors
    /// The reason why there is none.
    fn answer(&mut self, about: &Packet, cx: &Cx<'_>) -> Result<Packet, DropReason> {
        let (Some(h), Some(bytes)) = (header(about), about.network_header()) else {
            return Err(drops::NO_IP_HEADER);
        };
        if may_be_an_error(bytes) {
            return Err(ABOUT_AN_ICMP_ERROR);
        }
        let to_many = h.dst().is_multicast()
            || matches!(about.packet_type(), PacketType::Broadcast | PacketType::Multicast);
        let unless = self.kind == PACKET_TOO_BIG
            || self.kind == PARAMETER_PROBLEM && self.code == icmpv6::PARAMETER_PROBLEM_OPTION;
        if to_many && !unless {
            return Err(NOT_TO_ONE_HOST);
        }
        let to = h.src();
        if to.is_unspecified() || to.is_multicast() || to.is_loopback() {
            return Err(NOT_FROM_ONE_HOST);
        }
        let now_ns = cx.now_ns();
        if self.limit.admit(now_ns, 1) == 0 {
            return Err(RATE_LIMIT);
        }
        let redirect = self.kind == REDIRECT;
        let before = ICMP_LEN + if redirect { ADDRESSES_LEN + OPTION_LEN } else { 0 };
        let room = (self.mtu.min(u16::MAX.into()) as usize).saturating_sub(ipv6::HEADER_LEN + before);
        // The option's length is a number of 8 bytes.
        let quoted = bytes.get(..room).unwrap_or(bytes);
        let most = quoted.len().min(255 * 8 - OPTION_LEN) & !7;
        let quoted = if redirect { quoted.get(..most).unwrap_or(&[]) } else { quoted };
        let len = before + quoted.len();

        let mut icmp = Icmpv6::zeroed();
        icmp.set_kind(self.kind);
        icmp.set_code(self.code);
        icmp.set_rest(match self.kind {
            PACKET_TOO_BIG => self.pmtu,
            PARAMETER_PROBLEM => about.anno().icmp_param_ptr().into(),
            _ => 0,
        });
        let mut addresses = [0; ADDRESSES_LEN + OPTION_LEN];
        if redirect {
            let words = ((OPTION_LEN + quoted.len()) / 8).min(255) as u8;
            let both = dst_ip6(about).octets().into_iter().chain(h.dst().octets());
            let option = [icmpv6::OPTION_REDIRECTED, words];
            addresses.iter_mut().zip(both.chain(option)).for_each(|(to, from)| *to = from);
        }
        let mut ip = Ipv6::build(self.src, to, protocol::ICMPV6, len as u16);
        ip.set_hop_limit(HOP_LIMIT);

        let mut q =
            Packet::alloc(dpdk::DEFAULT_HEADROOM, ipv6::HEADER_LEN + len).ok_or(drops::OUT_OF_MEMORY)?;
        let fixed = addresses.get(..before - ICMP_LEN).unwrap_or(&[]);
        let parts = ip.bytes().iter().chain(icmp.bytes()).chain(fixed).chain(quoted);
        q.data_mut().iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        if let Some(message) = q.data_mut().get_mut(ipv6::HEADER_LEN..) {
            icmpv6::fill(ip.pseudo_sum(len as u32), message);
        }
        q.set_network_header(0, ipv6::HEADER_LEN);
        set_dst_ip6(&mut q, to);
        let anno = q.anno_mut();
        anno.set_fix_ip_src(true);
        anno.timestamp_ns = now_ns;
        Ok(q)
    }
}

impl Simple for ICMP6Error {
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
    use crate::ip6::engine::header::{
        dst_ip6,
        sample::{a, ip6, ip6_with, marked},
        set_dst_ip6,
    };
    use crate::testing::Bench;
    use dpdk::PacketType;
    use wire::{Ipv6, icmpv6};

    /// The ICMPv6 message of a packet whose lengths, checksum and hop limit are right.
    fn message(answer: &[u8]) -> &[u8] {
        let (h, message) = Ipv6::split(answer).unwrap();
        assert_eq!((h.version(), h.next_header(), h.hop_limit()), (6, 58, 255));
        assert_eq!(usize::from(h.payload_len()), message.len());
        assert!(icmpv6::verify(h.pseudo_sum(message.len() as u32), message));
        message
    }

    #[test]
    fn quotes_the_packet() {
        let mut bench = Bench::new("ICMP6Error(2001:db8::ffff, timeexceeded, 0)");
        let bytes = ip6(17, b"12345678data");
        let out = bench.send(0, marked(&bytes)).remove(0).1;
        let m = message(out.data());
        assert_eq!(m[..2], [3, 0]);
        assert_eq!(m[4..8], [0; 4]);
        assert_eq!(m[8..], bytes);
        let h = Ipv6::new(out.data()).unwrap();
        assert_eq!(
            (h.src(), h.dst(), dst_ip6(&out)),
            (a("2001:db8::ffff"), a("2001:db8::1"), a("2001:db8::1"))
        );
        assert!(out.anno().fix_ip_src());
        // No more than fits.
        let long = ip6(17, &[7; 1400]);
        let out = bench.push_packet(0, marked(&long)).remove(0).1;
        assert_eq!((out.len(), &message(&out)[8..]), (1280, &long[..1232]));
    }

    #[test]
    fn fields_of_the_types() {
        let mut bench = Bench::new("ICMP6Error(::7, pkttoobig, 0, PMTU 1400)");
        assert_eq!(message(&bench.push_packet(0, marked(&ip6(17, b""))).remove(0).1)[..2], [2, 0]);
        bench.write("pmtu", "1300");
        let out = bench.push_packet(0, marked(&ip6(17, b""))).remove(0).1;
        assert_eq!(message(&out)[4..8], 1300u32.to_be_bytes());
        let mut packet = marked(&ip6(17, b""));
        packet.anno_mut().set_icmp_param_ptr(41);
        let out = Bench::new("ICMP6Error(::7, 4, 1)").push_packet(0, packet).remove(0).1;
        assert_eq!((&message(&out)[..2], &message(&out)[4..8]), (&[4, 1][..], &[0, 0, 0, 41][..]));
        let bytes = ip6(17, b"123456789");
        let mut packet = marked(&bytes);
        set_dst_ip6(&mut packet, a("fe80::5"));
        let out = Bench::new("ICMP6Error(fe80::7, redirect, 0)").push_packet(0, packet).remove(0).1;
        let m = message(&out);
        assert_eq!(m[..2], [137, 0]);
        assert_eq!((&m[8..24], &m[24..40]), (&a("fe80::5").octets()[..], &a("2001:db8::2").octets()[..]));
        // The option: 8 bytes and what is quoted, in whole words.
        assert_eq!(m[40..48], [4, 7, 0, 0, 0, 0, 0, 0]);
        assert_eq!(m[48..], bytes[..48]);
    }

    #[test]
    fn some_packets_get_no_answer() {
        let error = |kind: &str| Bench::new(&format!("ICMP6Error(::7, {kind})"));
        let mut bench = error("unreachable, 0");
        let about = |bench: &mut Bench, bytes: &[u8]| bench.push_packet(0, marked(bytes)).len();
        for kind in [1, 2, 3, 4, 127, 137] {
            assert_eq!(about(&mut bench, &ip6(58, &[kind, 0, 0, 0])), 0, "{kind}");
        }
        assert_eq!(about(&mut bench, &ip6(58, &[128, 0, 0, 0])), 1);
        // Behind extension headers, in a later fragment, and cut off.
        assert_eq!(about(&mut bench, &ip6(60, &[58, 0, 0, 0, 0, 0, 0, 0, 3, 0])), 0);
        assert_eq!(about(&mut bench, &ip6(60, &[58, 0, 0, 0, 0, 0, 0, 0, 128, 0])), 1);
        assert_eq!(about(&mut bench, &ip6(44, &[58, 0, 0, 8, 0, 0, 0, 0, 128, 0])), 0);
        assert_eq!(about(&mut bench, &ip6(44, &[17, 0, 0, 8, 0, 0, 0, 0, 128, 0])), 1);
        assert_eq!(about(&mut bench, &ip6(60, &[58, 9, 0, 0])), 0);
        for src in ["::", "::1", "ff02::1"] {
            assert_eq!(about(&mut bench, &ip6_with(17, b"", |h| h.set_src(a(src)))), 0, "{src}");
        }
        let group = ip6_with(17, b"", |h| h.set_dst(a("ff0e::1")));
        let cast = |kind| {
            let mut packet = marked(&ip6(17, b""));
            packet.set_packet_type(kind);
            packet
        };
        for (kind, answers) in
            [("unreachable, 0", 0), ("2, 0", 1), ("4, 2", 1), ("4, 1", 0), ("timeexceeded, 0", 0)]
        {
            let mut bench = error(kind);
            assert_eq!(about(&mut bench, &group), answers, "{kind}");
            assert_eq!(bench.push_packet(0, cast(PacketType::Multicast)).len(), answers, "{kind}");
            assert_eq!(bench.push_packet(0, cast(PacketType::Broadcast)).len(), answers, "{kind}");
            assert_eq!(bench.push_packet(0, cast(PacketType::Host)).len(), 1);
        }
        assert!(bench.push(0, b"").is_empty());
        assert!(about(&mut bench, &ip6(17, b"")[..39]) == 0);
    }

    #[test]
    fn messages_are_limited() {
        let mut bench = Bench::simulated("e :: ICMP6Error(::7, 1, 0, RATE 100);", 1, 1);
        let sent = (0..20).filter(|_| !bench.push_packet(0, marked(&ip6(17, b""))).is_empty()).count();
        assert_eq!(sent, 5);
        assert_eq!(bench.drops(), [("rate limit".to_owned(), 15)]);
        assert_eq!(bench.read("rate"), "100");
    }

    #[test]
    fn refuses_other_types() {
        assert!(
            Bench::error("ICMP6Error(::7, 128, 0)")
                .contains("ICMP6 type 128 is not an error or redirect type")
        );
        assert!(Bench::error("ICMP6Error(::7, nothing, 0)").contains("TYPE"));
        assert!(Bench::error("ICMP6Error(::, 1, 0)").contains("one node"));
        assert!(Bench::error("ICMP6Error(::7, 1)").contains("CODE"));
    }
}
