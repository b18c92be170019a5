//! # AggregateLast
//! Lets the last packet of each aggregate through.
//!
//! The last packet stands for all of its aggregate: its extra packets and extra length annotations have the
//! sums of the others, and its first timestamp annotation is the timestamp of the first.
//!
//! ## Synopsis
//! `AggregateLast([NOTIFIER, STOP_AFTER_CLEAR, CAPACITY])`
//!
//! ## Arguments
//! - `NOTIFIER` (*element*, keyword): an element that numbers aggregates, such as AggregateIPFlows. When an
//!   aggregate has ended there, its last packet leaves. Without it, packets leave only when `clear` is
//!   written.
//! - `STOP_AFTER_CLEAR` (*bool*, keyword, default false): whether `clear` also stops the router.
//! - `CAPACITY` (*int*, keyword, default 65536): how many packets are kept. When there is one more aggregate,
//!   the packet of the one that had none for the longest time leaves; a later packet of that aggregate begins
//!   it anew. Click has no limit.
//!
//! ## Ports
//! One push input. The last packet of an aggregate leaves by output 0; each other packet, when the next one
//! of its aggregate comes, by output 1 if it is connected.
//!
//! ## Handlers
//! - `clear` (write): lets all packets out, in the order of their aggregates.
//! - `ended` (write): lets the packets of aggregates out that have ended. The `NOTIFIER` writes it.
//!
//! ## Threads
//! One instance, on one worker, to which the others hand their packets.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true) -> AggregateIP(ip src) -> last :: AggregateLast -> Discard;
//! DriverManager(wait, write last.clear, wait 0.1);
//! ```
//!
//! ## See also
//! AggregateFirst, AggregateIP, AggregateIPFlows, AggregateCounter, AggregateFilter

use super::engine::notifier::{self, Listener};
use crate::prelude::*;
use locks::IgnorePoison;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tables::{Displaced, ExactMap};

const SUPERSEDED: DropReason = DropReason::new("not the last of its aggregate");

/// The aggregates that have ended and whose packets have not left yet.
struct Ended {
    element: String,
    /// More than so many are not noted: their packets leave by `clear`, or when there is no room.
    most: usize,
    any: AtomicBool,
    aggregates: Mutex<Vec<u32>>,
}

impl Listener for Ended {
    fn ended(&self, aggregate: u32) {
        let mut aggregates = self.aggregates.lock().ignore_poison();
        if aggregates.len() < self.most {
            aggregates.push(aggregate);
        }
        self.any.store(true, Ordering::Release);
    }
    fn acts(&self) -> Option<&str> {
        Some(&self.element)
    }
}

/// The `AggregateLast` element.
pub struct AggregateLast {
    kept: ExactMap<u32, Packet>,
    /// How many packets have come: the order in which aggregates were used.
    clock: u64,
    ended: Arc<Ended>,
    /// Whether `clear` was written.
    clear: bool,
    stop_after_clear: bool,
}

impl Element for AggregateLast {
    const CLASS: &'static str = "AggregateLast";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/h";
    const READS: Fields =
        Fields::AGGREGATE.with(Fields::TIMESTAMP).with(Fields::EXTRA_PACKETS).with(Fields::EXTRA_LENGTH);
    const WRITES: Fields = Fields::EXTRA_PACKETS.with(Fields::EXTRA_LENGTH).with(Fields::FIRST_TIMESTAMP);
    const DROPS: &'static [DropCase] =
        &[SUPERSEDED.when("the next packet of its aggregate came, and output 1 is not connected")];
    const MANUAL: &'static str = manual!("analysis/aggregatelast");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let capacity = args.k_or("CAPACITY", 1u32 << 16)?.max(1) as usize;
        cx.holds(capacity);
        let element = cx.name().to_owned();
        let ended = cx.shared(|| Ended {
            element,
            most: 2 * capacity,
            any: AtomicBool::default(),
            aggregates: Mutex::default(),
        });
        let listener: Arc<dyn Listener> = Arc::<Ended>::clone(&ended);
        notifier::listen(args, cx, &listener)?;
        let stop_after_clear = args.k_or("STOP_AFTER_CLEAR", false)?;
        Ok(Self { kept: ExactMap::new(capacity), clock: 0, ended, clear: false, stop_after_clear })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.write("clear", |e, _, cx| {
            e.clear = true;
            cx.reschedule();
            Ok(())
        });
        h.write("ended", |e, _, cx| {
            e.collect(cx);
            Ok(())
        });
        h.private("ended");
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let clear = self.clear;
        self.clear(cx);
        clear
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.clear(cx);
        self.collect(cx);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        (self.clock, self.clear) = (old.clock, old.clear);
        while let Some((aggregate, packet)) = old.kept.pop_oldest() {
            if let Displaced::Evicted(_, packet) = self.kept.insert(aggregate, packet, 0) {
                cx.output(0, packet);
            }
        }
        if self.clear {
            cx.reschedule();
        }
    }
}

