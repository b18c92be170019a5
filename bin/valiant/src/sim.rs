//! `valiant sim`: a cluster in simulated time.

mod plots;
mod report;
mod values;

use crate::chart::Chart;
use crate::driver::StopSignals;
use crate::load;
use crate::planner::bps;
use clap::Args;
use cluster::Mode;
use cluster::sim::{Config, Failure, Matrix, NAMES, Named, Report, Sim};
use measure::sizes::Sizes;
use plots::{plots, plots_over};
use report::table;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use values::{Key, Over, Time, count, failure, over, part, sizes, span, time, time_or_none};

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
    /// Write plots as SVG into a directory: links, nodes, queues, outputs, latency; with --over what depends on it.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// No progress.
    #[arg(short, long)]
    quiet: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_seen_has_no_figures() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            sim: SimArgs,
        }
        let run = |words: &str, steps: u64| {
            let line: Line = clap::Parser::parse_from(format!("sim {words}").split(' '));
            let config = config(&line.sim).unwrap();
            let mut sim = Sim::new(config.clone()).unwrap();
            while steps > 0 && sim.run(steps) {}
            let report = sim.report();
            Run { args: line.sim, config, value: None, report, interrupted: steps == 0, seconds: 0.0 }
        };
        let ended_early = run("-n 4", 0).text();
        assert!(
            ended_early.contains("while warming up") && !ended_early.contains("latency"),
            "{ended_early}"
        );
        let straight = run("-n 4 --packets 1k", 1000);
        assert!(straight.text().contains(", over an intermediate -"), "{}", straight.text());
        assert!(straight.json()["latency_mean_ns"]["over_an_intermediate"].is_null());
        assert!(straight.json()["latency_mean_ns"]["straight"].is_f64());
        let names: Vec<String> = plots(&straight).into_iter().map(|plot| plot.0).collect();
        assert_eq!(names, ["links.svg", "nodes.svg", "queues.svg", "outputs.svg", "latency.svg"]);
    }
}
