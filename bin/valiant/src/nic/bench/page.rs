//! The first page of the report: the answers, advice, and the time series of batches.

use super::asked::Asked;
use chart::{Axis, Chart, Curve, Line};
use experiment::{Part, front};
use nicbench::studies::Study;
use nicbench::verdict::Verdict;
use serde_json::Value;
use std::path::Path;

const TITLE: &str = "Packet classifiers: eight questions";

/// The time series of a batch that the directory of a target has.
fn series(dir: &Path, changes: &str, place: &str) -> Option<Curve> {
    let text = std::fs::read_to_string(dir.join(format!("series-{changes}-{place}.json"))).ok()?;
    let figures: Value = serde_json::from_str(&text).ok()?;
    let bucket = figures.get("bucket_s")?.as_f64()?;
    let rates = figures.get("series")?.as_array()?.iter().filter_map(Value::as_f64);
    let points: Vec<(f64, f64)> =
        rates.enumerate().map(|(at, pps)| ((at as f64 + 0.5) * bucket, pps / 1e6)).collect();
    Some(Curve::line(&format!("{changes} rules"), Line::Solid, points))
}

/// A chart for each core from which rules come.
fn charts(asked: &Asked) -> Vec<(String, Chart)> {
    let Some(report) = asked.reports.get(&Study::Batch) else { return Vec::new() };
    let values = |row: &Value| Some(row.get("point")?.get("$CHANGES")?.as_str()?.to_owned());
    let mut changes: Vec<String> =
        report["results"].as_array().into_iter().flatten().filter_map(values).collect();
    changes.sort_by_key(|text| text.parse::<u64>().unwrap_or(0));
    changes.dedup();
    let one = |place: &str| {
        let curves: Vec<Curve> =
            changes.iter().filter_map(|changes| series(&asked.dir, changes, place)).collect();
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let most = |of: fn(&chart::Point) -> f64| points().map(of).fold(0.0, f64::max);
        let (x, y) = (Axis::linear("seconds", 0.0, most(|p| p.x)), Axis::linear("Mpps", 0.0, most(|p| p.y)));
        let core = if place == "same" { "the forwarder's core" } else { "another core" };
        let caption = format!("{}: rules that come at once, from {core}", asked.target.name());
        let note = "each point is 100 ms of the last round".to_owned();
        (!curves.is_empty()).then(|| (caption.clone(), Chart { title: caption, x, y, curves, note }))
    };
    ["same", "other"].into_iter().filter_map(one).collect()
}

/// The page.
pub(super) fn page(all: &[Asked], pages: &[(String, &Value)]) -> Result<String, String> {
    let mut parts = vec![(
        String::new(),
        Part::Words(vec![
            "The questions are the findings of Table 1 of Katsikas, Barbette, Chiesa, Kostic and Maguire, \"What You Need to Know About (Smart) Network Interface Cards\" (PAM 2021). Figures of another machine are others: compare shapes.".to_owned(),
        ]),
    )];
    for asked in all {
        let name = asked.target.name();
        let verdicts = asked.answers.iter().map(|answer| {
            let q = &answer.question;
            let passed = match answer.verdict {
                Verdict::Pass => Some(true),
                Verdict::Fail => Some(false),
                Verdict::Cannot | Verdict::Open => None,
            };
            let lines =
                vec![answer.text.clone(), format!("passed if {}", q.mark), format!("the paper: {}", q.paper)];
            (passed, answer.verdict.word().to_owned(), format!("{}. {}", q.number, q.text), lines)
        });
        parts.push((format!("{name}: answers"), Part::Verdicts(verdicts.collect())));
        if !asked.advice.is_empty() {
            parts.push((format!("{name}: advice"), Part::Words(asked.advice.clone())));
        }
        let charts = charts(asked);
        if !charts.is_empty() {
            parts.push((format!("{name}: batches"), Part::Charts(charts)));
        }
        let about = Asked::about(&asked.target).into_iter();
        let rows = about.map(|(key, value)| vec![key, value.as_str().unwrap_or("not known").to_owned()]);
        let head = vec!["what".to_owned(), "which".to_owned()];
        parts.push((format!("{name}: versions"), Part::Table(head, rows.collect(), 2)));
    }
    front(TITLE, &parts, pages)
}
