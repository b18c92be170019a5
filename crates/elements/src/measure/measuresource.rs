//! # MeasureSource
//! Makes UDP frames that MeasureSink can measure, at a given rate or as fast as they are pulled.
//!
//! Frames are Ethernet with IPv4 or IPv6 and UDP, with correct checksums. Their payload begins with 18 bytes:
//! the frame's flow, its sequence number, and the time when it was made. With `PCAP` it sends the frames of a
//! capture file instead, as they are.
//!
//! A frame's length is what software sees: without the frame check sequence, preamble and gap.
//!
//! ## Synopsis
//! `MeasureSource([RATE, SIZE, LIMIT, DURATION, FLOWS, SRC, DST, SPORT, DPORT, RANDOM, UNIQUE, SKEW, IPV6, SRCETH, DSTETH, TTL, PCAP, STREAM, OUTPUTS, PARTS, SEED, CATCHUP, ACTIVE, STOP])`
//!
//! ## Arguments
//! `RATE` may be given by position; all others are by keyword.
//! - `RATE` (*rate*, default max): `1M` or `14.88Mpps` (packets per second), `10Gbps` (bits per second,
//!   counting the frames' own bytes), `10Gbps-l1` (bits per second, counting also Ethernet's overhead of 24
//!   bytes per frame), or `max`. This is the rate of all workers together.
//! - `SIZE` (*sizes*, bytes, default 60, or 80 with IPv6): one size (`60`), a range (`60-1514`, uniform at
//!   random), `imix` (the same as 60:7,590:4,1514:1), `imix-csit` (60:7,566:4,1514:1), or other sizes with
//!   weights in this form.
//! - `LIMIT` (*int*): the total number of frames. A negative number means no limit, which is the default
//!   unless `PCAP` is given.
//! - `DURATION` (*time*): for how long to send, from the first frame; 0, the default, means no limit.
//! - `FLOWS` (*int*, up to 1048576): the number of flows; their frames are sent in turn. The default is one
//!   flow for each combination of the given addresses and ports, up to 65536. Each worker has its own flows.
//! - `SRC`, `DST` (*string*): addresses, prefixes and ranges, separated by spaces; or `@FILE`, a file of
//!   them, with `#` for comments. The defaults are 198.18.0.1 and 198.19.0.1, or 2001:2::1 and 2001:2:0:1::1.
//! - `SPORT`, `DPORT` (*string*): ports and ranges. By default the source port counts up from 1024, as many
//!   ports as there are flows, and the destination port is 9.
//! - `RANDOM` (*bool*, default false): each flow takes addresses and ports at random rather than in order.
//! - `UNIQUE` (*bool*, default false): with `RANDOM`, no two flows have the same addresses and ports: all
//!   combinations are taken in a pseudorandom order (RFC 4814, RFC 9693). In order they never have.
//! - `SKEW` (*real number*, 0 to 10, default 0): flows are drawn by Zipf's law with this exponent, rather
//!   than sent in turn: the k-th flow has a share of the frames in proportion to 1/k^SKEW. Each worker draws
//!   among its own flows.
//! - `IPV6` (*bool*, default false): IPv6 rather than IPv4.
//! - `SRCETH`, `DSTETH` (*Ethernet address*, default 2:0:0:0:0:1 and 2:0:0:0:0:2): the link addresses.
//! - `TTL` (*int*, default 64): time to live, or hop limit.
//! - `PCAP` (*filename*): a capture of Ethernet frames, read into memory. It is sent once unless `LIMIT` or
//!   `DURATION` is given. If N workers pull, each of them sends every N-th frame, so order is kept only if
//!   one does.
//! - `STREAM` (*int*, 0 to 15, default 0): distinguishes the flows of several sources at one sink.
//! - `OUTPUTS` (*string*): in place of `DST`, the addresses behind each output of a device under test, those
//!   of the outputs separated by semicolons; no address is in two of them. Each flow goes to one output;
//!   `FLOWS` are divided among the outputs by `PARTS`, at least one for each. Flows of different outputs have
//!   numbers by which MeasureSink distinguishes them.
//! - `PARTS` (*string*): numbers, one for each of `OUTPUTS`: the parts of the frames that go there, 0 for
//!   none. By default all are the same. Outputs are taken in the order that keeps the parts at any time
//!   (weighted round-robin), or with `RANDOM` drawn.
//! - `SEED` (*int*, default 1): the seed of all random choices; the same seed makes the same frames.
//! - `CATCHUP` (*time*, default 10ms): if frames are not pulled in time, the source sends late frames of at
//!   most this time afterwards; older ones are counted as missed.
//! - `ACTIVE` (*bool*, default true): whether to make frames.
//! - `STOP` (*bool*, default false): whether to stop the driver after the last frame.
//!
//! ## Ports
//! No input, one pull output: the source is as fast as the device that it feeds, and no frame is dropped
//! before the wire.
//!
//! ## Handlers
//! - `count` (read): frames made.
//! - `byte_count` (read): their bytes.
//! - `rate` (read/write): the `RATE` argument. A hot swap to the same arguments keeps the values that were
//!   written to `rate` and `active`.
//! - `achieved` (read): frames per second, from the first frame to the last, of each worker.
//! - `missed` (read): frames that the rate required and that were not pulled in time.
//! - `flows` (read): the number of flows, or of frames in the capture.
//! - `made_to` (read): with `OUTPUTS`, for each output its number, from 0, and the frames made for it, a line
//!   for each worker and output with a part.
//! - `tuples` (read): a line `FLOW SOURCE DESTINATION SPORT DPORT` for each flow; none for a capture.
//! - `done` (read): whether `LIMIT` or `DURATION` is reached.
//! - `active` (read/write): the `ACTIVE` argument.
//! - `limit`, `duration` (write): other values of the arguments `LIMIT` and `DURATION`, for what is sent now;
//!   `reset` begins anew with them.
//! - `take_flows` (write): other flows in place of its own, as `answers` has them, and nothing else: when and
//!   how many frames are sent is as it was.
//! - `answers` (write): other flows in place of its own, as the handler `answers` of MeasureSink has them. It
//!   becomes active and sends one frame of each, whatever `LIMIT` and `FLOWS` are; several workers share
//!   them. Link addresses are those of the last line `ether`, if there is one.
//! - `snapshot` (read): counts and times of each worker on a line, for programs.
//! - `reset` (write): starts again: the limit and the duration count from zero.
//!
//! ## Threads
//! Each worker that pulls makes its share of the rate, the limit and the flows. A hot swap that changes which
//! workers pull begins a new run, as one that changes arguments does.
//!
//! ## Example
//! ```click
//! MeasureSource(LIMIT 1000, SIZE imix, FLOWS 4, STOP true) -> Unqueue -> sink :: MeasureSink;
//! ```
//!
//! ## See also
//! MeasureSink, FastUDPSource, RatedSource, FromDump

