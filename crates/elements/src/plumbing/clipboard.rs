//! # Clipboard
//! Copies bytes of one packet into others.
//!
//! Bytes of packets on input 0 are copied to the clipboard; the packets leave unchanged by output 0. The
//! bytes in the clipboard are written into packets on input 1, which leave by output 1; a packet that is too
//! short for any range stays unchanged.
//!
//! ## Synopsis
//! `Clipboard(OFFSET/LENGTH, ...)`
//!
//! ## Arguments
//! - `OFFSET/LENGTH` (*int/int*, bytes): a range to copy, from the start of the packet.
//!
//! ## Ports
//! Two inputs and two outputs; each pair is push or pull on its own.
//!
//! ## Threads
//! Each worker has its own bytes: what a packet leaves behind is for packets of the same worker.
//!
//! ## Example
//! ```click
//! c :: Clipboard(0/2);
//! InfiniteSource(DATA \<0102>, LIMIT 1) -> c -> Discard;
//! InfiniteSource(DATA \<0000ff>, LIMIT 2, STOP true) -> [1] c [1] -> Print -> Discard;
//! ```
//!
//! ## See also
//! Strip, Unstrip

use super::engine::text;
use crate::prelude::*;
use std::ops::Range;

/// The `Clipboard` element.
pub struct Clipboard {
    ranges: Vec<Range<usize>>,
    shortest: usize,
    bytes: Vec<u8>,
}

/// More than the length of any packet.
const LONGEST: u32 = 1 << 16;

impl Element for Clipboard {
    const CLASS: &'static str = "Clipboard";
    const LIVE: bool = true;
    const PORTS: &'static str = "2/2";
    const FLOW: &'static str = "#/#";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const MANUAL: &'static str = manual!("plumbing/clipboard");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let mut ranges = Vec::new();
        for (n, argument) in args.rest().iter().enumerate() {
            let Some((offset, length)) =
                argument.split_once('/').filter(|(a, b)| !a.is_empty() && !b.is_empty())
            else {
                return Err(format!("range {n}: expected '/' between offset and length").into());
            };
            let wrong = format!("range {n}: invalid offset or length");
            let number = |text: &str| {
                text::value::<u32>(text, &wrong)
                    .and_then(|v| if v <= LONGEST { Ok(v as usize) } else { Err(wrong.clone()) })
            };
            let (offset, length) = (number(offset)?, number(length)?);
            ranges.push(offset..offset + length);
        }
        let bytes = vec![0; ranges.iter().map(Range::len).sum()];
        Ok(Self { shortest: ranges.iter().map(|r| r.end).max().unwrap_or(0), ranges, bytes })
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if self.ranges == old.ranges {
            std::mem::swap(&mut self.bytes, &mut old.bytes);
        }
    }
}

impl Clipboard {
    fn copy(&mut self, data: &[u8]) {
        let mut to = &mut self.bytes[..];
        for range in &self.ranges {
            let Some((here, rest)) = to.split_at_mut_checked(range.len()) else { return };
            // If a packet ends within the range, the bytes that it has are copied.
            let have = data.get(range.start..range.end.min(data.len())).unwrap_or_default();
            if let Some(here) = here.get_mut(..have.len()) {
                here.copy_from_slice(have);
            }
            to = rest;
        }
    }
    fn paste(&self, data: &mut [u8]) {
        if data.len() < self.shortest {
            return;
        }
        let mut from = &self.bytes[..];
        for range in &self.ranges {
            let Some((here, rest)) = from.split_at_checked(range.len()) else { return };
            if let Some(to) = data.get_mut(range.clone()) {
                to.copy_from_slice(here);
            }
            from = rest;
        }
    }
    fn apply(&mut self, port: usize, packets: &mut [Packet]) {
        for packet in packets {
            match port {
                0 => self.copy(packet.data()),
                _ => self.paste(packet.data_mut()),
            }
        }
    }
}

impl Vector for Clipboard {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.apply(port, &mut batch);
        cx.output_batch(port, batch);
    }
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut batch = cx.spare_batch();
        cx.pull_lending(self, port, max, &mut batch);
        self.apply(port, &mut batch);
        out.append(&mut batch);
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn copies_ranges_between_packets() {
        let mut bench = Bench::new("Clipboard(1/2, 4/1)");
        assert_eq!(bench.push(0, b"abcdef"), [(0, b"abcdef".to_vec())]);
        assert_eq!(bench.push(1, b"123456"), [(1, b"1bc4e6".to_vec())]);
        assert_eq!(bench.push(1, b"1234"), [(1, b"1234".to_vec())]);
        assert_eq!(bench.push(0, b"xy"), [(0, b"xy".to_vec())]);
        assert_eq!(bench.push(1, b"123456"), [(1, b"1yc4e6".to_vec())]);
    }

    #[test]
    fn ranges_are_checked() {
        assert!(Bench::error("Clipboard(12)").contains("range 0: expected '/' between offset and length"));
        assert!(Bench::error("Clipboard(1/2, 3/x)").contains("range 1: invalid offset or length"));
        assert!(Bench::error("Clipboard(1/4000000000)").contains("range 0"));
    }
}
