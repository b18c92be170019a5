//! # AggregateIPFlows
//! Sets the aggregate annotation to the number of the packet's TCP or UDP flow.
//!
//! Flows are told apart by both addresses, both ports and the protocol. They are numbered from 1 in the order
//! in which they begin. The paint annotation is 0 for packets in the direction of a flow's first packet and 1
//! for replies. A flow that has ended because no packet came for its timeout, or because it was closed and is
//! opened again, gets a new number for its next packet.
//!
//! Time is that of the packets' timestamps; a packet without one gets the current time.
//!
//! ## Synopsis
//! `AggregateIPFlows([TRACEINFO, SOURCE, TCP_TIMEOUT, TCP_DONE_TIMEOUT, UDP_TIMEOUT, FRAGMENT_TIMEOUT, REAP, ICMP, FRAGMENTS, CAPACITY])`
//!
//! ## Arguments
//! All by keyword.
//! - `TRACEINFO` (*filename*): where each flow is noted when it has ended, in XML; `-` is standard output. A
//!   hot swap in which the element keeps its name and the file goes on with it; otherwise the file ends.
//! - `SOURCE` (*element*): its handlers `filename` and `packet_filepos` are noted there.
//! - `TCP_TIMEOUT` (*time*, default 24 h): for open TCP connections.
//! - `TCP_DONE_TIMEOUT` (*time*, default 30 s): for connections that were closed by both sides, or reset.
//! - `UDP_TIMEOUT` (*time*, default 60 s): for UDP.
//! - `FRAGMENT_TIMEOUT` (*time*, default 30 s): how long fragments wait.
//! - `REAP` (*time*, default 20 min): how often ended flows are removed.
//! - `ICMP` (*bool*, default false): whether an ICMP error gets the number of the packet that it quotes, and
//!   its color plus 2.
//! - `FRAGMENTS` (*bool*, default true if packets are pushed): whether later fragments get numbers too.
//! - `CAPACITY` (*int*, default 1048576): the most flows. When there is one more, the one that had no packet
//!   for the longest time has ended. Click has no limit.
//!
//! ## Ports
//! One agnostic input. Packets of flows leave by output 0, agnostic; all others, such as those that are too
//! short to have ports, by output 1, push, if it is connected.
//!
//! A fragment waits until a packet of the same pair of addresses and protocol comes that is no fragment and
//! before which none waits, or until its time is over; all packets of the pair wait behind it, so that their
//! order is kept. It then gets the number of the fragment with the same identification that has the ports; if
//! that has not come, it leaves by output 1. At most 1024 packets wait; when there is one more, the first of
//! its pair goes on.
//!
//! ## Handlers
//! - `clear` (write): ends all flows, and lets out what waits.
//!
//! ## Threads
//! One instance, on one worker, to which the others hand their packets: numbers follow the order of packets.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true)
//!   -> af :: AggregateIPFlows -> AggregateCounter -> Discard;
//! DriverManager(wait, write af.clear);
//! ```
//!
//! ## See also
//! AggregateIP, AggregateIPAddrPair, AggregateFirst, AggregateLast, AggregateCounter, DriverManager

use super::engine::flows::{Ended, Flows, Key, Seen, Timeouts};
use super::engine::notifier::Notifier;
use super::engine::traceinfo::TraceInfo;
use crate::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const NO_FLOW: DropReason = DropReason::new("not TCP or UDP, or no ports");
const NO_PORTS_FOUND: DropReason = DropReason::new("fragment whose ports did not come");

/// The most packets that wait for fragments.
const MOST_WAITING: usize = 1024;
const SECOND: u64 = 1_000_000_000;

/// A protocol and two addresses.
type Pair = (u8, u32, u32);

/// A packet that waits. Its annotations have the number of its flow if that is known, and 0 otherwise.
struct Waiting {
    packet: Packet,
    seen: Seen,
    key: Key,
    /// Its number among those that have waited.
    number: u64,
}

