//! # StripTCPHeader
//! Removes the TCP header and all that precedes it.
//!
//! ## Synopsis
//! `StripTCPHeader()`
//!
//! ## Ports
//! One input, one output; agnostic. The IP header must have been marked, by CheckIPHeader or MarkIPHeader:
//! the TCP header follows it. The protocol is not checked. The mark stays, and UnstripTCPHeader puts the
//! header back.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500002c 00000000 400666ca 0a000001 0a000002 03e807d0 00000000 00000000 50000000 00000000 64617461>,
//!     LIMIT 1, STOP true)
//!   -> MarkIPHeader -> StripTCPHeader -> Print -> Discard;
//! ```
//!
//! ## See also
//! UnstripTCPHeader, StripIPHeader, CheckTCPHeader, Strip

use crate::prelude::*;
use wire::{Tcp, tcp};

pub(super) const NO_TCP_HEADER: DropReason = DropReason::new("no TCP header");

/// The `StripTCPHeader` element.
pub struct StripTCPHeader;

impl Element for StripTCPHeader {
    const CLASS: &'static str = "StripTCPHeader";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::TRANSPORT_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[NO_TCP_HEADER
        .when("no IP header is marked, or the TCP header is not whole or has an impossible length")];
    const MANUAL: &'static str = manual!("transport/striptcpheader");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

/// Where the data after the TCP header begins.
fn end(packet: &Packet) -> Option<usize> {
    let header = packet.transport_header()?;
    let len = Tcp::new(header)?.header_len();
    let start = packet.transport_header_offset()?;
    (len >= tcp::HEADER_LEN && len <= header.len())
        .then(|| usize::try_from(start + len as isize).unwrap_or(0))
}

impl Simple for StripTCPHeader {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if end(&packet).is_some_and(|n| packet.strip(n)) {
            return Some(packet);
        }
        cx.drop(packet, NO_TCP_HEADER);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::marked;
    use crate::testing::Bench;
    use crate::transport::engine::datagram::sample::tcp;

    #[test]
    fn leaves_the_payload_and_gives_the_header_back() {
        let mut bench = Bench::new("StripTCPHeader");
        for bytes in [tcp(&[], b"data"), tcp(&[], b"")] {
            assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, bytes[40..].to_vec())]);
        }
        let mut options = tcp(&[], b"1234data");
        options[32] = 0x60;
        assert_eq!(bench.push_packet(0, marked(&options)), [(0, b"data".to_vec())]);
        // What precedes the TCP header may be stripped already.
        let mut packet = marked(&options);
        packet.strip(20);
        assert_eq!(bench.push_packet(0, packet), [(0, b"data".to_vec())]);

        let mut bench = Bench::new("UnstripTCPHeader");
        let mut packet = marked(&options);
        packet.strip(44);
        assert_eq!(bench.push_packet(0, packet), [(0, options[20..].to_vec())]);
        assert_eq!(bench.push_packet(0, marked(&options)), [(0, options)]);
    }

    #[test]
    fn drops_what_has_no_whole_header() {
        let mut bench = Bench::new("StripTCPHeader");
        let good = tcp(&[], b"data");
        let with = |value: u8| {
            let mut bytes = good.clone();
            bytes[32] = value;
            bytes
        };
        for bytes in [good[..39].to_vec(), good[..20].to_vec(), with(0x40), with(0x70)] {
            assert!(bench.push_packet(0, marked(&bytes)).is_empty(), "{bytes:x?}");
        }
        assert!(bench.push(0, &good).is_empty(), "unmarked");
        assert_eq!(bench.drops(), [("no TCP header".to_owned(), 5)]);
        let mut bench = Bench::new("UnstripTCPHeader");
        assert!(bench.push(0, &good).is_empty(), "unmarked");
        assert_eq!(bench.drops(), [("no TCP header".to_owned(), 1)]);
    }
}
