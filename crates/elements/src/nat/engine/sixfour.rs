//! The mappings and sessions of a stateful NAT64 (RFC 6146), which all workers share.
//!
//! Both are flows of one table. A host's IPv6 address has a number there, less than 2^24; so no number is the
//! IPv4 address of a host, and packets of one direction never look like those of the other one. A mapping is
//! a flow whose other side is 0.0.0.0 with port 0.

use super::headers::{PING, TCP, UDP};
use super::mappinglog::{MappingLog, Record};
use super::pieces::Pieces;
use super::translator::{time, units};
use crate::ip6::engine::embedding::Embedding;
use crate::ip6::engine::translate::Kind;
use locks::IgnorePoison;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tables::flows::{Cursor, Flows, Found, Key, New, Refused, Tuple};
use wire::tcp;

/// Flags of an entry: the sender has begun or ended the connection, or one side has reset it since.
const SYN: u8 = 1;
const FIN: u8 = 2;
const RST: u8 = 4;

/// All flows are looked over in this time, and all mappings with a session are kept alive.
const ROUND: Duration = Duration::from_secs(15);
const KEEP_ROUND: Duration = Duration::from_secs(60);
/// A mapping without sessions ends after this time, which is more than two of these rounds.
const MAPPING_TIMEOUT: Duration = Duration::from_secs(150);
/// An address whose mappings have ended keeps its number so long.
const HOST_TIMEOUT: Duration = Duration::from_secs(60);
/// How many ports are tried for a mapping.
const PORTS_TRIED: u32 = 512;
/// By how much the time of an entry must have changed to be stored.
const COARSE: u32 = 4;
/// How many hosts are looked at together.
const HOSTS_LOOKED_AT: usize = 4096;
/// What a host has instead of a number of flows, while it has no address.
const FREE: u32 = u32::MAX;
/// Addresses whose numbers a worker remembers.
const REMEMBERED: usize = 1024;

/// An address of the NAT, and its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) address: Ipv4Addr,
    pub(crate) ports: (u16, u16),
}

/// How long sessions last, in units of the flows' time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) tcp: u32,
    pub(crate) transitory: u32,
    pub(crate) udp: u32,
    pub(crate) ping: u32,
}

/// Why there is no session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// The packet may not begin one.
    None,
    /// The host's number has been given away.
    Gone,
    NoPort,
    Full,
    HostFull,
}

/// The number of a protocol in the table.
pub(crate) fn number(kind: Kind) -> Option<u8> {
    match kind {
        Kind::Tcp => Some(TCP),
        Kind::Udp => Some(UDP),
        Kind::Echo | Kind::EchoReply => Some(PING),
        Kind::Error | Kind::Other => None,
    }
}

/// The name of the protocol with this number.
fn name(kind: u8) -> &'static str {
    match kind {
        TCP => "TCP",
        UDP => "UDP",
        _ => "ICMP",
    }
}

fn join(src: u16, dst: u16) -> u32 {
    u32::from(src) << 16 | u32::from(dst)
}

/// The key of packets from one side to the other.
pub(crate) fn key(kind: u8, src: u32, dst: u32, ports: (u16, u16)) -> Key {
    Key { tuple: Tuple { src, dst, ports: join(ports.0, ports.1) }, kind }
}

/// The ports of a tuple.
pub(crate) fn ports(tuple: &Tuple) -> (u16, u16) {
    ((tuple.ports >> 16) as u16, tuple.ports as u16)
}

/// The flags of an entry after a packet.
pub(crate) fn flags(before: u8, tcp_flags: u8) -> u8 {
    match tcp_flags {
        is if is & tcp::RST != 0 => before | RST,
        is if is & tcp::FIN != 0 => (before | FIN) & !RST,
        is if is & tcp::SYN != 0 => (before | SYN) & !(FIN | RST),
        _ => before & !RST,
    }
}

