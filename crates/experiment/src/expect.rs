//! What is expected of an experiment's results: shapes that hold on any machine, as a paper shows them.

use crate::known::{Fixed, Known, Table};
use crate::reading::{Reading, Row, Verdict};
use crate::values::{figure, number, part, percent, positive};
use lang::{Diagnostics, Span};
use launch::settings::at;
use measure::rate::short;
use serde::Deserialize;
use toml::{Spanned, Value};

/// By how much a rate may differ by chance, unless the file says otherwise.
const NOISE: f64 = 0.05;
/// How far apart two losses may be and be the same.
const SAME_LOSS: f64 = 1e-9;
/// How far from each other two values are that differ by the rounding of floating-point numbers, as a part of
/// them.
const ROUNDING: f64 = 1e-12;

/// An entry of `[[expect]]` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExpect {
    rises: Option<Spanned<String>>,
    falls: Option<Spanned<String>>,
    flat: Option<Spanned<String>>,
    ratio: Option<Spanned<Vec<Table>>>,
    #[serde(default)]
    at: Table,
    of: Option<Spanned<String>>,
    loss: Option<Spanned<Value>>,
    within: Option<Spanned<Value>>,
    least: Option<Spanned<Value>>,
    most: Option<Spanned<Value>>,
    #[serde(default)]
    why: String,
}

/// Which of the results.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    Pps,
    Gbps,
    Latency,
    Latency99,
    Cycles,
    CyclesPerByte,
    Load,
    Imbalance,
    Instructions,
    Efficiency,
    /// A figure of the command.
    Figure(String),
}

const QUANTITIES: [(&str, Of); 10] = [
    ("pps", Of::Pps),
    ("gbps", Of::Gbps),
    ("latency", Of::Latency),
    ("latency-99", Of::Latency99),
    ("cycles", Of::Cycles),
    ("cycles/byte", Of::CyclesPerByte),
    ("load", Of::Load),
    ("imbalance", Of::Imbalance),
    ("instructions", Of::Instructions),
    ("efficiency", Of::Efficiency),
];

impl Of {
    fn value(&self, row: &Row, reading: &Reading) -> Option<f64> {
        match self {
            Self::Pps => row.pps.median,
            Self::Gbps => row.l1_gbps,
            Self::Latency => row.latency()[0],
            Self::Latency99 => row.latency()[1],
            Self::Cycles => row.cost().cycles_per_packet,
            Self::CyclesPerByte => reading.by_size(row).map(|line| line.cycles_per_byte),
            Self::Load => row.cost().load,
            // With all workers alike it is 0, and a ratio of that is none: what the busiest has over the
            // mean.
            Self::Imbalance => row.cost().imbalance.map(|more| 1.0 + more),
            Self::Instructions => row.cost().instructions_per_packet,
            Self::Efficiency => reading.efficiency(row),
            Self::Figure(name) => row.figures.get(name)?.median,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Pps => "the rate in packets",
            Self::Gbps => "the rate in bits (L1)",
            Self::Latency => "the median latency",
            Self::Latency99 => "the latency at 99 %",
            Self::Cycles => "cycles for each packet",
            Self::CyclesPerByte => "cycles for each byte",
            Self::Load => "the load without empty polls",
            Self::Imbalance => "the busiest worker over the mean",
            Self::Instructions => "instructions for each packet",
            Self::Efficiency => "the scaling efficiency",
            Self::Figure(name) => name,
        }
    }

