//! The input node of a packet, in its annotations.

use cluster::NodeId;

/// What the aggregate annotation of a packet from another node begins with; the node is in its last 16 bits.
const FROM_NODE: u32 = 0xc600_0000;

/// Says by which node a packet came into the cluster.
#[inline]
pub(in crate::cluster) fn set_input_node(anno: &mut dpdk::Anno, node: NodeId) {
    anno.set_aggregate(FROM_NODE | u32::from(node.0));
}

/// By which node a packet came into the cluster, if that has been said.
#[inline]
pub(in crate::cluster) fn input_node(anno: &dpdk::Anno, nodes: u16) -> Option<NodeId> {
    let node = anno.aggregate() ^ FROM_NODE;
    (node < u32::from(nodes)).then_some(NodeId(node as u16))
}
