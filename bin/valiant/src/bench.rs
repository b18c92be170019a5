//! `valiant bench`: what a machine allows; experiments.

use crate::costs::{ElementsArgs, elements};
use crate::experiments::{How, Outcome, measure, this_program, write_page};
use crate::papers::{PapersArgs, papers};
use crate::predict::{PredictArgs, predict};
use crate::serve::{self, ServeArgs, serve};
use crate::source::{self, FileArgs};
use ::bench::{Host, Options};
use clap::{Args, Subcommand};
use experiment::{Comparison, Experiment};
use launch::StopSignals;
use launch::cpu_list;
use launch::logging::error;
use launch::output::print;
use launch::progress::Progress;
use runtime::Registry;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  valiant bench host                  processors, caches, memory and links of this machine, and what they allow
  valiant bench host --json >host.json
  valiant bench host --cpus 2,3       two processors alone
  valiant bench run sizes.toml        the experiment of a file
  valiant bench run sizes.toml --html sizes.html
                                      and its results as a page with plots
  valiant bench program router.click --traffic frames.pcap
                                      what each element of a configuration takes, predicted and measured
  valiant bench report old.json       a page from a report of before
  valiant bench papers --quick        figures of papers, without NICs or rights
  valiant bench compare a.json b.json what has changed between two reports";

