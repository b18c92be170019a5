//! # IPRewriter
//! Rewrites the addresses and ports of TCP and UDP packets: NAT44, port forwarding, load balancing.
//!
//! ## Synopsis
//! `IPRewriter(INPUTSPEC1, ..., INPUTSPECn [, MAPPING_CAPACITY, TCP_TIMEOUT, TCP_DONE_TIMEOUT,
//! TCP_NODATA_TIMEOUT, TCP_GUARANTEE, UDP_TIMEOUT, UDP_STREAMING_TIMEOUT, UDP_GUARANTEE, REAP_INTERVAL,
//! DST_ANNO])`
//!
//! `TCPRewriter` is the same for TCP alone, where the keyword `TIMEOUT` is another name of `TCP_TIMEOUT`.
//! `UDPRewriter` has the keywords `TIMEOUT`, `STREAMING_TIMEOUT` and `GUARANTEE` instead of those for TCP and
//! UDP; it treats packets of both protocols alike, as UDP. `ICMPPingRewriter` has these keywords too, and
//! does the same for ICMP echo requests and replies, whose identifiers take the place of the source port in a
//! request and of the destination port in a reply.
//!
//! ## Arguments
//! - `INPUTSPEC` (*text*, one for each input): what is done with a packet that belongs to no flow yet:
//!   - `drop` or `discard`: it is dropped.
//!   - `pass OUTPUT`, also `passthrough` or `nochange` (output 0 if none is given): it is sent on as it is.
//!   - `keep FOUTPUT ROUTPUT`: a flow is made that changes nothing. Its packets go to `FOUTPUT`, replies to
//!     `ROUTPUT`.
//!   - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: a flow is made whose packets get these addresses
//!     and ports; `-` leaves a part as it is. `SPORT` may be a range `L-H`, from which a port is taken such
//!     that no two flows have the same replies: the packet's own port if it is free, else one at random. With
//!     `L-H#` the ports are taken in turn, with `L-H?` always at random. `SADDR` may be a range `A-B` or a
//!     network `A/LEN` in the same way, instead of `SPORT`. Replies get the addresses and ports that the flow
//!     had.
//!   - `pattern NAME FOUTPUT ROUTPUT`: the pattern has this name in an IPRewriterPatterns element.
//!   - `ELEMENT`: this element, such as a RoundRobinIPMapper, chooses a pattern for each flow.
//! - `MAPPING_CAPACITY` (*int*, keyword, also `CAPACITY`; default 4,194,304, at most 16,777,216): how many
//!   flows there may be. For a new flow beyond that, one that is not guaranteed any more is removed: of about
//!   fifty flows the one with the least time left. If there is none, the new flow's packet is dropped.
//! - `TCP_TIMEOUT` (*time*, keyword, default 24 h): how long a TCP flow is kept after its last packet, if
//!   there has been data in both directions.
//! - `TCP_DONE_TIMEOUT` (*time*, keyword, default 4 min): the same after FIN in both directions, or RST.
//! - `TCP_NODATA_TIMEOUT` (*time*, keyword, default 5 min): the same for other TCP flows.
//! - `UDP_TIMEOUT` (*time*, keyword, default 5 min): the same for UDP.
//! - `UDP_STREAMING_TIMEOUT` (*time*, keyword, default `UDP_TIMEOUT`): the same for UDP flows of three and
//!   more packets, one of them a reply.
//! - `TCP_GUARANTEE`, `UDP_GUARANTEE` (*time*, keyword, default 5 s): how long after its last packet a flow
//!   is not removed for a new one.
//! - `REAP_INTERVAL` (*time*, keyword, default 15 min): how often all flows are looked over, at least; they
//!   are looked over four times within the shortest of the times above, at least once a minute.
//! - `DST_ANNO` (*bool*, keyword, default true): whether the destination annotation becomes the new
//!   destination.
//!
//! Times are precise to a second or, if they are shorter than four, to a quarter of a second; at most 47
//! days, and never less than the guarantee. Checksums are adjusted, not computed anew (RFC 1624), so that a
//! wrong one stays wrong. Fragments but the first, packets with less than 8 bytes after the IP header and
//! other protocols are dropped, unless the input has `pass`. Of a large range of ports, 512 are tried for a
//! flow; if none is free, packets of new flows to the same address and port are dropped for a quarter of a
//! second. A pattern without a range gives the replies of an older flow to a newer one that would have the
//! same; the older one ends. Mappings depend on the address and port of the other side as well (RFC 4787:
//! address and port-dependent mapping and filtering), as in Click.
//!
//! ## Ports
//! As many push inputs as there are INPUTSPECs, any number of push outputs, up to 256 each. The IP header
//! must have been marked.
//!
//! ## Handlers
//! - `tcp_table`, `udp_table` (read; of the other two classes `table`): for each direction of each flow a
//!   line: `(SA, SP, DA, DP) => (SA', SP', DA', DP') [*F R] iINPUT expSECONDS`, where the star is at the
//!   output of this direction, and the flow is removed after so many seconds.
//! - `tcp_lookup`, `udp_lookup` (read, *SADDR SPORT DADDR DPORT*; of the other two classes `lookup`): what
//!   takes the place of these.
//! - `size` (read): how many flows there are.
//! - `nmappings`, `table_size` (read): the same.
//! - `mapping_failures` (read): flows that could not be made, as all ports were in use or the table was full.
//! - `patterns` (read): for each input a line with its pattern, and how many flows it has.
//! - `capacity` (read/write): the `MAPPING_CAPACITY` argument. Flows that are too many end when they would.
//! - `memory` (read): bytes of memory that the flows take.
//! - `clear` (write): removes all flows.
//!
//! ## Threads
//! All workers share one table: packets of a flow may arrive on any worker, replies on another one. Packets
//! of known flows take no lock. A packet of no flow takes the lock of a sixteenth of the table, or of two,
//! also if it is dropped or passed on, so that inputs with `pass` suit what is seldom. The table takes about
//! 150 bytes for a flow and grows as flows come. A hot swap keeps the flows, also with another configuration
//! string.
//!
//! ## Example
//! ```click
//! // Hosts in 10.0.0.0/8 share the address 192.0.2.1.
//! nat :: IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop);
//! InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(10.0.0.7, 5000, 198.51.100.9, 53) -> nat;
//! nat [0] -> IPPrint(out) -> IPMirror -> [1] nat;
//! nat [1] -> IPPrint(back) -> Discard;
//! ```
//!
//! ## See also
//! IPRewriterPatterns, RoundRobinIPMapper, MaglevIPMapper, CheckIPHeader

