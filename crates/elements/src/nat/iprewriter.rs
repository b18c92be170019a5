//! # IPRewriter
//! Rewrites the addresses and ports of TCP and UDP packets: NAT44, port forwarding, load balancing.
//!
//! ## Synopsis
//! `IPRewriter(INPUTSPEC1, ..., INPUTSPECn [, MAPPING_CAPACITY, TCP_TIMEOUT, TCP_DONE_TIMEOUT,
//! TCP_NODATA_TIMEOUT, TCP_GUARANTEE, UDP_TIMEOUT, UDP_STREAMING_TIMEOUT, UDP_GUARANTEE, REAP_INTERVAL,
//! DST_ANNO, REPLY_ANNO, LOG])`
//!
//! `TCPRewriter` is the same for TCP alone. `UDPRewriter` treats packets of both protocols alike, as UDP.
//! `ICMPPingRewriter` does the same for ICMP echo requests and replies, whose identifiers take the place of
//! the source port in a request and of the destination port in a reply; a reply never makes a flow. In
//! UDPRewriter and ICMPPingRewriter the keywords of UDP may be `TIMEOUT`, `STREAMING_TIMEOUT` and
//! `GUARANTEE`; in the other two `TIMEOUT` and `GUARANTEE` are those of TCP.
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
//!     had. Of three words the last one is `SPORT`, and of two there are no ports. `xpattern` is the same.
//!   - `pattern NAME FOUTPUT ROUTPUT`: the pattern has this name in an IPRewriterPatterns element.
//!   - `ELEMENT`: this element, such as a RoundRobinIPMapper, chooses a pattern for each flow.
//! - `MAPPING_CAPACITY` (*int*, keyword, also `CAPACITY`; default 4,194,304, at most 16,777,216): how many
//!   flows there may be. For a new flow beyond that, one that is not guaranteed any more is removed: of about
//!   fifty flows the one with the least time left. If there is none, the new flow's packet is dropped. It is
//!   dropped too if new flows have no guarantee, and this one would end before all of those. The name of
//!   another rewriter: both have its limit together.
//! - `TCP_TIMEOUT` (*time*, keyword, default 24 h): how long a TCP flow is kept after its last packet, if
//!   there has been data in both directions.
//! - `TCP_DONE_TIMEOUT` (*time*, keyword, default 4 min): the same after FIN in both directions, or RST.
//! - `TCP_NODATA_TIMEOUT` (*time*, keyword, default 5 min): the same for other TCP flows.
//! - `UDP_TIMEOUT` (*time*, keyword, default 5 min): the same for UDP.
//! - `UDP_STREAMING_TIMEOUT` (*time*, keyword, default `UDP_TIMEOUT`): the same for UDP flows of three and
//!   more packets, one of them a reply.
//! - `TCP_GUARANTEE`, `UDP_GUARANTEE` (*time*, keyword, default 5 s): how long after its last packet a flow
//!   is not removed for a new one.
//! - `REAP_INTERVAL` (*time*, keyword, also `REAP_TIME`; default 15 min): how often all flows are looked
//!   over, at least; they are looked over four times within the shortest of the times above, at least once a
//!   minute.
//! - `DST_ANNO` (*bool*, keyword, default true): whether the destination annotation becomes the new
//!   destination.
//! - `REPLY_ANNO` (*annotation*, keyword): an annotation of one byte, such as PAINT, that replies get from
//!   the packet that made the flow.
//! - `LOG` (*filename* or `syslog`, keyword): a line for each flow that begins or ends is added to this file,
//!   or given to the system's log (`/dev/log`); see below.
//!
//! No flow ends early. The time of its last packet is known to a quarter of the shortest of these times, at
//! most a second; in simulated time to a quarter of a second, and the same flows end in each run. Times are
//! at most 47 days, and never less than the guarantee. A flow that would get its own addresses and ports has
//! one entry, by which packets but its first take the output of replies. Checksums are adjusted, not computed
//! anew (RFC 1624), so that a wrong one stays wrong. Fragments but the first, packets with less than 8 bytes
//! after the IP header and other protocols are dropped, unless the input has `pass`. Of a large range of
//! ports, 512 are tried for a flow; if none is free, packets of new flows to the same address and port are
//! dropped for a quarter of a second. A pattern without a range gives the replies of an older flow to a newer
//! one that would have the same; the older one ends. TCPRewriter and IPRewriter adjust sequence numbers,
//! acknowledgments and selective acknowledgments of connections whose data an element upstream has made
//! longer or shorter (FTPPortMapper).
//!
//! ## The log of mappings
//! It tells who had an address and port outside at some time (RFC 6888 REQ-12, RFC 7422). A line is
//! `TIME NAME created|deleted PROTOCOL SOURCE:PORT => NEWSOURCE:NEWPORT to DESTINATION:PORT`, with
//! ` => NEWDESTINATION:NEWPORT` at its end if the destination changes too: what the first packet has, and
//! what it gets. The time is UTC, to a quarter of a second. Pings have their identifier as a port. Workers
//! only put the numbers into memory; a thread writes the lines, ten times a second. If 65,536 wait already,
//! or the disk is full, lines are lost and counted, and a line `TIME NAME lost N` says so. Flows that exist
//! when the router stops get no last line.
//!
//! ## What the RFCs ask of a NAT
//! With `pattern ADDRESS LOW-HIGH - -` at the input from the inside and `drop` at that from the outside, as
//! in conf/nat-gateway.click, and default times:
//!
//! | requirement | here |
//! |---|---|
//! | RFC 4787 REQ-1, RFC 5382 REQ-1: endpoint-independent mapping | no: a mapping depends on the other side's address and port too, as in Click. A host's own port is kept where it is free, so that a port is usually mapped to the same one whoever the other side is; with `#` or `?` it is not |
//! | RFC 4787 REQ-2: all mappings of a host have one address | yes with one address in the pattern, and in IPAddrRewriter; no with a range of addresses in IPRewriter |
//! | RFC 4787 REQ-3, RFC 5382 REQ-7: no port overloading | no: hosts share a port toward different addresses or ports, so that there are as many flows as there are ports toward each of these |
//! | RFC 4787 REQ-4: parity of ports | kept with the host's own port; not if another one is taken |
//! | RFC 4787 REQ-5: UDP mappings last two minutes, better five | yes: five; `UDP_TIMEOUT` |
//! | RFC 4787 REQ-6: packets from the inside keep a mapping alive | yes; those from the outside too |
//! | RFC 4787 REQ-8, RFC 5382 REQ-3: filtering | address and port-dependent: only the address and port that a host has talked to reach it. IPAddrRewriter: endpoint-independent |
//! | RFC 4787 REQ-9, RFC 5382 REQ-8: hairpinning | no: a host inside does not reach another one by its mapping outside |
//! | RFC 4787 REQ-10: application gateways can be off | yes: there are none but FTPPortMapper, where the configuration has it |
//! | RFC 4787 REQ-11: behavior never changes | yes: mapping and filtering stay the same also when ports conflict |
//! | RFC 4787 REQ-12, RFC 5382 REQ-10, RFC 5508 REQ-6: an ICMP error ends no mapping, and keeps none alive | yes |
//! | RFC 4787 REQ-13: packets that are too long for the link are answered | by the configuration: IPFragmenter and ICMPError |
//! | RFC 4787 REQ-14: fragments | by the configuration: IPReassembler in front of this element. Without it later fragments are dropped |
//! | RFC 5382 REQ-2: all valid sequences of TCP packets, simultaneous open | yes: any packet from the inside makes a flow, and any packet passes whose flow is there |
//! | RFC 5382 REQ-4: no answer to an unexpected SYN for six seconds | yes: there never is one |
//! | RFC 5382 REQ-5: idle connections last 2 h 4 min, others 4 min | 24 hours after data in both directions; without that, 5 minutes even if the connection is established (`TCP_NODATA_TIMEOUT`); 4 minutes after its end |
//! | RFC 5382 REQ-6: FTP | active mode with FTPPortMapper; passive mode needs nothing |
//! | RFC 5382 REQ-9, RFC 5508 REQ-4, REQ-5: ICMP errors about flows are translated, in both directions | yes, by ICMPRewriter |
//! | RFC 5508 REQ-1: ICMP queries | pings, by ICMPPingRewriter, mapped for each other side; no other queries |
//! | RFC 5508 REQ-2: pings last a minute | yes: five |
//! | RFC 5508 REQ-3: ICMP errors with a wrong checksum are dropped | by the configuration: CheckICMPHeader in front of ICMPRewriter. The IP checksum of the packet in the error is not checked |
//! | RFC 5508 REQ-7: hairpinning of pings and errors | no |
//! | RFC 5508 REQ-8: who gets no mapping is told | no: packets are dropped and counted |
//! | RFC 6888 REQ-12: who had an address and port can be found out later | yes, with `LOG`; the other side is part of its lines, since mappings depend on it |
//!
//! What differs in the other rewriters: TCPRewriter, UDPRewriter and ICMPPingRewriter do the same for their
//! protocols. IPAddrRewriter maps a host to an address of its own for any protocol, whoever the other side
//! is: mapping and filtering are endpoint-independent, and no port changes. IPAddrPairRewriter maps pairs of
//! addresses: mapping and filtering are address-dependent, and no port changes. Both translate later
//! fragments, and keep mappings for two hours.
//!
//! ## Ports
//! As many push inputs as there are INPUTSPECs, any number of push outputs, up to 256 each. The IP header
//! must have been marked.
//!
//! ## Handlers
//! - `tcp_table`, `udp_table` (read; of the other classes `table`): for each direction of each flow a line:
//!   `(SA, SP, DA, DP) => (SA', SP', DA', DP') [*F R] iINPUT expSECONDS`, where the star is at the output of
//!   this direction, and the flow is removed after so many seconds. `seq +N` before the outputs: sequence
//!   numbers grow by so much. ICMPPingRewriter shows `(SA, DA, ID) => (SA', DA', ID')`; of replies, the
//!   identifiers are 256 more, as Click shows them.
//! - `tcp_mappings`, `udp_mappings`, `mappings` (read): the same, under their old names.
//! - `tcp_lookup`, `udp_lookup` (read, *SADDR SPORT DADDR DPORT*; of the other classes `lookup`): what takes
//!   the place of these.
//! - `size` (read): how many flows there are, of all rewriters that share the capacity.
//! - `nmappings`, `table_size` (read): how many this rewriter has.
//! - `mapping_failures` (read): flows that could not be made, as all ports were in use or the table was full.
//! - `patterns` (read): for each input a line with its pattern, and how many flows it has.
//! - `patternN` (read/write): the line of input N. Writing an INPUTSPEC changes what the input does, and ends
//!   the flows that it has made.
//! - `capacity` (read/write): the `MAPPING_CAPACITY` argument. Of flows that are too many, those with the
//!   least time left end.
//! - `memory` (read): bytes of memory that the flows take.
//! - `clear` (write): removes all flows.
//! - `log_written`, `log_lost` (read): lines of the log that have been written, and that have been lost.
//! - `log_reopen` (write): opens the file of the log anew, after it has been moved away (logrotate).
//!
//! ## Threads
//! All workers share one table, also with ICMPRewriter and FTPPortMapper. Packets of a flow may arrive on any
//! worker, replies on another one. Packets of known flows take no lock, but for connections whose sequence
//! numbers are adjusted. A packet of no flow takes the lock of a sixteenth of the table, or of two, also if
//! it is dropped or passed on, so that inputs with `pass` suit what is seldom. The table takes about 150
//! bytes for a flow and grows as flows come. A hot swap keeps the flows, also with another configuration
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
//! IPAddrRewriter, IPAddrPairRewriter, ICMPRewriter, FTPPortMapper, IPRewriterPatterns, RoundRobinIPMapper,
//! SourceIPHashMapper, MaglevIPMapper, CheckIPHeader

