//! # ToDPDKRing
//! Puts packets into a ring, which a FromDPDKRing of the same configuration empties.
//!
//! FastClick's. There, the ring may also lead to another process of DPDK; here it cannot, because no other
//! process sees Valiant's memory: two routers are connected by memif (`net_memif`).
//!
//! ## Synopsis
//! `ToDPDKRing(MEM_POOL, FROM_PROC, TO_PROC [, BURST, NDESC, IQUEUE, BLOCKING, FORCE_LOOKUP, FORCE_CREATE, ...])`
//!
//! ## Arguments
//! - `MEM_POOL` (*word*): accepted; packets keep their buffers.
//! - `FROM_PROC`, `TO_PROC` (*string*): names of this end and of the other one. The ring is called
//!   `FROM_PROC_2_TO_PROC`.
//! - `FORCE_LOOKUP` (*bool*, default false): whether the other end makes the ring; then its name is
//!   `TO_PROC_2_FROM_PROC`, as the other end calls it. One end makes a ring, and the other looks it up.
//! - `FORCE_CREATE` (*bool*, default false): makes the ring in any case.
//! - `NDESC` (*int*, packets, at most 1048576, default 1024): how many packets the ring holds: that of the
//!   end that makes it, which a hot swap does not change.
//! - `IQUEUE` (*int*, packets, default 1024): how many packets may wait here while the ring is full.
//! - `BLOCKING` (*bool*, default false): if that many wait, whether to try for a while before further packets
//!   are dropped.
//! - `BURST`, `TIMEOUT`, `NUMA_ZONE`, `SP_ENQ`, `SC_DEQ`: without effect: packets are put in at once.
//!
//! ## Ports
//! One push input, no output.
//!
//! ## Handlers
//! - `n_sent`, `count` (read): packets put into the ring.
//! - `n_dropped`, `dropped` (read): packets dropped.
//! - `waiting` (read): packets that wait for room in the ring.
//!
//! ## Threads
//! All workers put packets into the same ring, which is locked once for each batch. When half of the room for
//! waiting packets is taken, sources upstream that support notification leave packets where they are.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5) -> ToDPDKRing(MEM_POOL 1, FROM_PROC a, TO_PROC b);
//! FromDPDKRing(MEM_POOL 1, FROM_PROC b, TO_PROC a, FORCE_LOOKUP true) -> Discard;
//! ```
//!
//! ## See also
//! FromDPDKRing, Queue, ToDPDKDevice

use super::engine::namedring::{self, RingSlot};
use crate::prelude::*;
use lang::args::Raw;
use std::sync::Arc;

/// How often a blocking end tries again before it drops packets.
const TRIES: usize = 1000;

/// The `ToDPDKRing` element.
pub struct ToDpdkRing {
    ring: RingSlot,
    waiting: Batch,
    room: usize,
    blocking: bool,
    sent: Counter,
    dropped: Counter,
}

impl Element for ToDpdkRing {
    const CLASS: &'static str = "ToDPDKRing";
    const PORTS: &'static str = "1/0";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Full;
    const READS: Fields = Fields::DATA.with(Fields::ANNOTATIONS);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::QUEUE_FULL.when("the ring is full, and so is the room for packets that wait for it")];
    const MANUAL: &'static str = manual!("devices/todpdkring");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ends = namedring::configure(args, cx)?;
        let room = args.k_or::<u32>("IQUEUE", 1024)? as usize;
        cx.holds(room);
        let blocking = args.k_or("BLOCKING", false)?;
        args.k::<Raw>("TIMEOUT")?;
        let (sent, dropped) = (Counter::new(), Counter::new());
        Ok(Self { ring: ends.ring, waiting: Batch::new(), room, blocking, sent, dropped })
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["n_sent", "count"] {
            h.counter(name, |e| &e.sent);
        }
        for name in ["n_dropped", "dropped"] {
            h.counter(name, |e| &e.dropped);
        }
        h.sum("waiting", |e| e.waiting.len() as u64);
        h.listed(&["n_sent", "n_dropped"]);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let n = self.put(cx);
        self.look_again(cx);
        n > 0
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.sent.set(old.sent.get());
        self.dropped.set(old.dropped.get());
        self.waiting.append(&mut old.waiting);
        cx.reschedule_here();
    }
}

