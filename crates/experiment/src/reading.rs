//! The JSON of a report, read again: for pages, and for what compares results with expectations.

use crate::alone::Alone;
use crate::existing::Existing;
use crate::jitter::Jitter;
use measure::ranks::median;
use measure::rate::short;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The number of the form of reports. Reports without a number are of form 1.
pub(crate) const FORM: u64 = 1;

/// Units of a paper's values: what a packet costs.
pub(crate) const CYCLES: &str = "cycles/packet";
pub(crate) const INSTRUCTIONS: &str = "instructions/packet";

/// What sizes of frames are varied by.
pub(crate) const SIZES: [&str; 2] = ["size", "$SIZE"];

/// The factor that scaling is over.
pub(crate) const THREADS: &str = "threads";

/// What is varied, and its values in the order of the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Varied {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// The median of the rounds, the least and the most; none: not measured.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: Option<f64>,
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
}

/// Latency in nanoseconds at a part of the rate.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct AtShare {
    pub(crate) share: f64,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// One round of a row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Round {
    pub(crate) pps: f64,
    pub(crate) loss: Option<f64>,
    pub(crate) frame_bytes: Option<f64>,
    pub(crate) reordered: u64,
    pub(crate) duplicates: u64,
    pub(crate) damaged: u64,
    /// Frames at another output than they were for.
    pub(crate) misrouted: u64,
    pub(crate) trials: u64,
    pub(crate) traffic_seconds: f64,
    pub(crate) latency_p50_ns: Option<f64>,
    pub(crate) latency_p99_ns: Option<f64>,
    pub(crate) pdv_ns: Option<f64>,
    pub(crate) jitter_ns: Option<Jitter>,
    /// The connections over which it was sent, and the same at the upper bound.
    pub(crate) existing: Option<Existing>,
    pub(crate) upper_existing: Option<Existing>,
}

/// The connections over which frames were sent, and the rate at which they were set up.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct SetUpOf {
    pub(crate) connections: u64,
    pub(crate) rate: f64,
}

/// What a packet costs by its size: a straight line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct BySize {
    /// Whatever its size.
    pub(crate) cycles_per_packet: f64,
    pub(crate) cycles_per_byte: f64,
}

/// What a packet has cost the device, medians of the rounds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CostOf {
    pub(crate) cycles_per_packet: Option<f64>,
    pub(crate) load: Option<f64>,
    pub(crate) imbalance: Option<f64>,
    pub(crate) instructions_per_packet: Option<f64>,
    pub(crate) cycles_per_instruction: Option<f64>,
    pub(crate) llc_misses_per_packet: Option<f64>,
}

/// Connections through the device.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ConnectionsOf {
    pub(crate) number: u64,
    #[serde(default)]
    pub(crate) capacity: Option<CapacityOf>,
    #[serde(default)]
    pub(crate) tear_down: Option<TearDownOf>,
}

/// How many the device keeps.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct CapacityOf {
    pub(crate) median: f64,
    /// It may keep more.
    #[serde(default)]
    pub(crate) may_be_more: bool,
}

/// How many are removed in a second.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct TearDownOf {
    pub(crate) rate: f64,
    #[serde(default)]
    pub(crate) corrected_rate: Option<f64>,
}

/// A point with an allowed loss, or with a given rate.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) point: serde_json::Map<String, Value>,
    #[serde(default)]
    pub(crate) loss_allowed: Option<f64>,
    #[serde(default)]
    pub(crate) offered_pps: Option<f64>,
    #[serde(default)]
    pub(crate) pps: Spread,
    #[serde(default)]
    pub(crate) l2_gbps: Option<f64>,
    #[serde(default)]
    pub(crate) l1_gbps: Option<f64>,
    #[serde(default)]
    pub(crate) limit: Option<String>,
    #[serde(default)]
    pub(crate) latency_ns: Vec<AtShare>,
    #[serde(default)]
    pub(crate) cost: Option<CostOf>,
    #[serde(default)]
    pub(crate) connections: Option<ConnectionsOf>,
    #[serde(default)]
    pub(crate) set_up: Option<SetUpOf>,
    /// Figures of a command.
    #[serde(default)]
    pub(crate) figures: BTreeMap<String, Spread>,
    /// The distance of the quartiles of the rounds over the median.
    #[serde(default)]
    pub(crate) spread: Option<f64>,
    #[serde(default)]
    pub(crate) spread_too_wide: Option<bool>,
    #[serde(default)]
    pub(crate) rounds: Vec<Round>,
    #[serde(default)]
    pub(crate) rounds_open: u64,
    #[serde(default)]
    pub(crate) trials_disturbed: u64,
    #[serde(default)]
    pub(crate) calibration: Vec<Alone>,
    #[serde(default)]
    pub(crate) failed: Vec<String>,
}

