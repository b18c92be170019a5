//! Which links are up, as all nodes know it: each node reports its links, and neighbors flood the reports.
//!
//! A report has a version that only its node raises, so the latest report wins whatever path it came by. Two
//! nodes are alive to each other if there is a path between them over links that both ends report as up; so a
//! dead node is noticed by nodes without a link to it too. A node that restarts receives its old report from
//! its neighbors and raises the version above it. Two nodes with the same number do so again and again, which
//! is noticed.

use crate::frame::Bytes;
use crate::{Error, Failures, NodeId};
use std::collections::VecDeque;

/// Greater versions are not accepted.
const MAX_VERSION: u64 = 1 << 62;
/// For how long reports of this node that it did not make are assumed to be from before its restart.
const DUPLICATE_NS: u64 = 2_000_000_000;
/// How long a sign of a second node with the same number counts.
const SIGN_NS: u64 = 5_000_000_000;
/// How many earlier starts of a node are remembered.
const LIVES: usize = 4;

/// A set of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes(Box<[u8]>);

impl Nodes {
    /// None of `nodes` nodes.
    #[must_use]
    pub fn none(nodes: u16) -> Self {
        Self(vec![0; usize::from(nodes).div_ceil(8)].into())
    }
    /// Whether a node is in it.
    #[must_use]
    pub fn has(&self, node: NodeId) -> bool {
        self.0.get(node.index() / 8).is_some_and(|b| b >> (node.0 % 8) & 1 == 1)
    }
    /// Adds or removes a node; returns whether that is a change. Nodes that the cluster does not have are
    /// ignored.
    pub fn set(&mut self, node: NodeId, member: bool) -> bool {
        let Some(byte) = self.0.get_mut(node.index() / 8) else { return false };
        let before = *byte;
        let bit = 1 << (node.0 % 8);
        *byte = if member { before | bit } else { before & !bit };
        *byte != before
    }
    /// Its members.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        (0..(self.0.len() * 8) as u16).map(NodeId).filter(|n| self.has(*n))
    }
    fn resized(&self, nodes: u16) -> Self {
        let mut new = Self::none(nodes);
        self.iter().filter(|n| n.0 < nodes).for_each(|n| {
            new.set(n, true);
        });
        new
    }
}

/// A node's report of its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Grows with every change.
    pub version: u64,
    /// Different after each start of the node.
    pub instance: u64,
    /// The nodes that it has links to.
    pub links: Nodes,
    /// Those of them to which the link is up.
    pub up: Nodes,
}

impl Report {
    /// Bytes of a report in a cluster of this many nodes, with its node.
    #[must_use]
    pub const fn bytes(nodes: u16) -> usize {
        18 + 2 * (nodes as usize).div_ceil(8)
    }
    /// Appends the report and its node.
    pub(crate) fn write(&self, node: NodeId, out: &mut Vec<u8>) {
        out.extend(node.0.to_be_bytes());
        out.extend(self.version.to_be_bytes());
        out.extend(self.instance.to_be_bytes());
        out.extend(&self.links.0);
        out.extend(&self.up.0);
    }
    /// Reads the report that a node of a cluster of `nodes` nodes has written.
    pub(crate) fn read(bytes: &mut Bytes<'_>, nodes: u16) -> Option<(NodeId, Self)> {
        let node = NodeId(bytes.short()?);
        let (version, instance) = (bytes.long()?, bytes.long()?);
        let n = usize::from(nodes).div_ceil(8);
        let (links, up) = (bytes.take(n)?, bytes.take(n)?);
        Some((node, Self { version, instance, links: Nodes(links.into()), up: Nodes(up.into()) }))
    }
}

/// The result of receiving a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It was new.
    News,
    /// It was known.
    Known,
    /// A later one is known, which should be sent to its sender.
    Older,
}

#[derive(Clone, Debug, Default)]
struct Origin {
    report: Option<Report>,
    /// Its starts before the present one, the latest last.
    lives: VecDeque<u64>,
    /// When a sign of a second node with this number was seen.
    duplicate_ns: Option<u64>,
}

/// All reports, and the state that follows from them.
#[derive(Clone, Debug)]
pub struct Board {
    me: NodeId,
    nodes: u16,
    /// No failures.
    blank: Failures,
    instance: u64,
    origins: Vec<Origin>,
    generation: u64,
    /// Since when, and until when, this node has received reports of itself that it did not make.
    contested: Option<(u64, u64)>,
    /// When the last sign of any duplicate node number was seen.
    sign_ns: Option<u64>,
}

