//! Points, curves, a chart.

use crate::axis::Axis;

/// A point, with the text that is shown when the mouse is over it.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// On the horizontal axis.
    pub x: f64,
    /// On the vertical axis.
    pub y: f64,
    /// From where to where values were found; drawn as a bar.
    pub spread: Option<(f64, f64)>,
    /// Whether its mark is filled.
    pub filled: bool,
    /// What it is. Without, it has no mark.
    pub title: String,
}

/// The line between the points of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Line {
    /// Unbroken.
    #[default]
    Solid,
    /// Of dashes.
    Dashed,
    /// None: the points stand alone.
    None,
}

/// A curve. Without titles its points have no marks.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name in the legend; without, it is not there.
    pub name: String,
    /// Its line.
    pub line: Line,
    /// The number of its color; none: that of its place among the curves.
    pub color: Option<usize>,
    /// Its points, in the order of the line.
    pub points: Vec<Point>,
}

impl Curve {
    /// A line without marks.
    #[must_use]
    pub fn line(name: &str, line: Line, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, ..Point::default() }).collect();
        Self { name: name.to_owned(), line, color: None, points }
    }
}

impl Chart {
    /// The curves of the legend, with their numbers.
    pub(crate) fn named(&self) -> impl Iterator<Item = (usize, &Curve)> {
        self.curves.iter().enumerate().filter(|(_, curve)| !curve.name.is_empty())
    }
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub curves: Vec<Curve>,
    /// The explanation of the marks, in lines.
    pub note: String,
}
