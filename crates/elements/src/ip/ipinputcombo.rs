//! # IPInputCombo
//! Does in one element what an IP router does with packets that it receives.
//!
//! ## Synopsis
//! `IPInputCombo(COLOR, [BADSRC*, INTERFACES, BADSRC, GOODDST])`
//!
//! ## Arguments
//! - `COLOR` (*int*, 0 to 255): the paint.
//! - `BADSRC*` (*list of IP addresses*, by position): sources that no packet may have; 0.0.0.0 and
//!   255.255.255.255 are added.
//! - `INTERFACES` (*list of IP prefixes*, keyword): as of CheckIPHeader.
//! - `BADSRC` (*list of IP addresses*, keyword): as of CheckIPHeader.
//! - `GOODDST` (*list of IP addresses*, keyword): as of CheckIPHeader.
//!
//! ## Ports
//! One input, one output; agnostic. Equal to
//! `Paint(COLOR) -> Strip(14) -> CheckIPHeader(...) -> GetIPAddress(16)`, but bad packets are always dropped.
//!
//! ## Handlers
//! - `drops` (read): bad packets.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<000000000000 000000000000 0800
//!                       4500001c 00000000 401166cf 0a000001 0a000002 0000000000000000>, LIMIT 1, STOP true)
//!   -> IPInputCombo(1, INTERFACES 10.0.0.254/24)
//!   -> Discard;
//! ```
//!
//! ## See also
//! IPOutputCombo, Paint, Strip, CheckIPHeader, GetIPAddress

use super::engine::header::{CASES, Sources, TINY, admit};
use crate::prelude::*;
use std::net::Ipv4Addr;

const LINK_HEADER: usize = wire::ethernet::HEADER_LEN;

/// The `IPInputCombo` element.
pub struct IPInputCombo {
    color: u8,
    sources: Sources,
    drops: Counter,
}

impl Element for IPInputCombo {
    const CLASS: &'static str = "IPInputCombo";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::PAINT).with(Fields::DST_IP).with(Fields::IP_HEADERS);
    const SETS: Fields = Self::WRITES.without(Fields::DATA);
    const DROPS: &'static [DropCase] = &CASES;
    const MANUAL: &'static str = manual!("ip/ipinputcombo");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let color = args.mp("COLOR")?;
        let old_list = args.p::<Vec<Ipv4Addr>>("BADSRC*")?;
        let mut sources = Sources::from_args(args)?;
        if let Some(list) = old_list {
            sources.add_old_list(list);
        }
        Ok(Self { color, sources, drops: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("drops", |e| &e.drops);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.drops.set(old.drops.get());
    }
}

impl Simple for IPInputCombo {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        packet.set_paint(self.color);
        let done =
            if packet.strip(LINK_HEADER) { admit(&mut packet, 0, true, &self.sources) } else { Err(TINY) };
        let Err(reason) = done else { return Some(packet) };
        self.drops.add(1);
        if self.drops.get() == 1 {
            cx.log(Level::WARN, "IP checksum failed");
        }
        cx.drop(packet, reason);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::ip;
    use crate::testing::Bench;
    use dpdk::Packet;

    fn frame(bytes: &[u8]) -> Vec<u8> {
        [&[0; 14], bytes].concat()
    }

    #[test]
    fn strips_checks_and_annotates() {
        let mut bench = Bench::new("IPInputCombo(3, 10.0.0.255)");
        let good = ip(17, b"x");
        let out =
            bench.send(0, Packet::from_bytes(&frame(&[&good[..], b"pad"].concat())).unwrap()).remove(0).1;
        assert_eq!(out.data(), good);
        assert_eq!((out.paint(), out.dst_ip(), out.network_header_offset()), (3, [10, 0, 0, 2], Some(0)));
    }

    #[test]
    fn drops_bad_packets() {
        let mut bench = Bench::new("IPInputCombo(3, 10.0.0.1)");
        assert!(bench.push(0, &frame(&ip(17, b"x"))).is_empty());
        assert!(bench.push(0, &[0; 13]).is_empty());
        assert!(bench.push(0, &frame(&[0x45; 30])).is_empty());
        assert_eq!(bench.read("drops"), "3");
    }
}
