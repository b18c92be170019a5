//! `valiant check --predict` and `valiant bench program`: how fast a configuration will run, and how fast it
//! does.

use crate::prediction::Found;
use crate::source::Wanted;
use ::bench::{Host, Machine};
use clap::Args;
use launch::logging::error;
use launch::output::print;
use launch::progress::Progress;
use launch::{Launch, report};
use predict::{Component, Failure, Kept, Observed, Prediction, Scale, Traffic};
use runtime::{Options, Registry};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// How a prediction is made.
#[derive(Args, Clone, Default, PartialEq)]
pub(crate) struct PredictArgs {
    /// The packets that come in: a capture file for all ports, or DEVICE=FILE for one; repeat it for others.
    /// Interfaces and NICs are not opened. Virtual devices (`net_...`) are, and need no file.
    #[arg(long, value_name = "[DEVICE=]FILE.pcap")]
    pub(crate) traffic: Vec<String>,
    /// Also say what a server would do that has so many times the cycles, the memory bandwidth and the I/O
    /// bandwidth of this one, as in `cpu=4,mem=2,io=2`.
    #[arg(long, value_name = "cpu=N,mem=N,io=N", value_parser = Scale::parse)]
    pub(crate) scale: Option<Scale>,
    #[command(flatten)]
    pub(crate) alone: AloneArgs,
}

/// How often everything is measured, one after the other; the least counts.
const PASSES: u32 = 3;

/// How elements are measured, each by itself.
#[derive(Args, Clone, Default, PartialEq)]
pub(crate) struct AloneArgs {
    /// The processor on which elements are measured; the last one if not given. Meanwhile ordinary programs
    /// hardly run there, if this one has the right to that.
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Measure all elements again, also those whose cost is known from before.
    #[arg(long)]
    again: bool,
}

/// The processors that this process may use.
fn processors() -> Vec<usize> {
    dpdk::Topology::here().cores().iter().filter(|core| core.allowed).map(|core| core.id).collect()
}

/// How routers run that are measured: on one processor, which the calling thread leaves to them.
pub(crate) fn options(args: &AloneArgs) -> Result<Options, String> {
    let (cpu, all) = (args.cpu, processors());
    if let Some(cpu) = cpu.filter(|cpu| !all.contains(cpu)) {
        return Err(format!("processor {cpu} is not there, or this process may not use it"));
    }
    let cpu = cpu.or(all.last().copied());
    let cpus: Vec<usize> = cpu.into_iter().collect();
    let mut options = Launch::default().options(&cpus);
    // Where elements are measured, ordinary threads hardly ever run: whoever reads the counters needs another
    // processor.
    let others: Vec<usize> = all.into_iter().filter(|other| Some(*other) != cpu).collect();
    if !others.is_empty() && dpdk::set_affinity(&others).is_ok() {
        options.enter = Some(launch::enter_measured);
    }
    Ok(options)
}

