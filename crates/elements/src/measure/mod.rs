//! Measuring: a source of test frames, and a sink that measures their loss, order and latency.

mod engine;
mod fault;
mod measurehop;
mod measuresink;
mod measuresource;
mod workpackage;

use runtime::{Registry, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(simple::<fault::Fault>());
    r.add(simple::<measurehop::MeasureHop>());
    r.add(vector::<measuresink::MeasureSink>());
    r.add(vector::<measuresource::MeasureSource>());
    r.add(simple::<workpackage::WorkPackage>());
}
