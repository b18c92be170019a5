//! # Paint
//! Marks packets with a color.
//!
//! ## Synopsis
//! `Paint(COLOR [, ANNO])`
//!
//! ## Arguments
//! - `COLOR` (*int*, 0 to 255): the color.
//! - `ANNO` (*annotation*, one byte, default `PAINT`): where to put it, by name or by offset.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `color` (read/write): the color.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Paint(2) -> Print(PRINTANNO true) -> Discard;
//! ```
//!
//! ## See also
//! PaintTee, PaintSwitch, CheckPaint

use super::engine::text;
use crate::prelude::*;
use dpdk::offset;
use lang::args::Anno;

/// The `Paint` element.
pub struct Paint {
    color: u8,
    anno: usize,
}

/// Reads the `COLOR` and `ANNO` arguments of the painting elements.
pub(super) fn color(args: &mut Args<'_>) -> Result<(u8, usize), ArgError> {
    Ok((args.mp("COLOR")?, place(args)?))
}

/// Reads the `ANNO` argument of the painting elements.
pub(super) fn place(args: &mut Args<'_>) -> Result<usize, ArgError> {
    Ok(args.p::<Anno<1>>("ANNO")?.map_or(offset::PAINT, |a| usize::from(a.0)))
}

/// Reads a color that is written to a handler.
pub(super) fn handler_value(v: &str) -> Result<u8, String> {
    text::value(v, "expected uint8_t")
}

impl Element for Paint {
    const CLASS: &'static str = "Paint";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::USER;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/paint");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (color, anno) = color(args)?;
        Ok(Self { color, anno })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("color", |e| e.color.to_string());
        h.write("color", |e, v, _| handler_value(v).map(|c| e.color = c));
        h.argument("color", 0, "COLOR");
    }
}

impl Step for Paint {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.store_user(self.anno, [self.color]);
        true
    }
}

impl Simple for Paint {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn paints() {
        let mut bench = Bench::new("Paint(3)");
        let out = bench.send(0, Packet::from_bytes(b"x").unwrap());
        assert_eq!(out[0].1.paint(), 3);
        bench.write("color", "9");
        let out = bench.send(0, Packet::from_bytes(b"x").unwrap());
        assert_eq!(out[0].1.paint(), 9);
        assert_eq!(bench.read("color"), "9");
    }

    #[test]
    fn paints_elsewhere() {
        let mut bench = Bench::new("Paint(3, ANNO 40)");
        let out = bench.send(0, Packet::from_bytes(b"x").unwrap());
        assert_eq!((out[0].1.load_user(40), out[0].1.paint()), (Some([3]), 0));
    }

    #[test]
    fn arguments_are_checked() {
        assert!(Bench::error("Paint()").contains("COLOR"));
        assert!(Bench::error("Paint(256)").contains("COLOR"));
        assert!(Bench::error("Paint(1, 48)").contains("ANNO"));
    }
}
