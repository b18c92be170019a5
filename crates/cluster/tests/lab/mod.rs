//! Nodes and wires between them, in simulated time.
#![allow(dead_code, reason = "each test uses what it needs")]

use cluster::hello::{Reason, Settings};
use cluster::{Control, Failures, Key, NodeId, Received, Replica, Rng};
use std::collections::{BTreeMap, BTreeSet};

pub const MS: u64 = 1_000_000;
pub const QUARTER: u64 = MS / 4;

pub struct Node {
    pub control: Control,
    pub replica: Replica,
    pub runs: bool,
}

/// Where the frames of a link's end arrive: the node and which of its links.
pub type End = (u16, u16);

pub struct Lab {
    pub nodes: Vec<Option<Node>>,
    pub size: u16,
    pub settings: Settings,
    /// From a link's end (node, peer) to the other one.
    pub wires: BTreeMap<End, End>,
    /// Ends whose frames are lost.
    pub cut: BTreeSet<End>,
    /// Frames longer than this are lost.
    pub mtu: usize,
    /// Frames lost of 1000.
    pub loss: u64,
    /// A frame takes this time, and up to the jitter more.
    pub delay: u64,
    pub jitter: u64,
    /// How often a node looks at the time for each link, beside when it has something to say at once.
    pub look: u64,
    /// Until when a node's processor is kept from it. What comes meanwhile waits.
    pub paused: BTreeMap<u16, u64>,
    /// When an end is looked at next.
    pub next: BTreeMap<End, u64>,
    pub flying: Vec<(u64, End, Vec<u8>)>,
    pub recorded: Option<Vec<(End, Vec<u8>)>>,
    pub now: u64,
    pub rng: Rng,
}

pub fn key() -> Key {
    Key::new(b"the key of the cluster in tests").unwrap()
}

