//! Running a configuration and reading its counters from time to time.

use crate::observe::between;
use lang::{Diagnostics, LoadOptions, Source};
use runtime::{Options, Registry, Router, StatsSnapshot};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time between two readings: others who use the processor spoil a few of many short samples.
const SAMPLE: Duration = Duration::from_millis(4);

/// What happened between two readings.
pub(crate) struct Sample {
    /// Cycles of the time-stamp counter.
    pub(crate) cycles: f64,
    /// The counters of each element.
    pub(crate) stats: Vec<StatsSnapshot>,
}

/// Runs a configuration on one worker, and reads its counters `n` times after it has run for a time.
pub(crate) fn run(
    source: Source,
    registry: &Arc<Registry>,
    options: &Options,
    (after, n): (Duration, usize),
) -> Result<(Router, Vec<Sample>), Diagnostics> {
    let options = Options { threads: true, workers: 1, watchdog: None, ..options.clone() };
    let mut router = Router::new(&[source], LoadOptions::default(), Arc::clone(registry), options)?;
    router.start();
    let began = Instant::now();
    while began.elapsed() < after {
        router.step();
        sleep(Duration::from_millis(1));
    }
    let read =
        |router: &Router| (dpdk::cycles(), router.elements().iter().map(|e| e.totals()).collect::<Vec<_>>());
    let mut before = read(&router);
    let samples = (0..n).map(|_| {
        sleep(SAMPLE);
        router.step();
        let now = read(&router);
        let stats = before.1.iter().zip(&now.1).map(|(a, b)| between(a, b)).collect();
        let cycles = (now.0 - before.0) as f64;
        before = now;
        Sample { cycles, stats }
    });
    let samples = samples.collect();
    router.wind_up();
    Ok((router, samples))
}
