//! # SetAnnoByte
//! Sets a byte of packets' annotations.
//!
//! The older form of Paint, which takes its arguments in the other order: there is a warning.
//!
//! ## Synopsis
//! `SetAnnoByte(ANNO, VALUE)`
//!
//! ## Arguments
//! - `ANNO` (*annotation*, one byte): where to put the value, by name or by offset.
//! - `VALUE` (*int*, 0 to 255): the value.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `anno` (read): the offset.
//! - `value` (read/write): the `VALUE` argument.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true) -> SetAnnoByte(PAINT, 2) -> Print(PRINTANNO true) -> Discard;
//! ```
//!
//! ## See also
//! Paint, StoreAnno

use super::engine::text;
use crate::prelude::*;
use lang::args::Anno;

/// The `SetAnnoByte` element.
pub struct SetAnnoByte {
    anno: usize,
    value: u8,
}

impl Element for SetAnnoByte {
    const CLASS: &'static str = "SetAnnoByte";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::USER;
    const MANUAL: &'static str = manual!("plumbing/setannobyte");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        cx.warn("SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead");
        let Anno::<1>(anno) = args.mp("ANNO")?;
        Ok(Self { anno: usize::from(anno), value: args.mp("VALUE")? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("anno", |e| e.anno.to_string());
        h.read("value", |e| e.value.to_string());
        h.write("value", |e, v, _| text::value(v, "expected uint8_t").map(|n| e.value = n));
        h.argument("value", 1, "VALUE");
    }
}

impl Simple for SetAnnoByte {
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        packet.store_user(self.anno, [self.value]);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn sets_the_byte_and_warns() {
        let mut bench = Bench::new("SetAnnoByte(47, 3)");
        let out = bench.send(0, Packet::from_bytes(b"x").unwrap()).remove(0).1;
        assert_eq!((out.load_user(47), out.load_user(46)), (Some([3]), Some([0])));
        bench.write("value", "255");
        assert_eq!((bench.read("value"), bench.read("anno")), ("255".to_owned(), "47".to_owned()));
        assert_eq!(bench.send(0, Packet::from_bytes(b"x").unwrap())[0].1.load_user(47), Some([255]));
        assert!(bench.try_write("value", "256").is_err());
        let diags = bench.router().warnings();
        assert!(diags.render_plain(diags.sources()).contains("use Paint(VALUE, ANNO) instead"));
        let mut bench = Bench::new("SetAnnoByte(PAINT, 3)");
        assert_eq!(bench.send(0, Packet::from_bytes(b"x").unwrap())[0].1.paint(), 3);
        assert!(Bench::error("SetAnnoByte(48, 1)").contains("ANNO"));
        assert!(Bench::error("SetAnnoByte(PAINT)").contains("VALUE"));
    }
}
