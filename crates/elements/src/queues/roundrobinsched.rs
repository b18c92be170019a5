//! # RoundRobinSched
//! Pulls from its inputs in turn.
//!
//! ## Synopsis
//! `RoundRobinSched`
//!
//! `SimpleRoundRobinSched` is another name of the same class.
//!
//! ## Arguments
//! None.
//!
//! ## Ports
//! Any number of pull inputs, one pull output. Each pull goes to the input after the one that gave the last
//! packet, and on to the next ones until one gives a packet. Inputs that are known to be empty are left out.
//! With longer batches each input in turn gives an equal share of the batch.
//!
//! ## Handlers
//! None beyond those of every element.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! s :: RoundRobinSched -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10, STOP true) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! ## See also
//! PrioSched, StrideSched, DRRSched, TimeSortedSched

use crate::prelude::*;

/// The `RoundRobinSched` element.
pub struct RoundRobinSched {
    next: usize,
}

impl Element for RoundRobinSched {
    const CLASS: &'static str = "RoundRobinSched";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("queues/roundrobinsched");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { next: 0 })
    }
}

impl Vector for RoundRobinSched {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let n = cx.n_inputs();
        let mut left = max;
        let mut in_vain = 0;
        while left > 0 && in_vain < n {
            let share = if cx.exact() { 1 } else { left.div_ceil(n) };
            let port = self.next;
            let got = if cx.upstream_active(port) { cx.pull(port, share, out) } else { 0 };
            in_vain = if got > 0 { 0 } else { in_vain + 1 };
            left -= got;
            self.next = if port + 1 < n { port + 1 } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    const OFF: &str = "InfiniteSource(ACTIVE false) ->";

    fn bench(class: &str) -> Bench {
        let config = format!(
            "e :: {class}; {OFF} a :: Queue -> [0] e; {OFF} b :: Queue -> [1] e; {OFF} c :: Queue -> [2] e;"
        );
        let mut bench = Bench::with_config(&config, 0, 1);
        for (queue, bytes) in [("a", "aaa"), ("c", "cc")] {
            for byte in bytes.bytes() {
                bench.router().inject(
                    queue,
                    0,
                    [dpdk::Packet::from_bytes(&[byte]).unwrap()].into_iter().collect(),
                );
            }
        }
        bench
    }

    fn pull(bench: &mut Bench, n: usize) -> String {
        bench.pull(0, n).iter().map(|(_, p)| char::from(p.data()[0])).collect()
    }

    #[test]
    fn inputs_take_turns() {
        let mut b = bench("RoundRobinSched");
        assert_eq!(pull(&mut b, 2), "ac");
        assert_eq!(pull(&mut b, 9), "aca");
        assert_eq!(pull(&mut b, 9), "");
    }

    #[test]
    fn the_first_input_comes_first() {
        let mut b = bench("PrioSched");
        assert_eq!(pull(&mut b, 1), "a");
        assert_eq!(pull(&mut b, 9), "aacc");
    }

    #[test]
    fn no_inputs_give_no_packets() {
        for class in ["RoundRobinSched", "PrioSched", "DRRSched", "TimeSortedSched"] {
            assert!(Bench::with_ports(class, 0, 1).pull(0, 3).is_empty());
        }
    }
}
