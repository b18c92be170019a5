//! What the elements of ICMP, TCP and UDP share.
//!
//! Read first: `datagram.rs`, an IP packet as its transport layer sees it.

pub(super) mod check;
pub(super) mod datagram;
