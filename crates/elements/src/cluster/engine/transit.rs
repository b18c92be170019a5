//! Forwarding of frames from links: by their Ethernet addresses; nothing after these is read.

use super::counts::WorkerCounts;
use super::spread::{Lost, Way};
use crate::prelude::*;
use cluster::mac::Alike;
use cluster::topology::{Carried, Onward, Topology};
use cluster::{Balancer, Failures, MacCode, NodeId, Phase as Leg, SourceCode, Ways};

/// The forwarding of frames that other nodes send to this node.
pub(in crate::cluster) struct Transit {
    me: NodeId,
    nodes: u16,
    /// For each node, the output for frames in their first phase.
    onward: Box<[Way]>,
    /// In a fly, the links towards the nodes with external ports.
    ways: Option<Ways>,
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
        Self { me, nodes, onward: vec![Way::lost(Lost::Unreachable); nodes.into()].into(), ways: None }
    }
    /// Computes the outputs for a set of dead links and nodes.
    pub(in crate::cluster) fn apply(&mut self, topology: &Topology, failures: &Failures) {
        if !topology.is_mesh() {
            self.ways = Ways::with(topology, self.me, failures).ok();
        }
        for (node, way) in (0..self.nodes).map(NodeId).zip(&mut self.onward) {
            let up = node == self.me || failures.link_up(self.me, node);
            *way = if up { Way::output(node.index()) } else { Way::lost(Lost::Unreachable) };
        }
    }
    /// In a fly, the links towards the nodes with external ports.
    #[inline]
    pub(in crate::cluster) fn ways(&self) -> Option<&Ways> {
        self.ways.as_ref()
    }

    /// The output of a frame in a mesh. Reads and writes only the destination address.
    #[inline]
    pub(in crate::cluster) fn in_mesh(&self, packet: &mut Packet) -> Way {
        let both = packet.data_mut().first_chunk_mut::<12>();
        let Some(to) = both.and_then(|b| b.first_chunk_mut::<6>()) else { return Way::lost(Lost::TooShort) };
        if let Some(node) = MacCode::hand_on(to) {
            return self.onward.get(node.index()).copied().unwrap_or(Way::lost(Lost::NoNode));
        }
        match MacCode::decode(*to, self.nodes) {
            Ok(code) if code.node == self.me && code.phase != Leg::Control => Way::output(self.me.index()),
            Ok(_) => Way::lost(Lost::NotHere),
            Err(why) => Way::lost(why.into()),
        }
    }

    /// [`Transit::in_mesh`] for the first packets of a batch, as long as they go to the same output. Returns
    /// how many, their output, and their bytes.
    #[inline]
    pub(in crate::cluster) fn alike_in_mesh(&self, batch: &mut Batch) -> (usize, Way, u64) {
        let none = (0, Way::lost(Lost::NoNode), 0);
        let first = batch.first().and_then(|packet| addresses(packet.data()).ok());
        let Some(Ok(code)) = first.map(|(to, _)| MacCode::decode(to, self.nodes)) else { return none };
        let (like, way) = match (code.phase, self.onward.get(code.node.index())) {
            (Leg::First, Some(way)) => (Alike::passing(code.node), *way),
            (Leg::Direct | Leg::Second, _) if code.node == self.me => {
                (Alike::arriving(self.me), Way::output(self.me.index()))
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
        (alike, way, bytes)
    }

    /// The output of a frame in a fly. The balancer counts frames whose intermediate node this is.
    #[inline]
    pub(in crate::cluster) fn in_fly(
        &self,
        packet: &mut Packet,
        balancer: &mut Balancer,
        now_ns: u64,
    ) -> Way {
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
                    // This is the intermediate node of the frame, whose bytes count for a pair of nodes that
                    // has its share of the links.
                    balancer.carry(now_ns, code.node, packet.len() as u64);
                }
                Way::output(link.index())
            }
            Onward::Unreachable => Way::lost(Lost::Unreachable),
            Onward::Astray => Way::lost(Lost::NotHere),
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
