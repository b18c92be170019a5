//! # AddressTranslator
//! Translates the addresses and ports of IPv6 packets: NAT66.
//!
//! ## Synopsis
//! `AddressTranslator(N, [STATICPORTS, STATIC1, ..., STATICn,] DYNAMIC [, PORTS, INWARD, MAPPED...])`
//!
//! ## Arguments
//! - `N` (*int*): the number of static mappings, at most 65,536.
//! - `STATICPORTS` (*bool*, only if `N` is not 0): whether static mappings have ports.
//! - `STATIC` (*text*, `N` times): `INNER MAPPED`, two IPv6 addresses, or with ports
//!   `INNER PORT MAPPED PORT`.
//! - `DYNAMIC` (*bool*): whether hosts without a static mapping get one.
//! - `PORTS` (*bool*, only if `DYNAMIC`): whether hosts share one mapped address.
//! - `INWARD` (*bool*, only if `DYNAMIC`): which side's packets make mappings. It must be false: those of the
//!   inner side.
//! - `MAPPED` (*text*, only if `DYNAMIC`): without `PORTS` IPv6 addresses, one for each host that comes
//!   first, at most 65,536; with `PORTS` one `ADDRESS FIRST LAST`, whose ports are given to flows in turn.
//!
//! ## Ports
//! Two push inputs, two push outputs. Input 0 takes packets of the inner side, whose sources are translated;
//! they leave by output 0. Input 1 takes packets of the outer side, whose destinations are translated back;
//! they leave by output 1. Packets begin with their IPv6 header. TCP, UDP and ICMPv6 messages are translated,
//! with right checksums; the identifier of a ping is its port. ICMPv6 errors are translated with the packet
//! that they quote. Packets without a mapping are dropped, and with `PORTS` so are fragments but the first.
//!
//! A flow that has had no packet for five minutes loses its port to a new one, once no other port is free; an
//! address of `MAPPED` stays with its host.
//!
//! ## Handlers
//! - `mappings` (read): for each mapping a line `INNER PORT => MAPPED PORT`, without ports if it has none.
//!
//! ## Threads
//! All workers share the mappings; each batch takes a lock. A hot swap keeps the mappings of hosts and flows
//! whose mapped address and port are still there, whatever else changes in the arguments.
//!
//! ## Example
//! ```click
//! nat :: AddressTranslator(0, true, true, false, 2001:db8:2::1 1024 65535);
//! InfiniteSource(LIMIT 1, STOP true)
//!   -> UDPIP6Encap(fd00::7, 5000, 2001:db8:9::9, 53) -> nat;
//! nat [0] -> IP6Print(out) -> Discard;
//! Idle -> [1] nat [1] -> Discard;
//! ```
//!
//! ## See also
//! NAT64, ProtocolTranslator64, ProtocolTranslator46, IPRewriter

use super::engine::translate::{
    BAD_ADDRESS, Ends, Kind, NOT_TRANSLATED, SOURCE_ROUTE, Seen, WRONG_ERROR, inside6, renew6, see6,
};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::Raw;
use locks::IgnorePoison;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex};

const NO_MAPPING: DropReason = DropReason::new("no mapping");
const NO_PORT: DropReason = DropReason::new("no free address or port");

const MOST: usize = 1 << 16;
/// A flow without packets for so long may lose its port.
const IDLE_NS: u64 = 300_000_000_000;
/// How many ports are looked at for a flow.
const PORTS_TRIED: usize = 512;

type End = (Ipv6Addr, u16);

/// A flow of an inner host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flow {
    protocol: Kind,
    inner: End,
    outer: End,
}

/// One mapped address with ports for flows.
struct Ports {
    address: Ipv6Addr,
    first: u16,
    /// For each port its flow, and when that had a packet last.
    flows: Vec<Option<(Flow, u64)>>,
    by_flow: HashMap<Flow, usize>,
    next: usize,
}

impl Ports {
    fn port(&self, at: usize) -> u16 {
        self.first.saturating_add(at as u16)
    }

