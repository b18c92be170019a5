//! # ClusterSwitch
//! Moves frames between the nodes of a cluster: the switch of which every node has a part.
//!
//! A packet that enters the cluster at this node is sent over the link to its output node, or over the link
//! to an intermediate node, which forwards it to the output node. This is Valiant load balancing: no link and
//! no node has to carry more than its share, whatever the traffic. This node chooses the path, using only
//! what it knows itself (see ClusterInfo, `MODE` and `DELTA`). Frames from links are forwarded by their
//! Ethernet addresses; nothing after these is read. A packet's flow is identified by the hash that its
//! network card has computed, or else by a hash of its IP addresses and ports.
//!
//! In a fly (ClusterInfo, `TOPOLOGY`), a pair of nodes with external ports takes the place of a link of the
//! mesh. Between the two nodes, packets pass servers without external ports, which forward them by their
//! Ethernet addresses. The source address carries the intermediate node and a number that is the same for all
//! packets of a flow; where several links are possible, the number selects one. So packets of a flow stay in
//! order. This node distributes flowlets over these links evenly by bytes, also for the part of the path
//! after the intermediate node; a flowlet moves to another link if its link has carried 24 KB more than that
//! one.
//!
//! ## Synopsis
//! `ClusterSwitch(CLUSTER)`
//!
//! ## Arguments
//! - `CLUSTER` (*element*): the ClusterInfo of this node.
//!
//! ## Ports
//! Push. Input 0: this node's own packets, from ClusterEncap; others are dropped. Input 1: frames from links.
//! Output J, for each node J: the link to that node, if there is one. The output with this node's own number:
//! frames that leave the cluster here, for ClusterDecap. One further output is optional: it gets this node's
//! own packets for an output node that cannot be reached at present, unchanged.
//!
//! Frames on input 1 are trusted: connect only links whose neighbors are authenticated (ClusterLink), and no
//! external ports. A host on an external port cannot send internal frames as long as the packets of its port
//! pass through HostEtherFilter or are stripped of their Ethernet header, as in every IP router.
//!
//! ## Handlers
//! - `load` (read): a line for each worker and each other node: the worker, the node, and the recent rate of
//!   the link to that node in bits per second.
//!
//! ## Threads
//! Each worker has its own instance, with its part of the rates. If packets are numbered for a Resequencer,
//! the workers share the numbers: one atomic addition for each run of packets to one external port.
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
use super::engine::numbering::number;
use super::engine::spread::{Lost, Spread, Verdict};
use super::engine::state::{ClusterState, state_of};
use super::engine::transit::{Transit, addresses};
use crate::devices::engine::rss::{Product, flow_hash};
use crate::prelude::*;
use cluster::balancer::FlowletCounts;
use cluster::lanes::{Lane, Lanes};
use cluster::{Balancer, Choice, MacCode, NextLinks, NodeId, Outgoing, Phase as Leg, Rng, SourceCode};
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
    /// The generation of the failures that the balancer and `transit` use.
    generation: u64,
    transit: Transit,
    /// In a fly, chooses the links that own packets take.
    lanes: Option<Lanes>,
    /// The output, or the drop reason, for own packets whose output node cannot be reached.
    unreachable: Verdict,
    /// Whether the balancer uses flowlets, and so needs each packet's flow.
    flows: bool,
    /// Whether the node can have packets of its own: it has external ports.
    decides: bool,
    spread: Spread,
    packets: Vec<Outgoing>,
    choices: Vec<Choice>,
    /// The flowlet counts that have been added to the worker's counters already.
    counted: FlowletCounts,
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
            .when("the node or every path to it is dead; for this node's own packets only if their output is not connected"),
        drops::NOT_MADE_HERE.when("on input 0, a source address that is not this node's"),
        drops::NOT_FOR_THIS_NODE.when(
            "on input 1, a frame for another node that comes directly or in its second phase, so \
             that it would loop",
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
        let unreachable =
            if outputs > least { Verdict::output(least) } else { Verdict::lost(Lost::Unreachable) };
        let policy = state.share(cx.workers());
        let own = SourceCode { node: me, number: 0 }.encode().unwrap_or_default();
        let lanes = Lanes::new(state.topology(), me, policy.flows, policy.delta_ns);
        let most = cx.batch_size();
        Ok(Self {
            counts: state.counts(cx.worker().0),
            me,
            nodes,
            own,
            flows: policy.delta_ns.is_some(),
            balancer: Balancer::new(policy, 0).map_err(|e| args.error(e.to_string()))?,
            rng: Rng::new(0),
            generation: 0,
            transit: Transit::new(me, nodes),
            lanes,
            decides: state.topology().is_external(me),
            unreachable,
            spread: Spread::new(outputs, most),
            packets: Vec::with_capacity(most),
            choices: Vec::with_capacity(most),
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

impl ClusterSwitch {
    /// Applies changes in the set of dead nodes and links: checked once for each batch.
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
        // This cannot fail: all of them have been made for the same number of nodes.
        if topology.between(&failures).and_then(|between| self.balancer.apply(&between)).is_ok() {
            self.generation = generation;
        }
        self.transit.apply(topology, &failures);
    }

    /// What the balancer has to know of a packet from this node. A packet that is refused is given this node
    /// as its output, so that the balancer chooses no path for it.
    #[inline]
    fn outgoing(&self, packet: &Packet) -> (Outgoing, Verdict) {
        let bytes = packet.len() as u32;
        let refused = |why| (Outgoing { flow: 0, bytes, output: self.me }, Verdict::lost(why));
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
        self.spread.verdicts.clear();
        for packet in &batch {
            let (outgoing, verdict) = self.outgoing(packet);
            packets.push(outgoing);
            self.spread.verdicts.push(verdict);
        }
        self.choices.clear();
        self.choices.resize(packets.len(), Choice::Unreachable);
        self.balancer.decide(cx.run_ns(), &packets, &mut self.choices);
        let decided = self.choices.iter().zip(&packets);
        for ((packet, verdict), (choice, outgoing)) in
            batch.iter_mut().zip(&mut self.spread.verdicts).zip(decided)
        {
            if *verdict != self.unreachable {
                continue;
            }
            let via = if let Choice::Via(via) = choice { Some(*via) } else { None };
            let fly = match (self.transit.next_links(), &mut self.lanes) {
                (Some(next_links), Some(lanes)) => {
                    // Without flowlets, the path of each packet is chosen independently, here and at the
                    // nodes that it crosses.
                    let flow = if self.flows { outgoing.flow } else { self.rng.number() as u32 };
                    Some((next_links, lanes.choose(cx.run_ns(), flow, outgoing.output, via, outgoing.bytes)))
                }
                _ => None,
            };
            *verdict =
                send(&self.counts, self.me, *choice, outgoing, fly, packet).unwrap_or(self.unreachable);
        }
        self.packets = packets;
        if self.state.identity().resequence {
            number(&self.state, &self.spread.verdicts, &mut batch);
        }
        self.count_flowlets();
        self.spread.deliver(batch, cx, |output, batch, _, cx| cx.output_batch(output, batch));
    }

    fn count_flowlets(&mut self) {
        let now = self.balancer.flowlet_counts();
        if now != self.counted {
            let before = list(std::mem::replace(&mut self.counted, now));
            let now = list(now);
            self.counts.add_flowlets(std::array::from_fn(|i| now[i].wrapping_sub(before[i])));
        }
    }

    fn push_links(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        if self.transit.next_links().is_some() {
            return self.push_links_fly(batch, cx);
        }
        let now_ns = cx.run_ns();
        let Self { spread, transit, counts, balancer, nodes, .. } = self;
        let mut each = |output, batch: Batch, bytes, cx: &mut Cx<'_>| {
            if let Some(to) = transit.count(counts, output, batch.len(), bytes) {
                balancer.carry(now_ns, to, bytes);
            }
            cx.output_batch(output, batch);
        };
        // Usually all packets of a batch go to one output; then each of them is read only once.
        let (alike, verdict, bytes) = transit.alike_in_mesh(&mut batch);
        match verdict.node(*nodes) {
            Some(_) if alike == batch.len() => each(verdict.index(), batch, bytes, cx),
            _ => spread.sort(batch, (alike, verdict), cx, |packet| transit.in_mesh(packet), each),
        }
    }

    fn push_links_fly(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        let now_ns = cx.run_ns();
        let Self { spread, transit, counts, balancer, .. } = self;
        spread.verdicts.clear();
        spread.verdicts.extend(batch.iter_mut().map(|packet| transit.in_fly(packet, balancer, now_ns)));
        spread.deliver(batch, cx, |output, batch, bytes, cx| {
            transit.count(counts, output, batch.len(), bytes);
            cx.output_batch(output, batch);
        });
    }
}

/// Writes the phase of its path into the header of an own packet, and counts the packet. Returns the link;
/// `None` if there is no path.
#[inline]
fn send(
    counts: &WorkerCounts,
    me: NodeId,
    choice: Choice,
    outgoing: &Outgoing,
    fly: Option<(&NextLinks, Lane)>,
    packet: &mut Packet,
) -> Option<Verdict> {
    let (leg, mut link) = match choice {
        Choice::Local => (Leg::Direct, me),
        Choice::Direct => (Leg::Direct, outgoing.output),
        Choice::Via(via) => (Leg::First, via),
        Choice::Unreachable => return None,
    };
    if let Some((next_links, lane)) = fly.filter(|_| link != me) {
        link = next_links.at(link, lane.first)?;
        let source = SourceCode { node: me, number: lane.carried.encode() }.encode()?;
        *packet.data_mut().get_mut(6..)?.first_chunk_mut()? = source;
    }
    MacCode::set_phase(packet.data_mut().first_chunk_mut::<6>()?, leg);
    // A packet without a path is counted where it is dropped, so nothing may fail from here on.
    let (output, first) = (counts.node(outgoing.output)?, counts.node(link)?);
    let bytes = outgoing.bytes.into();
    let direct = leg == Leg::Direct;
    (if direct { &output.direct } else { &output.via }).add(1, bytes);
    // In a mesh, the link of a direct packet is that of its output node, whose counter has it already.
    if link != me && (!direct || fly.is_some()) {
        first.over.add(1, bytes);
    }
    Some(Verdict::output(link.index()))
}

fn list(counts: FlowletCounts) -> [u64; FLOWLETS.len()] {
    let FlowletCounts { started, kept, moved, returned, spilled } = counts;
    [started, kept, moved, returned, spilled]
}
