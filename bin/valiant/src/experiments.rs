//! Running experiments, for the commands that do.

use experiment::{Ended, Experiment, Report, Results, machine, machine_with_name};
use launch::StopSignals;
use launch::logging::error;
use launch::output::print;
use launch::progress::Progress;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How an experiment is run.
pub(crate) struct How<'a> {
    /// The directory of the results.
    pub(crate) results: PathBuf,
    /// What was measured is forgotten.
    pub(crate) restart: bool,
    pub(crate) quiet: bool,
    /// What stands before its progress.
    pub(crate) name: &'a str,
    /// The command that measures the same again.
    pub(crate) command: String,
    /// What else belongs to the machine that is measured, by name.
    pub(crate) about: Vec<(String, Value)>,
}

/// What came of it; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    AsExpected,
    NotAsExpected,
    Failed,
    Stopped,
}

impl Outcome {
    /// The exit status.
    pub(crate) fn status(self) -> ExitCode {
        ExitCode::from(match self {
            Self::AsExpected => 0,
            Self::NotAsExpected => 4,
            Self::Failed => 3,
            Self::Stopped => 130,
        })
    }

    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::AsExpected => "as expected",
            Self::NotAsExpected => "not as expected",
            Self::Failed => "failed",
            Self::Stopped => "interrupted",
        }
    }
}

/// An experiment that has been run.
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    /// Its report.
    pub(crate) json: Value,
    pub(crate) text: String,
    pub(crate) csv: String,
    /// The file of its trials.
    pub(crate) kept: PathBuf,
}

/// The path of this program.
pub(crate) fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|e| format!("cannot find this program: {}", launch::reason(&e)))
}

/// Measures what is not measured yet.
pub(crate) fn measure(
    experiment: &Experiment,
    how: &How<'_>,
    stop: &StopSignals,
) -> Result<Measured, String> {
    let dir = std::path::absolute(&how.results).unwrap_or_else(|_| how.results.clone());
    // A name tells two hosts apart.
    let mut machine = if experiment.host.is_some() { machine_with_name() } else { machine() };
    how.about.iter().for_each(|(name, value)| machine[name] = value.clone());
    let mut results = Results::open(&dir, experiment, &machine, how.restart)?;
    let options = experiment::Options { program: this_program()?, results: dir };
    experiment.warnings.iter().for_each(|warning| error(&format!("warning: {warning}")));
    let mut progress = Progress::new(how.quiet, how.name, true);
    let mut tell = |done: f64, text: &str| progress.update(done, || text.to_owned());
    let ended = experiment::run(experiment, &options, &mut results, &|| stop.wanted(), &mut tell);
    drop(progress);
    let ended = ended?;
    let report = Report::new(experiment, &results);
    let mut json = report.json();
    json["command"] = how.command.clone().into();
    let outcome = match ended {
        Ended::Complete if report.as_expected() => Outcome::AsExpected,
        Ended::Complete => Outcome::NotAsExpected,
        Ended::Failed => Outcome::Failed,
        Ended::Stopped => Outcome::Stopped,
    };
    let kept = results.path().to_owned();
    Ok(Measured { outcome, json, text: report.text(), csv: report.csv(), kept })
}

/// Writes the page of a report.
pub(crate) fn write_page(report: &Value, path: &Path) -> Result<(), String> {
    let page = experiment::page(report)?;
    if path == Path::new("-") {
        print(&page);
        return Ok(());
    }
    std::fs::write(path, page).map_err(|e| format!("cannot write {}: {}", path.display(), launch::reason(&e)))
}
