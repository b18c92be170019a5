//! The topology: which nodes have links, and which link is next on the path to a node.
//!
//! # The mesh
//!
//! A link between any two nodes: the path to a node is the link to it.
//!
//! # The k-ary n-fly
//!
//! For more nodes than a node has links (RouteBricks §3.3). M nodes have the external ports; between their
//! inputs and their outputs stand n stages of M servers each, with n the least number for which kⁿ ≥ M. Every
//! server has k links to the next stage; those of the last stage lead back to the M nodes:
//!
//! ```text
//!   0..M  external nodes  ->  M..2M  stage 1  ->  ...  ->  nM..(n+1)M  stage n  ->  the external nodes
//! ```
//!
//! The server in column x has its links to the columns (kx + r) mod M of the next stage, r = 0..k (Imase and
//! Itoh's digraph). If M = kⁿ that is a k-ary n-fly in its shuffle form: the columns are numbers of n digits,
//! and a link of stage s puts digit s of the output node, the highest first, behind the others. It works as
//! well for every other M: from column x, t links lead to kᵗx + R with R from 0 to kᵗ - 1, so n + 1 links
//! lead to every column, on at least k paths.
//!
//! The first link can therefore be chosen freely, which distributes the packets of a pair of nodes over at
//! least k paths, two of which (k, if M = kⁿ) have no server in common. The input node distributes flowlets
//! over them by bytes, for the part to the intermediate node and for the part behind it ([`crate::lanes`]). A
//! server where paths branch again (if M is not kⁿ) uses each branch with the same probability, by the flow's
//! number ([`NextLinks`]), so that a link carries at most 1 + 1/k times its fair share when all pairs send
//! alike; if M = kⁿ, exactly its share.
//!
//! A pair of nodes thus takes the place of a link in the mesh, and everything else is as there: the balancer
//! of an input node knows only the M nodes, sends up to R/M directly and the rest via the others, so that no
//! pair carries more than 2R/M and no link more than 2R/k. Traffic via an intermediate node crosses the
//! stages twice, first to it, then from it to the output node. So the work of nodes with external ports is at
//! most 3R and that of the others 2R, and the servers that the uniform matrix needs can carry every
//! admissible matrix; a packet passes n + 2 servers, or 2n + 3.
//!
//! # What a packet carries
//!
//! Its destination address is the [`MacCode`], as in the mesh. A server on the first part of the path must
//! know the intermediate node, which in the mesh is simply the receiver of the packet. As no node after the
//! input node reads headers, it must also know which packets are of the same flow, or their order is lost
//! where paths branch. Both are in the 28 bits of the source address that hold the packet's sequence number
//! in a mesh ([`Carried`]): 12 bits of intermediate node and 16 bits of the flow's hash. So a fly has
//! flowlets and no re-sequencer.
//!
//! # Failures
//!
//! Dead servers and links are avoided where paths branch: a server uses only links from which the output node
//! can still be reached ([`Reach`]). For the balancer, a pair without any path is a dead link
//! ([`Topology::between`]).

use crate::{Error, Failures, MAX_NODES, MacCode, NodeId, Phase, in_range};
use std::fmt;

/// A topology. The nodes with external ports come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    externals: u16,
    /// Links to the next stage; 0: a mesh.
    k: u16,
    stages: u16,
}

