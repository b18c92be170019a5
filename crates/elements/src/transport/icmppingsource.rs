//! # ICMPPingSource
//! Sends pings and takes the times of the replies.
//!
//! ## Synopsis
//! `ICMPPingSource(SRC, DST, [INTERVAL, IDENTIFIER, DATA, LIMIT, ACTIVE, VERBOSE, STOP, MIRROR])`
//!
//! `ICMPSendPings(...)` is an older name.
//!
//! ## Arguments
//! - `SRC` (*IP address*): the source.
//! - `DST` (*IP address*): the destination.
//! - `INTERVAL` (*time*, seconds unless it has a unit, rounded to milliseconds; keyword, default 1): from
//!   ping to ping.
//! - `IDENTIFIER` (*int*, 0 to 65535, keyword, default 0): the pings' identifier.
//! - `DATA` (*string data*, keyword, default empty): the pings' data.
//! - `LIMIT` (*int*, keyword, default -1): how many pings to send; negative means no limit.
//! - `ACTIVE` (*bool*, keyword, default true): whether to send.
//! - `VERBOSE` (*bool*, keyword, default true): whether to print a line for each reply and for its first
//!   repetition, and the summary at the end.
//! - `STOP` (*bool*, keyword, default false): whether to stop the driver one interval after the last ping.
//! - `MIRROR` (*bool*, keyword, default false): whether to answer each reply with the next ping at once,
//!   reusing the packet; `LIMIT` does not count these. Repetitions are not answered. Only with a push output.
//!
//! ## Ports
//! No input or one, one output; agnostic. A push output emits a ping every `INTERVAL`, the first after one
//! interval; a pull output one for each pull. The pings are IP packets with marked headers; the TTL is 200,
//! sequence numbers and IP identifications count up from 1, leaving 0 out. Destination and timestamp
//! annotations are set.
//!
//! The input (push) takes replies, whose IP headers must be marked; other packets are ignored. A reply comes
//! from the address that was pinged, with the identifier, and with the number of a ping that was sent. The
//! time of a reply is in its timestamp annotation, or else now.
//!
//! ## Handlers
//! - `active` (read/write): the `ACTIVE` argument. Switched on, the first ping goes out at once.
//! - `count` (read): pings sent.
//! - `src` (read/write): the `SRC` argument.
//! - `dst` (read/write): the `DST` argument.
//! - `limit` (write): sets the `LIMIT` argument.
//! - `interval` (write): sets the `INTERVAL` argument.
//! - `reset_counts` (write): sets all counts to zero.
//! - `summary` (read): numbers of pings and replies, loss, and round-trip times in milliseconds. This and the
//!   following only with an input.
//! - `rtt_min` (read): the shortest round-trip time.
//! - `rtt_avg` (read): the average round-trip time.
//! - `rtt_max` (read): the longest round-trip time.
//!
//! ## Threads
//! One instance, on one worker: it is one sequence of pings.
//!
//! ## Example
//! ```click
//! ping :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 10ms, LIMIT 3, STOP true)
//!   -> ICMPPingResponder
//!   -> ping;
//! ```
//!
//! ## See also
//! ICMPPingEncap, ICMPPingResponder, TimedSource

use super::engine::datagram::Datagram;
use super::engine::replies::{PingState, Replies, microseconds, milliseconds};
use super::icmppingencap::{HEADERS_LEN, Ping, address};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::Bytes;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Icmpv4, icmpv4, protocol};

const NOT_A_REPLY: DropReason = DropReason::new("not a reply");

const TTL: u8 = 200;
const NO_INPUT: &str = "no replies without an input";

/// The `ICMPPingSource` element.
pub struct ICMPPingSource {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    interval_ms: u64,
    identifier: u16,
    data: Vec<u8>,
    limit: i64,
    active: bool,
    verbose: bool,
    stop: bool,
    mirror: bool,
    /// When the timer expires.
    due_ns: u64,
    count: u64,
    /// The replies, if there is an input.
    replies: Option<Replies>,
}

fn interval_ms(interval: Duration) -> u64 {
    u64::try_from((interval.as_nanos() + 500_000) / 1_000_000).unwrap_or(u64::MAX)
}

