//! # QuickNoteQueue
//! Stores packets first in, first out; consumers sleep as soon as it is empty.
//!
//! ## Synopsis
//! `QuickNoteQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY` (*unsigned int*, packets, default 1000): how many packets it holds. A packet that arrives
//!   when it is full goes to output 1 if there is one, else it is dropped. The first time this happens the
//!   queue prints `overflow`.
//!
//! ## Ports
//! One push input, one pull output, and an optional push output for packets that arrive when it is full.
//! Consumers sleep while it is empty and sources that support notification while it is full. Unlike Queue it
//! counts as empty with the pull that takes its last packet, which suits consumers that wait rather than
//! poll.
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
//! InfiniteSource(LIMIT 10, STOP true) -> QuickNoteQueue(5) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! Queue, NotifierQueue, SimpleQueue

use super::queue::QueueVariant;
use crate::prelude::*;

/// The kind of `QuickNoteQueue`.
pub struct Quick;

impl QueueVariant for Quick {
    const CLASS: &'static str = "QuickNoteQueue";
    const NOTIFY: Notify = Notify::EmptyAndFull;
    const PATIENCE: u8 = 0;
    const MANUAL: &'static str = manual!("queues/quicknotequeue");
}
