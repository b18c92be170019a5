//! # EraseIPPayload
//! Sets the payload of TCP and UDP packets to zeros.
//!
//! Their checksums become zero too. ICMP packets pass unchanged.
//!
//! ## Synopsis
//! `EraseIPPayload()`
//!
//! ## Ports
//! One input, one output; agnostic. The IP and the transport header must have been marked.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! FromDump(in.pcap, STOP true, FORCE_IP true) -> EraseIPPayload -> ToDump(/dev/null);
//! ```
//!
//! ## See also
//! TruncateIPPayload, ToDump

use super::engine::header::header;
use crate::prelude::*;
use wire::{Tcp, protocol, tcp, udp};

const OTHER_PROTOCOL: DropReason = DropReason::new("not TCP, UDP or ICMP");

/// The `EraseIPPayload` element.
pub struct EraseIpPayload;

impl Element for EraseIpPayload {
    const CLASS: &'static str = "EraseIPPayload";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] =
        &[OTHER_PROTOCOL.when("where its payload begins is not known"), drops::NO_WHOLE_IP_HEADER];
    const MANUAL: &'static str = manual!("ip/eraseippayload");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

/// Erases what follows a header of `len` bytes, and the checksum in it.
fn erase(transport: &mut [u8], len: usize, checksum: usize) {
    if let Some(payload) = transport.get_mut(len..) {
        payload.fill(0);
    }
    if let Some(checksum) = transport.get_mut(checksum..checksum + 2) {
        checksum.fill(0);
    }
}

impl Simple for EraseIpPayload {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let number = header(&packet).map(|ip| ip.protocol());
        let later = header(&packet).is_some_and(|ip| ip.fragment_offset() > 0);
        let transport = packet.transport_header_mut().unwrap_or_default();
        match number {
            // There is no header in it.
            Some(protocol::TCP | protocol::UDP) if later => transport.fill(0),
            Some(protocol::TCP) => {
                let len = Tcp::new(transport).map_or(tcp::HEADER_LEN, |h| h.header_len());
                erase(transport, len, 16);
            }
            Some(protocol::UDP) => erase(transport, udp::HEADER_LEN, 6),
            Some(protocol::ICMP) => {}
            Some(_) => {
                cx.drop(packet, OTHER_PROTOCOL);
                return None;
            }
            None => {
                cx.drop(packet, drops::NO_IP_HEADER);
                return None;
            }
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;

    fn erased(protocol: u8, transport: &[u8]) -> Option<Vec<u8>> {
        let out = Bench::new("EraseIPPayload()").push_packet(0, marked(&ip(protocol, transport)));
        out.first().map(|(_, bytes)| bytes[20..].to_vec())
    }

    #[test]
    fn erases_payloads_and_checksums() {
        let mut tcp = [7; 30];
        tcp[12] = 0x60;
        let mut expected = tcp;
        expected[16..18].fill(0);
        expected[24..].fill(0);
        assert_eq!(erased(6, &tcp), Some(expected.to_vec()));
        assert_eq!(erased(17, &[7; 12]), Some([[7; 6].as_slice(), &[0; 6]].concat()));
        assert_eq!(erased(1, &[7; 12]), Some(vec![7; 12]));
        assert_eq!((erased(50, &[7; 12]), erased(17, &[7; 3])), (None, Some(vec![7; 3])));
    }

    #[test]
    fn drops_what_it_does_not_know() {
        let mut bench = Bench::new("EraseIPPayload()");
        assert!(bench.push(0, b"x").is_empty() && bench.push_packet(0, marked(&ip(50, b"x"))).is_empty());
        let expected = [("not TCP, UDP or ICMP", 1), ("no IP header", 1)];
        assert_eq!(bench.drops(), expected.map(|(reason, n)| (reason.to_owned(), n)));
    }
}
