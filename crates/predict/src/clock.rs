//! What the runtime itself takes: reading the clock where elements are timed, and the worker's loop.

use crate::elements;
use crate::sample::{Sample, run};
use crate::stream::{Numbered, Stream};
use dpdk::Packet;
use lang::Source;
use measure::ranks::median;
use runtime::{Options, Registry};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The lengths of the two chains of elements that do nothing.
const SHORT: usize = 1;
const LONG: usize = 33;

/// For how long a chain runs before it is measured, and how often it is.
const TIMES: (Duration, usize) = (Duration::from_millis(20), 60);

/// Costs of the runtime, in cycles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runtime {
    /// What an element seems to cost more in a run in which all elements are timed.
    pub(crate) reading: f64,
    /// A run of a task, beside what the elements take.
    pub(crate) run: f64,
}

/// Measures these: packets pass a chain of elements that do nothing. What one more takes is known from the
/// time of the whole, and what it seems to take from its own counters.
pub(crate) fn calibrate(registry: &Registry, options: &Options) -> Result<Runtime, String> {
    let mut stream = Stream::default();
    let packets: Vec<_> =
        (0..options.batch_size).filter_map(|_| Some(Packet::from_bytes(&[0; 60])?.keep())).collect();
    stream.add(0, packets.into_iter());
    let stream = Numbered::new(Arc::new(Mutex::new(stream)), None);
    let mut with = registry.clone();
    elements::register(&mut with, &[]);
    let with = Arc::new(with);
    let mut ends = Vec::new();
    for length in [SHORT, LONG] {
        let text = format!("PredictReplay({}){} -> PredictSink0;", stream.number, " -> Null".repeat(length));
        let (_, samples) = run(Source::new("chain", text), &with, options, TIMES)
            .map_err(|diags| diags.render(diags.sources(), false))?;
        let runs = |s: &Sample| s.stats[0].emissions as f64;
        let whole = median(samples.iter().map(|s| s.cycles / runs(s))).unwrap_or(0.0);
        let seeming =
            median(samples.iter().map(|s| s.stats.iter().map(|s| s.cycles as f64).sum::<f64>() / runs(s)))
                .unwrap_or(0.0);
        ends.push((whole, seeming));
    }
    let more = (LONG - SHORT) as f64;
    let (whole, seeming) = ((ends[1].0 - ends[0].0) / more, (ends[1].1 - ends[0].1) / more);
    let reading = (seeming - whole).max(0.0);
    let run = (ends[0].0 - (ends[0].1 - reading * (SHORT + 2) as f64)).max(0.0);
    Ok(Runtime { reading, run })
}
