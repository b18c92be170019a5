//! An experiment, from its first trial to its last. What has been measured before is not measured again.

use crate::calibration;
use crate::command;
use crate::device::Device;
use crate::established::StepOf;
use crate::model::{Emptied, Experiment, Measure, Point, Settings};
use crate::results::Results;
use crate::tables;
use crate::trial::{Failed, Traffic, Trial, count, make};
use measure::burst;
use measure::connections::{self, Step};
use measure::rate::short;
use measure::search::{Goal, Search, Wanted};
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
/// Where the device makes its traffic itself, any wait makes it slower: the part of its workers' time that is
/// too long, and how often such a trial is made again. The least disturbed one counts.
const LONG_PART: f64 = 0.04;
const MOST_COUNTED_AGAIN: usize = 2;
/// If they waited longer than this even then, the trial has measured what else ran.
const STARVED_PART: f64 = 0.5;
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
                    // What fails because it was interrupted has not failed.
                    Err(Stop::Failed(Failed::Because(_)) | Stop::NotBegun(_)) if stop() => {
                        return Ok(Ended::Stopped);
                    }
                    Err(Stop::Failed(Failed::Because(reason))) => {
                        tell(1.0, &format!("failed: {reason}"));
                        results.end(point, round, Some(reason))?;
                    }
                    // The next run goes on after the trials that are kept.
                    Err(Stop::NotBegun(reason)) => {
                        tell(1.0, &format!("failed: {reason}"));
                        results.cannot_go_on(point, round, reason);
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
    /// The device could not be reached, started or warmed up, and there are trials of an earlier run.
    NotBegun(String),
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
        if rest.next(&before).is_none() && self.to_calibrate(&measure, &before).is_none() {
            return Ok(());
        }
        if !self.experiment.figures.is_empty() {
            tell(0.0, "running the command");
            let trial = self.command()?;
            return results.add(self.point, self.round, &trial).map_err(Stop::Results);
        }
        let mut device = self.begin(&measure, results, tell).map_err(|why| match why {
            Stop::Failed(Failed::Because(reason)) if !before.is_empty() => Stop::NotBegun(reason),
            why => why,
        })?;
        let (mut trials, mut rest) = (before, rest);
        while let Some(Next { traffic, share }) = rest.next(&trials) {
            if trials.len() >= MOST_TRIALS {
                let reason = format!(
                    "no result after {MOST_TRIALS} trials: the device is not the same for long enough"
                );
                return Err(Failed::Because(reason).into());
            }
            let rate = match measure {
                Measure::Count { .. } => String::new(),
                _ => format!(", {}pps", short(traffic.rate as f64)),
            };
            let what = match traffic.burst {
                None => format!("for {} s", rounded(traffic.seconds)),
                Some(frames) => format!("burst of {frames}"),
            };
            let what = traffic.connections.map_or(what, |all| tables::what(&all));
            tell(rest.part(&trials), &format!("trial {}{rate} {what}", trials.len() + 1));
            let made = self.trial_with_table(&measure, traffic, &mut device).map_err(|failed| match failed {
                Failed::Because(reason) => {
                    let (number, found) = (trials.len() + 1, rest.found());
                    Failed::Because(format!("in trial {number}{rate}{found}: {reason}"))
                }
                Failed::Stopped => Failed::Stopped,
            });
            let mut trial = Trial { share, ..made? };
            let repeats = trials.iter().rev().take_while(|trial| trial.disturbed).count();
            let step = |trial: &Trial| trial.connections.map(|all| all.step);
            let before = trials.iter().filter(|other| other.disturbed && step(other) == step(&trial)).count();
            let waited = if trial.counted {
                trial.part_waited() > LONG_PART
            } else {
                let lost = trial.connections.map_or(trial.loss() > 0.0, |_| !trial.holds());
                (lost || share.is_some()) && trial.waited > LONG_WAIT
            };
            let searched = trial.connections.is_some_and(|all| all.step == StepOf::Rate || !trial.holds());
            trial.disturbed = (waited || (trial.burst.is_some() || searched) && !trial.at_rate())
                && repeats < if trial.counted { MOST_COUNTED_AGAIN } else { MOST_REPEATS }
                && before < MOST_DISTURBED;
            results.add(self.point, self.round, &trial).map_err(Stop::Results)?;
            rest.add(&trial);
            trials.push(trial);
        }
        while let Some(traffic) = self.to_calibrate(&measure, &trials) {
            tell(rest.part(&trials), &format!("calibrating at {}pps", short(traffic.rate as f64)));
            let mut trial = self.trial(traffic, &mut device)?;
            let repeats =
                trials.iter().rev().take_while(|trial| trial.calibration && trial.disturbed).count();
            trial.disturbed = trial.waited > LONG_WAIT && repeats < MOST_REPEATS;
            if trial.arrived == 0 && !trial.disturbed {
                let sink =
                    self.experiment.calibrate.as_ref().map_or(String::new(), |cable| cable.sink.join(", "));
                let rate = short(traffic.rate as f64);
                let reason = format!("nothing arrives at {sink} at {rate}pps ([calibrate])");
                return Err(Failed::Because(reason).into());
            }
            results.add(self.point, self.round, &trial).map_err(Stop::Results)?;
            trials.push(trial);
        }
        let least = trials.iter().filter(|trial| trial.counted).map(Trial::part_waited).reduce(f64::min);
        if let Some(part) = least.filter(|part| *part > STARVED_PART) {
            let percent = (part * 100.0).round();
            return Err(Failed::Because(format!(
                "other programs had the processors of the device for {percent} % of the time: measure again (the same command) \
                 when the machine is less busy"
            ))
            .into());
        }
        match rest {
            Rest::Search { search, .. }
                if search.goals().iter().all(|goal| search.outcome(goal).throughput.is_none()) =>
            {
                Err(Failed::Because("more is lost at the lowest rate (`least`)".to_owned()).into())
            }
            Rest::Connections { search, .. } if search.rate().0.is_none() => {
                Err(Failed::Because(tables::none_kept(&trials)).into())
            }
            _ => Ok(()),
        }
    }

    /// Starts the device, and sees that frames come back.
    fn begin(&self, measure: &Measure, results: &mut Results, tell: &mut Tell<'_>) -> Result<Device, Stop> {
        let settings = self.experiment.settings(self.point);
        if self.experiment.calibrate.is_some() {
            tell(0.0, "calibrating generator and sink");
            self.are_joined(measure, &settings)?;
        }
        tell(0.0, "starting the device");
        let log = self.options.results.join("device.log");
        let device = Device::start(self.experiment, &settings, (&self.options.program, &log), self.stop);
        if (self.stop)() {
            return Err(Failed::Stopped.into());
        }
        let mut device = device.map_err(Failed::Because)?;
        if let Some(machine) = device.machine() {
            results.found(machine).map_err(Stop::Results)?;
        }
        self.warm_up(measure, &mut device)?;
        Ok(device)
    }

    fn command(&self) -> Result<Trial, Failed> {
        let log = self.options.results.join("device.log");
        let settings = self.experiment.settings(self.point);
        command::run(self.experiment, &settings, (&self.options.program, &log), self.stop)
    }

    fn trial(&self, traffic: Traffic, device: &mut Device) -> Result<Trial, Failed> {
        let settings = self.experiment.settings(self.point);
        if !self.experiment.counted.is_empty() {
            return count(self.experiment, &settings, traffic.seconds, device, self.stop);
        }
        let log = self.options.results.join("generator.log");
        let files = (self.options.program.as_path(), log.as_path());
        make(self.experiment, &settings, traffic, device, files, self.stop)
    }

    /// A trial; if it is of connections, the device's table is emptied before, and after one that is for
    /// that.
    fn trial_with_table(
        &self,
        measure: &Measure,
        traffic: Traffic,
        device: &mut Device,
    ) -> Result<Trial, Failed> {
        let (Measure::Connections(all), Some(wanted)) = (measure, traffic.connections) else {
            return self.trial(traffic, device);
        };
        let settings = self.experiment.settings(self.point);
        let log = self.options.results.join("empty.log");
        let table =
            tables::Table { experiment: self.experiment, settings: &settings, log: &log, stop: self.stop };
        match &all.emptied {
            Emptied::Command(text) => drop(table.empty(text)?),
            Emptied::Expire(seconds) => table.wait(*seconds, device)?,
            Emptied::Restart => {
                // The one before has to end first.
                *device = Device::Between;
                let log = self.options.results.join("device.log");
                let files = (self.options.program.as_path(), log.as_path());
                *device = Device::start(self.experiment, &settings, files, self.stop).map_err(|reason| {
                    if (self.stop)() { Failed::Stopped } else { Failed::Because(reason) }
                })?;
            }
        }
        let mut trial = self.trial(traffic, device)?;
        if let (Emptied::Command(text), Step::TearDown, Some(all)) =
            (&all.emptied, wanted.step, &mut trial.connections)
        {
            all.emptied_s = Some(table.empty(text)?);
            all.empty_s = Some(table.empty(text)?);
        }
        Ok(trial)
    }

    /// The traffic that is to be calibrated next.
    fn to_calibrate(&self, measure: &Measure, trials: &[Trial]) -> Option<Traffic> {
        self.experiment.calibrate.as_ref()?;
        calibration::next(measure, trials)
    }

    /// Whether frames go from generator to sink without the device.
    fn are_joined(&self, measure: &Measure, settings: &Settings) -> Result<(), Failed> {
        let Some(cable) = &self.experiment.calibrate else { return Ok(()) };
        let traffic = Traffic { calibration: true, ..warm_up_traffic(measure) };
        let log = self.options.results.join("generator.log");
        let files = (self.options.program.as_path(), log.as_path());
        for _ in 0..2 {
            if make(self.experiment, settings, traffic, &mut Device::Between, files, self.stop)?.arrived > 0 {
                return Ok(());
            }
        }
        let (to, sink) = (cable.to.join(", "), cable.sink.join(", "));
        Err(Failed::Because(format!(
            "nothing of what is sent to {to} arrives at {sink}: are these ports joined to each other ([calibrate]), and is the link up?"
        )))
    }

    fn warm_up(&self, measure: &Measure, device: &mut Device) -> Result<(), Failed> {
        // The first frames may be lost while addresses are resolved.
        for _ in 0..2 {
            if self.trial(warm_up_traffic(measure), device)?.arrived > 0 {
                return Ok(());
            }
        }
        if !self.experiment.counted.is_empty() {
            let elements = self.experiment.counted.join(", ");
            return Err(Failed::Because(format!(
                "no packet goes through {elements}: does the device make traffic?"
            )));
        }
        let (to, sink) = self.experiment.ends_at(&self.experiment.settings(self.point));
        let (to, sink) = (to.join(", "), sink.join(", "));
        Err(Failed::Because(format!(
            "nothing of what is sent to {to} comes back at {sink}: does the device forward it (addresses, `dst`, \
             `dst-mac`), and is the link up?"
        )))
    }
}

