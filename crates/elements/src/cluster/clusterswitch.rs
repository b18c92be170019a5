//! # ClusterSwitch
//! Moves frames between the nodes of a cluster: the switch of which every node has a part.
//!
//! A packet that came in here leaves by the link to its output node, or by that to an intermediate node, from
//! where it goes on to its output node: Valiant load balancing, so that no link and no node has to carry more
//! than its share, whatever the traffic. Which way it goes is decided here, from what this node knows by
//! itself (see ClusterInfo, `MODE` and `DELTA`). Frames that come from links are moved by their Ethernet
//! addresses; nothing behind these is read. A packet's flow is known by the hash that its network card has
//! computed, else by that of its IP addresses and ports.
//!
//! In a fly (ClusterInfo, `TOPOLOGY`) a pair of nodes with external ports is what a link is in a mesh.
//! Between them packets pass servers that have none, and find the way by their addresses: the source address
//! carries the intermediate node and a number that the packets of a flow have in common, by which one of
//! several links is chosen. So what came in order stays in order. Flowlets are dealt out to these links by
//! bytes, here for the intermediate node too; one leaves a link that has had 24 KB more than another.
//!
//! ## Synopsis
//! `ClusterSwitch(CLUSTER)`
//!
//! ## Arguments
//! - `CLUSTER` (*element*): the ClusterInfo of this node.
//!
//! ## Ports
//! Push. Input 0: this node's own packets, from ClusterEncap; nothing else is taken. Input 1: frames from
//! links. Output J, for each node J: the link to that node, if there is one; the one with this node's own
//! number: frames that leave the cluster here, for ClusterDecap. One output more, if it is there: this node's
//! own packets for an output node that cannot be reached now, as they came.
//!
//! Everything that comes to input 1 is believed: connect links whose neighbours are authenticated
//! (ClusterLink), and no external ports. A host on an external port cannot send internal frames as long as
//! its port's packets go through HostEtherFilter or are stripped of their Ethernet header, as in every IP
//! router.
//!
//! ## Handlers
//! - `load` (read): a line for each worker and other node: the worker, the node, bits per second over the
//!   link there lately.
//!
//! ## Threads
//! Each worker has its own, with its part of the rates. Where packets are numbered for a Resequencer, the
//! workers share the numbers: one atomic addition for each run of packets to one external port.
//!
//! ## Example
//! ```click
//! cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps);
//! vlb :: ClusterSwitch(cluster);
//! InfiniteSource(DATA \<45000014 00000000 40ff0000 0a000101 0a000209>, LIMIT 3, STOP true)
//!   -> GetIPAddress(16) -> ClusterEncap(cluster, NODE 1, PORT 0, NET 10.0.2.0/24) -> vlb;
//! Idle -> [1] vlb;
//! vlb [0] -> ClusterDecap(cluster, 10.0.1.0/24) -> Discard;
//! vlb [1] -> Print(link1) -> Discard;
//! ```
//!
//! ## See also
//! ClusterInfo, ClusterEncap, ClusterDecap

use super::engine::counts::{FLOWLETS, WorkerCounts};
use super::engine::spread::{Lost, Spread, Way};
use super::engine::state::{ClusterState, state_of};
use crate::devices::engine::rss::{Product, flow_hash};
use crate::prelude::*;
use cluster::balancer::FlowletCounts;
use cluster::lanes::{Lane, Lanes};
use cluster::mac::Alike;
use cluster::topology::{Carried, Onward};
use cluster::{Balancer, Choice, MacCode, NodeId, Outgoing, Phase as Leg, Rng, SourceCode, Ways};
use std::fmt::Write;
use std::sync::Arc;

