//! # IP6NDSolicitor
//! Prepends Ethernet headers to IPv6 packets and finds the addresses by neighbor discovery (RFC 4861).
//!
//! ## Synopsis
//! `IP6NDSolicitor(IP, ETH, [TIMEOUT, POLL_TIMEOUT, CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, RATE])`
//!
//! ## Arguments
//! - `IP` (*IPv6 address*): this host's address, the source of solicitations.
//! - `ETH` (*Ethernet address*): this host's Ethernet address.
//! - `TIMEOUT` (*time*, keyword, default 2 min): how long an entry is valid. Packets that wait for an address
//!   are dropped if there is no advertisement for as long.
//! - `POLL_TIMEOUT` (*time*, keyword, default 1 min): the age at which the address of a neighbor in use is
//!   asked for again.
//! - `CAPACITY` (*int*, keyword, default 2048): how many packets may wait for answers in all.
//! - `ENTRY_CAPACITY` (*int*, keyword, default 65536): how many addresses the table may hold.
//! - `ENTRY_PACKET_CAPACITY` (*int*, keyword, default 32): how many packets may wait for one address, the
//!   newest; under the name `click` 1, as in Click.
//! - `RATE` (*int*, solicitations per second, keyword, default 1000): how many addresses that are not known
//!   are asked for at most. 0 is no limit, which is also the default under the name `click`.
//!
//! A network of IPv6 has more addresses than anybody can ask for. What a sender who goes through them all can
//! use up is bounded (RFC 6583): packets that wait, by `CAPACITY`; addresses without an answer, which are
//! forgotten when no packet waits for them any more; solicitations, by `RATE`. Neighbors that are known stay
//! in the table meanwhile, and asking for them again does not count for `RATE`.
//!
//! ## Ports
//! Push. Input 0: IPv6 packets, whose destination annotation is the next hop. Input 1: neighbor
//! advertisements with their Ethernet header. Output 0: packets ready to be sent; with a second output,
//! solicitations go there instead. Packets to a multicast address need no solicitation (RFC 2464 section 7).
//!
//! An advertisement is believed only if this element has asked for the address. One without the override bit
//! does not change the address of a neighbor that is known (RFC 4861 section 7.2.5).
//!
//! ## Handlers
//! - `table` (read): the entries: IPv6 address, 1 if known, Ethernet address.
//! - `stats` (read): packets dropped and solicitations sent, as text.
//! - `queries`, `responses`, `drops` (read): solicitations sent, advertisements taken, packets dropped.
//! - `count`, `length` (read): entries in the table, packets that wait.
//! - `insert` (write, *IP ETH*), `delete` (write, *IP*), `clear` (write): change the table.
//!
//! ## Threads
//! The table is shared; each worker keeps a copy of what it uses, so that packets to known neighbors take no
//! lock.
//!
//! ## Example
//! ```click
//! nd :: IP6NDSolicitor(fe80::1, 00:00:C0:00:00:01);
//! InfiniteSource(LIMIT 5, STOP true) -> SetIP6Address(fe80::2) -> nd -> Discard;
//! Idle -> [1] nd;
//! ```
//!
//! ## See also
//! IP6NDAdvertiser, LookupIP6Route, ARPQuerier

use super::engine::discovery::{Advertisement, frame};
use super::engine::header::dst_ip6;
use crate::ethernet::engine::neighbors::{Answer, Cache, Limits, Neighbors};
use crate::plumbing::engine::bucket::{Bucket, Packets};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::EtherAddr as EtherArg;
use std::fmt::Write;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;
use wire::ethernet::{ETHERTYPE_IPV6, HEADER_LEN};
use wire::icmpv6::{NEIGHBOR_SOLICITATION, OPTION_SOURCE, solicited_node};
use wire::{EtherAddr, Ethernet};

const TOO_MANY_WAIT: DropReason = DropReason::new("too many packets wait for neighbors");
const NO_ADVERTISEMENT: DropReason = DropReason::new("no neighbor advertisement");
const ENTRY_REMOVED: DropReason = DropReason::new("neighbor removed");
const NOT_AN_ADVERTISEMENT: DropReason = DropReason::new("not a neighbor advertisement");