impl Lifetimes {
    /// After how long a flow may be removed.
    fn least(&self) -> u32 {
        let sessions = self.tcp.min(self.transitory).min(self.udp).min(self.ping);
        sessions.min(units(MAPPING_TIMEOUT))
    }
    fn of(&self, kind: u8, forward: u8, reply: u8) -> u32 {
        match kind {
            PING => self.ping,
            UDP => self.udp,
            _ if forward & reply & SYN != 0 && forward & reply & FIN == 0 && (forward | reply) & RST == 0 => {
                self.tcp
            }
            _ => self.transitory,
        }
    }
}

/// A host of the IPv6 side.
#[derive(Default)]
struct Host {
    address: [AtomicU64; 2],
    /// How many flows it has, and workers that are making one; [`FREE`] while nobody has the number.
    flows: AtomicU32,
    /// When its number was asked for last.
    used: AtomicU32,
}

impl Host {
    /// Keeps its address as it is, until [`Host::release`]; false if it has none.
    fn hold(&self) -> bool {
        self.flows.fetch_update(AcqRel, Acquire, |n| (n < FREE - 1).then_some(n.wrapping_add(1))).is_ok()
    }
    fn release(&self) {
        self.flows.fetch_sub(1, Release);
    }
    fn address(&self) -> Ipv6Addr {
        let [high, low] = [&self.address[0], &self.address[1]].map(|half| u128::from(half.load(Acquire)));
        Ipv6Addr::from_bits(high << 64 | low)
    }
    fn set(&self, a: Ipv6Addr) {
        let bits = a.to_bits();
        self.address[0].store((bits >> 64) as u64, Release);
        self.address[1].store(bits as u64, Release);
    }
}

/// The numbers of the hosts.
struct Hosts {
    /// That with number 0 is none.
    hosts: Box<[Host]>,
    numbers: RwLock<HashMap<Ipv6Addr, u32>>,
    free: Mutex<Vec<u32>>,
}

impl Hosts {
    fn new(limit: usize) -> Self {
        Self {
            hosts: (0..=limit).map(|_| Host { flows: AtomicU32::new(FREE), ..Host::default() }).collect(),
            numbers: RwLock::default(),
            free: Mutex::new((1..=limit as u32).rev().collect()),
        }
    }

    fn get(&self, number: u32) -> Option<&Host> {
        self.hosts.get(number as usize)
    }

    /// The number of an address, if it has one.
    fn number(&self, a: Ipv6Addr) -> Option<u32> {
        self.numbers.read().ignore_poison().get(&a).copied()
    }

    /// The same, with a new one for a new address; `None` if there is none left.
    fn number_or_new(&self, a: Ipv6Addr, now: u32) -> Option<u32> {
        if let Some(number) = self.number(a) {
            return Some(number);
        }
        let mut numbers = self.numbers.write().ignore_poison();
        if let Some(number) = numbers.get(&a) {
            return Some(*number);
        }
        let number = self.free.lock().ignore_poison().pop()?;
        let host = self.get(number)?;
        host.set(a);
        host.used.store(now, Relaxed);
        // Whoever holds it from now on sees the whole address.
        host.flows.store(0, Release);
        numbers.insert(a, number);
        Some(number)
    }

    /// Takes back the numbers of hosts without flows.
    fn reap(&self, from: usize, now: u32) -> usize {
        let old = |host: &Host| {
            let idle = now.wrapping_sub(host.used.load(Relaxed));
            host.flows.load(Acquire) == 0 && idle >= units(HOST_TIMEOUT) && idle < u32::MAX / 2
        };
        let end = from.saturating_add(HOSTS_LOOKED_AT).min(self.hosts.len());
        for number in from.max(1)..end {
            let Some(host) = self.hosts.get(number) else { continue };
            if host.address().is_unspecified() || !old(host) {
                continue;
            }
            let mut numbers = self.numbers.write().ignore_poison();
            // A worker that makes the host's first flow just now has it held, and the number stays.
            if old(host) && host.flows.compare_exchange(0, FREE, AcqRel, Acquire).is_ok() {
                numbers.remove(&host.address());
                host.set(Ipv6Addr::UNSPECIFIED);
                self.free.lock().ignore_poison().push(number as u32);
            }
        }
        if end == self.hosts.len() { 0 } else { end }
    }
}