impl Topology {
    /// A full mesh of `nodes`.
    pub fn mesh(nodes: u16) -> Result<Self, Error> {
        Failures::none(nodes)?;
        Ok(Self { externals: nodes, k: 0, stages: 0 })
    }
    /// A fly for `externals` nodes with external ports, each server with `k` links to the next stage.
    ///
    /// # Errors
    /// `k` is below 2 or above `externals`, or there would be more than [`MAX_NODES`] servers.
    pub fn fly(externals: u16, k: u16) -> Result<Self, Error> {
        Failures::none(externals)?;
        in_range("a fly's k", k.into(), "links", 2, externals.into())?;
        let (mut stages, mut reached) = (1, u64::from(k));
        while reached < u64::from(externals) {
            reached *= u64::from(k);
            stages += 1;
        }
        let nodes = u64::from(externals) * (u64::from(stages) + 1);
        in_range("a fly", nodes, "servers", 2, MAX_NODES.into())?;
        Ok(Self { externals, k, stages })
    }
    /// How many nodes have external ports: those below this number.
    #[must_use]
    pub const fn externals(&self) -> u16 {
        self.externals
    }
    /// How many nodes there are in all.
    #[must_use]
    pub const fn nodes(&self) -> u16 {
        self.externals * (self.stages + 1)
    }
    /// Stages of servers without external ports; 0 in a mesh.
    #[must_use]
    pub const fn stages(&self) -> u16 {
        self.stages
    }
    /// How many nodes a node has a link to.
    #[must_use]
    pub const fn fan_out(&self) -> u16 {
        if self.is_mesh() { self.externals - 1 } else { self.k }
    }
    /// Whether it is a mesh.
    #[must_use]
    pub const fn is_mesh(&self) -> bool {
        self.k == 0
    }
    /// Whether a node has external ports.
    #[must_use]
    pub const fn is_external(&self, node: NodeId) -> bool {
        node.0 < self.externals
    }
    /// How many servers a packet between different nodes passes, itself and the output node included:
    /// directly, and over an intermediate node.
    #[must_use]
    pub const fn path_lengths(&self) -> (u16, u16) {
        (self.stages + 2, 2 * self.stages + 3)
    }
    /// The stage of a node, 0 for external nodes, and its column.
    #[must_use]
    pub const fn place(&self, node: NodeId) -> (u16, u16) {
        (node.0 / self.externals, node.0 % self.externals)
    }
    /// The node at a stage (0 or the number of stages and one: the external nodes) and a column.
    const fn at(&self, stage: u16, column: u16) -> NodeId {
        let stage = if stage > self.stages { 0 } else { stage };
        NodeId(stage * self.externals + column)
    }
    /// The column to which link `r` of a column leads.
    const fn column(&self, x: u16, r: u16) -> u16 {
        ((x as u32 * self.k as u32 + r as u32) % self.externals as u32) as u16
    }
    /// The nodes to which a node sends, in the order of its links.
    pub fn next(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let this = *self;
        let (stage, x) = this.place(node);
        let links = if node.0 >= this.nodes() {
            0
        } else if this.is_mesh() {
            this.externals
        } else {
            this.k
        };
        (0..links)
            .map(move |r| if this.is_mesh() { NodeId(r) } else { this.at(stage + 1, this.column(x, r)) })
            .filter(move |to| *to != node)
    }
    /// Whether a node has a link to another one.
    #[must_use]
    pub fn joins(&self, from: NodeId, to: NodeId) -> bool {
        if from.0 >= self.nodes() || to.0 >= self.nodes() {
            return false;
        }
        if self.is_mesh() {
            return from != to;
        }
        let ((stage, x), (_, y)) = (self.place(from), self.place(to));
        let m = u32::from(self.externals);
        let r = (u32::from(y) + m - u32::from(self.column(x, 0))) % m;
        self.at(stage + 1, y) == to && r < u32::from(self.k)
    }
    /// The nodes that send to a node.
    pub fn previous(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let this = *self;
        let stage = if this.is_mesh() {
            0
        } else {
            match this.place(node).0 {
                0 => this.stages,
                stage => stage - 1,
            }
        };
        (0..this.externals).map(move |x| this.at(stage, x)).filter(move |from| this.joins(*from, node))
    }
    /// The nodes that a node shares a link with, in either direction, in order.
    #[must_use]
    pub fn neighbors(&self, node: NodeId) -> Vec<NodeId> {
        let mut all: Vec<NodeId> = self.next(node).chain(self.previous(node)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    /// The number of paths from a node to an external node; 0 from a node to itself.
    #[must_use]
    pub fn path_count(&self, from: NodeId, to: NodeId) -> u64 {
        if !self.is_external(to) || from == to || from.0 >= self.nodes() {
            return 0;
        }
        if self.is_mesh() {
            return 1;
        }
        let (stage, x) = self.place(from);
        self.path_count_from(stage, x, to.0)
    }
    /// The same from a stage and a column. The stage after the last is that of the outputs, after which there
    /// are no more links.
    fn path_count_from(&self, stage: u16, x: u16, to: u16) -> u64 {
        let m = u64::from(self.externals);
        // k to the power of the number of remaining links: at most k² M.
        let reached = (stage..=self.stages).fold(1, |all, _| all * u64::from(self.k));
        let first = (u64::from(to) + m - u64::from(x) * reached % m) % m;
        if first < reached { (reached - first).div_ceil(m) } else { 0 }
    }
    /// The failures between the external nodes, for their balancers. A pair without a path is a dead link.
    ///
    /// # Errors
    /// A failure set of another cluster.
    pub fn between(&self, failures: &Failures) -> Result<Failures, Error> {
        if self.is_mesh() && failures.nodes() == self.nodes() {
            return Ok(failures.clone());
        }
        let reach = Reach::new(self, failures)?;
        let mut between = Failures::none(self.externals)?;
        for from in (0..self.externals).map(NodeId) {
            between.set_node(from, failures.node_up(from))?;
            for to in (0..self.externals).map(NodeId).filter(|to| *to != from) {
                // The links of dead nodes are not relevant.
                if failures.node_up(from) && failures.node_up(to) && !reach.leads(from, to) {
                    between.set_link(from, to, false)?;
                }
            }
        }
        Ok(between)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { externals, k, stages } = self;
        match k {
            0 => write!(f, "full mesh of {externals} nodes"),
            _ => write!(
                f,
                "{k}-ary {stages}-fly of {externals} nodes and {} servers in between",
                stages * externals
            ),
        }
    }
}

/// The external nodes that can be reached from each node, with the given failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    words: usize,
    /// A row of bits for each node.
    bits: Vec<u64>,
}

impl Reach {
    /// Computed without paths that cross another external node.
    ///
    /// # Errors
    /// A failure set of another cluster.
    pub fn new(topology: &Topology, failures: &Failures) -> Result<Self, Error> {
        if failures.nodes() != topology.nodes() {
            return Err(Error::OtherCluster { got: failures.nodes(), nodes: topology.nodes() });
        }
        let words = usize::from(topology.externals).div_ceil(64);
        let mut this = Self { words, bits: vec![0; words * usize::from(topology.nodes())] };
        // From the last stage to the first, then the external nodes.
        for from in (0..topology.nodes()).rev().map(NodeId) {
            let mut row = vec![0; words];
            for to in topology.next(from).filter(|to| failures.link_up(from, *to)) {
                if topology.is_external(to) {
                    row[to.index() / 64] |= 1 << (to.0 % 64);
                } else {
                    row.iter_mut().zip(this.row(to)).for_each(|(a, b)| *a |= b);
                }
            }
            this.bits[from.index() * words..][..words].copy_from_slice(&row);
        }
        Ok(this)
    }
    fn row(&self, node: NodeId) -> &[u64] {
        self.bits.get(node.index() * self.words..).and_then(|b| b.get(..self.words)).unwrap_or(&[])
    }
    /// Whether packets from a node reach an external one. Must not be called for a node and itself.
    #[must_use]
    pub fn leads(&self, from: NodeId, to: NodeId) -> bool {
        self.row(from).get(to.index() / 64).is_some_and(|word| word >> (to.0 % 64) & 1 != 0)
    }
}

/// The 28 bits in the source address of packets in a fly, in place of a sequence number.
///
/// ```text
///  0                   1                   2
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7
/// +-----------------------+-------------------------------+
/// |   intermediate node   |            flow               |
/// +-----------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Carried {
    /// The intermediate node; used only in the first phase.
    pub via: NodeId,
    /// The same for all packets of a flow, and usually different for different flows. At the intermediate
    /// node, it selects the second part of their path.
    pub flow: u16,
}

