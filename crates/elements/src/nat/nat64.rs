//! # NAT64
//! Lets hosts that have only IPv6 talk to hosts that have only IPv4 (RFC 6146).
//!
//! An IPv6 host sends to an address that contains the IPv4 address of the other side (RFC 6052), usually one
//! that a DNS server with DNS64 has made. The element gives the packets an IPv4 address of its own and a
//! port, and translates replies back. Packets are translated as by ProtocolTranslator64 and
//! ProtocolTranslator46.
//!
//! ## Synopsis
//! `NAT64(POOL1, ..., POOLn [, PREFIX, CAPACITY, HOSTS, HOST_CAPACITY, FILTER, TCP_TIMEOUT,
//! TCP_TRANSITORY_TIMEOUT, UDP_TIMEOUT, ICMP_TIMEOUT, MTU, NON_GLOBAL, LOG])`
//!
//! ## Arguments
//! - `POOL` (*text*, `ADDRESS [LOW-HIGH]`): an IPv4 address for the hosts, and its ports, by default
//!   1024-65535. There may be 256. A host has one of them, and another one only when that has no port left.
//! - `PREFIX` (*IPv6 network*, keyword, default `64:ff9b::/96`): the network whose addresses contain the IPv4
//!   addresses. Its length is 32, 40, 48, 56, 64 or 96.
//! - `CAPACITY` (*int*, keyword, default 4,194,304, at most 16,777,216): how many mappings and sessions there
//!   may be together. Beyond that there are no new ones.
//! - `HOSTS` (*int*, keyword, default 65,536, at most 1,048,576): how many IPv6 addresses may have mappings.
//!   An address without mappings that has sent nothing for a minute is forgotten.
//! - `HOST_CAPACITY` (*int*, keyword, default 16,384): how many mappings and sessions one IPv6 address may
//!   have together, so that none uses up the ports or the table, nor does whoever sends to its ports
//!   (RFC 6888, REQ-4).
//! - `FILTER` (*bool*, keyword, default false): only packets of a session come in from the IPv4 side.
//!   Otherwise any IPv4 host reaches a port that has a mapping (endpoint-independent filtering).
//! - `TCP_TIMEOUT` (*time*, keyword, default 2 h 4 min): how long a session lasts after its last packet,
//!   while the connection is established.
//! - `TCP_TRANSITORY_TIMEOUT` (*time*, keyword, default 4 min): the same before that, after FIN in both
//!   directions, and after RST.
//! - `UDP_TIMEOUT` (*time*, keyword, default 5 min): the same for UDP; RFC 6146 wants two minutes at least.
//! - `ICMP_TIMEOUT` (*time*, keyword, default 1 min): the same for pings.
//! - `MTU` (*int*, bytes, keyword, default 1280): IPv4 packets without Don't Fragment that are longer as IPv6
//!   packets are cut into fragments.
//! - `NON_GLOBAL` (*bool*, keyword, default false): whether addresses of 64:ff9b::/96 may contain IPv4
//!   addresses that are not global, such as private ones. Otherwise packets to and from these are dropped, as
//!   RFC 6052 section 3.1 wants it. With another `PREFIX` they may anyway.
//! - `LOG` (*filename* or `syslog`, keyword): a line for each mapping that begins or ends is added to this
//!   file, or given to the system's log, as by IPRewriter:
//!   `TIME NAME created|deleted PROTOCOL [HOST]:PORT => ADDRESS:PORT`. Sessions, and with them the other
//!   sides, are not logged (RFC 6888 REQ-12).
//!
//! ## Ports
//! Two push inputs, two push outputs. Number 0 is the IPv6 side, number 1 the IPv4 side. Packets begin with
//! their IP header. What comes in at input 0 leaves by output 1 and the other way round; but a packet from
//! one IPv6 host to the mapping of another one goes back to output 0 (hairpinning). The new header is marked,
//! and the destination annotation set. The new hop limit is the old one, so that DecIP6HLIM and DecIPTTL
//! belong in front of the element.
//!
//! TCP, UDP and pings are translated, and ICMP errors about them in both directions. A host's port has the
//! same mapping whoever the other side is (endpoint-independent mapping); its own port if that is free, else
//! one with the same parity, if there are many. Only a SYN begins a session of TCP, and only a request one of
//! ICMP. An ICMP error keeps no session alive and ends none; one with a wrong checksum is dropped.
//!
//! Fragments are translated as they are. Those but the first go where the first one went; if they arrive
//! before it, they wait for it, up to two seconds. At most 1024 packets in fragments are known for each side,
//! and 256 fragments wait. Fragments of pings are dropped, as their checksum would have to be computed over
//! the whole message, and so are datagrams in fragments without checksum from the IPv4 side: for these, an
//! IPReassembler belongs in front of input 1.
//!
//! ## What RFC 6146 asks for
//!
//! | requirement | here |
//! |---|---|
//! | 3.5.1, 3.5.2: sessions of UDP and TCP, endpoint-independent mapping, port parity | yes |
//! | 3.5.1: a mapping ends with its last session | up to four minutes later |
//! | 3.5.1.1: addresses of the prefix as a source are dropped | yes |
//! | 3.5.2.2: TCP by the state of the connection; simultaneous open | yes; a SYN from the IPv4 side needs a mapping, else it is dropped at once, not stored for six seconds |
//! | 3.5.3: ICMP queries | pings; no other ones |
//! | 3.6.1: ICMP errors | yes |
//! | 3.7: address-dependent filtering | `FILTER` is stricter, by address and port |
//! | 3.8: hairpinning | yes |
//! | 3.4: fragments, in any order | yes, but for those of pings |
//! | 5.3: a limit for fragments and state | `CAPACITY`, `HOSTS`, `HOST_CAPACITY` |
//!
//! ## Handlers
//! - `sessions` (read): for each session a line `PROTOCOL [HOST]:PORT => ADDRESS:PORT to REMOTE:PORT
//!   expSECONDS`. Pings have their identifier as port.
//! - `mappings` (read): for each mapping a line `PROTOCOL [HOST]:PORT => ADDRESS:PORT`.
//! - `nsessions`, `nmappings`, `nhosts` (read): how many there are.
//! - `size` (read): sessions and mappings.
//! - `mapping_failures` (read): mappings and sessions that could not be made.
//! - `memory` (read): bytes of memory that they take.
//! - `prefix` (read): the `PREFIX` argument.
//! - `clear` (write): removes all sessions and mappings.
//! - `log_written`, `log_lost` (read): lines of the log that have been written, and that have been lost.
//! - `log_reopen` (write): opens the file of the log anew, after it has been moved away.
//!
//! ## Threads
//! All workers share one table. Packets of a flow may arrive on any worker, replies on another one. Packets
//! of known sessions take no lock, but ICMP errors from the IPv6 side and fragments do; what has none takes
//! that of a sixteenth of the table, or of two. A hot swap keeps sessions and mappings, unless `PREFIX`, a
//! `POOL` or one of the capacities changes.
//!
//! ## Example
//! ```click
//! nat :: NAT64(198.51.100.1, NON_GLOBAL true);
//! InfiniteSource(LIMIT 1, STOP true)
//!   -> UDPIP6Encap(2001:db8::7, 5000, 64:ff9b::192.0.2.9, 53) -> nat;
//! nat [1] -> IPPrint(out) -> IPMirror -> [1] nat;
//! nat [0] -> IP6Print(back) -> Discard;
//! ```
//!
//! ## See also
//! ProtocolTranslator64, ProtocolTranslator46, IPRewriter, IP6Fragmenter, IPReassembler

