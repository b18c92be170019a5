//! # Unqueue2
//! Pulls packets and pushes them on, no more than the queues downstream can hold.
//!
//! ## Synopsis
//! `Unqueue2([BURST, QUEUES])`
//!
//! ## Arguments
//! - `BURST` (*int*, packets, default 1): the most packets in one task run, but at least a batch
//!   (`valiant run --burst`); 0 means as many as there are. A run never moves more than 65,536, so that other
//!   tasks run too.
//! - `QUEUES` (keyword; element names separated by spaces): the queues that must have room for what is
//!   pulled. Default: the nearest ones downstream.
//!
//! ## Ports
//! One pull input, one push output. It pulls no more packets than the fullest of the queues has places free,
//! and sleeps while that is none, or the input is empty.
//!
//! ## Handlers
//! - `count` (read): packets moved.
//! - `packets` (read): the same, as `N packets` and a line end.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! Each worker has its own instance, which looks at the worker's own queues and at those that all workers
//! share.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> Queue -> Unqueue2(4) -> Queue(5) -> Idle;
//! ```
//!
//! ## See also
//! Unqueue, RatedUnqueue, BandwidthRatedUnqueue, Queue

use super::engine::store::Depth;
use crate::prelude::*;
use lang::args::Raw;
use runtime::Side;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets that all workers have moved.
#[derive(Default)]
struct Moved(AtomicU64);

/// The `Unqueue2` element.
pub struct Unqueue2 {
    burst: usize,
    queues: Vec<Arc<Depth>>,
    /// Whether `QUEUES` chose them: then they may be anywhere, and do not wake this task.
    chosen: bool,
    moved: Arc<Moved>,
}

impl Element for Unqueue2 {
    const CLASS: &'static str = "Unqueue2";
    const PROCESSING: &'static str = "l/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("queues/unqueue2");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let burst = args.p_or::<i32>("BURST", 1)?;
        let names = args.k::<Raw>("QUEUES")?;
        let mut queues = Vec::new();
        for name in names.iter().flat_map(|n| n.0.split_whitespace()) {
            let depth = cx.find(name).and_then(|id| cx.shared_by::<Depth>(id));
            queues.push(depth.ok_or_else(|| args.error("bad QUEUES"))?);
        }
        if names.is_none() {
            let found = cx.nearest(Side::Downstream, 0, |id| cx.shared_by::<Depth>(id).is_some());
            queues = found.into_iter().filter_map(|id| cx.shared_by(id)).collect();
        }
        let burst = usize::try_from(burst).unwrap_or(0);
        Ok(Self {
            burst: if burst == 0 { usize::MAX } else { burst },
            queues,
            chosen: names.is_some(),
            moved: cx.shared(Moved::default),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read("count", |m: &Moved, _| Ok(m.0.load(Ordering::Relaxed).to_string()));
        h.shared_read("packets", |m: &Moved, _| Ok(format!("{} packets\n", m.0.load(Ordering::Relaxed))));
        h.task();
        h.listed(&["packets", "scheduled", "tickets", "home_thread"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let worker = cx.worker().0;
        let room = self.queues.iter().map(|q| q.room(worker)).min().unwrap_or(usize::MAX);
        if room == 0 {
            if self.chosen || cx.downstream_room(0) {
                cx.reschedule();
            }
            return false;
        }
        let wanted = self.burst.max(cx.batch_size()).min(room);
        let mut moved = 0;
        while moved < wanted && cx.may_go_on(moved) {
            let mut batch = cx.spare_batch();
            let most = cx.batch_size().min(wanted - moved);
            let n = cx.lend(self, |cx| cx.pull(0, most, &mut batch));
            cx.output_batch(0, batch);
            if n == 0 {
                break;
            }
            moved += n;
            cx.flush_lending(self);
        }
        if moved > 0 {
            self.moved.0.fetch_add(moved as u64, Ordering::Relaxed);
        }
        if moved > 0 || cx.upstream_active(0) {
            cx.reschedule();
        }
        moved > 0
    }
}

impl Vector for Unqueue2 {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn moves_what_the_fullest_queue_holds() {
        let config = "InfiniteSource(DATA a, LIMIT 50) -> in :: Queue -> e :: Unqueue2 -> t :: Tee;
            t [0] -> a :: Queue(9) -> Idle; t [1] -> b :: Queue(4) -> u :: Unqueue(ACTIVE false) -> Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.run();
        let all = |bench: &mut Bench| {
            ["count", "a.length", "b.length", "in.length", "a.drops", "b.drops"].map(|h| bench.read(h))
        };
        assert_eq!(all(&mut bench), ["4", "4", "4", "46", "0", "0"]);
        assert_eq!(bench.read("packets"), "4 packets\n");
        // It goes on when there is room again.
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(all(&mut bench), ["9", "9", "0", "41", "0", "0"]);
        bench.write("a.capacity", "12");
        bench.run();
        assert_eq!(all(&mut bench), ["12", "12", "0", "38", "0", "0"]);
    }

    #[test]
    fn queues_may_be_chosen() {
        let config = "InfiniteSource(DATA a, LIMIT 50) -> Queue -> e :: Unqueue2(0, QUEUES far) -> q :: Queue(7) -> Idle;
            Idle -> far :: Queue(20) -> Idle;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.run();
        assert_eq!((bench.read("count"), bench.read("q.drops")), ("50".into(), "43".into()));
        assert!(Bench::error("Unqueue2(QUEUES nobody)").contains("bad QUEUES"));
        assert!(Bench::error("Unqueue2(QUEUES e)").contains("bad QUEUES"));
    }

    #[test]
    fn sleeps_without_packets_and_wakes_with_them() {
        let mut bench = Bench::with_config("e :: Queue -> u :: Unqueue2 -> c :: Counter -> Discard;", 1, 0);
        bench.run();
        assert_eq!(bench.read("u.scheduled"), "false");
        bench.push(0, b"x");
        bench.run();
        assert_eq!((bench.read("c.count"), bench.read("u.count")), ("1".into(), "1".into()));
    }
}
