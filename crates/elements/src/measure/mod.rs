//! Measuring: a source of frames that can be accounted for, and a sink that does.

mod measuresink;
mod measuresource;
mod replay;

use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<measuresink::MeasureSink>());
    r.add(vector::<measuresource::MeasureSource>());
}
