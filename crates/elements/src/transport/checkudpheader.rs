//! # CheckUDPHeader
//! Checks the UDP header of packets.
//!
//! ## Synopsis
//! `CheckUDPHeader([VERBOSE, DETAILS])`
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
//! Checked are the UDP length, which must lie between 8 bytes and what there is, and the checksum, if there
//! is one; for that a source-routed packet's destination is the last of the route (RFC 1122 §4.1.3.5).
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
//! InfiniteSource(DATA \<4500001c 00000000 401166cf 0a000001 0a000002 03e807d0 0008e01b>, LIMIT 1, STOP true)
//!   -> CheckIPHeader
//!   -> check :: CheckUDPHeader(DETAILS true)
//!   -> Discard;
//! check [1] -> Print(bad) -> Discard;
//! ```
//!
//! ## See also
//! CheckIPHeader, MarkIPHeader, CheckICMPHeader, CheckTCPHeader, SetUDPChecksum

use super::engine::check::{Bad, Protocol};
use super::engine::datagram::Datagram;
use crate::prelude::*;
use wire::{UdpDatagram, protocol};

/// The protocol that `CheckUDPHeader` checks.
pub(crate) struct UdpHeader;

impl Protocol for UdpHeader {
    const CLASS: &'static str = "CheckUDPHeader";
    const MANUAL: &'static str = manual!("transport/checkudpheader");
    const NAME: &'static str = "UDP";
    const NUMBER: u8 = protocol::UDP;
    const CASES: [DropCase; 3] = [
        DropReason::new("not UDP").when("another protocol, or the IP header is not marked"),
        drops::BAD_PACKET_LENGTH.when("the packet is shorter than its headers say"),
        DropReason::new("bad UDP checksum").when("the checksum over the datagram is wrong"),
    ];
    const TELL_ELEMENT: bool = false;
    #[inline]
    fn check(datagram: &Datagram<'_>) -> Result<(), Bad> {
        let udp = UdpDatagram::parse(datagram.rest).ok_or(Bad::Length)?;
        let header = udp.header();
        if header.checksum() == 0 || udp.verify_checksum(datagram.pseudo_sum(header.length())) {
            Ok(())
        } else {
            Err(Bad::Checksum)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::engine::check::sample::sorts;
    use crate::transport::engine::datagram::sample::{ROUTE, udp};

    #[test]
    fn good_short_and_wrong() {
        let plain = udp(&[], b"data");
        let with = |at: usize, value: u8| {
            let mut bytes = plain.clone();
            bytes[at] = value;
            bytes
        };
        let mut none = with(31, 0);
        none[26..28].fill(0);
        let mut padded = plain.clone();
        padded.extend([0xee; 9]);
        let good = [plain.clone(), udp(&[], b""), udp(&[1; 4], b"odd"), udp(&ROUTE, b"data"), none, padded];
        let short = [
            with(25, 7),
            with(25, 13),
            with(24, 1),
            with(0, 0x44),
            plain[..31].to_vec(),
            plain[..27].to_vec(),
            plain[..20].to_vec(),
        ];
        let wrong = [with(31, 0), with(12, 11), with(25, 11)];
        sorts("CheckUDPHeader", "UDP", &good, &short, &wrong);
    }
}
