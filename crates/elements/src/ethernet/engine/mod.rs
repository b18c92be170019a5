//! The engine of ARP, and what the VLAN elements share.
//!
//! Read first: `neighbours.rs`, the table behind `ARPQuerier` and `ARPTable`.

pub(super) mod neighbours;
pub(super) mod vlan;
mod waiting;
