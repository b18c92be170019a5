//! An experiment, from its first trial to its last. What has been measured before is not measured again.

use crate::device::Device;
use crate::model::{Experiment, Measure, Point};
use crate::results::Results;
use crate::trial::{Failed, Trial, make};
use measure::search::{Search, Wanted};
use std::path::PathBuf;

/// A trial before all others: tables and neighbors are learned, and it is seen whether anything comes back.
const WARM_UP_SECONDS: f64 = 0.2;
const WARM_UP_RATE: u64 = 10_000;
/// Trials of one search are too many: the device is not the same from one to the next.
const MOST_TRIALS: usize = 5000;
/// A trial that has lost something, or is for latency, counts for nothing if the generator or the device has
/// waited longer for a processor, in seconds: the next shows whether the device loses it. So often at one
/// rate, and so often in a search.
const LONG_WAIT: f64 = 0.002;
const MOST_REPEATS: usize = 3;
const MOST_DISTURBED: usize = 30;

/// How an experiment is run.
#[derive(Debug)]
pub struct Options {
    /// The program that generates traffic and runs programs: `valiant`.
    pub program: PathBuf,
    /// The directory of the results.
    pub results: PathBuf,
}

/// How it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is measured.
    Complete,
    /// Some points have failed; the rest is measured.
    Failed,
    /// It was to stop.
    Stopped,
}

/// What is happening: how much of all is done, from 0 to 1, and a text.
pub type Tell<'a> = dyn FnMut(f64, &str) + 'a;

/// Runs an experiment.
///
/// # Errors
/// A message: results cannot be kept, or do not belong to it. What is kept stays.
pub fn run(
    experiment: &Experiment,
    options: &Options,
    results: &mut Results,
    stop: &dyn Fn() -> bool,
    tell: &mut Tell<'_>,
) -> Result<Ended, String> {
    let points = experiment.points();
    let all = points.len() * experiment.rounds as usize;
    let mut ended = Ended::Complete;
    for round in 1..=experiment.rounds {
        for (number, point) in points.iter().enumerate() {
            let shown = results.of(point, round);
            // What has failed before may be mended.
            if !shown.ended || shown.failed.is_some() {
                let done = (round as usize - 1) * points.len() + number;
                let mut tell = |part: f64, text: &str| {
                    let of = if experiment.rounds > 1 { format!("round {round}, ") } else { String::new() };
                    tell((done as f64 + part) / all as f64, &format!("{of}{}{text}", point.prefix()));
                };
                let one = One { experiment, options, point, round, stop };
                match one.run(results, &mut tell) {
                    Ok(()) => results.end(point, round, None)?,
                    Err(Stop::Failed(Failed::Because(reason))) => {
                        tell(1.0, &format!("failed: {reason}"));
                        results.end(point, round, Some(reason))?;
                    }
                    Err(Stop::Failed(Failed::Stopped)) => return Ok(Ended::Stopped),
                    Err(Stop::Results(message)) => return Err(message),
                }
            }
            if results.of(point, round).failed.is_some() {
                ended = Ended::Failed;
            }
        }
    }
    Ok(ended)
}

enum Stop {
    Failed(Failed),
    Results(String),
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// One point in one round.
struct One<'a> {
    experiment: &'a Experiment,
    options: &'a Options,
    point: &'a Point,
    round: u32,
    stop: &'a dyn Fn() -> bool,
}

impl One<'_> {
    fn run(&self, results: &mut Results, tell: &mut Tell<'_>) -> Result<(), Stop> {
        let measure = self.experiment.measure_at(self.point);
        let before = results.of(self.point, self.round);
        let before = if before.failed.is_some() { Vec::new() } else { before.trials };
        let rest = Rest::new(&measure, &before)?;
        if rest.next(&before).is_none() {
            return Ok(());
        }
        tell(0.0, "starting the device");
        let settings = self.experiment.settings(self.point);
        let log = self.options.results.join("device.log");
        let device = Device::start(self.experiment, &settings, (&self.options.program, &log), self.stop);
        let mut device = device.map_err(Failed::Because)?;
        if (self.stop)() {
            return Err(Failed::Stopped.into());
        }
        self.warm_up(&measure, &mut device)?;
        let (mut trials, mut rest) = (before, rest);
        while let Some(Next { wanted, share }) = rest.next(&trials) {
            if trials.len() >= MOST_TRIALS {
                let reason = format!(
                    "no result after {MOST_TRIALS} trials: the device is not the same for long enough"
                );
                return Err(Failed::Because(reason).into());
            }
            let rate = measure::rate::short(wanted.load as f64);
            tell(
                rest.part(&trials),
                &format!("trial {}, {rate}pps for {} s", trials.len() + 1, rounded(wanted.seconds)),
            );
            let mut trial = Trial { share, ..self.trial(wanted, &mut device)? };
            let repeats = trials.iter().rev().take_while(|trial| trial.disturbed).count();
            let before = trials.iter().filter(|trial| trial.disturbed).count();
            trial.disturbed = (trial.loss() > 0.0 || share.is_some())
                && trial.waited > LONG_WAIT
                && repeats < MOST_REPEATS
                && before < MOST_DISTURBED;
            results.add(self.point, self.round, &trial).map_err(Stop::Results)?;
            rest.add(&trial);
            trials.push(trial);
        }
        match rest {
            Rest::Search(search, _)
                if search.goals().iter().all(|goal| search.outcome(goal).throughput.is_none()) =>
            {
                Err(Failed::Because("more is lost at the lowest rate (`least`)".to_owned()).into())
            }
            _ => Ok(()),
        }
    }

    fn trial(&self, wanted: Wanted, device: &mut Device) -> Result<Trial, Failed> {
        let settings = self.experiment.settings(self.point);
        let log = self.options.results.join("generator.log");
        let files = (self.options.program.as_path(), log.as_path());
        make(self.experiment, &settings, (wanted.load, wanted.seconds), device, files, self.stop)
    }

    fn warm_up(&self, measure: &Measure, device: &mut Device) -> Result<(), Failed> {
        let load = match measure {
            Measure::Search { least, most, .. } => WARM_UP_RATE.clamp(*least, *most),
            Measure::Rate { rate, .. } => WARM_UP_RATE.min(*rate),
        };
        // At least a few frames.
        let seconds = WARM_UP_SECONDS.max(20.0 / load as f64);
        // The first frames may be lost while addresses are resolved.
        for _ in 0..2 {
            if self.trial(Wanted { load, seconds }, device)?.arrived > 0 {
                return Ok(());
            }
        }
        let (to, sink) = (self.experiment.to.join(", "), self.experiment.sink.join(", "));
        Err(Failed::Because(format!(
            "nothing of what is sent to {to} comes back at {sink}: does the device forward it (addresses, `dst`, \
             `dst-mac`), and is the link up?"
        )))
    }
}

