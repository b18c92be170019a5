//! Code that the elements of ICMP, TCP and UDP share.
//!
//! Read first: `datagram.rs`, an IP packet as its transport layer sees it. `replies.rs` counts the replies to
//! pings.

pub(super) mod check;
pub(crate) mod datagram;
pub(super) mod force;
pub(super) mod replies;
