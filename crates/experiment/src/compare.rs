//! What has changed from one report to another, and whether it is more than noise.

use crate::layout::{quantile, table};
use measure::ranks::{Difference, difference};
use measure::rate::short;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Below this probability a difference is taken for real.
const SIGNIFICANT: f64 = 0.05;

/// Two reports (`valiant bench run --json`), row by row.
#[derive(Debug)]
pub struct Comparison {
    names: [String; 2],
    rows: Vec<Row>,
    /// Rows that only one of them has.
    single: Vec<(usize, String)>,
}

#[derive(Debug)]
struct Row {
    name: String,
    medians: [f64; 2],
    rounds: [usize; 2],
    difference: Difference,
}

/// What a row is about, and what came back in each round.
type Rates = BTreeMap<String, Vec<f64>>;

fn rates(report: &Value) -> Option<Rates> {
    let rows = report.get("results")?.as_array()?;
    let row = |row: &Value| {
        let point = row.get("point")?.as_object()?;
        let mut words: Vec<String> = point
            .iter()
            .map(|(name, value)| format!("{name} {}", value.as_str().unwrap_or_default()))
            .collect();
        if let Some(loss) = row.get("loss_allowed").and_then(Value::as_f64) {
            words.push(format!("loss up to {} %", (loss * 1e6).round() / 1e4));
        } else if !point.contains_key("rate") {
            words.push(format!("{}pps", short(row.get("offered_pps")?.as_f64()?)));
        }
        let rounds = row.get("rounds")?.as_array()?;
        Some((words.join(", "), rounds.iter().filter_map(|round| round.get("pps")?.as_f64()).collect()))
    };
    rows.iter().map(row).collect()
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

impl Comparison {
    /// Compares two reports, each with its name.
    ///
    /// # Errors
    /// A message: one is no report of an experiment, or has no rates.
    pub fn new(reports: [(&str, &Value); 2]) -> Result<Self, String> {
        let of = |(name, report): (&str, &Value)| {
            let figures = report.get("figures").and_then(Value::as_array);
            if figures.is_some_and(|figures| !figures.is_empty()) {
                return Err(format!("{name}: this has figures of a command, which are not compared"));
            }
            rates(report).ok_or_else(|| format!("{name}: this is no report of `valiant bench run --json`"))
        };
        let [before, after] = [of(reports[0])?, of(reports[1])?];
        let mut this =
            Self { names: reports.map(|(name, _)| name.to_owned()), rows: Vec::new(), single: Vec::new() };
        for (name, a) in &before {
            let Some(b) = after.get(name) else {
                this.single.push((0, name.clone()));
                continue;
            };
            match difference(a, b) {
                Some(difference) => this.rows.push(Row {
                    name: name.clone(),
                    medians: [median(a), median(b)],
                    rounds: [a.len(), b.len()],
                    difference,
                }),
                None => this.single.push((usize::from(a.is_empty()), name.clone())),
            }
        }
        this.single
            .extend(after.keys().filter(|name| !before.contains_key(*name)).map(|name| (1, name.clone())));
        Ok(this)
    }

    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let head = ["", "before", "after", "factor", "95 % between", "p", ""].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        for row in &self.rows {
            let Difference { factor, interval, p } = row.difference;
            let between = interval
                .map_or_else(|| "too few rounds".to_owned(), |(low, high)| format!("{low:.3} and {high:.3}"));
            let verdict = match p < SIGNIFICANT {
                true if factor > 1.0 => "faster",
                true => "slower",
                false => "no more than noise",
            };
            let medians = row.medians.map(short);
            let [before, after] = medians;
            rows.push(vec![
                row.name.clone(),
                before,
                after,
                format!("{factor:.3}"),
                between,
                format!("{p:.3}"),
                verdict.to_owned(),
            ]);
        }
        let mut text = format!(
            "before: {}, after: {}; packets a second that came back, medians of the rounds\n",
            self.names[0], self.names[1]
        );
        text += &table(&rows, 1);
        for (which, name) in &self.single {
            text += &format!("only {} has results of: {name}\n", self.names[*which]);
        }
        text += "p: how likely such a difference is by chance, by the Mann-Whitney test (two-sided); the factor and its interval are those of Hodges and Lehmann.\n";
        if self.rows.iter().any(|row| row.difference.interval.is_none()) {
            text += "With fewer than four rounds on both sides no difference can be told from noise with 95 % confidence: `rounds` in [experiment].\n";
        }
        text
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let Difference { factor, interval, p } = row.difference;
            json!({
                "of": row.name, "before_pps": row.medians[0], "after_pps": row.medians[1],
                "before_rounds": row.rounds[0], "after_rounds": row.rounds[1], "factor": factor,
                "interval_95": interval.map(|(low, high)| [low, high]), "p": p, "significant": p < SIGNIFICANT,
            })
        });
        let single = self.single.iter().map(|(which, name)| json!({"only": self.names[*which], "of": name}));
        json!({"before": self.names[0], "after": self.names[1], "test": "Mann-Whitney, two-sided",
            "results": rows.collect::<Vec<_>>(), "only_one": single.collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: &[(&str, &[f64])]) -> Value {
        let row = |(size, rates): &(&str, &[f64])| json!({"point": {"size": size}, "loss_allowed": 0.005, "rounds": rates.iter().map(|pps| json!({"pps": pps})).collect::<Vec<_>>()});
        json!({"results": rows.iter().map(row).collect::<Vec<_>>()})
    }

    #[test]
    fn what_is_more_than_noise_is_told_from_noise() {
        let before = report(&[
            ("60", &[100.0, 101.0, 102.0, 103.0]),
            ("508", &[50.0, 60.0, 55.0, 52.0]),
            ("9", &[1.0]),
            ("8", &[]),
        ]);
        let after = report(&[
            ("60", &[111.0, 112.0, 113.0, 114.0]),
            ("508", &[51.0, 59.0, 56.0, 53.0]),
            ("7", &[1.0]),
            ("8", &[2.0]),
        ]);
        let comparison = Comparison::new([("a", &before), ("b", &after)]).unwrap();
        let text = comparison.text();
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        assert!(line("size 60, loss up to 0.5 %").ends_with("faster"), "{text}");
        assert!(line("size 508").ends_with("no more than noise"), "{text}");
        assert!(
            text.contains("only a has results of: size 9") && text.contains("only b has results of: size 7"),
            "{text}"
        );
        assert!(text.contains("only b has results of: size 8"), "{text}");
        let json = comparison.json();
        assert_eq!(json["results"].as_array().unwrap().len(), 2);
        assert!(
            json["results"][1]["factor"].as_f64().is_some_and(|factor| (1.09..1.12).contains(&factor)),
            "{json}"
        );
        let slower = Comparison::new([("b", &after), ("a", &before)]).unwrap().text();
        assert!(
            slower.lines().any(|line| line.starts_with("size 60") && line.ends_with("slower")),
            "{slower}"
        );
        assert!(Comparison::new([("a", &json!({})), ("b", &after)]).unwrap_err().starts_with("a: "));
    }

    #[test]
    fn figures_of_a_command_are_not_compared() {
        let rates = report(&[("60", &[1.0])]);
        let figures = json!({"experiment": "e", "figures": ["x"], "results": [{"point": {}, "figures": {"x": {"median": 1.0}}, "rounds": []}]});
        let error = Comparison::new([("a", &rates), ("b", &figures)]).unwrap_err();
        assert_eq!(error, "b: this has figures of a command, which are not compared");
    }

    #[test]
    fn few_rounds_say_nothing() {
        let before = report(&[("60", &[1.0, 2.0])]);
        let text = Comparison::new([("a", &before), ("a", &before)]).unwrap().text();
        assert!(text.contains("too few rounds") && text.contains("fewer than four rounds"), "{text}");
    }
}