    /// The mapped port of a flow, perhaps a new one.
    fn outward(&mut self, flow: Flow, make: bool, now_ns: u64) -> Result<End, DropReason> {
        let at = match self.by_flow.get(&flow) {
            Some(at) => *at,
            None if !make => return Err(NO_MAPPING),
            None => {
                let n = self.flows.len();
                let is_free = |at: &usize| {
                    let flow = self.flows.get(*at).copied().flatten();
                    flow.is_none_or(|(_, last)| now_ns.saturating_sub(last) >= IDLE_NS)
                };
                let tried = n.min(PORTS_TRIED);
                let Some(at) = (0..tried).map(|i| (self.next + i) % n).find(is_free) else {
                    // Others are tried for the next flow.
                    self.next = (self.next + tried) % n.max(1);
                    return Err(NO_PORT);
                };
                self.next = (at + 1) % n;
                if let Some((old, _)) = self.flows.get(at).copied().flatten() {
                    self.by_flow.remove(&old);
                }
                self.by_flow.insert(flow, at);
                at
            }
        };
        if let Some(place) = self.flows.get_mut(at) {
            *place = Some((flow, now_ns));
        }
        Ok((self.address, self.port(at)))
    }

    /// The inner side of packets to a mapped port from `outer`.
    fn inward(&mut self, protocol: Kind, mapped: End, outer: End, now_ns: u64) -> Option<End> {
        let at = usize::from(mapped.1.checked_sub(self.first)?);
        let (flow, last) = self.flows.get_mut(at)?.as_mut()?;
        if mapped.0 != self.address || (flow.protocol, flow.outer) != (protocol, outer) {
            return None;
        }
        *last = now_ns;
        Some(flow.inner)
    }
}

/// All mappings.
#[derive(Default)]
struct Table {
    static_ports: bool,
    statics: HashMap<End, End>,
    back: HashMap<End, End>,
    /// Mapped addresses for hosts that come, and the hosts.
    pool: Vec<(Ipv6Addr, Option<Ipv6Addr>)>,
    /// The places in front of this one are taken.
    next: usize,
    by_inner: HashMap<Ipv6Addr, usize>,
    by_mapped: HashMap<Ipv6Addr, usize>,
    ports: Option<Ports>,
}

/// Pings have their identifier as port, and one kind.
fn protocol(kind: Kind) -> Kind {
    if kind == Kind::EchoReply { Kind::Echo } else { kind }
}

impl Table {
    fn static_key(&self, end: End) -> End {
        if self.static_ports { end } else { (end.0, 0) }
    }

    fn outward(
        &mut self,
        kind: Kind,
        (inner, outer): (End, End),
        make: bool,
        now_ns: u64,
    ) -> Result<End, DropReason> {
        if let Some(mapped) = self.statics.get(&self.static_key(inner)) {
            return Ok(if self.static_ports { *mapped } else { (mapped.0, inner.1) });
        }
        if let Some(ports) = &mut self.ports {
            return match kind {
                Kind::Other => Err(NOT_TRANSLATED),
                _ => ports.outward(Flow { protocol: protocol(kind), inner, outer }, make, now_ns),
            };
        }
        let at = match self.by_inner.get(&inner.0) {
            Some(at) => *at,
            None if !make || self.pool.is_empty() => return Err(NO_MAPPING),
            None => {
                let free = self.pool.iter().skip(self.next).position(|(_, host)| host.is_none());
                let at = self.next + free.unwrap_or(self.pool.len());
                self.next = at.min(self.pool.len());
                self.pool.get_mut(at).ok_or(NO_PORT)?.1 = Some(inner.0);
                self.by_inner.insert(inner.0, at);
                at
            }
        };
        self.pool.get(at).map(|(mapped, _)| (*mapped, inner.1)).ok_or(NO_MAPPING)
    }

    fn inward(&mut self, kind: Kind, (mapped, outer): (End, End), now_ns: u64) -> Result<End, DropReason> {
        if let Some(inner) = self.back.get(&self.static_key(mapped)) {
            return Ok(if self.static_ports { *inner } else { (inner.0, mapped.1) });
        }
        if let Some(ports) = &mut self.ports {
            return ports.inward(protocol(kind), mapped, outer, now_ns).ok_or(NO_MAPPING);
        }
        let host =
            self.by_mapped.get(&mapped.0).and_then(|at| self.pool.get(*at)).and_then(|(_, inner)| *inner);
        host.map(|inner| (inner, mapped.1)).ok_or(NO_MAPPING)
    }

