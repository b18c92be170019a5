//! Curves as SVG: for the commands that plot, and, with `valiant chart`, for the scripts.

use launch::logging::error;
use launch::output::print;
use serde::Deserialize;
use std::fmt::Write as _;
use std::io::Read as _;
use std::process::ExitCode;

const COLORS: [&str; 6] = ["#0072b2", "#009e73", "#d55e00", "#555555", "#cc79a7", "#e69f00"];
const LEFT: f64 = 70.0;
const TOP: f64 = 20.0;
const WIDE: f64 = 540.0;
const HIGH: f64 = 360.0;
/// Axes reach this far, and distinguish values that differ by its inverse.
const FARTHEST: f64 = 1e100;

/// A value that an axis can reach.
fn bounded(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(-FARTHEST, FARTHEST) }
}

/// An axis from `low` to `high`, with marks.
pub(crate) struct Axis {
    label: String,
    low: f64,
    high: f64,
    log: bool,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis from 0, or from `low` if that is below, with marks at round numbers.
    pub(crate) fn linear(label: &str, low: f64, high: f64) -> Self {
        let (low, high) = (bounded(low).min(0.0), bounded(high));
        let high = if high - low > 1.0 / FARTHEST { high } else { low + (low.abs() / 1e9).max(1.0) };
        let rough = (high - low) / 6.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let high = (high / step).ceil() * step;
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let count = ((high - low) / step).round() as usize;
        let marks = (0..=count).map(|i| low + i as f64 * step).map(|at| (at, format!("{at:.digits$}")));
        let marks = marks.collect();
        Self { label: label.to_owned(), low, high, log: false, marks }
    }
    /// A logarithmic axis over whole decades.
    pub(crate) fn decades(label: &str, low: f64, high: f64) -> Self {
        let low = bounded(low).max(1e-12).log10().floor() as i32;
        let high = (bounded(high).max(1e-12).log10().ceil() as i32).max(low + 1);
        let marks = (low..=high).map(|d| 10_f64.powi(d)).map(|at| (at, format!("{at}"))).collect();
        let of = |decade| 10_f64.powi(decade);
        Self { label: label.to_owned(), low: of(low), high: of(high), log: true, marks }
    }
    /// A logarithmic axis over powers of two.
    pub(crate) fn powers(label: &str, low: u32, high: u32) -> Self {
        let (low, high) = (low.max(1).ilog2(), high.max(2).next_power_of_two().ilog2());
        let high = high.max(low + 1);
        let marks = (low..=high).map(|p| 1_u64 << p).map(|at| (at as f64, at.to_string())).collect();
        let of = |power| f64::from(1_u32 << power);
        Self { label: label.to_owned(), low: of(low), high: of(high), log: true, marks }
    }
    /// The position of a value on the axis, from 0 to 1; values beyond an end are placed at that end.
    fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let part = if self.log {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if part.is_finite() { part } else { 0.0 }
    }
}

/// A point, with the text that is shown when the mouse is over it.
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) filled: bool,
    pub(crate) title: String,
}

/// A curve. Without titles its points have no marks.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) dashed: bool,
    pub(crate) points: Vec<Point>,
}

impl Curve {
    /// A line without marks.
    pub(crate) fn line(name: &str, dashed: bool, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points =
            points.into_iter().map(|(x, y)| Point { x, y, filled: false, title: String::new() }).collect();
        Self { name: name.to_owned(), dashed, points }
    }
}

/// A drawing.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
    /// The explanation of the marks.
    pub(crate) note: String,
}

fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Chart {
    /// The position and size of the legend: it is placed where it covers the fewest points.
    fn legend(&self) -> ((f64, f64), (f64, f64)) {
        // Letters of this size are about 6.5 wide.
        let names = self.curves.iter().map(|c| c.name.chars().count() + 5);
        let letters = names.chain([self.note.chars().count()]).max().unwrap_or(0) as f64;
        let rows = self.curves.len() + usize::from(!self.note.is_empty());
        let (wide, high) = (letters * 6.5 + 12.0, (18 * rows + 6) as f64);
        let place = |p: &Point| (LEFT + self.x.at(p.x) * WIDE, TOP + HIGH - self.y.at(p.y) * HIGH);
        // Points and the lines between them.
        let between = |pair: &[Point]| {
            let ((x0, y0), (x1, y1)) = (place(&pair[0]), place(&pair[1]));
            (0..=16).map(f64::from).map(move |i| (x0 + (x1 - x0) * i / 16.0, y0 + (y1 - y0) * i / 16.0))
        };
        let pairs = self.curves.iter().flat_map(|c| c.points.windows(2));
        let places: Vec<(f64, f64)> = pairs.flat_map(between).collect();
        let covered = |(left, top): (f64, f64)| {
            let inside = |(x, y): &&(f64, f64)| {
                (left - 9.0..left + wide + 9.0).contains(x) && (top - 9.0..top + high + 9.0).contains(y)
            };
            places.iter().filter(inside).count()
        };
        let top = TOP + 4.0;
        let rooms = ((HIGH - high - 8.0) / 12.0).max(0.0) as usize;
        let heights = (0..=rooms).map(|i| top + 12.0 * i as f64);
        let corners = heights.flat_map(|y| [(LEFT + 8.0, y), (LEFT + WIDE - wide - 8.0, y)]);
        let best = corners.min_by_key(|corner| covered(*corner));
        (best.unwrap_or((LEFT + 8.0, top)), (wide, high))
    }
    pub(crate) fn svg(&self) -> String {
        let x = |value: f64| LEFT + self.x.at(value) * WIDE;
        let y = |value: f64| TOP + HIGH - self.y.at(value) * HIGH;
        let mut t = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 450\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{}</title>\n<rect width=\"640\" height=\"450\" fill=\"white\"/>\n",
            plain(&self.title)
        );
        for (value, mark) in &self.x.marks {
            let (at, base) = (x(*value), TOP + HIGH);
            let _ = writeln!(t, "<path d=\"M{at:.1} {TOP}V{base}\" stroke=\"#ddd\"/>");
            let _ =
                writeln!(t, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{mark}</text>", base + 18.0);
        }
        for (value, mark) in &self.y.marks {
            let at = y(*value);
            let _ = writeln!(t, "<path d=\"M{LEFT} {at:.1}H{}\" stroke=\"#ddd\"/>", LEFT + WIDE);
            let _ = writeln!(
                t,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{mark}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        let _ = writeln!(
            t,
            "<text x=\"{}\" y=\"425\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            LEFT + WIDE / 2.0,
            plain(&self.x.label),
            TOP + HIGH / 2.0,
            plain(&self.y.label)
        );
        let ((left, top), (wide, high)) = self.legend();
        let mut legend = format!(
            "<rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"{wide:.0}\" height=\"{high:.0}\" fill=\"white\" fill-opacity=\"0.8\"/>\n"
        );
        for (index, curve) in self.curves.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let dash = if curve.dashed { "6 4" } else { "none" };
            let points: Vec<String> =
                curve.points.iter().map(|p| format!("{:.1},{:.1}", x(p.x), y(p.y))).collect();
            let _ = writeln!(
                t,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
                points.join(" ")
            );
            for point in curve.points.iter().filter(|p| !p.title.is_empty()) {
                let fill = if point.filled { color } else { "white" };
                let (cx, cy) = (x(point.x), y(point.y));
                let _ = writeln!(
                    t,
                    "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{color}\"><title>{}</title></circle>",
                    plain(&point.title)
                );
            }
            let row = top + 12.0 + 18.0 * index as f64;
            let _ = writeln!(
                legend,
                "<path d=\"M{:.0} {row:.0}h26\" stroke=\"{color}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>\n\
                 <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                left + 6.0,
                left + 38.0,
                row + 4.0,
                plain(&curve.name)
            );
        }
        if !self.note.is_empty() {
            let row = top + 16.0 + 18.0 * self.curves.len() as f64;
            let _ =
                writeln!(legend, "<text x=\"{:.0}\" y=\"{row:.0}\">{}</text>", left + 6.0, plain(&self.note));
        }
        t += &legend;
        t += "</svg>\n";
        t
    }
}

/// A drawing as scripts describe it, in JSON. Axes reach as far as the points do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawing {
    title: String,
    x: Scale,
    y: Scale,
    curves: Vec<Line>,
    #[serde(default)]
    note: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Linear,
    Log,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    label: String,
    scale: Kind,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    #[serde(default)]
    dashed: bool,
    points: Vec<Place>,
}

/// A point; one without a title has no mark.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    x: f64,
    y: f64,
    #[serde(default)]
    filled: bool,
    #[serde(default)]
    title: String,
}

impl TryFrom<Drawing> for Chart {
    type Error = String;

