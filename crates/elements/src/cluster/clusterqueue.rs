//! # ClusterQueue
//! Stores packets in a queue for each input node of the cluster, and serves the queues fairly by bytes.
//!
//! If a line is oversubscribed, a common queue gives most of it to the node that sends most. With a queue for
//! each input node, every input node gets its fair share of the line in bytes, and what it does not use goes
//! to the others. `valiant cluster` writes a ClusterQueue before each link, and in place of each Queue before
//! an external port of the node.
//!
//! ## Synopsis
//! `ClusterQueue(CLUSTER [, CAPACITY, PORT, OFFSET, QUANTUM])`
//!
//! ## Arguments
//! - `CLUSTER` (*element*): the ClusterInfo of this node.
//! - `CAPACITY` (*unsigned int*, packets, default 1000): how many packets it holds, all queues together. The
//!   queue of one input node may use at most four times the free capacity: a single one can use four fifths
//!   of the whole. A packet above that goes to output 1 if there is one, else it is dropped. The first time
//!   this happens, the element prints `overflow`.
//! - `PORT` (*int*, keyword): packets leave by this external port of the node, from 0. Their input node is in
//!   the annotation that ClusterDecap sets, and ClusterInfo's `left` counts them.
//! - `OFFSET` (*int*, keyword, default 0): without `PORT`, packets are internal frames, with so many bytes
//!   before their Ethernet header (50 behind a VXLANEncap and an ARPQuerier). Other packets, and packets
//!   without annotation, count as this node's own.
//! - `QUANTUM` (*int*, keyword, bytes, default 1538): the bytes by which an input node's deficit counter
//!   grows in each round. With the length of the longest packet, each round sends at least one packet of
//!   every node.
//!
//! ## Ports
//! One push input, one pull output, and an optional push output for packets that arrive when there is no
//! capacity. While the queue is empty, consumers sleep. Sources continue to push when it is full. FromDevice
//! does not leave packets in the device because of losses here, as that would delay packets of all input
//! nodes. Packets of one input node stay in order.
//!
//! ## Handlers
//! - `inputs` (read): a line for each input node that has sent packets: the node, packets in its queue,
//!   packets and bytes that have left, packets that were dropped.
//! - `length` (read): packets in all queues.
//! - `highwater_length` (read): the greatest `length` so far; with several workers, that of the worker with
//!   the longest queues.
//! - `capacity` (read/write): the `CAPACITY` argument. Packets that are queued above a reduced capacity are
//!   kept.
//! - `drops` (read): packets that arrived when there was no capacity.
//! - `reset_counts` (write): sets `drops` to zero and `highwater_length` to the present length.
//! - `reset` (write): empties the queues; their packets go to output 1 if there is one.
//!
//! ## Threads
//! Each worker has its own queues of this capacity. If packets come in on one worker and leave on another,
//! all workers share them under a lock, which is taken once for each batch.
//!
//! ## Example
//! ```click
//! cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps);
//! // From node 1, for node 0, port 1, next hop 9.
//! InfiniteSource(DATA \<c20000010009 c60010000000 0800 45000014>, LIMIT 3, STOP true)
//!   -> q :: ClusterQueue(cluster, 500) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! ClusterInfo, ClusterDecap, Queue, DRRSched

use super::engine::counts::WorkerCounts;
use super::engine::inputnode::input_node;
use super::engine::shares::Shares;
use super::engine::state::state_of;
use crate::plumbing::engine::text;
use crate::prelude::*;
use crate::queues::engine::store::{Depth, PATIENCE};
use cluster::{NodeId, SourceCode};
use locks::IgnorePoison;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What an input node may send in a round: the longest usual frame.
const QUANTUM: u32 = 1538;
const MAX_OFFSET: u16 = 1024;

/// How the input node of a packet is found.
#[derive(Clone, Copy)]
enum InputFrom {
    /// By the annotation.
    Annotation,
    /// By the source address of the frame that begins this many bytes after the packet's start.
    Frame(usize),
}