/// A value that the text of a paper gives.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct CitedValue {
    /// The value of the factor.
    pub(crate) x: String,
    /// In the paper's unit.
    pub(crate) y: f64,
    /// Which of the paper's curves.
    pub(crate) of: String,
    /// The values of other factors.
    #[serde(default)]
    pub(crate) at: BTreeMap<String, String>,
    /// The section with the sentence.
    pub(crate) section: String,
    /// The same in packets a second, if the unit is that of a rate.
    pub(crate) pps: Option<f64>,
    /// The same in bits a second on the line (L1).
    pub(crate) l1_gbps: Option<f64>,
    /// Which figure of a command it is.
    #[serde(default)]
    pub(crate) figure: Option<String>,
}

impl Cited {
    /// What is compared of a value of the paper; none: nothing that is measured.
    pub(crate) fn theirs(&self, value: &CitedValue) -> Option<f64> {
        if value.figure.is_some() || matches!(self.unit.as_str(), CYCLES | INSTRUCTIONS) {
            Some(value.y)
        } else {
            value.pps
        }
    }

    /// The same of a result here; none: it is not known.
    pub(crate) fn ours(&self, row: &Row, value: &CitedValue) -> Option<f64> {
        if let Some(figure) = &value.figure {
            return row.figures.get(figure)?.median;
        }
        match self.unit.as_str() {
            CYCLES => row.cost().cycles_per_packet,
            INSTRUCTIONS => row.cost().instructions_per_packet,
            _ => row.pps.median,
        }
    }

    /// What that is, in words, and a number of it as a text.
    pub(crate) fn what(&self) -> (&'static str, fn(f64) -> String) {
        match self.unit.as_str() {
            CYCLES | INSTRUCTIONS => ("what a packet costs", |number| format!("{number:.0}")),
            _ => ("packets a second", |pps| short(pps).trim_end().to_owned()),
        }
    }
}

impl CitedValue {
    /// In what its number counts: the figure of a command, or the unit of the paper's values.
    pub(crate) fn unit<'a>(&'a self, paper: &'a str) -> &'a str {
        self.figure.as_deref().unwrap_or(paper)
    }

    /// The results that it can be compared with; `x` is its factor.
    pub(crate) fn rows<'r>(&self, x: &str, reading: &'r Reading) -> impl Iterator<Item = &'r Row> {
        let is = move |row: &&Row| {
            row.value(x) == Some(&self.x)
                && self.at.iter().all(|(name, value)| row.value(name) == Some(value))
        };
        reading.results.iter().filter(is)
    }
}

/// A figure of a paper.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Cited {
    pub(crate) title: String,
    pub(crate) figure: String,
    pub(crate) source: String,
    pub(crate) unit: String,
    /// The factor that its values are of.
    pub(crate) x: String,
    pub(crate) values: Vec<CitedValue>,
}

/// What was expected of the results, and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) expected: String,
    /// Why.
    pub(crate) why: String,
    /// Whether it holds; none: too little is measured.
    pub(crate) holds: Option<bool>,
    /// What was seen.
    pub(crate) seen: Vec<String>,
}

impl Verdict {
    /// The class of its element in a page.
    pub(crate) fn class(&self) -> &'static str {
        match self.holds {
            Some(true) => "good",
            Some(false) => "bad",
            None => "open",
        }
    }

    /// The word for it.
    pub(crate) fn word(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "not known yet",
        }
    }
}

/// A report.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Reading {
    pub(crate) experiment: String,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) command: Option<String>,
    #[serde(default)]
    pub(crate) machine: Value,
    /// Those of a device on another host.
    #[serde(default)]
    pub(crate) device_machines: Vec<Value>,
    #[serde(default)]
    pub(crate) rounds: u32,
    #[serde(default)]
    pub(crate) to: Vec<String>,
    #[serde(default)]
    pub(crate) sink: Vec<String>,
    #[serde(default)]
    pub(crate) counted: Vec<String>,
    /// The names of the figures of a command.
    #[serde(default)]
    pub(crate) figures: Vec<String>,
    #[serde(default)]
    pub(crate) file: String,
    #[serde(default)]
    pub(crate) factors: Vec<Varied>,
    #[serde(default)]
    pub(crate) paper: Option<Cited>,
    #[serde(default)]
    pub(crate) expect: Vec<Verdict>,
    pub(crate) results: Vec<Row>,
}