    /// # Errors
    /// There is nothing to draw, or a value beyond what axes reach.
    fn try_from(drawing: Drawing) -> Result<Self, String> {
        if drawing.curves.iter().all(|curve| curve.points.is_empty()) {
            return Err("there is nothing to draw: no curve has a point".to_owned());
        }
        for curve in &drawing.curves {
            let far =
                |place: &&Place| [place.x, place.y].iter().any(|v| bounded(*v).to_bits() != v.to_bits());
            if let Some(Place { x, y, .. }) = curve.points.iter().find(far) {
                let name = &curve.name;
                return Err(format!(
                    "curve '{name}': the point {x:e}, {y:e} cannot be drawn, values reach from -{FARTHEST:e} to {FARTHEST:e}"
                ));
            }
        }
        let ends = |of: fn(&Place) -> f64| {
            let values = drawing.curves.iter().flat_map(|curve| &curve.points).map(of);
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
        };
        let axis = |scale: &Scale, (low, high): (f64, f64)| match scale.scale {
            Kind::Linear => Axis::linear(&scale.label, low, high),
            Kind::Log => Axis::decades(&scale.label, low, high),
        };
        let (x, y) = (axis(&drawing.x, ends(|p| p.x)), axis(&drawing.y, ends(|p| p.y)));
        let point = |p: Place| Point { x: p.x, y: p.y, filled: p.filled, title: p.title };
        let curve = |c: Line| Curve {
            name: c.name,
            dashed: c.dashed,
            points: c.points.into_iter().map(point).collect(),
        };
        let curves = drawing.curves.into_iter().map(curve).collect();
        Ok(Self { title: drawing.title, x, y, curves, note: drawing.note })
    }
}

/// What is wrong with a description, in the words of JSON and not of this program's types.
fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (what, _) = text.rsplit_once(" at line ").unwrap_or((&text, ""));
    let mut what = what.to_owned();
    for (its, ours) in [
        ("unknown variant", "unknown value"),
        ("unknown field", "unknown name"),
        ("missing field", "missing name"),
        ("struct Drawing", "an object"),
        ("struct Scale", "an object"),
        ("struct Line", "an object"),
        ("struct Place", "an object"),
        ("enum Kind", "`linear` or `log`"),
        ("string or map", "string"),
        ("f64", "a number"),
        ("EOF while parsing", "the end inside"),
    ] {
        what = what.replace(its, ours);
    }
    let kind = if error.is_data() { "" } else { "no JSON: " };
    format!("line {}, column {}: {kind}{what}", error.line(), error.column())
}

