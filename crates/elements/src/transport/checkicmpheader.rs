//! # CheckICMPHeader
//! Checks the ICMP header of packets.
//!
//! ## Synopsis
//! `CheckICMPHeader([VERBOSE, DETAILS])`
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
//! Checked are the checksum, which covers the packet to its end, and the length: 36 bytes at least for
//! errors, which quote a packet; exactly 20 for timestamps and 8 for information requests; 8 at least for the
//! rest.
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
//! InfiniteSource(DATA \<4500001c 00000000 400166df 0a000001 0a000002 0800f7fd00010001>, LIMIT 1, STOP true)
//!   -> CheckIPHeader
//!   -> check :: CheckICMPHeader(DETAILS true)
//!   -> Discard;
//! check [1] -> Print(bad) -> Discard;
//! ```
//!
//! ## See also
//! CheckIPHeader, MarkIPHeader, CheckTCPHeader, CheckUDPHeader, ICMPPingResponder

use super::engine::check::{Bad, Protocol};
use super::engine::datagram::Datagram;
use crate::prelude::*;
use wire::icmpv4::{self, INFO_REPLY, INFO_REQUEST, TIMESTAMP, TIMESTAMP_REPLY};
use wire::{Icmpv4, ipv4, protocol};

/// An error quotes an IP header and eight bytes (RFC 792).
const MIN_ERROR_LEN: usize = icmpv4::HEADER_LEN + ipv4::HEADER_LEN + 8;

/// The protocol that `CheckICMPHeader` checks.
pub(crate) struct IcmpHeader;

impl Protocol for IcmpHeader {
    const CLASS: &'static str = "CheckICMPHeader";
    const MANUAL: &'static str = manual!("transport/checkicmpheader");
    const NAME: &'static str = "ICMP";
    const NUMBER: u8 = protocol::ICMP;
    const CASES: [DropCase; 3] = [
        DropReason::new("not ICMP").when("another protocol, or the IP header is not marked"),
        drops::BAD_PACKET_LENGTH.when("the packet is shorter than its headers say"),
        DropReason::new("bad ICMP checksum").when("the checksum over the message is wrong"),
    ];

    #[inline]
    fn check(datagram: &Datagram<'_>) -> Result<(), Bad> {
        let message = datagram.rest;
        let Some(header) = Icmpv4::new(message) else { return Err(Bad::Length) };
        let fits = match header.kind() {
            kind if icmpv4::is_error(kind) => message.len() >= MIN_ERROR_LEN,
            kind @ (TIMESTAMP | TIMESTAMP_REPLY | INFO_REQUEST | INFO_REPLY) => {
                message.len() == icmpv4::min_len(kind)
            }
            _ => true,
        };
        if !fits {
            return Err(Bad::Length);
        }
        if icmpv4::verify(message) { Ok(()) } else { Err(Bad::Checksum) }
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::engine::check::sample::sorts;
    use crate::transport::engine::datagram::sample::icmp;

    #[test]
    fn good_short_and_wrong() {
        let good = [
            icmp(8, &[1; 4]),
            icmp(8, b"\x00\x01\x00\x02odd"),
            icmp(3, &[7; 32]),
            icmp(11, &[7; 532]),
            icmp(13, &[7; 16]),
            icmp(15, &[7; 4]),
            icmp(17, &[7; 4]),
            icmp(200, &[7; 4]),
        ];
        let mut short = vec![icmp(13, &[7; 15]), icmp(14, &[7; 17]), icmp(15, &[7; 5]), icmp(16, &[7; 12])];
        short.extend([3, 4, 5, 11, 12].map(|kind| icmp(kind, &[7; 31])));
        short.extend([20, 23, 27].map(|len| good[0][..len].to_vec()));
        let mut wrong = good.to_vec();
        wrong.iter_mut().for_each(|p| p[21] ^= 0x40);
        sorts("CheckICMPHeader", "ICMP", &good, &short, &wrong);
    }
}
