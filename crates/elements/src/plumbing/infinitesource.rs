//! # InfiniteSource
//! Makes packets as fast as they are taken.
//!
//! ## Synopsis
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE, LENGTH, STOP, TIMESTAMP, HEADROOM])`
//!
//! ## Arguments
//! - `DATA` (*string*): the packet's contents. The default is at least 64 bytes long.
//! - `LIMIT` (*int*, default -1): how many packets in all; negative means no limit.
//! - `BURST` (*int*, default 1): how many packets in one task run.
//! - `ACTIVE` (*bool*, default true): whether to make packets.
//! - `LENGTH` (*int*): contents are cut or repeated to this length.
//! - `STOP` (*bool*, default false): stops the driver when the limit is reached.
//! - `TIMESTAMP` (*bool*, default true): whether packets carry the time at which they were made.
//! - `HEADROOM` (*int*): room before the contents.
//!
//! ## Ports
//! No input, one output; agnostic. It sleeps while the queues downstream are full.
//!
//! ## Handlers
//! - `count` (read): packets made.
//! - `reset` (write): starts again from zero.
//! - `active`, `limit`, `burst`, `data`, `length`, `stop` (read/write): the arguments.
//!
//! ## Threads
//! One instance, on one worker: the limit is that of the whole router.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<00 01 02>, LIMIT 5, STOP true) -> Print -> Discard;
//! ```
//!
//! ## See also
//! RatedSource, TimedSource

use crate::prelude::*;
use lang::args::Bytes;

/// The `InfiniteSource` element.
pub struct InfiniteSource {
    data: Vec<u8>,
    limit: i64,
    burst: usize,
    active: bool,
    stop: bool,
    timestamp: bool,
    headroom: usize,
    length: Option<usize>,
    count: Counter,
}

const DEFAULT_DATA: &[u8] = b"Valiant's packet source: sixty-four bytes that nobody needs to read.";

impl InfiniteSource {
    fn left(&self) -> usize {
        match u64::try_from(self.limit) {
            Ok(limit) => usize::try_from(limit.saturating_sub(self.count.get())).unwrap_or(usize::MAX),
            Err(_) => usize::MAX,
        }
    }
    fn make(&self, cx: &Cx<'_>) -> Option<Packet> {
        let length = self.length.unwrap_or(self.data.len());
        let mut packet = Packet::alloc(self.headroom, length)?;
        if !self.data.is_empty() {
            for chunk in packet.data_mut().chunks_mut(self.data.len()) {
                chunk.copy_from_slice(&self.data[..chunk.len()]);
            }
        }
        if self.timestamp {
            packet.anno_mut().timestamp_ns = cx.now_ns();
        }
        self.count.add(1);
        Some(packet)
    }
    fn wake(&self, cx: &mut Cx<'_>) {
        if cx.n_outputs() > 0 && !cx.output_is_pull(0) && self.active && self.left() > 0 {
            cx.reschedule();
        }
    }
}

impl Element for InfiniteSource {
    const CLASS: &'static str = "InfiniteSource";
    const PORTS: &'static str = "0/1";
    const SHARING: Sharing = Sharing::Single;
    const MANUAL: &'static str = manual!("plumbing/infinitesource");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let data = args.p::<Bytes>("DATA")?.map_or_else(|| DEFAULT_DATA.to_vec(), |b| b.0);
        let limit = args.p("LIMIT")?.unwrap_or(-1);
        let burst = args.p::<i32>("BURST")?.unwrap_or(1);
        let active = args.p("ACTIVE")?.unwrap_or(true);
        let length = args.k::<u32>("LENGTH")?.map(|n| n as usize);
        let stop = args.k("STOP")?.unwrap_or(false);
        let timestamp = args.k("TIMESTAMP")?.unwrap_or(true);
        let headroom = args.k::<u16>("HEADROOM")?.map_or(dpdk::DEFAULT_HEADROOM, usize::from);
        if burst < 1 {
            return Err(ArgError::new("burst size must be >= 1"));
        }
        let burst = burst as usize;
        Ok(Self { data, limit, burst, active, stop, timestamp, headroom, length, count: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.read("active", |e| e.active.to_string());
        h.read("limit", |e| e.limit.to_string());
        h.read("burst", |e| e.burst.to_string());
        h.read("stop", |e| e.stop.to_string());
        h.read("data", |e| String::from_utf8_lossy(&e.data).into_owned());
        h.read("length", |e| e.length.unwrap_or(e.data.len()).to_string());
        h.write("reset", |e, _, cx| {
            e.count.set(0);
            e.wake(cx);
            Ok(())
        });
        h.write("active", |e, v, cx| {
            e.active = v.trim().parse().map_err(|_| "syntax error".to_owned())?;
            e.wake(cx);
            Ok(())
        });
        h.write("limit", |e, v, cx| {
            e.limit = v.trim().parse().map_err(|_| "syntax error".to_owned())?;
            e.wake(cx);
            Ok(())
        });
        h.write("burst", |e, v, _| {
            e.burst = v.trim().parse::<usize>().ok().filter(|b| *b > 0).ok_or("burst size must be >= 1")?;
            Ok(())
        });
        h.write("data", |e, v, _| {
            e.data = v.as_bytes().to_vec();
            Ok(())
        });
        h.write("length", |e, v, _| {
            e.length = Some(v.trim().parse::<u16>().map_err(|_| "syntax error".to_owned())?.into());
            Ok(())
        });
        h.write("stop", |e, v, _| {
            e.stop = v.trim().parse().map_err(|_| "syntax error".to_owned())?;
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.wake(cx);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active || !cx.downstream_room(0) {
            return false;
        }
        let n = self.burst.min(self.left());
        let mut made = 0;
        for _ in 0..n {
            let Some(packet) = self.make(cx) else { break };
            cx.output(0, packet);
            made += 1;
            if cx.exact() {
                cx.flush();
            }
        }
        if self.left() > 0 {
            cx.reschedule();
        } else if self.stop && n > 0 {
            cx.request_stop();
        }
        made > 0
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl Vector for InfiniteSource {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        if !self.active {
            return;
        }
        for _ in 0..max.min(self.left()) {
            let Some(packet) = self.make(cx) else { break };
            out.push(packet);
            if self.left() == 0 && self.stop {
                cx.request_stop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn makes_packets_up_to_its_limit() {
        let mut bench = Bench::new("InfiniteSource(DATA \\<01 02>, LIMIT 3, LENGTH 3)");
        let packets = bench.run();
        assert_eq!(packets, vec![(0, vec![1, 2, 1]); 3]);
        assert_eq!(bench.read("count"), "3");
    }

    #[test]
    fn burst_must_be_positive() {
        assert!(Bench::error("InfiniteSource(BURST 0)").contains("burst size must be >= 1"));
    }
}
