//! Code that the elements of IP version 4 share.
//!
//! Read first: `header.rs`, a packet's IP header and its check, and packets for the tests. `reassembly.rs`
//! holds fragments of incomplete datagrams.

pub(crate) mod header;
pub(super) mod options;
pub(super) mod reassembly;