    /// Takes over the mappings of another table that can be the same in this one. Static ones are the
    /// arguments' own.
    fn adopt(&mut self, old: &Self) {
        let is_static = |inner: Ipv6Addr| !self.static_ports && self.statics.contains_key(&(inner, 0));
        for (mapped, inner) in old.pool.iter().filter_map(|(mapped, inner)| Some((mapped, (*inner)?))) {
            let Some(at) = self.by_mapped.get(mapped).filter(|_| !is_static(inner)) else { continue };
            if let Some(place) = self.pool.get_mut(*at).filter(|place| place.1.is_none())
                && !self.by_inner.contains_key(&inner)
            {
                place.1 = Some(inner);
                self.by_inner.insert(inner, *at);
            }
        }
        let (Some(new), Some(old)) = (&mut self.ports, &old.ports) else { return };
        if new.address != old.address {
            return;
        }
        for (at, flow) in old.flows.iter().enumerate() {
            let Some((flow, last)) = *flow else { continue };
            let at = old.port(at).checked_sub(new.first).map(usize::from);
            let place = at.and_then(|at| new.flows.get_mut(at).map(|place| (at, place)));
            if let Some((at, place)) = place.filter(|(_, place)| place.is_none())
                && !new.by_flow.contains_key(&flow)
            {
                *place = Some((flow, last));
                new.by_flow.insert(flow, at);
            }
        }
    }

    fn show(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (inner, mapped) in &self.statics {
            lines.push(if self.static_ports {
                format!("{} {} => {} {}", inner.0, inner.1, mapped.0, mapped.1)
            } else {
                format!("{} => {}", inner.0, mapped.0)
            });
        }
        lines.sort();
        lines.extend(
            self.pool.iter().filter_map(|(mapped, inner)| Some(format!("{} => {mapped}", (*inner)?))),
        );
        if let Some(ports) = &self.ports {
            for (at, flow) in ports.flows.iter().enumerate() {
                if let Some((flow, _)) = flow {
                    let (inner, port) = (flow.inner, ports.port(at));
                    lines.push(format!("{} {} => {} {port}", inner.0, inner.1, ports.address));
                }
            }
        }
        let mut text = String::new();
        lines.iter().for_each(|line| _ = writeln!(text, "{line}"));
        text
    }
}

/// The `AddressTranslator` element.
pub struct AddressTranslator(Arc<Mutex<Table>>);

/// Reads words of a text in turn.
fn next<T: lang::args::FromArg>(words: &mut std::str::SplitWhitespace<'_>) -> Result<T, String> {
    text::read(words.next().ok_or("too few words")?)
}

