//! An experiment, from its first trial to its last. What has been measured before is not measured again.

use crate::calibration;
use crate::command;
use crate::device::Device;
use crate::established::StepOf;
use crate::made::{count, make};
use crate::model::{Emptied, Experiment, Measure, Point, SetUp, Settings};
use crate::rest::{Next, Rest};
use crate::results::Results;
use crate::rows::Row;
use crate::tables;
use crate::trial::{Failed, Traffic, Trial};
use measure::connections::Step;
use measure::rate::short;
use std::path::{Path, PathBuf};

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
    let mut whole = Whole { experiment, options, stop, ended: Ended::Complete };
    let planned = points.len() * experiment.rounds as usize;
    for round in 1..=experiment.rounds {
        for (number, point) in points.iter().enumerate() {
            let done = (round as usize - 1) * points.len() + number;
            let mut tell = |part: f64, text: &str| {
                let of = if experiment.rounds > 1 { format!("round {round}, ") } else { String::new() };
                tell((done as f64 + part) / planned as f64, &format!("{of}{text}"));
            };
            if !whole.point(point, round, results, &mut tell)? {
                return Ok(Ended::Stopped);
            }
        }
    }
    for round in experiment.rounds + 1..=experiment.most_rounds() {
        let wide: Vec<&Point> =
            points.iter().filter(|point| is_wide(experiment, point, results, round - 1)).collect();
        for (number, point) in wide.iter().enumerate() {
            let mut tell = |part: f64, text: &str| {
                let all = (planned + wide.len()) as f64;
                let text = format!("round {round}, as the others differ too much, {text}");
                tell(((planned + number) as f64 + part) / all, &text);
            };
            if !whole.point(point, round, results, &mut tell)? {
                return Ok(Ended::Stopped);
            }
        }
    }
    Ok(whole.ended)
}

/// Whether the first rounds of a point differ too much.
fn is_wide(experiment: &Experiment, point: &Point, results: &Results, rounds: u32) -> bool {
    let rows = Row::all(experiment, point, results, rounds);
    rows.iter().any(|row| row.failed.is_empty() && row.spread().is_some_and(|one| one > experiment.spread))
}

/// An experiment on its way.
struct Whole<'a> {
    experiment: &'a Experiment,
    options: &'a Options,
    stop: &'a dyn Fn() -> bool,
    ended: Ended,
}

impl Whole<'_> {
    /// Measures a point in a round, unless that has been done. Returns whether to go on.
    fn point(
        &mut self,
        point: &Point,
        round: u32,
        results: &mut Results,
        tell: &mut Tell<'_>,
    ) -> Result<bool, String> {
        let shown = results.of(point, round);
        // What has failed before may be mended.
        if !shown.ended || shown.failed.is_some() {
            let mut tell = |part: f64, text: &str| tell(part, &format!("{}{text}", point.prefix()));
            let (experiment, options, stop) = (self.experiment, self.options, self.stop);
            let one = One { experiment, options, point, round, stop };
            match one.run(results, &mut tell) {
                Ok(()) => results.end(point, round, None)?,
                // What fails because it was interrupted has not failed.
                Err(Stop::Failed(Failed::Because(_)) | Stop::NotBegun(_)) if stop() => return Ok(false),
                Err(Stop::Failed(Failed::Because(reason))) => {
                    tell(1.0, &format!("failed: {reason}"));
                    results.end(point, round, Some(reason))?;
                }
                // The next run goes on after the trials that are kept.
                Err(Stop::NotBegun(reason)) => {
                    tell(1.0, &format!("failed: {reason}"));
                    results.cannot_go_on(point, round, reason);
                }
                Err(Stop::Failed(Failed::Stopped)) => return Ok(false),
                Err(Stop::Results(message)) => return Err(message),
            }
        }
        if results.of(point, round).failed.is_some() {
            self.ended = Ended::Failed;
        }
        Ok(true)
    }
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
            trial.disturbed =
                (waited || trial.ended_late() || (trial.burst.is_some() || searched) && !trial.at_rate())
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
                let last = trials.iter().rev().find(|trial| trial.counts()).and_then(|trial| trial.existing);
                let why =
                    last.and_then(|all| all.words()).map_or(String::new(), |words| format!(": {words}"));
                Err(Failed::Because(format!("more is lost at the lowest rate (`least`){why}")).into())
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

    /// A trial; if it is of connections, or over some, the device's table is emptied before, and after one
    /// that is for that.
    fn trial_with_table(
        &self,
        measure: &Measure,
        traffic: Traffic,
        device: &mut Device,
    ) -> Result<Trial, Failed> {
        let emptied = match (measure, &self.experiment.set_up) {
            (Measure::Connections(all), _) if traffic.connections.is_some() => &all.emptied,
            (_, Some(set_up)) => return self.over_existing(set_up, traffic, device),
            _ => return self.trial(traffic, device),
        };
        self.empty(emptied, device)?;
        let mut trial = self.trial(traffic, device)?;
        let torn_down = traffic.connections.is_some_and(|wanted| wanted.step == Step::TearDown);
        if let (Emptied::Command(text), true, Some(all)) = (emptied, torn_down, &mut trial.connections) {
            let settings = self.experiment.settings(self.point);
            let log = self.options.results.join("empty.log");
            let table = self.table(&settings, &log);
            all.emptied_s = Some(table.empty(text)?);
            all.empty_s = Some(table.empty(text)?);
        }
        Ok(trial)
    }

    /// A trial over connections that are set up before.
    fn over_existing(&self, set_up: &SetUp, traffic: Traffic, device: &mut Device) -> Result<Trial, Failed> {
        let mut tries = 0;
        loop {
            self.empty(&set_up.emptied, device)?;
            let trial = self.trial(traffic, device)?;
            let Some(few) = trial.existing.filter(|all| !all.all_set_up()) else { return Ok(trial) };
            tries += 1;
            if tries > MOST_REPEATS {
                let rate = short(set_up.rate as f64);
                return Err(Failed::Because(format!(
                    "of {} connections (`flows`) only {} are set up at {rate}pps (`set-up`)",
                    few.asked, few.established
                )));
            }
        }
    }

    fn table<'s>(&'s self, settings: &'s Settings, log: &'s Path) -> tables::Table<'s> {
        tables::Table { experiment: self.experiment, settings, log, stop: self.stop }
    }

    /// Empties the device's table of connections.
    fn empty(&self, emptied: &Emptied, device: &mut Device) -> Result<(), Failed> {
        let settings = self.experiment.settings(self.point);
        let log = self.options.results.join("empty.log");
        let table = self.table(&settings, &log);
        match emptied {
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
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let report = r#"echo '{"interrupted":false,"sent":{"made":10,"missed":0,"dropped":0,"seconds":0,"port_full_s":0,"frames":10,"bytes":600,"kept_waiting_s":0},"received":{"received":'$n',"untracked":0,"duplicates":0,"damaged":0,"reordered":0}}'"#;
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
}
