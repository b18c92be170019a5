//! The protocol between nodes at one node: the state of its links, the reports of all links, and the routes.
//!
//! There is no I/O: frames go in and come out as bytes, times are arguments, and random numbers come from a
//! seed. Memory is bounded by the number of the node's links and of the cluster's nodes.

use crate::board::{Board, Merged, Report};
use crate::frame::{self, Bytes, FrameKind, HEADER_BYTES, Key, TAG_BYTES};
use crate::hello::{Admission, BODY_BYTES, Body, Neighbor, Settings};
use crate::routes::Summary;
use crate::{Error, Failures, MAX_NODES, NodeId, in_range};
use std::collections::BTreeMap;

/// How often a report is sent to a neighbor that should receive it from other nodes too.
const TIMES: u8 = 3;
/// After how many frames it is sent once more: all of them may have been lost.
const AGAIN: u64 = 128;

/// The kind of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// It was ignored; only counters have changed.
    Ignored,
    /// It was accepted, and the caller need not do anything.
    Nothing,
    /// A hello that was accepted.
    Hello,
    /// A part of the neighbor's routes, for [`crate::routes::Replica::take`].
    Routes(&'a [u8]),
}

/// The shortest frame that a hello fits into.
fn least_bytes(nodes: u16) -> usize {
    HEADER_BYTES + BODY_BYTES + 2 + Report::bytes(nodes) + TAG_BYTES
}

#[derive(Clone, Debug)]
struct End {
    neighbor: Neighbor,
    /// The session of the neighbor to which `sent` refers.
    session: Option<u64>,
    /// For each node the version of its report that was sent, and how often.
    sent: Vec<(u64, u8)>,
    /// The node whose report is next.
    next: u16,
}

/// All links of a node.
#[derive(Clone, Debug)]
pub struct Control {
    me: NodeId,
    key: Key,
    seed: [u8; 16],
    board: Board,
    ends: BTreeMap<NodeId, End>,
    /// Whether hellos have become due earlier since [`Control::hurried`] was called.
    hurried: bool,
}

