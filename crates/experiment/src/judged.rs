//! What came of expectations, beside the results of an experiment.

use crate::expect::{Expect, SAME_LOSS, Shape};
use crate::known::Fixed;
use crate::reading::{Reading, Row, Verdict};
use crate::values::{number, percent};

/// How far from each other two values are that differ by the rounding of floating-point numbers, as a part of
/// them.
const ROUNDING: f64 = 1e-12;

fn words(fixed: &[(String, String)]) -> String {
    fixed.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// How many times the second the first is; of two zeros, once.
fn ratio(first: f64, second: f64) -> f64 {
    if first == 0.0 && second == 0.0 { 1.0 } else { first / second }
}

fn matches(row: &Row, fixed: &[(String, String)]) -> bool {
    fixed.iter().all(|(name, value)| row.value(name) == Some(value))
}

/// What tells rows of a group from those of other groups: all other factors, and the loss.
fn group(row: &Row, without: &[&str]) -> Fixed {
    let mut key: Fixed = (row.point.iter())
        .filter(|(name, _)| !without.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    key.extend(row.loss_allowed.map(|loss| ("loss up to".to_owned(), percent(loss))));
    key
}

impl Expect {
    fn text(&self) -> String {
        let of = self.of.name();
        let times = match (self.least, self.most) {
            (Some(low), Some(high)) => format!(", {low} to {high} times in all"),
            (Some(low), None) => format!(", {low} times or more in all"),
            (None, Some(high)) => format!(", {high} times or less in all"),
            (None, None) => String::new(),
        };
        let within = format!("within {} %", (self.within * 1000.0).round() / 10.0);
        let mut text = match &self.shape {
            Shape::Rises(factor) => format!("{of} rises with {factor}{times}"),
            Shape::Falls(factor) => format!("{of} falls with {factor}{times}"),
            Shape::Flat(factor) => format!("{of} is the same with any {factor}, {within}"),
            Shape::Ratio(first, second) => {
                let times = times.trim_start_matches(", ").trim_end_matches(" in all");
                format!("{of} at {} is {times} that at {}", words(first), words(second))
            }
        };
        let mut only = self.at.clone();
        only.extend(self.loss.map(|loss| ("loss up to".to_owned(), percent(loss))));
        if !only.is_empty() {
            text += &format!(" ({})", words(&only));
        }
        text
    }

    fn rows<'r>(&self, reading: &'r Reading) -> Vec<&'r Row> {
        let loss = |row: &Row| {
            self.loss.is_none_or(|loss| row.loss_allowed.is_some_and(|its| (its - loss).abs() < SAME_LOSS))
        };
        reading.results.iter().filter(|row| matches(row, &self.at) && loss(row)).collect()
    }

    fn within_bounds(&self, ratio: f64) -> bool {
        self.least.is_none_or(|least| ratio >= least) && self.most.is_none_or(|most| ratio <= most)
    }

    /// Whether values in the order of the factor have the shape.
    fn holds(&self, values: &[f64]) -> bool {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Values may be negative, or 0: what counts is how far they are apart.
        let same = |a: f64, b: f64| (a - b).abs() <= (self.within + ROUNDING) * a.abs().max(b.abs());
        let rises = |values: &[f64]| {
            let steps = values.windows(2).all(|pair| pair[1] >= pair[0] || same(pair[0], pair[1]));
            let (first, last) = (values[0], values[values.len() - 1]);
            let more = self.least.is_some() || last - first > self.within * first.abs();
            steps && more && self.within_bounds(ratio(last, first))
        };
        match &self.shape {
            Shape::Flat(_) => same(low, high),
            Shape::Rises(_) => rises(values),
            Shape::Falls(_) => rises(&values.iter().rev().copied().collect::<Vec<_>>()),
            Shape::Ratio(..) => self.within_bounds(ratio(values[0], values[1])),
        }
    }

    /// The factors that tell the compared values from each other, and the points in their order.
    fn order(&self, reading: &Reading) -> (Vec<String>, Vec<Fixed>) {
        let (Shape::Rises(name) | Shape::Falls(name) | Shape::Flat(name)) = &self.shape else {
            let Shape::Ratio(first, second) = &self.shape else { return Default::default() };
            let names = first.iter().chain(second).map(|(name, _)| name.clone()).collect();
            return (names, vec![first.clone(), second.clone()]);
        };
        let values = reading.factors.iter().find(|factor| factor.name == *name).map(|factor| &factor.values);
        let mut values = values.cloned().unwrap_or_default();
        // Words stay in the order of the file.
        if values.iter().all(|value| number(value).is_some()) {
            let of = |value: &String| number(value).unwrap_or_default();
            values.sort_by(|a, b| of(a).total_cmp(&of(b)));
        }
        (vec![name.clone()], values.into_iter().map(|value| vec![(name.clone(), value)]).collect())
    }

    /// What came of it.
    fn outcome(&self, reading: &Reading) -> Verdict {
        let (names, points) = self.order(reading);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut groups: Vec<(Fixed, Vec<&Row>)> = Vec::new();
        for row in self.rows(reading) {
            let key = group(row, &names);
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        let (mut seen, mut verdicts) = (Vec::new(), Vec::new());
        for (key, rows) in groups {
            // The points that `at` leaves out are not there.
            let points = points.iter().filter(|point| {
                point.iter().all(|(name, value)| self.at.iter().all(|(n, v)| n != name || v == value))
            });
            let found: Vec<(&Fixed, Option<f64>)> = points
                .map(|point| {
                    (
                        point,
                        rows.iter()
                            .find(|row| matches(row, point))
                            .and_then(|row| self.of.value(row, reading)),
                    )
                })
                .collect();
            let values: Option<Vec<f64>> = found.iter().map(|(_, value)| *value).collect();
            let verdict = values.filter(|values| values.len() > 1).map(|values| self.holds(&values));
            let text = |(point, value): &(&Fixed, Option<f64>)| {
                let value = value.map_or_else(|| "not measured".to_owned(), |value| self.of.text(value));
                format!("{}: {value}", words(point))
            };
            let all = found.iter().map(text).collect::<Vec<_>>().join("; ");
            let key = if key.is_empty() { String::new() } else { format!("{}: ", words(&key)) };
            let wrong = if verdict == Some(false) { "not so: " } else { "" };
            seen.push(format!("{wrong}{key}{all}"));
            verdicts.push(verdict);
        }
        let holds = if verdicts.contains(&Some(false)) {
            Some(false)
        } else if verdicts.is_empty() || verdicts.contains(&None) {
            None
        } else {
            Some(true)
        };
        Verdict { expected: self.text(), why: self.why.clone(), holds, seen }
    }
}

/// What came of all expectations.
pub(crate) fn outcomes(expected: &[Expect], reading: &Reading) -> Vec<Verdict> {
    expected.iter().map(|expect| expect.outcome(reading)).collect()
}

/// Lines for a report as text.
pub(crate) fn text(outcomes: &[Verdict]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        text += &format!("expected: {}: {}\n", outcome.expected, outcome.word());
        if outcome.holds != Some(true) {
            text += &outcome.seen.iter().map(|seen| format!("  {seen}\n")).collect::<String>();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::{RawExpect, read};
    use crate::known::Known;
    use crate::reading::CostOf;
    use lang::{Diagnostics, Source};
    use launch::settings;
    use serde::Deserialize;
    use serde_json::json;
    use toml::Spanned;

    #[derive(Deserialize)]
    struct File {
        expect: Vec<Spanned<RawExpect>>,
    }

    /// Rates over KP and size; none: not measured.
    fn reading(rows: &[(&str, &str, Option<f64>)]) -> Reading {
        let row = |(burst, size, pps): &(&str, &str, Option<f64>)| json!({"point": {"$KP": burst, "size": size}, "loss_allowed": 0.0, "pps": {"median": pps, "least": pps, "most": pps}});
        let rows: Vec<_> = rows.iter().map(row).collect();
        Reading::new(&json!({"experiment": "e", "version": "1", "results": rows})).unwrap()
    }

    fn judged(text: &str, reading: &Reading) -> Verdict {
        let mut diags = Diagnostics::new();
        let file: File = settings::read(&format!("[[expect]]\n{text}"), "", &mut diags).unwrap();
        let known = Known { factors: &reading.factors, ..Known::default() };
        let known = Known { losses: &[0.0], ..known };
        let expect = read(&file.expect[0], &known, &mut diags);
        settings::finish(&mut diags, &Source::new("e.toml", text));
        assert!(!diags.has_errors(), "{diags:?}");
        outcomes(&[expect.unwrap()], reading).remove(0)
    }

    #[test]
    fn shapes_hold_or_not() {
        // In no order.
        let seen = reading(&[
            ("32", "60", Some(4e6)),
            ("1", "60", Some(1e6)),
            ("8", "60", Some(3.9e6)),
            ("1", "1514", Some(0.98e6)),
            ("8", "1514", Some(0.96e6)),
            ("32", "1514", Some(1e6)),
        ]);
        for (text, holds) in [
            ("rises = \"$KP\"\nat = {size = 60}", true),
            ("rises = \"$KP\"\nat = {size = 60}\nleast = 3.5\nmost = 4.5", true),
            ("rises = \"$KP\"\nat = {size = 60}\nleast = 5", false),
            ("rises = \"$KP\"", false),
            ("falls = \"$KP\"\nat = {size = 60}", false),
            ("falls = \"size\"\nat = {\"$KP\" = 8}\nloss = 0", true),
            ("falls = \"size\"", false),
            ("flat = \"$KP\"\nat = {size = 1514}\nwithin = \"5%\"", true),
            ("flat = \"$KP\"\nat = {size = 1514}\nwithin = \"1%\"", false),
            ("ratio = [{\"$KP\" = 32}, {\"$KP\" = 1}]\nat = {size = 60}\nleast = 4", true),
            ("ratio = [{\"$KP\" = 32}, {\"$KP\" = 1}]\nleast = 4", false),
            ("ratio = [{\"$KP\" = 32, size = 60}, {\"$KP\" = 1, size = 1514}]\nmost = 4", false),
        ] {
            let verdict = judged(text, &seen);
            assert_eq!(verdict.holds, Some(holds), "{text}: {verdict:#?}");
        }
        let verdict = judged("rises = \"$KP\"\nwhy = \"a poll is shared\"", &seen);
        assert_eq!(verdict.expected, "the rate in packets rises with $KP");
        assert_eq!(verdict.seen[0], "size 60, loss up to 0 %: $KP 1: 1.00 M; $KP 8: 3.90 M; $KP 32: 4.00 M");
        assert!(verdict.seen[1].starts_with("not so: size 1514"), "{verdict:#?}");
        let text = text(&[verdict]);
        assert!(
            text.starts_with("expected: the rate in packets rises with $KP: does not hold\n  size 60"),
            "{text}"
        );
    }

    #[test]
    fn figures_may_be_negative_or_zero() {
        let of = |values: [f64; 3]| {
            let mut seen = reading(&[("1", "60", None), ("2", "60", None), ("3", "60", None)]);
            for (row, value) in seen.results.iter_mut().zip(values) {
                row.pps.median = Some(value);
            }
            seen
        };
        let ratio = "ratio = [{\"$KP\" = 1}, {\"$KP\" = 3}]";
        for (text, values, holds) in [
            ("flat = \"$KP\"\nwithin = \"50%\"", [-5.0, -5.0, -2.0], false),
            ("flat = \"$KP\"\nwithin = \"50%\"", [-5.0, -5.0, -5.0], true),
            ("flat = \"$KP\"\nwithin = \"5%\"", [-1.0, -0.96, -0.95], true),
            ("flat = \"$KP\"\nwithin = \"5%\"", [1.0, 0.96, 0.95], true),
            ("flat = \"$KP\"\nwithin = \"5%\"", [0.0, 0.0, 0.0], true),
            ("flat = \"$KP\"\nwithin = \"50%\"", [-1.0, 0.0, 1.0], false),
            ("rises = \"$KP\"", [-5.0, -5.0, -2.0], true),
            ("rises = \"$KP\"", [-5.0, -5.0, -5.0], false),
            ("rises = \"$KP\"", [-2.0, -3.0, 5.0], false),
            ("rises = \"$KP\"", [-1.0, 0.0, 1.0], true),
            ("rises = \"$KP\"", [0.0, 0.0, 0.0], false),
            ("falls = \"$KP\"", [-2.0, -5.0, -5.0], true),
            ("falls = \"$KP\"", [-5.0, -5.0, -2.0], false),
            (&format!("{ratio}\nmost = 1"), [0.0, 0.0, 0.0], true),
            (&format!("{ratio}\nleast = 2"), [0.0, 0.0, 0.0], false),
            (&format!("{ratio}\nleast = 2"), [1.0, 0.0, 0.0], true),
        ] {
            let verdict = judged(text, &of(values));
            assert_eq!(verdict.holds, Some(holds), "{text} {values:?}: {verdict:#?}");
        }
    }

    #[test]
    fn points_that_cannot_be_compared_are_errors() {
        let seen = reading(&[("1", "60", None), ("8", "60", None), ("1", "99", None), ("8", "99", None)]);
        let errors = |text: &str| {
            let mut diags = Diagnostics::new();
            let file: File = settings::read(&format!("[[expect]]\n{text}"), "", &mut diags).unwrap();
            read(&file.expect[0], &Known { factors: &seen.factors, ..Known::default() }, &mut diags);
            diags.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; ")
        };
        assert!(errors("rises = \"size\"\nat = {size = 60}").contains("at keeps size at 60"));
        let ratio = |rest: &str| errors(&format!("least = 1\nratio = [{{size = 60}}, {rest}"));
        assert!(ratio("{size = 99}]\nat = {size = 99}").contains("at keeps size at 99"));
        assert!(ratio("{size = 99, \"$KP\" = 1}]").contains("one point has a factor"));
        assert!(ratio("{\"$KP\" = 8}]").contains("one point has a factor"));
        assert_eq!(ratio("{size = 99}]\nat = {\"$KP\" = 8}"), "");
    }

    #[test]
    fn what_a_packet_costs_may_be_expected_too() {
        let mut seen = reading(&[("1", "60", Some(1e6)), ("32", "60", Some(4e6))]);
        let text = "ratio = [{\"$KP\" = 1}, {\"$KP\" = 32}]\nleast = 3\nof = ";
        for quantity in ["cycles", "load", "imbalance", "instructions"] {
            assert_eq!(
                judged(&format!("{text}\"{quantity}\""), &seen).holds,
                None,
                "{quantity} is not known"
            );
        }
        let figures = [(900.0, 0.9, 3.0), (300.0, 0.4, 0.0)];
        for (row, (cycles, load, imbalance)) in seen.results.iter_mut().zip(figures) {
            row.cost = Some(CostOf {
                cycles_per_packet: Some(cycles),
                load: Some(load),
                imbalance: Some(imbalance),
                ..CostOf::default()
            });
        }
        for (quantity, holds) in [("cycles", true), ("load", false), ("imbalance", true)] {
            assert_eq!(judged(&format!("{text}\"{quantity}\""), &seen).holds, Some(holds), "{quantity}");
        }
        let verdict = judged(&format!("{text}\"cycles\""), &seen);
        assert_eq!(verdict.seen, ["size 60, loss up to 0 %: $KP 1: 900; $KP 32: 300"]);
    }

    #[test]
    fn what_is_not_measured_is_not_known() {
        let part = reading(&[("1", "60", Some(1e6)), ("8", "60", None)]);
        assert_eq!(judged("rises = \"$KP\"", &part).holds, None);
        // What is wrong stays wrong.
        let rows =
            [("1", "60", Some(1e6)), ("8", "60", None), ("1", "99", Some(2e6)), ("8", "99", Some(1e6))];
        assert_eq!(judged("rises = \"$KP\"", &reading(&rows)).holds, Some(false));
        assert_eq!(judged("rises = \"$KP\"\nof = \"latency\"", &reading(&rows)).holds, None);
    }
}
