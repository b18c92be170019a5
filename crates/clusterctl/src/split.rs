//! The program of the whole router is split into a configuration for each node.
//!
//! The program is an ordinary configuration with the devices of all nodes. What a node runs is the same
//! graph, with
//!
//! - `Idle` in place of each device that another node has;
//! - `ClusterEncap` in place of each `ARPQuerier` whose packets would leave by such a device: they go to the
//!   node that has it, with the next hop in their address, after all work on their headers has been done;
//! - the packets that come from other nodes for a port of this one at that port's `ARPQuerier`;
//! - a fair queue in place of each `Queue` before one of its own devices;
//! - answers to packets from outside whose output node is dead, if the routes are known to be in one table;
//! - the cluster's own elements, the links to other nodes, and a control socket.
//!
//! This happens to the flat graph, where compound elements are expanded and variables are substituted.
//! Until the text is written, each device has a placeholder for its name, as nodes may have devices of the
//! same name.
//!
//! `analysis.rs` finds what the program has for each port, and reports what cannot be split; `write.rs`
//! writes the configuration of a node from that.

mod analysis;
mod digest;
mod fabrics;
mod graph;
mod text;
mod write;

pub(crate) use analysis::ClusterProgram;
