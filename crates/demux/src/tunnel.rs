//! The addresses of a VXLAN tunnel.

use std::net::Ipv4Addr;
use wire::vxlan;

/// The two ends of the VXLAN tunnel of a port (RFC 7348): what its outer headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// This end's address.
    pub local: Ipv4Addr,
    /// This port's Ethernet address.
    pub local_mac: [u8; 6],
    /// The other end's address. Datagrams of others are not taken for the tunnel's.
    pub remote: Ipv4Addr,
    /// The Ethernet address of the other end, or of the router on the way to it.
    pub remote_mac: [u8; 6],
    /// The UDP port that datagrams are for.
    pub port: u16,
    /// The time to live of what is sent.
    pub ttl: u8,
    /// Whether what is sent has a UDP checksum. One that is received is checked in any case.
    pub checksum: bool,
}

impl Tunnel {
    /// A tunnel between these ends, with UDP port 4789, TTL 64, and no UDP checksum, as RFC 7348 advises.
    pub fn new(local: Ipv4Addr, local_mac: [u8; 6], remote: Ipv4Addr, remote_mac: [u8; 6]) -> Tunnel {
        Tunnel { local, local_mac, remote, remote_mac, port: vxlan::PORT, ttl: 64, checksum: false }
    }
}
