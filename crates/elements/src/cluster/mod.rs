//! Elements of a node of a cluster: several servers that act as one router.

mod clusterdecap;
pub(crate) mod clusterencap;
mod clusterinfo;
mod clusterlink;
mod clusterqueue;
mod clusterroutes;
mod clusterswitch;
mod engine;
mod resequencer;
#[cfg(test)]
mod tests;

use runtime::{Registry, inert, vector};

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
