//! # DRRSched
//! Pulls from its inputs by deficit round robin, which is fair by bytes.
//!
//! ## Synopsis
//! `DRRSched([QUANTUM])`
//!
//! ## Arguments
//! - `QUANTUM` (*int*, bytes, default 500): what is added to an input's deficit counter in each round. With
//!   the length of the longest packet, every round sends at least one packet of each input.
//!
//! ## Ports
//! Any number of pull inputs, one pull output. An input is served while its next packet is no longer than its
//! deficit counter; then the next input is served. The counter of an input without packets is set to zero.
//! DRRSched holds one packet of each input back to know its length; the consumer sleeps only when there is
//! none and all inputs are empty.
//!
//! ## Handlers
//! None beyond those of every element.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! s :: DRRSched(1500) -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10, STOP true) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! ## See also
//! RoundRobinSched, PrioSched, StrideSched

use crate::prelude::*;

#[derive(Default)]
struct Input {
    head: Option<Packet>,
    deficit: u64,
}

/// The `DRRSched` element.
pub struct DrrSched {
    quantum: u64,
    inputs: Vec<Input>,
    next: usize,
}

impl DrrSched {
    /// The next packet. Tries each input once, beginning with the one that was served last.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut active = false;
        for _ in 0..self.inputs.len() {
            let input = self.inputs.get_mut(self.next)?;
            let head = input.head.take();
            let ready = head.is_some() || cx.upstream_active(self.next);
            active |= ready;
            match head.or_else(|| ready.then(|| cx.pull_one(self.next)).flatten()) {
                None => input.deficit = 0,
                Some(packet) if packet.len() as u64 <= input.deficit => {
                    input.deficit -= packet.len() as u64;
                    cx.set_nonempty(true);
                    return Some(packet);
                }
                Some(packet) => input.head = Some(packet),
            }
            self.next = if self.next + 1 < self.inputs.len() { self.next + 1 } else { 0 };
            if let Some(input) = self.inputs.get_mut(self.next) {
                input.deficit = input.deficit.saturating_add(self.quantum);
            }
        }
        cx.set_nonempty(active);
        None
    }
}

impl Element for DrrSched {
    const CLASS: &'static str = "DRRSched";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Gate;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        drops::INPUT_REMOVED.when("a hot swap has left fewer inputs than packets were taken from"),
        drops::CONSUMER_MOVED
            .when("the task that pulled has moved to another worker, and the packet was held here"),
    ];
    const MANUAL: &'static str = manual!("queues/drrsched");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let quantum = args.p::<i32>("QUANTUM")?.unwrap_or(500);
        let quantum =
            u64::try_from(quantum).ok().filter(|q| *q > 0).ok_or_else(|| ArgError::new("bad QUANTUM"))?;
        Ok(Self { quantum, inputs: (0..cx.n_inputs()).map(|_| Input::default()).collect(), next: 0 })
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.next = if old.next < self.inputs.len() { old.next } else { 0 };
        for (new, old) in self.inputs.iter_mut().zip(&mut old.inputs) {
            *new = std::mem::take(old);
        }
        for packet in old.inputs.iter_mut().filter_map(|i| i.head.take()) {
            cx.drop(packet, drops::INPUT_REMOVED);
        }
        cx.set_nonempty(true);
    }

    fn abandon(&mut self, cx: &mut Cx<'_>) {
        for packet in self.inputs.iter_mut().filter_map(|input| input.head.take()) {
            cx.drop(packet, drops::CONSUMER_MOVED);
        }
    }
}

impl Vector for DrrSched {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut tries = 0;
        let mut left = max;
        while left > 0 {
            match self.next(cx) {
                Some(packet) => {
                    out.push(packet);
                    left -= 1;
                    tries = 0;
                }
                // With longer batches, a round that only increased deficits does not end the batch.
                None if !cx.exact() && tries < 8 && self.inputs.iter().any(|i| i.head.is_some()) => {
                    tries += 1
                }
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn bytes_are_shared_equally() {
        let config = "a :: InfiniteSource(LENGTH 1000) -> Queue(50) -> large :: Counter -> [0] e :: DRRSched;
            b :: InfiniteSource(LENGTH 100) -> Queue(50) -> small :: Counter -> [1] e; e -> u :: Unqueue(LIMIT 330); u -> Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.turns(5000);
        let bytes = |bench: &mut Bench, c: &str| bench.read(c).parse::<i64>().unwrap();
        let (small, large) = (bytes(&mut bench, "small.byte_count"), bytes(&mut bench, "large.byte_count"));
        assert!((small - large).abs() <= 2000, "{small} {large}");
        assert_eq!(bench.read("u.count"), "330");
    }

    #[test]
    fn the_consumer_sleeps_when_all_is_empty_and_wakes() {
        const CONFIG: &str = "InfiniteSource(ACTIVE false) -> q :: Queue -> [0] e :: DRRSched;
            InfiniteSource(ACTIVE false) -> Queue -> [1] e; e -> u :: RatedUnqueue(1000000000000) -> Discard;";
        let mut bench = Bench::with_config(CONFIG, 0, 0);
        bench.run();
        let calls = bench.read("u.calls");
        bench.run();
        assert_eq!(bench.read("u.calls"), calls);
        bench.router().inject("q", 0, [dpdk::Packet::from_bytes(&[0; 1400]).unwrap()].into_iter().collect());
        bench.run();
        assert!(bench.read("u.calls").contains("1 pushes"));
    }

    #[test]
    fn refuses_no_quantum() {
        assert!(Bench::error("DRRSched(0)").contains("bad QUANTUM"));
    }
}
