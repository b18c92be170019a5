//! `valiant nic bench`: the eight questions.

mod asked;
mod page;

use crate::experiments::{How, Outcome, measure, this_program, write_page};
use asked::Asked;
use clap::{Args, ValueEnum};
use experiment::Experiment;
use launch::logging::error;
use launch::output::print;
use launch::{StopSignals, cpu_list, reason};
use nicbench::advice::advice;
use nicbench::studies::{STUDIES, Size, Study, Target};
use nicbench::verdict::{QUESTIONS, Reports, Verdict, answers, named};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub(super) const EXAMPLES: &str = "\
The questions are the findings of Katsikas, Barbette, Chiesa, Kostic and Maguire, \"What You Need to Know About (Smart) Network Interface Cards\" (PAM 2021), Table 1:

  1  occupancy     does the rate hold as a table fills?
  2  chain         ... when rules are spread over 1 to 16 tables?
  3  batch         does traffic go on while many rules come at once?
  4  churn         does the rate hold while rules change all the time?
  5                are changes from another core free? (from 3 and 4)
  6  insertion     do rules for IPv6 come as fast as those for IPv4?
  7                do rules for tunnels come as fast as those for VLANs? (from the same)
  8  replacement   is a rule replaced so that no packet meets neither the old nor the new one?

Each is passed or failed by a mark that the report states, with the figures, and the paper's beside them. Advice follows from what was measured. Of a port whose driver takes no rules they cannot be asked; the driver's own words are the reason.

Rules of the classifier in software are looked up for frames in memory, so that nothing else limits: it is the one that elements with rules use in front of any port. Rules of a device are measured with the packets that the port receives, from elsewhere or from the port that --from names; without packets only insertion and replacement are timed. The port must not be in use, and all of its rules are removed.

The measurements are experiments of `valiant bench`: their files, results and time series are kept in the directory of the results. After Ctrl-C the same command goes on where it was.

Examples:
  valiant nic bench --quick                                 the classifier in software, in minutes
  valiant nic bench 0000:03:00.0 --from 0000:03:00.1 --html pages
  valiant nic bench net_null0 'net_failsafe0,fd(/dev/null)' --engine both --quick --html pages
  valiant nic bench --only 6 7 --json | jq '.targets[].answers[]'

Exit status: 0 whatever could be asked is passed, 1 it cannot run, 2 wrong usage, 3 a measurement has failed, 4 a question is failed, 130 interrupted.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The classifier in software.
    Software,
    /// The devices of the ports.
    Hardware,
    /// Both, one after the other.
    Both,
}

#[derive(Args)]
pub(super) struct BenchArgs {
    /// The ports, as FromDevice takes them.
    ports: Vec<String>,
    /// What carries the rules out [default: the ports' devices; without ports, software].
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// The port that sends the traffic to the others.
    #[arg(long, value_name = "PORT", requires = "ports")]
    from: Option<String>,
    /// Fewer points and rounds: some minutes for each of them.
    #[arg(long)]
    quick: bool,
    /// In seconds, with figures that mean nothing: to try the command.
    #[arg(long, hide = true)]
    tiny: bool,
    /// Only these questions: numbers, or names of measurements.
    #[arg(long, value_name = "QUESTION", num_args = 1.., value_delimiter = ',')]
    only: Vec<String>,
    /// The processors of the forwarder and of the rule generator, such as 2,3.
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Where files and results are kept.
    #[arg(long, value_name = "DIR", default_value = "nic-bench.results")]
    results: PathBuf,
    /// Forget what has been measured, and begin again.
    #[arg(long)]
    restart: bool,
    /// Write the report as pages into this directory: index.html has the answers.
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Do not print progress.
    #[arg(short, long)]
    quiet: bool,
}

/// The questions that are asked, by their numbers.
fn wanted(only: &[String]) -> Result<Vec<usize>, String> {
    if only.is_empty() {
        return Ok(QUESTIONS.iter().map(|q| q.number).collect());
    }
    let mut all = Vec::new();
    for word in only {
        let numbers = named(word);
        if numbers.is_empty() {
            let names: Vec<&str> = STUDIES.iter().map(|study| study.name()).collect();
            return Err(format!("--only: '{word}' is no question: 1 to 8, or one of {}", names.join(", ")));
        }
        all.extend(numbers);
    }
    Ok(all)
}

/// What the device of a port is, asked in a process of its own, which gives the port back.
fn about(port: &str, from: Option<&str>) -> Result<Value, String> {
    let mut command = Command::new(this_program()?);
    command.args(["nic", "measure", "about", "--port", port]);
    command.args(from.iter().flat_map(|from| ["--from", from]));
    let output = command.output().map_err(|e| format!("cannot ask {port}: {}", reason(&e)))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(words.trim());
        return Err(format!("{words}\nhelp: `valiant ports` lists the ports of this machine"));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{port}: {e}"))
}

fn targets(args: &BenchArgs) -> Result<Vec<Target>, String> {
    let engine =
        args.engine.unwrap_or(if args.ports.is_empty() { Engine::Software } else { Engine::Hardware });
    let mut all = Vec::new();
    if engine != Engine::Software {
        for port in &args.ports {
            let about = about(port, args.from.as_deref())?;
            all.push(Target::Device { port: port.clone(), from: args.from.clone(), about });
        }
    }
    if engine != Engine::Hardware {
        all.push(Target::Software);
    }
    Ok(all)
}

