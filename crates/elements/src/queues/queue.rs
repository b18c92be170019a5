//! # Queue
//! Stores packets first in, first out, between a push path and a pull path.
//!
//! ## Synopsis
//! `Queue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY` (*int*, default 1000): how many packets it holds; packets that find it full are dropped.
//!
//! ## Ports
//! One push input, one pull output. Consumers sleep while it is empty, sources that care sleep while it is full.
//!
//! ## Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): the most packets that have been in it.
//! - `capacity` (read/write): the `CAPACITY` argument.
//! - `drops` (read): packets dropped.
//! - `reset_counts` (write): sets `drops` and `highwater_length` to zero.
//! - `reset` (write): empties the queue.
//!
//! ## Drop reasons
//! - `queue full`
//!
//! ## Threads
//! Each worker has its own queue of this capacity. Between two workers it is one bounded lock-free ring.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> q :: Queue(5) -> Unqueue -> Discard;
//! ```
//!
//! ## See also
//! ThreadSafeQueue, FrontDropQueue, Unqueue, RED

use crate::prelude::*;
use std::collections::VecDeque;

/// The `Queue` element.
pub struct Queue {
    packets: VecDeque<Packet>,
    capacity: usize,
    length: Counter,
    highwater: Counter,
    drops: Counter,
}

impl Queue {
    fn changed(&mut self, cx: &mut Cx<'_>) {
        let length = self.packets.len();
        self.length.set(length as u64);
        cx.set_nonempty(length > 0);
        cx.set_full(length >= self.capacity);
    }
}

impl Element for Queue {
    const CLASS: &'static str = "Queue";
    const PROCESSING: &'static str = "h/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::EmptyAndFull;
    const MANUAL: &'static str = manual!("queues/queue");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let capacity = args.p::<u32>("CAPACITY")?.unwrap_or(1000) as usize;
        Ok(Self {
            packets: VecDeque::new(),
            capacity,
            length: Counter::new(),
            highwater: Counter::new(),
            drops: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("length", |e| &e.length);
        h.counter("highwater_length", |e| &e.highwater);
        h.counter("drops", |e| &e.drops);
        h.read("capacity", |e| e.capacity.to_string());
        h.write("capacity", |e, v, cx| {
            e.capacity = v.trim().parse().map_err(|_| "bad length".to_owned())?;
            while e.packets.len() > e.capacity {
                let Some(packet) = e.packets.pop_back() else { break };
                e.drops.add(1);
                cx.drop(packet, "queue full");
            }
            e.changed(cx);
            Ok(())
        });
        h.write("reset_counts", |e, _, _| {
            e.drops.set(0);
            e.highwater.set(e.length.get());
            Ok(())
        });
        h.write("reset", |e, _, cx| {
            while let Some(packet) = e.packets.pop_front() {
                cx.drop(packet, "queue reset");
            }
            e.changed(cx);
            Ok(())
        });
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.drops.set(old.drops.get());
        self.highwater.set(old.highwater.get());
        self.packets = std::mem::take(&mut old.packets);
        while self.packets.len() > self.capacity {
            let Some(packet) = self.packets.pop_back() else { break };
            self.drops.add(1);
            cx.drop(packet, "queue full");
        }
        self.changed(cx);
    }
}

impl Vector for Queue {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            if self.packets.len() < self.capacity {
                self.packets.push_back(packet);
            } else {
                self.drops.add(1);
                cx.drop(packet, "queue full");
            }
        }
        if self.packets.len() as u64 > self.highwater.get() {
            self.highwater.set(self.packets.len() as u64);
        }
        self.changed(cx);
        cx.recycle(batch);
    }

    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        for _ in 0..max.min(self.packets.len()) {
            let Some(packet) = self.packets.pop_front() else { break };
            out.push(packet);
        }
        self.changed(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn keeps_order_and_drops_at_capacity() {
        let mut bench = Bench::new("Queue(2)");
        for byte in 1..=3u8 {
            assert!(bench.push(0, &[byte]).is_empty());
        }
        assert_eq!(bench.read("length"), "2");
        assert_eq!(bench.read("drops"), "1");
        assert_eq!(bench.read("highwater_length"), "2");
        assert_eq!(bench.drops(), [("queue full".to_owned(), 1)]);
        let got: Vec<u8> = bench.pull(0, 5).iter().map(|(_, p)| p.data()[0]).collect();
        assert_eq!(got, [1, 2]);
        assert_eq!(bench.read("length"), "0");
    }
}
