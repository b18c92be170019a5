//! Code that the elements of IP version 6 share.
//!
//! Read first: `header.rs`, a packet's IPv6 header, and packets for the tests. `discovery.rs` makes and reads
//! the messages of neighbor discovery. `routes.rs` is the routing
//! table, whose next hops have numbers, which `hops.rs` allocates. `translate.rs` makes packets of one
//! version of IP from those of the other one, `embedding.rs` IPv6 addresses that contain IPv4 addresses.

pub(super) mod discovery;
pub(crate) mod embedding;
pub(crate) mod header;
pub(super) mod hops;
pub(super) mod routes;
pub(crate) mod translate;
