//! Where everything in a drawing is.

use crate::axis::Axis;
use crate::model::{Chart, Point};
use crate::text::{LETTER, fitted, width};

/// Space between two marks of an axis, at least.
const GAP: f64 = 8.0;
/// The height of a row of text.
pub(crate) const ROW: f64 = 18.0;
/// A mark that leans goes so far down for each unit of its length, and as much to the left.
pub(crate) const SLOPE: f64 = 0.5;
/// The room that a mark that leans takes of the axis, beside the space between two: with it, letters are a
/// row of text apart.
pub(crate) const LEANING: f64 = 12.0 / SLOPE - GAP;
/// The longest mark that leans, in letters.
const LONGEST: f64 = 24.0 * LETTER;
/// The sample of a line in the legend, with its margins.
const SAMPLE: f64 = 38.0;

/// A rectangle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) wide: f64,
    pub(crate) high: f64,
}

impl Area {
    fn holds(&self, (x, y): (f64, f64), margin: f64) -> bool {
        (self.left - margin..self.left + self.wide + margin).contains(&x)
            && (self.top - margin..self.top + self.high + margin).contains(&y)
    }
}

/// The places of a chart's parts.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The whole drawing.
    pub(crate) wide: f64,
    pub(crate) high: f64,
    /// Where curves are.
    pub(crate) plot: Area,
    /// The baselines of the labels: of the horizontal axis, and the middle of that of the vertical axis.
    pub(crate) label: f64,
    pub(crate) label_left: f64,
    /// Whether the marks of the horizontal axis lean.
    pub(crate) leaning: bool,
    pub(crate) legend: Area,
    /// How wide an entry of the legend is, and how many stand in a row.
    pub(crate) entry: (f64, usize),
    /// The legend is below the plot: it covers nothing.
    pub(crate) below: bool,
}

/// Which of the marks at these places are drawn: so many that none touches another.
pub(crate) fn shown(axis: &Axis, long: f64, wide: impl Fn(&str) -> f64) -> Vec<bool> {
    let count = axis.marks.len();
    let free = |step: usize| {
        let kept: Vec<&(f64, String)> = axis.marks.iter().step_by(step).collect();
        kept.windows(2).all(|pair| {
            let between = (axis.at(pair[1].0) - axis.at(pair[0].0)) * long;
            between >= f64::midpoint(wide(&pair[0].1), wide(&pair[1].1)) + GAP
        })
    };
    let step = (1..=count).find(|step| free(*step)).unwrap_or(1);
    (0..count).map(|at| at % step == 0).collect()
}

impl Layout {
    /// For a plot of about this size.
    pub(crate) fn new(chart: &Chart, wide: f64, high: f64) -> Self {
        let longest = chart.y.marks.iter().map(|(_, mark)| width(mark)).fold(0.0, f64::max);
        let left = (longest + 34.0).max(70.0).min(wide / 3.0);
        // The last mark of the horizontal axis stands half outside.
        let right = chart.x.marks.last().map_or(0.0, |(_, mark)| width(mark) / 2.0 + 4.0);
        let right = if chart.x.words { 12.0 } else { right.max(30.0) };
        let plot = Area { left, top: 20.0, wide: wide - left - right, high: high - 90.0 };
        let leaning = chart.x.words && {
            let room = plot.wide / chart.x.marks.len().max(1) as f64;
            chart.x.marks.iter().any(|(_, mark)| width(mark) + GAP > room)
        };
        let longest = chart.x.marks.iter().map(|(_, mark)| width(mark).min(LONGEST)).fold(0.0, f64::max);
        let below_axis = if leaning { 12.0 + longest * SLOPE } else { 18.0 };
        let label = plot.top + plot.high + below_axis + 27.0;
        let mut layout = Self {
            wide,
            high: label + 25.0,
            plot,
            label,
            label_left: 20.0,
            leaning,
            legend: Area::default(),
            entry: (0.0, 1),
            below: false,
        };
        layout.place_legend(chart);
        layout
    }

    /// A point's place.
    pub(crate) fn place(&self, chart: &Chart, x: f64, y: f64) -> (f64, f64) {
        let Area { left, top, wide, high } = self.plot;
        (left + chart.x.at(x) * wide, top + high - chart.y.at(y) * high)
    }

    /// The text of a mark of the horizontal axis, which ends at a place if it leans: it begins within the
    /// drawing.
    pub(crate) fn mark(&self, text: &str, at: f64) -> String {
        let room = at / SLOPE.asin().cos();
        if self.leaning { fitted(text, LONGEST.min(room)) } else { text.to_owned() }
    }