use super::engine::finds::Finds;
use super::engine::headers::{Segment, TCP, UDP, key, ping_key, translate, translate_ping};
use super::engine::input::{Input, Known, Names, SharedMapper, named};
use super::engine::mappinglog::MappingLog;
use super::engine::rewriter::SharedRewriter;
use super::engine::translator::{
    Admitted, DONE, Shared, Timeouts, Translator, Why, counted, tcp_flags, time, units,
};
use crate::llrpc;
use crate::prelude::*;
use crate::splitter::Splitter;
use lang::args::Anno;
use runtime::{Dynamic, HandlerError, Llrpc, MAX_BATCH};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tables::flows::{Cursor, Flows, Found, Hash, Key, MOST_FLOWS, Places, Wanted};
use wire::protocol;

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
    /// The manual.
    const MANUAL: &'static str = manual!("nat/iprewriter");
    /// By what it finds flows.
    const FINDS: Finds;
    /// By what the flow of a packet is found; the kind is 0 if it is not translated.
    fn key(packet: &Packet) -> Key;
    /// By what else.
    #[inline(always)]
    fn other_key(_packet: &Packet) -> Option<Key> {
        None
    }
    /// Gives a packet what an entry that was found by `key` says.
    #[inline(always)]
    fn translate(packet: &mut Packet, key: &Key, found: &Found) -> Segment {
        translate(packet, key, &found.to)
    }
    /// Whether the packets of an entry get another destination.
    #[inline(always)]
    fn redirects(_found: &Found) -> bool {
        true
    }
    /// Its handlers.
    fn handlers(h: &mut Handlers<Rewriter<Self>>)
    where
        Self: Sized;
}

