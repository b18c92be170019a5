//! What an experiment has shown: as a table, as JSON, as CSV.

use crate::expect;
use crate::model::{Experiment, Measure, Point};
use crate::paper;
use crate::reading::{FORM, Reading, Verdict};
use crate::results::{Results, Shown};
use crate::trial::{Latency, Limit, Trial};
use measure::rate::{OVERHEAD, short};
use measure::search::{Goal, Outcome, Search};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The results of an experiment.
#[derive(Debug)]
pub struct Report<'a> {
    experiment: &'a Experiment,
    version: String,
    machine: Value,
    rows: Vec<Row>,
    /// What came of the expectations.
    outcomes: Vec<Verdict>,
}

/// A goal, or the given rate, at a point.
#[derive(Debug)]
struct Row {
    point: Point,
    /// The loss that is allowed; none: a rate was given.
    loss: Option<f64>,
    /// Of each round that has a result.
    of_rounds: Vec<OfRound>,
    /// At parts of the result: the part, and latencies of all rounds.
    latency: Vec<(f64, Vec<Latency>)>,
    /// Trials that count for nothing.
    disturbed: usize,
    /// Rounds that have not ended.
    open: usize,
    failed: Vec<String>,
}

#[derive(Clone, Debug)]
struct OfRound {
    /// Packets a second.
    pps: f64,
    lower: Option<u64>,
    upper: Option<u64>,
    /// Mean bytes of a frame.
    bytes: f64,
    loss: f64,
    reordered: u64,
    duplicates: u64,
    damaged: u64,
    limit: Option<Limit>,
    trials: usize,
    seconds: f64,
    latency_p50_ns: Option<f64>,
    latency_p99_ns: Option<f64>,
}

/// A quantile of values, between the two nearest.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share * (sorted.len().saturating_sub(1)) as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    match (sorted.get(below), sorted.get(above)) {
        (Some(low), Some(high)) => low + (high - low) * (at - at.floor()),
        _ => f64::NAN,
    }
}

fn result_of(trial: &Trial) -> OfRound {
    OfRound {
        pps: trial.arrived as f64 / trial.seconds,
        lower: None,
        upper: None,
        bytes: trial.bytes as f64 / trial.sent.max(1) as f64,
        loss: trial.loss(),
        reordered: trial.reordered,
        duplicates: trial.duplicates,
        damaged: trial.damaged,
        limit: trial.limit(),
        trials: 1,
        seconds: trial.seconds,
        latency_p50_ns: trial.latency_ns.as_ref().map(|latency| latency.p50),
        latency_p99_ns: trial.latency_ns.as_ref().map(|latency| latency.p99),
    }
}

/// The result of a goal; none: no load is low enough.
fn search_result(goal: &Goal, search: &Search, trials: &[Trial]) -> Option<OfRound> {
    let Outcome { bounds, throughput } = search.outcome(goal);
    let throughput = throughput?;
    let at = |load: Option<u64>| trials.iter().filter(move |trial| Some(trial.rate) == load);
    // The trial whose loss makes the throughput.
    let off = |trial: &Trial| (trial.rate as f64 * (1.0 - trial.loss()) - throughput).abs();
    let its = at(bounds.lower).filter(|t| t.seconds >= goal.last).min_by(|a, b| off(a).total_cmp(&off(b)))?;
    Some(OfRound {
        pps: throughput,
        lower: bounds.lower,
        upper: bounds.upper,
        reordered: at(bounds.lower).map(|trial| trial.reordered).sum(),
        duplicates: at(bounds.lower).map(|trial| trial.duplicates).sum(),
        damaged: at(bounds.lower).map(|trial| trial.damaged).sum(),
        limit: Limit::of(at(bounds.upper).filter(|trial| trial.loss() > goal.loss)),
        trials: trials.len(),
        seconds: trials.iter().map(|trial| trial.seconds).sum(),
        ..result_of(its)
    })
}

