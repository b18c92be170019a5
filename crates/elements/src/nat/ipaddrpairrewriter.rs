//! # IPAddrPairRewriter
//! Rewrites the addresses of packets of any protocol, by both of their addresses.
//!
//! ## Synopsis
//! `IPAddrPairRewriter(INPUTSPEC1, ..., INPUTSPECn [, TIMEOUT, GUARANTEE, REAP_INTERVAL, MAPPING_CAPACITY,
//! DST_ANNO, REPLY_ANNO, LOG])`
//!
//! ## Arguments
//! - `INPUTSPEC` (*text*, one for each input): what is done with a packet that belongs to no mapping yet: as
//!   in IPRewriter, but that a pattern is `pattern SADDR DADDR FOUTPUT ROUTPUT`, without ports. `SADDR` and
//!   `DADDR` may be `-`; `SADDR` may be a range `A-B` or a network `A/LEN`, from which an address is taken
//!   that no other pair of the same destination has: at random, or with `#` at its end in turn. A pattern
//!   that changes ports makes no mapping.
//! - `TIMEOUT` (*time*, keyword, default 2 h): how long a mapping is kept after its last packet.
//! - `GUARANTEE` (*time*, keyword, default 5 s), `REAP_INTERVAL`, `MAPPING_CAPACITY`, `DST_ANNO`,
//!   `REPLY_ANNO`, `LOG`: as in IPRewriter; lines of the log have `IP SA => SA' to DA` for a pair.
//!
//! A mapping is found by source and destination address together. So several hosts may share an address as
//! long as they talk to different hosts. Later fragments and packets of any protocol are rewritten; the
//! checksums of TCP and UDP are adjusted. Addresses in the data of packets are not.
//!
//! ## Ports
//! As many push inputs as there are INPUTSPECs, any number of push outputs, up to 256 each. The IP header
//! must have been marked.
//!
//! ## Handlers
//! - `table`, `mappings` (read): for each direction of each mapping a line:
//!   `(SA, DA) => (SA', DA') [*F R] iINPUT expSECONDS`, as in IPRewriter.
//! - `lookup` (read, *SADDR SPORT DADDR DPORT*): what packets with these addresses get, in the same form,
//!   with 0 for ports; empty if they belong to no mapping. The ports do not matter.
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
//! nat :: IPAddrPairRewriter(pattern 192.0.2.1 203.0.113.4 0 1, drop);
//! InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(10.0.0.7, 5000, 198.51.100.9, 53) -> nat;
//! nat [0] -> IPPrint(out) -> IPMirror -> [1] nat;
//! nat [1] -> IPPrint(back) -> Discard;
//! ```
//!
//! ## See also
//! IPRewriter, IPAddrRewriter, IPRewriterPatterns, ICMPRewriter

use super::engine::finds::Finds;
use super::engine::headers::{Segment, address_key, translate_addresses};
use super::iprewriter::{Rewriter, Variant, address_handlers};
use crate::prelude::*;
use tables::flows::{Found, Key};

/// `IPAddrPairRewriter`.
pub struct Pair;

impl Variant for Pair {
    const CLASS: &'static str = "IPAddrPairRewriter";
    const MANUAL: &'static str = manual!("nat/ipaddrpairrewriter");
    const FINDS: Finds = Finds::Pair;
    #[inline(always)]
    fn key(packet: &Packet) -> Key {
        address_key(packet)
    }
    #[inline(always)]
    fn translate(packet: &mut Packet, _key: &Key, found: &Found) -> Segment {
        translate_addresses(packet, &found.to);
        Segment::default()
    }
    fn handlers(h: &mut Handlers<Rewriter<Self>>) {
        address_handlers(h);
    }
}
