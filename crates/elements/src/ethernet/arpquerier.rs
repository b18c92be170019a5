//! # ARPQuerier
//! Prepends Ethernet headers to IP packets and finds the addresses by ARP (RFC 826).
//!
//! ## Synopsis
//! `ARPQuerier(IP, ETH [, TABLE, TIMEOUT, POLL_TIMEOUT, BROADCAST_POLL, BROADCAST, CAPACITY, CAPACITY_SLIM_FACTOR, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY])`
//! `ARPQuerier(NAME [, ...])`
//!
//! ## Arguments
//! - `IP` (*IP address or prefix*): this host's address. With a prefix, the subnet's broadcast address needs
//!   no query.
//! - `ETH` (*Ethernet address*): this host's Ethernet address.
//! - `NAME` (*name*): a name with both, from AddressInfo.
//! - `TABLE` (*element*): an ARPTable to use; by default the element has its own.
//! - `TIMEOUT` (*time*, default 5 min): how long an entry is valid; 0 means for ever. Packets that wait for
//!   an address are dropped if there is no reply for as long; as in Click, this is checked every `TIMEOUT`
//!   plus one second.
//! - `POLL_TIMEOUT` (*time*, default 1 min): the age at which an address in use is asked for again; 0 means
//!   never.
//! - `BROADCAST_POLL` (*bool*, default false): whether such a query is broadcast, and not sent to the known
//!   address only.
//! - `BROADCAST` (*IP address*): the subnet's broadcast address.
//! - `CAPACITY` (*int*, default 2048): how many packets may wait for answers in all; 0 means 65,536. When
//!   more would wait, half of them is dropped: first those for the entries that have not been heard of for
//!   longest.
//! - `CAPACITY_SLIM_FACTOR` (*int*, default 2): which part is dropped then (2: half of them, 4: a quarter).
//! - `ENTRY_CAPACITY` (*int*, default 0): how many addresses the table may hold; 0 means a large number.
//! - `ENTRY_PACKET_CAPACITY` (*int*, default 0): how many packets may wait for one address; 0 means no limit
//!   but `CAPACITY`. Another packet is dropped.
//!
//! Keywords may also stand in front of `IP` and `ETH`.
//!
//! An address that packets wait for is asked for at most every tenth of a second, and after ten queries
//! without a reply every two seconds. A query has the timestamp of the packet that caused it, and is sent
//! before it. It is 42 bytes long; devices pad it. Replies that nobody has asked for are stored, too.
//!
//! ## Ports
//! Push. Input 0: IP packets, whose destination annotation is the next hop. Input 1: ARP replies with their
//! Ethernet header. Output 0: packets ready to be sent; with a second output, queries go there instead.
//!
//! ## Handlers
//! - `ipaddr`, `broadcast` (read/write), `ethaddr` (read): the addresses. LinuxRoutes sets `ipaddr`; while it
//!   is 0.0.0.0, all packets are dropped.
//! - `table` (read): the entries, oldest first: IP address, 1 if the Ethernet address is valid, the Ethernet
//!   address (`FF-FF-FF-FF-FF-FF` while there is none), seconds since the entry was made or confirmed.
//! - `stats` (read): packets dropped, by the table too, and queries sent, as text.
//! - `queries`, `responses` (read): queries sent, frames on input 1 that were long enough for a reply.
//! - `drops` (read): packets dropped that did not wait for an answer.
//! - `count`, `length` (read): entries in the table, packets that wait.
//! - `timeout` (read), `poll_timeout` (read/write): the arguments; they read in seconds.
//! - `insert` (write, *IP ETH*): sets an address, and sends the packets that wait for it.
//! - `delete` (write, *IP*): forgets an address. Its entry stays, and so do packets that wait.
//! - `clear` (write): removes all entries, drops the packets that wait, and sets the counts to zero.
//! - `config` (read/write): the arguments. Of the element's own table, what is not given stays as it is;
//!   another `IP` or `ETH` clears it. `TABLE` is ignored.
//!
//! ## Threads
//! The table is shared; each worker keeps a copy of what it uses, so that packets to known neighbors take no
//! lock.
//!
//! ## Example
//! ```click
//! arpq :: ARPQuerier(10.0.0.1, 00:00:C0:00:00:01);
//! InfiniteSource(LIMIT 5, STOP true) -> SetIPAddress(10.0.0.2) -> arpq -> Discard;
//! Idle -> [1] arpq;
//! ```
//!
//! ## See also
//! ARPResponder, ARPTable, EtherEncap