/// Counters for the packets of an input node; written by one worker.
#[derive(Default)]
struct NodeCounter {
    arrived: AtomicU64,
    left: AtomicU64,
    left_bytes: AtomicU64,
    lost: AtomicU64,
}

/// These counters for each worker and input node.
struct NodeCounters(Box<[Box<[NodeCounter]>]>);

fn bump(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl NodeCounters {
    fn new(workers: usize, nodes: u16) -> Self {
        Self((0..workers).map(|_| (0..nodes).map(|_| NodeCounter::default()).collect()).collect())
    }
    #[inline]
    fn of(&self, worker: usize, node: u16) -> Option<&NodeCounter> {
        self.0.get(worker)?.get(usize::from(node))
    }
    fn text(&self) -> String {
        let mut text = String::new();
        for node in 0..self.0.first().map_or(0, |counters| counters.len()) {
            let sum = |of: fn(&NodeCounter) -> &AtomicU64| {
                let each = self.0.iter().filter_map(|counters| counters.get(node));
                each.fold(0_u64, |sum, counter| sum.wrapping_add(of(counter).load(Ordering::Relaxed)))
            };
            // Departures are read first: then later departures cannot make the difference negative.
            let (left, bytes, lost) = (sum(|b| &b.left), sum(|b| &b.left_bytes), sum(|b| &b.lost));
            let arrived = sum(|b| &b.arrived);
            if arrived > 0 || lost > 0 {
                let _ = writeln!(text, "{node} {} {left} {bytes} {lost}", arrived.saturating_sub(left));
            }
        }
        text
    }
}

enum Place {
    Own(Shares),
    /// The queues if packets come in on one worker and leave on another.
    Common(Arc<Mutex<Shares>>),
}

/// Access to the queues, locked if they are shared.
enum Held<'a> {
    Own(&'a mut Shares),
    Common(MutexGuard<'a, Shares>),
}

impl Place {
    #[inline]
    fn hold(&mut self) -> Held<'_> {
        match self {
            Self::Own(shares) => Held::Own(shares),
            Self::Common(shares) => Held::Common(shares.lock().ignore_poison()),
        }
    }
    fn len(&mut self) -> usize {
        self.hold().len()
    }
}

impl std::ops::Deref for Held<'_> {
    type Target = Shares;
    #[inline]
    fn deref(&self) -> &Shares {
        match self {
            Self::Own(shares) => shares,
            Self::Common(shares) => shares,
        }
    }
}

impl std::ops::DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shares {
        match self {
            Self::Own(shares) => shares,
            Self::Common(shares) => shares,
        }
    }
}

/// The `ClusterQueue` element.
pub struct ClusterQueue {
    me: NodeId,
    nodes: u16,
    input_from: InputFrom,
    place: Place,
    depth: Arc<Depth>,
    counters: Arc<NodeCounters>,
    /// The counters of packets that leave by an external port.
    counts: Option<Arc<WorkerCounts>>,
    worker: usize,
    empty_pulls: u8,
}

