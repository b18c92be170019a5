//! The plots of a report.

use crate::reading::{CYCLES, CitedValue, Reading, Row, Varied};
use crate::values::{figure, number, percent};
use chart::{Axis, Chart, Curve, Line, Point};
use measure::rate::short;
use std::collections::BTreeSet;

/// The size of a plot: letters stay readable where a page is as narrow as this.
pub(crate) const SIZE: (u16, u16) = (380, 300);
/// The most curves of one plot; with more of them, there are more plots.
const MOST_CURVES: usize = 6;
/// The most plots over one factor.
const MOST_PLOTS: usize = 12;
/// From this ratio of values on, an axis is logarithmic.
const WIDE: f64 = 30.0;
/// The color of what a paper says: gray.
pub(crate) const PAPER: usize = 3;

/// A plot, with what is said below it.
pub(crate) struct Plot {
    pub(crate) caption: String,
    pub(crate) chart: Chart,
}

/// From a row to its point, if it has one.
type Drawn<'f> = &'f dyn Fn(&Row) -> Option<Point>;
/// What tells curves from each other: factors with several values, and the allowed loss.
type Key = Vec<(String, String)>;

/// The color of a curve: that of the paper is left out.
fn color(number: usize) -> Option<usize> {
    Some(if number < PAPER { number } else { number + 1 })
}

/// What a row is, but for one factor.
fn key(row: &Row, factors: &[&Varied], losses: bool) -> Key {
    let mut key: Key = (factors.iter())
        .filter_map(|factor| Some((factor.name.clone(), row.value(&factor.name)?.to_owned())))
        .collect();
    if let Some(loss) = row.loss_allowed.filter(|_| losses) {
        key.push(("loss up to".to_owned(), percent(loss)));
    }
    key
}

