//! # CheckTCPHeader
//! Checks the TCP header of packets.
//!
//! ## Synopsis
//! `CheckTCPHeader([VERBOSE, DETAILS])`
//!
//! ## Arguments
//! - `VERBOSE` (*bool*, keyword, default false): whether to print a line for every bad packet; otherwise only
//!   for the first one.
//! - `DETAILS` (*bool*, keyword, default false): whether the `drop_details` handler may be read.
//!
//! ## Ports
//! One input, one or two outputs. The input takes packets whose IP header is marked. A good packet leaves by
//! output 0, unchanged. A bad packet goes to output 1 (push) if it is connected; otherwise it is dropped.
//!
//! Checked are the header length, which must lie between 20 bytes and the IP payload's length, that all of
//! the IP payload is there, and the checksum; for that a source-routed packet's destination is the last of
//! the route (RFC 1122 §4.2.3.8).
//!
//! ## Handlers
//! - `drops` (read): bad packets.
//! - `drop_details` (read): a line `COUNT<tab>REASON` for each reason.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<45000028 00000000 400666ce 0a000001 0a000002 03e807d0 00000000 00000000 50000000 902a0000>,
//!     LIMIT 1, STOP true)
//!   -> CheckIPHeader
//!   -> check :: CheckTCPHeader(DETAILS true)
//!   -> Discard;
//! check [1] -> Print(bad) -> Discard;
//! ```
//!
//! ## See also
//! CheckIPHeader, MarkIPHeader, CheckICMPHeader, CheckUDPHeader, SetTCPChecksum

use super::engine::check::{Bad, Protocol};
use super::engine::datagram::Datagram;
use crate::prelude::*;
use wire::{TcpSegment, protocol, tcp};

/// The protocol that `CheckTCPHeader` checks.
pub(crate) struct TcpHeader;

impl Protocol for TcpHeader {
    const CLASS: &'static str = "CheckTCPHeader";
    const MANUAL: &'static str = manual!("transport/checktcpheader");
    const NAME: &'static str = "TCP";
    const NUMBER: u8 = protocol::TCP;
    const CASES: [DropCase; 3] = [
        DropReason::new("not TCP").when("another protocol, or the IP header is not marked"),
        drops::BAD_PACKET_LENGTH.when("the packet is shorter than its headers say"),
        DropReason::new("bad TCP checksum").when("the checksum over the segment is wrong"),
    ];

    #[inline]
    fn check(datagram: &Datagram<'_>) -> Result<(), Bad> {
        let segment = datagram.payload().ok_or(Bad::Length)?;
        if TcpSegment::parse(segment).is_none() {
            return Err(Bad::Length);
        }
        let pseudo = datagram.pseudo_sum(segment.len() as u16);
        if tcp::verify(pseudo, segment) { Ok(()) } else { Err(Bad::Checksum) }
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::engine::check::sample::sorts;
    use crate::transport::engine::datagram::sample::{ROUTE, tcp};

    #[test]
    fn good_short_and_wrong() {
        let plain = tcp(&[], b"data");
        let mut padded = plain.clone();
        padded.extend([0xee; 9]);
        let good = [plain.clone(), tcp(&[], b""), tcp(&[1; 4], b"odd"), tcp(&ROUTE, b"data"), padded];
        let with = |at: usize, value: u8| {
            let mut bytes = plain.clone();
            bytes[at] = value;
            bytes
        };
        let short = [
            with(32, 0x40),
            with(32, 0x70),
            with(3, 45),
            with(3, 39),
            with(3, 19),
            with(0, 0x44),
            plain[..43].to_vec(),
            plain[..30].to_vec(),
            plain[..20].to_vec(),
        ];
        let wrong = [with(43, 0), with(12, 11), with(32, 0x60), with(3, 43)];
        sorts("CheckTCPHeader", "TCP", &good, &short, &wrong);
    }
}
