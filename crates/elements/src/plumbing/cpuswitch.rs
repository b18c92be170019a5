//! # CPUSwitch
//! Sends each packet to an output chosen by the worker that it is on.
//!
//! Packets of worker N leave by output N, or the remainder of N divided by the number of outputs.
//!
//! ## Synopsis
//! `CPUSwitch()`
//!
//! ## Ports
//! One push input, one or more push outputs.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! sw :: CPUSwitch;
//! InfiniteSource(LIMIT 3, STOP true) -> sw -> Discard;
//! sw [1] -> Discard;
//! ```
//!
//! ## See also
//! HashSwitch, RoundRobinSwitch, StaticThreadSched

use crate::prelude::*;

/// The `CPUSwitch` element.
pub struct CpuSwitch;

impl Element for CpuSwitch {
    const CLASS: &'static str = "CPUSwitch";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/cpuswitch");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Vector for CpuSwitch {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        cx.output_batch(cx.worker().0 % cx.n_outputs().max(1), batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn sorts_by_worker() {
        let mut bench = Bench::with_ports("CPUSwitch()", 1, 3);
        assert_eq!(bench.push(0, b"x")[0].0, 0);
        let config = "e :: CPUSwitch; e -> a :: Counter -> Discard; e [1] -> b :: Counter -> Discard;
            r :: InfiniteSource(LIMIT 5) -> e; s :: InfiniteSource(LIMIT 7) -> e;
            StaticThreadSched(s 1, r 0);";
        let mut bench = Bench::workers(config, 2, 0, 0);
        let count = |bench: &mut Bench, name: &str| bench.read(name).parse::<u32>().unwrap();
        for _ in 0..10_000 {
            bench.turn();
            if count(&mut bench, "a.count") + count(&mut bench, "b.count") == 12 {
                break;
            }
        }
        assert_eq!((count(&mut bench, "a.count"), count(&mut bench, "b.count")), (5, 7));
    }
}