/// The `ClusterSwitch` element.
pub struct ClusterSwitch {
    state: Arc<ClusterState>,
    counts: Arc<WorkerCounts>,
    me: NodeId,
    nodes: u16,
    /// The source address of this node's packets.
    own: [u8; 6],
    balancer: Balancer,
    rng: Rng,
    /// Of what is dead, as the balancer and `onward` know it.
    generation: u64,
    /// For each node where frames in their first phase go.
    onward: Box<[Way]>,
    /// In a fly, the links towards the nodes with external ports.
    ways: Option<Ways>,
    /// And which of them own packets take.
    lanes: Option<Lanes>,
    /// Where own packets go that nowhere leads.
    unreachable: Way,
    /// Whether the balancer looks at flows.
    flows: bool,
    /// Whether the node can have packets of its own: it has external ports.
    decides: bool,
    spread: Spread,
    packets: Vec<Outgoing>,
    choices: Vec<Choice>,
    /// What of the flowlets has been counted already.
    counted: FlowletCounts,
}

/// Destination and source.
#[inline]
fn addresses(data: &[u8]) -> Result<([u8; 6], [u8; 6]), Lost> {
    let both = data.first_chunk::<12>().ok_or(Lost::TooShort)?;
    let [to @ .., _, _, _, _, _, _] = *both;
    let [_, _, _, _, _, _, from @ ..] = *both;
    Ok((to, from))
}

/// Where a frame from a link goes. Reads and writes nothing but the destination address.
#[inline]
fn transit(onward: &[Way], me: NodeId, nodes: u16, packet: &mut Packet) -> Way {
    let both = packet.data_mut().first_chunk_mut::<12>();
    let Some(to) = both.and_then(|b| b.first_chunk_mut::<6>()) else { return Way::lost(Lost::TooShort) };
    if let Some(node) = MacCode::hand_on(to) {
        return onward.get(node.index()).copied().unwrap_or(Way::lost(Lost::NoNode));
    }
    match MacCode::decode(*to, nodes) {
        Ok(code) if code.node == me && code.phase != Leg::Control => Way::output(me.index()),
        Ok(_) => Way::lost(Lost::NotHere),
        Err(why) => Way::lost(why.into()),
    }
}

/// [`transit`] for the first packets of a vector, as long as they go the same way. Returns how many, their
/// way, and their bytes.
#[inline]
fn move_alike(onward: &[Way], me: NodeId, nodes: u16, batch: &mut Batch) -> (usize, Way, u64) {
    let none = (0, Way::lost(Lost::NoNode), 0);
    let first = batch.first().and_then(|packet| addresses(packet.data()).ok());
    let Some(Ok(code)) = first.map(|(to, _)| MacCode::decode(to, nodes)) else { return none };
    let (like, way) = match (code.phase, onward.get(code.node.index())) {
        (Leg::First, Some(way)) => (Alike::passing(code.node), *way),
        (Leg::Direct | Leg::Second, _) if code.node == me => (Alike::arriving(me), Way::output(me.index())),
        _ => return none,
    };
    let (mut alike, mut bytes) = (0, 0);
    for packet in batch.iter_mut() {
        let long = packet.len() as u64;
        let to = packet.data_mut().first_chunk_mut::<12>().and_then(|both| both.first_chunk_mut());
        if !to.is_some_and(|to| like.take(to)) {
            break;
        }
        alike += 1;
        bytes += long;
    }
    (alike, way, bytes)
}

impl ClusterSwitch {
    /// Looks whether something has died or come back: once for each vector.
    #[inline]
    fn look(&mut self) {
        let generation = self.state.outages().generation();
        if generation != self.generation {
            self.apply(generation);
        }
    }
    #[cold]
    fn apply(&mut self, generation: u64) {
        let failures = self.state.outages().failures();
        let topology = self.state.topology();
        // All have been made for the same number of nodes.
        if topology.between(&failures).and_then(|between| self.balancer.apply(&between)).is_ok() {
            self.generation = generation;
        }
        if !topology.is_mesh() {
            self.ways = Ways::with(topology, self.me, &failures).ok();
        }
        for (node, way) in (0..self.nodes).map(NodeId).zip(&mut self.onward) {
            let up = node == self.me || failures.link_up(self.me, node);
            *way = if up { Way::output(node.index()) } else { Way::lost(Lost::Unreachable) };
        }
    }