use super::engine::frames::{FrameContents, Frames};
use super::engine::outputs::ByOutput;
use super::engine::pacing::Pacing;
use super::engine::replay::{self, Replay};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{EtherAddr, Filename};
use measure::flows::{FlowSpec, Set};
use measure::learned::Answers;
use measure::rate::{Achieved, Rate};
use measure::sizes::Sizes;
use measure::tag;
use measure::timeline::Timeline;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The shortest wait for which the worker sleeps; it wakes up this long before a frame is due.
const EARLY_NS: u64 = 60_000;

/// The `MeasureSource` element.
pub struct MeasureSource {
    frames: Frames,
    answering: Box<Answering>,
    /// The next frame's length.
    len: usize,
    pacing: Pacing,
    /// The worker's place among the workers that pull, and how many they are; `None` if it does not.
    share: Option<(usize, usize)>,
    limit: u64,
    duration_ns: u64,
    active: bool,
    stop: bool,
    done: bool,
    count: Counter,
    bytes: Counter,
    /// The time of the first pull; 0 if there was none.
    start_ns: u64,
    first_ns: u64,
    last_ns: u64,
    /// Frames over time.
    timeline: Timeline,
    shared: Arc<Shared>,
}

/// What frames of other flows need.
struct Answering {
    contents: FrameContents,
    /// The `SIZE` argument.
    given: Option<Sizes>,
    seed: u64,
}

/// State that the replicas share. If other workers pull after a hot swap, it is made anew: they make other
/// flows.
struct Shared {
    /// How many workers that pull have not finished.
    busy: AtomicUsize,
    /// The number that distinguishes this run's frames from others.
    run: u8,
    pulled_by: u128,
}

/// A number for a run: different for each run of this process, and very probably from that of the last run of
/// another process.
fn new_run() -> u8 {
    static FIRST: OnceLock<u8> = OnceLock::new();
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let first = FIRST.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        (now >> 16) as u8 ^ (now >> 26) as u8
    });
    first.wrapping_add(RUNS.fetch_add(1, Ordering::Relaxed) as u8)
}

/// A worker's part of a number of frames; without a limit it has none either.
fn part_of(limit: u64, (place, workers): (usize, usize)) -> u64 {
    if limit == u64::MAX { limit } else { Rate::Packets(limit).share(place, workers).per_s().unwrap_or(0) }
}

/// Adds to an error which argument it is about.
fn named<T>(name: &str, read: Result<T, measure::Bad>) -> Result<T, ArgError> {
    read.map_err(|e| ArgError::new(format!("{name}: {e}")))
}

/// Reads `@FILE` or the text itself.
fn listed(name: &str, text: &str) -> Result<String, ArgError> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(path) => std::fs::read_to_string(path).map_err(|e| {
            let reason = e.to_string();
            ArgError::new(format!(
                "{name}: {path}: {}",
                reason.split(" (os error").next().unwrap_or_default()
            ))
        }),
    }
}