/// `IPRewriter`.
pub struct Both;
/// `TCPRewriter`.
pub struct Tcp;
/// `UDPRewriter`.
pub struct Udp;
/// `ICMPPingRewriter`.
pub struct Ping;

/// The handlers that show all flows.
fn tables<V: Variant>(h: &mut Handlers<Rewriter<V>>) {
    for name in ["table", "mappings"] {
        h.shared_read::<Shared>(name, |s, _| Ok(s.made()?.table(|_| true)));
    }
    h.listed(&["table", "mappings D"]);
}

impl Variant for Both {
    const CLASS: &'static str = "IPRewriter";
    const FINDS: Finds = Finds::Both;
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        key(packet)
    }
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        for name in ["tcp_table", "tcp_mappings"] {
            h.shared_read::<Shared>(name, |s, _| Ok(s.made()?.table(|kind| kind == TCP)));
        }
        for name in ["udp_table", "udp_mappings"] {
            h.shared_read::<Shared>(name, |s, _| Ok(s.made()?.table(|kind| kind == UDP)));
        }
        h.shared_read_with::<Shared>("tcp_lookup", |s, flow| s.made()?.look_up(flow, protocol::TCP));
        h.shared_read_with::<Shared>("udp_lookup", |s, flow| s.made()?.look_up(flow, protocol::UDP));
        h.listed(&["tcp_table", "udp_table", "tcp_mappings D", "udp_mappings D", "tcp_lookup"]);
        let tcp: Llrpc = |caller, element, data| llrpc::mapped(caller, element, "tcp_lookup", data);
        let udp: Llrpc = |caller, element, data| llrpc::mapped(caller, element, "udp_lookup", data);
        llrpcs(h, tcp, udp);
    }
}