    /// [`transit`] in a fly.
    #[inline]
    fn transit_fly(&mut self, now_ns: u64, packet: &mut Packet) -> Way {
        let both = match addresses(packet.data()) {
            Ok(both) => both,
            Err(why) => return Way::lost(why),
        };
        let code = MacCode::decode(both.0, self.nodes);
        let (code, from) = match (code, SourceCode::decode(both.1, self.nodes)) {
            (Ok(code), Ok(from)) => (code, from),
            (Err(why), _) | (_, Err(why)) => return Way::lost(why.into()),
        };
        let Some(ways) = self.ways.as_ref().filter(|_| code.phase != Leg::Control) else {
            return Way::lost(Lost::NotHere);
        };
        match ways.onward(code, Carried::decode(from.number)) {
            Onward::Here => Way::output(self.me.index()),
            Onward::To(link, leg) => {
                if leg != code.phase {
                    if let Some(to) = packet.data_mut().first_chunk_mut::<6>() {
                        MacCode::set_phase(to, leg);
                    }
                    // Here its intermediate node hands it on, to a pair that has its share of the links.
                    self.balancer.carry(now_ns, code.node, packet.len() as u64);
                }
                Way::output(link.index())
            }
            Onward::Unreachable => Way::lost(Lost::Unreachable),
            Onward::Astray => Way::lost(Lost::NotHere),
        }
    }

    fn push_links(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        if self.ways.is_some() {
            return self.push_links_fly(batch, cx);
        }
        let now_ns = cx.run_ns();
        let Self { spread, onward, counts, balancer, me, nodes, .. } = self;
        let (me, nodes) = (*me, *nodes);
        let mut each = |output, batch: Batch, bytes, cx: &mut Cx<'_>| {
            if let Some(to) = count_transit(counts, me, nodes, output, batch.len(), bytes) {
                balancer.carry(now_ns, to, bytes);
            }
            cx.output_batch(output, batch);
        };
        // Mostly a vector goes one way as a whole, and each of its packets is looked at once.
        let (alike, way, bytes) = move_alike(onward, me, nodes, &mut batch);
        match way.node(nodes) {
            Some(_) if alike == batch.len() => each(way.index(), batch, bytes, cx),
            _ => spread.sort(batch, (alike, way), cx, |packet| transit(onward, me, nodes, packet), each),
        }
    }

    fn push_links_fly(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        let now_ns = cx.run_ns();
        self.spread.ways.clear();
        for packet in batch.iter_mut() {
            let way = self.transit_fly(now_ns, packet);
            self.spread.ways.push(way);
        }
        let Self { spread, counts, me, nodes, .. } = self;
        spread.deliver(batch, cx, |output, batch, bytes, cx| {
            count_transit(counts, *me, *nodes, output, batch.len(), bytes);
            cx.output_batch(output, batch);
        });
    }

    /// What the balancer has to know of a packet from here. What is refused is for this node: nothing is
    /// decided about it.
    #[inline]
    fn outgoing(&self, packet: &Packet) -> (Outgoing, Way) {
        let bytes = packet.len() as u32;
        let refused = |why| (Outgoing { flow: 0, bytes, output: self.me }, Way::lost(why));
        let (to, from) = match addresses(packet.data()) {
            Ok(both) => both,
            Err(why) => return refused(why),
        };
        let output = match MacCode::decode(to, self.nodes) {
            Ok(code) if from == self.own && self.decides => code.node,
            Ok(_) => return refused(Lost::NotOurs),
            Err(why) => return refused(why.into()),
        };
        let flow = match packet.rss_hash() {
            _ if !self.flows || output == self.me => 0,
            Some(hash) => hash,
            None => flow_hash(&Product, packet.data()),
        };
        (Outgoing { flow, bytes, output }, self.unreachable)
    }

    fn push_own(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        let mut packets = std::mem::take(&mut self.packets);
        packets.clear();
        self.spread.ways.clear();
        for packet in &batch {
            let (outgoing, way) = self.outgoing(packet);
            packets.push(outgoing);
            self.spread.ways.push(way);
        }
        self.choices.clear();
        self.choices.resize(packets.len(), Choice::Unreachable);
        self.balancer.decide(cx.run_ns(), &packets, &mut self.choices);
        let decided = self.choices.iter().zip(&packets);
        for ((packet, way), (choice, outgoing)) in batch.iter_mut().zip(&mut self.spread.ways).zip(decided) {
            if *way != self.unreachable {
                continue;
            }
            let via = if let Choice::Via(via) = choice { Some(*via) } else { None };
            let fly = match (&self.ways, &mut self.lanes) {
                (Some(ways), Some(lanes)) => {
                    // Without flowlets each packet is decided on by itself, here and on its way.
                    let flow = if self.flows { outgoing.flow } else { self.rng.number() as u32 };
                    Some((ways, lanes.choose(cx.run_ns(), flow, outgoing.output, via, outgoing.bytes)))
                }
                _ => None,
            };
            *way = send(&self.counts, self.me, *choice, outgoing, fly, packet).unwrap_or(self.unreachable);
        }
        self.packets = packets;
        if self.state.identity().resequence {
            self.number(&mut batch);
        }
        self.count_flowlets();
        self.spread.deliver(batch, cx, |output, batch, _, cx| cx.output_batch(output, batch));
    }

    /// The stream that a packet is numbered in: those that go over links to one external port.
    fn stream(&self, batch: &[Packet], i: usize) -> Option<(NodeId, u8)> {
        self.spread.ways.get(i)?.node(self.nodes).filter(|link| *link != self.me)?;
        let (to, _) = addresses(batch.get(i)?.data()).ok()?;
        MacCode::decode(to, self.nodes).ok().map(|code| (code.node, code.port))
    }
    /// Numbers packets within their streams.
    fn number(&self, batch: &mut Batch) {
        let mut start = 0;
        while start < batch.len() {
            let Some((node, port)) = self.stream(batch, start) else {
                start += 1;
                continue;
            };
            let same = |i: &usize| self.stream(batch, *i) == Some((node, port));
            let end = start + 1 + (start + 1..batch.len()).take_while(same).count();
            let run = batch.get_mut(start..end).unwrap_or_default();
            if let Some(before) = self.state.number(node, port, run.len() as u64) {
                for (packet, n) in run.iter_mut().zip(before..) {
                    let source = SourceCode { node: self.me, number: SourceCode::number_after(n) }.encode();
                    if let (Some(front), Some(source)) = (packet.data_mut().first_chunk_mut::<12>(), source) {
                        front[6..].copy_from_slice(&source);
                    }
                }
            }
            start = end;
        }
    }

    fn count_flowlets(&mut self) {
        let now = self.balancer.flowlet_counts();
        if now != self.counted {
            let before = list(std::mem::replace(&mut self.counted, now));
            let now = list(now);
            self.counts.add_flowlets(std::array::from_fn(|i| now[i].wrapping_sub(before[i])));
        }
    }
}