use super::arptable;
use super::engine::neighbors::{Answer, Cache, Neighbors};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{ElementName, EtherAddr as EtherArg, FromArg, IpPrefix};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4};
use wire::{Arp, EtherAddr, Ethernet, arp};

const TOO_MANY_WAIT: DropReason = DropReason::new("too many packets wait for ARP");
const NOT_AN_ARP_REPLY: DropReason = DropReason::new("not an ARP reply");
const NO_ADDRESS: DropReason = DropReason::new("no IP address to ask with");

/// The length of a query; to pad it is left to the device.
const QUERY_LEN: usize = wire::ethernet::HEADER_LEN + arp::HEADER_LEN;

/// What a query takes over from the packet that causes it.
#[derive(Clone, Copy)]
struct Cause {
    timestamp_ns: u64,
    vlan_tci: u16,
}

/// The `ARPQuerier` element.
pub struct ArpQuerier {
    ip: Ipv4Addr,
    mac: EtherAddr,
    broadcast: Ipv4Addr,
    table: Arc<Neighbors>,
    /// Whether the table is the element's own, so that the element removes expired entries.
    owner: bool,
    cache: Cache,
    /// The time of the current batch.
    now_ns: u64,
    poll_ns: u64,
    broadcast_poll: bool,
    /// Packets without a next hop are reported once.
    warned: bool,
    queries: Counter,
    responses: Counter,
    killed: Counter,
}

/// A time, of which 0 means never.
fn or_never(ns: u64) -> u64 {
    if ns == 0 { u64::MAX } else { ns }
}

/// Default of `POLL_TIMEOUT`.
const POLL_NS: u64 = 60_000_000_000;

/// The arguments but for the limits of the table.
struct Settings {
    ip: Ipv4Addr,
    mac: EtherAddr,
    broadcast: Ipv4Addr,
    table: Option<ElementName>,
    poll_ns: Option<u64>,
    broadcast_poll: Option<bool>,
}

impl Settings {
    /// Reads the last arguments.
    fn read(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let table = args.k::<ElementName>("TABLE")?;
        let poll_ns = args.k::<Duration>("POLL_TIMEOUT")?.map(|poll| or_never(text::nanos(poll)));
        let broadcast = args.k::<Ipv4Addr>("BROADCAST")?;
        let broadcast_poll = args.k("BROADCAST_POLL")?;
        args.consume();
        let left = args.left();
        let prefix = args.mp::<IpPrefix>("IP")?;
        let mac = match left.as_slice() {
            // One argument is the name of both addresses.
            [name] => {
                let mac = EtherArg::from_arg(&name.text, args.names());
                mac.map_err(|_| args.error_at(name, "ETH: parse error"))?
            }
            _ => args.mp::<EtherArg>("ETH")?,
        };
        let (ip, mask) = (prefix.addr, u32::from(prefix.mask));
        let subnet = Ipv4Addr::from(u32::from(ip) | !mask);
        let broadcast = broadcast.unwrap_or(if subnet == ip { Ipv4Addr::BROADCAST } else { subnet });
        Ok(Self { ip, mac: EtherAddr(mac.0), broadcast, table, poll_ns, broadcast_poll })
    }
}

impl ArpQuerier {
    fn ask(&mut self, target: Ipv4Addr, to: EtherAddr, cause: Cause, cx: &mut Cx<'_>) {
        let Some(mut query) = Packet::alloc(dpdk::DEFAULT_HEADROOM, QUERY_LEN) else {
            return cx.count_drops(1, drops::OUT_OF_MEMORY);
        };
        let data = query.data_mut();
        let header = Ethernet::build(to, self.mac, ETHERTYPE_ARP);
        let request = Arp::request(self.mac, self.ip, target);
        for (to, from) in data.iter_mut().zip(header.bytes().iter().chain(request.bytes())) {
            *to = *from;
        }
        query.set_mac_header(0);
        query.set_timestamp_ns(cause.timestamp_ns);
        if cause.vlan_tci != 0 {
            query.set_vlan_tci(cause.vlan_tci);
        }
        self.queries.add(1);
        let port = usize::from(cx.n_outputs() > 1);
        cx.output(port, query);
    }

