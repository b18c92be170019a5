//! Code that the elements of IP version 4 share.
//!
//! Read first: `header.rs`, a packet's IP header and its check, and packets for the tests. `arguments.rs` has
//! arguments that elements of version 6 share too. `reassembly.rs` holds fragments of incomplete datagrams.

pub(crate) mod arguments;
pub(crate) mod header;
pub(super) mod options;
pub(super) mod reassembly;