use super::engine::mappinglog::MappingLog;
use super::engine::pieces::{Datagram, Later, MOST_WAITING};
use super::engine::sixfour::{
    Lifetimes, Pool, Reaped, Remembered, Shared, State, Why, flow_time, key, number, ports,
};
use super::engine::translator::units;
use crate::ip6::engine::embedding::{Embedding, is_global};
use crate::ip6::engine::translate::{
    BAD_ADDRESS, Ends, Kind, LEAST_MTU, NO_CHECKSUM, NOT_TRANSLATED, Refused, SOURCE_ROUTE, Seen,
    WRONG_ERROR, error4, error6, inside4, inside6, is_bad_source, refuse, see4, see6, tcp_flags, to4, to6,
};
use crate::prelude::*;
use lang::args::Raw;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tables::flows::{Found, Key, MOST_FLOWS};
use wire::{protocol, tcp};

const NO_MAPPING: DropReason = DropReason::new("no mapping");
const NO_PORT: DropReason = DropReason::new("no free address or port");
const TABLE_FULL: DropReason = DropReason::new("table of flows full");
const HOSTS_FULL: DropReason = DropReason::new("table of hosts full");
const HOST_FULL: DropReason = DropReason::new("too many sessions of one host");
const NO_FIRST_FRAGMENT: DropReason = DropReason::new("no first fragment");
const TOO_MANY_WAIT: DropReason = DropReason::new("too many fragments wait");