impl Row {
    /// The value of a factor at this point.
    pub(crate) fn value(&self, factor: &str) -> Option<&str> {
        self.point.get(factor)?.as_str()
    }

    /// Mean bytes of a frame, without frame check sequence.
    pub(crate) fn frame_bytes(&self) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| round.frame_bytes))
    }

    /// How far its rounds are from each other, and whether that is too far.
    pub(crate) fn spread_text(&self) -> String {
        let Some(spread) = self.spread else { return "-".to_owned() };
        let mark = if self.spread_too_wide == Some(true) { ", too wide" } else { "" };
        format!("{:.1} %{mark}", spread * 100.0)
    }

    /// What it has cost the device, as far as that is known.
    pub(crate) fn cost(&self) -> CostOf {
        self.cost.unwrap_or_default()
    }

    /// Latency at the result, in nanoseconds, median of the rounds: 50 %, 99 %.
    pub(crate) fn latency(&self) -> [Option<f64>; 2] {
        [
            median(self.rounds.iter().filter_map(|round| round.latency_p50_ns)),
            median(self.rounds.iter().filter_map(|round| round.latency_p99_ns)),
        ]
    }
}

impl Reading {
    /// The scaling efficiency of a result with several threads: its rate over that of one thread, over the
    /// threads; one thread's is 1. None: `threads` is not varied, or one thread is not measured.
    pub(crate) fn efficiency(&self, row: &Row) -> Option<f64> {
        let alike = |other: &&Row| {
            other.value(THREADS) == Some("1")
                && other.loss_allowed == row.loss_allowed
                && row
                    .point
                    .iter()
                    .filter(|(name, _)| *name != THREADS)
                    .all(|(name, value)| other.point.get(name) == Some(value))
        };
        let threads: f64 = row.value(THREADS)?.parse().ok()?;
        let one = self.results.iter().find(alike)?.pps.median.filter(|pps| *pps > 0.0)?;
        Some(row.pps.median? / one / threads)
    }

    /// What a packet costs by its size: the line with the least squares of what it is off, through the
    /// results that differ in nothing else. None: the size is not varied, or costs are not known.
    pub(crate) fn by_size(&self, row: &Row) -> Option<BySize> {
        let rest = |row: &Row| {
            let others = row.point.iter().filter(|(name, _)| !SIZES.contains(&name.as_str()));
            others.map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
        };
        let own = rest(row);
        let points: Vec<(f64, f64)> = (self.results.iter())
            .filter(|other| other.loss_allowed == row.loss_allowed && rest(other) == own)
            .filter_map(|other| Some((other.frame_bytes()?, other.cost().cycles_per_packet?)))
            .collect();
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
        let spread = mean(&|point| (point.0 - x).powi(2));
        if points.len() < 2 || spread <= 0.0 {
            return None;
        }
        let cycles_per_byte = mean(&|point| (point.0 - x) * (point.1 - y)) / spread;
        Some(BySize { cycles_per_packet: y - cycles_per_byte * x, cycles_per_byte })
    }

    /// Reads a report.
    ///
    /// # Errors
    /// A message: it is no report of an experiment, or one of another form.
    pub(crate) fn new(report: &Value) -> Result<Self, String> {
        let no_report = "this is no report of `valiant bench run --json`";
        let Some(parts) = report.as_object() else {
            return Err(no_report.to_owned());
        };
        let form = parts.get("format").map_or(Some(FORM), Value::as_u64);
        if form != Some(FORM) {
            let version = parts.get("version").and_then(Value::as_str).unwrap_or("unknown");
            let form = form.map_or_else(|| "unknown".to_owned(), |form| form.to_string());
            return Err(format!(
                "a report of form {form} (by Valiant {version}); this is Valiant {}, which reads form {FORM}: read it with the \
                 version that wrote it, or measure again",
                env!("CARGO_PKG_VERSION")
            ));
        }
        if !parts.contains_key("results") || !parts.contains_key("experiment") {
            return Err(no_report.to_owned());
        }
        let mut reading: Self =
            serde_json::from_value(report.clone()).map_err(|e| format!("{no_report}: {e}"))?;
        let named = |row: &Row| row.point.values().all(Value::is_string);
        if !reading.results.iter().all(named) {
            return Err(format!("{no_report}: the value of a factor is no text"));
        }
        if reading.factors.is_empty() {
            reading.factors = factors_of(&reading.results);
        }
        Ok(reading)
    }
}

