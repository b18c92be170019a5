//! The annotation that holds the input node of a packet.

use cluster::NodeId;

/// The upper bits of the aggregate annotation of a packet from another node; the node's number is in the
/// lower 16 bits.
const FROM_NODE: u32 = 0xc600_0000;

/// Sets the node by which a packet entered the cluster.
#[inline]
pub(in crate::cluster) fn set_input_node(packet: &mut dpdk::Packet, node: NodeId) {
    packet.set_aggregate(FROM_NODE | u32::from(node.0));
}

/// The node by which a packet entered the cluster, if the annotation is set.
#[inline]
pub(in crate::cluster) fn input_node(packet: &dpdk::Packet, nodes: u16) -> Option<NodeId> {
    let node = packet.aggregate() ^ FROM_NODE;
    (node < u32::from(nodes)).then_some(NodeId(node as u16))
}
