//! # CheckPaint
//! Lets packets of one color through.
//!
//! ## Synopsis
//! `CheckPaint(COLOR [, ANNO])`
//!
//! ## Arguments
//! - `COLOR` (*int*, 0 to 255): the color.
//! - `ANNO` (*annotation*, one byte, default `PAINT`): where the color is, by name or by offset.
//!
//! ## Ports
//! One agnostic input. Packets of the color leave by output 0, agnostic; others by output 1, push, if it is
//! connected.
//!
//! ## Handlers
//! - `color` (read/write): the color.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! c :: CheckPaint(2);
//! InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> c -> Discard;
//! c [1] -> Print(other) -> Discard;
//! ```
//!
//! ## See also
//! Paint, PaintTee, PaintSwitch

use super::paint;
use crate::prelude::*;

const WRONG_COLOR: DropReason = DropReason::new("wrong color");

/// The `CheckPaint` element.
pub struct CheckPaint {
    color: u8,
    anno: usize,
}

impl Element for CheckPaint {
    const CLASS: &'static str = "CheckPaint";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::USER;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[WRONG_COLOR.when("the packet has another color, and output 1 is not connected")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/checkpaint");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (color, anno) = paint::color(args)?;
        Ok(Self { color, anno })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("color", |e| e.color.to_string());
        h.write("color", |e, v, _| paint::handler_value(v).map(|c| e.color = c));
    }
}

impl Step for CheckPaint {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.load_user(self.anno) == Some([self.color])
    }
}

impl Simple for CheckPaint {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.fail(packet, WRONG_COLOR);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn separates_by_color() {
        let mut bench = Bench::new("CheckPaint(3)");
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_paint(3);
        assert_eq!(bench.push_packet(0, packet), [(0, b"x".to_vec())]);
        assert_eq!(bench.push(0, b"y"), [(1, b"y".to_vec())]);
    }

    #[test]
    fn drops_without_a_second_output() {
        let mut bench = Bench::with_ports("CheckPaint(3)", 1, 1);
        assert!(bench.push(0, b"y").is_empty());
        assert_eq!(bench.drops(), [("wrong color".to_owned(), 1)]);
    }
}