fn words(key: &[(String, String)]) -> String {
    key.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// The values of a factor on an axis.
struct Scale {
    /// As numbers, if all are.
    numbers: Option<Vec<f64>>,
    values: Vec<String>,
}

impl Scale {
    fn new(values: &[String]) -> Self {
        Self { numbers: values.iter().map(|value| number(value)).collect(), values: values.to_vec() }
    }

    fn at(&self, value: &str) -> Option<f64> {
        match self.numbers {
            Some(_) => number(value),
            None => self.values.iter().position(|known| known == value).map(|at| at as f64),
        }
    }

    fn axis(&self, label: &str) -> Axis {
        let Some(numbers) = &self.numbers else { return Axis::words(label, &self.values) };
        let (low, high) = ends(numbers.iter().copied());
        let power = |n: &f64| n.fract() == 0.0 && *n >= 1.0 && *n <= 2e9 && (*n as u64).is_power_of_two();
        if low > 0.0 && high / low >= WIDE {
            if numbers.iter().all(power) {
                Axis::powers(label, low as u32, high as u32)
            } else {
                Axis::decades(label, low, high)
            }
        } else {
            Axis::linear(label, low, high)
        }
    }

    fn line(&self, line: Line) -> Line {
        if self.numbers.is_some() { line } else { Line::None }
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// A unit in which numbers up to this one are short.
fn unit(most: f64) -> (f64, &'static str) {
    match most {
        n if n >= 1e6 => (1e6, "Mpps"),
        n if n >= 1e3 => (1e3, "kpps"),
        _ => (1.0, "pps"),
    }
}

/// The vertical axis for what is drawn; far from each other, values need a logarithmic one.
fn vertical(label: &str, curves: &[Curve]) -> Axis {
    let of = |point: &Point| [point.y, point.spread.map_or(point.y, |s| s.1)];
    let (_, high) = ends(curves.iter().flat_map(|curve| &curve.points).flat_map(of));
    let (low, _) = ends(curves.iter().flat_map(|curve| &curve.points).map(|point| point.y));
    if low > 0.0 && high / low >= WIDE {
        Axis::decades(label, low, high)
    } else {
        Axis::linear(label, 0.0, if high.is_finite() { high } else { 1.0 })
    }
}

/// One curve of a plot, before it is drawn.
struct Series<'a> {
    key: Key,
    rows: Vec<&'a Row>,
}

/// The plots over one factor that have the same other factors.
struct Panel<'a> {
    reading: &'a Reading,
    factor: &'a Varied,
    scale: Scale,
    /// What all curves have in common.
    common: Key,
    series: Vec<Series<'a>>,
}

impl Panel<'_> {
    fn curve(&self, number: usize, name: &str, line: Line, of: Drawn<'_>) -> Curve {
        let series = &self.series[number];
        let own = words(&series.key);
        let name =
            [own.as_str(), name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        let mut points: Vec<Point> = (series.rows.iter())
            .filter_map(|row| {
                let value = row.value(&self.factor.name)?;
                let point = of(row)?;
                let head = [name.as_str(), &format!("{} {value}", self.factor.name)].map(str::to_owned);
                let head = head.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
                Some(Point {
                    x: self.scale.at(value)?,
                    filled: matches!(row.limit.as_deref(), Some("device" | "port")),
                    title: match row.limit.as_deref() {
                        None if !row.figures.is_empty() => format!("{head}: {}", point.title),
                        limit => format!("{head}: {} (limit: {})", point.title, limit.unwrap_or("none")),
                    },
                    ..point
                })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let name = if name.is_empty() { "measured".to_owned() } else { name };
        Curve { name, line: self.scale.line(line), color: color(number), points }
    }

    /// What the paper says, as curves; `of` gives the value of a point.
    fn paper(&self, of: &dyn Fn(&CitedValue) -> Option<f64>, unit: &str) -> Vec<Curve> {
        let Some(paper) = self.reading.paper.as_ref().filter(|paper| paper.x == self.factor.name) else {
            return Vec::new();
        };
        let mut curves: Vec<Curve> = Vec::new();
        for value in &paper.values {
            let (Some(y), Some(x)) = (of(value), self.scale.at(&value.x)) else { continue };
            let name = ["paper", value.of.as_str()].into_iter().filter(|part| !part.is_empty());
            let name = name.collect::<Vec<_>>().join(": ");
            let title = format!("{name}, {} {}: {y:.4} {unit} (section {})", paper.x, value.x, value.section);
            let point = Point { x, y, spread: None, filled: false, title };
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    name,
                    line: self.scale.line(Line::Dashed),
                    color: Some(PAPER),
                    points: vec![point],
                }),
            }
        }
        curves.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
        curves
    }

    /// Two curves for each series: solid and dashed, and the legend names the solid one; where points stand
    /// alone, both have a name and a color.
    fn pairs(&self, of: [Drawn<'_>; 2], names: [&str; 2]) -> Vec<Curve> {
        let pair = |number: usize| {
            let solid = self.curve(number, names[0], Line::Solid, of[0]);
            let dashed = self.curve(number, names[1], Line::Dashed, of[1]);
            if self.scale.numbers.is_none() {
                return [
                    Curve { color: color(2 * number), ..solid },
                    Curve { color: color(2 * number + 1), ..dashed },
                ];
            }
            let own = words(&self.series[number].key);
            let name = if own.is_empty() { "measured".to_owned() } else { own };
            [Curve { name, ..solid }, Curve { name: String::new(), ..dashed }]
        };
        (0..self.series.len()).flat_map(pair).collect()
    }

    fn plot(&self, what: &str, (label, lines): (&str, &str), mut curves: Vec<Curve>) -> Option<Plot> {
        if curves.iter().all(|curve| curve.points.is_empty()) {
            return None;
        }
        let common =
            if self.common.is_empty() { String::new() } else { format!("; {}", words(&self.common)) };
        let caption = format!("{what} by {}{common}", self.factor.name);
        let bars = curves.iter().flat_map(|curve| &curve.points).any(|point| point.spread.is_some());
        let mut note = Vec::new();
        if self.reading.figures.is_empty() {
            note.push("filled: limited by the device or its port");
        }
        if bars {
            note.push("bars: least to most");
        }
        let y = vertical(label, &curves);
        let lines = self.scale.numbers.is_some().then_some(lines);
        let note: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).chain(note).collect();
        if self.scale.numbers.is_none() {
            side_by_side(&mut curves);
        }
        // An axis holds what is measured and what the paper says.
        let wider = curves.iter().flat_map(|curve| &curve.points).map(|point| point.x);
        let mut scale = Scale { numbers: self.scale.numbers.clone(), values: self.scale.values.clone() };
        scale.numbers = scale.numbers.map(|numbers| numbers.into_iter().chain(wider).collect());
        let x = scale.axis(&axis_label(&self.factor.name));
        Some(Plot { chart: Chart { title: caption.clone(), x, y, curves, note: note.join("\n") }, caption })
    }

    /// A figure of a command.
    fn figure(&self, name: &str) -> Option<Plot> {
        let of = |row: &Row| {
            let all = row.figures.get(name)?;
            let y = all.median?;
            let spread = (row.rounds.len() > 1).then_some(all.least.zip(all.most)).flatten();
            let range = spread.map_or_else(String::new, |(a, b)| format!(", {} to {}", figure(a), figure(b)));
            Some(Point { y, spread, title: format!("{}{range}", figure(y)), ..Point::default() })
        };
        let curve = |number: usize| self.curve(number, "", Line::Solid, &of);
        let mut curves: Vec<Curve> = (0..self.series.len()).map(curve).collect();
        let is = |value: &CitedValue| (value.figure.as_deref() == Some(name)).then_some(value.y);
        curves.extend(self.paper(&is, name));
        self.plot(name, (name, ""), curves)
    }

    fn plots(&self) -> Vec<Plot> {
        let most = self.series.iter().flat_map(|series| &series.rows).filter_map(|row| row.pps.most);
        let (scale, unit) = unit(most.fold(0.0, f64::max));
        let rate = |row: &Row| {
            let y = row.pps.median? / scale;
            let spread = (row.rounds.len() > 1)
                .then_some(row.pps.least.zip(row.pps.most))
                .flatten()
                .map(|(least, most)| (least / scale, most / scale));
            let range = spread.map_or_else(String::new, |(a, b)| format!(", {a:.4} to {b:.4}"));
            Some(Point { y, spread, title: format!("{y:.4} {unit}{range}"), ..Point::default() })
        };
        let bits = |of: fn(&Row) -> Option<f64>| {
            move |row: &Row| {
                let y = of(row)?;
                Some(Point { y, title: format!("{y:.4} Gb/s"), ..Point::default() })
            }
        };
        let time = |which: usize| {
            move |row: &Row| {
                let y = row.latency()[which]? / 1e3;
                Some(Point { y, title: format!("{y:.1} us"), ..Point::default() })
            }
        };
        let cycles = |row: &Row| {
            let y = row.cost().cycles_per_packet?;
            Some(Point { y, title: format!("{y:.0} cycles"), ..Point::default() })
        };
        let busiest = |row: &Row| {
            let y = 1.0 + row.cost().imbalance?;
            Some(Point { y, title: format!("{y:.3} times"), ..Point::default() })
        };
        let all = |of: Drawn<'_>| -> Vec<Curve> {
            (0..self.series.len()).map(|number| self.curve(number, "", Line::Solid, of)).collect()
        };
        if !self.reading.figures.is_empty() {
            return self.reading.figures.iter().filter_map(|name| self.figure(name)).collect();
        }
        let mut cycles = all(&cycles);
        let in_cycles = self.reading.paper.as_ref().is_some_and(|paper| paper.unit == CYCLES);
        cycles.extend(self.paper(&|value| in_cycles.then_some(value.y), "cycles"));
        let mut rates: Vec<Curve> = all(&rate);
        rates.extend(self.paper(&|value| Some(value.pps? / scale), unit));
        let mut gigabits = self.pairs([&bits(|row| row.l1_gbps), &bits(|row| row.l2_gbps)], ["L1", "L2"]);
        gigabits.extend(self.paper(&|value| value.l1_gbps, "Gb/s L1"));
        let latency = self.pairs([&time(0), &time(1)], ["50 %", "99 %"]);
        [
            self.plot("Packets a second", (unit, ""), rates),
            self.plot("Gigabits a second", ("Gb/s", "solid: L1; dashed: L2"), gigabits),
            self.plot("Latency at this rate", ("us", "solid: 50 %; dashed: 99 %"), latency),
            self.plot("Cycles for each packet", ("cycles", ""), cycles),
            self.plot("Work of the busiest worker", ("times the mean", ""), all(&busiest)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Moves the points of curves apart that have the same place on an axis of words.
fn side_by_side(curves: &mut [Curve]) {
    let (count, room) = (curves.len() as f64, 0.7);
    for (number, curve) in curves.iter_mut().enumerate() {
        let aside = ((number as f64 + 0.5) / count - 0.5) * room;
        curve.points.iter_mut().for_each(|point| point.x += aside);
    }
}

fn axis_label(factor: &str) -> String {
    match factor {
        "size" => "size, bytes without frame check sequence".to_owned(),
        "rate" => "rate, packets a second for each port".to_owned(),
        other => other.to_owned(),
    }
}

/// Splits curves over plots, so that no plot has too many: each plot has one value of the last factors.
fn panels<'a>(reading: &'a Reading, factor: &'a Varied) -> Vec<Panel<'a>> {
    let several = |other: &&Varied| other.name != factor.name && other.values.len() > 1;
    let others: Vec<&Varied> = reading.factors.iter().filter(several).collect();
    let losses = reading.results.iter().filter_map(|row| row.loss_allowed.map(f64::to_bits));
    let losses = losses.collect::<BTreeSet<u64>>().len();
    let mut own = others.len();
    let curves = |own: usize| others[..own].iter().map(|other| other.values.len()).product::<usize>();
    while own > 0 && curves(own) * losses.max(1) > MOST_CURVES {
        own -= 1;
    }
    let mut panels: Vec<Panel<'a>> = Vec::new();
    for row in &reading.results {
        let common = key(row, &others[own..], false);
        let own = key(row, &others[..own], losses > 1);
        let at = panels.iter().position(|panel| panel.common == common).unwrap_or_else(|| {
            let scale = Scale::new(&factor.values);
            panels.push(Panel { reading, factor, scale, common, series: Vec::new() });
            panels.len() - 1
        });
        let series = &mut panels[at].series;
        match series.iter_mut().find(|series| series.key == own) {
            Some(series) => series.rows.push(row),
            None => series.push(Series { key: own, rows: vec![row] }),
        }
    }
    panels
}

/// Latency over the part of the rate, for up to so many points.
fn latency_by_load(reading: &Reading) -> Option<Plot> {
    let rows: Vec<&Row> = reading.results.iter().filter(|row| row.latency_ns.len() > 1).collect();
    if rows.is_empty() || rows.len() > MOST_CURVES / 2 {
        return None;
    }
    let names: Vec<&Varied> = reading.factors.iter().filter(|factor| factor.values.len() > 1).collect();
    let mut curves = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let point = words(&key(row, &names, false));
        for (name, which, line) in [("50 %", 0, Line::Solid), ("99 %", 1, Line::Dashed)] {
            let name = [point.as_str(), name].into_iter().filter(|part| !part.is_empty());
            let name = name.collect::<Vec<_>>().join(", ");
            let mut points: Vec<Point> = (row.latency_ns.iter())
                .filter_map(|at| {
                    let (x, y) = (at.share * 100.0, [at.p50, at.p99][which]? / 1e3);
                    let title = format!("{name} at {x:.0} % of the rate: {y:.1} us");
                    Some(Point { x, y, spread: None, filled: true, title })
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            curves.push(Curve { name, line, color: color(number), points });
        }
    }
    let caption = "Latency by load".to_owned();
    let x = Axis::linear("load, per cent of the rate that was found", 0.0, 100.0);
    let y = vertical("us", &curves);
    Some(Plot { chart: Chart { title: caption.clone(), x, y, curves, note: String::new() }, caption })
}

/// All plots of a report; and whether there would be more of them.
pub(crate) fn plots(reading: &Reading) -> (Vec<Plot>, bool) {
    let (mut all, mut more) = (Vec::new(), false);
    for factor in reading.factors.iter().filter(|factor| factor.values.len() > 1) {
        let mut of_factor: Vec<Plot> = panels(reading, factor).iter().flat_map(Panel::plots).collect();
        more |= of_factor.len() > MOST_PLOTS;
        of_factor.truncate(MOST_PLOTS);
        all.extend(of_factor);
    }
    all.extend(latency_by_load(reading));
    (all, more)
}

/// A rate as a text, or a dash.
pub(crate) fn rate(pps: Option<f64>) -> String {
    pps.map_or_else(|| "-".to_owned(), |pps| short(pps).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::CostOf;
    use serde_json::{Value, json};

    /// A report over these factors; the rate is the number of the row.
    fn reading(factors: &[(&str, &[&str])], losses: &[f64]) -> Reading {
        let mut points = vec![serde_json::Map::new()];
        for (name, values) in factors {
            let with = |point: &serde_json::Map<String, Value>| {
                let add = |value: &&str| {
                    let mut point = point.clone();
                    point.insert((*name).to_owned(), json!(value));
                    point
                };
                values.iter().map(add).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(with).collect();
        }
        let rows: Vec<Value> = (points.iter())
            .flat_map(|point| losses.iter().map(move |loss| (point, loss)))
            .enumerate()
            .map(|(n, (point, loss))| {
                let pps = 1e6 + n as f64;
                json!({"point": point, "loss_allowed": loss, "pps": {"median": pps, "least": pps, "most": pps}, "rounds": [{"pps": pps}]})
            })
            .collect();
        let factors: Vec<Value> =
            factors.iter().map(|(name, values)| json!({"name": name, "values": values})).collect();
        Reading::new(&json!({"experiment": "e", "version": "1", "factors": factors, "results": rows}))
            .unwrap()
    }

    fn names(plot: &Plot) -> Vec<&str> {
        plot.chart.curves.iter().map(|curve| curve.name.as_str()).collect()
    }

    #[test]
    fn a_plot_has_a_few_curves_and_more_plots_have_the_rest() {
        let few = reading(&[("size", &["60", "1514"]), ("flows", &["1", "10"])], &[0.0, 0.01]);
        let (of_few, more) = plots(&few);
        assert_eq!((of_few.len(), more), (2, false), "one for each factor");
        assert_eq!(of_few[0].caption, "Packets a second by size");
        assert_eq!(names(&of_few[0])[..2], ["flows 1, loss up to 0 %", "flows 1, loss up to 1 %"]);
        // Three times four curves: a plot for each value of the last factor.
        let many = reading(
            &[("size", &["60", "1514"]), ("flows", &["1", "10", "99"]), ("$A", &["a", "b", "c", "d"])],
            &[0.0],
        );
        let (of_many, _) = plots(&many);
        let by_size: Vec<&Plot> = of_many.iter().filter(|plot| plot.caption.contains("by size")).collect();
        assert_eq!(by_size.len(), 4);
        assert_eq!(by_size[2].caption, "Packets a second by size; $A c");
        assert_eq!(names(by_size[2]), ["flows 1", "flows 10", "flows 99"]);
        // What has one value has no plot and no name.
        let one = reading(&[("size", &["60"]), ("flows", &["1", "10"])], &[0.0]);
        let (of_one, _) = plots(&one);
        assert_eq!((of_one.len(), names(&of_one[0])), (1, vec!["measured"]));
    }

    #[test]
    fn what_a_packet_costs_is_drawn_where_it_is_known() {
        let mut reading = reading(&[("rate", &["1", "2"])], &[0.0]);
        let captions =
            |reading: &Reading| plots(reading).0.into_iter().map(|plot| plot.caption).collect::<Vec<_>>();
        assert_eq!(captions(&reading), ["Packets a second by rate"]);
        for (row, cycles) in reading.results.iter_mut().zip([500.0, 100.0]) {
            row.cost =
                Some(CostOf { cycles_per_packet: Some(cycles), imbalance: Some(0.5), ..CostOf::default() });
        }
        let drawn = plots(&reading).0;
        let values =
            |plot: &Plot| plot.chart.curves[0].points.iter().map(|point| point.y).collect::<Vec<_>>();
        assert_eq!(drawn[1].caption, "Cycles for each packet by rate");
        assert_eq!((values(&drawn[1]), values(&drawn[2])), (vec![500.0, 100.0], vec![1.5, 1.5]));
    }

    #[test]
    fn words_stand_side_by_side() {
        let reading = reading(&[("program", &["a", "b", "c"]), ("size", &["60", "1514"])], &[0.0]);
        let plot = plots(&reading).0.remove(0);
        let places: Vec<Vec<f64>> = plot
            .chart
            .curves
            .iter()
            .map(|curve| curve.points.iter().map(|point| point.x).collect())
            .collect();
        assert_eq!(places, [[-0.175, 0.825, 1.825], [0.175, 1.175, 2.175]]);
        assert!(plot.chart.curves.iter().all(|curve| curve.line == Line::None));
    }
}