/// The sizes of frames if none are given.
fn shortest(six: bool) -> Result<Sizes, measure::Bad> {
    Sizes::parse(if six { "80" } else { "60" })
}

/// Reads `SRC` or `DST`: IPv6 addresses or IPv4 addresses.
fn addresses(args: &mut Args<'_>, name: &'static str, six: bool, default: &str) -> Result<Set, ArgError> {
    let text = args.k::<String>(name)?.map_or(Ok(default.to_owned()), |text| listed(name, &text))?;
    named(name, measure::flows::addresses(&text, six))
}

/// Reads `OUTPUTS` and `PARTS`.
fn outputs(args: &mut Args<'_>, six: bool) -> Result<Option<ByOutput>, ArgError> {
    let (text, parts) = (args.k::<String>("OUTPUTS")?, args.k::<String>("PARTS")?);
    let Some(text) = text else {
        let useless = || ArgError::new("PARTS: there are no OUTPUTS that have parts");
        return parts.map_or(Ok(None), |_| Err(useless()));
    };
    let one = |text: &str| named("OUTPUTS", measure::flows::addresses(&listed("OUTPUTS", text.trim())?, six));
    ByOutput::new(text.split(';').map(one).collect::<Result<_, _>>()?, parts.as_deref()).map(Some)
}

/// Reads `SPORT` or `DPORT`.
fn ports(args: &mut Args<'_>, name: &'static str) -> Result<Option<Set>, ArgError> {
    args.k::<String>(name)?.map(|text| named(name, Set::ports(&text))).transpose()
}

impl Element for MeasureSource {
    const CLASS: &'static str = "MeasureSource";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Empty;
    const READS: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("measure/measuresource");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let asked =
            args.p::<String>("RATE")?.map_or(Ok(Rate::Unlimited), |t| named("RATE", Rate::parse(&t)))?;
        let six = args.k("IPV6")?.unwrap_or(false);
        let given = args.k::<String>("SIZE")?.map(|text| named("SIZE", Sizes::parse(&text))).transpose()?;
        let sizes = given.clone().map_or_else(|| named("SIZE", shortest(six)), Ok)?;
        let limit = args.k::<i64>("LIMIT")?;
        let duration_ns = args.k::<Duration>("DURATION")?.map_or(0, text::nanos);
        let flows = args.k::<u32>("FLOWS")?;
        let default = measure::flows::default_addresses(six);
        let src = addresses(args, "SRC", six, default.0)?;
        let outputs = outputs(args, six)?;
        if outputs.is_some() && args.k::<String>("DST")?.is_some() {
            return Err(ArgError::new("DST: OUTPUTS say where frames go"));
        }
        let dst = addresses(args, "DST", six, default.1)?;
        let (sport, dport) = (ports(args, "SPORT")?, ports(args, "DPORT")?);
        let random = args.k("RANDOM")?.unwrap_or(false);
        let unique = args.k("UNIQUE")?.unwrap_or(false);
        let skew =
            args.k::<String>("SKEW")?.map_or(Ok(0.0), |text| named("SKEW", measure::zipf::skew(&text)))?;
        let mac = |m: EtherAddr| wire::EtherAddr(m.0);
        let src_eth = args.k::<EtherAddr>("SRCETH")?.map_or(wire::EtherAddr([2, 0, 0, 0, 0, 1]), mac);
        let dst_eth = args.k::<EtherAddr>("DSTETH")?.map_or(wire::EtherAddr([2, 0, 0, 0, 0, 2]), mac);
        let ttl = args.k::<u8>("TTL")?.unwrap_or(64);
        let pcap = args.k::<Filename>("PCAP")?;
        pcap.iter().try_for_each(|Filename(path)| cx.permits(Outside::Read(path), args))?;
        let stream = args.k::<u8>("STREAM")?.unwrap_or(0);
        let seed = args.k::<u64>("SEED")?.unwrap_or(1);
        let catchup_ns = args.k::<Duration>("CATCHUP")?.map_or(10_000_000, text::nanos);
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let stop = args.k("STOP")?.unwrap_or(false);
        if stream >= tag::MAX_STREAMS {
            return Err(ArgError::new(format!(
                "STREAM: {stream} is too large, up to {}",
                tag::MAX_STREAMS - 1
            )));
        }