/// Seconds in a text.
fn rounded(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// A trial that is to be made; for latency, with the part of the result that its rate is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Next {
    wanted: Wanted,
    share: Option<f64>,
}

/// The trials that are still to be made.
enum Rest {
    /// Those of a search, and then those of latency at parts of its result.
    Search(Box<Search>, Vec<f64>),
    Once(Wanted),
}

impl Rest {
    /// After these trials.
    fn new(measure: &Measure, before: &[Trial]) -> Result<Self, Failed> {
        let (method, goals, least, most, latency) = match measure {
            Measure::Rate { rate, seconds } => {
                return Ok(Self::Once(Wanted { load: *rate, seconds: *seconds }));
            }
            Measure::Search { method, goals, least, most, latency } => {
                (*method, goals.clone(), *least, *most, latency.clone())
            }
        };
        let mut search = Search::new(method, goals, least, most);
        for trial in before.iter().filter(|trial| trial.counts()) {
            if search.next().is_none_or(|wanted| wanted.load != trial.rate) {
                let reason = "the results have other trials than this version of Valiant would make: start again \
                              (--restart)";
                return Err(Failed::Because(reason.to_owned()));
            }
            search.add(trial.for_search());
        }
        Ok(Self::Search(Box::new(search), latency))
    }

    fn next(&self, trials: &[Trial]) -> Option<Next> {
        let (search, latency) = match self {
            Self::Search(search, latency) => (search, latency),
            Self::Once(wanted) => {
                let open = trials.iter().all(|trial| trial.disturbed);
                return Some(Next { wanted: *wanted, share: None }).filter(|_| open);
            }
        };
        if let Some(wanted) = search.next() {
            return Some(Next { wanted, share: None });
        }
        let goal = search.goals().first()?;
        let result = search.outcome(goal).throughput?;
        let measured = |share: f64| trials.iter().any(|trial| !trial.disturbed && trial.share == Some(share));
        let share = latency.iter().copied().find(|share| !measured(*share))?;
        let load = ((result * share) as u64).max(1);
        Some(Next { wanted: Wanted { load, seconds: goal.last }, share: Some(share) })
    }

    fn add(&mut self, trial: &Trial) {
        if let Self::Search(search, _) = self
            && trial.counts()
        {
            search.add(trial.for_search());
        }
    }

    /// How much is done, by a guess.
    fn part(&self, trials: &[Trial]) -> f64 {
        match self {
            Self::Search(..) => trials.len() as f64 / (trials.len() as f64 + 12.0),
            Self::Once(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::search::{Goal, Method};

    #[test]
    fn latency_is_measured_at_parts_of_the_result() {
        let goals = vec![Goal::simple(0.0, 1.0, 0.01)];
        let latency = vec![0.5, 1.0];
        let measure = Measure::Search { method: Method::Binary, goals, least: 10, most: 1000, latency };
        let mut trials: Vec<Trial> = Vec::new();
        let mut rest = Rest::new(&measure, &trials).unwrap();
        while let Some(Next { wanted, share }) = rest.next(&trials) {
            let (rate, intended) = (wanted.load, wanted.load);
            let arrived = intended.min(400);
            // The first of those of latency has to be made again.
            let disturbed = share.is_some() && trials.iter().all(|trial| trial.share.is_none());
            let trial = Trial { rate, seconds: 1.0, share, intended, arrived, disturbed, ..Trial::default() };
            rest.add(&trial);
            trials.push(trial);
            // Whoever goes on later makes the same.
            assert_eq!(Rest::new(&measure, &trials).unwrap().next(&trials), rest.next(&trials));
            assert!(trials.len() < 50, "{trials:?}");
        }
        let good = trials.iter().filter(|trial| trial.counts() && trial.loss() == 0.0);
        let result = good.map(|trial| trial.rate).max().unwrap();
        assert!((396..=400).contains(&result), "{result}");
        let of_latency: Vec<_> = trials.iter().filter_map(|trial| Some((trial.share?, trial.rate))).collect();
        assert_eq!(of_latency, [(0.5, result / 2), (0.5, result / 2), (1.0, result)]);
        assert!(
            Rest::new(&measure, &[Trial { rate: 7, ..Trial::default() }]).is_err(),
            "nobody asked for it"
        );
    }
}
