//! Measuring: a source of frames that can be accounted for, and a sink that does.

mod measurehop;
mod measuresink;
mod measuresource;
mod replay;

use measure::latency::Latency;
use runtime::{Registry, simple, vector};
use std::fmt::{Display, Write};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(simple::<measurehop::MeasureHop>());
    r.add(vector::<measuresink::MeasureSink>());
    r.add(vector::<measuresource::MeasureSource>());
}

/// Two numbers on a line.
fn lines<N: Display>(pairs: impl Iterator<Item = (N, u64)>) -> String {
    pairs.fold(String::new(), |mut text, (n, count)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{n} {count}");
        text
    })
}

/// Latencies in nanoseconds on a line: least, mean, 50 %, 90 %, 99 %, 99.9 %, most, and how many frames.
fn summary(l: &Latency) -> String {
    let [half, most, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|q| l.quantile_ns(q));
    let (least, mean, longest) = (l.min_ns(), l.mean_ns(), l.max_ns());
    format!("{least} {mean:.0} {half} {most} {p99} {p999} {longest} {}\n", l.count())
}