fn warm_up_traffic(measure: &Measure) -> Traffic {
    let rate = match measure {
        Measure::Search { least, most, .. } => WARM_UP_RATE.clamp(*least, *most),
        Measure::Rate { rate, .. } => WARM_UP_RATE.min(*rate),
        Measure::Connections(all) => WARM_UP_RATE.clamp(all.goal.least, all.goal.most),
        Measure::Count { .. } | Measure::Figures => WARM_UP_RATE,
    };
    // At least a few frames.
    Traffic { rate, seconds: WARM_UP_SECONDS.max(20.0 / rate as f64), ..Traffic::default() }
}

/// Seconds in a text.
fn rounded(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// A trial that is to be made; for latency, with the part of the result that its rate is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Next {
    traffic: Traffic,
    share: Option<f64>,
}

/// The trials that are still to be made.
enum Rest {
    /// Those of a search, then those of latency at parts of its result, then bursts at the highest rate.
    Search {
        search: Box<Search>,
        latency: Vec<f64>,
        bursts: Option<(u64, burst::Search)>,
    },
    /// Connections; the rate of answers, as a part of the rate.
    Connections {
        search: Box<connections::Search>,
        answer: f64,
    },
    Once(Traffic),
}

impl From<Wanted> for Traffic {
    fn from(wanted: Wanted) -> Self {
        Self { rate: wanted.load, seconds: wanted.seconds, ..Self::default() }
    }
}

