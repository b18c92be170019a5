//! Output that is renewed until a signal comes.

use crate::StopSignals;
use crate::output;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How long a signal may go unnoticed.
const LOOK: Duration = Duration::from_millis(20);

/// What a command shows, once or again and again.
pub struct Live {
    stop: StopSignals,
    repeats: bool,
    lines: bool,
    clears: bool,
}

impl Live {
    /// `repeats`: until a signal comes; `lines`: each time it is one line, for programs.
    #[must_use]
    pub fn new(repeats: bool, lines: bool) -> Self {
        let clears = repeats && !lines && std::io::stdout().is_terminal();
        Self { stop: StopSignals::watch(), repeats, lines, clears }
    }

    /// Waits; returns false if a signal has come.
    #[must_use]
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.stop.wanted() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK));
        }
        false
    }

    /// Whether a terminal shows the text alone, and always the latest.
    #[must_use]
    pub fn clears(&self) -> bool {
        self.clears
    }

    /// How many lines the terminal has.
    #[must_use]
    pub fn lines(&self) -> usize {
        console::Term::stdout().size().0.into()
    }

    /// Shows a text. Returns whether there is to be another one.
    #[must_use]
    pub fn show(&self, text: &str) -> bool {
        // Home, and clear what is below.
        let before = if self.clears { "\x1b[H\x1b[2J" } else { "" };
        let after = if self.lines || (self.repeats && !self.clears) { "\n" } else { "" };
        output::print(&format!("{before}{text}{after}"));
        self.repeats && output::is_open()
    }
}

/// A time on the command line.
///
/// # Errors
/// It is none, or zero.
pub fn time(text: &str) -> Result<Duration, String> {
    lang::args::parse::<Duration>(text)
        .ok()
        .filter(|t| !t.is_zero())
        .ok_or_else(|| format!("'{text}' is not a time such as 1s or 500ms"))
}