/// Predicts, and measures too if that is wanted; prints both.
pub(crate) fn predict(
    registry: &Arc<Registry>,
    wanted: &Wanted,
    args: &PredictArgs,
    (measure, json): (bool, bool),
) -> ExitCode {
    match find(registry, wanted, args, measure) {
        Ok(found) if json => print(&format!("{:#}\n", found.json())),
        Ok(found) => print(&found.text()),
        Err(failure) => {
            let (value, show): (Value, Box<dyn Fn()>) = match failure {
                Failure::Configuration(diags) => {
                    let value = json!({"ok": false, "diagnostics": diags.to_json(diags.sources())});
                    (value, Box::new(move || report(&diags)))
                }
                Failure::Message(message) => (
                    json!({"ok": false, "error": message}),
                    Box::new(move || error(&format!("error: {message}"))),
                ),
            };
            if json {
                print(&format!("{value}\n"));
            } else {
                show();
            }
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn find(
    registry: &Arc<Registry>,
    wanted: &Wanted,
    args: &PredictArgs,
    measure: bool,
) -> Result<Found, Failure> {
    let options = options(&args.alone).map_err(Failure::Message)?;
    let mut traffic = Traffic::default();
    args.traffic.iter().for_each(|text| traffic.add(text));
    let mut progress = Progress::new(false, "predict ", false);
    progress.update(0.0, || "which packets come where".to_owned());
    let observed = predict::observe(&wanted.source, &wanted.options, registry, &options, &traffic)?;
    let mut kept = kept(&args.alone, &options);
    let (mut prediction, mut measured) = (None, None);
    for pass in 0..PASSES {
        kept.begin_pass();
        let found = predict::predict(&observed, registry, &options, &mut kept, |done, what| {
            progress.update((f64::from(pass) + done) / f64::from(PASSES), || what.to_owned());
        })?;
        prediction = Some(found);
        if measure {
            let part = f64::from(pass + 1) / f64::from(PASSES);
            progress.update(part, || "the configuration itself".to_owned());
            let new = predict::measured(&observed, registry, &options)?;
            let better = measured.as_ref().is_none_or(|best: &predict::Measured| new.cycles < best.cycles);
            measured = if better { Some(new) } else { measured };
        }
    }
    let prediction = prediction.ok_or_else(|| Failure::Message("nothing was measured".to_owned()))?;
    let mut notes = observed.notes.clone();
    let unknown = prediction.unknown();
    if !unknown.is_empty() {
        notes.push(format!(
            "what {} takes is not known and not in the sum: the rate is lower",
            unknown.join(", ")
        ));
    }
    if let Err(e) = kept.save() {
        notes.push(format!("the costs cannot be kept for the next time: {e}"));
    }
    // The whole machine is asked about now; it had all of them before.
    let _ = dpdk::set_affinity(&processors());
    let scaled = args.scale.map(|scale| {
        progress.update(1.0, || "memory".to_owned());
        Ok((components(&prediction, &observed, scale)?, scale))
    });
    let scaled = scaled.transpose().map_err(Failure::Message)?;
    Ok(Found { name: wanted.name.clone(), notes, prediction, measured, scaled })
}

/// The costs of before.
pub(crate) fn kept(args: &AloneArgs, options: &Options) -> Kept {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let directory =
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home);
    // Others may put files into a directory for all: without one of its own, nothing is kept.
    let path = directory
        .filter(|path| path.is_absolute())
        .map(|path| path.join("valiant/costs.json"))
        .unwrap_or_default();
    // Another build of the program may be faster.
    let built = std::env::current_exe().and_then(|program| program.metadata()?.modified()).ok();
    let built = built.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |time| time.as_secs());
    let machine = format!(
        "{}, Valiant {} of {built}, batches of {}, hugepages {:?}",
        Machine::here().model,
        env!("CARGO_PKG_VERSION"),
        options.batch_size,
        options.eal.hugepages
    );
    Kept::load(&path, &machine, args.again)
}

/// What a packet takes of each component of this machine, and what there is.
fn components(prediction: &Prediction, observed: &Observed, scale: Scale) -> Result<Vec<Component>, String> {
    let options = ::bench::Options {
        processors: Vec::new(),
        bytes: None,
        samples: 3,
        sample: Duration::from_millis(20),
    };
    let host = Host::measure(&options, |_, _| ())?;
    let processors = host.machine().processors().len() as f64;
    let links: f64 = host.machine().nics.iter().filter_map(|nic| Some(nic.link?.gbps() * 1e9 / 8.0)).sum();
    Ok(vec![
        Component {
            name: "processors",
            unit: "cycles",
            load: prediction.cycles,
            capacity: Some(prediction.hertz * processors),
            times: scale.cpu,
        },
        Component {
            name: "memory",
            unit: "bytes",
            load: prediction.memory,
            capacity: host.copy_rate(),
            times: scale.mem,
        },
        Component {
            name: "links of NICs",
            unit: "bytes",
            load: observed.bytes_of_a_packet(),
            capacity: (links > 0.0).then_some(links),
            times: scale.io,
        },
    ])
}
