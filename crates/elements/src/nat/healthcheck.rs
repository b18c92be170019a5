//! # HealthCheck
//! Asks the servers of a load balancer whether they are there, by ping or by TCP.
//!
//! ## Synopsis
//! `HealthCheck(POOL, SRC, [METHOD, PORT, INTERVAL, FALL, RISE])`
//!
//! ## Arguments
//! - `POOL` (*element*): the MaglevIPMapper whose servers are asked.
//! - `SRC` (*IP address*): the source of the questions, to which servers answer.
//! - `METHOD` (*ping* or *tcp*, keyword, default ping): an ICMP echo request; or the beginning of a TCP
//!   connection (SYN), which is given up when the server accepts it (RST).
//! - `PORT` (*port*, keyword): the TCP port of servers that have none in `POOL`; it must be given if there
//!   are such. Servers without a port that come later are not asked if there is none.
//! - `INTERVAL` (*time*, keyword, default 1 s, at least 10 ms): how often each server is asked. An answer
//!   that comes later than that counts for nothing.
//! - `FALL` (*int*, keyword, default 3): after so many questions without an answer a server gets no new
//!   flows.
//! - `RISE` (*int*, keyword, default 2): after so many answers it gets some again.
//!
//! A line is printed when a server falls silent, and when it answers again. A server that an operator has
//! taken out (`down`) is asked, too, and stays out. Flows that exist are not touched.
//!
//! ## Ports
//! One push output for the questions, IP packets with the destination annotation set; one push input for the
//! answers, IP packets whose header has been marked. Packets that are none are dropped.
//!
//! ## Handlers
//! - `state` (read): each server on a line: address, port, questions, answers, questions without an answer in
//!   a row.
//!
//! ## Threads
//! One instance, on one worker.
//!
//! ## Example
//! ```click
//! pool :: MaglevIPMapper(10.0.0.1, 10.0.0.2);
//! balancer :: IPRewriter(pool, drop);
//! Idle -> balancer; Idle -> [1] balancer;
//! balancer [0] -> Discard; balancer [1] -> Discard;
//! // In the place of real servers.
//! health :: HealthCheck(pool, 10.0.0.254, INTERVAL 100ms) -> ICMPPingResponder -> health;
//! DriverManager(wait 0.35s, print pool.servers, stop);
//! ```
//!
//! ## See also
//! MaglevIPMapper, IPRewriter

use super::engine::pool::{Place, Pool};
use crate::plumbing::engine::text;
use crate::prelude::*;
use crate::transport::engine::datagram::Datagram;
use crate::transport::icmppingencap::{HEADERS_LEN, Ping};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Icmpv4, Ipv4, Tcp, icmpv4, ipv4, protocol, tcp};

const NO_ANSWER: DropReason = DropReason::new("not an answer");
const TTL: u8 = 64;
const LEAST_INTERVAL: Duration = Duration::from_millis(10);
/// The source port of TCP questions.
const SPORT: u16 = 1023;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Ping,
    Tcp,
}

/// What is known of a server.
#[derive(Clone, Copy, Default)]
struct Known {
    questions: u64,
    answers: u64,
    /// Whether the last question has been answered.
    answered: bool,
    silent: u32,
    answering: u32,
}

/// The `HealthCheck` element.
pub struct HealthCheck {
    pool: Arc<Pool>,
    src: Ipv4Addr,
    method: Method,
    port: Option<u16>,
    interval: Duration,
    fall: u32,
    rise: u32,
    /// What decides what an answer must have, and how often servers have been asked.
    secret: u64,
    round: u16,
    /// When they are asked next.
    due_ns: u64,
    known: HashMap<Place, Known>,
}