impl AggregateLast {
    /// Lets all packets out if `clear` was written.
    fn clear(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::take(&mut self.clear) {
            return;
        }
        let mut all: Vec<(u32, Packet)> = std::iter::from_fn(|| self.kept.pop_oldest()).collect();
        all.sort_by_key(|(aggregate, _)| *aggregate);
        all.into_iter().for_each(|(_, packet)| cx.output(0, packet));
        if self.stop_after_clear {
            cx.request_stop();
        }
    }

    /// Lets the packets of ended aggregates out.
    fn collect(&mut self, cx: &mut Cx<'_>) {
        if !self.ended.any.swap(false, Ordering::Acquire) {
            return;
        }
        let ended = std::mem::take(&mut *self.ended.aggregates.lock().ignore_poison());
        for packet in ended.iter().filter_map(|aggregate| self.kept.remove(aggregate)) {
            cx.output(0, packet);
        }
    }

    /// Keeps a packet in place of the one before, whose counts it takes over.
    fn keep(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        let (aggregate, length) = (packet.aggregate(), |p: &Packet| u32::try_from(p.len()).unwrap_or(0));
        self.clock += 1;
        let Some(kept) = self.kept.touch(&aggregate, self.clock) else {
            let timestamp = packet.timestamp_ns();
            packet.anno_mut().set_first_timestamp_ns(timestamp);
            if let Displaced::Evicted(_, oldest) = self.kept.insert(aggregate, packet, self.clock) {
                cx.output(0, oldest);
            }
            return;
        };
        let (old, bytes) = (*kept.anno(), length(kept));
        let anno = packet.anno_mut();
        let packets = anno.extra_packets().wrapping_add(1).wrapping_add(old.extra_packets());
        anno.set_extra_packets(packets);
        let extra = anno.extra_length().wrapping_add(bytes).wrapping_add(old.extra_length());
        anno.set_extra_length(extra);
        anno.set_first_timestamp_ns(old.first_timestamp_ns());
        cx.fail(std::mem::replace(kept, packet), SUPERSEDED);
    }
}

impl Vector for AggregateLast {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.clear(cx);
        self.collect(cx);
        for packet in batch.drain(..) {
            self.keep(packet, cx);
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn packet(aggregate: u32, bytes: &[u8], seconds: u64) -> Packet {
        let mut packet = Packet::from_bytes(bytes).unwrap();
        packet.set_aggregate(aggregate);
        packet.set_timestamp_ns(seconds * 1_000_000_000);
        packet
    }

    #[test]
    fn the_last_one_stands_for_all() {
        let mut bench = Bench::with_ports("AggregateLast()", 1, 2);
        assert!(bench.send(0, packet(7, b"abc", 1)).is_empty());
        assert!(bench.send(0, packet(3, b"x", 2)).is_empty());
        let out = bench.send(0, packet(7, b"de", 3));
        assert_eq!((out[0].0, out[0].1.data()), (1, &b"abc"[..]));
        bench.send(0, packet(7, b"f", 4));
        bench.write("clear", "");
        bench.run();
        let out = bench.take();
        assert!(out.is_empty(), "run has taken them");
        bench.send(0, packet(9, b"g", 5));
        bench.write("clear", "");
        // The next packet comes after what is let out.
        let out = bench.send(0, packet(9, b"h", 6));
        assert_eq!(out.iter().map(|(port, p)| (*port, p.data())).collect::<Vec<_>>(), [(0, &b"g"[..])]);
    }

    #[test]
    fn leaves_in_the_order_of_aggregates_with_the_sums() {
        let mut bench = Bench::with_ports("AggregateLast()", 1, 1);
        for (aggregate, bytes, seconds) in [(9, "aaaa", 1), (2, "b", 2), (9, "cc", 3), (9, "d", 4)] {
            bench.send(0, packet(aggregate, bytes.as_bytes(), seconds));
        }
        bench.write("clear", "");
        let out = bench.send(0, packet(2, b"later", 5));
        let facts = |(_, p): &(usize, Packet)| {
            let anno = p.anno();
            (
                p.aggregate(),
                anno.extra_packets(),
                anno.extra_length(),
                anno.first_timestamp_ns() / 1_000_000_000,
            )
        };
        assert_eq!(out.iter().map(facts).collect::<Vec<_>>(), [(2, 0, 0, 2), (9, 2, 6, 1)]);
        assert_eq!(bench.drops(), [("not the last of its aggregate".to_owned(), 2)]);
    }

    #[test]
    fn no_more_packets_are_kept_than_there_is_room() {
        let mut bench = Bench::with_ports("AggregateLast(CAPACITY 2)", 1, 1);
        for aggregate in [1, 2, 1] {
            assert!(bench.send(0, packet(aggregate, b"x", 1)).is_empty());
        }
        assert_eq!(bench.send(0, packet(3, b"x", 2))[0].1.aggregate(), 2);
    }
}