const RUN_EXAMPLES: &str = "\
An experiment file says what is varied, what is measured, and with which device under test:

  [device]                            # without: whatever is between the two ports
  program = \"router.click\"           # a configuration of Valiant's, or: command = \"testpmd ...\"
  [traffic]                           # as the options of `valiant gen`
  to = \"eth0\"
  sink = \"eth1\"
  [vary]
  size = [60, 508, 1514]
  [measure]                           # the highest rates without loss, and with 0.5 % (RFC 9971)
  loss = [0, \"0.5%\"]                  # or search = \"rfc2544\", \"back-to-back\" for bursts (RFC 9004),
                                      # or \"connections\" through a NAT or a firewall (RFC 9693)
  set-up = \"20k\"                      # the same rates, over connections that are set up before each trial

The report has rates, latency, jitter, order, when frames were lost, and what it cost the device: cycles of each element of a program, processor time
of any process.

conf/experiment.toml is an example with a device; doc/experiments.md has all keys. What is measured is kept at once: after Ctrl-C, a crash or a power
failure the same command goes on where it was, and when all is measured it prints the report again.

Examples:
  valiant bench run sizes.toml --plan   what would be measured, and about how long that takes
  valiant bench run sizes.toml
  valiant bench run sizes.toml --csv >sizes.csv
  valiant bench run sizes.toml --html sizes.html

Exit status: 0 all is measured, and is as expected, 1 it cannot run, 2 wrong usage, 3 a point has failed, 4 an expectation ([[expect]])
does not hold, 130 interrupted.";

const AGENT_EXAMPLES: &str = "\
`valiant bench run` starts it by itself, with the command that `host` in [device] names, and talks to it by its standard input and output: no port
is opened, and whoever may log in there may measure there. It starts the device, measures what that costs, and says how it ends. When its
standard input ends, because the bench has ended or the connection is broken, it ends the device with all that it has started, and
removes the files that it was sent. Called by hand it only says which version it is.

  [device]
  program = \"router.click\"                      # is sent there
  host = [\"ssh\", \"-oBatchMode=yes\", \"root@dut\"]  # what follows these words runs there
  valiant = \"/usr/local/bin/valiant\"           # the same version as here

Examples:
  ssh -oBatchMode=yes root@dut valiant bench agent </dev/null
                                      whether it can be reached; the answer is a line that names the version and the machine

Exit status: 0 standard input has ended, 1 it has heard what is no request, or nothing for a minute.";

const REPORT_EXAMPLES: &str = "\
The page has plots, all points, what limited them, the machine, and the experiment's file. It needs nothing beside it.

Examples:
  valiant bench run sizes.toml --json >sizes.json
  valiant bench report sizes.json     writes sizes.html
  valiant bench report - --html - <sizes.json >page.html";

const PAPERS_EXAMPLES: &str = "\
Files that end in .toml are experiments; doc/experiments.md says what is in them. Those in the
directory experiments of Valiant's sources need no rights, no NIC and no cable.

Examples:
  valiant bench papers --quick          those in ./experiments, at most three rounds of each
  valiant bench papers --html pages     with a page of each, and pages/index.html

Exit status: as that of `valiant bench run`, of the experiment with which most is wrong.";

const ELEMENTS_EXAMPLES: &str = "\
n packets of a batch take batch + n x (packet + byte x bytes) cycles of the time-stamp counter, where they are in the processor's nearest
cache; cold is what each takes more if it has left the second one, as behind a long queue. Costs are kept in ~/.cache/valiant/costs.json.

Packets are UDP in IPv4, to some hundred addresses of 10.0.0.0/16; elements that take IP packets get them without the Ethernet header.

Examples:
  valiant bench elements                those with a fast path, as in their manuals' examples
  valiant bench elements DecIPTTL 'IPFilter(allow udp, deny all)'
  valiant bench elements --before 'VLANEncap(5)' VLANDecap";

const PROGRAM_EXAMPLES: &str = "\
Ports are virtual: frames of a capture file come as fast as they are taken, and what is sent goes nowhere. So it is what the elements and the
runtime take, without a NIC's driver. Nothing should run beside it on that processor.

Examples:
  valiant bench program router.click --traffic frames.pcap
  valiant bench program router.click --traffic eth0=inside.pcap --traffic eth1=outside.pcap
  valiant check --predict router.click --traffic frames.pcap --scale cpu=4,mem=2,io=2";

const COMPARE_EXAMPLES: &str = "\
A difference counts if it is less likely than 1 in 20 by chance (Mann-Whitney test). That takes at least four rounds on both sides, better eight.

Examples:
  valiant bench run sizes.toml --json >before.json
  valiant bench run sizes.toml --json --results sizes.after >after.json
  valiant bench compare before.json after.json";

const HOST_EXAMPLES: &str = "\
It takes about ten seconds and needs no rights. Other programs should rest meanwhile: what they use is missing.

How to read it: a router's program takes some lines of memory for each packet. Where they are in a cache, a line costs a few cycles; where they
come from memory one after another, some hundred. The last table is the most that memory alone lets through, without any program.
A NIC's line says what its PCI Express link can carry, whatever its port is called.

Examples:
  valiant bench host
  valiant bench host --memory 1024    lines among up to 1 GiB, where caches are larger than 64 MB";

#[derive(Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measure this machine: processors, caches, memory, system calls, links of NICs.
    #[command(after_help = HOST_EXAMPLES)]
    Host(HostArgs),
    /// Run an experiment: rates without loss, latency and order, as a file says.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run the device of an experiment that `valiant bench run` makes on another host.
    #[command(after_help = AGENT_EXAMPLES)]
    Agent,
    /// Write a report of an experiment as a page: HTML with plots.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Measure what elements cost: cycles of a batch, a packet, a byte, and of packets that have left the
    /// cache.
    #[command(after_help = ELEMENTS_EXAMPLES)]
    Elements(ElementsArgs),
    /// Run a configuration as fast as one processor can, and compare with the prediction of `valiant check
    /// --predict`.
    #[command(after_help = PROGRAM_EXAMPLES)]
    Program(ProgramArgs),
    /// Run all experiments of a directory, such as those that repeat figures of papers.
    #[command(after_help = PAPERS_EXAMPLES)]
    Papers(PapersArgs),
    /// Show results in a browser, while they are measured and afterwards.
    #[command(after_help = serve::EXAMPLES)]
    Serve(ServeArgs),
    /// Compare two reports of an experiment: what has changed, and whether it is more than noise.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
}

#[derive(Args)]
struct ProgramArgs {
    #[command(flatten)]
    source: FileArgs,
    #[command(flatten)]
    how: PredictArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ReportArgs {
    /// The report: the output of `valiant bench run --json`; - is standard input.
    report: PathBuf,
    /// The page; - is standard output [default: beside the report, REPORT.html].
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
}

#[derive(Args)]
struct CompareArgs {
    /// The report of before: the output of `valiant bench run --json`.
    before: PathBuf,
    /// The report of after.
    after: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct RunArgs {
    /// The experiment file (TOML).
    file: PathBuf,
    /// The directory of the results [default: beside the file, NAME.results].
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Forget what has been measured, and begin again.
    #[arg(long)]
    restart: bool,
    /// Print what would be measured, and about how long it takes.
    #[arg(long, conflicts_with = "restart")]
    plan: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV.
    #[arg(long)]
    csv: bool,
    /// Write the results as a page too: HTML with plots, which needs nothing beside it; - is standard output.
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    /// Do not print progress.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Args)]
struct HostArgs {
    /// The processors to measure, such as 0-3,8 (all that this process may use).
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// The memory in which lines are read, in MiB (four times the last cache, at least 256).
    #[arg(long, value_name = "MIB")]
    memory: Option<usize>,
    /// Samples of each thing.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: u32,
    /// Milliseconds of each sample.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sample: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn bench(registry: &Arc<Registry>, args: &BenchArgs) -> ExitCode {
    match &args.what {
        What::Elements(args) => elements(registry, args),
        What::Program(args) => match source::load(&args.source) {
            Ok(wanted) => predict(registry, &wanted, &args.how, (true, args.json)),
            Err(message) => ended(Err(message)),
        },
        What::Host(args) => host(args),
        What::Run(args) => ended(experiment_of(args)),
        What::Agent => ended(agent()),
        What::Papers(args) => ended(papers(args)),
        What::Serve(args) => ended(serve(args)),
        What::Report(args) => ended(page_of(args)),
        What::Compare(args) => compare(args),
    }
}

fn host(args: &HostArgs) -> ExitCode {
    let processors = match args.cpus.as_deref().map(cpu_list).transpose() {
        Ok(processors) => processors.unwrap_or_default(),
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let options = Options {
        processors,
        bytes: args.memory.map(|mebibytes| mebibytes.saturating_mul(1 << 20)),
        samples: args.samples as usize,
        sample: Duration::from_millis(args.sample.into()),
    };
    let mut progress = Progress::new(false, "bench host ", false);
    let measured = Host::measure(&options, |step, done| progress.update(done, || step.to_owned()));
    drop(progress);
    match measured {
        Ok(host) if args.json => print(&format!("{:#}\n", host.json())),
        Ok(host) => print(&host.text()),
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The report in a file, or, for `-`, of standard input; with its name.
fn read(path: &Path) -> Result<(String, Value), String> {
    let name = launch::shortest(path);
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|e| format!("{name}: {}", launch::reason(&e)))?;
    let report = serde_json::from_str(&text).map_err(|e| format!("{name}: this is no JSON: {e}"))?;
    Ok((name, report))
}

fn agent() -> Result<ExitCode, String> {
    let stop = StopSignals::watch();
    experiment::agent(&this_program()?, &|| stop.wanted()).map(|()| ExitCode::SUCCESS)
}

fn page_of(args: &ReportArgs) -> Result<ExitCode, String> {
    let (name, report) = read(&args.report)?;
    let beside = || match args.report.to_str() {
        Some("-") => PathBuf::from("-"),
        _ => args.report.with_extension("html"),
    };
    let page = args.html.clone().unwrap_or_else(beside);
    if page == args.report && page != Path::new("-") {
        return Err(format!(
            "{name}: the page would take the place of the report: choose another name (--html)"
        ));
    }
    write_page(&report, &page).map_err(|e| format!("{name}: {e}"))?;
    if page != Path::new("-") && args.html.is_none() {
        error(&format!("the page is {}", page.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(args: &CompareArgs) -> ExitCode {
    let compared = read(&args.before).and_then(|before| {
        let after = read(&args.after)?;
        Comparison::new([(&before.0, &before.1), (&after.0, &after.1)])
    });
    match compared {
        Ok(comparison) if args.json => print(&format!("{:#}\n", comparison.json())),
        Ok(comparison) => print(&comparison.text()),
        Err(message) => {
            error(&format!("error: {message}"));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn ended(ended: Result<ExitCode, String>) -> ExitCode {
    ended.unwrap_or_else(|message| {
        error(&format!("error: {message}"));
        ExitCode::FAILURE
    })
}

fn experiment_of(args: &RunArgs) -> Result<ExitCode, String> {
    let experiment = match Experiment::load(&args.file) {
        Ok(experiment) => experiment,
        Err(diags) => {
            launch::report(&diags);
            return Ok(ExitCode::FAILURE);
        }
    };
    if args.plan {
        print(&plan(&experiment, args.json));
        return Ok(ExitCode::SUCCESS);
    }
    let beside = || experiment.dir.join(format!("{}.results", experiment.name));
    let how = How {
        results: args.results.clone().unwrap_or_else(beside),
        restart: args.restart,
        quiet: args.quiet,
        name: "",
        command: command(args),
        about: Vec::new(),
    };
    let measured = measure(&experiment, &how, &StopSignals::watch())?;
    let report = if args.json {
        format!("{:#}\n", measured.json)
    } else if args.csv {
        measured.csv
    } else {
        measured.text
    };
    // A page on standard output stands there alone.
    if args.html.as_deref() != Some(Path::new("-")) {
        print(&report);
    }
    if let Some(path) = &args.html {
        write_page(&measured.json, path)?;
    }
    match measured.outcome {
        Outcome::AsExpected => {}
        Outcome::NotAsExpected => error("the results are not as expected: see `expected` in the report"),
        Outcome::Failed => {
            error(&format!("some points have failed: {} has the rest", measured.kept.display()))
        }
        Outcome::Stopped => error("interrupted: the same command goes on where it was"),
    }
    Ok(measured.outcome.status())
}

/// The command that measures the same again.
fn command(args: &RunArgs) -> String {
    let results = args.results.iter().map(|dir| format!(" --results {}", dir.display()));
    format!("valiant bench run {}{}", args.file.display(), results.collect::<String>())
}

/// What would be measured.
fn plan(experiment: &Experiment, json: bool) -> String {
    let points: Vec<String> = experiment.points().iter().map(ToString::to_string).collect();
    let seconds = experiment.estimate();
    if json {
        let plan = serde_json::json!({"experiment": experiment.name, "rounds": experiment.rounds, "most_rounds": experiment.most_rounds(), "points": points, "seconds": seconds, "warnings": experiment.warnings});
        return format!("{plan:#}\n");
    }
    let mut text = format!(
        "{}: {}, {} of each{}{}; about {}\n",
        experiment.name,
        if points.len() == 1 { "one point".to_owned() } else { format!("{} points", points.len()) },
        if experiment.rounds == 1 { "one round".to_owned() } else { format!("{} rounds", experiment.rounds) },
        if experiment.rounds > 1 { ", one point after another in each round" } else { "" },
        match experiment.most_rounds() - experiment.rounds {
            0 => String::new(),
            more => format!(" (where they differ too much, up to {more} more)"),
        },
        about(seconds)
    );
    points.iter().filter(|point| !point.is_empty()).for_each(|point| text += &format!("  {point}\n"));
    experiment.warnings.iter().for_each(|warning| text += &format!("warning: {warning}\n"));
    text
}

/// A rough time.
fn about(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
