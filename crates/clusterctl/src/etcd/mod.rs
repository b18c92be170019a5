//! The cluster's configuration, routes and members in etcd, beside the cluster file: what is stored, and the
//! part of a node that follows it.
//!
//! | key, below the prefix | holds |
//! |---|---|
//! | `/config` | the cluster file and its program, with a serial number |
//! | `/routes/10.9.0.0/16` | one route |
//! | `/nodes/3/SESSION` | a running process, under a lease |
//!
//! The key of the cluster is never stored there. Instead, configuration and routes are authenticated with it.
//! An attacker who can write to etcd but does not have the key can enter nothing, and cannot restore an older
//! configuration, because its serial number is authenticated too and nodes remember the highest that they
//! have seen. The attacker can remove routes, and restore earlier authenticated entries for the same network.
//! The contents of etcd determine what is configured, never what is forwarded: nodes and links are watched in
//! band.

mod agent;
mod commands;
mod kept;
mod node;
mod open;
mod store;

pub(crate) use commands::{add_route, members, pull, push, remove_route};
pub(crate) use node::begin;
pub(crate) use store::Member;