impl Board {
    /// The board of a node without links that has just started.
    pub fn new(me: NodeId, nodes: u16, instance: u64) -> Result<Self, Error> {
        let blank = Failures::none(nodes)?;
        if me.0 >= nodes {
            return Err(Error::NoSuchNode { node: me, nodes });
        }
        let mut origins = vec![Origin::default(); nodes.into()];
        let none = Nodes::none(nodes);
        origins[me.index()].report = Some(Report { version: 1, instance, links: none.clone(), up: none });
        Ok(Self { me, nodes, blank, instance, origins, generation: 1, contested: None, sign_ns: None })
    }
    /// How many nodes there are.
    #[must_use]
    pub const fn nodes(&self) -> u16 {
        self.nodes
    }
    /// Grows with every change of [`Board::failures`], and sometimes without one.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }
    /// What a node reports.
    #[must_use]
    pub fn report(&self, node: NodeId) -> Option<&Report> {
        self.origins.get(node.index())?.report.as_ref()
    }
    /// Another number of nodes. This node must be one of them.
    pub fn resize(&mut self, nodes: u16) -> Result<(), Error> {
        let blank = Failures::none(nodes)?;
        if self.me.0 >= nodes {
            return Err(Error::NoSuchNode { node: self.me, nodes });
        }
        if nodes != self.nodes {
            (self.nodes, self.blank) = (nodes, blank);
            self.origins.resize(nodes.into(), Origin::default());
            for report in self.origins.iter_mut().filter_map(|o| o.report.as_mut()) {
                (report.links, report.up) = (report.links.resized(nodes), report.up.resized(nodes));
            }
            self.change(|_| true);
        }
        Ok(())
    }

    /// Changes this node's report; returns whether it has changed.
    fn change(&mut self, f: impl FnOnce(&mut Report) -> bool) -> bool {
        let own = self.origins.get_mut(self.me.index()).and_then(|o| o.report.as_mut());
        let Some(report) = own.filter(|r| r.version < MAX_VERSION) else { return false };
        if !f(report) {
            return false;
        }
        report.version += 1;
        self.generation += 1;
        true
    }
    /// Adds or removes a link of this node.
    pub fn set_link(&mut self, to: NodeId, exists: bool) -> bool {
        self.change(|r| {
            let ended = !exists && r.up.set(to, false);
            r.links.set(to, exists) || ended
        })
    }
    /// The link to a node went up or down.
    pub fn set_up(&mut self, to: NodeId, up: bool) -> bool {
        self.change(|r| r.up.set(to, up))
    }

    /// Receives a report from a neighbor.
    pub fn merge(&mut self, now_ns: u64, node: NodeId, report: Report) -> Merged {
        if report.version >= MAX_VERSION {
            return Merged::Known;
        }
        if node == self.me {
            return self.of_me(now_ns, &report);
        }
        let nodes = self.nodes;
        let Some(origin) = self.origins.get_mut(node.index()) else { return Merged::Known };
        if let Some(old) = &origin.report {
            let (new, there) = ((report.version, report.instance), (old.version, old.instance));
            if new <= there {
                return if new == there { Merged::Known } else { Merged::Older };
            }
            if old.instance != report.instance {
                if origin.lives.contains(&report.instance) {
                    (origin.duplicate_ns, self.sign_ns) = (Some(now_ns), Some(now_ns));
                }
                let ended = old.instance;
                origin.lives.retain(|l| *l != ended && *l != report.instance);
                origin.lives.push_back(ended);
                if origin.lives.len() > LIVES {
                    origin.lives.pop_front();
                }
            }
        }
        let (links, up) = (report.links.resized(nodes), report.up.resized(nodes));
        origin.report = Some(Report { links, up, ..report });
        self.generation += 1;
        Merged::News
    }

    /// A report of this node itself has arrived.
    fn of_me(&mut self, now_ns: u64, report: &Report) -> Merged {
        let own = self.report(self.me).map_or(0, |r| r.version);
        if report.instance == self.instance {
            return if report.version < own { Merged::Older } else { Merged::Known };
        }
        self.sign_ns = Some(now_ns);
        self.contested = match self.contested {
            Some((since, last)) if now_ns.saturating_sub(last) < DUPLICATE_NS / 2 => Some((since, now_ns)),
            _ => Some((now_ns, now_ns)),
        };
        if report.version >= own {
            let beyond = report.version;
            self.change(|r| {
                r.version = beyond;
                true
            });
        }
        Merged::Older
    }