impl Row {
    fn new(point: &Point, measure: &Measure, goal: Option<&Goal>, shown: &[Shown], ports: u64) -> Self {
        let mut row = Self {
            point: point.clone(),
            loss: goal.map(|goal| goal.loss),
            of_rounds: Vec::new(),
            latency: Vec::new(),
            disturbed: 0,
            open: shown.iter().filter(|shown| !shown.ended).count(),
            failed: shown.iter().filter_map(|shown| shown.failed.clone()).collect(),
        };
        for shown in shown.iter().filter(|shown| shown.ended && shown.failed.is_none()) {
            row.disturbed += shown.trials.iter().filter(|trial| trial.disturbed).count();
            row.add_latency(shown.trials.iter().filter(|trial| !trial.disturbed));
            let trials: Vec<Trial> = shown.trials.iter().filter(|trial| trial.counts()).cloned().collect();
            let result = match (measure, goal) {
                (Measure::Search { method, goals, least, most, .. }, Some(goal)) => {
                    let mut search = Search::new(*method, goals.clone(), *least, *most);
                    trials.iter().for_each(|trial| search.add(trial.for_search()));
                    search_result(goal, &search, &trials)
                }
                _ => trials.first().map(result_of),
            };
            match (result, measure) {
                (Some(result), Measure::Search { .. }) => row.of_rounds.push(OfRound {
                    pps: result.pps * ports as f64,
                    lower: result.lower.map(|load| load * ports),
                    upper: result.upper.map(|load| load * ports),
                    ..result
                }),
                (Some(result), Measure::Rate { .. }) => row.of_rounds.push(result),
                (None, Measure::Search { least, .. }) => {
                    row.failed.push(format!("more is lost at the lowest rate, {}pps", short(*least as f64)));
                }
                (None, Measure::Rate { .. }) => {}
            }
        }
        row
    }

    fn add_latency<'t>(&mut self, trials: impl Iterator<Item = &'t Trial>) {
        for trial in trials {
            let (Some(share), Some(latency)) = (trial.share, &trial.latency_ns) else { continue };
            match self.latency.iter_mut().find(|(other, _)| *other == share) {
                Some((_, all)) => all.push(latency.clone()),
                None => self.latency.push((share, vec![latency.clone()])),
            }
        }
    }

    fn values(&self, of: impl Fn(&OfRound) -> f64) -> Vec<f64> {
        self.of_rounds.iter().map(of).collect()
    }

    fn median(&self, of: impl Fn(&OfRound) -> f64) -> f64 {
        quantile(&self.values(of), 0.5)
    }

    /// Gigabits a second of frames with so many bytes more.
    fn gbps(&self, more: usize) -> f64 {
        self.median(|one| one.pps * (one.bytes + more as f64) * 8.0 / 1e9)
    }

    /// Who limits it, of most rounds.
    fn limit(&self) -> Option<Limit> {
        let limits: Vec<Limit> = self.of_rounds.iter().filter_map(|one| one.limit).collect();
        let count = |limit: &Limit| limits.iter().filter(|other| *other == limit).count();
        limits.iter().copied().max_by_key(count)
    }

    fn latency_json(&self) -> Vec<Value> {
        let of = |(share, all): &(f64, Vec<Latency>)| {
            json!({
                "share": share, "rounds": all,
                "p50": latency_median(all, |one| one.p50), "p99": latency_median(all, |one| one.p99),
                "max": all.iter().map(|one| one.max).fold(0.0, f64::max),
            })
        };
        self.latency.iter().map(of).collect()
    }

    fn json(&self, measure: &Measure, ports: u64) -> Value {
        let pps = self.values(|one| one.pps);
        let rounds: Vec<Value> = (self.of_rounds.iter())
            .map(|one| {
                json!({
                    "pps": one.pps, "lower_pps": one.lower, "upper_pps": one.upper, "loss": one.loss,
                    "reordered": one.reordered, "duplicates": one.duplicates, "damaged": one.damaged, "frame_bytes": one.bytes, "limit": one.limit,
                    "trials": one.trials, "traffic_seconds": one.seconds,
                    "latency_p50_ns": one.latency_p50_ns, "latency_p99_ns": one.latency_p99_ns,
                })
            })
            .collect();
        let known = !pps.is_empty();
        let number = |value: f64| if known { json!(value) } else { Value::Null };
        let offered = match measure {
            Measure::Rate { rate, .. } => Some(*rate * ports),
            Measure::Search { .. } => None,
        };
        json!({
            "point": self.point.0.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>(),
            "loss_allowed": self.loss, "offered_pps": offered,
            "pps": {"median": number(quantile(&pps, 0.5)), "least": number(quantile(&pps, 0.0)), "most": number(quantile(&pps, 1.0))},
            "l2_gbps": number(self.gbps(0)), "l1_gbps": number(self.gbps(OVERHEAD)),
            "limit": self.limit(), "latency_ns": self.latency_json(), "rounds": rounds, "rounds_open": self.open, "trials_disturbed": self.disturbed, "failed": self.failed,
        })
    }
}

