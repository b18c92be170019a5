//! A device under test that runs on this machine.

use crate::child::{Child, End};
use crate::cost::Stats;
use crate::place::places;
use crate::start::{Start, What};
use launch::Client;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);
/// Names of sockets are shorter.
const LONGEST_SOCKET: usize = 100;

/// A control socket with such a name: beside it, or elsewhere if that is too long a name for a socket.
fn socket_of(log: &Path) -> PathBuf {
    let beside = log.with_extension("sock");
    if beside.as_os_str().len() < LONGEST_SOCKET {
        return beside;
    }
    std::env::temp_dir().join(format!("valiant-bench-{}.sock", std::process::id()))
}

/// Where a device runs.
pub(crate) struct Place<'a> {
    /// The program that runs programs: `valiant`.
    pub(crate) valiant: &'a Path,
    /// The directory where it is started.
    pub(crate) dir: &'a Path,
    /// Its control socket is called after this file.
    pub(crate) log: &'a Path,
}

/// Why a device has not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NotStarted {
    /// It has ended, so.
    Ended(String),
    /// It is not ready after this time.
    Late(Duration),
    /// It cannot be started.
    Because(String),
}

impl NotStarted {
    /// A message with its last words.
    pub(crate) fn message(&self, words: &str) -> String {
        match self {
            Self::Ended(how) => ended(how, words),
            Self::Late(ready) => {
                let seconds = ready.as_secs_f64();
                format!("the device is not ready after {seconds} s (`ready` in [device]): {words}")
            }
            Self::Because(why) => why.clone(),
        }
    }
}

/// That a device has ended, with its last words.
pub(crate) fn ended(how: &str, words: &str) -> String {
    format!("the device has ended ({how}): {words}")
}

/// A device that runs here.
pub(crate) struct Local {
    child: Child,
    /// The control socket of a program.
    client: Option<Client>,
}

impl Local {
    /// Starts it, and waits until it is ready.
    pub(crate) fn start(
        start: &Start,
        place: &Place<'_>,
        output: (Stdio, Stdio),
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, NotStarted> {
        let socket = socket_of(place.log);
        let (command, words, environment) = match &start.what {
            What::Program(path) => {
                let mut words: Vec<OsString> = vec!["run".into(), "-u".into(), socket.clone().into()];
                let chosen = || start.processors.and_then(|n| places(0, n).device);
                let cpus = start.cpus.clone().or_else(chosen);
                words.extend(cpus.map(|list| format!("--cpus={list}").into()));
                words.extend(start.options.iter().map(OsString::from));
                words.push(path.into());
                words.extend(start.variables.iter().map(|(name, value)| format!("{name}={value}").into()));
                (place.valiant.as_os_str(), words, &[][..])
            }
            What::Command(text) => {
                (OsStr::new("/bin/sh"), vec!["-c".into(), text.into()], start.variables.as_slice())
            }
        };
        // One that was killed may have left it.
        let _ = std::fs::remove_file(&socket);
        let child = Child::start(command, &words, place.dir, environment, output);
        let mut device = Self { child: child.map_err(NotStarted::Because)?, client: None };
        let began = Instant::now();
        while !stop() {
            if let Some(end) = device.ended() {
                return Err(NotStarted::Ended(end.to_string()));
            }
            let waited = began.elapsed() >= start.ready;
            match &start.what {
                What::Program(_) => {
                    if let Ok(client) = Client::connect_within(&socket.to_string_lossy(), start.ready) {
                        device.client = Some(client);
                        break;
                    }
                    if waited {
                        return Err(NotStarted::Late(start.ready));
                    }
                }
                What::Command(_) if waited => break,
                What::Command(_) => {}
            }
            std::thread::sleep(POLL);
        }
        Ok(device)
    }

    /// How long its threads have waited for a processor since they began.
    pub(crate) fn kept_waiting(&self) -> Duration {
        self.processes().into_iter().map(launch::kept_waiting).sum()
    }

    /// Its processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.child.processes()
    }

    /// What its router has counted, if it is a program of Valiant's.
    pub(crate) fn stats(&mut self) -> Option<Stats> {
        // A router that does not answer has no cost; whether it has ended is asked anyway.
        self.client.as_mut()?.read("load.json", "").ok().and_then(|text| Stats::read(&text))
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<End> {
        self.child.ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_socket_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(socket_of(&log), dir.path().join("log.sock"));
        let deep = dir.path().join("d".repeat(120)).join("log");
        assert!(socket_of(&deep).as_os_str().len() < LONGEST_SOCKET);
    }
}
