//! `valiant bench papers`: all experiments of a directory.

use crate::experiments::{How, Outcome, measure, write_page};
use clap::Args;
use experiment::{Experiment, index};
use launch::logging::error;
use launch::output::print;
use launch::{StopSignals, reason};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// So many rounds still have a median that one disturbed round does not change.
const QUICK_ROUNDS: u32 = 3;

#[derive(Args)]
pub(crate) struct PapersArgs {
    /// The directory of the experiments.
    #[arg(default_value = "experiments")]
    dir: PathBuf,
    /// At most three rounds of each point.
    #[arg(long)]
    quick: bool,
    /// Write a page of each experiment into this directory, and one that leads to them, index.html.
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Where the results are kept [default: the directory of the experiments].
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Forget what has been measured, and begin again.
    #[arg(long)]
    restart: bool,
    /// Do not print progress.
    #[arg(short, long)]
    quiet: bool,
}

/// The experiments of a directory, by name.
pub(crate) fn files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |e: std::io::Error| format!("{}: {}", dir.display(), reason(&e));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(format!("{}: there is no experiment (a file that ends in .toml)", dir.display()));
    }
    Ok(files)
}

pub(crate) fn papers(args: &PapersArgs) -> Result<ExitCode, String> {
    let files = files(&args.dir)?;
    let mut experiments = Vec::new();
    let mut wrong = false;
    // Mistakes are told before anything is measured.
    for path in &files {
        match Experiment::load(path) {
            Ok(experiment) => experiments.push((path, experiment)),
            Err(diags) => {
                launch::report(&diags);
                wrong = true;
            }
        }
    }
    if wrong {
        return Ok(ExitCode::FAILURE);
    }
    if let Some(dir) = &args.html {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {}", dir.display(), reason(&e)))?;
    }
    let stop = StopSignals::watch();
    let mut all: Vec<(String, Outcome, Value)> = Vec::new();
    for (path, mut experiment) in experiments {
        // Results of fewer rounds are kept apart from those of all.
        let kind = if args.quick { "quick.results" } else { "results" };
        if args.quick {
            experiment.rounds = experiment.rounds.min(QUICK_ROUNDS);
        }
        let name = experiment.name.clone();
        let how = How {
            results: args.results.as_ref().unwrap_or(&args.dir).join(format!("{name}.{kind}")),
            restart: args.restart,
            quiet: args.quiet,
            name: &format!("{name}: "),
            command: format!("valiant bench run {}", path.display()),
            about: Vec::new(),
        };
        let measured = measure(&experiment, &how, &stop)?;
        print(&format!("{}\n", measured.text));
        if let Some(dir) = &args.html {
            write_page(&measured.json, &dir.join(format!("{name}.html")))?;
        }
        all.push((name, measured.outcome, measured.json));
        if measured.outcome == Outcome::Stopped {
            break;
        }
    }
    if let Some(dir) = &args.html {
        let pages: Vec<(String, &Value)> =
            all.iter().map(|(name, _, json)| (format!("{name}.html"), json)).collect();
        let path = dir.join("index.html");
        let page = index("Experiments", &pages, &[])?;
        std::fs::write(&path, page)
            .map_err(|e| format!("cannot write {}: {}", path.display(), reason(&e)))?;
    }
    let widest = all.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    all.iter().for_each(|(name, outcome, _)| print(&format!("{name:widest$}  {}\n", outcome.words())));
    let worst = all.iter().map(|(_, outcome, _)| *outcome).max().unwrap_or(Outcome::AsExpected);
    if worst == Outcome::Stopped {
        error("interrupted: the same command goes on where it was");
    }
    Ok(worst.status())
}
