//! # PaintTee
//! Sends a copy of each packet of one color to its second output.
//!
//! ## Synopsis
//! `PaintTee(COLOR [, ANNO])`
//!
//! ## Arguments
//! - `COLOR` (*int*, 0 to 255): the color.
//! - `ANNO` (*annotation*, one byte, default `PAINT`): where the color is, by name or by offset.
//!
//! ## Ports
//! One agnostic input. Output 0, agnostic, gets every packet; output 1, push, gets the copies, each before
//! its original.
//!
//! ## Handlers
//! - `color` (read/write): the color.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! t :: PaintTee(2);
//! InfiniteSource(LIMIT 3, STOP true) -> Paint(2) -> t -> Discard;
//! t [1] -> Print(copy) -> Discard;
//! ```
//!
//! ## See also
//! Paint, PaintSwitch, CheckPaint, Tee

use super::paint;
use crate::prelude::*;

/// The `PaintTee` element.
pub struct PaintTee {
    color: u8,
    anno: usize,
}

impl Element for PaintTee {
    const CLASS: &'static str = "PaintTee";
    const PORTS: &'static str = "1/2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::USER;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::NO_COPY];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/painttee");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (color, anno) = paint::color(args)?;
        Ok(Self { color, anno })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("color", |e| e.color.to_string());
        h.write("color", |e, v, _| paint::handler_value(v).map(|c| e.color = c));
    }
}

impl Step for PaintTee {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.load_user(self.anno) != Some([self.color])
    }
}

impl Simple for PaintTee {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if packet.load_user(self.anno) == Some([self.color]) {
            copy(&packet, cx);
        }
        Some(packet)
    }
}

#[cold]
fn copy(packet: &Packet, cx: &mut Cx<'_>) {
    match packet.duplicate() {
        Some(copy) => cx.output(1, copy),
        None => cx.count_drops(1, drops::OUT_OF_MEMORY),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn copies_packets_of_its_color() {
        let mut bench = Bench::new("PaintTee(3)");
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_paint(3);
        assert_eq!(bench.push_packet(0, packet), [(1, b"x".to_vec()), (0, b"x".to_vec())]);
        assert_eq!(bench.push(0, b"y"), [(0, b"y".to_vec())]);
    }
}
