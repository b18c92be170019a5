//! Many servers, one router: the nodes of a cluster.

mod clusterdecap;
pub(crate) mod clusterencap;
mod clusterinfo;
mod clusterlink;
mod clusterqueue;
mod clusterroutes;
mod clusterswitch;
mod fabric;
mod resequencer;
mod shares;
mod spread;
pub mod state;

use crate::prelude::*;
use cluster::NodeId;
use lang::args::{ElementName, StrictIpPrefix};
use runtime::{Registry, inert, vector};
use state::ClusterState;
use std::sync::Arc;

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(inert::<clusterinfo::ClusterInfo>());
    r.add(vector::<clusterencap::ClusterEncap>());
    r.add(vector::<clusterswitch::ClusterSwitch>());
    r.add(vector::<clusterdecap::ClusterDecap>());
    r.add(vector::<clusterlink::ClusterLink>());
    r.add(vector::<clusterqueue::ClusterQueue>());
    r.add(inert::<clusterroutes::ClusterRoutes>());
    r.add(vector::<resequencer::Resequencer>());
}

/// The state of the ClusterInfo that the first argument names.
fn state_of(args: &mut Args<'_>, cx: &ConfigCx<'_>) -> Result<Arc<ClusterState>, ArgError> {
    let name = args.mp::<ElementName>("CLUSTER")?;
    cx.shared_of::<ClusterState>(&name.0, "a ClusterInfo").map_err(|e| args.remember(e))
}

/// What the aggregate annotation of a packet from another node begins with; the node is in its last 16 bits.
const FROM_NODE: u32 = 0xc600_0000;

/// Says by which node a packet came into the cluster.
#[inline]
fn set_input_node(anno: &mut dpdk::Anno, node: NodeId) {
    anno.set_aggregate(FROM_NODE | u32::from(node.0));
}

/// By which node a packet came into the cluster, if that has been said.
#[inline]
fn input_node(anno: &dpdk::Anno, nodes: u16) -> Option<NodeId> {
    let node = anno.aggregate() ^ FROM_NODE;
    (node < u32::from(nodes)).then_some(NodeId(node as u16))
}

/// The network of an external port: next hops are numbered within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: u32,
    mask: u32,
}

impl Network {
    /// Of an argument.
    fn from_prefix(prefix: StrictIpPrefix) -> Result<Self, String> {
        let prefix = prefix.0;
        match prefix.prefix_len() {
            Some(16..=32) => Ok(Self { address: prefix.network().into(), mask: prefix.mask.into() }),
            Some(length) => Err(format!(
                "{prefix} is too large: the next hop has 16 bits in an internal address, so a network is /16 or longer, not /{length}"
            )),
            None => Err(format!("{prefix} is no network: its mask has gaps")),
        }
    }
    /// The number of a next hop; none outside of the network.
    #[inline]
    fn number(self, next_hop: [u8; 4]) -> Option<u16> {
        let next_hop = u32::from_be_bytes(next_hop);
        (next_hop & self.mask == self.address).then_some((next_hop & !self.mask) as u16)
    }
    /// The next hop with a number; none outside of the network.
    #[inline]
    fn next_hop(self, number: u16) -> Option<[u8; 4]> {
        (u32::from(number) & self.mask == 0).then(|| (self.address | u32::from(number)).to_be_bytes())
    }
}

#[cfg(test)]
mod fairtests;
#[cfg(test)]
mod flytests;
#[cfg(test)]
mod guardtests;
#[cfg(test)]
mod tests;
