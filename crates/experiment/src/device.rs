//! The device under test, wherever it is.

use crate::cost::{Cost, Stats};
use crate::local::{Local, Place, ended};
use crate::log::Log;
use crate::meter::Meter;
use crate::model::{Experiment, Settings};
use crate::remote::Remote;
use crate::start::Start;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// The device under test.
pub(crate) enum Device {
    /// What is between the ports.
    Between,
    /// A process of this machine's.
    Here { local: Box<Local>, log: Log, meter: Option<Box<Meter>> },
    /// One on another host.
    There(Box<Remote>),
}

impl Device {
    /// Starts it, and waits until it is ready. `valiant` runs programs here; `log` gets what it says.
    pub(crate) fn start(
        experiment: &Experiment,
        settings: &Settings,
        (valiant, log): (&Path, &Path),
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, String> {
        if let Some(host) = &experiment.host {
            let mut remote = Remote::reach(experiment, host, log, stop)?;
            if let Some(start) = Start::new(experiment, settings, remote.is_apart()) {
                let files = start.files(experiment);
                remote.start(&start.there(&experiment.dir), &files, stop)?;
            }
            return Ok(Self::There(Box::new(remote)));
        }
        let Some(start) = Start::new(experiment, settings, false) else { return Ok(Self::Between) };
        let place = Place { valiant, dir: &experiment.dir, log };
        let (log, output) = Log::create(log)?;
        let errors = output.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        let started = Local::start(&start, &place, (output.into(), errors), stop);
        let local = started.map_err(|why| why.message(&log.last_words()))?;
        Ok(Self::Here { local: Box::new(local), log, meter: None })
    }

    /// Whether it has a machine of its own.
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self, Self::There(remote) if remote.is_apart())
    }

    /// The machine that it runs on, if an agent has said that.
    pub(crate) fn machine(&self) -> Option<&Value> {
        match self {
            Self::There(remote) => Some(remote.machine()),
            Self::Between | Self::Here { .. } => None,
        }
    }

    /// How long its threads have waited for a processor since they began.
    pub(crate) fn kept_waiting(&mut self, stop: &dyn Fn() -> bool) -> Result<Duration, String> {
        match self {
            Self::Between => Ok(Duration::ZERO),
            Self::Here { local, .. } => Ok(local.kept_waiting()),
            Self::There(remote) => remote.kept_waiting(stop),
        }
    }

    /// What its router has counted, if it is a program of Valiant's.
    pub(crate) fn stats(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Stats>, String> {
        match self {
            Self::Between => Ok(None),
            Self::Here { local, .. } => Ok(local.stats()),
            Self::There(remote) => remote.stats(stop),
        }
    }

    /// Begins to measure what it costs, before there is traffic.
    pub(crate) fn begin(&mut self, stop: &dyn Fn() -> bool) -> Result<(), String> {
        match self {
            Self::Between => {}
            Self::Here { local, meter, .. } => *meter = Some(Box::new(Meter::begin(local))),
            Self::There(remote) => remote.begin(stop)?,
        }
        Ok(())
    }

    /// What it has cost, when the traffic has ended; none: it is no process that is known.
    pub(crate) fn end(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Cost>, String> {
        match self {
            Self::Between => Ok(None),
            Self::Here { local, meter, .. } => Ok(meter.take().map(|meter| meter.end(local))),
            Self::There(remote) => remote.end(stop).map(Some),
        }
    }

    /// That it has ended, and its last words, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        match self {
            Self::Between => None,
            Self::Here { local, log, .. } => Some(ended(&local.ended()?.to_string(), &log.last_words())),
            Self::There(remote) => remote.ended(),
        }
    }
}
