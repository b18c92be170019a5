//! # EtherRewrite
//! Replaces the addresses of each packet's Ethernet header.
//!
//! ## Synopsis
//! `EtherRewrite(SRC, DST)`
//!
//! ## Arguments
//! - `SRC`, `DST` (*Ethernet addresses*): the new source and destination.
//!
//! ## Ports
//! One input, one output; agnostic. The header is where it was marked, or else at the start of the packet.
//!
//! ## Handlers
//! - `src`, `dst` (read/write): the arguments.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> EtherRewrite(3:3:3:3:3:3, 4:4:4:4:4:4) -> Discard;
//! ```
//!
//! ## See also
//! EtherEncap, EtherMirror, StoreEtherAddress

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::EtherAddr as EtherArg;
use wire::{EtherAddr, Ethernet};

/// The `EtherRewrite` element.
pub struct EtherRewrite {
    src: EtherAddr,
    dst: EtherAddr,
}

impl Element for EtherRewrite {
    const CLASS: &'static str = "EtherRewrite";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::MAC_HEADER);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::TOO_SHORT_FOR_ETHERNET];
    const MANUAL: &'static str = manual!("ethernet/etherrewrite");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let src = EtherAddr(args.mp::<EtherArg>("SRC")?.0);
        let dst = EtherAddr(args.mp::<EtherArg>("DST")?.0);
        Ok(Self { src, dst })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("src", |e| e.src.to_string());
        h.read("dst", |e| e.dst.to_string());
        h.write("src", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.src = EtherAddr(a.0))
        });
        h.write("dst", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.dst = EtherAddr(a.0))
        });
        h.argument("src", 0, "SRC");
        h.argument("dst", 1, "DST");
    }
}

impl Simple for EtherRewrite {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let bytes = match packet.mac_header_offset() {
            Some(_) => packet.mac_header_mut(),
            None => Some(packet.data_mut()),
        };
        let Some(mut header) = bytes.and_then(Ethernet::new_mut) else {
            cx.drop(packet, drops::NO_ETHERNET_HEADER);
            return None;
        };
        header.set_src(self.src);
        header.set_dst(self.dst);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;

    #[test]
    fn replaces_both_addresses() {
        let mut b = Bench::new("EtherRewrite(1:2:3:4:5:6, 7:8:9:a:b:c)");
        let out = b.push(0, &[0xff; 16]);
        assert_eq!(out[0].1, [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 0xff, 0xff, 0xff, 0xff]);
        b.write("src", "0:0:0:0:0:9");
        assert_eq!(b.push(0, &[0xff; 14])[0].1[6..12], [0, 0, 0, 0, 0, 9]);
        assert_eq!(b.read("dst"), "07-08-09-0A-0B-0C");
    }

    #[test]
    fn goes_by_the_mark() {
        let mut b = Bench::new("EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2)");
        let mut packet = Packet::from_bytes(&[0; 20]).unwrap();
        packet.set_mac_header(2);
        let out = b.push_packet(0, packet);
        assert_eq!(out[0].1[..15], [0, 0, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn drops_what_is_too_short() {
        let mut b = Bench::new("EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2)");
        assert!(b.push(0, &[0; 13]).is_empty());
        assert_eq!(b.drops(), [("no Ethernet header".to_owned(), 1)]);
    }
}
