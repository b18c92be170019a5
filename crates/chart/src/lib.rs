//! Curves as SVG: axes with round marks, curves, the spread of points, a legend.
//!
//! A drawing has no script and needs nothing beside it. Colors are attributes, for every program that draws
//! SVG, and classes, by which a style sheet ([`STYLE`]) gives others where the reader prefers dark.
//!
//! # Layers
//!
//! 1. `text`: words in a drawing, and how wide they are.
//! 2. `axis`: axes and their marks.
//! 3. `model`: points, curves, a chart.
//! 4. `layout`: where everything is.
//! 5. `svg`: the drawing.
#![forbid(unsafe_code)]

mod axis;
mod layout;
mod model;
mod svg;
mod text;

pub use axis::{Axis, FARTHEST, bounded};
pub use model::{Chart, Curve, Line, Point};
pub use svg::STYLE;
pub use text::escaped;
