//! # PaintSwitch
//! Sends each packet to the output whose number is the packet's color.
//!
//! ## Synopsis
//! `PaintSwitch([ANNO])`
//!
//! ## Arguments
//! - `ANNO` (*annotation*, one byte, default `PAINT`): where the color is, by name or by offset.
//!
//! ## Ports
//! One push input, any number of push outputs. A packet of color 255 goes to all outputs.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! sw :: PaintSwitch;
//! InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> sw -> Discard;
//! sw [1] -> Print(one) -> Discard;
//! ```
//!
//! ## See also
//! Paint, PaintTee, CheckPaint, Switch

use super::paint;
use crate::prelude::*;

const NO_SUCH_COLOR: DropReason = DropReason::new("no such color");

/// The `PaintSwitch` element.
pub struct PaintSwitch {
    anno: usize,
}

/// The color of packets for all outputs.
const ALL: u8 = 255;

impl Element for PaintSwitch {
    const CLASS: &'static str = "PaintSwitch";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::USER;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[NO_SUCH_COLOR.when("there is no output of that number"), drops::NO_COPY];
    const MANUAL: &'static str = manual!("plumbing/paintswitch");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { anno: paint::place(args)? })
    }
}

impl Vector for PaintSwitch {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let outputs = cx.n_outputs();
        for packet in batch.drain(..) {
            match u8::from_ne_bytes(packet.load_user(self.anno).unwrap_or([0])) {
                ALL if outputs > 0 => {
                    for port in 0..outputs - 1 {
                        match packet.duplicate() {
                            Some(copy) => cx.output(port, copy),
                            None => cx.count_drops(1, drops::OUT_OF_MEMORY),
                        }
                    }
                    cx.output(outputs - 1, packet);
                }
                color if usize::from(color) < outputs => cx.output(usize::from(color), packet),
                _ => cx.drop(packet, NO_SUCH_COLOR),
            }
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    fn painted(color: u8) -> Packet {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_paint(color);
        packet
    }

    #[test]
    fn goes_by_color() {
        let mut bench = Bench::with_ports("PaintSwitch()", 1, 3);
        assert_eq!(bench.push_packet(0, painted(2)), [(2, b"x".to_vec())]);
        assert!(bench.push_packet(0, painted(3)).is_empty());
        assert_eq!(bench.drops(), [("no such color".to_owned(), 1)]);
        let ports: Vec<usize> = bench.push_packet(0, painted(255)).iter().map(|o| o.0).collect();
        assert_eq!(ports, [0, 1, 2]);
    }
}
