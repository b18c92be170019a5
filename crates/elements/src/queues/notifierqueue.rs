//! # NotifierQueue
//! Stores packets first in, first out; consumers sleep while it is empty.
//!
//! ## Synopsis
//! `NotifierQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY` (*unsigned int*, packets, default 1000): how many packets it holds. A packet that arrives
//!   when it is full goes to output 1 if there is one, else it is dropped. The first time this happens the
//!   queue prints `overflow`.
//!
//! ## Ports
//! One push input, one pull output, and an optional push output for packets that arrive when it is full.
//! It notifies consumers when it is empty, but does not notify sources when it is full.
//!
//! ## Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): the greatest length so far; with several workers, that of the longest of
//!   their queues.
//! - `config` (read/write): the argument, as `capacity`.
//! - `capacity` (read/write): the `CAPACITY` argument. Packets above a reduced capacity are
//!   dropped, the newest first.
//! - `drops` (read): packets that arrived when it was full.
//! - `reset_counts` (write): sets `drops` to zero and `highwater_length` to the present length.
//! - `reset` (write): empties the queue; its packets go to output 1 if there is one.
//!
//! ## Threads
//! Each worker has its own queue of this capacity. If packets come in on one worker and leave on another
//! (StaticThreadSched), all workers share one lock-free ring of this capacity, and the consumer polls it.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> NotifierQueue(5) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! Queue, SimpleQueue, QuickNoteQueue

use super::queue::QueueVariant;
use crate::prelude::*;

/// The kind of `NotifierQueue`.
pub struct Notifier;

impl QueueVariant for Notifier {
    const CLASS: &'static str = "NotifierQueue";
    const NOTIFY: Notify = Notify::Empty;
    const MANUAL: &'static str = manual!("queues/notifierqueue");
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn sources_do_not_wait_for_room() {
        let mut bench = Bench::with_config(
            "InfiniteSource(DATA a, LIMIT 9) -> e :: NotifierQueue(2) -> u :: Unqueue(ACTIVE false) -> Discard;",
            0,
            0,
        );
        bench.run();
        assert_eq!((bench.read("length"), bench.read("drops")), ("2".into(), "7".into()));
        let mut bench = Bench::with_config(
            "InfiniteSource(DATA a, LIMIT 9) -> e :: Queue(2) -> u :: Unqueue(ACTIVE false) -> Discard;",
            0,
            0,
        );
        bench.run();
        assert_eq!((bench.read("length"), bench.read("drops")), ("2".into(), "0".into()));
        bench.write("u.active", "true");
        bench.run();
        assert_eq!((bench.read("u.count"), bench.read("drops")), ("9".into(), "0".into()));
    }
}
