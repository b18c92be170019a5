//! The table of connections that a device keeps: how it is emptied, and what trials say of it.

use crate::child::{Child, End};
use crate::device::Device;
use crate::log::tail;
use crate::model::{Experiment, Settings};
use crate::trial::{Failed, Trial};
use measure::connections::{Search, Step, Wanted};
use measure::rate::short;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A command that takes longer is ended.
const LONGEST: Duration = Duration::from_secs(120);
/// Its time is measured as finely as this.
const POLL: Duration = Duration::from_micros(200);
/// How often is looked whether to stop while connections expire.
const EXPIRE_POLL: Duration = Duration::from_millis(10);

/// The device's table.
pub(crate) struct Table<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) settings: &'a Settings,
    /// Gets what a command says.
    pub(crate) log: &'a Path,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl Table<'_> {
    /// Runs the command that empties it. Returns how long that took, in seconds.
    pub(crate) fn empty(&self, text: &str) -> Result<f64, Failed> {
        let because = |text: String| Failed::Because(text);
        let cannot = |e: &std::io::Error| {
            because(format!("cannot write {}: {}", self.log.display(), launch::reason(e)))
        };
        let output = File::create(self.log).map_err(|e| cannot(&e))?;
        let errors = output.try_clone().map_err(|e| cannot(&e))?;
        let variables = self.settings.iter();
        let variables: Vec<(String, String)> = variables
            .filter_map(|(name, value)| Some((name.strip_prefix('$')?.to_owned(), value.clone())))
            .collect();
        let words: [OsString; 2] = ["-c".into(), text.into()];
        let files: (Stdio, Stdio) = (output.into(), errors.into());
        let began = Instant::now();
        let mut child = Child::start(OsStr::new("/bin/sh"), &words, &self.experiment.dir, &variables, files)
            .map_err(because)?;
        let end = loop {
            if let Some(end) = child.ended() {
                break end;
            }
            if (self.stop)() {
                return Err(Failed::Stopped);
            }
            if began.elapsed() > LONGEST {
                let seconds = LONGEST.as_secs();
                return Err(because(format!("the command `empty` has not ended after {seconds} s")));
            }
            std::thread::sleep(POLL);
        };
        let seconds = began.elapsed().as_secs_f64();
        if end != End::Code(0) {
            return Err(because(format!("the command `empty` has failed ({end}): {}", tail(self.log))));
        }
        Ok(seconds)
    }

    /// Waits until all connections have expired.
    pub(crate) fn wait(&self, seconds: f64, device: &mut Device) -> Result<(), Failed> {
        let began = Instant::now();
        while began.elapsed().as_secs_f64() < seconds {
            if (self.stop)() {
                return Err(Failed::Stopped);
            }
            if let Some(end) = device.ended() {
                return Err(Failed::Because(end));
            }
            std::thread::sleep(EXPIRE_POLL);
        }
        Ok(())
    }
}

/// A trial in words.
pub(crate) fn what(wanted: &Wanted) -> String {
    let what = match wanted.step {
        Step::Rate => "",
        Step::Capacity => " for the capacity",
        Step::TearDown => " to be torn down",
    };
    format!("{} connections{what}", wanted.connections)
}

/// Why there is no rate, as the last trial shows.
pub(crate) fn none_kept(trials: &[Trial]) -> String {
    let Some(last) = trials.iter().rev().find(|trial| !trial.disturbed) else {
        return "no trial was free of disturbance".to_owned();
    };
    let Some(all) = last.connections else { return "no connections".to_owned() };
    let rate = format!("{}pps, the lowest rate (`least`)", short(last.rate as f64));
    if all.established >= all.asked && all.answered >= all.asked {
        return format!("the generator does not send {rate}");
    }
    if all.established < all.asked {
        return format!("of {} connections only {} are set up at {rate}", all.asked, all.established);
    }
    let wrong = match all.wrong {
        0 => String::new(),
        wrong => format!(", {wrong} with the addresses or ports of others"),
    };
    format!(
        "the device does not keep connections: of {} that were set up at {rate} {} answer{wrong}",
        all.asked, all.answered
    )
}

/// What a search has found so far.
pub(crate) fn found(search: &Search) -> String {
    let (lower, upper) = search.rate();
    let rate = |rate: Option<u64>| rate.map_or("?".to_owned(), |rate| short(rate as f64));
    if lower.or(upper).is_none() {
        return String::new();
    }
    let capacity = search.capacity().map_or_else(String::new, |(lower, upper)| {
        format!("; {lower} to {} connections", upper.map_or("?".to_owned(), |upper| upper.to_string()))
    });
    format!(" (found until then: {} to {} connections a second{capacity})", rate(lower), rate(upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::established::{Connected, StepOf};

    /// Runs a command that empties a table, and returns how long that took, or why it did not.
    fn emptied(command: &str, stop: &dyn Fn() -> bool) -> Result<f64, Failed> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("e.toml");
        std::fs::write(&file, "[traffic]\nto = \"a\"\nsink = \"b\"\n").unwrap();
        let experiment = Experiment::load(&file).unwrap();
        let settings = [("$WORD".to_owned(), "7".to_owned())].into_iter().collect();
        let log = dir.path().join("log");
        Table { experiment: &experiment, settings: &settings, log: &log, stop }.empty(command)
    }

    #[test]
    fn a_command_empties_the_table_or_says_why_not() {
        assert!(emptied("test -e e.toml && test $WORD = 7", &|| false).unwrap() > 0.0);
        let Err(Failed::Because(reason)) = emptied("echo no table >&2; exit 3", &|| false) else { panic!() };
        assert!(reason.contains("`empty` has failed (exit status 3): no table"), "{reason}");
        assert!(matches!(emptied("sleep 100", &|| true), Err(Failed::Stopped)));
    }

    #[test]
    fn the_reason_says_what_was_missing() {
        let reason = |established, answered, wrong, missed| {
            let connections = Some(Connected {
                step: StepOf::Rate,
                asked: 10,
                established,
                answered,
                wrong,
                answers_missed: 0,
                seconds: 0.01,
                emptied_s: None,
                empty_s: None,
            });
            let trial = Trial { rate: 1000, seconds: 0.01, missed, connections, ..Trial::default() };
            none_kept(&[trial.clone(), Trial { disturbed: true, ..trial }])
        };
        assert_eq!(
            reason(9, 0, 0, 0),
            "of 10 connections only 9 are set up at 1.00 kpps, the lowest rate (`least`)"
        );
        assert!(reason(10, 1, 8, 0).ends_with("(`least`) 1 answer, 8 with the addresses or ports of others"));
        assert!(reason(10, 1, 8, 0).starts_with("the device does not keep connections: of 10 that"));
        assert!(reason(10, 10, 0, 5).starts_with("the generator does not send 1.00 kpps"));
        assert!(none_kept(&[]).starts_with("no trial"));
    }
}
