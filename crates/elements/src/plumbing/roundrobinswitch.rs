//! # RoundRobinSwitch
//! Sends packets to its outputs in turn.
//!
//! ## Synopsis
//! `RoundRobinSwitch([MAX, SPLITBATCH])`
//!
//! ## Arguments
//! - `MAX` (*int*, default -1): how many outputs take turns, from the first on; negative: all. FastClick's.
//! - `SPLITBATCH` (*bool*, keyword, default true): whether each packet goes to the next output; else all
//!   packets of a batch go to one. FastClick's.
//!
//! ## Ports
//! One push input, one or more push outputs.
//!
//! ## Threads
//! Each worker has its own turn.
//!
//! ## Example
//! ```click
//! sw :: RoundRobinSwitch;
//! InfiniteSource(LIMIT 4, STOP true) -> sw -> Print(0) -> Discard;
//! sw [1] -> Print(1) -> Discard;
//! ```
//!
//! ## See also
//! RandomSwitch, HashSwitch, Switch

use crate::prelude::*;

/// The `RoundRobinSwitch` element.
pub struct RoundRobinSwitch {
    next: usize,
    most: usize,
    split: bool,
}

impl Element for RoundRobinSwitch {
    const CLASS: &'static str = "RoundRobinSwitch";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/roundrobinswitch");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let most = usize::try_from(args.p_or::<i32>("MAX", -1)?).unwrap_or(usize::MAX).max(1);
        Ok(Self { next: 0, most, split: args.k_or("SPLITBATCH", true)? })
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.next = if old.next < self.most.min(cx.n_outputs()) { old.next } else { 0 };
    }
}

impl RoundRobinSwitch {
    /// The output for a packet.
    #[inline]
    fn choose(&mut self, cx: &mut Cx<'_>) -> usize {
        let port = self.next;
        self.next = if port + 1 < self.most.min(cx.n_outputs()) { port + 1 } else { 0 };
        port
    }
}

impl Vector for RoundRobinSwitch {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        if !self.split {
            let output = self.choose(cx);
            return cx.output_batch(output, batch);
        }
        for packet in batch.drain(..) {
            let output = self.choose(cx);
            cx.output(output, packet);
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn takes_turns() {
        let mut bench = Bench::with_ports("RoundRobinSwitch()", 1, 3);
        let ports: Vec<usize> = (0..7).map(|_| bench.push(0, b"x")[0].0).collect();
        assert_eq!(ports, [0, 1, 2, 0, 1, 2, 0]);
        for (config, turns) in [("MAX 2", [0, 1, 0, 1]), ("1", [0; 4]), ("9", [0, 1, 2, 0]), ("0", [0; 4])] {
            let mut bench = Bench::with_ports(&format!("RoundRobinSwitch({config})"), 1, 3);
            assert_eq!([(); 4].map(|()| bench.push(0, b"x")[0].0), turns, "{config}");
        }
    }

    #[test]
    fn batches_take_turns() {
        let ports = |config: &str| -> Vec<usize> {
            let options = runtime::Options { batch_size: 32, ..runtime::Options::default() };
            let mut bench = Bench::with_ports_and_options(config, 1, 2, options);
            let packets = || (0..3).map(|_| dpdk::Packet::from_bytes(b"x").unwrap()).collect();
            let batches = [bench.send_batch(0, packets()), bench.send_batch(0, packets())];
            batches.iter().flatten().map(|out| out.0).collect()
        };
        assert_eq!(ports("RoundRobinSwitch(SPLITBATCH false)"), [0, 0, 0, 1, 1, 1]);
        // Packets of a batch to one output stay together.
        assert_eq!(ports("RoundRobinSwitch"), [0, 0, 1, 1, 1, 0]);
    }
}
