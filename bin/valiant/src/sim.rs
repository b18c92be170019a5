//! `valiant sim`: a cluster in simulated time.

use crate::chart::{Axis, Chart, Curve, Point};
use crate::driver::StopSignals;
use crate::load;
use crate::planner::bps;
use clap::Args;
use cluster::plan::Bps;
use cluster::sim::{Config, Failure, Matrix, NAMES, Named, Part, Report, Sim, Spread};
use cluster::{Mode, NodeId};
use measure::rate::short;
use measure::sizes::Sizes;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) const EXAMPLES: &str = "\
Matrices: uniform (R/N from each to each), permutation (all of each to the next), hot-spot (one output is filled, half of it by one \
input), worst (what loads one link most), transpose (a permutation that exchanges two parts of a number), random (random permutations), pair \
(all from one input to one output), overload (one output is wanted by all, unequally). A file has a line for each input with the \
parts of R for the outputs, separated by commas: it says how many ports there are.

Examples:
  valiant sim --ports 8                          uniform traffic at 90 % of the lines' rate
  valiant sim -n 64 -m permutation -l 1          c, links against 2R/N, loss, latency, fairness
  valiant sim -n 16 -m overload -l 1             an output that all want: how it is shared
  valiant sim -n 4 -m matrix.csv --json
  valiant sim -n 8 --fail node:3@2ms-9ms --detection 1ms -t 20ms
  valiant sim -n 64 --topology fly --k 8 -m worst   2 stages of 64 servers between inputs and outputs
  valiant sim -m pair -l 1 --mode direct --skew 50us --over delta=none,10us,100us,1ms,10ms,100ms --plots out
                                                 reordering over delta (RouteBricks, section 6.2)
  valiant sim -m permutation --over ports=4,16,64,256,1024

Exit status: 0 done (also by Ctrl-C, with what there is), 1 it cannot be simulated, 2 wrong call.";

/// `valiant sim`.
#[derive(Args, Clone)]
pub(crate) struct SimArgs {
    /// External ports, N: 4 to 2048 and more, one for each server; 4 if no file says otherwise.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096))]
    ports: Option<u16>,
    /// The rate of an external port, R, with Ethernet's overhead.
    #[arg(short, long, value_name = "RATE", default_value = "10G", value_parser = bps)]
    rate: u64,
    /// What goes where: a name (see below) or a file.
    #[arg(short, long, value_name = "NAME|FILE", default_value = "uniform")]
    matrix: String,
    /// How much of the matrix is offered: 1 fills the lines that it fills.
    #[arg(short, long, value_name = "PART", default_value_t = 0.9, value_parser = part)]
    load: f64,
    /// How the servers are joined: a full `mesh`, or a k-ary n-`fly`, n stages of servers between inputs and outputs.
    #[arg(long, value_name = "NAME", default_value = "mesh", value_parser = ["mesh", "fly"])]
    topology: String,
    /// Links of a server of a fly towards the next stage.
    #[arg(long, value_name = "N", default_value_t = 32)]
    k: u16,
    /// The policy: `adaptive`, `direct` (as RouteBricks describes it) or `valiant`.
    #[arg(long, value_name = "NAME", default_value = "adaptive", value_parser = ["adaptive", "direct", "valiant"])]
    mode: String,
    /// For how long a flow's packets follow each other (flowlets), or `none`: each packet by itself.
    #[arg(long, value_name = "TIME|none", default_value = "100ms", value_parser = time_or_none)]
    delta: Time,
    /// How much of R/N may be saved up; by default 1 ms, or 32 frames of 1,538 bytes at R/N if that is longer.
    #[arg(long, value_name = "TIME", value_parser = time)]
    burst: Option<Time>,
    /// Frames, without check sequence: bytes, a range (60-1514), imix, or a mix (60:7,1514:1).
    #[arg(short, long, value_name = "SIZE", default_value = "imix", value_parser = sizes)]
    size: Sizes,
    /// Flows at a time from each input, shared out over its outputs; each has 2 to 100,000 packets, 11 on average.
    #[arg(short, long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    flows: u32,
    /// How many packets of a flow come one after the other, on average.
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    train: f64,
    /// What a link bears; by default 2R/N in a mesh, 2R/k in a fly.
    #[arg(long, value_name = "RATE", value_parser = bps)]
    link_rate: Option<u64>,
    /// Room before each link and each output line, in KB of packets.
    #[arg(long, value_name = "KB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    buffer: u32,
    /// How lines serve: `fair` (deficit round robin over inputs) or `fifo`.
    #[arg(long, value_name = "NAME", default_value = "fair", value_parser = ["fair", "fifo"])]
    queues: String,
    /// What a server can process; by default anything, and the report says what it would have to.
    #[arg(long, value_name = "RATE", value_parser = bps)]
    server_rate: Option<u64>,
    /// How long a packet stays in a server, without queueing.
    #[arg(long, value_name = "TIME", default_value = "24us", value_parser = time)]
    server_latency: Time,
    /// How much longer it may, at random for each batch of 16 packets.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    jitter: Time,
    /// How much longer a link may be than others: each is longer by a random part of this.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    skew: Time,
    /// How long to count; by default as long as --packets take.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    time: Option<Time>,
    /// About how many packets to count, if --time does not say.
    #[arg(long, value_name = "N", default_value_t = 2_000_000.0, value_parser = count)]
    packets: f64,
    /// How long to run before counting; by default a quarter of the time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    warmup: Option<Time>,
    /// What all random numbers come from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Something fails, and may come back: node:3@2ms, link:0-1@2ms-9ms (one direction). Times count from the start.
    #[arg(long, value_name = "WHAT@TIME", value_parser = failure)]
    fail: Vec<Failure>,
    /// How long it takes until all nodes know.
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = time)]
    detection: Time,
    /// Run once for each of several values: of delta, load, ports, skew, jitter or train.
    #[arg(long, value_name = "KEY=V1,V2,...", value_parser = over)]
    over: Option<Over>,
    /// Write plots as SVG into a directory: links, nodes, queues, latency; with --over what depends on it.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// No progress.
    #[arg(short, long)]
    quiet: bool,
}

