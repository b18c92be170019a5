//! `valiant sim`: a cluster in simulated time.

pub(crate) mod args;
mod plots;
mod report;
mod run;
mod values;

use args::SimArgs;
use chart::Chart;
use launch::{StopSignals, reason};
use plots::{plots, plots_over};
use report::table;
use run::{Run, run, with};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// Runs the command.
pub(crate) fn simulate(args: &SimArgs) -> ExitCode {
    match answer(args) {
        Ok(text) => {
            launch::output::print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            launch::logging::error(&format!("valiant sim: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn answer(args: &SimArgs) -> Result<String, String> {
    let stop = StopSignals::watch();
    if let Some(dir) = &args.plots {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {}", dir.display(), reason(&e)))?;
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
        std::fs::write(&path, chart.svg()).map_err(|e| format!("{}: {}", path.display(), reason(&e)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::run::config;
    use super::*;
    use simulator::Sim;

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
            ended_early.contains("during the warm-up") && !ended_early.contains("latency"),
            "{ended_early}"
        );
        let direct = run("-n 4 --packets 1k", 1000);
        assert!(direct.text().contains(", via an intermediate node -"), "{}", direct.text());
        assert!(direct.json()["latency_mean_ns"]["via_intermediate"].is_null());
        assert!(direct.json()["latency_mean_ns"]["direct"].is_f64());
        let names: Vec<String> = plots(&direct).into_iter().map(|plot| plot.0).collect();
        assert_eq!(names, ["links.svg", "nodes.svg", "queues.svg", "outputs.svg", "latency.svg"]);
    }
}
