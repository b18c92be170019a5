//! The engine of ARP, and code that the VLAN elements share.
//!
//! Read first: `neighbors.rs`, the neighbor table of `ARPQuerier` and `ARPTable`.

pub(super) mod neighbors;
pub(super) mod vlan;
mod waiting;
