//! IP version 6: checking and changing packets, routes, ICMPv6, neighbor discovery.

mod addresstranslator;
mod checkip6header;
mod decip6hlim;
pub(crate) mod engine;
mod getip6address;
mod icmp6error;
mod icmp6pingresponder;
mod ip6encap;
mod ip6fragmenter;
mod ip6mirror;
mod ip6ndadvertiser;
mod ip6ndsolicitor;
mod ip6print;
mod ip6radvertiser;
mod lookupip6route;
mod markip6header;
mod protocoltranslator46;
mod protocoltranslator64;
mod setip6address;
mod setip6dscp;
mod setip6ecn;
mod setip6flowlabel;
mod setip6hlim;
mod storeip6address;
mod udpip6encap;

use runtime::{Registry, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<addresstranslator::AddressTranslator>());
    r.add(simple::<checkip6header::CheckIP6Header>());
    r.add(simple::<decip6hlim::DecIP6HLIM>());
    r.add(simple::<getip6address::GetIP6Address>());
    r.add(simple::<icmp6error::ICMP6Error>());
    r.add(simple::<icmp6pingresponder::ICMP6PingResponder>());
    r.add(simple::<ip6encap::IP6Encap>());
    r.add(simple::<ip6fragmenter::IP6Fragmenter>());
    r.add(simple::<ip6mirror::IP6Mirror>());
    r.add(simple::<ip6ndadvertiser::IP6NDAdvertiser>());
    r.add(vector::<ip6ndsolicitor::IP6NDSolicitor>());
    r.add(simple::<ip6print::IP6Print>());
    r.add(vector::<ip6radvertiser::IP6RAdvertiser>());
    r.add(vector::<lookupip6route::LookupIP6Route>());
    r.add(simple::<markip6header::MarkIP6Header>());
    r.add(vector::<protocoltranslator46::ProtocolTranslator46>());
    r.add(vector::<protocoltranslator64::ProtocolTranslator64>());
    r.add(simple::<setip6address::SetIP6Address>());
    r.add(simple::<setip6dscp::SetIP6DSCP>());
    r.add(simple::<setip6ecn::SetIP6ECN>());
    r.add(simple::<setip6flowlabel::SetIP6FlowLabel>());
    r.add(simple::<setip6hlim::SetIP6Hlim>());
    r.add(simple::<storeip6address::StoreIP6Address>());
    r.add(simple::<udpip6encap::UDPIP6Encap>());
}
