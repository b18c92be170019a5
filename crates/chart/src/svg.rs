//! The drawing.

use crate::axis::Axis;
use crate::layout::{Area, LEANING, Layout, SLOPE, shown};
use crate::model::{Chart, Line, Point};
use crate::text::{escaped, width};
use std::fmt::Write as _;

/// On white: colors that people with any color vision tell apart (Okabe and Ito), and gray.
const COLORS: [&str; 8] =
    ["#0072b2", "#009e73", "#d55e00", "#555555", "#cc79a7", "#b77f00", "#56b4e9", "#7a5195"];

/// The style sheet: other colors for readers who prefer dark. A drawing of its own has it in it; a page with
/// several drawings needs it once.
pub const STYLE: &str = "@media (prefers-color-scheme: dark) {
.chart text { fill: #ddd }
.chart .back, .chart .legend { fill: #181818 }
.chart .grid { stroke: #3a3a3a }
.chart .open { fill: #181818 }
.chart .c0 { stroke: #4db1f0 } .chart .full.c0 { fill: #4db1f0 }
.chart .c1 { stroke: #2fd0a2 } .chart .full.c1 { fill: #2fd0a2 }
.chart .c2 { stroke: #ff9145 } .chart .full.c2 { fill: #ff9145 }
.chart .c3 { stroke: #b5b5b5 } .chart .full.c3 { fill: #b5b5b5 }
.chart .c4 { stroke: #f0a5d0 } .chart .full.c4 { fill: #f0a5d0 }
.chart .c5 { stroke: #f0c23c } .chart .full.c5 { fill: #f0c23c }
.chart .c6 { stroke: #9bd8ff } .chart .full.c6 { fill: #9bd8ff }
.chart .c7 { stroke: #c7a6e8 } .chart .full.c7 { fill: #c7a6e8 }
}
";

/// The class and the attribute of a color.
fn color(number: usize) -> (String, &'static str) {
    let number = number % COLORS.len();
    (format!("c{number}"), COLORS[number])
}

fn dashes(line: Line) -> &'static str {
    if line == Line::Dashed { "6 4" } else { "none" }
}

impl Chart {
    /// A drawing of its own, of 640 times 450 or more.
    #[must_use]
    pub fn svg(&self) -> String {
        self.drawn(640.0, 450.0, &format!("<style>\n{STYLE}</style>\n"))
    }

    /// A drawing within a page that has [`STYLE`], so wide, and about so high.
    #[must_use]
    pub fn inline(&self, wide: u16, high: u16) -> String {
        self.drawn(wide.max(240).into(), high.max(200).into(), "")
    }

    fn drawn(&self, wide: f64, high: f64, style: &str) -> String {
        let layout = Layout::new(self, wide, high);
        let title = escaped(&self.title);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" viewBox=\"0 0 {wide} {:.0}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n{style}\
             <rect class=\"back\" width=\"{wide}\" height=\"{:.0}\" fill=\"white\"/>\n",
            layout.high, layout.high
        );
        // Writing to a string does not fail.
        self.draw_axes(&layout, &mut text);
        for (number, curve) in self.curves.iter().enumerate() {
            let (class, color) = color(curve.color.unwrap_or(number));
            if curve.line != Line::None {
                let places: Vec<String> = (curve.points.iter())
                    .map(|point| layout.place(self, point.x, point.y))
                    .map(|(x, y)| format!("{x:.1},{y:.1}"))
                    .collect();
                let _ = writeln!(
                    text,
                    "<polyline class=\"line {class}\" points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" \
                     stroke-dasharray=\"{}\"/>",
                    places.join(" "),
                    dashes(curve.line)
                );
            }
            for point in &curve.points {
                self.draw_point(&layout, point, (&class, color), &mut text);
            }
        }
        self.draw_legend(&layout, &mut text);
        text + "</svg>\n"
    }

    fn draw_axes(&self, layout: &Layout, text: &mut String) {
        let Area { left, top, wide, high } = layout.plot;
        let base = top + high;
        let kept = if layout.leaning {
            shown(&self.x, wide, |_| LEANING)
        } else if self.x.words {
            vec![true; self.x.marks.len()]
        } else {
            shown(&self.x, wide, width)
        };
        for ((value, mark), kept) in self.x.marks.iter().zip(kept) {
            let at = left + self.x.at(*value) * wide;
            let _ = writeln!(text, "<path class=\"grid\" d=\"M{at:.1} {top}V{base}\" stroke=\"#ddd\"/>");
            if !kept {
                continue;
            }
            let words = escaped(&layout.mark(mark, at));
            if layout.leaning {
                let y = base + 14.0;
                let angle = -SLOPE.asin().to_degrees();
                let _ = writeln!(
                    text,
                    "<text class=\"x mark\" transform=\"translate({at:.1} {y:.1}) rotate({angle:.0})\" \
                     text-anchor=\"end\">{words}</text>"
                );
            } else {
                let y = base + 18.0;
                let _ = writeln!(
                    text,
                    "<text class=\"x mark\" x=\"{at:.1}\" y=\"{y}\" text-anchor=\"middle\">{words}</text>"
                );
            }
        }
        let row = |_: &str| 10.0;
        for ((value, mark), kept) in self.y.marks.iter().zip(shown(&self.y, high, row)) {
            let at = base - self.y.at(*value) * high;
            let _ = writeln!(
                text,
                "<path class=\"grid\" d=\"M{left} {at:.1}H{}\" stroke=\"#ddd\"/>",
                left + wide
            );
            if kept {
                let (x, y, words) = (left - 6.0, at + 4.0, escaped(mark));
                let _ = writeln!(
                    text,
                    "<text class=\"y mark\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{words}</text>"
                );
            }
        }
        let label = |axis: &Axis| escaped(&axis.label);
        let _ = writeln!(
            text,
            "<text class=\"x label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"y label\" transform=\"translate({} {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            left + wide / 2.0,
            layout.label,
            label(&self.x),
            layout.label_left,
            top + high / 2.0,
            label(&self.y)
        );
    }

    fn draw_point(&self, layout: &Layout, point: &Point, (class, color): (&str, &str), text: &mut String) {
        let (x, y) = layout.place(self, point.x, point.y);
        if let Some((low, high)) = point.spread {
            let (low, high) = (layout.place(self, point.x, low).1, layout.place(self, point.x, high).1);
            let (left, ends) = (x - 4.0, "h8");
            let _ = writeln!(
                text,
                "<path class=\"spread {class}\" d=\"M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}{ends}M{left:.1} {high:.1}{ends}\" \
                 fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>"
            );
        }
        if !point.title.is_empty() {
            let (kind, fill) = if point.filled { ("full", color) } else { ("open", "white") };
            let _ = writeln!(
                text,
                "<circle class=\"{kind} {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{color}\">\
                 <title>{}</title></circle>",
                escaped(&point.title)
            );
        }
    }

    fn draw_legend(&self, layout: &Layout, text: &mut String) {
        let Area { left, top, wide, high } = layout.legend;
        if !layout.below {
            let _ = writeln!(
                text,
                "<rect class=\"legend\" x=\"{left:.0}\" y=\"{top:.0}\" width=\"{wide:.0}\" height=\"{high:.0}\" fill=\"white\" \
                 fill-opacity=\"0.8\"/>"
            );
        }
        for (entry, (number, curve)) in self.named().enumerate() {
            let (class, color) = color(curve.color.unwrap_or(number));
            let (left, row) = layout.entry_at(entry);
            let _ = match curve.line {
                Line::None => writeln!(
                    text,
                    "<circle class=\"{class} full\" cx=\"{:.0}\" cy=\"{row:.0}\" r=\"4\" fill=\"{color}\" stroke=\"{color}\"/>",
                    left + 19.0
                ),
                line => writeln!(
                    text,
                    "<path class=\"{class}\" d=\"M{:.0} {row:.0}h26\" stroke=\"{color}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
                    left + 6.0,
                    dashes(line)
                ),
            };
            let _ = writeln!(
                text,
                "<text class=\"name\" x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                left + 38.0,
                row + 4.0,
                escaped(&layout.name(&curve.name))
            );
        }
        let columns = layout.entry.1;
        let rows = self.named().count().div_ceil(columns);
        for (line, note) in self.note.lines().enumerate() {
            let (_, row) = layout.entry_at((rows + line) * columns);
            let _ = writeln!(
                text,
                "<text class=\"note\" x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                left + 6.0,
                row + 4.0,
                escaped(note)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Curve;

    fn chart(curves: Vec<Curve>) -> Chart {
        let (x, y) = (Axis::linear("x & y", 0.0, 1.0), Axis::linear("y", 0.0, 1.0));
        Chart { title: "a < b".into(), x, y, curves, note: String::new() }
    }

    #[test]
    fn text_is_escaped_and_lines_have_no_marks() {
        let svg = chart(vec![Curve::line("<c>", Line::Dashed, [(0.0, 0.0), (1.0, 2.0)])]).svg();
        assert!(svg.contains("a &lt; b") && svg.contains("x &amp; y") && svg.contains("&lt;c&gt;"));
        assert!(svg.contains("points=\"70.0,380.0 610.0,20.0\"") && !svg.contains("<circle"), "{svg}");
        assert!(
            svg.contains("viewBox=\"0 0 640 450\"") && svg.contains("prefers-color-scheme: dark"),
            "{svg}"
        );
    }

    #[test]
    fn spread_is_a_bar_and_points_may_stand_alone() {
        let point = |x, y, spread| Point { x, y, spread, filled: true, title: "here".into() };
        let points = vec![point(0.0, 0.5, Some((0.25, 1.0))), point(1.0, 1.0, None)];
        let svg = chart(vec![Curve { name: "c".into(), line: Line::None, color: Some(9), points }]).svg();
        assert!(svg.contains("d=\"M70.0 290.0V20.0M66.0 290.0h8M66.0 20.0h8\""), "{svg}");
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<title>here").count()), (0, 2), "{svg}");
        assert!(svg.contains("class=\"full c1\""), "{svg}");
    }

    #[test]
    fn leaning_words_stay_apart_and_inside() {
        for count in [4_u8, 9, 40] {
            let words: Vec<String> = (0..count).map(|n| format!("{n} is a long name of a program")).collect();
            let mut chart = chart(vec![Curve::line("c", Line::None, [(0.0, 0.0)])]);
            chart.x = Axis::words("x", &words);
            let svg = chart.inline(380, 300);
            let texts = svg.split("<text class=\"x mark\" transform=\"translate(").skip(1);
            let texts: Vec<(f64, &str)> = texts
                .map(|rest| (rest.split(' ').next().unwrap(), rest.split('>').nth(1).unwrap()))
                .map(|(at, rest)| (at.parse().unwrap(), rest.split('<').next().unwrap()))
                .collect();
            assert!(texts.len() >= 4, "{svg}");
            assert!(texts.windows(2).all(|pair| (pair[1].0 - pair[0].0) * SLOPE >= 12.0), "{texts:?}");
            let left = |(at, text): &(f64, &str)| at - width(text) * SLOPE.asin().cos();
            assert!(texts.iter().all(|text| left(text) >= 0.0), "{texts:?}");
        }
    }

    #[test]
    fn every_color_has_a_dark_one() {
        for number in 0..COLORS.len() {
            assert!(STYLE.contains(&format!(".chart .c{number} {{")), "{number}");
            assert!(STYLE.contains(&format!(".chart .full.c{number} {{")), "{number}");
        }
    }
}