use super::engine::headers::{PING, Segment, TCP, UDP, key, ping_key, translate, translate_ping};
use super::engine::input::{Input, Known, SharedMapper, named};
use super::engine::translator::{
    Admitted, DONE, Shared, Timeouts, Translator, Why, counted, tcp_flags, time, units,
};
use crate::prelude::*;
use crate::splitter::Splitter;
use runtime::MAX_BATCH;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tables::flows::{Cursor, Flows, Found, Key, MOST_FLOWS, Places, Tuple};

const NO_MAPPING: DropReason = DropReason::new("no mapping");
const NO_PORT: DropReason = DropReason::new("no free address or port");
const TABLE_FULL: DropReason = DropReason::new("table of flows full");
const NOT_TRANSLATED: DropReason = DropReason::new("not to be translated");

/// Outputs that mean that a packet is dropped.
const DROP: usize = usize::MAX - 3;
const DROPPED: [DropReason; 4] = [NO_MAPPING, NO_PORT, TABLE_FULL, NOT_TRANSLATED];

const DEFAULT_CAPACITY: u32 = 1 << 22;
const MOST_PORTS: usize = 256;

/// The differences between the classes.
pub trait Variant: Send + 'static {
    /// The class name.
    const CLASS: &'static str;
    /// By what the flow of a packet is found; the kind is 0 if it is not translated.
    fn key(packet: &Packet) -> Key;
    /// Gives a packet other addresses and ports.
    #[inline(always)]
    fn translate(packet: &mut Packet, key: &Key, to: &Tuple) -> Segment {
        translate(packet, key, to)
    }
    /// The names of its keywords: for TCP, and for UDP.
    const KEYWORDS: Keywords;
    /// Its handlers.
    fn handlers(h: &mut Handlers<Rewriter<Self>>)
    where
        Self: Sized;
}

/// Which keywords a class has.
pub struct Keywords {
    tcp: bool,
    /// The timeouts of UDP, and the guarantee.
    udp: Option<[&'static str; 3]>,
    /// Whether `TIMEOUT` is `TCP_TIMEOUT`.
    short: bool,
}

/// `IPRewriter`.
pub struct Both;
/// `TCPRewriter`.
pub struct Tcp;
/// `UDPRewriter`.
pub struct Udp;
/// `ICMPPingRewriter`.
pub struct Ping;

const WITHOUT_CONNECTIONS: Keywords =
    Keywords { tcp: false, udp: Some(["TIMEOUT", "STREAMING_TIMEOUT", "GUARANTEE"]), short: false };

impl Variant for Both {
    const CLASS: &'static str = "IPRewriter";
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        key(packet)
    }
    const KEYWORDS: Keywords = Keywords {
        tcp: true,
        udp: Some(["UDP_TIMEOUT", "UDP_STREAMING_TIMEOUT", "UDP_GUARANTEE"]),
        short: false,
    };
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        h.shared_read::<Shared>("tcp_table", |s, _| Ok(s.made()?.table(|kind| kind == TCP)));
        h.shared_read::<Shared>("udp_table", |s, _| Ok(s.made()?.table(|kind| kind == UDP)));
        h.shared_read_with::<Shared>("tcp_lookup", |s, flow| s.made()?.look_up(flow, TCP));
        h.shared_read_with::<Shared>("udp_lookup", |s, flow| s.made()?.look_up(flow, UDP));
    }
}

impl Variant for Tcp {
    const CLASS: &'static str = "TCPRewriter";
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        let key = key(packet);
        Key { kind: if key.kind == TCP { TCP } else { 0 }, ..key }
    }
    const KEYWORDS: Keywords = Keywords { tcp: true, udp: None, short: true };
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        h.shared_read::<Shared>("table", |s, _| Ok(s.made()?.table(|_| true)));
        h.shared_read_with::<Shared>("lookup", |s, flow| s.made()?.look_up(flow, TCP));
    }
}

impl Variant for Udp {
    const CLASS: &'static str = "UDPRewriter";
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        let key = key(packet);
        Key { kind: if key.kind == 0 { 0 } else { UDP }, ..key }
    }
    const KEYWORDS: Keywords = WITHOUT_CONNECTIONS;
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        h.shared_read::<Shared>("table", |s, _| Ok(s.made()?.table(|_| true)));
        h.shared_read_with::<Shared>("lookup", |s, flow| s.made()?.look_up(flow, UDP));
    }
}

impl Variant for Ping {
    const CLASS: &'static str = "ICMPPingRewriter";
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        ping_key(packet)
    }
    #[inline(always)]
    fn translate(packet: &mut Packet, key: &Key, to: &Tuple) -> Segment {
        translate_ping(packet, key, to);
        Segment::default()
    }
    const KEYWORDS: Keywords = WITHOUT_CONNECTIONS;
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        h.shared_read::<Shared>("table", |s, _| Ok(s.made()?.table(|_| true)));
        h.shared_read_with::<Shared>("lookup", |s, flow| s.made()?.look_up(flow, PING));
    }
}

