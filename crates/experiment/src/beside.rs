//! Results beside those of a paper.

use crate::plots::{PAPER, Plot};
use crate::reading::{Cited, CitedValue, Reading};
use crate::values::figure;
use chart::{Axis, Chart, Curve, Line, Point};

/// What is measured where the paper has a value: a number, or from which to which.
pub(crate) fn measured(value: &CitedValue, paper: &Cited, reading: &Reading) -> String {
    let text = if value.figure.is_some() { figure } else { paper.what().1 };
    let numbers = value.rows(&paper.x, reading).filter_map(|row| paper.ours(row, value));
    let (low, high) = numbers.fold((f64::INFINITY, 0.0), |(low, high), n| (n.min(low), n.max(high)));
    match (text(low), text(high)) {
        _ if low > high => "-".to_owned(),
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    }
}

/// The shape of the paper's values and of ours: each relative to its first. None: there are not two values to
/// compare.
pub(crate) fn beside_paper(reading: &Reading) -> Option<Plot> {
    let paper = reading.paper.as_ref()?;
    let one = paper.values.first()?.figure.as_deref();
    // Figures of different kinds have no common scale.
    if paper.values.iter().any(|value| value.figure.as_deref() != one) {
        return None;
    }
    let what = one.unwrap_or(paper.what().0);
    let both = |value: &CitedValue| {
        let mut rows = value.rows(&paper.x, reading);
        let (only, none) = (rows.next()?, rows.next().is_none());
        let of = if value.of.is_empty() { String::new() } else { format!(", {}", value.of) };
        Some((format!("{}{of}", value.x), [paper.theirs(value)?, paper.ours(only, value).filter(|_| none)?]))
    };
    let values: Vec<(String, [f64; 2])> = paper.values.iter().filter_map(both).collect();
    let first = values.first().filter(|_| values.len() > 1)?.1;
    let curve = |which: usize, name: &str, color: usize, aside: f64| {
        let point = |(at, (word, both)): (usize, &(String, [f64; 2]))| {
            let y = both[which] / first[which];
            let title = format!("{name}, {} {word}: {y:.2} times", paper.x);
            Point { x: at as f64 + aside, y, spread: None, filled: true, title }
        };
        let points = values.iter().enumerate().map(point).collect();
        Curve { name: name.to_owned(), line: Line::None, color: Some(color), points }
    };
    let curves = vec![curve(0, "the paper", PAPER, -0.1), curve(1, "measured", 0, 0.1)];
    let most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.y).fold(1.0, f64::max);
    let words: Vec<String> = values.into_iter().map(|(word, _)| word).collect();
    let caption = format!("Beside the paper: {what}, relative to the first value");
    let (x, y) = (Axis::words(&paper.x, &words), Axis::linear("times the first", 0.0, most));
    Some(Plot { chart: Chart { title: caption.clone(), x, y, curves, note: String::new() }, caption })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{CYCLES, CostOf};
    use serde_json::json;

    fn reading(values: serde_json::Value) -> Reading {
        let row = |n: &str, k: &str, pps: f64| json!({"point": {"n": n, "k": k}, "pps": {"median": pps, "least": pps, "most": pps}});
        let rows = [row("1", "1", 100.0), row("1", "2", 150.0), row("8", "1", 300.0), row("8", "2", 900.0)];
        Reading::new(
            &json!({"experiment": "e", "version": "1", "results": rows, "paper": {"title": "P", "figure": "F",
            "source": "", "unit": "pps", "x": "n", "values": values}}),
        )
        .unwrap()
    }

    fn value(x: &str, k: &str, pps: f64) -> serde_json::Value {
        json!({"x": x, "y": pps, "of": format!("k {k}"), "at": {"k": k}, "section": "1", "pps": pps, "l1_gbps": null})
    }

    #[test]
    fn shapes_are_compared_point_by_point() {
        let reading = reading(json!([value("1", "1", 1e6), value("8", "2", 7e6)]));
        let plot = beside_paper(&reading).unwrap();
        let ratios: Vec<Vec<f64>> = plot
            .chart
            .curves
            .iter()
            .map(|curve| curve.points.iter().map(|point| point.y).collect())
            .collect();
        assert_eq!(ratios, [[1.0, 7.0], [1.0, 9.0]]);
        let paper = reading.paper.as_ref().unwrap();
        assert_eq!(measured(&paper.values[1], paper, &reading), "900");
    }

    #[test]
    fn what_a_packet_costs_is_compared_too() {
        let mut reading = reading(json!([value("1", "1", 1e6), value("8", "2", 7e6)]));
        let paper = reading.paper.as_mut().unwrap();
        paper.unit = CYCLES.to_owned();
        (paper.values[0].y, paper.values[1].y) = (1229.0, 7822.0);
        for (row, cycles) in reading.results.iter_mut().zip([50.0, 60.0, 70.0, 80.0]) {
            row.cost = Some(CostOf { cycles_per_packet: Some(cycles), ..CostOf::default() });
        }
        let paper = reading.paper.as_ref().unwrap();
        assert_eq!(measured(&paper.values[1], paper, &reading), "80");
        let plot = beside_paper(&reading).unwrap();
        let last: Vec<f64> = plot.chart.curves.iter().map(|curve| curve.points[1].y).collect();
        assert_eq!(last, [7822.0 / 1229.0, 80.0 / 50.0]);
        assert!(plot.caption.contains("what a packet costs"), "{}", plot.caption);
    }

    #[test]
    fn what_cannot_be_compared_is_left_out() {
        let mut open = value("1", "1", 1e6);
        open["at"] = json!({});
        let reading = reading(json!([open, value("8", "1", 2e6), value("9", "1", 3e6)]));
        assert!(beside_paper(&reading).is_none(), "only one value has a result of its own");
        let paper = reading.paper.as_ref().unwrap();
        assert_eq!(measured(&paper.values[0], paper, &reading), "100 to 150");
        assert_eq!(measured(&paper.values[2], paper, &reading), "-");
    }
}
