//! The sum of what the elements of a configuration cost.

use crate::alone::{self, Bench};
use crate::clock::calibrate;
use crate::kept::Kept;
use crate::observe::{Failure, Observed};
use runtime::{Options, Registry};

/// What an element adds.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: &'static str,
    /// Packets that come to it, or that it makes, for each packet that the router receives.
    pub share: f64,
    /// Packets of a batch.
    pub batch: f64,
    /// Bytes of a packet; none of one that the element makes.
    pub bytes: f64,
    /// Cycles of one of its packets; or why they are not known.
    pub cycles: Result<f64, String>,
}

/// What is expected of a configuration on one processor.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// For each element that packets come to.
    pub lines: Vec<Line>,
    /// Cycles of a packet that the router receives.
    pub cycles: f64,
    /// Of those, what the worker takes beside the elements.
    pub runs: f64,
    /// Bytes of memory that such a packet uses.
    pub memory: f64,
    /// Packets that wait in queues, on average.
    pub waiting: usize,
    /// Packets that leave by devices for each one that is received.
    pub sent: f64,
    /// Cycles of the time-stamp counter in a second.
    pub hertz: f64,
}

/// Measures each element alone, unless what it costs is known, and adds up.
///
/// # Errors
/// The sources do not run alone.
pub fn predict(
    observed: &Observed,
    registry: &Registry,
    options: &Options,
    kept: &mut Kept,
    mut progress: impl FnMut(f64, &str),
) -> Result<Prediction, Failure> {
    let received = observed.received() as f64;
    progress(0.0, "the runtime");
    let runtime = calibrate(registry, options).map_err(Failure::Message)?;
    let bench = Bench { registry, options, runtime };
    let n = observed.elements.len();
    progress(0.0, "sources");
    let (sources, run) = alone::sources(observed, &bench, kept).map_err(Failure::Message)?;
    let mut lines = Vec::new();
    let (mut cycles, mut runs) = (0.0, 0.0);
    for (index, seen) in observed.elements.iter().enumerate().filter(|(_, seen)| seen.worked()) {
        let name = &observed.config.elements[index].name;
        progress(index as f64 / n as f64, name);
        let source = sources.iter().find(|source| source.0 == index).map(|source| source.1);
        let cost = source.map_or_else(|| alone::measure(observed, index, &bench, kept), Ok);
        let handled = seen.stats.handled() as f64;
        if let Ok(cost) = &cost {
            cycles += cost * handled;
        }
        runs += (seen.runs(&seen.stats) + seen.stats.idle_polls) as f64;
        lines.push(Line {
            name: name.clone(),
            class: seen.class,
            share: handled / received,
            batch: seen.stats.batch_size(),
            bytes: seen.bytes(),
            cycles: cost,
        });
    }
    let runs = runs * run / received;
    Ok(Prediction {
        lines,
        cycles: cycles / received + runs,
        runs,
        memory: observed.memory() / received,
        waiting: observed.waiting(),
        sent: observed.sent() as f64 / received,
        hertz: dpdk::cycles_per_second(),
    })
}

impl Prediction {
    /// Packets that are received in a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.hertz / self.cycles
    }
    /// The elements whose cost is not known, by name: the sum is without them.
    #[must_use]
    pub fn unknown(&self) -> Vec<&str> {
        self.lines.iter().filter(|line| line.cycles.is_err()).map(|line| line.name.as_str()).collect()
    }
}
