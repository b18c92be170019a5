//! # MeasureSink
//! Measures the frames of MeasureSource: loss, order, corruption, latency.
//!
//! Other frames are counted separately. A frame of MeasureSource that was changed on the path is counted as
//! damaged, and as nothing else. Latency is the time from a frame's creation to its arrival here, both read
//! once for a batch; between machines it is only as accurate as the synchronization of their clocks.
//!
//! ## Synopsis
//! `MeasureSink([CHECK, AWAKE, FLOWS, OUTPUTS, OUTPUT, LEARN, STREAM])`
//!
//! ## Arguments
//! - `CHECK` (*bool*, default true): whether to verify checksums, over whole frames. Without it, corruption
//!   is not noticed.
//! - `AWAKE` (*bool*, default false): whether to keep workers from sleeping when nothing arrives, so that
//!   latency is measured when a frame arrives and not up to half a millisecond later. That costs a whole CPU
//!   for each worker. By keyword.
//! - `FLOWS` (*int*, default 65536, at most 16777216): how many flows a worker remembers, 64 neighboring
//!   ones at a time. Frames of more flows count as `untracked`. By keyword.
//! - `OUTPUTS` (*int*, up to 16): how many outputs of a device the frames are for, as in the argument
//!   `OUTPUTS` of MeasureSource, so that `paths` counts them. By keyword.
//! - `OUTPUT` (*int*): which of these, from 0, this sink is at; frames for others count as `misrouted`. By
//!   keyword.
//! - `LEARN` (*int*, default 0, at most 1048576): of so many flows of one stream, from number 0 on, each
//!   worker remembers with which addresses and ports the last frame arrived, so that frames can go back to
//!   where it came from: through a device that translates, other ones than it was sent with. By keyword.
//! - `STREAM` (*int*, 0 to 15, default 0): the stream of these flows. By keyword.
//!
//! ## Ports
//! One push input. If there is an output, frames go on to it, else they are freed.
//!
//! ## Handlers
//! - `count` (read): frames of all kinds.
//! - `byte_count` (read): their bytes, without frame check sequences.
//! - `ours`, `foreign`, `damaged` (read): frames of MeasureSource, other frames, and frames of MeasureSource
//!   that were changed on the path.
//! - `received` (read): frames of MeasureSource without duplicates.
//! - `untracked` (read): frames of MeasureSource of flows beyond `FLOWS`; their loss and order are not known.
//! - `lost` (read): frames that must have been sent, since others of their flow have higher and lower
//!   numbers, and have not arrived.
//! - `duplicates` (read): frames that have arrived before, among the last 64 of their flow; repeated later
//!   than that, they count as received and reordered.
//! - `reordered` (read): frames that arrived after later ones of their flow (RFC 4737).
//! - `sequences` (read): reordered sequences: stretches of reordered frames of a flow that arrived one after
//!   the other (RouteBricks section 6.2).
//! - `reordered_flows` (read): flows with a reordered frame, counted once for each run of the sender.
//! - `extents` (read): the extents of reordered frames (RFC 4737 section 4.2: how many arrivals of its flow
//!   ago the first later one came) and how many frames had them, a line for each; 65 stands for more than 64.
//! - `n_reordered` (read): for each n how many frames were n-reordered (RFC 4737 section 5: the n arrivals
//!   before are all later ones), a line for each up to the greatest that occurred, at most 64.
//! - `early` (read): frames with a send time in the future, because the clocks of two machines differ; they
//!   have no latency.
//! - `rate` (read): frames of MeasureSource per second, from the first to the last.
//! - `latency` (read): in nanoseconds: minimum, mean, 50th, 90th, 99th and 99.9th percentile, maximum, and
//!   the number of frames; a line for each worker.
//! - `jitter` (read): how latency differs from a frame to the one that arrives next at the same worker, in
//!   nanoseconds: the least, the median and the largest IPDV (RFC 5481, RFC 8219 section 7.3.2; negative if
//!   the later frame took less time), the median and the 99.9th percentile of its absolute value, the mean of
//!   that, the interarrival jitter of RFC 3550, and the number of pairs; a line for each worker. Quantiles
//!   are exact to a thousandth of their value.
//! - `histogram` (read): latencies in nanoseconds and how many frames had them, a line for each.
//! - `flows` (read): a line for each flow: stream, flow, frames received, lost, duplicates, reordered,
//!   sequences.
//! - `paths` (read): with `OUTPUTS`: a line for each sender (`STREAM`) and output that its frames were for:
//!   sender, output, and frames without duplicates. It begins at 0 after a hot swap that changes `OUTPUTS`.
//! - `misrouted` (read): with `OUTPUT`: frames without duplicates that were for another output.
//! - `learned` (read): how many flows of `LEARN` a worker knows, all workers together.
//! - `answers` (read): their way back, for the handler `answers` of MeasureSource: a line `ether SOURCE
//!   DESTINATION`, and a line `FLOW SOURCE DESTINATION SPORT DPORT` for each flow.
//! - `expect` (write): flows as `answers` has them, for `LEARN`: from now on frames must arrive with the
//!   addresses and ports of their flow in it, and nothing is learned. `reset` ends that.
//! - `changed` (read): frames that have arrived with others than `expect` says.
//! - `snapshot` (read): all numbers of each worker on a line, for programs.
//! - `reset` (write): sets everything to zero.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task that runs with `AWAKE`.
//!
//! ## Threads
//! Each worker measures the frames that it gets; handlers add the numbers up. A flow should stay on one
//! worker, as RSS does; otherwise frames that another worker got count as lost.
//!
//! A worker uses 80 bytes for each flow, and 260 more for a flow with reordered or lost frames: 5 to
//! 22 MB for the default, 84 to 360 MB for a million flows. Memory is limited by `FLOWS`, whatever others
//! send. Histograms of latency and jitter take 700 kB of each worker. `LEARN` takes 40 bytes for each of its
//! flows, of each worker, at the beginning.
//!
//! ## Example
//! ```click
//! MeasureSource(LIMIT 1000, STOP true) -> Unqueue -> RandomSample(DROP 0.1) -> sink :: MeasureSink;
//! ```
//!
//! ## See also
//! MeasureSource, MeasureHop, Counter, AverageCounter, Discard

