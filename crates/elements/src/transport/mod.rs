//! ICMP, TCP and UDP.

mod checkicmpheader;
mod checktcpheader;
mod checkudpheader;
mod dynamicudpipencap;
pub(crate) mod engine;
mod forceicmp;
mod forcetcp;
mod forceudp;
mod icmperror;
mod icmpipencap;
pub(crate) mod icmppingencap;
mod icmppingresponder;
mod icmppingsource;
mod settcpchecksum;
mod setudpchecksum;
mod striptcpheader;
mod tcpfragmenter;
#[cfg(test)]
mod tests;
mod udpipencap;
mod unstriptcpheader;

use engine::check::CheckHeader;
use runtime::{Registry, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(simple::<CheckHeader<checkicmpheader::IcmpHeader>>());
    r.add(simple::<CheckHeader<checktcpheader::TcpHeader>>());
    r.add(simple::<CheckHeader<checkudpheader::UdpHeader>>());
    r.add(simple::<dynamicudpipencap::DynamicUDPIPEncap>());
    r.add(simple::<forceicmp::ForceICMP>());
    r.add(simple::<forcetcp::ForceTCP>());
    r.add(simple::<forceudp::ForceUDP>());
    r.add(simple::<icmperror::ICMPError>());
    r.add(simple::<icmpipencap::ICMPIPEncap>());
    r.add(simple::<icmppingencap::ICMPPingEncap>());
    r.add(simple::<icmppingresponder::ICMPPingResponder>());
    r.add(vector::<icmppingsource::ICMPPingSource>());
    r.old_name("ICMPSendPings", "ICMPPingSource");
    r.add(simple::<settcpchecksum::SetTCPChecksum>());
    r.add(simple::<setudpchecksum::SetUDPChecksum>());
    r.add(vector::<tcpfragmenter::TcpFragmenter>());
    r.add(simple::<striptcpheader::StripTCPHeader>());
    r.add(simple::<udpipencap::UDPIPEncap>());
    r.add(simple::<unstriptcpheader::UnstripTCPHeader>());
}