/// Counts packets from links. Returns the node that they go on to, if they do not leave the cluster here.
#[inline]
fn count_transit(
    counts: &WorkerCounts,
    me: NodeId,
    nodes: u16,
    output: usize,
    packets: usize,
    bytes: u64,
) -> Option<NodeId> {
    if output == me.index() {
        counts.delivered.add(packets as u64, bytes);
        return None;
    }
    let to = NodeId(u16::try_from(output).ok().filter(|n| *n < nodes)?);
    counts.node(to)?.transit.add(packets as u64, bytes);
    Some(to)
}

/// Writes on which leg of its way a packet from here is, and counts it. Returns the link; none if it has no
/// way.
#[inline]
fn send(
    counts: &WorkerCounts,
    me: NodeId,
    choice: Choice,
    outgoing: &Outgoing,
    fly: Option<(&Ways, Lane)>,
    packet: &mut Packet,
) -> Option<Way> {
    let (leg, mut link) = match choice {
        Choice::Local => (Leg::Direct, me),
        Choice::Direct => (Leg::Direct, outgoing.output),
        Choice::Via(via) => (Leg::First, via),
        Choice::Unreachable => return None,
    };
    if let Some((ways, lane)) = fly.filter(|_| link != me) {
        link = ways.at(link, lane.first)?;
        let source = SourceCode { node: me, number: lane.carried.encode() }.encode()?;
        *packet.data_mut().get_mut(6..)?.first_chunk_mut()? = source;
    }
    MacCode::set_phase(packet.data_mut().first_chunk_mut::<6>()?, leg);
    // What has no way is counted where it is dropped, so nothing fails from here on.
    let (output, first) = (counts.node(outgoing.output)?, counts.node(link)?);
    let bytes = outgoing.bytes.into();
    let straight = leg == Leg::Direct;
    (if straight { &output.direct } else { &output.balanced }).add(1, bytes);
    // In a mesh the link of what goes directly is the output's, and counted there.
    if link != me && (!straight || fly.is_some()) {
        first.over.add(1, bytes);
    }
    Some(Way::output(link.index()))
}