impl Element for HealthCheck {
    const CLASS: &'static str = "HealthCheck";
    const PORTS: &'static str = "1/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] = &[
        NO_ANSWER.when("to the last question to a server, or an answer that has been counted"),
        drops::OUT_OF_MEMORY.when("there was no buffer for a question"),
    ];
    const MANUAL: &'static str = manual!("nat/healthcheck");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let pool: String = args.mp("POOL")?;
        let src = args.mp("SRC")?;
        let method = args.with("METHOD", false, false, |text, _| match text {
            "ping" => Ok(Method::Ping),
            "tcp" => Ok(Method::Tcp),
            _ => Err("expected 'ping' or 'tcp'".to_owned()),
        })?;
        let port: Option<u16> = args.k("PORT")?;
        let interval = args.k_or("INTERVAL", Duration::from_secs(1))?;
        let (fall, rise) = (args.k_or("FALL", 3u32)?, args.k_or("RISE", 2u32)?);
        if interval < LEAST_INTERVAL {
            return Err(args.error("INTERVAL must be 10 ms or more"));
        }
        if fall == 0 || rise == 0 {
            return Err(args.error("FALL and RISE must be 1 or more"));
        }
        if port == Some(0) {
            return Err(args.error("PORT must be 1 or more"));
        }
        let pool = cx.shared_of::<Pool>(&pool, "a MaglevIPMapper")?;
        let method = method.unwrap_or(Method::Ping);
        let no_port = |((_, port), _): &(Place, bool)| port.is_none();
        if method == Method::Tcp && port.is_none() && pool.places().iter().any(no_port) {
            return Err(args.error("PORT: a server has no port, so that one must be given"));
        }
        let known = HashMap::new();
        Ok(Self { pool, src, method, port, interval, fall, rise, secret: 0, round: 0, due_ns: 0, known })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("state", |e| {
            let mut text = String::new();
            for (place, _) in e.pool.places() {
                let Known { questions, answers, silent, .. } =
                    e.known.get(&place).copied().unwrap_or_default();
                let port = place.1.map_or_else(|| "-".to_owned(), |port| port.to_string());
                let _ = writeln!(text, "{} {port} {questions} {answers} {silent}", place.0);
            }
            text
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.secret = cx.random();
        cx.timer_after(0, Duration::ZERO);
        Ok(())
    }

    fn run_timer(&mut self, id: u32, cx: &mut Cx<'_>) {
        // After a hot swap, servers are asked when they would have been.
        if cx.now_ns() >= self.due_ns {
            self.ask(cx);
            let interval = text::nanos(self.interval);
            self.due_ns = cx.now_ns().saturating_add(interval);
        }
        cx.timer_at(id, self.due_ns);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.known = std::mem::take(&mut old.known);
        if self.method == old.method {
            (self.secret, self.round, self.due_ns) = (old.secret, old.round, old.due_ns);
        }
    }
}

impl HealthCheck {
    /// Judges the answers to the last questions, and asks again.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        let places = self.pool.places();
        self.known.retain(|known, _| places.iter().any(|(place, _)| place == known));
        let mut changes = Vec::new();
        for (place, answers) in &places {
            let known = self.known.entry(*place).or_default();
            if known.questions > 0 {
                if known.answered {
                    (known.answering, known.silent) = (known.answering.saturating_add(1), 0);
                } else {
                    (known.answering, known.silent) = (0, known.silent.saturating_add(1));
                }
                // What counts is what the pool believes now: it may have been made anew.
                let (fall, rise) = (known.silent >= self.fall, known.answering >= self.rise);
                if *answers && fall || !*answers && rise {
                    changes.push((*place, !fall));
                    let what = if fall { "does not answer" } else { "answers again" };
                    let port = place.1.map_or_else(String::new, |port| format!(" port {port}"));
                    cx.chatter(&format!("{}: server {}{port} {what}", cx.name(), place.0));
                }
            }
        }
        if !changes.is_empty() {
            self.pool.set_answers(&changes);
        }
        self.round = self.round.wrapping_add(1);
        for (place, _) in places {
            let port = place.1.or(self.port);
            let question = match (self.method, port) {
                (Method::Ping, _) => self.ping(place.0),
                (Method::Tcp, Some(port)) => self.segment(place.0, port, tcp::SYN, self.expected(place), 0),
                // It has been added without a port: nothing can be asked.
                (Method::Tcp, None) => continue,
            };
            if let Some(known) = self.known.get_mut(&place) {
                known.answered = false;
                known.questions += 1;
            }
            match question {
                Some(packet) => cx.output(0, packet),
                None => cx.count_drops(1, drops::OUT_OF_MEMORY),
            }
        }
    }

    /// What the answer of a server to the question of this round has: the sequence number that is
    /// acknowledged, or, of pings, the identifier, in which the port has no part.
    fn expected(&self, (address, port): Place) -> u32 {
        let port = if self.method == Method::Tcp { port.map_or(0, u64::from) } else { 0 };
        let server = u64::from(u32::from(address)) << 16 | port;
        let x = (self.secret ^ server.wrapping_add(u64::from(self.round) << 48))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((x ^ x >> 31).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32
    }

    fn ping(&self, dst: Ipv4Addr) -> Option<Packet> {
        let mut packet = Packet::alloc(dpdk::DEFAULT_HEADROOM, HEADERS_LEN)?;
        let (src, seq, identifier) = (self.src, self.round, self.expected((dst, None)) as u16);
        Ping { src, dst, ttl: TTL, identifier, seq }.write(&mut packet);
        Some(packet)
    }

    fn segment(&self, dst: Ipv4Addr, port: u16, flags: u8, seq: u32, ack: u32) -> Option<Packet> {
        const LEN: usize = ipv4::HEADER_LEN + tcp::HEADER_LEN;
        let mut packet = Packet::alloc(dpdk::DEFAULT_HEADROOM, LEN)?;
        let (head, rest) = packet.data_mut().split_first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        let mut ip = Ipv4::build(self.src, dst, protocol::TCP, 0);
        ip.set_total_len(LEN as u16);
        ip.set_ttl(TTL);
        ip.fill_checksum();
        *head = *ip.bytes();
        let mut t = Tcp::zeroed();
        t.set_src_port(SPORT);
        t.set_dst_port(port);
        t.set_seq(seq);
        t.set_ack(ack);
        t.set_header_len(tcp::HEADER_LEN);
        t.set_flags(flags);
        rest.copy_from_slice(t.bytes());
        tcp::fill(ip.pseudo_sum(tcp::HEADER_LEN as u16), rest);
        packet.set_dst_ip(dst.octets());
        packet.set_network_header(0, ipv4::HEADER_LEN);
        Some(packet)
    }

    /// The server that an answer is from, and, of one that has accepted a connection, the segment that gives
    /// it up.
    fn answer(&self, packet: &Packet) -> Option<(Place, Option<Packet>)> {
        let d = Datagram::of(packet)?;
        let from = d.ip.src();
        if d.ip.dst() != self.src {
            return None;
        }
        let of = |port: Option<u16>| {
            let same = |place: &&Place| {
                place.0 == from && port.is_none_or(|port| place.1.or(self.port) == Some(port))
            };
            self.known.keys().find(same).copied()
        };
        match (self.method, d.ip.protocol()) {
            (Method::Ping, protocol::ICMP) => {
                let m = Icmpv4::new(d.rest)?;
                let ours = m.kind() == icmpv4::ECHO_REPLY
                    && m.id() == self.expected((from, None)) as u16
                    && m.seq() == self.round;
                ours.then(|| of(None)).flatten().map(|place| (place, None))
            }
            (Method::Tcp, protocol::TCP) => {
                let t = Tcp::new(d.rest)?;
                let accepted = t.flags() & (tcp::SYN | tcp::ACK | tcp::RST) == tcp::SYN | tcp::ACK;
                let place = of(Some(t.src_port()))?;
                let next = self.expected(place).wrapping_add(1);
                if !accepted || t.dst_port() != SPORT || t.ack() != next {
                    return None;
                }
                Some((place, self.segment(from, t.src_port(), tcp::RST, next, 0)))
            }
            _ => None,
        }
    }
}

