//! The cluster's configuration, routes and members in etcd, beside the cluster file: what is stored, and the part of a node
//! that follows it.
//!
//! | key, below the prefix | holds |
//! |---|---|
//! | `/config` | the cluster file and its program, with a serial number |
//! | `/routes/10.9.0.0/16` | one route |
//! | `/nodes/3/SESSION` | a running process, under a lease |
//!
//! The key of the cluster never goes there. It seals configuration and routes instead: who can write to etcd, but does not
//! have the key, can enter nothing and bring no older configuration back, as the serial number is sealed with it and nodes keep
//! the highest that they have seen; he can remove routes, and put back what was sealed
//! for the same network before. What is in etcd decides what is configured, never what is forwarded: nodes and links are
//! watched in band.

mod agent;
mod here;
mod store;

pub(super) use here::{add_route, begin, members, pull, push, remove_route};
pub(super) use store::Member;

/// The `[etcd]` section of a cluster file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Where etcd's members are.
    pub(crate) endpoints: Vec<String>,
    /// What all keys of this cluster begin with; no slash at the end.
    pub(crate) prefix: String,
    /// How long a node that died counts as present, in seconds.
    pub(crate) ttl_s: u32,
    /// Certificates, user and password, for an etcd that has them.
    pub(crate) trust: ::etcd::Trust,
}

impl Settings {
    /// What is wrong with a prefix, and what would be right.
    pub(crate) fn bad_prefix(prefix: &str) -> Option<&'static str> {
        let good = prefix.starts_with('/')
            && prefix.len() > 1
            && !prefix.ends_with('/')
            && !prefix.contains("//")
            && prefix.chars().all(|c| c.is_ascii_graphic());
        (!good).then_some("it begins with a slash and does not end with one, as in \"/valiant/rb4\"")
    }
}
