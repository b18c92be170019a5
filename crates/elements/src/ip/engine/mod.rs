//! What the elements of IP version 4 share.
//!
//! Read first: `header.rs`, a packet's IP header and its check; it has the packets of the tests too.

pub(crate) mod header;
pub(super) mod options;