impl Vector for HealthCheck {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            let Some((place, end)) = self.answer(&packet) else {
                cx.drop(packet, NO_ANSWER);
                continue;
            };
            // With ping, all ports of a host answer together.
            let of_host = self.method == Method::Ping;
            for (other, known) in &mut self.known {
                if (*other == place || of_host && other.0 == place.0) && !known.answered {
                    known.answered = true;
                    known.answers += 1;
                }
            }
            end.into_iter().for_each(|packet| cx.output(0, packet));
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::marked;
    use crate::testing::Bench;
    use wire::{Ipv4, Tcp, tcp};

    const POOL: &str = "m :: MaglevIPMapper(10.0.0.1 80, 10.0.0.2 80);";

    fn bench(more: &str) -> Bench {
        Bench::simulated(&format!("{POOL} e :: HealthCheck(m, 10.0.0.254, INTERVAL 1{more});"), 1, 1)
    }
    /// The questions of the next round.
    fn questions(bench: &mut Bench) -> Vec<Vec<u8>> {
        for _ in 0..100 {
            bench.turn();
            let out = bench.take();
            if !out.is_empty() {
                return out.into_iter().map(|(_, packet)| packet.data().to_vec()).collect();
            }
        }
        Vec::new()
    }
    fn states(bench: &mut Bench) -> Vec<String> {
        bench.read("m.servers").lines().map(|l| l.split(' ').nth(3).unwrap().to_owned()).collect()
    }
    /// A ping's reply.
    fn pong(question: &[u8]) -> dpdk::Packet {
        let mut bytes = question.to_vec();
        let (src, dst) = (question[12..16].to_vec(), question[16..20].to_vec());
        bytes[12..16].copy_from_slice(&dst);
        bytes[16..20].copy_from_slice(&src);
        bytes[20] = 0;
        marked(&bytes)
    }

    #[test]
    fn servers_fall_silent_and_come_back() {
        let mut bench = bench("");
        let lines = bench.listen();
        let mut seen = Vec::new();
        for round in 0..9 {
            let asked = questions(&mut bench);
            assert_eq!(asked.len(), 2);
            seen.push(states(&mut bench));
            for question in &asked {
                // The second server answers in the rounds 0, 1, and from 5 on.
                if question[19] == 1 || !(2..5).contains(&round) {
                    assert!(bench.send(0, pong(question)).is_empty());
                }
            }
        }
        // Judged at the next question: after three rounds without an answer, and after two with one.
        let second: Vec<&str> = seen.iter().map(|states| states[1].as_str()).collect();
        assert_eq!(second, ["up", "up", "up", "up", "up", "silent", "silent", "up", "up"]);
        assert!(seen.iter().all(|states| states[0] == "up"));
        let lines = lines.lock().unwrap();
        assert_eq!(
            *lines,
            ["e: server 10.0.0.2 port 80 does not answer", "e: server 10.0.0.2 port 80 answers again"]
        );
        assert_eq!(bench.read("state"), "10.0.0.1 80 9 9 0\n10.0.0.2 80 9 6 0\n");
    }