/// The handlers of the classes that find flows by addresses alone.
pub(super) fn address_handlers<V: Variant>(h: &mut Handlers<Rewriter<V>>) {
    h.shared_read_with::<Shared>("lookup", |s, flow| s.made()?.look_up(flow, 0));
    tables(h);
    llrpcs(h, LOOKED_UP, LOOKED_UP);
}

/// What the handler `lookup` has.
const LOOKED_UP: Llrpc = |caller, element, data| llrpc::mapped(caller, element, "lookup", data);

/// Declares what clients of control sockets call to know what a flow of TCP or of UDP becomes.
fn llrpcs<T: 'static>(h: &mut Handlers<T>, tcp: Llrpc, udp: Llrpc) {
    llrpc::MAP_TCP.into_iter().for_each(|number| h.llrpc(number, tcp));
    llrpc::MAP_UDP.into_iter().for_each(|number| h.llrpc(number, udp));
}

impl Variant for Tcp {
    const CLASS: &'static str = "TCPRewriter";
    const FINDS: Finds = Finds::Tcp;
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        let key = key(packet);
        Key { kind: if key.kind == TCP { TCP } else { 0 }, ..key }
    }
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        tables(h);
        h.shared_read_with::<Shared>("lookup", |s, flow| s.made()?.look_up(flow, protocol::TCP));
        llrpcs(h, LOOKED_UP, llrpc::no_flow);
    }
}

impl Variant for Udp {
    const CLASS: &'static str = "UDPRewriter";
    const FINDS: Finds = Finds::Udp;
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        let key = key(packet);
        Key { kind: if key.kind == 0 { 0 } else { UDP }, ..key }
    }
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        h.shared_read_with::<Shared>("lookup", |s, flow| s.made()?.look_up(flow, protocol::UDP));
        tables(h);
        // Flows of TCP are kept as those of UDP.
        llrpcs(h, LOOKED_UP, LOOKED_UP);
    }
}

impl Variant for Ping {
    const CLASS: &'static str = "ICMPPingRewriter";
    const FINDS: Finds = Finds::Ping;
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        ping_key(packet)
    }
    #[inline(always)]
    fn translate(packet: &mut Packet, key: &Key, found: &Found) -> Segment {
        translate_ping(packet, key, &found.to);
        Segment::default()
    }
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        h.shared_read_with::<Shared>("lookup", |s, flow| s.made()?.look_up(flow, protocol::ICMP));
        tables(h);
        llrpcs(h, llrpc::no_flow, llrpc::no_flow);
    }
}