fn list(counts: FlowletCounts) -> [u64; FLOWLETS.len()] {
    let FlowletCounts { started, kept, moved, returned, spilled } = counts;
    [started, kept, moved, returned, spilled]
}

impl Element for ClusterSwitch {
    const CLASS: &'static str = "ClusterSwitch";
    const PORTS: &'static str = "2/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        drops::UNREACHABLE_NODE
            .when("it or all ways to it are dead; this node's own packets only without an output for them"),
        drops::NOT_MADE_HERE.when("on input 0, a source address that is not this node's"),
        drops::NOT_FOR_THIS_NODE.when(
            "on input 1, a frame for another node that comes directly or in its second phase, so \
             that it would be on its way for ever",
        ),
        drops::NOT_AN_INTERNAL_ADDRESS.when("the destination is not an address of the cluster"),
        drops::ANOTHER_VERSION.when("the destination is an address of a cluster of another version"),
        drops::NO_SUCH_NODE.when("the destination names a node that the cluster does not have"),
        drops::FRAME_TOO_SHORT.when("shorter than two addresses"),
    ];
    const ROLE: Role = Role::ClusterSwitch;
    const MANUAL: &'static str = manual!("cluster/clusterswitch");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let state = state_of(args, cx)?;
        let (me, nodes, outputs) = (state.me(), state.nodes(), cx.n_outputs());
        let least = usize::from(nodes);
        if outputs != least && outputs != least + 1 {
            return Err(args.error(format!(
                "{outputs} outputs for {nodes} nodes: one for each, and one more for own packets that cannot reach theirs"
            )));
        }
        let unreachable = if outputs > least { Way::output(least) } else { Way::lost(Lost::Unreachable) };
        let policy = state.share(cx.workers());
        let own = SourceCode { node: me, number: 0 }.encode().unwrap_or_default();
        let lanes = Lanes::new(state.topology(), me, policy.flows, policy.delta_ns);
        let vector = cx.vector();
        Ok(Self {
            counts: state.counts(cx.worker().0),
            me,
            nodes,
            own,
            flows: policy.delta_ns.is_some(),
            balancer: Balancer::new(policy, 0).map_err(|e| args.error(e.to_string()))?,
            rng: Rng::new(0),
            generation: 0,
            onward: vec![Way::lost(Lost::Unreachable); least].into(),
            ways: None,
            lanes,
            decides: state.topology().is_external(me),
            unreachable,
            spread: Spread::new(outputs, vector),
            packets: Vec::with_capacity(vector),
            choices: Vec::with_capacity(vector),
            counted: FlowletCounts::default(),
            state,
        })
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.rng = Rng::new(cx.random());
        Ok(())
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read_with("load", Combine::Concat, |e, _, cx| {
            let (worker, now_ns) = (cx.worker().0, cx.now_ns());
            let mut text = String::new();
            for node in (0..e.nodes).map(NodeId).filter(|node| *node != e.me) {
                let _ = writeln!(text, "{worker} {node} {}", e.balancer.load_bps(now_ns, node));
            }
            Ok(text)
        });
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.balancer.take_over(&mut old.balancer);
        if let (Some(new), Some(old)) = (&mut self.lanes, &mut old.lanes) {
            new.take_over(old);
        }
        self.counted = self.balancer.flowlet_counts();
        self.rng = old.rng.clone();
    }
}

impl Vector for ClusterSwitch {
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.look();
        if port == 0 { self.push_own(batch, cx) } else { self.push_links(batch, cx) }
    }
}
