//! # HashSwitch
//! Sends each packet to an output chosen by a hash of some of its bytes.
//!
//! The hash is the sum of the bytes. With 2, 4 or 8 outputs its low bits, mixed with the next four, are the
//! output; else it is the remainder.
//!
//! ## Synopsis
//! `HashSwitch(OFFSET, LENGTH)`
//!
//! ## Arguments
//! - `OFFSET` (*int*): where the bytes begin, from the start of the packet.
//! - `LENGTH` (*int*): how many bytes; at least one.
//!
//! ## Ports
//! One push input, one or more push outputs. Packets that end before `OFFSET` + `LENGTH` go to output 0.
//!
//! ## Threads
//! Each worker has its own; the same bytes lead to the same output on all.
//!
//! ## Example
//! ```click
//! sw :: HashSwitch(0, 2);
//! InfiniteSource(DATA \<0001>, LIMIT 3, STOP true) -> sw -> Discard;
//! sw [1] -> Print(odd) -> Discard;
//! ```
//!
//! ## See also
//! RoundRobinSwitch, RandomSwitch, Switch

use crate::prelude::*;

/// The `HashSwitch` element.
pub struct HashSwitch {
    offset: usize,
    length: usize,
}

impl Element for HashSwitch {
    const CLASS: &'static str = "HashSwitch";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/hashswitch");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (offset, length) = (args.mp::<u32>("OFFSET")? as usize, args.mp::<u32>("LENGTH")? as usize);
        if length == 0 {
            return Err("length must be > 0".into());
        }
        Ok(Self { offset, length })
    }
}

impl HashSwitch {
    /// The output for a packet.
    #[inline]
    fn choose(&self, packet: &Packet, cx: &Cx<'_>) -> usize {
        let bytes = packet.data().get(self.offset..).and_then(|rest| rest.get(..self.length));
        let Some(bytes) = bytes else { return 0 };
        let sum: usize = bytes.iter().map(|b| usize::from(*b)).sum();
        match cx.n_outputs() {
            n @ (2 | 4 | 8) => (sum ^ (sum >> 4)) & (n - 1),
            n => sum % n.max(1),
        }
    }
}

impl Vector for HashSwitch {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            let output = self.choose(&packet, cx);
            cx.output(output, packet);
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn hashes_the_chosen_bytes() {
        let mut bench = Bench::with_ports("HashSwitch(1, 2)", 1, 4);
        assert_eq!(bench.push(0, &[9, 0x10, 0x03])[0].0, (0x13 ^ 0x1) & 3);
        assert_eq!(bench.push(0, &[9, 1])[0].0, 0);
        let mut bench = Bench::with_ports("HashSwitch(0, 1)", 1, 3);
        assert_eq!(bench.push(0, &[200])[0].0, 200 % 3);
    }

    #[test]
    fn needs_at_least_one_byte() {
        assert!(Bench::error("HashSwitch(0, 0)").contains("length must be > 0"));
    }
}
