//! `valiant gen` and `valiant sink`: a traffic generator and a receiver that measures. Both are
//! configurations of `MeasureSource` and `MeasureSink` that run like any other.

mod answers;
pub(crate) mod args;
mod config;
mod connections;
mod crossing;
mod existing;
mod paths;
mod report;
mod words;

use args::{GenArgs, Limits, Output, SinkArgs};
use config::Shape;
use crossing::Crossing;
use lang::{Diagnostics, LoadOptions, Source};
use launch::logging::error;
use launch::output::print;
use launch::progress::{Progress, waiting};
use launch::{Launch, Machine, StopSignals};
use measure::rate::{Achieved, Rate, short};
use measure::sink::Snapshot;
use measure::timeline::Timeline;
use paths::Paths;
use report::{Report, Sent};
use runtime::{Registry, Router};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The exit status when a limit such as `--max-loss` is exceeded.
const NOT_AS_ASKED: u8 = 3;
/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long ports may take to get a link.
const LINK_LIMIT: Duration = Duration::from_secs(5);
/// When the last frame is sent, others may not have arrived yet: the sink ends when none has arrived for some
/// time, or after so many times this time.
const MOST_WAITS: u32 = 10;

/// `valiant gen`.
pub(crate) fn generate(registry: &Arc<Registry>, args: &GenArgs) -> ExitCode {
    let paths = match Paths::new(args) {
        Ok(paths) => paths,
        Err(message) => {
            error(&format!("error: {message}"));
            return ExitCode::from(2);
        }
    };
    let (text, shape) = config::generator(args, &paths);
    let useless = [
        ("--max-loss", args.limits.max_loss.is_some()),
        ("--max-reordered", args.limits.max_reordered.is_some()),
        ("--no-check", args.limits.no_check),
        ("--sleep", args.limits.sleep),
        ("--track-flows", args.limits.track_flows.is_some()),
        ("--per-flow", args.output.per_flow),
        ("--histogram", args.output.histogram),
    ];
    if let Some((option, _)) = useless.iter().find(|(_, given)| *given && shape.sinks == 0) {
        error(&format!(
            "error: {option} is for received frames: give a port to receive from with --sink PORT"
        ));
        return ExitCode::from(2);
    }
    let two = (shape.sources, shape.sinks) == (1, 1) && paths.senders[0].port != paths.receivers[0];
    if args.max_misrouted.is_some() && paths.outputs.is_empty() && paths.first_side.is_none() {
        error(
            "error: --max-misrouted: only --outputs says where frames belong (or --direction both, on which side)",
        );
        return ExitCode::from(2);
    }
    if args.connections.is_some() && !two {
        error("error: --connections are set up from one port (--to) to one other (--sink)");
        return ExitCode::from(2);
    }
    if args.connections.is_some() && args.time.is_some() && args.set_up.is_none() {
        error(
            "error: --time: --connections are one frame each; with --set-up RATE frames are sent over them",
        );
        return ExitCode::from(2);
    }
    let of_each = args.connections.filter(|_| args.set_up.is_none()).map(u64::from);
    let goal = Goal { frames: args.count.or(of_each), time: args.time };
    run(registry, text, shape, &args.machine, &args.output, goal, |bench| {
        let ended = bench.watch(|bench| bench.all("gen", shape.sources, "done", "true"))?;
        if !ended {
            for i in 0..shape.sources {
                bench.write(&format!("gen{i}.active"), "false")?;
            }
        }
        let mut waited = bench.kept_waiting();
        bench.drain(args.wait)?;
        let (mut ended, mut kept, mut known) = (ended, None, None);
        if let Some(asked) = args.connections.filter(|_| ended) {
            if args.set_up.is_some() {
                let mut all = connections::Connections { asked: asked.into(), ..Default::default() };
                (known, ended) = bench.over_existing(args, &mut all)?;
                kept = Some(all);
            } else {
                let answered = bench.answers(asked, args.wait)?;
                (kept, ended) = (Some(answered.0), answered.1);
            }
            waited = bench.kept_waiting();
        }
        // Of connections that are there already, it depends on the direction how many ports send.
        let (asked, load) = match (&known, args.set_up) {
            (Some(_), _) => (args.rate, bench.shape.sources as f64),
            (None, Some(set_up)) => (set_up, paths.load()),
            (None, None) => (args.rate, paths.load()),
        };
        let mut report = Report {
            sent: Some(bench.sent((asked, load), args.pcap.is_some(), waited)?),
            connections: kept,
            seen: if shape.sinks > 0 { Some(bench.seen()?) } else { None },
            flows: bench.flows(&args.output)?,
            expected: None,
            crossing: bench.crossing(&paths)?,
            max_misrouted: args.max_misrouted,
            gone: gone(),
            interrupted: !ended,
            seconds: bench.began.elapsed().as_secs_f64(),
        };
        let lost = report.loss().is_some_and(|(lost, _)| lost > 0);
        if let (Some(known), Some(mut kept)) = (known.filter(|_| ended && lost), kept) {
            report.interrupted = !bench.check_existing(args, &mut kept, &known)?;
            report.connections = Some(kept);
        }
        Ok(conclude(&report, &args.limits, &args.output))
    })
}

