//! # Truncate
//! Cuts packets to a length.
//!
//! ## Synopsis
//! `Truncate(LENGTH [, EXTRA_LENGTH])`
//!
//! ## Arguments
//! - `LENGTH` (*int*, bytes): the length to which longer packets are cut.
//! - `EXTRA_LENGTH` (*bool*, default true): whether to add the bytes that are cut off to the packet's
//!   extra-length annotation, from which `Pad` restores the length.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `nbytes` (read/write): the `LENGTH` argument.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Truncate(20) -> Print -> Discard;
//! ```
//!
//! ## See also
//! Pad, Resize, Strip

use super::engine::text;
use crate::prelude::*;

/// The `Truncate` element.
pub struct Truncate {
    length: usize,
    note: bool,
}

impl Element for Truncate {
    const CLASS: &'static str = "Truncate";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::EXTRA_LENGTH;
    const WRITES: Fields = Fields::DATA.with(Fields::EXTRA_LENGTH);
    const MANUAL: &'static str = manual!("plumbing/truncate");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let length = args.mp::<u32>("LENGTH")? as usize;
        Ok(Self { length, note: args.k("EXTRA_LENGTH")?.unwrap_or(true) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("nbytes", |e| e.length.to_string());
        h.write("nbytes", |e, v, _| text::value::<u32>(v, "expected integer").map(|n| e.length = n as usize));
    }
}

impl Simple for Truncate {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        let cut = packet.len().saturating_sub(self.length);
        if cut > 0 {
            if self.note {
                let extra = packet.extra_length().wrapping_add(cut as u32);
                packet.set_extra_length(extra);
            }
            packet.take(cut);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn cuts_and_notes_what_it_cut() {
        let mut bench = Bench::new("Truncate(2)");
        let out = bench.send(0, Packet::from_bytes(b"abcde").unwrap());
        assert_eq!((out[0].1.data(), out[0].1.extra_length()), (&b"ab"[..], 3));
        let out = bench.send(0, Packet::from_bytes(b"a").unwrap());
        assert_eq!((out[0].1.data(), out[0].1.extra_length()), (&b"a"[..], 0));
        bench.write("nbytes", "0");
        assert_eq!(bench.push(0, b"abc"), [(0, Vec::new())]);
    }

    #[test]
    fn the_note_can_be_left_out() {
        let mut bench = Bench::new("Truncate(2, EXTRA_LENGTH false)");
        let out = bench.send(0, Packet::from_bytes(b"abcde").unwrap());
        assert_eq!(out[0].1.extra_length(), 0);
    }
}
