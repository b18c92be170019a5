//! `valiant why`: what limits a running router.

use crate::remote::{SocketArgs, connect, refused, seconds};
use clap::Args;
use diagnosis::{Diagnosis, Interval, Reading};
use launch::logging::error;
use launch::output::print;
use launch::progress::Progress;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) const EXAMPLES: &str = "\
It reads the router's counters several times, and says which of these limits it: a port that sends too slowly, a rate that the configuration sets, packet buffers, other programs on the processor, locks, short bursts, workers with unequal work, memory, a worker that is busy all the time, a queue or a receive ring that is too short for bursts, packets that the configuration drops; or nothing. The router goes on forwarding.

Examples:
  valiant why                                 the router with `-p 7777`
  valiant why --socket /run/valiant/edge.sock --seconds 10
  valiant why --json | jq .verdict.kind
  valiant why --save readings.jsonl           also keep what was read
  valiant why --from readings.jsonl           look at it again, anywhere

Exit status: 0 it was found out, 1 the router could not be asked, 2 wrong usage.";

/// The parts of the time between whose ends nothing is read.
const PARTS: u32 = 10;

/// How long to look at which router.
#[derive(Args)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    socket: SocketArgs,
    /// For how long to look.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: f64,
    /// Write what was read to a file, a reading on each line.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    save: Option<PathBuf>,
    /// Use readings that were saved, and no router.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Reads saved readings.
fn saved(path: &Path) -> Result<Vec<Reading>, String> {
    let at = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| at(&e))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            Reading::parse(line).map_err(|e| format!("{}:{}: {e}", path.display(), number + 1))
        })
        .collect()
}

/// Asks the router several times.
fn watched(args: &WhyArgs) -> Result<Vec<Reading>, ExitCode> {
    let mut client = connect(&args.socket).map_err(|e| refused(&args.socket, &e))?;
    let failed = |message: String| {
        error(&message);
        ExitCode::FAILURE
    };
    let mut file = match &args.save {
        Some(path) => {
            Some(std::fs::File::create(path).map_err(|e| failed(format!("{}: {e}", path.display())))?)
        }
        None => None,
    };
    let mut progress = Progress::new(false, "looking ", args.seconds > 5.0);
    let (mut began, mut readings) = (Instant::now(), Vec::new());
    for part in 0..=PARTS {
        let due = Duration::from_secs_f64(args.seconds * f64::from(part) / f64::from(PARTS));
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        progress.update(f64::from(part) / f64::from(PARTS), String::new);
        let text = client.read("load.json", "").map_err(|e| {
            if e.to_string().contains("load.json") {
                error("the router is older than `valiant why`, or not Valiant");
            }
            refused(&args.socket, &e)
        })?;
        if let (Some(file), Some(path)) = (&mut file, &args.save) {
            writeln!(file, "{}", text.trim()).map_err(|e| failed(format!("{}: {e}", path.display())))?;
        }
        if readings.is_empty() {
            // The router may have been busy with something else.
            began = Instant::now();
        }
        readings.push(Reading::parse(&text).map_err(failed)?);
    }
    Ok(readings)
}

/// `valiant why`.
pub(crate) fn why(args: &WhyArgs) -> ExitCode {
    let readings = match &args.from {
        Some(path) => saved(path).map_err(|e| {
            error(&e);
            ExitCode::FAILURE
        }),
        None => watched(args),
    };
    let readings = match readings {
        Ok(readings) => readings,
        Err(status) => return status,
    };
    match Interval::of(&readings) {
        Ok(interval) => {
            let diagnosis = Diagnosis::of(interval);
            print(&if args.socket.json { format!("{}\n", diagnosis.json()) } else { diagnosis.text() });
            ExitCode::SUCCESS
        }
        Err(e) => {
            let file = args.from.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display()));
            error(&format!("{file}{e}"));
            ExitCode::FAILURE
        }
    }
}