fn table(args: &mut Args<'_>) -> Result<Table, ArgError> {
    let mut table = Table::default();
    let n: u32 = args.mp("N")?;
    if n as usize > MOST {
        return Err(args.error(format!("N must be at most {MOST}")));
    }
    if n > 0 {
        table.static_ports = args.mp("STATICPORTS")?;
    }
    for i in 0..n {
        let Raw(text) = args.mp("STATIC")?;
        let words = &mut text.split_whitespace();
        let mut end = || -> Result<End, String> {
            Ok((next(words)?, if table.static_ports { next(words)? } else { 0 }))
        };
        let ends = end().and_then(|inner| Ok((inner, end()?)));
        let (inner, mapped) = ends.map_err(|e| args.error(format!("STATIC {i}: {e}")))?;
        if words.next().is_some() {
            return Err(args.error(format!("STATIC {i}: too many words")));
        }
        if table.statics.insert(inner, mapped).is_some() || table.back.insert(mapped, inner).is_some() {
            return Err(args.error(format!("STATIC {i}: one of the addresses has a mapping already")));
        }
    }
    if !args.mp::<bool>("DYNAMIC")? {
        return Ok(table);
    }
    let ports: bool = args.mp("PORTS")?;
    if args.mp::<bool>("INWARD")? {
        return Err(args.error("INWARD must be false: only packets of the inner side make mappings"));
    }
    if ports {
        let Raw(text) = args.mp("MAPPED")?;
        let words = &mut text.split_whitespace();
        let read = (|| Ok::<_, String>((next(words)?, next::<u16>(words)?, next::<u16>(words)?)))();
        let (address, first, last) = read.map_err(|e| args.error(format!("MAPPED: {e}")))?;
        if words.next().is_some() || first == 0 || first > last {
            return Err(args.error("MAPPED must be `ADDRESS FIRST LAST`"));
        }
        let flows = vec![None; usize::from(last - first) + 1];
        table.ports = Some(Ports { address, first, flows, by_flow: HashMap::new(), next: 0 });
        return Ok(table);
    }
    for arg in args.rest_args() {
        let mapped: Ipv6Addr =
            lang::args::parse(&arg.text).map_err(|e| args.error_at(&arg, format!("MAPPED: {e}")))?;
        if table.by_mapped.insert(mapped, table.pool.len()).is_some() {
            return Err(args.error_at(&arg, format!("MAPPED: {mapped} is there twice")));
        }
        table.pool.push((mapped, None));
    }
    if table.pool.is_empty() || table.pool.len() > MOST {
        return Err(args.error(format!("need 1 to {MOST} MAPPED addresses")));
    }
    Ok(table)
}

impl Element for AddressTranslator {
    const CLASS: &'static str = "AddressTranslator";
    const PORTS: &'static str = "2/2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::DST_IP6);
    const DROPS: &'static [DropCase] = &[
        drops::BAD_IP_LENGTH.when("or no IPv6 header"),
        SOURCE_ROUTE.when("the packet has a routing header that has not come to its end"),
        NOT_TRANSLATED.when("another protocol or message, or the transport header is cut off"),
        NO_MAPPING.when("its address and port have none, and it makes none"),
        NO_PORT.when("all mapped addresses or ports are in use"),
        BAD_ADDRESS.when("the source is not the address of one host"),
        WRONG_ERROR,
    ];
    const MANUAL: &'static str = manual!("ip6/addresstranslator");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let made = table(args)?;
        Ok(Self(cx.shared(|| Mutex::new(made))))
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Mutex<Table>>("mappings", |table, _| Ok(table.lock().ignore_poison().show()));
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        if !Arc::ptr_eq(&self.0, &old.0) && cx.worker().0 == 0 {
            self.0.lock().ignore_poison().adopt(&old.0.lock().ignore_poison());
        }
    }
}

impl AddressTranslator {
    fn translate(table: &mut Table, port: usize, packet: &mut Packet, now_ns: u64) -> Result<(), DropReason> {
        let seen = see6(packet.data(), false)?;
        let src = seen.ends.src;
        if src.is_multicast() || src.is_unspecified() {
            return Err(BAD_ADDRESS);
        }
        let (to, about) = if seen.kind == Kind::Error {
            let (inside, _) = inside6(packet.data(), &seen)?;
            let new = other(table, port, &inside, now_ns)?;
            // The error goes to who sent the packet; it comes from the mapped address.
            let to = match port {
                0 => Ends { src: new.dst, ..seen.ends },
                _ => Ends { dst: new.src, ..seen.ends },
            };
            (to, Some((inside, new)))
        } else if seen.kind == Kind::Other && !seen.is_later_fragment() {
            return Err(NOT_TRANSLATED);
        } else {
            let Ends { src, dst, sport, dport } = seen.ends;
            // A reply to a ping has the identifier that the request had.
            let is_ping = matches!(seen.kind, Kind::Echo | Kind::EchoReply);
            let far = if is_ping {
                0
            } else if port == 0 {
                dport
            } else {
                sport
            };
            let to = if port == 0 {
                let make = seen.kind != Kind::EchoReply;
                let (src, sport) = table.outward(seen.kind, ((src, sport), (dst, far)), make, now_ns)?;
                Ends { src, dst, sport, dport: if is_ping { sport } else { dport } }
            } else {
                let (dst, dport) = table.inward(seen.kind, ((dst, dport), (src, far)), now_ns)?;
                Ends { src, dst, sport: if is_ping { dport } else { sport }, dport }
            };
            (to, None)
        };
        let about = about.as_ref().map(|(inside, new)| (inside, new));
        renew6(packet.data_mut(), &seen, &to, about);
        packet.set_network_header(0, wire::ipv6::HEADER_LEN);
        super::engine::header::set_dst_ip6(packet, to.dst);
        Ok(())
    }
}