impl Element for ICMPPingSource {
    const CLASS: &'static str = "ICMPPingSource";
    const PORTS: &'static str = "0-1/1";
    const PROCESSING: &'static str = "h/a";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::TIMESTAMP);
    const DROPS: &'static [DropCase] = &[
        NOT_A_REPLY.when("to these pings: another address, identifier or number"),
        drops::OUT_OF_MEMORY.when("there was no buffer for a ping"),
    ];
    const MANUAL: &'static str = manual!("transport/icmppingsource");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (src, dst) = (args.mp("SRC")?, args.mp("DST")?);
        let interval: Option<Duration> = args.k("INTERVAL")?;
        let interval_ms = interval.map_or(1000, interval_ms);
        let identifier = args.k("IDENTIFIER")?.unwrap_or(0);
        let data: Vec<u8> = args.k("DATA")?.map_or_else(Vec::new, |Bytes(b)| b);
        let limit: i32 = args.k("LIMIT")?.unwrap_or(-1);
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let verbose = args.k("VERBOSE")?.unwrap_or(true);
        let stop = args.k("STOP")?.unwrap_or(false);
        let mirror = args.k("MIRROR")?.unwrap_or(false);
        if interval_ms == 0 {
            cx.warn("INTERVAL so small that it is zero");
        }
        if data.len() + HEADERS_LEN > usize::from(u16::MAX) {
            return Err(args.error("DATA: too long"));
        }
        Ok(Self {
            src,
            dst,
            interval_ms,
            identifier,
            data,
            limit: limit.into(),
            active,
            verbose,
            stop,
            mirror,
            due_ns: 0,
            count: 0,
            replies: None,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "type mismatch")?;
            if e.active {
                e.start(0, cx);
            } else {
                cx.cancel_timer(0);
            }
            Ok(())
        });
        h.read("count", |e| e.count.to_string());
        h.read("src", |e| e.src.to_string());
        h.write("src", |e, v, _| address(v).map(|a| e.src = a));
        h.read("dst", |e| e.dst.to_string());
        h.write("dst", |e, v, _| address(v).map(|a| e.dst = a));
        h.write("limit", |e, v, cx| {
            e.limit = text::value::<i32>(v, "'limit' should be integer")?.into();
            if e.left() {
                e.start(e.interval_ms, cx);
            }
            Ok(())
        });
        h.write("interval", |e, v, _| {
            e.interval_ms = text::value(v, "'interval' should be an interval").map(interval_ms)?;
            Ok(())
        });
        h.write("reset_counts", |e, _, cx| {
            e.count = 0;
            if let Some(replies) = &mut e.replies {
                replies.reset();
            }
            e.start(e.interval_ms, cx);
            Ok(())
        });
        h.read_with("summary", Combine::First, |e, _, _| Ok(e.replies.as_ref().ok_or(NO_INPUT)?.summary()));
        h.read_with("rtt_min", Combine::First, |e, _, _| {
            Ok(microseconds(e.replies.as_ref().ok_or(NO_INPUT)?.min_us))
        });
        h.read_with("rtt_avg", Combine::First, |e, _, _| {
            Ok(microseconds(e.replies.as_ref().ok_or(NO_INPUT)?.average_us()))
        });
        h.read_with("rtt_max", Combine::First, |e, _, _| {
            Ok(microseconds(e.replies.as_ref().ok_or(NO_INPUT)?.max_us))
        });
        h.listed(&[
            "active c",
            "src .",
            "dst .",
            "count",
            "limit .",
            "interval",
            "reset_counts b",
            "summary",
            "rtt_min",
            "rtt_avg",
            "rtt_max",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.mirror && cx.output_is_pull(0) {
            return Err("MIRROR invalid on pull element".to_owned());
        }
        if cx.n_inputs() > 0 {
            let declaration = format!("{} :: {}", cx.name(), Self::CLASS);
            self.replies = Some(Replies::new(Arc::clone(cx.hub()), declaration, self.verbose, self.count));
        }
        if self.limit != 0 {
            self.start(self.interval_ms, cx);
        }
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        if !self.left() {
            if self.stop {
                cx.request_stop();
            }
            return;
        }
        if let Some(ping) = self.ping(None, cx) {
            cx.output(0, ping);
        }
        // An interval of zero must not keep the worker from other tasks.
        let next = self.due_ns.saturating_add(self.interval_ms.saturating_mul(1_000_000).max(1000));
        self.set_timer(next.max(cx.now_ns()), cx);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count = old.count;
        if let (Some(new), Some(old)) = (&mut self.replies, old.replies.take()) {
            new.take(old);
        }
    }
}

