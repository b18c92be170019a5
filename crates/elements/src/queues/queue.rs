//! # Queue
//! Stores packets first in, first out, between a push path and a pull path.
//!
//! ## Synopsis
//! `Queue([CAPACITY])`
//!
//! `FullNoteQueue` is an older name of the same class.
//!
//! ## Arguments
//! - `CAPACITY` (*unsigned int*, packets, default 1000): how many packets it holds. A packet that arrives
//!   when it is full goes to output 1 if there is one, else it is dropped. The first time this happens the
//!   queue prints `overflow`. A queue between workers holds at most 16777216, and takes 16 bytes for each
//!   place.
//!
//! ## Ports
//! One push input, one pull output, and an optional push output for packets that arrive when it is full.
//! Consumers sleep while the queue is empty, sources that support notification sleep while it is full. With
//! batches of one it takes a few pulls that find nothing before the queue counts as empty, as in Click; see
//! QuickNoteQueue for one without that patience.
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
//! (StaticThreadSched), all workers share one lock-free ring of this capacity, and the consumer polls it. A
//! change of capacity moves the packets to another ring; those that workers push or pull at that moment may
//! change places with them.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> q :: Queue(5) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! SimpleQueue, NotifierQueue, QuickNoteQueue, ThreadSafeQueue, FrontDropQueue, MixedQueue, Unqueue, RED

use super::engine::store::{self, Ends, PATIENCE, Queueing, Store};
use crate::prelude::*;
use std::marker::PhantomData;

/// The differences between the first-in first-out queues.
pub trait QueueVariant: Send + 'static {
    /// The class name.
    const CLASS: &'static str;
    /// Its notifications to neighbors.
    const NOTIFY: Notify;
    /// The number of empty pulls after which it counts as empty.
    const PATIENCE: u8 = PATIENCE;
    /// See [`Element::ROLE`].
    const ROLE: Role = Role::Ordinary;
    /// Whether all workers share it.
    const COMMON: bool = false;
    /// The manual.
    const MANUAL: &'static str;
}

/// The kind of `Queue` itself.
pub struct Full;

impl QueueVariant for Full {
    const CLASS: &'static str = "Queue";
    const NOTIFY: Notify = Notify::EmptyAndFull;
    const ROLE: Role = Role::Queue;
    const MANUAL: &'static str = manual!("queues/queue");
}

/// The first-in first-out queues: `Queue`, `SimpleQueue`, `NotifierQueue`, `QuickNoteQueue`,
/// `ThreadSafeQueue`.
pub struct Queue<K = Full> {
    store: Store,
    kind: PhantomData<fn() -> K>,
}

impl<K: QueueVariant> Element for Queue<K> {
    const CLASS: &'static str = K::CLASS;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/lh";
    const SHARING: Sharing = if K::COMMON { Sharing::Shared } else { Sharing::PerWorker };
    const NOTIFY: Notify = K::NOTIFY;
    // Elements that use a queue's length look for it when they are configured.
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        drops::QUEUE_FULL.when("there was no room for the packet"),
        drops::RESET_BY_HANDLER,
        drops::SHORTENED_BY_HANDLER,
    ];
    const ROLE: Role = K::ROLE;
    const MANUAL: &'static str = K::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { store: Store::from_args(args, cx, Ends::One, K::COMMON)?, kind: PhantomData })
    }

    fn handlers(h: &mut Handlers<Self>) {
        store::handlers(h);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.store.take_state(&mut old.store, false, cx);
    }
}

impl<K: QueueVariant> Queueing for Queue<K> {
    fn store(&mut self) -> &mut Store {
        &mut self.store
    }
}

