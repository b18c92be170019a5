//! What a configuration takes when it runs.

use crate::observe::{Failure, Observed, received};
use crate::sample::run;
use measure::ranks::median;
use runtime::{Options, Registry, Role};
use std::sync::Arc;
use std::time::Duration;

/// For how long it runs before it is measured, and how often it is.
const TIMES: (Duration, usize) = (Duration::from_millis(200), 60);

/// What a configuration takes.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Cycles of a packet that it receives.
    pub cycles: f64,
    /// Cycles of a packet in each element, as the router counts them, by name.
    pub elements: Vec<(String, f64)>,
}

/// Runs the configuration as it was observed.
///
/// # Errors
/// It does not load, or receives nothing.
pub fn measured(
    observed: &Observed,
    registry: &Arc<Registry>,
    options: &Options,
) -> Result<Measured, Failure> {
    let (router, samples) =
        run(observed.source.clone(), registry, options, TIMES).map_err(Failure::Configuration)?;
    let roles: Vec<(Role, usize)> = (router.elements().iter())
        .map(|e| (registry.get(e.class).map_or(Role::Ordinary, |class| class.role), e.n_inputs))
        .collect();
    let cycles = samples.iter().map(|sample| {
        let all = roles.iter().zip(&sample.stats).map(|((role, inputs), stats)| (*role, *inputs, stats));
        sample.cycles / received(all) as f64
    });
    let cycles = median(cycles).ok_or_else(|| Failure::Message("no packets come in".to_owned()))?;
    let one = |n: usize| {
        let each = samples.iter().map(|sample| &sample.stats[n]).filter(|s| s.cycles > 0);
        median(each.map(|s| s.cycles as f64 / s.handled() as f64))
    };
    let elements = router.elements().iter().enumerate().filter_map(|(n, e)| Some((e.name.clone(), one(n)?)));
    Ok(Measured { cycles, elements: elements.collect() })
}
