//! # ThreadSafeQueue
//! Stores packets first in, first out, for any number of workers on both sides.
//!
//! ## Synopsis
//! `ThreadSafeQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY` (*unsigned int*, packets, default 1000): how many packets it holds. A packet that arrives
//!   when it is full goes to output 1 if there is one, else it is dropped. The first time this happens the
//!   queue prints `overflow`.
//!
//! ## Ports
//! One push input, one pull output, and an optional push output for packets that arrive when it is full.
//! Consumers sleep while it is empty, sources that support notification sleep while it is full.
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
//! All workers share one queue, a bounded lock-free ring, of this capacity: a packet that one worker pushes
//! may be pulled by any. Packets of one flow may therefore leave on several workers at once; Queue keeps them
//! on theirs.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> ThreadSafeQueue(5) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! Queue, SimpleQueue, StaticThreadSched

use super::queue::QueueVariant;
use crate::prelude::*;

/// The kind of `ThreadSafeQueue`.
pub struct ThreadSafe;

impl QueueVariant for ThreadSafe {
    const CLASS: &'static str = "ThreadSafeQueue";
    const NOTIFY: Notify = Notify::EmptyAndFull;
    const COMMON: bool = true;
    const MANUAL: &'static str = manual!("queues/threadsafequeue");
}