impl Rest {
    /// After these trials.
    fn new(measure: &Measure, before: &[Trial]) -> Result<Self, Failed> {
        if let Measure::Connections(all) = measure {
            let search = Box::new(connections::Search::new(all.goal.clone()));
            return Self::Connections { search, answer: all.answer }.after(before);
        }
        let (search, latency, bursts) = match measure {
            Measure::Connections(_) | Measure::Figures => {
                return Ok(Self::Once(Traffic::default()));
            }
            Measure::Count { seconds } => {
                return Ok(Self::Once(Traffic { seconds: *seconds, ..Traffic::default() }));
            }
            Measure::Rate { rate, seconds } => {
                return Ok(Self::Once(Traffic { rate: *rate, seconds: *seconds, ..Traffic::default() }));
            }
            Measure::Search { method, goals, least, most, latency, bursts } => (
                Search::new(*method, goals.clone(), *least, *most),
                latency.clone(),
                bursts.as_ref().map(|bursts| (*most, bursts.search(*most))),
            ),
        };
        Self::Search { search: Box::new(search), latency, bursts }.after(before)
    }

    /// The same after these trials.
    fn after(self, before: &[Trial]) -> Result<Self, Failed> {
        let mut rest = self;
        let special = |trial: &Trial| trial.burst.is_some() || trial.connections.is_some();
        for trial in before.iter().filter(|trial| trial.counts() || special(trial) && !trial.disturbed) {
            if !rest.expects(trial) {
                let reason = "the results have other trials than this version of Valiant would make: start again \
                              (--restart)";
                return Err(Failed::Because(reason.to_owned()));
            }
            rest.add(trial);
        }
        Ok(rest)
    }

