//! # StoreIPAddress
//! Writes an IP address into the packet.
//!
//! ## Synopsis
//! `StoreIPAddress(OFFSET)`, `StoreIPAddress(ADDR, OFFSET)`
//!
//! ## Arguments
//! - `ADDR` (*IP address*, default the packet's destination annotation): the address to write.
//! - `OFFSET` (*int*, bytes, or `src` or `dst`): where to write it. With `src` and `dst` that is the field of
//!   the marked IP header, and the IP, TCP and UDP checksums are updated; with a number no checksum is.
//!
//! ## Ports
//! One input, one or two outputs. A packet that is too short for the offset, has no IP header where one is
//! needed, or has no destination annotation (0.0.0.0) where a number is given as offset, goes to output 1
//! (push) if it is connected; otherwise it is dropped.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> StoreIPAddress(10.0.0.9, dst) -> Discard;
//! ```
//!
//! ## See also
//! GetIPAddress, SetIPAddress

use super::engine::header::{header, header_mut};
use crate::prelude::*;
use lang::args::Word;
use std::net::Ipv4Addr;
use wire::{Tcp, Udp, protocol};

/// The `StoreIPAddress` element.
pub struct StoreIPAddress {
    address: Option<Ipv4Addr>,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    Offset(usize),
    Src,
    Dst,
}

impl Element for StoreIPAddress {
    const CLASS: &'static str = "StoreIPAddress";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::DST_IP);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_PLACE_FOR_THE_ADDRESS
        .when("the packet ends before the address would, or has no whole IP header")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/storeipaddress");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address = if args.len() > 1 { Some(args.mp("ADDR")?) } else { None };
        let offset: Word = args.mp("OFFSET")?;
        let place = if offset.0.eq_ignore_ascii_case("src") {
            Place::Src
        } else if offset.0.eq_ignore_ascii_case("dst") {
            Place::Dst
        } else {
            match lang::args::parse::<i32>(&offset.0).ok().and_then(|n| usize::try_from(n).ok()) {
                Some(n) => Place::Offset(n),
                None => return Err(args.error("type mismatch: OFFSET requires integer")),
            }
        };
        Ok(Self { address, place })
    }
}

/// Replaces the source or destination of the marked header; `None` without one.
fn replace(packet: &mut Packet, place: Place, address: Ipv4Addr) -> Option<()> {
    let mut h = header_mut(packet)?;
    let delta = if matches!(place, Place::Src) { h.update_src(address) } else { h.update_dst(address) };
    let h = header(packet)?;
    if !h.is_first_fragment() {
        return Some(());
    }
    match h.protocol() {
        protocol::TCP => {
            if let Some(mut t) = packet.transport_header_mut().and_then(Tcp::new_mut) {
                let check = delta.apply(t.checksum());
                t.set_checksum(check);
            }
        }
        protocol::UDP => {
            if let Some(mut u) = packet.transport_header_mut().and_then(Udp::new_mut) {
                let check = delta.apply_udp(u.checksum());
                u.set_checksum(check);
            }
        }
        _ => {}
    }
    Some(())
}

impl Step for StoreIPAddress {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let address = self.address.unwrap_or_else(|| packet.dst_ip().into());
        let done = match self.place {
            Place::Offset(_) if self.address.is_none() && address.is_unspecified() => None,
            Place::Offset(at) => packet
                .data_mut()
                .get_mut(at..)
                .and_then(|b| b.first_chunk_mut())
                .map(|b| *b = address.octets()),
            place => replace(packet, place, address),
        };
        done.is_some()
    }
}

impl Simple for StoreIPAddress {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.fail(packet, drops::NO_PLACE_FOR_THE_ADDRESS);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked, sound};
    use crate::testing::Bench;
    use wire::{Ipv4Packet, UdpDatagram};

    fn udp() -> Vec<u8> {
        let mut bytes = ip(17, &[0, 1, 0, 2, 0, 10, 0, 0, 7, 8]);
        let sum = Ipv4Packet::parse(&bytes).unwrap().pseudo_sum();
        let check = !wire::checksum::combine(sum, wire::checksum::sum(&bytes[20..]));
        bytes[26..28].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    #[test]
    fn writes_at_an_offset() {
        let mut bench = Bench::new("StoreIPAddress(1.2.3.4, 2)");
        assert_eq!(bench.push(0, b"abcdefg"), [(0, b"ab\x01\x02\x03\x04g".to_vec())]);
        assert_eq!(bench.push(0, b"abcde"), [(1, b"abcde".to_vec())]);
        let mut from_annotation = Bench::new("StoreIPAddress(0)");
        assert_eq!(from_annotation.push(0, b"abcd")[0].0, 1);
        let mut packet = dpdk::Packet::from_bytes(b"abcd").unwrap();
        packet.set_dst_ip([9, 8, 7, 6]);
        assert_eq!(from_annotation.push_packet(0, packet), [(0, vec![9, 8, 7, 6])]);
    }

    #[test]
    fn keeps_checksums_right() {
        for (place, at) in [("src", 12), ("DST", 16)] {
            let mut bench = Bench::new(&format!("StoreIPAddress(200.201.2.3, {place})"));
            let out = bench.push_packet(0, marked(&udp())).remove(0);
            assert_eq!((out.0, &out.1[at..at + 4]), (0, &[200, 201, 2, 3][..]));
            assert!(sound(&out.1));
            let p = Ipv4Packet::parse(&out.1).unwrap();
            assert!(UdpDatagram::parse(p.payload()).unwrap().verify_checksum(p.pseudo_sum()));
            assert_eq!(bench.push(0, b"not marked, but long enough")[0].0, 1);
        }
    }

    #[test]
    fn wants_an_offset() {
        assert!(Bench::error("StoreIPAddress(1.2.3.4, here)").contains("OFFSET requires integer"));
    }
}
