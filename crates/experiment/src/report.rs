//! What an experiment has shown: as a table, as JSON, as CSV.

use crate::alone::{self, Alone};
use crate::backtoback;
use crate::connections;
use crate::costs;
use crate::existing::Existing;
use crate::jitter::Jitter;
use crate::judged;
use crate::layout::{csv_cell, quantile, table};
use crate::model::{Experiment, Figure, Measure, Point};
use crate::paper;
use crate::reading::{BySize, FORM, Reading, SIZES, Verdict};
use crate::results::Results;
use crate::rows::{OfRound, Row, latency_median};
use crate::sides::Wrong;
use crate::trial::{Latency, Limit, Timeline};
use crate::values::{figure as number_text, percent};
use measure::rate::{OVERHEAD, short};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The results of an experiment.
#[derive(Debug)]
pub struct Report<'a> {
    experiment: &'a Experiment,
    version: String,
    machine: Value,
    devices: Vec<Value>,
    rows: Vec<Row>,
    /// What came of the expectations.
    outcomes: Vec<Verdict>,
    /// The scaling efficiency of each row, if the number of threads is varied.
    efficiency: Vec<Option<f64>>,
    /// What a packet costs by its size, for each row, if that is varied.
    by_size: Vec<Option<BySize>>,
}

impl<'a> Report<'a> {
    /// What the results show so far.
    #[must_use]
    pub fn new(experiment: &'a Experiment, results: &Results) -> Self {
        let mut rows = Vec::new();
        for point in experiment.points() {
            rows.extend(Row::all(experiment, &point, results, experiment.most_rounds()));
        }
        let mut report = Self {
            experiment,
            version: results.version().to_owned(),
            machine: results.machine().clone(),
            devices: results.devices().to_vec(),
            rows,
            outcomes: Vec::new(),
            efficiency: Vec::new(),
            by_size: Vec::new(),
        };
        if let Ok(reading) = Reading::new(&report.json()) {
            report.outcomes = judged::outcomes(&experiment.expect, &reading);
            report.by_size = reading.results.iter().map(|row| reading.by_size(row)).collect();
            report.efficiency = reading.results.iter().map(|row| reading.efficiency(row)).collect();
        }
        report
    }

