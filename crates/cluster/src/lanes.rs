//! Which of several paths the packets of a flow take between two nodes of a fly, balanced by bytes.
//!
//! A pair of outer nodes has about k paths ([`crate::topology`]), which differ mainly in their first link. If
//! flows were distributed over them by hash, a link towards a hot spot would have a third more than its share
//! by chance alone. So the input node, the only one that knows flows, distributes them: for the paths to each
//! node that packets reach without passing another outer node, and for the paths from intermediate nodes to
//! each output node, it keeps a counter of bytes for each of k lanes. A new flowlet takes the lane with the
//! lowest counter, and keeps it as long as that is not above the lowest by more than [`SLACK`]. Between lanes
//! that differ by less than a frame the flow decides, as otherwise each intermediate node would always have
//! the same lane if all packets are alike.
//!
//! The lane of the first part is a choice of this node's links. That of the second is carried to the
//! intermediate node, in the 16 bits that are the flow's number there ([`crate::topology::Carried`]): their
//! highest part is the lane, the rest is the flow's own.

use crate::NodeId;
use crate::flowlet::{Flowlets, Lookup};
use crate::topology::{Carried, Topology};

/// By how many bytes a lane may be above the lowest one before flowlets leave it: some frames, so that
/// packets are not reordered without need.
pub const SLACK: u64 = 16 * 1538;

/// Smaller differences do not matter when a lane is chosen.
const FRAME: u64 = 1538;

/// The first link of a packet, and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// A position among this node's links towards the packet's first target, in 65,536ths
    /// ([`crate::NextLinks::at`]).
    pub first: u16,
    /// The number for the next nodes.
    pub carried: Carried,
}

/// The lanes of one input node (of one worker of it).
#[derive(Clone, Debug)]
pub struct Lanes {
    count: usize,
    /// The lane of each part of the path in a byte, in place of the intermediate node that
    /// [`crate::Balancer`] has there.
    flowlets: Option<Flowlets>,
    /// For each part of the path: the lanes towards node 0, those towards node 1, ...
    accounts: [Box<[u64]>; 2],
    /// For each node, a lower bound of the counters of its lanes.
    least: [Box<[u64]>; 2],
}

impl Lanes {
    /// The lanes of a node with external ports, for this many flows. Without `delta_ns`, each packet is
    /// distributed independently. `None` in a mesh.
    #[must_use]
    pub fn new(topology: &Topology, me: NodeId, flows: usize, delta_ns: Option<u64>) -> Option<Self> {
        if topology.is_mesh() || !topology.is_external(me) {
            return None;
        }
        // A lane is a byte in the table.
        let (count, nodes) = (usize::from(topology.fan_out()).min(256), usize::from(topology.externals()));
        let accounts = || vec![0; count * nodes].into_boxed_slice();
        let least = || vec![0; nodes].into_boxed_slice();
        Some(Self {
            count,
            flowlets: delta_ns.map(|delta_ns| Flowlets::new(flows, delta_ns)),
            accounts: [accounts(), accounts()],
            least: [least(), least()],
        })
    }
    /// Takes over the flows of another configuration of this node.
    pub fn take_over(&mut self, old: &mut Self) {
        if self.count == old.count
            && let (Some(new), Some(old)) = (&mut self.flowlets, &mut old.flowlets)
        {
            new.take_over(old);
        }
    }
    /// Chooses the lanes of a packet for an output node, via an intermediate node or directly.
    #[inline]
    pub fn choose(&mut self, now_ns: u64, flow: u32, to: NodeId, via: Option<NodeId>, bytes: u32) -> Lane {
        let target = via.unwrap_or(to);
        // If a flowlet gets another intermediate node, it counts as a new one here.
        let key = flow.wrapping_add(u32::from(target.0).wrapping_mul(0x85eb_ca6b));
        let found = self.flowlets.as_ref().map(|flowlets| flowlets.find(now_ns, key, to));
        let (place, old) = match found {
            Some(Lookup::Alive(place, NodeId(lanes))) => (Some(place), Some(lanes.to_be_bytes())),
            Some(Lookup::New(place)) => (Some(place), None),
            None => (None, None),
        };
        let first = self.take(0, target, old.map(|[first, _]| first), key, bytes);
        let second = via.map_or(0, |_| self.take(1, to, old.map(|[_, second]| second), !key, bytes));
        if let (Some(flowlets), Some(place)) = (&mut self.flowlets, place) {
            let lanes = NodeId(u16::from_be_bytes([first, second]));
            flowlets.set(place, now_ns, key, to, lanes);
        }
        let mut carried = Carried::of(target, flow);
        let first = self.within(first, carried.flow);
        if via.is_some() {
            carried.flow = self.within(second, carried.flow);
        }
        Lane { first, carried }
    }
    /// One of the numbers that stand for a lane.
    #[inline]
    const fn within(&self, lane: u8, flow: u16) -> u16 {
        let count = self.count as u32;
        // Rounded so that it never stands for another lane, neither at the lower nor at the upper end.
        let at = (flow as u32 * (65536 - count)) >> 16;
        (((lane as u32) << 16) + at).div_ceil(count) as u16
    }
    /// The lane of a packet, which was on an old one before; adds the packet to its counter.
    #[inline]
    fn take(&mut self, part: usize, target: NodeId, old: Option<u8>, flow: u32, bytes: u32) -> u8 {
        let start = target.index() * self.count;
        let accounts = self.accounts[part].get_mut(start..start + self.count);
        let (Some(accounts), Some(least)) = (accounts, self.least[part].get_mut(target.index())) else {
            return 0;
        };
        let old = old.map(usize::from).filter(|lane| *lane < accounts.len());
        let lane = match old {
            Some(lane) if accounts[lane] <= least.saturating_add(SLACK) => lane,
            _ => {
                *least = accounts.iter().copied().min().unwrap_or(0);
                let mixed = flow.wrapping_mul(0x9e37_79b1);
                let begin = ((u64::from(mixed) * accounts.len() as u64) >> 32) as usize;
                let mut lanes = (begin..accounts.len()).chain(0..begin);
                let best = lanes.find(|lane| accounts[*lane] <= *least + FRAME).unwrap_or(0);
                old.filter(|lane| accounts[*lane] <= least.saturating_add(SLACK)).unwrap_or(best)
            }
        };
        accounts[lane] = accounts[lane].saturating_add(bytes.into());
        lane as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failures, NextLinks, Rng};