/// Columns of a table, as wide as they must be; the first `left` are words.
pub(crate) fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    rows.iter().fold(String::new(), |text, row| {
        let cells: Vec<String> = (row.iter().zip(&widths).enumerate())
            .map(
                |(at, (cell, width))| {
                    if at < left { format!("{cell:width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        text + cells.join("  ").trim_end() + "\n"
    })
}

/// A cell of a line of CSV.
fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

impl<'a> Report<'a> {
    /// What the results show so far.
    #[must_use]
    pub fn new(experiment: &'a Experiment, results: &Results) -> Self {
        let (mut rows, ports) = (Vec::new(), experiment.to.len() as u64);
        for point in experiment.points() {
            let measure = experiment.measure_at(&point);
            let shown: Vec<Shown> = (1..=experiment.rounds).map(|round| results.of(&point, round)).collect();
            match &measure {
                Measure::Search { goals, .. } => {
                    rows.extend(
                        goals.iter().map(|goal| Row::new(&point, &measure, Some(goal), &shown, ports)),
                    );
                }
                Measure::Rate { .. } => rows.push(Row::new(&point, &measure, None, &shown, ports)),
            }
        }
        let (version, machine) = (results.version().to_owned(), results.machine().clone());
        let mut report = Self { experiment, version, machine, rows, outcomes: Vec::new() };
        if let Ok(reading) = Reading::new(&report.json()) {
            report.outcomes = expect::outcomes(&experiment.expect, &reading);
        }
        report
    }

    /// Whether no expectation is known not to hold.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.holds != Some(false))
    }

    /// As a table.
    #[must_use]
    pub fn text(&self) -> String {
        let searched = matches!(self.experiment.measure, Measure::Search { .. });
        let names = self.experiment.factors.iter().map(|factor| factor.name.clone());
        let words = self.experiment.factors.len();
        let third = if searched { "loss up to" } else { "lost" };
        let mut head: Vec<String> = names.collect();
        head.extend(
            [third, "pps", "least", "most", "Gb/s L2", "Gb/s L1", "latency 50 %", "99 %", "limit"]
                .map(str::to_owned),
        );
        let mut rows = vec![head];
        for row in &self.rows {
            let mut cells: Vec<String> = row.point.0.iter().map(|(_, value)| value.clone()).collect();
            let loss = row.loss.unwrap_or_else(|| row.median(|one| one.loss));
            cells.push(if loss.is_nan() { "-".to_owned() } else { format!("{:.4} %", loss * 100.0) });
            let pps = row.values(|one| one.pps);
            if pps.is_empty() {
                cells.extend(["-"; 7].map(str::to_owned));
                cells.push(if row.failed.is_empty() {
                    "not measured yet".to_owned()
                } else {
                    "failed".to_owned()
                });
            } else {
                cells.extend([0.5, 0.0, 1.0].map(|share| short(quantile(&pps, share))));
                cells.extend([0, OVERHEAD].map(|more| format!("{:.3}", row.gbps(more))));
                let latency = |of: fn(&OfRound) -> Option<f64>| {
                    let all: Vec<f64> = row.of_rounds.iter().filter_map(of).collect();
                    if all.is_empty() {
                        "-".to_owned()
                    } else {
                        format!("{:.1} us", quantile(&all, 0.5) / 1e3)
                    }
                };
                cells.extend([latency(|one| one.latency_p50_ns), latency(|one| one.latency_p99_ns)]);
                cells.push(row.limit().map_or("none", Limit::word).to_owned());
            }
            rows.push(cells);
        }
        let mut text =
            format!("{}, {} of each point\n", self.experiment.name, rounds_text(self.experiment.rounds));
        text += &table(&rows, words);
        // Writing to a string does not fail.
        text += &self.latency_text();
        let mut told = BTreeSet::new();
        for row in &self.rows {
            for reason in row.failed.iter().filter(|reason| told.insert((&row.point, *reason))) {
                let _ = writeln!(text, "failed: {}{reason}", row.point.prefix());
            }
            let duplicates: u64 = row.of_rounds.iter().map(|one| one.duplicates).sum();
            let reordered: u64 = row.of_rounds.iter().map(|one| one.reordered).sum();
            if duplicates + reordered > 0 {
                let point = row.point.prefix();
                let _ = writeln!(text, "{point}{reordered} packets reordered, {duplicates} duplicates");
            }
        }
        if let Some(most) = self.rows.iter().map(|row| row.disturbed).max().filter(|most| *most > 0) {
            let _ = writeln!(
                text,
                "Generator or device had to wait for a processor: up to {most} trials of a point were made again."
            );
        }
        let of = |key: &str| self.machine.get(key).and_then(Value::as_str);
        if let (Some(model), Some(kernel)) = (of("model"), of("kernel")) {
            let _ = writeln!(text, "Valiant {}, {model}, Linux {kernel}.", self.version);
        }
        text += &self.experiment.paper.as_ref().map(paper::text).unwrap_or_default();
        text += &expect::text(&self.outcomes);
        text += "pps and Gb/s: what came back, medians; L2 without frame check sequence, L1 with 24 bytes a frame more. Latency: at this rate.\n";
        text
    }

    /// Latency at parts of the first goal's result.
    fn latency_text(&self) -> String {
        let factors = &self.experiment.factors;
        let mut head: Vec<String> = factors.iter().map(|factor| factor.name.clone()).collect();
        head.extend(["at", "least", "mean", "50 %", "90 %", "99 %", "99.9 %", "most"].map(str::to_owned));
        let mut rows = vec![head];
        let mut points = BTreeSet::new();
        for row in self.rows.iter().filter(|row| points.insert(&row.point)) {
            for (share, all) in &row.latency {
                let mut cells: Vec<String> = row.point.0.iter().map(|(_, value)| value.clone()).collect();
                cells.push(format!("{} %", (share * 1000.0).round() / 10.0));
                let columns: [fn(&Latency) -> f64; 7] =
                    [|l| l.min, |l| l.mean, |l| l.p50, |l| l.p90, |l| l.p99, |l| l.p99_9, |l| l.max];
                cells.extend(columns.map(|of| format!("{:.1} us", latency_median(all, of) / 1e3)));
                rows.push(cells);
            }
        }
        if rows.len() == 1 {
            return String::new();
        }
        format!("latency at a part of the rate, medians of the rounds:\n{}", table(&rows, factors.len()))
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let rows = self
            .rows
            .iter()
            .map(|row| row.json(&self.experiment.measure_at(&row.point), self.experiment.to.len() as u64))
            .collect::<Vec<_>>();
        let factors: Vec<Value> = (self.experiment.factors.iter())
            .map(|factor| json!({"name": factor.name, "values": factor.values}))
            .collect();
        json!({
            "format": FORM, "experiment": self.experiment.name, "version": self.version, "machine": self.machine,
            "rounds": self.experiment.rounds, "factors": factors,
            "conventions": {"bytes": "without frame check sequence", "l1_overhead_bytes": OVERHEAD,
                "loss": "of frames that were to be sent; what the generator did not send is lost",
                "pps": "all ports together: conditional throughput (RFC 9971 section 6.2), or what came back of the offered rate"},
            "to": self.experiment.to, "sink": self.experiment.sink, "file": self.experiment.text,
            "results": rows, "paper": self.experiment.paper, "expect": self.outcomes,
        })
    }

    /// As CSV: the factors, the loss that is allowed, the first factor as `x`, and what came back in packets
    /// a second, with the names that NPF uses.
    #[must_use]
    pub fn csv(&self) -> String {
        let names = self.experiment.factors.iter().map(|factor| csv_cell(&factor.name));
        let mut head: Vec<String> = names.collect();
        head.extend(["loss", "x", "perc1", "perc25", "median", "perc75", "perc99", "avg"].map(str::to_owned));
        let mut text = head.join(",") + "\n";
        for row in self.rows.iter().filter(|row| !row.of_rounds.is_empty()) {
            let pps = row.values(|one| one.pps);
            let mut cells: Vec<String> = row.point.0.iter().map(|(_, value)| csv_cell(value)).collect();
            cells.push(row.loss.map_or_else(String::new, |loss| loss.to_string()));
            cells.push(row.point.0.first().map_or_else(String::new, |(_, value)| csv_cell(value)));
            cells.extend([0.01, 0.25, 0.5, 0.75, 0.99].map(|share| quantile(&pps, share).to_string()));
            cells.push((pps.iter().sum::<f64>() / pps.len() as f64).to_string());
            text += &(cells.join(",") + "\n");
        }
        text
    }
}

fn latency_median(all: &[Latency], of: impl Fn(&Latency) -> f64) -> f64 {
    quantile(&all.iter().map(of).collect::<Vec<_>>(), 0.5)
}

fn rounds_text(rounds: u32) -> String {
    if rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds") }
}