/// The `AggregateIPFlows` element.
pub struct AggregateIpFlows {
    flows: Flows,
    /// By protocol and addresses.
    waiting: HashMap<Pair, VecDeque<Waiting>>,
    n_waiting: usize,
    /// The packets that wait, by number and pair, in the order in which they came; also some that have gone.
    order: VecDeque<(u64, Pair)>,
    newest: u64,
    /// The second at which packets that had waited too long were let go.
    looked: u64,
    notifier: Arc<Notifier>,
    trace: Option<TraceInfo>,
    icmp: bool,
    fragments: Option<bool>,
    fragment_timeout: u64,
    reap: u64,
    /// The time of the last packet and when ended flows are removed, in seconds.
    active: u64,
    reap_at: u64,
    warned: bool,
    ended: Ended,
    numbers: Vec<u32>,
}

impl Element for AggregateIpFlows {
    const CLASS: &'static str = "AggregateIPFlows";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::TIMESTAMP);
    const WRITES: Fields = Fields::AGGREGATE.with(Fields::PAINT).with(Fields::TIMESTAMP);
    const SETS: Fields = Fields::AGGREGATE.with(Fields::PAINT);
    const DROPS: &'static [DropCase] = &[
        NO_FLOW.when("it belongs to no flow, or is a later fragment without `FRAGMENTS`, and output 1 is not connected"),
        NO_PORTS_FOUND.when("the first fragment did not come in time, and output 1 is not connected"),
    ];
    const OPENS: Option<Opens> = Some(Opens::AnyFile);
    const MANUAL: &'static str = manual!("analysis/aggregateipflows");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let mut seconds = |name: &str, default: u64| {
            args.k_or(name, Duration::from_secs(default)).map(|time: Duration| time.as_secs())
        };
        let timeouts = Timeouts {
            tcp: seconds("TCP_TIMEOUT", 24 * 3600)?,
            tcp_done: seconds("TCP_DONE_TIMEOUT", 30)?,
            udp: seconds("UDP_TIMEOUT", 60)?,
        };
        let (fragment_timeout, reap) = (seconds("FRAGMENT_TIMEOUT", 30)?, seconds("REAP", 20 * 60)?);
        let (icmp, fragments) = (args.k_or("ICMP", false)?, args.k("FRAGMENTS")?);
        let trace = TraceInfo::from_args(args, cx)?;
        let capacity = args.k_or("CAPACITY", 1u32 << 20)?.max(1) as usize;
        cx.holds(MOST_WAITING);
        Ok(Self {
            flows: Flows::new(capacity, timeouts),
            waiting: HashMap::new(),
            n_waiting: 0,
            order: VecDeque::new(),
            newest: 0,
            looked: 0,
            notifier: cx.shared(Notifier::default),
            trace,
            icmp,
            fragments,
            fragment_timeout,
            reap,
            active: 0,
            reap_at: 0,
            warned: false,
            ended: Vec::new(),
            numbers: Vec::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.write("clear", |e, _, cx| {
            e.reap(None, cx);
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.fragments == Some(true) && cx.input_is_pull(0) {
            return Err(
                "'FRAGMENTS true' is incompatible with pull; run this element in a push context".to_owned()
            );
        }
        self.fragments = Some(self.fragments.unwrap_or(!cx.input_is_pull(0)));
        self.trace.as_mut().map_or(Ok(()), |trace| trace.open(Self::CLASS, cx))
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) {
        if let Some(trace) = &mut self.trace {
            self.flows.reap(None, |_| false, &mut self.ended);
            self.ended.drain(..).for_each(|(key, flow)| trace.note(&key, &flow));
            trace.finish();
        }
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.flows.take(&mut old.flows);
        self.waiting = std::mem::take(&mut old.waiting);
        self.order = std::mem::take(&mut old.order);
        (self.newest, self.looked) = (old.newest, old.looked);
        (self.n_waiting, self.active, self.reap_at) = (old.n_waiting, old.active, old.reap_at);
    }
}

impl AggregateIpFlows {
    /// Tells whoever wants to know which flows have ended.
    fn tell(&mut self, cx: &mut Cx<'_>) {
        for (key, flow) in self.ended.drain(..) {
            self.numbers.push(flow.aggregate);
            if let Some(trace) = &self.trace {
                trace.note(&key, &flow);
            }
        }
        self.notifier.tell(&mut self.numbers, cx);
    }

    /// Handles a packet, and returns it if it can leave by output 0 now.
    fn handle(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if packet.timestamp_ns() == 0 {
            if !std::mem::replace(&mut self.warned, true) {
                let text = format!("{}: warning: packet received without timestamp", cx.name());
                cx.log(Level::WARN, &text);
            }
            packet.set_timestamp_ns(cx.now_ns());
        }
        let now_ns = packet.timestamp_ns();
        let fragments = self.fragments == Some(true);
        let seen = Seen::of(&packet, self.icmp);
        let Some(seen) = seen.filter(|seen| seen.first_fragment || fragments) else {
            cx.fail(packet, NO_FLOW);
            return None;
        };
        let (mut aggregate, mut color) = (0, 0);
        if seen.first_fragment
            && let Some((flow, new)) = self.flows.find(&seen, now_ns, &mut self.ended)
        {
            (aggregate, color) = Flows::mark(flow, &seen);
            if new && let Some(trace) = &self.trace {
                flow.position = trace.position(cx);
            }
        }
        packet.set_aggregate(aggregate);
        packet.set_paint(color);
        self.active = now_ns / SECOND;
        if (fragments && seen.fragment) || self.waiting.contains_key(&seen.pair()) {
            self.newest += 1;
            self.wait(Waiting { packet, seen, key: seen.key, number: self.newest }, cx);
            return None;
        }
        self.flows.pass(&seen.key, &seen, color, now_ns);
        Some(packet)
    }

    /// Makes a packet wait behind others of its pair.
    fn wait(&mut self, new: Waiting, cx: &mut Cx<'_>) {
        let pair = new.seen.pair();
        self.order.push_back((new.number, pair));
        self.waiting.entry(pair).or_default().push_back(new);
        self.n_waiting += 1;
        if self.n_waiting > MOST_WAITING
            && let Some(oldest) = self.oldest()
        {
            self.release_first(oldest, cx);
            self.release(oldest, Some(self.active), cx);
        }
        self.release(pair, Some(self.active), cx);
        if self.order.len() > 2 * MOST_WAITING {
            let waiting = &self.waiting;
            self.order.retain(|(number, pair)| {
                waiting.get(pair).and_then(VecDeque::front).is_some_and(|head| *number >= head.number)
            });
        }
    }

    /// The pair of the packet that has waited longest, which is the first of its pair.
    fn oldest(&mut self) -> Option<Pair> {
        while let Some((number, pair)) = self.order.front() {
            if self.waiting.get(pair).and_then(VecDeque::front).is_some_and(|head| head.number == *number) {
                return Some(*pair);
            }
            self.order.pop_front();
        }
        None
    }

    /// Lets packets of all pairs go that have waited too long.
    #[cold]
    fn expire(&mut self, cx: &mut Cx<'_>) {
        self.looked = self.active;
        while let Some(pair) = self.oldest() {
            let before = self.n_waiting;
            self.release(pair, Some(self.active), cx);
            if self.n_waiting == before {
                break;
            }
        }
    }

    /// Lets the packets at the head of a pair go that wait for nothing: those that are no fragments, and
    /// those whose time is over at this second, or all without one.
    fn release(&mut self, pair: Pair, now: Option<u64>, cx: &mut Cx<'_>) {
        let old = |head: &Waiting, timeout: u64| {
            !head.seen.fragment || now.is_none_or(|now| head.packet.timestamp_ns() / SECOND + timeout < now)
        };
        while self.waiting.get(&pair).and_then(VecDeque::front).is_some_and(|h| old(h, self.fragment_timeout))
        {
            self.release_first(pair, cx);
        }
    }

    /// Lets the first packet of a pair go.
    fn release_first(&mut self, pair: Pair, cx: &mut Cx<'_>) {
        let Some(queue) = self.waiting.get_mut(&pair) else { return };
        let Some(mut head) = queue.pop_front() else { return };
        self.n_waiting -= 1;
        let same = |other: &&mut Waiting| other.seen.fragment && other.seen.id == head.seen.id;
        if head.packet.aggregate() == 0 {
            if let Some(first) = queue.iter_mut().filter(same).find(|other| other.packet.aggregate() != 0) {
                head.packet.set_aggregate(first.packet.aggregate());
                head.packet.set_paint(first.packet.paint());
                head.key = first.key;
            }
        } else if head.seen.fragment {
            for later in queue.iter_mut().filter(same).filter(|other| other.packet.aggregate() == 0) {
                later.packet.set_aggregate(head.packet.aggregate());
                later.packet.set_paint(head.packet.paint());
                later.key = head.key;
            }
        }
        if queue.is_empty() {
            self.waiting.remove(&pair);
        }
        if head.packet.aggregate() == 0 {
            return cx.fail(head.packet, NO_PORTS_FOUND);
        }
        self.flows.pass(&head.key, &head.seen, head.packet.paint(), head.packet.timestamp_ns());
        cx.output(0, head.packet);
    }

    /// Removes flows whose time is over at this second, or all without one; fragments likewise.
    fn reap(&mut self, now: Option<u64>, cx: &mut Cx<'_>) {
        let mut pairs: Vec<_> = self.waiting.keys().copied().collect();
        pairs.sort_unstable();
        for pair in pairs {
            self.release(pair, now, cx);
        }
        let waiting = &self.waiting;
        let stay = |key: &Key| waiting.contains_key(&(key.protocol, key.low, key.high));
        self.flows.reap(now.map(|now| now * SECOND), stay, &mut self.ended);
        self.tell(cx);
    }

    fn each(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.handle(packet, cx);
        if self.n_waiting > 0 && self.active != self.looked {
            self.expire(cx);
        }
        if self.active >= self.reap_at {
            if self.reap_at > 0 {
                self.reap(Some(self.active), cx);
            }
            self.reap_at = self.active + self.reap;
        }
        if !self.ended.is_empty() {
            self.tell(cx);
        }
        packet
    }
}

impl Vector for AggregateIpFlows {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            if let Some(packet) = self.each(packet, cx) {
                cx.output(0, packet);
            }
        }
        cx.recycle(batch);
    }

    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut batch = cx.spare_batch();
        cx.pull_lending(self, 0, max, &mut batch);
        for packet in batch.drain(..) {
            if let Some(packet) = self.each(packet, cx) {
                out.push(packet);
            }
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::engine::header::sample::{ip, ip_with, marked};
    use crate::testing::Bench;
    use std::net::Ipv4Addr;
    use wire::Ipv4;

    /// A packet from `src` to `dst` (the last bytes of their addresses) at a second.
    fn packet(protocol: u8, src: (u8, u16), dst: (u8, u16), flags: u8, second: u64) -> Packet {
        let mut transport = vec![0; 20];
        transport[..2].copy_from_slice(&src.1.to_be_bytes());
        transport[2..4].copy_from_slice(&dst.1.to_be_bytes());
        (transport[12], transport[13]) = (0x50, flags);
        let mut bytes = ip(protocol, &transport);
        let mut header = Ipv4::new_mut(&mut bytes).unwrap();
        header.set_src(Ipv4Addr::new(10, 0, 0, src.0));
        header.set_dst(Ipv4Addr::new(10, 0, 0, dst.0));
        at(marked(&bytes), second)
    }

    fn at(mut packet: Packet, second: u64) -> Packet {
        packet.set_timestamp_ns(second * SECOND);
        packet
    }

    /// The aggregates and colors of what leaves by output 0.
    fn send(bench: &mut Bench, packet: Packet) -> Vec<(u32, u8)> {
        let out = bench.send(0, packet);
        out.iter().filter(|(port, _)| *port == 0).map(|(_, p)| (p.aggregate(), p.paint())).collect()
    }

    #[test]
    fn numbers_flows_and_tells_directions_apart() {
        let mut bench = Bench::with_ports("AggregateIPFlows()", 1, 2);
        let (a, b) = ((1, 1000), (2, 80));
        assert_eq!(send(&mut bench, packet(6, b, a, 2, 100)), [(1, 0)]);
        assert_eq!(send(&mut bench, packet(6, a, b, 18, 100)), [(1, 1)]);
        assert_eq!(send(&mut bench, packet(17, a, b, 0, 100)), [(2, 0)]);
        assert_eq!(send(&mut bench, packet(6, (1, 1001), b, 2, 101)), [(3, 0)]);
        assert_eq!(send(&mut bench, packet(6, (1, 5), (1, 4), 2, 101)), [(4, 0)]);
        assert_eq!(send(&mut bench, packet(6, (1, 4), (1, 5), 2, 101)), [(4, 1)]);
        assert_eq!(bench.send(0, packet(1, a, b, 0, 102))[0].0, 1);
        assert_eq!(bench.send(0, at(marked(&ip(17, &[1, 2, 3])), 102))[0].0, 1);
    }

    #[test]
    fn flows_end() {
        let mut bench = Bench::with_ports("AggregateIPFlows(TCP_TIMEOUT 500)", 1, 1);
        let (a, b) = ((1, 1000), (2, 80));
        assert_eq!(send(&mut bench, packet(17, a, b, 0, 100)), [(1, 0)]);
        assert_eq!(send(&mut bench, packet(17, b, a, 0, 160)), [(1, 1)]);
        // Then 61 seconds without a packet.
        assert_eq!(send(&mut bench, packet(17, b, a, 0, 221)), [(2, 0)]);
        assert_eq!(send(&mut bench, packet(6, a, b, 2, 221)), [(3, 0)]);
        assert_eq!(send(&mut bench, packet(6, a, b, 16, 721)), [(3, 0)]);
        // Closed by both sides, it lives for 30 seconds.
        assert_eq!(send(&mut bench, packet(6, a, b, 17, 722)), [(3, 0)]);
        assert_eq!(send(&mut bench, packet(6, b, a, 17, 722)), [(3, 1)]);
        assert_eq!(send(&mut bench, packet(6, a, b, 16, 752)), [(3, 0)]);
        assert_eq!(send(&mut bench, packet(6, a, b, 2, 753)), [(4, 0)], "it is opened again");
        assert_eq!(send(&mut bench, packet(6, a, b, 4, 753)), [(4, 0)]);
        assert_eq!(send(&mut bench, packet(6, b, a, 16, 784)), [(5, 0)], "it was reset 31 seconds ago");
        bench.write("clear", "");
        assert_eq!(send(&mut bench, packet(6, b, a, 16, 785)), [(6, 0)]);
    }

    #[test]
    fn icmp_errors_belong_to_the_flow_that_they_quote() {
        let mut bench = Bench::with_ports("AggregateIPFlows(ICMP true)", 1, 2);
        let (a, b) = ((1, 1000), (2, 80));
        let sent = packet(17, a, b, 0, 1);
        let quoted = [&[3, 3, 0, 0, 0, 0, 0, 0], sent.data()].concat();
        assert_eq!(send(&mut bench, sent), [(1, 0)]);
        assert_eq!(send(&mut bench, at(marked(&ip(1, &quoted)), 1)), [(1, 2)]);
        for cut in 0..quoted.len().min(32) {
            let out = bench.send(0, at(marked(&ip(1, &quoted[..cut])), 1));
            assert_eq!(out[0].0, 1, "{cut} bytes");
        }
        let echo = [&[8, 0, 0, 0, 0, 0, 0, 0], &quoted[8..]].concat();
        assert_eq!(bench.send(0, at(marked(&ip(1, &echo)), 1))[0].0, 1);
    }

    /// A fragment of a UDP packet from 10.0.0.1 to 10.0.0.2.
    fn fragment(id: u16, flags_offset: u16, second: u64) -> Packet {
        let bytes = ip_with(&[], &[0, 9, 0, 7, 0, 16, 0, 0], |h| {
            h.set_id(id);
            h.set_flags_fragment(flags_offset);
        });
        at(marked(&bytes), second)
    }

    #[test]
    fn fragments_wait_for_their_ports() {
        let mut bench = Bench::with_ports("AggregateIPFlows()", 1, 2);
        assert!(send(&mut bench, fragment(5, 1, 10)).is_empty(), "the second fragment");
        assert!(send(&mut bench, fragment(6, 2, 10)).is_empty(), "one of another packet");
        assert!(send(&mut bench, fragment(5, 0x2000, 11)).is_empty(), "the first");
        assert!(send(&mut bench, packet(17, (1, 9), (2, 7), 0, 12)).is_empty(), "their order is kept");
        // Packets of other pairs do not wait.
        assert_eq!(send(&mut bench, packet(17, (1, 9), (3, 7), 0, 12)), [(2, 0)]);
        let out = bench.send(0, fragment(9, 1, 42));
        let facts: Vec<_> = out.iter().map(|(port, p)| (*port, p.aggregate(), p.paint())).collect();
        assert_eq!(facts, [(0, 1, 0), (1, 0, 0), (0, 1, 0), (0, 1, 0)]);
        bench.write("clear", "");
        assert_eq!(bench.take().iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn only_so_many_fragments_wait() {
        let mut bench = Bench::with_ports("AggregateIPFlows()", 1, 1);
        for n in 0..MOST_WAITING + 10 {
            assert!(send(&mut bench, fragment(n as u16, 1, 10)).is_empty());
        }
        assert_eq!(bench.drops(), [("fragment whose ports did not come".to_owned(), 10)]);
        let mut bench = Bench::with_ports("AggregateIPFlows(FRAGMENTS false)", 1, 1);
        assert!(send(&mut bench, fragment(1, 1, 10)).is_empty());
        assert_eq!(send(&mut bench, fragment(1, 0x2000, 10)), [(1, 0)]);
        assert_eq!(bench.drops(), [("not TCP or UDP, or no ports".to_owned(), 1)]);
    }

    #[test]
    fn fragments_of_others_do_not_keep_the_places() {
        /// A later fragment from 10.0.x.y.
        fn from(number: u16, second: u64) -> Packet {
            let bytes = ip_with(&[], &[0; 8], |h| {
                h.set_src(Ipv4Addr::from_bits(0x0a00_0000 | u32::from(number)));
                h.set_flags_fragment(1);
            });
            at(marked(&bytes), second)
        }
        let mut bench = Bench::with_ports("AggregateIPFlows()", 1, 2);
        for number in 0..MOST_WAITING as u16 {
            assert!(bench.send(0, from(number, 10)).is_empty());
        }
        // One more: the oldest goes, and a packet whose fragments both come is put together.
        assert_eq!(bench.send(0, fragment(5, 1, 11)).iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1]);
        assert_eq!(bench.send(0, fragment(5, 0x2000, 11)).len(), 1);
        // Any packet, of any pair, ends the waiting of all that are too old, in their order.
        let out = bench.send(0, packet(17, (7, 9), (8, 7), 0, 42));
        let lost = out.iter().filter(|(port, _)| *port == 1).count();
        assert_eq!((lost, out.len()), (MOST_WAITING - 2, MOST_WAITING + 1));
        assert!(out.iter().filter(|(port, p)| *port == 0 && p.aggregate() != 0).count() == 3);
    }

    #[test]
    fn the_number_of_flows_is_limited() {
        let mut bench = Bench::with_ports("AggregateIPFlows(CAPACITY 2)", 1, 1);
        for (port, number) in [(1, 1), (2, 2), (1, 1), (3, 3), (1, 1), (2, 4)] {
            assert_eq!(send(&mut bench, packet(17, (1, port), (2, 80), 0, 10)), [(number, 0)]);
        }
    }

    #[test]
    fn listeners_hear_of_the_end() {
        let config =
            "e :: AggregateIPFlows(UDP_TIMEOUT 5) -> last :: AggregateLast(NOTIFIER e) -> out :: Queue;
            last [1] -> Discard; out -> Idle;";
        let mut bench = Bench::with_config(config, 1, 0);
        for second in [1, 2, 3] {
            bench.send(0, packet(17, (1, 9), (2, 80), 0, second));
        }
        assert_eq!(bench.read("out.length"), "0");
        bench.send(0, packet(17, (1, 9), (2, 80), 0, 9));
        assert_eq!(bench.read("out.length"), "1");
        bench.write("clear", "");
        assert_eq!(bench.read("out.length"), "2");
    }

    #[test]
    fn ended_flows_are_noted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flows.xml");
        let config = format!("e :: AggregateIPFlows(TRACEINFO {});", path.display());
        let mut bench = Bench::with_config(&config, 1, 1);
        let (a, b) = ((1, 1000), (2, 80));
        for packet in [packet(17, b, a, 0, 1), packet(17, a, b, 0, 2), packet(17, a, b, 0, 4)] {
            bench.send(0, packet);
        }
        bench.router().wind_up();
        let expected = "<?xml version='1.0' standalone='yes'?>\n<trace>\n\
            <flow aggregate='1' src='10.0.0.2' sport='80' dst='10.0.0.1' dport='1000' \
            begin='1.000000' duration='3.000000'>\n  \
            <stream dir='0' packets='1' /><stream dir='1' packets='2' />\n</flow>\n</trace>\n";
        assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
    }

    /// A hot swap goes on with the file; one to another file ends it.
    #[test]
    fn swaps_keep_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name).display().to_string());
        let config = |path: &str, arguments: &str, other: &str| {
            format!("{other} e :: AggregateIPFlows(TRACEINFO {path}{arguments});")
        };
        let mut bench = Bench::with_config(&config(&one, "", ""), 1, 1);
        let (a, b) = ((1, 1000), (2, 80));
        for second in [1, 100, 200] {
            bench.send(0, packet(17, a, b, 0, second));
        }
        let ends = "InfiniteSource(ACTIVE false) -> e -> Discard;";
        let mut swap = |path: &str, arguments: &str, other: &str| {
            let text = config(path, arguments, other) + ends;
            bench.router().hotswap(lang::Source::new("next", text)).unwrap();
        };
        swap(&one, "", "Idle -> Discard;");
        swap(&one, ", REAP 5", "");
        swap(&two, "", "");
        let first = std::fs::read_to_string(&one).unwrap();
        assert_eq!(first.matches("<flow ").count(), 2, "{first}");
        assert!(first.starts_with("<?xml") && first.ends_with("</flow>\n</trace>\n"), "{first}");
        bench.router().wind_up();
        let second = std::fs::read_to_string(&two).unwrap();
        assert!(
            second.contains("<trace>\n<flow aggregate='3' ") && second.ends_with("</trace>\n"),
            "{second}"
        );
        assert_eq!(std::fs::read_to_string(&one).unwrap(), first);
    }

    #[test]
    fn pull_has_no_fragments() {
        let message = Bench::error("AggregateIPFlows(REAP x)");
        assert!(message.contains("REAP"), "{message}");
        let config = "Idle -> Queue -> e :: AggregateIPFlows(FRAGMENTS true) -> Unqueue -> Discard;";
        let options = runtime::Options::default();
        let source = lang::Source::new("t", config);
        let registry = std::sync::Arc::new(crate::registry());
        let failed = runtime::Router::new(&[source], lang::LoadOptions::default(), registry, options);
        let message = failed.map(drop).map_err(|d| d.render_plain(d.sources())).unwrap_err();
        assert!(message.contains("'FRAGMENTS true' is incompatible with pull"), "{message}");
    }
}