/// A time, in nanoseconds; or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(Option<u64>);

impl Time {
    const fn ns(self) -> u64 {
        match self.0 {
            Some(ns) => ns,
            None => 0,
        }
    }
    fn text(self) -> String {
        self.0.map_or_else(|| "none".to_owned(), span)
    }
}

fn span(ns: u64) -> String {
    let (value, unit) = match ns {
        1_000_000_000.. => (ns as f64 / 1e9, "s"),
        1_000_000.. => (ns as f64 / 1e6, "ms"),
        1_000.. => (ns as f64 / 1e3, "us"),
        _ => (ns as f64, "ns"),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn time(text: &str) -> Result<Time, String> {
    lang::args::parse::<Duration>(text)
        .ok()
        .and_then(|t| Some(Time(Some(u64::try_from(t.as_nanos()).ok()?))))
        .ok_or_else(|| format!("'{text}' is not a time: use a number with us, ms or s, as in 24us"))
}

fn time_or_none(text: &str) -> Result<Time, String> {
    if text == "none" { Ok(Time(None)) } else { time(text) }
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1000.0 => Ok(value),
        _ => Err("a number above 0 is needed: 1 is as much as the matrix says".to_owned()),
    }
}

fn count(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value * unit >= 1.0 && value * unit <= 1e12 => Ok(value * unit),
        _ => Err("a number of packets, as in 500k or 2M".to_owned()),
    }
}

fn sizes(text: &str) -> Result<Sizes, String> {
    Sizes::parse(text).map_err(|e| e.to_string())
}

fn failure(text: &str) -> Result<Failure, String> {
    let wrong = || format!("'{text}' is no failure: use node:3@2ms or link:0-1@2ms-9ms");
    let (what, when) = text.split_once('@').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let part = if let Some(node) = what.strip_prefix("node:") {
        Part::Node(number(node)?)
    } else {
        let (from, to) = what.strip_prefix("link:").and_then(|l| l.split_once('-')).ok_or_else(wrong)?;
        Part::Link(number(from)?, number(to)?)
    };
    let (at, until) = when.split_once('-').map_or((when, None), |(at, until)| (at, Some(until)));
    Ok(Failure { part, at_ns: time(at)?.ns(), until_ns: until.map(time).transpose()?.map(Time::ns) })
}

/// What is varied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Over {
    key: Key,
    values: Vec<(String, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Delta,
    Load,
    Ports,
    Skew,
    Jitter,
    Train,
}

const KEYS: [(&str, Key); 6] = [
    ("delta", Key::Delta),
    ("load", Key::Load),
    ("ports", Key::Ports),
    ("skew", Key::Skew),
    ("jitter", Key::Jitter),
    ("train", Key::Train),
];

impl Key {
    fn name(self) -> &'static str {
        KEYS.iter().find(|k| k.1 == self).map_or("", |k| k.0)
    }
}

