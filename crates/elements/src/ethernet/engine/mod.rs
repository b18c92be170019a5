//! The engine of ARP, and what the VLAN elements share.
//!
//! Read first: `neighbors.rs`, the table behind `ARPQuerier` and `ARPTable`.

pub(super) mod neighbors;
pub(super) mod vlan;
mod waiting;