    /// Whether a trial of the search, or a burst, is the next.
    fn expects(&self, trial: &Trial) -> bool {
        let (search, bursts) = match self {
            Self::Search { search, bursts, .. } => (search, bursts),
            Self::Connections { search, .. } => {
                let is = trial.connections.map(|all| (all.step, all.asked, trial.rate));
                return search.next().map(|of| (of.step.into(), of.connections, of.rate)) == is;
            }
            Self::Once(_) => return true,
        };
        match trial.burst {
            None => search.next().is_some_and(|wanted| wanted.load == trial.rate),
            Some(burst) => bursts.as_ref().and_then(|(_, bursts)| bursts.next()) == Some(burst.frames),
        }
    }

    fn next(&self, trials: &[Trial]) -> Option<Next> {
        let (search, latency, bursts) = match self {
            Self::Search { search, latency, bursts } => (search, latency, bursts),
            Self::Connections { search, answer } => {
                let wanted = search.next()?;
                let traffic = Traffic {
                    rate: wanted.rate,
                    seconds: wanted.connections as f64 / wanted.rate as f64,
                    connections: Some(wanted),
                    answer: ((wanted.rate as f64 * answer) as u64).max(1),
                    ..Traffic::default()
                };
                return Some(Next { traffic, share: None });
            }
            Self::Once(traffic) => {
                let open = trials.iter().all(|trial| trial.disturbed || trial.calibration);
                return Some(Next { traffic: *traffic, share: None }).filter(|_| open);
            }
        };
        if let Some(wanted) = search.next() {
            return Some(Next { traffic: wanted.into(), share: None });
        }
        let goal = search.goals().first()?;
        let outcome = search.outcome(goal);
        let result = outcome.throughput?;
        let measured = |share: f64| trials.iter().any(|trial| !trial.disturbed && trial.share == Some(share));
        if let Some(share) = latency.iter().copied().find(|share| !measured(*share)) {
            let rate = ((result * share) as u64).max(1);
            return Some(Next {
                traffic: Traffic { rate, seconds: goal.last, ..Traffic::default() },
                share: Some(share),
            });
        }
        // What forwards at the highest rate does not fill its buffer (RFC 9004, section 6.1).
        let (rate, bursts) = bursts.as_ref().filter(|_| outcome.bounds.upper.is_some())?;
        let frames = bursts.next()?;
        let traffic = Traffic {
            rate: *rate,
            seconds: frames as f64 / *rate as f64,
            burst: Some(frames),
            ..Traffic::default()
        };
        Some(Next { traffic, share: None })
    }

    fn add(&mut self, trial: &Trial) {
        let (search, bursts) = match self {
            Self::Search { search, bursts, .. } => (search, bursts),
            Self::Connections { search, .. } => {
                if !trial.disturbed {
                    search.add(trial.holds());
                }
                return;
            }
            Self::Once(_) => return,
        };
        match bursts {
            _ if trial.counts() => search.add(trial.for_search()),
            Some((_, bursts)) if trial.burst.is_some() && !trial.disturbed => bursts.add(trial.loss() > 0.0),
            _ => {}
        }
    }

    /// What a search that cannot go on has found so far.
    fn found(&self) -> String {
        let search = match self {
            Self::Search { search, .. } => search,
            Self::Connections { search, .. } => return tables::found(search),
            Self::Once(_) => return String::new(),
        };
        let of = |goal: &Goal| {
            let bounds = search.outcome(goal).bounds;
            let rate =
                |load: Option<u64>| load.map_or("?".to_owned(), |load| format!("{}pps", short(load as f64)));
            (bounds.lower.or(bounds.upper)).map(|_| {
                format!("{} to {} with {} % lost", rate(bounds.lower), rate(bounds.upper), goal.loss * 100.0)
            })
        };
        let all: Vec<String> = search.goals().iter().filter_map(of).collect();
        if all.is_empty() { all.concat() } else { format!(" (found until then: {})", all.join("; ")) }
    }

