//! # MarkIPCE
//! Marks IP packets as having met congestion.
//!
//! ## Synopsis
//! `MarkIPCE([FORCE])`
//!
//! ## Arguments
//! - `FORCE` (*bool*, default false): whether to mark packets that are not ECN-capable, too.
//!
//! ## Ports
//! One input, one output; agnostic. Sets the ECN field to Congestion Experienced (RFC 3168) and updates the
//! header checksum. Packets that are not ECN-capable are dropped, as congestion has it, unless `FORCE` is
//! true. The IP header must have been marked by CheckIPHeader or MarkIPHeader.
//!
//! ## Handlers
//! - `drops` (read): packets dropped because they were not ECN-capable.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4502001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> MarkIPCE -> IPPrint(TOS true) -> Discard;
//! ```
//!
//! ## See also
//! SetIPDSCP, RED, CheckIPHeader

use super::engine::header::header_mut;
use crate::prelude::*;
use wire::ipv4::{ECN_CE, ECN_NOT_ECT};

const NOT_ECN_CAPABLE: DropReason = DropReason::new("not ECN-capable");

/// The `MarkIPCE` element.
pub struct MarkIPCE {
    force: bool,
}

impl Element for MarkIPCE {
    const CLASS: &'static str = "MarkIPCE";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] =
        &[NOT_ECN_CAPABLE.when("the packet says that its ends do not know ECN"), drops::NO_WHOLE_IP_HEADER];
    const MANUAL: &'static str = manual!("ip/markipce");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { force: args.p("FORCE")?.unwrap_or(false) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.stats("drops", |stats| stats.rejected_for(NOT_ECN_CAPABLE).to_string());
    }
}

impl Simple for MarkIPCE {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(mut h) = header_mut(&mut packet) else {
            cx.drop(packet, drops::NO_IP_HEADER);
            return None;
        };
        if h.ecn() == ECN_NOT_ECT && !self.force {
            cx.drop(packet, NOT_ECN_CAPABLE);
            return None;
        }
        if h.ecn() != ECN_CE {
            h.update_ecn(ECN_CE);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip_with, marked, sound};
    use crate::testing::Bench;

    #[test]
    fn marks_what_is_capable() {
        let mut bench = Bench::new("MarkIPCE()");
        let mut forced = Bench::new("MarkIPCE(true)");
        for tos in [1, 2, 3, 0xfe] {
            let out = bench.push_packet(0, marked(&ip_with(&[], b"", |h| h.set_tos(tos))));
            assert_eq!(out[0].1[1], tos | 3);
            assert!(sound(&out[0].1));
        }
        let incapable = ip_with(&[], b"", |h| h.set_tos(4));
        assert!(bench.push_packet(0, marked(&incapable)).is_empty());
        assert_eq!(bench.read("drops"), "1");
        let out = forced.push_packet(0, marked(&incapable));
        assert_eq!(out[0].1[1], 7);
        assert!(sound(&out[0].1));
    }
}
