//! # SetIPECN
//! Sets the explicit congestion notification of IP packets.
//!
//! ## Synopsis
//! `SetIPECN(ECN)`
//!
//! ## Arguments
//! - `ECN`: the two bits (RFC 3168), as a number from 0 to 3 or a name: `no` or `-` is 0, `ect1` or `ECT(1)`
//!   is 1, `ect2` or `ECT(0)` is 2, `ce` or `CE` is 3. The code point of differentiated services stays as it
//!   is.
//!
//! ## Ports
//! One input, one output; agnostic. The header checksum is updated. The IP header must have been marked.
//!
//! ## Handlers
//! - `ecn` (read/write): the `ECN` argument, as it was written.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> SetIPECN(ECT(0)) -> IPPrint(TOS true) -> Discard;
//! ```
//!
//! ## See also
//! SetIPDSCP, MarkIPCE, MarkIPHeader

use super::engine::header::header_mut;
use crate::ip::engine::arguments::ecn;
use crate::prelude::*;
use lang::args::Raw;

/// The `SetIPECN` element.
pub struct SetIPECN {
    ecn: u8,
    /// The argument.
    text: String,
}

impl Element for SetIPECN {
    const CLASS: &'static str = "SetIPECN";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/setipecn");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let Raw(text) = args.mp("ECN")?;
        Ok(Self { ecn: ecn(&text).map_err(|e| args.error(e))?, text })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("ecn", |e| e.text.clone());
        h.write("ecn", |e, v, _| {
            e.ecn = ecn(v.trim())?;
            e.text = v.trim().to_owned();
            Ok(())
        });
        h.argument("ecn", 0, "ECN");
        h.listed(&["ecn ."]);
    }
}

impl Step for SetIPECN {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        header_mut(packet).map(|mut h| h.update_ecn(self.ecn)).is_some()
    }
}

impl Simple for SetIPECN {
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
    fn sets_the_bits_and_keeps_the_code_point() {
        for (arguments, want) in [
            (["0", "no", "-"], 0),
            (["1", "ect1", "ECT(1)"], 1),
            (["2", "ect2", "ECT(0)"], 2),
            (["3", "ce", "CE"], 3),
        ] {
            for argument in arguments {
                let mut bench = Bench::new(&format!("SetIPECN({argument})"));
                let bytes = ip_with(&[], b"x", |h| h.set_tos(0xb9));
                let out = bench.push_packet(0, marked(&bytes));
                assert_eq!(out[0].1[1], 0xb8 | want, "{argument}");
                assert!(sound(&out[0].1));
                assert_eq!(bench.read("ecn"), argument);
            }
        }
        let mut bench = Bench::new("SetIPECN(ce)");
        bench.write("ecn", "no");
        assert_eq!(bench.push_packet(0, marked(&ip_with(&[], b"x", |h| h.set_tos(3))))[0].1[1], 0);
        assert!(bench.try_write("ecn", "4").is_err());
        assert!(bench.push(0, b"").is_empty());
        assert_eq!(bench.drops(), [("no IP header".to_owned(), 1)]);
    }

    #[test]
    fn arguments_are_checked() {
        for wrong in ["4", "ect3", "Ce", "00"] {
            assert!(Bench::error(&format!("SetIPECN({wrong})")).contains("bad ECN argument"), "{wrong}");
        }
        assert!(Bench::error("SetIPECN()").contains("ECN"));
    }
}