/// `valiant chart`: draws the curves that standard input describes.
pub(crate) fn draw() -> ExitCode {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text).map_err(|e| launch::reason(&e));
    let drawing = read.and_then(|_| serde_json::from_str::<Drawing>(&text).map_err(|e| in_words(&e)));
    match drawing.and_then(Chart::try_from) {
        Ok(chart) => {
            print(&chart.svg());
            ExitCode::SUCCESS
        }
        Err(message) => {
            error(&format!("valiant chart: {message}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_marks_and_hold_their_values() {
        let marks = |axis: Axis| axis.marks.into_iter().map(|m| m.1).collect::<Vec<_>>().join(" ");
        assert_eq!(marks(Axis::linear("", 0.0, 1.1)), "0.0 0.2 0.4 0.6 0.8 1.0 1.2");
        assert_eq!(marks(Axis::linear("", 0.0, 240.0)), "0 50 100 150 200 250");
        assert_eq!(marks(Axis::decades("", 0.02, 30.0)), "0.01 0.1 1 10 100");
        assert_eq!(marks(Axis::powers("", 4, 2048)), "4 8 16 32 64 128 256 512 1024 2048");
        for axis in [
            Axis::linear("", 0.0, 0.0),
            Axis::decades("", 0.0, 0.0),
            Axis::powers("", 0, 0),
            Axis::decades("", f64::INFINITY, f64::NEG_INFINITY),
            Axis::linear("", f64::NAN, f64::INFINITY),
        ] {
            for value in [0.0, 1e-30, 7.0, f64::INFINITY, -5.0] {
                assert!((0.0..=1.0).contains(&axis.at(value)), "{value}");
            }
        }
    }

    #[test]
    fn scripts_describe_what_is_drawn() {
        let drawing = r#"{"title": "t", "x": {"label": "ms", "scale": "log"},
            "y": {"label": "%", "scale": "linear"}, "curves": [
            {"name": "c", "points": [{"x": 1, "y": 0, "title": "none"}, {"x": 100, "y": 6, "filled": true, "title": "most"}]},
            {"name": "level", "dashed": true, "points": [{"x": 1, "y": 3}, {"x": 100, "y": 3}]}]}"#;
        let svg = Chart::try_from(serde_json::from_str::<Drawing>(drawing).unwrap()).unwrap().svg();
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polyline").count()), (2, 2), "{svg}");
        assert!(
            svg.contains("points=\"70.0,380.0 610.0,20.0\"") && svg.contains("<title>most</title>"),
            "{svg}"
        );
        assert!(serde_json::from_str::<Drawing>(&drawing.replace("dashed", "dotted")).is_err());
    }

    #[test]
    fn errors_are_about_the_description() {
        let axis = |scale: &str| format!("{{\"label\": \"x\", \"scale\": {scale}}}");
        let drawing = |scale: &str, points: &str| {
            let axis = axis(scale);
            format!(
                "{{\"title\": \"t\",\n\"x\": {axis}, \"y\": {axis},\n\"curves\": [{{\"name\": \"c\", \"points\": {points}}}]}}"
            )
        };
        let error = |text: &str| in_words(&serde_json::from_str::<Drawing>(text).err().unwrap());
        let right = "\"log\"";
        assert!(serde_json::from_str::<Drawing>(&drawing(right, "[]")).is_ok());
        for (text, line, wrong) in [
            (drawing("\"decades\"", "[]"), 2, "unknown value `decades`, expected `linear` or `log`"),
            (drawing(right, "[{\"x\": 1}]"), 3, "missing name `y`"),
            (drawing(right, "[{\"x\": \"1\"}]"), 3, "invalid type: string \"1\", expected a number"),
            ("{".to_owned(), 1, "no JSON: the end inside an object"),
        ] {
            let error = error(&text);
            assert!(
                error.starts_with(&format!("line {line}, column ")) && error.ends_with(&format!(": {wrong}")),
                "{error}"
            );
        }
        for wrong in [
            "7",
            "[]",
            "\"a\"",
            "{\"x\": 3}",
            "{\"x\": {\"scale\": 3}}",
            "{\"curves\": [3]}",
            "{\"curves\": 3}",
            "nonsense",
        ] {
            let error = error(wrong);
            let words =
                ["struct", "enum", "variant", "f64", "Drawing", "Scale", "Kind", "Line", "Place", "field"];
            assert!(!words.iter().any(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_an_error() {
        for scale in ["linear", "log"] {
            let chart = |points: &[(f64, f64)]| {
                let drawing = serde_json::json!({"title": "t", "curves": [],
                    "x": {"label": "", "scale": scale}, "y": {"label": "", "scale": scale}});
                let mut drawing: Drawing = serde_json::from_value(drawing).unwrap();
                let points = points.iter().map(|&(x, y)| Place { x, y, filled: false, title: String::new() });
                drawing.curves.push(Line { name: "c".into(), dashed: false, points: points.collect() });
                Chart::try_from(drawing).map(|chart| chart.svg())
            };
            let error = |points: &[(f64, f64)]| chart(points).unwrap_err();
            assert!(error(&[]).contains("no curve has a point"));
            for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
                assert!(error(&[(1.0, 1.0), (wrong, 1.0)]).starts_with("curve 'c': the point "), "{wrong}");
                assert!(error(&[(1.0, wrong)]).contains("cannot be drawn"), "{wrong}");
            }
            for right in [0.0, -0.0, 5e-324, -1e100, 1e100, 1.0] {
                let svg = chart(&[(right, right)]).unwrap();
                assert!(svg.len() < 50_000 && !svg.contains("NaN") && !svg.contains("inf"), "{right}: {svg}");
                assert!(chart(&[(right, -right), (0.0, 0.0)]).is_ok(), "{right}");
            }
        }
    }

    #[test]
    fn text_is_escaped_and_lines_have_no_marks() {
        let chart = Chart {
            title: "a < b".into(),
            x: Axis::linear("x & y", 0.0, 1.0),
            y: Axis::linear("y", 0.0, 1.0),
            curves: vec![Curve::line("<c>", true, [(0.0, 0.0), (1.0, 2.0)])],
            note: String::new(),
        };
        let svg = chart.svg();
        assert!(svg.contains("a &lt; b") && svg.contains("x &amp; y") && svg.contains("&lt;c&gt;"));
        assert!(svg.contains("points=\"70.0,380.0 610.0,20.0\"") && !svg.contains("<circle"), "{svg}");
    }
}
