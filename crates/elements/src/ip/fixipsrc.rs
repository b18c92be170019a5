//! # FixIPSrc
//! Sets the IP source of packets that ask for it.
//!
//! ## Synopsis
//! `FixIPSrc(IPADDR)`
//!
//! ## Arguments
//! - `IPADDR` (*IP address*): the source to set, usually that of the interface that the packet leaves by.
//!
//! ## Ports
//! One input, one output; agnostic. Packets whose Fix IP Source annotation is set (ICMPError sets it) get the
//! source and a new header checksum, and the annotation is cleared; others, and packets without a marked IP
//! header, pass unchanged.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 00000000 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader
//!   -> FixIPSrc(10.0.0.254)
//!   -> Discard;
//! ```
//!
//! ## See also
//! ICMPError, IPOutputCombo

use super::engine::header::{fill_checksum, header_mut};
use crate::prelude::*;
use std::net::Ipv4Addr;

/// The `FixIPSrc` element.
pub struct FixIPSrc {
    address: Ipv4Addr,
}

impl Element for FixIPSrc {
    const CLASS: &'static str = "FixIPSrc";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER).with(Fields::FIX_IP_SRC);
    const WRITES: Fields = Fields::DATA.with(Fields::FIX_IP_SRC);
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/fixipsrc");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { address: args.mp("IPADDR")? })
    }
}

/// Sets the source if the packet's annotation requires it.
#[inline]
pub(super) fn fix(packet: &mut Packet, address: Ipv4Addr) {
    if packet.fix_ip_src() {
        set_source(packet, address);
    }
}

#[cold]
fn set_source(packet: &mut Packet, address: Ipv4Addr) {
    if let Some(mut h) = header_mut(packet) {
        h.set_src(address);
        fill_checksum(packet);
        packet.set_fix_ip_src(false);
    }
}

impl Step for FixIPSrc {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        !packet.fix_ip_src()
    }
}

impl Simple for FixIPSrc {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        fix(&mut packet, self.address);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked, sound};
    use crate::testing::Bench;

    #[test]
    fn fixes_only_what_asks() {
        let mut bench = Bench::new("FixIPSrc(1.2.3.4)");
        let bytes = ip(1, b"abcd");
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, bytes.clone())]);
        let mut packet = marked(&bytes);
        packet.set_fix_ip_src(true);
        let out = bench.send(0, packet);
        assert_eq!(out[0].1.data()[12..16], [1, 2, 3, 4]);
        assert!(sound(out[0].1.data()));
        assert!(!out[0].1.fix_ip_src());
    }

    #[test]
    fn needs_an_address() {
        assert!(Bench::error("FixIPSrc()").contains("IPADDR"));
    }
}