    /// The header of packets to a neighbor.
    #[inline]
    fn header(&self, to: EtherAddr) -> Ethernet<[u8; wire::ethernet::HEADER_LEN]> {
        Ethernet::build(to, self.mac, ETHERTYPE_IPV4)
    }

    /// Puts a header in front and emits the packet.
    fn send(&self, packet: Packet, to: EtherAddr, cx: &mut Cx<'_>) {
        // A packet without headroom gets some.
        match packet.push(wire::ethernet::HEADER_LEN) {
            Some(mut packet) => {
                packet.strip(wire::ethernet::HEADER_LEN);
                packet.push_link_header(self.header(to).bytes());
                cx.output(0, packet);
            }
            None => {
                self.killed.add(1);
                cx.count_drops(1, drops::OUT_OF_MEMORY);
            }
        }
    }

    /// A packet whose next hop is not a known neighbor, or that has no headroom for a header.
    #[cold]
    fn unusual(&mut self, packet: Packet, now_ns: u64, cx: &mut Cx<'_>) {
        if self.ip.is_unspecified() {
            self.killed.add(1);
            return cx.drop(packet, NO_ADDRESS);
        }
        let next_hop = Ipv4Addr::from(packet.dst_ip());
        if let Some(address) = self.cache.get(next_hop, now_ns) {
            return self.send(packet, address, cx);
        }
        if next_hop.is_unspecified() {
            if !std::mem::replace(&mut self.warned, true) {
                let element = format!("{} :: {}", cx.name(), Self::CLASS);
                let why = "would query for 0.0.0.0; missing dest IP addr annotation?";
                cx.log(Level::WARN, &format!("{element}: {why}"));
            }
            self.killed.add(1);
            return cx.drop(packet, drops::NO_NEXT_HOP);
        }
        if next_hop.is_broadcast() || next_hop == self.broadcast {
            return self.send(packet, EtherAddr::BROADCAST, cx);
        }
        if next_hop.is_multicast() {
            // RFC 1112 section 6.4: the low 23 bits of the group.
            let [_, b, c, d] = next_hop.octets();
            return self.send(packet, EtherAddr([1, 0, 0x5e, b & 0x7f, c, d]), cx);
        }
        let cause = Cause { timestamp_ns: packet.timestamp_ns(), vlan_tci: packet.vlan_tci() };
        match self.table.find(next_hop, packet, now_ns, self.poll_ns) {
            Answer::Known { packet, address, until_ns, ask } => {
                self.cache.put(next_hop, address, until_ns);
                if ask {
                    let to = if self.broadcast_poll { EtherAddr::BROADCAST } else { address };
                    self.ask(next_hop, to, cause, cx);
                }
                self.send(packet, address, cx);
            }
            Answer::Waits { ask, displaced, over } => {
                if let Some(over) = over {
                    cx.log(Level::WARN, &format!("{}: {}", cx.name(), arptable::too_many(over)));
                }
                for packet in displaced {
                    cx.drop(packet, TOO_MANY_WAIT);
                }
                if ask {
                    self.ask(next_hop, EtherAddr::BROADCAST, cause, cx);
                }
            }
        }
    }

    /// The handler `config`.
    fn reconfigure(&mut self, value: &str, cx: &mut Cx<'_>) -> Result<(), String> {
        let names = runtime::handler_names();
        let mut args = Args::new(value, None, &names);
        let given = arptable::Given::read(&mut args);
        let read = given.and_then(|given| Ok((given, Settings::read(&mut args)?)));
        let read = read.and_then(|read| args.finish().map(|()| read));
        let (given, new) = read.map_err(|e| e.message)?;
        if self.owner {
            if (new.ip, new.mac) != (self.ip, self.mac) {
                arptable::discard(self.table.clear(), cx);
            }
            arptable::discard(self.table.set_limits(cx.now_ns(), |limits| given.change(limits)), cx);
            arptable::watch(&self.table, cx);
        }
        (self.ip, self.mac, self.broadcast) = (new.ip, new.mac, new.broadcast);
        self.poll_ns = new.poll_ns.unwrap_or(self.poll_ns);
        self.broadcast_poll = new.broadcast_poll.unwrap_or(self.broadcast_poll);
        Ok(())
    }