const SIX: usize = 0;
const FOUR: usize = 1;
const DEFAULT_CAPACITY: usize = 1 << 22;
const DEFAULT_HOSTS: usize = 1 << 16;
const DEFAULT_OF_HOST: usize = 1 << 14;
const MOST_HOSTS: usize = 1 << 20;
const MOST_POOLS: usize = 256;

fn reason(why: Why) -> DropReason {
    match why {
        Why::None | Why::Gone => NO_MAPPING,
        Why::NoPort => NO_PORT,
        Why::Full => TABLE_FULL,
        Why::HostFull => HOST_FULL,
    }
}

/// The `NAT64` element.
pub struct NAT64 {
    shared: Arc<Shared>,
    /// The state, as it was in this version.
    state: Arc<State>,
    version: u32,
    filter: bool,
    mtu: usize,
    /// Whether addresses that are not global are translated.
    non_global: bool,
    remembered: Remembered,
    reaped: Reaped,
    /// Fragments of both sides whose first one has come, and those whose first one will not.
    released6: Vec<Packet>,
    released4: Vec<Packet>,
    late: Vec<Packet>,
}

/// When a packet is translated: in the time of the flows and in nanoseconds, and a random number.
#[derive(Clone, Copy)]
struct Moment {
    flows: u32,
    ns: u64,
    random: u64,
}

/// What becomes of a packet from the IPv4 side.
enum Inward {
    /// It is an IPv6 packet.
    Made(Packet),
    /// It becomes one, or several.
    To(Packet, Seen<Ipv4Addr>, Ends<Ipv6Addr>),
    Waits,
}

/// What a fragment belongs to, if its protocol is one whose fragments are translated.
fn datagram<A: Copy>(seen: &Seen<A>) -> Option<Datagram<A>> {
    let of = seen.is_piece_of().filter(|of| matches!(of.1, protocol::TCP | protocol::UDP))?;
    Some(Datagram { src: seen.ends.src, dst: seen.ends.dst, of })
}

/// Reads `ADDRESS [LOW-HIGH]`.
fn pool(text: &str) -> Result<Pool, String> {
    let mut words = text.split_whitespace();
    let address: Ipv4Addr = lang::args::parse(words.next().unwrap_or_default())?;
    let ports = match (words.next(), words.next()) {
        (None, _) => (1024, u16::MAX),
        (Some(range), None) => {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            (lang::args::parse::<u16>(low)?, lang::args::parse::<u16>(high)?)
        }
        _ => return Err("expected `ADDRESS [LOW-HIGH]`".to_owned()),
    };
    if is_bad_source(address) {
        return Err(format!("{address} is not the address of a host"));
    }
    if ports.0 == 0 || ports.0 > ports.1 {
        return Err("the first port must be at least 1 and at most the last one".to_owned());
    }
    Ok(Pool { address, ports })
}