impl<K: QueueVariant> Vector for Queue<K> {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.store.append(&mut batch, cx);
        self.store.pushed(cx);
        for packet in batch.drain(..) {
            self.store.overflow(cx);
            cx.fail(packet, drops::QUEUE_FULL);
        }
        cx.recycle(batch);
    }

    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let got = self.store.take(max, out, cx);
        self.store.pulled(got, K::PATIENCE, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::store::BEFORE_PUSH;
    use crate::testing::Bench;
    use dpdk::Packet;
    use std::sync::Arc;
    use tables::ring::Ring;

    fn bytes(packets: Vec<(usize, dpdk::Packet)>) -> Vec<u8> {
        packets.iter().map(|(_, p)| p.data()[0]).collect()
    }

    #[test]
    fn what_comes_in_and_what_is_pulled_is_counted_apart() {
        let mut bench = Bench::with_ports("Queue(8)", 1, 1);
        for byte in 0..3u8 {
            bench.push(0, &[byte]);
        }
        assert_eq!(bench.pull(0, 2).len(), 2);
        assert_eq!((bench.read("icounts").trim(), bench.read("ocounts").trim()), ("3", "2"));
    }

    #[test]
    fn keeps_order_and_drops_at_capacity() {
        for class in
            ["Queue", "FullNoteQueue", "SimpleQueue", "NotifierQueue", "QuickNoteQueue", "ThreadSafeQueue"]
        {
            let mut bench = Bench::with_ports(&format!("{class}(2)"), 1, 1);
            for byte in 1..=3u8 {
                assert!(bench.push(0, &[byte]).is_empty());
            }
            assert_eq!(bench.read("length"), "2");
            assert_eq!(bench.read("capacity"), "2");
            assert_eq!(bench.read("drops"), "1");
            assert_eq!(bench.read("highwater_length"), "2");
            assert_eq!(bench.drops(), [("queue full".to_owned(), 1)]);
            assert_eq!(bytes(bench.pull(0, 5)), [1, 2], "{class}");
            assert_eq!(bench.read("length"), "0");
        }
    }

    #[test]
    fn overflow_goes_to_output_1() {
        let config = "e :: Queue(1); e[1] -> c :: Counter -> Discard;";
        let mut bench = Bench::with_config(config, 1, 1);
        bench.push(0, b"a");
        bench.push(0, b"b");
        assert_eq!(bench.read("c.count"), "1");
        assert!(bench.drops().is_empty());
        bench.write("reset", "");
        assert_eq!(bench.read("c.count"), "2");
        assert_eq!(bench.read("length"), "0");
    }

    #[test]
    fn capacity_changes_while_it_runs() {
        let mut bench = Bench::with_ports("Queue(5)", 1, 1);
        (1..=4u8).for_each(|b| drop(bench.push(0, &[b])));
        bench.write("capacity", "2");
        assert_eq!(bench.read("length"), "2");
        assert_eq!(bytes(bench.pull(0, 5)), [1, 2]);
        bench.write("capacity", "3");
        (1..=4u8).for_each(|b| drop(bench.push(0, &[b])));
        assert_eq!(bench.read("length"), "3");
        assert!(bench.try_write("capacity", "many").is_err());
        bench.write("reset_counts", "");
        assert_eq!((bench.read("drops"), bench.read("highwater_length")), ("0".into(), "3".into()));
    }

    #[test]
    fn capacity_zero_holds_nothing() {
        let mut bench = Bench::with_config(
            "InfiniteSource(DATA a, LIMIT 3) -> e :: Queue(0) -> Unqueue -> Discard;",
            0,
            0,
        );
        bench.run();
        assert_eq!((bench.read("length"), bench.read("drops")), ("0".into(), "3".into()));
    }

    #[test]
    fn workers_share_a_thread_safe_queue() {
        let mut bench = Bench::workers("e :: ThreadSafeQueue(4);", 2, 1, 1);
        (1..=5u8).for_each(|b| drop(bench.push(0, &[b])));
        assert_eq!(bench.read("length"), "4");
        assert_eq!(bench.read("drops"), "1");
        // The sink pulls on both workers, two packets each.
        assert_eq!(bytes(bench.pull(0, 2)), [1, 2, 3, 4]);
        assert_eq!(bench.read("length"), "0");
        bench.write("capacity", "2");
        (1..=5u8).for_each(|b| drop(bench.push(0, &[b])));
        assert_eq!(bench.read("length"), "2");
        bench.write("capacity", "9");
        (6..=9u8).for_each(|b| drop(bench.push(0, &[b])));
        assert_eq!(bytes(bench.pull(0, 9)), [1, 2, 6, 7, 8, 9]);
    }

    #[test]
    fn a_queue_between_workers_keeps_to_every_capacity() {
        let mut bench = Bench::workers("e :: ThreadSafeQueue(4);", 2, 1, 1);
        for (capacity, held) in [(0, 0), (1, 1), (0, 0), (3, 3), (1000, 8)] {
            bench.write("capacity", &capacity.to_string());
            bench.pull(0, 99);
            (1..=8u8).for_each(|b| drop(bench.push(0, &[b])));
            assert_eq!(
                (bench.read("capacity"), bench.read("length")),
                (capacity.to_string(), held.to_string())
            );
        }
        let error = bench.try_write("capacity", "4294967295").unwrap_err().to_string();
        assert!(error.contains("a queue between workers holds at most 16777216 packets"), "{error}");
        assert_eq!((bench.read("capacity"), bench.read("length")), ("1000".into(), "8".into()));
        assert_eq!(bytes(bench.pull(0, 8)), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn what_is_pushed_while_another_worker_changes_the_capacity_is_not_left_behind() {
        thread_local! {
            static RING: std::cell::RefCell<Option<Arc<Ring<Packet>>>> = const { std::cell::RefCell::new(None) };
        }
        let mut bench = Bench::workers("e :: ThreadSafeQueue(4);", 2, 1, 1);
        bench.push(0, &[1]);
        BEFORE_PUSH.set(Some(|common| RING.set(Some(common.replace(9)))));
        bench.push(0, &[2]);
        // The pushing worker does nothing any more: packets that it left in the old ring would not be found.
        let found = RING.with_borrow(|ring| ring.as_ref().map(|ring| ring.len()));
        assert_eq!(found, Some(2));
        assert_eq!(bytes(bench.pull(0, 9)), [1, 2]);
    }

    #[test]
    fn packets_stay_over_a_hot_swap() {
        let config = |source: &str, queue: &str| {
            format!(
                "s :: InfiniteSource(DATA a, {source}) -> e :: {queue} -> u :: Unqueue(ACTIVE false) -> Discard;"
            )
        };
        for workers in [1, 2] {
            for class in ["Queue", "ThreadSafeQueue"] {
                let options = runtime::Options { hotswap: true, workers, ..runtime::Options::default() };
                let first = config("LIMIT 5", &format!("{class}(1000)"));
                let mut bench = runtime::testing::Bench::with(&crate::registry(), &first, 0, 0, options);
                bench.run();
                let before = bench.read("length");
                assert_ne!(before, "0");
                bench
                    .router()
                    .write("hotconfig", &config("ACTIVE false", &format!("{class}(1000)")))
                    .unwrap();
                assert_eq!(bench.read("length"), before, "same capacity, {class}, {workers} workers");
                bench.router().write("hotconfig", &config("ACTIVE false", &format!("{class}(3)"))).unwrap();
                let kept: u64 = bench.read("length").parse().unwrap();
                assert!(
                    (3..=3 * workers as u64).contains(&kept),
                    "smaller capacity, {class}, {workers} workers: {kept}"
                );
                bench.write("u.active", "true");
                bench.run();
                assert_eq!(bench.read("u.count"), kept.to_string());
                assert_eq!(bench.read("length"), "0");
            }
        }
    }

    #[test]
    fn a_queue_between_two_workers_is_one_queue() {
        // A link has one worker, so packets from all others change workers in the queue.
        let config = "s :: InfiniteSource(DATA a, LIMIT 20) -> e :: Queue -> LinkUnqueue(0, 1GBps) -> c :: Counter -> Discard;";
        let mut bench = Bench::workers(config, 2, 0, 0);
        for _ in 0..50 {
            bench.run();
        }
        assert_eq!(bench.read("c.count"), bench.read("s.count"));
        assert!(bench.read("c.count").parse::<u64>().unwrap() >= 20);
        assert_eq!((bench.read("length"), bench.read("drops")), ("0".into(), "0".into()));
    }
}