use super::engine::report::{lines, summary};
use crate::prelude::*;
use measure::learned::{Answers, Learned};
use measure::order::DEPTH;
use measure::sink::{DEFAULT_FLOWS, Sink};
use measure::tag::{MAX_FLOWS, MAX_OUTPUTS, MAX_STREAMS};
use std::fmt::Write;

/// Flows that can be distinguished.
const MOST_FLOWS: usize = MAX_FLOWS as usize * MAX_STREAMS as usize;

/// The `MeasureSink` element.
pub struct MeasureSink {
    sink: Box<Sink>,
    count: Counter,
    bytes: Counter,
    ours: Counter,
    awake: bool,
    /// The output that this is, if frames are for several.
    output: Option<usize>,
}

impl Element for MeasureSink {
    const CLASS: &'static str = "MeasureSink";
    const PORTS: &'static str = "1/0-1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("measure/measuresink");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let check = args.p("CHECK")?.unwrap_or(true);
        // Simulated time passes only while everybody sleeps.
        let awake = args.k("AWAKE")?.unwrap_or(false) && !cx.simulated_time();
        let flows = args.k::<u32>("FLOWS")?.map_or(DEFAULT_FLOWS, |n| n as usize);
        if flows > MOST_FLOWS {
            return Err(
                args.error(format!("FLOWS must be at most {MOST_FLOWS}: more cannot be distinguished"))
            );
        }
        let mut sink = Box::new(Sink::new(check, flows));
        let (outputs, output) = (args.k::<usize>("OUTPUTS")?, args.k::<usize>("OUTPUT")?);
        match (outputs, output) {
            (Some(n), _) if !(1..=MAX_OUTPUTS).contains(&n) => {
                return Err(args.error(format!("OUTPUTS must be 1 to {MAX_OUTPUTS}")));
            }
            (n, Some(output)) if output >= n.unwrap_or(0) => {
                return Err(args.error("OUTPUT must be less than OUTPUTS".to_owned()));
            }
            (Some(n), _) => sink.count_paths(n),
            (None, _) => {}
        }
        let learn = args.k::<u32>("LEARN")?.unwrap_or(0);
        if learn > MAX_FLOWS {
            return Err(args.error(format!("LEARN must be at most {MAX_FLOWS}: a stream has no more flows")));
        }
        let stream = args.k::<u8>("STREAM")?.unwrap_or(0);
        if stream >= MAX_STREAMS {
            return Err(args.error(format!("STREAM must be at most {}", MAX_STREAMS - 1)));
        }
        sink.learned = (learn > 0).then(|| Learned::new(stream, learn));
        Ok(Self { sink, count: Counter::new(), bytes: Counter::new(), ours: Counter::new(), awake, output })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.counter("byte_count", |e| &e.bytes);
        h.counter("ours", |e| &e.ours);
        h.sum("foreign", |e| e.sink.totals.foreign);
        h.sum("damaged", |e| e.sink.totals.damaged);
        h.sum("received", |e| e.sink.totals.received);
        h.sum("untracked", |e| e.sink.totals.untracked);
        h.sum("lost", |e| e.sink.totals.lost());
        h.sum("duplicates", |e| e.sink.totals.duplicates);
        h.sum("reordered", |e| e.sink.totals.reordered);
        h.sum("sequences", |e| e.sink.totals.sequences);
        h.sum("reordered_flows", |e| e.sink.totals.reordered_flows);
        h.list("extents", |e| lines(e.sink.reordering.extents()));
        h.list("n_reordered", |e| {
            let r = &e.sink.reordering;
            lines((1..=DEPTH).map(|n| (n, r.n_reordered(n))).take_while(|(_, frames)| *frames > 0))
        });
        h.list("paths", |e| {
            e.sink.paths().fold(String::new(), |mut text, (sender, output, frames)| {
                let _ = writeln!(text, "{sender} {output} {frames}");
                text
            })
        });
        h.sum("misrouted", |e| {
            let Some(own) = e.output else { return 0 };
            e.sink.paths().filter(|(_, output, _)| *output != own).map(|(_, _, frames)| frames).sum()
        });
        h.sum("early", |e| e.sink.totals.early);
        h.sum("rate", |e| e.sink.totals.rate().pps() as u64);
        h.list("latency", |e| summary(&e.sink.latency));
        h.list("jitter", |e| {
            let jitter = &e.sink.jitter;
            if jitter.pairs() == 0 {
                return String::new();
            }
            let [least, median, most] = [0.0, 0.5, 1.0].map(|share| jitter.signed_ns(share));
            let [half, nearly_all] = [0.5, 0.999].map(|share| jitter.absolute_ns(share));
            let (mean, smoothed, pairs) = (jitter.mean_ns(), jitter.smoothed_ns(), jitter.pairs());
            format!("{least} {median} {most} {half} {nearly_all} {mean:.0} {smoothed:.0} {pairs}\n")
        });
        h.list("histogram", |e| lines(e.sink.latency.buckets()));
        h.list("flows", |e| {
            e.sink.flows().fold(String::new(), |mut text, (stream, flow, o)| {
                let lost = o.lost();
                let _ = writeln!(
                    text,
                    "{stream} {flow} {} {lost} {} {} {}",
                    o.received, o.duplicates, o.reordered, o.sequences
                );
                text
            })
        });
        h.sum("learned", |e| e.sink.learned.as_ref().map_or(0, Learned::known) as u64);
        h.list("answers", |e| e.sink.learned.as_ref().map_or_else(String::new, Learned::text));
        h.write("expect", |e, text, _| {
            let answers = Answers::read(text).map_err(|bad| bad.to_string())?;
            let learned = e.sink.learned.as_mut().ok_or("there is no LEARN that says of how many flows")?;
            learned.expect(&answers);
            Ok(())
        });
        h.sum("changed", |e| e.sink.learned.as_ref().map_or(0, Learned::changed));
        h.list("snapshot", |e| e.sink.snapshot() + "\n");
        h.task();
        h.write("reset", |e, _, _| {
            e.sink.clear();
            [&e.count, &e.bytes, &e.ours].into_iter().for_each(|c| c.set(0));
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.awake {
            cx.reschedule();
        }
        Ok(())
    }

    /// Only reports that there is work, so that the worker does not sleep.
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        cx.reschedule();
        true
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        std::mem::swap(&mut self.sink.totals, &mut old.sink.totals);
        std::mem::swap(&mut self.sink.latency, &mut old.sink.latency);
        std::mem::swap(&mut self.sink.jitter, &mut old.sink.jitter);
        std::mem::swap(&mut self.sink.timeline, &mut old.sink.timeline);
        std::mem::swap(&mut self.sink.reordering, &mut old.sink.reordering);
        self.sink.take_paths(&old.sink);
        self.sink.take_flows(&mut old.sink);
        if let (Some(learned), Some(before)) = (&mut self.sink.learned, &mut old.sink.learned)
            && learned.is_like(before)
        {
            std::mem::swap(learned, before);
        }
        for (ours, theirs) in [(&self.count, &old.count), (&self.bytes, &old.bytes), (&self.ours, &old.ours)]
        {
            ours.set(theirs.get());
        }
    }
}

