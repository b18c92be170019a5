//! # SetIPChecksum
//! Computes the IP header checksum.
//!
//! ## Synopsis
//! `SetIPChecksum()`
//!
//! ## Ports
//! One input, one output; agnostic. The header is the marked one, else the packet's beginning. Changing a
//! header with IPMirror, DecIPTTL, SetIPDSCP or StoreIPAddress keeps its checksum right; this element is for
//! headers of one's own.
//!
//! ## Handlers
//! - `drops` (read): packets that could not hold their header.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> SetIPChecksum -> CheckIPHeader -> Discard;
//! ```
//!
//! ## See also
//! CheckIPHeader, ResetIPChecksum, SetTCPChecksum, SetUDPChecksum

use crate::prelude::*;
use wire::Ipv4;
use wire::ipv4::fill_header;

pub(super) const BAD_IP_HEADER: DropReason = DropReason::new("bad IP header");

/// Writes the checksum of a packet's header, the marked one or else that at the beginning. Returns false if
/// the packet cannot hold its header.
#[inline]
pub(super) fn set(packet: &mut Packet) -> bool {
    let marked = packet.network_header().is_some();
    let bytes = if marked { packet.network_header_mut().unwrap_or(&mut []) } else { packet.data_mut() };
    let len = Ipv4::new(bytes).map_or(0, |h| h.header_len());
    bytes.get_mut(..len).is_some_and(fill_header)
}

/// The `SetIPChecksum` element.
pub struct SetIPChecksum {
    drops: Counter,
}

impl Element for SetIPChecksum {
    const CLASS: &'static str = "SetIPChecksum";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[BAD_IP_HEADER.when("the packet is shorter than its header")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/setipchecksum");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { drops: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("drops", |e| &e.drops);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.drops.set(old.drops.get());
    }
}

impl Step for SetIPChecksum {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        set(packet)
    }
}

impl Simple for SetIPChecksum {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        self.drops.add(1);
        if self.drops.get() == 1 {
            cx.log(Level::WARN, "SetIPChecksum: bad input packet");
        }
        cx.drop(packet, BAD_IP_HEADER);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;

    #[test]
    fn sums_headers_with_and_without_options() {
        let mut bench = Bench::new("SetIPChecksum()");
        for mut bytes in [ip(17, b"xyz"), ip_with(&[1, 1, 1, 0], b"x", |_| ())] {
            bytes[10] ^= 0x55;
            assert!(sound(&bench.push(0, &bytes)[0].1));
            assert!(sound(&bench.push_packet(0, marked(&bytes))[0].1));
        }
    }

    #[test]
    fn drops_impossible_headers() {
        let mut bench = Bench::new("SetIPChecksum()");
        for bytes in [&b"\x45"[..], &[0x44; 40], &[0x4f; 59]] {
            assert!(bench.push(0, bytes).is_empty());
        }
        assert_eq!(bench.read("drops"), "3");
    }
}
