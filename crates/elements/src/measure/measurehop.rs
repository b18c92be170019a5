//! # MeasureHop
//! Measures the latency of passing frames of MeasureSource.
//!
//! With `STAMP` it also writes the present time into them, so that the next MeasureHop, or the sink, measures
//! from here: if there is one after every hop, each shows the one-way latency of its own hop. Without
//! `STAMP`, all show the latency since the source. Correct checksums stay correct. Between machines, latency
//! is only as accurate as the synchronization of their clocks.
//!
//! ## Synopsis
//! `MeasureHop([STAMP])`
//!
//! ## Arguments
//! - `STAMP` (*bool*, default false): whether to write the present time into frames.
//!
//! ## Ports
//! One input, one output; agnostic. Frames begin with an Ethernet header. Other frames pass unchanged.
//!
//! ## Handlers
//! - `count` (read): frames of MeasureSource.
//! - `early` (read): those with a send time in the future, because the clocks of two machines differ; they
//!   have no latency.
//! - `latency` (read): in nanoseconds: minimum, mean, 50th, 90th, 99th and 99.9th percentile, maximum, and
//!   the number of frames; a line for each worker.
//! - `histogram` (read): latencies in nanoseconds and how many frames had them, a line for each.
//! - `reset` (write): sets everything to zero.
//!
//! ## Threads
//! Each worker has a histogram of its own, of 225 KB.
//!
//! ## Example
//! ```click
//! MeasureSource(RATE 1000, LIMIT 1000) -> Unqueue -> Queue -> DelayUnqueue(1ms) -> hop :: MeasureHop(STAMP true)
//!   -> SetTimestamp -> Queue -> DelayUnqueue(2ms) -> sink :: MeasureSink;
//! ```
//!
//! ## See also
//! MeasureSource, MeasureSink, SetTimestamp

use super::engine::report::{lines, summary};
use crate::prelude::*;
use measure::hop;
use measure::latency::Latency;

/// The `MeasureHop` element.
pub struct MeasureHop {
    stamp: bool,
    latency: Latency,
    count: Counter,
    early: u64,
}

impl Element for MeasureHop {
    const CLASS: &'static str = "MeasureHop";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const MANUAL: &'static str = manual!("measure/measurehop");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let stamp = args.p("STAMP")?.unwrap_or(false);
        Ok(Self { stamp, latency: Latency::default(), count: Counter::new(), early: 0 })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.sum("early", |e| e.early);
        h.list("latency", |e| summary(&e.latency));
        h.list("histogram", |e| lines(e.latency.buckets()));
        h.write("reset", |e, _, _| {
            e.latency.clear();
            e.count.set(0);
            e.early = 0;
            Ok(())
        });
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        std::mem::swap(&mut self.latency, &mut old.latency);
        self.count.set(old.count.get());
        self.early = old.early;
    }
}

impl Simple for MeasureHop {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now_ns();
        let tag = if self.stamp { hop::stamp(packet.data_mut(), now) } else { hop::read(packet.data()) };
        if let Some(tag) = tag {
            self.count.add(1);
            match tag.age_ns(now) {
                Some(age) => self.latency.record(age, 1),
                None => self.early += 1,
            }
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    fn median(bench: &mut Bench, name: &str) -> u64 {
        bench.read(&format!("{name}.latency")).split(' ').nth(2).unwrap().parse().unwrap()
    }

    #[test]
    fn each_hop_or_the_whole_way() {
        for (stamp, second, whole) in [("false", 30, 60), ("true", 20, 30)] {
            let config = format!(
                "MeasureSource(RATE 100, LIMIT 20) -> Unqueue -> Queue -> DelayUnqueue(10ms) -> a :: MeasureHop(STAMP {stamp})
                   -> SetTimestamp -> Queue -> DelayUnqueue(20ms) -> b :: MeasureHop(STAMP {stamp})
                   -> SetTimestamp -> Queue -> DelayUnqueue(30ms) -> c :: MeasureSink;"
            );
            let mut bench = Bench::simulated(&config, 0, 0);
            bench.turns(2000);
            assert_eq!(bench.read("c.ours"), "20");
            assert_eq!((bench.read("a.count"), bench.read("c.damaged")), ("20".into(), "0".into()));
            let near = |ns: u64, ms: u64| (ns as f64 / (ms as f64 * 1e6) - 1.0).abs() < 0.01;
            for (name, ms) in [("a", 10), ("b", second), ("c", whole)] {
                let ns = median(&mut bench, name);
                assert!(near(ns, ms), "{name} {stamp}: {ns} ns instead of {ms} ms");
            }
            bench.write("a.reset", "");
            assert_eq!((bench.read("a.count"), bench.read("a.histogram")), ("0".into(), String::new()));
        }
    }

    #[test]
    fn other_frames_pass() {
        let mut bench = Bench::new("MeasureHop(true)");
        let frame = [7; 60];
        assert_eq!(bench.push(0, &frame)[0].1, frame);
        assert_eq!(bench.push(0, &[]).len(), 1);
        assert_eq!((bench.read("count"), bench.read("early")), ("0".into(), "0".into()));
    }
}