fn over(text: &str) -> Result<Over, String> {
    let key = text.split_once('=').and_then(|(key, rest)| Some((KEYS.iter().find(|k| k.0 == key)?.1, rest)));
    let Some((key, rest)) = key else {
        let names: Vec<&str> = KEYS.iter().map(|k| k.0).collect();
        return Err(format!("KEY=V1,V2,... with one of {}", names.join(", ")));
    };
    let value = |text: &str| -> Result<(String, f64), String> {
        let value = match key {
            Key::Delta if text == "none" => 0.0,
            Key::Delta | Key::Skew | Key::Jitter => time(text)?.ns() as f64,
            Key::Load => part(text)?,
            Key::Train => text.parse().map_err(|_| format!("'{text}' is no number"))?,
            Key::Ports => {
                let n: u16 = text.parse().ok().filter(|n| (2..=4096).contains(n)).ok_or("2 to 4096 ports")?;
                n.into()
            }
        };
        Ok((text.to_owned(), value))
    };
    Ok(Over { key, values: rest.split(',').map(value).collect::<Result<_, _>>()? })
}

/// The arguments with one value of what is varied.
fn with(args: &SimArgs, key: Key, (text, value): &(String, f64)) -> SimArgs {
    let mut args = args.clone();
    let ns = Time(Some(*value as u64));
    match key {
        Key::Delta => args.delta = if text == "none" { Time(None) } else { ns },
        Key::Load => args.load = *value,
        Key::Ports => args.ports = Some(*value as u16),
        Key::Skew => args.skew = ns,
        Key::Jitter => args.jitter = ns,
        Key::Train => args.train = *value,
    }
    args
}

fn matrix(args: &SimArgs) -> Result<Matrix, String> {
    let kind = NAMES.iter().find(|n| n.0 == args.matrix).map(|n| n.1);
    if let Some(kind) = kind {
        let kind = if kind == Named::Worst && args.topology == "fly" { Named::Transpose } else { kind };
        return Matrix::named(kind, args.ports.unwrap_or(4), args.seed).map_err(|e| e.to_string());
    }
    let text = std::fs::read_to_string(&args.matrix).map_err(|e| {
        let names: Vec<&str> = NAMES.iter().map(|n| n.0).collect();
        format!("{}: {}; matrices with a name are {}", args.matrix, load::reason(&e), names.join(", "))
    })?;
    let matrix = Matrix::parse(&text).map_err(|e| format!("{}: {e}", args.matrix))?;
    match args.ports {
        Some(n) if usize::from(n) != matrix.ports() => {
            Err(format!("{} is for {} ports, --ports says {n}", args.matrix, matrix.ports()))
        }
        _ => Ok(matrix),
    }
}

fn config(args: &SimArgs) -> Result<Config, String> {
    let matrix = matrix(args)?;
    let mut config = Config::new(matrix.ports() as u16, args.rate, matrix, args.load);
    config.k = (args.topology == "fly").then_some(args.k);
    config.mode = match args.mode.as_str() {
        "direct" => Mode::Direct,
        "valiant" => Mode::Valiant,
        _ => Mode::Adaptive,
    };
    config.delta_ns = args.delta.0;
    config.burst_ns = args.burst.map(Time::ns);
    config.sizes = args.size.clone();
    config.flows = args.flows as usize;
    config.train = args.train;
    config.link_bps = args.link_rate;
    config.buffer = args.buffer * 1024;
    config.fair = args.queues == "fair";
    config.server_bps = args.server_rate;
    config.server_ns = args.server_latency.ns();
    config.jitter_ns = args.jitter.ns();
    config.skew_ns = args.skew.ns();
    config.seed = args.seed;
    config.failures = args.fail.clone();
    config.detection_ns = args.detection.ns();
    config.last(args.packets);
    if let Some(time) = args.time {
        config.time_ns = time.ns();
        config.warm_ns = time.ns() / 4;
    }
    if let Some(warm) = args.warmup {
        config.warm_ns = warm.ns();
    }
    Ok(config)
}

/// How far it is, on standard error, where somebody sees it and it takes long.
struct Progress {
    began: Instant,
    shown: Option<Instant>,
    bar: bool,
    quiet: bool,
    name: String,
}

/// From when on progress is shown, and how often: as a bar, and as lines where there is no terminal.
const PATIENCE: Duration = Duration::from_secs(2);
const BAR: Duration = Duration::from_millis(200);
const LINE: Duration = Duration::from_secs(10);

