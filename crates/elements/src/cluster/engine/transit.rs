//! Forwarding of frames from links: by their Ethernet addresses; nothing after these is read.

use super::counts::WorkerCounts;
use super::spread::{Lost, Verdict};
use crate::prelude::*;
use cluster::mac::Alike;
use cluster::topology::{Carried, Onward, Topology};
use cluster::{Balancer, Failures, MacCode, NextLinks, NodeId, Phase as Leg, SourceCode};

/// The forwarding of frames that other nodes send to this node.
pub(in crate::cluster) struct Transit {
    me: NodeId,
    nodes: u16,
    /// For each node, the output for frames in their first phase.
    onward: Box<[Verdict]>,
    /// In a fly, the links towards the nodes with external ports.
    next_links: Option<NextLinks>,
}

/// The destination and source addresses of a frame.
#[inline]
pub(in crate::cluster) fn addresses(data: &[u8]) -> Result<([u8; 6], [u8; 6]), Lost> {
    let both = data.first_chunk::<12>().ok_or(Lost::TooShort)?;
    let [to @ .., _, _, _, _, _, _] = *both;
    let [_, _, _, _, _, _, from @ ..] = *both;
    Ok((to, from))
}

impl Transit {
    /// No node is reachable before the first [`Transit::apply`].
    pub(in crate::cluster) fn new(me: NodeId, nodes: u16) -> Self {
        Self {
            me,
            nodes,
            onward: vec![Verdict::lost(Lost::Unreachable); nodes.into()].into(),
            next_links: None,
        }
    }
    /// Computes the outputs for a set of dead links and nodes.
    pub(in crate::cluster) fn apply(&mut self, topology: &Topology, failures: &Failures) {
        if !topology.is_mesh() {
            self.next_links = NextLinks::with(topology, self.me, failures).ok();
        }
        for (node, verdict) in (0..self.nodes).map(NodeId).zip(&mut self.onward) {
            let up = node == self.me || failures.link_up(self.me, node);
            *verdict = if up { Verdict::output(node.index()) } else { Verdict::lost(Lost::Unreachable) };
        }
    }
    /// In a fly, the links towards the nodes with external ports.
    #[inline]
    pub(in crate::cluster) fn next_links(&self) -> Option<&NextLinks> {
        self.next_links.as_ref()
    }

    /// The output of a frame in a mesh. Reads and writes only the destination address.
    #[inline]
    pub(in crate::cluster) fn in_mesh(&self, packet: &mut Packet) -> Verdict {
        let both = packet.data_mut().first_chunk_mut::<12>();
        let Some(to) = both.and_then(|b| b.first_chunk_mut::<6>()) else {
            return Verdict::lost(Lost::TooShort);
        };
        if let Some(node) = MacCode::hand_on(to) {
            return self.onward.get(node.index()).copied().unwrap_or(Verdict::lost(Lost::NoNode));
        }
        match MacCode::decode(*to, self.nodes) {
            Ok(code) if code.node == self.me && code.phase != Leg::Control => {
                Verdict::output(self.me.index())
            }
            Ok(_) => Verdict::lost(Lost::NotHere),
            Err(why) => Verdict::lost(why.into()),
        }
    }

    /// [`Transit::in_mesh`] for the first packets of a batch, as long as they go to the same output. Returns
    /// how many, their output, and their bytes.
    #[inline]
    pub(in crate::cluster) fn alike_in_mesh(&self, batch: &mut Batch) -> (usize, Verdict, u64) {
        let none = (0, Verdict::lost(Lost::NoNode), 0);
        let first = batch.first().and_then(|packet| addresses(packet.data()).ok());
        let Some(Ok(code)) = first.map(|(to, _)| MacCode::decode(to, self.nodes)) else { return none };
        let (like, verdict) = match (code.phase, self.onward.get(code.node.index())) {
            (Leg::First, Some(verdict)) => (Alike::passing(code.node), *verdict),
            (Leg::Direct | Leg::Second, _) if code.node == self.me => {
                (Alike::arriving(self.me), Verdict::output(self.me.index()))
            }
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
        (alike, verdict, bytes)
    }

    /// The output of a frame in a fly. The balancer counts frames whose intermediate node this is.
    #[inline]
    pub(in crate::cluster) fn in_fly(
        &self,
        packet: &mut Packet,
        balancer: &mut Balancer,
        now_ns: u64,
    ) -> Verdict {
        let both = match addresses(packet.data()) {
            Ok(both) => both,
            Err(why) => return Verdict::lost(why),
        };
        let code = MacCode::decode(both.0, self.nodes);
        let (code, from) = match (code, SourceCode::decode(both.1, self.nodes)) {
            (Ok(code), Ok(from)) => (code, from),
            (Err(why), _) | (_, Err(why)) => return Verdict::lost(why.into()),
        };
        let Some(next_links) = self.next_links.as_ref().filter(|_| code.phase != Leg::Control) else {
            return Verdict::lost(Lost::NotHere);
        };
        match next_links.onward(code, Carried::decode(from.number)) {
            Onward::Here => Verdict::output(self.me.index()),
            Onward::To(link, leg) => {
                if leg != code.phase {
                    if let Some(to) = packet.data_mut().first_chunk_mut::<6>() {
                        MacCode::set_phase(to, leg);
                    }
                    // This is the intermediate node of the frame, whose bytes count for a pair of nodes that
                    // has its share of the links.
                    balancer.carry(now_ns, code.node, packet.len() as u64);
                }
                Verdict::output(link.index())
            }
            Onward::Unreachable => Verdict::lost(Lost::Unreachable),
            Onward::Astray => Verdict::lost(Lost::NotHere),
        }
    }

    /// Counts packets from links. Returns the node that they are sent on to, if they do not leave the cluster
    /// here.
    #[inline]
    pub(in crate::cluster) fn count(
        &self,
        counts: &WorkerCounts,
        output: usize,
        packets: usize,
        bytes: u64,
    ) -> Option<NodeId> {
        if output == self.me.index() {
            counts.delivered.add(packets as u64, bytes);
            return None;
        }
        let to = NodeId(u16::try_from(output).ok().filter(|n| *n < self.nodes)?);
        counts.node(to)?.transit.add(packets as u64, bytes);
        Some(to)
    }
}