/// Every rewriter.
pub struct Rewriter<V> {
    shared: Arc<Translator>,
    flows: Arc<Flows>,
    annotate: bool,
    splitter: Splitter,
    /// Where removing old flows has got to, and which of how many workers this is.
    cursor: Cursor,
    share: (usize, usize),
    /// By how much the time of an entry must have changed to be stored.
    coarse: u32,
    /// Of the current batch.
    keys: Vec<Key>,
    hashes: Vec<u64>,
    places: Vec<Places>,
    /// The hashes of replies to packets of no flow yet, and a random number for each.
    new: Vec<(Option<u64>, u64)>,
    outputs: Vec<usize>,
    variant: PhantomData<fn(V)>,
}

/// The durations of a class's keywords.
fn timeouts(args: &mut Args<'_>, words: &Keywords) -> Result<Timeouts, ArgError> {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let guarantee = Duration::from_secs(5);
    let mut of = |name: &str, default: Duration| args.k::<Duration>(name).map(|d| d.unwrap_or(default));
    let mut tcp = [minutes(24 * 60), minutes(4), minutes(5), guarantee];
    if words.tcp {
        if words.short {
            tcp[0] = of("TIMEOUT", tcp[0])?;
        }
        let names = ["TCP_TIMEOUT", "TCP_DONE_TIMEOUT", "TCP_NODATA_TIMEOUT", "TCP_GUARANTEE"];
        for (value, name) in tcp.iter_mut().zip(names) {
            *value = of(name, *value)?;
        }
    }
    let [tcp, tcp_done, tcp_no_data, tcp_guarantee] = tcp.map(units);
    let mut udp = [minutes(5), minutes(5), guarantee];
    if let Some([timeout, streaming, guaranteed]) = words.udp {
        udp[0] = of(timeout, udp[0])?;
        udp = [udp[0], of(streaming, udp[0])?, of(guaranteed, udp[2])?];
    }
    let [udp, udp_streaming, udp_guarantee] = udp.map(units);
    let reap = units(of("REAP_INTERVAL", minutes(15))?);
    Ok(Timeouts { tcp, tcp_done, tcp_no_data, tcp_guarantee, udp, udp_streaming, udp_guarantee, reap })
}

/// The limit to the number of flows that a text asks for.
fn capacity(text: &str) -> Result<u32, String> {
    match lang::args::parse::<u32>(text.trim()) {
        Ok(n) if (1..=MOST_FLOWS as u32).contains(&n) => Ok(n),
        _ => Err(format!("expected a number of flows, 1 to {MOST_FLOWS}")),
    }
}

