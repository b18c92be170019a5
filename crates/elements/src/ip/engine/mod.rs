//! What the elements of IP version 4 share.
//!
//! Read first: `header.rs`, a packet's IP header and its check; it has the packets of the tests too.
//! `reassembly.rs` has the fragments that wait for others.

pub(crate) mod header;
pub(super) mod options;
pub(super) mod reassembly;