/// Returns a different number for each line.
fn seed(me: NodeId, name: &str) -> u64 {
    // FNV-1a.
    let bytes = me.0.to_be_bytes().into_iter().chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl InputFrom {
    /// The node by which a packet entered the cluster.
    #[inline]
    fn input(self, packet: &Packet, nodes: u16) -> Option<NodeId> {
        match self {
            Self::Annotation => input_node(packet, nodes),
            Self::Frame(at) => {
                let source = packet.data().get(at + 6..)?.first_chunk::<6>()?;
                SourceCode::decode(*source, nodes).ok().map(|source| source.node)
            }
        }
    }
}

impl ClusterQueue {
    /// Takes up to `max` packets, which leave the queue. Returns how many were taken, and how many remain.
    fn take(&mut self, max: usize, out: &mut Batch) -> (usize, usize) {
        let Self { place, counters, counts, worker, depth, .. } = self;
        let left = |node, packets, bytes| {
            if let Some(counter) = counters.of(*worker, node) {
                bump(&counter.left, packets);
                bump(&counter.left_bytes, bytes);
            }
            if let Some(left) = counts.as_ref().and_then(|counts| counts.left(NodeId(node))) {
                left.add(packets, bytes);
            }
        };
        let (mut of, mut packets, mut bytes) = (0, 0, 0);
        let (before, mut shares) = (out.len(), place.hold());
        while out.len() - before < max {
            let Some((node, packet)) = shares.pull() else { break };
            // Often several packets of one node follow each other.
            if node != of {
                left(of, packets, bytes);
                (of, packets, bytes) = (node, 0, 0);
            }
            packets += 1;
            bytes += packet.len() as u64;
            out.push(packet);
        }
        let length = shares.len();
        drop(shares);
        left(of, packets, bytes);
        depth.left(*worker, out.len() - before);
        (out.len() - before, length)
    }
    /// Takes over the packets of the queues that these replace. They were counted when they arrived.
    fn move_here(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        let (same_depth, same_books) =
            (Arc::ptr_eq(&self.depth, &old.depth), Arc::ptr_eq(&self.counters, &old.counters));
        let (mut moved, mut lost) = (0, 0);
        while let Some((node, packet)) = old.place.hold().pull() {
            let counter = self.counters.of(self.worker, node);
            match self.place.hold().push(node, packet) {
                Ok(()) => {
                    moved += 1;
                    counter.iter().filter(|_| !same_books).for_each(|b| bump(&b.arrived, 1));
                }
                Err(packet) => {
                    lost += 1;
                    counter.iter().for_each(|b| bump(&b.lost, 1));
                    // The packet is no longer in the queue.
                    counter.iter().filter(|_| same_books).for_each(|b| bump(&b.arrived, u64::MAX));
                    self.depth.dropped(self.worker);
                    cx.drop(packet, drops::QUEUE_FULL);
                }
            }
        }
        if same_depth {
            self.depth.left(self.worker, lost);
        } else {
            self.depth.arrived(self.worker, moved);
        }
    }
    /// Notifies consumers after packets have come in.
    fn pushed(&mut self, length: usize, cx: &mut Cx<'_>) {
        self.depth.reached(self.worker, length);
        if length > 0 {
            cx.set_nonempty(true);
        }
    }
    /// Notifies consumers after a pull that returned `got` packets and left `length`.
    fn pulled(&mut self, (got, length): (usize, usize), cx: &mut Cx<'_>) {
        if length > 0 || got > 0 && cx.exact() {
            self.empty_pulls = 0;
        } else if self.empty_pulls >= PATIENCE || !cx.exact() {
            cx.set_nonempty(false);
        } else {
            self.empty_pulls += 1;
        }
    }
}

impl Element for ClusterQueue {
    const CLASS: &'static str = "ClusterQueue";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/lh";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Empty;
    // Elements that use a queue's length look for it when they are configured.
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::DATA.with(Fields::AGGREGATE);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        drops::QUEUE_FULL.when("there was no room for the packet"),
        drops::QUEUE_RESET.when("the handler `reset` emptied the queue"),
    ];
    const MANUAL: &'static str = manual!("cluster/clusterqueue");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let state = state_of(args, cx)?;
        let capacity = args.p::<u32>("CAPACITY")?.unwrap_or(1000) as usize;
        let port = args.k::<u8>("PORT")?;
        let offset = args.k_or::<u16>("OFFSET", 0)?;
        let quantum = args.k_or::<u32>("QUANTUM", QUANTUM)?;
        if quantum == 0 {
            return Err(args.error("QUANTUM: a turn of 0 bytes sends nothing"));
        }
        if offset > MAX_OFFSET || port.is_some() && offset > 0 {
            return Err(args.error(format!("OFFSET: up to {MAX_OFFSET} bytes, and not with PORT")));
        }
        let (me, nodes, worker) = (state.me(), state.nodes(), cx.worker().0);
        let (workers, common) = (cx.workers(), cx.crosses_workers());
        let seed = seed(me, cx.name());
        let make = || Shares::new(nodes, capacity, quantum, seed);
        let place = if common {
            let mut shares = cx.shared(|| Mutex::new(make()));
            // The configuration that this one replaces may have had another number of nodes.
            let differs =
                |shares: &Mutex<Shares>| shares.lock().ignore_poison().nodes() != usize::from(nodes);
            if differs(&shares) {
                shares = Arc::new(Mutex::new(make()));
                cx.publish(Arc::clone(&shares));
            }
            cx.holds_together(capacity);
            Place::Common(shares)
        } else {
            cx.holds(capacity);
            Place::Own(make())
        };
        let mut depth = cx.shared(|| Depth::new(workers, common));
        if !depth.is_of(workers, common) {
            // The configuration that this one replaces may have used its workers differently.
            depth = Arc::new(Depth::new(workers, common));
            cx.publish(Arc::clone(&depth));
        }
        let mut counters = cx.shared(|| NodeCounters::new(workers, nodes));
        if counters.of(workers - 1, nodes - 1).is_none() {
            counters = Arc::new(NodeCounters::new(workers, nodes));
            cx.publish(Arc::clone(&counters));
        }
        let input_from = if port.is_some() { InputFrom::Annotation } else { InputFrom::Frame(offset.into()) };
        let counts = port.map(|_| state.counts(worker));
        Ok(Self { me, nodes, input_from, place, depth, counters, counts, worker, empty_pulls: 0 })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<NodeCounters>("inputs", |counters, _| Ok(counters.text()));
        h.shared_read::<Depth>("length", |d, _| Ok(d.total().to_string()));
        h.shared_read::<Depth>("highwater_length", |d, _| Ok(d.highwater().to_string()));
        h.shared_read::<Depth>("drops", |d, _| Ok(d.drops().to_string()));
        h.read_with("capacity", Combine::First, |e, _, _| Ok(e.place.hold().capacity().to_string()));
        h.write("capacity", |e, v, _| {
            let capacity = text::value::<u32>(v, "CAPACITY: invalid number")?;
            e.place.hold().set_capacity(capacity as usize);
            Ok(())
        });
        h.write("reset_counts", |e, _, _| {
            let length = e.place.len();
            e.depth.reset(e.worker, length);
            Ok(())
        });
        h.write("reset", |e, _, cx| {
            let mut packets = cx.spare_batch();
            let (_, length) = e.take(usize::MAX, &mut packets);
            packets.drain(..).for_each(|p| cx.fail(p, drops::QUEUE_RESET));
            cx.recycle(packets);
            e.pulled((0, length), cx);
            Ok(())
        });
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        let same = match (&self.place, &old.place) {
            (Place::Common(a), Place::Common(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        if !same {
            self.move_here(old, cx);
        }
        cx.set_nonempty(true);
    }
}

impl Vector for ClusterQueue {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let Self { place, input_from, me, nodes, counters, depth, worker, .. } = self;
        let mut refused = cx.spare_batch();
        let (mut shares, mut arrived) = (place.hold(), 0);
        for packet in batch.drain(..) {
            let node = input_from.input(&packet, *nodes).unwrap_or(*me).0;
            let counter = counters.of(*worker, node);
            match shares.push(node, packet) {
                Ok(()) => {
                    arrived += 1;
                    counter.iter().for_each(|b| bump(&b.arrived, 1));
                }
                Err(packet) => {
                    counter.iter().for_each(|b| bump(&b.lost, 1));
                    refused.push(packet);
                }
            }
        }
        // This happens before another worker can take the packets, because the length is a difference.
        depth.arrived(*worker, arrived);
        let length = shares.len();
        // The other workers need not wait until the packets that do not fit have been dropped.
        drop(shares);
        for packet in refused.drain(..) {
            if depth.drops() == 0 {
                cx.log(Level::WARN, &format!("{} :: {}: overflow", cx.name(), cx.class()));
            }
            depth.dropped(*worker);
            cx.fail(packet, drops::QUEUE_FULL);
        }
        self.pushed(length, cx);
        cx.recycle(refused);
        cx.recycle(batch);
    }

    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let got = self.take(max, out);
        if got.0 > 0 && matches!(self.place, Place::Common(_)) {
            cx.count_changed_workers(self.depth.changed(self.worker, got.0));
        }
        self.pulled(got, cx);
    }
}
