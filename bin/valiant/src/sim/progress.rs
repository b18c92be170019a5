//! Progress of a simulation.

use super::values::span;
use simulator::Sim;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// Progress on standard error, if that is a terminal and the run takes long.
pub(super) struct Progress {
    pub(super) began: Instant,
    shown: Option<Instant>,
    bar: bool,
    quiet: bool,
    name: String,
}

/// From when on progress is shown, and how often: as a bar, and as lines where there is no terminal.
const PATIENCE: Duration = Duration::from_secs(2);
const BAR: Duration = Duration::from_millis(200);
const LINE: Duration = Duration::from_secs(10);

impl Progress {
    pub(super) fn new(quiet: bool, name: &str) -> Self {
        let bar = std::io::stderr().is_terminal();
        Self { began: Instant::now(), shown: None, bar, quiet, name: name.to_owned() }
    }
    pub(super) fn tell(&mut self, sim: &Sim) {
        let every = if self.bar { BAR } else { LINE };
        let due = self.shown.map_or(self.began.elapsed() >= PATIENCE, |t| t.elapsed() >= every);
        if self.quiet || !due {
            return;
        }
        self.shown = Some(Instant::now());
        let done = sim.progress();
        let left = self.began.elapsed().as_secs_f64() * (1.0 / done.max(1e-6) - 1.0);
        let full = (done * 30.0) as usize;
        let end = sim.config().warm_ns + sim.config().time_ns;
        let text = format!(
            "{}[{}{}] {:3.0} %  {} of {}  {} packets in flight  {left:.0} s left",
            self.name,
            "#".repeat(full),
            ".".repeat(30 - full),
            done * 100.0,
            span(sim.now_ns()),
            span(end),
            sim.size().0
        );
        // Errors do not matter here.
        let _ = if self.bar {
            write!(std::io::stderr(), "\r{text}\x1b[K")
        } else {
            writeln!(std::io::stderr(), "{text}")
        };
    }
    pub(super) fn done(&self) {
        if self.bar && self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
