//! `valiant chart`: curves as SVG, for the scripts.

use ::chart::{Axis, Chart, Curve, FARTHEST, Line as Form, Point, bounded};
use launch::logging::error;
use launch::output::print;
use serde::Deserialize;
use std::io::Read as _;
use std::process::ExitCode;

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

/// A point; one without a title has no mark. Values from `least` to `most` are a bar.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    x: f64,
    y: f64,
    least: Option<f64>,
    most: Option<f64>,
    #[serde(default)]
    filled: bool,
    #[serde(default)]
    title: String,
}

impl Place {
    fn spread(&self) -> Option<(f64, f64)> {
        let (least, most) = (self.least.or(self.most)?, self.most.or(self.least)?);
        Some((least.min(self.y), most.max(self.y)))
    }
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
            let far = |place: &&Place| {
                let (low, high) = place.spread().unwrap_or((place.y, place.y));
                [place.x, place.y, low, high].iter().any(|v| bounded(*v).to_bits() != v.to_bits())
            };
            if let Some(Place { x, y, .. }) = curve.points.iter().find(far) {
                let name = &curve.name;
                return Err(format!(
                    "curve '{name}': the point {x:e}, {y:e} cannot be drawn, values reach from -{FARTHEST:e} to {FARTHEST:e}"
                ));
            }
        }
        let ends = |of: fn(&Place) -> [f64; 2]| {
            let values = drawing.curves.iter().flat_map(|curve| &curve.points).flat_map(of);
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
        };
        let axis = |scale: &Scale, (low, high): (f64, f64)| match scale.scale {
            Kind::Linear => Axis::linear(&scale.label, low, high),
            Kind::Log => Axis::decades(&scale.label, low, high),
        };
        let x = axis(&drawing.x, ends(|place| [place.x; 2]));
        let y =
            axis(&drawing.y, ends(|place| place.spread().map_or([place.y; 2], |(low, high)| [low, high])));
        let point = |place: Place| Point {
            spread: place.spread(),
            x: place.x,
            y: place.y,
            filled: place.filled,
            title: place.title,
        };
        let curve = |line: Line| Curve {
            name: line.name,
            line: if line.dashed { Form::Dashed } else { Form::Solid },
            color: None,
            points: line.points.into_iter().map(point).collect(),
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
    fn scripts_describe_what_is_drawn() {
        let drawing = r#"{"title": "t", "x": {"label": "ms", "scale": "log"},
            "y": {"label": "%", "scale": "linear"}, "curves": [
            {"name": "c", "points": [{"x": 1, "y": 0, "title": "none"}, {"x": 100, "y": 6, "least": 3, "filled": true, "title": "most"}]},
            {"name": "level", "dashed": true, "points": [{"x": 1, "y": 3}, {"x": 100, "y": 3}]}]}"#;
        let svg = Chart::try_from(serde_json::from_str::<Drawing>(drawing).unwrap()).unwrap().svg();
        assert!(svg.contains("M610.0 200.0V20.0"), "{svg}");
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
                let points = points.iter().map(|&(x, y)| Place {
                    x,
                    y,
                    least: None,
                    most: None,
                    filled: false,
                    title: String::new(),
                });
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
}
