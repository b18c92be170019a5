//! # IPAddrRewriter
//! Rewrites the source addresses of packets of any protocol: Basic NAT, a host inside for each address outside.
//!
//! ## Synopsis
//! `IPAddrRewriter(INPUTSPEC1, ..., INPUTSPECn [, TIMEOUT, GUARANTEE, REAP_INTERVAL, MAPPING_CAPACITY, DST_ANNO, REPLY_ANNO, LOG])`
//!
//! ## Arguments
//! - `INPUTSPEC` (*text*, one for each input): what is done with a packet that belongs to no mapping yet: as
//!   in IPRewriter, but that a pattern is `pattern SADDR - FOUTPUT ROUTPUT`. `SADDR` is an address, `-`, a
//!   range `A-B` or a network `A/LEN`, without its own address and the broadcast, from which one is taken
//!   that no other host has: at random, or with `#` at its end in turn. A pattern that changes the
//!   destination or ports makes no mapping.
//! - `TIMEOUT` (*time*, keyword, default 2 h): how long a mapping is kept after its last packet.
//! - `GUARANTEE` (*time*, keyword, default 5 s), `REAP_INTERVAL`, `MAPPING_CAPACITY`, `DST_ANNO`,
//!   `REPLY_ANNO`, `LOG`: as in IPRewriter; lines of the log have `IP SA => SA'` for a host.
//!
//! A mapping is found by the source address of a packet, which is replaced, or else by the destination
//! address, which then gets back what it was. So whoever knows the address outside reaches the host inside.
//! Later fragments and packets of any protocol are rewritten; the checksums of TCP and UDP are adjusted.
//! Addresses in the data of packets are not.
//!
//! ## Ports
//! As many push inputs as there are INPUTSPECs, any number of push outputs, up to 256 each. The IP header
//! must have been marked.
//!
//! ## Handlers
//! - `table`, `mappings` (read): for each direction of each mapping a line:
//!   `SA => SA' [*F R] iINPUT expSECONDS`, as in IPRewriter. Replies are shown with the address 0.0.0.0, as
//!   by Click.
//! - `lookup` (read, *SADDR SPORT DADDR DPORT*): what packets with these addresses get, in the same form,
//!   with 0 for what is not replaced; empty if they belong to no mapping. The ports do not matter.
//! - `size`, `nmappings`, `table_size`, `mapping_failures`, `patterns`, `capacity`, `memory`, `clear`,
//!   `patternN`, `log_written`, `log_lost`, `log_reopen`: as those of IPRewriter.
//!
//! ## What the RFCs ask of a NAT
//! RFC 4787, 5382 and 5508: see the table in IPRewriter, and below it what differs here.
//!
//! ## Threads
//! All workers share one table, as those of IPRewriter do.
//!
//! ## Example
//! ```click
//! // Each host in 10.0.0.0/8 gets an address of its own.
//! nat :: IPAddrRewriter(pattern 192.0.2.0/24# - 0 1, drop);
//! InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(10.0.0.7, 5000, 198.51.100.9, 53) -> nat;
//! nat [0] -> IPPrint(out) -> IPMirror -> [1] nat;
//! nat [1] -> IPPrint(back) -> Discard;
//! ```
//!
//! ## See also
//! IPRewriter, IPAddrPairRewriter, IPRewriterPatterns, ICMPRewriter

use super::engine::finds::{Finds, from_address, to_address};
use super::engine::headers::{Segment, address_key, translate_addresses};
use super::iprewriter::{Rewriter, Variant, address_handlers};
use crate::prelude::*;
use tables::flows::{Found, Key};

/// `IPAddrRewriter`.
pub struct Address;

impl Variant for Address {
    const CLASS: &'static str = "IPAddrRewriter";
    const MANUAL: &'static str = manual!("nat/ipaddrrewriter");
    const FINDS: Finds = Finds::Address;
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        let key = address_key(packet);
        Key { kind: key.kind, ..from_address(&key.tuple) }
    }
    #[inline(always)]
    fn other_key(packet: &Packet) -> Option<Key> {
        Some(to_address(&address_key(packet).tuple))
    }
    #[inline(always)]
    fn translate(packet: &mut Packet, _key: &Key, found: &Found) -> Segment {
        let to = Self::FINDS.complete(found, address_key(packet).tuple);
        translate_addresses(packet, &to);
        Segment::default()
    }
    #[inline(always)]
    fn redirects(found: &Found) -> bool {
        found.is_reply()
    }
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        address_handlers(h);
    }
}