/// Numbers of hosts that a worker has asked for.
pub(crate) struct Remembered(Box<[(Ipv6Addr, u32)]>);

impl Remembered {
    pub(crate) fn new() -> Self {
        Self(vec![(Ipv6Addr::UNSPECIFIED, 0); REMEMBERED].into())
    }
}

/// A host whose number stays its own.
struct Held<'a>(&'a Host);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The state.
pub(crate) struct State {
    flows: Flows,
    /// Of each side, the fragments.
    pub(crate) pieces6: Pieces<Ipv6Addr, Ipv4Addr>,
    pub(crate) pieces4: Pieces<Ipv4Addr, Ipv6Addr>,
    hosts: Hosts,
    mappings: AtomicUsize,
    failures: AtomicU64,
    /// The time as a worker has seen it last.
    now: AtomicU32,
    /// Of each protocol, when no port was found last: a flood of new mappings must not make each of its
    /// packets search.
    exhausted: [AtomicU32; 4],
    log: RwLock<Option<Arc<MappingLog>>>,
    prefix: Embedding,
    pools: Box<[Pool]>,
    limits: (usize, usize, usize),
}

impl State {
    /// `limits` are the numbers of flows, of hosts, and of flows of one host.
    pub(crate) fn new(prefix: Embedding, pools: Vec<Pool>, limits: (usize, usize, usize)) -> Option<Self> {
        Some(Self {
            flows: Flows::new(limits.0)?,
            pieces6: Pieces::new(),
            pieces4: Pieces::new(),
            hosts: Hosts::new(limits.1),
            mappings: AtomicUsize::new(0),
            failures: AtomicU64::new(0),
            now: AtomicU32::new(0),
            exhausted: Default::default(),
            log: RwLock::default(),
            prefix,
            pools: pools.into(),
            limits,
        })
    }