impl Carried {
    /// The 28 bits; the low 12 bits of the node's number are used.
    #[inline]
    #[must_use]
    pub const fn encode(self) -> u32 {
        (self.via.0 as u32 & 0xfff) << 16 | self.flow as u32
    }
    /// The meaning of 28 bits.
    #[inline]
    #[must_use]
    pub const fn decode(bits: u32) -> Self {
        Self { via: NodeId((bits >> 16) as u16 & 0xfff), flow: bits as u16 }
    }
    /// For a flow with this hash.
    #[inline]
    #[must_use]
    pub const fn of(via: NodeId, hash: u32) -> Self {
        Self { via, flow: (hash ^ hash >> 16) as u16 }
    }
}

/// The action of a node on a packet that was received over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// It leaves the cluster here.
    Here,
    /// It is sent on over the link to a node, in a phase.
    To(NodeId, Phase),
    /// There is no path.
    Unreachable,
    /// It should not have come to this node.
    Astray,
}

/// From one node, the links that lead towards each external node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLinks {
    me: NodeId,
    external: bool,
    mesh: bool,
    /// The positions where the links towards each external node begin, and where the last ones end.
    starts: Box<[u32]>,
    /// A link with which more paths begin is listed more often.
    links: Box<[NodeId]>,
}

/// The most times that a link is listed.
const MOST: u64 = 8;

