//! The orders of a thread of a crew, and what others see of it.

use super::guest::Guest;
use crate::stall;
use crate::worker::Worker;
use dpdk::Bell;
use locks::IgnorePoison;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;

pub(super) enum Order {
    Enter(u32, Box<Guest>),
    /// The router's worker has a message, or packets from another worker.
    Call(u32),
    /// The router's share is another one.
    Share(u32, u64),
    /// The worker is given back.
    Leave(u32, SyncSender<Box<Worker>>),
    Quit,
}

/// The place where a thread gets its orders.
pub(super) struct Desk {
    pub(super) orders: Mutex<Vec<Order>>,
    pub(super) pending: AtomicBool,
    pub(super) bell: Option<Arc<Bell>>,
    pub(super) thread: OnceLock<Thread>,
    /// How many rounds the thread has begun.
    pub(super) rounds: AtomicU64,
    /// The router that runs, by its number; [`stall::NOBODY`]: none.
    pub(super) runs: AtomicU32,
    /// Cycles in which there was nothing to do, and since when that is so again; 0: there is work.
    pub(super) idle: AtomicU64,
    pub(super) idle_since: AtomicU64,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self {
            orders: Mutex::default(),
            pending: AtomicBool::new(false),
            bell: Bell::new().ok().map(Arc::new),
            thread: OnceLock::new(),
            rounds: AtomicU64::new(0),
            runs: AtomicU32::new(stall::NOBODY),
            idle: AtomicU64::new(0),
            idle_since: AtomicU64::new(0),
        }
    }

    pub(super) fn order(&self, order: Order) {
        // The list is the thread's, whoever adds to it.
        let _nobody = accounts::nobody().enter();
        self.orders.lock().ignore_poison().push(order);
        self.pending.store(true, Ordering::Release);
        self.wake();
    }
    /// Has a router run. One that is to run already is not noted again, so that there are never more of these
    /// than routers, however long the thread does not look.
    pub(super) fn call(&self, router: u32) {
        let _nobody = accounts::nobody().enter();
        let mut orders = self.orders.lock().ignore_poison();
        if !orders.iter().rev().any(|order| matches!(order, Order::Call(other) if *other == router)) {
            orders.push(Order::Call(router));
        }
        drop(orders);
        self.pending.store(true, Ordering::Release);
        self.wake();
    }
    /// Notes whether there is work from now on.
    #[inline]
    pub(super) fn note(&self, work: bool) {
        // One thread writes both.
        let since = self.idle_since.load(Ordering::Relaxed);
        if work && since > 0 {
            let idle = self.idle.load(Ordering::Relaxed) + dpdk::cycles().saturating_sub(since);
            self.idle_since.store(0, Ordering::Relaxed);
            self.idle.store(idle, Ordering::Relaxed);
        } else if !work && since == 0 {
            self.idle_since.store(dpdk::cycles(), Ordering::Relaxed);
        }
    }
    pub(super) fn idle(&self) -> u64 {
        let since = self.idle_since.load(Ordering::Relaxed);
        let this_time = if since > 0 { dpdk::cycles().saturating_sub(since) } else { 0 };
        self.idle.load(Ordering::Relaxed) + this_time
    }
    pub(super) fn wake(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// A handle of a worker that runs on a crew's thread.
pub(crate) struct Lodging {
    pub(super) desk: Arc<Desk>,
    pub(super) router: u32,
}

impl Lodging {
    /// Takes the worker back, so that its elements are dropped on the calling thread. `None` if the thread
    /// has ended.
    pub(crate) fn take_back(&self) -> Option<Box<Worker>> {
        let (give, back) = sync_channel(1);
        self.desk.order(Order::Leave(self.router, give));
        back.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_look_has_each_router_to_run_once() {
        let desk = Desk::new();
        for _ in 0..1000 {
            desk.call(1);
            desk.call(2);
        }
        desk.order(Order::Share(1, 7));
        desk.call(1);
        assert_eq!(desk.orders.lock().ignore_poison().len(), 3);
        assert!(desk.pending.load(Ordering::Relaxed));
        desk.orders.lock().ignore_poison().clear();
        desk.call(1);
        assert_eq!(desk.orders.lock().ignore_poison().len(), 1, "it is to run again");
    }
}