/// A packet of no flow yet in the current batch.
struct Expected {
    /// Which packet it is.
    at: usize,
    /// For the choice of what replies will have.
    random: u64,
    /// By what replies to it will probably be found, if its input makes a flow, and where.
    reply: Option<Hash>,
    room: Option<Wanted>,
}

/// The entries of so many packets' flows are asked for together, while those of as many packets before are
/// used.
const TOGETHER: usize = 16;

/// What packets of the current batch are found by, and where. Each step asks for the memory that the next one
/// needs, for many packets ([`Flows::begin`]).
struct Ahead {
    keys: Vec<(Key, Hash)>,
    wanted: Vec<Wanted>,
    places: Vec<Places>,
    new: Vec<Expected>,
    /// For how many of the new flows the memory of both entries has been asked for.
    rooms: usize,
}

impl Ahead {
    fn new() -> Self {
        Self {
            keys: Vec::with_capacity(MAX_BATCH),
            wanted: Vec::with_capacity(MAX_BATCH),
            places: Vec::with_capacity(MAX_BATCH),
            new: Vec::with_capacity(MAX_BATCH),
            rooms: 0,
        }
    }

    /// Begins with the packets of a batch.
    #[inline(always)]
    fn begin(&mut self, flows: &Flows, keys: impl Iterator<Item = Key>) {
        self.keys.clear();
        self.keys.extend(keys.map(|key| (key, flows.begin(&key))));
        self.wanted.clear();
        self.wanted.extend(self.keys.iter().map(|(_, hash)| flows.tags(*hash)));
        self.places.clear();
        self.new.clear();
        self.rooms = 0;
    }

    /// Asks for the entries of the next packets. Those that new flows need are asked for in two steps, the
    /// second of which is done by the next call. `expected` says what a new flow draws, and by what replies
    /// will be found.
    #[inline(always)]
    fn ask(&mut self, flows: &Flows, expected: impl FnMut(&Key) -> (u64, Option<Key>)) {
        let first = self.places.len();
        let next = self.wanted.iter().skip(first).take(TOGETHER);
        self.places.extend(next.map(|wanted| flows.places(*wanted)));
        let before = self.new.len();
        let next = self.places.iter().zip(&self.keys).enumerate().skip(first);
        let new = next.filter(|(_, (places, (key, _)))| places.is_empty() && key.kind != 0);
        self.new.extend(new.map(|(at, _)| Expected { at, random: 0, reply: None, room: None }));
        if self.rooms < self.new.len() {
            self.ask_new(flows, before, expected);
        }
    }

    /// Asks for memory for new flows, from that with number `first` on, and for the rest of those before.
    fn ask_new(&mut self, flows: &Flows, first: usize, mut expected: impl FnMut(&Key) -> (u64, Option<Key>)) {
        let (before, new) = self.new.split_at_mut(first);
        for new in &*new {
            self.wanted.get(new.at).into_iter().for_each(|wanted| flows.prefetch_room(*wanted));
        }
        for new in &mut *new {
            let Some((key, _)) = self.keys.get(new.at) else { continue };
            let (random, reply) = expected(key);
            (new.random, new.reply) = (random, reply.map(|key| flows.begin(&key)));
        }
        for new in &mut *new {
            new.room = new.reply.map(|reply| flows.tags(reply));
        }
        for new in before.iter().skip(self.rooms) {
            new.room.into_iter().for_each(|room| flows.prefetch_room(room));
        }
        self.rooms = first;
    }
}

/// Every rewriter.
pub struct Rewriter<V> {
    shared: Arc<Translator>,
    /// The flows and the inputs as they were in this version.
    version: u32,
    flows: Arc<Flows>,
    inputs: Arc<[Input]>,
    annotate: bool,
    /// The annotation of a flow's first packet that its replies get.
    reply_anno: Option<usize>,
    splitter: Splitter,
    /// Where removing old flows has got to, and which of how many workers this is.
    cursor: Cursor,
    share: (usize, usize),
    /// By how much the time of an entry must have changed to be stored.
    coarse: u32,
    /// Of the current batch.
    ahead: Ahead,
    outputs: Vec<usize>,
    variant: PhantomData<fn(V)>,
}

