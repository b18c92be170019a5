//! A device under test that runs on another host, where an agent starts and measures it.

use crate::connection::Connection;
use crate::cost::{Cost, Stats};
use crate::local::ended;
use crate::log::Log;
use crate::model::{Experiment, Host};
use crate::protocol::{Ask, Bytes, Hello, PART, Say, readable};
use crate::start::Start;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an agent may take to answer, beside what it does.
const ANSWER: Duration = Duration::from_secs(10);

/// An agent on another host, and its device.
pub(crate) struct Remote {
    connection: Connection,
    hello: Hello,
    /// What the device says.
    log: Log,
    /// How long the device may take to be ready, or to answer on its control socket.
    ready: Duration,
}

/// An answer that is not to what was asked.
fn strange<T>(say: &Say) -> Result<T, String> {
    let say = readable(&format!("{say:?}"));
    Err(format!("the agent on the device's host has answered something else: {say}"))
}

impl Remote {
    /// Reaches the agent. `log` gets what the device says; what the agent says beside is in `agent.log` at
    /// its side.
    pub(crate) fn reach(
        experiment: &Experiment,
        host: &Host,
        log: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let errors = log.with_file_name("agent.log");
        let (log, output) = Log::create(log)?;
        let mut words = host.command.clone();
        words.extend([host.valiant.as_str(), "bench", "agent"].map(str::to_owned));
        let (connection, hello) = Connection::open((&words, &experiment.dir), output, &errors, stop)?;
        Ok(Self { connection, hello, log, ready: experiment.ready })
    }

    /// The machine that it runs on.
    pub(crate) fn machine(&self) -> &Value {
        &self.hello.machine
    }

    /// Whether that is another one than this.
    pub(crate) fn is_apart(&self) -> bool {
        self.hello.boot != crate::machine::boot()
    }

    /// Sends the files of the device, starts it, and waits until it is ready.
    pub(crate) fn start(
        &mut self,
        start: &Start,
        files: &[(PathBuf, PathBuf)],
        stop: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        for (name, path) in files {
            self.send(name, path, stop)?;
        }
        match self.connection.ask(&Ask::Start(start.clone()), 2 * self.ready + ANSWER, stop)? {
            Say::Done => Ok(()),
            Say::NotStarted(why) => Err(why.message(&self.log.last_words())),
            other => strange(&other),
        }
    }

    fn send(&mut self, name: &Path, path: &Path, stop: &dyn Fn() -> bool) -> Result<(), String> {
        let cannot = |e: std::io::Error| format!("cannot read {}: {}", path.display(), launch::reason(&e));
        let mut file = File::open(path).map_err(cannot)?;
        let executable = file.metadata().map_err(cannot)?.permissions().mode() & 0o111 != 0;
        let mut first = true;
        loop {
            let mut bytes = Vec::new();
            (&mut file).take(PART as u64).read_to_end(&mut bytes).map_err(cannot)?;
            let last = bytes.len() < PART;
            let part = Ask::Part { name: name.to_owned(), first, executable, bytes: Bytes(bytes) };
            match self.connection.ask(&part, ANSWER, stop)? {
                Say::Done if last => return Ok(()),
                Say::Done => first = false,
                other => return strange(&other),
            }
        }
    }

    /// Asks something that takes no longer than an answer of the device.
    fn ask(&mut self, ask: &Ask, stop: &dyn Fn() -> bool) -> Result<Say, String> {
        self.connection.ask(ask, 2 * self.ready + ANSWER, stop)
    }

    /// How long its threads have waited for a processor since they began.
    pub(crate) fn kept_waiting(&mut self, stop: &dyn Fn() -> bool) -> Result<Duration, String> {
        match self.ask(&Ask::Waited, stop)? {
            Say::Waited(waited) => Ok(waited),
            other => strange(&other),
        }
    }

    /// What its router has counted, if it is a program of Valiant's.
    pub(crate) fn stats(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Stats>, String> {
        match self.ask(&Ask::Stats, stop)? {
            Say::Stats(stats) => Ok(stats),
            other => strange(&other),
        }
    }

    /// Begins to measure its cost.
    pub(crate) fn begin(&mut self, stop: &dyn Fn() -> bool) -> Result<(), String> {
        match self.ask(&Ask::Begin, stop)? {
            Say::Done => Ok(()),
            other => strange(&other),
        }
    }

    /// What it has cost since.
    pub(crate) fn end(&mut self, stop: &dyn Fn() -> bool) -> Result<Cost, String> {
        match self.ask(&Ask::End, stop)? {
            Say::Cost(cost) => Ok(*cost),
            other => strange(&other),
        }
    }

    /// That it has ended, with its last words, or that it cannot be reached any more.
    pub(crate) fn ended(&mut self) -> Option<String> {
        if let Some(how) = self.connection.ended() {
            return Some(ended(how, &self.log.last_words()));
        }
        self.connection.lost()
    }
}