    fn text(&self, value: f64) -> String {
        match self {
            Self::Pps => short(value).trim_end().to_owned(),
            Self::Gbps => format!("{value:.3} Gb/s"),
            Self::Latency | Self::Latency99 => format!("{:.1} us", value / 1e3),
            Self::Cycles | Self::Instructions => format!("{value:.0}"),
            Self::Load => format!("{:.1} %", value * 100.0),
            Self::Imbalance | Self::Efficiency | Self::CyclesPerByte => format!("{value:.3}"),
            Self::Figure(_) => figure(value),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// From each value of the factor to the next higher one.
    Rises(String),
    Falls(String),
    Flat(String),
    /// Of the first to the second.
    Ratio(Fixed, Fixed),
}

impl Shape {
    /// Reports points that cannot be compared: there is none, or there are several, where other factors have
    /// these values.
    fn fits(&self, fixed: &[(String, String)], place: Span, diags: &mut Diagnostics) {
        let names = |point: &Fixed| point.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let (compared, differ) = match self {
            Self::Rises(factor) | Self::Falls(factor) | Self::Flat(factor) => {
                (fixed.iter().find(|(name, _)| name == factor), false)
            }
            Self::Ratio(first, second) => {
                let other = |(name, value): &&(String, String)| {
                    first.iter().chain(second).any(|(n, v)| n == name && v != value)
                };
                (fixed.iter().find(other), names(first) != names(second))
            }
        };
        if let Some((name, value)) = compared {
            let message = format!("at keeps {name} at {value}, and another value of it is compared");
            diags.error_with_help(place, message, "at has factors that are the same on both sides");
        }
        if differ {
            let help = "both points have the same factors: ratio = [{ size = 60 }, { size = 1514 }]";
            diags.error_with_help(place, "one point has a factor that the other does not have", help);
        }
    }
}

/// An expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    shape: Shape,
    of: Of,
    /// Only points with these values.
    at: Fixed,
    /// Only the results for this allowed loss.
    loss: Option<f64>,
    within: f64,
    /// The ratio of last to first (of first to last where it falls), or of the two points.
    least: Option<f64>,
    most: Option<f64>,
    why: String,
}

/// Reads an expectation. Errors are reported with their places.
pub(crate) fn read(raw: &Spanned<RawExpect>, known: &Known<'_>, diags: &mut Diagnostics) -> Option<Expect> {
    let place = at(raw);
    let entry = raw.get_ref();
    let mut number_of =
        |key: &str, value: Option<&Spanned<Value>>, meaning: fn(&Value) -> Option<f64>, like: &str| {
            let value = value?;
            let meant = meaning(value.get_ref());
            if meant.is_none() {
                diags.error_with_help(at(value), format!("{key} has no value that can be used"), like);
            }
            meant
        };
    let within =
        number_of("within", entry.within.as_ref(), part, "a part such as 0.1 or \"10%\", less than 1");
    let least = number_of("least", entry.least.as_ref(), positive, "a number above 0, such as 1.5");
    let most = number_of("most", entry.most.as_ref(), positive, "a number above 0, such as 1.5");
    let loss =
        number_of("loss", entry.loss.as_ref(), part, "one of the losses in [measure], such as 0 or \"0.5%\"");
    if let (Some(value), Some(loss)) = (&entry.loss, loss)
        && !known.losses.iter().any(|known| (known - loss).abs() < SAME_LOSS)
    {
        let help = "[measure] has the allowed losses: `loss`; with a given rate there is none";
        diags.error_with_help(at(value), "this loss is not one of those that are measured", help);
    }
    let of = match &entry.of {
        None if known.figures.is_empty() => Of::Pps,
        Some(word) if known.figures.contains(word.get_ref()) => Of::Figure(word.get_ref().clone()),
        other if !known.figures.is_empty() => {
            let message = other.as_ref().map_or_else(
                || "of which figure?".to_owned(),
                |word| format!("'{}' is no figure of the command", word.get_ref()),
            );
            let help = format!("[figures] has {}", known.figures.join(", "));
            diags.error_with_help(other.as_ref().map_or(place, at), message, help);
            Of::Pps
        }
        None => Of::Pps,
        Some(word) => match QUANTITIES.iter().find(|(name, _)| name == word.get_ref()) {
            Some((_, of)) => of.clone(),
            None => {
                let names: Vec<String> = QUANTITIES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
                let help = format!("of has {}", names.join(", "));
                diags.error_with_help(
                    at(word),
                    format!("'{}' is nothing that is measured", word.get_ref()),
                    help,
                );
                Of::Pps
            }
        },
    };
    let fixed = known.fixed(&entry.at, diags);
    let monotone = [(&entry.rises, 0), (&entry.falls, 1), (&entry.flat, 2)];
    let mut named = monotone.iter().filter_map(|(name, kind)| Some((name.as_ref()?, *kind)));
    let shape = match (named.next(), named.next(), &entry.ratio) {
        (Some((name, kind)), None, None) => {
            let factor = known.factor(name, diags)?;
            if factor.values.len() < 2 {
                diags.error_with_help(at(name), "it has one value only", "a shape needs two values");
            }
            match kind {
                0 => Shape::Rises(factor.name.clone()),
                1 => Shape::Falls(factor.name.clone()),
                _ if within.is_none() || least.is_some() || most.is_some() => {
                    diags.error_with_help(
                        at(name),
                        "flat needs within, and nothing else",
                        "within = \"10%\"",
                    );
                    return None;
                }
                _ => Shape::Flat(factor.name.clone()),
            }
        }
        (None, None, Some(points)) => {
            let [first, second] = points.get_ref().as_slice() else {
                let help = "ratio = [{ size = 60 }, { size = 1514 }]";
                diags.error_with_help(at(points), "a ratio is that of two points", help);
                return None;
            };
            if least.is_none() && most.is_none() {
                diags.error_with_help(at(points), "a ratio needs least or most", "least = 1.5");
            }
            Shape::Ratio(known.fixed(first, diags), known.fixed(second, diags))
        }
        _ => {
            let help = "rises = \"FACTOR\", falls = \"FACTOR\", flat = \"FACTOR\" or ratio = [POINT, POINT]";
            diags.error_with_help(place, "an expectation has one shape", help);
            return None;
        }
    };
    shape.fits(&fixed, place, diags);
    if let (Some(low), Some(high)) = (least, most)
        && low > high
    {
        diags.error_with_help(place, format!("least = {low} is more than most = {high}"), "least <= most");
    }
    Some(Expect {
        shape,
        of,
        at: fixed,
        loss,
        within: within.unwrap_or(NOISE),
        least,
        most,
        why: entry.why.clone(),
    })
}

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
    use crate::reading::CostOf;
    use lang::Source;
    use launch::settings;
    use serde_json::json;

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