impl Element for NAT64 {
    const CLASS: &'static str = "NAT64";
    const PORTS: &'static str = "2/2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::HEADERS).with(Fields::DST_IP6).with(Fields::DST_IP);
    const DROPS: &'static [DropCase] = &[
        drops::BAD_IP_LENGTH.when("or no IP header of the side's version"),
        BAD_ADDRESS.when(
            "the source is not the address of one host, or is one of the prefix, or the destination is \
             none of the prefix or of the pools, or the IPv4 address is not global (see `NON_GLOBAL`)",
        ),
        SOURCE_ROUTE.when("the packet has one that has not come to its end"),
        NOT_TRANSLATED.when(
            "another protocol or message than those above, a fragment of a ping, or a transport header \
             that is cut off",
        ),
        NO_MAPPING.when("the packet belongs to no session, and may not begin one"),
        NO_PORT.when("all ports of the pools are in use"),
        TABLE_FULL.when("there are `CAPACITY` mappings and sessions, or there is no memory"),
        HOSTS_FULL.when("there are `HOSTS` hosts"),
        HOST_FULL.when("the host has `HOST_CAPACITY` mappings and sessions"),
        NO_CHECKSUM.when("it cannot be computed, as the other fragments are not there"),
        NO_FIRST_FRAGMENT.when("the one with the ports did not come within two seconds"),
        TOO_MANY_WAIT.when("256 fragments wait for first ones"),
        WRONG_ERROR,
        drops::BAD_PACKET_LENGTH.when("a UDP datagram without checksum has a wrong length"),
        drops::PACKET_TOO_LONG.when("more than 65535 bytes as a packet of the other version"),
        drops::OUT_OF_MEMORY.when("there was no buffer for the new packet"),
    ];
    const MANUAL: &'static str = manual!("nat/nat64");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let prefix = args.k::<Raw>("PREFIX")?.map_or("64:ff9b::/96".to_owned(), |Raw(text)| text.to_string());
        let prefix = Embedding::parse(&prefix).map_err(|e| args.error(format!("PREFIX: {e}")))?;
        let capacity = args.k::<u32>("CAPACITY")?.map_or(DEFAULT_CAPACITY, |n| n as usize);
        let hosts = args.k::<u32>("HOSTS")?.map_or(DEFAULT_HOSTS, |n| n as usize);
        let of_host = args.k::<u32>("HOST_CAPACITY")?.map_or(DEFAULT_OF_HOST, |n| n as usize);
        for (name, n, most) in [
            ("CAPACITY", capacity, MOST_FLOWS),
            ("HOSTS", hosts, MOST_HOSTS),
            ("HOST_CAPACITY", of_host, MOST_FLOWS),
        ] {
            if n == 0 || n > most {
                return Err(args.error(format!("{name} must be 1 to {most}")));
            }
        }
        let filter = args.k_or("FILTER", false)?;
        let non_global = args.k_or("NON_GLOBAL", false)? || !prefix.is_well_known();
        let mut time = |name: &str, seconds: u64| {
            args.k::<Duration>(name).map(|t| units(t.unwrap_or(Duration::from_secs(seconds))).max(1))
        };
        let lifetimes = Lifetimes {
            tcp: time("TCP_TIMEOUT", 7440)?,
            transitory: time("TCP_TRANSITORY_TIMEOUT", 240)?,
            udp: time("UDP_TIMEOUT", 300)?,
            ping: time("ICMP_TIMEOUT", 60)?,
        };
        let mtu = args.k::<u16>("MTU")?.map_or(LEAST_MTU, usize::from);
        if mtu < LEAST_MTU {
            return Err(args.error(format!("MTU must be at least {LEAST_MTU}")));
        }
        let log = MappingLog::from_args(args, cx)?;
        let mut pools: Vec<Pool> = Vec::new();
        for spec in args.rest_args() {
            let one = pool(&spec.text).map_err(|e| args.error_at(&spec, format!("POOL: {e}")))?;
            if pools.iter().any(|pool| pool.address == one.address) {
                return Err(args.error_at(&spec, format!("POOL: {} is there twice", one.address)));
            }
            pools.push(one);
        }
        if pools.is_empty() || pools.len() > MOST_POOLS {
            return Err(args.error(format!("need 1 to {MOST_POOLS} POOLs")));
        }
        let shared = cx
            .try_shared(|| {
                State::new(prefix, pools, (capacity, hosts, of_host))
                    .map(|s| Shared::new(s, lifetimes))
                    .ok_or(())
            })
            .map_err(|()| args.error("out of memory"))?;
        shared.state().set_log(log);
        let share = (cx.worker().0, cx.workers().max(1));
        // Fragments that wait, of both sides.
        cx.holds_together(2 * MOST_WAITING);
        Ok(Self {
            version: shared.version(),
            state: shared.state(),
            shared,
            filter,
            mtu,
            non_global,
            remembered: Remembered::new(),
            reaped: Reaped::new(share),
            released6: Vec::with_capacity(MOST_WAITING),
            released4: Vec::with_capacity(MOST_WAITING),
            late: Vec::with_capacity(2 * MOST_WAITING),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Shared>("sessions", |s, _| Ok(s.state().table(false, &s.lifetimes)));
        h.shared_read::<Shared>("mappings", |s, _| Ok(s.state().table(true, &s.lifetimes)));
        h.shared_read::<Shared>("nsessions", |s, _| Ok(s.state().n_sessions().to_string()));
        h.shared_read::<Shared>("nmappings", |s, _| Ok(s.state().n_mappings().to_string()));
        h.shared_read::<Shared>("nhosts", |s, _| Ok(s.state().n_hosts().to_string()));
        h.shared_read::<Shared>("size", |s, _| Ok(s.state().flows().len().to_string()));
        h.shared_read::<Shared>("mapping_failures", |s, _| Ok(s.state().failures().to_string()));
        h.shared_read::<Shared>("memory", |s, _| Ok(s.state().flows().bytes().to_string()));
        h.shared_read::<Shared>("prefix", |s, _| Ok(s.state().prefix().to_string()));
        h.shared_write::<Shared>("clear", |s, _| {
            s.state().clear();
            Ok(())
        });
        h.shared_read::<Shared>("log_written", |s, _| {
            Ok(s.state().log().map_or(0, |log| log.written()).to_string())
        });
        h.shared_read::<Shared>("log_lost", |s, _| {
            Ok(s.state().log().map_or(0, |log| log.lost()).to_string())
        });
        h.shared_write::<Shared>("log_reopen", |s, _| {
            s.state().log().into_iter().for_each(|log| log.reopen());
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.state.log().into_iter().for_each(|log| log.note_time(cx.now_ns()));
        cx.timer_after(0, Duration::ZERO);
        Ok(())
    }

    fn run_timer(&mut self, id: u32, cx: &mut Cx<'_>) {
        self.refresh();
        let next = self.state.reap(&mut self.reaped, &self.shared.lifetimes, flow_time(cx.now_ns()));
        self.state.pieces6.forget(cx.now_ns(), &mut self.late);
        self.state.pieces4.forget(cx.now_ns(), &mut self.late);
        self.drop_late(cx);
        cx.timer_after(id, next);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.shared.adopt(&old.shared);
        self.refresh();
    }
}

impl NAT64 {
    fn refresh(&mut self) {
        if self.version != self.shared.version() {
            self.version = self.shared.version();
            self.state = self.shared.state();
        }
    }

    fn drop_late(&mut self, cx: &mut Cx<'_>) {
        for packet in self.late.drain(..) {
            cx.drop(packet, NO_FIRST_FRAGMENT);
        }
    }

    /// Whether packets of this IPv4 host are translated.
    fn is_allowed(&self, remote: Ipv4Addr) -> bool {
        !is_bad_source(remote) && (self.non_global || is_global(remote))
    }

    /// Translates a packet from the IPv6 side; `None` if it waits.
    fn outward(&mut self, packet: Packet, now: Moment) -> Result<Option<Packet>, Refused> {
        let seen = match see6(packet.data(), false) {
            Ok(seen) => seen,
            Err(why) => return Err((Some(packet), why)),
        };
        let Some(remote) = self.remote(&seen.ends) else { return Err((Some(packet), BAD_ADDRESS)) };
        let id = (now.random >> 16) as u16;
        let to = match number(seen.kind) {
            _ if seen.kind == Kind::Error => {
                let made = self.outward_error(&packet, &seen, remote, id);
                return made.map(Some).map_err(|why| (Some(packet), why));
            }
            _ if seen.is_later_fragment() => {
                let Some(of) = datagram(&seen) else { return Err((Some(packet), NOT_TRANSLATED)) };
                return match self.state.pieces6.later(of, packet, now.ns, &mut self.late) {
                    Later::Goes(packet, (src, dst)) => {
                        to4(packet, &seen, &seen.ends.with(src, dst), id).map(Some)
                    }
                    Later::Waits => Ok(None),
                    Later::Full(packet) => Err((Some(packet), TOO_MANY_WAIT)),
                };
            }
            Some(kind) => self.outward_session(&packet, &seen, (kind, remote), now),
            None => Err(NOT_TRANSLATED),
        };
        let to = match to {
            Ok(to) => to,
            Err(why) => return Err((Some(packet), why)),
        };
        if let Some(of) = datagram(&seen) {
            let others = (&mut self.released6, &mut self.late);
            self.state.pieces6.first(of, (to.src, to.dst), now.ns, others);
        }
        to4(packet, &seen, &to, id).map(Some)
    }

    /// The IPv4 host that a packet is sent to, if its addresses are right.
    fn remote(&self, ends: &Ends<Ipv6Addr>) -> Option<Ipv4Addr> {
        let (prefix, src) = (self.state.prefix(), ends.src);
        let remote = prefix.extract(ends.dst)?;
        let bad = src.is_multicast() || src.is_unspecified() || src.is_loopback();
        let is_host = !bad && !src.is_unicast_link_local() && !prefix.contains(src);
        (is_host && self.is_allowed(remote)).then_some(remote)
    }

    fn outward_session(
        &mut self,
        packet: &Packet,
        seen: &Seen<Ipv6Addr>,
        (kind, remote): (u8, Ipv4Addr),
        Moment { flows: now, random, .. }: Moment,
    ) -> Result<Ends<Ipv4Addr>, DropReason> {
        let state = &self.state;
        let flags = tcp_flags(packet, seen);
        let is_ping = matches!(seen.kind, Kind::Echo | Kind::EchoReply);
        let may_begin = match seen.kind {
            Kind::Tcp => flags & (tcp::SYN | tcp::RST | tcp::ACK) == tcp::SYN,
            kind => kind != Kind::EchoReply,
        };
        let remote_port = if is_ping { 0 } else { seen.ends.dport };
        let mut session = || -> Result<Result<(Key, Found), Why>, DropReason> {
            let host = if may_begin {
                state.number(seen.ends.src, now, &mut self.remembered).ok_or(HOSTS_FULL)?
            } else {
                state.known(seen.ends.src, now, &mut self.remembered).ok_or(NO_MAPPING)?
            };
            let key = key(kind, host, remote.to_bits(), (seen.ends.sport, remote_port));
            Ok(match state.of_host(&key, seen.ends.src) {
                Some(found) => Ok((key, found)),
                None => state.begin(&key, seen.ends.src, may_begin, (now, random)).map(|found| (key, found)),
            })
        };
        let (key, found) = match session()? {
            // The number was given away just now; the host gets another one.
            Err(Why::Gone) => session()?.map_err(reason)?,
            made => made.map_err(reason)?,
        };
        state.touch(&key, &found, flags, now);
        let (sport, dport) = ports(&found.to);
        Ok(Ends {
            src: Ipv4Addr::from_bits(found.to.src),
            dst: remote,
            sport,
            dport: if is_ping { sport } else { dport },
        })
    }

    /// An ICMPv6 error is about a packet that came from the IPv4 side.
    fn outward_error(
        &self,
        packet: &Packet,
        seen: &Seen<Ipv6Addr>,
        remote: Ipv4Addr,
        id: u16,
    ) -> Result<Packet, DropReason> {
        let (inside, quoted) = inside6(packet.data(), seen)?;
        let kind = number(inside.kind).ok_or(NOT_TRANSLATED)?;
        let host = self.state.find(inside.ends.dst).ok_or(NO_MAPPING)?;
        let is_ping = matches!(inside.kind, Kind::Echo | Kind::EchoReply);
        let from = self.state.prefix().extract(inside.ends.src).ok_or(BAD_ADDRESS)?;
        let remote_port = if is_ping { 0 } else { inside.ends.sport };
        let key = key(kind, host, from.to_bits(), (inside.ends.dport, remote_port));
        let found = self.state.flows().get(&key).ok_or(NO_MAPPING)?;
        let own = Ipv4Addr::from_bits(found.to.src);
        let port = ports(&found.to).0;
        let sport = if is_ping { port } else { inside.ends.sport };
        let about = Ends { src: from, dst: own, sport, dport: port };
        // A router of the IPv6 side has no mapping; its errors come from the address of the host's mapping.
        let to = Ends { src: own, dst: remote, sport: 0, dport: 0 };
        error4(packet, (seen, id), &to, (&inside, quoted), &about)
    }

    /// What becomes of a packet from the IPv4 side.
    fn inward(&mut self, packet: Packet, now: Moment) -> Result<Inward, Refused> {
        let seen = match see4(packet.data(), false) {
            Ok(seen) if !self.is_allowed(seen.ends.src) || !self.state.is_own(seen.ends.dst) => {
                return Err((Some(packet), BAD_ADDRESS));
            }
            Ok(seen) => seen,
            Err(why) => return Err((Some(packet), why)),
        };
        let to = match number(seen.kind) {
            _ if seen.kind == Kind::Error => {
                let made = self.inward_error(&packet, &seen);
                return made.map(Inward::Made).map_err(|why| (Some(packet), why));
            }
            _ if seen.is_later_fragment() => {
                let Some(of) = datagram(&seen) else { return Err((Some(packet), NOT_TRANSLATED)) };
                return match self.state.pieces4.later(of, packet, now.ns, &mut self.late) {
                    Later::Goes(packet, (src, dst)) => Ok(Inward::To(packet, seen, seen.ends.with(src, dst))),
                    Later::Waits => Ok(Inward::Waits),
                    Later::Full(packet) => Err((Some(packet), TOO_MANY_WAIT)),
                };
            }
            _ if seen.lacks_checksum(packet.data()) => Err(NO_CHECKSUM),
            Some(kind) => self.inward_session(&packet, &seen, kind, now.flows),
            None => Err(NOT_TRANSLATED),
        };
        let to = match to {
            Ok(to) => to,
            Err(why) => return Err((Some(packet), why)),
        };
        if let Some(of) = datagram(&seen) {
            let others = (&mut self.released4, &mut self.late);
            self.state.pieces4.first(of, (to.src, to.dst), now.ns, others);
        }
        Ok(Inward::To(packet, seen, to))
    }

    fn inward_session(
        &self,
        packet: &Packet,
        seen: &Seen<Ipv4Addr>,
        kind: u8,
        now: u32,
    ) -> Result<Ends<Ipv6Addr>, DropReason> {
        let flags = tcp_flags(packet, seen);
        let is_ping = matches!(seen.kind, Kind::Echo | Kind::EchoReply);
        let remote_port = if is_ping { 0 } else { seen.ends.sport };
        let (src, dst) = (seen.ends.src.to_bits(), seen.ends.dst.to_bits());
        let key = key(kind, src, dst, (remote_port, seen.ends.dport));
        let found = match self.state.flows().get(&key) {
            Some(found) => found,
            None => {
                let may_begin = !self.filter
                    && match seen.kind {
                        Kind::Tcp => flags & (tcp::SYN | tcp::RST | tcp::ACK) == tcp::SYN,
                        kind => kind != Kind::EchoReply,
                    };
                self.state.begin_inward(&key, may_begin, now).map_err(reason)?
            }
        };
        self.state.touch(&key, &found, flags, now);
        let host = self.state.host(found.to.dst).ok_or(NO_MAPPING)?;
        let (sport, dport) = ports(&found.to);
        Ok(Ends {
            src: self.state.prefix().embed(seen.ends.src),
            dst: host,
            sport: if is_ping { dport } else { sport },
            dport,
        })
    }

    /// An ICMP error is about a packet that left on the IPv4 side.
    fn inward_error(&self, packet: &Packet, seen: &Seen<Ipv4Addr>) -> Result<Packet, DropReason> {
        let (inside, quoted) = inside4(packet.data(), seen)?;
        let kind = number(inside.kind).ok_or(NOT_TRANSLATED)?;
        let is_ping = matches!(inside.kind, Kind::Echo | Kind::EchoReply);
        let remote_port = if is_ping { 0 } else { inside.ends.dport };
        let (own, remote) = (inside.ends.src, inside.ends.dst);
        let key = key(kind, remote.to_bits(), own.to_bits(), (remote_port, inside.ends.sport));
        let found = self.state.flows().get(&key).ok_or(NO_MAPPING)?;
        let host = self.state.host(found.to.dst).ok_or(NO_MAPPING)?;
        let port = ports(&found.to).1;
        let prefix = self.state.prefix();
        let dport = if is_ping { port } else { inside.ends.dport };
        let about = Ends { src: host, dst: prefix.embed(remote), sport: port, dport };
        let to = Ends { src: prefix.embed(seen.ends.src), dst: host, sport: 0, dport: 0 };
        error6(packet, seen, &to, (&inside, quoted), &about)
    }

    /// Translates a packet from the IPv4 side, and sends it.
    fn send_inward(&mut self, packet: Packet, now: Moment, cx: &mut Cx<'_>) {
        match self.inward(packet, now) {
            Ok(Inward::To(packet, seen, to)) => to6(packet, &seen, &to, self.mtu, |made| match made {
                Ok(made) => cx.output(SIX, made),
                Err(refused) => refuse(refused, cx),
            }),
            Ok(Inward::Made(made)) => cx.output(SIX, made),
            Ok(Inward::Waits) => {}
            Err(refused) => refuse(refused, cx),
        }
    }

    /// Translates a packet from the IPv6 side, and sends it.
    fn send_outward(&mut self, packet: Packet, now: Moment, cx: &mut Cx<'_>) {
        match self.outward(packet, now) {
            Ok(Some(made)) if self.state.is_own(Ipv4Addr::from(made.dst_ip())) => {
                self.send_inward(made, now, cx);
            }
            Ok(Some(made)) => cx.output(FOUR, made),
            Ok(None) => {}
            Err(refused) => refuse(refused, cx),
        }
    }

    /// Sends the fragments that have waited for one that has come, and drops those that have waited in vain.
    fn release(&mut self, now: Moment, cx: &mut Cx<'_>) {
        if !self.released6.is_empty() {
            let mut all = std::mem::take(&mut self.released6);
            all.drain(..).for_each(|packet| self.send_outward(packet, now, cx));
            self.released6 = all;
        }
        if !self.released4.is_empty() {
            let mut all = std::mem::take(&mut self.released4);
            all.drain(..).for_each(|packet| self.send_inward(packet, now, cx));
            self.released4 = all;
        }
        self.drop_late(cx);
    }
}

impl Vector for NAT64 {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.refresh();
        let ns = cx.now_ns();
        let mut now = Moment { flows: flow_time(ns), ns, random: 0 };
        self.state.note_time(now.flows);
        for packet in batch.drain(..) {
            if port == FOUR {
                self.send_inward(packet, now, cx);
            } else {
                now.random = cx.random();
                self.send_outward(packet, now, cx);
            }
            self.release(now, cx);
        }
        cx.recycle(batch);
    }
}
