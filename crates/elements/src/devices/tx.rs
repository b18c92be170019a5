//! The sending side of a port, which `ToDevice` and `ToDPDKDevice` are two names for.

use crate::prelude::*;
use dpdk::{PortState, TxQueue};
use runtime::PortSlot;

/// One worker's transmit queue of a port, with a queue of its own for what the device does not take at once.
pub(crate) struct Sender {
    port: PortSlot,
    queue: u16,
    tx: Option<TxQueue>,
    /// What waits for room in the device.
    waiting: Batch,
    /// How much may wait.
    pub(crate) room: usize,
    /// Largest pull, in packets.
    pub(crate) burst: usize,
    /// Whether to wait for the device rather than drop.
    pub(crate) blocking: bool,
    pub(crate) count: Counter,
    pub(crate) dropped: Counter,
    lost: u64,
}

/// How often a blocking sender tries again before it gives the packets up: a device that has stopped must not stop the
/// worker.
const TRIES: usize = 1000;

impl Sender {
    pub(crate) fn new(port: PortSlot, queue: u16, burst: usize, room: usize, blocking: bool) -> Self {
        let waiting = Batch::with_capacity(burst);
        Self {
            port,
            queue,
            tx: None,
            waiting,
            room,
            burst,
            blocking,
            count: Counter::new(),
            dropped: Counter::new(),
            lost: 0,
        }
    }

    /// Sends what waits, as far as the device takes it.
    fn send(&mut self, cx: &mut Cx<'_>) -> usize {
        if self.tx.is_none() {
            // Several elements may send to one port: the port has as many queues as all of them want.
            let own = |port: &std::sync::Arc<dpdk::Port>| port.tx_queue(self.queue).ok();
            self.tx = self.port.get().and_then(|port| own(port).or_else(|| port.free_tx_queue()));
        }
        let Some(tx) = self.tx.as_mut() else { return 0 };
        let sent = tx.tx_burst(&mut self.waiting);
        if tx.lost() != self.lost {
            self.dropped.add(tx.lost() - self.lost);
            cx.count_drops(tx.lost() - self.lost, "longer than the port's buffers");
            self.lost = tx.lost();
        }
        self.count.add(sent as u64);
        sent
    }

    fn is_gone(&self) -> bool {
        self.port.get().is_none_or(|port| port.state() == PortState::Gone)
    }

    /// Sends a vector. What finds no room waits, and what may not wait is dropped.
    pub(crate) fn push(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        if self.waiting.is_empty() {
            std::mem::swap(&mut self.waiting, &mut batch);
        } else {
            self.waiting.append(&mut batch);
        }
        cx.recycle(batch);
        self.send(cx);
        if self.waiting.is_empty() {
            return;
        }
        for _ in 0..if self.blocking && self.waiting.len() > self.room { TRIES } else { 0 } {
            std::hint::spin_loop();
            self.send(cx);
            if self.waiting.len() <= self.room {
                break;
            }
        }
        let gone = self.is_gone();
        let keep = if gone { 0 } else { self.room };
        if self.waiting.len() > keep {
            let excess = self.waiting.split_off(keep);
            self.dropped.add(excess.len() as u64);
            cx.drop_batch(excess, if gone { "port gone" } else { "transmit queue full" });
        }
        if !self.waiting.is_empty() {
            cx.reschedule();
        }
    }

    /// Pulls and sends once.
    pub(crate) fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut moved = 0;
        if !self.waiting.is_empty() {
            moved = self.send(cx);
            if !self.waiting.is_empty() {
                if self.is_gone() {
                    let all = self.waiting.take();
                    self.dropped.add(all.len() as u64);
                    cx.drop_batch(all, "port gone");
                }
                cx.reschedule();
                return moved > 0;
            }
        }
        if !cx.input_is_pull(0) {
            return moved > 0;
        }
        let mut batch = self.waiting.take();
        let pulled = cx.pull(0, self.burst, &mut batch);
        self.waiting = batch;
        if pulled > 0 {
            self.send(cx);
        }
        if pulled > 0 || cx.upstream_active(0) {
            cx.reschedule();
        }
        moved + pulled > 0
    }

    pub(crate) fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.dropped.set(old.dropped.get());
        if let (Some(ours), Some(tx)) = (self.port.get(), &old.tx)
            && std::sync::Arc::ptr_eq(ours, tx.port())
            && old.queue == self.queue
        {
            self.tx = old.tx.take();
            self.lost = old.lost;
        }
        let same = self.port.get().zip(old.port.get()).is_some_and(|(a, b)| std::sync::Arc::ptr_eq(a, b));
        if same {
            self.waiting.append(&mut old.waiting);
        } else {
            // They were for another wire.
            cx.drop_batch(old.waiting.take(), "port replaced");
        }
        cx.reschedule();
    }

    /// The port, once it is open.
    pub(crate) fn port(&self) -> Option<&std::sync::Arc<dpdk::Port>> {
        self.port.get()
    }
}