impl Progress {
    fn new(quiet: bool, name: &str) -> Self {
        let bar = std::io::stderr().is_terminal();
        Self { began: Instant::now(), shown: None, bar, quiet, name: name.to_owned() }
    }
    fn tell(&mut self, sim: &Sim) {
        let every = if self.bar { BAR } else { LINE };
        let due = self.shown.map_or(self.began.elapsed() >= PATIENCE, |t| t.elapsed() >= every);
        if self.quiet || !due {
            return;
        }
        self.shown = Some(Instant::now());
        let done = sim.progress();
        let left = self.began.elapsed().as_secs_f64() * (1.0 / done.max(1e-6) - 1.0);
        let full = (done * 30.0) as usize;
        let end = sim.config().warm_ns + sim.config().time_ns;
        let text = format!(
            "{}[{}{}] {:3.0} %  {} of {}  {} packets on their way  {left:.0} s left",
            self.name,
            "#".repeat(full),
            ".".repeat(30 - full),
            done * 100.0,
            span(sim.now_ns()),
            span(end),
            sim.size().0
        );
        // Nobody need see it.
        let _ = if self.bar {
            write!(std::io::stderr(), "\r{text}\x1b[K")
        } else {
            writeln!(std::io::stderr(), "{text}")
        };
    }
    fn done(&self) {
        if self.bar && self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// One run, and what it was.
struct Run {
    args: SimArgs,
    config: Config,
    value: Option<(String, f64)>,
    report: Report,
    interrupted: bool,
    seconds: f64,
}

fn run(args: &SimArgs, value: Option<(String, f64)>, stop: &StopSignals) -> Result<Run, String> {
    let config = config(args)?;
    let mut sim = Sim::new(config.clone()).map_err(|e| e.to_string())?;
    let name = match (&args.over, &value) {
        (Some(over), Some(value)) => format!("{}={} ", over.key.name(), value.0),
        _ => String::new(),
    };
    let mut progress = Progress::new(args.quiet, &name);
    let mut interrupted = false;
    while sim.run(100_000) {
        if stop.wanted() {
            interrupted = true;
            break;
        }
        progress.tell(&sim);
    }
    progress.done();
    let seconds = progress.began.elapsed().as_secs_f64();
    Ok(Run { args: args.clone(), config, value, report: sim.report(), interrupted, seconds })
}

/// Runs the command.
pub(crate) fn simulate(args: &SimArgs) -> ExitCode {
    match answer(args) {
        Ok(text) => {
            // A reader that went away is no reason to fail.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("valiant sim: {message}");
            ExitCode::FAILURE
        }
    }
}

fn answer(args: &SimArgs) -> Result<String, String> {
    let stop = StopSignals::watch();
    if let Some(dir) = &args.plots {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {}", dir.display(), load::reason(&e)))?;
    }
    let Some(over) = &args.over else {
        let run = run(args, None, &stop)?;
        if let Some(dir) = &args.plots {
            write_all(dir, &plots(&run))?;
        }
        return Ok(if args.json { format!("{:#}\n", run.json()) } else { run.text() });
    };
    let mut runs = Vec::new();
    for value in &over.values {
        let one = run(&with(args, over.key, value), Some(value.clone()), &stop)?;
        let interrupted = one.interrupted;
        runs.push(one);
        if interrupted {
            break;
        }
    }
    if let Some(dir) = &args.plots {
        write_all(dir, &plots_over(over.key, &runs))?;
    }
    let all: Vec<Value> = runs.iter().map(Run::json).collect();
    Ok(if args.json {
        format!("{:#}\n", json!({"over": over.key.name(), "runs": all}))
    } else {
        table(over.key, &runs)
    })
}

fn write_all(dir: &Path, charts: &[(String, Chart)]) -> Result<(), String> {
    for (name, chart) in charts {
        let path = dir.join(name);
        std::fs::write(&path, chart.svg())
            .map_err(|e| format!("{}: {}", path.display(), load::reason(&e)))?;
    }
    Ok(())
}

fn percent(part: f64) -> String {
    match part * 100.0 {
        0.0 => "0 %".to_owned(),
        p if p < 0.1 => format!("{p:.2e} %"),
        p => format!("{p:.3} %"),
    }
}

fn us(ns: f64) -> String {
    format!("{:.1} us", ns / 1e3)
}

impl Run {
    /// What a link is planned for, in words.
    fn planned(&self) -> String {
        let (parts, bps) = match self.config.k {
            None => ("2R/N", self.config.mesh_link_bps()),
            Some(k) => {
                ("2R/k", self.config.link_bps.unwrap_or(2 * self.config.rate_bps / u64::from(k.max(1))))
            }
        };
        match self.config.link_bps {
            None => format!("{parts} = {}", Bps(bps)),
            Some(given) => format!("{} as asked for", Bps(given)),
        }
    }

    fn text(&self) -> String {
        let (r, c) = (&self.report, &self.config);
        let mut t = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(t, "{name:<14}{value}");
        };
        let admissible = if r.admissible { "" } else { " (oversubscribes an output)" };
        line(
            "simulated",
            format!(
                "{} ports of {}, {} traffic{admissible} at {} of R, {}, policy {}, delta {}",
                c.ports,
                Bps(c.rate_bps),
                self.args.matrix,
                c.load,
                r.topology,
                self.args.mode,
                self.args.delta.text()
            ),
        );
        line(
            "packets",
            format!(
                "{} in {} after {} of warming up, frames of {}, {} flows at each input in trains of {}, seed {}",
                r.offered.0,
                span(r.counted_ns),
                span(c.warm_ns),
                c.sizes,
                c.flows,
                c.train,
                c.seed
            ),
        );
        if self.interrupted {
            line("interrupted", "this is what there was".to_owned());
        }
        line(
            "throughput",
            format!(
                "{} of {} offered, {} below",
                Bps(r.carried_bps as u64),
                Bps(r.offered_bps as u64),
                percent(r.below_offered().max(0.0))
            ),
        );
        let lost: Vec<String> =
            r.lost.iter().filter(|l| l.1 > 0).map(|l| format!("{} {}", l.1, l.0.name())).collect();
        let of = if lost.is_empty() { String::new() } else { format!(": {} packets", lost.join(", ")) };
        line("loss", format!("{} of the bytes{of}", percent(r.loss())));
        line(
            "ways",
            format!(
                "{} straight, {} over an intermediate, {} within their server: effective c = {:.3}",
                r.ways.1, r.ways.2, r.ways.0, r.c
            ),
        );
        let spread = |s: &Spread| {
            format!("mean {:.3}, 99 % up to {:.3}, most {:.3}", s.mean, s.quantile(0.99), s.most())
        };
        line("links", format!("given, of {}: {}", self.planned(), spread(&r.links)));
        line(
            "",
            format!(
                "the busiest: {:+.1} of the longest frames above the plan; drawing ways at random, one of {} would be given up to {:.3}",
                r.links_above_frames, r.links.count, r.links_by_chance
            ),
        );
        line("", format!("sent: {}", spread(&r.links_sent)));
        line("nodes", format!("work, of R: {} (c is 2 to 3)", spread(&r.nodes)));
        if r.inner_nodes.count > 0 {
            line("", format!("the {} without ports: {}", r.inner_nodes.count, spread(&r.inner_nodes)));
        }
        let depth = |(mean, peaks): &(f64, Spread)| {
            format!("{:.1} KB before a packet on average, {:.1} KB at most", mean / 1e3, peaks.most() / 1e3)
        };
        line("queues", format!("links: {}", depth(&r.link_depth)));
        line("", format!("outputs: {}", depth(&r.output_depth)));
        let l = &r.latency;
        let q = |part| us(l.quantile_ns(part) as f64);
        line(
            "latency",
            format!(
                "mean {}, median {}, 99 % {}, most {}; straight {}, over an intermediate {}",
                us(l.mean_ns()),
                q(0.5),
                q(0.99),
                us(l.max_ns() as f64),
                us(r.latency_straight_ns),
                us(r.latency_over_ns)
            ),
        );
        line("", "the paper: 47.6-66.4 us for RB4, at 24 us a server".to_owned());
        line(
            "reordered",
            format!(
                "{} sequences for each packet (RouteBricks, 6.2: 5.5 % plain, 0.15 % with flowlets), {} packets (RFC 4737)",
                percent(r.reordered_sequences()),
                percent(r.reordered_packets())
            ),
        );
        let s = &r.skew;
        let skew = if s.count() == 0 {
            "none seen: no packet of an input for an output went another way than the one before".to_owned()
        } else {
            format!(
                "median {}, 99 % {}, most {} between packets that went different ways one after the other ({} pairs)",
                us(s.quantile_ns(0.5) as f64),
                us(s.quantile_ns(0.99) as f64),
                us(s.max_ns() as f64),
                s.count()
            )
        };
        line("skew", skew);
        if c.delta_ns.is_some() {
            let f = &r.flowlets;
            line(
                "flowlets",
                format!(
                    "{} begun, {} packets kept their way, {} moved, {} returned, {} spilled",
                    f.started, f.kept, f.moved, f.returned, f.spilled
                ),
            );
        }
        let least = r.fair.iter().map(|f| f.jain).fold(1.0, f64::min);
        let shared = r.oversubscribed_jain().map_or_else(
            || "no output was oversubscribed".to_owned(),
            |jain| format!("oversubscribed outputs: {jain:.4} at least"),
        );
        line(
            "fairness",
            format!(
                "Jain's index of what inputs got of their max-min share: {shared}; all outputs: {least:.4} at least"
            ),
        );
        line("cost", format!("{} events in {:.1} s", short(r.events as f64), self.seconds));
        t
    }

    fn json(&self) -> Value {
        let (r, c) = (&self.report, &self.config);
        let spread = |s: &Spread| json!({"count": s.count, "mean": s.mean, "min": s.least(), "p50": s.quantile(0.5), "p99": s.quantile(0.99), "max": s.most()});
        let depth =
            |(mean, peaks): &(f64, Spread)| json!({"mean_bytes_found": mean, "peak_bytes": spread(peaks)});
        let latency = |l: &measure::latency::Latency| {
            json!({"count": l.count(), "mean_ns": l.mean_ns(), "p50_ns": l.quantile_ns(0.5), "p99_ns": l.quantile_ns(0.99),
                "max_ns": l.max_ns()})
        };
        let lost: serde_json::Map<String, Value> =
            r.lost.iter().map(|l| (l.0.name().to_owned(), json!({"packets": l.1, "bytes": l.2}))).collect();
        let outputs: Vec<Value> = r
            .fair
            .iter()
            .map(|f| json!({"output": f.output, "inputs": f.inputs, "offered": f.offered, "carried": f.carried, "jain": f.jain}))
            .collect();
        let f = &r.flowlets;
        json!({
            "config": {
                "ports": c.ports, "rate_bps": c.rate_bps, "matrix": self.args.matrix, "load": c.load, "topology": r.topology, "k": c.k,
                "mode": self.args.mode, "delta_ns": c.delta_ns, "burst_ns": c.policy(NodeId(0)).burst(), "size": c.sizes.to_string(),
                "flows": c.flows, "train": c.train, "link": self.planned(), "buffer_bytes": c.buffer,
                "queues": self.args.queues, "server_bps": c.server_bps, "server_latency_ns": c.server_ns,
                "jitter_ns": c.jitter_ns, "skew_ns": c.skew_ns, "warmup_ns": c.warm_ns, "time_ns": c.time_ns, "seed": c.seed,
            },
            "value": self.value.as_ref().map(|v| v.0.clone()), "interrupted": self.interrupted,
            "servers": r.servers, "admissible": r.admissible, "counted_ns": r.counted_ns, "events": r.events,
            "offered": {"packets": r.offered.0, "bytes": r.offered.1, "bps": r.offered_bps},
            "carried": {"packets": r.left.0, "bytes": r.left.1, "bps_while_offered": r.carried_bps},
            "below_offered": r.below_offered(), "loss": r.loss(), "lost": lost,
            "packets": {"local": r.ways.0, "direct": r.ways.1, "balanced": r.ways.2}, "effective_c": r.c,
            "links": {"given": spread(&r.links), "sent": spread(&r.links_sent), "above_frames": r.links_above_frames,
                "full_by_chance": r.links_by_chance},
            "nodes": spread(&r.nodes), "nodes_without_ports": spread(&r.inner_nodes),
            "queues": {"links": depth(&r.link_depth), "outputs": depth(&r.output_depth)},
            "latency": latency(&r.latency),
            "latency_mean_ns": {"straight": r.latency_straight_ns, "over_an_intermediate": r.latency_over_ns},
            "paper": {"latency_us": [47.6, 66.4], "reordered_sequences": {"direct": 0.055, "flowlets": 0.0015}},
            "reordering": {"packets": r.order.0, "reordered_packets": r.order.1, "reordered_sequences": r.order.2,
                "rfc4737_ratio": r.reordered_packets(), "sequences_ratio": r.reordered_sequences()},
            "skew": latency(&r.skew),
            "flowlets": {"started": f.started, "kept": f.kept, "moved": f.moved, "returned": f.returned, "spilled": f.spilled},
            "oversubscribed_jain": r.oversubscribed_jain(), "outputs": outputs,
        })
    }
}

/// A line for each run.
fn table(key: Key, runs: &[Run]) -> String {
    let mut t = String::new();
    if let Some(run) = runs.first() {
        let _ = writeln!(
            t,
            "{} traffic, policy {}, {}; links relative to {}, nodes to R, latency in us",
            run.args.matrix,
            run.args.mode,
            if run.config.k.is_none() { "full mesh" } else { "butterfly" },
            if run.config.k.is_none() { "2R/N" } else { "2R/k" }
        );
    }
    let columns = [
        "loss",
        "below",
        "c",
        "links",
        "frames",
        "chance",
        "nodes",
        "median",
        "99 %",
        "sequences",
        "packets",
        "skew 50 %",
        "Jain",
    ];
    let _ = write!(t, "{:>10}", key.name());
    columns.iter().for_each(|c| {
        let _ = write!(t, "{c:>11}");
    });
    t.push('\n');
    for run in runs {
        let r = &run.report;
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let cells = [
            percent(r.loss()),
            percent(r.below_offered().max(0.0)),
            format!("{:.3}", r.c),
            format!("{:.3}", r.links.most()),
            format!("{:+.1}", r.links_above_frames),
            format!("{:.3}", r.links_by_chance),
            format!("{:.3}", r.nodes.most()),
            us(r.latency.quantile_ns(0.5)),
            us(r.latency.quantile_ns(0.99)),
            percent(r.reordered_sequences()),
            percent(r.reordered_packets()),
            us(r.skew.quantile_ns(0.5)),
            r.oversubscribed_jain().map_or("-".to_owned(), |j| format!("{j:.4}")),
        ];
        let _ = write!(t, "{:>10}", run.value.as_ref().map_or("", |v| &v.0));
        cells.iter().for_each(|c| {
            let _ = write!(t, "{c:>11}");
        });
        t += if run.interrupted { "  interrupted\n" } else { "\n" };
    }
    t
}

fn ranks(name: &str, s: &Spread) -> Curve {
    let last = s.ranks.len().saturating_sub(1).max(1) as f64;
    Curve::line(name, false, s.ranks.iter().enumerate().map(|(at, y)| (at as f64 / last * 100.0, *y)))
}

fn level(name: &str, y: f64) -> Curve {
    Curve::line(name, true, [(0.0, y), (100.0, y)])
}

/// What one run looks like.
fn plots(run: &Run) -> Vec<(String, Chart)> {
    let r = &run.report;
    let chart = |title: &str, label: &str, most: f64, curves: Vec<Curve>| Chart {
        title: title.to_owned(),
        x: Axis::linear("per cent, from the least to the most", 0.0, 100.0),
        y: Axis::linear(label, 0.0, most),
        curves,
        note: String::new(),
    };
    let planned = run.planned();
    let links = vec![
        ranks("given", &r.links),
        ranks("sent", &r.links_sent),
        level(&format!("planned for: {planned}"), 1.0),
        level("full on average, drawn at random: the most", r.links_by_chance),
    ];
    let most = r.links.most().max(r.links_by_chance).max(1.0);
    let mut nodes = vec![ranks("with a port", &r.nodes)];
    if r.inner_nodes.count > 0 {
        nodes.push(ranks("without", &r.inner_nodes));
    }
    nodes.extend([level("2R", 2.0), level("3R", 3.0)]);
    let queues = vec![ranks("links", &r.link_depth.1), ranks("outputs", &r.output_depth.1)];
    let deepest = r.link_depth.1.most().max(r.output_depth.1.most());
    let total = r.latency.count().max(1) as f64;
    let buckets = r.latency.buckets().scan(0, |below, (ns, n)| {
        *below += n;
        Some((ns as f64 / 1e3, *below as f64 / total * 100.0))
    });
    let curve = Curve::line("all packets", false, buckets);
    let edge = |ns: u64| ns as f64 / 1e3;
    let latency = Chart {
        title: "Latency".to_owned(),
        x: Axis::decades("latency, us", edge(r.latency.min_ns()), edge(r.latency.max_ns())),
        y: Axis::linear("per cent of packets that take no longer", 0.0, 100.0),
        curves: vec![curve],
        note: String::new(),
    };
    vec![
        ("links.svg".to_owned(), chart("Load of links", "load of a link, relative to the plan", most, links)),
        ("nodes.svg".to_owned(), chart("Work of servers", "work of a server, relative to R", 3.0, nodes)),
        ("queues.svg".to_owned(), chart("Deepest queues", "most that waited, bytes", deepest, queues)),
        ("latency.svg".to_owned(), latency),
    ]
}

/// What depends on what is varied.
fn plots_over(key: Key, runs: &[Run]) -> Vec<(String, Chart)> {
    let name = key.name();
    let shown = |run: &Run| run.value.as_ref().map_or(0.0, |v| v.1);
    let scale = if matches!(key, Key::Delta | Key::Skew | Key::Jitter) { 1e3 } else { 1.0 };
    let unit = if scale > 1.0 { format!("{name}, us") } else { name.to_owned() };
    // Without flowlets there is no place on an axis of delta: it is a level.
    let varied: Vec<&Run> = runs.iter().filter(|run| key != Key::Delta || shown(run) > 0.0).collect();
    let without = runs.iter().find(|run| key == Key::Delta && shown(run) == 0.0);
    let curve = |label: &str, of: &dyn Fn(&Report) -> f64| Curve {
        name: label.to_owned(),
        dashed: false,
        points: varied
            .iter()
            .map(|run| {
                let y = of(&run.report);
                let value = run.value.as_ref().map_or("", |v| &v.0);
                Point {
                    x: shown(run) / scale,
                    y,
                    filled: true,
                    title: format!("{label}, {name} {value}: {y:.6}"),
                }
            })
            .collect(),
    };
    let ends = |values: &dyn Fn(&Run) -> f64| {
        varied.iter().map(|run| values(run)).fold((f64::INFINITY, 0.0), |(l, h), v| (l.min(v), v.max(h)))
    };
    let axis = || {
        let (low, high) = ends(&|run| shown(run) / scale);
        match key {
            Key::Ports => Axis::powers("external ports", low as u32, high as u32),
            Key::Delta => Axis::decades(&unit, low, high),
            _ => Axis::linear(&unit, 0.0, high),
        }
    };
    let floor = 1e-6;
    let mut order = vec![
        curve("reordered sequences", &|r| r.reordered_sequences().max(floor)),
        curve("reordered packets (RFC 4737)", &|r| r.reordered_packets().max(floor)),
    ];
    let x = axis();
    if let Some(run) = without {
        let (low, high) = ends(&|run| shown(run) / scale);
        for (label, y) in [
            ("sequences without flowlets", run.report.reordered_sequences()),
            ("packets without flowlets", run.report.reordered_packets()),
        ] {
            order.push(Curve::line(label, true, [(low, y), (high, y)]));
        }
    }
    let most = order.iter().flat_map(|c| &c.points).map(|p| p.y).fold(1e-3, f64::max);
    let least = order.iter().flat_map(|c| &c.points).map(|p| p.y).fold(1.0, f64::min);
    let chart = |title: &str, label: &str, x: Axis, curves: Vec<Curve>| {
        let most = curves.iter().flat_map(|c| &c.points).map(|p| p.y).fold(0.0, f64::max);
        let y = Axis::linear(label, 0.0, most);
        Chart { title: title.to_owned(), x, y, curves, note: String::new() }
    };
    vec![
        (
            format!("reordering-over-{name}.svg"),
            Chart {
                title: format!("Reordering over {name}"),
                x,
                y: Axis::decades("for each packet", least, most * 10.0),
                curves: order,
                note: String::new(),
            },
        ),
        (
            format!("load-over-{name}.svg"),
            chart(
                &format!("Links and servers over {name}"),
                "relative to the plan (links), to R (servers)",
                axis(),
                vec![
                    curve("busiest link", &|r| r.links.most()),
                    curve("a full link by chance", &|r| r.links_by_chance),
                    curve("mean link", &|r| r.links.mean),
                    curve("busiest server", &|r| r.nodes.most()),
                    curve("effective c", &|r| r.c),
                ],
            ),
        ),
        (
            format!("latency-over-{name}.svg"),
            chart(
                &format!("Latency over {name}"),
                "us",
                axis(),
                vec![
                    curve("median", &|r| r.latency.quantile_ns(0.5) as f64 / 1e3),
                    curve("99 %", &|r| r.latency.quantile_ns(0.99) as f64 / 1e3),
                ],
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_what_is_varied_are_read() {
        assert_eq!(
            failure("node:3@2ms"),
            Ok(Failure { part: Part::Node(3), at_ns: 2_000_000, until_ns: None })
        );
        assert_eq!(
            failure("link:0-1@2ms-9ms"),
            Ok(Failure { part: Part::Link(0, 1), at_ns: 2_000_000, until_ns: Some(9_000_000) })
        );
        for wrong in ["node:3", "node:x@1ms", "link:1@1ms", "3@1ms", "node:3@soon", "node:3@1ms-"] {
            assert!(failure(wrong).is_err(), "{wrong}");
        }
        let deltas = over("delta=none,10us,1ms").unwrap();
        assert_eq!(deltas.values.iter().map(|v| v.1).collect::<Vec<_>>(), [0.0, 1e4, 1e6]);
        for wrong in ["delta", "speed=1", "delta=1,x", "ports=1", "load=0"] {
            assert!(over(wrong).is_err(), "{wrong}");
        }
        assert_eq!((count("2M"), count("500k")), (Ok(2e6), Ok(5e5)));
        assert_eq!(
            [0, 999, 24_000, 1_500_000, 2_000_000_000].map(span),
            ["0ns", "999ns", "24us", "1.5ms", "2s"]
        );
    }
}