impl Control {
    /// A node without links. The seed must be random and never be used again.
    pub fn new(me: NodeId, nodes: u16, key: Key, seed: [u8; 16]) -> Result<Self, Error> {
        let board = Board::new(me, nodes, key.derive(seed, u64::MAX))?;
        Ok(Self { me, key, seed, board, ends: BTreeMap::new(), hurried: false })
    }
    /// This node.
    #[must_use]
    pub const fn me(&self) -> NodeId {
        self.me
    }
    /// How many nodes there are.
    #[must_use]
    pub const fn nodes(&self) -> u16 {
        self.board.nodes()
    }
    /// Changes the number of nodes; links to nodes that do not exist any more are removed.
    pub fn resize(&mut self, nodes: u16) -> Result<(), Error> {
        self.board.resize(nodes)?;
        self.ends.retain(|peer, _| peer.0 < nodes);
        for end in self.ends.values_mut() {
            let settings = *end.neighbor.settings();
            end.neighbor.change(nodes, settings);
            end.sent.resize(nodes.into(), (0, 0));
        }
        Ok(())
    }
    /// Changes the key. Links to nodes that do not have it go down.
    pub fn rekey(&mut self, key: &Key) {
        self.key = key.clone();
        self.ends.values_mut().for_each(|e| e.neighbor.rekey(key));
    }
    /// Adds a link, or changes the settings of one, which keeps its state.
    pub fn link(&mut self, now_ns: u64, peer: NodeId, settings: Settings) -> Result<(), Error> {
        settings.check()?;
        let nodes = self.nodes();
        if peer.0 >= nodes || peer == self.me {
            return Err(Error::NoSuchNode { node: peer, nodes });
        }
        let least = least_bytes(nodes) as u64;
        in_range("a frame", settings.frame_bytes.into(), "bytes", least, u64::from(u16::MAX))?;
        match self.ends.get_mut(&peer) {
            Some(end) if end.neighbor.settings() != &settings => end.neighbor.change(nodes, settings),
            Some(_) => {}
            None => {
                let neighbor = Neighbor::new(self.me, peer, nodes, settings, &self.key, self.seed, now_ns);
                let sent = vec![(0, 0); nodes.into()];
                self.ends.insert(peer, End { neighbor, session: None, sent, next: 0 });
                self.board.set_link(peer, true);
                self.hurry(|_| true);
            }
        }
        Ok(())
    }
    /// Removes a link.
    pub fn unlink(&mut self, peer: NodeId) {
        if self.ends.remove(&peer).is_some() {
            self.board.set_link(peer, false);
            self.hurry(|_| true);
        }
    }
    /// A link's end.
    #[must_use]
    pub fn neighbor(&self, peer: NodeId) -> Option<&Neighbor> {
        self.ends.get(&peer).map(|e| &e.neighbor)
    }
    /// All of them, in order.
    pub fn neighbors(&self) -> impl Iterator<Item = &Neighbor> {
        self.ends.values().map(|e| &e.neighbor)
    }
    /// Which links are up.
    #[must_use]
    pub const fn board(&self) -> &Board {
        &self.board
    }
    /// Grows whenever [`Control::failures`] may have changed.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.board.generation()
    }
    /// What is dead as seen from here.
    #[must_use]
    pub fn failures(&self) -> Failures {
        self.board.failures()
    }

    fn hurry(&mut self, which: impl Fn(NodeId) -> bool) {
        self.hurried = true;
        self.ends.iter_mut().filter(|(peer, _)| which(**peer)).for_each(|(_, e)| e.neighbor.hurry());
    }

    /// Called after anything has changed at an end: updates this node's report.
    fn settle(&mut self, peer: NodeId) {
        let Some(end) = self.ends.get_mut(&peer) else { return };
        if end.session != end.neighbor.session() {
            end.session = end.neighbor.session();
            end.sent.fill((0, 0));
        }
        let up = end.neighbor.is_up();
        if self.board.set_up(peer, up) {
            self.hurry(|_| true);
        }
    }

    /// A control frame that came over the link to `peer`, without its Ethernet header.
    pub fn receive<'a>(&mut self, now_ns: u64, peer: NodeId, bytes: &'a [u8]) -> Received<'a> {
        let Some(end) = self.ends.get_mut(&peer) else { return Received::Ignored };
        let neighbor = &mut end.neighbor;
        // The cheap checks first.
        let marked = match frame::glance(&self.key, bytes) {
            Ok(marked) => marked,
            Err(why) => {
                neighbor.refused(now_ns, why);
                return Received::Ignored;
            }
        };
        if neighbor.is_repeated(now_ns, &marked.header) {
            return Received::Ignored;
        }
        if let Err(why) = marked.check(&self.key) {
            neighbor.refused(now_ns, why);
            return Received::Ignored;
        }
        if !neighbor.may_open(now_ns, &marked) {
            return Received::Ignored;
        }
        let length = marked.bytes();
        let (header, body) = match marked.open(&self.key) {
            Ok(opened) => opened,
            Err(why) => {
                neighbor.refused(now_ns, why);
                return Received::Ignored;
            }
        };
        let Admission::Yes { latest } = neighbor.admit(now_ns, &header, length) else {
            self.settle(peer);
            return Received::Nothing;
        };
        match header.kind {
            FrameKind::Routes => Received::Routes(body),
            FrameKind::Hello => {
                let mut body = Bytes(body);
                let hello = Body::read(&mut body).filter(|s| (2..=MAX_NODES).contains(&s.nodes));
                let Some(hello) = hello else {
                    end.neighbor.refused(now_ns, frame::Refused::Malformed);
                    return Received::Nothing;
                };
                end.neighbor.take_hello(now_ns, hello, latest);
                self.settle(peer);
                self.reports(now_ns, peer, hello.nodes, body);
                Received::Hello
            }
        }
    }

    fn reports(&mut self, now_ns: u64, peer: NodeId, nodes: u16, mut body: Bytes<'_>) {
        for _ in 0..body.short().unwrap_or(0) {
            let Some((origin, report)) = Report::read(&mut body, nodes) else { return };
            let version = report.version;
            match self.board.merge(now_ns, origin, report) {
                // Nodes without a link to it receive it from here.
                Merged::News => {
                    let board = &self.board;
                    let others = self.ends.iter_mut().filter(|(p, _)| **p != peer && **p != origin);
                    for (_, end) in others.filter(|(p, _)| !board.joined(origin, **p)) {
                        end.neighbor.hurry();
                        self.hurried = true;
                    }
                    self.note(peer, origin, (version, TIMES));
                }
                Merged::Known => self.note(peer, origin, (version, TIMES)),
                Merged::Older => {
                    self.note(peer, origin, (0, 0));
                    self.hurry(|p| p == peer);
                }
            }
        }
    }

    fn note(&mut self, peer: NodeId, origin: NodeId, sent: (u64, u8)) {
        if let Some(place) = self.ends.get_mut(&peer).and_then(|e| e.sent.get_mut(origin.index())) {
            *place = sent;
        }
    }

    /// The neighbors whose hellos have become due earlier since the last call, because there is news for
    /// them; [`Neighbor::due_ns`] has the new time. The caller should send these hellos at once, so that the
    /// news of a failure is not delayed at each node that it passes.
    pub fn hurried(&mut self) -> impl Iterator<Item = NodeId> {
        let any = std::mem::take(&mut self.hurried);
        self.ends.iter().filter(move |(_, end)| any && end.neighbor.is_urgent()).map(|(peer, _)| *peer)
    }

    /// Runs the timers of one end.
    pub fn tick(&mut self, now_ns: u64, peer: NodeId) {
        if let Some(end) = self.ends.get_mut(&peer) {
            end.neighbor.tick(now_ns);
            self.settle(peer);
        }
    }

    /// Makes the hello for `peer` in `out`, if one is due; `routes` is the digest of this node's routes.
    pub fn hello(&mut self, now_ns: u64, peer: NodeId, routes: Summary, out: &mut Vec<u8>) -> bool {
        out.clear();
        let (me, nodes, board) = (self.me, self.board.nodes(), &self.board);
        let Some(end) = self.ends.get_mut(&peer).filter(|e| now_ns >= e.neighbor.due_ns()) else {
            return false;
        };
        let (hello, length) = end.neighbor.next_hello(now_ns, routes);
        let header = end.neighbor.header(FrameKind::Hello);
        // A hello that tests whether its length arrives has exactly that length.
        let frame_bytes = match length {
            0 => end.neighbor.settings().frame_bytes.into(),
            _ => usize::from(length).max(least_bytes(nodes)),
        };
        let (sent, next) = (&mut end.sent, &mut end.next);
        if header.sequence % AGAIN == 0 {
            sent.iter_mut().for_each(|t| t.1 = t.1.min(TIMES - 1));
        }
        frame::seal(&self.key, &header, frame_bytes, out, |out| {
            hello.write(out);
            let count_at = out.len();
            out.extend([0, 0]);
            let mut count = 0u16;
            let room = (frame_bytes - TAG_BYTES).saturating_sub(out.len()) / Report::bytes(nodes);
            let mut add_report = |origin: NodeId, out: &mut Vec<u8>| {
                if let Some(report) = board.report(origin) {
                    report.write(origin, out);
                    count += 1;
                }
            };
            // If there is space for only one report, every other hello has that of another node.
            let mut left = room;
            if room > 1 || header.sequence % 2 == 0 {
                add_report(me, out);
                left = room.saturating_sub(1);
            }
            for _ in 0..nodes {
                let origin = NodeId(*next % nodes);
                *next = (origin.0 + 1) % nodes;
                let Some(version) = board.report(origin).map(|r| r.version) else { continue };
                let Some(known) = sent.get_mut(origin.index()) else { continue };
                // A neighbor that has a link to the node itself is sent its report only if it has an older
                // one.
                let sent_enough = known.0 >= version && known.1 >= TIMES;
                let elsewhere = *known != (0, 0) && board.joined(origin, peer);
                if origin == me || sent_enough || elsewhere {
                    continue;
                }
                if left == 0 {
                    *next = origin.0;
                    break;
                }
                left -= 1;
                *known = (version, if known.0 == version { known.1 + 1 } else { 1 });
                add_report(origin, out);
            }
            if let Some(place) = out.get_mut(count_at..count_at + 2) {
                place.copy_from_slice(&count.to_be_bytes());
            }
            if length > 0 {
                out.resize((frame_bytes - TAG_BYTES).max(out.len()), 0);
            }
        })
    }

    /// Writes a frame with a part of the routes for `peer` into `out`. `piece` gets the number of bytes that
    /// fit into the body; there is no frame if it writes none, or if no hellos arrive from the neighbor.
    pub fn routes(
        &mut self,
        peer: NodeId,
        out: &mut Vec<u8>,
        piece: impl FnOnce(usize, &mut Vec<u8>),
    ) -> bool {
        out.clear();
        let Some(end) = self.ends.get_mut(&peer).filter(|e| e.neighbor.is_ready()) else { return false };
        let frame_bytes = usize::from(end.neighbor.settings().frame_bytes);
        let mut body = Vec::new();
        piece(frame_bytes - HEADER_BYTES - TAG_BYTES, &mut body);
        if body.is_empty() {
            return false;
        }
        let header = end.neighbor.header(FrameKind::Routes);
        frame::seal(&self.key, &header, frame_bytes, out, |out| out.append(&mut body))
    }

    /// The digest of a neighbor's routes, while its hellos arrive.
    #[must_use]
    pub fn routes_of(&self, peer: NodeId) -> Option<Summary> {
        self.ends.get(&peer)?.neighbor.routes()
    }
}
