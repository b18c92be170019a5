//! # TimeSortedSched
//! Merges sorted streams of packets by their timestamps.
//!
//! ## Synopsis
//! `TimeSortedSched([STOP, BUFFER])`
//!
//! ## Arguments
//! - `STOP` (*bool*, keyword, default false): stops the router when no packets are left and no element
//!   upstream is active.
//! - `BUFFER` (*int*, keyword, default 1): how many packets of each input are compared to find the earliest;
//!   more than one sorts inputs that are slightly out of order.
//!
//! ## Ports
//! Any number of pull inputs, one pull output. A pull returns the packet with the earliest timestamp.
//! TimeSortedSched holds up to `BUFFER` packets of each input; its consumer sleeps when it holds none and all
//! inputs are empty.
//!
//! ## Handlers
//! - `well_ordered` (read): whether all packets have left in the order of their timestamps.
//!
//! ## Threads
//! Each worker merges its own packets. For a single order over all workers, bind the consumer to one worker
//! (StaticThreadSched).
//!
//! ## Example
//! ```click
//! s :: TimeSortedSched(STOP true) -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! ## See also
//! FromDump, RoundRobinSched, PrioSched

use crate::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A packet that is held, ordered by time, then by arrival.
struct Held {
    key: (u64, u64),
    input: usize,
    packet: Packet,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// The `TimeSortedSched` element.
pub struct TimeSortedSched {
    stop: bool,
    buffer: usize,
    heap: BinaryHeap<Reverse<Held>>,
    /// How many packets of each input are held.
    held: Vec<usize>,
    arrivals: u64,
    last_ns: u64,
    well_ordered: bool,
}

impl TimeSortedSched {
    /// Pulls as many packets as can be held. Returns whether some input may have packets.
    fn fill(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut active = false;
        for input in 0..self.held.len() {
            let room = self.buffer.saturating_sub(self.held[input]);
            if room == 0 || !cx.upstream_active(input) {
                continue;
            }
            active = true;
            let mut batch = cx.spare_batch();
            self.held[input] += cx.pull_lending(self, input, room, &mut batch);
            for packet in batch.drain(..) {
                self.arrivals += 1;
                let key = (packet.timestamp_ns(), self.arrivals);
                self.heap.push(Reverse(Held { key, input, packet }));
            }
            cx.recycle(batch);
        }
        active
    }
}

impl Element for TimeSortedSched {
    const CLASS: &'static str = "TimeSortedSched";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Gate;
    const READS: Fields = Fields::TIMESTAMP;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        drops::INPUT_REMOVED.when("a hot swap has left fewer inputs than packets were taken from"),
        drops::CONSUMER_MOVED
            .when("the task that pulled has moved to another worker, and the packet was held here"),
    ];
    const MANUAL: &'static str = manual!("queues/timesortedsched");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let stop = args.k("STOP")?.unwrap_or(false);
        let buffer = args.k::<i32>("BUFFER")?.unwrap_or(1);
        let buffer = usize::try_from(buffer).ok().filter(|b| *b > 0);
        let buffer = buffer.ok_or_else(|| ArgError::new("BUFFER must be at least 1"))?;
        let held = vec![0; cx.n_inputs()];
        Ok(Self { stop, buffer, heap: BinaryHeap::new(), held, arrivals: 0, last_ns: 0, well_ordered: true })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("well_ordered", |e| e.well_ordered.to_string());
        h.listed(&["well_ordered c"]);
    }

    fn abandon(&mut self, cx: &mut Cx<'_>) {
        self.held.fill(0);
        for Reverse(held) in self.heap.drain() {
            cx.drop(held.packet, drops::CONSUMER_MOVED);
        }
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        for Reverse(held) in old.heap.drain() {
            if let Some(count) = self.held.get_mut(held.input) {
                *count += 1;
                self.heap.push(Reverse(held));
            } else {
                cx.drop(held.packet, drops::INPUT_REMOVED);
            }
        }
        (self.arrivals, self.last_ns, self.well_ordered) = (old.arrivals, old.last_ns, old.well_ordered);
        cx.set_nonempty(true);
    }
}

impl Vector for TimeSortedSched {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        for _ in 0..max {
            let active = self.fill(cx);
            cx.set_nonempty(active || !self.heap.is_empty());
            let Some(Reverse(held)) = self.heap.pop() else {
                if self.stop && !active {
                    cx.request_stop();
                }
                return;
            };
            if let Some(count) = self.held.get_mut(held.input) {
                *count -= 1;
            }
            let at = held.key.0;
            if at != 0 {
                self.well_ordered &= at >= self.last_ns;
                self.last_ns = at;
            }
            out.push(held.packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    const OFF: &str = "InfiniteSource(ACTIVE false) ->";

    fn bench(arguments: &str, streams: [&[u64]; 2]) -> Bench {
        let config = format!(
            "e :: TimeSortedSched({arguments}); {OFF} a :: Queue -> [0] e; {OFF} b :: Queue -> [1] e;"
        );
        let mut bench = Bench::with_config(&config, 0, 1);
        for (queue, times) in ["a", "b"].iter().zip(streams) {
            for &t in times {
                let mut packet = dpdk::Packet::from_bytes(b"x").unwrap();
                packet.set_timestamp_ns(t);
                bench.router().inject(queue, 0, [packet].into_iter().collect());
            }
        }
        bench
    }

    fn times(bench: &mut Bench) -> Vec<u64> {
        bench.pull(0, 99).iter().map(|(_, p)| p.timestamp_ns()).collect()
    }

    #[test]
    fn merges_by_time() {
        let mut b = bench("", [&[1, 4, 5, 9], &[2, 3, 7]]);
        assert_eq!(times(&mut b), [1, 2, 3, 4, 5, 7, 9]);
        assert_eq!(b.read("well_ordered"), "true");
    }

    #[test]
    fn a_buffer_sorts_within_an_input() {
        let mut b = bench("", [&[5, 4], &[]]);
        assert_eq!(times(&mut b), [5, 4]);
        assert_eq!(b.read("well_ordered"), "false");
        let mut b = bench("BUFFER 2", [&[5, 4], &[6]]);
        assert_eq!(times(&mut b), [4, 5, 6]);
        assert!(Bench::error("TimeSortedSched(BUFFER 0)").contains("BUFFER must be at least 1"));
    }

    #[test]
    fn stops_the_driver_at_the_end() {
        let mut b = bench("STOP true", [&[1], &[2]]);
        assert_eq!(times(&mut b).len(), 2);
        for _ in 0..20 {
            b.pull(0, 1);
        }
        assert!(b.router().hub().stop_requests() > 0);
    }
}
