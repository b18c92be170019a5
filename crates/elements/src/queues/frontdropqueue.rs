//! # FrontDropQueue
//! Stores packets first in, first out; when it is full the oldest packet makes room for the new one.
//!
//! ## Synopsis
//! `FrontDropQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY` (*unsigned int*, packets, default 1000): how many packets it holds. A packet that finds it
//!   full takes the place of the oldest one, which goes to output 1 if there is one, else it is dropped.
//!
//! ## Ports
//! One push input, one pull output, and an optional push output for packets that had to make room.
//! Consumers sleep while it is empty; sources push to it when it is full.
//!
//! ## Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): the greatest length so far; with several workers, that of the longest of
//!   their queues.
//! - `config` (read/write): the argument, as `capacity`.
//! - `capacity` (read/write): the `CAPACITY` argument. Packets above a reduced capacity are
//!   dropped, the oldest first.
//! - `drops` (read): packets that were removed because it was full.
//! - `reset_counts` (write): sets `drops` to zero and `highwater_length` to the present length.
//! - `reset` (write): empties the queue; its packets go to output 1 if there is one.
//!
//! ## Threads
//! Each worker has its own queue of this capacity. If packets come in on one worker and leave on another, all
//! workers share one queue under a lock.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> FrontDropQueue(5) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! Queue, MixedQueue

use super::engine::store::{self, Ends, PATIENCE, Queueing, Store};
use crate::prelude::*;

/// The `FrontDropQueue` element.
pub struct FrontDropQueue {
    store: Store,
}

impl Element for FrontDropQueue {
    const CLASS: &'static str = "FrontDropQueue";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/lh";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Empty;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        drops::QUEUE_FULL.when("the packet was the oldest and made room for a new one"),
        drops::RESET_BY_HANDLER,
        drops::SHORTENED_BY_HANDLER,
    ];
    const MANUAL: &'static str = manual!("queues/frontdropqueue");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { store: Store::from_args(args, cx, Ends::Both, false)? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        store::handlers(h);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.store.take_state(&mut old.store, true, cx);
    }
}

impl Queueing for FrontDropQueue {
    const NEWEST: bool = true;
    fn store(&mut self) -> &mut Store {
        &mut self.store
    }
}

impl Vector for FrontDropQueue {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let capacity = self.store.capacity();
        self.store.place_each(batch, cx, |deque, packet| {
            let oldest = (deque.len() >= capacity).then(|| deque.pop_front()).flatten();
            if capacity == 0 {
                return Some(packet);
            }
            deque.push_back(packet);
            oldest
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
    fn the_oldest_makes_room() {
        let mut bench = Bench::with_ports("FrontDropQueue(2)", 1, 1);
        (1..=5u8).for_each(|b| drop(bench.push(0, &[b])));
        assert_eq!((bench.read("length"), bench.read("drops")), ("2".into(), "3".into()));
        let got: Vec<u8> = bench.pull(0, 5).iter().map(|(_, p)| p.data()[0]).collect();
        assert_eq!(got, [4, 5]);
    }

    #[test]
    fn a_smaller_capacity_keeps_the_newest() {
        let mut bench = Bench::with_ports("FrontDropQueue", 1, 1);
        (1..=5u8).for_each(|b| drop(bench.push(0, &[b])));
        bench.write("capacity", "2");
        let got: Vec<u8> = bench.pull(0, 5).iter().map(|(_, p)| p.data()[0]).collect();
        assert_eq!(got, [4, 5]);
        assert_eq!(bench.read("length"), "0");
    }
}
