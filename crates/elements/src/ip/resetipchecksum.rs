//! # ResetIPChecksum
//! Makes the checksums of IP packets right before they are sent.
//!
//! FastClick's. There the device computes the checksums when the packet is sent; here they are right from
//! then on.
//!
//! ## Synopsis
//! `ResetIPChecksum([L4])`
//!
//! ## Arguments
//! - `L4` (*bool*, default false): whether to set the checksums of TCP and UDP too. Those of fragments, and
//!   of segments that are shorter than their headers say, stay as they are.
//!
//! ## Ports
//! One input, one output; agnostic. The header is the marked one, else the packet's beginning.
//!
//! ## Handlers
//! - `drops` (read): packets that could not hold their IP header.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0001000200080000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> ResetIPChecksum(L4 true) -> CheckIPHeader -> CheckUDPHeader -> Discard;
//! ```
//!
//! ## See also
//! SetIPChecksum, SetTCPChecksum, SetUDPChecksum

use super::setipchecksum::{BAD_IP_HEADER, set};
use crate::prelude::*;
use wire::{Ipv4, protocol, tcp, udp};

/// The `ResetIPChecksum` element.
pub struct ResetIPChecksum {
    l4: bool,
    drops: Counter,
}

impl Element for ResetIPChecksum {
    const CLASS: &'static str = "ResetIPChecksum";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[BAD_IP_HEADER.when("the packet is shorter than its header")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/resetipchecksum");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { l4: args.p_or("L4", false)?, drops: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("drops", |e| &e.drops);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.drops.set(old.drops.get());
    }
}

/// Writes the checksum of the transport header, if the packet has a whole one.
fn set_transport(packet: &mut Packet) {
    let marked = packet.network_header().is_some();
    let bytes = if marked { packet.network_header_mut().unwrap_or(&mut []) } else { packet.data_mut() };
    let Some(header) = Ipv4::new(bytes).filter(|h| !h.is_fragment()) else { return };
    let (at, end, of) = (header.header_len(), usize::from(header.total_len()), header.protocol());
    let Some(len) = end.checked_sub(at) else { return };
    let pseudo = header.pseudo_sum(len as u16);
    let Some(transport) = bytes.get_mut(at..end) else { return };
    // Too short for a checksum.
    let _ = match of {
        protocol::TCP => tcp::fill(pseudo, transport),
        protocol::UDP => udp::fill(pseudo, transport),
        _ => false,
    };
}

impl Step for ResetIPChecksum {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        if !set(packet) {
            return false;
        }
        if self.l4 {
            set_transport(packet);
        }
        true
    }
}

impl Simple for ResetIPChecksum {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        self.drops.add(1);
        if self.drops.get() == 1 {
            cx.log(Level::WARN, "ResetIPChecksum: bad input packet");
        }
        cx.drop(packet, BAD_IP_HEADER);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked, sound};
    use crate::testing::Bench;

    /// Whether the checksum of the transport header is right.
    fn whole(packet: &[u8]) -> bool {
        let header = wire::Ipv4::new(packet).unwrap();
        let pseudo = header.pseudo_sum(packet.len() as u16 - 20);
        match header.protocol() {
            17 => wire::udp::verify(pseudo, &packet[20..]),
            _ => wire::tcp::verify(pseudo, &packet[20..]),
        }
    }

    #[test]
    fn sums_headers_and_segments() {
        let mut udp = [0, 1, 0, 2, 0, 12, 9, 9, 1, 2, 3, 4];
        udp[6..8].copy_from_slice(&[0x55, 0xaa]);
        let mut tcp = [7; 24];
        tcp[12] = 0x50;
        for (proto, segment) in [(17, &udp[..]), (6, &tcp[..])] {
            let bytes = ip(proto, segment);
            let plain = Bench::new("ResetIPChecksum()").push_packet(0, marked(&bytes));
            assert!(sound(&plain[0].1) && plain[0].1[20..] == bytes[20..], "the segment stays");
            let summed = Bench::new("ResetIPChecksum(L4 true)").push_packet(0, marked(&bytes));
            assert!(sound(&summed[0].1) && whole(&summed[0].1), "{proto}");
            let positional = Bench::new("ResetIPChecksum(true)").push(0, &bytes);
            assert_eq!(positional[0].1, summed[0].1);
        }
    }

    #[test]
    fn what_has_no_sum_stays() {
        let mut bench = Bench::new("ResetIPChecksum(true)");
        let mut fragment = ip(17, &[1; 16]);
        fragment[6] = 0x20;
        for bytes in [fragment, ip(1, &[1; 16]), ip(6, &[1; 10]), ip(17, &[1; 16])[..30].to_vec()] {
            let out = bench.push_packet(0, marked(&bytes));
            assert_eq!(out[0].1[20..], bytes[20..]);
        }
        assert!(bench.push(0, &[0x4f; 59]).is_empty());
        assert_eq!(bench.read("drops"), "1");
    }
}
