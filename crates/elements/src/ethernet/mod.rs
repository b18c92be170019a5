//! Ethernet, VLAN and ARP.

mod arpquerier;
mod arpresponder;
mod arptable;
mod dropbroadcasts;
mod etherencap;
mod neighbours;

use runtime::{Registry, inert, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<arpquerier::ArpQuerier>());
    r.add(simple::<arpresponder::ArpResponder>());
    r.add(inert::<arptable::ArpTable>());
    r.add(simple::<dropbroadcasts::DropBroadcasts>());
    r.add(simple::<etherencap::EtherEncap>());
}