/// `valiant sink`.
pub(crate) fn receive(registry: &Arc<Registry>, args: &SinkArgs) -> ExitCode {
    let text = config::receivers(&args.ports, &args.limits);
    let shape = Shape { first: 0, sources: 0, sinks: args.ports.len() };
    let goal = Goal { frames: args.count, time: args.time };
    run(registry, text, shape, &args.machine, &args.output, goal, |bench| {
        let (mut last, mut since) = (0, Instant::now());
        let ended = bench.watch(|bench| {
            let ours = bench.total("sink", shape.sinks, "ours")?;
            if ours != last {
                (last, since) = (ours, Instant::now());
            }
            Ok(args.count.is_some_and(|n| ours >= n)
                || args.time.is_some_and(|t| bench.began.elapsed() >= t)
                || args.idle.is_some_and(|t| ours > 0 && since.elapsed() >= t))
        })?;
        let report = Report {
            sent: None,
            connections: None,
            seen: Some(bench.seen()?),
            flows: bench.flows(&args.output)?,
            expected: args.expect_count,
            crossing: None,
            max_misrouted: None,
            gone: gone(),
            interrupted: !ended,
            seconds: bench.began.elapsed().as_secs_f64(),
        };
        Ok(conclude(&report, &args.limits, &args.output))
    })
}

/// Prints the report. Returns whether all limits are met.
fn conclude(report: &Report, limits: &Limits, output: &Output) -> ExitCode {
    let failures = report.failures(limits);
    let text =
        if output.json { format!("{:#}\n", report.json(output, &failures)) } else { report.text(output) };
    print(&text);
    for failure in &failures {
        error(&format!("failed: {failure}"));
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NOT_AS_ASKED) }
}

/// The ports that have disappeared meanwhile.
fn gone() -> Vec<String> {
    let ports = dpdk::all_ports().into_iter();
    ports.filter(|port| port.state() == dpdk::PortState::Gone).map(|port| port.name().to_owned()).collect()
}