    /// Whether the flows of another state are right here too.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.prefix, &self.pools, self.limits) == (other.prefix, &other.pools, other.limits)
    }

    pub(crate) fn flows(&self) -> &Flows {
        &self.flows
    }
    pub(crate) fn prefix(&self) -> &Embedding {
        &self.prefix
    }
    pub(crate) fn is_own(&self, a: Ipv4Addr) -> bool {
        self.pools.iter().any(|pool| pool.address == a)
    }
    pub(crate) fn note_time(&self, now: u32) {
        self.now.store(now, Relaxed);
    }

    /// The address of the host with this number.
    pub(crate) fn host(&self, number: u32) -> Option<Ipv6Addr> {
        self.hosts.get(number).map(Host::address).filter(|a| !a.is_unspecified())
    }

    /// The number of a host that has one, with a lock.
    pub(crate) fn find(&self, a: Ipv6Addr) -> Option<u32> {
        self.hosts.number(a)
    }

    /// The same, as a worker remembers it.
    pub(crate) fn known(&self, a: Ipv6Addr, now: u32, remembered: &mut Remembered) -> Option<u32> {
        self.remember(a, now, remembered, || self.hosts.number(a))
    }

    /// The number of a host, perhaps a new one.
    pub(crate) fn number(&self, a: Ipv6Addr, now: u32, remembered: &mut Remembered) -> Option<u32> {
        self.remember(a, now, remembered, || self.hosts.number_or_new(a, now))
    }

    /// The number of a host as a worker remembers it; only for another one it asks, with a lock.
    #[inline]
    fn remember(
        &self,
        a: Ipv6Addr,
        now: u32,
        remembered: &mut Remembered,
        ask: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let bits = a.to_bits();
        let hash = ((bits >> 64) as u64 ^ bits as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        let place = remembered.0.get_mut(hash as usize)?;
        if place.0 != a || self.hosts.get(place.1).is_none_or(|host| host.address() != a) {
            *place = (a, ask()?);
        }
        let host = self.hosts.get(place.1)?;
        if host.used.load(Relaxed) != now {
            host.used.store(now, Relaxed);
        }
        Some(place.1)
    }

    /// Holds a host, if its number is still that of the address `a`.
    fn hold(&self, number: u32, a: Ipv6Addr) -> Option<Held<'_>> {
        let held = self.hosts.get(number).filter(|host| host.hold()).map(Held)?;
        (held.0.address() == a).then_some(held)
    }

    /// Whether a host that is held has as many flows as it may have.
    fn is_full(&self, host: u32) -> bool {
        self.hosts.get(host).is_some_and(|host| host.flows.load(Relaxed) as usize > self.limits.2)
    }

    /// Adds a flow of a host.
    fn add(&self, host: u32, key: Key, to: Tuple, now: u32) -> Result<Found, Refused> {
        let count = self.hosts.get(host).map(|host| &host.flows);
        count.inspect(|count| _ = count.fetch_add(1, Relaxed));
        let added = self.flows.add(&New { key, to, outputs: [1, 0], owner: 0, mark: 0 }, now);
        if added.is_err() {
            count.inspect(|count| _ = count.fetch_sub(1, Relaxed));
        }
        added
    }

    /// `to` is what packets of the flow got.
    fn forget(&self, key: &Key, to: &Tuple) {
        if key.tuple.dst == 0 {
            self.mappings.fetch_sub(1, Relaxed);
            // While the host has its number.
            self.note_mapping(false, (key, to), self.now.load(Relaxed));
        }
        if let Some(host) = self.hosts.get(key.tuple.src) {
            host.flows.fetch_sub(1, Release);
        }
    }

    /// Has mappings that begin or end logged, or no more.
    pub(crate) fn set_log(&self, log: Option<Arc<MappingLog>>) {
        // Its end waits for its thread, and no packet should wait for that lock so long.
        let old = std::mem::replace(&mut *self.log.write().ignore_poison(), log);
        drop(old);
    }
    pub(crate) fn log(&self) -> Option<Arc<MappingLog>> {
        self.log.read().ignore_poison().clone()
    }

    /// Logs a mapping that begins or ends.
    fn note_mapping(&self, begins: bool, (key, to): (&Key, &Tuple), time: u32) {
        let log = self.log.read().ignore_poison();
        let (Some(log), Some(host)) = (&*log, self.host(key.tuple.src)) else { return };
        let inside = (host.into(), Some(ports(&key.tuple).0));
        let outside = (Ipv4Addr::from_bits(to.src).into(), Some(ports(to).0));
        log.note(Record { begins, time, protocol: name(key.kind), inside, outside, remote: None });
    }

    /// The mapping of a host's port, perhaps a new one.
    fn mapping(&self, kind: u8, host: u32, port: u16, now: u32, random: u64) -> Result<Tuple, Why> {
        let key = key(kind, host, 0, (port, 0));
        if let Some(found) = self.flows.get(&key) {
            self.flows.touch(&found, now, 0, COARSE);
            return Ok(found.to);
        }
        let exhausted = self.exhausted.get(usize::from(kind)).ok_or(Why::NoPort)?;
        if exhausted.load(Relaxed) == now && now != 0 {
            return Err(Why::NoPort);
        }
        // All mappings of a host have the same address, while that has ports (RFC 4787 REQ-2).
        let first = (host as usize).wrapping_mul(0x9e37_79b1) >> 8;
        for n in 0..self.pools.len() {
            let Some(pool) = self.pools.get(first.wrapping_add(n) % self.pools.len()) else { break };
            let (low, high) = (u32::from(pool.ports.0), u32::from(pool.ports.1));
            let span = high - low + 1;
            // The host's own port, then others, with the same parity first (RFC 6146 section 3.5.1.1).
            let own = Some(u32::from(port)).filter(|port| (low..=high).contains(port));
            let start = (random as u32) % span;
            let start = start - (start & 1) + ((u32::from(port) ^ low) & 1);
            let others = (0..PORTS_TRIED.min(span)).map(|n| {
                let at = if span > 2 * PORTS_TRIED { start + 2 * n } else { start + n };
                low + at % span
            });
            for port in own.into_iter().chain(others) {
                let to = Tuple { src: pool.address.to_bits(), dst: 0, ports: join(port as u16, 0) };
                if self.flows.get(&Key { tuple: to.reversed(), kind }).is_some() {
                    continue;
                }
                match self.add(host, key, to, now) {
                    Ok(found) => {
                        self.mappings.fetch_add(1, Relaxed);
                        self.note_mapping(true, (&key, &found.to), now);
                        return Ok(found.to);
                    }
                    Err(Refused::Exists) => {
                        return self.flows.find_surely(&key).map(|found| found.to).ok_or(Why::NoPort);
                    }
                    Err(Refused::ReplyTaken) => {}
                    Err(Refused::Full | Refused::NoMemory) => return Err(Why::Full),
                }
            }
        }
        exhausted.store(now, Relaxed);
        Err(Why::NoPort)
    }

    /// The session of a packet from a host, whose number may have become another host's since the look-up.
    pub(crate) fn of_host(&self, key: &Key, host: Ipv6Addr) -> Option<Found> {
        let found = self.flows.get(key)?;
        (self.hosts.get(key.tuple.src)?.address() == host).then_some(found)
    }

    /// A new session that a packet from the IPv6 side begins, from a port of the host with this address.
    ///
    /// # Errors
    /// There can be none.
    pub(crate) fn begin(
        &self,
        key: &Key,
        host: Ipv6Addr,
        may_begin: bool,
        (now, random): (u32, u64),
    ) -> Result<Found, Why> {
        if !may_begin {
            return Err(Why::None);
        }
        let _held = self.hold(key.tuple.src, host).ok_or(Why::Gone)?;
        if self.is_full(key.tuple.src) {
            return Err(Why::HostFull);
        }
        let (port, remote_port) = ports(&key.tuple);
        let made = self.mapping(key.kind, key.tuple.src, port, now, random).and_then(|mapping| {
            let to =
                Tuple { src: mapping.src, dst: key.tuple.dst, ports: join(ports(&mapping).0, remote_port) };
            self.session(key, to, now)
        });
        if made.is_err() {
            self.failures.fetch_add(1, Relaxed);
        }
        made
    }

    /// Adds a session.
    fn session(&self, key: &Key, to: Tuple, now: u32) -> Result<Found, Why> {
        match self.add(key.tuple.src, *key, to, now) {
            Ok(found) => Ok(found),
            Err(Refused::Exists) => self.flows.find_surely(key).ok_or(Why::Full),
            Err(_) => Err(Why::Full),
        }
    }

    /// A new session that a packet from the IPv4 side begins: there must be a mapping. `key` is that of the
    /// packet, which is found by the session afterwards.
    ///
    /// # Errors
    /// There can be none.
    pub(crate) fn begin_inward(&self, key_: &Key, may_begin: bool, now: u32) -> Result<Found, Why> {
        let (remote_port, port) = ports(&key_.tuple);
        let of_mapping = key(key_.kind, 0, key_.tuple.dst, (0, port));
        let mapping = self.flows.get(&of_mapping).ok_or(Why::None)?;
        if !may_begin {
            return Err(Why::None);
        }
        // While the mapping is there and the host held, its number stays its own.
        let _held = self.hosts.get(mapping.to.dst).filter(|host| host.hold()).map(Held).ok_or(Why::None)?;
        let mapping = self.flows.get(&of_mapping).filter(|m| m.to == mapping.to).ok_or(Why::None)?;
        if self.is_full(mapping.to.dst) {
            return Err(Why::HostFull);
        }
        self.flows.touch(&mapping, now, 0, COARSE);
        let inside = Tuple {
            src: mapping.to.dst,
            dst: key_.tuple.src,
            ports: join(ports(&mapping.to).1, remote_port),
        };
        self.session(&Key { tuple: inside, kind: key_.kind }, key_.tuple.reversed(), now)?;
        self.flows.get(key_).ok_or(Why::Full)
    }

    /// Notes a packet of a session.
    pub(crate) fn touch(&self, key: &Key, found: &Found, tcp_flags: u8, now: u32) {
        let new = if key.kind == TCP { flags(found.flags(), tcp_flags) } else { found.flags() };
        self.flows.touch(found, now, new, COARSE);
        // After a reset neither side goes on, until there is another packet (RFC 6146 section 3.5.2.2).
        if found.flags() & RST != new & RST
            && let Some(other) = self.flows.get(&found.other_key(key))
        {
            self.flows.touch(&other, now, other.flags() & !RST | new & RST, 0);
        }
    }

    /// Removes what has ended, in the parts of the table that are a worker's, and keeps mappings that have
    /// sessions. Returns after how long to go on.
    pub(crate) fn reap(&self, done: &mut Reaped, lifetimes: &Lifetimes, now: u32) -> Duration {
        self.note_time(now);
        let (worker, workers) = done.share;
        let mine = |part: usize| part % workers == worker % workers;
        let total = self.flows.lines() / workers + 1;
        let ticks = |round: Duration| (round.as_millis() as usize / 250).max(1);
        self.flows.look_over(
            &mut done.ended,
            total.div_ceil(ticks(ROUND)),
            (now, lifetimes.least()),
            mine,
            |both| {
                let reply = both.reply.map_or(0, |reply| reply.flags());
                let after = if both.key.tuple.dst == 0 {
                    units(MAPPING_TIMEOUT)
                } else {
                    lifetimes.of(both.key.kind, both.forward.flags(), reply)
                };
                // Its time is stored when it has changed by that much.
                let after = after + COARSE;
                if both.idle(now) >= after && self.flows.remove_seen(both, |both| both.idle(now) >= after) {
                    self.forget(&both.key, &both.forward.to);
                }
            },
        );
        self.flows.look_over(&mut done.kept, total.div_ceil(ticks(KEEP_ROUND)), (now, 0), mine, |both| {
            let Tuple { src, dst, .. } = both.key.tuple;
            if dst != 0
                && let Some(found) =
                    self.flows.get(&key(both.key.kind, src, 0, (ports(&both.key.tuple).0, 0)))
            {
                self.flows.touch(&found, now, 0, COARSE);
            }
        });
        if worker == 0 {
            done.host = self.hosts.reap(done.host, now);
        }
        Duration::from_millis(250)
    }

    pub(crate) fn clear(&self) {
        let mut all = Vec::new();
        self.flows.for_each(|key, found| {
            if !found.is_reply() {
                all.push(*key);
            }
        });
        for (key, found) in all.iter().filter_map(|key| Some((key, self.flows.remove(key)?))) {
            self.forget(key, &found.to);
        }
    }

    pub(crate) fn n_mappings(&self) -> usize {
        self.mappings.load(Relaxed)
    }
    pub(crate) fn n_sessions(&self) -> usize {
        self.flows.len().saturating_sub(self.n_mappings())
    }
    pub(crate) fn n_hosts(&self) -> usize {
        self.hosts.numbers.read().ignore_poison().len()
    }
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// All mappings, or all sessions, one on a line.
    pub(crate) fn table(&self, mappings: bool, lifetimes: &Lifetimes) -> String {
        let (now, mut text) = (self.now.load(Relaxed), String::new());
        self.flows.for_each(|key, found| {
            if found.is_reply() || mappings != (key.tuple.dst == 0) {
                return;
            }
            let protocol = name(key.kind);
            let host = self.host(key.tuple.src).unwrap_or(Ipv6Addr::UNSPECIFIED);
            let (port, remote_port) = ports(&key.tuple);
            let (own, own_port) = (Ipv4Addr::from_bits(found.to.src), ports(&found.to).0);
            if mappings {
                let _ = writeln!(text, "{protocol} [{host}]:{port} => {own}:{own_port}");
                return;
            }
            let remote = Ipv4Addr::from_bits(key.tuple.dst);
            let reply = self.flows.get(&found.other_key(key));
            let after = lifetimes.of(key.kind, found.flags(), reply.map_or(0, |reply| reply.flags()));
            let idle = reply.map_or(u32::MAX, |reply| reply.idle(now)).min(found.idle(now));
            let left = after.saturating_sub(idle) / units(Duration::from_secs(1));
            let _ = writeln!(
                text,
                "{protocol} [{host}]:{port} => {own}:{own_port} to {remote}:{remote_port} exp{left}"
            );
        });
        text
    }
}