impl Vector for MeasureSink {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.sink.arrive(batch.iter().map(Packet::data), cx.now_ns());
        let totals = &self.sink.totals;
        self.count.set(totals.frames);
        self.bytes.set(totals.bytes);
        self.ours.set(totals.ours);
        if cx.n_outputs() > 0 {
            cx.output_batch(0, batch);
        } else {
            cx.recycle(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    const LINE: &str = "s :: MeasureSource(max, FLOWS 4, LIMIT 400) -> Unqueue";

    fn numbers(bench: &mut Bench, names: &[&str]) -> Vec<u64> {
        names.iter().map(|n| bench.read(n).parse().expect(n)).collect()
    }

    #[test]
    fn a_good_line_loses_nothing() {
        let mut bench = Bench::with_config(&format!("{LINE} -> e :: MeasureSink -> d :: Discard;"), 0, 0);
        bench.turns(900);
        let names = ["count", "byte_count", "ours", "received", "d.count"];
        assert_eq!(numbers(&mut bench, &names), [400, 24000, 400, 400, 400]);
        let names =
            ["foreign", "damaged", "lost", "duplicates", "reordered", "sequences", "early", "untracked"];
        assert_eq!(numbers(&mut bench, &names), [0; 8]);
        assert_eq!(bench.read("latency").trim().rsplit(' ').next(), Some("400"));
        assert_eq!(bench.read("flows").lines().collect::<Vec<_>>()[3], "0 3 100 0 0 0 0");
        let sum: u64 = bench
            .read("histogram")
            .lines()
            .map(|l| l.split(' ').nth(1).unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(sum, 400);
        bench.write("reset", "");
        assert_eq!(numbers(&mut bench, &["count", "ours", "received", "lost"]), [0; 4]);
    }

    #[test]
    fn skewed_flows_are_as_zipfs_law_says() {
        let config = "s :: MeasureSource(max, FLOWS 4, SKEW 1, LIMIT 12000) -> Unqueue -> e :: MeasureSink -> Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        while bench.read("s.done") != "true" {
            bench.turns(100);
        }
        let flows = bench.read("flows");
        let received: Vec<f64> =
            flows.lines().map(|line| line.split(' ').nth(2).unwrap().parse().unwrap()).collect();
        assert_eq!(received.iter().sum::<f64>(), 12_000.0);
        for (rank, n) in (1..).zip(&received) {
            let share = 12_000.0 / f64::from(rank) / (25.0 / 12.0);
            assert!((n / share - 1.0).abs() < 0.1, "flow {rank}: {n} frames, not {share}");
        }
        assert_eq!(numbers(&mut bench, &["lost", "reordered"]), [0; 2], "each flow keeps its numbers");
    }

    #[test]
    fn flows_beyond_the_limit_are_untracked() {
        let config = "s :: MeasureSource(max, FLOWS 100, LIMIT 400) -> Unqueue -> e :: MeasureSink(FLOWS 64) -> Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.turns(900);
        assert_eq!(numbers(&mut bench, &["ours", "received", "untracked", "lost"]), [400, 256, 144, 0]);
    }

    #[test]
    fn strangers_flows_take_little_memory_by_default() {
        // Frames of flows whose numbers are far apart, so that each also takes the memory of its 64
        // neighbors.
        let mut bench = Bench::with_config("e :: MeasureSink(CHECK false) -> Discard;", 1, 0);
        for n in 0..2000u32 {
            let mut frame = sample();
            frame[46..50].copy_from_slice(&(n << 12).to_be_bytes());
            bench.push(0, &frame);
        }
        assert_eq!(numbers(&mut bench, &["ours", "received", "untracked"]), [2000, 1024, 976]);
        assert!(Bench::error("MeasureSink(FLOWS 16777217)").contains("FLOWS must be at most 16777216"));
    }

    /// A frame of MeasureSource without checksums, with space for run, stream and flow at byte 46.
    fn sample() -> Vec<u8> {
        let mut udp = [0, 5, 0, 9, 0, 8 + 18, 0, 0].to_vec();
        udp.extend_from_slice(b"VaM1");
        udp.resize(8 + 18, 0);
        let ip = wire::Ipv4::build([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, udp.len());
        let eth = wire::Ethernet::build(wire::EtherAddr([2; 6]), wire::EtherAddr([4; 6]), 0x0800);
        [&eth.bytes()[..], &ip.bytes()[..], &udp].concat()
    }

    #[test]
    fn loss_damage_and_order_are_seen() {
        let config = format!(
            "{LINE} -> r :: RoundRobinSwitch; r[0] -> e :: MeasureSink; r[1] -> Queue(1000) -> u :: Unqueue(ACTIVE false) -> e;
             r[2] -> Discard; r[3] -> StoreEtherAddress(1:1:1:1:1:1, 50) -> e;"
        );
        let mut bench = Bench::with_config(&config, 0, 0);
        bench.turns(900);
        // Flow 0 arrives, flow 1 is delayed, flow 2 is lost without being noticed, flow 3 is damaged.
        assert_eq!(numbers(&mut bench, &["received", "damaged", "lost"]), [100, 100, 0]);
        bench.write("u.active", "true");
        bench.turns(900);
        assert_eq!(numbers(&mut bench, &["received", "lost", "reordered"]), [200, 0, 0]);
    }

    #[test]
    fn delayed_frames_are_reordered() {
        let config = "s :: MeasureSource(max, LIMIT 400) -> Unqueue -> r :: RoundRobinSwitch; r[0] -> e :: MeasureSink;
             r[1] -> Queue(1000) -> u :: Unqueue(ACTIVE false) -> e; r[2] -> Tee -> e; r[3] -> Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.turns(900);
        bench.write("u.active", "true");
        bench.turns(900);
        // The hundred delayed frames arrive one after the other. The first and the last hundred frames have
        // one at the end that leaves no visible gap.
        let names = ["received", "reordered", "sequences", "lost", "reordered_flows"];
        assert_eq!(numbers(&mut bench, &names), [300, 100, 1, 99, 1]);
        let extents = bench.read("extents");
        let sum: u64 = extents.lines().map(|l| l.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(sum, 100, "{extents}");
        // The first delayed frame comes after 199 arrivals, all but one of which are later frames.
        assert!(extents.lines().last().unwrap().starts_with("65 "), "{extents}");
        assert!(bench.read("n_reordered").starts_with("1 "));
    }

    #[test]
    fn flows_are_answered_through_a_device_that_changes_them() {
        let mirror = "-> Unqueue -> Strip(14) -> CheckIPHeader -> IPMirror -> EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4)";
        let config = format!(
            "a :: MeasureSource(max, FLOWS 40, LIMIT 40, RANDOM true, UNIQUE true, SPORT 1-20, DPORT 1-20)
             {mirror} -> r :: MeasureSink(LEARN 40) -> Discard;
             b :: MeasureSource(max, STREAM 1, ACTIVE false, LIMIT 0) {mirror} -> i :: MeasureSink(LEARN 40, STREAM 1) -> Discard;"
        );
        let mut bench = Bench::with_config(&config, 0, 0);
        bench.turns(300);
        assert_eq!(numbers(&mut bench, &["r.learned", "b.count", "i.learned"]), [40, 0, 0]);
        let answers = bench.read("r.answers");
        assert!(
            answers.starts_with("ether 02:00:00:00:00:04 02:00:00:00:00:03\n0 198.18.0.1 198.19.0.1 "),
            "{answers}"
        );
        bench.write("b.answers", &answers);
        bench.turns(300);
        assert_eq!(
            numbers(&mut bench, &["b.count", "i.learned", "i.received", "i.damaged"]),
            [40, 40, 40, 0]
        );
        assert_eq!(bench.read("b.done"), "true");
        let flows = |text: &str| {
            text.lines().filter(|line| !line.starts_with("ether")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(flows(&bench.read("i.answers")), flows(&bench.read("a.tuples")), "each as it was sent");
        let different: std::collections::HashSet<_> =
            flows(&answers).iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
        assert_eq!(different.len(), 40);
        // Frames over the same connections, for a time: as they were, and as those of others.
        bench.write("r.reset", "");
        bench.write("r.expect", &answers);
        for (handler, value) in [("limit", "120"), ("rate", "max"), ("reset", "")] {
            bench.write(&format!("a.{handler}"), value);
        }
        bench.turns(400);
        assert_eq!(numbers(&mut bench, &["r.received", "r.changed", "r.learned"]), [120, 0, 40]);
        let other = answers.replacen("\n0 198.18.0.1", "\n0 198.18.0.9", 1);
        bench.write("r.expect", &other);
        bench.write("a.reset", "");
        bench.turns(400);
        assert_eq!(numbers(&mut bench, &["r.received", "r.changed"]), [240, 3]);
        assert!(bench.try_write("r.expect", "x").is_err());
        // The Responder has them too, but sends only when it is told so.
        bench.write("b.active", "false");
        bench.write("b.take_flows", &answers);
        bench.write("b.limit", "80");
        bench.write("b.duration", "100");
        bench.turns(300);
        assert_eq!(numbers(&mut bench, &["b.flows", "b.count"]), [40, 40]);
        bench.write("b.active", "true");
        bench.write("b.reset", "");
        bench.turns(400);
        assert_eq!((bench.read("b.count"), bench.read("b.done")), ("80".into(), "true".into()));
        // The same once more, by flows of the other version.
        bench.write("b.answers", "3 2001:2::1 2001:2:0:1::1 5 6\n");
        bench.turns(300);
        assert_eq!(
            (bench.read("b.tuples").as_str(), bench.read("b.count").as_str()),
            ("3 2001:2::1 2001:2:0:1::1 5 6\n", "1")
        );
        assert!(bench.try_write("b.answers", "1 2 3").is_err());
        assert!(Bench::error("MeasureSink(LEARN 1048577)").contains("at most 1048576"));
        assert!(Bench::error("MeasureSink(LEARN 1, STREAM 16)").contains("at most 15"));
    }

    #[test]
    fn jitter_is_that_of_a_known_delay_pattern() {
        // A frame each millisecond; every other one is delayed by 400 us.
        let config = "MeasureSource(1k, LIMIT 101) -> Unqueue -> r :: RoundRobinSwitch; r[0] -> e :: MeasureSink -> Discard;
            r[1] -> DelayUnqueue(0.0004) -> e;";
        let mut bench =
            Bench::simulated(&config.replace("-> DelayUnqueue", "-> Queue(9) -> DelayUnqueue"), 0, 0);
        bench.turns(3000);
        let all: Vec<f64> =
            bench.read("jitter").split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [least, _, most, median, p99_9, mean, _, pairs] = all[..] else { panic!("{all:?}") };
        assert_eq!(pairs, 100.0);
        // Simulated time goes on in steps of its own.
        for (name, ns) in
            [("least", -least), ("most", most), ("median", median), ("99.9", p99_9), ("mean", mean)]
        {
            assert!((300_000.0..500_000.0).contains(&ns), "{name}: {all:?}");
        }
    }

    #[test]
    fn keeps_workers_awake_if_asked_to() {
        for (arguments, scheduled) in [("", "false"), ("AWAKE true", "true")] {
            let mut bench = Bench::new(&format!("MeasureSink({arguments})"));
            bench.turns(3);
            assert_eq!(bench.read("scheduled"), scheduled);
        }
        let config =
            "e :: MeasureSink(AWAKE true); Idle -> e; t :: TimedSource(0.1, LIMIT 3) -> d :: Discard;";
        let mut bench = Bench::simulated(config, 0, 0);
        bench.turns(30);
        assert_eq!(bench.read("d.count"), "3");
    }

    #[test]
    fn frames_for_each_output_are_as_many_as_their_parts() {
        let config = "s :: MeasureSource(max, LIMIT 1000, FLOWS 10, OUTPUTS \"10.1.0.0/16; 10.2.0.0/16;10.3.0.1\",
                PARTS \"0.7 0.3 0\") -> Unqueue -> MarkIPHeader(14) -> c :: IPClassifier(dst net 10.1.0.0/16, -);
            c[0] -> a :: MeasureSink(OUTPUTS 3, OUTPUT 0); c[1] -> b :: MeasureSink(OUTPUTS 3, OUTPUT 1);
            t :: MeasureSource(max, STREAM 1, LIMIT 90, OUTPUTS \"10.1.0.0/16; 10.2.0.0/16;10.3.0.1\")
                -> Unqueue -> a;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.turns(1200);
        assert_eq!((bench.read("s.made_to"), bench.read("s.flows")), ("0 700\n1 300\n".into(), "10".into()));
        assert_eq!(bench.read("t.made_to"), "0 30\n1 30\n2 30\n");
        // What has come past the classifier is at another output than it was for.
        assert_eq!(bench.read("a.paths"), "0 0 700\n1 0 30\n1 1 30\n1 2 30\n");
        assert_eq!((bench.read("a.misrouted"), bench.read("a.reordered")), ("60".into(), "0".into()));
        assert_eq!((bench.read("b.paths"), bench.read("b.misrouted")), ("0 1 300\n".into(), "0".into()));
        bench.write("a.reset", "");
        bench.write("s.reset", "");
        assert_eq!((bench.read("a.misrouted"), bench.read("s.made_to")), ("0".into(), "0 0\n1 0\n".into()));
        for (arguments, words) in [
            ("OUTPUTS 17", "1 to 16"),
            ("OUTPUTS 2, OUTPUT 2", "OUTPUT must be less"),
            ("OUTPUT 0", "OUTPUT must"),
        ] {
            let error = Bench::error(&format!("MeasureSink({arguments})"));
            assert!(error.contains(words), "{arguments}: {error}");
        }
    }

    #[test]
    fn workers_keep_the_parts_together() {
        for random in ["", ", RANDOM true"] {
            let config = format!(
                "s :: MeasureSource(max, LIMIT 4000, FLOWS 6, SKEW 1, OUTPUTS \"10.1.0.0/16; 10.2.0.0/16\",
                    PARTS \"0.75 0.25\"{random}) -> Unqueue -> e :: MeasureSink(OUTPUTS 2);"
            );
            let mut bench = Bench::workers(&config, 2, 0, 0);
            bench.turns(2500);
            let mut sums = [0u64; 2];
            for line in bench.read("e.paths").lines() {
                let n: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
                sums[n[1] as usize] += n[2];
            }
            assert_eq!((sums[0] + sums[1], bench.read("e.reordered")), (4000, "0".into()), "{sums:?}");
            if random.is_empty() {
                assert_eq!(sums, [3000, 1000]);
            } else {
                assert!(sums[0].abs_diff(3000) < 200 && sums[0] != 3000, "{sums:?}");
            }
        }
    }

    #[test]
    fn others_are_foreign() {
        let mut bench = Bench::new("MeasureSink()");
        assert_eq!(bench.push(0, &[0; 60]).len(), 1);
        assert_eq!(bench.push(0, &[]).len(), 1);
        assert_eq!(numbers(&mut bench, &["count", "foreign", "byte_count"]), [2, 2, 60]);
    }
}
