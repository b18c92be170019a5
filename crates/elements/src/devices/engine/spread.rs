//! RSS in software: the packets that one worker polls are distributed over others, by flow, if a port has
//! fewer queues than there are workers.

use super::exchange::Exchange;
use super::rss::{Rss, address_hash, flow_hash, share_of};
use crate::prelude::*;
use runtime::{Lanes, WorkerId};
use std::sync::Arc;
use tables::ring::Producer;
use tables::toeplitz::Toeplitz;

/// How long a worker that does not take its packets holds up those who poll for it; after that they drop
/// them. Longer than a time slice of Linux (about 3 ms), so that sharing a core costs no packets while the
/// device's queue has room.
const STALL_NS: u64 = 5_000_000;
/// A worker that gets its share of the flows from this one.
struct Neighbor {
    worker: WorkerId,
    ring: Producer<Packet>,
    /// What found no room.
    waiting: Vec<Packet>,
    /// Since when something waits; 0: nothing does.
    since_ns: u64,
    /// It has not taken anything for so long that nobody waits for it any more.
    stalled: bool,
}

impl Neighbor {
    /// Gives what waits, as far as there is room. Returns whether the worker holds this one up.
    fn give(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if self.ring.push_many(&mut self.waiting) > 0 {
            cx.wake(self.worker);
        }
        if self.waiting.is_empty() {
            (self.since_ns, self.stalled) = (0, false);
            return false;
        }
        let now = cx.now_ns();
        if self.since_ns == 0 {
            self.since_ns = now;
        }
        self.stalled |= now.saturating_sub(self.since_ns) >= STALL_NS;
        if self.stalled {
            cx.drop_batch(self.waiting.drain(..).collect(), drops::WORKER_RING_FULL);
        }
        !self.stalled
    }
}

/// The fields that distinguish flows.
enum FlowKey {
    /// Addresses and ports of IP.
    Ip(Toeplitz),
    /// The Ethernet addresses of frames between the nodes of a cluster, behind which their next nodes read
    /// nothing.
    Internal,
}

impl FlowKey {
    #[inline]
    fn hash(&self, frame: &[u8]) -> u32 {
        match self {
            Self::Ip(hash) => flow_hash(hash, frame),
            Self::Internal => frame.first_chunk().map_or(0, |addresses| address_hash(*addresses, true)),
        }
    }
}

/// What spreads flows over workers.
pub(in crate::devices) struct Spreader {
    flow_key: FlowKey,
    /// For each worker that processes: this one (`None`) or the number of a neighbor.
    shares: Vec<Option<usize>>,
    neighbors: Vec<Neighbor>,
}

impl Spreader {
    /// What spreads the flows that this worker polls over those that `lanes` names; on an internal link by
    /// other means.
    pub(in crate::devices) fn new(
        worker: usize,
        internal: bool,
        rss: Rss,
        exchange: &Arc<Exchange>,
        lanes: &Lanes,
    ) -> Self {
        let mut neighbors = Vec::new();
        let shares = (lanes.spread.iter())
            .map(|&to| {
                (to != worker).then(|| {
                    neighbors.push(Neighbor {
                        worker: WorkerId(to),
                        ring: exchange.producer(worker, to),
                        waiting: Vec::new(),
                        since_ns: 0,
                        stalled: false,
                    });
                    neighbors.len() - 1
                })
            })
            .collect();
        let flow_key = if internal { FlowKey::Internal } else { FlowKey::Ip(rss.hash()) };
        Self { flow_key, shares, neighbors }
    }
    /// Keeps this worker's own packets in the batch and gives the others away. The order of each flow stays.
    pub(in crate::devices) fn spread(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let mut own = cx.spare_batch();
        for packet in batch.drain(..) {
            match self.shares[share_of(self.flow_key.hash(packet.data()), self.shares.len())] {
                None => own.push(packet),
                Some(n) => self.neighbors[n].waiting.push(packet),
            }
        }
        std::mem::swap(batch, &mut own);
        cx.recycle(own);
        self.give(cx);
    }
    /// Gives what waits, as far as there is room. Returns whether some worker holds this one up.
    pub(in crate::devices) fn give(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut held_up = false;
        for neighbor in &mut self.neighbors {
            held_up |= neighbor.give(cx);
        }
        held_up
    }
    /// Whether packets for other workers wait here.
    pub(in crate::devices) fn owes(&self) -> bool {
        self.neighbors.iter().any(|n| !n.waiting.is_empty())
    }
    /// Packets on the way to other workers.
    pub(in crate::devices) fn handed(&self) -> usize {
        self.neighbors.iter().map(|n| n.ring.len() + n.waiting.len()).sum()
    }
    /// Gives everything away, because another element takes over: what finds no room is dropped.
    pub(in crate::devices) fn end(&mut self, cx: &mut Cx<'_>) {
        for neighbor in &mut self.neighbors {
            neighbor.ring.push_many(&mut neighbor.waiting);
            let rest: Batch = neighbor.waiting.drain(..).collect();
            if !rest.is_empty() {
                cx.drop_batch(rest, drops::WORKER_RING_FULL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_internal_links_flows_are_told_apart_by_addresses_alone() {
        let flow_key = FlowKey::Internal;
        let frame = |next_hop: u8, from: u8, number: u8| {
            let addresses = [0xc2, 0x10, 2, 0, 0, next_hop, 0xc6, 0, from << 4, 0, 0, number];
            // A byte behind the addresses that is read ends the test.
            Packet::guarded(&addresses, 60).unwrap()
        };
        let hash = |next_hop, from, number| flow_key.hash(frame(next_hop, from, number).data());
        assert_eq!(hash(9, 1, 0), hash(9, 1, 77), "the number within a stream");
        assert_ne!(hash(9, 1, 0), hash(9, 3, 0), "the input node");
        assert_eq!(flow_key.hash(&[0xc2; 11]), 0);
        let mut shares = [0; 4];
        (0..=255).for_each(|next_hop| shares[share_of(hash(next_hop, 1, 0), 4)] += 1);
        assert!(shares.iter().all(|n| (32..=96).contains(n)), "{shares:?}");
    }
}