    fn response(&mut self, packet: Packet, now_ns: u64, cx: &mut Cx<'_>) {
        // As in Click, whatever is in it.
        self.responses.add(u64::from(packet.len() >= QUERY_LEN));
        let answer = Ethernet::split(packet.data()).and_then(|(eth, rest)| {
            let arp = Arp::new(rest).filter(|_| eth.ethertype() == ETHERTYPE_ARP)?;
            let own = arp.sender_hardware();
            let good = arp.is_ethernet_ipv4() && arp.operation() == arp::REPLY && !own.is_group();
            good.then(|| (arp.sender(), own))
        });
        let Some((ip, mac)) = answer else {
            return cx.drop(packet, NOT_AN_ARP_REPLY);
        };
        let (waited, lost) = self.table.learn(ip, mac, now_ns);
        for waiting in waited {
            self.send(waiting, mac, cx);
        }
        for packet in lost {
            cx.drop(packet, TOO_MANY_WAIT);
        }
    }
}

impl Element for ArpQuerier {
    const CLASS: &'static str = "ARPQuerier";
    const PORTS: &'static str = "2/1-2";
    const PROCESSING: &'static str = "h/h";
    const FLOW: &'static str = "xy/x";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::DST_IP);
    const DROPS: &'static [DropCase] = &[
        drops::NO_NEXT_HOP.when("the destination annotation is 0.0.0.0"),
        NO_ADDRESS.when("the handler `ipaddr` has set this host's address to 0.0.0.0"),
        TOO_MANY_WAIT.when(
            "the packet, or one that waited for longer, had to make room for others; or the address found no room \
             in the table, because a virtual router may have no more neighbors",
        ),
        drops::ARP_ENTRY_REMOVED.when("packets that waited for it"),
        drops::NO_ARP_REPLY.when("packets that waited for an address, and nobody answered within `TIMEOUT`"),
        NOT_AN_ARP_REPLY.when("on input 1, anything else"),
        drops::OUT_OF_MEMORY
            .when("there was no buffer for a query, or for a packet without room for the header"),
    ];
    const ROLE: Role = Role::NextHopResolver;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/arpquerier");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let limits = arptable::limits(args)?;
        let Settings { ip, mac, broadcast, table, poll_ns, broadcast_poll } = Settings::read(args)?;
        let owner = table.is_none();
        let table = match table {
            Some(name) => {
                let table = cx.shared_of::<Neighbors>(&name.0, "an ARPTable")?;
                cx.publish(Arc::clone(&table));
                table
            }
            None => {
                cx.holds_together(limits.packets);
                let budget = Arc::clone(&cx.hub().bounds().neighbors);
                cx.shared(|| Neighbors::new(limits).limited(&budget))
            }
        };
        Ok(Self {
            ip,
            mac,
            broadcast,
            table,
            owner,
            cache: Cache::default(),
            now_ns: 0,
            poll_ns: poll_ns.unwrap_or(POLL_NS),
            broadcast_poll: broadcast_poll.unwrap_or(false),
            warned: false,
            queries: Counter::new(),
            responses: Counter::new(),
            killed: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("ipaddr", |e| e.ip.to_string());
        h.write("ipaddr", |e, v, _| {
            e.ip = text::value(v, "should be an IP address")?;
            Ok(())
        });
        h.read("ethaddr", |e| e.mac.to_string());
        h.read("broadcast", |e| e.broadcast.to_string());
        h.write("broadcast", |e, v, _| {
            e.broadcast = text::value(v, "should be an IP address")?;
            Ok(())
        });
        h.read_with("table", Combine::First, |e, _, cx| Ok(e.table.list(cx.now_ns())));
        h.read("stats", |e| {
            let (own, table) = (e.killed.get(), e.table.drops());
            format!("{} packets killed\n{} ARP queries sent\n", own + table, e.queries.get())
        });
        h.counter("queries", |e| &e.queries);
        h.counter("responses", |e| &e.responses);
        h.counter("drops", |e| &e.killed);
        h.shared_read::<Neighbors>("count", |t, _| Ok(t.len().to_string()));
        h.shared_read::<Neighbors>("length", |t, _| Ok(t.waiting().to_string()));
        h.shared_read::<Neighbors>("timeout", |t, _| Ok((t.timeout_ns() / 1_000_000_000).to_string()));
        h.read("poll_timeout", |e| {
            if e.poll_ns == u64::MAX { 0 } else { e.poll_ns / 1_000_000_000 }.to_string()
        });
        h.write("poll_timeout", |e, v, _| {
            e.poll_ns = or_never(text::nanos(text::value(v, "syntax error")?));
            Ok(())
        });
        h.write("insert", |e, v, cx| {
            let (ip, mac) = arptable::pair(v)?;
            let Some(mac) = mac else { return arptable::set(&e.table, (ip, None), cx) };
            let (waited, lost) = e.table.insert(ip, mac, cx.now_ns()).map_err(arptable::too_many)?;
            arptable::discard(lost, cx);
            waited.into_iter().for_each(|packet| e.send(packet, mac, cx));
            Ok(())
        });
        h.write("config", Self::reconfigure);
        h.write("delete", |e, v, cx| arptable::delete(&e.table, v, cx));
        h.write("clear", |e, _, cx| {
            for counter in [&e.queries, &e.responses, &e.killed] {
                counter.set(0);
            }
            arptable::discard(e.table.clear(), cx);
            Ok(())
        });
        h.listed(&[
            "table",
            "stats",
            "count",
            "length",
            "queries",
            "responses",
            "drops",
            "broadcast",
            "ipaddr",
            "insert",
            "delete",
            "clear",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.owner {
            arptable::watch(&self.table, cx);
        }
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        arptable::expire(&self.table, cx);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.queries.set(old.queries.get());
        self.responses.set(old.responses.get());
        self.killed.set(old.killed.get());
        if !Arc::ptr_eq(&self.table, &old.table) && cx.worker().0 == 0 {
            arptable::discard(self.table.adopt(&old.table, cx.now_ns()), cx);
        }
    }
}

impl Step for ArpQuerier {
    #[inline]
    fn ready(&mut self, cx: &mut Cx<'_>) {
        self.cache.check(&self.table);
        // Without an address of its own it sends nothing: no copied entry is valid then.
        self.now_ns = if self.ip.is_unspecified() { u64::MAX } else { cx.run_ns() };
    }
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let next_hop = Ipv4Addr::from(packet.dst_ip());
        match self.cache.get(next_hop, self.now_ns) {
            Some(address) => packet.push_link_header(self.header(address).bytes()),
            None => false,
        }
    }
}

impl Vector for ArpQuerier {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.ready(cx);
        let now = cx.run_ns();
        if port != 0 {
            for packet in batch.drain(..) {
                self.response(packet, now, cx);
            }
            return cx.recycle(batch);
        }
        let Some(known) = batch.iter_mut().position(|packet| !self.step(packet)) else {
            return cx.output_batch(0, batch);
        };
        let mut rest = cx.spare_batch();
        rest.extend(batch.drain(known..));
        cx.output_batch(0, batch);
        for mut packet in rest.drain(..) {
            if self.step(&mut packet) {
                cx.output(0, packet);
            } else {
                self.unusual(packet, now, cx);
            }
        }
        cx.recycle(rest);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;
    use wire::{Arp, EtherAddr, Ethernet};

    const QUERIER: &str = "ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1)";
    const PEER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);

    fn ip_to(next_hop: [u8; 4]) -> Packet {
        let mut p = Packet::from_bytes(&[0x45, 0, 0, 20]).unwrap();
        p.set_dst_ip(next_hop);
        p
    }

    fn reply(from: [u8; 4], mac: EtherAddr) -> Vec<u8> {
        let us = EtherAddr([2, 0, 0, 0, 0, 1]);
        let eth = Ethernet::build(us, mac, 0x0806);
        let arp = Arp::reply(mac, from.into(), us, [10, 0, 0, 1].into());
        eth.bytes().iter().chain(arp.bytes()).copied().collect()
    }

    /// The address is no keyword, whatever letter it begins with.
    #[test]
    fn an_address_may_begin_with_a_capital() {
        let mut b = Bench::with_ports("ARPQuerier(10.0.0.1/24, FA-0-0-0-0-1)", 2, 1);
        let query = b.push_packet(0, ip_to([10, 0, 0, 9]));
        let (eth, _) = Ethernet::split(&query[0].1).unwrap();
        assert_eq!(eth.src(), EtherAddr([0xfa, 0, 0, 0, 0, 1]));
    }

    /// Click reads keywords first and removes them.
    #[test]
    fn keywords_may_stand_in_front() {
        for arguments in [
            "TIMEOUT 10, CAPACITY 3, 10.0.0.1/24, 2:0:0:0:0:1",
            "10.0.0.1/24, TIMEOUT 10, 2:0:0:0:0:1",
            "BROADCAST 10.0.0.255, IP 10.0.0.1, ETH 2:0:0:0:0:1",
        ] {
            let mut b = Bench::with_ports(&format!("ARPQuerier({arguments})"), 2, 1);
            assert_eq!((b.read("ipaddr"), b.read("broadcast")), ("10.0.0.1".into(), "10.0.0.255".into()));
        }
        assert!(Bench::error("ARPQuerier(10.0.0.1)").contains("ETH: parse error"));
        assert!(Bench::error("ARPQuerier()").contains("IP: required argument missing"));
        assert!(
            Bench::error("ARPQuerier(CAPACITY_SLIM_FACTOR 0, 10.0.0.1, 2:0:0:0:0:1)")
                .contains("CAPACITY_SLIM_FACTOR cannot be zero")
        );
    }

    #[test]
    fn a_query_has_the_timestamp_of_its_packet_and_leaves_first() {
        let mut b = Bench::with_ports("ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, POLL_TIMEOUT 1ns)", 2, 1);
        let send = |b: &mut Bench, at: u64| {
            let mut packet = ip_to([10, 0, 0, 9]);
            packet.set_timestamp_ns(at);
            packet.set_vlan_tci(7);
            b.send(0, packet).into_iter().map(|(_, p)| p).collect::<Vec<_>>()
        };
        let query = send(&mut b, 123);
        assert_eq!((query[0].timestamp_ns(), query[0].vlan_tci()), (123, 7));
        b.push(1, &reply([10, 0, 0, 9], PEER));
        let both = send(&mut b, 456);
        assert_eq!((both.len(), both[0].len(), both[0].timestamp_ns()), (2, 42, 456));
        let to = |p: &Packet| Ethernet::new(p.data()).unwrap().dst();
        assert_eq!((to(&both[0]), to(&both[1])), (PEER, PEER), "the known neighbor alone is asked");
    }

    #[test]
    fn asks_waits_and_sends() {
        let mut b = Bench::with_ports(QUERIER, 2, 1);
        let query = b.push_packet(0, ip_to([10, 0, 0, 9]));
        assert_eq!(query.len(), 1);
        let (eth, rest) = Ethernet::split(&query[0].1).unwrap();
        assert_eq!((eth.dst(), eth.ethertype(), query[0].1.len()), (EtherAddr::BROADCAST, 0x0806, 42));
        let arp = Arp::new(rest).unwrap();
        assert_eq!((arp.operation(), arp.target()), (1, [10, 0, 0, 9].into()));
        assert!(b.push_packet(0, ip_to([10, 0, 0, 9])).is_empty());
        assert_eq!(b.read("length"), "2");
        let sent = b.push(1, &reply([10, 0, 0, 9], PEER));
        assert_eq!(sent.len(), 2);
        assert_eq!(Ethernet::new(&sent[0].1).unwrap().dst(), PEER);
        assert_eq!(&sent[0].1[14..], [0x45, 0, 0, 20]);
        let direct = b.push_packet(0, ip_to([10, 0, 0, 9]));
        assert_eq!(Ethernet::new(&direct[0].1).unwrap().dst(), PEER);
        assert_eq!(b.read("queries"), "1");
        assert_eq!(b.read("responses"), "1");
        assert!(b.read("table").starts_with("10.0.0.9 1 02-00-00-00-00-09 "));
    }

    #[test]
    fn broadcast_and_multicast_need_no_query() {
        let mut b = Bench::with_ports(QUERIER, 2, 1);
        let to = |b: &mut Bench, ip| Ethernet::new(&b.push_packet(0, ip_to(ip))[0].1).unwrap().dst();
        assert_eq!(to(&mut b, [10, 0, 0, 255]), EtherAddr::BROADCAST);
        assert_eq!(to(&mut b, [255; 4]), EtherAddr::BROADCAST);
        assert_eq!(to(&mut b, [224, 129, 2, 3]), EtherAddr([1, 0, 0x5e, 1, 2, 3]));
        assert!(b.push_packet(0, ip_to([0; 4])).is_empty());
        assert_eq!(b.drops(), [("no next hop".to_owned(), 1)]);
    }

    #[test]
    fn packets_that_wait_when_a_hot_swap_removes_the_element_are_counted() {
        let config = format!("e :: {QUERIER} -> d :: Discard; Idle -> [1] e;");
        let options = runtime::Options { hotswap: true, ..runtime::Options::default() };
        let mut b = runtime::testing::Bench::with(&crate::registry(), &config, 1, 0, options);
        b.push_packet(0, ip_to([10, 0, 0, 9]));
        b.push_packet(0, ip_to([10, 0, 0, 8]));
        b.router().write("hotconfig", "Idle -> Discard").unwrap();
        assert_eq!(b.router().read("drops", "").unwrap(), "2\te\tremoved by hot swap\n");
    }

    #[test]
    fn packets_that_nobody_answers_for_are_dropped() {
        for config in [
            "e :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, TIMEOUT 2);",
            "t :: ARPTable(TIMEOUT 2); e :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, TABLE t);",
        ] {
            let mut b = Bench::simulated(config, 2, 1);
            b.push_packet(0, ip_to([10, 0, 0, 9]));
            b.push_packet(0, ip_to([10, 0, 0, 9]));
            assert_eq!(b.read("length"), "2");
            b.turns(20);
            assert_eq!(b.read("length"), "0");
            let drops = b.router().read("drops", "").unwrap();
            assert!(drops.starts_with("2\t") && drops.ends_with("\tno ARP reply\n"), "{drops}");
        }
    }

    #[test]
    fn malformed_replies_are_dropped() {
        let mut b = Bench::with_ports(QUERIER, 2, 1);
        let good = reply([10, 0, 0, 9], PEER);
        for cut in 0..good.len() {
            assert!(b.push(1, &good[..cut]).is_empty());
        }
        assert!(b.push(1, &reply([10, 0, 0, 9], EtherAddr::BROADCAST)).is_empty());
        assert_eq!(b.read("count"), "0");
    }

    #[test]
    fn a_second_output_gets_the_queries() {
        let mut b = Bench::with_ports(QUERIER, 2, 2);
        assert_eq!(b.push_packet(0, ip_to([10, 0, 0, 9]))[0].0, 1);
    }

    #[test]
    fn entries_can_be_made_by_hand() {
        let mut b = Bench::with_ports(QUERIER, 2, 1);
        b.write("insert", "10.0.0.7 2:0:0:0:0:7");
        assert_eq!(
            Ethernet::new(&b.push_packet(0, ip_to([10, 0, 0, 7]))[0].1).unwrap().dst(),
            EtherAddr([2, 0, 0, 0, 0, 7])
        );
        b.write("delete", "10.0.0.7");
        assert_eq!(b.push_packet(0, ip_to([10, 0, 0, 7])).len(), 1);
        b.write("insert", "10.0.0.7 2:0:0:0:0:8");
        let sent = b.take();
        assert_eq!(sent.len(), 1, "the packet that waited is sent");
        assert_eq!(Ethernet::new(sent[0].1.data()).unwrap().dst(), EtherAddr([2, 0, 0, 0, 0, 8]));
        assert_eq!(b.read("length"), "0");
        b.push_packet(0, ip_to([10, 0, 0, 9]));
        b.write("delete", "10.0.0.9");
        assert_eq!((b.read("count"), b.read("length")), ("2".into(), "1".into()), "they go on waiting");
        b.write("clear", "");
        assert_eq!(b.drops(), [("ARP entry removed".to_owned(), 1)]);
        assert_eq!(b.read("stats"), "1 packets killed\n0 ARP queries sent\n");
        assert!(b.try_write("insert", "10.0.0.7").is_err());
    }

    #[test]
    fn a_reply_is_stored_before_anybody_asks() {
        let mut b = Bench::with_ports(QUERIER, 2, 1);
        assert!(b.push(1, &reply([10, 0, 0, 9], PEER)).is_empty());
        let direct = b.push_packet(0, ip_to([10, 0, 0, 9]));
        assert_eq!(Ethernet::new(&direct[0].1).unwrap().dst(), PEER);
        assert_eq!((b.read("queries"), b.read("responses")), ("0".into(), "1".into()));
    }

    #[test]
    fn too_many_packets_for_one_address_are_refused() {
        let mut b = Bench::with_ports("ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, ENTRY_PACKET_CAPACITY 1)", 2, 1);
        for last in 0..3 {
            let mut packet = Packet::from_bytes(&[0x45, 0, 0, last]).unwrap();
            packet.set_dst_ip([10, 0, 0, 9]);
            b.send(0, packet);
        }
        assert_eq!(b.read("stats"), "2 packets killed\n1 ARP queries sent\n");
        let sent = b.push(1, &reply([10, 0, 0, 9], PEER));
        assert_eq!((sent.len(), sent[0].1[17]), (1, 0), "the first one");
    }

    #[test]
    fn without_an_address_nothing_is_sent() {
        let mut b = Bench::with_ports(QUERIER, 2, 1);
        b.push(1, &reply([10, 0, 0, 9], PEER));
        b.write("ipaddr", "0.0.0.0");
        for host in [9, 8] {
            assert!(b.push_packet(0, ip_to([10, 0, 0, host])).is_empty());
        }
        assert_eq!(b.drops(), [("no IP address to ask with".to_owned(), 2)]);
        assert_eq!(b.read("drops"), "2");
        b.write("ipaddr", "10.0.0.1");
        assert_eq!(b.push_packet(0, ip_to([10, 0, 0, 9])).len(), 1);
    }

    #[test]
    fn gets_other_arguments() {
        let config = "e :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, CAPACITY 7, TIMEOUT 60);
            AddressInfo(me 10.0.0.3/24 2:0:0:0:0:3, peer 10.0.0.9 2:0:0:0:0:9);";
        let mut b = Bench::with_config(config, 2, 1);
        b.write("insert", "peer peer");
        b.write("config", "10.0.0.1/24, 2:0:0:0:0:1, POLL_TIMEOUT 5s");
        assert_eq!(
            (b.read("count"), b.read("timeout"), b.read("poll_timeout")),
            ("1".into(), "60".into(), "5".into())
        );
        assert!(b.try_write("config", "10.0.0.1, 2:0:0:0:0:1, CAPACITY x").is_err());
        assert!(b.try_write("config", "10.0.0.1, 2:0:0:0:0:1, MORE 1").is_err());
        assert_eq!(b.read("config"), "10.0.0.1/24, 2:0:0:0:0:1, POLL_TIMEOUT 5s");
        b.write("config", "me");
        assert_eq!((b.read("count"), b.read("ipaddr")), ("0".into(), "10.0.0.3".into()));
        b.write("poll_timeout", "1500 ms");
        b.write("ipaddr", "peer");
        b.write("broadcast", "10.0.0.254");
        assert_eq!((b.read("ipaddr"), b.read("broadcast")), ("10.0.0.9".into(), "10.0.0.254".into()));
    }

    #[test]
    fn there_are_no_more_neighbors_than_the_router_may_have() {
        let limits = runtime::Limits { neighbors: Some(2), ..runtime::Limits::default() };
        let options = runtime::Options { limits, ..runtime::Options::default() };
        let mut b = Bench::with_ports_and_options(QUERIER, 2, 1, options);
        for host in 1..=4 {
            assert_eq!(b.push_packet(0, ip_to([10, 0, 0, 10 + host])).len(), 1, "a query");
        }
        assert_eq!(
            (b.read("count"), b.read("length"), b.read("stats")),
            ("2".into(), "2".into(), "2 packets killed\n4 ARP queries sent\n".into())
        );
        let error = b.try_write("insert", "10.0.0.99 2:0:0:0:0:9").unwrap_err().to_string();
        assert!(error.contains("too many neighbors: the limit neighbors is 2"), "{error}");
        assert!(b.push(1, &reply([10, 0, 0, 98], PEER)).is_empty());
        assert_eq!(b.read("count"), "2", "a reply that nobody asked for does not displace others");
        b.write("clear", "");
        b.write("insert", "10.0.0.99 2:0:0:0:0:9");
        assert_eq!(b.router().hub().bounds().refused(), [("neighbors", 4)]);
    }
}
