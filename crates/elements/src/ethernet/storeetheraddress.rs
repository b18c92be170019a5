//! # StoreEtherAddress
//! Writes an Ethernet address into each packet.
//!
//! ## Synopsis
//! `StoreEtherAddress(ADDR, OFFSET [, ANNO])`
//!
//! ## Arguments
//! - `ADDR` (*Ethernet address*): what to write.
//! - `OFFSET` (*int*, bytes, or `src` or `dst`): where to write it, from the start of the packet. `dst` is 0,
//!   `src` is 6.
//! - `ANNO` (*annotation of 6 bytes*, keyword): writes the address in this annotation; give this or `ADDR`.
//!
//! ## Ports
//! One input, one or two outputs; agnostic. Packets too short for the address go to output 1 or are dropped.
//!
//! ## Handlers
//! - `addr` (read/write): the `ADDR` argument.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> StoreEtherAddress(1:1:1:1:1:1, dst) -> Discard;
//! ```
//!
//! ## See also
//! EtherEncap, EtherRewrite, StoreIPAddress

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{Anno, EtherAddr as EtherArg, Word};
use wire::EtherAddr;

/// The `StoreEtherAddress` element.
pub struct StoreEtherAddress {
    address: EtherAddr,
    offset: usize,
    anno: Option<usize>,
}

/// Reads the argument `OFFSET`: `src`, `dst` or a number.
pub(super) fn place(args: &mut Args<'_>) -> Result<usize, ArgError> {
    let word = args.mp::<Word>("OFFSET")?.0;
    match &*word.to_ascii_lowercase() {
        "src" => Ok(6),
        "dst" => Ok(0),
        number => match lang::args::parse::<u32>(number) {
            Ok(n) if n <= u32::MAX - 6 => Ok(n as usize),
            _ => Err(args.error("type mismatch: bad OFFSET")),
        },
    }
}

impl Element for StoreEtherAddress {
    const CLASS: &'static str = "StoreEtherAddress";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::USER;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] =
        &[drops::NO_PLACE_FOR_THE_ADDRESS.when("the packet ends before the address would")];
    const MANUAL: &'static str = manual!("ethernet/storeetheraddress");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address = args.p::<EtherArg>("ADDR")?;
        let offset = place(args);
        let anno = args.k::<Anno<6>>("ANNO")?.map(|a| usize::from(a.0));
        if address.is_some() == anno.is_some() {
            return Err(args.error("must specify exactly one of ADDR/ANNO"));
        }
        let offset = offset?;
        Ok(Self { address: EtherAddr(address.map_or([0; 6], |a| a.0)), offset, anno })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("addr", |e| e.address.to_string());
        h.write("addr", |e, v, _| {
            text::value::<EtherArg>(v, "expected Ethernet address").map(|a| e.address = EtherAddr(a.0))
        });
    }
}

impl Simple for StoreEtherAddress {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let address = match self.anno {
            None => self.address.0,
            Some(at) => packet.load_user(at).unwrap_or_default(),
        };
        if let Some(place) = packet.data_mut().get_mut(self.offset..).and_then(<[u8]>::first_chunk_mut) {
            *place = address;
            return Some(packet);
        }
        cx.fail(packet, drops::NO_PLACE_FOR_THE_ADDRESS);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Packet;

    #[test]
    fn writes_at_the_offset() {
        let mut b = Bench::with_ports("StoreEtherAddress(1:2:3:4:5:6, 2)", 1, 2);
        assert_eq!(b.push(0, &[0; 9]), [(0, vec![0, 0, 1, 2, 3, 4, 5, 6, 0])]);
        assert_eq!(b.push(0, &[0; 7]), [(1, vec![0; 7])]);
        b.write("addr", "9:9:9:9:9:9");
        assert_eq!(b.push(0, &[0; 8])[0].1, [0, 0, 9, 9, 9, 9, 9, 9]);
        assert_eq!(b.read("addr"), "09-09-09-09-09-09");
        let mut b = Bench::with_ports("StoreEtherAddress(1:2:3:4:5:6, SRC)", 1, 1);
        assert_eq!(b.push(0, &[0; 12])[0].1[6..], [1, 2, 3, 4, 5, 6]);
        assert!(b.push(0, &[0; 11]).is_empty());
    }

    #[test]
    fn writes_an_annotation() {
        let mut b = Bench::with_ports("StoreEtherAddress(OFFSET dst, ANNO 4)", 1, 1);
        let mut packet = Packet::from_bytes(&[0; 6]).unwrap();
        assert!(packet.store_user(4, [1, 2, 3, 4, 5, 6]));
        assert_eq!(b.push_packet(0, packet)[0].1, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn wrong_arguments() {
        let both = "must specify exactly one of ADDR/ANNO";
        assert!(Bench::error("StoreEtherAddress(OFFSET 3)").contains(both));
        assert!(Bench::error("StoreEtherAddress(1:1:1:1:1:1, 3, ANNO 4)").contains(both));
        assert!(Bench::error("StoreEtherAddress(1:1:1:1:1:1, up)").contains("bad OFFSET"));
        assert!(Bench::error("StoreEtherAddress(1:1:1:1:1:1, 4294967290)").contains("bad OFFSET"));
    }
}