/// Solicitations per second, unless the configuration says otherwise, and the longest idle time whose
/// solicitations may be sent later, at once.
const RATE: u64 = 1000;
const BURST_MS: u64 = 50;

/// The `IP6NDSolicitor` element.
pub struct IP6NDSolicitor {
    ip: Ipv6Addr,
    mac: EtherAddr,
    table: Arc<Neighbors<Ipv6Addr>>,
    cache: Cache<Ipv6Addr>,
    /// The time of the current batch.
    now_ns: u64,
    poll_ns: u64,
    limit: Bucket<Packets>,
    queries: Counter,
    responses: Counter,
    killed: Counter,
}

impl IP6NDSolicitor {
    fn ask(&mut self, target: Ipv6Addr, cx: &mut Cx<'_>) {
        let group = solicited_node(target);
        let macs = [self.mac, EtherAddr::multicast_v6(group)];
        let option = (OPTION_SOURCE, self.mac);
        let Some(mut query) = frame(macs, [self.ip, group], NEIGHBOR_SOLICITATION, (0, target), option)
        else {
            return cx.count_drops(1, drops::OUT_OF_MEMORY);
        };
        query.set_mac_header(0);
        query.set_timestamp_ns(cx.now_ns());
        self.queries.add(1);
        let port = usize::from(cx.n_outputs() > 1);
        cx.output(port, query);
    }

    /// The header of packets to a neighbor.
    #[inline]
    fn header(&self, to: EtherAddr) -> Ethernet<[u8; HEADER_LEN]> {
        Ethernet::build(to, self.mac, ETHERTYPE_IPV6)
    }

    /// Puts a header in front and emits the packet.
    fn send(&self, packet: Packet, to: EtherAddr, cx: &mut Cx<'_>) {
        // A packet without headroom gets some.
        match packet.push(HEADER_LEN) {
            Some(mut packet) => {
                packet.strip(HEADER_LEN);
                packet.push_link_header(self.header(to).bytes());
                cx.output(0, packet);
            }
            None => {
                self.killed.add(1);
                cx.count_drops(1, drops::OUT_OF_MEMORY);
            }
        }
    }

    fn kill(&self, packets: Vec<Packet>, reason: DropReason, cx: &mut Cx<'_>) {
        self.killed.add(packets.len() as u64);
        packets.into_iter().for_each(|packet| cx.drop(packet, reason));
    }

    /// A packet whose next hop is not a known neighbor, or that has no headroom for a header.
    #[cold]
    fn unusual(&mut self, packet: Packet, now_ns: u64, cx: &mut Cx<'_>) {
        let next_hop = dst_ip6(&packet);
        if let Some(address) = self.cache.get(next_hop, now_ns) {
            return self.send(packet, address, cx);
        }
        if next_hop.is_unspecified() {
            return self.kill(vec![packet], drops::NO_NEXT_HOP, cx);
        }
        if next_hop.is_multicast() {
            return self.send(packet, EtherAddr::multicast_v6(next_hop), cx);
        }
        let ask = match self.table.find(next_hop, packet, now_ns, self.poll_ns) {
            Answer::Known { packet, address, until_ns, ask } => {
                self.cache.put(next_hop, address, until_ns);
                self.send(packet, address, cx);
                ask
            }
            Answer::Waits { ask, displaced, over } => {
                if let Some(over) = over {
                    let message = format!("too many neighbors: the limit neighbors is {}", over.most);
                    cx.log(Level::WARN, &format!("{}: {message}", cx.name()));
                }
                self.kill(displaced, TOO_MANY_WAIT, cx);
                let admitted = ask && self.limit.admit(now_ns, 1) > 0;
                if ask && !admitted {
                    self.table.not_asked(next_hop);
                }
                admitted
            }
        };
        if ask {
            self.ask(next_hop, cx);
        }
    }

