//! Ethernet, VLAN and ARP.

use runtime::Registry;

/// Registers the section's classes.
pub fn register(_registry: &mut Registry) {}