/// How far a worker has got with what it does from time to time.
pub(crate) struct Reaped {
    ended: Cursor,
    kept: Cursor,
    host: usize,
    share: (usize, usize),
}

impl Reaped {
    /// `share` is a worker's number, and how many there are.
    pub(crate) fn new(share: (usize, usize)) -> Self {
        Self { ended: Cursor::default(), kept: Cursor::default(), host: 1, share }
    }
}

/// What all workers share, and handlers see. A hot swap may give it the state of the router before.
pub(crate) struct Shared {
    state: Mutex<Arc<State>>,
    pub(crate) lifetimes: Lifetimes,
    version: AtomicU32,
}

impl Shared {
    pub(crate) fn new(state: State, lifetimes: Lifetimes) -> Self {
        Self { state: Mutex::new(Arc::new(state)), lifetimes, version: AtomicU32::new(0) }
    }
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().ignore_poison())
    }
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Acquire)
    }
    /// Goes on with the state of another one, if that is right here.
    pub(crate) fn adopt(&self, old: &Self) {
        let (state, before) = (self.state(), old.state());
        if !Arc::ptr_eq(&state, &before) && state.is_like(&before) {
            before.set_log(state.log());
            *self.state.lock().ignore_poison() = before;
            self.version.fetch_add(1, Release);
        }
    }
}

