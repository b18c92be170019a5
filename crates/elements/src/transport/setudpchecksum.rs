//! # SetUDPChecksum
//! Sets the checksum of UDP packets.
//!
//! ## Synopsis
//! `SetUDPChecksum()`
//!
//! ## Arguments
//! None.
//!
//! ## Ports
//! One input, one or two outputs. The input takes UDP packets whose IP header is marked; the protocol is not
//! checked. The checksum covers as much as the UDP length says and the pseudo-header, in which a
//! source-routed packet's destination is the last of the route (RFC 1122 §4.1.3.5); a sum of zero is written
//! as 0xffff (RFC 768).
//!
//! Fragments, and packets shorter than a UDP header or than their UDP length, go unchanged to output 1 (push)
//! if it is connected; otherwise they are dropped, and the first one is reported.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 401166cf 0a000001 0a000002 03e807d0 00080000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader
//!   -> SetUDPChecksum
//!   -> CheckUDPHeader
//!   -> Discard;
//! ```
//!
//! ## See also
//! CheckUDPHeader, SetIPChecksum, SetTCPChecksum, UDPIPEncap

use super::engine::datagram::{Datagram, payload_mut};
use crate::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::{Udp, checksum, udp};

const FRAGMENT_OR_SHORT_PACKET: DropReason = DropReason::new("fragment or short packet");

/// The `SetUDPChecksum` element.
pub struct SetUDPChecksum {
    reported: Arc<AtomicBool>,
}

impl Element for SetUDPChecksum {
    const CLASS: &'static str = "SetUDPChecksum";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[FRAGMENT_OR_SHORT_PACKET
        .when("the packet is a fragment, is shorter than its headers say, or has no marked IP header")];
    const MANUAL: &'static str = manual!("transport/setudpchecksum");

    fn configure(_args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { reported: cx.shared(|| AtomicBool::new(false)) })
    }
}

/// Whether the datagram is complete, so that its sum can be computed.
fn set(packet: &mut Packet) -> Option<bool> {
    let datagram = Datagram::of(packet)?;
    if datagram.ip.is_fragment() {
        return None;
    }
    let len = Udp::new(datagram.rest)?.length();
    let pseudo = datagram.pseudo_sum(len);
    if usize::from(len) < udp::HEADER_LEN {
        return set_short(pseudo, len, payload_mut(packet, udp::HEADER_LEN)?);
    }
    Some(udp::fill(pseudo, payload_mut(packet, len.into())?))
}

/// The UDP length is less than that of a header: as in Click, the sum covers that much of it.
fn set_short(pseudo: u16, len: u16, header: &mut [u8]) -> Option<bool> {
    Udp::new_mut(&mut *header)?.set_checksum(0);
    let check = !checksum::combine(pseudo, checksum::sum(header.get(..len.into())?));
    Udp::new_mut(header)?.set_checksum(if check == 0 { 0xffff } else { check });
    Some(true)
}

impl SetUDPChecksum {
    #[cold]
    fn bad(&self, packet: Packet, cx: &mut Cx<'_>) {
        if cx.n_outputs() == 1 && !self.reported.swap(true, Ordering::Relaxed) {
            let message = format!("{} :: {}: fragment or short packet", cx.name(), Self::CLASS);
            cx.log(Level::WARN, &message);
        }
        cx.fail(packet, FRAGMENT_OR_SHORT_PACKET);
    }
}

impl Simple for SetUDPChecksum {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if set(&mut packet) == Some(true) {
            return Some(packet);
        }
        self.bad(packet, cx);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::marked;
    use crate::testing::Bench;
    use crate::transport::engine::datagram::sample::{ROUTE, udp};

    #[test]
    fn sets_the_checksum() {
        let mut bench = Bench::new("SetUDPChecksum");
        let mut padded = udp(&[], b"data");
        padded.extend([0xee; 9]);
        for good in [udp(&[], b"data"), udp(&[], b"odd"), udp(&[1; 4], b""), udp(&ROUTE, b"data"), padded] {
            let mut bytes = good.clone();
            let at = usize::from(bytes[0] & 15) * 4 + 6;
            bytes[at..at + 2].fill(0);
            assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, good)]);
        }
    }

    #[test]
    fn a_length_below_that_of_a_header_is_taken_as_it_is() {
        let mut bench = Bench::new("SetUDPChecksum");
        for (len, check) in [(0, [0xeb, 0xeb]), (4, [0xe0, 0x2f]), (7, [0xe0, 0x25])] {
            let mut bytes = udp(&[], b"data");
            bytes[24..26].copy_from_slice(&[0, len]);
            let out = bench.push_packet(0, marked(&bytes));
            assert_eq!((out[0].0, &out[0].1[26..28]), (0, &check[..]), "{len}");
        }
    }

    #[test]
    fn never_writes_zero() {
        let mut bench = Bench::new("SetUDPChecksum");
        let check = u16::from_be_bytes(udp(&[], b"\0\0")[26..28].try_into().unwrap());
        let out = &bench.push_packet(0, marked(&udp(&[], &check.to_be_bytes())))[0].1;
        assert_eq!(out[26..28], [0xff, 0xff]);
    }

    #[test]
    fn sets_fragments_and_short_packets_aside() {
        let good = udp(&[], b"data");
        let mut bad = vec![good[..31].to_vec(), good[..27].to_vec(), good[..20].to_vec(), good[..4].to_vec()];
        for (at, value) in [(25, 13), (24, 2), (6, 0x20), (7, 1), (0, 0x4f), (0, 0x43)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            bad.push(bytes);
        }
        let mut bench = Bench::new("SetUDPChecksum");
        for bytes in &bad {
            assert_eq!(bench.push_packet(0, marked(bytes)), [(1, bytes.clone())]);
        }
        let mut bench = Bench::with_ports("SetUDPChecksum", 1, 1);
        assert!(bad.iter().all(|bytes| bench.push_packet(0, marked(bytes)).is_empty()));
        assert!(bench.push(0, &good).is_empty(), "unmarked");
        assert_eq!(bench.drops(), [("fragment or short packet".to_owned(), bad.len() as u64 + 1)]);
    }
}