    /// The node numbers that are in use twice, as far as is known.
    pub fn duplicates(&self, now_ns: u64) -> impl Iterator<Item = NodeId> {
        let any = self.sign_ns.is_some_and(|at| now_ns.saturating_sub(at) < SIGN_NS);
        let own = self.contested.is_some_and(|(since, last)| {
            last.saturating_sub(since) > DUPLICATE_NS && now_ns.saturating_sub(last) < SIGN_NS
        });
        let origins = if any { self.origins.as_slice() } else { &[] };
        let of_others = origins.iter().enumerate().filter_map(move |(i, o)| {
            let recent = o.duplicate_ns.is_some_and(|at| now_ns.saturating_sub(at) < SIGN_NS);
            recent.then_some(NodeId(i as u16))
        });
        own.then_some(self.me).into_iter().chain(of_others)
    }

    /// Whether both ends of a link report it as up.
    #[must_use]
    pub fn joined(&self, a: NodeId, b: NodeId) -> bool {
        let says = |x: NodeId, y: NodeId| self.report(x).is_some_and(|r| r.up.has(y));
        (a == self.me || says(b, a)) && (b == self.me || says(a, b))
    }

    /// What is dead as seen from here: nodes that cannot be reached, and links between other nodes that are
    /// not reported as up by both ends. Links that no node reports are not dead.
    #[must_use]
    pub fn failures(&self) -> Failures {
        let mut failures = self.blank.clone();
        let mut reached = Nodes::none(self.nodes);
        reached.set(self.me, true);
        let mut edge = vec![self.me];
        while let Some(at) = edge.pop() {
            let Some(report) = self.report(at) else { continue };
            for next in report.up.iter().filter(|n| self.joined(at, *n)) {
                if reached.set(next, true) {
                    edge.push(next);
                }
            }
        }
        // Nodes in these sets are below the number of nodes, so nothing here fails.
        for node in (0..self.nodes).map(NodeId).filter(|n| !reached.has(*n)) {
            let _ = failures.set_node(node, false);
        }
        for a in reached.iter() {
            let Some(report) = self.report(a) else { continue };
            for b in report.links.iter().filter(|b| reached.has(*b) && !self.joined(a, *b)) {
                let _ = failures.set_link(a, b, false);
                let _ = failures.set_link(b, a, false);
            }
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u16) -> NodeId {
        NodeId(n)
    }

    /// Boards that know the links `links`, all up, and have no reports of each other.
    fn boards(nodes: u16, links: &[(u16, u16)]) -> Vec<Board> {
        let mut all: Vec<_> =
            (0..nodes).map(|i| Board::new(node(i), nodes, 100 + u64::from(i)).unwrap()).collect();
        for &(a, b) in links {
            for (x, y) in [(a, b), (b, a)] {
                all[usize::from(x)].set_link(node(y), true);
                all[usize::from(x)].set_up(node(y), true);
            }
        }
        all
    }

    /// All nodes send all reports to their usable neighbors, until no board changes any more.
    fn gossip(boards: &mut [Board]) {
        loop {
            let mut news = false;
            for from in 0..boards.len() {
                for to in 0..boards.len() {
                    let (a, b) = (node(from as u16), node(to as u16));
                    let both = |x: usize, y| boards[x].report(node(x as u16)).unwrap().up.has(y);
                    if from == to || !both(from, b) || !both(to, a) {
                        continue;
                    }
                    for origin in 0..boards.len() {
                        if let Some(report) = boards[from].report(node(origin as u16)).cloned() {
                            let mut bytes = Vec::new();
                            report.write(node(origin as u16), &mut bytes);
                            let read = Report::read(&mut Bytes(&bytes), boards.len() as u16).unwrap();
                            assert_eq!((bytes.len(), &read.1), (Report::bytes(boards.len() as u16), &report));
                            news |= boards[to].merge(0, read.0, read.1) == Merged::News;
                        }
                    }
                }
            }
            if !news {
                return;
            }
        }
    }

    #[test]
    fn nobody_is_alive_before_it_is_heard() {
        let mut boards = boards(3, &[(0, 1), (1, 2), (0, 2)]);
        let mut new = Board::new(node(0), 3, 1).unwrap();
        assert!([1, 2].into_iter().all(|peer| new.set_link(node(peer), true)));
        let alone = new.failures();
        assert_eq!((alone.alive(), alone.node_up(node(0))), (1, true));
        gossip(&mut boards);
        assert!(boards.iter().all(|b| b.failures() == Failures::none(3).unwrap()));
    }

    #[test]
    fn a_dead_link_is_known_to_all_and_a_dead_node_is_no_dead_link() {
        let mut boards = boards(4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
        gossip(&mut boards);
        // One end is enough.
        boards[1].set_up(node(2), false);
        gossip(&mut boards);
        // The other end, which notices the failure itself, will follow.
        for b in [&boards[0], &boards[1], &boards[3]] {
            let f = b.failures();
            assert_eq!(f.dead_links().collect::<Vec<_>>(), [(node(1), node(2)), (node(2), node(1))]);
            assert_eq!(f.alive(), 4);
        }
        boards[2].set_up(node(1), false);
        for i in [0, 1, 2] {
            boards[i].set_up(node(3), false);
        }
        gossip(&mut boards[..3]);
        for b in &boards[..3] {
            let f = b.failures();
            assert_eq!(f.dead_nodes().collect::<Vec<_>>(), [node(3)]);
            assert_eq!(f.dead_links().count(), 2);
        }
    }

    #[test]
    fn reports_pass_through_others() {
        // A line: 0 - 1 - 2 - 3. Nodes without a link between them do not have a dead link.
        let mut boards = boards(4, &[(0, 1), (1, 2), (2, 3)]);
        gossip(&mut boards);
        assert!(boards.iter().all(|b| b.failures() == Failures::none(4).unwrap()));
        boards[2].set_up(node(3), false);
        gossip(&mut boards);
        assert_eq!(boards[0].failures().dead_nodes().collect::<Vec<_>>(), [node(3)]);
    }

    #[test]
    fn a_node_that_starts_again_speaks_after_its_old_self() {
        let mut boards = boards(3, &[(0, 1), (0, 2), (1, 2)]);
        for _ in 0..5 {
            boards[2].set_up(node(1), false);
            boards[2].set_up(node(1), true);
        }
        gossip(&mut boards);
        boards[2] = Board::new(node(2), 3, 777).unwrap();
        for to in [0, 1] {
            boards[2].set_link(node(to), true);
            boards[2].set_up(node(to), true);
        }
        gossip(&mut boards);
        assert!(boards.iter().all(|b| b.failures() == Failures::none(3).unwrap()));
        assert!(boards[0].report(node(2)).unwrap().instance == 777);
        assert!(boards.iter().all(|b| b.duplicates(10).count() == 0));
    }

    #[test]
    fn two_nodes_with_one_identity_are_noticed() {
        let mut one = Board::new(node(2), 3, 1).unwrap();
        let mut two = Board::new(node(2), 3, 2).unwrap();
        let mut other = Board::new(node(0), 3, 3).unwrap();
        let mut now = 0;
        while now <= DUPLICATE_NS + 100_000_000 {
            let of = |b: &Board| b.report(node(2)).unwrap().clone();
            let (of_one, of_two) = (of(&one), of(&two));
            for (from, to) in [(of_one, &mut two), (of_two, &mut one)] {
                other.merge(now, node(2), from.clone());
                to.merge(now, node(2), from);
            }
            now += 10_000_000;
        }
        for b in [&one, &two, &other] {
            assert_eq!(b.duplicates(now).collect::<Vec<_>>(), [node(2)]);
            assert_eq!(b.duplicates(now + 2 * SIGN_NS).count(), 0);
        }
    }

    #[test]
    fn more_and_fewer_nodes() {
        let mut boards = boards(3, &[(0, 1), (0, 2), (1, 2)]);
        gossip(&mut boards);
        boards[0].resize(4).unwrap();
        assert_eq!(boards[0].failures().dead_nodes().collect::<Vec<_>>(), [node(3)]);
        boards[0].resize(2).unwrap();
        assert_eq!(boards[0].failures(), Failures::none(2).unwrap());
        assert!(boards[2].resize(2).is_err());
        // A report of a larger cluster.
        let large = Board::new(node(1), 40, 9).unwrap().report(node(1)).unwrap().clone();
        boards[0].merge(0, node(1), Report { version: 99, ..large });
        let other = boards[0].report(node(1)).unwrap().clone();
        assert_eq!(boards[0].merge(0, node(30), other), Merged::Known);
    }
}