/// Sets a configuration up, lets `measure` run it, and ends it.
fn run(
    registry: &Arc<Registry>,
    text: String,
    shape: Shape,
    machine: &Machine,
    output: &Output,
    goal: Goal,
    measure: impl FnOnce(&mut Bench) -> Result<ExitCode, String>,
) -> ExitCode {
    if output.print_config {
        print(&text);
        return ExitCode::SUCCESS;
    }
    let sources = [Source::new("generated", text)];
    let launch = Launch::from(machine);
    let options = match launch.choose_cpus(registry, &sources, &LoadOptions::default()) {
        Ok(cpus) => launch.options(&cpus),
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let stop = StopSignals::watch();
    let router = waiting(output.quiet, "opening ports", || {
        Router::new(&sources, LoadOptions::default(), Arc::clone(registry), options)
    });
    let router = match router {
        Ok(router) => router,
        Err(diags) => return refuse(&diags),
    };
    stop.steer(router.hub());
    if !output.quiet {
        launch::report(router.warnings());
        launch::report(router.shortage());
        launch::describe_ports();
    }
    let mut bench = Bench {
        router,
        stop,
        shape,
        began: Instant::now(),
        waited: Duration::ZERO,
        quiet: output.quiet,
        goal,
        before: Before::default(),
    };
    bench.wait_for_links();
    bench.began = Instant::now();
    bench.waited = launch::kept_waiting(std::process::id());
    bench.router.start();
    let result = measure(&mut bench);
    bench.router.pause();
    result.unwrap_or_else(|message| {
        error(&format!("error: {message}"));
        ExitCode::FAILURE
    })
}

/// Prints what is wrong, in terms of the command line's options where one of them is the cause.
fn refuse(diags: &Diagnostics) -> ExitCode {
    let options: Option<Vec<String>> = diags.iter().map(|d| option_fault(&d.message)).collect();
    match options {
        Some(mut faults) => {
            faults.sort();
            faults.dedup();
            faults.iter().for_each(|fault| error(&format!("error: {fault}")));
            error("\nFor more information, try '--help'.");
            ExitCode::from(2)
        }
        None => {
            launch::report(diags);
            ExitCode::FAILURE
        }
    }
}

/// The error of an element's argument, in terms of the option that the argument comes from.
fn option_fault(message: &str) -> Option<String> {
    let (name, fault) = message.split_once(": ")?;
    let option = match name {
        "RATE" => "rate",
        "SIZE" => "size",
        "FLOWS" => "flows",
        "SRC" => "src",
        "DST" => "dst",
        "SPORT" => "sport",
        "DPORT" => "dport",
        "OUTPUTS" => "outputs",
        "PCAP" => "pcap",
        _ => return None,
    };
    let fault = fault.replace("with IPV6 true", "with --ipv6").replace("without IPV6 true", "without --ipv6");
    Some(format!("--{option}: {fault}"))
}

/// A router that measures.
struct Bench {
    router: Router,
    stop: StopSignals,
    shape: Shape,
    began: Instant,
    /// How long workers had waited for a processor before.
    waited: Duration,
    quiet: bool,
    goal: Goal,
    before: Before,
}

/// What the ports had sent before that what is measured began.
#[derive(Clone, Copy, Default)]
struct Before {
    sent: u64,
    dropped: u64,
    full: Duration,
}

/// When it ends by itself: after so many frames, or so long.
#[derive(Clone, Copy, Default)]
struct Goal {
    frames: Option<u64>,
    time: Option<Duration>,
}

impl Goal {
    /// The part that is done, from 0 to 1, if it ends by itself.
    fn done(self, frames: u64, time: Duration) -> Option<f64> {
        let frames = self.frames.map(|all| frames as f64 / all.max(1) as f64);
        let time = self.time.map(|all| time.as_secs_f64() / all.as_secs_f64().max(1e-9));
        frames.into_iter().chain(time).reduce(f64::max)
    }
}

/// The counters that progress messages show.
#[derive(Clone, Copy, Default)]
struct Marks {
    sent: u64,
    sent_bytes: u64,
    received: u64,
    bytes: u64,
}

impl Bench {
    fn read(&mut self, handler: &str) -> Result<String, String> {
        self.router.read(handler, "").map_err(|e| e.to_string())
    }
    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        self.router.write(handler, value).map_err(|e| e.to_string())
    }
    /// The sum of a handler over as many as `n` of a kind: `kind0`, `kind1`, ...
    fn total(&mut self, kind: &str, n: usize, handler: &str) -> Result<u64, String> {
        let first = self.shape.first;
        (first..first + n).try_fold(0, |sum, i| {
            let text = self.read(&format!("{kind}{i}.{handler}"))?;
            let number: u64 =
                text.trim().parse().map_err(|_| format!("{kind}{i}.{handler}: '{text}' is no number"))?;
            Ok(sum + number)
        })
    }
    /// Whether a handler reads as `value` on all of `kind0`, `kind1`, ...
    fn all(&mut self, kind: &str, n: usize, handler: &str, value: &str) -> Result<bool, String> {
        let first = self.shape.first;
        for i in first..first + n {
            if self.read(&format!("{kind}{i}.{handler}"))?.trim() != value {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How long ports did not take all that was sent to them, on average over the ports; of several workers,
    /// the one for which that was longest.
    fn port_full(&self) -> Duration {
        let Shape { first, sources, .. } = self.shape;
        let elements = self.router.elements().iter();
        let senders = elements.filter(|e| (first..first + sources).any(|i| e.name == format!("to{i}")));
        let longest = |e: &runtime::ElementInfo| e.stats.iter().map(|s| s.snapshot().full_cycles).max();
        let cycles: u64 = senders.filter_map(longest).sum();
        let each = cycles as f64 / dpdk::cycles_per_second() / sources.max(1) as f64;
        Duration::try_from_secs_f64(each).unwrap_or_default().saturating_sub(self.before.full)
    }

    /// From here on other sources and sinks count, so many from this one on, and only what they do from now
    /// on.
    fn begin_anew(&mut self, first: usize, ports: usize) -> Result<(), String> {
        self.shape = Shape { first, sources: ports, sinks: ports };
        self.before = Before::default();
        let (sent, dropped) = (self.total("to", ports, "n_sent")?, self.total("to", ports, "dropped")?);
        self.before = Before { sent, dropped, full: self.port_full() };
        Ok(())
    }

    /// Frames that the ports have sent, and those that they did not take.
    fn left(&mut self) -> Result<(u64, u64), String> {
        let sources = self.shape.sources;
        let (sent, dropped) = (self.total("to", sources, "n_sent")?, self.total("to", sources, "dropped")?);
        Ok((sent.saturating_sub(self.before.sent), dropped.saturating_sub(self.before.dropped)))
    }

    /// How long workers have waited for a processor since the beginning.
    fn kept_waiting(&self) -> Duration {
        launch::kept_waiting(std::process::id()).saturating_sub(self.waited)
    }

    /// Waits until all ports have a link, up to a time limit.
    fn wait_for_links(&self) {
        let down = || dpdk::all_ports().into_iter().filter(|p| !p.link().up).collect::<Vec<_>>();
        let start = Instant::now();
        while !self.stop.wanted() && !down().is_empty() {
            if start.elapsed() > LINK_LIMIT {
                for port in down() {
                    tracing::warn!(target: "traffic", "{} has no link", port.name());
                }
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs and prints progress until `done` returns true (true) or a signal arrives (false).
    fn watch(&mut self, mut done: impl FnMut(&mut Self) -> Result<bool, String>) -> Result<bool, String> {
        let (mut last, mut marks) = (Instant::now(), Marks::default());
        let mut bar = Progress::new(self.quiet, "", false);
        loop {
            self.router.turn();
            if self.router.hub().failed() {
                return Err("a worker has failed".into());
            }
            if done(self)? {
                return Ok(true);
            }
            if self.stop.wanted() {
                return Ok(false);
            }
            if last.elapsed() >= PROGRESS && !self.quiet {
                marks = self.progress(marks, last.elapsed())?;
                last = Instant::now();
                if let Some(done) = self.goal.done(marks.sent.max(marks.received), self.began.elapsed()) {
                    bar.update(done, String::new);
                }
            }
        }
    }

    /// A line about the last second.
    fn progress(&mut self, before: Marks, elapsed: Duration) -> Result<Marks, String> {
        let (sources, sinks) = (self.shape.sources, self.shape.sinks);
        let now = Marks {
            sent: self.total("gen", sources, "count")?,
            sent_bytes: self.total("gen", sources, "byte_count")?,
            received: self.total("sink", sinks, "count")?,
            bytes: self.total("sink", sinks, "byte_count")?,
        };
        let rate = |frames: u64, bytes: u64| {
            let rate = Achieved { frames, bytes, ns: elapsed.as_nanos() as u64 };
            format!("{}pps {}bit/s", short(rate.pps()), short(rate.l2_bps()))
        };
        let mut line = format!("{:>6.0} s", self.began.elapsed().as_secs_f64());
        if sources > 0 {
            line += &format!("  sent {}", rate(now.sent - before.sent, now.sent_bytes - before.sent_bytes));
        }
        if sinks > 0 {
            let lost = self.total("sink", sinks, "lost")?;
            let reordered = self.total("sink", sinks, "reordered")?;
            line += &format!(
                "  received {}  lost {lost}  reordered {reordered}",
                rate(now.received - before.received, now.bytes - before.bytes)
            );
        }
        tracing::info!(target: "traffic", "{line}");
        Ok(now)
    }

    /// Waits for frames that have been sent and have not arrived yet.
    fn drain(&mut self, wait: Duration) -> Result<(), String> {
        let (sources, sinks) = (self.shape.sources, self.shape.sinks);
        let start = Instant::now();
        let (mut last, mut since) = (0, start);
        while start.elapsed() < wait.saturating_mul(MOST_WAITS) {
            let made = self.total("gen", sources, "count")?;
            let (sent, dropped) = self.left()?;
            let arrived = self.total("sink", sinks, "count")?;
            let all = sent + dropped >= made && (sinks == 0 || arrived >= sent);
            if sent + arrived != last {
                (last, since) = (sent + arrived, Instant::now());
            }
            if all || since.elapsed() >= wait {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// The results of the sources.
    fn sent(&mut self, (asked, load): (Rate, f64), replayed: bool, waited: Duration) -> Result<Sent, String> {
        let Shape { first, sources, .. } = self.shape;
        let (frames, dropped) = self.left()?;
        let mut sent = Sent {
            asked,
            sources,
            load,
            made: self.total("gen", sources, "count")?,
            frames,
            bytes: self.total("gen", sources, "byte_count")?,
            dropped,
            missed: self.total("gen", sources, "missed")?,
            first_ns: 0,
            last_ns: 0,
            longest_ns: 0,
            timeline: Timeline::default(),
            replayed,
            waited,
            port_full: self.port_full(),
        };
        if sent.frames < sent.made {
            // Frames that were not sent are assumed to have the average length of those that were.
            sent.bytes = (u128::from(sent.bytes) * u128::from(sent.frames) / u128::from(sent.made)) as u64;
        }
        for i in first..first + sources {
            for line in self.read(&format!("gen{i}.snapshot"))?.lines() {
                let number = |name: &str| -> u64 {
                    let value = line.split_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
                    value.and_then(|v| v.parse().ok()).unwrap_or(0)
                };
                let (first, last) = (number("first_ns"), number("last_ns"));
                sent.longest_ns = sent.longest_ns.max(last.saturating_sub(first));
                if first > 0 {
                    sent.first_ns = if sent.first_ns == 0 { first } else { sent.first_ns.min(first) };
                }
                sent.last_ns = sent.last_ns.max(last);
                if let Some(text) = line.split_whitespace().find_map(|w| w.strip_prefix("timeline=")) {
                    sent.timeline.add_text(text).map_err(|e| e.to_string())?;
                }
            }
        }
        // Two directions begin one after the other: each has its time.
        if self.before.sent > 0 {
            sent.first_ns = sent.last_ns - sent.longest_ns;
        }
        Ok(sent)
    }

    /// What went from which port to which, if the outputs are known.
    fn crossing(&mut self, paths: &Paths) -> Result<Option<Crossing>, String> {
        if let Some(first) = paths.first_side {
            let mut crossing = Crossing::of_sides(paths);
            for i in 0..self.shape.sinks {
                crossing.add_returned(i, first, &self.read(&format!("sink{i}.paths"))?);
            }
            return Ok(Some(crossing).filter(|crossing| crossing.misrouted() > 0));
        }
        if paths.outputs.is_empty() {
            return Ok(None);
        }
        let mut crossing = Crossing::new(paths);
        for i in 0..self.shape.sources {
            crossing.add_sent(i, &self.read(&format!("gen{i}.made_to"))?);
        }
        for i in 0..self.shape.sinks {
            crossing.add_arrived(i, &self.read(&format!("sink{i}.paths"))?);
        }
        Ok(Some(crossing))
    }

    /// The results of all sinks together.
    fn seen(&mut self) -> Result<Snapshot, String> {
        let mut seen = Snapshot::default();
        let Shape { first, sinks, .. } = self.shape;
        for i in first..first + sinks {
            let lines = self.read(&format!("sink{i}.snapshot"))?;
            seen.read(&lines).map_err(|e| e.to_string())?;
        }
        Ok(seen)
    }

    /// A line for each flow, if requested.
    fn flows(&mut self, output: &Output) -> Result<String, String> {
        let first = self.shape.first;
        let sinks = if output.per_flow { self.shape.sinks } else { 0 };
        (first..first + sinks).map(|i| self.read(&format!("sink{i}.flows"))).collect()
    }
}