        let pulled = cx.pull_share();
        // What nobody pulls makes nothing.
        let share = pulled.unwrap_or((0, 1));
        let (pulled_by, all) = (cx.pulled_by(), cx.workers());
        let shared = cx.shared_if(
            |old: &Shared| old.pulled_by == pulled_by,
            || {
                let busy = if pulled_by == 0 { all } else { pulled_by.count_ones() as usize };
                Shared { busy: AtomicUsize::new(busy), run: new_run(), pulled_by }
            },
        );
        let (mut lengths, mut limit) = (
            (sizes.bounds().0, sizes.bounds().1, sizes.mean()),
            limit.map_or(u64::MAX, |l| u64::try_from(l).unwrap_or(u64::MAX)),
        );
        let spec = FlowSpec { src, dst, sport, dport, random, unique, seed, flows };
        let contents =
            FrameContents { src: src_eth, dst: dst_eth, ttl, stream, sizes, skew, run: shared.run, outputs };
        let mut frames = match pcap {
            Some(path) => {
                let frames =
                    replay::load(cx.hub(), &path.0).map_err(|e| ArgError::new(format!("PCAP: {e}")))?;
                let replay = Replay::new(frames, share.0, share.1);
                lengths = replay.lengths();
                if limit == u64::MAX && duration_ns == 0 {
                    limit = replay.len() as u64;
                }
                Frames::Replay(replay)
            }
            None => Frames::of_flows(&spec, &contents, six, share)?,
        };
        let len = frames.first_len();
        let answering = Box::new(Answering { contents, given, seed });
        limit = part_of(limit, share);
        Ok(Self {
            frames,
            answering,
            len,
            pacing: Pacing::new(asked, share, catchup_ns, lengths, len),
            share: pulled,
            limit,
            duration_ns,
            active,
            stop,
            done: pulled.is_none(),
            count: Counter::new(),
            bytes: Counter::new(),
            start_ns: 0,
            first_ns: 0,
            last_ns: 0,
            timeline: Timeline::default(),
            shared,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.counter("byte_count", |e| &e.bytes);
        h.read("rate", |e| e.pacing.asked().to_string());
        h.write("rate", |e, v, cx| {
            e.pacing.set_rate(Rate::parse(v).map_err(|e| e.to_string())?, e.len);
            cx.set_nonempty(e.active && !e.done);
            Ok(())
        });
        h.list("achieved", |e| format!("{:.0}\n", e.achieved().pps()));
        h.sum("missed", |e| e.pacing.missed());
        h.sum("flows", |e| e.flows());
        h.list("made_to", |e| {
            let line = |(output, n): (usize, u64)| format!("{output} {n}\n");
            e.frames.made_to().into_iter().map(line).collect()
        });
        h.list("tuples", |e| if e.share.is_some() { e.frames.tuples() } else { String::new() });
        h.shared_read::<Shared>("done", |s, _| Ok((s.busy.load(Ordering::Relaxed) == 0).to_string()));
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, cx| {
            e.active = text::value(v, "active parameter must be boolean")?;
            cx.set_nonempty(e.active && !e.done);
            Ok(())
        });
        h.write("limit", |e, v, _| {
            let all: i64 = v.trim().parse().map_err(|_| format!("'{v}' is no number of frames"))?;
            e.set_limit(u64::try_from(all).unwrap_or(u64::MAX));
            Ok(())
        });
        h.write("duration", |e, v, _| {
            e.duration_ns = text::nanos(lang::args::parse(v).map_err(|bad| bad.to_string())?);
            Ok(())
        });
        h.write("take_flows", |e, text, _| {
            let answers = Answers::read(text).map_err(|bad| bad.to_string())?;
            e.take_flows(&answers)
        });
        h.write("answers", |e, text, cx| {
            let answers = Answers::read(text).map_err(|bad| bad.to_string())?;
            e.take_flows(&answers)?;
            (e.limit, e.duration_ns, e.active) = (e.frames.flows() as u64, 0, true);
            e.restart(cx);
            Ok(())
        });
        h.list("snapshot", |e| {
            format!(
                "frames={} bytes={} first_ns={} last_ns={} missed={} timeline={}\n",
                e.count.get(),
                e.bytes.get(),
                e.first_ns,
                e.last_ns,
                e.pacing.missed(),
                e.timeline.text()
            )
        });
        h.write("reset", |e, _, cx| {
            e.restart(cx);
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_nonempty(self.active && !self.done);
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.set_nonempty(self.active && !self.done);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.bytes.set(old.bytes.get());
        (self.start_ns, self.first_ns, self.last_ns) = (old.start_ns, old.first_ns, old.last_ns);
        std::mem::swap(&mut self.timeline, &mut old.timeline);
        self.pacing.inherit(&old.pacing);
        // With the same arguments, and pulled by the same workers, the flows continue. Otherwise a new run
        // begins.
        if Arc::ptr_eq(&self.shared, &old.shared) {
            std::mem::swap(&mut self.frames, &mut old.frames);
            (self.len, self.done, self.active) = (old.len, old.done, old.active);
            (self.limit, self.duration_ns) = (old.limit, old.duration_ns);
            // Values that a handler has set are kept, with the pacing state that belongs to them.
            std::mem::swap(&mut self.pacing, &mut old.pacing);
        }
        cx.set_nonempty(self.active && !self.done);
    }
}

impl Vector for MeasureSource {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        if !self.active || self.done {
            return cx.set_nonempty(false);
        }
        let now = cx.now_ns();
        if self.start_ns == 0 {
            self.start_ns = now;
        }
        // Frames that were due before the end are still sent after it.
        let end =
            if self.duration_ns == 0 { u64::MAX } else { self.start_ns.saturating_add(self.duration_ns) };
        let over = now >= end;
        let budget = self.pacing.budget(now.min(end.saturating_sub(1)));
        let price = self.pacing.rate().cost(self.len);
        if self.left() == 0 || (over && (!self.pacing.is_limited() || price > budget)) {
            return self.finish(cx);
        }
        if price > budget {
            match self.pacing.wait_ns(price) {
                Some(wait) if wait < 2 * EARLY_NS => {}
                Some(wait) => {
                    cx.timer_at(0, now.saturating_add(wait).min(end).saturating_sub(EARLY_NS));
                    cx.set_nonempty(false);
                }
                None => cx.set_nonempty(false),
            }
            return;
        }
        let affordable = self.pacing.affordable(budget);
        let wanted = (max as u64).min(self.left()).min(affordable) as usize;
        let before = out.len();
        out.push_empty(wanted);
        let packets = out.get_mut(before..).unwrap_or_default();
        let made = self.frames.make(packets, &mut self.len, self.pacing.rate(), budget, now);
        out.truncate(before + made.frames);
        self.pacing.spend(made.cost);
        if made.frames > 0 {
            self.count.add(made.frames as u64);
            self.bytes.add(made.bytes);
            self.last_ns = now;
            if let Some(span) = self.timeline.at(now) {
                span.sent += made.frames as u64;
            }
            if self.first_ns == 0 {
                self.first_ns = now;
            }
        }
    }
}

impl MeasureSource {
    /// So many frames of all workers together.
    fn set_limit(&mut self, all: u64) {
        self.limit = part_of(all, self.share.unwrap_or((0, 1)));
    }
    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.count.get())
    }
    fn flows(&self) -> u64 {
        let Some((place, _)) = self.share else { return 0 };
        // The workers share the frames of a capture file.
        if matches!(self.frames, Frames::Replay(_)) && place > 0 {
            return 0;
        }
        self.frames.flows() as u64
    }
    fn achieved(&self) -> Achieved {
        Achieved::between(self.count.get(), self.bytes.get(), self.first_ns, self.last_ns)
    }
    fn finish(&mut self, cx: &mut Cx<'_>) {
        if !self.done {
            self.done = true;
            let last = self.shared.busy.fetch_sub(1, Ordering::Relaxed) == 1;
            if last && self.stop {
                cx.request_stop();
            }
        }
        cx.set_nonempty(false);
    }
    /// Takes a worker's part of these flows in place of its own.
    fn take_flows(&mut self, answers: &Answers) -> Result<(), String> {
        let six = answers.flows.first().is_some_and(|(_, tuple)| tuple.src.is_ipv6());
        let Answering { contents, given, seed } = &*self.answering;
        let mut contents = contents.clone();
        if let Some((src, dst)) = answers.ether {
            (contents.src, contents.dst) = (src, dst);
        }
        contents.sizes = given.clone().map_or_else(|| shortest(six), Ok).map_err(|bad| bad.to_string())?;
        let frames = Frames::of_answers(answers, &contents, *seed, self.share)?;
        self.frames = frames;
        self.len = self.frames.first_len();
        Ok(())
    }
    fn restart(&mut self, cx: &mut Cx<'_>) {
        if self.done && self.share.is_some() {
            self.done = false;
            self.shared.busy.fetch_add(1, Ordering::Relaxed);
        }
        self.count.set(0);
        self.bytes.set(0);
        (self.start_ns, self.first_ns, self.last_ns) = (0, 0, 0);
        self.timeline = Timeline::default();
        if let Some(chooser) = self.frames.chooser() {
            chooser.restart();
        }
        self.pacing.restart(self.len);
        cx.set_nonempty(self.active && !self.done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use measure::classify::{Frame, classify};

    fn tags(packets: &[(usize, Packet)]) -> Vec<tag::Tag> {
        let tag = |p: &Packet| match classify(p.data(), true) {
            Frame::Ours(tag) => tag,
            other => panic!("{other:?}"),
        };
        packets.iter().map(|(_, p)| tag(p)).collect()
    }

    #[test]
    fn makes_right_frames_of_its_flows_in_turn() {
        for (arguments, shortest) in [("", 60), (", IPV6 true", 80)] {
            let mut bench = Bench::new(&format!(
                "MeasureSource(max, FLOWS 3, LIMIT 10, STREAM 5, SIZE {shortest}-200{arguments})"
            ));
            let packets = bench.pull(0, 32);
            assert!(packets.iter().all(|(_, p)| (shortest..=200).contains(&p.len())));
            let tags = tags(&packets);
            let seen: Vec<_> = tags.iter().map(|t| (t.stream, t.flow, t.seq)).collect();
            assert_eq!(seen[..4], [(5, 0, 0), (5, 1, 0), (5, 2, 0), (5, 0, 1)]);
            assert_eq!(
                (seen.len(), bench.read("count"), bench.read("done")),
                (10, "10".into(), "false".into())
            );
            assert!(bench.pull(0, 1).is_empty());
            assert_eq!((bench.read("done"), bench.read("flows")), ("true".into(), "3".into()));
            bench.write("reset", "");
            assert_eq!((bench.pull(0, 99).len(), bench.read("done")), (10, "false".into()));
        }
    }

    /// Frames pulled over `ms` milliseconds of simulated time.
    fn pulled(arguments: &str, ms: usize) -> (u64, u64, Bench) {
        let config = format!("e :: MeasureSource({arguments}); t :: TimedSource(0.0001) -> Discard;");
        let mut bench = Bench::simulated(&config, 0, 1);
        let (mut frames, mut bytes) = (0, 0);
        let start = bench.router().now_ns();
        while bench.router().now_ns() - start < ms as u64 * 1_000_000 {
            for (_, packet) in bench.pull(0, 256) {
                frames += 1;
                bytes += packet.len() as u64;
            }
            bench.turn();
        }
        (frames, bytes, bench)
    }

    #[test]
    fn keeps_rates_in_packets_and_in_bits() {
        for (rate, frames, bytes) in [("100k", 2000, 0), ("8Mbps", 0, 20_000), ("16Mbps-l1", 0, 40_000)] {
            let (got, got_bytes, _) = pulled(&format!("{rate}, SIZE imix"), 20);
            if frames > 0 {
                assert!(got.abs_diff(frames) <= 2 * frames / 100, "{rate}: {got}");
            } else {
                let overhead = if rate.ends_with("-l1") { 24 * got } else { 0 };
                assert!((got_bytes + overhead).abs_diff(bytes) <= 2 * 1538, "{rate}: {got_bytes} {got}");
            }
        }
    }

    #[test]
    fn a_duration_ends_with_all_that_was_due() {
        let (frames, _, mut bench) = pulled("30k, DURATION 0.02s", 40);
        assert_eq!((frames, bench.read("done")), (600, "true".into()));
        assert_eq!(bench.read("missed"), "0");
    }

    #[test]
    fn what_nobody_takes_in_time_is_missed() {
        let config = "e :: MeasureSource(1k, CATCHUP 5ms); t :: TimedSource(0.1) -> Discard;";
        let mut bench = Bench::simulated(config, 0, 1);
        assert_eq!(bench.pull(0, 99).len(), 1);
        bench.turns(6);
        assert_eq!(bench.pull(0, 99).len(), 6);
        assert!(bench.read("missed").parse::<u64>().unwrap() > 50);
        bench.write("rate", "max");
        assert_eq!((bench.pull(0, 99).len(), bench.read("rate")), (99, "max".into()));
        bench.write("active", "false");
        assert!(bench.pull(0, 99).is_empty());
    }

    #[test]
    fn workers_share_limit_and_flows() {
        let config = "s :: MeasureSource(max, FLOWS 5, LIMIT 101) -> Unqueue -> e :: MeasureSink;";
        let mut bench = Bench::workers(config, 3, 0, 0);
        bench.turns(50);
        assert_eq!((bench.read("s.count"), bench.read("s.flows")), ("101".into(), "5".into()));
        assert_eq!(
            (bench.read("received"), bench.read("lost"), bench.read("s.done")),
            ("101".into(), "0".into(), "true".into())
        );
    }

    #[test]
    fn only_workers_that_pull_have_a_share() {
        let config = "s :: MeasureSource(max, FLOWS 5, LIMIT 101) -> u :: Unqueue -> e :: MeasureSink;
            StaticThreadSched(u 1);";
        let mut bench = Bench::workers(config, 3, 0, 0);
        bench.turns(150);
        assert_eq!((bench.read("s.count"), bench.read("s.flows")), ("101".into(), "5".into()));
        assert_eq!((bench.read("lost"), bench.read("s.done")), ("0".into(), "true".into()));
        bench.write("s.reset", "");
        assert_eq!(bench.read("s.done"), "false");
        bench.turns(150);
        assert_eq!((bench.read("s.count"), bench.read("s.done")), ("101".into(), "true".into()));
    }

    #[test]
    fn shares_follow_a_swap_that_changes_who_pulls() {
        let text = "s :: MeasureSource(max, FLOWS 5, LIMIT 300) -> u :: Unqueue -> e :: MeasureSink;";
        let pinned = format!("{text} StaticThreadSched(u 1);");
        let mut bench = Bench::workers(&pinned, 3, 0, 0);
        bench.turns(20);
        let made = bench.read("s.count").parse::<u64>().unwrap();
        assert!(made > 0 && made < 300, "{made}");
        for config in [text, &pinned] {
            bench.router().hotswap(lang::Source::new("next", config.to_owned())).unwrap();
            bench.write("s.reset", "");
            assert_eq!(bench.read("s.done"), "false");
            bench.turns(400);
            assert_eq!((bench.read("s.count"), bench.read("s.done")), ("300".into(), "true".into()));
        }
    }

    #[test]
    fn more_workers_than_bits_have_a_share_each() {
        let config = "s :: MeasureSource(max, LIMIT 1000) -> u :: Unqueue -> e :: MeasureSink;
            StaticThreadSched(u 129);";
        let mut bench = Bench::workers(config, 130, 0, 0);
        bench.turns(5);
        assert_ne!(bench.read("s.count"), "0");
    }

    #[test]
    fn a_swap_that_fails_leaves_a_finished_source_finished() {
        let text = "s :: MeasureSource(max, LIMIT 5) -> Unqueue -> e :: MeasureSink;";
        let mut bench = Bench::workers(text, 2, 0, 0);
        bench.turns(20);
        assert_eq!((bench.read("s.count"), bench.read("s.done")), ("5".into(), "true".into()));
        let wrong = format!("{text} Error(no);");
        assert!(bench.router().hotswap(lang::Source::new("next", wrong)).is_err());
        assert_eq!(bench.read("s.done"), "true");
    }

    #[test]
    fn a_swap_that_changes_who_pulls_repeats_no_frame() {
        let text = "s :: MeasureSource(max, FLOWS 6) -> u :: Unqueue -> e :: MeasureSink;";
        let pinned = format!("{text} StaticThreadSched(u 1);");
        let mut bench = Bench::workers(&pinned, 3, 0, 0);
        bench.turns(20);
        for config in [text, &pinned] {
            bench.router().hotswap(lang::Source::new("next", config.to_owned())).unwrap();
            bench.turns(20);
            assert_eq!((bench.read("e.duplicates"), bench.read("e.reordered")), ("0".into(), "0".into()));
        }
    }

    #[test]
    fn frames_of_a_capture() {
        let mut bytes: Vec<u8> =
            [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65535, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
        for n in 1..=3u32 {
            bytes.extend([0, 0, 60 + n, 60 + n].iter().flat_map(|n| n.to_le_bytes()));
            bytes.extend(vec![n as u8; 60 + n as usize]);
        }
        let path = std::env::temp_dir().join(format!("valiant-replay-{}.pcap", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let lens = |bench: &mut Bench| {
            bench.pull(0, 9).iter().map(|(_, p)| (p.len(), p.data()[0])).collect::<Vec<_>>()
        };
        let mut bench = Bench::new(&format!("MeasureSource(PCAP {})", path.display()));
        assert_eq!(lens(&mut bench), [(61, 1), (62, 2), (63, 3)]);
        assert!(bench.pull(0, 9).is_empty());
        let mut bench = Bench::new(&format!("MeasureSource(PCAP {}, LIMIT 5)", path.display()));
        assert_eq!(lens(&mut bench), [(61, 1), (62, 2), (63, 3), (61, 1), (62, 2)]);
        assert_eq!(bench.read("flows"), "3");
        std::fs::remove_file(&path).unwrap();
        assert!(Bench::error(&format!("MeasureSource(PCAP {})", path.display())).contains("No such file"));
    }

    #[test]
    fn jumbo_frames() {
        let mut bench = Bench::new("MeasureSource(SIZE 9000, LIMIT 2)");
        let packets = bench.pull(0, 9);
        assert_eq!((packets.len(), packets[0].1.len(), tags(&packets).len()), (2, 9000, 2));
    }

    #[test]
    fn flows_go_on_over_a_swap_of_the_same_and_begin_anew_with_another() {
        let text = |source: &str, more: &str| {
            format!("s :: MeasureSource({source}) -> u :: Unqueue -> e :: MeasureSink; {more}\n")
        };
        let options = runtime::Options { hotswap: true, ..runtime::Options::default() };
        let same = "max, FLOWS 3, LIMIT 100, SIZE imix";
        let mut bench = Bench::with_options(&text(same, ""), options);
        bench.turns(30);
        let before: u64 = bench.read("count").parse().unwrap();
        assert!((1..100).contains(&before), "{before}");
        let swap = |bench: &mut Bench, text: String| {
            let next = lang::Source::new("next", text + "bench_caught :: BenchCaught;");
            assert!(bench.router().hotswap(next).is_ok());
            bench.turns(300);
        };
        swap(&mut bench, text(same, "Idle -> Discard;"));
        for (handler, value) in
            [("received", "100"), ("lost", "0"), ("reordered", "0"), ("duplicates", "0"), ("s.count", "100")]
        {
            assert_eq!(bench.read(handler), value, "{handler}");
        }
        assert_eq!(bench.read("s.done"), "true");
        // Frames that were made count towards the limit of the next configuration.
        swap(&mut bench, text("max, FLOWS 3, LIMIT 150, SIZE 60", ""));
        for (handler, value) in [
            ("received", "150"),
            ("reordered", "0"),
            ("duplicates", "0"),
            ("flows", "0 0 17 0 0 0 0\n0 1 17 0 0 0 0\n0 2 16 0 0 0 0\n"),
        ] {
            assert_eq!(bench.read(handler), value, "{handler}");
        }
    }

    #[test]
    fn what_handlers_have_set_stays_over_a_swap_of_the_same() {
        let text = "e :: MeasureSource(1k, CATCHUP 1s) -> Idle;\n";
        let options = runtime::Options { hotswap: true, ..runtime::Options::default() };
        let mut bench = Bench::with_options(text, options);
        let swap = |bench: &mut Bench, more: &str| {
            let next = lang::Source::new("next", format!("{text}{more} bench_caught :: BenchCaught;"));
            assert!(bench.router().hotswap(next).is_ok());
        };
        for rate in ["max", "8Mbps", "5"] {
            bench.write("rate", rate);
            bench.write("active", "false");
            let asked = bench.read("rate");
            swap(&mut bench, "Idle -> Discard;");
            assert_eq!((bench.read("rate"), bench.read("active")), (asked, "false".into()));
            swap(&mut bench, "");
        }
    }

    #[test]
    fn the_pace_after_a_swap_is_that_of_the_rate() {
        let text = "s :: MeasureSource(1k) -> u :: Unqueue -> e :: Counter -> Discard;\n";
        let options = runtime::Options { hotswap: true, simulated_time: true, ..runtime::Options::default() };
        let mut bench = Bench::with_options(text, options);
        // 60 bytes are 480 bits: 1000 frames a second.
        bench.write("s.rate", "480kbps");
        let next = lang::Source::new("next", format!("{text} Idle -> Discard; bench_caught :: BenchCaught;"));
        assert!(bench.router().hotswap(next).is_ok());
        let start = bench.router().now_ns();
        while bench.router().now_ns() - start < 1_000_000_000 {
            bench.turn();
        }
        let made: u64 = bench.read("count").parse().unwrap();
        assert!((980..=1020).contains(&made), "{made}");
    }

    #[test]
    fn stops_the_driver() {
        let mut bench =
            Bench::with_config("e :: MeasureSource(LIMIT 5, STOP true) -> Unqueue -> Discard;", 0, 0);
        bench.turns(20);
        assert_eq!(bench.read("count"), "5");
    }

    #[test]
    fn wrong_arguments_say_what_is_right() {
        for (arguments, words) in [
            ("RATE 5x", "RATE: '5x' is not a rate"),
            ("SIZE 40", "SIZE: frames of 40 bytes cannot be sent"),
            ("SIZE 60, IPV6 true", "too short for IPv6 and the tag to measure by: at least 80"),
            ("SRC ::1", "SRC: an IPv6 address without IPV6 true"),
            ("DST 10.0.0.1, IPV6 true", "DST: an IPv4 address with IPV6 true"),
            ("DST @/nowhere", "/nowhere: No such file"),
            ("SPORT 70000", "SPORT: '70000' is no port"),
            ("FLOWS 3, SPORT 5", "FLOWS: only 1 different flows"),
            ("STREAM 16", "STREAM: 16 is too large"),
            ("PARTS 1", "PARTS: there are no OUTPUTS"),
            ("OUTPUTS \"10.0.0.1; 10.0.0.0/8\"", "OUTPUTS: outputs 1 and 2 have an address in common"),
            ("OUTPUTS \"10.0.0.1; ::1\"", "OUTPUTS: an IPv6 address without IPV6 true"),
            ("OUTPUTS \"10.0.0.1;\"", "OUTPUTS: there is no IPv4 address in it"),
            ("OUTPUTS \"10.0.0.1\", DST 10.0.0.1", "DST: OUTPUTS say where"),
            ("OUTPUTS \"10.0.0.1;10.0.0.2\", PARTS 1", "PARTS: '1' is no list of 2 numbers"),
            ("OUTPUTS \"10.0.0.1;10.0.0.2\", PARTS \"0 0\"", "no list of 2 numbers from 0 on, not all 0"),
            ("OUTPUTS \"10.0.0.1;10.0.0.2\", FLOWS 9, SPORT 5", "FLOWS: output 1: only 1 different flows"),
        ] {
            let error = Bench::error(&format!("MeasureSource({arguments})"));
            assert!(error.contains(words), "{arguments}: {error}");
        }
    }
}
