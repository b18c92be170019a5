//! # SetIPDSCP
//! Sets the differentiated services code point of IP packets.
//!
//! ## Synopsis
//! `SetIPDSCP(DSCP)`
//!
//! ## Arguments
//! - `DSCP` (*int*, 0 to 63): the code point. The two ECN bits stay as they are.
//!
//! ## Ports
//! One input, one output; agnostic. The header checksum is updated. The IP header must have been marked.
//!
//! ## Handlers
//! - `dscp` (read/write): the `DSCP` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> SetIPDSCP(46) -> IPPrint(TOS true) -> Discard;
//! ```
//!
//! ## See also
//! MarkIPCE, CheckIPHeader, MarkIPHeader

use super::engine::header::header_mut;
use crate::ip::engine::arguments::code_point;
use crate::prelude::*;

/// The `SetIPDSCP` element.
pub struct SetIPDSCP {
    dscp: u8,
}

impl Element for SetIPDSCP {
    const CLASS: &'static str = "SetIPDSCP";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/setipdscp");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let dscp = args.mp("DSCP")?;
        Ok(Self { dscp: code_point(dscp).map_err(|e| args.error(e))? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("dscp", |e| e.dscp.to_string());
        h.write("dscp", |e, v, _| {
            e.dscp = code_point(lang::args::parse(v.trim()).map_err(|e| format!("DSCP: {e}"))?)?;
            Ok(())
        });
        h.argument("dscp", 0, "DSCP");
        h.listed(&["dscp ."]);
    }
}

impl Step for SetIPDSCP {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        header_mut(packet).map(|mut h| h.update_dscp(self.dscp)).is_some()
    }
}

impl Simple for SetIPDSCP {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.drop(packet, drops::NO_IP_HEADER);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip_with, marked, sound};
    use crate::testing::Bench;

    #[test]
    fn sets_the_code_point_and_keeps_ecn() {
        let mut bench = Bench::new("SetIPDSCP(0x2e)");
        let bytes = ip_with(&[], b"x", |h| h.set_tos(0x06));
        let out = bench.push_packet(0, marked(&bytes));
        assert_eq!(out[0].1[1], 0xba);
        assert!(sound(&out[0].1));
        bench.write("dscp", "0");
        assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[1], 2);
        assert!(bench.try_write("dscp", "64").is_err());
        assert!(bench.push(0, b"").is_empty());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert!(Bench::error("SetIPDSCP(64)").contains("diffserv code point out of range"));
    }
}
