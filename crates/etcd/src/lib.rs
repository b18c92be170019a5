//! A client of etcd (version 3) for clusters: requests with time limits, following a prefix, presence under a
//! lease.
//!
//! **What it is.** A blocking client on its own threads. No call takes longer than its [`Limits`] say, and
//! none is made on the thread of the caller that starts [`Follower`] or [`Presence`].
//!
//! **What it must not know.** Routers, clusters, DPDK. It does not use the environment variables that name
//! HTTP proxies.
//!
//! **Read first.** `follow.rs`, a prefix that is followed through outages; then `client.rs`, the requests.
//!
//! | module | holds |
//! |---|---|
//! | [`client`] | requests to a list of endpoints, each with a limit; compare-and-swap; leases |
//! | [`error`] | what can go wrong, in words that say what to do |
//! | [`follow`] | a thread that reads everything below a prefix and then each change, through outages and compactions |
//! | [`presence`] | a thread that keeps one key alive for as long as the process lives |
//! | [`mirror`] | what is below the prefix, as far as is known; what is wrong, said once |
//! | [`trust`] | how both ends know each other: certificates for `https://`, users and passwords |
//! | [`backoff`] | how long to wait before the next attempt |
//!
//! It speaks to the JSON gateway that every etcd since 3.4 has at its client port (`/v3/...`, keys and values
//! in base64): an ordinary HTTP client that blocks is enough, where etcd's own protocol would bring in an
//! asynchronous runtime, HTTP/2 and a compiler for its messages.
#![forbid(unsafe_code)]

pub mod backoff;
pub mod client;
pub mod error;
pub mod follow;
pub mod mirror;
pub mod presence;
pub mod trust;

pub use client::{Change, Client, Entry, LeaseId, Limits, Swap};
pub use error::Error;
pub use follow::Follower;
pub use mirror::{Health, Mirror, News};
pub use presence::Presence;
pub use trust::Trust;