    /// How much is done, by a guess.
    fn part(&self, trials: &[Trial]) -> f64 {
        match self {
            Self::Search { .. } | Self::Connections { .. } => {
                trials.len() as f64 / (trials.len() as f64 + 12.0)
            }
            Self::Once(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::established::Connected;
    use crate::model::{Bursts, Connections};
    use crate::trial::Burst;
    use measure::search::Method;

    /// A directory with an experiment and a program in place of the generator: it counts `$n` frames as
    /// arrived, of ten.
    struct Lab {
        dir: tempfile::TempDir,
        experiment: Experiment,
    }

    impl Lab {
        fn new(text: &str, script: &str) -> Self {
            use std::os::unix::fs::PermissionsExt;
            let dir = tempfile::tempdir().unwrap();
            let report = r#"echo '{"interrupted":false,"sent":{"made":10,"missed":0,"dropped":0,"port_full_s":0,"frames":10,"bytes":600,"kept_waiting_s":0},"received":{"received":'$n',"untracked":0,"duplicates":0,"damaged":0,"reordered":0}}'"#;
            let (file, program) = (dir.path().join("e.toml"), dir.path().join("generator"));
            std::fs::write(&program, format!("#!/bin/sh\nn=10\n{script}\n{report}\n")).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            std::fs::write(&file, format!("[traffic]\nto = \"a\"\nsink = \"b\"\n{text}")).unwrap();
            let experiment = Experiment::load(&file).unwrap();
            Self { dir, experiment }
        }

        fn results(&self) -> Results {
            let dir = self.dir.path().join("results");
            Results::open(&dir, &self.experiment, &serde_json::Value::Null, false).unwrap()
        }

        /// Runs it until it says `last`. Returns how it has ended, what it has said, and why it has failed.
        fn run(&self, last: &str) -> (Ended, Vec<String>, Option<String>) {
            let (program, results) = (self.dir.path().join("generator"), self.dir.path().join("results"));
            let (stop, mut said, mut kept) = (std::cell::Cell::new(false), Vec::new(), self.results());
            let mut tell = |_: f64, text: &str| {
                stop.set(text.contains(last));
                said.push(text.to_owned());
            };
            let options = Options { program, results };
            let ended = run(&self.experiment, &options, &mut kept, &|| stop.get(), &mut tell).unwrap();
            (ended, said, kept.of(&Point::default(), 1).failed)
        }
    }

    #[test]
    fn a_calibration_that_gets_no_frames_fails_the_point() {
        let text = "rate = 2000\n[measure]\nlast = 0.05\n[calibrate]\nto = \"c\"\nsink = \"d\"\n";
        let lab = Lab::new(text, "case \"$*\" in *--to=c*--time=0.05s*) n=0;; esac");
        let (ended, _, failed) = lab.run("nothing ends it");
        assert_eq!(ended, Ended::Failed);
        assert_eq!(failed.unwrap(), "nothing arrives at d at 2.00 kpps ([calibrate])");
    }

    #[test]
    fn trials_are_kept_if_the_device_cannot_be_reached_later() {
        let text = "[measure]\nfirst = 0.05\nlast = 0.05\nsum = 0.2\nleast = 10\nmost = 1000\n";
        let lab = Lab::new(
            text,
            "case \"$*\" in *--rate=[5-9]??pps*|*--rate=1000pps*) n=5;; esac; [ -e silent ] && n=0",
        );
        assert_eq!(lab.run("trial 3").0, Ended::Stopped);
        std::fs::write(lab.dir.path().join("silent"), "").unwrap();
        for _ in 0..2 {
            let (ended, _, failed) = lab.run("nothing ends it");
            assert_eq!(ended, Ended::Failed);
            assert!(failed.unwrap().starts_with("nothing of what is sent to a comes back at b"));
        }
        let kept = lab.results().of(&Point::default(), 1);
        assert_eq!((kept.trials.len(), kept.ended, kept.failed), (2, false, None));
        std::fs::remove_file(lab.dir.path().join("silent")).unwrap();
        let (ended, said, _) = lab.run("nothing ends it");
        assert_eq!(ended, Ended::Complete);
        assert!(said.iter().find(|text| text.contains("trial")).unwrap().starts_with("trial 3"), "{said:?}");
    }

    #[test]
    fn trials_of_connections_go_on_where_they_were() {
        let goal = connections::Goal {
            connections: 100,
            least: 10,
            most: 10_000,
            width: 0.1,
            capacity: Some((1000, 0.5)),
            tear_downs: 2,
        };
        let emptied = Emptied::Command("true".to_owned());
        let measure = Measure::Connections(Connections { goal, answer: 0.25, emptied });
        let (mut rest, mut trials) = (Rest::new(&measure, &[]).unwrap(), Vec::new());
        while let Some(Next { traffic, share: None }) = rest.next(&trials) {
            let Traffic { rate, seconds, connections: Some(wanted), answer, .. } = traffic else { panic!() };
            assert_eq!((answer, seconds), ((rate / 4).max(1), wanted.connections as f64 / rate as f64));
            let holds = rate <= 3000 && wanted.connections <= 300;
            let answered = if holds { wanted.connections } else { 0 };
            let connections = Connected {
                step: wanted.step.into(),
                asked: wanted.connections,
                established: wanted.connections,
                answered,
                wrong: 0,
                answers_missed: 0,
                seconds,
                emptied_s: None,
                empty_s: None,
            };
            // The first of all has to be made again.
            let disturbed = trials.is_empty();
            let trial =
                Trial { rate, seconds, connections: Some(connections), disturbed, ..Trial::default() };
            rest.add(&trial);
            trials.push(trial);
            assert_eq!(Rest::new(&measure, &trials).unwrap().next(&trials), rest.next(&trials));
            assert!(trials.len() < 90, "{trials:?}");
        }
        let Rest::Connections { search, .. } = rest else { panic!() };
        assert!(search.rate().0.is_some_and(|rate| (2600..=3000).contains(&rate)), "{search:?}");
        assert_eq!(search.capacity(), Some((300, Some(301))));
        let strange = Trial { rate: 7, connections: trials[1].connections, ..Trial::default() };
        assert!(Rest::new(&measure, &[strange]).is_err(), "nobody asked for it");
    }

    #[test]
    fn latency_is_measured_at_parts_of_the_result() {
        let goals = vec![Goal::simple(0.0, 1.0, 0.01)];
        let latency = vec![0.5, 1.0];
        let bursts = Some(Bursts { tests: 2, longest: 1.0, width: 0.0 });
        let measure =
            Measure::Search { method: Method::Binary, goals, least: 10, most: 1000, latency, bursts };
        let mut trials: Vec<Trial> = Vec::new();
        let mut rest = Rest::new(&measure, &trials).unwrap();
        while let Some(Next { traffic, share }) = rest.next(&trials) {
            let (rate, intended) = (traffic.rate, traffic.burst.unwrap_or(traffic.rate));
            let arrived = intended.min(if traffic.burst.is_some() { 70 } else { 400 });
            let burst = traffic.burst.map(|frames| Burst { frames, seconds: traffic.seconds });
            // The first of those of latency has to be made again.
            let disturbed = share.is_some() && trials.iter().all(|trial| trial.share.is_none());
            let seconds = traffic.seconds;
            let trial =
                Trial { rate, seconds, share, burst, intended, arrived, disturbed, ..Trial::default() };
            rest.add(&trial);
            trials.push(trial);
            // Whoever goes on later makes the same.
            assert_eq!(Rest::new(&measure, &trials).unwrap().next(&trials), rest.next(&trials));
            assert!(trials.len() < 90, "{trials:?}");
        }
        let good = trials.iter().filter(|trial| trial.counts() && trial.loss() == 0.0);
        let result = good.map(|trial| trial.rate).max().unwrap();
        assert!((396..=400).contains(&result), "{result}");
        let of_latency: Vec<_> = trials.iter().filter_map(|trial| Some((trial.share?, trial.rate))).collect();
        assert_eq!(of_latency, [(0.5, result / 2), (0.5, result / 2), (1.0, result)]);
        let Rest::Search { bursts: Some((_, bursts)), .. } = rest else { panic!("no bursts") };
        assert_eq!(bursts.lengths(), [70, 70]);
        assert!(
            Rest::new(&measure, &[Trial { rate: 7, ..Trial::default() }]).is_err(),
            "nobody asked for it"
        );
    }
}