/// The durations of a class's keywords, which are kept as precisely as can be or stored less often.
fn timeouts(args: &mut Args<'_>, finds: Finds, precise: bool) -> Result<Timeouts, ArgError> {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let guarantee = Duration::from_secs(5);
    let mut tcp = [minutes(24 * 60), minutes(4), minutes(5), guarantee];
    let mut udp = [minutes(5), minutes(5), guarantee];
    // Of several names of the same, the last one counts.
    let mut set = |value: &mut Duration, names: &[&str]| {
        for name in names {
            *value = args.k::<Duration>(name)?.unwrap_or(*value);
        }
        Ok::<(), ArgError>(())
    };
    if matches!(finds, Finds::Both | Finds::Tcp) {
        let [timeout, done, no_data, guaranteed] = &mut tcp;
        set(timeout, &["TIMEOUT", "TCP_TIMEOUT"])?;
        set(done, &["TCP_DONE_TIMEOUT"])?;
        set(no_data, &["TCP_NODATA_TIMEOUT"])?;
        set(guaranteed, &["GUARANTEE", "TCP_GUARANTEE"])?;
    }
    let (timeout, streaming, guaranteed): (&[&str], &[&str], &[&str]) = match finds {
        Finds::Both => (&["UDP_TIMEOUT"], &["UDP_STREAMING_TIMEOUT"], &["UDP_GUARANTEE"]),
        Finds::Udp => (
            &["TIMEOUT", "UDP_TIMEOUT"],
            &["STREAMING_TIMEOUT", "UDP_STREAMING_TIMEOUT"],
            &["GUARANTEE", "UDP_GUARANTEE"],
        ),
        Finds::Ping => (&["TIMEOUT"], &["STREAMING_TIMEOUT"], &["GUARANTEE"]),
        Finds::Address | Finds::Pair => (&["TIMEOUT"], &[], &["GUARANTEE"]),
        Finds::Tcp => (&[], &[], &[]),
    };
    if matches!(finds, Finds::Address | Finds::Pair) {
        udp[0] = minutes(120);
    }
    set(&mut udp[0], timeout)?;
    udp[1] = udp[0];
    set(&mut udp[1], streaming)?;
    set(&mut udp[2], guaranteed)?;
    let mut reap = minutes(15);
    set(&mut reap, &["REAP_TIME", "REAP_INTERVAL"])?;
    let [tcp, tcp_done, tcp_no_data, tcp_guarantee] = tcp.map(units);
    let [udp, udp_streaming, udp_guarantee] = udp.map(units);
    let reap = units(reap);
    Ok(Timeouts {
        tcp,
        tcp_done,
        tcp_no_data,
        tcp_guarantee,
        udp,
        udp_streaming,
        udp_guarantee,
        reap,
        precise,
    })
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
    finds: Finds,
    (timeouts, limit): (Timeouts, u32),
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
        None => {
            let names = Names::of(&known, cx);
            let flows = Flows::new(limit as usize);
            let flows = flows.ok_or_else(|| args.error("no memory for the table of flows"))?;
            let flows = if cx.simulated_time() { flows.with_fixed_hash() } else { flows };
            Ok(Translator::new(finds, (inputs, names), timeouts, flows))
        }
    }
}