    /// The legend: within the plot where it covers nothing, otherwise below.
    fn place_legend(&mut self, chart: &Chart) {
        let names = chart.named().map(|(_, curve)| width(&curve.name) + SAMPLE);
        let entry = names.fold(0.0, f64::max).min(self.wide - 24.0);
        let note = chart.note.lines().map(width).fold(0.0, f64::max);
        let (named, notes) = (chart.named().count(), chart.note.lines().count());
        let rows = named + notes;
        let (wide, high) = (entry.max(note) + 12.0, ROW * rows as f64 + 6.0);
        if let Some(corner) = self.free_corner(chart, (wide, high)) {
            self.legend = Area { left: corner.0, top: corner.1, wide, high };
            self.entry = (entry, 1);
            return;
        }
        let columns = (((self.wide - 24.0) / entry.max(1.0)) as usize).clamp(1, named.max(1));
        let rows = named.div_ceil(columns) + notes;
        self.below = true;
        self.entry = (entry, columns);
        let high = ROW * rows as f64 + 6.0;
        self.legend = Area { left: 12.0, top: self.label + 12.0, wide: self.wide - 24.0, high };
        self.high = self.legend.top + high + 6.0;
    }

    /// A place at the left or right where a legend of this size covers no curve.
    fn free_corner(&self, chart: &Chart, (wide, high): (f64, f64)) -> Option<(f64, f64)> {
        let plot = self.plot;
        if wide > plot.wide * 0.75 || high > plot.high - 8.0 {
            return None;
        }
        let at = |point: &Point| self.place(chart, point.x, point.y);
        // Points, the lines between them, bars.
        let between = |from: (f64, f64), to: (f64, f64)| {
            (0..=16)
                .map(|i| f64::from(i) / 16.0)
                .map(move |part| (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part))
        };
        let lines = chart.curves.iter().flat_map(|curve| curve.points.windows(2));
        let mut drawn: Vec<(f64, f64)> = lines.flat_map(|pair| between(at(&pair[0]), at(&pair[1]))).collect();
        for point in chart.curves.iter().flat_map(|curve| &curve.points) {
            drawn.push(at(point));
            if let Some((low, high)) = point.spread {
                drawn.extend(between(self.place(chart, point.x, low), self.place(chart, point.x, high)));
            }
        }
        let rooms = ((plot.high - high - 8.0) / 12.0) as usize;
        let heights = (0..=rooms).map(|room| plot.top + 4.0 + 12.0 * room as f64);
        let mut corners =
            heights.flat_map(|top| [(plot.left + 8.0, top), (plot.left + plot.wide - wide - 8.0, top)]);
        corners.find(|(left, top)| {
            let area = Area { left: *left, top: *top, wide, high };
            !drawn.iter().any(|place| area.holds(*place, 9.0))
        })
    }

    /// Where an entry of the legend is: its left end and the middle of its row.
    pub(crate) fn entry_at(&self, number: usize) -> (f64, f64) {
        let (wide, columns) = self.entry;
        let (row, column) = (number / columns, number % columns);
        (self.legend.left + column as f64 * wide, self.legend.top + 12.0 + ROW * row as f64)
    }

    /// The name of a curve as the legend has room for it.
    pub(crate) fn name(&self, name: &str) -> String {
        fitted(name, self.entry.0 - SAMPLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Curve, Line};

    fn chart(x: Axis, curves: Vec<Curve>) -> Chart {
        Chart { title: String::new(), x, y: Axis::linear("y", 0.0, 1.0), curves, note: String::new() }
    }

    #[test]
    fn marks_that_would_touch_are_left_out() {
        let axis = Axis::decades("", 1e-100, 1e100);
        let shown = shown(&axis, 300.0, width);
        let kept = shown.iter().filter(|kept| **kept).count();
        assert!(shown[0] && (2..10).contains(&kept), "{kept}");
        assert!(super::shown(&Axis::linear("", 0.0, 1.0), 500.0, width).iter().all(|kept| *kept));
    }

    #[test]
    fn the_legend_covers_no_curve() {
        let level = |y: f64| Curve::line("a name", Line::Solid, [(0.0, y), (1.0, y)]);
        let few = Layout::new(&chart(Axis::linear("", 0.0, 1.0), vec![level(0.1)]), 640.0, 450.0);
        assert!(!few.below && few.high == 450.0, "{few:?}");
        let many: Vec<Curve> = (0..10).map(|n| level(f64::from(n) / 10.0)).collect();
        let many = Layout::new(&chart(Axis::linear("", 0.0, 1.0), many), 640.0, 450.0);
        assert!(many.below && many.legend.top > many.label, "{many:?}");
        assert!(many.high > many.legend.top + many.legend.high, "{many:?}");
    }

    #[test]
    fn long_words_lean() {
        let words = |word: &str| vec![word.to_owned(); 4];
        assert!(!Layout::new(&chart(Axis::words("", &words("ab")), Vec::new()), 420.0, 320.0).leaning);
        let long =
            Layout::new(&chart(Axis::words("", &words("minimal forwarding")), Vec::new()), 420.0, 320.0);
        assert!(long.leaning && long.high > 320.0, "{long:?}");
    }
}
