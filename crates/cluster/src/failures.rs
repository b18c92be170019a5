//! Which nodes and links are dead. Links are directed, as a cable or a fibre can fail one way.

use crate::{Error, MAX_NODES, NodeId};
use std::collections::BTreeSet;

/// What is known to be dead in a cluster; everything else is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    nodes: u16,
    dead_nodes: BTreeSet<NodeId>,
    dead_links: BTreeSet<(NodeId, NodeId)>,
}

impl Failures {
    /// Nothing is dead in a cluster of `nodes`.
    pub fn none(nodes: u16) -> Result<Self, Error> {
        if !(2..=MAX_NODES).contains(&nodes) {
            return Err(Error::Nodes(nodes));
        }
        Ok(Self { nodes, dead_nodes: BTreeSet::new(), dead_links: BTreeSet::new() })
    }
    /// How many nodes the cluster has, dead ones included.
    #[must_use]
    pub const fn nodes(&self) -> u16 {
        self.nodes
    }
    /// How many of them are alive.
    #[must_use]
    pub fn alive(&self) -> u16 {
        self.nodes - self.dead_nodes.len() as u16
    }
    fn known(&self, node: NodeId) -> Result<(), Error> {
        if node.0 < self.nodes { Ok(()) } else { Err(Error::NoSuchNode { node, nodes: self.nodes }) }
    }
    /// A node died, or came back. Its links keep their state. Returns whether this is a change.
    pub fn set_node(&mut self, node: NodeId, up: bool) -> Result<bool, Error> {
        self.known(node)?;
        Ok(if up { self.dead_nodes.remove(&node) } else { self.dead_nodes.insert(node) })
    }
    /// The link from one node to another died, or came back. Returns whether this is a change.
    pub fn set_link(&mut self, from: NodeId, to: NodeId, up: bool) -> Result<bool, Error> {
        self.known(from)?;
        self.known(to)?;
        Ok(if up { self.dead_links.remove(&(from, to)) } else { self.dead_links.insert((from, to)) })
    }
    /// Whether a node is alive.
    #[must_use]
    pub fn node_up(&self, node: NodeId) -> bool {
        node.0 < self.nodes && !self.dead_nodes.contains(&node)
    }
    /// Whether a packet can go from one node to another: both and the link between them are alive.
    #[must_use]
    pub fn link_up(&self, from: NodeId, to: NodeId) -> bool {
        self.node_up(from) && self.node_up(to) && !self.dead_links.contains(&(from, to))
    }
    /// The dead links, in order.
    pub fn dead_links(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.dead_links.iter().copied()
    }
    /// The dead nodes, in order.
    pub fn dead_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.dead_nodes.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_and_back() {
        let mut f = Failures::none(4).unwrap();
        assert_eq!((f.set_node(NodeId(2), false), f.set_node(NodeId(2), false)), (Ok(true), Ok(false)));
        assert_eq!(f.set_link(NodeId(0), NodeId(1), false), Ok(true));
        assert!(
            !f.link_up(NodeId(0), NodeId(1))
                && f.link_up(NodeId(1), NodeId(0))
                && !f.link_up(NodeId(2), NodeId(0))
        );
        assert_eq!(f.alive(), 3);
        assert_eq!(f.set_node(NodeId(4), true), Err(Error::NoSuchNode { node: NodeId(4), nodes: 4 }));
        f.set_node(NodeId(2), true).unwrap();
        f.set_link(NodeId(0), NodeId(1), true).unwrap();
        assert_eq!(f, Failures::none(4).unwrap());
        assert_eq!(Failures::none(1), Err(Error::Nodes(1)));
    }
}
