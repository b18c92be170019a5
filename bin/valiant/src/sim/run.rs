//! One simulation, from the arguments to its report.

use super::args::SimArgs;
use super::values::{Key, Time, span};
use cluster::Mode;
use launch::progress::Progress;
use launch::{StopSignals, reason};
use measure::matrix::{Matrix, Named, Wanted};
use simulator::{Config, Report, Sim, SinglePath};
use std::time::Instant;

/// The arguments with one value of the varied option.
pub(super) fn with(args: &SimArgs, key: Key, (text, value): &(String, f64)) -> SimArgs {
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
    let read = |path: &str| std::fs::read_to_string(path).map_err(|e| reason(&e));
    let matrix = match Wanted::load(&args.matrix, read).map_err(|e| e.to_string())? {
        Wanted::Named(kind) => {
            let kind = if kind == Named::Worst && args.topology == "fly" { Named::Transpose } else { kind };
            return Matrix::named(kind, args.ports.unwrap_or(4), args.seed).map_err(|e| e.to_string());
        }
        Wanted::Given(matrix) => matrix,
        Wanted::File(path) => return Err(format!("{path} has not been read")),
    };
    match args.ports {
        Some(n) if usize::from(n) != matrix.inputs() => {
            Err(format!("{} is for {} ports, --ports says {n}", args.matrix, matrix.inputs()))
        }
        _ => Ok(matrix),
    }
}

pub(super) fn config(args: &SimArgs) -> Result<Config, String> {
    let matrix = matrix(args)?;
    let mut config = Config::new(matrix.inputs() as u16, args.rate, matrix, args.load);
    config.k = (args.topology == "fly").then_some(args.k);
    config.single_path = match args.mode.as_str() {
        "single" => Some(SinglePath::Static),
        "scheduled" => Some(SinglePath::Adaptive),
        _ => None,
    };
    if config.single_path.is_some() && config.k.is_some() {
        return Err(format!(
            "--mode {} is for a mesh: in a fly no link leads from an input to its output",
            args.mode
        ));
    }
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

/// One run, with its parameters.
pub(super) struct Run {
    pub(super) args: SimArgs,
    pub(super) config: Config,
    pub(super) value: Option<(String, f64)>,
    pub(super) report: Report,
    pub(super) interrupted: bool,
    pub(super) seconds: f64,
}

pub(super) fn run(args: &SimArgs, value: Option<(String, f64)>, stop: &StopSignals) -> Result<Run, String> {
    let config = config(args)?;
    let mut sim = Sim::new(config.clone()).map_err(|e| e.to_string())?;
    let name = match (&args.over, &value) {
        (Some(over), Some(value)) => format!("{}={} ", over.key.name(), value.0),
        _ => String::new(),
    };
    let started = Instant::now();
    let mut progress = Progress::new(args.quiet, &name, true);
    let mut interrupted = false;
    while sim.run(100_000) {
        if stop.wanted() {
            interrupted = true;
            break;
        }
        let done = sim.progress();
        progress.update(done, || {
            let left = started.elapsed().as_secs_f64() * (1.0 / done.max(1e-6) - 1.0);
            let end = sim.config().warm_ns + sim.config().time_ns;
            let (now, end, packets) = (span(sim.now_ns()), span(end), sim.size().0);
            format!("{now} of {end}  {packets} packets on their way  {left:.0} s left")
        });
    }
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    Ok(Run { args: args.clone(), config, value, report: sim.report(), interrupted, seconds })
}