impl NextLinks {
    /// `leads(neighbor, to)` returns whether the link to the neighbor is alive, and packets that are sent to
    /// the neighbor reach the external node.
    ///
    /// # Errors
    /// The topology has no such node.
    pub fn new(
        topology: &Topology,
        me: NodeId,
        leads: impl Fn(NodeId, NodeId) -> bool,
    ) -> Result<Self, Error> {
        if me.0 >= topology.nodes() {
            return Err(Error::NoSuchNode { node: me, nodes: topology.nodes() });
        }
        let (next, stage): (Vec<NodeId>, _) = (topology.next(me).collect(), topology.place(me).0);
        let paths = |link: NodeId, to: NodeId| match topology.is_mesh() {
            true => u64::from(link == to),
            false => topology.path_count_from(stage + 1, topology.place(link).1, to.0),
        };
        let (mut starts, mut links) = (vec![0], Vec::new());
        for to in (0..topology.externals).map(NodeId) {
            let alive = next.iter().map(|link| (*link, paths(*link, to)));
            let alive: Vec<(NodeId, u64)> =
                alive.filter(|(link, n)| to != me && *n > 0 && leads(*link, to)).collect();
            let most = alive.iter().map(|(_, n)| *n).max().unwrap_or(0);
            for (link, n) in alive {
                let n = if most > MOST { ((n * MOST + most / 2) / most).max(1) } else { n };
                links.extend((0..n).map(|_| link));
            }
            starts.push(links.len() as u32);
        }
        let (external, mesh) = (topology.is_external(me), topology.is_mesh());
        Ok(Self { me, external, mesh, starts: starts.into(), links: links.into() })
    }
    /// With the failures of the whole cluster.
    ///
    /// # Errors
    /// The topology has no such node, or the failure set is another cluster's.
    pub fn with(topology: &Topology, me: NodeId, failures: &Failures) -> Result<Self, Error> {
        let reach = Reach::new(topology, failures)?;
        Self::new(topology, me, |link, to| {
            failures.link_up(me, link) && (link == to || !topology.is_external(link) && reach.leads(link, to))
        })
    }
    /// The links towards an external node, each as often as its weight; none to the node itself.
    #[inline]
    #[must_use]
    pub fn links(&self, to: NodeId) -> &[NodeId] {
        let start = self.starts.get(to.index()).copied().unwrap_or(0) as usize;
        let end = self.starts.get(to.index() + 1).copied().unwrap_or(0) as usize;
        self.links.get(start..end).unwrap_or(&[])
    }
    /// Whether there is a path to an external node.
    #[must_use]
    pub fn leads(&self, to: NodeId) -> bool {
        !self.links(to).is_empty()
    }
    /// The link at a position among those towards an external node, in 65,536ths of them ([`crate::lanes`]).
    #[inline]
    #[must_use]
    pub fn at(&self, to: NodeId, place: u16) -> Option<NodeId> {
        let links = self.links(to);
        links.get((usize::from(place) * links.len()) >> 16).copied()
    }
    /// The link towards an external node that the packets of a flow take.
    #[inline]
    #[must_use]
    pub fn toward(&self, to: NodeId, phase: Phase, flow: u16) -> Option<NodeId> {
        match self.links(to) {
            [] => None,
            [only] => Some(*only),
            several => {
                let at = (u64::from(self.spread(phase, flow)) * several.len() as u64) >> 32;
                several.get(at as usize).copied()
            }
        }
    }
    /// A flow's number, different at each node and in each phase: otherwise the flows that a server receives
    /// would all have the same value of the bits by which it chooses, because its predecessors have chosen by
    /// the same bits.
    #[inline]
    const fn spread(&self, phase: Phase, flow: u16) -> u32 {
        // The finalizer of MurmurHash3 (Appleby, public domain).
        let mut h = (flow as u32 | (self.me.0 as u32) << 16) ^ (phase as u32) << 29;
        h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
        h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
        h ^ h >> 16
    }
    /// The action on a packet that was received over a link, by its addresses. In a mesh `carried` is
    /// ignored.
    #[inline]
    #[must_use]
    pub fn onward(&self, code: MacCode, carried: Carried) -> Onward {
        let first = matches!(code.phase, Phase::First);
        let (target, phase) = if !self.external {
            (if first { carried.via } else { code.node }, code.phase)
        } else if code.node == self.me {
            return Onward::Here;
        } else if first && (self.mesh || carried.via == self.me) {
            (code.node, Phase::Second)
        } else {
            return Onward::Astray;
        };
        // Between outer nodes, the input node has chosen the path.
        let link = if self.external {
            self.at(target, carried.flow)
        } else {
            self.toward(target, phase, carried.flow)
        };
        match link {
            Some(link) => Onward::To(link, phase),
            None => Onward::Unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(nodes: impl IntoIterator<Item = NodeId>) -> Vec<u16> {
        nodes.into_iter().map(|n| n.0).collect()
    }

    #[test]
    fn four_nodes_and_eight_servers() {
        let t = Topology::fly(4, 2).unwrap();
        assert_eq!((t.externals(), t.nodes(), t.stages(), t.fan_out()), (4, 12, 2, 2));
        assert_eq!(t.path_lengths(), (4, 7));
        assert_eq!(t.to_string(), "2-ary 2-fly of 4 nodes and 8 servers in between");
        // Node 1 sends to columns 2 and 3 of stage 1; column 3 there to columns 2 and 3 of stage 2; column 2
        // there to nodes 0 and 1.
        assert_eq!(ids(t.next(NodeId(1))), [6, 7]);
        assert_eq!(ids(t.next(NodeId(7))), [10, 11]);
        assert_eq!(ids(t.next(NodeId(10))), [0, 1]);
        assert_eq!(ids(t.previous(NodeId(1))), [8, 10]);
        assert_eq!(t.neighbors(NodeId(1)), [6, 7, 8, 10].map(NodeId));
        assert_eq!(t.place(NodeId(7)), (1, 3));
        // Two paths from every node to every other node.
        assert_eq!((t.path_count(NodeId(0), NodeId(3)), t.path_count(NodeId(5), NodeId(3))), (2, 1));
        assert_eq!(
            (
                t.path_count(NodeId(3), NodeId(3)),
                t.path_count(NodeId(8), NodeId(3)),
                t.path_count(NodeId(0), NodeId(4))
            ),
            (0, 0, 0)
        );
        assert_eq!((ids(t.next(NodeId(12))), t.joins(NodeId(12), NodeId(0))), (vec![], false));
    }

    #[test]
    fn a_mesh_joins_all() {
        let t = Topology::mesh(3).unwrap();
        assert_eq!((t.externals(), t.nodes(), t.stages(), t.fan_out()), (3, 3, 0, 2));
        assert_eq!(
            (ids(t.next(NodeId(1))), t.neighbors(NodeId(1))),
            (vec![0, 2], [0, 2].map(NodeId).to_vec())
        );
        assert_eq!((t.path_lengths(), t.to_string()), ((2, 3), "full mesh of 3 nodes".into()));
        assert!(
            t.joins(NodeId(0), NodeId(2)) && !t.joins(NodeId(2), NodeId(2)) && !t.joins(NodeId(0), NodeId(3))
        );
        let mut failures = Failures::none(3).unwrap();
        failures.set_link(NodeId(0), NodeId(2), false).unwrap();
        assert_eq!(t.between(&failures).unwrap(), failures);
        let next_links = NextLinks::with(&t, NodeId(0), &failures).unwrap();
        assert_eq!(
            (ids(next_links.links(NodeId(1)).to_vec()), next_links.leads(NodeId(2))),
            (vec![1], false)
        );
        let code = MacCode { node: NodeId(1), port: 0, next_hop: 9, phase: Phase::First };
        assert_eq!(next_links.onward(code, Carried::default()), Onward::To(NodeId(1), Phase::Second));
        assert_eq!(
            next_links.onward(MacCode { node: NodeId(2), ..code }, Carried::default()),
            Onward::Unreachable
        );
        assert_eq!(next_links.onward(MacCode { node: NodeId(0), ..code }, Carried::default()), Onward::Here);
        let direct = MacCode { phase: Phase::Direct, ..code };
        assert_eq!(next_links.onward(direct, Carried::default()), Onward::Astray);
    }

    #[test]
    fn shapes_that_cannot_be() {
        for (externals, k) in [(1, 2), (4, 1), (4, 0), (4, 5), (4096, 2), (2000, 40)] {
            assert!(Topology::fly(externals, k).is_err(), "{externals} {k}");
        }
        assert!(Topology::mesh(1).is_err() && Topology::mesh(4097).is_err());
        // The largest ones.
        assert_eq!(Topology::fly(1365, 37).unwrap().nodes(), 4095);
        assert_eq!(Topology::fly(2048, 2048).unwrap().stages(), 1);
        let t = Topology::fly(4, 2).unwrap();
        assert!(NextLinks::new(&t, NodeId(12), |_, _| true).is_err());
        assert!(Reach::new(&t, &Failures::none(4).unwrap()).is_err());
        assert!(t.between(&Failures::none(4).unwrap()).is_err());
    }

    #[test]
    fn what_is_carried() {
        let carried = Carried { via: NodeId(0xabc), flow: 0x1234 };
        assert_eq!((carried.encode(), Carried::decode(0xabc_1234)), (0xabc_1234, carried));
        assert_eq!(Carried::of(NodeId(1), 0x1234_00ff).flow, 0x12cb);
        for bits in [0, 0xfff_ffff, 0x8_0001] {
            assert_eq!(Carried::decode(bits).encode(), bits);
        }
    }
}