    fn lanes(externals: u16, k: u16, delta_ns: Option<u64>) -> (Topology, Lanes) {
        let topology = Topology::fly(externals, k).unwrap();
        (topology, Lanes::new(&topology, NodeId(1), 4096, delta_ns).unwrap())
    }

    #[test]
    fn bytes_are_even_over_links_however_long_flows_are() {
        for (externals, k) in [(16, 4), (64, 8), (27, 3), (37, 37)] {
            let (topology, mut lanes) = lanes(externals, k, Some(1000));
            let none = Failures::none(topology.nodes()).unwrap();
            let [here, there] = [1, 2].map(|n| NextLinks::with(&topology, NodeId(n), &none).unwrap());
            let mut rng = Rng::new(5);
            let (mut first, mut second) = (vec![0_u64; 4096], vec![0_u64; 4096]);
            for _ in 0..20_000 {
                // A few flows have nearly everything.
                let flow = if rng.below(10) > 0 { rng.below(3) } else { rng.below(1 << 32) };
                let bytes = 60 + rng.below(1450) as u32;
                let lane = lanes.choose(0, flow as u32, NodeId(0), Some(NodeId(2)), bytes);
                assert_eq!(lane.carried.via, NodeId(2));
                first[here.at(NodeId(2), lane.first).unwrap().index()] += u64::from(bytes);
                second[there.at(NodeId(0), lane.carried.flow).unwrap().index()] += u64::from(bytes);
            }
            for all in [first, second] {
                let used: Vec<u64> = all.into_iter().filter(|bytes| *bytes > 0).collect();
                let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
                assert!(used.len() == usize::from(k), "{externals} {k}: {used:?}");
                assert!(most - least <= SLACK + 2 * FRAME, "{externals} {k}: {used:?}");
            }
        }
    }

    #[test]
    fn a_flow_keeps_its_lane_until_that_is_far_ahead() {
        let (_, mut lanes) = lanes(64, 8, Some(1000));
        let mut go = |now, flow, bytes| lanes.choose(now, flow, NodeId(9), None, bytes).first;
        let first = go(0, 1, 1000);
        assert!((0..24).all(|_| go(5, 1, 1000) == first));
        // Other flows use the lanes that have had fewer bytes.
        assert_ne!(go(5, 2, 1000) >> 13, first >> 13);
        // Now it is too far ahead; and after a pause no lane is kept.
        assert_ne!(go(5, 1, 1000) >> 13, first >> 13);
        let (_, mut lanes) = super::tests::lanes(64, 8, None);
        let paths: std::collections::BTreeSet<u16> =
            (0..64).map(|_| lanes.choose(0, 1, NodeId(9), None, 700).first >> 13).collect();
        assert_eq!(paths.len(), 8);
    }

    #[test]
    fn every_number_of_a_lane_means_it() {
        for (externals, k) in [(27, 3), (64, 8), (37, 37), (256, 256)] {
            let (_, lanes) = lanes(externals, k, None);
            for (lane, flow) in
                (0..k).flat_map(|lane| [0, 1, 2, 99, 0x8000, 0xfffe, 0xffff].map(|flow| (lane, flow)))
            {
                let place = lanes.within(lane as u8, flow);
                assert_eq!((u32::from(place) * u32::from(k)) >> 16, u32::from(lane), "{k} {lane} {flow}");
            }
        }
    }

    #[test]
    fn only_nodes_with_ports_of_a_fly_have_lanes() {
        let fly = Topology::fly(16, 4).unwrap();
        assert!(Lanes::new(&fly, NodeId(16), 4, None).is_none());
        assert!(Lanes::new(&Topology::mesh(4).unwrap(), NodeId(0), 4, None).is_none());
    }
}
