//! # MixedQueue
//! Stores packets that come in at the back or at the front.
//!
//! ## Synopsis
//! `MixedQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY` (*unsigned int*, packets, default 1000): how many packets it holds. A packet on input 0 that
//!   finds it full is rejected; a packet on input 1 that finds it full takes the place of the last one.
//!   Rejected packets go to output 1 if there is one, else they are dropped.
//!
//! ## Ports
//! Two push inputs: packets from input 0 leave first in, first out; packets from input 1 overtake all others,
//! last in, first out. One pull output, and an optional push output for packets that arrive when it is full.
//! Consumers sleep while it is empty; sources push to it when it is full.
//!
//! ## Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): the greatest length so far; with several workers, that of the longest of
//!   their queues.
//! - `config` (read/write): the argument, as `capacity`.
//! - `capacity` (read/write): the `CAPACITY` argument. Packets above a reduced capacity are
//!   dropped, the last first.
//! - `drops` (read): packets that were rejected because it was full.
//! - `reset_counts` (write): sets `drops` to zero and `highwater_length` to the present length.
//! - `reset` (write): empties the queue; its packets go to output 1 if there is one.
//!
//! ## Threads
//! Each worker has its own queue of this capacity. If packets come in on one worker and leave on another, all
//! workers share one queue under a lock.
//!
//! ## Example
//! ```click
//! q :: MixedQueue(5);
//! InfiniteSource(LIMIT 10, STOP true) -> [0] q;
//! Idle -> [1] q;
//! q -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! Queue, FrontDropQueue

use super::engine::store::{self, Ends, PATIENCE, Queueing, Store};
use crate::prelude::*;

/// The `MixedQueue` element.
pub struct MixedQueue {
    store: Store,
}

impl Element for MixedQueue {
    const CLASS: &'static str = "MixedQueue";
    const PORTS: &'static str = "2/1-2";
    const PROCESSING: &'static str = "h/lh";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Empty;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        drops::QUEUE_FULL.when("there was no room for the packet, or it had to make room for one of input 1"),
        drops::RESET_BY_HANDLER,
        drops::SHORTENED_BY_HANDLER,
    ];
    const MANUAL: &'static str = manual!("queues/mixedqueue");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { store: Store::from_args(args, cx, Ends::Both, false)? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        store::handlers(h);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.store.take_state(&mut old.store, false, cx);
    }
}

impl Queueing for MixedQueue {
    fn store(&mut self) -> &mut Store {
        &mut self.store
    }
}

impl Vector for MixedQueue {
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let capacity = self.store.capacity();
        self.store.place_each(batch, cx, |deque, packet| {
            let full = deque.len() >= capacity;
            if capacity == 0 || (full && port == 0) {
                return Some(packet);
            }
            if port == 0 {
                deque.push_back(packet);
                return None;
            }
            let last = full.then(|| deque.pop_back()).flatten();
            deque.push_front(packet);
            last
        });
    }

    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let got = self.store.take(max, out, cx);
        self.store.pulled(got, PATIENCE, cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_come_in_at_both_ends() {
        let mut bench = Bench::with_ports("MixedQueue", 2, 1);
        for (port, byte) in [(0, b'A'), (0, b'B'), (1, b'C'), (0, b'D'), (1, b'E')] {
            bench.push(port, &[byte]);
        }
        let got: Vec<u8> = bench.pull(0, 9).iter().map(|(_, p)| p.data()[0]).collect();
        assert_eq!(got, b"ECABD");
    }

    #[test]
    fn when_full_the_back_loses() {
        let mut bench = Bench::with_ports("MixedQueue(2)", 2, 1);
        for (port, byte) in [(0, b'A'), (0, b'B'), (0, b'C'), (1, b'D')] {
            bench.push(port, &[byte]);
        }
        assert_eq!((bench.read("length"), bench.read("drops")), ("2".into(), "2".into()));
        let got: Vec<u8> = bench.pull(0, 9).iter().map(|(_, p)| p.data()[0]).collect();
        assert_eq!(got, b"DA");
    }
}
