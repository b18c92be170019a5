//! `valiant check --predict` and `valiant bench program`: how fast a configuration will run, and how fast it
//! does.

use crate::source::Wanted;
use ::bench::{Host, Machine};
use clap::Args;
use launch::logging::error;
use launch::output::print;
use launch::progress::Progress;
use launch::{Launch, report};
use measure::rate::short;
use predict::{Component, Failure, Kept, Measured, Observed, Prediction, Scale, Traffic, limit};
use runtime::{Options, Registry};
use serde_json::{Value, json};
use std::fmt::Write as _;
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
    /// The processor on which elements are measured.
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,
    /// Measure all elements again, also those whose cost is known from before.
    #[arg(long)]
    pub(crate) again: bool,
}

/// Which elements are measured, and how.
#[derive(Args)]
pub(crate) struct ElementsArgs {
    /// Elements, as a configuration has them: `Strip(14)`.
    element: Vec<String>,
    /// What packets pass before they come to the elements.
    #[arg(long, value_name = "PATH")]
    before: Option<String>,
    /// The processor on which elements are measured.
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Measure all elements again, also those whose cost is known from before.
    #[arg(long)]
    again: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What packets may pass before they come to an element: as frames, or as IP packets with their annotations.
const BEFORE: [&str; 2] = ["", "Strip(14) -> CheckIPHeader -> GetIPAddress(16)"];

/// The processors that this process may use.
fn processors() -> Vec<usize> {
    dpdk::Topology::here().cores().iter().filter(|core| core.allowed).map(|core| core.id).collect()
}

/// How routers run that are measured: on this processor, or the last one. The calling thread leaves it to
/// them.
fn options(cpu: Option<usize>) -> Result<Options, String> {
    let all = processors();
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

/// Measures elements.
pub(crate) fn elements(registry: &Arc<Registry>, args: &ElementsArgs) -> ExitCode {
    let fail = |message: &str| {
        error(&format!("error: {message}"));
        ExitCode::FAILURE
    };
    let options = match options(args.cpu) {
        Ok(options) => options,
        Err(message) => return fail(&message),
    };
    let all = if args.element.is_empty() { predict::usual(registry) } else { args.element.clone() };
    let before = args.before.as_deref().map_or(BEFORE.to_vec(), |path| vec![path]);
    let measure = match predict::Elements::new(registry, &options) {
        Ok(measure) => measure,
        Err(message) => return fail(&message),
    };
    let mut kept = kept(args.again, &options);
    let mut progress = Progress::new(false, "bench elements ", false);
    let mut found = Vec::new();
    for (n, element) in all.iter().enumerate() {
        progress.update(n as f64 / all.len() as f64, || element.clone());
        found.push((element, measure.cost(element, &before, &mut kept)));
    }
    drop(progress);
    if let Err(e) = kept.save() {
        error(&format!("the costs cannot be kept for the next time: {e}"));
    }
    let failed = found.iter().any(|(_, cost)| cost.is_err());
    if args.json {
        let all = found.iter().map(|(element, cost)| match cost {
            Ok(c) => json!({
                "element": element, "before": c.before, "batch_cycles": c.batch, "packet_cycles": c.packet,
                "byte_cycles": c.byte, "cold_cycles": c.cold, "small_packet_cycles": c.of_small(options.batch_size),
            }),
            Err(why) => json!({"element": element, "error": why}),
        });
        let hertz = dpdk::cycles_per_second();
        print(&format!(
            "{:#}\n",
            json!({"batch": options.batch_size, "tsc_hz": hertz, "elements": all.collect::<Vec<_>>()})
        ));
    } else {
        let width = all.iter().map(String::len).fold(7, usize::max).min(60);
        let mut text = format!(
            "cycles; packets in batches of {}\n{:width$} {:>9} {:>9} {:>9} {:>9} {:>9}  of\n",
            options.batch_size, "element", "60 bytes", "batch", "packet", "byte", "cold"
        );
        for (element, cost) in &found {
            let _ = match cost {
                Ok(c) => writeln!(
                    text,
                    "{element:width$} {:>9.1} {:>9.0} {:>9.1} {:>9.3} {:>9.1}  {}",
                    c.of_small(options.batch_size),
                    c.batch,
                    c.packet,
                    c.byte,
                    c.cold,
                    if c.before.is_empty() {
                        "frames"
                    } else if c.before == BEFORE[1] {
                        "IP packets"
                    } else {
                        &c.before
                    }
                ),
                Err(why) => writeln!(
                    text,
                    "{element:width$} not measured: {}",
                    why.lines().next().unwrap_or_default()
                ),
            };
        }
        print(&text);
    }
    // Of those that nobody asked for, some need what is not there.
    if failed && !args.element.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What was found out about a configuration.
struct Found {
    name: String,
    notes: Vec<String>,
    prediction: Prediction,
    measured: Option<Measured>,
    scaled: Option<(Vec<Component>, Scale)>,
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
    let options = options(args.cpu).map_err(Failure::Message)?;
    let mut traffic = Traffic::default();
    args.traffic.iter().for_each(|text| traffic.add(text));
    let mut progress = Progress::new(false, "predict ", false);
    progress.update(0.0, || "which packets come where".to_owned());
    let observed = predict::observe(&wanted.source, &wanted.options, registry, &options, &traffic)?;
    let mut kept = kept(args.again, &options);
    let prediction = predict::predict(&observed, registry, &options, &mut kept, |done, what| {
        progress.update(done, || what.to_owned());
    })?;
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
    let measured = if measure {
        progress.update(1.0, || "the configuration itself".to_owned());
        Some(predict::measured(&observed, registry, &options)?)
    } else {
        None
    };
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
fn kept(again: bool, options: &Options) -> Kept {
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
    Kept::load(&path, &machine, again)
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

impl Found {
    /// By how much the predicted rate is wrong, in percent.
    fn error(&self) -> Option<f64> {
        self.measured.as_ref().map(|measured| (measured.cycles / self.prediction.cycles - 1.0) * 100.0)
    }

    fn measured_of(&self, name: &str) -> Option<f64> {
        let all = &self.measured.as_ref()?.elements;
        all.iter().find(|(element, _)| element == name).map(|(_, cycles)| *cycles)
    }

    fn json(&self) -> Value {
        let p = &self.prediction;
        let lines = p.lines.iter().map(|line| {
            json!({
                "name": line.name, "class": line.class, "share": line.share, "batch": line.batch, "bytes": line.bytes,
                "cycles": line.cycles.as_ref().ok(), "not_known": line.cycles.as_ref().err(),
                "measured_cycles": self.measured_of(&line.name),
            })
        });
        let measured = self.measured.as_ref().map(|m| {
            json!({"cycles_per_packet": m.cycles, "rate_pps": p.hertz / m.cycles, "error_percent": self.error()})
        });
        let scaled = self.scaled.as_ref().map(|(components, scale)| {
            let of = |c: &Component| {
                let rates = c.rates();
                json!({
                    "name": c.name, "unit": c.unit, "per_packet": c.load, "per_second": c.capacity, "times": c.times,
                    "rate_pps": rates.map(|r| r.0), "scaled_rate_pps": rates.map(|r| r.1),
                })
            };
            let limit = limit(components);
            json!({
                "cpu": scale.cpu, "mem": scale.mem, "io": scale.io,
                "components": components.iter().map(of).collect::<Vec<_>>(),
                "limit": limit.map(|l| l.0.name), "rate_pps": limit.map(|l| l.1),
            })
        });
        json!({
            "ok": true, "configuration": self.name, "elements": lines.collect::<Vec<_>>(),
            "runtime_cycles": p.runs, "cycles_per_packet": p.cycles, "complete": p.unknown().is_empty(), "tsc_hz": p.hertz, "rate_pps": p.rate(),
            "sent_per_received": p.sent, "waiting_packets": p.waiting, "memory_bytes_per_packet": p.memory, "notes": self.notes,
            "measured": measured, "scaled": scaled,
        })
    }

    fn text(&self) -> String {
        let p = &self.prediction;
        let mut text = format!("{}: cycles on one processor, each element measured alone\n", self.name);
        let width = |least: usize, of: &dyn Fn(&predict::Line) -> usize| {
            p.lines.iter().map(of).fold(least, usize::max)
        };
        let (name, class) = (width(7, &|l| l.name.len()), width(5, &|l| l.class.len()));
        let there = if self.measured.is_some() { "  measured" } else { "" };
        let _ = writeln!(
            text,
            "{:name$}  {:class$}  {:>8} {:>6} {:>6} {:>9} {:>9}{there}",
            "element", "class", "packets", "batch", "bytes", "cycles", "part"
        );
        for line in &p.lines {
            let _ = write!(
                text,
                "{:name$}  {:class$}  {:>8.3} {:>6.1} {:>6.0}",
                line.name, line.class, line.share, line.batch, line.bytes
            );
            match &line.cycles {
                Ok(cycles) => {
                    let _ = write!(text, " {cycles:>9.1} {:>9.1}", cycles * line.share);
                }
                Err(why) => {
                    let _ = write!(text, "  not known: {}", why.lines().next().unwrap_or_default());
                }
            }
            if let Some(cycles) = self.measured_of(&line.name).filter(|_| line.cycles.is_ok()) {
                let _ = write!(text, "  {cycles:>8.1}");
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "{:name$}  {:class$}  {:>8} {:>6} {:>6} {:>9} {:>9.1}",
            "(tasks)", "", "", "", "", "", p.runs
        );
        let _ = writeln!(
            text,
            "\npredicted: {}pps received, {:.1} cycles each at {:.2} GHz; {}pps sent",
            short(p.rate()),
            p.cycles,
            p.hertz / 1e9,
            short(p.rate() * p.sent)
        );
        if let (Some(measured), Some(error)) = (&self.measured, self.error()) {
            let _ = writeln!(
                text,
                "measured:  {}pps received, {:.1} cycles each, error {error:+.1} %",
                short(p.hertz / measured.cycles),
                measured.cycles
            );
        }
        if let Some((components, scale)) = &self.scaled {
            text += &scaled(components, *scale);
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

/// What each component allows, here and in the other server.
fn scaled(components: &[Component], scale: Scale) -> String {
    let mut text = format!(
        "\n{:14} {:>18} {:>14} {:>14} {:>7} {:>14}\n",
        "component", "a packet takes", "a second has", "allows", "times", "would allow"
    );
    for c in components {
        let rates = c.rates().map(|(here, there)| [here, there].map(|rate| format!("{}pps", short(rate))));
        let [here, there] = rates.unwrap_or_else(|| ["not known".to_owned(), "not known".to_owned()]);
        let capacity = c.capacity.map_or("not known".to_owned(), |n| short(n).trim().to_owned());
        let load = format!("{:.0} {}", c.load, c.unit);
        let _ =
            writeln!(text, "{:14} {load:>18} {capacity:>14} {here:>14} {:>7} {there:>14}", c.name, c.times);
    }
    if let Some((component, rate)) = limit(components) {
        let _ = writeln!(
            text,
            "projected (cpu x{}, mem x{}, io x{}): {}pps received, limited by {}; all processors, if the work is shared equally",
            scale.cpu,
            scale.mem,
            scale.io,
            short(rate),
            component.name
        );
    }
    text
}
