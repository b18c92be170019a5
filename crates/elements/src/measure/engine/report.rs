//! The format of results.

use measure::latency::Latency;
use std::fmt::{Display, Write};

/// Two numbers on a line.
pub(in crate::measure) fn lines<N: Display>(pairs: impl Iterator<Item = (N, u64)>) -> String {
    pairs.fold(String::new(), |mut text, (n, count)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{n} {count}");
        text
    })
}

/// Latencies in nanoseconds on a line: minimum, mean, 50 %, 90 %, 99 %, 99.9 %, maximum, and the number of
/// frames.
pub(in crate::measure) fn summary(l: &Latency) -> String {
    let [half, most, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|q| l.quantile_ns(q));
    let (least, mean, longest) = (l.min_ns(), l.mean_ns(), l.max_ns());
    format!("{least} {mean:.0} {half} {most} {p99} {p999} {longest} {}\n", l.count())
}