/// The time of the flows.
pub(crate) fn flow_time(now_ns: u64) -> u32 {
    time(now_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker has looked up a host's number, and does nothing for more than a minute.
    #[test]
    fn no_flow_is_made_with_a_number_that_was_given_away() {
        let prefix = Embedding::parse("64:ff9b::/96").unwrap();
        let pool = Pool { address: [198, 51, 100, 1].into(), ports: (1024, 2048) };
        let state = State::new(prefix, vec![pool], (100, 1, 10)).unwrap();
        let [one, other] = ["2001:db8::1", "2001:db8::2"].map(|a| a.parse::<Ipv6Addr>().unwrap());
        let (mut slow, mut quick) = (Remembered::new(), Remembered::new());
        let number = state.number(one, 0, &mut slow).unwrap();
        let first = key(UDP, number, 0xc000_0201, (5000, 53));
        let later = units(HOST_TIMEOUT);
        assert_eq!(state.number(other, later, &mut quick), None);
        // While a flow is being made, the number stays.
        let held = state.hold(number, one).unwrap();
        state.hosts.reap(0, later);
        assert_eq!(state.number(other, later, &mut quick), None);
        drop(held);
        state.hosts.reap(0, later);
        assert!(matches!(state.begin(&first, one, true, (later, 0)), Err(Why::Gone)));
        assert_eq!(state.number(other, later, &mut quick), Some(number));
        assert!(matches!(state.begin(&first, one, true, (later, 0)), Err(Why::Gone)));
        assert_eq!(state.flows().len(), 0);
        assert!(state.begin(&first, other, true, (later, 0)).is_ok());
        assert!(state.of_host(&first, one).is_none() && state.of_host(&first, other).is_some());
        // It is nobody's but the other host's.
        assert_eq!(state.number(one, later, &mut slow), None);
    }
}
