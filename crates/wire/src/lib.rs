//! Packet headers as zero-copy views, and Internet checksums.
//!
//! **What it is.** One module for each protocol (`ethernet`, `ipv4`, `udp`, ...), each with a view of its
//! header and the numbers of its RFC. Elements read and write headers through these views and compute
//! checksums with [`checksum`].
//!
//! **What it must not know.** I/O, clocks, allocation, DPDK, elements: it has no dependencies and no
//! `unsafe`.
//!
//! **Read first.** `view.rs`, the macro that makes a view from a table of fields; then `udp.rs`, the shortest
//! protocol with a checksum.
//!
//! # Views
//!
//! A view wraps a fixed-size array of bytes, borrowed or owned: `Ipv4<&[u8; 20]>` reads a header in place,
//! `Ipv4<&mut [u8; 20]>` also writes it, `Ipv4<[u8; 20]>` owns its bytes. A view covers the part of
//! the header that is always there; options and payload are what `split` leaves over, or come from the
//! checked parsers ([`ipv4::Ipv4Packet`], [`udp::UdpDatagram`], [`tcp::TcpSegment`]).
//!
//! # Panic contract
//!
//! Nothing here panics, whatever the bytes. A view is made by a constructor that returns `None` when there
//! are too few bytes; after that every field lies inside a `[u8; N]`, and a constant assertion per field
//! proves so when the crate is compiled. Accessors are therefore plain loads. A setter takes what fits into
//! the field: wider values are masked.
//!
//! ```
//! use wire::{Ethernet, Ipv4, ethernet};
//! let mut frame = [0u8; 64];
//! if let Some((mut eth, rest)) = Ethernet::split_mut(&mut frame) {
//!     eth.set_ethertype(ethernet::ETHERTYPE_IPV4);
//!     if let Some(mut ip) = Ipv4::new_mut(rest) {
//!         ip.set_ttl(64);
//!     }
//! }
//! assert_eq!(Ethernet::new(&frame).unwrap().ethertype(), 0x0800);
//! ```
#![forbid(unsafe_code)]

#[macro_use]
mod view;

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod names;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

mod options;

pub use arp::Arp;
pub use ethernet::{EtherAddr, Ethernet};
pub use icmpv4::Icmpv4;
pub use icmpv6::Icmpv6;
pub use ipv4::{Ipv4, Ipv4Packet};
pub use ipv6::Ipv6;
pub use options::{BadOption, Options, RawOption};
pub use tcp::{Tcp, TcpSegment};
pub use udp::{Udp, UdpDatagram};
pub use vlan::Vlan;
pub use vxlan::Vxlan;

/// Protocol numbers of the IPv4 `protocol` and IPv6 `next header` field (IANA "Assigned Internet Protocol
/// Numbers").
pub mod protocol {
    /// IPv6 hop-by-hop options (RFC 8200).
    pub const HOP_BY_HOP: u8 = 0;
    /// Internet Control Message Protocol (RFC 792).
    pub const ICMP: u8 = 1;
    /// Internet Group Management Protocol (RFC 1112).
    pub const IGMP: u8 = 2;
    /// IP in IP (RFC 2003).
    pub const IPIP: u8 = 4;
    /// Transmission Control Protocol (RFC 9293).
    pub const TCP: u8 = 6;
    /// User Datagram Protocol (RFC 768).
    pub const UDP: u8 = 17;
    /// Datagram Congestion Control Protocol (RFC 4340).
    pub const DCCP: u8 = 33;
    /// IPv6 in IP (RFC 4213).
    pub const IPV6: u8 = 41;
    /// IPv6 routing header (RFC 8200).
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header (RFC 8200).
    pub const FRAGMENT: u8 = 44;
    /// Generic Routing Encapsulation (RFC 2784).
    pub const GRE: u8 = 47;
    /// IPsec encapsulating security payload (RFC 4303).
    pub const ESP: u8 = 50;
    /// IPsec authentication header (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// Nothing follows an IPv6 header (RFC 8200).
    pub const NO_NEXT_HEADER: u8 = 59;
    /// IPv6 destination options (RFC 8200).
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// Stream Control Transmission Protocol (RFC 9260).
    pub const SCTP: u8 = 132;
    /// UDP-Lite (RFC 3828).
    pub const UDPLITE: u8 = 136;
}