impl ToDpdkRing {
    /// Puts what waits into the ring, as far as there is room.
    fn put(&mut self, cx: &mut Cx<'_>) -> usize {
        let Some(ring) = self.ring.get().map(Arc::clone) else { return 0 };
        let n = ring.put(&mut self.waiting);
        self.sent.add(n as u64);
        if n > 0
            && let Some(worker) = ring.taker().filter(|worker| *worker != cx.worker())
        {
            cx.wake(worker);
        }
        n
    }

    fn look_again(&self, cx: &mut Cx<'_>) {
        cx.set_full(2 * self.waiting.len() > self.room);
        if !self.waiting.is_empty() {
            cx.reschedule();
        }
    }
}

impl Vector for ToDpdkRing {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.waiting.append(&mut batch);
        cx.recycle(batch);
        self.put(cx);
        // If the same worker empties the ring, it cannot do so meanwhile.
        let elsewhere = self.ring.get().and_then(|ring| ring.taker()).is_some_and(|w| w != cx.worker());
        let tries = if self.blocking && elsewhere && self.waiting.len() > self.room { TRIES } else { 0 };
        for _ in 0..tries {
            std::hint::spin_loop();
            self.put(cx);
            if self.waiting.len() <= self.room {
                break;
            }
        }
        if self.waiting.len() > self.room {
            let excess = self.waiting.split_off(self.room);
            self.dropped.add(excess.len() as u64);
            cx.count_overflow(excess.len());
            cx.drop_batch(excess, drops::QUEUE_FULL);
        }
        self.look_again(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn what_a_ring_and_its_room_do_not_hold_is_dropped() {
        let config = "e :: ToDPDKRing(1, a, b, NDESC 3, IQUEUE 2);
            f :: FromDPDKRing(1, b, a, FORCE_LOOKUP true, ACTIVE false) -> c :: Counter -> Discard;";
        let mut bench = Bench::with_config(config, 1, 0);
        for n in 0..7 {
            bench.push(0, &[n]);
        }
        assert_eq!((bench.read("n_sent"), bench.read("waiting")), ("3".into(), "2".into()));
        assert_eq!(bench.drops(), [("queue full".to_owned(), 2)]);
        bench.write("f.active", "true");
        bench.turns(200);
        assert_eq!((bench.read("c.count"), bench.read("count")), ("5".into(), "5".into()));
    }

    #[test]
    fn whoever_makes_a_ring_says_how_long_it_is() {
        let config = "e :: ToDPDKRing(1, b, a, FORCE_LOOKUP true, NDESC 1000, IQUEUE 2);
            f :: FromDPDKRing(1, a, b, NDESC 3, ACTIVE false) -> Discard;";
        let mut bench = Bench::with_config(config, 1, 0);
        for n in 0..7 {
            bench.push(0, &[n]);
        }
        assert_eq!((bench.read("n_sent"), bench.read("waiting")), ("3".into(), "2".into()));
    }

    #[test]
    fn rings_have_one_maker_and_both_ends_here() {
        let error = Bench::error("ToDPDKRing(1, a)");
        assert!(error.contains("Enter FROM_PROC and TO_PROC names"), "{error}");
        let error = Bench::error("ToDPDKRing(1, a, b, FORCE_LOOKUP true)");
        assert!(error.contains("no element makes the ring b_2_a; rings between processes"), "{error}");
        let error = Bench::error("ToDPDKRing(1, a, b); Idle -> e; FromDPDKRing(1, a, b) -> Discard");
        assert!(error.contains("e makes the ring a_2_b too; use FORCE_LOOKUP"), "{error}");
    }
}