/// A name as a part of a path.
fn part_of_path(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

/// Measures what is not measured yet for a study.
fn study(
    study: Study,
    (target, dir): (&Target, &Path),
    args: &BenchArgs,
    stop: &StopSignals,
) -> Result<(Outcome, Value), String> {
    let size = Size { quick: args.quick, cores: args.cores.clone(), tiny: args.tiny };
    let path = dir.join(format!("{}.toml", study.name()));
    let wrong = |e: std::io::Error| format!("{}: {}", path.display(), reason(&e));
    std::fs::create_dir_all(dir).map_err(wrong)?;
    std::fs::write(&path, study.file(target, &size)).map_err(wrong)?;
    let experiment = Experiment::load(&path).map_err(|diags| {
        launch::report(&diags);
        format!("{}: this file is wrong", path.display())
    })?;
    let how = How {
        results: dir.join(format!("{}.results", study.name())),
        restart: args.restart,
        quiet: args.quiet,
        name: &format!("{}, {}: ", target.name(), study.name()),
        command: format!("valiant bench run {}", path.display()),
        about: Asked::about(target),
    };
    let measured = measure(&experiment, &how, stop)?;
    Ok((measured.outcome, measured.json))
}

/// Asks the questions of a target.
fn ask(
    target: Target,
    asked: &[usize],
    args: &BenchArgs,
    stop: &StopSignals,
) -> Result<(Outcome, Asked), String> {
    let kind = if args.tiny {
        ".tiny"
    } else if args.quick {
        ".quick"
    } else {
        ""
    };
    let results = std::path::absolute(&args.results).unwrap_or_else(|_| args.results.clone());
    let dir = results.join(format!("{}{kind}", part_of_path(target.name())));
    let (mut worst, mut reports) = (Outcome::AsExpected, Reports::new());
    let needed = |one: &Study| {
        target.cannot(*one).is_none()
            && QUESTIONS.iter().any(|q| asked.contains(&q.number) && q.studies.contains(one))
    };
    for one in STUDIES.into_iter().filter(needed) {
        let (outcome, report) = study(one, (&target, &dir), args, stop)?;
        reports.insert(one, report);
        worst = worst.max(outcome);
        if outcome == Outcome::Stopped {
            break;
        }
    }
    let (answers, advice) = (answers(&reports, &target, asked), advice(&reports));
    Ok((worst, Asked { target, answers, advice, reports, dir }))
}

/// Writes the pages.
fn write_pages(all: &[Asked], dir: &Path) -> Result<(), String> {
    let wrong = |path: &Path, e: &std::io::Error| format!("{}: {}", path.display(), reason(e));
    std::fs::create_dir_all(dir).map_err(|e| wrong(dir, &e))?;
    let mut pages = Vec::new();
    for asked in all {
        for (study, report) in &asked.reports {
            let name = format!("{}-{}.html", part_of_path(asked.target.name()), study.name());
            write_page(report, &dir.join(&name))?;
            pages.push((name, report));
        }
    }
    let index = dir.join("index.html");
    std::fs::write(&index, page::page(all, &pages)?).map_err(|e| wrong(&index, &e))
}

/// What is wrong with the command line, before anything is measured; else the questions.
fn usage(args: &BenchArgs) -> Result<Vec<usize>, String> {
    if args.ports.is_empty() && matches!(args.engine, Some(Engine::Hardware | Engine::Both)) {
        return Err("which port? `valiant ports` lists those of this machine".to_owned());
    }
    if let Some(list) = &args.cores {
        let wanted = cpu_list(list)?;
        let here = dpdk::Topology::here();
        let may = |id: &usize| here.cores().iter().any(|core| core.allowed && core.id == *id);
        if let Some(id) = wanted.iter().find(|id| !may(id)) {
            return Err(format!("--cores: processor {id} is not there, or this process may not use it"));
        }
    }
    wanted(&args.only)
}

/// Finds out whether the pages can be written, before what may take long.
fn can_write_pages(dir: &Path) -> Result<(), String> {
    let index = dir.join("index.html");
    let opened = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(&index));
    opened.map(drop).map_err(|e| format!("--html: {}: {}", index.display(), reason(&e)))
}

fn run(args: &BenchArgs, asked: &[usize]) -> Result<ExitCode, String> {
    args.html.as_deref().map_or(Ok(()), can_write_pages)?;
    let stop = StopSignals::watch();
    let (mut worst, mut all) = (Outcome::AsExpected, Vec::new());
    for target in targets(args)? {
        let (outcome, one) = ask(target, asked, args, &stop)?;
        if !args.json {
            print(&format!("{}\n", one.text()));
        }
        all.push(one);
        worst = worst.max(outcome);
        if outcome == Outcome::Stopped {
            break;
        }
    }
    if args.json {
        let targets: Vec<Value> = all.iter().map(Asked::json).collect();
        print(&format!("{:#}\n", json!({"targets": targets})));
    }
    if let Some(dir) = &args.html {
        write_pages(&all, dir)?;
    }
    if worst == Outcome::Stopped {
        error("interrupted: the same command goes on where it was");
    }
    let failed = all.iter().flat_map(|one| &one.answers).any(|answer| answer.verdict == Verdict::Fail);
    Ok(if failed { worst.max(Outcome::NotAsExpected) } else { worst }.status())
}

/// `valiant nic bench`.
pub(super) fn bench(args: &BenchArgs) -> ExitCode {
    let told = |message: String, status: ExitCode| {
        error(&format!("error: {message}"));
        status
    };
    match usage(args) {
        Err(message) => told(message, ExitCode::from(2)),
        Ok(asked) => run(args, &asked).unwrap_or_else(|message| told(message, ExitCode::FAILURE)),
    }
}