/// The addresses and ports of the packet in an error as its sender knows them. Errors make no mappings.
fn other(
    table: &mut Table,
    port: usize,
    inside: &Seen<Ipv6Addr>,
    now_ns: u64,
) -> Result<Ends<Ipv6Addr>, DropReason> {
    let Ends { src, dst, sport, dport } = inside.ends;
    let is_ping = matches!(inside.kind, Kind::Echo | Kind::EchoReply);
    if port == 0 {
        let far = (src, if is_ping { 0 } else { sport });
        let (dst, dport) = table.outward(inside.kind, ((dst, dport), far), false, now_ns)?;
        return Ok(Ends { src, dst, sport: if is_ping { dport } else { sport }, dport });
    }
    let far = (dst, if is_ping { 0 } else { dport });
    let (src, sport) = table.inward(inside.kind, ((src, sport), far), now_ns)?;
    Ok(Ends { src, dst, sport, dport: if is_ping { sport } else { dport } })
}

impl Vector for AddressTranslator {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let now_ns = cx.now_ns();
        let mut table = self.0.lock().ignore_poison();
        batch.filter_map_in_place(|mut packet| {
            match Self::translate(&mut table, port, &mut packet, now_ns) {
                Ok(()) => Some(packet),
                Err(why) => {
                    cx.drop(packet, why);
                    None
                }
            }
        });
        drop(table);
        cx.output_batch(port, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wire::{Ipv6, icmpv6, udp};

    fn packet(src: &str, dst: &str, next: u8, t: &[u8]) -> Vec<u8> {
        let mut t = t.to_vec();
        let h = Ipv6::build(src.parse().unwrap(), dst.parse().unwrap(), next, t.len() as u16);
        let pseudo = h.pseudo_sum(t.len() as u32);
        if next == 17 {
            udp::fill(pseudo, &mut t)
        } else {
            icmpv6::fill(pseudo, &mut t)
        };
        [&h.bytes()[..], &t].concat()
    }
    fn datagram(src: &str, sport: u8, dst: &str, dport: u8) -> Vec<u8> {
        packet(src, dst, 17, &[0, sport, 0, dport, 0, 10, 0, 0, 7, 7])
    }
    fn ping(kind: u8, src: &str, dst: &str, id: u8) -> Vec<u8> {
        packet(src, dst, 58, &[kind, 0, 0, 0, 0, id, 0, 1])
    }
    fn one(bench: &mut Bench, port: usize, bytes: &[u8]) -> Vec<u8> {
        let mut out = bench.push(port, bytes);
        assert!(out.len() == 1 && out[0].0 == port, "{:?}", bench.drops());
        out.remove(0).1
    }

    #[test]
    fn static_mappings() {
        let mut bench = Bench::new("AddressTranslator(1, false, fd00::7 2001:db8::7, false)");
        assert_eq!(
            one(&mut bench, 0, &datagram("fd00::7", 5, "::9", 53)),
            datagram("2001:db8::7", 5, "::9", 53)
        );
        assert_eq!(
            one(&mut bench, 1, &datagram("::9", 53, "2001:db8::7", 5)),
            datagram("::9", 53, "fd00::7", 5)
        );
        assert_eq!(one(&mut bench, 0, &ping(128, "fd00::7", "::9", 5)), ping(128, "2001:db8::7", "::9", 5));
        assert!(bench.push(0, &datagram("fd00::8", 5, "::9", 53)).is_empty());
        assert!(bench.push(1, &datagram("::9", 53, "2001:db8::8", 5)).is_empty());
        assert_eq!(
            (bench.read("mappings"), bench.drops()),
            ("fd00::7 => 2001:db8::7\n".into(), vec![("no mapping".to_owned(), 2)])
        );
        let mut bench = Bench::new("AddressTranslator(1, true, fd00::7 5 2001:db8::7 80, false)");
        assert_eq!(
            one(&mut bench, 0, &datagram("fd00::7", 5, "::9", 53)),
            datagram("2001:db8::7", 80, "::9", 53)
        );
        assert_eq!(
            one(&mut bench, 1, &datagram("::9", 53, "2001:db8::7", 80)),
            datagram("::9", 53, "fd00::7", 5)
        );
        assert!(bench.push(0, &datagram("fd00::7", 6, "::9", 53)).is_empty());
    }

    #[test]
    fn addresses_for_hosts_that_come() {
        let mut bench = Bench::new("AddressTranslator(0, true, false, false, 2001:db8::1, 2001:db8::2)");
        assert_eq!(
            one(&mut bench, 0, &datagram("fd00::7", 5, "::9", 53)),
            datagram("2001:db8::1", 5, "::9", 53)
        );
        assert_eq!(
            one(&mut bench, 0, &datagram("fd00::8", 5, "::9", 53)),
            datagram("2001:db8::2", 5, "::9", 53)
        );
        assert_eq!(
            one(&mut bench, 0, &datagram("fd00::7", 6, "::9", 53)),
            datagram("2001:db8::1", 6, "::9", 53)
        );
        assert!(bench.push(0, &datagram("fd00::9", 5, "::9", 53)).is_empty());
        assert_eq!(
            one(&mut bench, 1, &datagram("::99", 53, "2001:db8::2", 5)),
            datagram("::99", 53, "fd00::8", 5)
        );
        assert_eq!(bench.drops(), [("no free address or port".to_owned(), 1)]);
    }

    #[test]
    fn ports_for_flows() {
        let mut bench = Bench::new("AddressTranslator(0, true, true, false, 2001:db8::1 10 12)");
        assert_eq!(
            one(&mut bench, 0, &datagram("fd00::7", 5, "::9", 53)),
            datagram("2001:db8::1", 10, "::9", 53)
        );
        assert_eq!(
            one(&mut bench, 0, &datagram("fd00::8", 5, "::9", 53)),
            datagram("2001:db8::1", 11, "::9", 53)
        );
        assert_eq!(
            one(&mut bench, 0, &datagram("fd00::7", 5, "::9", 53)),
            datagram("2001:db8::1", 10, "::9", 53)
        );
        assert_eq!(
            one(&mut bench, 1, &datagram("::9", 53, "2001:db8::1", 11)),
            datagram("::9", 53, "fd00::8", 5)
        );
        // From somebody else, and to a port without a flow.
        assert!(bench.push(1, &datagram("::99", 53, "2001:db8::1", 11)).is_empty());
        assert!(bench.push(1, &datagram("::9", 53, "2001:db8::1", 12)).is_empty());
        assert_eq!(one(&mut bench, 0, &ping(128, "fd00::7", "::9", 77)), ping(128, "2001:db8::1", "::9", 12));
        assert_eq!(one(&mut bench, 1, &ping(129, "::9", "2001:db8::1", 12)), ping(129, "::9", "fd00::7", 77));
        assert!(bench.push(0, &datagram("fd00::9", 5, "::9", 53)).is_empty());
        assert!(bench.drops().contains(&("no free address or port".to_owned(), 1)));
        // An error about a packet that left, and one about a packet that came in.
        let error = |kind: u8, src: &str, dst: &str, about: &[u8]| {
            packet(src, dst, 58, &[&[kind, 0, 0, 0, 0, 0, 0, 0][..], about].concat())
        };
        let left = datagram("2001:db8::1", 10, "::9", 53);
        assert_eq!(
            one(&mut bench, 1, &error(3, "::55", "2001:db8::1", &left)),
            error(3, "::55", "fd00::7", &datagram("fd00::7", 5, "::9", 53))
        );
        let came = datagram("::9", 53, "fd00::7", 5);
        assert_eq!(
            one(&mut bench, 0, &error(1, "fd00::7", "::9", &came)),
            error(1, "2001:db8::1", "::9", &datagram("::9", 53, "2001:db8::1", 10))
        );
    }

    #[test]
    fn hot_swaps_keep_what_can_stay() {
        let swap = |bench: &mut Bench, args: &str| {
            let text = bench.read(".config");
            let (head, rest) = text.split_once("AddressTranslator(").unwrap();
            let (_, tail) = rest.split_once(");").unwrap();
            let config = format!("{head}AddressTranslator({args});{tail}");
            bench.router().write("hotconfig", &config).unwrap();
            bench.read("mappings")
        };
        for workers in [1, 2] {
            let options = runtime::Options { hotswap: true, workers, ..runtime::Options::default() };
            let mut bench = Bench::with_ports_and_options(
                "AddressTranslator(0, true, false, false, 2001:db8::1, 2001:db8::2)",
                2,
                2,
                options.clone(),
            );
            for host in ["fd00::7", "fd00::8"] {
                one(&mut bench, 0, &datagram(host, 5, "::9", 53));
            }
            let both = "fd00::8 => 2001:db8::2\nfd00::7 => 2001:db8::1\n";
            let args = "0, true, false, false, 2001:db8::3, 2001:db8::2, 2001:db8::1";
            assert_eq!(swap(&mut bench, args), both);
            // The free one is in front.
            let new = one(&mut bench, 0, &datagram("fd00::9", 5, "::9", 53));
            assert_eq!(new, datagram("2001:db8::3", 5, "::9", 53));
            assert_eq!(
                one(&mut bench, 1, &datagram("::9", 53, "2001:db8::2", 5)),
                datagram("::9", 53, "fd00::8", 5)
            );
            // One has become static, and one is not there any more.
            let args = "1, false, fd00::7 2001:db8::7, true, false, false, 2001:db8::2, 2001:db8::1";
            assert_eq!(swap(&mut bench, args), "fd00::7 => 2001:db8::7\nfd00::8 => 2001:db8::2\n");
            let new = one(&mut bench, 0, &datagram("fd00::9", 5, "::9", 53));
            assert_eq!(new, datagram("2001:db8::1", 5, "::9", 53));
            assert!(bench.push(0, &datagram("fd00::a", 5, "::9", 53)).is_empty());

            let declaration = "AddressTranslator(0, true, true, false, 2001:db8::1 10 12)";
            let mut bench = Bench::with_ports_and_options(declaration, 2, 2, options);
            for host in ["fd00::7", "fd00::8", "fd00::9"] {
                one(&mut bench, 0, &datagram(host, 5, "::9", 53));
            }
            let kept = "fd00::8 5 => 2001:db8::1 11\nfd00::9 5 => 2001:db8::1 12\n";
            assert_eq!(swap(&mut bench, "0, true, true, false, 2001:db8::1 11 20"), kept);
            assert_eq!(
                one(&mut bench, 0, &datagram("fd00::9", 5, "::9", 53)),
                datagram("2001:db8::1", 12, "::9", 53)
            );
            assert_eq!(
                one(&mut bench, 0, &datagram("fd00::a", 5, "::9", 53)),
                datagram("2001:db8::1", 13, "::9", 53)
            );
            assert_eq!(swap(&mut bench, "0, true, true, false, 2001:db8::2 11 20"), "");
        }
    }

    #[test]
    fn wrong_arguments_are_errors() {
        for (config, wrong) in [
            ("", "N"),
            ("1, false, fd00::7, false", "too few words"),
            ("1, false, fd00::7 ::1 ::2, false", "too many words"),
            ("2, false, fd00::7 ::1, fd00::8 ::1, false", "already"),
            ("0, true, false, true, ::1", "INWARD"),
            ("0, true, false, false", "MAPPED"),
            ("0, true, false, false, ::1, ::1", "twice"),
            ("0, true, true, false, ::1 5 4", "ADDRESS FIRST LAST"),
        ] {
            let error = Bench::error(&format!("AddressTranslator({config})"));
            assert!(error.contains(wrong), "{config}: {error}");
        }
    }
}
