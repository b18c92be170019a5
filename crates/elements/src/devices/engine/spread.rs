//! RSS in software: if a port has fewer queues than there are workers, the packets that one worker polls are
//! distributed over others, by flow.

use super::exchange::Exchange;
use super::rss::{Rss, address_hash, flow_hash, share_of};
use crate::prelude::*;
use runtime::{Lanes, WorkerId};
use std::sync::Arc;
use tables::ring::Producer;
use tables::toeplitz::Toeplitz;

/// For how long a worker that does not take its packets makes the polling workers wait; after that they drop
/// its packets. This is longer than a time slice of Linux (about 3 ms), so that sharing a core causes no
/// losses while the device's queue has space.
const STALL_NS: u64 = 5_000_000;
/// A worker that gets its share of the flows from this one.
struct Neighbor {
    worker: WorkerId,
    ring: Producer<Packet>,
    /// Packets for which the ring was full.
    waiting: Vec<Packet>,
    /// Since when packets wait; 0: none do.
    since_ns: u64,
    /// It has taken no packets for so long that this worker no longer waits for it.
    stalled: bool,
}

impl Neighbor {
    /// Passes waiting packets on, as far as the ring has space. Returns whether this worker has to wait for
    /// the other one.
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
    /// The Ethernet addresses of frames between the nodes of a cluster; the nodes read nothing after these.
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

/// Distributes flows over workers.
pub(in crate::devices) struct Spreader {
    flow_key: FlowKey,
    /// For each worker that gets flows: this one (`None`), or the index of a neighbor.
    shares: Vec<Option<usize>>,
    neighbors: Vec<Neighbor>,
}

impl Spreader {
    /// Distributes the flows that this worker polls over the workers in `lanes`; on an internal link, by the
    /// Ethernet addresses.
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
    /// Gives a packet to a worker, whatever its flow is. A packet for this worker, or for one that none leads
    /// to, is returned.
    pub(super) fn give_to(&mut self, worker: usize, packet: Packet) -> Option<Packet> {
        match self.neighbors.iter_mut().find(|neighbor| neighbor.worker.0 == worker) {
            Some(neighbor) => neighbor.waiting.push(packet),
            None => return Some(packet),
        }
        None
    }
    /// Keeps this worker's own packets in the batch and passes the others on. Packets of a flow stay in
    /// order.
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
    /// Passes waiting packets on, as far as the rings have space. Returns whether this worker has to wait for
    /// another one.
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
    /// Packets in the rings to other workers.
    pub(in crate::devices) fn handed(&self) -> usize {
        self.neighbors.iter().map(|n| n.ring.len() + n.waiting.len()).sum()
    }
    /// Passes all packets on, because another element takes over: packets for which a ring is full are
    /// dropped.
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
            // The test fails if a byte after the addresses is read.
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
