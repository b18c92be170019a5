//! Why a link is not up.

use crate::NodeId;

/// Why a link is not up, or what is strange about one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Nothing was heard.
    #[error("node {0} is not heard")]
    Silent(NodeId),
    /// It is heard, and does not hear this node.
    #[error("node {0} is heard but does not hear this node: the link works in one direction only")]
    HalfOpen(NodeId),
    /// Another node is at the other end.
    #[error(
        "wrong wiring: node {heard} is heard here in place of node {wanted}, and has its link to node {meant} here"
    )]
    WrongNode {
        /// Who should be there.
        wanted: NodeId,
        /// Who is.
        heard: NodeId,
        /// For whom that one takes this node.
        meant: NodeId,
    },
    /// The right node is at the other end, with another of its links.
    #[error("wrong wiring: node {heard} is heard here, but over its link to node {meant}")]
    WrongLink {
        /// Who is there.
        heard: NodeId,
        /// Where the link should lead that ends here.
        meant: NodeId,
    },
    /// This link's own frames come back.
    #[error("this node hears itself: the link leads back to where it starts")]
    Loop,
    /// Somebody else uses this node's identity.
    #[error("another node calls itself node {0}, as this one does")]
    MyTwin(NodeId),
    /// Somebody else uses the neighbor's identity.
    #[error("two nodes at the other end call themselves node {0}; the one that was heard first is believed")]
    Twins(NodeId),
    /// Somebody without the key.
    #[error("somebody without the key of this cluster (or of one with another name) calls itself node {0}")]
    Foreign(NodeId),
    /// Another version of the protocol.
    #[error("node {0} speaks version {1} of the protocol")]
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
        /// What the link is to carry.
        wanted: u16,
        /// The longest that arrives; none while that is being found out.
        largest: Option<u16>,
    },
    /// Not enough hellos yet.
    #[error("node {0} has just been heard")]
    Settling(NodeId),
    /// The other end is not ready.
    #[error("node {0} is not ready; its link to this node says why")]
    Waits(NodeId),
}