impl Lab {
    /// A cluster of nodes joined by links, just started.
    pub fn new(size: u16, links: impl IntoIterator<Item = (u16, u16)>, settings: Settings) -> Self {
        let wires = links.into_iter().flat_map(|(a, b)| [((a, b), (b, a)), ((b, a), (a, b))]).collect();
        let mut lab = Self {
            nodes: (0..size).map(|_| None).collect(),
            size,
            settings,
            wires,
            cut: BTreeSet::new(),
            mtu: 1500,
            loss: 0,
            delay: MS,
            jitter: 0,
            look: 5 * MS / 2,
            paused: BTreeMap::new(),
            next: BTreeMap::new(),
            flying: Vec::new(),
            recorded: None,
            now: 5_000_000 * MS,
            rng: Rng::new(1),
        };
        (0..size).for_each(|n| lab.start(n));
        lab
    }
    pub fn mesh(size: u16) -> Self {
        let links: Vec<_> = (0..size).flat_map(|a| (a + 1..size).map(move |b| (a, b))).collect();
        Self::new(size, links, Settings::default())
    }
    pub fn start(&mut self, n: u16) {
        self.start_as(n, n, key());
    }
    /// Starts in a node's place one that takes itself for `identity`, with links to the same peers.
    pub fn start_as(&mut self, place: u16, identity: u16, key: Key) {
        let seed = [self.rng.number().to_be_bytes(), self.rng.number().to_be_bytes()].concat();
        let mut control = Control::new(NodeId(identity), self.size, key, seed.try_into().unwrap()).unwrap();
        let mut replica = Replica::new(NodeId(identity), 100_000).unwrap();
        for (_, peer) in self.wires.keys().filter(|(node, _)| *node == place) {
            if *peer != identity {
                control.link(self.now, NodeId(*peer), self.settings).unwrap();
                replica.link(NodeId(*peer));
            }
        }
        self.nodes[usize::from(place)] = Some(Node { control, replica, runs: true });
    }
    pub fn kill(&mut self, n: u16) {
        self.nodes[usize::from(n)] = None;
    }
    pub fn node(&mut self, n: u16) -> &mut Node {
        self.nodes[usize::from(n)].as_mut().unwrap()
    }
    pub fn send(&mut self, from: End, frame: Vec<u8>) {
        if let Some(record) = &mut self.recorded {
            record.push((from, frame.clone()));
        }
        let lost = self.rng.below(1000) < self.loss;
        let Some(to) = self.wires.get(&from) else { return };
        if !lost && !self.cut.contains(&from) && frame.len() <= self.mtu {
            let at = self.now + self.delay + self.rng.below(self.jitter + 1);
            self.flying.push((at, *to, frame));
        }
    }
    pub fn deliver(&mut self, (n, peer): End, frame: &[u8]) {
        let now = self.now;
        let Some(node) = self.nodes[usize::from(n)].as_mut().filter(|n| n.runs) else { return };
        match node.control.receive(now, NodeId(peer), frame) {
            Received::Ignored => return,
            Received::Routes(piece) => {
                let board = node.control.board();
                assert!(node.replica.take(NodeId(peer), piece, |a, b| board.joined(a, b)));
            }
            Received::Nothing | Received::Hello => {}
        }
        self.next.insert((n, peer), now);
        self.hurried(n);
    }
    /// What a node hears over one link may be news for others.
    pub fn hurried(&mut self, n: u16) {
        let Some(node) = self.nodes[usize::from(n)].as_mut() else { return };
        for peer in node.control.hurried() {
            self.next.insert((n, peer.0), self.now);
        }
    }
    pub fn is_paused(&self, n: u16) -> bool {
        self.paused.get(&n).is_some_and(|until| *until > self.now)
    }
    pub fn step(&mut self) {
        self.pass(MS);
    }
    /// Lets time pass.
    pub fn pass(&mut self, ns: u64) {
        self.now += ns;
        let now = self.now;
        let flying = std::mem::take(&mut self.flying);
        let (due, later) = flying.into_iter().partition(|f| f.0 <= now && !self.is_paused(f.1.0));
        self.flying = later;
        let mut due: Vec<(u64, End, Vec<u8>)> = due;
        due.sort_by_key(|f| f.0);
        for (_, to, frame) in due {
            self.deliver(to, &frame);
        }
        let mut out = Vec::new();
        let ends: Vec<End> = self.wires.keys().copied().collect();
        for (n, peer) in ends {
            if self.is_paused(n) || self.next.get(&(n, peer)).is_some_and(|at| *at > now) {
                continue;
            }
            let Some(node) = self.nodes[usize::from(n)].as_mut().filter(|n| n.runs) else { continue };
            let (peer_id, mut frames) = (NodeId(peer), Vec::new());
            node.control.tick(now, peer_id);
            if node.control.hello(now, peer_id, node.replica.summary(), &mut out) {
                frames.push(out.clone());
            }
            let theirs = node.control.routes_of(peer_id);
            theirs.into_iter().for_each(|t| node.replica.heard(peer_id, t));
            for _ in 0..4 {
                let replica = &mut node.replica;
                let piece = |room, out: &mut Vec<u8>| replica.piece(now, peer_id, theirs, room, out);
                if !node.control.routes(peer_id, &mut out, piece) {
                    break;
                }
                frames.push(out.clone());
            }
            let due = node.control.neighbor(peer_id).map_or(now, |l| l.due_ns());
            let look = now + self.look;
            self.next.insert((n, peer), if due > now { due.min(look) } else { look });
            frames.into_iter().for_each(|frame| self.send((n, peer), frame));
            self.hurried(n);
        }
    }
    pub fn run(&mut self, ms: u64) {
        (0..ms).for_each(|_| self.step());
    }
    pub fn failures(&mut self, n: u16) -> Failures {
        self.node(n).control.failures()
    }
    pub fn all_well(&mut self) -> bool {
        let none = Failures::none(self.size).unwrap();
        self.nodes.iter().flatten().all(|n| n.control.failures() == none)
    }
    pub fn downs(&mut self) -> u64 {
        let links = self.nodes.iter().flatten().flat_map(|n| n.control.neighbors());
        links.map(|l| l.counts().downs).sum()
    }
    /// How many nanoseconds pass until all other nodes know that one is dead, and nothing else is.
    pub fn until_known(
        &mut self,
        victim: u16,
        limit: u64,
        mut meanwhile: impl FnMut(&mut Self),
    ) -> Option<u64> {
        self.kill(victim);
        let began = self.now;
        while self.now < began + limit {
            self.pass(QUARTER);
            meanwhile(self);
            let knows = |f: &Failures| f.dead_nodes().eq([NodeId(victim)]) && f.dead_links().count() == 0;
            if self.nodes.iter().flatten().all(|n| knows(&n.control.failures())) {
                return Some(self.now - began);
            }
        }
        None
    }
    pub fn up(&mut self, n: u16, peer: u16) -> bool {
        self.node(n).control.neighbor(NodeId(peer)).unwrap().is_up()
    }
    pub fn reason(&mut self, n: u16, peer: u16) -> Option<Reason> {
        self.node(n).control.neighbor(NodeId(peer)).unwrap().reason()
    }
}
