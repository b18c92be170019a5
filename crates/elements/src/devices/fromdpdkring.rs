//! # FromDPDKRing
//! Takes packets from a ring, which a ToDPDKRing of the same configuration fills.
//!
//! FastClick's; see ToDPDKRing about other processes.
//!
//! ## Synopsis
//! `FromDPDKRing(MEM_POOL, FROM_PROC, TO_PROC [, BURST, NDESC, ACTIVE, FORCE_LOOKUP, FORCE_CREATE, ...])`
//!
//! ## Arguments
//! - `MEM_POOL` (*word*): accepted; packets keep their buffers.
//! - `FROM_PROC`, `TO_PROC` (*string*), `FORCE_LOOKUP`, `FORCE_CREATE` (*bool*): the ring's name, and which
//!   end makes it; see ToDPDKRing.
//! - `BURST` (*int*, packets, default 32, or a batch if that is longer): the most packets taken at a time.
//! - `NDESC` (*int*, packets, at most 1048576, default 1024): how many packets the ring holds, if this
//!   end makes it.
//! - `ACTIVE` (*bool*, default true): whether to take packets.
//! - `NUMA_ZONE`, `SP_ENQ`, `SC_DEQ`: without effect.
//!
//! ## Ports
//! No input, one push output.
//!
//! ## Handlers
//! - `count`, `pkt_count` (read): packets taken.
//! - `byte_count` (read): their bytes.
//! - `length` (read): packets in the ring.
//! - `active` (read/write): the `ACTIVE` argument.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): the task.
//!
//! ## Threads
//! One worker takes packets, the first unless StaticThreadSched says otherwise. It leaves them in the ring
//! while queues downstream are full.
//!
//! ## Example
//! ```click
//! FromDPDKRing(MEM_POOL 1, FROM_PROC b, TO_PROC a) -> Discard;
//! InfiniteSource(LIMIT 5) -> ToDPDKRing(MEM_POOL 1, FROM_PROC a, TO_PROC b, FORCE_LOOKUP true);
//! ```
//!
//! ## See also
//! ToDPDKRing, FromDPDKDevice

use super::engine::namedring::{self, RingSlot};
use crate::plumbing::engine::text;
use crate::prelude::*;
use std::sync::Arc;

/// The `FromDPDKRing` element.
pub struct FromDpdkRing {
    ring: RingSlot,
    burst: usize,
    active: bool,
    count: Counter,
    bytes: Counter,
}

impl Element for FromDpdkRing {
    const CLASS: &'static str = "FromDPDKRing";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("devices/fromdpdkring");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ends = namedring::configure(args, cx)?;
        let active = args.k_or("ACTIVE", true)?;
        let (count, bytes) = (Counter::new(), Counter::new());
        Ok(Self { ring: ends.ring, burst: ends.burst, active, count, bytes })
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["count", "pkt_count"] {
            h.counter(name, |e| &e.count);
        }
        h.counter("byte_count", |e| &e.bytes);
        h.read("length", |e| e.ring.get().map_or(0, |ring| ring.len()).to_string());
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "type mismatch")?;
            cx.reschedule();
            Ok(())
        });
        h.task();
        h.listed(&["count", "pkt_count", "byte_count"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(ring) = self.ring.get().map(Arc::clone).filter(|_| self.active) else { return false };
        ring.taken_by(cx.worker());
        if !cx.downstream_room(0) {
            return false;
        }
        let mut batch = cx.spare_batch();
        let n = ring.take(self.burst.min(cx.batch_size()), &mut batch);
        self.count.add(n as u64);
        self.bytes.add(batch.iter().map(|packet| packet.len() as u64).sum());
        cx.output_batch(0, batch);
        if n > 0 {
            cx.reschedule_with_room(0);
        } else {
            cx.reschedule();
            // Whoever puts packets in wakes this worker.
            cx.idle_until_readable(&[]);
        }
        n > 0
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.bytes.set(old.bytes.get());
    }
}

impl Vector for FromDpdkRing {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_come_in_order_whichever_end_makes_the_ring() {
        for (to, from) in [("", ", FORCE_LOOKUP true"), (", FORCE_LOOKUP true", "")] {
            let config = format!(
                "e :: NumberPacket(0) -> ToDPDKRing(MEM_POOL 1, FROM_PROC a, TO_PROC b{to});
                f :: FromDPDKRing(MEM_POOL 1, FROM_PROC b, TO_PROC a{from}) -> n :: CheckNumberPacket(0, COUNT 40)
                    -> c :: Counter -> Discard;"
            );
            let mut bench = Bench::with_config(&config, 1, 0);
            for _ in 0..40 {
                bench.push(0, &[0; 60]);
            }
            bench.turns(200);
            let read = |bench: &mut Bench, name: &str| bench.read(name);
            assert_eq!(
                (read(&mut bench, "c.count"), read(&mut bench, "f.count"), read(&mut bench, "f.byte_count")),
                ("40".into(), "40".into(), "2400".into())
            );
            assert_eq!(read(&mut bench, "f.length"), "0");
        }
    }
}