    /// Whether no expectation is known not to hold.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.holds != Some(false))
    }

    /// Rates, losses, latencies: a line for each row.
    fn rates_text(&self) -> String {
        let searched = matches!(self.experiment.measure, Measure::Search { .. });
        let names = self.experiment.factors.iter().map(|factor| factor.name.clone());
        let words = self.experiment.factors.len();
        let third = if searched { "loss up to" } else { "lost" };
        let mut head: Vec<String> = names.collect();
        head.extend(
            [third, "pps", "least", "most", "Gb/s L2", "Gb/s L1", "latency 50 %", "99 %", "limit"]
                .map(str::to_owned),
        );
        let misrouted = |row: &Row| row.of_rounds.iter().map(|one| one.misrouted).sum::<u64>();
        let wrong = self.rows.iter().any(|row| misrouted(row) > 0);
        head.extend(wrong.then(|| "wrong port".to_owned()));
        let spreads = self.has_spreads();
        head.extend(spreads.then(|| "spread".to_owned()));
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
                cells.extend(wrong.then(|| "-".to_owned()));
            } else {
                cells.extend([0.5, 0.0, 1.0].map(|share| short(quantile(&pps, share))));
                let gbps = |more| Some(row.gbps(more)).filter(|gbps| !gbps.is_nan());
                cells.extend(
                    [0, OVERHEAD].map(|more| gbps(more).map_or("-".to_owned(), |gbps| format!("{gbps:.3}"))),
                );
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
                cells.extend(wrong.then(|| misrouted(row).to_string()));
            }
            cells.extend(spreads.then(|| self.spread_text(row)));
            rows.push(cells);
        }
        table(&rows, words)
    }

    /// The figures of a command: a line for each row.
    fn figures_text(&self) -> String {
        let figures = &self.experiment.figures;
        let names = self.experiment.factors.iter().map(|factor| &factor.name);
        let mut head: Vec<String> = names.chain(figures.iter().map(|figure| &figure.name)).cloned().collect();
        let spreads = self.has_spreads();
        head.extend(spreads.then(|| "spread".to_owned()));
        let mut rows: Vec<Vec<String>> = vec![head];
        for row in &self.rows {
            let cell = |figure: &Figure| match row.figure(&figure.name) {
                None => "-".to_owned(),
                Some([least, median, most]) if least == most => number_text(median),
                Some(all) => {
                    let [least, median, most] = all.map(number_text);
                    format!("{median} ({least} to {most})")
                }
            };
            let point = row.point.0.iter().map(|(_, value)| value.clone());
            let spread = spreads.then(|| self.spread_text(row));
            rows.push(point.chain(figures.iter().map(cell)).chain(spread).collect());
        }
        table(&rows, self.experiment.factors.len())
    }

    /// Whether rounds are enough for a spread anywhere.
    fn has_spreads(&self) -> bool {
        self.rows.iter().any(|row| row.spread().is_some())
    }

    fn spread_text(&self, row: &Row) -> String {
        row.spread().map_or_else(
            || "-".to_owned(),
            |spread| {
                let mark = if spread > self.experiment.spread { " !" } else { "" };
                format!("{:.1} %{mark}", spread * 100.0)
            },
        )
    }

    /// What the marks of spreads mean, if there are any.
    fn spreads_text(&self) -> String {
        let wide = |row: &&Row| row.spread().is_some_and(|spread| spread > self.experiment.spread);
        let again =
            self.rows.iter().filter(|row| row.of_rounds.len() > self.experiment.rounds as usize).count();
        let mut text = String::new();
        if again > 0 {
            text += &format!(
                "{again} of {} results were measured more often, as their spread was too wide.\n",
                self.rows.len()
            );
        }
        if self.rows.iter().any(|row| wide(&row)) {
            let limit = percent(self.experiment.spread);
            text += &format!(
                "!: the rounds differ too much: the distance of their quartiles is more than {limit} of the median.\n"
            );
        }
        text
    }

    /// As a table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text =
            format!("{}, {} of each point\n", self.experiment.name, rounds_text(self.experiment.rounds));
        let connections = matches!(self.experiment.measure, Measure::Connections(_));
        let rates = self.experiment.figures.is_empty() && !connections;
        text += &if connections {
            self.connections_text()
        } else if rates {
            self.rates_text()
        } else {
            self.figures_text()
        };
        text += &self.spreads_text();
        // Writing to a string does not fail.
        for (row, efficiency) in self.rows.iter().zip(&self.efficiency) {
            if let Some(efficiency) = efficiency {
                let percent = efficiency * 100.0;
                let _ = writeln!(text, "{}scaling efficiency {percent:.1} %", row.prefix());
            }
        }
        let mut alike = BTreeSet::new();
        for (row, line) in self.rows.iter().zip(&self.by_size) {
            let Some(BySize { cycles_per_packet, cycles_per_byte }) = line else { continue };
            let others = row.point.0.iter().filter(|(name, _)| !SIZES.contains(&name.as_str()));
            let prefix = row.prefix_at(&Point(others.cloned().collect()));
            if alike.insert(prefix.clone()) {
                let _ = writeln!(
                    text,
                    "{prefix}{cycles_per_packet:.0} cycles a packet and {cycles_per_byte:.3} a byte"
                );
            }
        }
        text += &self.latency_text();
        text += &self.rfc8219_text();
        text += &self.jitter_text();
        text += &self.lost_text();
        text += &self.existing_text();
        text += &self.bursts_text();
        text += &self.costs_text();
        self.experiment.warnings.iter().for_each(|warning| text += &format!("warning: {warning}\n"));
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
            let wrong = row.of_rounds.last().and_then(|one| one.matrix.as_ref());
            for one in wrong.iter().flat_map(|matrix| &matrix.at_wrong_port) {
                let (point, Wrong { from, to, at, frames }) = (row.point.prefix(), one);
                let _ = writeln!(
                    text,
                    "{point}{frames} frames from {from} for {to} came out at the wrong port {at}"
                );
            }
        }
        if let Some(most) = self.rows.iter().map(|row| row.disturbed).max().filter(|most| *most > 0) {
            let _ = writeln!(
                text,
                "Generator or device had to wait for a processor: up to {most} trials of a point were made again."
            );
        }
        text += &self.machines_text();
        text += &self.calibration_text();
        text += &self.experiment.paper.as_ref().map(paper::text).unwrap_or_default();
        text += &judged::text(&self.outcomes);
        if !rates {
            return text;
        }
        text += "pps and Gb/s: what came back, medians; L2 without frame check sequence, L1 with 24 bytes a frame more. Latency: at this rate.\n";
        text
    }

    /// Where it was measured.
    fn machines_text(&self) -> String {
        let what = |machine: &Value| {
            let of = |key: &str| machine.get(key).and_then(Value::as_str);
            Some(format!("{}, Linux {}", of("model")?, of("kernel")?))
        };
        let mut text = String::new();
        if let Some(machine) = what(&self.machine) {
            text += &format!("Valiant {}, {machine}.\n", self.version);
        }
        for device in &self.devices {
            let host = device.get("host").and_then(Value::as_str).unwrap_or("unknown");
            text += &format!("The device on host {host}: {}.\n", what(device).unwrap_or_default());
        }
        if self.devices.len() > 1 {
            text += "warning: the device was on different machines, or these have changed: points may not be comparable\n";
        }
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
                let known = |of| Some(latency_median(all, of)).filter(|ns| !ns.is_nan());
                cells.extend(
                    columns.map(|of| known(of).map_or("-".to_owned(), |ns| format!("{:.1} us", ns / 1e3))),
                );
                rows.push(cells);
            }
        }
        if rows.len() == 1 {
            return String::new();
        }
        format!("latency at a part of the rate, medians of the rounds:\n{}", table(&rows, factors.len()))
    }

    /// What generator and sink do without the device.
    fn calibration_text(&self) -> String {
        let mut points = BTreeSet::new();
        let rows = self.rows.iter().filter(|row| points.insert(&row.point));
        let all: Vec<Alone> = rows.flat_map(|row| row.alone.iter().copied()).collect();
        alone::text(&all).map_or(String::new(), |text| format!("calibration: {text}\n"))
    }

    /// Latency at the result in the terms of RFC 8219: a line for each point.
    fn rfc8219_text(&self) -> String {
        self.rows.iter().fold(String::new(), |mut text, row| {
            if let Some(figures) = row.rfc8219() {
                let [typical, worst, pdv] = figures.map(|[median, ..]| median / 1e3);
                let ipdv = row.ipdv().map_or(String::new(), |all| {
                    let [least, median, most] = all.map(|[median, ..]| median / 1e3);
                    format!(", IPDV {least:.1} to {most:.1} us, median {median:.3} us")
                });
                let _ = writeln!(
                    text,
                    "{}latency (RFC 8219): typical {typical:.1} us, worst case {worst:.1} us, PDV {pdv:.1} us{ipdv}",
                    row.prefix()
                );
            }
            text
        })
    }

    /// Jitter at the result: a line for each point.
    fn jitter_text(&self) -> String {
        self.rows.iter().fold(String::new(), |mut text, row| {
            let of = |figure: fn(&Jitter) -> f64| -> Vec<f64> {
                row.of_rounds.iter().filter_map(|one| one.jitter_ns.as_ref()).map(figure).collect()
            };
            let figures = [of(|one| one.ipdv_mean), of(|one| one.ipdv_max), of(|one| one.rfc3550)];
            let [mean, most, smoothed] = figures.map(|all| quantile(&all, 0.5) / 1e3);
            let quantiles = row.ipdv_quantiles().map_or(String::new(), |all| {
                let [half, nearly_all] = all.map(|ns| ns / 1e3);
                format!(" 50 % {half:.1} us, 99.9 % {nearly_all:.1} us,")
            });
            if !mean.is_nan() {
                let _ = writeln!(
                    text,
                    "{}jitter: IPDV{quantiles} mean {mean:.1} us, most {most:.1} us; RFC 3550 {smoothed:.1} us",
                    row.prefix()
                );
            }
            text
        })
    }

    /// When frames were lost, in the last round: at the result, or else at the upper bound.
    fn lost_text(&self) -> String {
        self.rows.iter().fold(String::new(), |mut text, row| {
            let Some(one) = row.of_rounds.last() else { return text };
            let words = |line: &Option<Timeline>| line.as_ref().and_then(Timeline::when_lost);
            let (words, at) = match words(&one.timeline) {
                Some(words) => (words, String::new()),
                None => (
                    words(&one.upper_timeline).unwrap_or_default(),
                    one.upper.map_or_else(String::new, |upper| format!(" at {}pps", short(upper as f64))),
                ),
            };
            if !words.is_empty() {
                let _ = writeln!(text, "{}lost{at}: {words}", row.prefix());
            }
            text
        })
    }

    /// The connections over which frames were sent, and whether the device still had them where it has lost
    /// some: in the last round, at the result, or else at the upper bound.
    fn existing_text(&self) -> String {
        let Some(set_up) = &self.experiment.set_up else { return String::new() };
        let rate = short(set_up.rate as f64);
        self.rows.iter().fold(String::new(), |mut text, row| {
            let Some(one) = row.of_rounds.last() else { return text };
            let number = one.existing.map_or(0, |all| all.asked);
            let _ = writeln!(
                text,
                "{}over {number} connections that were there already, set up at {rate}pps at most (RFC 9693, test phase 2)",
                row.prefix()
            );
            let words = |all: &Option<Existing>| all.and_then(|all| all.words());
            if let Some(words) = words(&one.existing) {
                let _ = writeln!(text, "{}lost, {words}", row.prefix());
            } else if let (Some(words), Some(upper)) = (words(&one.upper_existing), one.upper) {
                let _ = writeln!(text, "{}lost at {}pps, {words}", row.prefix(), short(upper as f64));
            }
            text
        })
    }

    /// Connections: a line for each point.
    fn connections_text(&self) -> String {
        let head = self.experiment.factors.iter().map(|factor| factor.name.clone()).collect();
        let mut rows = Vec::new();
        for row in &self.rows {
            let cells: Vec<String> = row.point.0.iter().map(|(_, value)| value.clone()).collect();
            let limit = match (row.of_rounds.is_empty(), row.failed.is_empty()) {
                (false, _) => row.limit().map_or("none", Limit::word),
                (true, true) => "not measured yet",
                (true, false) => "failed",
            };
            rows.extend(
                row.connections
                    .as_ref()
                    .map(|kept| (cells, row.values(|one| one.pps), kept, limit.to_owned())),
            );
        }
        connections::text(head, &rows)
    }

    /// The longest bursts without loss.
    fn bursts_text(&self) -> String {
        let head = self.experiment.factors.iter().map(|factor| factor.name.clone()).collect();
        let mut rows = Vec::new();
        for row in &self.rows {
            let cells: Vec<String> = row.point.0.iter().map(|(_, value)| value.clone()).collect();
            rows.extend(row.bursts.as_ref().map(|bursts| (cells, bursts)));
        }
        backtoback::text(head, &rows)
    }

    /// What it has cost the device.
    fn costs_text(&self) -> String {
        let searched = matches!(self.experiment.measure, Measure::Search { .. });
        let factors = &self.experiment.factors;
        let mut head: Vec<String> = factors.iter().map(|factor| factor.name.clone()).collect();
        head.extend(searched.then(|| "loss up to".to_owned()));
        let rows = self.rows.iter().map(|row| {
            let mut cells: Vec<String> = row.point.0.iter().map(|(_, value)| value.clone()).collect();
            cells.extend(row.loss.map(|loss| format!("{} %", loss * 100.0)));
            (cells, row.spent())
        });
        costs::text(head, factors.len(), rows.collect())
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let rows = self
            .rows
            .iter()
            .enumerate()
            .map(|(number, row)| {
                let measure = self.experiment.measure_at(&row.point);
                let load = self.experiment.load_at(&self.experiment.settings(&row.point));
                let mut json = row.json(&measure, load);
                json["spread_too_wide"] = json!(row.spread().map(|spread| spread > self.experiment.spread));
                json["cycles_by_size"] = json!(self.by_size.get(number).copied().flatten());
                json["set_up"] = json!(self.experiment.set_up.as_ref().map(|set_up| {
                    json!({"connections": self.experiment.connections_at(&row.point), "rate": set_up.rate})
                }));
                json["scaling_efficiency"] = json!(self.efficiency.get(number).copied().flatten());
                json
            })
            .collect::<Vec<_>>();
        let factors: Vec<Value> = (self.experiment.factors.iter())
            .map(|factor| json!({"name": factor.name, "values": factor.values}))
            .collect();
        json!({
            "format": FORM, "experiment": self.experiment.name, "version": self.version, "machine": self.machine,
            "device_machines": self.devices,
            "rounds": self.experiment.rounds, "spread": self.experiment.spread, "warnings": self.experiment.warnings, "factors": factors,
            "conventions": {"bytes": "without frame check sequence", "l1_overhead_bytes": OVERHEAD,
                "loss": "of frames that were to be sent; what the generator did not send is lost",
                "existing": "connections over which frames were sent (RFC 9693, test phase 2); changed: frames that arrived as those of others, which count as lost; answered: of how many an answer arrived after the trial, if something was lost",
                "misrouted": "frames that came out where their destination does not belong; they count as lost",
                "pps": "all ports together: conditional throughput (RFC 9971 section 6.2), or what came back of the offered rate"},
            "to": self.experiment.to, "sink": self.experiment.sink, "outputs": self.experiment.outputs, "reverse_outputs": self.experiment.reverse_outputs, "counted": self.experiment.counted,
            "figures": self.experiment.figures.iter().map(|figure| &figure.name).collect::<Vec<_>>(), "file": self.experiment.text,
            "results": rows, "paper": self.experiment.paper, "expect": self.outcomes,
        })
    }

    /// As CSV: the factors, the loss that is allowed, the first factor as `x`, and what came back in packets
    /// a second, with the names that NPF uses; then the packet delay variation, and the median and the 99.9th
    /// percentile of the absolute IPDV, medians of the rounds.
    #[must_use]
    pub fn csv(&self) -> String {
        if !self.experiment.figures.is_empty() {
            return self.figures_csv();
        }
        let names = self.experiment.factors.iter().map(|factor| csv_cell(&factor.name));
        let mut head: Vec<String> = names.collect();
        head.extend(["loss", "x", "perc1", "perc25", "median", "perc75", "perc99", "avg"].map(str::to_owned));
        head.extend(["pdv_ns", "ipdv_p50_ns", "ipdv_p99_9_ns"].map(str::to_owned));
        let mut text = head.join(",") + "\n";
        for row in self.rows.iter().filter(|row| !row.of_rounds.is_empty()) {
            let pps = row.values(|one| one.pps);
            let mut cells: Vec<String> = row.point.0.iter().map(|(_, value)| csv_cell(value)).collect();
            cells.push(row.loss.map_or_else(String::new, |loss| loss.to_string()));
            cells.push(row.point.0.first().map_or_else(String::new, |(_, value)| csv_cell(value)));
            cells.extend([0.01, 0.25, 0.5, 0.75, 0.99].map(|share| quantile(&pps, share).to_string()));
            cells.push((pps.iter().sum::<f64>() / pps.len() as f64).to_string());
            let pdv = row.rfc8219().map(|[_, _, [median, ..]]| median);
            let [half, nearly_all] = row.ipdv_quantiles().map_or([None; 2], |all| all.map(Some));
            let text_of = |ns: Option<f64>| ns.map_or_else(String::new, |ns| ns.to_string());
            cells.extend([pdv, half, nearly_all].map(text_of));
            text += &(cells.join(",") + "\n");
        }
        text
    }

    /// The factors, and the median of each figure of a command.
    fn figures_csv(&self) -> String {
        let figures = &self.experiment.figures;
        let factors = self.experiment.factors.iter().map(|factor| &factor.name);
        let names = factors.chain(figures.iter().map(|figure| &figure.name));
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let head = line(names.map(|name| csv_cell(name)).collect());
        self.rows.iter().filter(|row| !row.of_rounds.is_empty()).fold(head, |text, row| {
            let number = |figure: &Figure| {
                row.figure(&figure.name).map_or_else(String::new, |[_, n, _]| n.to_string())
            };
            let point = row.point.0.iter().map(|(_, value)| csv_cell(value));
            text + &line(point.chain(figures.iter().map(number)).collect())
        })
    }
}

fn rounds_text(rounds: u32) -> String {
    if rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds") }
}
