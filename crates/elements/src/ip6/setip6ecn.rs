//! # SetIP6ECN
//! Sets the ECN field of IPv6 packets (RFC 3168).
//!
//! ## Synopsis
//! `SetIP6ECN(ECN)`
//!
//! ## Arguments
//! - `ECN` (*word*): `no`, `-` or 0 for a transport that is not ECN-capable; `ect1`, `ECT(1)` or 1, and
//!   `ect2`, `ECT(0)` or 2, for one that is; `ce`, `CE` or 3 for congestion experienced.
//!
//! ## Ports
//! One input, one output; agnostic. The IPv6 header must have been marked.
//!
//! ## Handlers
//! - `ecn` (read/write): the `ECN` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header -> SetIP6ECN(ce) -> Print -> Discard;
//! ```
//!
//! ## See also
//! SetIP6DSCP, MarkIP6Header, MarkIPCE

use super::engine::header::{header_mut, no_header};
use crate::ip::engine::arguments::ecn;
use crate::prelude::*;
use lang::args::Raw;

/// The `SetIP6ECN` element.
pub struct SetIP6ECN {
    text: String,
    ecn: u8,
}

impl SetIP6ECN {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), ecn: ecn(text)? })
    }
}

impl Element for SetIP6ECN {
    const CLASS: &'static str = "SetIP6ECN";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::NO_WHOLE_IP_HEADER];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip6/setip6ecn");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let Raw(text) = args.mp("ECN")?;
        Self::parse(text.trim()).map_err(|e| args.error(e))
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("ecn", |e| e.text.clone());
        h.write("ecn", |e, v, _| {
            *e = Self::parse(v.trim())?;
            Ok(())
        });
        h.listed(&["ecn ."]);
    }
}

impl Step for SetIP6ECN {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let set = |mut h: wire::Ipv6<&mut [u8; 40]>| h.set_traffic_class(h.traffic_class() & !3 | self.ecn);
        header_mut(packet).map(set).is_some()
    }
}

impl Simple for SetIP6ECN {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) { Some(packet) } else { no_header(packet, cx) }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::{ip6_with, marked};
    use crate::testing::Bench;

    #[test]
    fn sets_two_bits() {
        let bytes = ip6_with(17, b"", |h| h.set_traffic_class(0xfd));
        for (word, class) in [
            ("no", 0xfc),
            ("-", 0xfc),
            ("1", 0xfd),
            ("ECT(1)", 0xfd),
            ("ect2", 0xfe),
            ("ECT(0)", 0xfe),
            ("CE", 0xff),
        ] {
            let mut bench = Bench::new(&format!("SetIP6ECN({word})"));
            let out = bench.push_packet(0, marked(&bytes)).remove(0).1;
            assert_eq!(wire::Ipv6::new(&out).unwrap().traffic_class(), class, "{word}");
            assert_eq!(bench.read("ecn"), word);
        }
        let mut bench = Bench::new("SetIP6ECN(0)");
        assert!(bench.try_write("ecn", "4").is_err());
        bench.write("ecn", "ce");
        assert_eq!(bench.push_packet(0, marked(&bytes))[0].1[1] >> 4, 0xf);
        assert!(Bench::error("SetIP6ECN(ect3)").contains("bad ECN argument"));
        assert!(bench.push(0, b"").is_empty());
    }
}
