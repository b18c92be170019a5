//! The engine of ARP and of IPv6's neighbor discovery, and code that the VLAN elements share.
//!
//! Read first: `neighbors.rs`, the neighbor table of `ARPQuerier`, `ARPTable` and `IP6NDSolicitor`.

pub(crate) mod neighbors;
pub(super) mod vlan;
mod waiting;
