//! # SetTCPChecksum
//! Sets the checksum of TCP packets.
//!
//! ## Synopsis
//! `SetTCPChecksum([FIXOFF])`
//!
//! ## Arguments
//! - `FIXOFF` (*bool*, default false): whether to make an impossible header length possible: 20 bytes if it
//!   is below, the IP payload's length if it is above and the packet is not a fragment.
//!
//! ## Ports
//! One input, one output; agnostic. The input takes TCP packets whose IP header is marked; the protocol is
//! not checked. The checksum covers the IP payload and the pseudo-header, in which a source-routed packet's
//! destination is the last of the route (RFC 1122 §4.2.3.8). For a packet that is too short a line is
//! printed.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<45000028 00000000 400666ce 0a000001 0a000002 03e807d0 00000000 00000000 50000000 00000000>,
//!     LIMIT 1, STOP true)
//!   -> MarkIPHeader
//!   -> SetTCPChecksum
//!   -> CheckTCPHeader
//!   -> Discard;
//! ```
//!
//! ## See also
//! CheckTCPHeader, SetIPChecksum, SetUDPChecksum

use super::engine::datagram::{Datagram, payload_mut};
use crate::prelude::*;
use wire::{Tcp, tcp};

const BAD_LENGTHS: DropReason = DropReason::new("bad lengths");

/// The `SetTCPChecksum` element.
pub struct SetTCPChecksum {
    fixoff: bool,
}

impl Element for SetTCPChecksum {
    const CLASS: &'static str = "SetTCPChecksum";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[BAD_LENGTHS
        .when("no IP header is marked, the IP payload is shorter than 20 bytes, or it is not all there")];
    const MANUAL: &'static str = manual!("transport/settcpchecksum");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { fixoff: args.p("FIXOFF")?.unwrap_or(false) })
    }
}

fn fix_header_len(segment: &mut [u8], fragment: bool) {
    let len = segment.len();
    let Some(mut h) = Tcp::new_mut(segment) else { return };
    if h.header_len() < tcp::HEADER_LEN {
        h.set_header_len(tcp::HEADER_LEN);
    } else if h.header_len() > len && !fragment {
        h.set_header_len(len);
    }
}

impl SetTCPChecksum {
    /// Whether the packet is long enough for a checksum.
    fn set(&self, packet: &mut Packet) -> Option<bool> {
        let datagram = Datagram::of(packet)?;
        let len = datagram.payload_len()?;
        let (pseudo, fragment) = (datagram.pseudo_sum(len), datagram.ip.is_fragment());
        let segment = payload_mut(packet, len.into())?;
        if self.fixoff {
            fix_header_len(segment, fragment);
        }
        Some(tcp::fill(pseudo, segment))
    }
}

impl Simple for SetTCPChecksum {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.set(&mut packet) == Some(true) {
            return Some(packet);
        }
        cx.log(Level::WARN, "SetTCPChecksum: bad lengths");
        cx.drop(packet, BAD_LENGTHS);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::marked;
    use crate::testing::Bench;
    use crate::transport::engine::datagram::sample::{ROUTE, tcp};

    #[test]
    fn sets_the_checksum() {
        let mut bench = Bench::new("SetTCPChecksum");
        for good in [tcp(&[], b"data"), tcp(&[], b"odd"), tcp(&[1; 4], b""), tcp(&ROUTE, b"data")] {
            let mut bytes = good.clone();
            let at = usize::from(bytes[0] & 15) * 4 + 16;
            bytes[at..at + 2].copy_from_slice(&[0xab, 0xcd]);
            assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, good)]);
        }
        // Padding does not count.
        let mut padded = tcp(&[], b"data");
        padded.extend([0xee; 9]);
        assert_eq!(bench.push_packet(0, marked(&padded)), [(0, padded)]);
    }

    #[test]
    fn fixes_the_header_length() {
        let mut bench = Bench::new("SetTCPChecksum(true)");
        let mut bytes = tcp(&[], b"123456");
        for (wrong, right) in [(0x40, 0x50), (0xf0, 0x60), (0x70, 0x60), (0x60, 0x60), (0x50, 0x50)] {
            bytes[32] = wrong;
            assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[32], right);
        }
        bytes[32] = 0xf0;
        bytes[6] = 0x20;
        assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[32], 0xf0, "a fragment");
        assert_eq!(Bench::new("SetTCPChecksum").push_packet(0, marked(&bytes))[0].1[32], 0xf0);
    }

    #[test]
    fn drops_what_is_short() {
        let mut bench = Bench::new("SetTCPChecksum");
        let good = tcp(&[], b"data");
        let mut bad = vec![good[..43].to_vec(), good[..20].to_vec(), good[..4].to_vec()];
        for (at, value) in [(3, 39), (3, 12), (3, 45), (0, 0x4f), (0, 0x43)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            bad.push(bytes);
        }
        for bytes in &bad {
            assert!(bench.push_packet(0, marked(bytes)).is_empty(), "{bytes:x?}");
        }
        assert!(bench.push(0, &good).is_empty(), "unmarked");
        assert_eq!(bench.drops(), [("bad lengths".to_owned(), 9)]);
    }
}