    #[test]
    fn a_server_that_is_made_anew_is_judged_anew() {
        let mut bench = bench(", FALL 2");
        let ask = |bench: &mut Bench, rounds: usize, second: bool| {
            for _ in 0..rounds {
                for question in questions(bench) {
                    if question[19] == 1 || second {
                        bench.send(0, pong(&question));
                    }
                }
            }
        };
        ask(&mut bench, 4, false);
        assert_eq!(states(&mut bench), ["up", "silent"]);
        bench.write("m.remove", "10.0.0.2");
        bench.write("m.add", "10.0.0.2 80");
        assert_eq!(states(&mut bench), ["up", "up"]);
        ask(&mut bench, 1, false);
        assert_eq!(states(&mut bench), ["up", "silent"]);
        ask(&mut bench, 4, true);
        assert_eq!(states(&mut bench), ["up", "up"]);
    }

    #[test]
    fn what_is_no_answer_counts_for_nothing() {
        let mut bench = bench(", FALL 1");
        let old = questions(&mut bench);
        let asked = questions(&mut bench);
        assert_eq!(states(&mut bench), ["silent", "silent"]);
        // Of the round before, of another host, no reply.
        let mut other = asked[0].clone();
        other[19] = 9;
        bench.send(0, pong(&old[0]));
        bench.send(0, pong(&other));
        bench.send(0, marked(&asked[0]));
        bench.send(0, marked(&[0x45; 28]));
        assert_eq!(bench.drops(), [("not an answer".to_owned(), 4)]);
        assert_eq!(bench.read("state"), "10.0.0.1 80 2 0 1\n10.0.0.2 80 2 0 1\n");
    }

    #[test]
    fn connections_are_accepted_and_given_up() {
        let mut bench = bench(", METHOD tcp, FALL 1");
        let asked = questions(&mut bench);
        let question = &asked[0];
        let t = Tcp::new(&question[20..]).unwrap();
        assert_eq!((t.flags(), t.dst_port()), (tcp::SYN, 80));
        let answer = |flags: u8, ack: u32| {
            let mut t2 = Tcp::zeroed();
            t2.set_src_port(80);
            t2.set_dst_port(t.src_port());
            t2.set_seq(77);
            t2.set_ack(ack);
            t2.set_header_len(20);
            t2.set_flags(flags);
            let src = <[u8; 4]>::try_from(&question[16..20]).unwrap();
            let mut ip = Ipv4::build(src.into(), [10, 0, 0, 254].into(), 6, 20);
            ip.fill_checksum();
            let mut bytes = ip.bytes().to_vec();
            bytes.extend_from_slice(t2.bytes());
            marked(&bytes)
        };
        assert!(bench.send(0, answer(tcp::RST | tcp::ACK, t.seq() + 1)).is_empty());
        assert!(bench.send(0, answer(tcp::SYN | tcp::ACK, t.seq())).is_empty());
        let out = bench.send(0, answer(tcp::SYN | tcp::ACK, t.seq() + 1));
        let end = Tcp::new(&out[0].1.data()[20..]).unwrap();
        assert_eq!((end.flags(), end.seq()), (tcp::RST, t.seq() + 1));
        questions(&mut bench);
        assert_eq!(states(&mut bench), ["up", "silent"]);
    }

    #[test]
    fn errors() {
        for (declaration, wrong) in [
            ("HealthCheck(zonk, 1.0.0.1)", "no element named 'zonk'"),
            ("HealthCheck(m, 1.0.0.1, METHOD x)", "expected 'ping' or 'tcp'"),
            ("HealthCheck(m, 1.0.0.1, INTERVAL 1ms)", "INTERVAL must be 10 ms or more"),
            ("HealthCheck(m, 1.0.0.1, FALL 0)", "FALL and RISE must be 1 or more"),
            ("HealthCheck(m, 1.0.0.1, PORT 0)", "PORT must be 1 or more"),
            ("HealthCheck(m, 1.0.0.1, METHOD tcp)", "PORT: a server has no port"),
        ] {
            let error = Bench::error(&format!("{declaration}; m :: MaglevIPMapper(10.0.0.1)"));
            assert!(error.contains(wrong), "{declaration}: {error}");
        }
    }
}