impl<V: Variant> Element for Rewriter<V> {
    const CLASS: &'static str = V::CLASS;
    const PORTS: &'static str = "1-/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::USER);
    const WRITES: Fields = Fields::DATA.with(Fields::USER);
    const DROPS: &'static [DropCase] = &[
        NO_MAPPING.when("it belongs to no flow, and its input makes none"),
        NO_PORT.when("flows have all replies that a new one could have by the pattern of its input"),
        TABLE_FULL.when("there are `MAPPING_CAPACITY` flows, all of them guaranteed, or there is no memory"),
        NOT_TRANSLATED
            .when("its input does not pass it, and it is of another protocol, or not the first fragment"),
    ];
    const MANUAL: &'static str = V::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        if cx.n_inputs().max(cx.n_outputs()) > MOST_PORTS {
            return Err(args.error(format!("more than {MOST_PORTS} inputs or outputs")));
        }
        let (mut limit, mut shares) = (None, None);
        for name in ["CAPACITY", "MAPPING_CAPACITY"] {
            let read = |text: &str, _: &_| match cx.find(text) {
                Some(id) => Ok((None, Some(id))),
                None => capacity(text).map(|limit| (Some(limit), None)),
            };
            if let Some(read) = args.with(name, false, false, read)? {
                (limit, shares) = read;
            }
        }
        let timeouts = timeouts(args, V::FINDS, cx.simulated_time())?;
        let annotate = args.k_or("DST_ANNO", true)?;
        let reply_anno = args.k::<Anno<1>>("REPLY_ANNO")?.map(|anno| usize::from(anno.0));
        let log = MappingLog::from_args(args, cx)?;
        // A hot swap to the same text may come with other mappers and patterns. `take_state` keeps the flows.
        let shared = cx.shared_if(|_| false, Shared::default);
        let shared = match shared.get() {
            Some(made) => {
                // It comes from another worker's replica.
                args.ignore_rest();
                Arc::clone(made)
            }
            None => {
                let made = make(args, cx, V::FINDS, (timeouts, limit.unwrap_or(DEFAULT_CAPACITY)))?;
                shared.fill(made.logging(log))
            }
        };
        if let Some(id) = shares {
            let (own, other) = (Arc::clone(&shared), cx.shared_later::<Shared>(id));
            cx.before_start(move || {
                let other = other().ok_or("bad MAPPING_CAPACITY")?;
                own.join(other.get().ok_or("bad MAPPING_CAPACITY")?);
                Ok(())
            });
        }
        let (inputs, outputs) = (cx.n_inputs(), cx.n_outputs());
        cx.publish(Arc::new(SharedRewriter { translator: Arc::clone(&shared), inputs, outputs }));
        Ok(Self {
            version: shared.version(),
            flows: shared.flows(),
            inputs: shared.inputs(),
            shared,
            annotate,
            reply_anno,
            splitter: Splitter::new(cx.n_outputs()),
            cursor: Cursor::default(),
            share: (cx.worker().0, cx.workers().max(1)),
            ahead: Ahead::new(),
            outputs: Vec::with_capacity(MAX_BATCH),
            coarse: timeouts.coarse(),
            variant: PhantomData,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Shared>("size", |s, _| Ok(s.made()?.size().to_string()));
        h.shared_read::<Shared>("nmappings", |s, _| Ok(s.made()?.made().to_string()));
        h.shared_read::<Shared>("table_size", |s, _| Ok(s.made()?.made().to_string()));
        h.shared_read::<Shared>("mapping_failures", |s, _| Ok(s.made()?.failures().to_string()));
        h.shared_read::<Shared>("patterns", |s, _| Ok(s.made()?.patterns()));
        h.shared_read::<Shared>("memory", |s, _| Ok(s.made()?.flows().bytes().to_string()));
        h.shared_read::<Shared>("capacity", |s, _| Ok(s.made()?.limit().to_string()));
        h.shared_write::<Shared>("capacity", |s, text| {
            s.made()?.set_limit(capacity(text)?);
            Ok(())
        });
        let numbered = |s: &Shared| Dynamic {
            readable: (0..s.made().map_or(0, Translator::n_inputs)).map(|n| format!("pattern{n}")).collect(),
            writable: true,
            any: false,
        };
        h.called_any::<Shared>(numbered, |s, _, args| {
            let number = args.name.strip_prefix("pattern").and_then(|number| number.parse().ok());
            let input = number.ok_or_else(|| HandlerError::NoHandler(args.name.to_owned()))?;
            let made = s.made().map_err(HandlerError::Failed)?;
            if !args.write {
                return Ok(made.pattern(input));
            }
            made.set_input(input, args.value).map_err(HandlerError::Failed)?;
            Ok(String::new())
        });
        h.shared_write::<Shared>("clear", |s, _| {
            s.made()?.clear();
            Ok(())
        });
        h.shared_read::<Shared>("log_written", |s, _| {
            Ok(s.made()?.log().map_or(0, MappingLog::written).to_string())
        });
        h.shared_read::<Shared>("log_lost", |s, _| {
            Ok(s.made()?.log().map_or(0, MappingLog::lost).to_string())
        });
        h.shared_write::<Shared>("log_reopen", |s, _| {
            s.made()?.log().into_iter().for_each(MappingLog::reopen);
            Ok(())
        });
        // Those of the class are between Valiant's own and those of all rewriters.
        V::handlers(h);
        h.listed(&[
            "table_size",
            "nmappings D",
            "mapping_failures",
            "patterns",
            "size",
            "capacity",
            "clear",
            "*",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.shared.log().into_iter().for_each(|log| log.note_time(cx.now_ns()));
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
        self.refresh();
    }
}

impl<V: Variant> Rewriter<V> {
    #[cold]
    fn refresh(&mut self) {
        self.version = self.shared.version();
        (self.flows, self.inputs) = (self.shared.flows(), self.shared.inputs());
    }

    /// Rewrites the packets of a batch that have come in at an input, and finds their outputs.
    fn rewrite(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx<'_>) {
        if self.version != self.shared.version() {
            self.refresh();
        }
        let flows = &*self.flows;
        let now = time(cx.now_ns());
        self.shared.note_time(now);
        self.outputs.clear();
        self.ahead.begin(flows, batch.iter().map(|packet| V::key(packet)));
        let what = self.inputs.get(input);
        let mut admitted = 0;
        for (n, packet) in batch.iter_mut().enumerate() {
            if n.is_multiple_of(TOGETHER) {
                for _ in 0..if n == 0 { 2 } else { 1 } {
                    self.ahead.ask(flows, |key| {
                        let random = cx.random();
                        (random, what.and_then(|what| self.shared.expected_reply(what, key, random)))
                    });
                }
            }
            let (Some((key, _)), Some(places)) = (self.ahead.keys.get(n), self.ahead.places.get(n)) else {
                break;
            };
            let (found, key) = match flows.find(key, *places) {
                Some(found) if key.kind != 0 => (found, *key),
                _ => {
                    let random = self.ahead.new.get(admitted).filter(|new| new.at == n).map(|new| new.random);
                    admitted += usize::from(random.is_some());
                    let other = V::other_key(packet).filter(|_| key.kind != 0);
                    match other.and_then(|other| flows.get(&other).map(|found| (found, other))) {
                        Some(entry) => entry,
                        None => {
                            let random = random.unwrap_or_else(|| cx.random());
                            let mark = self.reply_anno.and_then(|at| packet.load_user::<1>(at));
                            let new = (now, random, mark.map_or(0, |[mark]| mark));
                            match admit(&self.shared, flows, &self.inputs, (input, key), new) {
                                Ok(found) => (found, *key),
                                Err(output) => {
                                    self.outputs.push(output);
                                    continue;
                                }
                            }
                        }
                    }
                }
            };
            let segment = V::translate(packet, &key, &found);
            if self.annotate && V::redirects(&found) {
                packet.set_dst_ip(found.to.dst.to_ne_bytes());
            }
            if let Some(at) = self.reply_anno
                && found.is_reply()
            {
                packet.store_user(at, [found.mark()]);
            }
            if found.is_noted() {
                self.shared.renumber(packet, &key, &found);
            }
            let flags =
                if key.kind == TCP { tcp_flags(found.flags(), segment) } else { counted(found.flags()) };
            if segment.flags & wire::tcp::RST != 0 {
                both_done(flows, &key, &found, now);
            }
            flows.touch(&found, now, flags, self.coarse);
            self.outputs.push(found.output().into());
        }
    }
}

/// After a reset, neither side goes on.
#[cold]
fn both_done(flows: &Flows, key: &Key, found: &Found, now: u32) {
    if let Some(other) = flows.get(&found.other_key(key)) {
        flows.touch(&other, now, other.flags() | DONE, 0);
    }
}

/// What becomes of a packet of no flow: its new flow, or its output.
#[cold]
fn admit(
    shared: &Translator,
    flows: &Flows,
    inputs: &[Input],
    (input, key): (usize, &Key),
    new: (u32, u64, u8),
) -> Result<Found, usize> {
    if key.kind == 0 {
        return match inputs.get(input) {
            Some(Input::Pass(output)) => Err(usize::from(*output)),
            _ => Err(DROP + 3),
        };
    }
    match shared.admit(flows, inputs, input, key, new) {
        Admitted::Flow(found) => Ok(found),
        Admitted::Output(output) => Err(output.into()),
        Admitted::Dropped(why) => Err(match why {
            Why::NoMapping => DROP,
            Why::NoPort => DROP + 1,
            Why::Full => DROP + 2,
        }),
    }
}

fn are_same(outputs: &[usize]) -> bool {
    outputs.split_first().is_none_or(|(first, rest)| rest.iter().all(|output| output == first))
}

impl<V: Variant> Vector for Rewriter<V> {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.rewrite(port, &mut batch, cx);
        // Usually all packets of a batch have the same output, or go to the same input; then the batch is not
        // split.
        let is_whole = are_same(&self.outputs) || {
            self.splitter.join(&mut self.outputs, cx);
            are_same(&self.outputs)
        };
        if let Some(&first) = self.outputs.first()
            && first < self.splitter.outputs()
            && is_whole
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