    fn response(&mut self, packet: Packet, now_ns: u64, cx: &mut Cx<'_>) {
        let Some(said) = Advertisement::parse(packet.data()) else {
            return cx.drop(packet, NOT_AN_ADVERTISEMENT);
        };
        self.responses.add(1);
        let known = self.table.get(said.target);
        // Without an address it says that the known one is still right.
        let mac = match (said.mac, known) {
            (Some(mac), Some(known)) if mac != known && !said.overrides => return,
            (Some(mac), _) | (None, Some(mac)) => mac,
            (None, None) => return,
        };
        for waiting in self.table.learn(said.target, mac, now_ns).0 {
            self.send(waiting, mac, cx);
        }
    }

    fn watch(&self, cx: &mut Cx<'_>) {
        if let Some(after) = self.table.expiry_interval() {
            cx.timer_after(0, Duration::from_nanos(after));
        }
    }
}

impl Element for IP6NDSolicitor {
    const CLASS: &'static str = "IP6NDSolicitor";
    const PORTS: &'static str = "2/1-2";
    const PROCESSING: &'static str = "h/h";
    const FLOW: &'static str = "xy/x";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::DST_IP6);
    const DROPS: &'static [DropCase] = &[
        drops::NO_NEXT_HOP.when("the destination annotation is `::`"),
        TOO_MANY_WAIT.when(
            "the packet, or one that waited for longer, had to make room for others; or the address found no room \
             in the table, because a virtual router may have no more neighbors",
        ),
        ENTRY_REMOVED.when("packets that waited for an address that a handler has removed"),
        NO_ADVERTISEMENT.when("packets that waited for an address, and nobody answered within `TIMEOUT`"),
        NOT_AN_ADVERTISEMENT.when("on input 1, anything else, and what is damaged or was forwarded"),
        drops::OUT_OF_MEMORY
            .when("there was no buffer for a solicitation, or for a packet without room for the header"),
    ];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/ip6ndsolicitor");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ip = args.mp("IP")?;
        let lang::args::EtherAddr(mac) = args.mp("ETH")?;
        let timeout = args.k::<Duration>("TIMEOUT")?.map_or(120_000_000_000, text::nanos);
        let poll = args.k::<Duration>("POLL_TIMEOUT")?.map_or(60_000_000_000, text::nanos);
        let (one, rate) = if cx.as_click() { (1, 0) } else { (32, RATE) };
        let limits = Limits {
            packets: args.k::<u32>("CAPACITY")?.unwrap_or(2048) as usize,
            per_entry: args.k::<u32>("ENTRY_PACKET_CAPACITY")?.unwrap_or(one).max(1) as usize,
            entries: args.k::<u32>("ENTRY_CAPACITY")?.unwrap_or(0) as usize,
            timeout_ns: timeout,
            forgets: true,
            slim: 0,
            unrequested: false,
            keeps_oldest: false,
        };
        let limit = Bucket::lasting(args.k("RATE")?.unwrap_or(rate), BURST_MS, cx);
        cx.holds_together(limits.packets);
        let budget = Arc::clone(&cx.hub().bounds().neighbors);
        Ok(Self {
            ip,
            mac: EtherAddr(mac),
            table: cx.shared(|| Neighbors::new(limits).limited(&budget)),
            cache: Cache::default(),
            now_ns: 0,
            poll_ns: if poll == 0 { u64::MAX } else { poll },
            limit,
            queries: Counter::new(),
            responses: Counter::new(),
            killed: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Neighbors<Ipv6Addr>>("table", |t, _| {
            Ok(t.rows().iter().fold(String::new(), |mut text, (ip, mac)| {
                let _ = writeln!(text, "{ip} {} {}", u8::from(mac.is_some()), mac.unwrap_or(EtherAddr::ZERO));
                text
            }))
        });
        h.read("stats", |e| {
            let (killed, queries) = (e.killed.get(), e.queries.get());
            format!("{killed} packets killed\n{queries} ND Solicitation Message sent\n")
        });
        h.counter("queries", |e| &e.queries);
        h.counter("responses", |e| &e.responses);
        h.counter("drops", |e| &e.killed);
        h.shared_read::<Neighbors<Ipv6Addr>>("count", |t, _| Ok(t.len().to_string()));
        h.shared_read::<Neighbors<Ipv6Addr>>("length", |t, _| Ok(t.waiting().to_string()));
        h.write("insert", |e, v, cx| {
            let both = v.trim().split_once(char::is_whitespace);
            let both =
                both.and_then(|(ip, mac)| Some((text::read(ip).ok()?, text::read::<EtherArg>(mac).ok()?.0)));
            let (ip, mac): (Ipv6Addr, _) = both.ok_or("expected 'IP ETH'")?;
            let mac = EtherAddr(mac);
            let most =
                |over: runtime::Over| format!("too many neighbors: the limit neighbors is {}", over.most);
            let (waited, lost) = e.table.insert(ip, mac, cx.now_ns()).map_err(most)?;
            waited.into_iter().for_each(|packet| e.send(packet, mac, cx));
            e.kill(lost, TOO_MANY_WAIT, cx);
            Ok(())
        });
        h.write("delete", |e, v, cx| {
            let ip = text::value(v, "expected IPv6 address")?;
            e.kill(e.table.remove(ip), ENTRY_REMOVED, cx);
            Ok(())
        });
        h.write("clear", |e, _, cx| {
            e.kill(e.table.clear(), ENTRY_REMOVED, cx);
            Ok(())
        });
        h.listed(&["table", "stats"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.watch(cx);
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        self.kill(self.table.expire(cx.now_ns()), NO_ADVERTISEMENT, cx);
        self.watch(cx);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.queries.set(old.queries.get());
        self.responses.set(old.responses.get());
        self.killed.set(old.killed.get());
        if !Arc::ptr_eq(&self.table, &old.table) && cx.worker().0 == 0 {
            self.kill(self.table.adopt(&old.table, cx.now_ns()), ENTRY_REMOVED, cx);
        }
    }
}

impl Step for IP6NDSolicitor {
    #[inline]
    fn ready(&mut self, cx: &mut Cx<'_>) {
        self.now_ns = cx.run_ns();
        self.cache.check(&self.table);
    }
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        match self.cache.get(dst_ip6(packet), self.now_ns) {
            Some(address) => packet.push_link_header(self.header(address).bytes()),
            None => false,
        }
    }
}

impl Vector for IP6NDSolicitor {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.ready(cx);
        let now = self.now_ns;
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
    use crate::ip6::engine::discovery::{Solicitation, sample::advertisement};
    use crate::ip6::engine::header::sample::{a, ip6, marked};
    use crate::ip6::engine::header::set_dst_ip6;
    use crate::testing::Bench;
    use dpdk::Packet;
    use wire::{EtherAddr, Ethernet};

    const HOST: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 7]);
    const OTHER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 8]);

    fn to(address: &str, mark: u8) -> Packet {
        let mut packet = marked(&ip6(17, &[mark]));
        set_dst_ip6(&mut packet, a(address));
        packet
    }

    #[test]
    fn asks_and_sends_what_waited() {
        let mut b = Bench::with_ports("IP6NDSolicitor(fe80::1, 2:0:0:0:0:1)", 2, 2);
        let out = b.push_packet(0, to("2001:db8::aabb:ccdd", 1));
        assert_eq!((out.len(), out[0].0), (1, 1));
        let query = &out[0].1;
        assert_eq!(query[..12], [0x33, 0x33, 0xff, 0xbb, 0xcc, 0xdd, 2, 0, 0, 0, 0, 1]);
        assert_eq!(query[38..54], a("ff02::1:ffbb:ccdd").octets());
        assert_eq!(query[54..58][..2], [135, 0]);
        assert_eq!(query[78..], [1, 1, 2, 0, 0, 0, 0, 1]);
        let asked = Solicitation::parse(query).unwrap();
        assert_eq!((asked.src, asked.target), (a("fe80::1"), a("2001:db8::aabb:ccdd")));
        // The next one waits too, and is not asked for at once again.
        assert!(b.push_packet(0, to("2001:db8::aabb:ccdd", 2)).is_empty());
        assert_eq!(b.read("table"), "2001:db8::aabb:ccdd 0 00-00-00-00-00-00\n");
        let out = b.push(1, &advertisement(HOST, "2001:db8::aabb:ccdd", true));
        let marks: Vec<u8> = out.iter().map(|(_, f)| *f.last().unwrap()).collect();
        assert_eq!(marks, [1, 2]);
        let (eth, rest) = Ethernet::split(&out[0].1).unwrap();
        assert_eq!((eth.dst(), eth.ethertype(), rest), (HOST, 0x86dd, &ip6(17, &[1])[..]));
        assert_eq!(b.read("table"), "2001:db8::aabb:ccdd 1 02-00-00-00-00-07\n");
        assert_eq!(b.push_packet(0, to("2001:db8::aabb:ccdd", 3))[0].1[..6], HOST.octets());
        assert_eq!(b.read("stats"), "0 packets killed\n1 ND Solicitation Message sent\n");
    }

    #[test]
    fn believes_only_what_it_asked_for() {
        let mut b = Bench::with_ports("IP6NDSolicitor(fe80::1, 2:0:0:0:0:1)", 2, 2);
        assert!(b.push(1, &advertisement(HOST, "fe80::7", true)).is_empty());
        assert_eq!(b.read("count"), "0");
        b.push_packet(0, to("fe80::7", 1));
        let good = advertisement(HOST, "fe80::7", false);
        for at in (12..good.len()).filter(|at| !(15..18).contains(at)) {
            let mut bad = good.clone();
            bad[at] ^= 0x11;
            assert!(b.push(1, &bad).is_empty(), "{at}");
        }
        for cut in 0..good.len() {
            assert!(b.push(1, &good[..cut]).is_empty(), "{cut}");
        }
        assert_eq!(b.push(1, &good).len(), 1);
        // Another address replaces it only if it says so.
        b.push(1, &advertisement(OTHER, "fe80::7", false));
        assert_eq!(b.push_packet(0, to("fe80::7", 2))[0].1[..6], HOST.octets());
        b.push(1, &advertisement(OTHER, "fe80::7", true));
        assert_eq!(b.push_packet(0, to("fe80::7", 2))[0].1[..6], OTHER.octets());
    }

    #[test]
    fn groups_and_nothing_need_no_solicitation() {
        let mut b = Bench::with_ports("IP6NDSolicitor(fe80::1, 2:0:0:0:0:1)", 2, 2);
        let out = b.push_packet(0, to("ff02::1:2", 1));
        assert_eq!((out[0].0, &out[0].1[..6]), (0, &[0x33, 0x33, 0, 1, 0, 2][..]));
        assert!(b.push_packet(0, to("::", 1)).is_empty());
        assert_eq!(b.drops(), [("no next hop".to_owned(), 1)]);
    }

    #[test]
    fn a_scan_is_bounded() {
        let config = "e :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1, CAPACITY 10, RATE 100);";
        let mut b = Bench::simulated(config, 2, 2);
        b.write("insert", "2001:db8::5 2:0:0:0:0:5");
        let asked =
            (0..1000).filter(|i| !b.push_packet(0, to(&format!("2001:db8::1:{i:x}"), 1)).is_empty()).count();
        // As many as follow each other at once.
        assert_eq!((asked, b.read("length"), b.read("count")), (5, "10".into(), "11".into()));
        assert_eq!(b.drops(), [("too many packets wait for neighbors".to_owned(), 990)]);
        assert_eq!(b.push_packet(0, to("2001:db8::5", 1))[0].1[..6], [2, 0, 0, 0, 0, 5]);
        b.write("clear", "");
        assert_eq!((b.read("count"), b.read("length")), ("0".into(), "0".into()));
    }

    #[test]
    fn entries_expire() {
        let config = "e :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1, TIMEOUT 5s);";
        let mut b = Bench::simulated(config, 2, 2);
        b.write("insert", "fe80::5 2:0:0:0:0:5");
        b.push_packet(0, to("fe80::6", 1));
        assert_eq!(b.read("count"), "2");
        b.turns(20);
        assert_eq!((b.read("count"), b.read("drops")), ("0".into(), "1".into()));
        assert_eq!(b.drops(), [("no neighbor advertisement".to_owned(), 1)]);
        b.push_packet(0, to("fe80::6", 1));
        b.write("delete", "fe80::6");
        assert!(b.drops().contains(&("neighbor removed".to_owned(), 1)));
    }
}