/// The factors and their values, in the order in which they come in the results.
fn factors_of(rows: &[Row]) -> Vec<Varied> {
    let mut factors: Vec<Varied> = Vec::new();
    for (name, value) in rows.iter().flat_map(|row| &row.point) {
        let value = value.as_str().unwrap_or_default();
        match factors.iter_mut().find(|factor| factor.name == *name) {
            Some(factor) if factor.values.iter().any(|known| known == value) => {}
            Some(factor) => factor.values.push(value.to_owned()),
            None => factors.push(Varied { name: name.clone(), values: vec![value.to_owned()] }),
        }
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn old_reports_are_read_and_others_refused() {
        let mut report = json!({"experiment": "e", "version": "0.0.1", "results": [
            {"point": {"size": "60"}, "loss_allowed": 0.0, "pps": {"median": 1.0, "least": 1.0, "most": 1.0}},
            {"point": {"size": "100"}, "loss_allowed": 0.0, "pps": {"median": null, "least": null, "most": null}}]});
        let reading = Reading::new(&report).unwrap();
        assert_eq!(
            reading.factors,
            [Varied { name: "size".into(), values: vec!["60".into(), "100".into()] }]
        );
        assert_eq!((reading.results[0].pps.median, reading.results[1].pps.median), (Some(1.0), None));
        report["format"] = json!(7);
        let error = Reading::new(&report).unwrap_err();
        assert!(error.contains("form 7") && error.contains("Valiant 0.0.1"), "{error}");
        for wrong in
            [json!(3), json!([]), json!({}), json!({"experiment": "e", "version": "1", "results": 3})]
        {
            let error = Reading::new(&wrong).unwrap_err();
            assert!(error.starts_with("this is no report"), "{error}");
        }
        let number = json!({"experiment": "e", "version": "1", "results": [{"point": {"size": 3}}]});
        assert!(Reading::new(&number).unwrap_err().contains("no text"));
    }

    #[test]
    fn scaling_is_by_one_thread_of_the_same_point() {
        let row = |threads: &str, size: &str, pps: Option<f64>| json!({"point": {"threads": threads, "size": size}, "pps": {"median": pps}});
        let rows = [
            row("1", "60", Some(10.0)),
            row("2", "60", Some(16.0)),
            row("2", "99", Some(5.0)),
            row("4", "60", None),
        ];
        let reading = Reading::new(&json!({"experiment": "e", "version": "1", "results": rows})).unwrap();
        let all: Vec<_> = reading.results.iter().map(|row| reading.efficiency(row)).collect();
        assert_eq!(all, [Some(1.0), Some(0.8), None, None]);
        let other = json!({"experiment": "e", "version": "1", "results": [{"point": {"size": "60"}, "pps": {"median": 1.0}}]});
        let reading = Reading::new(&other).unwrap();
        assert_eq!(reading.efficiency(&reading.results[0]), None);
    }

    #[test]
    fn the_cost_by_size_is_a_line_through_results_that_are_alike() {
        let row = |program: &str, size: u32, cycles: f64| {
            json!({"point": {"program": program, "$SIZE": size.to_string()}, "rounds": [{"pps": 1.0, "frame_bytes": size}],
                "cost": {"cycles_per_packet": cycles}})
        };
        let rows = [row("a", 60, 46.0), row("a", 500, 90.0), row("a", 1500, 190.0), row("b", 60, 7.0)];
        let reading = Reading::new(&json!({"experiment": "e", "version": "1", "results": rows})).unwrap();
        let line = reading.by_size(&reading.results[1]).unwrap();
        assert!(
            (line.cycles_per_byte - 0.1).abs() < 1e-9 && (line.cycles_per_packet - 40.0).abs() < 1e-9,
            "{line:?}"
        );
        assert_eq!(reading.by_size(&reading.results[3]), None, "one size only");
    }
}
