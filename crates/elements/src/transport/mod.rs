//! ICMP, TCP and UDP.

mod icmperror;
mod icmppingresponder;

use runtime::{Registry, simple};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(simple::<icmperror::ICMPError>());
    r.add(simple::<icmppingresponder::ICMPPingResponder>());
}
