//! # SimpleQueue
//! Stores packets first in, first out, without notifications.
//!
//! ## Synopsis
//! `SimpleQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY` (*unsigned int*, packets, default 1000): how many packets it holds. A packet that arrives
//!   when it is full goes to output 1 if there is one, else it is dropped. The first time this happens the
//!   queue prints `overflow`.
//!
//! ## Ports
//! One push input, one pull output, and an optional push output for packets that arrive when it is full.
//! It sends no notifications: consumers poll it, and sources push to it when it is full.
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
//! InfiniteSource(LIMIT 10, STOP true) -> SimpleQueue(5) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! Queue, NotifierQueue, QuickNoteQueue, ThreadSafeQueue

use super::queue::QueueVariant;
use crate::prelude::*;

/// The kind of `SimpleQueue`.
pub struct Simple;

impl QueueVariant for Simple {
    const CLASS: &'static str = "SimpleQueue";
    const NOTIFY: Notify = Notify::None;
    const MANUAL: &'static str = manual!("queues/simplequeue");
}