fn make(
    args: &mut Args<'_>,
    cx: &mut ConfigCx<'_>,
    timeouts: Timeouts,
    limit: u32,
) -> Result<Translator, ArgError> {
    let known = Known { names: &args.names().clone(), patterns: named(cx), outputs: cx.n_outputs() };
    let specs = args.rest_args();
    if specs.len() != cx.n_inputs() {
        return Err(args.error(format!("need {} arguments, one per input port", cx.n_inputs())));
    }
    let (mut inputs, mut first) = (Vec::new(), None);
    for (n, spec) in specs.iter().enumerate() {
        let mapper = |name: &str| {
            let element = cx.find(name)?;
            let mapper = cx.shared_by::<SharedMapper>(element);
            Some(
                mapper.map(|mapper| Arc::clone(&mapper.0)).ok_or_else(|| "element is not an IPMapper".into()),
            )
        };
        match Input::parse(&spec.text, &known, mapper) {
            Ok(input) => inputs.push(input),
            Err(wrong) => {
                let error = args.error_at(spec, format!("input spec {n}: {wrong}"));
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) => Err(error),
        None => Translator::new(inputs, timeouts, limit as usize).map_err(|e| args.error(e)),
    }
}

impl<V: Variant> Element for Rewriter<V> {
    const CLASS: &'static str = V::CLASS;
    const PORTS: &'static str = "1-/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP);
    const DROPS: &'static [DropCase] = &[
        NO_MAPPING.when("it belongs to no flow, and its input makes none"),
        NO_PORT.when("flows have all replies that a new one could have by the pattern of its input"),
        TABLE_FULL.when("there are `MAPPING_CAPACITY` flows, all of them guaranteed, or there is no memory"),
        NOT_TRANSLATED
            .when("its input does not pass it, and it is of another protocol, or not the first fragment"),
    ];
    const MANUAL: &'static str = manual!("nat/iprewriter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        if cx.n_inputs().max(cx.n_outputs()) > MOST_PORTS {
            return Err(args.error(format!("more than {MOST_PORTS} inputs or outputs")));
        }
        let mut limit = args.with("CAPACITY", false, false, |text, _| capacity(text))?;
        if let Some(mapping) = args.with("MAPPING_CAPACITY", false, false, |text, _| capacity(text))? {
            limit = Some(mapping);
        }
        let timeouts = timeouts(args, &V::KEYWORDS)?;
        let annotate = args.k_or("DST_ANNO", true)?;
        // A hot swap to the same text may come with other mappers and patterns. `take_state` keeps the flows.
        let shared = cx.shared_if(|_| false, Shared::default);
        let shared = match shared.get() {
            Some(made) => {
                // It comes from another worker's replica.
                args.ignore_rest();
                Arc::clone(made)
            }
            None => {
                let made = make(args, cx, timeouts, limit.unwrap_or(DEFAULT_CAPACITY))?;
                shared.fill(made)
            }
        };
        Ok(Self {
            flows: shared.flows(),
            shared,
            annotate,
            splitter: Splitter::new(cx.n_outputs()),
            cursor: Cursor::default(),
            share: (cx.worker().0, cx.workers().max(1)),
            coarse: timeouts.coarse(),
            keys: Vec::with_capacity(MAX_BATCH),
            hashes: Vec::with_capacity(MAX_BATCH),
            places: Vec::with_capacity(MAX_BATCH),
            new: Vec::with_capacity(MAX_BATCH),
            outputs: Vec::with_capacity(MAX_BATCH),
            variant: PhantomData,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        V::handlers(h);
        h.shared_read::<Shared>("size", |s, _| Ok(s.made()?.flows().len().to_string()));
        h.shared_read::<Shared>("nmappings", |s, _| Ok(s.made()?.made().to_string()));
        h.shared_read::<Shared>("table_size", |s, _| Ok(s.made()?.made().to_string()));
        h.shared_read::<Shared>("mapping_failures", |s, _| Ok(s.made()?.failures().to_string()));
        h.shared_read::<Shared>("patterns", |s, _| Ok(s.made()?.patterns()));
        h.shared_read::<Shared>("memory", |s, _| Ok(s.made()?.flows().bytes().to_string()));
        h.shared_read::<Shared>("capacity", |s, _| Ok(s.made()?.flows().limit().to_string()));
        h.shared_write::<Shared>("capacity", |s, text| {
            s.made()?.flows().set_limit(capacity(text)? as usize);
            Ok(())
        });
        h.shared_write::<Shared>("clear", |s, _| {
            s.made()?.clear();
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.timer_after(0, Duration::ZERO);
        Ok(())
    }

    fn run_timer(&mut self, id: u32, cx: &mut Cx<'_>) {
        let next = self.shared.reap(&self.flows, &mut self.cursor, time(cx.now_ns()), self.share);
        cx.timer_after(id, next);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if !Arc::ptr_eq(&self.shared, &old.shared) && !Arc::ptr_eq(&self.shared.flows(), &old.flows) {
            self.shared.adopt(&old.shared);
        }
        self.flows = Arc::clone(&old.flows);
    }
}

impl<V: Variant> Rewriter<V> {
    /// Rewrites the packets of a batch that have come in at an input, and finds their outputs.
    fn rewrite(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx<'_>) {
        let flows = &*self.flows;
        let now = time(cx.now_ns());
        self.shared.note_time(now);
        self.keys.clear();
        self.keys.extend(batch.iter().map(V::key));
        // Three rounds, each of which asks for the memory that the next one needs.
        self.hashes.clear();
        self.hashes.extend(self.keys.iter().map(|key| flows.begin(key)));
        self.places.clear();
        self.places.extend(self.hashes.iter().map(|hash| flows.places(*hash)));
        // The same for flows that will be made.
        self.new.clear();
        for ((key, places), hash) in self.keys.iter().zip(&self.places).zip(&self.hashes) {
            if places.is_empty() && key.kind != 0 {
                let random = cx.random();
                let reply = self.shared.expected_reply(input, key, random);
                flows.prefetch_room(*hash);
                self.new.push((reply.map(|key| flows.begin(&key)), random));
            }
        }
        for (reply, _) in &self.new {
            reply.iter().for_each(|hash| flows.prefetch_room(*hash));
        }
        let mut randoms = self.new.iter().map(|new| new.1);
        self.outputs.clear();
        for ((packet, key), places) in batch.iter_mut().zip(&self.keys).zip(&self.places) {
            let found = match flows.find(key, *places) {
                Some(found) if key.kind != 0 => found,
                _ => match admit(
                    &self.shared,
                    flows,
                    input,
                    key,
                    now,
                    randoms.next().unwrap_or_else(|| cx.random()),
                ) {
                    Ok(found) => found,
                    Err(output) => {
                        self.outputs.push(output);
                        continue;
                    }
                },
            };
            let segment = V::translate(packet, key, &found.to);
            if self.annotate {
                packet.set_dst_ip(found.to.dst.to_ne_bytes());
            }
            let flags =
                if key.kind == TCP { tcp_flags(found.flags(), segment) } else { counted(found.flags()) };
            if segment.flags & wire::tcp::RST != 0 {
                both_done(flows, key, &found, now);
            }
            flows.touch(&found, now, flags, self.coarse);
            self.outputs.push(found.output().into());
        }
    }
}

/// After a reset, neither side goes on.
#[cold]
fn both_done(flows: &Flows, key: &Key, found: &Found, now: u32) {
    if let Some(other) = flows.get(&Key { tuple: found.to.reversed(), kind: key.kind }) {
        flows.touch(&other, now, other.flags() | DONE, 0);
    }
}

/// What becomes of a packet of no flow: its new flow, or its output.
#[cold]
fn admit(
    shared: &Translator,
    flows: &Flows,
    input: usize,
    key: &Key,
    now: u32,
    random: u64,
) -> Result<Found, usize> {
    if key.kind == 0 {
        return Err(shared.passes(input).map_or(DROP + 3, usize::from));
    }
    match shared.admit(flows, input, key, now, random) {
        Admitted::Flow(found) => Ok(found),
        Admitted::Output(output) => Err(output.into()),
        Admitted::Dropped(why) => Err(match why {
            Why::NoMapping => DROP,
            Why::NoPort => DROP + 1,
            Why::Full => DROP + 2,
        }),
    }
}

impl<V: Variant> Vector for Rewriter<V> {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.rewrite(port, &mut batch, cx);
        // Usually all packets of a batch have the same output; then the batch is not split.
        if let Some((&first, rest)) = self.outputs.split_first()
            && first < self.splitter.outputs()
            && rest.iter().all(|output| *output == first)
        {
            return cx.output_batch(first, batch);
        }
        self.splitter.split(
            batch,
            self.outputs.iter().copied(),
            cx,
            // A flow that a hot swap has kept may have an output that is not there any more.
            |output, packet, cx| {
                let why = output.checked_sub(DROP).and_then(|n| DROPPED.get(n)).copied();
                cx.drop(packet, why.unwrap_or(NO_MAPPING));
            },
            |output, batch, _, cx| cx.output_batch(output, batch),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip_with, marked, sound};
    use crate::testing::Bench;
    use crate::transport::engine::datagram::{Datagram, sample};
    use dpdk::Packet;
    use wire::tcp;

    /// A packet with these addresses and ports, UDP or TCP with flags and data; its checksums are right.
    fn packet(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: Option<u8>, data: &[u8]) -> Vec<u8> {
        let mut bytes = if flags.is_some() { sample::tcp(&[], data) } else { sample::udp(&[], data) };
        bytes[12..16].copy_from_slice(&from.0);
        bytes[16..20].copy_from_slice(&to.0);
        bytes[20..22].copy_from_slice(&from.1.to_be_bytes());
        bytes[22..24].copy_from_slice(&to.1.to_be_bytes());
        let (header, rest) = bytes.split_at_mut(20);
        wire::ipv4::fill_header(header);
        let sum = wire::checksum::pseudo_v4(from.0.into(), to.0.into(), header[9], rest.len() as u16);
        match flags {
            Some(flags) => {
                rest[13] = flags;
                tcp::fill(sum, rest);
            }
            None => drop(wire::udp::fill(sum, rest)),
        }
        bytes
    }
    fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        packet(from, to, None, b"data")
    }
    /// The addresses and ports of a packet whose checksums must be right.
    fn ends(packet: &Packet) -> (([u8; 4], u16), ([u8; 4], u16)) {
        let bytes = packet.data();
        assert!(sound(bytes));
        let d = Datagram::of(packet).unwrap();
        let sum = d.pseudo_sum(d.rest.len() as u16);
        if bytes[9] == 6 {
            assert!(tcp::verify(sum, d.rest));
        } else {
            assert!(wire::udp::verify(sum, d.rest) && d.rest[6..8] != [0, 0]);
        }
        let address = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap();
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        ((address(12), port(20)), (address(16), port(22)))
    }
    type Ends = (([u8; 4], u16), ([u8; 4], u16));
    /// The output of a packet, and what it has there.
    fn sent(bench: &mut Bench, input: usize, bytes: &[u8]) -> Option<(usize, Ends)> {
        let out = bench.send(input, marked(bytes));
        out.first().map(|(output, packet)| {
            assert_eq!(packet.dst_ip(), ends(packet).1.0);
            (*output, ends(packet))
        })
    }

    /// A bench in simulated time, which passes in steps of a tenth of a second.
    fn simulated(declaration: &str, inputs: usize, outputs: usize) -> Bench {
        Bench::simulated(&format!("e :: {declaration}; TimedSource(0.1) -> Discard;"), inputs, outputs)
    }
    fn wait(bench: &mut Bench, seconds: u64) {
        let until = bench.router().now_ns() + seconds * 1_000_000_000;
        let mut turns = 0;
        while bench.router().now_ns() < until {
            bench.turn();
            turns += 1;
            assert!(turns < 1_000_000);
        }
    }

    const INSIDE: ([u8; 4], u16) = ([10, 0, 0, 7], 5000);
    const OUTSIDE: ([u8; 4], u16) = ([198, 51, 100, 9], 53);
    const NAT: [u8; 4] = [192, 0, 2, 1];

    fn nat(pattern: &str, more: &str) -> Bench {
        Bench::with_ports(&format!("IPRewriter(pattern {pattern} 0 1, drop{more})"), 2, 2)
    }

    #[test]
    fn packets_and_replies_are_rewritten() {
        for flags in [None, Some(tcp::SYN)] {
            let mut bench = nat("192.0.2.1 1024-1030# - -", "");
            let out = packet(INSIDE, OUTSIDE, flags, b"odd");
            assert_eq!(sent(&mut bench, 0, &out), Some((0, ((NAT, 1024), OUTSIDE))));
            let back = packet(OUTSIDE, (NAT, 1024), flags, b"");
            assert_eq!(sent(&mut bench, 1, &back), Some((1, (OUTSIDE, INSIDE))));
            assert_eq!(sent(&mut bench, 0, &out), Some((0, ((NAT, 1024), OUTSIDE))));
            // Of another protocol, or to another port.
            let other = packet(OUTSIDE, (NAT, 1025), flags, b"");
            assert_eq!(sent(&mut bench, 1, &other), None);
            assert_eq!(bench.read("size"), "1");
            let (kind, other) = if flags.is_some() { ("tcp", "udp") } else { ("udp", "tcp") };
            let table = bench.read(&format!("{kind}_table"));
            let mut lines: Vec<&str> = table.lines().collect();
            lines.sort_unstable();
            assert_eq!(
                lines,
                [
                    "(10.0.0.7, 5000, 198.51.100.9, 53) => (192.0.2.1, 1024, 198.51.100.9, 53) [*0 1] i0 exp300",
                    "(198.51.100.9, 53, 192.0.2.1, 1024) => (198.51.100.9, 53, 10.0.0.7, 5000) [0 *1] i0 exp300",
                ]
            );
            assert_eq!(bench.read(&format!("{other}_table")), "");
            assert_eq!(
                bench.read(&format!("{kind}_lookup 10.0.0.7 5000 198.51.100.9 53")),
                "192.0.2.1 1024 198.51.100.9 53"
            );
            assert_eq!(bench.read(&format!("{kind}_lookup 10.0.0.7 1 198.51.100.9 53")), "");
            assert_eq!(bench.read("patterns"), "192.0.2.1 1024-1030 - - [1]\n<drop>\n");
            bench.write("clear", "");
            assert_eq!((bench.read("size"), bench.read("nmappings")), ("0".into(), "0".into()));
        }
    }

    #[test]
    fn ports_are_never_shared_and_run_out() {
        let mut bench = nat("192.0.2.1 5000-5002 - -", "");
        let mut ports: Vec<u16> = (0..3)
            .map(|host| sent(&mut bench, 0, &udp(([10, 0, 0, host], 5000), OUTSIDE)).unwrap().1.0.1)
            .collect();
        assert_eq!(ports[0], 5000);
        ports.sort_unstable();
        assert_eq!(ports, [5000, 5001, 5002]);
        assert_eq!(sent(&mut bench, 0, &udp(([10, 0, 0, 9], 5000), OUTSIDE)), None);
        assert_eq!(bench.drops(), [("no free address or port".to_owned(), 1)]);
        assert_eq!(bench.read("mapping_failures"), "1");
        // Replies of another host are told apart.
        let elsewhere = ([198, 51, 100, 10], 53);
        assert!(sent(&mut bench, 0, &udp(([10, 0, 0, 9], 5000), elsewhere)).is_some());
    }

    #[test]
    fn what_a_pattern_without_a_range_has_given_away_goes_to_the_newest() {
        let mut bench = nat("192.0.2.1 - - -", "");
        for host in [1, 2] {
            let inside = ([10, 0, 0, host], 5000);
            assert_eq!(sent(&mut bench, 0, &udp(inside, OUTSIDE)), Some((0, ((NAT, 5000), OUTSIDE))));
            assert_eq!(sent(&mut bench, 1, &udp(OUTSIDE, (NAT, 5000))), Some((1, (OUTSIDE, inside))));
        }
        assert_eq!((bench.read("size"), bench.read("nmappings")), ("1".into(), "1".into()));
    }

    #[test]
    fn other_inputs() {
        let mut bench = Bench::with_ports("IPRewriter(pass 1, keep 0 1, nochange)", 3, 2);
        assert_eq!(sent(&mut bench, 0, &udp(INSIDE, OUTSIDE)), Some((1, (INSIDE, OUTSIDE))));
        assert_eq!(bench.read("size"), "0");
        assert_eq!(sent(&mut bench, 1, &udp(INSIDE, OUTSIDE)), Some((0, (INSIDE, OUTSIDE))));
        assert_eq!(sent(&mut bench, 0, &udp(OUTSIDE, INSIDE)), Some((1, (OUTSIDE, INSIDE))));
        assert_eq!(sent(&mut bench, 2, &udp(INSIDE, INSIDE)), Some((0, (INSIDE, INSIDE))));
    }

    #[test]
    fn what_is_no_first_fragment_of_tcp_or_udp() {
        let mut bench = Bench::with_ports("IPRewriter(pass 1, keep 0 0)", 2, 2);
        let fragment = ip_with(&[], &udp(INSIDE, OUTSIDE)[20..], |h| {
            h.set_protocol(17);
            h.set_fragment_offset(8);
        });
        let icmp = sample::icmp(8, &[0; 8]);
        let short = ip_with(&[], &[0; 7], |h| h.set_protocol(17));
        for bytes in [fragment, icmp, short] {
            assert_eq!(bench.push_packet(0, marked(&bytes)), [(1, bytes.clone())]);
            assert!(bench.push_packet(1, marked(&bytes)).is_empty());
        }
        assert_eq!(bench.drops(), [("not to be translated".to_owned(), 3)]);
        assert!(bench.push(0, b"x").len() <= 1);
    }

    #[test]
    fn options_and_checksums_are_kept() {
        let mut bench = nat("192.0.2.1 9-9 203.0.113.4 80", "");
        for bytes in [sample::udp(&[1; 8], b"abc"), sample::tcp(&[1; 8], b"abc")] {
            let out = bench.send(0, marked(&bytes)).remove(0).1;
            let (header, rest) = out.data().split_at(28);
            assert!(sound(out.data()));
            assert_eq!(header[12..28], [192, 0, 2, 1, 203, 0, 113, 4, 1, 1, 1, 1, 1, 1, 1, 1]);
            assert_eq!(rest[..4], [0, 9, 0, 80]);
            let sum =
                wire::checksum::pseudo_v4(NAT.into(), [203, 0, 113, 4].into(), header[9], rest.len() as u16);
            assert!(if header[9] == 6 { tcp::verify(sum, rest) } else { wire::udp::verify(sum, rest) });
        }
        // A UDP packet without a checksum gets none.
        let mut bytes = udp(INSIDE, OUTSIDE);
        bytes[26..28].fill(0);
        let out = bench.send(0, marked(&bytes)).remove(0).1;
        assert_eq!(out.data()[26..28], [0, 0]);
    }

    #[test]
    fn a_udp_checksum_is_never_adjusted_to_none() {
        let mut bench = nat("192.0.2.1 1024-65535? - -", ", UDP_GUARANTEE 0");
        // Among all ports are some with which the sum becomes 0.
        let mut seen = 0;
        for port in 1..=65_535 {
            let out = bench.send(0, marked(&udp(([10, 0, 0, 1], port), OUTSIDE)));
            let Some((_, packet)) = out.first() else { continue };
            let _ = ends(packet);
            seen += u32::from(packet.data()[26..28] == [255, 255]);
            bench.write("clear", "");
            if port == 4000 {
                break;
            }
        }
        assert!(seen < 10);
    }

    #[test]
    fn flows_end_after_their_time() {
        let mut bench = simulated(
            "IPRewriter(pattern 192.0.2.1 1024-9999# - - 0 1, drop, UDP_TIMEOUT 10, \
             UDP_STREAMING_TIMEOUT 20, TCP_DONE_TIMEOUT 15, TCP_NODATA_TIMEOUT 30, TCP_TIMEOUT 60)",
            2,
            2,
        );
        let flow = |n: u8| (([10, 0, 0, n], 1), OUTSIDE);
        let reply = |port: u16| (OUTSIDE, (NAT, port));
        let send = |bench: &mut Bench, input, (from, to), flags, data: &[u8]| {
            assert!(sent(bench, input, &packet(from, to, flags, data)).is_some());
        };
        // One packet; three, one of them a reply.
        send(&mut bench, 0, flow(1), None, b"");
        send(&mut bench, 0, flow(2), None, b"");
        send(&mut bench, 0, flow(2), None, b"");
        send(&mut bench, 1, reply(1025), None, b"");
        // Reset; ended by both sides; ended by one; data in both directions.
        send(&mut bench, 0, flow(3), Some(tcp::RST), b"");
        send(&mut bench, 0, flow(4), Some(tcp::FIN), b"");
        send(&mut bench, 1, reply(1027), Some(tcp::FIN), b"");
        send(&mut bench, 0, flow(5), Some(tcp::FIN), b"");
        send(&mut bench, 0, flow(6), Some(tcp::ACK), b"data");
        send(&mut bench, 1, reply(1029), Some(tcp::ACK), b"data");
        let mut sizes = Vec::new();
        for _ in 0..14 {
            wait(&mut bench, 5);
            sizes.push(bench.read("size"));
        }
        let sizes: Vec<u32> = sizes.iter().map(|size| size.parse().unwrap()).collect();
        // After 5, 10, ... seconds; a round takes up to 2.5.
        assert_eq!(sizes[0], 6);
        assert_eq!((sizes[2], sizes[3], sizes[4]), (5, 3, 2));
        assert_eq!((sizes[5], sizes[6], sizes[10], sizes[12]), (2, 1, 1, 0));
        assert_eq!(bench.read("nmappings"), "0");
    }

    #[test]
    fn a_full_table_makes_room_for_new_flows() {
        let mut bench = simulated("IPRewriter(keep 0 1, MAPPING_CAPACITY 4, UDP_GUARANTEE 3)", 1, 2);
        let flow = |n: u8| udp(([10, 0, 0, n], 1), OUTSIDE);
        for n in 0..4 {
            assert!(sent(&mut bench, 0, &flow(n)).is_some());
            wait(&mut bench, 1);
        }
        // After four seconds the first two are not guaranteed any more; one of them has had a packet again.
        assert!(sent(&mut bench, 0, &flow(0)).is_some());
        assert!(sent(&mut bench, 0, &flow(9)).is_some());
        assert!(!bench.read("udp_table").contains("(10.0.0.1, 1,"));
        assert!(sent(&mut bench, 0, &flow(10)).is_none());
        assert_eq!(bench.drops(), [("table of flows full".to_owned(), 1)]);
        bench.write("capacity", "5");
        wait(&mut bench, 1);
        assert!(sent(&mut bench, 0, &flow(10)).is_some());
        assert_eq!((bench.read("capacity"), bench.read("size")), ("5".into(), "5".into()));
        assert!(bench.try_write("capacity", "0").is_err());
    }

    #[test]
    fn the_other_classes() {
        let mut tcp = Bench::with_ports("TCPRewriter(keep 0 1, TIMEOUT 60)", 1, 2);
        assert!(sent(&mut tcp, 0, &udp(INSIDE, OUTSIDE)).is_none());
        assert!(sent(&mut tcp, 0, &packet(INSIDE, OUTSIDE, Some(tcp::SYN), b"")).is_some());
        assert_eq!(tcp.read("table").lines().count(), 2);
        let mut udp_too = Bench::with_ports("UDPRewriter(keep 0 1, TIMEOUT 60, GUARANTEE 2)", 1, 2);
        assert!(sent(&mut udp_too, 0, &udp(INSIDE, OUTSIDE)).is_some());
        assert!(sent(&mut udp_too, 0, &packet(INSIDE, OUTSIDE, Some(tcp::SYN), b"")).is_some());
        assert_eq!(udp_too.read("table").lines().count(), 2);
        assert_eq!(udp_too.read("lookup 10.0.0.7 5000 198.51.100.9 53"), "10.0.0.7 5000 198.51.100.9 53");
    }

    #[test]
    fn packets_of_a_new_flow_in_one_batch_are_of_one_flow() {
        let mut bench = nat("192.0.2.1 1024-1025 - -", ", MAPPING_CAPACITY 2");
        let batch = |host: u8| (0..32).map(|_| marked(&udp(([10, 0, 0, host], 7), OUTSIDE))).collect();
        for host in 1..=2 {
            assert_eq!(bench.send_batch(0, batch(host)).len(), 32);
        }
        assert_eq!((bench.read("size"), bench.read("mapping_failures")), ("2".into(), "0".into()));
        // And of a mapper that chooses once for each flow.
        let config = "m :: MaglevIPMapper(10.0.0.1 80, 10.0.0.2 80); e :: IPRewriter(m, drop);";
        let mut bench = Bench::with_config(config, 2, 2);
        assert_eq!(bench.send_batch(0, batch(3)).len(), 32);
        let chosen: u32 = bench
            .read("m.servers")
            .lines()
            .map(|l| l.split(' ').nth(4).unwrap().parse::<u32>().unwrap())
            .sum();
        assert_eq!(chosen, 1);
    }

    #[test]
    fn a_short_tcp_header_gets_its_ports() {
        for len in [8, 12, 17, 18] {
            let mut bench = nat("192.0.2.1 1024-9999# - -", "");
            let bytes = ip_with(&[], &packet(INSIDE, OUTSIDE, Some(tcp::SYN), b"")[20..20 + len], |h| {
                h.set_protocol(6)
            });
            let out = bench.send(0, marked(&bytes)).remove(0).1;
            assert_eq!(out.data()[20..24], [4, 0, 0, 53], "{len}");
        }
    }

    #[test]
    fn a_connection_after_a_reset_is_a_connection() {
        let mut bench = simulated("IPRewriter(keep 0 1, TCP_TIMEOUT 1000, TCP_DONE_TIMEOUT 100)", 1, 2);
        let both = |bench: &mut Bench, flags, data: &[u8]| {
            assert!(sent(bench, 0, &packet(INSIDE, OUTSIDE, Some(flags), data)).is_some());
            assert!(sent(bench, 0, &packet(OUTSIDE, INSIDE, Some(flags), data)).is_some());
        };
        both(&mut bench, tcp::ACK, b"data");
        assert!(bench.read("tcp_table").contains("exp1000"));
        sent(&mut bench, 0, &packet(INSIDE, OUTSIDE, Some(tcp::RST), b""));
        assert!(bench.read("tcp_table").contains("exp100\n"));
        both(&mut bench, tcp::SYN, b"");
        assert!(bench.read("tcp_table").contains("exp1000"), "{}", bench.read("tcp_table"));
    }

    #[test]
    fn packets_keep_flows_alive_however_short_their_time_is() {
        let declaration =
            "IPRewriter(pattern 192.0.2.1 1024-9999# - - 0 1, drop, UDP_TIMEOUT 1, UDP_GUARANTEE 0)";
        let mut bench = simulated(declaration, 2, 2);
        let first = sent(&mut bench, 0, &udp(INSIDE, OUTSIDE));
        for _ in 0..50 {
            bench.turns(2);
            assert_eq!(sent(&mut bench, 0, &udp(INSIDE, OUTSIDE)), first);
        }
        wait(&mut bench, 3);
        assert_ne!(sent(&mut bench, 0, &udp(INSIDE, OUTSIDE)), first);
    }

    #[test]
    fn pings_are_told_apart_by_their_identifiers() {
        let ping = |kind: u8, from: ([u8; 4], u16), to: ([u8; 4], u16)| {
            let [a, b] = (if kind == 8 { from.1 } else { to.1 }).to_be_bytes();
            let mut bytes = sample::icmp(kind, &[a, b, 0, 1, 9, 9, 9]);
            bytes[12..16].copy_from_slice(&from.0);
            bytes[16..20].copy_from_slice(&to.0);
            wire::ipv4::fill_header(&mut bytes[..20]);
            bytes
        };
        let declaration = "ICMPPingRewriter(pattern 192.0.2.1 100-65535# - - 0 1, drop)";
        let mut bench = Bench::with_ports(declaration, 2, 2);
        let there = ([198, 51, 100, 9], 0);
        for host in 0..2u16 {
            let here = ([10, 0, 0, host as u8], 7);
            let (output, packet) = bench.send(0, marked(&ping(8, here, there))).remove(0);
            assert_eq!((output, packet.data()), (0, &ping(8, (NAT, 100 + host), there)[..]));
            let back = ping(0, there, (NAT, 100 + host));
            let (output, packet) = bench.send(1, marked(&back)).remove(0);
            assert_eq!((output, packet.data()), (1, &ping(0, there, here)[..]));
            assert_eq!(packet.dst_ip(), here.0);
        }
        // Neither an unknown reply, nor a timestamp request, nor UDP.
        let others = [ping(0, there, (NAT, 102)), ping(13, (NAT, 1), there), udp(INSIDE, OUTSIDE)];
        for (input, bytes) in [1, 0, 0].into_iter().zip(others) {
            assert!(bench.send(input, marked(&bytes)).is_empty());
        }
        assert_eq!(bench.read("lookup 10.0.0.1 7 198.51.100.9 0"), "192.0.2.1 101 198.51.100.9 0");
    }

    #[test]
    fn patterns_with_names_and_mappers() {
        let mut bench = Bench::with_config(
            "IPRewriterPatterns(a 192.0.2.1 1024-65535# - -);
             m :: RoundRobinIPMapper(a 0 1, - - 10.0.0.1 80 1 0);
             e :: IPRewriter(m, pattern a 0 1);",
            2,
            2,
        );
        let mut one = |input: usize, port: u16| {
            let (output, packet) = bench.send(input, marked(&udp(([10, 9, 9, 9], port), OUTSIDE))).remove(0);
            (output, ends(&packet))
        };
        assert_eq!(one(0, 1), (0, ((NAT, 1024), OUTSIDE)));
        assert_eq!(one(0, 2), (1, (([10, 9, 9, 9], 2), ([10, 0, 0, 1], 80))));
        assert_eq!(one(1, 3), (0, ((NAT, 1025), OUTSIDE)));
        assert_eq!(one(0, 4), (0, ((NAT, 1026), OUTSIDE)));
    }

    #[test]
    fn errors_name_the_input() {
        for (spec, wrong) in [
            ("pattern 1.0.0.1 - - - 0", "input spec 0: bad forward port"),
            ("pattern 1.0.0.1 x - - 0 0", "input spec 0: bad source port"),
            ("pattern zonk 0 0", "input spec 0: no such pattern 'zonk'"),
            ("keep 0 2", "input spec 0: output port out of range"),
            ("keep 0", "input spec 0: bad forward port"),
            ("pass 5", "input spec 0: output port out of range"),
            ("pass x", "input spec 0: syntax error, expected 'nochange [OUTPUT]'"),
            ("drop 1", "input spec 0: syntax error, expected 'drop'"),
            ("zonk", "input spec 0: unknown specification"),
            ("drop, drop", "need 1 arguments, one per input port"),
            ("drop, MAPPING_CAPACITY 0", "expected a number of flows, 1 to 16777216"),
        ] {
            let error = Bench::error(&format!("IPRewriter({spec})"));
            assert!(error.contains(wrong), "{spec}: {error}");
        }
        let error = Bench::error("IPRewriterPatterns(a 1.0.0.1 - - -, a - - - -, b - x - -)");
        assert!(error.contains("pattern 'a' defined twice"), "{error}");
        assert!(error.contains("pattern 'b': bad source port"), "{error}");
        assert!(Bench::error("RoundRobinIPMapper()").contains("no patterns"));
        let error = Bench::error("IPRewriter(m); m :: RoundRobinIPMapper(- - - - 0 1)");
        assert!(error.contains("input spec 0: output port out of range"), "{error}");
    }
}
