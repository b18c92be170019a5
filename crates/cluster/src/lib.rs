//! Several servers as one router: load balancing and the protocol between nodes, without I/O.
//!
//! | module | holds |
//! |---|---|
//! | [`balancer`] | the path of a packet: direct, or via which intermediate node; one decision for each packet of a batch |
//! | [`budget`] | how much may go directly to a node: R/N |
//! | [`load`] | the load of a link, over a sliding window |
//! | [`flowlet`] | the last path of each flow, in a table of fixed size |
//! | [`failures`] | which nodes and links are dead |
//! | [`frame`] | frames of the protocol between nodes, authenticated with the cluster's key |
//! | [`hello`] | the neighbor at the other end of a link: its identity, and whether it is alive |
//! | [`board`] | which links are up, as all nodes know it |
//! | [`control`] | these three at one node: frames in, frames out |
//! | [`routes`] | the routes of the whole cluster, a copy on each node |
//! | [`lanes`] | in a fly: the path of a flowlet between two nodes, balanced by bytes |
//! | [`mac`] | node, port, next hop and phase in an Ethernet address |
//! | [`topology`] | full mesh and k-ary n-fly: which nodes have a link, and which link is next on a path |
//! | [`resequence`] | restores the order of packets at their output node |
//! | `round_robin` | byte-fair deficit round-robin over the links of a node |
//! | [`work`] | the work of a node, relative to the rate of its external ports: the c of cR |
//!
//! # Layers
//!
//! 1. `frame`, `failures`, `flowlet`, `budget`, `load`, `mac`, `round_robin`, `work`, `resequence`
//! 2. `routes`, `board`, `topology`, `balancer`
//! 3. `hello`, `lanes`
//! 4. `control`
//!
//! Read `balancer.rs` first for load balancing, `hello.rs` for the protocol between neighbors.
//!
//! # What is absent
//!
//! This crate knows neither DPDK nor elements, opens no file and no socket, and never reads a clock: times
//! are arguments, in nanoseconds, and where random numbers are needed they come from a seeded generator that
//! is passed in. Functions that are called for each packet allocate nothing and do not panic.
#![forbid(unsafe_code)]

pub mod balancer;
pub mod board;
pub mod budget;
pub mod control;
pub mod failures;
pub mod flowlet;
pub mod frame;
pub mod hello;
pub mod lanes;
pub mod load;
pub mod mac;
pub mod resequence;
mod round_robin;
pub mod routes;
pub mod topology;
pub mod work;

pub use balancer::{Balancer, Choice, Config, Mode, Outgoing};
pub use control::{Control, Received};
pub use failures::Failures;
pub use frame::Key;
pub use mac::{MacCode, Phase, SourceCode};
pub use measure::rng::Rng;
pub use routes::Replica;
pub use topology::{NextLinks, Topology};

/// The most nodes that a cluster has: as many as the MAC code distinguishes.
pub const MAX_NODES: u16 = 4096;

/// One server of the cluster, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The node's index in a table of all nodes.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Invalid settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too few or too many nodes.
    #[error("a cluster of {0} nodes: 2 to {MAX_NODES} are possible")]
    Nodes(u16),
    /// A node that the cluster does not have.
    #[error("node {node} in a cluster of {nodes} nodes: they count from 0")]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// How many there are.
        nodes: u16,
    },
    /// A failure set of another cluster.
    #[error("failures of a cluster of {got} nodes, applied to one of {nodes}")]
    OtherCluster {
        /// The nodes of the failure set.
        got: u16,
        /// The nodes of the balancer.
        nodes: u16,
    },
    /// A quantity outside of its range.
    #[error("{what} of {got} {unit}: {low} to {high} is possible")]
    Range {
        /// The name of the quantity.
        what: &'static str,
        /// Its value.
        got: u64,
        /// Its unit.
        unit: &'static str,
        /// The least.
        low: u64,
        /// The most.
        high: u64,
    },
}

pub(crate) fn in_range(
    what: &'static str,
    got: u64,
    unit: &'static str,
    low: u64,
    high: u64,
) -> Result<u64, Error> {
    if (low..=high).contains(&got) { Ok(got) } else { Err(Error::Range { what, got, unit, low, high }) }
}
