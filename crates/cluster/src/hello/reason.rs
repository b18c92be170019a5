//! The reasons why a link is not up.

use crate::NodeId;

/// Why a link is not up, or what is wrong with one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No frame arrives.
    #[error("no hello from node {0}")]
    Silent(NodeId),
    /// The neighbor's hellos arrive, but it does not receive those of this node.
    #[error("node {0} sends hellos but receives none from this node: the link works in one direction only")]
    HalfOpen(NodeId),
    /// Another node is at the other end.
    #[error(
        "wrong wiring: node {heard} is at the other end instead of node {wanted}, with its link to node {meant}"
    )]
    WrongNode {
        /// The node that should be there.
        wanted: NodeId,
        /// The node that is.
        heard: NodeId,
        /// The node that it expects here.
        meant: NodeId,
    },
    /// The right node is at the other end, with another of its links.
    #[error("wrong wiring: node {heard} is at the other end, but with its link to node {meant}")]
    WrongLink {
        /// The neighbor.
        heard: NodeId,
        /// The node that its link should lead to.
        meant: NodeId,
    },
    /// This link's own frames come back.
    #[error("this node receives its own hellos: the link is looped back")]
    Loop,
    /// Another node has this node's number.
    #[error("another node has the same number as this one, {0}")]
    DuplicateOfThisNode(NodeId),
    /// Two nodes have the neighbor's number.
    #[error("two nodes at the other end have the number {0}; frames of the first one are accepted")]
    DuplicatePeer(NodeId),
    /// Hellos arrive that were made with another key.
    #[error("hellos from node {0} are not authenticated with the key and name of this cluster")]
    Foreign(NodeId),
    /// Another version of the protocol.
    #[error("node {0} uses version {1} of the protocol")]
    Version(NodeId, u8),
    /// Another configuration.
    #[error("node {node} has another configuration: digest {theirs:016x}, here {ours:016x}")]
    Differs {
        /// The neighbor.
        node: NodeId,
        /// Its digest.
        theirs: u64,
        /// This node's.
        ours: u64,
    },
    /// Long frames do not arrive.
    #[error(
        "frames of {wanted} bytes do not arrive at node {node}{}: the link's MTU is too small",
        .largest.map_or_else(String::new, |n| format!(", only up to {n}"))
    )]
    Mtu {
        /// The neighbor.
        node: NodeId,
        /// The longest frame that the link must carry.
        wanted: u16,
        /// The longest that arrives; none until that is known.
        largest: Option<u16>,
    },
    /// Not enough hellos yet.
    #[error("waiting for more hellos from node {0}")]
    Settling(NodeId),
    /// The other end is not ready.
    #[error("node {0} is not ready: see its end of the link for the reason")]
    Waits(NodeId),
}