impl Vector for ICMPPingSource {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            self.reply(packet, cx);
        }
        cx.recycle(batch);
    }

    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        for _ in 0..max {
            if !self.left() {
                if self.stop {
                    self.stop = false;
                    cx.request_stop();
                }
                return;
            }
            match self.ping(None, cx) {
                Some(ping) => out.push(ping),
                None => return,
            }
        }
    }
}

impl ICMPPingSource {
    fn left(&self) -> bool {
        u64::try_from(self.limit).map_or(true, |limit| self.count < limit)
    }
    fn set_timer(&mut self, due_ns: u64, cx: &mut Cx<'_>) {
        self.due_ns = due_ns;
        cx.timer_at(0, due_ns);
    }
    /// Sets the timer, if the element sends by itself and the timer is not set.
    fn start(&mut self, delay_ms: u64, cx: &mut Cx<'_>) {
        if self.active && !cx.output_is_pull(0) && cx.timer_expiry(0).is_none() {
            self.set_timer(cx.now_ns().saturating_add(delay_ms.saturating_mul(1_000_000)), cx);
        }
    }
    /// The next ping, from a new packet or, with its data, from a reply.
    fn ping(&mut self, from: Option<Packet>, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = match from {
            Some(packet) => packet,
            None => {
                let Some(mut packet) = Packet::alloc(dpdk::DEFAULT_HEADROOM, HEADERS_LEN + self.data.len())
                else {
                    cx.count_drops(1, drops::OUT_OF_MEMORY);
                    return None;
                };
                if let Some(place) = packet.data_mut().get_mut(HEADERS_LEN..) {
                    place.copy_from_slice(&self.data);
                }
                packet
            }
        };
        let seq = (self.count % 0xffff + 1) as u16;
        let Self { src, dst, identifier, .. } = *self;
        Ping { src, dst, ttl: TTL, identifier, seq }.write(&mut packet);
        let now_ns = cx.now_ns();
        packet.set_timestamp_ns(now_ns);
        self.count += 1;
        if let Some(replies) = &mut self.replies {
            replies.note_sent(seq, dst, now_ns, self.count);
        }
        Some(packet)
    }
    fn reply(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        let parsed = Datagram::of(&packet)
            .filter(|d| d.ip.protocol() == protocol::ICMP)
            .and_then(|d| Icmpv4::new(d.rest).map(|m| (d.ip, m)))
            .filter(|(_, m)| m.kind() == icmpv4::ECHO_REPLY && m.id() == self.identifier);
        let Some((ip, message)) = parsed else { return cx.drop(packet, NOT_A_REPLY) };
        let seq = message.seq();
        let now_ns = match packet.timestamp_ns() {
            0 => cx.now_ns(),
            at => at,
        };
        let noted = self.replies.as_mut().and_then(|r| r.note_reply(seq, ip.src(), now_ns));
        let Some((us, before)) = noted else { return cx.drop(packet, NOT_A_REPLY) };
        // A host that repeats replies causes one more line for each ping, and no more pings.
        if self.verbose
            && before != PingState::Repeated
            && let Some(replies) = &self.replies
        {
            cx.chatter(&format!(
                "{}: {} bytes from {}: icmp_seq={seq} ttl={} time={} ms",
                replies.declaration,
                usize::from(ip.total_len()).saturating_sub(ip.header_len() + icmpv4::HEADER_LEN),
                ip.src(),
                ip.ttl(),
                milliseconds(us),
            ));
        }
        if self.mirror && before == PingState::InFlight {
            // A ping has no options: what precedes the ICMP message is cut to a plain header.
            let plain = packet
                .transport_header_offset()
                .and_then(|at| usize::try_from(at).ok())
                .and_then(|at| at.checked_sub(wire::ipv4::HEADER_LEN));
            if !plain.is_some_and(|before| packet.strip(before)) {
                return cx.drop(packet, NOT_A_REPLY);
            }
            if let Some(ping) = self.ping(Some(packet), cx) {
                cx.output(0, ping);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked, sound};
    use crate::testing::Bench;

    #[test]
    fn pings_every_interval() {
        let mut bench = Bench::simulated(
            "e :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.25, IDENTIFIER 258, DATA odd, LIMIT 3);",
            0,
            1,
        );
        let mut times = Vec::new();
        for _ in 0..60 {
            bench.turn();
            for (_, p) in bench.take() {
                let b = p.data();
                times.push(p.timestamp_ns() - 1_000_000_000_000_000_000);
                let seq = times.len() as u8;
                assert_eq!(b[..10], [0x45, 0, 0, 31, 0, seq, 0, 0, 200, 1]);
                assert_eq!(b[12..22], [1, 0, 0, 1, 2, 0, 0, 2, 8, 0]);
                assert_eq!(b[24..], [1, 2, 0, seq, b'o', b'd', b'd']);
                assert!(sound(b) && wire::icmpv4::verify(&b[20..]));
                assert_eq!((p.dst_ip(), p.transport_header_offset()), ([2, 0, 0, 2], Some(20)));
            }
        }
        assert_eq!(times, [250_000_000, 500_000_000, 750_000_000]);
        assert_eq!(bench.read("count"), "3");
        assert!(bench.try_read("summary").is_err() && bench.try_read("rtt_min").is_err());
        bench.write("limit", "4");
        assert_eq!(bench.run().len(), 1);
        bench.write("reset_counts", "");
        bench.write("dst", "3.0.0.3");
        let again = bench.run();
        assert_eq!((again.len(), &again[0].1[16..20]), (4, &[3, 0, 0, 3][..]));
    }

    #[test]
    fn waits_until_it_is_active() {
        let mut bench =
            Bench::simulated("e :: ICMPPingSource(1.0.0.1, 2.0.0.2, ACTIVE false, LIMIT 2);", 0, 1);
        assert!(bench.run().is_empty());
        bench.write("active", "true");
        assert_eq!((bench.run().len(), bench.read("active")), (2, "true".to_owned()));
        for (handler, value) in
            [("active", "x"), ("limit", "x"), ("interval", "x"), ("src", "x"), ("dst", "x")]
        {
            assert!(bench.try_write(handler, value).is_err(), "{handler}");
        }
    }

    #[test]
    fn takes_the_times_of_replies() {
        let mut bench = Bench::simulated(
            "e :: ICMPPingSource(1.0.0.1, 10.0.0.1, INTERVAL 10ms, LIMIT 4, VERBOSE false);",
            1,
            1,
        );
        let mut pings = Vec::new();
        for _ in 0..60 {
            bench.turn();
            pings.extend(bench.take().into_iter().map(|(_, p)| p));
        }
        assert_eq!(bench.read("summary"), "4 packets transmitted, 0 received, 100% packet loss\n");
        assert_eq!(bench.read("rtt_avg"), "0s");
        for (n, us) in [(0, 500), (1, 1500), (2, 1_000_000), (0, 500)] {
            let mut message = pings[n].data()[20..].to_vec();
            message[0] = 0;
            let mut reply = marked(&ip(1, &message));
            reply.set_timestamp_ns(pings[n].timestamp_ns() + us * 1000);
            assert!(bench.send(0, reply).is_empty());
        }
        assert_eq!(
            bench.read("summary"),
            "4 packets transmitted, 3 received, +1 duplicates, 25% packet loss\n\
             rtt min/avg/max/mdev = 0.500/250.625/1000.000/432.652\n"
        );
        assert_eq!(
            (bench.read("rtt_min"), bench.read("rtt_avg"), bench.read("rtt_max")),
            ("500us".into(), "0.250625s".into(), "1s".into())
        );
        bench.write("reset_counts", "");
        assert_eq!(bench.read("summary"), "0 packets transmitted, 0 received");
    }

    #[test]
    fn ignores_what_is_not_a_reply() {
        let mut bench =
            Bench::simulated("e :: ICMPPingSource(1.0.0.1, 10.0.0.1, LIMIT 0, VERBOSE false);", 1, 1);
        let reply = [0, 0, 0, 0, 0, 0, 0, 1];
        let bad = [
            ip(17, &reply),
            ip(1, &[8, 0, 0, 0, 0, 0, 0, 1]),
            ip(1, &[0, 0, 0, 0, 0, 1, 0, 1]),
            ip(1, &reply[..7]),
            b"E".to_vec(),
        ];
        for bytes in &bad {
            bench.send(0, marked(bytes));
        }
        bench.push(0, &ip(1, &reply));
        assert_eq!(bench.drops(), [("not a reply".to_owned(), 6)]);
        // A reply without a request is not counted.
        bench.send(0, marked(&ip(1, &reply)));
        assert_eq!(bench.read("summary"), "0 packets transmitted, 0 received");
        assert_eq!(bench.drops(), [("not a reply".to_owned(), 7)]);
    }

    fn reply_from(src: [u8; 4], id: u16, seq: u16) -> dpdk::Packet {
        let message = [&[0; 4][..], &id.to_be_bytes(), &seq.to_be_bytes(), b"data"].concat();
        marked(&crate::ip::engine::header::sample::ip_with(&[], &message, |h| {
            h.set_protocol(1);
            h.set_src(src.into());
        }))
    }

    /// Other hosts can guess identifiers and numbers; a host that can send from the address can repeat
    /// replies.
    #[test]
    fn believes_only_whom_it_asked() {
        let mut bench = Bench::simulated(
            "e :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 10ms, IDENTIFIER 9, LIMIT 3);",
            1,
            1,
        );
        let lines = bench.listen();
        assert_eq!(bench.run().len(), 3);
        let before = lines.lock().unwrap().len();
        for (src, id, seq) in [
            ([2, 0, 0, 3], 9, 1),
            ([1, 0, 0, 1], 9, 2),
            ([2, 0, 0, 2], 8, 1),
            ([2, 0, 0, 2], 9, 4),
            ([2, 0, 0, 2], 9, 0),
        ] {
            bench.send(0, reply_from(src, id, seq));
        }
        assert_eq!(bench.drops(), [("not a reply".to_owned(), 5)]);
        assert_eq!(bench.read("summary"), "3 packets transmitted, 0 received, 100% packet loss\n");
        // The ping to the old destination is still on its way.
        bench.write("dst", "3.0.0.3");
        bench.send(0, reply_from([3, 0, 0, 3], 9, 1));
        assert_eq!(bench.drops(), [("not a reply".to_owned(), 6)]);
        assert_eq!(lines.lock().unwrap().len(), before, "no line for any of them");
        for _ in 0..10_000 {
            bench.send(0, reply_from([2, 0, 0, 2], 9, 1));
        }
        let printed = lines.lock().unwrap().len() - before;
        assert_eq!(printed, 2, "a line for the reply and one for its first duplicate");
        let summary = bench.read("summary");
        assert!(summary.starts_with("3 packets transmitted, 1 received, +9999 duplicates"), "{summary}");
    }

    #[test]
    fn mirrors_replies() {
        let mut bench = Bench::simulated(
            "e :: ICMPSendPings(1.0.0.1, 10.0.0.1, INTERVAL 10ms, IDENTIFIER 7, LIMIT 1, MIRROR true, VERBOSE false);",
            1,
            1,
        );
        let mut reply = b"link".to_vec();
        reply.extend(crate::ip::engine::header::sample::ip_with(&[1; 4], b"\0\0\0\0\0\x07\0\x01data", |h| {
            h.set_protocol(1);
        }));
        let mut packet = dpdk::Packet::from_bytes(&reply).unwrap();
        packet.set_network_header(4, 24);
        let again = packet.duplicate().unwrap();
        assert!(bench.send(0, packet.duplicate().unwrap()).is_empty(), "nobody has asked yet");
        assert_eq!(bench.run().len(), 1);
        let out = bench.push_packet(0, packet).remove(0).1;
        assert_eq!(
            (out.len(), &out[12..20], &out[24..]),
            (32, &[1, 0, 0, 1, 10, 0, 0, 1][..], &b"\0\x07\0\x02data"[..])
        );
        assert!(sound(&out) && wire::icmpv4::verify(&out[20..]));
        assert!(bench.send(0, again).is_empty(), "a repeated reply is no reason to ping");
        assert_eq!(bench.read("count"), "2");
    }

    #[test]
    fn makes_one_for_each_pull() {
        let mut bench =
            Bench::simulated("p :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 5) -> e :: Unqueue;", 0, 1);
        assert_eq!(bench.run().len(), 5);
        assert!(Bench::error("ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL -1)").contains("INTERVAL"));
        assert!(Bench::error("ICMPPingSource(1.0.0.1)").contains("DST"));
    }
}
