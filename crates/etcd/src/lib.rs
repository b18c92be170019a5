//! A client of etcd (version 3.4 or later) for clusters: requests with time limits, following a prefix,
//! presence under a lease.
//!
//! **What it is.** A layer over the crate `etcd-client` that adds what a router needs: time limits for every
//! request, members that are tried one after the other, error messages that state what to do. Requests block;
//! a thread of the client's own, with an asynchronous runtime, serves connections, [`Follower`] and
//! [`Presence`]. No worker runs on that thread.
//!
//! **What it must not know.** Routers, clusters, DPDK. It does not use the environment variables that name
//! HTTP proxies.
//!
//! **Read first.** `follow.rs`, a prefix that is followed through outages; then `members.rs`, the requests.
//!
//! | module | holds |
//! |---|---|
//! | [`client`] | requests that block, and the thread that serves them |
//! | `members` | requests to a list of endpoints, each with a limit; compare-and-swap; leases |
//! | [`model`] | keys, changes, leases; limits |
//! | [`error`], `failure`, `probe` | errors with messages that state what to do; from the library's errors to these; which server is at an endpoint that broke a connection |
//! | [`follow`] | a task that reads everything below a prefix and then each change, through outages and compactions |
//! | [`presence`] | a task that keeps one key alive for as long as the process lives |
//! | [`mirror`] | a copy of the keys below the prefix; the present problem, reported once |
//! | [`trust`] | how both ends authenticate each other: certificates for `https://`, users and passwords |
//! | [`backoff`] | the waiting time before the next attempt |
#![forbid(unsafe_code)]

pub mod backoff;
pub mod client;
pub mod error;
mod failure;
pub mod follow;
mod members;
pub mod mirror;
pub mod model;
pub mod presence;
mod probe;
pub mod trust;

pub use client::{Client, Watching};
pub use error::Error;
pub use follow::Follower;
pub use mirror::{Health, Mirror, News};
pub use model::{Change, Entry, LeaseId, Limits, Swap};
pub use presence::Presence;
pub use trust::Trust;
